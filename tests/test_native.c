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

#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/epilogue.h"
#include "util_native.h"
#include "util_sample.h"

static size_t bytes_of(const rdt_tensor *packed) {
  return (size_t)rdt_tensor_count(packed) * rdt_dtype_size(packed->dtype);
}

/* One step in so many of the longest walks; each datatype has others. */
static int each(void) {
  return util_one_in(3, 7);
}
static bool takes(int64_t step) {
  return util_takes(step + (int)util_native_real, each());
}

/* ---- bits ---- */

static void the_bits_are_those_of_product_and_epilogue(void **state) {
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    util_native j;
    util_native_make(&j, &util_native_layouts[l]);
    void *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
      void *s = util_native_state(&j, threads);
      rdt_tensor raw = util_native_raw(&j, s, NULL);
      if (!first) first = memcpy(malloc(bytes_of(&raw)), raw.data, bytes_of(&raw));
      assert_memory_equal(first, raw.data, bytes_of(&raw));
      for (int e = 0; e < UTIL_ENDINGS; e++) {
        char what[64];
        rdt_findings found;
        if (!takes(l + threads + e)) continue;
        snprintf(what, sizeof what, "layout %d, epilogue %d, %d threads", l, e, threads);
        util_native_epilogue(&j, e);
        rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
        const rdt_fused f = util_native_fuse(&j, s, c, 0, NULL, false, &found);
        util_native_expect(&j, &raw, what);
        assert_false(f.differ);
        if (rdt_epilogue_sums(&j.out)) assert_true(f.bitsum == rdt_bitsum(j.out.data, j.out_bytes));
        if (found.suspects + found.cannot > 0) fail_msg("%s: suspects in clean data", what);
        rdt_fused_destroy(c);
      }
      free(raw.data);
      util_native_kernel(&j)->destroy(s);
    }
    free(first);
    util_native_drop(&j);
  }
}

/* NaN from the bias or the residual. From both, its sign is anybody's. */
static void nan_behind_the_product_is_no_fault(void **state) {
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int e = 0; e < UTIL_ENDINGS; e++) {
      util_native j;
      rdt_findings found;
      if (!takes(l + e)) continue;
      util_native_make(&j, &util_native_layouts[l]);
      util_native_epilogue(&j, e);
      void *bias = j.p.epilogue.bias.data, *residual = j.p.epilogue.residual.data;
      if (residual)
        rdt_store(residual, util_native_real, 0, -NAN);
      else if (bias)
        rdt_store(bias, util_native_real, 0, NAN);
      void *s = util_native_state(&j, 1);
      rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
      rdt_tensor raw = util_native_raw(&j, s, NULL);
      const rdt_fused f = util_native_fuse(&j, s, c, 0, NULL, false, &found);
      assert_false(f.differ);
      util_native_expect(&j, &raw, "NaN in bias or residual");
      free(raw.data);
      util_native_kernel(&j)->destroy(s);
      rdt_fused_destroy(c);
      util_native_drop(&j);
    }
}

/* Whose NaN is kept is nobody's fault. */
static void two_nan_are_alike(void **state) {
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int e = 0; e < UTIL_ENDINGS; e++) {
      util_native j;
      rdt_findings found;
      if (!takes(l + e)) continue;
      util_native_make(&j, &util_native_layouts[l]);
      util_native_epilogue(&j, e);
      void *bias = j.p.epilogue.bias.data, *residual = j.p.epilogue.residual.data;
      if (residual && bias) {
        rdt_store(residual, util_native_real, 0, -NAN);
        rdt_store(bias, util_native_real, 0, NAN);
      }
      void *s = util_native_state(&j, 1);
      rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
      const rdt_fused f = util_native_fuse(&j, s, c, 0, NULL, false, &found);
      assert_false(f.differ);
      util_native_kernel(&j)->destroy(s);
      rdt_fused_destroy(c);
      util_native_drop(&j);
    }
}

/* ---- sums ---- */

/* Of each row, the weighted sum of the exact products. */
static double *oracle(const util_native *j, const rdt_fused *f, int64_t m, int64_t n) {
  rdt_problem p = j->p;
  p.in = (rdt_tensor *)j->data;
  p.epilogue = RDT_EPILOGUE_NONE;
  double *exact = malloc((size_t)(m * n) * sizeof *exact), *scale = malloc((size_t)(m * n) * sizeof *scale);
  double *sums = calloc((size_t)m, sizeof *sums);
  const int64_t plane = j->kind == UTIL_CONV ? rdt_tensor_pixels(&p.out) : 1;
  util_oracle(&p, exact, scale);
  for (int64_t e = 0; e < m * n; e++) sums[e / (n * plane) * plane + e % plane] += f->w[e / plane % n] * exact[e];
  free(exact);
  free(scale);
  return sums;
}

static void expect_silence(const rdt_findings *found, const util_native_data *d, int l, const char *what) {
  if (found->suspects > 0)
    fail_msg("layout %d, %s, %s: residual %g, bound %g (%g)", l, d->name, what, found->worst.residual,
             found->worst.bound.tau2, found->worst.bound.tau0);
  if (!d->overflows && found->cannot > 0) fail_msg("layout %d, %s, %s: no bound", l, d->name, what);
}

static void clean_data_of_any_kind_is_silent(void **state) {
  static const util_native_data kinds[] = {{"uniform", {1, 1}, 0, 1, false},
                                           {"relu", {1, 1}, 0, 0.3, false},
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
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (size_t d = 0; d < sizeof kinds / sizeof kinds[0]; d++)
      for (int threads = 1; threads <= 2; threads++) {
        util_native j;
        rdt_findings found;
        int64_t m, n, k;
        if (!takes(l + (int)d + threads)) continue;
        if (util_native_real == RDT_F16 && !(kinds[d].scale[0] < 6e4 && kinds[d].scale[1] < 6e4)) continue;
        util_native_make(&j, &util_native_layouts[l]);
        util_native_fill(&j, &kinds[d]);
        rdt_problem_mnk(&j.p, &m, &n, &k);
        rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
        void *s = util_native_state(&j, threads);
        const rdt_fused f = util_native_fuse(&j, s, c, 0, NULL, false, &found);
        assert_int_equal(found.checks, m);
        expect_silence(&found, &kinds[d], l, "as it is");
        double *exact = threads == 1 ? oracle(&j, &f, m, n) : NULL;
        for (int side = 0; exact && side < 2; side++) {
          double *sums = side ? f.expected.dot : f.observed.dot, *kept = malloc((size_t)m * sizeof *kept);
          memcpy(kept, sums, (size_t)m * sizeof *kept);
          memcpy(sums, exact, (size_t)m * sizeof *kept);
          rdt_findings_init(&found);
          rdt_fused_judge(c, &f, &found);
          expect_silence(&found, &kinds[d], l, side ? "expected side exact" : "observed side exact");
          memcpy(sums, kept, (size_t)m * sizeof *kept);
          free(kept);
        }
        free(exact);
        util_native_kernel(&j)->destroy(s);
        rdt_fused_destroy(c);
        util_native_drop(&j);
      }
}

static void inputs_that_are_not_finite_leave_no_bound(void **state) {
  static const double values[] = {NAN, INFINITY, -INFINITY};
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int v = 0; v < 6; v++) {
      util_native j;
      rdt_findings found;
      util_native_make(&j, &util_native_layouts[l]);
      if (v > 2 && j.kind != UTIL_BATCH) { /* fixed weights */
        util_native_drop(&j);
        continue;
      }
      rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
      void *s = util_native_state(&j, 2);
      rdt_store(j.data[v / 3].data, util_native_real, 0, values[v % 3]);
      util_native_fuse(&j, s, c, 0, NULL, false, &found);
      assert_int_equal(found.suspects, 0);
      assert_true(found.cannot > 0);
      util_native_kernel(&j)->destroy(s);
      rdt_fused_destroy(c);
      util_native_drop(&j);
    }
}

/* ---- each checker cries ---- */

static double logical(const rdt_tensor *t, int64_t element) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; element /= t->shape[d--]) offset += element % t->shape[d] * t->stride[d];
  return rdt_load(t->data, t->dtype, offset);
}

static void a_hit_accumulator_is_suspect_in_its_row(void **state) {
  static const double positions[] = {0, 0.3, 0.7, 1};
  static const int single[] = {31, 30, 28, 25, 22, 18, 12}, twice[] = {63, 62, 60, 55, 40, 20, 2};
  const int *bits = util_native_real == RDT_F64 ? twice : single;
  int found_ones = 0, below = 0;
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int threads = 1; threads <= 2; threads++) {
      util_native j;
      if (!takes(l + threads)) continue;
      util_native_make(&j, &util_native_layouts[l]);
      util_native_epilogue(&j, UTIL_BIAS | UTIL_RESIDUAL | UTIL_SCALED | (l % 4 * UTIL_ACTS));
      rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
      void *s = util_native_state(&j, threads);
      rdt_tensor clean = util_native_raw(&j, s, NULL);
      const int64_t n = rdt_tensor_count(&clean), step = n / 37 + 1;
      for (int64_t e = 0, i = 0; e < n; e += step, i++) {
        rdt_kernel_hit hit = {.element = e, .position = positions[i % 4], .mask = 1ull << bits[i % 7]}, again = hit;
        rdt_findings found;
        const rdt_fused f = util_native_fuse(&j, s, c, 0, &hit, false, &found);
        rdt_tensor raw = util_native_raw(&j, s, &again);
        assert_true(hit.done && again.done && hit.before == again.before);
        assert_false(f.differ);
        util_native_expect(&j, &raw, "with a hit accumulator");
        const double error = fabs(logical(&raw, e) - logical(&clean, e));
        if (!(error <= found.floor) && found.suspects != 1)
          fail_msg("layout %d, element %d, bit %d: error %g, floor %g, %d suspects", l, (int)e, bits[i % 7], error,
                   found.floor, (int)found.suspects);
        if (found.suspects > 0) assert_int_equal(found.list[0].place[0], util_native_row(&j, e));
        found_ones += found.suspects > 0;
        below += found.suspects == 0;
        free(raw.data);
      }
      free(clean.data);
      util_native_kernel(&j)->destroy(s);
      rdt_fused_destroy(c);
      util_native_drop(&j);
    }
  assert_true(found_ones * each() > 500 && below * each() > 50); /* both sides of the floor were tried */
}

static void a_hit_result_differs(void **state) {
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++)
    for (int act = 0; act < 4; act++) {
      util_native j;
      if (!takes(l + act)) continue;
      util_native_make(&j, &util_native_layouts[l]);
      util_native_epilogue(&j, act % 2 * UTIL_BIAS | UTIL_RESIDUAL | act * UTIL_ACTS);
      rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
      void *s = util_native_state(&j, 1 + act % 2);
      const int64_t n = rdt_tensor_count(&j.out), step = n / 23 + 1;
      for (int64_t e = 0; e < n; e += step) {
        rdt_kernel_hit hit = {.element = e, .mask = 1u << (e % (rdt_dtype_size(j.out.dtype) == 2 ? 16 : 32))};
        rdt_findings found;
        const rdt_fused f = util_native_fuse(&j, s, c, 0, &hit, true, &found);
        assert_true(hit.done && f.differ);
        assert_int_equal(found.suspects, 0);
      }
      util_native_kernel(&j)->destroy(s);
      rdt_fused_destroy(c);
      util_native_drop(&j);
    }
}

/* Every row whose weighted sum has moved beyond the floor must be suspect: how many those are. */
static int64_t rows_moved(const util_native *j, const rdt_tensor *clean, const rdt_tensor *now, const rdt_fused *f,
                          double floor) {
  int64_t m, n, k, moved = 0;
  rdt_problem_mnk(&j->p, &m, &n, &k);
  double *sums = calloc((size_t)m, sizeof *sums);
  const int64_t plane = j->kind == UTIL_CONV ? rdt_tensor_pixels(&j->out) : 1;
  for (int64_t e = 0; e < m * n; e++)
    sums[util_native_row(j, e)] += f->w[e / plane % n] * (logical(now, e) - logical(clean, e));
  for (int64_t i = 0; i < m; i++) moved += fabs(sums[i]) > floor;
  free(sums);
  return moved;
}

static void a_changed_weight_is_suspect(void **state) {
  int64_t noticed = 0;
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    util_native j;
    util_native_make(&j, &util_native_layouts[l]);
    if (j.kind == UTIL_BATCH) { /* sums of B are formed at each run: no copy of it rests anywhere */
      util_native_drop(&j);
      continue;
    }
    rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
    void *s = util_native_state(&j, 2), *at;
    size_t bytes;
    rdt_dtype dtype;
    util_native_kernel(&j)->packed(s, &at, &bytes, &dtype);
    rdt_tensor clean = util_native_raw(&j, s, NULL);
    const size_t n = bytes / rdt_dtype_size(dtype);
    for (size_t e = 0; e < n; e += n / 11 + 1) {
      rdt_findings found;
      const double kept = rdt_load(at, dtype, (int64_t)e);
      rdt_store(at, dtype, (int64_t)e, kept + 1.0);
      const rdt_fused f = util_native_fuse(&j, s, c, 0, NULL, false, &found);
      rdt_tensor now = util_native_raw(&j, s, NULL);
      const int64_t moved = rows_moved(&j, &clean, &now, &f, found.floor);
      assert_true(found.suspects >= moved);
      noticed += moved;
      rdt_store(at, dtype, (int64_t)e, kept);
      free(now.data);
    }
    free(clean.data);
    util_native_kernel(&j)->destroy(s);
    rdt_fused_destroy(c);
    util_native_drop(&j);
  }
  assert_true(noticed > 1000);
}

static void a_changed_checksum_is_suspect(void **state) {
  int64_t noticed = 0;
  (void)state;
  for (int l = 0; l < UTIL_NATIVE_LAYOUTS; l++) {
    util_native j;
    util_native_make(&j, &util_native_layouts[l]);
    void *s = util_native_state(&j, 1), *at;
    rdt_fused_check *c = util_native_check(&j, RDT_FORM_ROWS);
    size_t bytes;
    rdt_dtype dtype;
    rdt_fused_checksums(c, &at, &bytes, &dtype);
    assert_true((j.kind == UTIL_BATCH) == (at == NULL));
    int64_t m, n, k;
    rdt_problem_mnk(&j.p, &m, &n, &k);
    const bool whole = j.kind == UTIL_GEMM; /* every input meets every row */
    for (int64_t t = 0; at && t < k; t += k / 11 + 1) {
      rdt_findings found;
      const double beta = rdt_load(at, dtype, t);
      rdt_store(at, dtype, t, beta + 1.0);
      util_native_fuse(&j, s, c, 0, NULL, false, &found);
      const double a = whole ? rdt_load(j.data[0].data, util_native_real, t) : 0.0;
      if (fabs(a) > found.floor) assert_true(found.suspects > 0 && found.list[0].place[0] == 0);
      noticed += found.suspects;
      rdt_store(at, dtype, t, beta);
    }
    util_native_kernel(&j)->destroy(s);
    rdt_fused_destroy(c);
    util_native_drop(&j);
  }
  assert_true(noticed > 100);
}

typedef struct row_sums { /* of a product with its rows' check, by one thread */
  rdt_fused_check *check;
  rdt_fused f;
} row_sums;

static row_sums sum_rows(const float *a, int64_t m, const rdt_tensor *b, float *c) {
  const int64_t k = b->shape[0], n = b->shape[1];
  const rdt_tensor in[2] = {rdt_tensor_dense((void *)a, RDT_F32, 2, (const int64_t[]){m, k}), *b};
  const rdt_tensor out = rdt_tensor_dense(c, RDT_F32, 2, (const int64_t[]){m, n});
  const rdt_epilogue none = RDT_EPILOGUE_NONE;
  const rdt_operands o = {.in = in, .n_in = 2, .out = out, .epilogue = &none};
  const rdt_kernel *const *kernels, *kernel = NULL;
  int count;
  rdt_problem p;
  rdt_reason why;
  row_sums s;
  void *state;
  kernels = rdt_cpu_kernels(&count);
  for (int i = 0; i < count; i++)
    if (strcmp(kernels[i]->name, "gemm_f32_native") == 0) kernel = kernels[i];
  assert_non_null(kernel);
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.in[0] = in[0], p.in[1] = in[1], p.out = out;
  assert_int_equal(rdt_fused_create(&p, kernel, RDT_FORM_ROWS, 6.0, &s.check, &why), RDT_OK);
  assert_int_equal(kernel->create(&p, 1, &state, &why), RDT_OK);
  s.f = rdt_fused_ask(s.check);
  assert_int_equal(kernel->run_fused(state, &o, &s.f, &why), RDT_OK);
  kernel->destroy(state);
  rdt_problem_clear(&p);
  return s;
}

/* What is computed again is mostly a single row: a suspect that was rounding is to be one again. */
static void a_row_alone_has_the_same_sums(void **state) {
  static const int64_t terms[] = {1, 13, 64, 147, 300, 650, 1300}, columns[] = {5, 40, 70, 300}, rows[] = {2, 9, 150};
  (void)state;
  for (int i = 0; i < 7 * 4 * 3; i++) {
    if (!takes(i + i / 3 + i / 12)) continue;
    const int64_t m = rows[i % 3], n = columns[i / 3 % 4], k = terms[i / 12];
    float *a = rdt_alloc((size_t)(m * k), sizeof *a), *c = rdt_alloc((size_t)(m * n), sizeof *c), *one = c;
    rdt_tensor b = rdt_tensor_dense(rdt_alloc((size_t)(k * n), sizeof(float)), RDT_F32, 2, (const int64_t[]){k, n});
    util_random random = {(uint64_t)i + 1};
    for (int64_t t = 0; t < m * k; t++) a[t] = (float)util_uniform(&random);
    for (int64_t t = 0; t < k * n; t++) ((float *)b.data)[t] = (float)util_uniform(&random);
    const row_sums all = sum_rows(a, m, &b, c);
    for (int64_t r = 0; r < m; r += m / 2) {
      const row_sums alone = sum_rows(a + r * k, 1, &b, one);
      assert_true(alone.f.expected.dot[0] == all.f.expected.dot[r]);
      assert_true(alone.f.expected.sq[0] == all.f.expected.sq[r]);
      assert_true(alone.f.observed.dot[0] == all.f.observed.dot[r]);
      assert_true(alone.f.observed.sq[0] == all.f.observed.sq[r]);
      rdt_fused_destroy(alone.check);
    }
    rdt_fused_destroy(all.check);
    rdt_free(a), rdt_free(c), rdt_free(b.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_row_alone_has_the_same_sums),
      cmocka_unit_test(the_bits_are_those_of_product_and_epilogue),
      cmocka_unit_test(nan_behind_the_product_is_no_fault),
      cmocka_unit_test(two_nan_are_alike),
      cmocka_unit_test(clean_data_of_any_kind_is_silent),
      cmocka_unit_test(inputs_that_are_not_finite_leave_no_bound),
      cmocka_unit_test(a_hit_accumulator_is_suspect_in_its_row),
      cmocka_unit_test(a_hit_result_differs),
      cmocka_unit_test(a_changed_weight_is_suspect),
      cmocka_unit_test(a_changed_checksum_is_suspect),
  };
  static const rdt_dtype types[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16};
  int failed = 0;
  for (int i = 0; i < 4; i++) {
    util_native_real = types[i];
    failed += cmocka_run_group_tests_name(rdt_dtype_name(types[i]), tests, NULL, NULL);
  }
  util_native_real = RDT_BF16;
  util_native_dot = true;
  if (util_native_has_dot()) failed += cmocka_run_group_tests_name("bf16 by dot products", tests, NULL, NULL);
  return failed;
}
