/* The statistics of campaigns against values from elsewhere (R: binom.test, prop.test; SciPy). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "campaign/summary.h"
#include "core/stats.h"
#include "core/tensor.h"

static void near(double a, double b, double room) {
  if (!(fabs(a - b) <= room)) fail_msg("%.12g is not %.12g", a, b);
}

static void wilson_intervals(void **state) {
  (void)state;
  near(rdt_stats_z(0.95), 1.959963984540054, 1e-12);
  near(rdt_stats_z(0.99), 2.5758293035489004, 1e-12);
  static const struct {
    int64_t hits, n;
    double low, high;
  } cases[] = {{10, 100, 0.0552291, 0.1743657},
               {0, 10, 0.0, 0.2775328},
               {10, 10, 0.7224672, 1.0},
               {1, 2, 0.0945312, 0.9054688},
               {0, 40000, 0.0, 9.602728e-05}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const rdt_interval w = rdt_stats_wilson(cases[i].hits, cases[i].n, 0.95);
    near(w.low, cases[i].low, 1e-6);
    near(w.high, cases[i].high, 1e-6);
    near(rdt_stats_half_width(w), 0.5 * (w.high - w.low), 0.0);
  }
  const rdt_interval nothing = rdt_stats_wilson(0, 0, 0.95);
  assert_true(nothing.low == 0.0 && nothing.high == 1.0);
}

static void exact_upper_bounds(void **state) {
  (void)state;
  near(rdt_stats_upper(0, 100, 0.95), 0.0295130, 1e-6);
  near(rdt_stats_upper(1, 100, 0.95), 0.0465598, 1e-6);
  near(rdt_stats_upper(5, 50, 0.95), 0.1988330, 1e-6);
  near(rdt_stats_upper(0, 100000000, 0.95), 2.9957322e-8, 1e-13);
  assert_true(rdt_stats_upper(3, 3, 0.95) == 1.0);
  assert_true(rdt_stats_upper(0, 0, 0.95) == 1.0);
}

static void the_incomplete_beta_function(void **state) {
  (void)state;
  near(rdt_stats_beta(0.5, 2.0, 2.0), 0.5, 1e-14);
  near(rdt_stats_beta(0.2, 1.0, 1.0), 0.2, 1e-14);
  near(rdt_stats_beta(0.3, 2.0, 5.0), 0.579825, 1e-9);
  near(rdt_stats_beta(0.9, 20.0, 3.0), 0.6200409, 1e-6);
  assert_true(rdt_stats_beta(0.0, 2.0, 3.0) == 0.0);
  assert_true(rdt_stats_beta(1.0, 2.0, 3.0) == 1.0);
}

static void coverage_counts_what_is_not_masked(void **state) {
  (void)state;
  rdt_count c = {.fate = {[RDT_FATE_MASKED] = 50,
                          [RDT_FATE_RECOMPUTED] = 96,
                          [RDT_FATE_CORRECTED] = 1,
                          [RDT_FATE_SDC] = 2,
                          [RDT_FATE_CRITICAL] = 1,
                          [RDT_FATE_ABSENT] = 7}};
  assert_int_equal(rdt_count_planted(&c), 150);
  assert_int_equal(rdt_count_dangerous(&c), 100);
  near(rdt_count_coverage(&c).at, 0.97, 1e-15);
  near(rdt_count_sdc(&c).at, 0.02, 1e-15);
  c = (rdt_count){.fate = {[RDT_FATE_ABSENT] = 7}};
  assert_true(isnan(rdt_count_coverage(&c).at));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wilson_intervals),
      cmocka_unit_test(exact_upper_bounds),
      cmocka_unit_test(the_incomplete_beta_function),
      cmocka_unit_test(coverage_counts_what_is_not_masked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
