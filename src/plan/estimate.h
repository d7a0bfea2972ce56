/* How long a way to compute and check a problem takes, without measuring it: operations and bytes of the product and
 * those that its check adds, against what the device does at most (plan/device.h). Policy "model" knows nothing else.
 */
#ifndef RDT_PLAN_ESTIMATE_H
#define RDT_PLAN_ESTIMATE_H

#include "plan/device.h"
#include "plan/offers.h"

/* Of so many threads those that a problem is worth. */
int rdt_threads_worth(const rdt_problem *p, int threads);

/* Seconds of one run; NaN for what is no product or convolution. device: NULL: one thread of a usual processor.
 * cold: weights come from memory. */
double rdt_way_estimate(const rdt_problem *p, const rdt_way *w, const rdt_device *device, bool cold);

#endif
