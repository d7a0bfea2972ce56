/* One element type: CONV_ELEM (suffix), CONV_T (element), CONV_A (sum), CONV_LANES (sums in a vector), CONV_MAG
 * (whether magnitudes exist). Undefines them at the end. Register blocking: the independent chains of a block (taps x
 * vectors, pixels x vectors) should cover the latency of the FMA (4 cycles x 2 pipes) and leave room in 16 registers.
 */
#define FN(name) CONV_JOIN(name##_, CONV_ELEM)
#define L CONV_LANES
typedef CONV_A FN(vec) __attribute__((vector_size(CONV_LANES * sizeof(CONV_A))));
typedef CONV_A FN(vec_mem)
    __attribute__((vector_size(CONV_LANES * sizeof(CONV_A)), aligned(sizeof(CONV_A)), may_alias));
typedef CONV_T FN(in_mem) __attribute__((vector_size(CONV_LANES * sizeof(CONV_T)), aligned(sizeof(CONV_T)), may_alias));
#define V FN(vec)

CONV_INLINE V FN(load)(const CONV_T *p) {
#if defined(CONV_WIDEN)
  return CONV_WIDEN(p);
#else
  return __builtin_convertvector(*(const FN(in_mem) *)p, V);
#endif
}

CONV_INLINE V FN(load_sum)(const CONV_A *p) {
  return *(const FN(vec_mem) *)p;
}

CONV_INLINE void FN(store_sum)(CONV_A *p, V v) {
  *(FN(vec_mem) *)p = v;
}

CONV_INLINE CONV_A FN(total)(V v) {
  CONV_A s = v[0];
  for (int i = 1; i < L; i++) s += v[i];
  return s;
}

#if CONV_MAG
typedef int64_t FN(bits) __attribute__((vector_size(CONV_LANES * sizeof(CONV_A))));
CONV_INLINE V FN(abs)(V v) {
  return (V)((FN(bits))v & INT64_MAX);
}
CONV_INLINE CONV_A FN(abs1)(CONV_A v) {
  return __builtin_fabs(v);
}
#else
CONV_INLINE V FN(abs)(V v) {
  return v;
}
CONV_INLINE CONV_A FN(abs1)(CONV_A v) {
  return v;
}
#endif

/* Sums down the row are kept in the element's own type for a chunk of pixels, then added to out and mag. An over- or
 * underflow of a square costs tightness at worst (the schemes allow for it). */
typedef CONV_T FN(unit) __attribute__((vector_size(CONV_BYTES)));
typedef CONV_T FN(unit_mem) __attribute__((vector_size(CONV_BYTES), aligned(sizeof(CONV_T)), may_alias));
#define UNIT ((int)(CONV_BYTES / sizeof(CONV_T)))

#if CONV_MAG
typedef CONV_BITS FN(unit_bits) __attribute__((vector_size(CONV_BYTES)));
CONV_INLINE FN(unit) FN(unit_abs)(FN(unit) v) {
  return (FN(unit))((FN(unit_bits))v & ~((CONV_BITS)1 << (8 * sizeof(CONV_T) - 1)));
}
#else
CONV_INLINE FN(unit) FN(unit_abs)(FN(unit) v) {
  return v;
}
#endif

CONV_INLINE void FN(add_unit)(CONV_A *sums, FN(unit) u) {
  CONV_T lane[UNIT];
  memcpy(lane, &u, sizeof u);
#pragma GCC unroll 4
  for (int i = 0; i < UNIT; i += L) FN(store_sum)(sums + i, FN(load_sum)(sums + i) + FN(load)(lane + i));
}

/* One chunk; taps and units are known at compile time. taps * units sums, as many of squares where asked for, the
 * coefficients and an element must fit into 16 registers: a spilled sum costs more than a second load of the row. */
CONV_INLINE void FN(taps_block)(const CONV_T *x, int64_t ps, int64_t pixels, const CONV_T *coef, int ld, const int taps,
                                const int units, CONV_A *out, int64_t channels, CONV_A *squares, const int square) {
  FN(unit) acc[4][4], q[4];
  for (int u = 0; u < units; u++) {
    for (int s = 0; s < taps; s++) acc[s][u] = (FN(unit)){0};
    q[u] = (FN(unit)){0};
  }
#pragma GCC unroll 2
  for (int64_t i = 0; i < pixels; i++, x += ps, coef += ld) {
#pragma GCC unroll 4
    for (int u = 0; u < units; u++) {
      const FN(unit) e = *(const FN(unit_mem) *)(x + u * UNIT);
#pragma GCC unroll 4
      for (int s = 0; s < taps; s++) acc[s][u] += e * coef[s];
      if (square) q[u] += e * e;
    }
  }
  for (int u = 0; u < units; u++) {
    for (int s = 0; s < taps; s++) FN(add_unit)(out + s * channels + u * UNIT, acc[s][u]);
    if (square) FN(add_unit)(squares + u * UNIT, q[u]);
  }
}

CONV_INLINE void FN(mag_block)(const CONV_T *x, int64_t ps, int64_t pixels, const int units, CONV_A *abs,
                               CONV_A *squares) {
  FN(unit) a[4], q[4];
  for (int u = 0; u < units; u++) a[u] = q[u] = (FN(unit)){0};
#pragma GCC unroll 2
  for (int64_t i = 0; i < pixels; i++, x += ps) {
#pragma GCC unroll 4
    for (int u = 0; u < units; u++) {
      const FN(unit) e = *(const FN(unit_mem) *)(x + u * UNIT);
      a[u] += FN(unit_abs)(e);
      q[u] += e * e;
    }
  }
  for (int u = 0; u < units; u++) {
    FN(add_unit)(abs + u * UNIT, a[u]);
    FN(add_unit)(squares + u * UNIT, q[u]);
  }
}

/* Channels that fill no vector. */
CONV_INLINE void FN(columns_tail)(const CONV_T *x, int64_t ps, int64_t first, int64_t channels, int64_t pixels,
                                  const CONV_T *coef, int ld, int taps, CONV_A *out, CONV_A *abs, CONV_A *squares) {
  for (int64_t i = 0; i < pixels; i++, x += ps, coef += ld)
    for (int64_t c = first; c < channels; c++) {
      const CONV_A e = (CONV_A)x[c];
      for (int s = 0; s < taps; s++) out[s * channels + c] += (CONV_A)coef[s] * e;
      if (abs) abs[c] += FN(abs1)(e);
      if (squares) squares[c] += e * e;
    }
}

/* A chunk of pixels, at most 4 taps; abs, squares NULL: none. */
CONV_INLINE void FN(columns_chunk)(const CONV_T *x, int64_t ps, int64_t channels, int64_t pixels, const CONV_T *coef,
                                   int ld, const int taps, CONV_A *out, CONV_A *abs, CONV_A *squares) {
  const int most = taps <= 2 ? 4 : taps == 3 ? 3 : 2;
  const bool together = taps == 1 && squares && !abs;
  int64_t c = 0;
#define BLOCKS(units)                                                                              \
  for (; c + (units)*UNIT <= channels; c += (units)*UNIT) {                                        \
    if (together) {                                                                                \
      FN(taps_block)(x + c, ps, pixels, coef, ld, taps, units, out + c, channels, squares + c, 1); \
      continue;                                                                                    \
    }                                                                                              \
    FN(taps_block)(x + c, ps, pixels, coef, ld, taps, units, out + c, channels, NULL, 0);          \
    if (abs) FN(mag_block)(x + c, ps, pixels, units, abs + c, squares + c);                        \
  }
  BLOCKS(most)
  BLOCKS(2)
  BLOCKS(1)
#undef BLOCKS
  FN(columns_tail)(x, ps, c, channels, pixels, coef, ld, taps, out, abs, squares);
}

static void FN(columns)(const void *data, int64_t ps, int64_t channels, int64_t pixels, const void *coef, int taps,
                        void *out, double *abs, double *squares) {
  const CONV_T *x = data;
  memset(out, 0, (size_t)(taps * channels) * sizeof(CONV_A));
  for (int64_t i = 0; i < pixels; i += RDT_CONV_CHUNK, x += RDT_CONV_CHUNK * ps) {
    const int64_t count = pixels - i < RDT_CONV_CHUNK ? pixels - i : RDT_CONV_CHUNK;
    const CONV_T *w = (const CONV_T *)coef + i * taps;
    CONV_A *o = out, *a = CONV_MAG ? (void *)abs : NULL, *q = CONV_MAG ? (void *)squares : NULL;
    for (int s = 0; s < taps; s += 4, w += 4, o += 4 * channels, a = q = NULL) {
#define CALL(n) FN(columns_chunk)(x, ps, channels, count, w, taps, n, o, a, q)
      switch (taps - s) {
        case 1:
          CALL(1);
          break;
        case 2:
          CALL(2);
          break;
        case 3:
          CALL(3);
          break;
        default:
          CALL(4);
          break;
      }
#undef CALL
    }
  }
}
/* np pixels x nv vectors, both known at compile time. */
CONV_INLINE void FN(dots_block)(const CONV_T *x, int64_t ps, int64_t channels, const CONV_A *const *w, const int np,
                                const int nv, CONV_A *out, int ld) {
  V acc[8][4];
  for (int i = 0; i < np; i++)
    for (int v = 0; v < nv; v++) acc[i][v] = (V){0};
  int64_t c = 0;
  for (; c + L <= channels; c += L) {
    V b[4];
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) b[v] = FN(load_sum)(w[v] + c);
#pragma GCC unroll 8
    for (int i = 0; i < np; i++) {
      const V e = FN(load)(x + i * ps + c);
#pragma GCC unroll 4
      for (int v = 0; v < nv; v++) acc[i][v] += e * b[v];
    }
  }
  for (int i = 0; i < np; i++)
    for (int v = 0; v < nv; v++) {
      CONV_A s = FN(total)(acc[i][v]);
      for (int64_t t = c; t < channels; t++) s += (CONV_A)x[i * ps + t] * w[v][t];
      out[i * ld + v] = s;
    }
}

CONV_INLINE void FN(dots_vectors)(const CONV_T *x, int64_t ps, int64_t channels, int64_t pixels, const CONV_A *const *w,
                                  const int np, const int nv, CONV_A *out, int ld) {
  int64_t i = 0;
  for (; i + np <= pixels; i += np) FN(dots_block)(x + i * ps, ps, channels, w, np, nv, out + i * ld, ld);
  for (; i < pixels; i++) FN(dots_block)(x + i * ps, ps, channels, w, 1, nv, out + i * ld, ld);
}

static void FN(dots)(const void *x, int64_t ps, int64_t channels, int64_t pixels, const void *const *w, int vectors,
                     void *out) {
  CONV_A *o = out;
  for (int v = 0; v < vectors; v += 4) {
    const CONV_A *b[4] = {NULL};
    for (int j = 0; j < 4 && v + j < vectors; j++) b[j] = w[v + j];
    switch (vectors - v) {
      case 1:
        FN(dots_vectors)(x, ps, channels, pixels, b, 8, 1, o + v, vectors);
        break;
      case 2:
        FN(dots_vectors)(x, ps, channels, pixels, b, 4, 2, o + v, vectors);
        break;
      case 3:
        FN(dots_vectors)(x, ps, channels, pixels, b, 3, 3, o + v, vectors);
        break;
      default:
        FN(dots_vectors)(x, ps, channels, pixels, b, 2, 4, o + v, vectors);
        break;
    }
  }
}

static void FN(add)(void *dst, const void *src, int sign, int64_t count) {
  CONV_A *d = dst;
  const CONV_A *s = src, f = (CONV_A)sign;
  int64_t i = 0;
  for (; i + L <= count; i += L) FN(store_sum)(d + i, FN(load_sum)(d + i) + FN(load_sum)(s + i) * f);
  for (; i < count; i++) d[i] += s[i] * f;
}

#if CONV_MAG
typedef CONV_T FN(half) __attribute__((vector_size(CONV_BYTES / 2)));

CONV_INLINE double FN(unit_total)(FN(unit) v) {
  FN(half) h[2];
  memcpy(h, &v, sizeof v);
  h[0] += h[1];
  CONV_T s = h[0][0];
  for (int i = 1; i < UNIT / 2; i++) s += h[0][i];
  return (double)s;
}

/* Adds a chunk of one pixel's channels; weighted: by g, q, b; else the plain sums of |x| and x^2. */
CONV_INLINE void FN(mags_chunk)(const CONV_T *x, int64_t channels, const CONV_T *g, const CONV_T *q, const CONV_T *b,
                                const bool weighted, double *mag) {
  enum { UNITS = 2, ROWS = 3 };
  FN(unit) s[UNITS][ROWS] = {{{0}}};
  int64_t c = 0;
  for (; c + UNITS * UNIT <= channels; c += UNITS * UNIT)
#pragma GCC unroll 2
    for (int u = 0; u < UNITS; u++) {
      const int64_t at = c + u * UNIT;
      const FN(unit) e = *(const FN(unit_mem) *)(x + at), e2 = e * e;
      if (!weighted) {
        s[u][0] += FN(unit_abs)(e);
        s[u][1] += e2;
        continue;
      }
      s[u][0] += FN(unit_abs)(e) * *(const FN(unit_mem) *)(g + at);
      s[u][1] += e2 * *(const FN(unit_mem) *)(q + at);
      s[u][2] += e2 * *(const FN(unit_mem) *)(b + at);
    }
  for (int j = 0; j < (weighted ? ROWS : 2); j++) mag[j] += FN(unit_total)(s[0][j] + s[1][j]);
  for (; c < channels; c++) {
    const double e = FN(abs1)((double)x[c]);
    mag[0] += weighted ? e * (double)g[c] : e;
    mag[1] += weighted ? e * e * (double)q[c] : e * e;
    if (weighted) mag[2] += e * e * (double)b[c];
  }
}

CONV_INLINE void FN(mags_pixel)(const CONV_T *x, int64_t channels, const CONV_T *g, const CONV_T *q, const CONV_T *b,
                                const bool weighted, double *mag) {
  mag[0] = mag[1] = mag[2] = 0.0;
  for (int64_t c = 0; c < channels; c += RDT_CONV_MAGS) {
    const int64_t count = channels - c < RDT_CONV_MAGS ? channels - c : RDT_CONV_MAGS;
    FN(mags_chunk)(x + c, count, g + c, q + c, b + c, weighted, mag);
  }
  if (mag[0] + mag[1] + mag[2] <= DBL_MAX || sizeof(CONV_T) == sizeof(double)) return;
  mag[0] = mag[1] = mag[2] = 0.0; /* a square that overflowed, or no number: once more in double */
  for (int64_t c = 0; c < channels; c++) FN(mags_chunk)(x + c, 1, g + c, q + c, b + c, weighted, mag);
}

static void FN(mags)(const void *data, int64_t ps, int64_t channels, int64_t pixels, const void *g, const void *q,
                     const void *b, double *mag) {
  const CONV_T *x = data;
  if (g)
    for (int64_t i = 0; i < pixels; i++) FN(mags_pixel)(x + i * ps, channels, g, q, b, true, mag + 3 * i);
  else
    for (int64_t i = 0; i < pixels; i++) FN(mags_pixel)(x + i * ps, channels, x, x, x, false, mag + 3 * i);
}
#endif
#undef UNIT

#undef FN
#undef L
#undef V
#undef CONV_ELEM
#undef CONV_T
#undef CONV_A
#undef CONV_LANES
#undef CONV_MAG
#undef CONV_BITS
