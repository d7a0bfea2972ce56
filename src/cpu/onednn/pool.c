/* Average pooling by oneDNN. Its max pooling is not taken: it loses NaN. */
#include "cpu/onednn/onednn.h"

/* What must be padded after the image so that the last window fits: in ceil mode more than the problem's pads. */
static int64_t pad_after(const rdt_problem *p, int axis) {
  const rdt_window *w = &p->window;
  const int64_t reach = (w->kernel[axis] - 1) * w->dilation[axis] + 1;
  const int64_t needed =
      (p->out.shape[2 + axis] - 1) * w->stride[axis] + reach - p->in[0].shape[2 + axis] - w->before[axis];
  return needed > w->after[axis] ? needed : w->after[axis];
}

static rdt_status check_padding(const rdt_problem *p, rdt_reason *why) {
  const rdt_window *w = &p->window;
  for (int axis = 0; axis < p->out.rank - 2; axis++) {
    const int64_t reach = (w->kernel[axis] - 1) * w->dilation[axis] + 1, after = pad_after(p, axis);
    if (w->before[axis] >= reach || after >= reach) {
      return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                      "a window lies in the padding as a whole: oneDNN gives no defined value");
    }
    if (w->count_pad && after != w->after[axis]) {
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "oneDNN counts cells beyond the padding (ceil mode) in the average");
    }
  }
  return RDT_OK;
}

static rdt_status build(const rdt_problem *p, const dnnl_primitive_attr_t attr, rdt_onednn_plan *plan,
                        rdt_reason *why) {
  const rdt_window *w = &p->window;
  const dnnl_alg_kind_t alg = w->count_pad ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
  dnnl_memory_desc_t x, y;
  dnnl_pooling_v2_desc_t desc;
  dnnl_engine_t engine;
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(rdt_onednn_md(&x, &p->in[0], why));
  RDT_TRY(rdt_onednn_md(&y, &p->out, why));
  RDT_TRY(check_padding(p, why));
  const rdt_onednn_list stride = rdt_onednn_window(w->stride, 0), kernel = rdt_onednn_window(w->kernel, 0);
  const rdt_onednn_list dilation = rdt_onednn_window(w->dilation, -1), before = rdt_onednn_window(w->before, 0);
  dnnl_dims_t after = {0};
  for (int axis = 0; axis < p->out.rank - 2; axis++) after[axis] = pad_after(p, axis);
  RDT_TRY(rdt_onednn_try(dnnl_pooling_v2_forward_desc_init(&desc, dnnl_forward_inference, alg, &x, &y, stride.of,
                                                           kernel.of, dilation.of, before.of, after),
                         "pooling", why));
  RDT_TRY(rdt_onednn_try(dnnl_primitive_desc_create(&plan->pd, &desc, attr, engine, NULL), "pooling", why));
  rdt_onednn_arg(plan, DNNL_ARG_SRC, RDT_FROM_X, &x);
  rdt_onednn_arg(plan, DNNL_ARG_DST, RDT_FROM_OUT, &y);
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  return rdt_onednn_create(p, build, 1, threads, state, why);
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  if (p->out.dtype != RDT_F32 && p->out.dtype != RDT_BF16) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes f32 or bf16");
  }
  return rdt_onednn_accept(p, build, why);
}

const rdt_kernel rdt_kernel_avgpool_onednn = {.name = "avgpool_onednn",
                                              .op = RDT_KOP_AVGPOOL,
                                              .isa = RDT_ISA_AVX2,
                                              .black_box = true,
                                              .deterministic = true,
                                              .accept = accept,
                                              .create = create,
                                              .run = rdt_onednn_run,
                                              .scratch = rdt_onednn_scratch,
                                              .destroy = rdt_onednn_destroy};
