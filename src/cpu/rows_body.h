/* Body of the rows' arithmetic, included once by each ISA directory with ROWS_TABLE defined. Plain loops that the
 * compiler vectorises: independent lanes, no reassociation left to it. */
#include "cpu/rows.h"

enum { LANES = 16 };

#define WRAP_ADD(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define WRAP_MUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define WRAP_ABS(a) ((a) < 0 ? WRAP_ADD(0, -(uint64_t)(a)) : (a))
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define MAGNITUDE(a) __builtin_fabs(a)

/* One function a fold: elementwise, and along a run in lanes that are joined in order. X(name, first value, joined a
 * and x, lanes a and b joined) */
#define FOLDS(X, ADD, MUL, ABS)                                                       \
  X(add, ADD(a, (x)), 0, ADD(a, b))                                                   \
  X(abs, ADD(a, ABS(x)), 0, ADD(a, b))                                                \
  X(square, ADD(a, MUL(x, x)), 0, ADD(a, b))                                          \
  X(mul, MUL(a, x), 1, MUL(a, b))                                                     \
  X(max, ((x) != (x) ? (x) : (x) > a ? (x) : a), first, (b != b ? b : b > a ? b : a)) \
  X(min, ((x) != (x) ? (x) : (x) < a ? (x) : a), first, (b != b ? b : b < a ? b : a))

#define FOLD(name, T, A, NEXT, START, JOIN)                                         \
  static void NAME(each_##name)(A *restrict acc, const T *restrict in, int64_t n) { \
    for (int64_t i = 0; i < n; i++) {                                               \
      const A a = acc[i], x = in[i];                                                \
      acc[i] = NEXT;                                                                \
    }                                                                               \
  }                                                                                 \
  static A NAME(run_##name)(A acc, const T *restrict in, int64_t n) {               \
    A lane[LANES];                                                                  \
    int64_t i = 0;                                                                  \
    const A first = acc;                                                            \
    (void)first;                                                                    \
    for (int k = 0; k < LANES; k++) lane[k] = START;                                \
    for (; i + LANES <= n; i += LANES)                                              \
      for (int k = 0; k < LANES; k++) {                                             \
        const A a = lane[k], x = in[i + k];                                         \
        lane[k] = NEXT;                                                             \
      }                                                                             \
    for (int k = 0; i < n; i++, k++) {                                              \
      const A a = lane[k], x = in[i];                                               \
      lane[k] = NEXT;                                                               \
    }                                                                               \
    for (int half = LANES / 2; half > 0; half /= 2)                                 \
      for (int k = 0; k < half; k++) {                                              \
        const A a = lane[k], b = lane[k + half];                                    \
        lane[k] = JOIN;                                                             \
      }                                                                             \
    const A a = acc, b = lane[0];                                                   \
    return JOIN;                                                                    \
  }

#define CHOOSE(T, A)                                                                                           \
  static void NAME(each)(rdt_fold f, A * acc, const T *x, int64_t n) {                                         \
    static void (*const list[])(A *, const T *, int64_t) = {NAME(each_add), NAME(each_abs), NAME(each_square), \
                                                            NAME(each_mul), NAME(each_max), NAME(each_min)};   \
    list[f](acc, x, n);                                                                                        \
  }                                                                                                            \
  static A NAME(run)(rdt_fold f, A acc, const T *x, int64_t n) {                                               \
    static A (*const list[])(A, const T *, int64_t) = {NAME(run_add), NAME(run_abs), NAME(run_square),         \
                                                       NAME(run_mul), NAME(run_max), NAME(run_min)};           \
    return list[f](acc, x, n);                                                                                 \
  }

#define SPREAD(T)                                                                                               \
  static double NAME(spread)(const T *restrict x, int64_t n, T centre) {                                        \
    double lane[LANES] = {0};                                                                                   \
    int64_t i = 0;                                                                                              \
    for (; i + LANES <= n; i += LANES)                                                                          \
      for (int k = 0; k < LANES; k++) {                                                                         \
        const double d = x[i + k] - centre;                                                                     \
        lane[k] += d * d;                                                                                       \
      }                                                                                                         \
    for (int k = 0; i < n; i++, k++) {                                                                          \
      const double d = x[i] - centre;                                                                           \
      lane[k] += d * d;                                                                                         \
    }                                                                                                           \
    for (int half = LANES / 2; half > 0; half /= 2)                                                             \
      for (int k = 0; k < half; k++) lane[k] += lane[k + half];                                                 \
    return lane[0];                                                                                             \
  }                                                                                                             \
  static void NAME(scale)(T * y, const T *x, int64_t n, T centre, T factor, const T *gain, const T *shift) {    \
    if (gain && shift)                                                                                          \
      _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (x[i] - centre) * factor * gain[i] + shift[i]; \
    else if (gain)                                                                                              \
      _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (x[i] - centre) * factor * gain[i];            \
    else if (shift)                                                                                             \
      _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (x[i] - centre) * factor + shift[i];           \
    else                                                                                                        \
      _Pragma("omp simd") for (int64_t i = 0; i < n; i++) y[i] = (x[i] - centre) * factor;                      \
  }

#define NAME(x) x##_f64
#define X(name, next, start, join) FOLD(name, double, double, next, start, join)
FOLDS(X, PLUS, TIMES, MAGNITUDE)
#undef X
CHOOSE(double, double)
SPREAD(double)
#undef NAME

#define NAME(x) x##_f32
#define X(name, next, start, join) FOLD(name, float, double, next, start, join)
FOLDS(X, PLUS, TIMES, MAGNITUDE)
#undef X
CHOOSE(float, double)
SPREAD(float)
#undef NAME

#define NAME(x) x##_s64
#define X(name, next, start, join) FOLD(name, int64_t, int64_t, next, start, join)
FOLDS(X, WRAP_ADD, WRAP_MUL, WRAP_ABS)
#undef X
CHOOSE(int64_t, int64_t)
#undef NAME

const rdt_rows_table ROWS_TABLE = {each_f64, run_f64,    each_f32,  run_f32,    each_s64,
                                   run_s64,  spread_f64, scale_f64, spread_f32, scale_f32};
