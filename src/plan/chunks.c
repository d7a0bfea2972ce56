#include "plan/chunks.h"

#include <stdio.h>

#include "core/memory.h"

struct rdt_chunks {
  rdt_context *ctx;
  int n;
  int64_t *from; /* of share i on, n + 1 of them */
  rdt_plan **plan;
  rdt_epilogue *epilogue; /* of share i: what was voted before it */
  void *voted[2];         /* in turn */
};

/* Columns of a matrix, rows of another one: from step k on. */
static rdt_tensor part(const rdt_tensor *t, int axis, int64_t from, int64_t to) {
  rdt_tensor view = *t;
  view.shape[axis] = to - from;
  if (t->data) view.data = (char *)t->data + from * t->stride[axis] * (int64_t)rdt_dtype_size(t->dtype);
  return view;
}

static rdt_status plan_share(rdt_chunks *c, const rdt_problem *prob, const char *scheme, int i, rdt_reason *why) {
  char name[32];
  rdt_tensor in[2] = {part(&prob->in[0], 1, c->from[i], c->from[i + 1]),
                      part(&prob->in[1], 0, c->from[i], c->from[i + 1])};
  rdt_problem one = *prob;
  one.in = in;
  in[0].data = NULL;
  if (i > 0) one.epilogue.beta = 1.0, one.epilogue.residual = prob->out, one.epilogue.residual.data = NULL;
  c->epilogue[i] = one.epilogue;
  snprintf(name, sizeof name, "share %d of %d", i + 1, c->n);
  const rdt_status status = rdt_plan_create_as(c->ctx, scheme, &one, name, "gemm", NULL, &c->plan[i]);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "%s", rdt_context_error(c->ctx));
}

rdt_status rdt_chunks_create(rdt_context *ctx, const rdt_problem *prob, const char *scheme, int checkpoints,
                             rdt_chunks **out, rdt_reason *why) {
  const int64_t depth = prob->in[0].shape[1];
  const size_t n = (size_t)checkpoints + 1;
  *out = NULL;
  if (checkpoints < 0 || (int64_t)n > depth)
    return rdt_fail(why, RDT_ERR_ARG, "%d checkpoints: a product with k = %lld has room for 0 to %lld", checkpoints,
                    (long long)depth, (long long)depth - 1);
  rdt_chunks *c = rdt_calloc(1, sizeof *c);
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  *c = (rdt_chunks){.ctx = ctx,
                    .n = (int)n,
                    .from = rdt_calloc(n + 1, sizeof *c->from),
                    .plan = rdt_calloc(n, sizeof *c->plan),
                    .epilogue = rdt_calloc(n, sizeof *c->epilogue)};
  for (int i = 0; i < 2; i++) c->voted[i] = rdt_alloc(rdt_tensor_bytes(&prob->out), 1);
  const bool room = c->from && c->plan && c->epilogue && c->voted[0] && c->voted[1];
  rdt_status status = room ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int i = 0; room && i <= c->n; i++) c->from[i] = depth * i / c->n;
  for (int i = 0; i < c->n && status == RDT_OK; i++) status = plan_share(c, prob, scheme, i, why);
  if (status == RDT_OK)
    *out = c;
  else
    rdt_chunks_destroy(c);
  return status;
}

static void add(rdt_result *sum, const rdt_result *r) {
  if (!sum) return;
  if (r->verdict > sum->verdict) sum->verdict = r->verdict;
  if (r->diagnosis != RDT_DIAG_NONE) sum->diagnosis = r->diagnosis;
  sum->checks += r->checks;
  sum->faults += r->faults;
  sum->suspects += r->suspects;
  sum->unchecked += r->unchecked;
  sum->seconds += r->seconds;
  sum->seconds_check += r->seconds_check;
}

rdt_status rdt_chunks_run(rdt_chunks *c, const rdt_tensor *a, const rdt_tensor *out, rdt_result *result,
                          rdt_reason *why) {
  rdt_status status = RDT_OK;
  if (result) *result = (rdt_result){.place = {-1, -1}};
  for (int i = 0; i < c->n && status == RDT_OK; i++) {
    rdt_result r;
    rdt_plan *p = c->plan[i];
    const rdt_tensor in[2] = {part(a, 1, c->from[i], c->from[i + 1]), p->prob.in[1]};
    rdt_operands o = {.in = in, .n_in = 2, .out = *out, .epilogue = &c->epilogue[i]};
    if (i > 0) c->epilogue[i].residual.data = c->voted[(i - 1) % 2];
    if (i + 1 < c->n) o.out.data = c->voted[i % 2];
    status = rdt_plan_run(p, &o, &r);
    p->broken = NULL;
    add(result, &r);
  }
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "%s", rdt_context_error(c->ctx));
}

rdt_status rdt_chunks_inject(rdt_chunks *c, const char *spec, uint64_t seed, rdt_reason *why) {
  for (int i = 0; i < c->n; i++) {
    char text[256];
    c->plan[i]->fault = c->plan[i]->broken = NULL;
    if (!spec) continue;
    const rdt_fault dice = {.seed = seed};
    snprintf(text, sizeof text, "%s,seed=%llu", spec, (unsigned long long)rdt_fault_random(&dice, (uint64_t)i));
    const rdt_status status = rdt_plan_inject(c->plan[i], text);
    if (status != RDT_OK) return rdt_fail(why, status, "%s", rdt_context_error(c->ctx));
  }
  return RDT_OK;
}

int rdt_chunks_count(const rdt_chunks *c) {
  return c->n;
}

const rdt_plan *rdt_chunks_plan(const rdt_chunks *c, int share) {
  return c->plan[share];
}

void rdt_chunks_destroy(rdt_chunks *c) {
  if (!c) return;
  for (int i = 0; c->plan && i < c->n; i++) rdt_plan_destroy(c->plan[i]);
  for (int i = 0; i < 2; i++) rdt_free(c->voted[i]);
  rdt_free(c->from);
  rdt_free(c->plan);
  rdt_free(c->epilogue);
  rdt_free(c);
}
