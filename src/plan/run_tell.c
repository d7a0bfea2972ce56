/* One run of a plan: what was found, as events and verdict. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/run.h"

static void sentence(const rdt_run *r, const rdt_event *e, char *text, size_t size) {
  const char *end = e->verdict == RDT_DETECTED        ? "found and not repaired"
                    : e->diagnosis == RDT_DIAG_MEMORY ? "found and restored"
                    : e->changed > 0                  ? "found and computed again"
                                                      : "found and put in order; the result was right";
  char place[128];
  rdt_place_text(&r->p->prob, e->place, place, sizeof place);
  if (e->verdict == RDT_CORRECTED)
    snprintf(text, size, "%s: a fault in the result%s%s, found and rebuilt from checksums, right within %.3g",
             r->p->name, place, e->changed > 1 ? " and elsewhere in its row or column" : "", e->corrected_bound);
  else if (e->kind == RDT_EVENT_SUSPECT)
    snprintf(
        text, size,
        "%s: a residual of %.3g above the statistical bound %.3g%s was rounding: checked in another way, it passes",
        r->p->name, e->residual, e->bound, place);
  else if (e->kind == RDT_EVENT_UNCHECKED)
    snprintf(text, size, "%s: NaN or Inf in the inputs leave no bound; a second run gave the same bits", r->p->name);
  else if (e->diagnosis == RDT_DIAG_MEMORY && e->rot.first >= 0 && e->rot.tensor)
    snprintf(text, size, "%s: %s %.80s changed in memory at element %lld (%.9g for %.9g), %s", r->p->name, e->what,
             e->rot.tensor, (long long)e->rot.first, e->rot.actual, e->rot.expected, end);
  else if (e->diagnosis == RDT_DIAG_MEMORY)
    snprintf(text, size, "%s: %s changed in memory, %s", r->p->name, e->what, end);
  else
    snprintf(text, size, "%s: a %s fault in the %s%s, %s", r->p->name, rdt_diagnosis_name(e->diagnosis), e->what, place,
             end);
}

static int core_of(const rdt_run *r, const rdt_event *e) {
  if (e->kind == RDT_EVENT_UNCHECKED || e->diagnosis == RDT_DIAG_MEMORY) return -1;
  if (r->p->twin) return r->where.copy[e->changed == 0].moved ? -1 : r->where.copy[e->changed == 0].core;
  return rdt_where_core(r->where.fused.n > 0 ? &r->where.fused : &r->where.first, e->place);
}

void rdt_run_tell(rdt_run *r, rdt_event_kind kind, const rdt_recovered *v) {
  char text[400];
  rdt_event e = {.kind = kind,
                 .node = r->p->name,
                 .op = r->p->label,
                 .scheme = r->p->scheme_name,
                 .kernel = r->p->kernel->name,
                 .what = v->what,
                 .place = {-1, -1},
                 .residual = r->found.worst.residual,
                 .bound = r->found.worst.bound.tau2,
                 .bound_rigorous = r->found.worst.bound.tau0,
                 .verdict = v->verdict,
                 .diagnosis = v->diagnosis,
                 .changed = v->changed,
                 .dtype = rdt_dtype_name(r->p->prob.out.dtype),
                 .rank = r->p->prob.out.rank,
                 .floor = r->found.floor,
                 .element = v->first >= 0 && v->changed > 0 ? v->first : -1,
                 .valued = v->valued,
                 .expected = v->expected,
                 .actual = v->actual,
                 .corrected_bound = v->corrected_bound,
                 .rot = v->rot,
                 .core = v->core,
                 .n_rungs = v->n_rungs};
  memcpy(e.shape, r->p->prob.out.shape, sizeof e.shape);
  memcpy(e.rungs, v->rungs, sizeof e.rungs);
  if (v->first >= 0 && v->changed > 0)
    rdt_place_at(&r->p->prob, v->first, e.place); /* the comparison of the bits knows better than the checksums */
  else if (kind != RDT_EVENT_UNCHECKED && r->found.suspects > 0)
    rdt_findings_locate(&r->found, e.place);
  if (e.core == RDT_CORE_OF_PLACE) e.core = core_of(r, &e);
  sentence(r, &e, text, sizeof text);
  e.text = text;
  rdt_cores_book(&r->p->ctx->cores, &e);
  rdt_context_emit(r->p->ctx, &e);
  if (kind == RDT_EVENT_FAULT) {
    r->res->faults++;
    memcpy(r->res->place, e.place, sizeof e.place);
    if (v->verdict == RDT_DETECTED) rdt_fail(r->why, RDT_ERR_FAULT, "%s", text);
  }
  if (v->verdict > r->res->verdict) r->res->verdict = v->verdict;
  r->res->corrected_bound = fmax(r->res->corrected_bound, v->corrected_bound);
  rdt_ruling_raise(&r->ruling, v->verdict);
  if (v->diagnosis != RDT_DIAG_NONE) r->res->diagnosis = v->diagnosis;
}

void rdt_run_tell_found(rdt_run *r, rdt_verdict verdict, rdt_diagnosis diagnosis, const char *what) {
  const rdt_recovered v = {
      .verdict = verdict, .diagnosis = diagnosis, .what = what, .fault = true, .first = -1, .core = -1};
  rdt_run_tell(r, RDT_EVENT_FAULT, &v);
}

/* What checks was hit: seen where its two ways do not agree. */
void rdt_run_tell_checker(rdt_run *r, rdt_verdict verdict, const char *what) {
  rdt_run_tell_found(r, verdict, RDT_DIAG_CHECKER, what);
}

bool rdt_run_repairs(const rdt_plan *p) {
  return p->ctx->policy.on_fault == RDT_ON_FAULT_RECOMPUTE || p->ctx->policy.on_fault == RDT_ON_FAULT_CORRECT;
}
