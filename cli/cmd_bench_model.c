/* redoubt bench model: a network protected against unprotected, layer by layer. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "bench_model.h"
#include "cli.h"
#include "core/memory.h"
#include "core/team.h"
#include "core/text.h"
#include "progress.h"
#include "report/json.h"
#include "report/table.h"
#include "report/trace.h"

typedef struct bench {
  const rdt_settings *settings;
  rdt_session session; /* the inputs */
  bool *random;        /* which of them nobody gave */
  char inputs[1024];   /* what they are, for people */
  char indices[200];   /* " -i NAME=FILE" for each random one that may hold indices */
  rdt_bench_job job;
  long long threads[RDT_BENCH_LIST];
  int n_threads;
  bool fault;
  cJSON *doc, *runs, *trace;
  rdt_table *totals, *layers[RDT_BENCH_LIST];
  size_t shown, n_nodes; /* of the layers */
} bench;

static const char *const side_names[] = {"unprotected", "protected"};

/* ---- inputs ---- */

static rdt_status fill_inputs(bench *b) {
  rdt_session *s = &b->session;
  uint64_t seed = 1;
  size_t used = 0;
  b->random = rdt_calloc(s->n_inputs, sizeof *b->random);
  if (!b->random) return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < s->n_inputs; i++) {
    rdt_io_info info;
    RDT_TRY(rdt_model_input_info(s->model, i, &info));
    b->random[i] = !s->inputs[i].data;
    if (!b->random[i]) continue;
    RDT_TRY(rdt_bench_model_fill(&s->inputs[i], info.name, &seed, &s->why));
    if ((info.dtype == RDT_S64 || info.dtype == RDT_S32) && used < sizeof b->indices)
      used += (size_t)snprintf(b->indices + used, sizeof b->indices - used, " -i %.60s=FILE", info.name);
  }
  return RDT_OK;
}

/* "input f32 1x3x224x224 (random)" */
static void describe_inputs(bench *b) {
  const size_t size = sizeof b->inputs;
  size_t used = 0;
  for (size_t i = 0; i < b->session.n_inputs && used < size; i++) {
    char shape[128];
    rdt_io_info info;
    const rdt_tensor *t = &b->session.inputs[i];
    if (rdt_model_input_info(b->session.model, i, &info) != RDT_OK) continue;
    used += (size_t)snprintf(b->inputs + used, size - used, "%s%.60s %s %s%s", i ? ", " : "", info.name,
                             rdt_dtype_name(t->dtype), rdt_shape_text(t->rank, t->shape, shape, sizeof shape),
                             b->random[i] ? " (random)" : "");
  }
  rdt_text_tame(b->inputs, '?');
}

static void begin_document(bench *b) {
  const rdt_session *s = &b->session;
  b->doc = rdt_document("bench-model");
  rdt_json_text(b->doc, "model", b->settings->operand);
  cJSON_AddStringToObject(b->doc, "isa", rdt_context_isa(s->ctx));
  cJSON_AddStringToObject(b->doc, "scheme", b->job.policy.scheme);
  cJSON_AddNumberToObject(b->doc, "trials", b->job.trials);
  cJSON *list = cJSON_AddArrayToObject(b->doc, "inputs");
  for (size_t i = 0; i < s->n_inputs; i++) {
    rdt_io_info info;
    cJSON *o = cJSON_CreateObject();
    if (rdt_model_input_info(s->model, i, &info) == RDT_OK) rdt_json_text(o, "name", info.name);
    cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(s->inputs[i].dtype));
    cJSON_AddItemToObject(o, "shape", rdt_json_shape(s->inputs[i].rank, s->inputs[i].shape));
    cJSON_AddBoolToObject(o, "random", b->random[i]);
    cJSON_AddItemToArray(list, o);
  }
  b->runs = cJSON_AddArrayToObject(b->doc, "runs");
}

/* ---- one number of threads: totals ---- */

static void book_total(bench *b, const rdt_bench_model *m, int i, int threads, cJSON *run) {
  const rdt_bench_side *s = &m->side[i];
  const bool base = i == RDT_BENCH_NONE;
  rdt_table *t = b->totals;
  rdt_table_cell(t, "%d", threads);
  rdt_table_cell(t, "%s", base ? "none" : b->job.policy.scheme);
  rdt_table_cell(t, "%.3f", 1e3 * s->time.median);
  rdt_table_cell(t, "%.3f", 1e3 * s->time.p10);
  rdt_table_cell(t, "%.3f", 1e3 * s->time.p90);
  rdt_table_cell(t, base ? " " : "%.3f", m->ratio.ratio);
  rdt_table_cell(t, base ? " " : "%.3f to %.3f", m->ratio.low, m->ratio.high);
  rdt_table_cell(t, "%" PRId64, s->runs ? s->total.checks / (int64_t)s->runs : 0);
  rdt_table_cell(t, "%" PRId64, s->total.suspects);
  rdt_table_cell(t, "%s", rdt_verdict_name(s->total.verdict));
  rdt_table_cell(t, "%.0f", 1e3 * s->load_seconds);
  rdt_table_cell(t, "%.1f", 1e-6 * (double)s->memory_peak);
  cJSON *o = cJSON_AddObjectToObject(run, side_names[i]);
  rdt_json_number(o, "seconds", s->time.median);
  rdt_json_number(o, "p10", s->time.p10);
  rdt_json_number(o, "p90", s->time.p90);
  rdt_json_number(o, "load_seconds", s->load_seconds);
  cJSON_AddNumberToObject(o, "memory_peak", (double)s->memory_peak);
  cJSON_AddNumberToObject(o, "runs", (double)s->runs);
  cJSON_AddNumberToObject(o, "checks", (double)s->total.checks);
  cJSON_AddNumberToObject(o, "suspects", (double)s->total.suspects);
  cJSON_AddNumberToObject(o, "faults", (double)s->total.faults);
  cJSON_AddNumberToObject(o, "unchecked", (double)s->total.unchecked);
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(s->total.verdict));
}

/* ---- layers ---- */

typedef struct layer {
  size_t node;
  ptrdiff_t twin; /* among the unprotected ones */
  double none, seconds, check;
  rdt_node_info info;
  rdt_result result;
} layer;

static int by_time(const void *a, const void *b) {
  const layer *x = a, *y = b;
  return x->seconds != y->seconds ? (x->seconds < y->seconds) - (x->seconds > y->seconds)
                                  : (x->node > y->node) - (x->node < y->node);
}

static rdt_status take_layers(const rdt_bench_model *m, layer *list, rdt_reason *why) {
  const rdt_bench_side *s = &m->side[RDT_BENCH_PROTECTED];
  for (size_t i = 0; i < s->n_nodes; i++) {
    layer *l = &list[i];
    *l = (layer){.node = i, .twin = rdt_bench_model_twin(m, i), .seconds = s->seconds[i], .check = s->seconds_check[i]};
    l->none = l->twin < 0 ? NAN : m->side[RDT_BENCH_NONE].seconds[l->twin];
    rdt_status status = rdt_model_node_info(s->model, i, &l->info);
    if (status == RDT_OK) status = rdt_model_node_result(s->model, i, &l->result);
    if (status != RDT_OK) return rdt_fail(why, status, "%s", rdt_context_error(s->ctx));
  }
  return RDT_OK;
}

static void micro(rdt_table *t, double seconds) {
  if (isnan(seconds))
    rdt_table_cell(t, "-");
  else
    rdt_table_cell(t, "%.1f", 1e6 * seconds);
}

static void put_times(rdt_table *t, double none, double seconds, double check, double all) {
  micro(t, none);
  micro(t, seconds);
  if (none > 0.0)
    rdt_table_cell(t, "%.3f", seconds / none);
  else
    rdt_table_cell(t, "-");
  if (isnan(check))
    rdt_table_cell(t, " ");
  else
    rdt_table_cell(t, "%.0f", seconds > 0.0 ? 100.0 * check / seconds : 0.0);
  rdt_table_cell(t, "%.1f", 100.0 * seconds / all);
}

static void put_name(rdt_table *t, const char *name) {
  rdt_table_cell(t, "%s", name);
  for (int i = 0; i < 4; i++) rdt_table_cell(t, " ");
}

/* list is sorted; what no node is: inputs and outputs, sums of what lies between. */
static rdt_table *layer_table(bench *b, const rdt_bench_model *m, const layer *list, size_t n) {
  char columns[256], shape[128];
  const double none = m->side[RDT_BENCH_NONE].time.median, all = m->side[RDT_BENCH_PROTECTED].time.median;
  double rest[2] = {none, all}, hidden[2] = {0.0, 0.0};
  snprintf(columns, sizeof columns, "layer|op|shape|kernel|scheme|>us none|>us %s|>ratio|>check %%|>share %%",
           b->job.policy.scheme);
  rdt_table *t = rdt_table_create(columns);
  for (size_t i = 0; i < m->side[RDT_BENCH_NONE].n_nodes; i++) rest[0] -= m->side[RDT_BENCH_NONE].seconds[i];
  for (size_t i = 0; i < n; i++) {
    const layer *l = &list[i];
    rest[1] -= l->seconds;
    if (i >= b->shown) {
      hidden[0] += l->none;
      hidden[1] += l->seconds;
      continue;
    }
    const char *const cells[] = {l->info.name, l->info.op,
                                 rdt_shape_text(l->info.out.rank, l->info.out.shape, shape, sizeof shape),
                                 l->info.kernel, l->info.scheme};
    for (size_t c = 0; c < sizeof cells / sizeof *cells; c++) rdt_table_cell(t, "%s", cells[c]);
    put_times(t, l->none, l->seconds, l->check, all);
  }
  rdt_table_rule(t);
  if (n > b->shown) {
    put_name(t, "other layers");
    put_times(t, hidden[0], hidden[1], NAN, all);
  }
  put_name(t, "between layers");
  put_times(t, rest[0], rest[1], NAN, all);
  put_name(t, "all");
  put_times(t, none, all, NAN, all);
  return t;
}

static cJSON *layer_json(const rdt_bench_model *m, const layer *l) {
  rdt_node_info none;
  cJSON *o = cJSON_CreateObject();
  rdt_json_text(o, "name", l->info.name);
  rdt_json_text(o, "op", l->info.op);
  cJSON_AddItemToObject(o, "shape", rdt_json_shape(l->info.out.rank, l->info.out.shape));
  cJSON_AddStringToObject(o, "kernel", l->info.kernel);
  if (l->twin >= 0 && rdt_model_node_info(m->side[RDT_BENCH_NONE].model, (size_t)l->twin, &none) == RDT_OK)
    cJSON_AddStringToObject(o, "kernel_unprotected", none.kernel);
  cJSON_AddStringToObject(o, "scheme", l->info.scheme);
  rdt_json_number(o, "seconds_unprotected", l->none);
  rdt_json_number(o, "seconds", l->seconds);
  rdt_json_number(o, "seconds_check", l->check);
  rdt_json_number(o, "ratio", l->none > 0.0 ? l->seconds / l->none : NAN);
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(l->result.verdict));
  cJSON_AddNumberToObject(o, "checks", (double)l->result.checks);
  return o;
}

static rdt_status book_layers(bench *b, const rdt_bench_model *m, int which, cJSON *run) {
  const size_t n = m->side[RDT_BENCH_PROTECTED].n_nodes;
  rdt_reason *why = &b->session.why;
  layer *list = rdt_calloc(n, sizeof *list);
  rdt_status status = list ? take_layers(m, list, why) : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  cJSON *layers = cJSON_AddArrayToObject(run, "layers");
  for (size_t i = 0; status == RDT_OK && i < n; i++) cJSON_AddItemToArray(layers, layer_json(m, &list[i]));
  if (status == RDT_OK) {
    qsort(list, n, sizeof *list, by_time);
    b->layers[which] = layer_table(b, m, list, n);
    b->n_nodes = n;
  }
  rdt_free(list);
  return status;
}

/* ---- timeline ---- */

/* The medians of the layers one after the other: a typical run. */
static rdt_status trace_side(bench *b, const rdt_bench_side *s, int i, int threads) {
  char process[64], name[300];
  double at = 0.0;
  snprintf(process, sizeof process, "%d thread%s", threads, threads == 1 ? "" : "s");
  rdt_trace_track(b->trace, threads, process, i + 1, side_names[i]);
  for (size_t n = 0; n < s->n_nodes; n++) {
    rdt_node_info info;
    rdt_result r;
    rdt_status status = rdt_model_node_info(s->model, n, &info);
    if (status == RDT_OK) status = rdt_model_node_result(s->model, n, &r);
    if (status != RDT_OK) return rdt_fail(&b->session.why, status, "%s", rdt_context_error(s->ctx));
    snprintf(name, sizeof name, "%s", info.name);
    rdt_text_tame(name, '?');
    cJSON *args = rdt_trace_event(b->trace, threads, i + 1, name, info.op, at, s->seconds[n]);
    cJSON_AddStringToObject(args, "kernel", info.kernel);
    cJSON_AddStringToObject(args, "scheme", info.scheme);
    cJSON_AddStringToObject(args, "verdict", rdt_verdict_name(r.verdict));
    cJSON_AddNumberToObject(args, "checks", (double)r.checks);
    rdt_json_number(args, "seconds_check", s->seconds_check[n]);
    at += s->seconds[n];
  }
  return RDT_OK;
}

/* ---- all ---- */

static rdt_status book(bench *b, const rdt_bench_model *m, int which) {
  const int threads = b->job.threads;
  cJSON *run = cJSON_CreateObject();
  cJSON_AddItemToArray(b->runs, run);
  cJSON_AddNumberToObject(run, "threads", threads);
  for (int i = 0; i < RDT_BENCH_SIDES; i++) {
    book_total(b, m, i, threads, run);
    b->fault = b->fault || m->side[i].total.faults > 0;
  }
  rdt_json_number(run, "ratio", m->ratio.ratio);
  rdt_json_number(run, "low", m->ratio.low);
  rdt_json_number(run, "high", m->ratio.high);
  for (int i = 0; b->trace && i < RDT_BENCH_SIDES; i++) RDT_TRY(trace_side(b, &m->side[i], i, threads));
  return book_layers(b, m, which, run);
}

/* Indices that are random may lie beyond what they index: only the caller knows how many there are. */
static rdt_status blame_random(bench *b, rdt_status status) {
  const rdt_reason first = b->session.why;
  if (status != RDT_ERR_ARG || !*b->indices) return status;
  return rdt_fail(&b->session.why, status, "%.250s; integers of inputs that nobody gave are random: give%s", first.text,
                  b->indices);
}

static rdt_status measure(bench *b) {
  const rdt_settings *s = b->settings;
  b->totals = rdt_table_create(
      ">threads|scheme|>ms|>p10|>p90|>/ none|>95 %|>checks a run|>suspects|verdict|>load and plan ms|>peak MB");
  rdt_progress_begin(s, "measuring");
  b->job.progress = rdt_bench_show;
  b->job.turns = b->n_threads;
  for (int i = 0; i < b->n_threads; i++) {
    rdt_bench_model result;
    b->job.turn = i;
    b->job.threads = (int)b->threads[i];
    rdt_status status = blame_random(b, rdt_bench_model_run(&b->job, &result, &b->session.why));
    if (rdt_signals_caught()) status = RDT_ERR_CANCELLED;
    if (status == RDT_OK) status = book(b, &result, i);
    rdt_bench_model_free(&result);
    RDT_TRY(status);
  }
  rdt_progress_end();
  return RDT_OK;
}

static bool put_text(const bench *b) {
  const bool markdown = b->settings->format == RDT_FORMAT_MD;
  printf("%s: %s; %s; medians of %d interleaved samples\n\n", b->settings->operand, b->inputs,
         rdt_context_isa(b->session.ctx), b->job.trials);
  bool printed = rdt_table_print(b->totals, stdout, markdown);
  for (int i = 0; printed && i < b->n_threads; i++) {
    printf("\n%lld thread%s, %zu of %zu layers:\n\n", b->threads[i], b->threads[i] == 1 ? "" : "s",
           b->shown < b->n_nodes ? b->shown : b->n_nodes, b->n_nodes);
    printed = rdt_table_print(b->layers[i], stdout, markdown);
  }
  return printed;
}

static rdt_status say(bench *b) {
  const rdt_settings *s = b->settings;
  rdt_reason *why = &b->session.why;
  if (s->profile) RDT_TRY(rdt_json_write(b->trace, s->profile, why));
  if (s->report) RDT_TRY(rdt_json_write(b->doc, s->report, why));
  if (s->format == RDT_FORMAT_JSON) return rdt_json_print(b->doc, why);
  return put_text(b) ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing the tables");
}

static rdt_status prepare(bench *b) {
  const rdt_settings *s = b->settings;
  rdt_session *session = &b->session;
  if (!rdt_bench_parse_list(s->thread_list ? s->thread_list : "1,2", b->threads, &b->n_threads))
    return rdt_fail(&session->why, RDT_ERR_ARG, "--threads takes up to %d numbers from 1 to 1024 as in 1,2, not '%s'",
                    RDT_BENCH_LIST, s->thread_list);
  for (int i = 0; i < b->n_threads; i++) RDT_TRY(rdt_team_try((int)b->threads[i], &session->why));
  RDT_TRY(rdt_session_open(session, s, RDT_INPUTS_SHAPES));
  RDT_TRY(fill_inputs(b));
  RDT_TRY(rdt_session_fits(session, s));
  b->job = (rdt_bench_job){.path = s->operand,
                           .policy = RDT_POLICY_DEFAULT,
                           .plan = s->plan,
                           .named = (const char *const *)session->named,
                           .n_named = session->n_named,
                           .inputs = session->inputs,
                           .n_inputs = session->n_inputs,
                           .trials = s->trials ? (int)s->trials : 21,
                           .watch = rdt_signals_watch};
  if (s->scheme) b->job.policy.scheme = s->scheme;
  if (s->lambda > 0.0) b->job.policy.lambda = s->lambda;
  b->shown = s->top ? (size_t)s->top : 20;
  describe_inputs(b);
  begin_document(b);
  rdt_model_free(session->model); /* the contenders load their own */
  session->model = NULL;
  if (s->profile) b->trace = rdt_trace_create();
  return RDT_OK;
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  bench b = {.settings = settings};
  rdt_status status = prepare(&b);
  if (status == RDT_OK) status = measure(&b);
  if (status == RDT_OK) status = say(&b);
  const int code = status != RDT_OK ? rdt_cli_fail(c, status, b.session.why.text)
                   : b.fault        ? RDT_EXIT_FAULT
                                    : RDT_EXIT_OK;
  for (int i = 0; i < RDT_BENCH_LIST; i++) rdt_table_destroy(b.layers[i]);
  rdt_table_destroy(b.totals);
  cJSON_Delete(b.doc);
  cJSON_Delete(b.trace);
  rdt_free(b.random);
  rdt_session_close(&b.session);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_INPUT,       RDT_OPT_INPUT_SHAPE, RDT_OPT_SCHEME, RDT_OPT_PLAN,
                                        RDT_OPT_THREAD_LIST, RDT_OPT_TRIALS,      RDT_OPT_LAMBDA, RDT_OPT_TOP_LAYERS,
                                        RDT_OPT_PROFILE,     RDT_OPT_REPORT,      RDT_OPT_FORMAT, RDT_OPT_JSON,
                                        RDT_OPT_NO_PROGRESS, RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt bench model model.onnx --input-shape 1x3x224x224 --threads 1,2", NULL},
    {"redoubt bench model model.onnx -i image.npy --top 50", NULL},
    {"redoubt bench model model.onnx --input-shape ids=1x128 --input-shape mask=1x128 --profile run.json", NULL},
    {NULL, NULL}};
const rdt_command rdt_cmd_bench_model = {
    .name = "bench model",
    .run = run,
    .operand = "MODEL.onnx",
    .operand_needed = true,
    .options = options,
    .summary = "a network protected against unprotected, layer by layer",
    .text =
        "Runs the network with `--scheme` and with none, interleaved in one process, and prints medians with their 10 "
        "% "
        "and 90 % quantiles, the ratio with a 95 % bootstrap interval, and the layers that take longest. Inputs "
        "without "
        "a file are random: numbers in [-1, 1), indices below 100, masks of ones, zeros for kinds of tokens. A sample "
        "lasts at least 2 ms.",
    .bad = "a fault was found, although none was planted",
    .stopped = "stopped by signal N: no table, report or timeline is written",
    .examples = examples};
