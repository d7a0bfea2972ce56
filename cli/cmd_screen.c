/* redoubt screen: does every core compute rightly, or every multiprocessor of a GPU? */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "core/file.h"
#include "net/remote.h"
#include "net/tensor_file.h"
#include "progress.h"
#include "report/table.h"
#include "screen/screen.h"

typedef struct screen {
  const rdt_settings *settings;
  int level;
  rdt_fault fault;
  rdt_sms *sms;     /* NULL: cores */
  const char *unit; /* "core", "SM" */
  rdt_screen found;
  char host[HOST_NAME_MAX + 1];
  rdt_reason why;
} screen;

static const char *name_of(const screen *s, const rdt_screen_failed *f) {
  return s->found.paths[f->path].name;
}

static const rdt_known *known_of(const screen *s, const rdt_screen_failed *f) {
  return &s->found.known[f->known];
}

static const char *size_name(rdt_known_size size) {
  return size == RDT_KNOWN_SMALL ? "small" : "large";
}

static const char *state_of(const rdt_screen_unit *u) {
  return u->failures > 0 ? rdt_diagnosis_name(u->diagnosis) : "good";
}

/* ---- JSON ---- */

static cJSON *failed_document(const screen *s, const rdt_screen_failed *f) {
  const rdt_known *k = known_of(s, f);
  char bits[32];
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "path", name_of(s, f));
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

static cJSON *unit_document(const screen *s, const rdt_screen_unit *u) {
  cJSON *o = cJSON_CreateObject(), *list;
  cJSON_AddNumberToObject(o, "core", u->core);
  cJSON_AddStringToObject(o, "state", state_of(u));
  cJSON_AddNumberToObject(o, "products", (double)u->products);
  cJSON_AddNumberToObject(o, "failures", (double)u->failures);
  rdt_json_number(o, "clock_mhz", u->clock);
  cJSON_AddNumberToObject(o, "different", u->n_failed);
  list = cJSON_AddArrayToObject(o, "failed");
  for (int i = 0; i < rdt_screen_listed(u); i++) cJSON_AddItemToArray(list, failed_document(s, &u->failed[i]));
  return o;
}

static cJSON *document(const screen *s) {
  struct timespec now;
  const rdt_screen *f = &s->found;
  cJSON *doc = rdt_document("screen"), *list, *heat;
  clock_gettime(CLOCK_REALTIME, &now);
  rdt_json_time(doc, &now);
  rdt_json_text(doc, "host", s->host);
  cJSON_AddStringToObject(doc, "device", s->sms ? s->sms->name : "cpu");
  if (s->sms) rdt_json_text(doc, "device_name", s->sms->what);
  cJSON_AddNumberToObject(doc, "level", s->level);
  rdt_json_number(doc, "seconds", f->seconds);
  cJSON_AddItemToObject(doc, "fault", s->settings->fault ? cJSON_CreateString(s->settings->fault) : cJSON_CreateNull());
  cJSON_AddNumberToObject(doc, "cases", (double)f->cases);
  cJSON_AddNumberToObject(doc, "products", (double)f->products);
  cJSON_AddNumberToObject(doc, "bad", f->bad);
  heat = cJSON_AddObjectToObject(doc, "temperature_c");
  rdt_json_number(heat, "before", f->temperature[0]);
  rdt_json_number(heat, "after", f->temperature[1]);
  list = cJSON_AddArrayToObject(doc, "paths");
  for (int i = 0; i < f->n_paths; i++) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "path", f->paths[i].name);
    cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(f->paths[i].dtype));
    cJSON_AddItemToArray(list, o);
  }
  list = cJSON_AddArrayToObject(doc, "units");
  for (int i = 0; i < f->n_units; i++) cJSON_AddItemToArray(list, unit_document(s, &f->units[i]));
  return doc;
}

/* ---- text ---- */

static void print_failed(const screen *s, const rdt_screen_unit *u) {
  for (int i = 0; i < rdt_screen_listed(u); i++) {
    const rdt_screen_failed *f = &u->failed[i];
    const rdt_known *k = known_of(s, f);
    printf("%s %d   %s, %s, %s %s: %.17g for %.17g at row %" PRId64 ", column %" PRId64 " (bits 0x%" PRIx64
           "), %" PRId64 " of its elements; wrong again in %d of %d retests\n",
           s->unit, u->core, name_of(s, f), rdt_dtype_name(k->dtype), size_name(k->size),
           rdt_known_pattern_name(k->pattern), f->actual, f->expected, f->row, f->column, f->bits, f->wrong,
           f->retests_failed, f->retested);
  }
  if (u->n_failed > rdt_screen_listed(u))
    printf("%s %d   and %d more different products\n", s->unit, u->core, u->n_failed - rdt_screen_listed(u));
}

/* A GPU has many multiprocessors: those that are good are told together. */
static bool print_units(const screen *s, bool markdown) {
  const rdt_screen *f = &s->found;
  if (s->sms && f->bad == 0) return true;
  rdt_table *t =
      rdt_table_create(s->sms ? ">SM|state|>products|>failures|>MHz" : ">core|state|>products|>failures|>MHz");
  for (int i = 0; i < f->n_units; i++) {
    const rdt_screen_unit *u = &f->units[i];
    if (s->sms && u->failures == 0) continue;
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

static bool print(const screen *s) {
  const rdt_screen *f = &s->found;
  const char *units = s->sms ? "multiprocessors" : "cores", *one = s->sms ? "multiprocessor" : "core";
  if (!print_units(s, s->settings->format == RDT_FORMAT_MD)) return false;
  if (s->sms) printf("%s%s, %s", f->bad ? "\n" : "", s->sms->name, s->sms->what);
  printf("\nlevel %d, %.1f s: %" PRId64 " products on %d %s, %" PRId64 " different ones on %d paths", s->level,
         f->seconds, f->products, f->n_units, units, f->cases, f->n_paths);
  if (s->sms && f->n_units && !isnan(f->units[0].clock)) printf("; %.0f MHz", f->units[0].clock);
  if (!isnan(f->temperature[1])) printf("; %.0f C before, %.0f C after", f->temperature[0], f->temperature[1]);
  printf("\n");
  for (int i = 0; i < f->n_units; i++) print_failed(s, &f->units[i]);
  if (f->bad == 0) printf("every %s computes rightly\n", one);
  if (f->bad > 0 && f->bad == f->n_units && f->n_units > 1)
    printf("every %s is wrong: rather the program or the memory than the %s\n", one, units);
  else if (f->bad > 0 && s->sms)
    printf("%d of %d multiprocessors compute wrongly: have the GPU replaced\n", f->bad, f->n_units);
  else if (f->bad > 0)
    printf("%d of %d cores compute wrongly: keep them out (--avoid-core), and have them replaced\n", f->bad,
           f->n_units);
  return true;
}

/* ---- files ---- */

/* A file of another program, or of counters of networks, is not written over. */
static rdt_status is_ours(const char *path, rdt_reason *why) {
  static const char first[] = "# HELP redoubt_screen_";
  char line[sizeof first] = "";
  FILE *f = fopen(path, "r");
  const bool any = f && fgets(line, sizeof line, f) != NULL;
  if (f) fclose(f);
  if (!any || strcmp(line, first) == 0) return rdt_file_try(path, why);
  return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: holds something else than a screen: --prom takes a file of its own",
                  path);
}

static rdt_status write_prom(const screen *s, rdt_reason *why) {
  static const char *const names[][2] = {{"redoubt_screen_bad", "1: the core has computed wrongly."},
                                         {"redoubt_screen_products", "Products with a known result that it has made."},
                                         {"redoubt_screen_failures", "Of these with another result."}};
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  if (!to) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int n = 0; n < 3; n++) {
    fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n", names[n][0], names[n][1], names[n][0]);
    for (int i = 0; i < s->found.n_units; i++) {
      const rdt_screen_unit *u = &s->found.units[i];
      const int64_t values[] = {u->failures > 0, u->products, u->failures};
      fprintf(to, "%s{host=\"%s\",", names[n][0], s->host);
      if (s->sms) fprintf(to, "device=\"%s\",", s->sms->name);
      fprintf(to, "%s=\"%d\"} %" PRId64 "\n", s->sms ? "multiprocessor" : "core", u->core, values[n]);
    }
  }
  fprintf(to,
          "# HELP redoubt_screen_timestamp_seconds When it ended, in seconds since 1970.\n"
          "# TYPE redoubt_screen_timestamp_seconds gauge\nredoubt_screen_timestamp_seconds{host=\"%s\"} %lld\n",
          s->host, (long long)time(NULL));
  rdt_status status = fclose(to) == 0 ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) status = rdt_file_write(s->settings->prom, text, size, NULL, 0, why);
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

static rdt_status save_failed(const screen *s, int core, const rdt_screen_failed *f, rdt_reason *why) {
  const rdt_known *k = known_of(s, f);
  const char *dir = s->settings->out;
  char stem[160];
  rdt_tensor result = k->c;
  result.data = f->result;
  snprintf(stem, sizeof stem, "%s%d-%s-%s-%s-%s", s->sms ? "sm" : "core", core, name_of(s, f), rdt_dtype_name(k->dtype),
           rdt_known_pattern_name(k->pattern), size_name(k->size));
  for (char *c = stem; *c; c++)
    if (*c == ' ') *c = '-';
  RDT_TRY(save_tensor(dir, stem, "a", &k->a, why));
  RDT_TRY(save_tensor(dir, stem, "b", &k->b, why));
  RDT_TRY(save_tensor(dir, stem, "expected", &k->c, why));
  return f->result ? save_tensor(dir, stem, "actual", &result, why) : RDT_OK;
}

static rdt_status save(const screen *s, const cJSON *doc, rdt_reason *why) {
  char path[4096];
  const int n = snprintf(path, sizeof path, "%s/screen.json", s->settings->out);
  if (n < 0 || (size_t)n >= sizeof path)
    return rdt_fail(why, RDT_ERR_ARG, "the path %.200s... is too long", s->settings->out);
  for (int i = 0; i < s->found.n_units; i++)
    for (int k = 0; k < rdt_screen_listed(&s->found.units[i]); k++)
      RDT_TRY(save_failed(s, s->found.units[i].core, &s->found.units[i].failed[k], why));
  return rdt_json_write(doc, path, why);
}

/* ---- the command ---- */

static bool show(double part, const char *what) {
  rdt_progress(part, "%s", what);
  return !rdt_signals_caught();
}

/* What is wrong with the command line is said before anything is computed. */
static rdt_status prepare(screen *s, rdt_screen_job *job) {
  const rdt_settings *g = s->settings;
  rdt_reason *why = &s->why;
  int index;
  if (gethostname(s->host, sizeof s->host - 1) != 0) snprintf(s->host, sizeof s->host, "unknown");
  s->level = g->level ? (int)g->level : 1;
  *job = (rdt_screen_job){
      .level = s->level, .seconds = g->max_seconds, .retests = g->retest < 0 ? 3 : (int)g->retest, .progress = show};
  s->unit = "core";
  if (g->fault) {
    RDT_TRY(rdt_fault_parse(g->fault, &s->fault, why));
    job->fault = &s->fault;
  }
  if (g->device && strcmp(g->device, "cpu") != 0) {
    RDT_TRY(rdt_device_index(g->device, &index, why));
    RDT_TRY(rdt_sms_open(index, &s->sms, why));
    s->unit = "SM";
    job->sms = s->sms;
  }
  if (g->prom) RDT_TRY(is_ours(g->prom, why));
  if (g->out && mkdir(g->out, 0777) != 0 && errno != EEXIST)
    return rdt_file_fail(why, g->out, "made", errno, "; check the folder and its permissions");
  struct stat st;
  if (g->out && (stat(g->out, &st) != 0 || !S_ISDIR(st.st_mode)))
    return rdt_fail(why, RDT_ERR_IO, "%.200s: is no folder; --save takes one, which may be new", g->out);
  return RDT_OK;
}

static rdt_status tell(screen *s) {
  const rdt_settings *g = s->settings;
  if (g->prom) RDT_TRY(write_prom(s, &s->why));
  if (g->out || g->format == RDT_FORMAT_JSON) {
    cJSON *doc = document(s);
    rdt_status status = doc ? RDT_OK : rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
    if (status == RDT_OK && g->out) status = save(s, doc, &s->why);
    if (status == RDT_OK && g->format == RDT_FORMAT_JSON && !g->quiet) status = rdt_json_print(doc, &s->why);
    cJSON_Delete(doc);
    RDT_TRY(status);
  }
  if (g->quiet || g->format == RDT_FORMAT_JSON || print(s)) return RDT_OK;
  return rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
}

static rdt_status go(screen *s) {
  rdt_screen_job job;
  RDT_TRY(prepare(s, &job));
  rdt_signals_watch(NULL);
  rdt_progress_begin(s->settings, "screening");
  const rdt_status status = rdt_screen_run(&job, &s->found, &s->why);
  rdt_progress_end();
  RDT_TRY(status);
  return tell(s);
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  screen s = {.settings = settings};
  const rdt_status status = go(&s);
  const int code = status != RDT_OK  ? rdt_cli_fail(c, status, s.why.text)
                   : s.found.bad > 0 ? RDT_EXIT_FAULT
                                     : RDT_EXIT_OK;
  rdt_signals_default();
  if (s.sms) s.sms->close(s.sms);
  rdt_screen_clear(&s.found);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_LEVEL,       RDT_OPT_TIME,  RDT_OPT_RETEST,       RDT_OPT_SCREEN_DEVICE,
                                        RDT_OPT_SCREEN_PROM, RDT_OPT_SAVE,  RDT_OPT_SCREEN_FAULT, RDT_OPT_FORMAT,
                                        RDT_OPT_JSON,        RDT_OPT_QUIET, RDT_OPT_NO_PROGRESS,  RDT_OPT_COUNT};
static const rdt_words examples[] = {{"redoubt screen", "all cores, in some seconds"},
                                     {"redoubt screen -r 3 --save found --prom /var/lib/node_exporter/screen.prom",
                                      "a burn-in before a machine is used"},
                                     {"redoubt screen --time 60 --json", "a minute, for a program"},
                                     {"redoubt screen --fault stuck1:22@accum,core=1", "is a bad core named?"},
                                     {"redoubt screen --device cuda:0", "all multiprocessors of a GPU"},
                                     {NULL, NULL}};
const rdt_command rdt_cmd_screen = {
    .name = "screen",
    .run = run,
    .options = options,
    .summary = "does every core compute rightly? Products with known results, on every instruction path",
    .text =
        "All cores that the process may use compute at the same time, each by itself, products whose result is known "
        "to the last bit: whole numbers, single products of numbers with all their bits, alternating bits and "
        "extremes, a walking bit; in every datatype and by every kernel of products: plain C, the own kernels as they "
        "are compiled for plain C, AVX2 and AVX-512 (with VNNI and dot products of bf16 where the CPU has them), and "
        "oneDNN. A core with other bits is named, with where and what, and tried again: `persistent` where a quarter "
        "of its retests were wrong too, `transient` otherwise, `unknown` with `--retest 0`.\n"
        "\n"
        "The clock of each core and the temperature of the processor are told where the system says them. "
        "`REDOUBT_ISA` leaves out what is above it. `taskset -c 3 redoubt screen` screens one core alone. Run it on a "
        "machine that does nothing else: what waits for a core "
        "is not computed.\n"
        "\n"
        "`--device cuda:N` screens all multiprocessors of a GPU at the same time, by mma.sync, wgmma (on GPUs that "
        "have "
        "it), fma and dp4a, each in the datatypes that it multiplies; results are compared in registers. A fault's "
        "`core=N` is a multiprocessor there.",
    .good = "every core, or multiprocessor, computes rightly",
    .bad = "one has computed wrongly",
    .stopped = "stopped by signal N: nothing is written",
    .examples = examples};
