/* Sums of the own products' operands: of rows as they lie, and of lanes. */
#if RDT_REAL == 64 && defined(__FMA__)
INLINE __m256d half_of(V x) { /* as many lanes as AVX2 has */
#if defined(__AVX512F__)
  return (__m256d)_mm512_castps512_ps256((__m512)x) + (__m256d)_mm512_extractf32x8_ps((__m512)x, 1);
#else
  return (__m256d)x;
#endif
}
#elif defined(__FMA__)
INLINE __m256 half_of(V x) {
#if defined(__AVX512F__)
  return _mm256_add_ps(_mm512_castps512_ps256((__m512)x), _mm512_extractf32x8_ps((__m512)x, 1));
#else
  return (__m256)x;
#endif
}
#endif

/* The sums of the lanes of four vectors, added to four sums. A tree: at most four roundings. */
INLINE void add_totals(double *to, const V *x) {
#if RDT_REAL == 64 && defined(__FMA__)
  const __m256d a = _mm256_hadd_pd(half_of(x[0]), half_of(x[1])), b = _mm256_hadd_pd(half_of(x[2]), half_of(x[3]));
  const __m256d four = _mm256_permute2f128_pd(a, b, 0x20) + _mm256_permute2f128_pd(a, b, 0x31);
  _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), four));
#elif defined(__FMA__)
  const __m256 a = _mm256_hadd_ps(half_of(x[0]), half_of(x[1])), b = _mm256_hadd_ps(half_of(x[2]), half_of(x[3]));
  const __m256 all = _mm256_hadd_ps(a, b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), _mm256_cvtps_pd(four)));
#elif RDT_REAL == 64
  for (int i = 0; i < 4; ++i) to[i] += x[i][0] + x[i][1];
#else
  for (int i = 0; i < 4; ++i) to[i] += (double)((x[i][0] + x[i][2]) + (x[i][1] + x[i][3]));
#endif
}

/* Lanes, added to so many doubles. */
INLINE void add_wide(double *to, V x) {
#if RDT_REAL == 64
  for (int l = 0; l < VL; ++l) to[l] += x[l];
#else
  typedef float half __attribute__((vector_size(BYTES / 2)));
  typedef double wide __attribute__((vector_size(BYTES)));
  typedef double loose __attribute__((vector_size(BYTES), aligned(8), may_alias));
  half part[2];
  memcpy(part, &x, sizeof x);
  for (int i = 0; i < 2; ++i) {
    loose *at = (loose *)(to + i * VL / 2);
    *at = *at + (loose) __builtin_convertvector(part[i], wide);
  }
#endif
}

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

INLINE void dot_run(dot_sums *d, const void *const *a, int64_t from, const rdt_real *beta, const rdt_real *rho,
                    int64_t n, const rdt_dtype dtype) {
  V dot[ROWS], sq[ROWS];
  int64_t t = 0;
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) dot[r] = d->dot[r], sq[r] = d->sq[r];
#pragma GCC unroll 1
  for (; t + VL <= n; t += VL) {
    const V b = load(beta + t), q = load(rho + t);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      const V x = load_as(a[r], from + t, dtype);
      dot[r] = MADD(x, b, dot[r]);
      sq[r] = MADD(x * x, q, sq[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) d->dot[r] = dot[r], d->sq[r] = sq[r];
  for (; t < n; ++t)
    for (int r = 0; r < ROWS; ++r) {
      const double x = (double)element_as(a[r], from + t, dtype);
      d->dots[r] += x * (double)beta[t];
      d->sqs[r] += x * x * (double)rho[t];
    }
}

INLINE void dots_as(const void *const *rows, int64_t count, int64_t n, const rdt_real *beta, const rdt_real *rho,
                    const rdt_pair *to, const rdt_dtype dtype) {
  for (int64_t i = 0; i < count; i += ROWS) {
    dot_sums d = {0};
    const void *a[ROWS]; /* behind the last row: that one again */
    for (int r = 0; r < ROWS; ++r) a[r] = rows[i + r < count ? i + r : count - 1];
    for (int64_t t = 0; t < n; t += CHUNK) {
      dot_run(&d, a, t, beta + t, rho + t, n - t < CHUNK ? n - t : CHUNK, dtype);
      dot_flush(&d);
    }
    for (int r = 0; r < ROWS && i + r < count; ++r) {
      to->dot[i + r] = d.dots[r];
      to->sq[i + r] = d.sqs[r];
    }
  }
}

static void dots(const void *const *rows, rdt_dtype dtype, int64_t count, int64_t n, const rdt_real *beta,
                 const rdt_real *rho, const rdt_pair *to) {
  BY_SOURCE(dtype, dots_as, rows, count, n, beta, rho, to);
}

INLINE void down_as(const void *x, int64_t ld, int64_t count, int64_t length, const rdt_real *w, const rdt_pair *to,
                    const rdt_dtype dtype) {
  enum { CHAIN = 16 };
  memset(to->dot, 0, (size_t)length * sizeof(double));
  memset(to->sq, 0, (size_t)length * sizeof(double));
  for (int64_t i = 0; i < count; i += CHAIN) {
    const int64_t end = i + CHAIN < count ? i + CHAIN : count;
    int64_t t = 0;
    for (; t + VL <= length; t += VL) {
      V dot = {0}, sq = {0};
      for (int64_t r = i; r < end; ++r) {
        const V v = load_as(x, r * ld + t, dtype);
        dot = MADD(v, spread(w[r]), dot);
        sq = MADD(v, v, sq);
      }
      add_wide(to->dot + t, dot);
      add_wide(to->sq + t, sq);
    }
    for (; t < length; ++t)
      for (int64_t r = i; r < end; ++r) {
        const double v = (double)element_as(x, r * ld + t, dtype);
        to->dot[t] += (double)w[r] * v;
        to->sq[t] += v * v;
      }
  }
}

static void down(const void *x, rdt_dtype dtype, int64_t ld, int64_t count, int64_t length, const rdt_real *w,
                 const rdt_pair *to) {
  BY_SOURCE(dtype, down_as, x, ld, count, length, w, to);
}

/* Two vectors' width at a time: a line of each row is met once. */
INLINE void fall_lines(const void *const *rows, int64_t count, int64_t t, const int nv, const rdt_real *u,
                       const rdt_pair *to, const rdt_dtype dtype) {
  V dot[2] = {{0}}, sq[2] = {{0}};
  for (int64_t r = 0; r < count; ++r) {
    const V w = spread(u[r]);
    for (int v = 0; v < nv; ++v) {
      const V x = load_as(rows[r], t + v * VL, dtype);
      dot[v] = MADD(x, w, dot[v]);
      sq[v] = MADD(x, x, sq[v]);
    }
  }
  for (int v = 0; v < nv; ++v) {
    add_wide(to->dot + t + v * VL, dot[v]);
    add_wide(to->sq + t + v * VL, sq[v]);
  }
}

/* Rows that lie beside one another: a span of each, turned. */
INLINE int64_t fall_beside(const rdt_native_rows *rows, const void *const *lines, int64_t count, int64_t from,
                           int64_t to, const rdt_real *u, const rdt_pair *sums, const rdt_dtype dtype) {
  enum { MOST = 16 };
  rdt_real flat[SPAN * MOST] = {0}, turned[MOST * SPAN];
  const void *row[MOST];
  for (int r = 0; r < MOST; ++r) row[r] = turned + r * SPAN;
  int64_t t = from;
  for (; t + SPAN <= to; t += SPAN) {
    const rdt_pair here = {sums->dot + t, sums->sq + t};
    for (int i = 0; i < SPAN; ++i) {
      const void *const x = at(lines[0], (t + i) * rows->step, dtype);
      if (count == MOST)
        widen_as(flat + i * MOST, x, MOST, dtype);
      else
        for (int64_t r = 0; r < count; ++r) flat[i * MOST + r] = element_as(x, r, dtype);
    }
    for (int i = 0; i < SPAN; i += SQUARE)
      for (int r = 0; r < MOST; r += SQUARE)
        turn_square(flat + i * MOST + r, MOST, turned + r * SPAN + i, SPAN, SQUARE);
    for (int v = 0; v < SPAN; v += VL) fall_lines(row, count, v, 1, u, &here, RDT_REAL_DTYPE);
  }
  return t;
}

INLINE void fall_as(const rdt_native_rows *rows, int64_t first, int64_t end, int64_t from, int64_t to,
                    const rdt_real *u, const rdt_pair *sums, const rdt_dtype dtype) {
  enum { CHAIN = 16 };
  for (int64_t i = first; i < end; i += CHAIN) {
    const int64_t count = end - i < CHAIN ? end - i : CHAIN;
    const void *const *lines = rows->at + i;
    const bool dense = rows->step == 1;
    int64_t t = from;
    for (; dense && t + 2 * VL <= to; t += 2 * VL) fall_lines(lines, count, t, 2, u + i, sums, dtype);
    for (; dense && t + VL <= to; t += VL) fall_lines(lines, count, t, 1, u + i, sums, dtype);
    if (!dense && count_beside(lines, count, dtype) == count)
      t = fall_beside(rows, lines, count, t, to, u + i, sums, dtype);
    for (; t < to; ++t)
      for (int64_t r = 0; r < count; ++r) {
        const double v = (double)element_as(lines[r], t * rows->step, dtype);
        sums->dot[t] += (double)u[i + r] * v;
        sums->sq[t] += v * v;
      }
  }
}

static void fall(const rdt_native_rows *rows, int64_t first, int64_t end, int64_t from, int64_t to, const rdt_real *u,
                 const rdt_pair *sums) {
  BY_SOURCE(rows->dtype, fall_as, rows, first, end, from, to, u, sums);
}

typedef double D __attribute__((vector_size(32), aligned(8), may_alias));

static double inner(const double *a, const double *b, int64_t n) {
  D x[4] = {{0}};
  double sum = 0.0;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 4; ++k) x[k] += *(const D *)(a + i + 4 * k) * *(const D *)(b + i + 4 * k);
  for (; i < n; ++i) sum += a[i] * b[i];
  for (int k = 0; k < 4; ++k) sum += (x[k][0] + x[k][1]) + (x[k][2] + x[k][3]);
  return sum;
}
