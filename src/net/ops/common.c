#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "net/ops/ops.h"

rdt_status rdt_op_int(const rdt_op_args *a, const char *name, int64_t def, int64_t *out, rdt_reason *why) {
  const rdt_attr *t = rdt_node_attr(a->n, name);
  if (t && t->type != RDT_ATTR_INT) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute %s must be an integer", name);
  *out = t ? t->i : def;
  return RDT_OK;
}

rdt_status rdt_op_float(const rdt_op_args *a, const char *name, double def, double *out, rdt_reason *why) {
  const rdt_attr *t = rdt_node_attr(a->n, name);
  if (t && t->type != RDT_ATTR_FLOAT) return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute %s must be a float", name);
  *out = t ? t->f : def;
  return RDT_OK;
}

rdt_status rdt_op_ints(const rdt_op_args *a, const char *name, int count, int64_t def, int64_t *out, rdt_reason *why) {
  const rdt_attr *t = rdt_node_attr(a->n, name);
  if (t && (t->type != RDT_ATTR_INTS || t->n != count))
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute %s must be a list of %d integers", name, count);
  for (int i = 0; i < count; i++) out[i] = t ? t->ints[i] : def;
  return RDT_OK;
}

rdt_status rdt_op_unknown(const rdt_op_args *a, int i, rdt_reason *why) {
  return rdt_op_fail(
      a, why, RDT_ERR_UNSUPPORTED,
      "'%.60s' decides shapes, but is not known before the run; if it is an input, give it (-i NAME=FILE)",
      a->g->values[a->n->in[i]].name);
}

rdt_status rdt_op_planned_ints(const rdt_op_args *a, int i, int64_t *values, int *n, rdt_reason *why) {
  const rdt_tensor *t = rdt_op_in(a, i);
  const int64_t count = rdt_tensor_count(t);
  if (t->rank > 1 || (t->dtype != RDT_S64 && t->dtype != RDT_S32) || count > RDT_OP_MOST_INTS) {
    char text[96];
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input %d is %s: must be a vector of at most %d integers", i,
                       rdt_tensor_text(t, text, sizeof text), RDT_OP_MOST_INTS);
  }
  if (!t->data && count > 0) return rdt_op_unknown(a, i, why);
  for (int64_t k = 0; k < count; k++)
    values[k] = t->dtype == RDT_S64 ? ((const int64_t *)t->data)[k * t->stride[0]]
                                    : ((const int32_t *)t->data)[k * t->stride[0]];
  *n = (int)count;
  return RDT_OK;
}

rdt_status rdt_op_list(const rdt_op_args *a, const char *name, int64_t since, int input, int64_t *values, int *n,
                       rdt_reason *why) {
  *n = -1;
  if (a->g->opset >= since) return rdt_op_in(a, input) ? rdt_op_planned_ints(a, input, values, n, why) : RDT_OK;
  const rdt_attr *t = rdt_node_attr(a->n, name);
  if (!t) return RDT_OK;
  if (t->type != RDT_ATTR_INTS || t->n > RDT_OP_MOST_INTS)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute %s must be a list of at most %d integers", name,
                       RDT_OP_MOST_INTS);
  for (int i = 0; i < t->n; i++) values[i] = t->ints[i];
  *n = t->n;
  return RDT_OK;
}

const rdt_tensor *rdt_op_in(const rdt_op_args *a, int i) {
  return i < a->n->n_in && a->n->in[i] >= 0 ? &a->views[a->n->in[i]] : NULL;
}

rdt_status rdt_op_one_dtype(const rdt_op_args *a, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  for (int i = 1; i < a->n->n_in; i++) {
    const rdt_tensor *t = rdt_op_in(a, i);
    if (t && t->dtype != x->dtype)
      return rdt_op_fail(a, why, RDT_ERR_DTYPE, "input %d is %s, input 0 is %s: they must agree", i,
                         rdt_dtype_name(t->dtype), rdt_dtype_name(x->dtype));
  }
  return RDT_OK;
}

rdt_status rdt_op_float_inputs(const rdt_op_args *a, int first, int count, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  for (int i = first; i < first + count; i++) {
    const rdt_tensor *t = rdt_op_in(a, i);
    if (t && (!rdt_dtype_is_float(t->dtype) || t->dtype != x->dtype))
      return rdt_op_fail(a, why, RDT_ERR_DTYPE, "input %d is %s: takes floating point, all inputs of one datatype", i,
                         rdt_dtype_name(t->dtype));
  }
  return RDT_OK;
}

rdt_status rdt_op_byte_inputs(const rdt_op_args *a, rdt_reason *why) {
  for (int i = 0; i < 2; i++) {
    const rdt_dtype t = rdt_op_in(a, i)->dtype;
    if (t != RDT_S8 && t != RDT_U8)
      return rdt_op_fail(a, why, RDT_ERR_DTYPE, "input %d is %s: takes s8 and u8", i, rdt_dtype_name(t));
  }
  return RDT_OK;
}

rdt_status rdt_op_axis(const rdt_op_args *a, int64_t def, int rank, int limit, int *axis, rdt_reason *why) {
  int64_t v = def;
  RDT_TRY(rdt_op_int(a, "axis", def, &v, why));
  if (v < -rank || v >= limit)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "axis %lld of a tensor of rank %d", (long long)v, rank);
  *axis = (int)(v < 0 ? v + rank : v);
  return RDT_OK;
}

bool rdt_shape_broadcast(const rdt_tensor *a, const rdt_tensor *b, int *rank, int64_t *shape) {
  const int r = a->rank > b->rank ? a->rank : b->rank;
  for (int d = 0; d < r; d++) {
    const int da = d - (r - a->rank), db = d - (r - b->rank);
    const int64_t la = da < 0 ? 1 : a->shape[da], lb = db < 0 ? 1 : b->shape[db];
    if (la != lb && la != 1 && lb != 1) return false;
    shape[d] = la == 1 ? lb : la;
  }
  *rank = r;
  return true;
}

rdt_tensor rdt_view_permute(const rdt_tensor *t, const int *order) {
  rdt_tensor v = *t;
  for (int d = 0; d < t->rank; d++) {
    v.shape[d] = t->shape[order[d]];
    v.stride[d] = t->stride[order[d]];
  }
  return v;
}

rdt_tensor rdt_view_along(const rdt_tensor *vector, const rdt_tensor *shape, int axis) {
  rdt_tensor v = *shape;
  v.data = vector->data;
  v.dtype = vector->dtype;
  for (int d = 0; d < v.rank; d++) v.stride[d] = d == axis && vector->shape[0] != 1 ? vector->stride[0] : 0;
  return v;
}

bool rdt_view_merge(const rdt_tensor *t, int from, int count, rdt_tensor *out) {
  rdt_tensor v = *t;
  int64_t length = 1, stride = 0;
  for (int d = from + count - 1; d >= from; d--) {
    if (t->shape[d] == 1) continue;
    if (length == 1)
      stride = t->stride[d];
    else if (length > 0 && t->shape[d] > 0 && t->stride[d] != stride * length)
      return false;
    length *= t->shape[d];
  }
  v.rank = t->rank - count + 1;
  v.shape[from] = length;
  v.stride[from] = stride ? stride : 1;
  if (length > 1 && stride == 0) v.stride[from] = 0;
  for (int d = from + count; d < t->rank; d++) {
    v.shape[d - count + 1] = t->shape[d];
    v.stride[d - count + 1] = t->stride[d];
  }
  *out = v;
  return true;
}

bool rdt_view_reshape(const rdt_tensor *t, int rank, const int64_t *shape, rdt_tensor *out) {
  rdt_tensor v = rdt_tensor_dense(t->data, t->dtype, rank, shape);
  const int64_t count = rdt_tensor_count(t);
  int64_t from[RDT_MAX_RANK], step[RDT_MAX_RANK]; /* t without dimensions of length 1 */
  int n = 0, at = 0;
  if (count != rdt_tensor_count(&v)) return false;
  if (count == 0) return *out = v, true;
  for (int d = 0; d < t->rank; d++)
    if (t->shape[d] != 1) {
      from[n] = t->shape[d];
      step[n++] = t->stride[d];
    }
  for (int d = 0, end; d < rank; d = end) { /* dimensions d..end of the new shape are dimensions at..last of t */
    end = d + 1;
    if (shape[d] == 1) continue;
    int last = at;
    int64_t wanted = shape[d], there = from[at];
    while (wanted != there)
      if (wanted < there)
        wanted *= shape[end++];
      else
        there *= from[++last];
    for (int i = at; i < last; i++)
      if (step[i] != step[i + 1] * from[i + 1]) return false;
    int64_t stride = step[last];
    for (int i = end - 1; i >= d; i--) {
      v.stride[i] = stride;
      if (i > d) stride *= shape[i];
    }
    at = last + 1;
  }
  *out = v;
  return true;
}

rdt_status rdt_op_residual(const rdt_op_args *a, const rdt_tensor *out, rdt_tensor *residual, rdt_reason *why) {
  residual->rank = -1;
  if (a->n->residual < 0) return RDT_OK;
  const rdt_tensor *r = &a->views[a->n->residual];
  if (r->dtype != out->dtype)
    return rdt_op_fail(a, why, RDT_ERR_DTYPE, "adds %s to a result of %s", rdt_dtype_name(r->dtype),
                       rdt_dtype_name(out->dtype));
  rdt_reason inner;
  const rdt_status s = rdt_tensor_broadcast(r, out->rank, out->shape, residual, &inner);
  return s == RDT_OK
             ? s
             : rdt_op_fail(a, why, s, "the fused addition of '%s': %s", a->g->values[a->n->residual].name, inner.text);
}

rdt_dtype rdt_op_accumulator(rdt_dtype t) {
  return t == RDT_F64 ? RDT_F64 : rdt_dtype_is_float(t) ? RDT_F32 : RDT_S32;
}

rdt_status rdt_op_check_spatial(const rdt_op_args *a, const rdt_tensor *x, rdt_reason *why) {
  char s[96];
  if (x->rank >= 3 && x->rank <= 2 + RDT_MAX_SPATIAL) return RDT_OK;
  return rdt_op_fail(a, why, x->rank < 3 ? RDT_ERR_SHAPE : RDT_ERR_UNSUPPORTED,
                     "input %s: windows over one to %d spatial dimensions (rank 3 to %d) are available",
                     rdt_tensor_text(x, s, sizeof s), RDT_MAX_SPATIAL, 2 + RDT_MAX_SPATIAL);
}

/* Dimension i of a window. */
static rdt_status window_axis(const rdt_op_args *a, int i, int64_t in, const char *auto_pad, bool ceil, rdt_window *w,
                              int64_t *out, rdt_reason *why) {
  const int64_t k = w->kernel[i], s = w->stride[i], d = w->dilation[i];
  int64_t *before = &w->before[i], *after = &w->after[i];
  const int64_t most = INT32_MAX;
  if (k < 1 || s < 1 || d < 1 || *before < 0 || *after < 0 || k > most || s > most || d > most || *before > most ||
      *after > most || in > INT64_MAX / 8)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE,
                       "kernel %lld, stride %lld, dilation %lld, pads %lld and %lld on %lld: out of range",
                       (long long)k, (long long)s, (long long)d, (long long)*before, (long long)*after, (long long)in);
  const int64_t extent = (k - 1) * d + 1;
  if (in == 0) return *out = 0, RDT_OK;
  if (strncmp(auto_pad, "SAME_", 5) == 0) {
    *out = (in + s - 1) / s;
    const int64_t total = (*out - 1) * s + extent - in;
    const int64_t small = total > 0 ? total / 2 : 0, large = total > 0 ? total - small : 0;
    *before = strcmp(auto_pad, "SAME_UPPER") == 0 ? small : large;
    *after = strcmp(auto_pad, "SAME_UPPER") == 0 ? large : small;
    return RDT_OK;
  }
  const int64_t room = in + *before + *after - extent;
  if (room < 0)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "a window of %lld is larger than the padded input of %lld",
                       (long long)extent, (long long)(in + *before + *after));
  *out = room / s + 1;
  if (!ceil || room % s == 0) return RDT_OK;
  if (*out * s < in + *before) *out += 1; /* one more window, unless it would lie in the padding altogether */
  return RDT_OK;
}

rdt_status rdt_op_window(const rdt_op_args *a, const rdt_tensor *x, const int64_t *kernel, bool ceil, rdt_window *w,
                         int64_t *out, rdt_reason *why) {
  const int spatial = x->rank - 2;
  int64_t pads[2 * RDT_MAX_SPATIAL];
  RDT_TRY(rdt_op_ints(a, "strides", spatial, 1, w->stride, why));
  RDT_TRY(rdt_op_ints(a, "dilations", spatial, 1, w->dilation, why));
  RDT_TRY(rdt_op_ints(a, "pads", 2 * spatial, 0, pads, why));
  const rdt_attr *mode = rdt_node_attr(a->n, "auto_pad");
  if (mode && mode->type != RDT_ATTR_STRING)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute auto_pad must be a string");
  const char *auto_pad = mode ? mode->s : "NOTSET";
  if (strcmp(auto_pad, "NOTSET") != 0 && strcmp(auto_pad, "VALID") != 0 && strcmp(auto_pad, "SAME_UPPER") != 0 &&
      strcmp(auto_pad, "SAME_LOWER") != 0)
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "auto_pad '%.40s': take NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                       auto_pad);
  if (strcmp(auto_pad, "VALID") == 0) memset(pads, 0, sizeof pads);
  for (int i = 0; i < spatial; i++) {
    w->kernel[i] = kernel[i];
    w->before[i] = pads[i];
    w->after[i] = pads[i + spatial];
    RDT_TRY(window_axis(a, i, x->shape[2 + i], auto_pad, ceil, w, &out[i], why));
  }
  return RDT_OK;
}
