#include "bench_gemm.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"

typedef struct job {
  const rdt_bench_ask *ask;
  const rdt_bench_shapes *shapes;
} job;

/* C = act(A B + bias) */
static rdt_status fill(void *user, int i, rdt_problem *p, uint64_t *seed, rdt_reason *why) {
  const job *j = user;
  const rdt_bench_shape *s = &j->shapes->at[i];
  const rdt_dtype t = j->ask->dtype;
  const char *epilogue = j->ask->epilogue;
  p->acc = rdt_dtype_accumulator(t);
  p->in[0] = rdt_tensor_matrix(NULL, t, s->m, s->k, s->k, 0);
  p->in[1] = rdt_tensor_matrix(NULL, t == RDT_U8 ? RDT_S8 : t, s->k, s->n, s->n, 0);
  p->out = rdt_tensor_matrix(NULL, p->acc, s->m, s->n, s->n, 0);
  if (strcmp(epilogue, "none") != 0) {
    if (p->acc != RDT_F32)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "--epilogue %s: only f32, bf16 and f16 products take one", epilogue);
    p->epilogue.bias = rdt_tensor_dense(NULL, RDT_F32, 1, &s->n);
    if (!rdt_bench_random(&p->epilogue.bias, seed)) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  }
  if (strcmp(epilogue, "bias+relu") == 0) p->epilogue.act.fn = RDT_FN_RELU;
  const bool ok =
      rdt_bench_random(&p->in[0], seed) && rdt_bench_random_weights(&p->in[1], seed) && rdt_bench_random(&p->out, seed);
  return ok ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

void rdt_bench_gather_gemm(rdt_baselines *b, rdt_field *f) {
  static const rdt_foreign cblas = {.run = rdt_baseline_run};
  rdt_baseline *dnnl = rdt_baselines_find(b, "onednn");
  rdt_bench_add_dnnl(f, b, "oneDNN", true);
  /* Up to AVX2 its convolution multiplies faster than its product. */
  if (rdt_isa_detect() < RDT_ISA_AVX512) rdt_field_add_kernel(f, dnnl, "oneDNN packed", true);
  for (int i = 0; i < b->count; i++) {
    rdt_baseline *x = &b->list[i];
    if (!x->row) continue;
    const char *refusal = rdt_baseline_refuses(x, f->problems);
    if (refusal) rdt_baseline_refuse(f->command, x, refusal);
    if (refusal) continue;
    rdt_baseline_threads(x, f->threads);
    rdt_field_add_foreign(f, x, x->name, "cblas", &cblas, x);
  }
}

static void gather(void *user, rdt_field *f) {
  const job *j = user;
  rdt_bench_gather_gemm(j->ask->baselines, f);
}

static void cells(const void *user, int i, rdt_bench_out *t) {
  const job *j = user;
  const rdt_bench_shape *s = &j->shapes->at[i];
  rdt_bench_text(t, s->layer);
  rdt_bench_integer(t, s->m);
  rdt_bench_integer(t, s->n);
  rdt_bench_integer(t, s->k);
  rdt_bench_integer(t, s->times);
  rdt_bench_text(t, rdt_dtype_name(j->ask->dtype));
  rdt_bench_text(t, j->ask->epilogue);
  rdt_bench_text(t, j->ask->cold ? "cold" : "warm");
}

static const char *const columns[] = {"layer",          "m", "n", "k", "times", "dtype", "epilogue", "weights",
                                      RDT_BENCH_COLUMNS};

int rdt_bench_gemm(const rdt_bench_ask *ask, const rdt_bench_shapes *shapes) {
  job j = {ask, shapes};
  rdt_bench_case *cases = rdt_calloc((size_t)shapes->count, sizeof *cases);
  const double size = (double)rdt_dtype_size(ask->dtype),
               out = (double)rdt_dtype_size(rdt_dtype_accumulator(ask->dtype));
  for (int i = 0; cases && i < shapes->count; i++) {
    const rdt_bench_shape *s = &shapes->at[i];
    const double m = (double)s->m, n = (double)s->n, k = (double)s->k;
    cases[i] = (rdt_bench_case){.op = RDT_KOP_GEMM,
                                .times = s->times,
                                .flops = 2.0 * m * n * k,
                                .data = m * k * size + m * n * out,
                                .weights = k * n * size};
    snprintf(cases[i].name, sizeof cases[i].name, "%lld x %lld x %lld", (long long)s->m, (long long)s->n,
             (long long)s->k);
  }
  const rdt_bench_ops o = {.ask = ask,
                           .name = "gemm",
                           .version = 2,
                           .cases = cases,
                           .count = cases ? shapes->count : 0,
                           .columns = columns,
                           .n_columns = sizeof columns / sizeof *columns,
                           .user = &j,
                           .fill = fill,
                           .gather = gather,
                           .cells = cells};
  const int code = rdt_bench_ops_run(&o);
  rdt_free(cases);
  return code;
}
