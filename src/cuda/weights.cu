/* What the checks need to know of B: the largest squares, for bounds, and the signed sums of rows. Subnormal numbers
 * count as the smallest normal one: tensor cores align them so. A sum that its type might not hold leaves no bound. */
#include "cuda/weights.h"

#include "cuda/ptx/mma.h"
#include "cuda/sm80/gemm_mma.h"

RDT_DEVICE float load(const rdt_weights_args &p, int row, int column) {
  const uint32_t x = ((const uint16_t *)p.b)[row * p.ldb + column];
  return p.half ? rdt_f16::wide(x).x : rdt_bf16::wide(x).x;
}

RDT_DEVICE float square(const rdt_weights_args &p, float x) {
  const float least = p.half ? 0x1p-14f : 0x1p-126f, m = x != 0.0f ? fmaxf(fabsf(x), least) : 0.0f;
  return x != x ? x : m * m;
}

RDT_DEVICE float most(float x, float y) { /* NaN wins */
  return x != x || x > y ? x : y;
}

RDT_DEVICE float bounded(const rdt_weights_args &p, float rho2, float count) {
  return p.half && !(rho2 * count < 65504.0f * 65504.0f) ? __int_as_float(0x7f800000) : rho2;
}

static __global__ void __launch_bounds__(256) groups(const __grid_constant__ rdt_weights_args p) {
  __shared__ float largest[256];
  const int first = (int)blockIdx.x * p.columns + (int)threadIdx.x % 8;
  float x = 0.0f;
  for (int k = (int)threadIdx.x / 8; k < p.k; k += 32) {
    float sum = 0.0f;
    for (int j = first; j < min(p.n, first + p.columns); j += 8) sum += square(p, load(p, k, j));
    x = most(sum, x);
  }
  largest[threadIdx.x] = x;
  __syncthreads();
  if (threadIdx.x >= 8) return;
  for (int i = (int)threadIdx.x; i < 256; i += 8) x = most(largest[i], x);
  p.rho2[blockIdx.x * 8 + threadIdx.x] = bounded(p, x * 1.0001f, (float)p.columns / 8.0f); /* its own roundings */
}

static __global__ void __launch_bounds__(256) rows(const __grid_constant__ rdt_weights_args p) {
  __shared__ double sums[8];
  __shared__ float squares[8];
  const int row = (int)blockIdx.x;
  double sum = 0.0;
  float rho2 = 0.0f;
  for (int j = (int)threadIdx.x; j < p.n; j += 256) {
    const float x = load(p, row, j);
    sum += rdt_mma_sign((unsigned)j) ? -(double)x : (double)x;
    rho2 += square(p, x);
  }
  for (int d = 16; d > 0; d /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, d);
    rho2 += __shfl_down_sync(0xffffffffu, rho2, d);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum, squares[threadIdx.x / 32] = rho2;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < 8; w++) sum += sums[w], rho2 += squares[w];
  uint16_t *part = (uint16_t *)p.parts + (int64_t)row * RDT_MMA_PARTS;
  for (int i = 0; i < RDT_MMA_PARTS; i++) {
    const int count = p.half ? rdt_f16::parts : rdt_bf16::parts;
    const float x = i < count ? (float)(p.half && i == 1 ? sum * 0x1p11 : sum) : 0.0f;
    const uint32_t bits = p.half ? rdt_f16::narrow(x, 0.0f) : rdt_bf16::narrow(x, 0.0f);
    part[i] = (uint16_t)bits;
    const float stored = p.half ? rdt_f16::wide(bits).x : rdt_bf16::wide(bits).x;
    sum -= p.half && i == 1 ? stored * 0x1p-11 : (double)stored;
  }
  if (p.half && !(fabs(sum) < 1.0)) rho2 = __int_as_float(0x7f800000);  /* the first part overflowed */
  atomicMax((unsigned *)p.rho2, __float_as_uint(fabsf(rho2 * 1.001f))); /* NaN is above all numbers */
}

extern "C" const void *const rdt_weights_groups = (const void *)groups;
extern "C" const void *const rdt_weights_rows = (const void *)rows;
