#include "cuda/mender.h"

#include <cuda_runtime_api.h>
#include <string.h>

#include "cuda/capture.h"
#include "cuda/device.h"
#include "cuda/gemm_bounds.h"

enum { GRID_Y = 65535, BLOCKS = 264 /* that copy */ };

bool rdt_mend_takes(const rdt_cuda_kernel *k) {
  return k->check != RDT_MMA_NONE && k->check != RDT_MMA_CLASSIC;
}

/* ---- memory ---- */

typedef struct places {
  size_t taken, moved, ran, sums, bytes;
} places;

static int across(const rdt_cuda_kernel *k, const rdt_mma_args *a) {
  return a->column_blocks + (k->check == RDT_MMA_SUMS && k->family != RDT_CUDA_WGMMA);
}

static places places_of(const rdt_cuda_kernel *k, const rdt_mma_args *a, int row_blocks) {
  const size_t tiles = (size_t)a->column_blocks * (size_t)row_blocks,
               blocks = (size_t)across(k, a) * (size_t)row_blocks * (size_t)a->splits;
  places p;
  p.sums = (sizeof(rdt_mend) + 15) / 16 * 16;
  p.taken = p.sums + 3 * tiles * sizeof(uint64_t);
  p.moved = p.taken + (blocks + 31) / 32 * sizeof(uint32_t);
  p.ran = p.moved + (blocks + 31) / 32 * sizeof(uint32_t);
  p.bytes = p.ran + 2 * blocks * sizeof(uint16_t);
  return p;
}

static bool by_rows(const rdt_cuda_kernel *k) {
  return k->family == RDT_CUDA_WGMMA;
}

static int batches_of(const rdt_wide *w) {
  return w->batches > 1 ? w->batches : 1;
}

static bool fits(const rdt_cuda_kernel *k, int64_t row_blocks) { /* into a grid */
  return rdt_mend_takes(k) && row_blocks <= GRID_Y;
}

size_t rdt_mend_bytes(const rdt_cuda_kernel *k, const rdt_mma_args *a, int row_blocks) {
  return fits(k, row_blocks) && !by_rows(k) ? places_of(k, a, row_blocks).bytes : 0;
}

/* What the device has of it, in memory. */
static rdt_mend mend_of(const rdt_cuda_kernel *k, const rdt_mma_args *a, int fold, int row_blocks, int batches,
                        const rdt_cuda_device *d, void *memory) {
  const places p = places_of(k, a, row_blocks * batches);
  return (rdt_mend){.across = across(k, a),
                    .down = row_blocks * batches,
                    .splits = a->splits,
                    .columns = a->column_blocks,
                    .tile = {k->tile->rows * (k->family == RDT_CUDA_TALL ? fold : 1), k->tile->columns},
                    .by_sums = RDT_WGMMA_BY_ROWS(k->check),
                    .by_rows = by_rows(k),
                    .rows = a->m,
                    .each = row_blocks,
                    .at = -1,
                    .sms = d->sms,
                    .tickets = a->tickets,
                    .n_tickets = by_rows(k) ? 0 : a->column_blocks * row_blocks + row_blocks + 1,
                    .taken = (uint32_t *)((char *)memory + p.taken),
                    .moved = (uint32_t *)((char *)memory + p.moved),
                    .ran = (uint16_t *)((char *)memory + p.ran),
                    .sums = (uint64_t *)((char *)memory + p.sums)};
}

static rdt_status put_there(rdt_mender *h, const rdt_mend *m, const rdt_cuda_kernel *k, const rdt_cuda_device *d,
                            void *memory, void *stream, rdt_reason *why) {
  h->there = memory, h->sms = d->sms, h->most = d->shared;
  RDT_TRY(rdt_cuda_status(
      cudaFuncSetAttribute(rdt_mend_shut, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)d->shared), k->name, why));
  RDT_TRY(rdt_cuda_put(memory, m, sizeof *m, stream, why));
  return rdt_cuda_wait(stream, why);
}

rdt_status rdt_mend_ready(rdt_mender *h, const rdt_cuda_kernel *k, const rdt_mma_args *a, int fold, int row_blocks,
                          const rdt_cuda_device *d, void *memory, void *stream, rdt_reason *why) {
  if (!fits(k, row_blocks) || by_rows(k)) return RDT_OK;
  const rdt_mend m = mend_of(k, a, fold, row_blocks, 1, d, memory);
  return put_there(h, &m, k, d, memory, stream, why);
}

/* Of those that compare columns: the kernel that compares the rows of the same tile, with the same sums of weights. */
static const rdt_cuda_kernel *of_rows(const rdt_cuda_kernel *k) {
  int n;
  const rdt_cuda_kernel *all = rdt_cuda_kernels(&n);
  if (k->check != RDT_WGMMA_ROWCOL) return k;
  for (int i = 0; i < n; i++)
    if (all[i].family == k->family && all[i].dtype == k->dtype && all[i].tile == k->tile &&
        all[i].check == RDT_MMA_SUMS && strcmp(all[i].scheme, "row") == 0)
      return &all[i];
  return NULL;
}

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by * by;
}

static bool is_captured(cudaStream_t stream) {
  enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  cudaGraph_t graph;
  const cudaGraphNode_t *after;
  size_t count;
  return stream && rdt_capture_of(stream, &state, &graph, &after, &count) == cudaSuccess &&
         state != cudaStreamCaptureStatusNone;
}

rdt_status rdt_mend_ready_rows(rdt_mender *h, const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_wide *w,
                               int row_blocks, const rdt_accumulator *acc, double lambda, const rdt_cuda_device *d,
                               void *stream, rdt_reason *why) {
  const rdt_cuda_kernel *rows = of_rows(k);
  const int64_t many = batches_of(w);
  if (h->part.memory) return RDT_OK;
  if (is_captured(stream))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%s is made ready for its repair before the stream is captured: rdt_cuda_gemm_can_mend", k->name);
  if (!fits(k, row_blocks * many) || !rows)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s is not repaired in its stream: %s", k->name,
                    rdt_mend_takes(k) ? "it has more than 65535 rows of tiles" : "it has no check");
  rdt_mend_part part = {.kernel = rows, .wide = *w, .args = *a};
  rdt_mma_args *p = &part.args;
  const size_t element = rdt_dtype_size(k->dtype), out = rdt_dtype_size(w->bytes);
  const int m = 2 * k->tile->rows, high = d->sms / 2 > RDT_WGMMA_CLUSTER ? d->sms / 2 : RDT_WGMMA_CLUSTER;
  p->m = m, p->scalar = 0;
  p->lda = w->a_columns ? m : up(p->k, 16 / (int64_t)element), p->ldc = up(p->n, 16 / (int64_t)out);
  p->bound = rdt_gemm_bound(rows, p, 2, acc, lambda);
  part.wide.pads = (rdt_pads){0}, part.wide.bits = NULL, part.wide.sums_of = (rdt_columns){0};
  const int64_t of_batch[] = {w->a_columns ? p->k * p->lda : m * p->lda, m * p->ldc}; /* elements */
  part.wide.a_next = many > 1 ? of_batch[0] : 0; /* also where all have the same: one of them has rows */
  part.wide.c_next = part.wide.r_next = many > 1 ? of_batch[1] : 0;
  part.wide.skewed = false; /* nor will a cluster's tiles lie side by side: its blocks have rows that are the same */
  part.wide.alike = rdt_wide_alike(&p->bound);
  rdt_wide_plan(&part.wide, rows, m, p->column_blocks, p->k, 1, high); /* some may have to be avoided */

  size_t end = 0;
  const size_t there = rdt_cuda_place(&end, places_of(k, a, row_blocks * (int)many).bytes);
  const size_t of_a = rdt_cuda_place(&end, (size_t)(many * of_batch[0]) * element);
  const size_t of_c = rdt_cuda_place(&end, (size_t)(many * of_batch[1]) * out);
  const size_t of_residual = rdt_cuda_place(&end, a->ldr ? (size_t)(many * of_batch[1]) * out : 0);
  const size_t tickets = rdt_cuda_place(
      &end, (size_t)(2 * p->column_blocks + 3) * sizeof(unsigned) + rdt_wide_tickets(&part.wide) * sizeof(unsigned));
  const size_t sums = rdt_cuda_place(&end, 2 * 4 * (size_t)(many * m) * (size_t)rows->sum);
  const size_t scalars = rdt_cuda_place(&end, (size_t)(2 + part.wide.blocks) * 4 * (size_t)rows->sum);
  RDT_TRY(rdt_cuda_kernel_admit(rows, why));
  RDT_TRY(rdt_cuda_alloc(end, &part.memory, why));
  char *at = part.memory;
  p->ldr = a->ldr ? p->ldc : 0;
  p->a = at + of_a, p->c = at + of_c, p->residual = a->ldr ? at + of_residual : NULL;
  p->tickets = (unsigned *)(at + tickets), p->sums = at + sums, p->scalars = at + scalars, p->partial = NULL;
  p->verdict = &((rdt_mend *)(void *)(at + there))->now;
  const rdt_mend of = mend_of(k, a, 1, row_blocks, (int)many, d, at + there);
  const rdt_status status = put_there(h, &of, k, d, at + there, stream, why);
  if (status == RDT_OK) {
    h->part = part;
  } else {
    h->there = NULL;
    rdt_cuda_free(part.memory);
  }
  return status;
}

/* ---- launches, one behind the other ---- */

typedef struct launch {
  const void *code;
  dim3 grid, block;
  void **arguments;
  size_t shared;
} launch;

typedef struct chain { /* into a stream, or the nodes of a graph */
  cudaStream_t stream;
  cudaGraph_t graph; /* NULL: the stream */
  cudaGraphNode_t last;
} chain;

static rdt_status add(chain *c, const launch *l, rdt_reason *why) {
  if (!c->graph)
    return rdt_cuda_status(cudaLaunchKernel(l->code, l->grid, l->block, l->arguments, l->shared, c->stream), "a repair",
                           why);
  const struct cudaKernelNodeParams p = {.func = (void *)(uintptr_t)l->code,
                                         .gridDim = l->grid,
                                         .blockDim = l->block,
                                         .sharedMemBytes = (unsigned)l->shared,
                                         .kernelParams = l->arguments};
  cudaGraphNode_t node;
  RDT_TRY(rdt_cuda_status(cudaGraphAddKernelNode(&node, c->graph, c->last ? &c->last : NULL, c->last != NULL, &p),
                          "a repair", why));
  c->last = node;
  return RDT_OK;
}

typedef struct repair {
  const rdt_mender *h;
  const rdt_cuda_kernel *k;
  const void *const *code;
  const rdt_mma_args *a;
  const rdt_tall *tall; /* NULL: another family */
  const rdt_wide *wide; /* the same */
  int row_blocks;
  rdt_mma_hit *hit;
} repair;

static rdt_status add_look(chain *c, const repair *r, cudaGraphConditionalHandle handle, rdt_reason *why) {
  rdt_mend *m = r->h->there;
  rdt_cuda_verdict *v = r->a->verdict;
  void *arguments[] = {&m, &v, &handle};
  return add(c, &(launch){rdt_mend_look, {1, 1, 1}, {RDT_MEND_THREADS, 1, 1}, arguments, 0}, why);
}

/* What the kernel is launched with. */
typedef struct product {
  void *args;
  int threads, shared;
} product;

/* In a graph, what is to be avoided is shut beside the launch that follows, until rdt_mend_ran. */
static rdt_status add_shut(chain *c, const repair *r, chain *beside, rdt_reason *why) {
  rdt_mend *m = r->h->there;
  void *arguments[] = {&m};
  const dim3 one = {1, 1, 1}, sms = {(unsigned)r->h->sms, 1, 1};
  *beside = *c;
  RDT_TRY(add(beside, &(launch){rdt_mend_shut, sms, one, arguments, r->h->most}, why));
  return add(c, &(launch){rdt_mend_gate, one, one, arguments, 0}, why);
}
static rdt_status add_both(chain *c, const chain *beside, rdt_reason *why) {
  const cudaGraphNode_t both[] = {c->last, beside->last};
  return rdt_cuda_status(cudaGraphAddEmptyNode(&c->last, c->graph, both, 2), "a repair", why);
}

/* A launch of the product for what is left. */
static rdt_status add_product(chain *c, const repair *r, const product *p, bool shuts, rdt_reason *why) {
  rdt_mma_hit *hit = r->hit;
  void *of_product[] = {p->args, &hit};
  const dim3 grid = {(unsigned)across(r->k, r->a), (unsigned)r->row_blocks, (unsigned)r->a->splits};
  const dim3 block = {(unsigned)p->threads, 1, 1};
  const launch again = {*r->code, grid, block, of_product, (size_t)p->shared + RDT_MMA_AGAIN};
  chain beside;
  if (!c->graph || !shuts) return add(c, &again, why);
  RDT_TRY(add_shut(c, r, &beside, why));
  RDT_TRY(add(c, &again, why));
  return add_both(c, &beside, why);
}

/* By rows: a row of tiles is brought, multiplied, compared and put back. */
static rdt_status add_row(chain *c, const repair *r, int last, rdt_reason *why) {
  const rdt_mend_part *part = &r->h->part;
  const rdt_pads *pads = &r->wide->pads;
  rdt_mend *m = r->h->there;
  rdt_cuda_verdict *v = r->a->verdict;
  rdt_mma_hit *hit = r->hit;
  rdt_mma_args p = part->args;
  rdt_wide w = part->wide;
  rdt_wide_start start;
  chain beside;
  const int size = (int)rdt_dtype_size(w.bytes), by = rdt_wide_settler(part->kernel), batches = batches_of(&w);
  p.b = pads->own[1] ? pads->own[1] : r->a->b, p.bias = r->a->bias;
  if (!r->a->residual) p.residual = NULL;
  w.factor = r->wide->factor;
  RDT_TRY(rdt_wide_ready(part->kernel, &w, &p, r->code, &start, why));
  rdt_mend_rows of_a = {.all = (void *)r->a->a,
                        .part = (void *)p.a,
                        .pitch = pads->own[0] ? pads->of[0].from_pitch : r->a->lda,
                        .part_pitch = p.lda,
                        .next = pads->own[0] ? pads->of[0].from_next : r->wide->a_next,
                        .part_next = w.a_next,
                        .batches = batches,
                        .width = p.k,
                        .size = (int)rdt_dtype_size(r->k->dtype),
                        .turned = w.a_columns};
  rdt_mend_rows of_c = {.all = r->a->c,
                        .part = p.c,
                        .pitch = pads->own[2] ? pads->of[2].to_pitch : r->a->ldc,
                        .part_pitch = p.ldc,
                        .next = pads->own[2] ? pads->of[2].to_next : r->wide->c_next,
                        .part_next = w.c_next,
                        .batches = batches,
                        .width = p.n,
                        .size = size};
  rdt_mend_rows of_residual = {.all = (void *)r->a->residual,
                               .part = (void *)p.residual,
                               .pitch = r->a->ldr,
                               .part_pitch = p.ldr,
                               .next = r->wide->r_next,
                               .part_next = w.r_next,
                               .batches = batches,
                               .width = p.n,
                               .size = size};
  rdt_mend_matrix matrix = {.data = of_c.all,
                            .second = (char *)p.c + (int64_t)r->k->tile->rows * p.ldc * size,
                            .pitch = of_c.pitch,
                            .second_pitch = p.ldc,
                            .next = of_c.next,
                            .second_next = w.c_next,
                            .rows = r->a->m,
                            .columns = p.n,
                            .bytes = size};
  rdt_pad of_b = pads->of[1]; /* brought anew, as what complains may be the copy */
  of_b.from = r->a->b, of_b.to = pads->own[1], of_b.verdict = p.verdict;
  rdt_settle_args sums = {0};
  rdt_wide_settles(&w, &p, &sums, 0);
  int before = 1, behind = 0;
  void *bring[] = {&m, &of_a}, *bring_residual[] = {&m, &of_residual}, *put[] = {&m, &of_c}, *alone[] = {&m},
       *first[] = {&m, &matrix, &before}, *then[] = {&m, &matrix, &behind}, *multiply[] = {&start.args, &hit},
       *settle[] = {&sums, &hit}, *judge[] = {&m, &v, &last}, *again[] = {&of_b};
  const dim3 one = {1, 1, 1}, threads = {RDT_MEND_THREADS, 1, 1}, copies = {BLOCKS, 1, 1}, warp = {32, 1, 1},
             blocks = {(unsigned)start.blocks, 1, 1}, tiles = {(unsigned)r->a->column_blocks, 1, 1};
  if (c->graph) RDT_TRY(add_shut(c, r, &beside, why));
  RDT_TRY(add(c, &(launch){rdt_mend_bring, copies, threads, bring, 0}, why));
  if (p.residual) RDT_TRY(add(c, &(launch){rdt_mend_bring, copies, threads, bring_residual, 0}, why));
  if (of_b.to) RDT_TRY(add(c, &(launch){rdt_pad_copy, copies, threads, again, 0}, why));
  RDT_TRY(add(c, &(launch){start.code, blocks, {(unsigned)start.threads, 1, 1}, multiply, (size_t)start.shared}, why));
  if (by >= 0) RDT_TRY(add(c, &(launch){rdt_wgmma_settle[by], blocks, warp, settle, 0}, why));
  if (of_b.to) RDT_TRY(add(c, &(launch){rdt_pad_compare, copies, threads, again, 0}, why));
  RDT_TRY(add(c, &(launch){rdt_mend_ran, one, one, alone, 0}, why));
  if (c->graph) RDT_TRY(add_both(c, &beside, why));
  RDT_TRY(add(c, &(launch){rdt_mend_sum, tiles, threads, first, 0}, why));
  RDT_TRY(add(c, &(launch){rdt_mend_put, copies, threads, put, 0}, why));
  RDT_TRY(add(c, &(launch){rdt_mend_sum, tiles, threads, then, 0}, why));
  return add(c, &(launch){rdt_mend_judge, one, threads, judge, 0}, why);
}

/* One after the other, as the host sees what is left. */
static rdt_status rows_at_once(chain *c, const repair *r, rdt_reason *why) {
  for (int64_t turns = (int64_t)RDT_MEND_LAUNCHES * r->row_blocks * batches_of(r->wide); turns > 0; turns--) {
    int open;
    RDT_TRY(rdt_cuda_get(&open, &r->h->there->open, sizeof open, c->stream, why));
    if (!open) break;
    RDT_TRY(add_row(c, r, turns == 1, why));
  }
  return RDT_OK;
}

/* What follows where somebody complained. */
static rdt_status add_work(chain *c, const repair *r, rdt_reason *why) {
  if (r->wide) return c->graph ? add_row(c, r, 0, why) : rows_at_once(c, r, why);
  rdt_mend *m = r->h->there;
  rdt_cuda_verdict *v = r->a->verdict;
  rdt_mma_args a = *r->a;
  const dim3 one = {1, 1, 1}, threads = {RDT_MEND_THREADS, 1, 1};
  const dim3 tiles = {(unsigned)a.column_blocks, (unsigned)r->row_blocks, 1};
  rdt_mend_matrix matrix = {
      .data = a.c, .pitch = a.ldc, .rows = a.m, .columns = a.n, .bytes = a.c_type == RDT_MMA_F32 ? r->k->sum : 2};
  int first = 1, last = 0;
  void *of_sum[] = {&m, &matrix, &first}, *of_judge[] = {&m, &v, &last};
  a.again = m, a.verdict = &m->now;
  rdt_tall_start start;
  product p = {&a, r->k->tile->threads, r->k->shared};
  if (r->tall) {
    RDT_TRY(rdt_tall_ready(r->k, r->tall, &a, &start, why));
    p = (product){&start.args, start.threads, start.shared};
    matrix.rows *= r->tall->fold, matrix.columns /= r->tall->fold, matrix.pitch /= r->tall->fold;
  }
  RDT_TRY(add(c, &(launch){rdt_mend_sum, tiles, threads, of_sum, 0}, why));
  first = 0;
  for (int i = 0; i < RDT_MEND_LAUNCHES; i++) {
    last = i == RDT_MEND_LAUNCHES - 1;
    RDT_TRY(add_product(c, r, &p, i > 0, why));
    RDT_TRY(add(c, &(launch){rdt_mend_sum, tiles, threads, of_sum, 0}, why));
    RDT_TRY(add(c, &(launch){rdt_mend_judge, one, threads, of_judge, 0}, why));
  }
  return RDT_OK;
}

/* ---- graphs ---- */

/* These calls had fewer arguments before CUDA 13. */
static cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                            struct cudaGraphNodeParams *p) {
#if CUDART_VERSION >= 13000
  return cudaGraphAddNode(node, graph, after, NULL, count, p);
#else
  return cudaGraphAddNode(node, graph, after, count, p);
#endif
}

static cudaError_t capture_follows(cudaStream_t s, cudaGraphNode_t *node) {
#if CUDART_VERSION >= 13000
  return cudaStreamUpdateCaptureDependencies(s, node, NULL, 1, cudaStreamSetCaptureDependencies);
#else
  return cudaStreamUpdateCaptureDependencies(s, node, 1, cudaStreamSetCaptureDependencies);
#endif
}

/* One look, and all else in a graph within the graph, which runs if (by rows: while) there is something to do. */
static rdt_status add_graph(cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const repair *r,
                            cudaGraphNode_t *end, rdt_reason *why) {
  cudaGraphConditionalHandle handle;
  cudaGraphNode_t joined = NULL;
  if (count > 1) RDT_TRY(rdt_cuda_status(cudaGraphAddEmptyNode(&joined, graph, after, count), "a repair", why));
  chain outer = {NULL, graph, count > 1 ? joined : count ? after[0] : NULL};
  RDT_TRY(rdt_cuda_status(cudaGraphConditionalHandleCreate(&handle, graph, 0, cudaGraphCondAssignDefault), "a repair",
                          why));
  RDT_TRY(add_look(&outer, r, handle, why));
  struct cudaGraphNodeParams p = {.type = cudaGraphNodeTypeConditional};
  p.conditional.handle = handle;
  p.conditional.type = r->wide ? cudaGraphCondTypeWhile : cudaGraphCondTypeIf;
  p.conditional.size = 1;
  RDT_TRY(rdt_cuda_status(add_node(end, graph, &outer.last, 1, &p), "a repair", why));
  chain inner = {NULL, p.conditional.phGraph_out[0], NULL};
  return add_work(&inner, r, why);
}

/* Arguments that make another graph. */
static bool same(const rdt_mma_args *x, const rdt_mma_args *y) {
  return x->verdict == y->verdict && x->a == y->a && x->b == y->b && x->c == y->c && x->bias == y->bias &&
         x->residual == y->residual;
}

static void drop_graph(rdt_mender *h) {
  if (h->graph) (void)cudaGraphExecDestroy(h->graph);
  h->graph = NULL;
}

static rdt_status own_graph(rdt_mender *h, const repair *r, cudaStream_t stream, rdt_reason *why) {
  const float *factor = r->wide ? r->wide->factor : NULL;
  if (!h->graph || !same(&h->args, r->a) || h->code != r->code || h->hit != r->hit || h->factor != factor) {
    cudaGraph_t graph;
    cudaGraphNode_t end;
    cudaGraphExec_t exec = NULL;
    drop_graph(h);
    RDT_TRY(rdt_cuda_status(cudaGraphCreate(&graph, 0), "a repair", why));
    rdt_status status = add_graph(graph, NULL, 0, r, &end, why);
    if (status == RDT_OK) status = rdt_cuda_status(cudaGraphInstantiate(&exec, graph, 0), "a repair", why);
    (void)cudaGraphDestroy(graph);
    RDT_TRY(status);
    h->graph = exec, h->args = *r->a, h->code = r->code, h->hit = r->hit, h->factor = factor;
  }
  return rdt_cuda_status(cudaGraphLaunch(h->graph, stream), "a repair", why);
}

rdt_status rdt_mend_enqueue(rdt_mender *h, const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_tall *tall,
                            const rdt_wide *wide, int row_blocks, rdt_mma_hit *struck, bool at_once, void *stream,
                            rdt_reason *why) {
  const rdt_cuda_kernel *again = by_rows(k) ? h->part.kernel : k;
  const repair r = {.h = h,
                    .k = k,
                    .code = struck ? rdt_cuda_kernel_inject(again) : again->code,
                    .a = a,
                    .tall = k->family == RDT_CUDA_TALL ? tall : NULL,
                    .wide = by_rows(k) ? wide : NULL,
                    .row_blocks = row_blocks,
                    .hit = struck};
  h->used = true;
  if (at_once) {
    chain c = {stream, NULL, NULL};
    RDT_TRY(add_look(&c, &r, 0, why));
    return add_work(&c, &r, why);
  }
  enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = NULL;
  const cudaGraphNode_t *after = NULL;
  cudaGraphNode_t end;
  size_t count = 0;
  if (stream) RDT_TRY(rdt_cuda_status(rdt_capture_of(stream, &state, &graph, &after, &count), "a repair", why));
  if (state != cudaStreamCaptureStatusActive) return own_graph(h, &r, stream, why);
  RDT_TRY(add_graph(graph, after, count, &r, &end, why));
  return rdt_cuda_status(capture_follows(stream, &end), "a repair", why);
}

void rdt_mend_drop(rdt_mender *h) {
  drop_graph(h);
  rdt_cuda_free(h->part.memory);
  h->part.memory = NULL;
}

void rdt_mend_merge(rdt_cuda_verdict *to, const rdt_cuda_verdict *more) {
  to->suspect += more->suspect, to->certain += more->certain, to->cannot += more->cannot;
  for (uint32_t i = 0; i < more->listed && i < RDT_CUDA_LISTED && to->listed < RDT_CUDA_LISTED; i++)
    to->list[to->listed++] = more->list[i];
  for (int i = 0; i < RDT_CUDA_SMS; i++) to->sm[i] += more->sm[i];
}
