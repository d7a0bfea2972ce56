/* Three copies of an op (scheme tmr-sm): who is believed, with scripted copies; products on cores that compute
 * wrongly, whose results are right or known not to be. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "plan/chunks.h"
#include "plan/cores.h"
#include "plan/known.h"
#include "util_bench.h"
#include "util_sample.h"

/* ---- who is believed, scripted ---- */

/* One value stands for a whole result; core i gives copy i, of two cores the first one copies 0 and 2. */
enum { GOOD = 7, BAD = 1, WORSE = 2, MOST = 16 };

typedef struct fake {
  int buf[RDT_COPIES];
  int again[MOST], calls;      /* what copies give that are computed once more, in turn */
  int cores, good, failed;     /* failed: how many of two fail the test; good: the one that does not */
  int on_core[MOST], on_calls; /* what it gives */
  int votes, lies, writes;     /* the first so many counts are wrong; so many elections write something else */
  rdt_rest rest;
} fake;

static rdt_status secure(void *self, rdt_rest *rest, rdt_reason *why) {
  (void)why;
  *rest = ((fake *)self)->rest;
  return RDT_OK;
}

static int64_t differ(void *self, rdt_buffer a, rdt_buffer b, int64_t *first) {
  const fake *f = self;
  *first = f->buf[a] != f->buf[b] ? 0 : -1;
  return f->buf[a] != f->buf[b];
}

static void accept(void *self, rdt_buffer from) {
  fake *f = self;
  f->buf[RDT_BUF_RESULT] = f->buf[from];
}

static double value(void *self, rdt_buffer which, int64_t element) {
  (void)element;
  return ((fake *)self)->buf[which];
}

static rdt_status copy(void *self, int i, rdt_buffer into, rdt_reason *why) {
  fake *f = self;
  (void)why, (void)i;
  assert_true(f->calls < MOST);
  f->buf[into] = f->again[f->calls++];
  return RDT_OK;
}

static void vote(void *self, bool elect, rdt_ballot *b) {
  fake *f = self;
  int *x = f->buf;
  const int loser = x[0] == x[1] && x[0] == x[2] ? -1 : x[0] == x[1] ? 2 : x[0] == x[2] ? 1 : x[1] == x[2] ? 0 : -2;
  *b = (rdt_ballot){.first = {-1, -1, -1}, .undecided = loser == -2};
  if (loser >= 0) b->lost[loser] = 1, b->first[loser] = 0;
  if (elect && loser == 0) x[0] = f->writes-- > 0 ? WORSE : x[1];
  if (f->votes++ < f->lies) b->lost[2] += f->votes; /* another number each time */
}

static int core(void *self, int i, int64_t element) {
  (void)self;
  assert_int_equal(element, 0);
  return 100 + i;
}

static rdt_status test(void *self, int *good, int *bad, int *failed, rdt_reason *why) {
  const fake *f = self;
  (void)why;
  *failed = f->failed;
  *good = f->good;
  *bad = 201 - f->good;
  return RDT_OK;
}

static rdt_status compute_on(void *self, rdt_buffer into, int it, rdt_reason *why) {
  fake *f = self;
  (void)why;
  assert_int_equal(it, f->good);
  f->buf[into] = f->on_core[f->on_calls++];
  return RDT_OK;
}

static rdt_recovered elect(fake *f, bool repair) {
  const rdt_recovery r = {.self = f, .secure = secure, .differ = differ, .accept = accept, .value = value};
  const rdt_copies k = {
      .cores = f->cores, .copy = copy, .vote = vote, .core = core, .test = test, .compute_on = compute_on};
  rdt_recovered out;
  assert_int_equal(rdt_recover_thrice(&r, &k, repair, &out, NULL), RDT_OK);
  return out;
}

static void expect(rdt_recovered out, rdt_verdict v, rdt_diagnosis d, int core_named) {
  assert_int_equal(out.verdict, v);
  assert_int_equal(out.diagnosis, d);
  assert_int_equal(out.core, core_named);
  assert_true(out.fault);
}

static void the_majority_of_three_cores_wins(void **state) {
  (void)state;
  for (int loser = 0; loser < RDT_COPIES; loser++)
    for (int again = 0; again < 2; again++) {
      fake f = {.buf = {GOOD, GOOD, GOOD}, .cores = 3, .again = {again ? BAD : GOOD}};
      f.buf[loser] = BAD;
      const rdt_recovered out = elect(&f, true);
      expect(out, RDT_RECOMPUTED, again ? RDT_DIAG_PERSISTENT : RDT_DIAG_TRANSIENT, 100 + loser);
      assert_int_equal(f.buf[0], GOOD);
      assert_int_equal(out.changed, loser == 0);
      if (loser == 0) assert_true(out.valued && out.actual == BAD && out.expected == GOOD);
    }
}

/* What docs/tmr.md says of it: nothing can tell. */
static void two_that_are_wrong_alike_outvote_the_third(void **state) {
  (void)state;
  fake f = {.buf = {GOOD, BAD, BAD}, .cores = 3, .again = {GOOD}};
  elect(&f, true);
  assert_int_equal(f.buf[0], BAD);
}

static void three_that_all_differ_are_computed_again(void **state) {
  (void)state;
  fake f = {.buf = {GOOD, BAD, WORSE}, .cores = 3, .again = {GOOD, GOOD, WORSE, WORSE}};
  expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_PERSISTENT, 102);
  assert_int_equal(f.buf[0], GOOD);
  f = (fake){.buf = {BAD, GOOD, WORSE}, .cores = 3, .again = {GOOD, GOOD, GOOD}};
  expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, -1);
  assert_int_equal(f.buf[0], GOOD);
  f = (fake){.buf = {GOOD, BAD, WORSE}, .cores = 3, .again = {GOOD, WORSE, BAD}};
  assert_int_equal(elect(&f, true).verdict, RDT_DETECTED);
}

static void of_two_cores_the_proven_one_is_believed(void **state) {
  (void)state;
  for (int holds_two = 0; holds_two < 2; holds_two++) { /* the bad core may have two votes */
    fake f = {.buf = {GOOD, GOOD, GOOD}, .cores = 2, .good = 100, .failed = 1, .on_core = {GOOD, GOOD}};
    f.buf[1] = BAD;
    if (holds_two) f.buf[0] = f.buf[2] = BAD, f.buf[1] = GOOD, f.good = 101;
    const rdt_recovered out = elect(&f, true);
    expect(out, RDT_RECOMPUTED, RDT_DIAG_PERSISTENT, 201 - f.good);
    assert_int_equal(f.buf[0], GOOD);
    assert_string_equal(out.what, holds_two ? "result" : "another copy");
  }
  fake f = {.buf = {BAD, GOOD, BAD}, .cores = 2, .good = 101, .failed = 1, .on_core = {GOOD, WORSE}};
  assert_int_equal(elect(&f, true).verdict, RDT_DETECTED); /* not even alike with itself */
}

static void two_cores_that_both_pass_must_agree(void **state) {
  (void)state;
  fake f = {.buf = {BAD, GOOD, BAD}, .cores = 2, .again = {GOOD, GOOD, GOOD}};
  expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, -1);
  assert_int_equal(f.buf[0], GOOD);
  f = (fake){.buf = {BAD, GOOD, BAD}, .cores = 2, .again = {BAD, GOOD, GOOD, GOOD, GOOD}}; /* hit on the way */
  expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, -1);
  assert_int_equal(f.buf[0], GOOD);
  f = (fake){.buf = {BAD, GOOD, BAD}, .cores = 2, .again = {BAD, GOOD, BAD, GOOD}}; /* two votes against one: no */
  assert_int_equal(elect(&f, true).verdict, RDT_DETECTED);
  f = (fake){.buf = {GOOD, BAD, GOOD}, .cores = 2, .failed = 2};
  expect(elect(&f, true), RDT_DETECTED, RDT_DIAG_PERSISTENT, -1);
}

/* Whoever votes may be hit as well: what is counted twice alike counts, and what was elected is looked at. */
static void a_vote_that_is_hit_changes_nothing(void **state) {
  (void)state;
  for (int lies = 0; lies < 3; lies++) {
    fake f = {.buf = {BAD, GOOD, GOOD}, .cores = 3, .again = {GOOD}, .lies = lies};
    expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, 100);
    assert_int_equal(f.buf[0], GOOD);
  }
  fake f = {.buf = {BAD, GOOD, GOOD}, .cores = 3, .again = {GOOD}, .lies = 100};
  assert_int_equal(elect(&f, true).verdict, RDT_DETECTED);
  for (int writes = 1; writes < 3; writes++) {
    f = (fake){.buf = {BAD, GOOD, GOOD}, .cores = 3, .again = {GOOD}, .writes = writes};
    expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, 100);
    assert_int_equal(f.buf[0], GOOD);
  }
  f = (fake){.buf = {BAD, GOOD, GOOD}, .cores = 3, .again = {GOOD}, .writes = 100};
  assert_int_equal(elect(&f, true).verdict, RDT_DETECTED);
}

static void nobody_votes_on_one_core(void **state) {
  (void)state;
  fake f = {.buf = {BAD, GOOD, BAD}, .cores = 1, .again = {GOOD, GOOD, GOOD}};
  expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, -1);
  f = (fake){.buf = {BAD, GOOD, BAD}, .cores = 1, .again = {BAD, GOOD, BAD, GOOD}};
  assert_int_equal(elect(&f, true).verdict, RDT_DETECTED);
}

static void what_reports_repairs_nothing(void **state) {
  (void)state;
  for (int cores = 1; cores <= 3; cores++) {
    fake f = {.buf = {BAD, GOOD, GOOD},
              .cores = cores,
              .good = 100,
              .failed = 1,
              .on_core = {GOOD, GOOD},
              .again = {GOOD, GOOD, GOOD}};
    assert_int_equal(elect(&f, false).verdict, RDT_DETECTED);
    assert_int_equal(f.buf[0], BAD);
  }
}

static void rotten_data_are_no_matter_of_cores(void **state) {
  (void)state;
  fake f = {.buf = {BAD, BAD, WORSE}, .cores = 3, .rest = {.weight = true}, .again = {GOOD, GOOD, GOOD}};
  expect(elect(&f, true), RDT_RECOMPUTED, RDT_DIAG_MEMORY, -1);
  assert_int_equal(f.buf[0], GOOD);
  f = (fake){.buf = {BAD, GOOD, BAD}, .cores = 2, .rest = {.weight = true, .lost = true}};
  expect(elect(&f, true), RDT_DETECTED, RDT_DIAG_MEMORY, -1);
}

/* ---- cores ---- */

static void a_core_is_tested(void **state) {
  static const char *const faults[] = {"stuck1:22", "stuck0:20", "bit", "random"};
  int cores[CPU_SETSIZE];
  rdt_reason why = {""};
  cpu_set_t before, after;
  (void)state;
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE);
  sched_getaffinity(0, sizeof before, &before);
  for (int i = 0; i < n && i < 3; i++)
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
      char spec[64];
      rdt_fault f;
      bool passes;
      int64_t turns = 0;
      snprintf(spec, sizeof spec, "%s@accum,core=%d", faults[k], cores[0]);
      assert_int_equal(rdt_fault_parse(spec, &f, &why), RDT_OK);
      for (int t = 0; t < 3; t++) {
        const rdt_dtype dtypes[] = {RDT_F32, RDT_S8, RDT_F64};
        assert_int_equal(rdt_known_test_core(cores[i], dtypes[t], &f, &turns, &passes, &why), RDT_OK);
        assert_int_equal(passes, i != 0);
        assert_int_equal(rdt_known_test_core(cores[i], dtypes[t], NULL, &turns, &passes, &why), RDT_OK);
        assert_true(passes);
      }
    }
  sched_getaffinity(0, sizeof after, &after);
  assert_true(CPU_EQUAL(&before, &after));
}

/* ---- products ---- */

static void open_clean(util_bench *w, int threads) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  int cores[CPU_SETSIZE];
  if (rdt_cores_allowed(cores, CPU_SETSIZE) < 2) skip(); /* one core alone cannot be required to do it */
  policy.permanent = 1;
  util_bench_open(w, &policy, threads);
  assert_string_equal(w->plan->scheme->name, "tmr-sm");
  util_bench_execute(w);
  assert_int_equal(w->r.verdict, RDT_CLEAN);
  const size_t bytes = (size_t)rdt_tensor_count(&w->c) * sizeof(float);
  w->clean = rdt_alloc(1, bytes);
  memcpy(w->clean, w->c.data, bytes);
}

static bool is_clean(const util_bench *w) {
  return memcmp(w->clean, w->c.data, (size_t)rdt_tensor_count(&w->c) * sizeof(float)) == 0;
}

/* Each core in turn, wrong every time or now and then: right, or known not to be. Wrong every time it is named. */
static void a_bad_core_never_makes_a_result_wrong(void **state) {
  static const char *const kinds[] = {"bit:30", "stuck1:22", "stuck0:21", "random", "bit:18"};
  int cores[CPU_SETSIZE], repaired = 0;
  (void)state;
  const int n = rdt_cores_allowed(cores, CPU_SETSIZE), one_in = util_one_in(2, 2);
  if (n < 2) skip();
  for (int threads = 1; threads <= 3; threads++) {
    util_bench w;
    open_clean(&w, threads);
    for (int i = 0; i < 30; i++) {
      char spec[96];
      if (!util_takes(threads + i + i / 4, one_in)) continue;
      const int bad = cores[i % (n < 4 ? n : 4)];
      const bool always = i % 3 != 0;
      snprintf(spec, sizeof spec, "%s@accum,core=%d%s%s,seed=%d", kinds[i % 5], bad, always ? "" : ",rate=0.4",
               i % 4 == 1 && rdt_isa_detect() > RDT_ISA_GENERIC ? ",lane=1" : "", i);
      assert_int_equal(rdt_plan_inject(w.plan, spec), RDT_OK);
      w.told = (util_told){.faults = 0};
      const rdt_status status = rdt_plan_execute(w.plan, &w.a, &w.c, &w.r);
      if (status == RDT_OK && !is_clean(&w)) fail_msg("%d threads, %s: %s", threads, spec, w.told.text);
      assert_int_equal(status, w.r.verdict == RDT_DETECTED ? RDT_ERR_FAULT : RDT_OK);
      repaired += w.r.verdict == RDT_RECOMPUTED;
      if (always && w.r.verdict == RDT_RECOMPUTED) {
        assert_int_equal(w.r.diagnosis, RDT_DIAG_PERSISTENT);
        assert_int_equal(w.told.last.core, bad);
      }
      w.told = (util_told){.faults = 0}; /* and the next run is well again */
      util_bench_execute(&w);
      assert_int_equal(w.r.verdict, RDT_CLEAN);
      assert_true(is_clean(&w));
    }
    util_bench_close(&w);
  }
  assert_true(repaired * one_in > 40);
}

static void transients_are_repaired_to_the_bit(void **state) {
  static const char *const faults[] = {"bit:30@accum", "bit:2@accum", "bit@recovery", "bit@comparison",
                                       "bit@counter",  "bit@verdict", "bit:30@weight"};
  (void)state;
  util_bench w;
  open_clean(&w, 2);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    for (int seed = 0; seed < 8; seed++) {
      char spec[96];
      snprintf(spec, sizeof spec, "%s,seed=%d", faults[i], seed);
      assert_int_equal(rdt_plan_inject(w.plan, spec), RDT_OK);
      const rdt_status status = rdt_plan_execute(w.plan, &w.a, &w.c, &w.r);
      if (strstr(spec, "weight")) { /* the caller's: nowhere to restore it from */
        assert_int_equal(status, RDT_ERR_FAULT);
        break;
      }
      if (status != RDT_OK || !is_clean(&w)) fail_msg("%s: %s", spec, w.told.text);
      if (i < 2) assert_int_equal(w.r.verdict, RDT_RECOMPUTED);
      if (i < 2) assert_int_equal(w.r.diagnosis, RDT_DIAG_TRANSIENT);
    }
  util_bench_close(&w);
}

/* ---- two copies hit, cores that are simulated, whoever computes hit now and then, the vote hit ---- */

static void open_thrice(util_bench *w, const char *scheme) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  util_bench_open(w, &policy, 2);
  util_bench_execute(w);
  const size_t bytes = (size_t)rdt_tensor_count(&w->c) * sizeof(float);
  w->clean = rdt_alloc(1, bytes);
  memcpy(w->clean, w->c.data, bytes);
}

static void every_model_comes_out_as_it_must(void **state) {
  static const struct {
    const char *fault;
    int right, core; /* right: 1 repaired to the bit, 0 outvoted, -1 repaired or known not to be; core: -2 any */
    rdt_diagnosis diagnosis;
  } cases[] = {
      {"bit:30@accum,copies=apart,cores=3", 1, -2, RDT_DIAG_TRANSIENT},
      {"bit:30@accum,copies=differ,cores=3", 1, -2, RDT_DIAG_TRANSIENT},
      {"zero@accum,copies=differ,cores=3", 1, -2, RDT_DIAG_TRANSIENT},
      {"bit:30@accum,copies=alike,cores=3", 0, -2, RDT_DIAG_PERSISTENT}, /* who is right loses again */
      {"bit:2@accum,copies=alike,cores=7", 0, -2, RDT_DIAG_PERSISTENT},
      {"bit:30@accum,copies=alike,cores=2", 1, -1, RDT_DIAG_TRANSIENT}, /* no majority there: three that agree */
      {"bit:30@accum,copies=differ,cores=2", 1, -1, RDT_DIAG_TRANSIENT},
      {"bit:30@accum,core=1,cores=3", 1, -2, RDT_DIAG_PERSISTENT}, /* a library does not say who computed what */
      {"random@accum,core=0,cores=2", 1, 0, RDT_DIAG_PERSISTENT},
      {"bit:30@accum,core=any,rate=0.2,cores=3", -1, -2, RDT_DIAG_TRANSIENT},
      {"bit:30@accum,core=any,rate=0.2,cores=2", -1, -2, RDT_DIAG_TRANSIENT},
      {"random@vote,cores=3", 1, -2, RDT_DIAG_TRANSIENT},
      {"bit@vote,cores=4", 1, -2, RDT_DIAG_TRANSIENT},
  };
  (void)state;
  util_bench w;
  open_thrice(&w, "tmr-sm");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int seed = 0; seed < 12; seed++) {
      char spec[96];
      snprintf(spec, sizeof spec, "%s,seed=%d", cases[i].fault, seed);
      assert_int_equal(rdt_plan_inject(w.plan, spec), RDT_OK);
      w.told = (util_told){.faults = 0};
      const rdt_status status = rdt_plan_execute(w.plan, &w.a, &w.c, &w.r);
      const bool detected = w.r.verdict == RDT_DETECTED;
      assert_int_equal(status, detected ? RDT_ERR_FAULT : RDT_OK);
      if (detected ? cases[i].right >= 0 : is_clean(&w) != (cases[i].right != 0)) fail_msg("%s: %s", spec, w.told.text);
      if (cases[i].right < 0) continue;
      assert_int_equal(w.r.verdict, RDT_RECOMPUTED); /* also where it was outvoted: nothing can tell */
      assert_true(w.plan->own_injection.alike == (strstr(spec, "alike") != NULL));
      if (!strstr(spec, "vote")) assert_int_equal(w.r.diagnosis, cases[i].diagnosis);
      if (cases[i].core > -2) assert_int_equal(w.told.last.core, cases[i].core);
    }
  util_bench_execute(&w);
  assert_int_equal(w.r.verdict, RDT_CLEAN);
  assert_true(is_clean(&w));
  util_bench_close(&w);
}

static void faults_of_copies_are_of_what_has_copies(void **state) {
  static const struct {
    const char *spec, *says;
  } bad[] = {{"bit@accum,copies=two", "apart, differ or alike"},
             {"bit@accum,copies=alike,copies=two", "copies= is there twice"},
             {"bit@accum,cores=3,cores=5", "cores= is there twice"},
             {"bit@weight,copies=alike", "with the site accum"},
             {"bit@accum,copies=alike,core=1", "without core="},
             {"bit@accum,copies=alike,count=2", "count="},
             {"ber:1e-3@accum,copies=alike", "ber"},
             {"bit@accum,cores=1", "from 2 to 64"},
             {"bit@accum,core=3,cores=3", "none of 3 simulated cores"},
             {"bit@accum,core=any", "with rate=R"},
             {"bit@accum,core=any,lane=1,rate=0.1", "without lane="}};
  static const char *const of_three[] = {"bit@accum,copies=alike", "bit@accum,core=1,cores=3",
                                         "bit@accum,core=any,rate=0.1"};
  (void)state;
  rdt_fault f;
  rdt_reason why;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(rdt_fault_parse(bad[i].spec, &f, &why), RDT_ERR_ARG);
    if (!strstr(why.text, bad[i].says)) fail_msg("%s: %s", bad[i].spec, why.text);
  }
  util_bench w;
  open_thrice(&w, "row");
  for (size_t i = 0; i < sizeof of_three / sizeof *of_three; i++) {
    assert_int_equal(rdt_plan_inject(w.plan, of_three[i]), RDT_ERR_ARG);
    assert_non_null(strstr(rdt_context_error(w.ctx), "not computed three times"));
  }
  assert_int_equal(rdt_plan_inject(w.plan, "bit@vote"), RDT_ERR_ARG);
  util_bench_close(&w);
}

/* ---- votes on the way along k ---- */

static rdt_chunks *open_chunks(util_bench *w, int checkpoints) {
  rdt_chunks *c;
  rdt_reason why = {""};
  rdt_tensor in[2] = {w->a, w->b};
  const rdt_problem p = {
      .op = RDT_KOP_GEMM, .n_in = 2, .in = in, .acc = RDT_F32, .out = w->c, .epilogue = RDT_EPILOGUE_NONE};
  if (rdt_chunks_create(w->ctx, &p, "tmr-sm", checkpoints, &c, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(rdt_chunks_count(c), checkpoints + 1);
  return c;
}

/* In shares the sum is another one, within rounding; each time the same to the last bit, with faults in any share. */
static void shares_of_k_are_voted_on_by_themselves(void **state) {
  static const char *const kinds[] = {"bit:30@accum,copies=apart,cores=3", "bit:30@accum,copies=differ,cores=3",
                                      "bit@accum,core=any,rate=0.3,cores=3", "bit:30@accum,core=1,cores=2"};
  (void)state;
  util_bench w;
  rdt_reason why = {""};
  rdt_result r;
  open_thrice(&w, "none");
  const int64_t n = rdt_tensor_count(&w.c);
  float *whole = rdt_alloc((size_t)n, sizeof *whole);
  memcpy(whole, w.c.data, (size_t)n * sizeof *whole);
  for (int checkpoints = 0; checkpoints <= 16; checkpoints += checkpoints < 4 ? 1 : 4) {
    rdt_chunks *c = open_chunks(&w, checkpoints);
    assert_int_equal(rdt_chunks_run(c, &w.a, &w.c, &r, &why), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    for (int64_t e = 0; e < n; e++) {
      const float d = ((float *)w.c.data)[e] - whole[e];
      assert_true(d < 1e-3f && d > -1e-3f);
    }
    memcpy(w.clean, w.c.data, (size_t)n * sizeof(float));
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      assert_int_equal(rdt_chunks_inject(c, kinds[k], k, &why), RDT_OK);
      const rdt_status status = rdt_chunks_run(c, &w.a, &w.c, &r, &why);
      if (status == RDT_OK) assert_true(is_clean(&w));
      assert_int_equal(status, r.verdict == RDT_DETECTED ? RDT_ERR_FAULT : RDT_OK);
      if (k != 2) assert_int_equal(r.faults, checkpoints + 1); /* each share met its own */
      if (k != 2) assert_int_equal(r.verdict, RDT_RECOMPUTED);
    }
    assert_int_equal(rdt_chunks_inject(c, NULL, 0, &why), RDT_OK);
    assert_int_equal(rdt_chunks_run(c, &w.a, &w.c, &r, &why), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    rdt_chunks_destroy(c);
  }
  rdt_free(whole);
  util_bench_close(&w);
}

/* What cannot be decided in a share, again and again, ends the product there: nothing behind it is computed. */
static void a_share_that_nobody_decides_is_detected(void **state) {
  (void)state;
  util_bench w;
  rdt_reason why = {""};
  rdt_result r;
  rdt_chunks *none;
  open_thrice(&w, "none");
  rdt_chunks *c = open_chunks(&w, 3);
  int detected = 0;
  for (uint64_t seed = 0; seed < 12; seed++) {
    assert_int_equal(rdt_chunks_inject(c, "bit:30@accum,core=any,rate=0.9,cores=2", seed, &why), RDT_OK);
    const rdt_status status = rdt_chunks_run(c, &w.a, &w.c, &r, &why);
    assert_int_equal(status, RDT_ERR_FAULT);
    assert_non_null(strstr(why.text, "share "));
    detected += r.verdict == RDT_DETECTED;
  }
  assert_int_equal(detected, 12);
  rdt_chunks_destroy(c);
  rdt_tensor in[2] = {w.a, w.b};
  const rdt_problem p = {
      .op = RDT_KOP_GEMM, .n_in = 2, .in = in, .acc = RDT_F32, .out = w.c, .epilogue = RDT_EPILOGUE_NONE};
  assert_int_equal(rdt_chunks_create(w.ctx, &p, "tmr-sm", UTIL_BENCH_K, &none, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "has room for"));
  assert_null(none);
  util_bench_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_majority_of_three_cores_wins),
                                     cmocka_unit_test(two_that_are_wrong_alike_outvote_the_third),
                                     cmocka_unit_test(three_that_all_differ_are_computed_again),
                                     cmocka_unit_test(of_two_cores_the_proven_one_is_believed),
                                     cmocka_unit_test(two_cores_that_both_pass_must_agree),
                                     cmocka_unit_test(a_vote_that_is_hit_changes_nothing),
                                     cmocka_unit_test(nobody_votes_on_one_core),
                                     cmocka_unit_test(what_reports_repairs_nothing),
                                     cmocka_unit_test(rotten_data_are_no_matter_of_cores),
                                     cmocka_unit_test(a_core_is_tested),
                                     cmocka_unit_test(a_bad_core_never_makes_a_result_wrong),
                                     cmocka_unit_test(transients_are_repaired_to_the_bit),
                                     cmocka_unit_test(every_model_comes_out_as_it_must),
                                     cmocka_unit_test(faults_of_copies_are_of_what_has_copies),
                                     cmocka_unit_test(shares_of_k_are_voted_on_by_themselves),
                                     cmocka_unit_test(a_share_that_nobody_decides_is_detected)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
