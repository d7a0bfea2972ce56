/* Products on wgmma: 16-bit operands through shared memory (TMA, a ring of stages), accumulators f32 in registers.
 *
 * A block stays, and takes one tile of C after the other. One warp loads; two groups of four warps multiply, each a
 * tile of its own in turns (one multiplies while the other rounds and stores), or both the halves of one. Two blocks
 * make a cluster with tiles one below the other, and load their columns of B together. Order of addition: along k,
 * whatever the tile; no bits depend on the check.
 *
 * SUMS: the groups sum the rows of what they have accumulated, before it is rounded. Two more warps form what is
 * expected, from the same stages, but of each tile only a share of its rows: most of what a row is made of was loaded
 * by others. The last warp compares what the run before has left, or a kernel of its own does when nobody runs: fences
 * that would order blocks within a run stop the copies for microseconds. */
#ifndef RDT_CUDA_GEMM_WGMMA_BODY_H
#define RDT_CUDA_GEMM_WGMMA_BODY_H

#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/sm80/gemm_mma_checks.h"
#include "cuda/sm90/gemm_wgmma_sums.h"

template <bool turns_, int MT_, int BN_, int stages_>
struct rdt_wide_tile { /* turns: each group of warps has a tile of its own; MT: 64 rows of a group */
  static constexpr bool turns = turns_;
  static constexpr int MT = MT_, BN = BN_, stages = stages_, WM = 64 * MT, BM = turns ? WM : 2 * WM, BK = 64;
  static constexpr int a_bytes = BM * BK * 2, b_bytes = BN * BK * 2, stage_bytes = a_bytes + b_bytes,
                       piece = 64 * BK * 2;    /* what is loaded or stored at once: 64 rows of 128 bytes */
  static constexpr int out_bytes = MT * piece; /* of a group */
  static constexpr int parts = stages * stage_bytes + 2 * out_bytes, part_bytes = BK * 4,
                       barriers = parts + stages * part_bytes, turn = barriers + 16 * stages, shared = turn + 16;
  static constexpr int words = BN / 128; /* of signs */
};

/* Which set of sums this run writes: asked for long after the last warp has read it. */
template <class Shape>
RDT_DEVICE unsigned rdt_wide_turn_now(uint32_t shared) {
  rdt_mbarrier_wait(shared + Shape::turn, 0);
  return rdt_load4_shared(shared + Shape::turn + 8);
}

/* Rows of a tile of which it forms what is expected, and warps that share them, four rows each at once. */
template <class Shape>
RDT_DEVICE int rdt_wide_share(const rdt_mma_args &p) {
  return (Shape::BM + p.column_blocks - 1) / p.column_blocks;
}
template <class Shape>
RDT_DEVICE int rdt_wide_helpers(const rdt_mma_args &p) {
  return rdt_wide_share<Shape>(p) > 4 ? 2 : 1;
}

struct rdt_tile_place {
  int m, n; /* in tiles */
};

/* Tiles that are computed at the same time lie in a patch: what they load is found in L2. */
RDT_DEVICE rdt_tile_place rdt_tile_of(const rdt_wgmma_args &g, int tile, int rank) {
  constexpr int rows = 8;
  const int pairs = (g.row_blocks + 1) / 2, strip = tile / (rows * g.p.column_blocks),
            within = tile - strip * rows * g.p.column_blocks, height = min(rows, pairs - strip * rows);
  return {2 * (strip * rows + within % height) + rank, within / height};
}

/* ---- loading ---- */

template <class Shape, int b_mn, int check>
RDT_DEVICE void rdt_wide_load(const rdt_wgmma_args &g, uint32_t shared) {
  constexpr int pieces = Shape::BN / 64 / RDT_WGMMA_CLUSTER;
  const int rank = (int)rdt_cluster_rank(), rounds = (g.p.k + Shape::BK - 1) / Shape::BK;
  const uint32_t full = shared + Shape::barriers, empty = full + 8 * Shape::stages;
  int slot = 0;
  uint32_t parity = 1;
  for (int tile = (int)blockIdx.x / RDT_WGMMA_CLUSTER; tile < g.tiles; tile += (int)gridDim.x / RDT_WGMMA_CLUSTER) {
    const rdt_tile_place at = rdt_tile_of(g, tile, rank);
    for (int round = 0; round < rounds; round++) {
      const uint32_t stage = shared + (uint32_t)slot * Shape::stage_bytes, barrier = full + 8 * (uint32_t)slot;
      const int k = round * Shape::BK;
      rdt_mbarrier_wait(empty + 8 * (uint32_t)slot, parity);
      rdt_mbarrier_expect(barrier, Shape::stage_bytes + (check == RDT_MMA_SUMS ? Shape::part_bytes : 0));
#pragma unroll
      for (int i = 0; i < Shape::BM / 64; i++)
        rdt_tma_load(stage + i * Shape::piece, &g.a, k, at.m * Shape::BM + 64 * i, barrier);
#pragma unroll
      for (int i = 0; i < pieces; i++) {
        const int j = rank * pieces + i, column = at.n * Shape::BN + 64 * j;
        rdt_tma_load_all(stage + Shape::a_bytes + j * Shape::piece, &g.b, b_mn ? column : k, b_mn ? k : column, barrier,
                         (1 << RDT_WGMMA_CLUSTER) - 1);
      }
      if (check == RDT_MMA_SUMS)
        rdt_bulk_load(shared + Shape::parts + slot * Shape::part_bytes, (const float *)g.p.parts + k, Shape::part_bytes,
                      barrier);
      if (++slot == Shape::stages) slot = 0, parity ^= 1;
    }
  }
  for (int i = 0; i < Shape::stages; i++) { /* the other block has told all that it tells: shared memory may go */
    rdt_mbarrier_wait(empty + 8 * (uint32_t)slot, parity);
    if (++slot == Shape::stages) slot = 0, parity ^= 1;
  }
}

/* ---- what rows should sum to ---- */

template <class T>
RDT_DEVICE void rdt_wide_dot(const uint4 &a, const float (&w)[8], float &e, float &a2) {
  const uint32_t words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 x = T::wide(words[i]);
    e = fmaf(x.x, w[2 * i], e), e = fmaf(x.y, w[2 * i + 1], e);
    a2 = fmaf(x.x, x.x, a2), a2 = fmaf(x.y, x.y, a2);
  }
}

/* Every eighth row from one on, of a stage; of eight threads each has 16 bytes of a row. */
template <class T, int count>
RDT_DEVICE void rdt_wide_dots(uint32_t stage, int row, const float (&w)[8], float *e, float *a2) {
  const int chunk = (int)threadIdx.x % 8;
  uint4 a[count];
#pragma unroll
  for (int i = 0; i < count; i++) a[i] = rdt_load16_shared(stage + 128 * (row + 8 * i) + 16 * (chunk ^ (row & 7)));
#pragma unroll
  for (int i = 0; i < count; i++) rdt_wide_dot<T>(a[i], w, e[i], a2[i]);
}

/* By one of two warps, four rows at once. Rows beyond those asked for are computed where that is no detour: they lie in
 * the stage as well, whatever they are. */
template <class T, class Shape>
RDT_DEVICE void rdt_wide_expect(const rdt_wgmma_args &g, uint32_t shared, int helper) {
  constexpr int most = Shape::BM / 8, together = 4;
  const rdt_mma_args &p = g.p;
  const int lane = (int)threadIdx.x % 32, rank = (int)rdt_cluster_rank(), share = rdt_wide_share<Shape>(p);
  const int rounds = (p.k + Shape::BK - 1) / Shape::BK;
  const uint32_t full = shared + Shape::barriers, empty = full + 8 * Shape::stages;
  int slot = 0;
  uint32_t parity = 0;
  for (int tile = (int)blockIdx.x / RDT_WGMMA_CLUSTER; tile < g.tiles; tile += (int)gridDim.x / RDT_WGMMA_CLUSTER) {
    const rdt_tile_place at = rdt_tile_of(g, tile, rank);
    const int first = at.n * share, rows = min(min(share, Shape::BM - first), p.m - at.m * Shape::BM - first);
    const int row0 = first + 4 * helper + lane / 8, count = (rows - 4 * helper + 7) / 8; /* none: 0, or less */
    float e[most], a2[most];
#pragma unroll
    for (int i = 0; i < most; i++) e[i] = a2[i] = 0.0f;
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
      const uint32_t stage = shared + (uint32_t)slot * Shape::stage_bytes,
                     part = shared + Shape::parts + (uint32_t)slot * Shape::part_bytes + 32 * (lane % 8);
      float w[8];
      rdt_mbarrier_wait(full + 8 * (uint32_t)slot, parity);
      rdt_load_shared(*(float(*)[4])w, part), rdt_load_shared(*(float(*)[4])(w + 4), part + 16);
#pragma unroll
      for (int i = 0; i < most; i += together) {
        if (count <= i) break;
        if (count == i + 1)
          rdt_wide_dots<T, 1>(stage, row0 + 8 * i, w, e + i, a2 + i);
        else
          rdt_wide_dots<T, together>(stage, row0 + 8 * i, w, e + i, a2 + i);
      }
      __syncwarp();
      if (lane == 0) rdt_mbarrier_arrive_here(empty + 8 * (uint32_t)slot);
      if (++slot == Shape::stages) slot = 0, parity ^= 1;
    }
    float2 *to = rdt_wide_sums(p, rdt_wide_turn_now<Shape>(shared)) + (int64_t)p.column_blocks * p.m + at.m * Shape::BM;
#pragma unroll
    for (int i = 0; i < most; i++) {
      if (count <= i) break;
#pragma unroll
      for (int d = 4; d > 0; d /= 2) {
        e[i] += __shfl_xor_sync(0xffffffffu, e[i], d);
        a2[i] += __shfl_xor_sync(0xffffffffu, a2[i], d);
      }
      if (lane % 8 == 0 && row0 + 8 * i < first + rows) to[row0 + 8 * i] = make_float2(e[i], a2[i]);
    }
  }
}

/* By the last warp. */
template <class Shape>
RDT_DEVICE void rdt_wide_last(const rdt_wgmma_args &g, uint32_t shared, volatile unsigned *turn_now) {
  rdt_no_hit none;
  const rdt_wide_turn turn = rdt_wide_turn_of(g);
  if (threadIdx.x % 32 == 0) {
    *turn_now = turn.now;
    rdt_mbarrier_arrive_here(shared + Shape::turn);
  }
  if (turn.pending) rdt_wide_compare(g.p, rdt_wide_sums(g.p, turn.now + 1), blockIdx.x, gridDim.x, none);
  __syncwarp();
  if (threadIdx.x % 32 == 0) rdt_wide_left(g, turn);
}

/* ---- multiplying ---- */

template <class T, class Shape, int b_mn>
RDT_DEVICE void rdt_wide_round(float (&c)[Shape::MT][Shape::BN / 2], uint32_t a, uint32_t b, int add) {
#pragma unroll
  for (int k = 0; k < Shape::BK / 16; k++)
#pragma unroll
    for (int i = 0; i < Shape::MT; i++)
      rdt_wgmma<T, Shape::BN, 0, b_mn>::step(c[i], rdt_wgmma_place(a + i * Shape::piece + 32 * k, 16),
                                             rdt_wgmma_place(b + (b_mn ? 2048 : 32) * k, b_mn ? Shape::piece : 16),
                                             k ? 1 : add);
}

/* ---- what follows ---- */

/* The signed sums of the rows that four threads have, and their squares. */
template <class Shape>
RDT_DEVICE void rdt_wide_sum(const rdt_wgmma_args &g, const float (&c)[Shape::MT][Shape::BN / 2],
                             const uint32_t (&signs)[Shape::words], float2 *sums, int row0) {
  const int lane = (int)threadIdx.x % 32;
  float s[Shape::MT][2], c2[Shape::MT][2];
#pragma unroll
  for (int i = 0; i < 2 * Shape::MT; i++) s[i / 2][i % 2] = c2[i / 2][i % 2] = 0.0f;
#pragma unroll
  for (int j = 0; j < Shape::BN / 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int bit = 2 * j + e;
      const float one = __uint_as_float(((signs[bit / 32] << (31 - bit % 32)) & 0x80000000u) | 0x3f800000u);
#pragma unroll
      for (int i = 0; i < Shape::MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const float x = c[i][4 * j + 2 * h + e];
          s[i][h] = fmaf(x, one, s[i][h]), c2[i][h] = fmaf(x, x, c2[i][h]);
        }
    }
#pragma unroll
  for (int i = 0; i < Shape::MT; i++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
      for (int d = 1; d < 4; d *= 2) {
        s[i][h] += __shfl_xor_sync(0xffffffffu, s[i][h], d);
        c2[i][h] += __shfl_xor_sync(0xffffffffu, c2[i][h], d);
      }
      const int row = row0 + 64 * i + 8 * h + lane / 4;
      if (lane % 4 == 0 && row < g.p.m) sums[row] = make_float2(s[i][h], c2[i][h]);
    }
}

RDT_DEVICE float rdt_wide_load_as(const void *p, int64_t at, int type) {
  if (type == RDT_MMA_F32) return ((const float *)p)[at];
  const uint32_t x = ((const uint16_t *)p)[at];
  return type == RDT_MMA_F16 ? rdt_f16::wide(x).x : rdt_bf16::wide(x).x;
}

/* Bias, residual, relu: in place. */
template <class Shape>
RDT_DEVICE void rdt_wide_extra(const rdt_mma_args &p, float (&c)[Shape::MT][Shape::BN / 2], int row0, int column0) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < Shape::BN / 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int column = column0 + 8 * j + 2 * (lane % 4) + e;
      const float bias = p.bias && column < p.n ? rdt_wide_load_as(p.bias, column, p.bias_type) : 0.0f;
#pragma unroll
      for (int i = 0; i < Shape::MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int row = row0 + 64 * i + 8 * h + lane / 4;
          float x = rdt_mul(p.alpha, c[i][4 * j + 2 * h + e]);
          if (p.bias) x = rdt_add(x, bias);
          if (p.residual && row < p.m && column < p.n)
            x = rdt_add(x, rdt_mul(p.beta, rdt_wide_load_as(p.residual, row * p.ldr + column, p.c_type)));
          if (p.relu && x < 0.0f) x = 0.0f; /* NaN stays */
          c[i][4 * j + 2 * h + e] = x;
        }
    }
}

/* Columns that do not fill 16 bytes: TMA would write all of these. */
template <class T, class Shape>
RDT_DEVICE void rdt_wide_store_rest(const rdt_wgmma_args &g, const float (&c)[Shape::MT][Shape::BN / 2], int row0,
                                    int column0) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < Shape::BN / 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int column = column0 + 8 * j + 2 * (lane % 4) + e;
      if (column < g.stored || column >= g.p.n) continue;
#pragma unroll
      for (int i = 0; i < Shape::MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int row = row0 + 64 * i + 8 * h + lane / 4;
          const int64_t at = row * g.p.ldc + column;
          if (row >= g.p.m) continue;
          if (g.p.c_type == RDT_MMA_F32)
            ((float *)g.p.c)[at] = c[i][4 * j + 2 * h + e];
          else
            ((uint16_t *)g.p.c)[at] = (uint16_t)T::narrow(c[i][4 * j + 2 * h + e], 0.0f);
        }
    }
}

/* Through shared memory, 128 bytes of each row at once. at: where the group's 128 bytes begin; row, column of C. */
template <class T, class Shape, bool wide>
RDT_DEVICE void rdt_wide_store(const rdt_wgmma_args &g, const float (&c)[Shape::MT][Shape::BN / 2], uint32_t at,
                               int bar, int row0, int column0) {
  constexpr int columns = wide ? 32 : 64; /* of a pass */
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
  const bool first = threadIdx.x % 128 == 0;
#pragma unroll
  for (int pass = 0; pass < Shape::BN / columns; pass++) {
    if (first) rdt_tma_wait_read();
    rdt_bar_sync(bar, 128);
#pragma unroll
    for (int i = 0; i < Shape::MT; i++)
      if constexpr (wide) {
#pragma unroll
        for (int j = 0; j < columns / 8; j++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const int row = 16 * warp + 8 * h + lane / 4, chunk = 2 * j + lane % 4 / 2;
            const float *x = &c[i][4 * (pass * columns / 8 + j) + 2 * h];
            rdt_store8_shared(at + i * Shape::piece + 128 * row + 16 * (chunk ^ row % 8) + 8 * (lane % 2), x[0], x[1]);
          }
      } else {
#pragma unroll
        for (int j = 0; j < columns / 8; j += 2) {
          const int row = 16 * warp + lane % 16, chunk = j + lane / 16;
          const float *x = &c[i][4 * (pass * columns / 8 + j)];
          rdt_stmatrix4(at + i * Shape::piece + 128 * row + 16 * (chunk ^ row % 8), T::narrow(x[0], x[1]),
                        T::narrow(x[2], x[3]), T::narrow(x[4], x[5]), T::narrow(x[6], x[7]));
        }
      }
    rdt_tma_fence();
    rdt_bar_sync(bar, 128);
    if (first && column0 + pass * columns < g.stored) {
#pragma unroll
      for (int i = 0; i < Shape::MT; i++)
        if (row0 + 64 * i < g.p.m) rdt_tma_store(&g.c, column0 + pass * columns, row0 + 64 * i, at + i * Shape::piece);
      rdt_tma_commit();
    }
  }
}

template <class T, class Shape, int b_mn, int check, class Hit>
RDT_DEVICE void rdt_wide_multiply(const rdt_wgmma_args &g, uint32_t shared, int group, Hit &hit) {
  const rdt_mma_args &p = g.p;
  const int rank = (int)rdt_cluster_rank(), rounds = (p.k + Shape::BK - 1) / Shape::BK;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4, step = (int)gridDim.x / RDT_WGMMA_CLUSTER;
  const uint32_t full = shared + Shape::barriers, empty = full + 8 * Shape::stages;
  const uint32_t out = shared + Shape::stages * Shape::stage_bytes + (uint32_t)group * Shape::out_bytes;
  int done = Shape::turns ? group * rounds : 0; /* rounds that this block has loaded before */
  const auto release = [&](int slot) {
    if (lane < RDT_WGMMA_CLUSTER) rdt_mbarrier_arrive(empty + 8 * (uint32_t)slot, (uint32_t)lane);
  };
  for (int tile = (int)blockIdx.x / RDT_WGMMA_CLUSTER + (Shape::turns ? group * step : 0); tile < g.tiles;
       tile += Shape::turns ? 2 * step : step) {
    const rdt_tile_place at = rdt_tile_of(g, tile, rank);
    float c[Shape::MT][Shape::BN / 2];
    uint32_t signs[Shape::words];
    if constexpr (check == RDT_MMA_SUMS) {
#pragma unroll
      for (int i = 0; i < Shape::words; i++) signs[i] = __ldg(g.signs + (at.n * 4 + lane % 4) * Shape::words + i);
    }
    int slot = done % Shape::stages, before = slot;
    uint32_t parity = (uint32_t)(done / Shape::stages) & 1;
    if (Shape::turns) rdt_bar_sync(1 + group, 256); /* the other group's loop is done */
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
      const uint32_t stage = shared + (uint32_t)slot * Shape::stage_bytes;
      rdt_mbarrier_wait(full + 8 * (uint32_t)slot, parity);
      if constexpr (Hit::on) {
        hit.operand(at.m, at.n, round, stage);
        rdt_tma_fence();
        rdt_bar_sync(3 + group, 128);
      }
      rdt_wgmma_begin();
      rdt_wide_round<T, Shape, b_mn>(c, stage + (Shape::turns ? 0 : group * Shape::MT * Shape::piece),
                                     stage + Shape::a_bytes, round > 0);
      rdt_wgmma_commit();
      if constexpr (Hit::on) {
        rdt_wgmma_wait<0>();
        if (at.m < g.row_blocks) hit.accumulators(at.m, at.n, round, c, Shape::turns ? 0 : group);
      }
      if (round > 0) {
        rdt_wgmma_wait<1>();
        release(before);
      }
      before = slot;
      if (++slot == Shape::stages) slot = 0, parity ^= 1;
    }
    if (Shape::turns) rdt_bar_arrive(1 + (group ^ 1), 256);
    rdt_wgmma_wait<0>();
    release(before);
#pragma unroll
    for (int i = 0; i < Shape::MT; i++) rdt_wgmma_keep(c[i]);
    done += Shape::turns ? 2 * rounds : rounds;
    const int row0 = at.m * Shape::BM + (Shape::turns ? 0 : group * Shape::WM), column0 = at.n * Shape::BN;
    if (at.m >= g.row_blocks) continue; /* there is none below the other */
    if constexpr (Hit::on) hit.accumulators(at.m, at.n, -1, c, Shape::turns ? 0 : group);
    /* Of accumulators that are stored as they are, when they have been: while the copy is under way. */
    const bool now = g.extra || p.alpha != 1.0f;
    const auto sum = [&] {
      float2 *sums = rdt_wide_sums(p, rdt_wide_turn_now<Shape>(shared)) + (int64_t)at.n * p.m;
      rdt_wide_sum<Shape>(g, c, signs, sums, row0 + 16 * warp);
    };
    if constexpr (check == RDT_MMA_SUMS)
      if (now) sum();
    if (g.extra) {
      rdt_wide_extra<Shape>(p, c, row0 + 16 * warp, column0);
    } else if (p.alpha != 1.0f) {
#pragma unroll
      for (int i = 0; i < Shape::MT; i++)
#pragma unroll
        for (int j = 0; j < Shape::BN / 2; j++) c[i][j] = rdt_mul(p.alpha, c[i][j]);
    }
    if (__builtin_expect(g.stored < p.n && column0 + Shape::BN > g.stored, 0))
      rdt_wide_store_rest<T, Shape>(g, c, row0 + 16 * warp, column0);
    const int bar = 3 + group;
    if (p.c_type == RDT_MMA_F32)
      rdt_wide_store<T, Shape, true>(g, c, out, bar, row0, column0);
    else
      rdt_wide_store<T, Shape, false>(g, c, out, bar, row0, column0);
    if constexpr (check == RDT_MMA_SUMS)
      if (!now) sum();
  }
  if (threadIdx.x % 128 == 0) rdt_tma_wait();
}

/* ---- a block ---- */

template <class T, class Shape, int b_mn, int check, class Hit>
RDT_DEVICE void rdt_gemm_wgmma(const rdt_wgmma_args &g, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t shared = rdt_shared(memory);
  const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0),
            warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::stages; i++) {
      rdt_mbarrier_init(shared + Shape::barriers + 8 * i, 1);
      rdt_mbarrier_init(
          shared + Shape::barriers + 8 * (Shape::stages + i),
          4 * RDT_WGMMA_CLUSTER * (Shape::turns ? 1 : 2) + (check == RDT_MMA_SUMS ? rdt_wide_helpers<Shape>(g.p) : 0));
    }
    rdt_mbarrier_init(shared + Shape::turn, 1);
    rdt_mbarrier_init_done();
    rdt_tma_prefetch(&g.a), rdt_tma_prefetch(&g.b), rdt_tma_prefetch(&g.c);
  }
  __syncthreads();
  rdt_cluster_meet();
  rdt_grid_admit();
  rdt_grid_await();
  if (group == 0) {
    rdt_registers_fewer<check == RDT_MMA_NONE ? 40 : 72>();
    if (warp == 0) {
      if (threadIdx.x == 0) rdt_wide_load<Shape, b_mn, check>(g, shared);
    } else if constexpr (check == RDT_MMA_SUMS) {
      if (warp == 3)
        rdt_wide_last<Shape>(g, shared, (volatile unsigned *)(memory + Shape::turn + 8));
      else if (warp <= rdt_wide_helpers<Shape>(g.p))
        rdt_wide_expect<T, Shape>(g, shared, warp - 1);
    }
  } else {
    rdt_registers_more<check == RDT_MMA_NONE ? 232 : 216>();
    if (Shape::turns && group == 2) rdt_bar_arrive(1, 256); /* the first group begins */
    rdt_wide_multiply<T, Shape, b_mn, check, Hit>(g, shared, group - 1, hit);
  }
#endif
}

#endif
