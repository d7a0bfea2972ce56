/* Known products on every multiprocessor, on wgmma: kernels that ship. */
#include "cuda/sm90/sms_body.h"

template <class T>
static __global__ void __launch_bounds__(SMS_WIDE_THREADS, 1) sms_wide(const __grid_constant__ rdt_sms_args p) {
  rdt_sms_wide<T>(p, rdt_sms_none());
}

extern "C" const void *const rdt_sms_wgmma_code[2] = {(const void *)sms_wide<rdt_f16>, (const void *)sms_wide<rdt_bf16>};
