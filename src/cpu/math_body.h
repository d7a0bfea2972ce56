/* The mathematics of elementwise functions on one element, inlined into the loops of each ISA. In f32, what networks
 * use is made of sums and products that vectorise, without branches and without contraction: the bits are those of
 * every ISA. Polynomials are minimax fits; errors against libm's long doubles, over a sweep of the floats
 * (tests/test_maps.c): at most 3 ulp, 3.5 of Mish; GELU as its comment says. */
#ifndef RDT_CPU_MATH_BODY_H
#define RDT_CPU_MATH_BODY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef MATH /* the GPU's kernels have one of their own */
#define MATH static inline __attribute__((always_inline, unused))
#endif

/* Seldom used in f32: the double's function, rounded once more. */
#define LIBM_F64(name)               \
  MATH double name##_f64(double x) { \
    return name(x);                  \
  }
#define LIBM(name)                 \
  LIBM_F64(name)                   \
  MATH float name##_f32(float x) { \
    return (float)name((double)x); \
  }
LIBM(acos)
LIBM(acosh)
LIBM(asin)
LIBM(asinh)
LIBM(atan)
LIBM(atanh)
LIBM(cos)
LIBM(cosh)
LIBM(sin)
LIBM(sinh)
LIBM(tan)
LIBM_F64(exp)
LIBM_F64(expm1)
LIBM_F64(log)
LIBM_F64(log1p)
LIBM_F64(erf)
LIBM_F64(tanh)

/* Exact, or rounded once: one instruction where the ISA has it. */
#define EXACT(name)                  \
  MATH double name##_f64(double x) { \
    return name(x);                  \
  }                                  \
  MATH float name##_f32(float x) {   \
    return name##f(x);               \
  }
EXACT(ceil)
EXACT(fabs)
EXACT(floor)
EXACT(rint)
EXACT(sqrt)

MATH double fmod_f64(double x, double y) {
  return fmod(x, y);
}
MATH float fmod_f32(float x, float y) {
  return fmodf(x, y);
}
MATH double pow_f64(double x, double y) {
  return pow(x, y);
}
MATH float pow_f32(float x, float y) {
  return (float)pow((double)x, (double)y);
}

/* ---- f32 ---- */

MATH uint32_t bits_f32(float x) {
  uint32_t b;
  memcpy(&b, &x, sizeof b);
  return b;
}
MATH float float_f32(uint32_t b) {
  float x;
  memcpy(&x, &b, sizeof x);
  return x;
}

/* Adding this leaves the nearest integer in the last bits. */
static const float to_integer = 0x1.8p23f;
static const float ln2_high = 0x1.63p-1f, ln2_low = -0x1.bd0106p-13f; /* nine bits: products with integers are exact */

/* 2^n as two factors, for n from -252 to 254: the result of multiplying by both is rounded once. */
MATH float scale_f32(float x, int32_t n) {
  const int32_t half = n >> 1;
  return x * float_f32((uint32_t)(half + 127) << 23) * float_f32((uint32_t)(n - half + 127) << 23);
}

/* exp(r) - 1 for |r| <= ln(2) / 2 */
MATH float exp_rest_f32(float r) {
  const float q =
      0x1.fffffcp-2f + r * (0x1.555490p-3f + r * (0x1.5558f8p-5f + r * (0x1.123b04p-7f + r * 0x1.6a2252p-10f)));
  return r + r * r * q;
}

/* exp(x + rest) = result * 2^*n for tiny |rest|. What is to be multiplied with it may be so before it is scaled: then
 * subnormal results are rounded once. */
MATH float exp_parts_f32(float x, float rest, int32_t *n) {
  x = x < -130.0f ? -130.0f : x; /* far enough to end at zero, at Inf; NaN stays */
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 0x1.715476p+0f + to_integer, whole = shifted - to_integer;
  *n = (int32_t)(bits_f32(shifted) - bits_f32(to_integer));
  return 1 + exp_rest_f32(((x - whole * ln2_high) - whole * ln2_low) + rest);
}

MATH float exp_f32(float x) {
  int32_t n;
  const float e = exp_parts_f32(x, 0, &n);
  return scale_f32(e, n);
}

MATH float expm1_f32(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x; /* only ELU and its kin ask, for x < 0 */
  const float shifted = x * 0x1.715476p+0f + to_integer, n = shifted - to_integer;
  const float power = float_f32((bits_f32(shifted) - bits_f32(to_integer) + 127) << 23);
  return power * exp_rest_f32((x - n * ln2_high) - n * ln2_low) + (power - 1);
}

/* log(2^n (1 + f)) for f from sqrt(1/2) - 1 to sqrt(2) - 1 */
MATH float log_parts_f32(float f, float n) {
  const float p =
      0x1.555548p-2f +
      f * (-0x1.000006p-2f +
           f * (0x1.99a4d6p-3f +
                f * (-0x1.555c8cp-3f +
                     f * (0x1.2334cap-3f +
                          f * (-0x1.fc14f8p-4f + f * (0x1.e70c94p-4f + f * (-0x1.de9dccp-4f + f * 0x1.149078p-4f)))))));
  const float square = f * f;
  return n * ln2_high + (f - (0.5f * square - (square * f * p + n * ln2_low)));
}

MATH float log_f32(float x) {
  const uint32_t root = 0x3f3504f3; /* sqrt(1/2) */
  const float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
  const uint32_t b = bits_f32(scaled) - root;
  const int32_t n = (int32_t)b >> 23;
  const float y =
      log_parts_f32(float_f32((b & 0x7fffff) + root) - 1, (float)(x < 0x1p-126f ? n - 23 : n)); /* positive, finite */
  const float edge = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return x > 0 && x < INFINITY ? y : edge;
}

/* For x from 0 to 1 */
MATH float log1p_f32(float x) {
  const float y = x > 0x1.a8p-2f ? (x - 1) * 0.5f : x;
  return log_parts_f32(y, x > 0x1.a8p-2f ? 1 : 0);
}

MATH float tanh_f32(float x) {
  const float s = x * x, a = fabsf(x);
  const float near =
      x + x * (s * (-0x1.555532p-2f +
                    s * (0x1.110726p-3f + s * (-0x1.b83c58p-5f + s * (0x1.522692p-6f + s * -0x1.75e1a8p-8f)))));
  const float far = 1 - 2 / (exp_f32(a + a) + 1);
  return a < 0.625f ? near : copysignf(far, x);
}

MATH float erf_f32(float x) {
  const float s = x * x, a = fabsf(x);
  const float near =
      x + x * (0x1.06eba8p-3f +
               s * (-0x1.812746p-2f +
                    s * (0x1.ce2f08p-4f +
                         s * (-0x1.b829a8p-6f +
                              s * (0x1.5628eep-8f +
                                   s * (-0x1.bcbe9ap-11f + s * (0x1.d8268ep-14f + s * -0x1.4383fcp-17f)))))));
  const float b = a > 4.0f ? 4.0f : a;
  const float q =
      0x1.8b53d2p-13f +
      b * (-0x1.212c30p+0f +
           b * (-0x1.4434e6p-1f +
                b * (-0x1.bc1928p-4f +
                     b * (0x1.9d0ca8p-6f + b * (-0x1.139a24p-8f + b * (0x1.ceee80p-12f + b * -0x1.6c0b2ap-16f))))));
  return a < 1 ? near : copysignf(1 - exp_f32(q), x);
}

/* x Phi(x); Phi(x) - 1/2 is odd: x times a polynomial of x^2 (minimax in the absolute error), 1/2 from 5.5 on. The
 * error is at most 4 x 2^-24 |x|, as of the formula with erf: far to the left, where the result vanishes, not in ulp.
 */
MATH float gelu_f32(float x) {
  const float s = x * x, a = s > 30.25f ? 30.25f : s, u = a * (2 / 30.25f) - 1;
  const float u2 = u * u, u4 = u2 * u2; /* four short chains instead of a long one: twice as fast */
  const float p0 = (0x1.07463cp-3f + u * -0x1.06d9b8p-4f) + u2 * (0x1.870fbap-5f + u * -0x1.3dbeccp-5f);
  const float p1 = (0x1.06d04ap-5f + u * -0x1.abd3a4p-6f) + u2 * (0x1.4c65fcp-6f + u * -0x1.e0c046p-7f);
  const float p2 = (0x1.570906p-7f + u * -0x1.f6f7d8p-8f) + u2 * (0x1.15a318p-8f + u * -0x1.4246dcp-10f);
  const float p3 = (0x1.0c63a0p-10f + u * -0x1.66d4dep-10f) + u2 * 0x1.1a1c76p-11f;
  const float p = (p0 + u4 * p1) + (u4 * u4) * (p2 + u4 * p3);
  const float half = s < 30.25f ? x * p : copysignf(0.5f, x);
  return x * (0.5f + half);
}

/* -a, which stands for a negative x; NaN for -Inf: the product that the function is has -Inf times 0 there. */
MATH float left_f32(float x, float a) {
  return 0 * x - a;
}

/* x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))), the exponent in double */
MATH float gelu_tanh_f32(float x) {
  float a = fabsf(x);
  a = a > 12.0f ? 12.0f : a;
  const double b = (double)a, m = -b * (1.5957691216057307 + 0.071354816272600248 * (b * b));
  const float shifted = a * (-2.3022082f + -0.10294324f * (a * a)) + to_integer, whole = shifted - to_integer;
  const int32_t n = (int32_t)(bits_f32(shifted) - bits_f32(to_integer));
  const float p = 1 + exp_rest_f32((float)(m - (double)whole * 0.69314718055994530942)), e = scale_f32(p, n);
  return x < 0 ? scale_f32(left_f32(x, a) * p / (1 + e), n) : x / (1 + e);
}

MATH float silu_f32(float x) {
  float a = fabsf(x);
  a = a > 130.0f ? 130.0f : a;
  int32_t n;
  const float p = exp_parts_f32(-a, 0, &n), e = scale_f32(p, n);
  return x < 0 ? scale_f32(left_f32(x, a) * p / (1 + e), n) : x / (1 + e);
}

/* x tanh(log(1 + e^x)) without the logarithm */
MATH float mish_f32(float x) {
  float a = fabsf(x);
  a = a > 130.0f ? 130.0f : a;
  int32_t n;
  const float p = exp_parts_f32(-a, 0, &n), e = scale_f32(p, n), s = e * (e + 2), b = 1 + 2 * e;
  return x < 0 ? scale_f32(left_f32(x, a) * p * ((e + 2) / (s + 2)), n) : x * (b / (b + 2 * (e * e)));
}

/* ---- f64; far to the left all end at -0, and at -Inf in NaN ---- */

MATH double gelu_f64(double x) {
  return 0.5 * x * erfc(-x * 0.70710678118654752440);
}
MATH double silu_f64(double x) {
  return x / (1 + exp(-x));
}
MATH double mish_f64(double x) {
  const double e = exp(-fabs(x)), n = x < 0 ? e * (e + 2) : 1 + 2 * e;
  return x * (n / (n + (x < 0 ? 2 : 2 * e * e)));
}
MATH double gelu_tanh_f64(double x) {
  return x / (1 + exp(-x * (1.5957691216057307 + 0.071354816272600248 * (x * x))));
}

/* ---- both ---- */

#define OF_BOTH(T, t)                                                  \
  MATH T sigmoid_##t(T x) { /* no overflow on either side */           \
    const T e = exp_##t(-fabs_##t(x));                                 \
    return (x < 0 ? e : 1) / (1 + e);                                  \
  }                                                                    \
  MATH T softplus_##t(T x) {                                           \
    return (x < 0 ? 0 : x) + log1p_##t(exp_##t(-fabs_##t(x)));         \
  }                                                                    \
  MATH T clamp_##t(T x, T low, T high) {                               \
    const T y = x < low ? low : x;                                     \
    return y > high ? high : y;                                        \
  }                                                                    \
  MATH T modulo_##t(T x, T y, T truncated) {                           \
    const T r = fmod_##t(x, y);                                        \
    return truncated == 0 && r != 0 && (r < 0) != (y < 0) ? r + y : r; \
  }
OF_BOTH(double, f64)
OF_BOTH(float, f32)

/* ---- s64, modulo 2^64 ---- */

MATH int64_t power_s64(int64_t x, int64_t n) {
  uint64_t y = 1, base = (uint64_t)x;
  if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
  for (; n; n >>= 1, base *= base)
    if (n & 1) y *= base;
  return (int64_t)y;
}
MATH int64_t divide_s64(int64_t x, int64_t y) {
  return y == 0 ? 0 : y == -1 ? (int64_t) - (uint64_t)x : x / y;
}
MATH int64_t modulo_s64(int64_t x, int64_t y, int64_t truncated) {
  if (y == 0 || y == -1) return 0;
  const int64_t r = x % y;
  return !truncated && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
MATH int64_t shift_s64(int64_t x, int64_t by, int64_t left) {
  if (by < 0 || by > 63) return 0;
  return left ? (int64_t)((uint64_t)x << by) : x >> by;
}
MATH int64_t bound_s64(double x) { /* a bound that may be infinite */
  return x >= 0x1p63 ? INT64_MAX : x >= -0x1p63 ? (int64_t)x : INT64_MIN;
}
MATH int64_t clamp_s64(int64_t x, int64_t low, int64_t high) {
  const int64_t y = x < low ? low : x;
  return y > high ? high : y;
}

#endif
