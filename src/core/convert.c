/* Conversions between datatypes, bit by bit where C has no type for them. */
#include <math.h>
#include <string.h>

#include "core/tensor.h"

static uint32_t bits_of(float x) {
  uint32_t b;
  memcpy(&b, &x, sizeof b);
  return b;
}

static float float_of(uint32_t b) {
  float x;
  memcpy(&x, &b, sizeof x);
  return x;
}

float rdt_bf16_to_f32(uint16_t x) {
  return float_of((uint32_t)x << 16);
}

uint16_t rdt_f32_to_bf16(float x) {
  const uint32_t b = bits_of(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(b >> 16 | 0x40); /* quiet the NaN, keep its sign */
  return (uint16_t)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
}

float rdt_f16_to_f32(uint16_t x) {
  const uint32_t sign = (uint32_t)(x & 0x8000u) << 16, exponent = x >> 10 & 0x1f, fraction = x & 0x3ffu;
  if (exponent == 0x1f) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in f32 */
    const float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t rdt_f32_to_f16(float x) {
  const uint32_t b = bits_of(x), sign = b >> 16 & 0x8000u, magnitude = b & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 up: Inf */
  if (magnitude < 0x38800000u) {                                   /* below 2^-14: subnormal, in units of 2^-24 */
    const float scaled = fabsf(x) * 0x1p24f;
    return (uint16_t)(sign | (uint32_t)nearbyintf(scaled));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
  return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

float rdt_f8e4m3_to_f32(uint8_t x) {
  const int exponent = x >> 3 & 0xf, fraction = x & 7;
  if ((x & 0x7f) == 0x7f) return float_of((uint32_t)(x & 0x80) << 24 | 0x7fc00000u);
  const float magnitude = exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
  return x & 0x80 ? -magnitude : magnitude;
}

float rdt_f8e5m2_to_f32(uint8_t x) {
  return rdt_f16_to_f32((uint16_t)(x << 8));
}

/* To a format of 8 bits with so many of them fraction, by its smallest normal exponent and its largest number. */
static uint8_t narrow_f8(float x, int bits, int least, float most, int top) {
  const uint8_t sign = (uint8_t)(bits_of(x) >> 24 & 0x80);
  const float magnitude = fabsf(x);
  if (isnan(x)) return sign | 0x7f;
  if (magnitude > most) return (uint8_t)(sign | top);
  const int own = magnitude > 0.0f ? ilogbf(magnitude) : least, exponent = own < least ? least : own;
  const int units = (int)nearbyintf(ldexpf(magnitude, bits - exponent)); /* a carry goes into the exponent by itself */
  return (uint8_t)(sign | (((exponent - least) << bits) + units));
}

uint8_t rdt_f32_to_f8e4m3(float x) {
  return narrow_f8(x, 3, -6, 448.0f, 0x7e);
}

uint8_t rdt_f32_to_f8e5m2(float x) {
  return narrow_f8(x, 2, -14, 57344.0f, 0x7b);
}

double rdt_load(const void *data, rdt_dtype t, int64_t i) {
  switch (t) {
    case RDT_F64:
      return ((const double *)data)[i];
    case RDT_F32:
      return (double)((const float *)data)[i];
    case RDT_BF16:
      return (double)rdt_bf16_to_f32(((const uint16_t *)data)[i]);
    case RDT_F16:
      return (double)rdt_f16_to_f32(((const uint16_t *)data)[i]);
    case RDT_S8:
      return (double)((const int8_t *)data)[i];
    case RDT_U8:
      return (double)((const uint8_t *)data)[i];
    case RDT_S32:
      return (double)((const int32_t *)data)[i];
    case RDT_S64:
      return (double)((const int64_t *)data)[i];
    case RDT_BOOL:
      return ((const uint8_t *)data)[i] ? 1.0 : 0.0;
    case RDT_F8E4M3:
      return (double)rdt_f8e4m3_to_f32(((const uint8_t *)data)[i]);
    case RDT_F8E5M2:
      return (double)rdt_f8e5m2_to_f32(((const uint8_t *)data)[i]);
    case RDT_DTYPE_COUNT:
      break;
  }
  return NAN;
}

/* Double to float by way of round-to-odd, so that the second rounding (to 16 bits) is as if there were one. */
static float narrow_odd(double x) {
  const float f = (float)x;
  if (isnan(x) || isinf(f) || (double)f == x) return f;
  const uint32_t b = bits_of(f);
  if (b & 1) return f;
  const bool up = fabs((double)f) < fabs(x); /* f was rounded towards zero: the odd neighbour lies outward */
  return float_of(up ? b + 1 : b - 1);
}

static double clamp_integer(double x, double low, double high) {
  if (isnan(x)) return 0.0;
  const double r = nearbyint(x);
  return r < low ? low : r > high ? high : r;
}

void rdt_store(void *data, rdt_dtype t, int64_t i, double v) {
  switch (t) {
    case RDT_F64:
      ((double *)data)[i] = v;
      break;
    case RDT_F32:
      ((float *)data)[i] = (float)v;
      break;
    case RDT_BF16:
      ((uint16_t *)data)[i] = rdt_f32_to_bf16(narrow_odd(v));
      break;
    case RDT_F16:
      ((uint16_t *)data)[i] = rdt_f32_to_f16(narrow_odd(v));
      break;
    case RDT_S8:
      ((int8_t *)data)[i] = (int8_t)clamp_integer(v, -128.0, 127.0);
      break;
    case RDT_U8:
      ((uint8_t *)data)[i] = (uint8_t)clamp_integer(v, 0.0, 255.0);
      break;
    case RDT_S32:
      ((int32_t *)data)[i] = (int32_t)clamp_integer(v, -2147483648.0, 2147483647.0);
      break;
    case RDT_S64:
      ((int64_t *)data)[i] = v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : isnan(v) ? 0 : (int64_t)nearbyint(v);
      break;
    case RDT_BOOL:
      ((uint8_t *)data)[i] = v != 0.0;
      break;
    case RDT_F8E4M3:
      ((uint8_t *)data)[i] = rdt_f32_to_f8e4m3(narrow_odd(v));
      break;
    case RDT_F8E5M2:
      ((uint8_t *)data)[i] = rdt_f32_to_f8e5m2(narrow_odd(v));
      break;
    case RDT_DTYPE_COUNT:
      break;
  }
}

int64_t rdt_load_int(const void *data, rdt_dtype t, int64_t i) {
  switch (rdt_dtype_is_float(t) ? 0 : rdt_dtype_size(t)) {
    case 1:
      return t == RDT_S8 ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
    case 4:
      return ((const int32_t *)data)[i];
    case 8:
      return ((const int64_t *)data)[i];
    default:
      return 0;
  }
}

void rdt_store_int(void *data, rdt_dtype t, int64_t i, int64_t v) {
  switch (rdt_dtype_is_float(t) ? 0 : rdt_dtype_size(t)) {
    case 1:
      ((uint8_t *)data)[i] = t == RDT_BOOL ? v != 0 : (uint8_t)v;
      break;
    case 4:
      ((uint32_t *)data)[i] = (uint32_t)v;
      break;
    case 8:
      ((int64_t *)data)[i] = v;
      break;
    default:
      break;
  }
}
