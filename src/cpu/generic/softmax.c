/* Softmax, its logarithm and hardmax along one axis. */
#include <math.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/rows.h"
#include "cpu/threads.h"

#define T double
#define EXP exp
#define NAME(x) x##_f64
#include "cpu/generic/softmax_body.h"

#define T float
#define EXP expf
#define NAME(x) x##_f32
#include "cpu/generic/softmax_body.h"

typedef struct job {
  const rdt_problem *p;
  const rdt_tensor *x, *y;
  const rdt_rows_table *rows; /* of f32 by the table; without it a row is loaded to where it is computed */
  bool direct;                /* where it lies */
  int64_t n;                  /* of a row */
  char *work;                 /* rows of the threads */
  size_t row_bytes;
} job;

/* Where row r begins. */
static void find(const job *j, int64_t r, const void **from, void **to) {
  int64_t x = 0, y = 0;
  for (int d = j->y->rank - 1; d >= 0; d--) {
    if (d == j->p->axis || j->y->shape[d] == 1) continue;
    x += r % j->y->shape[d] * j->x->stride[d];
    y += r % j->y->shape[d] * j->y->stride[d];
    r /= j->y->shape[d];
  }
  *from = rdt_at(j->x, x);
  *to = rdt_at(j->y, y);
}

static void run_direct(const job *j, int64_t begin, int64_t end) {
  const float *x[RDT_SOFTMAX_ROWS];
  float *y[RDT_SOFTMAX_ROWS];
  int count = 0;
  for (int64_t r = begin; r < end; r++) {
    find(j, r, (const void **)&x[count], (void **)&y[count]);
    if (++count < RDT_SOFTMAX_ROWS && r + 1 < end) continue;
    j->rows->softmax_f32(y, x, count, j->n, j->p->fn == RDT_FN_LOGSOFTMAX);
    count = 0;
  }
}

static void run_share(const void *job_of_all, int64_t begin, int64_t end, int thread) {
  const job *j = job_of_all;
  if (j->direct) {
    run_direct(j, begin, end);
    return;
  }
  void *const room = j->work + (size_t)thread * j->row_bytes;
  for (int64_t r = begin; r < end; r++) {
    const void *x;
    void *y;
    find(j, r, &x, &y);
    rdt_loader(j->x->dtype)(room, x, j->x->stride[j->p->axis], j->n);
    if (j->rows)
      j->rows->softmax_f32((float *[]){room}, (const float *[]){room}, 1, j->n, j->p->fn == RDT_FN_LOGSOFTMAX);
    else if (rdt_compute_type(j->y->dtype) == RDT_F64)
      row_f64(room, j->n, j->p->fn);
    else
      row_f32(room, j->n, j->p->fn);
    rdt_storer(j->y->dtype)(y, j->y->stride[j->p->axis], room, j->n);
  }
}

static rdt_status run_rows(const rdt_generic *s, const rdt_operands *o, const rdt_rows_table *rows, rdt_reason *why) {
  job j = {.p = &s->p, .x = &o->in[0], .y = &o->out, .rows = rows, .n = o->out.shape[s->p.axis]};
  const int axis = s->p.axis;
  int64_t count = j.n > 0 ? 1 : 0;
  for (int d = 0; d < j.y->rank; d++) count *= d == axis ? 1 : j.y->shape[d];
  if (count == 0) return RDT_OK;
  const int team = count * j.n < 4096 ? 1 : s->threads;
  j.direct = rows && j.y->dtype == RDT_F32 && j.x->stride[axis] == 1 && j.y->stride[axis] == 1;
  j.row_bytes = ((size_t)j.n * sizeof(double) + 63) / 64 * 64;
  j.work = j.direct ? NULL : rdt_alloc((size_t)team, j.row_bytes);
  if (!j.direct && !j.work)
    return rdt_fail(why, RDT_ERR_NOMEM, "softmax: no memory for %d rows of %lld", team, (long long)j.n);
  rdt_threads_share(team, count, run_share, &j);
  rdt_free(j.work);
  return RDT_OK;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  return run_rows(state, o, NULL, why);
}

static rdt_status run_simd(void *state, const rdt_operands *o, rdt_reason *why) {
  return run_rows(state, o, rdt_rows(), why);
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  return rdt_generic_accept_alike(p, false, why);
}

static rdt_status accept_simd(const rdt_problem *p, rdt_reason *why) {
  if (p->fn == RDT_FN_HARDMAX || p->out.dtype == RDT_F64)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes softmax and its logarithm, not of f64");
  return rdt_generic_accept_alike(p, false, why);
}

RDT_SLICED_KERNEL(softmax_simd, SOFTMAX, AVX2, BESIDE_AXIS, accept_simd, run_simd);
RDT_SLICED_KERNEL(softmax_generic, SOFTMAX, GENERIC, BESIDE_AXIS, accept, run);
