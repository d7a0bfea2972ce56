/* redoubt bench checkpoints --device cuda:N: the same of the copies of a GPU that vote on the way (docs/tmr.md). */
#ifndef RDT_BENCH_CHECKPOINTS_GPU_H
#define RDT_BENCH_CHECKPOINTS_GPU_H

#include "bench_checkpoints.h"
#include "cuda/machine.h"

/* As rdt_bench_checkpoints, on an open device. wrong: a result was, and nobody said so, or a run without a fault did
 * not have the bits of the others. */
rdt_status rdt_bench_checkpoints_on(rdt_machine *m, const rdt_bench_checkpoints_job *job, bool *wrong, rdt_reason *why);
rdt_status rdt_bench_checkpoints_gpu(const rdt_bench_checkpoints_job *job, bool *wrong, rdt_reason *why);

#endif
