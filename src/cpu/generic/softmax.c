/* Softmax, its logarithm and hardmax along one axis. */
#include <math.h>
#include <omp.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/rows.h"

#define T double
#define EXP exp
#define NAME(x) x##_f64
#include "cpu/generic/softmax_body.h"

#define T float
#define EXP expf
#define NAME(x) x##_f32
#include "cpu/generic/softmax_body.h"

static void row(const rdt_rows_table *rows, rdt_fn fn, rdt_dtype t, void *to, const void *x, int64_t n) {
  if (rows)
    rows->softmax_f32(to, x, n, fn == RDT_FN_LOGSOFTMAX);
  else if (rdt_compute_type(t) == RDT_F64)
    row_f64(to, n, fn);
  else
    row_f32(to, n, fn);
}

/* rows: of f32 by the table; without it the row is loaded to where it is computed. */
static rdt_status run_rows(const rdt_generic *s, const rdt_operands *o, const rdt_rows_table *rows, rdt_reason *why) {
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const int axis = s->p.axis;
  const int64_t n = y->shape[axis];
  const size_t row_bytes = ((size_t)n * sizeof(double) + 63) / 64 * 64;
  int64_t count = n > 0 ? 1 : 0;
  for (int d = 0; d < y->rank; d++) count *= d == axis ? 1 : y->shape[d];
  if (count == 0) return RDT_OK;
  const int team = count * n < 4096 ? 1 : s->threads;
  char *const work = rdt_alloc((size_t)team, row_bytes);
  if (!work) return rdt_fail(why, RDT_ERR_NOMEM, "softmax: no memory for %d rows of %lld", team, (long long)n);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t r = 0; r < count; r++) {
    void *const room = work + (size_t)omp_get_thread_num() * row_bytes;
    int64_t left = r, from = 0, to = 0;
    for (int d = y->rank - 1; d >= 0; d--) {
      if (d == axis) continue;
      from += left % y->shape[d] * x->stride[d];
      to += left % y->shape[d] * y->stride[d];
      left /= y->shape[d];
    }
    const bool direct = rows && y->dtype == RDT_F32 && x->stride[axis] == 1 && y->stride[axis] == 1;
    const void *const in = direct ? rdt_at(x, from) : room;
    void *const out = direct ? rdt_at(y, to) : room;
    if (!direct) rdt_loader(x->dtype)(room, rdt_at(x, from), x->stride[axis], n);
    row(rows, s->p.fn, y->dtype, out, in, n);
    if (!direct) rdt_storer(y->dtype)(rdt_at(y, to), y->stride[axis], room, n);
  }
  rdt_free(work);
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
