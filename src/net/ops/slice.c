/* Parts of a tensor as strided views of it: Slice, Split, Tile (whose output is seen with the repetitions as dimensions
 * of their own, or else as the input padded with itself). */
#include "net/ops/ops.h"

/* A view of x that starts at element `at` of dimension d, in steps. */
static void cut(rdt_tensor *x, int d, int64_t at, int64_t step, int64_t length) {
  if (x->data && length > 0) x->data = (char *)x->data + at * x->stride[d] * (int64_t)rdt_dtype_size(x->dtype);
  x->shape[d] = length;
  x->stride[d] = length > 1 ? x->stride[d] * step : 1;
}

/* copy of the view v of input 0 */
static rdt_status copy_of(const rdt_tensor *v, rdt_tensor *out, rdt_problem *p) {
  if (!p) {
    *out = *v;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(v->dtype);
  p->in[0] = *v;
  p->out = *out;
  return RDT_OK;
}

static rdt_status slice_axis(const rdt_op_args *a, rdt_tensor *v, int64_t axis, int64_t start, int64_t end,
                             int64_t step, rdt_reason *why) {
  const int d = (int)axis;
  const int64_t n = v->shape[d];
  if (step == 0) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "a step of 0 along axis %d", d);
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1; /* one before the first, one after the last */
  start = start < 0 ? (start < -n ? low : start + n) : start;
  end = end < 0 ? (end < -n ? low : end + n) : end;
  start = start < low ? low : start > high ? high : start;
  end = end < low ? low : end > high ? high : end;
  const int64_t span = step > 0 ? end - start : start - end;
  const uint64_t pace = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  const int64_t length = span <= 0 || n == 0 ? 0 : (int64_t)(((uint64_t)span - 1) / pace) + 1;
  cut(v, d, start, step, length);
  return RDT_OK;
}

rdt_status rdt_op_slice(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  static const char *const names[] = {"starts", "ends", "axes", "steps"};
  int64_t list[4][RDT_OP_MOST_INTS];
  int n[4];
  bool used[RDT_MAX_RANK] = {false};
  rdt_tensor v = *rdt_op_in(a, 0);
  for (int i = 0; i < 4; i++) RDT_TRY(rdt_op_list(a, names[i], 10, i + 1, list[i], &n[i], why));
  if (n[0] < 0 || n[1] < 0) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "starts or ends are missing");
  if (n[1] != n[0] || (n[2] >= 0 && n[2] != n[0]) || (n[3] >= 0 && n[3] != n[0]) || (n[2] < 0 && n[0] > v.rank))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%d starts, %d ends, %d axes, %d steps for rank %d: numbers must agree",
                       n[0], n[1], n[2] < 0 ? n[0] : n[2], n[3] < 0 ? n[0] : n[3], v.rank);
  for (int i = 0; i < n[0]; i++) {
    const int64_t given = n[2] < 0 ? i : list[2][i], axis = given < 0 ? given + v.rank : given;
    if (axis < 0 || axis >= v.rank)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axis %lld of a tensor of rank %d", (long long)given, v.rank);
    if (used[axis]) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axis %lld is given twice", (long long)given);
    used[axis] = true;
    RDT_TRY(slice_axis(a, &v, axis, list[0][i], list[1][i], n[3] < 0 ? 1 : list[3][i], why));
  }
  return copy_of(&v, out, p);
}

/* Where this output begins and how long it is, along an axis of length n. */
static rdt_status split_part(const rdt_op_args *a, int64_t n, int64_t *start, int64_t *length, rdt_reason *why) {
  const int which = a->n->output, parts = a->n->outputs;
  const rdt_attr *attr = a->g->opset < 13 ? rdt_node_attr(a->n, "split") : NULL;
  const rdt_tensor *input = a->g->opset < 13 ? NULL : rdt_op_in(a, 1);
  int64_t declared, end = 0;
  RDT_TRY(rdt_op_int(a, "num_outputs", parts, &declared, why));
  if (!attr && !input) {
    if (declared != parts)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "num_outputs is %lld, there are %d outputs", (long long)declared,
                         parts);
    if (a->g->opset < 18 && n % parts != 0)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "a length of %lld does not divide into %d equal parts", (long long)n,
                         parts);
    const int64_t each = n / parts + (n % parts != 0);
    *start = each * which < n ? each * which : n;
    *length = n - *start < each ? n - *start : each;
    return RDT_OK;
  }
  if (attr && attr->type != RDT_ATTR_INTS)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute split must be a list of integers");
  if (input && (input->rank != 1 || input->dtype != RDT_S64))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "split must be a vector of 64-bit integers");
  if (input && !input->data && input->shape[0] > 0) return rdt_op_unknown(a, 1, why);
  if ((attr ? attr->n : input->shape[0]) != parts)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "lengths of %lld parts for %d outputs",
                       (long long)(attr ? attr->n : input->shape[0]), parts);
  for (int i = 0; i < parts; i++) {
    const int64_t l = attr ? attr->ints[i] : ((const int64_t *)input->data)[i * input->stride[0]];
    if (i == which) {
      *start = end;
      *length = l;
    }
    if (l < 0 || __builtin_add_overflow(end, l, &end))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "part %d has length %lld", i, (long long)l);
  }
  if (end != n)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "the parts have %lld elements, the axis %lld", (long long)end,
                       (long long)n);
  return RDT_OK;
}

rdt_status rdt_op_split(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  rdt_tensor v = *rdt_op_in(a, 0);
  int64_t start = 0, length = 0;
  int axis;
  RDT_TRY(rdt_op_axis(a, 0, v.rank, v.rank, &axis, why));
  RDT_TRY(split_part(a, v.shape[axis], &start, &length, why));
  cut(&v, axis, start, 1, length);
  return copy_of(&v, out, p);
}

/* The output seen as repetition x length per dimension that is repeated; the input has stride 0 along repetitions. */
static rdt_status tile_views(const rdt_op_args *a, const rdt_tensor *x, const int64_t *repeats, rdt_problem *p,
                             rdt_reason *why) {
  rdt_tensor from = {.data = x->data, .dtype = x->dtype};
  int rank = 0;
  int64_t shape[2 * RDT_MAX_RANK], stride[2 * RDT_MAX_RANK];
  if (rdt_tensor_count(&p->out) == 0) { /* no elements, whatever the other repetitions multiply to */
    p->in[0] = p->out;
    p->in[0].data = x->data;
    return RDT_OK;
  }
  for (int d = 0; d < x->rank; d++) {
    if (repeats[d] != 1 || x->shape[d] == 0) {
      shape[rank] = repeats[d];
      stride[rank++] = 0;
    }
    if (x->shape[d] == 1 && repeats[d] != 1) continue;
    shape[rank] = x->shape[d];
    stride[rank++] = x->stride[d];
  }
  if (rank > RDT_MAX_RANK) { /* no views of so many dimensions: element by element */
    p->op = RDT_KOP_PAD;
    p->mode = RDT_PAD_WRAP;
    p->in[0] = *x;
    for (int d = 0; d < x->rank; d++) p->ints[RDT_MAX_RANK + d] = p->out.shape[d] - x->shape[d];
    return RDT_OK;
  }
  from.rank = rank;
  for (int d = 0; d < rank; d++) {
    from.shape[d] = shape[d];
    from.stride[d] = stride[d];
  }
  p->in[0] = from;
  if (rdt_view_reshape(&p->out, from.rank, from.shape, &p->out)) return RDT_OK;
  return rdt_op_fail(a, why, RDT_ERR_INTERNAL, "the output cannot be seen as repetitions");
}

rdt_status rdt_op_tile(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  int64_t repeats[RDT_OP_MOST_INTS];
  int n;
  RDT_TRY(rdt_op_planned_ints(a, 1, repeats, &n, why));
  if (n != x->rank) return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%d repeats for a tensor of rank %d", n, x->rank);
  rdt_tensor y = {.dtype = x->dtype, .rank = x->rank};
  for (int d = 0; d < n; d++)
    if (repeats[d] < 0 || __builtin_mul_overflow(x->shape[d], repeats[d], &y.shape[d]))
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "dimension %d of %lld repeated %lld times", d, (long long)x->shape[d],
                         (long long)repeats[d]);
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_COPY, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->out = *out;
  return tile_views(a, x, repeats, p, why);
}
