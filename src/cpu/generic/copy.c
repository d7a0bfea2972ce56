/* copy and concat: elements of any dtype moved between strides. Where input and output run along different dimensions
 * (NCHW <-> NHWC), squares of 32 x 32 elements keep both sides in whole cache lines. */
#include <string.h>

#include "cpu/generic/move.h"
#include "cpu/generic/state.h"
#include "cpu/generic/walk.h"
#include "cpu/threads.h"

enum { SQUARE = 32, SHEET = 64 }; /* elements; runs */

#define MOVE(bits)                                                                                                \
  static void move_##bits(char *to, int64_t to_a, int64_t to_b, const char *from, int64_t from_a, int64_t from_b, \
                          int64_t na, int64_t nb) {                                                               \
    uint##bits##_t *restrict y = (uint##bits##_t *)to;                                                            \
    const uint##bits##_t *restrict x = (const uint##bits##_t *)from;                                              \
    for (int64_t a = 0; a < na; a++) {                                                                            \
      for (int64_t b = 0; b < nb; b++) y[a * to_a + b * to_b] = x[a * from_a + b * from_b];                       \
    }                                                                                                             \
  }
MOVE(8)
MOVE(16)
MOVE(32)
MOVE(64)

typedef void move_fn(char *to, int64_t to_a, int64_t to_b, const char *from, int64_t from_a, int64_t from_b, int64_t na,
                     int64_t nb);

static move_fn *mover(size_t bytes) {
  return bytes == 1 ? move_8 : bytes == 2 ? move_16 : bytes == 4 ? move_32 : move_64;
}

void rdt_move_run(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n, size_t bytes) {
  if (to_step == 1 && from_step == 1)
    memcpy(to, from, (size_t)n * bytes);
  else
    mover(bytes)(to, 0, to_step, from, 0, from_step, 1, n);
}

/* The outer dimension of the walk along which the input runs with the shortest step: the other side of the squares. */
static int across(const rdt_walk *w) {
  int best = -1;
  for (int d = 0; d < w->rank; d++) {
    if (w->stride[1][d] > 0 && w->stride[1][d] < w->step[1] && (best < 0 || w->stride[1][d] < w->stride[1][best]))
      best = d;
  }
  return best;
}

typedef struct job {
  const rdt_walk *w;
  const rdt_tensor *to, *from;
  size_t bytes; /* of an element */
  int across;   /* squares: the other dimension */
} job;

static void copy_squares(const void *job_of_all, int64_t begin, int64_t end, int thread) {
  const job *j = job_of_all;
  const rdt_walk *w = j->w;
  const int d = j->across;
  move_fn *const move = mover(j->bytes);
  const int64_t rows = (w->shape[d] + SQUARE - 1) / SQUARE, cols = (w->length + SQUARE - 1) / SQUARE;
  (void)thread;
  for (int64_t t = begin; t < end; t++) {
    const int64_t a = t / cols % rows * SQUARE, b = t % cols * SQUARE;
    int64_t plane = t / (rows * cols), y = a * w->stride[0][d] + b * w->step[0],
            x = a * w->stride[1][d] + b * w->step[1];
    for (int i = w->rank - 1; i >= 0; i--) {
      if (i == d) continue;
      y += plane % w->shape[i] * w->stride[0][i];
      x += plane % w->shape[i] * w->stride[1][i];
      plane /= w->shape[i];
    }
    move(rdt_at(j->to, y), w->stride[0][d], w->step[0], rdt_at(j->from, x), w->stride[1][d], w->step[1],
         w->shape[d] - a < SQUARE ? w->shape[d] - a : SQUARE, w->length - b < SQUARE ? w->length - b : SQUARE);
  }
}

static int64_t squares(const rdt_walk *w, int d) {
  int64_t n = ((w->shape[d] + SQUARE - 1) / SQUARE) * ((w->length + SQUARE - 1) / SQUARE);
  for (int i = 0; i < w->rank; i++) n *= i == d ? 1 : w->shape[i];
  return n;
}

/* Short runs: many of the innermost dimension around them at a time, found by adding strides. */
static void move_sheet(const rdt_walk *w, char *to, const char *from, int64_t runs, size_t bytes) {
  const int last = w->rank - 1;
  const int64_t size = (int64_t)bytes, y = w->stride[0][last], x = w->stride[1][last];
  if (w->step[0] != 1 || w->step[1] != 1) {
    mover(bytes)(to, y, w->step[0], from, x, w->step[1], runs, w->length);
    return;
  }
  for (int64_t r = 0; r < runs; r++) memcpy(to + r * y * size, from + r * x * size, (size_t)(w->length * size));
}

static void copy_sheets(const void *job_of_all, int64_t begin, int64_t end, int thread) {
  const job *j = job_of_all;
  const rdt_walk *w = j->w;
  const int last = w->rank - 1;
  const int64_t runs = w->shape[last], cuts = (runs + SHEET - 1) / SHEET;
  (void)thread;
  for (int64_t t = begin; t < end; t++) {
    const int64_t r = t % cuts * SHEET;
    int64_t sheet = t / cuts, y = r * w->stride[0][last], x = r * w->stride[1][last];
    for (int d = last - 1; d >= 0; d--) {
      y += sheet % w->shape[d] * w->stride[0][d];
      x += sheet % w->shape[d] * w->stride[1][d];
      sheet /= w->shape[d];
    }
    move_sheet(w, rdt_at(j->to, y), rdt_at(j->from, x), runs - r < SHEET ? runs - r : SHEET, j->bytes);
  }
}

static void copy_pieces(const void *job_of_all, int64_t begin, int64_t end, int thread) {
  const job *j = job_of_all;
  (void)thread;
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t at[RDT_WALK_VIEWS];
    const int64_t n = rdt_walk_piece(j->w, piece, at);
    rdt_move_run(rdt_at(j->to, at[0]), j->w->step[0], rdt_at(j->from, at[1]), j->w->step[1], n, j->bytes);
  }
}

void rdt_move_view(const rdt_tensor *to, const rdt_tensor *from, int threads) {
  const rdt_tensor *const views[] = {to, from};
  const rdt_walk w = rdt_walk_of(views, 2);
  const job j = {&w, to, from, rdt_dtype_size(to->dtype), w.step[1] > 1 ? across(&w) : -1};
  const int team = w.pieces < 16 ? 1 : threads;
  if (w.pieces == 0) return;
  if (j.across >= 0) {
    const int64_t n = squares(&w, j.across);
    rdt_threads_share(n < 16 ? 1 : threads, n, copy_squares, &j);
  } else if (w.rank > 0 && w.length <= RDT_WALK_PIECE) {
    const int64_t runs = w.shape[w.rank - 1];
    rdt_threads_share(team, w.pieces / runs * ((runs + SHEET - 1) / SHEET), copy_sheets, &j);
  } else {
    rdt_threads_share(team, w.pieces, copy_pieces, &j);
  }
}

static rdt_status run_copy(void *state, const rdt_operands *o, rdt_reason *why) {
  (void)why;
  rdt_move_view(&o->out, &o->in[0], ((const rdt_generic *)state)->threads);
  return RDT_OK;
}

static rdt_status run_concat(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const int axis = s->p.axis;
  int64_t at = 0;
  (void)why;
  for (int i = 0; i < o->n_in; i++) {
    rdt_tensor part = o->in[i]; /* the part of the output that this input fills */
    part.data = rdt_at(&o->out, at * o->out.stride[axis]);
    memcpy(part.stride, o->out.stride, sizeof part.stride);
    rdt_move_view(&part, &o->in[i], s->threads);
    at += o->in[i].shape[axis];
  }
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  for (int i = 0; i < p->n_in; i++) {
    if (p->in[i].dtype != p->out.dtype) {
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "operand %d is %s, the output %s: they must be alike", i,
                      rdt_dtype_name(p->in[i].dtype), rdt_dtype_name(p->out.dtype));
    }
  }
  return RDT_OK;
}

RDT_SLICED_KERNEL(copy_generic, COPY, GENERIC, ANY, accept, run_copy);
RDT_GENERIC_KERNEL(concat_generic, CONCAT, GENERIC, accept, run_concat);
