#include "run_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/tensor.h"
#include "core/text.h"
#include "report/json.h"
#include "report/table.h"

enum { SHOWN_IMAGES = 16, SHOWN_EVENTS = 12 };

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

static double share(double part, double whole) {
  return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

/* ---- text ---- */

static void put_heading(const rdt_run_report *r) {
  char shape[128];
  rdt_io_info info;
  const rdt_context *ctx = r->session->ctx;
  printf("%s:", r->settings->operand);
  for (size_t i = 0; i < r->session->n_inputs; i++) {
    if (rdt_model_input_info(r->session->model, i, &info) != RDT_OK) continue;
    const rdt_tensor *t = &r->session->inputs[i];
    char name[256];
    snprintf(name, sizeof name, "%s", info.name);
    rdt_text_tame(name, '?');
    printf("%s %s %s %s", i ? "," : "", name, rdt_dtype_name(t->dtype),
           rdt_shape_text(t->rank, t->shape, shape, sizeof shape));
  }
  printf("; %s, %d thread%s", rdt_context_isa(ctx), rdt_context_threads(ctx), rdt_context_threads(ctx) == 1 ? "" : "s");
  if (r->runs > 1) printf("; %" PRId64 " runs, times are means", r->runs);
  puts("");
  if (r->settings->fault) printf("planted: %s\n", r->injected);
  puts("");
}

/* Largest residual against its bound; checks by equal bits have none. */
static void put_residual(rdt_table *t, const rdt_result *n) {
  if (n->checks == 0)
    rdt_table_cell(t, "-");
  else if (n->bound > 0.0 || n->residual > 0.0)
    rdt_table_cell(t, "%.2g / %.2g", n->residual, n->bound);
  else
    rdt_table_cell(t, "equal bits");
}

static bool put_layers(const rdt_run_report *r, bool markdown) {
  const double runs = r->runs > 0 ? (double)r->runs : 1.0;
  rdt_table *t = rdt_table_create("layer|op|shape|scheme|>checks|>residual / bound|verdict|>ms|>check %");
  for (size_t i = 0; i < r->n_nodes; i++) {
    const rdt_result *n = &r->nodes[i];
    rdt_node_info info;
    char shape[128];
    if (rdt_model_node_info(r->session->model, i, &info) != RDT_OK) continue;
    rdt_table_cell(t, "%s", info.name);
    rdt_table_cell(t, "%s", info.op);
    rdt_table_cell(t, "%s", rdt_shape_text(info.out.rank, info.out.shape, shape, sizeof shape));
    rdt_table_cell(t, "%s", info.scheme);
    rdt_table_cell(t, "%" PRId64, n->checks);
    put_residual(t, n);
    rdt_table_cell(t, "%s", rdt_verdict_name(n->verdict));
    rdt_table_cell(t, "%.3f", 1e3 * n->seconds / runs);
    rdt_table_cell(t, "%.0f", share(n->seconds_check, n->seconds));
  }
  rdt_table_rule(t);
  rdt_table_cell(t, "all");
  for (int i = 0; i < 3; i++) rdt_table_cell(t, " ");
  rdt_table_cell(t, "%" PRId64, r->total.checks);
  rdt_table_cell(t, " ");
  rdt_table_cell(t, "%s", rdt_verdict_name(r->total.verdict));
  rdt_table_cell(t, "%.3f", 1e3 * r->total.seconds / runs);
  rdt_table_cell(t, "%.0f", share(r->total.seconds_check, r->total.seconds));
  const bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  return printed;
}

static void put_events(const rdt_run_report *r) {
  const rdt_session *s = r->session;
  int shown = 0;
  for (int i = 0; i < s->n_events; i++) {
    const rdt_event *e = &s->events[i].event;
    if (e->kind == RDT_EVENT_SUSPECT) continue; /* counted; they need nobody */
    if (shown == 0) puts("");
    if (shown++ == SHOWN_EVENTS) {
      puts("- ... the rest is in the --report");
      break;
    }
    printf("- %s\n", e->text);
  }
}

static void put_verdict(const rdt_run_report *r) {
  const rdt_run_result *t = &r->total;
  puts("");
  for (size_t i = 0; r->files && r->has_outputs && i < rdt_model_output_count(r->session->model); i++)
    if (r->files[i]) printf("wrote %s\n", r->files[i]);
  printf("peak memory: %.1f MB\n", 1e-6 * (double)rdt_memory_peak());
  printf("%s: %s (%" PRId64 " checks, %" PRId64 " suspect%s, %" PRId64 " fault%s", rdt_verdict_name(t->verdict),
         rdt_verdict_meaning(t->verdict), t->checks, t->suspects, t->suspects == 1 ? "" : "s", t->faults,
         t->faults == 1 ? "" : "s");
  if (t->unchecked) printf(", %" PRId64 " not checkable", t->unchecked);
  puts(")");
}

/* ---- predictions ---- */

/* Output 0 as rows of class scores, where it looks like that. */
static bool scores(const rdt_run_report *r, rdt_tensor *out) {
  rdt_node_info last;
  rdt_session *s = r->session;
  if (!r->has_outputs || rdt_model_output(s->model, 0, out) != RDT_OK) return false;
  if (out->rank != 2 || out->shape[1] < 1 || !rdt_dtype_is_float(out->dtype)) return false;
  if (r->settings->top || r->labels.data) return true;
  return r->n_nodes > 0 && rdt_model_node_info(s->model, r->n_nodes - 1, &last) == RDT_OK && strstr(last.op, "Softmax");
}

static double score(const rdt_tensor *t, int64_t image, int64_t class_) {
  return rdt_load(t->data, t->dtype, image * t->shape[1] + class_);
}

/* The likeliest class that comes after (value, class) in falling order; -1 after the last. */
static int64_t next_class(const rdt_tensor *t, int64_t image, int64_t after) {
  int64_t best = -1;
  const double limit = after < 0 ? INFINITY : score(t, image, after);
  for (int64_t c = 0; c < t->shape[1]; c++) {
    const double x = score(t, image, c);
    const bool behind = x < limit || (x == limit && c > after);
    if (behind && (best < 0 || x > score(t, image, best))) best = c;
  }
  return best;
}

static int64_t label_of(const rdt_run_report *r, int64_t image) {
  return (int64_t)rdt_load(r->labels.data, r->labels.dtype, image);
}

static int64_t count_right(const rdt_run_report *r, const rdt_tensor *t) {
  int64_t right = 0;
  for (int64_t i = 0; i < t->shape[0]; i++) right += next_class(t, i, -1) == label_of(r, i);
  return right;
}

static bool put_predictions(const rdt_run_report *r, bool markdown) {
  rdt_tensor t;
  if (!scores(r, &t)) return true;
  const int64_t images = t.shape[0], shown = images > SHOWN_IMAGES ? SHOWN_IMAGES : images;
  const int64_t top = r->settings->top ? r->settings->top : 1;
  rdt_table *table = rdt_table_create(r->labels.data ? ">image|prediction|label" : ">image|prediction");
  for (int64_t i = 0; i < shown; i++) {
    char text[512] = "";
    size_t used = 0;
    int64_t c = -1;
    for (int64_t k = 0; k < top && used < sizeof text && (c = next_class(&t, i, c)) >= 0; k++)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 " (%.2f %%)", k ? ", " : "", c,
                               100.0 * score(&t, i, c));
    rdt_table_cell(table, "%" PRId64, i);
    rdt_table_cell(table, "%s", *text ? text : "none: not a number");
    if (r->labels.data) {
      const int64_t label = label_of(r, i);
      rdt_table_cell(table, "%" PRId64 "%s", label, next_class(&t, i, -1) == label ? "" : "  <- wrong");
    }
  }
  puts("");
  const bool printed = rdt_table_print(table, stdout, markdown);
  rdt_table_destroy(table);
  if (images > shown) printf("... and %" PRId64 " more\n", images - shown);
  if (r->labels.data && images > 0) {
    const int64_t right = count_right(r, &t);
    printf("%" PRId64 " of %" PRId64 " right (%.1f %%)\n", right, images, 100.0 * (double)right / (double)images);
  }
  return printed;
}

bool rdt_run_report_text(const rdt_run_report *r, bool markdown) {
  put_heading(r);
  if (!put_layers(r, markdown)) return false;
  put_events(r);
  if (!put_predictions(r, markdown)) return false;
  put_verdict(r);
  return true;
}

/* ---- JSON ---- */

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

static cJSON *layer_json(const rdt_run_report *r, size_t i) {
  const rdt_result *n = &r->nodes[i];
  rdt_node_info info;
  if (rdt_model_node_info(r->session->model, i, &info) != RDT_OK) return NULL;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "name", info.name);
  cJSON_AddStringToObject(o, "op", info.op);
  cJSON_AddStringToObject(o, "kernel", info.kernel);
  cJSON_AddStringToObject(o, "scheme", info.scheme);
  cJSON_AddStringToObject(o, "dtype", info.dtype);
  cJSON_AddItemToObject(o, "shape", rdt_shape_json(info.out.rank, info.out.shape));
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(n->verdict));
  cJSON_AddStringToObject(o, "diagnosis", rdt_diagnosis_name(n->diagnosis));
  rdt_json_number(o, "ratio", n->ratio);
  rdt_json_number(o, "residual", n->residual);
  rdt_json_number(o, "bound", n->bound);
  rdt_json_number(o, "floor", n->floor);
  add_place(o, n->place);
  add_counts(o, n->checks, n->suspects, n->faults, n->unchecked, n->seconds, n->seconds_check);
  return o;
}

static cJSON *event_json(const rdt_kept_event *kept) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "run", (double)kept->run);
  rdt_event_json(o, &kept->event);
  return o;
}

static void add_tensors(const rdt_run_report *r, cJSON *doc) {
  rdt_io_info info;
  rdt_model *model = r->session->model;
  cJSON *list = cJSON_AddArrayToObject(doc, "inputs");
  for (size_t i = 0; i < r->session->n_inputs; i++) {
    const rdt_tensor *t = &r->session->inputs[i];
    cJSON *o = cJSON_CreateObject();
    if (rdt_model_input_info(model, i, &info) == RDT_OK) rdt_json_text(o, "name", info.name);
    cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(t->dtype));
    cJSON_AddItemToObject(o, "shape", rdt_shape_json(t->rank, t->shape));
    cJSON_AddItemToArray(list, o);
  }
  list = cJSON_AddArrayToObject(doc, "outputs");
  for (size_t i = 0; i < rdt_model_output_count(model); i++) {
    rdt_tensor t;
    cJSON *o = cJSON_CreateObject();
    if (rdt_model_output_info(model, i, &info) == RDT_OK) rdt_json_text(o, "name", info.name);
    if (r->has_outputs && rdt_model_output(model, i, &t) == RDT_OK) {
      cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(t.dtype));
      cJSON_AddItemToObject(o, "shape", rdt_shape_json(t.rank, t.shape));
    }
    if (r->files && r->has_outputs && r->files[i]) cJSON_AddStringToObject(o, "file", r->files[i]);
    cJSON_AddItemToArray(list, o);
  }
}

static void add_predictions(const rdt_run_report *r, cJSON *doc) {
  rdt_tensor t;
  if (!scores(r, &t)) return;
  cJSON *list = cJSON_AddArrayToObject(doc, "predictions");
  for (int64_t i = 0; i < t.shape[0]; i++) {
    const int64_t c = next_class(&t, i, -1);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, "class", c < 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)c));
    if (c >= 0) rdt_json_number(o, "score", score(&t, i, c));
    if (r->labels.data) cJSON_AddNumberToObject(o, "label", (double)label_of(r, i));
    cJSON_AddItemToArray(list, o);
  }
  if (r->labels.data) cJSON_AddNumberToObject(doc, "right", (double)count_right(r, &t));
}

cJSON *rdt_run_report_json(const rdt_run_report *r) {
  static const char *const on_fault[] = {"recompute", "report", "abort"};
  const rdt_session *s = r->session;
  const rdt_run_result *t = &r->total;
  cJSON *doc = rdt_document("run"), *o;
  cJSON_AddStringToObject(doc, "model", r->settings->operand);
  cJSON_AddStringToObject(doc, "isa", rdt_context_isa(s->ctx));
  cJSON_AddNumberToObject(doc, "threads", rdt_context_threads(s->ctx));
  cJSON_AddStringToObject(doc, "scheme", r->settings->scheme ? r->settings->scheme : "auto");
  cJSON_AddStringToObject(doc, "on_fault", on_fault[r->settings->on_fault]);
  cJSON_AddNumberToObject(doc, "runs", (double)r->runs);
  if (r->settings->fault) {
    o = cJSON_AddObjectToObject(doc, "fault");
    cJSON_AddStringToObject(o, "spec", r->settings->fault);
    cJSON_AddStringToObject(o, "did", r->injected);
  }
  add_tensors(r, doc);
  cJSON_AddStringToObject(doc, "status", rdt_status_name(r->status));
  cJSON_AddNumberToObject(doc, "exit", r->exit_code);
  cJSON_AddStringToObject(doc, "verdict", rdt_verdict_name(t->verdict));
  add_counts(doc, t->checks, t->suspects, t->faults, t->unchecked, t->seconds, t->seconds_check);
  cJSON_AddNumberToObject(doc, "memory_peak", (double)rdt_memory_peak());
  o = cJSON_AddArrayToObject(doc, "layers");
  for (size_t i = 0; i < r->n_nodes; i++) cJSON_AddItemToArray(o, layer_json(r, i));
  o = cJSON_AddArrayToObject(doc, "events");
  for (int i = 0; i < s->n_events; i++) cJSON_AddItemToArray(o, event_json(&s->events[i]));
  cJSON_AddNumberToObject(doc, "events_left_out", (double)(s->seen[0] + s->seen[1] + s->seen[2] - s->n_events));
  add_predictions(r, doc);
  return doc;
}
