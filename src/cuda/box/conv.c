#include <cuda_runtime_api.h>
#include <limits.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/dnn.h"

struct rdt_box_conv {
  rdt_dnn *dnn;
  bool protect;
  bool inside, whole; /* as of products */
  bool flat, packed;
  rdt_dtype type;
  int threads; /* of a band */
  rdt_bands_args check;
  const void *code;
  void *raw; /* NULL: it is the result */
  rdt_box_tail tail;
  /* Filters with channels side by side, where the images lie so: the library would turn them around in every run. NULL:
   * they are as they are wanted. */
  void *filters;
  rdt_tensor filters_like;
  rdt_box_tail turn;
  rdt_cuda_verdict *verdict;
};

/* ---- what a problem is ---- */

/* An image whose pixels lie in order at one distance, with channels side by side or each in a plane. */
static bool side_of(const rdt_tensor *t, rdt_band_side *s) {
  const int last = t->rank - 1;
  int64_t pixels = 1, step = 0;
  bool dense = true;
  for (int d = last; d >= 2; d--) {
    if (t->shape[d] > 1 && !step) step = t->stride[d] / pixels;
    dense = dense && (t->shape[d] == 1 || t->stride[d] == step * pixels);
    pixels *= t->shape[d];
  }
  *s = (rdt_band_side){.channels = (int)t->shape[1],
                       .unit = (int)(pixels / t->shape[2]),
                       .image = t->stride[0],
                       .pixel = step ? step : t->shape[1],
                       .channel = t->stride[1]};
  s->last = t->shape[1] == 1 || t->stride[1] == 1;
  if (s->last && s->pixel < s->channels) s->last = 0; /* one line of pixels and channels alike */
  if (!s->last && s->pixel != 1 && step) return false;
  const bool gapless = s->last && s->pixel == s->channels;
  const int64_t strides = gapless   ? (int64_t)s->unit * s->channels
                          : s->last ? s->pixel | s->channels
                                    : s->channel | s->unit;
  s->vectors = (s->image | strides) % 4 == 0;
  return dense;
}

rdt_status rdt_box_conv_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_status no = RDT_ERR_UNSUPPORTED;
  rdt_band_side side;
  RDT_TRY(rdt_dnn_accept(p, why));
  RDT_TRY(rdt_box_finish_accept(p, why));
  if (!side_of(&p->in[0], &side) || !side_of(&p->out, &side))
    return rdt_fail(why, no, "images on the GPU are rows of pixels without gaps between lines, or of channels");
  const rdt_tensor *r = &p->epilogue.residual;
  if (r->rank >= 0 && (r->dtype != p->out.dtype || !rdt_tensor_same_strides(r, &p->out)))
    return rdt_fail(why, no, "a residual of a convolution on the GPU lies as the result does");
  int64_t m, n, k;
  rdt_problem_mnk(p, &m, &n, &k);
  if (m > INT_MAX / 2 || k > INT_MAX / 2) return rdt_fail(why, no, "convolutions on the GPU have up to 2^30 pixels");
  return RDT_OK;
}

/* ---- making ready ---- */

static rdt_band_axis axis_of(const rdt_problem *p, int d) {
  const rdt_window *w = &p->window;
  if (d + 2 >= p->out.rank) return (rdt_band_axis){1, 1, 1, 1, 1, 0};
  return (rdt_band_axis){.in = (int)p->in[0].shape[2 + d],
                         .out = (int)p->out.shape[2 + d],
                         .taps = (int)p->in[1].shape[2 + d],
                         .stride = (int)w->stride[d],
                         .dilation = (int)w->dilation[d],
                         .pad = (int)w->before[d]};
}

/* So many lines that each multiprocessor gets two bands at least, where there are as many. */
static int lines_of(const rdt_cuda_device *d, const rdt_bands_args *a) {
  const int64_t lines = (int64_t)a->images * a->axis[0].out / (2 * d->sms);
  return lines < 1 ? 1 : lines > a->axis[0].out ? a->axis[0].out : (int)lines;
}

/* A power of two, so that a thread takes a few vectors of what there is more of. */
static int threads_of(const rdt_bands_args *a) {
  const int64_t in = (a->in.vectors ? 1 : 4) * a->pitch;
  const int64_t out = (a->result.vectors ? 1 : 4) * (int64_t)a->lines * a->result.unit * a->result.channels;
  int threads = RDT_BOX_THREADS;
  while (threads < RDT_BANDS_THREADS && (in > out ? in : out) > 8 * threads) threads *= 2;
  return threads;
}

static rdt_status tolerance_of(const rdt_cuda_device *d, const rdt_problem *p, const rdt_box_conv *b, bool adds,
                               double lambda, rdt_tolerance *t, rdt_reason *why) {
  const rdt_bands_args *a = &b->check;
  const rdt_dtype type = p->in[0].dtype, stored = RDT_F32, check = rdt_dtype_is_half(type) ? RDT_F32 : RDT_F64;
  const int64_t outputs = (int64_t)a->lines * a->result.unit * a->result.channels, tree = 7;
  const int64_t vector = b->flat ? 16 / (int64_t)rdt_dtype_size(type) : 4, step = vector * b->threads;
  int64_t m, n, k;
  rdt_problem_mnk(p, &m, &n, &k);
  *t = (rdt_tolerance){.acc = rdt_accumulator_of(type, p->acc),
                       .k = k,
                       .u_check = rdt_dtype_info(check)->u,
                       .u_beta = rdt_dtype_info(stored)->u,
                       .depth_dot = (a->pitch + step - 1) / step * vector + tree,
                       .depth_sum = (outputs + step - 1) / step * vector + tree,
                       .lambda = lambda};
  if (check == RDT_F64) t->depth_dot += b->threads / 32, t->depth_sum += b->threads / 32;
  if (rdt_dtype_is_half(type)) {
    RDT_TRY(rdt_box_accumulator(d, type, false, &t->acc, why)); /* cuDNN does not tell where it runs */
    t->splits = 32;                                             /* of a black box, at most */
  }
  rdt_box_rounded(t, type, adds, false); /* alpha is 1 inside */
  return RDT_OK;
}

static rdt_status run(const void *code, dim3 grid, int threads, const rdt_bands_args *args, const char *what,
                      void *stream, rdt_reason *why) { /* of weights */
  void *arguments[] = {(void *)args};
  const dim3 block = {(unsigned)threads, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), what, why);
}

/* A curve is evaluated twice where it is applied; a bound by the check. */
static bool joint(const rdt_box_conv *b) {
  return b->raw && b->tail.flat && rdt_box_ends(&b->check.finish) == 2;
}

static rdt_status set_check(rdt_box_conv *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                            rdt_reason *why) {
  rdt_bands_args *a = &b->check;
  const rdt_tensor *w = &p->in[1];
  const rdt_dtype type = p->in[0].dtype;
  void *memory;
  for (int i = 0; i < 3; i++) a->axis[i] = axis_of(p, i);
  a->images = (int)p->out.shape[0], a->groups = (int)p->window.groups;
  side_of(&p->in[0], &a->in), side_of(&p->out, &a->result);
  if (a->result.last && a->result.channels % 4) a->result.vectors = 0; /* each has its own bias */
  a->lines = lines_of(d, a), a->bands = (a->axis[0].out + a->lines - 1) / a->lines;
  a->finish = rdt_box_finish_of(p);
  a->finish.on = b->raw != NULL, a->finish.inside = b->inside;
  a->verdict = b->verdict;
  const rdt_band_side *const sides[] = {&a->in, &a->result}, *y = &a->result;
  const int step = 16 / (int)rdt_dtype_size(type);
  b->flat = (p->epilogue.bias.rank < 0 || p->epilogue.bias.dtype == type) && (!b->raw || (b->inside && b->packed));
  for (int i = 0; i < 2; i++)
    b->flat = b->flat && sides[i]->last && sides[i]->pixel == sides[i]->channels && sides[i]->channels % step == 0 &&
              sides[i]->image % step == 0;
  b->threads = RDT_BOX_THREADS;
  const rdt_rows_matrix like = {.row = y->pixel, .column = y->last ? 1 : y->channel, .outer = y->image};
  const rdt_ends_args ends = {.m = a->axis[0].out * y->unit,
                              .n = y->channels,
                              .batches = a->images,
                              .inner = 1,
                              .raw = like,
                              .residual = like,
                              .out = like,
                              .finish = a->finish};
  rdt_box_tail_of(&b->tail, &ends, type, b->inside && b->packed, b->protect && !b->flat);
  b->code = rdt_bands_check(type, b->flat);
  if (!b->protect) return RDT_OK;
  if (!w->data)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "checks of convolutions on the GPU need weights that are fixed");
  if (a->bands > 65535) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "convolutions on the GPU have up to 65535 lines");
  const rdt_band_axis *x = &a->axis[0];
  int64_t in_lines = (int64_t)(a->lines - 1) * x->stride + (int64_t)(x->taps - 1) * x->dilation + 1;
  if (in_lines > x->in) in_lines = x->in;
  a->pitch = (in_lines * a->in.unit * a->in.channels + 3) / 4 * 4;
  b->threads = threads_of(a);
  const bool adds = b->inside && (p->epilogue.bias.rank >= 0 || p->epilogue.residual.rank >= 0);
  rdt_tolerance t;
  RDT_TRY(tolerance_of(d, p, b, adds, lambda, &t, why));
  a->least2 = rdt_box_least2(&t.acc, type);
  a->bound = rdt_box_bound_of(&t, (int64_t)a->lines * a->result.unit * a->result.channels, adds);
  a->w = w->data, a->w_filter = w->stride[0], a->w_channel = w->stride[1];
  for (int i = 0; i < 3; i++) a->w_tap[i] = i + 2 < w->rank ? w->stride[2 + i] : 0;
  RDT_TRY(rdt_cuda_alloc((size_t)a->pitch * (size_t)a->bands * sizeof(float), &memory, why));
  a->coefficients = memory;
  RDT_TRY(rdt_cuda_alloc(sizeof(float), &memory, why));
  a->most = memory;
  return RDT_OK;
}

static bool turns(const rdt_problem *p) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1];
  int64_t taps = 1;
  for (int d = w->rank - 1; d >= 2; d--) {
    if (w->shape[d] > 1 && w->stride[d] != taps) return false;
    taps *= w->shape[d];
  }
  return w->data && taps > 1 && w->shape[1] > 1 && w->stride[1] == taps && w->stride[0] == taps * w->shape[1] &&
         x->stride[1] == 1 && p->out.stride[1] == 1;
}

static rdt_status turn_filters(const rdt_box_conv *b, const void *weights, void *stream, rdt_reason *why) {
  const rdt_operands o = {.out = {.data = b->filters}};
  return b->filters ? rdt_box_tail_launch(&b->turn, weights, &o, (rdt_box_sum_to){NULL, NULL}, stream, why) : RDT_OK;
}

static rdt_status take_filters(rdt_box_conv *b, const rdt_problem *p, void *stream, rdt_reason *why) {
  const rdt_tensor *w = &p->in[1];
  int64_t taps = 1, step = w->shape[1];
  if (!turns(p)) return RDT_OK;
  b->filters_like = *w;
  b->filters_like.stride[1] = 1;
  for (int d = w->rank - 1; d >= 2; d--) {
    b->filters_like.stride[d] = step;
    step *= w->shape[d], taps *= w->shape[d];
  }
  const rdt_ends_args turn = {.m = (int)taps,
                              .n = (int)w->shape[1],
                              .batches = (int)w->shape[0],
                              .inner = 1,
                              .raw = {.row = 1, .column = taps, .outer = w->stride[0]},
                              .out = {.row = w->shape[1], .column = 1, .outer = w->stride[0]},
                              .finish = {.inside = 1, .out = w->dtype, .act = RDT_FN_NONE}};
  rdt_box_tail_of(&b->turn, &turn, w->dtype, false, false);
  RDT_TRY(rdt_cuda_alloc(rdt_box_bytes_of(w, w->dtype), &b->filters, why));
  return turn_filters(b, w->data, stream, why);
}

rdt_status rdt_box_conv_renew(rdt_box_conv *b, const void *weights, void *stream, rdt_reason *why) {
  rdt_bands_args *a = &b->check;
  RDT_TRY(turn_filters(b, weights, stream, why));
  if (!b->protect) return RDT_OK;
  a->w = weights;
  const dim3 grid = {(unsigned)((a->pitch + RDT_BOX_THREADS - 1) / RDT_BOX_THREADS), (unsigned)a->bands, 1};
  RDT_TRY(rdt_cuda_clear(a->most, sizeof *a->most, stream, why));
  RDT_TRY(run(rdt_bands_coefficients(b->type), grid, RDT_BOX_THREADS, a, "coefficients of a convolution", stream, why));
  return run(rdt_bands_most(b->type), (dim3){(unsigned)a->in.channels, 1, 1}, RDT_BOX_THREADS, a, "squares of filters",
             stream, why);
}

/* All that follows but the activation. */
static bool can_have_inside(const rdt_problem *p) {
  const rdt_epilogue *e = &p->epilogue;
  return e->alpha == 1.0 && (e->bias.rank < 0 || e->bias.dtype == p->out.dtype);
}

static rdt_dnn_operands operands_of(const rdt_box_conv *b, const rdt_operands *o, void *y) {
  return (rdt_dnn_operands){.x = o->in[0].data,
                            .w = b->filters ? b->filters : o->in[1].data,
                            .bias = rdt_box_bias(o),
                            .residual = rdt_box_residual(o),
                            .y = y};
}

static rdt_status connect(rdt_box_conv *b, const rdt_problem *p, void *stream, rdt_reason *why) {
  rdt_box_trial t;
  RDT_TRY(rdt_box_trial_make(p, &t, why));
  const rdt_dnn_operands x = operands_of(b, &t.o, b->raw ? b->raw : t.o.out.data);
  rdt_problem part = *p;
  rdt_tensor in[2] = {p->in[0], b->filters ? b->filters_like : p->in[1]};
  part.in = in;
  if (!b->whole) part.epilogue.act.fn = RDT_FN_NONE;
  const bool fused = b->inside && !rdt_epilogue_is_none(&part.epilogue);
  const rdt_status s = rdt_dnn_create(&part, fused, &x, stream, &b->dnn, why);
  rdt_box_trial_free(&t);
  return s;
}

/* With as much inside as the library has. */
static rdt_status join(rdt_box_conv *b, const rdt_problem *p, void *stream, rdt_reason *why) {
  const rdt_fn act = p->epilogue.act.fn;
  b->inside = can_have_inside(p);
  b->whole = b->inside && !b->protect && act == RDT_FN_RELU;
  if (b->whole && connect(b, p, stream, why) == RDT_OK) return RDT_OK;
  b->whole = false; /* a pass of ours */
  if (!b->inside || act != RDT_FN_NONE) RDT_TRY(rdt_cuda_alloc(rdt_box_bytes_of(&p->out, p->out.dtype), &b->raw, why));
  if (b->inside && connect(b, p, stream, why) == RDT_OK) return RDT_OK;
  b->inside = false;
  if (!b->raw) RDT_TRY(rdt_cuda_alloc(rdt_box_bytes_of(&p->out, p->out.dtype), &b->raw, why));
  return connect(b, p, stream, why);
}

static rdt_status prepare(rdt_box_conv *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda, void *stream,
                          rdt_reason *why) {
  void *memory;
  RDT_TRY(rdt_cuda_alloc(sizeof *b->verdict, &memory, why));
  b->verdict = memory;
  b->packed = rdt_tensor_is_packed(&p->out);
  b->type = p->in[0].dtype;
  RDT_TRY(take_filters(b, p, stream, why));
  RDT_TRY(join(b, p, stream, why));
  RDT_TRY(set_check(b, d, p, lambda, why));
  if (p->in[1].data) RDT_TRY(rdt_box_conv_renew(b, p->in[1].data, stream, why));
  return rdt_cuda_wait(stream, why);
}

rdt_status rdt_box_conv_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                               void *stream, rdt_box_conv **out, rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_box_conv_accept(p, why));
  rdt_box_conv *b = rdt_calloc(1, sizeof *b);
  if (!b) return rdt_fail(why, RDT_ERR_NOMEM, "a convolution: out of memory");
  b->protect = protect;
  const rdt_status s = prepare(b, d, p, lambda, stream, why);
  if (s != RDT_OK) {
    rdt_box_conv_destroy(b);
    return s;
  }
  *out = b;
  return RDT_OK;
}

/* ---- running ---- */

rdt_status rdt_box_conv_launch(rdt_box_conv *b, const rdt_operands *o, rdt_box_sum_to to, void *stream,
                               rdt_reason *why) {
  const rdt_dnn_operands x = operands_of(b, o, b->raw ? b->raw : o->out.data);
  const void *const data[] = {x.x, x.w, x.bias, x.residual, o->out.data};
  for (int i = 0; i < 5; i++)
    if (!rdt_box_aligned(data[i]))
      return rdt_fail(why, RDT_ERR_ARG, "a convolution on the GPU: operands lie at multiples of 16 bytes");
  const rdt_box_sum_to nowhere = {NULL, NULL};
  RDT_TRY(rdt_dnn_launch(b->dnn, &x, stream, why));
  return b->raw ? rdt_box_tail_launch(&b->tail, b->raw, o, joint(b) ? to : nowhere, stream, why) : RDT_OK;
}

static int64_t blocks_of(const rdt_box_conv *b) {
  return (int64_t)b->check.images * b->check.bands;
}

int64_t rdt_box_conv_blocks(const rdt_box_conv *b) {
  if (!b->protect) return 0;
  return joint(b) ? b->tail.blocks : b->flat && b->packed ? blocks_of(b) : 0;
}

rdt_status rdt_box_conv_check(const rdt_box_conv *b, const rdt_operands *o, rdt_box_sum_to to, rdt_box_batch *batch,
                              rdt_reason *why) {
  if (!b->protect) return RDT_OK;
  rdt_bands_args c = b->check;
  c.x = o->in[0].data, c.raw = b->raw ? b->raw : o->out.data, c.out = o->out.data;
  c.residual = rdt_box_residual(o), c.finish.bias = rdt_box_bias(o);
  if (!joint(b)) c.to = to;
  return rdt_box_batch_bands(batch, b->code, (unsigned)b->threads, (unsigned)blocks_of(b), &c, why);
}

rdt_cuda_verdict *rdt_box_conv_verdict(const rdt_box_conv *b) {
  return b->verdict;
}

void rdt_box_conv_destroy(rdt_box_conv *b) {
  if (!b) return;
  rdt_dnn_destroy(b->dnn);
  rdt_cuda_free(b->raw), rdt_cuda_free(b->filters), rdt_cuda_free(b->check.coefficients), rdt_cuda_free(b->check.most),
      rdt_cuda_free(b->verdict);
  rdt_free(b);
}
