/* One run of a plan whose checks have passes of their own: raw result, checks or second copy, epilogue. */
#include "cpu/epilogue.h"
#include "plan/run.h"

/* How many elements of the result are not what a second evaluation gives. */
static int64_t differ_epilogue(rdt_run *r, int64_t *first) {
  rdt_plan *p = r->p;
  const int channel = rdt_problem_channel(&p->prob);
  for (int tries = 0; tries < 3; tries++) {
    int64_t found[2] = {0, -1};
    found[0] = rdt_epilogue_verify(r->o->epilogue, &r->buf[RDT_BUF_RESULT], &r->o->out, channel, p->threads, &found[1],
                                   &p->out_seal);
    rdt_plan_plant_words(p, RDT_SITE_COMPARISON, found, 2, RDT_S64);
    *first = found[1];
    if ((found[0] == 0) == (found[1] == -1)) return found[0];
    rdt_run_tell_checker(r, tries < 2 ? RDT_RECOMPUTED : RDT_DETECTED, "comparison");
  }
  return 0; /* it is told */
}

static rdt_status epilogue(rdt_run *r, bool applied) {
  rdt_plan *p = r->p;
  const rdt_epilogue *e = r->o->epilogue;
  rdt_tensor *out = (rdt_tensor *)&r->o->out;
  const rdt_tensor *raw = &r->buf[RDT_BUF_RESULT];
  const int channel = rdt_problem_channel(&p->prob);
  if (!applied) rdt_epilogue_apply(e, raw, out, channel, p->threads);
  rdt_plan_plant(p, RDT_SITE_EPILOGUE, out);
  for (int tries = 0; tries < 3; tries++) {
    int64_t first = -1;
    const int64_t wrong = differ_epilogue(r, &first);
    r->res->checks++;
    p->out_sealed = wrong == 0 && rdt_epilogue_sums(out);
    if (wrong == 0) return RDT_OK;
    const bool last = tries == 2 || !rdt_run_repairs(p);
    const rdt_recovered v = {.verdict = last ? RDT_DETECTED : RDT_RECOMPUTED,
                             .diagnosis = tries == 0 ? RDT_DIAG_TRANSIENT : RDT_DIAG_PERSISTENT,
                             .what = "epilogue",
                             .fault = true,
                             .core = p->threads == 1 ? rdt_cpu_current() : -1,
                             .changed = wrong,
                             .first = first};
    rdt_run_tell(r, RDT_EVENT_FAULT, &v);
    if (last) return RDT_OK;
    rdt_epilogue_apply(e, raw, out, channel, p->threads);
  }
  return RDT_OK;
}

/* What is left of a planted fault: after rebuilding, or where some of several were too small to be seen. */
static rdt_status book_left(rdt_run *r, const rdt_recovered *v) {
  rdt_plan *p = r->p;
  const rdt_fault *f = p->broken ? p->broken : p->fault;
  const bool rebuilt = v->verdict == RDT_CORRECTED, again = v->verdict == RDT_RECOMPUTED && f;
  const bool several = again && (f->count[1] > 1 || f->kind == RDT_FAULT_BER || f->lane >= 0);
  if (!r->know_clean || !p->injection->done || !(rebuilt || several)) return RDT_OK;
  if (!p->known) {
    RDT_TRY(rdt_run_compute(r, RDT_BUF_SPARE, false, r->why));
    r->clean.data = r->buf[RDT_BUF_SPARE].data;
  }
  rdt_plan_book_left(p, r->o, &r->clean, &r->buf[RDT_BUF_RESULT]);
  p->injection->rebuilt = rebuilt;
  p->injection->stated = rebuilt ? v->corrected_bound : r->found.floor;
  return RDT_OK;
}

/* Some counters are hit before they are read, some after. */
void rdt_run_plant_counter(rdt_run *r, bool late) {
  if (!rdt_run_armed(r) || (rdt_fault_random(r->p->fault, 17) % 2 != 0) != late) return;
  rdt_plan_plant_words(r->p, RDT_SITE_COUNTER, &r->found.checks, 5, RDT_S64);
}

/* After checks: do their two ways agree? */
bool rdt_run_agree(rdt_run *r) {
  rdt_plan_struck(r->p, &r->found);
  rdt_run_plant_counter(r, false);
  return rdt_findings_agree(&r->found);
}

/* Checksums find a fault; the ladder settles it. *touched: the raw result is no longer what verify saw. */
static rdt_status run_checked(rdt_run *r, rdt_tensor *fin, bool *touched) {
  rdt_plan *p = r->p;
  const rdt_recovery recovery = rdt_run_recovery(r);
  RDT_TRY(rdt_run_first(r));
  if (!(r->checking > 0.0)) r->checking = rdt_clock(); /* until the end: the epilogue is evaluated once more, too */
  RDT_TRY(rdt_plan_sums(p, r->why));
  rdt_operands o = rdt_run_raw(r, RDT_BUF_RESULT);
  o.epilogue = r->o->epilogue;
  rdt_plan_strike(p, &r->found, &r->strike);
  RDT_TRY(p->scheme->impl->verify(p->sums, &o, fin, &r->found, r->why));
  if (!rdt_run_agree(r)) {
    RDT_TRY(rdt_run_check(r, RDT_BUF_RESULT, &r->found, r->why));
    rdt_run_tell_checker(r, RDT_RECOMPUTED, "comparison");
  }
  if (rdt_findings_complain(&r->found)) {
    rdt_recovered v;
    r->settled = true;
    rdt_where_doubt(&r->where, &r->where.first, &r->found);
    RDT_TRY(rdt_recover_checked(&recovery, rdt_run_repairs(p), &v, r->why));
    if (v.diagnosis != RDT_DIAG_PERSISTENT && v.diagnosis != RDT_DIAG_UNKNOWN) v.core = RDT_CORE_OF_PLACE;
    rdt_run_tell(r,
                 v.fault                      ? RDT_EVENT_FAULT
                 : v.verdict == RDT_UNCHECKED ? RDT_EVENT_UNCHECKED
                                              : RDT_EVENT_SUSPECT,
                 &v);
    *touched = v.changed > 0 && v.verdict != RDT_DETECTED;
    RDT_TRY(book_left(r, &v));
  }
  return RDT_OK;
}

/* A second copy that was not kept is computed again; all three are there. */
rdt_status rdt_run_compare(rdt_run *r) {
  if (!r->buf[RDT_BUF_SPARE].data) RDT_TRY(rdt_run_second(r, r->why));
  int64_t found[2] = {0, -1}; /* how many, the first */
  found[0] =
      rdt_tensors_differ(&r->buf[RDT_BUF_RESULT], &r->buf[RDT_BUF_SPARE], r->p->threads, &found[1], &r->p->out_seal);
  if (r->p->scheme->id == RDT_SCHEME_TMR_SM) {
    int64_t first;
    found[0] += rdt_tensors_differ(&r->buf[RDT_BUF_RESULT], &r->buf[RDT_BUF_THIRD], r->p->threads, &first, NULL);
    if (first >= 0 && (found[1] < 0 || first < found[1])) found[1] = first;
  }
  rdt_plan_plant_words(r->p, RDT_SITE_COMPARISON, found, 2, RDT_S64);
  rdt_findings_init(&r->found);
  rdt_findings_bits(&r->found, rdt_tensor_count(&r->o->out), found[0], found[1]);
  return RDT_OK;
}

/* Both copies, and what their comparison finds. */
static rdt_status compare_twice(rdt_run *r) {
  rdt_slices_found slices;
  double t = rdt_clock();
  RDT_TRY(rdt_run_slices(r, &slices));
  if (slices == RDT_SLICES_CANNOT) {
    RDT_TRY(rdt_run_twice(r));
    t = rdt_clock();
    RDT_TRY(rdt_run_compare(r));
    r->p->out_sealed = r->raw_is_out;
    r->check += rdt_clock() - t;
    return RDT_OK;
  }
  r->check += (rdt_clock() - t) / 2;
  if (slices == RDT_SLICES_ALIKE) {
    rdt_findings_bits(&r->found, rdt_tensor_count(&r->o->out), 0, -1);
    return RDT_OK;
  }
  RDT_TRY(rdt_run_compare(r));
  r->p->out_sealed = r->raw_is_out;
  if (rdt_findings_complain(&r->found)) return RDT_OK;
  const rdt_recovered v = {.verdict = RDT_RECOMPUTED, /* the result is right: the copy that is gone was not */
                           .diagnosis = RDT_DIAG_TRANSIENT,
                           .what = "second copy",
                           .fault = true,
                           .first = -1,
                           .core = r->where.copy[1].moved ? -1 : r->where.copy[1].core};
  rdt_run_tell(r, RDT_EVENT_FAULT, &v);
  return RDT_OK;
}

static rdt_status compare_thrice(rdt_run *r) {
  double t = rdt_clock();
  RDT_TRY(rdt_run_thrice(r));
  r->check += (rdt_clock() - t) * 2 / 3;
  t = rdt_clock();
  RDT_TRY(rdt_run_compare(r));
  r->p->out_sealed = r->raw_is_out;
  r->check += rdt_clock() - t;
  return RDT_OK;
}

static rdt_status run_copies(rdt_run *r) {
  const rdt_recovery recovery = rdt_run_recovery(r);
  const bool thrice = r->p->scheme->id == RDT_SCHEME_TMR_SM;
  RDT_TRY(thrice ? compare_thrice(r) : compare_twice(r));
  const double t = rdt_clock();
  if (!rdt_run_agree(r) || rdt_findings_complain(&r->found)) {
    RDT_TRY(rdt_run_compare(r));
    if (!rdt_findings_complain(&r->found)) rdt_run_tell_checker(r, RDT_RECOMPUTED, "comparison");
  }
  if (rdt_findings_complain(&r->found)) r->p->out_sealed = false;
  if (rdt_findings_complain(&r->found)) {
    rdt_recovered v;
    r->settled = true;
    RDT_TRY(thrice ? rdt_run_elect(r, &v) : rdt_recover_voted(&recovery, rdt_run_repairs(r->p), &v, r->why));
    if (!thrice && v.diagnosis != RDT_DIAG_PERSISTENT && v.diagnosis != RDT_DIAG_UNKNOWN) v.core = RDT_CORE_OF_PLACE;
    rdt_run_tell(r, RDT_EVENT_FAULT, &v);
  }
  r->check += rdt_clock() - t;
  return RDT_OK;
}

/* With passes of its own: raw result, check, epilogue. */
rdt_status rdt_run_apart(rdt_run *r) {
  rdt_plan *p = r->p;
  bool redo = p->scheme->impl == NULL; /* the epilogue is still to be computed */
  rdt_tensor *fin = r->raw_is_out ? NULL : (rdt_tensor *)&r->o->out;
  RDT_TRY(p->scheme->impl ? run_checked(r, fin, &redo) : run_copies(r));
  if (!fin) return RDT_OK;
  if (!(r->checking > 0.0)) r->checking = rdt_clock();
  return epilogue(r, !redo);
}
