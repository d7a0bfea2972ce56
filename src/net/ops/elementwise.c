/* Elementwise operators with broadcasting, BatchNormalization. */
#include <string.h>

#include "net/ops/ops.h"

/* Before opset 7, B is aligned with A at an axis, and only if the attribute broadcast says so. */
static rdt_status aligned_operand(const rdt_op_args *a, rdt_tensor *b, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t broadcast, axis;
  if (a->g->opset >= 7) return RDT_OK;
  RDT_TRY(rdt_op_int(a, "broadcast", 0, &broadcast, why));
  RDT_TRY(rdt_op_int(a, "axis", (int64_t)x->rank - b->rank, &axis, why));
  if (!broadcast) {
    if (rdt_tensor_same_shape(x, b)) return RDT_OK;
    return rdt_op_fail(a, why, RDT_ERR_SHAPE,
                       "the operands' shapes differ, and opset %lld broadcasts only with broadcast=1",
                       (long long)a->g->opset);
  }
  if (axis < 0 && axis >= -x->rank) axis += x->rank;
  if (axis < 0 || b->rank > x->rank - axis)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "B of rank %d does not fit into A of rank %d at axis %lld", b->rank,
                       x->rank, (long long)axis);
  for (int d = b->rank; d < x->rank - axis; d++) {
    b->shape[d] = 1;
    b->stride[d] = 0;
  }
  b->rank = x->rank - (int)axis;
  return RDT_OK;
}

rdt_status rdt_op_map(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  RDT_TRY(rdt_op_one_dtype(a, why));
  rdt_tensor in[3];
  rdt_tensor y = {.dtype = rdt_op_in(a, 0)->dtype};
  for (int i = 0; i < a->n->n_in; i++) {
    in[i] = *rdt_op_in(a, i);
    if (i == 1) RDT_TRY(aligned_operand(a, &in[i], why));
    const rdt_tensor before = y;
    if (i == 0) {
      y.rank = in[i].rank;
      memcpy(y.shape, in[i].shape, sizeof y.shape);
    } else if (!rdt_shape_broadcast(&before, &in[i], &y.rank, y.shape)) {
      char sx[96], sb[96];
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%s and %s do not broadcast together",
                         rdt_tensor_text(rdt_op_in(a, 0), sx, sizeof sx),
                         rdt_tensor_text(rdt_op_in(a, i), sb, sizeof sb));
    }
  }
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_MAP, a->n->n_in));
  for (int i = 0; i < a->n->n_in; i++) RDT_TRY(rdt_tensor_broadcast(&in[i], out->rank, out->shape, &p->in[i], why));
  p->fn = a->n->op->fn;
  p->acc = rdt_op_accumulator(in[0].dtype);
  p->out = *out;
  return RDT_OK;
}

rdt_status rdt_op_batchnorm(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  static const char *const names[] = {"X", "scale", "B", "mean", "var"};
  const rdt_tensor *x = rdt_op_in(a, 0);
  double epsilon;
  int64_t training, spatial;
  RDT_TRY(rdt_op_float_inputs(a, 0, 5, why));
  RDT_TRY(rdt_op_float(a, "epsilon", 1e-5, &epsilon, why));
  RDT_TRY(rdt_op_int(a, "training_mode", 0, &training, why));
  RDT_TRY(rdt_op_int(a, "spatial", 1, &spatial, why));
  if (training)
    return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "training_mode is not available; export the model for inference");
  if (!spatial) return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "spatial=0 is not available");
  if (x->rank < 2) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "X of rank %d has no channels", x->rank);
  for (int i = 1; i < 5; i++) {
    const rdt_tensor *t = rdt_op_in(a, i);
    char s[96];
    if (t->rank != 1 || t->shape[0] != x->shape[1])
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%s is %s, must be of length %lld, one element a channel", names[i],
                         rdt_tensor_text(t, s, sizeof s), (long long)x->shape[1]);
  }
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_BATCHNORM, 5));
  p->acc = rdt_op_accumulator(x->dtype);
  for (int i = 0; i < 5; i++) p->in[i] = *rdt_op_in(a, i);
  p->out = *out;
  p->epsilon = epsilon;
  return RDT_OK;
}
