/* Ops of body.h that are about places: quantising, scatter, resampling, sums up to a place, positions of extrema. */
#ifndef RDT_CUDA_OPS_PLACES_H
#define RDT_CUDA_OPS_PLACES_H

/* Views: x, scale[, zero point]. Adding and subtracting 1.5 * 2^(bits of the fraction) rounds half to even. */
BODY uint64_t rdt_op_quantize(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t at[4] = {0, 0, 0, 0};
  const rdt_op_view *x = &a->view[1], *s = &a->view[2], *y = &a->view[0];
  (void)f;
  rdt_op_walk(a, 0, a->rank, e, at, 4);
  *to = at[0];
  const int32_t zero = a->views > 3 ? (int32_t)rdt_op_integer(&a->view[3], at[3]) : 0;
  const int wide = s->dtype == RDT_F64;
  if (a->fn == RDT_FN_DEQUANTIZE) {
    const int64_t n = rdt_op_integer(x, at[1]) - zero;
    if (wide) return rdt_op_of_double((double)n * rdt_op_double(s, at[2]), y->dtype);
    return rdt_op_of_real((float)n * rdt_op_real(s, at[2]), y->dtype);
  }
  const double least = y->dtype == RDT_S8 ? -128 : 0, most = y->dtype == RDT_S8 ? 127 : 255;
  int32_t n;
  if (wide) {
    const double v = rdt_op_double(x, at[1]), by = rdt_op_double(s, at[2]);
    const double scaled = a->fn == RDT_FN_REQUANTIZE ? v * by : v / by, low = least - zero, high = most - zero;
    const double above = scaled > low ? scaled : low, within = above < high ? above : high;
    n = (int32_t)((within + 0x1.8p52) - 0x1.8p52) + zero;
  } else {
    const float v = rdt_op_real(x, at[1]), by = rdt_op_real(s, at[2]);
    const float scaled = a->fn == RDT_FN_REQUANTIZE ? v * by : v / by;
    const float low = (float)least - (float)zero, high = (float)most - (float)zero;
    const float above = scaled > low ? scaled : low, within = above < high ? above : high;
    n = (int32_t)((within + 0x1.8p23f) - 0x1.8p23f) + zero;
  }
  return (uint64_t)(int64_t)n;
}

/* What is there and an update, together: floats in double and rounded once, integers modulo their width. */
BODY uint64_t rdt_op_combine(const rdt_gpu_op *a, uint64_t is, uint64_t by) {
  const rdt_op_view old = {&is, a->view[0].dtype, 0, {0}}, update = {&by, a->view[0].dtype, 0, {0}};
  const int fn = a->fn;
  if (rdt_dtype_real(old.dtype)) {
    const double x = rdt_op_double(&old, 0), y = rdt_op_double(&update, 0);
    const int nan = x != x || y != y;
    return rdt_op_of_double(fn == RDT_FN_ADD                ? x + y
                            : fn == RDT_FN_MUL              ? x * y
                            : nan                           ? x + y
                            : (fn == RDT_FN_MIN) == (y < x) ? y
                                                            : x,
                            old.dtype);
  }
  const int64_t x = rdt_op_integer(&old, 0), y = rdt_op_integer(&update, 0);
  return fn == RDT_FN_ADD                ? (uint64_t)x + (uint64_t)y
         : fn == RDT_FN_MUL              ? (uint64_t)x * (uint64_t)y
         : (fn == RDT_FN_MIN) == (y < x) ? (uint64_t)y
                                         : (uint64_t)x;
}

/* Views: x, updates, indices. Each element goes through the updates that may be for it, in their order: those of its
 * own place along the dimensions that no index moves along. The walk runs through the result's dimensions as they are.
 */
BODY uint64_t rdt_op_scatter(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t place[RDT_MAX_RANK], from = 0, count = 1;
  int inside = 1;
  uint32_t left = e;
  *to = 0;
  UNROLL for (int k = RDT_MAX_RANK - 1; k >= 0; k--) {
    place[k] = 0;
    if (k >= a->rank) continue;
    place[k] = left % a->length[k];
    left /= a->length[k];
    *to += place[k] * a->view[0].stride[k];
    from += place[k] * a->view[1].stride[k];
  }
  uint64_t bits = rdt_op_bits(a->view[1].data, from, a->view[1].bytes);
  int64_t base[RDT_OP_VIEWS] = {0, 0, 0, 0, 0, 0};
  for (int d = 0; d < a->listed; d++) {
    if (a->along[d] < 0) {
      count *= a->updates[d];
      continue;
    }
    const int64_t i = place[a->along[d]];
    inside &= i < a->updates[d];
    UNROLL for (int v = 2; v < RDT_OP_VIEWS; v++) base[v] += i * a->view[v].stride[d];
  }
  for (int64_t n = 0; inside && n < count; n++) {
    int64_t at[RDT_OP_VIEWS], rest = n;
    int here = 1;
    UNROLL for (int v = 2; v < RDT_OP_VIEWS; v++) at[v] = base[v];
    for (int d = a->listed - 1; d >= 0; d--) {
      if (a->along[d] >= 0) continue;
      const int64_t i = rest % a->updates[d];
      rest /= a->updates[d];
      UNROLL for (int v = 2; v < RDT_OP_VIEWS; v++) at[v] += i * a->view[v].stride[d];
    }
    UNROLL for (int k = 0; k < RDT_OP_VIEWS - 3; k++) {
      if (k + 3 >= a->views) break;
      const int64_t given = rdt_op_integer(&a->view[k + 3], at[k + 3]), i = given < 0 ? given + a->bound[k] : given;
      if (i < 0 || i >= a->bound[k]) {
        if (f->wrong == 0) f->first = e;
        f->wrong++;
        return 0;
      }
      here &= i == place[a->axis[k]];
    }
    if (!here) continue;
    const uint64_t by = rdt_op_bits(a->view[2].data, at[2], a->view[2].bytes);
    bits = a->fn == RDT_FN_NONE ? by : rdt_op_combine(a, bits, by);
  }
  return bits;
}

#define RESIZE_CODE BODY
#define RESIZE_FLOOR floor_f64
#define RESIZE_CEIL ceil_f64
#define RESIZE_ABS fabs_f64
#include "core/resize.h"

enum { RDT_OP_RESAMPLED = 4, RDT_OP_TAPS = 4 }; /* dimensions, at most; elements along each */

/* The weights along dimension d for one place, and the first of the elements that they are of. */
BODY int64_t rdt_op_weights(const rdt_gpu_op *a, int d, int64_t o, double *w) {
  const double last = (double)(a->bound[d] - 1),
               x = rdt_resize_place((double)a->bound[d], (double)a->length[d], a->scale[d], (double)o, a->places);
  double first = floor_f64(x), sum = 0;
  if (a->mode == RDT_RESIZE_NEAREST) {
    first = rdt_resize_nearest(x, a->rounding);
    w[0] = 1;
  } else if (a->mode == RDT_RESIZE_LINEAR) {
    w[0] = 1 - (x - first);
    w[1] = x - first;
  } else {
    UNROLL for (int k = 0; k < RDT_OP_TAPS; k++) w[k] = rdt_resize_cubic(x - first, a->param[0], k);
    first -= 1;
    if (a->exclude) {
      UNROLL for (int k = 0; k < RDT_OP_TAPS; k++) {
        if (first + k < 0 || first + k > last) w[k] = 0;
        sum += w[k];
      }
      UNROLL for (int k = 0; k < RDT_OP_TAPS; k++) w[k] /= sum;
    }
  }
  return (int64_t)first;
}

/* A weighted sum of few elements, in double; in the order of the CPU's, weights of 0 count nothing. The walk runs
 * through the dimensions as they are; bound: lengths of the input. */
BODY uint64_t rdt_op_resize(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  double w[RDT_OP_RESAMPLED][RDT_OP_TAPS];
  int64_t first[RDT_OP_RESAMPLED], from = 0;
  int which[RDT_OP_RESAMPLED], n = 0, terms = 1;
  (void)f;
  *to = 0;
  UNROLL for (int k = RDT_MAX_RANK - 1; k >= 0; k--) {
    if (k >= a->rank) continue;
    const int64_t o = e % a->length[k];
    e /= a->length[k];
    *to += o * a->view[0].stride[k];
    if (a->taps[k] == 0) {
      from += o * a->view[1].stride[k];
      continue;
    }
    which[n] = k;
    first[n] = rdt_op_weights(a, k, o, w[n]);
    terms *= a->taps[k];
    n++;
  }
  double sum = 0;
  uint64_t bits = 0;
  for (int t = 0; t < terms; t++) { /* the innermost dimension is the first of those listed */
    double weight = 1;
    int64_t at = from;
    int rest = t, nothing = 0, tap[RDT_OP_RESAMPLED];
    for (int i = 0; i < n; i++) {
      const int k = which[i];
      tap[i] = rest % a->taps[k];
      rest /= a->taps[k];
      const int64_t last = a->bound[k] - 1, p = first[i] + tap[i];
      at += (p < 0 ? 0 : p > last ? last : p) * a->view[1].stride[k];
    }
    for (int i = n - 1; i >= 0; i--) { /* the outermost first */
      nothing |= w[i][tap[i]] == 0;
      weight *= w[i][tap[i]];
    }
    if (nothing) continue;
    if (a->mode == RDT_RESIZE_NEAREST)
      bits = rdt_op_bits(a->view[1].data, at, a->view[1].bytes);
    else
      sum += weight * rdt_op_double(&a->view[1], at);
  }
  return a->mode == RDT_RESIZE_NEAREST ? bits : rdt_op_of_double(sum, a->view[0].dtype);
}

/* The sum up to a place, anew for each: in the order in which the CPU adds. axis: that of the sums has number 0. */
BODY uint64_t rdt_op_cumsum(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t from = 0, i = 0, step = 0, n = 0;
  (void)f;
  *to = 0;
  UNROLL for (int k = RDT_MAX_RANK - 1; k >= 0; k--) {
    if (k >= a->rank) continue;
    const int64_t o = e % a->length[k];
    e /= a->length[k];
    *to += o * a->view[0].stride[k];
    if (a->axis[k] == 0)
      i = o, step = a->view[1].stride[k], n = a->length[k];
    else
      from += o * a->view[1].stride[k];
  }
  const int64_t terms = (a->mode & 2 ? n - 1 - i : i) + !(a->mode & 1); /* mode: without itself, from the end */
  const int64_t at = a->mode & 2 ? from + (n - 1) * step : from;
  if (a->mode & 2) step = -step;
  if (rdt_dtype_real(a->view[1].dtype)) {
    double sum = 0;
    for (int64_t k = 0; k < terms; k++) sum += rdt_op_double(&a->view[1], at + k * step);
    return rdt_op_of_double(sum, a->view[0].dtype);
  }
  uint64_t whole = 0;
  for (int64_t k = 0; k < terms; k++) whole += (uint64_t)rdt_op_integer(&a->view[1], at + k * step);
  return rdt_op_of_integer((int64_t)whole, a->view[0].dtype);
}

/* Numbers in their order; NaN is beyond all. */
BODY int64_t rdt_op_key(const rdt_op_view *v, int64_t at, int lowest) {
  const int64_t top = (int64_t)(~(uint64_t)0 >> 1);
  int64_t key;
  if (rdt_dtype_real(v->dtype)) {
    const double x = rdt_op_double(v, at) + 0.0; /* one zero */
    if (x != x) return top;
    key = (int64_t)rdt_op_bits_of(x);
    if (key < 0) key ^= top;
  } else {
    key = rdt_op_integer(v, at);
  }
  return lowest ? ~key : key;
}

typedef struct rdt_op_entry { /* place -1: none */
  int64_t key, place;
} rdt_op_entry;

/* Is x before y in order? Of equals the lower place, or the higher one. */
BODY int rdt_op_before(rdt_op_entry x, rdt_op_entry y, int last) {
  if (x.place < 0 || y.place < 0) return x.place >= 0;
  return x.key != y.key ? x.key > y.key : last ? x.place > y.place : x.place < y.place;
}

#ifdef __CUDACC__
BODY rdt_op_entry rdt_op_first(rdt_op_entry x, int last) {
  __shared__ rdt_op_entry part[RDT_OP_THREADS / 32];
  UNROLL for (int d = 16; d > 0; d /= 2) {
    const rdt_op_entry y = {__shfl_xor_sync(0xffffffffu, x.key, d), __shfl_xor_sync(0xffffffffu, x.place, d)};
    if (rdt_op_before(y, x, last)) x = y;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = part[0];
  UNROLL for (int w = 1; w < RDT_OP_THREADS / 32; w++) if (rdt_op_before(part[w], x, last)) x = part[w];
  return x;
}
#else
BODY rdt_op_entry rdt_op_first(rdt_op_entry x, int last) {
  (void)last;
  return x;
}
#endif

/* Of a row of the input, as many places as the result is long, in order (fn ARGMAX, ARGMIN), or 1 at the first
 * (HARDMAX). mode: of equals the last. bound[0]: places that are asked for. The row lies along one dimension. */
BODY void rdt_op_positions(const rdt_gpu_op *a, uint32_t r, uint32_t me, uint32_t all, rdt_op_found *f) {
  int64_t row[2] = {0, 0};
  rdt_op_walk(a, 0, a->outer, r, row, 2);
  const int64_t xs = a->view[1].stride[a->outer], ys = a->view[0].stride[a->outer];
  const int lowest = a->fn == RDT_FN_ARGMIN, last = a->mode;
  rdt_op_entry before = {0, -1};
  for (int64_t k = 0; k < a->bound[0]; k++) {
    rdt_op_entry best = {0, -1};
    RDT_OP_EACH(a, i) {
      const rdt_op_entry x = {rdt_op_key(&a->view[1], row[1] + (int64_t)i * xs, lowest), (int64_t)i};
      if ((before.place < 0 || rdt_op_before(before, x, last)) && rdt_op_before(x, best, last)) best = x;
    }
    before = rdt_op_first(best, last);
    if (a->fn != RDT_FN_HARDMAX && me == 0)
      rdt_op_take(a, f, r * (uint32_t)a->bound[0] + (uint32_t)k, row[0] + k * ys, (uint64_t)before.place);
  }
  if (a->fn != RDT_FN_HARDMAX) return;
  RDT_OP_EACH(a, i)
  rdt_op_take(a, f, r * (uint32_t)a->inner + i, row[0] + (int64_t)i * ys,
              rdt_op_of_double(i == before.place, a->view[0].dtype));
}

#endif
