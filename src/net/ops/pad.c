/* Pad, Trilu; DepthToSpace and SpaceToDepth, which are copies between views with blocks as dimensions. */
#include <string.h>

#include "net/ops/ops.h"

static rdt_status pad_mode(const rdt_op_args *a, int *mode, rdt_reason *why) {
  static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
  const rdt_attr *attr = rdt_node_attr(a->n, "mode");
  if (attr && attr->type != RDT_ATTR_STRING)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute mode must be a string");
  for (*mode = 0; *mode < 4; ++*mode)
    if (strcmp(attr ? attr->s : "constant", names[*mode]) == 0) return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "mode '%.40s': take constant, reflect, edge or wrap", attr->s);
}

/* Pads of every dimension: begins, then ends at RDT_MAX_RANK. */
static rdt_status pads_of(const rdt_op_args *a, int rank, int64_t *pads, rdt_reason *why) {
  int64_t given[RDT_OP_MOST_INTS], axes[RDT_OP_MOST_INTS];
  int n, n_axes = -1;
  RDT_TRY(rdt_op_list(a, "pads", 11, 1, given, &n, why));
  if (a->g->opset >= 18 && rdt_op_in(a, 3)) RDT_TRY(rdt_op_planned_ints(a, 3, axes, &n_axes, why));
  const int count = n_axes < 0 ? rank : n_axes;
  if (n != 2 * count)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%d pads for %d dimensions: two each, all begins first", n, count);
  for (int i = 0; i < 2 * RDT_MAX_RANK; i++) pads[i] = 0;
  bool used[RDT_MAX_RANK] = {false};
  for (int i = 0; i < count; i++) {
    const int64_t axis = n_axes < 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || used[axis])
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axes must name dimensions of a tensor of rank %d once each", rank);
    used[axis] = true;
    pads[axis] = given[i];
    pads[RDT_MAX_RANK + axis] = given[i + count];
  }
  return RDT_OK;
}

rdt_status rdt_op_pad(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *fill = a->g->opset >= 11 ? rdt_op_in(a, 2) : NULL;
  int64_t pads[2 * RDT_MAX_RANK];
  int mode;
  double value = 0.0;
  RDT_TRY(pad_mode(a, &mode, why));
  RDT_TRY(pads_of(a, x->rank, pads, why));
  if (a->g->opset < 11) RDT_TRY(rdt_op_float(a, "value", 0.0, &value, why));
  if (fill && (fill->dtype != x->dtype || rdt_tensor_count(fill) != 1))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "constant_value must be one %s", rdt_dtype_name(x->dtype));
  rdt_tensor y = {.dtype = x->dtype, .rank = x->rank};
  for (int d = 0; d < x->rank; d++) {
    const int64_t most = INT64_MAX / 8;
    if (pads[d] > most || pads[d] < -most || pads[RDT_MAX_RANK + d] > most || pads[RDT_MAX_RANK + d] < -most ||
        x->shape[d] > most || (y.shape[d] = x->shape[d] + pads[d] + pads[RDT_MAX_RANK + d]) < 0)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "pads %lld and %lld on dimension %d of %lld: out of range",
                         (long long)pads[d], (long long)pads[RDT_MAX_RANK + d], d, (long long)x->shape[d]);
    if (mode != RDT_PAD_CONSTANT && x->shape[d] == 0 && y.shape[d] > 0)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "dimension %d has nothing to pad with", d);
  }
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_PAD, fill ? 2 : 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->in[0] = *x;
  if (fill) p->in[1] = rdt_tensor_dense(fill->data, fill->dtype, 0, NULL);
  p->out = *out;
  p->mode = mode;
  p->param[0] = value;
  memcpy(p->ints, pads, sizeof pads);
  return RDT_OK;
}

rdt_status rdt_op_trilu(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t upper, k[RDT_OP_MOST_INTS] = {0};
  int n = 1;
  RDT_TRY(rdt_op_int(a, "upper", 1, &upper, why));
  if (rdt_op_in(a, 1)) RDT_TRY(rdt_op_planned_ints(a, 1, k, &n, why));
  if (x->rank < 2 || n != 1)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "takes matrices and one diagonal, got rank %d and %d", x->rank, n);
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_TRIANGLE, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->in[0] = *x;
  p->out = *out;
  p->mode = upper != 0;
  p->ints[0] = k[0];
  return RDT_OK;
}

/* n (b b c) h w as n b b c h w, or n (c b b) h w as n c b b h w. */
static rdt_status blocks(const rdt_op_args *a, rdt_tensor *deep, rdt_tensor *wide, int64_t b, bool crd,
                         rdt_reason *why) {
  const int64_t c = deep->shape[1] / (b * b), h = deep->shape[2], w = deep->shape[3];
  const int64_t split[6] = {deep->shape[0], crd ? c : b, b, crd ? b : c, h, w};
  const int64_t spread[6] = {wide->shape[0], c, h, b, w, b};
  static const int orders[2][6] = {{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}}; /* dimensions of deep in wide's order */
  rdt_tensor d, s;
  if (!rdt_view_reshape(deep, 6, split, &d) || !rdt_view_reshape(wide, 6, spread, &s))
    return rdt_op_fail(a, why, RDT_ERR_INTERNAL, "blocks cannot be seen as dimensions");
  *deep = d;
  for (int i = 0; i < 6; i++) {
    deep->shape[i] = d.shape[orders[crd][i]];
    deep->stride[i] = d.stride[orders[crd][i]];
  }
  *wide = s;
  return RDT_OK;
}

rdt_status rdt_op_blocks(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  const bool to_space = strcmp(a->n->op->name, "DepthToSpace") == 0;
  const rdt_attr *mode = rdt_node_attr(a->n, "mode");
  int64_t b, square;
  char s[96];
  RDT_TRY(rdt_op_int(a, "blocksize", 0, &b, why));
  if (mode && (mode->type != RDT_ATTR_STRING || (strcmp(mode->s, "DCR") != 0 && strcmp(mode->s, "CRD") != 0)))
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute mode must be DCR or CRD");
  if (x->rank != 4 || b < 1 || __builtin_mul_overflow(b, b, &square) ||
      (to_space ? x->shape[1] % square != 0 : x->shape[2] % b != 0 || x->shape[3] % b != 0))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "blocks of %lld do not divide %s (n c h w)", (long long)b,
                       rdt_tensor_text(x, s, sizeof s));
  if (!p) {
    *out = (rdt_tensor){.dtype = x->dtype, .rank = 4, .shape = {x->shape[0]}};
    bool over = false;
    if (to_space) {
      out->shape[1] = x->shape[1] / square;
      for (int d = 2; d < 4; d++) over |= __builtin_mul_overflow(x->shape[d], b, &out->shape[d]);
    } else {
      over = __builtin_mul_overflow(x->shape[1], square, &out->shape[1]);
      for (int d = 2; d < 4; d++) out->shape[d] = x->shape[d] / b;
    }
    return over ? rdt_op_fail(a, why, RDT_ERR_SHAPE, "the dimensions overflow") : RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->in[0] = *x;
  p->out = *out;
  const bool crd = mode && to_space && strcmp(mode->s, "CRD") == 0;
  return to_space ? blocks(a, &p->in[0], &p->out, b, crd, why) : blocks(a, &p->out, &p->in[0], b, false, why);
}
