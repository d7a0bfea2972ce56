#include "cuda/mender.h"

#include <cuda_runtime_api.h>
#include <string.h>

#include "cuda/capture.h"
#include "cuda/device.h"

enum { GRID_Y = 65535 };

bool rdt_mend_takes(const rdt_cuda_kernel *k) {
  return k->family != RDT_CUDA_WGMMA && k->check != RDT_MMA_NONE && k->check != RDT_MMA_CLASSIC;
}

/* ---- memory ---- */

typedef struct places {
  size_t taken, moved, ran, sums, bytes;
} places;

static int across(const rdt_cuda_kernel *k, const rdt_mma_args *a) {
  return a->column_blocks + (k->check == RDT_MMA_SUMS);
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

static bool fits(const rdt_cuda_kernel *k, int row_blocks) { /* into a grid */
  return rdt_mend_takes(k) && row_blocks <= GRID_Y;
}

size_t rdt_mend_bytes(const rdt_cuda_kernel *k, const rdt_mma_args *a, int row_blocks) {
  return fits(k, row_blocks) ? places_of(k, a, row_blocks).bytes : 0;
}

rdt_status rdt_mend_ready(rdt_mender *h, const rdt_cuda_kernel *k, const rdt_mma_args *a, int fold, int row_blocks,
                          const rdt_cuda_device *d, void *memory, void *stream, rdt_reason *why) {
  if (!fits(k, row_blocks)) return RDT_OK;
  const places p = places_of(k, a, row_blocks);
  const rdt_mend m = {.across = across(k, a),
                      .down = row_blocks,
                      .splits = a->splits,
                      .columns = a->column_blocks,
                      .tile = {k->tile->rows * (k->family == RDT_CUDA_TALL ? fold : 1), k->tile->columns},
                      .by_sums = k->check == RDT_MMA_SUMS,
                      .sms = d->sms,
                      .tickets = a->tickets,
                      .n_tickets = a->column_blocks * row_blocks + row_blocks + 1,
                      .taken = (uint32_t *)((char *)memory + p.taken),
                      .moved = (uint32_t *)((char *)memory + p.moved),
                      .ran = (uint16_t *)((char *)memory + p.ran),
                      .sums = (uint64_t *)((char *)memory + p.sums)};
  h->there = memory, h->sms = d->sms, h->most = d->shared;
  RDT_TRY(rdt_cuda_status(
      cudaFuncSetAttribute(rdt_mend_shut, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)d->shared), k->name, why));
  RDT_TRY(rdt_cuda_put(memory, &m, sizeof m, stream, why));
  return rdt_cuda_wait(stream, why);
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
  const void *code;
  const rdt_mma_args *a;
  const rdt_tall *tall; /* NULL: another family */
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

/* A launch of the product for what is left. In a graph, what is to be avoided is shut beside it from the second on. */
static rdt_status add_product(chain *c, const repair *r, const product *p, bool shuts, rdt_reason *why) {
  rdt_mend *m = r->h->there;
  rdt_mma_hit *hit = r->hit;
  void *of_product[] = {p->args, &hit}, *of_shut[] = {&m};
  const dim3 one = {1, 1, 1}, sms = {(unsigned)r->h->sms, 1, 1};
  const dim3 grid = {(unsigned)across(r->k, r->a), (unsigned)r->row_blocks, (unsigned)r->a->splits};
  const dim3 block = {(unsigned)p->threads, 1, 1};
  const launch again = {r->code, grid, block, of_product, (size_t)p->shared + RDT_MMA_AGAIN};
  if (!c->graph || !shuts) return add(c, &again, why);
  chain beside = *c;
  RDT_TRY(add(&beside, &(launch){rdt_mend_shut, sms, one, of_shut, r->h->most}, why));
  RDT_TRY(add(c, &(launch){rdt_mend_gate, one, one, of_shut, 0}, why));
  RDT_TRY(add(c, &again, why));
  const cudaGraphNode_t both[] = {c->last, beside.last};
  return rdt_cuda_status(cudaGraphAddEmptyNode(&c->last, c->graph, both, 2), "a repair", why);
}

/* What follows where somebody complained. */
static rdt_status add_work(chain *c, const repair *r, rdt_reason *why) {
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

/* One look, and all else in a graph within the graph, which runs if there is something to do. */
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
  p.conditional.type = cudaGraphCondTypeIf;
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

static rdt_status own_graph(rdt_mender *h, const repair *r, cudaStream_t stream, rdt_reason *why) {
  if (!h->graph || !same(&h->args, r->a) || h->code != r->code || h->hit != r->hit) {
    cudaGraph_t graph;
    cudaGraphNode_t end;
    cudaGraphExec_t exec = NULL;
    rdt_mend_drop(h);
    RDT_TRY(rdt_cuda_status(cudaGraphCreate(&graph, 0), "a repair", why));
    rdt_status status = add_graph(graph, NULL, 0, r, &end, why);
    if (status == RDT_OK) status = rdt_cuda_status(cudaGraphInstantiate(&exec, graph, 0), "a repair", why);
    (void)cudaGraphDestroy(graph);
    RDT_TRY(status);
    h->graph = exec, h->args = *r->a, h->code = r->code, h->hit = r->hit;
  }
  return rdt_cuda_status(cudaGraphLaunch(h->graph, stream), "a repair", why);
}

rdt_status rdt_mend_enqueue(rdt_mender *h, const rdt_cuda_kernel *k, const void *code, const rdt_mma_args *a,
                            const rdt_tall *tall, int row_blocks, rdt_mma_hit *hit, bool at_once, void *stream,
                            rdt_reason *why) {
  const repair r = {h, k, code, a, k->family == RDT_CUDA_TALL ? tall : NULL, row_blocks, hit};
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
  if (h->graph) (void)cudaGraphExecDestroy(h->graph);
  h->graph = NULL;
}

void rdt_mend_merge(rdt_cuda_verdict *to, const rdt_cuda_verdict *more) {
  to->suspect += more->suspect, to->certain += more->certain, to->cannot += more->cannot;
  for (uint32_t i = 0; i < more->listed && i < RDT_CUDA_LISTED && to->listed < RDT_CUDA_LISTED; i++)
    to->list[to->listed++] = more->list[i];
  for (int i = 0; i < RDT_CUDA_SMS; i++) to->sm[i] += more->sm[i];
}
