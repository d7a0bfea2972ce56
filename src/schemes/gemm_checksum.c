/* Checksum schemes of products C = A B (Huang and Abraham 1984): with weights u for the rows and w for the columns,
 *
 *   row     C w       = A (B w)      one check for each row;    B w is made once where B is fixed
 *   col     u^T C     = (u^T A) B    one check for each column
 *   tile    u^T C w   = (u^T A)(B w) one check for each block of mb x nb; global: the whole product is the block
 *
 * With NAME:f all of it happens f times, with f sets of weights of which any f faults in a line stir one at least.
 *
 * All of them are the same few passes (cpu/sums.h) over A, B and C; they differ in which sides are summed. Weights are
 * balanced random signs, so that equal and opposite errors and swaps within a row or column do not cancel. B is read
 * from the caller's memory and A independently of the kernel: nothing on the expected side is common with the kernel.
 */
#include <string.h>

#include "core/memory.h"
#include "cpu/epilogue.h"
#include "cpu/sums.h"
#include "schemes/checks.h"
#include "schemes/scheme.h"

typedef struct variant {
  bool rows, cols, tiles; /* which checks; cols and tiles exclude each other */
  int64_t mb, nb;         /* block of a tile; 0: the whole extent */
  rdt_check_kind kind;    /* of a tile's check */
} variant;

static const variant variant_row = {.rows = true}, variant_col = {.cols = true},
                     variant_rowcol = {.rows = true, .cols = true},
                     variant_global = {.tiles = true, .kind = RDT_CHECK_SCALAR},
                     variant_tile = {.tiles = true, .mb = RDT_TILE_SIDE, .nb = RDT_TILE_SIDE, .kind = RDT_CHECK_TILE};

typedef struct work { /* what the passes over one matrix sum */
  rdt_pair rows_expected, rows_observed, a_sums, cols_expected, cols_observed;
} work;

enum { TEAM = 16 }; /* threads that share the matrices of a batch */

typedef struct signs { /* one set of them: an independent check of everything */
  double *u, *w;
  rdt_pair beta; /* B w: weight_sets x col_blocks x k */
} signs;

typedef struct state {
  const variant *v;
  int64_t m, n, k, mb, nb, row_blocks, col_blocks;
  int batch_rank;
  int64_t batches, batch_shape[RDT_MAX_RANK], weight_sets;
  int64_t set_stride[RDT_MAX_RANK]; /* batch index -> which weight matrix */
  rdt_tolerance rows_bound, cols_bound, tiles_bound;
  bool exact, square_beta, fixed;
  int32_t zero[2];   /* of integers: A and B are summed less these */
  int threads, team; /* team > 1: each of so many threads verifies whole matrices */
  double *memory;    /* one allocation; the vectors below lie in it */
  int sets;
  signs set[RDT_MOST_SETS];
  size_t beta_doubles; /* of all sets, which lie together */
  work work[TEAM];
} state;

static int64_t blocks_of(int64_t n, int64_t block) {
  return (n + block - 1) / block;
}

static bool needs_beta(const state *s) {
  return s->v->rows || s->v->tiles;
}

/* ---- making the state ------------------------------------------------------------------------------------------- */

typedef struct layout { /* of vectors in one allocation; base = NULL: only counts */
  double *base;
  size_t used;
} layout;

static double *take(layout *l, int64_t n) {
  double *p = l->base ? l->base + l->used : NULL;
  l->used += (size_t)(n + 7) / 8 * 8; /* cache lines of their own */
  return p;
}

static rdt_pair take_pair(layout *l, int64_t n) {
  rdt_pair t = {.dot = take(l, n)};
  t.sq = take(l, n);
  return t;
}

static void lay_out(state *s, layout *l) {
  for (int i = 0; i < s->sets; ++i) {
    s->set[i].u = take(l, s->m);
    s->set[i].w = take(l, s->n);
  }
  if (needs_beta(s)) {
    const size_t begin = l->used;
    for (int i = 0; i < s->sets; ++i) s->set[i].beta = take_pair(l, s->weight_sets * s->col_blocks * s->k);
    s->beta_doubles = l->used - begin;
  }
  for (int i = 0; i < s->team; ++i) {
    work *x = &s->work[i];
    if (s->v->rows) {
      x->rows_expected = take_pair(l, s->m);
      x->rows_observed = take_pair(l, s->m);
    }
    if (s->v->cols || s->v->tiles) {
      x->a_sums = take_pair(l, s->row_blocks * s->k);
      x->cols_expected = take_pair(l, s->n);
      x->cols_observed = take_pair(l, s->row_blocks * s->n);
    }
  }
}

/* Weights that several batches share (stride 0) have one set of checksums. */
static void set_batches(state *s, const rdt_problem *p) {
  s->batch_rank = p->out.rank - 2;
  s->batches = s->weight_sets = 1;
  for (int d = s->batch_rank - 1; d >= 0; --d) {
    const int64_t n = s->batch_shape[d] = p->out.shape[d];
    s->batches *= n;
    s->set_stride[d] = p->in[1].stride[d] ? s->weight_sets : 0;
    if (p->in[1].stride[d]) s->weight_sets *= n;
  }
}

static void set_bounds(state *s, const rdt_problem *p, double lambda) {
  const rdt_dtype check = RDT_F64;
  const double u = rdt_dtype_info(check)->u;
  const rdt_tolerance t = {
      .acc = rdt_accumulator_of(p->in[0].dtype, p->acc), .k = s->k, .u_check = u, .u_beta = u, .lambda = lambda};
  s->exact = p->acc == RDT_S32;
  for (int i = 0; i < 2; ++i) s->zero[i] = p->zero[i];
  s->square_beta = p->acc == check; /* only there the check's own rounding matters */
  s->rows_bound = s->cols_bound = s->tiles_bound = t;
  s->rows_bound.depth_beta = s->n;
  s->cols_bound.depth_beta = s->m;
  s->tiles_bound.depth_beta = s->mb + s->nb;
}

static int64_t matrix_offset(const rdt_tensor *t, const state *s, int64_t batch) {
  int64_t offset = 0;
  for (int d = s->batch_rank - 1; d >= 0; --d) {
    offset += batch % s->batch_shape[d] * t->stride[d];
    batch /= s->batch_shape[d];
  }
  return offset;
}

static rdt_tensor matrix_of(const rdt_tensor *t, const state *s, int64_t batch) {
  rdt_tensor x = {.dtype = t->dtype, .rank = 2};
  for (int i = 0; i < 2; ++i) {
    x.shape[i] = t->shape[t->rank - 2 + i];
    x.stride[i] = t->stride[t->rank - 2 + i];
  }
  x.data = t->data ? (char *)t->data + matrix_offset(t, s, batch) * (int64_t)rdt_dtype_size(t->dtype) : NULL;
  return x;
}

static int64_t weight_set(const state *s, int64_t batch) {
  int64_t set = 0;
  for (int d = s->batch_rank - 1; d >= 0; --d) {
    set += batch % s->batch_shape[d] * s->set_stride[d];
    batch /= s->batch_shape[d];
  }
  return set;
}

static rdt_pair offset_pair(const rdt_pair *t, int64_t n) {
  return (rdt_pair){t->dot + n, t->sq + n};
}

static rdt_pair beta_of(const state *s, const signs *g, int64_t batch) {
  return offset_pair(&g->beta, weight_set(s, batch) * s->col_blocks * s->k);
}

/* Where the check rounds like the product, sum a^2 beta^2 matters as much as sum a^2 rho^2: one weight covers both. */
static void square_larger(const state *s, const rdt_pair *t, int64_t n) {
  if (!s->square_beta) return;
  for (int64_t i = 0; i < n; ++i) {
    const double d = t->dot[i] * t->dot[i];
    if (!(d <= t->sq[i])) t->sq[i] = d;
  }
}

static double sum_of(const double *x, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

/* Sums over blocks of elements, each less a zero point: n sums for each block of the weights that they were formed
 * with. */
static void centre(double *sums, int64_t n, int32_t zero, const double *weights, int64_t length, int64_t block) {
  for (int64_t at = 0; zero && at < length; at += block, sums += n) {
    const double less = zero * sum_of(weights + at, length - at < block ? length - at : block);
    for (int64_t i = 0; i < n; ++i) sums[i] -= less;
  }
}

static rdt_status make_beta(const state *s, const rdt_tensor *weights, int64_t batch) {
  for (int i = 0; i < s->sets; ++i) {
    const rdt_pair beta = beta_of(s, &s->set[i], batch);
    const rdt_sums pass = {.x = matrix_of(weights, s, batch),
                           .modulo = s->exact,
                           .right = {.weight = {s->set[i].w, NULL}, .sum = beta, .block = s->nb}};
    RDT_TRY(rdt_sums_run(&pass, 1, s->team > 1 ? 1 : s->threads));
    centre(beta.dot, s->k, s->zero[1], s->set[i].w, s->n, s->nb);
    square_larger(s, &beta, s->col_blocks * s->k);
  }
  return RDT_OK;
}

static rdt_status recreate(void *state_, const rdt_tensor *weights, rdt_reason *why) {
  state *s = state_;
  if (!needs_beta(s)) return RDT_OK;
  int64_t next = 0;
  memset(s->set[0].beta.dot, 0, s->beta_doubles * sizeof(double)); /* the gaps too: the seal sums them */
  for (int64_t b = 0; b < s->batches; ++b) {
    if (weight_set(s, b) != next) continue; /* another batch made this one */
    ++next;
    if (make_beta(s, weights, b) != RDT_OK) return rdt_fail(why, RDT_ERR_NOMEM, "gemm: no memory for checksums");
  }
  return RDT_OK;
}

static void destroy(void *state_) {
  state *s = state_;
  if (!s) return;
  rdt_free(s->memory);
  rdt_free(s);
}

static int64_t at_least_1(int64_t x) {
  return x > 0 ? x : 1;
}

static rdt_status create(const variant *v, const rdt_problem *p, bool fixed, double lambda, int sets, int threads,
                         void **out, rdt_reason *why) {
  const rdt_tensor *c = &p->out;
  state *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "gemm: no memory for checks");
  s->v = v;
  s->sets = sets;
  s->m = c->shape[c->rank - 2];
  s->n = c->shape[c->rank - 1];
  s->k = p->in[0].shape[p->in[0].rank - 1];
  s->mb = at_least_1(v->mb && v->mb < s->m ? v->mb : s->m);
  s->nb = at_least_1(v->nb && v->nb < s->n ? v->nb : s->n);
  s->row_blocks = at_least_1(blocks_of(s->m, s->mb));
  s->col_blocks = at_least_1(blocks_of(s->n, s->nb));
  s->threads = threads;
  s->fixed = fixed;
  set_batches(s, p);
  s->team = s->batches < 2 * (int64_t)threads || threads < 2 ? 1 : threads < TEAM ? threads : TEAM;
  set_bounds(s, p, lambda);
  layout vectors = {NULL, 0};
  lay_out(s, &vectors);
  s->memory = rdt_calloc(vectors.used, sizeof(double));
  if (!s->memory) {
    destroy(s);
    return rdt_fail(why, RDT_ERR_NOMEM, "gemm: no memory for checks");
  }
  vectors = (layout){s->memory, 0};
  lay_out(s, &vectors);
  for (int i = 0; i < sets; ++i) {
    rdt_checks_weights(s->set[i].u, s->m, s->mb, 1, i);
    rdt_checks_weights(s->set[i].w, s->n, s->nb, 2, i);
  }
  const rdt_status status = fixed ? recreate(s, &p->in[1], why) : RDT_OK;
  if (status != RDT_OK) {
    destroy(s);
    return status;
  }
  *out = s;
  return RDT_OK;
}

/* ---- verifying -------------------------------------------------------------------------------------------------- */

typedef struct finish { /* the epilogue, applied to the part of C that was just summed */
  rdt_epilogue e;       /* residual: of this batch */
  rdt_tensor raw, fin;
} finish;

static void *element(const rdt_tensor *t, int64_t row, int64_t col) {
  return (char *)t->data + (row * t->stride[0] + col * t->stride[1]) * (int64_t)rdt_dtype_size(t->dtype);
}

static rdt_tensor window(const rdt_tensor *t, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  rdt_tensor x = *t;
  x.data = element(t, row, col);
  x.shape[0] = rows;
  x.shape[1] = cols;
  return x;
}

static void finish_part(void *user, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  const finish *f = user;
  rdt_epilogue e = f->e;
  const rdt_tensor raw = window(&f->raw, row, rows, col, cols), fin = window(&f->fin, row, rows, col, cols);
  if (e.residual.rank >= 0) e.residual = window(&e.residual, row, rows, col, cols);
  rdt_tensor *const vectors[] = {&e.bias, &e.factor};
  for (int i = 0; i < 2; ++i) {
    rdt_tensor *v = vectors[i];
    if (v->rank < 0) continue;
    v->data = (char *)v->data + col * v->stride[0] * (int64_t)rdt_dtype_size(v->dtype);
    v->shape[0] = cols;
  }
  rdt_epilogue_apply(&e, &raw, &fin, 1, 1);
}

static rdt_sums pass_a(const state *s, const signs *g, const work *x, const rdt_tensor *a, const rdt_pair *beta) {
  rdt_sums pass = {.x = *a, .modulo = s->exact};
  if (s->v->rows) pass.right = (rdt_side){.weight = *beta, .sum = x->rows_expected, .block = at_least_1(s->k)};
  if (s->v->cols || s->v->tiles) pass.left = (rdt_side){.weight = {g->u, NULL}, .sum = x->a_sums, .block = s->mb};
  return pass;
}

static rdt_sums pass_c(const state *s, const signs *g, const work *x, const rdt_tensor *raw, finish *f) {
  rdt_sums pass = {.x = *raw, .modulo = s->exact, .visit = f ? finish_part : NULL, .user = f};
  if (s->v->rows) pass.right = (rdt_side){.weight = {g->w, NULL}, .sum = x->rows_observed, .block = at_least_1(s->n)};
  if (s->v->cols || s->v->tiles)
    pass.left = (rdt_side){.weight = {g->u, NULL}, .sum = x->cols_observed, .block = s->mb};
  return pass;
}

static rdt_status sum_b(const state *s, const work *x, const rdt_tensor *b, int threads) {
  square_larger(s, &x->a_sums, s->k);
  const rdt_sums pass = {
      .x = *b, .modulo = s->exact, .left = {.weight = x->a_sums, .sum = x->cols_expected, .block = at_least_1(s->k)}};
  RDT_TRY(rdt_sums_run(&pass, 1, threads));
  centre(x->cols_expected.dot, s->n, s->zero[1], x->a_sums.dot, s->k, at_least_1(s->k));
  return RDT_OK;
}

/* One tile: (u^T A) . (B w) with its magnitudes, against the weighted sum of the tile's column sums. */
static void compare_tile(const state *s, const work *x, rdt_findings *f, const rdt_pair *beta, int64_t batch, int64_t I,
                         int64_t J) {
  const rdt_pair a = offset_pair(&x->a_sums, I * s->k), b = offset_pair(beta, J * s->k);
  const rdt_pair c = offset_pair(&x->cols_observed, I * s->n);
  const int64_t j0 = J * s->nb, j1 = j0 + s->nb < s->n ? j0 + s->nb : s->n;
  const int64_t i0 = I * s->mb, i1 = i0 + s->mb < s->m ? i0 + s->mb : s->m;
  const double *const w = s->set[0].w; /* tiles have one set */
  double e[2] = {0, 0}, o[2] = {0, 0};
  uint32_t e32 = 0, o32 = 0;
  if (s->exact) {
    for (int64_t t = 0; t < s->k; ++t) e32 += rdt_checks_modulo(a.dot[t]) * rdt_checks_modulo(b.dot[t]);
    for (int64_t j = j0; j < j1; ++j) o32 += w[j] > 0 ? rdt_checks_modulo(c.dot[j]) : -rdt_checks_modulo(c.dot[j]);
    e[0] = e32;
    o[0] = o32;
  } else {
    for (int64_t t = 0; t < s->k; ++t) {
      e[0] += a.dot[t] * b.dot[t];
      e[1] += a.sq[t] * b.sq[t];
    }
    for (int64_t j = j0; j < j1; ++j) {
      o[0] += w[j] * c.dot[j];
      o[1] += c.sq[j];
    }
  }
  const bool placed = s->v->kind == RDT_CHECK_TILE; /* its first row and column */
  const rdt_checks one = {.t = &s->tiles_bound,
                          .exact = s->exact,
                          .square_beta = s->square_beta,
                          .kind = s->v->kind,
                          .outputs = (i1 - i0) * (j1 - j0),
                          .place = {placed ? batch * s->m + i0 : -1, placed ? j0 : -1},
                          .along = -1,
                          .expected = {&e[0], &e[1]},
                          .observed = {&o[0], &o[1]}};
  rdt_checks_run(&one, f, 1);
}

static void compare_all(const state *s, const work *x, rdt_findings *f, const rdt_pair *beta, int64_t batch) {
  const rdt_checks rows = {.t = &s->rows_bound,
                           .exact = s->exact,
                           .square_beta = s->square_beta,
                           .kind = RDT_CHECK_ROW,
                           .outputs = s->n,
                           .place = {batch * s->m, -1},
                           .along = 0,
                           .expected = x->rows_expected,
                           .observed = x->rows_observed};
  const rdt_checks cols = {.t = &s->cols_bound,
                           .exact = s->exact,
                           .square_beta = s->square_beta,
                           .kind = RDT_CHECK_COL,
                           .outputs = s->m,
                           .place = {-1, 0},
                           .along = 1,
                           .expected = x->cols_expected,
                           .observed = x->cols_observed};
  if (s->v->rows) rdt_checks_run(&rows, f, s->m);
  if (s->v->cols) rdt_checks_run(&cols, f, s->n);
  if (!s->v->tiles) return;
  square_larger(s, &x->a_sums, s->row_blocks * s->k);
  for (int64_t I = 0; I < s->row_blocks; ++I)
    for (int64_t J = 0; J < s->col_blocks; ++J) compare_tile(s, x, f, beta, batch, I, J);
}

static rdt_status verify_matrix(const state *s, const signs *g, const work *x, const rdt_operands *o,
                                const rdt_tensor *fin, int64_t batch, rdt_findings *f) {
  const int threads = s->team > 1 ? 1 : s->threads;
  const rdt_tensor a = matrix_of(&o->in[0], s, batch), b = matrix_of(&o->in[1], s, batch);
  const rdt_tensor raw = matrix_of(&o->out, s, batch);
  const rdt_pair beta = needs_beta(s) ? beta_of(s, g, batch) : (rdt_pair){0};
  finish end = {.e = o->epilogue ? *o->epilogue : RDT_EPILOGUE_NONE, .raw = raw};
  if (fin) {
    end.fin = matrix_of(fin, s, batch);
    if (end.e.residual.rank >= 0) end.e.residual = matrix_of(&end.e.residual, s, batch);
  }
  const rdt_sums both[2] = {pass_a(s, g, x, &a, &beta), pass_c(s, g, x, &raw, fin ? &end : NULL)};
  RDT_TRY(rdt_sums_run(both, 2, threads));
  if (s->v->rows) centre(x->rows_expected.dot, s->m, s->zero[0], beta.dot, s->k, at_least_1(s->k));
  if (s->v->cols || s->v->tiles) centre(x->a_sums.dot, s->k, s->zero[0], g->u, s->m, s->mb);
  if (s->v->cols) RDT_TRY(sum_b(s, x, &b, threads));
  compare_all(s, x, f, &beta, batch);
  return RDT_OK;
}

/* Is batch the first of those that share its weights? */
static bool is_first(const state *s, int64_t batch) {
  for (int d = s->batch_rank - 1; d >= 0; --d) {
    if (!s->set_stride[d] && batch % s->batch_shape[d] != 0) return false;
    batch /= s->batch_shape[d];
  }
  return true;
}

/* A thread's share of the matrices. */
static rdt_status make_share(const state *s, const rdt_operands *o, int64_t begin, int64_t end) {
  if (!needs_beta(s) || s->fixed) return RDT_OK;
  for (int64_t b = begin; b < end; ++b)
    if (is_first(s, b)) RDT_TRY(make_beta(s, &o->in[1], b));
  return RDT_OK;
}

static rdt_status verify_share(const state *s, const work *x, const rdt_operands *o, const rdt_tensor *fin,
                               int64_t begin, int64_t end, rdt_findings *f) {
  for (int64_t b = begin; b < end; ++b)
    for (int i = 0; i < s->sets; ++i) RDT_TRY(verify_matrix(s, &s->set[i], x, o, i ? NULL : fin, b, f));
  return RDT_OK;
}

static rdt_status verify_together(const state *s, const rdt_operands *o, const rdt_tensor *fin, rdt_findings *f) {
  rdt_findings found[TEAM];
  rdt_status status[TEAM] = {RDT_OK};
  const int team = s->team;
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (int i = 0; i < team; ++i) status[i] = make_share(s, o, s->batches * i / team, s->batches * (i + 1) / team);
  for (int i = 0; i < team; ++i) RDT_TRY(status[i]);
#pragma omp parallel for num_threads(team) schedule(static, 1)
  for (int i = 0; i < team; ++i) {
    rdt_findings_init(&found[i]);
    if (i == 0) found[i].strike = f->strike;
    status[i] = verify_share(s, &s->work[i], o, fin, s->batches * i / team, s->batches * (i + 1) / team, &found[i]);
  }
  for (int i = 0; i < team; ++i) {
    RDT_TRY(status[i]);
    rdt_findings_merge(f, &found[i]);
  }
  return RDT_OK;
}

static rdt_status verify(void *state_, const rdt_operands *o, const rdt_tensor *fin, rdt_findings *f, rdt_reason *why) {
  const state *s = state_;
  if (s->m == 0 || s->n == 0) return RDT_OK;
  rdt_status status;
  if (s->team > 1) {
    status = verify_together(s, o, fin, f);
  } else { /* the passes themselves are shared: no region around theirs */
    status = make_share(s, o, 0, s->batches);
    if (status == RDT_OK) status = verify_share(s, s->work, o, fin, 0, s->batches, f);
  }
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "gemm: no memory for sums");
}

static void checksums(void *state_, void **data, size_t *bytes, rdt_dtype *dtype) {
  const state *s = state_;
  const bool kept = s->fixed && needs_beta(s);
  *data = kept ? s->set[0].beta.dot : NULL;
  *bytes = kept ? s->beta_doubles * sizeof(double) : 0;
  *dtype = RDT_F64;
}

static rdt_status fixed(void *state_, rdt_vault *frame, rdt_vault *tables) {
  state *s = state_;
  RDT_TRY(rdt_vault_add(frame, s, offsetof(state, work) + (size_t)s->team * sizeof *s->work));
  for (int i = 0; i < s->sets; ++i) {
    RDT_TRY(rdt_vault_add(tables, s->set[i].u, (size_t)s->m * sizeof(double)));
    RDT_TRY(rdt_vault_add(tables, s->set[i].w, (size_t)s->n * sizeof(double)));
  }
  return RDT_OK;
}

/* ---- the schemes ------------------------------------------------------------------------------------------------ */

/* Integer sums are kept in doubles: exact while every partial sum stays below 2^53. */
static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  const int64_t exact = INT64_C(1) << 53;
  int64_t m, n, k, longest, terms;
  if (p->op != RDT_KOP_GEMM) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "for products only");
  rdt_problem_mnk(p, &m, &n, &k);
  longest = m > n ? m : n;
  if (p->acc == RDT_S32 &&
      (longest >= exact >> 31 || __builtin_mul_overflow(longest, k, &terms) || terms >= exact >> 16))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "integer sums of %lld x %lld terms do not fit: split the product",
                    (long long)longest, (long long)k);
  return RDT_OK;
}

#define SCHEME(name)                                                                                              \
  static rdt_status name##_create(const rdt_problem *p, bool fixed_weights, double lambda, int sets, int threads, \
                                  void **state_, rdt_reason *why) {                                               \
    return create(&variant_##name, p, fixed_weights, lambda, sets, threads, state_, why);                         \
  }                                                                                                               \
  const rdt_scheme rdt_scheme_##name = {accept, name##_create, verify, checksums, recreate, destroy, fixed};

SCHEME(row)
SCHEME(col)
SCHEME(rowcol)
SCHEME(global)
SCHEME(tile)
