/* The same source once more, with faults. */
#include "cuda/ptx/strike.h"
#include "cuda/sm90/fused_wgmma_body.h"

struct rdt_hit {
  static constexpr bool on = true;
  rdt_mma_hit *h;
  int part; /* columns of one */

  __device__ float strike(float x) {
    const float y = __uint_as_float(__float_as_uint(x) ^ (uint32_t)h->mask);
    h->before = (double)x, h->after = (double)y;
    atomicAdd(&h->done, 1u);
    return y;
  }
  __device__ bool here() const {
    return (int)blockIdx.x == h->block[0] && (int)blockIdx.y == h->block[1] && (int)blockIdx.z == h->block[2];
  }

  template <int count>
  __device__ void accumulators(int round, float (&c)[count]) {
    const bool mine =
        h->sm >= 0 ? (int)rdt_sm() == h->sm && threadIdx.x % 32 == 0 : here() && (int)threadIdx.x == h->thread;
    if (h->site != RDT_MMA_ACCUM || round != h->step || !mine) return;
    const int at = h->fragment;
    if (at < 0 || at >= count) return;
    float before = 0.0f;
#pragma unroll
    for (int i = 0; i < count; i++) rdt_strike_if(c[i], before, i, at, h->mask);
    strike(before);
  }

  /* Four bytes, swizzled as TMA has left them; before any thread of the block multiplies. */
  __device__ void operand(int round, uint32_t a, uint32_t weights) {
    if (h->site != RDT_MMA_FRAGMENT || round != h->step || !here() || threadIdx.x != 0) return;
    const uint32_t row = (uint32_t)h->fragment / 128, byte = (uint32_t)h->fragment % 128;
    const uint32_t at =
        (h->columns == RDT_FUSED_HIT_A ? a : weights) + 128 * row + 16 * (byte / 16 ^ row % 8) + byte % 16 / 4 * 4;
    uint32_t x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
    h->before = (double)x, h->after = (double)(x ^ (uint32_t)h->mask);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(x ^ (uint32_t)h->mask) : "memory");
    atomicAdd(&h->done, 1u);
  }

  __device__ void taken(uint32_t row, int column, float (&v)[4]) {
    if (h->site != RDT_MMA_REDUCED || h->columns != RDT_FUSED_HIT_TAKEN || (int)row != h->element[0]) return;
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (h->element[1] - column == i) v[i] = strike(v[i]);
  }
  __device__ void taken_pairs(uint32_t row, int column, float (&v)[4]) { /* two neighbours, and those eight rows on */
    if (h->site != RDT_MMA_REDUCED || h->columns != RDT_FUSED_HIT_TAKEN) return;
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (h->element[0] - (int)row == i / 2 * 8 && h->element[1] - column == i % 2) v[i] = strike(v[i]);
  }
  __device__ void stored(uint32_t row, int column, uint4 &y) {
    const int at = h->element[1] - column;
    const bool mine = h->site == RDT_MMA_REDUCED && h->columns == RDT_FUSED_HIT_STORED && (int)row == h->element[0];
    if (!mine || at < 0 || at >= 8) return;
    const uint32_t flip = (uint32_t)h->mask << (16 * (at % 2));
    if (at / 2 == 0) y.x ^= flip;
    if (at / 2 == 1) y.y ^= flip;
    if (at / 2 == 2) y.z ^= flip;
    if (at / 2 == 3) y.w ^= flip;
    atomicAdd(&h->done, 1u);
  }

  __device__ void stored(uint32_t row, int column, uint2 &y) { /* four */
    uint4 four = {y.x, y.y, 0, 0};
    if (h->element[1] - column < 4) stored(row, column, four);
    y.x = four.x, y.y = four.y;
  }

  __device__ bool watches(int row, int tile) const {
    return row == h->element[0] && tile == h->element[1] / part;
  }
  __device__ float squares(int which, int row, int tile, float x) {
    if (h->site != RDT_MMA_BOUND || h->columns != which || !watches(row, tile)) return x;
    return threadIdx.x % 4 == 0 ? strike(x) : __uint_as_float(__float_as_uint(x) ^ (uint32_t)h->mask);
  }
  __device__ void bound_of(int row, int tile, float tau) {
    if (watches(row, tile) && threadIdx.x % 4 == 0) h->bound = (double)tau;
  }
};

template <class T, class Tile>
static __global__ void __launch_bounds__(Tile::all, Tile::blocks)
    fused_inject(const __grid_constant__ rdt_fused_wide_args g, rdt_mma_hit *h) {
  rdt_fused_wide<T, Tile, Tile::alone ? RDT_FUSED_WIDE_ALONE : RDT_FUSED_WIDE_BOUND>(g, rdt_hit{h, Tile::part});
}

#define CODE(alone, BM, BN, parts, ...) \
  (const void *)fused_inject<rdt_type_f16, rdt_fused_wide_tile<BM, BN, parts, __VA_ARGS__, true, alone && (BN) / (parts) == RDT_FUSED_WIDE_SHORT>>
#define X(name, ...) {CODE(false, __VA_ARGS__), CODE(true, __VA_ARGS__)},
extern "C" const void *const rdt_fused_wide_inject[][2] = {
#include "cuda/sm90/fused_wgmma.def"
};
