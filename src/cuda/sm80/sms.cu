/* Known products on every multiprocessor: kernels that ship. */
#include "cuda/sm80/sms_body.h"

template <class Unit>
static __global__ void __launch_bounds__(RDT_SMS_THREADS, 1) sms(const __grid_constant__ rdt_sms_args p) {
  rdt_sms_products<Unit>(p, rdt_sms_none());
}

static __global__ void where(unsigned *counts) {
  if (threadIdx.x == 0) atomicAdd(&counts[rdt_sm() % RDT_SMS_ROOM], 1u);
}

#define CODE(unit) (const void *)sms<unit>,
extern "C" const void *const rdt_sms_code[7] = {RDT_SMS_UNITS(CODE)};
extern "C" const void *const rdt_sms_where = (const void *)where;
