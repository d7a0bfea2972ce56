/* How long something takes on a device. */
#ifndef RDT_CUDA_TRIAL_H
#define RDT_CUDA_TRIAL_H

#include "core/error.h"

typedef rdt_status rdt_cuda_trial_fn(void *user, void *stream, rdt_reason *why);
/* Seconds of one call: the median of a few replays of a graph of several. What it fails with comes out here. */
rdt_status rdt_cuda_trial(rdt_cuda_trial_fn *fn, void *user, void *stream, double *seconds, rdt_reason *why);

#endif
