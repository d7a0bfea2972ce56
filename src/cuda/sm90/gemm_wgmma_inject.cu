/* The same source once more, with faults: of f16, and what compares the last run. */
#include "cuda/sm90/gemm_wgmma_deep_body.h"
#include "cuda/sm90/gemm_wgmma_hit.h"

static __global__ void __launch_bounds__(32) settle_inject(const __grid_constant__ rdt_mma_args p, rdt_mma_hit *h) {
  __shared__ __align__(16) unsigned char asked[rdt_wide_asked];
  rdt_hit hit = {h};
  if (__ldcg(p.tickets + 1 + gridDim.x))
    rdt_wide_compare(p, __ldcg(p.tickets + 1) + 1, blockIdx.x, gridDim.x, rdt_shared(asked), hit);
}
template <bool integers>
static __global__ void __launch_bounds__(32)
    settle_deep_inject(const __grid_constant__ rdt_mma_args p, rdt_mma_hit *h) {
  rdt_deep_settle<integers>(p, rdt_hit{h});
}
extern "C" const void *const rdt_wgmma_settle_inject[3] = {
    (const void *)settle_inject, (const void *)settle_deep_inject<false>, (const void *)settle_deep_inject<true>};

RDT_CUDA_WIDE_HALF_INJECTING(RDT_WGMMA_INJECT)
