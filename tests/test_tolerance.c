/* Bounds: constants, fall-backs, NaN and Inf policy. Statistics are in test_tolerance_rates.c. */

/* clang-format off */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "check/tolerance.h"

static const rdt_tolerance F32 = {
    .acc = {.u = 0x1p-24}, .k = 100, .u_check = 0x1p-53, .u_beta = 0x1p-53, .lambda = 6.0};

/* A row of 16 outputs, inputs of size 1. */
static rdt_terms some_terms(void) {
  return (rdt_terms){.n = 16,
                     .abs_c = 128.0,
                     .c2 = 1600.0,
                     .s = 40.0,
                     .ag = 1000.0,
                     .q = 1600.0,
                     .dot = 40.0,
                     .a_beta = 300.0,
                     .q_beta = 1600.0,
                     .m2 = NAN,
                     .sbar = NAN};
}

static void gamma_is_right(void **state) {
  (void)state;
  rdt_accumulator a = rdt_accumulator_of(RDT_F32, RDT_F32);
  assert_true(rdt_gamma(&a, 1) >= 0x1p-24 && rdt_gamma(&a, 1) < 1.0001 * 0x1p-24);
  assert_true(rdt_gamma(&a, 4096) > 4096 * 0x1p-24);
  assert_true(isinf(rdt_gamma(&a, INT64_C(1) << 24)));
  a.depth = 13;
  assert_true(rdt_gamma(&a, 4096) < 13.1 * 0x1p-24);
  assert_true(rdt_gamma(&a, 4) < 4.1 * 0x1p-24);
  a = rdt_accumulator_of(RDT_BF16, RDT_F32);
  assert_true(a.u == 0x1p-24);
  a = rdt_accumulator_of(RDT_F64, RDT_F64);
  assert_true(a.u == 0x1p-53);
  a = rdt_accumulator_of(RDT_S8, RDT_S32);
  assert_true(a.u == 0.0 && rdt_gamma(&a, 1 << 20) == 0.0);
  a = (rdt_accumulator){.rounding = RDT_ROUND_TRUNCATE, .kb = 16, .f = 25, .fo = 23};
  const double unit = rdt_gamma(&a, 4096) / (4096 * 0x1p-24); /* Hopper f16: 0.625 in units of K 2^-24 */
  assert_true(unit > 0.62 && unit < 0.63);
  a = rdt_accumulator_mma(9, 0, RDT_F32); /* tf32: 0.75, on Ampere 1.5, at most 2.5 */
  assert_true(fabs(rdt_gamma(&a, 4096) / (4096 * 0x1p-24) - 0.75) < 0.01);
  a = rdt_accumulator_mma(8, 0, RDT_F32);
  assert_true(fabs(rdt_gamma(&a, 4096) / (4096 * 0x1p-24) - 1.5) < 0.01);
  a = rdt_accumulator_mma(7, 0, RDT_F32);
  assert_true(fabs(rdt_gamma(&a, 4096) / (4096 * 0x1p-24) - 2.5) < 0.01);
}

static void not_finite_is_never_a_pass(void **state) {
  (void)state;
  const rdt_bound good = {1.0, 0.5}, none = {INFINITY, 0.5}, nan_bound = {NAN, NAN}, half = {1.0, NAN};
  assert_int_equal(rdt_compare(0.0, 0.25, good), RDT_PASS);
  assert_int_equal(rdt_compare(0.0, 0.75, good), RDT_SUSPECT);
  assert_int_equal(rdt_compare(0.0, 1.75, good), RDT_CERTAIN);
  assert_int_equal(rdt_compare(NAN, 0.0, good), RDT_CERTAIN);
  assert_int_equal(rdt_compare(INFINITY, INFINITY, good), RDT_CERTAIN);
  assert_int_equal(rdt_compare(0.0, -INFINITY, good), RDT_CERTAIN);
  assert_int_equal(rdt_compare(0.0, 0.0, none), RDT_CANNOT);
  assert_int_equal(rdt_compare(0.0, 0.0, nan_bound), RDT_CANNOT);
  assert_int_equal(rdt_compare(0.0, 0.0, half), RDT_CANNOT);
  assert_int_equal(rdt_compare_exact(7, 7), RDT_PASS);
  assert_int_equal(rdt_compare_exact(7, 6), RDT_CERTAIN);
  assert_true(isinf(rdt_floor_of(none)) || rdt_floor_of(none) == 1.0);
  assert_true(isinf(rdt_floor_of(half)));
}

/* A fault that makes an output Inf or NaN leaves the bound finite; inputs that are not finite leave none. */
static void faults_do_not_move_the_bound(void **state) {
  (void)state;
  const rdt_terms clean = some_terms();
  const rdt_bound b = rdt_bound_of(&F32, &clean);
  assert_true(isfinite(b.tau0) && b.tau2 > 0.0 && b.tau2 <= b.tau0);
  const double bad[] = {NAN, INFINITY, 1e30};
  for (int i = 0; i < 3; i++) {
    rdt_terms m = clean;
    m.abs_c = m.c2 = m.s = bad[i];
    const rdt_bound hit = rdt_bound_of(&F32, &m);
    assert_true(isfinite(hit.tau0) && hit.tau0 < 1.01 * b.tau0 && hit.tau2 <= hit.tau0);
    assert_int_equal(rdt_compare(m.s, m.dot, hit), RDT_CERTAIN);
    m = clean; /* the checksum vector was hit */
    m.dot = m.a_beta = m.q_beta = bad[i];
    const rdt_bound chk = rdt_bound_of(&F32, &m);
    assert_true(isfinite(chk.tau0) && chk.tau2 <= chk.tau0);
    assert_int_equal(rdt_compare(m.s, m.dot, chk), RDT_CERTAIN);
    m = clean; /* an input is not finite */
    m.ag = m.q = m.dot = m.a_beta = m.q_beta = bad[i];
    if (!isfinite(bad[i])) assert_int_equal(rdt_compare(m.s, m.dot, rdt_bound_of(&F32, &m)), RDT_CANNOT);
  }
}

/* Inf in the outputs proves nothing where correct outputs may overflow. */
static void overflow_cannot_be_judged(void **state) {
  (void)state;
  rdt_terms m = some_terms();
  m.ag = 1e39;
  m.q = 1e76;
  m.abs_c = m.c2 = m.s = INFINITY;
  assert_int_equal(rdt_compare(m.s, m.dot, rdt_bound_of(&F32, &m)), RDT_CANNOT);
  rdt_tolerance half = F32;
  half.u_out = 0x1p-11;
  half.eta_out = 0x1p-24;
  m = some_terms();
  m.abs_c = m.s = m.c2 = INFINITY;
  assert_int_equal(rdt_compare(m.s, m.dot, rdt_bound_of(&half, &m)), RDT_CERTAIN);
  m.ag = 1e6;
  m.q = 1e9;
  assert_int_equal(rdt_compare(m.s, m.dot, rdt_bound_of(&half, &m)), RDT_CANNOT);
}

/* A field that was not measured never gives a tighter bound. */
static void fallbacks_are_looser(void **state) {
  (void)state;
  const rdt_terms m = some_terms();
  const rdt_bound b = rdt_bound_of(&F32, &m);
  for (int field = 0; field < 9; field++) {
    rdt_terms l = m;
    double *const f[] = {&l.abs_c, &l.c2, &l.s, &l.ag, &l.q, &l.dot, &l.a_beta, &l.q_beta, &l.m2};
    *f[field] = NAN;
    const rdt_bound loose = rdt_bound_of(&F32, &l);
    assert_true(isfinite(loose.tau0) && loose.tau0 >= b.tau0 && loose.tau2 >= b.tau2);
  }
  rdt_terms none = m;
  none.ag = none.q = NAN;
  assert_true(isinf(rdt_bound_of(&F32, &none).tau0));
}

/* Doubles so small that their squares vanish: a bound from ag, none from squares alone. */
static void vanished_squares_are_no_zeros(void **state) {
  (void)state;
  rdt_tolerance t = F32;
  t.acc.u = 0x1p-53;
  rdt_terms m = some_terms();
  double *const all[] = {&m.abs_c, &m.s, &m.ag, &m.dot, &m.a_beta};
  for (int i = 0; i < 5; i++) *all[i] *= 1e-200;
  m.c2 = m.q = m.q_beta = 0.0;
  const rdt_bound b = rdt_bound_of(&t, &m);
  assert_true(b.tau0 > 100 * 0x1p-53 * m.ag && b.tau0 < 200 * 0x1p-53 * m.ag);
  m.ag = m.abs_c = m.a_beta = NAN;
  assert_true(isinf(rdt_bound_of(&t, &m).tau0));
  m.s = m.dot = 0.0;
  assert_int_equal(rdt_compare(0.0, 0.0, rdt_bound_of(&t, &m)), RDT_PASS);
  assert_int_equal(rdt_compare(1e-30, 0.0, rdt_bound_of(&t, &m)), RDT_CERTAIN);
}

static void exact_and_empty(void **state) {
  (void)state;
  rdt_tolerance t = F32;
  t.acc.u = 0.0;
  rdt_terms m = some_terms();
  assert_true(rdt_bound_of(&t, &m).tau0 == 0.0 && rdt_bound_element(&t, 10.0) == 0.0);
  t = F32;
  t.k = 0;
  assert_true(rdt_bound_of(&t, &m).tau0 == 0.0);
  m.n = 0;
  assert_true(rdt_bound_of(&F32, &m).tau0 == 0.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gamma_is_right),
      cmocka_unit_test(not_finite_is_never_a_pass),
      cmocka_unit_test(faults_do_not_move_the_bound),
      cmocka_unit_test(overflow_cannot_be_judged),
      cmocka_unit_test(fallbacks_are_looser),
      cmocka_unit_test(exact_and_empty),
      cmocka_unit_test(vanished_squares_are_no_zeros),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
