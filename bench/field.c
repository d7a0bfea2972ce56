#include "field.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/threads.h"
#include "schemes/scheme.h"

void rdt_field_begin(rdt_field *f, const char *command, const rdt_problem *problems, int copies, int threads) {
  *f = (rdt_field){.command = command, .problems = problems, .copies = copies, .threads = threads, .none = -1};
}

static void clear(rdt_contender *x) {
  for (int i = 0; x->plans && i < x->field->copies; i++) rdt_plan_destroy(x->plans[i]);
  for (int i = 0; x->states && i < x->field->copies; i++)
    if (x->states[i]) x->kernel->destroy(x->states[i]);
  if (x->destroy) x->destroy(x->user);
  rdt_free(x->plans);
  rdt_free(x->states);
  rdt_context_destroy(x->ctx);
}

static rdt_contender *add(rdt_field *f, const char *name) {
  if (f->count == RDT_TIMING_CASES) return NULL;
  f->list[f->count] = (rdt_contender){.name = name, .field = f};
  return &f->list[f->count];
}

/* A contender that does not take the problem is left out. */
static int keep(rdt_field *f, rdt_contender *x, bool ok) {
  if (ok) return f->count++;
  if (x) clear(x);
  return -1;
}

static bool make_vendor(rdt_contender *x) {
  int n;
  const rdt_field *f = x->field;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  for (int i = 0; i < n && !x->kernel; i++)
    if (rows[i]->op == f->problems->op && rows[i]->black_box && rdt_isa_detect() >= rows[i]->isa &&
        rows[i]->accept(f->problems, NULL) == RDT_OK)
      x->kernel = rows[i];
  if (!x->kernel) return false;
  x->kernel_name = x->kernel->name;
  x->states = rdt_calloc((size_t)f->copies, sizeof *x->states);
  for (int i = 0; x->states && i < f->copies; i++)
    if (x->kernel->create(&f->problems[i], f->threads, &x->states[i], NULL) != RDT_OK) return false;
  return x->states != NULL;
}

int rdt_field_add_vendor(rdt_field *f, const char *name) {
  rdt_contender *x = add(f, name);
  return keep(f, x, x && make_vendor(x));
}

int rdt_field_add_foreign(rdt_field *f, const char *name, const char *kernel_name,
                          int (*run)(void *user, const rdt_problem *p), void (*destroy)(void *user), void *user) {
  rdt_contender *x = user ? add(f, name) : NULL;
  if (!x) return -1;
  x->kernel_name = kernel_name;
  x->run = run;
  x->destroy = destroy;
  x->user = user;
  return keep(f, x, true);
}

static bool make_plans(rdt_contender *x, const char *scheme) {
  const rdt_field *f = x->field;
  const char *op = rdt_kop_name(f->problems->op);
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  if (rdt_context_create(&x->ctx, f->threads) != RDT_OK) return false;
  rdt_status status = rdt_context_set_policy(x->ctx, &policy);
  x->plans = rdt_calloc((size_t)f->copies, sizeof *x->plans);
  for (int i = 0; x->plans && status == RDT_OK && i < f->copies; i++)
    status = rdt_plan_create(x->ctx, &f->problems[i], op, op, NULL, &x->plans[i]);
  if (status != RDT_OK) fprintf(stderr, "redoubt %s: %s: %s\n", f->command, scheme, rdt_context_error(x->ctx));
  return x->plans && status == RDT_OK;
}

static int add_plans(rdt_field *f, const char *name, const char *scheme) {
  rdt_contender *x = add(f, name);
  return keep(f, x, x && make_plans(x, scheme));
}

bool rdt_field_add_none(rdt_field *f) {
  f->none = add_plans(f, "redoubt none", "none");
  return f->none >= 0;
}

bool rdt_field_add_schemes(rdt_field *f, const char *scheme) {
  int n;
  const rdt_scheme_info *table = rdt_scheme_table(&n);
  if (strcmp(scheme, "none") == 0) return true;
  if (strcmp(scheme, "all") != 0) return add_plans(f, "redoubt", scheme) >= 0;
  for (int i = 0; i < n; i++)
    if (table[i].id != RDT_SCHEME_NONE && rdt_scheme_serves(&table[i], f->problems->op))
      add_plans(f, "redoubt", table[i].name);
  return true;
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

static int run(void *user) {
  rdt_contender *x = user;
  const int copy = x->next;
  const rdt_problem *p = &x->field->problems[copy];
  const rdt_operands o = {.in = p->in, .n_in = 2, .out = p->out, .epilogue = &p->epilogue};
  x->next = (copy + 1) % x->field->copies;
  if (x->plans) return run_plan(x, copy, &o);
  const int threads = rdt_threads_enter(x->field->threads);
  const int code = x->kernel ? (int)x->kernel->run(x->states[copy], &o, NULL) : x->run(x->user, p);
  rdt_threads_leave(threads);
  return code;
}

int rdt_field_time(rdt_field *f, rdt_timing *timing) {
  for (int i = 0; i < f->count; i++) rdt_timing_add(timing, f->list[i].name, run, &f->list[i]);
  const int stopped = rdt_timing_run(timing);
  const char *text = "";
  if (stopped == RDT_BENCH_STOPPED) return stopped;
  f->timed = stopped == 0;
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

/* ---- cells ---- */

/* Case i over case base and its interval; not applicable for the base itself or without one (-1). */
static void ratio_cells(rdt_bench_out *o, const rdt_timing *timing, int i, int base) {
  rdt_timing_ratio r = {NAN, NAN, NAN};
  if (base >= 0 && i != base) r = rdt_timing_ratio_of(timing, i, base);
  rdt_bench_fixed(o, r.ratio, 3);
  rdt_bench_fixed(o, r.low, 3);
  rdt_bench_fixed(o, r.high, 3);
}

void rdt_field_cells(const rdt_field *f, rdt_bench_out *o, const rdt_timing *timing, int i, int yardstick) {
  const rdt_contender *x = &f->list[i];
  const rdt_timing_stat stat = rdt_timing_stat_of(timing, i);
  const bool checked = x->plans && i != f->none;
  rdt_bench_fixed(o, f->threads, 0);
  rdt_bench_text(o, x->name);
  rdt_bench_text(o, x->plans ? rdt_plan_kernel(x->plans[0]) : x->kernel_name);
  rdt_bench_text(o, x->plans ? rdt_plan_scheme(x->plans[0]) : "none");
  rdt_bench_fixed(o, 1e3 * stat.median, 4);
  rdt_bench_fixed(o, 1e3 * stat.p10, 4);
  rdt_bench_fixed(o, 1e3 * stat.p90, 4);
  rdt_bench_fixed(o, rdt_problem_flops(f->problems) / stat.median * 1e-9, 1);
  ratio_cells(o, timing, i, yardstick);
  ratio_cells(o, timing, i, f->none);
  rdt_bench_fixed(o, checked ? x->worst.ratio : NAN, 3);
  rdt_bench_fixed(o, checked ? (double)x->worst.suspects : NAN, 0);
  rdt_bench_text(o, rdt_verdict_name(checked ? x->worst.verdict : RDT_UNCHECKED));
}
