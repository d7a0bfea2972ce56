/* The kernels of one type, by name: const void *const rdt_wgmma_<type>_<tile>_<scheme>[2]. */
#include "cuda/sm90/gemm_wgmma_rows.h"

template <class T, class Shape, int b_mn, int check>
__global__ void __cluster_dims__(RDT_WGMMA_CLUSTER, 1, 1) __launch_bounds__(RDT_WGMMA_THREADS, 1)
    gemm_wgmma(const __grid_constant__ rdt_wgmma_args g) {
  rdt_gemm_wgmma<T, Shape, b_mn, check>(g, rdt_no_hit());
}

#define ROW(type, tile, scheme)                                                     \
  extern "C" const void *const rdt_wgmma_##type##_##tile##_##scheme[2] = {          \
      (const void *)gemm_wgmma<rdt_##type, rdt_wide_##tile, 1, rdt_check_##scheme>, \
      (const void *)gemm_wgmma<rdt_##type, rdt_wide_##tile, 0, rdt_check_##scheme>};
