/* Bounds against simulated products: never a false report, suspects at most at twice the stated rate, faults found. */

/* clang-format off */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
/* clang-format on */

#include <oneapi/dnnl/dnnl.h>

#include "cli.h"
#include "core/memory.h"
#include "tolerance_sim.h"
#include "util_sample.h"

static const double LAMBDA[RDT_SIM_LAMBDAS] = {3.0, 4.0, 6.0};
static const int64_t LENGTHS[] = {1, 2, 3, 8, 16, 31, 64, 256, 1024, 4096, 16384};
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof LENGTHS[0], OUTPUTS = 16 };

/* At most twice the stated rate, where three standard deviations of counting are forgiven. */
static void at_most_twice(const char *what, const char *family, int l, int64_t seen, int64_t checks) {
  const double allowed = 2.0 * rdt_sim_stated(LAMBDA[l]) * (double)checks;
  if ((double)seen <= allowed + 3.0 * sqrt(allowed)) return;
  fail_msg("%s on %s: %lld suspects in %lld checks at lambda %g, twice the stated rate would be %.1f", what, family,
           (long long)seen, (long long)checks, LAMBDA[l], allowed);
}

static rdt_sim_rate rates_over_lengths(const rdt_sim_case *c, rdt_family f, double work) {
  rdt_sim_rate rate = {.checks = 0};
  for (int i = 0; i < LENGTH_COUNT; i++) {
    const double fit = work / util_one_in(1, 8) / (double)LENGTHS[i]; /* of the checks that are simulated */
    const int64_t checks = fit > 1500.0 ? 1500 : fit < 8.0 ? 8 : (int64_t)fit;
    assert_true(rdt_sim_rates(c, f, LENGTHS[i], OUTPUTS, checks, LAMBDA, 1000U * (unsigned)f + (unsigned)i,
                              (rdt_sim_asking){NULL, NULL}, &rate));
  }
  return rate;
}

/* Every case x family x length. */
static void rates_are_as_stated(void **state) {
  (void)state;
  int n;
  const rdt_sim_case *cases = rdt_sim_table(&n);
  int64_t all = 0;
  for (int i = 0; i < n; i++) {
    rdt_sim_rate sum = {.checks = 0};
    for (int f = 0; f < RDT_FAMILY_COUNT; f++) {
      const rdt_sim_rate r =
          rates_over_lengths(&cases[i], (rdt_family)f, cases[i].order == RDT_SIM_TENSOR ? 4e4 : 1.2e5);
      const char *name = rdt_family_name((rdt_family)f);
      assert_int_equal(r.r0, 0);
      assert_int_equal(r.r2, 0);
      assert_true(r.cannot == 0 || cases[i].out == RDT_F16); /* beyond 65504 */
      if (!rdt_family_claimed((rdt_family)f)) {
        print_message("%-17s%-12s%8lld checks, above T2 at lambda 3, 4, 6: %lld %lld %lld, T3: %lld %lld %lld\n",
                      cases[i].name, name, (long long)r.checks, (long long)r.t2[0], (long long)r.t2[1],
                      (long long)r.t2[2], (long long)r.t3[0], (long long)r.t3[1], (long long)r.t3[2]);
        continue;
      }
      sum.checks += r.checks;
      for (int l = 0; l < RDT_SIM_LAMBDAS; l++) {
        sum.t2[l] += r.t2[l];
        sum.t3[l] += r.t3[l];
        at_most_twice("T2", name, l, r.t2[l], r.checks);
        at_most_twice("T3", name, l, r.t3[l], r.checks);
      }
    }
    for (int l = 0; l < RDT_SIM_LAMBDAS; l++) {
      at_most_twice(cases[i].name, "all claimed families, T2", l, sum.t2[l], sum.checks);
      at_most_twice(cases[i].name, "all claimed families, T3", l, sum.t3[l], sum.checks);
    }
    all += sum.checks;
  }
  print_message("lambda 6: 0 suspects in %lld checks, so below %.1e a check (95 %%); stated %.1e\n", (long long)all,
                3.0 / (double)all, rdt_sim_stated(6.0));
}

/* Partial sums that grow and shrink again: T2 does not know, T3 does. */
static void checkpoints_follow_the_order(void **state) {
  (void)state;
  static const char *const NAMES[] = {"f64", "f32", "f32-fma", "f16-hopper"};
  for (int i = 0; i < 4; i++) {
    rdt_sim_rate r = {.checks = 0};
    assert_true(rdt_sim_rates(rdt_sim_find(NAMES[i]), RDT_FAMILY_BLOCKS, 1024, 32, 500, LAMBDA, 7,
                              (rdt_sim_asking){NULL, NULL}, &r));
    print_message("%s, +block then -block: above lambda 3 in %lld checks: T2 %lld, T3 %lld\n", NAMES[i],
                  (long long)r.checks, (long long)r.t2[0], (long long)r.t3[0]);
    assert_true(r.t2[0] > 10);
    at_most_twice("T3", "blocks", 0, r.t3[0], r.checks);
    assert_int_equal(r.t3[2], 0);
  }
}

/* --- faults --- */

typedef struct bench {
  rdt_sim s;
  rdt_sim_side rows, columns;
  rdt_rng r;
} bench;

static void bench_make(bench *b, const char *name, rdt_family f, int64_t m, int64_t n, int64_t k, double scale) {
  b->r = (rdt_rng){.state = 99};
  assert_true(rdt_sim_init(&b->s, rdt_sim_find(name), m, n, k, true));
  assert_true(rdt_sim_side_init(&b->rows, k) && rdt_sim_side_init(&b->columns, k));
  rdt_sim_fill_a(&b->s, f, &b->r);
  rdt_sim_fill_b(&b->s, f, &b->r);
  for (int64_t i = 0; i < m * k && scale != 1.0; i++) b->s.a[i] = rdt_sim_round(b->s.c->in, b->s.a[i] * scale);
  for (int64_t i = 0; i < n * k && scale != 1.0; i++) b->s.b[i] = rdt_sim_round(b->s.c->in, b->s.b[i] * scale);
  assert_true(rdt_sim_multiply(&b->s));
}

static void bench_clear(bench *b) {
  rdt_sim_side_clear(&b->rows);
  rdt_sim_side_clear(&b->columns);
  rdt_sim_clear(&b->s);
}

static rdt_sim_check look(bench *b, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  rdt_sim_side_a(&b->s, &b->rows, i0, i1);
  rdt_sim_side_b(&b->s, &b->columns, j0, j1);
  return rdt_sim_check_of(&b->s, &b->rows, &b->columns);
}

static rdt_outcome judge(const bench *b, const rdt_sim_check *x) {
  const rdt_tolerance t = rdt_sim_tolerance(b->s.c, b->s.k, 6.0);
  return rdt_compare(x->observed, x->expected, rdt_bound_of(&t, &x->terms));
}

/* Row, column, tile and scalar checks in every case: clean passes; a fault above the floor is suspect; above tau0
 * certain; NaN and Inf certain. The row holds for R2 too. */
static void every_checker_cries(void **state) {
  (void)state;
  enum { M = 24, N = 32, K = 256 };
  static const int64_t AREAS[4][4] = {{3, 4, 0, N}, {0, M, 5, 6}, {0, 16, 0, 16}, {0, M, 0, N}}; /* all hold (3, 5) */
  int n;
  const rdt_sim_case *cases = rdt_sim_table(&n);
  for (int i = 0; i < n; i++) {
    bench b;
    bench_make(&b, cases[i].name, RDT_FAMILY_NORMAL, M, N, K, 1.0);
    const rdt_tolerance t = rdt_sim_tolerance(&cases[i], K, 6.0);
    for (int area = 0; area < 4; area++) {
      const int64_t *a = AREAS[area];
      const rdt_sim_check clean = look(&b, a[0], a[1], a[2], a[3]);
      const rdt_bound bound = rdt_bound_of(&t, &clean.terms);
      const double r2 = rdt_bound_r2(&t, &clean.terms, K / 8 + 1 + cases[i].kb, clean.sum_abs_s);
      assert_int_equal(judge(&b, &clean), RDT_PASS);
      assert_true(bound.tau2 < bound.tau0 && isfinite(bound.tau0) && bound.tau2 > 0.0 && r2 <= bound.tau0);
      assert_true(!b.s.s || r2 < 0.9 * bound.tau0 || t.u_out > 0.0);
      double *hit = &b.s.out[3 * N + 5];
      const double was = *hit, sizes[] = {1.05 * rdt_floor_of(bound), 2.2 * bound.tau0, 1e30, NAN, INFINITY, -INFINITY};
      for (int k = 0; k < 6; k++) {
        *hit = k < 2 ? was + sizes[k] : sizes[k];
        const rdt_sim_check x = look(&b, a[0], a[1], a[2], a[3]);
        const rdt_outcome o = judge(&b, &x);
        if (!(k == 0 ? o == RDT_SUSPECT || o == RDT_CERTAIN : o == RDT_CERTAIN)) {
          fail_msg("%s, area %d, fault %g: outcome %d", cases[i].name, area, sizes[k], (int)o);
        }
      }
      *hit = was + 2.2 * r2;
      const rdt_sim_check x = look(&b, a[0], a[1], a[2], a[3]);
      assert_true(fabs(x.observed - x.expected) > rdt_bound_r2(&t, &x.terms, K / 8 + 1 + cases[i].kb, x.sum_abs_s));
      *hit = was;
    }
    bench_clear(&b);
  }
}

/* Inputs that are not finite: no verdict, never a pass. */
static void bad_inputs_have_no_verdict(void **state) {
  (void)state;
  const double bad[] = {NAN, INFINITY};
  for (int i = 0; i < 4; i++) {
    bench b;
    bench_make(&b, "f32", RDT_FAMILY_NORMAL, 4, 16, 64, 1.0);
    (i < 2 ? b.s.a : b.s.b)[5] = bad[i % 2];
    assert_true(rdt_sim_multiply(&b.s));
    const rdt_sim_check x = look(&b, 0, 1, 0, 16);
    assert_int_equal(judge(&b, &x), RDT_CANNOT);
    bench_clear(&b);
  }
}

/* Subnormal operands, products and sums. */
static void tiny_values_are_no_faults(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double scale;
  } TINY[] = {{"f32", 1e-20},       {"f32", 1e-23},         {"f32", 1e-40},         {"bf16", 1e-22},
              {"f16-hopper", 1e-6}, {"f16-volta", 3e-7},    {"bf16-hopper", 1e-18}, {"f16-hopper-f16", 1e-4},
              {"f64", 1e-160},      {"f32-pairwise", 1e-22}};
  for (size_t i = 0; i < sizeof TINY / sizeof TINY[0]; i++) {
    bench b;
    bench_make(&b, TINY[i].name, RDT_FAMILY_NORMAL, 32, 32, 128, TINY[i].scale);
    for (int64_t row = 0; row < 32; row++) {
      const rdt_sim_check x = look(&b, row, row + 1, 0, 32);
      if (judge(&b, &x) != RDT_PASS) {
        fail_msg("%s at scale %g: residual %g", TINY[i].name, TINY[i].scale, fabs(x.observed - x.expected));
      }
    }
    bench_clear(&b);
  }
}

/* Position of a bit: 0 sign, 1 exponent, then the fraction in groups of eight from the top. */
static int group_of(rdt_dtype t, int bit) {
  const int width = (int)rdt_dtype_size(t) * 8, fraction = t == RDT_F64   ? 52
                                                           : t == RDT_F32 ? 23
                                                           : t == RDT_F16 ? 10
                                                                          : 7;
  return bit == width - 1 ? 0 : bit >= fraction ? 1 : 2 + (fraction - 1 - bit) / 8;
}

/* Single bit flips in stored outputs by position: whatever moves a value by more than the floor is found. */
static void flips_above_the_floor_are_found(void **state) {
  (void)state;
  static const char *const NAMES[] = {"f64", "f32", "f32-pairwise", "bf16-bf16", "f16-hopper", "f16-hopper-f16"};
  print_message("share of flips found: sign, exponent, fraction by groups of eight bits from the top\n");
  for (int i = 0; i < 6; i++) {
    bench b;
    bench_make(&b, NAMES[i], RDT_FAMILY_NORMAL, 16, 64, 512, 1.0);
    const rdt_tolerance t = rdt_sim_tolerance(b.s.c, 512, 6.0);
    const rdt_dtype type = b.s.c->out;
    int found[9] = {0}, tried[9] = {0};
    rdt_sim_side_b(&b.s, &b.columns, 0, 64);
    for (int bit = 0; bit < (int)rdt_dtype_size(type) * 8; bit++) {
      for (int64_t row = 0; row < 16; row++) {
        double *hit = &b.s.out[row * 64 + (row * 7 + bit) % 64];
        const double was = *hit;
        *hit = rdt_sim_flip(type, was, bit);
        rdt_sim_side_a(&b.s, &b.rows, row, row + 1);
        const rdt_sim_check x = rdt_sim_check_of(&b.s, &b.rows, &b.columns);
        const rdt_bound bound = rdt_bound_of(&t, &x.terms);
        const rdt_outcome o = rdt_compare(x.observed, x.expected, bound);
        const bool above = !(fabs(*hit - was) <= rdt_floor_of(bound));
        if (above && o == RDT_PASS) fail_msg("%s bit %d: %g -> %g missed", NAMES[i], bit, was, *hit);
        found[group_of(type, bit)] += o != RDT_PASS;
        tried[group_of(type, bit)]++;
        *hit = was;
      }
    }
    print_message("%-15s", NAMES[i]);
    for (int g = 0; g < 9 && tried[g] > 0; g++) print_message(" %3d%%", 100 * found[g] / tried[g]);
    print_message("\n");
    bench_clear(&b);
  }
}

/* A vendor's product: order, blocking and vectors unknown. Row, column and scalar checks. */
static void a_black_box_stays_within(void **state) {
  (void)state;
  enum { M = 33, N = 47 };
  static const int64_t K[] = {1, 5, 64, 301, 1024, 5000};
  int suspects[RDT_FAMILY_COUNT] = {0}, checks = 0;
  for (int f = 0; f < RDT_FAMILY_COUNT; f++) {
    for (int l = 0; l < 6; l++) {
      const int64_t k = K[l];
      bench b;
      bench_make(&b, "f32", (rdt_family)f, M, N, k, 1.0);
      float *a = test_malloc((size_t)(M * k) * sizeof *a), *x = test_malloc((size_t)(N * k) * sizeof *x), c[M * N];
      for (int64_t i = 0; i < M * k; i++) a[i] = (float)b.s.a[i];
      for (int64_t i = 0; i < N * k; i++) x[i] = (float)b.s.b[i];
      assert_int_equal(dnnl_sgemm('N', 'N', M, N, k, 1.0F, a, k, x, N, 0.0F, c, N), dnnl_success);
      for (int i = 0; i < M * N; i++) b.s.out[i] = (double)c[i];
      rdt_free(b.s.s); /* the checkpoints were those of the simulated order */
      b.s.s = NULL;
      for (int i = 0; i <= M + N; i++) {
        const rdt_sim_check check = i < M       ? look(&b, i, i + 1, 0, N)
                                    : i < M + N ? look(&b, 0, M, i - M, i - M + 1)
                                                : look(&b, 0, M, 0, N);
        const rdt_outcome o = judge(&b, &check);
        assert_true(o == RDT_PASS || o == RDT_SUSPECT);
        suspects[f] += o == RDT_SUSPECT;
        checks++;
      }
      test_free(a);
      test_free(x);
      bench_clear(&b);
    }
    if (rdt_family_claimed((rdt_family)f)) assert_int_equal(suspects[f], 0);
  }
  print_message("oneDNN: 0 reports in %d checks; suspects: cancelling %d, duplicated %d, blocks %d\n", checks,
                suspects[RDT_FAMILY_CANCELLING], suspects[RDT_FAMILY_DUPLICATED], suspects[RDT_FAMILY_BLOCKS]);
}

/* int8: exact modulo 2^32, every flip of every bit. */
static void integers_are_exact(void **state) {
  (void)state;
  enum { N = 40, K = 700 };
  rdt_rng r = {.state = 5};
  int8_t a[K], b[K][N];
  uint32_t sum = 0, dot = 0;
  for (int t = 0; t < K; t++) {
    a[t] = (int8_t)rdt_rng_next(&r);
    for (int j = 0; j < N; j++) b[t][j] = (int8_t)rdt_rng_next(&r);
  }
  int32_t c[N] = {0};
  for (int t = 0; t < K; t++) {
    int32_t beta = 0;
    for (int j = 0; j < N; j++) {
      c[j] += a[t] * b[t][j];
      beta += b[t][j];
    }
    dot += (uint32_t)(a[t] * beta);
  }
  for (int j = 0; j < N; j++) sum += (uint32_t)c[j];
  assert_int_equal(rdt_compare_exact(sum, dot), RDT_PASS);
  for (int bit = 0; bit < 32; bit++) {
    const uint32_t hit = (uint32_t)c[bit] ^ UINT32_C(1) << bit;
    assert_int_equal(rdt_compare_exact(sum - (uint32_t)c[bit] + hit, dot), RDT_CERTAIN);
  }
}

static int tool(const char *line) {
  char copy[256], *argv[16] = {(char *)"tolerance"}, *save = NULL;
  int argc = 1;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *w = strtok_r(copy, " ", &save); w && argc < 16; w = strtok_r(NULL, " ", &save)) argv[argc++] = w;
  return rdt_command_call(&rdt_cmd_bench_tolerance, argc, argv);
}

static void the_tool_runs(void **state) {
  (void)state;
  const char *tables[] = {
      "--no-progress --case f32,f16-hopper --k 64 --trials 40", "--table floors --dtype f64 --k 16 --json",
      "--table rates --family mixed --case f32 --k 64 --trials 64 --lambda 5 --format csv", "--help"};
  for (size_t i = 0; i < 4; i++) assert_int_equal(tool(tables[i]), 0);
  const char *wrong[] = {"--k 0",       "--k",         "--dtype s8",   "--case nothing",
                         "--table all", "--lambda -1", "--format xml", "x"};
  for (size_t i = 0; i < 8; i++) assert_int_equal(tool(wrong[i]), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rates_are_as_stated),
      cmocka_unit_test(checkpoints_follow_the_order),
      cmocka_unit_test(every_checker_cries),
      cmocka_unit_test(bad_inputs_have_no_verdict),
      cmocka_unit_test(tiny_values_are_no_faults),
      cmocka_unit_test(flips_above_the_floor_are_found),
      cmocka_unit_test(a_black_box_stays_within),
      cmocka_unit_test(integers_are_exact),
      cmocka_unit_test(the_tool_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
