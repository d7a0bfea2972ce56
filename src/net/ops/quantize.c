/* Quantised tensors, and the operators over them that are floating-point products in between.
 *
 * An integer below 2^24 in magnitude is exact in f32, so a quantised product is: x - zero point and w - zero point as
 * f32 with scale 1, the product of those, and what follows, scale and rounding, in one elementwise pass. Sums beyond
 * 2^24 are rounded by 2^-24 of themselves; one step of the result is 2^-8 of its range. */
#include <stdio.h>
#include <string.h>

#include "net/expand.h"
#include "net/ops/ops.h"

/* Scale or zero point over the output's shape: a scalar, or a vector along the axis. Where `any`, another
 * tensor that broadcasts too. */
static rdt_status parameter(const rdt_op_args *a, int i, const rdt_tensor *y, bool any, rdt_tensor *view,
                            rdt_reason *why) {
  const rdt_tensor *t = rdt_op_in(a, i);
  char st[96], sy[96];
  int axis;
  rdt_reason inner = {""};
  rdt_tensor_text(t, st, sizeof st);
  rdt_tensor_text(y, sy, sizeof sy);
  if (t->rank > 1 && any) {
    const rdt_status s = rdt_tensor_broadcast(t, y->rank, y->shape, view, &inner);
    return s == RDT_OK ? s : rdt_op_fail(a, why, s, "its factors: %s", inner.text);
  }
  *view = *y;
  view->data = t->data;
  view->dtype = t->dtype;
  for (int d = 0; d < y->rank; d++) view->stride[d] = 0;
  if (t->rank <= 1 && rdt_tensor_count(t) == 1) return RDT_OK;
  if (t->rank != 1)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input %d is %s: must be a scalar, or a vector along the axis", i, st);
  RDT_TRY(rdt_op_axis(a, 1, y->rank, y->rank, &axis, why));
  if (t->shape[0] != y->shape[axis])
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "input %d is %s: must be a scalar, or as long as %s along axis %d", i, st,
                       sy, axis);
  view->stride[axis] = t->stride[0];
  return RDT_OK;
}

/* u8 unless the zero point or, from opset 21 on, output_dtype says otherwise. */
static rdt_status quantized_dtype(const rdt_op_args *a, rdt_dtype *dtype, rdt_reason *why) {
  const rdt_tensor *zero = rdt_op_in(a, 2);
  int64_t wanted;
  RDT_TRY(rdt_op_int(a, "output_dtype", 0, &wanted, why));
  *dtype = zero ? zero->dtype : wanted == rdt_dtype_info(RDT_S8)->onnx ? RDT_S8 : RDT_U8;
  if (wanted && wanted != rdt_dtype_info(*dtype)->onnx)
    return rdt_op_fail(a, why, zero ? RDT_ERR_DTYPE : RDT_ERR_UNSUPPORTED,
                       "output_dtype %lld: take that of the zero point, s8 or u8", (long long)wanted);
  if (*dtype != RDT_S8 && *dtype != RDT_U8)
    return rdt_op_fail(a, why, RDT_ERR_DTYPE, "to %s: s8 and u8 are available", rdt_dtype_name(*dtype));
  return RDT_OK;
}

rdt_status rdt_op_quantize(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *scale = rdt_op_in(a, 1), *zero = rdt_op_in(a, 2);
  const bool back = a->n->op->fn == RDT_FN_DEQUANTIZE;
  const rdt_tensor *real = back ? scale : x;
  const bool integer = x->dtype == RDT_S8 || x->dtype == RDT_U8 || x->dtype == RDT_S32;
  int64_t block;
  RDT_TRY(rdt_op_int(a, "block_size", 0, &block, why));
  if (block) return rdt_op_fail(a, why, RDT_ERR_UNSUPPORTED, "block_size is not available; quantize along one axis");
  if (back ? !integer : !rdt_dtype_is_float(x->dtype))
    return rdt_op_fail(a, why, RDT_ERR_DTYPE, "of %s: takes %s", rdt_dtype_name(x->dtype),
                       back ? "s8, u8 or s32" : "floating point");
  if (!rdt_dtype_is_float(scale->dtype) || scale->dtype != real->dtype || (back && zero && zero->dtype != x->dtype))
    return rdt_op_fail(a, why, RDT_ERR_DTYPE, "of %s by a scale of %s, zero point %s: %s", rdt_dtype_name(x->dtype),
                       rdt_dtype_name(scale->dtype), zero ? rdt_dtype_name(zero->dtype) : "absent",
                       back ? "x and zero point must agree" : "x and scale must agree");
  rdt_tensor y = *x, view[3];
  y.dtype = scale->dtype;
  if (!back) RDT_TRY(quantized_dtype(a, &y.dtype, why));
  const int n = zero ? 3 : 2;
  const bool any = a->n->op->since == 0; /* of what operators are rewritten into */
  for (int i = 1; i < n; i++) RDT_TRY(parameter(a, i, &y, any, &view[i], why));
  if (!p) {
    *out = y;
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, RDT_KOP_QUANTIZE, n));
  p->fn = a->n->op->fn;
  p->acc = rdt_op_accumulator(real->dtype);
  p->in[0] = *x;
  for (int i = 1; i < n; i++) p->in[i] = view[i];
  p->out = *out;
  return RDT_OK;
}

/* ---- products ---- */

/* What inputs and attributes of an integer product say beyond the product: x, w, bias, factor; zero points and, where
 * there is a factor, the datatype of the result. */
rdt_status rdt_op_requantized(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  static const char *const names[] = {"x_zero", "w_zero", "y_zero"};
  const rdt_tensor *factor = rdt_op_in(a, 3);
  int64_t zero[3], is_signed;
  for (int i = 0; i < 3; i++) RDT_TRY(rdt_op_int(a, names[i], 0, &zero[i], why));
  RDT_TRY(rdt_op_int(a, "signed", 0, &is_signed, why));
  if (!p) {
    if (factor) out->dtype = is_signed ? RDT_S8 : RDT_U8;
    return RDT_OK;
  }
  for (int i = 0; i < 2; i++) p->zero[i] = (int32_t)zero[i];
  if (!factor) return RDT_OK;
  const int64_t channels = p->out.shape[rdt_problem_channel(p)], count = rdt_tensor_count(factor);
  if (factor->rank > 1 || (count != 1 && count != channels))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "%lld scales for %lld channels", (long long)count, (long long)channels);
  rdt_epilogue *e = &p->epilogue;
  e->factor = rdt_tensor_dense(factor->data, factor->dtype, 1, &channels);
  e->factor.stride[0] = count == channels;
  e->zero = (int32_t)zero[2];
  return RDT_OK;
}

static int cast(rdt_builder *b, const char *what, int v, rdt_dtype to) {
  const int y = rdt_build(b, "Cast", what, v);
  rdt_build_int(b, "to", rdt_dtype_info(to)->onnx);
  return y;
}

/* Value v less its zero point, in the datatype of `one`. */
static int centred(rdt_builder *b, const char *what, int v, int one, int zero, int axis) {
  if (zero >= 0 && b->g->values[zero].rank > 1) /* rows or columns of each matrix: it broadcasts as it is */
    return rdt_build(b, "Centre", what, v, one, zero);
  const int y = rdt_build(b, "DequantizeLinear", what, v, one, zero);
  rdt_build_int(b, "axis", axis);
  return y;
}

static bool is_scalar(const rdt_builder *b, int v) {
  const rdt_value *t = &b->g->values[v];
  bool one = t->rank >= 0;
  for (int d = 0; d < t->rank; d++) one = one && t->shape[d] == 1;
  return one;
}

/* The number that a constant zero point is throughout; absent: 0. false: it is none. */
static bool number_of(const rdt_builder *b, int v, int64_t *number) {
  *number = 0;
  if (v < 0) return true;
  const rdt_value *t = &b->g->values[v];
  if (!t->data || (t->dtype != RDT_S8 && t->dtype != RDT_U8) || t->bytes < 1) return false;
  *number = rdt_load_int(t->data, t->dtype, 0);
  for (size_t i = 1; i < t->bytes; i++)
    if (rdt_load_int(t->data, t->dtype, (int64_t)i) != *number) return false;
  return true;
}

/* A constant of f32: one number, or a vector. */
static bool is_scale(const rdt_builder *b, int v, bool vector) {
  const rdt_value *t = &b->g->values[v];
  return t->data && t->dtype == RDT_F32 && (is_scalar(b, v) || (vector && t->rank == 1));
}

/* A product of integers as it is, where the file tells all about them: no zero point and no scale that goes with rows.
 */
static bool is_integer_product(const rdt_builder *b, int x_zero, int w, int w_zero, int64_t zero[2]) {
  const rdt_value *t = w >= 0 ? &b->g->values[w] : NULL;
  if (!t || !t->data || rdt_node_int(&b->from, "group", 1) != 1) return false;
  if (strstr(b->from.op->name, "Conv") && t->rank != 4) return false;
  return number_of(b, x_zero, &zero[0]) && number_of(b, w_zero, &zero[1]);
}

static void zeros(rdt_builder *b, const int64_t zero[2]) {
  rdt_build_int(b, "x_zero", zero[0]);
  rdt_build_int(b, "w_zero", zero[1]);
}

/* The scales of both operands over that of the result. A vector for the left side of a product goes along its rows. */
static int factor(rdt_builder *b, bool rows) {
  int a = rdt_build_in(b, 1);
  if (rows && b->g->values[a].rank <= 1 && !is_scalar(b, a))
    a = rdt_build(b, "Reshape", "rows", a,
                  rdt_build_constant(b, "rows_shape", RDT_S64, 1, (const int64_t[]){2}, (const int64_t[]){-1, 1}));
  return rdt_build(b, "Div", "factor", rdt_build(b, "Mul", "scales", a, rdt_build_in(b, 4)), rdt_build_in(b, 6));
}

/* Those of QLinearConv, where the file tells their lengths: the nodes that it becomes would blame themselves. */
static rdt_status check_parameters(rdt_builder *b) {
  static const char *const names[] = {NULL,      "x_scale",      "x_zero_point", NULL,
                                      "w_scale", "w_zero_point", "y_scale",      "y_zero_point"};
  const rdt_value *w = &b->g->values[rdt_build_in(b, 3)];
  const int64_t channels = w->rank > 0 ? w->shape[0] : -1;
  for (int i = 0; i < 8; i++) {
    const int v = names[i] ? rdt_build_in(b, i) : -1;
    if (v < 0 || b->g->values[v].rank < 0 || is_scalar(b, v)) continue;
    const rdt_value *t = &b->g->values[v];
    const bool of_weight = i == 4 || i == 5, vector = t->rank == 1;
    if (vector && (t->shape[0] < 0 || (of_weight && (channels < 0 || t->shape[0] == channels)))) continue;
    char text[200], is[96], most[64] = "";
    if (of_weight)
      snprintf(most, sizeof most, ", or of %lld elements, one for each output channel", (long long)channels);
    rdt_tensor shown = {.dtype = t->dtype, .rank = t->rank};
    memcpy(shown.shape, t->shape, sizeof shown.shape);
    snprintf(text, sizeof text, "input %d, %s, is %s: must be a scalar%s", i, names[i],
             rdt_tensor_text(&shown, is, sizeof is), most);
    return rdt_build_fail(b, RDT_ERR_SHAPE, text);
  }
  return RDT_OK;
}

rdt_status rdt_expand_qlinear(rdt_builder *b) { /* x, scale, zero, w, scale, zero, y's scale, y's zero[, bias] */
  const bool conv = strcmp(b->from.op->name, "QLinearConv") == 0;
  int64_t zero[2], y_zero;
  if (conv) RDT_TRY(check_parameters(b));
  if (is_integer_product(b, rdt_build_in(b, 2), rdt_build_in(b, 3), rdt_build_in(b, 5), zero) &&
      is_scale(b, rdt_build_in(b, 1), false) && is_scale(b, rdt_build_in(b, 4), true) &&
      is_scale(b, rdt_build_in(b, 6), false) && number_of(b, rdt_build_in(b, 7), &y_zero)) {
    const int scale = factor(b, false);
    b->result = rdt_build(b, conv ? "IntegerConv" : "IntegerMatMul", "product", rdt_build_in(b, 0), rdt_build_in(b, 3),
                          rdt_build_in(b, 8), scale);
    rdt_build_same_attrs(b);
    zeros(b, zero);
    rdt_build_int(b, "y_zero", y_zero);
    rdt_build_int(b, "signed", b->g->values[rdt_build_in(b, 7)].dtype == RDT_S8);
    return b->status;
  }
  const int one = rdt_build_scalar(b, "one", RDT_F32, 1.0), bias = rdt_build_in(b, 8);
  const int x = centred(b, "x", rdt_build_in(b, 0), one, rdt_build_in(b, 2), conv ? 1 : -2);
  const int w = centred(b, "w", rdt_build_in(b, 3), one, rdt_build_in(b, 5), conv ? 0 : -1);
  const int added = bias < 0 ? -1 : rdt_build(b, "DequantizeLinear", "bias", bias, one);
  const int product = rdt_build(b, conv ? "Conv" : "MatMul", "product", x, w, added);
  rdt_build_same_attrs(b);
  b->result = rdt_build(b, "Requantize", "y", product, factor(b, !conv), rdt_build_in(b, 7));
  rdt_build_int(b, "axis", conv ? 1 : -1);
  return b->status;
}

static bool is_zero(const rdt_builder *b, int v) {
  if (v < 0) return true;
  const rdt_value *t = &b->g->values[v];
  const unsigned char *bytes = t->data;
  for (size_t i = 0; bytes && i < t->bytes; i++)
    if (bytes[i]) return false;
  return bytes != NULL;
}

/* A zero point of zeros is dropped: whether it is of its operand's type is asked before, where the file tells. */
static rdt_status check_zero(rdt_builder *b, int v, int zero, int input) {
  char text[120];
  if (v < 0 || zero < 0) return RDT_OK;
  const rdt_value *x = &b->g->values[v], *z = &b->g->values[zero];
  if (!x->typed || !z->typed || x->dtype == z->dtype) return RDT_OK;
  snprintf(text, sizeof text, "input %d, a zero point, is %s: must be %s as what it belongs to", input,
           rdt_dtype_name(z->dtype), rdt_dtype_name(x->dtype));
  return rdt_build_fail(b, RDT_ERR_DTYPE, text);
}

/* Without zero points there is an integer product. With them, doubles hold every sum below 2^53. */
rdt_status rdt_expand_integer(rdt_builder *b) { /* x, w[, zero of x[, zero of w]] */
  const bool conv = strcmp(b->from.op->name, "ConvInteger") == 0;
  const int x = rdt_build_in(b, 0), w = rdt_build_in(b, 1);
  if (b->from.n_in == 2) return RDT_OK;
  RDT_TRY(check_zero(b, x, rdt_build_in(b, 2), 2));
  RDT_TRY(check_zero(b, w, rdt_build_in(b, 3), 3));
  if (is_zero(b, rdt_build_in(b, 2)) && is_zero(b, rdt_build_in(b, 3))) {
    b->result = rdt_build(b, b->from.op->name, "product", x, w);
    rdt_build_same_attrs(b);
    return b->status;
  }
  int64_t zero[2];
  if (is_integer_product(b, rdt_build_in(b, 2), w, rdt_build_in(b, 3), zero)) {
    b->result = rdt_build(b, conv ? "IntegerConv" : "IntegerMatMul", "product", x, w);
    rdt_build_same_attrs(b);
    zeros(b, zero);
    return b->status;
  }
  const int one = rdt_build_scalar(b, "one", RDT_F64, 1.0);
  const int fx = centred(b, "x", x, one, rdt_build_in(b, 2), conv ? 1 : -2);
  const int fw = centred(b, "w", w, one, rdt_build_in(b, 3), conv ? 0 : -1);
  const int product = rdt_build(b, conv ? "Conv" : "MatMul", "product", fx, fw);
  rdt_build_same_attrs(b);
  b->result = cast(b, "y", product, RDT_S32);
  return b->status;
}

/* y = x quantised to u8 by a scale and a zero point that its own extremes give. Where x is 0 throughout, the scale
 * is 1.
 */
rdt_status rdt_expand_dynamic_quantize(rdt_builder *b) {
  const int x = rdt_build_in(b, 0);
  const int zero = rdt_build_scalar(b, "zero", RDT_F32, 0.0), one = rdt_build_scalar(b, "one", RDT_F32, 1.0);
  int ends[2];
  for (int i = 0; i < 2; i++) {
    const int end = rdt_build(b, i ? "ReduceMax" : "ReduceMin", i ? "max" : "min", x);
    rdt_build_int(b, "keepdims", 0);
    ends[i] = rdt_build(b, i ? "Max" : "Min", i ? "high" : "low", end, zero);
  }
  const int range = rdt_build(b, "Sub", "range", ends[1], ends[0]);
  const int step = rdt_build(b, "Div", "step", range, rdt_build_scalar(b, "steps", RDT_F32, 255.0));
  const int scale = rdt_build(b, "Where", "scale", rdt_build(b, "Equal", "is_zero", range, zero), one, step);
  b->result = scale;
  if (b->from.output == 1) return b->status;
  const int at = rdt_build(b, "QuantizeLinear", "zero_point", rdt_build(b, "Sub", "below", zero, ends[0]), scale);
  b->result = b->from.output == 2 ? at : rdt_build(b, "QuantizeLinear", "y", x, scale, at);
  return b->status;
}
