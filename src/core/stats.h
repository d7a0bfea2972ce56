/* Statistics of shares: pure functions of counts. */
#ifndef RDT_CORE_STATS_H
#define RDT_CORE_STATS_H

#include <stdint.h>

typedef struct rdt_interval {
  double low, high;
} rdt_interval;

/* The z of a two-sided interval: 0.95 -> 1.95996. */
double rdt_stats_z(double confidence);
/* The share of a normal variable beyond lambda standard deviations, on both sides. */
double rdt_stats_beyond(double lambda);
/* Wilson's score interval of a share (hits of n); of nothing it is 0..1. */
rdt_interval rdt_stats_wilson(int64_t hits, int64_t n, double confidence);
double rdt_stats_half_width(rdt_interval i);
/* One-sided upper bound of a share after Clopper and Pearson: also where nothing was hit. */
double rdt_stats_upper(int64_t hits, int64_t n, double confidence);
/* I_x(a, b), the regularised incomplete beta function: 0 <= x <= 1, a and b > 0 */
double rdt_stats_beta(double x, double a, double b);

#endif
