/* Repair in the stream (rdt_cuda_gemm_mend), of one kernel: how much was wrong. */
#ifndef RDT_TESTS_GPU_MEND_H
#define RDT_TESTS_GPU_MEND_H

#include "gpu.h"

int64_t gpu_mend(const rdt_cuda_device *d, const rdt_cuda_kernel *k, bool quick);

#endif
