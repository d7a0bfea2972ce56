/* One execution of a plan: compute, check, recover, finish, report. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "check/verdict.h"
#include "core/memory.h"
#include "cpu/epilogue.h"
#include "cpu/threads.h"
#include "plan/cores.h"

/* One run of one plan. result, spare, third share shape and strides: the raw result of a linear op, the result of a
 * duplicated one. */
typedef struct run {
  rdt_plan *p;
  const rdt_operands *o;
  rdt_tensor buf[3];    /* by rdt_buffer; spare and third get memory when first used */
  bool inputs_restored; /* by the ladder: the whole result may be wrong */
  bool know_clean;      /* a fault is armed, and spare holds the result without it */
  bool raw_is_out;      /* buf[RESULT] is the caller's memory: no epilogue, or one in place */
  bool settled;         /* what the checks found has been dealt with */
  rdt_findings found;
  rdt_strike strike; /* planted in the checks */
  rdt_ruling ruling; /* decides what res->verdict is in the end */
  rdt_where where;
  rdt_result *res;
  double started, check;
  rdt_reason *why;
} run;

/* ---- computing ---- */

static rdt_status buffer(run *r, rdt_buffer which) {
  if (r->buf[which].data) return RDT_OK;
  r->buf[which].data = rdt_context_scratch(r->p->ctx, (rdt_scratch)which, rdt_tensor_bytes(&r->buf[RDT_BUF_RESULT]));
  if (r->buf[which].data) return RDT_OK;
  return rdt_fail(r->why, RDT_ERR_NOMEM, "node %s: out of memory for a second result", r->p->name);
}

static rdt_operands raw_operands(const run *r, rdt_buffer which) {
  rdt_operands o = *r->o;
  o.out = r->buf[which];
  o.epilogue = NULL;
  return o;
}

static int threads_of(const rdt_plan *p) {
  return p->twin ? 1 : p->threads;
}

static rdt_status compute_noting(run *r, rdt_buffer into, rdt_shares *s, rdt_reason *why) {
  RDT_TRY(buffer(r, into));
  const rdt_operands o = raw_operands(r, into);
  return rdt_where_run(&r->where, s, r->p->kernel, r->p->state, threads_of(r->p), &o, NULL, why);
}

static rdt_status compute(void *self, rdt_buffer into, bool other_path, rdt_reason *why) {
  run *r = self;
  rdt_plan *p = r->p;
  if (!other_path) return compute_noting(r, into, &r->where.again, why);
  RDT_TRY(buffer(r, into));
  const rdt_operands o = raw_operands(r, into);
  if (!p->other_state) {
    rdt_problem raw;
    RDT_TRY(rdt_problem_copy(&raw, &p->prob));
    raw.epilogue = RDT_EPILOGUE_NONE;
    raw.out = r->buf[RDT_BUF_RESULT];
    const rdt_status s = p->other->create(&raw, p->threads, &p->other_state, why);
    rdt_problem_clear(&raw);
    RDT_TRY(s);
  }
  return rdt_where_run(&r->where, &r->where.again, p->other, p->other_state, p->threads, &o, NULL, why);
}

static bool armed(const run *r) {
  return r->p->fault && !r->p->injection->done;
}

/* Before anything else, where a fault is armed: what the result would have been, then the faults in data at rest. */
static rdt_status plant_at_rest(run *r) {
  if (!armed(r)) return RDT_OK;
  r->know_clean = r->p->scheme->impl != NULL;
  if (r->know_clean) RDT_TRY(compute(r, RDT_BUF_SPARE, false, r->why));
  rdt_plan_plant_at_rest(r->p, r->why);
  return RDT_OK;
}

/* The first computation, where an armed fault may strike. */
static rdt_status compute_first(run *r) {
  rdt_plan *p = r->p;
  rdt_kernel_hit hit;
  const rdt_tensor *raw = &r->buf[RDT_BUF_RESULT];
  if (rdt_plan_kernel_hit(p, RDT_SITE_ACCUM, &hit)) {
    const rdt_operands o = raw_operands(r, RDT_BUF_RESULT);
    RDT_TRY(rdt_where_run(&r->where, &r->where.first, p->kernel, p->state, threads_of(p), &o, &hit, r->why));
    rdt_plan_book_hit(p, &hit);
  } else {
    RDT_TRY(compute_noting(r, RDT_BUF_RESULT, &r->where.first, r->why));
    rdt_plan_plant(p, rdt_kop_is_linear(p->prob.op) ? RDT_SITE_ACCUM : RDT_SITE_NONLINEAR, raw);
  }
  if (r->know_clean && p->injection->done) rdt_plan_book_effect(p, r->o, &r->buf[RDT_BUF_SPARE], raw);
  return RDT_OK;
}

/* The second copy of a duplicated op: its own state, on another thread where there is one. */
static rdt_status compute_second(run *r, rdt_reason *why) {
  rdt_plan *p = r->p;
  RDT_TRY(buffer(r, RDT_BUF_SPARE));
  const rdt_operands o = raw_operands(r, RDT_BUF_SPARE);
  rdt_status status = RDT_OK;
#pragma omp parallel num_threads(2) if (p->threads > 1)
  if (omp_get_thread_num() + 1 == omp_get_num_threads()) {
    rdt_where_copy_begins(&r->where, 1);
    status = p->kernel->run(p->twin, &o, why);
    rdt_where_copy_ends(&r->where, 1);
  }
  if (status == RDT_OK) rdt_where_strike(&r->where, 1, &o.out);
  return status;
}

/* The suspect tile only where the inputs were in order, and one core has computed it. */
static rdt_status compute_part(run *r, rdt_buffer into, rdt_reason *why) {
  rdt_tile tile;
  const bool one = r->where.suspect >= 0 || r->where.n_cores < 2;
  if (!one || r->inputs_restored || !rdt_plan_tile(r->p, &r->found, &tile)) return compute(r, into, false, why);
  RDT_TRY(buffer(r, into));
  memcpy(r->buf[into].data, r->buf[RDT_BUF_RESULT].data, rdt_tensor_bytes(&r->buf[into]));
  const rdt_operands o = raw_operands(r, into);
  return rdt_plan_compute_tile(r->p, &r->where, &o, &tile, why);
}

static rdt_status compute_on(void *self, rdt_buffer into, const int *cores, int n, rdt_reason *why) {
  run *r = self;
  rdt_places places;
  rdt_where_pin(&r->where, cores, n, &places);
  const rdt_status status = compute_part(r, into, why);
  rdt_threads_restore(&places);
  return status;
}

/* For the ladder: the same code path again, on the same cores. */
static rdt_status compute_again(void *self, rdt_buffer into, bool other_path, rdt_reason *why) {
  run *r = self;
  if (r->p->twin && into == RDT_BUF_SPARE) return compute_second(r, why);
  if (other_path || r->p->twin) return compute(self, into, other_path, why);
  return compute_on(self, into, NULL, 0, why);
}

static int usable_cores(void *self, int *list, int room, int *suspect) {
  const rdt_where *w = &((run *)self)->where;
  const int n = w->n_cores < room ? w->n_cores : room;
  if (n > 0) memcpy(list, w->cores, (size_t)n * sizeof *list);
  *suspect = w->suspect;
  return n;
}

/* Both copies of a duplicated op at the same time, each on its own thread, where there are two. */
static rdt_status compute_twice(run *r) {
  rdt_plan *p = r->p;
  RDT_TRY(buffer(r, RDT_BUF_SPARE));
  if (p->threads < 2 || armed(r)) {
    RDT_TRY(compute_first(r));
    const double t = rdt_clock();
    RDT_TRY(compute_second(r, r->why));
    r->check += rdt_clock() - t;
    return RDT_OK;
  }
  const rdt_operands o[2] = {raw_operands(r, RDT_BUF_RESULT), raw_operands(r, RDT_BUF_SPARE)};
  rdt_status status[2] = {RDT_OK, RDT_OK};
  rdt_reason why[2];
  const double t = rdt_clock();
#pragma omp parallel for num_threads(2) schedule(static, 1)
  for (int copy = 0; copy < 2; copy++) {
    rdt_where_copy_begins(&r->where, copy);
    status[copy] = p->kernel->run(copy ? p->twin : p->state, &o[copy], &why[copy]);
    rdt_where_copy_ends(&r->where, copy);
  }
  r->check += (rdt_clock() - t) / 2;
  for (int copy = 0; copy < 2; copy++)
    if (status[copy] != RDT_OK) {
      *r->why = why[copy];
      return status[copy];
    }
  for (int copy = 0; copy < 2; copy++) rdt_where_strike(&r->where, copy, &o[copy].out);
  return RDT_OK;
}

/* ---- what the recovery asks for ---- */

static rdt_status check(void *self, rdt_buffer which, rdt_findings *f, rdt_reason *why) {
  run *r = self;
  RDT_TRY(rdt_plan_sums(r->p, why));
  const rdt_operands o = raw_operands(r, which);
  for (int tries = 0; tries < 2; tries++) {
    rdt_findings_init(f);
    RDT_TRY(r->p->scheme->impl->verify(r->p->sums, &o, NULL, f, why));
    if (rdt_findings_agree(f)) return RDT_OK;
  }
  f->suspects = f->certain = 1; /* who cannot make up his mind lets nothing pass */
  return RDT_OK;
}

/* Data at rest against its sums: what no check covers at every use, all of it where asked for. */
static rdt_status secure_some(run *r, bool all, rdt_rest *rest, rdt_reason *why) {
  rdt_plan *p = r->p;
  if (p->host.secure) {
    RDT_TRY(p->host.secure(p->host.self, all, rest, why));
  } else if (p->fixed_weights && (all || !p->scheme->covers_weights) &&
             rdt_tensor_seal(&p->prob.in[1], p->threads) != p->weight_seal) {
    rest->weight = true;
    rest->lost = !rdt_plan_restore_weights(p); /* the caller's memory: nowhere to restore it from */
    return rest->lost ? RDT_OK : rdt_plan_reload(p, why);
  }
  return rdt_plan_secure_own(p, all, rest, why);
}

static rdt_status resum(void *self, bool *made, bool *changed, rdt_reason *why) {
  return rdt_plan_resum(((run *)self)->p, made, changed, why);
}

static rdt_status secure(void *self, rdt_rest *rest, rdt_reason *why) {
  run *r = self;
  RDT_TRY(secure_some(r, true, rest, why));
  r->inputs_restored = rdt_rest_memory(rest);
  return RDT_OK;
}

/* The logical row-major number of an element of a packed tensor, by its place in memory. */
static int64_t logical_of(const rdt_tensor *t, int64_t memory) {
  int64_t index[RDT_MAX_RANK], logical = 0;
  rdt_tensor_index(t, memory, index);
  for (int d = 0; d < t->rank; d++) logical = logical * t->shape[d] + index[d];
  return logical;
}

static int64_t differ(void *self, rdt_buffer a, rdt_buffer b, int64_t *first) {
  run *r = self;
  const int64_t n = rdt_tensors_differ(&r->buf[a], &r->buf[b], r->p->threads, first, NULL);
  if (n > 0) *first = logical_of(&r->buf[a], *first);
  return n;
}

static bool apart(void *self, rdt_buffer a, rdt_buffer b, const rdt_findings *suspects) {
  run *r = self;
  const rdt_tensor *x = &r->buf[a], *y = &r->buf[b];
  rdt_iter it = rdt_iter_begin(x);
  while (rdt_iter_next(&it)) {
    int64_t place[2];
    const double u = rdt_load(x->data, x->dtype, it.offset), v = rdt_load(y->data, y->dtype, it.offset);
    if (u == v || (isnan(u) && isnan(v))) continue;
    rdt_place_of(&r->p->prob, x, it.index, place);
    const double allowed = rdt_findings_allowed(suspects, place, r->p->ctx->policy.lambda);
    if (allowed < INFINITY && !(fabs(u - v) <= allowed)) return true;
  }
  return false;
}

static void accept(void *self, rdt_buffer from) {
  run *r = self;
  memcpy(r->buf[RDT_BUF_RESULT].data, r->buf[from].data, rdt_tensor_bytes(&r->buf[from]));
}

static rdt_status rebuild(void *self, rdt_buffer into, rdt_rebuilt *b, rdt_reason *why) {
  run *r = self;
  RDT_TRY(buffer(r, into));
  memcpy(r->buf[into].data, r->buf[RDT_BUF_RESULT].data, rdt_tensor_bytes(&r->buf[into]));
  const rdt_operands o = raw_operands(r, into);
  return rdt_plan_rebuild(r->p, &o, b, why);
}

/* The element of a tensor by its logical number. */
static double value_of(const rdt_tensor *t, int64_t logical) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; logical /= t->shape[d--]) offset += logical % t->shape[d] * t->stride[d];
  return rdt_load(t->data, t->dtype, offset);
}

static double value(void *self, rdt_buffer which, int64_t element) {
  return value_of(&((run *)self)->buf[which], element);
}

static rdt_recovery recovery_of(run *r) {
  return (rdt_recovery){.self = r,
                        .secure = secure,
                        .compute = compute_again,
                        .check = check,
                        .differ = differ,
                        .apart = apart,
                        .accept = accept,
                        .value = value,
                        .rebuild = r->p->ctx->policy.on_fault == RDT_ON_FAULT_CORRECT ? rebuild : NULL,
                        .resum = resum,
                        .cores = usable_cores,
                        .compute_on = compute_on};
}

/* ---- telling ---- */

static void sentence(const run *r, const rdt_event *e, char *text, size_t size) {
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
    snprintf(text, size,
             "%s: a residual of %.3g above the statistical bound %.3g%s was rounding: another code path agrees",
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

/* For report(): the core that has computed what is at the event's place. */
enum { CORE_OF_PLACE = -2 };

static int core_of(const run *r, const rdt_event *e) {
  if (e->kind == RDT_EVENT_UNCHECKED || e->diagnosis == RDT_DIAG_MEMORY) return -1;
  if (r->p->twin) return r->where.copy[e->changed == 0].moved ? -1 : r->where.copy[e->changed == 0].core;
  return rdt_where_core(r->where.fused.n > 0 ? &r->where.fused : &r->where.first, e->place);
}

static void report(run *r, rdt_event_kind kind, const rdt_recovered *v) {
  char text[400];
  rdt_event e = {.kind = kind,
                 .node = r->p->name,
                 .op = r->p->label,
                 .scheme = r->p->scheme->name,
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
  if (e.core == CORE_OF_PLACE) e.core = core_of(r, &e);
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

static void report_found(run *r, rdt_verdict verdict, rdt_diagnosis diagnosis, const char *what) {
  const rdt_recovered v = {
      .verdict = verdict, .diagnosis = diagnosis, .what = what, .fault = true, .first = -1, .core = -1};
  report(r, RDT_EVENT_FAULT, &v);
}

/* What checks was hit: seen where its two ways do not agree. */
static void report_checker(run *r, rdt_verdict verdict, const char *what) {
  report_found(r, verdict, RDT_DIAG_CHECKER, what);
}

static bool repairs(const rdt_plan *p) {
  return p->ctx->policy.on_fault == RDT_ON_FAULT_RECOMPUTE || p->ctx->policy.on_fault == RDT_ON_FAULT_CORRECT;
}

/* ---- the walks ---- */

/* Memory is checked when it is read; weights that the scheme's check covers, only on schedule. */
static rdt_status secure_before(run *r) {
  const rdt_plan *p = r->p;
  rdt_rest rest = {0};
  const double t = rdt_clock();
  double since = t;
  RDT_TRY(secure_some(r, rdt_plan_is_due(p), &rest, r->why));
  if (rdt_rest_memory(&rest) || rest.checksum) {
    rdt_recovered v = {.verdict = rest.lost ? RDT_DETECTED : RDT_RECOMPUTED,
                       .diagnosis = rdt_rest_memory(&rest) ? RDT_DIAG_MEMORY : RDT_DIAG_CHECKER,
                       .what = rdt_rest_what(&rest),
                       .fault = true,
                       .rot = rest.rot,
                       .core = -1,
                       .first = -1};
    rdt_recovered_rung(&v, "secure", rdt_rest_outcome(&rest), &since);
    report(r, RDT_EVENT_FAULT, &v);
  }
  r->check += rdt_clock() - t;
  return RDT_OK;
}

/* How many elements of the result are not what a second evaluation gives. */
static int64_t differ_epilogue(run *r, int64_t *first) {
  rdt_plan *p = r->p;
  const int channel = rdt_problem_channel(&p->prob);
  for (int tries = 0; tries < 3; tries++) {
    int64_t found[2] = {0, -1};
    found[0] = rdt_epilogue_verify(r->o->epilogue, &r->buf[RDT_BUF_RESULT], &r->o->out, channel, p->threads, &found[1],
                                   &p->out_seal);
    rdt_plan_plant_words(p, RDT_SITE_COMPARISON, found, 2, RDT_S64);
    *first = found[1];
    if ((found[0] == 0) == (found[1] == -1)) return found[0];
    report_checker(r, tries < 2 ? RDT_RECOMPUTED : RDT_DETECTED, "comparison");
  }
  return 0; /* it is told */
}

static rdt_status epilogue(run *r, bool applied) {
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
    const bool last = tries == 2 || !repairs(p);
    const rdt_recovered v = {.verdict = last ? RDT_DETECTED : RDT_RECOMPUTED,
                             .diagnosis = tries == 0 ? RDT_DIAG_TRANSIENT : RDT_DIAG_PERSISTENT,
                             .what = "epilogue",
                             .fault = true,
                             .core = p->threads == 1 ? rdt_cpu_current() : -1,
                             .changed = wrong,
                             .first = first};
    report(r, RDT_EVENT_FAULT, &v);
    if (last) return RDT_OK;
    rdt_epilogue_apply(e, raw, out, channel, p->threads);
  }
  return RDT_OK;
}

/* What is left of a planted fault: after rebuilding, or where some of several were too small to be seen. */
static rdt_status book_left(run *r, const rdt_recovered *v) {
  rdt_plan *p = r->p;
  const bool rebuilt = v->verdict == RDT_CORRECTED, several = v->verdict == RDT_RECOMPUTED && p->fault;
  if (!r->know_clean || !p->injection->done || !(rebuilt || (several && p->fault->count[1] > 1))) return RDT_OK;
  RDT_TRY(compute(r, RDT_BUF_SPARE, false, r->why));
  rdt_plan_book_left(p, &r->buf[RDT_BUF_SPARE], &r->buf[RDT_BUF_RESULT]);
  p->injection->rebuilt = rebuilt;
  p->injection->stated = rebuilt ? v->corrected_bound : r->found.floor;
  return RDT_OK;
}

/* Some counters are hit before they are read, some after. */
static void plant_counter(run *r, bool late) {
  if (!armed(r) || (rdt_fault_random(r->p->fault, 17) % 2 != 0) != late) return;
  rdt_plan_plant_words(r->p, RDT_SITE_COUNTER, &r->found.checks, 5, RDT_S64);
}

/* After checks: do their two ways agree? */
static bool agree(run *r) {
  rdt_plan_struck(r->p, &r->found);
  plant_counter(r, false);
  return rdt_findings_agree(&r->found);
}

/* Checksums find a fault; the ladder settles it. *touched: the raw result is no longer what verify saw. */
static rdt_status run_checked(run *r, rdt_tensor *fin, bool *touched) {
  rdt_plan *p = r->p;
  const rdt_recovery recovery = recovery_of(r);
  RDT_TRY(compute_first(r));
  const double t = rdt_clock();
  RDT_TRY(rdt_plan_sums(p, r->why));
  rdt_operands o = raw_operands(r, RDT_BUF_RESULT);
  o.epilogue = r->o->epilogue;
  rdt_plan_strike(p, &r->found, &r->strike);
  RDT_TRY(p->scheme->impl->verify(p->sums, &o, fin, &r->found, r->why));
  if (!agree(r)) {
    RDT_TRY(check(r, RDT_BUF_RESULT, &r->found, r->why));
    report_checker(r, RDT_RECOMPUTED, "comparison");
  }
  if (rdt_findings_complain(&r->found)) {
    rdt_recovered v;
    r->settled = true;
    rdt_where_doubt(&r->where, &r->where.first, &r->found);
    RDT_TRY(rdt_recover_checked(&recovery, repairs(p), &v, r->why));
    if (v.diagnosis != RDT_DIAG_PERSISTENT && v.diagnosis != RDT_DIAG_UNKNOWN) v.core = CORE_OF_PLACE;
    report(r, v.fault ? RDT_EVENT_FAULT : v.verdict == RDT_UNCHECKED ? RDT_EVENT_UNCHECKED : RDT_EVENT_SUSPECT, &v);
    *touched = v.changed > 0 && v.verdict != RDT_DETECTED;
    RDT_TRY(book_left(r, &v));
  }
  r->check += rdt_clock() - t;
  return RDT_OK;
}

static void compare_copies(run *r) {
  int64_t found[2] = {0, -1}; /* how many, the first */
  found[0] =
      rdt_tensors_differ(&r->buf[RDT_BUF_RESULT], &r->buf[RDT_BUF_SPARE], r->p->threads, &found[1], &r->p->out_seal);
  rdt_plan_plant_words(r->p, RDT_SITE_COMPARISON, found, 2, RDT_S64);
  rdt_findings_init(&r->found);
  rdt_findings_bits(&r->found, rdt_tensor_count(&r->o->out), found[0], found[1]);
}

static rdt_status run_twice(run *r) {
  const rdt_recovery recovery = recovery_of(r);
  RDT_TRY(compute_twice(r));
  const double t = rdt_clock();
  compare_copies(r);
  if (!agree(r) || rdt_findings_complain(&r->found)) {
    compare_copies(r);
    if (!rdt_findings_complain(&r->found)) report_checker(r, RDT_RECOMPUTED, "comparison");
  }
  r->p->out_sealed = r->raw_is_out && !rdt_findings_complain(&r->found);
  if (rdt_findings_complain(&r->found)) {
    rdt_recovered v;
    r->settled = true;
    RDT_TRY(rdt_recover_voted(&recovery, repairs(r->p), &v, r->why));
    if (v.diagnosis != RDT_DIAG_PERSISTENT && v.diagnosis != RDT_DIAG_UNKNOWN) v.core = CORE_OF_PLACE;
    report(r, RDT_EVENT_FAULT, &v);
  }
  r->check += rdt_clock() - t;
  return RDT_OK;
}

/* With passes of its own: raw result, check, epilogue. */
static rdt_status run_apart(run *r) {
  rdt_plan *p = r->p;
  bool redo = p->scheme->impl == NULL; /* the epilogue is still to be computed */
  rdt_tensor *fin = r->raw_is_out ? NULL : (rdt_tensor *)&r->o->out;
  RDT_TRY(p->scheme->impl ? run_checked(r, fin, &redo) : run_twice(r));
  if (!fin) return RDT_OK;
  const double t = rdt_clock();
  RDT_TRY(epilogue(r, !redo));
  r->check += rdt_clock() - t;
  return RDT_OK;
}

/* What an armed fault did to the raw result, which a fused kernel does not leave behind. */
static rdt_status book_fused(run *r, const rdt_kernel_hit *hit) {
  rdt_plan *p = r->p;
  rdt_kernel_hit again = *hit;
  if (!r->know_clean || !p->injection->done || p->fault->site == RDT_SITE_EPILOGUE) return RDT_OK;
  RDT_TRY(buffer(r, RDT_BUF_THIRD));
  const rdt_operands o = raw_operands(r, RDT_BUF_THIRD);
  if (p->fault->site == RDT_SITE_ACCUM)
    RDT_TRY(p->kernel->run_inject(p->state, &o, &again, r->why));
  else
    RDT_TRY(p->kernel->run(p->state, &o, r->why));
  rdt_plan_book_effect(p, r->o, &r->buf[RDT_BUF_SPARE], &r->buf[RDT_BUF_THIRD]);
  return RDT_OK;
}

/* The kernel makes its own checks on the way. */
static rdt_status compute_fused(run *r, rdt_fused *f) {
  rdt_plan *p = r->p;
  rdt_kernel_hit hit = {.done = false};
  const rdt_kernel_hit *asked = &hit;
  *f = rdt_fused_ask(p->fused);
  if (rdt_plan_kernel_hit(p, RDT_SITE_ACCUM, &hit)) {
    f->hit = &hit;
  } else if (rdt_plan_kernel_hit(p, RDT_SITE_EPILOGUE, &hit)) {
    f->hit = &hit;
    f->hit_stored = true;
  }
  RDT_TRY(rdt_where_run_fused(&r->where, &r->where.fused, r->o, f, r->why));
  if (f->hit) rdt_plan_book_hit(p, &hit);
  return book_fused(r, asked);
}

/* A copy of the result: packed as it is, else dense. */
static rdt_status keep_result(run *r, rdt_tensor *kept) {
  const rdt_tensor *out = &r->o->out;
  *kept = rdt_tensor_is_packed(out) ? *out : rdt_tensor_dense(NULL, out->dtype, out->rank, out->shape);
  kept->data = rdt_alloc(rdt_tensor_bytes(kept), 1);
  if (!kept->data) return rdt_fail(r->why, RDT_ERR_NOMEM, "node %s: out of memory for a second result", r->p->name);
  rdt_tensor_copy(out, kept);
  return RDT_OK;
}

/* How many elements differ in their bits, and the logical number of the first. */
static int64_t differ_from(const run *r, const rdt_tensor *kept, int64_t *first) {
  const rdt_tensor *out = &r->o->out;
  const size_t size = rdt_dtype_size(out->dtype);
  rdt_iter it = rdt_iter_begin(out);
  int64_t n = 0;
  *first = -1;
  if (rdt_tensor_is_packed(out)) {
    n = rdt_tensors_differ(out, kept, r->p->threads, first, NULL);
    if (n > 0) *first = logical_of(out, *first);
    return n;
  }
  for (int64_t i = 0; rdt_iter_next(&it); i++)
    if (memcmp((const char *)out->data + it.offset * (int64_t)size, (const char *)kept->data + i * (int64_t)size,
               size) != 0 &&
        n++ == 0)
      *first = i;
  return n;
}

/* What a fused check has complained of, and how it was settled. */
typedef struct complaint {
  rdt_findings first;
  bool differ; /* the epilogue did not come out twice alike */
  rdt_rest rest;
  bool persists; /* the same code path failed again */
  rdt_recovered v;
} complaint;

/* A later computation was clean: what was it? */
static void tell_fused(complaint *q) {
  const rdt_rest *rest = &q->rest;
  rdt_recovered *v = &q->v;
  const bool memory = rdt_rest_memory(rest);
  v->fault = true;
  v->verdict = RDT_RECOMPUTED;
  v->what = memory || rest->checksum ? rdt_rest_what(rest) : q->first.suspects ? "result" : "epilogue";
  v->diagnosis = memory           ? RDT_DIAG_MEMORY
                 : rest->checksum ? RDT_DIAG_CHECKER
                 : q->persists    ? RDT_DIAG_PERSISTENT
                                  : RDT_DIAG_TRANSIENT;
  if (v->changed > 0 || memory || rest->checksum) return;
  if (!q->persists || q->first.certain > 0 || q->differ) { /* the same bits again: what checks was hit */
    v->what = "checksum";
    v->diagnosis = RDT_DIAG_CHECKER;
    return;
  }
  v->fault = false; /* the same bits, the same complaint, and another check has none */
  v->verdict = RDT_CLEAN;
}

/* What remains of two computations of the result: the bits that the later one has changed. */
static void compare_fused(run *r, complaint *q, const rdt_tensor *kept) {
  const rdt_tensor *out = &r->o->out;
  q->v.changed = differ_from(r, kept, &q->v.first);
  if (q->v.changed == 0) return;
  q->v.valued = true;
  q->v.expected = value_of(out, q->v.first);
  q->v.actual = value_of(kept, q->v.first);
}

/* The same kernel with the same checks once more. A bound that is missing stays so. */
static rdt_status again_fused(run *r, complaint *q, double *since, bool *good) {
  rdt_plan *p = r->p;
  rdt_fused f = rdt_fused_ask(p->fused);
  *good = false;
  if (q->first.suspects == 0 && !q->differ) return RDT_OK;
  RDT_TRY(rdt_where_run_fused(&r->where, &r->where.again, r->o, &f, r->why));
  rdt_fused_judge(p->fused, &f, &r->found);
  *good = !f.differ && !rdt_findings_complain(&r->found);
  q->persists = f.differ || r->found.suspects > 0 || !rdt_findings_agree(&r->found);
  p->out_seal = f.bitsum;
  p->out_sealed = *good && rdt_epilogue_sums(&r->o->out);
  rdt_recovered_rung(&q->v, "recompute", *good ? "passed" : q->persists ? "failed" : "unchecked", since);
  return RDT_OK;
}

/* From the start with passes apart, where every rung of the ladder is. *told: the ladder has told what it was. */
static rdt_status redo_apart(run *r, complaint *q, const rdt_tensor *kept, double *since, bool *told) {
  rdt_findings_init(&r->found);
  RDT_TRY(buffer(r, RDT_BUF_RESULT));
  RDT_TRY(run_apart(r));
  *told = r->res->faults > 0 || r->res->verdict != RDT_CLEAN;
  if (*told) return RDT_OK;
  compare_fused(r, q, kept);
  rdt_recovered_rung(&q->v, "apart", q->v.changed == 0 ? "agreed" : "passed", since);
  *told = q->first.suspects == 0 && !q->differ && q->v.changed == 0; /* only the bound was missing */
  return RDT_OK;
}

static rdt_status settle_fused(run *r, bool differ) {
  rdt_plan *p = r->p;
  rdt_tensor kept;
  complaint q = {.first = r->found, .differ = differ, .v = {.first = -1, .core = CORE_OF_PLACE}};
  rdt_places places = {.n = 0};
  bool good = false, told = false;
  double since = rdt_clock();
  rdt_status status = RDT_OK;
  r->settled = true;
  rdt_findings_init(&r->found);
  p->out_sealed = false; /* of the first result */
  RDT_TRY(keep_result(r, &kept));
  RDT_TRY_GOTO(secure(r, &q.rest, r->why), end);
  q.v.rot = q.rest.rot;
  rdt_recovered_rung(&q.v, "secure", rdt_rest_outcome(&q.rest), &since);
  if (q.rest.lost) {
    q.v.verdict = RDT_DETECTED;
    q.v.diagnosis = RDT_DIAG_MEMORY;
    q.v.what = rdt_rest_what(&q.rest);
    q.v.fault = true;
    report(r, RDT_EVENT_FAULT, &q.v);
    goto end;
  }
  rdt_where_doubt(&r->where, &r->where.fused, &q.first);
  rdt_where_pin(&r->where, r->where.again_on, p->threads, &places); /* on the same cores */
  RDT_TRY_GOTO(again_fused(r, &q, &since, &good), end);
  if (good)
    compare_fused(r, &q, &kept);
  else
    RDT_TRY_GOTO(redo_apart(r, &q, &kept, &since, &told), end);
  if (told) goto end;
  tell_fused(&q);
  if (q.v.fault && !repairs(p)) { /* the result stays as it is */
    rdt_tensor_copy(&kept, &r->o->out);
    p->out_sealed = false;
    if (q.v.changed > 0) q.v.verdict = RDT_DETECTED;
  }
  if (rdt_findings_agree(&q.first)) r->found = q.first;
  report(r, q.v.fault ? RDT_EVENT_FAULT : RDT_EVENT_SUSPECT, &q.v);
end:
  rdt_threads_restore(&places);
  rdt_free(kept.data);
  return status;
}

static rdt_status run_fused(run *r) {
  rdt_plan *p = r->p;
  rdt_fused f;
  RDT_TRY(compute_fused(r, &f));
  const double t = rdt_clock();
  rdt_plan_strike(p, &r->found, &r->strike);
  rdt_fused_judge(p->fused, &f, &r->found);
  p->out_seal = f.bitsum;
  p->out_sealed = rdt_epilogue_sums(&r->o->out);
  const bool differ = !agree(r) || f.differ;
  if (differ || rdt_findings_complain(&r->found)) RDT_TRY(settle_fused(r, differ));
  r->check += rdt_clock() - t;
  return RDT_OK;
}

/* That nothing was found is asked once more, of the second count alone. */
static rdt_status confirm(run *r) {
  plant_counter(r, true);
  if (r->settled || ~r->found.seconded == r->found.checks) return RDT_OK;
  if (r->p->fused) return settle_fused(r, true);
  if (r->p->scheme->impl)
    RDT_TRY(check(r, RDT_BUF_RESULT, &r->found, r->why));
  else
    compare_copies(r);
  report_checker(r, rdt_findings_complain(&r->found) ? RDT_DETECTED : RDT_RECOMPUTED, "counter");
  return RDT_OK;
}

static rdt_status run_protected(run *r) {
  if (!r->p->fused || rdt_plan_plants_several(r->p)) {
    if (r->p->fused) RDT_TRY(buffer(r, RDT_BUF_RESULT));
    RDT_TRY(run_apart(r));
  } else {
    RDT_TRY(run_fused(r));
  }
  RDT_TRY(confirm(r));
  rdt_plan_plant_words(r->p, RDT_SITE_VERDICT, &r->ruling, 3, RDT_S32);
  return RDT_OK;
}

/* Unprotected: the kernel does the epilogue itself, or it follows. */
static rdt_status run_plain(run *r) {
  rdt_plan *p = r->p;
  const rdt_operands o = p->finish ? raw_operands(r, RDT_BUF_RESULT) : *r->o;
  rdt_tensor *out = (rdt_tensor *)&r->o->out;
  rdt_kernel_hit hit;
  const bool inside = rdt_plan_kernel_hit(p, RDT_SITE_ACCUM, &hit);
  if (inside) {
    RDT_TRY(rdt_where_run(&r->where, &r->where.first, p->kernel, p->state, p->threads, &o, &hit, r->why));
    rdt_plan_book_hit(p, &hit);
  } else {
    RDT_TRY(rdt_where_run(&r->where, &r->where.first, p->kernel, p->state, p->threads, &o, NULL, r->why));
    rdt_plan_plant(p, rdt_kop_is_linear(p->prob.op) ? RDT_SITE_ACCUM : RDT_SITE_NONLINEAR, &o.out);
  }
  if (p->finish) rdt_epilogue_apply(r->o->epilogue, &o.out, out, rdt_problem_channel(&p->prob), p->threads);
  if (!inside) rdt_plan_plant(p, RDT_SITE_EPILOGUE, out);
  return RDT_OK;
}

/* May the raw result lie where the final one will? */
static bool raw_in_place(const rdt_plan *p, const rdt_operands *o, bool protected) {
  if (protected) return rdt_plan_raw_is_out(p);
  if (!p->finish) return true;
  const rdt_tensor *residual = &o->epilogue->residual;
  return p->prob.out.dtype == p->prob.acc && rdt_tensor_is_packed(&p->prob.out) &&
         (residual->rank < 0 || residual->data != o->out.data);
}

static void finish(run *r) {
  rdt_result *res = r->res;
  bool hit;
  rdt_ruling_read(&r->ruling, &hit);
  if (hit) report_checker(r, RDT_RECOMPUTED, "verdict");
  res->verdict = rdt_ruling_read(&r->ruling, &hit);
  res->checks += r->found.checks;
  res->suspects = r->found.suspects;
  res->unchecked = r->found.cannot;
  res->ratio = r->found.ratio;
  res->residual = r->found.worst.residual;
  res->bound = r->found.worst.bound.tau2;
  res->floor = r->found.floor;
  res->seconds = rdt_clock() - r->started;
  res->seconds_check = r->check;
}

/* A planted fault that nobody noticed does not outlive its run. */
static rdt_status end_experiment(run *r, rdt_status status) {
  rdt_rest rest = {0};
  rdt_reason why;
  r->p->fault = NULL;
  const rdt_status mended = secure_some(r, true, &rest, &why);
  return status == RDT_OK && mended != RDT_OK ? rdt_fail(r->why, mended, "%s", why.text) : status;
}

rdt_status rdt_plan_run(rdt_plan *p, const rdt_operands *o, rdt_result *result) {
  rdt_result local;
  const bool look = rdt_plan_is_due(p) || rdt_plan_armed(p, RDT_SITE_PLAN);
  rdt_plan_plant_plan(p);
  const rdt_vault_state frame = look ? rdt_vault_secure(&p->frame) : RDT_VAULT_INTACT;
  if (frame == RDT_VAULT_LOST) return rdt_plan_lost(p, result);
  run r = {.p = p, .o = o, .res = result ? result : &local, .started = rdt_clock(), .why = &p->ctx->error};
  *r.res = (rdt_result){.place = {-1, -1}};
  r.ruling = rdt_ruling_clean();
  rdt_findings_init(&r.found);
  rdt_where_begin(&r.where, p);
  p->out_sealed = false;
  if (atomic_load(&p->ctx->cancelled)) return rdt_fail(r.why, RDT_ERR_CANCELLED, "cancelled before %s", p->name);
  const bool protected = p->scheme->id != RDT_SCHEME_NONE;
  r.buf[RDT_BUF_RESULT] = rdt_plan_raw_view(p);
  r.raw_is_out = raw_in_place(p, o, protected);
  if (r.raw_is_out)
    r.buf[RDT_BUF_RESULT] = o->out;
  else if (!p->fused || !protected) /* a fused check needs it when it complains */
    RDT_TRY(buffer(&r, RDT_BUF_RESULT));
  r.buf[RDT_BUF_SPARE] = r.buf[RDT_BUF_THIRD] = r.buf[RDT_BUF_RESULT];
  r.buf[RDT_BUF_SPARE].data = r.buf[RDT_BUF_THIRD].data = NULL;
  const int threads = rdt_threads_enter(p->threads);
  rdt_places places;
  rdt_where_break(&r.where, &places);
  if (frame == RDT_VAULT_RESTORED) report_found(&r, RDT_RECOMPUTED, RDT_DIAG_MEMORY, "plan");
  rdt_status status = plant_at_rest(&r);
  if (status == RDT_OK && protected) status = secure_before(&r);
  if (status == RDT_OK && r.res->verdict != RDT_DETECTED) status = protected ? run_protected(&r) : run_plain(&r);
  rdt_threads_restore(&places);
  rdt_threads_leave(threads);
  rdt_where_count(&r.where, p->fused ? &r.where.fused : &r.where.first);
  if (status == RDT_ERR_ARG) { /* the kernel's, about the operands' values */
    const rdt_reason inner = *r.why;
    rdt_fail(r.why, status, "node %.80s (%.60s): %.300s", p->name, p->label, inner.text);
  }
  p->runs++;
  if (p->fault && p->injection->done) status = end_experiment(&r, status);
  if (!protected) rdt_ruling_raise(&r.ruling, RDT_UNCHECKED);
  finish(&r);
  if (status == RDT_OK && r.res->verdict == RDT_DETECTED) status = RDT_ERR_FAULT;
  return status;
}
