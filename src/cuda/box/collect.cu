/* The kernel that adds up what blocks of fused kernels have left. It is by itself, and small: blocks of a check that
 * takes more registers would keep those of the next product waiting. */
#include "cuda/box/collect.h"
#include "cuda/ptx/total.h"

static __global__ void __launch_bounds__(RDT_BOX_THREADS) collect(const __grid_constant__ rdt_collect_args a) {
  __shared__ uint64_t part[3][RDT_BOX_THREADS / 32];
  unsigned task = 0;
  while (task + 1 < a.n && blockIdx.x >= a.first[task + 1]) task++;
  const rdt_box_tiles &t = a.task[task];
  const unsigned i = (blockIdx.x - a.first[task]) * RDT_BOX_THREADS + threadIdx.x;
  uint64_t *const list[3] = {t.list, t.read_to ? t.read : NULL, t.loaded_to ? t.loaded : NULL};
  uint64_t *const to[3] = {t.to.sum, t.read_to, t.loaded_to};
  uint64_t x[3] = {0, 0, 0};
  if (i < t.count)
#pragma unroll
    for (int k = 0; k < 3; k++)
      if (list[k]) x[k] = list[k][i];
#pragma unroll
  for (int k = 0; k < 3; k++) {
    if (!list[k]) continue;
    if (i < t.count) list[k][i] = 0; /* one that leaves nothing next time is missed */
    const uint64_t sum = rdt_warp_total(x[k]);
    if (threadIdx.x % 32 == 0) part[k][threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x % 32 != 0 || threadIdx.x >= 96 || !list[threadIdx.x / 32]) return;
  uint64_t sum = 0;
#pragma unroll
  for (int w = 0; w < RDT_BOX_THREADS / 32; w++) sum += part[threadIdx.x / 32][w];
  atomicAdd((unsigned long long *)to[threadIdx.x / 32], (unsigned long long)sum);
  if (threadIdx.x == 0) atomicAdd((unsigned long long *)t.to.visits, 1ull);
}

extern "C" const void *const rdt_collect_kernel = (const void *)collect;
