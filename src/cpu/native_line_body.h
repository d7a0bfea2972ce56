/* A single row of A: each of its elements meets a row of several panels, so that as many chains run side by side as
 * the multipliers take, and the weights come as fast as memory gives them. Nothing is packed. */

enum {
  LINE_PANELS = 4,
  LINE_AHEAD = 8,         /* rows of a panel */
  LINE_NEAR = 1536 * 1024 /* bytes of weights that mostly are in the second-level cache */
};

/* Some panels, one after the other; next: what is fetched when they end. Every element is one chain of n multiply-adds,
 * as in any tile. */
INLINE void multiply_panels(const rdt_real *a, const rdt_real *b, int64_t n, const rdt_real *next, const int count,
                            V (*out)[NV]) {
  V acc[LINE_PANELS][NV];
#pragma GCC unroll 4
  for (int p = 0; p < count; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) acc[p][v] = (V){0};
  const rdt_real *fetched = b + LINE_AHEAD * NR;
#pragma GCC unroll 1
  for (int64_t t = 0; t < n; ++t, b += NR, fetched += NR) {
    const V x = spread(a[t]);
    if (t + LINE_AHEAD == n) fetched = next;
#pragma GCC unroll 4
    for (int p = 0; p < count; ++p) {
      for (int l = 0; l < NR * (int)sizeof(rdt_real); l += LINE)
        __builtin_prefetch((const char *)(fetched + p * n * NR) + l, 0, 3);
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) acc[p][v] = MADD(x, *(const V *)(b + p * n * NR + v * VL), acc[p][v]);
    }
  }
  memcpy(out, acc, (size_t)count * sizeof *acc);
}

#define MULTIPLY_PANELS(name, count)                                                                                \
  static __attribute__((noinline)) void name(const rdt_real *a, const rdt_real *b, int64_t n, const rdt_real *next, \
                                             V(*out)[NV]) {                                                         \
    multiply_panels(a, b, n, next, count, out);                                                                     \
  }
MULTIPLY_PANELS(multiply_four, LINE_PANELS)
MULTIPLY_PANELS(multiply_two, 2)
MULTIPLY_PANELS(multiply_one, 1)

/* Where a panel's row is two cache lines, only of weights that are near: from memory four panels came slower there than
 * one (AVX-512, 4096 columns: 1.42 of oneDNN, as a tile 1.11). */
static bool is_line(const rdt_native_strip *s) {
  const bool near = (s->to - s->from) * NR * s->k <= LINE_NEAR / (int64_t)sizeof(rdt_real);
  return (NV * BYTES <= LINE || near) && TERMS == 1 && s->rows.count == 1 && s->rows.segments == 1 &&
         s->rows.step == 1 && s->rows.dtype == RDT_REAL_DTYPE && !(s->forms & ~(unsigned)RDT_FORM_ROWS) && !s->hit;
}

/* What the row is expected to be, in the order in which a tile is summed as it is packed (pack_tile): a row that is
 * suspect among others and then is computed alone has the same sums to the bit. */
static void sum_line(const rdt_native_strip *s) {
  const rdt_real *a = s->rows.at[0];
  double dot = 0.0, sq = 0.0;
  for (int64_t from = 0, to; from < s->k; from = to) {
    double sums[4] = {0};
    to = s->k - from <= s->block ? s->k : from + s->block;
    for (int64_t t = from; t < to;) {
      const int64_t whole = (to - t) / VL, vectors = whole < CHAIN ? whole : CHAIN, left = to - t - vectors * VL;
      const int64_t rest = left < VL ? left : 0;
      V x[4] = {{0}};
      for (int64_t i = 0; i < vectors; ++i, t += VL) {
        const V y = load(a + t);
        x[0] = MADD(y, load(s->beta + t), x[0]);
        x[1] = MADD(y * y, load(s->rho + t), x[1]);
      }
      if (rest > 0) {
        const V y = load_first(a + t, rest);
        x[0] = MADD(y, load_first(s->beta + t, rest), x[0]);
        x[1] = MADD(y * y, load_first(s->rho + t, rest), x[1]);
      }
      t += rest;
      add_totals(sums, x);
    }
    dot = sums[0] + dot;
    sq = sums[1] + sq;
  }
  s->expected.dot[0] = dot;
  s->expected.sq[0] = sq;
}

/* The whole strip. */
static bool sweep_line(const rdt_native_strip *s) {
  const rdt_real *a = s->rows.at[0];
  const int64_t panel = s->k * NR;
  finish_fn *fn = finish_of(s);
  bool good = true;
  if (s->beta) sum_line(s);
  for (int64_t j = s->from, count; j < s->to; j += count) {
    V done[LINE_PANELS][NV];
    const rdt_real *b = (const rdt_real *)s->panels + j * panel;
    count = s->to - j >= LINE_PANELS ? LINE_PANELS : s->to - j >= 2 ? 2 : 1;
    (count == 1   ? multiply_one
     : count == 2 ? multiply_two
                  : multiply_four)(a, b, s->k, j + count < s->to ? b + count * panel : b, done);
    for (int64_t i = 0; i < count; ++i) {
      place to = place_of(s, (j + i) * NR);
      move_down(&to, 1);
      good &= end_tile(s, fn, done + i, &to);
      flush_panel(s, j + i);
    }
  }
  return good;
}
