/* CumSum and TopK: along one axis. */
#include "net/expand.h"
#include "net/ops/ops.h"

rdt_status rdt_op_cumsum(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t axis[RDT_OP_MOST_INTS], exclusive, reverse;
  int n;
  RDT_TRY(rdt_op_planned_ints(a, 1, axis, &n, why));
  RDT_TRY(rdt_op_int(a, "exclusive", 0, &exclusive, why));
  RDT_TRY(rdt_op_int(a, "reverse", 0, &reverse, why));
  if (n != 1 || axis[0] < -x->rank || axis[0] >= x->rank)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axis must be one dimension of a tensor of rank %d", x->rank);
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_CUMSUM, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->axis = (int)(axis[0] < 0 ? axis[0] + x->rank : axis[0]);
  p->ints[0] = exclusive != 0;
  p->ints[1] = reverse != 0;
  p->in[0] = *x;
  p->out = *out;
  return RDT_OK;
}

/* The positions; before opset 10 k was an attribute. */
rdt_status rdt_op_topk(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t k[RDT_OP_MOST_INTS] = {-1}, largest;
  int axis, n = 1;
  RDT_TRY(rdt_op_axis(a, -1, x->rank, x->rank, &axis, why));
  RDT_TRY(rdt_op_int(a, "largest", 1, &largest, why));
  if (rdt_op_in(a, 1))
    RDT_TRY(rdt_op_planned_ints(a, 1, k, &n, why));
  else
    RDT_TRY(rdt_op_int(a, "k", -1, k, why));
  if (n != 1 || k[0] < 0 || k[0] > x->shape[axis])
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "k = %lld of %lld along axis %d", (long long)k[0],
                       (long long)x->shape[axis], axis);
  if (!p) {
    *out = *x;
    out->dtype = RDT_S64;
    out->shape[axis] = k[0];
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_TOPK, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->axis = axis;
  p->ints[0] = largest == 0;
  p->in[0] = *x;
  p->out = *out;
  return RDT_OK;
}

/* The values are those at the positions. */
rdt_status rdt_expand_topk(rdt_builder *b) {
  const rdt_attr *axis = rdt_node_attr(&b->from, "axis");
  if (axis && axis->type != RDT_ATTR_INT) return rdt_build_fail(b, RDT_ERR_FORMAT, "attribute axis must be an integer");
  const int at = rdt_build(b, "TopPositions", "positions", rdt_build_in(b, 0), rdt_build_in(b, 1));
  rdt_build_same_attrs(b);
  b->result = at;
  if (b->from.output == 1) return b->status;
  b->result = rdt_build(b, "GatherElements", "values", rdt_build_in(b, 0), at);
  rdt_build_int(b, "axis", rdt_node_int(&b->from, "axis", -1));
  return b->status;
}
