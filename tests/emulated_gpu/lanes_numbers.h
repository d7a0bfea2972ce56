// What lanes compute where C has no operator for it (lanes_*.def).
#ifndef RDT_EMULATED_LANES_NUMBERS_H
#define RDT_EMULATED_LANES_NUMBERS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// A row of registers is of numbers at one time, of bits at another.
#define ROW_TYPE(name, type) typedef type name __attribute__((may_alias))
ROW_TYPE(u8, uint8_t);
ROW_TYPE(s8, int8_t);
ROW_TYPE(u16, uint16_t);
ROW_TYPE(s16, int16_t);
ROW_TYPE(u32, uint32_t);
ROW_TYPE(s32, int32_t);
ROW_TYPE(u64, uint64_t);
ROW_TYPE(s64, int64_t);
ROW_TYPE(f32, float);
ROW_TYPE(f64, double);
#undef ROW_TYPE
#define INLINE static inline __attribute__((unused, always_inline))

INLINE u32 bits_of(f32 x) {
  u32 bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
INLINE f32 f32_of(u32 bits) {
  f32 x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
INLINE u64 bits_of_f64(f64 x) {
  u64 bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
INLINE f64 f64_of(u64 bits) {
  f64 x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// ---- Integers ----

INLINE u32 top_bit(u64 x) {
  return x ? 63 - (u32)__builtin_clzll(x) : ~0u;
}
INLINE u32 ones(u64 x) {
  return (u32)__builtin_popcountll(x);
}
INLINE u64 turned(u64 x) {
  x = __builtin_bswap64(x);
  x = (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4 | (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f));
  x = (x & UINT64_C(0x3333333333333333)) << 2 | (x >> 2 & UINT64_C(0x3333333333333333));
  return (x & UINT64_C(0x5555555555555555)) << 1 | (x >> 1 & UINT64_C(0x5555555555555555));
}
INLINE u64 low_bits(u32 length) {
  return length < 64 ? (UINT64_C(1) << length) - 1 : ~UINT64_C(0);
}
// Place and length are bytes; bits beyond the register are zeros, or its sign.
INLINE u64 field(u64 x, u32 place, u32 length) {
  place &= 255;
  return place < 64 ? x >> place & low_bits(length & 255) : 0;
}
INLINE s64 signed_field(s64 x, u32 place, u32 length) {
  place &= 255;
  length &= 255;
  x >>= place < 64 ? place : 63;
  return !length ? 0 : length < 64 ? (s64)((u64)x << (64 - length)) >> (64 - length) : x;
}
INLINE u64 with_field(u64 x, u64 into, u32 place, u32 length) {
  place &= 255;
  const u64 mask = place < 64 ? low_bits(length & 255) << place : 0;
  return (into & ~mask) | (place < 64 ? x << place & mask : 0);
}
INLINE u32 permuted(u32 a, u32 b, u32 choice) {
  const u64 from = (u64)b << 32 | a;
  u32 to = 0;
  for (int i = 0; i < 4; i++) {
    const u32 c = choice >> 4 * i & 15, byte = (u32)(from >> 8 * (c & 7)) & 255;
    to |= (c & 8 ? byte & 128 ? 255u : 0u : byte) << 8 * i;
  }
  return to;
}
INLINE u32 dot4(u32 a, u32 b, bool a_signed, bool b_signed) {
  s32 sum = 0;
  for (int i = 0; i < 4; i++) {
    const u8 x = (u8)(a >> 8 * i), y = (u8)(b >> 8 * i);
    sum += (a_signed ? (s8)x : (s32)x) * (b_signed ? (s8)y : (s32)y);
  }
  return (u32)sum;
}

// ---- Numbers ----

// The NaN that arithmetic gives: 0x7fffffff, and of 64 bits 0xfff8000000000000.
#define QUIET_NAN __builtin_nanf("0x3fffff")
INLINE f32 number(f32 x) {
  return x == x ? x : QUIET_NAN;
}
INLINE f64 number_f64(f64 x) {
  return x == x ? x : -__builtin_nan("");
}
#define NUMBER(x) __builtin_choose_expr(sizeof(x) == sizeof(f32), number((f32)(x)), number_f64(x))

// A NaN is no extreme unless both are; -0 is less than 0.
INLINE f32 lesser_f32(f32 a, f32 b) {
  const f32 x = a < b || b != b ? a : b;
  return number(a == b ? f32_of(bits_of(a) | bits_of(b)) : x);
}
INLINE f32 greater_f32(f32 a, f32 b) {
  const f32 x = a > b || b != b ? a : b;
  return number(a == b ? f32_of(bits_of(a) & bits_of(b)) : x);
}
INLINE f64 lesser_f64(f64 a, f64 b) {
  const f64 x = a < b || b != b ? a : b;
  return number_f64(a == b ? f64_of(bits_of_f64(a) | bits_of_f64(b)) : x);
}
INLINE f64 greater_f64(f64 a, f64 b) {
  const f64 x = a > b || b != b ? a : b;
  return number_f64(a == b ? f64_of(bits_of_f64(a) & bits_of_f64(b)) : x);
}

INLINE f32 of_half(u32 half) {
  const u32 sign = (half & 0x8000) << 16, magnitude = (half & 0x7fff) << 13;
  const u32 small = bits_of(f32_of(magnitude + 0x38800000) - 0x1p-14f);
  const u32 x = magnitude < 0x00800000 ? small : magnitude + (magnitude < 0x0f800000 ? 0x38000000 : 0x70000000);
  return f32_of(sign | x);
}
INLINE f32 of_bfloat(u32 bfloat) {
  return f32_of(bfloat << 16);
}
INLINE u32 to_half(f32 value) {
  const u32 bits = bits_of(value), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
  const u32 small = bits_of(f32_of(x) + 0.5f) - 0x3f000000;  // its last bit is a half's smallest
  const u32 normal = (x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13;
  const u32 finite = x < 0x38800000 ? small : normal;
  return x > 0x7f800000 ? 0x7fff : sign | (x >= 0x47800000 ? 0x7c00 : finite);
}
INLINE u32 to_bfloat(f32 value) {
  const u32 x = bits_of(value);
  return value == value ? (x + 0x7fff + (x >> 16 & 1)) >> 16 : 0x7fff;
}
INLINE u32 to_tf32(f32 value) {  // ties away from zero
  return value == value ? (bits_of(value) + 0x1000) & 0xffffe000 : 0x7fffffff;
}
#define extreme(of, a, b, greatest, with_nan) extreme_half(a, b, of(a), of(b), greatest, with_nan)
#define extreme2(of, a, b, greatest, with_nan)                                                                         \
  (extreme(of, (a & 0xffff), (b & 0xffff), greatest, with_nan) | extreme(of, (a >> 16), (b >> 16), greatest, with_nan) \
                                                                     << 16)
INLINE u32 extreme_half(u32 a, u32 b, f32 x, f32 y, bool greatest, bool with_nan) {
  const u32 one = (greatest ? x > y : x < y) || y != y ? a : b;
  const u32 chosen = x == y ? greatest ? a & b : a | b : one;
  const bool nan = with_nan ? x != x || y != y : x != x && y != y;
  return nan ? 0x7fff : chosen;
}

// Numbers of 8 bits: what is too large becomes the largest, ties go to the even one.
INLINE u32 to_eight(f32 value, int fraction, int lowest, f32 largest) {
  if (value != value) {
    return 0x7f;
  }
  const f64 x = fmin(fabs((f64)value), largest);
  const int exponent = x > ldexp(1, lowest) ? ilogb(x) : lowest;
  const u32 steps = (u32)rint(ldexp(x, fraction - exponent));
  return (bits_of(value) >> 24 & 0x80) | (((u32)(exponent - lowest) << fraction) + steps);
}
INLINE u32 to_e4m3(f32 value) {
  return to_eight(value, 3, -6, 448);
}
INLINE u32 to_e5m2(f32 value) {
  return to_eight(value, 2, -14, 57344);
}
INLINE u32 half_of_e4m3(u32 x) {
  const u32 half = (x & 0x80) << 8 | (x & 0x7f) << 7;  // 2^-8 of it
  return (x & 0x7f) == 0x7f ? 0x7fff : to_half(of_half(half) * 256);
}
INLINE u32 half_of_e5m2(u32 x) {
  return (x & 0x7f) > 0x7c ? 0x7fff : x << 8;
}

// x rounded to a whole number, as one of the type: the last one where it is beyond (end: the first that is).
#define WITHIN(rounded, end, least, most, nan)  \
  ({                                            \
    const __typeof__(end) whole = rounded;      \
    whole != whole                 ? (D)(nan)   \
    : whole >= end                 ? (D)(most)  \
    : (least) < 0 && whole <= -end ? (D)(least) \
    : (least) == 0 && whole <= 0   ? 0          \
                                   : (D)whole;    \
  })

// ---- Approximations ----

INLINE f32 flushed(f32 x) {
  return fabsf(x) < FLT_MIN ? f32_of(bits_of(x) & 0x80000000) : x;
}
INLINE f64 upper(f64 x) {
  const u64 bits = bits_of_f64(number_f64(x)) & ~UINT64_C(0xffffffff);
  return f64_of(fabs(x) < DBL_MIN ? bits & UINT64_C(1) << 63 : bits);
}
// 2^x by the series of exp about the nearest whole number, its error below 1e-12 of it.
INLINE f64 power_of_two(f32 x) {
  const f64 shift = 0x1.8p52, within = x > 200 ? 200 : x < -200 ? -200 : x;
  const f64 whole = within + shift, r = (within - (whole - shift)) * 0x1.62e42fefa39efp-1;
  f64 sum = 1. / 3628800;
  sum = sum * r + 1. / 362880;
  sum = sum * r + 1. / 40320;
  sum = sum * r + 1. / 5040;
  sum = sum * r + 1. / 720;
  sum = sum * r + 1. / 120;
  sum = sum * r + 1. / 24;
  sum = sum * r + 1. / 6;
  sum = sum * r + 1. / 2;
  sum = sum * r + 1;
  sum = sum * r + 1;
  return sum * f64_of((bits_of_f64(whole) + 1023) << 52);
}
INLINE f32 roughly_divided(f32 a, f32 b) {
  return fabsf(b) > 0x1p126f ? a * f32_of(bits_of(b) & 0x80000000) : a / b;
}

#endif
