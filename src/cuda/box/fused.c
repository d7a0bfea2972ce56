/* Convolutions and products of 16 bits that one own kernel computes with all that follows. The kernel leaves signed
 * sums of what it has accumulated; the check, apart, forms what they should be from what went in, and the bit-sum of
 * that in the same pass. */
#include <cuda_runtime_api.h>
#include <limits.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/box/fused.h"
#include "cuda/trial.h"

struct rdt_box_fused {
  const rdt_fused_kernel *kernel;
  rdt_fused_args args;
  bool protect;
  bool packed; /* input and result have no gaps */
  rdt_dtype type;
  void *filters; /* taps x channels x filters; NULL: the weights lie so */
  rdt_box_tail turn;
  bool windows; /* checked in bands, else in rows */
  rdt_rows_args rows, sums;
  int rows_each; /* of a group */
  rdt_bands_args bands;
  int threads; /* of a band */
  rdt_accumulator acc;
  rdt_cuda_verdict *verdict;
};

/* ---- what a problem is ---- */

/* Where matrices lie: rows at one distance, elements side by side. */
typedef struct rows_at {
  int64_t count, step;
} rows_at;

static bool rows_of(const rdt_tensor *t, int columns, rows_at *r) { /* columns: the dimension that rows run along */
  const int64_t width = t->shape[columns];
  int64_t count = 1, step = 0;
  if (t->stride[columns] != 1 && width > 1) return false;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == columns) continue;
    if (t->shape[d] > 1) {
      if (!step) step = t->stride[d] / count;
      if (t->stride[d] != step * count) return false;
    }
    count *= t->shape[d];
  }
  *r = (rows_at){count, step ? step : width};
  return r->step >= width && r->step % 8 == 0 && width % 8 == 0;
}

static rdt_status refuse(rdt_reason *why, const char *text) {
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s", text);
}

static bool is_conv(const rdt_problem *p) {
  return p->op == RDT_KOP_CONV;
}

rdt_status rdt_box_fused_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out;
  const rdt_epilogue *e = &p->epilogue;
  const int channel = is_conv(p) ? 1 : y->rank - 1;
  rows_at r;
  if (!is_conv(p) && p->op != RDT_KOP_GEMM) return refuse(why, "only convolutions and products are fused");
  if (!rdt_dtype_is_half(x->dtype) || w->dtype != x->dtype || y->dtype != x->dtype)
    return refuse(why, "operands of fused kernels are of one type of 16 bits");
  if (!w->data) return refuse(why, "fused kernels take fixed weights");
  if (p->zero[0] || p->zero[1] || e->factor.rank >= 0) return refuse(why, "fused kernels do not quantise");
  RDT_TRY(rdt_box_finish_accept(p, why));
  if (y->rank < 2 || x->rank != y->rank || !rows_of(y, channel, &r))
    return refuse(why, "results of fused kernels have their channels side by side, in multiples of eight");
  if (r.count * r.step > INT_MAX / 4) return refuse(why, "fused kernels take less than 2^29 elements");
  if (e->bias.rank >= 0 && (e->bias.dtype != x->dtype || (e->bias.shape[0] > 1 && e->bias.stride[0] != 1) ||
                            e->bias.shape[0] != y->shape[channel]))
    return refuse(why, "a bias of another type");
  if (e->residual.rank >= 0 &&
      (e->residual.dtype != x->dtype || e->residual.rank != y->rank || !rows_of(&e->residual, channel, &r)))
    return refuse(why, "a residual that does not lie as the result");
  for (int d = 0; e->residual.rank >= 0 && d < y->rank; d++)
    if (e->residual.shape[d] != y->shape[d]) return refuse(why, "a residual of another shape");
  if (is_conv(p)) {
    if (y->rank != 4 || p->window.groups != 1) return refuse(why, "fused convolutions have two dimensions, no groups");
    if (x->stride[1] != 1 || x->shape[1] % 8 || x->stride[0] % 8 || x->stride[2] % 8 || x->stride[3] % 8)
      return refuse(why, "images of fused convolutions have their channels side by side, in multiples of eight");
    for (int d = 0; d < 4; d++)
      if (x->stride[d] > INT_MAX / 4 || x->shape[d] * x->stride[d] > INT_MAX / 4)
        return refuse(why, "fused kernels take less than 2^29 elements");
    return RDT_OK;
  }
  if (!rows_of(x, x->rank - 1, &r) || r.count * r.step > INT_MAX / 4)
    return refuse(why, "rows of fused products have their elements side by side, in multiples of eight");
  for (int d = 0; d < w->rank - 2; d++)
    if (w->shape[d] != 1 && w->stride[d] != 0) return refuse(why, "fused kernels take no batches of weights");
  return w->rank >= 2 ? RDT_OK : refuse(why, "weights are a matrix");
}

/* ---- making ready ---- */

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}

static rdt_fused_axis axis_of(const rdt_problem *p, int d) {
  const rdt_window *w = &p->window;
  return (rdt_fused_axis){(int)p->in[0].shape[2 + d], (int)p->out.shape[2 + d], (int)p->in[1].shape[2 + d],
                          (int)w->stride[d],          (int)w->dilation[d],      (int)w->before[d]};
}

rdt_fused_args rdt_box_fused_args(const rdt_problem *p, bool *packed) {
  const rdt_epilogue *e = &p->epilogue;
  const rdt_tensor *x = &p->in[0];
  const int channel = is_conv(p) ? 1 : p->out.rank - 1;
  const rdt_fused_axis none = {1, 1, 1, 1, 1, 0};
  rdt_fused_args a = {.axis = {none, none}};
  rows_at y, r;
  rows_of(&p->out, channel, &y);
  a.m = (int)y.count, a.n = (int)p->out.shape[channel], a.ldo = y.step;
  if (e->residual.rank >= 0) rows_of(&e->residual, channel, &r), a.ldr = r.step;
  a.channels = (int)x->shape[is_conv(p) ? 1 : x->rank - 1];
  a.alpha = (float)e->alpha, a.beta = e->residual.rank >= 0 ? (float)e->beta : 0.0f; /* of what is not there: -0 */
  a.finish = rdt_box_finish_of(p);
  if (is_conv(p)) {
    a.axis[0] = axis_of(p, 0), a.axis[1] = axis_of(p, 1);
    a.image = x->stride[0], a.line = x->stride[2], a.pixel = x->stride[3];
  }
  a.plain = rows_of(x, is_conv(p) ? 1 : x->rank - 1, &r) && r.count == a.m;
  for (int d = 0; d < 2; d++) a.plain = a.plain && a.axis[d].taps == 1 && a.axis[d].stride == 1 && !a.axis[d].pad;
  if (a.plain) a.axis[0] = a.axis[1] = none, a.pixel = r.step;
  a.k = a.channels * a.axis[0].taps * a.axis[1].taps;
  *packed = rdt_tensor_is_packed(&p->out) && y.step == a.n;
  return a;
}

rdt_fused_weights rdt_box_fused_weights(const rdt_problem *p) {
  const rdt_tensor *w = &p->in[1];
  rdt_fused_weights at = {.good = true};
  if (is_conv(p)) {
    at.row = w->stride[1], at.column = w->stride[0], at.tap = w->shape[3] > 1 ? w->stride[3] : w->stride[2];
    at.good = w->shape[2] == 1 || w->shape[3] == 1 || w->stride[2] == w->shape[3] * w->stride[3];
  } else {
    at.row = w->stride[w->rank - 2], at.column = w->stride[w->rank - 1];
  }
  return at;
}

static rdt_status turn_weights(const rdt_box_fused *b, const void *weights, void *stream, rdt_reason *why) {
  const rdt_operands o = {.out = {.data = b->filters}};
  return b->filters ? rdt_box_tail_launch(&b->turn, weights, &o, (rdt_box_sum_to){NULL, NULL}, stream, why) : RDT_OK;
}

static rdt_status take_weights(rdt_box_fused *b, const rdt_problem *p, void *stream, rdt_reason *why) {
  const rdt_fused_weights at = rdt_box_fused_weights(p);
  const rdt_fused_args *a = &b->args;
  if (!at.good) return refuse(why, "filters whose taps do not lie at one distance");
  if (!is_conv(p) && at.column == 1 && at.row == a->n) return RDT_OK; /* as wanted */
  const int64_t matrix = (int64_t)a->channels * a->n;
  const rdt_ends_args turn = {.m = a->channels,
                              .n = a->n,
                              .batches = a->k / a->channels,
                              .inner = 1,
                              .raw = {.row = at.row, .column = at.column, .outer = at.tap},
                              .out = {.row = a->n, .column = 1, .outer = matrix},
                              .finish = {.inside = 1, .out = b->type, .act = RDT_FN_NONE}};
  rdt_box_tail_of(&b->turn, &turn, b->type, false, false);
  RDT_TRY(rdt_cuda_alloc((size_t)a->k * (size_t)a->n * 2, &b->filters, why));
  return turn_weights(b, p->in[1].data, stream, why);
}

/* Sums in f32 of a run of threads' shares; what they are compared with was never rounded to the result's type. */
static rdt_tolerance tolerance_of(const rdt_box_fused *b, int64_t dot, int64_t sum, double lambda) {
  return (rdt_tolerance){.acc = b->acc,
                         .k = b->args.k,
                         .splits = 32, /* at most, of warps and blocks */
                         .u_check = rdt_dtype_info(RDT_F32)->u,
                         .u_beta = rdt_dtype_info(RDT_F32)->u,
                         .depth_dot = dot,
                         .depth_sum = sum,
                         .lambda = lambda};
}

enum { SMALLEST_TILE = 32 }; /* rows and columns */

static rdt_status set_rows(rdt_box_fused *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                           rdt_reason *why) {
  const rdt_fused_args *a = &b->args;
  const rdt_fused_weights at = rdt_box_fused_weights(p);
  rdt_rows_args *c = &b->rows, *s = &b->sums;
  void *memory;
  RDT_TRY(rdt_cuda_alloc((size_t)a->k * 2 * sizeof(float), &memory, why));
  b->rows_each = a->m >= RDT_ROWS_MANY * d->sms * 3 / 4 ? RDT_ROWS_MANY : RDT_ROWS_FEW;
  const int64_t groups = up(a->m, b->rows_each);
  *c = (rdt_rows_args){.m = a->m, .n = a->n, .k = a->k, .batches = 1, .inner = 1, .log_threads = 5};
  while (1 << c->log_threads < RDT_BOX_THREADS && groups << c->log_threads < 256 * (int64_t)d->sms &&
         8 << c->log_threads < a->k)
    c->log_threads++;
  c->a = (rdt_rows_matrix){.row = a->pixel, .column = 1, .along = 1};
  c->weights = memory;
  c->finish = (rdt_box_finish){.inside = 1, .alpha = 1.0};
  const int64_t share = 8 << c->log_threads, tree = 5 + RDT_BOX_THREADS / 32 + 1;
  const rdt_tolerance t = tolerance_of(b, up(a->k, share) * 8 + tree, 8 + 5 + up(a->n, SMALLEST_TILE), lambda);
  c->least2 = rdt_box_least2(&t.acc, b->type);
  c->bound = rdt_box_bound_of(&t, a->n, false);
  c->verdict = b->verdict;
  *s = (rdt_rows_args){.m = a->k,
                       .n = a->n,
                       .batches = 1,
                       .inner = 1,
                       .log_threads = 5,
                       .raw = {.row = at.row, .column = at.column, .type = b->type},
                       .weights = c->weights,
                       .least2 = c->least2};
  return RDT_OK;
}

static rdt_status set_bands(rdt_box_fused *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                            rdt_reason *why) {
  enum { LINES = 4 }; /* at least, where windows overlap: lines that two bands see are read twice */
  const rdt_fused_args *a = &b->args;
  const rdt_tensor *x = &p->in[0], *w = &p->in[1];
  rdt_bands_args *c = &b->bands;
  void *memory;
  c->images = (int)p->out.shape[0], c->groups = 1;
  for (int i = 0; i < 3; i++) c->axis[i] = (rdt_band_axis){1, 1, 1, 1, 1, 0};
  for (int i = 0; i < 2; i++)
    c->axis[i] = (rdt_band_axis){a->axis[i].in,     a->axis[i].out,      a->axis[i].taps,
                                 a->axis[i].stride, a->axis[i].dilation, a->axis[i].pad};
  c->in = (rdt_band_side){.channels = a->channels,
                          .unit = a->axis[1].in,
                          .last = 1,
                          .vectors = 1,
                          .image = x->stride[0],
                          .pixel = a->channels,
                          .channel = 1};
  c->result = (rdt_band_side){.channels = a->n,
                              .unit = a->axis[1].out,
                              .last = 1,
                              .vectors = 1,
                              .image = a->ldo * a->axis[0].out * a->axis[1].out,
                              .pixel = a->ldo,
                              .channel = 1};
  if (!rdt_tensor_is_packed(x)) return refuse(why, "images of fused convolutions have no gaps");
  const rdt_band_axis *y = &c->axis[0];
  int64_t lines = (int64_t)c->images * y->out / (2 * d->sms);
  if (y->taps > y->stride && lines < LINES) lines = LINES;
  c->lines = lines < 1 ? 1 : lines > y->out ? y->out : (int)lines;
  c->bands = (y->out + c->lines - 1) / c->lines;
  int64_t most = 0; /* lines of input that a band sees, or has to sum */
  for (int i = 0; i < c->bands; i++) {
    const int first = i * c->lines * y->stride - y->pad, from = first > 0 ? first : 0;
    int64_t end = first + (int64_t)(c->lines - 1) * y->stride + (int64_t)(y->taps - 1) * y->dilation + 1;
    const int64_t next = i + 1 < c->bands ? first + (int64_t)c->lines * y->stride : y->in;
    if (end < next) end = next;
    if (end > y->in) end = y->in;
    if (end - from > most) most = end - from;
  }
  c->pitch = most * c->in.unit * c->in.channels;
  b->threads = c->pitch > 8 * 8 * RDT_BOX_THREADS ? RDT_BANDS_THREADS : RDT_BOX_THREADS;
  const int64_t step = 8 * (int64_t)b->threads, tree = 7, outputs = (int64_t)c->lines * c->result.unit;
  const rdt_tolerance t = tolerance_of(b, up(c->pitch, step) * 8 + tree,
                                       8 + 5 + up(outputs * up(a->n, SMALLEST_TILE), b->threads) + tree, lambda);
  c->least2 = rdt_box_least2(&t.acc, b->type);
  c->bound = rdt_box_bound_of(&t, outputs * a->n, false);
  c->finish = (rdt_box_finish){.inside = 1, .alpha = 1.0};
  c->verdict = b->verdict;
  c->given = a->sums;
  c->w = w->data, c->w_filter = w->stride[0], c->w_channel = w->stride[1];
  for (int i = 0; i < 2; i++) c->w_tap[i] = w->stride[2 + i];
  RDT_TRY(rdt_cuda_alloc((size_t)c->pitch * (size_t)c->bands * sizeof(float), &memory, why));
  c->coefficients = memory;
  RDT_TRY(rdt_cuda_alloc(sizeof(float), &memory, why));
  c->most = memory;
  return RDT_OK;
}

rdt_status rdt_box_fused_renew(rdt_box_fused *b, const void *weights, void *stream, rdt_reason *why) {
  rdt_bands_args *c = &b->bands;
  RDT_TRY(turn_weights(b, weights, stream, why));
  if (!b->protect) return RDT_OK;
  if (!b->windows) {
    rdt_box_batch batch = {NULL, 0, 0};
    rdt_rows_args s = b->sums;
    s.raw.data = weights;
    rdt_status status =
        rdt_box_batch_rows(&batch, rdt_rows_weights(b->type), true, rdt_box_rows_blocks(&s, RDT_ROWS_FEW), &s, why);
    if (status == RDT_OK) status = rdt_box_batch_launch(&batch, stream, why);
    rdt_box_batch_free(&batch);
    return status;
  }
  c->w = weights;
  void *arguments[] = {c};
  const dim3 grid = {(unsigned)up(c->pitch, RDT_BOX_THREADS), (unsigned)c->bands, 1}, block = {RDT_BOX_THREADS, 1, 1};
  const dim3 channels = {(unsigned)c->in.channels, 1, 1};
  RDT_TRY(rdt_cuda_clear(c->most, sizeof *c->most, stream, why));
  RDT_TRY(rdt_cuda_status(cudaLaunchKernel(rdt_bands_coefficients(b->type), grid, block, arguments, 0, stream),
                          "coefficients of a convolution", why));
  return rdt_cuda_status(cudaLaunchKernel(rdt_bands_most(b->type), channels, block, arguments, 0, stream),
                         "squares of filters", why);
}

/* ---- which tile, how many blocks share it ---- */

typedef struct attempt {
  rdt_box_fused *b;
  const rdt_operands *o;
} attempt;

static rdt_status try_one(void *user, void *stream, rdt_reason *why) {
  const attempt *t = user;
  return rdt_box_fused_launch(t->b, t->o, stream, why);
}

static const void *code_of(const rdt_box_fused *b, const rdt_fused_kernel *k) {
  return k->code[b->type == RDT_BF16][rdt_box_ends(&b->args.finish) == 2];
}

static int64_t tiles_of(const rdt_fused_args *a, const rdt_fused_kernel *k) {
  return up(a->m, k->rows) * up(a->n, k->columns);
}

static void use(rdt_box_fused *b, const rdt_fused_kernel *k, int splits) {
  b->kernel = k;
  b->args.k_split = (int)(up(up(b->args.k, k->k), splits) * k->k);
  b->args.splits = (int)up(b->args.k, b->args.k_split);
}

/* Worth a trial: the device is neither left empty nor is there anything to gain by sharing. */
static bool plausible(const rdt_box_fused *b, const rdt_cuda_device *d, const rdt_fused_kernel *k, int splits) {
  const int64_t tiles = tiles_of(&b->args, k), stages = up(b->args.k, k->k);
  if (tiles > 65535 * (int64_t)k->rows || up(b->args.m, k->rows) > 65535) return false;
  if (splits > 1 && (splits > stages / 2 || tiles * splits > 3 * (int64_t)d->sms)) return false;
  return tiles * splits * 8 >= d->sms || 2 * splits > stages;
}

static rdt_status choose(rdt_box_fused *b, const rdt_cuda_device *d, const rdt_operands *o, void *stream,
                         rdt_reason *why) {
  const rdt_fused_kernel *best = NULL;
  double least = 0.0;
  int shared = 1;
  void *memory;
  int64_t room = 0, tiles = 0;
  for (int i = 0; i < rdt_fused_count; i++) {
    const rdt_fused_kernel *k = &rdt_fused_kernels[i];
    if ((size_t)k->shared > d->shared) continue;
    RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(code_of(b, k), cudaFuncAttributeMaxDynamicSharedMemorySize, k->shared),
                            k->name, why));
    const int64_t n = tiles_of(&b->args, k);
    if (n > tiles) tiles = n;
    if (3 * (int64_t)d->sms * k->rows * k->columns > room) room = 3 * (int64_t)d->sms * k->rows * k->columns;
  }
  RDT_TRY(rdt_cuda_alloc((size_t)room * sizeof(float), &memory, why));
  b->args.partial = memory;
  RDT_TRY(rdt_cuda_alloc((size_t)tiles * sizeof(unsigned), &memory, why));
  b->args.tickets = memory;
  for (int i = 0; i < rdt_fused_count; i++)
    for (int splits = 1; splits <= 16; splits *= 2) {
      const rdt_fused_kernel *k = &rdt_fused_kernels[i];
      double seconds;
      if ((size_t)k->shared > d->shared || !plausible(b, d, k, splits)) continue;
      use(b, k, splits);
      if (b->args.splits != splits) continue;
      attempt t = {b, o};
      RDT_TRY(rdt_cuda_trial(try_one, &t, stream, &seconds, why));
      if (!best || seconds < least) best = k, shared = splits, least = seconds;
    }
  if (!best) return refuse(why, "no fused kernel for this shape");
  use(b, best, shared);
  rdt_cuda_free(b->args.partial), b->args.partial = NULL;
  if (shared == 1) return RDT_OK;
  RDT_TRY(rdt_cuda_alloc((size_t)(tiles_of(&b->args, best) * shared * best->rows * best->columns) * sizeof(float),
                         &memory, why));
  b->args.partial = memory;
  return RDT_OK;
}

static rdt_status prepare(rdt_box_fused *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                          const rdt_operands *trial, void *stream, rdt_reason *why) {
  void *memory;
  b->type = p->in[0].dtype;
  b->args = rdt_box_fused_args(p, &b->packed);
  b->windows = !b->args.plain;
  RDT_TRY(rdt_cuda_alloc(sizeof *b->verdict, &memory, why));
  b->verdict = memory;
  RDT_TRY(rdt_box_accumulator(d, b->type, true, &b->acc, why));
  RDT_TRY(take_weights(b, p, stream, why));
  if (b->protect) {
    RDT_TRY(rdt_cuda_alloc((size_t)up(b->args.n, SMALLEST_TILE) * (size_t)b->args.m * 2 * sizeof(float), &memory, why));
    b->args.sums = memory;
    const size_t tiles = (size_t)(up(b->args.n, SMALLEST_TILE) * up(b->args.m, SMALLEST_TILE));
    if (b->packed) {
      RDT_TRY(rdt_cuda_alloc(tiles * sizeof(uint64_t), &memory, why));
      b->args.bits = memory;
    }
    if (b->packed && p->epilogue.residual.rank >= 0 && b->args.ldr == b->args.n) {
      RDT_TRY(rdt_cuda_alloc(tiles * sizeof(uint64_t), &memory, why));
      b->args.read = memory;
    }
    RDT_TRY(b->windows ? set_bands(b, d, p, lambda, why) : set_rows(b, d, p, lambda, why));
  }
  RDT_TRY(choose(b, d, trial, stream, why));
  b->rows.given = b->bands.given = b->args.sums;
  b->rows.given_blocks = b->bands.given_blocks = (int)up(b->args.n, b->kernel->columns);
  RDT_TRY(rdt_box_fused_renew(b, p->in[1].data, stream, why));
  return rdt_cuda_wait(stream, why);
}

rdt_status rdt_box_fused_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                                const rdt_operands *trial, void *stream, rdt_box_fused **out, rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_box_fused_accept(p, why));
  rdt_box_fused *b = rdt_calloc(1, sizeof *b);
  if (!b) return rdt_fail(why, RDT_ERR_NOMEM, "a fused kernel: out of memory");
  b->protect = protect;
  const rdt_status s = prepare(b, d, p, lambda, trial, stream, why);
  if (s != RDT_OK) {
    rdt_box_fused_destroy(b);
    return s;
  }
  *out = b;
  return RDT_OK;
}

/* ---- running ---- */

enum { ATTRIBUTES = 2 };
static cudaLaunchConfig_t config_of(const rdt_fused_args *a, const rdt_fused_start *how,
                                    cudaLaunchAttribute attributes[ATTRIBUTES], void *stream) {
  attributes[0] = (cudaLaunchAttribute){.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                        .val = {.programmaticStreamSerializationAllowed = 1}};
  attributes[1] = (cudaLaunchAttribute){.id = cudaLaunchAttributeClusterDimension,
                                        .val = {.clusterDim = {1, 1, (unsigned)a->splits}}};
  return (cudaLaunchConfig_t){
      .gridDim = {(unsigned)up(a->n, how->columns), (unsigned)up(a->m, how->rows), (unsigned)a->splits},
      .blockDim = {(unsigned)how->threads, 1, 1},
      .dynamicSmemBytes = (size_t)how->shared,
      .stream = stream,
      .attrs = attributes,
      .numAttrs = how->cluster && a->splits > 1 ? ATTRIBUTES : 1};
}

rdt_status rdt_box_fused_start(const rdt_fused_args *a, const void *code, void **arguments, const rdt_fused_start *how,
                               const char *name, void *stream, rdt_reason *why) {
  cudaLaunchAttribute attributes[ATTRIBUTES];
  const cudaLaunchConfig_t config = config_of(a, how, attributes, stream);
  return rdt_cuda_status(cudaLaunchKernelExC(&config, code, arguments), name, why);
}

rdt_status rdt_box_fused_room(const rdt_fused_args *a, const void *code, const rdt_fused_start *how, bool *room,
                              rdt_reason *why) {
  cudaLaunchAttribute attributes[ATTRIBUTES];
  const cudaLaunchConfig_t config = config_of(a, how, attributes, NULL);
  int clusters = 0;
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, code, &config);
  *room = error == cudaSuccess && clusters > 0;
  return error == cudaErrorInvalidClusterSize ? RDT_OK : rdt_cuda_status(error, "clusters", why);
}

rdt_status rdt_box_fused_launch(const rdt_box_fused *b, const rdt_operands *o, void *stream, rdt_reason *why) {
  rdt_fused_args a = b->args;
  a.x = o->in[0].data, a.w = b->filters ? b->filters : o->in[1].data, a.out = o->out.data;
  a.bias = rdt_box_bias(o), a.residual = rdt_box_residual(o);
  const void *const data[] = {a.x, a.w, a.out, a.bias, a.residual};
  for (int i = 0; i < 5; i++)
    if (!rdt_box_aligned(data[i]))
      return rdt_fail(why, RDT_ERR_ARG, "a fused kernel on the GPU: operands lie at multiples of 16 bytes");
  const rdt_fused_kernel *k = b->kernel;
  void *arguments[] = {&a};
  const rdt_fused_start how = {.rows = k->rows, .columns = k->columns, .threads = k->threads, .shared = k->shared};
  return rdt_box_fused_start(&a, code_of(b, k), arguments, &how, k->name, stream, why);
}

static unsigned check_blocks(const rdt_box_fused *b) {
  return b->windows ? (unsigned)(b->bands.images * b->bands.bands) : rdt_box_rows_blocks(&b->rows, b->rows_each);
}

int64_t rdt_box_fused_blocks(const rdt_box_fused *b) {
  return b->args.bits ? check_blocks(b) : 0;
}

unsigned rdt_box_fused_reads(const rdt_box_fused *b) {
  const bool dense = b->windows || b->args.pixel == b->args.channels;
  return !b->protect ? 0 : (dense ? RDT_BOX_READS_IN : 0) | (b->args.read ? RDT_BOX_READS_RESIDUAL : 0);
}

rdt_status rdt_box_fused_check(const rdt_box_fused *b, const rdt_operands *o, rdt_box_sum_to to,
                               uint64_t *const read[2], rdt_box_batch *batch, rdt_reason *why) {
  if (!b->protect) return RDT_OK;
  const rdt_box_tiles tiles = {.list = b->args.bits,
                               .read = b->args.read,
                               .count = (unsigned)tiles_of(&b->args, b->kernel),
                               .blocks = check_blocks(b),
                               .to = to,
                               .read_to = read[1]};
  if (b->windows) {
    rdt_bands_args c = b->bands;
    c.x = o->in[0].data, c.read = read[0], c.tiles = tiles;
    return rdt_box_batch_bands(batch, rdt_bands_given(b->type), (unsigned)b->threads, check_blocks(b), &c, why);
  }
  rdt_rows_args c = b->rows;
  c.a.data = o->in[0].data, c.read = read[0], c.tiles = tiles;
  return rdt_box_batch_rows(batch, rdt_rows_given(b->type, b->rows_each), false, check_blocks(b), &c, why);
}

void *rdt_box_fused_copy(const rdt_box_fused *b, int64_t k, int64_t column) {
  return b->filters ? (uint16_t *)b->filters + k * b->args.n + column : NULL;
}

const char *rdt_box_fused_kernel(const rdt_box_fused *b) {
  return b->kernel->name;
}

const char *rdt_box_fused_scheme(const rdt_box_fused *b) {
  return !b->protect ? "none" : b->windows ? "fic" : "row";
}

rdt_cuda_verdict *rdt_box_fused_verdict(const rdt_box_fused *b) {
  return b->verdict;
}

void rdt_box_fused_destroy(rdt_box_fused *b) {
  if (!b) return;
  rdt_cuda_free(b->filters), rdt_cuda_free(b->args.partial), rdt_cuda_free(b->args.tickets),
      rdt_cuda_free(b->args.sums), rdt_cuda_free(b->args.bits), rdt_cuda_free(b->args.read);
  rdt_cuda_free(b->rows.weights), rdt_cuda_free(b->bands.coefficients), rdt_cuda_free(b->bands.most);
  rdt_cuda_free(b->verdict);
  rdt_free(b);
}
