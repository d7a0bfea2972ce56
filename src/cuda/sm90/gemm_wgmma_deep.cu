/* Products on wgmma of types whose operands have k side by side, by name: const void *const
 * rdt_wgmma_<type>_<tile>_<scheme>[4]. B with rows side by side has none; bias and the like have no code of their own.
 */
#include "cuda/sm90/gemm_wgmma_deep_body.h"
#include "cuda/sm90/gemm_wgmma_rows.h"

template <class T, class Tile, int check>
__global__ void __cluster_dims__(RDT_WGMMA_CLUSTER, 1, 1) __launch_bounds__(RDT_WGMMA_THREADS, 1)
    gemm_wgmma_deep(const __grid_constant__ rdt_wgmma_args g) {
  rdt_gemm_wgmma_deep<T, Tile, check>(g, rdt_no_hit());
}

#define DEEP(type, tile, scheme) (const void *)gemm_wgmma_deep<rdt_##type, rdt_wide_##tile, rdt_check_##scheme>
#define ROW(type, tile, scheme)                                                          \
  extern "C" const void *const rdt_wgmma_##type##_##tile##_##scheme[RDT_WGMMA_FORMS] = { \
      nullptr, DEEP(type, tile, scheme), nullptr, DEEP(type, tile, scheme)};

RDT_CUDA_DEEP(ROW)
