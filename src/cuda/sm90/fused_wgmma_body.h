/* See fused_wgmma.h. A block has one tile of the result, 64 rows each four warps. TMA gathers a tile's pixels for 64
 * channels of one tap at a time, which one thread asks for as stages become free, and what is added to the tile. Then
 * sums stand in registers, and, for other threads, in shared memory. From there those store; the threads that
 * multiplied compare the signed sum of each row with what the columns beside it say, which came the same way, and
 * evaluate what follows once more. */
#ifndef RDT_CUDA_FUSED_WGMMA_BODY_H
#define RDT_CUDA_FUSED_WGMMA_BODY_H

#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/total.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/sm90/fused_wgmma_alone.h"

/* alone: bias and Relu are all that follows, and nobody keeps bit-sums; see fused_wgmma_alone.h. */
template <int BM_, int BN_, int parts_, int blocks_, int checked_blocks, int storers_, bool check_, bool alone_ = false>
struct rdt_fused_wide_tile {
  static constexpr int BM = BM_, BN = BN_, parts = parts_, blocks = check_ ? checked_blocks : blocks_, BK = 64;
  static constexpr bool check = check_, alone = alone_;
  static constexpr int part = BN / parts;                               /* columns of four warps, and beside them */
  static constexpr int wide = part + (check ? RDT_FUSED_WIDE_MORE : 0); /* those of an instruction */
  static constexpr int high = BM / 64, groups = high * parts, threads = 128 * groups; /* of those that multiply */
  static constexpr int of_part = 128 * high;                                          /* of those, a part's */
  static constexpr int storers =
      check && !alone ? storers_ : 0; /* threads that store while the others check; 0: the same */
  /* Beside those that multiply, the first of them loads; else one of the others does: registers are scarce. */
  static constexpr int beside = storers ? storers : groups == 1 || alone ? 32 : 0, all = threads + beside;
  static constexpr int piece = 64 * BK * 2, a_bytes = high * piece, b_piece = wide * BK * 2, b_bytes = parts * b_piece,
                       stage_bytes = a_bytes + b_bytes;
  static constexpr int pitch = BN + 8; /* of a row of sums: rows start in other banks */
  /* Where blocks share k: a row of what each has, with the columns beside; rows start in other banks too. */
  static constexpr int across = wide * parts, joint = across % 16 == 8 ? across : across + 8;
  static constexpr int rows_bytes = BM * (pitch > joint ? pitch : joint) * 4;
  static constexpr bool twice = storers > 0 && parts == 1;         /* whose end is fused_wgmma_twice.h */
  static constexpr int out_at = (rows_bytes + 1023) / 1024 * 1024; /* there: what is to be stored */
  static constexpr int loaded_at = out_at + BM * BN * 2;           /* there: what a thread has summed of A */
  static constexpr int sums_bytes = twice ? loaded_at + threads * 16 : rows_bytes + 2 * BN * 4; /* with bias, twice */
  static constexpr int left = twice ? storers / 32 : 1; /* bit-sums of a kind that a block leaves */
  static_assert(b_piece % 1024 == 0 && stage_bytes % 1024 == 0, "operands are swizzled by their addresses");
  static_assert(alone || threads >= 2 * BN, "a bias is loaded by two threads");
  static_assert(!alone || part == 64, "a warp has rows of 128 bytes");

  /* Of a warp that multiplies: the first of its rows, and its part of the columns. */
  static __device__ __forceinline__ int row_of(int warp) {
    return 16 * (parts == 1 ? warp : warp % (4 * high));
  }
  static __device__ __forceinline__ int part_of(int warp) {
    return parts == 1 ? 0 : warp / (4 * high);
  }
};

/* ---- what was loaded ---- */

/* The bit-sum of A, which tensor cores form of the stages: their bytes times a matrix that has a one or a word's number
 * for each, so that sums and sums times places of each of a word's bytes stand in the columns. Of the chunks of a tap
 * that meets every pixel once each column of tiles has some, with a matrix for each of these. */
template <class Tile>
struct rdt_wide_loaded {
  int first, last; /* rounds; first: may be before this block's */
  int d[4];

  static __device__ __forceinline__ void tables(uint32_t at, int count) { /* each of eight rows of 128 bytes */
    for (uint32_t i = threadIdx.x; i < 256u * (uint32_t)count; i += Tile::threads) {
      const uint32_t row = i / 32 % 8, word = i % 32, number = i / 256 * 32 + word;
      const uint32_t to = i / 256 * 1024 + 128 * row + 16 * (word / 4 ^ row) + 4 * (word % 4);
      asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + to), "r"((row % 2 ? number : 1u) << (8 * (row / 2)))
                   : "memory");
    }
    rdt_tma_fence();
  }
  __device__ __forceinline__ rdt_wide_loaded(const rdt_fused_wide_args &g, int k0, int rounds, bool mine) {
    const int chunks = (g.f.channels + Tile::BK - 1) / Tile::BK, begin = g.whole * chunks - k0 / Tile::BK;
    first = begin + (int)blockIdx.x * g.share;
    last = g.loaded && mine ? min(rounds, min(begin + chunks, first + g.share)) : 0;
#pragma unroll
    for (int i = 0; i < 4; i++) d[i] = 0;
  }
  __device__ __forceinline__ bool at(int round) const {
    return round >= first && round < last;
  }
  __device__ __forceinline__ void sum(int round, int k, uint32_t a, uint32_t tables) { /* k: of four */
    const uint32_t table = tables + 1024u * (uint32_t)(round - first);
    rdt_wgmma_bytes(d, rdt_wgmma_place(a + 32 * k, 16), rdt_wgmma_place(table + 32 * k, 16),
                    k ? 1 : round > max(first, 0));
  }
  __device__ __forceinline__ void keep() {
#pragma unroll
    for (int i = 0; i < 4; i++) asm volatile("" : "+r"(d[i])::"memory");
  }
  __device__ __forceinline__ void leave(uint32_t at) const { /* of all threads: for others */
    rdt_store16_shared(at + 16 * threadIdx.x,
                       make_uint4((uint32_t)d[0], (uint32_t)d[1], (uint32_t)d[2], (uint32_t)d[3]));
  }
  __device__ __forceinline__ uint64_t bits(const rdt_fused_wide_args &g, int row) const {
    return bits(g, d, row);
  }
  /* Of one byte of words; row: the first of the thread's two. */
  static __device__ __forceinline__ uint64_t bits(const rdt_fused_wide_args &g, const int (&d)[4], int row) {
    const uint32_t pixel = (uint32_t)(g.f.pixel / 2);
    const uint32_t number = (uint32_t)row * pixel + 32u * (uint32_t)((int)blockIdx.x * g.share);
    const uint64_t placed =
        (uint64_t)(uint32_t)d[0] * number + (uint64_t)(uint32_t)d[2] * (number + 8u * pixel) + (uint32_t)(d[1] + d[3]);
    return ((uint32_t)(d[0] + d[2]) + placed * 0x3c6ef37200000002u) << (8 * (threadIdx.x % 4));
  }
};

/* What so many threads from the first on have summed, each list by itself; bar: a barrier of theirs. */
template <int bar, int first, int threads, int count>
RDT_DEVICE void rdt_wide_leave(uint64_t (&x)[count], uint64_t *const (&to)[count]) {
  constexpr int warps = threads / 32;
  const int me = (int)threadIdx.x - first;
  __shared__ uint64_t totals[count][warps];
#pragma unroll
  for (int i = 0; i < count; i++)
    if (to[i]) x[i] = rdt_warp_total(x[i]);
  if (me % 32 == 0)
#pragma unroll
    for (int i = 0; i < count; i++) totals[i][me / 32] = x[i];
  rdt_bar_sync(bar, threads);
#pragma unroll
  for (int i = 0; i < count; i++) {
    if (me != 32 * i || !to[i]) continue;
    uint64_t all = 0;
#pragma unroll
    for (int w = 0; w < warps; w++) all += totals[i][w];
    *to[i] = all;
  }
}

/* ---- what follows ---- */

RDT_DEVICE float2 rdt_load_two_shared(uint32_t at) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at) : "memory");
  return x;
}

/* What is added, as TMA left it. Code for any activation is long: there is none without such words, which are twice -0
 * where nothing is added, and change nothing. */
constexpr uint32_t rdt_wide_nothing = 0x80008000u;
template <int ends>
constexpr bool rdt_wide_adds = ends == RDT_FUSED_WIDE_ANY;
template <int ends>
RDT_DEVICE bool rdt_wide_added(const rdt_fused_args &p) {
  return !rdt_wide_adds<ends> || p.residual != NULL;
}

/* Four results, as they are stored two and two; bias: as floats; bound: what none is below, twice. */
template <class T, int ends, bool more>
RDT_DEVICE uint2 rdt_wide_finish(const rdt_fused_args &p, uint32_t bound, const float (&v)[4], const float (&bias)[4],
                                 uint2 residual) {
  typedef typename rdt_fused_format<T>::type format;
  constexpr bool any = ends == RDT_FUSED_WIDE_ANY;
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; i++) x[i] = any && p.alpha != 1.0f ? rdt_mul(p.alpha, v[i]) : v[i];
#pragma unroll
  for (int i = 0; i < 4; i++) x[i] = rdt_add(x[i], bias[i]); /* 0 where there is none */
  if (more) {
    const float2 low = format::wide(residual.x), high = format::wide(residual.y);
    const float added[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = rdt_add(x[i], any && p.beta != 1.0f ? rdt_mul(p.beta, added[i]) : added[i]);
  }
  if (ends == RDT_FUSED_WIDE_GELU)
    rdt_curves<rdt_box_GELU, true, 4>(p.finish, x);
  else if (any && bound)
    rdt_box_act<true, 4, float, true>(p.finish, x);
  uint2 y = {format::narrow(x[0], x[1]), format::narrow(x[2], x[3])};
  if (ends != RDT_FUSED_WIDE_GELU)
    y.x = rdt_fused_format<T>::above(y.x, bound), y.y = rdt_fused_format<T>::above(y.y, bound);
  return y;
}

/* Stores the tile: a thread has eight neighbours of a row at a time, of which half of the threads take the second four
 * first: banks differ for all that load at once. What is added lies as TMA left it, 64 columns after the other, zero
 * beyond the last row and column; the thread's share of its bit-sum is returned. */
template <class T, class Tile, int ends, bool more, class Hit>
RDT_DEVICE uint64_t rdt_wide_put(const rdt_fused_args &p, uint32_t sums, uint32_t biases, uint32_t residual, Hit hit) {
  constexpr uint32_t threads = Tile::storers ? Tile::storers : Tile::threads,
                     first_one = Tile::storers ? Tile::threads : 0;
  constexpr uint32_t lanes = Tile::BN / 8, rows = threads / lanes, turns = Tile::BM / rows;
  constexpr bool held = Tile::check && !Tile::storers && Tile::wide > 72; /* their sums, in registers, meanwhile */
  constexpr int together = ends == RDT_FUSED_WIDE_ANY ? 1 : held ? 2 : turns < 4 ? turns : 4;
  static_assert(rows % 8 == 0 && turns % together == 0, "rows of a thread are swizzled alike");
  const uint32_t me = threadIdx.x - first_one, eight = me % lanes, r0 = me / lanes;
  const int column = (int)(blockIdx.x * Tile::BN + 8 * eight), left = p.m - (int)(blockIdx.y * Tile::BM + r0);
  const bool swapped = me / 4 % 2 != 0;
  const uint32_t bound = rdt_wide_bound<T>(p), first = swapped ? 16u : 0u, other = first ^ 16u,
                 at = sums + 4u * (r0 * Tile::pitch + 8 * eight);
  const uint32_t added = residual + (eight / 8 * Tile::BM + r0) * 128 + 16 * ((eight ^ r0) % 8);
  uint16_t *to = (uint16_t *)p.out + (int64_t)(blockIdx.y * Tile::BM + r0) * p.ldo + column;
  float bias[2][4];
  uint64_t plain = 0, placed = 0, before = 0; /* before: of all turns up to each */
  if (column >= p.n) return 0;
  rdt_load_shared(bias[0], biases + 32u * eight + first), rdt_load_shared(bias[1], biases + 32u * eight + other);
#pragma unroll 1
  for (uint32_t turn = 0; turn < turns; turn += together) {
    float v[together][2][4];
    uint32_t r[together][4];
#pragma unroll
    for (int i = 0; i < together; i++) {
      const uint32_t from = at + 4u * (turn + i) * rows * Tile::pitch;
      rdt_load_shared(v[i][0], from + first), rdt_load_shared(v[i][1], from + other);
      r[i][0] = r[i][1] = r[i][2] = r[i][3] = rdt_wide_nothing;
      if (more && rdt_wide_added<ends>(p)) rdt_load_shared(r[i], added + (turn + i) * rows * 128);
      if constexpr (Hit::on)
        for (int j = 0; j < 2; j++)
          hit.taken(blockIdx.y * Tile::BM + r0 + (turn + i) * rows, column + (swapped ? 4 - 4 * j : 4 * j), v[i][j]);
    }
#pragma unroll
    for (int i = 0; i < together; i++) {
      uint2 low = {0, 0}, high = {0, 0};
      if (more) low = make_uint2(r[i][0], r[i][1]), high = make_uint2(r[i][2], r[i][3]);
      if (more && Tile::check) {
        plain += (uint64_t)r[i][0] + r[i][1], plain += (uint64_t)r[i][2] + r[i][3];
        placed += (uint64_t)r[i][1] + (uint64_t)r[i][2] * 2u + (uint64_t)r[i][3] * 3u, before += plain;
      }
      const uint2 y0 = rdt_wide_finish<T, ends, more>(p, bound, v[i][0], bias[0], swapped ? high : low);
      const uint2 y1 = rdt_wide_finish<T, ends, more>(p, bound, v[i][1], bias[1], swapped ? low : high);
      uint4 y = swapped ? make_uint4(y1.x, y1.y, y0.x, y0.y) : make_uint4(y0.x, y0.y, y1.x, y1.y);
      if constexpr (Hit::on) hit.stored(blockIdx.y * Tile::BM + r0 + (turn + i) * rows, column, y);
      if ((int)((turn + i) * rows) < left) *(uint4 *)(to + (int64_t)((turn + i) * rows) * p.ldo) = y;
    }
  }
  const uint32_t number = (uint32_t)(((int64_t)(p.m - left) * p.ldr + column) / 2), each = (uint32_t)(p.ldr / 2) * rows;
  return plain + (plain * number + placed + (plain * turns - before) * each) * 0x3c6ef37200000002u;
}

template <bool value_>
struct rdt_truth {
  static constexpr bool value = value_;
};

/* Rows against the columns that check them, c, as they were multiplied; and, where bit-sums are asked for, all that
 * follows once more, of which these are formed. */
template <class T, class Tile, int ends, bool more, class Hit>
RDT_DEVICE void rdt_wide_verify(const rdt_fused_wide_args &g, float (&c)[Tile::wide / 2],
                                const rdt_wide_loaded<Tile> &loaded, uint32_t sums, uint32_t biases, uint32_t residual,
                                uint64_t read, Hit hit) {
  constexpr uint32_t count = Tile::part / 8;
  const rdt_fused_args &p = g.f;
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, t = lane % 4, part = warp / 4 / Tile::high;
  const uint32_t r = warp % (4 * Tile::high) * 16 + lane / 4, first = part * count;
  const int row = (int)(blockIdx.y * Tile::BM + r), tile = (int)(blockIdx.x * Tile::parts + part);
  const int column = tile * Tile::part, left = p.n - column;
  const uint32_t bound = rdt_wide_bound<T>(p), from = sums + 4u * (r * Tile::pitch + 8 * first + 2 * t),
                 beside = biases + 4u * (8 * first + 2 * t);
  const uint32_t added = residual + (first / 8 * Tile::BM + r) * 128, eighth = 16 * ((first ^ r) % 8) + 4 * t;
  uint64_t words[2] = {0, 0}, placed[2] = {0, 0};
  float s[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}}, c2[2] = {0.0f, 0.0f};
  if (ends != RDT_FUSED_WIDE_ANY && left < Tile::part) { /* what is beyond is no number's sum where A has NaN */
#pragma unroll
    for (uint32_t j = 0; j < count; j++)
      if ((int)(8 * j) >= left) c[4 * j] = c[4 * j + 1] = c[4 * j + 2] = c[4 * j + 3] = 0.0f;
  }
  const auto walk = [&](auto again) {
#pragma unroll(ends == RDT_FUSED_WIDE_ANY ? 1 : count)
    for (uint32_t j = 0; j < count; j++) {
      float v[4];
      if (ends == RDT_FUSED_WIDE_ANY) { /* no registers that are found by a number */
        const float2 low = rdt_load_two_shared(from + 32 * j),
                     high = rdt_load_two_shared(from + 32 * j + 32u * Tile::pitch);
        v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = c[4 * j + i];
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float &sum = s[i / 2][i % 2];
        sum = RDT_WIDE_SIGNS >> (2 * j + i % 2) & 1u ? sum - v[i] : sum + v[i];
        c2[i / 2] = fmaf(v[i], v[i], c2[i / 2]);
      }
      if constexpr (!decltype(again)::value) continue;
      uint2 rest = {rdt_wide_nothing, rdt_wide_nothing};
      if (more && rdt_wide_added<ends>(p)) {
        const uint32_t at = added + j / 8 * (Tile::BM * 128) + (eighth ^ 16 * (j % 8));
        rest.x = rdt_load4_shared(at), rest.y = rdt_load4_shared(at + 1024);
      }
      const float2 two = rdt_load_two_shared(beside + 32 * j);
      const float bias[4] = {two.x, two.y, two.x, two.y};
      uint2 y = rdt_wide_finish<T, ends, more>(p, bound, v, bias, rest);
      if (ends == RDT_FUSED_WIDE_ANY && (int)(8 * j) >= left) y.x = y.y = 0; /* else nothing comes of nothing */
      words[0] += y.x, placed[0] += (uint64_t)y.x * j;
      words[1] += y.y, placed[1] += (uint64_t)y.y * j;
    }
  };
  if (p.bits)
    walk(rdt_truth<true>());
  else
    walk(rdt_truth<false>());
  float sum[2];
#pragma unroll
  for (int h = 0; h < 2; h++)
    sum[h] = __uint_as_float(__float_as_uint(s[h][0] + s[h][1]) ^ rdt_wide_turned(tile, (int)t));
  rdt_wide_rows_join<4>(sum, c2);
  const unsigned index = blockIdx.y * gridDim.x + blockIdx.x, tiles = gridDim.y * gridDim.x;
  const uint32_t at = (uint32_t)((row * p.ldo + column) / 2) + t, below = (uint32_t)(4 * p.ldo);
  if (row >= p.m) words[0] = placed[0] = 0;
  if (row + 8 >= p.m) words[1] = placed[1] = 0;
  const uint64_t plain = words[0] + words[1], times = plain * at + words[1] * below + 4 * (placed[0] + placed[1]);
  uint64_t x[3] = {plain + times * 0x3c6ef37200000002u, g.loaded ? loaded.bits(g, row) : 0, read};
  uint64_t *const to[3] = {p.bits + index, g.loaded ? g.loaded + blockIdx.z * tiles + index : NULL,
                           more && !Tile::storers && p.read ? p.read + index : NULL};
  if (p.bits) rdt_wide_leave<1, 0, Tile::threads>(x, to);
  rdt_wide_rows_done<T, Tile>(g, row, tile, sum, c2, *(float(*)[4])(c + 4 * count), g.clearly, hit);
}

#include "cuda/sm90/fused_wgmma_joint.h"
#include "cuda/sm90/fused_wgmma_twice.h"

/* ---- loading ---- */

/* Where the next 64 of k are. */
struct rdt_fused_window {
  int k, c, tx, ty, x, y, image; /* x, y: of the first tap of the tile's first pixel */

  __device__ __forceinline__ rdt_fused_window(const rdt_fused_args &p, int row0, int k0) {
    k = k0, c = k0, tx = ty = 0;
    x = y = 0, image = row0; /* a matrix: its row */
    if (p.plain) return;
    const int tap = c / p.channels, line = row0 / p.axis[1].out;
    c -= tap * p.channels, ty = tap / p.axis[1].taps, tx = tap - ty * p.axis[1].taps;
    image = line / p.axis[0].out;
    y = (line - image * p.axis[0].out) * p.axis[0].stride - p.axis[0].pad;
    x = (row0 - line * p.axis[1].out) * p.axis[1].stride - p.axis[1].pad;
  }
  __device__ __forceinline__ void load(const rdt_fused_wide_args &g, uint32_t to, uint32_t barrier) {
    const rdt_fused_args &p = g.f;
    if (p.plain) {
      rdt_tma_load(to, &g.a, c, image, barrier);
      c += 64;
      return;
    }
    rdt_tma_load_window(to, &g.a, c, x, y, image, tx * p.axis[1].dilation, ty * p.axis[0].dilation, barrier);
    if ((c += 64) < p.channels) return;
    c = 0;
    if (++tx == p.axis[1].taps) tx = 0, ty++;
  }
};

/* By one thread. */
template <class Tile>
struct rdt_fused_loader {
  rdt_fused_window window;
  uint32_t full, shared;
  int k, column;

  __device__ __forceinline__ rdt_fused_loader(const rdt_fused_wide_args &g, uint32_t barriers, uint32_t at, int k0)
      : window(g.f, (int)blockIdx.y * Tile::BM, k0),
        full(barriers),
        shared(at),
        k(k0),
        column((int)blockIdx.x * g.packed) {}
  __device__ __forceinline__ uint32_t stage(int slot) const {
    return shared + (uint32_t)(slot * Tile::stage_bytes);
  }
  __device__ __forceinline__ uint32_t barrier(int slot) const {
    return full + 8 * (uint32_t)slot;
  }
  __device__ __forceinline__ void weights(const rdt_fused_wide_args &g, int slot) {
    rdt_mbarrier_expect(barrier(slot), Tile::a_bytes + g.packed * (Tile::BK * 2));
    rdt_tma_load(stage(slot) + Tile::a_bytes, &g.w, k, column, barrier(slot));
    k += Tile::BK;
  }
  __device__ __forceinline__ void pixels(const rdt_fused_wide_args &g, int slot) {
    window.load(g, stage(slot), barrier(slot));
  }
  __device__ __forceinline__ void residual(const rdt_fused_wide_args &g, uint32_t to, uint32_t when) const {
    rdt_mbarrier_expect(when, g.each * Tile::BN * 2);
#pragma unroll
    for (int i = 0; i < Tile::BN / 64; i++)
      rdt_tma_load(to + (uint32_t)(i * g.each * 128), &g.r, (int)blockIdx.x * Tile::BN + 64 * i,
                   (int)blockIdx.y * Tile::BM + (int)blockIdx.z * g.each, when);
  }
  __device__ __forceinline__ void rest(const rdt_fused_wide_args &g, uint32_t empty, int rounds) {
    int slot = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (int round = g.stages; round < rounds; round++) {
      rdt_mbarrier_wait(empty + 8 * (uint32_t)slot, parity);
      weights(g, slot);
      pixels(g, slot);
      if (++slot == g.stages) slot = 0, parity ^= 1;
    }
  }
};

/* ---- a block ---- */

/* So many bytes on: an addition. Made anew, a place takes eight instructions that a short product waits for. */
RDT_DEVICE uint64_t rdt_wide_ahead(uint64_t place, uint32_t bytes) {
  return (place & 0xffffffff00000000u) | ((uint32_t)place + (bytes >> 4));
}

/* sums: of A's bits too, each between two products: a sum waits for the one before it. */
template <class format, class Tile, bool sums>
RDT_DEVICE void rdt_wide_multiply(float (&c)[Tile::wide / 2], rdt_wide_loaded<Tile> &loaded, uint32_t a, uint32_t b,
                                  uint32_t tables, int round) {
  const uint64_t left = rdt_wgmma_place(a, 16), right = rdt_wgmma_place(b, 16);
  rdt_wgmma_begin();
#pragma unroll
  for (int k = 0; k < Tile::BK / 16; k++) {
    if (sums) loaded.sum(round, k, a, tables);
    rdt_wgmma<format, Tile::wide, 0, 0>::step(c, rdt_wide_ahead(left, 32 * k), rdt_wide_ahead(right, 32 * k),
                                              k ? 1 : round > 0);
  }
  rdt_wgmma_commit();
}

template <class T, class Tile, int ends, bool more, class Hit>
RDT_DEVICE void rdt_wide_end(const rdt_fused_wide_args &g, float (&c)[Tile::wide / 2],
                             const rdt_wide_loaded<Tile> &loaded, uint32_t sums, uint32_t residual, Hit hit) {
  const uint32_t biases = sums + (uint32_t)Tile::rows_bytes;
  uint64_t read = 0;
  if constexpr (!Tile::storers) read = rdt_wide_put<T, Tile, ends, more>(g.f, sums, biases, residual, hit);
  if constexpr (Tile::check)
    rdt_wide_verify<T, Tile, ends, more>(g, c, loaded, sums, biases + 4 * Tile::BN, residual, read, hit);
}

/* By the threads beside those that multiply, once their sums stand. */
template <class T, class Tile, int ends, class Hit>
RDT_DEVICE void rdt_wide_store(const rdt_fused_args &p, uint32_t sums, uint32_t residual, uint32_t added,
                               uint32_t stand, Hit hit) {
  const uint32_t biases = sums + (uint32_t)Tile::rows_bytes;
  const unsigned index = blockIdx.y * gridDim.x + blockIdx.x;
  rdt_mbarrier_wait(stand, 0);
  if (p.residual) rdt_mbarrier_wait(added, 0);
  if (rdt_wide_adds<ends> || p.residual) {
    uint64_t x[1] = {rdt_wide_put<T, Tile, ends, true>(p, sums, biases, residual, hit)};
    uint64_t *const to[1] = {p.read ? p.read + index : NULL};
    if (p.read) rdt_wide_leave<2, Tile::threads, Tile::storers>(x, to);
  } else if constexpr (!rdt_wide_adds<ends>) {
    rdt_wide_put<T, Tile, ends, false>(p, sums, biases, residual, hit);
  }
}

template <class T, class Tile, int ends, class Hit>
RDT_DEVICE void rdt_fused_wide(const rdt_fused_wide_args &g, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  typedef typename rdt_fused_format<T>::type format;
  const rdt_fused_args &p = g.f;
  constexpr bool apart = Tile::beside > 0;
  const uint32_t full = (rdt_shared(memory) + 1023u) & ~1023u, empty = full + RDT_FUSED_WIDE_HEAD / 2,
                 tables = full + RDT_FUSED_WIDE_HEAD, shared = tables + RDT_FUSED_WIDE_TABLE * (uint32_t)g.share,
                 residual = shared + (uint32_t)g.residual_at, added = full + 8 * (RDT_FUSED_WIDE_STAGES - 1),
                 stand = empty + 8 * (RDT_FUSED_WIDE_STAGES - 1); /* the sums, for those that store */
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = (int)threadIdx.x % 32;
  const int k0 = (int)blockIdx.z * p.k_split, k1 = min(p.k, k0 + p.k_split);
  const int rounds = (k1 - k0 + Tile::BK - 1) / Tile::BK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < g.stages; i++) {
      rdt_mbarrier_init(full + 8 * i, 1);
      rdt_mbarrier_init(empty + 8 * i, Tile::groups);
    }
    rdt_mbarrier_init(added, 1);
    rdt_mbarrier_init(stand, Tile::threads);
    rdt_mbarrier_init_done();
    rdt_tma_prefetch(&g.a), rdt_tma_prefetch(&g.w);
    if (p.residual) rdt_tma_prefetch(&g.r);
  }
  if constexpr (Tile::alone || Tile::twice)
    if (threadIdx.x == 32)
      rdt_wide_later<Tile>::template leave<T>(g, full + RDT_FUSED_WIDE_LATER,
                                              Tile::alone ? residual : shared + (uint32_t)Tile::out_at);
  if constexpr (Tile::check && !Tile::alone)
    if (g.loaded && threadIdx.x < Tile::threads) rdt_wide_loaded<Tile>::tables(tables, g.share);
  __syncthreads();
  rdt_chain_next();
  rdt_fused_loader<Tile> loader(g, full, shared, k0);
  if (threadIdx.x == (apart ? Tile::threads : 0)) {
    const int first = min(rounds, g.stages);
    for (int i = 0; i < first; i++) loader.weights(g, i); /* they depend on nobody */
    rdt_chain_wait();
    for (int i = 0; i < first; i++) loader.pixels(g, i);
    if (p.residual) loader.residual(g, residual, added);
  }
  if (apart && warp >= Tile::threads / 32) {
    if (threadIdx.x == Tile::threads) loader.rest(g, empty, rounds);
    if constexpr (Tile::storers > 0) {
      __syncwarp();
      if (Tile::twice && p.splits > 1)
        rdt_wide_again_joint<T, Tile, ends>(g, shared, residual, added, stand);
      else if (Tile::twice)
        rdt_wide_again<T, Tile, ends>(g, shared, residual, added, stand);
      else if (p.splits > 1)
        rdt_wide_store_joint<T, Tile, ends>(g, shared, residual, added, stand, hit);
      else
        rdt_wide_store<T, Tile, ends>(p, shared, residual, added, stand, hit);
    }
    return;
  }
  rdt_wide_later<Tile> later;
  rdt_chain_wait(); /* a bias may be what the launch ahead computes */
  if constexpr (Tile::alone || Tile::twice) later.ask(p, full + RDT_FUSED_WIDE_LATER, shared);
  constexpr int half = Tile::threads / 2;
  const int mine = (int)blockIdx.x * Tile::BN + (int)threadIdx.x % half;
  float bias = 0.0f;
  if (!Tile::alone && !Tile::twice && p.bias && threadIdx.x % half < Tile::BN && mine < p.n) {
    uint16_t bits;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(bits) : "l"((const uint16_t *)p.bias + mine) : "memory");
    bias = format::wide(bits).x;
  }
  const int high = warp / 4 % Tile::high, part = warp / 4 / Tile::high;
  const int r = 64 * high + 16 * (warp % 4) + lane / 4, top = (int)blockIdx.y * Tile::BM + r;
  float c[Tile::wide / 2];
  rdt_wide_loaded<Tile> loaded(g, k0, rounds, part == 0);
  int slot = 0, before = 0;
  uint32_t parity = 0, free = 0; /* of the stage before */
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    const uint32_t stage = shared + (uint32_t)(slot * Tile::stage_bytes);
    const uint32_t a = stage + (uint32_t)(high * Tile::piece),
                   b = stage + (uint32_t)(Tile::a_bytes + part * Tile::b_piece);
    rdt_mbarrier_wait(full + 8 * (uint32_t)slot, parity);
    if constexpr (Hit::on) {
      hit.operand(round, stage, stage + Tile::a_bytes);
      rdt_tma_fence();
      rdt_bar_sync(1, Tile::threads);
    }
    if (Tile::check && !Tile::alone && loaded.at(round))
      rdt_wide_multiply<format, Tile, true>(c, loaded, a, b, tables, round);
    else
      rdt_wide_multiply<format, Tile, false>(c, loaded, a, b, tables, round);
    if constexpr (Hit::on) {
      rdt_wgmma_wait<0>();
      rdt_wgmma_keep(c);
      hit.accumulators(round, c);
    }
    if (round > 0) rdt_wgmma_wait<1>();
    if (round > 0) {
      const bool more = round - 1 + g.stages < rounds;
      if ((apart || Tile::groups > 1) && more && threadIdx.x % 128 == 0)
        rdt_mbarrier_arrive_here(empty + 8 * (uint32_t)before);
      if (!apart && more && threadIdx.x == 0) {
        if (Tile::groups > 1) rdt_mbarrier_wait(empty + 8 * (uint32_t)before, free);
        loader.weights(g, before);
        loader.pixels(g, before);
      }
      if (before == g.stages - 1) free ^= 1;
    }
    before = slot;
    if (++slot == g.stages) slot = 0, parity ^= 1;
  }
  rdt_wgmma_wait<0>();
  rdt_wgmma_keep(c);
  if constexpr (Tile::alone) {
    if (gridDim.z > 1)
      rdt_wide_together<T, Tile>(g, c, later, shared, hit);
    else
      rdt_wide_alone<T, Tile>(g, c, later, hit);
    return;
  }
  loaded.keep();
  rdt_bar_sync(1, Tile::threads); /* nobody reads the stages any more */
  if constexpr (Tile::twice) {
    if (p.splits > 1)
      rdt_wide_twice_joint<T, Tile, ends>(g, c, loaded, later, shared, residual, added, stand, hit);
    else
      rdt_wide_twice<T, Tile, ends>(g, c, loaded, later, shared, residual, added, stand, hit);
    return;
  }
  if (threadIdx.x % half < Tile::BN) /* twice: each evaluation has its own */
    ((float *)(memory + (shared - rdt_shared(memory)) +
               Tile::rows_bytes))[threadIdx.x / half * Tile::BN + threadIdx.x % half] = bias;
  if (p.splits > 1) { /* a cluster */
#pragma unroll
    for (int i = 0; i < Tile::wide / 4; i++) /* with what checks them */
      rdt_store8_shared(
          shared + 4u * (uint32_t)((r + i % 2 * 8) * Tile::joint + part * Tile::wide + i / 2 * 8 + 2 * (lane % 4)),
          c[2 * i], c[2 * i + 1]);
    rdt_cluster_arrive();
    rdt_bar_sync(1, Tile::threads); /* the same for what is the block's own, as racecheck follows it */
    rdt_cluster_wait();
    if (p.residual) rdt_mbarrier_wait(added, 0);
    rdt_wide_end_joint<T, Tile, ends>(g, loaded, top, shared, residual, stand, hit);
    rdt_cluster_wait(); /* others have what they need of this block's */
    return;
  }
#pragma unroll
  for (int j = 0; j < Tile::part / 8; j++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      rdt_store8_shared(
          shared + 4u * (uint32_t)((r + 8 * h) * Tile::pitch + part * Tile::part + 8 * j + 2 * (lane % 4)),
          c[4 * j + 2 * h], c[4 * j + 2 * h + 1]);
  if constexpr (Tile::storers > 0) {
    rdt_mbarrier_arrive_here(stand);
    rdt_bar_sync(1, Tile::threads); /* biases are others' */
  } else {
    __syncthreads();
  }
  if (p.residual) rdt_mbarrier_wait(added, 0);
  if (rdt_wide_adds<ends> || p.residual) {
    rdt_wide_end<T, Tile, ends, true>(g, c, loaded, shared, residual, hit);
  } else if constexpr (!rdt_wide_adds<ends>) {
    rdt_wide_end<T, Tile, ends, false>(g, c, loaded, shared, residual, hit);
  }
#endif
}

#endif
