/* The own products with every form of check that may ride along beside that of rows: the bits are those of the product,
 * clean data is silent, hit accumulators and results are told, with the place. */
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

#include "campaign/families.h"
#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/epilogue.h"
#include "plan/plan.h"
#include "util_native.h"
#include "util_sample.h"

/* m n k, gaps of A and C, weights transposed: edges of tiles, of vectors, of blocks of the reduction and of checks */
static const util_native_layout products[] = {
    {UTIL_GEMM, {4, 1, 1}},           {UTIL_GEMM, {4, 3, 5, 1, 2}},    {UTIL_GEMM, {5, 17, 33, 0, 3, 1}},
    {UTIL_GEMM, {6, 16, 64, 3, 0}},   {UTIL_GEMM, {7, 31, 100, 5, 1}}, {UTIL_GEMM, {8, 40, 1024}},
    {UTIL_GEMM, {49, 129, 19, 2, 7}}, {UTIL_GEMM, {23, 700, 40}},      {UTIL_GEMM, {49, 70, 257, 0, 0, 1}},
    {UTIL_GEMM, {131, 150, 600}},     {UTIL_GEMM, {200, 270, 33}},     {UTIL_GEMM, {260, 24, 300, 4, 0, 1}},
};

/* With sanitizers, where each product takes thirty times as long (no statistics of rounding there, and one datatype),
 * and where the machine's own kernels have had them all: the small products, fewer faults. */
static bool few(void) {
  return util_sanitized || getenv("REDOUBT_ISA");
}
static int layouts(void) {
  return few() ? 7 : (int)(sizeof products / sizeof products[0]);
}

static const struct {
  const char *scheme;
  unsigned forms;
} ways[] = {
    {"row", RDT_FORM_ROWS},          {"col", RDT_FORM_COLUMNS},     {"rowcol", RDT_FORM_ROWS | RDT_FORM_COLUMNS},
    {"tile", RDT_FORM_BLOCKS},       {"global", RDT_FORM_PRODUCT},  {"thread1", RDT_FORM_ONE_SIDED},
    {"thread2", RDT_FORM_TWO_SIDED}, {"replicate", RDT_FORM_TWICE}, {"replicate1", RDT_FORM_SUMMED}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* One step in so many of the longest walks; each group of tests has others. */
static int group;
static int each(void) {
  return util_one_in(3, 7);
}
static bool sampled(int64_t step) {
  return util_takes(step + group, each());
}

static unsigned beside; /* RDT_FORM_CHECKPOINTS, or 0: asked for with every form that takes it */

/* Has the kernel what the scheme asks for? */
static bool takes(int way) {
  const util_native any = {.kind = UTIL_GEMM};
  return (ways[way].forms & ~util_native_kernel(&any)->fuses) == 0;
}

static rdt_fused run_fused(const util_native *j, void *state, rdt_fused_check *c, rdt_kernel_hit *hit, bool stored,
                           rdt_findings *found) {
  const bool units = rdt_fused_ask(c).forms & RDT_FORM_UNITS;
  return util_native_fuse(j, state, c, units ? 0 : beside, hit, stored, found);
}

static void the_bits_are_those_of_product_and_epilogue(void **unused) {
  (void)unused;
  for (int l = 0; l < layouts(); l++) {
    util_native j;
    util_native_make(&j, &products[l]);
    void *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
      void *s = util_native_state(&j, threads);
      rdt_tensor raw = util_native_raw(&j, s, NULL);
      const size_t bytes = (size_t)rdt_tensor_count(&raw) * rdt_dtype_size(raw.dtype);
      if (!first) first = memcpy(malloc(bytes), raw.data, bytes);
      assert_memory_equal(first, raw.data, bytes);
      for (int way = 0; way < WAYS; way++)
        for (int e = way % 3; takes(way) && e < UTIL_ENDINGS; e += 3) {
          char what[80];
          rdt_findings found;
          if (!sampled(l + threads + way + e / 3)) continue;
          snprintf(what, sizeof what, "%s, layout %d, epilogue %d, %d threads", ways[way].scheme, l, e, threads);
          util_native_epilogue(&j, e);
          rdt_fused_check *c = util_native_check(&j, ways[way].forms);
          const rdt_fused f = run_fused(&j, s, c, NULL, false, &found);
          util_native_expect(&j, &raw, what);
          assert_false(f.differ);
          if (rdt_epilogue_sums(&j.out)) assert_true(f.bitsum == rdt_bitsum(j.out.data, j.out_bytes));
          if (found.suspects + found.cannot > 0) fail_msg("%s: suspects in clean data", what);
          assert_true(found.checks > 0 && rdt_findings_agree(&found));
          rdt_fused_destroy(c);
        }
      free(raw.data);
      util_native_kernel(&j)->destroy(s);
    }
    free(first);
    util_native_drop(&j);
  }
}

/* ---- clean data ---- */

static void expect_silence(const rdt_findings *found, const char *scheme, int l, const char *data) {
  if (found->suspects > 0)
    fail_msg("%s, layout %d, %s: %d suspects, residual %g, bound %g (%g) at %d,%d", scheme, l, data,
             (int)found->suspects, found->worst.residual, found->worst.bound.tau2, found->worst.bound.tau0,
             (int)found->worst.place[0], (int)found->worst.place[1]);
}

static void clean_data_of_any_size_is_silent(void **unused) {
  static const util_native_data kinds[] = {{"relu", {1, 1}, 0, 0.3, false},
                                           {"mostly zeros", {3, 0.1}, 0, 0.02, false},
                                           {"zeros", {0, 1}, 0, 1, false},
                                           {"offset", {1, 1}, 1000, 1, false},
                                           {"tiny inputs", {1e-30, 1}, 0, 1, false},
                                           {"tiny weights", {1, 1e-30}, 0, 1, false},
                                           {"tiny products", {1e-20, 1e-20}, 0, 1, false},
                                           {"large by tiny", {1e18, 1e-23}, 0, 1, false},
                                           {"tiny by large", {1e-24, 1e17}, 0, 1, false},
                                           {"large inputs", {1e20, 1}, 0, 1, true},
                                           {"large weights", {1, 1e20}, 0, 1, true}};
  (void)unused;
  for (int l = 0; l < layouts(); l++)
    for (size_t d = 0; d < sizeof kinds / sizeof kinds[0]; d++) {
      util_native j;
      util_native_make(&j, &products[l]);
      util_native_fill(&j, &kinds[d]);
      void *s = util_native_state(&j, 1 + l % 3);
      for (int way = 0; way < WAYS; way++) {
        if (!takes(way) || !sampled(l + (int)d + way)) continue;
        rdt_findings found;
        rdt_fused_check *c = util_native_check(&j, ways[way].forms);
        run_fused(&j, s, c, NULL, false, &found);
        expect_silence(&found, ways[way].scheme, l, kinds[d].name);
        if (!kinds[d].overflows && found.cannot > 0)
          fail_msg("%s, layout %d, %s: no bound", ways[way].scheme, l, kinds[d].name);
        rdt_fused_destroy(c);
      }
      util_native_kernel(&j)->destroy(s);
      util_native_drop(&j);
    }
}

/* The families of the tolerance tests: none is a false report, and those that the bound claims are no suspects. */
static void the_families_are_no_faults(void **unused) {
  if (util_sanitized) skip();
  static const util_native_layout large = {UTIL_GEMM, {140, 150, 1100}};
  int64_t checks = 0, suspects[RDT_FAMILY_COUNT][WAYS] = {{0}};
  (void)unused;
  for (int family = 0; family < RDT_FAMILY_COUNT; family++)
    for (int round = 0; round < 3; round++) {
      util_native j;
      int64_t m, n, k;
      if (!sampled(family + round)) continue;
      rdt_rng rng = {.state = 40 + (uint64_t)round};
      util_native_make(&j, &large);
      rdt_problem_mnk(&j.p, &m, &n, &k);
      double *a = malloc((size_t)(m * k) * sizeof *a), *b = malloc((size_t)(k * n) * sizeof *b);
      rdt_family_fill_a((rdt_family)family, &rng, m, k, a);
      rdt_family_fill_b((rdt_family)family, &rng, k, n, b);
      for (int64_t i = 0; i < m * k; i++)
        rdt_store(j.data[0].data, util_native_real, i / k * j.data[0].stride[0] + i % k * j.data[0].stride[1], a[i]);
      for (int64_t i = 0; i < k * n; i++)
        rdt_store(j.data[1].data, util_native_real, i / n * j.data[1].stride[0] + i % n * j.data[1].stride[1], b[i]);
      void *s = util_native_state(&j, 1 + round);
      for (int way = 0; way < WAYS; way++) {
        if (!takes(way)) continue;
        rdt_findings found;
        rdt_fused_check *c = util_native_check(&j, ways[way].forms);
        run_fused(&j, s, c, NULL, false, &found);
        assert_int_equal(found.certain, 0);
        const bool checkpoints = beside && !(ways[way].forms & RDT_FORM_UNITS);
        if (rdt_family_claimed((rdt_family)family) || (family == RDT_FAMILY_BLOCKS && checkpoints))
          expect_silence(&found, ways[way].scheme, -1, rdt_family_name((rdt_family)family));
        checks += found.checks;
        suspects[family][way] += found.suspects;
        rdt_fused_destroy(c);
      }
      free(a);
      free(b);
      util_native_kernel(&j)->destroy(s);
      util_native_drop(&j);
    }
  for (int way = 0; !beside && way < 3; way++)
    if (takes(way)) assert_true(suspects[RDT_FAMILY_BLOCKS][way] * each() > 100);
  print_message("%d checks; suspects by scheme:\n", (int)checks);
  for (int family = 0; family < RDT_FAMILY_COUNT; family++)
    for (int way = 0; way < WAYS; way++)
      if (suspects[family][way] > 0)
        print_message("  %s, %s: %d\n", rdt_family_name((rdt_family)family), ways[way].scheme,
                      (int)suspects[family][way]);
}

static void inputs_that_are_not_finite_leave_no_bound(void **unused) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  (void)unused;
  for (int l = 0; l < layouts(); l++)
    for (int v = 0; v < 3; v++) {
      util_native j;
      util_native_make(&j, &products[l]);
      void *s = util_native_state(&j, 2);
      for (int way = 0; way < WAYS; way++) {
        if (!takes(way) || !sampled(l + v + way)) continue;
        rdt_findings found;
        rdt_fused_check *c = util_native_check(&j, ways[way].forms);
        const double kept = rdt_load(j.data[0].data, util_native_real, 0);
        rdt_store(j.data[0].data, util_native_real, 0, values[v]);
        run_fused(&j, s, c, NULL, false, &found);
        if (found.suspects > 0) fail_msg("%s, layout %d: suspects", ways[way].scheme, l);
        if (ways[way].forms != RDT_FORM_TWICE) assert_true(found.cannot > 0); /* bits need no bound */
        rdt_store(j.data[0].data, util_native_real, 0, kept);
        rdt_fused_destroy(c);
      }
      util_native_kernel(&j)->destroy(s);
      util_native_drop(&j);
    }
}

/* ---- both sides against exact sums ---- */

/* The weighted sum of exact products of each check, in the order of the checks; NULL: not of this form. */
static double *oracle(const util_native *j, const rdt_fused *f, int64_t *count) {
  int64_t m, n, k;
  rdt_problem p = j->p;
  p.in = (rdt_tensor *)j->data;
  p.epilogue = RDT_EPILOGUE_NONE;
  rdt_problem_mnk(&p, &m, &n, &k);
  const unsigned forms = f->forms & ~beside;
  if (forms != RDT_FORM_COLUMNS && forms != RDT_FORM_BLOCKS) return NULL;
  const bool blocks = forms == RDT_FORM_BLOCKS;
  const int64_t wide = blocks ? (n + f->block[1] - 1) / f->block[1] : n;
  *count = blocks ? (m + f->block[0] - 1) / f->block[0] * wide : n;
  double *exact = malloc((size_t)(m * n) * sizeof *exact), *scale = malloc((size_t)(m * n) * sizeof *scale);
  double *sums = calloc((size_t)*count, sizeof *sums);
  util_oracle(&p, exact, scale);
  for (int64_t e = 0; e < m * n; e++) {
    const int64_t r = e / n, c = e % n, at = blocks ? r / f->block[0] * wide + c / f->block[1] : c;
    sums[at] += f->u[r] * (blocks ? f->w[c] : 1.0) * exact[e];
  }
  free(exact);
  free(scale);
  return sums;
}

static void both_sides_are_what_they_should_be(void **unused) {
  (void)unused;
  for (int l = 0; l < layouts(); l++)
    for (int way = 0; way < WAYS; way++)
      for (int threads = 1; takes(way) && threads <= 3; threads++) {
        util_native j;
        rdt_findings found;
        int64_t count;
        if (!sampled(l + way + threads)) continue;
        util_native_make(&j, &products[l]);
        rdt_fused_check *c = util_native_check(&j, ways[way].forms);
        void *s = util_native_state(&j, threads);
        const rdt_fused f = run_fused(&j, s, c, NULL, false, &found);
        double *exact = oracle(&j, &f, &count);
        const bool blocks = (f.forms & ~beside) == RDT_FORM_BLOCKS;
        const rdt_pair sides[2] = {blocks ? f.blocks_expected : f.columns_expected,
                                   blocks ? f.blocks_observed : f.columns_observed};
        for (int side = 0; exact && side < 2; side++) {
          double *kept = malloc((size_t)count * sizeof *kept);
          assert_int_equal(found.checks, count);
          memcpy(kept, sides[side].dot, (size_t)count * sizeof *kept);
          memcpy(sides[side].dot, exact, (size_t)count * sizeof *kept);
          rdt_findings_init(&found);
          rdt_fused_judge(c, &f, &found);
          expect_silence(&found, ways[way].scheme, l, side ? "observed side exact" : "expected side exact");
          sides[side].dot[count / 2] += 1.01 * found.floor; /* the judge is shown a fault */
          rdt_findings_init(&found);
          rdt_fused_judge(c, &f, &found);
          if (exact[count / 2] != 0.0 || found.floor > 0.0) assert_true(found.suspects == 1);
          memcpy(sides[side].dot, kept, (size_t)count * sizeof *kept);
          free(kept);
        }
        free(exact);
        util_native_kernel(&j)->destroy(s);
        rdt_fused_destroy(c);
        util_native_drop(&j);
      }
}

/* ---- each checker cries ---- */

static void a_hit_accumulator_is_suspect_in_its_place(void **unused) {
  static const double positions[] = {0, 0.3, 0.7, 1};
  static const int single[] = {31, 30, 28, 25, 22, 18, 12}, twice[] = {63, 62, 60, 54, 50, 45, 34};
  const int *bits = util_native_real == RDT_F64 ? twice : single;
  (void)unused;
  for (int way = 0; way < WAYS; way++) {
    if (!takes(way)) continue;
    const int one_in = util_one_in(3, 3);
    int seen = 0, below = 0;
    for (int l = 0; l < layouts(); l++) {
      util_native j;
      util_native_make(&j, &products[l]);
      util_native_epilogue(&j, UTIL_BIAS | UTIL_RESIDUAL | UTIL_SCALED | (l % 4 * UTIL_ACTS));
      rdt_fused_check *c = util_native_check(&j, ways[way].forms);
      void *s = util_native_state(&j, 1 + l % 3);
      rdt_tensor clean = util_native_raw(&j, s, NULL);
      const int64_t n = rdt_tensor_count(&clean), cols = clean.shape[1], step = n * one_in / 29 + 1;
      for (int64_t e = (way + group) % step, i = way; e < n; e += step, i++) {
        rdt_kernel_hit hit = {.element = e, .position = positions[i % 4], .mask = UINT64_C(1) << bits[i % 7]},
                       again = hit;
        rdt_findings found;
        const rdt_fused f = run_fused(&j, s, c, &hit, false, &found);
        rdt_tensor raw = util_native_raw(&j, s, &again);
        assert_true(hit.done && again.done && hit.before == again.before);
        assert_false(f.differ);
        util_native_expect(&j, &raw, "with a hit accumulator");
        const double error = fabs(rdt_load(raw.data, raw.dtype, e) - rdt_load(clean.data, clean.dtype, e));
        if (!(error <= found.floor) && found.suspects < 1)
          fail_msg("%s, layout %d, element %d, bit %d: error %g, floor %g, no suspect", ways[way].scheme, l, (int)e,
                   bits[i % 7], error, found.floor);
        for (int q = 0; q < found.listed; q++)
          assert_true(rdt_suspect_covers(&found, &found.list[q], 0, e / cols) &&
                      rdt_suspect_covers(&found, &found.list[q], 1, e % cols));
        seen += found.suspects > 0;
        below += found.suspects == 0;
        free(raw.data);
      }
      free(clean.data);
      util_native_kernel(&j)->destroy(s);
      rdt_fused_destroy(c);
      util_native_drop(&j);
    }
    assert_true(seen * one_in > 100);
    assert_true(below * one_in > 5); /* both sides of the floor were tried */
  }
}

static void a_hit_result_differs(void **unused) {
  (void)unused;
  for (int l = 0; l < layouts(); l++)
    for (int way = 0; way < WAYS; way++) {
      if (!takes(way) || !sampled(l + way)) continue;
      util_native j;
      util_native_make(&j, &products[l]);
      util_native_epilogue(&j, way % 2 * UTIL_BIAS | UTIL_RESIDUAL | way % 4 * UTIL_ACTS);
      rdt_fused_check *c = util_native_check(&j, ways[way].forms);
      void *s = util_native_state(&j, 1 + way % 3);
      const int64_t n = rdt_tensor_count(&j.out), step = n / 7 + 1;
      for (int64_t e = 0; e < n; e += step) {
        rdt_kernel_hit hit = {.element = e, .mask = 1u << (e % (rdt_dtype_size(j.out.dtype) == 2 ? 16 : 32))};
        rdt_findings found;
        const rdt_fused f = run_fused(&j, s, c, &hit, true, &found);
        assert_true(hit.done && f.differ);
        assert_int_equal(found.suspects, 0);
      }
      util_native_kernel(&j)->destroy(s);
      rdt_fused_destroy(c);
      util_native_drop(&j);
    }
}

/* ---- what a plan makes of it ---- */

typedef struct seen {
  int events;
  int64_t changed;
  rdt_diagnosis diagnosis;
} seen;

static void on_event(const rdt_event *e, void *user) {
  seen *s = user;
  s->events++;
  s->changed = e->changed;
  s->diagnosis = e->diagnosis;
}

static void a_plan_repairs_what_was_hit(void **unused) {
  static const char *const single[] = {"bit:30@accum,seed=%d", "bit:26@accum,seed=%d", "bit:30@packed,seed=%d",
                                       "bit:62@checksum,seed=%d", "bit:30@weight,seed=%d"},
                           *const twice[] = {"bit:62@accum,seed=%d", "bit:55@accum,seed=%d", "bit:62@packed,seed=%d",
                                             "bit:62@checksum,seed=%d", "bit:62@weight,seed=%d"},
                           *const half[] = {"bit:30@accum,seed=%d", "bit:26@accum,seed=%d", "bit:30@packed,seed=%d",
                                            "bit:62@checksum,seed=%d", "bit:14@weight,seed=%d"};
  const rdt_dtype real = util_native_real;
  const char *const *faults = real == RDT_F64 ? twice : real == RDT_F32 ? single : half;
  enum { FAULTS = sizeof single / sizeof single[0] };
  const int seeds = few() ? 2 : 6;
  const int64_t m = 150, n = 130, k = 400;
  const size_t size = rdt_dtype_size(real), bytes = (size_t)(m * n) * size;
  void *a = malloc((size_t)(m * k) * size), *b = malloc((size_t)(k * n) * size), *c = malloc(bytes), *clean = NULL;
  const rdt_kernel *whose = NULL;
  rdt_rng rng = {.state = 9};
  (void)unused;
  for (int64_t i = 0; i < m * k; i++) rdt_store(a, real, i, rdt_rng_normal(&rng));
  for (int64_t i = 0; i < k * n; i++) rdt_store(b, real, i, rdt_rng_normal(&rng));
  for (int way = 0; way < WAYS; way++)
    for (int threads = 1; threads <= 2; threads++) {
      rdt_context *ctx;
      rdt_policy policy = RDT_POLICY_DEFAULT;
      rdt_plan *plan;
      rdt_result r;
      seen log = {0};
      int repaired = 0;
      const rdt_tensor x = rdt_tensor_matrix(a, real, m, k, k, 0), w = rdt_tensor_matrix(b, real, k, n, n, 0);
      rdt_tensor y = rdt_tensor_matrix(c, real, m, n, n, 0);
      policy.scheme = ways[way].scheme;
      policy.keep_weights = true;
      assert_int_equal(rdt_context_create(&ctx, threads), RDT_OK);
      assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
      rdt_context_on_event(ctx, on_event, &log);
      assert_int_equal(rdt_plan_gemm(ctx, &x, &w, &y, &plan), RDT_OK);
      assert_string_equal(rdt_plan_scheme(plan), ways[way].scheme);
      assert_true(plan->kernel_fuses && plan->fused);
      assert_int_equal(rdt_plan_execute(plan, &x, &y, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_CLEAN);
      if (plan->kernel != whose) clean = memcpy(realloc(clean, bytes), c, bytes);
      whose = plan->kernel;
      assert_memory_equal(clean, c, bytes); /* one chain, whatever checks it */
      for (size_t f = 0; f < FAULTS; f++)
        for (int seed = 0; seed < seeds; seed++) {
          char spec[64];
          snprintf(spec, sizeof spec, faults[f], seed);
          if (!util_takes(way + threads + (int)f + seed + group, util_one_in(2, 2))) continue;
          if (rdt_plan_inject(plan, spec) != RDT_OK) {
            assert_true(f == 3); /* some keep no checksums */
            continue;
          }
          memset(c, 0xff, bytes);
          memset(&log, 0, sizeof log);
          if (rdt_plan_execute(plan, &x, &y, &r) != RDT_OK)
            fail_msg("%s, %s: %s", ways[way].scheme, spec, rdt_context_error(ctx));
          const rdt_injection *i = plan->injection;
          assert_true(i->done);
          assert_memory_equal(clean, c, bytes);
          if (f < 2 && i->changed > 0 && i->error > r.floor) {
            assert_int_equal(r.verdict, RDT_RECOMPUTED);
            assert_int_equal(r.diagnosis, RDT_DIAG_TRANSIENT);
            assert_int_equal(log.events, 1);
            assert_int_equal(log.changed, i->changed);
            repaired++;
          }
          assert_int_equal(rdt_plan_execute(plan, &x, &y, &r), RDT_OK);
          assert_int_equal(r.verdict, RDT_CLEAN);
        }
      assert_true(repaired * util_one_in(2, 2) >= seeds);
      rdt_plan_destroy(plan);
      rdt_context_destroy(ctx);
    }
  free(a), free(b), free(c), free(clean);
}

/* Data that adds up and is taken away again: suspect once, then the plan takes checkpoints. */
static void a_plan_learns_that_it_needs_checkpoints(void **unused) {
  enum { M = 140, N = 150, K = 1100 };
  const rdt_dtype real = util_native_real;
  const size_t size = rdt_dtype_size(real);
  void *a = malloc(M * K * size), *b = malloc(K * N * size), *c = malloc(M * N * size);
  double *drawn = malloc(K * N * sizeof *drawn);
  rdt_rng rng = {.state = 40};
  (void)unused;
  rdt_family_fill_a(RDT_FAMILY_BLOCKS, &rng, M, K, drawn);
  for (int64_t i = 0; i < M * K; i++) rdt_store(a, real, i, drawn[i]);
  rdt_family_fill_b(RDT_FAMILY_BLOCKS, &rng, K, N, drawn);
  for (int64_t i = 0; i < K * N; i++) rdt_store(b, real, i, drawn[i]);
  for (int way = 0; way < 3; way++) {
    rdt_context *ctx;
    rdt_policy policy = RDT_POLICY_DEFAULT;
    rdt_plan *plan;
    rdt_result r;
    seen log = {0};
    const rdt_tensor x = rdt_tensor_matrix(a, real, M, K, K, 0), w = rdt_tensor_matrix(b, real, K, N, N, 0);
    rdt_tensor y = rdt_tensor_matrix(c, real, M, N, N, 0);
    policy.scheme = ways[way].scheme;
    assert_int_equal(rdt_context_create(&ctx, 1 + way % 2), RDT_OK);
    assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
    rdt_context_on_event(ctx, on_event, &log);
    assert_int_equal(rdt_plan_gemm(ctx, &x, &w, &y, &plan), RDT_OK);
    assert_int_equal(rdt_plan_execute(plan, &x, &y, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_true(r.suspects > 0 && r.faults == 0 && plan->checkpoints);
    assert_int_equal(log.events, 1);
    for (int i = 0; i < 3; i++) {
      assert_int_equal(rdt_plan_execute(plan, &x, &y, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_CLEAN);
      assert_int_equal(r.suspects, 0);
    }
    assert_int_equal(rdt_plan_inject(plan, real == RDT_F64 ? "bit:62@accum,seed=2" : "bit:30@accum,seed=2"), RDT_OK);
    assert_int_equal(rdt_plan_execute(plan, &x, &y, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_int_equal(r.diagnosis, RDT_DIAG_TRANSIENT);
    assert_int_equal(log.events, 2);
    rdt_plan_destroy(plan);
    rdt_context_destroy(ctx);
  }
  free(a), free(b), free(c), free(drawn);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_bits_are_those_of_product_and_epilogue),
      cmocka_unit_test(clean_data_of_any_size_is_silent),
      cmocka_unit_test(the_families_are_no_faults),
      cmocka_unit_test(inputs_that_are_not_finite_leave_no_bound),
      cmocka_unit_test(both_sides_are_what_they_should_be),
      cmocka_unit_test(a_hit_accumulator_is_suspect_in_its_place),
      cmocka_unit_test(a_hit_result_differs),
      cmocka_unit_test(a_plan_repairs_what_was_hit),
      cmocka_unit_test(a_plan_learns_that_it_needs_checkpoints),
  };
  static const struct {
    rdt_dtype real;
    unsigned beside;
    bool dot;
    const char *name;
  } groups[] = {{RDT_F32, 0, false, "f32"},
                {RDT_F64, 0, false, "f64"},
                {RDT_BF16, 0, false, "bf16"},
                {RDT_BF16, 0, true, "bf16 by dot products"},
                {RDT_F32, RDT_FORM_CHECKPOINTS, false, "f32, checkpoints"},
                {RDT_F64, RDT_FORM_CHECKPOINTS, false, "f64, checkpoints"},
                {RDT_BF16, RDT_FORM_CHECKPOINTS, true, "bf16 by dot products, checkpoints"}};
  int failed = 0;
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
    if (util_sanitized && groups[i].real != RDT_F32) continue; /* test_native has them there */
    if (groups[i].dot && !util_native_has_dot()) continue;
    util_native_real = groups[i].real;
    util_native_dot = groups[i].dot;
    group = (int)i;
    beside = groups[i].beside;
    failed += cmocka_run_group_tests_name(groups[i].name, tests, NULL, NULL);
  }
  return failed;
}
