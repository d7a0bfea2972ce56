/* What the last runs of some products have left to compare. Blocks of one warp, as many as a product has. */
#include "cuda/sm90/gemm_wgmma_types.h"

static __global__ void __launch_bounds__(32) settle(const __grid_constant__ rdt_settle_args all) {
  rdt_wide_settle(all, rdt_no_hit());
}

template <bool integers>
static __global__ void __launch_bounds__(32) settle_deep(const __grid_constant__ rdt_settle_args all) {
  rdt_deep_settle<integers>(all, rdt_no_hit());
}

extern "C" const void *const rdt_wgmma_settle[3] = {(const void *)settle, (const void *)settle_deep<false>,
                                                    (const void *)settle_deep<true>};
