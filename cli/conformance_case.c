/* One case of the ONNX backend suite: what it is about, its runs, what is expected of them. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <onnx.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check/tolerance.h"
#include "conformance.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "net/scan.h"
#include "net/tensor_file.h"

enum { PATH = 4096 };

/* A case while it runs. */
typedef struct runner {
  rdt_context *ctx;
  rdt_case *c;
  rdt_model *model;
  rdt_tensor *inputs;
  size_t n_inputs;
  char fault[300]; /* what the last fault event said */
} runner;

/* ---- what a case is about ---- */

static bool has_word(char *const *words, size_t n, const char *word) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(words[i], word) == 0) return true;
  return false;
}

/* The kinds of operators of a graph, constants left out: "Conv", "Conv+Relu", "Cast+Exp+... (5 operators)". */
static void kinds_of(const Onnx__GraphProto *g, char *text, size_t size) {
  enum { SHOWN = 3, MOST = 64 };
  char *kinds[MOST];
  size_t n = 0;
  for (size_t i = 0; i < g->n_node && n < MOST; i++) {
    char *op = g->node[i]->op_type;
    if (op && *op && strcmp(op, "Constant") != 0 && !has_word(kinds, n, op)) kinds[n++] = op;
  }
  size_t used = (size_t)snprintf(text, size, "%s", n ? "" : g->n_node ? "Constant" : "no operator");
  const size_t shown = n <= SHOWN ? n : SHOWN - 1;
  for (size_t i = 0; i < shown; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%.24s", i ? "+" : "", kinds[i]);
  if (shown < n) snprintf(text + used, size - used, "+... (%zu operators)", n);
}

/* The model in the first length bytes of folder; false where the path is too long. */
static bool model_path(const char *folder, size_t length, char *path) {
  const int n = snprintf(path, PATH, "%.*s/model.onnx", (int)length, folder);
  return n > 0 && n < PATH;
}

static bool read_kinds(const char *folder, size_t length, char *text, size_t size) {
  void *data;
  size_t bytes;
  char path[PATH];
  ProtobufCMessage *message;
  if (!model_path(folder, length, path) || rdt_file_read(path, &data, &bytes, NULL) != RDT_OK) return false;
  const rdt_status status = rdt_wire_unpack(&onnx__model_proto__descriptor, data, bytes, path, &message, NULL);
  rdt_free(data);
  if (status != RDT_OK) return false;
  const Onnx__GraphProto *g = ((const Onnx__ModelProto *)message)->graph;
  if (g) kinds_of(g, text, size);
  rdt_wire_free(message);
  return g != NULL;
}

/* test_celu_expanded is what test_celu is, written with other operators: it belongs to the operator of that one. */
static void book(rdt_case *c) {
  char kinds[sizeof c->op - 16] = "?";
  const char *name = strrchr(c->folder, '/'), *end = strstr(name ? name : c->folder, "_expanded");
  const bool expanded = end && read_kinds(c->folder, (size_t)(end - c->folder), kinds, sizeof kinds);
  if (!expanded) read_kinds(c->folder, strlen(c->folder), kinds, sizeof kinds);
  snprintf(c->op, sizeof c->op, "%s%s", kinds, expanded ? ", expanded" : "");
}

const char *rdt_case_cause(const rdt_case *c) {
  const char *text = c->why.text;
  if (strncmp(text, "node ", 5) != 0) return text;
  const char *named = strstr(text, "': "), *of = strstr(text, "): "); /* "node 3 'x': ", "node 'x' (Op): " */
  const char *end = !named || (of && of < named) ? of : named;
  return end ? end + 3 : text;
}

/* Messages begin with the path, or the beginning of a long one; the case's name says the same. */
static void drop_path(char *text, const char *folder) {
  char *colon = strstr(text, ": ");
  const size_t n = colon ? (size_t)(colon - text) : 0, length = strlen(folder);
  if (n > 0 && strncmp(text, folder, n < length ? n : length) == 0) memmove(text, colon + 2, strlen(colon + 2) + 1);
}

static rdt_status model_fail(runner *r, rdt_status status) {
  const char *text = rdt_context_error(r->ctx);
  rdt_fail(&r->c->why, status, "%s", *text ? text : rdt_status_text(status));
  return status;
}

/* ---- comparing ---- */

static void index_text(const rdt_tensor *t, int64_t element, char *text, size_t size) {
  int64_t index[RDT_MAX_RANK];
  size_t used = 0;
  for (int d = t->rank - 1; d >= 0; d--) {
    index[d] = element % t->shape[d];
    element /= t->shape[d];
  }
  *text = '\0';
  for (int d = 0; d < t->rank; d++)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, d ? ", " : "", index[d]);
}

/* Both are dense. */
static rdt_status compare_values(const rdt_tensor *got, const rdt_tensor *wanted, const char *name, rdt_reason *why) {
  const int64_t n = rdt_tensor_count(wanted);
  const size_t size = rdt_dtype_size(wanted->dtype);
  const bool real = rdt_dtype_is_float(wanted->dtype);
  int64_t wrong = 0, first = -1;
  char place[200];
  for (int64_t i = 0; i < n; i++) {
    const size_t at = (size_t)i * size;
    const bool right = real ? rdt_conforms(rdt_load(got->data, got->dtype, i), rdt_load(wanted->data, wanted->dtype, i))
                            : memcmp((const char *)got->data + at, (const char *)wanted->data + at, size) == 0;
    if (right) continue;
    if (first < 0) first = i;
    wrong++;
  }
  if (wrong == 0) return RDT_OK;
  index_text(wanted, first, place, sizeof place);
  return rdt_fail(why, RDT_ERR_FAULT,
                  "output '%.60s': %" PRId64 " of %" PRId64 " values differ, the first at [%s]: %.9g, expected %.9g",
                  name, wrong, n, place, rdt_load(got->data, got->dtype, first),
                  rdt_load(wanted->data, wanted->dtype, first));
}

static rdt_status compare(runner *r, size_t i, const rdt_tensor *wanted) {
  rdt_tensor got;
  rdt_io_info info;
  char a[96], b[96];
  rdt_reason *why = &r->c->why;
  rdt_status status = rdt_model_output_info(r->model, i, &info);
  if (status == RDT_OK) status = rdt_model_output(r->model, i, &got);
  if (status != RDT_OK) return model_fail(r, status);
  if (got.dtype != wanted->dtype || !rdt_tensor_same_shape(&got, wanted))
    return rdt_fail(why, RDT_ERR_FAULT, "output '%.60s' is %s, expected %s", info.name,
                    rdt_tensor_text(&got, a, sizeof a), rdt_tensor_text(wanted, b, sizeof b));
  return compare_values(&got, wanted, info.name, why);
}

/* ---- running ---- */

static void keep_fault(const rdt_event *event, void *user) {
  runner *r = user;
  if (event->kind == RDT_EVENT_FAULT) snprintf(r->fault, sizeof r->fault, "%s", event->text);
}

static bool is_there(const char *set, const char *what, size_t i, char *path) {
  const int n = snprintf(path, PATH, "%s/%s_%zu.pb", set, what, i);
  return n < PATH && access(path, F_OK) == 0;
}

static rdt_status count_files(runner *r, const char *set, const char *what, size_t wanted) {
  char path[PATH];
  size_t n = 0;
  while (is_there(set, what, n, path)) n++;
  if (n == wanted) return RDT_OK;
  return rdt_fail(&r->c->why, RDT_ERR_FORMAT, "%s: the model has %zu %ss, there are %zu files", strrchr(set, '/') + 1,
                  wanted, what, n);
}

static void drop_inputs(runner *r) {
  for (size_t i = 0; r->inputs && i < r->n_inputs; i++) {
    rdt_free(r->inputs[i].data);
    r->inputs[i].data = NULL;
  }
}

static rdt_status run_model(runner *r) {
  rdt_case *c = r->c;
  rdt_run_result result = {0};
  const rdt_status status = rdt_model_run(r->model, r->inputs, r->n_inputs, &result);
  if (result.verdict > c->verdict) c->verdict = result.verdict;
  c->checks += result.checks;
  c->suspects += result.suspects;
  if (status != RDT_OK && status != RDT_ERR_FAULT) return model_fail(r, status);
  if (status == RDT_OK && result.faults == 0 && result.verdict != RDT_DETECTED) return RDT_OK;
  return rdt_fail(&c->why, RDT_ERR_FAULT, "a fault is reported where none was planted: %s",
                  *r->fault ? r->fault : rdt_context_error(r->ctx));
}

static rdt_status run_set(runner *r, const char *set) {
  char path[PATH];
  const size_t outputs = rdt_model_output_count(r->model);
  drop_inputs(r);
  RDT_TRY(count_files(r, set, "input", r->n_inputs));
  RDT_TRY(count_files(r, set, "output", outputs));
  for (size_t i = 0; i < r->n_inputs; i++) {
    is_there(set, "input", i, path);
    RDT_TRY(rdt_tensor_file_read(path, &r->inputs[i], &r->c->why));
  }
  RDT_TRY(run_model(r));
  for (size_t i = 0; i < outputs; i++) {
    rdt_tensor wanted = {0};
    is_there(set, "output", i, path);
    RDT_TRY(rdt_tensor_file_read(path, &wanted, &r->c->why));
    const rdt_status status = compare(r, i, &wanted);
    rdt_free(wanted.data);
    RDT_TRY(status);
  }
  return RDT_OK;
}

static int is_set(const struct dirent *entry) {
  return strncmp(entry->d_name, "test_data_set_", 14) == 0;
}

static rdt_status run_sets(runner *r) {
  rdt_case *c = r->c;
  struct dirent **sets;
  char path[PATH];
  rdt_status status = RDT_OK;
  const int n = scandir(c->folder, &sets, is_set, versionsort);
  if (n < 0) return rdt_fail(&c->why, RDT_ERR_IO, "the folder cannot be read");
  if (n == 0) status = rdt_fail(&c->why, RDT_ERR_FORMAT, "there is no test_data_set_N");
  for (int i = 0; i < n; i++) {
    const int length = snprintf(path, sizeof path, "%s/%s", c->folder, sets[i]->d_name);
    if (status == RDT_OK && length >= (int)sizeof path) status = rdt_fail(&c->why, RDT_ERR_IO, "its path is too long");
    if (status == RDT_OK) status = run_set(r, path);
    free(sets[i]);
  }
  free(sets);
  return status;
}

static rdt_status run(runner *r) {
  char path[PATH];
  if (!model_path(r->c->folder, strlen(r->c->folder), path))
    return rdt_fail(&r->c->why, RDT_ERR_IO, "its path is too long");
  const rdt_status status = rdt_model_load(r->ctx, path, &r->model);
  if (status != RDT_OK) return model_fail(r, status);
  r->n_inputs = rdt_model_input_count(r->model);
  r->inputs = rdt_calloc(r->n_inputs, sizeof *r->inputs);
  return r->inputs ? run_sets(r) : rdt_fail(&r->c->why, RDT_ERR_NOMEM, "out of memory");
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

rdt_status rdt_case_run(rdt_context *ctx, rdt_case *c) {
  runner r = {.ctx = ctx, .c = c};
  const double begin = now();
  book(c);
  rdt_context_on_event(ctx, keep_fault, &r);
  const rdt_status status = run(&r);
  rdt_context_on_event(ctx, NULL, NULL);
  c->outcome = status == RDT_OK                ? RDT_CASE_PASSED
               : status == RDT_ERR_UNSUPPORTED ? RDT_CASE_UNSUPPORTED
                                               : RDT_CASE_FAILED;
  drop_path(c->why.text, c->folder);
  drop_inputs(&r);
  rdt_free(r.inputs);
  rdt_model_free(r.model);
  c->seconds = now() - begin;
  return status == RDT_ERR_CANCELLED ? status : RDT_OK;
}
