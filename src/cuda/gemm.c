/* Products on mma.sync: what a problem must be, what a launch needs, what came out. */
#include <cuda_runtime_api.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/kernel.h"
#include "cuda/sm80/gemm_mma.h"
#include "cuda/weights.h"

enum { GRID_YZ = 65535 };

struct rdt_cuda_gemm {
  const rdt_cuda_kernel *kernel;
  rdt_mma_args args;
  rdt_weights_args weights; /* rho2 NULL: no check needs them */
  bool fixed;
  int row_blocks;
  rdt_mma_hit *hit;
};

static bool sums(const rdt_cuda_kernel *k) {
  return k->check == RDT_MMA_SUMS;
}

static bool threads(const rdt_cuda_kernel *k) {
  return k->check == RDT_MMA_THREAD1 || k->check == RDT_MMA_THREAD2;
}

static int type_of(rdt_dtype t) {
  return t == RDT_F16 ? RDT_MMA_F16 : t == RDT_BF16 ? RDT_MMA_BF16 : RDT_MMA_F32;
}

static bool has_type(rdt_dtype t) {
  return t == RDT_F16 || t == RDT_BF16 || t == RDT_F32;
}

static bool rows_dense(const rdt_tensor *t) {
  return (t->shape[1] <= 1 || t->stride[1] == 1) && (t->shape[0] <= 1 || t->stride[0] >= t->shape[1]);
}

static int64_t pitch(const rdt_tensor *t) {
  return t->shape[0] > 1 ? t->stride[0] : t->shape[1];
}

rdt_status rdt_cuda_gemm_accept(const rdt_cuda_kernel *k, const rdt_problem *p, rdt_reason *why) {
  const rdt_status no = RDT_ERR_UNSUPPORTED;
  const rdt_epilogue *e = &p->epilogue;
  if (p->op != RDT_KOP_GEMM)
    return rdt_fail(why, no, "%s multiplies matrices; this is %s", k->name, rdt_problem_name(p));
  const rdt_tensor *a = &p->in[0], *b = &p->in[1], *c = &p->out;
  if (a->dtype != k->dtype || b->dtype != k->dtype)
    return rdt_fail(why, no, "%s takes %s by %s, not %s by %s", k->name, rdt_dtype_info(k->dtype)->name,
                    rdt_dtype_info(k->dtype)->name, rdt_dtype_info(a->dtype)->name, rdt_dtype_info(b->dtype)->name);
  if (c->dtype != k->dtype && c->dtype != RDT_F32)
    return rdt_fail(why, no, "%s writes %s or f32, not %s", k->name, rdt_dtype_info(k->dtype)->name,
                    rdt_dtype_info(c->dtype)->name);
  if (a->rank != 2 || b->rank != 2 || c->rank != 2)
    return rdt_fail(why, no,
                    "%s takes no batches: A has rank %d, B %d; rows of A that lie one after the other are one matrix",
                    k->name, a->rank, b->rank);
  if (!rows_dense(a) || !rows_dense(b) || !rows_dense(c))
    return rdt_fail(why, no, "%s takes rows whose elements lie side by side; transpose what lies otherwise", k->name);
  if (c->shape[0] < 1 || c->shape[1] < 1 || a->shape[1] < 1)
    return rdt_fail(why, no, "%s takes no zero-size dimension", k->name);
  for (int d = 0; d < 2; d++)
    if (a->shape[d] > INT_MAX / 2 || b->shape[d] > INT_MAX / 2)
      return rdt_fail(why, no, "%s takes lengths up to %d", k->name, INT_MAX / 2);
  if (c->shape[0] > (int64_t)GRID_YZ * k->tile->rows)
    return rdt_fail(why, no, "%s takes up to %lld rows", k->name, (long long)GRID_YZ * k->tile->rows);
  if (e->act.fn != RDT_FN_NONE) return rdt_fail(why, no, "%s applies no activation", k->name);
  if (e->factor.rank >= 0) return rdt_fail(why, no, "%s does not requantise", k->name);
  if (e->bias.rank >= 0 && !has_type(e->bias.dtype))
    return rdt_fail(why, no, "%s takes a bias of f16, bf16 or f32", k->name);
  if (e->residual.rank >= 0 && (e->residual.rank != 2 || e->residual.dtype != c->dtype || !rows_dense(&e->residual)))
    return rdt_fail(why, no, "%s takes a residual of the result's type with rows side by side", k->name);
  return RDT_OK;
}

/* ---- making ready ---- */

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}

/* Blocks that share a tile's k: as many as bring a block to every multiprocessor, and no stage less than two each. */
static int splits_for(const rdt_cuda_kernel *k, int sms, int64_t m, int64_t n, int64_t depth) {
  const int64_t blocks = up(m, k->tile->rows) * up(n, k->tile->columns), stages = up(depth, k->tile->k);
  int64_t splits = sms / blocks;
  if (splits > (stages + 1) / 2) splits = (stages + 1) / 2;
  return splits < 1 ? 1 : splits > 32 ? 32 : (int)splits;
}

/* Bytes at the end of one allocation, one after the other. */
typedef struct places {
  size_t bytes;
} places;
static size_t place(places *p, size_t bytes) {
  const size_t at = p->bytes;
  p->bytes += (bytes + 255) / 256 * 256;
  return at;
}

static rdt_tolerance tolerance_of(const rdt_cuda_gemm *g, const rdt_cuda_device *d, double lambda) {
  const rdt_cuda_tile *t = g->kernel->tile;
  const rdt_mma_args *a = &g->args;
  const bool half = g->kernel->dtype == RDT_F16;
  rdt_tolerance r = {.acc = rdt_accumulator_mma(d->major, d->minor, g->kernel->dtype), .k = a->k, .lambda = lambda};
  r.u_beta = half ? 0x1p-22 : 0x1p-24;
  r.eta_out = half ? 0x1p-25 : 0.0;
  r.splits = t->warps_k + a->splits;
  r.acc.depth = a->k_split / t->warps_k; /* what an accumulator sums */
  if (threads(g->kernel)) {              /* each checks what it has summed itself */
    r.k = r.acc.depth;
    r.splits = 0;
  } else {
    r.depth_sum = 4 + 5 + a->column_blocks; /* of a thread, among threads, over blocks */
    if (a->scalar) r.depth_sum += g->row_blocks + t->rows;
    r.eta_out = half ? 0x1p-36 : 0.0; /* the second part is stored 2^11 times as large */
  }
  return r;
}

/* What the checks need of B: offline where it is fixed. */
static rdt_status weigh(const rdt_cuda_gemm *g, void *stream, rdt_reason *why) {
  void *arguments[] = {(void *)&g->weights};
  const dim3 block = {256, 1, 1};
  dim3 grid = {(unsigned)g->weights.k, 1, 1};
  if (!g->weights.rho2) return RDT_OK;
  if (sums(g->kernel)) RDT_TRY(rdt_cuda_clear(g->weights.rho2, sizeof(float), stream, why));
  if (threads(g->kernel)) grid.x = (unsigned)(g->args.column_blocks * (g->kernel->tile->columns / g->weights.columns));
  const void *code = sums(g->kernel) ? rdt_weights_rows : rdt_weights_groups;
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "sums of weights", why);
}

rdt_status rdt_cuda_gemm_create(const rdt_cuda_kernel *k, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                                int splits, void *stream, rdt_cuda_gemm **state, rdt_reason *why) {
  *state = NULL;
  RDT_TRY(rdt_cuda_gemm_accept(k, p, why));
  if (d->major < k->least || (size_t)k->tile->shared > d->shared)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s needs compute capability %d.0 and %d bytes of shared memory; %s has %d.%d and %zu", k->name,
                    k->least, k->tile->shared, d->name, d->major, d->minor, d->shared);
  rdt_cuda_gemm *g = rdt_calloc(1, sizeof *g);
  if (!g) return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of memory", k->name);
  const rdt_cuda_tile *t = k->tile;
  rdt_mma_args *a = &g->args;
  g->kernel = k;
  g->fixed = p->in[1].data != NULL;
  a->m = (int)p->out.shape[0], a->n = (int)p->out.shape[1], a->k = (int)p->in[0].shape[1];
  a->lda = pitch(&p->in[0]), a->ldb = pitch(&p->in[1]), a->ldc = pitch(&p->out);
  if (p->epilogue.residual.rank >= 0) a->ldr = pitch(&p->epilogue.residual);
  a->alpha = (float)p->epilogue.alpha, a->beta = (float)p->epilogue.beta;
  a->c_type = type_of(p->out.dtype);
  if (p->epilogue.bias.rank >= 0) a->bias_type = type_of(p->epilogue.bias.dtype);
  if (splits < 1) splits = splits_for(k, d->sms, a->m, a->n, a->k);
  a->k_split = (int)(up(up(a->k, t->k), splits) * t->k);
  a->splits = (int)up(a->k, a->k_split); /* none is empty */
  a->column_blocks = (int)up(a->n, t->columns);
  g->row_blocks = (int)up(a->m, t->rows);
  a->scalar = strcmp(k->scheme, "global") == 0;

  const size_t tiles = (size_t)a->column_blocks * (size_t)g->row_blocks;
  places at = {0};
  const size_t verdict = place(&at, sizeof(rdt_cuda_verdict)), hit = place(&at, sizeof(rdt_mma_hit));
  const size_t tickets = place(&at, (tiles + (size_t)g->row_blocks + 1) * sizeof(unsigned));
  const size_t groups = threads(k) ? (size_t)(up(a->n, t->columns) * t->columns / t->warp_columns) * 8 : 1;
  const size_t rho2 = place(&at, groups * sizeof(float));
  const size_t parts = place(&at, sums(k) ? (size_t)a->k * RDT_MMA_PARTS * 2 : 0);
  const size_t rows = place(&at, sums(k) ? (size_t)(a->column_blocks + a->splits) * (size_t)a->m * 8 : 0);
  const size_t scalars = place(&at, sums(k) ? (size_t)g->row_blocks * 16 : 0);
  const size_t partial = place(&at, a->splits > 1 ? (size_t)a->splits * tiles * (size_t)(t->rows * t->columns) * 4 : 0);
  void *base;
  rdt_status status = rdt_cuda_alloc(at.bytes, &base, why);
  if (status != RDT_OK) goto fail;
  char *memory = base;
  a->verdict = (rdt_cuda_verdict *)(memory + verdict), g->hit = (rdt_mma_hit *)(memory + hit);
  a->tickets = (unsigned *)(memory + tickets), a->rho2 = (float *)(memory + rho2), a->parts = memory + parts;
  a->sums = (float *)(memory + rows), a->scalars = (float *)(memory + scalars),
  a->partial = (float *)(memory + partial);
  const rdt_tolerance tolerance = tolerance_of(g, d, lambda);
  const int64_t summed = sums(k) ? (a->scalar ? (int64_t)a->m * a->n : a->n)
                                 : (int64_t)t->warp_columns / 8 * (k->check == RDT_MMA_THREAD2 ? t->warp_rows / 16 : 1);
  a->bound = rdt_device_bound_of(&tolerance, summed);
  if (a->scalar) a->bound.a2_floor *= (float)a->m; /* of every row */
  if (sums(k) || threads(k))
    g->weights = (rdt_weights_args){.ldb = a->ldb,
                                    .k = a->k,
                                    .n = a->n,
                                    .half = k->dtype == RDT_F16,
                                    .columns = t->warp_columns,
                                    .rho2 = (float *)(memory + rho2),
                                    .parts = memory + parts};
  const void *inject = rdt_cuda_kernel_inject(k);
  RDT_TRY_GOTO(rdt_cuda_status(cudaFuncSetAttribute(*k->code, cudaFuncAttributeMaxDynamicSharedMemorySize, t->shared),
                               k->name, why),
               fail);
  if (inject)
    RDT_TRY_GOTO(rdt_cuda_status(cudaFuncSetAttribute(inject, cudaFuncAttributeMaxDynamicSharedMemorySize, t->shared),
                                 k->name, why),
                 fail);
  if (g->fixed) {
    g->weights.b = p->in[1].data;
    RDT_TRY_GOTO(weigh(g, stream, why), fail);
  }
  *state = g;
  return RDT_OK;
fail:
  rdt_cuda_gemm_destroy(g);
  return status;
}

void rdt_cuda_gemm_destroy(rdt_cuda_gemm *g) {
  if (!g) return;
  rdt_cuda_free(g->args.verdict); /* the first of all that was allocated */
  rdt_free(g);
}

rdt_cuda_verdict *rdt_cuda_gemm_found(const rdt_cuda_gemm *g) {
  return g->args.verdict;
}

int rdt_cuda_gemm_splits(const rdt_cuda_gemm *g) {
  return g->args.splits;
}

/* ---- running ---- */

static bool aligned(const void *p, int64_t pitch, int64_t elements, size_t bytes) {
  return (uintptr_t)p % bytes == 0 && pitch % elements == 0;
}

static rdt_status launch(const rdt_cuda_gemm *g, const rdt_operands *o, const void *code, rdt_mma_hit *hit,
                         void *stream, rdt_reason *why) {
  rdt_mma_args a = g->args;
  const rdt_epilogue *e = o->epilogue;
  const size_t out = a.c_type == RDT_MMA_F32 ? 4 : 2;
  a.a = o->in[0].data, a.b = o->in[1].data, a.c = o->out.data;
  a.bias = e && e->bias.rank >= 0 ? e->bias.data : NULL;
  a.residual = e && e->residual.rank >= 0 && e->beta != 0.0 ? e->residual.data : NULL;
  a.a_aligned = aligned(a.a, a.lda, 8, 16), a.b_aligned = aligned(a.b, a.ldb, 8, 16);
  a.c_aligned = aligned(a.c, a.ldc, 4, 4 * out);
  if (!g->fixed) {
    rdt_cuda_gemm now = *g;
    now.weights.b = a.b;
    RDT_TRY(weigh(&now, stream, why));
  }
  void *arguments[] = {&a, &hit};
  const dim3 grid = {(unsigned)(a.column_blocks + sums(g->kernel)), (unsigned)g->row_blocks, (unsigned)a.splits};
  const dim3 block = {(unsigned)g->kernel->tile->threads, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, (size_t)g->kernel->tile->shared, stream),
                         g->kernel->name, why);
}

rdt_status rdt_cuda_gemm_run(rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why) {
  return launch(g, o, *g->kernel->code, NULL, stream, why);
}

/* Which thread has an element, and when it is at a share of the reduction. */
static rdt_mma_hit aim(const rdt_cuda_gemm *g, const rdt_cuda_strike *s) {
  const rdt_cuda_tile *t = g->kernel->tile;
  const int64_t n = g->args.n, row = s->hit.element / n, column = s->hit.element % n;
  int64_t k = (int64_t)(s->hit.position * g->args.k);
  if (k >= g->args.k) k = g->args.k - 1;
  const int split = (int)(k / g->args.k_split), within = (int)(k % g->args.k_split), share = t->k / t->warps_k;
  const int r = (int)(row % t->rows), c = (int)(column % t->columns);
  const int fragment_row = r % t->warp_rows, fragment_column = c % t->warp_columns;
  const int lane = fragment_row % 8 * 4 + fragment_column % 8 / 2, part = within % t->k / share;
  const int warp_rows = t->rows / t->warp_rows, warp_columns = t->columns / t->warp_columns;
  const int warp = (part * warp_columns + c / t->warp_columns) * warp_rows + r / t->warp_rows;
  return (rdt_mma_hit){.site = s->reduced    ? RDT_MMA_REDUCED
                               : s->checksum ? RDT_MMA_CHECKSUM
                                             : RDT_MMA_ACCUM,
                       .block = {(int)(column / t->columns), (int)(row / t->rows), split},
                       .thread = 32 * warp + lane,
                       .step = within / t->k * (share / 16) + within % share / 16,
                       .fragment = (fragment_row / 16 * (t->warp_columns / 8) + fragment_column / 8) * 4 +
                                   fragment_row % 16 / 8 * 2 + fragment_column % 2,
                       .element = {(int)row, (int)column},
                       .mask = (unsigned)s->hit.mask,
                       .sm = s->sm,
                       .bound = NAN};
}

rdt_status rdt_cuda_gemm_strike(rdt_cuda_gemm *g, const rdt_operands *o, rdt_cuda_strike *s, void *stream,
                                rdt_reason *why) {
  const void *code = rdt_cuda_kernel_inject(g->kernel);
  if (!code) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has no injecting instantiation", g->kernel->name);
  rdt_mma_hit hit = aim(g, s);
  RDT_TRY(rdt_cuda_put(g->hit, &hit, sizeof hit, stream, why));
  RDT_TRY(launch(g, o, code, g->hit, stream, why));
  RDT_TRY(rdt_cuda_get(&hit, g->hit, sizeof hit, stream, why));
  s->hit.before = (double)hit.before, s->hit.after = (double)hit.after, s->hit.done = hit.done > 0;
  s->bound = (double)hit.bound;
  return RDT_OK;
}

rdt_status rdt_cuda_gemm_verdict(rdt_cuda_gemm *g, void *stream, rdt_cuda_verdict *v, rdt_reason *why) {
  RDT_TRY(rdt_cuda_get(v, g->args.verdict, sizeof *v, stream, why));
  if (v->listed > RDT_CUDA_LISTED) v->listed = RDT_CUDA_LISTED;
  return v->suspect | v->certain | v->cannot ? rdt_cuda_clear(g->args.verdict, sizeof *v, stream, why) : RDT_OK;
}
