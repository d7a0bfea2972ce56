/* softmax along one axis: exp(x - max) / sum */
#include <math.h>
#include <omp.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"

#define T double
#define EXP exp
#define NAME(x) x##_f64
#include "cpu/generic/softmax_body.h"

#define T float
#define EXP expf
#define NAME(x) x##_f32
#include "cpu/generic/softmax_body.h"

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const int axis = s->p.axis;
  const int64_t n = y->shape[axis];
  const size_t row_bytes = ((size_t)n * sizeof(double) + 63) / 64 * 64;
  int64_t rows = n > 0 ? 1 : 0;
  for (int d = 0; d < y->rank; d++) rows *= d == axis ? 1 : y->shape[d];
  if (rows == 0) return RDT_OK;
  const int team = rows < 16 ? 1 : s->threads;
  char *const work = rdt_alloc((size_t)team, row_bytes);
  if (!work) return rdt_fail(why, RDT_ERR_NOMEM, "softmax: no memory for %d rows of %lld", team, (long long)n);
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t r = 0; r < rows; r++) {
    void *const row = work + (size_t)omp_get_thread_num() * row_bytes;
    int64_t left = r, from = 0, to = 0;
    for (int d = y->rank - 1; d >= 0; d--) {
      if (d == axis) continue;
      from += left % y->shape[d] * x->stride[d];
      to += left % y->shape[d] * y->stride[d];
      left /= y->shape[d];
    }
    rdt_loader(x->dtype)(row, rdt_at(x, from), x->stride[axis], n);
    if (rdt_compute_type(x->dtype) == RDT_F64) {
      row_f64(row, n);
    } else {
      row_f32(row, n);
    }
    rdt_storer(y->dtype)(rdt_at(y, to), y->stride[axis], row, n);
  }
  rdt_free(work);
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  return rdt_generic_accept_alike(p, false, why);
}

const rdt_kernel rdt_kernel_softmax_generic = {.name = "softmax_generic",
                                               .op = RDT_KOP_SOFTMAX,
                                               .isa = RDT_ISA_GENERIC,
                                               .deterministic = true,
                                               .accept = accept,
                                               .create = rdt_generic_create,
                                               .run = run,
                                               .destroy = rdt_generic_destroy};
