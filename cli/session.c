/* What the commands share. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "core/context.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "cuda/machine.h"
#include "net/model.h"
#include "plan/coverage.h"
#include "plan/survey.h"
#include "progress.h"
#include "report/json.h"

static rdt_context *volatile running;
static volatile sig_atomic_t caught;

static void on_signal(int number) {
  rdt_context *ctx = running;
  if (caught) _exit(128 + number);
  caught = number;
  if (ctx) rdt_context_cancel(ctx);
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

static sigset_t all_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaddset(&set, signals[i]);
  return set;
}

static sem_t listening;

static void *take_signals(void *user) {
  const sigset_t set = all_signals();
  (void)user;
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  sem_post(&listening);
  while (pause() != 0) {
  }
  return NULL;
}

/* Signals are a thread's that does nothing else: whoever computes may have the stack pointer elsewhere. In oneDNN's
 * product of f32 on AVX2 it is the workspace, and a signal's frame overwrites what malloc has put below it. Threads
 * that are made later take this mask over. It is waited for: a thread that still begins may hold locks of the runtime
 * (AddressSanitizer's), and a child that is forked meanwhile finds them held by nobody. */
static void start_listener(void) {
  enum { STACK = 1 << 16 };
  const sigset_t set = all_signals();
  pthread_attr_t attr;
  pthread_t thread;
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  bool there = sem_init(&listening, 0, 0) == 0 && pthread_attr_init(&attr) == 0;
  if (there) {
    (void)pthread_attr_setstacksize(&attr, STACK);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    there = pthread_create(&thread, &attr, take_signals, NULL) == 0;
    pthread_attr_destroy(&attr);
  }
  while (there && sem_wait(&listening) != 0) {
  }
  if (!there) pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* no thread to be had: nobody will compute for long */
}

void rdt_signals_begin(void) {
  static sigset_t as_it_was; /* who waits for a file computes nothing, and may be woken */
  rdt_signals_default();
  if (pthread_sigmask(SIG_SETMASK, NULL, &as_it_was) == 0) rdt_file_waiting_mask = &as_it_was;
  start_listener();
  (void)pthread_atfork(NULL, NULL, start_listener); /* a child has the thread that forked, and no other */
}

static void handle(void (*handler)(int number)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction old;
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL);
  }
}

void rdt_signals_watch(rdt_context *ctx) {
  running = ctx;
  handle(on_signal);
}

void rdt_signals_default(void) {
  running = NULL;
  handle(SIG_DFL);
  signal(SIGXFSZ, SIG_IGN); /* a file size limit is a write that fails, not the end */
}

int rdt_signals_caught(void) {
  return caught;
}

int rdt_cli_fail(const rdt_command *c, rdt_status status, const char *text) {
  rdt_progress_end();
  if (status == RDT_ERR_CANCELLED && caught) {
    fprintf(stderr, "redoubt %s: stopped by %s; no result was written\n", c->name, strsignal(caught));
    return 128 + caught;
  }
  fprintf(stderr, "redoubt %s: %s\n", c->name, text && *text ? text : rdt_status_text(status));
  return status == RDT_ERR_FAULT ? RDT_EXIT_FAULT : status == RDT_ERR_DEVICE ? RDT_EXIT_DEVICE : RDT_EXIT_USAGE;
}

/* ---- events ---- */

static void tell_event(const rdt_event *e) {
  printf("  event: %s\n", e->text);
  if (e->residual > 0.0 || e->bound > 0.0)
    printf("    residual %.9g, bound %.9g (rigorous %.9g), floor %.9g\n", e->residual, e->bound, e->bound_rigorous,
           e->floor);
  for (int i = 0; i < e->n_rungs; i++) printf("    %s: %s\n", e->rungs[i].name, e->rungs[i].outcome);
}

static void take_event(const rdt_event *event, void *user) {
  rdt_session *s = user;
  if (event->kind == RDT_EVENT_FAULT) s->faults++;
  snprintf(s->last_event, sizeof s->last_event, "%s", event->text);
  s->journal.run = s->run;
  rdt_journal_add(&s->journal, event);
  rdt_prom_event(&s->prom, event);
  if (s->aloud) tell_event(event);
  if (!s->report) return;
  s->report->run = s->run;
  rdt_report_event(event, s->report);
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

/* Whoever asks for votes on the way hears where there are none. */
void rdt_session_divided(const rdt_session *s, const rdt_settings *settings) {
  const rdt_graph *g = s->model->graph;
  if (g->replaced.votes <= 1 || g->whole == 0 || settings->quiet) return;
  fprintf(stderr,
          "redoubt: checkpoints %d: %d of %d products and convolutions vote on the way, the others at the end (%s)\n",
          g->replaced.votes, g->divided, g->divided + g->whole,
          "divided are products by constants of f32 and f64 whose k has a divisor up to that number");
}

static bool stat_folder(const char *path, struct stat *st) {
  char folder[4096];
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  return stat(folder, st) == 0;
}

static bool is_same(const struct stat *x, const struct stat *y) {
  return x->st_dev == y->st_dev && x->st_ino == y->st_ino;
}

/* One that is there, or one name in one folder. */
bool rdt_same_file(const char *a, const char *b) {
  struct stat x, y;
  if (!a || !b || a == b) return false;
  if (strcmp(a, b) == 0) return true;
  if (stat(a, &x) == 0 && stat(b, &y) == 0) return is_same(&x, &y) && S_ISREG(x.st_mode);
  const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');
  return strcmp(slash_a ? slash_a + 1 : a, slash_b ? slash_b + 1 : b) == 0 && stat_folder(a, &x) &&
         stat_folder(b, &y) && is_same(&x, &y);
}

/* What is read is not written over: weights may have to be read from the model again. */
rdt_status rdt_session_spare(rdt_session *s, const rdt_settings *settings, const char *path) {
  const char *const written[] = {settings->events, settings->prom, settings->report};
  bool read = rdt_same_file(path, settings->operand) || rdt_same_file(path, settings->labels) ||
              rdt_same_file(path, settings->plan) || rdt_same_file(path, settings->coverage);
  for (int i = 0; i < settings->inputs.count && !read; i++) {
    const char *file = strchr(settings->inputs.at[i], '=');
    read = rdt_same_file(path, settings->inputs.at[i]) || (file && rdt_same_file(path, file + 1));
  }
  if (read) return rdt_fail(&s->why, RDT_ERR_ARG, "%s is read by this run: write to another file", path);
  for (size_t i = 0; i < sizeof written / sizeof *written; i++)
    if (rdt_same_file(path, written[i]))
      return rdt_fail(&s->why, RDT_ERR_ARG, "%s would be written for two purposes: give each a file of its own", path);
  return RDT_OK;
}

/* Before the model is loaded: a path that cannot be written to shows at once. */
static rdt_status watch(rdt_session *s, const rdt_settings *settings) {
  const double every = settings->prom_every > 0.0 ? settings->prom_every : 15.0;
  RDT_TRY(rdt_session_spare(s, settings, settings->events));
  RDT_TRY(rdt_journal_open(&s->journal, settings->events, settings->syslog, settings->operand, &s->why));
  RDT_TRY(rdt_session_spare(s, settings, settings->prom));
  return rdt_prom_open(&s->prom, settings->prom, every, settings->operand, s->journal.host, &s->why);
}

rdt_status rdt_scrub_of(const char *text, int *every, rdt_reason *why) {
  const char *const word = "every:";
  char *end;
  *every = strcmp(text, "each-run") == 0 ? 1 : 0;
  if (*every || strcmp(text, "off") == 0) return RDT_OK;
  const bool number = strncmp(text, word, strlen(word)) == 0 && isdigit((unsigned char)text[strlen(word)]);
  const long n = number ? strtol(text + strlen(word), &end, 10) : 0;
  if (n < 1 || n > INT_MAX || *end)
    return rdt_fail(why, RDT_ERR_ARG, "--scrub takes each-run, every:N with N from 1 on, or off, not '%s'", text);
  *every = (int)n;
  return RDT_OK;
}

/* off or a share of the runs; 0: off. */
static rdt_status suspect_rate_of(const char *text, double *rate, rdt_reason *why) {
  char *end;
  *rate = 0.0;
  if (strcmp(text, "off") == 0) return RDT_OK;
  *rate = strtod(text, &end);
  if (end == text || *end || !(*rate > 0.0 && *rate < 1.0))
    return rdt_fail(why, RDT_ERR_ARG, "--suspect-rate takes a share of the runs above 0 and below 1, or off, not '%s'",
                    text);
  return RDT_OK;
}

/* All --avoid-core as one list. */
static rdt_status avoided(const rdt_settings *settings, char *list, size_t size, rdt_reason *why) {
  size_t used = 0;
  *list = '\0';
  for (int i = 0; i < settings->avoid_cores.count; i++) {
    used += (size_t)snprintf(list + used, size - used, "%s%s", i ? "," : "", settings->avoid_cores.at[i]);
    if (used >= size) return rdt_fail(why, RDT_ERR_ARG, "--avoid-core names too many: give ranges, as in 8-15");
  }
  return RDT_OK;
}

/* "99%", "0.99" */
rdt_status rdt_share_of(const char *option, const char *text, double most, double *share, rdt_reason *why) {
  char *end;
  *share = strtod(text, &end);
  const bool percent = *end == '%';
  if (percent) *share /= 100.0;
  if (end == text || end[percent] || !isfinite(*share) || !(*share >= 0.0 && *share <= most))
    return rdt_fail(why, RDT_ERR_ARG, "%s takes a share as in 99%% or 0.99, not '%s'", option, text);
  return RDT_OK;
}

static rdt_status may_keep_off(const rdt_settings *settings, bool on_gpu, rdt_reason *why) {
  if (settings->avoid_sm < 0) return RDT_OK;
  if (!on_gpu)
    return rdt_fail(why, RDT_ERR_ARG,
                    "--avoid-sm %d: a multiprocessor is a GPU's, --device cuda:N; of cores it is --avoid-core",
                    (int)settings->avoid_sm);
  if (settings->require || (settings->scheme && strcmp(settings->scheme, "tmr-sm") == 0)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG,
                  "--avoid-sm %d: only copies keep off a multiprocessor, --scheme tmr-sm or --require permanent",
                  (int)settings->avoid_sm);
}

/* Schemes that a GPU has alone, and those that vote on the way. */
static rdt_status votes_where(const rdt_settings *settings, bool on_gpu, rdt_reason *why) {
  static const struct {
    const char *name, *what;
    bool on_the_way;
  } schemes[] = {{"tmr-kernel", "three launches", false},
                 {"tmr-block", "three copies within a kernel", true},
                 {"tmr-split", "three launches for each share of k", true}};
  const char *scheme = settings->scheme ? settings->scheme : "";
  bool on_the_way = settings->require || strcmp(scheme, "tmr-sm") == 0;
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    if (strcmp(scheme, schemes[i].name) != 0) continue;
    on_the_way = schemes[i].on_the_way;
    if (!on_gpu)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "--scheme %s: %s on a GPU, --device cuda:N; on cores it is tmr-sm",
                      scheme, schemes[i].what);
  }
  if (!settings->checkpoints || on_the_way) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG,
                  "--checkpoints %d: votes on the way are of --scheme tmr-sm, and on a GPU of tmr-block and tmr-split",
                  (int)settings->checkpoints);
}

static rdt_status keep_off(rdt_session *s, int64_t sm) {
  rdt_cuda_device *d = &s->ctx->machine->device;
  if (sm >= d->sms)
    return rdt_fail(&s->why, RDT_ERR_ARG, "--avoid-sm %d: %s has multiprocessors 0 to %d", (int)sm, d->name,
                    d->sms - 1);
  d->kept_off = (int)sm + 1;
  return RDT_OK;
}

rdt_status rdt_session_begin(rdt_session *s, const rdt_settings *settings) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  char cores[512];
  *s = (rdt_session){.run = 1, .told = true};
  RDT_TRY(rdt_context_open(&s->ctx, (int)settings->threads, &s->why));
  rdt_signals_watch(s->ctx);
  if (settings->scheme) policy.scheme = settings->scheme;
  policy.on_fault = (rdt_on_fault)settings->on_fault;
  if (settings->lambda > 0.0) policy.lambda = settings->lambda;
  if (settings->scrub) RDT_TRY(rdt_scrub_of(settings->scrub, &policy.scrub_every, &s->why));
  if (settings->suspect_rate) RDT_TRY(suspect_rate_of(settings->suspect_rate, &policy.suspect_rate, &s->why));
  if (settings->min_coverage)
    RDT_TRY(rdt_share_of("--min-coverage", settings->min_coverage, 1.0, &policy.min_coverage, &s->why));
  policy.permanent = settings->require != 0;
  policy.checkpoints = (int)settings->checkpoints;
  const bool on_gpu = settings->device && strcmp(settings->device, "cpu") != 0;
  if (policy.permanent && settings->scheme && strcmp(settings->scheme, "auto") != 0)
    return rdt_fail(&s->why, RDT_ERR_ARG, "--require permanent chooses the scheme: leave --scheme out");
  RDT_TRY(votes_where(settings, on_gpu, &s->why));
  RDT_TRY(may_keep_off(settings, on_gpu, &s->why));
  RDT_TRY(avoided(settings, cores, sizeof cores, &s->why));
  policy.avoid_cores = cores;
  rdt_status status = rdt_context_set_policy(s->ctx, &policy);
  if (status != RDT_OK) return rdt_session_fail(s, status);
  if (settings->device && (status = rdt_context_set_device(s->ctx, settings->device)) != RDT_OK)
    return rdt_session_fail(s, status);
  if (settings->avoid_sm >= 0) RDT_TRY(keep_off(s, settings->avoid_sm));
  if (settings->coverage) RDT_TRY(rdt_coverage_read(s->ctx, settings->coverage, &s->why));
  RDT_TRY(keep_names(s, &settings->inputs));
  return keep_names(s, &settings->input_shapes);
}

/* One that is damaged, foreign or stale is as good as none: it is only there to save time. */
void rdt_session_cache(rdt_session *s, const rdt_settings *settings) {
  if (settings->plan || settings->no_cache || rdt_context_read_plans(s->ctx, NULL) == RDT_OK) return;
  rdt_fail(&s->cache, RDT_OK, "%s", rdt_context_error(s->ctx));
}

rdt_status rdt_session_watch(rdt_session *s, const rdt_settings *settings) {
  if (settings->plan) {
    const rdt_status status = rdt_context_read_plans(s->ctx, settings->plan);
    if (status != RDT_OK) return rdt_session_fail(s, status);
  }
  RDT_TRY(watch(s, settings));
  rdt_prom_watch(&s->prom, s->ctx);
  rdt_context_on_event(s->ctx, take_event, s);
  return RDT_OK;
}

rdt_status rdt_session_fits(rdt_session *s, const rdt_settings *settings) {
  rdt_survey survey;
  rdt_planned planned = {.all = 0};
  if (!settings->plan) return RDT_OK;
  const rdt_status status = rdt_model_survey(s->model, s->inputs, s->n_inputs, &survey);
  if (status == RDT_OK) planned = rdt_survey_planned(s->ctx, &survey);
  rdt_survey_free(&survey);
  if (status != RDT_OK) return rdt_session_fail(s, status);
  RDT_TRY(rdt_planned_fits(&planned, settings->plan, &s->why));
  if (planned.known < planned.all && !settings->quiet)
    fprintf(stderr, "redoubt: %s knows %lld of %lld products and convolutions; estimates choose for the others\n",
            settings->plan, (long long)planned.known, (long long)planned.all);
  if (planned.taken < planned.known && !settings->quiet)
    fprintf(stderr,
            "redoubt: %s: %lld of its %lld choices (%s, say) are not taken: other protection is asked for here\n",
            settings->plan, (long long)(planned.known - planned.taken), (long long)planned.known, planned.other);
  return RDT_OK;
}

rdt_status rdt_session_open(rdt_session *s, const rdt_settings *settings, rdt_inputs_kind kind) {
  RDT_TRY(rdt_session_begin(s, settings));
  RDT_TRY(rdt_session_watch(s, settings));
  RDT_TRY(rdt_session_load(s, settings));
  RDT_TRY(rdt_session_inputs(s, settings, kind));
  s->told = false; /* from here on there is something to count, even if it is nothing */
  return rdt_prom_write(&s->prom, &s->why);
}

rdt_status rdt_session_run(rdt_session *s, const rdt_tensor *inputs, rdt_run_result *result) {
  if (rdt_signals_caught()) return RDT_ERR_CANCELLED;
  const rdt_status status = rdt_model_run(s->model, inputs, s->n_inputs, result);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return rdt_session_fail(s, status);
  if (result->verdict > s->worst) s->worst = result->verdict;
  s->runs++;
  rdt_prom_run(&s->prom, result);
  return status;
}

rdt_status rdt_session_tell(rdt_session *s) {
  s->told = true;
  rdt_journal_sum(&s->journal, s->runs, s->faults, s->worst);
  const rdt_status status = rdt_prom_write(&s->prom, &s->why);
  if (status != RDT_OK || s->journal.status == RDT_OK) return status;
  return rdt_fail(&s->why, s->journal.status, "%s", s->journal.why.text);
}

void rdt_session_close(rdt_session *s) {
  rdt_signals_default();
  if (!s->told) (void)!rdt_session_tell(s);
  rdt_journal_close(&s->journal);
  rdt_prom_close(&s->prom);
  rdt_session_forget(s);
  for (size_t i = 0; i < s->n_named; i++) rdt_free(s->named[i]);
  rdt_free(s->named);
  rdt_report_destroy(s->report);
  rdt_model_free(s->model);
  rdt_context_destroy(s->ctx);
}

rdt_status rdt_json_print(const cJSON *doc, rdt_reason *why) {
  char *text = cJSON_Print(doc);
  if (!text) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing a report");
  puts(text);
  cJSON_free(text);
  return RDT_OK;
}

int rdt_document_print(const rdt_command *c, cJSON *doc) {
  rdt_reason why = {""};
  const rdt_status status = rdt_json_print(doc, &why);
  cJSON_Delete(doc);
  return status == RDT_OK ? RDT_EXIT_OK : rdt_cli_fail(c, status, why.text);
}
