/* A GPU as a machine: two streams, events between them, CUDA graphs as tapes. */
#include "cuda/machine.h"

#include <cuda_runtime_api.h>

#include "core/memory.h"
#include "cuda/ops/ops.h"

typedef struct gpu {
  rdt_machine machine; /* first: it is what others see */
  cudaStream_t stream[RDT_LANES];
  cudaEvent_t event;
  cudaEvent_t *marks;
  int n_marks;
} gpu;

static cudaStream_t stream_of(rdt_machine *m, rdt_lane l) {
  return ((gpu *)m)->stream[l];
}

/* A thread has a device of its own. */
static rdt_status enter(const rdt_machine *m, rdt_reason *why) {
  return rdt_cuda_status(cudaSetDevice(m->device.index), "cudaSetDevice", why);
}

static rdt_status take(rdt_machine *m, size_t bytes, void **p, rdt_reason *why) {
  *p = NULL;
  RDT_TRY(enter(m, why));
  RDT_TRY(rdt_cuda_alloc(bytes, p, why));
  return rdt_cuda_wait(NULL, why); /* the streams wait for no other one */
}

static void give(rdt_machine *m, void *p) {
  rdt_reason why;
  if (p && enter(m, &why) == RDT_OK) rdt_cuda_free(p);
}

static rdt_status pin(rdt_machine *m, size_t bytes, void **p, rdt_reason *why) {
  *p = NULL;
  RDT_TRY(enter(m, why));
  return rdt_cuda_status(cudaMallocHost(p, bytes ? bytes : 1), "cudaMallocHost", why);
}

static void unpin(rdt_machine *m, void *p) {
  (void)m;
  if (p) (void)cudaFreeHost(p);
}

static rdt_status put(rdt_machine *m, rdt_lane l, void *to, const void *from, size_t bytes, rdt_reason *why) {
  return bytes ? rdt_cuda_put(to, from, bytes, stream_of(m, l), why) : RDT_OK;
}

static rdt_status get(rdt_machine *m, rdt_lane l, void *to, const void *from, size_t bytes, rdt_reason *why) {
  if (!bytes) return RDT_OK;
  return rdt_cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(m, l)),
                         "copy from the device", why);
}

static rdt_status wait(rdt_machine *m, rdt_reason *why) {
  RDT_TRY(rdt_cuda_wait(stream_of(m, RDT_LANE_MAIN), why));
  return rdt_cuda_wait(stream_of(m, RDT_LANE_SIDE), why);
}

static rdt_status follow(rdt_machine *m, rdt_lane l, rdt_reason *why) {
  gpu *g = (gpu *)m;
  RDT_TRY(rdt_cuda_status(cudaEventRecord(g->event, g->stream[!l]), "cudaEventRecord", why));
  return rdt_cuda_status(cudaStreamWaitEvent(g->stream[l], g->event, 0), "cudaStreamWaitEvent", why);
}

static rdt_status launch(rdt_machine *m, rdt_lane l, int code, const void *args, int64_t blocks, rdt_reason *why) {
  void *arguments[] = {(void *)(uintptr_t)args};
  dim3 grid = {(unsigned)blocks, 1, 1}, block = {1, 1, 1};
  unsigned shared;
  const void *kernel = rdt_ops_kernel(code, args, &block.x, &shared);
  cudaLaunchAttribute early = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                               .val = {.programmaticStreamSerializationAllowed = 1}};
  const cudaLaunchConfig_t config = {.gridDim = grid,
                                     .blockDim = block,
                                     .dynamicSmemBytes = shared,
                                     .stream = stream_of(m, l),
                                     .attrs = &early,
                                     .numAttrs = code < RDT_OP_KINDS}; /* ops wait by themselves */
  if (shared)
    RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                            rdt_ops_name(code), why));
  return rdt_cuda_status(cudaLaunchKernelExC(&config, kernel, arguments), rdt_ops_name(code), why);
}

enum { SMALL = 1 << 16 }; /* bytes that a kernel clears: a copy engine, and the way to it, take longer */

static rdt_status clear(rdt_machine *m, rdt_lane l, void *p, size_t bytes, rdt_reason *why) {
  RDT_TRY(enter(m, why)); /* what every run begins with */
  if (bytes % 8 == 0 && bytes <= SMALL) {
    const rdt_clear_args a = {p, (int64_t)(bytes / 8)};
    return launch(m, l, RDT_OP_CLEAR, &a, (a.count + RDT_OP_THREADS - 1) / RDT_OP_THREADS, why);
  }
  return rdt_cuda_clear(p, bytes, stream_of(m, l), why);
}

static rdt_status linear_create(rdt_machine *m, const rdt_problem *p, const char *scheme, double lambda,
                                rdt_cuda_linear **l, rdt_reason *why) {
  *l = NULL;
  RDT_TRY(enter(m, why));
  return rdt_cuda_linear_create(&m->device, p, scheme, lambda, stream_of(m, RDT_LANE_MAIN), l, why);
}

static rdt_status linear_launch(rdt_machine *m, const rdt_cuda_linear_task *t, rdt_reason *why) {
  return rdt_cuda_linear_launch(t->l, &t->o, t->to, stream_of(m, RDT_LANE_MAIN), why);
}

static rdt_status linear_check(rdt_machine *m, const rdt_cuda_linear_task *list, int n, rdt_reason *why) {
  return rdt_cuda_linear_check(list, n, stream_of(m, RDT_LANE_SIDE), why);
}

static rdt_status linear_renew(rdt_machine *m, rdt_cuda_linear *l, const void *weights, rdt_reason *why) {
  return rdt_cuda_linear_renew(l, weights, stream_of(m, RDT_LANE_MAIN), why);
}

static const rdt_cuda_verdict *linear_verdict(const rdt_cuda_linear *l) {
  return rdt_cuda_linear_verdict(l);
}

static rdt_status mlp_create(rdt_machine *m, const rdt_problem *const *p, rdt_cuda_linear *const *steps, int n,
                             const rdt_cuda_mlp_form *form, rdt_cuda_mlp **c, rdt_reason *why) {
  *c = NULL;
  RDT_TRY(enter(m, why));
  return rdt_cuda_mlp_create_faster(&m->device, p, steps, n, form, stream_of(m, RDT_LANE_MAIN), c, why);
}

static rdt_status mlp_launch(rdt_machine *m, const rdt_cuda_mlp *c, const void *x, void *out, rdt_box_sum_to to,
                             rdt_reason *why) {
  return rdt_cuda_mlp_launch(c, x, out, to, stream_of(m, RDT_LANE_MAIN), why);
}

static rdt_status mlp_renew(rdt_machine *m, const rdt_cuda_mlp *c, const void *const *weights, rdt_reason *why) {
  return rdt_cuda_mlp_renew(c, weights, stream_of(m, RDT_LANE_MAIN), why);
}

static rdt_status gemm_create(rdt_machine *m, const rdt_cuda_kernel *k, const rdt_problem *p, int sets, double lambda,
                              rdt_cuda_gemm **g, rdt_reason *why) {
  *g = NULL;
  RDT_TRY(enter(m, why));
  RDT_TRY(rdt_cuda_gemm_create_sets(k, &m->device, p, sets, lambda, 0, stream_of(m, RDT_LANE_MAIN), g, why));
  (void)rdt_cuda_gemm_cover(*g, true, NULL); /* where it can: each run looks at what was stored */
  return RDT_OK;
}

static rdt_status gemm_run(rdt_machine *m, rdt_cuda_gemm *g, const rdt_operands *o, rdt_cuda_strike *strike,
                           rdt_cuda_verdict *found, void *on, rdt_reason *why) {
  void *stream = on ? on : stream_of(m, RDT_LANE_MAIN);
  RDT_TRY(enter(m, why));
  if (strike) return rdt_cuda_gemm_strike(g, o, 0, strike, 1, found, stream, why);
  RDT_TRY(rdt_cuda_gemm_run(g, o, stream, why));
  if (rdt_cuda_gemm_covered(g)) RDT_TRY(rdt_cuda_gemm_stored(g, o, stream, why));
  return rdt_cuda_gemm_verdict(g, stream, found, why);
}

static rdt_status votes_create(rdt_machine *m, const rdt_tensor *out, bool apart, rdt_thrice **t, rdt_reason *why) {
  const rdt_sm_groups *groups = NULL;
  *t = NULL;
  RDT_TRY(enter(m, why));
  if (apart) RDT_TRY(rdt_sm_groups_of_device(m->device.kept_off - 1, &groups, why));
  return rdt_thrice_create(out, NULL, groups, NULL, stream_of(m, RDT_LANE_MAIN), t, why);
}

static rdt_status vote(rdt_machine *m, rdt_thrice *t, void *out, rdt_vote_hit *hit, rdt_thrice_ballot *b,
                       rdt_reason *why) {
  void *stream = stream_of(m, RDT_LANE_MAIN);
  RDT_TRY(enter(m, why));
  RDT_TRY(hit ? rdt_thrice_vote_struck(t, out, hit, stream, why) : rdt_thrice_vote(t, out, stream, why));
  return rdt_thrice_read(t, stream, b, why);
}

static rdt_status voted_create(rdt_machine *m, const rdt_problem *p, int team, int votes, rdt_voted **v,
                               rdt_reason *why) {
  *v = NULL;
  RDT_TRY(enter(m, why));
  return rdt_voted_create(&m->device, p, team, votes, v, why);
}

static rdt_status voted_launch(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_reason *why) {
  RDT_TRY(enter(m, why));
  return rdt_voted_run(v, o, stream_of(m, RDT_LANE_MAIN), why);
}

static rdt_status voted_strike(rdt_machine *m, rdt_voted *v, const rdt_operands *o, rdt_voted_hit *hit,
                               rdt_reason *why) {
  RDT_TRY(enter(m, why));
  return rdt_voted_strike(v, o, hit, stream_of(m, RDT_LANE_MAIN), why);
}

static rdt_status voted_read(rdt_machine *m, rdt_voted *v, rdt_thrice_ballot *b, rdt_vote_found *found,
                             rdt_reason *why) {
  RDT_TRY(enter(m, why));
  return rdt_voted_read(v, stream_of(m, RDT_LANE_MAIN), b, found, why);
}

static rdt_status sms_open(rdt_machine *m, rdt_sms **s, rdt_reason *why) {
  return rdt_sms_open(m->device.index, s, why);
}

static rdt_status mark(rdt_machine *m, rdt_lane l, int number, rdt_reason *why) {
  gpu *g = (gpu *)m;
  if (number >= g->n_marks) {
    const int n = 2 * number + 64;
    cudaEvent_t *grown = rdt_grow(g->marks, (size_t)g->n_marks, (size_t)n, sizeof *grown);
    if (!grown) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for marks");
    g->marks = grown;
    for (; g->n_marks < n; g->n_marks++)
      RDT_TRY(rdt_cuda_status(cudaEventCreate(&g->marks[g->n_marks]), "cudaEventCreate", why));
  }
  return rdt_cuda_status(cudaEventRecord(g->marks[number], stream_of(m, l)), "a mark", why);
}

static rdt_status between(rdt_machine *m, int from, int to, double *seconds, rdt_reason *why) {
  const gpu *g = (gpu *)m;
  float ms = 0.0f;
  RDT_TRY(rdt_cuda_status(cudaEventElapsedTime(&ms, g->marks[from], g->marks[to]), "time between marks", why));
  *seconds = 1e-3 * (double)ms;
  return RDT_OK;
}

static rdt_status record(rdt_machine *m, rdt_reason *why) {
  return rdt_cuda_status(cudaStreamBeginCapture(stream_of(m, RDT_LANE_MAIN), cudaStreamCaptureModeThreadLocal),
                         "capture of a network", why);
}

static rdt_status recorded(rdt_machine *m, void **tape, rdt_reason *why) {
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  *tape = NULL;
  RDT_TRY(rdt_cuda_status(cudaStreamEndCapture(stream_of(m, RDT_LANE_MAIN), &graph), "capture of a network", why));
  const rdt_status status = rdt_cuda_status(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority),
                                            "a graph of the network", why);
  (void)cudaGraphDestroy(graph);
  *tape = exec;
  return status;
}

static rdt_status replay(rdt_machine *m, void *tape, rdt_reason *why) {
  RDT_TRY(enter(m, why));
  return rdt_cuda_status(cudaGraphLaunch(tape, stream_of(m, RDT_LANE_MAIN)), "the network's graph", why);
}

static void erase(rdt_machine *m, void *tape) {
  (void)m;
  if (tape) (void)cudaGraphExecDestroy(tape);
}

static void shut(rdt_machine *m) {
  gpu *g = (gpu *)m;
  if (g->event) (void)cudaEventDestroy(g->event);
  for (int i = 0; i < g->n_marks; i++) (void)cudaEventDestroy(g->marks[i]);
  rdt_free(g->marks);
  for (int l = 0; l < RDT_LANES; l++)
    if (g->stream[l]) (void)cudaStreamDestroy(g->stream[l]);
  rdt_free(g);
}

rdt_status rdt_machine_open(int index, rdt_machine **out, rdt_reason *why) {
  rdt_cuda_device device;
  *out = NULL;
  RDT_TRY(rdt_cuda_open(index, &device, why));
  gpu *g = rdt_calloc(1, sizeof *g);
  if (!g) return rdt_fail(why, RDT_ERR_NOMEM, "cuda:%d: out of memory", index);
  g->machine = (rdt_machine){.device = device,
                             .alloc = take,
                             .release = give,
                             .pin = pin,
                             .unpin = unpin,
                             .put = put,
                             .get = get,
                             .clear = clear,
                             .wait = wait,
                             .follow = follow,
                             .launch = launch,
                             .linear_create = linear_create,
                             .linear_launch = linear_launch,
                             .linear_check = linear_check,
                             .linear_renew = linear_renew,
                             .linear_blocks = rdt_cuda_linear_blocks,
                             .linear_reads = rdt_cuda_linear_reads,
                             .linear_inside = rdt_cuda_linear_inside,
                             .linear_verdict = linear_verdict,
                             .linear_kernel = rdt_cuda_linear_kernel,
                             .linear_scheme = rdt_cuda_linear_scheme,
                             .linear_destroy = rdt_cuda_linear_destroy,
                             .mlp_create = mlp_create,
                             .mlp_launch = mlp_launch,
                             .mlp_renew = mlp_renew,
                             .mlp_blocks = rdt_cuda_mlp_blocks,
                             .mlp_verdict = rdt_cuda_mlp_verdict,
                             .mlp_kernel = rdt_cuda_mlp_kernel,
                             .mlp_scheme = rdt_cuda_mlp_scheme,
                             .mlp_destroy = rdt_cuda_mlp_destroy,
                             .gemm_create = gemm_create,
                             .gemm_run = gemm_run,
                             .gemm_destroy = rdt_cuda_gemm_destroy,
                             .votes_create = votes_create,
                             .votes_stream = rdt_thrice_stream,
                             .votes_copy = rdt_thrice_copy,
                             .sms_open = sms_open,
                             .vote = vote,
                             .votes_destroy = rdt_thrice_destroy,
                             .voted_create = voted_create,
                             .voted_votes = rdt_voted_votes,
                             .voted_launch = voted_launch,
                             .voted_strike = voted_strike,
                             .voted_read = voted_read,
                             .voted_destroy = rdt_voted_destroy,
                             .mark = mark,
                             .between = between,
                             .record = record,
                             .recorded = recorded,
                             .replay = replay,
                             .erase = erase,
                             .close = shut};
  int low = 0, high = 0; /* what the network waits for goes first */
  rdt_status status = rdt_cuda_status(cudaDeviceGetStreamPriorityRange(&low, &high), "priorities of streams", why);
  for (int l = 0; l < RDT_LANES && status == RDT_OK; l++)
    status = rdt_cuda_status(
        cudaStreamCreateWithPriority(&g->stream[l], cudaStreamNonBlocking, l == RDT_LANE_MAIN ? high : low),
        "cudaStreamCreate", why);
  if (status == RDT_OK)
    status = rdt_cuda_status(cudaEventCreateWithFlags(&g->event, cudaEventDisableTiming), "cudaEventCreate", why);
  if (status != RDT_OK) {
    shut(&g->machine);
    return status;
  }
  *out = &g->machine;
  return RDT_OK;
}
