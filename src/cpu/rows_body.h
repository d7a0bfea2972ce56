/* Body of the rows' arithmetic, included once by each ISA directory with ROWS_TABLE defined. Plain loops that the
 * compiler vectorises: independent lanes, no reassociation left to it. */
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#include <math.h>
#include <string.h>

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

/* ---- softmax: sixteen lanes as vectors of the ISA's width ---- */

/* HIGHER(a, b): the higher one, b where one is NaN. ODD(a, b): where a or b is NaN. */
#if defined(__AVX512F__)
enum { WIDE = 16 };
#define MADD(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define HIGHER(a, b) ((vf)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define ODD(a, b) _mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_UNORD_Q)
#define ANY(odd) ((odd) != 0)
typedef __mmask16 odds;
#elif defined(__AVX2__)
enum { WIDE = 8 };
#define MADD(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define HIGHER(a, b) ((vf)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define ODD(a, b) ((odds)_mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_UNORD_Q))
#define ANY(odd) (_mm256_movemask_ps((__m256)(odd)) != 0)
typedef int32_t odds __attribute__((vector_size(32)));
#else
enum { WIDE = 4 };
#define MADD(a, b, c) ((a) * (b) + (c))
#define HIGHER(a, b) choose((a) > (b), a, b)
#define ODD(a, b) (((a) != (a)) | ((b) != (b)))
#define ANY(odd) (((odd)[0] | (odd)[1] | (odd)[2] | (odd)[3]) != 0)
typedef int32_t odds __attribute__((vector_size(16)));
#endif
enum { VECTORS = LANES / WIDE };
typedef float vf __attribute__((vector_size(WIDE * 4), may_alias));
typedef float vf_loose __attribute__((vector_size(WIDE * 4), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(WIDE * 4)));
#define INLINE static inline __attribute__((always_inline))

INLINE vf all(float x) {
  return (vf){0} + x;
}

INLINE vf __attribute__((unused)) choose(vi mask, vf yes, vf no) {
  return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
}

enum { ABREAST = 4 }; /* vectors whose chains are interleaved: one by one they fill the scheduler and wait */
#define EACH _Pragma("GCC unroll 4") for (int k = 0; k < ABREAST; k++)

/* e^x of x <= 0 within 2 units in the last place, 0 from -87.7 down, about where normal numbers end; NaN stays: 2^k
 * times a polynomial on [-ln 2 / 2, ln 2 / 2], where k comes as the low bits of a float. */
INLINE void exp_below(vf *x) {
  vf power[ABREAST], p[ABREAST];
  EACH {
    x[k] = HIGHER(all(-88.0f), x[k]); /* k = -127, of which the power comes as 0 */
    const vf t = MADD(x[k], all(1.44269504f), all(12582912.0f));
    power[k] = (vf)(((vi)t + 127) << 23);
    p[k] = t - 12582912.0f;
  }
  EACH x[k] = MADD(p[k], all(-0.693359375f), x[k]);
  EACH x[k] = MADD(p[k], all(2.12194440e-4f), x[k]);
  vf square[ABREAST]; /* by pairs of terms: shorter chains */
  EACH square[k] = x[k] * x[k];
  EACH p[k] = MADD(MADD(all(1.9875691500e-4f), x[k], all(1.3981999507e-3f)), square[k],
                   MADD(all(8.3334519073e-3f), x[k], all(4.1665795894e-2f)));
  EACH p[k] = MADD(p[k], square[k], MADD(all(1.6666665459e-1f), x[k], all(5.0000001201e-1f)));
  EACH x[k] = (MADD(p[k], square[k], x[k]) + 1.0f) * power[k];
}
#undef EACH

/* Sixteen elements from i on; behind the end what is lowest. */
INLINE const float *lanes_at(const float *x, int64_t i, int64_t n, float *padded) {
  if (i + LANES <= n) return x + i;
  for (int k = 0; k < LANES; k++) padded[k] = i + k < n ? x[i + k] : -INFINITY;
  return padded;
}

/* All lanes of a vector in four. */
typedef float quad __attribute__((vector_size(16)));
#if defined(__AVX512F__)
INLINE quad fold_max(vf x) {
  const __m256 y = _mm256_max_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
  return (quad)_mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
}
INLINE quad fold_sum(vf x) {
  const __m256 y = _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
  return (quad)_mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
}
#elif defined(__AVX2__)
INLINE quad fold_max(vf x) {
  return (quad)_mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
}
INLINE quad fold_sum(vf x) {
  return (quad)_mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
}
#else
INLINE quad fold_max(vf x) {
  return x;
}
INLINE quad fold_sum(vf x) {
  return x;
}
#endif

INLINE float higher(float a, float b) {
  return a > b ? a : b;
}

INLINE float highest(const float *x, int64_t n) { /* of numbers: NaN shows in the sum */
  vf top[VECTORS];
  int64_t i = 0;
  for (int k = 0; k < VECTORS; k++) top[k] = all(-INFINITY);
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < VECTORS; k++) top[k] = HIGHER(*(const vf_loose *)(x + i + k * WIDE), top[k]);
  if (i < n) {
    float padded[LANES];
    const float *const from = lanes_at(x, i, n, padded);
    for (int k = 0; k < VECTORS; k++) top[k] = HIGHER(*(const vf_loose *)(from + k * WIDE), top[k]);
  }
  for (int k = 1; k < VECTORS; k++) top[0] = HIGHER(top[0], top[k]);
  const quad q = fold_max(top[0]);
  return higher(higher(q[0], q[2]), higher(q[1], q[3]));
}

enum { BLOCK = 512 };

/* Exponentials of ABREAST vectors, and their sums in lanes. */
INLINE void exp_lanes(float *y, const float *x, float max, vf *lane) {
  vf e[ABREAST];
  for (int k = 0; k < ABREAST; k++) e[k] = *(const vf_loose *)(x + k * WIDE) - max;
  exp_below(e);
  for (int k = 0; k < ABREAST; k++) {
    if (y) *(vf_loose *)(y + k * WIDE) = e[k];
    lane[k % VECTORS] += e[k];
  }
}

/* The sum of exponentials, which stay in y if there is one; block by block so that long rows do not lose bits. */
INLINE double exponentials(float *y, const float *x, int64_t n, float max) {
  enum { STEP = ABREAST * WIDE };
  double sum = 0;
  for (int64_t from = 0; from < n; from += BLOCK) {
    const int64_t end = n - from < BLOCK ? n : from + BLOCK;
    vf lane[VECTORS] = {{0}};
    int64_t i = from;
    for (; i + STEP <= end; i += STEP) exp_lanes(y ? y + i : NULL, x + i, max, lane);
    if (i < end) { /* the last ones; behind them what gives 0 */
      float padded[STEP], rest[STEP];
      for (int k = 0; k < STEP; k++) padded[k] = i + k < end ? x[i + k] : -INFINITY;
      exp_lanes(rest, padded, max, lane);
      if (y) memcpy(y + i, rest, (size_t)(end - i) * sizeof *y);
    }
    for (int k = 1; k < VECTORS; k++) lane[0] += lane[k];
    const quad q = fold_sum(lane[0]);
    sum += (double)((q[0] + q[2]) + (q[1] + q[3]));
  }
  return sum;
}

/* Short rows step by step together: one alone waits for its maximum, its sum and its quotient. */
static void softmax_f32(float *const *y, const float *const *x, int rows, int64_t n, int logarithm) {
  enum { SHORT = 512 };
  float max[RDT_SOFTMAX_ROWS], factor[RDT_SOFTMAX_ROWS];
  for (int first = 0, end; first < rows; first = end) {
    end = n <= SHORT ? rows : first + 1;
    for (int r = first; r < end; r++) max[r] = highest(x[r], n);
    if (logarithm) {
      for (int r = first; r < end; r++) {
        const float back = (float)log(exponentials(NULL, x[r], n, max[r])), top = max[r];
        const float *const from = x[r];
        float *const to = y[r];
        _Pragma("omp simd") for (int64_t i = 0; i < n; i++) to[i] = (from[i] - top) - back;
      }
      continue;
    }
    for (int r = first; r < end; r++) factor[r] = (float)(1 / exponentials(y[r], x[r], n, max[r]));
    for (int r = first; r < end; r++) {
      const float by = factor[r];
      float *const to = y[r];
      _Pragma("omp simd") for (int64_t i = 0; i < n; i++) to[i] *= by;
    }
  }
}

/* ---- the highest of a window ---- */

enum { TILE = 8 }; /* vectors */

/* False where there is a NaN: y is undefined then. */
INLINE int window_of_numbers(float *y, const float *x, int64_t rows, int64_t cols, int64_t row, int64_t col) {
  vf top[TILE];
  odds odd = (odds){0};
  for (int k = 0; k < TILE; k++) top[k] = all(-INFINITY);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      for (int k = 0; k < TILE; k += 2) {
        const vf_loose *const at = (const vf_loose *)(x + r * row + c * col + k * WIDE);
        top[k] = HIGHER(top[k], at[0]);
        top[k + 1] = HIGHER(top[k + 1], at[1]);
        odd |= ODD(top[k], top[k + 1]);
      }
  if (ANY(odd)) return 0;
  for (int k = 0; k < TILE; k++) *(vf_loose *)(y + k * WIDE) = top[k];
  return 1;
}

INLINE void window_of_all(float *y, const float *x, int64_t rows, int64_t cols, int64_t row, int64_t col) {
  vf top = all(-INFINITY);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const vf v = *(const vf_loose *)(x + r * row + c * col);
      top = choose((v > top) | (v != v), v, top);
    }
  *(vf_loose *)y = top;
}

static void window_f32(float *y, const float *x, int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t n) {
  int64_t i = 0;
  while (i + WIDE <= n) {
    const int whole = i + TILE * WIDE <= n && window_of_numbers(y + i, x + i, rows, cols, row, col);
    if (!whole) window_of_all(y + i, x + i, rows, cols, row, col);
    i += whole ? TILE * WIDE : WIDE;
  }
  for (; i < n; i++) {
    float top = -INFINITY;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) {
        const float v = x[r * row + c * col + i];
        top = v != v || v > top ? v : top;
      }
    y[i] = top;
  }
}

const rdt_rows_table ROWS_TABLE = {each_f64,   run_f64,   each_f32,   run_f32,   each_s64,    run_s64,
                                   spread_f64, scale_f64, spread_f32, scale_f32, softmax_f32, window_f32};
