#include "field.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/threads.h"
#include "plan/survey.h"
#include "schemes/scheme.h"

void rdt_field_begin(rdt_field *f, const char *command, const rdt_problem *problems, int copies, int threads) {
  *f = (rdt_field){.command = command, .problems = problems, .copies = copies, .threads = threads, .none = -1};
}

static void drop_plans(rdt_contender *x) {
  for (int i = 0; x->plans && i < x->field->copies; i++) rdt_plan_destroy(x->plans[i]);
  rdt_free(x->plans);
  x->plans = NULL;
}

static void clear(rdt_contender *x) {
  if (x->same < 0) drop_plans(x);
  for (int i = 0; x->states && i < x->field->copies; i++)
    if (x->states[i]) x->kernel->destroy(x->states[i]);
  if (x->foreign && x->foreign->destroy) x->foreign->destroy(x->user);
  rdt_free(x->states);
  rdt_context_destroy(x->ctx);
}

static rdt_contender *add(rdt_field *f, rdt_baseline *library, const char *name) {
  if (f->count == RDT_TIMING_CASES) {
    fprintf(stderr, "redoubt %s: more than %d contenders: %s is left out\n", f->command, RDT_TIMING_CASES, name);
    return NULL;
  }
  f->list[f->count] = (rdt_contender){.name = name, .library = library, .asked = "none", .field = f, .same = -1};
  return &f->list[f->count];
}

static bool keep(rdt_field *f, rdt_contender *x, bool ok) {
  if (ok) f->count++;
  if (x && !ok) clear(x);
  return ok;
}

static bool make_kernel(rdt_contender *x, bool black_box) {
  int n;
  const rdt_field *f = x->field;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int i = 0; i < n && !x->kernel; i++)
    if (rows[i]->op == f->problems->op && rows[i]->black_box == black_box && rdt_isa_detect() >= rows[i]->isa &&
        rows[i]->accept(f->problems, NULL) == RDT_OK)
      x->kernel = rows[i];
  if (!x->kernel) return false;
  x->kernel_name = x->kernel->name;
  x->states = rdt_calloc((size_t)f->copies, sizeof *x->states);
  for (int i = 0; x->states && i < f->copies; i++)
    if (x->kernel->create(&f->problems[i], f->threads, &x->states[i], NULL) != RDT_OK) return false;
  return x->states != NULL;
}

void rdt_field_add_kernel(rdt_field *f, rdt_baseline *library, const char *name, bool black_box) {
  rdt_contender *x = library ? add(f, library, name) : NULL;
  keep(f, x, x && make_kernel(x, black_box));
}

void rdt_field_add_foreign(rdt_field *f, rdt_baseline *library, const char *name, const char *kernel_name,
                           const rdt_foreign *calls, void *user) {
  rdt_contender *x = user ? add(f, library, name) : NULL;
  if (!x && user && calls->destroy) calls->destroy(user);
  if (!x) return;
  x->kernel_name = kernel_name;
  x->foreign = calls;
  x->user = user;
  keep(f, x, true);
}

/* Every candidate that may be chosen, before the trials: what the plans of the contender's context are chosen by. */
static rdt_status measure(rdt_contender *x, rdt_reason *why) {
  const rdt_field *f = x->field;
  const rdt_demand demand = rdt_demand_of(x->ctx, "auto");
  const rdt_profile how = {.cold = f->copies > 1, .seconds = f->measure, .choice = true};
  rdt_book *book;
  rdt_entry entry = {0};
  x->ctx->cold = how.cold;
  RDT_TRY(rdt_context_book(x->ctx, &book));
  rdt_status status = rdt_problem_profile(x->ctx, f->problems, &demand, &how, &entry, why);
  if (status == RDT_OK) status = rdt_book_put(book, &entry);
  rdt_entry_clear(&entry);
  return status;
}

static bool make_plans(rdt_contender *x) {
  const rdt_field *f = x->field;
  const char *op = rdt_kop_name(f->problems->op);
  rdt_policy policy = RDT_POLICY_DEFAULT;
  const bool planned = strcmp(x->asked, "plan") == 0;
  policy.scheme = planned ? "auto" : x->asked;
  if (rdt_context_create(&x->ctx, f->threads) != RDT_OK) return false;
  rdt_status status = rdt_context_set_policy(x->ctx, &policy);
  if (status == RDT_OK && planned) status = measure(x, &x->ctx->error);
  x->plans = rdt_calloc((size_t)f->copies, sizeof *x->plans);
  for (int i = 0; x->plans && status == RDT_OK && i < f->copies; i++)
    status = rdt_plan_create(x->ctx, &f->problems[i], op, op, NULL, &x->plans[i]);
  if (status != RDT_OK) fprintf(stderr, "redoubt %s: %s: %s\n", f->command, x->asked, rdt_context_error(x->ctx));
  return x->plans && status == RDT_OK;
}

static bool is_same_way(const rdt_plan *a, const rdt_plan *b) {
  return a->kernel == b->kernel && a->scheme == b->scheme && a->sets == b->sets && a->kernel_fuses == b->kernel_fuses &&
         a->finish == b->finish && a->threads == b->threads;
}

/* What an earlier contender is already: run twice it would differ by where in memory its copies of the weights lie. */
static void share_plans(const rdt_field *f, rdt_contender *x) {
  for (int i = 0; i < f->count && x->same < 0; i++) {
    const rdt_contender *other = &f->list[i];
    bool same = other->plans != NULL && other->same < 0;
    for (int k = 0; same && k < f->copies; k++) same = is_same_way(other->plans[k], x->plans[k]);
    if (!same) continue;
    drop_plans(x);
    x->plans = other->plans;
    x->same = i;
  }
}

/* only: not where the scheme leaves the problem to another one. */
static bool add_plans(rdt_field *f, const char *name, const char *scheme, bool only) {
  rdt_contender *x = add(f, NULL, name);
  if (x) x->asked = scheme;
  const bool good = x && make_plans(x) && (!only || strcmp(rdt_plan_scheme(x->plans[0]), scheme) == 0);
  if (good) share_plans(f, x);
  return keep(f, x, good);
}

bool rdt_field_add_none(rdt_field *f) {
  f->none = add_plans(f, "redoubt none", "none", false) ? f->count - 1 : -1;
  return f->none >= 0;
}

static bool add_scheme(rdt_field *f, const char *scheme) {
  int n;
  const rdt_scheme_info *table = rdt_scheme_table(&n);
  if (strcmp(scheme, "none") == 0) return true;
  if (strcmp(scheme, "auto") == 0) return add_plans(f, "redoubt auto", scheme, false);
  if (strcmp(scheme, "plan") == 0) return add_plans(f, "redoubt plan", scheme, false);
  if (strcmp(scheme, "all") != 0) return add_plans(f, "redoubt", scheme, false);
  for (int i = 0; i < n; i++)
    if (table[i].id != RDT_SCHEME_NONE && rdt_scheme_serves(&table[i], f->problems->op))
      add_plans(f, "redoubt", table[i].name, true);
  return true;
}

bool rdt_field_add_schemes(rdt_field *f, const char *const *schemes, int n) {
  for (int i = 0; i < n; i++)
    if (!add_scheme(f, schemes[i])) return false;
  return true;
}

/* ---- are the libraries right? ---- */

/* The first scheme that can check the problem in a pass of its own. */
static const rdt_scheme *judge_of(const rdt_problem *p) {
  int n;
  const rdt_scheme_info *table = rdt_scheme_table(&n);
  for (int i = 0; i < n; i++)
    if (table[i].impl && table[i].locates && rdt_scheme_serves(&table[i], p->op) &&
        table[i].impl->accept(p, NULL) == RDT_OK)
      return table[i].impl;
  return NULL;
}

static int run_once(rdt_contender *x, int copy);

/* Is what x computes right? Checked before the epilogue: only where there is none. What was there before is no result.
 */
static bool is_right(rdt_contender *x, const rdt_scheme *judge, void *state, char *text, size_t size) {
  const rdt_problem *p = x->field->problems;
  const rdt_operands o = {.in = p->in, .n_in = 2, .out = p->out, .epilogue = &p->epilogue};
  const char *kernel = x->kernel ? x->kernel->name : x->kernel_name;
  rdt_findings found;
  rdt_reason why = {""};
  memset(p->out.data, 0xff, (size_t)rdt_tensor_count(&p->out) * rdt_dtype_size(p->out.dtype));
  int code = run_once(x, 0);
  if (code == 0 && x->foreign && x->foreign->fetch) code = x->foreign->fetch(x->user, p);
  snprintf(text, size, "%s fails with code %d", kernel, code);
  if (code != 0) return false;
  rdt_findings_init(&found);
  const rdt_status status = judge->verify(state, &o, NULL, &found, &why);
  snprintf(text, size, "%s computes wrong results: %lld of %lld checks fail", kernel, (long long)found.suspects,
           (long long)found.checks);
  return status == RDT_OK && found.checks > 0 && !rdt_findings_complain(&found);
}

static void drop(rdt_field *f, int i) {
  clear(&f->list[i]);
  for (; i + 1 < f->count; i++) f->list[i] = f->list[i + 1];
  f->count--;
  if (f->none > i) f->none--;
}

rdt_status rdt_field_verify(rdt_field *f, rdt_reason *why) {
  const rdt_problem *p = f->problems;
  const rdt_scheme *judge = rdt_epilogue_is_none(&p->epilogue) ? judge_of(p) : NULL;
  void *state = NULL;
  if (!judge) return RDT_OK;
  const rdt_policy policy = RDT_POLICY_DEFAULT;
  RDT_TRY(judge->create(p, true, policy.lambda, 1, f->threads, &state, why));
  for (int i = f->count - 1; i >= 0; i--) {
    rdt_contender *x = &f->list[i];
    char text[sizeof x->library->status];
    if (!x->library || is_right(x, judge, state, text, sizeof text)) continue;
    rdt_baseline_refuse(f->command, x->library, text);
    drop(f, i);
  }
  judge->destroy(state);
  return RDT_OK;
}

/* ---- running ---- */

static int run_plan(rdt_contender *x, int copy, const rdt_operands *o) {
  rdt_result r;
  const rdt_status status = rdt_plan_run(x->plans[copy], o, &r);
  if (r.ratio > x->worst.ratio) x->worst.ratio = r.ratio;
  if (r.verdict > x->worst.verdict) x->worst.verdict = r.verdict;
  x->worst.suspects += r.suspects;
  x->worst.faults += r.faults;
  return (int)status;
}

static int run_once(rdt_contender *x, int copy) {
  const rdt_problem *p = &x->field->problems[copy];
  const rdt_operands o = {.in = p->in, .n_in = 2, .out = p->out, .epilogue = &p->epilogue};
  if (x->plans) return run_plan(x, copy, &o);
  const int threads = rdt_threads_enter(x->field->threads);
  const int code = x->kernel ? (int)x->kernel->run(x->states[copy], &o, NULL) : x->foreign->run(x->user, p);
  rdt_threads_leave(threads);
  return code;
}

static int run(void *user) {
  rdt_contender *x = user;
  const int copy = x->next;
  x->next = (copy + 1) % x->field->copies;
  return run_once(x, copy);
}

int rdt_field_runs(const rdt_field *f) {
  int runs = 0;
  for (int i = 0; i < f->count; i++) runs += f->list[i].same < 0;
  return runs;
}

/* What was run once counts for all who stand for it. */
static void share_times(rdt_field *f, rdt_timing *timing) {
  for (int i = 0; i < f->count; i++) {
    if (f->list[i].same < 0) continue;
    const rdt_timing_case *of = &timing->cases[f->list[i].same];
    timing->cases[i].trials = of->trials;
    memcpy(timing->cases[i].seconds, of->seconds, (size_t)of->trials * sizeof *of->seconds);
    f->list[i].worst = f->list[f->list[i].same].worst;
  }
}

int rdt_field_time(rdt_field *f, rdt_timing *timing) {
  for (int i = 0; i < f->count; i++) {
    const rdt_contender *x = &f->list[i];
    const int at = rdt_timing_add(timing, x->name, run, &f->list[i]);
    timing->cases[at].out = x->same >= 0;
    /* OpenMP's threads spin for some milliseconds, on the cores that this library's own ones want. */
    if (f->threads > 1 && x->library && x->library->row && !x->library->openmp) timing->cases[at].rest = 0.02;
  }
  const int stopped = rdt_timing_run(timing);
  const char *text = "";
  if (stopped == RDT_TIMING_STOPPED) return stopped;
  f->timed = stopped == 0;
  if (f->timed) share_times(f, timing);
  bool fault = stopped == RDT_ERR_FAULT;
  for (int i = 0; i < f->count; i++) {
    fault = fault || f->list[i].worst.faults > 0;
    if (stopped && f->list[i].ctx && *rdt_context_error(f->list[i].ctx)) text = rdt_context_error(f->list[i].ctx);
  }
  if (stopped)
    fprintf(stderr, "redoubt %s: stopped: %s\n", f->command, *text ? text : rdt_status_text((rdt_status)stopped));
  return fault ? 1 : stopped ? 2 : 0;
}

void rdt_field_end(rdt_field *f) {
  for (int i = 0; i < f->count; i++) clear(&f->list[i]);
  f->count = 0;
}
