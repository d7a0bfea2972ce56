#include "outofcore/probe.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"

enum { LEAST_SIDE = 32, LEAST_BYTES = 1 << 16 /* less is no limit that anything fits in */, RUNS = 3 };

static double in_time(double work, double began) {
  const double seconds = rdt_clock() - began;
  return work / (seconds > 1e-9 ? seconds : 1e-9);
}

/* ---- files ---- */

/* Whole lines from the begin, no more than room bytes of them. */
static rdt_part_of lines(const rdt_matrix *m, size_t room) {
  const int64_t all = m->fortran ? m->cols : m->rows, length = m->fortran ? m->rows : m->cols;
  const size_t line = (size_t)length * rdt_dtype_size(m->dtype);
  int64_t n = line > 0 ? (int64_t)(room / line) : 0, cut = length;
  if (n > all) n = all;
  if (n < 1) n = 1, cut = (int64_t)(room / rdt_dtype_size(m->dtype));
  return m->fortran ? (rdt_part_of){0, cut, 0, n} : (rdt_part_of){0, n, 0, cut};
}

/* The best of some runs: the first one may find nothing of the file in memory. Lines may be aligned: half of the room
 * holds them in any case. */
static rdt_status measure_file(const rdt_task *t, const rdt_matrix *m, bool store, char *room, size_t bytes,
                               double *out, rdt_reason *why) {
  const rdt_part_of part = lines(m, bytes / 2);
  const rdt_tensor lie = rdt_backend_view(t->on, m, &part, room);
  const double work = (double)(part.rows * part.cols) * (double)rdt_dtype_size(m->dtype);
  *out = 0.0;
  if (rdt_backend_bytes(t->on, m->fortran ? part.cols : part.rows, m->fortran ? part.rows : part.cols, m->dtype) >
      bytes)
    return RDT_OK; /* lines of a few bytes */
  for (int i = 0; i < RUNS; i++) {
    rdt_loading l = {.m = m, .part = part, .to = lie};
    uint64_t sum;
    const double began = rdt_clock();
    if (store)
      RDT_TRY(t->on->store(t->dev, m, &part, &lie, &sum, why));
    else
      RDT_TRY(t->on->load(t->dev, &l, why));
    *out = fmax(*out, in_time(work, began));
  }
  return RDT_OK;
}

static rdt_status measure_files(const rdt_task *t, const rdt_matrix *a, const rdt_matrix *c, size_t room,
                                rdt_rates *out, rdt_reason *why) {
  const size_t most = room < t->on->trial ? room : t->on->trial, bytes = most < LEAST_BYTES ? LEAST_BYTES : most;
  const rdt_rates usual = t->on->usual(t->in);
  void *memory;
  RDT_TRY(t->on->alloc(t->dev, bytes, &memory, why));
  rdt_status status = measure_file(t, a, false, memory, bytes, &out->load, why);
  if (!(out->load > 0.0)) out->load = usual.load;
  out->store = out->load;
  if (status == RDT_OK && c) status = measure_file(t, c, true, memory, bytes, &out->store, why);
  if (!(out->store > 0.0)) out->store = usual.store;
  t->on->release(t->dev, memory);
  return status;
}

/* ---- products ---- */

typedef struct trial {
  rdt_task task; /* of side x side */
  rdt_splits splits;
  rdt_arrangement where;
  rdt_block_product p;
  rdt_block b;
} trial;

static void set_side(trial *x, const rdt_task *t, int64_t side) {
  x->task = *t;
  x->task.m = x->task.n = x->task.k = side;
  x->task.protected = true;
  x->splits = (rdt_splits){RDT_STRATEGY_SIMPLE, side, side, side};
  x->p.add = false;
  x->p.strassen = t->strassen;
}

static rdt_status run_once(trial *x, double *multiply, double *check, rdt_reason *why) {
  const rdt_task *t = &x->task;
  const rdt_arrangement *w = &x->where;
  const int64_t place[2] = {0, 0};
  const rdt_block_signs signs = {w->signs[0][0], w->signs[1][0], w->far_signs[0][0], w->far_signs[1][0]};
  double *const sums[2] = {w->sums[0][0], w->sums[1][0]};
  rdt_findings found;
  double began = rdt_clock();
  RDT_TRY(t->on->multiply(t->dev, t->ctx, 0, &x->p, false, t->threads, why));
  RDT_TRY(t->on->wait(t->dev, 0, why));
  *multiply = fmin(*multiply, rdt_clock() - began);
  began = rdt_clock();
  RDT_TRY(rdt_block_begin(&x->b, &signs, why));
  RDT_TRY(rdt_block_expect(&x->b, &x->p.a, &x->p.b, sums, x->splits.k, why));
  RDT_TRY(rdt_block_check(&x->b, place, &found, NULL, why));
  *check = fmin(*check, rdt_clock() - began);
  return RDT_OK;
}

/* A product, and all passes that check it: what they say is not asked. */
static rdt_status run_trial(trial *x, char *const memory[RDT_MEMORIES], rdt_rates *out, rdt_reason *why) {
  const rdt_task *t = &x->task;
  const int64_t side = x->splits.m;
  const size_t in = rdt_dtype_size(t->in), result = rdt_dtype_size(t->out);
  const double area = (double)side * (double)side;
  RDT_TRY(rdt_arrange(t, &x->splits, memory, &x->where, why));
  for (int i = 0; i < 3; i++) {
    const rdt_matrix m = {.dtype = i < 2 ? t->in : t->out, .fortran = i < 2 && t->fortran[i]};
    const rdt_part_of part = {0, side, 0, side};
    *(i == 0 ? &x->p.a : i == 1 ? &x->p.b : &x->p.c) = rdt_backend_view(t->on, &m, &part, x->where.slot[i][0]);
  }
  x->b = (rdt_block){.on = t->on,
                     .dev = t->dev,
                     .c = x->p.c,
                     .in = t->in,
                     .threads = t->threads,
                     .lambda = 6.0,
                     .strassen = t->strassen,
                     .line = x->where.line[0]};
  rdt_block_lend(&x->b, x->where.block[0], x->where.far_block[0], side, side);
  t->on->lend(t->dev, &x->where.room);
  double multiply = INFINITY, check = INFINITY;
  for (int i = 0; i < RUNS; i++) RDT_TRY(run_once(x, &multiply, &check, why));
  out->multiply = 2.0 * (double)side * area / fmax(multiply, 1e-9);
  out->check = area * (double)(2 * in + result) / fmax(check, 1e-9);
  return RDT_OK;
}

enum { PATTERN = 4096, AT_ONCE = 16 /* patterns: of the host's memory, beside the trial */, FAR_AT_ONCE = 1024 };

/* Numbers that repeat: products of zeros may be faster than others. */
static rdt_status fill(const trial *x, char *memory, size_t bytes, rdt_reason *why) {
  const rdt_dtype in = x->task.in;
  const size_t pattern = PATTERN * rdt_dtype_size(in), all = (x->task.on->far ? FAR_AT_ONCE : AT_ONCE) * pattern,
               most = bytes < all ? bytes : all;
  char *some = rdt_alloc(most + pattern, 1);
  uint64_t seed = 1;
  rdt_status status = RDT_OK;
  if (!some) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for a trial");
  for (int i = 0; i < PATTERN; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    rdt_store(some, in, i, (double)(int32_t)(seed >> 32) * 0x1p-31);
  }
  for (size_t at = pattern; at < most; at += pattern) memcpy(some + at, some, pattern);
  for (size_t at = 0; at < bytes && status == RDT_OK; at += most)
    status = x->task.on->put(x->task.dev, 0, memory + at, some, bytes - at < most ? bytes - at : most, why);
  rdt_free(some);
  return status;
}

static rdt_status measure_product(const rdt_task *t, size_t room, rdt_rates *out, rdt_reason *why) {
  trial x;
  int64_t side = t->on->trial_side;
  const double all = (double)t->m * (double)t->n * (double)t->k; /* the trial is no large part of it */
  set_side(&x, t, side);
  RDT_TRY(rdt_arrange(&x.task, &x.splits, NULL, &x.where, why));
  while (side > LEAST_SIDE && (rdt_arranged_bytes(t, &x.where) + x.where.beside > room ||
                               64.0 * (double)(side * side) * (double)side > all)) {
    side /= 2;
    set_side(&x, t, side);
    RDT_TRY(rdt_arrange(&x.task, &x.splits, NULL, &x.where, why));
  }
  char *memory[RDT_MEMORIES] = {NULL, NULL};
  void *own;
  RDT_TRY(t->on->alloc(t->dev, x.where.bytes[RDT_MEMORY_BACKEND], &own, why));
  memory[RDT_MEMORY_BACKEND] = own;
  memory[RDT_MEMORY_HOST] = rdt_calloc(1, x.where.bytes[RDT_MEMORY_HOST]);
  rdt_status status = memory[RDT_MEMORY_HOST] ? fill(&x, own, x.where.bytes[RDT_MEMORY_BACKEND], why)
                                              : rdt_fail(why, RDT_ERR_NOMEM, "out of memory for a trial");
  if (status == RDT_OK) status = run_trial(&x, memory, out, why);
  rdt_free(memory[RDT_MEMORY_HOST]);
  t->on->release(t->dev, own);
  return status;
}

rdt_status rdt_rates_measure(const rdt_task *t, const rdt_matrix *a, const rdt_matrix *c, size_t room, rdt_rates *out,
                             rdt_reason *why) {
  RDT_TRY(measure_files(t, a, c, room, out, why));
  return measure_product(t, room, out, why);
}
