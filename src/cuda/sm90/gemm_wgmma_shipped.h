/* The kernels of one type, by name: const void *const rdt_wgmma_<type>_<tile>_<scheme>[RDT_WGMMA_FORMS]. */
#include "cuda/sm90/gemm_wgmma_rows.h"

template <class T, class Shape, int a_mn, int b_mn, int check, bool extra>
__global__ void __cluster_dims__(RDT_WGMMA_CLUSTER, 1, 1) __launch_bounds__(RDT_WGMMA_BLOCK(check, b_mn), 1)
    gemm_wgmma(const __grid_constant__ rdt_wgmma_args g) {
  rdt_gemm_wgmma<T, Shape, a_mn, b_mn, check, extra>(g, rdt_no_hit());
}

/* With what follows the product: one kernel however operands lie, where nothing is checked (sums of columns lie as B
 * does); else one for both layouts of A. */
constexpr int rdt_wide_either(int check, int b_mn) {
  return check == RDT_MMA_NONE ? RDT_WGMMA_EITHER : b_mn;
}

#define CHECK(tile, scheme) RDT_WGMMA_CHECK(rdt_check_##scheme, rdt_wide_##tile::BN)
#define OF(type, tile, scheme, a_mn, b_mn) \
  (const void *)gemm_wgmma<rdt_##type, rdt_wide_##tile, a_mn, b_mn, CHECK(tile, scheme), false>
#define MORE(type, tile, scheme, a_mn, b_mn)                                                              \
  (const void *)gemm_wgmma<rdt_##type, rdt_wide_##tile, a_mn, rdt_wide_either(CHECK(tile, scheme), b_mn), \
                           CHECK(tile, scheme), true>
#define ROW(type, tile, scheme)                                                                   \
  extern "C" const void *const rdt_wgmma_##type##_##tile##_##scheme[RDT_WGMMA_FORMS] = {          \
      OF(type, tile, scheme, 0, 1), OF(type, tile, scheme, 0, 0), MORE(type, tile, scheme, 0, 1), \
      MORE(type, tile, scheme, 0, 0)};
/* And A with its columns side by side. */
#define ROW_BOTH(type, tile, scheme)                                                     \
  extern "C" const void *const rdt_wgmma_##type##_##tile##_##scheme[RDT_WGMMA_FORMS] = { \
      OF(type, tile, scheme, 0, 1),                                                      \
      OF(type, tile, scheme, 0, 0),                                                      \
      MORE(type, tile, scheme, RDT_WGMMA_EITHER, 1),                                     \
      MORE(type, tile, scheme, RDT_WGMMA_EITHER, 0),                                     \
      OF(type, tile, scheme, 1, 1),                                                      \
      OF(type, tile, scheme, 1, 0),                                                      \
      MORE(type, tile, scheme, RDT_WGMMA_EITHER, 1),                                     \
      MORE(type, tile, scheme, RDT_WGMMA_EITHER, 0)};
