#include "net/ops/ops.h"

rdt_status rdt_op_concat(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  rdt_tensor y = {.dtype = x->dtype, .rank = x->rank};
  int axis;
  if (!rdt_node_attr(a->n, "axis")) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute axis is missing");
  RDT_TRY(rdt_op_one_dtype(a, why));
  RDT_TRY(rdt_op_axis(a, 0, x->rank, x->rank, &axis, why));
  for (int d = 0; d < x->rank; d++) y.shape[d] = d == axis ? 0 : x->shape[d];
  for (int i = 0; i < a->n->n_in; i++) {
    const rdt_tensor *t = rdt_op_in(a, i);
    bool fits = t->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == axis || t->shape[d] == x->shape[d];
    if (!fits || __builtin_add_overflow(y.shape[axis], t->shape[axis], &y.shape[axis])) {
      char sx[96], st[96];
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input %d is %s, input 0 is %s: they must agree except along axis %d",
                         i, rdt_tensor_text(t, st, sizeof st), rdt_tensor_text(x, sx, sizeof sx), axis);
    }
  }
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_CONCAT, a->n->n_in));
  p->acc = rdt_op_accumulator(x->dtype);
  p->axis = axis;
  for (int i = 0; i < a->n->n_in; i++) p->in[i] = *rdt_op_in(a, i);
  p->out = *out;
  return RDT_OK;
}
