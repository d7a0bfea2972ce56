/* Products by oneDNN's matmul. */
#include "cpu/onednn/onednn.h"

/* Bias [n] as [1 .. 1 n] */
static rdt_tensor row_of(const rdt_tensor *bias, int rank) {
  int64_t shape[RDT_MAX_RANK];
  for (int d = 0; d < rank; d++) shape[d] = d + 1 == rank ? bias->shape[0] : 1;
  return rdt_tensor_dense(bias->data, bias->dtype, rank, shape);
}

static rdt_status build(const rdt_problem *p, const dnnl_primitive_attr_t attr, rdt_onednn_plan *plan,
                        rdt_reason *why) {
  const bool bias = p->epilogue.bias.rank >= 0, fixed = p->in[1].data != NULL;
  dnnl_memory_desc_t a, b, c, v;
  dnnl_matmul_desc_t desc;
  dnnl_engine_t engine;
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(rdt_onednn_md(&a, &p->in[0], why));
  RDT_TRY(rdt_onednn_md(&plan->user_w, &p->in[1], why));
  RDT_TRY(rdt_onednn_md(&c, &p->out, why));
  b = plan->user_w;
  if (fixed) RDT_TRY(rdt_onednn_md_any(&b, &p->in[1], why));
  if (bias) {
    const rdt_tensor row = row_of(&p->epilogue.bias, p->out.rank);
    RDT_TRY(rdt_onednn_md(&v, &row, why));
  }
  RDT_TRY(rdt_onednn_try(dnnl_matmul_desc_init(&desc, &a, &b, bias ? &v : NULL, &c), "product", why));
  RDT_TRY(rdt_onednn_try(dnnl_primitive_desc_create(&plan->pd, &desc, attr, engine, NULL), "product", why));
  plan->has_weights = fixed;
  plan->packed_w = *dnnl_primitive_desc_query_md(plan->pd, dnnl_query_weights_md, 0);
  rdt_onednn_arg(plan, DNNL_ARG_SRC, RDT_FROM_X, &a);
  rdt_onednn_arg(plan, DNNL_ARG_WEIGHTS, RDT_FROM_W, &plan->packed_w);
  rdt_onednn_arg(plan, DNNL_ARG_DST, RDT_FROM_OUT, &c);
  if (bias) rdt_onednn_arg(plan, DNNL_ARG_BIAS, RDT_FROM_BIAS, &v);
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  return rdt_onednn_create(p, build, 1, threads, state, why);
}

static rdt_status accept_f32(const rdt_problem *p, rdt_reason *why) {
  return rdt_onednn_accept_linear(p, build, RDT_F32, why);
}

static rdt_status accept_bf16(const rdt_problem *p, rdt_reason *why) {
  return rdt_onednn_accept_linear(p, build, RDT_BF16, why);
}

static rdt_status accept_int8(const rdt_problem *p, rdt_reason *why) {
  if ((p->in[0].dtype != RDT_S8 && p->in[0].dtype != RDT_U8) || p->in[1].dtype != RDT_S8) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes s8 or u8 by s8 weights");
  }
  if (!rdt_onednn_has_vnni()) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "without VNNI oneDNN's int8 products saturate at 16 bits: not exact");
  }
  return rdt_onednn_accept(p, build, why);
}

RDT_ONEDNN_LINEAR_ROW(GEMM, gemm, f32)
RDT_ONEDNN_LINEAR_ROW(GEMM, gemm, bf16)
RDT_ONEDNN_LINEAR_ROW(GEMM, gemm, int8)
