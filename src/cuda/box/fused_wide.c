/* Convolutions and products of 16 bits that one own kernel on wgmma computes with all that follows, and checks. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <math.h>

#include "core/memory.h"
#include "cuda/box/fused.h"
#include "cuda/gemm_bounds.h"
#include "cuda/sm90/fused_wgmma.h"
#include "cuda/trial.h"

enum {
  CHUNK = 64,
  SPLITS = RDT_FUSED_WIDE_SPLITS,
  EIGHT = 8, /* rows that lie in other places each */
  SHARED = 3 /* blocks of a multiprocessor that share tiles */,
  DEEP = 12 /* stages at most */,
  COLLECTED = RDT_BOX_THREADS, /* numbers, of those that blocks leave, of one that adds up */
  LEFT = 4                     /* of a block, at most */
};

struct rdt_box_wide {
  const rdt_fused_wide_kernel *kernel;
  rdt_fused_wide_args args;
  rdt_fused_pack_args pack;
  rdt_accumulator acc;
  double lambda;
  uint64_t *loaded;   /* NULL: no tap meets every pixel once */
  int shared;         /* bytes of a block */
  bool protect, adds; /* adds: a residual */
  bool rest;          /* bit-sums of memory at rest are left, too */
  int only;           /* the tile that is asked for; -1: the fastest */
  bool deep;          /* as many stages as a block alone has room for */
  rdt_dtype type;
  int images;
  rdt_cuda_verdict *verdict;
};

/* ---- what TMA asks of operands ---- */

typedef CUresult tiled_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                          const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                          CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
typedef CUresult window_fn(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                           const cuuint64_t *, const int *, const int *, cuuint32_t, cuuint32_t, const cuuint32_t *,
                           CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static CUtensorMapDataType as(rdt_dtype t) {
  return t == RDT_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

static rdt_status encoded(CUresult r, rdt_reason *why) {
  return r == CUDA_SUCCESS ? RDT_OK : rdt_fail(why, RDT_ERR_UNSUPPORTED, "a tensor map of a fused kernel: %d", (int)r);
}

/* A matrix of 16 bits, in boxes of so many rows. */
static rdt_status map_rows(rdt_tensor_map *m, rdt_dtype type, const void *data, int64_t columns, int64_t rows,
                           int64_t pitch, int box_rows, rdt_reason *why) {
  void *fn;
  const cuuint64_t shape[] = {(cuuint64_t)columns, (cuuint64_t)rows}, strides[] = {(cuuint64_t)pitch * 2};
  const cuuint32_t box[] = {CHUNK, (cuuint32_t)box_rows}, step[] = {1, 1};
  _Static_assert(sizeof *m == sizeof(CUtensorMap), "a tensor map");
  RDT_TRY(rdt_cuda_driver_function("cuTensorMapEncodeTiled", 12000, &fn, why));
  return encoded(((tiled_fn *)fn)((CUtensorMap *)m, as(type), 2, (void *)data, shape, strides, box, step,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                 why);
}

/* Pixels of images, as windows meet them: those whose first tap lies between the corners. */
static rdt_status map_windows(rdt_tensor_map *m, rdt_dtype type, const rdt_fused_args *a, int images, int pixels,
                              rdt_reason *why) {
  void *fn;
  const cuuint64_t shape[] = {(cuuint64_t)a->channels, (cuuint64_t)a->axis[1].in, (cuuint64_t)a->axis[0].in,
                              (cuuint64_t)images};
  const cuuint64_t strides[] = {(cuuint64_t)a->pixel * 2, (cuuint64_t)a->line * 2, (cuuint64_t)a->image * 2};
  cuuint32_t step[] = {1, 1, 1, 1};
  int lower[2], upper[2];
  for (int i = 0; i < 2; i++) { /* x, then y */
    const rdt_fused_axis *x = &a->axis[1 - i];
    lower[i] = -x->pad;
    upper[i] = (x->out - 1) * x->stride + 1 - x->pad - x->in; /* behind the last first tap */
    step[1 + i] = (cuuint32_t)x->stride;
  }
  RDT_TRY(rdt_cuda_driver_function("cuTensorMapEncodeIm2col", 12000, &fn, why));
  return encoded(((window_fn *)fn)((CUtensorMap *)m, as(type), 4, (void *)a->x, shape, strides, lower, upper, CHUNK,
                                   (cuuint32_t)pixels, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                 why);
}

/* ---- making ready ---- */

static rdt_status refuse(rdt_reason *why, const char *text) {
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s", text);
}

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}

static bool fits(const rdt_fused_args *a) { /* what maps of windows can say */
  for (int i = 0; i < 2; i++) {
    const rdt_fused_axis *x = &a->axis[i];
    const int end = (x->out - 1) * x->stride + 1 - x->pad - x->in;
    if (x->stride > 8 || x->pad > 127 || end < -128 || end > 127 || (x->taps - 1) * x->dilation > 255) return false;
  }
  return a->channels % CHUNK == 0;
}

/* The tap that meets every pixel once, of images without gaps; -1: there is none. */
static int whole_of(const rdt_fused_args *a) {
  int tap[2];
  if (a->pixel != a->channels) return -1;
  if (a->plain) return 0;
  if (a->line != a->axis[1].in * a->pixel || a->image != a->axis[0].in * a->line) return -1;
  for (int i = 0; i < 2; i++) {
    const rdt_fused_axis *x = &a->axis[i];
    tap[i] = x->pad / x->dilation;
    if (x->stride != 1 || x->in != x->out || x->pad % x->dilation || tap[i] >= x->taps) return -1;
  }
  return tap[0] * a->axis[1].taps + tap[1];
}

/* A residual with beta 0 is none: see rdt_box_residual. */
static int ends_of(const rdt_box_wide *b, const rdt_fused_wide_kernel *k) {
  const rdt_fused_args *a = &b->args.f;
  const bool plain = a->alpha == 1.0f && (a->beta == 1.0f || a->beta == 0.0f);
  const int act = a->finish.act;
  if (plain && (act == (int)RDT_FN_NONE || act == (int)RDT_FN_RELU))
    return b->adds || b->rest || k->part != RDT_FUSED_WIDE_SHORT ? RDT_FUSED_WIDE_BOUND : RDT_FUSED_WIDE_ALONE;
  return plain && act == (int)RDT_FN_GELU ? RDT_FUSED_WIDE_GELU : RDT_FUSED_WIDE_ANY;
}

static bool is_short(const rdt_box_wide *b, const rdt_fused_wide_kernel *k) {
  return ends_of(b, k) == RDT_FUSED_WIDE_ALONE;
}

static const void *code_of(const rdt_box_wide *b, const rdt_fused_wide_kernel *k) {
  return k->code[b->type == RDT_BF16][b->protect][ends_of(b, k)];
}

static int64_t tiles_of(const rdt_box_wide *b, const rdt_fused_wide_kernel *k) {
  return up(b->args.f.m, k->rows) * up(b->args.f.n, k->columns);
}

/* Columns of a part as it is packed. What checks it has room for more than it takes: of one part no more is brought
 * than that, two numbers of a sum or three. */
static int pitch_of(const rdt_box_wide *b, const rdt_fused_wide_kernel *k) {
  const int taken = b->type == RDT_F16 ? 2 : 3;
  return k->part + (!b->protect ? 0 : k->part == k->columns ? taken : RDT_FUSED_WIDE_MORE);
}

static int64_t parts_of(const rdt_box_wide *b, const rdt_fused_wide_kernel *k) {
  return up(b->args.f.n, k->columns) * (k->columns / k->part);
}

rdt_status rdt_box_wide_renew(const rdt_box_wide *b, const void *weights, void *stream, rdt_reason *why) {
  rdt_fused_pack_args p = b->pack;
  const int64_t tiles = parts_of(b, b->kernel);
  void *arguments[] = {&p};
  const dim3 grid = {(unsigned)tiles, (unsigned)up(p.k, 128), 1}, block = {128, 1, 1};
  p.w = weights;
  if (p.rho2) RDT_TRY(rdt_cuda_clear(p.rho2, (size_t)tiles * sizeof *p.rho2, stream, why));
  return rdt_cuda_status(cudaLaunchKernel(rdt_fused_pack[b->type == RDT_BF16], grid, block, arguments, 0, stream),
                         "weights for a fused kernel", why);
}

static void forget(rdt_box_wide *b) { /* what depends on the tile */
  rdt_cuda_free(b->pack.out), rdt_cuda_free(b->pack.rho2);
  b->pack.out = NULL, b->pack.rho2 = NULL;
}

/* How blocks share k, and how many multiprocessors have one to themselves: then they take more stages. */
static void split(rdt_box_wide *b, const rdt_cuda_device *d, int splits, bool deep) {
  enum { SYSTEM = 1024 /* bytes which it takes of a block */ };
  rdt_fused_wide_args *a = &b->args;
  const rdt_fused_wide_kernel *k = b->kernel;
  a->f.k_split = (int)(up(up(a->f.k, CHUNK), splits) * CHUNK);
  a->f.splits = (int)up(a->f.k, a->f.k_split);
  const int share = (int)up(up(a->f.channels, CHUNK), up(a->f.n, k->columns));
  const bool sums_a = b->loaded && share <= RDT_FUSED_WIDE_TABLES;
  a->loaded = sums_a ? b->loaded : NULL, a->share = sums_a ? share : 0;
  const int heads = 2 * RDT_FUSED_WIDE_HEAD + a->share * RDT_FUSED_WIDE_TABLE;
  const bool alone = is_short(b, k); /* what it stores takes as much as what is added */
  a->each = (int)up(k->rows, EIGHT * a->f.splits) * EIGHT;
  const int residual = alone     ? k->rows * k->columns * 2
                       : b->adds ? a->each * k->columns * 2
                                 : 0,
            rounds = a->f.k_split / CHUNK;
  const int room = (int)(d->shared + SYSTEM) / (deep ? 1 : k->blocks[b->protect]) - 2 * SYSTEM - heads;
  const int stage = k->stage[b->protect], most = rounds < DEEP ? rounds : DEEP;
  b->deep = deep;
  a->stages = (room - residual) / stage;
  if (a->stages > most) a->stages = most;
  a->packed = pitch_of(b, k) * (k->columns / k->part);
  const bool instead = alone && a->f.splits == 1 && a->stages < most && room / stage > a->stages; /* of a stage */
  if (instead) a->stages++;
  const int wide = k->part + (b->protect ? RDT_FUSED_WIDE_MORE : 0),
            together = a->f.splits > 1 ? k->rows * wide * (k->columns / k->part) * (int)sizeof(float) : 0,
            sums = (int)up(alone ? together : k->sums, RDT_FUSED_WIDE_HEAD) * RDT_FUSED_WIDE_HEAD;
  a->residual_at = a->stages * stage > sums ? a->stages * stage : sums;
  b->shared = heads + a->residual_at + (instead ? 0 : residual);
  if (instead) a->residual_at = 0;
  a->bound = rdt_fused_wide_bound(b->type, a->f.k, a->f.k_split, a->f.splits, k->part, &b->acc, b->lambda);
  /* tau2^2 >= lambda^2 c2 c2 while that is below tau0^2 = q0^2 q, and c2 <= cap q */
  const rdt_device_bound *l = &a->bound;
  a->clearly = (float)(0.999 * fmin((double)l->lambda * (double)l->lambda * (double)l->c2,
                                    (double)l->q0 * (double)l->q0 / (double)l->cap));
}

/* A kernel may have so many bytes of shared memory, and clusters of any size. */
static rdt_status allowed(const void *code, int shared, const char *name, rdt_reason *why) {
  RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), name, why));
  return rdt_cuda_status(cudaFuncSetAttribute(code, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), name, why);
}

/* Tile k, and its weights. */
static rdt_status use(rdt_box_wide *b, const rdt_cuda_device *d, const rdt_fused_wide_kernel *k, const void *weights,
                      void *stream, rdt_reason *why) {
  rdt_fused_wide_args *a = &b->args;
  const int64_t tiles = parts_of(b, k), rows = tiles * pitch_of(b, k);
  void *memory;
  forget(b);
  b->kernel = k;
  RDT_TRY(rdt_cuda_alloc((size_t)rows * (size_t)a->f.k * 2, &memory, why));
  b->pack.out = memory, b->pack.columns = k->part, b->pack.pitch = pitch_of(b, k);
  if (b->protect) {
    RDT_TRY(rdt_cuda_alloc((size_t)tiles * sizeof(float), &memory, why));
    b->pack.rho2 = memory;
  }
  a->rho2 = b->pack.rho2;
  RDT_TRY(allowed(code_of(b, k), (int)d->shared - 1024, k->name, why));
  RDT_TRY(map_rows(&a->w, b->type, b->pack.out, a->f.k, rows, a->f.k, pitch_of(b, k) * (k->columns / k->part), why));
  return rdt_box_wide_renew(b, weights, stream, why);
}

static rdt_fused_start how_of(const rdt_box_wide *b) {
  const rdt_fused_wide_kernel *k = b->kernel;
  return (rdt_fused_start){.rows = k->rows,
                           .columns = k->columns,
                           .threads = (is_short(b, k) ? k->alone : k->threads)[b->protect],
                           .shared = b->shared,
                           .cluster = true};
}

static rdt_status has_room(const rdt_box_wide *b, bool *room, rdt_reason *why) { /* for the blocks of a cluster */
  const rdt_fused_start how = how_of(b);
  return rdt_box_fused_room(&b->args.f, code_of(b, b->kernel), &how, room, why);
}

typedef struct attempt {
  rdt_box_wide *b;
  const rdt_operands *o;
} attempt;

static rdt_status try_one(void *user, void *stream, rdt_reason *why) {
  const attempt *t = user;
  return rdt_box_wide_launch(t->b, t->o, stream, why);
}

/* Each thread of a row reads what one block has that checks it. */
static int most_splits(const rdt_fused_wide_kernel *k) {
  return k->part / 4 < SPLITS ? k->part / 4 : SPLITS;
}

/* Worth a trial: the device is neither left empty nor is there anything to gain by sharing. */
static bool plausible(const rdt_box_wide *b, const rdt_cuda_device *d, const rdt_fused_wide_kernel *k, int splits) {
  const int64_t tiles = tiles_of(b, k), stages = up(b->args.f.k, CHUNK);
  if (up(b->args.f.m, k->rows) > 65535) return false;
  if (splits > most_splits(k)) return false;
  if (splits > 1 && (splits > stages / 2 || tiles * splits > SHARED * (int64_t)d->sms)) return false;
  return tiles * splits * 8 >= d->sms || 4 * splits > stages ||
         splits >= RDT_FUSED_WIDE_ANYWHERE; /* or more may not be */
}

static rdt_status choose(rdt_box_wide *b, const rdt_cuda_device *d, const rdt_operands *o, const void *weights,
                         void *stream, rdt_reason *why) {
  const rdt_fused_wide_kernel *best = NULL;
  double least = 0.0;
  int shared = 1;
  bool deep = false;
  for (int i = 0; i < rdt_fused_wide_count; i++) {
    const rdt_fused_wide_kernel *k = &rdt_fused_wide_kernels[i];
    int most = 0;
    if (b->only >= 0 && b->only != i) continue;
    for (int splits = 1; splits <= SPLITS; splits *= 2)
      if (plausible(b, d, k, splits)) most = splits;
    if (!most) continue;
    RDT_TRY(use(b, d, k, weights, stream, why));
    for (int turn = 2; turn < 4 * most; turn++) { /* each split, with few stages and with many */
      const int splits = turn / 2;
      double seconds;
      if ((splits & (splits - 1)) || !plausible(b, d, k, splits)) continue;
      if (turn % 2 && tiles_of(b, k) * splits > d->sms) continue;
      split(b, d, splits, false);
      const int stages = b->args.stages;
      if (turn % 2) split(b, d, splits, true);
      if (turn % 2 && b->args.stages == stages) continue;
      if (b->args.f.splits != splits && 4 * splits <= up(b->args.f.k, CHUNK)) continue; /* as fewer have it */
      bool room = true;
      if (splits > RDT_FUSED_WIDE_ANYWHERE) RDT_TRY(has_room(b, &room, why));
      if (!room) continue;
      attempt t = {b, o};
      RDT_TRY(rdt_cuda_trial(try_one, &t, stream, &seconds, why));
      if (!best || seconds < least) best = k, shared = splits, deep = turn % 2 != 0, least = seconds;
    }
  }
  if (!best) return refuse(why, "no fused kernel on wgmma for this shape");
  RDT_TRY(use(b, d, best, weights, stream, why));
  split(b, d, shared, deep);
  return RDT_OK;
}

static rdt_status bounded(const rdt_box_wide *b, rdt_reason *why) { /* weights whose sums are finite */
  const size_t tiles = (size_t)parts_of(b, b->kernel);
  float *rho2 = rdt_alloc(tiles * sizeof *rho2, 1);
  if (!rho2) return rdt_fail(why, RDT_ERR_NOMEM, "a fused kernel: out of memory");
  rdt_status s = rdt_cuda_get(rho2, b->args.rho2, tiles * sizeof *rho2, NULL, why);
  for (size_t i = 0; i < tiles && s == RDT_OK; i++)
    if (!isfinite(rho2[i])) s = refuse(why, "weights whose sums fused kernels cannot hold");
  rdt_free(rho2);
  return s;
}

/* What the form leaves open is what is the fastest with operands `trial`. */
static rdt_status prepare(rdt_box_wide *b, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                          const rdt_operands *trial, const rdt_box_wide_form *form, void *stream, rdt_reason *why) {
  rdt_fused_args *a = &b->args.f;
  const rdt_fused_weights w = rdt_box_fused_weights(p);
  bool packed;
  void *memory;
  if (d->major != 9) return refuse(why, "fused kernels on wgmma are for compute capability 9");
  b->type = p->in[0].dtype;
  *a = rdt_box_fused_args(p, &packed);
  b->images = (int)p->in[0].shape[0];
  b->adds = p->epilogue.residual.rank >= 0;
  if (!w.good) return refuse(why, "filters whose taps do not lie at one distance");
  if (!a->plain && !fits(a)) return refuse(why, "windows that tensor maps do not describe");
  if (b->protect && !packed) return refuse(why, "results of checked kernels have no gaps");
  b->pack = (rdt_fused_pack_args){
      .row = w.row, .column = w.column, .tap = w.tap, .channels = a->channels, .n = a->n, .k = a->k};
  RDT_TRY(rdt_cuda_alloc(sizeof *b->verdict, &memory, why));
  b->args.verdict = b->verdict = memory;
  b->lambda = lambda;
  RDT_TRY(rdt_box_accumulator(d, b->type, true, &b->acc, why));
  int64_t blocks = SHARED * (int64_t)d->sms;       /* of tiles that are shared: see plausible */
  for (int i = 0; i < rdt_fused_wide_count; i++) { /* of a tile that the caller names, in as many shares as he likes */
    const int64_t most = tiles_of(b, &rdt_fused_wide_kernels[i]) * (b->only == i ? SPLITS : 1);
    blocks = most > blocks ? most : blocks;
  }
  const size_t bytes = (size_t)blocks * LEFT * sizeof(uint64_t);
  if (b->rest) {
    RDT_TRY(rdt_cuda_alloc(bytes, &memory, why));
    a->bits = memory;
  }
  if (b->rest && p->epilogue.residual.rank >= 0 && p->epilogue.beta != 0.0 && a->ldr == a->n) {
    RDT_TRY(rdt_cuda_alloc(bytes, &memory, why));
    a->read = memory;
  }
  b->args.whole = b->rest ? whole_of(a) : -1; /* what the blocks load of it they sum, if it is not too much */
  if (b->args.whole >= 0) {
    RDT_TRY(rdt_cuda_alloc(bytes, &memory, why));
    b->loaded = memory;
  }
  if (form->like) {
    RDT_TRY(use(b, d, form->like->kernel, p->in[1].data, stream, why));
    split(b, d, form->like->args.f.splits, form->like->deep);
  } else if (form->splits && form->tile >= 0) {
    const rdt_fused_wide_kernel *k = &rdt_fused_wide_kernels[form->tile];
    RDT_TRY(use(b, d, k, p->in[1].data, stream, why));
    split(b, d, form->splits < most_splits(k) ? form->splits : most_splits(k), false);
  } else {
    RDT_TRY(choose(b, d, trial, p->in[1].data, stream, why));
  }
  RDT_TRY(rdt_cuda_wait(stream, why));
  return b->protect ? bounded(b, why) : RDT_OK;
}

rdt_status rdt_box_wide_create_as(const rdt_cuda_device *d, const rdt_problem *p, const rdt_box_wide_form *form,
                                  double lambda, const rdt_operands *trial, void *stream, rdt_box_wide **out,
                                  rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_box_fused_accept(p, why));
  rdt_box_wide *b = rdt_calloc(1, sizeof *b);
  if (!b) return rdt_fail(why, RDT_ERR_NOMEM, "a fused kernel: out of memory");
  b->protect = form->protect, b->rest = form->protect && form->rest, b->only = form->tile;
  const rdt_status s = prepare(b, d, p, lambda, trial, form, stream, why);
  if (s != RDT_OK) {
    rdt_box_wide_destroy(b);
    return s;
  }
  *out = b;
  return RDT_OK;
}

rdt_status rdt_box_wide_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                               const rdt_operands *trial, void *stream, rdt_box_wide **out, rdt_reason *why) {
  const rdt_box_wide_form form = {.protect = protect, .rest = protect, .tile = -1};
  return rdt_box_wide_create_as(d, p, &form, lambda, trial, stream, out, why);
}

void rdt_box_wide_tell(rdt_box_wide *b, rdt_cuda_verdict *to) {
  b->args.verdict = to ? to : b->verdict;
}

/* ---- running ---- */

static rdt_status start(const rdt_box_wide *b, const rdt_operands *o, const void *code, rdt_mma_hit *hit, void *stream,
                        rdt_reason *why) {
  rdt_fused_wide_args a = b->args;
  rdt_fused_args *f = &a.f;
  const rdt_fused_wide_kernel *k = b->kernel;
  f->x = o->in[0].data, f->out = o->out.data;
  f->bias = rdt_box_bias(o), f->residual = rdt_box_residual(o);
  const void *const data[] = {f->x, f->out, f->bias, f->residual};
  for (int i = 0; i < 4; i++)
    if (!rdt_box_aligned(data[i]))
      return rdt_fail(why, RDT_ERR_ARG, "a fused kernel on the GPU: operands lie at multiples of 16 bytes");
  RDT_TRY(f->plain ? map_rows(&a.a, b->type, f->x, f->k, f->m, f->pixel, k->rows, why)
                   : map_windows(&a.a, b->type, f, b->images, k->rows, why));
  if (f->residual) RDT_TRY(map_rows(&a.r, b->type, f->residual, f->n, f->m, f->ldr, a.each, why));
  void *arguments[] = {&a, &hit};
  const rdt_fused_start how = how_of(b);
  return rdt_box_fused_start(f, code, arguments, &how, k->name, stream, why);
}

rdt_status rdt_box_wide_launch(const rdt_box_wide *b, const rdt_operands *o, void *stream, rdt_reason *why) {
  return start(b, o, code_of(b, b->kernel), NULL, stream, why);
}

rdt_status rdt_box_wide_strike(const rdt_box_wide *b, const rdt_operands *o, struct rdt_mma_hit *hit, void *stream,
                               rdt_reason *why) {
  const int ends = ends_of(b, b->kernel);
  const void *code = rdt_fused_wide_inject[b->kernel - rdt_fused_wide_kernels][ends == RDT_FUSED_WIDE_ALONE];
  if (!b->protect || b->type != RDT_F16 || (ends != RDT_FUSED_WIDE_BOUND && ends != RDT_FUSED_WIDE_ALONE))
    return refuse(why, "fused kernels with faults are of f16, checked, with Relu at most");
  RDT_TRY(allowed(code, b->shared, b->kernel->name, why));
  return start(b, o, code, hit, stream, why);
}

static int64_t left_of(const rdt_box_wide *b) { /* numbers that a launch leaves */
  return tiles_of(b, b->kernel) * b->args.f.splits * b->kernel->left;
}

int64_t rdt_box_wide_blocks(const rdt_box_wide *b) {
  return b->rest ? up(left_of(b), COLLECTED) : 0;
}

unsigned rdt_box_wide_reads(const rdt_box_wide *b) {
  return (b->args.loaded ? RDT_BOX_READS_IN : 0) | (b->args.f.read ? RDT_BOX_READS_RESIDUAL : 0);
}

rdt_status rdt_box_wide_check(const rdt_box_wide *b, rdt_box_sum_to to, uint64_t *const read[2], rdt_box_batch *batch,
                              rdt_reason *why) {
  const rdt_box_tiles tiles = {.list = b->args.f.bits,
                               .read = b->args.f.read,
                               .loaded = b->args.loaded,
                               .count = (unsigned)left_of(b),
                               .splits = 1,
                               .blocks = (unsigned)rdt_box_wide_blocks(b),
                               .to = to,
                               .read_to = read[1],
                               .loaded_to = read[0]};
  if (!b->rest) return RDT_OK;
  return rdt_box_batch_collect(batch, &tiles, why);
}

void *rdt_box_wide_copy(const rdt_box_wide *b, int64_t k, int64_t column) {
  const rdt_fused_pack_args *p = &b->pack;
  return (uint16_t *)p->out + (column / p->columns * p->pitch + column % p->columns) * p->k + k;
}

int rdt_box_wide_splits(const rdt_box_wide *b) {
  return b->args.f.splits;
}

const char *rdt_box_wide_kernel(const rdt_box_wide *b) {
  return b->kernel->name;
}

rdt_cuda_verdict *rdt_box_wide_verdict(const rdt_box_wide *b) {
  return b->verdict;
}

void rdt_box_wide_destroy(rdt_box_wide *b) {
  if (!b) return;
  forget(b);
  rdt_cuda_free(b->args.f.bits), rdt_cuda_free(b->args.f.read);
  rdt_cuda_free(b->loaded), rdt_cuda_free(b->verdict);
  rdt_free(b);
}
