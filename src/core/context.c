#include "core/context.h"

#include <string.h>
#include <time.h>

#include "core/memory.h"
#include "core/team.h"

/* OpenMP keeps the state of a team on the stack of its first thread: tens of thousands of threads overflow it. */
enum { MOST_THREADS = 1024 };

rdt_status rdt_context_open(rdt_context **out, int threads, rdt_reason *why) {
  const int wanted = threads > 0 ? threads : rdt_cpu_count(), n = wanted < MOST_THREADS ? wanted : MOST_THREADS;
  *out = NULL;
  RDT_TRY(rdt_team_try(n, why));
  rdt_context *ctx = rdt_calloc(1, sizeof *ctx);
  if (!ctx) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  *out = ctx;
  ctx->threads = n;
  ctx->all_cores = threads <= 0;
  ctx->isa = rdt_isa_detect();
  ctx->policy = (rdt_policy)RDT_POLICY_DEFAULT;
  strcpy(ctx->scheme, ctx->policy.scheme);
  ctx->policy.scheme = ctx->scheme;
  return RDT_OK;
}

rdt_status rdt_context_create(rdt_context **out, int threads) {
  return rdt_context_open(out, threads, NULL);
}

void rdt_context_destroy(rdt_context *ctx) {
  if (!ctx) return;
  for (int i = 0; i < RDT_SCRATCH_COUNT; i++) rdt_free(ctx->scratch.data[i]);
  rdt_cores_clear(&ctx->cores);
  rdt_cores_clear(&ctx->sms);
  if (ctx->book) ctx->drop_book(ctx->book);
  if (ctx->machine) ctx->drop_machine(ctx->machine);
  rdt_free(ctx->coverage);
  rdt_free(ctx);
}

const char *rdt_context_device(const rdt_context *ctx) {
  return *ctx->device_name ? ctx->device_name : "cpu";
}

void rdt_context_on_event(rdt_context *ctx, rdt_event_fn fn, void *user) {
  ctx->on_event = fn;
  ctx->on_event_user = user;
}

void rdt_context_cancel(rdt_context *ctx) {
  atomic_store(&ctx->cancelled, 1);
}

const char *rdt_context_error(const rdt_context *ctx) {
  return ctx->error.text;
}

int rdt_context_threads(const rdt_context *ctx) {
  return ctx->threads;
}

const char *rdt_context_isa(const rdt_context *ctx) {
  return rdt_isa_name(ctx->isa);
}

static bool is_used(const rdt_core_info *c) {
  int64_t events = c->products + c->suspects;
  for (int i = 0; i < RDT_DIAG_COUNT; i++) events += c->faults[i];
  return events > 0;
}

static size_t used(const rdt_cores *c, rdt_core_info *list, size_t room) {
  size_t n = 0;
  for (int i = 0; i < c->n; i++) {
    if (!is_used(&c->list[i])) continue;
    if (n < room) list[n] = c->list[i];
    n++;
  }
  return n;
}

size_t rdt_context_cores(const rdt_context *ctx, rdt_core_info *list, size_t room) {
  return used(&ctx->cores, list, room);
}

size_t rdt_context_multiprocessors(const rdt_context *ctx, rdt_core_info *list, size_t room) {
  return used(&ctx->sms, list, room);
}

void *rdt_context_scratch(rdt_context *ctx, rdt_scratch which, size_t bytes) {
  void **data = &ctx->scratch.data[which];
  if (*data && ctx->scratch.bytes[which] >= bytes) return *data;
  rdt_free(*data);
  *data = rdt_alloc(bytes, 1);
  ctx->scratch.bytes[which] = *data ? bytes : 0;
  return *data;
}

rdt_scratch_set rdt_context_scratch_push(rdt_context *ctx) {
  const rdt_scratch_set saved = ctx->scratch;
  ctx->scratch = (rdt_scratch_set){{NULL}, {0}};
  return saved;
}

void rdt_context_scratch_pop(rdt_context *ctx, const rdt_scratch_set *saved) {
  for (int i = 0; i < RDT_SCRATCH_COUNT; i++) rdt_free(ctx->scratch.data[i]);
  ctx->scratch = *saved;
}

void rdt_context_emit(const rdt_context *ctx, const rdt_event *e) {
  if (ctx->on_event) ctx->on_event(e, ctx->on_event_user);
}

double rdt_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
