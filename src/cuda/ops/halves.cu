/* Kernels of rows of 16-bit numbers. */
#include "cuda/device_common.h"
#include "cuda/ops/body.h"
#include "cuda/ops/halves.h"
#include "cuda/ops/ops.h"
#include "cuda/ptx/chain.h"
#include "cuda/ptx/meet.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/total.h"

RDT_DEVICE uint64_t over_warps(const uint64_t (&part)[RDT_OP_ROW_WARPS]) {
  uint64_t x = part[0];
#pragma unroll
  for (int w = 1; w < RDT_OP_ROW_WARPS; w++) x += part[w];
  return x;
}

/* What a block's warps have summed. */
template <class Rows>
RDT_DEVICE void finish(const rdt_gpu_op &a, const Rows &rows) {
  __shared__ uint64_t part[2][RDT_OP_ROW_WARPS];
  if (rows.differ) rdt_complain_of(a.verdict, RDT_CUDA_CERTAIN, rows.first, rows.differ);
  if (!rows.sums()) return;
  const uint64_t sum = rdt_warp_total(rows.sum), read = a.read ? rdt_warp_total(rows.read) : 0;
  if (threadIdx.x % 32 == 0) part[0][threadIdx.x / 32] = sum, part[1][threadIdx.x / 32] = read;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (a.read) atomicAdd((unsigned long long *)a.read, (unsigned long long)over_warps(part[1]));
  atomicAdd((unsigned long long *)a.sum, (unsigned long long)over_warps(part[0]));
  atomicAdd((unsigned long long *)a.visits, 1ull);
}

template <class T, int P, int N>
static __global__ void __launch_bounds__(RDT_OP_ROW_THREADS, 1) softmax(const __grid_constant__ rdt_gpu_op a) {
  rdt_meet(a, threadIdx.x);
  rdt_chain_wait(), rdt_chain_next();
  rdt_half_rows<T, P, N> rows(a);
  rows.softmax();
  finish(a, rows);
}

template <class T, int P, int N>
static __global__ void __launch_bounds__(RDT_OP_ROW_THREADS, 1) norm(const __grid_constant__ rdt_gpu_op a) {
  rdt_meet(a, threadIdx.x);
  rdt_chain_wait(), rdt_chain_next();
  rdt_half_rows<T, P, N> rows(a);
  rows.norm();
  finish(a, rows);
}

#define ROWS(name, T, P) {(const void *)name<T, P, 1>, (const void *)name<T, P, 2>}
#define PACKS(name, T) {ROWS(name, T, 1), ROWS(name, T, 2), ROWS(name, T, 3), ROWS(name, T, 4)}
#define TYPES(name) {PACKS(name, rdt_f16), PACKS(name, rdt_bf16)}
extern "C" const void *rdt_ops_half(const rdt_gpu_op *a) {
  static const void *const list[2][2][4][2] = {TYPES(softmax), TYPES(norm)};
  const int packs = (int)((a->inner + 255) / 256);
  return list[a->kind == RDT_OP_NORM_HALF][a->view[0].dtype == RDT_BF16][packs - 1][rdt_ops_beside(a)];
}
