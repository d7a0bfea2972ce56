/* Body of the sums' inner loops, included once by each ISA directory with SUMS_TABLE defined. Vectors of VD doubles; a
 * fused multiply-add is as good as a product and a sum here: the sums are compared within bounds, never by bits. */
#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "cpu/sums.h"

/* Intrinsics only where the compiler's own vectors fall short: it splits the widening load and fuses nothing. */
#if defined(__AVX512F__)
enum { VD = 8 };
#define MADD(a, b, c) ((vd)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define WIDEN(x) ((vd)_mm512_cvtps_pd(_mm256_loadu_ps(x)))
#elif defined(__FMA__)
enum { VD = 4 };
#define MADD(a, b, c) ((vd)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#define WIDEN(x) ((vd)_mm256_cvtps_pd(_mm_loadu_ps(x)))
#else
enum { VD = 2 };
#define MADD(a, b, c) ((a) * (b) + (c))
#define WIDEN(x) ((vd){(double)(x)[0], (double)(x)[1]})
#endif

typedef double vd __attribute__((vector_size(VD * 8), may_alias));
typedef double vd_loose __attribute__((vector_size(VD * 8), aligned(8), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vd load_f64(const double *x) {
  return *(const vd_loose *)x;
}
INLINE vd load_f32(const float *x) {
  return WIDEN(x);
}
INLINE double total(vd x) {
  double s = 0;
  for (int i = 0; i < VD; ++i) s += x[i];
  return s;
}
INLINE void store(double *x, vd y) {
  *(vd_loose *)x = y;
}
INLINE vd spread(double x) {
  return (vd){0} + x;
}

/* What a side wants: nothing, sums with weights for the squares, sums with plain squares. */
enum { NONE, WEIGHTED, PLAIN };

INLINE vd add_square(vd sum, vd square, vd weight, int mode) {
  if (mode == WEIGHTED) return MADD(square, weight, sum);
  return sum + square;
}

/* Four rows at a time (one at the end): their sums along the rows stay in registers, the sums along the columns go
 * through the cache once for four elements. x is read once for both. */
#define ROWS(T, t)                                                                                                 \
  INLINE void rows_##t(const T *x, int64_t ld, int rows, int64_t n, const rdt_line *right, const rdt_line *left,   \
                       int r_mode, int l_mode) {                                                                   \
    vd r_dot[4] = {{0}}, r_sq[4] = {{0}}, u[4], q[4];                                                              \
    const int64_t whole = n / VD * VD;                                                                             \
    for (int r = 0; r < rows; ++r) {                                                                               \
      u[r] = l_mode ? spread(left->w_dot[r]) : (vd){0};                                                            \
      q[r] = l_mode == WEIGHTED ? spread(left->w_sq[r]) : (vd){0};                                                 \
    }                                                                                                              \
    for (int64_t j = 0; j < whole; j += VD) {                                                                      \
      const vd wd = r_mode ? load_f64(right->w_dot + j) : (vd){0};                                                 \
      const vd ws = r_mode == WEIGHTED ? load_f64(right->w_sq + j) : (vd){0};                                      \
      vd l_dot = l_mode ? load_f64(left->dot + j) : (vd){0}, l_sq = l_mode ? load_f64(left->sq + j) : (vd){0};     \
      for (int r = 0; r < rows; ++r) {                                                                             \
        const vd v = load_##t(x + r * ld + j), v2 = v * v;                                                         \
        if (r_mode) r_dot[r] = MADD(v, wd, r_dot[r]);                                                              \
        if (r_mode) r_sq[r] = add_square(r_sq[r], v2, ws, r_mode);                                                 \
        if (l_mode) l_dot = MADD(v, u[r], l_dot);                                                                  \
        if (l_mode) l_sq = add_square(l_sq, v2, q[r], l_mode);                                                     \
      }                                                                                                            \
      if (l_mode) store(left->dot + j, l_dot);                                                                     \
      if (l_mode) store(left->sq + j, l_sq);                                                                       \
    }                                                                                                              \
    for (int r = 0; r < rows; ++r) {                                                                               \
      double dot = total(r_dot[r]), sq = total(r_sq[r]);                                                           \
      for (int64_t j = whole; j < n; ++j) {                                                                        \
        const double v = (double)x[r * ld + j];                                                                    \
        if (r_mode) dot += v * right->w_dot[j];                                                                    \
        if (r_mode) sq += r_mode == WEIGHTED ? v * v * right->w_sq[j] : v * v;                                     \
        if (l_mode) left->dot[j] += v * left->w_dot[r];                                                            \
        if (l_mode) left->sq[j] += l_mode == WEIGHTED ? v * v * left->w_sq[r] : v * v;                             \
      }                                                                                                            \
      if (r_mode) right->dot[r] += dot;                                                                            \
      if (r_mode) right->sq[r] += sq;                                                                              \
    }                                                                                                              \
  }                                                                                                                \
  INLINE void block_##t(const T *x, int64_t ld, int rows, int64_t n, rdt_line right, rdt_line left, int r_mode,    \
                        int l_mode) {                                                                              \
    for (int r = 0, step; r < rows; r += step) {                                                                   \
      step = rows - r >= 4 ? 4 : 1;                                                                                \
      if (step == 4)                                                                                               \
        rows_##t(x, ld, 4, n, &right, &left, r_mode, l_mode);                                                      \
      else                                                                                                         \
        rows_##t(x, ld, 1, n, &right, &left, r_mode, l_mode);                                                      \
      x += step * ld;                                                                                              \
      right.dot += step, right.sq += step;                                                                         \
      left.w_dot += step, left.w_sq += l_mode == WEIGHTED ? step : 0;                                              \
    }                                                                                                              \
  }                                                                                                                \
  INLINE void left_##t(const T *x, int64_t ld, int rows, int64_t n, const rdt_line *right, const rdt_line *left,   \
                       int r_mode) {                                                                               \
    if (!left->dot)                                                                                                \
      block_##t(x, ld, rows, n, *right, *left, r_mode, NONE);                                                      \
    else if (left->w_sq)                                                                                           \
      block_##t(x, ld, rows, n, *right, *left, r_mode, WEIGHTED);                                                  \
    else                                                                                                           \
      block_##t(x, ld, rows, n, *right, *left, r_mode, PLAIN);                                                     \
  }                                                                                                                \
  static void sums_##t(const T *x, int64_t ld, int rows, int64_t n, const rdt_line *right, const rdt_line *left) { \
    if (!right->dot)                                                                                               \
      left_##t(x, ld, rows, n, right, left, NONE);                                                                 \
    else if (right->w_sq)                                                                                          \
      left_##t(x, ld, rows, n, right, left, WEIGHTED);                                                             \
    else                                                                                                           \
      left_##t(x, ld, rows, n, right, left, PLAIN);                                                                \
  }

ROWS(float, f32)
ROWS(double, f64)

/* ---- integers modulo 2^32 ---- */

enum { VW = 2 * VD };
typedef uint32_t vw __attribute__((vector_size(VW * 4), aligned(4), may_alias));
typedef int32_t vw_s32 __attribute__((vector_size(VW * 4), aligned(4), may_alias));

INLINE vw load_s32(const int32_t *x) {
  return (vw) * (const vw_s32 *)x;
}
#if defined(__AVX512F__)
INLINE vw load_s8(const int8_t *x) {
  return (vw)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x));
}
INLINE vw load_u8(const uint8_t *x) {
  return (vw)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x));
}
#elif defined(__AVX2__)
INLINE vw load_s8(const int8_t *x) {
  return (vw)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)x));
}
INLINE vw load_u8(const uint8_t *x) {
  return (vw)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)x));
}
#else
INLINE vw load_s8(const int8_t *x) {
  return (vw)(vw_s32){x[0], x[1], x[2], x[3]};
}
INLINE vw load_u8(const uint8_t *x) {
  return (vw){x[0], x[1], x[2], x[3]};
}
#endif

/* The low word of an integer below 2^51. */
INLINE uint32_t low_word(double x) {
  const union {
    double value;
    uint64_t bits;
  } y = {.value = x + 0x1.8p52};
  return (uint32_t)y.bits;
}

typedef struct word_sums { /* of some rows */
  uint32_t r_weight[RDT_SUMS_COLS], l_weight[RDT_SUMS_ROWS];
  uint32_t right[RDT_SUMS_ROWS], left[RDT_SUMS_COLS];
} word_sums;

/* As above: four rows at a time, x is read once for both sides. */
#define WORDS(T, t)                                                                                               \
  INLINE void words_rows_##t(word_sums *s, const T *x, int64_t ld, int first, const int rows, int64_t n,          \
                             const bool right, const bool left) {                                                 \
    vw sum[4] = {{0}};                                                                                            \
    const int64_t whole = n / VW * VW;                                                                            \
    for (int64_t j = 0; j < whole; j += VW) {                                                                     \
      const vw w = right ? *(const vw *)(s->r_weight + j) : (vw){0};                                              \
      vw down = left ? *(const vw *)(s->left + j) : (vw){0};                                                      \
      for (int r = 0; r < rows; ++r) {                                                                            \
        const vw v = load_##t(x + (first + r) * ld + j);                                                          \
        if (right) sum[r] += v * w;                                                                               \
        if (left) down += v * s->l_weight[first + r];                                                             \
      }                                                                                                           \
      if (left) *(vw *)(s->left + j) = down;                                                                      \
    }                                                                                                             \
    for (int r = 0; r < rows; ++r) {                                                                              \
      uint32_t all = 0;                                                                                           \
      for (int i = 0; right && i < VW; ++i) all += sum[r][i];                                                     \
      for (int64_t j = whole; j < n; ++j) {                                                                       \
        const uint32_t v = (uint32_t)(int32_t)x[(first + r) * ld + j];                                            \
        if (right) all += v * s->r_weight[j];                                                                     \
        if (left) s->left[j] += v * s->l_weight[first + r];                                                       \
      }                                                                                                           \
      s->right[first + r] = all;                                                                                  \
    }                                                                                                             \
  }                                                                                                               \
  INLINE void words_sides_##t(word_sums *s, const T *x, int64_t ld, int rows, int64_t n, bool right, bool left) { \
    int r = 0;                                                                                                    \
    for (; r + 4 <= rows; r += 4) words_rows_##t(s, x, ld, r, 4, n, right, left);                                 \
    for (; r < rows; ++r) words_rows_##t(s, x, ld, r, 1, n, right, left);                                         \
  }                                                                                                               \
  static void words_##t(word_sums *s, const T *x, int64_t ld, int rows, int64_t n, bool right, bool left) {       \
    if (right && left)                                                                                            \
      words_sides_##t(s, x, ld, rows, n, true, true);                                                             \
    else if (right)                                                                                               \
      words_sides_##t(s, x, ld, rows, n, true, false);                                                            \
    else                                                                                                          \
      words_sides_##t(s, x, ld, rows, n, false, true);                                                            \
  }

WORDS(int8_t, s8)
WORDS(uint8_t, u8)
WORDS(int32_t, s32)

/* Sums of a part stay words; only then they go to those of all parts. */
static void words(const void *x, rdt_dtype t, int64_t ld, int rows, int64_t n, const rdt_line *right,
                  const rdt_line *left) {
  word_sums s;
  for (int64_t j = 0; right->dot && j < n; ++j) s.r_weight[j] = low_word(right->w_dot[j]);
  for (int r = 0; left->dot && r < rows; ++r) s.l_weight[r] = low_word(left->w_dot[r]);
  for (int64_t j = 0; left->dot && j < n; ++j) s.left[j] = 0;
  if (t == RDT_S8)
    words_s8(&s, x, ld, rows, n, right->dot, left->dot);
  else if (t == RDT_U8)
    words_u8(&s, x, ld, rows, n, right->dot, left->dot);
  else
    words_s32(&s, x, ld, rows, n, right->dot, left->dot);
  for (int r = 0; right->dot && r < rows; ++r) right->dot[r] += (double)(int32_t)s.right[r];
  for (int64_t j = 0; left->dot && j < n; ++j) left->dot[j] += (double)(int32_t)s.left[j];
}

static void f16_to_f32(const uint16_t *x, int64_t n, float *dst) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
#endif
  for (; i < n; ++i) dst[i] = rdt_f16_to_f32(x[i]);
}

static void to_f32(const void *x, rdt_dtype t, int64_t n, float *dst) {
  if (t == RDT_F16) {
    f16_to_f32(x, n, dst);
  } else if (t == RDT_BF16) {
    const uint16_t *s = x;
    for (int64_t i = 0; i < n; ++i) {
      const union {
        uint32_t bits;
        float value;
      } wide = {.bits = (uint32_t)s[i] << 16};
      dst[i] = wide.value;
    }
  } else if (t == RDT_S8) {
    const int8_t *s = x;
    for (int64_t i = 0; i < n; ++i) dst[i] = (float)s[i];
  } else {
    const uint8_t *s = x;
    for (int64_t i = 0; i < n; ++i) dst[i] = (float)s[i];
  }
}

const rdt_sums_table SUMS_TABLE = {sums_f32, sums_f64, to_f32, words};
