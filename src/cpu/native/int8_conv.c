/* Convolutions of images of 8-bit integers, as products without a copy of their windows: one row a pixel of the result,
 * one segment of channels a tap. */
#include "core/memory.h"
#include "cpu/native/int8.h"

static bool inside(int64_t i, int64_t n) {
  return i >= 0 && i < n;
}

static void point(const rdt_int8 *s, const uint8_t *x, int64_t row, const uint8_t **runs) {
  const rdt_window *w = &s->window;
  const int64_t in = row % (s->oh * s->ow);
  const uint8_t *const image = x + row / (s->oh * s->ow) * s->stride[0];
  const int64_t top = in / s->ow * w->stride[0] - w->before[0], left = in % s->ow * w->stride[1] - w->before[1];
  for (int64_t r = 0; r < w->kernel[0]; r++)
    for (int64_t c = 0; c < w->kernel[1]; c++) {
      const int64_t y = top + r * w->dilation[0], col = left + c * w->dilation[1];
      const bool there = inside(y, s->ih) && inside(col, s->iw);
      *runs++ = there ? image + y * s->stride[1] + col * s->stride[2] : NULL;
    }
}

static void place(const rdt_int8 *s, const rdt_tensor *t, int64_t first, int64_t count, int64_t *offset) {
  int64_t n = first / (s->oh * s->ow), y = first / s->ow % s->oh, x = first % s->ow;
  for (int64_t i = 0; i < count; i++) {
    offset[i] = n * t->stride[0] + y * t->stride[2] + x * t->stride[3];
    if (++x < s->ow) continue;
    x = 0;
    if (++y < s->oh) continue;
    y = 0;
    n++;
  }
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  if (p->out.rank != 4) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes images");
  if (p->window.groups != 1) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes one group");
  return rdt_int8_accept(p, why);
}

static rdt_status create(const rdt_problem *p, int threads, void **state, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out;
  rdt_int8 *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  s->window = p->window;
  s->ih = x->shape[2];
  s->iw = x->shape[3];
  s->oh = y->shape[2];
  s->ow = y->shape[3];
  s->plane = s->oh * s->ow;
  s->m = y->shape[0] * s->plane;
  s->n = y->shape[1];
  s->length = x->shape[1];
  s->segments = w->shape[2] * w->shape[3];
  s->k = s->length * s->segments;
  s->threads = threads;
  s->point = point;
  s->place = place;
  s->stride[0] = x->stride[0];
  s->stride[1] = x->stride[2];
  s->stride[2] = x->stride[3];
  s->inner[0] = x->stride[1];
  s->inner[1] = w->stride[1];
  s->apart = w->stride[0];
  s->outer[0] = w->stride[2];
  s->outer[1] = w->stride[3];
  s->batches = 1;
  s->column_dim = 1;
  return rdt_int8_init(s, p, state, why);
}

const rdt_kernel rdt_kernel_conv_int8_native = {.name = "conv_int8_native",
                                                .op = RDT_KOP_CONV,
                                                .accept = accept,
                                                .create = create,
                                                .fuses = RDT_FORM_ROWS,
                                                .accept_fused = accept,
                                                RDT_INT8_ROW};
