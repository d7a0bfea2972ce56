#include "core/stats.h"

#include <math.h>

/* Bisection in the distribution function: forty halvings of -8..8 leave nothing to see. */
double rdt_stats_beyond(double lambda) {
  return erfc(lambda / sqrt(2.0));
}

double rdt_stats_z(double confidence) {
  double low = 0.0, high = 10.0;
  for (int i = 0; i < 60; i++) {
    const double middle = 0.5 * (low + high);
    *(erf(middle * M_SQRT1_2) < confidence ? &low : &high) = middle;
  }
  return 0.5 * (low + high);
}

rdt_interval rdt_stats_wilson(int64_t hits, int64_t n, double confidence) {
  if (n <= 0) return (rdt_interval){0.0, 1.0};
  const double z = rdt_stats_z(confidence), all = (double)n, share = (double)hits / all, z2 = z * z / all;
  const double centre = share + 0.5 * z2, half = z * sqrt(share * (1.0 - share) / all + 0.25 * z2 / all);
  const double low = (centre - half) / (1.0 + z2), high = (centre + half) / (1.0 + z2);
  return (rdt_interval){hits == 0 ? 0.0 : fmax(low, 0.0), hits == n ? 1.0 : fmin(high, 1.0)};
}

double rdt_stats_half_width(rdt_interval i) {
  return 0.5 * (i.high - i.low);
}

/* The continued fraction of the incomplete beta function, by Lentz's method: converges fast for x < (a+1)/(a+b+2). */
static double fraction(double x, double a, double b) {
  enum { MOST = 10000 };
  const double tiny = 1e-300;
  double c = 1.0, d = 1.0 - (a + b) * x / (a + 1.0);
  d = 1.0 / (fabs(d) < tiny ? tiny : d);
  double f = d;
  for (int m = 1; m < MOST; m++) {
    const double two = 2.0 * m;
    const double steps[2] = {m * (b - m) * x / ((a + two - 1.0) * (a + two)),
                             -(a + m) * (a + b + m) * x / ((a + two) * (a + two + 1.0))};
    double change = 1.0;
    for (int i = 0; i < 2; i++) {
      d = 1.0 + steps[i] * d;
      c = 1.0 + steps[i] / c;
      d = 1.0 / (fabs(d) < tiny ? tiny : d);
      if (fabs(c) < tiny) c = tiny;
      change = d * c;
      f *= change;
    }
    if (change == 1.0) break;
  }
  return f;
}

double rdt_stats_beta(double x, double a, double b) {
  if (!(x > 0.0)) return 0.0;
  if (!(x < 1.0)) return 1.0;
  if (x > (a + 1.0) / (a + b + 2.0)) return 1.0 - rdt_stats_beta(1.0 - x, b, a);
  const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
  return front * fraction(x, a, b) / a;
}

double rdt_stats_upper(int64_t hits, int64_t n, double confidence) {
  if (n <= 0 || hits >= n) return 1.0;
  if (hits == 0) return -expm1(log1p(-confidence) / (double)n);
  double low = (double)hits / (double)n, high = 1.0;
  for (int i = 0; i < 200 && high - low > 0.0; i++) { /* P(at most hits) falls with the share */
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) break;
    *(rdt_stats_beta(middle, (double)hits + 1.0, (double)(n - hits)) < confidence ? &low : &high) = middle;
  }
  return high;
}
