/* The kernels of one type, by name: const void *const rdt_mma_<type>_<tile>_<scheme>. */
#include "cuda/sm80/gemm_mma_rows.h"

template <class T, class Tile, int check>
__global__ void __launch_bounds__(Tile::threads, (rdt_launch<T, Tile, check>::blocks))
    gemm_mma(const __grid_constant__ rdt_mma_args p) {
  rdt_gemm_mma<T, Tile, check, rdt_no_hit>(p, rdt_no_hit());
}

#define ROW(type, tile, scheme)                                     \
  extern "C" const void *const rdt_mma_##type##_##tile##_##scheme = \
      (const void *)gemm_mma<rdt_type_##type, rdt_tile_##tile<rdt_type_##type>, rdt_check_##scheme>;
