/* Random problems of resampling, cumulative sums and the highest elements, and their oracle. */
#include <math.h>

#include "util_problem.h"

static double at(const rdt_tensor *t, const int64_t *index) {
  int64_t o = 0;
  for (int d = 0; d < t->rank; d++) o += index[d] * t->stride[d];
  return rdt_load(t->data, t->dtype, o);
}

static int64_t upto(util_random *r, int64_t n) {
  return (int64_t)(util_next(r) % (uint64_t)(n + 1));
}

void util_case_make_rest(util_case *c, util_random *r, rdt_dtype a) {
  const int rank = 1 + (int)upto(r, 3);
  const bool resize = c->p.op == RDT_KOP_RESIZE;
  int64_t x[4], y[4];
  int left = 3;
  if (a == RDT_BOOL && !resize) a = RDT_U8;
  c->p.axis = (int)upto(r, rank - 1);
  c->p.mode = rdt_dtype_is_float(a) ? (int)upto(r, 2) : RDT_RESIZE_NEAREST;
  c->p.ints[0] = upto(r, resize ? RDT_TF_HALF_PIXEL_FOR_NN : 1);
  c->p.ints[1] = upto(r, resize ? RDT_ROUND_CEIL : 1);
  c->p.ints[2] = upto(r, 1);
  c->p.param[0] = -0.5;
  for (int d = 0; d < rank; d++) {
    x[d] = y[d] = 1 + upto(r, d < rank - 1 || resize    ? 8
                              : c->p.op == RDT_KOP_TOPK ? 40
                                                        : 400); /* its oracle is cubic */
    c->p.scale[d] = 1;
    if (resize && left-- > 0 && upto(r, 1)) {
      c->p.scale[d] = 0.3 + (double)upto(r, 20) * 0.17;
      y[d] = (int64_t)((double)x[d] * c->p.scale[d]);
    }
  }
  if (c->p.op == RDT_KOP_TOPK) y[c->p.axis] = upto(r, x[c->p.axis]);
  c->in[0] = util_view(c, r, a, rank, x, util_layout_of(r, false, true));
  c->p.out = util_view(c, r, c->p.op == RDT_KOP_TOPK ? RDT_S64 : a, rank, y, util_layout_of(r, false, false));
}

/* ---- resize ---- */

static double kernel(const rdt_problem *p, double distance) {
  const double a = p->param[0], d = fabs(distance);
  if (p->mode == RDT_RESIZE_LINEAR) return d < 1 ? 1 - d : 0;
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

static double source(const rdt_problem *p, int d, int64_t o) {
  const double n = (double)p->in[0].shape[d], m = (double)p->out.shape[d], s = p->scale[d], i = (double)o;
  switch (p->ints[0]) {
    case RDT_HALF_PIXEL_SYMMETRIC:
      return n / 2 * (1 - m / (n * s)) + (i + 0.5) / s - 0.5;
    case RDT_PYTORCH_HALF_PIXEL:
      return m > 1 ? (i + 0.5) / s - 0.5 : 0;
    case RDT_ALIGN_CORNERS:
      return m > 1 && n * s > 1 ? i * (n - 1) / (n * s - 1) : 0;
    case RDT_ASYMMETRIC:
      return i / s;
    case RDT_TF_HALF_PIXEL_FOR_NN:
      return (i + 0.5) / s;
    default:
      return (i + 0.5) / s - 0.5;
  }
}

static double resized(const rdt_problem *p, const int64_t *out, int d, int64_t *in, double *scale) {
  const int64_t n = d < p->out.rank ? p->in[0].shape[d] : 0;
  if (d == p->out.rank) return at(&p->in[0], in);
  in[d] = out[d];
  if (p->scale[d] == 1 && n == p->out.shape[d]) return resized(p, out, d + 1, in, scale);
  const double x = source(p, d, out[d]);
  if (p->mode == RDT_RESIZE_NEAREST) {
    const double to = p->ints[1] == RDT_ROUND_FLOOR   ? floor(x)
                      : p->ints[1] == RDT_ROUND_CEIL  ? ceil(x)
                      : p->ints[1] == RDT_PREFER_CEIL ? floor(x + 0.5)
                                                      : ceil(x - 0.5);
    in[d] = to < 0 ? 0 : to >= (double)n ? n - 1 : (int64_t)to;
    return resized(p, out, d + 1, in, scale);
  }
  double sum = 0, weights = 0;
  for (int64_t k = (int64_t)floor(x) - 1; k <= (int64_t)floor(x) + 2; k++) {
    const double w = kernel(p, x - (double)k);
    if (p->mode == RDT_RESIZE_CUBIC && p->ints[2] && (k < 0 || k >= n)) continue;
    in[d] = k < 0 ? 0 : k >= n ? n - 1 : k;
    sum += w * resized(p, out, d + 1, in, scale);
    weights += w;
  }
  if (!(p->mode == RDT_RESIZE_CUBIC && p->ints[2])) return sum;
  *scale /= fabs(weights) < 1 ? fabs(weights) : 1;
  return sum / weights;
}

/* ---- lines ---- */

static double summed(const rdt_problem *p, const int64_t *out, double *scale) {
  int64_t in[RDT_MAX_RANK];
  double sum = 0;
  uint64_t bits = 0;
  for (int d = 0; d < p->out.rank; d++) in[d] = out[d];
  for (int64_t i = 0; i < p->out.shape[p->axis]; i++) {
    const int64_t away = p->ints[1] ? i - out[p->axis] : out[p->axis] - i;
    if (away < (p->ints[0] ? 1 : 0)) continue;
    in[p->axis] = i;
    sum += at(&p->in[0], in);
    *scale += fabs(at(&p->in[0], in));
  }
  if (rdt_dtype_is_float(p->out.dtype)) return sum;
  *scale = 0;
  rdt_store_int(&bits, p->out.dtype, 0, (int64_t)sum);
  return rdt_load(&bits, p->out.dtype, 0);
}

static bool ahead(const rdt_problem *p, double a, int64_t i, double b, int64_t j) {
  return a == b ? i < j : p->ints[0] ? a < b : a > b;
}

/* The place that as many elements are ahead of as the output's index says. */
static double placed(const rdt_problem *p, const int64_t *out) {
  int64_t a[RDT_MAX_RANK], b[RDT_MAX_RANK];
  const int64_t n = p->in[0].shape[p->axis];
  for (int d = 0; d < p->out.rank; d++) a[d] = b[d] = out[d];
  for (int64_t i = 0; i < n; i++) {
    int64_t before = 0;
    a[p->axis] = i;
    for (int64_t j = 0; j < n; j++) {
      b[p->axis] = j;
      before += ahead(p, at(&p->in[0], b), j, at(&p->in[0], a), i);
    }
    if (before == out[p->axis]) return (double)i;
  }
  return -1;
}

double util_oracle_rest(const rdt_problem *p, const int64_t *out, double *scale) {
  int64_t in[RDT_MAX_RANK];
  *scale = 0;
  if (p->op == RDT_KOP_CUMSUM) return summed(p, out, scale);
  if (p->op == RDT_KOP_TOPK) return placed(p, out);
  *scale = p->mode == RDT_RESIZE_NEAREST ? 0 : 8;
  return resized(p, out, 0, in, scale);
}
