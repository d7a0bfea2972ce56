/* The passes of global-classic: see classic.h. */
#include "cuda/classic.h"

#include "cuda/sm80/gemm_mma_checks.h"

RDT_DEVICE float element(const rdt_classic_args &p, int64_t row, int column) {
  const uint32_t x = ((const uint16_t *)p.matrix)[row * p.pitch + column];
  return p.half ? rdt_f16::wide(x).x : rdt_bf16::wide(x).x;
}

template <int count>
RDT_DEVICE void sum_of_block(double (&x)[count]) { /* the first thread has it */
  __shared__ double warps[RDT_CLASSIC_THREADS / 32][count];
#pragma unroll
  for (int i = 0; i < count; i++)
    for (int d = 16; d > 0; d /= 2) x[i] += __shfl_down_sync(0xffffffffu, x[i], d);
  if (threadIdx.x % 32 == 0)
    for (int i = 0; i < count; i++) warps[threadIdx.x / 32][i] = x[i];
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned w = 1; w < RDT_CLASSIC_THREADS / 32; w++)
      for (int i = 0; i < count; i++) x[i] += warps[w][i];
}

static __global__ void __launch_bounds__(RDT_CLASSIC_THREADS)
    classic_weights(const __grid_constant__ rdt_classic_args p) {
  const float least = p.half ? 0x1p-14f : 0x1p-126f;
  double x[2] = {0.0, 0.0};
  for (int j = threadIdx.x; j < p.columns; j += RDT_CLASSIC_THREADS) {
    const float y = element(p, blockIdx.x, j), size = y != 0.0f ? fmaxf(fabsf(y), least) : 0.0f;
    x[0] += (double)y, x[1] += y != y ? (double)y : (double)size * (double)size;
  }
  sum_of_block(x);
  if (threadIdx.x == 0) p.weights[2 * blockIdx.x] = x[0], p.weights[2 * blockIdx.x + 1] = x[1];
}

static __global__ void __launch_bounds__(RDT_CLASSIC_THREADS)
    classic_columns(const __grid_constant__ rdt_classic_args p) {
  const int column = (int)(blockIdx.x * RDT_CLASSIC_THREADS + threadIdx.x), first = (int)blockIdx.y * RDT_CLASSIC_ROWS;
  float sum = 0.0f, squares = 0.0f;
  if (column >= p.columns) return;
  for (int i = first; i < min(p.rows, first + RDT_CLASSIC_ROWS); i++) {
    const float x = element(p, i, column);
    sum += x, squares = fmaf(x, x, squares);
  }
  rdt_store_pair(p.strips + 2 * ((int64_t)blockIdx.y * p.columns + column), sum, squares);
}

/* See rdt_box_bound; squares are those of f32 sums, 1.001 makes up for that. */
static __global__ void __launch_bounds__(RDT_CLASSIC_THREADS)
    classic_compare(const __grid_constant__ rdt_classic_args p) {
  double x[4] = {0.0, 0.0, 0.0, 0.0}; /* what was expected, q, the sum of C, its squares */
  for (int k = threadIdx.x; k < p.k; k += RDT_CLASSIC_THREADS) {
    double sum = 0.0, squares = p.m * (p.half ? 0x1p-28 : 0x1p-126); /* subnormal ones, as tensor cores align them */
    for (int s = 0; s < p.count; s++) {
      float v[2];
      rdt_load_pair(v, p.strips + 2 * ((int64_t)s * p.k + k));
      sum += (double)v[0], squares += (double)v[1];
    }
    x[0] = fma(sum, p.weights[2 * k], x[0]);
    x[1] = fma(squares, p.weights[2 * k + 1], x[1]);
  }
  for (int i = threadIdx.x; i < p.tiles; i += RDT_CLASSIC_THREADS) {
    float v[2];
    rdt_load_pair(v, p.sums + 2 * i);
    x[2] += (double)v[0], x[3] += (double)v[1];
  }
  sum_of_block(x);
  if (threadIdx.x != 0) return;
  const rdt_box_bound &b = p.bound;
  const double q = x[1] * 1.001 + 0x1p-200, most = fmin(x[3] * 1.001, b.cap * q), infinity = rdt_infinite(q);
  const double variance = b.c2 * most + fmin(1.0, b.theta * most / q) * b.drift * most + b.q * q + b.s2 * x[2] * x[2] +
                          b.e2 * x[0] * x[0] + b.rest;
  const double tau0 = b.q0 * sqrt(q) + b.least, residual = fabs(x[2] - x[0]);
  const double tau2 = fmin(tau0, b.line * fabs(x[2]) + b.lambda * sqrt(variance) + b.least);
  const rdt_place_of at = {-1, -1, p.m, p.n, 0, p.k};
  if (p.told) *p.told = tau2;
  if (residual <= tau2 && tau0 < infinity) return;
  rdt_complain(p.verdict,
               !(tau0 < infinity)   ? RDT_CUDA_CANNOT
               : residual <= tau0 ? RDT_CUDA_SUSPECT
                                    : RDT_CUDA_CERTAIN,
               at, (float)x[2], (float)x[0], (float)tau2, (float)tau0);
}

extern "C" const void *const rdt_classic_weights = (const void *)classic_weights;
extern "C" const void *const rdt_classic_columns = (const void *)classic_columns;
extern "C" const void *const rdt_classic_compare = (const void *)classic_compare;
