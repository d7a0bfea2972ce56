/* Products at their edges, under every scheme: operands that end where memory ends, results without elements, operands
 * without data. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <redoubt/redoubt.h>

#include "core/tensor.h"

enum { PAGE = 4096 };
static const char *const schemes[] = {"none", "row", "col", "rowcol", "tile", "global", "thread1", "dup"};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

typedef struct fenced { /* bytes right before a page that nobody may touch */
  char *base, *data;
  size_t size;
} fenced;

static fenced fence(size_t bytes) {
  const size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
  fenced f = {.size = pages + PAGE};
  f.base = mmap(NULL, f.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(f.base != MAP_FAILED);
  assert_int_equal(mprotect(f.base + pages, PAGE, PROT_NONE), 0);
  f.data = f.base + pages - bytes;
  return f;
}

static rdt_context *open_with(const char *scheme) {
  rdt_context *ctx;
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  return ctx;
}

static double element(int64_t i) {
  return (double)(i * 7 % 11 - 5); /* sums of these are exact in any order */
}

/* C = A B with fixed weights, each operand as long as its memory; left, right: powers of 2 that A and B are scaled by.
 * Where the instructions take subnormal operands as zero, and results too (bf16's dot products), zero is right as well.
 */
static void multiply_scaled(rdt_context *ctx, rdt_dtype t, rdt_dtype to, int64_t m, int64_t n, int64_t k, double left,
                            double right) {
  const size_t size = rdt_dtype_size(t), out = rdt_dtype_size(to);
  const fenced x = fence((size_t)(m * k) * size), y = fence((size_t)(k * n) * size), z = fence((size_t)(m * n) * out);
  const rdt_tensor a = rdt_tensor_matrix(x.data, t, m, k, k ? k : 1, 0),
                   b = rdt_tensor_matrix(y.data, t, k, n, n ? n : 1, 0);
  rdt_tensor c = rdt_tensor_matrix(z.data, to, m, n, n ? n : 1, 0);
  for (int64_t i = 0; i < m * k; i++) rdt_store(x.data, t, i, left * element(i));
  for (int64_t i = 0; i < k * n; i++) rdt_store(y.data, t, i, right * element(3 * i + 1));
  const bool squares_vanish =
      t == RDT_F64 && fmin(left, right) < 0x1p-500; /* of which bounds are made: there is none */
  rdt_plan *plan;
  rdt_result r;
  if (rdt_plan_gemm(ctx, &a, &b, &c, &plan) != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
  for (int run = 0; run < 2; run++) {
    if (rdt_plan_execute(plan, &a, &c, &r) != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
    const bool off = strcmp(rdt_plan_scheme(plan), "none") == 0 || squares_vanish;
    if (r.faults || (r.verdict != RDT_CLEAN && !(r.verdict == RDT_UNCHECKED && off)))
      fail_msg("%s %s, %s, %lld x %lld x %lld: verdict %d", rdt_plan_kernel(plan), rdt_plan_scheme(plan),
               rdt_dtype_name(t), (long long)m, (long long)n, (long long)k, r.verdict);
  }
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0.0;
      for (int64_t l = 0; l < k; l++) sum += element(i * k + l) * element(3 * (l * n + j) + 1);
      sum *= left * right;
      const double is = rdt_load(z.data, to, i * n + j);
      if (is != sum && !(t == RDT_BF16 && left * right < 0x1p-126 && is == 0.0))
        fail_msg("%s %s, %s, %lld x %lld x %lld: %g is not %g", rdt_plan_kernel(plan), rdt_plan_scheme(plan),
                 rdt_dtype_name(t), (long long)m, (long long)n, (long long)k, is, sum);
    }
  rdt_plan_destroy(plan);
  munmap(x.base, x.size), munmap(y.base, y.size), munmap(z.base, z.size);
}

static void multiply(rdt_context *ctx, rdt_dtype t, rdt_dtype to, int64_t m, int64_t n, int64_t k) {
  multiply_scaled(ctx, t, to, m, n, k, 1.0, 1.0);
}

/* Operands below the normal range of their datatype: nothing is reported, nothing is lost. */
static void subnormal_operands_are_numbers(void **state) {
  static const struct {
    rdt_dtype type, to;
    double least, other; /* its smallest number; what makes results normal, where that is exact */
  } cases[] = {{RDT_F32, RDT_F32, 0x1p-149, 0x1p60},
               {RDT_F64, RDT_F64, 0x1p-1074, 0x1p200},
               {RDT_F16, RDT_F32, 0x1p-24, 0x1p10},
               {RDT_F16, RDT_F16, 0x1p-24, 1.0},
               {RDT_BF16, RDT_F32, 0x1p-133, 1.0}};
  (void)state;
  for (int s = 0; s < SCHEMES; s++) {
    rdt_context *ctx = open_with(schemes[s]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      const double least = cases[i].least, other = cases[i].other;
      multiply_scaled(ctx, cases[i].type, cases[i].to, 19, 21, 17, least, 1.0);
      multiply_scaled(ctx, cases[i].type, cases[i].to, 19, 21, 17, 1.0, least);
      multiply_scaled(ctx, cases[i].type, cases[i].to, 1, 33, 40, least, other);
      multiply_scaled(ctx, cases[i].type, cases[i].to, 65, 7, 12, other, least);
    }
    rdt_context_destroy(ctx);
  }
}

static const struct {
  rdt_dtype in, out;
} kinds[] = {{RDT_F32, RDT_F32}, {RDT_F64, RDT_F64}, {RDT_BF16, RDT_F32}, {RDT_F16, RDT_F32}, {RDT_S8, RDT_S32}};

/* Narrow ones read their rows where they lie. */
static void nothing_is_read_behind_the_end(void **unused) {
  (void)unused;
  const int64_t rows[] = {1, 3, 5, 8, 13, 37}, columns[] = {8, 16, 33, 64, 100, 128, 130};
  const int64_t depths[] = {1, 2, 3, 7, 16, 37, 100, 321};
  for (int s = 0; s < SCHEMES; s++) {
    rdt_context *ctx = open_with(schemes[s]);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
      for (int i = 0; i < 6; i++)
        for (int j = 0; j < 7; j++)
          for (int d = (i + j + s) % 3; d < 8; d += 3)
            multiply(ctx, kinds[kind].in, kinds[kind].out, rows[i], columns[j], depths[d]);
    rdt_context_destroy(ctx);
  }
}

static void empty_products_are_fine(void **unused) {
  (void)unused;
  const int64_t shapes[][3] = {{0, 8, 8}, {8, 0, 8}, {8, 8, 0}, {0, 0, 0}, {0, 200, 400}, {200, 0, 400}, {1, 1, 0}};
  for (int s = 0; s < SCHEMES; s++) {
    rdt_context *ctx = open_with(schemes[s]);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
      for (int i = 0; i < 7; i++)
        multiply(ctx, kinds[kind].in, kinds[kind].out, shapes[i][0], shapes[i][1], shapes[i][2]);
    rdt_context_destroy(ctx);
  }
}

static void operands_without_data_are_refused(void **unused) {
  (void)unused;
  rdt_context *ctx = open_with("row");
  float x[16] = {0};
  for (int missing = 0; missing < 3; missing++)
    for (int beta = 0; beta < 2; beta++) {
      rdt_tensor t[3];
      for (int i = 0; i < 3; i++) t[i] = rdt_tensor_matrix(i == missing ? NULL : x, RDT_F32, 4, 4, 4, 0);
      rdt_result r;
      assert_int_equal(rdt_gemm(ctx, 1.0, &t[0], &t[1], beta, &t[2], &r), RDT_ERR_ARG);
      assert_non_null(strstr(rdt_context_error(ctx), "no data"));
    }
  rdt_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_read_behind_the_end), cmocka_unit_test(empty_products_are_fine),
      cmocka_unit_test(operands_without_data_are_refused), cmocka_unit_test(subnormal_operands_are_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
