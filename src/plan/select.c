/* Kernel and scheme of a plan: as it is asked for, as it was measured, or by what is known of them. */
#include <math.h>
#include <string.h>

#include "plan/estimate.h"
#include "plan/plan.h"

void rdt_offers_choose(const rdt_context *ctx, const rdt_problem *p, const char *scheme, rdt_offers *o) {
  const rdt_demand d = rdt_demand_of(ctx, scheme);
  char key[RDT_KEY_TEXT];
  rdt_offers_list(p, ctx->isa, &d, o);
  const rdt_entry *e = ctx->book && rdt_kop_is_linear(p->op) && rdt_problem_key(p, ctx->cold, &d, key)
                           ? rdt_book_find(ctx->book, key)
                           : NULL;
  bool complete;
  const int planned = e ? rdt_entry_consult(e, o, &complete) : -1;
  rdt_offers_decide(p, &d, o);
  if (planned < 0 || planned == o->taken || !o->list[planned].eligible) return;
  if (o->words && o->taken >= 0) strcpy(o->list[o->taken].text, "another one was planned");
  if (o->words) strcpy(o->list[planned].text, "as it was planned");
  o->taken = planned;
  o->measured = true;
}

bool rdt_offers_planned(const rdt_context *ctx, const rdt_problem *p, const char *scheme, const char **choice) {
  const rdt_demand d = rdt_demand_of(ctx, scheme);
  char key[RDT_KEY_TEXT];
  bool complete;
  rdt_offers o;
  *choice = NULL;
  const rdt_entry *e =
      rdt_kop_is_linear(p->op) && rdt_problem_key(p, ctx->cold, &d, key) ? rdt_book_find(ctx->book, key) : NULL;
  if (!e || e->choice < 0) return false;
  *choice = e->list[e->choice].scheme;
  o.words = false;
  rdt_offers_choose(ctx, p, scheme, &o);
  const int planned = rdt_entry_consult(e, &o, &complete);
  return planned >= 0 && planned == o.taken;
}

static rdt_status refuse_all(const rdt_plan *p, const rdt_offers *o, rdt_reason *why) {
  bool any = false;
  for (int i = 0; i < o->n; i++) any = any || !o->list[i].refused;
  if (!any)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "node %s: no kernel takes %s of %s", p->name, rdt_kop_name(p->prob.op),
                    rdt_dtype_name(p->prob.out.dtype));
  return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                  "node %s: no scheme protects %s and finds %.4g %% of single faults; ask for less coverage", p->name,
                  rdt_kop_name(p->prob.op), 100.0 * p->ctx->policy.min_coverage);
}

/* The kernel gets the problem without the epilogue where checks come between. */
static rdt_status make_states(rdt_plan *p, rdt_reason *why) {
  rdt_problem raw;
  const bool twice = p->scheme->id == RDT_SCHEME_DUP; /* each copy on one thread, both at the same time */
  RDT_TRY(rdt_problem_copy(&raw, &p->prob));
  if (p->finish || (rdt_kop_is_linear(p->prob.op) && p->scheme->id != RDT_SCHEME_NONE)) {
    raw.epilogue = RDT_EPILOGUE_NONE;
    raw.out = rdt_raw_view(&p->prob);
  }
  p->other = rdt_cpu_reference(&raw);
  rdt_status status = p->kernel->create(&raw, twice ? 1 : p->threads, &p->state, why);
  if (status == RDT_OK && twice) status = p->kernel->create(&raw, 1, &p->twin, why);
  rdt_problem_clear(&raw);
  return status;
}

rdt_status rdt_plan_select(rdt_plan *p, const char *scheme, const rdt_way *way, rdt_reason *why) {
  p->threads = rdt_threads_worth(&p->prob, p->ctx->threads);
  rdt_way w;
  if (way) {
    w = *way;
  } else {
    rdt_offers o;
    o.words = false;
    rdt_offers_choose(p->ctx, &p->prob, scheme, &o);
    if (o.taken < 0) return refuse_all(p, &o, why);
    w = o.list[o.taken].way;
  }
  p->kernel = w.kernel;
  p->scheme = w.scheme;
  p->sets = w.sets;
  p->kernel_fuses = w.fused;
  p->finish = w.finish;
  rdt_scheme_name(p->scheme, p->sets, p->scheme_name);
  return make_states(p, why);
}
