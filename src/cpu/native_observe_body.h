/* Observed sums of a finished tile from its accumulators, and what goes with them down the columns. */

/* Lanes of the columns: dot and squares of a panel. Of blocks: the same of each block that a strip meets. */
enum { SIDE_LANES = 2 * NR };

static void observe_columns(const rdt_native_strip *s, V (*tile)[NV], int64_t row, int64_t rows) {
  const rdt_native_sides *x = s->sides;
  const rdt_real *u = x->u + s->first + row;
  V dots[NV] = {{0}}, sqs[NV] = {{0}};
#pragma GCC unroll 1
  for (int64_t r = 0; r < rows; ++r)
    for (int v = 0; v < NV; ++v) {
      dots[v] = MADD(tile[r][v], spread(u[r]), dots[v]);
      sqs[v] = MADD(tile[r][v], tile[r][v], sqs[v]);
    }
  for (int v = 0; v < NV; ++v) {
    store(x->lanes + v * VL, load(x->lanes + v * VL) + dots[v]);
    store(x->lanes + NR + v * VL, load(x->lanes + NR + v * VL) + sqs[v]);
  }
}

/* Of rows of a tile that lie in one block of rows. */
INLINE void observe_block(const rdt_native_strip *s, V (*tile)[NV], int64_t row, int64_t rows, int64_t col,
                          rdt_real *lanes) {
  const rdt_real *u = s->sides->u + s->first + row;
  V sign[NV], dot = {0}, sq = {0};
  for (int v = 0; v < NV; ++v) sign[v] = load(s->w + col + v * VL);
#pragma GCC unroll 1
  for (int64_t r = 0; r < rows; ++r) {
    V c = tile[r][0] * sign[0];
    sq = MADD(tile[r][0], tile[r][0], sq);
    for (int v = 1; v < NV; ++v) {
      c = MADD(tile[r][v], sign[v], c);
      sq = MADD(tile[r][v], tile[r][v], sq);
    }
    dot = MADD(c, spread(u[r]), dot);
  }
  store(lanes, load(lanes) + dot);
  store(lanes + VL, load(lanes + VL) + sq);
}

/* Blocks of rows that a strip has to do with, from its first one on. */
INLINE int64_t block_of(const rdt_native_strip *s, int64_t row) {
  return (s->first + row) / s->sides->block[0];
}

static void observe_blocks(const rdt_native_strip *s, V (*tile)[NV], int64_t row, int64_t rows, int64_t col) {
  for (int64_t r = 0, part; r < rows; r += part) {
    const int64_t block = block_of(s, row + r), left = (block + 1) * s->sides->block[0] - s->first - row - r;
    part = left < rows - r ? left : rows - r;
    observe_block(s, tile + r, row + r, part, col, s->sides->lanes + (block - block_of(s, 0)) * 2 * VL);
  }
}

/* All but the sums of rows, which go with the epilogue. */
static void observe_tile(const rdt_native_strip *s, V (*tile)[NV], int64_t row, int64_t rows, int64_t col, int nv) {
  for (int64_t r = 0; r < rows; ++r) /* what was not computed */
    for (int v = nv; v < NV; ++v) tile[r][v] = (V){0};
  if (s->forms & RDT_FORM_COLUMNS) observe_columns(s, tile, row, rows);
  if (s->forms & RDT_FORM_BLOCKS) observe_blocks(s, tile, row, rows, col);
}

/* Squares of accumulators that rest between blocks of the reduction. Asked for where data needs it: not in a hurry. */
static void observe_between(const rdt_native_strip *s, V (*tile)[NV], int64_t row, int64_t rows, int64_t col, int nv) {
  const rdt_native_sides *x = s->sides;
  V down[NV] = {{0}};
  for (int64_t r = 0; r < rows; ++r) {
    V sq = {0};
    double total = 0.0;
    for (int v = 0; v < nv; ++v) {
      down[v] = MADD(tile[r][v], tile[r][v], down[v]);
      sq = MADD(tile[r][v], tile[r][v], sq);
    }
    for (int l = 0; l < VL; ++l) total += (double)sq[l];
    if (s->forms & RDT_FORM_ROWS) s->between[row + r] += total;
    if (s->forms & RDT_FORM_BLOCKS) x->blocks_between[block_of(s, row + r) * x->across + col / x->block[1]] += total;
  }
  for (int v = 0; (s->forms & RDT_FORM_COLUMNS) && v < nv; ++v) add_wide(x->columns_between + col + v * VL, down[v]);
}

/* ---- a panel's end ---- */

static void add_lanes(double *to, const rdt_real *lanes, int64_t n) {
  for (int64_t l = 0; l < n; l += VL) add_wide(to + l, load(lanes + l));
}

/* The lanes of all tiles below one another, to double. */
static void flush_sides(const rdt_native_strip *s, int64_t col) {
  const rdt_native_sides *x = s->sides;
  if (s->forms & RDT_FORM_COLUMNS) {
    add_lanes(x->seen.dot + col, x->lanes, NR);
    add_lanes(x->seen.sq + col, x->lanes + NR, NR);
    memset(x->lanes, 0, SIDE_LANES * sizeof(rdt_real));
  }
  if (!(s->forms & RDT_FORM_BLOCKS)) return;
  const int64_t first = block_of(s, 0), count = block_of(s, s->rows.count - 1) - first + 1;
  for (int64_t i = 0; i < count; i += 2) { /* there is room for an even number */
    double sums[4] = {0};
    add_totals(sums, (const V *)(x->lanes + 2 * i * VL));
    for (int64_t r = i; r < i + 2 && r < count; ++r) {
      const int64_t at = (first + r) * x->across + col / x->block[1];
      x->blocks.dot[at] += sums[2 * (r - i)];
      x->blocks.sq[at] += sums[2 * (r - i) + 1];
    }
  }
  memset(x->lanes, 0, (size_t)(count * 2 * VL) * sizeof(rdt_real));
}

/* ---- the expected side of columns ---- */

/* Sums down A's rows times a panel's part: chains of 16 terms, four of them at a time, four times before they go to
 * double. Fetches its share of what the next panel brings. */
static void meet(const rdt_real *b, const rdt_real *a, int64_t n, const ahead *next, double *dot) {
  enum { CHAIN = 16, CHAINS = 4, MOST = 4 * CHAINS * CHAIN };
  const char *panel = next->panel;
  for (int64_t i = 0; i < n; i += MOST) {
    const int64_t end = i + MOST < n ? i + MOST : n;
    V sum[NV] = {{0}};
    int64_t t = i;
    for (; t + CHAINS * CHAIN <= end; t += CHAINS * CHAIN) {
      V d[CHAINS][NV] = {{{0}}};
#pragma GCC unroll 1
      for (int64_t l = t; l < t + CHAIN; ++l) {
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; ++c) {
          const rdt_real *at = b + (l + c * CHAIN) * NR;
          const V x = spread(a[l + c * CHAIN]);
          if (c % 2 == 0) {
            __builtin_prefetch(panel, 0, 2);
            panel += 2 * next->pace;
          }
#pragma GCC unroll 2
          for (int v = 0; v < NV; ++v) d[c][v] = MADD(*(const V *)(at + v * VL), x, d[c][v]);
        }
      }
      for (int v = 0; v < NV; ++v) sum[v] = sum[v] + ((d[0][v] + d[1][v]) + (d[2][v] + d[3][v]));
    }
    while (t < end) {
      const int64_t stop = t + CHAIN < end ? t + CHAIN : end;
      V d[NV] = {{0}};
      for (; t < stop; ++t)
        for (int v = 0; v < NV; ++v) d[v] = MADD(*(const V *)(b + t * NR + v * VL), spread(a[t]), d[v]);
      for (int v = 0; v < NV; ++v) sum[v] = sum[v] + d[v];
    }
    for (int v = 0; v < NV; ++v) add_wide(dot + v * VL, sum[v]);
  }
}
