/* What a stream is captured into; the call had fewer arguments before CUDA 13. */
#ifndef RDT_CUDA_CAPTURE_H
#define RDT_CUDA_CAPTURE_H

#include <cuda_runtime_api.h>

/* after: the nodes that its next launch follows. */
static inline cudaError_t rdt_capture_of(cudaStream_t s, enum cudaStreamCaptureStatus *state, cudaGraph_t *graph,
                                         const cudaGraphNode_t **after, size_t *count) {
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData *edges;
  return cudaStreamGetCaptureInfo(s, state, NULL, graph, after, &edges, count);
#else
  return cudaStreamGetCaptureInfo_v2(s, state, NULL, graph, after, count);
#endif
}

#endif
