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
  return __builtin_convertvector(*(const FN(in_mem) *)p, V);
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

/* nv vectors of channels, taps <= 4, both known at compile time. */
CONV_INLINE void FN(columns_block)(const CONV_T *x, int64_t ps, const int32_t *at, int64_t pixels, const CONV_A *coef,
                                   int ld, const int taps, const int nv, CONV_A *out, int64_t channels, CONV_A *mag,
                                   const int with_mag) {
  V acc[4][4], a[4], q[4];
  for (int v = 0; v < nv; v++) {
    for (int s = 0; s < taps; s++) acc[s][v] = (V){0};
    a[v] = q[v] = (V){0};
  }
  for (int64_t i = 0; i < pixels; i++) {
    const CONV_T *px = x + at[i] * ps;
    const CONV_A *w = coef + i * ld;
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) {
      const V e = FN(load)(px + v * L);
#pragma GCC unroll 4
      for (int s = 0; s < taps; s++) acc[s][v] += e * w[s];
      if (with_mag) {
        a[v] += FN(abs)(e);
        q[v] += e * e;
      }
    }
  }
  for (int v = 0; v < nv; v++) {
    for (int s = 0; s < taps; s++) FN(store_sum)(out + s * channels + v * L, acc[s][v]);
    if (with_mag) {
      FN(store_sum)(mag + v * L, FN(load_sum)(mag + v * L) + a[v]);
      FN(store_sum)(mag + channels + v * L, FN(load_sum)(mag + channels + v * L) + q[v]);
    }
  }
}

CONV_INLINE void FN(columns_taps)(const CONV_T *x, int64_t ps, int64_t channels, const int32_t *at, int64_t pixels,
                                  const CONV_A *coef, int ld, const int taps, CONV_A *out, CONV_A *mag,
                                  const int with_mag) {
  const int nv = taps == 1 ? 4 : 2;
  int64_t c = 0;
#define AT x + c, ps, at, pixels, coef, ld, taps
  for (; c + nv * L <= channels; c += nv * L)
    FN(columns_block)(AT, nv, out + c, channels, with_mag ? mag + c : mag, with_mag);
  for (; c + L <= channels; c += L) FN(columns_block)(AT, 1, out + c, channels, with_mag ? mag + c : mag, with_mag);
#undef AT
  for (; c < channels; c++) {
    for (int s = 0; s < taps; s++) {
      CONV_A sum = 0;
      for (int64_t i = 0; i < pixels; i++) sum += coef[i * ld + s] * (CONV_A)x[at[i] * ps + c];
      out[s * channels + c] = sum;
    }
    if (!with_mag) continue;
    for (int64_t i = 0; i < pixels; i++) {
      const CONV_A e = (CONV_A)x[at[i] * ps + c];
      mag[c] += FN(abs1)(e);
      mag[channels + c] += e * e;
    }
  }
}

static void FN(columns)(const void *x, int64_t ps, int64_t channels, const int32_t *at, int64_t pixels,
                        const void *coef, int taps, void *out, double *mag) {
  const CONV_A *w = coef;
  CONV_A *o = out;
#if CONV_MAG
  CONV_A *m = mag;
#else
  CONV_A *m = NULL;
  (void)mag;
#endif
  for (int s = 0; s < taps; s += 4, w += 4, o += 4 * channels, m = NULL) {
#define CALL(n)                                                                  \
  (m ? FN(columns_taps)(x, ps, channels, at, pixels, w, taps, n, o, m, CONV_MAG) \
     : FN(columns_taps)(x, ps, channels, at, pixels, w, taps, n, o, m, 0))
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
static void FN(mags)(const void *data, int64_t ps, int64_t channels, int64_t pixels, const double *g, const double *q,
                     const double *b, double *mag) {
  const double *third = b ? b : q;
  for (int64_t i = 0; i < pixels; i++, mag += 3) {
    const CONV_T *x = (const CONV_T *)data + i * ps;
    V s[2][3] = {{{0}}};
    int64_t c = 0;
    for (; c + 2 * L <= channels; c += 2 * L)
#pragma GCC unroll 2
      for (int v = 0; v < 2; v++) {
        const V e = FN(load)(x + c + v * L), e2 = e * e;
        s[v][0] += FN(abs)(e) * FN(load_sum)(g + c + v * L);
        s[v][1] += e2 * FN(load_sum)(q + c + v * L);
        s[v][2] += e2 * FN(load_sum)(third + c + v * L);
      }
    for (int j = 0; j < 3; j++) mag[j] = FN(total)(s[0][j] + s[1][j]);
    for (; c < channels; c++) {
      const double e = (double)x[c];
      mag[0] += FN(abs1)(e) * g[c];
      mag[1] += e * e * q[c];
      mag[2] += e * e * third[c];
    }
    if (!b) mag[2] = 0.0;
  }
}
#endif

#undef FN
#undef L
#undef V
#undef CONV_ELEM
#undef CONV_T
#undef CONV_A
#undef CONV_LANES
#undef CONV_MAG
