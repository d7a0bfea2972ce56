/* Products with fixed weights as 1x1 convolutions: one pixel a row of A, one input channel an entry of it. Up to AVX2
 * oneDNN's product (gemm:jit) packs both operands anew at each call; its convolution keeps the weights packed. One
 * thread of a Zen 4, GFLOP/s, product and convolution: 128x768x3072: 41, 87; 256x1024x1024: 42, 88; 128x768x768: 83,
 * 88; 1024x1024x1024: 85, 88; 16x3072x768: 38, 66. */
#include "cpu/onednn/onednn.h"

/* m x c, dense, as [1 c m 1] channels-last */
static rdt_tensor pixels(const rdt_tensor *t) {
  const int64_t shape[4] = {1, t->shape[1], t->shape[0], 1};
  return rdt_tensor_channels_last(t->data, t->dtype, 4, shape);
}

/* k x n as n filters of k channels */
static rdt_tensor filters(const rdt_tensor *b) {
  return (rdt_tensor){.data = b->data,
                      .dtype = b->dtype,
                      .rank = 4,
                      .shape = {b->shape[1], b->shape[0], 1, 1},
                      .stride = {b->stride[1], b->stride[0], 1, 1}};
}

static rdt_status build(const rdt_problem *p, const dnnl_primitive_attr_t attr, rdt_onednn_plan *plan,
                        rdt_reason *why) {
  const bool bias = p->epilogue.bias.rank >= 0;
  const rdt_tensor x = pixels(&p->in[0]), w = filters(&p->in[1]), y = pixels(&p->out);
  const dnnl_dims_t one = {1, 1}, none = {0, 0};
  dnnl_memory_desc_t xm, wm, ym, bm;
  dnnl_convolution_desc_t desc;
  dnnl_engine_t engine;
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(rdt_onednn_md(&xm, &x, why));
  RDT_TRY(rdt_onednn_md(&plan->user_w, &w, why));
  RDT_TRY(rdt_onednn_md_any(&wm, &w, why));
  RDT_TRY(rdt_onednn_md(&ym, &y, why));
  if (bias) RDT_TRY(rdt_onednn_md(&bm, &p->epilogue.bias, why));
  RDT_TRY(rdt_onednn_try(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct, &xm,
                                                            &wm, bias ? &bm : NULL, &ym, one, none, none),
                         "product as convolution", why));
  RDT_TRY(
      rdt_onednn_try(dnnl_primitive_desc_create(&plan->pd, &desc, attr, engine, NULL), "product as convolution", why));
  plan->has_weights = true;
  plan->packed_w = *dnnl_primitive_desc_query_md(plan->pd, dnnl_query_weights_md, 0);
  rdt_onednn_arg(plan, DNNL_ARG_SRC, RDT_FROM_X, &xm);
  rdt_onednn_arg(plan, DNNL_ARG_WEIGHTS, RDT_FROM_W, &plan->packed_w);
  rdt_onednn_arg(plan, DNNL_ARG_DST, RDT_FROM_OUT, &ym);
  if (bias) rdt_onednn_arg(plan, DNNL_ARG_BIAS, RDT_FROM_BIAS, &bm);
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  return rdt_onednn_create(p, build, 1, threads, state, why);
}

static rdt_status accept_packed(const rdt_problem *p, rdt_reason *why) {
  if (rdt_isa_detect() > RDT_ISA_AVX2)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "beyond AVX2 oneDNN's product has packed weights of its own");
  if (!p->in[1].data || p->out.rank != 2)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes one product with fixed weights");
  if (p->out.shape[0] < 8) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "fewer than 8 rows leave threads idle");
  if (!rdt_tensor_is_dense(&p->in[0]) || !rdt_tensor_is_dense(&p->out))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes dense row-major A and C");
  return rdt_onednn_accept_linear(p, build, RDT_F32, why);
}

RDT_ONEDNN_LINEAR_ROW(GEMM, gemm_f32, packed)
