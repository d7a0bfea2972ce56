#include "check/weights.h"

#include <math.h>

/* Chebyshev's polynomials; multiples of the golden ratio keep neighbours far apart. */
double rdt_check_weight(int64_t j, int set) {
  const double golden = 0.6180339887498949, turns = ((double)j + 0.5) * golden, x = 2.0 * (turns - floor(turns)) - 1.0;
  double before = 1.0, t = x;
  for (int d = 1; d < set; ++d) {
    const double next = 2.0 * x * t - before;
    before = t;
    t = next;
  }
  return set > 0 ? t : 1.0;
}
