#include "report/prom.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/context.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"

static const struct {
  const char *name, *type, *help;
} metrics[] = {
#define X(id, name, type, help) {name, type, help},
    RDT_METRICS(X)
#undef X
};
enum {
  FAULT_VERDICTS = RDT_DETECTED,
  FAULT_SAMPLES = RDT_DIAG_UNKNOWN * FAULT_VERDICTS,
  MOST_CORES = 1 << 16,
  CORE_PRODUCTS = 0, /* places in rdt_prom_core */
  CORE_SUSPECTS,
  CORE_FAULTS
};

/* ---- samples ---- */

static const char *const labels[RDT_PROM_UNITS] = {"core", "multiprocessor"};

/* Where samples of a metric lie in a rdt_prom_core, and whose they are; unit RDT_PROM_UNITS: it is of the process. */
typedef struct place {
  rdt_prom_unit unit;
  int first, count;
} place;

static place place_of(rdt_metric m) {
  switch (m) {
    case RDT_METRIC_CORE_PRODUCTS:
      return (place){RDT_PROM_CORES, CORE_PRODUCTS, 1};
    case RDT_METRIC_CORE_SUSPECTS:
      return (place){RDT_PROM_CORES, CORE_SUSPECTS, 1};
    case RDT_METRIC_CORE_FAULTS:
      return (place){RDT_PROM_CORES, CORE_FAULTS, RDT_DIAG_UNKNOWN};
    case RDT_METRIC_SM_SUSPECTS:
      return (place){RDT_PROM_SMS, CORE_SUSPECTS, 1};
    case RDT_METRIC_SM_FAULTS:
      return (place){RDT_PROM_SMS, CORE_FAULTS, RDT_DIAG_UNKNOWN};
    default:
      return (place){RDT_PROM_UNITS, 0, 1};
  }
}

static double *unit_sample(rdt_prom *p, rdt_metric m, place at, int i, char *key, size_t size) {
  const int core = i / at.count, d = i % at.count;
  if (core >= p->units[at.unit].n) return NULL;
  int used = snprintf(key, size, "%s{%s,%s=\"%d\"", metrics[m].name, p->labels, labels[at.unit], core);
  if (at.first == CORE_FAULTS)
    used += snprintf(key + used, size - (size_t)used, ",diagnosis=\"%s\"", rdt_diagnosis_name((rdt_diagnosis)(1 + d)));
  snprintf(key + used, size - (size_t)used, "}");
  return &p->units[at.unit].list[core].value[at.first + d];
}

/* The samples of a metric, one after the other: its value, and its name with labels. NULL after the last. */
static double *sample(rdt_prom *p, rdt_metric m, int i, char *key, size_t size) {
  const place at = place_of(m);
  if (at.unit < RDT_PROM_UNITS) return unit_sample(p, m, at, i, key, size);
  if (i >= (m == RDT_METRIC_FAULTS ? FAULT_SAMPLES : 1)) return NULL;
  const rdt_diagnosis d = (rdt_diagnosis)(1 + i / FAULT_VERDICTS);
  const rdt_verdict v = (rdt_verdict)(1 + i % FAULT_VERDICTS);
  if (m != RDT_METRIC_FAULTS) {
    snprintf(key, size, "%s{%s}", metrics[m].name, p->labels);
    return &p->value[m];
  }
  snprintf(key, size, "%s{%s,diagnosis=\"%s\",verdict=\"%s\"}", metrics[m].name, p->labels, rdt_diagnosis_name(d),
           rdt_verdict_name(v));
  return &p->faults[d][v];
}

static size_t key_size(const rdt_prom *p) {
  return strlen(p->labels) + 160;
}

/* A label's value, escaped as the format asks for. */
static void put_value(FILE *to, const char *text) {
  char *tame = rdt_strdup(text);
  if (!tame) return;
  rdt_text_tame(tame, '?');
  for (const char *c = tame; *c; c++) {
    if (*c == '"' || *c == '\\') fputc('\\', to);
    fputc(*c, to);
  }
  rdt_free(tame);
}

static char *labels_of(const char *model, const char *host) {
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  if (!to) return NULL;
  fputs("model=\"", to);
  put_value(to, model);
  fputs("\",host=\"", to);
  put_value(to, host);
  fputs("\"", to);
  return fclose(to) == 0 ? text : NULL;
}

static rdt_prom_core *core_at(rdt_prom *p, rdt_prom_unit unit, int core) {
  if (core < 0 || core >= MOST_CORES) return NULL;
  rdt_prom_core **list = &p->units[unit].list;
  int *n = &p->units[unit].n;
  if (core >= *n) {
    rdt_prom_core *grown = rdt_grow(*list, (size_t)*n, (size_t)core + 1, sizeof *grown);
    if (!grown) return NULL;
    *list = grown;
    while (*n <= core) (*list)[(*n)++] = (rdt_prom_core){{0.0}, {0.0}};
  }
  return &(*list)[core];
}

/* ---- reading ---- */

/* Of a sample of one core, or multiprocessor: a quote within another label's value has a backslash before it. -1: it is
 * of none */
static int core_of(const char *line, rdt_prom_unit unit) {
  char label[32];
  snprintf(label, sizeof label, ",%s=\"", labels[unit]);
  const char *at = strstr(line, label);
  const long core = at ? strtol(at + strlen(label), NULL, 10) : -1;
  return core >= 0 && core < MOST_CORES ? (int)core : -1;
}

/* false: no sample of ours */
static bool take_line(rdt_prom *p, const char *line, char *key) {
  for (int m = 0; m < RDT_METRIC_COUNT; m++) {
    const size_t name = strlen(metrics[m].name);
    const place at = place_of((rdt_metric)m);
    double *value;
    if (strncmp(line, metrics[m].name, name) != 0 || line[name] != '{') continue;
    const int core = at.unit < RDT_PROM_UNITS ? core_of(line, at.unit) : -1;
    if (at.unit < RDT_PROM_UNITS && !core_at(p, at.unit, core)) return false;
    const int first = core >= 0 ? core * at.count : 0, beyond = core >= 0 ? first + at.count : FAULT_SAMPLES;
    for (int i = first; i < beyond && (value = sample(p, (rdt_metric)m, i, key, key_size(p))) != NULL; i++) {
      const size_t n = strlen(key);
      if (strncmp(line, key, n) != 0 || line[n] != ' ') continue;
      const double x = strtod(line + n, NULL);
      *value = isfinite(x) && x > 0.0 ? x : 0.0;
      return true;
    }
  }
  return false;
}

static rdt_status read_file(rdt_prom *p, const char *path, rdt_reason *why) {
  char *line = NULL, *key = rdt_alloc(key_size(p), 1);
  size_t room = 0;
  rdt_status status = RDT_OK;
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) path = "/dev/null"; /* writing refuses it */
  FILE *f = fopen(path, "r");
  if (!key) status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (!f && errno != ENOENT)
    status = rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be read: %s; counters go on from what a file says", path,
                      strerror(errno));
  for (int number = 1; f && status == RDT_OK && getline(&line, &room, f) > 0; number++)
    if (*line != '#' && *line != '\n' && !take_line(p, line, key))
      status = rdt_fail(why, RDT_ERR_FORMAT,
                        "%.200s: line %d is not a counter of this model on this host; --prom takes a file of its own "
                        "for each: name another one, or remove this one",
                        path, number);
  for (int u = 0; u < RDT_PROM_UNITS; u++)
    for (int c = 0; c < p->units[u].n; c++)
      memcpy(p->units[u].list[c].began, p->units[u].list[c].value, sizeof p->units[u].list[c].began);
  if (f) fclose(f);
  free(line);
  rdt_free(key);
  return status;
}

/* ---- writing ---- */

/* Those of the file, and those of this process. */
static void gather(rdt_prom *p, rdt_prom_unit unit,
                   size_t (*ask)(const rdt_context *ctx, rdt_core_info *list, size_t room)) {
  const size_t n = p->ctx ? ask(p->ctx, NULL, 0) : 0;
  rdt_core_info *list = rdt_calloc(n, sizeof *list);
  if (list && n > 0) ask(p->ctx, list, n);
  for (size_t i = 0; list && i < n; i++) {
    rdt_prom_core *c = core_at(p, unit, list[i].core);
    if (!c) continue;
    c->value[CORE_PRODUCTS] = c->began[CORE_PRODUCTS] + (double)list[i].products;
    c->value[CORE_SUSPECTS] = c->began[CORE_SUSPECTS] + (double)list[i].suspects;
    for (int d = 1; d < RDT_DIAG_COUNT; d++)
      c->value[CORE_FAULTS + d - 1] = c->began[CORE_FAULTS + d - 1] + (double)list[i].faults[d];
  }
  rdt_free(list);
}

/* Cores that never did anything have no samples, multiprocessors that never complained neither. */
static bool is_idle(const rdt_prom *p, rdt_metric m, int i) {
  const place at = place_of(m);
  const rdt_prom_core *c = at.unit < RDT_PROM_UNITS ? &p->units[at.unit].list[i / at.count] : NULL;
  for (int k = 0; c && k < CORE_FAULTS + RDT_DIAG_UNKNOWN; k++)
    if (c->value[k] > 0.0) return false;
  return c != NULL;
}

static void put_all(rdt_prom *p, FILE *to, char *key) {
  for (int m = 0; m < RDT_METRIC_COUNT; m++) {
    const double *value;
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", metrics[m].name, metrics[m].help, metrics[m].name, metrics[m].type);
    for (int i = 0; (value = sample(p, (rdt_metric)m, i, key, key_size(p))) != NULL; i++)
      if (!is_idle(p, (rdt_metric)m, i)) fprintf(to, "%s %.17g\n", key, *value);
  }
}

rdt_status rdt_prom_write(rdt_prom *p, rdt_reason *why) {
  char *text = NULL, *key = p->path ? rdt_alloc(key_size(p), 1) : NULL;
  size_t size = 0;
  if (!p->path) return RDT_OK;
  gather(p, RDT_PROM_CORES, rdt_context_cores);
  gather(p, RDT_PROM_SMS, rdt_context_multiprocessors);
  FILE *to = key ? open_memstream(&text, &size) : NULL;
  if (to) put_all(p, to, key);
  const bool whole = to && fclose(to) == 0;
  const rdt_status status = whole ? rdt_file_write(p->path, text, size, NULL, 0, why)
                                  : rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory to write counters", p->path);
  free(text);
  rdt_free(key);
  p->written = rdt_clock();
  return status;
}

rdt_status rdt_prom_open(rdt_prom *p, const char *path, double every, const char *model, const char *host,
                         rdt_reason *why) {
  *p = (rdt_prom){.every = every};
  if (!path) return RDT_OK;
  p->labels = labels_of(model, host);
  if (!p->labels) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  RDT_TRY(read_file(p, path, why));
  p->path = path;
  return RDT_OK;
}

void rdt_prom_close(rdt_prom *p) {
  free(p->labels);
  for (int u = 0; u < RDT_PROM_UNITS; u++) rdt_free(p->units[u].list);
  *p = (rdt_prom){.path = NULL};
}

/* ---- counting ---- */

void rdt_prom_watch(rdt_prom *p, const rdt_context *ctx) {
  p->ctx = ctx;
}

void rdt_prom_event(rdt_prom *p, const rdt_event *e) {
  for (int i = 0; i < e->n_rungs; i++) p->value[RDT_METRIC_RECOVERY_SECONDS] += e->rungs[i].seconds;
  if (e->kind != RDT_EVENT_FAULT) return;
  const bool named = e->diagnosis > RDT_DIAG_NONE && e->diagnosis <= RDT_DIAG_UNKNOWN;
  const bool judged = e->verdict > RDT_CLEAN && e->verdict <= RDT_DETECTED;
  p->faults[named ? e->diagnosis : RDT_DIAG_UNKNOWN][judged ? e->verdict : RDT_DETECTED] += 1.0;
}

void rdt_prom_run(rdt_prom *p, const rdt_run_result *r) {
  p->value[RDT_METRIC_RUNS] += 1.0;
  p->value[RDT_METRIC_CHECKS] += (double)r->checks;
  p->value[RDT_METRIC_SUSPECTS] += (double)r->suspects;
  p->value[RDT_METRIC_UNCHECKED] += (double)r->unchecked;
  p->value[RDT_METRIC_RUN_SECONDS] += r->seconds;
  p->value[RDT_METRIC_CHECK_SECONDS] += r->seconds_check;
  p->value[RDT_METRIC_LAST_RUN] = (double)time(NULL);
  if (p->path && rdt_clock() - p->written >= p->every)
    (void)!rdt_prom_write(p, NULL); /* the last write, at the end, says what is wrong */
}
