/* tmr-split: launches that have a share of k and a copy each; each begins with the vote on what the launches of the
 * share before have left (voted_wgmma_body.h). Where all three differ, that share is computed again from what was voted
 * on before it, which is still there. */
#ifndef RDT_CUDA_VOTED_WGMMA_SPLIT_H
#define RDT_CUDA_VOTED_WGMMA_SPLIT_H

#include "cuda/sm90/voted_wgmma_again.h"

/* Where a copy has told the digest of a warp's sums, so many votes before. */
RDT_DEVICE uint64_t *rdt_voted_post_of(const rdt_voted_args &v, int copy, int before, int warp) {
  return v.posts + rdt_voted_warp_at(v, copy, before, warp);
}
/* Told are digests and this: what lies there from another run, or vote, is like none of this one. */
RDT_DEVICE uint64_t rdt_voted_salt(const rdt_voted_args &v, int before) {
  const uint64_t x = ((uint64_t)__ldcg(v.runs + (before > 0)) << 8 | (unsigned)(v.vote - before)) * 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}

/* Copies whose digest of a warp's sums is not that of copy 0, a bit each: they have stored theirs. */
RDT_DEVICE uint32_t rdt_voted_others(const rdt_voted_args &v, int before, int warp) {
  const int lane = (int)threadIdx.x % 32;
  const unsigned long long d = lane < RDT_VOTERS ? __ldcg(rdt_voted_post_of(v, lane, before, warp)) : 0;
  const bool other = d != __shfl_sync(0xffffffffu, d, 0);
  return __ballot_sync(0xffffffffu, other) & ((1u << RDT_VOTERS) - 1);
}

/* All three had others. */
RDT_DEVICE bool rdt_voted_apart(const rdt_voted_args &v, int before, int warp) {
  const unsigned long long x = __ldcg(rdt_voted_post_of(v, 0, before, warp)),
                           y = __ldcg(rdt_voted_post_of(v, 1, before, warp)),
                           z = __ldcg(rdt_voted_post_of(v, 2, before, warp));
  return x != y && x != z && y != z;
}
/* What copy 0 had of a warp's sums, for this lane. */
template <class Shape>
RDT_DEVICE float4 *rdt_voted_voted_at(const rdt_voted_args &v, int before, int warp) {
  return (float4 *)v.values + rdt_voted_warp_at(v, 0, before, warp) * (Shape::held / 4 * 32) + rdt_voted_thread() % 32;
}

/* Of all sums of a warp the majority, for each copy alike; each tells what it has lost itself. A copy whose digest is
 * that of copy 0 has its values. */
template <class Shape>
RDT_DEVICE bool rdt_voted_elect(const rdt_voted_args &v, int tile, int warp, uint32_t others, rdt_voted_place at,
                                float (&c)[RDT_VOTED_HELD], int unknown) {
  const int lane = rdt_voted_thread() % 32, next = v.copy == 2 ? 0 : v.copy + 1, last = v.copy == 0 ? 2 : v.copy - 1;
  const uint32_t sm = __ldcg(rdt_voted_sms(v, v.vote - 1) + tile * RDT_VOTERS + v.copy);
  const auto values = [&](int copy) {
    return v.values + rdt_voted_warp_at(v, others >> copy & 1u ? copy : 0, 1, warp) * (int64_t)(Shape::held * 32) +
           lane * 4;
  };
  const float *x = values(v.copy), *y = values(next), *z = values(last);
  rdt_voted_lost lost = {0, 0, false, false};
#pragma unroll 1
  for (int first = 0; first < Shape::held; first += RDT_VOTED_FEW) {
#pragma unroll
    for (int i = 0; i < RDT_VOTED_FEW; i++) {
      const int j = i / 4 * 128 + i % 4;
      c[i] = rdt_voted_choose(v.copy, i, __ldcg(x + j), __float_as_uint(__ldcg(y + j)), __float_as_uint(__ldcg(z + j)),
                              lost);
    }
    rdt_voted_told(v, v.copy, at, first, lost, sm, unknown);
    rdt_voted_up<RDT_VOTED_FEW>(c);
    x += 32 * RDT_VOTED_FEW, y += 32 * RDT_VOTED_FEW, z += 32 * RDT_VOTED_FEW;
  }
  if (!__any_sync(0xffffffffu, lost.differ) && v.copy == 0 && lane == 0)
    atomicAdd((unsigned long long *)&v.found->alike, 1ull);
  return __any_sync(0xffffffffu, lost.unknown);
}

/* The share before once more, onto what was voted on before it if all copies had the same there: each copy for itself,
 * the next vote is on it. */
template <class T, class Shape, int b_mn, class Hit>
RDT_DEVICE void rdt_voted_share_again(const rdt_voted_args &v, int warp, int row, int column,
                                      float (&c)[RDT_VOTED_HELD], Hit &hit) {
  const bool there = v.vote > 1 && v.room[2] >= 0 && rdt_voted_others(v, 2, warp) == 0;
  rdt_voted_source source = there ? RDT_VOTED_THERE : RDT_VOTED_ZERO;
  if constexpr (Hit::on)
    if (there) hit.kept(v.copy, v.vote - 2, row, column, rdt_voted_voted_at<Shape>(v, 2, warp));
#pragma unroll 1
  for (bool good = false; !good;) {
    uint64_t d = rdt_voted_fetch(source, rdt_voted_voted_at<Shape>(v, source == RDT_VOTED_THERE ? 2 : 1, warp), c);
    if (source == RDT_VOTED_ZERO) break;
    d = rdt_voted_digest_of_warp(d) + rdt_voted_salt(v, 2);
    good = !__any_sync(0xffffffffu, d != __ldcg((const unsigned long long *)rdt_voted_post_of(v, 0, 2, warp)));
    if (!good) source = RDT_VOTED_ZERO;
  }
  const bool start = source == RDT_VOTED_ZERO;
  const int from = start ? 0 : (v.w.p.k + Shape::BK - 1) / Shape::BK * (v.vote - 1) / v.votes;
  if (v.copy == 0) rdt_voted_count(v.found, from, v.from, start, there && start);
  rdt_voted_redo<T, b_mn>(v.w.p, row, column, from, v.from, c);
  if constexpr (Hit::on) hit.again(from, v.from, v.copy, row, column, c);
}

/* One copy's share of k, on from what was voted before. Sums go to memory once: a copy whose digest is the one that
 * copy 0 has told has the same, and keeps them to itself. */
template <class T, class Shape, int b_mn, class Hit>
RDT_DEVICE void rdt_voted_chunk(const rdt_voted_args &v, uint32_t shared, int group, Hit &hit) {
  const rdt_wgmma_args &g = v.w;
  const bool ends = v.vote == v.votes - 1;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
  rdt_voted_ring<Shape> ring(g, shared, group);
  for (int i = rdt_voted_team_of<Shape>(); i < g.tiles; i += rdt_voted_teams<Shape>()) {
    const int tile = rdt_voted_turned<Shape>(v, i);
    const rdt_tile_place at = rdt_voted_tile<Shape>(g, tile);
    const int row0 = at.m * Shape::BM + 64 * group, column0 = at.n * Shape::BN;
    int warps = tile * RDT_VOTED_WARPS + 4 * group + warp;
    int round = v.from;
    if (lane == 0 && warp == 0 && group == 0) rdt_voted_sms(v, v.vote)[tile * RDT_VOTERS + v.copy] = rdt_sm();
    if (row0 >= g.p.m) {
      rdt_voted_pass(ring, v.to - v.from);
      continue;
    }
    float c[Shape::held];
    if (v.from) {
      const uint32_t others = rdt_voted_others(v, 1, warps);
      const float4 *const voted = rdt_voted_voted_at<Shape>(v, 1, warps);
#pragma unroll
      for (int i = 0; i < Shape::held; i += 4) {
        const float4 x = __ldcg(voted + i / 4 * 32);
        c[i] = x.x, c[i + 1] = x.y, c[i + 2] = x.z, c[i + 3] = x.w;
      }
      if (others) {
        /* Did they differ behind the share before, too, and has it been computed again? */
        const bool twice = v.vote > 1 && v.room[2] >= 0 && __any_sync(0xffffffffu, rdt_voted_apart(v, 2, warps));
        if (rdt_voted_elect<Shape>(v, tile, warps, others,
                                   rdt_voted_place{row0 + 16 * warp + lane / 4, column0 + 2 * (lane % 4)}, c,
                                   twice ? RDT_VOTED_NOBODY : RDT_VOTED_AGAIN) &&
            !twice)
          rdt_voted_share_again<T, Shape, b_mn>(v, warps, row0 + 16 * warp, column0, c, hit);
        rdt_voted_together(group, warp);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Shape::held; i++) c[i] = 0.0f;
    }
    rdt_voted_share<T, Shape, b_mn>(
        ring, c, round, v.to, hit, v.copy, row0 + 16 * warp, column0, []() {}, []() {});
    asm volatile("" : "+r"(warps)); /* places are found anew: registers are scarce */
    if (!ends) {
      const uint64_t salt = rdt_voted_salt(v, 0), theirs = rdt_voted_get(rdt_voted_post_of(v, 0, 0, warps));
      if constexpr (Hit::on) hit.accumulators(v.copy, v.vote, row0 + 16 * warp, column0, c);
      uint64_t d = rdt_voted_digest(c);
      if constexpr (Hit::on) hit.digest(v.copy, v.vote, row0 + 16 * warp, column0, d);
      d = rdt_voted_digest_of_warp(d) + salt;
      if (lane == 0) rdt_voted_post(rdt_voted_post_of(v, v.copy, 0, warps), d);
      if (theirs != d) {
        float4 *const to = (float4 *)v.values + rdt_voted_warp_at(v, v.copy, 0, warps) * (Shape::held / 4 * 32) + lane;
#pragma unroll
        for (int i = 0; i < Shape::held; i += 4)
          __stcg(to + i / 4 * 32, make_float4(c[i], c[i + 1], c[i + 2], c[i + 3]));
      }
    } else {
      rdt_voted_finish<Shape>(g, c, row0 + 16 * warp + lane / 4, column0 + 2 * (lane % 4));
      if constexpr (Hit::on) hit.accumulators(v.copy, v.vote, row0 + 16 * warp, column0, c);
      rdt_voted_put_out<T, Shape>(g, c, shared, group, row0, column0, -1, false);
    }
  }
  if (threadIdx.x % 128 == 0) rdt_tma_wait();
  if (v.votes > 1 && v.copy == 0 && blockIdx.x == 0 && group == 0 && threadIdx.x % 128 == 0) {
    if (v.vote == 1) v.runs[1] = v.runs[0]; /* for later launches, the last one among them */
    if (ends) v.runs[0] += 1;               /* which no launch asks for any more */
  }
}

#endif
