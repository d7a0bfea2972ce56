/* Reference convolution: a product of gathered windows (rows: output pixels, k: taps, then ic) and filters; each image
 * and group is one product. */
#include <string.h>

#include "cpu/generic/product.h"
#include "cpu/generic/state.h"

typedef struct geometry {
  int64_t image, group, ic; /* ic of a group */
} geometry;

static geometry geometry_of(const rdt_product *q, int64_t batch) {
  const int64_t groups = q->p->window.groups;
  return (geometry){.image = batch / groups, .group = batch % groups, .ic = q->o->in[1].shape[1]};
}

/* What a tap of the window that begins at first sees: the pixel's offset; false: nothing. */
static bool seen(const rdt_tensor *x, const rdt_window *w, const int64_t *first, const int64_t *tap, int64_t *offset) {
  *offset = 0;
  for (int d = 0; d < x->rank - 2; d++) {
    const int64_t at = first[d] + tap[d] * w->dilation[d];
    if (at < 0 || at >= x->shape[2 + d]) return false;
    *offset += at * x->stride[2 + d];
  }
  return true;
}

/* k runs over (taps, ic): calls for each piece of one tap */
static void load_a(const rdt_product *q, int64_t batch, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to,
                   int64_t ld) {
  const geometry g = geometry_of(q, batch);
  const rdt_tensor *x = &q->o->in[0];
  const rdt_window *win = &q->p->window;
  const int64_t size = (int64_t)rdt_dtype_size(rdt_compute_type(x->dtype));
  const int64_t base = g.image * x->stride[0] + g.group * g.ic * x->stride[1];
  for (int64_t r = 0; r < rows; r++) {
    int64_t first[RDT_MAX_SPATIAL], tap[RDT_MAX_SPATIAL], offset;
    rdt_pixel_place(&q->o->out, i + r, first);
    for (int d = 0; d < x->rank - 2; d++) first[d] = first[d] * win->stride[d] - win->before[d];
    char *row = (char *)to + r * ld * size;
    for (int64_t at = k, left = depth; left > 0;) {
      const int64_t c = at % g.ic, n = g.ic - c < left ? g.ic - c : left;
      rdt_pixel_place(&q->o->in[1], at / g.ic, tap);
      if (seen(x, win, first, tap, &offset)) {
        q->load[0](row, rdt_at(x, base + c * x->stride[1] + offset), x->stride[1], n);
        rdt_product_centre(q, 0, row, n);
      } else {
        memset(row, 0, (size_t)(n * size));
      }
      row += n * size;
      at += n;
      left -= n;
    }
  }
}

static void load_b(const rdt_product *q, int64_t batch, int64_t k, int64_t depth, int64_t j, int64_t cols, void *to,
                   int64_t ld) {
  const geometry g = geometry_of(q, batch);
  const rdt_tensor *w = &q->o->in[1];
  const int64_t step = ld * (int64_t)rdt_dtype_size(rdt_compute_type(w->dtype));
  const int64_t base = (g.group * q->n + j) * w->stride[0];
  for (int64_t r = 0; r < depth; r++) {
    const int64_t tap = (k + r) / g.ic, c = (k + r) % g.ic;
    q->load[1]((char *)to + r * step, rdt_at(w, base + c * w->stride[1] + rdt_pixel_offset(w, tap)), w->stride[0],
               cols);
    rdt_product_centre(q, 1, (char *)to + r * step, cols);
  }
}

static int64_t row(const rdt_product *q, const rdt_tensor *t, int64_t batch, int64_t i) {
  const geometry g = geometry_of(q, batch);
  return g.image * t->stride[0] + g.group * q->n * t->stride[1] + rdt_pixel_offset(t, i);
}

static rdt_product product_of(const rdt_generic *s, const rdt_operands *o) {
  const rdt_tensor *w = &o->in[1], *y = &o->out;
  const int64_t groups = s->p.window.groups;
  return (rdt_product){.p = &s->p,
                       .o = o,
                       .batches = y->shape[0] * groups,
                       .m = rdt_tensor_pixels(y),
                       .n = y->shape[1] / groups,
                       .k = w->shape[1] * rdt_tensor_pixels(w),
                       .column_dim = 1,
                       .channel_groups = groups,
                       .load = {rdt_loader(o->in[0].dtype), rdt_loader(w->dtype)},
                       .load_a = load_a,
                       .load_b = load_b,
                       .row = row};
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_product q = product_of(s, o);
  return rdt_product_run(&q, s->threads, why);
}

static rdt_status run_inject(void *state, const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_product q = product_of(s, o);
  const int64_t pixels = q.m > 0 ? q.m : 1, n = q.n > 0 ? q.n : 1;
  const int64_t plane = hit->element / pixels; /* image * oc + channel = (image * groups + group) * n + j */
  const rdt_product_hit h = {plane / n, hit->element % pixels, plane % n, hit};
  return rdt_product_run_inject(&q, s->threads, &h, why);
}

const rdt_kernel rdt_kernel_conv_generic = {.name = "conv_generic",
                                            .op = RDT_KOP_CONV,
                                            .isa = RDT_ISA_GENERIC,
                                            .deterministic = true,
                                            .accept = rdt_product_accept,
                                            .create = rdt_generic_create,
                                            .run = run,
                                            .run_inject = run_inject,
                                            .fixed = rdt_generic_fixed,
                                            .destroy = rdt_generic_destroy};
