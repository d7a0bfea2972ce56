/* The own products that check themselves: their bits, their sums, every checker shown a fault, and what a plan makes of
 * a complaint. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "plan/plan.h"
#include "util_native.h"

static const rdt_policy NORMAL = RDT_POLICY_DEFAULT;

typedef struct seen {
  rdt_event last;
  char what[32], text[400];
  int events, suspects;
} seen;

static void on_event(const rdt_event *e, void *user) {
  seen *s = user;
  s->last = *e;
  snprintf(s->what, sizeof s->what, "%s", e->what);
  snprintf(s->text, sizeof s->text, "%s", e->text);
  s->events++;
  s->suspects += e->kind == RDT_EVENT_SUSPECT;
}

typedef struct house {
  util_native j;
  rdt_context *ctx;
  rdt_plan *plan;
  float *clean; /* the result's memory */
  seen log;
  rdt_result r;
} house;

static rdt_status execute(house *h) {
  const rdt_operands o = {.in = h->j.data, .n_in = 2, .out = h->j.out, .epilogue = &h->plan->prob.epilogue};
  memset(&h->log, 0, sizeof h->log);
  memset(h->j.out.data, 0xff, h->j.out_bytes);
  const rdt_status status = rdt_plan_run(h->plan, &o, &h->r);
  if (h->plan->out_sealed) assert_true(h->plan->out_seal == rdt_bitsum(h->j.out.data, h->j.out_bytes));
  return status;
}

static void open_house(house *h, const util_native_layout *l, int ending, rdt_policy policy) {
  memset(h, 0, sizeof *h);
  util_native_make(&h->j, l);
  util_native_epilogue(&h->j, ending);
  policy.scheme = l->kind == UTIL_CONV ? "fc" : "row";
  assert_int_equal(rdt_context_create(&h->ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(h->ctx, &policy), RDT_OK);
  rdt_context_on_event(h->ctx, on_event, &h->log);
  if (rdt_plan_create(h->ctx, &h->j.p, "layer", "op", NULL, &h->plan) != RDT_OK)
    fail_msg("%s", rdt_context_error(h->ctx));
  assert_true(h->plan->fused);
  assert_string_equal(h->plan->kernel->name, util_native_kernel(&h->j)->name);
  void *s = util_native_state(&h->j, 1);
  rdt_tensor raw = util_native_raw(&h->j, s, NULL);
  if (execute(h) != RDT_OK) fail_msg("%s", rdt_context_error(h->ctx));
  if (policy.lambda >= NORMAL.lambda) {
    assert_int_equal(h->r.verdict, RDT_CLEAN);
    assert_int_equal(h->log.events, 0);
  }
  assert_true(h->r.checks > 0);
  util_native_expect(&h->j, &raw, "a plan");
  h->clean = malloc(h->j.out_bytes);
  memcpy(h->clean, h->j.out.data, h->j.out_bytes);
  util_native_kernel(&h->j)->destroy(s);
  free(raw.data);
}

static void close_house(house *h) {
  rdt_plan_destroy(h->plan);
  rdt_context_destroy(h->ctx);
  free(h->clean);
  util_native_drop(&h->j);
}

static bool as_clean(const house *h) {
  return memcmp(h->clean, h->j.out.data, h->j.out_bytes) == 0;
}

static void expect_well(house *h) {
  if (execute(h) != RDT_OK) fail_msg("%s", rdt_context_error(h->ctx));
  assert_int_equal(h->r.verdict, RDT_CLEAN);
  assert_int_equal(h->log.events, 0);
  assert_true(as_clean(h));
}

static void arm(house *h, const char *format, int64_t at) {
  char spec[80];
  snprintf(spec, sizeof spec, format, (int)at);
  if (rdt_plan_inject(h->plan, spec) != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(h->ctx));
}

static void transient_faults_are_computed_again(void **state) {
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int act = -1; act < 4; act++) { /* -1: no epilogue at all, the raw result is the final one */
      house h;
      open_house(&h, &util_native_layouts[l], act < 0 ? 0 : UTIL_BIAS | UTIL_RESIDUAL | act * UTIL_ACTS, NORMAL);
      const rdt_tensor *y = &h.j.out;
      const int64_t n = rdt_tensor_count(y), step = n / 5 + 1;
      for (int64_t e = 0; e < n; e += step) {
        arm(&h, "bit:30@accum,at=%d", e);
        if (execute(&h) != RDT_OK) fail_msg("%s", rdt_context_error(h.ctx));
        const rdt_injection *i = h.plan->injection;
        assert_true(i->done && as_clean(&h));
        if (i->changed > 0 && i->error > h.r.floor) assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
        if (act <= 0 && h.r.verdict == RDT_RECOMPUTED) { /* others may hide it */
          assert_int_equal(h.r.diagnosis, RDT_DIAG_TRANSIENT);
          assert_int_equal(h.log.events, 1);
          assert_int_equal(h.log.last.changed, 1);
          assert_string_equal(h.log.what, "result");
          const int64_t plane = h.j.kind == UTIL_CONV ? rdt_tensor_pixels(y) : 1;
          assert_int_equal(h.r.place[0], util_native_row(&h.j, e));
          assert_int_equal(h.r.place[1], e / plane % y->shape[h.j.kind == UTIL_CONV ? 1 : y->rank - 1]);
        }
        if (act < 0) {
          expect_well(&h);
          continue;
        }
        arm(&h, "bit:20@epilogue,at=%d", e);
        assert_int_equal(execute(&h), RDT_OK);
        assert_true(h.plan->injection->done && as_clean(&h));
        assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
        if (act == 0) assert_string_equal(h.log.what, "epilogue");
        expect_well(&h);
      }
      close_house(&h);
    }
}

static void on_fault_report_and_abort_leave_no_ok(void **state) {
  static const char *const faults[] = {"bit:30@accum,at=%d", "bit:20@epilogue,at=%d"};
  (void)state;
  for (int policy = RDT_ON_FAULT_REPORT; policy <= RDT_ON_FAULT_ABORT; policy++)
    for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
      for (int f = 0; f < 2; f++) {
        house h;
        rdt_policy of = NORMAL;
        of.on_fault = (rdt_on_fault)policy;
        open_house(&h, &util_native_layouts[l], UTIL_BIAS, of);
        arm(&h, faults[f], 3);
        assert_int_equal(execute(&h), RDT_ERR_FAULT);
        assert_int_equal(h.r.verdict, RDT_DETECTED);
        assert_int_equal(h.r.faults, 1);
        assert_int_equal(h.log.events, 1);
        assert_false(as_clean(&h)); /* left as it was */
        assert_false(h.plan->out_sealed);
        assert_true(strlen(rdt_context_error(h.ctx)) > 20);
        expect_well(&h);
        close_house(&h);
      }
}

static void data_at_rest_is_put_in_order(void **state) {
  int weights = 0;
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    if (util_native_layouts[l].kind == UTIL_BATCH) continue;
    house h;
    open_house(&h, &util_native_layouts[l], UTIL_RESIDUAL, NORMAL);
    for (int seed = 0; seed < 6; seed++) {
      arm(&h, "bit:62@checksum,seed=%d", seed);
      assert_int_equal(execute(&h), RDT_OK);
      assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
      assert_int_equal(h.r.diagnosis, RDT_DIAG_CHECKER);
      assert_true(as_clean(&h));
      arm(&h, "bit:30@packed,seed=%d", seed);
      assert_int_equal(execute(&h), RDT_OK);
      assert_true(as_clean(&h));
      if (h.r.verdict != RDT_CLEAN) { /* else padding */
        assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
        assert_int_equal(h.r.diagnosis, RDT_DIAG_MEMORY);
        assert_string_equal(h.log.what, "weight");
        weights++;
      }
      expect_well(&h);
    }
    close_house(&h);
  }
  assert_true(weights > 10);
}

/* What no seal knows of: another path computes the result. */
static void a_rotten_weight_behind_its_seal_is_persistent(void **state) {
  int noticed = 0;
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    if (util_native_layouts[l].kind == UTIL_BATCH) continue;
    house h;
    void *at;
    size_t bytes;
    rdt_dtype dtype;
    open_house(&h, &util_native_layouts[l], UTIL_BIAS, NORMAL);
    h.plan->kernel->packed(h.plan->state, &at, &bytes, &dtype);
    float *w = at;
    *w += 3.0f;
    h.plan->packed_seal = rdt_bitsum(at, bytes);
    if (execute(&h) != RDT_OK) fail_msg("%s", rdt_context_error(h.ctx));
    if (h.r.verdict != RDT_CLEAN) { /* a tap may never meet the image */
      assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
      assert_int_equal(h.r.diagnosis, RDT_DIAG_PERSISTENT);
      noticed++;
    }
    rdt_reason why;
    assert_int_equal(rdt_plan_reload(h.plan, &why), RDT_OK);
    expect_well(&h);
    close_house(&h);
  }
  assert_true(noticed > 5);
}

/* The checker itself is hit, behind its seal: the same bits again, so the data was right. */
static void a_hit_checksum_changes_no_data(void **state) {
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    if (util_native_layouts[l].kind == UTIL_BATCH) continue;
    house h;
    void *at;
    size_t bytes;
    rdt_dtype dtype;
    open_house(&h, &util_native_layouts[l], UTIL_BIAS | UTIL_RESIDUAL, NORMAL);
    rdt_fused_checksums(h.plan->fused, &at, &bytes, &dtype);
    const int64_t k = (int64_t)(bytes / rdt_dtype_size(dtype) / 2);
    for (int64_t t = 0; t < k; t++) rdt_store(at, dtype, t, rdt_load(at, dtype, t) + 1e9);
    h.plan->sums_seal = rdt_bitsum(at, bytes);
    assert_int_equal(execute(&h), RDT_OK);
    assert_int_equal(h.r.verdict, RDT_RECOMPUTED);
    assert_int_equal(h.r.diagnosis, RDT_DIAG_CHECKER);
    assert_string_equal(h.log.what, "checksum");
    assert_true(as_clean(&h));
    close_house(&h);
  }
}

/* lambda 1: rounding alone makes many suspects, none of them a fault. */
static void suspicion_without_a_fault_ends_clean(void **state) {
  int suspects = 0;
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    house h;
    rdt_policy narrow = NORMAL;
    narrow.lambda = 1.0;
    open_house(&h, &util_native_layouts[l], UTIL_BIAS | UTIL_RESIDUAL, narrow);
    assert_int_equal(execute(&h), RDT_OK);
    assert_int_equal(h.r.verdict, RDT_CLEAN);
    assert_int_equal(h.r.faults, 0);
    assert_int_equal(h.log.events, h.log.suspects);
    assert_true(as_clean(&h));
    suspects += h.log.suspects;
    close_house(&h);
  }
  assert_true(suspects > 0);
}

static void what_has_no_bound_is_unchecked(void **state) {
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int value = 0; value < 2; value++) {
      house h;
      open_house(&h, &util_native_layouts[l], UTIL_BIAS | UTIL_RESIDUAL, NORMAL);
      float *x = h.j.data[0].data, kept = *x;
      *x = value ? NAN : INFINITY;
      assert_int_equal(execute(&h), RDT_OK);
      assert_int_equal(h.r.verdict, RDT_UNCHECKED);
      assert_true(h.r.unchecked > 0);
      assert_int_equal(h.r.faults, 0);
      assert_int_equal(h.log.events, 1);
      *x = kept;
      expect_well(&h);
      close_house(&h);
    }
}

/* Where a part has no bound, a fault in another part is told all the same, whatever it was. */
static void what_has_no_bound_hides_no_fault(void **state) {
  static const struct {
    const char *spec;
    rdt_diagnosis diagnosis;
  } faults[] = {{"bit:30@accum,at=%d", RDT_DIAG_TRANSIENT},
                {"bit:30@packed,at=0", RDT_DIAG_MEMORY}}; /* at: no padding */
  rdt_policy report = NORMAL;
  (void)state;
  report.on_fault = RDT_ON_FAULT_REPORT;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int i = 0; i < 4; i++) {
      house h;
      open_house(&h, &util_native_layouts[l], UTIL_BIAS | UTIL_RESIDUAL, i % 2 ? report : NORMAL);
      if (i / 2 == 1 && !h.plan->fixed_weights) {
        close_house(&h);
        continue;
      }
      *(float *)h.j.data[0].data = NAN;
      assert_int_equal(execute(&h), RDT_OK);
      memcpy(h.clean, h.j.out.data, h.j.out_bytes);
      arm(&h, faults[i / 2].spec, rdt_tensor_count(&h.j.out) - 1);
      const rdt_status status = execute(&h);
      if (i / 2 == 1 && as_clean(&h) && h.r.faults == 0) { /* hidden among what is not a number */
        close_house(&h);
        continue;
      }
      assert_true(h.plan->injection->done);
      assert_int_equal(h.r.faults, 1);
      assert_int_equal(h.r.diagnosis, faults[i / 2].diagnosis);
      assert_true(h.r.unchecked > 0);
      /* A single row is not a number at all: a changed weight is found and restored, but does not show. */
      const bool shows = i / 2 == 0 || h.j.kind != UTIL_GEMM || h.j.out.shape[0] > 1;
      const bool stays = i % 2 && shows;
      assert_int_equal(h.r.verdict, stays ? RDT_DETECTED : RDT_UNCHECKED);
      assert_int_equal(status, stays ? RDT_ERR_FAULT : RDT_OK);
      assert_int_equal(as_clean(&h), !stays);
      close_house(&h);
    }
}

/* Squares beyond single precision: the passes apart, in double, have the bound. */
static void a_bound_that_only_the_fused_sums_lack_is_found_apart(void **state) {
  static const util_native_data large = {"large inputs", {1e20, 1}, 0, 1, true};
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    house h;
    open_house(&h, &util_native_layouts[l], UTIL_BIAS, NORMAL);
    float *weights = malloc(util_native_reach(h.j.data[1].rank, h.j.data[1].shape, h.j.data[1].stride));
    const size_t bytes = util_native_reach(h.j.data[1].rank, h.j.data[1].shape, h.j.data[1].stride);
    memcpy(weights, h.j.data[1].data, bytes);
    util_native_fill(&h.j, &large);
    memcpy(h.j.data[1].data, weights, bytes);
    free(weights);
    assert_int_equal(execute(&h), RDT_OK);
    assert_int_equal(h.r.verdict, RDT_CLEAN);
    assert_int_equal(h.r.unchecked, 0);
    assert_int_equal(h.log.events, 0);
    close_house(&h);
  }
}

static void a_weight_that_is_no_number_leaves_the_padding_unchecked(void **state) {
  static const util_native_layout padded = {UTIL_CONV, {1, 16, 8, 8, 8, 1, 1, 1, 1, 1, 0}};
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  (void)state;
  for (int b = 0; b < 3; b++) {
    house h;
    rdt_policy policy = NORMAL;
    memset(&h, 0, sizeof h);
    util_native_make(&h.j, &padded);
    util_native_epilogue(&h.j, UTIL_BIAS);
    ((float *)h.j.data[1].data)[3 * 16 + 5] = bad[b];
    policy.scheme = "fc";
    assert_int_equal(rdt_context_create(&h.ctx, 2), RDT_OK);
    assert_int_equal(rdt_context_set_policy(h.ctx, &policy), RDT_OK);
    rdt_context_on_event(h.ctx, on_event, &h.log);
    assert_int_equal(rdt_plan_create(h.ctx, &h.j.p, "layer", "op", NULL, &h.plan), RDT_OK);
    assert_true(h.plan->fused);
    assert_int_equal(execute(&h), RDT_OK);
    assert_int_equal(h.r.verdict, RDT_UNCHECKED);
    assert_int_equal(h.r.faults, 0);
    assert_int_equal(h.r.unchecked, 100);
    close_house(&h);
  }
}

/* ---- out of memory ---- */

static int allocations_left = -1; /* -1: any number */
void *__real_rdt_alloc(size_t count, size_t size);
void *__wrap_rdt_alloc(size_t count, size_t size);
void *__wrap_rdt_alloc(size_t count, size_t size) {
  if (allocations_left == 0) return NULL;
  if (allocations_left > 0) allocations_left--;
  return __real_rdt_alloc(count, size);
}

static void memory_that_runs_out_leaks_nothing(void **state) {
  static const int some[] = {2, 9, 16};
  (void)state;
  for (int i = 0; i < 3; i++) {
    bool through = false;
    for (int left = 0; !through && left < 200; left++) {
      const size_t before = rdt_memory_now();
      rdt_policy policy = NORMAL;
      rdt_status status;
      rdt_context *ctx;
      house h = {.plan = NULL};
      util_native_make(&h.j, &util_native_layouts[some[i]]);
      util_native_epilogue(&h.j, UTIL_BIAS);
      policy.scheme = h.j.kind == UTIL_CONV ? "fc" : "row";
      assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
      assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
      allocations_left = left;
      status = rdt_plan_create(ctx, &h.j.p, "layer", "op", NULL, &h.plan);
      if (status == RDT_OK) {
        assert_int_equal(rdt_plan_inject(h.plan, "bit:30@accum,at=3"), RDT_OK);
        status = execute(&h);
      }
      through = allocations_left > 0;
      allocations_left = -1;
      assert_int_equal(status, through ? RDT_OK : status == RDT_OK ? RDT_OK : RDT_ERR_NOMEM);
      rdt_plan_destroy(h.plan);
      rdt_context_destroy(ctx);
      util_native_drop(&h.j);
      assert_int_equal(rdt_memory_now(), before);
    }
    assert_true(through);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transient_faults_are_computed_again),
      cmocka_unit_test(on_fault_report_and_abort_leave_no_ok),
      cmocka_unit_test(data_at_rest_is_put_in_order),
      cmocka_unit_test(a_rotten_weight_behind_its_seal_is_persistent),
      cmocka_unit_test(a_hit_checksum_changes_no_data),
      cmocka_unit_test(suspicion_without_a_fault_ends_clean),
      cmocka_unit_test(what_has_no_bound_is_unchecked),
      cmocka_unit_test(what_has_no_bound_hides_no_fault),
      cmocka_unit_test(a_bound_that_only_the_fused_sums_lack_is_found_apart),
      cmocka_unit_test(a_weight_that_is_no_number_leaves_the_padding_unchecked),
      cmocka_unit_test(memory_that_runs_out_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
