/* Columns of products on wgmma: u C against (u A) B, u: signs of rows.
 *
 * u A is summed in shared memory, by a warp that is idle otherwise, from the stages that the tiles multiply: each tile
 * of a row of tiles has its share of k. The next run multiplies it by B, in tiles of their own behind those of C: u A,
 * in parts, is eight rows, which an instruction meets again and again for its 64, and 256 columns of B are where A and
 * B of another tile are. What comes of it is compared with the sums of C's columns, which tiles have added up. So what
 * is compared was loaded twice, at other times, mostly by other blocks. Three sets of sums take turns: one is
 * written, one compared, one cleared.
 *
 * C's squares, for the bounds, come of sums of sixteen rows, whose signs are those of a bent function: the square of
 * their sum is the sum of their squares for random numbers as for constant or alternating ones. Of sixteen rows in
 * which some are zero it is so on average alone: each sixteen have a function of their own. */
#ifndef RDT_CUDA_GEMM_WGMMA_COLUMNS_H
#define RDT_CUDA_GEMM_WGMMA_COLUMNS_H

#include "cuda/ptx/bulk.h"
#include "cuda/ptx/flag.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/sm90/gemm_wgmma_stored.h"
#include "cuda/sm90/gemm_wgmma_tiles.h"

/* ---- where sums lie ---- */

RDT_DEVICE float *rdt_columns_a(const rdt_columns &c, unsigned turn) {
  return c.a + (int64_t)(turn % RDT_COLUMNS_SETS) * c.depth;
}
RDT_DEVICE float *rdt_columns_a2(const rdt_columns &c, unsigned turn) {
  return c.a2 + turn % RDT_COLUMNS_SETS;
}
RDT_DEVICE float4 *rdt_columns_c(const rdt_columns &c, unsigned turn, int copy) {
  return c.c + (int64_t)(turn % RDT_COLUMNS_SETS * c.copies + copy) * c.pairs;
}
RDT_DEVICE float *rdt_columns_stored(const rdt_columns &c, unsigned turn) {
  return c.next + (int64_t)(turn % RDT_COLUMNS_SETS) * rdt_columns_pitch(c.pairs);
}
/* The run before, and the one before that, whose place is the next run's. */
RDT_DEVICE unsigned rdt_columns_before(unsigned turn) {
  return turn + RDT_COLUMNS_SETS - 1;
}
RDT_DEVICE unsigned rdt_columns_next(unsigned turn) {
  return turn + 1;
}

/* By a warp of each block: zeros, for the next run. */
RDT_DEVICE void rdt_columns_clear(const rdt_columns &c, unsigned turn) {
  const int first = (int)(blockIdx.x * 32 + threadIdx.x % 32), step = (int)gridDim.x * 32;
  float *const a = rdt_columns_a(c, rdt_columns_next(turn));
  float4 *const to = rdt_columns_c(c, rdt_columns_next(turn), 0);
  for (int i = first; i < c.depth; i += step) __stcg(a + i, 0.0f);
  for (int i = first; i < c.copies * c.pairs; i += step) __stcg(to + i, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
  if (first == 0) __stcg(rdt_columns_a2(c, rdt_columns_next(turn)), 0.0f);
  if (!c.next) return;
  for (int i = first; i < rdt_columns_pitch(c.pairs); i += step)
    __stcg(rdt_columns_stored(c, rdt_columns_next(turn)) + i, 0.0f);
}

/* ---- sums of A's rows ---- */

/* The first round whose rows of A a tile sums, of which each is as many further on as there are columns of tiles: too
 * many where there are none. */
RDT_DEVICE int rdt_columns_first(const rdt_wgmma_args &g, rdt_tile_place at) {
  return rdt_tile_there(g, at) && !g.columns.before ? at.n : g.p.k;
}

/* By a warp of each block: what the last run of the product before has left. */
RDT_DEVICE void rdt_columns_take(const rdt_columns &c, unsigned turn) {
  const unsigned left = rdt_columns_before(__ldcg(c.ran)) % RDT_COLUMNS_SETS;
  const float *const from = c.before + (int64_t)left * rdt_columns_pitch(c.before_pairs);
  float *const to = rdt_columns_a(c, turn);
  const int first = (int)(blockIdx.x * 32 + threadIdx.x % 32);
  for (int i = first; i < c.depth; i += (int)gridDim.x * 32) __stcg(to + i, __ldcg(from + i));
  if (first == 0) __stcg(rdt_columns_a2(c, turn), __ldcg(from + 2 * c.before_pairs));
}

RDT_DEVICE float rdt_columns_factor(unsigned signs, int which) {
  return __uint_as_float(0x3f800000u | rdt_columns_sign(signs, which));
}
/* Of the lower two bits of a row's number: the sign bit. */
RDT_DEVICE unsigned rdt_columns_pair(unsigned signs, int row) {
  const unsigned high = row & 2 ? rdt_columns_sign(signs, 3) : 0u, low = row & 1 ? rdt_columns_sign(signs, 4) : 0u;
  return high ^ low ^ ((row & 3) == 3 ? 0x80000000u : 0u);
}

/* 64 of k of a tile, by a warp: of so many sets of sixteen rows (row % 8 / 4 is the same, and row / 16 % 4), each lane
 * has eight neighbours of every fourth row. */
template <class T, class Ring>
RDT_DEVICE void rdt_columns_stage(float (&sum)[8], float &squares, uint32_t stage, int tile, int first, int end) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll 1
  for (int set = first; set < end; set++) {
    const int row = set / 2 * 16 + set % 2 * 4 + lane / 8;
    const uint32_t at = stage + 128 * (uint32_t)row + 16 * (uint32_t)(lane % 8 ^ row % 8);
    const unsigned signs = rdt_columns_signs(tile, set);
    const float upper = rdt_columns_factor(signs, 1), eighth = rdt_columns_factor(signs, 2);
    const float sign = rdt_columns_factor(rdt_columns_sign(signs, 0) ^ rdt_columns_pair(signs, lane / 8), 0);
    uint32_t x[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++) rdt_load_shared(x[i], at + i / 2 * Ring::piece + i % 2 * 8 * 128);
    const auto add = [&](float &to, float a, float b, float c,
                         float d) { /* of rows r, r + 8, r + 64, r + 72 */
                                    to = fmaf(sign, fmaf(upper, fmaf(-eighth, d, c), fmaf(eighth, b, a)), to);
                                    squares = fmaf(a, a, fmaf(b, b, fmaf(c, c, fmaf(d, d, squares))));
    };
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float2 a = T::wide(x[0][j]), b = T::wide(x[1][j]), c = T::wide(x[2][j]), d = T::wide(x[3][j]);
      add(sum[2 * j], a.x, b.x, c.x, d.x), add(sum[2 * j + 1], a.y, b.y, c.y, d.y);
    }
  }
}

/* 64 rows of 128 bytes that are stored, of which so many are within C, by a warp; half: of a tile. Lanes as above. */
template <class T>
RDT_DEVICE void rdt_columns_piece(float (&sum)[8], float &squares, uint32_t piece, int tile, int half, int rows) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll 2
  for (int set = 0; set < 8; set++) {
    const int row = set / 2 * 16 + set % 2 * 4 + lane / 8;
    const uint32_t at = piece + 128 * (uint32_t)row + 16 * (uint32_t)(lane % 8 ^ row % 8);
    const unsigned signs = rdt_columns_signs(tile, set),
                   minus = rdt_columns_sign(signs, 0) ^ (half ? rdt_columns_sign(signs, 1) : 0u);
    const float eighth = rdt_columns_factor(signs, 2) * (half ? -1.0f : 1.0f),
                sign = rdt_columns_factor(minus ^ rdt_columns_pair(signs, lane / 8), 0);
    uint32_t x[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (row + 8 * i < rows) rdt_load_shared(x[i], at + i * 8 * 128);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float2 a = T::wide(x[0][j]), b = T::wide(x[1][j]);
      sum[2 * j] = fmaf(sign, fmaf(eighth, b.x, a.x), sum[2 * j]);
      sum[2 * j + 1] = fmaf(sign, fmaf(eighth, b.y, a.y), sum[2 * j + 1]);
      squares = fmaf(a.x, a.x, fmaf(a.y, a.y, fmaf(b.x, b.x, fmaf(b.y, b.y, squares))));
    }
  }
}

/* Of 2 n numbers a lane keeps half, and gives the other half to the lane whose number differs in a bit, whose half it
 * adds, times by. */
template <int n, int bit, int count>
RDT_DEVICE void rdt_columns_halve(float (&x)[count], float by = 1.0f) {
  const bool upper = threadIdx.x & bit;
#pragma unroll
  for (int i = 0; i < n; i++) {
    const float keep = upper ? x[n + i] : x[i], give = upper ? x[i] : x[n + i];
    x[i] = fmaf(by, __shfl_xor_sync(0xffffffffu, give, bit), keep);
  }
}

/* Four lanes have the same k: two numbers are left to each, from rdt_columns_joined on. */
RDT_DEVICE float2 rdt_columns_join(float (&x)[8]) {
  rdt_columns_halve<4, 16>(x);
  rdt_columns_halve<2, 8>(x);
  return make_float2(x[0], x[1]);
}
RDT_DEVICE int rdt_columns_joined(int thread) {
  return thread % 8 * 8 + thread / 16 % 2 * 4 + thread / 8 % 2 * 2;
}

/* By a warp, of what its lanes have. */
RDT_DEVICE void rdt_columns_add_squares(float *to, float squares) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, d);
  if (threadIdx.x % 32 == 0) atomicAdd(to, squares);
}

/* Sums of 64 columns of what is stored, from this one on. */
RDT_DEVICE void rdt_columns_hand(const rdt_wgmma_args &g, float (&sum)[8], int column, unsigned turn) {
  float2 pair = rdt_columns_join(sum);
  column += rdt_columns_joined(rdt_thread_anew());
  if (column + 1 >= g.p.n) pair.y = 0.0f;
  if (column < g.p.n) rdt_add2((float2 *)(rdt_columns_stored(g.columns, turn) + column), pair);
}

/* ---- what the run before has left of A, as rows that tensor cores multiply ---- */

/* Parts of two numbers, as B's sums of columns have them (weights_wgmma.cu). */
RDT_DEVICE void rdt_columns_split(const rdt_f16 *, float2 x, uint32_t (&part)[RDT_WGMMA_PARTS_F16]) {
  part[0] = rdt_f16::narrow(x.x, x.y);
  const float2 hi = rdt_f16::wide(part[0]);
  part[1] = rdt_f16::narrow(0x1p11f * (x.x - hi.x), 0x1p11f * (x.y - hi.y));
}
RDT_DEVICE void rdt_columns_split(const rdt_bf16 *, float2 x, uint32_t (&part)[RDT_WGMMA_PARTS_BF16]) {
#pragma unroll
  for (int i = 0; i < RDT_WGMMA_PARTS_BF16; i++) {
    part[i] = rdt_bf16::narrow(x.x, x.y);
    const float2 y = rdt_bf16::wide(part[i]);
    x.x -= y.x, x.y -= y.y;
  }
}
RDT_DEVICE constexpr int rdt_columns_parts(const rdt_f16 *) {
  return RDT_WGMMA_PARTS_F16;
}
RDT_DEVICE constexpr int rdt_columns_parts(const rdt_bf16 *) {
  return RDT_WGMMA_PARTS_BF16;
}

/* ---- warps that watch ---- */

/* Rounds of k that a block's tiles have, of which the strips' are behind. */
template <class Ring>
RDT_DEVICE int rdt_columns_rounds(const rdt_wgmma_args &g) {
  int clusters = (int)gridDim.x / RDT_WGMMA_CLUSTER, me = (int)blockIdx.x / RDT_WGMMA_CLUSTER;
  return max(0, (g.tiles - me + clusters - 1) / clusters) * rdt_wide_rounds<Ring::BK>(g);
}

/* By some warps, this one the so manieth: stages that the loading thread tells them of are added to u A. */
template <class T, class Ring>
RDT_DEVICE void rdt_columns_sum(const rdt_wgmma_args &g, uint32_t shared, int part) {
  constexpr int sets = 8 / Ring::summing;
  const int lane = (int)threadIdx.x % 32, rounds = rdt_wide_rounds<Ring::BK>(g);
  if (g.columns.before) {
    if (part == 0) rdt_columns_take(g.columns, rdt_wide_turn_now<Ring>(shared));
    return;
  }
  float squares = 0.0f;
  unsigned seen = 0; /* how often each stage was told of, modulo 2 */
  int before = 0;
  for (int i = 0;; i++) {
    const rdt_wide_part now = rdt_wide_part_of<Ring::BK>(g, i);
    if (!now.end || now.tile >= g.tiles) break;
    const rdt_tile_place at = rdt_tile_of(g, now.tile, (int)rdt_cluster_rank());
#pragma unroll 1
    for (int round = rdt_columns_first(g, at); round < rounds; round += g.p.column_blocks) {
      const int loaded = before + round, slot = loaded % Ring::stages;
      const uint32_t barrier = shared + 8 * (uint32_t)slot;
      float sum[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
      rdt_mbarrier_wait(barrier + Ring::told, seen >> slot & 1);
      seen ^= 1u << slot;
      rdt_mbarrier_wait(barrier + Ring::barriers, (uint32_t)(loaded / Ring::stages) & 1);
      rdt_columns_stage<T, Ring>(sum, squares, shared + (uint32_t)slot * Ring::stage_bytes, at.m, part * sets,
                                 (part + 1) * sets);
      __syncwarp();
      if (lane == 0) rdt_mbarrier_arrive_here(barrier + Ring::summed);
      const float2 pair = rdt_columns_join(sum);
      const int k = Ring::BK * round + rdt_columns_joined(rdt_thread_anew());
      rdt_add2((float2 *)(rdt_columns_a(g.columns, rdt_wide_turn_now<Ring>(shared)) + k), pair);
    }
    before += rounds;
  }
  rdt_columns_add_squares(rdt_columns_a2(g.columns, rdt_wide_turn_now<Ring>(shared)), squares);
}

/* By a warp: u A of the run before, in parts, to stages of strips, as TMA would have it there: the first of eight rows.
 * Nobody looks at what comes of the others. It is copied to where the rows were that were compared, some rounds while
 * others are brought: loads of the warp's own, on their way, would hold up its fences. */
template <class T, class Ring>
RDT_DEVICE void rdt_columns_bring(const rdt_wgmma_args &g, uint32_t shared) {
  constexpr int bytes = Ring::BK * 4, some = rdt_wide_asked / bytes / 2, parts = rdt_columns_parts((const T *)nullptr);
  const int lane = (int)threadIdx.x % 32, rounds = rdt_wide_rounds<Ring::BK>(g), first = rdt_columns_rounds<Ring>(g);
  const float scale = g.columns.scale;
  const float *const from = rdt_columns_a(g.columns, rdt_columns_before(rdt_wide_turn_now<Ring>(shared)));
  const int lots = (rounds + some - 1) / some; /* of a strip; two have place */
  const auto ask = [&](int strip, int round) {
    const int lot = strip * lots + round / some;
    const uint32_t barrier = shared + Ring::copied + 8 * (uint32_t)(lot % 2),
                   many = (uint32_t)min(some, rounds - round);
    if (lane != 0 || round >= rounds) return;
    rdt_mbarrier_expect(barrier, (int)many * bytes);
    rdt_bulk_load(shared + Ring::asked + lot % 2 * some * bytes, from + Ring::BK * round, many * bytes, barrier);
  };
  rdt_tma_fence(); /* others have been copied there */
  for (int strip = 0; rdt_wide_part_of<Ring::BK>(g, first / rounds + strip).end; strip++) {
    __syncwarp();
    ask(strip, 0);
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
      const int behind = strip * rounds + round, slot = (first + behind) % Ring::stages,
                lot = strip * lots + round / some;
      const uint32_t at = shared + Ring::asked + (lot % 2 * some + round % some) * bytes + 8 * lane;
      if (round % some == 0) {
        __syncwarp();
        ask(strip, round + some);
        rdt_mbarrier_wait(shared + Ring::copied + 8 * (uint32_t)(lot % 2), (uint32_t)(lot / 2) & 1);
      }
      uint32_t part[parts];
      rdt_columns_split(
          (const T *)nullptr,
          make_float2(scale * __uint_as_float(rdt_load4_shared(at)), scale * __uint_as_float(rdt_load4_shared(at + 4))),
          part);
      rdt_mbarrier_wait(shared + Ring::wanted + 8 * (uint32_t)slot, (uint32_t)(behind / Ring::stages) & 1);
#pragma unroll
      for (int i = 0; i < parts; i++)
        asm volatile(
            "st.shared.b32 [%0], %1;" ::"r"(shared + (uint32_t)slot * Ring::stage_bytes + Ring::a_bytes +
                                            Ring::b_bytes + 128 * i + 16 * (uint32_t)(lane / 4 ^ i) + 4 * (lane % 4)),
            "r"(part[i])
            : "memory");
      rdt_tma_fence();
      __syncwarp();
      if (lane == 0) rdt_mbarrier_arrive_here(shared + Ring::brought + 8 * (uint32_t)slot);
    }
  }
}

/* ---- a strip: (u A) B of 256 columns ---- */

/* A round. The second half of the columns is where A is, of other tiles. */
template <class T, class Ring, int b_mn>
RDT_DEVICE void rdt_columns_round(float (&c)[Ring::MT][Ring::held], uint32_t stage, int add) {
#pragma unroll
  for (int k = 0; k < Ring::BK / 16; k++)
#pragma unroll
    for (int i = 0; i < Ring::MT; i++)
      rdt_wgmma<T, Ring::BN, 0, b_mn>::step(
          *(float(*)[Ring::BN / 2]) c[i], rdt_wgmma_again(stage + Ring::a_bytes + Ring::b_bytes + 32 * k),
          rdt_wgmma_place(stage + (i ? 0 : Ring::a_bytes) + (b_mn ? 2048 : 32) * k, b_mn ? Ring::piece : 16),
          k ? 1 : add);
}

/* Numbers that eight lanes, every fourth, have of the same sixteen columns: two sums are left to each, of the two from
 * 2 (lane / 4) on. */
RDT_DEVICE float2 rdt_columns_share(float (&x)[16]) {
  rdt_columns_halve<8, 16>(x);
  rdt_columns_halve<4, 8>(x);
  rdt_columns_halve<2, 4>(x);
  return make_float2(x[0], x[1]);
}

template <class Hit>
RDT_DEVICE void rdt_columns_judge(const rdt_mma_args &p, const rdt_columns &c, int column, float s, float c2, float e,
                                  float a2, float peak, Hit &hit) {
  const rdt_place_of at = {0, column, p.m, 1, 0, p.k};
  const float b2 = (float)p.k * peak + c.bound.a2_floor;
  float q = (a2 + (float)p.m * c.bound.a2_floor) * (peak + RDT_MMA_LOST), tau2, tau0;
  if (s == 0.0f && c2 == 0.0f && a2 == 0.0f) return;      /* nothing was left to compare */
  if (!(fabsf(e) < rdt_infinite(e))) q = rdt_infinite(e); /* parts of u A that f16 does not hold: no bound */
  if constexpr (Hit::on)
    if (!c.rows) c2 = hit.squares(at, c2);
  if (!Hit::on && rdt_passes(c.bound, s, e, q)) return;
  const int complaint = rdt_judge_sums(c.bound, s, c2, e, b2, q, &tau2, &tau0);
  if (complaint) rdt_complain_inline(p.verdict, complaint, at, s, e, tau2, tau0);
  if constexpr (Hit::on)
    if (!c.rows) hit.bound_of_row(at, (double)tau2);
}

/* What two columns of a thread are compared with: asked for before the product is there. */
struct rdt_columns_sums {
  float4 s;
  float a2, peak[2];
  int column;
};
template <class Ring>
RDT_DEVICE rdt_columns_sums rdt_columns_ask(const rdt_wgmma_args &g, int strip, unsigned turn) {
  const int thread = rdt_thread_anew(), lane = thread % 32, part = thread / 32 % 4; /* of a strip, of a warp each */
  rdt_columns_sums of;
  of.column =
      RDT_COLUMNS_STRIP * strip + part % Ring::MT * Ring::BN + part / Ring::MT * 64 + lane / 4 * 8 + lane % 4 * 2;
  of.s = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  of.a2 = __ldcg(rdt_columns_a2(g.columns, turn));
#pragma unroll
  for (int i = 0; i < 2; i++) of.peak[i] = of.column + i < g.p.n ? __ldg(g.columns.peak + of.column + i) : 0.0f;
#pragma unroll 4
  for (int copy = 0; copy < g.columns.copies; copy++) {
    const float4 x = __ldcg(rdt_columns_c(g.columns, turn, copy) + of.column / 2);
    of.s.x += x.x, of.s.y += x.y, of.s.z += x.z, of.s.w += x.w;
  }
  return of;
}

/* All warps have the same: each compares 64 columns. Nothing is left of c. */
template <class T, class Ring>
RDT_DEVICE void rdt_columns_compare(const rdt_wgmma_args &g, float (&c)[Ring::MT][Ring::held],
                                    const rdt_columns_sums &of) {
  const rdt_mma_args &p = g.p;
  /* The same in all lanes, as far as the compiler knows, too: else it keeps nothing of the rounds in uniform registers.
   */
  const int thread = rdt_thread_anew(), warp = __shfl_sync(0xffffffffu, thread / 32 % 4, 0), part = thread % 32 / 4;
  constexpr int parts = rdt_columns_parts((const T *)nullptr);
  const float weight = part >= parts                               ? 0.0f
                       : parts == RDT_WGMMA_PARTS_F16 && part == 1 ? g.columns.back * 0x1p-11f
                                                                   : g.columns.back;
#pragma unroll 1
  for (int i = 0; i < 4; i++) {
    if (i == warp) {
      rdt_no_hit none;
      float e[16];
#pragma unroll
      for (int j = 0; j < 16; j++) e[j] = weight != 0.0f ? weight * c[0][j / 2 * 4 + j % 2] : 0.0f;
      const float2 expected = rdt_columns_share(e);
      if (of.column < p.n)
        rdt_columns_judge(p, g.columns, of.column, of.s.x, of.s.z, expected.x, of.a2, of.peak[0], none);
      if (of.column + 1 < p.n)
        rdt_columns_judge(p, g.columns, of.column + 1, of.s.y, of.s.w, expected.y, of.a2, of.peak[1], none);
    }
    rdt_wide_up<Ring>(c);
  }
}

/* ---- sums of C's columns ---- */

/* A warp's 32 rows of a tile: each thread is left with two columns of each 64. */
template <class Ring>
RDT_DEVICE void rdt_columns_add(const rdt_wgmma_args &g, const float (&c)[Ring::MT][Ring::held], rdt_tile_place at,
                                unsigned turn) {
  static_assert(Ring::MT == 2 && Ring::BN == 128, "four rows of each thread");
  const int thread = rdt_thread_anew(), lane = thread % 32, warp = thread / 32 % 4;
  const bool b0 = lane & 4, b1 = lane & 8, b2 = lane & 16;
  const unsigned own = rdt_columns_signs(at.m, 2 * warp + b2), other = rdt_columns_signs(at.m, 2 * warp + !b2);
  const float upper = rdt_columns_factor(own, 1), eighth = rdt_columns_factor(own, 2),
              by_b0 = rdt_columns_factor(own, 4) * (b1 ? -1.0f : 1.0f), /* a row's sign over that of its neighbour */
      by_b1 = rdt_columns_factor(own, 3) * (b0 ? -1.0f : 1.0f);
  const unsigned minus = rdt_columns_sign(own, 0) ^ rdt_columns_pair(own, lane / 4);
  const float sign = rdt_columns_factor(minus, 0),
              unlike = rdt_columns_factor(minus ^ rdt_columns_sign(other, 0) ^ rdt_columns_pair(other, lane / 4), 0);
  float4 *const to = rdt_columns_c(g.columns, turn, at.m % g.columns.copies) + at.n * (Ring::BN / 2);
#pragma unroll
  for (int part = 0; part < 2; part++) {
    float v[16];
#pragma unroll
    for (int j = 0; j < 16; j++) {
      const int x = 32 * part + j / 2 * 4 + j % 2;
      v[j] = fmaf(upper, fmaf(-eighth, c[1][x + 2], c[1][x]), fmaf(eighth, c[0][x + 2], c[0][x]));
    }
    rdt_columns_halve<8, 4>(v, by_b0);
    rdt_columns_halve<4, 8>(v, by_b1);
    float s[2], c2[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float mine = b2 ? v[2 + i] : v[i], give = b2 ? v[i] : v[2 + i],
                  theirs = __shfl_xor_sync(0xffffffffu, give, 16);
      s[i] = sign * fmaf(unlike, theirs, mine), c2[i] = fmaf(mine, mine, theirs * theirs);
    }
    const int j = (b0 ? 4 : 0) + (b1 ? 2 : 0) + (b2 ? 1 : 0);
    rdt_add4(to + 32 * part + 4 * j + lane % 4, make_float4(s[0], s[1], c2[0], c2[1]));
  }
}

/* ---- kernels of their own ---- */

/* The largest square of each column of B, subnormals raised as tensor cores align them. By blocks of 256 threads, 32
 * columns each. side: B's rows lie side by side, not its columns. */
template <class T, bool side>
RDT_DEVICE void rdt_columns_peaks_of(const rdt_columns_args &a, float least) {
  __shared__ unsigned found[32];
  const rdt_mma_args &p = a.p;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, first = 32 * (int)blockIdx.x;
  const uint16_t *const b = (const uint16_t *)p.b;
  if (warp == 0) found[lane] = 0;
  __syncthreads();
  for (int i = side ? lane : warp; i < 32 && first + i < p.n; i += side ? 32 : 8) {
    unsigned most = 0; /* NaN is above all */
    for (int k = side ? warp : lane; k < p.k; k += side ? 8 : 32) {
      const float x = fabsf(T::wide(b[side ? k * p.ldb + first + i : (first + i) * p.ldb + k]).x);
      most = max(most, __float_as_uint(x > 0.0f && x < least ? least : x));
    }
    atomicMax(&found[i], most);
  }
  __syncthreads();
  const float most = __uint_as_float(found[lane]);
  if (warp == 0 && first + lane < p.n) ((float *)a.c.peak)[first + lane] = most * most;
}

/* What the last run has left. The same blocks. */
template <class T, bool side, class Hit>
RDT_DEVICE void rdt_columns_settle_of(const rdt_columns_args &a, Hit hit) {
  __shared__ float found[8][32];
  const rdt_mma_args &p = a.p;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, first = 32 * (int)blockIdx.x;
  const unsigned turn = rdt_columns_before(__ldcg(p.tickets + 1));
  const float *const u = rdt_columns_a(a.c, turn);
  const uint16_t *const b = (const uint16_t *)p.b;
  const auto term = [&](int k, int column) {
    return __ldcg(u + k) * T::wide(b[side ? k * p.ldb + column : column * p.ldb + k]).x;
  };
  float sum = 0.0f;
  if constexpr (side) {
    if (first + lane < p.n)
      for (int k = warp; k < p.k; k += 8) sum += term(k, first + lane);
    found[warp][lane] = sum;
  } else {
    for (int i = warp; i < 32; i += 8) {
      sum = 0.0f;
      if (first + i < p.n)
        for (int k = lane; k < p.k; k += 32) sum += term(k, first + i);
#pragma unroll
      for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
      if (lane < 8) found[lane][i] = lane ? 0.0f : sum;
    }
  }
  __syncthreads();
  const int column = first + lane;
  if (warp || column >= p.n) return;
  sum = 0.0f;
  for (int w = 0; w < 8; w++) sum += found[w][lane];
  float s = 0.0f, c2 = 0.0f;
  for (int copy = 0; copy < a.c.copies; copy++) {
    const float4 x = __ldcg(rdt_columns_c(a.c, turn, copy) + column / 2);
    s += column % 2 ? x.y : x.x, c2 += column % 2 ? x.w : x.z;
  }
  rdt_columns_judge(p, a.c, column, s, c2, sum, __ldcg(rdt_columns_a2(a.c, turn)), __ldg(a.c.peak + column), hit);
}

#endif
