#include "gpu_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/context.h"
#include "core/file.h"
#include "core/memory.h"
#include "cuda/kernel.h"
#include "gpu_report.h"
#include "plan/cache.h"
#include "plan/sealed_json.h"
#include "progress.h"

enum { MEASURED, MODEL };          /* the words of --policy */
enum { OF_NO_THREADS = 1 };        /* books of a GPU are not of a number of threads */
static const double between = 5.0; /* seconds from one writing of the cache to the next, at least */

typedef struct job {
  const rdt_settings *settings;
  rdt_session session;
  rdt_products products;
  rdt_track track;
  rdt_book *book;
  rdt_gpu_report report;
  char cache[4096]; /* "": none */
  double written;   /* when */
  cJSON *doc;
  double most; /* overhead, above which a network is named */
  int measured;
} job;

/* What would be passed over in silence otherwise, or be seen when minutes have been measured. */
static rdt_status check_words(const rdt_settings *s, rdt_reason *why) {
  if (s->operand)
    return rdt_fail(
        why, RDT_ERR_UNSUPPORTED,
        "on a GPU plans are of a --workload; for %.200s `redoubt run --device %.40s` chooses by itself, when "
        "it loads it",
        s->operand, s->device);
  if (!s->workload) return rdt_fail(why, RDT_ERR_ARG, "name a --workload: `redoubt list workloads`, or all");
  if (s->input_shapes.count || s->inputs.count)
    return rdt_fail(why, RDT_ERR_ARG, "a --workload has no inputs: its batch is in its name, as in %.60s:8",
                    s->workload);
  if (s->require || s->checkpoints)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s: plans of a GPU are of one copy of a product; `redoubt run --device %.40s` has three of them",
                    s->require ? "--require permanent" : "--checkpoints", s->device);
  return s->out ? rdt_file_try(s->out, why) : RDT_OK;
}

static bool plans_with(const rdt_scheme_info *scheme) {
  int n;
  const rdt_cuda_kernel *k = rdt_cuda_kernels(&n);
  bool there = n == 0; /* built without CUDA: no plan is made */
  for (int i = 0; i < n && !there; i++)
    there = strcmp(k[i].scheme, scheme->name) == 0 && rdt_cuda_kernel_competes(&k[i]);
  return there && scheme->id != RDT_SCHEME_GLOBAL_CLASSIC;
}

/* A scheme that no kernel of a product has would give way to another in silence. */
static rdt_status check_scheme(const rdt_settings *s, rdt_reason *why) {
  int n, sets = 1;
  char names[200] = "";
  const rdt_scheme_info *table = rdt_scheme_table(&n), *wanted = s->scheme ? rdt_scheme_parse(s->scheme, &sets) : NULL;
  if (!wanted) return RDT_OK; /* auto; of what is none the session tells */
  if (sets > 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "--scheme %.40s: plans of a GPU measure one check of a line, not %d",
                    s->scheme, sets);
  if (plans_with(wanted)) return RDT_OK;
  for (int i = 0; i < n; i++) {
    const size_t at = strlen(names);
    if (plans_with(&table[i])) snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", table[i].name);
  }
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "--scheme %.40s: no kernel of a GPU can be planned with it; %s can",
                  s->scheme, names);
}

/* One file for each kind of GPU, driver, library and protocol. */
static rdt_status cache_of(job *j, rdt_reason *why) {
  char name[128];
  uint64_t sum = 14695981039346656037u;
  const rdt_track *t = &j->track;
  for (const char *c = t->name; *c; c++) sum = (sum ^ (unsigned char)*c) * 1099511628211u;
  sum = (sum ^ (uint64_t)t->driver) * 1099511628211u;
  sum = (sum ^ (uint64_t)t->library) * 1099511628211u;
  snprintf(name, sizeof name, "plan-gpu-%08x-%s.json", (unsigned)(sum ^ (sum >> 32)),
           rdt_protocol_name(j->report.protocol));
  return rdt_cache_path(name, j->cache, sizeof j->cache, why);
}

/* One that is damaged, foreign or stale is as good as none; that there is none yet is nothing to tell. */
static void read_cache(job *j) {
  const bool there = access(j->cache, F_OK) == 0;
  if (rdt_book_read(j->cache, OF_NO_THREADS, &j->book, there ? &j->session.cache : NULL) != RDT_OK) j->book = NULL;
}

static rdt_status open_job(job *j) {
  const rdt_settings *s = j->settings;
  rdt_reason *why = &j->session.why;
  int device;
  j->most = 0.05;
  RDT_TRY(check_words(s, why));
  if (s->max_overhead) RDT_TRY(rdt_share_of("--max-overhead", s->max_overhead, INFINITY, &j->most, why));
  RDT_TRY(rdt_products_of(s->workload, s->dtype < 0 ? RDT_F16 : rdt_options_dtype(s), &j->products, why));
  RDT_TRY(check_scheme(s, why));
  RDT_TRY(rdt_device_index(s->device, &device, why));
  RDT_TRY(rdt_session_begin(&j->session, s));
  RDT_TRY(rdt_session_spare(&j->session, s, s->out));
  RDT_TRY(rdt_track_open(device, j->products.dtype, j->session.ctx->policy.lambda, &j->track, why));
  j->report = (rdt_gpu_report){.products = &j->products,
                               .track = &j->track,
                               .demand = rdt_demand_of(j->session.ctx, j->session.ctx->scheme),
                               .protocol = s->protocol > 0 ? RDT_PROTOCOL_PAPER : RDT_PROTOCOL_QUICK,
                               .model = s->policy == MODEL};
  if (!s->no_cache && cache_of(j, &j->session.cache) != RDT_OK) *j->cache = '\0';
  if (*j->cache) read_cache(j);
  if (!j->book) j->book = rdt_calloc(1, sizeof *j->book);
  return j->book ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

/* A killed run goes on where this was written last: whole or not at all. It is there to save time: where it cannot be
 * written, what was measured counts all the same. */
static rdt_status save(const rdt_book *b, void *user, rdt_reason *why) {
  job *j = user;
  rdt_reason reason = {""};
  (void)why;
  if (!*j->cache || j->report.model || rdt_timing_now() - j->written < between) return RDT_OK;
  if (rdt_cache_merge(j->cache, OF_NO_THREADS, b, &reason) != RDT_OK) {
    fprintf(stderr, "redoubt plan: the cache was not written: %s\n", reason.text);
    *j->cache = '\0';
  }
  j->written = rdt_timing_now();
  return RDT_OK;
}

static rdt_status measure(job *j) {
  rdt_reason *why = &j->session.why;
  rdt_track *t = &j->track;
  const rdt_products_watch watch = {.how = {.protocol = j->report.protocol, .progress = rdt_bench_show},
                                    .save = save,
                                    .user = j,
                                    .anew = j->settings->measure,
                                    .list = j->report.model};
  j->written = rdt_timing_now();
  t->clock(t->user, &j->report.mhz[0], &j->report.celsius[0]);
  rdt_progress_begin(j->settings, "measuring");
  rdt_status s = rdt_products_measure(&j->products, t, &watch, j->book, &j->measured, &j->report.complaints, why);
  rdt_progress_end();
  t->clock(t->user, &j->report.mhz[1], &j->report.celsius[1]);
  j->written = -INFINITY; /* whatever came of it: what was measured is kept */
  if (j->measured > 0) save(j->book, j, NULL);
  return s;
}

static rdt_status plan(job *j) {
  rdt_reason *why = &j->session.why;
  RDT_TRY(open_job(j));
  RDT_TRY(measure(j));
  if (rdt_signals_caught()) return RDT_ERR_CANCELLED;
  RDT_TRY(rdt_gpu_report_make(&j->report, &j->doc, why));
  if (!j->settings->out) return RDT_OK;
  char *text = cJSON_PrintUnformatted(j->doc);
  if (!text) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: out of memory while it was written", j->settings->out);
  const rdt_status s = rdt_file_write(j->settings->out, text, strlen(text), "\n", 1, why);
  cJSON_free(text);
  return s;
}

/* false: some network takes more than it may. */
static bool say(job *j, rdt_status *status) {
  const rdt_settings *s = j->settings;
  char names[512];
  if (s->format == RDT_FORMAT_JSON)
    *status = rdt_json_print(j->doc, &j->session.why);
  else if (!s->quiet && !rdt_gpu_report_print(j->doc, s->format, j->products.n_networks == 1 || s->explain))
    *status = rdt_fail(&j->session.why, RDT_ERR_NOMEM, "out of memory while writing the table");
  if (*j->session.cache.text && !s->quiet)
    fprintf(stderr, "redoubt plan: the cache was not used: %s\n", j->session.cache.text);
  rdt_gpu_report_over(j->doc, j->most, names, sizeof names);
  if (*names && s->max_overhead && !s->quiet)
    fprintf(stderr, "redoubt plan: protection takes more than %.3g %% of the unprotected time in %s\n", 100.0 * j->most,
            names);
  if (j->report.complaints && !s->quiet)
    fprintf(stderr, "redoubt plan: %u checks complained of clean data: `redoubt screen --device %s`\n",
            j->report.complaints, s->device);
  return !(*names && s->max_overhead) && !j->report.complaints;
}

int rdt_gpu_plan(const rdt_command *c, const rdt_settings *settings) {
  job j = {.settings = settings, .session = {.told = true}};
  rdt_status status = plan(&j);
  bool good = true;
  if (status == RDT_OK) good = say(&j, &status);
  const int code = status != RDT_OK ? rdt_cli_fail(c, status, j.session.why.text) : good ? RDT_EXIT_OK : RDT_EXIT_FAULT;
  cJSON_Delete(j.doc);
  rdt_book_free(j.book);
  rdt_track_close(&j.track);
  rdt_products_free(&j.products);
  rdt_session_close(&j.session);
  return code;
}
