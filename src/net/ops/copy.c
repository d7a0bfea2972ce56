/* What moves data without computing: Identity, Dropout (inference), Flatten, Reshape. */
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
  const rdt_value *shape = &a->g->values[a->n->in[1]];
  int64_t allow_zero, known = 1;
  int open = -1;
  char s[96];
  if (!shape->data || shape->dtype != RDT_S64 || shape->rank != 1)
    return rdt_op_fail(
        a, why, RDT_ERR_UNSUPPORTED,
        "the shape '%.60s' must be a constant vector of s64; run the model through a constant folder first",
        shape->name);
  if (shape->shape[0] > RDT_MAX_RANK)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "to rank %lld; at most %d is available", (long long)shape->shape[0],
                       RDT_MAX_RANK);
  RDT_TRY(rdt_op_int(a, "allowzero", 0, &allow_zero, why));
  y->rank = (int)shape->shape[0];
  for (int d = 0; d < y->rank; d++) {
    int64_t v = ((const int64_t *)shape->data)[d];
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
