/* Do the shapes and datatypes of a problem fit each other? */
#include "core/problem.h"

#include <stdlib.h>

static bool is_byte(rdt_dtype t) {
  return t == RDT_S8 || t == RDT_U8;
}

static bool holds(rdt_dtype t, int32_t x) {
  return t == RDT_S8 ? x >= -128 && x <= 127 : x >= 0 && x <= 255;
}

/* Of integers: sums as they are, or requantised. */
static rdt_status check_bytes(const rdt_problem *p, rdt_reason *why) {
  const rdt_epilogue *e = &p->epilogue;
  rdt_epilogue rest = *e;
  for (int i = 0; i < 2; i++)
    if (!holds(p->in[i].dtype, p->zero[i]))
      return rdt_fail(why, RDT_ERR_ARG, "%s: a zero point of %d is no %s", rdt_kop_name(p->op), p->zero[i],
                      rdt_dtype_name(p->in[i].dtype));
  if (e->factor.rank >= 0) {
    const int64_t channels = p->out.shape[rdt_problem_channel(p)];
    if (e->factor.rank != 1 || e->factor.dtype != RDT_F32 || e->factor.shape[0] != channels ||
        (e->factor.stride[0] != 0 && e->factor.stride[0] != 1))
      return rdt_fail(why, RDT_ERR_SHAPE, "requantising takes f32 factors, one for each of %lld channels",
                      (long long)channels);
    if ((e->bias.rank >= 0 && (e->bias.dtype != RDT_S32 || e->bias.stride[0] != 1)) || !holds(p->out.dtype, e->zero))
      return rdt_fail(why, RDT_ERR_DTYPE, "requantising takes a dense bias of s32, and a zero point of %s",
                      rdt_dtype_name(p->out.dtype));
    rest.factor.rank = rest.bias.rank = -1;
  }
  if (!rdt_epilogue_is_none(&rest))
    return rdt_fail(why, RDT_ERR_DTYPE, "integer %s takes no alpha, bias, activation or residual", rdt_kop_name(p->op));
  return RDT_OK;
}

static rdt_status check_linear_dtypes(const rdt_problem *p, rdt_reason *why) {
  const rdt_dtype a = p->in[0].dtype, b = p->in[1].dtype, c = p->out.dtype;
  const bool quantized = p->epilogue.factor.rank >= 0;
  const bool bytes = is_byte(a) && is_byte(b) && (quantized ? is_byte(c) : c == RDT_S32);
  const bool narrow = a == b && (a == RDT_BF16 || a == RDT_F16) && (c == a || c == RDT_F32);
  const bool plain = a == b && a == c && (a == RDT_F32 || a == RDT_F64);
  const bool eighth = rdt_dtype_is_f8(a) && rdt_dtype_is_f8(b) && (rdt_dtype_is_half(c) || c == RDT_F32);
  if (!bytes && !narrow && !plain && !eighth)
    return rdt_fail(why, RDT_ERR_DTYPE,
                    "%s of %s and %s to %s: take f64, f32, bf16 or f16 throughout (16-bit ones may have f32 results), "
                    "f8e4m3/f8e5m2 to f32, bf16 or f16, or s8/u8 to s32",
                    rdt_kop_name(p->op), rdt_dtype_name(a), rdt_dtype_name(b), rdt_dtype_name(c));
  if (p->acc != rdt_dtype_accumulator(a))
    return rdt_fail(why, RDT_ERR_INTERNAL, "%s of %s accumulates in %s, not %s", rdt_kop_name(p->op), rdt_dtype_name(a),
                    rdt_dtype_name(rdt_dtype_accumulator(a)), rdt_dtype_name(p->acc));
  if (bytes) return check_bytes(p, why);
  if (quantized || p->zero[0] || p->zero[1])
    return rdt_fail(why, RDT_ERR_DTYPE, "%s of %s has no zero points", rdt_kop_name(p->op), rdt_dtype_name(a));
  return RDT_OK;
}

static rdt_status check_epilogue(const rdt_problem *p, rdt_reason *why) {
  const rdt_epilogue *e = &p->epilogue;
  const int channel = p->op == RDT_KOP_CONV ? 1 : p->out.rank - 1;
  const rdt_fn_row *act = rdt_fn_info(e->act.fn);
  if (!act || act->operands != 1 || (act->class != RDT_CLASS_FLOAT && act->class != RDT_CLASS_NUMBER))
    return rdt_fail(why, RDT_ERR_ARG, "%s is no activation", act ? act->name : "an unknown function");
  if (e->bias.rank >= 0 && (e->bias.rank != 1 || e->bias.shape[0] != p->out.shape[channel]))
    return rdt_fail(why, RDT_ERR_SHAPE, "bias of %lld for %lld channels",
                    (long long)(e->bias.rank == 1 ? e->bias.shape[0] : -1), (long long)p->out.shape[channel]);
  if (e->residual.rank >= 0 && !rdt_tensor_same_shape(&e->residual, &p->out))
    return rdt_fail(why, RDT_ERR_SHAPE, "the residual's shape is not that of the result");
  return RDT_OK;
}

static rdt_status check_gemm(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *a = &p->in[0], *b = &p->in[1], *c = &p->out;
  char ta[96], tb[96], tc[96];
  bool ok = a->rank >= 2 && b->rank == a->rank && c->rank == a->rank;
  for (int d = 0; ok && d < a->rank - 2; d++) ok = a->shape[d] == c->shape[d] && b->shape[d] == c->shape[d];
  const int r = a->rank;
  ok = ok && a->shape[r - 2] == c->shape[r - 2] && b->shape[r - 1] == c->shape[r - 1] &&
       a->shape[r - 1] == b->shape[r - 2];
  if (!ok)
    return rdt_fail(why, RDT_ERR_SHAPE, "product of %s and %s to %s: take m x k, k x n, m x n",
                    rdt_tensor_text(a, ta, sizeof ta), rdt_tensor_text(b, tb, sizeof tb),
                    rdt_tensor_text(c, tc, sizeof tc));
  return RDT_OK;
}

/* Output length of a window along one axis, floor or ceil left to the caller: out must lie within what pads allow. */
static bool window_fits(const rdt_window *w, int axis, int64_t in, int64_t out, bool exact) {
  const int64_t limit = INT64_MAX / 8;
  const int64_t k = w->kernel[axis], s = w->stride[axis], d = w->dilation[axis], p0 = w->before[axis],
                p1 = w->after[axis];
  if (k < 1 || s < 1 || d < 1 || p0 < 0 || p1 < 0) return false;
  if (k > limit || s > limit || d > limit || p0 > limit || p1 > limit || in > limit || out > limit) return false;
  int64_t reach;
  if (__builtin_mul_overflow(k - 1, d, &reach) || reach > limit) return false;
  const int64_t room = in + p0 + p1 - (reach + 1);
  const int64_t floor_out = room < 0 ? 0 : room / s + 1, ceil_out = room < 0 ? 0 : (room + s - 1) / s + 1;
  return out == floor_out || (!exact && out == ceil_out) || out == 0;
}

static rdt_status check_window(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *y = &p->out;
  const bool conv = p->op == RDT_KOP_CONV;
  const int spatial = x->rank - 2;
  char tx[96], ty[96];
  if (spatial < 1 || spatial > RDT_MAX_SPATIAL || y->rank != x->rank || x->shape[0] != y->shape[0])
    return rdt_fail(why, RDT_ERR_SHAPE, "%s takes n c and one to %d spatial dimensions, got %s to %s",
                    rdt_kop_name(p->op), RDT_MAX_SPATIAL, rdt_tensor_text(x, tx, sizeof tx),
                    rdt_tensor_text(y, ty, sizeof ty));
  for (int axis = 0; axis < spatial; axis++)
    if (!window_fits(&p->window, axis, x->shape[2 + axis], y->shape[2 + axis], conv))
      return rdt_fail(why, RDT_ERR_SHAPE,
                      "%s: a window of %lld, stride %lld, dilation %lld, pads %lld %lld does not take %lld to %lld",
                      rdt_kop_name(p->op), (long long)p->window.kernel[axis], (long long)p->window.stride[axis],
                      (long long)p->window.dilation[axis], (long long)p->window.before[axis],
                      (long long)p->window.after[axis], (long long)x->shape[2 + axis], (long long)y->shape[2 + axis]);
  if (!conv) {
    if (x->shape[1] != y->shape[1])
      return rdt_fail(why, RDT_ERR_SHAPE, "%s must keep the channels", rdt_kop_name(p->op));
    return RDT_OK;
  }
  const rdt_tensor *w = &p->in[1];
  const int64_t g = p->window.groups;
  char tw[96];
  bool ok = w->rank == x->rank && g >= 1 && y->shape[1] == w->shape[0] && w->shape[0] % g == 0 &&
            x->shape[1] % g == 0 && w->shape[1] == x->shape[1] / g;
  for (int axis = 0; ok && axis < spatial; axis++) ok = w->shape[2 + axis] == p->window.kernel[axis];
  if (!ok)
    return rdt_fail(why, RDT_ERR_SHAPE,
                    "convolution of %s with weights %s in %lld groups to %s: take oc x ic/groups x kernel",
                    rdt_tensor_text(x, tx, sizeof tx), rdt_tensor_text(w, tw, sizeof tw), (long long)g,
                    rdt_tensor_text(y, ty, sizeof ty));
  return RDT_OK;
}

static rdt_status check_same_shapes(const rdt_problem *p, int first, int last, rdt_reason *why) {
  char ta[96], tb[96];
  for (int i = first; i < last; i++)
    if (!rdt_tensor_same_shape(&p->in[i], &p->out))
      return rdt_fail(why, RDT_ERR_SHAPE, "%s: operand %d is %s, the result %s", rdt_problem_name(p), i,
                      rdt_tensor_text(&p->in[i], ta, sizeof ta), rdt_tensor_text(&p->out, tb, sizeof tb));
  return RDT_OK;
}

static rdt_status check_concat(const rdt_problem *p, rdt_reason *why) {
  int64_t sum = 0;
  bool ok = p->axis >= 0 && p->axis < p->out.rank;
  for (int i = 0; ok && i < p->n_in; i++) {
    ok = p->in[i].rank == p->out.rank;
    for (int d = 0; ok && d < p->out.rank; d++) ok = d == p->axis || p->in[i].shape[d] == p->out.shape[d];
    if (ok) ok = !__builtin_add_overflow(sum, p->in[i].shape[p->axis], &sum);
  }
  return ok && sum == p->out.shape[p->axis]
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_SHAPE, "concat: the operands do not tile the result");
}

static rdt_status check_batchnorm(const rdt_problem *p, rdt_reason *why) {
  RDT_TRY(check_same_shapes(p, 0, 1, why));
  if (p->out.rank < 2) return rdt_fail(why, RDT_ERR_SHAPE, "batchnorm takes at least rank 2");
  for (int i = 1; i < 5; i++)
    if (p->in[i].rank != 1 || p->in[i].shape[0] != p->out.shape[1])
      return rdt_fail(why, RDT_ERR_SHAPE, "batchnorm: parameter %d must have %lld elements, one a channel", i,
                      (long long)p->out.shape[1]);
  return RDT_OK;
}

static rdt_status check_reduce(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *y = &p->out;
  const rdt_fn_class class = rdt_fn_info(p->fn)->class;
  char tx[96], ty[96];
  bool ok = x->rank == y->rank && (class == RDT_CLASS_REDUCE || class == RDT_CLASS_INDEX);
  for (int d = 0; ok && d < x->rank; d++)
    ok = y->shape[d] == x->shape[d] || (y->shape[d] == 1 && (class == RDT_CLASS_REDUCE || d == p->axis));
  if (class == RDT_CLASS_INDEX)
    ok = ok && p->axis >= 0 && p->axis < x->rank && y->shape[p->axis] == 1 &&
         (x->shape[p->axis] > 0 || rdt_tensor_count(y) == 0);
  if (!ok)
    return rdt_fail(why, RDT_ERR_SHAPE, "%s of %s to %s: take the same rank, and 1 where it is reduced",
                    rdt_problem_name(p), rdt_tensor_text(x, tx, sizeof tx), rdt_tensor_text(y, ty, sizeof ty));
  const bool order = class == RDT_CLASS_INDEX || p->fn == RDT_FN_REDUCE_MAX || p->fn == RDT_FN_REDUCE_MIN;
  if (y->dtype != (class == RDT_CLASS_INDEX ? RDT_S64 : x->dtype) || (x->dtype == RDT_BOOL && !order))
    return rdt_fail(why, RDT_ERR_DTYPE, "%s of %s to %s is not available", rdt_problem_name(p),
                    rdt_dtype_name(x->dtype), rdt_dtype_name(y->dtype));
  return RDT_OK;
}

static rdt_status check_norm(const rdt_problem *p, rdt_reason *why) {
  if (p->n_in > 3 || rdt_fn_info(p->fn)->class != RDT_CLASS_NORM || p->axis < 0 || p->axis > p->out.rank)
    return rdt_fail(why, RDT_ERR_ARG, "%s of %d operands along the dimensions from %d on of rank %d",
                    rdt_problem_name(p), p->n_in, p->axis, p->out.rank);
  return check_same_shapes(p, 0, p->n_in, why);
}

/* No two elements in one place: dimensions by stride, each beyond all that the smaller ones reach. */
static rdt_status check_result(const rdt_tensor *t, rdt_reason *why) {
  int64_t reach = 0;
  bool used[RDT_MAX_RANK] = {false};
  if (rdt_tensor_count(t) == 0) return RDT_OK;
  for (int i = 0; i < t->rank; i++) {
    int d = -1;
    for (int j = 0; j < t->rank; j++)
      if (!used[j] && t->shape[j] > 1 && (d < 0 || llabs(t->stride[j]) < llabs(t->stride[d]))) d = j;
    if (d < 0) break;
    used[d] = true;
    if (llabs(t->stride[d]) <= reach)
      return rdt_fail(why, RDT_ERR_SHAPE, "the result's stride %lld of dimension %d makes elements share memory",
                      (long long)t->stride[d], d);
    reach += (t->shape[d] - 1) * llabs(t->stride[d]); /* rdt_tensor_check has made sure that it fits */
  }
  return RDT_OK;
}

/* Operands and result as the function's class says (functions.def). */
static rdt_status check_map_dtypes(const rdt_problem *p, rdt_reason *why) {
  const rdt_fn_row *f = rdt_fn_info(p->fn);
  const rdt_dtype x = p->in[0].dtype, y = p->out.dtype;
  const bool is_float = rdt_dtype_is_float(x), is_bool = x == RDT_BOOL, is_int = !is_float && !is_bool;
  bool alike = true;
  for (int i = 1; i < p->n_in; i++) alike = alike && p->in[i].dtype == x;
  bool ok = false;
  switch (f->class) {
    case RDT_CLASS_FLOAT:
      ok = alike && is_float && y == x;
      break;
    case RDT_CLASS_NUMBER:
      ok = alike && !is_bool && y == x;
      break;
    case RDT_CLASS_COMPARE:
      ok = alike && y == RDT_BOOL;
      break;
    case RDT_CLASS_TEST:
      ok = alike && is_float && y == RDT_BOOL;
      break;
    case RDT_CLASS_LOGIC:
      ok = alike && is_bool && y == RDT_BOOL;
      break;
    case RDT_CLASS_BITS:
      ok = alike && is_int && y == x;
      break;
    case RDT_CLASS_CAST:
      ok = true;
      break;
    case RDT_CLASS_SELECT:
      ok = is_bool && p->in[1].dtype == y && p->in[2].dtype == y;
      break;
    case RDT_CLASS_POWER:
      ok = !is_bool && p->in[1].dtype != RDT_BOOL && y == x;
      break;
    case RDT_CLASS_QUANT:
      ok = is_float && p->in[1].dtype == x && (p->n_in < 3 || p->in[2].dtype == y) && (y == RDT_S8 || y == RDT_U8);
      break;
    case RDT_CLASS_DEQUANT:
      ok = (x == RDT_S8 || x == RDT_U8 || x == RDT_S32) && p->in[1].dtype == y &&
           (p->n_in < 3 || p->in[2].dtype == x) && rdt_dtype_is_float(y);
      break;
    case RDT_CLASS_REDUCE:
    case RDT_CLASS_INDEX:
    case RDT_CLASS_NORM:
    case RDT_CLASS_SOFTMAX:
      break;
  }
  return ok ? RDT_OK
            : rdt_fail(why, RDT_ERR_DTYPE, "%s of %s to %s is not available", f->name, rdt_dtype_name(x),
                       rdt_dtype_name(y));
}

rdt_status rdt_problem_check(const rdt_problem *p, rdt_reason *why) {
  static const int arity[RDT_KOP_COUNT] = {[RDT_KOP_GEMM] = 2,      [RDT_KOP_CONV] = 2,    [RDT_KOP_COPY] = 1,
                                           [RDT_KOP_BATCHNORM] = 5, [RDT_KOP_MAXPOOL] = 1, [RDT_KOP_AVGPOOL] = 1,
                                           [RDT_KOP_SOFTMAX] = 1,   [RDT_KOP_CONCAT] = 0,  [RDT_KOP_REDUCE] = 1};
  if ((unsigned)p->op >= RDT_KOP_COUNT) return rdt_fail(why, RDT_ERR_INTERNAL, "unknown op %d", (int)p->op);
  if (!rdt_fn_info(p->fn)) return rdt_fail(why, RDT_ERR_INTERNAL, "unknown function %d", (int)p->fn);
  const int operands = p->op == RDT_KOP_MAP ? rdt_fn_info(p->fn)->operands : arity[p->op];
  if (operands ? p->n_in != operands : p->n_in < 1)
    return rdt_fail(why, RDT_ERR_ARG, "%s takes %d operands, got %d", rdt_problem_name(p), operands, p->n_in);
  for (int i = 0; i < p->n_in; i++) RDT_TRY(rdt_tensor_check(&p->in[i], rdt_kop_name(p->op), why));
  RDT_TRY(rdt_tensor_check(&p->out, rdt_kop_name(p->op), why));
  RDT_TRY(check_result(&p->out, why));
  if (rdt_kop_is_linear(p->op)) {
    RDT_TRY(check_linear_dtypes(p, why));
    RDT_TRY(p->op == RDT_KOP_GEMM ? check_gemm(p, why) : check_window(p, why));
    return check_epilogue(p, why);
  }
  if (rdt_kop_moves(p->op) || p->op == RDT_KOP_RESIZE || p->op == RDT_KOP_CUMSUM || p->op == RDT_KOP_TOPK)
    return rdt_problem_check_moves(p, why);
  if (p->op == RDT_KOP_MAP || p->op == RDT_KOP_QUANTIZE) {
    const rdt_fn_class class = rdt_fn_info(p->fn)->class;
    const bool quantizes = class == RDT_CLASS_QUANT || class == RDT_CLASS_DEQUANT;
    if (quantizes != (p->op == RDT_KOP_QUANTIZE) || (quantizes && p->n_in != 2 && p->n_in != 3))
      return rdt_fail(why, RDT_ERR_ARG, "%s is not a function of %d operands for %s", rdt_problem_name(p), p->n_in,
                      rdt_kop_name(p->op));
    RDT_TRY(check_map_dtypes(p, why));
    return check_same_shapes(p, 0, p->n_in, why);
  }
  if (p->op == RDT_KOP_REDUCE) return check_reduce(p, why);
  if (p->op == RDT_KOP_MAXPOOL && p->fn == RDT_FN_ARGMAX && p->out.dtype == RDT_S64) return check_window(p, why);
  for (int i = 0; i < p->n_in; i++)
    if (p->in[i].dtype != p->out.dtype)
      return rdt_fail(why, RDT_ERR_DTYPE, "%s of %s to %s: datatypes must agree", rdt_kop_name(p->op),
                      rdt_dtype_name(p->in[i].dtype), rdt_dtype_name(p->out.dtype));
  switch (p->op) {
    case RDT_KOP_MAXPOOL:
    case RDT_KOP_AVGPOOL:
      if (p->fn != RDT_FN_NONE)
        return rdt_fail(why, RDT_ERR_ARG, "%s does not form %s of %s", rdt_kop_name(p->op), rdt_problem_name(p),
                        rdt_dtype_name(p->out.dtype));
      return check_window(p, why);
    case RDT_KOP_CONCAT:
      return check_concat(p, why);
    case RDT_KOP_BATCHNORM:
      return check_batchnorm(p, why);
    case RDT_KOP_NORM:
      return check_norm(p, why);
    case RDT_KOP_SOFTMAX:
      if (p->fn != RDT_FN_NONE && rdt_fn_info(p->fn)->class != RDT_CLASS_SOFTMAX)
        return rdt_fail(why, RDT_ERR_ARG, "%s is no softmax", rdt_problem_name(p));
      if (p->axis < 0 || p->axis >= p->out.rank)
        return rdt_fail(why, RDT_ERR_ARG, "softmax along axis %d of rank %d", p->axis, p->out.rank);
      return check_same_shapes(p, 0, 1, why);
    default:
      return check_same_shapes(p, 0, p->n_in, why);
  }
}
