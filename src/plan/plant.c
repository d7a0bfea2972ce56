/* Planting the armed fault. Nothing here runs in a plan without one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

bool rdt_plan_armed(const rdt_plan *p, rdt_site site) {
  return p->fault && !p->injection->done && p->fault->site == site;
}

static void tell(rdt_plan *p, int64_t element, double before, double after, const char *where) {
  rdt_injection *j = p->injection;
  const double error = fabs(after - before);
  *j = (rdt_injection){.done = true, .site = p->fault->site, .element = element, .before = before, .after = after};
  j->changed = -1;
  j->error = isnan(error) ? INFINITY : error;
  memcpy(j->node, p->name, sizeof j->node);
  snprintf(j->text, sizeof j->text, "%s of node %s%s, element %lld: %.9g -> %.9g", rdt_site_name(p->fault->site),
           p->name, where, (long long)element, before, after);
}

void rdt_plan_plant(rdt_plan *p, rdt_site site, void *data, rdt_dtype t, int64_t count, int64_t row_length) {
  double before, after;
  if (!rdt_plan_armed(p, site)) return;
  const int64_t e = rdt_fault_element(p->fault, count, row_length);
  if (e < 0) return;
  rdt_fault_apply(p->fault, data, t, e, &before, &after);
  tell(p, e, before, after, "");
}

bool rdt_plan_kernel_hit(const rdt_plan *p, rdt_kernel_hit *hit) {
  if (!rdt_plan_armed(p, RDT_SITE_ACCUM) || !p->kernel->run_inject) return false;
  if (p->fault->kind == RDT_FAULT_ZERO || p->fault->kind == RDT_FAULT_STUCK0 || p->fault->kind == RDT_FAULT_STUCK1)
    return false; /* need the accumulator's bits beforehand: planted in the raw result */
  const rdt_tensor *out = &p->prob.out;
  const int64_t e = rdt_fault_element(p->fault, rdt_tensor_count(out), out->rank ? out->shape[out->rank - 1] : 1);
  if (e < 0) return false;
  *hit = (rdt_kernel_hit){.element = e, .position = (double)(rdt_fault_random(p->fault, 7) >> 11) * 0x1p-53};
  hit->mask = rdt_fault_mask(p->fault, 0, (int)rdt_dtype_size(p->prob.acc) * 8);
  return true;
}

void rdt_plan_book_hit(rdt_plan *p, const rdt_kernel_hit *hit) {
  char where[64];
  if (!hit->done) return;
  snprintf(where, sizeof where, " (after %.0f %% of the reduction)", 100.0 * hit->position);
  tell(p, hit->element, hit->before, hit->after, where);
}

void rdt_plan_book_effect(rdt_plan *p, const rdt_tensor *clean, const rdt_tensor *faulty) {
  const int64_t n = rdt_tensor_count(clean);
  int64_t first;
  p->injection->changed = rdt_tensors_differ(clean, faulty, 1, &first);
  p->injection->error = 0.0;
  for (int64_t i = 0; i < n; i++) {
    const double x = rdt_load(clean->data, clean->dtype, i), y = rdt_load(faulty->data, faulty->dtype, i);
    const double d = fabs(x - y);
    if (isnan(d) ? !(isnan(x) && isnan(y)) : d > p->injection->error) p->injection->error = isnan(d) ? INFINITY : d;
  }
}
