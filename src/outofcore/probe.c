#include "outofcore/probe.h"

#include <math.h>
#include <string.h>

/* Too small a piece is loaded faster than the rest, too small a product slower; both together take some 0.1 s. */
static const size_t PIECE = 16u << 20;
enum { SIDE = 768, LEAST_SIDE = 32, RUNS = 3 };

static double in_time(double work, double began) {
  const double seconds = rdt_clock() - began;
  return work / (seconds > 1e-9 ? seconds : 1e-9);
}

/* Whole lines from the begin, no more than room bytes of them. */
static rdt_part_of lines(const rdt_matrix *m, size_t room) {
  const int64_t all = m->fortran ? m->cols : m->rows, length = m->fortran ? m->rows : m->cols;
  const size_t line = (size_t)length * rdt_dtype_size(m->dtype);
  int64_t n = line > 0 ? (int64_t)(room / line) : 0, cut = length;
  if (n > all) n = all;
  if (n < 1) n = 1, cut = (int64_t)(room / rdt_dtype_size(m->dtype));
  return m->fortran ? (rdt_part_of){0, cut, 0, n} : (rdt_part_of){0, n, 0, cut};
}

/* The best of some runs: the first one may find nothing of the file in memory. */
static rdt_status measure_file(const rdt_task *t, const rdt_matrix *m, bool store, char *room, size_t bytes,
                               double *out, rdt_reason *why) {
  const rdt_part_of part = lines(m, bytes < PIECE ? bytes : PIECE);
  const double work = (double)(part.rows * part.cols) * (double)rdt_dtype_size(m->dtype);
  *out = 0.0;
  for (int i = 0; i < RUNS; i++) {
    const double began = rdt_clock();
    if (store)
      RDT_TRY(t->on->store(m, &part, room, why));
    else
      RDT_TRY(t->on->load(m, &part, room, why));
    *out = fmax(*out, in_time(work, began));
  }
  return RDT_OK;
}

static rdt_status measure_files(const rdt_task *t, const rdt_matrix *a, const rdt_matrix *c, char *room, size_t bytes,
                                rdt_rates *out, rdt_reason *why) {
  RDT_TRY(measure_file(t, a, false, room, bytes, &out->load, why));
  out->store = out->load;
  memset(room, 0, bytes < PIECE ? bytes : PIECE);
  return c ? measure_file(t, c, true, room, bytes, &out->store, why) : RDT_OK;
}

/* A product of side x side, and all passes that check it. */
static rdt_status measure_product(const rdt_task *t, int64_t side, char *room, rdt_rates *out, rdt_reason *why) {
  const size_t in = rdt_dtype_size(t->in), result = rdt_dtype_size(t->out), area = (size_t)(side * side);
  char *at = room + 2 * area * in + area * result;
  double *vectors = (double *)(void *)(at + (64 - (size_t)at % 64));
  rdt_block_product p = {.a = rdt_tensor_matrix(room, t->in, side, side, side, 0),
                         .b = rdt_tensor_matrix(room + area * in, t->in, side, side, side, 0),
                         .c = rdt_tensor_matrix(room + 2 * area * in, t->out, side, side, side, 0)};
  rdt_block b = {.on = t->on, .c = p.c, .in = t->in, .threads = t->threads, .lambda = 6.0};
  rdt_pair sums[2] = {{vectors, vectors + side}, {vectors + 2 * side, vectors + 3 * side}};
  double *signs = vectors + 4 * side, *own = signs + side;
  char *workspace = (char *)(own + rdt_block_doubles(side, side));
  const int64_t place[2] = {0, 0};
  rdt_findings found;
  workspace += 64 - (size_t)workspace % 64;
  memset(room, 0, 2 * area * in);
  rdt_checks_signs(signs, side, side, 1);
  rdt_block_lend(&b, own, side, side);
  double multiply = INFINITY, check = INFINITY;
  for (int i = 0; i < RUNS; i++) {
    double began = rdt_clock();
    RDT_TRY(t->on->multiply(t->ctx, &p, false, t->threads, workspace, why));
    multiply = fmin(multiply, rdt_clock() - began);
    began = rdt_clock();
    rdt_block_begin(&b, signs, signs);
    rdt_status status = RDT_OK;
    for (int x = 0; x < 2 && status == RDT_OK; x++)
      status = rdt_operand_sums(t->on, x ? &p.b : &p.a, x, signs, sums[x], t->threads);
    for (int x = 0; x < 2; x++) rdt_operand_sums_end(t->in, sums[x], side);
    if (status == RDT_OK) status = rdt_block_expect(&b, &p.a, &sums[0], &p.b, &sums[1]);
    if (status == RDT_OK) status = rdt_block_check(&b, place, &found);
    if (status != RDT_OK) return rdt_fail(why, status, "out of memory for the sums of a block");
    check = fmin(check, rdt_clock() - began);
  }
  out->multiply = 2.0 * (double)side * (double)area / fmax(multiply, 1e-9);
  out->check = (double)area * (double)(2 * in + result) / fmax(check, 1e-9);
  return RDT_OK;
}

static rdt_status room_for(const rdt_task *t, int64_t side, size_t *bytes, rdt_reason *why) {
  const size_t in = rdt_dtype_size(t->in), result = rdt_dtype_size(t->out), area = (size_t)(side * side);
  const rdt_block_product p = {.a = rdt_tensor_matrix(NULL, t->in, side, side, side, 0),
                               .b = rdt_tensor_matrix(NULL, t->in, side, side, side, 0),
                               .c = rdt_tensor_matrix(NULL, t->out, side, side, side, 0)};
  size_t workspace;
  RDT_TRY(t->on->workspace(t->ctx, &p, t->threads, &workspace, why));
  *bytes =
      area * (2 * in + result) + (size_t)(5 * side + rdt_block_doubles(side, side)) * sizeof(double) + workspace + 256;
  return RDT_OK;
}

rdt_status rdt_rates_measure(const rdt_task *t, const rdt_matrix *a, const rdt_matrix *c, size_t room, rdt_rates *out,
                             rdt_reason *why) {
  int64_t side = SIDE;
  size_t bytes;
  RDT_TRY(room_for(t, side, &bytes, why));
  const double all = (double)t->m * (double)t->n * (double)t->k; /* the trial is no large part of it */
  while ((bytes > room || 64.0 * (double)(side * side * side) > all) && side > LEAST_SIDE) {
    side /= 2;
    RDT_TRY(room_for(t, side, &bytes, why));
  }
  if (bytes < room) bytes = room < PIECE ? room : bytes < PIECE ? PIECE : bytes;
  char *memory = t->on->alloc(bytes);
  if (!memory) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for a trial of %zu bytes", bytes);
  rdt_status status = measure_files(t, a, c, memory, bytes, out, why);
  if (status == RDT_OK) status = measure_product(t, side, memory, out, why);
  t->on->release(memory);
  return status;
}
