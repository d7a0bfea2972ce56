#include "check/recover.h"

#include <string.h>

#include "core/context.h"

/* The state of one climb. */
typedef struct climb {
  const rdt_recovery *r;
  bool repair;
  rdt_rest rest;
  bool cannot;  /* no bound for a part of the new result: at best UNCHECKED */
  double since; /* when the rung began */
  rdt_recovered *out;
} climb;

void rdt_recovered_rung(rdt_recovered *v, const char *name, const char *outcome, double *since) {
  const double now = rdt_clock();
  if (v->n_rungs < RDT_MAX_RUNGS) v->rungs[v->n_rungs++] = (rdt_rung){name, outcome, now - *since};
  *since = now;
}

const char *rdt_rest_outcome(const rdt_rest *rest) {
  return rest->lost ? "lost" : rdt_rest_memory(rest) || rest->checksum ? "restored" : "intact";
}

bool rdt_rest_memory(const rdt_rest *rest) {
  return rest->weight || rest->activation || rest->plan;
}

const char *rdt_rest_what(const rdt_rest *rest) {
  return rest->weight ? "weight" : rest->activation ? "activation" : rest->plan ? "plan" : "checksum";
}

static void rung(climb *c, const char *name, const char *outcome) {
  rdt_recovered_rung(c->out, name, outcome, &c->since);
}

static rdt_status settle(climb *c, rdt_verdict verdict, rdt_diagnosis diagnosis, const char *what) {
  c->out->verdict = verdict;
  c->out->diagnosis = diagnosis;
  c->out->what = what;
  c->out->fault = true;
  return RDT_OK;
}

/* What a good result in `from` changes. */
static void compare_with(climb *c, rdt_buffer from) {
  c->out->changed = c->r->differ(c->r->self, RDT_BUF_RESULT, from, &c->out->first);
  if (c->out->changed > 0 && c->r->value) {
    c->out->valued = true;
    c->out->expected = c->r->value(c->r->self, from, c->out->first);
    c->out->actual = c->r->value(c->r->self, RDT_BUF_RESULT, c->out->first);
  }
}

/* A good result lies in `from`. */
static rdt_status settle_with(climb *c, rdt_buffer from, rdt_diagnosis diagnosis) {
  const char *what = "result";
  compare_with(c, from);
  if (rdt_rest_memory(&c->rest)) {
    diagnosis = RDT_DIAG_MEMORY;
    what = rdt_rest_what(&c->rest);
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
  c->since = rdt_clock();
  RDT_TRY(c->r->secure(c->r->self, &c->rest, why));
  c->out->rot = c->rest.rot;
  rung(c, "secure", rdt_rest_outcome(&c->rest));
  return RDT_OK;
}

/* Non-finite inputs: no bound exists, so the bits of a second run decide, and of a third where they differ. */
static rdt_status unchecked(climb *c, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  int64_t first;
  c->out->verdict = RDT_UNCHECKED;
  if (r->differ(r->self, RDT_BUF_RESULT, RDT_BUF_SPARE, &first) == 0)
    return rdt_rest_memory(&c->rest) || c->rest.checksum ? settle_with(c, RDT_BUF_SPARE, RDT_DIAG_MEMORY) : RDT_OK;
  RDT_TRY(r->compute(r->self, RDT_BUF_THIRD, false, why));
  const bool differ = r->differ(r->self, RDT_BUF_SPARE, RDT_BUF_THIRD, &first) != 0;
  rung(c, "recompute", differ ? "failed" : "agreed");
  if (differ) return settle(c, RDT_DETECTED, RDT_DIAG_UNKNOWN, "result");
  return settle_with(c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
}

/* Does the recompute pass once the checksums were made again? */
static rdt_status checksum(climb *c, bool *settled, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  bool made = false, changed = false;
  rdt_findings again;
  if (!r->resum) return RDT_OK;
  RDT_TRY(r->resum(r->self, &made, &changed, why));
  if (!made) return RDT_OK;
  rdt_findings_init(&again);
  if (changed) RDT_TRY(r->check(r->self, RDT_BUF_SPARE, &again, why));
  rung(c, "checksum", changed ? "restored" : "intact");
  if (!changed || again.suspects > 0) return RDT_OK;
  *settled = true;
  return settle_with(c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
}

static rdt_status other_core(climb *c, bool *settled, rdt_reason *why) {
  rdt_elsewhere e;
  if (!c->r->cores) return RDT_OK;
  RDT_TRY(rdt_recover_elsewhere(c->r, &e, why));
  if (!e.tried) return RDT_OK;
  rung(c, "other core", e.found ? "passed" : "failed");
  if (!e.found) return RDT_OK;
  c->out->core = e.core;
  *settled = true;
  return settle_with(c, e.good, e.core >= 0 ? RDT_DIAG_PERSISTENT : RDT_DIAG_UNKNOWN);
}

/* The other path has passed, in the third buffer. Has the first one lost for good, or was the recompute hit as well? */
static rdt_status settle_apart(climb *c, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  rdt_findings once;
  rdt_findings_init(&once);
  RDT_TRY(r->compute(r->self, RDT_BUF_SPARE, false, why));
  RDT_TRY(r->check(r->self, RDT_BUF_SPARE, &once, why));
  rung(c, "recompute", once.suspects > 0 ? "failed" : "passed");
  return once.suspects > 0 ? settle_with(c, RDT_BUF_THIRD, RDT_DIAG_PERSISTENT)
                           : settle_with(c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
}

/* Nothing has passed until here. */
static rdt_status other_path(climb *c, const rdt_findings *again, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  rdt_findings other;
  int64_t first;
  rdt_findings_init(&other);
  RDT_TRY(r->compute(r->self, RDT_BUF_THIRD, true, why));
  RDT_TRY(r->check(r->self, RDT_BUF_THIRD, &other, why));
  c->cannot = c->cannot || other.cannot > 0;
  const bool close = !r->apart(r->self, RDT_BUF_SPARE, RDT_BUF_THIRD, again);
  const bool agreed = again->certain == 0 && other.certain == 0 && close;
  rung(c, "other path", agreed ? "agreed" : other.suspects == 0 ? "passed" : "failed");
  if (agreed) { /* two paths agree: rounding made the recompute suspect */
    if (rdt_rest_memory(&c->rest) || c->rest.checksum || r->differ(r->self, RDT_BUF_RESULT, RDT_BUF_SPARE, &first) != 0)
      return settle_with(c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
    c->out->verdict = RDT_CLEAN;
    return RDT_OK;
  }
  if (other.suspects == 0) return settle_apart(c, why);
  return settle(c, RDT_DETECTED, RDT_DIAG_PERSISTENT, "result");
}

/* Nothing is computed again, so nothing tells whether the fault would come back. */
static rdt_status correct(climb *c, bool *settled, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  rdt_rebuilt b;
  *settled = false;
  if (!r->rebuild || !c->repair || rdt_rest_memory(&c->rest) || c->rest.checksum) return RDT_OK;
  RDT_TRY(r->rebuild(r->self, RDT_BUF_SPARE, &b, why));
  rung(c, "correct", b.count == 0 ? "declined" : b.passed ? "passed" : "failed");
  if (b.count == 0 || !b.passed) return RDT_OK;
  *settled = true;
  compare_with(c, RDT_BUF_SPARE);
  c->out->corrected_bound = b.bound;
  r->accept(r->self, RDT_BUF_SPARE);
  return settle(c, RDT_CORRECTED, RDT_DIAG_UNKNOWN, "result");
}

/* The recompute did not pass either. */
static rdt_status climb_on(climb *c, const rdt_findings *again, rdt_reason *why) {
  bool settled = false;
  RDT_TRY(checksum(c, &settled, why));
  if (!settled) RDT_TRY(other_core(c, &settled, why));
  return settled ? RDT_OK : other_path(c, again, why);
}

rdt_status rdt_recover_checked(const rdt_recovery *r, bool repair, rdt_recovered *out, rdt_reason *why) {
  climb c = {.r = r, .repair = repair, .out = out};
  rdt_findings again;
  *out = (rdt_recovered){.verdict = RDT_CLEAN, .core = -1};
  RDT_TRY(secure(&c, why));
  if (c.rest.lost) return settle(&c, RDT_DETECTED, RDT_DIAG_MEMORY, rdt_rest_what(&c.rest));
  bool settled;
  RDT_TRY(correct(&c, &settled, why));
  if (settled) return RDT_OK;
  rdt_findings_init(&again);
  RDT_TRY(r->compute(r->self, RDT_BUF_SPARE, false, why));
  RDT_TRY(r->check(r->self, RDT_BUF_SPARE, &again, why));
  c.cannot = again.cannot > 0;
  rung(&c, "recompute", again.suspects > 0 ? "failed" : c.cannot ? "unchecked" : "passed");
  RDT_TRY(again.suspects > 0 ? climb_on(&c, &again, why)
          : c.cannot         ? unchecked(&c, why)
                             : settle_with(&c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT));
  if (c.cannot && out->verdict < RDT_UNCHECKED) out->verdict = RDT_UNCHECKED;
  return RDT_OK;
}

rdt_status rdt_recover_voted(const rdt_recovery *r, bool repair, rdt_recovered *out, rdt_reason *why) {
  climb c = {.r = r, .repair = repair, .out = out};
  bool as_first = false, as_second = false;
  int64_t first;
  *out = (rdt_recovered){.verdict = RDT_CLEAN, .core = -1};
  RDT_TRY(secure(&c, why));
  if (c.rest.lost) return settle(&c, RDT_DETECTED, RDT_DIAG_MEMORY, rdt_rest_what(&c.rest));
  const int most = rdt_rest_memory(&c.rest) ? 1 : 2; /* where all three differ, the third may have been hit as well */
  for (int i = 0; i < most && !as_first && !as_second; i++) {
    RDT_TRY(r->compute(r->self, RDT_BUF_THIRD, false, why));
    as_first = r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_RESULT, &first) == 0;
    as_second = !as_first && r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_SPARE, &first) == 0;
    rung(&c, "recompute", as_first || as_second ? "agreed" : "failed");
  }
  if (as_first) {
    r->differ(r->self, RDT_BUF_RESULT, RDT_BUF_SPARE, &out->first);
    RDT_TRY(r->compute(r->self, RDT_BUF_SPARE, false, why)); /* where one loses every time, it may be the first */
    const bool agreed = r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_SPARE, &first) == 0;
    rung(&c, "recompute", agreed ? "agreed" : "failed");
    return agreed ? settle(&c, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "second copy")
                  : settle(&c, RDT_DETECTED, RDT_DIAG_PERSISTENT, "result");
  }
  if (as_second) return settle_with(&c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT);
  if (rdt_rest_memory(&c.rest)) { /* both copies read rotten data: the new one must agree with itself */
    RDT_TRY(r->compute(r->self, RDT_BUF_SPARE, false, why));
    const bool agreed = r->differ(r->self, RDT_BUF_THIRD, RDT_BUF_SPARE, &first) == 0;
    rung(&c, "recompute", agreed ? "agreed" : "failed");
    if (agreed) return settle_with(&c, RDT_BUF_SPARE, RDT_DIAG_MEMORY);
  }
  return settle(&c, RDT_DETECTED, RDT_DIAG_UNKNOWN, "result");
}

/* ---- three copies ---- */

/* A good result lies in `from`: it may be the one that is there, then another copy was hit. */
static rdt_status settle_copies(climb *c, rdt_buffer from, rdt_diagnosis diagnosis) {
  compare_with(c, from);
  if (c->out->changed == 0 && !rdt_rest_memory(&c->rest)) return settle(c, RDT_RECOMPUTED, diagnosis, "another copy");
  return settle_with(c, from, diagnosis);
}

/* All three once more, beside the first result, which stays: do they agree? */
static rdt_status all_again(climb *c, const rdt_copies *k, bool *agreed, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  int64_t first;
  *agreed = true;
  RDT_TRY(k->copy(r->self, 0, RDT_BUF_SPARE, why));
  for (int i = 1; i < RDT_COPIES && *agreed; i++) {
    RDT_TRY(k->copy(r->self, i, RDT_BUF_THIRD, why));
    *agreed = r->differ(r->self, RDT_BUF_SPARE, RDT_BUF_THIRD, &first) == 0;
  }
  rung(c, "recompute", *agreed ? "agreed" : "failed");
  return RDT_OK;
}

/* The first time may have been hit as well. */
static rdt_status settle_again(climb *c, const rdt_copies *k, rdt_reason *why) {
  bool agreed = false;
  for (int i = 0; i < 2 && !agreed; i++) RDT_TRY(all_again(c, k, &agreed, why));
  return agreed ? settle_copies(c, RDT_BUF_SPARE, RDT_DIAG_TRANSIENT)
                : settle(c, RDT_DETECTED, RDT_DIAG_UNKNOWN, "result");
}

/* One of two cores has failed its test: the other one's result, if it gives it twice. */
static rdt_status by_proof(climb *c, const rdt_copies *k, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  int good, bad, failed;
  int64_t first;
  RDT_TRY(k->test(r->self, &good, &bad, &failed, why));
  rung(c, "known answers", failed == 0 ? "passed" : "failed");
  if (failed == 0) return settle_again(c, k, why);
  if (failed > 1) return settle(c, RDT_DETECTED, RDT_DIAG_PERSISTENT, "result");
  c->out->core = bad;
  RDT_TRY(k->compute_on(r->self, RDT_BUF_SPARE, good, why));
  RDT_TRY(k->compute_on(r->self, RDT_BUF_THIRD, good, why));
  const bool agreed = r->differ(r->self, RDT_BUF_SPARE, RDT_BUF_THIRD, &first) == 0;
  rung(c, "other core", agreed ? "agreed" : "failed");
  return agreed ? settle_copies(c, RDT_BUF_SPARE, RDT_DIAG_PERSISTENT)
                : settle(c, RDT_DETECTED, RDT_DIAG_PERSISTENT, "result");
}

/* The copy that lost most. */
static int loser_of(const rdt_ballot *b) {
  int loser = 0;
  for (int i = 1; i < RDT_COPIES; i++)
    if (b->lost[i] > b->lost[loser]) loser = i;
  return loser;
}

/* The result is the elected one. Who lost, and does the same copy lose again? */
static rdt_status name_loser(climb *c, const rdt_copies *k, const rdt_ballot *b, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  const int loser = loser_of(b);
  int64_t first;
  c->out->core = k->core(r->self, loser, b->first[loser]);
  RDT_TRY(k->copy(r->self, loser, RDT_BUF_SPARE, why));
  const bool again = r->differ(r->self, RDT_BUF_RESULT, RDT_BUF_SPARE, &first) != 0;
  rung(c, "recompute", again ? "failed" : "agreed");
  return settle(c, RDT_RECOMPUTED, again ? RDT_DIAG_PERSISTENT : RDT_DIAG_TRANSIENT,
                c->out->changed != 0 ? "result" : "another copy");
}

/* A vote may be hit as well as what it votes on: it is counted until two counts in a row are alike. false: they are
 * not. */
static bool count_votes(climb *c, const rdt_copies *k, const char *name, rdt_ballot *b) {
  rdt_ballot again;
  bool alike = false;
  k->vote(c->r->self, false, b);
  for (int i = 0; i < 3 && !alike; i++) {
    again = *b;
    k->vote(c->r->self, false, b);
    alike = memcmp(b, &again, sizeof again) == 0;
  }
  rung(c, name, alike && b->undecided == 0 ? "passed" : "failed");
  return alike;
}

/* Of what was counted and is decided the majority becomes the result; then it is nowhere alone any more. */
static bool elect(climb *c, const rdt_copies *k, const rdt_ballot *counted) {
  rdt_ballot b;
  for (int i = 0; i < 3; i++) {
    k->vote(c->r->self, true, &b);
    k->vote(c->r->self, false, &b);
    if (b.lost[0] == 0 && b.undecided == 0 && b.lost[1] == counted->lost[1] && b.lost[2] == counted->lost[2])
      return true;
  }
  rung(c, "vote", "failed");
  return false;
}

static rdt_status by_majority(climb *c, const rdt_copies *k, rdt_reason *why) {
  const rdt_recovery *r = c->r;
  rdt_ballot b;
  if (!count_votes(c, k, "vote", &b)) return settle(c, RDT_DETECTED, RDT_DIAG_CHECKER, "vote");
  c->out->changed = b.lost[0];
  c->out->first = b.first[0];
  if (!c->repair && b.undecided > 0) return settle(c, RDT_DETECTED, RDT_DIAG_UNKNOWN, "result");
  for (int i = 0; b.undecided > 0 && i < RDT_COPIES; i++) RDT_TRY(k->copy(r->self, i, (rdt_buffer)i, why));
  if (b.undecided > 0) {
    c->out->changed = c->out->first = -1; /* what was there is gone */
    if (!count_votes(c, k, "recompute", &b)) return settle(c, RDT_DETECTED, RDT_DIAG_CHECKER, "vote");
  }
  if (b.undecided > 0 || (!c->repair && c->out->changed != 0))
    return settle(c, RDT_DETECTED, RDT_DIAG_UNKNOWN, "result");
  if (c->r->value && c->out->first >= 0) {
    c->out->valued = true;
    c->out->actual = r->value(r->self, RDT_BUF_RESULT, c->out->first);
  }
  if (!elect(c, k, &b)) return settle(c, RDT_DETECTED, RDT_DIAG_CHECKER, "vote");
  if (c->out->valued) c->out->expected = r->value(r->self, RDT_BUF_RESULT, c->out->first);
  return loser_of(&b) == 0 && b.lost[0] == 0 ? settle(c, RDT_RECOMPUTED, RDT_DIAG_TRANSIENT, "result")
                                             : name_loser(c, k, &b, why);
}

rdt_status rdt_recover_thrice(const rdt_recovery *r, const rdt_copies *k, bool repair, rdt_recovered *out,
                              rdt_reason *why) {
  climb c = {.r = r, .repair = repair, .out = out};
  *out = (rdt_recovered){.verdict = RDT_CLEAN, .core = -1};
  RDT_TRY(secure(&c, why));
  if (c.rest.lost) return settle(&c, RDT_DETECTED, RDT_DIAG_MEMORY, rdt_rest_what(&c.rest));
  if (rdt_rest_memory(&c.rest) || k->cores < 2) return settle_again(&c, k, why);
  return k->cores == 2 ? by_proof(&c, k, why) : by_majority(&c, k, why);
}
