/* The same source once more, with faults: of f16, and what compares the last run. */
#include "cuda/sm90/gemm_wgmma_deep_body.h"
#include "cuda/sm90/gemm_wgmma_hit.h"

static __global__ void __launch_bounds__(32)
    settle_inject(const __grid_constant__ rdt_settle_args all, rdt_mma_hit *h) {
  rdt_wide_settle(all, rdt_hit{h});
}
template <bool integers>
static __global__ void __launch_bounds__(32)
    settle_deep_inject(const __grid_constant__ rdt_settle_args all, rdt_mma_hit *h) {
  rdt_deep_settle<integers>(all, rdt_hit{h});
}
extern "C" const void *const rdt_wgmma_settle_inject[3] = {
    (const void *)settle_inject, (const void *)settle_deep_inject<false>, (const void *)settle_deep_inject<true>};

RDT_CUDA_WIDE_HALF_INJECTING(RDT_WGMMA_INJECT)
