/* Numbers of 16 bits by eights, and functions for results of 16 bits: by the hardware's approximations, which are off
 * by a few units in the last place of single precision. Multiply-adds are written out, so that whoever evaluates again,
 * in whatever file, has the same bits. T: rdt_f16, rdt_bf16. */
#ifndef RDT_CUDA_FAST_H
#define RDT_CUDA_FAST_H

#include "cuda/ptx/mma.h"

template <class T>
RDT_DEVICE void rdt_half_wide(const uint4 &w, float (&x)[8]) {
  const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 two = T::wide(words[i]);
    x[2 * i] = two.x, x[2 * i + 1] = two.y;
  }
}

template <class T>
RDT_DEVICE uint4 rdt_half_narrow(const float (&x)[8]) {
  return make_uint4(T::narrow(x[0], x[1]), T::narrow(x[2], x[3]), T::narrow(x[4], x[5]), T::narrow(x[6], x[7]));
}

/* The larger one; NaN where there is one. */
RDT_DEVICE float rdt_fast_most(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

RDT_DEVICE float rdt_half_total(const float (&x)[8]) {
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* The share of 16 bytes in a bit-sum (check/bitsum.h), the first of whose words has this number. */
RDT_DEVICE uint64_t rdt_half_share(const uint4 &x, uint64_t number) {
  const uint32_t w[4] = {x.x, x.y, x.z, x.w};
  uint64_t plain = 0, placed = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) plain += w[i], placed += (uint64_t)w[i] * i;
  return plain * (number * 0x3c6ef37200000002u + 1u) + placed * 0x3c6ef37200000002u;
}

RDT_DEVICE float rdt_fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RDT_DEVICE float rdt_fast_exp(float x) {
  return rdt_fast_exp2(__fmul_rn(x, 1.44269504f));
}
RDT_DEVICE float rdt_fast_log(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return __fmul_rn(y, 0.693147181f);
}
/* exp(x - most), which is x at most. Masks of bf16 are so low that their multiple overflows: there the difference comes
 * first. */
RDT_DEVICE float rdt_fast_power(rdt_f16, float x, float most) {
  return rdt_fast_exp2(fmaf(x, 1.44269504f, __fmul_rn(most, -1.44269504f)));
}
RDT_DEVICE float rdt_fast_power(rdt_bf16, float x, float most) {
  return rdt_fast_exp(x - most);
}
RDT_DEVICE float rdt_fast_root(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RDT_DEVICE float rdt_fast_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|), and |x| Phi(-|x|) = z P(z) exp(-z^2 ln 2) with z = |x| sqrt(log2(e) / 2). P is
 * the polynomial whose largest error is least over |x| up to 6, relative to the result and 0.004: 1.1e-4. */
RDT_DEVICE float rdt_fast_gelu(float x) {
  const float z = fminf(__fmul_rn(fabsf(x), 0.849321800f), 64.0f), bell = rdt_fast_exp2(__fmul_rn(-z, z));
  float p = fmaf(-0.000233116590f, z, 0.00353415558f);
  p = fmaf(p, z, -0.0231083713f);
  p = fmaf(p, z, 0.0872125259f);
  p = fmaf(p, z, -0.217423572f);
  p = fmaf(p, z, 0.393671912f);
  p = fmaf(p, z, -0.550829192f);
  p = fmaf(p, z, 0.588643681f);
  return fmaf(-z, __fmul_rn(p, bell), rdt_fast_most(x, 0.0f));
}

/* x / (1 + exp(-by)) */
RDT_DEVICE float rdt_fast_gate(float x, float by) {
  return __fmul_rn(x, rdt_fast_reciprocal(1.0f + rdt_fast_exp(-by)));
}

#endif
