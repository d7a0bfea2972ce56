/* The kernels of one type, by name: const void *const rdt_wgmma_<type>_<tile>_<scheme>[RDT_WGMMA_FORMS]. */
#include "cuda/sm90/gemm_wgmma_rows.h"

template <class T, class Shape, int a_mn, int b_mn, int check, bool extra>
__global__ void __cluster_dims__(RDT_WGMMA_CLUSTER, 1, 1) __launch_bounds__(RDT_WGMMA_THREADS, 1)
    gemm_wgmma(const __grid_constant__ rdt_wgmma_args g) {
  rdt_gemm_wgmma<T, Shape, a_mn, b_mn, check, extra>(g, rdt_no_hit());
}

#define OF(type, tile, scheme, a_mn, b_mn, extra)                   \
  (const void *)gemm_wgmma<rdt_##type, rdt_wide_##tile, a_mn, b_mn, \
                           RDT_WGMMA_CHECK(rdt_check_##scheme, rdt_wide_##tile::BN), extra>
#define ROW(type, tile, scheme)                                                                                     \
  extern "C" const void *const rdt_wgmma_##type##_##tile##_##scheme[RDT_WGMMA_FORMS] = {                            \
      OF(type, tile, scheme, 0, 1, false), OF(type, tile, scheme, 0, 0, false), OF(type, tile, scheme, 0, 1, true), \
      OF(type, tile, scheme, 0, 0, true)};
/* And A with its columns side by side. */
#define ROW_BOTH(type, tile, scheme)                                                                                 \
  extern "C" const void *const rdt_wgmma_##type##_##tile##_##scheme[RDT_WGMMA_FORMS] = {                             \
      OF(type, tile, scheme, 0, 1, false), OF(type, tile, scheme, 0, 0, false), OF(type, tile, scheme, 0, 1, true),  \
      OF(type, tile, scheme, 0, 0, true),  OF(type, tile, scheme, 1, 1, false), OF(type, tile, scheme, 1, 0, false), \
      OF(type, tile, scheme, 1, 1, true),  OF(type, tile, scheme, 1, 0, true)};
