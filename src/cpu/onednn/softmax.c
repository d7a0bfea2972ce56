/* Softmax by oneDNN. */
#include "cpu/onednn/onednn.h"

static rdt_status build(const rdt_problem *p, const dnnl_primitive_attr_t attr, rdt_onednn_plan *plan,
                        rdt_reason *why) {
  dnnl_memory_desc_t x;
  dnnl_softmax_desc_t desc;
  dnnl_engine_t engine;
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(rdt_onednn_md(&x, &p->in[0], why));
  RDT_TRY(rdt_onednn_try(dnnl_softmax_forward_desc_init(&desc, dnnl_forward_inference, &x, p->axis), "softmax", why));
  RDT_TRY(rdt_onednn_try(dnnl_primitive_desc_create(&plan->pd, &desc, attr, engine, NULL), "softmax", why));
  rdt_onednn_arg(plan, DNNL_ARG_SRC, RDT_FROM_X, &x);
  rdt_onednn_arg(plan, DNNL_ARG_DST, RDT_FROM_OUT, &x);
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  return rdt_onednn_create(p, build, 1, threads, state, why);
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  if (p->fn != RDT_FN_NONE) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes softmax itself only");
  if (p->out.dtype != RDT_F32 || p->in[0].dtype != RDT_F32) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes f32");
  if (p->out.rank < 1 || !rdt_tensor_same_strides(&p->in[0], &p->out)) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "input and output must lie in memory alike");
  }
  return rdt_onednn_accept(p, build, why);
}

const rdt_kernel rdt_kernel_softmax_onednn = {.name = "softmax_onednn",
                                              .op = RDT_KOP_SOFTMAX,
                                              .isa = RDT_ISA_AVX2,
                                              .black_box = true,
                                              .deterministic = true,
                                              .accept = accept,
                                              .create = create,
                                              .run = rdt_onednn_run,
                                              .scratch = rdt_onednn_scratch,
                                              .destroy = rdt_onednn_destroy};
