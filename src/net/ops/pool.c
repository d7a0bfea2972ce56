/* MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool over one to three spatial dimensions. */
#include <string.h>

#include "net/ops/ops.h"

static rdt_status global_window(const rdt_op_args *a, const rdt_tensor *x, rdt_window *w, int64_t *size,
                                rdt_reason *why) {
  for (int i = 0; i < x->rank - 2; i++) {
    w->kernel[i] = x->shape[2 + i];
    w->stride[i] = w->dilation[i] = size[i] = 1;
    if (x->shape[2 + i] == 0)
      return rdt_op_fail(a, why, RDT_ERR_SHAPE, "a pool of an image without pixels is not defined");
  }
  return RDT_OK;
}

static rdt_status attribute_window(const rdt_op_args *a, const rdt_tensor *x, bool max, rdt_window *w, int64_t *size,
                                   rdt_reason *why) {
  int64_t kernel[RDT_MAX_SPATIAL], ceil, count_pad;
  if (!rdt_node_attr(a->n, "kernel_shape"))
    return rdt_op_fail(a, why, RDT_ERR_FORMAT, "attribute kernel_shape is missing");
  RDT_TRY(rdt_op_ints(a, "kernel_shape", x->rank - 2, 1, kernel, why));
  RDT_TRY(rdt_op_int(a, "ceil_mode", 0, &ceil, why));
  RDT_TRY(rdt_op_int(a, "count_include_pad", 0, &count_pad, why));
  w->count_pad = !max && count_pad != 0;
  return rdt_op_window(a, x, kernel, ceil != 0, w, size, why);
}

rdt_status rdt_op_pool(const rdt_op_args *a, rdt_tensor *out, rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = rdt_op_in(a, 0);
  const char *op = a->n->op->name;
  const bool global = strncmp(op, "Global", 6) == 0, max = strstr(op, "Max") != NULL;
  rdt_window w = {0};
  int64_t size[RDT_MAX_SPATIAL];
  RDT_TRY(rdt_op_check_spatial(a, x, why));
  if (!max) RDT_TRY(rdt_op_float_inputs(a, 0, 1, why));
  RDT_TRY(global ? global_window(a, x, &w, size, why) : attribute_window(a, x, max, &w, size, why));
  const bool positions = a->n->output == 1;
  if (!p) {
    *out = (rdt_tensor){.dtype = positions ? RDT_S64 : x->dtype, .rank = x->rank, .shape = {x->shape[0], x->shape[1]}};
    for (int i = 2; i < x->rank; i++) out->shape[i] = size[i - 2];
    return RDT_OK;
  }
  RDT_TRY(rdt_problem_init(p, max ? RDT_KOP_MAXPOOL : RDT_KOP_AVGPOOL, 1));
  p->acc = rdt_op_accumulator(x->dtype);
  p->window = w;
  if (positions) {
    p->fn = RDT_FN_ARGMAX;
    RDT_TRY(rdt_op_int(a, "storage_order", 0, &p->ints[0], why));
  }
  p->in[0] = *x;
  p->out = *out;
  return RDT_OK;
}
