/* What follows the reduction of a tile: its share of the rows' sums, the epilogue, the store. */
typedef struct place { /* of a tile: where its result goes, where its residual comes from */
  V (*tile)[NV];
  int64_t row, col; /* in the strip, in the product */
  void *out;
  int64_t ld, step; /* from row to row, from column to column */
  int64_t rows;     /* that are there */
  const void *residual;
  const rdt_real *bias;
  int64_t below, residual_below; /* bytes from row to row */
  int64_t residual_ld, residual_step;
  const rdt_real *signs; /* of the columns */
  rdt_real *lanes;       /* of the rows' sums: two vectors each */
  bool fresh;            /* nothing is in them yet */
#if RDT_INJECT
  void *hit; /* element whose stored value is hit */
  int hit_row;
#endif
} place;

/* The second evaluation once more, where it has not the bits of what was stored: NaN may differ. */
static __attribute__((noinline)) bool alike(const rdt_native_strip *s, const place *to, int nv) {
  const rdt_native_finish *f = &s->finish;
  const bool scale = f->alpha != 1.0f || (to->residual && f->beta != 1.0f);
  I differ = {0};
  for (int64_t r = 0; r < to->rows; ++r)
    for (int v = 0; v < nv; ++v) {
      const rdt_real *residual = to->residual ? (const rdt_real *)to->residual + r * to->residual_ld + v * VL : NULL;
      const V bias = to->bias ? load(to->bias + v * VL) : (V){0};
      const V again = value(to->tile[r][v], f, bias, residual, scale, to->bias, residual, f->bound);
      differ |= apart(again, load((const rdt_real *)to->out + r * to->ld + v * VL));
    }
  return is_zero(differ);
}

/* Signs that are +1, -1 or 0, where what they meet is 0: as bits. */
INLINE V turned(V x, V sign) {
  return (V)((I)x ^ ((I)sign & (I)(-(V){0})));
}

/* Sums, epilogue and store of a tile; with a check evaluated twice. false: the second evaluation is not what was
 * stored.
 */
INLINE bool finish(const rdt_native_strip *s, const place *to, const int nv, const bool sums, const bool check,
                   const bool scale, const bool has_bias, const bool has_residual, const int bound) {
  const rdt_native_finish *f = &s->finish;
  V b[NV], sign[NV];
  for (int v = 0; v < nv; ++v) {
    b[v] = has_bias ? load(to->bias + v * VL) : (V){0};
    sign[v] = sums ? load(to->signs + v * VL) : (V){0};
  }
  I differ = {0};
  rdt_real *out = to->out, *lanes = to->lanes;
  const rdt_real *residual = to->residual, *const bias_again = to->bias;
  V(*tile)[NV] = to->tile; /* in registers: memory may change behind AGAIN */
  const bool fresh = to->fresh;
  const int64_t rows = to->rows, ld = to->ld, residual_ld = to->residual_ld;
#pragma GCC unroll 1
  for (int64_t r = 0; r < rows; ++r, ++tile) {
    V raw[NV];
    for (int v = 0; v < nv; ++v) raw[v] = (*tile)[v];
    if (sums) {
      V dot = turned(raw[0], sign[0]), sq = raw[0] * raw[0];
      for (int v = 1; v < nv; ++v) {
        dot = dot + turned(raw[v], sign[v]);
        sq = MADD(raw[v], raw[v], sq);
      }
      if (!fresh) {
        dot = load(lanes) + dot;
        sq = load(lanes + VL) + sq;
      }
      store(lanes, dot);
      store(lanes + VL, sq);
      lanes += 2 * VL;
    }
    for (int v = 0; v < nv; ++v)
      store(out + v * VL, value(raw[v], f, b[v], residual + v * VL, scale, has_bias, has_residual, bound));
#if RDT_INJECT
    if (to->hit && r == to->hit_row) rdt_kernel_hit_apply(s->hit, to->hit, RDT_REAL_DTYPE);
#endif
    for (int v = 0; check && v < nv; ++v) {
      AGAIN(raw[v]);
      const V bias = has_bias ? load(bias_again + v * VL) : b[v];
      const V again = value(raw[v], f, bias, residual + v * VL, scale, has_bias, has_residual, bound);
      differ |= (I)again ^ (I)load(out + v * VL);
    }
    out += ld;
    if (has_residual) residual += residual_ld;
  }
  return !check || is_zero(differ) || alike(s, to, nv);
}

typedef bool finish_fn(const rdt_native_strip *s, const place *to, int nv);

/* One function for each way a tile can end; both widths of a panel in each. */
#define FINISH(name, ...)                                                \
  static bool name(const rdt_native_strip *s, const place *to, int nv) { \
    if (nv == NV) return finish(s, to, NV, __VA_ARGS__);                 \
    return finish(s, to, 1, __VA_ARGS__);                                \
  }
#define FINISH_BOUNDS(name, ...)                   \
  FINISH(name##_none, __VA_ARGS__, RDT_BOUND_NONE) \
  FINISH(name##_relu, __VA_ARGS__, RDT_BOUND_RELU) \
  FINISH(name##_clip, __VA_ARGS__, RDT_BOUND_CLIP)
#define FINISH_OPERANDS(name, ...)                     \
  FINISH_BOUNDS(name, __VA_ARGS__, false, false)       \
  FINISH_BOUNDS(name##_bias, __VA_ARGS__, true, false) \
  FINISH_BOUNDS(name##_add, __VA_ARGS__, false, true)  \
  FINISH_BOUNDS(name##_both, __VA_ARGS__, true, true)
FINISH_OPERANDS(plain, false, false, false)
FINISH_OPERANDS(plain_scaled, false, false, true)
FINISH_OPERANDS(checked, false, true, false)
FINISH_OPERANDS(checked_scaled, false, true, true)
FINISH_OPERANDS(summed, true, true, false)
FINISH_OPERANDS(summed_scaled, true, true, true)

#define BOUNDS(name) \
  { name##_none, name##_relu, name##_clip }
#define OPERANDS(name) \
  { BOUNDS(name), BOUNDS(name##_bias), BOUNDS(name##_add), BOUNDS(name##_both) }
static finish_fn *const finishes[3][2][4][3] = {{OPERANDS(plain), OPERANDS(plain_scaled)},
                                                {OPERANDS(checked), OPERANDS(checked_scaled)},
                                                {OPERANDS(summed), OPERANDS(summed_scaled)}};

static finish_fn *finish_of(const rdt_native_strip *s) {
  const rdt_native_finish *f = &s->finish;
  return finishes[s->forms & RDT_FORM_ROWS ? 2 : s->forms != 0][f->alpha != 1.0f || (f->residual && f->beta != 1.0f)]
                 [(f->bias != NULL) + 2 * (f->residual != NULL)][f->bound];
}

/* ---- in a buffer ---- */

static void put_line(void *to, int64_t step, const rdt_real *line, int64_t cols, rdt_dtype dtype) {
  uint16_t half[NR];
  if (step == 1) {
    narrow(to, line, cols, dtype);
    return;
  }
  for (int64_t c = 0; dtype == RDT_REAL_DTYPE && c < cols; ++c) ((rdt_real *)to)[c * step] = line[c];
  if (dtype == RDT_REAL_DTYPE) return;
  narrow(half, line, cols, dtype);
  for (int64_t c = 0; c < cols; ++c) ((uint16_t *)to)[c * step] = half[c];
}

/* Rounded once more: does it lie there? */
static bool lies_there(const void *is, int64_t step, const rdt_real *line, int64_t cols, rdt_dtype dtype) {
  rdt_real should[NR];
  bool same = true;
  narrow(should, line, cols, dtype);
  if (step == 1) return memcmp(is, should, (size_t)(cols * element_size(dtype))) == 0;
  for (int64_t c = 0; c < cols; ++c) {
    const void *a = at(is, c * step, dtype), *b = at(should, c, dtype);
    same &= dtype == RDT_REAL_DTYPE ? memcmp(a, b, sizeof *should) == 0 : memcmp(a, b, sizeof(uint16_t)) == 0;
  }
  return same;
}

/* An activation that the vectors do not have, before anything is rounded. */
static bool map_tile(const rdt_native_finish *f, rdt_real *tile, int64_t n, bool check) {
  rdt_real mapped[2][MR * NR];
  const void *from = tile;
  for (int i = 0; i < 1 + check; ++i) f->map(mapped[i], &from, n, f->param);
  memcpy(tile, mapped[0], (size_t)n * sizeof *tile);
  return !check || memcmp(mapped[1], tile, (size_t)n * sizeof *tile) == 0;
}

static void fetch_residual(const rdt_native_finish *f, const place *to, int64_t cols, rdt_real *residual) {
  const rdt_dtype dtype = f->residual_dtype;
  memset(residual, 0, MR * NR * sizeof *residual);
  for (int r = 0; r < to->rows; ++r) {
    const void *from = at(to->residual, r * to->residual_ld, dtype);
    if (to->residual_step == 1) widen(residual + r * NR, from, cols, dtype);
    for (int64_t c = 0; to->residual_step != 1 && c < cols; ++c)
      residual[r * NR + c] = element_as(from, c * to->residual_step, dtype);
  }
}

/* A tile that reaches beyond the last column, or whose columns do not lie side by side, or are rounded, is finished in
 * a buffer; what is there of it is copied, and compared. */
static bool finish_edge(const rdt_native_strip *s, finish_fn *fn, const place *to, int64_t cols, int nv) {
  const rdt_native_finish *f = &s->finish;
  rdt_real out[MR * NR], residual[MR * NR];
  const int64_t rows = to->rows;
  place edge = *to;
  edge.out = out;
  edge.ld = edge.residual_ld = NR;
#if RDT_INJECT
  edge.hit = NULL;
#endif
  if (to->residual) {
    fetch_residual(f, to, cols, residual);
    edge.residual = residual;
  }
  if (f->map && nv < NV) memset(out, 0, sizeof out);
  bool good = fn(s, &edge, nv);
  if (f->map) good &= map_tile(f, out, rows * NR, s->forms != 0);
  for (int r = 0; r < rows; ++r)
    put_line((void *)at(to->out, r * to->ld, f->dtype), to->step, out + r * NR, cols, f->dtype);
#if RDT_INJECT
  if (to->hit) rdt_kernel_hit_apply(s->hit, to->hit, f->dtype);
#endif
  if (!s->forms) return true;
  __asm__ volatile("" : : : "memory");
  for (int r = 0; r < rows; ++r)
    good &= lies_there(at(to->out, r * to->ld, f->dtype), to->step, out + r * NR, cols, f->dtype);
  return good;
}
