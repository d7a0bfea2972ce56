#include "util_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/tensor.h"

void util_told_note(const rdt_event *e, void *told) {
  util_told *t = told;
  t->last = *e;
  if (e->kind == RDT_EVENT_FAULT) t->fault = *e;
  t->faults += e->kind == RDT_EVENT_FAULT;
  t->fallbacks += e->kind == RDT_EVENT_FALLBACK;
  snprintf(t->text, sizeof t->text, "%s", e->text);
  snprintf(t->scheme, sizeof t->scheme, "%s", e->scheme ? e->scheme : "");
  t->rungs[0] = '\0';
  for (int i = 0; i < e->n_rungs; i++) {
    const size_t used = strlen(t->rungs);
    snprintf(t->rungs + used, sizeof t->rungs - used, "%s%s:%s", i ? " " : "", e->rungs[i].name, e->rungs[i].outcome);
  }
}

static void fill(const rdt_tensor *t, uint64_t seed) {
  for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    ((float *)t->data)[i] = (float)((double)(seed >> 40) * 0x1p-24 - 0.5);
  }
}

static rdt_tensor matrix(int64_t rows, int64_t cols, uint64_t seed) {
  rdt_tensor t = rdt_tensor_matrix(rdt_alloc((size_t)(rows * cols), sizeof(float)), RDT_F32, rows, cols, cols, 0);
  assert_non_null(t.data);
  fill(&t, seed);
  return t;
}

void util_bench_open(util_bench *w, const rdt_policy *policy, int threads) {
  memset(w, 0, sizeof *w);
  assert_int_equal(rdt_context_create(&w->ctx, threads), RDT_OK);
  if (rdt_context_set_policy(w->ctx, policy) != RDT_OK) fail_msg("%s", rdt_context_error(w->ctx));
  rdt_context_on_event(w->ctx, util_told_note, &w->told);
  w->a = matrix(UTIL_BENCH_M, UTIL_BENCH_K, 1);
  w->b = matrix(UTIL_BENCH_K, UTIL_BENCH_N, 2);
  w->c = matrix(UTIL_BENCH_M, UTIL_BENCH_N, 3);
  if (rdt_plan_gemm(w->ctx, &w->a, &w->b, &w->c, &w->plan) != RDT_OK) fail_msg("%s", rdt_context_error(w->ctx));
}

void util_bench_renew(util_bench *w, uint64_t seed) {
  fill(&w->a, seed);
}

void util_bench_execute(util_bench *w) {
  if (rdt_plan_execute(w->plan, &w->a, &w->c, &w->r) != RDT_OK) fail_msg("%s", rdt_context_error(w->ctx));
}

void util_bench_close(util_bench *w) {
  rdt_plan_destroy(w->plan);
  rdt_context_destroy(w->ctx);
  rdt_free(w->a.data), rdt_free(w->b.data), rdt_free(w->c.data), rdt_free(w->clean);
}
