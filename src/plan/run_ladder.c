/* One run of a plan: what the recovery ladder asks for. */
#include <math.h>
#include <string.h>

#include "plan/run.h"

rdt_status rdt_run_check(void *self, rdt_buffer which, rdt_findings *f, rdt_reason *why) {
  rdt_run *r = self;
  RDT_TRY(rdt_plan_sums(r->p, why));
  const rdt_operands o = rdt_run_raw(r, which);
  for (int tries = 0; tries < 2; tries++) {
    rdt_findings_init(f);
    RDT_TRY(r->p->scheme->impl->verify(r->p->sums, &o, NULL, f, why));
    if (rdt_findings_agree(f)) return RDT_OK;
  }
  f->suspects = f->certain = 1; /* who cannot make up his mind lets nothing pass */
  return RDT_OK;
}

/* Data at rest against its sums: what no check covers at every use, all of it where asked for. */
rdt_status rdt_run_secure_some(rdt_run *r, bool all, rdt_rest *rest, rdt_reason *why) {
  rdt_plan *p = r->p;
  if (p->host.secure) {
    RDT_TRY(p->host.secure(p->host.self, all, rest, why));
  } else if (p->fixed_weights && (all || !p->scheme->covers_weights) &&
             rdt_tensor_seal(&p->prob.in[1], p->threads) != p->weight_seal) {
    rest->weight = true;
    rest->lost = !rdt_plan_restore_weights(p); /* the caller's memory: nowhere to restore it from */
    return rest->lost ? RDT_OK : rdt_plan_reload(p, why);
  }
  return rdt_plan_secure_own(p, all, rest, why);
}

static rdt_status resum(void *self, bool *made, bool *changed, rdt_reason *why) {
  return rdt_plan_resum(((rdt_run *)self)->p, made, changed, why);
}

rdt_status rdt_run_secure(void *self, rdt_rest *rest, rdt_reason *why) {
  rdt_run *r = self;
  RDT_TRY(rdt_run_secure_some(r, true, rest, why));
  r->inputs_restored = rdt_rest_memory(rest);
  return RDT_OK;
}

/* The logical row-major number of an element of a packed tensor, by its place in memory. */
int64_t rdt_run_logical(const rdt_tensor *t, int64_t memory) {
  int64_t index[RDT_MAX_RANK], logical = 0;
  rdt_tensor_index(t, memory, index);
  for (int d = 0; d < t->rank; d++) logical = logical * t->shape[d] + index[d];
  return logical;
}

static int64_t differ(void *self, rdt_buffer a, rdt_buffer b, int64_t *first) {
  rdt_run *r = self;
  const int64_t n = rdt_tensors_differ(&r->buf[a], &r->buf[b], r->p->threads, first, NULL);
  if (n > 0) *first = rdt_run_logical(&r->buf[a], *first);
  return n;
}

static bool apart(void *self, rdt_buffer a, rdt_buffer b, const rdt_findings *suspects) {
  rdt_run *r = self;
  const rdt_tensor *x = &r->buf[a], *y = &r->buf[b];
  rdt_iter it = rdt_iter_begin(x);
  while (rdt_iter_next(&it)) {
    int64_t place[2];
    const double u = rdt_load(x->data, x->dtype, it.offset), v = rdt_load(y->data, y->dtype, it.offset);
    if (u == v || (isnan(u) && isnan(v))) continue;
    rdt_place_of(&r->p->prob, x, it.index, place);
    const double allowed = rdt_findings_allowed(suspects, place, r->p->ctx->policy.lambda);
    if (allowed < INFINITY && !(fabs(u - v) <= allowed)) return true;
  }
  return false;
}

static void accept(void *self, rdt_buffer from) {
  rdt_run *r = self;
  memcpy(r->buf[RDT_BUF_RESULT].data, r->buf[from].data, rdt_tensor_bytes(&r->buf[from]));
}

static rdt_status rebuild(void *self, rdt_buffer into, rdt_rebuilt *b, rdt_reason *why) {
  rdt_run *r = self;
  RDT_TRY(rdt_run_buffer(r, into));
  memcpy(r->buf[into].data, r->buf[RDT_BUF_RESULT].data, rdt_tensor_bytes(&r->buf[into]));
  const rdt_operands o = rdt_run_raw(r, into);
  return rdt_plan_rebuild(r->p, &o, b, why);
}

/* The element of a tensor by its logical number. */
double rdt_run_value(const rdt_tensor *t, int64_t logical) {
  return rdt_load(t->data, t->dtype, rdt_tensor_offset(t, logical));
}

static double value(void *self, rdt_buffer which, int64_t element) {
  return rdt_run_value(&((rdt_run *)self)->buf[which], element);
}

rdt_recovery rdt_run_recovery(rdt_run *r) {
  return (rdt_recovery){.self = r,
                        .secure = rdt_run_secure,
                        .compute = rdt_run_again,
                        .check = rdt_run_check,
                        .differ = differ,
                        .apart = apart,
                        .accept = accept,
                        .value = value,
                        .rebuild = r->p->ctx->policy.on_fault == RDT_ON_FAULT_CORRECT ? rebuild : NULL,
                        .resum = resum,
                        .cores = rdt_run_cores,
                        .compute_on = rdt_run_elsewhere};
}
