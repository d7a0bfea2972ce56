/* Softmax, LogSoftmax, Hardmax. From opset 13 on along one axis; before, over all dimensions from axis to the last
 * together. */
#include "net/ops/ops.h"

/* Dimensions from axis on as one. Their order does not matter to a softmax, so they are merged in memory order. */
static bool joined(const rdt_tensor *t, int axis, rdt_tensor *out) {
  rdt_tensor v = *t;
  for (int d = axis + 1; d < v.rank; d++) /* insertion sort of the dimensions by stride, largest first */
    for (int i = d; i > axis && v.stride[i - 1] < v.stride[i]; i--) {
      const int64_t stride = v.stride[i], shape = v.shape[i];
      v.stride[i] = v.stride[i - 1];
      v.shape[i] = v.shape[i - 1];
      v.stride[i - 1] = stride;
      v.shape[i - 1] = shape;
    }
  return rdt_view_merge(&v, axis, v.rank - axis, out);
}

rdt_status rdt_op_softmax(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  const bool along_one = a->g->opset >= 13;
  int axis;
  RDT_TRY(rdt_op_float_inputs(a, 0, 1, why));
  RDT_TRY(rdt_op_axis(a, along_one ? -1 : 1, x->rank, x->rank, &axis, why));
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_SOFTMAX, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->fn = a->n->op->fn;
  p->axis = axis;
  p->in[0] = *x;
  p->out = *out;
  if (!along_one && (!rdt_tensor_same_strides(x, out) || !joined(x, axis, &p->in[0]) || !joined(out, axis, &p->out)))
    return rdt_op_fail(a, why, RDT_ERR_INTERNAL, "input and output lie differently in memory");
  return RDT_OK;
}
