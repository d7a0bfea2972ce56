/* redoubt screen: does every core compute rightly, or every multiprocessor of a GPU? */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "core/file.h"
#include "core/memory.h"
#include "cuda/device.h"
#include "net/remote.h"
#include "progress.h"
#include "screen_report.h"

enum { MOST_DEVICES = 65 }; /* the cores, and GPUs */

typedef struct screen {
  const rdt_settings *settings;
  rdt_screened found;
  rdt_fault fault;
  int n;
  rdt_sms *sms[MOST_DEVICES]; /* NULL: the cores */
  rdt_screened_device devices[MOST_DEVICES];
  rdt_screen results[MOST_DEVICES];
  rdt_reason why, absent;
  bool ended; /* what was found is known */
} screen;

/* ---- devices ---- */

static rdt_status add(screen *s, const char *name) {
  int index;
  rdt_sms **sms = &s->sms[s->n];
  const bool cores = strcmp(name, "cpu") == 0;
  if (s->n == MOST_DEVICES) return rdt_fail(&s->why, RDT_ERR_ARG, "--device: more than %d devices", MOST_DEVICES);
  for (int i = 0; i < s->n; i++)
    if (strcmp(s->sms[i] ? s->sms[i]->name : "cpu", name) == 0)
      return rdt_fail(&s->why, RDT_ERR_ARG, "--device: %s is there twice", name);
  if (!cores) {
    RDT_TRY(rdt_device_index(name, &index, &s->why));
    RDT_TRY(rdt_sms_open(index, sms, &s->why));
  }
  s->n++;
  return RDT_OK;
}

static rdt_status add_all(screen *s) {
  int there;
  if (rdt_cuda_find(&there, &s->absent) != RDT_OK)
    return rdt_fail(
        &s->why, RDT_ERR_DEVICE,
        "--device all: there is a driver, but no GPU of it can be screened (%s); --device cpu leaves GPUs out",
        s->absent.text);
  if (there == 0) s->found.absent = s->absent.text;
  RDT_TRY(add(s, "cpu"));
  for (int i = 0; i < there; i++) {
    char name[24];
    snprintf(name, sizeof name, "cuda:%d", i);
    RDT_TRY(add(s, name));
  }
  return RDT_OK;
}

static rdt_status add_listed(screen *s, const char *list) {
  char name[24];
  for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
    end = at + strcspn(at, ",");
    const int n = snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
    if ((size_t)n >= sizeof name)
      return rdt_fail(&s->why, RDT_ERR_NAME, "--device %.60s: a screen is of cpu, cuda:N, or all", list);
    RDT_TRY(add(s, name));
  }
  return RDT_OK;
}

/* ---- the command ---- */

/* A file of another program, or of counters of networks, is not written over. */
static rdt_status is_ours(const char *path, rdt_reason *why) {
  static const char first[] = "# HELP redoubt_screen_";
  char line[sizeof first] = "";
  FILE *f;
  RDT_TRY(rdt_file_stream(path, false, &f, why));
  const bool any = f && fgets(line, sizeof line, f) != NULL;
  if (f) fclose(f);
  if (!any || strcmp(line, first) == 0) return rdt_file_try(path, why);
  return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: holds something else than a screen: --prom takes a file of its own",
                  path);
}

/* What is wrong with the command line is said before anything is computed. */
static rdt_status prepare(screen *s) {
  const rdt_settings *g = s->settings;
  rdt_reason *why = &s->why;
  rdt_screened *f = &s->found;
  const char *device = g->device ? g->device : "cpu";
  if (gethostname(f->host, sizeof f->host - 1) != 0) snprintf(f->host, sizeof f->host, "unknown");
  f->settings = g;
  f->level = g->level ? (int)g->level : 1;
  f->devices = s->devices;
  if (g->fault) RDT_TRY(rdt_fault_parse(g->fault, &s->fault, why));
  if (g->fault && (s->fault.cores > 0 || s->fault.copies != RDT_COPIES_ONE))
    return rdt_fail(why, RDT_ERR_ARG,
                    "--fault: a screen has the cores that there are and no copies: without cores=, copies=");
  RDT_TRY(strcmp(device, "all") == 0 ? add_all(s) : add_listed(s, device));
  f->n = s->n;
  if (g->prom) RDT_TRY(is_ours(g->prom, why));
  if (g->out && mkdir(g->out, 0777) != 0 && errno != EEXIST)
    return rdt_file_fail(why, g->out, "made", errno, "; check the folder and its permissions");
  struct stat st;
  if (g->out && (stat(g->out, &st) != 0 || !S_ISDIR(st.st_mode)))
    return rdt_fail(why, RDT_ERR_IO, "%.200s: is no folder; --save takes one, which may be new", g->out);
  return RDT_OK;
}

static rdt_status print(screen *s) {
  const rdt_settings *g = s->settings;
  if (g->quiet) return RDT_OK;
  if (g->format != RDT_FORMAT_JSON)
    return rdt_screened_print(&s->found) ? RDT_OK : rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  cJSON *doc = rdt_screened_document(&s->found);
  const rdt_status status = doc ? rdt_json_print(doc, &s->why) : rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  cJSON_Delete(doc);
  return status;
}

static rdt_status save(screen *s) {
  const rdt_settings *g = s->settings;
  if (!g->out) return RDT_OK;
  cJSON *doc = rdt_screened_document(&s->found);
  const rdt_status status =
      doc ? rdt_screened_save(&s->found, doc, g->out, &s->why) : rdt_fail(&s->why, RDT_ERR_NOMEM, "out of memory");
  cJSON_Delete(doc);
  return status;
}

/* What was found is printed before it is written: a disk that is full must not hide a bad core. */
static rdt_status tell(screen *s) {
  const rdt_settings *g = s->settings;
  RDT_TRY(print(s));
  if (g->prom) RDT_TRY(rdt_screened_write_prom(&s->found, g->prom, &s->why));
  return save(s);
}

static bool show(void *user, double part, const char *what) {
  (void)user;
  rdt_progress(part, "%s", what);
  return !rdt_signals_caught();
}

static rdt_status go(screen *s) {
  const rdt_settings *g = s->settings;
  rdt_screen_job jobs[MOST_DEVICES];
  RDT_TRY(prepare(s));
  for (int i = 0; i < s->n; i++)
    jobs[i] = (rdt_screen_job){.level = s->found.level,
                               .seconds = g->max_seconds,
                               .retests = g->retest < 0 ? 3 : (int)g->retest,
                               .fault = g->fault ? &s->fault : NULL,
                               .sms = s->sms[i],
                               .progress = show};
  rdt_signals_watch(NULL);
  rdt_progress_begin(g, "screening");
  const rdt_status status = rdt_screen_run_all(jobs, s->n, s->results, &s->why);
  rdt_progress_end();
  for (int i = 0; i < s->n; i++) s->devices[i] = (rdt_screened_device){.sms = s->sms[i], .found = s->results[i]};
  RDT_TRY(status);
  s->ended = true;
  return tell(s);
}

static int run(const rdt_command *c, const rdt_settings *settings) {
  screen *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_cli_fail(c, RDT_ERR_NOMEM, "out of memory");
  s->settings = settings;
  const rdt_status status = go(s);
  const bool bad = s->ended && rdt_screened_bad(&s->found) > 0;
  const int failed = status != RDT_OK ? rdt_cli_fail(c, status, s->why.text) : RDT_EXIT_OK;
  const int code = bad ? RDT_EXIT_FAULT : failed;
  rdt_signals_default();
  for (int i = 0; i < s->n; i++) {
    if (s->sms[i]) s->sms[i]->close(s->sms[i]);
    rdt_screen_clear(&s->results[i]);
  }
  rdt_free(s);
  return code;
}

static const rdt_option_id options[] = {RDT_OPT_LEVEL,       RDT_OPT_TIME,  RDT_OPT_RETEST,       RDT_OPT_SCREEN_DEVICE,
                                        RDT_OPT_SCREEN_PROM, RDT_OPT_SAVE,  RDT_OPT_SCREEN_FAULT, RDT_OPT_FORMAT,
                                        RDT_OPT_JSON,        RDT_OPT_QUIET, RDT_OPT_NO_PROGRESS,  RDT_OPT_COUNT};
static const rdt_words examples[] = {
    {"redoubt screen", "all cores, in some seconds"},
    {"redoubt screen -r 3 --save found --prom /var/lib/node_exporter/screen.prom",
     "a burn-in before a machine is used"},
    {"redoubt screen --time 60 --json", "a minute, for a program"},
    {"redoubt screen --fault stuck1:22@accum,core=1", "is a bad core named?"},
    {"redoubt screen --device cuda:0", "all multiprocessors of a GPU"},
    {"redoubt screen --device all -r 2 --prom screen.prom", "the cores and every GPU, at the same time, one report"},
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
        "`core=N` is a multiprocessor there.\n"
        "\n"
        "`--device all` screens the cores and every GPU that there is at the same time, and says so where there is "
        "none; `--device cpu,cuda:1` those. A simulated fault is then of each of them, or of the one that "
        "`layer=cuda:1` names.",
    .good = "every core, or multiprocessor, computes rightly",
    .bad = "one has computed wrongly",
    .stopped = "stopped by signal N: nothing is written",
    .examples = examples};
