#include "cuda/trial.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "cuda/device.h"

enum { CALLS = 4, REPLAYS = 5, WARM = 1 };

static int order(const void *x, const void *y) {
  const float a = *(const float *)x, b = *(const float *)y;
  return (a > b) - (a < b);
}

static rdt_status replay(cudaGraphExec_t graph, cudaStream_t stream, double *seconds, rdt_reason *why) {
  cudaEvent_t start, stop;
  float ms[REPLAYS] = {0.0f};
  cudaError_t e = cudaEventCreate(&start);
  if (e != cudaSuccess) return rdt_cuda_status(e, "cudaEventCreate", why);
  e = cudaEventCreate(&stop);
  for (int i = -WARM; e == cudaSuccess && i < REPLAYS; i++) {
    e = cudaEventRecord(start, stream);
    if (e == cudaSuccess) e = cudaGraphLaunch(graph, stream);
    if (e == cudaSuccess) e = cudaEventRecord(stop, stream);
    if (e == cudaSuccess) e = cudaEventSynchronize(stop);
    if (e == cudaSuccess && i >= 0) e = cudaEventElapsedTime(&ms[i], start, stop);
  }
  (void)cudaEventDestroy(start), (void)cudaEventDestroy(stop);
  qsort(ms, REPLAYS, sizeof *ms, order);
  *seconds = 1e-3 * (double)ms[REPLAYS / 2] / CALLS;
  return rdt_cuda_status(e, "a trial", why);
}

rdt_status rdt_cuda_trial(rdt_cuda_trial_fn *fn, void *user, void *stream_, double *seconds, rdt_reason *why) {
  const cudaStream_t given = stream_;
  cudaStream_t stream;
  cudaGraph_t graph = NULL;
  cudaGraphExec_t ready = NULL;
  RDT_TRY(fn(user, given, why)); /* loads what is loaded at first use */
  RDT_TRY(rdt_cuda_wait(given, why));
  RDT_TRY(rdt_cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", why));
  rdt_status s = rdt_cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture", why);
  if (s == RDT_OK) {
    for (int i = 0; s == RDT_OK && i < CALLS; i++) s = fn(user, stream, why);
    const cudaError_t e = cudaStreamEndCapture(stream, &graph);
    if (s == RDT_OK) s = rdt_cuda_status(e, "capture", why);
  }
  if (s == RDT_OK) s = rdt_cuda_status(cudaGraphInstantiate(&ready, graph, 0), "a graph", why);
  if (s == RDT_OK) s = replay(ready, stream, seconds, why);
  if (ready) (void)cudaGraphExecDestroy(ready);
  if (graph) (void)cudaGraphDestroy(graph);
  (void)cudaStreamDestroy(stream);
  return s;
}
