/* The end of fused_wgmma.h's kernels where bias and Relu are all that follows and nobody keeps bit-sums. It is short,
 * as a layer of a few microseconds waits for all of it. A warp has whole rows: it rounds them, puts them side by side
 * in 2 KB of its own, stores them, and compares them while they are on their way. Blocks that share k are a cluster:
 * each adds up some of the rows that all have left in shared memory, in order, stores and compares those. */
#ifndef RDT_CUDA_FUSED_WGMMA_ALONE_H
#define RDT_CUDA_FUSED_WGMMA_ALONE_H

#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/sm90/fused_wgmma_rows.h"

/* What the end takes. An argument costs a third of a microsecond where it is met first: one thread meets them while
 * operands are on their way (leave), and all threads have them, and where theirs lie, before they multiply (ask). */
template <class Tile>
struct rdt_wide_later {
  int m, n;
  uint32_t pitch, bound; /* pitch: bytes of a row of the result */
  uint32_t put, take;    /* where a warp's rows lie: as a thread writes them, and as it reads its 16 bytes of some */
  char *to;
  float clearly;
  bool instead;                  /* rows lie where the first stage did */
  uint32_t bias[Tile::part / 8]; /* of two columns each */

  template <class T>
  static __device__ __forceinline__ void leave(const rdt_fused_wide_args &g, uint32_t at, uint32_t out) {
    const rdt_fused_args &p = g.f;
    const uint64_t to = (uint64_t)(uintptr_t)p.out;
    rdt_store16_shared(at, make_uint4((uint32_t)to, (uint32_t)(to >> 32), (uint32_t)p.ldo * 2u, rdt_wide_bound<T>(p)));
    rdt_store16_shared(at + 16, make_uint4((uint32_t)p.m, (uint32_t)p.n, __float_as_uint(g.clearly), out));
  }
  static __device__ __forceinline__ uint32_t two(const rdt_fused_args &p, int column) { /* 0: there are none */
    uint32_t x = 0;
    if (p.bias && column < p.n)
      asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"((const uint16_t *)p.bias + column) : "memory");
    return x;
  }
  __device__ __forceinline__ void ask(const rdt_fused_args &p, uint32_t at, uint32_t stages) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32,
              column = (int)blockIdx.x * Tile::BN + Tile::part_of(warp) * Tile::part;
    uint32_t x[4], y[4];
    rdt_load_shared(x, at), rdt_load_shared(y, at + 16);
    pitch = x[2], bound = x[3], m = (int)y[0], n = (int)y[1], clearly = __uint_as_float(y[2]), instead = y[3] == stages;
    const uint32_t rows = y[3] + (uint32_t)(warp * Tile::part * 32), eighth = (uint32_t)lane % 8,
                   fourth = (uint32_t)lane / 8;
    put = rows + 128u * ((uint32_t)lane % 16) + 16u * (((uint32_t)lane / 16) ^ eighth);
    take = rows + 128u * fourth + 16u * (eighth ^ fourth);
    const int row0 = (int)blockIdx.y * Tile::BM;
    to = (char *)(uintptr_t)((uint64_t)x[1] << 32 | x[0]) + 2 * column;
    if (gridDim.z == 1) to += (int64_t)(row0 + Tile::row_of(warp) + (int)fourth) * pitch + 16 * eighth;
    asm volatile("" : "+r"(put), "+r"(take), "+l"(to));
#pragma unroll
    for (int j = 0; j < Tile::part / 8; j++) /* together: those of four neighbours */
      bias[j] =
          two(p, column + (gridDim.z == 1 ? 8 * j + 2 * (lane % 4) : 4 * (lane % (Tile::part / 4)) + 2 * (j % 2)));
  }
};

RDT_DEVICE void rdt_wide_store16(char *to, const uint32_t (&v)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}
RDT_DEVICE void rdt_wide_store8(char *to, uint32_t x, uint32_t y) {
  asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::"l"(to), "r"(x), "r"(y) : "memory");
}

/* Two neighbours, as they are stored; bias: of both. */
template <class T>
RDT_DEVICE uint32_t rdt_wide_two(float x, float y, uint32_t bias, uint32_t bound) {
  typedef typename rdt_fused_format<T>::type format;
  const float2 more = format::wide(bias);
  return rdt_fused_format<T>::above(format::narrow(rdt_add(x, more.x), rdt_add(y, more.y)), bound);
}

/* The thread's two rows, as they were multiplied, against the columns that check them. */
template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_wide_alone_rows(const rdt_fused_wide_args &g, float (&c)[Tile::wide / 2],
                                    const rdt_wide_later<Tile> &p, Hit hit) {
  constexpr int count = Tile::part / 8;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, t = lane % 4,
            tile = (int)blockIdx.x * Tile::parts + Tile::part_of(warp),
            row0 = (int)blockIdx.y * Tile::BM + Tile::row_of(warp);
  const int beyond = p.n - tile * Tile::part;
  if (beyond < Tile::part) { /* what is beyond is no number's sum where A has NaN */
#pragma unroll
    for (int j = 0; j < count; j++)
      if (8 * j >= beyond) c[4 * j] = c[4 * j + 1] = c[4 * j + 2] = c[4 * j + 3] = 0.0f;
  }
  float s[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}}, squares[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}}, c2[2], sum[2];
#pragma unroll
  for (int j = 0; j < 4 * count; j++) {
    float &to_sum = s[j % 4 / 2][j % 2], &to_squares = squares[j % 4 / 2][j % 2];
    to_sum = RDT_WIDE_SIGNS >> (j / 4 * 2 + j % 2) & 1u ? to_sum - c[j] : to_sum + c[j];
    to_squares = fmaf(c[j], c[j], to_squares);
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] = __uint_as_float(__float_as_uint(s[h][0] + s[h][1]) ^ rdt_wide_turned(tile, t));
    c2[h] = squares[h][0] + squares[h][1];
  }
  rdt_wide_rows_join<4>(sum, c2);
  rdt_wide_rows_done<T, Tile>(g, row0 + lane / 4, tile, sum, c2, *(float(*)[4])(c + 4 * count), p.clearly, hit);
}

template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_wide_alone(const rdt_fused_wide_args &g, float (&c)[Tile::wide / 2], const rdt_wide_later<Tile> &p,
                               Hit hit) {
  constexpr int count = Tile::part / 8;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int row0 = (int)blockIdx.y * Tile::BM + Tile::row_of(warp),
            column0 = (int)blockIdx.x * Tile::BN + Tile::part_of(warp) * Tile::part;
  if (p.instead) rdt_bar_sync(1, Tile::threads); /* nobody reads the stages any more */
#pragma unroll
  for (int j = 0; j < count; j += 2) { /* a row is 128 bytes, whose sixteens change places */
    const float *x = &c[4 * j];
    rdt_stmatrix4(p.put ^ 16u * (uint32_t)j, rdt_wide_two<T>(x[0], x[1], p.bias[j], p.bound),
                  rdt_wide_two<T>(x[2], x[3], p.bias[j], p.bound), rdt_wide_two<T>(x[4], x[5], p.bias[j + 1], p.bound),
                  rdt_wide_two<T>(x[6], x[7], p.bias[j + 1], p.bound));
  }
  __syncwarp();
  const int left = p.m - row0 - lane / 8;
  const bool across = column0 + 8 * (lane % 8) < p.n;
#pragma unroll
  for (int row = 0; row < 16; row += 4) {
    uint32_t v[4];
    rdt_load_shared(v, (p.take ^ 16u * (uint32_t)(row % 8)) + 128u * (uint32_t)row);
    if (row < left && across) rdt_wide_store16(p.to + row * (int)p.pitch, v);
  }
  if constexpr (Tile::check) rdt_wide_alone_rows<T, Tile>(g, c, p, hit);
}

/* Four neighbours' sums of so many blocks from the first on: asked for, and added up in order. */
template <int most>
RDT_DEVICE void rdt_wide_ask(float (&each)[most][4], uint32_t at, int first, int splits) {
#pragma unroll
  for (int s = 0; s < most; s++)
    if (first + s < splits) rdt_load_cluster(each[s], rdt_cluster_place(at, (uint32_t)(first + s)));
}
template <int most>
RDT_DEVICE void rdt_wide_add(float (&v)[4], const float (&each)[most][4], int first, int splits) {
#pragma unroll
  for (int s = 0; s < most; s++)
    if (first + s < splits)
#pragma unroll
      for (int i = 0; i < 4; i++) v[i] = rdt_add(v[i], each[s][i]);
}

/* sums: room for those of a tile. */
template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_wide_together(const rdt_fused_wide_args &g, const float (&c)[Tile::wide / 2],
                                  const rdt_wide_later<Tile> &p, uint32_t sums, Hit hit) {
  constexpr int pitch = Tile::wide, fours = Tile::part / 4, rows = Tile::of_part / fours; /* rows at once */
  static_assert(fours <= 32 && fours >= RDT_FUSED_WIDE_SPLITS, "a row is a warp's");
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, part = Tile::part_of(warp),
            r = Tile::row_of(warp) + lane / 4, q = lane % fours, rank = (int)rdt_cluster_rank(),
            tile = (int)blockIdx.x * Tile::parts + part, column = tile * Tile::part + 4 * q, splits = (int)gridDim.z;
  sums += (uint32_t)(part * Tile::BM * pitch) * 4u;
  rdt_bar_sync(1, Tile::threads); /* nobody reads the stages any more */
#pragma unroll
  for (int j = 0; j < Tile::wide / 4; j++)
    rdt_store8_shared(sums + 4u * (uint32_t)((r + j % 2 * 8) * pitch + j / 2 * 8 + 2 * (lane % 4)), c[2 * j],
                      c[2 * j + 1]);
  rdt_cluster_arrive();
  rdt_bar_sync(1, Tile::threads); /* the same for what is the block's own, as racecheck follows it */
  rdt_cluster_wait();
#pragma unroll 1
  for (int row = rank * rows + (int)threadIdx.x % Tile::of_part / fours; row < Tile::BM; row += splits * rows) {
    constexpr int most = RDT_FUSED_WIDE_ANYWHERE;
    float each[most][4], v[4] = {0.0f, 0.0f, 0.0f, 0.0f}, beside[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const uint32_t at = sums + 4u * (uint32_t)(row * pitch), mine = at + 16u * (uint32_t)q;
    rdt_wide_ask(each, mine, 0, splits);
    if (Tile::check && q < splits) rdt_load_cluster(beside, rdt_cluster_place(at + 16u * (uint32_t)fours, (uint32_t)q));
    rdt_wide_add(v, each, 0, splits);
    if (__builtin_expect(splits > most, 0)) {
      rdt_wide_ask(each, mine, most, splits);
      rdt_wide_add(v, each, most, splits);
    }
    const int m = (int)blockIdx.y * Tile::BM + row;
    if (m < p.m && column < p.n)
      rdt_wide_store8(p.to + (int64_t)m * p.pitch + 8 * q, rdt_wide_two<T>(v[0], v[1], p.bias[0], p.bound),
                      rdt_wide_two<T>(v[2], v[3], p.bias[1], p.bound));
    if constexpr (Tile::check) {
      float sum = 0.0f, c2 = 0.0f;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float x = column < p.n ? v[i] : 0.0f; /* what is beyond is no number's sum where A has NaN */
        sum = rdt_wide_minus(tile, 4 * q + i) ? sum - x : sum + x;
        c2 = fmaf(x, x, c2);
      }
#pragma unroll
      for (int d = 1; d < fours; d *= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
        c2 += __shfl_xor_sync(0xffffffffu, c2, d);
#pragma unroll
        for (int i = 0; i < 4; i++) beside[i] += __shfl_xor_sync(0xffffffffu, beside[i], d);
      }
      if constexpr (Hit::on) c2 = hit.squares(0, m, tile, c2);
      const float e = T::expected(beside), d = sum - e;
      bool bad = q == 0 && !(d * d <= p.clearly * c2 && c2 < __int_as_float(0x7f800000));
      if constexpr (Hit::on) bad |= q == 0 && hit.watches(m, tile);
      if (__builtin_expect(__any_sync(0xffffffffu, bad), 0)) {
        const int first = lane - q;
        bad = __shfl_sync(0xffffffffu, (int)bad, first) != 0;
        const float its = __shfl_sync(0xffffffffu, e, first);
        if (bad && q < 4) rdt_fused_doubt<T>(g, m, tile, Tile::part, sum, c2, its, hit);
        __syncwarp();
      }
    }
  }
  rdt_cluster_leave();
  rdt_cluster_wait(); /* nobody reads this block's sums any more */
}

#endif
