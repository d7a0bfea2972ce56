#include "product.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/file.h"
#include "progress.h"
#include "report/journal.h"
#include "report/spans.h"
#include "report/trace.h"

enum { MOST_EVENTS = 64 };

size_t rdt_bytes_of(const char *text) {
  static const char units[] = "kMGT";
  char *end;
  double x = strtod(text, &end);
  const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;
  if (end == text || !(x > 0.0)) return 0;
  if (unit) {
    for (int i = 0; i <= (int)(unit - units); i++) x *= 1000.0;
    end++;
  }
  if (*end == 'B' && unit) end++;
  return *end || !(x >= 1.0 && x < 0x1p62) ? 0 : (size_t)x;
}

const char *rdt_bytes_text(double bytes, char *buf, size_t size) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  int i = 0;
  for (; bytes >= 1000.0 && i < 5; i++) bytes /= 1000.0;
  snprintf(buf, size, i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
  return buf;
}

static void take_event(const rdt_event *e, void *user) {
  rdt_product_run *r = user;
  if (r->aloud) {
    rdt_progress_end();
    printf("  event: %s\n", e->text);
  }
  if (!r->events || cJSON_GetArraySize(r->events) >= MOST_EVENTS) return;
  struct timespec now;
  cJSON *o = cJSON_CreateObject();
  clock_gettime(CLOCK_REALTIME, &now);
  cJSON_AddNumberToObject(o, "run", 1);
  rdt_json_time(o, &now);
  rdt_event_json(o, e);
  cJSON_AddItemToArray(r->events, o);
}

static rdt_status refuse_strategy(const char *text, rdt_reason *why) {
  char names[128] = "auto";
  for (int s = 0, n = 4; s < RDT_STRATEGY_COUNT; s++)
    n += snprintf(names + n, sizeof names - (size_t)n, ", %s", rdt_strategy_info((rdt_strategy)s)->name);
  return rdt_fail(why, RDT_ERR_ARG, "--strategy takes one of %s, not '%s'", names, text);
}

static rdt_status set_job(rdt_product_run *r, const rdt_settings *s) {
  rdt_matmul_job *j = &r->job;
  const char *strategy = s->strategy ? s->strategy : "auto";
  const bool automatic = strcmp(strategy, "auto") == 0;
  *j = (rdt_matmul_job){.device = s->device,
                        .mem_limit = s->mem_limit ? rdt_bytes_of(s->mem_limit) : 0,
                        .strategy = automatic ? RDT_STRATEGY_AUTO : rdt_strategy_find(strategy),
                        .protected = s->unprotected == 0,
                        .strassen = s->strassen == 1,
                        .recompute = s->on_fault == 1,
                        .resume = s->resume,
                        .verify = s->verify};
  if (s->mem_limit && j->mem_limit == 0)
    return rdt_fail(&r->why, RDT_ERR_ARG, "--mem-limit takes bytes, as in 512M or 10G, not '%s'", s->mem_limit);
  if (!automatic && j->strategy == RDT_STRATEGY_COUNT) return refuse_strategy(strategy, &r->why);
  j->plant = (rdt_matmul_plant){.count = s->errors,
                                .scattered = s->scattered,
                                .site = RDT_SITE_ACCUM,
                                .seed = s->seed >= 0 ? (uint64_t)s->seed : 1};
  return RDT_OK;
}

rdt_status rdt_product_open(rdt_product_run *r, const rdt_settings *s) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  r->settings = s;
  RDT_TRY(set_job(r, s));
  RDT_TRY(rdt_context_open(&r->ctx, (int)s->threads, &r->why));
  rdt_signals_watch(r->ctx);
  if (s->lambda > 0.0) policy.lambda = s->lambda;
  rdt_context_on_event(r->ctx, take_event, r);
  if (rdt_context_set_policy(r->ctx, &policy) == RDT_OK) return RDT_OK;
  return rdt_fail(&r->why, RDT_ERR_ARG, "%s", rdt_context_error(r->ctx));
}

static void forget(rdt_product_run *r) {
  rdt_timeline_clear(&r->measured);
  rdt_timeline_clear(&r->predicted);
  rdt_timeline_clear(&r->best);
}

void rdt_product_close(rdt_product_run *r) {
  rdt_signals_default();
  forget(r);
  rdt_context_destroy(r->ctx);
  r->ctx = NULL;
}

static void show(void *user, double part, double gflops) {
  (void)user;
  rdt_progress(part, "%.1f GFLOP/s", gflops);
}

/* An operand, the result, or what lies beside it. */
static bool is_taken(const rdt_product_run *r, const char *path) {
  static const char *const ends[] = {"", ".sums", ".part", ".part.sums"};
  bool taken = rdt_same_file(path, r->job.a) || rdt_same_file(path, r->job.b);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    char name[4096];
    snprintf(name, sizeof name, "%s%s", r->job.c, ends[i]);
    taken = taken || rdt_same_file(path, name);
  }
  return taken;
}

/* What is written is known to be writable, and to be nothing else, before anything is computed. */
static rdt_status spare(rdt_product_run *r) {
  const rdt_settings *s = r->settings;
  const char *const paths[] = {s->report, s->trace, s->timeline}, *const names[] = {"report", "trace", "timeline"};
  for (int i = 0; i < 3; i++) {
    if (!paths[i]) continue;
    if (is_taken(r, paths[i]))
      return rdt_fail(&r->why, RDT_ERR_ARG, "--%s %s: is an operand, the result or beside it; write to another file",
                      names[i], paths[i]);
    for (int k = 0; k < i; k++)
      if (rdt_same_file(paths[i], paths[k]))
        return rdt_fail(&r->why, RDT_ERR_ARG, "--%s %s: is what --%s writes; write to another file", names[i], paths[i],
                        names[k]);
    RDT_TRY(rdt_file_try(paths[i], &r->why));
  }
  return RDT_OK;
}

rdt_status rdt_product_go(rdt_product_run *r) {
  const rdt_settings *s = r->settings;
  RDT_TRY(spare(r));
  if (rdt_progress_begin(s, "multiplying")) r->job.progress = show;
  forget(r);
  const bool asked = s->trace || s->timeline || s->figures;
  r->job.measured = asked ? &r->measured : NULL;
  r->job.predicted = asked ? &r->predicted : NULL;
  r->job.best = asked ? &r->best : NULL;
  r->status = rdt_matmul(r->ctx, &r->job, &r->result, &r->why);
  rdt_progress_end();
  const bool done = r->status == RDT_OK || r->status == RDT_ERR_FAULT;
  if (done && r->result.planted < r->job.plant.count && !s->quiet)
    fprintf(stderr,
            "redoubt: --errors %" PRId64 ": %" PRId64
            " planted, the block that is hit has no room for more in a line, or was finished before\n",
            r->job.plant.count, r->result.planted);
  return r->status == RDT_ERR_FAULT ? RDT_OK : r->status;
}

void rdt_product_tell_lost(const rdt_product_run *r) {
  const rdt_timeline *t = &r->measured;
  if (t->lost == 0 || r->settings->quiet) return;
  fprintf(stderr,
          "redoubt: within --mem-limit the first %" PRId64 " of %" PRId64
          " spans were kept to be drawn: a larger limit keeps more\n",
          t->n, t->n + t->lost);
}

rdt_status rdt_product_draw(rdt_product_run *r) {
  const rdt_settings *s = r->settings;
  rdt_product_tell_lost(r);
  const rdt_matmul_result *x = &r->result;
  char name[2][64], text[256], bytes[32];
  const char *strategy = rdt_strategy_info(x->splits.strategy)->name;
  snprintf(name[0], sizeof name[0], "measured: %.3f s", x->seconds);
  snprintf(name[1], sizeof name[1], "predicted: %.3f s", x->forecast.seconds);
  const rdt_spans spans[2] = {{name[0], &r->measured}, {name[1], &r->predicted}};
  if (s->trace) {
    cJSON *trace = rdt_trace_create();
    for (int i = 0; i < 2; i++) rdt_spans_trace(trace, i + 1, &spans[i]);
    const rdt_status status = rdt_json_write(trace, s->trace, &r->why);
    cJSON_Delete(trace);
    RDT_TRY(status);
  }
  if (!s->timeline) return RDT_OK;
  snprintf(text, sizeof text,
           "%" PRId64 " x %" PRId64 " times %" PRId64 " x %" PRId64 " of %s on %s within %s: %s, blocks of %" PRId64
           " x %" PRId64 ", %" PRId64 " of the reduction",
           x->task.m, x->task.k, x->task.k, x->task.n, rdt_dtype_name(x->task.in), x->device,
           rdt_bytes_text((double)x->limit, bytes, sizeof bytes), strategy, x->splits.m, x->splits.n, x->splits.k);
  return rdt_spans_write(spans, 2, "A product by blocks", text, s->timeline, &r->why);
}

static void add_list(cJSON *o, const char *name, int64_t a, int64_t b, int64_t c) {
  const double list[3] = {(double)a, (double)b, (double)c};
  cJSON_AddItemToObject(o, name, cJSON_CreateDoubleArray(list, 3));
}

void rdt_product_json(const rdt_product_run *r, cJSON *o) {
  const rdt_matmul_result *x = &r->result;
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"threads", x->task.threads},
                 {"mem_limit", (double)x->limit},
                 {"buffers", (double)x->buffers},
                 {"beside", (double)x->beside},
                 {"taken", x->peak},
                 {"resumed", (double)x->resumed},
                 {"predicted_seconds", x->forecast.seconds},
                 {"predicted_best_seconds", x->forecast.best},
                 {"seconds", x->seconds},
                 {"load_seconds", x->load_seconds},
                 {"store_seconds", x->store_seconds},
                 {"compute_seconds", x->busy_seconds},
                 {"fill_seconds", x->phases.fill},
                 {"product_seconds", x->phases.products},
                 {"load_wait_seconds", x->phases.loads},
                 {"place_wait_seconds", x->phases.places},
                 {"check_seconds", x->phases.checks},
                 {"drain_seconds", x->phases.drain},
                 {"load_bytes", x->load_bytes},
                 {"store_bytes", x->store_bytes},
                 {"flops", x->flops},
                 {"gflops", x->seconds > 0.0 ? 1e-9 * x->flops / x->seconds : NAN},
                 {"flops_per_byte", x->flops / (x->load_bytes + x->store_bytes)},
                 {"checks", (double)x->checks},
                 {"suspects", (double)x->suspects},
                 {"faults", (double)x->faults},
                 {"unchecked", (double)x->unchecked},
                 {"planted", (double)x->planted},
                 {"rebuilt_elements", (double)x->rebuilt},
                 {"recomputed_blocks", (double)x->recomputed},
                 {"ratio", x->ratio},
                 {"floor", x->floor},
                 {"corrected_bound", x->bound}};
  cJSON_AddStringToObject(o, "dtype", rdt_dtype_name(x->task.in));
  cJSON_AddStringToObject(o, "dtype_out", rdt_dtype_name(x->task.out));
  add_list(o, "mnk", x->task.m, x->task.n, x->task.k);
  cJSON_AddStringToObject(o, "device", x->device);
  cJSON_AddStringToObject(o, "scheme", x->task.protected ? "rowcol" : "none");
  cJSON_AddStringToObject(o, "strategy", rdt_strategy_info(x->splits.strategy)->name);
  cJSON_AddStringToObject(o, "algo", x->task.strassen ? "strassen" : "plain");
  add_list(o, "block", x->splits.m, x->splits.n, x->splits.k);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) rdt_json_number(o, numbers[i].name, numbers[i].value);
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(x->verdict));
}
