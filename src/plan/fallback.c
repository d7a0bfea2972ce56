/* A layer whose checks are suspect again and again, and it is always rounding, is computed twice instead. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "plan/plan.h"

/* One run may be suspect by chance; old runs are forgotten by halves. */
enum { LEAST = 4, MEMORY = 1024 };

static void tell(rdt_plan *p, const rdt_doubts *d, const rdt_plan *was) {
  char text[400];
  snprintf(
      text, sizeof text,
      "%s: residuals of the scheme %s were rounding in %lld of the last %lld runs, more often than the suspect rate "
      "%.3g: computed twice from now on (scheme %s)",
      p->name, was->scheme_name, (long long)d->rounding, (long long)d->runs, p->ctx->policy.suspect_rate,
      p->scheme_name);
  rdt_event e = {.kind = RDT_EVENT_FALLBACK,
                 .node = p->name,
                 .op = p->label,
                 .scheme = p->scheme_name,
                 .kernel = p->kernel->name,
                 .what = "result",
                 .place = {-1, -1},
                 .verdict = RDT_CLEAN,
                 .text = text,
                 .dtype = rdt_dtype_name(p->prob.out.dtype),
                 .rank = p->prob.out.rank,
                 .element = -1,
                 .core = -1};
  memcpy(e.shape, p->prob.out.shape, sizeof e.shape);
  rdt_context_emit(p->ctx, &e);
}

static void swap(rdt_plan *a, rdt_plan *b) {
  const rdt_plan kept = *a;
  *a = *b;
  *b = kept;
}

/* Packed weights are made of weights as they are now: the sum is the one of before, and every run of a duplicated op
 * begins with it. */
static void take_over(rdt_plan *p, rdt_plan *fresh) {
  swap(p, fresh);
  const rdt_plan *old = fresh;
  p->weight_seal = old->weight_seal;
  p->source = old->source;
  p->runs = old->runs;
  p->fault = old->fault;
  p->broken = old->broken;
  p->own_fault = old->own_fault;
  p->injection = old->injection;
  p->own_injection = old->own_injection;
  p->out_seal = old->out_seal;
  p->out_sealed = old->out_sealed;
}

/* Where that cannot be done, the layer stays as it is: nothing is wrong with its checks. */
static void fall_back(rdt_plan *p, rdt_doubts d) {
  const rdt_reason said = p->ctx->error;
  const rdt_host *host = p->host.secure ? &p->host : NULL;
  rdt_plan *fresh = NULL;
  if (rdt_vault_secure(&p->frame) == RDT_VAULT_LOST) return; /* whoever looks next deals with it */
  const size_t n = (size_t)p->n_owned;
  rdt_part *owned = rdt_alloc(n, sizeof *owned);
  if (owned && n > 0) memcpy(owned, p->frame.lid.parts + (p->frame.lid.n - p->n_owned), n * sizeof *owned);
  if (owned && rdt_plan_create_as(p->ctx, "dup", &p->prob, p->name, p->label, host, &fresh) == RDT_OK &&
      fresh->scheme->id == RDT_SCHEME_DUP) {
    take_over(p, fresh);
    if (rdt_plan_seal(p, owned, (int)n) == RDT_OK)
      tell(p, &d, fresh);
    else
      swap(p, fresh); /* the old one is sealed still */
  }
  rdt_plan_destroy(fresh);
  rdt_free(owned);
  p->ctx->error = said;
}

void rdt_plan_watch(rdt_plan *p, const rdt_result *r) {
  const double rate = p->ctx->policy.suspect_rate;
  rdt_doubts *d = &p->doubts;
  if (!p->scheme->impl || !(rate > 0.0) || r->verdict != RDT_CLEAN || r->faults > 0) return;
  d->runs++;
  d->rounding += r->suspects > 0;
  const rdt_doubts now = *d;
  if (d->runs >= MEMORY) *d = (rdt_doubts){now.runs / 2, now.rounding / 2};
  if (now.rounding < LEAST || !((double)now.rounding > rate * (double)now.runs)) return;
  *d = (rdt_doubts){0, 0};
  fall_back(p, now);
}
