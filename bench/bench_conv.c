#include "bench_conv.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "plan/workloads.h"

typedef struct job {
  const rdt_bench_ask *ask;
  const rdt_bench_images *images;
} job;

rdt_status rdt_bench_take_images(const char *workload, int64_t n, rdt_bench_images *images, rdt_reason *why) {
  const rdt_workload *w;
  int64_t batch;
  bool some = false;
  RDT_TRY(rdt_workload_find(workload, &w, &batch, why));
  for (int i = 0; i < w->count; i++) {
    const rdt_layer *x = &w->layers[i];
    if (x->op != RDT_KOP_CONV) continue;
    some = true;
    if (images->count == RDT_BENCH_CASES)
      return rdt_fail(why, RDT_ERR_ARG, "more than %d convolutions: take fewer numbers of images", RDT_BENCH_CASES);
    rdt_bench_image *to = &images->at[images->count++];
    *to = (rdt_bench_image){.n = n ? n : batch,
                            .ic = x->ic,
                            .oc = x->oc,
                            .ih = x->ih,
                            .iw = x->iw,
                            .kh = x->kernel,
                            .kw = x->kernel,
                            .stride = x->stride,
                            .pad = x->pad,
                            .dilation = 1,
                            .groups = x->groups,
                            .times = x->times};
    snprintf(to->layer, sizeof to->layer, "%s", x->name);
  }
  return some ? RDT_OK
              : rdt_fail(why, RDT_ERR_ARG, "workload %s has no convolutions: see `redoubt bench gemm --set %s`",
                         w->name, w->name);
}

static int64_t length(const rdt_bench_image *c, int64_t in, int64_t kernel) {
  return (in + 2 * c->pad - (kernel - 1) * c->dilation - 1) / c->stride + 1;
}

static rdt_status fill(void *user, int i, rdt_problem *p, uint64_t *seed, rdt_reason *why) {
  const job *j = user;
  const rdt_bench_image *c = &j->images->at[i];
  const rdt_dtype t = j->ask->dtype;
  const char *epilogue = j->ask->epilogue;
  p->acc = rdt_dtype_accumulator(t);
  p->window = (rdt_window){.kernel = {c->kh, c->kw},
                           .stride = {c->stride, c->stride},
                           .dilation = {c->dilation, c->dilation},
                           .before = {c->pad, c->pad},
                           .after = {c->pad, c->pad},
                           .groups = c->groups};
  p->in[0] = rdt_tensor_channels_last(NULL, t, 4, (int64_t[]){c->n, c->ic, c->ih, c->iw});
  p->in[1] = rdt_tensor_dense(NULL, t == RDT_U8 ? RDT_S8 : t, 4, (int64_t[]){c->oc, c->ic / c->groups, c->kh, c->kw});
  p->out = rdt_tensor_channels_last(NULL, p->acc, 4,
                                    (int64_t[]){c->n, c->oc, length(c, c->ih, c->kh), length(c, c->iw, c->kw)});
  if (strcmp(epilogue, "none") != 0) p->epilogue.bias = rdt_tensor_dense(NULL, p->acc, 1, &c->oc);
  if (strcmp(epilogue, "bias+relu") == 0) p->epilogue.act.fn = RDT_FN_RELU;
  RDT_TRY(rdt_problem_check(p, why));
  const bool ok = rdt_bench_random(&p->in[0], seed) && rdt_bench_random_weights(&p->in[1], seed) &&
                  rdt_bench_random(&p->out, seed) &&
                  (p->epilogue.bias.rank < 0 || rdt_bench_random(&p->epilogue.bias, seed));
  return ok ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

void rdt_bench_gather_conv(rdt_baselines *b, rdt_field *f) {
  rdt_bench_add_dnnl(f, b, "oneDNN blocked", false);
  rdt_bench_add_dnnl(f, b, "oneDNN NHWC", true);
}

static void gather(void *user, rdt_field *f) {
  const job *j = user;
  rdt_baselines *b = j->ask->baselines;
  rdt_bench_gather_conv(b, f);
  for (int i = 0; i < b->count; i++)
    if (b->list[i].row) rdt_baseline_refuse(f->command, &b->list[i], "it has no convolutions");
}

static void shape_of(const rdt_bench_image *c, char *text, size_t size) {
  snprintf(text, size, "%lld x %lld, %lld to %lld, %lld x %lld s%lld p%lld g%lld", (long long)c->ih, (long long)c->iw,
           (long long)c->ic, (long long)c->oc, (long long)c->kh, (long long)c->kw, (long long)c->stride,
           (long long)c->pad, (long long)c->groups);
}

static void cells(const void *user, int i, rdt_bench_out *t) {
  const job *j = user;
  const rdt_bench_image *c = &j->images->at[i];
  char shape[128];
  shape_of(c, shape, sizeof shape);
  rdt_bench_text(t, c->layer);
  rdt_bench_integer(t, c->n);
  rdt_bench_text(t, shape);
  rdt_bench_integer(t, c->times);
  rdt_bench_text(t, rdt_dtype_name(j->ask->dtype));
  rdt_bench_text(t, j->ask->epilogue);
}

static const char *const columns[] = {"layer", "n", "shape", "times", "dtype", "epilogue", RDT_BENCH_COLUMNS};

static rdt_bench_case case_of(const rdt_bench_image *c, rdt_dtype t) {
  const double in = (double)c->n * (double)c->ic * (double)c->ih * (double)c->iw;
  const double out = (double)c->n * (double)c->oc * (double)length(c, c->ih, c->kh) * (double)length(c, c->iw, c->kw);
  const double weights = (double)c->oc * (double)c->ic / (double)c->groups * (double)c->kh * (double)c->kw;
  const double size = (double)rdt_dtype_size(t);
  char shape[80];
  rdt_bench_case x = {.op = RDT_KOP_CONV,
                      .times = c->times,
                      .group = c->n,
                      .flops = 2.0 * out * weights / (double)c->oc,
                      .data = in * size + out * (double)rdt_dtype_size(rdt_dtype_accumulator(t)),
                      .weights = weights * size};
  shape_of(c, shape, sizeof shape);
  snprintf(x.name, sizeof x.name, "n %d, %s", (int)c->n, shape);
  return x;
}

int rdt_bench_conv(const rdt_bench_ask *ask, const rdt_bench_images *images) {
  job j = {ask, images};
  rdt_bench_case *cases = rdt_calloc((size_t)images->count, sizeof *cases);
  for (int i = 0; cases && i < images->count; i++) cases[i] = case_of(&images->at[i], ask->dtype);
  const rdt_bench_ops o = {.ask = ask,
                           .name = "conv",
                           .version = 2,
                           .cases = cases,
                           .count = cases ? images->count : 0,
                           .columns = columns,
                           .n_columns = sizeof columns / sizeof *columns,
                           .group = "n",
                           .user = &j,
                           .fill = fill,
                           .gather = gather,
                           .cells = cells};
  const int code = rdt_bench_ops_run(&o);
  rdt_free(cases);
  return code;
}
