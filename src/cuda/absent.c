/* In place of all else in src/cuda where nvcc was not found: no device, no kernels. */
#include "cuda/block/blocks.h"
#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/machine.h"
#include "cuda/probe.h"
#include "cuda/rivals.h"
#include "cuda/sms.h"

bool rdt_cuda_built(void) {
  return false;
}

rdt_status rdt_cuda_find(int *count, rdt_reason *why) {
  *count = rdt_cuda_count(why);
  return RDT_OK;
}

int rdt_cuda_count(rdt_reason *why) {
  rdt_fail(why, RDT_ERR_UNSUPPORTED, "no GPU: built without CUDA, as there was no nvcc or REDOUBT_CUDA was off");
  return 0;
}

rdt_status rdt_cuda_open(int index, rdt_cuda_device *d, rdt_reason *why) {
  (void)index, (void)d;
  rdt_cuda_count(why); /* the reason */
  return RDT_ERR_NAME;
}

const rdt_cuda_kernel *rdt_cuda_kernels(int *n) {
  *n = 0;
  return NULL;
}

const void *const *rdt_cuda_kernel_inject(const rdt_cuda_kernel *k) {
  (void)k;
  return NULL;
}

int rdt_cuda_kernel_sets(const rdt_cuda_kernel *k) {
  (void)k;
  return 1;
}

rdt_status rdt_cuda_gemm_accept(const rdt_cuda_kernel *k, const rdt_problem *p, rdt_reason *why) {
  (void)k, (void)p;
  rdt_cuda_count(why); /* the reason */
  return RDT_ERR_UNSUPPORTED;
}

rdt_status rdt_probe(const rdt_cuda_device *d, rdt_dtype in, rdt_probed *found, rdt_accumulator *acc, rdt_reason *why) {
  (void)d, (void)in, (void)found, (void)acc;
  rdt_cuda_count(why); /* the reason */
  return RDT_ERR_UNSUPPORTED;
}

rdt_status rdt_machine_open(int index, rdt_machine **m, rdt_reason *why) {
  rdt_cuda_device none;
  *m = NULL;
  return rdt_cuda_open(index, &none, why);
}

rdt_status rdt_sms_open(int index, rdt_sms **s, rdt_reason *why) {
  rdt_cuda_device none;
  *s = NULL;
  return rdt_cuda_open(index, &none, why);
}

rdt_status rdt_blocks_open(int index, rdt_dtype in, rdt_blocks **b, rdt_reason *why) {
  rdt_cuda_device none;
  (void)in;
  *b = NULL;
  return rdt_cuda_open(index, &none, why);
}

rdt_status rdt_track_open(int device, rdt_dtype t, double lambda, rdt_track *track, rdt_reason *why) {
  rdt_cuda_device none;
  (void)t, (void)lambda;
  *track = (rdt_track){.user = NULL};
  return rdt_cuda_open(device, &none, why);
}
