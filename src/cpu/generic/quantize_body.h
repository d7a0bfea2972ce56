/* Quantising and back over runs of real type T; included by quantize.c with T, REAL (its member of runs), NAME(x) and
 * ROUNDER. */
static void NAME(quantize)(runs *r, int64_t n, rdt_dtype to, bool multiply) {
  const T least = to == RDT_S8 ? -128 : 0, most = to == RDT_S8 ? 127 : 255;
  T *restrict const x = r->real.REAL;
  const T *restrict const s = r->scale.REAL;
  const int32_t *restrict const zero = r->zero;
  int32_t *restrict const y = r->integer;
  if (multiply)
    for (int64_t i = 0; i < n; i++) x[i] = x[i] * s[i];
  else
    for (int64_t i = 0; i < n; i++) x[i] = x[i] / s[i];
  for (int64_t i = 0; i < n; i++) {
    const T z = (T)zero[i], low = least - z, high = most - z;
    const T above = x[i] > low ? x[i] : low; /* NaN too */
    const T within = above < high ? above : high;
    y[i] = (int32_t)((within + ROUNDER) - ROUNDER) + zero[i];
  }
}

/* wide: the difference may need more than 31 bits. */
static void NAME(dequantize)(runs *r, int64_t n, bool wide) {
  T *restrict const y = r->real.REAL;
  const T *restrict const s = r->scale.REAL;
  const int32_t *restrict const x = r->integer, *restrict const zero = r->zero;
  if (wide)
    for (int64_t i = 0; i < n; i++) y[i] = (T)((double)x[i] - (double)zero[i]) * s[i];
  else
    for (int64_t i = 0; i < n; i++) y[i] = (T)(x[i] - zero[i]) * s[i];
}

#undef T
#undef REAL
#undef NAME
#undef ROUNDER
