/* Sums of rows that one run has left, compared by the next one, or by a kernel of its own. There are two sets of them,
 * written in turns; each block counts its runs, all alike, so that a graph of launches counts as well. */
#ifndef RDT_CUDA_GEMM_WGMMA_SUMS_H
#define RDT_CUDA_GEMM_WGMMA_SUMS_H

#include "cuda/sm80/gemm_mma_checks.h"
#include "cuda/sm90/gemm_wgmma.h"

RDT_DEVICE float2 *rdt_wide_sums(const rdt_mma_args &p, unsigned turn) {
  return (float2 *)p.sums + (int64_t)(turn % 2) * (p.column_blocks + 1) * p.m;
}

struct rdt_wide_turn {
  unsigned now, pending; /* pending: the run before has not been compared */
};
RDT_DEVICE rdt_wide_turn rdt_wide_turn_of(const rdt_wgmma_args &g) {
  return {__ldcg(g.p.tickets + 1 + blockIdx.x), __ldcg(g.p.tickets + 1 + gridDim.x + blockIdx.x)};
}

struct rdt_wide_row {
  float s, c2, e, a2; /* sum, sum of squares; what it should be, |a|^2 */
};
RDT_DEVICE rdt_wide_row rdt_wide_gather(const rdt_mma_args &p, const float2 *sums, int row) {
  const float2 *at = sums + row;
  rdt_wide_row x = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 8
  for (int b = 0; b < p.column_blocks; b++) {
    const float2 v = __ldcg(at + (int64_t)b * p.m);
    x.s += v.x, x.c2 += v.y;
  }
  const float2 v = __ldcg(at + (int64_t)p.column_blocks * p.m);
  x.e = v.x, x.a2 = v.y;
  return x;
}

template <class Hit>
RDT_DEVICE void rdt_wide_judge(const rdt_mma_args &p, rdt_place_of at, rdt_wide_row x, Hit &hit) {
  const float rho2 = __ldcg((const float *)p.rho2);
  float tau2, tau0;
  x.a2 += p.bound.a2_floor;
  if (!Hit::on && rdt_passes(p.bound, x.s, x.e, x.a2 * rho2)) return;
  const int complaint = rdt_judge_sums(p.bound, x.s, x.c2, x.e, x.a2, x.a2 * rho2, &tau2, &tau0);
  if (complaint) rdt_complain_inline(p.verdict, complaint, at, x.s, x.e, tau2, tau0);
  if constexpr (Hit::on) hit.bound_of_row(at.row, (double)tau2);
}

/* By a warp: every so many 32 rows. Of one scalar: by the last of `warps` of them. */
template <class Hit>
RDT_DEVICE void rdt_wide_compare(const rdt_mma_args &p, const float2 *sums, unsigned warp, unsigned warps, Hit &hit) {
  const int lane = (int)threadIdx.x % 32;
  rdt_wide_row all = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int row = (int)warp * 32 + lane; row < p.m; row += (int)warps * 32) {
    const rdt_wide_row x = rdt_wide_gather(p, sums, row);
    if (!p.scalar) {
      rdt_wide_judge(p, rdt_place_of{row, -1, 1, p.n, 0, p.k}, x, hit);
      continue;
    }
    const unsigned sign = rdt_mma_sign((unsigned)row);
    all.s += __uint_as_float(__float_as_uint(x.s) ^ sign), all.e += __uint_as_float(__float_as_uint(x.e) ^ sign);
    all.c2 += x.c2, all.a2 += x.a2;
  }
  if (!p.scalar) return;
  __syncwarp();
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    all.s += __shfl_down_sync(0xffffffffu, all.s, d), all.e += __shfl_down_sync(0xffffffffu, all.e, d);
    all.c2 += __shfl_down_sync(0xffffffffu, all.c2, d), all.a2 += __shfl_down_sync(0xffffffffu, all.a2, d);
  }
  if (lane != 0) return;
  ((float4 *)p.scalars)[warp] = make_float4(all.s, all.e, all.c2, all.a2);
  if (rdt_count_in(p.tickets, warps - 1) != warps - 1) return;
  all = {0.0f, 0.0f, 0.0f, 0.0f};
  for (unsigned w = 0; w < warps; w++) {
    const float4 v = __ldcg((const float4 *)p.scalars + w);
    all.s += v.x, all.e += v.y, all.c2 += v.z, all.a2 += v.w;
  }
  rdt_wide_judge(p, rdt_place_of{-1, -1, p.m, p.n, 0, p.k}, all, hit);
}

/* This run is there to be compared. */
RDT_DEVICE void rdt_wide_left(const rdt_wgmma_args &g, rdt_wide_turn turn) {
  g.p.tickets[1 + blockIdx.x] = turn.now + 1;
  g.p.tickets[1 + gridDim.x + blockIdx.x] = 1;
}

#endif
