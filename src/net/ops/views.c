/* The same elements in the same order with another shape, or in another order or repeated by strides alone: Identity,
 * Dropout (inference), Flatten, Reshape, Squeeze, Unsqueeze; Transpose, Expand. */
#include <string.h>

#include "net/ops/ops.h"

/* In training, and with a ratio other than 0, elements would be dropped at random. */
static rdt_status dropout(const rdt_op_args *a, rdt_reason *why) {
  const rdt_tensor *ratio = rdt_op_in(a, 1), *training = rdt_op_in(a, 2);
  if (!training) return RDT_OK;
  if (training->dtype != RDT_BOOL || rdt_tensor_count(training) != 1 || (ratio && rdt_tensor_count(ratio) != 1))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "training_mode must be one boolean, ratio one number");
  if (!training->data || (*(const unsigned char *)training->data &&
                          !(ratio && ratio->data && rdt_load(ratio->data, ratio->dtype, 0) == 0.0)))
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "training_mode is not available; export the model for inference");
  return RDT_OK;
}

static rdt_status product(const rdt_op_args *a, const rdt_tensor *x, int from, int to, int64_t *out, rdt_reason *why) {
  *out = 1;
  for (int d = from; d < to; d++)
    if (__builtin_mul_overflow(*out, x->shape[d], out))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "the number of elements overflows");
  return RDT_OK;
}

static rdt_status flatten(const rdt_op_args *a, const rdt_tensor *x, rdt_tensor *y, rdt_reason *why) {
  int axis;
  RDT_TRY(rdt_op_axis(a, 1, x->rank, x->rank + 1, &axis, why));
  y->rank = 2;
  RDT_TRY(product(a, x, 0, axis, &y->shape[0], why));
  return product(a, x, axis, x->rank, &y->shape[1], why);
}

static rdt_status reshape(const rdt_op_args *a, const rdt_tensor *x, rdt_tensor *y, rdt_reason *why) {
  int64_t shape[RDT_OP_MOST_INTS], allow_zero, known = 1;
  int open = -1, rank;
  char s[96];
  RDT_TRY(rdt_op_planned_ints(a, 1, shape, &rank, why));
  if (rank > RDT_MAX_RANK)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "to rank %d; at most %d is available", rank, RDT_MAX_RANK);
  RDT_TRY(rdt_op_int(a, "allowzero", 0, &allow_zero, why));
  y->rank = rank;
  for (int d = 0; d < y->rank; d++) {
    int64_t v = shape[d];
    if (v == 0 && !allow_zero) {
      if (d >= x->rank)
        return rdt_op_fail(a, why, RDT_ERR_SHAPE, "dimension %d is to be copied from %s, which has none there", d,
                           rdt_tensor_text(x, s, sizeof s));
      v = x->shape[d];
    } else if (v == -1 && open < 0) {
      open = d;
      v = 1;
    } else if (v < 0) {
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "to dimension %d of %lld%s", d, (long long)v,
                         v == -1 ? ": only one may be -1" : "");
    }
    y->shape[d] = v;
    if (__builtin_mul_overflow(known, v, &known))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "the number of elements overflows");
  }
  const int64_t count = rdt_tensor_count(x);
  if (open >= 0) {
    if (known == 0 || count % known != 0)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%s does not divide into parts of %lld",
                         rdt_tensor_text(x, s, sizeof s), (long long)known);
    y->shape[open] = count / known;
  } else if (known != count) {
    char sy[96];
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%s to %s: the numbers of elements differ",
                       rdt_tensor_text(x, s, sizeof s), rdt_tensor_text(y, sy, sizeof sy));
  }
  return RDT_OK;
}

/* Axes as marks; each within [-rank, rank) and given once. */
static rdt_status marked(const rdt_op_args *a, const int64_t *axes, int n, int rank, bool *mark, rdt_reason *why) {
  for (int d = 0; d < rank; d++) mark[d] = false;
  for (int i = 0; i < n; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axis %lld of a tensor of rank %d", (long long)axes[i], rank);
    if (mark[axis]) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axis %lld is given twice", (long long)axes[i]);
    mark[axis] = true;
  }
  return RDT_OK;
}

static rdt_status squeeze(const rdt_op_args *a, const rdt_tensor *x, rdt_tensor *y, rdt_reason *why) {
  int64_t axes[RDT_OP_MOST_INTS];
  bool mark[RDT_MAX_RANK];
  int n;
  char s[96];
  RDT_TRY(rdt_op_list(a, "axes", 13, 1, axes, &n, why));
  RDT_TRY(marked(a, axes, n < 0 ? 0 : n, x->rank, mark, why));
  y->rank = 0;
  for (int d = 0; d < x->rank; d++) {
    if (n < 0) mark[d] = x->shape[d] == 1;
    if (!mark[d])
      y->shape[y->rank++] = x->shape[d];
    else if (x->shape[d] != 1)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "dimension %d of %s is not of length 1", d,
                         rdt_tensor_text(x, s, sizeof s));
  }
  return RDT_OK;
}

static rdt_status unsqueeze(const rdt_op_args *a, const rdt_tensor *x, rdt_tensor *y, rdt_reason *why) {
  int64_t axes[RDT_OP_MOST_INTS];
  bool mark[RDT_MAX_RANK];
  int n, from = 0;
  RDT_TRY(rdt_op_list(a, "axes", 13, 1, axes, &n, why));
  if (n < 0) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "axes are missing");
  if (x->rank + n > RDT_MAX_RANK)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "to rank %d; at most %d is available", x->rank + n, RDT_MAX_RANK);
  y->rank = x->rank + n;
  RDT_TRY(marked(a, axes, n, y->rank, mark, why));
  for (int d = 0; d < y->rank; d++) y->shape[d] = mark[d] ? 1 : x->shape[from++];
  return RDT_OK;
}

static rdt_status mask_of_dropout(const rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  static bool kept = true; /* every element is, in inference */
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->out = *out;
  const rdt_tensor one = {.data = &kept, .dtype = RDT_BOOL};
  return rdt_tensor_broadcast(&one, out->rank, out->shape, &p->in[0], why);
}

rdt_status rdt_op_copy(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  const char *op = a->n->op->name;
  if (!p) {
    *out = *x;
    if (a->n->output == 1) out->dtype = RDT_BOOL;
    if (strcmp(op, "Flatten") == 0) return flatten(a, x, out, why);
    if (strcmp(op, "Reshape") == 0) return reshape(a, x, out, why);
    if (strcmp(op, "Squeeze") == 0) return squeeze(a, x, out, why);
    if (strcmp(op, "Unsqueeze") == 0) return unsqueeze(a, x, out, why);
    if (strcmp(op, "Dropout") == 0) return dropout(a, why);
    return RDT_OK;
  }
  if (a->n->output == 1) return mask_of_dropout(out, p, why);
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->in[0] = *x;
  p->out = *out;
  /* Another shape: one side is seen with the shape of the other one, which keeps the logical order. */
  if (rdt_tensor_same_shape(x, out) || rdt_view_reshape(x, out->rank, out->shape, &p->in[0]) ||
      rdt_view_reshape(out, x->rank, x->shape, &p->out))
    return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_INTERNAL, "neither side of a reshape can be seen with the other one's shape");
}

rdt_status rdt_op_transpose(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t perm[RDT_MAX_RANK];
  bool used[RDT_MAX_RANK] = {false};
  for (int d = 0; d < x->rank; d++) perm[d] = x->rank - 1 - d;
  if (rdt_node_attr(a->n, "perm")) RDT_TRY(rdt_op_ints(a, "perm", x->rank, 0, perm, why));
  rdt_tensor y = {.data = x->data, .dtype = x->dtype, .rank = x->rank};
  for (int d = 0; d < x->rank; d++) {
    if (perm[d] < 0 || perm[d] >= x->rank || used[perm[d]])
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "perm must name each of the %d dimensions once", x->rank);
    used[perm[d]] = true;
    y.shape[d] = x->shape[perm[d]];
    y.stride[d] = x->stride[perm[d]];
  }
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->in[0] = y;
  p->out = *out;
  return RDT_OK;
}

/* As numpy broadcasts, in both directions: a length of 1 in the wanted shape keeps that of the input. */
rdt_status rdt_op_expand(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  if (!p) {
    int64_t shape[RDT_OP_MOST_INTS];
    int rank;
    char sx[96], sw[96];
    RDT_TRY(rdt_op_planned_ints(a, 1, shape, &rank, why));
    if (rank > RDT_MAX_RANK)
      return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "to rank %d; at most %d is available", rank, RDT_MAX_RANK);
    rdt_tensor wanted = {.dtype = x->dtype, .rank = rank};
    for (int d = 0; d < rank; d++) {
      if (shape[d] < 0) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "to dimension %d of %lld", d, (long long)shape[d]);
      wanted.shape[d] = shape[d];
    }
    out->dtype = x->dtype;
    if (!rdt_shape_broadcast(x, &wanted, &out->rank, out->shape))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%s does not broadcast with %s", rdt_tensor_text(x, sx, sizeof sx),
                         rdt_tensor_text(&wanted, sw, sizeof sw));
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->out = *out;
  return rdt_tensor_broadcast(x, out->rank, out->shape, &p->in[0], why);
}
