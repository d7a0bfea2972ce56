/* The reduction of a tile: packed rows times a panel. Rows are packed by tiles, [group of VL steps][row][VL]. */

typedef struct ahead { /* what the next panel brings, some bytes at each step */
  const char *at;
  int64_t pace;
} ahead;

/* One term: a is the first row's, the others' follow VL apart. */
INLINE void step(const float *a, const float *b, const int nr, const int nv, V (*acc)[NV]) {
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
INLINE void multiply(const float *a, const float *b, int64_t n, ahead next, const int nr, const int nv, V (*in)[NV],
                     V (*out)[NV]) {
  V acc[MR][NV];
  copy_tile(acc, in, nr, nv);
#pragma GCC unroll 1
  for (; n >= VL; n -= VL, a += MR * VL, b += VL * NR)
#pragma GCC unroll 1
    for (int t = 0; t < VL; ++t) {
      __builtin_prefetch(next.at, 0, 2);
      next.at += next.pace;
      step(a + t, b + t * NR, nr, nv, acc);
    }
#pragma GCC unroll 1
  for (; n > 0; --n, ++a, b += NR) step(a, b, nr, nv, acc);
  copy_tile(out, acc, nr, nv);
}

typedef void multiply_fn(const float *a, const float *b, int64_t n, ahead next, V (*in)[NV], V (*out)[NV]);

/* Functions of their own: inside others the inner loop's values do not stay in registers. */
#define MULTIPLY(name, nr, nv)                                                                                  \
  static __attribute__((noinline)) void name(const float *a, const float *b, int64_t n, ahead next, V(*in)[NV], \
                                             V(*out)[NV]) {                                                     \
    multiply(a, b, n, next, nr, nv, in, out);                                                                   \
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
static void multiply_hit(const float *a, const float *b, int64_t n, V (*in)[NV], V (*out)[NV], rdt_kernel_hit *hit,
                         int64_t until, int64_t r, int64_t c) {
  copy_tile(out, in, MR, NV);
  for (int64_t t = 0; t <= n; ++t) {
    if (t == until) rdt_kernel_hit_apply(hit, (char *)&out[r][0] + c * (int64_t)sizeof(float), RDT_F32);
    if (t < n) step(a + t / VL * MR * VL + t % VL, b + t * NR, MR, NV, out);
  }
}
#endif
