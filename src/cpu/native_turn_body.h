/* Squares of a matrix turned over: operands whose columns lie side by side in memory, where rows are wanted. */

enum {
  SQUARE = 8,
  SPAN = VL < 8 ? SQUARE : VL,                  /* elements of each row at a time */
  BESIDE = (MR + SQUARE - 1) / SQUARE * SQUARE, /* room for those of a tile's rows at one place of the reduction */
  CHAIN_SPANS = SPAN < 16 ? 16 / SPAN : 1       /* before sums of them go to double */
};

/* Row i of the square at b, whose rows lie ld apart, becomes column i of `to`, whose first `rows` rows are stored. */
INLINE void turn_square(const rdt_real *b, int64_t ld, rdt_real *to, int64_t apart, const int rows) {
#if defined(__FMA__) && RDT_REAL != 64
  __m256 x[SQUARE], y[SQUARE];
  for (int i = 0; i < SQUARE; ++i) x[i] = _mm256_loadu_ps(b + i * ld);
  for (int i = 0; i < SQUARE; i += 2) {
    y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
  for (int i = 0; i < SQUARE; i += 4)
    for (int h = 0; h < 2; ++h) {
      x[i + 2 * h] = _mm256_shuffle_ps(y[i + h], y[i + 2 + h], 0x44);
      x[i + 2 * h + 1] = _mm256_shuffle_ps(y[i + h], y[i + 2 + h], 0xee);
    }
  for (int i = 0; i < SQUARE / 2; ++i) {
    if (i < rows) _mm256_storeu_ps(to + i * apart, _mm256_permute2f128_ps(x[i], x[i + 4], 0x20));
    if (i + 4 < rows) _mm256_storeu_ps(to + (i + 4) * apart, _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
  }
#elif defined(__FMA__)
  for (int r = 0; r < rows; r += 4)
    for (int t = 0; t < SQUARE; t += 4) {
      __m256d x[4], y[4];
      for (int i = 0; i < 4; ++i) x[i] = _mm256_loadu_pd(b + (t + i) * ld + r);
      for (int i = 0; i < 2; ++i) {
        y[i] = _mm256_unpacklo_pd(x[2 * i], x[2 * i + 1]);
        y[2 + i] = _mm256_unpackhi_pd(x[2 * i], x[2 * i + 1]);
      }
      for (int i = 0; i < 2 && r + i < rows; ++i)
        _mm256_storeu_pd(to + (r + i) * apart + t, _mm256_permute2f128_pd(y[2 * i], y[2 * i + 1], 0x20));
      for (int i = 0; i < 2 && r + 2 + i < rows; ++i)
        _mm256_storeu_pd(to + (r + 2 + i) * apart + t, _mm256_permute2f128_pd(y[2 * i], y[2 * i + 1], 0x31));
    }
#else
  for (int t = 0; t < rows; ++t)
    for (int j = 0; j < SQUARE; ++j) to[t * apart + j] = b[j * ld + t];
#endif
}

/* Elements i .. of x, `count` of them and zeros; no more is read. */
INLINE V load_some(const void *x, int64_t i, const int count, const rdt_dtype dtype) {
  if (count >= VL) return load_as(x, i, dtype);
  typedef uint64_t words __attribute__((vector_size(BYTES), may_alias));
  const char *const from = at(x, i, dtype);
  const int bytes = count * (int)element_size(dtype);
  words w = {0};
#pragma GCC unroll 8
  for (int b = 0; b < bytes; b += 8) {
    uint64_t eight = 0;
    memcpy(&eight, from + b, (size_t)(bytes - b < 8 ? bytes - b : 8));
    w[b / 8] = eight;
  }
  return dtype == RDT_REAL_DTYPE ? (V)w : load_as(&w, 0, dtype);
}

/* How many of these rows lie one beside the other; behind the last one lies that one again. 0: they do not. */
INLINE int64_t count_beside(const void *const *p, int64_t count, rdt_dtype dtype) {
  int64_t n = 1;
  while (n < count && p[n] == at(p[0], n, dtype)) ++n;
  for (int64_t r = n; r < count; ++r)
    if (p[r] != p[n - 1]) return 0;
  return n;
}

/* A tile's elements of one place of the reduction, which lie side by side; behind the last row that one again. */
INLINE void load_beside(const void *x, int64_t rows, V *line, const rdt_dtype dtype) {
  if (rows == MR) {
    for (int v = 0; v < BESIDE / VL; ++v) line[v] = load_some(x, v * VL, MR - v * VL, dtype);
    return;
  }
  rdt_real all[BESIDE] = {0};
  for (int64_t r = 0; r < MR; ++r) all[r] = element_as(x, r < rows ? r : rows - 1, dtype);
  for (int v = 0; v < BESIDE / VL; ++v) line[v] = load(all + v * VL);
}
