/* Convolutions of few channels, of 16 bits, as ones of RDT_FOLD_LINE channels with a column of taps: the images are
 * folded (fold.h), and a kernel on wgmma does the rest (fused_wide.c). What it reads is the copy, of which the check
 * forms the bit-sum that the images should have: whatever happened to them, to the copy or on the way is seen. */
#include <cuda_runtime_api.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/box/fold.h"

enum { MOST_BLOCKS = 528 }; /* of a pass */

struct rdt_box_folded {
  rdt_box_wide *wide;
  rdt_fold_args fold;
  rdt_fold_filters_args filters;
  int stride;
  bool protect;
  bool sums;     /* the images lie without gaps, and all of them is in the copy */
  rdt_tensor in; /* the copy, as the other convolution sees it */
  unsigned blocks;
};

/* ---- what a problem is ---- */

static int depth_of(int64_t stride) { /* channels of a pixel of the copy */
  return stride == 1 ? 8 : 4;
}

rdt_status rdt_box_folded_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_window *w = &p->window;
  const rdt_tensor *x = &p->in[0];
  const int64_t s = w->stride[0];
  if (p->op != RDT_KOP_CONV || x->rank != 4 || w->groups != 1 || w->stride[1] != s || (s != 1 && s != 2) ||
      w->dilation[0] != 1 || w->dilation[1] != 1 || x->shape[1] > depth_of(s))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "only images of few channels are folded, by strides of 1 or 2");
  if (p->in[1].shape[3] > RDT_FOLD_LINE / (s * depth_of(s)))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "windows of folded convolutions are at most eight pixels wide");
  return RDT_OK;
}

/* The convolution of the copy; in: room for its operands. */
static rdt_problem other(const rdt_box_folded *b, const rdt_problem *p, rdt_tensor *in) {
  rdt_problem q = *p;
  q.in = in;
  in[0] = b->in;
  in[1] = rdt_tensor_dense(b->filters.copy, p->in[1].dtype, 4,
                           (int64_t[]){b->filters.filters, RDT_FOLD_LINE, b->filters.lines, 1});
  in[1].stride[1] = 1, in[1].stride[2] = RDT_FOLD_LINE, in[1].stride[3] = 1;
  q.window = (rdt_window){.groups = 1};
  for (int d = 0; d < 2; d++) q.window.kernel[d] = in[1].shape[2 + d], q.window.stride[d] = q.window.dilation[d] = 1;
  return q;
}

/* ---- making ready ---- */

static rdt_status run(const void *code, int64_t threads, unsigned most, const void *args, void *stream,
                      rdt_reason *why) {
  void *arguments[] = {(void *)(uintptr_t)args};
  const int64_t blocks = (threads + RDT_BOX_THREADS - 1) / RDT_BOX_THREADS;
  const dim3 grid = {blocks < most ? (unsigned)blocks : most, 1, 1}, block = {RDT_BOX_THREADS, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "a folded convolution", why);
}

static rdt_status fold_filters(const rdt_box_folded *b, const void *weights, void *stream, rdt_reason *why) {
  rdt_fold_filters_args f = b->filters;
  f.w = weights;
  return run(rdt_fold_kernel(RDT_FOLD_FILTERS, b->stride), (int64_t)f.filters * f.lines * RDT_FOLD_LINE, 65535, &f,
             stream, why);
}

static rdt_status prepare(rdt_box_folded *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                          const rdt_operands *trial, void *stream, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1];
  const int s = b->stride = (int)p->window.stride[0], block = s * s * depth_of(s);
  void *memory;
  b->filters = (rdt_fold_filters_args){.filters = (int)w->shape[0],
                                       .channels = (int)w->shape[1],
                                       .taps = {(int)w->shape[2], (int)w->shape[3]},
                                       .lines = (int)(w->shape[2] + s - 1) / s,
                                       .filter = w->stride[0],
                                       .channel = w->stride[1],
                                       .line = w->stride[2],
                                       .pixel = w->stride[3]};
  b->fold = (rdt_fold_args){.images = (int)x->shape[0],
                            .channels = (int)x->shape[1],
                            .in = {(int)x->shape[2], (int)x->shape[3]},
                            .image = x->stride[0],
                            .channel = x->stride[1],
                            .line = x->stride[2],
                            .pixel = x->stride[3],
                            .tall = (int)p->out.shape[2] - 1 + b->filters.lines,
                            .wide = (int)p->out.shape[3] - 1 + RDT_FOLD_LINE / block,
                            .before = {(int)p->window.before[0], (int)p->window.before[1]}};
  const rdt_fold_args *f = &b->fold;
  const int64_t numbers = (int64_t)f->images * f->tall * f->wide * block;
  b->sums = rdt_tensor_is_packed(x) && f->tall * s >= f->in[0] + f->before[0] && f->wide * s >= f->in[1] + f->before[1];
  const int64_t blocks = (numbers / 8 + RDT_BOX_THREADS - 1) / RDT_BOX_THREADS;
  b->blocks = blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
  RDT_TRY(rdt_cuda_alloc((size_t)numbers * 2, &memory, why));
  b->fold.copy = memory;
  RDT_TRY(rdt_cuda_alloc((size_t)b->filters.filters * (size_t)b->filters.lines * RDT_FOLD_LINE * 2, &memory, why));
  b->filters.copy = memory;
  b->in = (rdt_tensor){.data = b->fold.copy, .dtype = x->dtype, .rank = 4};
  const int64_t shape[] = {f->images, RDT_FOLD_LINE, f->tall, p->out.shape[3]};
  const int64_t stride[] = {(int64_t)f->tall * f->wide * block, 1, (int64_t)f->wide * block, block};
  for (int i = 0; i < 4; i++) b->in.shape[i] = shape[i], b->in.stride[i] = stride[i];
  rdt_tensor in[2];
  const rdt_problem q = other(b, p, in);
  RDT_TRY(rdt_box_fused_accept(&q, why));
  RDT_TRY(fold_filters(b, w->data, stream, why));
  rdt_operands o = *trial;
  o.in = in;
  RDT_TRY(rdt_box_wide_create(d, &q, b->protect, lambda, &o, stream, &b->wide, why));
  b->fold.verdict = rdt_box_wide_verdict(b->wide);
  return RDT_OK;
}

rdt_status rdt_box_folded_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                                 const rdt_operands *trial, void *stream, rdt_box_folded **out, rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_box_folded_accept(p, why));
  if (!rdt_dtype_is_half(p->in[0].dtype) || p->in[1].dtype != p->in[0].dtype || !p->in[1].data)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "folded convolutions are of 16 bits, with fixed weights of that type");
  rdt_box_folded *b = rdt_calloc(1, sizeof *b);
  if (!b) return rdt_fail(why, RDT_ERR_NOMEM, "a folded convolution: out of memory");
  b->protect = protect;
  const rdt_status s = prepare(b, d, p, lambda, trial, stream, why);
  if (s != RDT_OK) {
    rdt_box_folded_destroy(b);
    return s;
  }
  *out = b;
  return RDT_OK;
}

rdt_status rdt_box_folded_renew(const rdt_box_folded *b, const void *weights, void *stream, rdt_reason *why) {
  RDT_TRY(fold_filters(b, weights, stream, why));
  return rdt_box_wide_renew(b->wide, b->filters.copy, stream, why);
}

/* ---- running ---- */

rdt_status rdt_box_folded_launch(const rdt_box_folded *b, const rdt_operands *given, void *stream, rdt_reason *why) {
  rdt_fold_args f = b->fold;
  rdt_tensor in[2] = {b->in, {.data = b->filters.copy}};
  rdt_operands o = *given;
  o.in = in;
  f.x = given->in[0].data;
  RDT_TRY(run(rdt_fold_kernel(RDT_FOLD_IMAGES, b->stride),
              (int64_t)f.images * f.tall * f.wide * b->stride * b->stride * depth_of(b->stride) / 8, MOST_BLOCKS, &f,
              stream, why));
  return rdt_box_wide_launch(b->wide, &o, stream, why);
}

int64_t rdt_box_folded_blocks(const rdt_box_folded *b) {
  return b->protect ? rdt_box_wide_blocks(b->wide) + b->blocks : 0;
}

unsigned rdt_box_folded_reads(const rdt_box_folded *b) {
  return rdt_box_wide_reads(b->wide) | (b->protect && b->sums ? RDT_BOX_READS_IN : 0);
}

rdt_status rdt_box_folded_check(const rdt_box_folded *b, const rdt_operands *o, rdt_box_sum_to to,
                                uint64_t *const read[2], rdt_box_batch *batch, rdt_reason *why) {
  rdt_fold_args f = b->fold;
  uint64_t *const rest[2] = {NULL, read[1]};
  if (!b->protect) return RDT_OK;
  f.x = o->in[0].data, f.read = read[0], f.visits = to.visits;
  RDT_TRY(rdt_box_wide_check(b->wide, to, rest, batch, why));
  return rdt_box_batch_fold(batch, rdt_fold_kernel(RDT_FOLD_CHECK, b->stride), b->blocks, &f, why);
}

/* Of a weight by its number in taps x channels. */
void *rdt_box_folded_copy(const rdt_box_folded *b, int64_t k, int64_t column) {
  const rdt_fold_filters_args *f = &b->filters;
  const int64_t s = b->stride, depth = depth_of(s), c = k % f->channels, y = k / f->channels / f->taps[1],
                x = k / f->channels % f->taps[1];
  const int64_t number = y / s * RDT_FOLD_LINE + x / s * s * s * depth + (y % s * s + x % s) * depth + c;
  return rdt_box_wide_copy(b->wide, number, column);
}

const char *rdt_box_folded_kernel(const rdt_box_folded *b) {
  return rdt_box_wide_kernel(b->wide);
}

rdt_cuda_verdict *rdt_box_folded_verdict(const rdt_box_folded *b) {
  return rdt_box_wide_verdict(b->wide);
}

void rdt_box_folded_destroy(rdt_box_folded *b) {
  if (!b) return;
  rdt_box_wide_destroy(b->wide);
  rdt_cuda_free(b->fold.copy), rdt_cuda_free(b->filters.copy);
  rdt_free(b);
}
