/* The reduction of a tile: packed rows times a panel. Rows are packed by tiles, [group of VL steps][row][VL]. */

enum { LINE = 64 / sizeof(rdt_real) };

typedef struct ahead { /* what is fetched on the way */
  const char *panel;   /* of what the next panel brings, some bytes at each step */
  int64_t pace;
  const rdt_real *const *rows; /* of what the next block of rows brings, a line at each group: rows[i] + offset ... */
  int64_t offset, lines;
} ahead;

/* One term: a is the first row's, the others' follow VL apart. */
INLINE void step(const rdt_real *a, const rdt_real *b, const int nr, const int nv, V (*acc)[NV]) {
  V y[NV];
#pragma GCC unroll 2
  for (int v = 0; v < nv; ++v) y[v] = *(const V *)(b + v * VL);
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r) {
    const V x = spread(a[r * VL]);
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) acc[r][v] = MADD(x, y[v], acc[r][v]);
  }
}

INLINE void copy_tile(V (*to)[NV], V (*from)[NV], const int nr, const int nv) {
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) to[r][v] = from ? from[r][v] : (V){0};
}

/* out = in + n terms, of nr rows by nv vectors; in = NULL: those terms. */
INLINE void multiply(const rdt_real *a, const rdt_real *b, int64_t n, const ahead *next, const int nr, const int nv,
                     V (*in)[NV], V (*out)[NV]) {
  V acc[MR][NV];
  const char *panel = next->panel;
  const int64_t pace = next->pace;
  int64_t lines = next->lines, line = next->offset, row = 0;
  copy_tile(acc, in, nr, nv);
#pragma GCC unroll 1
  for (; n >= VL; n -= VL, a += MR * VL - VL) {
    if (lines > 0) {
      __builtin_prefetch(next->rows[row] + line, 0, 2);
      --lines;
      if (++row == nr) row = 0, line += LINE;
    }
#pragma GCC unroll 1
    for (const rdt_real *end = a + VL; a < end; ++a, b += NR) {
      __builtin_prefetch(panel, 0, 2);
      panel += pace;
      step(a, b, nr, nv, acc);
    }
  }
#pragma GCC unroll 1
  for (; n > 0; --n, ++a, b += NR) step(a, b, nr, nv, acc);
  copy_tile(out, acc, nr, nv);
}

typedef void multiply_fn(const rdt_real *a, const rdt_real *b, int64_t n, const ahead *next, V (*in)[NV], V (*out)[NV]);

/* Functions of their own: inside others the inner loop's values do not stay in registers. */
#define MULTIPLY(name, nr, nv)                                                                                   \
  static __attribute__((noinline)) void name(const rdt_real *a, const rdt_real *b, int64_t n, const ahead *next, \
                                             V(*in)[NV], V(*out)[NV]) {                                          \
    multiply(a, b, n, next, nr, nv, in, out);                                                                    \
  }

/* Two thirds of a tile still keep the multipliers busy, one third does not: the last rows share what is left. */
enum { THIRD = (MR + 2) / 3, THIRDS = (2 * MR + 2) / 3 };

INLINE int64_t tile_rows(int64_t left) {
  return left > MR + THIRD ? MR : left > MR ? THIRDS : left;
}

MULTIPLY(multiply_full, MR, NV)
MULTIPLY(multiply_thirds, THIRDS, NV)
MULTIPLY(multiply_third, THIRD, NV)
MULTIPLY(multiply_half, MR, 1)

INLINE multiply_fn *multiply_of(int64_t rows, int nv) {
  return nv < NV ? multiply_half : rows > THIRDS ? multiply_full : rows > THIRD ? multiply_thirds : multiply_third;
}

#if RDT_INJECT
/* Step by step: the accumulator of row r and column c is hit after `until` terms. */
static void multiply_hit(const rdt_real *a, const rdt_real *b, int64_t n, V (*in)[NV], V (*out)[NV],
                         rdt_kernel_hit *hit, int64_t until, int64_t r, int64_t c) {
  copy_tile(out, in, MR, NV);
  for (int64_t t = 0; t <= n; ++t) {
    if (t == until) rdt_kernel_hit_apply(hit, (char *)&out[r][0] + c * (int64_t)sizeof(rdt_real), RDT_REAL_DTYPE);
    if (t < n) step(a + t / VL * MR * VL + t % VL, b + t * NR, MR, NV, out);
  }
}
#endif
