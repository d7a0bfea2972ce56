/* The same source once more, with faults: of bf16, and of types with k side by side. */
#include "cuda/sm90/gemm_wgmma_deep_body.h"
#include "cuda/sm90/gemm_wgmma_hit.h"

RDT_CUDA_WIDE_OTHER_INJECTING(RDT_WGMMA_INJECT)

template <class T, class Shape, int check>
__global__ void __cluster_dims__(RDT_WGMMA_CLUSTER, 1, 1) __launch_bounds__(RDT_WGMMA_THREADS, 1)
    gemm_wgmma_deep_inject(const __grid_constant__ rdt_wgmma_args g, rdt_mma_hit *h) {
  rdt_gemm_wgmma_deep<T, Shape, check>(g, rdt_hit{h});
}

#define DEEP(type, tile, scheme) (const void *)gemm_wgmma_deep_inject<rdt_##type, rdt_wide_##tile, rdt_check_##scheme>
#define ROW(type, tile, scheme)                                                                 \
  extern "C" const void *const rdt_wgmma_inject_##type##_##tile##_##scheme[RDT_WGMMA_FORMS] = { \
      nullptr, DEEP(type, tile, scheme), nullptr, DEEP(type, tile, scheme)};

RDT_CUDA_DEEP_INJECTING(ROW)
