/* pad and triangle: elements of the input where there are some, a constant elsewhere. */
#include "cpu/generic/move.h"
#include "cpu/generic/state.h"

/* Where position i of a padded dimension of length n comes from; -1: the constant. */
static int64_t pad_source(int64_t i, int64_t n, rdt_pad_mode mode) {
  if (i >= 0 && i < n) return i;
  switch (n > 0 ? mode : RDT_PAD_CONSTANT) {
    case RDT_PAD_EDGE:
      return i < 0 ? 0 : n - 1;
    case RDT_PAD_REFLECT: {
      const int64_t period = n > 1 ? 2 * (n - 1) : 1, r = (i % period + period) % period;
      return r < n ? r : period - r;
    }
    case RDT_PAD_WRAP:
      return (i % n + n) % n;
    default:
      return -1;
  }
}

/* Row by row of the output's last dimension: the input's part of it in one move, what lies around one by one. */
static rdt_status run_pad(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_pad_mode mode = (rdt_pad_mode)s->p.mode;
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const size_t bytes = rdt_dtype_size(y->dtype);
  uint64_t constant = 0;
  rdt_store(&constant, y->dtype, 0, s->p.param[0]);
  const void *fill = o->n_in > 1 ? o->in[1].data : &constant;
  const int last = y->rank - 1;
  const int64_t length = last < 0 ? 1 : y->shape[last], total = rdt_tensor_count(y), rows = length ? total / length : 0;
  const int64_t ys = last < 0 ? 1 : y->stride[last], xs = last < 0 ? 1 : x->stride[last];
  const int64_t n = last < 0 ? 1 : x->shape[last], begin = last < 0 ? 0 : s->p.ints[last];
  (void)why;
#pragma omp parallel for num_threads(total < 8192 ? 1 : s->threads) schedule(static)
  for (int64_t row = 0; row < rows; row++) {
    int64_t at = row, from = 0, to = 0;
    bool outside = false;
    for (int d = last - 1; d >= 0; d--) {
      const int64_t i = at % y->shape[d], source = pad_source(i - s->p.ints[d], x->shape[d], mode);
      at /= y->shape[d];
      outside = outside || source < 0;
      from += source * x->stride[d];
      to += i * y->stride[d];
    }
    const int64_t low = begin < 0 ? 0 : begin < length ? begin : length;
    const int64_t high = begin + n > length ? length : begin + n < low ? low : begin + n;
    if (!outside && high > low)
      rdt_move_run(rdt_at(y, to + low * ys), ys, rdt_at(x, from + (low - begin) * xs), xs, high - low, bytes);
    for (int64_t i = outside ? 0 : low == 0 ? high : 0; i < length; i++) {
      const int64_t source = outside ? -1 : pad_source(i - begin, n, mode);
      rdt_move_one(rdt_at(y, to + i * ys), source < 0 ? fill : rdt_at(x, from + source * xs), bytes);
      if (!outside && i == low - 1) i = high - 1;
    }
  }
  return RDT_OK;
}

/* Rows of the last dimension: element j of row i stays where j - i is on the kept side of the diagonal. */
static rdt_status run_triangle(void *state, const rdt_operands *o, rdt_reason *why) {
  static const uint64_t zero = 0;
  const rdt_generic *s = state;
  const rdt_tensor *x = &o->in[0], *y = &o->out;
  const size_t bytes = rdt_dtype_size(y->dtype);
  const int last = y->rank - 1;
  const int64_t length = y->shape[last], total = rdt_tensor_count(y), rows = length ? total / length : 0;
  (void)why;
#pragma omp parallel for num_threads(total < 8192 ? 1 : s->threads) schedule(static)
  for (int64_t row = 0; row < rows; row++) {
    int64_t at = row, from = 0, to = 0;
    for (int d = last - 1; d >= 0; d--) {
      const int64_t i = at % y->shape[d];
      at /= y->shape[d];
      from += i * x->stride[d];
      to += i * y->stride[d];
    }
    const int64_t i = row % y->shape[last - 1], least = -y->shape[last - 1] - 1, most = length + 1;
    const int64_t k = s->p.ints[0] < least ? least : s->p.ints[0] > most ? most : s->p.ints[0];
    const int64_t edge = i + k + (s->p.mode ? 0 : 1); /* where the other side begins, or this one */
    const int64_t cut = edge < 0 ? 0 : edge > length ? length : edge;
    const int64_t low = s->p.mode ? cut : 0, high = s->p.mode ? length : cut;
    rdt_move_run(rdt_at(y, to + low * y->stride[last]), y->stride[last], rdt_at(x, from + low * x->stride[last]),
                 x->stride[last], high - low, bytes);
    for (int64_t j = s->p.mode ? 0 : cut; j < (s->p.mode ? cut : length); j++)
      rdt_move_one(rdt_at(y, to + j * y->stride[last]), &zero, bytes);
  }
  return RDT_OK;
}

RDT_GENERIC_KERNEL(pad_generic, PAD, GENERIC, rdt_generic_accept_any, run_pad);
RDT_GENERIC_KERNEL(triangle_generic, TRIANGLE, GENERIC, rdt_generic_accept_any, run_triangle);
