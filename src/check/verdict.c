#include "check/verdict.h"

rdt_ruling rdt_ruling_clean(void) {
  return (rdt_ruling){.plain = RDT_CLEAN, .inverted = ~(uint32_t)RDT_CLEAN, .told = 1u << RDT_CLEAN};
}

void rdt_ruling_raise(rdt_ruling *r, rdt_verdict v) {
  const uint32_t x = ~(uint32_t)v;
  if ((uint32_t)v > r->plain) r->plain = (uint32_t)v;
  if (x < r->inverted) r->inverted = x;
  r->told |= 1u << v;
}

rdt_verdict rdt_ruling_read(rdt_ruling *r, bool *hit) {
  const uint32_t a = r->plain, b = ~r->inverted, c = r->told ? 31u - (uint32_t)__builtin_clz(r->told) : UINT32_MAX;
  const uint32_t agreed = a == b || a == c ? a : b == c ? b : (uint32_t)RDT_DETECTED;
  *hit = a != b || a != c;
  if (!*hit) return (rdt_verdict)agreed;
  *r = rdt_ruling_clean();
  const rdt_verdict v = agreed <= RDT_DETECTED ? (rdt_verdict)agreed : RDT_DETECTED;
  rdt_ruling_raise(r, v);
  return v;
}
