/* How long a way to compute a product on a GPU takes, without measuring it. */
#ifndef RDT_PLAN_WORK_GPU_H
#define RDT_PLAN_WORK_GPU_H

#include "core/problem.h"
#include "cuda/rivals.h"

/* Seconds of one run by a kernel of this name with this check, on a device of which the roof is known; NaN: nothing is
 * known of it. work_gpu.def */
double rdt_gpu_estimate(const rdt_problem *p, const char *kernel, const char *scheme, const rdt_track *t);

#endif
