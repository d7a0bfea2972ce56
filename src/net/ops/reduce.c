/* Reductions, and positions of extrema. */
#include <string.h>

#include "net/ops/ops.h"

/* The axes as attribute or, in later opsets, as input. */
static rdt_status list_axes(const rdt_op_args *a, int64_t *axes, int *n, rdt_reason *why) {
  const rdt_attr *attr = rdt_node_attr(a->n, "axes");
  *n = 0;
  if (rdt_op_in(a, 1)) return rdt_op_planned_ints(a, 1, axes, n, why);
  if (!attr) return RDT_OK;
  if (attr->type != RDT_ATTR_INTS || attr->n > RDT_OP_MOST_INTS)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute axes must be a list of at most %d integers",
                       RDT_OP_MOST_INTS);
  if (attr->n > 0) memcpy(axes, attr->ints, (size_t)attr->n * sizeof *axes);
  *n = attr->n;
  return RDT_OK;
}

rdt_status rdt_op_marked_axes(const rdt_op_args *a, const int64_t *axes, int n, int rank, bool *marked,
                              rdt_reason *why) {
  memset(marked, 0, RDT_MAX_RANK * sizeof *marked);
  for (int i = 0; i < n; i++) {
    const int64_t d = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (d < 0 || d >= rank)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axes name dimension %lld of a tensor of rank %d", (long long)axes[i],
                         rank);
    if (marked[d])
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axes name dimension %lld twice (rank %d): name each once",
                         (long long)d, rank);
    marked[d] = true;
  }
  return RDT_OK;
}

/* The output of another shape, seen with the input's rank: 1 where it is reduced. */
static rdt_tensor kept(const rdt_tensor *x, const rdt_tensor *out, const bool *gone, bool keep) {
  rdt_tensor v = *out;
  v.rank = x->rank;
  for (int d = 0, from = 0; d < x->rank; d++) {
    const bool there = keep || !gone[d];
    v.shape[d] = there ? out->shape[from] : 1;
    v.stride[d] = there ? out->stride[from] : 1;
    from += there;
  }
  return v;
}

static void shrink(const rdt_tensor *x, const bool *gone, bool keep, rdt_tensor *out) {
  out->rank = 0;
  for (int d = 0; d < x->rank; d++)
    if (keep || !gone[d]) out->shape[out->rank++] = gone[d] ? 1 : x->shape[d];
}

rdt_status rdt_op_reduce(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t axes[RDT_OP_MOST_INTS], keep, noop;
  bool gone[RDT_MAX_RANK];
  int n;
  RDT_TRY(list_axes(a, axes, &n, why));
  RDT_TRY(rdt_op_marked_axes(a, axes, n, x->rank, gone, why));
  RDT_TRY(rdt_op_int(a, "keepdims", 1, &keep, why));
  RDT_TRY(rdt_op_int(a, "noop_with_empty_axes", 0, &noop, why));
  for (int d = 0; d < x->rank && n == 0 && !noop; d++) gone[d] = true;
  if (!p) {
    *out = (rdt_tensor){.dtype = x->dtype};
    shrink(x, gone, keep != 0, out);
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, n == 0 && noop ? RDT_KOP_COPY : RDT_KOP_REDUCE, 1));
  if (p->op == RDT_KOP_REDUCE) p->fn = a->n->op->fn;
  p->acc = rdt_op_accumulator(x->dtype);
  p->in[0] = *x;
  p->out = kept(x, out, gone, keep != 0);
  return RDT_OK;
}

rdt_status rdt_op_arg(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  bool gone[RDT_MAX_RANK] = {false};
  int64_t keep, last;
  int axis;
  RDT_TRY(rdt_op_axis(a, 0, x->rank, x->rank, &axis, why));
  RDT_TRY(rdt_op_int(a, "keepdims", 1, &keep, why));
  RDT_TRY(rdt_op_int(a, "select_last_index", 0, &last, why));
  gone[axis] = true;
  if (!p) {
    *out = (rdt_tensor){.dtype = RDT_S64};
    shrink(x, gone, keep != 0, out);
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_REDUCE, 1));
  p->fn = a->n->op->fn;
  p->param[0] = (double)(last != 0);
  p->acc = rdt_op_accumulator(x->dtype);
  p->axis = axis;
  p->in[0] = *x;
  p->out = kept(x, out, gone, keep != 0);
  return RDT_OK;
}
