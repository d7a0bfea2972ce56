/* Kernels of the ops that are no products, of sums of memory at rest, and of what ends a run. Compiled without
 * contraction, like the CPU's functions: elementwise results have the CPU's bits. */
#include "cuda/device_common.h"
#include "cuda/ops/body.h"
#include "cuda/ops/ops.h"
#include "cuda/ops/bytes.h"
#include "cuda/ptx/chain.h"
#include "cuda/ptx/meet.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/total.h"

/* Over the block: what thread 0 gets. */
template <int N>
RDT_DEVICE void block_sums(uint64_t (&x)[N]) {
  __shared__ uint64_t part[RDT_OP_THREADS / 32][N];
#pragma unroll
  for (int i = 0; i < N; i++) x[i] = rdt_warp_total(x[i]);
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int i = 0; i < N; i++) part[threadIdx.x / 32][i] = x[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int w = 1; w < RDT_OP_THREADS / 32; w++)
#pragma unroll
    for (int i = 0; i < N; i++) x[i] += part[w][i];
}

RDT_DEVICE void add(uint64_t *to, uint64_t x) {
  atomicAdd((unsigned long long *)to, (unsigned long long)x);
}

/* What a block has found; whoever differs lists itself. */
RDT_DEVICE void finish(const rdt_gpu_op &a, const rdt_op_found &f) {
  if (f.differ | f.wrong)
    rdt_complain_of(a.verdict, f.wrong ? RDT_CUDA_CANNOT : RDT_CUDA_CERTAIN, f.first, f.differ + f.wrong);
  if (f.form == RDT_OP_STORES) return;
  uint64_t x[2] = {f.sum, f.read};
  block_sums(x);
  if (threadIdx.x != 0) return;
  if (a.read) add(a.read, x[1]);
  add(a.sum, x[0]);
  add(a.visits, 1);
}

/* Of both forms, each half of the grid has one. */
RDT_DEVICE rdt_op_form form_of(const rdt_gpu_op &a) {
  if (a.check != RDT_OP_BOTH) return (rdt_op_form)a.check;
  return blockIdx.x < gridDim.x / 2 ? RDT_OP_STORES : RDT_OP_AGAIN;
}
/* What is evaluated again another block has, and another warp and lane of it. */
RDT_DEVICE uint32_t block_of(const rdt_gpu_op &a) {
  const uint32_t half = gridDim.x / 2;
  if (a.check == RDT_OP_BOTH) return blockIdx.x < half ? blockIdx.x : blockIdx.x - half;
  return a.check == RDT_OP_STORES ? blockIdx.x : (blockIdx.x + half) % gridDim.x;
}
RDT_DEVICE uint32_t thread_of(const rdt_op_found &f) {
  return threadIdx.x ^ (f.form != RDT_OP_STORES ? RDT_OP_THREADS - 1 : 0);
}

#define KERNEL(prefix, name, blocks, ...)                          \
  static __global__ void __launch_bounds__(RDT_OP_THREADS, blocks) \
      prefix##_##name(const __grid_constant__ rdt_gpu_op a) {      \
    rdt_meet(a, threadIdx.x);                                      \
    rdt_chain_wait(), rdt_chain_next();                            \
    rdt_op_found f = {0, 0, 0, 0, 0, form_of(a)};                  \
    __VA_ARGS__                                                    \
    __syncwarp();                                                  \
    finish(a, f);                                                  \
  }
#define ROWS_0(name)                                                   \
  KERNEL(kernel, name, 1, {                                            \
    uint32_t e = block_of(a) * a.each * RDT_OP_THREADS + thread_of(f); \
    for (int i = 0; i < a.each; i++, e += RDT_OP_THREADS) {            \
      if (e >= a.count) break;                                         \
      int64_t at;                                                      \
      const uint64_t bits = rdt_op_##name(&a, e, &at, &f);             \
      rdt_op_take(&a, &f, e, at, bits);                                \
    }                                                                  \
  })
#define ROWS_1(name) KERNEL(kernel, name, 1, { rdt_op_##name(&a, block_of(a), threadIdx.x, RDT_OP_THREADS, &f); })
#define ROWS_2(name)                                                                   \
  KERNEL(warp, name, 1, {                                                              \
    const uint32_t t = thread_of(f), r = block_of(a) * (RDT_OP_THREADS / 32) + t / 32; \
    if (r < a.count) rdt_warp_row(a, r, (int)(t % 32), f).name(a, r, f);            \
  })
#define ROWS_3(name)                                                           \
  KERNEL(pack, name, 2, {                                                      \
    const uint32_t e = (block_of(a) * RDT_OP_THREADS + thread_of(f)) * a.each; \
    if (e < a.count && a.view[0].bytes == 2)                                   \
      rdt_pack_##name<8>(a, e, f);                                             \
    else if (e < a.count)                                                      \
      rdt_pack_##name<4>(a, e, f);                                             \
  })
enum { blocks_copy = 4, blocks_maxpool = 4, blocks_avgpool = 4, blocks_bytes = 2 }; /* of a multiprocessor, at least */
#define ROWS_4(name) KERNEL(tile, name, blocks_##name, { rdt_tile_##name(a, f); })
#define ROWS_5(name) /* halves.cu */
#define ROWS_6(name)                                                                   \
  KERNEL(rows, name, 1, {                                                              \
    const uint32_t t = thread_of(f), r = block_of(a) * (RDT_OP_THREADS / 32) + t / 32; \
    if (r < a.count) rdt_op_rows_##name(&a, r, (int)(t % 32), 32, &f);                 \
  })
#define X(id, name, rows) ROWS_##rows(name)
#include "cuda/ops/kinds.def"
#undef X

static __global__ void __launch_bounds__(RDT_OP_THREADS, 1) sums(const __grid_constant__ rdt_sums_args a) {
  const rdt_sum_part p = a.parts[blockIdx.x];
  uint64_t x[1] = {rdt_op_part(&p, (int)threadIdx.x, RDT_OP_THREADS)};
  block_sums(x);
  if (threadIdx.x != 0) return;
  add(p.sum, x[0]);
  add(a.visits, 1);
}

static __global__ void __launch_bounds__(RDT_OP_THREADS, 1) close(const __grid_constant__ rdt_close_args a) {
  const rdt_summary mine = rdt_op_count(&a, (int)threadIdx.x, RDT_OP_THREADS);
  rdt_summary s;
  rdt_op_tell(&a, (int)threadIdx.x, RDT_OP_THREADS);
  uint64_t x[4] = {mine.agree, mine.disagree, mine.clean, mine.complain};
  block_sums(x);
  s.agree = (uint32_t)x[0], s.disagree = (uint32_t)x[1], s.clean = (uint32_t)x[2], s.complain = (uint32_t)x[3];
  s.visits = *a.visits;
  if (threadIdx.x == 0) *a.summary = s;
}

static __global__ void __launch_bounds__(RDT_OP_THREADS, 1) clear(const __grid_constant__ rdt_clear_args a) {
  const int64_t i = (int64_t)blockIdx.x * RDT_OP_THREADS + threadIdx.x;
  if (i < a.count) a.words[i] = 0;
}

extern "C" const void *const rdt_ops_code[RDT_OP_CODES] = {
#define CODE_0(name) (const void *)kernel_##name,
#define CODE_1(name) (const void *)kernel_##name,
#define CODE_2(name) (const void *)warp_##name,
#define CODE_3(name) (const void *)pack_##name,
#define CODE_4(name) (const void *)tile_##name,
#define CODE_5(name) NULL, /* rdt_ops_half */
#define CODE_6(name) (const void *)rows_##name,
#define X(id, name, rows) CODE_##rows(name)
#include "cuda/ops/kinds.def"
#undef X
    (const void *)sums, (const void *)close, (const void *)clear, NULL /* rdt_ops_attention */};
