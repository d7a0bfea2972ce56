#include "check/strike.h"

rdt_strike rdt_strike_of(const rdt_fault *fault) {
  return (rdt_strike){.fault = fault, .way = (rdt_strike_way)(rdt_fault_random(fault, 13) % RDT_STRIKE_WAYS), .at = -1};
}

void rdt_strike_announce(rdt_strike *s, int64_t from, int64_t count) {
  if (s && s->at < 0 && count > 0) s->at = from + rdt_fault_element(s->fault, count, 1);
}

bool rdt_strike_due(const rdt_strike *s, rdt_site site, rdt_strike_way way, int64_t from, int64_t count) {
  if (!s || s->done || s->fault->site != site) return false;
  const bool here = way == s->way || (way == RDT_STRIKE_SINGLE && s->way == RDT_STRIKE_BLOCK);
  return (here || site == RDT_SITE_SUM) && s->at >= from && s->at < from + count;
}

void rdt_strike_double(rdt_strike *s, double *x) {
  rdt_fault_apply(s->fault, x, RDT_F64, 0, &s->before, &s->after);
  s->done = true;
}

void rdt_strike_word(rdt_strike *s, uint32_t *x) {
  rdt_fault_apply(s->fault, x, RDT_S32, 0, &s->before, &s->after);
  s->done = true;
}
