/* What the last run has left to compare. Blocks of one warp, as many as the products have. */
#include "cuda/sm90/gemm_wgmma_types.h"

static __global__ void __launch_bounds__(32) settle(const __grid_constant__ rdt_mma_args p) {
  __shared__ __align__(16) unsigned char asked[rdt_wide_asked];
  rdt_no_hit none;
  if (__ldcg(p.tickets + 1 + gridDim.x))
    rdt_wide_compare(p, __ldcg(p.tickets + 1) + 1, blockIdx.x, gridDim.x, rdt_shared(asked), none);
}

template <bool integers>
static __global__ void __launch_bounds__(32) settle_deep(const __grid_constant__ rdt_mma_args p) {
  rdt_deep_settle<integers>(p, rdt_no_hit());
}

extern "C" const void *const rdt_wgmma_settle[3] = {(const void *)settle, (const void *)settle_deep<false>,
                                                    (const void *)settle_deep<true>};
