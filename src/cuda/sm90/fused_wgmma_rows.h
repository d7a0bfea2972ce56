/* Rows of a tile of fused_wgmma.h's kernels: what they sum to, against the columns beside them. */
#ifndef RDT_CUDA_FUSED_WGMMA_ROWS_H
#define RDT_CUDA_FUSED_WGMMA_ROWS_H

#include "cuda/sm80/fused_finish.h"
#include "cuda/sm90/fused_wgmma.h"

/* Where sums are too far apart for their own size: what the inputs allow. By the threads that have the row. */
template <class T, class Hit>
static __device__ __noinline__ void rdt_fused_doubt(const rdt_fused_wide_args &g, int row, int part, int columns,
                                                    float s, float c2, float e, Hit hit) {
  constexpr int lanes = 4;
  const rdt_fused_args &p = g.f;
  const int lane = (int)threadIdx.x % lanes, first = (int)threadIdx.x % 32 / lanes * lanes;
  const unsigned mask = ((1u << lanes) - 1u) << first;
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
  if constexpr (Hit::on) a2 = hit.squares(1, row, part, a2);
  const int complaint = rdt_judge_sums(g.bound, s, c2, e, a2, a2 * __ldcg(g.rho2 + part), &tau2, &tau0);
  if constexpr (Hit::on) hit.bound_of(row, part, tau2);
  const int column = part * columns;
  if (complaint && lane == 0)
    rdt_complain_inline(g.verdict, complaint, rdt_place_of{row, column, 1, min(columns, p.n - column), 0, p.k}, s, e,
                        tau2, tau0);
}

template <class T>
RDT_DEVICE uint32_t rdt_wide_bound(const rdt_fused_args &p) { /* 0 with Relu */
  return p.finish.act == rdt_box_RELU ? 0u : rdt_fused_format<T>::least;
}

/* Signs of columns: a pattern for what a thread has, turned around or not for each of the four that have a row. */
enum : unsigned { RDT_WIDE_SIGNS = 0x6a09e667u };
RDT_DEVICE unsigned rdt_wide_turned(int tile, int lane) { /* 0 or the sign bit */
  return rdt_mma_sign((unsigned)(tile * 4 + lane));
}
RDT_DEVICE bool rdt_wide_minus(int tile, int column) { /* the same of any column of a tile */
  return (RDT_WIDE_SIGNS >> (column / 8 * 2 + column % 2) & 1u) != (rdt_wide_turned(tile, column / 2 % 4) != 0);
}

/* Sums of rows, and of their squares, over the neighbours that have parts of them: all of these have the whole. */
template <int lanes, int rows>
RDT_DEVICE void rdt_wide_rows_join(float (&sum)[rows], float (&c2)[rows]) {
#pragma unroll
  for (int d = 1; d < lanes; d *= 2)
#pragma unroll
    for (int i = 0; i < rows; i++) {
      sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], d);
      c2[i] += __shfl_xor_sync(0xffffffffu, c2[i], d);
    }
}

/* Rows of a thread, the first of four that have them, and what their sums should be, beside them. */
template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_wide_rows_done(const rdt_fused_wide_args &g, int row, int tile, const float (&sum)[2],
                                   float (&c2)[2], const float (&beside)[4], float clearly, Hit hit) {
  const uint32_t lane = threadIdx.x % 32, t = lane % 4;
  float e[2];
  bool bad[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    if constexpr (Hit::on) c2[h] = hit.squares(0, row + 8 * h, tile, c2[h]);
    const float x = beside[2 * h], y = beside[2 * h + 1];
    const float check[4] = {x, y, T::most > 1e6f ? __shfl_down_sync(0xffffffffu, x, 1) : 0.0f, 0.0f};
    e[h] = T::expected(check);
    const float d = sum[h] - e[h];
    bad[h] = t == 0 && !(d * d <= clearly * c2[h] && c2[h] < __int_as_float(0x7f800000));
    if constexpr (Hit::on) bad[h] |= t == 0 && hit.watches(row + 8 * h, tile);
  }
  if (__builtin_expect(__any_sync(0xffffffffu, bad[0] || bad[1]), 0)) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float its = __shfl_sync(0xffffffffu, e[h], (int)(lane - t));
      if (__shfl_sync(0xffffffffu, (int)bad[h], (int)(lane - t)))
        rdt_fused_doubt<T>(g, row + 8 * h, tile, Tile::part, sum[h], c2[h], its, hit);
      __syncwarp();
    }
  }
}

#endif
