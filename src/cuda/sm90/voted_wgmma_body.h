/* See voted_wgmma.h. Blocks stay, and take tile after tile; one thread has TMA fill a ring of stages, three groups of
 * four warps multiply, 64 rows each. What is compared are digests of 64 bits, of each thread's accumulators (of a
 * warp's, where they have to travel); a copy that has told its own goes on multiplying, and looks at the others' at the
 * next vote. Only where they differ are values exchanged: of each the majority, and all three go on with it. Where all
 * three differ, 16 rows are computed again from what was kept of the last vote that all agreed on
 * (voted_wgmma_again.h). The last vote is on what is stored, but not rounded yet. */
#ifndef RDT_CUDA_VOTED_WGMMA_BODY_H
#define RDT_CUDA_VOTED_WGMMA_BODY_H

#include "cuda/ptx/chain.h"
#include "cuda/sm90/gemm_wgmma_body.h"
#include "cuda/sm90/voted_wgmma.h"
#include "cuda/vote_body.h"

template <int team_>
struct rdt_voted_shape {
  static constexpr int team = team_, MT = 1, BN = RDT_VOTED_COLUMNS, BK = 64, held = RDT_VOTED_HELD;
  static constexpr bool skinny = team == RDT_VOTED_SKINNY, keeps = !skinny; /* of votes; see voted_wgmma.h */
  static constexpr bool within = team == RDT_VOTED_BLOCK, pairs = team == RDT_VOTED_GRID || team == RDT_VOTED_SPLIT,
                        cluster = team == RDT_VOTED_CLUSTER || team == RDT_VOTED_SKINNY;
  /* Blocks of a cluster: those of the three copies, or two with tiles side by side. */
  static constexpr int together = within ? 1 : cluster ? (int)RDT_VOTERS : (int)RDT_VOTED_PAIR;
  static constexpr int of_team = within || team == RDT_VOTED_SPLIT ? 1 : (int)RDT_VOTERS; /* blocks */
  static constexpr int groups = skinny ? 1 : (int)RDT_VOTED_GROUPS;                       /* that multiply */
  static constexpr int pieces = within || skinny ? 1 : RDT_VOTED_GROUPS, BM = 64 * pieces, piece = 64 * BK * 2;
  static constexpr int a_bytes = pieces * piece, b_bytes = BN * BK * 2, stage_bytes = a_bytes + b_bytes;
  static constexpr int digests_bytes = within ? 2 * RDT_VOTERS * 128 * 8 : 2 * RDT_VOTED_WARPS * RDT_VOTERS * 16;
  /* SKINNY: a stage has as many pieces of 16 rows of A as C has; what is multiplied beyond them, of B, is not stored.
   */
  static constexpr int few = 16 * BK * 2, least = skinny ? few + b_bytes : stage_bytes;
  static constexpr int stages = (RDT_WGMMA_SHARED - groups * piece - digests_bytes - 256) / least; /* at most */
  static constexpr int out = stages * least, digests = out + groups * piece, barriers = digests + digests_bytes,
                       votes = barriers + 16 * stages;
  static_assert(votes + 32 <= RDT_WGMMA_SHARED, "more than a block has");
};

struct rdt_voted_no_hit {
  static constexpr bool on = false;
};

/* ---- who is who ---- */

/* threadIdx.x, anew: what rarely runs finds its places when it does, as registers are scarce; the compiler would keep
 * them from the beginning on. */
RDT_DEVICE int rdt_voted_thread() {
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

template <class Shape>
RDT_DEVICE int rdt_voted_teams() {
  return (int)gridDim.x / Shape::of_team;
}
template <class Shape>
RDT_DEVICE int rdt_voted_team_of() {
  return Shape::cluster ? (int)blockIdx.x / RDT_VOTERS : (int)blockIdx.x % rdt_voted_teams<Shape>();
}
template <class Shape>
RDT_DEVICE int rdt_voted_copy_of(int group) {
  return Shape::within ? group : Shape::cluster ? (int)rdt_cluster_rank() : (int)blockIdx.x / rdt_voted_teams<Shape>();
}

/* Tiles that are computed at the same time lie in a patch: what they load is found in L2. Those that have less than all
 * of their rows come last: they take less time. Of pairs: two side by side. */
template <class Shape>
RDT_DEVICE rdt_tile_place rdt_voted_tile(const rdt_wgmma_args &g, int tile) {
  constexpr int most = Shape::within ? 16 : 8, side = Shape::pairs ? (int)RDT_VOTED_PAIR : 1;
  const int columns = g.p.column_blocks / side, whole = g.p.m / Shape::BM, i = tile / side, rest = i - whole * columns;
  if (rest >= 0) return {whole, rest * side + tile % side};
  const int strip = i / (most * columns), within = i - strip * most * columns, height = min(most, whole - strip * most);
  return {strip * most + within % height, within / height * side + tile % side};
}

/* SPLIT: the tile of a block's turn. Copies 1 and 2 begin with their last one: of all others they know by then what
 * copy 0 has. Every second share of k goes through the tiles from behind: what was written last is still in L2. */
template <class Shape>
RDT_DEVICE int rdt_voted_turned(const rdt_voted_args &v, int i) {
  const int teams = rdt_voted_teams<Shape>(), last = v.w.tiles - 1;
  int tile = i;
  if (v.copy > 0) tile = i >= teams ? i - teams : last - (last - i) % teams;
  return v.vote % 2 ? v.w.tiles - RDT_VOTED_PAIR - tile + tile % RDT_VOTED_PAIR * 2 : tile;
}
/* SPLIT: by tile and copy the multiprocessors of a share, two rooms in turn. */
RDT_DEVICE uint32_t *rdt_voted_sms(const rdt_voted_args &v, int vote) {
  return v.sms + vote % 2 * v.w.tiles * RDT_VOTERS;
}
/* SPLIT: a warp's place among the sums that its copy had so many votes before: rooms in turn, as others may still read
 * what was before when it has gone on. */
RDT_DEVICE int64_t rdt_voted_warp_at(const rdt_voted_args &v, int copy, int before, int warp) {
  return (int64_t)(v.room[before] * RDT_VOTERS + copy) * v.w.tiles * RDT_VOTED_WARPS + warp;
}

/* Groups that have rows of C. */
template <class Shape>
RDT_DEVICE int rdt_voted_pieces(const rdt_wgmma_args &g, int m) {
  return Shape::within ? 1 : min(Shape::pieces, (g.p.m - m * Shape::BM + 63) / 64);
}

/* Stages of a ring, and bytes of A in each. */
struct rdt_voted_stages {
  int count, a_bytes;
};
template <class Shape>
RDT_DEVICE rdt_voted_stages rdt_voted_stages_of(const rdt_wgmma_args &g) {
  if (!Shape::skinny) return {Shape::stages, Shape::a_bytes};
  const int a_bytes = (g.p.m + 15) / 16 * Shape::few;
  return {Shape::out / (a_bytes + Shape::b_bytes), a_bytes};
}

/* ---- loading ---- */

template <class Shape, int b_mn>
RDT_DEVICE void rdt_voted_load(const rdt_voted_args &v, uint32_t shared) {
  const rdt_wgmma_args &g = v.w;
  const int from = Shape::team == RDT_VOTED_SPLIT ? v.from : 0,
            to = Shape::team == RDT_VOTED_SPLIT ? v.to : (g.p.k + Shape::BK - 1) / Shape::BK;
  const int teams = rdt_voted_teams<Shape>();
  const int rank = Shape::together > 1 ? (int)rdt_cluster_rank() : 0;
  constexpr int all = (1 << Shape::together) - 1;
  const uint32_t full = shared + Shape::barriers, empty = full + 8 * Shape::stages;
  const rdt_voted_stages ring = rdt_voted_stages_of<Shape>(g);
  int slot = 0, turn = 0;
  uint32_t parity = 1;
  for (int tile = rdt_voted_team_of<Shape>(); tile < g.tiles; tile += teams) {
    constexpr bool split = Shape::team == RDT_VOTED_SPLIT;
    const rdt_tile_place at = rdt_voted_tile<Shape>(g, split ? rdt_voted_turned<Shape>(v, tile) : tile);
    const int pieces = rdt_voted_pieces<Shape>(g, at.m);
    for (int round = from; round < to; round++) {
      const uint32_t stage = shared + (uint32_t)(slot * (ring.a_bytes + Shape::b_bytes)),
                     barrier = full + 8 * (uint32_t)slot;
      const int k = round * Shape::BK;
      if (split && v.ahead && from > 0 && round - from < RDT_VOTED_GROUPS &&
          tile + teams < g.tiles) /* of the next tile */
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(
                         v.values +
                         rdt_voted_warp_at(
                             v, 0, 1, rdt_voted_turned<Shape>(v, tile + teams) * RDT_VOTED_WARPS + 4 * (round - from)) *
                             (Shape::held * 32)),
                     "n"(Shape::held * 128 * 4)
                     : "memory");
      rdt_mbarrier_wait(empty + 8 * (uint32_t)slot, parity);
      rdt_mbarrier_expect(barrier, (Shape::skinny ? ring.a_bytes : pieces * Shape::piece) + Shape::b_bytes);
      if (turn == rank) {
#pragma unroll
        for (int i = 0; i < Shape::pieces; i++) {
          const int row = at.m * Shape::BM + 64 * i;
          if (i >= pieces) break;
          if constexpr (Shape::together > 1)
            rdt_tma_load_all(stage + i * Shape::piece, &g.a, k, row, barrier, all);
          else
            rdt_tma_load(stage + i * Shape::piece, &g.a, k, row, barrier);
        }
      }
      if (Shape::pairs || turn == rank) {
#pragma unroll
        for (int i = 0; i < Shape::BN / 64; i++) {
          const uint32_t to = stage + ring.a_bytes + i * Shape::piece;
          const int column = at.n * Shape::BN + 64 * i;
          if constexpr (Shape::cluster)
            rdt_tma_load_all(to, &g.b, b_mn ? column : k, b_mn ? k : column, barrier, all);
          else
            rdt_tma_load(to, &g.b, b_mn ? column : k, b_mn ? k : column, barrier);
        }
      }
      if (++turn == Shape::together) turn = 0;
      if (++slot == ring.count) slot = 0, parity ^= 1;
    }
  }
}

/* A warp's lanes meet. Of branches that lanes take apart, and loops, the compiler does not know that they have come
 * together again; from here on it does. Else it has all that tensor cores are told, of all lanes alike, in registers of
 * each lane, and moves it where it is needed (R2UR between HGMMA in the machine code): 4 % and more of a product. */
RDT_DEVICE void rdt_voted_together(int group, int warp) {
  rdt_bar_sync(1 + RDT_VOTED_GROUPS + 4 * group + warp, 32);
}

/* ---- digests ---- */

/* Any two sets of bits: weights of 32 bits, sums of 64. */
RDT_DEVICE uint32_t rdt_voted_weight(int i) {
  uint32_t w = (uint32_t)(i + 1) * 0x9e3779b9u;
  w ^= w >> 15;
  w *= 0x85ebca6bu;
  w ^= w >> 13;
  return w | 0x80000001u;
}
RDT_DEVICE uint64_t rdt_voted_digest(const float (&c)[RDT_VOTED_HELD]) {
  uint64_t d[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < RDT_VOTED_HELD; i++) d[i % 2] += (uint64_t)__float_as_uint(c[i]) * rdt_voted_weight(i);
  return d[0] + d[1];
}

/* Of all threads of the warp. */
RDT_DEVICE uint64_t rdt_voted_digest_of_warp(uint64_t d) {
  d *= 0x9e3779b97f4a7c15ull * (2u * (threadIdx.x % 32u) + 1u);
#pragma unroll
  for (int step = 16; step; step /= 2) d += __shfl_xor_sync(0xffffffffu, (unsigned long long)d, step);
  return d;
}

/* Half a digest and its number in a word, which is written at once. */
RDT_DEVICE uint64_t rdt_voted_word(uint32_t half, uint32_t number) {
  return (uint64_t)number << 32 | half;
}
RDT_DEVICE void rdt_voted_put(uint64_t *at, uint64_t x, uint64_t y) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1; st.relaxed.gpu.global.b64 [%0+8], %2;" ::"l"(at), "l"(x), "l"(y)
               : "memory");
}
RDT_DEVICE void rdt_voted_post(uint64_t *at, uint64_t x) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(at), "l"(x) : "memory");
}
RDT_DEVICE uint64_t rdt_voted_get(const uint64_t *at) {
  uint64_t x;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(x) : "l"(at) : "memory");
  return x;
}
RDT_DEVICE void rdt_voted_put_there(uint32_t at, uint32_t rank, uint64_t x, uint64_t y) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.relaxed.cluster.shared::cluster.b64 [there], %2; "
      "st.relaxed.cluster.shared::cluster.b64 [there+8], %3; }" ::"r"(at),
      "r"(rank), "l"(x), "l"(y)
      : "memory");
}
RDT_DEVICE uint64_t rdt_voted_get_here(uint32_t at) {
  uint64_t x;
  asm volatile("ld.relaxed.cluster.shared::cta.b64 %0, [%1];" : "=l"(x) : "r"(at) : "memory");
  return x;
}
RDT_DEVICE void rdt_voted_store8(uint32_t at, uint32_t x, uint32_t y) {
  asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(at), "r"(x), "r"(y) : "memory");
}
RDT_DEVICE uint2 rdt_voted_load8(uint32_t at) {
  uint2 x;
  asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(at) : "memory");
  return x;
}

/* ---- a voter: a warp, and those that have the same of the other copies ---- */

struct rdt_voted_voter {
  uint32_t shared; /* where the digests lie */
  int group;
  uint32_t number; /* of digests that were told; BLOCK: modulo 2 matters */
};

/* Where this voter's digests of a number lie: of all three copies, side by side. */
template <class Shape>
RDT_DEVICE uint32_t rdt_voted_here(const rdt_voted_voter &me) {
  const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
  return Shape::within
             ? me.shared + Shape::digests + (me.number & 1) * (RDT_VOTERS * 1024) + (uint32_t)(32 * warp + lane) * 8
             : me.shared + Shape::digests +
                   16 * (((me.number & 1) * RDT_VOTED_WARPS + (uint32_t)(4 * me.group + warp)) * RDT_VOTERS);
}
template <class Shape>
RDT_DEVICE uint64_t *rdt_voted_posts(const rdt_voted_args &v, const rdt_voted_voter &me) {
  const int warp = 4 * me.group + (int)threadIdx.x / 32 % 4;
  return v.posts +
         2 * (((2 * rdt_voted_team_of<Shape>() + (int)(me.number & 1)) * RDT_VOTED_WARPS + warp) * RDT_VOTERS);
}

template <class Shape>
RDT_DEVICE void rdt_voted_tell(const rdt_voted_args &v, rdt_voted_voter &me, uint64_t d) {
  const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
  me.number++;
  if constexpr (Shape::within) {
    rdt_voted_store8(rdt_voted_here<Shape>(me) + rdt_voted_copy_of<Shape>(me.group) * 1024, (uint32_t)d,
                     (uint32_t)(d >> 32));
    rdt_mbarrier_arrive_here(me.shared + Shape::votes + 8 * warp);
  } else {
    d = rdt_voted_digest_of_warp(d);
    const uint64_t low = rdt_voted_word((uint32_t)d, me.number), high = rdt_voted_word((uint32_t)(d >> 32), me.number);
    if constexpr (Shape::team == RDT_VOTED_GRID) {
      if (lane == 0) rdt_voted_put(rdt_voted_posts<Shape>(v, me) + 2 * rdt_voted_copy_of<Shape>(me.group), low, high);
    } else if (lane < RDT_VOTERS) {
      rdt_voted_put_there(rdt_voted_here<Shape>(me) + 16 * rdt_voted_copy_of<Shape>(me.group), (uint32_t)lane, low,
                          high);
    }
  }
}

/* Do all three say the same? One answer for all three warps. */
template <class Shape>
RDT_DEVICE bool rdt_voted_alike(const rdt_voted_args &v, const rdt_voted_voter &me) {
  const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
  bool same = true;
  if constexpr (Shape::within) {
    rdt_mbarrier_wait_all(me.shared + Shape::votes + 8 * warp, (me.number + 1) & 1);
    const uint32_t at = rdt_voted_here<Shape>(me);
    const uint2 x = rdt_voted_load8(at), y = rdt_voted_load8(at + 1024), z = rdt_voted_load8(at + 2048);
    same = ((x.x ^ y.x) | (x.y ^ y.y) | (x.x ^ z.x) | (x.y ^ z.y)) == 0;
  } else {
    uint64_t word; /* lanes 0 to 5 have one each, all others the last one */
    const int at = min(lane, 2 * RDT_VOTERS - 1);
    do
      word = Shape::team == RDT_VOTED_GRID ? rdt_voted_get(rdt_voted_posts<Shape>(v, me) + at)
                                           : rdt_voted_get_here(rdt_voted_here<Shape>(me) + 8 * at);
    while (__any_sync(0xffffffffu, (uint32_t)(word >> 32) != me.number));
    same = (uint32_t)word == __shfl_sync(0xffffffffu, (uint32_t)word, at & 1);
  }
  return __ballot_sync(0xffffffffu, !same) == 0;
}

/* ---- values ---- */

struct rdt_voted_place { /* of a thread's first accumulator */
  int row, column;
};

/* In place of a copy that lost: all three differ, and it is computed again; or it was, and they differ once more. */
enum { RDT_VOTED_AGAIN = -2, RDT_VOTED_NOBODY = -1 };

RDT_DEVICE void rdt_voted_complain(const rdt_voted_args &v, rdt_voted_place at, int i, int loser, uint32_t sm) {
  const int row = at.row + 8 * (i / 2 % 2), column = at.column + 8 * (i / 4) + i % 2;
  const rdt_mma_args &p = v.w.p;
  if (row >= p.m || column >= p.n) return;
  const int64_t e = (int64_t)row * p.n + column;
  const bool again = loser == RDT_VOTED_AGAIN; /* nobody knows who was wrong */
  const int complaint = again ? RDT_CUDA_AGAIN : loser < 0 ? (int)RDT_CUDA_CERTAIN : (int)RDT_CUDA_OUTVOTED;
  rdt_vote_tell(v.found, e, row, column, complaint, again ? -1 : loser, again ? ~0u : sm, 1);
}

/* What a thread has lost, and what nobody knows: a bit for each accumulator of a round; and whether anything differed,
 * and was not known, in all rounds. */
struct rdt_voted_lost {
  uint32_t mine, nobody;
  bool differ, unknown;
};

/* y, z: of the next copy and the one after. Where all three differ, all go on with that of the first copy. */
RDT_DEVICE float rdt_voted_choose(int copy, int i, float mine, uint32_t y, uint32_t z, rdt_voted_lost &lost) {
  const uint32_t x = __float_as_uint(mine);
  const bool good = x == y || x == z;
  lost.differ = lost.differ || x != y || x != z;
  if (!good && y == z) lost.mine |= 1u << i;
  if (!good && y != z) lost.nobody |= 1u << i, lost.unknown = true;
  return __uint_as_float(y == z ? y : good || copy == 0 ? x : copy == 1 ? z : y);
}

/* Who lost says so, of a round's accumulators from one on: it knows where it ran. unknown: what is said of those that
 * nobody knows. */
RDT_DEVICE void rdt_voted_told(const rdt_voted_args &v, int copy, rdt_voted_place at, int first, rdt_voted_lost &lost,
                               uint32_t sm, int unknown) {
  uint32_t left = copy == 0 ? lost.mine | lost.nobody : lost.mine;
#pragma unroll 1
  while (left) {
    const int i = __ffs((int)left) - 1;
    rdt_voted_complain(v, at, first + i, lost.mine >> i & 1u ? copy : unknown, sm);
    left &= left - 1;
  }
  lost.mine = lost.nobody = 0;
}

/* Three warps meet, wherever they are. */
template <class Shape>
RDT_DEVICE void rdt_voted_meet(const rdt_voted_args &v, const rdt_voted_voter &me) {
  const int warp = (int)threadIdx.x / 32 % 4, lane = (int)threadIdx.x % 32;
  if constexpr (Shape::within) {
    rdt_bar_sync(8 + warp, 32 * RDT_VOTERS);
  } else {
    unsigned *const all = v.met + (rdt_voted_team_of<Shape>() * RDT_VOTED_WARPS + 4 * me.group + warp) * RDT_VOTERS;
    __threadfence();
    __syncwarp();
    if (lane == 0) {
      const unsigned mine = *(volatile unsigned *)(all + rdt_voted_copy_of<Shape>(me.group)) + 1;
      *(volatile unsigned *)(all + rdt_voted_copy_of<Shape>(me.group)) = mine;
      for (int i = 0; i < RDT_VOTERS; i++)
        while ((int)(*(volatile unsigned *)(all + i) - mine) < 0) {
        }
    }
    __syncwarp();
    __threadfence();
  }
}

/* Accumulators in rounds of so many, the first of a round in front: one piece of code for all of them. After all rounds
 * they lie as before. FEW: of what rarely runs, where registers are scarce. */
enum { RDT_VOTED_ROUND = 16, RDT_VOTED_FEW = 8 };
template <int round>
RDT_DEVICE void rdt_voted_up(float (&c)[RDT_VOTED_HELD]) {
  float first[round];
#pragma unroll
  for (int i = 0; i < round; i++) first[i] = c[i];
#pragma unroll
  for (int i = 0; i < RDT_VOTED_HELD; i++) c[i] = i + round < RDT_VOTED_HELD ? c[i + round] : first[i % round];
}

/* Whether there was something that nobody knows: one answer for all three warps. */
template <class Shape>
RDT_DEVICE bool rdt_voted_settle(const rdt_voted_args &v, const rdt_voted_voter &me, rdt_voted_place at,
                                 float (&c)[RDT_VOTED_HELD], int unknown) {
  const int thread = rdt_voted_thread(), warp = thread / 32 % 4, lane = thread % 32;
  const int copy = rdt_voted_copy_of<Shape>(me.group), next = copy == 2 ? 0 : copy + 1, last = copy == 0 ? 2 : copy - 1;
  rdt_voted_lost lost = {0, 0, false, false};
  rdt_voted_meet<Shape>(v, me);
  if constexpr (Shape::within) {
    const uint32_t mine = me.shared + Shape::digests + (uint32_t)(32 * warp + lane) * 8;
#pragma unroll 1
    for (int first = 0; first < RDT_VOTED_HELD; first += RDT_VOTED_FEW) {
#pragma unroll
      for (int i = 0; i < RDT_VOTED_FEW; i += 2) {
        const uint32_t to = mine + (i / 2 & 1) * (RDT_VOTERS * 1024);
        rdt_voted_store8(to + copy * 1024, __float_as_uint(c[i]), __float_as_uint(c[i + 1]));
        rdt_voted_meet<Shape>(v, me);
        const uint2 y = rdt_voted_load8(to + next * 1024), z = rdt_voted_load8(to + last * 1024);
        c[i] = rdt_voted_choose(copy, i, c[i], y.x, z.x, lost);
        c[i + 1] = rdt_voted_choose(copy, i + 1, c[i + 1], y.y, z.y, lost);
      }
      rdt_voted_told(v, copy, at, first, lost, rdt_sm(), unknown);
      rdt_voted_up<RDT_VOTED_FEW>(c);
    }
  } else {
    const auto values = [&](int of) {
      return v.values +
             ((rdt_voted_team_of<Shape>() * RDT_VOTERS + of) * RDT_VOTED_WARPS + 4 * me.group + warp) *
                 (RDT_VOTED_HELD * 32) +
             lane;
    };
    float *mine = values(copy);
#pragma unroll 1
    for (int first = 0; first < RDT_VOTED_HELD; first += RDT_VOTED_FEW, mine += 32 * RDT_VOTED_FEW) {
#pragma unroll
      for (int i = 0; i < RDT_VOTED_FEW; i++) __stcg(mine + 32 * i, c[i]);
      rdt_voted_up<RDT_VOTED_FEW>(c);
    }
    rdt_voted_meet<Shape>(v, me);
    const float *y = values(next), *z = values(last);
#pragma unroll 1
    for (int first = 0; first < RDT_VOTED_HELD; first += RDT_VOTED_FEW) {
#pragma unroll
      for (int i = 0; i < RDT_VOTED_FEW; i++)
        c[i] = rdt_voted_choose(copy, i, c[i], __float_as_uint(__ldcg(y + 32 * i)), __float_as_uint(__ldcg(z + 32 * i)),
                                lost);
      rdt_voted_told(v, copy, at, first, lost, rdt_sm(), unknown);
      rdt_voted_up<RDT_VOTED_FEW>(c);
      y += 32 * RDT_VOTED_FEW, z += 32 * RDT_VOTED_FEW;
    }
  }
  if (!__any_sync(0xffffffffu, lost.differ) && copy == 0 && lane == 0)
    atomicAdd((unsigned long long *)&v.found->alike, 1ull);
  rdt_voted_meet<Shape>(v, me);
  const bool any = __any_sync(0xffffffffu, lost.unknown);
  if (!Shape::within) rdt_voted_together(me.group, warp);
  return any;
}

/* ---- multiplying ---- */

/* Alpha, bias, residual, relu. */
RDT_DEVICE float rdt_voted_final(const rdt_mma_args &p, float x, int row, int column) {
  x = rdt_mul(p.alpha, x);
  if (row >= p.m || column >= p.n) return x;
  if (p.bias) x = rdt_add(x, rdt_wide_load_as(p.bias, column, p.bias_type));
  if (p.residual) x = rdt_add(x, rdt_mul(p.beta, rdt_wide_load_as(p.residual, row * p.ldr + column, p.c_type)));
  return p.relu && x < 0.0f ? 0.0f : x; /* NaN stays */
}

/* A warp's rows of a pass, as they are stored. wide: f32, 32 columns; else 64. */
template <class T, bool wide>
RDT_DEVICE void rdt_voted_lay(const float *c, uint32_t at) {
  const int thread = rdt_voted_thread(), lane = thread % 32, warp = thread / 32 % 4;
#pragma unroll
  for (int j = 0; j < (wide ? 4 : 8); j += wide ? 1 : 2) {
    const float *x = &c[4 * j];
    if constexpr (wide) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int row = 16 * warp + 8 * h + lane / 4, chunk = 2 * j + lane % 4 / 2;
        rdt_store8_shared(at + 128 * row + 16 * (chunk ^ row % 8) + 8 * (lane % 2), x[2 * h], x[2 * h + 1]);
      }
    } else {
      const int row = 16 * warp + lane % 16, chunk = j + lane / 16;
      rdt_stmatrix4(at + 128 * row + 16 * (chunk ^ row % 8), T::narrow(x[0], x[1]), T::narrow(x[2], x[3]),
                    T::narrow(x[4], x[5]), T::narrow(x[6], x[7]));
    }
  }
  rdt_tma_fence();
}

/* What was laid out before may be laid over. */
RDT_DEVICE void rdt_voted_room(int bar) {
  if (threadIdx.x % 128 == 0) rdt_tma_wait_read<0>();
  rdt_bar_sync(bar, 128);
}

template <bool wide>
RDT_DEVICE void rdt_voted_send(const rdt_wgmma_args &g, uint32_t at, int bar, int row0, int column) {
  rdt_wide_store_rest<wide>(g, at, 0, row0 + 16 * ((int)threadIdx.x / 32 % 4), column);
  rdt_bar_sync(bar, 128);
  if (threadIdx.x % 128 || column >= g.stored || row0 >= g.p.m) return;
  rdt_tma_store(&g.c, column, row0, at);
  rdt_tma_commit();
}

/* 128 bytes of each row at once; of these columns every third part, from `part` on: the other copies store theirs.
 * part < 0: all. */
template <class T, class Shape, bool wide>
RDT_DEVICE void rdt_voted_store(const rdt_wgmma_args &g, const float (&c)[RDT_VOTED_HELD], uint32_t at, int bar,
                                int row0, int column0, int part) {
  constexpr int columns = wide ? 32 : 64; /* of a pass */
#pragma unroll
  for (int pass = 0; pass < Shape::BN / columns; pass++) {
    if (part >= 0 && pass % RDT_VOTERS != part) continue;
    rdt_voted_room(bar);
    rdt_voted_lay<T, wide>(&c[pass * columns / 2], at);
    rdt_voted_send<wide>(g, at, bar, row0, column0 + pass * columns);
  }
}

/* A copy's part of halves: there are two, the third copy has none. */
template <class T>
RDT_DEVICE void rdt_voted_lay_part(const float (&c)[RDT_VOTED_HELD], uint32_t at, int part) {
  if (part == 0) rdt_voted_lay<T, false>(&c[0], at);
  if (part == 1) rdt_voted_lay<T, false>(&c[32], at);
}

template <class T, class Shape, int b_mn>
RDT_DEVICE void rdt_voted_round(float (&c)[RDT_VOTED_HELD], uint32_t a, uint32_t b) {
  const uint64_t left = rdt_wgmma_place(a, 16), right = rdt_wgmma_place(b, b_mn ? Shape::piece : 16);
  /* In units of 16 bytes; they never carry into the upper word, which the compiler does not know. */
  const auto on = [](uint64_t place, uint32_t by) { return place >> 32 << 32 | ((uint32_t)place + by); };
#pragma unroll
  for (int k = 0; k < Shape::BK / 16; k++)
    rdt_wgmma<T, Shape::BN, 0, b_mn>::step(c, on(left, 2 * k), on(right, (b_mn ? 128 : 2) * k), 1);
}

/* A group's way through the stages. */
template <class Shape>
struct rdt_voted_ring {
  rdt_voted_stages of;
  uint32_t shared;
  int group, slot;
  uint32_t parity;

  __device__ __forceinline__ rdt_voted_ring(const rdt_wgmma_args &g, uint32_t shared_, int group_)
      : of(rdt_voted_stages_of<Shape>(g)), shared(shared_), group(group_), slot(0), parity(0) {}
  __device__ __forceinline__ uint32_t stage() const {
    return shared + (uint32_t)(slot * (of.a_bytes + Shape::b_bytes));
  }

  __device__ __forceinline__ uint32_t full() const {
    return shared + Shape::barriers + 8 * (uint32_t)slot;
  }
  __device__ __forceinline__ void next() {
    if (++slot == of.count) slot = 0, parity ^= 1;
  }
  /* The stage before the one that is next, or before that. */
  __device__ __forceinline__ void release(int next) {
    const int before = (next ? next : of.count) - 1;
    if ((int)threadIdx.x % 32 < Shape::together)
      rdt_mbarrier_arrive(shared + Shape::barriers + 8 * (uint32_t)(Shape::stages + before), threadIdx.x % 32);
  }
};

/* Rounds from one to another, at least one: a loop that may be passed by makes the compiler copy all accumulators.
 * first: done while the first one multiplies; last: while the last one does. */
template <class T, class Shape, int b_mn, class First, class Last>
RDT_DEVICE void rdt_voted_rounds(rdt_voted_ring<Shape> &ring, float (&c)[RDT_VOTED_HELD], int &round, int end,
                                 const First &first, const Last &last) {
  bool more = false;
  rdt_wgmma_keep(c);
#pragma unroll 1
  do {
    const uint32_t stage = ring.stage();
    rdt_mbarrier_wait(ring.full(), ring.parity);
    rdt_wgmma_begin();
    rdt_voted_round<T, Shape, b_mn>(c, stage + (Shape::within ? 0 : ring.group * Shape::piece),
                                    stage + ring.of.a_bytes);
    rdt_wgmma_commit();
    if (more) {
      rdt_wgmma_wait<1>();
      ring.release(ring.slot);
    } else {
      first();
    }
    more = true;
    ring.next();
  } while (++round < end);
  last();
  rdt_wgmma_wait<0>();
  ring.release(ring.slot);
  rdt_wgmma_keep(c);
}

/* A share of the rounds: where faults are planted in between, it is taken apart at their places. */
template <class T, class Shape, int b_mn, class Hit, class First, class Last>
RDT_DEVICE void rdt_voted_share(rdt_voted_ring<Shape> &ring, float (&c)[RDT_VOTED_HELD], int &round, int end, Hit &hit,
                                int copy, int row, int column, const First &first, const Last &last) {
  if constexpr (!Hit::on) {
    rdt_voted_rounds<T, Shape, b_mn>(ring, c, round, end, first, last);
  } else {
    const int begun = round;
#pragma unroll 1
    do {
      const int from = round, to = hit.next(round, end);
      rdt_voted_rounds<T, Shape, b_mn>(
          ring, c, round, to,
          [&]() {
            if (from == begun) first();
          },
          [&]() {
            if (to == end) last();
          });
      hit.behind(round, copy, row, column, c);
    } while (round < end);
  }
}

/* A group without rows of C, of all copies. */
template <class Shape>
RDT_DEVICE void rdt_voted_pass(rdt_voted_ring<Shape> &ring, int rounds) {
#pragma unroll 1
  for (int round = 0; round < rounds; round++) {
    rdt_mbarrier_wait(ring.full(), ring.parity);
    ring.next();
    ring.release(ring.slot);
  }
}

/* Bias and all that follows, of what is stored. */
template <class Shape>
RDT_DEVICE void rdt_voted_finish(const rdt_wgmma_args &g, float (&c)[RDT_VOTED_HELD], int row, int column) {
  if (!g.extra && g.p.alpha == 1.0f) return;
#pragma unroll 1
  for (int first = 0; first < Shape::held; first += RDT_VOTED_ROUND, column += 2 * RDT_VOTED_ROUND) {
#pragma unroll
    for (int i = 0; i < RDT_VOTED_ROUND; i++)
      c[i] = rdt_voted_final(g.p, c[i], row + i / 2 % 2 * 8, column + i / 4 * 8 + i % 2);
    rdt_voted_up<RDT_VOTED_ROUND>(c);
  }
}

/* Of the parts of a tile every third, or, part < 0, all. laid: what is in halves lies there already. */
template <class T, class Shape>
RDT_DEVICE void rdt_voted_put_out(const rdt_wgmma_args &g, const float (&c)[RDT_VOTED_HELD], uint32_t shared, int group,
                                  int row0, int column0, int part, bool laid) {
  const uint32_t out = shared + Shape::out + (uint32_t)group * Shape::piece;
  if (g.p.c_type == RDT_MMA_F32)
    rdt_voted_store<T, Shape, true>(g, c, out, 1 + group, row0, column0, part);
  else if (!laid)
    rdt_voted_store<T, Shape, false>(g, c, out, 1 + group, row0, column0, part);
  else if (part < 2)
    rdt_voted_send<false>(g, out, 1 + group, row0, column0 + 64 * part);
}

/* Of a warp: what is kept of its part of a tile. It has two rooms; what is not agreed on yet goes into the other one.
 */
struct rdt_voted_kept {
  int votes, room; /* behind how many it was; 0: nothing has been agreed on */
  uint64_t digest; /* that all copies had */
};
template <class Shape>
RDT_DEVICE float4 *rdt_voted_kept_at(const rdt_voted_args &v, const rdt_voted_voter &me, int room);
template <class Shape>
RDT_DEVICE void rdt_voted_keep(const rdt_voted_args &v, const rdt_voted_voter &me, int room,
                               const float (&c)[RDT_VOTED_HELD]);
template <class T, class Shape, int b_mn, class Hit>
RDT_DEVICE bool rdt_voted_again(const rdt_voted_args &v, rdt_voted_voter &me, const rdt_voted_kept &kept, int row,
                                int column, int round, bool last, float (&c)[RDT_VOTED_HELD], Hit &hit);

template <class T, class Shape, int b_mn, class Hit>
RDT_DEVICE void rdt_voted_multiply(const rdt_voted_args &v, uint32_t shared, int group, Hit &hit) {
  const rdt_wgmma_args &g = v.w;
  const rdt_mma_args &p = g.p;
  const int rounds = (p.k + Shape::BK - 1) / Shape::BK, teams = rdt_voted_teams<Shape>();
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
  rdt_voted_voter me = {shared, group, 0};
  rdt_voted_kept kept = {0, 0, 0};
  if (Shape::team == RDT_VOTED_GRID) { /* on from where the last launch was */
    const int own = 2 * rdt_voted_copy_of<Shape>(group);
    const uint32_t even = (uint32_t)(rdt_voted_get(rdt_voted_posts<Shape>(v, me) + own) >> 32);
    me.number = 1;
    me.number = max(even, (uint32_t)(rdt_voted_get(rdt_voted_posts<Shape>(v, me) + own) >> 32));
  }
  rdt_voted_ring<Shape> ring(g, shared, group);
  for (int tile = rdt_voted_team_of<Shape>(); tile < g.tiles; tile += teams) {
    const rdt_tile_place at = rdt_voted_tile<Shape>(g, tile);
    const int row0 = at.m * Shape::BM + (Shape::within ? 0 : 64 * group), column0 = at.n * Shape::BN;
    const int copy = rdt_voted_copy_of<Shape>(group);
    const bool halves = p.c_type != RDT_MMA_F32;
    const uint32_t out = shared + Shape::out + (uint32_t)group * Shape::piece;
    if (!Shape::within && row0 >= p.m) {
      rdt_voted_pass(ring, rounds);
      continue;
    }
    float c[Shape::held];
#pragma unroll
    for (int i = 0; i < Shape::held; i++) c[i] = 0.0f;
    int round = 0;
    uint64_t d = 0;
    kept.votes = 0;
    if (lane == 0 && warp == 0 && (Shape::within || group == 0)) v.sms[tile * RDT_VOTERS + copy] = rdt_sm();
#pragma unroll 1
    for (int vote = 0;; vote++) {
      const bool last = vote == v.votes;
      bool alike = true;
      if (!last) {
        /* What a copy has to say of the vote before it tells while it goes on, and it looks at what the others have
         * said under the last product before the next one: nobody waits, and wgmma is dry for the digest alone. */
        rdt_voted_share<T, Shape, b_mn>(
            ring, c, round, rounds * (vote + 1) / v.votes, hit, copy, row0 + 16 * warp, column0,
            [&]() {
              if (vote > 0) rdt_voted_tell<Shape>(v, me, d);
            },
            [&]() {
              if (vote > 0) alike = rdt_voted_alike<Shape>(v, me);
            });
      } else {
        rdt_voted_tell<Shape>(v, me, d);
        if (halves && copy < 2) { /* while the others tell theirs */
          rdt_voted_room(1 + group);
          rdt_voted_lay_part<T>(c, out, copy);
        }
        alike = rdt_voted_alike<Shape>(v, me); /* the last one is waited for */
      }
      if (Shape::keeps && alike && vote > 0 && v.kept) kept = rdt_voted_kept{vote, kept.room ^ 1, d};
      bool decided = alike;
      int unknown = RDT_VOTED_AGAIN;
#pragma unroll 1
      while (!decided &&
             rdt_voted_settle<Shape>(v, me, rdt_voted_place{row0 + 16 * warp + lane / 4, column0 + 2 * (lane % 4)}, c,
                                     unknown) &&
             unknown == RDT_VOTED_AGAIN) {
        decided = rdt_voted_again<T, Shape, b_mn>(v, me, kept, row0 + 16 * warp, column0, round, last, c, hit);
        unknown = RDT_VOTED_NOBODY;
      }
      if (last) {
        if (!alike && halves) rdt_voted_lay_part<T>(c, out, copy);
        break;
      }
      if (vote == v.votes - 1) rdt_voted_finish<Shape>(g, c, row0 + 16 * warp + lane / 4, column0 + 2 * (lane % 4));
      if constexpr (Hit::on) hit.accumulators(copy, vote, row0 + 16 * warp, column0, c);
      if (Shape::keeps && v.kept && vote < v.votes - 1) {
        rdt_voted_keep<Shape>(v, me, kept.room ^ 1, c);
        if constexpr (Hit::on)
          hit.kept(copy, vote, row0 + 16 * warp, column0, rdt_voted_kept_at<Shape>(v, me, kept.room ^ 1));
      }
      d = rdt_voted_digest(c);
      if constexpr (Hit::on) hit.digest(copy, vote, row0 + 16 * warp, column0, d);
    }
    rdt_voted_put_out<T, Shape>(g, c, shared, group, row0, column0, copy, true);
  }
  if (threadIdx.x % 128 == 0) rdt_tma_wait();
}

template <class T, class Shape, int b_mn, class Hit>
RDT_DEVICE void rdt_voted_chunk(const rdt_voted_args &v, uint32_t shared, int group, Hit &hit);

/* ---- a block ---- */

template <class T, class Shape, int b_mn, class Hit>
RDT_DEVICE void rdt_voted(const rdt_voted_args &v, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  const uint32_t shared = rdt_shared(memory);
  const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::stages; i++) {
      rdt_mbarrier_init(shared + Shape::barriers + 8 * i, 1);
      rdt_mbarrier_init(shared + Shape::barriers + 8 * (Shape::stages + i), 4 * Shape::groups * Shape::together);
    }
    for (int i = 0; i < 4; i++) rdt_mbarrier_init(shared + Shape::votes + 8 * i, 32 * RDT_VOTERS);
    rdt_mbarrier_init_done();
    rdt_tma_prefetch(&v.w.a), rdt_tma_prefetch(&v.w.b), rdt_tma_prefetch(&v.w.c);
  }
  if (Shape::cluster)
    for (int i = (int)threadIdx.x; i < Shape::digests_bytes / 8; i += RDT_VOTED_THREADS)
      rdt_voted_store8(shared + Shape::digests + 8 * (uint32_t)i, 0, 0);
  __syncthreads();
  if constexpr (Shape::together > 1)
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if constexpr (Shape::within || Shape::cluster) { /* it may begin while the kernel before it ends */
    rdt_chain_wait();
    rdt_chain_next();
  }
  if (group == 0) {
    rdt_registers_fewer<40>();
    if (threadIdx.x == 0) rdt_voted_load<Shape, b_mn>(v, shared);
  } else if (group <= Shape::groups) {
    rdt_registers_more<152>();
    if constexpr (Shape::team == RDT_VOTED_SPLIT)
      rdt_voted_chunk<T, Shape, b_mn, Hit>(v, shared, group - 1, hit);
    else
      rdt_voted_multiply<T, Shape, b_mn, Hit>(v, shared, group - 1, hit);
  }
  __syncwarp();
  if constexpr (Shape::together > 1) /* nobody writes here any more */
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

#include "cuda/sm90/voted_wgmma_again.h"
#include "cuda/sm90/voted_wgmma_split.h"

#endif
