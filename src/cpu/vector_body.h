/* Vectors of the own products and convolutions, for the ISA that a file is compiled for. Multiply-adds are fused where
 * the ISA has it, and only where MADD says so. */
#ifndef RDT_CPU_VECTOR_BODY_H
#define RDT_CPU_VECTOR_BODY_H

#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "cpu/native/native.h"

#if defined(__AVX512F__)
enum { VL = 16 };
#define MADD(a, b, c) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define SPREAD(x) ((V)_mm512_set1_ps(x))
#define MAX(a, b) ((V)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define MIN(a, b) ((V)_mm512_min_ps((__m512)(a), (__m512)(b)))
#elif defined(__FMA__)
enum { VL = 8 };
#define MADD(a, b, c) ((V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define SPREAD(x) ((V)_mm256_set1_ps(x))
#define MAX(a, b) ((V)_mm256_max_ps((__m256)(a), (__m256)(b))) /* the second one if either is NaN */
#define MIN(a, b) ((V)_mm256_min_ps((__m256)(a), (__m256)(b)))
#else
enum { VL = 4 };
#define MADD(a, b, c) ((a) * (b) + (c))
#define SPREAD(x) ((V){x, x, x, x})
#define MAX(a, b) choose((a) > (b), a, b)
#define MIN(a, b) choose((a) < (b), a, b)
#endif
typedef float V __attribute__((vector_size(VL * 4), may_alias));
typedef float V_loose __attribute__((vector_size(VL * 4), aligned(4), may_alias));
typedef int32_t I __attribute__((vector_size(VL * 4), may_alias));

/* Nothing computed from x or read from memory before is known any more: what follows is a second computation. */
#if defined(__x86_64__) && !defined(RDT_EMULATED_AVX512)
#define AGAIN(x) __asm__ volatile("" : "+x"(x) : : "memory")
#else
#define AGAIN(x) __asm__ volatile("" : "+m"(x) : : "memory")
#endif

#define INLINE static inline __attribute__((always_inline))

#if !defined(__FMA__)
INLINE V choose(I mask, V yes, V no) {
  return (V)((mask & (I)yes) | (~mask & (I)no));
}
#endif
INLINE V load(const float *p) {
  return *(const V_loose *)p;
}
INLINE void store(float *p, V x) {
  *(V_loose *)p = x;
}
INLINE V spread(float x) {
  return SPREAD(x);
}

/* Lanes whose bits differ. Two NaN are alike: which of two operands' NaN a sum keeps is the compiler's choice. */
INLINE I apart(V a, V b) {
  return ((I)a ^ (I)b) & ~((I)(a != a) & (I)(b != b));
}

INLINE bool is_zero(I x) {
#if defined(__FMA__)
#if defined(__AVX512F__)
  const __m256i y = (__m256i)_mm512_castps512_ps256((__m512)x) | (__m256i)_mm512_extractf32x8_ps((__m512)x, 1);
#else
  const __m256i y = (__m256i)x;
#endif
  return _mm256_testz_si256(y, y);
#else
  return (x[0] | x[1] | x[2] | x[3]) == 0;
#endif
}

/* What follows the reduction, in the arithmetic of rdt_epilogue_apply. scale: alpha and beta are not both 1. */
INLINE V value(V x, const rdt_native_finish *f, V bias, const float *residual, const bool scale, const bool has_bias,
               const bool has_residual, const int bound) {
  if (scale) x = x * f->alpha;
  if (has_bias) x = x + bias;
  if (has_residual && scale) x = x + load(residual) * f->beta;
  if (has_residual && !scale) x = x + load(residual);
  if (bound == RDT_BOUND_RELU) x = MAX((V){0}, x);
  if (bound == RDT_BOUND_CLIP) x = MIN(spread(f->high), MAX(spread(f->low), x));
  return x;
}

#endif
