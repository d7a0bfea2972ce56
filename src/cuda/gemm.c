/* Products: what a problem must be, what a launch needs, what came out. */
#include <cuda_runtime_api.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/weights.h"
#include "core/memory.h"
#include "cuda/aim.h"
#include "cuda/classic.h"
#include "cuda/gemm_bounds.h"
#include "cuda/kernel.h"
#include "cuda/mender.h"
#include "cuda/probe.h"
#include "cuda/sm80/gemm_mma.h"
#include "cuda/tall.h"
#include "cuda/weights.h"
#include "cuda/wide.h"
#include "cuda/written.h"

enum { GRID_YZ = 65535 };

struct rdt_cuda_gemm {
  const rdt_cuda_kernel *kernel;
  rdt_mma_args args;
  rdt_weights_args weights; /* parts NULL: no check needs them */
  rdt_classic_args classic; /* weights NULL: another scheme */
  rdt_wide wide;            /* of the products on wgmma */
  rdt_tall tall;            /* of those of few columns */
  rdt_mender mender;        /* of all others with a check that compares by itself */
  bool fixed, follows;      /* follows: global-classic, and the product before has left the sums of A */
  bool uncompared;          /* global-classic without its last kernel */
  int row_blocks;
  rdt_cuda_device device;
  rdt_accumulator acc; /* of its bounds, and their lambda */
  double lambda;
  const void *met;        /* B of the last run */
  uint64_t *bits;         /* of what is stored, where somebody asks (wide.bits); NULL: the kernel tells none */
  rdt_cuda_verdict *told; /* in place of its own; NULL: that one */
  void *strikes;          /* faults, and what was found in each: so many bytes, kept for the next ones */
  size_t strikes_bytes;
};

static bool is_wide(const rdt_cuda_kernel *k) { /* TMA reads and writes */
  return k->family != RDT_CUDA_MMA;
}

static bool is_tall(const rdt_cuda_kernel *k) {
  return k->family == RDT_CUDA_TALL;
}

static bool sums(const rdt_cuda_kernel *k) {
  return RDT_WGMMA_BY_ROWS(k->check);
}

static bool by_tile(const rdt_cuda_kernel *k) {
  return k->check == RDT_WGMMA_TILE;
}

static bool by_column(const rdt_cuda_kernel *k) {
  return k->check == RDT_MMA_THREAD1A || k->check == RDT_MMA_COL;
}

static bool threads(const rdt_cuda_kernel *k) {
  return k->check == RDT_MMA_THREAD1 || k->check == RDT_MMA_THREAD2 || k->check == RDT_MMA_REPLICATE1 || by_column(k);
}

static bool is_half(rdt_dtype t) {
  return t == RDT_F16 || t == RDT_BF16;
}

static int type_of(rdt_dtype t) { /* matters to products of floats of 16 and 8 bits alone */
  return t == RDT_F16 ? RDT_MMA_F16 : t == RDT_BF16 ? RDT_MMA_BF16 : RDT_MMA_F32;
}

static bool is_integer(const rdt_cuda_kernel *k) {
  return !rdt_dtype_is_float(k->dtype);
}

static rdt_dtype accumulated(const rdt_cuda_kernel *k) {
  return is_integer(k) ? RDT_S32 : k->dtype == RDT_F64 ? RDT_F64 : RDT_F32;
}

static bool narrow(const rdt_cuda_kernel *k) { /* floats that results are not, or need not be */
  return is_half(k->dtype) || rdt_dtype_is_f8(k->dtype);
}

static bool takes_bias(const rdt_cuda_kernel *k, rdt_dtype t) {
  return t == accumulated(k) || (narrow(k) && is_half(t));
}

static bool writes(const rdt_cuda_kernel *k, rdt_dtype t) {
  return t == accumulated(k) || (is_wide(k) && is_integer(k) && (t == RDT_S8 || t == RDT_U8)) ||
         (is_half(k->dtype) && t == k->dtype) || (rdt_dtype_is_f8(k->dtype) && is_half(t));
}

/* Of batches the first. */
static rdt_status sides_of(const rdt_cuda_kernel *k, const rdt_problem *p, rdt_wide_sides *s, rdt_reason *why) {
  const rdt_tensor *a = &p->in[0], *b = &p->in[1], *c = &p->out;
  if (!is_wide(k) && (a->rank != 2 || b->rank != 2 || c->rank != 2))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s takes no batches: A has rank %d, B %d; rows of A that lie one after the other are one matrix",
                    k->name, a->rank, b->rank);
  return rdt_wide_sides_of(p, s)
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_UNSUPPORTED,
                        "%s takes batches that lie evenly apart, one after the other; copy what lies otherwise",
                        k->name);
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
  rdt_wide_sides s;
  if (a->dtype != k->dtype || b->dtype != rdt_cuda_kernel_weights(k))
    return rdt_fail(why, no, "%s takes %s by %s, not %s by %s", k->name, rdt_dtype_info(k->dtype)->name,
                    rdt_dtype_info(rdt_cuda_kernel_weights(k))->name, rdt_dtype_info(a->dtype)->name,
                    rdt_dtype_info(b->dtype)->name);
  if (!writes(k, c->dtype))
    return rdt_fail(why, no, "%s writes %s%s%s, not %s", k->name, is_half(k->dtype) ? rdt_dtype_name(k->dtype) : "",
                    is_half(k->dtype)             ? " or "
                    : narrow(k)                   ? "f16, bf16 or "
                    : is_integer(k) && is_wide(k) ? "s8, u8 or "
                                                  : "",
                    rdt_dtype_name(accumulated(k)), rdt_dtype_name(c->dtype));
  if (p->zero[0] || p->zero[1]) return rdt_fail(why, no, "%s takes no zero points", k->name);
  RDT_TRY(sides_of(k, p, &s, why));
  a = &s.a, b = &s.b, c = &s.c;
  if ((!is_wide(k) && (!rows_dense(a) || !rows_dense(b))) || !rows_dense(c))
    return rdt_fail(why, no, "%s takes rows whose elements lie side by side; transpose what lies otherwise", k->name);
  if (c->shape[0] < 1 || c->shape[1] < 1 || a->shape[1] < 1)
    return rdt_fail(why, no, "%s takes no zero-size dimension", k->name);
  for (int d = 0; d < 2; d++)
    if (a->shape[d] > INT_MAX / 2 || b->shape[d] > INT_MAX / 2)
      return rdt_fail(why, no, "%s takes lengths up to %d", k->name, INT_MAX / 2);
  if (is_wide(k)) RDT_TRY(rdt_wide_accept(k, &s, why));
  if (is_tall(k)) RDT_TRY(rdt_tall_accept(k, &s, why));
  if (!is_wide(k) && c->shape[0] > (int64_t)GRID_YZ * k->tile->rows)
    return rdt_fail(why, no, "%s takes up to %lld rows", k->name, (long long)GRID_YZ * k->tile->rows);
  const bool gelu = e->act.fn == RDT_FN_GELU && is_wide(k) && !is_tall(k) && is_half(c->dtype);
  if (e->act.fn != RDT_FN_NONE && e->act.fn != RDT_FN_RELU && !gelu)
    return rdt_fail(why, no, "%s applies no activation but relu%s", k->name,
                    is_wide(k) && !is_tall(k) && !is_integer(k)
                        ? ", and gelu where results have 16 bits: its curve is as exact as these"
                        : "");
  const bool bytes = c->dtype == RDT_S8 || c->dtype == RDT_U8;
  if ((e->factor.rank >= 0) != bytes)
    return rdt_fail(why, no, bytes ? "%s writes bytes that are requantised: with factors" : "%s does not requantise",
                    k->name);
  if (e->bias.rank >= 0 && !takes_bias(k, e->bias.dtype))
    return rdt_fail(why, no, "%s takes a bias of %s", k->name,
                    narrow(k) ? "f16, bf16 or f32" : rdt_dtype_info(accumulated(k))->name);
  if (is_integer(k) && (e->alpha != 1.0 || (e->residual.rank >= 0 && e->beta != 1.0)))
    return rdt_fail(why, no, "%s adds bias and residual as they are: alpha and beta are 1", k->name);
  if (e->residual.rank >= 0 && (e->residual.dtype != c->dtype || !rows_dense(&s.residual)))
    return rdt_fail(why, no, "%s takes a residual of the result's type with rows side by side", k->name);
  return RDT_OK;
}

/* ---- making ready ---- */

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}

/* Blocks that share a tile's k: as many as bring a block to every multiprocessor, and no stage less than two each. */
static int splits_for(const rdt_cuda_kernel *k, int sms, int64_t m, int64_t n, int64_t depth) {
  const int64_t blocks = up(m, k->tile->rows) * up(n, k->tile->columns), stages = up(depth, k->k);
  int64_t splits = sms / blocks;
  if (splits > (stages + 1) / 2) splits = (stages + 1) / 2;
  return splits < 1 ? 1 : splits > 32 ? 32 : (int)splits;
}

int rdt_cuda_gemm_usual_splits(const rdt_cuda_kernel *k, const rdt_cuda_device *d, const rdt_problem *p) {
  rdt_wide_sides s;
  if (k->family == RDT_CUDA_MMA) return splits_for(k, d->sms, p->out.shape[0], p->out.shape[1], p->in[0].shape[1]);
  if (is_tall(k) || !rdt_wide_sides_of(p, &s)) return 1;
  rdt_wide w = {.columns = rdt_wide_columns(&s.b),
                .batches = s.batches,
                .skewed = rdt_wide_skewed(&s.a) && !rdt_wide_skewed(&s.b)};
  rdt_wide_plan(&w, k, (int)s.c.shape[0], (int)up(s.c.shape[1], k->tile->columns), (int)s.a.shape[1], 0, d->sms);
  return w.share ? 2 : 1;
}

static int weights_type(rdt_dtype t) {
  return t == RDT_F16      ? RDT_WEIGHTS_F16
         : t == RDT_BF16   ? RDT_WEIGHTS_BF16
         : t == RDT_S8     ? RDT_WEIGHTS_S8
         : t == RDT_F64    ? RDT_WEIGHTS_F64
         : t == RDT_F8E4M3 ? RDT_WEIGHTS_F8E4M3
         : t == RDT_F8E5M2 ? RDT_WEIGHTS_F8E5M2
                           : RDT_WEIGHTS_F32;
}

/* B as a product on wgmma multiplies it, of which columns are compared. */
static rdt_mma_args columns_of(const rdt_cuda_gemm *g, const rdt_mma_args *a, const void *b) {
  rdt_mma_args now = *a;
  now.b = g->wide.pads.own[1] ? g->wide.pads.own[1] : b;
  return now;
}

/* What the checks need of B: offline where it is fixed. */
static rdt_status weigh_sums(const rdt_cuda_gemm *g, void *stream, rdt_reason *why) {
  void *arguments[] = {(void *)&g->weights};
  const dim3 block = {256, 1, 1};
  dim3 grid = {(unsigned)g->args.k, 1, 1};
  if (g->classic.weights) {
    rdt_classic_args of_b = g->classic;
    of_b.matrix = g->weights.b, of_b.pitch = g->args.ldb, of_b.columns = g->args.n;
    arguments[0] = &of_b;
    return rdt_cuda_status(cudaLaunchKernel(rdt_classic_weights, grid, block, arguments, 0, stream), "sums of weights",
                           why);
  }
  if (!g->weights.parts) return RDT_OK;
  const size_t many = g->weights.next ? (size_t)g->wide.batches : 1;
  if (sums(g->kernel)) RDT_TRY(rdt_cuda_clear(g->weights.rho2, many * sizeof(double), stream, why));
  grid.y = (unsigned)g->weights.sets, grid.z = (unsigned)many;
  if (by_tile(g->kernel))
    RDT_TRY(rdt_cuda_clear(g->weights.rho2, many * (size_t)g->wide.sets * sizeof(float), stream, why));
  if (threads(g->kernel))
    grid.x = (unsigned)(g->args.column_blocks * (g->kernel->tile->columns / (8 * g->weights.fragments)));
  const int type = weights_type(rdt_cuda_kernel_weights(g->kernel));
  const void *code = is_wide(g->kernel) ? rdt_weights_wgmma[type][g->wide.columns]
                     : sums(g->kernel)  ? rdt_weights_rows[type]
                                        : rdt_weights_groups[type];
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "sums of weights", why);
}

static rdt_status weigh(const rdt_cuda_gemm *g, void *stream, rdt_reason *why) {
  rdt_cuda_gemm now = *g;
  if (g->wide.strips) {
    rdt_mma_args a = g->args; /* of the caller's B: a copy may not be there yet */
    a.b = g->weights.b, a.ldb = g->weights.ldb;
    RDT_TRY(rdt_wide_peaks(&g->wide, g->kernel->dtype, &a, stream, why));
  }
  if (!is_tall(g->kernel)) return weigh_sums(g, stream, why);
  RDT_TRY(rdt_tall_unfold(&g->tall, &g->args, &now.weights.b, stream, why));
  RDT_TRY(weigh_sums(&now, stream, why));
  return rdt_tall_bring(g->kernel, &g->tall, &g->args, now.weights.b, stream, why);
}

/* What checks of rows after the first weigh columns with. */
static rdt_status take_turns(rdt_cuda_gemm *g, void *to, void *stream, rdt_reason *why) {
  rdt_mma_args *a = &g->args;
  const int64_t pitch = (int64_t)a->column_blocks * g->kernel->tile->columns;
  if (a->sets < 2) return RDT_OK;
  float *turns = rdt_calloc((size_t)(pitch * (a->sets - 1)), sizeof *turns);
  if (!turns) return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of memory", g->kernel->name);
  for (int set = 1; set < a->sets; set++)
    for (int64_t j = 0; j < a->n; j++) turns[(set - 1) * pitch + j] = (float)rdt_check_weight(j, set);
  rdt_status s = rdt_cuda_put(to, turns, (size_t)(pitch * (a->sets - 1)) * sizeof *turns, stream, why);
  if (s == RDT_OK) s = rdt_cuda_wait(stream, why);
  rdt_free(turns);
  a->turns = g->weights.turns = to;
  g->weights.turns_pitch = pitch;
  return s;
}

rdt_status rdt_cuda_gemm_create(const rdt_cuda_kernel *k, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                                int splits, void *stream, rdt_cuda_gemm **state, rdt_reason *why) {
  return rdt_cuda_gemm_create_sets(k, d, p, 1, lambda, splits, stream, state, why);
}

rdt_status rdt_cuda_gemm_create_sets(const rdt_cuda_kernel *k, const rdt_cuda_device *d, const rdt_problem *p, int sets,
                                     double lambda, int splits, void *stream, rdt_cuda_gemm **state, rdt_reason *why) {
  *state = NULL;
  RDT_TRY(rdt_cuda_gemm_accept(k, p, why));
  if (sets < 1 || sets > rdt_cuda_kernel_sets(k))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has up to %d checks of a line, not %d: several are of rows of floats",
                    k->name, rdt_cuda_kernel_sets(k), sets);
  if (d->major < k->least || (is_wide(k) && d->major != k->least) || (size_t)k->shared > d->shared)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s needs compute capability %d.0%s and %d bytes of shared memory; %s has %d.%d and %zu", k->name,
                    k->least, is_wide(k) ? ", no other," : "", k->shared, d->name, d->major, d->minor, d->shared);
  rdt_wide_sides side;
  RDT_TRY(sides_of(k, p, &side, why));
  const int shares = splits;
  const int64_t b_pitch = rdt_wide_pitch(&side.b, rdt_wide_columns(&side.b)), b_next = side.b_next;
  rdt_cuda_gemm *g = rdt_calloc(1, sizeof *g);
  if (!g) return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of memory", k->name);
  rdt_status status = is_wide(k) && !is_tall(k) ? rdt_wide_pads(&g->wide, &side, p->in[1].data != NULL, why) : RDT_OK;
  if (status != RDT_OK) goto fail;
  const rdt_cuda_tile *t = k->tile;
  rdt_mma_args *a = &g->args;
  g->kernel = k, g->device = *d;
  g->fixed = p->in[1].data != NULL;
  a->m = (int)side.c.shape[0], a->n = (int)side.c.shape[1], a->k = (int)side.a.shape[1];
  a->lda = pitch(&side.a), a->ldb = pitch(&side.b), a->ldc = pitch(&side.c);
  if (is_wide(k)) {
    g->wide = (rdt_wide){.pads = g->wide.pads,
                         .fixed = g->fixed,
                         .columns = rdt_wide_columns(&side.b),
                         .a_columns = rdt_wide_columns(&side.a),
                         .skewed = rdt_wide_skewed(&side.a) && !rdt_wide_skewed(&side.b),
                         .batches = side.batches,
                         .a_next = side.a_next,
                         .b_next = side.b_next,
                         .c_next = side.c_next,
                         .r_next = side.r_next,
                         .gelu = p->epilogue.act.fn == RDT_FN_GELU,
                         .bytes = p->out.dtype,
                         .zero = p->epilogue.zero,
                         .each = p->epilogue.factor.rank >= 0 && p->epilogue.factor.stride[0] != 0};
    a->lda = rdt_wide_pitch(&side.a, g->wide.a_columns), a->ldc = rdt_wide_pitch(&side.c, false);
    a->ldb = rdt_wide_pitch(&side.b, g->wide.columns);
    splits = 1; /* whoever goes on with a tile has all of its sums */
  }
  const size_t many = is_wide(k) ? (size_t)side.batches : 1, many_b = side.b_next ? many : 1;
  if (p->epilogue.residual.rank >= 0) a->ldr = pitch(&side.residual);
  if (is_tall(k)) {
    g->tall = rdt_tall_fold(k, g->wide.columns, d->sms, a);
    g->wide.columns = g->tall.columns;
  }
  a->alpha64 = p->epilogue.alpha, a->beta64 = p->epilogue.beta;
  a->alpha = (float)a->alpha64, a->beta = (float)a->beta64;
  a->c_type = type_of(p->out.dtype);
  a->relu = p->epilogue.act.fn == RDT_FN_RELU;
  if (p->epilogue.bias.rank >= 0) a->bias_type = type_of(p->epilogue.bias.dtype);
  if (splits < 1) splits = splits_for(k, d->sms, a->m, a->n, a->k);
  a->k_split = (int)(up(up(a->k, k->k), splits) * k->k);
  a->splits = (int)up(a->k, a->k_split); /* none is empty */
  a->column_blocks = (int)up(a->n, t->columns);
  g->row_blocks = (int)up(a->m, t->rows);
  a->scalar = strcmp(k->scheme, "global") == 0;
  a->sets = sets;
  if (is_wide(k)) {
    if (!is_tall(k)) rdt_wide_plan(&g->wide, k, a->m, a->column_blocks, a->k, shares, d->sms);
    g->wide.sets = by_tile(k) ? a->column_blocks : sums(k) ? 1 : 0;
    g->wide.sums_scale = 1.0f / rdt_gemm_scale(k, a->n);
  }

  const size_t tiles = (size_t)a->column_blocks * (size_t)g->row_blocks;
  size_t end = 0;
  const size_t verdict = rdt_cuda_place(&end, sizeof(rdt_cuda_verdict));
  const size_t tickets =
      rdt_cuda_place(&end, (tiles + (size_t)g->row_blocks + 1 + rdt_wide_tickets(&g->wide)) * sizeof(unsigned));
  const size_t size = (size_t)k->sum, element = rdt_dtype_info(k->dtype)->bytes;
  const int part_columns = sets > 2 ? (int)up(sets, 2) * 2 * RDT_MMA_PARTS_EACH : RDT_MMA_PARTS;
  a->part_columns = 16 / element > RDT_MMA_PARTS ? 16 / (int)element : part_columns;
  const size_t columns = (size_t)(up(a->n, t->columns) * t->columns);
  const int fragments = by_column(k) ? 1 : t->warp_columns / 8; /* that a group of columns lies in */
  const size_t rho2 = rdt_cuda_place(&end, threads(k)   ? columns / (size_t)fragments * size
                                           : by_tile(k) ? many_b * (size_t)a->column_blocks * size
                                                        : many_b * sizeof(double));
  const size_t parts = rdt_cuda_place(
      &end, is_wide(k) ? many_b * (size_t)g->wide.sets * RDT_WGMMA_SUMS * (size_t)rdt_wide_whole(k, a->k) * element
            : sums(k)  ? (size_t)a->k * (size_t)a->part_columns * element
                       : 0);
  const size_t each = (size_t)(a->column_blocks + a->splits) * (size_t)a->m * size; /* of sums, a number a row */
  const size_t rows =
      rdt_cuda_place(&end, !sums(k)     ? 0
                           : is_wide(k) ? 2 * 4 * many * (size_t)a->m * size /* two sets of four numbers a row */
                                        : 2 * each);
  const size_t more = rdt_cuda_place(&end, (size_t)(sets - 1) * each);
  const size_t turns = rdt_cuda_place(&end, (size_t)(sets - 1) * columns * sizeof(float));
  const size_t scalars = rdt_cuda_place(&end, sums(k) ? (size_t)(g->row_blocks + g->wide.blocks) * 4 * size : 0);
  const bool classic = k->check == RDT_MMA_CLASSIC;
  const int64_t strips = up(a->m, RDT_CLASSIC_ROWS);
  const size_t next = rdt_cuda_place(&end, classic ? (size_t)g->row_blocks * (size_t)a->n * 8 : 0);
  const size_t totals = rdt_cuda_place(&end, classic ? tiles * 8 : 0);
  const size_t of_weights = rdt_cuda_place(&end, classic ? (size_t)a->k * 16 : 0);
  const size_t of_a = rdt_cuda_place(&end, classic ? (size_t)strips * (size_t)a->k * 8 : 0);
  const size_t partial =
      rdt_cuda_place(&end, a->splits > 1 ? (size_t)a->splits * tiles * (size_t)(t->rows * t->columns) * size
                                         : rdt_wide_handed(&g->wide, k));
  const size_t image = rdt_cuda_place(&end, rdt_tall_image(k, a->k)),
               spread = rdt_cuda_place(&end, rdt_tall_spread_bytes(&g->tall, a));
  const size_t bits_count = rdt_wide_bits(&g->wide, k, a->m, a->column_blocks),
               bits = rdt_cuda_place(&end, bits_count * sizeof *g->bits);
  const size_t of_columns = rdt_cuda_place(&end, rdt_wide_sums_of(&g->wide, k, a->m, a->k));
  const size_t mending = rdt_cuda_place(&end, rdt_mend_bytes(k, a, g->row_blocks));
  void *base;
  status = rdt_cuda_alloc(end, &base, why);
  if (status != RDT_OK) goto fail;
  char *memory = base;
  a->verdict = (rdt_cuda_verdict *)(memory + verdict);
  a->tickets = (unsigned *)(memory + tickets), a->rho2 = memory + rho2, a->parts = memory + parts;
  g->bits = bits_count ? (uint64_t *)(memory + bits) : NULL;
  g->tall.image = memory + image, g->tall.spread = memory + spread;
  a->sums = memory + rows, a->more = memory + more, a->scalars = memory + scalars, a->partial = memory + partial;
  rdt_accumulator acc = rdt_accumulator_of(k->dtype, accumulated(k));
  if (is_half(k->dtype)) RDT_TRY_GOTO(rdt_probe(d, k->dtype, NULL, &acc, why), fail);
  if (k->tf32 || rdt_dtype_is_f8(k->dtype)) acc = rdt_accumulator_mma(d->major, d->minor, k->dtype);
  g->acc = acc, g->lambda = lambda;
  a->bound = rdt_gemm_bound(k, a, g->row_blocks, &acc, lambda);
  g->wide.alike = g->tall.alike = rdt_wide_alike(&a->bound);
  rdt_wide_sums_at(&g->wide, memory + of_columns);
  if (g->wide.strips)
    g->wide.sums_of.bound = rdt_gemm_columns_bound(k, a, &g->wide.sums_of,
                                                   rdt_wide_squares(&g->wide, k, a->column_blocks, a->k), &acc, lambda);
  if (sums(k) || by_tile(k) || (threads(k) && k->dtype != RDT_S8))
    g->weights = (rdt_weights_args){.ldb = is_wide(k) && !is_tall(k) ? b_pitch : a->ldb, /* of B: they check copies */
                                    .next = b_next,
                                    .k = a->k,
                                    .n = a->n,
                                    .fragments = fragments,
                                    .rho2 = memory + rho2,
                                    .parts = memory + parts,
                                    .part_columns = a->part_columns,
                                    .scale = rdt_gemm_scale(k, a->n),
                                    .abreast = is_wide(k) && !g->wide.columns && rdt_wide_beside(k, false),
                                    .sets = is_wide(k) ? g->wide.sets : sets};
  RDT_TRY_GOTO(take_turns(g, memory + turns, stream, why), fail);
  if (classic) {
    a->next = (float *)(memory + next), a->sums = memory + totals;
    g->classic = (rdt_classic_args){.rows = a->m,
                                    .columns = a->k,
                                    .half = k->dtype == RDT_F16,
                                    .weights = (double *)(memory + of_weights),
                                    .strips = (float *)(memory + of_a),
                                    .count = (int)strips,
                                    .sums = a->sums,
                                    .tiles = (int)tiles,
                                    .m = a->m,
                                    .n = a->n,
                                    .k = a->k,
                                    .bound = rdt_gemm_classic_bound(k, a, &acc, lambda)};
  }
  RDT_TRY_GOTO(rdt_cuda_kernel_admit(k, why), fail);
  RDT_TRY_GOTO(rdt_mend_ready(&g->mender, k, a, g->tall.fold, g->row_blocks, d, memory + mending, stream, why), fail);
  if (g->fixed) {
    g->weights.b = p->in[1].data;
    RDT_TRY_GOTO(rdt_cuda_gemm_renew(g, p->in[1].data, stream, why), fail);
  }
  *state = g;
  return RDT_OK;
fail:
  rdt_cuda_gemm_destroy(g);
  return status;
}

void rdt_cuda_gemm_destroy(rdt_cuda_gemm *g) {
  if (!g) return;
  rdt_mend_drop(&g->mender);
  rdt_pads_drop(&g->wide.pads);
  rdt_cuda_free(g->strikes);
  rdt_cuda_free(g->args.verdict); /* the first of all that was allocated */
  rdt_free(g);
}

rdt_cuda_verdict *rdt_cuda_gemm_found(const rdt_cuda_gemm *g) {
  return g->args.verdict;
}

int rdt_cuda_gemm_splits(const rdt_cuda_gemm *g) {
  return g->wide.share ? 2 : g->args.splits;
}

void *rdt_cuda_gemm_copy(const rdt_cuda_gemm *g, int64_t k, int64_t column) {
  const rdt_pads *p = &g->wide.pads;
  if (is_tall(g->kernel)) return rdt_tall_copy(g->kernel, &g->tall, k, column);
  const int64_t along = g->wide.columns ? k : column, across = g->wide.columns ? column : k;
  return p->own[1] ? (char *)p->own[1] + (across * p->of[1].to_pitch + along) * p->of[1].size : NULL;
}

/* ---- running ---- */

static bool aligned(const void *p, int64_t pitch, int64_t elements, size_t bytes) {
  return (uintptr_t)p % bytes == 0 && pitch % elements == 0;
}

static rdt_status launch_classic(const void *code, const rdt_classic_args *args, int64_t x, int64_t y, void *stream,
                                 rdt_reason *why) {
  void *arguments[] = {(void *)args};
  const dim3 grid = {(unsigned)x, (unsigned)y, 1}, block = {RDT_CLASSIC_THREADS, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(code, grid, block, arguments, 0, stream), "global-classic", why);
}

/* Which of rdt_wgmma_settle compares its sums of rows; -1: it leaves none. */
static int settler(const rdt_cuda_gemm *g) {
  return g->wide.strips && !g->wide.sums_of.rows ? -1 : rdt_wide_settler(g->kernel);
}

static rdt_status settle_columns(const rdt_cuda_gemm *g, const rdt_mma_args *a, const void *b, rdt_mma_hit *hit,
                                 void *stream, rdt_reason *why) {
  const rdt_mma_args now = columns_of(g, a, b);
  return g->wide.strips ? rdt_wide_settle_columns(&g->wide, g->kernel->dtype, &now, hit, stream, why) : RDT_OK;
}

static rdt_status settle(const rdt_cuda_gemm *g, const rdt_mma_args *a, rdt_mma_hit *hit, void *stream,
                         rdt_reason *why) {
  rdt_settle_args one = {0};
  const int by = settler(g);
  RDT_TRY(settle_columns(g, a, a->b, hit, stream, why));
  if (by < 0) return RDT_OK;
  rdt_wide_settles(&g->wide, a, &one, 0);
  return rdt_wide_settle(&one, 1, hit ? rdt_wgmma_settle_inject[by] : rdt_wgmma_settle[by], hit, stream, why);
}

rdt_status rdt_cuda_gemm_settle(rdt_cuda_gemm *const *list, int count, void *stream, rdt_reason *why) {
  for (int i = 0; i < count; i++) {
    rdt_mma_args a = list[i]->args;
    if (list[i]->told) a.verdict = list[i]->told;
    if (list[i]->met) RDT_TRY(settle_columns(list[i], &a, list[i]->met, NULL, stream, why));
  }
  for (int by = 0; by < 3; by++) {
    rdt_settle_args some = {0};
    int n = 0;
    for (int i = 0; i < count; i++) {
      if (settler(list[i]) != by) continue;
      rdt_mma_args a = list[i]->args;
      if (list[i]->told) a.verdict = list[i]->told;
      rdt_wide_settles(&list[i]->wide, &a, &some, n++);
      if (n < RDT_SETTLE_MOST) continue;
      RDT_TRY(rdt_wide_settle(&some, n, rdt_wgmma_settle[by], NULL, stream, why));
      n = 0;
    }
    if (n) RDT_TRY(rdt_wide_settle(&some, n, rdt_wgmma_settle[by], NULL, stream, why));
  }
  return RDT_OK;
}

rdt_status rdt_cuda_gemm_cover(rdt_cuda_gemm *g, bool on, rdt_reason *why) {
  if (!g->bits && on)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s tells no bit-sums of what it stores: products of 16 bits on wgmma with a check do",
                    g->kernel->name);
  g->wide.bits = on ? g->bits : NULL;
  return RDT_OK;
}

bool rdt_cuda_gemm_covered(const rdt_cuda_gemm *g) {
  return g->wide.bits != NULL;
}

void rdt_cuda_gemm_tell(rdt_cuda_gemm *g, rdt_cuda_verdict *to) {
  g->told = to;
}

static rdt_mma_args args_of(const rdt_cuda_gemm *g, const rdt_operands *o) {
  rdt_mma_args a = g->args;
  const rdt_epilogue *e = o->epilogue;
  const size_t out = a.c_type == RDT_MMA_F32 ? (size_t)g->kernel->sum : 2;
  const int64_t each = 16 / (int64_t)rdt_dtype_info(g->kernel->dtype)->bytes;
  if (g->told) a.verdict = g->told;
  a.a = o->in[0].data, a.b = o->in[1].data, a.c = o->out.data;
  a.bias = e && e->bias.rank >= 0 ? e->bias.data : NULL;
  a.residual = e && e->residual.rank >= 0 && e->beta != 0.0 ? e->residual.data : NULL;
  a.a_aligned = aligned(a.a, a.lda, each, 16), a.b_aligned = aligned(a.b, a.ldb, each, 16);
  a.c_aligned = aligned(a.c, a.ldc, 4, out == 2 ? 8 : 16);
  return a;
}

/* With the factors of these operands. */
static rdt_wide wide_of(const rdt_cuda_gemm *g, const rdt_operands *o) {
  rdt_wide w = g->wide;
  if (o->epilogue && o->epilogue->factor.rank >= 0) w.factor = o->epilogue->factor.data;
  return w;
}

rdt_status rdt_cuda_gemm_stored(const rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why) {
  const rdt_mma_args a = args_of(g, o);
  if (!g->wide.bits)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has told no bit-sums of what it stored", g->kernel->name);
  return rdt_wide_stored(g->kernel, &g->wide, &a, stream, why);
}

static rdt_status launch(const rdt_cuda_gemm *g, const rdt_operands *o, const void *const *code, rdt_mma_hit *hit,
                         void *stream, rdt_reason *why) {
  rdt_mma_args a = args_of(g, o);
  if (!g->fixed) {
    rdt_cuda_gemm now = *g;
    now.weights.b = a.b;
    RDT_TRY(weigh(&now, stream, why));
  }
  if (is_tall(g->kernel)) return rdt_tall_launch(g->kernel, &g->tall, &a, *code, hit, g->fixed, stream, why);
  if (is_wide(g->kernel)) {
    const rdt_wide w = wide_of(g, o);
    RDT_TRY(rdt_wide_launch(g->kernel, &w, &a, code, hit, stream, why));
    return hit || !g->fixed ? settle(g, &a, hit, stream, why) : RDT_OK; /* before there are other bounds */
  }
  rdt_classic_args of_a = g->classic;
  if (of_a.weights) {
    of_a.matrix = a.a, of_a.pitch = a.lda, of_a.verdict = a.verdict;
    of_a.told = hit ? &hit->bound : NULL; /* an address on the device */
    if (!g->follows)
      RDT_TRY(launch_classic(rdt_classic_columns, &of_a, up(a.k, RDT_CLASSIC_THREADS), of_a.count, stream, why));
  }
  void *arguments[] = {&a, &hit};
  const dim3 grid = {(unsigned)(a.column_blocks + sums(g->kernel)), (unsigned)g->row_blocks, (unsigned)a.splits};
  const dim3 block = {(unsigned)g->kernel->tile->threads, 1, 1};
  /* It begins while what is ahead of it ends, and waits; but for fixed weights, which nobody ahead writes. */
  cudaLaunchAttribute early = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                               .val.programmaticStreamSerializationAllowed = 1};
  const cudaLaunchConfig_t how = {.gridDim = grid,
                                  .blockDim = block,
                                  .dynamicSmemBytes = (size_t)g->kernel->shared,
                                  .stream = stream,
                                  .attrs = &early,
                                  .numAttrs = g->fixed && !hit && !of_a.weights};
  RDT_TRY(rdt_cuda_status(cudaLaunchKernelExC(&how, *code, arguments), g->kernel->name, why));
  return of_a.weights && !g->uncompared ? launch_classic(rdt_classic_compare, &of_a, 1, 1, stream, why) : RDT_OK;
}

rdt_status rdt_cuda_gemm_renew(const rdt_cuda_gemm *g, const void *weights, void *stream, rdt_reason *why) {
  rdt_cuda_gemm now = *g;
  now.weights.b = weights;
  if (!g->fixed) return RDT_OK;
  RDT_TRY(
      rdt_pads_run(&g->wide.pads, RDT_WIDE_B, false, (void *const[]){NULL, (void *)weights, NULL}, NULL, stream, why));
  return weigh(&now, stream, why);
}

int rdt_cuda_gemm_padded(const rdt_cuda_gemm *g) {
  void *const *own = g->wide.pads.own;
  return (own[0] ? RDT_WIDE_A : 0) | (own[1] ? RDT_WIDE_B : 0) | (own[2] ? RDT_WIDE_C : 0);
}

/* Of columns: its bound is of sums that were added up elsewhere. */
static void follow_columns(rdt_cuda_gemm *g, rdt_cuda_gemm *before) {
  rdt_columns *const c = &g->wide.sums_of;
  rdt_wide_hand_on(&before->wide, before->args.tickets + 1, &g->wide);
  c->bound = rdt_gemm_columns_bound(g->kernel, &g->args, c, rdt_wide_squares_stored(&before->wide, before->kernel),
                                    &g->acc, g->lambda);
}

rdt_status rdt_cuda_gemm_follow(rdt_cuda_gemm *g, rdt_cuda_gemm *before, rdt_reason *why) {
  const rdt_mma_args *a = &g->args, *b = &before->args;
  const bool columns = g->wide.strips && before->wide.strips, classic = g->classic.weights && before->classic.weights;
  if (g == before || (!columns && !classic) || b->m != a->m || b->n != a->k || b->c_type != type_of(g->kernel->dtype))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s does not follow %s: both are global-classic, or compare columns on wgmma, and A is what was "
                    "stored",
                    g->kernel->name, before->kernel->name);
  if (columns) {
    follow_columns(g, before);
    return RDT_OK;
  }
  g->follows = true;
  g->classic.strips = b->next, g->classic.count = before->row_blocks;
  return RDT_OK;
}

const float *rdt_cuda_gemm_handed(const rdt_cuda_gemm *g, int *numbers) {
  *numbers = rdt_columns_pitch(g->wide.sums_of.pairs);
  return g->wide.sums_of.next;
}

rdt_status rdt_cuda_gemm_as_published(rdt_cuda_gemm *g, bool compares, rdt_reason *why) {
  if (!g->classic.weights) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s is not global-classic", g->kernel->name);
  g->follows = true; /* itself: A is what it was */
  g->uncompared = !compares;
  return RDT_OK;
}

rdt_status rdt_cuda_gemm_run(rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why) {
  g->met = o->in[1].data;
  return launch(g, o, g->kernel->code, NULL, stream, why);
}

static bool mends_rows(const rdt_cuda_gemm *g) {
  return g->kernel->family == RDT_CUDA_WGMMA;
}

rdt_status rdt_cuda_gemm_can_mend(rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why) {
  const rdt_epilogue *e = o->epilogue;
  if (e && e->residual.rank >= 0 && e->residual.data == o->out.data)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s cannot be repaired: the result takes the place of the residual",
                    g->kernel->name);
  if (g->wide.sums_of.next || g->wide.sums_of.before)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s is not repaired in its stream: sums of what is stored are handed on in a chain, of what a "
                    "repair would store there are none",
                    g->kernel->name);
  if (mends_rows(g))
    RDT_TRY(rdt_mend_ready_rows(&g->mender, g->kernel, &g->args, &g->wide, g->row_blocks, &g->acc, g->lambda,
                                &g->device, stream, why));
  if (!g->mender.there)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s is not repaired in its stream: products whose checks are within them are, of up to 65535 tiles",
                    g->kernel->name);
  return RDT_OK;
}

static rdt_status mend(rdt_cuda_gemm *g, const rdt_operands *o, const rdt_mma_args *a, rdt_mma_hit *struck,
                       bool at_once, void *stream, rdt_reason *why) {
  const rdt_wide w = wide_of(g, o);
  return rdt_mend_enqueue(&g->mender, g->kernel, a, &g->tall, &w, g->row_blocks, struck, at_once, stream, why);
}

rdt_status rdt_cuda_gemm_mend(rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why) {
  const rdt_mma_args a = args_of(g, o);
  RDT_TRY(rdt_cuda_gemm_can_mend(g, o, stream, why));
  if (mends_rows(g) && g->fixed) RDT_TRY(settle(g, &a, NULL, stream, why)); /* others are settled when they are run */
  return mend(g, o, &a, NULL, false, stream, why);
}

rdt_status rdt_cuda_gemm_mended(rdt_cuda_gemm *g, void *stream, rdt_cuda_mended *m, rdt_reason *why) {
  *m = (rdt_cuda_mended){0};
  if (!g->mender.used) return RDT_OK;
  RDT_TRY(rdt_cuda_get(m, &g->mender.there->outcome.told, sizeof *m, stream, why));
  const bool written = rdt_cuda_is_written(m, sizeof *m);
  if (m->seen.listed > RDT_CUDA_LISTED) m->seen.listed = RDT_CUDA_LISTED;
  return written ? rdt_cuda_clear(&g->mender.there->outcome.told, sizeof *m, stream, why) : RDT_OK;
}

/* A multiprocessor that is wrong stays wrong; what else was struck is computed again as it is shipped. What stands goes
 * to the strike's own verdict. */
static rdt_status strike_mended(rdt_cuda_gemm *g, const rdt_cuda_gemm *now, const rdt_operands *o, rdt_cuda_strike *s,
                                rdt_mma_hit *hit, void *stream, rdt_reason *why) {
  const bool again = s->sm >= 0;
  const rdt_mma_args a = args_of(now, o);
  rdt_mend_outcome *outcome = &g->mender.there->outcome;
  RDT_TRY(mend(g, o, &a, again ? hit : NULL, !again, stream, why));
  RDT_TRY(rdt_cuda_move(a.verdict, &outcome->stands, sizeof outcome->stands, stream, why));
  RDT_TRY(rdt_cuda_clear(&outcome->stands, sizeof outcome->stands, stream, why));
  return rdt_cuda_gemm_mended(g, stream, s->mended, why);
}

/* Of a strike, on both sides: all of the first lie before all of the second. */
static size_t strike_bytes(int count) {
  return (size_t)count * (sizeof(rdt_mma_hit) + sizeof(rdt_cuda_verdict));
}

static rdt_status strike_all(rdt_cuda_gemm *g, const rdt_operands *o, size_t apart, rdt_cuda_strike *s, int count,
                             void *stream, rdt_reason *why) {
  const void *const *code = rdt_cuda_kernel_inject(g->kernel);
  rdt_mma_hit *const hits = g->strikes;
  rdt_cuda_verdict *const verdicts = (rdt_cuda_verdict *)(hits + count);
  rdt_cuda_gemm now = *g;
  rdt_operands each = *o;
  now.told = NULL;
  for (int i = 0; i < count; i++) {
    now.args.verdict = verdicts + i;
    each.out.data = (char *)o->out.data + (size_t)i * apart;
    RDT_TRY(launch(&now, &each, code, hits + i, stream, why));
    if (s[i].stored) RDT_TRY(rdt_cuda_gemm_stored(&now, &each, stream, why));
    if (s[i].mended) RDT_TRY(strike_mended(g, &now, &each, &s[i], hits + i, stream, why));
  }
  return RDT_OK;
}

rdt_status rdt_cuda_gemm_strike(rdt_cuda_gemm *g, const rdt_operands *o, size_t apart, rdt_cuda_strike *s, int count,
                                rdt_cuda_verdict *found, void *stream, rdt_reason *why) {
  const size_t bytes = strike_bytes(count);
  const void *const *code = rdt_cuda_kernel_inject(g->kernel);
  if (!code || (g->kernel->family == RDT_CUDA_WGMMA && !code[g->wide.columns + 4 * g->wide.a_columns]))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s has no injecting instantiation", g->kernel->name);
  for (int i = 0; i < count; i++) {
    if (s[i].limit && is_integer(g->kernel))
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s is exact: it has no bound", g->kernel->name);
    if (s[i].several && is_wide(g->kernel))
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s takes one fault at a time", g->kernel->name);
    if (s[i].stored && !g->wide.bits)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s tells no bit-sums of what it stores", g->kernel->name);
    if (s[i].mended) RDT_TRY(rdt_cuda_gemm_can_mend(g, o, stream, why));
  }
  if (bytes > g->strikes_bytes) {
    rdt_cuda_free(g->strikes);
    g->strikes = NULL, g->strikes_bytes = 0;
    RDT_TRY(rdt_cuda_alloc(bytes, &g->strikes, why));
    g->strikes_bytes = bytes;
  }
  rdt_mma_hit *hits = rdt_calloc(1, bytes);
  if (!hits) return rdt_fail(why, RDT_ERR_NOMEM, "faults: out of memory");
  for (int i = 0; i < count; i++)
    hits[i] = rdt_cuda_aim(g->kernel, &g->args, &g->wide, is_tall(g->kernel) ? g->tall.fold : 1, &s[i]);
  rdt_status status = rdt_cuda_gemm_settle(&g, 1, stream, why);
  if (status == RDT_OK) status = rdt_cuda_put(g->strikes, hits, bytes, stream, why);
  if (status == RDT_OK) status = strike_all(g, o, apart, s, count, stream, why);
  if (status == RDT_OK) status = rdt_cuda_get(hits, g->strikes, bytes, stream, why);
  if (status == RDT_OK) memcpy(found, hits + count, (size_t)count * sizeof *found);
  for (int i = 0; status == RDT_OK && i < count; i++) {
    s[i].hit.before = hits[i].before, s[i].hit.after = hits[i].after, s[i].hit.done = hits[i].done > 0;
    s[i].bound = hits[i].bound;
    if (found[i].listed > RDT_CUDA_LISTED) found[i].listed = RDT_CUDA_LISTED;
  }
  rdt_free(hits);
  return status;
}

rdt_status rdt_cuda_gemm_verdict(rdt_cuda_gemm *g, void *stream, rdt_cuda_verdict *v, rdt_reason *why) {
  RDT_TRY(rdt_cuda_gemm_settle(&g, 1, stream, why));
  RDT_TRY(rdt_cuda_get(v, g->args.verdict, sizeof *v, stream, why));
  const bool written = rdt_cuda_is_written(v, sizeof *v);
  if (v->listed > RDT_CUDA_LISTED) v->listed = RDT_CUDA_LISTED;
  if (g->mender.used) { /* and what repairs have left */
    rdt_cuda_verdict stands, *there = &g->mender.there->outcome.stands;
    RDT_TRY(rdt_cuda_get(&stands, there, sizeof stands, stream, why));
    rdt_mend_merge(v, &stands);
    if (rdt_cuda_is_written(&stands, sizeof stands)) RDT_TRY(rdt_cuda_clear(there, sizeof stands, stream, why));
  }
  return written ? rdt_cuda_clear(g->args.verdict, sizeof *v, stream, why) : RDT_OK;
}
