/* One step of the tensor cores on given numbers: row 0 of A, column 0 of B. */
#include "cuda/probe.h"

#include "cuda/sm80/types.h"

template <class T, class N>
static __global__ void __launch_bounds__(32) probe(const __grid_constant__ rdt_probe_args p) {
  const rdt_probe_case &x = p.cases[blockIdx.x];
  const int lane = threadIdx.x, t = lane % 4;
  const bool first = lane < 4;
  uint32_t a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
  float c[4] = {lane == 0 ? x.c : 0.0f, 0.0f, 0.0f, 0.0f};
  if (first) {
    a[0] = N::narrow(x.a[2 * t], x.a[2 * t + 1]), a[2] = N::narrow(x.a[2 * t + 8], x.a[2 * t + 9]);
    b[0] = N::narrow(x.b[2 * t], x.b[2 * t + 1]), b[1] = N::narrow(x.b[2 * t + 8], x.b[2 * t + 9]);
  }
  T::mma(c, a, b);
  if (lane == 0) p.results[blockIdx.x] = c[0];
}

extern "C" const void *const rdt_probe_code[2] = {(const void *)probe<rdt_type_f16, rdt_f16>,
                                                  (const void *)probe<rdt_type_bf16, rdt_bf16>};
