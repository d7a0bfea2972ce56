#include "outofcore/matmul.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/problem.h"
#include "outofcore/pipeline.h"
#include "outofcore/probe.h"

/* Names beside the result. */
typedef struct names {
  char *part, *part_sums, *sums;
} names;

/* A device's share: the same task and blocks, buffers of its own. */
typedef struct share {
  rdt_task task;
  rdt_arrangement where; /* done: what others compute is, too */
  char *memory[RDT_MEMORIES];
  rdt_matmul_result result;
  rdt_pipeline_job job;
  rdt_status status;
  rdt_reason why;
} share;

typedef struct state {
  rdt_context *ctx;
  const rdt_matmul_job *job;
  rdt_matmul_result *r;
  names names;
  rdt_matrix a, b, c;
  int ledger;
  rdt_ledger_head head;
  rdt_devices devices;
  share share[RDT_MOST_DEVICES];
  bool published; /* a crash came between the two last renames */
} state;

static char *beside(const char *path, const char *end) {
  const size_t n = strlen(path), more = strlen(end) + 1;
  char *s = rdt_alloc(n + more, 1);
  if (!s) return NULL;
  memcpy(s, path, n);
  memcpy(s + n, end, more);
  return s;
}

static rdt_status make_names(const char *c, names *n, rdt_reason *why) {
  n->part = beside(c, ".part");
  n->part_sums = beside(c, ".part.sums");
  n->sums = beside(c, ".sums");
  return n->part && n->part_sums && n->sums ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

static void drop_names(names *n) {
  rdt_free(n->part);
  rdt_free(n->part_sums);
  rdt_free(n->sums);
}

static bool exists(const char *path) {
  struct stat st;
  return stat(path, &st) == 0;
}

/* ---- what is asked for ---- */

static rdt_status not_input(const rdt_matrix *in, const char *path, rdt_reason *why) {
  struct stat a, b;
  if (stat(path, &b) != 0 || fstat(in->fd, &a) != 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "%.200s: the result would be written over the operand %.200s; take another name",
                  path, in->path);
}

static rdt_status open_operands(state *s, rdt_reason *why) {
  RDT_TRY(rdt_matrix_open(s->job->a, &s->a, why));
  RDT_TRY(rdt_matrix_open(s->job->b, &s->b, why));
  const rdt_matrix *const in[2] = {&s->a, &s->b};
  for (int x = 0; x < 2; x++) {
    const char *const written[] = {s->job->c, s->names.part, s->names.sums, s->names.part_sums};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) RDT_TRY(not_input(in[x], written[i], why));
  }
  if (s->a.cols != s->b.rows)
    return rdt_fail(why, RDT_ERR_SHAPE,
                    "A is %" PRId64 " x %" PRId64 ", B is %" PRId64 " x %" PRId64
                    ": A must have as many columns as B has rows",
                    s->a.rows, s->a.cols, s->b.rows, s->b.cols);
  if (s->a.dtype != s->b.dtype)
    return rdt_fail(why, RDT_ERR_DTYPE, "A is of %s, B of %s: convert one of them with astype",
                    rdt_dtype_name(s->a.dtype), rdt_dtype_name(s->b.dtype));
  if (s->job->strassen && rdt_dtype_is_half(s->a.dtype))
    return rdt_fail(
        why, RDT_ERR_DTYPE,
        "--algo strassen takes f32 and f64: sums of blocks of %s would be rounded before they are multiplied",
        rdt_dtype_name(s->a.dtype));
  if (s->a.rows < 1 || s->a.cols < 1 || s->b.cols < 1)
    return rdt_fail(why, RDT_ERR_SHAPE,
                    "A is %" PRId64 " x %" PRId64 ", B is %" PRId64 " x %" PRId64 ": there is nothing to multiply",
                    s->a.rows, s->a.cols, s->b.rows, s->b.cols);
  if (s->a.rows > INT64_MAX / 16 / s->b.cols)
    return rdt_fail(why, RDT_ERR_SHAPE,
                    "A is %" PRId64 " x %" PRId64 ", B is %" PRId64 " x %" PRId64
                    ": their product has more bytes than a file can have",
                    s->a.rows, s->a.cols, s->b.rows, s->b.cols);
  return RDT_OK;
}

static rdt_status set_task(state *s, rdt_reason *why) {
  rdt_task *t = &s->r->task;
  char *device = s->r->device;
  double most = INFINITY;
  RDT_TRY(rdt_devices_of(s->job->device ? s->job->device : "cpu", &s->devices, why));
  const int n = s->devices.n;
  *t = (rdt_task){.ctx = s->ctx,
                  .on = s->devices.on,
                  .m = s->a.rows,
                  .n = s->b.cols,
                  .k = s->a.cols,
                  .in = s->a.dtype,
                  .out = rdt_dtype_accumulator(s->a.dtype),
                  .fortran = {s->a.fortran, s->b.fortran},
                  .protected = s->job->protected,
                  .strassen = s->job->strassen,
                  .threads = s->ctx->threads > n ? s->ctx->threads / n : 1,
                  .devices = n};
  for (int i = 0; i < n; i++) {
    rdt_task *own = &s->share[i].task;
    device += sprintf(device, "%s%s", i > 0 ? "," : "", s->devices.name[i]);
    *own = *t;
    RDT_TRY(t->on->open(s->devices.name[i], t->in, t->threads, &own->dev, why));
    most = fmin(most, t->on->available(own->dev));
  }
  t->dev = s->share[0].task.dev; /* what is measured is measured there */
  if (t->on->far) {
    rdt_matrix_map_read(&s->a);
    rdt_matrix_map_read(&s->b);
  }
  s->r->limit = s->job->mem_limit;
  if (s->r->limit == 0) s->r->limit = isfinite(most) ? (size_t)(most / 2.0 / n) : (size_t)1 << 30;
  return RDT_OK;
}

/* ---- what is there already ---- */

static void set_head(state *s) {
  const rdt_task *t = &s->r->task;
  s->head = (rdt_ledger_head){.dtype = t->out,
                              .m = t->m,
                              .n = t->n,
                              .k = t->k,
                              .splits = s->r->splits,
                              .protected = t->protected,
                              .strassen = t->strassen,
                              .from = {rdt_ledger_file_of(&s->a), rdt_ledger_file_of(&s->b)}};
}

static rdt_status same_product(const state *s, const rdt_ledger_head *was, rdt_reason *why) {
  const rdt_ledger_head *now = &s->head;
  const char *what = NULL;
  for (int x = 0; x < 2; x++)
    if (was->from[x].bytes != now->from[x].bytes || was->from[x].modified != now->from[x].modified)
      what = x == 0 ? "A has changed since" : "B has changed since";
  if (was->m != now->m || was->n != now->n || was->k != now->k || was->dtype != now->dtype)
    what = "it was of other matrices";
  if (was->protected != now->protected) what = "it had another --scheme";
  if (was->strassen != now->strassen) what = "it had another --algo";
  if (s->job->strategy != RDT_STRATEGY_AUTO && was->splits.strategy != s->job->strategy)
    what = "it had another --strategy";
  if (!what) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG, "%.200s: --resume cannot go on: %s; delete it to begin anew", s->names.part_sums,
                  what);
}

/* A block counts as finished if what lies in the file has its sum: what a power failure has lost is computed again. */
static rdt_status take_finished(void *user, const rdt_ledger_head *head, const rdt_ledger_block *b, rdt_reason *why) {
  state *s = user;
  const rdt_arrangement *where = &s->share[0].where;
  if (!where->done) return RDT_OK; /* only the head is asked for */
  const int64_t block = b->i * rdt_blocks_of(head->n, head->splits.n) + b->j;
  const rdt_part_of part = rdt_part_of_c(&s->r->task, &s->r->splits, b->i, b->j);
  uint64_t sum;
  RDT_TRY(rdt_matrix_sum(&s->c, &part, where->buffer, RDT_ARRANGED_BUFFER, &sum, why));
  if (sum != b->sum || rdt_block_is_done(where->done, block)) return RDT_OK;
  rdt_block_mark(where->done, block, true);
  s->r->resumed++;
  if (b->verdict > s->r->verdict) s->r->verdict = b->verdict;
  return RDT_OK;
}

/* For writing again. */
static rdt_status reopen(state *s, const char *path, rdt_reason *why) {
  RDT_TRY(rdt_matrix_open(path, &s->c, why));
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return rdt_file_fail(why, path, "written", errno, "");
  close(s->c.fd);
  s->c.fd = fd;
  if (s->c.dtype != s->r->task.out || s->c.rows != s->r->task.m || s->c.cols != s->r->task.n || s->c.fortran)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: is not what --resume left; delete it to begin anew", path);
  if (s->r->task.on->far) rdt_matrix_map(&s->c);
  return RDT_OK;
}

static rdt_status allocate_share(state *s, share *x, rdt_reason *why) {
  const rdt_task *t = &x->task;
  void *memory;
  RDT_TRY(rdt_arrange(t, &s->r->splits, NULL, &x->where, why));
  s->r->buffers = rdt_arranged_bytes(t, &x->where);
  s->r->beside = x->where.beside;
  if (s->r->buffers + s->r->beside > s->r->limit)
    return rdt_fail(why, RDT_ERR_NOMEM, "--mem-limit %zu is too little to go on: the plan takes %zu bytes", s->r->limit,
                    s->r->buffers + s->r->beside);
  RDT_TRY(t->on->alloc(t->dev, x->where.bytes[RDT_MEMORY_BACKEND], &memory, why));
  x->memory[RDT_MEMORY_BACKEND] = memory;
  x->memory[RDT_MEMORY_HOST] = rdt_alloc(x->where.bytes[RDT_MEMORY_HOST], 1);
  if (!x->memory[RDT_MEMORY_HOST])
    return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for %zu bytes of buffers", x->where.bytes[RDT_MEMORY_HOST]);
  return rdt_arrange(t, &s->r->splits, x->memory, &x->where, why);
}

/* Spans lie in what the plan leaves of the limit. Who draws them takes some 2 kB for each, of two lists, when the
 * buffers are given back. A GPU's limit is not about them. */
static void limit_spans(const state *s) {
  enum { LISTS = 3, DRAWN = 4096 };
  rdt_timeline *const list[LISTS] = {s->job->measured, s->job->predicted, s->job->best};
  const size_t limit = s->r->limit, left = limit - s->r->buffers - s->r->beside;
  const size_t kept = left / LISTS / sizeof(rdt_span), drawn = limit / DRAWN, most = kept < drawn ? kept : drawn;
  for (int i = 0; i < LISTS; i++) {
    if (!list[i]) continue;
    list[i]->most = most > RDT_TIMELINE_MOST || s->r->task.on->far ? RDT_TIMELINE_MOST : (int64_t)most;
    if (list[i]->most < RDT_TIMELINE_LEAST) list[i]->most = RDT_TIMELINE_LEAST;
  }
}

static int64_t blocks_of(const state *s) {
  return rdt_blocks_of(s->r->task.m, s->r->splits.m) * rdt_blocks_of(s->r->task.n, s->r->splits.n);
}

static rdt_status allocate(state *s, rdt_reason *why) {
  for (int i = 0; i < s->devices.n; i++) RDT_TRY(allocate_share(s, &s->share[i], why));
  memset(s->share[0].where.done, 0, (size_t)(blocks_of(s) + 7) / 8);
  return RDT_OK;
}

/* The result has its name already, and the list does not: then nothing is left to compute. What else lies there is an
 * older product, which nobody writes over. */
static rdt_status is_whole(const state *s, rdt_reason *why) {
  if (!s->published || s->r->resumed == blocks_of(s)) return RDT_OK;
  return rdt_fail(
      why, RDT_ERR_ARG,
      "%.200s: --resume cannot go on: %.200s is gone, and what lies at %.200s is not what it became; delete "
      "the list to begin anew",
      s->names.part_sums, s->names.part, s->job->c);
}

static rdt_status go_on(state *s, rdt_reason *why) {
  rdt_ledger_head was;
  int64_t whole;
  RDT_TRY(rdt_ledger_read(s->names.part_sums, &was, take_finished, s, &whole, why));
  set_head(s);
  RDT_TRY(same_product(s, &was, why));
  s->r->splits = s->head.splits = was.splits;
  RDT_TRY(rdt_rates_measure(&s->r->task, &s->a, NULL, s->r->limit / 2, &s->r->rates, why));
  RDT_TRY(allocate(s, why));
  s->published = !exists(s->names.part);
  if (s->published && !exists(s->job->c)) return is_whole(s, why);
  RDT_TRY(reopen(s, s->published ? s->job->c : s->names.part, why));
  RDT_TRY(rdt_ledger_read(s->names.part_sums, &was, take_finished, s, &whole, why));
  RDT_TRY(is_whole(s, why));
  if (ftruncate(s->ledger, whole) != 0 || lseek(s->ledger, 0, SEEK_END) < 0)
    return rdt_file_fail(why, s->names.part_sums, "written", errno, "");
  return RDT_OK;
}

static rdt_status begin(state *s, rdt_reason *why) {
  RDT_TRY(rdt_matrix_create(s->names.part, s->r->task.out, s->r->task.m, s->r->task.n, &s->c, why));
  if (s->r->task.on->far) rdt_matrix_map(&s->c);
  RDT_TRY(rdt_rates_measure(&s->r->task, &s->a, &s->c, s->r->limit / 2, &s->r->rates, why));
  RDT_TRY(rdt_splits_choose(&s->r->task, s->job->strategy, s->r->limit, &s->r->rates, &s->r->splits, why));
  RDT_TRY(allocate(s, why));
  set_head(s);
  return rdt_ledger_begin(s->ledger, s->names.part_sums, &s->head, why);
}

static rdt_status is_file(const char *path, rdt_reason *why) {
  struct stat st;
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_IO, "%.200s: cannot be written: it is no regular file", path);
}

/* Nothing is touched, and no list is read, before this process alone has the list. One that is empty is of a run that
 * was killed before its first line was written. */
static rdt_status begin_or_go_on(state *s, rdt_reason *why) {
  int64_t bytes;
  RDT_TRY(is_file(s->job->c, why));
  RDT_TRY(is_file(s->names.sums, why));
  RDT_TRY(rdt_ledger_lock(s->names.part_sums, &s->ledger, &bytes, why));
  if (bytes > 0 && s->job->resume) return go_on(s, why);
  if (bytes > 0)
    return rdt_fail(why, RDT_ERR_ARG,
                    "%.200s: a run that did not end has left it; --resume goes on with it, or delete it",
                    s->names.part_sums);
  const rdt_status status = begin(s, why);
  if (status != RDT_OK) unlink(s->names.part), unlink(s->names.part_sums); /* nothing of it is worth to be kept */
  return status;
}

/* ---- the end ---- */

/* Blocks of a product of operands that have changed meanwhile are of neither the old ones nor the new ones. */
static rdt_status operands_stayed(const state *s, rdt_reason *why) {
  if (s->published) return RDT_OK; /* nothing was computed */
  rdt_status status = rdt_matrix_unchanged(&s->a, why);
  if (status == RDT_OK) status = rdt_matrix_unchanged(&s->b, why);
  if (status != RDT_OK) unlink(s->names.part), unlink(s->names.part_sums);
  return status;
}

static rdt_status publish(state *s, rdt_reason *why) {
  RDT_TRY(operands_stayed(s, why));
  RDT_TRY(rdt_matrix_sync(&s->c, why));
  if (fsync(s->ledger) != 0) return rdt_file_fail(why, s->names.part_sums, "written", errno, "");
  if (!s->published && rename(s->names.part, s->job->c) != 0)
    return rdt_file_fail(why, s->job->c, "written", errno, "");
  if (rename(s->names.part_sums, s->names.sums) != 0) return rdt_file_fail(why, s->names.sums, "written", errno, "");
  return RDT_OK;
}

static rdt_status verify_result(state *s, rdt_reason *why) {
  rdt_verify_result v;
  if (!s->job->verify) return RDT_OK;
  RDT_TRY(rdt_matmul_verify(s->job->c, NULL, NULL, &v, why));
  if (v.bad == 0) return RDT_OK;
  s->r->verdict = RDT_DETECTED;
  return rdt_fail(why, RDT_ERR_FAULT,
                  "%.200s: %" PRId64 " of %" PRId64
                  " blocks are not on the disk as they were written; `redoubt verify` "
                  "names them",
                  s->job->c, v.bad, v.blocks);
}

/* ---- the pipelines ---- */

/* What is left, in pieces of one length that follow each other: they share blocks of A. To a device, what others have
 * looks done. */
static void deal(state *s) {
  const int64_t all = blocks_of(s), n = s->devices.n;
  unsigned char *first = s->share[0].where.done;
  int64_t left = 0, at = 0;
  for (int64_t b = 0; b < all; b++) left += !rdt_block_is_done(first, b);
  for (int i = 1; i < n; i++) memset(s->share[i].where.done, 0xff, (size_t)(all + 7) / 8);
  for (int64_t b = 0; b < all; b++) {
    if (rdt_block_is_done(first, b)) continue;
    const int64_t owner = at++ * n / left;
    if (owner == 0) continue;
    rdt_block_mark(first, b, true);
    rdt_block_mark(s->share[owner].where.done, b, false);
  }
}

static void tell_device(rdt_timeline *t, int64_t from, int device) {
  for (int64_t i = from; t && i < t->n; i++) t->list[i].device = device;
}

/* Each device by itself: the last one ends it. */
static void forecast(state *s) {
  rdt_forecast *f = &s->r->forecast;
  *f = (rdt_forecast){0};
  for (int i = 0; i < s->devices.n; i++) {
    rdt_forecast one;
    const int64_t at[2] = {s->job->predicted ? s->job->predicted->n : 0, s->job->best ? s->job->best->n : 0};
    rdt_forecast_of(&s->share[i].task, &s->r->splits, s->share[i].where.done, &s->r->rates, &one, s->job->predicted,
                    s->job->best);
    tell_device(s->job->predicted, at[0], i);
    tell_device(s->job->best, at[1], i);
    f->seconds = fmax(f->seconds, one.seconds);
    f->best = fmax(f->best, one.best);
    f->loading += one.loading, f->multiplying += one.multiplying, f->storing += one.storing;
    f->load_bytes += one.load_bytes, f->store_bytes += one.store_bytes, f->flops += one.flops;
    f->steps += one.steps, f->blocks += one.blocks;
  }
}

static void *run_share(void *self) {
  share *x = self;
  x->status = rdt_pipeline_run(&x->job, &x->result, &x->why);
  return NULL;
}

static void add_up(rdt_matmul_result *r, const rdt_matmul_result *x) {
  if (x->seconds >= r->seconds) r->seconds = x->seconds, r->phases = x->phases;
  r->load_seconds += x->load_seconds;
  r->store_seconds += x->store_seconds;
  r->busy_seconds += x->busy_seconds;
  r->product_seconds += x->product_seconds;
  r->load_bytes += x->load_bytes;
  r->peer_bytes += x->peer_bytes;
  r->store_bytes += x->store_bytes;
  r->flops += x->flops;
  if (x->verdict > r->verdict) r->verdict = x->verdict;
  r->checks += x->checks;
  r->suspects += x->suspects;
  r->faults += x->faults;
  r->unchecked += x->unchecked;
  r->rebuilt += x->rebuilt;
  r->recomputed += x->recomputed;
  r->planted += x->planted;
  r->ratio = fmax(r->ratio, x->ratio);
  r->floor = fmax(r->floor, x->floor);
  r->bound = fmax(r->bound, x->bound);
  r->peak = fmax(r->peak, x->peak);
}

static rdt_status run_shares(state *s, rdt_reason *why) {
  pthread_t thread[RDT_MOST_DEVICES];
  rdt_pipeline_shared shared = {.all = s->r->forecast.flops};
  rdt_peers peers;
  int begun = 1;
  pthread_mutex_init(&shared.lock, NULL);
  rdt_peers_open(&peers, s->devices.on);
  for (int i = 0; i < s->devices.n; i++) {
    share *x = &s->share[i];
    x->result = (rdt_matmul_result){.verdict = RDT_CLEAN};
    rdt_peers_add(&peers, x->task.dev, x->where.done);
    x->job = (rdt_pipeline_job){.shared = &shared,
                                .peers = &peers,
                                .number = i,
                                .device = s->devices.name[i],
                                .ctx = s->ctx,
                                .asked = s->job,
                                .task = &x->task,
                                .splits = &s->r->splits,
                                .where = &x->where,
                                .a = &s->a,
                                .b = &s->b,
                                .c = &s->c,
                                .ledger = s->ledger,
                                .ledger_path = s->names.part_sums};
  }
  shared.began = rdt_clock();
  while (begun < s->devices.n && pthread_create(&thread[begun], NULL, run_share, &s->share[begun]) == 0) begun++;
  run_share(&s->share[0]);
  for (int i = 1; i < begun; i++) pthread_join(thread[i], NULL);
  for (int i = begun; i < s->devices.n; i++) run_share(&s->share[i]); /* no thread was to be had: one after the other */
  rdt_peers_close(&peers);
  pthread_mutex_destroy(&shared.lock);
  rdt_status status = RDT_OK;
  for (int i = 0; i < s->devices.n; i++) {
    const share *x = &s->share[i];
    add_up(s->r, &x->result);
    if (status == RDT_OK && x->status != RDT_OK) status = rdt_fail(why, x->status, "%s", x->why.text);
  }
  return status;
}

static rdt_status run(state *s, rdt_reason *why) {
  RDT_TRY(make_names(s->job->c, &s->names, why));
  RDT_TRY(open_operands(s, why));
  RDT_TRY(set_task(s, why));
  RDT_TRY(begin_or_go_on(s, why));
  limit_spans(s);
  deal(s);
  forecast(s);
  RDT_TRY(run_shares(s, why));
  RDT_TRY(publish(s, why));
  return verify_result(s, why);
}

static void close_share(share *x) {
  const rdt_task *t = &x->task;
  if (x->memory[RDT_MEMORY_BACKEND]) t->on->release(t->dev, x->memory[RDT_MEMORY_BACKEND]);
  rdt_free(x->memory[RDT_MEMORY_HOST]);
  if (t->dev) t->on->close(t->dev);
}

rdt_status rdt_matmul(rdt_context *ctx, const rdt_matmul_job *job, rdt_matmul_result *result, rdt_reason *why) {
  state s = {.ctx = ctx, .job = job, .r = result, .ledger = -1, .a.fd = -1, .b.fd = -1, .c.fd = -1};
  *result = (rdt_matmul_result){.verdict = RDT_CLEAN};
  const rdt_status status = run(&s, why);
  for (int i = 0; i < s.devices.n; i++) close_share(&s.share[i]);
  result->task.dev = NULL;
  rdt_matrix_close(&s.a);
  rdt_matrix_close(&s.b);
  rdt_matrix_close(&s.c);
  if (s.ledger >= 0) close(s.ledger);
  drop_names(&s.names);
  return status;
}
