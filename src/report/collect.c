/* Collecting what runs found, and the document of it. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cpu_info.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "core/text.h"
#include "net/model.h"
#include "report/html.h"
#include "report/journal.h"
#include "report/json.h"
#include "report/words.h"

/* ---- collecting ---- */

rdt_status rdt_report_create(rdt_model *m, rdt_report **out) {
  *out = NULL;
  rdt_report *r = rdt_calloc(1, sizeof *r);
  rdt_result *nodes = rdt_calloc(rdt_model_node_count(m), sizeof *nodes);
  if (!r || !nodes) {
    rdt_free(r);
    rdt_free(nodes);
    return rdt_fail(&m->ctx->error, RDT_ERR_NOMEM, "out of memory for a report on %s", m->graph->path);
  }
  *r = (rdt_report){.model = m, .nodes = nodes, .n_nodes = rdt_model_node_count(m), .run = 1};
  for (size_t i = 0; i < r->n_nodes; i++) r->nodes[i].place[0] = r->nodes[i].place[1] = -1;
  m->measure = true;
  *out = r;
  return RDT_OK;
}

static void free_event(rdt_event *e) {
  const char *strings[] = {e->node, e->op, e->scheme, e->kernel, e->what, e->text, e->dtype};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) rdt_free((char *)strings[i]);
}

void rdt_report_destroy(rdt_report *r) {
  if (!r) return;
  r->model->measure = false;
  for (int i = 0; i < r->n_events; i++) free_event(&r->events[i].event);
  rdt_free(r->events);
  rdt_free(r->nodes);
  rdt_free(r);
}

void rdt_report_event(const rdt_event *event, void *report) {
  rdt_report *r = report;
  r->seen++;
  if (r->n_events == RDT_MAX_EVENTS) return;
  if (!r->events) r->events = rdt_calloc(RDT_MAX_EVENTS, sizeof *r->events);
  if (!r->events) return;
  rdt_kept_event kept = {*event, r->run, {0}};
  rdt_event *e = &kept.event;
  const char **strings[] = {&e->node, &e->op, &e->scheme, &e->kernel, &e->what, &e->text, &e->dtype};
  bool whole = true;
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
    *strings[i] = rdt_strdup(*strings[i] ? *strings[i] : "");
    whole = whole && *strings[i];
  }
  clock_gettime(CLOCK_REALTIME, &kept.time);
  if (whole)
    r->events[r->n_events++] = kept;
  else
    free_event(e);
}

void rdt_result_add(rdt_result *sum, const rdt_result *one) {
  if (one->verdict > sum->verdict) sum->verdict = one->verdict;
  if (one->diagnosis != RDT_DIAG_NONE) sum->diagnosis = one->diagnosis;
  if (!(one->ratio <= sum->ratio)) { /* NaN is the largest */
    sum->ratio = one->ratio;
    sum->residual = one->residual;
    sum->bound = one->bound;
    memcpy(sum->place, one->place, sizeof sum->place);
  }
  if (one->floor > sum->floor) sum->floor = one->floor;
  sum->checks += one->checks;
  sum->suspects += one->suspects;
  sum->faults += one->faults;
  sum->unchecked += one->unchecked;
  sum->seconds += one->seconds;
  sum->seconds_check += one->seconds_check;
}

void rdt_report_book(rdt_report *r, rdt_status status, const rdt_run_result *one, bool timed) {
  rdt_run_result *t = &r->total;
  rdt_result node;
  r->status = status;
  r->booked = true;
  if (one->verdict > t->verdict) t->verdict = one->verdict;
  t->checks += one->checks;
  t->suspects += one->suspects;
  t->faults += one->faults;
  t->unchecked += one->unchecked;
  if (timed) t->seconds += one->seconds, t->seconds_check += one->seconds_check;
  for (size_t i = 0; i < r->n_nodes; i++) {
    if (rdt_model_node_result(r->model, i, &node) != RDT_OK) continue;
    if (!timed) node.seconds = node.seconds_check = 0.0;
    rdt_result_add(&r->nodes[i], &node);
  }
  r->runs += timed;
}

void rdt_report_run(rdt_report *r, rdt_status status, const rdt_run_result *result) {
  rdt_report_book(r, status, result, true);
  r->run = r->runs + 1;
}

/* ---- the document ---- */

static void add_counts(cJSON *o, int64_t checks, int64_t suspects, int64_t faults, int64_t unchecked, double seconds,
                       double seconds_check) {
  cJSON_AddNumberToObject(o, "checks", (double)checks);
  cJSON_AddNumberToObject(o, "suspects", (double)suspects);
  cJSON_AddNumberToObject(o, "faults", (double)faults);
  cJSON_AddNumberToObject(o, "unchecked", (double)unchecked);
  rdt_json_number(o, "seconds", seconds);
  rdt_json_number(o, "seconds_check", seconds_check);
}

static void add_place(cJSON *o, const int64_t place[2]) {
  cJSON *list = cJSON_AddArrayToObject(o, "place");
  for (int i = 0; i < 2; i++)
    cJSON_AddItemToArray(list, place[i] < 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)place[i]));
}

static cJSON *layer(const rdt_report *r, size_t i) {
  const rdt_result *n = &r->nodes[i];
  const rdt_step *s = rdt_model_step(r->model, i);
  rdt_node_info info;
  if (rdt_model_node_info(r->model, i, &info) != RDT_OK) return NULL;
  cJSON *o = cJSON_CreateObject();
  rdt_json_text(o, "name", info.name);
  rdt_json_text(o, "op", info.op);
  cJSON_AddStringToObject(o, "kernel", info.kernel);
  cJSON_AddStringToObject(o, "scheme", info.scheme);
  cJSON_AddStringToObject(o, "dtype", info.dtype);
  cJSON_AddItemToObject(o, "shape", rdt_json_shape(info.out.rank, info.out.shape));
  cJSON_AddBoolToObject(o, "weights", s->plan && s->plan->fixed_weights);
  if (rdt_step_refusal(s)) rdt_json_text(o, "on_host", rdt_step_refusal(s));
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(n->verdict));
  cJSON_AddStringToObject(o, "diagnosis", rdt_diagnosis_name(n->diagnosis));
  rdt_json_number(o, "ratio", n->ratio);
  rdt_json_number(o, "residual", n->residual);
  rdt_json_number(o, "bound", n->bound);
  rdt_json_number(o, "floor", n->floor);
  if (s->typical > 0.0)
    cJSON_AddNumberToObject(o, "typical", s->typical);
  else
    cJSON_AddNullToObject(o, "typical");
  add_place(o, n->place);
  add_counts(o, n->checks, n->suspects, n->faults, n->unchecked, n->seconds, n->seconds_check);
  return o;
}

/* What the schemes in use promise: of those of the table that a layer has. */
static void add_schemes(const rdt_report *r, cJSON *doc) {
  int n;
  const rdt_scheme_info *table = rdt_scheme_table(&n);
  cJSON *list = cJSON_AddArrayToObject(doc, "schemes");
  for (int at = 0; at < n * RDT_MOST_SETS; at++) {
    const int k = at / RDT_MOST_SETS;
    char name[RDT_SCHEME_TEXT];
    bool used = false;
    rdt_scheme_name(&table[k], 1 + at % RDT_MOST_SETS, name);
    for (size_t i = 0; i < r->n_nodes && !used; i++) {
      const rdt_step *s = rdt_model_step(r->model, i);
      used = s && s->plan && strcmp(s->plan->scheme_name, name) == 0;
    }
    if (!used) continue;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddBoolToObject(o, "detects", table[k].detects);
    cJSON_AddBoolToObject(o, "locates", table[k].locates);
    cJSON_AddStringToObject(o, "granularity", table[k].granularity);
    cJSON_AddBoolToObject(o, "covers_weights", table[k].covers_weights);
    cJSON_AddBoolToObject(o, "covers_packed", table[k].covers_packed);
    cJSON_AddStringToObject(o, "text", table[k].text);
    cJSON_AddItemToArray(list, o);
  }
}

static cJSON *counters(const rdt_context *ctx, const char *number, bool products,
                       size_t (*ask)(const rdt_context *ctx, rdt_core_info *list, size_t room)) {
  const size_t n = ask(ctx, NULL, 0);
  rdt_core_info *cores = rdt_calloc(n, sizeof *cores);
  cJSON *list = cJSON_CreateArray();
  if (cores) ask(ctx, cores, n);
  for (size_t i = 0; cores && i < n; i++) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, number, cores[i].core);
    if (products) cJSON_AddNumberToObject(o, "products", (double)cores[i].products);
    cJSON_AddNumberToObject(o, "suspects", (double)cores[i].suspects);
    for (int d = RDT_DIAG_TRANSIENT; d < RDT_DIAG_COUNT; d++)
      cJSON_AddNumberToObject(o, rdt_diagnosis_name((rdt_diagnosis)d), (double)cores[i].faults[d]);
    cJSON_AddItemToArray(list, o);
  }
  rdt_free(cores);
  return list;
}

cJSON *rdt_report_cores(const rdt_context *ctx) {
  return counters(ctx, "core", true, rdt_context_cores);
}

cJSON *rdt_report_multiprocessors(const rdt_context *ctx) {
  return counters(ctx, "multiprocessor", false, rdt_context_multiprocessors);
}

static cJSON *event(const rdt_kept_event *kept) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "run", (double)kept->run);
  rdt_json_time(o, &kept->time);
  rdt_event_json(o, &kept->event);
  return o;
}

static void add_tensors(const rdt_report *r, cJSON *doc) {
  const rdt_model *m = r->model;
  rdt_io_info info;
  cJSON *list = cJSON_AddArrayToObject(doc, "inputs");
  for (size_t i = 0; i < rdt_model_input_count(m) && rdt_model_input_info(m, i, &info) == RDT_OK; i++) {
    cJSON *o = cJSON_CreateObject();
    rdt_json_text(o, "name", info.name);
    cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(info.dtype));
    const rdt_tensor *t = m->ready ? &m->planned[i] : NULL;
    cJSON_AddItemToObject(o, "shape", rdt_json_shape(t ? t->rank : info.rank, t ? t->shape : info.shape));
    cJSON_AddItemToArray(list, o);
  }
  list = cJSON_AddArrayToObject(doc, "outputs");
  for (size_t i = 0; i < rdt_model_output_count(m) && rdt_model_output_info(m, i, &info) == RDT_OK; i++) {
    cJSON *o = cJSON_CreateObject();
    rdt_json_text(o, "name", info.name);
    if (m->published) {
      cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(m->outputs[i].dtype));
      cJSON_AddItemToObject(o, "shape", rdt_json_shape(m->outputs[i].rank, m->outputs[i].shape));
    }
    cJSON_AddItemToArray(list, o);
  }
}

static void add_machine(cJSON *doc) {
  char text[256];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  rdt_json_time(doc, &now);
  if (gethostname(text, sizeof text) != 0) strcpy(text, "unknown");
  text[sizeof text - 1] = '\0';
  rdt_json_text(doc, "host", text);
  rdt_json_text(doc, "cpu", rdt_cpu_name(text, sizeof text));
  if (*rdt_cpu_microcode(text, sizeof text)) rdt_json_text(doc, "microcode", text);
}

cJSON *rdt_report_document(const rdt_report *r) {
  const rdt_context *ctx = r->model->ctx;
  const rdt_run_result *t = &r->total;
  cJSON *doc = rdt_document("run"), *o;
  add_machine(doc);
  rdt_json_text(doc, "model", r->model->graph->path);
  cJSON_AddStringToObject(doc, "isa", rdt_context_isa(ctx));
  cJSON_AddNumberToObject(doc, "threads", rdt_context_threads(ctx));
  if (ctx->machine) cJSON_AddStringToObject(doc, "device", rdt_context_device(ctx));
  if (r->layer_times)
    cJSON_AddStringToObject(doc, "layer_times",
                            "by CUDA events, medians of seven runs step by step, each layer with its checks behind it");
  cJSON_AddStringToObject(doc, "scheme", ctx->policy.scheme);
  if (r->model->graph->replaced.votes > 1) cJSON_AddNumberToObject(doc, "checkpoints", r->model->graph->replaced.votes);
  cJSON_AddStringToObject(doc, "on_fault", rdt_on_fault_name(ctx->policy.on_fault));
  cJSON_AddNumberToObject(doc, "scrub_every", ctx->policy.scrub_every);
  cJSON_AddNumberToObject(doc, "runs", (double)r->runs);
  add_tensors(r, doc);
  cJSON_AddStringToObject(doc, "status", rdt_status_name(r->status));
  cJSON_AddStringToObject(doc, "verdict", rdt_verdict_name(r->booked ? t->verdict : RDT_UNCHECKED));
  add_counts(doc, t->checks, t->suspects, t->faults, t->unchecked, t->seconds, t->seconds_check);
  cJSON_AddNumberToObject(doc, "memory_peak", (double)rdt_memory_peak());
  cJSON_AddItemToObject(doc, "cores", rdt_report_cores(r->model->ctx));
  if (rdt_context_multiprocessors(r->model->ctx, NULL, 0))
    cJSON_AddItemToObject(doc, "multiprocessors", rdt_report_multiprocessors(r->model->ctx));
  add_schemes(r, doc);
  o = cJSON_AddArrayToObject(doc, "layers");
  for (size_t i = 0; i < r->n_nodes; i++) cJSON_AddItemToArray(o, layer(r, i));
  o = cJSON_AddArrayToObject(doc, "events");
  for (int i = 0; i < r->n_events; i++) cJSON_AddItemToArray(o, event(&r->events[i]));
  cJSON_AddNumberToObject(doc, "events_left_out", (double)(r->seen - r->n_events));
  return doc;
}

/* ---- what a caller gets ---- */

rdt_status rdt_report_text(const rdt_report *r, rdt_report_format format, char **text) {
  rdt_reason *why = &r->model->ctx->error;
  *text = NULL;
  if (format != RDT_REPORT_JSON && format != RDT_REPORT_HTML)
    return rdt_fail(why, RDT_ERR_ARG, "no such format of reports: %d", (int)format);
  cJSON *doc = rdt_report_document(r);
  rdt_status status = doc ? RDT_OK : RDT_ERR_NOMEM;
  if (doc && format == RDT_REPORT_HTML)
    status = rdt_html_page(doc, text, why);
  else if (doc && !(*text = cJSON_Print(doc))) /* by malloc */
    status = RDT_ERR_NOMEM;
  cJSON_Delete(doc);
  return status == RDT_ERR_NOMEM ? rdt_fail(why, status, "out of memory while writing a report") : status;
}

rdt_status rdt_report_write(const rdt_report *r, rdt_report_format format, const char *path) {
  char *text;
  RDT_TRY(rdt_report_text(r, format, &text));
  const rdt_status status =
      rdt_file_write(path, text, strlen(text), "\n", format == RDT_REPORT_JSON, &r->model->ctx->error);
  free(text);
  return status;
}
