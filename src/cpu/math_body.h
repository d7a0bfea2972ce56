/* The mathematics of elementwise functions on one element, inlined into the loops of each ISA. */
#ifndef RDT_CPU_MATH_BODY_H
#define RDT_CPU_MATH_BODY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MATH static inline __attribute__((always_inline, unused))

/* Seldom used: the double's function, for floats rounded once more. */
#define BY_LIBM(name)                \
  MATH double name##_f64(double x) { \
    return name(x);                  \
  }                                  \
  MATH float name##_f32(float x) {   \
    return (float)name((double)x);   \
  }
BY_LIBM(acos)
BY_LIBM(acosh)
BY_LIBM(asin)
BY_LIBM(asinh)
BY_LIBM(atan)
BY_LIBM(atanh)
BY_LIBM(cos)
BY_LIBM(cosh)
BY_LIBM(sin)
BY_LIBM(sinh)
BY_LIBM(tan)
BY_LIBM(exp)
BY_LIBM(expm1)
BY_LIBM(log)
BY_LIBM(log1p)
BY_LIBM(erf)
BY_LIBM(tanh)

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

#define OF_BOTH(T, t)                                                       \
  MATH T sigmoid_##t(T x) { /* no overflow on either side */                \
    const T e = exp_##t(-fabs_##t(x));                                      \
    return (x < 0 ? e : 1) / (1 + e);                                       \
  }                                                                         \
  MATH T softplus_##t(T x) {                                                \
    return (x < 0 ? 0 : x) + log1p_##t(exp_##t(-fabs_##t(x)));              \
  }                                                                         \
  MATH T mish_##t(T x) { /* tanh(log(1 + e^x)) without the logarithm */     \
    const T e = exp_##t(-fabs_##t(x)), n = x < 0 ? e * (e + 2) : 1 + 2 * e; \
    return x * (n / (n + (x < 0 ? 2 : 2 * e * e)));                         \
  }
OF_BOTH(double, f64)
OF_BOTH(float, f32)

MATH double gelu_f64(double x) {
  return 0.5 * x * erfc(-x * 0.70710678118654752440);
}
MATH float gelu_f32(float x) {
  return (float)gelu_f64((double)x);
}
MATH double gelu_tanh_f64(double x) {
  return x * sigmoid_f64(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
}
MATH float gelu_tanh_f32(float x) {
  return (float)gelu_tanh_f64((double)x);
}

/* Integers modulo 2^64 */
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

#endif
