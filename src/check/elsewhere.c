/* Which core computes wrongly? The same code path on others of them, until one is left. */
#include "check/recover.h"

typedef struct hunt {
  const rdt_recovery *r;
  rdt_elsewhere *out;
} hunt;

/* A result that passes stays in the third buffer; what follows goes to the spare one. */
static rdt_status try_on(hunt *h, const int *cores, int n, bool *passes, rdt_reason *why) {
  const rdt_recovery *r = h->r;
  const rdt_buffer into = h->out->found ? RDT_BUF_SPARE : RDT_BUF_THIRD;
  rdt_findings f;
  rdt_findings_init(&f);
  RDT_TRY(r->compute_on(r->self, into, cores, n, why));
  RDT_TRY(r->check(r->self, into, &f, why));
  *passes = f.suspects == 0;
  h->out->tried = true;
  if (*passes && !h->out->found) {
    h->out->found = true;
    h->out->good = into;
  }
  return RDT_OK;
}

/* The list without its element i, in place. */
static void leave_out(int *list, int n, int i) {
  const int core = list[i];
  for (; i + 1 < n; i++) list[i] = list[i + 1];
  list[n - 1] = core;
}

/* Nobody is suspected: halves that fail are halved again. One good half is needed, and one core that fails by itself.
 */
static rdt_status halve(hunt *h, const int *list, int n, rdt_reason *why) {
  bool passes = false, failed = false;
  while (n > 1) {
    const int half = n / 2;
    RDT_TRY(try_on(h, list, half, &passes, why));
    failed = !passes;
    if (passes) {
      list += half;
      n -= half;
      continue;
    }
    if (!h->out->found) {
      RDT_TRY(try_on(h, list + half, n - half, &passes, why));
      if (!passes) return RDT_OK; /* wrong on both sides: it is no core */
    }
    n = half;
  }
  if (!failed) RDT_TRY(try_on(h, list, 1, &passes, why));
  if (!passes || failed) h->out->core = list[0];
  return RDT_OK;
}

rdt_status rdt_recover_elsewhere(const rdt_recovery *r, rdt_elsewhere *out, rdt_reason *why) {
  enum { MOST = 1024 };
  int list[MOST], suspect = -1;
  hunt h = {r, out};
  bool passes;
  *out = (rdt_elsewhere){.core = -1};
  const int n = r->cores(r->self, list, MOST, &suspect);
  if (n < 2) return RDT_OK;
  for (int i = 0; i < n; i++) {
    if (list[i] != suspect) continue;
    leave_out(list, n, i);
    RDT_TRY(try_on(&h, list, n - 1, &passes, why));
    if (passes) out->core = suspect; /* where it has failed again */
    return RDT_OK;
  }
  return halve(&h, list, n, why);
}
