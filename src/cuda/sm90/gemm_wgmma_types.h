/* Types of the products on wgmma whose operands lie with k side by side alone: 8-bit integers, exact modulo 2^32; tf32;
 * 8-bit floats, whose sums tensor cores keep with 14 bits, so that they are added up in f32 every 128 of k. What a type
 * says: bytes of an element; what it is summed in; exact: modulo 2^32; promoted: as just said; apart: sums of columns
 * have an instruction of their own. */
#ifndef RDT_CUDA_GEMM_WGMMA_TYPES_H
#define RDT_CUDA_GEMM_WGMMA_TYPES_H

#include "cuda/sm90/gemm_wgmma_body.h"

struct rdt_s8 {
  typedef int sum;
  static constexpr int bytes = 1;
  static constexpr bool exact = true, promoted = false, apart = true;
};
struct rdt_u8 : rdt_s8 {}; /* A; B is of s8 */
struct rdt_tf32 {
  typedef float sum;
  static constexpr int bytes = 4;
  static constexpr bool exact = false, promoted = false, apart = false;
};
struct rdt_f8e4m3 {
  typedef float sum;
  static constexpr int bytes = 1, digit = 16; /* of a part of a sum */
  static constexpr bool exact = false, promoted = true, apart = true;
};
struct rdt_f8e5m2 {
  typedef float sum;
  static constexpr int bytes = 1, digit = 8;
  static constexpr bool exact = false, promoted = true, apart = true;
};

/* What the sums of columns, two of which a thread has, say of a row: what is expected, |a|^2 (weights_wgmma.cu). Of
 * integers digits of 256, each with its sign. */
RDT_DEVICE int rdt_wide_expected(const rdt_s8 *, const int *e) {
  return threadIdx.x % 4 == 0   ? (int)((unsigned)e[0] + ((unsigned)e[1] << 8))
         : threadIdx.x % 4 == 1 ? (int)(((unsigned)e[0] << 16) + ((unsigned)e[1] << 24))
                                : 0;
}
RDT_DEVICE int rdt_wide_expected(const rdt_u8 *, const int *e) {
  return rdt_wide_expected((const rdt_s8 *)nullptr, e);
}
RDT_DEVICE float2 rdt_wide_expected(const rdt_tf32 *, const float *e) {
  return rdt_wide_expected((const rdt_bf16 *)nullptr, e); /* three parts as well */
}
/* Digits, of which the first has the sum's scale; behind them signs. */
template <class T>
RDT_DEVICE float2 rdt_wide_digits(const float *e) {
  constexpr float each = 1.0f / (RDT_WGMMA_SUMS - RDT_WGMMA_PARTS_F8), d = 1.0f / T::digit;
  const int t = (int)threadIdx.x % 4;
  if (t == 3) return make_float2(0.0f, each * fmaf(e[0], e[0], e[1] * e[1]));
  return make_float2(fmaf(e[1], d, e[0]) * (t == 0 ? 1.0f : t == 1 ? d * d : d * d * d * d), 0.0f);
}
RDT_DEVICE float2 rdt_wide_expected(const rdt_f8e4m3 *, const float *e) {
  return rdt_wide_digits<rdt_f8e4m3>(e);
}
RDT_DEVICE float2 rdt_wide_expected(const rdt_f8e5m2 *, const float *e) {
  return rdt_wide_digits<rdt_f8e5m2>(e);
}

/* ---- sums of rows ---- */

/* Of integers tiles add to a row's sum less what is expected, so 0 is right, two sets in turns; of floats to what
 * rdt_wide_sums has. 0 before each run. */
RDT_DEVICE unsigned *rdt_deep_sums(const rdt_mma_args &p, unsigned turn) {
  return (unsigned *)p.sums + (int64_t)(turn % 2) * rdt_wide_rows(p);
}

/* By a warp: every so many 32 rows of what the run before has left. */
template <bool integers, class Hit>
RDT_DEVICE void rdt_deep_compare(const rdt_mma_args &p, unsigned turn, unsigned warp, unsigned warps, Hit &hit) {
  const int rows = rdt_wide_rows(p);
  for (int row = (int)(warp * 32 + threadIdx.x % 32); row < rows; row += (int)warps * 32) {
    if constexpr (integers) {
      const rdt_place_of place = {row, -1, 1, p.n, 0, p.k};
      unsigned *at = rdt_deep_sums(p, turn) + row;
      const int d = (int)__ldcg(at);
      *at = 0;
      if (d) rdt_complain_inline(p.verdict, RDT_CUDA_CERTAIN, place, (float)d, 0.0f, 0.0f, 0.0f);
      if constexpr (Hit::on) hit.bound_of_row(place, 0.0);
    } else {
      rdt_wide_compare_row(p, turn, row, hit);
    }
  }
}

/* The same behind the last run, by a kernel of its own. */
template <bool integers, class Hit>
RDT_DEVICE void rdt_deep_settle(const rdt_settle_args &all, Hit hit) {
  rdt_wide_settle_of(all, [&](const rdt_mma_args &p, unsigned turn, unsigned warp, unsigned warps) {
    rdt_deep_compare<integers>(p, turn, warp, warps, hit);
  });
}

#endif
