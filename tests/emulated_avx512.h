/* AVX-512 without such a CPU, for the tests: tests/CMakeLists.txt compiles the files of src/cpu/avx512 once more, with
 * this before all else. Vectors of 64 bytes are the compiler's own, in halves that AVX2 computes; what the sources call
 * by Intel's names is here under the same names. An intrinsic that is not here does not compile there: write it down,
 * as Intel's guide has it, memory behind a mask untouched. */
#ifndef RDT_TESTS_EMULATED_AVX512_H
#define RDT_TESTS_EMULATED_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* Only from here on: immintrin.h must not believe it. */
#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512DQ__ 1
#define __AVX512VL__ 1
#define __AVX512VNNI__ 1

#define EMULATED static inline __attribute__((always_inline, unused))

typedef union emulated_ps {
  __m512 all;
  __m256 half[2];
  float lane[16];
} emulated_ps;

typedef union emulated_pd {
  __m512d all;
  __m256d half[2];
} emulated_pd;

/* Both halves as AVX2 has it */
#define EMULATED_2(name, suffix, T)                                                                               \
  EMULATED T emulated_##name##_##suffix(T a, T b) {                                                               \
    const emulated_##suffix x = {a}, y = {b};                                                                     \
    return (emulated_##suffix){                                                                                   \
        .half = {_mm256_##name##_##suffix(x.half[0], y.half[0]), _mm256_##name##_##suffix(x.half[1], y.half[1])}} \
        .all;                                                                                                     \
  }
#define EMULATED_3(name, suffix, T)                                                                 \
  EMULATED T emulated_##name##_##suffix(T a, T b, T c) {                                            \
    const emulated_##suffix x = {a}, y = {b}, z = {c};                                              \
    return (emulated_##suffix){.half = {_mm256_##name##_##suffix(x.half[0], y.half[0], z.half[0]),  \
                                        _mm256_##name##_##suffix(x.half[1], y.half[1], z.half[1])}} \
        .all;                                                                                       \
  }
EMULATED_2(max, ps, __m512)
EMULATED_2(min, ps, __m512)
EMULATED_2(max, pd, __m512d)
EMULATED_2(min, pd, __m512d)
EMULATED_3(fmadd, ps, __m512)
EMULATED_3(fmadd, pd, __m512d)

EMULATED __m512 emulated_set1_ps(float x) {
  const __m256 half = _mm256_set1_ps(x);
  return (emulated_ps){.half = {half, half}}.all;
}

EMULATED __m512d emulated_set1_pd(double x) {
  const __m256d half = _mm256_set1_pd(x);
  return (emulated_pd){.half = {half, half}}.all;
}

EMULATED __m512d emulated_cvtps_pd(__m256 x) {
  return (emulated_pd){
      .half = {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))}}
      .all;
}

EMULATED __m256 emulated_half_ps(__m512 x, int which) {
  return (emulated_ps){x}.half[which];
}

EMULATED __m512 emulated_maskz_loadu_ps(__mmask16 mask, const void *from) {
  emulated_ps x = {{0}};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) memcpy(&x.lane[i], (const char *)from + 4 * i, 4);
  return x.all;
}

EMULATED __m512d emulated_maskz_loadu_pd(__mmask8 mask, const void *from) {
  double lane[8] = {0};
  for (int i = 0; i < 8; ++i)
    if (mask >> i & 1) memcpy(&lane[i], (const char *)from + 8 * i, 8);
  return (emulated_pd){.half = {_mm256_loadu_pd(lane), _mm256_loadu_pd(lane + 4)}}.all;
}

EMULATED void emulated_mask_storeu_ps(void *to, __mmask16 mask, __m512 x) {
  const emulated_ps y = {x};
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) memcpy((char *)to + 4 * i, &y.lane[i], 4);
}

typedef union emulated_si {
  __m512i all;
  __m256i half[2];
  int32_t lane[16];
  int8_t s8[64];
  uint8_t u8[64];
} emulated_si;

#define emulated_halves_si(f, ...) (emulated_si){.half = {f(0, __VA_ARGS__), f(1, __VA_ARGS__)}}.all
#define EMULATED_MADD(i, a, b) _mm256_madd_epi16((a).half[i], (b).half[i])
#define EMULATED_SUB(i, a, b) _mm256_sub_epi16((a).half[i], (b).half[i])

EMULATED __m512i emulated_madd_epi16(__m512i a, __m512i b) {
  const emulated_si x = {a}, y = {b};
  return emulated_halves_si(EMULATED_MADD, x, y);
}

EMULATED __m512i emulated_sub_epi16(__m512i a, __m512i b) {
  const emulated_si x = {a}, y = {b};
  return emulated_halves_si(EMULATED_SUB, x, y);
}

EMULATED __m512i emulated_set1_epi16(int16_t x) {
  return (emulated_si){.half = {_mm256_set1_epi16(x), _mm256_set1_epi16(x)}}.all;
}

EMULATED __m512i emulated_cvtepi8_epi16(__m256i x) {
  return (emulated_si){
      .half = {_mm256_cvtepi8_epi16(_mm256_castsi256_si128(x)), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(x, 1))}}
      .all;
}

EMULATED __m512i emulated_cvtepu8_epi16(__m256i x) {
  return (emulated_si){
      .half = {_mm256_cvtepu8_epi16(_mm256_castsi256_si128(x)), _mm256_cvtepu8_epi16(_mm256_extracti128_si256(x, 1))}}
      .all;
}

EMULATED __m512i emulated_cvtepi8_epi32(__m128i x) {
  return (emulated_si){.half = {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))}}.all;
}

EMULATED __m512i emulated_cvtepu8_epi32(__m128i x) {
  return (emulated_si){.half = {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))}}.all;
}

EMULATED __m512i emulated_loadu_si512(const void *from) {
  emulated_si x;
  memcpy(&x, from, sizeof x);
  return x.all;
}

EMULATED __m512i emulated_cvtps_epi32(__m512 x) {
  const emulated_ps y = {x};
  return (emulated_si){.half = {_mm256_cvtps_epi32(y.half[0]), _mm256_cvtps_epi32(y.half[1])}}.all;
}

/* Numbers below the normal range count as 0. */
EMULATED __m256 emulated_flushed(__m256 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f), size = _mm256_andnot_ps(sign, x);
  const __m256 tiny = _mm256_cmp_ps(size, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
  return _mm256_andnot_ps(_mm256_andnot_ps(sign, tiny), x);
}

/* The upper or the lower ones of eight pairs. */
EMULATED __m256 emulated_bf16(__m256i pairs, int upper) {
  return emulated_flushed(
      _mm256_castsi256_ps(upper ? _mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)) : _mm256_slli_epi32(pairs, 16)));
}

/* Two fused steps, one after the other. */
EMULATED __m512 emulated_dpbf16_ps(__m512 to, __m512bh a, __m512bh b) {
  const emulated_si x = {(__m512i)a}, y = {(__m512i)b};
  emulated_ps z = {to};
  for (int i = 0; i < 2; ++i)
    for (int upper = 1; upper >= 0; --upper)
      z.half[i] = emulated_flushed(_mm256_fmadd_ps(emulated_bf16(x.half[i], upper), emulated_bf16(y.half[i], upper),
                                                   emulated_flushed(z.half[i])));
  return z.all;
}

EMULATED __m512i emulated_cvtepu16_epi32(__m256i x) {
  return (emulated_si){
      .half = {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1))}}
      .all;
}

EMULATED __m512 emulated_cvtph_ps(__m256i x) {
  return (emulated_ps){
      .half = {_mm256_cvtph_ps(_mm256_castsi256_si128(x)), _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))}}
      .all;
}

/* To nearest, the only rounding that is asked for */
EMULATED __m256i emulated_cvtps_ph(__m512 x, int rounding) {
  const emulated_ps y = {x};
  (void)rounding;
  return _mm256_set_m128i(_mm256_cvtps_ph(y.half[1], _MM_FROUND_TO_NEAREST_INT),
                          _mm256_cvtps_ph(y.half[0], _MM_FROUND_TO_NEAREST_INT));
}

EMULATED __m512i emulated_dpbusd_epi32(__m512i to, __m512i a, __m512i b) {
  const emulated_si x = {a}, y = {b};
  emulated_si z = {to};
  for (int i = 0; i < 64; ++i) z.lane[i / 4] = (int32_t)((uint32_t)z.lane[i / 4] + (uint32_t)(x.u8[i] * y.s8[i]));
  return z.all;
}

/* _CMP_UNORD_Q and the like: the same predicates as AVX's */
#define emulated_cmp_ps_mask(a, b, how)                                                                 \
  ((__mmask16)(_mm256_movemask_ps(_mm256_cmp_ps(emulated_half_ps(a, 0), emulated_half_ps(b, 0), how)) | \
               _mm256_movemask_ps(_mm256_cmp_ps(emulated_half_ps(a, 1), emulated_half_ps(b, 1), how)) << 8))

#undef _mm512_extractf32x8_ps /* macros without optimisation */
#undef _mm512_cmp_ps_mask
#undef _mm512_cvtps_ph
#define _mm512_fmadd_ps emulated_fmadd_ps
#define _mm512_fmadd_pd emulated_fmadd_pd
#define _mm512_max_ps emulated_max_ps
#define _mm512_min_ps emulated_min_ps
#define _mm512_max_pd emulated_max_pd
#define _mm512_min_pd emulated_min_pd
#define _mm512_set1_ps emulated_set1_ps
#define _mm512_set1_pd emulated_set1_pd
#define _mm512_cvtps_pd emulated_cvtps_pd
#define _mm512_castps512_ps256(x) emulated_half_ps(x, 0)
#define _mm512_extractf32x8_ps emulated_half_ps
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm512_maskz_loadu_pd emulated_maskz_loadu_pd
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm512_cmp_ps_mask emulated_cmp_ps_mask
#define _mm512_madd_epi16 emulated_madd_epi16
#define _mm512_sub_epi16 emulated_sub_epi16
#define _mm512_set1_epi16 emulated_set1_epi16
#define _mm512_cvtepi8_epi16 emulated_cvtepi8_epi16
#define _mm512_cvtepu8_epi16 emulated_cvtepu8_epi16
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_loadu_si512 emulated_loadu_si512
#define _mm512_cvtps_epi32 emulated_cvtps_epi32
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_dpbf16_ps emulated_dpbf16_ps
#define _mm512_cvtph_ps emulated_cvtph_ps
#define _mm512_cvtps_ph emulated_cvtps_ph
#define _mm512_dpbusd_epi32 emulated_dpbusd_epi32

#endif
