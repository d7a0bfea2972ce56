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
enum { BYTES = 64 };
#define RAW(type) __m512##type
#define OP(name) _mm512_##name
#elif defined(__FMA__)
enum { BYTES = 32 };
#define RAW(type) __m256##type
#define OP(name) _mm256_##name
#else
enum { BYTES = 16 };
#endif
enum { VL = BYTES / (int)sizeof(rdt_real) };
typedef rdt_real V __attribute__((vector_size(BYTES), may_alias));
typedef rdt_real V_loose __attribute__((vector_size(BYTES), aligned(sizeof(rdt_real)), may_alias));
#if RDT_REAL == 64
typedef int64_t I __attribute__((vector_size(BYTES), may_alias));
#define TYPED RAW(d)
#define NAMED(name) OP(name##_pd)
#else
typedef int32_t I __attribute__((vector_size(BYTES), may_alias));
#define TYPED RAW()
#define NAMED(name) OP(name##_ps)
#endif

#if defined(__FMA__)
#define MADD(a, b, c) ((V)NAMED(fmadd)((TYPED)(a), (TYPED)(b), (TYPED)(c)))
#define SPREAD(x) ((V)NAMED(set1)(x))
#define MAX(a, b) ((V)NAMED(max)((TYPED)(a), (TYPED)(b))) /* the second one if either is NaN */
#define MIN(a, b) ((V)NAMED(min)((TYPED)(a), (TYPED)(b)))
#else
#define MADD(a, b, c) ((a) * (b) + (c))
#define SPREAD(x) ((V){0} + (x))
#define MAX(a, b) choose((a) > (b), a, b)
#define MIN(a, b) choose((a) < (b), a, b)
#endif

/* Nothing computed from x or read from memory before is known any more: what follows is a second computation. */
#if defined(__x86_64__) && !defined(RDT_EMULATED_AVX512)
#define AGAIN(x) __asm__ volatile("" : "+x"(x) : : "memory")
#else
#define AGAIN(x) __asm__ volatile("" : "+m"(x) : : "memory")
#endif
/* What is computed of x takes x as it is in its register. */
#if defined(RDT_EMULATED_AVX512) || !defined(__x86_64__)
#define ALONE(x) (void)(x)
#elif defined(__AVX512F__)
#define ALONE(x) __asm__("" : "+v"(x))
#else
#define ALONE(x) __asm__("" : "+x"(x))
#endif

#define INLINE static inline __attribute__((always_inline))

#if !defined(__FMA__)
INLINE V choose(I mask, V yes, V no) {
  return (V)((mask & (I)yes) | (~mask & (I)no));
}
#endif
INLINE V load(const rdt_real *p) {
  return *(const V_loose *)p;
}
INLINE void store(rdt_real *p, V x) {
  *(V_loose *)p = x;
}
#if defined(__FMA__) && !defined(__AVX512F__)
INLINE __m256i lanes_of(int64_t count) {
  static const int32_t ones[2 * 8] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256((const __m256i *)(ones + 8 - count * (int64_t)sizeof(rdt_real) / 4));
}
#endif

/* The first count lanes, zeros behind; no more is read. */
INLINE V load_first(const rdt_real *p, int64_t count) {
#if defined(__AVX512F__) && RDT_REAL == 64
  return (V)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1u), p);
#elif defined(__AVX512F__)
  return (V)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1u), p);
#elif defined(__FMA__)
  return (V)NAMED(maskload)(p, lanes_of(count));
#else
  V x = {0};
  memcpy(&x, p, (size_t)count * sizeof *p);
  return x;
#endif
}
INLINE V spread(rdt_real x) {
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
  int64_t any = 0;
  for (int i = 0; i < VL; ++i) any |= x[i];
  return any == 0;
#endif
}

/* What follows the reduction, in the arithmetic of rdt_epilogue_apply. scale: alpha and beta are not both 1. */
INLINE V value(V x, const rdt_native_finish *f, V bias, const rdt_real *residual, const bool scale, const bool has_bias,
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
