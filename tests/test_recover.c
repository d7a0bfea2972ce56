/* The ladder with a scripted op: what each rung sees is laid down, what it concludes is tested. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "check/recover.h"

/* One value stands for a whole result. good is right; everything else fails the check unless it is `tail`, which only
 * rounding makes suspect. */
enum { GOOD = 7, TAIL = 8 };

typedef struct fake {
  int buf[3];
  int first_path[3]; /* what the op's own path gives, call by call */
  int calls, other_path, others;
  rdt_rest rest;
  bool checker_broken; /* the check cries at anything until secure() has run */
  bool cannot, part;   /* no bound at all; none for a part */
  bool apart;
  int rebuilt; /* what the checksums give; 0: declined */
} fake;

static rdt_status secure(void *self, rdt_rest *rest, rdt_reason *why) {
  fake *f = self;
  (void)why;
  *rest = f->rest;
  f->checker_broken = false;
  return RDT_OK;
}

static rdt_status compute(void *self, rdt_buffer into, bool other, rdt_reason *why) {
  fake *f = self;
  (void)why;
  f->buf[into] = other ? f->other_path : f->first_path[f->calls++];
  f->others += other;
  return RDT_OK;
}

static rdt_status check(void *self, rdt_buffer which, rdt_findings *f, rdt_reason *why) {
  const fake *k = self;
  const rdt_bound finite = {100.0, 1.0}, none = {NAN, NAN};
  (void)why;
  const double residual = k->checker_broken       ? 1000.0
                          : k->buf[which] == GOOD ? 0.0
                          : k->buf[which] == TAIL ? 2.0
                                                  : 1000.0;
  rdt_findings_check(f, RDT_CHECK_ROW, 0, -1, residual, 0.0, k->cannot ? none : finite);
  if (k->part) rdt_findings_check(f, RDT_CHECK_ROW, 1, -1, 0.0, 0.0, none);
  return RDT_OK;
}

static int64_t differ(void *self, rdt_buffer a, rdt_buffer b, int64_t *first) {
  const fake *f = self;
  *first = f->buf[a] != f->buf[b] ? 0 : -1;
  return f->buf[a] != f->buf[b];
}

static bool apart(void *self, rdt_buffer a, rdt_buffer b, const rdt_findings *suspects) {
  (void)a, (void)b, (void)suspects;
  return ((fake *)self)->apart;
}

static void accept(void *self, rdt_buffer from) {
  fake *f = self;
  f->buf[RDT_BUF_RESULT] = f->buf[from];
}

static double value(void *self, rdt_buffer which, int64_t element) {
  return ((fake *)self)->buf[which] + (double)element;
}

static rdt_status rebuild(void *self, rdt_buffer into, rdt_rebuilt *b, rdt_reason *why) {
  fake *f = self;
  (void)why;
  f->buf[into] = f->rebuilt ? f->rebuilt : f->buf[RDT_BUF_RESULT];
  *b = (rdt_rebuilt){.count = f->rebuilt != 0, .bound = 0.5, .passed = f->rebuilt == GOOD};
  return RDT_OK;
}

static void expect_rungs(const rdt_recovered *out, int n, const char *const *words) {
  assert_int_equal(out->n_rungs, n);
  for (int i = 0; i < n; i++) {
    char rung[64];
    snprintf(rung, sizeof rung, "%s: %s", out->rungs[i].name, out->rungs[i].outcome);
    assert_string_equal(rung, words[i]);
    assert_true(out->rungs[i].seconds >= 0.0);
  }
}

static rdt_recovered climb_with(fake *f, bool repair, bool voted, bool corrects) {
  const rdt_recovery r = {.self = f,
                          .secure = secure,
                          .compute = compute,
                          .check = check,
                          .differ = differ,
                          .apart = apart,
                          .accept = accept,
                          .value = value,
                          .rebuild = corrects ? rebuild : NULL};
  rdt_recovered out;
  const rdt_status s = voted ? rdt_recover_voted(&r, repair, &out, NULL) : rdt_recover_checked(&r, repair, &out, NULL);
  assert_int_equal(s, RDT_OK);
  return out;
}

static rdt_recovered climb(fake *f, bool repair, bool voted) {
  return climb_with(f, repair, voted, false);
}

static void expect(rdt_recovered out, rdt_verdict v, rdt_diagnosis d, const char *what, int changed) {
  assert_int_equal(out.verdict, v);
  assert_int_equal(out.diagnosis, d);
  if (what) assert_string_equal(out.what, what);
  assert_int_equal(out.changed, changed);
}

static void transient_fault_is_recomputed(void **state) {
  fake f = {.buf = {1}, .first_path = {GOOD}};
  const rdt_recovered out = climb(&f, true, false);
  (void)state;
  expect(out, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "result", 1);
  assert_true(out.fault);
  assert_int_equal(f.buf[RDT_BUF_RESULT], GOOD);
  assert_int_equal(f.others, 0);
}

static void report_only_leaves_the_result(void **state) {
  fake f = {.buf = {1}, .first_path = {GOOD}};
  const rdt_recovered out = climb(&f, false, false);
  (void)state;
  expect(out, RDT_DETECTED, RDT_DIAG_TRANSIENT, "result", 1);
  assert_int_equal(f.buf[RDT_BUF_RESULT], 1);
}

static void broken_checker_is_told_from_broken_data(void **state) {
  fake f = {.buf = {GOOD}, .first_path = {GOOD}, .checker_broken = true, .rest = {.checksum = true}};
  const rdt_recovered out = climb(&f, true, false);
  (void)state;
  expect(out, RDT_RECOMPUTED, RDT_DIAG_CHECKER, "checksum", 0);
  assert_int_equal(f.buf[RDT_BUF_RESULT], GOOD);
}

static void rotten_weight_is_memory(void **state) {
  fake f = {.buf = {1}, .first_path = {GOOD}, .rest = {.weight = true}};
  (void)state;
  expect(climb(&f, true, false), RDT_RECOMPUTED, RDT_DIAG_MEMORY, "weight", 1);
  fake lost = {.buf = {1}, .first_path = {GOOD}, .rest = {.weight = true, .lost = true}};
  expect(climb(&lost, true, false), RDT_DETECTED, RDT_DIAG_MEMORY, "weight", 0);
}

static void persistent_fault_takes_the_other_path(void **state) {
  fake f = {.buf = {1}, .first_path = {1}, .other_path = GOOD, .apart = true};
  (void)state;
  expect(climb(&f, true, false), RDT_RECOMPUTED, RDT_DIAG_PERSISTENT, "result", 1);
  assert_int_equal(f.buf[RDT_BUF_RESULT], GOOD);
  assert_int_equal(f.others, 1);
}

static void both_paths_wrong_is_detected(void **state) {
  fake f = {.buf = {1}, .first_path = {1}, .other_path = 2, .apart = true};
  (void)state;
  expect(climb(&f, true, false), RDT_DETECTED, RDT_DIAG_PERSISTENT, "result", 0);
}

static void rounding_tail_is_no_fault(void **state) {
  fake f = {.buf = {TAIL}, .first_path = {TAIL}, .other_path = TAIL};
  const rdt_recovered out = climb(&f, true, false);
  (void)state;
  expect(out, RDT_CLEAN, RDT_DIAG_NONE, NULL, 0);
  assert_false(out.fault);
  assert_int_equal(f.buf[RDT_BUF_RESULT], TAIL);
}

static void tail_that_no_other_path_confirms_is_a_fault(void **state) {
  fake f = {.buf = {TAIL}, .first_path = {TAIL}, .other_path = GOOD, .apart = true};
  (void)state;
  expect(climb(&f, true, false), RDT_RECOMPUTED, RDT_DIAG_PERSISTENT, "result", 1);
}

static void no_bound_goes_by_bits(void **state) {
  fake same = {.buf = {3}, .first_path = {3}, .cannot = true};
  rdt_recovered out = climb(&same, true, false);
  (void)state;
  expect(out, RDT_UNCHECKED, RDT_DIAG_NONE, NULL, 0);
  assert_false(out.fault);
  fake hit = {.buf = {3}, .first_path = {4, 4}, .cannot = true};
  out = climb(&hit, true, false);
  expect(out, RDT_UNCHECKED, RDT_DIAG_TRANSIENT, "result", 1);
  assert_true(out.fault);
  assert_int_equal(hit.buf[RDT_BUF_RESULT], 4);
  fake wild = {.buf = {3}, .first_path = {4, 5}, .cannot = true};
  expect(climb(&wild, true, false), RDT_DETECTED, RDT_DIAG_UNKNOWN, "result", 0);
}

static void what_has_no_bound_is_never_clean(void **state) {
  fake tail = {.buf = {TAIL}, .first_path = {TAIL}, .other_path = TAIL, .part = true};
  const rdt_recovered out = climb(&tail, true, false);
  (void)state;
  expect(out, RDT_UNCHECKED, RDT_DIAG_NONE, NULL, 0);
  assert_false(out.fault);
  fake hit = {.buf = {1}, .first_path = {1}, .other_path = GOOD, .apart = true, .part = true};
  expect(climb(&hit, true, false), RDT_UNCHECKED, RDT_DIAG_PERSISTENT, "result", 1);
  assert_int_equal(hit.buf[RDT_BUF_RESULT], GOOD);
}

static void third_copy_votes(void **state) {
  fake first = {.buf = {1, GOOD}, .first_path = {GOOD}};
  (void)state;
  expect(climb(&first, true, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "result", 1);
  assert_int_equal(first.buf[RDT_BUF_RESULT], GOOD);
  fake second = {.buf = {GOOD, 1}, .first_path = {GOOD, GOOD}};
  expect(climb(&second, true, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "second copy", 0);
  fake always = {.buf = {1, GOOD}, .first_path = {1, GOOD}}; /* the first copy's way loses whenever it is taken */
  expect(climb(&always, true, true), RDT_DETECTED, RDT_DIAG_PERSISTENT, "result", 0);
  fake none = {.buf = {1, 2}, .first_path = {3}};
  expect(climb(&none, true, true), RDT_DETECTED, RDT_DIAG_UNKNOWN, "result", 0);
  fake twice = {.buf = {1, GOOD}, .first_path = {3, GOOD}}; /* the third was hit as well */
  expect(climb(&twice, true, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "result", 1);
  assert_int_equal(twice.buf[RDT_BUF_RESULT], GOOD);
  fake rotten = {.buf = {1, 2}, .first_path = {GOOD, GOOD}, .rest = {.activation = true}};
  expect(climb(&rotten, true, true), RDT_RECOMPUTED, RDT_DIAG_MEMORY, "activation", 1);
}

static void checksums_rebuild_before_anything_is_computed(void **state) {
  fake f = {.buf = {1}, .rebuilt = GOOD};
  rdt_recovered out = climb_with(&f, true, false, true);
  (void)state;
  expect(out, RDT_CORRECTED, RDT_DIAG_UNKNOWN, "result", 1);
  expect_rungs(&out, 2, (const char *const[]){"secure: intact", "correct: passed"});
  assert_true(out.fault && out.corrected_bound == 0.5 && out.valued && out.expected == GOOD && out.actual == 1.0);
  assert_int_equal(f.buf[RDT_BUF_RESULT], GOOD);
  assert_int_equal(f.calls, 0);
  fake wrong = {.buf = {1}, .first_path = {GOOD}, .rebuilt = 2}; /* what was rebuilt does not pass: never taken */
  out = climb_with(&wrong, true, false, true);
  expect(out, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "result", 1);
  expect_rungs(&out, 3, (const char *const[]){"secure: intact", "correct: failed", "recompute: passed"});
  assert_true(out.corrected_bound == 0.0 && out.actual == 1.0);
  assert_int_equal(wrong.buf[RDT_BUF_RESULT], GOOD);
  fake scattered = {.buf = {1}, .first_path = {GOOD}};
  out = climb_with(&scattered, true, false, true);
  expect(out, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "result", 1);
  expect_rungs(&out, 3, (const char *const[]){"secure: intact", "correct: declined", "recompute: passed"});
  fake rotten = {.buf = {1}, .first_path = {GOOD}, .rebuilt = GOOD, .rest = {.weight = true}};
  out = climb_with(&rotten, true, false, true); /* all of the result may be wrong */
  expect(out, RDT_RECOMPUTED, RDT_DIAG_MEMORY, "weight", 1);
  expect_rungs(&out, 2, (const char *const[]){"secure: restored", "recompute: passed"});
}

static void rungs_are_told(void **state) {
  (void)state;
  fake once = {.buf = {1}, .first_path = {GOOD}};
  rdt_recovered out = climb(&once, true, false);
  expect_rungs(&out, 2, (const char *const[]){"secure: intact", "recompute: passed"});
  assert_true(out.valued && out.expected == GOOD && out.actual == 1.0);
  fake always = {.buf = {1}, .first_path = {1}, .other_path = GOOD, .apart = true};
  out = climb(&always, true, false);
  expect_rungs(&out, 4,
               (const char *const[]){"secure: intact", "recompute: failed", "other path: passed", "recompute: failed"});
  fake both = {.buf = {1}, .first_path = {2, GOOD}, .other_path = GOOD, .apart = true}; /* the recompute was hit, too */
  out = climb(&both, true, false);
  expect(out, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "result", 1);
  expect_rungs(&out, 4,
               (const char *const[]){"secure: intact", "recompute: failed", "other path: passed", "recompute: passed"});
  fake wrong = {.buf = {1}, .first_path = {1}, .other_path = 2, .apart = true};
  out = climb(&wrong, true, false);
  expect_rungs(&out, 3, (const char *const[]){"secure: intact", "recompute: failed", "other path: failed"});
  assert_false(out.valued);
  fake tail = {.buf = {TAIL}, .first_path = {TAIL}, .other_path = TAIL};
  out = climb(&tail, true, false);
  expect_rungs(&out, 3, (const char *const[]){"secure: intact", "recompute: failed", "other path: agreed"});
  fake lost = {.buf = {1}, .rest = {.weight = true, .lost = true}};
  out = climb(&lost, true, false);
  expect_rungs(&out, 1, (const char *const[]){"secure: lost"});
  fake none = {.buf = {3}, .first_path = {4, 4}, .cannot = true};
  out = climb(&none, true, false);
  expect_rungs(&out, 3, (const char *const[]){"secure: intact", "recompute: unchecked", "recompute: agreed"});
  fake rotten = {.buf = {1, 2}, .first_path = {GOOD, GOOD}, .rest = {.activation = true}};
  out = climb(&rotten, true, true);
  expect_rungs(&out, 3, (const char *const[]){"secure: restored", "recompute: failed", "recompute: agreed"});
  rdt_recovered full = {.verdict = RDT_CLEAN};
  double since = 0.0;
  for (int i = 0; i < RDT_MAX_RUNGS + 3; i++) rdt_recovered_rung(&full, "recompute", "failed", &since);
  assert_int_equal(full.n_rungs, RDT_MAX_RUNGS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transient_fault_is_recomputed),
      cmocka_unit_test(report_only_leaves_the_result),
      cmocka_unit_test(broken_checker_is_told_from_broken_data),
      cmocka_unit_test(rotten_weight_is_memory),
      cmocka_unit_test(persistent_fault_takes_the_other_path),
      cmocka_unit_test(both_paths_wrong_is_detected),
      cmocka_unit_test(rounding_tail_is_no_fault),
      cmocka_unit_test(tail_that_no_other_path_confirms_is_a_fault),
      cmocka_unit_test(no_bound_goes_by_bits),
      cmocka_unit_test(what_has_no_bound_is_never_clean),
      cmocka_unit_test(third_copy_votes),
      cmocka_unit_test(checksums_rebuild_before_anything_is_computed),
      cmocka_unit_test(rungs_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
