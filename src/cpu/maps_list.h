/* The elementwise functions: a row is a function's id and its value for operands a, b, c and parameters p, q of type T;
 * F(name) is the scalar function (math_body.h) of the row's type. The CPU's loops and the GPU's kernels are made of it.
 */
#ifndef RDT_CPU_MAPS_LIST_H
#define RDT_CPU_MAPS_LIST_H

#define FLOATS_1(X)                                                       \
  X(RELU, a < 0 ? 0 : a)                                                  \
  X(CLIP, CLAMPED(a, p, q))                                               \
  X(ABS, F(fabs)(a))                                                      \
  X(NEG, -a)                                                              \
  X(SIGN, a > 0 ? 1 : a < 0 ? -1 : a)                                     \
  X(SHRINK, a<-p ? a + q : a> p ? a - q : a - a)                          \
  X(ACOS, F(acos)(a))                                                     \
  X(ACOSH, F(acosh)(a))                                                   \
  X(ASIN, F(asin)(a))                                                     \
  X(ASINH, F(asinh)(a))                                                   \
  X(ATAN, F(atan)(a))                                                     \
  X(ATANH, F(atanh)(a))                                                   \
  X(CEIL, F(ceil)(a))                                                     \
  X(CELU, a < 0 ? p * F(expm1)(a / p) : a)                                \
  X(COS, F(cos)(a))                                                       \
  X(COSH, F(cosh)(a))                                                     \
  X(ELU, a < 0 ? p * F(expm1)(a) : a)                                     \
  X(ERF, F(erf)(a))                                                       \
  X(EXP, F(exp)(a))                                                       \
  X(FLOOR, F(floor)(a))                                                   \
  X(GELU, F(gelu)(a))                                                     \
  X(GELU_TANH, F(gelu_tanh)(a))                                           \
  X(HARDSIGMOID, CLAMPED(p *a + q, 0, 1))                                 \
  X(HARDSWISH, a *CLAMPED(p *a + q, 0, 1))                                \
  X(LEAKYRELU, a < 0 ? p * a : a)                                         \
  X(LOG, F(log)(a))                                                       \
  X(MISH, F(mish)(a))                                                     \
  X(RECIPROCAL, 1 / a)                                                    \
  X(ROUND, F(rint)(a))                                                    \
  X(SELU, q *(a < 0 ? p * F(expm1)(a) : a))                               \
  X(SIGMOID, F(sigmoid)(a))                                               \
  X(SILU, F(silu)(a))                                                     \
  X(SIN, F(sin)(a))                                                       \
  X(SINH, F(sinh)(a))                                                     \
  X(SOFTPLUS, F(softplus)(a))                                             \
  X(SOFTSIGN, a / (1 + F(fabs)(a)))                                       \
  X(SQRT, F(sqrt)(a))                                                     \
  X(TAN, F(tan)(a))                                                       \
  X(TANH, F(tanh)(a))                                                     \
  X(THRESHOLDEDRELU, a > p ? a : 0)                                       \
  X(ISINF, (p != 0 && a == -(T)INFINITY) || (q != 0 && a == (T)INFINITY)) \
  X(ISNAN, a != a)
#define FLOATS_2(X)               \
  X(ADD, a + b)                   \
  X(SUB, a - b)                   \
  X(MUL, a *b)                    \
  X(DIV, a / b)                   \
  X(MOD, F(modulo)(a, b, p))      \
  X(MAX, a > b || a != a ? a : b) \
  X(MIN, a < b || a != a ? a : b) \
  X(PRELU, a < 0 ? b * a : a)     \
  X(POW, F(pow)(a, b))            \
  COMPARISONS(X)
#define COMPARISONS(X)    \
  X(EQUAL, a == b)        \
  X(GREATER, a > b)       \
  X(GREATEREQUAL, a >= b) \
  X(LESS, a < b)          \
  X(LESSEQUAL, a <= b)
#define ALL_3(X)             \
  X(CLAMP, CLAMPED(a, b, c)) \
  X(WHERE, a != 0 ? b : c)
#define INTEGERS_1(X)                                           \
  X(RELU, a < 0 ? 0 : a)                                        \
  X(CLIP, CLAMPED(a, bound_s64(param[0]), bound_s64(param[1]))) \
  X(ABS, (int64_t)(a < 0 ? -(uint64_t)a : (uint64_t)a))         \
  X(NEG, (int64_t) - (uint64_t)a)                               \
  X(SIGN, (a > 0) - (a < 0))                                    \
  X(SHRINK, SHRUNK((double)a))                                  \
  X(NOT, a == 0)                                                \
  X(BITNOT, ~a)
#define INTEGERS_2(X)                                        \
  X(ADD, (int64_t)((uint64_t)a + (uint64_t)b))               \
  X(SUB, (int64_t)((uint64_t)a - (uint64_t)b))               \
  X(MUL, (int64_t)((uint64_t)a * (uint64_t)b))               \
  X(DIV, divide_s64(a, b))                                   \
  X(MOD, modulo_s64(a, b, p))                                \
  X(MAX, a > b ? a : b)                                      \
  X(MIN, a < b ? a : b)                                      \
  X(PRELU, a < 0 ? (int64_t)((uint64_t)b * (uint64_t)a) : a) \
  X(POW, power_s64(a, b))                                    \
  X(AND, a &b)                                               \
  X(OR, a | b)                                               \
  X(XOR, a ^ b)                                              \
  X(BITAND, a &b)                                            \
  X(BITOR, a | b)                                            \
  X(BITXOR, a ^ b)                                           \
  X(SHIFT, shift_s64(a, b, p))                               \
  COMPARISONS(X)

#define CLAMPED(x, low, high) F(clamp)(x, low, high)
#define SHRUNK(x) (int64_t)(x < -param[0] ? x + param[1] : x > param[0] ? x - param[1] : 0)

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define F(name) JOIN(name, SUFFIX)

#endif
