/* Body of the own products, included by each ISA directory with NATIVE_TABLE defined: once plain, once with
 * RDT_INJECT, which can plant one fault in one accumulator. */
#include <float.h>
#include <math.h>

#include "cpu/generic/product.h"
#include "cpu/vector_body.h"

#if defined(__AVX512F__)
enum { MR = 12, NV = 2 };
#elif defined(__FMA__)
enum { MR = 6, NV = 2 };
#else
enum { MR = 4, NV = 2 };
#endif
enum { NR = NV * VL };

/* bf16 by dot products of pairs, where the CPU has them: a step of the reduction takes two terms. */
#if NATIVE_DOT
enum { TERMS = 2 };
typedef uint32_t word __attribute__((may_alias));
#define STEP(a, b, c) ((V)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#else
enum { TERMS = 1 };
#define STEP MADD
#endif

/* Terms of a panel */
INLINE int64_t depth(const rdt_native_strip *s) {
  return (s->k + TERMS - 1) / TERMS * TERMS;
}

/* Packed steps of a block */
INLINE int64_t group_of(const rdt_native_strip *s) {
  return ((s->block + TERMS - 1) / TERMS + VL - 1) / VL * VL;
}

#include "cpu/native_half_body.h"
/* conversions first */
#include "cpu/native_finish_body.h"
#include "cpu/native_multiply_body.h"
#include "cpu/native_turn_body.h"
/* those turn rows that lie beside one another */
#include "cpu/native_sums_body.h"
/* after the sums of lanes */
#include "cpu/native_observe_body.h"
#include "cpu/native_pack_body.h"
#include "cpu/native_unit_body.h"

/* ---- strips ---- */

enum { FLUSHED = 16 /* panels, before their lanes' sums go to double */ };

/* The lanes' sums, to double before their roundings add up. Two rows at a time: there is room for an even number. */
static void flush(const rdt_native_strip *s) {
  for (int64_t i = 0; i < s->rows.count; i += 2) {
    double sums[4] = {0};
    add_totals(sums, (const V *)(s->lanes + 2 * i * VL));
    for (int64_t r = i; r < i + 2 && r < s->rows.count; ++r) {
      s->observed.dot[r] += sums[2 * (r - i)];
      s->observed.sq[r] += sums[2 * (r - i) + 1];
    }
  }
}

/* Above the first tile of a panel. */
static place place_of(const rdt_native_strip *s, int64_t col) {
  const rdt_native_finish *f = &s->finish;
  return (place){.col = col,
                 .out = (void *)at(s->out, col * s->step, f->dtype),
                 .ld = s->ld,
                 .step = s->step,
                 .below = s->ld * element_size(f->dtype),
                 .residual = f->residual ? at(f->residual, col * f->residual_step, f->residual_dtype) : NULL,
                 .residual_below = f->residual_ld * element_size(f->residual_dtype),
                 .residual_ld = f->residual_ld,
                 .residual_step = f->residual_step,
                 .bias = f->bias ? f->bias + col : NULL,
                 .signs = s->w ? s->w + col : NULL,
                 .lanes = s->lanes,
                 .fresh = (col / NR - s->from) % FLUSHED == 0};
}

/* To the tile below. */
INLINE void move_down(place *to, int64_t rows) {
  to->row += to->rows;
  to->out = (char *)to->out + to->rows * to->below;
  if (to->residual) to->residual = (const char *)to->residual + to->rows * to->residual_below;
  to->lanes += 2 * VL * to->rows;
  to->rows = rows;
}

/* The result and the residual are touched once, a line or two a row: they come while the tile is multiplied. */
INLINE void fetch(const place *to) {
  for (int64_t l = 0; l < NV * BYTES; l += LINE) {
    for (int64_t r = 0; r < to->rows; ++r) __builtin_prefetch((const char *)to->out + r * to->below + l, 1);
    for (int64_t r = 0; to->residual && r < to->rows; ++r)
      __builtin_prefetch((const char *)to->residual + r * to->residual_below + l);
  }
}

typedef struct sweep { /* of a block over the panels of a chunk */
  int64_t from, to;    /* of the reduction */
  int64_t first, end;  /* panels */
  rdt_real *packed;    /* the block of the rows */
  finish_fn *finish;   /* NULL: the reduction goes on */
} sweep;

/* What the next panel brings: all rows of the strip meet each panel before the next, so it comes in shares of theirs.
 */
INLINE void fetch_panel(const rdt_native_strip *s, const sweep *w, int64_t j, ahead *next) {
  const int64_t row = j + 1 < w->end   ? (j + 1) * depth(s) + w->from
                      : !w->finish     ? w->first * depth(s) + w->to
                      : w->end < s->to ? w->end * depth(s)
                                       : -1;
  const int64_t shares = (s->rows.count + MR - 1) / MR + ((s->forms & RDT_FORM_COLUMNS) && s->last);
  next->panel = row < 0 ? s->panels : at(s->panels, row * NR, s->rows.dtype);
  next->pace = row < 0 ? 0 : NR * TERMS * element_size(s->rows.dtype) / shares + 1;
}

INLINE void widen_rows(const void *panel, int64_t rows, rdt_real *to, const rdt_dtype dtype) {
  for (int64_t t = 0; t < rows; ++t) load_row(at(panel, t * NR, dtype), (V *)(to + t * NR), NV, dtype);
}

/* A block of a panel, as checks other than of rows take it. */
static const rdt_real *widen_panel(const rdt_native_strip *s, const sweep *w, int64_t j) {
  const rdt_dtype dtype = s->rows.dtype;
  const void *panel = at(s->panels, (j * depth(s) + w->from) * NR, dtype);
  if (dtype == RDT_REAL_DTYPE) return panel;
  BY_SOURCE(dtype, widen_rows, panel, w->to - w->from, s->widened);
  return s->widened;
}

/* What the next block of rows brings, or the next strip, in shares of the panels. */
INLINE void fetch_rows(const rdt_native_strip *s, const sweep *w, int64_t j, ahead *next) {
  const bool more = w->to < s->k;
  const int64_t from = more ? w->to : s->follow, left = more ? s->k - w->to : s->block;
  const int64_t size = element_size(s->rows.dtype), panels = w->end - w->first;
  const int64_t count = ((left < s->block ? left : s->block) * size + LINE - 1) / LINE;
  next->offset = next->lines = 0;
  if (s->resident || s->rows.segments > 1 || s->rows.step != 1 || (!more && (!s->follow || w->end < s->to))) return;
  const int64_t begin = count * (j - w->first) / panels, end = count * (j + 1 - w->first) / panels;
  next->offset = from * size + begin * LINE;
  next->lines = end - begin;
}

/* That, of a tile, before it and not on the way. */
INLINE void fetch_lines(const ahead *next, const void *const *rows, int64_t count) {
  for (int64_t l = 0; l < next->lines; ++l)
    for (int64_t r = 0; r < count; ++r) __builtin_prefetch((const char *)rows[r] + next->offset + l * LINE, 0, 2);
}

/* Ends a tile whose reduction is complete. */
static bool end_tile(const rdt_native_strip *s, finish_fn *fn, V (*tile)[NV], place *to) {
  to->tile = tile;
  const int64_t cols = s->n - to->col < NR ? s->n - to->col : NR;
  const int nv = (int)((cols + VL - 1) / VL);
#if RDT_INJECT
  const int64_t r = s->hit_row - to->row, c = s->hit_col - to->col;
  const bool here = s->hit && s->hit_stored && r >= 0 && r < to->rows && c >= 0 && c < cols;
  to->hit = here ? (void *)at(to->out, r * s->ld + c * s->step, s->finish.dtype) : NULL;
  to->hit_row = (int)r;
#endif
  if (s->forms & (RDT_FORM_COLUMNS | RDT_FORM_BLOCKS)) observe_tile(s, tile, to->row, to->rows, to->col, nv);
  const bool dense = s->finish.dtype == RDT_REAL_DTYPE && s->step == 1 &&
                     (!to->residual || (s->finish.residual_dtype == RDT_REAL_DTYPE && to->residual_step == 1));
  return dense && cols == nv * VL ? fn(s, to, nv) : finish_edge(s, fn, to, cols, nv);
}

/* What the lanes of a panel's tiles hold, to double before their roundings add up. */
static void flush_panel(const rdt_native_strip *s, int64_t j) {
  if ((s->forms & RDT_FORM_ROWS) && ((j - s->from) % FLUSHED == FLUSHED - 1 || j + 1 == s->to)) flush(s);
  if (s->forms & (RDT_FORM_COLUMNS | RDT_FORM_BLOCKS)) flush_sides(s, j * NR);
}

/* A whole tile whose rows lie as far apart as those of others: it needs no packing. */
static bool lies_in_place(const rdt_native_strip *s, int64_t i, int64_t rows) {
  if (TERMS > 1 || !s->in_place || rows < MR) return false;
#if RDT_INJECT
  if (s->hit && s->hit_row >= i && s->hit_row < i + MR) return false;
#endif
  const int64_t apart = s->in_place * (int64_t)sizeof(rdt_real);
  for (int r = 1; r < MR; ++r)
    if ((const char *)s->rows.at[i + r] - (const char *)s->rows.at[i] != r * apart) return false;
  return true;
}

/* A tile whose rows lie in place; with the first panel they come to the first-level cache, and are summed there. */
static void multiply_there(const rdt_native_strip *s, const sweep *w, int64_t i, int64_t j, const ahead *next,
                           V (*in)[NV], V (*out)[NV]) {
  const rdt_real *b = at(s->panels, (j * depth(s) + w->from) * NR, RDT_REAL_DTYPE);
  multiply_in_place((const rdt_real *)s->rows.at[i] + w->from, s->in_place, b, w->to - w->from, next, in, out);
  if (s->beta && j == s->from) pack_tile(s, i, MR, w->from, w->to, NULL, true);
}

static bool sweep_panel(rdt_native_strip *s, sweep *w, int64_t j) {
  const int64_t col = j * NR, n = w->to - w->from, group = group_of(s);
  const int nv = s->n - col > VL ? NV : 1;
  const rdt_dtype dtype = s->rows.dtype;
  const void *b = at(s->panels, (j * depth(s) + w->from) * NR, dtype);
  const rdt_real *a = w->packed;
  V(*parked)[NV] = (V(*)[NV])s->parked + (j - w->first) * s->tiles * MR;
  V done[MR][NV];
  place to = place_of(s, col);
  ahead next;
  fetch_panel(s, w, j, &next);
  fetch_rows(s, w, j, &next);
  bool good = true;
  for (int64_t i = 0, rows; i < s->rows.count; i += rows, a += MR * group, parked += MR) {
    V(*in)[NV] = w->from ? parked : NULL, (*out)[NV] = w->finish ? done : parked;
    rows = tile_rows(s->rows.count - i);
    move_down(&to, rows);
    next.rows = s->rows.at + i;
    next.count = rows;
    if (w->finish) fetch(&to);
#if RDT_INJECT
    const int64_t r = s->hit_row - i, c = s->hit_col - col, until = s->hit_k - w->from;
    if (s->hit && !s->hit_stored && r >= 0 && r < rows && c >= 0 && c < NR && until >= 0 && until <= n) {
      multiply_hit(a, b, dtype, n, in, out, s->hit, until, r, c);
      s->hit = NULL; /* the end of a block is where the next one begins */
    } else
#endif
        if (lies_in_place(s, i, rows))
      multiply_there(s, w, i, j, &next, in, out);
    else
      multiply_of(rows, nv, dtype)(a, b, n, &next, in, out);
    next.panel += next.pace * (n / TERMS);
    if (!w->finish && (s->forms & RDT_FORM_CHECKPOINTS)) observe_between(s, out, i, rows, col, nv);
    if (w->finish) good &= end_tile(s, w->finish, done, &to);
  }
  if (w->finish) flush_panel(s, j);
  if ((s->forms & RDT_FORM_COLUMNS) && s->last)
    meet(widen_panel(s, w, j), s->sides->a + w->from, n, &next, s->sides->met + col);
  return good;
}

/* The same with a check of units: the halves of each tile. */
static bool sweep_units(rdt_native_strip *s, sweep *w, int64_t j) {
  const int64_t col = j * NR, n = w->to - w->from, group = group_of(s);
  const int64_t vectors = extras(s->forms);
  unit_fn *const multiply_half_tile = unit_of(s->forms);
  const rdt_real *b = widen_panel(s, w, j);
  V(*parked)[NV] = (V(*)[NV])s->parked + (j - w->first) * s->tiles * MR;
  V *waiting = (V *)s->sides->parked + (j - w->first) * 2 * s->tiles * vectors;
  place to = place_of(s, col);
  ahead next;
  fetch_rows(s, w, j, &next);
  bool good = true;
  for (int64_t i = 0; i < s->rows.count; i += UNIT, parked += UNIT, waiting += vectors) {
    V done[UNIT][NV], sums[UNIT * NV];
    V(*in)[NV] = w->from ? parked : NULL, (*out)[NV] = w->finish ? done : parked;
    const V *const from = w->from ? waiting : NULL;
    V *const kept = w->finish ? sums : waiting;
    const rdt_real *a = w->packed + i / MR * MR * group + i % MR * VL;
    const int64_t rows = s->rows.count - i < UNIT ? s->rows.count - i : UNIT;
    move_down(&to, rows);
    if (w->finish) fetch(&to);
    fetch_lines(&next, s->rows.at + i, rows);
#if RDT_INJECT
    const int64_t r = s->hit_row - i, c = s->hit_col - col, until = s->hit_k - w->from;
    if (s->hit && !s->hit_stored && r >= 0 && r < rows && c >= 0 && c < NR && until >= 0 && until <= n) {
      multiply_half_tile(a, 0, b, until, in, out, from, kept);
      rdt_kernel_hit_apply(s->hit, (char *)&out[r][0] + c * (int64_t)sizeof(rdt_real), RDT_REAL_DTYPE);
      multiply_half_tile(a, until, b, n, out, out, kept, kept);
      s->hit = NULL;
    } else
#endif
      multiply_half_tile(a, 0, b, n, in, out, from, kept);
    if (!w->finish) continue;
    judge_unit(s, done, sums, i, col);
    good &= end_tile(s, w->finish, done, &to);
  }
  return good;
}

/* Units do not share what is left: their places do not depend on it. */
INLINE int64_t whole_rows(int64_t left) {
  return left < MR ? left : MR;
}

static void pack_block(const rdt_native_strip *s, const sweep *w) {
  const bool sums = s->beta && w->first == s->from;
  rdt_real *to = w->packed;
  for (int64_t i = 0, rows; i < s->rows.count; i += rows, to += group_of(s) * MR) {
    rows = s->forms & RDT_FORM_UNITS ? whole_rows(s->rows.count - i) : tile_rows(s->rows.count - i);
    if (!lies_in_place(s, i, rows)) pack_tile(s, i, rows, w->from, w->to, to, sums);
  }
  if (!(s->forms & RDT_FORM_COLUMNS) || w->first > s->from) return;
  fall(&s->rows, 0, s->rows.count, w->from, w->to, s->sides->u + s->first, &s->sides->alpha);
  for (int64_t t = w->from; s->last && t < w->to; ++t) s->sides->a[t] = (rdt_real)s->sides->alpha.dot[t];
}

#include "cpu/native_line_body.h"

static void strip(rdt_native_strip *s) {
  const int64_t whole = s->resident ? s->tiles * MR * group_of(s) : 0;
  bool good = true;
  if (is_line(s)) {
    if (!sweep_line(s)) s->differ = true;
    return;
  }
  for (sweep w = {.first = s->from}; w.first < s->to; w.first = w.end) {
    w.end = s->to - w.first < s->chunk ? s->to : w.first + s->chunk;
    w.from = 0;
    w.packed = s->packed;
    do {
      w.to = s->k - w.from <= s->block ? s->k : w.from + s->block;
      w.finish = w.to == s->k ? finish_of(s) : NULL;
      if (!s->resident || w.first == s->from) pack_block(s, &w);
      for (int64_t j = w.first; j < w.end; ++j)
        good &= s->forms & RDT_FORM_UNITS ? sweep_units(s, &w, j) : sweep_panel(s, &w, j);
      w.from = w.to;
      w.packed += whole;
    } while (w.from < s->k);
  }
  if (!good) s->differ = true;
}

const rdt_native_table NATIVE_TABLE = {.rows = MR,
                                       .cols = NR,
                                       .lanes = VL,
                                       .terms = TERMS,
                                       .unit = UNIT,
                                       .strip = strip,
                                       .turn = turn,
                                       .dots = dots,
                                       .down = down,
                                       .fall = fall,
                                       .inner = inner};
