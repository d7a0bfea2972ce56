#include "report/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "core/cpu_info.h"
#include "core/memory.h"
#include "core/text.h"
#include "inject/fault.h"
#include "report/json.h"

/* Whoever wrote last may have been stopped by a full disk: what comes next must not continue that line. */
static bool ends_torn(const char *path, off_t bytes) {
  char last = '\n';
  const int fd = bytes > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return bytes > 0;
  const bool torn = pread(fd, &last, 1, bytes - 1) != 1 || last != '\n';
  close(fd);
  return torn;
}

static rdt_status open_file(rdt_journal *j, const char *path, rdt_reason *why) {
  struct stat st;
  j->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666); /* would wait for a reader else */
  if (j->fd < 0 && errno == ENXIO)
    return rdt_fail(why, RDT_ERR_IO, "%.200s: nobody reads from this pipe: start its reader first", path);
  if (j->fd >= 0) fcntl(j->fd, F_SETFL, O_APPEND); /* but an event waits until there is room */
  if (j->fd < 0 || fstat(j->fd, &st) != 0)
    return rdt_fail(why, RDT_ERR_IO, "%.200s: events cannot be written there: %s; check the folder and its permissions",
                    path, strerror(errno));
  j->path = path;
  if (S_ISREG(st.st_mode)) j->torn = ends_torn(path, st.st_size);
  if (S_ISFIFO(st.st_mode)) signal(SIGPIPE, SIG_IGN); /* who reads the events must not end the run by leaving */
  return RDT_OK;
}

rdt_status rdt_journal_open(rdt_journal *j, const char *path, bool to_syslog, const char *model, rdt_reason *why) {
  *j = (rdt_journal){.model = model, .syslog = to_syslog};
  if (gethostname(j->host, sizeof j->host) != 0) strcpy(j->host, "unknown");
  j->host[sizeof j->host - 1] = '\0';
  rdt_cpu_name(j->cpu, sizeof j->cpu);
  rdt_cpu_microcode(j->microcode, sizeof j->microcode);
  if (to_syslog) openlog("redoubt", LOG_PID, LOG_USER);
  return path ? open_file(j, path, why) : RDT_OK;
}

void rdt_journal_close(rdt_journal *j) {
  if (j->path) close(j->fd);
  if (j->syslog) closelog();
  j->path = NULL;
  j->syslog = false;
}

void rdt_journal_plant(rdt_journal *j, const char *spec) {
  rdt_fault f;
  j->fault = spec && rdt_fault_parse(spec, &f, NULL) == RDT_OK ? spec : NULL;
  if (j->fault) j->seed = f.seed;
}

/* ---- one event as JSON ---- */

const char *rdt_event_kind_name(rdt_event_kind k) {
  static const char *const names[] = {"suspect", "fault", "unchecked", "fallback"};
  return (unsigned)k < sizeof names / sizeof *names ? names[k] : "unknown";
}

const char *rdt_event_action(const rdt_event *e) {
  if (e->kind != RDT_EVENT_FAULT) return "none";
  if (e->verdict == RDT_DETECTED) return "reported";
  if (e->verdict == RDT_CORRECTED) return "corrected";
  if (e->diagnosis == RDT_DIAG_MEMORY) return "restored";
  const bool unknown = e->changed < 0 && e->diagnosis != RDT_DIAG_CHECKER;
  return e->changed > 0 || unknown ? "recomputed" : "renewed";
}

static void add_index(cJSON *o, const char *name, int64_t index) {
  if (index < 0)
    cJSON_AddNullToObject(o, name);
  else
    cJSON_AddNumberToObject(o, name, (double)index);
}

/* An element without a column is named by place[0] too: that is no row. */
static void add_location(cJSON *o, const rdt_event *e) {
  cJSON *location = cJSON_AddObjectToObject(o, "location");
  const bool no_row = e->element >= 0 && e->place[1] < 0;
  add_index(location, "row", no_row ? -1 : e->place[0]);
  add_index(location, "column", e->place[1]);
  add_index(location, "element", e->element);
}

static void add_rungs(cJSON *o, const rdt_event *e) {
  cJSON *list = cJSON_AddArrayToObject(o, "rungs");
  for (int i = 0; i < e->n_rungs && i < RDT_MAX_RUNGS; i++) {
    cJSON *rung = cJSON_CreateObject();
    cJSON_AddStringToObject(rung, "name", e->rungs[i].name);
    rdt_json_number(rung, "seconds", e->rungs[i].seconds);
    cJSON_AddStringToObject(rung, "outcome", e->rungs[i].outcome);
    cJSON_AddItemToArray(list, rung);
  }
}

static void add_rot(cJSON *o, const rdt_rot *rot) {
  cJSON *r = cJSON_AddObjectToObject(o, "rot");
  rdt_json_text(r, "tensor", rot->tensor);
  cJSON_AddNumberToObject(r, "tiles", (double)rot->tiles);
  if (rot->first < 0) return;
  cJSON_AddNumberToObject(r, "changed", (double)rot->changed);
  cJSON_AddNumberToObject(r, "element", (double)rot->first);
  rdt_json_number(r, "expected", rot->expected);
  rdt_json_number(r, "actual", rot->actual);
}

void rdt_event_json(cJSON *o, const rdt_event *e) {
  cJSON_AddNumberToObject(o, "core", e->core);
  if (e->device) cJSON_AddStringToObject(o, "device", e->device);
  if (e->device) cJSON_AddNumberToObject(o, "multiprocessor", e->multiprocessor);
  cJSON_AddStringToObject(o, "kind", rdt_event_kind_name(e->kind));
  rdt_json_text(o, "layer", e->node);
  rdt_json_text(o, "op", e->op);
  cJSON *shape = cJSON_AddArrayToObject(o, "shape");
  for (int i = 0; i < e->rank; i++) cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)e->shape[i]));
  rdt_json_text(o, "dtype", e->dtype);
  rdt_json_text(o, "scheme", e->scheme);
  rdt_json_text(o, "kernel", e->kernel);
  rdt_json_text(o, "what", e->what);
  rdt_json_number(o, "residual", e->residual);
  rdt_json_number(o, "bound", e->bound);
  rdt_json_number(o, "bound_rigorous", e->bound_rigorous);
  rdt_json_number(o, "floor", e->floor);
  add_location(o, e);
  if (e->valued) {
    rdt_json_number(o, "expected", e->expected);
    rdt_json_number(o, "actual", e->actual);
  }
  cJSON_AddNumberToObject(o, "changed", (double)e->changed);
  if (e->verdict == RDT_CORRECTED) rdt_json_number(o, "corrected_bound", e->corrected_bound);
  if (e->rot.tensor) add_rot(o, &e->rot);
  cJSON_AddStringToObject(o, "action", rdt_event_action(e));
  add_rungs(o, e);
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(e->verdict));
  cJSON_AddStringToObject(o, "diagnosis", rdt_diagnosis_name(e->diagnosis));
  rdt_json_text(o, "text", e->text);
}

cJSON *rdt_journal_line(const rdt_journal *j, const rdt_event *e) {
  char seed[32];
  struct timespec now;
  cJSON *o = cJSON_CreateObject();
  if (!o) return NULL;
  cJSON_AddStringToObject(o, "schema", "redoubt.event/1");
  cJSON_AddStringToObject(o, "redoubt", rdt_version());
  clock_gettime(CLOCK_REALTIME, &now);
  rdt_json_time(o, &now);
  rdt_json_text(o, "host", j->host);
  rdt_json_text(o, "cpu", j->cpu);
  if (*j->microcode) rdt_json_text(o, "microcode", j->microcode);
  rdt_json_text(o, "model", j->model);
  cJSON_AddNumberToObject(o, "run", (double)j->run);
  rdt_event_json(o, e);
  if (j->fault) {
    snprintf(seed, sizeof seed, "%" PRIu64, j->seed);
    rdt_json_text(o, "fault", j->fault);
    cJSON_AddRawToObject(o, "seed", seed); /* a double would round it */
  }
  return o;
}

/* ---- where it goes ---- */

static void append(rdt_journal *j, const char *json) {
  const size_t length = strlen(json), size = length + 2;
  char *line = rdt_alloc(size, 1);
  ssize_t n = -1;
  if (line) {
    char *p = line;
    if (j->torn) *p++ = '\n';
    memcpy(p, json, length);
    p[length] = '\n';
    const size_t bytes = (size_t)(p + length + 1 - line);
    do n = write(j->fd, line, bytes);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)bytes) {
      j->torn = false;
      rdt_free(line);
      return;
    }
    if (n > 0) {
      j->torn = true;
      errno = ENOSPC;
    }
  } else {
    errno = ENOMEM;
  }
  if (j->status == RDT_OK)
    j->status = rdt_fail(&j->why, RDT_ERR_IO, "%.200s: an event could not be written: %s", j->path, strerror(errno));
  rdt_free(line);
}

int rdt_event_priority(const rdt_event *e) {
  if (e->verdict == RDT_DETECTED) return LOG_CRIT;
  return e->kind == RDT_EVENT_FAULT ? LOG_ERR : LOG_WARNING;
}

static void tell_syslog(const rdt_journal *j, const rdt_event *e) {
  char text[1024];
  const bool planted = j->fault != NULL;
  snprintf(text, sizeof text, "%.300s: %.400s (%s, %s, core %d%s%.200s)", j->model, e->text,
           rdt_verdict_name(e->verdict), rdt_diagnosis_name(e->diagnosis), e->core, planted ? ", planted: " : "",
           planted ? j->fault : "");
  rdt_text_tame(text, '?');
  syslog(rdt_event_priority(e), "%s", text);
}

void rdt_journal_add(rdt_journal *j, const rdt_event *e) {
  if (j->syslog) tell_syslog(j, e);
  if (!j->path) return;
  cJSON *o = rdt_journal_line(j, e);
  char *text = o ? cJSON_PrintUnformatted(o) : NULL;
  cJSON_Delete(o);
  if (text)
    append(j, text);
  else if (j->status == RDT_OK)
    j->status = rdt_fail(&j->why, RDT_ERR_NOMEM, "%.200s: no memory to write an event", j->path);
  cJSON_free(text);
}

void rdt_journal_sum(const rdt_journal *j, int64_t runs, int64_t faults, rdt_verdict worst) {
  char text[1024];
  if (!j->syslog || faults == 0) return;
  snprintf(text, sizeof text, "%.300s: %" PRId64 " fault%s in %" PRId64 " run%s; the worst verdict is %s", j->model,
           faults, faults == 1 ? "" : "s", runs, runs == 1 ? "" : "s", rdt_verdict_name(worst));
  rdt_text_tame(text, '?');
  syslog(worst == RDT_DETECTED ? LOG_CRIT : LOG_ERR, "%s", text);
}
