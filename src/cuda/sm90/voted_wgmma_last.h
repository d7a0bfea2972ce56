/* The last vote of tmr-split, on what its copies have stored. An element of which all three differ is computed once
 * more, from what was voted on before the last share of k, or from the start (voted_wgmma_split.h): a copy on another
 * multiprocessor that has the same, a finite number, is right. */
#ifndef RDT_CUDA_VOTED_WGMMA_LAST_H
#define RDT_CUDA_VOTED_WGMMA_LAST_H

#include "cuda/sm90/voted_wgmma_split.h"

/* Of a block, in its shared memory. What comes when it is full stays undecided. */
struct rdt_voted_doubts {
  static constexpr int most = 64;
  int *number;
  int64_t *list;

  __device__ __forceinline__ bool take(int64_t e) const {
    const int i = atomicAdd(number, 1);
    if (i < most) list[i] = e;
    return i < most;
  }
};

/* Of C's element the tile's number, by a warp. */
template <class Shape>
RDT_DEVICE int rdt_voted_tile_of(const rdt_wgmma_args &g, int row, int column) {
  int found = 0;
  for (int tile = (int)threadIdx.x % 32; tile < g.tiles; tile += 32) {
    const rdt_tile_place at = rdt_voted_tile<Shape>(g, tile);
    if (at.m == row / Shape::BM && at.n == column / Shape::BN) found = tile;
  }
  return __reduce_max_sync(0xffffffffu, found);
}

/* By a warp. v.vote: behind all shares. Apart: the pass has few registers, and many threads. */
template <class T, class Shape, int b_mn, class Hit>
static __device__ __noinline__ void rdt_voted_doubt(const rdt_vote_args &p, const rdt_voted_args &v, int64_t e,
                                                    Hit hit) {
  const int lane = (int)threadIdx.x % 32, row = (int)(e / p.columns), column = (int)(e % p.columns),
            row0 = row / 16 * 16, column0 = column / Shape::BN * Shape::BN,
            tile = rdt_voted_tile_of<Shape>(v.w, row, column);
  float c[RDT_VOTED_HELD], x = 0.0f;
  rdt_voted_share_again<T, Shape, b_mn>(v, tile * RDT_VOTED_WARPS + row % Shape::BM / 16, row0, column0, c, hit);
  rdt_voted_finish<Shape>(v.w, c, row0 + lane / 4, column0 + 2 * (lane % 4));
#pragma unroll
  for (int i = 0; i < RDT_VOTED_HELD; i++)
    if (i == (column - column0) / 8 * 4 + row % 16 / 8 * 2 + column % 2) x = c[i];
  x = __shfl_sync(0xffffffffu, x, row % 8 * 4 + column % 8 / 2);
  if (lane) return;
  const uint64_t bits = p.size == 4 ? __float_as_uint(x) : T::narrow(x, x) & 0xffffu;
  const float stored = p.size == 4 ? x : T::wide((uint32_t)bits).x;
  const uint32_t *const sms = rdt_voted_sms(v, v.vote - 1) + tile * RDT_VOTERS;
  const int64_t at = p.rows == 1 ? e * p.size : row * p.pitch + (int64_t)column * p.size;
  int same = -1;
  for (int i = 0; i < RDT_VOTERS && fabsf(stored) < rdt_infinite(x); i++) /* what was hit twice is often infinite */
    if (element((const char *)p.copy[i] + at, p.size) == bits && __ldcg(sms + i) != rdt_sm()) same = i;
  if (same >= 0) put((char *)p.copy[0] + at, p.size, bits);
  tell(p, e, same < 0 ? (int)RDT_CUDA_CERTAIN : (int)RDT_CUDA_AGAIN, -1, 1);
}

template <class T, int b_mn, class Hit>
RDT_DEVICE void rdt_voted_last(const rdt_vote_args &p, const rdt_voted_args &v, Hit hit) {
  __shared__ int number;
  __shared__ int64_t list[rdt_voted_doubts::most];
  if (threadIdx.x == 0) number = 0;
  __syncthreads();
  rdt_vote_all<2 * RDT_VOTE_AT_ONCE>(p, rdt_vote_unhit(), rdt_voted_doubts{&number, list}); /* it has the registers */
  __syncthreads();
#pragma unroll 1
  for (int i = (int)threadIdx.x / 32; i < min(number, rdt_voted_doubts::most); i += RDT_VOTE_THREADS / 32)
    rdt_voted_doubt<T, rdt_voted_shape<RDT_VOTED_SPLIT>, b_mn>(p, v, list[i], hit);
}

#endif
