/* Resize and Upsample. */
#include <math.h>
#include <string.h>

#include "net/ops/ops.h"

/* The value of a string attribute as its place in a list. */
static rdt_status word_of(const rdt_op_args *a, const char *name, const char *const *words, int n, int def,
                          int64_t *out, rdt_reason *why) {
  const rdt_attr *t = rdt_node_attr(a->n, name);
  if (t && t->type != RDT_ATTR_STRING)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute %s must be a string", name);
  *out = def;
  if (!t) return RDT_OK;
  for (*out = 0; *out < n; ++*out)
    if (strcmp(t->s, words[*out]) == 0) return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "%s '%.40s' is not available; take %s or another one of ONNX's", name,
                     t->s, words[0]);
}

/* The dimensions that scales and sizes are about. */
static rdt_status axes_of(const rdt_op_args *a, int rank, int64_t *axes, int *n, rdt_reason *why) {
  const rdt_attr *t = rdt_node_attr(a->n, "axes");
  bool marked[RDT_MAX_RANK];
  *n = rank;
  for (int d = 0; d < rank; d++) axes[d] = d;
  if (!t) return RDT_OK;
  if (t->type != RDT_ATTR_INTS) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute axes must be a list of integers");
  RDT_TRY(rdt_op_marked_axes(a, t->ints, t->n, rank, marked, why));
  *n = t->n;
  for (int i = 0; i < t->n; i++) axes[i] = t->ints[i] < 0 ? t->ints[i] + rank : t->ints[i];
  return RDT_OK;
}

static rdt_status by_scales(const rdt_op_args *a, const rdt_tensor *given, const double *listed, int n,
                            const int64_t *axes, rdt_tensor *y, double *scale, rdt_reason *why) {
  for (int i = 0; i < n; i++) {
    const int d = (int)axes[i];
    const double s = given ? rdt_load(given->data, given->dtype, i * given->stride[0]) : listed[i];
    const float length = (float)y->shape[d] * (float)s; /* in single precision, as everybody computes it */
    if (!(s > 0) || !(s < 0x1p31) || !(length < 0x1p62f))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "scale %g of dimension %d of %lld: out of range", s, d,
                         (long long)y->shape[d]);
    y->shape[d] = s == 1 ? y->shape[d] : (int64_t)floorf(length);
    scale[d] = s;
  }
  return RDT_OK;
}

static rdt_status by_sizes(const rdt_op_args *a, const int64_t *sizes, int n, const int64_t *axes, int64_t policy,
                           rdt_tensor *y, double *scale, rdt_reason *why) {
  double one = 0;
  for (int i = 0; i < n; i++) {
    const int64_t in = y->shape[axes[i]];
    if (sizes[i] < 0 || sizes[i] > INT64_MAX / 8 || (in == 0 && sizes[i] > 0))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "dimension %lld of %lld cannot become %lld", (long long)axes[i],
                         (long long)in, (long long)sizes[i]);
    const double s = in && sizes[i] ? (double)sizes[i] / (double)in : 1;
    scale[axes[i]] = s;
    one = i == 0 || (policy == 1 ? s < one : s > one) ? s : one;
  }
  for (int i = 0; i < n; i++) {
    const double length = floor(one * (double)y->shape[axes[i]] + 0.5);
    if (policy != 0) scale[axes[i]] = one;
    if (policy != 0 && !(length < 0x1p60)) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "the dimensions overflow");
    y->shape[axes[i]] = policy != 0 ? (int64_t)length : sizes[i];
  }
  return RDT_OK;
}

static rdt_status shape_of(const rdt_op_args *a, rdt_tensor *y, double *scale, rdt_reason *why) {
  static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
  const bool old = a->g->opset < 11 || strcmp(a->n->op->name, "Upsample") == 0;
  const rdt_tensor *scales = rdt_op_in(a, old ? 1 : 2), *sizes = old ? NULL : rdt_op_in(a, 3);
  const rdt_attr *listed = rdt_node_attr(a->n, "scales"); /* Upsample before opset 9 */
  int64_t axes[RDT_MAX_RANK], lengths[RDT_OP_MOST_INTS], policy;
  int n, count;
  RDT_TRY(axes_of(a, y->rank, axes, &n, why));
  RDT_TRY(word_of(a, "keep_aspect_ratio_policy", policies, 3, 0, &policy, why));
  for (int d = 0; d < RDT_MAX_RANK; d++) scale[d] = 1;
  if (scales && scales->rank == 1 && scales->shape[0] == 0) scales = NULL;
  if (scales) {
    if (scales->rank != 1 || scales->shape[0] != n || !rdt_dtype_is_float(scales->dtype))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "takes a scale for each of %d dimensions", n);
    if (!scales->data) return rdt_op_unknown(a, old ? 1 : 2, why);
    return by_scales(a, scales, NULL, n, axes, y, scale, why);
  }
  if (listed) {
    if (listed->type != RDT_ATTR_FLOATS || listed->n != n)
      return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute scales must be a list of %d floats", n);
    return by_scales(a, NULL, listed->floats, n, axes, y, scale, why);
  }
  if (!sizes) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "has neither scales nor sizes");
  RDT_TRY(rdt_op_planned_ints(a, 3, lengths, &count, why));
  if (count != n) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%d sizes for %d dimensions", count, n);
  return by_sizes(a, lengths, n, axes, policy, y, scale, why);
}

rdt_status rdt_op_resize(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  static const char *const places[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                       "align_corners", "asymmetric",           "tf_half_pixel_for_nn"};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  const bool old = a->g->opset < 11 || strcmp(a->n->op->name, "Upsample") == 0;
  double scale[RDT_MAX_RANK], cubic;
  int64_t mode, place, rounding, exclude, antialias;
  rdt_tensor y = *rdt_op_in(a, 0);
  RDT_TRY(word_of(a, "mode", modes, 3, 0, &mode, why));
  RDT_TRY(word_of(a, "coordinate_transformation_mode", places, 6, old ? RDT_ASYMMETRIC : 0, &place, why));
  RDT_TRY(word_of(a, "nearest_mode", roundings, 4, old ? RDT_ROUND_FLOOR : 0, &rounding, why));
  RDT_TRY(rdt_op_float(a, "cubic_coeff_a", -0.75, &cubic, why));
  RDT_TRY(rdt_op_int(a, "exclude_outside", 0, &exclude, why));
  RDT_TRY(rdt_op_int(a, "antialias", 0, &antialias, why));
  if (antialias) return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "antialias is not available; export without it");
  RDT_TRY(shape_of(a, &y, scale, why));
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_RESIZE, 1));
  p->acc = rdt_op_accumulator(y.dtype);
  p->in[0] = *rdt_op_in(a, 0);
  p->out = *out;
  p->mode = (int)mode;
  p->ints[0] = place;
  p->ints[1] = rounding;
  p->ints[2] = exclude != 0;
  p->param[0] = cubic;
  memcpy(p->scale, scale, sizeof scale);
  return RDT_OK;
}
