/* Products on wgmma whose columns are compared, the second of what the first stored (rdt_cuda_gemm_follow). */
#ifndef RDT_TESTS_GPU_CHAIN_H
#define RDT_TESTS_GPU_CHAIN_H

#include "gpu.h"

typedef struct gpu_chain_count {
  int64_t products, wrong;
} gpu_chain_count;
/* With all that may follow the first: bits are those of products by themselves, the sums that are handed on those of
 * what was stored, nobody complains, in whatever order they run; and faults in either, and between the two, are found.
 * few: of the epilogues some. large: a device for large ones, too; NULL: none. */
gpu_chain_count gpu_chain(const rdt_cuda_device *d, const rdt_cuda_device *large, const rdt_cuda_kernel *k, bool few);

#endif
