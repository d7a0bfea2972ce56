/* What is done where a check complains: rebuilt, computed again, computed otherwise, or given up. */
#include <inttypes.h>
#include <stdio.h>

#include "outofcore/pipeline_state.h"

enum { TRIES = 3 }; /* twice on the same code path, then on the other one */

typedef struct story { /* of one complaint, for the event */
  rdt_event_kind kind;
  rdt_verdict verdict;
  rdt_diagnosis diagnosis;
  const char *what;
  rdt_settlement s;
  int operand;       /* that changed in memory */
  rdt_suspect worst; /* check of the complaint */
} story;

static void say(const rdt_pipeline *p, const rdt_step *step, const story *x, char *text, size_t size) {
  const char *const line[2] = {"row", "column"};
  int64_t place[2];
  rdt_pipeline_place(p, step, place);
  const bool several = p->job->task->devices > 1;
  const int n = snprintf(text, size, "block %" PRId64 ", %" PRId64 " of C%s%s: ", step->i, step->j,
                         several ? ", on " : "", several ? p->job->device : "");
  char *at = text + n;
  const size_t room = size - (size_t)n;
  if (x->verdict == RDT_CORRECTED)
    snprintf(at, room, "%" PRId64 " element%s of %s %" PRId64 " rebuilt from checksums, within %.3g", x->s.count,
             x->s.count == 1 ? "" : "s", line[x->s.axis], place[x->s.axis] + x->s.line, x->s.bound);
  else if (x->kind == RDT_EVENT_SUSPECT)
    snprintf(at, room, "a sum beyond its bound was rounding: computed again, with the same bits");
  else if (x->diagnosis == RDT_DIAG_CHECKER && x->s.count > 0)
    snprintf(at, room, "%" PRId64 " checksum%s of %ss hit (first %" PRId64 "), formed again; the data were in order",
             x->s.count, x->s.count == 1 ? "" : "s", line[x->s.axis], place[x->s.axis] + x->s.line);
  else if (x->diagnosis == RDT_DIAG_CHECKER)
    snprintf(at, room, "its checksums were hit: computed again, with the same bits");
  else if (x->diagnosis == RDT_DIAG_MEMORY)
    snprintf(at, room, "the block of %s changed in memory: loaded and computed again", x->operand ? "B" : "A");
  else if (x->s.overflowing)
    snprintf(at, room,
             "values beyond what %s holds: the same when computed again; sums that meet them cannot be checked",
             rdt_dtype_name(p->job->task->out));
  else if (x->kind == RDT_EVENT_UNCHECKED)
    snprintf(at, room, "NaN or Inf in A or B: sums that meet them cannot be checked");
  else if (x->verdict == RDT_DETECTED)
    snprintf(at, room, "wrong, and wrong again on both code paths: not repaired");
  else
    snprintf(at, room, "wrong, computed again%s",
             x->diagnosis == RDT_DIAG_PERSISTENT ? ": on another code path, for the same one lost again" : "");
}

static void emit(rdt_pipeline *p, int lane, const story *x) {
  const rdt_step *step = &p->lane[lane].step;
  const rdt_block *b = &p->block[step->slot[2]];
  const rdt_findings *f = &p->lane[lane].found;
  char text[256], node[64];
  int64_t place[2];
  rdt_pipeline_place(p, step, place);
  say(p, step, x, text, sizeof text);
  snprintf(node, sizeof node, "block %" PRId64 ",%" PRId64, step->i, step->j);
  const bool located = x->s.line >= 0, single = located && x->s.count == 1 && x->s.other >= 0;
  const rdt_event e = {
      .kind = x->kind,
      .node = node,
      .op = "matmul",
      .scheme = "rowcol",
      .kernel = p->job->task->on->name,
      .what = x->what,
      .place = {located && (single || x->s.axis == 0) ? place[0] + (x->s.axis == 0 ? x->s.line : x->s.other) : -1,
                located && (single || x->s.axis == 1) ? place[1] + (x->s.axis == 1 ? x->s.line : x->s.other) : -1},
      .residual = x->worst.residual,
      .bound = x->worst.bound.tau2,
      .bound_rigorous = x->worst.bound.tau0,
      .verdict = x->verdict,
      .diagnosis = x->diagnosis,
      .changed = x->verdict == RDT_CORRECTED        ? x->s.count
                 : x->diagnosis == RDT_DIAG_CHECKER ? 0
                                                    : -1,
      .text = text,
      .dtype = rdt_dtype_name(b->c.dtype),
      .rank = 2,
      .shape = {b->c.shape[0], b->c.shape[1]},
      .floor = f->floor,
      .element = -1,
      .valued = x->verdict == RDT_CORRECTED,
      .expected = x->s.after,
      .actual = x->s.before,
      .corrected_bound = x->verdict == RDT_CORRECTED ? x->s.bound : 0.0,
      .core = -1};
  pthread_mutex_lock(&p->job->shared->lock);
  rdt_context_emit(p->job->ctx, &e);
  pthread_mutex_unlock(&p->job->shared->lock);
  if (x->kind == RDT_EVENT_FAULT) p->result->faults++;
  rdt_verdict *v = &p->entry[step->slot[2]].verdict;
  if (x->kind != RDT_EVENT_SUSPECT && x->verdict > *v) *v = x->verdict;
}

/* All products of the block so far, from the files, into the places of the last one. */
static rdt_status again(rdt_pipeline *p, int lane, bool other, rdt_findings *f, rdt_reason *why) {
  const rdt_step *now = &p->lane[lane].step;
  const int64_t parts = rdt_blocks_of(p->job->task->k, p->job->splits->k);
  int64_t place[2];
  double seconds = 0.0;
  rdt_pipeline_place(p, now, place);
  for (int64_t part = 0; part <= now->part; part++) {
    rdt_step s = *now;
    s.part = part;
    s.t = s.backwards ? parts - 1 - part : part;
    for (int x = 0; x < 2; x++) RDT_TRY(rdt_pipeline_load(p, &s, x, NULL, &seconds, why));
    RDT_TRY(rdt_pipeline_multiply(p, &s, other, why));
    RDT_TRY(rdt_pipeline_plant(p, &s, RDT_SITE_ACCUM, other ? 2 : 1, why));
    RDT_TRY(rdt_block_check(&p->block[s.slot[2]], place, f, NULL, why));
  }
  p->result->checks += f->checks;
  p->result->recomputed++;
  return RDT_OK;
}

static rdt_status bits(const rdt_pipeline *p, const rdt_step *s, uint64_t *sum, rdt_reason *why) {
  const rdt_task *t = p->job->task;
  return t->on->seal(t->dev, s->lane, &p->block[s->slot[2]].c, p->threads, sum, why);
}

/* Sums without a finite bound, of a result that came out twice with the same bits: no fault is known, nor excluded. */
static rdt_status overflowed(rdt_pipeline *p, int lane, bool fault, const rdt_findings *f, const rdt_suspect *worst) {
  const bool last = p->lane[lane].step.last;
  const story x = {.kind = fault ? RDT_EVENT_FAULT : RDT_EVENT_UNCHECKED,
                   .verdict = RDT_UNCHECKED,
                   .diagnosis = fault ? RDT_DIAG_TRANSIENT : RDT_DIAG_NONE,
                   .what = "result",
                   .s = {.line = -1, .other = -1, .overflowing = true},
                   .worst = *worst};
  if (last) p->result->unchecked += f->cannot;
  if (last || fault) emit(p, lane, &x);
  return RDT_OK;
}

/* Computes again until nothing complains, or what does is known to be rounding. */
static rdt_status recompute(rdt_pipeline *p, int lane, int changed, bool certain, rdt_findings *f, rdt_reason *why) {
  const rdt_step *step = &p->lane[lane].step;
  const rdt_suspect worst = f->worst;
  const bool memory = changed >= 0;
  int64_t place[2];
  rdt_pipeline_place(p, step, place);
  for (int i = 0; i < TRIES; i++) {
    uint64_t before, after;
    const bool other = i + 1 == TRIES;
    rdt_settlement s;
    RDT_TRY(bits(p, step, &before, why));
    RDT_TRY(again(p, lane, other, f, why));
    RDT_TRY(bits(p, step, &after, why));
    const bool same = after == before;
    story x = {.kind = RDT_EVENT_FAULT,
               .verdict = RDT_RECOMPUTED,
               .what = "result",
               .s = {.line = -1, .other = -1},
               .operand = changed,
               .worst = worst};
    if (rdt_findings_complain(f)) {
      RDT_TRY(rdt_block_settle(&p->block[step->slot[2]], place, false, f, &s, why));
      const bool repeated = s.how == RDT_SETTLED_AGAIN && same && !s.certain;
      if (repeated && s.overflowing) return overflowed(p, lane, i > 0, f, &worst);
      const bool rounding = repeated && !certain;
      if (s.how != RDT_SETTLED_UNCHECKED && !rounding) {
        certain = certain || s.certain;
        continue;
      }
      if (rounding) p->result->suspects++;
      if (rounding) x.kind = RDT_EVENT_SUSPECT, x.verdict = RDT_CLEAN;
    }
    x.diagnosis = memory ? RDT_DIAG_MEMORY : other ? RDT_DIAG_PERSISTENT : same ? RDT_DIAG_CHECKER : RDT_DIAG_TRANSIENT;
    /* A plain product, too, where sums of quarters overflow: then no machine is to blame. */
    if (x.diagnosis == RDT_DIAG_PERSISTENT && p->job->task->strassen) x.diagnosis = RDT_DIAG_UNKNOWN;
    if (x.kind == RDT_EVENT_SUSPECT) x.diagnosis = RDT_DIAG_NONE;
    if (x.diagnosis == RDT_DIAG_CHECKER) x.what = "checksum";
    if (memory) x.what = "activation";
    emit(p, lane, &x);
    return RDT_OK;
  }
  const story x = {.kind = RDT_EVENT_FAULT,
                   .verdict = RDT_DETECTED,
                   .diagnosis = RDT_DIAG_UNKNOWN,
                   .what = "result",
                   .s = {.line = -1, .other = -1},
                   .worst = worst};
  emit(p, lane, &x);
  p->result->verdict = RDT_DETECTED;
  return rdt_fail(why, RDT_ERR_FAULT,
                  "block %" PRId64 ", %" PRId64
                  " of C is wrong on both code paths and was not written; finished blocks "
                  "are kept: --resume goes on",
                  step->i, step->j);
}

/* Sums of halves bring what is not a number to rows and columns that have nothing to do with it: without them. */
static rdt_status without_halves(rdt_pipeline *p, int lane, rdt_reason *why) {
  p->block[p->lane[lane].step.slot[2]].strassen = false;
  return again(p, lane, false, &p->lane[lane].found, why);
}

static rdt_status settle_once(rdt_pipeline *p, int lane, bool *accepted, rdt_reason *why) {
  const rdt_step *step = &p->lane[lane].step;
  rdt_findings *f = &p->lane[lane].found;
  rdt_settlement s = {.how = RDT_SETTLED_AGAIN, .certain = true};
  int64_t place[2];
  const int changed = p->lane[lane].changed;
  const rdt_suspect worst = f->worst;
  p->lane[lane].changed = -1;
  rdt_pipeline_place(p, step, place);
  *accepted = true;
  if (changed < 0) RDT_TRY(rdt_block_settle(&p->block[step->slot[2]], place, !p->job->asked->recompute, f, &s, why));
  story x = {.kind = RDT_EVENT_FAULT, .what = "result", .s = s, .worst = worst};
  switch (s.how) {
    case RDT_SETTLED_REBUILT:
      x.verdict = RDT_CORRECTED;
      x.diagnosis = RDT_DIAG_UNKNOWN; /* nothing was computed again */
      p->result->rebuilt += s.count;
      if (s.bound > p->result->bound) p->result->bound = s.bound;
      *accepted = false;
      break;
    case RDT_SETTLED_CHECKSUM:
      x.verdict = RDT_RECOMPUTED;
      x.diagnosis = RDT_DIAG_CHECKER;
      x.what = "checksum";
      *accepted = false;
      break;
    case RDT_SETTLED_UNCHECKED:
      if (p->block[step->slot[2]].strassen) {
        *accepted = false;
        return without_halves(p, lane, why);
      }
      p->result->unchecked += step->last ? f->cannot : 0;
      if (!step->last) return RDT_OK;
      x.kind = RDT_EVENT_UNCHECKED;
      x.verdict = RDT_UNCHECKED;
      break;
    case RDT_SETTLED_AGAIN:
      return recompute(p, lane, changed, s.certain, f, why);
  }
  emit(p, lane, &x);
  return RDT_OK;
}

rdt_status rdt_pipeline_settle(rdt_pipeline *p, int lane, rdt_reason *why) {
  const rdt_step *step = &p->lane[lane].step;
  rdt_findings *f = &p->lane[lane].found;
  bool accepted = false, touched = false;
  while (!accepted && (p->lane[lane].changed >= 0 || rdt_findings_complain(f))) {
    RDT_TRY(settle_once(p, lane, &accepted, why));
    touched = true;
    if (accepted) break;
    RDT_TRY(rdt_pipeline_check(p, step, f, why)); /* what is checked now is what is stored */
  }
  if (touched && accepted && step->last) return bits(p, step, &p->entry[step->slot[2]].sum, why);
  return RDT_OK;
}
