/* The vote between launches that have a share of k each. */
#include "cuda/sm90/voted_wgmma_body.h"

static __global__ void __launch_bounds__(128) decide(const __grid_constant__ rdt_voted_args v) {
  rdt_voted_decide(v);
}

extern "C" const void *const rdt_voted_decide_code = (const void *)decide;
