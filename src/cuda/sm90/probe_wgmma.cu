/* The same step on wgmma: row 0 of A, column 0 of B, in shared memory. */
#include "cuda/probe.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"

template <class T>
static __global__ void __launch_bounds__(128) probe(const __grid_constant__ rdt_probe_args p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ __align__(1024) uint16_t a[64 * 64], b[8 * 64]; /* rows of 128 bytes, of which 32 are read */
  const rdt_probe_case &x = p.cases[blockIdx.x];
  for (int i = threadIdx.x; i < 64 * 64; i += 128) a[i] = i < RDT_PROBE_K ? (uint16_t)T::narrow(x.a[i], 0.0f) : 0;
  for (int i = threadIdx.x; i < 8 * 64; i += 128) b[i] = i < RDT_PROBE_K ? (uint16_t)T::narrow(x.b[i], 0.0f) : 0;
  rdt_tma_fence();
  __syncthreads();
  float c[4] = {threadIdx.x == 0 ? x.c : 0.0f, 0.0f, 0.0f, 0.0f};
  rdt_wgmma_keep(c);
  rdt_wgmma_begin();
  rdt_wgmma<T, 8, 0, 0>::step(c, rdt_wgmma_place(rdt_shared(a), 16), rdt_wgmma_place(rdt_shared(b), 16), 1);
  rdt_wgmma_commit();
  rdt_wgmma_wait<0>();
  rdt_wgmma_keep(c);
  if (threadIdx.x == 0) p.results[blockIdx.x] = c[0];
#endif
}

extern "C" const void *const rdt_probe_wgmma[2] = {(const void *)probe<rdt_f16>, (const void *)probe<rdt_bf16>};
