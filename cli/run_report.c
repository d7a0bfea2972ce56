/* What a run says: the document, and the text for people that is made of it. */
#include "run_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/tensor.h"
#include "core/text.h"
#include "report/table.h"
#include "report/words.h"

enum { SHOWN_IMAGES = 16, SHOWN_EVENTS = 12, SHOWN_HOSTS = 4 };

/* ---- the document: what the library's report cannot know ---- */

/* Output 0 as rows of class scores, where it looks like that. */
static bool scores(const rdt_run_report *r, rdt_tensor *out) {
  rdt_node_info last;
  rdt_session *s = r->session;
  if (!r->has_outputs || rdt_model_output(s->model, 0, out) != RDT_OK) return false;
  if (out->rank != 2 || out->shape[1] < 1 || !rdt_dtype_is_float(out->dtype)) return false;
  if (r->settings->top || r->labels.data) return true;
  const size_t nodes = rdt_model_node_count(s->model);
  return nodes > 0 && rdt_model_node_info(s->model, nodes - 1, &last) == RDT_OK && strstr(last.op, "Softmax");
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

static void add_class(cJSON *o, const rdt_tensor *t, int64_t image, int64_t c) {
  cJSON_AddItemToObject(o, "class", c < 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)c));
  if (c >= 0) rdt_json_number(o, "score", score(t, image, c));
}

static void add_predictions(const rdt_run_report *r, cJSON *doc) {
  rdt_tensor t;
  if (!scores(r, &t)) return;
  cJSON *list = cJSON_AddArrayToObject(doc, "predictions");
  for (int64_t i = 0; i < t.shape[0]; i++) {
    int64_t c = next_class(&t, i, -1);
    cJSON *o = cJSON_CreateObject();
    add_class(o, &t, i, c);
    if (r->labels.data) cJSON_AddNumberToObject(o, "label", (double)label_of(r, i));
    cJSON *others = r->settings->top > 1 ? cJSON_AddArrayToObject(o, "others") : NULL;
    for (int64_t k = 1; k < r->settings->top && c >= 0 && (c = next_class(&t, i, c)) >= 0; k++) {
      cJSON *other = cJSON_CreateObject();
      add_class(other, &t, i, c);
      cJSON_AddItemToArray(others, other);
    }
    cJSON_AddItemToArray(list, o);
  }
  if (r->labels.data) cJSON_AddNumberToObject(doc, "right", (double)count_right(r, &t));
}

cJSON *rdt_run_report_json(const rdt_run_report *r) {
  cJSON *doc = rdt_report_document(r->session->report), *o;
  cJSON_AddNumberToObject(doc, "exit", r->exit_code);
  if (r->settings->fault) {
    o = cJSON_AddObjectToObject(doc, "fault");
    rdt_json_text(o, "spec", r->settings->fault);
    rdt_json_text(o, "did", r->injected);
  }
  size_t i = 0;
  cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(doc, "outputs")) {
    if (r->files && r->has_outputs && r->files[i]) rdt_json_text(o, "file", r->files[i]);
    i++;
  }
  add_predictions(r, doc);
  return doc;
}

/* ---- text ---- */

static double count(const cJSON *o, const char *name) {
  const double n = rdt_json_real(o, name);
  return n >= 0.0 ? n : 0.0;
}

static double share(const cJSON *o) {
  const double whole = count(o, "seconds");
  return whole > 0.0 ? 100.0 * count(o, "seconds_check") / whole : 0.0;
}

static const char *shape_of(const cJSON *o, char *buf, size_t size) {
  return rdt_json_shape_text(cJSON_GetObjectItemCaseSensitive(o, "shape"), "x", buf, size);
}

/* A text of the document on its way to a terminal. */
static void put_text(const char *format, const char *text) {
  char tame[1024];
  snprintf(tame, sizeof tame, "%s", text);
  rdt_text_tame(tame, '?');
  printf(format, tame);
}

static void put_heading(const cJSON *doc) {
  char shape[128];
  const cJSON *input;
  const double runs = count(doc, "runs"), threads = count(doc, "threads");
  put_text("%s:", rdt_json_string(doc, "model"));
  const char *before = "";
  cJSON_ArrayForEach(input, rdt_json_list(doc, "inputs")) {
    printf("%s", before);
    put_text(" %s", rdt_json_string(input, "name"));
    put_text(" %s", rdt_json_string(input, "dtype"));
    printf(" %s", shape_of(input, shape, sizeof shape));
    before = ",";
  }
  if (*rdt_json_string(doc, "device")) put_text("; %s", rdt_json_string(doc, "device"));
  put_text("; %s", rdt_json_string(doc, "isa"));
  printf(", %.0f thread%s", threads, threads == 1 ? "" : "s");
  if (runs > 1) printf("; %.0f runs, times are means", runs);
  if (*rdt_json_string(doc, "layer_times")) put_text("; times of layers: %s", rdt_json_string(doc, "layer_times"));
  puts("");
  const cJSON *fault = cJSON_GetObjectItemCaseSensitive(doc, "fault");
  if (fault) put_text("planted: %s\n", rdt_json_string(fault, "did"));
  puts("");
}

/* Largest residual against its bound; checks by equal bits have none. */
static void put_residual(rdt_table *t, const cJSON *layer, bool device) {
  const double residual = rdt_json_real(layer, "residual"), bound = rdt_json_real(layer, "bound");
  if (count(layer, "checks") == 0)
    rdt_table_cell(t, "-");
  else if (bound == 0.0 && residual == 0.0 && device && strcmp(rdt_json_string(layer, "scheme"), "dup") != 0)
    rdt_table_cell(t, "below"); /* a device keeps no residuals of checks that passed */
  else if (bound == 0.0 && residual == 0.0)
    rdt_table_cell(t, "equal bits");
  else if (isfinite(residual))
    rdt_table_cell(t, "%.2g / %.2g", residual, bound);
  else
    rdt_table_cell(t, "not finite / %.2g", bound);
}

static bool put_layers(const cJSON *doc, bool markdown) {
  const double runs = count(doc, "runs") > 0 ? count(doc, "runs") : 1.0;
  const cJSON *layer;
  rdt_table *t = rdt_table_create("layer|op|shape|scheme|>checks|>residual / bound|verdict|>ms|>check %");
  cJSON_ArrayForEach(layer, rdt_json_list(doc, "layers")) {
    char shape[128];
    rdt_table_cell(t, "%s", rdt_json_string(layer, "name"));
    rdt_table_cell(t, "%s", rdt_json_string(layer, "op"));
    rdt_table_cell(t, "%s", shape_of(layer, shape, sizeof shape));
    rdt_table_cell(t, "%s", rdt_json_string(layer, "scheme"));
    rdt_table_cell(t, "%.0f", count(layer, "checks"));
    put_residual(t, layer, *rdt_json_string(doc, "device"));
    rdt_table_cell(t, "%s", rdt_json_string(layer, "verdict"));
    rdt_table_cell(t, "%.3f", 1e3 * count(layer, "seconds") / runs);
    rdt_table_cell(t, "%.0f", share(layer));
  }
  rdt_table_rule(t);
  rdt_table_cell(t, "all");
  for (int i = 0; i < 3; i++) rdt_table_cell(t, " ");
  rdt_table_cell(t, "%.0f", count(doc, "checks"));
  rdt_table_cell(t, " ");
  rdt_table_cell(t, "%s", rdt_json_string(doc, "verdict"));
  rdt_table_cell(t, "%.3f", 1e3 * count(doc, "seconds") / runs);
  rdt_table_cell(t, "%.0f", share(doc));
  const bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  return printed;
}

static void put_events(const cJSON *doc) {
  const cJSON *event;
  int shown = 0;
  cJSON_ArrayForEach(event, rdt_json_list(doc, "events")) {
    if (strcmp(rdt_json_string(event, "kind"), "suspect") == 0) continue; /* counted; they need nobody */
    if (shown == 0) puts("");
    if (shown++ == SHOWN_EVENTS) {
      puts("- ... the rest is in the --report");
      break;
    }
    put_text("- %s\n", rdt_json_string(event, "text"));
  }
}

/* What a device has no kernel for. */
static void put_on_host(const cJSON *doc) {
  const cJSON *layer;
  int hosts = 0;
  cJSON_ArrayForEach(layer, rdt_json_list(doc, "layers")) {
    if (!*rdt_json_string(layer, "on_host") || ++hosts > SHOWN_HOSTS) continue;
    put_text("%s is computed on the CPU: ", rdt_json_string(layer, "name"));
    put_text("%s\n", rdt_json_string(layer, "on_host"));
  }
  if (hosts > SHOWN_HOSTS) printf("... and so are %d more layers\n", hosts - SHOWN_HOSTS);
}

/* Cores that are wrong again and again. */
static void put_cores(const cJSON *doc) {
  const cJSON *core;
  cJSON_ArrayForEach(core, rdt_json_list(doc, "cores")) {
    const double persistent = count(core, "persistent"), transient = count(core, "transient");
    const double number = count(core, "core"), products = count(core, "products");
    if (persistent > 0)
      printf("core %.0f: %.0f persistent fault%s in %.0f products: avoid it with --avoid-core %.0f\n", number,
             persistent, persistent == 1 ? "" : "s", products, number);
    else if (transient > 0)
      printf("core %.0f: %.0f transient fault%s in %.0f products\n", number, transient, transient == 1 ? "" : "s",
             products);
  }
}

static void put_class(char *text, size_t size, const cJSON *o) {
  const size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%.0f (%.2f %%)", used ? ", " : "", rdt_json_real(o, "class"),
           100.0 * rdt_json_real(o, "score"));
}

static bool put_predictions(const cJSON *doc, bool markdown) {
  const cJSON *list = rdt_json_list(doc, "predictions"), *one, *other;
  if (!list) return true;
  const double right = rdt_json_real(doc, "right");
  const bool labels = isfinite(right);
  int images = 0;
  rdt_table *table = rdt_table_create(labels ? ">image|prediction|label" : ">image|prediction");
  cJSON_ArrayForEach(one, list) {
    char text[512] = "";
    if (images++ >= SHOWN_IMAGES) continue;
    if (isfinite(rdt_json_real(one, "class"))) put_class(text, sizeof text, one);
    cJSON_ArrayForEach(other, rdt_json_list(one, "others")) put_class(text, sizeof text, other);
    rdt_table_cell(table, "%d", images - 1);
    rdt_table_cell(table, "%s", *text ? text : "none: not a number");
    if (!labels) continue;
    const double label = rdt_json_real(one, "label");
    rdt_table_cell(table, "%.0f%s", label, rdt_json_real(one, "class") == label ? "" : "  <- wrong");
  }
  puts("");
  const bool printed = rdt_table_print(table, stdout, markdown);
  rdt_table_destroy(table);
  if (images > SHOWN_IMAGES) printf("... and %d more\n", images - SHOWN_IMAGES);
  if (labels && images > 0) printf("%.0f of %d right (%.1f %%)\n", right, images, 100.0 * right / images);
  return printed;
}

static void put_verdict(const cJSON *doc) {
  const cJSON *output;
  const char *verdict = rdt_json_string(doc, "verdict");
  const double suspects = count(doc, "suspects"), faults = count(doc, "faults"), unchecked = count(doc, "unchecked");
  puts("");
  put_on_host(doc);
  put_cores(doc);
  cJSON_ArrayForEach(output, rdt_json_list(doc, "outputs")) {
    if (*rdt_json_string(output, "file")) put_text("wrote %s\n", rdt_json_string(output, "file"));
  }
  printf("peak memory: %.1f MB\n", 1e-6 * count(doc, "memory_peak"));
  printf("%s: %s (%.0f checks, %.0f suspect%s, %.0f fault%s", verdict, rdt_verdict_meaning(rdt_verdict_find(verdict)),
         count(doc, "checks"), suspects, suspects == 1 ? "" : "s", faults, faults == 1 ? "" : "s");
  if (unchecked > 0) printf(", %.0f not checkable", unchecked);
  puts(")");
}

rdt_status rdt_run_report_print(const cJSON *doc, int64_t format, rdt_reason *why) {
  const bool markdown = format == RDT_FORMAT_MD;
  if (format == RDT_FORMAT_JSON) return rdt_json_print(doc, why);
  put_heading(doc);
  bool whole = put_layers(doc, markdown);
  put_events(doc);
  whole = put_predictions(doc, markdown) && whole;
  put_verdict(doc);
  return whole ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing the table");
}
