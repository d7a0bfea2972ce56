#include "plan/workloads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const rdt_layer all[] = {
#define WORKLOAD(...)
#define CONV(called, in, high, wide, out, side, step, border, parts, often) \
  {.name = called,                                                          \
   .op = RDT_KOP_CONV,                                                      \
   .ic = in,                                                                \
   .ih = high,                                                              \
   .iw = wide,                                                              \
   .oc = out,                                                               \
   .kernel = side,                                                          \
   .stride = step,                                                          \
   .pad = border,                                                           \
   .groups = parts,                                                         \
   .times = often},
#define GEMM(called, rows, columns, depth, often) \
  {.name = called, .op = RDT_KOP_GEMM, .m = rows, .n = columns, .k = depth, .groups = 1, .times = often},
#include "plan/workloads.def"
#undef WORKLOAD
#undef CONV
#undef GEMM
};

static const rdt_workload table[] = {
#define WORKLOAD(called, of, first, layers_, what, ...) \
  {.name = called,                                      \
   .group = of,                                         \
   .text = what,                                        \
   .layers = all + first,                               \
   .count = layers_,                                    \
   .batch = {__VA_ARGS__},                              \
   .batches = sizeof((int[]){__VA_ARGS__}) / sizeof(int)},
#define CONV(...)
#define GEMM(...)
#include "plan/workloads.def"
#undef WORKLOAD
#undef CONV
#undef GEMM
};

const rdt_workload *rdt_workload_table(int *n) {
  *n = sizeof table / sizeof *table;
  return table;
}

rdt_status rdt_workload_find(const char *text, const rdt_workload **w, int64_t *batch, rdt_reason *why) {
  enum { MOST = 1 << 16 };
  const size_t length = strcspn(text, ":");
  int n;
  const rdt_workload *at = rdt_workload_table(&n), *end = at + n;
  while (at < end && (strlen(at->name) != length || strncmp(at->name, text, length) != 0)) at++;
  if (at == end)
    return rdt_fail(why, RDT_ERR_NAME, "there is no workload '%.60s': `redoubt list workloads` has their names", text);
  *w = at;
  *batch = at->batch[0];
  if (text[length] == '\0') return RDT_OK;
  char *rest;
  const bool digit = text[length + 1] >= '0' && text[length + 1] <= '9'; /* not what strtoll passes over */
  *batch = strtoll(text + length + 1, &rest, 10);
  if (!digit || *rest != '\0' || *batch < 1 || *batch > MOST)
    return rdt_fail(why, RDT_ERR_ARG, "workload '%.60s': a batch goes from 1 to %d, as in %s:8", text, MOST, at->name);
  return RDT_OK;
}

void rdt_workload_name(const rdt_workload *w, int64_t batch, char *text, size_t size) {
  if (batch == w->batch[0])
    snprintf(text, size, "%s", w->name);
  else
    snprintf(text, size, "%s:%lld", w->name, (long long)batch);
}

void rdt_layer_output(const rdt_layer *l, int64_t *oh, int64_t *ow) {
  *oh = (l->ih + 2 * l->pad - l->kernel) / l->stride + 1;
  *ow = (l->iw + 2 * l->pad - l->kernel) / l->stride + 1;
}

void rdt_layer_mnk(const rdt_layer *l, int64_t batch, int64_t *m, int64_t *n, int64_t *k) {
  int64_t oh, ow;
  *m = batch * l->m;
  *n = l->n;
  *k = l->k;
  if (l->op == RDT_KOP_GEMM) return;
  rdt_layer_output(l, &oh, &ow);
  *m = batch * oh * ow;
  *n = l->oc / l->groups;
  *k = l->ic / l->groups * l->kernel * l->kernel;
}

void rdt_layer_text(const rdt_layer *l, int64_t batch, char *text, size_t size) {
  if (l->op == RDT_KOP_CONV)
    snprintf(text, size, "%lld x %lld, %lld to %lld, %lld x %lld s%lld p%lld g%lld", (long long)l->ih, (long long)l->iw,
             (long long)l->ic, (long long)l->oc, (long long)l->kernel, (long long)l->kernel, (long long)l->stride,
             (long long)l->pad, (long long)l->groups);
  else
    snprintf(text, size, "%lld x %lld x %lld", (long long)(batch * l->m), (long long)l->n, (long long)l->k);
}

rdt_status rdt_layer_problem(const rdt_layer *l, int64_t batch, rdt_dtype dtype, rdt_problem *p, rdt_reason *why) {
  const rdt_dtype weights = dtype == RDT_U8 ? RDT_S8 : dtype;
  int64_t oh, ow;
  if (rdt_problem_init(p, l->op, 2) != RDT_OK) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  p->acc = rdt_dtype_accumulator(dtype);
  if (l->op == RDT_KOP_GEMM) {
    p->in[0] = rdt_tensor_matrix(NULL, dtype, batch * l->m, l->k, l->k, 0);
    p->in[1] = rdt_tensor_matrix(NULL, weights, l->k, l->n, l->n, 0);
    p->out = rdt_tensor_matrix(NULL, p->acc, batch * l->m, l->n, l->n, 0);
  } else {
    rdt_layer_output(l, &oh, &ow);
    p->window = (rdt_window){.kernel = {l->kernel, l->kernel},
                             .stride = {l->stride, l->stride},
                             .dilation = {1, 1},
                             .before = {l->pad, l->pad},
                             .after = {l->pad, l->pad},
                             .groups = l->groups};
    p->in[0] = rdt_tensor_channels_last(NULL, dtype, 4, (int64_t[]){batch, l->ic, l->ih, l->iw});
    p->in[1] = rdt_tensor_dense(NULL, weights, 4, (int64_t[]){l->oc, l->ic / l->groups, l->kernel, l->kernel});
    p->out = rdt_tensor_channels_last(NULL, p->acc, 4, (int64_t[]){batch, l->oc, oh, ow});
  }
  const rdt_status status = rdt_problem_check(p, why);
  if (status != RDT_OK) rdt_problem_clear(p);
  return status;
}

rdt_work rdt_layer_work(const rdt_layer *l, int64_t batch, rdt_dtype dtype, int64_t pad) {
  int64_t m, n, k;
  rdt_layer_mnk(l, batch, &m, &n, &k);
  return rdt_work_of_mnk(m, n, k, l->groups, dtype, pad);
}

rdt_work rdt_workload_work(const rdt_workload *w, int64_t batch, rdt_dtype dtype, int64_t pad) {
  rdt_work sum = {0};
  for (int i = 0; i < w->count; i++)
    sum = rdt_work_sum(sum, rdt_layer_work(&w->layers[i], batch, dtype, pad), (double)w->layers[i].times);
  return sum;
}
