/* Normalisations: rows of some dimensions together are brought to norm 1, then scaled and shifted. */
#include <string.h>

#include "net/ops/ops.h"

static rdt_status norm_problem(const rdt_op_args *a, const rdt_tensor *x, const rdt_tensor *out, int axis,
                               double epsilon, int operands, rdt_problem *p) {
  RDT_TRY(rdt_problem_init(p, RDT_KOP_NORM, operands));
  p->fn = a->n->op->fn;
  p->acc = rdt_op_accumulator(x->dtype);
  p->axis = axis;
  p->epsilon = epsilon;
  p->in[0] = *x;
  p->out = *out;
  return RDT_OK;
}

/* Mean and InvStdDev, outputs 1 and 2 of LayerNormalization: reductions of their own. */
static rdt_status layer_statistics(const rdt_op_args *a, int axis, double epsilon, rdt_tensor *out, rdt_problem *p,
                                   rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  if (x->dtype != RDT_F32)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "mean and deviation as outputs are available for f32, not for %s",
                       rdt_dtype_name(x->dtype));
  if (!p) {
    *out = *x;
    for (int d = axis; d < x->rank; d++) out->shape[d] = 1;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_REDUCE, 1));
  p->fn = a->n->output == 1 ? RDT_FN_REDUCE_MEAN : RDT_FN_REDUCE_INVSTD;
  p->param[0] = epsilon;
  p->in[0] = *x;
  p->out = *out;
  return RDT_OK;
}

/* LayerNormalization and RMSNormalization: X, Scale[, B]. */
rdt_status rdt_op_layernorm(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  double epsilon;
  int axis, operands = rdt_op_in(a, 2) ? 3 : 2;
  rdt_tensor factor[2];
  RDT_TRY(rdt_op_float_inputs(a, 0, 3, why));
  RDT_TRY(rdt_op_float(a, "epsilon", 1e-5, &epsilon, why));
  RDT_TRY(rdt_op_axis(a, -1, x->rank, x->rank, &axis, why));
  for (int i = 1; i < operands; i++) {
    rdt_reason inner;
    if (rdt_tensor_broadcast(rdt_op_in(a, i), x->rank, x->shape, &factor[i - 1], &inner) != RDT_OK)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input %d: %s", i, inner.text);
  }
  if (a->n->output > 0) return layer_statistics(a, axis, epsilon, out, p, why);
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(norm_problem(a, x, out, axis, epsilon, operands, p));
  for (int i = 1; i < operands; i++) p->in[i] = factor[i - 1];
  return RDT_OK;
}

static rdt_status check_vectors(const rdt_op_args *a, int64_t length, rdt_reason *why) {
  for (int i = 1; i < 3; i++) {
    const rdt_tensor *t = rdt_op_in(a, i);
    char s[96];
    if (t->rank != 1 || t->shape[0] != length)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input %d is %s, must be of length %lld", i,
                         rdt_tensor_text(t, s, sizeof s), (long long)length);
  }
  return RDT_OK;
}

rdt_status rdt_op_instancenorm(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  double epsilon;
  RDT_TRY(rdt_op_float_inputs(a, 0, 3, why));
  RDT_TRY(rdt_op_float(a, "epsilon", 1e-5, &epsilon, why));
  if (x->rank < 3) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input of rank %d has no spatial dimensions", x->rank);
  RDT_TRY(check_vectors(a, x->shape[1], why));
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(norm_problem(a, x, out, 2, epsilon, 3, p));
  for (int i = 1; i < 3; i++) p->in[i] = rdt_view_along(rdt_op_in(a, i), out, 1);
  return RDT_OK;
}

/* n c .. as n groups c/groups .. */
static rdt_tensor grouped(const rdt_tensor *t, int64_t groups) {
  rdt_tensor v = *t;
  const int64_t each = t->shape[1] / groups;
  v.rank = t->rank + 1;
  for (int d = t->rank; d > 2; d--) {
    v.shape[d] = t->shape[d - 1];
    v.stride[d] = t->stride[d - 1];
  }
  v.shape[1] = groups;
  v.stride[1] = t->stride[1] * each;
  v.shape[2] = each;
  v.stride[2] = t->stride[1];
  return v;
}

/* Scale and bias go by group until opset 20, by channel from 21 on. */
rdt_status rdt_op_groupnorm(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  const bool by_channel = a->g->opset >= 21;
  double epsilon;
  int64_t groups;
  RDT_TRY(rdt_op_float_inputs(a, 0, 3, why));
  RDT_TRY(rdt_op_float(a, "epsilon", 1e-5, &epsilon, why));
  RDT_TRY(rdt_op_int(a, "num_groups", 0, &groups, why));
  if (x->rank < 2 || x->rank >= RDT_MAX_RANK)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "input of rank %d: 2 to %d are available", x->rank,
                       RDT_MAX_RANK - 1);
  if (groups < 1 || x->shape[1] % groups != 0)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "num_groups %lld does not divide %lld channels", (long long)groups,
                       (long long)x->shape[1]);
  RDT_TRY(check_vectors(a, by_channel ? x->shape[1] : groups, why));
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  const rdt_tensor in = grouped(x, groups), result = grouped(out, groups);
  RDT_TRY(norm_problem(a, &in, &result, 2, epsilon, 3, p));
  for (int i = 1; i < 3; i++) {
    const rdt_tensor *t = rdt_op_in(a, i), channels = rdt_view_along(t, out, 1);
    p->in[i] = by_channel ? grouped(&channels, groups) : rdt_view_along(t, &result, 1);
  }
  return RDT_OK;
}

/* The marked dimensions last, in their order; the number of the others. */
static int moved_back(const rdt_tensor *x, const bool *marked, int *order) {
  int n = 0, others;
  for (int d = 0; d < x->rank; d++)
    if (!marked[d]) order[n++] = d;
  others = n;
  for (int d = 0; d < x->rank; d++)
    if (marked[d]) order[n++] = d;
  return others;
}

static rdt_status permuted(const rdt_op_args *a, const bool *marked, double epsilon, const rdt_tensor *out,
                           rdt_problem *p) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int order[RDT_MAX_RANK];
  const int axis = moved_back(x, marked, order);
  const rdt_tensor in = rdt_view_permute(x, order), result = rdt_view_permute(out, order);
  return norm_problem(a, &in, &result, axis, epsilon, 1, p);
}

rdt_status rdt_op_mvn(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  static const int64_t usual[] = {0, 2, 3};
  const rdt_tensor *x = rdt_op_in(a, 0);
  const rdt_attr *axes = rdt_node_attr(a->n, "axes");
  bool marked[RDT_MAX_RANK];
  RDT_TRY(rdt_op_float_inputs(a, 0, 1, why));
  if (axes && axes->type != RDT_ATTR_INTS)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute axes must be a list of integers");
  RDT_TRY(rdt_op_marked_axes(a, axes ? axes->ints : usual, axes ? axes->n : 3, x->rank, marked, why));
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  return permuted(a, marked, 1e-9, out, p); /* the epsilon of the operator's definition */
}

rdt_status rdt_op_lpnorm(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  bool marked[RDT_MAX_RANK] = {false};
  int64_t order;
  int axis;
  RDT_TRY(rdt_op_float_inputs(a, 0, 1, why));
  RDT_TRY(rdt_op_axis(a, -1, x->rank, x->rank, &axis, why));
  RDT_TRY(rdt_op_int(a, "p", 2, &order, why));
  if (order != 1 && order != 2)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "p = %lld: 1 and 2 are available", (long long)order);
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  marked[axis] = true;
  RDT_TRY(permuted(a, marked, 0, out, p));
  if (order == 1) p->fn = RDT_FN_NORM_L1;
  return RDT_OK;
}
