#include "schemes/fused_check.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "schemes/checks.h"

struct rdt_fused_check {
  unsigned forms;
  bool fixed;                   /* weights; else the kernel sums them too */
  int64_t m, n, k, taps[2], ic; /* k = taps x ic, the channel fastest; depthwise: m checks of n outputs */
  bool conv, depthwise, exact, scalar;
  int32_t zero;              /* of the weights */
  rdt_dtype real;            /* in which sums are formed */
  int64_t block[2], unit[2]; /* of blocks, of units: rows and columns */
  rdt_tolerance bound, down_bound, block_bound, unit_bound;
  double *memory; /* one allocation; beta first: its two parts lie together */
  rdt_pair beta, expected, observed, columns[2], blocks[2], units[2]; /* of two: expected, observed */
  double *between[3];                                                 /* T3: of rows, columns, blocks */
  double *w, *u;
  void *w_real, *beta_real, *rho_real; /* in place of beta where nobody wants that in double */
  double *fourth;                      /* of columns: of the squares in each column of B (rdt_fused_norm4) */
  double *share;                       /* of units: of the squares of a row of B, the most that is one column's */
  float *weights, *squares;            /* depthwise: side by side */
  double most;                         /* of the squares in beta: made with them */
};

/* NaN stays. */
static double most_of(double most, double x) {
  return x > most || isnan(x) ? x : most;
}

static int64_t copies(const rdt_fused_check *c) {
  return (c->k + c->taps[0]) * c->ic;
}

static void copy_weights(rdt_fused_check *c, const rdt_tensor *w) {
  c->most = 0.0;
  /* squares of weights below the normal range vanish, those of large inputs that they meet do not */
  const float least = (float)((double)c->taps[1] * rdt_dtype_info(RDT_F32)->min_normal);
  for (int64_t i = 0; i < c->taps[0] * c->ic; i++) c->squares[i] = least;
  for (int64_t t = 0; t < c->k; t++)
    for (int64_t j = 0; j < c->ic; j++) {
      const int64_t r = t / c->taps[1], at = j * w->stride[0] + r * w->stride[2] + t % c->taps[1] * w->stride[3];
      const float x = ((const float *)w->data)[at];
      c->weights[t * c->ic + j] = x;
      c->squares[r * c->ic + j] += x * x;
      c->most = most_of(c->most, (double)c->squares[r * c->ic + j]);
    }
}

/* Of reduction index t at column j. */
static int64_t weight_offset(const rdt_fused_check *c, const rdt_tensor *w, int64_t t, int64_t j) {
  if (!c->conv) return t * w->stride[w->rank - 2] + j * w->stride[w->rank - 1];
  const int64_t tap = t / c->ic;
  return j * w->stride[0] + t % c->ic * w->stride[1] + tap / c->taps[1] * w->stride[2] +
         tap % c->taps[1] * w->stride[3];
}

static int64_t pieces(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

static int64_t across(const rdt_fused_check *c) { /* vectors of beta */
  return c->forms & RDT_FORM_BLOCKS ? pieces(c->n, c->block[1]) : 1;
}

static void put_real(const rdt_fused_check *c, void *to, int64_t i, double x) {
  if (c->real == RDT_F32)
    ((float *)to)[i] = (float)x;
  else
    ((double *)to)[i] = x;
}

static void sum_weights(rdt_fused_check *c, const rdt_tensor *weights, int64_t part, int64_t t) {
  const double least = rdt_dtype_info(c->real)->min_normal;
  const int64_t from = part * c->block[1], end = from + c->block[1] < c->n ? from + c->block[1] : c->n;
  double dot = 0.0, sq = least;
  for (int64_t j = from; j < end; j++) {
    const int64_t at = weight_offset(c, weights, t, j);
    const double x = rdt_load(weights->data, weights->dtype, at) - c->zero;
    dot += c->w[j] * x;
    sq += x * x;
  }
  if (!(dot * dot <= sq)) sq = dot * dot;
  c->most = most_of(c->most, sq);
  if (c->beta_real) {
    put_real(c, c->beta_real, t, dot);
    put_real(c, c->rho_real, t, sq);
    return;
  }
  c->beta.dot[part * c->k + t] = dot;
  c->beta.sq[part * c->k + t] = sq;
}

/* A unit's bound takes the squares of its columns alone: no more than so much of those along all of B's row. */
static void share_weights(rdt_fused_check *c, const rdt_tensor *weights) {
  memset(c->share, 0, (size_t)c->n * sizeof *c->share);
  for (int64_t t = 0; t < c->k; t++) {
    const double unit = 1.0 / c->beta.sq[t];
    for (int64_t j = 0; j < c->n; j++) {
      const double x = rdt_load(weights->data, weights->dtype, weight_offset(c, weights, t, j));
      c->share[j] = most_of(c->share[j], x * x * unit);
    }
  }
}

/* A column's bound takes sum_t q_t b_tj^2 with the squares q of A along its rows. By Cauchy and Schwarz that is no more
 * than the norms of both: that of the weights is made with them, so that nothing but the sum is formed on the way. */
static void square_weights(rdt_fused_check *c, const rdt_tensor *weights) {
  for (int64_t j = 0; j < c->n; j++) {
    double most = 0.0, sum = 0.0;
    for (int64_t t = 0; t < c->k; t++)
      most = most_of(most, fabs(rdt_load(weights->data, weights->dtype, weight_offset(c, weights, t, j))));
    for (int64_t t = 0; most > 0.0 && t < c->k; t++) {
      const double x = rdt_load(weights->data, weights->dtype, weight_offset(c, weights, t, j)) / most;
      sum += x * x * (x * x);
    }
    c->fourth[j] = most > 0.0 ? most * most * sqrt(sum) : most;
  }
}

/* sq: the larger of the weights' squares (rounding of the product) and the checksum's (rounding of the check). Not
 * below what single precision keeps with all of its digits: squares of large inputs are weighed with it. */
void rdt_fused_recreate(rdt_fused_check *c, const rdt_tensor *weights) {
  if (c->depthwise) {
    copy_weights(c, weights);
    return;
  }
  c->most = 0.0;
  for (int64_t part = 0; (c->beta.dot || c->beta_real) && part < across(c); part++)
    for (int64_t t = 0; t < c->k; t++) sum_weights(c, weights, part, t);
  if (c->share) share_weights(c, weights);
  if (c->fourth) square_weights(c, weights);
}

static rdt_status create_depthwise(rdt_fused_check *c, const rdt_problem *p) {
  const rdt_window *w = &p->window;
  const int64_t oh = p->out.shape[2], ow = p->out.shape[3], rows = rdt_fused_rows(oh, ow);
  c->ic = p->out.shape[1];
  c->m = p->out.shape[0] * ((oh + rows - 1) / rows) * c->ic;
  c->n = rows * ow;
  c->bound.depth_sum = rdt_fused_depth(ow);
  c->bound.depth_dot = 0;
  c->bound.u_beta = 0.0;
  c->bound.u_form = c->bound.u_check;
  c->bound.depth_beta = rdt_fused_row_depth(ow, (w->kernel[1] - 1) * w->dilation[1], w->stride[1]);
  c->memory = rdt_calloc((size_t)(4 * c->m), sizeof(double));
  c->weights = rdt_calloc((size_t)copies(c), sizeof(float));
  if (!c->memory || !c->weights) return RDT_ERR_NOMEM;
  c->squares = c->weights + c->k * c->ic;
  c->expected = (rdt_pair){c->memory, c->memory + c->m};
  c->observed = (rdt_pair){c->memory + 2 * c->m, c->memory + 3 * c->m};
  copy_weights(c, &p->in[1]);
  return RDT_OK;
}

/* ---- memory ---- */

typedef struct layout { /* base = NULL: only counts */
  double *base;
  size_t used;
} layout;

static double *take(layout *l, int64_t n) {
  double *p = l->base ? l->base + l->used : NULL;
  l->used += (size_t)n;
  return p;
}

static rdt_pair take_pair(layout *l, int64_t n) {
  rdt_pair x = {.dot = take(l, n)};
  x.sq = take(l, n);
  return x;
}

/* In the precision of the sums, in cache lines of their own. */
static void *take_reals(const rdt_fused_check *c, layout *l, int64_t n) {
  const size_t line = 64 / sizeof(double);
  l->used = (l->used + line - 1) / line * line;
  return take(l, (n * (int64_t)rdt_dtype_size(c->real) + 63) / 64 * (int64_t)line);
}

static void lay_out(rdt_fused_check *c, layout *l) {
  const unsigned forms = c->forms, measured = RDT_FORM_UNITS & ~RDT_FORM_TWICE;
  const bool rows = c->fixed && !c->exact && !(forms & (RDT_FORM_BLOCKS | measured));
  if ((forms & RDT_FORM_ROWS) && rows) {
    c->beta_real = take_reals(c, l, 2 * c->k); /* no gap: all of it is sealed, and made again */
    c->rho_real = c->beta_real ? (char *)c->beta_real + (size_t)c->k * rdt_dtype_size(c->real) : NULL;
  } else if (forms & (RDT_FORM_ROWS | RDT_FORM_BLOCKS | measured)) {
    c->beta = take_pair(l, across(c) * c->k);
  }
  if (forms & (RDT_FORM_ROWS | measured)) c->expected = take_pair(l, c->m);
  if (forms & RDT_FORM_ROWS) c->observed = take_pair(l, c->m);
  for (int i = 0; i < 2; i++) {
    if (forms & RDT_FORM_COLUMNS) c->columns[i] = take_pair(l, c->n);
    if (forms & RDT_FORM_BLOCKS) c->blocks[i] = take_pair(l, pieces(c->m, c->block[0]) * across(c));
    if (forms & RDT_FORM_UNITS) c->units[i] = take_pair(l, pieces(c->m, c->unit[0]) * pieces(c->n, c->unit[1]));
  }
  if (forms & RDT_FORM_ROWS) c->between[0] = take(l, c->m);
  if (forms & RDT_FORM_COLUMNS) c->between[1] = take(l, c->n);
  if (forms & RDT_FORM_BLOCKS) c->between[2] = take(l, pieces(c->m, c->block[0]) * across(c));
  c->w = take(l, c->n);
  if (!c->exact) c->w_real = take_reals(c, l, c->n + RDT_FUSED_PADDING);
  if (forms & (RDT_FORM_COLUMNS | RDT_FORM_BLOCKS)) c->u = take(l, c->m);
  if ((forms & RDT_FORM_COLUMNS) && !c->exact) c->fourth = take(l, c->n);
  if (forms & measured) c->share = take(l, c->n);
}

/* What the forms have in common is in bound; each has chains of its own. */
static void set_bounds(rdt_fused_check *c) {
  const int64_t lanes = c->forms & RDT_FORM_ONE_SIDED ? 1 : 2;
  const bool single = c->real == RDT_F32;
  c->down_bound = c->block_bound = c->unit_bound = c->bound;
  c->down_bound.depth_sum = single ? RDT_FUSED_DOWN : rdt_fused_depth_of(RDT_FUSED_DOWN, c->m);
  c->down_bound.depth_dot = single ? RDT_FUSED_MEET : rdt_fused_depth_of(RDT_FUSED_MEET, c->k);
  c->down_bound.u_form = c->bound.u_check;
  c->down_bound.depth_beta = single ? RDT_FUSED_DOT : rdt_fused_depth_of(RDT_FUSED_DOT, c->m);
  c->block_bound.depth_sum = single ? RDT_FUSED_BLOCK : rdt_fused_depth_of(RDT_FUSED_BLOCK, c->block[0] * c->block[1]);
  c->block_bound.u_form = c->bound.u_check;
  c->block_bound.depth_beta = single ? RDT_FUSED_DOT : rdt_fused_depth_of(RDT_FUSED_DOT, c->block[0]);
  c->unit_bound.depth_sum = c->unit[0] + lanes;
  c->unit_bound.depth_dot = 0;
  if (c->forms & RDT_FORM_SUMMED) c->unit_bound.k *= 2; /* that many products in a chain */
  c->unit_bound.u_form = c->bound.u_check;
  c->unit_bound.depth_beta = c->unit[0] + lanes;
  c->unit_bound.u_beta = 0.0;
}

rdt_status rdt_fused_create(const rdt_problem *p, const rdt_kernel *kernel, unsigned forms, double lambda,
                            rdt_fused_check **out, rdt_reason *why) {
  rdt_fused_check *c = rdt_calloc(1, sizeof *c);
  *out = NULL;
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for checks");
  c->scalar = forms & RDT_FORM_PRODUCT;
  c->forms = c->scalar ? RDT_FORM_BLOCKS : forms;
  c->conv = p->op == RDT_KOP_CONV;
  c->fixed = p->in[1].data != NULL;
  rdt_problem_mnk(p, &c->m, &c->n, &c->k);
  c->ic = c->conv ? p->in[1].shape[1] : c->k;
  for (int i = 0; i < 2; i++) c->taps[i] = c->conv ? p->in[1].shape[2 + i] : 1;
  c->exact = p->acc == RDT_S32;
  c->real = c->exact ? RDT_F32 : p->acc;
  const double u = rdt_dtype_info(c->real)->u;
  const bool single = c->real == RDT_F32;
  c->bound = (rdt_tolerance){.acc = rdt_accumulator_of(c->real, c->real),
                             .k = c->k,
                             .u_check = u,
                             .depth_sum = single ? RDT_FUSED_SUM : rdt_fused_depth_of(RDT_FUSED_SUM, c->n),
                             .depth_dot = single ? RDT_FUSED_DOT : rdt_fused_depth_of(RDT_FUSED_DOT, c->k),
                             .u_beta = u,
                             .u_form = c->fixed ? 0.0 : u,
                             .depth_beta = c->fixed ? c->n
                                           : single ? RDT_FUSED_DOT
                                                    : rdt_fused_depth_of(RDT_FUSED_DOT, c->n),
                             .lambda = lambda};
  c->zero = p->zero[1];
  c->depthwise = rdt_problem_is_depthwise(p);
  if (c->depthwise) {
    if (create_depthwise(c, p) != RDT_OK) {
      rdt_fused_destroy(c);
      return rdt_fail(why, RDT_ERR_NOMEM, "no memory for checks");
    }
    *out = c;
    return RDT_OK;
  }
  const int64_t size[2] = {c->m, c->n};
  for (int i = 0; i < 2; i++)
    c->block[i] = (forms & RDT_FORM_BLOCKS) && size[i] > RDT_TILE_SIDE ? RDT_TILE_SIDE : size[i];
  if (c->forms & RDT_FORM_UNITS) kernel->unit(c->unit);
  set_bounds(c);
  layout l = {NULL, 0};
  lay_out(c, &l); /* the plan has checked that these fit */
  c->memory = rdt_calloc(l.used, sizeof(double));
  if (!c->memory) {
    rdt_free(c);
    return rdt_fail(why, RDT_ERR_NOMEM, "no memory for checks");
  }
  l = (layout){c->memory, 0};
  lay_out(c, &l);
  rdt_checks_signs(c->w, c->n, c->block[1], 2);
  for (int64_t j = 0; c->w_real && j < c->n; j++) put_real(c, c->w_real, j, c->w[j]);
  if (c->u) rdt_checks_signs(c->u, c->m, c->block[0], 1);
  if (c->fixed) rdt_fused_recreate(c, &p->in[1]);
  *out = c;
  return RDT_OK;
}

rdt_status rdt_fused_fixed(rdt_fused_check *c, rdt_vault *frame, rdt_vault *tables) {
  RDT_TRY(rdt_vault_add(frame, c, offsetof(rdt_fused_check, most)));
  if (c->u) RDT_TRY(rdt_vault_add(tables, c->u, (size_t)c->m * sizeof *c->u));
  if (c->fourth) RDT_TRY(rdt_vault_add(tables, c->fourth, (size_t)c->n * sizeof *c->fourth));
  if (c->share) RDT_TRY(rdt_vault_add(tables, c->share, (size_t)c->n * sizeof *c->share));
  if (c->w_real) RDT_TRY(rdt_vault_add(tables, c->w_real, (size_t)c->n * rdt_dtype_size(c->real)));
  return c->w ? rdt_vault_add(tables, c->w, (size_t)c->n * sizeof *c->w) : RDT_OK;
}

void rdt_fused_destroy(rdt_fused_check *c) {
  if (!c) return;
  rdt_free(c->memory);
  rdt_free(c->weights);
  rdt_free(c);
}

void rdt_fused_checksums(rdt_fused_check *c, void **data, size_t *bytes, rdt_dtype *dtype) {
  if (c->depthwise) {
    *data = c->weights;
    *bytes = (size_t)copies(c) * sizeof(float);
    *dtype = RDT_F32;
    return;
  }
  if (c->beta_real) {
    *data = c->beta_real;
    *bytes = 2 * (size_t)c->k * rdt_dtype_size(c->real);
    *dtype = c->real;
    return;
  }
  const bool kept = c->fixed && c->beta.dot;
  *data = kept ? c->beta.dot : NULL;
  *bytes = kept ? (size_t)(2 * across(c) * c->k) * sizeof(double) : 0;
  *dtype = RDT_F64;
}

rdt_fused rdt_fused_ask(const rdt_fused_check *c) {
  return (rdt_fused){.forms = c->forms,
                     .w = c->w,
                     .w_real = c->w_real,
                     .beta_real = c->beta_real,
                     .rho_real = c->rho_real,
                     .u = c->u,
                     .beta = c->beta,
                     .expected = c->expected,
                     .observed = c->observed,
                     .columns_expected = c->columns[0],
                     .columns_observed = c->columns[1],
                     .block = {c->block[0], c->block[1]},
                     .blocks_expected = c->blocks[0],
                     .blocks_observed = c->blocks[1],
                     .units_expected = c->units[0],
                     .units_observed = c->units[1],
                     .rows_between = c->between[0],
                     .columns_between = c->between[1],
                     .blocks_between = c->between[2],
                     .weights = c->weights,
                     .squares = c->squares};
}

/* Squares below the normal range of single precision vanish: their bound does not. outputs: of each check */
static void set_vanished(const rdt_fused_check *c, rdt_checks *checks, double outputs, double terms) {
  const double lost = rdt_dtype_info(c->real)->min_normal;
  if (c->exact) return;
  checks->vanished[0] = lost * terms;
  checks->vanished[1] = lost * outputs;
}

/* T3, where there were checkpoints. */
static rdt_tolerance bound_of(const rdt_tolerance *t, const rdt_fused *sums) {
  rdt_tolerance with = *t;
  if ((sums->forms & RDT_FORM_CHECKPOINTS) && sums->segments > 1) with.segments = sums->segments;
  return with;
}

static void judge_rows(const rdt_fused_check *c, const rdt_fused *sums, rdt_findings *f) {
  const double most = c->fixed ? c->most : sums->most, k = (double)c->k;
  const rdt_tolerance bound = bound_of(&c->bound, sums);
  rdt_checks checks = {.t = &bound,
                       .between = bound.segments ? c->between[0] : NULL,
                       .exact = c->exact,
                       .square_beta = true,
                       .kind = c->depthwise ? RDT_CHECK_COL : RDT_CHECK_ROW,
                       .outputs = c->n,
                       .place = {c->depthwise ? -1 : 0, c->depthwise ? 0 : -1},
                       .along = c->depthwise,
                       .period = c->depthwise ? c->ic : 0,
                       .expected = c->expected,
                       .observed = c->observed};
  set_vanished(c, &checks, (double)c->n, (c->depthwise ? k * (double)c->n : k) * (1.0 + most));
  rdt_checks_run(&checks, f, c->m);
}

static void judge_columns(const rdt_fused_check *c, const rdt_fused *sums, rdt_findings *f) {
  const rdt_tolerance bound = bound_of(&c->down_bound, sums);
  rdt_checks checks = {.t = &bound,
                       .between = bound.segments ? c->between[1] : NULL,
                       .exact = c->exact,
                       .square_beta = true,
                       .kind = RDT_CHECK_COL,
                       .outputs = c->m,
                       .place = {-1, 0},
                       .along = 1,
                       .expected = c->columns[0],
                       .observed = c->columns[1]};
  for (int64_t j = 0; c->fourth && j < c->n; j++) c->columns[0].sq[j] = sums->columns_norm * c->fourth[j];
  set_vanished(c, &checks, (double)c->m, (double)c->k * (double)c->m);
  rdt_checks_run(&checks, f, c->n);
}

static void judge_blocks(const rdt_fused_check *c, const rdt_fused *sums, rdt_findings *f) {
  const rdt_tolerance bound = bound_of(&c->block_bound, sums);
  const int64_t parts = across(c), count = pieces(c->m, c->block[0]) * parts;
  for (int64_t i = 0; i < count; i++) {
    const int64_t row = i / parts * c->block[0], col = i % parts * c->block[1];
    const int64_t rows = c->m - row < c->block[0] ? c->m - row : c->block[0];
    const int64_t cols = c->n - col < c->block[1] ? c->n - col : c->block[1];
    rdt_checks one = {.t = &bound,
                      .between = bound.segments ? c->between[2] + i : NULL,
                      .exact = c->exact,
                      .square_beta = true,
                      .kind = c->scalar ? RDT_CHECK_SCALAR : RDT_CHECK_TILE,
                      .outputs = rows * cols,
                      .place = {c->scalar ? -1 : row, c->scalar ? -1 : col},
                      .along = -1,
                      .expected = {c->blocks[0].dot + i, c->blocks[0].sq + i},
                      .observed = {c->blocks[1].dot + i, c->blocks[1].sq + i}};
    set_vanished(c, &one, (double)(c->block[0] * c->block[1]), (double)c->k * (double)c->block[0] * (1.0 + c->most));
    rdt_checks_run(&one, f, 1);
  }
}

/* A unit's squares: those of its rows with all columns, as far as one lane's columns can have a share in them. Behind
 * the last row lies that one again. */
static void square_units(const rdt_fused_check *c) {
  const int64_t wide = pieces(c->n, c->unit[1]), high = pieces(c->m, c->unit[0]);
  const double lanes = c->forms & RDT_FORM_ONE_SIDED ? 1.0 : 2.0;
  const double lost = rdt_dtype_info(c->real)->min_normal * (double)c->k * (1.0 + c->most);
  for (int64_t j = 0; j < wide; j++) {
    double most = 0.0;
    for (int64_t i = j * c->unit[1]; i < (j + 1) * c->unit[1] && i < c->n; i++) most = most_of(most, c->share[i]);
    c->units[0].sq[j] = most * lanes;
  }
  for (int64_t i = high - 1; i >= 0; i--) {
    double rows = 0.0, *const sq = c->units[0].sq + i * wide;
    for (int64_t r = i * c->unit[0]; r < (i + 1) * c->unit[0]; r++)
      rows += c->expected.sq[r < c->m ? r : c->m - 1] + lost;
    for (int64_t j = 0; j < wide; j++) sq[j] = rows * c->units[0].sq[j];
  }
}

static void judge_units(const rdt_fused_check *c, rdt_findings *f) {
  const int64_t wide = pieces(c->n, c->unit[1]), count = pieces(c->m, c->unit[0]) * wide;
  const bool summed = c->forms & RDT_FORM_SUMMED;
  rdt_checks checks = {.t = &c->unit_bound,
                       .exact = c->forms & RDT_FORM_TWICE,
                       .kind = RDT_CHECK_UNIT,
                       .outputs = (summed ? 1 : c->unit[0]) * (c->forms & RDT_FORM_ONE_SIDED ? 1 : 2),
                       .place = {0, 0},
                       .along = -1,
                       .wide = wide,
                       .unit = {c->unit[0], c->unit[1]},
                       .expected = c->units[0],
                       .observed = c->units[1]};
  f->unit[0] = c->unit[0];
  f->unit[1] = c->unit[1];
  if (!checks.exact) {
    square_units(c);
    set_vanished(c, &checks, (double)checks.outputs, (double)c->k * (double)checks.outputs);
  }
  rdt_checks_run(&checks, f, count);
}

void rdt_fused_judge(const rdt_fused_check *c, const rdt_fused *sums, rdt_findings *f) {
  if (c->depthwise || (c->forms & RDT_FORM_ROWS)) judge_rows(c, sums, f);
  if (!c->depthwise && (c->forms & RDT_FORM_COLUMNS)) judge_columns(c, sums, f);
  if (c->forms & RDT_FORM_BLOCKS) judge_blocks(c, sums, f);
  if (c->forms & RDT_FORM_UNITS) judge_units(c, f);
}
