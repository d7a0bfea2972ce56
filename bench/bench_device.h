/* What the benches of `redoubt bench` that run on a GPU share: random operands there, and launches timed as one graph.
 */
#ifndef RDT_BENCH_DEVICE_H
#define RDT_BENCH_DEVICE_H

#include "cuda/machine.h"

/* A matrix of f16 of random numbers, row by row, on the device (m->release). */
rdt_status rdt_bench_device_random(rdt_machine *m, rdt_tensor *t, int64_t rows, int64_t cols, uint64_t *seed,
                                   rdt_reason *why);

enum { RDT_BENCH_LAUNCHES = 4 };                                                           /* of a tape */
typedef rdt_status rdt_bench_launch_fn(rdt_machine *m, const void *user, rdt_reason *why); /* asynchronous */
/* Launched once, as some is loaded at first use; then so many times on a tape. */
rdt_status rdt_bench_device_record(rdt_machine *m, rdt_bench_launch_fn *launch, const void *user, void **tape,
                                   rdt_reason *why);
/* Seconds of one of its launches. */
rdt_status rdt_bench_device_time(rdt_machine *m, void *tape, double *seconds, rdt_reason *why);

#endif
