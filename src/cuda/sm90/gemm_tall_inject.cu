/* The same source once more, with faults. */
#include "cuda/sm90/gemm_tall_rows.h"
#include "cuda/sm90/gemm_wgmma_hit.h"

template <class T, class Tile, bool checked>
__global__ void __launch_bounds__(Tile::threads, 1)
    gemm_tall_inject(const __grid_constant__ rdt_tall_args g, rdt_mma_hit *h) {
  rdt_gemm_tall<T, Tile, checked>(g, rdt_hit{h});
}

#define X(type, tile, scheme)                                               \
  extern "C" const void *const rdt_tall_inject_##type##_##tile##_##scheme = \
      (const void *)gemm_tall_inject<rdt_##type, rdt_tile_##tile, rdt_checked_##scheme>;
RDT_CUDA_TALL_INJECTING(X)
#undef X
