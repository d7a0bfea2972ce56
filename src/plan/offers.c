#include "plan/offers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/context.h"
#include "plan/estimate.h"

/* Which forms of the problem a kernel takes. */
typedef struct takes {
  bool whole, raw, fused;
} takes;

bool rdt_way_same(const rdt_way *a, const rdt_way *b) {
  return a->kernel == b->kernel && a->scheme == b->scheme && a->sets == b->sets && a->fused == b->fused;
}

rdt_demand rdt_demand_of(const rdt_context *ctx, const char *scheme) {
  rdt_demand d = {.sets = 1,
                  .min_coverage = ctx->policy.min_coverage,
                  .coverage = ctx->coverage ? ctx->coverage : &rdt_coverage_kept,
                  .permanent = ctx->policy.permanent != 0,
                  .cold = ctx->cold,
                  .device = ctx->device};
  d.wanted = rdt_scheme_parse(scheme, &d.sets);
  d.keep = ctx->policy.on_fault == RDT_ON_FAULT_CORRECT;
  return d;
}

static rdt_offer *add(rdt_offers *o, const rdt_kernel *k, const rdt_scheme_info *s) {
  if (o->n == RDT_MOST_OFFERS) o->n--; /* a test holds the tables to it */
  rdt_offer *x = &o->list[o->n++];
  x->way = (rdt_way){.kernel = k, .scheme = s, .sets = 1};
  x->refused = x->eligible = false;
  x->estimate = x->cost = NAN;
  x->times = (rdt_timing_samples){NULL, 0};
  x->text[0] = '\0';
  return x;
}

static void refuse(rdt_offers *o, const rdt_kernel *k, const rdt_scheme_info *s, const char *text) {
  rdt_offer *x = add(o, k, s);
  x->refused = true;
  if (o->words) snprintf(x->text, sizeof x->text, "%s", text);
}

static void offer(const rdt_problem *p, const rdt_demand *d, rdt_offers *o, rdt_way w) {
  rdt_offer *x = add(o, w.kernel, w.scheme);
  x->way = w;
  x->estimate = rdt_way_estimate(p, &w, d->device, d->cold);
}

/* Beside the overheads that are measured: over the least that nothing protects. */
static void compare_estimates(rdt_offers *o) {
  double least = INFINITY;
  for (int i = 0; i < o->n; i++)
    if (!o->list[i].refused && o->list[i].way.scheme->id == RDT_SCHEME_NONE) least = fmin(least, o->list[i].estimate);
  for (int i = 0; i < o->n; i++) o->list[i].cost = o->list[i].estimate / least - 1.0;
}

/* Why no kernel can make this scheme's check of the problem; false: some may. */
static bool scheme_refuses(const rdt_problem *p, const rdt_scheme_info *s, int sets, rdt_reason *why) {
  if (s->impl && s->impl->accept(p, why) != RDT_OK) return true;
  if (s->id == RDT_SCHEME_TMR_KERNEL || s->id == RDT_SCHEME_TMR_BLOCK || s->id == RDT_SCHEME_TMR_SPLIT) {
    rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s on a GPU (--device cuda:N); on cores it is tmr-sm",
             s->id == RDT_SCHEME_TMR_KERNEL  ? "three launches"
             : s->id == RDT_SCHEME_TMR_BLOCK ? "three copies within a kernel"
                                             : "three launches for each share of k");
    return true;
  }
  if (sets > 1 && p->acc == RDT_S32) { /* two flipped top bits cancel under any weights */
    rdt_fail(why, RDT_ERR_UNSUPPORTED, "integers are checked modulo 2^32: there %s:%d is no more than %s", s->name,
             sets, s->name);
    return true;
  }
  return false;
}

/* Can kernel k make the check of s as it goes? Without a raw result nothing can be rebuilt. */
static bool fuses(const rdt_problem *p, const rdt_kernel *k, const rdt_scheme_info *s, int sets, const rdt_demand *d) {
  const bool dynamic = !p->in[1].data && s->forms != RDT_FORM_ROWS;
  return s->forms && sets == 1 && !d->keep && !dynamic && (s->forms & ~k->fuses) == 0;
}

/* Copies of a result are compared bit by bit: the executor's own schemes take only what gives the same bits each time.
 */
static bool repeats(const rdt_kernel *k, const rdt_scheme_info *s) {
  return k->deterministic || s->impl || s->id == RDT_SCHEME_NONE;
}

static void list_scheme(const rdt_problem *p, const rdt_scheme_info *s, const rdt_demand *d, const takes *t,
                        rdt_offers *o) {
  int n;
  rdt_reason why = {""};
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n), *reference = rdt_cpu_reference(p);
  const int sets = d->wanted == s ? d->sets : 1, before = o->n;
  const bool linear = rdt_kop_is_linear(p->op), none = s->id == RDT_SCHEME_NONE;
  if (scheme_refuses(p, s, sets, &why)) {
    refuse(o, NULL, s, why.text);
    return;
  }
  bool rides[RDT_MOST_OFFERS] = {false};
  for (int i = 0; i < n; i++) {
    if (!t[i].fused || !fuses(p, rows[i], s, sets, d)) continue;
    rides[i] = true;
    offer(p, d, o, (rdt_way){.kernel = rows[i], .scheme = s, .sets = sets, .fused = true});
  }
  if (s->forms & RDT_FORM_UNITS) { /* there are no passes that could check it */
    if (o->n == before)
      refuse(o, NULL, s,
             p->acc == RDT_S32 ? "integers: row is exact already, and costs less than a check of each register tile"
                               : "checked in registers only, and no own kernel takes this");
    return;
  }
  for (int pass = 0; pass < 2; pass++) /* an epilogue that follows apart comes last */
    for (int i = 0; i < n; i++) {
      const bool finish = none && linear && !t[i].whole && t[i].raw;
      if (rides[i] || finish != (pass == 1) || !(linear && !none ? t[i].raw : t[i].whole || finish)) continue;
      if (!repeats(rows[i], s)) continue;
      offer(p, d, o, (rdt_way){.kernel = rows[i], .scheme = s, .sets = sets, .finish = finish});
    }
  if (o->n > before) return;
  if (reference && repeats(reference, s))
    offer(p, d, o, (rdt_way){.kernel = reference, .scheme = s, .sets = sets});
  else if (reference)
    refuse(o, NULL, s, "copies are compared bit by bit, and no kernel that takes this has the same bits every time");
}

rdt_tensor rdt_raw_view(const rdt_problem *p) {
  rdt_tensor raw = p->out;
  const bool last = p->op == RDT_KOP_CONV && raw.rank > 3 && raw.stride[1] == 1; /* as the kernel was chosen for */
  if (!rdt_tensor_is_packed(&raw))
    raw = last ? rdt_tensor_channels_last(NULL, raw.dtype, raw.rank, raw.shape)
               : rdt_tensor_dense(NULL, raw.dtype, raw.rank, raw.shape);
  if (rdt_kop_is_linear(p->op)) raw.dtype = p->acc;
  raw.data = NULL;
  return raw;
}

/* The kernel gets the problem without the epilogue where checks come between. */
static void list_kernels(const rdt_problem *p, rdt_isa isa, takes *t, rdt_offers *o) {
  int n;
  rdt_reason why;
  const bool linear = rdt_kop_is_linear(p->op);
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n), *reference = rdt_cpu_reference(p);
  rdt_problem raw = *p;
  raw.epilogue = RDT_EPILOGUE_NONE;
  raw.out = rdt_raw_view(p);
  for (int i = 0; i < n; i++) {
    const rdt_kernel *k = rows[i];
    t[i] = (takes){false, false, false};
    if (k->op != p->op || k == reference) continue;
    why.text[0] = '\0';
    if (k->isa > isa) {
      rdt_fail(&why, RDT_ERR_UNSUPPORTED, "needs %s, but this run is limited to %s", rdt_isa_name(k->isa),
               rdt_isa_name(isa));
    } else {
      t[i].whole = k->accept(p, &why) == RDT_OK;
      t[i].raw = linear && k->accept(&raw, t[i].whole ? NULL : &why) == RDT_OK;
      t[i].fused = linear && k->fuses && k->accept_fused(p, NULL) == RDT_OK;
    }
    if (!t[i].whole && !t[i].raw && !t[i].fused) refuse(o, k, NULL, why.text);
  }
}

void rdt_offers_list(const rdt_problem *p, rdt_isa isa, const rdt_demand *d, rdt_offers *o) {
  takes t[RDT_MOST_OFFERS];
  int n;
  const rdt_scheme_info *table = rdt_scheme_table(&n);
  o->n = 0;
  o->taken = -1;
  o->measured = false;
  list_kernels(p, isa, t, o);
  for (int i = 0; i < n; i++) {
    if (rdt_scheme_serves(&table[i], p->op))
      list_scheme(p, &table[i], d, t, o);
    else
      refuse(o, NULL, &table[i], "not for this op");
  }
  compare_estimates(o);
}
