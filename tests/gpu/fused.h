/* Faults in a fused kernel on wgmma (sm90/fused_wgmma.h), and tiles without any; none of these: few, and no
 * multiprocessor that is broken. */
#ifndef RDT_TESTS_GPU_FUSED_H
#define RDT_TESTS_GPU_FUSED_H

#include "gpu.h"

typedef struct gpu_fused_count {
  int64_t planted, found, above, missed, unchanged, tiles, reports, wrong;
} gpu_fused_count;

gpu_fused_count gpu_fused(const rdt_cuda_device *d, int tile, int64_t faults, int64_t tiles);

#endif
