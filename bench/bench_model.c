#include "bench_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_common.h"
#include "core/memory.h"
#include "core/tensor.h"

/* ---- data ---- */

static double value_of(rdt_dtype dtype, const char *name, double unit) {
  const bool mask = strstr(name, "mask") != NULL, kind = strstr(name, "type") || strstr(name, "segment");
  if (mask || dtype == RDT_BOOL) return 1.0;
  if (rdt_dtype_is_float(dtype)) return 2.0 * unit - 1.0;
  if (dtype == RDT_S8 || dtype == RDT_U8) return dtype == RDT_S8 ? floor(255.0 * unit) - 127.0 : floor(256.0 * unit);
  return kind ? 0.0 : floor(100.0 * unit); /* any vocabulary is larger */
}

rdt_status rdt_bench_model_fill(rdt_tensor *t, const char *name, uint64_t *seed, rdt_reason *why) {
  const int64_t n = rdt_tensor_count(t);
  t->data = n < 0 ? NULL : rdt_alloc((size_t)n, rdt_dtype_size(t->dtype));
  if (!t->data) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for input '%s'", name);
  for (int64_t i = 0; i < n; i++)
    rdt_store(t->data, t->dtype, i, value_of(t->dtype, name, 0.5 + 0.5 * rdt_bench_draw(seed)));
  return RDT_OK;
}

/* ---- runs ---- */

static rdt_status keep_sample(rdt_bench_side *s) {
  if (s->runs == s->room) {
    const size_t wide = 2 * s->n_nodes, room = s->room ? 2 * s->room : 64;
    double *grown = rdt_grow(s->samples, s->room * wide, room * wide, sizeof *grown);
    if (!grown) return RDT_ERR_NOMEM;
    s->samples = grown;
    s->room = room;
  }
  double *row = s->samples + 2 * s->n_nodes * s->runs++;
  for (size_t i = 0; i < s->n_nodes; i++) {
    rdt_result r;
    RDT_TRY(rdt_model_node_result(s->model, i, &r));
    row[i] = r.seconds;
    row[s->n_nodes + i] = r.seconds_check;
  }
  return RDT_OK;
}

static int run(void *user) {
  rdt_bench_side *s = user;
  rdt_run_result r = {0};
  const rdt_status status = rdt_model_run(s->model, s->job->inputs, s->job->n_inputs, &r);
  if (r.verdict > s->total.verdict) s->total.verdict = r.verdict;
  s->total.faults += r.faults; /* while warming up, too */
  if (status != RDT_OK || s->timing->warming) return (int)status;
  s->total.checks += r.checks;
  s->total.suspects += r.suspects;
  s->total.unchecked += r.unchecked;
  return (int)keep_sample(s);
}

static rdt_status load_side(rdt_bench_side *s, const char *scheme) {
  const rdt_bench_job *job = s->job;
  rdt_policy policy = job->policy;
  policy.scheme = scheme;
  RDT_TRY(rdt_context_create(&s->ctx, job->threads));
  job->watch(s->ctx);
  const double begin = rdt_timing_now();
  RDT_TRY(rdt_context_set_policy(s->ctx, &policy));
  if (job->plan) RDT_TRY(rdt_context_read_plans(s->ctx, job->plan));
  RDT_TRY(rdt_model_load_replaced(s->ctx, job->path, job->named, job->n_named, &s->model));
  RDT_TRY(rdt_model_plan(s->model, job->inputs, job->n_inputs));
  s->load_seconds = rdt_timing_now() - begin;
  return RDT_OK;
}

static rdt_status side_fail(const rdt_bench_side *s, rdt_status status, rdt_reason *why) {
  const char *text = s->ctx ? rdt_context_error(s->ctx) : "";
  return rdt_fail(why, status, "%s", *text ? text : rdt_status_text(status));
}

static rdt_status open_side(rdt_bench_side *s, const char *scheme, rdt_reason *why) {
  const size_t before = rdt_memory_now();
  rdt_memory_reset();
  rdt_status status = load_side(s, scheme);
  if (status == RDT_OK) status = (rdt_status)run(s);
  if (status != RDT_OK) return side_fail(s, status, why);
  s->memory_peak = rdt_memory_peak() - before;
  s->n_nodes = rdt_model_node_count(s->model);
  s->seconds = rdt_calloc(s->n_nodes, sizeof *s->seconds);
  s->seconds_check = rdt_calloc(s->n_nodes, sizeof *s->seconds_check);
  return s->seconds && s->seconds_check ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

/* ---- medians ---- */

static void medians(rdt_bench_side *s, double *scratch) {
  for (size_t i = 0; i < 2 * s->n_nodes; i++) {
    for (size_t k = 0; k < s->runs; k++) scratch[k] = s->samples[2 * s->n_nodes * k + i];
    const double median = rdt_timing_median(scratch, (int)s->runs);
    if (i < s->n_nodes)
      s->seconds[i] = median;
    else
      s->seconds_check[i - s->n_nodes] = median;
  }
}

static rdt_status evaluate(rdt_bench_model *m, const rdt_timing *t, rdt_reason *why) {
  for (int i = 0; i < RDT_BENCH_SIDES; i++) {
    double *scratch = rdt_alloc(m->side[i].runs, sizeof *scratch);
    if (!scratch) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
    medians(&m->side[i], scratch);
    rdt_free(scratch);
    m->side[i].time = rdt_timing_stat_of(t, i);
  }
  m->ratio = rdt_timing_ratio_of(t, RDT_BENCH_PROTECTED, RDT_BENCH_NONE);
  return RDT_OK;
}

rdt_status rdt_bench_model_run(const rdt_bench_job *job, rdt_bench_model *out, rdt_reason *why) {
  const struct { const char *name, *scheme; } sides[] = {{"unprotected", "none"}, {"protected", job->policy.scheme}};
  rdt_timing timing;
  *out = (rdt_bench_model){0};
  rdt_timing_init(&timing, job->trials);
  timing.warming = true;
  timing.progress = job->progress;
  timing.turn = job->turn;
  timing.turns = job->turns;
  snprintf(timing.what, sizeof timing.what, "threads %d", job->threads);
  for (int i = 0; i < RDT_BENCH_SIDES; i++) {
    rdt_bench_side *s = &out->side[i];
    s->timing = &timing;
    s->job = job;
    RDT_TRY(open_side(s, sides[i].scheme, why));
    rdt_timing_add(&timing, sides[i].name, run, s);
  }
  const int code = rdt_timing_run(&timing);
  rdt_status status = code == RDT_TIMING_STOPPED ? RDT_ERR_CANCELLED : code < 0 ? RDT_ERR_NOMEM : (rdt_status)code;
  const bool second = *rdt_context_error(out->side[RDT_BENCH_PROTECTED].ctx) != '\0';
  status = status == RDT_OK ? evaluate(out, &timing, why) : side_fail(&out->side[second], status, why);
  rdt_timing_free(&timing);
  return status;
}

void rdt_bench_model_free(rdt_bench_model *m) {
  for (int i = 0; i < RDT_BENCH_SIDES; i++) {
    rdt_bench_side *s = &m->side[i];
    if (s->job) s->job->watch(NULL);
    rdt_free(s->seconds);
    rdt_free(s->seconds_check);
    rdt_free(s->samples);
    rdt_model_free(s->model);
    rdt_context_destroy(s->ctx);
  }
  *m = (rdt_bench_model){0};
}

ptrdiff_t rdt_bench_model_twin(const rdt_bench_model *m, size_t i) {
  const rdt_bench_side *none = &m->side[RDT_BENCH_NONE];
  rdt_node_info mine, other;
  if (rdt_model_node_info(m->side[RDT_BENCH_PROTECTED].model, i, &mine) != RDT_OK) return -1;
  for (size_t k = 0; k < none->n_nodes; k++) { /* the same place first */
    const size_t at = (i + k) % none->n_nodes;
    if (rdt_model_node_info(none->model, at, &other) == RDT_OK && strcmp(mine.name, other.name) == 0)
      return strcmp(mine.op, other.op) == 0 ? (ptrdiff_t)at : -1;
  }
  return -1;
}
