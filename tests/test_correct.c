/* --on-fault correct: single and collinear faults are rebuilt from checksums within the bound that is stated; what is
 * not located is computed again, bit by bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "plan/plan.h"
#include "schemes/lines.h"
#include "util_problem.h"

typedef struct rig {
  rdt_context *ctx;
  rdt_plan *plan;
  rdt_tensor in, weights, out;
  void *clean;
  rdt_event last;
  char text[400];
  int events, corrected, strange; /* strange: what was planted was not finite */
} rig;

static void on_event(const rdt_event *e, void *user) {
  rig *r = user;
  r->last = *e;
  r->events++;
  snprintf(r->text, sizeof r->text, "%s", e->text);
}

static void fill(rdt_tensor *t, util_random *random) {
  const bool integer = !rdt_dtype_is_float(t->dtype);
  t->data = rdt_alloc((size_t)rdt_tensor_count(t) + 1, rdt_dtype_size(t->dtype));
  assert_non_null(t->data);
  for (int64_t i = 0; i < rdt_tensor_count(t); i++)
    rdt_store(t->data, t->dtype, i, (integer ? 127.0 : 1.0) * util_uniform(random));
}

static rdt_context *context(const char *scheme, rdt_on_fault on_fault, int threads) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_context *ctx;
  policy.scheme = scheme;
  policy.on_fault = on_fault;
  assert_int_equal(rdt_context_create(&ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  return ctx;
}

static void make_ready(rig *r) {
  rdt_result result;
  if (rdt_plan_execute(r->plan, &r->in, &r->out, &result) != RDT_OK) fail_msg("%s", rdt_context_error(r->ctx));
  assert_int_equal(result.verdict, RDT_CLEAN);
  assert_true(result.corrected_bound == 0.0);
  r->clean = rdt_alloc(rdt_tensor_bytes(&r->out), 1);
  memcpy(r->clean, r->out.data, rdt_tensor_bytes(&r->out));
  rdt_context_on_event(r->ctx, on_event, r);
}

static void product(rig *r, const char *scheme, rdt_on_fault on_fault, rdt_dtype t, const int64_t mnk[3]) {
  const rdt_dtype out = rdt_dtype_is_float(t) ? t : RDT_S32;
  util_random random = {(uint64_t)(mnk[0] + 3 * mnk[1] + 7 * mnk[2])};
  *r = (rig){.ctx = context(scheme, on_fault, 1)};
  r->in = rdt_tensor_matrix(NULL, t, mnk[0], mnk[2], mnk[2], 0);
  r->weights = rdt_tensor_matrix(NULL, t, mnk[2], mnk[1], mnk[1], 0);
  r->out = rdt_tensor_matrix(NULL, out, mnk[0], mnk[1], mnk[1], 0);
  fill(&r->in, &random), fill(&r->weights, &random), fill(&r->out, &random);
  assert_int_equal(rdt_plan_gemm(r->ctx, &r->in, &r->weights, &r->out, &r->plan), RDT_OK);
  make_ready(r);
}

typedef struct shape {
  int64_t x[4], w[4], y[4];
  rdt_conv_params params;
  bool last;
} shape;

static const shape shapes[] = {
    {{2, 8, 9, 10}, {16, 8, 3, 3}, {2, 16, 9, 10}, {{1, 1}, {1, 1, 1, 1}, {1, 1}, 1}, true},
    {{1, 6, 8, 7}, {20, 6, 1, 1}, {1, 20, 4, 4}, {{2, 2}, {0, 0, 0, 0}, {1, 1}, 1}, false},
    {{2, 8, 12, 12}, {12, 4, 3, 2}, {2, 12, 6, 12}, {{2, 1}, {0, 1, 1, 0}, {1, 1}, 2}, true},
    {{1, 16, 9, 9}, {16, 1, 3, 3}, {1, 16, 9, 9}, {{1, 1}, {2, 2, 2, 2}, {2, 2}, 16}, true},
};

static void convolution(rig *r, const char *scheme, rdt_dtype t, const shape *s) {
  const rdt_dtype out = rdt_dtype_is_float(t) ? t : RDT_S32;
  rdt_tensor (*const view)(void *, rdt_dtype, int, const int64_t *) =
      s->last ? rdt_tensor_channels_last : rdt_tensor_dense;
  util_random random = {17};
  *r = (rig){.ctx = context(scheme, RDT_ON_FAULT_CORRECT, 2)};
  r->in = view(NULL, t, 4, s->x);
  r->weights = rdt_tensor_dense(NULL, t, 4, s->w);
  r->out = view(NULL, out, 4, s->y);
  fill(&r->in, &random), fill(&r->weights, &random), fill(&r->out, &random);
  if (rdt_plan_conv(r->ctx, &r->in, &r->weights, &r->out, &s->params, &r->plan) != RDT_OK)
    fail_msg("%s", rdt_context_error(r->ctx));
  make_ready(r);
}

static void drop(rig *r) {
  rdt_plan_destroy(r->plan);
  rdt_context_destroy(r->ctx);
  rdt_free(r->in.data), rdt_free(r->weights.data), rdt_free(r->out.data), rdt_free(r->clean);
}

/* The largest difference from the clean result. */
static double apart(const rig *r, const void *data) {
  double most = 0.0;
  for (int64_t i = 0; i < rdt_tensor_count(&r->out); i++) {
    const double d = fabs(rdt_load(data, r->out.dtype, i) - rdt_load(r->clean, r->out.dtype, i));
    if (!(d <= most)) most = isnan(d) ? INFINITY : d;
  }
  return most;
}

static rdt_result strike(rig *r, const char *spec) {
  rdt_result result;
  r->events = 0;
  r->last = (rdt_event){.kind = RDT_EVENT_SUSPECT};
  if (rdt_plan_inject(r->plan, spec) != RDT_OK) fail_msg("%s", rdt_context_error(r->ctx));
  if (rdt_plan_execute(r->plan, &r->in, &r->out, &result) != RDT_OK) fail_msg("%s", rdt_context_error(r->ctx));
  assert_true(r->plan->injection->done);
  return result;
}

/* Up to 16 faults in a row or a column: rebuilt, and right within what is said. */
static void strike_lines(rig *r, const char *const *kinds, int n_kinds) {
  for (int count = 1; count <= 16; count++)
    for (int along = 0; along < 2; along++) {
      char spec[96];
      const bool integer = r->out.dtype == RDT_S32;
      snprintf(spec, sizeof spec, "%s@accum,count=%d,along=%s,seed=%d",
               integer ? "random" : kinds[(count + along) % n_kinds], count, along ? "row" : "col", count);
      const rdt_result result = strike(r, spec);
      const rdt_injection *j = r->plan->injection;
      r->strange += !isfinite(j->after) || !isfinite(j->error);
      const double off = apart(r, r->out.data);
      if (result.verdict != RDT_CORRECTED)
        fail_msg("%s with %s: %s, %s", spec, r->plan->scheme->name, rdt_verdict_name(result.verdict), j->text);
      if (!(off <= result.corrected_bound) || (integer && (off != 0.0 || result.corrected_bound != 0.0)))
        fail_msg("%s: %g off, and %g was stated", spec, off, result.corrected_bound);
      assert_int_equal(r->events, 1);
      assert_int_equal(r->last.verdict, RDT_CORRECTED);
      assert_int_equal(r->last.diagnosis, RDT_DIAG_UNKNOWN);
      assert_int_equal(r->last.changed, j->changed);
      assert_true(r->last.corrected_bound == result.corrected_bound && j->stated == result.corrected_bound);
      assert_true(j->rebuilt && j->left == off && isfinite(result.corrected_bound));
      assert_non_null(strstr(r->text, "rebuilt from checksums"));
      assert_string_equal(r->last.rungs[r->last.n_rungs - 1].name, "correct");
      r->corrected++;
    }
}

static void products_are_rebuilt(void **state) {
  static const char *const schemes[] = {"row", "col", "rowcol", "global", "tile"};
  static const char *const kinds[] = {"bit:30", "random", "bits:9", "burst:31"};
  static const char *const wide[] = {"bit:62", "random", "bits:19", "burst:40"};
  static const int64_t mnk[][3] = {{60, 50, 70}, {1, 40, 31}, {40, 1, 9}, {150, 131, 20}, {17, 33, 300}};
  static const rdt_dtype types[] = {RDT_F32, RDT_F64, RDT_S8};
  int strange = 0;
  (void)state;
  for (size_t s = 0; s < 5; s++)
    for (size_t i = 0; i < 5; i++)
      for (size_t t = 0; t < 3; t++) {
        rig r;
        product(&r, schemes[s], RDT_ON_FAULT_CORRECT, types[t], mnk[i]);
        assert_string_equal(rdt_plan_scheme(r.plan), schemes[s]);
        assert_null(r.plan->fused);
        strike_lines(&r, types[t] == RDT_F64 ? wide : kinds, 4);
        strange += r.strange;
        drop(&r);
      }
  assert_true(strange > 10); /* NaN and Inf among them */
}

static void convolutions_are_rebuilt(void **state) {
  static const char *const schemes[] = {"fc", "ic", "fic"};
  static const char *const kinds[] = {"bit:30", "random", "bits:9"};
  (void)state;
  for (size_t s = 0; s < 3; s++)
    for (size_t i = 0; i < 4; i++)
      for (int exact = 0; exact < 2; exact++) {
        rig r;
        convolution(&r, schemes[s], exact ? RDT_S8 : RDT_F32, &shapes[i]);
        strike_lines(&r, kinds, 3);
        drop(&r);
      }
}

/* Whatever bit it is: nothing that was found leaves further from the truth than what is said. */
static void any_bit_ends_within_what_is_said(void **state) {
  static const char *const schemes[] = {"rowcol", "row", "tile", "fc", "ic"};
  (void)state;
  for (size_t s = 0; s < 5; s++) {
    int corrected = 0, recomputed = 0;
    rig r;
    if (s < 3)
      product(&r, schemes[s], RDT_ON_FAULT_CORRECT, RDT_F32, (int64_t[]){40, 50, 100});
    else
      convolution(&r, schemes[s], RDT_F32, &shapes[0]);
    for (int seed = 0; seed < 200; seed++) {
      char spec[96];
      snprintf(spec, sizeof spec, "bit@accum,count=1:16,seed=%d", seed);
      const rdt_result result = strike(&r, spec);
      const double off = apart(&r, r.out.data);
      corrected += result.verdict == RDT_CORRECTED;
      recomputed += result.verdict == RDT_RECOMPUTED;
      if (result.verdict == RDT_RECOMPUTED && !(off <= result.floor)) /* some of several are too small to be seen */
        fail_msg("%s: computed again and %g off", spec, off);
      if (result.verdict == RDT_CORRECTED && !(off <= result.corrected_bound))
        fail_msg("%s: %g off, and %g was stated", spec, off, result.corrected_bound);
      if (result.verdict == RDT_CLEAN && !(r.plan->injection->weighted <= result.floor))
        fail_msg("%s: missed, %s", spec, r.plan->injection->text);
    }
    if (corrected <= 50 || recomputed == 0)
      fail_msg("%s: %d corrected, %d computed again", schemes[s], corrected, recomputed);
    drop(&r);
  }
}

static rdt_rebuilt rebuild(rig *r, void *data) {
  const rdt_tensor in[2] = {r->in, r->weights};
  rdt_operands o = {.in = in, .n_in = 2, .out = r->out};
  rdt_rebuilt b;
  o.out.data = data;
  assert_int_equal(rdt_plan_rebuild(r->plan, &o, &b, NULL), RDT_OK);
  return b;
}

/* Three corners of a rectangle, or four: row and column sums do not tell which crossings are wrong. */
static void scattered_faults_are_left_alone(void **state) {
  static const int64_t corners[4][2] = {{3, 5}, {3, 29}, {31, 5}, {31, 29}};
  (void)state;
  for (int conv = 0; conv < 2; conv++)
    for (int n = 2; n <= 4; n++)
      for (int special = 0; special < 3; special++) {
        rig r;
        if (conv)
          convolution(&r, "fc", RDT_F32,
                      &(shape){{1, 4, 6, 6}, {30, 4, 3, 3}, {1, 30, 6, 6}, {{1, 1}, {1, 1, 1, 1}, {1, 1}, 1}, true});
        else
          product(&r, "rowcol", RDT_ON_FAULT_CORRECT, RDT_F32, (int64_t[]){40, 30, 50});
        const size_t bytes = rdt_tensor_bytes(&r.out);
        float *data = rdt_alloc(bytes, 1), *before = rdt_alloc(bytes, 1);
        memcpy(data, r.clean, bytes);
        for (int i = 0; i < n; i++) { /* two: a diagonal */
          const int64_t *c = corners[n == 2 && i == 1 ? 3 : i];
          data[c[0] * 30 + c[1]] = special == 0 ? 1e6f : special == 1 ? NAN : INFINITY;
        }
        memcpy(before, data, bytes);
        const rdt_rebuilt b = rebuild(&r, data);
        assert_int_equal(b.count, 0);
        assert_memory_equal(before, data, bytes);
        rdt_free(data), rdt_free(before);
        drop(&r);
      }
}

/* A third fault that spoils a column's sum and is smaller and smaller: scattered, then noticed, then within the bound.
 */
static void small_company_is_noticed_or_within_the_bound(void **state) {
  int declined = 0, passed = 0;
  rig r;
  (void)state;
  product(&r, "rowcol", RDT_ON_FAULT_CORRECT, RDT_F32, (int64_t[]){40, 30, 200});
  const size_t bytes = rdt_tensor_bytes(&r.out);
  float *data = rdt_alloc(bytes, 1);
  for (int s = -4; s < 30; s++) {
    memcpy(data, r.clean, bytes);
    data[3 * 30 + 5] = 1e6f;
    data[3 * 30 + 29] = -1e5f;
    data[20 * 30 + 29] += ldexpf(1.0f, -s);
    const rdt_rebuilt b = rebuild(&r, data);
    declined += b.count == 0;
    passed += b.passed;
    if (b.count > 0) assert_int_equal(b.count, 2);
    if (b.passed && !(apart(&r, data) <= b.bound)) fail_msg("2^%d: %g off, %g stated", -s, apart(&r, data), b.bound);
  }
  assert_true(declined > 5 && passed > 5);
  rdt_free(data);
  drop(&r);
}

/* Rounding could explain the value that was found: it stays, and computing again decides. */
static void what_may_be_right_is_not_replaced(void **state) {
  rig r;
  (void)state;
  product(&r, "rowcol", RDT_ON_FAULT_CORRECT, RDT_F32, (int64_t[]){40, 30, 200});
  float *data = rdt_alloc(rdt_tensor_bytes(&r.out), 1);
  memcpy(data, r.clean, rdt_tensor_bytes(&r.out));
  assert_int_equal(rebuild(&r, data).count, 0);
  data[100] += 1e-3f; /* far above the statistical bounds, not above the rigorous one */
  const float found = data[100];
  assert_int_equal(rebuild(&r, data).count, 0);
  assert_true(data[100] == found);
  data[100] += 1.0f;
  const rdt_rebuilt b = rebuild(&r, data);
  assert_int_equal(b.count, 1);
  assert_true(b.passed && b.bound < 1.0 && apart(&r, data) <= b.bound);
  for (int i = 0; i < 17; i++) data[3 * 30 + i] = 1e5f; /* one more than the findings can name */
  assert_int_equal(rebuild(&r, data).count, 0);
  rdt_free(data);
  drop(&r);
}

/* What locates must be sure of itself: a count that was hit on the way leaves the result alone. */
static void findings_that_disagree_locate_nothing(void **state) {
  rig r;
  rdt_lines l;
  rdt_rebuilt b;
  rdt_findings f[2];
  (void)state;
  product(&r, "rowcol", RDT_ON_FAULT_CORRECT, RDT_F32, (int64_t[]){20, 30, 25});
  float *data = r.out.data;
  const rdt_tensor in[2] = {r.in, r.weights};
  const rdt_operands o = {.in = in, .n_in = 2, .out = r.out};
  assert_int_equal(rdt_lines_create(&r.plan->prob, &o, 6.0, &l, NULL), RDT_OK);
  for (int spoilt = 0; spoilt < 6; spoilt++) {
    memcpy(data, r.clean, rdt_tensor_bytes(&r.out));
    data[7 * 30 + 11] = 1e6f;
    for (int axis = 0; axis < 2; axis++) {
      rdt_findings_init(&f[axis]);
      rdt_findings_check(&f[axis], axis ? RDT_CHECK_COL : RDT_CHECK_ROW, axis ? -1 : 7, axis ? 11 : -1, 1e6, 0.0,
                         (rdt_bound){1e-3, 1e-4});
    }
    if (spoilt == 1) f[0].checks++;
    if (spoilt == 2) f[1].suspects ^= 4;
    if (spoilt == 3) f[1].suspects = 0;
    if (spoilt == 4) f[0].cannot = 1;
    if (spoilt == 5) f[1].listed = 0;
    rdt_correct(&l, &f[0], &f[1], &b);
    assert_int_equal(b.count, spoilt == 0);
    assert_true((data[7 * 30 + 11] == 1e6f) == (spoilt != 0));
  }
  rdt_lines_destroy(&l);
  drop(&r);
}

static void a_fault_in_the_checksums_changes_no_data(void **state) {
  static const char *const schemes[] = {"row", "rowcol", "tile", "fc", "fic"};
  (void)state;
  for (size_t s = 0; s < 5; s++) {
    rig r;
    if (s < 3)
      product(&r, schemes[s], RDT_ON_FAULT_CORRECT, RDT_F32, (int64_t[]){20, 30, 25});
    else
      convolution(&r, schemes[s], RDT_F32, &shapes[0]);
    for (int seed = 0; seed < 40; seed++) {
      char spec[64];
      snprintf(spec, sizeof spec, "random@checksum,seed=%d", seed);
      const rdt_result result = strike(&r, spec);
      assert_memory_equal(r.clean, r.out.data, rdt_tensor_bytes(&r.out));
      assert_true(result.verdict == RDT_RECOMPUTED && result.diagnosis == RDT_DIAG_CHECKER);
    }
    drop(&r);
  }
}

/* The default gives the same bits, however many faults there are; so does `correct` where it has two copies. */
static void recomputing_stays_bit_identical(void **state) {
  static const char *const schemes[] = {"row", "rowcol", "tile", "dup"};
  (void)state;
  for (size_t s = 0; s < 4; s++)
    for (int correct = s == 3; correct >= 0; correct--) {
      rig r;
      product(&r, schemes[s], correct ? RDT_ON_FAULT_CORRECT : RDT_ON_FAULT_RECOMPUTE, RDT_F32,
              (int64_t[]){60, 50, 70});
      for (int seed = 0; seed < 20; seed++) {
        char spec[64];
        snprintf(spec, sizeof spec, "random@accum,count=2:16,seed=%d", seed);
        const rdt_result result = strike(&r, spec);
        assert_int_equal(result.verdict, RDT_RECOMPUTED);
        assert_true(r.plan->injection->changed > 1 || s == 3); /* not known without sums */
        assert_memory_equal(r.clean, r.out.data, rdt_tensor_bytes(&r.out));
      }
      drop(&r);
    }
}

/* Each output is the product of the two lines that are said to make it, whatever views the operands are. */
static void lines_make_the_result(void **state) {
  util_random random = {11};
  (void)state;
  for (int i = 0; i < 300; i++) {
    util_case c;
    rdt_lines l;
    const rdt_dtype t = i % 3 == 0 ? RDT_F64 : i % 3 == 1 ? RDT_BF16 : RDT_F32;
    util_case_make(&c, &random, i % 2 ? RDT_KOP_CONV : RDT_KOP_GEMM, t, t, t == RDT_BF16 ? RDT_F32 : t, false);
    const rdt_tensor *out = &c.p.out;
    const int64_t n = rdt_tensor_count(out);
    double *expected = rdt_alloc((size_t)n + 1, sizeof(double)), *scale = rdt_alloc((size_t)n + 1, sizeof(double));
    const rdt_operands o = {.in = c.in, .n_in = 2, .out = c.p.out};
    util_oracle(&c.p, expected, scale);
    assert_int_equal(rdt_lines_create(&c.p, &o, 6.0, &l, NULL), RDT_OK);
    double *a = rdt_alloc((size_t)l.k + 1, sizeof *a), *b = rdt_alloc((size_t)l.k + 1, sizeof *b);
    rdt_iter it = rdt_iter_begin(out);
    for (int64_t e = 0; rdt_iter_next(&it); e++) {
      const int channel = rdt_problem_channel(&c.p);
      int64_t place[2] = {0, it.index[channel]}, from, to;
      double sum = 0.0;
      for (int d = 0; d < out->rank; d++)
        if (d != channel) place[0] = place[0] * out->shape[d] + it.index[d];
      if (util_next(&random) % 8 != 0) continue;
      l.operand(l.self, 0, place, a), l.operand(l.self, 1, place, b);
      for (int64_t k = 0; k < l.k; k++) sum += a[k] * b[k];
      if (!(fabs(sum - expected[e]) <= 1e-12 * (scale[e] + 1.0)))
        fail_msg("case %d, element %d: %.17g, not %.17g", i, (int)e, sum, expected[e]);
      for (int axis = 0; axis < 2; axis++) {
        l.span(l.self, axis, place[axis], &from, &to);
        assert_true(from <= place[axis] && place[axis] < to);
      }
      l.store(l.self, place, 3.0);
      assert_true(rdt_load(out->data, out->dtype, it.offset) == 3.0 && l.load(l.self, place) == 3.0);
    }
    rdt_free(a), rdt_free(b), rdt_free(expected), rdt_free(scale);
    rdt_lines_destroy(&l);
    util_case_free(&c);
  }
}

static void several_faults_are_spelled(void **state) {
  rdt_fault f;
  bool seen[31] = {false};
  (void)state;
  assert_int_equal(rdt_fault_parse("bit@accum,count=3:16,along=row,seed=4", &f, NULL), RDT_OK);
  for (f.seed = 0; f.seed < 100; f.seed++) {
    assert_true(rdt_fault_count(&f) >= 3 && rdt_fault_count(&f) <= 16);
    assert_int_equal(rdt_fault_along(&f), RDT_ALONG_ROW);
  }
  for (int i = 0; i < 31; i++) {
    const int64_t at = rdt_fault_position(&f, 7, 31, i);
    assert_true(at >= 0 && at < 31 && !seen[at]);
    seen[at] = true;
  }
  assert_int_equal(rdt_fault_position(&f, 7, 31, 0), 7);
  static const char *const wrong[] = {"bit@accum,count=0",  "bit@accum,count=17",  "bit@accum,count=4:3",
                                      "bit@accum,count=",   "bit@accum,count=4:",  "bit@accum,along=diagonal",
                                      "bit@weight,count=2", "bit@output,along=row"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(rdt_fault_parse(wrong[i], &f, NULL), RDT_ERR_ARG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_rebuilt),
      cmocka_unit_test(convolutions_are_rebuilt),
      cmocka_unit_test(any_bit_ends_within_what_is_said),
      cmocka_unit_test(scattered_faults_are_left_alone),
      cmocka_unit_test(small_company_is_noticed_or_within_the_bound),
      cmocka_unit_test(what_may_be_right_is_not_replaced),
      cmocka_unit_test(findings_that_disagree_locate_nothing),
      cmocka_unit_test(a_fault_in_the_checksums_changes_no_data),
      cmocka_unit_test(recomputing_stays_bit_identical),
      cmocka_unit_test(lines_make_the_result),
      cmocka_unit_test(several_faults_are_spelled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
