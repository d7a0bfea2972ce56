/* How long something takes on a device. */
#ifndef RDT_CUDA_TRIAL_H
#define RDT_CUDA_TRIAL_H

#include "core/error.h"

typedef rdt_status rdt_cuda_trial_fn(void *user, void *stream, rdt_reason *why);
/* Seconds of one call: the median of a few replays of a graph of several. What it fails with comes out here. */
rdt_status rdt_cuda_trial(rdt_cuda_trial_fn *fn, void *user, void *stream, double *seconds, rdt_reason *why);
/* The same of several, replayed in turn: clocks that rise and fall, as of a GPU at its limit of power, do so for all.
 * Infinite: that one failed; if all do, what the first failed with. */
rdt_status rdt_cuda_trials(rdt_cuda_trial_fn *fn, void *const *users, int n, void *stream, double *seconds,
                           rdt_reason *why);

#endif
