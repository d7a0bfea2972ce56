#include "blocked_conv.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#include "core/memory.h"

enum { SRC, WEIGHTS, DST, OPERANDS };

struct rdt_blocked_conv {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t primitive;
  dnnl_memory_t memory[OPERANDS], bias;
};

void rdt_blocked_conv_destroy(rdt_blocked_conv *c) {
  if (!c) return;
  for (int i = 0; i < OPERANDS; i++)
    if (c->memory[i]) dnnl_memory_destroy(c->memory[i]);
  if (c->bias) dnnl_memory_destroy(c->bias);
  if (c->primitive) dnnl_primitive_destroy(c->primitive);
  if (c->stream) dnnl_stream_destroy(c->stream);
  if (c->engine) dnnl_engine_destroy(c->engine);
  rdt_free(c);
}

/* oneDNN's shape of a view; weights of a grouped convolution get the group in front. */
static int dims_of(const rdt_tensor *t, int64_t groups, bool weights, int64_t *dims, int64_t *strides) {
  int n = 0;
  if (weights && groups > 1) {
    strides[n] = t->stride[0] * (t->shape[0] / groups);
    dims[n++] = groups;
  }
  for (int d = 0; d < 4; d++) {
    strides[n] = t->stride[d];
    dims[n++] = d == 0 && weights ? t->shape[0] / groups : t->shape[d];
  }
  return n;
}

static dnnl_status_t describe(const rdt_problem *p, dnnl_engine_t engine, dnnl_primitive_desc_t *pd) {
  const rdt_window *w = &p->window;
  const dnnl_dims_t stride = {w->stride[0], w->stride[1]}, dilation = {w->dilation[0] - 1, w->dilation[1] - 1};
  const dnnl_dims_t before = {w->before[0], w->before[1]}, after = {w->after[0], w->after[1]};
  const rdt_tensor *views[OPERANDS] = {&p->in[0], &p->in[1], &p->out};
  dnnl_memory_desc_t md[OPERANDS], bias;
  for (int i = 0; i < OPERANDS; i++) {
    dnnl_dims_t dims, strides;
    const int n = dims_of(views[i], w->groups, i == WEIGHTS, dims, strides);
    if (dnnl_memory_desc_init_by_tag(&md[i], n, dims, dnnl_f32, dnnl_format_tag_any) != dnnl_success)
      return dnnl_invalid_arguments;
  }
  const bool has_bias = p->epilogue.bias.rank >= 0;
  const dnnl_dims_t channels = {p->out.shape[1]};
  dnnl_memory_desc_init_by_tag(&bias, 1, channels, dnnl_f32, dnnl_a);
  dnnl_convolution_desc_t desc;
  dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct,
                                                               &md[SRC], &md[WEIGHTS], has_bias ? &bias : NULL,
                                                               &md[DST], stride, dilation, before, after);
  if (s != dnnl_success) return s;
  dnnl_primitive_attr_t attr;
  dnnl_post_ops_t ops;
  if (dnnl_primitive_attr_create(&attr) != dnnl_success) return dnnl_out_of_memory;
  s = dnnl_post_ops_create(&ops);
  if (s == dnnl_success) {
    if (p->epilogue.act.fn == RDT_FN_RELU) s = dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attr, ops);
    if (s == dnnl_success) s = dnnl_primitive_desc_create(pd, &desc, attr, engine, NULL);
    dnnl_post_ops_destroy(ops);
  }
  dnnl_primitive_attr_destroy(attr);
  return s;
}

static dnnl_status_t make_operand(rdt_blocked_conv *c, const_dnnl_primitive_desc_t pd, int which, const rdt_tensor *t,
                                  int64_t groups) {
  static const dnnl_query_t query[OPERANDS] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
  const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, query[which], 0);
  dnnl_status_t s = dnnl_memory_create(&c->memory[which], md, c->engine, DNNL_MEMORY_ALLOCATE);
  if (s != dnnl_success || which == DST) return s;
  dnnl_memory_desc_t plain;
  dnnl_dims_t dims, strides;
  const int n = dims_of(t, groups, which == WEIGHTS, dims, strides);
  s = dnnl_memory_desc_init_by_strides(&plain, n, dims, dnnl_f32, strides);
  if (s != dnnl_success) return s;
  dnnl_primitive_desc_t reorder_pd;
  dnnl_primitive_t reorder;
  dnnl_memory_t from;
  s = dnnl_memory_create(&from, &plain, c->engine, t->data);
  if (s != dnnl_success) return s;
  s = dnnl_reorder_primitive_desc_create(&reorder_pd, &plain, c->engine, md, c->engine, NULL);
  if (s == dnnl_success) {
    s = dnnl_primitive_create(&reorder, reorder_pd);
    dnnl_primitive_desc_destroy(reorder_pd);
  }
  if (s == dnnl_success) {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, c->memory[which]}};
    s = dnnl_primitive_execute(reorder, c->stream, 2, args);
    dnnl_stream_wait(c->stream);
    dnnl_primitive_destroy(reorder);
  }
  dnnl_memory_destroy(from);
  return s;
}

static dnnl_status_t make(rdt_blocked_conv *c, const rdt_problem *p) {
  dnnl_primitive_desc_t pd;
  dnnl_status_t s = dnnl_engine_create(&c->engine, dnnl_cpu, 0);
  if (s == dnnl_success) s = dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags);
  if (s == dnnl_success) s = describe(p, c->engine, &pd);
  if (s != dnnl_success) return s;
  const rdt_tensor *views[OPERANDS] = {&p->in[0], &p->in[1], &p->out};
  for (int i = 0; s == dnnl_success && i < OPERANDS; i++) s = make_operand(c, pd, i, views[i], p->window.groups);
  if (s == dnnl_success && p->epilogue.bias.rank >= 0) {
    dnnl_memory_desc_t bias;
    const dnnl_dims_t channels = {p->out.shape[1]};
    s = dnnl_memory_desc_init_by_tag(&bias, 1, channels, dnnl_f32, dnnl_a);
    if (s == dnnl_success) s = dnnl_memory_create(&c->bias, &bias, c->engine, p->epilogue.bias.data);
  }
  if (s == dnnl_success) s = dnnl_primitive_create(&c->primitive, pd);
  dnnl_primitive_desc_destroy(pd);
  return s;
}

rdt_blocked_conv *rdt_blocked_conv_create(const rdt_problem *p) {
  if (p->in[0].dtype != RDT_F32 || p->out.dtype != RDT_F32) return NULL;
  rdt_blocked_conv *c = rdt_calloc(1, sizeof *c);
  if (!c || make(c, p) == dnnl_success) return c;
  rdt_blocked_conv_destroy(c);
  return NULL;
}

int rdt_blocked_conv_run(rdt_blocked_conv *c) {
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, c->memory[SRC]},
                                  {DNNL_ARG_WEIGHTS, c->memory[WEIGHTS]},
                                  {DNNL_ARG_DST, c->memory[DST]},
                                  {DNNL_ARG_BIAS, c->bias}};
  const dnnl_status_t s = dnnl_primitive_execute(c->primitive, c->stream, c->bias ? 4 : 3, args);
  return s != dnnl_success ? (int)s : (int)dnnl_stream_wait(c->stream);
}
