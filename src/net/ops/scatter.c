/* Elements set or combined at indices: ScatterElements (Scatter before opset 11), ScatterND. */
#include <string.h>

#include "net/ops/ops.h"

static rdt_status reduction(const rdt_op_args *a, rdt_dtype t, rdt_fn *fn, rdt_reason *why) {
  static const struct {
    const char *name;
    rdt_fn fn;
  } known[] = {
      {"none", RDT_FN_NONE}, {"add", RDT_FN_ADD}, {"mul", RDT_FN_MUL}, {"min", RDT_FN_MIN}, {"max", RDT_FN_MAX}};
  const rdt_attr *attr = rdt_node_attr(a->n, "reduction");
  if (attr && attr->type != RDT_ATTR_STRING)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute reduction must be a string");
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(attr ? attr->s : "none", known[i].name) == 0) {
      *fn = known[i].fn;
      if (i > 0 && t == RDT_BOOL)
        return rdt_op_fail(a, why, RDT_ERR_DTYPE, "reduction %s of booleans is not defined", known[i].name);
      return RDT_OK;
    }
  return rdt_op_fail(a, why, RDT_ERR_FORMAT, "reduction '%.40s': take none, add, mul, min or max", attr->s);
}

static rdt_status misfit(const rdt_op_args *a, rdt_reason *why) {
  char sx[96], si[96], su[96];
  return rdt_op_fail(a, why, RDT_ERR_SHAPE, "updates %s at indices %s do not fit into %s",
                     rdt_tensor_text(rdt_op_in(a, 2), su, sizeof su), rdt_tensor_text(rdt_op_in(a, 1), si, sizeof si),
                     rdt_tensor_text(rdt_op_in(a, 0), sx, sizeof sx));
}

static rdt_status begin(const rdt_op_args *a, rdt_tensor *out, int indices, rdt_fn fn, rdt_problem *p) {
  RDT_TRY(rdt_problem_init(p, RDT_KOP_SCATTER, 2 + indices));
  p->acc = rdt_op_accumulator(out->dtype);
  p->fn = fn;
  p->in[0] = *rdt_op_in(a, 0);
  p->in[1] = *rdt_op_in(a, 2);
  p->out = *out;
  for (int d = 0; d < RDT_MAX_RANK; d++) p->ints[d] = p->ints[RDT_MAX_RANK + d] = -1;
  return RDT_OK;
}

static rdt_status check_operands(const rdt_op_args *a, rdt_fn *fn, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *u = rdt_op_in(a, 2);
  RDT_TRY(rdt_op_indices(a, 1, why));
  RDT_TRY(reduction(a, x->dtype, fn, why));
  if (u->dtype == x->dtype) return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_DTYPE, "updates are %s, the data %s: they must agree", rdt_dtype_name(u->dtype),
                     rdt_dtype_name(x->dtype));
}

rdt_status rdt_op_scatter_elements(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *index = rdt_op_in(a, 1), *u = rdt_op_in(a, 2);
  rdt_fn fn;
  int axis;
  RDT_TRY(check_operands(a, &fn, why));
  RDT_TRY(rdt_op_axis(a, 0, x->rank, x->rank, &axis, why));
  bool fits = index->rank == x->rank && rdt_tensor_same_shape(index, u);
  for (int d = 0; fits && d < x->rank; d++) fits = d == axis || index->shape[d] <= x->shape[d];
  if (!fits) return misfit(a, why);
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(begin(a, out, 1, fn, p));
  p->in[2] = *index;
  p->ints[0] = axis;
  for (int d = 0; d < x->rank; d++) p->ints[RDT_MAX_RANK + d] = d == axis ? -1 : d;
  return RDT_OK;
}

rdt_status rdt_op_scatter_nd(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *index = rdt_op_in(a, 1), *u = rdt_op_in(a, 2);
  rdt_fn fn;
  RDT_TRY(check_operands(a, &fn, why));
  const int listed = index->rank - 1;
  const int64_t depth = index->rank > 0 ? index->shape[listed] : -1;
  bool fits = depth >= 1 && depth <= x->rank && u->rank == listed + x->rank - (int)depth;
  for (int d = 0; fits && d < u->rank; d++)
    fits = u->shape[d] == (d < listed ? index->shape[d] : x->shape[d - listed + (int)depth]);
  if (!fits) return misfit(a, why);
  if (!p) {
    *out = *x;
    return RDT_OK;
  }
  RDT_TRY(begin(a, out, (int)depth, fn, p));
  for (int d = listed; d < u->rank; d++) p->ints[RDT_MAX_RANK + d] = d - listed + (int)depth;
  for (int k = 0; k < depth; k++) {
    rdt_tensor *v = &p->in[2 + k];
    p->ints[k] = k;
    *v = *u;
    v->dtype = index->dtype;
    v->data =
        index->data ? (char *)index->data + k * index->stride[listed] * (int64_t)rdt_dtype_size(index->dtype) : NULL;
    for (int d = 0; d < u->rank; d++) v->stride[d] = d < listed ? index->stride[d] : 0;
  }
  return RDT_OK;
}
