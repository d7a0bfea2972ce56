/* Kernels of the ops that are no products, of sums of memory at rest, and of what ends a run. Compiled without
 * contraction, like the CPU's functions: elementwise results have the CPU's bits. */
#include "cuda/ops/body.h"
#include "cuda/ops/ops.h"
#include "cuda/ptx/memory.h"

template <typename T>
RDT_DEVICE T block_sum(T x) { /* what thread 0 gets */
  __shared__ T part[RDT_OP_THREADS / 32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < RDT_OP_THREADS / 32; w++) x += part[w];
  return x;
}

RDT_DEVICE void add(uint64_t *to, uint64_t x) {
  atomicAdd((unsigned long long *)to, (unsigned long long)x);
}

/* What a block has found; whoever differs lists itself. */
RDT_DEVICE void finish(const rdt_gpu_op &a, const rdt_op_found &f) {
  if (f.differ | f.wrong) {
    atomicAdd(f.wrong ? &a.verdict->cannot : &a.verdict->certain, f.differ + f.wrong);
    const uint32_t i = atomicAdd(&a.verdict->listed, 1u);
    if (i < RDT_CUDA_LISTED) {
      rdt_cuda_finding *l = &a.verdict->list[i];
      l->complaint = f.wrong ? RDT_CUDA_CANNOT : RDT_CUDA_CERTAIN;
      l->sm = (int32_t)rdt_sm();
      l->row = (int32_t)f.first;
      l->column = -1;
      l->rows = l->columns = 1;
    }
  }
  if (!a.check) return;
  const uint64_t sum = block_sum(f.sum);
  if (threadIdx.x != 0) return;
  add(a.sum, sum);
  add(a.visits, 1);
}

/* The second form: another block, and another lane of the warp, has each element. */
RDT_DEVICE uint32_t turned(const rdt_gpu_op &a) {
  return a.check ? (blockIdx.x + gridDim.x / 2) % gridDim.x : blockIdx.x;
}

#define ROWS_0(name)                                                                                              \
  static __global__ void __launch_bounds__(RDT_OP_THREADS, 1) kernel_##name(const __grid_constant__ rdt_gpu_op a) { \
    rdt_op_found f = {0, 0, 0, 0};                                                                                \
    const uint32_t me = threadIdx.x ^ (a.check ? 31 : 0);                                                         \
    uint32_t e = turned(a) * a.each * RDT_OP_THREADS + me;                                                        \
    for (int i = 0; i < a.each; i++, e += RDT_OP_THREADS) {                                                       \
      if (e >= a.count) break;                                                                                    \
      int64_t at;                                                                                                 \
      const uint64_t bits = rdt_op_##name(&a, e, &at, &f);                                                        \
      rdt_op_take(&a, &f, e, at, bits);                                                                           \
    }                                                                                                             \
    __syncwarp();                                                                                                 \
    finish(a, f);                                                                                                 \
  }
#define ROWS_1(name)                                                                                              \
  static __global__ void __launch_bounds__(RDT_OP_THREADS, 1) kernel_##name(const __grid_constant__ rdt_gpu_op a) { \
    rdt_op_found f = {0, 0, 0, 0};                                                                                \
    rdt_op_##name(&a, turned(a), threadIdx.x, RDT_OP_THREADS, &f);                                                \
    finish(a, f);                                                                                                 \
  }
#define X(id, name, rows) ROWS_##rows(name)
#include "cuda/ops/kinds.def"
#undef X

static __global__ void __launch_bounds__(RDT_OP_THREADS, 1) sums(const __grid_constant__ rdt_sums_args a) {
  const rdt_sum_part p = a.parts[blockIdx.x];
  const uint64_t sum = block_sum(rdt_op_part(&p, (int)threadIdx.x, RDT_OP_THREADS));
  if (threadIdx.x != 0) return;
  add(p.sum, sum);
  add(a.visits, 1);
}

static __global__ void __launch_bounds__(RDT_OP_THREADS, 1) close(const __grid_constant__ rdt_close_args a) {
  const rdt_summary mine = rdt_op_count(&a, (int)threadIdx.x, RDT_OP_THREADS);
  rdt_summary s;
  s.agree = block_sum(mine.agree), s.disagree = block_sum(mine.disagree);
  s.clean = block_sum(mine.clean), s.complain = block_sum(mine.complain);
  s.visits = *a.visits;
  if (threadIdx.x == 0) *a.summary = s;
}

extern "C" const void *const rdt_ops_code[RDT_OP_CODES] = {
#define X(id, name, rows) (const void *)kernel_##name,
#include "cuda/ops/kinds.def"
#undef X
    (const void *)sums, (const void *)close};
