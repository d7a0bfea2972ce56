#include "cpu/native/int8.h"

#include <omp.h>
#include <string.h>

#include "check/bitsum.h"
#include "check/findings.h"
#include "core/cpu_info.h"
#include "core/memory.h"
#include "cpu/epilogue.h"
#include "cpu/native/shares.h"
#include "cpu/threads.h"

/* A strip's rows stay in the second-level cache while all panels pass by, and its results until they are summed. */
enum {
  STRIP_BYTES = 640 << 10,
  STRIP_TILES = 32,
  MOST_THREADS = 256,
  LINE = 64,
  GROUP = 16 /* rows fetched at a time */
};

static int64_t panels(const rdt_int8 *s) {
  return rdt_up(s->n, s->table->cols) / s->table->cols;
}

/* Of a packed row, in bytes; rows whole pages apart would drive each other out of the first-level cache. */
static int64_t row_bytes(const rdt_int8 *s) {
  return rdt_up(s->words * 4, LINE) + LINE;
}

/* Rows of a strip, in whole tiles. */
static int64_t strip_rows(const rdt_int8 *s) {
  const int64_t mr = s->table->rows, fit = STRIP_BYTES / (row_bytes(s) + 4 * s->n) / mr;
  const int64_t tiles = fit < 2 ? 2 : fit > STRIP_TILES ? STRIP_TILES : fit;
  return rdt_least(tiles * mr, rdt_up(s->m, mr));
}

/* ---- weights ---- */

static size_t panel_bytes(const rdt_int8 *s) {
  return (size_t)(panels(s) * s->words * s->table->cols) * 4;
}

static size_t column_count(const rdt_int8 *s) {
  return (size_t)rdt_up(s->n, s->table->cols);
}

/* What a' and b' are more than an element less its zero point: P and Q. */
static int32_t excess_a(const rdt_int8 *s) {
  return s->table->unit == 2 ? 0 : s->zero[0] + rdt_int8_shift_a(s->table, s->is_signed[0]);
}
static int32_t excess_b(const rdt_int8 *s) {
  return s->table->unit == 2 ? 0 : s->zero[1] + rdt_int8_shift_b(s->table, s->is_signed[1]);
}

/* Segment g of column j of B */
static rdt_int8_bytes segment_of(const rdt_int8 *s, const uint8_t *b, int64_t g, int64_t j) {
  const int64_t width = s->window.kernel[1] > 0 ? s->window.kernel[1] : 1;
  return (rdt_int8_bytes){.x = b + g / width * s->outer[0] + g % width * s->outer[1] + j * s->apart,
                          .step = s->inner[1],
                          .n = s->length,
                          .is_signed = s->is_signed[1],
                          .zero = s->zero[1]};
}

/* Panels [from, to) of B, and what is added to their columns. */
static void pack_panels(const rdt_int8 *s, const uint8_t *b, char *to_panels, int32_t *columns, int64_t from,
                        int64_t to) {
  const int64_t nr = s->table->cols, bytes = s->words * nr * 4;
  const uint32_t p = (uint32_t)excess_a(s), kpq = (uint32_t)s->k * p * (uint32_t)excess_b(s);
  for (int64_t j = from; j < to; j++) {
    const int64_t cols = rdt_least(nr, s->n - j * nr);
    uint32_t sums[64] = {0};
    memset(to_panels + j * bytes, 0, (size_t)bytes);
    for (int64_t g = 0; g < s->segments; g++) {
      const rdt_int8_bytes run = segment_of(s, b, g, j * nr);
      s->table->panel(to_panels + j * bytes, g * s->length, &run, s->apart, cols, sums);
    }
    for (int64_t c = 0; c < nr; c++) columns[j * nr + c] = c < cols ? (int32_t)(kpq - p * sums[c]) : 0;
  }
}

rdt_status rdt_int8_pack(void *state, const rdt_tensor *w, rdt_reason *why) {
  rdt_int8 *s = state;
  int32_t *columns = (int32_t *)(void *)(s->packed + panel_bytes(s));
  (void)why;
  const int64_t count = panels(s);
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
  for (int64_t j = 0; j < count; j++) pack_panels(s, w->data, s->packed, columns, j, j + 1);
  return RDT_OK;
}

/* ---- state ---- */

/* Panels as these tables take them. weights: fixed ones, which are packed; NULL: others at each run */
static rdt_status lay_out(rdt_int8 *s, const rdt_int8_table *plain, const rdt_int8_table *inject,
                          const rdt_tensor *weights, rdt_reason *why) {
  size_t count;
  s->table = plain;
  s->inject = inject;
  s->words = rdt_up(s->k, plain->unit) / plain->unit;
  if (__builtin_mul_overflow((size_t)(s->words + 1), column_count(s), &count) ||
      __builtin_mul_overflow(count, (size_t)4, &s->packed_bytes))
    return rdt_fail(why, RDT_ERR_NOMEM, "packed weights of %lld x %lld do not fit the address space", (long long)s->k,
                    (long long)s->n);
  if (!weights) return RDT_OK;
  rdt_free(s->packed);
  s->packed = rdt_calloc(s->packed_bytes + 1, 1);
  if (!s->packed) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for %zu bytes of packed weights", s->packed_bytes);
  return rdt_int8_pack(s, weights, why);
}

/* Of neighbours in quads: 255 times both, added, is a number of 16 bits. */
static bool is_small(const rdt_int8 *s) {
  enum { MOST = INT16_MAX / UINT8_MAX };
  const int8_t *const x = (const int8_t *)s->packed;
  const int64_t bytes = (int64_t)panel_bytes(s);
  int32_t most = 0;
  for (int64_t i = 0; i < bytes; i += 2) {
    const int32_t both = (x[i] < 0 ? -x[i] : x[i]) + (x[i + 1] < 0 ? -x[i + 1] : x[i + 1]);
    most = both > most ? both : most;
  }
  return most <= MOST;
}

static rdt_status init(rdt_int8 *s, const rdt_problem *p, rdt_reason *why) {
  const rdt_int8_tables t = rdt_int8_tables_of();
  for (int i = 0; i < 2; i++) {
    s->is_signed[i] = p->in[i].dtype == RDT_S8;
    s->zero[i] = p->zero[i];
  }
  if (s->threads > MOST_THREADS) s->threads = MOST_THREADS;
  if (s->threads < 1) s->threads = 1;
  const bool one = p->op == RDT_KOP_CONV || rdt_batch_is_one(&p->in[1]); /* matrix for all of the batch */
  const rdt_tensor *const weights = p->in[1].data && one ? &p->in[1] : NULL;
  if (weights && t.small) {
    RDT_TRY(lay_out(s, t.small, t.small_inject, weights, why));
    if (is_small(s)) return RDT_OK;
  }
  return lay_out(s, t.plain, t.inject, weights, why);
}

void rdt_int8_packed(void *state, void **data, size_t *bytes, rdt_dtype *dtype) {
  const rdt_int8 *s = state;
  *data = s->packed;
  *bytes = s->packed ? s->packed_bytes : 0;
  *dtype = RDT_U8;
}

void rdt_int8_destroy(void *state) {
  rdt_int8 *s = state;
  if (!s) return;
  rdt_free(s->packed);
  rdt_free(s->own);
  rdt_free(s);
}

rdt_status rdt_int8_init(rdt_int8 *s, const rdt_problem *p, void **state, rdt_reason *why) {
  const rdt_status status = init(s, p, why);
  if (status == RDT_OK)
    *state = s;
  else
    rdt_int8_destroy(s);
  return status;
}

rdt_status rdt_int8_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_dtype a = p->in[0].dtype, b = p->in[1].dtype;
  if ((a != RDT_S8 && a != RDT_U8) || (b != RDT_S8 && b != RDT_U8))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes s8 and u8");
  return RDT_OK;
}

/* ---- memory of a run ---- */

typedef struct weights { /* B as panels, and the checksums of one that is not fixed, in halves */
  char *panels;
  int32_t *columns;
  uint32_t *beta;
  int16_t *low, *high;
} weights;

typedef struct sides {        /* what a thread sums beside its rows */
  uint32_t *alpha;            /* k: down A's rows, of all it has met or of those in a block */
  uint32_t *seen, *met;       /* columns: n, padded; observed and expected */
  uint32_t *blocks, *expects; /* blocks: down x across; the same */
} sides;

typedef struct worker { /* what one thread needs */
  char *rows, **out;
  int64_t *offset;
  int32_t *tiles, *lanes, *shifts;
  const uint8_t **runs;
  uint8_t *line;
  uint32_t *observed; /* m: where the threads share the columns */
  sides sides;
  weights own; /* where each thread has products of its own */
  bool differ;
  uint64_t bitsum;
  rdt_kernel_hit *hit, planted;
} worker;

typedef struct shared { /* what all threads read */
  int32_t *w, *u;
  uint32_t *beta; /* of blocks: k of each block of columns */
  float *factor, *bias;
  weights b;
} shared;

/* Each thread whole products, or all threads each product? */
static bool by_batch(const rdt_int8 *s) {
  return s->batches > 1 && s->batches >= s->threads;
}

/* At most, in either direction. */
static int64_t blocks_of(int64_t n) {
  return (n + RDT_TILE_SIDE - 1) / RDT_TILE_SIDE;
}

static weights take_weights(const rdt_int8 *s, rdt_layout *l) {
  weights b = {0};
  if (!s->packed) {
    b.panels = rdt_layout_take(l, (int64_t)panel_bytes(s), 1);
    b.columns = rdt_layout_take(l, (int64_t)column_count(s), sizeof(int32_t));
    b.beta = rdt_layout_take(l, s->k, sizeof(uint32_t));
  }
  b.low = rdt_layout_take(l, s->k, sizeof(int16_t));
  b.high = rdt_layout_take(l, s->k, sizeof(int16_t));
  return b;
}

static shared take_shared(const rdt_int8 *s, rdt_layout *l) {
  const int64_t padded = (int64_t)column_count(s);
  shared x = {.w = rdt_layout_take(l, padded, sizeof(int32_t))};
  if (s->sides) {
    x.u = rdt_layout_take(l, s->m, sizeof(int32_t));
    x.beta = rdt_layout_take(l, blocks_of(s->n) * s->k, sizeof(uint32_t));
  }
  x.factor = rdt_layout_take(l, padded, sizeof(float));
  x.bias = rdt_layout_take(l, padded, sizeof(float));
  if (s->packed || !by_batch(s)) x.b = take_weights(s, l);
  return x;
}

static sides take_sides(const rdt_int8 *s, rdt_layout *l) {
  const int64_t padded = (int64_t)column_count(s), blocks = blocks_of(s->m) * blocks_of(s->n);
  sides x = {.alpha = rdt_layout_take(l, s->k, sizeof(uint32_t))};
  x.seen = rdt_layout_take(l, padded, sizeof(uint32_t));
  x.met = rdt_layout_take(l, padded, sizeof(uint32_t));
  x.blocks = rdt_layout_take(l, blocks, sizeof(uint32_t));
  x.expects = rdt_layout_take(l, blocks, sizeof(uint32_t));
  return x;
}

/* Bytes from line to line of those that are copied: not whole pages. */
static int64_t line_bytes(const rdt_int8 *s) {
  return rdt_up(s->k, LINE) + LINE;
}

static worker take_worker(const rdt_int8 *s, rdt_layout *l) {
  const int64_t strip = strip_rows(s), rows = strip + (s->sides ? s->table->rows : 0); /* and a tile of A's sums */
  worker x = {.rows = rdt_layout_take(l, rows * row_bytes(s), 1)};
  x.out = rdt_layout_take(l, strip, sizeof(char *));
  x.offset = rdt_layout_take(l, strip, sizeof(int64_t));
  x.tiles = rdt_layout_take(l, rows * s->table->cols, sizeof(int32_t));
  x.lanes = rdt_layout_take(l, strip * s->table->lanes, sizeof(int32_t));
  x.shifts = rdt_layout_take(l, strip, sizeof(int32_t));
  x.runs = rdt_layout_take(l, s->segments, sizeof(uint8_t *));
  x.line = rdt_layout_take(l, (s->segments > 1 ? 1 : GROUP) * line_bytes(s), 1);
  x.observed = rdt_layout_take(l, s->m, sizeof(uint32_t));
  if (s->sides) x.sides = take_sides(s, l);
  if (!s->packed && by_batch(s)) x.own = take_weights(s, l);
  return x;
}

size_t rdt_int8_scratch(void *state, void *memory) {
  rdt_int8 *s = state;
  rdt_layout l = {NULL, 0};
  take_shared(s, &l);
  for (int i = 0; i < s->threads; i++) take_worker(s, &l);
  if (memory) rdt_layout_lend(&s->own, &s->lent, memory);
  return l.used;
}

static char *scratch(rdt_int8 *s) {
  return rdt_layout_memory(&s->own, s->lent, rdt_int8_scratch(s, NULL));
}

/* ---- a run ---- */

typedef struct call {
  const rdt_int8 *s;
  const rdt_int8_table *table;
  const rdt_operands *o;
  const uint8_t *x; /* of this product */
  char *out;
  int64_t row; /* of all products, where this one begins */
  weights b;
  bool wide; /* a checksum needs its upper half */
  rdt_fused *f;
  rdt_kernel_hit *hit;
  shared shared;
  rdt_int8_finish finish;
  size_t size;  /* of an element of the result */
  int64_t step; /* from column to column of it */
  bool by_columns, sums;
  int parts;
} call;

static void set_finish(call *c) {
  const rdt_epilogue *e = c->o->epilogue;
  const rdt_int8 *s = c->s;
  const rdt_dtype to = c->o->out.dtype;
  if (!e || e->factor.rank < 0) return;
  const int64_t padded = (int64_t)column_count(s);
  rdt_int8_finish *f = &c->finish;
  f->zero = e->zero;
  f->low = (float)((to == RDT_S8 ? -128 : 0) - e->zero);
  f->high = (float)((to == RDT_S8 ? 127 : 255) - e->zero);
  f->factor = c->shared.factor;
  if (e->bias.rank >= 0) f->bias = c->shared.bias;
  for (int64_t j = 0; j < padded; j++) {
    c->shared.factor[j] = j < s->n ? ((const float *)e->factor.data)[j * e->factor.stride[0]] : 0.0f;
    if (f->bias) c->shared.bias[j] = j < s->n ? (float)((const int32_t *)e->bias.data)[j * e->bias.stride[0]] : 0.0f;
  }
}

/* Threads share the rows, or the panels where the rows divide worse: each thread then packs all of A. */
static void set_shares(call *c) {
  const rdt_int8 *s = c->s;
  const int64_t mr = s->table->rows, tiles = rdt_up(s->m, mr) / mr, t = s->threads, p = panels(s);
  const int64_t rows = rdt_up(tiles, t) / t * p, cols = rdt_up(p, t) / t * tiles;
  c->by_columns = !by_batch(s) && 8 * cols < 7 * rows;
  c->parts = (int)rdt_least(t, by_batch(s) ? s->batches : c->by_columns ? p : tiles);
  if (c->parts < 1) c->parts = 1;
}

/* beta as low + 2^16 high; true: the upper halves count */
static bool halve(const rdt_int8 *s, weights *b, const double *beta) {
  bool wide = false;
  for (int64_t t = 0; t < s->k; t++) {
    const uint32_t x = beta ? (uint32_t)(int64_t)beta[t] : b->beta[t];
    b->low[t] = (int16_t)(uint16_t)x;
    b->high[t] = (int16_t)(uint16_t)((x - (uint32_t)(int32_t)b->low[t]) >> 16);
    wide = wide || b->high[t] != 0;
  }
  return wide;
}

/* The checksums of a B that is not fixed, from where it lies. */
static bool sum_weights(const call *c, weights *to, const uint8_t *b) {
  const rdt_int8 *s = c->s;
  memset(to->beta, 0, (size_t)s->k * sizeof *to->beta);
  for (int64_t g = 0; g < s->segments; g++) {
    const rdt_int8_bytes run = segment_of(s, b, g, 0);
    s->table->weigh(to->beta + g * s->length, &run, s->apart, s->n, c->shared.w);
  }
  return halve(s, to, NULL);
}

/* A row of A as bytes side by side: where it lies, or copied; its zero point stands for the padding. */
static const uint8_t *line_of(const rdt_int8 *s, const uint8_t **runs, uint8_t *line) {
  const int64_t length = s->length, step = s->inner[0];
  for (int64_t g = 0, n; g < s->segments; g += n) {
    const uint8_t *const x = runs[g];
    uint8_t *const to = line + g * length;
    for (n = 1; g + n < s->segments && x; n++) /* runs that lie one behind the other are one */
      if (runs[g + n] != x + n * length * step) break;
    if (n == s->segments && step == 1 && x) return x;
    if (!x)
      memset(to, s->zero[0], (size_t)length);
    else if (step == 1)
      memcpy(to, x, (size_t)(n * length));
    else
      for (int64_t t = 0; t < n * length; t++) to[t] = x[t * step];
  }
  return line;
}

/* Some of count rows of A from `row` on, as bytes side by side; how many. Rows of a transposed one are copied together.
 */
static int64_t lines_of(const call *c, const worker *w, int64_t row, int64_t count, const uint8_t **lines) {
  const rdt_int8 *s = c->s;
  const int64_t most = s->segments > 1 ? 1 : rdt_least(count, GROUP), ld = line_bytes(s);
  bool there = true, beside = true;
  for (int64_t i = 0; i < most; i++) {
    const uint8_t **const runs = s->segments > 1 ? w->runs : lines + i;
    s->point(s, c->x, row + i, runs);
    there = there && *runs;
    beside = beside && *runs == lines[0] + i;
  }
  if (s->segments == 1 && there && s->inner[0] == 1) return most;
  if (s->segments == 1 && there && beside && most > 1) {
    s->table->turn(lines[0], s->inner[0], most, s->k, w->line, ld);
    for (int64_t i = 0; i < most; i++) lines[i] = w->line + i * ld;
    return most;
  }
  if (s->segments == 1) w->runs[0] = lines[0];
  lines[0] = line_of(s, w->runs, w->line);
  return 1;
}

static rdt_int8_bytes bytes_of(const rdt_int8 *s, const uint8_t *line) {
  return (rdt_int8_bytes){.x = line, .step = 1, .n = s->k, .is_signed = s->is_signed[0], .zero = s->zero[0]};
}

/* As the inner loop wants it. */
static uint32_t pack_row(const rdt_int8 *s, const uint8_t *line, char *row) {
  const rdt_int8_bytes a = bytes_of(s, line);
  const int64_t size = 4 / s->table->unit;
  memset(row + s->k * size, 0, (size_t)(s->words * 4 - s->k * size));
  return s->table->pack(row, &a);
}

/* Sums down the rows of A, of a strip or of a group in it, times B's along each block of columns. */
static void expect_blocks(const call *c, worker *w, int64_t block) {
  const rdt_int8 *s = c->s;
  sides *x = &w->sides;
  const int64_t across = (s->n + c->f->block[1] - 1) / c->f->block[1];
  for (int64_t j = 0; j < across; j++)
    x->expects[block * across + j] += s->table->inner(x->alpha, c->shared.beta + j * s->k, s->k);
  memset(x->alpha, 0, (size_t)s->k * sizeof *x->alpha);
}

/* Of rows where the caller keeps them: what they are summed down to; last: of the strip. */
static void fall(const call *c, worker *w, const uint8_t *const *lines, int64_t row, int64_t count, bool last) {
  const rdt_int8 *s = c->s;
  const rdt_int8_bytes a = bytes_of(s, NULL);
  const int64_t high = c->f->forms & RDT_FORM_BLOCKS ? c->f->block[0] : s->m;
  for (int64_t i = 0, end; i < count; i = end) {
    const int64_t block = (row + i) / high, left = (block + 1) * high - row;
    end = rdt_least(count, left);
    s->table->fall(w->sides.alpha, lines + i, end - i, c->shared.u + row + i, &a);
    if ((c->f->forms & RDT_FORM_BLOCKS) && (end == left || (last && end == count))) expect_blocks(c, w, block);
  }
}

/* expect: what the check expects of these rows is this thread's to sum */
static void pack_rows(const call *c, worker *w, int64_t first, int64_t count, bool expect) {
  const rdt_int8 *s = c->s;
  const uint32_t q = (uint32_t)excess_b(s);
  const uint8_t *lines[GROUP];
  const unsigned forms = c->f ? c->f->forms : 0;
  const bool along = expect && (forms & RDT_FORM_ROWS);
  const bool down = (forms & RDT_FORM_COLUMNS) || (expect && (forms & RDT_FORM_BLOCKS));
  for (int64_t i = 0, n; i < count; i += n) {
    n = lines_of(c, w, first + i, count - i, lines);
    for (int64_t r = i; r < i + n; r++)
      w->shifts[r] = (int32_t)(0 - q * pack_row(s, lines[r - i], w->rows + r * row_bytes(s)));
    if (!along && !down) continue;
    __asm__ volatile("" : : : "memory"); /* they are read once more */
    lines_of(c, w, first + i, n, lines);
    for (int64_t r = 0; along && r < n; r++) {
      const rdt_int8_bytes a = bytes_of(s, lines[r]);
      c->f->expected.dot[c->row + first + i + r] = (double)s->table->dot(&a, c->b.low, c->wide ? c->b.high : NULL);
    }
    if (down) fall(c, w, lines, first + i, n, i + n == count);
  }
  const int64_t padded = rdt_up(count, s->table->rows);
  memset(w->rows + count * row_bytes(s), 0, (size_t)((padded - count) * row_bytes(s)));
}

/* The sums down A's rows behind the strip's, in digits that are multiplied as elements are. */
static int64_t pack_sums(const rdt_int8 *s, worker *w, int64_t count) {
  const int64_t at = rdt_up(count, s->table->rows), ld = row_bytes(s);
  char *const rows = w->rows + at * ld;
  memset(rows, 0, (size_t)(s->table->rows * ld));
  for (int64_t t = 0; t < s->k; t++) {
    const uint32_t x = w->sides.alpha[t];
    if (s->table->unit == 2) {
      const int16_t low = (int16_t)(uint16_t)x;
      ((int16_t *)(void *)rows)[t] = low;
      ((int16_t *)(void *)(rows + ld))[t] = (int16_t)(uint16_t)((x - (uint32_t)(int32_t)low) >> 16);
    } else {
      for (int d = 0; d < 4; d++) ((uint8_t *)rows)[d * ld + t] = (uint8_t)(x >> 8 * d);
    }
  }
  return at;
}

/* What is done with a strip's results while they lie in the cache. */
static void sum_strip(const call *c, worker *w, int64_t count, int64_t col, int64_t cols) {
  const char *const all = c->o->out.data;
  for (int64_t i = 0; i < count; i++)
    w->bitsum += rdt_bitsum_part(all, (size_t)(w->out[i] - all) + (size_t)col * c->size, (size_t)cols * c->size);
}

static void run_strip(const call *c, worker *w, int64_t first, int64_t count, int64_t from, int64_t to, bool expect,
                      bool last) {
  const rdt_int8 *s = c->s;
  const int64_t col = from * s->table->cols, cols = rdt_least(to * s->table->cols, s->n) - col;
  pack_rows(c, w, first, count, expect);
  s->place(s, &c->o->out, first, count, w->offset);
  for (int64_t i = 0; i < count; i++) w->out[i] = c->out + w->offset[i] * (int64_t)c->size;
  rdt_int8_strip t = {.rows = w->rows,
                      .ld = row_bytes(s),
                      .count = count,
                      .panels = c->b.panels,
                      .words = s->words,
                      .from = from,
                      .to = to,
                      .n = s->n,
                      .columns = excess_a(s) ? c->b.columns : NULL,
                      .shifts = excess_b(s) ? w->shifts : NULL,
                      .tiles = w->tiles,
                      .out = w->out,
                      .step = c->step,
                      .finish = c->finish,
                      .lanes = w->lanes};
  if (c->f) {
    t.forms = c->f->forms;
    t.w = c->shared.w;
    t.u = s->sides ? c->shared.u + first : NULL;
    t.first = first;
    t.observed = w->observed + first;
    t.seen = w->sides.seen;
    t.met = w->sides.met;
    t.blocks = (rdt_int8_blocks){.sums = w->sides.blocks, .size = {c->f->block[0], c->f->block[1]}};
    if (t.forms & RDT_FORM_BLOCKS) t.blocks.across = (s->n + t.blocks.size[1] - 1) / t.blocks.size[1];
    if (last && (t.forms & RDT_FORM_COLUMNS)) t.alpha = pack_sums(s, w, count);
  }
  if (w->hit) {
    const int64_t e = w->hit->element, j = e / s->plane % s->n;
    const int64_t row = e / (s->n * s->plane) * s->plane + e % s->plane - c->row - first;
    const bool here = row >= 0 && row < count && j >= col && j < col + cols;
    t.hit = here ? w->hit : NULL;
    t.hit_stored = c->f && c->f->hit_stored;
    t.hit_row = row;
    t.hit_col = j;
    t.hit_word = rdt_least((int64_t)(w->hit->position * (double)s->words), s->words);
  }
  c->table->strip(&t);
  if (t.differ) w->differ = true;
  if (c->sums) sum_strip(c, w, count, col, cols);
}

static rdt_span span_of(const call *c, int64_t part, int64_t parts) {
  return rdt_span_of(c->s->m, c->s->table->rows, panels(c->s), c->by_columns, part, parts);
}

static void begin_sides(const call *c, sides *x) {
  const rdt_int8 *s = c->s;
  const size_t padded = column_count(s), blocks = (size_t)(blocks_of(s->m) * blocks_of(s->n));
  memset(x->alpha, 0, (size_t)s->k * sizeof *x->alpha);
  memset(x->seen, 0, padded * sizeof *x->seen);
  memset(x->met, 0, padded * sizeof *x->met);
  memset(x->blocks, 0, blocks * sizeof *x->blocks);
  memset(x->expects, 0, blocks * sizeof *x->expects);
}

/* What is wrong with the sums of columns by what is the same in each: Q times A's sums, and -x that counted as ~x. */
static void end_columns(const call *c, sides *x, const rdt_span *all) {
  const rdt_int8 *s = c->s;
  uint32_t sum = 0, minus = 0;
  for (int64_t t = 0; t < s->k; t++) sum += x->alpha[t];
  for (int64_t i = all->begin; i < all->end; i++) minus -= (uint32_t)c->shared.u[i];
  const int64_t end = rdt_least(all->to * s->table->cols, s->n);
  for (int64_t j = all->from * s->table->cols; j < end; j++) {
    x->met[j] -= (uint32_t)excess_b(s) * sum;
    x->seen[j] += minus;
  }
}

/* One product, or a thread's share of it. */
static void run_part(const call *c, worker *w, int64_t part, int64_t parts) {
  const rdt_int8 *s = c->s;
  const rdt_span all = span_of(c, part, parts);
  const int64_t most = strip_rows(s), begin = all.begin, end = all.end;
  const unsigned forms = c->f ? c->f->forms : 0;
  int64_t number = 0;
  if (forms & RDT_FORM_ROWS) memset(w->observed + begin, 0, (size_t)(end - begin) * sizeof *w->observed);
  if (forms & ~RDT_FORM_ROWS) begin_sides(c, &w->sides);
  for (int64_t i = begin; i < end; i += most, number++)
    run_strip(c, w, i, rdt_least(most, end - i), all.from, all.to, c->f && (!c->by_columns || number % parts == part),
              i + most >= end);
  for (int64_t i = begin; (forms & RDT_FORM_ROWS) && !c->by_columns && i < end; i++)
    c->f->observed.dot[c->row + i] = (double)w->observed[i];
  if (forms & RDT_FORM_COLUMNS) end_columns(c, &w->sides, &all);
}

static int64_t batch_offset(const rdt_int8 *s, const int64_t *stride, int64_t batch) {
  return rdt_batch_offset(s->batch_rank, s->batch_shape, stride, batch);
}

/* Product number `batch` of the call. */
static call product_of(const call *all, int64_t batch) {
  const rdt_int8 *s = all->s;
  call c = *all;
  c.x += batch_offset(s, s->batch_stride[0], batch);
  c.out += batch_offset(s, all->o->out.stride, batch) * (int64_t)c.size;
  c.row = batch * s->m;
  return c;
}

static const uint8_t *matrix_of(const call *c, int64_t batch) {
  return (const uint8_t *)c->o->in[1].data + batch_offset(c->s, c->s->batch_stride[1], batch);
}

/* Whole products, one after the other. */
static void run_products(const call *c, worker *w, int part) {
  const rdt_int8 *s = c->s;
  const int64_t first = s->batches * part / c->parts, end = s->batches * (part + 1) / c->parts;
  const int64_t from[2] = {first * s->m, 0}, to[2] = {end * s->m, s->n};
  rdt_share_begin(c->o->shares, part, from, to);
  w->hit = rdt_share_plant(c->hit, &w->planted, from, to, c->s->n, c->s->plane);
  for (int64_t b = first; b < end; b++) {
    call one = product_of(c, b);
    if (!s->packed) {
      one.b = w->own;
      pack_panels(s, matrix_of(c, b), one.b.panels, one.b.columns, 0, panels(s));
      if (c->f) one.wide = sum_weights(&one, &w->own, matrix_of(c, b));
    }
    run_part(&one, w, 0, 1);
  }
  rdt_share_end(c->o->shares, part, w->differ);
}

/* A thread's share of one product. */
static void run_share(const call *c, worker *w, int part) {
  const rdt_int8 *s = c->s;
  const rdt_span all = span_of(c, part, c->parts);
  const int64_t from[2] = {c->row + all.begin, all.from * s->table->cols};
  const int64_t to[2] = {c->row + all.end, rdt_least(all.to * s->table->cols, s->n)};
  rdt_shares *const known = s->batches == 1 ? c->o->shares : NULL;
  rdt_share_begin(known, part, from, to);
  w->hit = rdt_share_plant(c->hit, &w->planted, from, to, c->s->n, c->s->plane);
  run_part(c, w, part, c->parts);
  rdt_share_end(known, part, w->differ);
}

/* Where the threads share the columns, each has seen a part of every row. */
static void join_rows(const call *c, const worker *w) {
  for (int64_t i = 0; c->f && (c->f->forms & RDT_FORM_ROWS) && c->by_columns && i < c->s->m; i++) {
    uint32_t sum = 0;
    for (int t = 0; t < c->parts; t++) sum += w[t].observed[i];
    c->f->observed.dot[c->row + i] = (double)sum;
  }
}

/* All threads on each product. */
static void run_together(const call *c, worker *workers) {
  const rdt_int8 *s = c->s;
  const int parts = c->parts;
  for (int64_t b = 0; b < s->batches; b++) {
    call one = product_of(c, b);
    if (!s->packed) {
      const int64_t count = panels(s);
#pragma omp parallel for num_threads(parts) schedule(static) if (parts > 1)
      for (int64_t j = 0; j < count; j++) pack_panels(s, matrix_of(c, b), one.b.panels, one.b.columns, j, j + 1);
      if (c->f) one.wide = sum_weights(&one, &one.b, matrix_of(c, b));
    }
#pragma omp parallel for num_threads(parts) schedule(static, 1) if (parts > 1)
    for (int i = 0; i < parts; i++) run_share(&one, &workers[i], i);
    join_rows(&one, workers);
  }
}

static void set_check(call *c) {
  const rdt_int8 *s = c->s;
  const rdt_fused *f = c->f;
  const int64_t padded = (int64_t)column_count(s);
  for (int64_t j = 0; j < padded; j++) c->shared.w[j] = j < s->n && f->w[j] < 0.0 ? -1 : 0;
  for (int64_t i = 0; f->u && i < s->m; i++) c->shared.u[i] = f->u[i] < 0.0 ? -1 : 0;
  if (s->packed && (f->forms & RDT_FORM_ROWS)) c->wide = halve(s, &c->b, f->beta.dot);
  const int64_t across = f->forms & RDT_FORM_BLOCKS ? (s->n + f->block[1] - 1) / f->block[1] : 0;
  for (int64_t t = 0; t < across * s->k; t++) c->shared.beta[t] = (uint32_t)(int64_t)f->beta.dot[t];
}

static void join_sums(double *to, const uint32_t *from, int64_t n, bool first) {
  for (int64_t i = 0; i < n; i++) to[i] = (first ? 0.0 : to[i]) + (double)from[i];
}

/* The threads' findings. */
static void join(const call *c, const worker *w) {
  rdt_fused *f = c->f;
  const rdt_int8 *s = c->s;
  f->differ = false;
  f->bitsum = 0;
  f->most = 0.0;
  for (int t = 0; t < c->parts; t++) {
    const sides *x = &w[t].sides;
    f->differ = f->differ || w[t].differ;
    f->bitsum += w[t].bitsum;
    if (f->forms & RDT_FORM_COLUMNS) {
      join_sums(f->columns_expected.dot, x->met, s->n, t == 0);
      join_sums(f->columns_observed.dot, x->seen, s->n, t == 0);
    }
    if (f->forms & RDT_FORM_BLOCKS) {
      const int64_t down = (s->m + f->block[0] - 1) / f->block[0], across = (s->n + f->block[1] - 1) / f->block[1];
      join_sums(f->blocks_expected.dot, x->expects, down * across, t == 0);
      join_sums(f->blocks_observed.dot, x->blocks, down * across, t == 0);
    }
  }
  if (f->seal && rdt_epilogue_sums(&c->o->out) && !c->sums)
    f->bitsum = rdt_bitsum(c->o->out.data, (size_t)rdt_tensor_count(&c->o->out) * c->size);
}

static rdt_status run(rdt_int8 *s, const rdt_operands *o, rdt_fused *f, rdt_kernel_hit *hit, rdt_reason *why) {
  worker workers[MOST_THREADS];
  if (s->m < 1 || s->n < 1 || s->batches < 1) { /* nothing to write, and nothing to check */
    if (f) f->differ = false;
    return RDT_OK;
  }
  rdt_layout l = {scratch(s), 0};
  if (!l.base) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a product's strips");
  call c = {.s = s,
            .table = hit ? s->inject : s->table,
            .o = o,
            .x = o->in[0].data,
            .out = o->out.data,
            .f = f,
            .hit = hit,
            .shared = take_shared(s, &l),
            .size = rdt_dtype_size(o->out.dtype)};
  c.b = c.shared.b;
  if (s->packed) {
    c.b.panels = s->packed;
    c.b.columns = (int32_t *)(void *)(s->packed + panel_bytes(s));
  }
  c.step = s->n > 1 ? o->out.stride[s->column_dim] : 1;
  c.sums = f && f->seal && rdt_epilogue_sums(&o->out) && c.step == 1;
  set_finish(&c);
  set_shares(&c);
  if (f) set_check(&c);
  for (int i = 0; i < c.parts; i++) workers[i] = take_worker(s, &l);
  if (by_batch(s) || s->batches == 1) rdt_shares_expect(o->shares, c.parts);
  if (by_batch(s)) {
#pragma omp parallel for num_threads(c.parts) schedule(static, 1) if (c.parts > 1)
    for (int i = 0; i < c.parts; i++) run_products(&c, &workers[i], i);
  } else {
    run_together(&c, workers);
  }
  for (int i = 0; hit && hit->everywhere && i < c.parts; i++)
    if (workers[i].planted.done) *hit = workers[i].planted;
  if (f) join(&c, workers);
  return RDT_OK;
}

rdt_status rdt_int8_run(void *state, const rdt_operands *o, rdt_reason *why) {
  return run(state, o, NULL, NULL, why);
}

rdt_status rdt_int8_run_inject(void *state, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  return run(state, o, NULL, hit, why);
}

rdt_status rdt_int8_run_fused(void *state, const rdt_operands *o, rdt_fused *f, rdt_reason *why) {
  return run(state, o, f, f->hit, why);
}

rdt_status rdt_int8_fixed(void *state, rdt_vault *frame) {
  rdt_int8 *s = state;
  const size_t from = offsetof(rdt_int8, point); /* before it lies the scratch, which is lent */
  RDT_TRY(rdt_vault_add(frame, s, offsetof(rdt_int8, own)));
  return rdt_vault_add(frame, (char *)s + from, sizeof *s - from);
}
