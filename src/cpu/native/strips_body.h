#include <omp.h>
#include <string.h>

#include "check/bitsum.h"
#include "check/findings.h"
#include "core/cpu_info.h"
#include "core/memory.h"
#include "cpu/epilogue.h"
#include "cpu/maps.h"
#include "cpu/native/native.h"
#include "cpu/native/panels_body.h"
#include "cpu/native/shares.h"

enum {
  BLOCK =
      RDT_REAL_DTYPE == RDT_F64 ? 256 : 320, /* of the reduction: with 16 columns, two thirds of a first-level cache */
  STRIP_TILES = 11,       /* rows of a strip: a block of them stays in the second-level cache while panels pass by */
  PARK_BYTES = 512 << 10, /* and so do the accumulators that wait */
  FEW_BYTES = 512 << 10,  /* or all of the rows */
  FEW_COLUMNS = 128,      /* of the result: packing rows does not pay for them */
  WHOLE = 1152,           /* terms that then go as one block: no accumulator rests */
  PAGE = 4096,            /* bytes: addresses so far apart meet in one set of the first-level cache */
  SEGMENTS = 8,           /* between checkpoints */
  MOST_THREADS = 256
};

static const rdt_native_table *table(bool inject) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      return inject ? &rdt_native_avx512_inject : &rdt_native_avx512;
    case RDT_ISA_AVX2:
      return inject ? &rdt_native_avx2_inject : &rdt_native_avx2;
    default:
      break;
  }
#endif
  return inject ? &rdt_native_generic_inject : &rdt_native_generic;
}

static const rdt_map_table *maps(void) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      return &rdt_maps_avx512;
    case RDT_ISA_AVX2:
      return &rdt_maps_avx2;
    default:
      break;
  }
#endif
  return &rdt_maps_generic;
}

/* NaN stays. */
static rdt_real greatest(rdt_real a, rdt_real b) {
  return a > b ? a : b;
}

/* Panels that a strip takes at a time, in such blocks: all of them or segments. */
static int64_t chunk(const rdt_native *s, int64_t block) {
  return s->chunk[block != s->block];
}

static int64_t count_chunk(const rdt_native *s, int64_t block) {
  if (block == s->block && s->resident) return 1;
  const int64_t all = s->panels;
  if (block >= s->k || s->m < 1) return all;
  const int64_t fit = PARK_BYTES / (s->strip * s->table->cols * (int64_t)sizeof(rdt_real)), room = fit < 1 ? 1 : fit;
  if (room >= all) return all;
  const int64_t pieces = (all + room - 1) / room;
  return (all + pieces - 1) / pieces;
}

/* One product whose weights are fixed, or packed by all threads when it runs: they share it. */
static bool is_one(const rdt_native *s) {
  return s->packed || s->batches == 1;
}

/* Threads share the rows, or the panels where the rows divide worse: each thread then reads all of A. */
static void set_shares(rdt_native *s, bool one) {
  const int64_t mr = s->table->rows, tiles = rdt_up(s->m, mr) / mr, t = s->threads, p = s->panels;
  const int64_t rows = rdt_up(tiles, t) / t * p, cols = rdt_up(p, t) / t * tiles;
  s->by_columns = one && 16 * cols < 15 * rows;
  s->parts = (int)rdt_least(t, !one ? s->batches : s->by_columns ? p : tiles);
}

/* What every run would divide for anew. */
static void count_pieces(rdt_native *s, bool fixed) {
  s->padded = rdt_up(s->n, s->table->cols);
  s->panels = s->padded / s->table->cols;
  set_shares(s, fixed || s->batches == 1);
  s->strip = rdt_least(STRIP_TILES * s->table->rows, rdt_up(s->m, s->table->rows)); /* rows, in whole tiles */
  /* Few rows wait for weights that come from memory: each panel is then read from its begin to its end. */
  s->resident =
      s->block < s->k && s->m >= 1 && s->m <= s->strip && s->k <= FEW_BYTES / (int64_t)sizeof(rdt_real) / s->strip;
  /* Of the reduction, where checkpoints are asked for: eight blocks. */
  s->segment = rdt_least(s->block, rdt_up((s->k + SEGMENTS - 1) / SEGMENTS, 8));
  s->blocks[0] = s->k > 0 ? (s->k + s->block - 1) / s->block : 0;
  s->blocks[1] = s->k > 0 ? (s->k + s->segment - 1) / s->segment : 0;
  s->gathered = rdt_up(s->block, s->table->lanes) * (s->resident ? s->blocks[0] : 1);
  s->chunk[0] = count_chunk(s, s->block);
  s->chunk[1] = count_chunk(s, s->segment);
}

/* ---- state ---- */

/* Few panels do not pay for packing where a panel's row is two cache lines; with shorter vectors nothing is gained once
 * there is a check (AVX2, 64 columns: 1.12 of oneDNN either way). */
static int64_t count_in_place(const rdt_native *s) {
  const int64_t last = s->n % s->table->cols, bytes = s->apart % PAGE * size_of(RDT_REAL_DTYPE);
  const bool rows = s->dtype == RDT_REAL_DTYPE && s->segments == 1 && s->step == 1 && s->apart > 0;
  const bool panels = s->n <= FEW_COLUMNS && (last == 0 || last > s->table->lanes);
  const bool wide = s->table->cols * size_of(RDT_REAL_DTYPE) > 64;
  return wide && rows && panels && bytes % (PAGE / 2) != 0 ? s->apart : 0;
}

static size_t scratch_bytes(const rdt_native *s);

rdt_status rdt_native_init(rdt_native *s, bool fixed, rdt_reason *why) {
  s->table = table(false);
  s->inject = table(true);
#if RDT_REAL != 64 && defined(__x86_64__)
  if (s->dot) s->table = &rdt_native_avx512_dot, s->inject = &rdt_native_avx512_dot_inject;
#endif
  if (s->threads > MOST_THREADS) s->threads = MOST_THREADS;
  size_t count;
  if (__builtin_mul_overflow((size_t)depth(s), (size_t)rdt_up(s->n, s->table->cols), &count) ||
      __builtin_mul_overflow(count, rdt_dtype_size(s->dtype), &s->packed_bytes))
    return rdt_fail(why, RDT_ERR_NOMEM, "packed weights of %lld x %lld do not fit the address space", (long long)s->k,
                    (long long)s->n);
  const int64_t most = BLOCK * s->table->terms, blocks = (s->k + most - 1) / most;
  s->block = blocks > 1 ? rdt_up((s->k + blocks - 1) / blocks, 8) : s->k;
  s->in_place = count_in_place(s);
  if (s->in_place && s->k <= WHOLE) s->block = s->k;
  count_pieces(s, fixed);
  s->packed = fixed ? rdt_alloc(s->packed_bytes, 1) : NULL;
  if (fixed && !s->packed)
    return rdt_fail(why, RDT_ERR_NOMEM, "no memory for %zu bytes of packed weights", s->packed_bytes);
  s->scratch = scratch_bytes(s);
  return RDT_OK;
}

void rdt_native_packed(void *state, void **data, size_t *bytes, rdt_dtype *dtype) {
  const rdt_native *s = state;
  *data = s->packed;
  *bytes = s->packed ? s->packed_bytes : 0;
  *dtype = s->dtype;
}

void rdt_native_destroy(void *state) {
  rdt_native *s = state;
  if (!s) return;
  rdt_free(s->packed);
  rdt_free(s->own);
  rdt_free(s);
}

rdt_status rdt_native_accept(const rdt_problem *p, rdt_native_operands operands, rdt_reason *why) {
  const bool half = operands != RDT_NATIVE_REAL;
  const rdt_dtype a = p->in[0].dtype, b = p->in[1].dtype, c = p->out.dtype;
  const rdt_epilogue *e = &p->epilogue;
  const rdt_fn fn = e->act.fn;
  if (half && !(rdt_dtype_is_half(a) && a == b && (c == a || c == RDT_F32)))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes bf16 and f16");
  if (operands == RDT_NATIVE_DOT && a != RDT_BF16) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes bf16");
  if (operands == RDT_NATIVE_DOT && (rdt_isa_detect() < RDT_ISA_AVX512 || !rdt_cpu_has_bf16()))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "needs AVX-512 and its dot products of bf16");
  if (operands == RDT_NATIVE_DOT && !rdt_cpu_has_fast_bf16())
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "dot products of bf16 are slower here than multiply-adds of f32");
  if (!half && !(a == RDT_REAL_DTYPE && b == RDT_REAL_DTYPE && c == RDT_REAL_DTYPE))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes %s", rdt_dtype_name(RDT_REAL_DTYPE));
  if (e->residual.rank >= 0 && e->residual.dtype != RDT_REAL_DTYPE && !(half && rdt_dtype_is_half(e->residual.dtype)))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes no residual of %s", rdt_dtype_name(e->residual.dtype));
  if (fn != RDT_FN_NONE && !rdt_map_find(maps(), fn, RDT_REAL_DTYPE))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "has no %s in %s", rdt_fn_info(fn)->name, rdt_dtype_name(RDT_REAL_DTYPE));
  return RDT_OK;
}

/* ---- memory of a run ---- */

typedef struct worker { /* what one thread needs */
  const void **rows;
  rdt_real *packed, *widened, *parked, *lanes, *line;
  rdt_pair observed; /* where the threads share the columns */
  double *between;   /* and there */
  void *panels;      /* of a B that is not fixed */
  rdt_real *beta, *rho;
  rdt_pair sums;
  bool differ;
  double most; /* of rho */
  rdt_native_sides sides;
  uint64_t bitsum;
  rdt_kernel_hit *hit, own; /* what is planted here */
} worker;

typedef struct shared { /* what all threads read */
  rdt_real *bias, *beta, *rho, *u, *ones, *zeros;
  void *panels;
} shared;

static shared take_shared(const rdt_native *s, rdt_layout *l) {
  shared x = {.bias = rdt_layout_take(l, s->padded, sizeof(rdt_real))};
  x.beta = rdt_layout_take(l, s->k, sizeof(rdt_real));
  x.rho = rdt_layout_take(l, s->k, sizeof(rdt_real));
  x.u = s->sides ? rdt_layout_take(l, rdt_up(s->m, s->table->rows), sizeof(rdt_real)) : NULL;
  x.ones = s->packed ? NULL : rdt_layout_take(l, s->n, sizeof(rdt_real));
  x.zeros = rdt_layout_take(l, s->length, sizeof(rdt_real));
  x.panels = !s->packed && is_one(s) ? rdt_layout_take(l, (int64_t)s->packed_bytes, 1) : NULL;
  return x;
}

static rdt_pair take_pair(rdt_layout *l, int64_t n) {
  rdt_pair x = {.dot = rdt_layout_take(l, n, sizeof(double))};
  x.sq = rdt_layout_take(l, n, sizeof(double));
  return x;
}

static int64_t blocks_down(const rdt_native *s) {
  return (s->m + RDT_TILE_SIDE - 1) / RDT_TILE_SIDE;
}

static int64_t blocks_across(const rdt_native *s) {
  return (s->n + RDT_TILE_SIDE - 1) / RDT_TILE_SIDE;
}

static rdt_native_sides take_sides(const rdt_native *s, rdt_layout *l) {
  const int64_t padded = s->padded, rows = s->strip;
  rdt_native_sides x = {.alpha = take_pair(l, s->k)};
  x.a = rdt_layout_take(l, s->k, sizeof(rdt_real));
  x.lanes = rdt_layout_take(l, 2 * (rows + s->table->cols), sizeof(rdt_real) * (size_t)s->table->lanes);
  x.met = rdt_layout_take(l, padded, sizeof(double));
  x.columns_between = rdt_layout_take(l, padded, sizeof(double));
  x.blocks_between = rdt_layout_take(l, blocks_down(s) * blocks_across(s), sizeof(double));
  x.seen = take_pair(l, padded);
  x.blocks = take_pair(l, blocks_down(s) * blocks_across(s));
  x.expected = take_pair(l, blocks_down(s) * blocks_across(s));
  if (s->block < s->k) x.parked = rdt_layout_take(l, rows * chunk(s, s->block) * s->table->cols, sizeof(rdt_real));
  return x;
}

static void take_worker(const rdt_native *s, rdt_layout *l, bool sides, worker *x) {
  const int64_t rows = s->strip;
  const int64_t pointers = s->segments * rows;
  *x = (worker){.rows = rdt_layout_take(l, s->packed || s->k < pointers ? pointers : s->k, sizeof(void *))};
  x->packed = rdt_layout_take(l, rows * s->gathered, sizeof(rdt_real));
  if (s->sides && s->dtype != RDT_REAL_DTYPE)
    x->widened = rdt_layout_take(l, s->block * s->table->cols, sizeof(rdt_real));
  const int64_t waiting = chunk(s, s->segment), other = chunk(s, s->block);
  if (s->segment < s->k)
    x->parked = rdt_layout_take(l, rows * (waiting > other ? waiting : other) * s->table->cols, sizeof(rdt_real));
  x->lanes = rdt_layout_take(l, 2 * rows * s->table->lanes, sizeof(rdt_real));
  x->line = rdt_layout_take(l, s->n, sizeof(rdt_real));
  if (!s->packed) {
    x->sums.dot = rdt_layout_take(l, s->k, sizeof(double));
    x->sums.sq = rdt_layout_take(l, s->k, sizeof(double));
  }
  if (!is_one(s)) {
    x->panels = rdt_layout_take(l, (int64_t)s->packed_bytes, 1);
    x->beta = rdt_layout_take(l, s->k, sizeof(rdt_real));
    x->rho = rdt_layout_take(l, s->k, sizeof(rdt_real));
  } else if (s->threads > 1) {
    x->observed = take_pair(l, s->m);
    x->between = rdt_layout_take(l, s->m, sizeof(double));
  }
  if (s->sides && sides) x->sides = take_sides(s, l);
}

/* Counted once, when all else is known. */
static size_t scratch_bytes(const rdt_native *s) {
  rdt_layout l = {NULL, 0};
  if (s->m < 1 || s->n < 1 || s->batches < 1) return 0;
  take_shared(s, &l);
  worker x;
  for (int i = 0; i < s->threads; i++) take_worker(s, &l, true, &x);
  return l.used;
}

size_t rdt_native_scratch(void *state, void *memory) {
  rdt_native *s = state;
  if (memory) rdt_layout_lend(&s->own, &s->lent, memory);
  return s->scratch;
}

static char *scratch(rdt_native *s) {
  return rdt_layout_memory(&s->own, s->lent, s->scratch);
}

/* ---- a run ---- */

typedef struct call {
  const rdt_native *s;
  const rdt_native_table *table;
  const rdt_epilogue *e;
  const char *x, *b; /* of this product */
  const void *panels;
  const rdt_real *beta, *rho;
  char *out, *memory; /* of this product; of all of them */
  int64_t block;      /* of the reduction */
  int64_t row;        /* of all of them, where this product begins */
  int64_t ld, step;   /* of this run's result: the final one may lie otherwise than the raw one */
  const int64_t *out_stride;
  rdt_fused *f; /* NULL: no check */
  rdt_kernel_hit *hit;
  rdt_shares *shares;
  shared shared;
  rdt_native_finish finish;
  rdt_map_run *map; /* an activation that the tiles do not have, of results that are not rounded any more */
  bool sums;
} call;

static void to_reals(rdt_real *to, const double *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = (rdt_real)from[i];
}

/* From row to row, or from pixel to pixel: a stride along more than one element, others say nothing. */
static int64_t row_stride(const rdt_native *s, const rdt_tensor *t) {
  return t->stride[s->ow != 1 ? s->row_dim : s->oh > 1 ? 2 : 0];
}

static int64_t column_stride(const rdt_native *s, const rdt_tensor *t) {
  return t->stride[s->window.groups ? 1 : t->rank - 1];
}

static void set_finish(call *c, rdt_dtype dtype) {
  const rdt_epilogue *e = c->e;
  rdt_native_finish *f = &c->finish;
  const rdt_native *s = c->s;
  *f = (rdt_native_finish){.alpha = 1.0f, .dtype = dtype};
  if (!e) return;
  f->alpha = (rdt_real)e->alpha;
  f->beta = (rdt_real)e->beta;
  if (e->bias.rank >= 0) {
    memset(c->shared.bias, 0, (size_t)s->padded * sizeof(rdt_real));
    for (int64_t j = 0; j < s->n; j++)
      c->shared.bias[j] = (rdt_real)rdt_load(e->bias.data, e->bias.dtype, j * e->bias.stride[0]);
    f->bias = c->shared.bias;
  }
  if (e->residual.rank >= 0) {
    f->residual = e->residual.data;
    f->residual_dtype = e->residual.dtype;
    f->residual_ld = row_stride(s, &e->residual);
    f->residual_step = column_stride(s, &e->residual);
  }
  if (e->act.fn == RDT_FN_RELU) {
    f->bound = RDT_BOUND_RELU;
  } else if (e->act.fn == RDT_FN_CLIP) {
    f->bound = RDT_BOUND_CLIP;
    f->low = (rdt_real)e->act.param[0];
    f->high = (rdt_real)e->act.param[1];
  } else if (e->act.fn != RDT_FN_NONE) {
    rdt_map_run *const map = rdt_map_find(maps(), e->act.fn, RDT_REAL_DTYPE);
    if (dtype == RDT_REAL_DTYPE)
      c->map = map;
    else
      f->map = map;
    f->param = e->act.param;
  }
}

/* The activation of a line of results where they lie; with a check twice, once beside and once in place. */
static bool map_line(const call *c, const worker *w, rdt_real *line, int64_t n) {
  const void *from = line;
  if (!c->f) {
    c->map(line, &from, n, c->e->act.param);
    return true;
  }
  c->map(w->line, &from, n, c->e->act.param);
  c->map(line, &from, n, c->e->act.param);
  return memcmp(w->line, line, (size_t)n * sizeof(rdt_real)) == 0;
}

/* What is done with a strip's results while they lie in the cache. */
static void end_strip(const call *c, worker *w, int64_t first, int64_t count, int64_t col, int64_t cols) {
  if (!c->map && !c->sums) return;
  const size_t size = (size_t)size_of(c->finish.dtype); /* with a map, of rdt_real */
  const int64_t ld = c->ld, step = c->step, at = (c->out - c->memory) / (int64_t)size + first * ld + col * step;
  for (int64_t i = 0; c->map && i < count; i++)
    if (!map_line(c, w, (rdt_real *)c->memory + at + i * ld, cols)) w->differ = true;
  if (!c->sums) return;
  const bool rows = step == 1, one = rows ? ld == cols : ld == 1; /* what lies side by side, one after the other */
  const int64_t lines = rows ? count : cols, length = rows ? cols : one ? count : 1, apart = rows ? ld : step;
  if (rows && one) {
    w->bitsum += rdt_bitsum_part(c->memory, (size_t)at * size, (size_t)(lines * length) * size);
    return;
  }
  for (int64_t r = 0; r < (rows ? length : count); r += length)
    w->bitsum += rdt_bitsum_rows(c->memory, (size_t)(at + (rows ? 0 : r * ld)) * size, (size_t)length * size,
                                 (size_t)apart * size, (size_t)lines);
}

/* Are there sums along A's rows? Units take the squares for their bounds. */
static bool along_rows(const call *c) {
  return c->f->forms & (RDT_FORM_ROWS | RDT_FORM_ONE_SIDED | RDT_FORM_TWO_SIDED | RDT_FORM_SUMMED);
}

/* Sums down A's rows of each block that a strip meets, times B's along each block of columns. */
static void expect_blocks(const call *c, rdt_native_sides *x, const rdt_native_rows *rows, int64_t first) {
  const rdt_native *s = c->s;
  for (int64_t i = 0, end; i < rows->count; i = end) {
    const int64_t block = (first + i) / x->block[0];
    end = rdt_least((block + 1) * x->block[0] - first, rows->count);
    memset(x->alpha.dot, 0, (size_t)s->k * sizeof(double));
    memset(x->alpha.sq, 0, (size_t)s->k * sizeof(double));
    s->table->fall(rows, i, end, 0, s->k, x->u + first, &x->alpha);
    for (int64_t t = 0; t < s->k; t++) {
      const double sq = x->alpha.dot[t] * x->alpha.dot[t];
      if (!(sq <= x->alpha.sq[t])) x->alpha.sq[t] = sq;
    }
    for (int64_t j = 0; j < x->across; j++) {
      x->expected.dot[block * x->across + j] += s->table->inner(x->alpha.dot, c->f->beta.dot + j * s->k, s->k);
      x->expected.sq[block * x->across + j] += s->table->inner(x->alpha.sq, c->f->beta.sq + j * s->k, s->k);
    }
  }
}

static void clear_pair(const rdt_pair *x, int64_t n) {
  memset(x->dot, 0, (size_t)n * sizeof(double));
  memset(x->sq, 0, (size_t)n * sizeof(double));
}

/* What a thread adds to. */
static void begin_sides(const call *c, rdt_native_sides *x) {
  const rdt_native *s = c->s;
  const int64_t padded = s->padded, rows = s->strip;
  const unsigned forms = c->f->forms;
  x->u = c->shared.u;
  x->rows = s->m;
  memset(x->lanes, 0, (size_t)(2 * (rows + s->table->cols) * s->table->lanes) * sizeof(rdt_real));
  if (forms & RDT_FORM_COLUMNS) {
    clear_pair(&x->alpha, s->k);
    memset(x->met, 0, (size_t)padded * sizeof(double));
    clear_pair(&x->seen, padded);
    memset(x->columns_between, 0, (size_t)padded * sizeof(double));
  }
  if (forms & RDT_FORM_BLOCKS) {
    for (int i = 0; i < 2; i++) x->block[i] = c->f->block[i];
    x->across = (s->n + x->block[1] - 1) / x->block[1];
    clear_pair(&x->blocks, (s->m + x->block[0] - 1) / x->block[0] * x->across);
    clear_pair(&x->expected, (s->m + x->block[0] - 1) / x->block[0] * x->across);
    memset(x->blocks_between, 0, (size_t)((s->m + x->block[0] - 1) / x->block[0] * x->across) * sizeof(double));
  }
  if (forms & RDT_FORM_UNITS) {
    x->across = s->panels;
    x->expected = c->f->units_expected;
    x->observed = c->f->units_observed;
  }
}

static void run_strip(const call *c, worker *w, int64_t first, int64_t count, int64_t from, int64_t to, int64_t follow,
                      bool expect, bool last) {
  const rdt_native *s = c->s;
  const int64_t col = from * s->table->cols;
  const int64_t cols = rdt_least(to * s->table->cols, s->n) - col;
  s->point(s, c->x, first, count, c->shared.zeros, w->rows);
  rdt_native_strip t = {.rows = {w->rows, count, s->segments, s->length, s->step, s->dtype},
                        .k = s->k,
                        .block = c->block,
                        .follow = follow,
                        .tiles = s->strip / s->table->rows,
                        .in_place = c->f && (c->f->forms & RDT_FORM_UNITS) ? 0 : s->in_place,
                        .packed = w->packed,
                        .resident = c->block == s->block && s->resident,
                        .panels = c->panels,
                        .widened = w->widened,
                        .from = from,
                        .to = to,
                        .chunk = chunk(s, c->block),
                        .n = s->n,
                        .parked = w->parked,
                        .out = c->out + first * c->ld * size_of(c->finish.dtype),
                        .ld = c->ld,
                        .step = c->step,
                        .finish = c->finish,
                        .lanes = w->lanes};
  t.finish.residual = moved(t.finish.residual, first * t.finish.residual_ld, t.finish.residual_dtype);
  if (c->f) {
    const rdt_pair all = c->s->by_columns ? w->observed : c->f->observed;
    const int64_t at = c->row + first;
    t.forms = c->f->forms;
    t.w = c->f->w_real;
    if (c->f->forms & RDT_FORM_ROWS) t.observed = (rdt_pair){all.dot + at, all.sq + at};
    t.between = c->s->by_columns ? w->between + at : c->f->rows_between ? c->f->rows_between + at : NULL;
    if (along_rows(c)) t.expected = (rdt_pair){c->f->expected.dot + at, c->f->expected.sq + at};
    if (expect && along_rows(c)) t.beta = c->beta, t.rho = c->rho;
    t.first = first;
    t.last = last;
    t.sides = &w->sides;
    if (expect && (t.forms & RDT_FORM_BLOCKS)) expect_blocks(c, &w->sides, &t.rows, first);
  }
  if (w->hit) {
    const int64_t e = w->hit->element, j = e / s->plane % s->n;
    const int64_t row = e / (s->n * s->plane) * s->plane + e % s->plane - c->row - first;
    const bool here = row >= 0 && row < count && j >= col && j < col + cols;
    t.hit = here ? w->hit : NULL;
    t.hit_stored = c->f && c->f->hit_stored;
    t.hit_row = row;
    t.hit_col = j;
    t.hit_k = rdt_least((int64_t)(w->hit->position * (double)s->k), s->k);
  }
  c->table->strip(&t);
  if (t.differ) w->differ = true;
  end_strip(c, w, first, count, col, cols);
}

static rdt_span span_of(const call *c, int64_t part, int64_t parts) {
  return rdt_span_of(c->s->m, c->s->table->rows, c->s->panels, c->s->by_columns, part, parts);
}

/* One product, or a thread's share of it. */
static void run_part(const call *c, worker *w, int64_t part, int64_t parts) {
  const rdt_native *s = c->s;
  const rdt_span all = span_of(c, part, parts);
  const int64_t most = s->strip, begin = all.begin, end = all.end;
  const rdt_pair *sums = c->s->by_columns ? &w->observed : c->f ? &c->f->observed : NULL;
  if (c->f && (c->f->forms & RDT_FORM_ROWS)) {
    memset(sums->dot + c->row + begin, 0, (size_t)(end - begin) * sizeof(double));
    memset(sums->sq + c->row + begin, 0, (size_t)(end - begin) * sizeof(double));
    double *between = c->s->by_columns ? w->between : c->f->rows_between;
    if (c->f->forms & RDT_FORM_CHECKPOINTS) memset(between + c->row + begin, 0, (size_t)(end - begin) * sizeof(double));
  }
  if (c->f && s->sides && (c->f->forms & ~(unsigned)RDT_FORM_ROWS)) begin_sides(c, &w->sides);
  int64_t number = 0;
  for (int64_t i = begin; i < end; i += most, number++)
    run_strip(c, w, i, rdt_least(most, end - i), all.from, all.to, i + most < end ? most * s->apart : 0,
              !c->s->by_columns || number % parts == part, i + most >= end);
}

/* The checksums of rows [from, to) of a B that is not fixed, from where it lies. */
static void sum_weights(const call *c, worker *w, rdt_real *beta, rdt_real *rho, int64_t from, int64_t to) {
  const rdt_native *s = c->s;
  const int64_t sk = s->b_stride[0], sj = s->b_stride[1];
  const rdt_pair sums = {w->sums.dot + from, w->sums.sq + from};
  const rdt_real least_square = (rdt_real)rdt_dtype_info(RDT_REAL_DTYPE)->min_normal;
  const void *b = moved(c->b, from * sk, s->dtype);
  if (sj == 1) {
    for (int64_t t = 0; t < to - from; t++) w->rows[t] = moved(b, t * sk, s->dtype);
    s->table->dots(w->rows, s->dtype, to - from, s->n, c->f->w_real, c->shared.ones, &sums);
  } else if (sk == 1) {
    s->table->down(b, s->dtype, sj, s->n, to - from, c->f->w_real, &sums);
  } else {
    for (int64_t t = 0; t < to - from; t++) {
      sums.dot[t] = sums.sq[t] = 0.0;
      for (int64_t j = 0; j < s->n; j++) {
        const double x = rdt_load(b, s->dtype, t * sk + j * sj);
        sums.dot[t] += c->f->w[j] * x;
        sums.sq[t] += x * x;
      }
    }
  }
  for (int64_t t = from; t < to; t++) {
    const double dot = w->sums.dot[t], sq = dot * dot;
    beta[t] = (rdt_real)dot;
    rho[t] = greatest(least_square, (rdt_real)(sq <= w->sums.sq[t] ? w->sums.sq[t] : sq));
    if (!((double)rho[t] <= w->most)) w->most = (double)rho[t];
  }
}

static int64_t batch_offset(const rdt_native *s, const int64_t *stride, int64_t batch) {
  return rdt_batch_offset(s->batch_rank, s->batch_shape, stride, batch);
}

static void run_batch(const call *all, worker *w, int64_t batch) {
  const rdt_native *s = all->s;
  call c = *all;
  c.x += batch_offset(s, s->batch_stride[0], batch) * size_of(s->dtype);
  c.b += batch_offset(s, s->batch_stride[1], batch) * size_of(s->dtype);
  c.out += batch_offset(s, c.out_stride, batch) * size_of(c.finish.dtype);
  if (c.finish.residual)
    c.finish.residual = moved(c.finish.residual, batch_offset(s, c.e->residual.stride, batch), c.finish.residual_dtype);
  c.row = batch * s->m;
  c.panels = w->panels;
  c.beta = w->beta;
  c.rho = w->rho;
  pack_panels(s, c.b, w->panels, 0, s->panels);
  if (c.f) sum_weights(&c, w, w->beta, w->rho, 0, s->k);
  run_part(&c, w, 0, 1);
}

static void run_worker(const call *c, worker *w, int part) {
  const rdt_native *s = c->s;
  const int64_t first = s->batches * part / c->s->parts, end = s->batches * (part + 1) / c->s->parts;
  const rdt_span all = span_of(c, part, c->s->parts);
  const int64_t from[2] = {is_one(s) ? all.begin : first * s->m, is_one(s) ? all.from * s->table->cols : 0};
  const int64_t to[2] = {is_one(s) ? all.end : end * s->m, is_one(s) ? rdt_least(all.to * s->table->cols, s->n) : s->n};
  rdt_share_begin(c->shares, part, from, to);
  w->hit = rdt_share_plant(c->hit, &w->own, from, to, c->s->n, c->s->plane);
  if (is_one(s)) run_part(c, w, part, c->s->parts);
  for (int64_t b = first; !is_one(s) && b < end; b++) run_batch(c, w, b);
  rdt_share_end(c->shares, part, w->differ);
}

static void add(double *to, const double *from, int64_t n, bool first) {
  for (int64_t i = 0; i < n; i++) to[i] = (first ? 0.0 : to[i]) + from[i];
}

static void add_pair(const rdt_pair *to, const rdt_pair *from, int64_t n, bool first) {
  add(to->dot, from->dot, n, first);
  add(to->sq, from->sq, n, first);
}

/* Of rows of A that a thread has met: the squares cover the rounding of the product and that of the check, and what has
 * vanished of them below the normal range. */
static void add_squares(const call *c, const rdt_pair *to, const rdt_pair *from, bool first) {
  const double lost = (double)c->s->m * rdt_dtype_info(RDT_REAL_DTYPE)->min_normal;
  for (int64_t t = 0; t < c->s->k; t++) {
    const double d = from->dot[t] * from->dot[t], sq = from->sq[t];
    to->sq[t] = (first ? 0.0 : to->sq[t]) + (d <= sq ? sq : d) + lost;
  }
}

/* The threads' findings, in the order of the threads. */
static void join(const call *c, const worker *w) {
  rdt_fused *f = c->f;
  const int64_t m = c->s->m;
  f->differ = false;
  f->bitsum = 0;
  f->most = 0.0;
  for (int t = 0; t < c->s->parts; t++) {
    f->differ = f->differ || w[t].differ;
    f->bitsum += w[t].bitsum;
    if (!(w[t].most <= f->most)) f->most = w[t].most;
    const bool between = f->forms & RDT_FORM_CHECKPOINTS;
    if (c->s->by_columns && between && (f->forms & RDT_FORM_ROWS)) add(f->rows_between, w[t].between, m, t == 0);
    if (between && (f->forms & RDT_FORM_COLUMNS)) add(f->columns_between, w[t].sides.columns_between, c->s->n, t == 0);
    if (c->s->by_columns && (f->forms & RDT_FORM_ROWS)) add_pair(&f->observed, &w[t].observed, m, t == 0);
    const rdt_native_sides *x = &w[t].sides;
    if (f->forms & RDT_FORM_COLUMNS) {
      add(f->columns_expected.dot, x->met, c->s->n, t == 0);
      if (t == 0 || !c->s->by_columns) add_squares(c, &w[0].sides.alpha, &x->alpha, t == 0);
      add_pair(&f->columns_observed, &x->seen, c->s->n, t == 0);
    }
    if (f->forms & RDT_FORM_BLOCKS) {
      const int64_t n = (m + x->block[0] - 1) / x->block[0] * x->across;
      add_pair(&f->blocks_expected, &x->expected, n, t == 0);
      add_pair(&f->blocks_observed, &x->blocks, n, t == 0);
      if (between) add(f->blocks_between, x->blocks_between, n, t == 0);
    }
  }
  if (f->forms & RDT_FORM_COLUMNS) f->columns_norm = rdt_fused_norm4(w[0].sides.alpha.sq, c->s->k);
}

/* The B of one product, by all threads. */
static void pack_part(const call *c, worker *w, int64_t i) {
  const rdt_native *s = c->s;
  const int64_t p = s->panels, n = c->s->parts;
  pack_panels(s, c->b, c->shared.panels, p * i / n, p * (i + 1) / n);
  if (c->f) sum_weights(c, &w[i], c->shared.beta, c->shared.rho, s->k * i / n, s->k * (i + 1) / n);
}

static void pack_together(const call *c, worker *w) {
  if (c->s->parts == 1) {
    pack_part(c, w, 0);
    return;
  }
#pragma omp parallel for num_threads(c->s->parts) schedule(static, 1)
  for (int i = 0; i < c->s->parts; i++) pack_part(c, w, i);
}

/* A team of one takes as long as a small product. */
static void run_workers(const call *c, worker *w) {
  if (c->s->parts == 1) {
    run_worker(c, w, 0);
    return;
  }
#pragma omp parallel for num_threads(c->s->parts) schedule(static, 1)
  for (int i = 0; i < c->s->parts; i++) run_worker(c, &w[i], i);
}

static rdt_status run(rdt_native *s, const rdt_operands *o, rdt_fused *f, rdt_kernel_hit *hit, rdt_reason *why) {
  if (s->m < 1 || s->n < 1 || s->batches < 1) return RDT_OK;
  worker workers[MOST_THREADS];
  rdt_layout l = {scratch(s), 0};
  if (!l.base) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a product's strips");
  call c = {.s = s,
            .table = hit ? s->inject : s->table,
            .e = o->epilogue,
            .x = o->in[0].data,
            .b = o->in[1].data,
            .out = o->out.data,
            .memory = o->out.data,
            .ld = row_stride(s, &o->out),
            .step = column_stride(s, &o->out),
            .out_stride = o->out.stride,
            .f = f,
            .hit = hit,
            .shares = o->shares,
            .shared = take_shared(s, &l)};
  c.block = f && (f->forms & RDT_FORM_CHECKPOINTS) ? s->segment : s->block;
  if (f) f->segments = s->blocks[c.block != s->block];
  c.sums = f && f->seal && rdt_epilogue_sums(&o->out);
  set_finish(&c, o->out.dtype);
  if (s->window.groups) memset(c.shared.zeros, 0, (size_t)s->length * sizeof(rdt_real)); /* of padding */
  c.beta = c.shared.beta;
  c.rho = c.shared.rho;
  for (int64_t j = 0; !s->packed && j < s->n; j++) c.shared.ones[j] = 1.0f;
  if (f) {
    if (f->beta_real) {
      c.beta = f->beta_real;
      c.rho = f->rho_real;
    } else if (s->packed && along_rows(&c)) {
      to_reals(c.shared.beta, f->beta.dot, s->k);
      to_reals(c.shared.rho, f->beta.sq, s->k);
    }
    if (c.shared.u) to_reals(c.shared.u, f->u, f->u ? s->m : 0);
  }
  c.panels = s->packed ? s->packed : c.shared.panels;
  const bool sides =
      s->parts > 1 || (f && (f->forms & ~(unsigned)RDT_FORM_ROWS)); /* behind a single worker is nobody */
  for (int i = 0; i < s->parts; i++) take_worker(s, &l, sides, &workers[i]);
  if (!s->packed && is_one(s)) pack_together(&c, workers);
  rdt_shares_expect(c.shares, s->parts);
  run_workers(&c, workers);
  for (int i = 0; hit && hit->everywhere && i < s->parts; i++)
    if (workers[i].own.done) *hit = workers[i].own;
  if (f) join(&c, workers);
  return RDT_OK;
}

rdt_status rdt_native_run(void *state, const rdt_operands *o, rdt_reason *why) {
  return run(state, o, NULL, NULL, why);
}

rdt_status rdt_native_run_inject(void *state, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  return run(state, o, NULL, hit, why);
}

rdt_status rdt_native_run_fused(void *state, const rdt_operands *o, rdt_fused *f, rdt_reason *why) {
  return run(state, o, f, f->hit, why);
}

void rdt_native_unit(int64_t size[2]) {
  size[0] = table(false)->unit;
  size[1] = table(false)->cols;
}

rdt_status rdt_native_fixed(void *state, rdt_vault *frame) {
  rdt_native *s = state;
  const size_t from = offsetof(rdt_native, point); /* before it lies the scratch, which is lent */
  RDT_TRY(rdt_vault_add(frame, s, offsetof(rdt_native, own)));
  return rdt_vault_add(frame, (char *)s + from, sizeof *s - from);
}
