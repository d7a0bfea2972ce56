/* What moves data without computing: Identity, Dropout (inference), Flatten, Reshape, Transpose; and Shape. */
#include <string.h>

#include "net/ops/ops.h"

static rdt_status dropout(const rdt_op_args *a, rdt_reason *why) {
  const int training = a->n->n_in > 2 ? a->n->in[2] : -1;
  if (training < 0) return RDT_OK;
  const rdt_value *v = &a->g->values[training];
  if (!v->data || v->dtype != RDT_BOOL || v->bytes != 1)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "training_mode must be a constant boolean; export for inference");
  if (*(const unsigned char *)v->data)
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

rdt_status rdt_op_copy(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  const char *op = a->n->op->name;
  if (!p) {
    *out = *x;
    if (strcmp(op, "Flatten") == 0) return flatten(a, x, out, why);
    if (strcmp(op, "Reshape") == 0) return reshape(a, x, out, why);
    if (strcmp(op, "Dropout") == 0) return dropout(a, why);
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->in[0] = *x;
  p->out = *out;
  /* Another shape: the side that is dense row-major is seen with the shape of the other one, which keeps the logical
   * order whatever the other one's strides are. */
  if (rdt_tensor_same_shape(x, out)) return RDT_OK;
  if (rdt_tensor_is_dense(x))
    p->in[0] = rdt_tensor_dense(x->data, x->dtype, out->rank, out->shape);
  else if (rdt_tensor_is_dense(out))
    p->out = rdt_tensor_dense(out->data, out->dtype, x->rank, x->shape);
  else
    return rdt_op_fail(a, why, RDT_ERR_INTERNAL, "neither side of a reshape is row-major");
  return RDT_OK;
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

rdt_status rdt_op_shape(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t start, end;
  (void)p;
  RDT_TRY(rdt_op_int(a, "start", 0, &start, why));
  RDT_TRY(rdt_op_int(a, "end", x->rank, &end, why));
  start = start < 0 ? start + x->rank : start;
  end = end < 0 ? end + x->rank : end;
  start = start < 0 ? 0 : start > x->rank ? x->rank : start;
  end = end < start ? start : end > x->rank ? x->rank : end;
  if (!out->data) {
    *out = (rdt_tensor){.dtype = RDT_S64, .rank = 1, .shape = {end - start}};
    return RDT_OK;
  }
  for (int64_t d = start; d < end; d++) ((int64_t *)out->data)[d - start] = x->shape[d];
  return RDT_OK;
}
