/* Elements picked by indices: Gather, GatherElements, GatherND. All are the op `gather` (core/problem.h): indices along
 * some dimensions of the input, and the others as they are. */
#include "net/ops/ops.h"

rdt_status rdt_op_indices(const rdt_op_args *a, int i, rdt_reason *why) {
  const rdt_tensor *t = rdt_op_in(a, i);
  if (t->dtype == RDT_S64 || t->dtype == RDT_S32) return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_DTYPE, "the indices are %s, must be s32 or s64", rdt_dtype_name(t->dtype));
}

static rdt_status too_high(const rdt_op_args *a, int rank, rdt_reason *why) {
  return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "to rank %d; at most %d is available", rank, RDT_MAX_RANK);
}

static rdt_status begin(const rdt_op_args *a, rdt_tensor *out, int indices, rdt_problem *p) {
  RDT_TRY(rdt_problem_init(p, RDT_KOP_GATHER, 1 + indices));
  p->acc = rdt_op_accumulator(out->dtype);
  p->in[0] = *rdt_op_in(a, 0);
  p->out = *out;
  for (int d = 0; d < RDT_MAX_RANK; d++) p->ints[d] = p->ints[RDT_MAX_RANK + d] = -1;
  return RDT_OK;
}

/* One index for all, a constant: a view of the input, nothing moves. */
static rdt_status select_one(const rdt_op_args *a, int axis, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  rdt_tensor v = *rdt_op_in(a, 0);
  const rdt_tensor *index = rdt_op_in(a, 1);
  const int64_t n = v.shape[axis], given = rdt_load_int(index->data, index->dtype, 0),
                i = given < 0 ? given + n : given;
  if (i < 0 || i >= n)
    return rdt_op_fail(a, why, RDT_ERR_ARG, "index %lld is not within -%lld..%lld", (long long)given, (long long)n,
                       (long long)n - 1);
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(v.dtype);
  p->out = *out;
  if (v.data) v.data = (char *)v.data + i * v.stride[axis] * (int64_t)rdt_dtype_size(v.dtype);
  p->in[0] = (rdt_tensor){.data = v.data, .dtype = v.dtype, .rank = out->rank};
  for (int d = 0; d < out->rank; d++) {
    const int from = d < axis ? d : d < axis + index->rank ? -1 : d - index->rank + 1;
    p->in[0].shape[d] = out->shape[d];
    p->in[0].stride[d] = from < 0 ? 1 : v.stride[from];
  }
  return RDT_OK;
}

rdt_status rdt_op_gather(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *index = rdt_op_in(a, 1);
  int axis;
  RDT_TRY(rdt_op_indices(a, 1, why));
  RDT_TRY(rdt_op_axis(a, 0, x->rank, x->rank, &axis, why));
  const int rank = x->rank - 1 + index->rank;
  if (rank > RDT_MAX_RANK) return too_high(a, rank, why);
  if (!p) {
    *out = (rdt_tensor){.dtype = x->dtype, .rank = rank};
    for (int d = 0; d < rank; d++)
      out->shape[d] = d < axis                 ? x->shape[d]
                      : d < axis + index->rank ? index->shape[d - axis]
                                               : x->shape[d - index->rank + 1];
    return RDT_OK;
  }
  if (a->g->values[a->n->in[1]].data && rdt_tensor_count(index) == 1) return select_one(a, axis, out, p, why);
  RDT_TRY(begin(a, out, 1, p));
  p->ints[0] = axis;
  p->in[1] = *out;
  p->in[1].dtype = index->dtype;
  p->in[1].data = index->data;
  for (int d = 0; d < rank; d++) {
    const bool picked = d >= axis && d < axis + index->rank;
    p->in[1].stride[d] = picked ? index->stride[d - axis] : 0;
    if (!picked) p->ints[RDT_MAX_RANK + d] = d < axis ? d : d - index->rank + 1;
  }
  return RDT_OK;
}

rdt_status rdt_op_gather_elements(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *index = rdt_op_in(a, 1);
  int axis;
  RDT_TRY(rdt_op_indices(a, 1, why));
  RDT_TRY(rdt_op_axis(a, 0, x->rank, x->rank, &axis, why));
  bool fits = index->rank == x->rank;
  for (int d = 0; fits && d < x->rank; d++) fits = d == axis || index->shape[d] <= x->shape[d];
  if (!fits) {
    char sx[96], si[96];
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "indices %s for %s: no longer than it, except along axis %d",
                       rdt_tensor_text(index, si, sizeof si), rdt_tensor_text(x, sx, sizeof sx), axis);
  }
  if (!p) {
    *out = *index;
    out->dtype = x->dtype;
    return RDT_OK;
  }
  RDT_TRY(begin(a, out, 1, p));
  p->in[1] = *index;
  p->ints[0] = axis;
  for (int d = 0; d < x->rank; d++) p->ints[RDT_MAX_RANK + d] = d == axis ? -1 : d;
  return RDT_OK;
}

/* Batch dimensions, then those of the indices without their last, then what is left of the input. */
rdt_status rdt_op_gather_nd(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *index = rdt_op_in(a, 1);
  int64_t batch;
  char sx[96], si[96];
  RDT_TRY(rdt_op_indices(a, 1, why));
  RDT_TRY(rdt_op_int(a, "batch_dims", 0, &batch, why));
  const int64_t depth = index->rank > 0 ? index->shape[index->rank - 1] : -1;
  bool fits = index->rank > 0 && batch >= 0 && batch < index->rank && depth >= 1 && batch + depth <= x->rank;
  for (int d = 0; fits && d < batch; d++) fits = index->shape[d] == x->shape[d];
  if (!fits)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "indices %s with %lld batch dimensions for %s do not fit",
                       rdt_tensor_text(index, si, sizeof si), (long long)batch, rdt_tensor_text(x, sx, sizeof sx));
  const int listed = index->rank - 1, rest = x->rank - (int)(batch + depth);
  if (listed + rest > RDT_MAX_RANK) return too_high(a, listed + rest, why);
  if (!p) {
    *out = (rdt_tensor){.dtype = x->dtype, .rank = listed + rest};
    for (int d = 0; d < listed + rest; d++)
      out->shape[d] = d < listed ? index->shape[d] : x->shape[d - listed + (int)(batch + depth)];
    return RDT_OK;
  }
  RDT_TRY(begin(a, out, (int)depth, p));
  for (int d = 0; d < out->rank; d++)
    if (d < batch || d >= listed) p->ints[RDT_MAX_RANK + d] = d < batch ? d : d - listed + (int)(batch + depth);
  for (int k = 0; k < depth; k++) {
    rdt_tensor *v = &p->in[1 + k];
    p->ints[k] = batch + k;
    *v = *out;
    v->dtype = index->dtype;
    v->data =
        index->data ? (char *)index->data + k * index->stride[listed] * (int64_t)rdt_dtype_size(index->dtype) : NULL;
    for (int d = 0; d < out->rank; d++) v->stride[d] = d < listed ? index->stride[d] : 0;
  }
  return RDT_OK;
}
