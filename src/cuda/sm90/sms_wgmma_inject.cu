/* The same source once more, with a multiprocessor that computes wrongly: simulated. */
#include "cuda/sm90/sms_body.h"
#include "cuda/sms_hit.h"

template <class T>
static __global__ void __launch_bounds__(SMS_WIDE_THREADS, 1)
    sms_wide_inject(const __grid_constant__ rdt_sms_args p, const __grid_constant__ rdt_sms_hit h) {
  rdt_sms_wide<T>(p, rdt_sms_strikes{h, -1});
}

extern "C" const void *const rdt_sms_wgmma_inject[2] = {(const void *)sms_wide_inject<rdt_f16>,
                                                        (const void *)sms_wide_inject<rdt_bf16>};
