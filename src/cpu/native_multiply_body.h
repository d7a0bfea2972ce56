/* The reduction of a tile: packed rows times a panel. Rows are packed by tiles, [group of VL steps][row][VL]. */

enum { LINE = 64 /* bytes */ };

typedef struct ahead { /* what is fetched on the way */
  const char *panel;   /* of what the next panel brings, some bytes at each step */
  int64_t pace;
  const void *const *rows; /* of what the next block of rows brings, some lines at each group: rows[i] + offset ... */
  int64_t count;           /* rows of the tile */
  int64_t offset, lines;   /* bytes; of each row */
} ahead;

/* Some vectors of a panel's row. Those of bf16 lie element by element beside each other: a load and a mask is all. */
INLINE void load_row(const void *b, V *y, const int nv, const rdt_dtype dtype) {
#if RDT_REAL != 64 && !NATIVE_DOT
  if (dtype == RDT_BF16) {
    const U pair = *(const U *)b;
    y[0] = (V)(pair << 16);
    if (nv == NV) y[1] = (V)(pair & 0xffff0000);
    return;
  }
#endif
#pragma GCC unroll 2
  for (int v = 0; v < nv; ++v)
    y[v] = dtype == RDT_F16 ? load_as(b, v * VL, dtype) : *(const V *)((const char *)b + v * BYTES);
}
_Static_assert(NV == 2, "pairs of bf16");

/* One step: a is the first row's, the others' follow VL apart. */
INLINE void step(const rdt_real *a, const void *b, const int nr, const int nv, V (*acc)[NV], const rdt_dtype dtype) {
  V y[NV];
  load_row(b, y, nv, dtype);
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r) {
    const V x = spread(a[r * VL]);
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) acc[r][v] = STEP(x, y[v], acc[r][v]);
  }
}

/* The same of rows that lie ld apart, by pointers to every third of them: those between are an index away. */
enum { EACH = 3, POINTERS = (MR + EACH - 1) / EACH };
INLINE void step_in_place(const rdt_real *const *a, int64_t ld, int64_t t, const rdt_real *b, V (*acc)[NV]) {
  V y[NV];
  load_row(b, y, NV, RDT_REAL_DTYPE);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    const V x = spread(a[r / EACH][r % EACH * ld + t]);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) acc[r][v] = STEP(x, y[v], acc[r][v]);
  }
}

INLINE void copy_tile(V (*to)[NV], V (*from)[NV], const int nr, const int nv) {
#pragma GCC unroll 16
  for (int r = 0; r < nr; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < nv; ++v) to[r][v] = from ? from[r][v] : (V){0};
}

/* Some lines of the rows to come. */
INLINE void fetch_burst(const ahead *next, int64_t count, int64_t *row, int64_t *line) {
#pragma GCC unroll 1
  for (; count > 0; --count) {
    __builtin_prefetch((const char *)next->rows[*row] + *line, 0, 2);
    if (++*row == next->count) *row = 0, *line += LINE;
  }
}

/* out = in + n terms, of nr rows by nv vectors; in = NULL: those terms. dtype: of the panel */
INLINE void multiply(const rdt_real *a, const void *b, int64_t n, const ahead *next, const int nr, const int nv,
                     V (*in)[NV], V (*out)[NV], const rdt_dtype dtype) {
  const int64_t line_bytes = NR * TERMS * element_size(dtype);
  V acc[MR][NV];
  const char *panel = next->panel;
  const int64_t pace = next->pace;
  int64_t lines = next->lines * next->count, line = next->offset, row = 0;
  const int turn = nr == MR ? 2 : 1; /* smaller tiles wait for their chains: steps in turn are slower there */
  const bool wide = nr < MR && line_bytes > LINE; /* a single tile passes by: its panel comes as fast as it goes */
  n = (n + TERMS - 1) / TERMS;
  const int64_t burst = lines > 0 && n >= VL ? (lines * VL + n - 1) / n : 0;
  copy_tile(acc, in, nr, nv);
#pragma GCC unroll 1
  for (; n >= VL; n -= VL, a += MR * VL - VL) {
#pragma GCC unroll 1
    for (int64_t l = burst < lines ? burst : lines; l > 0; --l, --lines) {
      __builtin_prefetch((const char *)next->rows[row] + line, 0, 2);
      if (++row == next->count) row = 0, line += LINE;
    }
#pragma GCC unroll 1
    for (const rdt_real *end = a + VL; a < end; a += turn)
#pragma GCC unroll 2
      for (int i = 0; i < turn; ++i, b = (const char *)b + line_bytes) {
        __builtin_prefetch(panel, 0, 2);
        if (wide) __builtin_prefetch(panel + LINE, 0, 2);
        panel += pace;
        step(a + i, b, nr, nv, acc, dtype);
      }
  }
#pragma GCC unroll 1
  for (; n > 0; --n, ++a, b = (const char *)b + line_bytes) step(a, b, nr, nv, acc, dtype);
  copy_tile(out, acc, nr, nv);
}

/* Of a whole tile whose rows lie ld apart where the caller keeps them. */
static __attribute__((noinline)) void multiply_in_place(const rdt_real *a, int64_t ld, const rdt_real *b, int64_t n,
                                                        const ahead *next, V (*in)[NV], V (*out)[NV]) {
  enum { TURN = VL < 4 ? VL : 4 };
  V acc[MR][NV];
  const rdt_real *rows[POINTERS];
  const char *panel = next->panel;
  const int64_t pace = next->pace, groups = n / VL;
  int64_t lines = next->lines * next->count, line = next->offset, row = 0;
  const int64_t burst = groups > 0 ? (lines + groups - 1) / groups : 0;
  for (int i = 0; i < POINTERS; ++i) {
    rows[i] = a + i * EACH * ld;
    __asm__ volatile("" : "+r"(rows[i])); /* a register each */
  }
  copy_tile(acc, in, MR, NV);
#pragma GCC unroll 1
  for (; n >= VL; n -= VL, lines -= burst) {
    fetch_burst(next, burst < lines ? burst : lines, &row, &line);
#pragma GCC unroll 1
    for (int u = 0; u < VL; u += TURN, b += TURN * NR) {
#pragma GCC unroll 4
      for (int i = 0; i < TURN; ++i, panel += pace) {
        __builtin_prefetch(panel, 0, 2);
        step_in_place(rows, ld, i, b + i * NR, acc);
      }
      for (int i = 0; i < POINTERS; ++i) rows[i] += TURN;
    }
  }
#pragma GCC unroll 1
  for (int64_t t = 0; t < n; ++t) step_in_place(rows, ld, t, b + t * NR, acc);
  copy_tile(out, acc, MR, NV);
}

typedef void multiply_fn(const rdt_real *a, const void *b, int64_t n, const ahead *next, V (*in)[NV], V (*out)[NV]);

/* Functions of their own: inside others the inner loop's values do not stay in registers. */
#define MULTIPLY(name, nr, nv, dtype)                                                                        \
  static __attribute__((noinline)) void name(const rdt_real *a, const void *b, int64_t n, const ahead *next, \
                                             V(*in)[NV], V(*out)[NV]) {                                      \
    multiply(a, b, n, next, nr, nv, in, out, dtype);                                                         \
  }
#define MULTIPLY_SHAPES(name, dtype)         \
  MULTIPLY(name##_full, MR, NV, dtype)       \
  MULTIPLY(name##_thirds, THIRDS, NV, dtype) \
  MULTIPLY(name##_third, THIRD, NV, dtype)   \
  MULTIPLY(name##_half, MR, 1, dtype)
#define SHAPES(name) \
  { name##_full, name##_thirds, name##_third, name##_half }

/* Two thirds of a tile still keep the multipliers busy, one third does not: the last rows share what is left. */
enum { THIRD = (MR + 2) / 3, THIRDS = (2 * MR + 2) / 3 };

INLINE int64_t tile_rows(int64_t left) {
  return left > MR + THIRD ? MR : left > MR ? THIRDS : left;
}

#if !NATIVE_DOT
MULTIPLY_SHAPES(multiply, RDT_REAL_DTYPE)
#endif
#if RDT_REAL != 64
MULTIPLY_SHAPES(multiply_bf16, RDT_BF16)
#endif
#if RDT_REAL != 64 && !NATIVE_DOT
MULTIPLY_SHAPES(multiply_f16, RDT_F16)
#endif

INLINE multiply_fn *multiply_of(int64_t rows, int nv, rdt_dtype dtype) {
#if RDT_REAL == 64
  static multiply_fn *const shapes[1][4] = {SHAPES(multiply)};
#elif NATIVE_DOT
  static multiply_fn *const shapes[2][4] = {{NULL}, SHAPES(multiply_bf16)};
#else
  static multiply_fn *const shapes[3][4] = {SHAPES(multiply), SHAPES(multiply_bf16), SHAPES(multiply_f16)};
#endif
  const int of = dtype == RDT_BF16 ? 1 : dtype == RDT_F16 ? 2 : 0;
  return shapes[of][nv < NV ? 3 : rows > THIRDS ? 0 : rows > THIRD ? 1 : 2];
}

#if RDT_INJECT
/* Step by step: the accumulator of row r and column c is hit after `until` terms, or the one that is on its way. */
static void multiply_hit(const rdt_real *a, const void *b, rdt_dtype dtype, int64_t n, V (*in)[NV], V (*out)[NV],
                         rdt_kernel_hit *hit, int64_t until, int64_t r, int64_t c) {
  const int64_t steps = (n + TERMS - 1) / TERMS;
  copy_tile(out, in, MR, NV);
  for (int64_t t = 0; t <= steps; ++t) {
    if (t == (until + TERMS - 1) / TERMS)
      rdt_kernel_hit_apply(hit, (char *)&out[r][0] + c * (int64_t)sizeof(rdt_real), RDT_REAL_DTYPE);
    const rdt_real *row = a + t / VL * MR * VL + t % VL;
    if (t < steps) BY_SOURCE(dtype, step, row, at(b, t * TERMS * NR, dtype), MR, NV, out);
  }
}
#endif
