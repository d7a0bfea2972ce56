/* What row sums on wgmma need to know of B: the signed sums of its rows as floats, and the largest squares, subnormals
 * counted as the smallest normal number, as tensor cores align them. */
#include "cuda/sm80/types.h"
#include "cuda/sm90/gemm_wgmma.h"
#include "cuda/weights.h"

template <class T, bool side>
static __global__ void __launch_bounds__(256) wide_rows(const __grid_constant__ rdt_weights_args p) {
  __shared__ double warps[2][8];
  const int row = (int)blockIdx.x;
  const uint16_t *b = (const uint16_t *)p.b;
  double sum = 0.0, squares = 0.0;
  for (int j = (int)threadIdx.x; j < p.n; j += 256) {
    const float x = T::wide(b[side ? row * p.ldb + j : j * p.ldb + row]).x;
    const float size = x != 0.0f ? fmaxf(fabsf(x), T::least) : 0.0f;
    sum += rdt_mma_sign((unsigned)j) ? -(double)x : (double)x;
    squares += x != x ? (double)x : (double)size * (double)size;
  }
  for (int d = 16; d > 0; d /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, d);
    squares += __shfl_down_sync(0xffffffffu, squares, d);
  }
  if (threadIdx.x % 32 == 0) warps[0][threadIdx.x / 32] = sum, warps[1][threadIdx.x / 32] = squares;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < 8; w++) sum += warps[0][w], squares += warps[1][w];
  ((float *)p.parts)[row] = (float)sum;
  atomicMax((unsigned *)p.rho2, __float_as_uint(fabsf((float)(squares * 1.001)))); /* NaN above all */
}

extern "C" const void *const rdt_weights_wgmma[2][2] = {
    {(const void *)wide_rows<rdt_type_f16, true>, (const void *)wide_rows<rdt_type_f16, false>},
    {(const void *)wide_rows<rdt_type_bf16, true>, (const void *)wide_rows<rdt_type_bf16, false>}};
