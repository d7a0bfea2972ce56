#include "dnnl_op.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>

#include "core/memory.h"
#include "cpu/onednn/onednn.h"

enum { SRC, WEIGHTS, DST, OPERANDS };

struct rdt_dnnl_op {
  const rdt_problem *problems;
  int copies;
  bool plain;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t primitive;
  dnnl_memory_t src, dst, bias;
  dnnl_memory_t *weights; /* one for each copy */
};

static void drop(dnnl_memory_t m) {
  if (m) dnnl_memory_destroy(m);
}

void rdt_dnnl_op_destroy(void *op) {
  rdt_dnnl_op *x = op;
  if (!x) return;
  drop(x->src);
  drop(x->dst);
  drop(x->bias);
  for (int i = 0; x->weights && i < x->copies; i++) drop(x->weights[i]);
  rdt_free(x->weights);
  if (x->primitive) dnnl_primitive_destroy(x->primitive);
  if (x->stream) dnnl_stream_destroy(x->stream);
  if (x->engine) dnnl_engine_destroy(x->engine);
  rdt_free(x);
}

/* A view as it lies; weights of a grouped convolution get the group in front. */
static dnnl_status_t lies(const rdt_problem *p, int which, dnnl_memory_desc_t *md) {
  const rdt_tensor *t = which == DST ? &p->out : &p->in[which];
  const int64_t groups = which == WEIGHTS && p->op == RDT_KOP_CONV ? p->window.groups : 1;
  dnnl_dims_t dims, strides;
  int n = 0;
  if (groups > 1) {
    strides[n] = t->stride[0] * (t->shape[0] / groups);
    dims[n++] = groups;
  }
  for (int d = 0; d < t->rank; d++) {
    strides[n] = t->stride[d];
    dims[n++] = d == 0 ? t->shape[0] / groups : t->shape[d];
  }
  return dnnl_memory_desc_init_by_strides(md, n, dims, rdt_onednn_type(t->dtype), strides);
}

static dnnl_status_t chosen(const rdt_problem *p, int which, dnnl_memory_desc_t *md) {
  dnnl_memory_desc_t plain;
  const dnnl_status_t s = lies(p, which, &plain);
  if (s != dnnl_success) return s;
  return dnnl_memory_desc_init_by_tag(md, plain.ndims, plain.dims, plain.data_type, dnnl_format_tag_any);
}

/* Bias of a convolution is [oc], of a product [1 n]. */
static dnnl_status_t bias_of(const rdt_problem *p, dnnl_memory_desc_t *md) {
  const int64_t n = p->epilogue.bias.shape[0];
  const bool conv = p->op == RDT_KOP_CONV;
  const dnnl_dims_t line = {n}, row = {1, n};
  return dnnl_memory_desc_init_by_tag(md, conv ? 1 : 2, conv ? line : row, rdt_onednn_type(p->epilogue.bias.dtype),
                                      conv ? dnnl_a : dnnl_ab);
}

static dnnl_status_t with_relu(dnnl_primitive_attr_t attr) {
  dnnl_post_ops_t ops;
  dnnl_status_t s = dnnl_post_ops_create(&ops);
  if (s != dnnl_success) return s;
  s = dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
  if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attr, ops);
  dnnl_post_ops_destroy(ops);
  return s;
}

static dnnl_status_t describe(const rdt_dnnl_op *x, const rdt_problem *p, dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t *pd) {
  const rdt_window *w = &p->window;
  const dnnl_dims_t stride = {w->stride[0], w->stride[1]}, dilation = {w->dilation[0] - 1, w->dilation[1] - 1};
  const dnnl_dims_t before = {w->before[0], w->before[1]}, after = {w->after[0], w->after[1]};
  dnnl_memory_desc_t md[OPERANDS], bias;
  dnnl_convolution_desc_t conv;
  dnnl_matmul_desc_t matmul;
  dnnl_status_t s = dnnl_success;
  for (int i = 0; s == dnnl_success && i < OPERANDS; i++)
    s = x->plain && i != WEIGHTS ? lies(p, i, &md[i]) : chosen(p, i, &md[i]);
  const bool has_bias = p->epilogue.bias.rank >= 0;
  if (s == dnnl_success && has_bias) s = bias_of(p, &bias);
  if (s == dnnl_success && p->epilogue.act.fn == RDT_FN_RELU) s = with_relu(attr);
  if (s != dnnl_success) return s;
  const dnnl_memory_desc_t *b = has_bias ? &bias : NULL;
  if (p->op == RDT_KOP_GEMM)
    s = dnnl_matmul_desc_init(&matmul, &md[SRC], &md[WEIGHTS], b, &md[DST]);
  else
    s = dnnl_dilated_convolution_forward_desc_init(&conv, dnnl_forward_inference, dnnl_convolution_direct, &md[SRC],
                                                   &md[WEIGHTS], b, &md[DST], stride, dilation, before, after);
  if (s != dnnl_success) return s;
  const const_dnnl_op_desc_t desc = p->op == RDT_KOP_GEMM ? (const_dnnl_op_desc_t)&matmul : (const_dnnl_op_desc_t)&conv;
  return dnnl_primitive_desc_create(pd, desc, attr, x->engine, NULL);
}

/* Between memory of its own and the caller's, as that lies. */
static dnnl_status_t move(const rdt_dnnl_op *x, dnnl_memory_t own, const rdt_problem *p, int which, bool out) {
  dnnl_memory_desc_t plain;
  const dnnl_memory_desc_t *md;
  dnnl_memory_t user;
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t reorder;
  dnnl_status_t s = lies(p, which, &plain);
  if (s == dnnl_success) s = dnnl_memory_get_memory_desc(own, &md);
  if (s != dnnl_success) return s;
  s = dnnl_memory_create(&user, &plain, x->engine, which == DST ? p->out.data : p->in[which].data);
  if (s != dnnl_success) return s;
  s = dnnl_reorder_primitive_desc_create(&pd, out ? md : &plain, x->engine, out ? &plain : md, x->engine, NULL);
  if (s == dnnl_success) {
    s = dnnl_primitive_create(&reorder, pd);
    dnnl_primitive_desc_destroy(pd);
  }
  if (s == dnnl_success) {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, out ? own : user}, {DNNL_ARG_TO, out ? user : own}};
    s = dnnl_primitive_execute(reorder, x->stream, 2, args);
    if (s == dnnl_success) s = dnnl_stream_wait(x->stream);
    dnnl_primitive_destroy(reorder);
  }
  dnnl_memory_destroy(user);
  return s;
}

static dnnl_status_t fill(rdt_dnnl_op *x, const_dnnl_primitive_desc_t pd) {
  const dnnl_memory_desc_t *src = dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0);
  const dnnl_memory_desc_t *dst = dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
  const dnnl_memory_desc_t *weights = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
  const rdt_problem *p = x->problems;
  dnnl_memory_desc_t bias;
  dnnl_status_t s = dnnl_memory_create(&x->src, src, x->engine, x->plain ? p->in[0].data : DNNL_MEMORY_ALLOCATE);
  if (s == dnnl_success) s = dnnl_memory_create(&x->dst, dst, x->engine, x->plain ? p->out.data : DNNL_MEMORY_ALLOCATE);
  if (s == dnnl_success && !x->plain) s = move(x, x->src, p, SRC, false);
  for (int i = 0; s == dnnl_success && i < x->copies; i++) {
    s = dnnl_memory_create(&x->weights[i], weights, x->engine, DNNL_MEMORY_ALLOCATE);
    if (s == dnnl_success) s = move(x, x->weights[i], &p[i], WEIGHTS, false);
  }
  if (s != dnnl_success || p->epilogue.bias.rank < 0) return s;
  s = bias_of(p, &bias);
  return s == dnnl_success ? dnnl_memory_create(&x->bias, &bias, x->engine, p->epilogue.bias.data) : s;
}

static dnnl_status_t make(rdt_dnnl_op *x) {
  dnnl_primitive_desc_t pd;
  dnnl_primitive_attr_t attr;
  dnnl_status_t s = dnnl_engine_create(&x->engine, dnnl_cpu, 0);
  if (s == dnnl_success) s = dnnl_stream_create(&x->stream, x->engine, dnnl_stream_default_flags);
  if (s == dnnl_success) s = dnnl_primitive_attr_create(&attr);
  if (s != dnnl_success) return s;
  s = describe(x, x->problems, attr, &pd);
  dnnl_primitive_attr_destroy(attr);
  if (s != dnnl_success) return s;
  s = fill(x, pd);
  if (s == dnnl_success) s = dnnl_primitive_create(&x->primitive, pd);
  dnnl_primitive_desc_destroy(pd);
  return s;
}

rdt_dnnl_op *rdt_dnnl_op_create(const rdt_problem *problems, int copies, bool plain) {
  rdt_dnnl_op *x = rdt_calloc(1, sizeof *x);
  if (!x) return NULL;
  *x = (rdt_dnnl_op){.problems = problems, .copies = copies, .plain = plain};
  x->weights = rdt_calloc((size_t)copies, sizeof *x->weights);
  if (x->weights && make(x) == dnnl_success) return x;
  rdt_dnnl_op_destroy(x);
  return NULL;
}

int rdt_dnnl_op_run(void *op, const rdt_problem *p) {
  const rdt_dnnl_op *x = op;
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, x->src},
                                  {DNNL_ARG_WEIGHTS, x->weights[p - x->problems]},
                                  {DNNL_ARG_DST, x->dst},
                                  {DNNL_ARG_BIAS, x->bias}};
  const dnnl_status_t s = dnnl_primitive_execute(x->primitive, x->stream, x->bias ? 4 : 3, args);
  return s != dnnl_success ? (int)s : (int)dnnl_stream_wait(x->stream);
}

int rdt_dnnl_op_fetch(void *op, const rdt_problem *p) {
  const rdt_dnnl_op *x = op;
  return x->plain ? 0 : (int)move(x, x->dst, p, DST, true);
}

void rdt_dnnl_about(char *version, size_t version_size, char *isa, size_t isa_size) {
  static const struct {
    int isa;
    const char *name;
  } names[] = {{dnnl_cpu_isa_sse41, "sse41"},
               {dnnl_cpu_isa_avx, "avx"},
               {dnnl_cpu_isa_avx2, "avx2"},
               {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
               {dnnl_cpu_isa_avx512_core, "avx512_core"},
               {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
               {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
               {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"}};
  const dnnl_version_t *v = dnnl_version();
  const int found = dnnl_get_effective_cpu_isa();
  snprintf(version, version_size, "%d.%d.%d", v->major, v->minor, v->patch);
  *isa = '\0';
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].isa == found) snprintf(isa, isa_size, "%s", names[i].name);
}
