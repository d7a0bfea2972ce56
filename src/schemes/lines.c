#include "schemes/lines.h"

#include "core/memory.h"

typedef struct state {
  const rdt_problem *p;
  const rdt_operands *o;
  int64_t m, n, k; /* of one matrix of a batch; convolution: all pixels, all channels, k of a group */
  double memory[]; /* 4 k */
} state;

static double load(const rdt_tensor *t, int64_t offset) {
  return rdt_load(t->data, t->dtype, offset);
}

static double *scratch(void *self) {
  return ((state *)self)->memory;
}

/* ---- products ---- */

/* Offset in t of the matrix that holds a row of the batch. */
static int64_t matrix_at(const state *s, const rdt_tensor *t, int64_t row) {
  int64_t batch = row / s->m, offset = 0;
  for (int d = t->rank - 3; d >= 0; d--) {
    offset += batch % s->o->out.shape[d] * t->stride[d];
    batch /= s->o->out.shape[d];
  }
  return offset;
}

static void product_span(void *self, int axis, int64_t at, int64_t *from, int64_t *to) {
  const state *s = self;
  *from = axis == 0 ? at / s->m * s->m : 0;
  *to = *from + (axis == 0 ? s->m : s->n);
}

static void product_operand(void *self, int axis, const int64_t place[2], double *line) {
  const state *s = self;
  const rdt_tensor *t = &s->o->in[axis];
  const int64_t *along = &t->stride[t->rank - 2], at = axis == 0 ? place[0] % s->m : place[1];
  const int64_t first = matrix_at(s, t, place[0]) + at * along[axis];
  for (int64_t i = 0; i < s->k; i++) line[i] = load(t, first + i * along[1 - axis]) - s->p->zero[axis];
}

static int64_t product_offset(const state *s, const int64_t place[2]) {
  const rdt_tensor *t = &s->o->out;
  return matrix_at(s, t, place[0]) + place[0] % s->m * t->stride[t->rank - 2] + place[1] * t->stride[t->rank - 1];
}

/* ---- convolutions ---- */

static void conv_span(void *self, int axis, int64_t at, int64_t *from, int64_t *to) {
  const state *s = self;
  const int64_t group = s->n / s->p->window.groups;
  *from = axis == 0 ? 0 : at / group * group;
  *to = *from + (axis == 0 ? s->m : group);
}

/* Where an output pixel lies in the image: coordinates of the spatial dimensions; returns the image. */
static int64_t pixel_of(const rdt_tensor *out, int64_t row, int64_t at[RDT_MAX_SPATIAL]) {
  for (int d = out->rank - 1; d >= 2; d--) {
    at[d - 2] = row % out->shape[d];
    row /= out->shape[d];
  }
  return row;
}

/* The element of the input (its first channel) that tap `tap` meets at an output pixel; false: padding. */
static bool tap_at(const state *s, const int64_t at[RDT_MAX_SPATIAL], int64_t tap, int64_t *offset) {
  const rdt_tensor *x = &s->o->in[0];
  const rdt_window *w = &s->p->window;
  *offset = 0;
  for (int d = x->rank - 3; d >= 0; d--) {
    const int64_t i = at[d] * w->stride[d] + tap % w->kernel[d] * w->dilation[d] - w->before[d];
    tap /= w->kernel[d];
    if (i < 0 || i >= x->shape[2 + d]) return false;
    *offset += i * x->stride[2 + d];
  }
  return true;
}

static int64_t filter_tap(const rdt_tensor *w, int64_t tap) {
  int64_t offset = 0;
  for (int d = w->rank - 1; d >= 2; d--) {
    offset += tap % w->shape[d] * w->stride[d];
    tap /= w->shape[d];
  }
  return offset;
}

/* The channel runs fastest, over the input channels of the column's group. */
static void conv_operand(void *self, int axis, const int64_t place[2], double *line) {
  const state *s = self;
  const rdt_tensor *x = &s->o->in[0], *w = &s->o->in[1];
  const int64_t channels = w->shape[1], group = place[1] / (s->n / s->p->window.groups);
  int64_t at[RDT_MAX_SPATIAL] = {0}, offset = 0;
  const int64_t image = pixel_of(&s->o->out, place[0], at);
  const int64_t first = axis == 0 ? image * x->stride[0] + group * channels * x->stride[1] : place[1] * w->stride[0];
  for (int64_t tap = 0; tap < rdt_tensor_pixels(w); tap++, line += channels) {
    const bool there = axis == 1 || tap_at(s, at, tap, &offset);
    if (axis == 1) offset = filter_tap(w, tap);
    for (int64_t c = 0; c < channels; c++)
      line[c] = there ? load(&s->o->in[axis], first + offset + c * s->o->in[axis].stride[1]) - s->p->zero[axis] : 0.0;
  }
}

static int64_t conv_offset(const state *s, const int64_t place[2]) {
  const rdt_tensor *t = &s->o->out;
  int64_t at[RDT_MAX_SPATIAL] = {0};
  int64_t offset = pixel_of(t, place[0], at) * t->stride[0] + place[1] * t->stride[1];
  for (int d = 2; d < t->rank; d++) offset += at[d - 2] * t->stride[d];
  return offset;
}

/* ---- both ---- */

static int64_t offset_of(const state *s, const int64_t place[2]) {
  return s->p->op == RDT_KOP_CONV ? conv_offset(s, place) : product_offset(s, place);
}

static double load_result(void *self, const int64_t place[2]) {
  const state *s = self;
  return load(&s->o->out, offset_of(s, place));
}

static void store_result(void *self, const int64_t place[2], double value) {
  const state *s = self;
  rdt_store(s->o->out.data, s->o->out.dtype, offset_of(s, place), value);
}

rdt_status rdt_lines_create(const rdt_problem *p, const rdt_operands *o, double lambda, rdt_lines *l, rdt_reason *why) {
  const bool conv = p->op == RDT_KOP_CONV;
  const double u = rdt_dtype_info(RDT_F64)->u;
  int64_t m, n, k;
  rdt_problem_mnk(p, &m, &n, &k);
  if (!conv) m = o->out.shape[o->out.rank - 2];
  state *s = rdt_calloc(1, sizeof *s + 4 * (size_t)k * sizeof(double));
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for checksums to rebuild a result from");
  *s = (state){.p = p, .o = o, .m = m, .n = n, .k = k};
  *l = (rdt_lines){.self = s,
                   .k = k,
                   .acc = p->acc,
                   .tol = {.acc = rdt_accumulator_of(p->in[0].dtype, p->acc),
                           .k = k,
                           .u_check = u,
                           .depth_beta = RDT_CORRECT_BLOCK,
                           .lambda = lambda},
                   .span = conv ? conv_span : product_span,
                   .operand = conv ? conv_operand : product_operand,
                   .scratch = scratch,
                   .load = load_result,
                   .store = store_result};
  return RDT_OK;
}

void rdt_lines_destroy(rdt_lines *l) {
  rdt_free(l->self);
}
