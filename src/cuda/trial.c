#include "cuda/trial.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "cuda/device.h"

enum { CALLS = 4, REPLAYS = 5, WARM = 1 };

typedef struct timed {
  cudaGraphExec_t graph; /* NULL: it failed */
  float ms[REPLAYS];
} timed;

static int order(const void *x, const void *y) {
  const float a = *(const float *)x, b = *(const float *)y;
  return (a > b) - (a < b);
}

static rdt_status capture(timed *t, rdt_cuda_trial_fn *fn, void *user, void *given, cudaStream_t stream,
                          rdt_reason *why) {
  cudaGraph_t graph = NULL;
  RDT_TRY(fn(user, given, why)); /* loads what is loaded at first use */
  RDT_TRY(rdt_cuda_wait(given, why));
  rdt_status s = rdt_cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture", why);
  if (s != RDT_OK) return s;
  for (int i = 0; s == RDT_OK && i < CALLS; i++) s = fn(user, stream, why);
  const cudaError_t e = cudaStreamEndCapture(stream, &graph);
  if (s == RDT_OK) s = rdt_cuda_status(e, "capture", why);
  if (s == RDT_OK) s = rdt_cuda_status(cudaGraphInstantiate(&t->graph, graph, 0), "a graph", why);
  if (s != RDT_OK) t->graph = NULL;
  if (graph) (void)cudaGraphDestroy(graph);
  return s;
}

static rdt_status replay(timed *list, int n, cudaStream_t stream, rdt_reason *why) {
  cudaEvent_t start, stop;
  cudaError_t e = cudaEventCreate(&start);
  if (e != cudaSuccess) return rdt_cuda_status(e, "cudaEventCreate", why);
  e = cudaEventCreate(&stop);
  for (int i = -WARM; e == cudaSuccess && i < REPLAYS; i++)
    for (int j = 0; e == cudaSuccess && j < n; j++) {
      if (!list[j].graph) continue;
      e = cudaEventRecord(start, stream);
      if (e == cudaSuccess) e = cudaGraphLaunch(list[j].graph, stream);
      if (e == cudaSuccess) e = cudaEventRecord(stop, stream);
      if (e == cudaSuccess) e = cudaEventSynchronize(stop);
      if (e == cudaSuccess && i >= 0) e = cudaEventElapsedTime(&list[j].ms[i], start, stop);
    }
  (void)cudaEventDestroy(start), (void)cudaEventDestroy(stop);
  return rdt_cuda_status(e, "a trial", why);
}

rdt_status rdt_cuda_trials(rdt_cuda_trial_fn *fn, void *const *users, int n, void *given, double *seconds,
                           rdt_reason *why) {
  cudaStream_t stream;
  rdt_status first = RDT_OK, s;
  int good = 0;
  timed *list = rdt_calloc((size_t)n, sizeof *list);
  if (!list) return rdt_fail(why, RDT_ERR_NOMEM, "trials: out of memory");
  s = RDT_OK;
  if (given) /* it may have multiprocessors of its own */
    stream = given;
  else
    s = rdt_cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", why);
  if (s != RDT_OK) {
    rdt_free(list);
    return s;
  }
  for (int i = 0; i < n; i++) {
    rdt_reason its = {""};
    s = capture(&list[i], fn, users[i], given, stream, &its);
    good += s == RDT_OK;
    if (s == RDT_OK || first != RDT_OK) continue;
    first = s;
    if (why) *why = its;
  }
  s = good ? replay(list, n, stream, why) : first;
  for (int i = 0; i < n; i++) {
    qsort(list[i].ms, REPLAYS, sizeof *list[i].ms, order);
    seconds[i] = list[i].graph ? 1e-3 * (double)list[i].ms[REPLAYS / 2] / CALLS : INFINITY;
    if (list[i].graph) (void)cudaGraphExecDestroy(list[i].graph);
  }
  if (!given) (void)cudaStreamDestroy(stream);
  rdt_free(list);
  return s;
}

rdt_status rdt_cuda_trial(rdt_cuda_trial_fn *fn, void *user, void *stream, double *seconds, rdt_reason *why) {
  return rdt_cuda_trials(fn, &user, 1, stream, seconds, why);
}
