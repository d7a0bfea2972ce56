/* Products of many rows by few columns on wgmma, by name: const void *const rdt_tall_<type>_<tile>_<scheme>; and what
 * brings B into the order of their shared memory. */
#include "cuda/sm90/gemm_tall_rows.h"

template <class T, class Tile, bool checked>
__global__ void __launch_bounds__(Tile::threads, Tile::least) gemm_tall(const __grid_constant__ rdt_tall_args g) {
  rdt_gemm_tall<T, Tile, checked>(g, rdt_no_hit());
}

#define X(type, tile, scheme)                                        \
  extern "C" const void *const rdt_tall_##type##_##tile##_##scheme = \
      (const void *)gemm_tall<rdt_##type, rdt_tile_##tile, rdt_checked_##scheme>;
RDT_CUDA_TALL(X)
#undef X

/* What follows may begin while this ends, and reads the image at once. */
static __global__ void __launch_bounds__(256) tall_pack(const __grid_constant__ rdt_tall_pack_args p) {
  const int rows = rdt_tall_rows(p.columns, p.sums != nullptr), whole = (int)gridDim.x * RDT_TALL_K;
  for (int i = (int)threadIdx.x; i < rows * RDT_TALL_K; i += 256) {
    const int row = i / RDT_TALL_K, k = (int)blockIdx.x * RDT_TALL_K + i % RDT_TALL_K, sum = row - p.columns;
    const bool there = k < p.k && (sum >= 0 || row < p.n);
    const uint16_t *from = sum >= 0 ? p.sums + (int64_t)sum * whole + k : p.b + k * p.row + row * p.column;
    p.image[rdt_tall_place(rows, row, k)] = there ? *from : (uint16_t)0;
  }
  __threadfence();
}
static __global__ void __launch_bounds__(256) tall_spread(const __grid_constant__ rdt_tall_spread_args p) {
  const int row = (int)blockIdx.x, copy = row / p.k, n = p.fold * p.n;
  for (int j = (int)threadIdx.x; j < n; j += 256)
    p.to[row * n + j] = j / p.n == copy ? p.b[row % p.k * p.row + j % p.n * p.column] : (uint16_t)0;
}
extern "C" const void *const rdt_tall_spread = (const void *)tall_spread;
extern "C" const void *const rdt_tall_pack = (const void *)tall_pack;
