// Candidates are measured once each, by the emulated clock: it says the same each time, and 25 runs of each, as on a
// device, would be most of what a test takes. In place of src/cuda/trial.c (the linker's --wrap), whose graphs other
// tests have.
#include <math.h>

#include "cuda/device.h"
#include "cuda/trial.h"
#include "runtime.h"

rdt_status __wrap_rdt_cuda_trials(rdt_cuda_trial_fn *fn, void *const *users, int n, void *given, double *seconds,
                                  rdt_reason *why);
rdt_status __wrap_rdt_cuda_trial(rdt_cuda_trial_fn *fn, void *user, void *stream, double *seconds, rdt_reason *why);

rdt_status __wrap_rdt_cuda_trials(rdt_cuda_trial_fn *fn, void *const *users, int n, void *given, double *seconds,
                                  rdt_reason *why) {
  rdt_status first = RDT_OK;
  bool good = false;
  for (int i = 0; i < n; i++) {
    rdt_reason its = {""};
    rdt_status s = rdt_cuda_wait(given, &its);
    const uint64_t begun = em_clock;
    if (s == RDT_OK) s = fn(users[i], given, &its);
    if (s == RDT_OK) s = rdt_cuda_wait(given, &its);
    seconds[i] = s == RDT_OK ? 1e-9 * (double)(em_clock - begun) : INFINITY;
    good |= s == RDT_OK;
    if (s == RDT_OK || first != RDT_OK) continue;
    first = s;
    if (why) *why = its;
  }
  return good ? RDT_OK : first;
}

rdt_status __wrap_rdt_cuda_trial(rdt_cuda_trial_fn *fn, void *user, void *stream, double *seconds, rdt_reason *why) {
  return __wrap_rdt_cuda_trials(fn, &user, 1, stream, seconds, why);
}
