/* The three element types of one ISA. CONV_ISA: suffix of the table; CONV_BYTES: width of a vector. */
#include <float.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/conv_sums.h"

#define CONV_JOIN2(a, b) a##b
#define CONV_JOIN(a, b) CONV_JOIN2(a, b)
#define CONV_INLINE static inline __attribute__((always_inline))

/* GCC 12 makes three instructions of this conversion where the hardware has one. */
#if CONV_BYTES == 64 && defined(__AVX512F__)
#define CONV_WIDEN(p) ((vec_f32)_mm512_cvtps_pd(_mm256_loadu_ps(p)))
#elif CONV_BYTES == 32 && defined(__AVX2__)
#define CONV_WIDEN(p) ((vec_f32)_mm256_cvtps_pd(_mm_loadu_ps(p)))
#endif

#define CONV_ELEM f32
#define CONV_T float
#define CONV_BITS uint32_t
#define CONV_A double
#define CONV_LANES (CONV_BYTES / 8)
#define CONV_MAG 1
#include "cpu/conv_sums_body.h"
#undef CONV_WIDEN

#define CONV_ELEM f64
#define CONV_T double
#define CONV_BITS uint64_t
#define CONV_A double
#define CONV_LANES (CONV_BYTES / 8)
#define CONV_MAG 1
#include "cpu/conv_sums_body.h"

#define CONV_ELEM s32
#define CONV_T uint32_t
#define CONV_A uint32_t
#define CONV_LANES (CONV_BYTES / 4)
#define CONV_MAG 0
#include "cpu/conv_sums_body.h"

/* Source dtypes of each element type. Channels-last rows go pixel by pixel, others channel by channel: the inner loop
 * walks the memory that is contiguous in the common layouts. */
#define CONV_FETCH(src_t, dst_t, convert)                                                                   \
  do {                                                                                                      \
    const src_t *from = src;                                                                                \
    dst_t *to = dst;                                                                                        \
    if (channel == 1)                                                                                       \
      for (int64_t i = 0; i < pixels; i++)                                                                  \
        for (int64_t c = 0; c < channels; c++) to[i * channels + c] = convert(from[i * pixel + c]);         \
    else                                                                                                    \
      for (int64_t c = 0; c < channels; c++)                                                                \
        for (int64_t i = 0; i < pixels; i++) to[i * channels + c] = convert(from[i * pixel + c * channel]); \
  } while (0)

CONV_INLINE float bf16_value(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static void fetch(const void *src, rdt_dtype t, int64_t pixel, int64_t channel, int64_t pixels, int64_t channels,
                  void *dst) {
  switch (t) {
    case RDT_F32:
      CONV_FETCH(float, float, (float));
      break;
    case RDT_BF16:
      CONV_FETCH(uint16_t, float, bf16_value);
      break;
    case RDT_F16:
      CONV_FETCH(uint16_t, float, rdt_f16_to_f32);
      break;
    case RDT_S8:
      CONV_FETCH(int8_t, int32_t, (int32_t));
      break;
    case RDT_U8:
      CONV_FETCH(uint8_t, int32_t, (int32_t));
      break;
    case RDT_S32:
      CONV_FETCH(int32_t, int32_t, (int32_t));
      break;
    default:
      break;
  }
}

static void fetch_f64(const void *src, rdt_dtype t, int64_t pixel, int64_t channel, int64_t pixels, int64_t channels,
                      void *dst) {
  switch (t) {
    case RDT_F64:
      CONV_FETCH(double, double, (double));
      break;
    case RDT_F32:
      CONV_FETCH(float, double, (double));
      break;
    case RDT_BF16:
      CONV_FETCH(uint16_t, double, (double)bf16_value);
      break;
    case RDT_F16:
      CONV_FETCH(uint16_t, double, (double)rdt_f16_to_f32);
      break;
    default:
      break;
  }
}

extern const rdt_conv_sums CONV_JOIN(rdt_conv_sums_, CONV_ISA)[3];
const rdt_conv_sums CONV_JOIN(rdt_conv_sums_, CONV_ISA)[3] = {
    {RDT_F32, RDT_F64, fetch, columns_f32, dots_f32, add_f32, mags_f32},
    {RDT_F64, RDT_F64, fetch_f64, columns_f64, dots_f64, add_f64, mags_f64},
    {RDT_S32, RDT_S32, fetch, columns_s32, dots_s32, add_s32, NULL},
};
