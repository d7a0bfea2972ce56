/* After a complaint: what was it, and all that it reached computed again. Everything that the run computed is still
 * there, so the steps are walked in their order: those that complained, and those that read what has changed since. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/ops/ops.h"
#include "cuda/vote.h"
#include "cuda/written.h"
#include "net/remote.h"
#include "screen/screen.h"

typedef struct mend {
  rdt_remote *r;
  uint64_t *expected, *found; /* by slot, as the run left them */
  rdt_cuda_verdict *verdicts; /* by step */
  bool *stale;                /* values that are not what their readers have read */
  bool *rotten;               /* constants that had changed, by mirror */
  rdt_reason *why;
} mend;

/* Of three copies one has lost (cuda/vote.h): what is there is what the other two say; or all three differed, and it is
 * what they came to once more (k_first -1). */
static bool outvoted(const rdt_cuda_verdict *v) {
  return v->suspect && !v->certain && !v->cannot && v->listed &&
         (v->list[0].complaint == (int)RDT_CUDA_OUTVOTED || v->list[0].complaint == (int)RDT_CUDA_AGAIN);
}

/* What was found out about a step. */
typedef struct finding {
  rdt_event_kind kind;
  rdt_verdict verdict;
  rdt_diagnosis diagnosis;
  const char *what;
  bool changed;
  bool voted; /* a copy has lost, */
  bool again; /* or all three, and the launch has computed it again */
  int sm;     /* plus one: the multiprocessor that fails known products; 0: not known */
} finding;

/* ---- telling ---- */

static const char *ending(const finding *f) {
  return f->again                              ? "found and computed again from the last vote"
         : f->voted                            ? "outvoted by the other two"
         : f->verdict == RDT_DETECTED          ? "found and not repaired"
         : f->verdict == RDT_UNCHECKED         ? "which leaves no bound; a second run gave the same bits"
         : f->kind == RDT_EVENT_SUSPECT        ? "was rounding: the same bits again"
         : f->diagnosis == RDT_DIAG_MEMORY     ? "found and restored"
         : f->diagnosis == RDT_DIAG_PERSISTENT ? "found, and computed on the host"
         : f->changed                          ? "found and computed again"
                                               : "found; the result was right";
}

static void tell(mend *e, int i, const finding *f) {
  rdt_model *m = e->r->model;
  rdt_step *s = &m->steps[i];
  const rdt_cuda_verdict *v = &e->verdicts[i];
  const rdt_cuda_finding *l = v->listed > 0 ? &v->list[0] : NULL;
  const rdt_remote_group *g = rdt_remote_group_of(e->r, i);
  const bool linear = e->r->steps[i].linear && (!g || g->mlp),
             layer = g && g->mlp && l && l->k_first >= 0 && l->k_first < g->n;
  char text[400], where[64] = "";
  const rdt_step *of = layer ? &m->steps[g->steps[l->k_first]] : s; /* the layer of a chain that complained */
  const char *name = s->kind == RDT_STEP_NODE     ? m->graph->nodes[of->subject].name
                     : s->kind == RDT_STEP_IMPORT ? m->graph->values[m->graph->inputs[s->subject]].name
                                                  : m->graph->values[m->graph->outputs[s->subject]].name;
  if (l && f->diagnosis != RDT_DIAG_MEMORY && l->sm >= 0) snprintf(where, sizeof where, " (multiprocessor %d)", l->sm);
  if (f->again)
    snprintf(where, sizeof where, " (in all three copies)");
  else if (f->voted && l->sm < 0)
    snprintf(where, sizeof where, " (copy %d of three)", l->k_first);
  else if (f->voted)
    snprintf(where, sizeof where, " (copy %d of three, by multiprocessor %d)", l->k_first, l->sm);
  if (f->sm) snprintf(where, sizeof where, " (copy %d of three, by multiprocessor %d)", l->k_first, f->sm - 1);
  snprintf(text, sizeof text, "%.160s: a %s fault in the %s%s, %s", name, rdt_diagnosis_name(f->diagnosis), f->what,
           where, ending(f));
  if (f->kind == RDT_EVENT_SUSPECT && l)
    snprintf(text, sizeof text, "%.160s: a residual of %.3g above the statistical bound %.3g %s", name,
             fabs((double)l->observed - (double)l->expected), (double)l->tau2, ending(f));
  if (f->kind == RDT_EVENT_UNCHECKED)
    snprintf(text, sizeof text, "%.160s: NaN, Inf or numbers that are too large among what it sums, %s", name,
             ending(f));
  rdt_event event = {.kind = f->kind,
                     .node = name,
                     .op = s->kind == RDT_STEP_NODE ? m->graph->nodes[of->subject].label : "copy",
                     .scheme = rdt_remote_scheme(e->r, i),
                     .kernel = rdt_step_kernel(s),
                     .what = f->what,
                     .place = {-1, -1},
                     .verdict = f->verdict,
                     .diagnosis = f->diagnosis,
                     .changed = f->changed ? -1 : 0,
                     .text = text,
                     .dtype = rdt_dtype_name(of->prob.out.dtype),
                     .rank = of->prob.out.rank,
                     .element = -1,
                     .core = -1};
  memcpy(event.shape, of->prob.out.shape, sizeof event.shape); /* that place is in */
  if (l) {
    event.place[0] = l->row;
    event.place[1] = l->column;
    if (linear) {
      event.residual = fabs((double)l->observed - (double)l->expected);
      event.bound = (double)l->tau2;
      event.bound_rigorous = (double)l->tau0;
      event.floor = 2.0 * event.bound;
      s->result.residual = event.residual;
      s->result.bound = event.bound;
      s->result.floor = event.floor;
      s->result.ratio = event.bound > 0.0 ? event.residual / event.bound : 0.0;
    }
  }
  if (l && l->sm >= 0 && f->diagnosis != RDT_DIAG_MEMORY)
    event.device = rdt_context_device(m->ctx), event.multiprocessor = l->sm;
  rdt_context_emit(m->ctx, &event);
  s->result.suspects += v->suspect + v->certain > 0;
  if (f->kind == RDT_EVENT_FAULT) s->result.faults++;
  if (f->kind == RDT_EVENT_UNCHECKED) s->result.unchecked += v->cannot;
  if (f->verdict > s->result.verdict) s->result.verdict = f->verdict;
  if (f->diagnosis != RDT_DIAG_NONE) s->result.diagnosis = f->diagnosis;
  memcpy(s->result.place, event.place, sizeof event.place);
  if (f->verdict == RDT_DETECTED) rdt_fail(e->why, RDT_ERR_FAULT, "%s", text);
}

/* ---- what the device says ---- */

static rdt_status read_step(mend *e, int i) {
  rdt_remote *r = e->r;
  rdt_machine *m = r->machine;
  const rdt_cuda_verdict *there = rdt_remote_verdict(r, i);
  e->verdicts[i] = (rdt_cuda_verdict){0};
  if (there) RDT_TRY(m->get(m, RDT_LANE_MAIN, &e->verdicts[i], there, sizeof *there, e->why));
  RDT_TRY(m->wait(m, e->why));
  const bool written = rdt_cuda_is_written(&e->verdicts[i], sizeof e->verdicts[i]);
  rdt_cores_count_complaints(&r->model->ctx->sms, e->verdicts[i].sm, RDT_CUDA_SMS);
  if (e->verdicts[i].listed > RDT_CUDA_LISTED) e->verdicts[i].listed = RDT_CUDA_LISTED;
  if (!there || !written) return RDT_OK;
  RDT_TRY(m->clear(m, RDT_LANE_MAIN, (void *)(uintptr_t)there, sizeof *there, e->why));
  return m->wait(m, e->why);
}

/* What was not looked at, as nobody goes on after a fault, would be the next run's. */
static void forget_verdicts(rdt_remote *r) {
  for (int i = 0; i < r->model->n_steps; i++) {
    const rdt_cuda_verdict *there = r->steps[i].slot < 0 ? NULL : rdt_remote_verdict(r, i);
    if (there) (void)!r->machine->clear(r->machine, RDT_LANE_MAIN, (void *)(uintptr_t)there, sizeof *there, NULL);
  }
  (void)!r->machine->wait(r->machine, NULL);
}

static rdt_status read_sums(mend *e) {
  rdt_remote *r = e->r;
  rdt_machine *m = r->machine;
  const size_t bytes = (size_t)r->n_slots * sizeof(uint64_t);
  RDT_TRY(m->get(m, RDT_LANE_MAIN, e->expected, rdt_remote_expected(r, 0), bytes, e->why));
  RDT_TRY(m->get(m, RDT_LANE_MAIN, e->found, rdt_remote_found(r, 0), bytes, e->why));
  return m->wait(m, e->why);
}

static bool complains(const rdt_cuda_verdict *v) {
  return v->suspect || v->certain || v->cannot;
}

/* ---- one step ---- */

/* Once more on the device; the sum of what is there then. */
static rdt_status again(mend *e, int i, uint64_t *sum) {
  rdt_remote *r = e->r;
  rdt_machine *m = r->machine;
  const int slot = r->steps[i].slot;
  const rdt_remote_step *s = &r->steps[i];
  RDT_TRY(m->clear(m, RDT_LANE_MAIN, rdt_remote_expected(r, slot), sizeof *sum, e->why));
  const rdt_remote_group *g = rdt_remote_group_of(r, i);
  if (g) RDT_TRY(rdt_remote_group_renew(r, g, e->why));
  if (s->linear && !g) RDT_TRY(m->linear_renew(m, s->linear, s->prob.in[1].data, e->why));
  if (s->rows) RDT_TRY(rdt_remote_sum_rows(r, i, e->why));
  RDT_TRY(m->wait(m, e->why)); /* launches read what is made of weights before what is ahead of them has ended */
  RDT_TRY(m->follow(m, RDT_LANE_SIDE, e->why));
  RDT_TRY(rdt_remote_issue(r, i, e->why));
  RDT_TRY(rdt_remote_catch_up(r, e->why));
  RDT_TRY(m->get(m, RDT_LANE_MAIN, sum, rdt_remote_expected(r, slot), sizeof *sum, e->why));
  return read_step(e, i);
}

/* Of copies on different multiprocessors the same one has lost again: which of them fails products with known results?
 */
static rdt_status suspect(const mend *e, int i, finding *f) {
  rdt_machine *m = e->r->machine;
  rdt_sms *sms;
  int sm = -1;
  if (strcmp(rdt_remote_scheme(e->r, i), "tmr-sm") != 0) return RDT_OK;
  RDT_TRY(m->sms_open(m, &sms, e->why));
  const rdt_status status = rdt_screen_suspect(sms, NULL, &sm, e->why);
  sms->close(sms);
  f->sm = sm + 1;
  return status;
}

static bool reads_stale(const mend *e, int i) {
  for (int v = 0; v < e->r->model->graph->n_values; v++)
    if (e->stale[v] && rdt_remote_reads(e->r, i, v)) return true;
  return false;
}

/* The step's inputs are in order. */
static rdt_status redo(mend *e, int i, bool own) {
  rdt_remote *r = e->r;
  const rdt_step *s = &r->model->steps[i];
  const int slot = r->steps[i].slot;
  const rdt_cuda_verdict first = e->verdicts[i];
  const uint64_t before = e->found[slot];
  const bool fed = !own || reads_stale(e, i); /* with what has changed since */
  const bool moved = own && (e->expected[slot] != e->found[slot] || r->steps[i].doubt);
  uint64_t sum = 0;
  finding f = {.kind = RDT_EVENT_FAULT, .verdict = RDT_RECOMPUTED, .what = "result"};
  rdt_status status = RDT_OK;
  bool host = r->steps[i].host;
  if (!host) RDT_TRY(again(e, i, &sum));
  f.voted = !host && outvoted(&first) && sum == before;
  const bool rounding = !host && !f.voted && !first.certain && !e->verdicts[i].certain && sum == before;
  f.again = f.voted && first.list[0].k_first < 0;
  const bool lost_again =
      f.voted && !f.again && outvoted(&e->verdicts[i]) && e->verdicts[i].list[0].k_first == first.list[0].k_first;
  const bool indexed =
      s->prob.op == RDT_KOP_GATHER || s->prob.op == RDT_KOP_SCATTER; /* who says which index is wrong */
  if (!host && complains(&e->verdicts[i]) && (!rounding || indexed) && !(f.voted && outvoted(&e->verdicts[i]))) {
    f.diagnosis = RDT_DIAG_PERSISTENT;
    host = true;
  }
  if (host) {
    const rdt_cuda_verdict last = e->verdicts[i];
    status = rdt_remote_on_host(r, i, e->why);
    if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
    if (r->steps[i].doubt) status = rdt_fail(e->why, RDT_ERR_FAULT, "copies from the device are wrong, time and again");
    if (s->writes >= 0) sum = r->model->sums[s->writes];
    e->verdicts[i] = last;
  }
  f.changed = sum != before;
  /* Its readers compute again even where its sum is what it was: small differences of several elements may cancel. */
  if (s->writes >= 0 && !(rounding && !fed)) e->stale[s->writes] = true;
  e->expected[slot] = e->found[slot] = sum;
  if (!own) return status; /* it has done nothing wrong: it had read what was */
  if (complains(&first)) e->verdicts[i] = first;
  if (status == RDT_ERR_FAULT) {
    f.verdict = RDT_DETECTED;
    f.diagnosis = RDT_DIAG_UNKNOWN;
  } else if (f.diagnosis == RDT_DIAG_PERSISTENT) {
  } else if (f.voted) {
    f.diagnosis = lost_again ? RDT_DIAG_PERSISTENT : RDT_DIAG_TRANSIENT;
    if (lost_again) RDT_TRY(suspect(e, i, &f));
  } else if (moved && (f.changed || r->steps[i].doubt)) {
    f.diagnosis = RDT_DIAG_MEMORY; /* or the first of two evaluations by one launch was wrong */
    f.what = "activation";
  } else if (rounding && first.cannot) {
    f.kind = RDT_EVENT_UNCHECKED;
    f.verdict = RDT_UNCHECKED;
  } else if (rounding && first.suspect) {
    f.kind = RDT_EVENT_SUSPECT;
    f.verdict = RDT_CLEAN;
  } else {
    f.diagnosis = f.changed ? RDT_DIAG_TRANSIENT : RDT_DIAG_CHECKER;
    if (!f.changed) f.what = "checksum";
  }
  tell(e, i, &f);
  return status;
}

/* ---- constants and inputs ---- */

/* Who reads a constant that had changed computes again, and says so. */
static rdt_status restore_constants(mend *e) {
  rdt_remote *r = e->r;
  RDT_TRY(rdt_remote_scrub(r, e->rotten, e->why));
  for (int c = 1; c < r->n_mirrors; c++) {
    if (!e->rotten[c]) continue;
    RDT_TRY(rdt_remote_restore(r, c, e->why));
    e->stale[r->mirrors[c].value] = true;
  }
  return RDT_OK;
}

static bool reads_rotten(const mend *e, int i) {
  for (int c = 1; c < e->r->n_mirrors; c++)
    if (e->rotten[c] && rdt_remote_reads(e->r, i, e->r->mirrors[c].value)) return true;
  return false;
}

/* ---- all ---- */

static rdt_status walk(mend *e, const rdt_tensor *inputs) {
  rdt_remote *r = e->r;
  rdt_model *model = r->model;
  rdt_machine *m = r->machine;
  const bool repair =
      model->ctx->policy.on_fault == RDT_ON_FAULT_RECOMPUTE || model->ctx->policy.on_fault == RDT_ON_FAULT_CORRECT;
  rdt_status worst = RDT_OK;
  RDT_TRY(restore_constants(e));
  RDT_TRY(rdt_remote_carry(r, inputs, e->why));
  RDT_TRY(m->put(m, RDT_LANE_MAIN, r->in.there, r->in.host, r->in.bytes, e->why));
  RDT_TRY(m->wait(m, e->why));
  for (int i = 0; i < model->n_steps; i++) {
    const rdt_step *s = &model->steps[i];
    const int slot = r->steps[i].slot;
    if (slot < 0 || rdt_remote_absorbed(r, i)) continue;
    RDT_TRY(read_step(e, i));
    const int given = model->graph->n_outputs + s->subject;
    const bool hit = s->kind == RDT_STEP_IMPORT && e->expected[given] != e->found[given];
    const bool weight = reads_rotten(e, i), rot = weight || hit;
    const bool own = complains(&e->verdicts[i]) || e->expected[slot] != e->found[slot] || rot || r->steps[i].doubt;
    if (!own && !reads_stale(e, i)) continue;
    rdt_status status = RDT_ERR_FAULT;
    if (!repair) {
      const bool voted = !rot && outvoted(&e->verdicts[i]); /* the vote has written already */
      const finding f = {.kind = RDT_EVENT_FAULT,
                         .verdict = voted ? RDT_RECOMPUTED : RDT_DETECTED,
                         .diagnosis = RDT_DIAG_UNKNOWN,
                         .what = rot ? "weight" : "result",
                         .voted = voted,
                         .again = voted && e->verdicts[i].list[0].k_first < 0};
      if (voted) status = RDT_OK;
      if (own) tell(e, i, &f);
    } else if (rot) {
      const rdt_cuda_verdict seen = e->verdicts[i];
      const finding f = {.kind = RDT_EVENT_FAULT,
                         .verdict = RDT_RECOMPUTED,
                         .diagnosis = RDT_DIAG_MEMORY,
                         .what = weight ? "weight" : "activation",
                         .changed = true};
      status = redo(e, i, false);
      const bool still = complains(&e->verdicts[i]);
      e->verdicts[i] = seen;
      tell(e, i, &f);
      if (still)
        worst = rdt_fail(e->why, RDT_ERR_FAULT, "%s: still wrong after its weights were restored", rdt_step_kernel(s));
    } else {
      status = redo(e, i, own);
    }
    if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
    if (status != RDT_OK) worst = status;
    if (worst != RDT_OK && model->ctx->policy.on_fault == RDT_ON_FAULT_ABORT) return worst;
  }
  return worst;
}

/* All sums once more, and the outputs once more: are they in order now? */
static rdt_status confirm(mend *e) {
  rdt_remote *r = e->r;
  rdt_machine *m = r->machine;
  const size_t bytes = (size_t)r->n_slots * sizeof(uint64_t);
  RDT_TRY(m->clear(m, RDT_LANE_MAIN, rdt_remote_found(r, 0), bytes, e->why));
  RDT_TRY(m->put(m, RDT_LANE_MAIN, rdt_remote_expected(r, r->model->graph->n_outputs), r->input_sums,
                 (size_t)r->model->graph->n_inputs * sizeof(uint64_t), e->why));
  rdt_remote_forget(r);
  RDT_TRY(rdt_remote_close(r, true, e->why));
  RDT_TRY(m->wait(m, e->why));
  const bool clean = rdt_remote_is_clean(r, false);
  return rdt_remote_publish(r) && clean
             ? RDT_OK
             : rdt_fail(e->why, RDT_ERR_FAULT, "%s: what was repaired on the device does not stay so",
                        r->model->graph->path);
}

static rdt_status mend_all(mend *e, const rdt_tensor *inputs) {
  rdt_model *m = e->r->model;
  RDT_TRY(read_sums(e));
  rdt_status status = walk(e, inputs);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  const bool report = m->ctx->policy.on_fault == RDT_ON_FAULT_REPORT;
  const rdt_status confirmed = status == RDT_OK || report ? confirm(e) : RDT_OK;
  if (status != RDT_OK || confirmed == RDT_OK) return status;
  m->steps[m->n_steps - 1].result.verdict = RDT_DETECTED;
  m->steps[m->n_steps - 1].result.faults++;
  return confirmed;
}

/* What was known before is said where nothing else is found: the answer itself was hit, or a check never ran. */
static void tell_answer(mend *e) {
  const rdt_model *m = e->r->model;
  for (int i = 0; i < m->n_steps; i++)
    if (m->steps[i].result.faults || m->steps[i].result.suspects || m->steps[i].result.unchecked) return;
  rdt_model_tell(e->r->model, m->graph->path, "verdict", RDT_DIAG_CHECKER, "what came back from the device was wrong");
  m->steps[m->n_steps - 1].result.verdict = RDT_RECOMPUTED;
  m->steps[m->n_steps - 1].result.diagnosis = RDT_DIAG_CHECKER;
  m->steps[m->n_steps - 1].result.faults++;
}

rdt_status rdt_remote_mend(rdt_remote *r, const rdt_tensor *inputs, rdt_reason *why) {
  const rdt_model *m = r->model;
  mend e = {.r = r,
            .why = why,
            .expected = rdt_calloc((size_t)r->n_slots + 1, sizeof *e.expected),
            .found = rdt_calloc((size_t)r->n_slots + 1, sizeof *e.found),
            .verdicts = rdt_calloc((size_t)m->n_steps, sizeof *e.verdicts),
            .stale = rdt_calloc((size_t)m->graph->n_values, sizeof *e.stale),
            .rotten = rdt_calloc((size_t)r->n_mirrors, sizeof *e.rotten)};
  rdt_status status = RDT_ERR_NOMEM;
  if (e.expected && e.found && e.verdicts && e.stale && e.rotten) {
    r->mending = true;
    status = mend_all(&e, inputs);
    r->mending = false;
    if (status == RDT_OK) tell_answer(&e);
  } else {
    rdt_fail(why, status, "out of memory to repair what a device computed");
  }
  if (status != RDT_OK) forget_verdicts(r);
  rdt_free(e.expected);
  rdt_free(e.found);
  rdt_free(e.verdicts);
  rdt_free(e.stale);
  rdt_free(e.rotten);
  return status;
}
