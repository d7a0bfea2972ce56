#include "schemes/fused_check.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "schemes/checks.h"

struct rdt_fused_check {
  bool fixed;                   /* weights; else the kernel sums them too */
  int64_t m, n, k, taps[2], ic; /* k = taps x ic, the channel fastest; depthwise: m checks of n outputs */
  bool conv, depthwise, exact;
  int32_t zero;   /* of the weights */
  rdt_dtype real; /* in which sums are formed */
  rdt_tolerance bound;
  double *memory; /* one allocation; beta first: its dot and sq lie together */
  rdt_pair beta, expected, observed;
  double *w;
  float *weights, *squares; /* depthwise: side by side */
  double most;              /* of the squares in beta: made with them */
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
  if (!c->conv) return t * w->stride[0] + j * w->stride[1];
  const int64_t tap = t / c->ic;
  return j * w->stride[0] + t % c->ic * w->stride[1] + tap / c->taps[1] * w->stride[2] +
         tap % c->taps[1] * w->stride[3];
}

/* sq: the larger of the weights' squares (rounding of the product) and the checksum's (rounding of the check). Not
 * below what single precision keeps with all of its digits: squares of large inputs are weighed with it. */
void rdt_fused_recreate(rdt_fused_check *c, const rdt_tensor *weights) {
  if (c->depthwise) {
    copy_weights(c, weights);
    return;
  }
  const double least = rdt_dtype_info(c->real)->min_normal;
  c->most = 0.0;
  for (int64_t t = 0; t < c->k; t++) {
    double dot = 0.0, sq = least;
    for (int64_t j = 0; j < c->n; j++) {
      const int64_t at = weight_offset(c, weights, t, j);
      const double x = rdt_load(weights->data, weights->dtype, at) - c->zero;
      dot += c->w[j] * x;
      sq += x * x;
    }
    c->beta.dot[t] = dot;
    c->beta.sq[t] = !(dot * dot <= sq) ? dot * dot : sq;
    c->most = most_of(c->most, c->beta.sq[t]);
  }
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

rdt_status rdt_fused_create(const rdt_problem *p, double lambda, rdt_fused_check **out, rdt_reason *why) {
  rdt_fused_check *c = rdt_calloc(1, sizeof *c);
  *out = NULL;
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for checks");
  c->conv = p->op == RDT_KOP_CONV;
  c->fixed = p->in[1].data != NULL;
  rdt_problem_mnk(p, &c->m, &c->n, &c->k);
  c->ic = c->conv ? p->in[1].shape[1] : c->k;
  for (int i = 0; i < 2; i++) c->taps[i] = c->conv ? p->in[1].shape[2 + i] : 1;
  c->exact = p->acc == RDT_S32;
  c->real = c->exact ? RDT_F32 : p->in[0].dtype;
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
  const size_t count = (size_t)(2 * c->k + 4 * c->m + c->n); /* the plan has checked that these fit */
  c->memory = rdt_calloc(count, sizeof(double));
  if (!c->memory) {
    rdt_free(c);
    return rdt_fail(why, RDT_ERR_NOMEM, "no memory for checks");
  }
  c->beta = (rdt_pair){c->memory, c->memory + c->k};
  c->expected = (rdt_pair){c->beta.sq + c->k, c->beta.sq + c->k + c->m};
  c->observed = (rdt_pair){c->expected.sq + c->m, c->expected.sq + 2 * c->m};
  c->w = c->observed.sq + c->m;
  rdt_checks_signs(c->w, c->n, c->n, 2);
  if (c->fixed) rdt_fused_recreate(c, &p->in[1]);
  *out = c;
  return RDT_OK;
}

rdt_status rdt_fused_fixed(rdt_fused_check *c, rdt_vault *frame, rdt_vault *tables) {
  RDT_TRY(rdt_vault_add(frame, c, offsetof(rdt_fused_check, most)));
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
  *data = c->fixed ? c->beta.dot : NULL;
  *bytes = c->fixed ? (size_t)(2 * c->k) * sizeof(double) : 0;
  *dtype = RDT_F64;
}

rdt_fused rdt_fused_ask(const rdt_fused_check *c) {
  return (rdt_fused){.w = c->w,
                     .beta = c->beta,
                     .expected = c->expected,
                     .observed = c->observed,
                     .weights = c->weights,
                     .squares = c->squares};
}

/* Squares below the normal range of single precision vanish: their bound does not. */
static void add_vanished(const rdt_fused_check *c, double most) {
  const double lost = rdt_dtype_info(c->real)->min_normal;
  const double terms = (double)c->k * (c->depthwise ? (double)c->n : 1.0);
  for (int64_t i = 0; i < c->m; i++) {
    c->expected.sq[i] += lost * terms * (1.0 + most);
    c->observed.sq[i] += lost * (double)c->n;
  }
}

void rdt_fused_judge(const rdt_fused_check *c, const rdt_fused *sums, rdt_findings *f) {
  const rdt_checks checks = {.t = &c->bound,
                             .exact = c->exact,
                             .square_beta = true,
                             .kind = c->depthwise ? RDT_CHECK_COL : RDT_CHECK_ROW,
                             .outputs = c->n,
                             .place = {c->depthwise ? -1 : 0, c->depthwise ? 0 : -1},
                             .along = c->depthwise,
                             .period = c->depthwise ? c->ic : 0,
                             .expected = c->expected,
                             .observed = c->observed};
  if (!c->exact) add_vanished(c, c->fixed ? c->most : sums->most);
  rdt_checks_run(&checks, f, c->m);
}

/* Fitted to layers of MobileNet and BERT (bench model): an element of A costs about six flops, one of C about ten. */
double rdt_fused_cost(const rdt_problem *p) {
  int64_t m, n, k;
  if (rdt_problem_is_depthwise(p)) /* fitted likewise */
    return 4.0 * (double)rdt_tensor_count(&p->in[0]) + 10.0 * (double)rdt_tensor_count(&p->out);
  rdt_problem_mnk(p, &m, &n, &k);
  if (p->acc == RDT_S32) return (double)m * (3.0 * (double)k + 10.0 * (double)n); /* no squares */
  return (double)m * (6.0 * (double)k + 10.0 * (double)n);
}
