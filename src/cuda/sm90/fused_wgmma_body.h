/* See fused_wgmma.h. A block has one tile of the result, 64 rows each four warps. TMA gathers a tile's pixels for 64
 * channels of one tap at a time, which one thread asks for as stages become free. What follows is that of
 * fused_finish.h; there the signed sum of a row of the tile is compared with what the columns beside it say, which came
 * the same way. */
#ifndef RDT_CUDA_FUSED_WGMMA_BODY_H
#define RDT_CUDA_FUSED_WGMMA_BODY_H

#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/sm80/fused_finish.h"
#include "cuda/sm90/fused_wgmma.h"

template <int BM_, int BN_, int blocks_, bool check_>
struct rdt_fused_wide_tile {
  static constexpr int BM = BM_, BN = BN_, blocks = blocks_, BK = 64, WK = 1;
  static constexpr bool check = check_;
  static constexpr int wide = BN + (check ? RDT_FUSED_WIDE_MORE : 0); /* columns of an instruction */
  static constexpr int groups = BM / 64, threads = 128 * groups;      /* of those that multiply */
  static constexpr int loaders = groups == 1 ? 32 : 0; /* threads; else one of the others loads: registers are scarce */
  static constexpr int piece = 64 * BK * 2, a_bytes = groups * piece, b_bytes = wide * BK * 2,
                       stage_bytes = a_bytes + b_bytes;
  static constexpr int pitch = BN + 8;                           /* of a row of sums: rows start in other banks */
  static constexpr int sums_bytes = BM * pitch * 4 + 2 * BN * 4; /* with bias, twice */
  static_assert(threads >= 2 * BN && sums_bytes <= RDT_FUSED_WIDE_LEAST * stage_bytes,
                "sums take the place of the stages");
};

template <int BM, int BN, int blocks>
struct rdt_fused_width<rdt_fused_wide_tile<BM, BN, blocks, true>> {
  static constexpr int value = BN + RDT_FUSED_WIDE_MORE;
};

/* ---- the check ---- */

/* Where sums are too far apart for their own size: what the inputs allow. By the threads that have the row. */
template <class T>
static __device__ __noinline__ void rdt_fused_doubt(const rdt_fused_wide_args &g, int row, int columns, int lanes,
                                                    float s, float c2, float e) {
  const rdt_fused_args &p = g.f;
  const int lane = (int)threadIdx.x % lanes, first = (int)threadIdx.x % 32 / lanes * lanes;
  const unsigned mask = (lanes < 32 ? (1u << lanes) - 1u : 0xffffffffu) << first;
  int64_t at = row * p.pixel;
  int y0 = 0, x0 = 0;
  if (row >= p.m) return;
  if (!p.plain) {
    const int line = row / p.axis[1].out, image = line / p.axis[0].out;
    y0 = (line - image * p.axis[0].out) * p.axis[0].stride - p.axis[0].pad;
    x0 = (row - line * p.axis[1].out) * p.axis[1].stride - p.axis[1].pad;
    at = image * p.image;
  }
  float a2 = 0.0f, tau2, tau0;
  for (int k = 8 * lane; k < p.k; k += 8 * lanes) {
    int64_t from = at + k;
    if (!p.plain) {
      const int tap = k / p.channels, ty = tap / p.axis[1].taps;
      const int y = y0 + ty * p.axis[0].dilation, x = x0 + (tap - ty * p.axis[1].taps) * p.axis[1].dilation;
      if ((unsigned)y >= (unsigned)p.axis[0].in || (unsigned)x >= (unsigned)p.axis[1].in) continue;
      from = at + y * p.line + x * p.pixel + (k - tap * p.channels);
    }
    const uint4 v = rdt_load_eight(p.x, from);
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float2 two = rdt_fused_format<T>::type::wide(w[i]);
      a2 = fmaf(two.x, two.x, a2), a2 = fmaf(two.y, two.y, a2);
    }
  }
  for (int d = 1; d < lanes; d *= 2) a2 += __shfl_xor_sync(mask, a2, d);
  a2 += g.bound.a2_floor;
  const int complaint = rdt_judge_sums(g.bound, s, c2, e, a2, a2 * __ldcg(g.rho2 + blockIdx.x), &tau2, &tau0);
  const int column = (int)blockIdx.x * columns;
  if (complaint && lane == 0)
    rdt_complain_inline(g.verdict, complaint, rdt_place_of{row, column, 1, min(columns, p.n - column), 0, p.k}, s, e,
                        tau2, tau0);
}

/* ---- what follows ---- */

/* Four neighbours as they are stored; bias: as floats. */
template <class T, bool curves>
RDT_DEVICE uint2 rdt_wide_finish(const rdt_fused_args &p, const float (&v)[4], const float (&bias)[4], uint2 residual) {
  typedef typename rdt_fused_format<T>::type format;
  float x[4];
#pragma unroll
  for (int i = 0; i < 4; i++) x[i] = curves && p.alpha != 1.0f ? rdt_mul(p.alpha, v[i]) : v[i];
#pragma unroll
  for (int i = 0; i < 4; i++) x[i] = rdt_add(x[i], bias[i]); /* 0 where there is none */
  if (p.residual) {
    const float2 low = format::wide(residual.x), high = format::wide(residual.y);
    const float more[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = rdt_add(x[i], curves && p.beta != 1.0f ? rdt_mul(p.beta, more[i]) : more[i]);
  }
  const bool relu = p.finish.act == rdt_box_RELU;
  if (curves && !relu && p.finish.act != rdt_box_NONE) rdt_box_act<true, 4, float>(p.finish, x);
  uint2 y = {format::narrow(x[0], x[1]), format::narrow(x[2], x[3])};
  if (relu) y.x = rdt_fused_format<T>::relu(y.x), y.y = rdt_fused_format<T>::relu(y.y);
  return y;
}

RDT_DEVICE uint2 rdt_load_four(const void *from, int64_t at) { /* not merged with another one of the same */
  uint2 x;
  asm volatile("ld.global.v2.b32 {%0,%1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"((const uint16_t *)from + at) : "memory");
  return x;
}

/* Both ways through a tile of sums. One thread has eight neighbours of a row at a time and stores them; eight threads
 * of another warp have a row, four neighbours each at a time. Banks differ for all that load at once. */
template <class Tile>
struct rdt_wide_ways {
  static constexpr int lanes = Tile::BN / 8, rows = Tile::threads / lanes, turns = Tile::BM / rows, each = 32 / lanes;
  static constexpr int warps = Tile::threads / 32, again = 4, fours = Tile::BN / 32;
  static constexpr bool early =
      Tile::BN <= 64; /* there are registers to load what is added while the tile is multiplied */
  static_assert(Tile::BM == warps * 4 * again, "whole turns");
  /* The row of a tile that a thread verifies in a turn: of those that another warp stores. */
  static __device__ __forceinline__ int row(int turn) {
    const int warp = ((int)threadIdx.x / 32 + warps / 2) % warps, p = (int)threadIdx.x % 32 / 8;
    return each == 4 ? turn * rows + warp * 4 + p : (2 * turn + p / 2) * rows + warp * 2 + p % 2;
  }
  static __device__ __forceinline__ int column(int four) {
    return 4 * ((int)threadIdx.x % 8 + 8 * four);
  }
};
/* Signs of columns: a pattern for what a thread has, turned around or not for each thread. */
enum : unsigned { RDT_WIDE_SIGNS = 0x6a09e667u };
RDT_DEVICE unsigned rdt_wide_turned(int tile, int lane) { /* 0 or the sign bit */
  return rdt_mma_sign((unsigned)(tile * 8 + lane));
}
RDT_DEVICE bool rdt_wide_minus(int tile, int column) { /* the same of any column of a tile */
  return (RDT_WIDE_SIGNS >> (column / 32 * 4 + column % 4) & 1u) != (rdt_wide_turned(tile, column / 4 % 8) != 0);
}

/* What the two evaluations add, each loaded by who needs it. */
template <class Tile>
struct rdt_wide_residual {
  typedef rdt_wide_ways<Tile> ways;
  static constexpr int together = ways::early ? ways::turns : 4, ahead = ways::early ? ways::again : 2;
  uint4 eights[together];
  uint2 fours[ahead][ways::fours];

  __device__ __forceinline__ void load(const rdt_fused_args &p, int first) {
    const int column = (int)blockIdx.x * Tile::BN + 8 * ((int)threadIdx.x % ways::lanes);
    const int row0 = (int)blockIdx.y * Tile::BM + (int)threadIdx.x / ways::lanes;
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int row = row0 + (first + i) * ways::rows;
      eights[i] = make_uint4(0, 0, 0, 0);
      if (row < p.m && column < p.n) eights[i] = rdt_load_eight(p.residual, row * p.ldr + column);
    }
  }
  __device__ __forceinline__ void again(const rdt_fused_args &p, int turn) {
    const int row = (int)blockIdx.y * Tile::BM + ways::row(turn);
#pragma unroll
    for (int i = 0; i < ways::fours; i++) {
      const int column = (int)blockIdx.x * Tile::BN + ways::column(i);
      fours[turn % ahead][i] = make_uint2(0, 0);
      if (row < p.m && column < p.n) fours[turn % ahead][i] = rdt_load_four(p.residual, row * p.ldr + column);
    }
  }
};

template <class T, class Tile, bool curves>
RDT_DEVICE void rdt_wide_put(const rdt_fused_args &p, uint32_t sums, uint32_t biases,
                             rdt_wide_residual<Tile> &residual) {
  typedef rdt_wide_ways<Tile> ways;
  constexpr int together = rdt_wide_residual<Tile>::together;
  const int c = 8 * ((int)threadIdx.x % ways::lanes), column = (int)blockIdx.x * Tile::BN + c;
  const int r0 = (int)threadIdx.x / ways::lanes, row0 = (int)blockIdx.y * Tile::BM + r0;
  const bool swapped = threadIdx.x / 4 % 2 != 0; /* the second four first */
  const uint32_t first = swapped ? 16u : 0u, at = sums + 4u * (uint32_t)(r0 * Tile::pitch + c);
  float bias[2][4];
  if (column >= p.n) return;
  rdt_load_shared(bias[0], biases + 4u * (uint32_t)c + first);
  rdt_load_shared(bias[1], biases + 4u * (uint32_t)c + (first ^ 16u));
#pragma unroll 1
  for (int turn = 0; turn < ways::turns; turn += together) {
    if (p.residual && turn > 0) residual.load(p, turn);
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int row = row0 + (turn + i) * ways::rows;
      const uint32_t from = at + 4u * (uint32_t)((turn + i) * ways::rows * Tile::pitch);
      float v[2][4];
      rdt_load_shared(v[0], from + first), rdt_load_shared(v[1], from + (first ^ 16u));
      const uint4 r = residual.eights[i];
      const uint2 low = {r.x, r.y}, high = {r.z, r.w};
      const uint2 y0 = rdt_wide_finish<T, curves>(p, v[0], bias[0], swapped ? high : low);
      const uint2 y1 = rdt_wide_finish<T, curves>(p, v[1], bias[1], swapped ? low : high);
      const uint4 y = swapped ? make_uint4(y1.x, y1.y, y0.x, y0.y) : make_uint4(y0.x, y0.y, y1.x, y1.y);
      if (row < p.m) *(uint4 *)((uint16_t *)p.out + row * p.ldo + column) = y;
    }
  }
}

/* A sum modulo 2^64 over the threads of a warp. */
RDT_DEVICE uint64_t rdt_warp_total(uint64_t x) {
  const uint32_t low = (uint32_t)x, high = (uint32_t)(x >> 32);
  const uint32_t a = __reduce_add_sync(0xffffffffu, low & 0xffffu), b = __reduce_add_sync(0xffffffffu, low >> 16),
                 c = __reduce_add_sync(0xffffffffu, high);
  return (uint64_t)a + ((uint64_t)b << 16) + ((uint64_t)c << 32);
}

/* Of four sums of eight threads each, the one that half of a thread's number says. */
RDT_DEVICE float rdt_wide_totals(const float (&x)[4]) {
  const bool high = threadIdx.x & 4, odd = threadIdx.x & 2;
  const float a = __shfl_xor_sync(0xffffffffu, high ? x[0] : x[2], 4),
              b = __shfl_xor_sync(0xffffffffu, high ? x[1] : x[3], 4);
  const float even = (high ? x[2] : x[0]) + a, other = (high ? x[3] : x[1]) + b;
  const float y = (odd ? other : even) + __shfl_xor_sync(0xffffffffu, odd ? even : other, 2);
  return y + __shfl_xor_sync(0xffffffffu, y, 1);
}

/* Rows against the columns that check them; and all that follows once more, of which the bit-sums are formed. */
template <class T, class Tile, bool curves>
RDT_DEVICE void rdt_wide_verify(const rdt_fused_wide_args &g, uint32_t sums, uint32_t biases,
                                rdt_wide_residual<Tile> &residual) {
  typedef rdt_wide_ways<Tile> ways;
  constexpr int ahead = rdt_wide_residual<Tile>::ahead;
  const rdt_fused_args &p = g.f;
  __shared__ uint64_t warps[2][ways::warps];
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int row0 = (int)blockIdx.y * Tile::BM, column0 = (int)blockIdx.x * Tile::BN;
  uint64_t words = 0, placed = 0, read_words = 0, read_placed = 0;
  float s[ways::again], c2[ways::again];
  if (p.residual && !ways::early) residual.again(p, 0);
#pragma unroll
  for (int turn = 0; turn < ways::again; turn++) {
    const int r = ways::row(turn), row = row0 + r;
    const uint32_t from = sums + 4u * (uint32_t)(r * Tile::pitch);
    if (p.residual && !ways::early && turn + 1 < ways::again) residual.again(p, turn + 1);
    s[turn] = c2[turn] = 0.0f;
#pragma unroll
    for (int i = 0; i < ways::fours; i++) {
      const int c = ways::column(i);
      const uint2 more = residual.fours[turn % ahead][i];
      float v[4], bias[4];
      rdt_load_shared(v, from + 4u * (uint32_t)c), rdt_load_shared(bias, biases + 4u * (uint32_t)c);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[turn] = RDT_WIDE_SIGNS >> (4 * i + e) & 1u ? s[turn] - v[e] : s[turn] + v[e];
        c2[turn] = fmaf(v[e], v[e], c2[turn]);
      }
      const uint2 y = rdt_wide_finish<T, curves>(p, v, bias, more);
      if (row >= p.m || column0 + c >= p.n) continue;
      const uint32_t number = (uint32_t)((row * p.ldo + column0 + c) / 2);
      words += (uint64_t)y.x + y.y, placed += (uint64_t)y.x * number + (uint64_t)y.y * (number + 1);
      if (!p.read) continue;
      const uint32_t other = (uint32_t)((row * p.ldr + column0 + c) / 2);
      read_words += (uint64_t)more.x + more.y, read_placed += (uint64_t)more.x * other + (uint64_t)more.y * (other + 1);
    }
    s[turn] = __uint_as_float(__float_as_uint(s[turn]) ^ rdt_wide_turned((int)blockIdx.x, lane % 8));
  }
  const int r = ways::row(lane % 8 / 2);
  const float sum = rdt_wide_totals(s), squares = rdt_wide_totals(c2);
  float check[4];
  rdt_load_shared(check, sums + 4u * (uint32_t)(r * Tile::pitch + Tile::BN));
  const float e = T::expected(check), d = sum - e;
  if (__builtin_expect(!(d * d <= g.clearly * squares && squares < __int_as_float(0x7f800000)), 0))
    rdt_fused_doubt<T>(g, row0 + r, Tile::BN, 2, sum, squares, e);
  __syncwarp();
  const uint64_t bits = rdt_warp_total(words + placed * 0x3c6ef37200000002u);
  const uint64_t read = p.read ? rdt_warp_total(read_words + read_placed * 0x3c6ef37200000002u) : 0;
  if (lane == 0) warps[0][warp] = bits, warps[1][warp] = read;
  __syncthreads();
  if (threadIdx.x >= 2) return;
  uint64_t *to = threadIdx.x ? p.read : p.bits, x = 0;
  for (int w = 0; w < ways::warps; w++) x += warps[threadIdx.x][w];
  if (to) to[blockIdx.y * gridDim.x + blockIdx.x] = x;
}

/* Of a tile that blocks share, by the last of them: all their sums, in order, where its own are. Is it the last? */
template <class Tile>
static __device__ __noinline__ bool rdt_wide_gather_tile(const rdt_fused_args &p, uint32_t sums) {
  constexpr int width = rdt_fused_width<Tile>::value, each = Tile::BM * width;
  const unsigned tile = blockIdx.y * gridDim.x + blockIdx.x;
  const int64_t tiles = (int64_t)gridDim.x * gridDim.y * each;
  float *const base = p.partial + (int64_t)tile * each;
  if (!rdt_fused_share<Tile>(p, sums, base + blockIdx.z * tiles, tile)) return false;
  constexpr int count = each / (4 * Tile::threads), together = count % 9 ? count : 9; /* fours of a thread */
  static_assert(count * 4 * Tile::threads == each && count % together == 0, "whole turns");
#pragma unroll 1
  for (int first = 0; first < count; first += together) {
    float all[together][4], more[together][4];
    const int from = 4 * (first * Tile::threads + (int)threadIdx.x);
#pragma unroll
    for (int i = 0; i < together; i++) rdt_load_l2(all[i], base + from + 4 * i * Tile::threads);
#pragma unroll 1
    for (int s = 1; s < p.splits; s++) {
#pragma unroll
      for (int i = 0; i < together; i++) rdt_load_l2(more[i], base + s * tiles + from + 4 * i * Tile::threads);
#pragma unroll
      for (int i = 0; i < together; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) all[i][e] = rdt_add(all[i][e], more[i][e]);
    }
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int at = from + 4 * i * Tile::threads;
      const uint32_t to = sums + 4u * (uint32_t)(at / width * Tile::pitch + at % width);
      rdt_store8_shared(to, all[i][0], all[i][1]), rdt_store8_shared(to + 8, all[i][2], all[i][3]);
    }
  }
  __syncthreads();
  return true;
}

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
  uint32_t shared;
  int k, column;

  __device__ __forceinline__ rdt_fused_loader(const rdt_fused_args &p, uint32_t at, int k0)
      : window(p, (int)blockIdx.y * Tile::BM, k0), shared(at), k(k0), column((int)blockIdx.x * Tile::wide) {}
  __device__ __forceinline__ uint32_t stage(int slot) const {
    return shared + (uint32_t)(slot * Tile::stage_bytes);
  }
  __device__ __forceinline__ uint32_t barrier(int slot) const {
    return shared - RDT_FUSED_WIDE_HEAD + 8 * (uint32_t)slot;
  }
  __device__ __forceinline__ void weights(const rdt_fused_wide_args &g, int slot) {
    rdt_mbarrier_expect(barrier(slot), Tile::stage_bytes);
    rdt_tma_load(stage(slot) + Tile::a_bytes, &g.w, k, column, barrier(slot));
    k += Tile::BK;
  }
  __device__ __forceinline__ void pixels(const rdt_fused_wide_args &g, int slot) {
    window.load(g, stage(slot), barrier(slot));
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

template <class T, class Tile, bool curves>
RDT_DEVICE void rdt_fused_wide(const rdt_fused_wide_args &g) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  typedef typename rdt_fused_format<T>::type format;
  const rdt_fused_args &p = g.f;
  constexpr bool apart = Tile::loaders > 0;
  const uint32_t full = (rdt_shared(memory) + 1023u) & ~1023u, empty = full + RDT_FUSED_WIDE_HEAD / 2,
                 shared = full + RDT_FUSED_WIDE_HEAD;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = (int)threadIdx.x % 32;
  const int k0 = (int)blockIdx.z * p.k_split, k1 = min(p.k, k0 + p.k_split);
  const int rounds = (k1 - k0 + Tile::BK - 1) / Tile::BK;
  if (threadIdx.x == 0) {
    for (int i = 0; i < g.stages; i++) {
      rdt_mbarrier_init(full + 8 * i, 1);
      rdt_mbarrier_init(empty + 8 * i, Tile::groups);
    }
    rdt_mbarrier_init_done();
    rdt_tma_prefetch(&g.a), rdt_tma_prefetch(&g.w);
  }
  __syncthreads();
  rdt_chain_next();
  rdt_fused_loader<Tile> loader(p, shared, k0);
  if (threadIdx.x == (apart ? Tile::threads : 0)) {
    const int first = min(rounds, g.stages);
    for (int i = 0; i < first; i++) loader.weights(g, i); /* they depend on nobody */
    rdt_chain_wait();
    for (int i = 0; i < first; i++) loader.pixels(g, i);
  }
  if (apart && warp == Tile::threads / 32) {
    if (lane == 0) loader.rest(g, empty, rounds);
    return;
  }
  rdt_chain_wait();
  constexpr int half = Tile::threads / 2;
  const int mine = (int)blockIdx.x * Tile::BN + (int)threadIdx.x % half;
  float bias = 0.0f;
  if (p.bias && threadIdx.x % half < Tile::BN && mine < p.n) {
    uint16_t bits;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(bits) : "l"((const uint16_t *)p.bias + mine) : "memory");
    bias = format::wide(bits).x;
  }
  rdt_wide_residual<Tile> residual;
  if (rdt_wide_ways<Tile>::early && p.residual) {
    residual.load(p, 0);
    if constexpr (Tile::check) {
#pragma unroll
      for (int i = 0; i < rdt_wide_ways<Tile>::again; i++) residual.again(p, i);
    }
  }
  const int group = warp / 4;
  float c[Tile::wide / 2];
  int slot = 0, before = 0;
  uint32_t parity = 0, free = 0; /* of the stage before */
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    const uint32_t stage = shared + (uint32_t)(slot * Tile::stage_bytes);
    const uint32_t a = stage + (uint32_t)(group * Tile::piece), b = stage + Tile::a_bytes;
    rdt_mbarrier_wait(full + 8 * (uint32_t)slot, parity);
    rdt_wgmma_begin();
#pragma unroll
    for (int k = 0; k < Tile::BK / 16; k++)
      rdt_wgmma<format, Tile::wide, 0, 0>::step(c, rdt_wgmma_place(a + 32 * k, 16), rdt_wgmma_place(b + 32 * k, 16),
                                                k ? 1 : round > 0);
    rdt_wgmma_commit();
    if (round > 0) {
      rdt_wgmma_wait<1>();
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
  if (!rdt_wide_ways<Tile>::early && p.residual) residual.load(p, 0);
  __syncthreads(); /* nobody reads the stages any more */
  constexpr int biases = Tile::BM * Tile::pitch * 4;
  if (threadIdx.x % half < Tile::BN) /* twice: each evaluation has its own */
    ((float *)(memory + (shared - rdt_shared(memory)) + biases))[threadIdx.x / half * Tile::BN + threadIdx.x % half] =
        bias;
#pragma unroll
  for (int j = 0; j < Tile::wide / 8; j++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      rdt_store8_shared(shared + 4u * (uint32_t)((16 * warp + 8 * h + lane / 4) * Tile::pitch + 8 * j + 2 * (lane % 4)),
                        c[4 * j + 2 * h], c[4 * j + 2 * h + 1]);
  __syncthreads();
  if (p.splits > 1 && !rdt_wide_gather_tile<Tile>(p, shared)) return;
  rdt_wide_put<T, Tile, curves>(p, shared, shared + biases, residual);
  if constexpr (Tile::check) rdt_wide_verify<T, Tile, curves>(g, shared, shared + biases + 4 * Tile::BN, residual);
#endif
}

#endif
