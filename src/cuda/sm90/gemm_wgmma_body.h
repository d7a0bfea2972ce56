/* Products on wgmma: 16-bit operands through shared memory (TMA, a ring of stages), accumulators f32 in registers.
 *
 * A block stays, and takes one tile of C after the other. One warp loads; two groups of four warps multiply, each a
 * tile of its own in turns: one multiplies while the other rounds and stores; or both have half of one. Two blocks make
 * a cluster with tiles one below the other, and load their columns of B together, or side by side, and their rows of A.
 * Order of addition: along k, whatever the tile; no bits depend on the check.
 *
 * What is expected comes from tensor cores too: eight columns more, signed sums of B's columns, split so that nothing
 * is lost. TILE: of the tile's columns; the groups compare each row of a tile when it is done. SUMS: of all columns,
 * and of each tile only a share of k: most of what a row is made of was loaded by others. There the columns that are
 * left say how large rows of A are. The last warp compares what the run before has left, or a kernel of its own does
 * when nobody runs: fences that would order blocks within a run stop the copies for microseconds. */
#ifndef RDT_CUDA_GEMM_WGMMA_BODY_H
#define RDT_CUDA_GEMM_WGMMA_BODY_H

#include "cuda/fast.h"
#include "cuda/ptx/flag.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/sm80/gemm_mma_checks.h"
#include "cuda/sm90/gemm_wgmma_columns.h"

template <bool value_>
struct rdt_flag {
  static constexpr bool value = value_;
};
template <int a_, int b_>
struct rdt_layout { /* 1: rows of A, columns of B lie side by side in place of k */
  static constexpr int a = a_, b = b_;
};

/* ---- loading ---- */

/* a_mn, b_mn: rows of A, columns of B lie side by side in place of k. RDT_WGMMA_EITHER: one kernel for both, as the
 * arguments say, where what follows a product is most of it. */
template <int mn>
RDT_DEVICE bool rdt_wide_turned(int given) {
  return mn == RDT_WGMMA_EITHER ? given != 0 : mn != 0;
}

template <class Ring, int a_mn, int b_mn, int check>
RDT_DEVICE void rdt_wide_load(const rdt_wgmma_args &g, uint32_t shared) {
  constexpr int pieces = Ring::BN / 64 / RDT_WGMMA_CLUSTER, share_a = Ring::BM / 64 / RDT_WGMMA_CLUSTER;
  const int rank = (int)rdt_cluster_rank(), rounds = rdt_wide_rounds<Ring::BK>(g);
  const bool a_turned = rdt_wide_turned<a_mn>(g.a_mn), b_turned = rdt_wide_turned<b_mn>(g.b_mn);
  const uint32_t full = shared + Ring::barriers, empty = full + 8 * Ring::stages;
  int slot = 0;
  uint32_t parity = 1;
  unsigned owed = 0, paid = 0; /* stages that a warp sums, and how often each was, modulo 2 */
  for (int turn = 0;; turn++) {
    const rdt_wide_part now = rdt_wide_part_of<Ring::BK>(g, turn);
    if (!now.end) break;
    const rdt_tile_place at = rdt_wide_tile_at<Ring>(g, now.tile, rank);
    const rdt_rounds checked = rdt_wide_checked<check, !Ring::beside>(g, at, rounds);
    int summed = Ring::columns ? rdt_columns_first(g, at) : 0; /* the next round whose rows of A are */
    const int of_a = at.batch * g.a_many, of_b = at.batch * g.b_many;
#pragma unroll 1
    for (int round = now.first; round < now.end; round++) {
      const uint32_t stage = shared + (uint32_t)slot * Ring::stage_bytes, barrier = full + 8 * (uint32_t)slot;
      const int k = round * Ring::BK;
      const bool sums = check != RDT_MMA_NONE && !Ring::abreast && round >= checked.first && round < checked.end;
      rdt_mbarrier_wait(empty + 8 * (uint32_t)slot, parity);
      if constexpr (Ring::columns) {
        const unsigned bit = 1u << slot;
        if (owed & bit) {
          rdt_mbarrier_wait(shared + Ring::summed + 8 * (uint32_t)slot, (paid & bit) != 0);
          owed ^= bit, paid ^= bit;
        }
        if (rdt_wide_is_strip<Ring>(at)) {
          rdt_mbarrier_arrive_here(shared + Ring::wanted + 8 * (uint32_t)slot);
        } else if (round == summed) {
          owed |= bit, summed += g.p.column_blocks;
          rdt_mbarrier_arrive_here(shared + Ring::told + 8 * (uint32_t)slot);
        }
      }
      rdt_mbarrier_expect(barrier, Ring::a_bytes + Ring::b_bytes + (sums ? Ring::sums_bytes : 0));
      const auto load_a = [&](int i, bool all) {
        const int row = at.m * Ring::BM + 64 * i, x = a_turned ? row : k, y = a_turned ? k : row;
        if (all)
          rdt_tma_load_all_of(stage + i * Ring::piece, &g.a, x, y, of_a, barrier, (1 << RDT_WGMMA_CLUSTER) - 1);
        else
          rdt_tma_load_of(stage + i * Ring::piece, &g.a, x, y, of_a, barrier);
      };
      const auto load_b_to = [&](uint32_t to, int column, bool all) {
        const int x = b_turned ? column : k, y = b_turned ? k : column;
        if (all)
          rdt_tma_load_all_of(to, &g.b, x, y, of_b, barrier, (1 << RDT_WGMMA_CLUSTER) - 1);
        else
          rdt_tma_load_of(to, &g.b, x, y, of_b, barrier);
      };
      const auto load_b = [&](int i, bool all) {
        load_b_to(stage + Ring::a_bytes + i * Ring::piece, at.n * Ring::BN + 64 * i, all);
      };
      if (rdt_wide_is_strip<Ring>(at)) {
#pragma unroll
        for (int i = 0; i < RDT_COLUMNS_STRIP / 64; i++)
          load_b_to(stage + (i < 2 ? (int)Ring::a_bytes : -2 * (int)Ring::piece) + i * Ring::piece,
                    at.n * RDT_COLUMNS_STRIP + 64 * i, false);
      } else if (share_a > 0 && g.across) {
#pragma unroll
        for (int i = 0; i < share_a; i++) load_a(rank * share_a + i, true);
#pragma unroll
        for (int i = 0; i < Ring::BN / 64; i++) load_b(i, false);
      } else {
#pragma unroll
        for (int i = 0; i < Ring::BM / 64; i++) load_a(i, false);
#pragma unroll
        for (int i = 0; i < pieces; i++) load_b(rank * pieces + i, true);
      }
      if (sums)
        rdt_tma_load(stage + Ring::a_bytes + Ring::b_bytes, &g.sums, k,
                     RDT_WGMMA_SUMS * (of_b * g.sets + (check == RDT_WGMMA_TILE ? at.n : 0)), barrier);
      if (++slot == Ring::stages) slot = 0, parity ^= 1;
    }
  }
  for (int i = 0; i < Ring::stages; i++) { /* the other block has told all that it tells: shared memory may go */
    rdt_mbarrier_wait(empty + 8 * (uint32_t)slot, parity);
    if (++slot == Ring::stages) slot = 0, parity ^= 1;
  }
}

/* The sums of columns as B lies: 16 bytes for each k, which TMA would have to ask for one by one. By a warp, in all
 * rounds, whose barriers count it. */
template <class Ring, int check>
RDT_DEVICE void rdt_wide_load_sums(const rdt_wgmma_args &g, uint32_t shared) {
  const int lane = (int)threadIdx.x % 32, rank = (int)rdt_cluster_rank(), rounds = rdt_wide_rounds<Ring::BK>(g);
  const uint32_t full = shared + Ring::barriers, empty = full + 8 * Ring::stages;
  int slot = 0;
  uint32_t parity = 1;
  for (int turn = 0;; turn++) {
    const rdt_wide_part now = rdt_wide_part_of<Ring::BK>(g, turn);
    if (!now.end) break;
    const rdt_tile_place at = rdt_wide_tile_at<Ring>(g, now.tile, rank);
    const bool sums = rdt_wide_checked<check, 0>(g, at, rounds).end > 0;
    const int set = at.batch * g.b_many * g.sets + (check == RDT_WGMMA_TILE ? min(at.n, g.p.column_blocks - 1) : 0);
    int k = now.first * Ring::BK + lane;
    const uint16_t *from = (const uint16_t *)g.p.parts + ((int64_t)set * rounds * Ring::BK + k) * RDT_WGMMA_SUMS;
    for (; k - lane < now.end * Ring::BK; k += Ring::BK, from += Ring::BK * RDT_WGMMA_SUMS) {
      rdt_mbarrier_wait(empty + 8 * (uint32_t)slot, parity);
      if (sums) {
        const uint32_t to = shared + (uint32_t)slot * Ring::stage_bytes + Ring::a_bytes + Ring::b_bytes +
                            128 * (uint32_t)lane + 16 * ((uint32_t)lane % 8);
#pragma unroll
        for (int i = 0; i < Ring::BK / 32; i++)
          rdt_copy16(to + 32 * 128 * i, from + 32 * RDT_WGMMA_SUMS * i, k + 32 * i < g.p.k ? 16 : 0);
      }
      rdt_mbarrier_arrive_copied(full + 8 * (uint32_t)slot);
      if (++slot == Ring::stages) slot = 0, parity ^= 1;
    }
  }
}

/* By a warp that has nothing else to do. */
template <class Shape>
RDT_DEVICE void rdt_wide_last(const rdt_wgmma_args &g, uint32_t shared, volatile unsigned *turn_now) {
  rdt_no_hit none;
  const rdt_wide_turn turn = rdt_wide_turn_of(g);
  if (threadIdx.x % 32 == 0) {
    *turn_now = turn.now;
    rdt_mbarrier_arrive_here(shared + Shape::turn);
  }
  if (turn.pending && (!Shape::columns || g.columns.rows))
    rdt_wide_compare(g.p, turn.now + 1, blockIdx.x, gridDim.x, shared + Shape::asked, none);
  if constexpr (Shape::columns) rdt_columns_clear(g.columns, turn.now);
  __syncwarp();
  if (threadIdx.x % 32 == 0) rdt_wide_left(g, turn);
}

/* ---- multiplying ---- */

/* Accumulators of so many columns, from one on. */
template <int columns, int count>
RDT_DEVICE float (&rdt_part(float (&c)[count], int first))[columns / 2] {
  return *(float(*)[columns / 2])(c + first / 2);
}

/* Sums of columns are eight columns more of the last instruction, which has 256 at most: accumulators go through
 * instructions of one shape alone. An instruction of their own takes the time in which A is read once more, a seventh
 * of one of 256 columns (with A in registers more). */
template <class T, class Shape, int a_mn, int b_mn, bool checked>
RDT_DEVICE void rdt_wide_round(float (&c)[Shape::MT][Shape::held], uint32_t a, uint32_t b, int add) {
  constexpr bool beside = checked && Shape::beside;
  constexpr int first = beside ? Shape::BN - 128 : 0, rest = Shape::BN - first + (beside ? RDT_WGMMA_SUMS : 0);
  const auto place = [&](uint32_t at, int next) { return rdt_wgmma_place(at, next); };
#pragma unroll
  for (int k = 0; k < Shape::BK / 16; k++)
#pragma unroll
    for (int i = 0; i < Shape::MT; i++) {
      const uint64_t left = place(a + i * Shape::piece + (a_mn ? 2048 : 32) * k, 16);
      const uint32_t right = b + (b_mn ? 2048 : 32) * k;
      if constexpr (first > 0)
        rdt_wgmma<T, first, a_mn, b_mn>::step(rdt_part<first>(c[i], 0), left, place(right, b_mn ? Shape::piece : 16),
                                              k ? 1 : add);
      rdt_wgmma<T, rest, a_mn, b_mn>::step(rdt_part<rest>(c[i], first), left,
                                           place(right + first / 64 * Shape::piece, b_mn ? Shape::piece : 16),
                                           k ? 1 : add);
    }
  if constexpr (checked && !beside) {
#pragma unroll
    for (int k = 0; k < Shape::BK / 16; k++)
#pragma unroll
      for (int i = 0; i < Shape::MT; i++)
        rdt_wgmma<T, RDT_WGMMA_SUMS, a_mn, 0>::step(rdt_part<RDT_WGMMA_SUMS>(c[i], Shape::BN),
                                                    place(a + i * Shape::piece + (a_mn ? 2048 : 32) * k, 16),
                                                    place(b + Shape::b_bytes + 32 * k, 16), 1);
  }
}

/* A warp's sums of a tile that another cluster goes on with, and those of the cluster before: 16 bytes of each thread
 * side by side. Who takes them is the only one, and leaves the place as it was. */
template <class Ring, int check>
struct rdt_wide_handed {
  static constexpr int numbers = check == RDT_MMA_NONE ? Ring::BN / 2 : Ring::held;
  float4 *at;
  unsigned *there;
  __device__ __forceinline__ rdt_wide_handed(const rdt_wgmma_args &g, int block, int warp) {
    const int place = 4 * Ring::groups * block + warp;
    at = (float4 *)g.p.partial + place * (Ring::MT * numbers / 4) * 32 + threadIdx.x % 32;
    there = g.p.tickets + 1 + 2 * gridDim.x + place;
  }
};
template <class Ring, int check>
RDT_DEVICE void rdt_wide_hand(const rdt_wgmma_args &g, const float (&c)[Ring::MT][Ring::held], int warp) {
  typedef rdt_wide_handed<Ring, check> handed;
  const handed to(g, (int)blockIdx.x, warp);
#pragma unroll
  for (int i = 0; i < Ring::MT; i++)
#pragma unroll
    for (int j = 0; j < handed::numbers; j += 4)
      to.at[(i * handed::numbers + j) / 4 * 32] = make_float4(c[i][j], c[i][j + 1], c[i][j + 2], c[i][j + 3]);
  __syncwarp();
  if (threadIdx.x % 32 == 0) rdt_store_release(to.there, 1);
}
template <class Ring, int check>
RDT_DEVICE void rdt_wide_take(const rdt_wgmma_args &g, float (&c)[Ring::MT][Ring::held], int warp) {
  typedef rdt_wide_handed<Ring, check> handed;
  const handed from(g, (int)blockIdx.x - RDT_WGMMA_CLUSTER, warp);
  if (threadIdx.x % 32 == 0) {
    while (!rdt_load_acquire(from.there)) {
    }
    *from.there = 0;
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < Ring::MT; i++)
#pragma unroll
    for (int j = 0; j < handed::numbers; j += 4) {
      const float4 x = __ldcg(from.at + (i * handed::numbers + j) / 4 * 32);
      c[i][j] = x.x, c[i][j + 1] = x.y, c[i][j + 2] = x.z, c[i][j + 3] = x.w;
    }
}

/* ---- what follows ---- */

/* A row of a tile, of each thread that is asked. What the sum may differ by comes from the squares of C, which all
 * have; only where that is too little is A read for what its own squares allow: all threads of the warp then look at
 * such a row.
 */
template <class T, class Shape, int a_mn, class Hit>
RDT_DEVICE void rdt_wide_row_done(const rdt_wgmma_args &g, rdt_tile_place at, int row, bool asked, float2 s, float2 e,
                                  Hit &hit) {
  const rdt_mma_args &p = g.p;
  const bool turned = rdt_wide_turned<a_mn>(g.a_mn);
  const float d = s.x - e.x;
  const int n = at.n;
  unsigned ask = __ballot_sync(0xffffffffu, asked && row < p.m && (Hit::on || !(d * d <= g.alike * s.y)));
  while (__builtin_expect(ask != 0, 0)) {
    const int lane = __ffs((int)ask) - 1;
    ask &= ask - 1;
    const uint16_t *const a =
        (const uint16_t *)p.a + at.batch * g.a_next + __shfl_sync(0xffffffffu, row, lane) * (turned ? 1 : p.lda);
    const rdt_wide_row x = {__shfl_sync(0xffffffffu, s.x, lane), __shfl_sync(0xffffffffu, s.y, lane),
                            __shfl_sync(0xffffffffu, e.x, lane), rdt_wide_norm<T>(p, a, turned ? p.lda : 1)};
    if ((int)threadIdx.x % 32 == lane)
      rdt_wide_judge(p,
                     rdt_place_of{at.batch * p.m + row, n * Shape::BN, 1, min(Shape::BN, p.n - n * Shape::BN), 0, p.k},
                     __ldg((const float *)p.rho2 + at.batch * g.b_many * g.sets + n), x, hit);
  }
}

/* Rows that four threads have in common, each with a part of their numbers: each thread gets the whole of one. Of four
 * rows a thread of its own has each, of two rows two. */
template <int rows>
RDT_DEVICE float rdt_wide_join(const float (&x)[rows]) {
  const int lane = (int)threadIdx.x % 32;
  float half[2]; /* each gives away what is the other's */
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const bool upper = rows > 2 && lane & 2;
    half[i] = (upper ? x[rows - 2 + i] : x[i]) + __shfl_xor_sync(0xffffffffu, upper ? x[i] : x[rows - 2 + i], 2);
  }
  return (lane & 1 ? half[1] : half[0]) + __shfl_xor_sync(0xffffffffu, lane & 1 ? half[0] : half[1], 1);
}
/* Of the group: which one. */
template <int rows>
RDT_DEVICE int rdt_wide_joined(int lane) {
  const int slot = lane % rows;
  return 64 * (slot / 2) + 8 * (slot % 2) + lane / 4;
}

/* The signed sum of a row, and squares of a quarter of it (no more is needed to know their size, and what is less makes
 * bounds no looser). */
template <class Shape>
RDT_DEVICE float2 rdt_wide_sum(const float (&c)[Shape::MT][Shape::held], int n) {
  constexpr int rows = 2 * Shape::MT;
  static_assert(rows == 2 || rows == 4, "of four threads");
  const unsigned other = rdt_wide_sign_of(n, (int)threadIdx.x % 4);
  float s[rows], c2[rows];
#pragma unroll
  for (int i = 0; i < rows; i++) s[i] = c2[i] = 0.0f;
#pragma unroll
  for (int j = 0; j < Shape::BN / 8; j++)
#pragma unroll
    for (int x = 0; x < 2; x++)
#pragma unroll
      for (int i = 0; i < rows; i++) {
        const float y = c[i / 2][4 * j + 2 * (i % 2) + x];
        s[i] = rdt_mma_sign((unsigned)(2 * j + x)) ? s[i] - y : s[i] + y;
        if (j % 4 == 0) c2[i] = fmaf(y, y, c2[i]);
      }
#pragma unroll
  for (int i = 0; i < rows; i++) s[i] = __uint_as_float(__float_as_uint(s[i]) ^ other);
  return make_float2(rdt_wide_join(s), rdt_wide_join(c2));
}

/* What is expected of the same row, and |a|^2 as far as it is known. */
template <class T, class Shape>
RDT_DEVICE float2 rdt_wide_sum_expected(const float (&c)[Shape::MT][Shape::held]) {
  constexpr int rows = 2 * Shape::MT;
  float e[rows], a2[rows];
#pragma unroll
  for (int i = 0; i < rows; i++) {
    const float2 x = rdt_wide_expected((const T *)nullptr, c[i / 2] + Shape::BN / 2 + 2 * (i % 2));
    e[i] = x.x, a2[i] = x.y;
  }
  return make_float2(rdt_wide_join(e), rdt_wide_join(a2));
}

RDT_DEVICE float rdt_wide_as(uint32_t x, int type) {
  return type == RDT_MMA_F32 ? __uint_as_float(x) : type == RDT_MMA_F16 ? rdt_f16::wide(x).x : rdt_bf16::wide(x).x;
}
RDT_DEVICE float rdt_wide_load_as(const void *p, int64_t at, int type) {
  return rdt_wide_as(type == RDT_MMA_F32 ? ((const uint32_t *)p)[at] : ((const uint16_t *)p)[at], type);
}

/* Bias, residual, relu, gelu of 64 columns: in place. Each in a loop of its own, which one branch skips. */
RDT_DEVICE void rdt_wide_extra(const rdt_wgmma_args &g, float *c, int batch, int row0, int column0) {
  const rdt_mma_args &p = g.p;
  const int lane = (int)threadIdx.x % 32, column = column0 + 2 * (lane % 4), row = row0 + lane / 4;
#pragma unroll
  for (int j = 0; j < 32; j++) c[j] = rdt_mul(p.alpha, c[j]);
  if (p.bias) {
#pragma unroll
    for (int j = 0; j < 16; j++) {
      const int at = column + j / 2 * 8 + j % 2, of = 4 * (j / 2) + j % 2;
      const float bias = at < p.n ? rdt_wide_load_as(p.bias, at, p.bias_type) : 0.0f;
      c[of] = rdt_add(c[of], bias), c[of + 2] = rdt_add(c[of + 2], bias);
    }
  }
  if (p.residual) {
    const int size = p.c_type == RDT_MMA_F32 ? 4 : 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int64_t first = batch * g.r_next + (row + 8 * h) * p.ldr + column;
      const char *const from = (const char *)p.residual + first * size;
      const int there = row + 8 * h < p.m ? p.n - column : 0; /* numbers of the row */
#pragma unroll
      for (int j = 0; j < 16; j++) {
        const int at = j / 2 * 8 + j % 2, of = 4 * (j / 2) + 2 * h + j % 2;
        uint32_t x = 0; /* no branch but around the load: others cost registers */
        if (at < there) x = size == 4 ? *(const uint32_t *)(from + 4 * at) : *(const uint16_t *)(from + 2 * at);
        c[of] = rdt_add(c[of], rdt_mul(p.beta, rdt_wide_as(x, p.c_type)));
      }
    }
  }
  if (p.relu) {
#pragma unroll
    for (int j = 0; j < 32; j++) c[j] = c[j] < 0.0f ? 0.0f : c[j]; /* NaN stays */
  }
  if (g.gelu) {
#pragma unroll
    for (int j = 0; j < 32; j++) c[j] = rdt_fast_gelu(c[j]);
  }
}

/* What a tile has to store goes through a ring of pieces, 64 rows of 128 bytes, in the order of tiles; a warp of its
 * own has TMA store them. */
template <class Ring>
struct rdt_wide_piece {
  uint32_t at, full, empty, parity;
  __device__ __forceinline__ rdt_wide_piece(uint32_t shared, int number) {
    const uint32_t slot = (uint32_t)number % Ring::outs;
    at = shared + Ring::out + slot * Ring::piece, full = shared + Ring::written + 8 * slot;
    empty = full + 8 * Ring::outs, parity = (uint32_t)number / Ring::outs & 1;
  }
};
template <class Ring>
RDT_DEVICE int rdt_wide_pieces(bool wide) {
  return Ring::BM / 64 * Ring::BN / (wide ? 32 : 64);
}

/* A group's 64 rows of a piece, 128 bytes of each, as TMA takes them; c: the first of the thread's numbers. */
template <class T, bool wide>
RDT_DEVICE void rdt_wide_fill(const float *c, uint32_t at) {
  const int thread = wide ? rdt_thread_anew() : (int)threadIdx.x, lane = thread % 32, warp = thread / 32 % 4;
  if constexpr (wide) {
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int row = 16 * warp + 8 * h + lane / 4, chunk = 2 * j + lane % 4 / 2;
        const float *x = &c[4 * j + 2 * h];
        rdt_store8_shared(at + 128 * row + 16 * (chunk ^ row % 8) + 8 * (lane % 2), x[0], x[1]);
      }
  } else {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      const int row = 16 * warp + lane % 16, chunk = j + lane / 16;
      const float *x = &c[4 * j];
      rdt_stmatrix4(at + 128 * row + 16 * (chunk ^ row % 8), T::narrow(x[0], x[1]), T::narrow(x[2], x[3]),
                    T::narrow(x[4], x[5]), T::narrow(x[6], x[7]));
    }
  }
}

/* Columns that do not fill 16 bytes, of a piece that begins with column0: TMA would write all of these. Of a warp, the
 * rows that it has filled, from row0 on. */
template <bool wide>
RDT_DEVICE void rdt_wide_store_rest(const rdt_wgmma_args &g, uint32_t piece, int batch, int row0, int column0) {
  asm volatile("" : "+r"(column0)); /* nothing of it is found before: registers are scarce */
  const int thread = rdt_thread_anew(), lane = thread % 32, warp = thread / 32 % 4,
            chunk = (g.stored - column0) / (wide ? 4 : 8);
  if (g.stored == g.p.n || g.stored < column0 || chunk >= 8) return;
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < 16 * 8; i += 32) {
    const int of = i / 8, row = 16 * warp + of, column = g.stored + i % 8;
    if (row0 + of >= g.p.m || column >= g.p.n) continue;
    const int64_t at = batch * g.c_next + (row0 + of) * g.p.ldc + column;
    const uint32_t from = piece + 128 * row + 16 * (chunk ^ row % 8);
    if (wide)
      ((uint32_t *)g.p.c)[at] = rdt_load4_shared(from + 4 * (i % 8));
    else
      ((uint16_t *)g.p.c)[at] = (uint16_t)(rdt_load4_shared(from + 4 * (i % 8 / 2)) >> 16 * (i % 2));
  }
}

/* 64 columns: in f32 two pieces. rest(piece, column of the 64): what else is done with a piece that is filled. */
template <class T, class Ring, bool wide, class Rest>
RDT_DEVICE void rdt_wide_put(const float *c, uint32_t shared, int &number, bool there, const Rest &rest) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < (wide ? 2 : 1); half++, number++) {
    const rdt_wide_piece<Ring> to(shared, number);
    rdt_mbarrier_wait(to.empty, to.parity ^ 1);
    if (there) rdt_wide_fill<T, wide>(c + 16 * half, to.at), rest(to.at, 32 * half);
    rdt_tma_fence();
    __syncwarp();
    if (lane == 0) rdt_mbarrier_arrive_here(to.full);
  }
}

/* A tile as it is. */
template <class T, class Ring, bool wide>
RDT_DEVICE void rdt_wide_store(const rdt_wgmma_args &g, const float (&c)[Ring::MT][Ring::held], uint32_t shared,
                               int number, rdt_tile_place at, int row0, bool there) {
#pragma unroll
  for (int pass = 0; pass < Ring::BN / 64; pass++)
#pragma unroll
    for (int i = 0; i < Ring::MT; i++)
      rdt_wide_put<T, Ring, wide>(&c[i][32 * pass], shared, number, there, [&](uint32_t piece, int of) {
        rdt_wide_store_rest<wide>(g, piece, at.batch, row0 + 64 * i, at.n * Ring::BN + 64 * pass + of);
      });
}

/* With what follows the product: one piece of code for all columns, a quarter as long. tells: bit-sums, to bits(): of
 * an address the compiler would not know that a warp's lanes have it alike, and keep no descriptors in the loop. */
template <class T, class Ring, class Bits, class Hit>
RDT_DEVICE void rdt_wide_finish(const rdt_wgmma_args &g, float (&c)[Ring::MT][Ring::held], uint32_t shared, int number,
                                rdt_tile_place at, int row0, bool there, bool tells, const Bits &bits, Hit &hit) {
  const bool extra = there && (g.extra || g.p.alpha != 1.0f), wide = g.p.c_type == RDT_MMA_F32;
  uint64_t sum = 0;
#pragma unroll 1
  for (int part = 0; part < Ring::MT * Ring::BN / 64; part++) {
    const int row = row0 + part % Ring::MT * 64, column = at.n * Ring::BN + part / Ring::MT * 64;
    if (extra) rdt_wide_extra(g, c[0], at.batch, row, column);
    if (tells) sum += rdt_stored_next<T>(c[0], g.p.m - row, g.p.n - column, wide, part);
    if constexpr (Hit::on) hit.rounded(g, row, column, at.batch, c[0]);
    if (wide)
      rdt_wide_put<T, Ring, true>(c[0], shared, number, there, [&](uint32_t piece, int of) {
        rdt_wide_store_rest<true>(g, piece, at.batch, row, column + of);
      });
    else
      rdt_wide_put<T, Ring, false>(c[0], shared, number, there, [&](uint32_t piece, int) {
        rdt_wide_store_rest<false>(g, piece, at.batch, row, column);
      });
    rdt_wide_up<Ring>(c);
  }
  if (tells) rdt_stored_tell(bits(), sum);
}

/* By a thread that has nothing else to do, or by its warp, which sums columns of what is stored (hands). A piece is
 * free when the next one is on its way. */
template <class T, class Ring, bool hands, class Hit>
RDT_DEVICE void rdt_wide_storing(const rdt_wgmma_args &g, uint32_t shared, Hit &hit) {
  const bool wide = !hands && g.p.c_type == RDT_MMA_F32, stores = !hands || threadIdx.x % 32 == 0;
  const int rank = (int)rdt_cluster_rank(), pieces = rdt_wide_pieces<Ring>(wide), rounds = rdt_wide_rounds<Ring::BK>(g);
  float sum[8] = {}, squares = 0.0f;
  int number = 0;
  for (int turn = 0;; turn++) {
    const rdt_wide_part now = rdt_wide_part_of<Ring::BK>(g, turn);
    if (!now.end) break;
    if (now.end < rounds) continue; /* another cluster stores it */
    const rdt_tile_place at = rdt_wide_tile_at<Ring>(g, now.tile, rank);
    if (rdt_wide_is_strip<Ring>(at)) break; /* nothing but strips follows */
    for (int piece = 0; piece < pieces; piece++, number++) {
      const rdt_wide_piece<Ring> from(shared, number);
      const int of_group = pieces / Ring::groups, within = piece % of_group; /* one group's behind the other's */
      const int part = wide ? within / 2 : within,
                row = at.m * Ring::BM + (piece / of_group * Ring::MT + part % Ring::MT) * 64;
      int column = at.n * Ring::BN + part / Ring::MT * 64 + (wide ? piece % 2 * 32 : 0);
      rdt_mbarrier_wait(from.full, from.parity);
      if (stores) {
        if constexpr (Hit::on)
          column = hit.piece(g, row, column, at.batch, from.at, rdt_wide_piece<Ring>(shared, number - (number > 0)).at);
        if (row < g.p.m && column < g.stored) rdt_tma_store_of(&g.c, column, row, at.batch, from.at);
        rdt_tma_commit();
        if (number > 0) {
          rdt_tma_wait_read<1>();
          rdt_mbarrier_arrive_here(rdt_wide_piece<Ring>(shared, number - 1).empty);
        }
      }
      if constexpr (hands) {
        const int half = part % Ring::MT; /* 64 rows of two: they are added up together */
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] = half ? sum[i] : 0.0f;
        rdt_columns_piece<T>(sum, squares, from.at, at.m, half, g.p.m - row);
        __syncwarp();
        if (half == Ring::MT - 1)
          rdt_columns_hand(g, sum, at.n * Ring::BN + part / Ring::MT * 64, rdt_wide_turn_now<Ring>(shared));
      }
    }
  }
  if constexpr (hands)
    rdt_columns_add_squares(rdt_columns_stored(g.columns, rdt_wide_turn_now<Ring>(shared)) + 2 * g.columns.pairs,
                            squares);
  if (stores) rdt_tma_wait();
}

template <int a_mn, int b_mn, class Rounds>
RDT_DEVICE void rdt_wide_as_they_lie(const rdt_wgmma_args &g, const Rounds &rounds) {
  if constexpr (b_mn == RDT_WGMMA_EITHER) {
    if (g.b_mn)
      rdt_wide_as_they_lie<a_mn, 1>(g, rounds);
    else
      rdt_wide_as_they_lie<a_mn, 0>(g, rounds);
  } else if constexpr (a_mn == RDT_WGMMA_EITHER) {
    if (g.a_mn)
      rounds(rdt_layout<1, b_mn>());
    else
      rounds(rdt_layout<0, b_mn>());
  } else {
    rounds(rdt_layout<a_mn, b_mn>());
  }
}

template <class T, class Ring, int a_mn, int b_mn, int check, bool extra, class Hit>
RDT_DEVICE void rdt_wide_multiply(const rdt_wgmma_args &g, uint32_t shared, int group, Hit &hit) {
  const rdt_mma_args &p = g.p;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
  const uint32_t full = shared + Ring::barriers, empty = full + 8 * Ring::stages;
  const uint32_t in_turn = shared + Ring::written + 16 * Ring::outs;
  constexpr bool whole = !Ring::rows || Ring::beside; /* all rounds are of one shape */
  constexpr bool shares = whole && !Ring::columns;    /* tiles: see rdt_wide_plan */
  constexpr int in_turns = 2 / Ring::groups, part_bytes = Ring::MT * Ring::piece;
  const int part = group % Ring::groups; /* of its tile */
  int done = 0;                          /* rounds that this block has loaded before */
  const auto release = [&](int used) {
    if (lane < RDT_WGMMA_CLUSTER) rdt_mbarrier_arrive(empty + 8 * (uint32_t)used, (uint32_t)lane);
  };
  for (int turn = 0;; turn++) {
    const rdt_wide_part now = rdt_wide_part_of<Ring::BK>(g, turn);
    if (!now.end) break;
    const int loaded = done;
    done += now.end - now.first;
    if (in_turns > 1 && turn % in_turns != group) continue; /* the other group's */
    rdt_tile_place at = rdt_wide_tile_at<Ring>(g, now.tile, (int)rdt_cluster_rank());
    const rdt_rounds checked = rdt_wide_checked<check, !Ring::beside>(g, at, now.rounds);
    float c[Ring::MT][Ring::held];
#pragma unroll
    for (int i = 0; i < Ring::MT; i++) {
#pragma unroll
      for (int j = Ring::BN / 2; j < Ring::held; j++) c[i][j] = 0.0f;
      if constexpr (check != RDT_MMA_NONE && !extra) rdt_wgmma_keep(rdt_part<RDT_WGMMA_SUMS>(c[i], Ring::BN));
      if constexpr (extra) rdt_wgmma_keep(c[i]); /* what moved up ends here */
    }
    if constexpr (shares)
      if (now.first > 0) rdt_wide_take<Ring, check>(g, c, 4 * part + warp);
#pragma unroll
    for (int i = 0; i < Ring::MT; i++) rdt_wgmma_keep(c[i]);
    int slot = loaded % Ring::stages, before = -1, round = now.first;
    uint32_t parity = (uint32_t)(loaded / Ring::stages) & 1;
    asm volatile("" : "+r"(round)); /* one loop, wherever it begins */
    /* Loops of their own: wgmma takes no branches. */
    const auto rounds_to = [&](int end, auto sums, auto turned) {
#pragma unroll 1
      while (true) {
        if (!whole && round >= end) break;
        const uint32_t stage = shared + (uint32_t)slot * Ring::stage_bytes;
        rdt_mbarrier_wait(full + 8 * (uint32_t)slot, parity);
        if constexpr (sums.value && Ring::abreast) rdt_tma_fence();
        if constexpr (Hit::on) {
          hit.template operand<turned.a>(at.all, at.n, round, stage, 64 * Ring::MT * part, 64 * Ring::MT);
          rdt_tma_fence();
          rdt_bar_sync(3 + group, 128);
        }
        rdt_wgmma_begin();
        rdt_wide_round<T, Ring, turned.a, turned.b, sums.value>(c, stage + part * part_bytes, stage + Ring::a_bytes,
                                                                round > 0);
        rdt_wgmma_commit();
        if constexpr (Hit::on) {
          rdt_wgmma_wait<0>();
#pragma unroll
          for (int i = 0; i < Ring::MT; i++) rdt_wgmma_keep(c[i]);
          if (rdt_tile_there(g, at)) hit.accumulators(at.all, at.n, round, c, part * Ring::MT * Ring::BN / 2);
        }
        if (before >= 0) {
          rdt_wgmma_wait<1>();
          release(before);
        }
        before = slot;
        if (++slot == Ring::stages) slot = 0, parity ^= 1;
        if (++round >= end && whole) break; /* one round at least */
      }
    };
    /* Strips follow one another, so that it is known how often each stage was brought u A. */
    const auto strip_rounds = [&](auto turned) {
      const int first = rdt_columns_rounds<Ring>(g);
#pragma unroll 1
      while (true) {
        const uint32_t stage = shared + (uint32_t)slot * Ring::stage_bytes;
        rdt_mbarrier_wait(full + 8 * (uint32_t)slot, parity);
        rdt_mbarrier_wait(shared + Ring::brought + 8 * (uint32_t)slot,
                          (uint32_t)((loaded - first + round) / Ring::stages) & 1);
        rdt_wgmma_begin();
        rdt_columns_round<T, Ring, turned.b>(c, stage, round > 0);
        rdt_wgmma_commit();
        if (before >= 0) {
          rdt_wgmma_wait<1>();
          release(before);
        }
        before = slot;
        if (++slot == Ring::stages) slot = 0, parity ^= 1;
        if (++round >= now.end) break;
      }
    };
    const auto rounds_done = [&] {
      if constexpr (in_turns > 1) rdt_bar_arrive(1 + (group ^ 1), 256);
      rdt_wgmma_wait<0>();
      release(before);
#pragma unroll
      for (int i = 0; i < Ring::MT; i++) rdt_wgmma_keep(c[i]);
    };
    rdt_columns_sums columns;
    if constexpr (Ring::columns)
      if (rdt_wide_is_strip<Ring>(at))
        columns = rdt_columns_ask<Ring>(g, at.n, rdt_columns_before(rdt_wide_turn_now<Ring>(shared)));
    if constexpr (in_turns > 1) rdt_bar_sync(1 + group, 256); /* the other group's loop is done */
    const auto all_rounds = [&](auto turned) {
      if constexpr (Ring::columns) {
        if (rdt_wide_is_strip<Ring>(at)) {
          strip_rounds(turned);
          rounds_done();
          return;
        }
      }
      if constexpr (Ring::rows && !Ring::beside) {
        rounds_to(checked.first, rdt_flag<false>(), turned);
        rounds_to(checked.end, rdt_flag<true>(), turned);
        rounds_to(now.end, rdt_flag<false>(), turned);
        rounds_done();
      } else if (!Ring::rows || !checked.end) {
        rounds_to(now.end, rdt_flag<check == RDT_WGMMA_TILE>(), turned);
        rounds_done();
      } else if constexpr (Ring::rows) {
        rounds_to(now.end, rdt_flag<true>(), turned);
        rounds_done();
      }
    };
    rdt_wide_as_they_lie<a_mn, b_mn>(g, all_rounds);
    const rdt_wide_part it = rdt_wide_part_of<Ring::BK>(g, turn); /* found anew: registers are scarce */
    if (shares && it.end < it.rounds) {
      rdt_wide_hand<Ring, check>(g, c, 4 * part + warp);
      continue;
    }
    if constexpr (!Hit::on) at = rdt_wide_tile_at<Ring>(g, it.tile, (int)rdt_cluster_rank());
    if constexpr (Ring::columns) {
      if (rdt_wide_is_strip<Ring>(at)) {
        rdt_columns_compare<T, Ring>(g, c, columns);
        continue;
      }
    }
    if constexpr (check == RDT_WGMMA_TILE && !extra) at.batch = 0; /* none is left: batches take the other one */
    const int row0 = at.m * Ring::BM + 64 * Ring::MT * part, column0 = at.n * Ring::BN;
    const bool there = rdt_tile_there(g, at); /* or none is below the other */
    if constexpr (Hit::on)
      if (there) hit.accumulators(at.all, at.n, -1, c, part * Ring::MT * Ring::BN / 2);
    /* Of accumulators that are stored as they are, when they have been: while the copy is under way. */
    const auto sum = [&] {
      const int row = row0 + 16 * warp + rdt_wide_joined<2 * Ring::MT>(rdt_thread_anew() % 32);
      const bool mine = (Ring::MT == 2 || lane % 4 < 2) && row < p.m, by_row = !Ring::columns || g.columns.rows;
      const float2 s = rdt_wide_sum<Ring>(c, at.n);
      if constexpr (check == RDT_WGMMA_TILE) {
        rdt_wide_row_done<T, Ring, a_mn>(g, at, row, mine, s, rdt_wide_sum_expected<T, Ring>(c), hit);
      } else {
        const unsigned set = rdt_wide_turn_now<Ring>(shared);
        float2 *const to = (float2 *)(rdt_wide_sums(p, set) + at.batch * p.m + row);
        if (mine && by_row) rdt_add2(to, s);
        if (checked.first < checked.end) {
          const float2 e = rdt_wide_sum_expected<T, Ring>(c);
          if (mine) rdt_add2(to + 1, e);
        }
        if constexpr (Ring::columns) rdt_columns_add<Ring>(g, c, at, set);
      }
    };
    const bool wide = p.c_type == RDT_MMA_F32;
    const auto bits_at = [&] { return rdt_stored_at<Ring>(g, at.all, at.n, 4 * part + warp); };
    const int stored = Ring::groups * it.stored + part; /* of groups, tiles or parts of them, before */
    const int number = stored * (rdt_wide_pieces<Ring>(wide) / Ring::groups);
    if constexpr (extra && check != RDT_MMA_NONE)
      if (there) sum();
    if (stored > 0) rdt_mbarrier_wait(in_turn, (uint32_t)(stored - 1) & 1); /* the other group has written its pieces */
    if constexpr (extra)
      rdt_wide_finish<T, Ring>(g, c, shared, number, at, row0 + 16 * warp, there,
                               check != RDT_MMA_NONE && there && p.more, bits_at, hit);
    else if (wide)
      rdt_wide_store<T, Ring, true>(g, c, shared, number, at, row0 + 16 * warp, there);
    else
      rdt_wide_store<T, Ring, false>(g, c, shared, number, at, row0 + 16 * warp, there);
    if (lane == 0) rdt_mbarrier_arrive_here(in_turn);
    if constexpr (check != RDT_MMA_NONE && !extra) {
      if (there) sum();
      if (there && p.more) rdt_stored_tile<T, Ring>(c, p.m - row0 - 16 * warp, p.n - column0, wide, bits_at());
    }
  }
}

/* ---- a block ---- */

/* extra: bias, residual, relu, gelu, alpha; what is not needed is not in the way of what is fetched. */
template <class T, class Shape, int a_mn, int b_mn, int check, bool extra, class Hit>
RDT_DEVICE void rdt_gemm_wgmma(const rdt_wgmma_args &g, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  typedef rdt_wide_ring<Shape, b_mn, check> Ring;
  extern __shared__ __align__(1024) unsigned char memory[];
  constexpr bool more_warps = Ring::columns && Ring::summing > 2; /* that sum rows of A */
  constexpr int few = !Ring::columns ? 40 : more_warps ? 48 : 56;
  const uint32_t shared = rdt_shared(memory);
  const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0),
            warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Ring::stages; i++) {
      rdt_mbarrier_init(shared + Ring::barriers + 8 * i, 1 + (Ring::abreast ? 32 : 0));
      rdt_mbarrier_init(shared + Ring::barriers + 8 * (Ring::stages + i), 4 * Ring::groups * RDT_WGMMA_CLUSTER);
    }
    for (int i = 0; i < Ring::outs; i++) {
      rdt_mbarrier_init(shared + Ring::written + 8 * i, 4);
      rdt_mbarrier_init(shared + Ring::written + 8 * (Ring::outs + i), 1);
    }
    rdt_mbarrier_init(shared + Ring::written + 16 * Ring::outs, 4);
    rdt_mbarrier_init(shared + Ring::turn, 1);
    for (int i = 0; Ring::columns && i < 4 * Ring::stages + 2; i++)
      rdt_mbarrier_init(shared + Ring::told + 8 * i, i / Ring::stages == 1 ? Ring::summing : 1);
    rdt_mbarrier_init_done();
    rdt_tma_prefetch(&g.a), rdt_tma_prefetch(&g.b), rdt_tma_prefetch(&g.c);
    if (check != RDT_MMA_NONE) rdt_tma_prefetch(&g.sums);
  }
  __syncthreads();
  rdt_cluster_meet();
  rdt_grid_admit();
  rdt_grid_await();
  if (group == 0) {
    rdt_registers_fewer<few>();
    if (threadIdx.x == 0)
      rdt_wide_load<Ring, a_mn, b_mn, check>(g, shared);
    else if (Ring::columns && extra && warp == 2 && g.columns.next) {
      if constexpr (Ring::columns && extra) rdt_wide_storing<T, Ring, true>(g, shared, hit);
    } else if (threadIdx.x == 64)
      rdt_wide_storing<T, Ring, false>(g, shared, hit);
    else if (Ring::rows && warp == 1) {
      rdt_wide_last<Ring>(g, shared, (volatile unsigned *)(memory + Ring::turn + 8));
      if constexpr (Ring::columns && !more_warps) rdt_columns_sum<T, Ring>(g, shared, 0);
      if constexpr (Ring::columns) rdt_columns_bring<T, Ring>(g, shared);
    } else if (Ring::abreast && warp == 3)
      rdt_wide_load_sums<Ring, check>(g, shared);
    else if (Ring::columns && warp == 3)
      rdt_columns_sum<T, Ring>(g, shared, 1);
  } else if (more_warps && group == 3) {
    rdt_registers_fewer<few>();
    if constexpr (Ring::columns) rdt_columns_sum<T, Ring>(g, shared, warp % 4);
  } else {
    rdt_registers_more<!Ring::columns ? 232 : more_warps ? 208 : 224>();
    if (Ring::groups == 1 && group == 2) rdt_bar_arrive(1, 256); /* the first group begins */
    rdt_wide_multiply<T, Ring, a_mn, b_mn, check, extra, Hit>(g, shared, group - 1, hit);
  }
#endif
}

#endif
