/* What the commands share. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "core/memory.h"
#include "core/text.h"
#include "report/json.h"

static rdt_context *volatile running;
static volatile sig_atomic_t caught;

static void on_signal(int number) {
  rdt_context *ctx = running;
  if (caught) _exit(128 + number);
  caught = number;
  if (ctx) rdt_context_cancel(ctx);
}

void rdt_signals_watch(rdt_context *ctx) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = ctx ? on_signal : SIG_DFL, .sa_flags = SA_RESTART};
  running = ctx;
  signal(SIGXFSZ, SIG_IGN); /* a file size limit is a write that fails, not the end */
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction old;
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL);
  }
}

int rdt_signals_caught(void) {
  return caught;
}

int rdt_cli_fail(const rdt_command *c, rdt_status status, const char *text) {
  if (status == RDT_ERR_CANCELLED && caught) {
    fprintf(stderr, "redoubt %s: stopped by %s; nothing was written\n", c->name, strsignal(caught));
    return 128 + caught;
  }
  fprintf(stderr, "redoubt %s: %s\n", c->name, text && *text ? text : rdt_status_text(status));
  return status == RDT_ERR_FAULT ? RDT_EXIT_FAULT : status == RDT_ERR_DEVICE ? RDT_EXIT_DEVICE : RDT_EXIT_USAGE;
}

/* ---- events ---- */

static void free_event(rdt_event *e) {
  const char *strings[] = {e->node, e->op, e->scheme, e->kernel, e->what, e->text};
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) rdt_free((char *)strings[i]);
}

static void keep_event(const rdt_event *event, void *user) {
  rdt_session *s = user;
  if ((unsigned)event->kind < 3) s->seen[event->kind]++;
  if (s->n_events == RDT_MAX_EVENTS) return;
  if (!s->events) s->events = rdt_calloc(RDT_MAX_EVENTS, sizeof *s->events);
  if (!s->events) return;
  rdt_event copy = *event;
  const char **strings[] = {&copy.node, &copy.op, &copy.scheme, &copy.kernel, &copy.what, &copy.text};
  bool whole = true;
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
    *strings[i] = rdt_strdup(*strings[i] ? *strings[i] : "");
    whole = whole && *strings[i];
    if (*strings[i]) rdt_text_tame((char *)*strings[i], '?');
  }
  if (whole)
    s->events[s->n_events++] = (rdt_kept_event){copy, s->run};
  else
    free_event(&copy);
}

/* ---- session ---- */

rdt_status rdt_session_fail(rdt_session *s, rdt_status status) {
  const char *text = s->ctx ? rdt_context_error(s->ctx) : "";
  return rdt_fail(&s->why, status, "%s", *text ? text : rdt_status_text(status));
}

static rdt_status keep_names(rdt_session *s, const rdt_texts *texts) {
  for (int i = 0; i < texts->count; i++) {
    const char *equals = strchr(texts->at[i], '=');
    if (!equals) continue;
    char **grown = rdt_grow(s->named, s->n_named, s->n_named + 1, sizeof *grown);
    char *name = rdt_strdup(texts->at[i]);
    if (grown) s->named = grown;
    if (!grown || !name) {
      rdt_free(name);
      return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
    }
    name[equals - texts->at[i]] = '\0';
    s->named[s->n_named++] = name;
  }
  return RDT_OK;
}

rdt_status rdt_session_load(rdt_session *s, const rdt_settings *settings) {
  const rdt_status status =
      rdt_model_load_replaced(s->ctx, settings->operand, (const char *const *)s->named, s->n_named, &s->model);
  return status == RDT_OK ? RDT_OK : rdt_session_fail(s, status);
}

rdt_status rdt_session_open(rdt_session *s, const rdt_settings *settings, rdt_inputs_kind kind) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  *s = (rdt_session){.run = 1};
  rdt_status status = rdt_context_create(&s->ctx, (int)settings->threads);
  if (status != RDT_OK) return rdt_fail(&s->why, status, "no context: %s", rdt_status_text(status));
  rdt_signals_watch(s->ctx);
  if (settings->scheme) policy.scheme = settings->scheme;
  policy.on_fault = (rdt_on_fault)settings->on_fault;
  if (settings->lambda > 0.0) policy.lambda = settings->lambda;
  if ((status = rdt_context_set_policy(s->ctx, &policy)) != RDT_OK) return rdt_session_fail(s, status);
  rdt_context_on_event(s->ctx, keep_event, s);
  RDT_TRY(keep_names(s, &settings->inputs));
  RDT_TRY(keep_names(s, &settings->input_shapes));
  RDT_TRY(rdt_session_load(s, settings));
  return rdt_session_inputs(s, settings, kind);
}

void rdt_session_close(rdt_session *s) {
  rdt_signals_watch(NULL);
  for (size_t i = 0; s->inputs && i < s->n_inputs; i++) rdt_free(s->inputs[i].data);
  rdt_free(s->inputs);
  for (size_t i = 0; i < s->n_named; i++) rdt_free(s->named[i]);
  rdt_free(s->named);
  rdt_model_free(s->model);
  rdt_context_destroy(s->ctx);
  for (int i = 0; i < s->n_events; i++) free_event(&s->events[i].event);
  rdt_free(s->events);
}

/* ---- small things ---- */

const char *rdt_shape_text(int rank, const int64_t *shape, char *buf, size_t size) {
  size_t used = 0;
  if (rank <= 0) snprintf(buf, size, "%s", rank < 0 ? "?" : "scalar");
  for (int i = 0; i < rank && used < size; i++)
    used += (size_t)(shape[i] < 0 ? snprintf(buf + used, size - used, "%s?", i ? "x" : "")
                                  : snprintf(buf + used, size - used, "%s%lld", i ? "x" : "", (long long)shape[i]));
  return buf;
}

cJSON *rdt_shape_json(int rank, const int64_t *shape) {
  if (rank < 0) return cJSON_CreateNull();
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < rank; i++)
    cJSON_AddItemToArray(list, shape[i] < 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)shape[i]));
  return list;
}

cJSON *rdt_document(const char *kind) {
  char schema[64];
  cJSON *doc = cJSON_CreateObject();
  snprintf(schema, sizeof schema, "redoubt.%s/1", kind);
  cJSON_AddStringToObject(doc, "schema", schema);
  cJSON_AddStringToObject(doc, "redoubt", rdt_version());
  return doc;
}

int rdt_document_print(const rdt_command *c, cJSON *doc) {
  rdt_reason why = {""};
  const rdt_status status = rdt_json_write(doc, NULL, &why);
  cJSON_Delete(doc);
  return status == RDT_OK ? RDT_EXIT_OK : rdt_cli_fail(c, status, why.text);
}

void rdt_progress(const rdt_settings *s, const char *what, int64_t done, int64_t all) {
  enum { WIDTH = 40 };
  static struct timespec last;
  struct timespec now;
  if (s->quiet || s->no_progress || !isatty(STDERR_FILENO) || all < 2) return;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double since = (double)(now.tv_sec - last.tv_sec) + 1e-9 * (double)(now.tv_nsec - last.tv_nsec);
  if (done < all && since < 0.1) return;
  last = now;
  const int full = (int)(WIDTH * done / all);
  fprintf(stderr, "\r%s [%.*s%*s] %lld/%lld", what, full, "########################################", WIDTH - full, "",
          (long long)done, (long long)all);
  if (done == all) fprintf(stderr, "\r%*s\r", (int)(WIDTH + strlen(what) + 48), "");
}
