/* The same source once more, with a multiprocessor that computes wrongly: simulated. */
#include "cuda/sm80/sms_body.h"
#include "cuda/sms_hit.h"

template <class Unit>
static __global__ void __launch_bounds__(RDT_SMS_THREADS, 1)
    sms_inject(const __grid_constant__ rdt_sms_args p, const __grid_constant__ rdt_sms_hit h) {
  rdt_sms_products<Unit>(p, rdt_sms_strikes{h, -1});
}

#define CODE(unit) (const void *)sms_inject<unit>,
extern "C" const void *const rdt_sms_inject[7] = {RDT_SMS_UNITS(CODE)};
