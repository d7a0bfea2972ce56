/* Body of the dense runs of cpu/quantize.h, included by each ISA directory with QUANTIZE_TABLE defined. */
#include "cpu/quantize.h"

/* Half to even, as cpu/generic/quantize.c says. */
#define ROUND(x) (((x) + 0x1.8p23f) - 0x1.8p23f)

#define QUANTIZE(name, T, least, most, op)                                                                        \
  static void name(const float *restrict x, const float *restrict s, const int32_t *restrict zero, T *restrict y, \
                   int64_t n) {                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                         \
      const float z = (float)zero[i], low = (least)-z, high = (most)-z, v = x[i] op s[i];                         \
      const float above = v > low ? v : low, within = above < high ? above : high;                                \
      y[i] = (T)((int32_t)ROUND(within) + zero[i]);                                                               \
    }                                                                                                             \
  }
QUANTIZE(times_s8, int8_t, -128.0f, 127.0f, *)
QUANTIZE(times_u8, uint8_t, 0.0f, 255.0f, *)
QUANTIZE(over_s8, int8_t, -128.0f, 127.0f, /)
QUANTIZE(over_u8, uint8_t, 0.0f, 255.0f, /)

static void quantize(const float *x, const float *s, const int32_t *zero, void *y, int64_t n, rdt_dtype to,
                     bool multiply) {
  if (to == RDT_S8)
    (multiply ? times_s8 : over_s8)(x, s, zero, y, n);
  else
    (multiply ? times_u8 : over_u8)(x, s, zero, y, n);
}

#define DEQUANTIZE(name, T)                                                                                       \
  static void name(const T *restrict x, const float *restrict s, const int32_t *restrict zero, float *restrict y, \
                   int64_t n) {                                                                                   \
    _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] - zero[i]) * s[i];                    \
  }
DEQUANTIZE(from_s8, int8_t)
DEQUANTIZE(from_u8, uint8_t)

static void dequantize(const void *x, const float *s, const int32_t *zero, float *y, int64_t n, rdt_dtype from) {
  if (from == RDT_S8)
    from_s8(x, s, zero, y, n);
  else
    from_u8(x, s, zero, y, n);
}

const rdt_quantize_table QUANTIZE_TABLE = {quantize, dequantize};
