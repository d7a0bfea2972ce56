/* Convolutions of images with channels side by side: one row a pixel of the result, one segment of channels a tap. */
#include "core/memory.h"
#include "cpu/native/native.h"

typedef struct pixel { /* of the result */
  int64_t n, y, x;
} pixel;

static pixel pixel_of(const rdt_native *s, int64_t row) {
  const int64_t n = row / (s->oh * s->ow), in = row % (s->oh * s->ow);
  return (pixel){n, in / s->ow, in % s->ow};
}

static void step(const rdt_native *s, pixel *p) {
  if (++p->x < s->ow) return;
  p->x = 0;
  if (++p->y < s->oh) return;
  p->y = 0;
  p->n++;
}

static bool inside(int64_t i, int64_t n) {
  return i >= 0 && i < n;
}

static void point(const rdt_native *s, const char *x, int64_t first, int64_t count, const void *zeros,
                  const void **rows) {
  const rdt_window *w = &s->window;
  const int64_t size = (int64_t)rdt_dtype_size(s->dtype);
  pixel p = pixel_of(s, first);
  for (int64_t i = 0; i < count; i++, step(s, &p)) {
    const int64_t image = p.n * s->stride[0];
    const int64_t top = p.y * w->stride[0] - w->before[0], left = p.x * w->stride[1] - w->before[1];
    const void **to = rows + i;
    for (int64_t r = 0; r < w->kernel[0]; r++)
      for (int64_t c = 0; c < w->kernel[1]; c++, to += count) {
        const int64_t y = top + r * w->dilation[0], col = left + c * w->dilation[1];
        const int64_t at = image + y * s->stride[1] + col * s->stride[2];
        *to = inside(y, s->ih) && inside(col, s->iw) ? x + at * size : zeros;
      }
  }
}

static int64_t offset(const rdt_native *s, const rdt_tensor *w, int64_t t, int64_t j) {
  const int64_t c = t % s->ic, tap = t / s->ic, kw = s->window.kernel[1];
  return j * w->stride[0] + c * w->stride[1] + tap / kw * w->stride[2] + tap % kw * w->stride[3];
}

static rdt_status pack(void *state, const rdt_tensor *w, rdt_reason *why) {
  (void)why;
  rdt_native_pack(state, w, offset);
  return RDT_OK;
}

/* Pixels one after the other in memory, their channels side by side; any number of them in a pixel's place. */
static bool has_pixels(const rdt_tensor *t) {
  const int64_t *n = t->shape, *s = t->stride;
  return (n[1] == 1 || s[1] == 1) && s[3] >= n[1] && (n[2] == 1 || s[2] == s[3] * n[3]) &&
         (n[0] == 1 || s[0] == s[3] * n[3] * n[2]);
}

static rdt_status accept_as(const rdt_problem *p, rdt_native_operands operands, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out, *r = &p->epilogue.residual;
  RDT_TRY(rdt_native_accept(p, operands, why));
  if (y->rank != 4) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes images");
  if (operands == RDT_NATIVE_REAL && x->shape[1] < RDT_NATIVE_CHANNELS)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "fewer than %d channels are too short for the inner loop",
                    RDT_NATIVE_CHANNELS);
  if (!w->data) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes fixed weights");
  if (p->window.groups != 1) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes one group");
  if (rdt_tensor_count(x) < 1 || rdt_tensor_count(w) < 1 || rdt_tensor_count(y) < 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes no empty operand");
  if ((x->shape[1] > 1 && x->stride[1] != 1) || !has_pixels(y) || (r->rank >= 0 && !has_pixels(r)))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes channels side by side in memory");
  return RDT_OK;
}

static rdt_status create_as(const rdt_problem *p, int threads, bool dot, void **state, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out;
  rdt_native *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a kernel's state");
  const int64_t taps = w->shape[2] * w->shape[3];
  s->window = p->window;
  s->dtype = x->dtype;
  s->dot = dot;
  s->ic = x->shape[1];
  s->ih = x->shape[2];
  s->iw = x->shape[3];
  s->oh = y->shape[2];
  s->ow = y->shape[3];
  s->m = y->shape[0] * s->oh * s->ow;
  s->n = y->shape[1];
  s->k = s->ic * taps;
  s->segments = taps;
  s->length = s->ic;
  s->threads = threads < 1 ? 1 : threads;
  s->point = point;
  s->step = 1;
  s->stride[0] = x->stride[0];
  s->stride[1] = x->stride[2];
  s->stride[2] = x->stride[3];
  s->apart = x->stride[3] * s->window.stride[1];
  s->plane = s->oh * s->ow;
  s->batches = 1;
  s->row_dim = 3;
  const rdt_status status = rdt_native_init(s, true, why);
  if (status != RDT_OK) {
    rdt_native_destroy(s);
    return status;
  }
  rdt_native_pack(s, w, offset);
  *state = s;
  return RDT_OK;
}

#define ROW(NAME, OPERANDS)                                                                           \
  static rdt_status accept_##NAME(const rdt_problem *p, rdt_reason *why) {                            \
    return accept_as(p, OPERANDS, why);                                                               \
  }                                                                                                   \
  static rdt_status create_##NAME(const rdt_problem *p, int threads, void **state, rdt_reason *why) { \
    return create_as(p, threads, (OPERANDS) == RDT_NATIVE_DOT, state, why);                           \
  }                                                                                                   \
                                                                                                      \
  const rdt_kernel rdt_kernel_##NAME = {.name = #NAME,                                                \
                                        .op = RDT_KOP_CONV,                                           \
                                        .accept = accept_##NAME,                                      \
                                        .create = create_##NAME,                                      \
                                        .fuses = RDT_FORM_ROWS | RDT_FORM_CHECKPOINTS,                \
                                        .accept_fused = accept_##NAME,                                \
                                        .pack = pack,                                                 \
                                        RDT_NATIVE_ROW}

ROW(conv_f32_native, RDT_NATIVE_REAL);
ROW(conv_half_native, RDT_NATIVE_HALF);
ROW(conv_bf16_native, RDT_NATIVE_DOT);
