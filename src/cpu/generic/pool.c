/* maxpool, avgpool: windows over the pixels; runs along the channels, which lie side by side in channels-last memory.
 */
#include <math.h>

#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/rows.h"

enum { CHANNELS = 256 };

/* Which taps of a window fall where along one axis: [first, end) inside the image, [0, padded) inside the padded one
 * (in ceil mode the last window reaches beyond). */
typedef struct taps {
  int64_t start, first, end, padded;
} taps;

static taps taps_of(const rdt_window *w, int axis, int64_t in, int64_t out) {
  const int64_t d = w->dilation[axis], k = w->kernel[axis], start = out * w->stride[axis] - w->before[axis];
  const int64_t inside = (in - start + d - 1) / d, padded = (in + w->after[axis] - start + d - 1) / d;
  taps t = {.start = start, .first = start < 0 ? (d - 1 - start) / d : 0};
  t.end = in <= start ? 0 : inside < k ? inside : k;
  if (t.end < t.first) t.end = t.first;
  t.padded = padded < k ? padded : k;
  return t;
}

/* The taps of one window, along each dimension and together. */
typedef struct field {
  const rdt_window *w;
  taps along[RDT_MAX_SPATIAL];
  int64_t inside; /* the image */
  double padded;  /* inside the padded one; kernels from files may be of any length there */
} field;

static field field_of(const rdt_problem *p, const rdt_tensor *x, const rdt_tensor *y, int64_t pixel) {
  field f = {.w = &p->window, .inside = 1, .padded = 1};
  int64_t place[RDT_MAX_SPATIAL];
  rdt_pixel_place(y, pixel, place);
  for (int d = 0; d < x->rank - 2; d++) {
    f.along[d] = taps_of(f.w, d, x->shape[2 + d], place[d]);
    f.inside *= f.along[d].end - f.along[d].first;
    f.padded *= (double)f.along[d].padded;
  }
  return f;
}

/* Walks the taps inside the image in row-major order, those of the first dims dimensions alone. */
typedef struct walk {
  const field *f;
  const rdt_tensor *x;
  int dims;
  int64_t place[RDT_MAX_SPATIAL], offset; /* of the pixel under the tap */
} walk;

static walk walk_begin(const field *f, const rdt_tensor *x, int dims) {
  walk t = {.f = f, .x = x, .dims = dims};
  for (int d = 0; d < x->rank - 2 && f->inside > 0; d++) {
    t.place[d] = f->along[d].start + f->along[d].first * f->w->dilation[d];
    t.offset += t.place[d] * x->stride[2 + d];
  }
  return t;
}

static void walk_next(walk *t) {
  for (int d = t->dims - 1; d >= 0; d--) {
    const taps *along = &t->f->along[d];
    const int64_t step = t->f->w->dilation[d], whole = (along->end - along->first) * step;
    t->place[d] += step;
    t->offset += step * t->x->stride[2 + d];
    if (t->place[d] < along->start + along->end * step) return;
    t->place[d] -= whole;
    t->offset -= whole * t->x->stride[2 + d];
  }
}

/* The pixel's number in row-major or column-major order. */
static int64_t walk_number(const walk *t, bool columns) {
  const int spatial = t->x->rank - 2;
  int64_t number = 0;
  for (int k = 0; k < spatial; k++) {
    const int d = columns ? spatial - 1 - k : k;
    number = number * t->x->shape[2 + d] + t->place[d];
  }
  return number;
}

#define T double
#define LOWEST(t) ((void)(t), -INFINITY)
#define IS_NAN(x) isnan(x)
#define NAME(x) x##_f64
#include "cpu/generic/pool_body.h"

#define T float
#define LOWEST(t) ((void)(t), -INFINITY)
#define IS_NAN(x) isnan(x)
#define NAME(x) x##_f32
#include "cpu/generic/pool_body.h"

#define T int32_t
#define LOWEST(t) ((t) == RDT_S8 ? INT8_MIN : (t) == RDT_U8 ? 0 : INT32_MIN)
#define IS_NAN(x) 0
#define NAME(x) x##_s32
#include "cpu/generic/pool_body.h"

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  (void)why;
  switch (rdt_compute_type(o->in[0].dtype)) {
    case RDT_F64:
      run_f64(&s->p, o, s->threads);
      break;
    case RDT_F32:
      run_f32(&s->p, o, s->threads);
      break;
    default:
      run_s32(&s->p, o, s->threads);
  }
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  rdt_problem values = *p;
  if (p->fn == RDT_FN_ARGMAX) values.out.dtype = p->in[0].dtype;
  return rdt_generic_accept_alike(&values, p->op == RDT_KOP_MAXPOOL, why);
}

/* ---- the highest, channels side by side ---- */

/* rows->window_f32 takes the last two dimensions of floats at once. What it gives for the dimensions before, or 16-bit
 * floats one by one, is held as floats, and many of these are taken at once. */
static void held_pixel(const rdt_rows_table *rows, const field *f, const rdt_tensor *x, const rdt_tensor *y,
                       int64_t from, int64_t to) {
  enum { TAPS = 32, RUN = 128 };
  float tap[TAPS][RUN];
  const bool whole = x->dtype == RDT_F32;
  const int spatial = x->rank - 2, dims = whole ? spatial - 2 : spatial;
  const taps *v = &f->along[spatial - 2], *h = &f->along[spatial - 1];
  const int64_t row = f->w->dilation[spatial - 2] * x->stride[spatial], height = v->end - v->first;
  const int64_t col = f->w->dilation[spatial - 1] * x->stride[spatial + 1], width = h->end - h->first;
  const int64_t pieces = whole && f->inside > 0 ? f->inside / (height * width) : f->inside;
  for (int64_t c = 0; c < x->shape[1]; c += RUN) {
    const int64_t n = x->shape[1] - c < RUN ? x->shape[1] - c : RUN;
    int64_t held = 0;
    walk t = walk_begin(f, x, dims);
    for (int64_t i = 0; i < pieces; i++, walk_next(&t)) {
      if (held == TAPS) {
        rows->window_f32(tap[0], tap[0], 1, TAPS, 0, RUN, n);
        held = 1;
      }
      if (whole)
        rows->window_f32(tap[held++], rdt_at(x, from + t.offset + c), height, width, row, col, n);
      else
        rdt_loader(x->dtype)(tap[held++], rdt_at(x, from + t.offset + c), 1, n);
    }
    rows->window_f32(tap[0], tap[0], 1, held, 0, RUN, n);
    rdt_storer(y->dtype)(rdt_at(y, to + c), 1, tap[0], n);
  }
}

/* Output pixels along the last dimension. */
static void simd_line(const rdt_problem *p, const rdt_tensor *x, const rdt_tensor *y, int64_t image, int64_t line) {
  const rdt_rows_table *rows = rdt_rows();
  const rdt_window *w = &p->window;
  const int last = x->rank - 3;
  const int64_t width = y->shape[2 + last], step = x->stride[2 + last], col = w->dilation[last] * step;
  const int64_t row = w->dilation[0] * x->stride[2], from = image * x->stride[0];
  field f = field_of(p, x, y, line * width);
  const taps v = f.along[0];
  const int64_t above = v.first < v.end ? from + v.start * x->stride[2] + v.first * row : 0;
  int64_t outer = 1, to = image * y->stride[0] + rdt_pixel_offset(y, line * width);
  for (int d = 0; d < last; d++) outer *= f.along[d].end - f.along[d].first;
  for (int64_t ox = 0; ox < width; ox++, to += y->stride[2 + last]) {
    const taps t = taps_of(w, last, x->shape[2 + last], ox);
    const int64_t inside = outer * (t.end - t.first);
    if (x->dtype == RDT_F32 && last == 1) {
      const int64_t first = inside == 0 ? 0 : above + t.start * step + t.first * col;
      rows->window_f32(rdt_at(y, to), rdt_at(x, first), outer, t.end - t.first, row, col, x->shape[1]);
      continue;
    }
    f.along[last] = t;
    f.inside = inside;
    held_pixel(rows, &f, x, y, from, to);
  }
}

static rdt_status run_simd(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_tensor *y = &o->out;
  if (rdt_tensor_count(y) == 0) return RDT_OK;
  const int64_t in_image = rdt_tensor_pixels(y) / y->shape[y->rank - 1], lines = y->shape[0] * in_image;
  (void)why;
#pragma omp parallel for num_threads(lines < 4 ? 1 : s->threads) schedule(static)
  for (int64_t i = 0; i < lines; i++) simd_line(&s->p, &o->in[0], y, i / in_image, i % in_image);
  return RDT_OK;
}

static rdt_status accept_simd(const rdt_problem *p, rdt_reason *why) {
  if (rdt_compute_type(p->out.dtype) != RDT_F32 || p->in[0].dtype != p->out.dtype)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes f32 bf16 f16, in and out alike");
  if (p->out.rank < 4) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes two spatial dimensions or more");
  if (p->in[0].stride[1] != 1 || p->out.stride[1] != 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes channels that lie side by side");
  return RDT_OK;
}

/* Ours and not oneDNN's, whose maximum loses NaN: both copies of a check would agree on the wrong value. 64x112x112,
 * window 3x3, stride 2, one thread of Zen 4 with AVX2: 0.094 ms, oneDNN 0.104 ms. */
RDT_GENERIC_KERNEL(maxpool_simd, MAXPOOL, AVX2, accept_simd, run_simd);
RDT_GENERIC_KERNEL(maxpool_generic, MAXPOOL, GENERIC, accept, run);
RDT_GENERIC_KERNEL(avgpool_generic, AVGPOOL, GENERIC, accept, run);
