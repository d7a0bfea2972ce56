/* The same source once more, with faults. */
#include "cuda/ptx/strike.h"
#include "cuda/sm90/mlp_hit.h"
#include "cuda/sm90/mlp_wgmma_body.h"

/* Inlined: registers that wgmma adds to are nowhere else meanwhile. */
struct rdt_hit : rdt_mlp_strikes {
  __device__ __forceinline__ bool mine(int site, int layer, int tile) const {
    return here(site, layer) && tile == h->column && (int)threadIdx.x % 128 == h->thread;
  }
  template <int N>
  __device__ __forceinline__ void one(uint32_t (&word)[N]) const {
    int before = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
      int x = (int)word[i];
      rdt_strike_if(x, before, i, h->place, h->mask);
      word[i] = (uint32_t)x;
    }
    strike((uint32_t)before);
  }

  /* What wgmma reads is written before it does. */
  __device__ void weight(int layer, int tile, int chunk, uint32_t piece) const {
    if (!here(RDT_MLP_WEIGHT, layer) || tile != h->column || chunk != h->row) return;
    if (threadIdx.x % 128 == 0) word(piece + 4u * (uint32_t)h->place);
    rdt_tma_fence();
    rdt_bar_sync(2 + (int)threadIdx.x / 128, 128);
  }
  __device__ void inputs(int layer, uint32_t in, int chunk) const {
    if (!here(RDT_MLP_INPUT, layer)) return;
    const int four = h->place / 4, row = h->row;
    if (threadIdx.x == 0)
      word(in + (uint32_t)(four / 8 * chunk + 128 * row + 16 * (four % 8 ^ row % 8) + 4 * (h->place % 4)));
    rdt_tma_fence();
    rdt_bar_sync(1, RDT_MLPW_THREADS);
  }

  template <int N>
  __device__ __forceinline__ void sums(int layer, int tile, float (&c)[N]) const {
    float before = 0.0f;
    if (!mine(RDT_MLP_ACCUM, layer, tile)) return;
#pragma unroll
    for (int i = 0; i < N; i++) rdt_strike_if(c[i], before, i, h->place, h->mask);
    strike(before);
  }
  template <int N>
  __device__ __forceinline__ void taken(int layer, int tile, uint32_t (&word)[N]) const {
    if (mine(RDT_MLP_TAKEN, layer, tile)) one(word);
  }
  template <int N>
  __device__ __forceinline__ void stored(int layer, int tile, uint32_t (&word)[N]) const {
    if (mine(RDT_MLP_STORED, layer, tile)) one(word);
  }
  __device__ void says(int tile, uint64_t &sum) const { /* tile: of all layers */
    if (here(RDT_MLP_CHECKSUM, h->layer) && tile == h->column && (int)threadIdx.x % 128 == h->thread / 32 * 32)
      sum = (sum >> 32 << 32) | strike((uint32_t)sum);
  }
};

template <int R>
static __global__ void __launch_bounds__(RDT_MLPW_THREADS + RDT_MLPW_MORE, 1)
    mlp_wgmma_inject(const __grid_constant__ rdt_mlpw_args p, rdt_mlp_hit *h) {
  rdt_mlpw<rdt_type_f16, R, true>(p, rdt_hit{{h}});
}
extern "C" const void *const rdt_mlpw_inject[RDT_MLPW_SIZES] = {(const void *)mlp_wgmma_inject<32>,
                                                                (const void *)mlp_wgmma_inject<64>};
