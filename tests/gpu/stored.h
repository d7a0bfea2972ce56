/* What products on wgmma have stored, against its bit-sums (rdt_cuda_gemm_stored). */
#ifndef RDT_TESTS_GPU_STORED_H
#define RDT_TESTS_GPU_STORED_H

#include "gpu.h"

/* Behind a run of a product that tells bit-sums: C has them, and with one bit of it changed it has not, and the finding
 * says where. What is wrong; NULL: nothing. */
const char *gpu_stored(rdt_cuda_gemm *g, const gpu_case *c, uint64_t *seed);

typedef struct gpu_stored_count {
  int64_t planted, changed, found, wrong; /* changed: the result; all of these are to be found */
} gpu_stored_count;
/* So many faults in what an injecting kernel stores, of each kind and of each type of result. */
gpu_stored_count gpu_stored_faults(const rdt_cuda_device *d, const rdt_cuda_kernel *k, int64_t faults, bool quick);

#endif
