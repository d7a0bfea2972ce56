/* Products on wgmma whose operands have k side by side (weights n x k): what gemm_wgmma_body.h does, with stages of 128
 * bytes of k, for types whose instructions take nothing else.
 *
 * Groups take tiles in turns, as there. Sums that are promoted take twice the registers, and once more what is being
 * multiplied meanwhile: there both groups have half of the rows of one tile.
 *
 * SUMS: a row's sum against the product of A with the signed sums of all of B's columns, which one tile of a row of
 * tiles forms. Integers are compared as they are. */
#ifndef RDT_CUDA_GEMM_WGMMA_DEEP_BODY_H
#define RDT_CUDA_GEMM_WGMMA_DEEP_BODY_H

#include "cuda/sm90/gemm_wgmma_types.h"

template <class T, class Tile, int check>
struct rdt_deep_ring {
  /* sums: of one tile of a row of tiles, k side by side */
  static constexpr bool beside = true, abreast = false, rows = check == RDT_MMA_SUMS, columns = false;
  static constexpr int BM = Tile::BM, BN = Tile::BN, BK = 128 / T::bytes, MT = T::promoted ? Tile::MT / 2 : Tile::MT,
                       piece = 64 * 128, a_bytes = BM * 128, b_bytes = BN * 128, held = BN / 2 + 4,
                       sums_bytes = check == RDT_MMA_NONE ? 0 : RDT_WGMMA_SUMS * 128,
                       stage_bytes = a_bytes + b_bytes + sums_bytes, out_bytes = piece /* of a group */, least = 256,
                       fit = (RDT_WGMMA_SHARED - 2 * out_bytes - least) / stage_bytes,
                       stages = fit < Tile::most ? fit : Tile::most, out = stages * stage_bytes,
                       barriers = out + 2 * out_bytes, turn = barriers + 16 * stages;
  static_assert(turn + 16 <= RDT_WGMMA_SHARED, "more than a block has");
  static_assert(BN == 128, "instructions have 128 columns");
};

/* Where a group is: its tile, the stage, and which one it has not given back. */
struct rdt_deep_place {
  rdt_tile_place tile;
  bool there; /* such a tile, below the other block's */
  int slot, before;
  uint32_t parity;
};

template <class Ring>
RDT_DEVICE void rdt_deep_next(rdt_deep_place &at) {
  at.before = at.slot;
  if (++at.slot == Ring::stages) at.slot = 0, at.parity ^= 1;
}

template <class Ring>
RDT_DEVICE void rdt_deep_release(uint32_t shared, int slot) {
  const int lane = (int)threadIdx.x % 32;
  if (lane < RDT_WGMMA_CLUSTER)
    rdt_mbarrier_arrive(shared + Ring::barriers + 8 * (uint32_t)(Ring::stages + slot), (uint32_t)lane);
}

/* ---- multiplying ---- */

template <int columns, int count, class R>
RDT_DEVICE R (&rdt_deep_part(R (&c)[count], int first))[columns / 2] {
  return *(R(*)[columns / 2])(c + first / 2);
}

/* A stage. add: to c. Sums of columns are eight columns more of the same instruction, or have one of their own, which
 * reads A once more: integers' columns come in sixteens, and where sums are promoted ptxas has no registers for both
 * shapes, and waits for each instruction. */
template <class T, class Ring, bool checked, class R>
RDT_DEVICE void rdt_deep_stage(R (&c)[Ring::MT][Ring::held], uint32_t a, uint32_t b, int add) {
  constexpr int columns = Ring::BN + (checked && !T::apart ? RDT_WGMMA_SUMS : 0);
  rdt_wgmma_begin();
#pragma unroll
  for (int k = 0; k < 4; k++)
#pragma unroll
    for (int i = 0; i < Ring::MT; i++)
      rdt_wgmma<T, columns, 0, 0>::step(rdt_deep_part<columns>(c[i], 0),
                                        rdt_wgmma_place(a + i * Ring::piece + 32 * k, 16),
                                        rdt_wgmma_place(b + 32 * k, 16), k ? 1 : add);
  if constexpr (checked && T::apart) {
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int i = 0; i < Ring::MT; i++)
        rdt_wgmma<T, RDT_WGMMA_SUMS, 0, 0>::step(
            rdt_deep_part<RDT_WGMMA_SUMS>(c[i], Ring::BN), rdt_wgmma_place(a + i * Ring::piece + 32 * k, 16),
            rdt_wgmma_place(b + Ring::b_bytes + 32 * k, 16), T::promoted && k == 0 ? 0 : 1);
  }
  rdt_wgmma_commit();
}

/* Rounds from..end of a tile. */
template <class T, class Ring, bool checked, class R, class Hit>
RDT_DEVICE void rdt_deep_rounds(R (&c)[Ring::MT][Ring::held], uint32_t shared, int group, int from, int end,
                                rdt_deep_place &at, Hit &hit) {
#pragma unroll 1
  for (int round = from; round < end; round++) {
    const uint32_t stage = shared + (uint32_t)at.slot * Ring::stage_bytes;
    rdt_mbarrier_wait(shared + Ring::barriers + 8 * (uint32_t)at.slot, at.parity);
    if constexpr (Hit::on) {
      hit.template operand<0>(at.tile.all, at.tile.n, round, stage);
      rdt_tma_fence();
      rdt_bar_sync(3 + group, 128);
    }
    rdt_deep_stage<T, Ring, checked>(c, stage, stage + Ring::a_bytes, round > 0);
    if constexpr (Hit::on) {
      rdt_wgmma_wait<0>();
#pragma unroll
      for (int i = 0; i < Ring::MT; i++) rdt_wgmma_keep(c[i]);
      if (at.there) hit.accumulators(at.tile.all, at.tile.n, round, c);
    }
    if (round > 0) {
      rdt_wgmma_wait<1>();
      rdt_deep_release<Ring>(shared, at.before);
    }
    rdt_deep_next<Ring>(at);
  }
}

/* The same into sums of a stage each, which are added to c while the next one is multiplied. */
template <class T, class Ring, bool checked, class Hit>
RDT_DEVICE void rdt_deep_promote(float (&c)[1][Ring::held], uint32_t shared, int group, int from, int end,
                                 rdt_deep_place &at, Hit &hit) {
  constexpr int count = checked ? Ring::held : Ring::BN / 2;
  float part[2][1][Ring::held];
  int round = from, slot[2];
  const auto multiply = [&](auto to) {
    constexpr int w = to.value;
    const uint32_t stage = shared + (uint32_t)at.slot * Ring::stage_bytes;
    rdt_mbarrier_wait(shared + Ring::barriers + 8 * (uint32_t)at.slot, at.parity);
    if constexpr (Hit::on) {
      if (group == 0) hit.template operand<0>(at.tile.all, at.tile.n, round, stage);
      rdt_tma_fence();
      rdt_bar_sync(5, 256);
    }
    rdt_deep_stage<T, Ring, checked>(part[w], stage + (uint32_t)group * Ring::piece, stage + Ring::a_bytes, 0);
    if constexpr (Hit::on) {
      rdt_wgmma_wait<0>();
      rdt_wgmma_keep(part[w][0]);
      if (at.there) hit.accumulators(at.tile.all, at.tile.n, round, part[w], group * Ring::BN / 2);
    }
    slot[w] = at.slot;
    rdt_deep_next<Ring>(at);
    round++;
  };
  const auto add = [&](auto which) {
    constexpr int w = which.value;
    rdt_deep_release<Ring>(shared, slot[w]);
    rdt_wgmma_keep(rdt_deep_part<2 * count>(part[w][0], 0));
#pragma unroll
    for (int j = 0; j < count; j++) c[0][j] += part[w][0][j];
  };
  const rdt_flag<false> one;
  const rdt_flag<true> two;
  if (from >= end) return;
  multiply(one);
#pragma unroll 1
  for (int pairs = (end - from - 1) / 2; pairs > 0; pairs--) {
    multiply(two);
    rdt_wgmma_wait<1>();
    add(one);
    multiply(one);
    rdt_wgmma_wait<1>();
    add(two);
  }
  if (round < end) {
    multiply(two);
    rdt_wgmma_wait<1>();
    add(one);
    rdt_wgmma_wait<0>();
    add(two);
  } else {
    rdt_wgmma_wait<0>();
    add(one);
  }
}

/* ---- what follows ---- */

/* Four threads have rows in common. Of each half of what they sum one keeps what the other gives away, twice: of 4 n
 * numbers n are left to each, those from n (lane % 4 / 2 * 2 + lane % 2) on. */
template <int n, class R>
RDT_DEVICE void rdt_deep_share(const R (&v)[4 * n], R (&mine)[n]) {
  const bool high = threadIdx.x & 2, odd = threadIdx.x & 1;
  R half[2 * n];
#pragma unroll
  for (int i = 0; i < 2 * n; i++)
    half[i] = (high ? v[2 * n + i] : v[i]) + __shfl_xor_sync(0xffffffffu, high ? v[i] : v[2 * n + i], 2);
#pragma unroll
  for (int i = 0; i < n; i++)
    mine[i] = (odd ? half[n + i] : half[i]) + __shfl_xor_sync(0xffffffffu, odd ? half[i] : half[n + i], 1);
}

/* The signed sums of the rows that four threads have, and what is expected of them, are added to those of the other
 * tiles. Squares of half of C: no more is needed to know their size, and what is less makes bounds no looser. */
template <class T, class Ring>
RDT_DEVICE void rdt_deep_sum(const rdt_wgmma_args &g, const int (&c)[Ring::MT][Ring::held], unsigned turn,
                             rdt_tile_place tile, int row0) {
  static_assert(Ring::MT == 2, "four rows");
  const int lane = (int)threadIdx.x % 32;
  const bool minus = rdt_wide_sign_of(tile.n, lane % 4) != 0;
  unsigned v[4], mine[1];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    unsigned s = 0;
#pragma unroll
    for (int j = 0; j < Ring::BN / 8; j++)
#pragma unroll
      for (int x = 0; x < 2; x++) {
        const unsigned y = (unsigned)c[r / 2][4 * j + r % 2 * 2 + x];
        s = rdt_mma_sign((unsigned)(2 * j + x)) ? s - y : s + y;
      }
    v[r] = (minus ? 0u - s : s) - (unsigned)rdt_wide_expected((const T *)nullptr, c[r / 2] + Ring::BN / 2 + r % 2 * 2);
  }
  rdt_deep_share<1>(v, mine);
  const int row = row0 + 64 * (lane % 4 / 2) + 8 * (lane % 2) + lane / 4;
  if (row < g.p.m) atomicAdd(rdt_deep_sums(g.p, turn) + tile.batch * g.p.m + row, mine[0]);
}
template <class T, class Ring>
RDT_DEVICE void rdt_deep_sum(const rdt_wgmma_args &g, const float (&c)[Ring::MT][Ring::held], unsigned turn,
                             rdt_tile_place tile, int row0) {
  const int lane = (int)threadIdx.x % 32;
  const unsigned other = rdt_wide_sign_of(tile.n, lane % 4);
#pragma unroll
  for (int i = 0; i < Ring::MT; i++) {
    float v[8], mine[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float s = 0.0f, c2 = 0.0f;
#pragma unroll
      for (int j = 0; j < Ring::BN / 8; j++)
#pragma unroll
        for (int x = 0; x < 2; x++) {
          const float y = c[i][4 * j + 2 * h + x];
          s = rdt_mma_sign((unsigned)(2 * j + x)) ? s - y : s + y;
          if (j % 2 == 0) c2 = fmaf(y, y, c2);
        }
      const float2 e = rdt_wide_expected((const T *)nullptr, c[i] + Ring::BN / 2 + 2 * h);
      v[4 * h] = __uint_as_float(__float_as_uint(s) ^ other), v[4 * h + 1] = c2;
      v[4 * h + 2] = T::promoted ? e.x * g.sums_scale : e.x, v[4 * h + 3] = e.y;
    }
    rdt_deep_share<2>(v, mine);
    const int row = row0 + 64 * i + 8 * (lane % 4 / 2) + lane / 4;
    float *to = (float *)(rdt_wide_sums(g.p, turn) + tile.batch * g.p.m + row) + 2 * (lane % 2);
    if (row < g.p.m) atomicAdd(to, mine[0]), atomicAdd(to + 1, mine[1]);
  }
}

/* Bias, residual, relu of integers, 64 columns: in place. */
RDT_DEVICE void rdt_deep_extra(const rdt_wgmma_args &g, int *c, int batch, int row0, int column0) {
  const rdt_mma_args &p = g.p;
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 32; j++) {
    const int row = row0 + j % 4 / 2 * 8 + lane / 4, column = column0 + j / 4 * 8 + 2 * (lane % 4) + j % 2;
    const int64_t at = batch * g.r_next + row * p.ldr + column;
    if (p.bias && column < p.n) c[j] = rdt_plus(c[j], ((const int *)p.bias)[column]);
    if (p.residual && row < p.m && column < p.n) c[j] = rdt_plus(c[j], ((const int *)p.residual)[at]);
    if (p.relu && c[j] < 0) c[j] = 0;
  }
}
RDT_DEVICE void rdt_deep_extra(const rdt_wgmma_args &g, float *c, int batch, int row0, int column0) {
  rdt_wide_extra(g, c, batch, row0, column0);
}

RDT_DEVICE float rdt_deep_bits(float x) {
  return x;
}
RDT_DEVICE float rdt_deep_bits(int x) {
  return __int_as_float(x);
}

/* 64 columns through shared memory, 128 bytes of each of 64 rows at once: it has room for no more beside the stages. */
template <class T, class Ring, bool wide, class R>
RDT_DEVICE void rdt_deep_put(const rdt_wgmma_args &g, const R *c, uint32_t shared, int group, int batch, int row,
                             int column0) {
  constexpr int columns = wide ? 32 : 64; /* of a pass */
  const uint32_t out = shared + Ring::out + (uint32_t)group * Ring::out_bytes;
  const bool first = threadIdx.x % 128 == 0;
  float stored[32];
#pragma unroll
  for (int j = 0; j < 32; j++) stored[j] = rdt_deep_bits(c[j]);
#pragma unroll
  for (int pass = 0; pass < 64 / columns; pass++) {
    const int column = column0 + pass * columns;
    if (first) rdt_tma_wait_read<0>();
    rdt_bar_sync(3 + group, 128);
    rdt_wide_fill<T, wide>(stored + pass * columns / 2, out);
    rdt_tma_fence();
    rdt_bar_sync(3 + group, 128);
    if (first && column < g.stored) {
      if (row < g.p.m) rdt_tma_store_of(&g.c, column, row, batch, out);
      rdt_tma_commit();
    }
  }
}

/* Columns that do not fill 16 bytes, of 64: TMA would write all of these. From registers: for a loop over what lies in
 * shared memory (rdt_wide_store_rest) there are none left beside two groups' sums. */
template <class T>
RDT_DEVICE void rdt_deep_store_rest(const rdt_wgmma_args &g, const float *c, int batch, int row0, int column0) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 32; j++) {
    const int column = column0 + j / 4 * 8 + 2 * (lane % 4) + j % 2, row = row0 + j % 4 / 2 * 8 + lane / 4;
    const int64_t at = batch * g.c_next + row * g.p.ldc + column;
    if (column < g.stored || column >= g.p.n || row >= g.p.m) continue;
    if (g.p.c_type == RDT_MMA_F32)
      ((float *)g.p.c)[at] = c[j];
    else
      ((uint16_t *)g.p.c)[at] = (uint16_t)T::narrow(c[j], 0.0f);
  }
}

/* Of any type of result. */
template <class T, class Ring, class R>
RDT_DEVICE void rdt_deep_store(const rdt_wgmma_args &g, const R *c, uint32_t shared, int group, int batch, int row0,
                               int column) {
  const int row = row0 + 16 * ((int)threadIdx.x / 32 % 4);
  float bits[32];
  if (__builtin_expect(g.stored < g.p.n && column + 64 > g.stored, 0)) {
#pragma unroll
    for (int j = 0; j < 32; j++) bits[j] = rdt_deep_bits(c[j]);
    if (T::promoted && g.p.c_type == RDT_MMA_BF16)
      rdt_deep_store_rest<rdt_bf16>(g, bits, batch, row, column);
    else
      rdt_deep_store_rest<rdt_f16>(g, bits, batch, row, column);
  }
  if (!T::promoted || g.p.c_type == RDT_MMA_F32)
    rdt_deep_put<rdt_f16, Ring, true>(g, c, shared, group, batch, row0, column);
  else if (g.p.c_type == RDT_MMA_F16)
    rdt_deep_put<rdt_f16, Ring, false>(g, c, shared, group, batch, row0, column);
  else
    rdt_deep_put<rdt_bf16, Ring, false>(g, c, shared, group, batch, row0, column);
}

/* A sum requantised, with the bits of every other kernel that does it (rdt_requantize). */
RDT_DEVICE unsigned rdt_deep_byte(const rdt_wgmma_args &g, int x, int column) {
  constexpr float rounder = 0x1.8p23f;
  float y = (float)x;
  if (g.p.bias) y = rdt_add(y, (float)((const int *)g.p.bias)[column]);
  y = rdt_mul(y, g.factor[column * g.each]);
  y = y > g.low ? y : g.low, y = y < g.high ? y : g.high;
  return (unsigned)((int)rdt_add(rdt_add(y, rounder), -rounder) + g.zero) & 0xff;
}

/* 64 columns of them: boxes of 64 bytes, as they lie. */
template <class Ring>
RDT_DEVICE void rdt_deep_bytes(const rdt_wgmma_args &g, const int *c, uint32_t shared, int group, int batch, int row0,
                               int column0) {
  const int lane = (int)threadIdx.x % 32, within = 16 * ((int)threadIdx.x / 32 % 4) + lane / 4;
  const uint32_t out = shared + Ring::out + (uint32_t)group * Ring::out_bytes;
  const bool first = threadIdx.x % 128 == 0;
  uint8_t *const to = (uint8_t *)g.p.c + batch * g.c_next;
  if (first) rdt_tma_wait_read<0>();
  rdt_bar_sync(3 + group, 128);
#pragma unroll
  for (int j = 0; j < 32; j += 2) {
    const int line = within + j % 4 / 2 * 8, at = j / 4 * 8 + 2 * (lane % 4), column = column0 + at, row = row0 + line;
    const unsigned x = column < g.p.n ? rdt_deep_byte(g, c[j], column) : 0,
                   y = column + 1 < g.p.n ? rdt_deep_byte(g, c[j + 1], column + 1) : 0;
    rdt_store2_shared(out + (uint32_t)(64 * line + at), x | y << 8);
    if (row >= g.p.m) continue;
    if (column >= g.stored && column < g.p.n) to[row * g.p.ldc + column] = (uint8_t)x;
    if (column + 1 >= g.stored && column + 1 < g.p.n) to[row * g.p.ldc + column + 1] = (uint8_t)y;
  }
  rdt_tma_fence();
  rdt_bar_sync(3 + group, 128);
  if (first && column0 < g.stored) {
    if (row0 < g.p.m) rdt_tma_store_of(&g.c, column0, row0, batch, out);
    rdt_tma_commit();
  }
}

/* Of a tile, or a group's half of it. Sums of what is stored as it is are formed while the copy is under way. What
 * follows a product is one piece of code for all columns, a quarter as long. */
template <class T, class Ring, int check, class R>
RDT_DEVICE void rdt_deep_finish(const rdt_wgmma_args &g, R (&c)[Ring::MT][Ring::held], uint32_t shared, int group,
                                rdt_tile_place tile, int row0) {
  constexpr int parts = Ring::MT * Ring::BN / 64;
  const int warp = (int)threadIdx.x / 32 % 4, column0 = tile.n * Ring::BN;
  const bool now = g.extra || g.p.alpha != 1.0f;
  const auto sum = [&] { rdt_deep_sum<T, Ring>(g, c, rdt_wide_turn_now<Ring>(shared), tile, row0 + 16 * warp); };
  if (now) {
    if constexpr (check != RDT_MMA_NONE) sum();
#pragma unroll 1
    for (int part = 0; part < parts; part++) {
      const int row = row0 + part % Ring::MT * 64, column = column0 + part / Ring::MT * 64;
      bool bytes = false;
      if constexpr (T::exact)
        if ((bytes = g.factor != nullptr)) rdt_deep_bytes<Ring>(g, c[0], shared, group, tile.batch, row, column);
      if (!bytes) {
        rdt_deep_extra(g, c[0], tile.batch, row + 16 * warp, column);
        rdt_deep_store<T, Ring>(g, c[0], shared, group, tile.batch, row, column);
      }
      rdt_wide_up<Ring>(c);
    }
    return;
  }
#pragma unroll
  for (int part = 0; part < parts; part++)
    rdt_deep_store<T, Ring>(g, c[part % Ring::MT] + part / Ring::MT * 32, shared, group, tile.batch,
                            row0 + part % Ring::MT * 64, column0 + part / Ring::MT * 64);
  if constexpr (check != RDT_MMA_NONE) sum();
}

/* ---- the groups ---- */

/* Each a tile of its own, one after the other. */
template <class T, class Ring, int check, class Hit>
RDT_DEVICE void rdt_deep_turns(const rdt_wgmma_args &g, uint32_t shared, int group, Hit &hit) {
  typedef typename T::sum R;
  const int rank = (int)rdt_cluster_rank(), rounds = (g.p.k + Ring::BK - 1) / Ring::BK,
            step = (int)gridDim.x / RDT_WGMMA_CLUSTER;
  int done = group * rounds; /* rounds that this block has loaded before */
  for (int tile = (int)blockIdx.x / RDT_WGMMA_CLUSTER + group * step; tile < g.tiles; tile += 2 * step) {
    rdt_deep_place at = {rdt_tile_of(g, tile, rank)};
    const rdt_rounds checked = rdt_wide_checked<check, 0>(g, at.tile, rounds);
    at.there = rdt_tile_there(g, at.tile);
    at.slot = at.before = done % Ring::stages, at.parity = (uint32_t)(done / Ring::stages) & 1;
    R c[Ring::MT][Ring::held];
#pragma unroll
    for (int i = 0; i < Ring::MT; i++) {
#pragma unroll
      for (int j = Ring::BN / 2; j < Ring::held; j++) c[i][j] = 0;
      if constexpr (check != RDT_MMA_NONE) rdt_wgmma_keep(rdt_deep_part<RDT_WGMMA_SUMS>(c[i], Ring::BN));
    }
    rdt_bar_sync(1 + group, 256); /* the other group's loop is done */
    if constexpr (check == RDT_MMA_SUMS) {
      rdt_deep_rounds<T, Ring, false>(c, shared, group, 0, checked.first, at, hit);
      rdt_deep_rounds<T, Ring, true>(c, shared, group, checked.first, checked.end, at, hit);
      rdt_deep_rounds<T, Ring, false>(c, shared, group, checked.end, rounds, at, hit);
    } else {
      rdt_deep_rounds<T, Ring, false>(c, shared, group, 0, rounds, at, hit);
    }
    rdt_bar_arrive(1 + (group ^ 1), 256);
    rdt_wgmma_wait<0>();
    rdt_deep_release<Ring>(shared, at.before);
#pragma unroll
    for (int i = 0; i < Ring::MT; i++) rdt_wgmma_keep(c[i]);
    done += 2 * rounds;
    if (!at.there) continue;
    if constexpr (Hit::on) hit.accumulators(at.tile.all, at.tile.n, -1, c);
    rdt_deep_finish<T, Ring, check>(g, c, shared, group, at.tile, at.tile.m * Ring::BM);
  }
}

/* Both half of the rows of a tile. */
template <class T, class Ring, int check, class Hit>
RDT_DEVICE void rdt_deep_halves(const rdt_wgmma_args &g, uint32_t shared, int group, Hit &hit) {
  const int rank = (int)rdt_cluster_rank(), rounds = (g.p.k + Ring::BK - 1) / Ring::BK,
            step = (int)gridDim.x / RDT_WGMMA_CLUSTER;
  rdt_deep_place at = {};
  for (int tile = (int)blockIdx.x / RDT_WGMMA_CLUSTER; tile < g.tiles; tile += step) {
    at.tile = rdt_tile_of(g, tile, rank);
    at.there = rdt_tile_there(g, at.tile);
    const rdt_rounds checked = rdt_wide_checked<check, 0>(g, at.tile, rounds);
    float c[1][Ring::held];
#pragma unroll
    for (int j = 0; j < Ring::held; j++) c[0][j] = 0.0f;
    if constexpr (check == RDT_MMA_SUMS) {
      rdt_deep_promote<T, Ring, false>(c, shared, group, 0, checked.first, at, hit);
      rdt_deep_promote<T, Ring, true>(c, shared, group, checked.first, checked.end, at, hit);
      rdt_deep_promote<T, Ring, false>(c, shared, group, checked.end, rounds, at, hit);
    } else {
      rdt_deep_promote<T, Ring, false>(c, shared, group, 0, rounds, at, hit);
    }
    if (!at.there) continue; /* there is none below the other */
    if constexpr (Hit::on) hit.accumulators(at.tile.all, at.tile.n, -1, c, group * Ring::BN / 2);
    rdt_deep_finish<T, Ring, check>(g, c, shared, group, at.tile, at.tile.m * Ring::BM + 64 * group);
  }
}

/* By a warp that has nothing else to do. */
template <class T, class Ring>
RDT_DEVICE void rdt_deep_last(const rdt_wgmma_args &g, uint32_t shared, volatile unsigned *turn_now) {
  rdt_no_hit none;
  const rdt_wide_turn turn = rdt_wide_turn_of(g);
  if (threadIdx.x % 32 == 0) {
    *turn_now = turn.now;
    rdt_mbarrier_arrive_here(shared + Ring::turn);
  }
  if (turn.pending) rdt_deep_compare<T::exact>(g.p, turn.now + 1, blockIdx.x, gridDim.x, none);
  __syncwarp();
  if (threadIdx.x % 32 == 0) rdt_wide_left(g, turn);
}

/* ---- a block ---- */

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_gemm_wgmma_deep(const rdt_wgmma_args &g, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  typedef rdt_deep_ring<T, Tile, check> Ring;
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t shared = rdt_shared(memory);
  const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0),
            warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Ring::stages; i++) {
      rdt_mbarrier_init(shared + Ring::barriers + 8 * i, 1);
      rdt_mbarrier_init(shared + Ring::barriers + 8 * (Ring::stages + i), (T::promoted ? 8 : 4) * RDT_WGMMA_CLUSTER);
    }
    rdt_mbarrier_init(shared + Ring::turn, 1);
    rdt_mbarrier_init_done();
    rdt_tma_prefetch(&g.a), rdt_tma_prefetch(&g.b), rdt_tma_prefetch(&g.c);
    if (check != RDT_MMA_NONE) rdt_tma_prefetch(&g.sums);
  }
  __syncthreads();
  rdt_cluster_meet();
  rdt_grid_admit();
  rdt_grid_await();
  if (group == 0) {
    rdt_registers_fewer<40>();
    if (threadIdx.x == 0)
      rdt_wide_load<Ring, 0, 0, check>(g, shared);
    else if (check == RDT_MMA_SUMS && warp == 1)
      rdt_deep_last<T, Ring>(g, shared, (volatile unsigned *)(memory + Ring::turn + 8));
  } else {
    rdt_registers_more<232>();
    if constexpr (T::promoted) {
      rdt_deep_halves<T, Ring, check>(g, shared, group - 1, hit);
    } else {
      if (group == 2) rdt_bar_arrive(1, 256); /* the first group begins */
      rdt_deep_turns<T, Ring, check>(g, shared, group - 1, hit);
    }
    if (threadIdx.x % 128 == 0) rdt_tma_wait();
  }
#endif
}

#endif
