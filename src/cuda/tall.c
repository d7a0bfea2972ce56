#include "cuda/tall.h"

#include <cuda_runtime_api.h>

#include "cuda/capture.h"
#include "cuda/wide.h"

enum { ALIGNED = 16, RESERVED = 1024 /* bytes of each block, of all that a multiprocessor has */ };

static int rounds_of(int depth) {
  return (depth + RDT_TALL_K - 1) / RDT_TALL_K;
}

static bool checked(const rdt_cuda_kernel *k) {
  return k->check != RDT_MMA_NONE;
}

static int stage_of(const rdt_cuda_kernel *k) { /* bytes of B */
  return rdt_tall_rows(k->tile->columns, checked(k)) * 2 * RDT_TALL_K;
}

static int slot_of(const rdt_cuda_kernel *k) {
  return k->tile->rows * 2 * RDT_TALL_K;
}

/* Shared memory without the ring; outs: pieces of a warp. */
static int64_t fixed(const rdt_cuda_kernel *k, int threads, int outs, int64_t rounds) {
  return rounds * stage_of(k) + (threads - 32) / 32 * outs * RDT_TALL_PIECE + RDT_TALL_REST;
}

static int slots_in(const rdt_cuda_kernel *k, int threads, int outs, int64_t bytes, int64_t rounds) {
  const int64_t slots = (bytes - fixed(k, threads, outs, rounds)) / slot_of(k);
  return slots < 0 ? 0 : slots > RDT_TALL_SLOTS ? RDT_TALL_SLOTS : (int)slots;
}

static int slots_alone(const rdt_cuda_kernel *k, int outs, int64_t rounds) {
  return slots_in(k, k->tile->threads, outs, k->shared - RDT_MMA_AGAIN, rounds);
}

rdt_status rdt_tall_accept(const rdt_cuda_kernel *k, const rdt_wide_sides *s, rdt_reason *why) {
  const int64_t depth = s->a.shape[1], rounds = (depth + RDT_TALL_K - 1) / RDT_TALL_K;
  if (s->batches > 1)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s takes no batches; rows that lie one after the other are one matrix",
                    k->name);
  if (slots_alone(k, 1, rounds) < RDT_TALL_LEAST) {
    int64_t most = rounds;
    while (most > 0 && slots_alone(k, 1, most) < RDT_TALL_LEAST) most--;
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s keeps all of B in shared memory: it takes up to %lld terms of a sum, not %lld", k->name,
                    (long long)most * RDT_TALL_K, (long long)depth);
  }
  return RDT_OK;
}

/* Short rows take as long as longer ones: copies go row by row. A has no more terms then than its image is worth. */
rdt_tall rdt_tall_fold(const rdt_cuda_kernel *k, bool columns, int sms, rdt_mma_args *a) {
  enum { TERMS = 320 };
  rdt_tall t = {.columns = columns, .sms = sms, .fold = 1, .row = columns ? 1 : a->ldb, .column = columns ? a->ldb : 1};
  const bool dense = a->lda == a->k && a->ldc == a->n && (!a->ldr || a->ldr == a->n);
  while (dense && 2 * t.fold * a->n <= k->tile->columns && 2 * t.fold * a->k <= TERMS && a->m % (2 * t.fold) == 0)
    t.fold *= 2;
  a->m /= t.fold, a->n *= t.fold, a->k *= t.fold;
  a->lda *= t.fold, a->ldc *= t.fold, a->ldr *= t.fold;
  if (t.fold > 1) a->ldb = a->n, t.columns = false;
  return t;
}

size_t rdt_tall_spread_bytes(const rdt_tall *t, const rdt_mma_args *a) {
  return t->fold > 1 ? (size_t)a->k * (size_t)a->n * 2 : 0;
}

rdt_status rdt_tall_unfold(const rdt_tall *t, const rdt_mma_args *p, const void **b, void *stream, rdt_reason *why) {
  if (t->fold == 1) return RDT_OK;
  rdt_tall_spread_args a = {.b = *b,
                            .to = t->spread,
                            .row = t->row,
                            .column = t->column,
                            .k = p->k / t->fold,
                            .n = p->n / t->fold,
                            .fold = t->fold};
  void *arguments[] = {&a};
  const dim3 grid = {(unsigned)p->k, 1, 1}, block = {256, 1, 1};
  *b = t->spread;
  return rdt_cuda_status(cudaLaunchKernel(rdt_tall_spread, grid, block, arguments, 0, stream), "folded weights", why);
}

size_t rdt_tall_image(const rdt_cuda_kernel *k, int depth) {
  return k->family == RDT_CUDA_TALL ? (size_t)rounds_of(depth) * (size_t)stage_of(k) : 0;
}

rdt_status rdt_tall_bring(const rdt_cuda_kernel *k, const rdt_tall *t, const rdt_mma_args *p, const void *b,
                          void *stream, rdt_reason *why) {
  rdt_tall_pack_args a = {.b = b,
                          .sums = checked(k) ? p->parts : NULL,
                          .image = t->image,
                          .row = t->columns ? 1 : p->ldb,
                          .column = t->columns ? p->ldb : 1,
                          .k = p->k,
                          .n = p->n,
                          .columns = k->tile->columns};
  void *arguments[] = {&a};
  const dim3 grid = {(unsigned)rounds_of(p->k), 1, 1}, block = {256, 1, 1};
  return rdt_cuda_status(cudaLaunchKernel(rdt_tall_pack, grid, block, arguments, 0, stream), k->name, why);
}

void *rdt_tall_copy(const rdt_cuda_kernel *k, const rdt_tall *t, int64_t row, int64_t column) {
  const int rows = rdt_tall_rows(k->tile->columns, checked(k));
  return (uint16_t *)t->image + rdt_tall_place(rows, (int)column, (int)row);
}

/* Two blocks of a multiprocessor where both have enough of a ring: one of the next launch finds its place as soon as
 * one ends. No more stages than a block's tiles have. */
rdt_status rdt_tall_ready(const rdt_cuda_kernel *k, const rdt_tall *t, const rdt_mma_args *p, rdt_tall_start *s,
                          rdt_reason *why) {
  enum { ENOUGH = 5, PLENTY = 8 };
  const int rounds = rounds_of(p->k), tiles = (p->m + k->tile->rows - 1) / k->tile->rows,
            half = (k->shared + RESERVED) / 2 - RESERVED - RDT_MMA_AGAIN;
  int each = slots_in(k, k->tile->two, 1, half, rounds), sms = 2 * t->sms, outs = 1;
  s->threads = k->tile->two;
  if (each < ENOUGH || s->threads == 32) {
    s->threads = k->tile->threads, sms = t->sms;
    outs = k->tile->columns > 64 && slots_alone(k, 2, rounds) >= PLENTY ? 2 : 1;
    each = slots_alone(k, outs, rounds);
  }
  s->blocks = tiles < sms ? tiles : sms;
  const int most = (tiles + s->blocks - 1) / s->blocks * rounds, slots = each < most ? each : most;
  s->shared = (int)fixed(k, s->threads, outs, rounds) + slots * slot_of(k);
  rdt_wgmma_args *w = &s->args.w;
  *w = (rdt_wgmma_args){.p = *p, .alike = t->alike, .tiles = tiles, .row_blocks = tiles};
  s->args.image = t->image, s->args.slots = slots, s->args.outs = outs, s->args.fold = t->fold,
  s->args.bias = p->n / t->fold;
  const rdt_dtype out = p->c_type == RDT_MMA_F32 ? RDT_F32 : k->dtype;
  const int each_ = ALIGNED / (int)rdt_dtype_info(out)->bytes;
  w->stored = p->n / each_ * each_;
  w->extra = p->bias || p->residual || p->relu || p->alpha != 1.0f;
  RDT_TRY(rdt_wide_map(&w->a, k->dtype, p->a, p->k, p->m, p->lda, k->tile->rows, why));
  return rdt_wide_map(&w->c, out, p->c, w->stored ? w->stored : each_, p->m, p->ldc, 16, why);
}

/* In a captured graph only what follows a kernel may begin early. */
static bool behind_kernel(cudaStream_t stream) {
  enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  enum cudaGraphNodeType type;
  const cudaGraphNode_t *after;
  cudaGraph_t graph;
  size_t count;
  if (!stream) return true;
  if (rdt_capture_of(stream, &state, &graph, &after, &count) != cudaSuccess) return false;
  if (state == cudaStreamCaptureStatusNone) return true;
  return state == cudaStreamCaptureStatusActive && count == 1 && cudaGraphNodeGetType(after[0], &type) == cudaSuccess &&
         type == cudaGraphNodeTypeKernel;
}

rdt_status rdt_tall_launch(const rdt_cuda_kernel *k, const rdt_tall *t, const rdt_mma_args *p, const void *code,
                           rdt_mma_hit *hit, bool early, void *stream, rdt_reason *why) {
  rdt_tall_start s;
  RDT_TRY(rdt_tall_ready(k, t, p, &s, why));
  void *arguments[] = {&s.args, &hit};
  cudaLaunchAttribute begins = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                .val.programmaticStreamSerializationAllowed = 1};
  const cudaLaunchConfig_t how = {.gridDim = {(unsigned)s.blocks, 1, 1},
                                  .blockDim = {(unsigned)s.threads, 1, 1},
                                  .dynamicSmemBytes = (size_t)s.shared,
                                  .stream = stream,
                                  .attrs = &begins,
                                  .numAttrs = early && behind_kernel(stream)};
  return rdt_cuda_status(cudaLaunchKernelExC(&how, code, arguments), k->name, why);
}
