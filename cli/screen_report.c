/* What a screen has found: as text, as JSON, as counters, as files. */
#include "screen_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/file.h"
#include "net/tensor_file.h"
#include "report/json.h"
#include "report/table.h"

typedef rdt_screened_device device;

/* What a device is made of. */
typedef struct words {
  const char *unit, *one, *many, *remedy;
} words;
static const words of_cpu = {"core", "core", "cores", "keep them out (--avoid-core), and have them replaced"},
                   of_gpu = {"SM", "multiprocessor", "multiprocessors", "have the GPU replaced"};

static const words *words_of(const device *d) {
  return d->sms ? &of_gpu : &of_cpu;
}

static const char *device_name(const device *d) {
  return d->sms ? d->sms->name : "cpu";
}

static const char *name_of(const device *d, const rdt_screen_failed *f) {
  return d->found.paths[f->path].name;
}

static const rdt_known *known_of(const device *d, const rdt_screen_failed *f) {
  return &d->found.known[f->known];
}

static const char *size_name(rdt_known_size size) {
  return size == RDT_KNOWN_SMALL ? "small" : "large";
}

static const char *state_of(const rdt_screen_unit *u) {
  return u->failures > 0 ? rdt_diagnosis_name(u->diagnosis) : "good";
}

int rdt_screened_bad(const rdt_screened *s) {
  int bad = 0;
  for (int i = 0; i < s->n; i++) bad += s->devices[i].found.bad;
  return bad;
}

/* ---- JSON ---- */

static cJSON *failed_document(const device *d, const rdt_screen_failed *f) {
  const rdt_known *k = known_of(d, f);
  char bits[32];
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "path", name_of(d, f));
  cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(k->dtype));
  cJSON_AddStringToObject(o, "data", rdt_known_pattern_name(k->pattern));
  cJSON_AddStringToObject(o, "size", size_name(k->size));
  cJSON_AddNumberToObject(o, "failures", (double)f->failures);
  cJSON_AddNumberToObject(o, "wrong", (double)f->wrong);
  cJSON_AddNumberToObject(o, "row", (double)f->row);
  cJSON_AddNumberToObject(o, "column", (double)f->column);
  rdt_json_number(o, "expected", f->expected);
  rdt_json_number(o, "actual", f->actual);
  snprintf(bits, sizeof bits, "0x%" PRIx64, f->bits);
  cJSON_AddStringToObject(o, "bits", bits);
  cJSON_AddNumberToObject(o, "retested", f->retested);
  cJSON_AddNumberToObject(o, "retests_failed", f->retests_failed);
  return o;
}

static cJSON *unit_document(const device *d, const rdt_screen_unit *u) {
  cJSON *o = cJSON_CreateObject(), *list;
  cJSON_AddNumberToObject(o, "core", u->core);
  cJSON_AddStringToObject(o, "state", state_of(u));
  cJSON_AddNumberToObject(o, "products", (double)u->products);
  cJSON_AddNumberToObject(o, "failures", (double)u->failures);
  rdt_json_number(o, "clock_mhz", u->clock);
  cJSON_AddNumberToObject(o, "different", u->n_failed);
  list = cJSON_AddArrayToObject(o, "failed");
  for (int i = 0; i < rdt_screen_listed(u); i++) cJSON_AddItemToArray(list, failed_document(d, &u->failed[i]));
  return o;
}

static void text_or_null(cJSON *o, const char *name, const char *text) {
  if (text)
    rdt_json_text(o, name, text);
  else
    cJSON_AddNullToObject(o, name);
}

static cJSON *device_document(const device *d) {
  const rdt_screen *f = &d->found;
  cJSON *o = cJSON_CreateObject(), *list, *heat;
  cJSON_AddStringToObject(o, "device", device_name(d));
  text_or_null(o, "device_name", d->sms ? d->sms->what : NULL);
  rdt_json_number(o, "seconds", f->seconds);
  cJSON_AddNumberToObject(o, "cases", (double)f->cases);
  cJSON_AddNumberToObject(o, "products", (double)f->products);
  cJSON_AddNumberToObject(o, "bad", f->bad);
  heat = cJSON_AddObjectToObject(o, "temperature_c");
  rdt_json_number(heat, "before", f->temperature[0]);
  rdt_json_number(heat, "after", f->temperature[1]);
  list = cJSON_AddArrayToObject(o, "paths");
  for (int i = 0; i < f->n_paths; i++) {
    cJSON *path = cJSON_CreateObject();
    cJSON_AddStringToObject(path, "path", f->paths[i].name);
    cJSON_AddStringToObject(path, "dtype", rdt_dtype_name(f->paths[i].dtype));
    cJSON_AddItemToArray(list, path);
  }
  list = cJSON_AddArrayToObject(o, "units");
  for (int i = 0; i < f->n_units; i++) cJSON_AddItemToArray(list, unit_document(d, &f->units[i]));
  return o;
}

cJSON *rdt_screened_document(const rdt_screened *s) {
  struct timespec now;
  cJSON *doc = rdt_document("screen/2"), *list;
  clock_gettime(CLOCK_REALTIME, &now);
  rdt_json_time(doc, &now);
  rdt_json_text(doc, "host", s->host);
  cJSON_AddNumberToObject(doc, "level", s->level);
  text_or_null(doc, "fault", s->settings->fault);
  cJSON_AddNumberToObject(doc, "bad", rdt_screened_bad(s));
  text_or_null(doc, "no_gpu", s->absent);
  list = cJSON_AddArrayToObject(doc, "devices");
  for (int i = 0; i < s->n; i++) cJSON_AddItemToArray(list, device_document(&s->devices[i]));
  return doc;
}

/* ---- text ---- */

static void print_failed(const device *d, const rdt_screen_unit *u) {
  const char *unit = words_of(d)->unit;
  for (int i = 0; i < rdt_screen_listed(u); i++) {
    const rdt_screen_failed *f = &u->failed[i];
    const rdt_known *k = known_of(d, f);
    printf("%s %d   %s, %s, %s %s: %.17g for %.17g at row %" PRId64 ", column %" PRId64 " (bits 0x%" PRIx64
           "), %" PRId64 " of its elements; wrong again in %d of %d retests\n",
           unit, u->core, name_of(d, f), rdt_dtype_name(k->dtype), size_name(k->size),
           rdt_known_pattern_name(k->pattern), f->actual, f->expected, f->row, f->column, f->bits, f->wrong,
           f->retests_failed, f->retested);
  }
  if (u->n_failed > rdt_screen_listed(u))
    printf("%s %d   and %d more different products\n", unit, u->core, u->n_failed - rdt_screen_listed(u));
}

/* A GPU has many multiprocessors: those that are good are told together. */
static bool print_units(const device *d, bool markdown) {
  const rdt_screen *f = &d->found;
  if (d->sms && f->bad == 0) return true;
  rdt_table *t =
      rdt_table_create(d->sms ? ">SM|state|>products|>failures|>MHz" : ">core|state|>products|>failures|>MHz");
  for (int i = 0; i < f->n_units; i++) {
    const rdt_screen_unit *u = &f->units[i];
    if (d->sms && u->failures == 0) continue;
    rdt_table_cell(t, "%d", u->core);
    rdt_table_cell(t, "%s", state_of(u));
    rdt_table_cell(t, "%" PRId64, u->products);
    rdt_table_cell(t, "%" PRId64, u->failures);
    if (isnan(u->clock))
      rdt_table_cell(t, "-");
    else
      rdt_table_cell(t, "%.0f", u->clock);
  }
  const bool printed = rdt_table_print(t, stdout, markdown);
  rdt_table_destroy(t);
  return printed;
}

static bool print_device(const rdt_screened *s, const device *d) {
  const rdt_screen *f = &d->found;
  const words *w = words_of(d);
  if (!print_units(d, s->settings->format == RDT_FORMAT_MD)) return false;
  if (d->sms) printf("%s%s, %s", f->bad ? "\n" : "", d->sms->name, d->sms->what);
  printf("\nlevel %d, %.1f s: %" PRId64 " products on %d %s, %" PRId64 " different ones on %d paths", s->level,
         f->seconds, f->products, f->n_units, w->many, f->cases, f->n_paths);
  if (d->sms && f->n_units && !isnan(f->units[0].clock)) printf("; %.0f MHz", f->units[0].clock);
  if (!isnan(f->temperature[1])) printf("; %.0f C before, %.0f C after", f->temperature[0], f->temperature[1]);
  printf("\n");
  for (int i = 0; i < f->n_units; i++) print_failed(d, &f->units[i]);
  if (f->bad == 0)
    printf("every %s computes rightly\n", w->one);
  else if (f->bad == f->n_units && f->n_units > 1)
    printf("every %s is wrong: rather the program or the memory than the %s\n", w->one, w->many);
  else
    printf("%d of %d %s compute wrongly: %s\n", f->bad, f->n_units, w->many, w->remedy);
  return true;
}

bool rdt_screened_print(const rdt_screened *s) {
  for (int i = 0; i < s->n; i++) {
    if (i > 0) printf("\n");
    if (!print_device(s, &s->devices[i])) return false;
  }
  if (s->absent) printf("%s\n", s->absent);
  return true;
}

/* ---- files ---- */

rdt_status rdt_screened_write_prom(const rdt_screened *s, const char *path, rdt_reason *why) {
  static const char *const names[][2] = {{"redoubt_screen_bad", "1: the core has computed wrongly."},
                                         {"redoubt_screen_products", "Products with a known result that it has made."},
                                         {"redoubt_screen_failures", "Of these with another result."}};
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  if (!to) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int n = 0; n < 3; n++) {
    fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n", names[n][0], names[n][1], names[n][0]);
    for (int at = 0; at < s->n; at++) {
      const device *d = &s->devices[at];
      for (int i = 0; i < d->found.n_units; i++) {
        const rdt_screen_unit *u = &d->found.units[i];
        const int64_t values[] = {u->failures > 0, u->products, u->failures};
        fprintf(to, "%s{host=\"%s\",", names[n][0], s->host);
        if (d->sms) fprintf(to, "device=\"%s\",", d->sms->name);
        fprintf(to, "%s=\"%d\"} %" PRId64 "\n", d->sms ? "multiprocessor" : "core", u->core, values[n]);
      }
    }
  }
  fprintf(to,
          "# HELP redoubt_screen_timestamp_seconds When it ended, in seconds since 1970.\n"
          "# TYPE redoubt_screen_timestamp_seconds gauge\nredoubt_screen_timestamp_seconds{host=\"%s\"} %lld\n",
          s->host, (long long)time(NULL));
  rdt_status status = fclose(to) == 0 ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) status = rdt_file_write(path, text, size, NULL, 0, why);
  free(text);
  return status;
}

static rdt_status save_tensor(const char *dir, const char *stem, const char *what, const rdt_tensor *t,
                              rdt_reason *why) {
  char path[4096];
  const int n = snprintf(path, sizeof path, "%s/%s-%s.npy", dir, stem, what);
  if (n < 0 || (size_t)n >= sizeof path) return rdt_fail(why, RDT_ERR_ARG, "the path %.200s... is too long", dir);
  return rdt_npy_write(path, t, why);
}

/* "core1-...", "cuda0-sm77-..." */
static rdt_status save_failed(const device *d, int core, const rdt_screen_failed *f, const char *dir, rdt_reason *why) {
  const rdt_known *k = known_of(d, f);
  char stem[192], on[32] = "core";
  rdt_tensor result = k->c;
  result.data = f->result;
  if (d->sms) snprintf(on, sizeof on, "%.16s-sm", d->sms->name);
  snprintf(stem, sizeof stem, "%s%d-%s-%s-%s-%s", on, core, name_of(d, f), rdt_dtype_name(k->dtype),
           rdt_known_pattern_name(k->pattern), size_name(k->size));
  char *to = stem;
  for (const char *c = stem; *c; c++)
    if (*c != ':') *to++ = (char)(*c == ' ' ? '-' : *c);
  *to = '\0';
  RDT_TRY(save_tensor(dir, stem, "a", &k->a, why));
  RDT_TRY(save_tensor(dir, stem, "b", &k->b, why));
  RDT_TRY(save_tensor(dir, stem, "expected", &k->c, why));
  return f->result ? save_tensor(dir, stem, "actual", &result, why) : RDT_OK;
}

rdt_status rdt_screened_save(const rdt_screened *s, const cJSON *doc, const char *folder, rdt_reason *why) {
  char path[4096];
  const int n = snprintf(path, sizeof path, "%s/screen.json", folder);
  if (n < 0 || (size_t)n >= sizeof path) return rdt_fail(why, RDT_ERR_ARG, "the path %.200s... is too long", folder);
  for (int at = 0; at < s->n; at++) {
    const device *d = &s->devices[at];
    for (int i = 0; i < d->found.n_units; i++)
      for (int k = 0; k < rdt_screen_listed(&d->found.units[i]); k++)
        RDT_TRY(save_failed(d, d->found.units[i].core, &d->found.units[i].failed[k], folder, why));
  }
  return rdt_json_write(doc, path, why);
}
