/* The products on wgmma once more, with faults: what injecting instantiations are of. */
#ifndef RDT_CUDA_GEMM_WGMMA_HIT_H
#define RDT_CUDA_GEMM_WGMMA_HIT_H

#include "cuda/ptx/strike.h"
#include "cuda/sm90/gemm_wgmma_rows.h"

struct rdt_hit {
  static constexpr bool on = true;
  rdt_mma_hit *h;

  __device__ float strike(float x) {
    const float y = __uint_as_float(__float_as_uint(x) ^ (uint32_t)h->mask);
    h->before = (double)x, h->after = (double)y;
    atomicAdd(&h->done, 1u);
    return y;
  }
  __device__ int strike(int x) {
    const int y = x ^ (int)h->mask;
    h->before = (double)x, h->after = (double)y;
    atomicAdd(&h->done, 1u);
    return y;
  }
  __device__ bool here(int m, int n) {
    return h->sm < 0 && n == h->block[0] && m == h->block[1];
  }

  /* round -1: after the last. first: of the numbers of this group that an element's place counts. */
  template <int MT, int count, class R>
  __device__ void accumulators(int m, int n, int round, R (&c)[MT][count], int first = 0) {
    const int fragment = h->fragment - first;
    const bool within = fragment >= 0 && fragment < MT * (count - 4);
    const bool mine = h->sm >= 0 ? (int)rdt_sm() == h->sm && threadIdx.x % 32 == 0
                                 : within && here(m, n) && (int)threadIdx.x % 128 == h->thread;
    if (mine && h->site == RDT_MMA_CHECKSUM && round == h->step) c[0][count - 4] = strike(c[0][count - 4]);
    if (!mine || (round < 0 ? h->site != RDT_MMA_REDUCED : h->site != RDT_MMA_ACCUM || round != h->step)) return;
    if (!within) return;
    R before = 0;
#pragma unroll
    for (int i = 0; i < MT * (count - 4); i++) /* not the sums of columns */
      rdt_strike_if(c[i / (count - 4)][i % (count - 4)], before, i, fragment, h->mask);
    strike(before);
  }

  /* Four bytes of A, where the tensor cores find them; two where columns lie side by side: the others are another
   * row's. By the group that has the row.
   */
  template <int a_mn>
  __device__ void operand(int m, int n, int round, uint32_t stage, int first = 0, int rows = 256) {
    if (h->site != RDT_MMA_FRAGMENT || !here(m, n) || round != h->step || threadIdx.x % 128 != 0) return;
    if (h->thread < first || h->thread >= first + rows) return;
    const uint32_t row = (uint32_t)h->thread, k = (uint32_t)h->columns, line = a_mn ? k / 2 : row,
                   byte = a_mn ? row % 64 * 2 : k;
    const uint32_t at =
        stage + (a_mn ? row / 64 * 8192 : 0) + 128 * line + 16 * (byte / 16 ^ line % 8) + byte % 16 / 4 * 4;
    const uint32_t half = (uint32_t)h->mask | (uint32_t)h->mask >> 16, mask = !a_mn     ? (uint32_t)h->mask
                                                                              : row % 2 ? half << 16
                                                                                        : half & 0xffff;
    uint32_t x;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
    h->before = (double)x, h->after = (double)(x ^ mask);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(x ^ mask) : "memory");
    atomicAdd(&h->done, 1u);
  }

  /* What is rounded and stored, behind its bit-sum: numbers of 16 rows by 64 columns. */
  __device__ __forceinline__ void rounded(const rdt_wgmma_args &g, int row, int column, int batch, float *c) {
    const int r = h->element[0] - batch * g.p.m - row, x0 = h->element[1] - column,
              at = x0 / 8 * 4 + r / 8 * 2 + x0 % 2;
    const bool mine = (int)threadIdx.x % 128 == h->thread && r >= 0 && r < 16 && row + r < g.p.m && x0 >= 0 && x0 < 64;
    if (h->site != RDT_WGMMA_ROUNDED || !mine) return;
    float before = 0.0f;
#pragma unroll
    for (int i = 0; i < 32; i++) rdt_strike_if(c[i], before, i, at, h->mask);
    strike(before);
  }

  /* A piece on its way from shared memory to C: the column where it is stored, none of C's where it is not. other:
   * where the piece before it lies. */
  __device__ __forceinline__ int piece(const rdt_wgmma_args &g, int row, int column, int batch, uint32_t at,
                                       uint32_t other) {
    const int size = g.p.c_type == RDT_MMA_F32 ? 4 : 2, width = 128 / size, r = h->element[0] - batch * g.p.m - row,
              c = h->element[1] - column;
    const bool mine = r >= 0 && r < 64 && row + r < g.p.m && c >= 0 && c < width && column < g.stored;
    if (h->site < RDT_WGMMA_PIECE || !mine) return column;
    if (h->site == RDT_WGMMA_PIECE) {
      const uint32_t byte = (uint32_t)(c * size),
                     word = at + 128 * (uint32_t)r + 16 * (byte / 16 ^ (uint32_t)r % 8) + byte % 16 / 4 * 4,
                     x = rdt_load4_shared(word), y = x ^ (uint32_t)h->mask << byte % 4 * 8;
      h->before = (double)x, h->after = (double)y;
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(word), "r"(y) : "memory");
      rdt_tma_fence();
    }
    atomicAdd(&h->done, 1u);
    const bool beside = column >= width || column + width < g.stored;
    const int to = !beside           ? column
                   : column >= width ? column - width
                                     : column + width,
              to_row = beside      ? row
                       : row >= 64 ? row - 64
                                   : row + 64;
    if (h->site == RDT_WGMMA_MOVED || h->site == RDT_WGMMA_TWICE) rdt_tma_store_of(&g.c, to, to_row, batch, at);
    if (h->site == RDT_WGMMA_STALE) { /* before it is given back */
      rdt_tma_store_of(&g.c, column, row, batch, other);
      rdt_tma_commit();
      rdt_tma_wait_read<0>();
    }
    return h->site == RDT_WGMMA_PIECE || h->site == RDT_WGMMA_TWICE ? column : g.stored;
  }

  __device__ bool looks(const rdt_place_of &at) const {
    const bool column = at.column < 0 || (h->element[1] >= at.column && h->element[1] < at.column + at.columns);
    return at.row < 0 || (h->element[0] >= at.row && h->element[0] < at.row + at.rows && column);
  }
  /* The squares that the bound is made of. */
  __device__ float squares(const rdt_place_of &at, float c2) {
    return h->site == RDT_MMA_BOUND && looks(at) ? strike(c2) : c2;
  }
  __device__ void bound_of_row(const rdt_place_of &at, double tau) {
    if (looks(at)) h->bound = tau;
  }
};

template <class T, class Shape, int a_mn, int b_mn, int check>
__global__ void __cluster_dims__(RDT_WGMMA_CLUSTER, 1, 1) __launch_bounds__(RDT_WGMMA_BLOCK(check, b_mn), 1)
    gemm_wgmma_inject(const __grid_constant__ rdt_wgmma_args g, rdt_mma_hit *h) {
  rdt_gemm_wgmma<T, Shape, a_mn, b_mn, check, true>(g, rdt_hit{h});
}

/* Of rows of kernels.def: B with rows side by side, and with columns. */
#define RDT_WGMMA_INJECT_OF(type, tile, scheme, b_mn)                   \
  (const void *)gemm_wgmma_inject<rdt_##type, rdt_wide_##tile, 0, b_mn, \
                                  RDT_WGMMA_CHECK(rdt_check_##scheme, rdt_wide_##tile::BN)>
#define RDT_WGMMA_INJECT(type, tile, scheme)                                                    \
  extern "C" const void *const rdt_wgmma_inject_##type##_##tile##_##scheme[RDT_WGMMA_FORMS] = { \
      RDT_WGMMA_INJECT_OF(type, tile, scheme, 1), RDT_WGMMA_INJECT_OF(type, tile, scheme, 0),   \
      RDT_WGMMA_INJECT_OF(type, tile, scheme, 1), RDT_WGMMA_INJECT_OF(type, tile, scheme, 0)};

#endif
