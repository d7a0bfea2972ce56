/* How large the elements of a result typically are: the unit in which a report gives detection floors. */
#include <math.h>

#include "core/tensor.h"
#include "net/model.h"

enum { SAMPLE = 1024 };

/* Where the element of a logical row-major number lies. */
static int64_t offset_of(const rdt_tensor *t, int64_t number) {
  int64_t offset = 0;
  for (int i = t->rank - 1; i >= 0; i--) {
    offset += number % t->shape[i] * t->stride[i];
    number /= t->shape[i];
  }
  return offset;
}

/* One element from each of equal parts, at a place that changes from part to part: steps of one length would stay with
 * the same few channels. */
double rdt_tensor_typical(const rdt_tensor *t) {
  const int64_t count = rdt_tensor_count(t), n = count < SAMPLE ? count : SAMPLE;
  double squares = 0.0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t length = count / n;
    const int64_t within = (int64_t)((uint64_t)i * 0x9E3779B97F4A7C15u >> 33) % length;
    const double x = rdt_load(t->data, t->dtype, offset_of(t, i * length + within));
    squares += x * x;
  }
  const double typical = n > 0 ? sqrt(squares / (double)n) : 0.0;
  return isfinite(typical) ? typical : 0.0;
}
