/* Sums of rows: how they are compared. SUMS: what one run has left the next one compares, or a kernel of its own. There
 * are two sets of them, written in turns; each block counts its runs, all alike, so that a graph of launches counts as
 * well. */
#ifndef RDT_CUDA_GEMM_WGMMA_SUMS_H
#define RDT_CUDA_GEMM_WGMMA_SUMS_H

#include "cuda/ptx/memory.h"
#include "cuda/sm80/gemm_mma_checks.h"
#include "cuda/sm90/gemm_wgmma.h"

/* Of all batches. */
RDT_DEVICE int rdt_wide_rows(const rdt_mma_args &p) {
  return p.m * p.splits;
}
/* The largest squares of a row of B, of which batches may have their own. */
RDT_DEVICE float rdt_wide_rho2(const rdt_mma_args &p, int row) {
  return __ldcg((const float *)p.rho2 + (p.splits > 1 ? row / p.k_split : 0));
}

/* x, y, z, w: sum, sum of squares, what is expected, |a|^2, of each row, which tiles add to in any order. */
RDT_DEVICE float4 *rdt_wide_sums(const rdt_mma_args &p, unsigned turn) {
  return (float4 *)p.sums + (int64_t)(turn % 2) * rdt_wide_rows(p);
}

/* What two of the eight sums of columns, which four threads have, say of a sum of C and of |a|^2: see weights_wgmma.cu.
 */
RDT_DEVICE float2 rdt_wide_expected(const rdt_f16 *, const float *e) {
  constexpr float each = 1.0f / (RDT_WGMMA_SUMS - RDT_WGMMA_PARTS_F16);
  return threadIdx.x % 4 == 0 ? make_float2(fmaf(e[1], 0x1p-11f, e[0]), 0.0f)
                              : make_float2(0.0f, each * fmaf(e[0], e[0], e[1] * e[1]));
}
RDT_DEVICE float2 rdt_wide_expected(const rdt_bf16 *, const float *e) {
  constexpr float each = 1.0f / (RDT_WGMMA_SUMS - RDT_WGMMA_PARTS_BF16);
  return threadIdx.x % 4 == 0   ? make_float2(e[0] + e[1], 0.0f)
         : threadIdx.x % 4 == 1 ? make_float2(e[0], each * e[1] * e[1])
                                : make_float2(0.0f, each * fmaf(e[0], e[0], e[1] * e[1]));
}

/* |a|^2 of a row, by a warp; next: elements from one to the next. */
template <class T>
RDT_DEVICE float rdt_wide_norm(const rdt_mma_args &p, const uint16_t *a, int64_t next = 1) {
  float x = 0.0f;
  for (int k = (int)threadIdx.x % 32; k < p.k; k += 32) {
    const float y = T::wide(a[k * next]).x;
    x = fmaf(y, y, x);
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
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
/* They are 0 again for the run after the next. */
RDT_DEVICE void rdt_wide_forget(const rdt_mma_args &p, unsigned turn, int row) {
  __stcg(rdt_wide_sums(p, turn) + row, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
}

template <class Hit>
RDT_DEVICE void rdt_wide_judge(const rdt_mma_args &p, rdt_place_of at, float rho2, rdt_wide_row x, Hit &hit) {
  float tau2, tau0;
  x.a2 += p.bound.a2_floor;
  if constexpr (Hit::on) x.c2 = hit.squares(at, x.c2);
  if (!Hit::on && rdt_passes(p.bound, x.s, x.e, x.a2 * rho2)) return;
  const int complaint = rdt_judge_sums(p.bound, x.s, x.c2, x.e, x.a2, x.a2 * rho2, &tau2, &tau0);
  if (complaint) rdt_complain_inline(p.verdict, complaint, at, x.s, x.e, tau2, tau0);
  if constexpr (Hit::on) hit.bound_of_row(at, (double)tau2);
}

template <class Hit>
RDT_DEVICE void rdt_wide_compare_row(const rdt_mma_args &p, unsigned turn, int row, Hit &hit) {
  const float4 v = __ldcg(rdt_wide_sums(p, turn) + row);
  rdt_wide_forget(p, turn, row);
  rdt_wide_judge(p, rdt_place_of{row, -1, 1, p.n, 0, p.k}, rdt_wide_rho2(p, row), rdt_wide_row{v.x, v.y, v.z, v.w},
                 hit);
}

/* Rows of each thread that are asked for at once, 16 bytes of shared memory each: behind all that the tiles load an
 * answer takes microseconds, and one after the other they would take longer than the product. */
constexpr int rdt_wide_at_once = 8, rdt_wide_asked = rdt_wide_at_once * 32 * 16 /* bytes of a warp */;

/* By a warp: every so many 32 rows. Of one scalar: by the last of `warps` of them. asked: shared memory. */
template <class Hit>
RDT_DEVICE void rdt_wide_compare(const rdt_mma_args &p, unsigned turn, unsigned warp, unsigned warps, uint32_t asked,
                                 Hit &hit) {
  const int lane = (int)threadIdx.x % 32, step = (int)warps * 32, rows = rdt_wide_rows(p);
  const float rho2 = __ldcg((const float *)p.rho2);
  rdt_wide_row all = {0.0f, 0.0f, 0.0f, 0.0f};
  asked += 16 * (uint32_t)lane;
  for (int first = (int)warp * 32 + lane; first < rows; first += rdt_wide_at_once * step) {
#pragma unroll
    for (int i = 0; i < rdt_wide_at_once; i++)
      if (first + i * step < rows) rdt_copy16(asked + 512 * i, rdt_wide_sums(p, turn) + first + i * step, 16);
    rdt_copy_commit();
    rdt_copy_wait<0>();
#pragma unroll 1
    for (int i = 0; i < rdt_wide_at_once && first + i * step < rows; i++) {
      const int row = first + i * step;
      float v[4];
      rdt_load_shared(v, asked + 512 * (uint32_t)i);
      const rdt_wide_row x = {v[0], v[1], v[2], v[3]};
      rdt_wide_forget(p, turn, row);
      if (!p.scalar) {
        rdt_wide_judge(p, rdt_place_of{row, -1, 1, p.n, 0, p.k}, p.splits > 1 ? rdt_wide_rho2(p, row) : rho2, x, hit);
        continue;
      }
      const unsigned sign = rdt_mma_sign((unsigned)row);
      all.s += __uint_as_float(__float_as_uint(x.s) ^ sign), all.e += __uint_as_float(__float_as_uint(x.e) ^ sign);
      all.c2 += x.c2, all.a2 += x.a2;
    }
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
  rdt_wide_judge(p, rdt_place_of{-1, -1, p.m, p.n, 0, p.k}, rho2, all, hit);
}

/* This run is there to be compared. */
RDT_DEVICE void rdt_wide_left(const rdt_wgmma_args &g, rdt_wide_turn turn) {
  g.p.tickets[1 + blockIdx.x] = (turn.now + 1) % RDT_WGMMA_TURNS;
  g.p.tickets[1 + gridDim.x + blockIdx.x] = 1;
}

/* Behind the last run, by a kernel of its own: a row of blocks of one warp for each product, of which each has what it
 * has counted itself. compare(args, turn, warp, warps). */
template <class Compare>
RDT_DEVICE void rdt_wide_settle_of(const rdt_settle_args &all, const Compare &compare) {
  const rdt_mma_args &p = all.p[blockIdx.y];
  const unsigned blocks = (unsigned)all.blocks[blockIdx.y];
  if (blockIdx.x >= blocks) return;
  unsigned *const pending = p.tickets + 1 + blocks + blockIdx.x;
  if (!__ldcg(pending)) return;
  compare(p, __ldcg(p.tickets + 1 + blockIdx.x) + 1, blockIdx.x, blocks);
  __syncwarp();
  if (threadIdx.x == 0) __stcg(pending, 0u);
}
template <class Hit>
RDT_DEVICE void rdt_wide_settle(const rdt_settle_args &all, Hit hit) {
  __shared__ __align__(16) unsigned char asked[rdt_wide_asked];
  rdt_wide_settle_of(all, [&](const rdt_mma_args &p, unsigned turn, unsigned warp, unsigned warps) {
    rdt_wide_compare(p, turn, warp, warps, rdt_shared(asked), hit);
  });
}

#endif
