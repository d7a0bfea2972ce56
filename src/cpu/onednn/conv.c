/* Convolution by oneDNN's direct algorithm (not Winograd: its error bounds differ). */
#include "cpu/onednn/onednn.h"

/* W [oc ic/g k..] as oneDNN wants it with groups: [g oc/g ic/g k..] */
static rdt_tensor grouped(const rdt_tensor *w, int64_t groups) {
  rdt_tensor t = *w;
  if (groups == 1) return t;
  t.rank = w->rank + 1;
  for (int d = w->rank; d > 0; d--) {
    t.shape[d] = w->shape[d - 1];
    t.stride[d] = w->stride[d - 1];
  }
  t.shape[0] = groups;
  t.shape[1] = w->shape[0] / groups;
  t.stride[0] = t.stride[1] * t.shape[1];
  return t;
}

static rdt_status build(const rdt_problem *p, const dnnl_primitive_attr_t attr, rdt_onednn_plan *plan,
                        rdt_reason *why) {
  const rdt_window *win = &p->window;
  const bool bias = p->epilogue.bias.rank >= 0;
  const rdt_tensor weights = grouped(&p->in[1], win->groups);
  const rdt_onednn_list stride = rdt_onednn_window(win->stride, 0), dilation = rdt_onednn_window(win->dilation, -1);
  const rdt_onednn_list before = rdt_onednn_window(win->before, 0), after = rdt_onednn_window(win->after, 0);
  dnnl_memory_desc_t x, w, y, b;
  dnnl_convolution_desc_t desc;
  dnnl_engine_t engine;
  RDT_TRY(rdt_onednn_engine(&engine, why));
  RDT_TRY(rdt_onednn_md(&x, &p->in[0], why));
  RDT_TRY(rdt_onednn_md(&plan->user_w, &weights, why));
  RDT_TRY(rdt_onednn_md_any(&w, &weights, why));
  RDT_TRY(rdt_onednn_md(&y, &p->out, why));
  if (bias) RDT_TRY(rdt_onednn_md(&b, &p->epilogue.bias, why));
  RDT_TRY(rdt_onednn_try(
      dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct, &x, &w,
                                                 bias ? &b : NULL, &y, stride.of, dilation.of, before.of, after.of),
      "convolution", why));
  RDT_TRY(rdt_onednn_try(dnnl_primitive_desc_create(&plan->pd, &desc, attr, engine, NULL), "convolution", why));
  plan->has_weights = true;
  plan->packed_w = *dnnl_primitive_desc_query_md(plan->pd, dnnl_query_weights_md, 0);
  rdt_onednn_arg(plan, DNNL_ARG_SRC, RDT_FROM_X, &x);
  rdt_onednn_arg(plan, DNNL_ARG_WEIGHTS, RDT_FROM_W, &plan->packed_w);
  rdt_onednn_arg(plan, DNNL_ARG_DST, RDT_FROM_OUT, &y);
  if (bias) rdt_onednn_arg(plan, DNNL_ARG_BIAS, RDT_FROM_BIAS, &b);
  return RDT_OK;
}

/* oneDNN's AVX2 kernel reads channels-last input in strips of 32 bytes a pixel, once for each block of channels. Over a
 * batch that the cache does not hold it then waits for memory: 8 images 56x56 64 -> 64, 3x3, f32, one thread of a Zen
 * 4: 25 ms, blocked layout 20.8 ms. Image by image, each read once in order before: 21.2 ms. */
static bool by_image(const rdt_problem *p, int threads) {
  const rdt_tensor *x = &p->in[0];
  const int64_t images = x->shape[0], bytes = x->stride[0] * (int64_t)rdt_dtype_size(x->dtype);
  return images > 1 && p->in[1].data && rdt_tensor_is_channels_last(x) && rdt_tensor_is_channels_last(&p->out) &&
         rdt_tensor_pixels(&p->in[1]) > 1 && bytes >= 1 << 17 &&
         (images % threads == 0 || images >= 8 * threads); /* an odd image at the end leaves threads idle */
}

/* A 1x1 window that skips pixels: without them it is a product of dense matrices. oneDNN would gather the pixels too,
 * but all of them for each thread. False for any other convolution. in has room for both operands of *dense. */
static bool skips_pixels(const rdt_problem *p, rdt_problem *dense, rdt_tensor *in) {
  const rdt_window *w = &p->window;
  bool one = p->out.rank == 4 && rdt_tensor_is_channels_last(&p->in[0]), skips = false;
  for (int i = 0; one && i < 2; i++) {
    one = w->kernel[i] == 1 && w->before[i] == 0 && w->after[i] == 0;
    skips = skips || w->stride[i] > 1;
  }
  if (!one || !skips) return false;
  const int64_t shape[4] = {p->in[0].shape[0], p->in[0].shape[1], p->out.shape[2], p->out.shape[3]};
  *dense = *p;
  dense->in = in;
  in[0] = rdt_tensor_channels_last(NULL, p->in[0].dtype, 4, shape);
  in[1] = p->in[1];
  dense->window.stride[0] = dense->window.stride[1] = 1;
  return true;
}

static rdt_status create_dense(const rdt_problem *p, const rdt_problem *dense, int threads, void **state,
                               rdt_reason *why) {
  rdt_tensor view = p->in[0];
  for (int d = 2; d < 4; d++) {
    view.shape[d] = p->out.shape[d];
    view.stride[d] *= p->window.stride[d - 2];
  }
  RDT_TRY(rdt_onednn_create(dense, build, 1, threads, state, why));
  rdt_onednn_from(*state, &view);
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  rdt_problem dense;
  rdt_tensor operands[2];
  if (skips_pixels(p, &dense, operands)) return create_dense(p, &dense, threads, state, why);
  if (!by_image(p, threads < 1 ? 1 : threads)) return rdt_onednn_create(p, build, 1, threads, state, why);
  rdt_tensor in[2] = {p->in[0], p->in[1]};
  rdt_problem one = *p;
  one.in = in;
  in[0].shape[0] = one.out.shape[0] = 1;
  if (one.epilogue.residual.rank >= 0) one.epilogue.residual.shape[0] = 1;
  return rdt_onednn_create(&one, build, p->in[0].shape[0], threads, state, why);
}

static rdt_status accept(const rdt_problem *p, rdt_dtype t, rdt_reason *why) {
  rdt_problem dense;
  rdt_tensor operands[2];
  return rdt_onednn_accept_linear(skips_pixels(p, &dense, operands) ? &dense : p, build, t, why);
}

static rdt_status accept_f32(const rdt_problem *p, rdt_reason *why) {
  return accept(p, RDT_F32, why);
}

static rdt_status accept_bf16(const rdt_problem *p, rdt_reason *why) {
  return accept(p, RDT_BF16, why);
}

RDT_ONEDNN_LINEAR_ROW(CONV, conv, f32)
RDT_ONEDNN_LINEAR_ROW(CONV, conv, bf16)
