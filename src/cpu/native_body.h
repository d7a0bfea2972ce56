/* Body of the own products, included by each ISA directory with NATIVE_TABLE defined: once plain, once with
 * RDT_INJECT, which can plant one fault in one accumulator. */
#include "cpu/generic/product.h"
#include "cpu/vector_body.h"

#if defined(__AVX512F__)
enum { MR = 12, NV = 2 };
#elif defined(__FMA__)
enum { MR = 6, NV = 2 };
#else
enum { MR = 4, NV = 2 };
#endif
enum { NR = NV * VL };

/* The sum of the lanes as a tree: at most four roundings. */
INLINE double total(V x) {
#if defined(__FMA__)
#if defined(__AVX512F__)
  const __m256 y = _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
#else
  const __m256 y = (__m256)x;
#endif
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return (double)_mm_cvtss_f32(_mm_add_ss(h, _mm_shuffle_ps(h, h, 1)));
#else
  return (double)((x[0] + x[2]) + (x[1] + x[3]));
#endif
}

/* The same of four vectors, added to four sums. */
INLINE void add_totals(double *to, const V *x) {
#if defined(__FMA__)
  __m256 y[4];
  for (int i = 0; i < 4; ++i) {
#if defined(__AVX512F__)
    y[i] = _mm256_add_ps(_mm512_castps512_ps256((__m512)x[i]), _mm512_extractf32x8_ps((__m512)x[i], 1));
#else
    y[i] = (__m256)x[i];
#endif
  }
  const __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(y[0], y[1]), _mm256_hadd_ps(y[2], y[3]));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), _mm256_cvtps_pd(four)));
#else
  for (int i = 0; i < 4; ++i) to[i] += total(x[i]);
#endif
}

/* out += terms [from, to) of the reduction, of nr rows by nv vectors; fresh: out = those terms. */
INLINE void multiply(const rdt_native_strip *s, int64_t row, const float *panel, int64_t from, int64_t to, const int nr,
                     const int nv, const bool fresh, V (*out)[NV]) {
  V acc[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) acc[r][v] = fresh ? (V){0} : out[r][v];
  const float *q = panel + from * NR;
  int64_t segment = s->segments > 1 ? from / s->length : 0, t = from - segment * s->length;
  for (int64_t left = to - from; left > 0; ++segment, t = 0) {
    const int64_t end = left < s->length - t ? t + left : s->length;
    const float *const *at = s->rows + segment * s->padded + row;
    const float *p[MR];
#pragma GCC unroll 16
    for (int r = 0; r < nr; ++r) p[r] = at[r];
    left -= end - t;
#pragma GCC unroll 1
    for (; t < end; ++t, q += NR) {
      V b[NV];
#pragma GCC unroll 2
      for (int v = 0; v < nv; ++v) b[v] = *(const V *)(q + v * VL);
#pragma GCC unroll 16
      for (int r = 0; r < nr; ++r) {
        const V a = spread(p[r][t]);
#pragma GCC unroll 2
        for (int v = 0; v < nv; ++v) acc[r][v] = MADD(a, b[v], acc[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) out[r][v] = acc[r][v];
}

/* ---- what follows the reduction ---- */

typedef struct place { /* of a tile: where its result goes, where its residual comes from */
  float *out;
  int64_t ld;
  int rows; /* that are there */
  const float *residual, *bias;
  int64_t residual_ld;
#if RDT_INJECT
  float *hit; /* element whose stored value is hit */
  int hit_row;
#endif
} place;

/* Sums, epilogue and store of a tile; false: the second evaluation is not what was stored. */
INLINE bool finish(const rdt_native_strip *s, V (*tile)[NV], const place *to, const int nv, float *lanes,
                   const float *w, const bool check, const bool scale, const bool has_bias, const bool has_residual,
                   const int bound) {
  const rdt_native_finish *f = &s->finish;
  V b[NV], sign[NV];
  for (int v = 0; v < nv; ++v) {
    b[v] = has_bias ? load(to->bias + v * VL) : (V){0};
    sign[v] = check ? load(w + v * VL) : (V){0};
  }
  I differ = {0};
#pragma GCC unroll 1
  for (int r = 0; r < to->rows; ++r) {
    float *out = to->out + r * to->ld;
    const float *residual = has_residual ? to->residual + r * to->residual_ld : NULL;
    V raw[NV];
    for (int v = 0; v < nv; ++v) raw[v] = tile[r][v];
    if (check) {
      V dot = raw[0] * sign[0], sq = raw[0] * raw[0];
      for (int v = 1; v < nv; ++v) {
        dot = MADD(raw[v], sign[v], dot);
        sq = MADD(raw[v], raw[v], sq);
      }
      store(lanes + 2 * r * VL, load(lanes + 2 * r * VL) + dot);
      store(lanes + (2 * r + 1) * VL, load(lanes + (2 * r + 1) * VL) + sq);
    }
    for (int v = 0; v < nv; ++v)
      store(out + v * VL, value(raw[v], f, b[v], residual + v * VL, scale, has_bias, has_residual, bound));
#if RDT_INJECT
    if (to->hit && r == to->hit_row) rdt_kernel_hit_apply(s->hit, to->hit, RDT_F32);
#endif
    for (int v = 0; check && v < nv; ++v) {
      AGAIN(raw[v]);
      const V bias = has_bias ? load(to->bias + v * VL) : b[v];
      const V again = value(raw[v], f, bias, residual + v * VL, scale, has_bias, has_residual, bound);
      differ |= apart(again, load(out + v * VL));
    }
  }
  int32_t any = 0;
  for (int i = 0; check && i < VL; ++i) any |= differ[i];
  return any == 0;
}

typedef bool finish_fn(const rdt_native_strip *s, V (*tile)[NV], const place *to, int nv, float *lanes, const float *w);

/* One function for each way a tile can end; both widths of a panel in each. */
#define FINISH(name, check, scale, bias, residual, bound)                                                            \
  static bool name(const rdt_native_strip *s, V(*tile)[NV], const place *to, int nv, float *lanes, const float *w) { \
    if (nv == NV) return finish(s, tile, to, NV, lanes, w, check, scale, bias, residual, bound);                     \
    return finish(s, tile, to, 1, lanes, w, check, scale, bias, residual, bound);                                    \
  }
#define FINISH_BOUNDS(name, ...)                   \
  FINISH(name##_none, __VA_ARGS__, RDT_BOUND_NONE) \
  FINISH(name##_relu, __VA_ARGS__, RDT_BOUND_RELU) \
  FINISH(name##_clip, __VA_ARGS__, RDT_BOUND_CLIP)
#define FINISH_OPERANDS(name, ...)                     \
  FINISH_BOUNDS(name, __VA_ARGS__, false, false)       \
  FINISH_BOUNDS(name##_bias, __VA_ARGS__, true, false) \
  FINISH_BOUNDS(name##_add, __VA_ARGS__, false, true)  \
  FINISH_BOUNDS(name##_both, __VA_ARGS__, true, true)
FINISH_OPERANDS(plain, false, false)
FINISH_OPERANDS(plain_scaled, false, true)
FINISH_OPERANDS(checked, true, false)
FINISH_OPERANDS(checked_scaled, true, true)

#define BOUNDS(name) \
  { name##_none, name##_relu, name##_clip }
#define OPERANDS(name) \
  { BOUNDS(name), BOUNDS(name##_bias), BOUNDS(name##_add), BOUNDS(name##_both) }
static finish_fn *const finishes[2][2][4][3] = {{OPERANDS(plain), OPERANDS(plain_scaled)},
                                                {OPERANDS(checked), OPERANDS(checked_scaled)}};

static finish_fn *finish_of(const rdt_native_strip *s) {
  const rdt_native_finish *f = &s->finish;
  return finishes[s->w != NULL][f->alpha != 1.0f || (f->residual && f->beta != 1.0f)]
                 [(f->bias != NULL) + 2 * (f->residual != NULL)][f->bound];
}

/* A tile that reaches beyond the last column is finished in a buffer; what is there of it is copied, and compared. */
static bool finish_edge(const rdt_native_strip *s, finish_fn *fn, V (*tile)[NV], const place *to, int64_t cols, int nv,
                        float *lanes, const float *w) {
  float out[MR * NR], residual[MR * NR] = {0};
  const int rows = to->rows;
  place edge = {.out = out, .ld = NR, .rows = rows, .residual = residual, .residual_ld = NR, .bias = to->bias};
  const size_t bytes = (size_t)cols * sizeof(float);
  for (int r = 0; to->residual && r < rows; ++r) memcpy(residual + r * NR, to->residual + r * to->residual_ld, bytes);
  bool good = fn(s, tile, &edge, nv, lanes, w);
  for (int r = 0; r < rows; ++r) memcpy(to->out + r * to->ld, out + r * NR, bytes);
#if RDT_INJECT
  if (to->hit) rdt_kernel_hit_apply(s->hit, to->hit, RDT_F32);
#endif
  if (!s->w) return true;
  __asm__ volatile("" : : : "memory");
  for (int r = 0; r < rows; ++r) good = good && memcmp(to->out + r * to->ld, out + r * NR, bytes) == 0;
  return good;
}

/* ---- strips ---- */

/* Two thirds of a tile still keep the multipliers busy, one third does not: the last rows share what is left. */
enum { THIRD = (MR + 2) / 3, THIRDS = (2 * MR + 2) / 3 };

INLINE int64_t tile_rows(int64_t left) {
  return left > MR + THIRD ? MR : left > MR ? THIRDS : left;
}

#if RDT_INJECT
static void multiply_tile(const rdt_native_strip *s, int64_t row, int64_t panel, const float *b, int nv, int rows,
                          V (*tile)[NV]) {
  const int64_t k = s->segments * s->length, r = s->hit_row - row, c = s->hit_col - panel * NR;
  const bool here = s->hit && !s->hit_stored && r >= 0 && r < rows && c >= 0 && c < NR;
  const int64_t until = here ? s->hit_k : 0;
  multiply(s, row, b, 0, until, MR, NV, true, tile);
  if (here) rdt_kernel_hit_apply(s->hit, (char *)&tile[r][0] + c * (int64_t)sizeof(float), RDT_F32);
  multiply(s, row, b, until, k, MR, NV, false, tile);
  (void)nv;
}
#else
static void multiply_tile(const rdt_native_strip *s, int64_t row, int64_t panel, const float *b, int nv, int rows,
                          V (*tile)[NV]) {
  const int64_t k = s->segments * s->length;
  (void)panel;
  if (nv < NV)
    multiply(s, row, b, 0, k, MR, 1, true, tile);
  else if (rows > THIRDS)
    multiply(s, row, b, 0, k, MR, NV, true, tile);
  else if (rows > THIRD)
    multiply(s, row, b, 0, k, THIRDS, NV, true, tile);
  else
    multiply(s, row, b, 0, k, THIRD, NV, true, tile);
}
#endif

/* The lanes' sums, to double before their roundings add up. */
static void flush(const rdt_native_strip *s) {
  int64_t i = 0;
  for (; i + 4 <= s->count; i += 4) {
    V dot[4], sq[4];
    for (int r = 0; r < 4; ++r) {
      dot[r] = load(s->lanes + 2 * (i + r) * VL);
      sq[r] = load(s->lanes + (2 * (i + r) + 1) * VL);
    }
    add_totals(s->observed.dot + i, dot);
    add_totals(s->observed.sq + i, sq);
  }
  for (; i < s->count; ++i) {
    s->observed.dot[i] += total(load(s->lanes + 2 * i * VL));
    s->observed.sq[i] += total(load(s->lanes + (2 * i + 1) * VL));
  }
  memset(s->lanes, 0, (size_t)(s->padded * 2 * VL) * sizeof(float));
}

/* The result and the residual are touched once, a line a row: they come while the tile is multiplied. */
INLINE void fetch(const place *to) {
  for (int r = 0; r < to->rows; ++r) __builtin_prefetch(to->out + r * to->ld, 1);
  for (int r = 0; to->residual && r < to->rows; ++r) __builtin_prefetch(to->residual + r * to->residual_ld);
}

/* A share of the next panel: weights come from memory, and all rows of the strip meet each panel before the next. */
INLINE void fetch_panel(const float *panel, int64_t floats, int64_t row, int64_t rows, int64_t count) {
  enum { LINE = 16 };
  const int64_t from = floats * row / count / LINE * LINE, to = floats * (row + rows) / count;
  for (int64_t i = from; i < to; i += LINE) __builtin_prefetch(panel + i, 0, 2);
}

static void strip(rdt_native_strip *s) {
  const int64_t k = s->segments * s->length;
  finish_fn *const fn = finish_of(s);
  bool good = true;
  if (s->w) memset(s->lanes, 0, (size_t)(s->padded * 2 * VL) * sizeof(float));
  for (int64_t j = s->from; j < s->to; ++j) {
    const float *b = s->panels + j * k * NR;
    const int64_t col = j * NR, cols = s->n - col < NR ? s->n - col : NR;
    const int nv = (int)((cols + VL - 1) / VL);
    const float *w = s->w ? s->w + col : NULL;
    for (int64_t i = 0, rows; i < s->count; i += rows) {
      V tile[MR][NV];
      rows = tile_rows(s->count - i);
      const rdt_native_finish *f = &s->finish;
      place to = {.out = s->out + i * s->ld + col,
                  .ld = s->ld,
                  .rows = (int)rows,
                  .residual = f->residual ? f->residual + i * f->residual_ld + col : NULL,
                  .residual_ld = f->residual_ld,
                  .bias = f->bias ? f->bias + col : NULL};
      float *lanes = s->lanes + 2 * i * VL;
#if RDT_INJECT
      const int64_t r = s->hit_row - i, c = s->hit_col - col;
      if (s->hit && s->hit_stored && r >= 0 && r < rows && c >= 0 && c < cols) {
        to.hit = to.out + r * s->ld + c;
        to.hit_row = (int)r;
      }
#endif
      fetch(&to);
      if (j + 1 < s->to) fetch_panel(b + k * NR, k * NR, i, rows, s->count);
      multiply_tile(s, i, j, b, nv, (int)rows, tile);
      good &= cols == nv * VL ? fn(s, tile, &to, nv, lanes, w) : finish_edge(s, fn, tile, &to, cols, nv, lanes, w);
    }
    if (s->w && ((j - s->from) % 16 == 15 || j + 1 == s->to)) flush(s);
  }
  if (!good) s->differ = true;
}

/* ---- the expected side ---- */

enum { ROWS = 4, CHUNK = 16 * VL }; /* rows at a time; elements of each before its lanes go to double */

typedef struct dot_sums {
  V dot[ROWS], sq[ROWS];
  double dots[ROWS], sqs[ROWS];
} dot_sums;

INLINE void dot_flush(dot_sums *d) {
  add_totals(d->dots, d->dot);
  add_totals(d->sqs, d->sq);
  for (int r = 0; r < ROWS; ++r) d->dot[r] = d->sq[r] = (V){0};
}

INLINE void dot_run(dot_sums *d, const float *const *a, int64_t from, const float *beta, const float *rho, int64_t n) {
  V dot[ROWS], sq[ROWS];
  int64_t t = 0;
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) dot[r] = d->dot[r], sq[r] = d->sq[r];
#pragma GCC unroll 1
  for (; t + VL <= n; t += VL) {
    const V b = load(beta + t), q = load(rho + t);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      const V x = load(a[r] + from + t);
      dot[r] = MADD(x, b, dot[r]);
      sq[r] = MADD(x * x, q, sq[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) d->dot[r] = dot[r], d->sq[r] = sq[r];
  for (; t < n; ++t)
    for (int r = 0; r < ROWS; ++r) {
      const double x = (double)a[r][from + t];
      d->dots[r] += x * (double)beta[t];
      d->sqs[r] += x * x * (double)rho[t];
    }
}

static void dots(const float *const *rows, int64_t count, int64_t padded, int64_t segments, int64_t length,
                 const float *beta, const float *rho, const rdt_pair *to) {
  for (int64_t i = 0; i < count; i += ROWS) {
    dot_sums d = {0};
    int64_t pending = 0;
    for (int64_t g = 0; g < segments; ++g) {
      const float *a[ROWS]; /* behind the last row: that one again */
      for (int r = 0; r < ROWS; ++r) a[r] = rows[g * padded + (i + r < count ? i + r : count - 1)];
      for (int64_t t = 0, n; t < length; t += n) {
        n = length - t < CHUNK - pending ? length - t : CHUNK - pending;
        dot_run(&d, a, t, beta + g * length + t, rho + g * length + t, n);
        pending += n / VL * VL;
        if (pending < CHUNK) continue;
        dot_flush(&d);
        pending = 0;
      }
    }
    dot_flush(&d);
    for (int r = 0; r < ROWS && i + r < count; ++r) {
      to->dot[i + r] = d.dots[r];
      to->sq[i + r] = d.sqs[r];
    }
  }
}

static void down(const float *x, int64_t ld, int64_t count, int64_t length, const float *w, const rdt_pair *to) {
  enum { CHAIN = 16 };
  memset(to->dot, 0, (size_t)length * sizeof(double));
  memset(to->sq, 0, (size_t)length * sizeof(double));
  for (int64_t i = 0; i < count; i += CHAIN) {
    const int64_t end = i + CHAIN < count ? i + CHAIN : count;
    int64_t t = 0;
    for (; t + VL <= length; t += VL) {
      V dot = {0}, sq = {0};
      for (int64_t r = i; r < end; ++r) {
        const V v = load(x + r * ld + t);
        dot = MADD(v, spread(w[r]), dot);
        sq = MADD(v, v, sq);
      }
      for (int l = 0; l < VL; ++l) {
        to->dot[t + l] += (double)dot[l];
        to->sq[t + l] += (double)sq[l];
      }
    }
    for (; t < length; ++t)
      for (int64_t r = i; r < end; ++r) {
        const double v = (double)x[r * ld + t];
        to->dot[t] += (double)w[r] * v;
        to->sq[t] += v * v;
      }
  }
}

const rdt_native_table NATIVE_TABLE = {.rows = MR, .cols = NR, .lanes = VL, .strip = strip, .dots = dots, .down = down};
