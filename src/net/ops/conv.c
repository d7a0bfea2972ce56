/* Conv over one to three spatial dimensions. */
#include "net/ops/ops.h"

static rdt_status check_operands(const rdt_op_args *a, const rdt_tensor *x, const rdt_tensor *w, int64_t groups,
                                 rdt_reason *why) {
  char tx[96], tw[96];
  rdt_tensor_text(x, tx, sizeof tx);
  rdt_tensor_text(w, tw, sizeof tw);
  RDT_TRY(rdt_op_check_spatial(a, x, why));
  if (w->rank != x->rank)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "weight %s for an input %s: ranks must agree", tw, tx);
  if (groups < 1 || w->shape[0] % groups != 0 || x->shape[1] % groups != 0 || w->shape[1] != x->shape[1] / groups)
    return rdt_op_fail(a, why, RDT_ERR_SHAPE,
                       "input %s, weight %s, %lld groups: the weight must be oc x ic/groups x kernel, with ic = %lld",
                       tx, tw, (long long)groups, (long long)x->shape[1]);
  const rdt_tensor *bias = rdt_op_in(a, 2);
  if (bias && (bias->rank != 1 || bias->shape[0] != w->shape[0]))
    return rdt_op_fail(a, why, RDT_ERR_SHAPE, "bias %s for %lld output channels", rdt_tensor_text(bias, tx, sizeof tx),
                       (long long)w->shape[0]);
  return RDT_OK;
}

static rdt_status convolution(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0), *w = rdt_op_in(a, 1), *bias = rdt_op_in(a, 2);
  rdt_window window = {0};
  int64_t size[RDT_MAX_SPATIAL], kernel[RDT_MAX_SPATIAL];
  RDT_TRY(rdt_op_int(a, "group", 1, &window.groups, why));
  RDT_TRY(check_operands(a, x, w, window.groups, why));
  const int spatial = x->rank - 2;
  RDT_TRY(rdt_op_ints(a, "kernel_shape", spatial, -1, kernel, why));
  for (int i = 0; i < spatial; i++)
    if (rdt_node_attr(a->n, "kernel_shape") && kernel[i] != w->shape[2 + i])
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "kernel_shape[%d] is %lld, the weight has %lld there", i,
                         (long long)kernel[i], (long long)w->shape[2 + i]);
  RDT_TRY(rdt_op_window(a, x, &w->shape[2], false, &window, size, why));

  rdt_tensor y = {.dtype = rdt_dtype_is_float(x->dtype) ? x->dtype : RDT_S32, .rank = x->rank};
  y.shape[0] = x->shape[0];
  y.shape[1] = w->shape[0];
  for (int i = 0; i < spatial; i++) y.shape[2 + i] = size[i];
  if (p) y = *out;
  rdt_tensor residual;
  RDT_TRY(rdt_op_residual(a, &y, &residual, why));
  *out = y;
  if (!p) return RDT_OK;

  RDT_TRY(rdt_problem_init(p, RDT_KOP_CONV, 2));
  p->acc = rdt_op_accumulator(x->dtype);
  p->window = window;
  p->in[0] = *x;
  p->in[1] = *w;
  p->out = *out;
  if (bias) p->epilogue.bias = *bias;
  if (residual.rank >= 0) {
    p->epilogue.residual = residual;
    p->epilogue.beta = 1.0;
  }
  p->epilogue.act = a->n->act;
  if (a->n->scale != 0.0) p->epilogue.alpha = a->n->scale;
  return RDT_OK;
}

rdt_status rdt_op_conv(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  RDT_TRY(rdt_op_float_inputs(a, 0, 3, why));
  return convolution(a, out, p, why);
}

rdt_status rdt_op_conv_integer(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  RDT_TRY(rdt_op_byte_inputs(a, why));
  return convolution(a, out, p, why);
}

rdt_status rdt_op_integer_conv(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  RDT_TRY(rdt_op_byte_inputs(a, why));
  RDT_TRY(convolution(a, out, p, why));
  return rdt_op_requantized(a, out, p, why);
}
