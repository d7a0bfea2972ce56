/* What nobody knows is computed again, from the last vote that all copies agreed on: by each copy, and it is voted on
 * at once. 16 rows are a warp's alone, which multiplies them by itself (mma.sync adds as wgmma does:
 * docs/tolerance.md), of operands that it loads: rings and all other warps go on as if nothing were, and nobody has to
 * be told. */
#ifndef RDT_CUDA_VOTED_WGMMA_AGAIN_H
#define RDT_CUDA_VOTED_WGMMA_AGAIN_H

#include "cuda/sm90/voted_wgmma_body.h"

/* ---- what is kept of a vote ---- */

template <class Shape>
RDT_DEVICE float4 *rdt_voted_kept_at(const rdt_voted_args &v, const rdt_voted_voter &me, int room) {
  constexpr int warps = 4 * Shape::pieces;
  const int thread = rdt_voted_thread(), warp = thread / 32 % 4 + (Shape::within ? 0 : 4 * me.group);
  return (float4 *)v.kept +
         (((rdt_voted_team_of<Shape>() * 2 + room) * warps + warp) * (Shape::held / 4) * 32 + thread % 32);
}

/* A third by each copy: if they agree, all have the same. Nobody waits for it, and the block has it again and again, so
 * that it stays in L2. */
template <class Shape>
RDT_DEVICE void rdt_voted_keep(const rdt_voted_args &v, const rdt_voted_voter &me, int room,
                               const float (&c)[RDT_VOTED_HELD]) {
  float4 *const to = rdt_voted_kept_at<Shape>(v, me, room);
  const int copy = rdt_voted_copy_of<Shape>(me.group);
#pragma unroll
  for (int i = 0; i < Shape::held; i += 4)
    if (i / 4 % RDT_VOTERS == copy) __stcg(to + 8 * i, make_float4(c[i], c[i + 1], c[i + 2], c[i + 3]));
}

/* What accumulators become, and its digest: what lies there, zero, or what they are. Few at a time, and one piece of
 * code: registers are scarce, and where ways meet that leave accumulators the compiler has them twice. */
enum rdt_voted_source { RDT_VOTED_THERE, RDT_VOTED_ZERO, RDT_VOTED_THESE };
RDT_DEVICE uint64_t rdt_voted_fetch(rdt_voted_source source, const float4 *from, float (&c)[RDT_VOTED_HELD]) {
  uint64_t d = 0;
#pragma unroll 1
  for (int first = 0; first < RDT_VOTED_HELD; first += RDT_VOTED_FEW) {
#pragma unroll
    for (int i = 0; i < RDT_VOTED_FEW; i += 4) {
      float4 x = make_float4(c[i], c[i + 1], c[i + 2], c[i + 3]);
      if (source == RDT_VOTED_THERE) x = __ldcg(from + 8 * (first + i));
      if (source == RDT_VOTED_ZERO) x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      c[i] = x.x, c[i + 1] = x.y, c[i + 2] = x.z, c[i + 3] = x.w;
    }
#pragma unroll
    for (int i = 0; i < RDT_VOTED_FEW; i++) d += (uint64_t)__float_as_uint(c[i]) * rdt_voted_weight(first + i);
    rdt_voted_up<RDT_VOTED_FEW>(c);
  }
  return d;
}

/* ---- multiplying, by a warp ---- */

RDT_DEVICE void rdt_voted_mma(const rdt_f16 *, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  rdt_mma_f16(c, a, b);
}
RDT_DEVICE void rdt_voted_mma(const rdt_bf16 *, float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  rdt_mma_bf16(c, a, b);
}

/* Two of k, an even one first, of a row (of B: a column) that is there or zero. across: the next of k is a row further.
 * Rows begin at multiples of 16 bytes. */
template <int across>
RDT_DEVICE uint32_t rdt_voted_two(const void *from, int64_t pitch, int row, int rows, int k, int all) {
  if (row >= rows || k >= all) return 0;
  const uint16_t *const at = (const uint16_t *)from + (across ? k * pitch + row : row * pitch + k);
  if (!across && k + 1 < all) return __ldg((const uint32_t *)at);
  return __ldg(at) | (k + 1 < all ? (uint32_t)__ldg(at + (across ? pitch : 1)) << 16 : 0u);
}

/* Stages of k from one to another, onto what is in c. */
template <class T, int b_mn>
RDT_DEVICE void rdt_voted_redo(const rdt_mma_args &p, int row, int column, int from, int to,
                               float (&c)[RDT_VOTED_HELD]) {
  constexpr int depth = 64, step = 16, wide = 8, each = RDT_VOTED_FEW / 4; /* instructions side by side */
  const int thread = rdt_voted_thread(), g = thread % 32 / 4, t = thread % 4;
#pragma unroll 1
  for (int first = 0; first < RDT_VOTED_HELD; first += RDT_VOTED_FEW, column += each * wide) {
#pragma unroll 1
    for (int k = from * depth; k < min(to * depth, p.k); k += step) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; i++)
        a[i] = rdt_voted_two<0>(p.a, p.lda, row + g + i % 2 * 8, p.m, k + i / 2 * 8 + 2 * t, p.k);
#pragma unroll
      for (int j = 0; j < each; j++) {
        uint32_t b[2];
        float x[4] = {c[4 * j], c[4 * j + 1], c[4 * j + 2], c[4 * j + 3]};
#pragma unroll
        for (int i = 0; i < 2; i++)
          b[i] = rdt_voted_two<b_mn>(p.b, p.ldb, column + wide * j + g, p.n, k + 8 * i + 2 * t, p.k);
        rdt_voted_mma((const T *)nullptr, x, a, b);
#pragma unroll
        for (int i = 0; i < 4; i++) c[4 * j + i] = x[i];
      }
    }
    rdt_voted_up<RDT_VOTED_FEW>(c);
  }
}

/* refused: what was kept was not what was agreed on. */
RDT_DEVICE void rdt_voted_count(rdt_vote_found *f, int from, int to, bool start, bool refused) {
  if (threadIdx.x % 32) return;
  atomicAdd((unsigned long long *)&f->restarts, 1ull);
  atomicAdd((unsigned long long *)&f->rounds, (unsigned long long)(to - from));
  if (start) atomicAdd((unsigned long long *)&f->from_start, 1ull);
  if (refused) atomicAdd((unsigned long long *)&f->refused, 1ull);
}

/* ---- once more, up to this stage of k ---- */

/* By three warps alike; whether they have the same then. row, column: of the warp's part of the tile; last: what
 * follows the product is in c, too. */
template <class T, class Shape, int b_mn, class Hit>
RDT_DEVICE bool rdt_voted_again(const rdt_voted_args &v, rdt_voted_voter &me, const rdt_voted_kept &kept, int row,
                                int column, int round, bool last, float (&c)[RDT_VOTED_HELD], Hit &hit) {
  const int lane = rdt_voted_thread() % 32, copy = rdt_voted_copy_of<Shape>(me.group);
  const rdt_voted_place at = {row + lane / 4, column + 2 * (lane % 4)};
  rdt_voted_source source = Shape::keeps && __any_sync(0xffffffffu, kept.votes > 0) ? RDT_VOTED_THERE : RDT_VOTED_ZERO;
#pragma unroll 1
  for (bool good = false; !good;) {
    const uint64_t d = rdt_voted_fetch(source, rdt_voted_kept_at<Shape>(v, me, kept.room), c);
    if (source == RDT_VOTED_ZERO) break;
    /* What lay in memory may have changed, for all copies alike: it must have the digest that was voted on. The same
     * answer for all. */
    const bool other = __any_sync(0xffffffffu, d != kept.digest);
    rdt_voted_tell<Shape>(v, me, kept.digest + (other ? 1 + copy : 0));
    good = rdt_voted_alike<Shape>(v, me);
    if (!good) source = RDT_VOTED_ZERO;
  }
  const bool start = source == RDT_VOTED_ZERO;
  const int from =
      __shfl_sync(0xffffffffu, start ? 0 : (v.w.p.k + Shape::BK - 1) / Shape::BK * kept.votes / v.votes, 0);
  if (copy == 0) rdt_voted_count(v.found, from, round, start, start && kept.votes > 0);
  rdt_voted_redo<T, b_mn>(v.w.p, row, column, from, round, c);
  if (last) rdt_voted_finish<Shape>(v.w, c, at.row, at.column);
  if constexpr (Hit::on) hit.again(from, round, copy, row, column, c);
  rdt_voted_tell<Shape>(v, me, rdt_voted_fetch(RDT_VOTED_THESE, nullptr, c));
  return rdt_voted_alike<Shape>(v, me);
}

#endif
