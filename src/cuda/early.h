/* Kernels that begin while what is ahead of them ends, and wait for it (ptx/chain.h). */
#ifndef RDT_CUDA_EARLY_H
#define RDT_CUDA_EARLY_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

/* May the next launch in this stream? In a captured graph only what follows a kernel, and nothing else. */
static inline bool rdt_begins_early(cudaStream_t stream) {
  enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  enum cudaGraphNodeType type;
  const cudaGraphNode_t *after = NULL;
  size_t count = 0;
  if (!stream) return true;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData *edges;
  const cudaError_t e = cudaStreamGetCaptureInfo(stream, &state, NULL, NULL, &after, &edges, &count);
#else
  const cudaError_t e = cudaStreamGetCaptureInfo_v2(stream, &state, NULL, NULL, &after, &count);
#endif
  if (e != cudaSuccess) return false;
  if (state == cudaStreamCaptureStatusNone) return true;
  return state == cudaStreamCaptureStatusActive && count == 1 && cudaGraphNodeGetType(after[0], &type) == cudaSuccess &&
         type == cudaGraphNodeTypeKernel;
}

#endif
