/* Values that follow from shapes, or shapes that follow from values: worked out while planning. */
#include <math.h>
#include <string.h>

#include "net/ops/ops.h"

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

rdt_status rdt_op_size(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  (void)p;
  (void)why;
  if (out->data)
    *(int64_t *)out->data = rdt_tensor_count(rdt_op_in(a, 0));
  else
    *out = (rdt_tensor){.dtype = RDT_S64};
  return RDT_OK;
}

/* The number of steps from start to limit; false where it is no number. */
static bool range_count(const rdt_tensor *const *v, int64_t *count) {
  if (rdt_dtype_is_float(v[0]->dtype)) {
    const double n = ceil((rdt_load(v[1]->data, v[1]->dtype, 0) - rdt_load(v[0]->data, v[0]->dtype, 0)) /
                          rdt_load(v[2]->data, v[2]->dtype, 0));
    if (!(n < 0x1p62)) return false;
    *count = n > 0.0 ? (int64_t)n : 0;
    return true;
  }
  const __int128 start = rdt_load_int(v[0]->data, v[0]->dtype, 0), limit = rdt_load_int(v[1]->data, v[1]->dtype, 0),
                 delta = rdt_load_int(v[2]->data, v[2]->dtype, 0);
  if (delta == 0) return false;
  const __int128 span = delta > 0 ? limit - start : start - limit, pace = delta > 0 ? delta : -delta;
  const __int128 n = span <= 0 ? 0 : (span - 1) / pace + 1;
  *count = (int64_t)n;
  return n < INT64_MAX;
}

rdt_status rdt_op_range(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *v[3] = {rdt_op_in(a, 0), rdt_op_in(a, 1), rdt_op_in(a, 2)};
  const rdt_dtype t = v[0]->dtype;
  int64_t count;
  (void)p;
  RDT_TRY(rdt_op_one_dtype(a, why));
  for (int i = 0; i < 3; i++) {
    if (rdt_tensor_count(v[i]) != 1 || t == RDT_BOOL)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "start, limit and delta must be one number each");
    if (!v[i]->data) return rdt_op_unknown(a, i, why);
  }
  if (!range_count(v, &count)) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "start, limit and delta give no finite range");
  if (!out->data) {
    *out = (rdt_tensor){.dtype = t, .rank = 1, .shape = {count}};
    return RDT_OK;
  }
  for (int64_t i = 0; i < count; i++) {
    if (rdt_dtype_is_float(t))
      rdt_store(out->data, t, i, rdt_load(v[0]->data, t, 0) + (double)i * rdt_load(v[2]->data, t, 0));
    else
      rdt_store_int(out->data, t, i,
                    (int64_t)((uint64_t)rdt_load_int(v[0]->data, v[0]->dtype, 0) +
                              (uint64_t)i * (uint64_t)rdt_load_int(v[2]->data, v[2]->dtype, 0)));
  }
  return RDT_OK;
}

rdt_status rdt_op_eye(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t onnx, k;
  (void)p;
  RDT_TRY(rdt_op_int(a, "dtype", rdt_dtype_info(x->dtype)->onnx, &onnx, why));
  RDT_TRY(rdt_op_int(a, "k", 0, &k, why));
  if (x->rank != 2) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "takes a matrix, got rank %d", x->rank);
  if (!out->data) {
    int t = 0;
    while (t < RDT_DTYPE_COUNT && rdt_dtype_info((rdt_dtype)t)->onnx != onnx) t++;
    if (t == RDT_DTYPE_COUNT)
      return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "datatype %lld is not available", (long long)onnx);
    *out = (rdt_tensor){.dtype = (rdt_dtype)t, .rank = 2, .shape = {x->shape[0], x->shape[1]}};
    return RDT_OK;
  }
  memset(out->data, 0, (size_t)rdt_tensor_count(out) * rdt_dtype_size(out->dtype));
  for (int64_t i = 0; i < x->shape[0]; i++) {
    int64_t j;
    if (!__builtin_add_overflow(i, k, &j) && j >= 0 && j < x->shape[1])
      rdt_store(out->data, out->dtype, i * x->shape[1] + j, 1.0);
  }
  return RDT_OK;
}

/* Indices of the elements that are not zero, in row-major order, a row for each dimension. */
rdt_status rdt_op_nonzero(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t count = 0;
  (void)p;
  if (!x->data && rdt_tensor_count(x) > 0) return rdt_op_unknown(a, 0, why);
  const int64_t columns = out->data && out->rank == 2 ? out->shape[1] : 0;
  rdt_iter it = rdt_iter_begin(x);
  while (rdt_iter_next(&it)) {
    if (rdt_load(x->data, x->dtype, it.offset) == 0.0) continue;
    for (int d = 0; d < x->rank && count < columns; d++) ((int64_t *)out->data)[d * columns + count] = it.index[d];
    count++;
  }
  if (!out->data) *out = (rdt_tensor){.dtype = RDT_S64, .rank = 2, .shape = {x->rank, count}};
  return RDT_OK;
}

/* 0, 1, .. below input 1 along an axis; 1 long in all other dimensions, which are as many as input 0 has elements. */
rdt_status rdt_op_positions(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *depth = rdt_op_in(a, 1);
  const int rank = (int)rdt_op_in(a, 0)->shape[0];
  int axis;
  (void)p;
  RDT_TRY(rdt_op_axis(a, -1, rank, rank, &axis, why));
  if (rdt_tensor_count(depth) != 1) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "the depth must be one number");
  if (!depth->data) return rdt_op_unknown(a, 1, why);
  const double n = rdt_load(depth->data, depth->dtype, 0);
  if (!(n >= 0) || !(n < 0x1p53)) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "a depth of %g", n);
  if (!out->data) {
    *out = (rdt_tensor){.dtype = RDT_S64, .rank = rank};
    for (int d = 0; d < rank; d++) out->shape[d] = d == axis ? (int64_t)n : 1;
    return RDT_OK;
  }
  for (int64_t i = 0; i < (int64_t)n; i++) ((int64_t *)out->data)[i] = i;
  return RDT_OK;
}
