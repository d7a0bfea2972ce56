// Graphs, and streams that are captured into them. A graph that is launched is work whose parts are its nodes, each
// behind those that it follows; a condition is work whose parts are the nodes of a body, where a kernel has said so.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

// ---- Conditions ----

typedef struct em_condition {
  uint32_t value, initial;
  bool assigned;  // the initial value, at each launch
  int refs;
  struct em_condition *next;
} em_condition;
static em_condition *conditions;

static em_condition *condition_of(uint64_t handle) {
  for (em_condition *c = conditions; c; c = c->next)
    if ((uint64_t)(uintptr_t)c == handle) return c;
  return NULL;
}

void em_set_conditional(uint64_t handle, uint32_t value) {
  em_condition *c = condition_of(handle);
  if (c)
    c->value = value;
  else
    em_refuse("cudaGraphSetConditional: %#llx is no condition of a graph", (unsigned long long)handle);
}

static void drop_condition(em_condition *c) {
  em_condition **at = &conditions;
  if (--c->refs > 0) return;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  free(c);
}

static bool add_condition(struct CUgraph_st *g, em_condition *c) {
  em_condition **grown = realloc(g->condition, (size_t)(g->conditions + 1) * sizeof *grown);
  if (!grown) return false;
  g->condition = grown, g->condition[g->conditions++] = c;
  c->refs++;
  return true;
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t g, unsigned initial,
                                             unsigned flags) {
  em_enter();
  em_condition *c = calloc(1, sizeof *c);
  if (!c || !add_condition(g, c)) {
    free(c);
    return em_leave(cudaErrorMemoryAllocation);
  }
  c->value = c->initial = initial, c->assigned = flags & cudaGraphCondAssignDefault;
  c->next = conditions, conditions = c;
  *handle = (cudaGraphConditionalHandle)(uintptr_t)c;
  return em_leave(cudaSuccess);
}

// ---- Graphs ----

void em_graph_drop(struct CUgraph_st *g) {
  if (!g || --g->refs > 0) return;
  for (int i = 0; i < g->nodes; i++) {
    em_job_clear(&g->node[i]->job);
    free(g->node[i]->after), free(g->node[i]);
  }
  for (int i = 0; i < g->conditions; i++) drop_condition(g->condition[i]);
  free(g->node), free(g->condition), free(g);
}

static struct CUgraph_st *new_graph(void) {
  struct CUgraph_st *g = calloc(1, sizeof *g);
  if (g) g->refs = 1;
  return g;
}

static enum cudaGraphNodeType type_of(const em_job *job) {
  switch (job->kind) {
    case EM_JOB_KERNEL:
      return cudaGraphNodeTypeKernel;
    case EM_JOB_COPY:
      return cudaGraphNodeTypeMemcpy;
    case EM_JOB_FILL:
      return cudaGraphNodeTypeMemset;
    case EM_JOB_GRAPH:
      return cudaGraphNodeTypeGraph;
    case EM_JOB_CONDITION:
      return cudaGraphNodeTypeConditional;
    case EM_JOB_MARK:
      return cudaGraphNodeTypeEventRecord;
    case EM_JOB_EMPTY:
      break;
  }
  return cudaGraphNodeTypeEmpty;
}

// The job moves into the node.
static cudaGraphNode_t add(struct CUgraph_st *g, em_job *job, const cudaGraphNode_t *after, size_t n) {
  cudaGraphNode_t node = calloc(1, sizeof *node);
  cudaGraphNode_t *follows = malloc((n + 1) * sizeof *follows);
  if (g->nodes == g->room) {
    const int room = g->room ? 2 * g->room : 16;
    struct CUgraphNode_st **grown = realloc(g->node, (size_t)room * sizeof *grown);
    if (grown) g->node = grown, g->room = room;
  }
  if (!node || !follows || g->nodes == g->room) {
    free(node), free(follows);
    em_job_clear(job);
    return NULL;
  }
  if (n) memcpy(follows, after, n * sizeof *follows);
  *node =
      (struct CUgraphNode_st){.job = *job, .type = type_of(job), .after = follows, .afters = (int)n, .index = g->nodes};
  *job = (em_job){.kind = EM_JOB_EMPTY};
  return g->node[g->nodes++] = node;
}

static struct CUgraph_st *copy_of(const struct CUgraph_st *g) {
  struct CUgraph_st *c = new_graph();
  bool good = c != NULL;
  for (int i = 0; good && i < g->conditions; i++) good = add_condition(c, g->condition[i]);
  for (int i = 0; good && i < g->nodes; i++) {
    const struct CUgraphNode_st *from = g->node[i];
    em_job job;
    good = em_job_copy(&job, &from->job);
    for (int b = 0; good && b < 2; b++)
      if (job.body[b]) {
        struct CUgraph_st *body = copy_of(job.body[b]);
        em_graph_drop(job.body[b]);
        job.body[b] = body, good = body != NULL;
      }
    cudaGraphNode_t node = good ? add(c, &job, from->after, (size_t)from->afters) : NULL;
    for (int k = 0; node && k < node->afters; k++) node->after[k] = c->node[node->after[k]->index];
    good = node != NULL;
  }
  if (good) return c;
  em_graph_drop(c);
  return NULL;
}

static bool holds(const struct CUgraph_st *g, const cudaGraphNode_t *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!list[i] || list[i]->index >= g->nodes || g->node[list[i]->index] != list[i]) return false;
  return true;
}

static cudaError_t add_to(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *after, size_t n, em_job *job) {
  if (!g || !holds(g, after, n)) {
    em_job_clear(job);
    return cudaErrorInvalidValue;
  }
  *node = add(g, job, after, n);
  return *node ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaGraphCreate(cudaGraph_t *g, unsigned flags) {
  em_enter();
  *g = new_graph();
  return em_leave(flags ? cudaErrorInvalidValue : *g ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaGraphDestroy(cudaGraph_t g) {
  em_enter();
  em_graph_drop(g);
  return em_leave(g ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *after, size_t n) {
  em_enter();
  return em_leave(add_to(node, g, after, n, &(em_job){.kind = EM_JOB_EMPTY}));
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *after, size_t n,
                                   const struct cudaKernelNodeParams *p) {
  const cudaLaunchConfig_t config = {
      .gridDim = p->gridDim, .blockDim = p->blockDim, .dynamicSmemBytes = p->sharedMemBytes};
  em_job job;
  em_enter();
  const cudaError_t e = em_kernel_job(&job, &config, p->func, p->kernelParams);
  return em_leave(e == cudaSuccess ? add_to(node, g, after, n, &job) : e);
}

// Conditions: `if`, with a body for either case or one, and `while`.
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t g, const cudaGraphNode_t *after,
                             const cudaGraphEdgeData *edges, size_t n, struct cudaGraphNodeParams *p) {
  em_job job = {.kind = EM_JOB_CONDITION, .loops = p->conditional.type == cudaGraphCondTypeWhile};
  em_enter();
  if (edges || p->type != cudaGraphNodeTypeConditional || p->conditional.type == cudaGraphCondTypeSwitch)
    return em_leave(cudaErrorNotSupported);
  job.condition = condition_of(p->conditional.handle);
  if (!job.condition || p->conditional.size < 1 || p->conditional.size > (job.loops ? 1u : 2u))
    return em_leave(cudaErrorInvalidValue);
  for (unsigned i = 0; i < p->conditional.size; i++) job.body[i] = new_graph();
  const cudaError_t e = add_to(node, g, after, n, &job);
  if (e == cudaSuccess) p->conditional.phGraph_out = (*node)->job.body;
  return em_leave(e);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
  em_enter();
  if (!node) return em_leave(cudaErrorInvalidValue);
  *type = node->type;
  return em_leave(cudaSuccess);
}

// ---- Graphs that are launched ----

struct CUgraphExec_st {
  struct CUgraph_st *graph;
  cudaStream_t stream;  // where it was launched last
  em_work *last;
};

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t g, unsigned long long flags) {
  (void)flags; /* priorities: the order is nobody's promise */
  em_enter();
  *exec = NULL;
  cudaGraphExec_t x = g ? calloc(1, sizeof *x) : NULL;
  if (x) x->graph = copy_of(g);
  if (!x || !x->graph) {
    free(x);
    return em_leave(g ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
  }
  *exec = x;
  return em_leave(cudaSuccess);
}

// What was launched goes on.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
  em_enter();
  if (!x) return em_leave(cudaErrorInvalidValue);
  em_work_drop(x->last);
  em_graph_drop(x->graph);
  free(x);
  return em_leave(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t stream) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  if (!x || !s) return em_leave(cudaErrorInvalidResourceHandle);
  /* one launch of it waits for the other */
  cudaError_t e = x->last && x->stream != stream ? em_settle(x->last) : cudaSuccess;
  if (e != cudaSuccess) return em_leave(e);
  x->graph->refs++;
  e = em_ask(stream, &(em_job){.kind = EM_JOB_GRAPH, .graph = x->graph});
  if (e == cudaSuccess && !s->graph) {
    em_work_drop(x->last);
    x->last = s->last, x->last->refs++, x->stream = stream;
  }
  return em_leave(e);
}

static void set_conditions(struct CUgraph_st *g) {
  for (int i = 0; i < g->conditions; i++)
    if (g->condition[i]->assigned) g->condition[i]->value = g->condition[i]->initial;
  for (int i = 0; i < g->nodes; i++)
    for (int b = 0; b < 2; b++)
      if (g->node[i]->job.body[b]) set_conditions(g->node[i]->job.body[b]);
}

// Nodes follow those that were made before them.
static cudaError_t expand(em_work *work, const struct CUgraph_st *g) {
  em_work **parts = malloc((size_t)(2 * g->nodes + 1) * sizeof *parts), **after = parts + g->nodes;
  if (!parts) return cudaErrorMemoryAllocation;
  for (int i = 0; i < g->nodes; i++) {
    const struct CUgraphNode_st *node = g->node[i];
    for (int k = 0; k < node->afters; k++) after[k] = parts[node->after[k]->index];
    parts[i] = em_work_add(NULL, &node->job, after, node->afters);
    if (!parts[i] || !em_work_also(work, parts[i])) {
      free(parts);
      return cudaErrorMemoryAllocation;
    }
  }
  free(parts);
  return cudaSuccess;
}

cudaError_t em_graph_open(em_work *work) {
  const em_job *job = work->job;
  const bool again = work->opened;
  work->opened = true;
  if (job->kind == EM_JOB_GRAPH) {
    if (again) return cudaSuccess;
    set_conditions(job->graph);
    return expand(work, job->graph);
  }
  if (again && !job->loops) return cudaSuccess;
  const struct CUgraph_st *body = job->body[job->condition->value ? 0 : 1];
  return body ? expand(work, body) : cudaSuccess;
}

// ---- Capture ----

static unsigned long long this_thread(void) {
  return (unsigned long long)pthread_self();
}

static bool take_tips(cudaGraphNode_t **tips, int *n, const cudaGraphNode_t *from, size_t count) {
  cudaGraphNode_t *list = malloc((count + 1) * sizeof *list);
  if (!list) return false;
  if (count) memcpy(list, from, count * sizeof *list);
  free(*tips);
  *tips = list, *n = (int)count;
  return true;
}

static bool add_tips(struct CUstream_st *s, const cudaGraphNode_t *from, size_t count) {
  cudaGraphNode_t *list = realloc(s->tips, ((size_t)s->n_tips + count + 1) * sizeof *list);
  if (!list) return false;
  s->tips = list;
  for (size_t i = 0; i < count; i++) {
    bool there = false;
    for (int k = 0; k < s->n_tips; k++) there |= list[k] == from[i];
    if (!there) list[s->n_tips++] = from[i];
  }
  return true;
}

void em_capture_break(struct CUstream_st *s) {
  s->graph->broken = true;
}

cudaError_t em_capture_forbids(void) {
  for (struct CUstream_st *s = em_streams(); s; s = s->next)
    if (s->graph && (s->graph->mode == cudaStreamCaptureModeGlobal ||
                     (s->graph->mode == cudaStreamCaptureModeThreadLocal && s->graph->thread == this_thread()))) {
      em_capture_break(s);
      return cudaErrorStreamCaptureUnsupported;
    }
  return cudaSuccess;
}

cudaError_t em_capture_implicit(void) {
  for (struct CUstream_st *s = em_streams(); s; s = s->next)
    if (s->graph && s->waits) {
      em_capture_break(s);
      return cudaErrorStreamCaptureImplicit;
    }
  return cudaSuccess;
}

cudaError_t em_capture(struct CUstream_st *s, em_job *job) {
  if (s->graph->broken) {
    em_job_clear(job);
    return cudaErrorStreamCaptureInvalidated;
  }
  const cudaGraphNode_t node = add(s->graph, job, s->tips, (size_t)s->n_tips);
  return node && take_tips(&s->tips, &s->n_tips, &node, 1) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t em_capture_mark(struct CUstream_st *s, cudaEvent_t e) {
  if (!take_tips(&e->tips, &e->n_tips, s->tips, (size_t)s->n_tips)) return cudaErrorMemoryAllocation;
  em_graph_drop(e->graph);
  em_work_drop(e->work);
  e->graph = s->graph, e->graph->refs++;
  e->work = NULL, e->recorded = false;
  return cudaSuccess;
}

cudaError_t em_capture_wait(struct CUstream_st *s, cudaEvent_t e) {
  if (!e->graph) { /* recorded where nothing is captured, or never */
    if (!e->work) return cudaSuccess;
    em_capture_break(s);
    return cudaErrorStreamCaptureIsolation;
  }
  if (s->graph && s->graph != e->graph) return cudaErrorStreamCaptureMerge;
  if (!e->graph->capturing) return cudaErrorCapturedEvent;
  s->graph = e->graph;
  return add_tips(s, e->tips, (size_t)e->n_tips) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  if (!s) return em_leave(cudaErrorInvalidResourceHandle);
  if (s == &em_default) return em_leave(cudaErrorStreamCaptureUnsupported);
  if (s->graph) return em_leave(cudaErrorIllegalState);
  s->graph = new_graph();
  if (!s->graph) return em_leave(cudaErrorMemoryAllocation);
  s->graph->mode = mode, s->graph->thread = this_thread(), s->graph->capturing = true;
  s->origin = true, s->n_tips = 0;
  return em_leave(cudaSuccess);
}

// Does anything follow each node, or is it what the stream ends with?
static bool is_joined(const struct CUstream_st *s) {
  const struct CUgraph_st *g = s->graph;
  for (int i = 0; i < g->nodes; i++) {
    bool followed = false;
    for (int k = 0; k < s->n_tips; k++) followed |= s->tips[k] == g->node[i];
    for (int k = i + 1; k < g->nodes && !followed; k++)
      for (int a = 0; a < g->node[k]->afters; a++) followed |= g->node[k]->after[a] == g->node[i];
    if (!followed) return false;
  }
  return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  *out = NULL;
  if (!s) return em_leave(cudaErrorInvalidResourceHandle);
  struct CUgraph_st *g = s->graph;
  if (!g) return em_leave(cudaErrorIllegalState);
  if (!s->origin) return em_leave(cudaErrorStreamCaptureUnmatched);
  if (g->mode != cudaStreamCaptureModeRelaxed && g->thread != this_thread())
    return em_leave(cudaErrorStreamCaptureWrongThread);
  const cudaError_t e = g->broken       ? cudaErrorStreamCaptureInvalidated
                        : !is_joined(s) ? cudaErrorStreamCaptureUnjoined
                                        : cudaSuccess;
  g->capturing = false;
  for (struct CUstream_st *at = em_streams(); at; at = at->next)
    if (at->graph == g) at->graph = NULL, at->origin = false, at->n_tips = 0;
  if (e == cudaSuccess)
    *out = g;
  else
    em_graph_drop(g);
  return em_leave(e);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *state, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **after, const cudaGraphEdgeData **edges,
                                     size_t *count) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  if (!s) return em_leave(cudaErrorInvalidResourceHandle);
  const cudaError_t e = s == &em_default ? em_capture_implicit() : cudaSuccess;
  *state = !s->graph          ? cudaStreamCaptureStatusNone
           : s->graph->broken ? cudaStreamCaptureStatusInvalidated
                              : cudaStreamCaptureStatusActive;
  if (*state != cudaStreamCaptureStatusActive) return em_leave(e);
  if (id) *id = (unsigned long long)(uintptr_t)s->graph;
  if (graph) *graph = s->graph;
  if (after) *after = s->tips;
  if (edges) *edges = NULL;
  if (count) *count = (size_t)s->n_tips;
  return em_leave(e);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                const cudaGraphEdgeData *edges, size_t n, unsigned flags) {
  em_enter();
  struct CUstream_st *s = em_stream_of(stream);
  if (!s) return em_leave(cudaErrorInvalidResourceHandle);
  if (!s->graph) return em_leave(cudaErrorIllegalState);
  if (edges || !holds(s->graph, nodes, n)) return em_leave(cudaErrorInvalidValue);
  const bool good =
      flags == cudaStreamSetCaptureDependencies ? take_tips(&s->tips, &s->n_tips, nodes, n) : add_tips(s, nodes, n);
  return em_leave(good ? cudaSuccess : cudaErrorMemoryAllocation);
}
