#include "check/recover.h"

/* The state of one climb. */
typedef struct climb {
  const rdt_recovery *r;
  bool repair;
  rdt_rest rest;
  bool cannot; /* no bound for a part of the new result: at best UNCHECKED */
  rdt_recovered *out;
} climb;

static rdt_status settle(climb *c, rdt_verdict verdict, rdt_diagnosis diagnosis, const char *what) {
  c->out->verdict = verdict;
  c->out->diagnosis = diagnosis;
  c->out->what = what;
  c->out->fault = true;
  return RDT_OK;
}

/* A good result lies in `from`. */
static rdt_status settle_with(climb *c, rdt_buffer from, rdt_diagnosis diagnosis) {
  const char *what = "result";
  c->out->changed = c->r->differ(c->r->self, RDT_BUF_RESULT, from, &c->out->first);
  if (c->rest.weight || c->rest.activation) {
    diagnosis = RDT_DIAG_MEMORY;
    what = c->rest.weight ? "weight" : "activation";
  } else if (c->out->changed == 0) { /* the data was right all along: the check was hit */
    diagnosis = RDT_DIAG_CHECKER;
    what = "checksum";
  }
  if (!c->repair && c->out->changed != 0) return settle(c, RDT_DETECTED, diagnosis, what);
  if (c->out->changed != 0) c->r->accept(c->r->self, from);
  return settle(c, RDT_RECOMPUTED, diagnosis, what);
}

static rdt_status secure(climb *c, rdt_reason *why) {
  c->out->first = -1;
  c->out->what = "result";
  return c->r->secure(c->r->self, &c->rest, why);
}

/* Non-finite inputs: no bound exists, so the bits of a second run decide, and of a third where they differ. */
static rdt_status unchecked(climb *c, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  int64_t first;
  c->out->verdict = RDT_UNCHECKED;
  if (r->differ(r->self, RDT_BUF_RESULT, RDT_BUF_SPARE, &first) == 0) return RDT_OK;
  RDT_TRY(r->compute(r->self, RDT_BUF_THIRD, false, why));
  if (r->differ(r->self, RDT_BUF_SPARE, RDT_BUF_THIRD, &first) != 0)
    return settle(c, RDT_DETECTED, RDT_DIAG_UNKNOWN, "result");
  return settle_with(c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
}

/* The recompute did not pass either. */
static rdt_status other_path(climb *c, const rdt_findings *again, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  rdt_findings other;
  int64_t first;
  rdt_findings_init(&other);
  RDT_TRY(r->compute(r->self, RDT_BUF_THIRD, true, why));
  RDT_TRY(r->check(r->self, RDT_BUF_THIRD, &other, why));
  c->cannot = c->cannot || other.cannot > 0;
  const bool close = !r->apart(r->self, RDT_BUF_SPARE, RDT_BUF_THIRD, again);
  if (again->certain == 0 && other.certain == 0 && close) { /* two paths agree: rounding made the recompute suspect */
    if (c->rest.weight || c->rest.activation || c->rest.checksum ||
        r->differ(r->self, RDT_BUF_RESULT, RDT_BUF_SPARE, &first) != 0)
      return settle_with(c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
    c->out->verdict = RDT_CLEAN;
    return RDT_OK;
  }
  if (other.suspects == 0) return settle_with(c, RDT_BUF_THIRD, RDT_DIAG_PERSISTENT);
  return settle(c, RDT_DETECTED, RDT_DIAG_PERSISTENT, "result");
}

rdt_status rdt_recover_checked(const rdt_recovery *r, bool repair, rdt_recovered *out, rdt_reason *why) {
  climb c = {.r = r, .repair = repair, .out = out};
  rdt_findings again;
  *out = (rdt_recovered){.verdict = RDT_CLEAN};
  RDT_TRY(secure(&c, why));
  if (c.rest.lost) return settle(&c, RDT_DETECTED, RDT_DIAG_MEMORY, c.rest.weight ? "weight" : "activation");
  rdt_findings_init(&again);
  RDT_TRY(r->compute(r->self, RDT_BUF_SPARE, false, why));
  RDT_TRY(r->check(r->self, RDT_BUF_SPARE, &again, why));
  c.cannot = again.cannot > 0;
  RDT_TRY(again.suspects > 0 ? other_path(&c, &again, why)
          : c.cannot         ? unchecked(&c, why)
                             : settle_with(&c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT));
  if (c.cannot && out->verdict < RDT_UNCHECKED) out->verdict = RDT_UNCHECKED;
  return RDT_OK;
}

rdt_status rdt_recover_voted(const rdt_recovery *r, bool repair, rdt_recovered *out, rdt_reason *why) {
  climb c = {.r = r, .repair = repair, .out = out};
  int64_t first;
  *out = (rdt_recovered){.verdict = RDT_CLEAN};
  RDT_TRY(secure(&c, why));
  if (c.rest.lost) return settle(&c, RDT_DETECTED, RDT_DIAG_MEMORY, "activation");
  RDT_TRY(r->compute(r->self, RDT_BUF_THIRD, false, why));
  if (r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_RESULT, &first) == 0) {
    r->differ(r->self, RDT_BUF_RESULT, RDT_BUF_SPARE, &out->first);
    RDT_TRY(r->compute(r->self, RDT_BUF_SPARE, false, why)); /* where one loses every time, it may be the first */
    if (r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_SPARE, &first) == 0)
      return settle(&c, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "second copy");
    return settle(&c, RDT_DETECTED, RDT_DIAG_PERSISTENT, "result");
  }
  if (r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_SPARE, &first) == 0)
    return settle_with(&c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
  if (c.rest.weight || c.rest.activation) { /* both copies read rotten data: the new one must agree with itself */
    RDT_TRY(r->compute(r->self, RDT_BUF_SPARE, false, why));
    if (r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_SPARE, &first) == 0)
      return settle_with(&c, RDT_BUF_SPARE, RDT_DIAG_MEMORY);
  }
  return settle(&c, RDT_DETECTED, RDT_DIAG_UNKNOWN, "result");
}
