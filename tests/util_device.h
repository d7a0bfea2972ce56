/* The kernels of src/cuda/ops on the CPU: the same bodies, one element or row after the other. */
#ifndef TEST_UTIL_DEVICE_H
#define TEST_UTIL_DEVICE_H

#include "cuda/ops/attention.h"

void util_device_op(const rdt_gpu_op *a);
void util_device_attention(const rdt_gpu_attention *a); /* by its formula */
uint64_t util_device_part(const rdt_sum_part *p);
void util_device_close(const rdt_close_args *a);

#endif
