/* Products and convolutions through the public calls: results, verdicts, faults at every site, policies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "check/tolerance.h"
#include "core/memory.h"
#include "plan/plan.h"

static uint64_t rng_state = 1;

static double uniform(void) {
  rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(rng_state >> 11) * 0x1p-53 - 0.5;
}

static void fill(const rdt_tensor *t) {
  const bool integer = !rdt_dtype_is_float(t->dtype);
  rdt_iter it = rdt_iter_begin(t);
  while (rdt_iter_next(&it)) rdt_store(t->data, t->dtype, it.offset, integer ? 250.0 * uniform() : uniform());
}

static rdt_tensor matrix(rdt_dtype t, int64_t rows, int64_t cols, int64_t ld, int trans) {
  const int64_t shape[2] = {trans ? cols : rows, trans ? rows : cols};
  rdt_tensor m = rdt_tensor_matrix(NULL, t, shape[0], shape[1], ld ? ld : shape[1], trans);
  m.data = rdt_calloc((size_t)(shape[0] * (ld ? ld : shape[1])) + 1, rdt_dtype_size(t));
  assert_non_null(m.data);
  fill(&m);
  return m;
}

static double at(const rdt_tensor *t, int64_t i, int64_t j) {
  return rdt_load(t->data, t->dtype, i * t->stride[0] + j * t->stride[1]);
}

/* |c - (alpha a b + beta c0)| within what rounding explains, for every element */
static void expect_product(double alpha, const rdt_tensor *a, const rdt_tensor *b, double beta, const double *c0,
                           const rdt_tensor *c) {
  const int64_t n = c->shape[1], k = a->shape[1];
  const rdt_tolerance tol = {.acc = rdt_accumulator_of(a->dtype, rdt_dtype_accumulator(a->dtype)),
                             .k = k,
                             .u_out = rdt_dtype_info(c->dtype)->u,
                             .u_check = 0x1p-53,
                             .u_beta = 0x1p-53,
                             .lambda = 6.0};
  for (int64_t i = 0; i < c->shape[0]; i++)
    for (int64_t j = 0; j < n; j++) {
      double exact = 0.0, sum = 0.0;
      for (int64_t t = 0; t < k; t++) {
        exact += at(a, i, t) * at(b, t, j);
        sum += fabs(at(a, i, t) * at(b, t, j));
      }
      const double want = alpha * exact + (c0 ? beta * c0[i * n + j] : 0.0), got = at(c, i, j);
      const double bound =
          2.0 * fabs(alpha) * rdt_bound_element(&tol, sum) +
          8.0 * rdt_dtype_info(c->dtype)->u * (fabs(want) + fabs(alpha) * sum + fabs(want - alpha * exact));
      if (!(fabs(got - want) <= bound)) fail_msg("C[%d,%d] = %.9g, expected %.9g", (int)i, (int)j, got, want);
    }
}

static rdt_context *context(int threads, const char *scheme, rdt_on_fault on_fault) {
  rdt_context *ctx;
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  policy.on_fault = on_fault;
  assert_int_equal(rdt_context_create(&ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  return ctx;
}

static void products_are_right_and_clean(void **state) {
  static const struct {
    rdt_dtype in_a, in_b, out;
  } types[] = {{RDT_F64, RDT_F64, RDT_F64},    {RDT_F32, RDT_F32, RDT_F32}, {RDT_BF16, RDT_BF16, RDT_F32},
               {RDT_BF16, RDT_BF16, RDT_BF16}, {RDT_F16, RDT_F16, RDT_F32}, {RDT_F16, RDT_F16, RDT_F16},
               {RDT_S8, RDT_S8, RDT_S32},      {RDT_U8, RDT_S8, RDT_S32},   {RDT_S8, RDT_U8, RDT_S32},
               {RDT_U8, RDT_U8, RDT_S32}};
  static const int64_t shapes[][3] = {{1, 1, 1},  {7, 9, 13}, {33, 17, 64}, {1, 40, 31},
                                      {40, 1, 3}, {0, 5, 3},  {5, 0, 3},    {4, 6, 0}};
  rdt_context *ctx = context(2, "auto", RDT_ON_FAULT_RECOMPUTE);
  (void)state;
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
      for (int variant = 0; variant < 4; variant++) {
        const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        const bool plain = types[t].out == RDT_S32 || variant == 0;
        rdt_tensor a = matrix(types[t].in_a, m, k, variant & 1 ? (variant == 1 ? k : m) + 3 : 0, variant >= 2);
        rdt_tensor b = matrix(types[t].in_b, k, n, 0, variant & 1);
        rdt_tensor c = matrix(types[t].out, m, n, n + (variant == 3 ? 5 : 0), 0);
        double *c0 = rdt_calloc((size_t)(m * n), sizeof *c0);
        for (int64_t i = 0; i < m * n; i++) c0[i] = at(&c, i / n, i % n);
        rdt_result r;
        const rdt_status status = rdt_gemm(ctx, plain ? 1.0 : -0.75, &a, &b, plain ? 0.0 : 0.5, &c, &r);
        if (status != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
        assert_int_equal(r.verdict, RDT_CLEAN);
        assert_int_equal(r.faults, 0);
        if (m > 0 && n > 0) assert_true(r.checks > 0);
        expect_product(plain ? 1.0 : -0.75, &a, &b, plain ? 0.0 : 0.5, plain ? NULL : c0, &c);
        rdt_free(a.data), rdt_free(b.data), rdt_free(c.data), rdt_free(c0);
      }
  rdt_context_destroy(ctx);
}

typedef struct seen {
  rdt_event last;
  char text[400], what[32];
  int events;
} seen;

static void on_event(const rdt_event *e, void *user) {
  seen *s = user;
  s->last = *e;
  snprintf(s->text, sizeof s->text, "%s", e->text);
  snprintf(s->what, sizeof s->what, "%s", e->what);
  s->events++;
}

/* One product or convolution with fixed weights; faults at every site that it has. */
static void attack(rdt_plan *plan, rdt_context *ctx, const rdt_tensor *in, rdt_tensor *out, bool weights_restorable) {
  static const char *const faults[] = {"bit:30@accum,seed=%d",    "bit:22@accum,seed=%d", "bit:31@accum,seed=%d",
                                       "random@accum,seed=%d",    "zero@accum,seed=%d",   "bit:30@packed,seed=%d",
                                       "bit:62@checksum,seed=%d", "bit:30@weight,seed=%d"};
  const size_t bytes = rdt_tensor_bytes(out);
  void *clean = rdt_alloc(bytes, 1);
  seen log = {.events = 0};
  rdt_result r;
  rdt_context_on_event(ctx, on_event, &log);
  if (rdt_plan_execute(plan, in, out, &r) != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_int_equal(log.events, 0);
  memcpy(clean, out->data, bytes);
  int found = 0;
  for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++)
    for (int seed = 0; seed < 10; seed++) {
      char spec[80];
      snprintf(spec, sizeof spec, faults[f], seed);
      const rdt_status armed = rdt_plan_inject(plan, spec);
      if (armed == RDT_ERR_ARG) break; /* this kernel or scheme has no such site */
      const bool weight = strstr(spec, "@weight") != NULL;
      rdt_tensor *w = &plan->prob.in[1];
      void *kept = rdt_alloc(rdt_tensor_bytes(w), 1);
      memcpy(kept, w->data, rdt_tensor_bytes(w));
      log.events = 0;
      const rdt_status status = rdt_plan_execute(plan, in, out, &r);
      const rdt_injection *j = plan->injection;
      assert_true(j->done);
      if (weight && !weights_restorable) { /* nobody to restore from: must not leave as OK once noticed */
        memcpy(w->data, kept, rdt_tensor_bytes(w));
        assert_int_equal(rdt_plan_reload(plan, NULL), RDT_OK);
        if (j->error > r.floor || status != RDT_OK) assert_int_equal(status, RDT_ERR_FAULT);
      } else {
        if (status != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(ctx));
        const bool above = j->changed > 0 && j->error > r.floor;
        if (above && r.verdict != RDT_RECOMPUTED)
          fail_msg("%s missed: %s, error %g, floor %g", spec, j->text, j->error, r.floor);
        if (j->changed < 0 && r.verdict == RDT_CLEAN && memcmp(clean, out->data, bytes) != 0)
          fail_msg("%s missed: %s, and the result is another one", spec, j->text);
        if (r.verdict == RDT_RECOMPUTED) {
          assert_memory_equal(clean, out->data, bytes);
          assert_int_equal(log.events, 1);
          found++;
        }
      }
      rdt_free(kept);
      assert_int_equal(rdt_plan_execute(plan, in, out, &r), RDT_OK); /* and nothing is left behind */
      assert_int_equal(r.verdict, RDT_CLEAN);
      assert_memory_equal(clean, out->data, bytes);
    }
  assert_true(found > 20);
  rdt_context_on_event(ctx, NULL, NULL);
  rdt_free(clean);
}

static void product_faults_are_found_and_repaired(void **state) {
  static const char *const schemes[] = {"auto",           "row",   "col",     "rowcol",   "global",
                                        "global-classic", "tile",  "thread1", "thread2",  "replicate",
                                        "replicate1",     "row:2", "dup",     "rowcol:3", "col:8"};
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof schemes[0]; s++)
    for (int threads = 1; threads <= 2; threads++) {
      rdt_context *ctx = context(threads, schemes[s], RDT_ON_FAULT_RECOMPUTE);
      rdt_tensor a = matrix(RDT_F32, 60, 70, 0, 0), b = matrix(RDT_F32, 70, 50, 0, 0),
                 c = matrix(RDT_F32, 60, 50, 0, 0);
      rdt_plan *plan;
      assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
      if (s > 0) assert_string_equal(rdt_plan_scheme(plan), schemes[s]);
      attack(plan, ctx, &a, &c, false);
      rdt_plan_destroy(plan);
      rdt_context_destroy(ctx);
      rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
    }
}

static rdt_tensor image(const int64_t nchw[4], bool last) {
  rdt_tensor t = last ? rdt_tensor_channels_last(NULL, RDT_F32, 4, nchw) : rdt_tensor_dense(NULL, RDT_F32, 4, nchw);
  t.data = rdt_calloc((size_t)rdt_tensor_count(&t), 4);
  fill(&t);
  return t;
}

static void convolution_faults_are_found_and_repaired(void **state) {
  static const char *const schemes[] = {"auto", "fc", "ic", "fic", "dup"};
  const rdt_conv_params params = {{1, 1}, {1, 1, 1, 1}, {1, 1}, 1};
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof schemes[0]; s++)
    for (int last = 0; last < 2; last++) {
      rdt_context *ctx = context(2, schemes[s], RDT_ON_FAULT_RECOMPUTE);
      rdt_tensor x = image((int64_t[]){2, 8, 9, 10}, last), w = image((int64_t[]){16, 8, 3, 3}, false);
      rdt_tensor y = image((int64_t[]){2, 16, 9, 10}, last);
      rdt_plan *plan;
      assert_int_equal(rdt_plan_conv(ctx, &x, &w, &y, &params, &plan), RDT_OK);
      if (s > 0) assert_string_equal(rdt_plan_scheme(plan), schemes[s]);
      attack(plan, ctx, &x, &y, false);
      rdt_plan_destroy(plan);
      rdt_context_destroy(ctx);
      rdt_free(x.data), rdt_free(w.data), rdt_free(y.data);
    }
}

static void references_repair_the_tile(void **state) {
  rdt_context *ctx = context(1, "rowcol", RDT_ON_FAULT_RECOMPUTE);
  rdt_tensor a = matrix(RDT_F64, 20, 30, 0, 0), b = matrix(RDT_F64, 30, 25, 0, 0), c = matrix(RDT_F64, 20, 25, 0, 0);
  rdt_plan *plan;
  rdt_tile tile;
  rdt_findings f;
  (void)state;
  assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
  assert_false(plan->kernel->black_box);
  rdt_findings_init(&f);
  assert_false(rdt_plan_tile(plan, &f, &tile));
  rdt_findings_check(&f, RDT_CHECK_ROW, 7, -1, 1.0, 0.0, (rdt_bound){0.5, 0.5});
  rdt_findings_check(&f, RDT_CHECK_COL, -1, 11, 1.0, 0.0, (rdt_bound){0.5, 0.5});
  assert_true(rdt_plan_tile(plan, &f, &tile));
  assert_int_equal(tile.from[0], 7);
  assert_int_equal(tile.length[0], 1);
  assert_int_equal(tile.from[1], 11);
  assert_int_equal(tile.length[1], 1);
  attack(plan, ctx, &a, &c, false);
  rdt_plan_destroy(plan);
  rdt_context_destroy(ctx);
  rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
}

/* The gaps between the vectors too: the seal sums them. */
static void every_double_of_the_checksums_is_restored(void **state) {
  static const char *const schemes[] = {"row", "rowcol", "global", "tile"};
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof schemes[0]; s++) {
    rdt_context *ctx = context(1, schemes[s], RDT_ON_FAULT_RECOMPUTE);
    rdt_tensor a = matrix(RDT_F32, 4, 3, 0, 0), b = matrix(RDT_F32, 3, 5, 0, 0), c = matrix(RDT_F32, 4, 5, 0, 0);
    rdt_plan *plan;
    rdt_result r;
    assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
    for (int at = 0; at < (plan->fused ? 6 : 16); at++) {
      char spec[64];
      snprintf(spec, sizeof spec, "bit:62@checksum,at=%d", at);
      assert_int_equal(rdt_plan_inject(plan, spec), RDT_OK);
      if (rdt_plan_execute(plan, &a, &c, &r) != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(ctx));
      assert_int_equal(r.verdict, RDT_RECOMPUTED);
      assert_int_equal(r.diagnosis, RDT_DIAG_CHECKER);
      assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_CLEAN);
    }
    rdt_plan_destroy(plan);
    rdt_context_destroy(ctx);
    rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
  }
}

/* A weight in the caller's memory rots after it was packed: the check covers it, so only scrubbing looks. */
static void scrubbing_keeps_its_schedule(void **state) {
  static const int every[] = {0, 1, 5};
  (void)state;
  for (int i = 0; i < 3; i++) {
    rdt_context *ctx = context(1, "row", RDT_ON_FAULT_RECOMPUTE);
    rdt_policy policy = RDT_POLICY_DEFAULT;
    rdt_tensor a = matrix(RDT_F32, 8, 6, 0, 0), b = matrix(RDT_F32, 6, 7, 0, 0), c = matrix(RDT_F32, 8, 7, 0, 0);
    rdt_plan *plan;
    rdt_result r;
    policy.scheme = "row";
    policy.scrub_every = -1;
    assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG);
    policy.scrub_every = every[i];
    assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
    assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
    ((float *)b.data)[3] += 1.0f;
    for (int run = 1; run <= 12; run++) {
      const bool due = every[i] > 0 && run % every[i] == 0;
      assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), due ? RDT_ERR_FAULT : RDT_OK);
      assert_int_equal(r.verdict, due ? RDT_DETECTED : RDT_CLEAN);
    }
    rdt_plan_destroy(plan);
    rdt_context_destroy(ctx);
    rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
  }
}

static void place_is_named(void **state) {
  rdt_context *ctx = context(1, "row", RDT_ON_FAULT_RECOMPUTE);
  rdt_tensor a = matrix(RDT_F32, 20, 30, 0, 0), b = matrix(RDT_F32, 30, 25, 0, 0), c = matrix(RDT_F32, 20, 25, 0, 0);
  rdt_plan *plan;
  rdt_result r;
  seen log = {.events = 0};
  (void)state;
  rdt_context_on_event(ctx, on_event, &log);
  assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
  assert_int_equal(rdt_plan_inject(plan, "bit:30@accum,at=7/11"), RDT_OK);
  assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_int_equal(r.place[0], 7);
  assert_int_equal(r.place[1], 11);
  assert_int_equal(log.last.changed, 1);
  assert_int_equal(log.last.diagnosis, RDT_DIAG_TRANSIENT);
  assert_true(log.last.residual > log.last.bound);
  assert_non_null(strstr(log.text, "row 7, column 11"));
  assert_int_equal(rdt_plan_inject(plan, "bit@nonlinear"), RDT_ERR_ARG);
  rdt_plan_destroy(plan);
  rdt_context_destroy(ctx);
  rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
}

/* So many checks that threads share them: all are counted, and a fault in the last of them is found and placed. */
static void many_checks_are_shared(void **state) {
  const int64_t m = 9001;
  rdt_tensor a = matrix(RDT_F32, m, 32, 0, 0), b = matrix(RDT_F32, 32, 64, 0, 0), c = matrix(RDT_F32, m, 64, 0, 0);
  (void)state;
  for (int threads = 1; threads <= 3; threads++) {
    static rdt_result clean;
    rdt_context *ctx = context(threads, "row", RDT_ON_FAULT_RECOMPUTE);
    rdt_plan *plan;
    rdt_result r;
    assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
    assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_int_equal(r.checks, m);
    if (threads == 1) clean = r;
    assert_true(r.ratio == clean.ratio && r.floor == clean.floor);
    assert_int_equal(rdt_plan_inject(plan, "bit:30@accum,at=9000/63"), RDT_OK);
    assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_int_equal(r.place[0], 9000);
    assert_int_equal(r.place[1], 63);
    rdt_plan_destroy(plan);
    rdt_context_destroy(ctx);
  }
  rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
}

static void report_never_leaves_as_ok(void **state) {
  rdt_context *ctx = context(1, "auto", RDT_ON_FAULT_REPORT);
  rdt_tensor a = matrix(RDT_F32, 20, 30, 0, 0), b = matrix(RDT_F32, 30, 25, 0, 0), c = matrix(RDT_F32, 20, 25, 0, 0);
  rdt_plan *plan;
  rdt_result r;
  (void)state;
  assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
  assert_int_equal(rdt_plan_inject(plan, "bit:30@accum,at=7/11"), RDT_OK);
  assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_ERR_FAULT);
  assert_int_equal(r.verdict, RDT_DETECTED);
  assert_true(strlen(rdt_context_error(ctx)) > 20);
  double exact = 0.0;
  for (int t = 0; t < 30; t++) exact += at(&a, 7, t) * at(&b, t, 11);
  assert_true(fabs(at(&c, 7, 11) - exact) > 1.0); /* left as it was */
  rdt_plan_destroy(plan);
  rdt_context_destroy(ctx);
  rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
}

static void without_protection_nothing_is_clean(void **state) {
  rdt_context *ctx = context(1, "none", RDT_ON_FAULT_RECOMPUTE);
  rdt_tensor a = matrix(RDT_F32, 20, 30, 0, 0), b = matrix(RDT_F32, 30, 25, 0, 0), c = matrix(RDT_F32, 20, 25, 0, 0);
  rdt_result r;
  (void)state;
  assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_UNCHECKED);
  assert_int_equal(r.checks, 0);
  rdt_context_destroy(ctx);
  rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
}

static void nan_and_inf_inputs_are_unchecked_not_clean(void **state) {
  static const char *const schemes[] = {"row", "col", "rowcol", "global", "tile"};
  (void)state;
  for (size_t s = 0; s < sizeof schemes / sizeof schemes[0]; s++)
    for (int kind = 0; kind < 2; kind++) {
      rdt_context *ctx = context(1, schemes[s], RDT_ON_FAULT_RECOMPUTE);
      rdt_tensor a = matrix(RDT_F32, 20, 30, 0, 0), b = matrix(RDT_F32, 30, 25, 0, 0),
                 c = matrix(RDT_F32, 20, 25, 0, 0);
      rdt_result r;
      ((float *)a.data)[3 * 30 + 4] = kind ? NAN : INFINITY;
      assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_UNCHECKED);
      assert_true(r.unchecked > 0);
      assert_int_equal(r.faults, 0);
      rdt_context_destroy(ctx);
      rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
    }
}

/* Rows without a bound fill no list: the fault beside them is computed again, and the whole stays UNCHECKED. */
static void a_fault_beside_nan_rows_is_repaired(void **state) {
  rdt_context *ctx = context(1, "row", RDT_ON_FAULT_RECOMPUTE);
  rdt_tensor a = matrix(RDT_F64, 40, 30, 0, 0), b = matrix(RDT_F64, 30, 25, 0, 0), c = matrix(RDT_F64, 40, 25, 0, 0);
  rdt_plan *plan;
  rdt_result r;
  double clean[25];
  (void)state;
  for (int i = 0; i < 20; i++) ((double *)a.data)[i * 30] = NAN;
  assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
  assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
  memcpy(clean, (double *)c.data + 30 * 25, sizeof clean);
  for (int bit = 0; bit < 62; bit++) {
    char spec[64];
    snprintf(spec, sizeof spec, "bit:%d@accum,at=30/7", bit);
    assert_int_equal(rdt_plan_inject(plan, spec), RDT_OK);
    assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_UNCHECKED);
    if (r.suspects == 0) continue;
    assert_int_equal(r.faults, 1);
    assert_int_equal(r.diagnosis, RDT_DIAG_TRANSIENT);
    assert_memory_equal(clean, (double *)c.data + 30 * 25, sizeof clean);
  }
  rdt_plan_destroy(plan);
  rdt_context_destroy(ctx);
  rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
}

/* lambda 1: a third of all checks is suspect, nothing is a fault, and what has no bound stays UNCHECKED. */
static void suspects_by_rounding_are_no_faults(void **state) {
  static const int64_t shapes[][3] = {{300, 9, 64}, {7, 1, 500}, {200, 200, 17}, {1, 300, 33}};
  static const char *const schemes[] = {"row", "col", "rowcol", "tile", "global"};
  (void)state;
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0] * 4; i++)
    for (int nan = 0; nan < 2; nan++) {
      const int64_t *s = shapes[i % 4];
      rdt_context *ctx = context(2, "auto", RDT_ON_FAULT_RECOMPUTE);
      rdt_policy policy = RDT_POLICY_DEFAULT;
      policy.scheme = schemes[i / 4], policy.lambda = 1.0, policy.suspect_rate = 0.0, policy.min_coverage = 0.0;
      rdt_tensor a = matrix(RDT_F32, s[0], s[2], 0, 0), b = matrix(RDT_F32, s[2], s[1], 0, 0),
                 c = matrix(RDT_F32, s[0], s[1], 0, 0);
      rdt_result r;
      if (nan) ((float *)a.data)[3] = NAN;
      assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
      const rdt_status status = rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, &r);
      if (status != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
      assert_int_equal(r.verdict, nan ? RDT_UNCHECKED : RDT_CLEAN);
      assert_int_equal(r.faults, 0);
      rdt_context_destroy(ctx);
      rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
    }
}

/* A view's elements are where its strides say: faults stay inside of it, whatever lies between and beyond. */
static void faults_in_views_stay_inside(void **state) {
  static const char *const schemes[] = {"none", "row", "dup"};
  enum { SIDE = 6, ROOM = 3 * SIDE * 2 * SIDE };
  (void)state;
  for (size_t s = 0; s < 3; s++)
    for (int seed = 0; seed < 40; seed++) {
      rdt_context *ctx = context(1, schemes[s], RDT_ON_FAULT_REPORT);
      float w[ROOM] = {0}, kept[ROOM], y[ROOM] = {0};
      rdt_tensor a = matrix(RDT_F32, SIDE, SIDE, 0, 0), b = {.dtype = RDT_F32, .rank = 2, .shape = {SIDE, SIDE}};
      char spec[64];
      b.stride[0] = -2 * SIDE;
      b.stride[1] = 2;
      b.data = w + ROOM / 2 + 2 * SIDE * (SIDE - 1); /* the last row; nothing of it in the first half */
      rdt_tensor c = b;
      c.data = y + ROOM / 2 + 2 * SIDE * (SIDE - 1);
      fill(&b);
      memcpy(kept, w, sizeof w);
      rdt_plan *plan;
      rdt_result r;
      assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
      snprintf(spec, sizeof spec, "bit:30@%s,seed=%d", seed % 2 ? "weight" : "accum", seed);
      assert_int_equal(rdt_plan_inject(plan, spec), RDT_OK);
      (void)!rdt_plan_execute(plan, &a, &c, &r);
      assert_true(plan->injection->done);
      int hits = 0;
      for (int i = 0; i < ROOM; i++) {
        const bool in = i >= ROOM / 2 && i < ROOM / 2 + 2 * SIDE * SIDE && i % 2 == 0;
        const bool hit = memcmp(&w[i], &kept[i], sizeof w[i]) != 0;
        assert_true(in || (!hit && y[i] == 0.0f));
        hits += hit;
      }
      assert_int_equal(hits, seed % 2);
      assert_int_equal(rdt_plan_inject(plan, "bit@output"), RDT_ERR_ARG); /* sites between the nodes of a network */
      assert_int_equal(rdt_plan_inject(plan, "bit@input"), RDT_ERR_ARG);
      rdt_plan_destroy(plan);
      rdt_context_destroy(ctx);
      rdt_free(a.data);
    }
}

/* The same input in every row or pixel: what a rotten weight does cancels between the signs of the rows. */
static void weights_are_covered_whatever_the_input(void **state) {
  static const char *const products[] = {"auto", "row", "col", "rowcol", "global", "tile", "dup"};
  static const char *const convolutions[] = {"auto", "fc", "ic", "fic", "dup"};
  const rdt_conv_params params = {{1, 1}, {0, 0, 0, 0}, {1, 1}, 1};
  (void)state;
  for (size_t s = 0; s < 12; s++) {
    const bool conv = s >= 7;
    rdt_context *ctx = context(1, conv ? convolutions[s - 7] : products[s], RDT_ON_FAULT_RECOMPUTE);
    rdt_tensor a = conv ? image((int64_t[]){1, 8, 4, 4}, true) : matrix(RDT_F32, 16, 8, 0, 0);
    rdt_tensor b = conv ? image((int64_t[]){8, 8, 1, 1}, false) : matrix(RDT_F32, 8, 8, 0, 0);
    rdt_tensor c = conv ? image((int64_t[]){1, 8, 4, 4}, true) : matrix(RDT_F32, 16, 8, 0, 0);
    float clean[128];
    rdt_plan *plan;
    rdt_result r;
    for (int i = 0; i < 128; i++) ((float *)a.data)[i] = 1.0f;
    assert_int_equal(conv ? rdt_plan_conv(ctx, &a, &b, &c, &params, &plan) : rdt_plan_gemm(ctx, &a, &b, &c, &plan),
                     RDT_OK);
    assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    memcpy(clean, c.data, sizeof clean);
    int hit = 0;
    for (int seed = 0; seed < 10; seed++) {
      char spec[64];
      snprintf(spec, sizeof spec, "bit:30@packed,seed=%d", seed);
      if (rdt_plan_inject(plan, spec) != RDT_OK) break; /* the references pack nothing */
      assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
      assert_memory_equal(clean, c.data, sizeof clean);
      const bool padding = plan->injection->changed == 0;
      assert_true(r.verdict == RDT_RECOMPUTED || (padding && r.verdict == RDT_CLEAN));
      hit += r.verdict == RDT_RECOMPUTED;
    }
    assert_true(hit > 0 || !rdt_plan_has_site(plan, RDT_SITE_PACKED));
    ((float *)b.data)[13] *= 2.0f;
    const rdt_status status = rdt_plan_execute(plan, &a, &c, &r);
    if (memcmp(clean, c.data, sizeof clean) != 0) assert_int_equal(status, RDT_ERR_FAULT);
    rdt_plan_destroy(plan);
    rdt_context_destroy(ctx);
    rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
  }
}

static void independent_checks_are_asked_for_by_number(void **state) {
  static const char *const bad[] = {"row:",   "row:0", "row:9",  "row:10",   "row:2x",
                                    "row:-1", ":2",    "tile:2", "global:2", "none:2"};
  rdt_policy policy = RDT_POLICY_DEFAULT;
  (void)state;
  for (int sets = 1; sets <= RDT_MOST_SETS; sets++) {
    char name[RDT_SCHEME_TEXT];
    snprintf(name, sizeof name, "rowcol:%d", sets);
    rdt_context *ctx = context(1, name, RDT_ON_FAULT_RECOMPUTE);
    for (int whole = 0; whole < 2; whole++) { /* integers have no such weights */
      rdt_tensor a = matrix(whole ? RDT_S8 : RDT_F32, 9, 20, 0, 0), b = matrix(whole ? RDT_S8 : RDT_F32, 20, 7, 0, 0),
                 c = matrix(whole ? RDT_S32 : RDT_F32, 9, 7, 0, 0);
      rdt_plan *plan;
      rdt_result r;
      assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
      assert_int_equal(strcmp(rdt_plan_scheme(plan), sets > 1 ? name : "rowcol") == 0, !whole || sets == 1);
      assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_CLEAN);
      if (!whole) assert_int_equal(r.checks, sets * (9 + 7));
      rdt_plan_destroy(plan);
      rdt_free(a.data), rdt_free(b.data), rdt_free(c.data);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
      policy.scheme = bad[i];
      assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_NAME);
    }
    rdt_context_destroy(ctx);
  }
}

static void bad_calls_say_why(void **state) {
  rdt_context *ctx = context(1, "auto", RDT_ON_FAULT_RECOMPUTE);
  rdt_tensor a = matrix(RDT_F32, 4, 5, 0, 0), b = matrix(RDT_F32, 6, 3, 0, 0), c = matrix(RDT_F32, 4, 3, 0, 0);
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_plan *plan = NULL;
  (void)state;
  assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, NULL), RDT_ERR_SHAPE);
  assert_non_null(strstr(rdt_context_error(ctx), "4x5"));
  b = rdt_tensor_matrix(b.data, RDT_F32, 5, 3, 3, 0);
  c.dtype = RDT_F16;
  assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, NULL), RDT_ERR_DTYPE);
  c.dtype = RDT_F32;
  c.shape[0] = -4;
  assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, NULL), RDT_ERR_SHAPE);
  c.shape[0] = 4;
  for (int ld = 0; ld < 3; ld++) { /* rows of 3 that share memory */
    c.stride[0] = ld;
    assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, NULL), RDT_ERR_SHAPE);
    assert_non_null(strstr(rdt_context_error(ctx), "share"));
  }
  c.stride[0] = 3;
  void *data = a.data;
  a.data = NULL;
  assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, NULL), RDT_ERR_ARG);
  a.data = data;
  policy.scheme = "magic";
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_NAME);
  policy.scheme = "auto";
  policy.lambda = NAN;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG);
  assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
  rdt_tensor other = matrix(RDT_F32, 3, 5, 0, 0);
  assert_int_equal(rdt_plan_execute(plan, &other, &c, NULL), RDT_ERR_SHAPE);
  rdt_plan_destroy(plan);
  rdt_context_cancel(ctx);
  assert_int_equal(rdt_gemm(ctx, 1.0, &a, &b, 0.0, &c, NULL), RDT_ERR_CANCELLED);
  rdt_context_destroy(ctx);
  rdt_free(a.data), rdt_free(b.data), rdt_free(c.data), rdt_free(other.data);
}

/* A plan that keeps a copy is restored from the caller's weights; when both have rotted, nothing is left. */
static void kept_weights_come_back(void **state) {
  (void)state;
  for (int trans = 0; trans < 2; trans++)
    for (int threads = 1; threads < 3; threads++) {
      rdt_context *ctx = context(threads, "row", RDT_ON_FAULT_RECOMPUTE);
      rdt_policy policy = RDT_POLICY_DEFAULT;
      rdt_tensor a = matrix(RDT_F32, 40, 64, 0, 0), b = matrix(RDT_F32, 64, 48, trans ? 70 : 50, trans);
      rdt_tensor c = matrix(RDT_F32, 40, 48, 0, 0), clean = matrix(RDT_F32, 40, 48, 0, 0);
      rdt_plan *plan;
      rdt_result r;
      policy.scheme = "row";
      policy.scrub_every = 1;
      policy.keep_weights = 1;
      assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
      assert_int_equal(rdt_plan_gemm(ctx, &a, &b, &c, &plan), RDT_OK);
      assert_int_equal(rdt_plan_execute(plan, &a, &clean, &r), RDT_OK);
      float *kept = plan->prob.in[1].data;
      assert_ptr_not_equal(kept, b.data);
      for (int i = 0; i < 4; i++) {
        kept[17 * i + 3] *= -3.0f;
        assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
        assert_int_equal(r.verdict, RDT_RECOMPUTED);
        assert_int_equal(r.diagnosis, RDT_DIAG_MEMORY);
        assert_memory_equal(c.data, clean.data, 40 * 48 * sizeof(float));
        assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
        assert_int_equal(r.verdict, RDT_CLEAN);
      }
      ((float *)b.data)[5] += 1.0f; /* nobody reads it */
      assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_CLEAN);
      kept[3] += 1.0f;
      assert_int_equal(rdt_plan_execute(plan, &a, &c, &r), RDT_ERR_FAULT);
      assert_int_equal(r.verdict, RDT_DETECTED);
      rdt_plan_destroy(plan);
      rdt_context_destroy(ctx);
      rdt_free(a.data), rdt_free(b.data), rdt_free(c.data), rdt_free(clean.data);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_right_and_clean),
      cmocka_unit_test(product_faults_are_found_and_repaired),
      cmocka_unit_test(convolution_faults_are_found_and_repaired),
      cmocka_unit_test(references_repair_the_tile),
      cmocka_unit_test(scrubbing_keeps_its_schedule),
      cmocka_unit_test(many_checks_are_shared),
      cmocka_unit_test(kept_weights_come_back),
      cmocka_unit_test(place_is_named),
      cmocka_unit_test(report_never_leaves_as_ok),
      cmocka_unit_test(without_protection_nothing_is_clean),
      cmocka_unit_test(nan_and_inf_inputs_are_unchecked_not_clean),
      cmocka_unit_test(a_fault_beside_nan_rows_is_repaired),
      cmocka_unit_test(suspects_by_rounding_are_no_faults),
      cmocka_unit_test(every_double_of_the_checksums_is_restored),
      cmocka_unit_test(faults_in_views_stay_inside),
      cmocka_unit_test(weights_are_covered_whatever_the_input),
      cmocka_unit_test(independent_checks_are_asked_for_by_number),
      cmocka_unit_test(bad_calls_say_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
