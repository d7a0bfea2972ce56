/* The same source once more, with faults: one code a scheme. */
#include "cuda/sm80/gemm_mma_rows.h"

struct rdt_hit {
  static constexpr bool on = true;
  rdt_mma_hit *h;
  bool mine;
  int step;

  __device__ void begin() {
    const int block[3] = {(int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z};
    mine = h->sm >= 0 ? (int)rdt_sm() == h->sm && threadIdx.x % 32 == 0
                      : block[0] == h->block[0] && block[1] == h->block[1] && block[2] == h->block[2] &&
                            (int)threadIdx.x == h->thread;
    step = 0;
  }

  __device__ float strike(float x) {
    const float y = __uint_as_float(__float_as_uint(x) ^ h->mask);
    h->before = x, h->after = y;
    atomicAdd(&h->done, 1u);
    return y;
  }

  template <int MT, int NT>
  __device__ void accumulators(float (&c)[MT][NT][4]) {
    if (mine && h->site == RDT_MMA_ACCUM && step == h->step) {
#pragma unroll
      for (int i = 0; i < MT * NT * 4; i++)
        if (i == h->fragment) c[i / (NT * 4)][i / 4 % NT][i % 4] = strike(c[i / (NT * 4)][i / 4 % NT][i % 4]);
    }
    step++;
  }

  __device__ void checksum(uint32_t &part) {
    if (!mine || h->site != RDT_MMA_CHECKSUM || step - 1 != h->step) return;
    part ^= h->mask;
    atomicAdd(&h->done, 1u);
  }

  __device__ void reduced(int row, int column, float4 &v) {
    if (h->site != RDT_MMA_REDUCED || row != h->element[0]) return;
    const int at = h->element[1] - column;
    if (at == 0) v.x = strike(v.x);
    if (at == 1) v.y = strike(v.y);
    if (at == 2) v.z = strike(v.z);
    if (at == 3) v.w = strike(v.w);
  }

  template <bool two>
  __device__ void bound(int i, int half, int odd, float tau) {
    const int r = h->fragment % 4, rows = h->fragment / (4 * columns());
    if (mine && r == 2 * half + odd && (two || i == rows)) h->bound = tau;
  }

  __device__ void bound_of_row(int row, float tau) {
    if (row == -1 || row == h->element[0]) h->bound = tau;
  }

  static __device__ constexpr int columns() { /* column fragments of the tile that these are made for */
    return rdt_tile_64x64::NT;
  }
};

template <class T, class Tile, int check>
__global__ void __launch_bounds__(Tile::threads, 1)
    gemm_mma_inject(const __grid_constant__ rdt_mma_args p, rdt_mma_hit *h) {
  rdt_gemm_mma<T, Tile, check, rdt_hit>(p, rdt_hit{h, false, 0});
}

#define ROW(type, tile, scheme)                                            \
  extern "C" const void *const rdt_mma_inject_##type##_##tile##_##scheme = \
      (const void *)gemm_mma_inject<rdt_type_##type, rdt_tile_##tile, rdt_check_##scheme>;

RDT_CUDA_INJECTING(ROW)
