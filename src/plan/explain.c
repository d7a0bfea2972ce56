/* The candidates of a plan, for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "plan/plan.h"

int rdt_offers_baseline(const rdt_offers *o) {
  int best = -1;
  for (int i = 0; i < o->n; i++) {
    const rdt_offer *x = &o->list[i];
    if (x->refused || x->times.n == 0 || x->way.scheme->id != RDT_SCHEME_NONE) continue;
    if (best < 0 || rdt_timing_samples_stat(x->times).median < rdt_timing_samples_stat(o->list[best].times).median)
      best = i;
  }
  return best;
}

void rdt_offers_tell(const rdt_offers *o, rdt_choice_fn fn, void *user) {
  const int base = rdt_offers_baseline(o);
  for (int i = 0; i < o->n; i++) {
    const rdt_offer *x = &o->list[i];
    const rdt_timing_stat t = rdt_timing_samples_stat(x->times);
    const bool compared = base >= 0 && x->times.n > 0;
    const rdt_timing_ratio r = compared
                                   ? rdt_timing_sum_ratio(&(rdt_timing_pair){x->times, o->list[base].times, 1.0}, 1)
                                   : (rdt_timing_ratio){NAN, NAN, NAN};
    char scheme[RDT_SCHEME_TEXT] = "";
    if (x->way.scheme) rdt_scheme_name(x->way.scheme, x->way.sets, scheme);
    const rdt_choice c = {.kernel = x->way.kernel ? x->way.kernel->name : "",
                          .scheme = scheme,
                          .fused = x->way.fused,
                          .taken = i == o->taken,
                          .refused = x->refused,
                          .cost = x->cost,
                          .seconds = t.median,
                          .spread = {t.p10, t.p90},
                          .overhead = r.ratio - 1.0,
                          .interval = {r.low - 1.0, r.high - 1.0},
                          .reason = x->text};
    fn(&c, user);
  }
}

/* What is taken may have changed since: a layer whose checks were suspect too often is computed twice. */
static void as_it_is(const rdt_plan *p, rdt_offers *o) {
  const rdt_way w = {.kernel = p->kernel, .scheme = p->scheme, .sets = p->sets, .fused = p->kernel_fuses};
  for (int i = 0; i < o->n; i++) {
    if (o->list[i].refused || !rdt_way_same(&o->list[i].way, &w) || i == o->taken) continue;
    snprintf(o->list[i].text, sizeof o->list[i].text, "as it is planned now");
    o->taken = i;
    return;
  }
}

rdt_status rdt_plan_explain(const rdt_plan *p, rdt_choice_fn fn, void *user) {
  rdt_offers *o = rdt_alloc(1, sizeof *o);
  if (!o) return rdt_fail(&p->ctx->error, RDT_ERR_NOMEM, "node %s: out of memory", p->name);
  o->words = true;
  rdt_offers_choose(p->ctx, &p->prob, p->ctx->scheme, o);
  as_it_is(p, o);
  rdt_offers_tell(o, fn, user);
  rdt_free(o);
  return RDT_OK;
}
