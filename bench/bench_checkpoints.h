/* redoubt bench checkpoints: what votes on the way along k cost, and what they save, by faults a run (docs/tmr.md). */
#ifndef RDT_BENCH_CHECKPOINTS_H
#define RDT_BENCH_CHECKPOINTS_H

#include "bench_table.h"
#include "core/error.h"
#include "plan/timing.h"
#include "shapes.h"

typedef struct rdt_bench_checkpoints_job {
  const rdt_bench_shape *shape; /* NULL: 256 x 256 x 8192; on a GPU 2048 x 2048 x 8192 */
  int threads, trials;          /* trials: runs of each number of checkpoints and faults */
  const char *device;           /* NULL, "cpu"; else rdt_bench_checkpoints_gpu */
  rdt_bench_format format;
  const char *output;              /* a file; NULL: stdout */
  const char *head;                /* the words of the command line */
  rdt_timing_progress_fn progress; /* may be NULL */
} rdt_bench_checkpoints_job;

/* Prints it. wrong: a result was, and nobody said so. RDT_ERR_CANCELLED where progress said stop. */
rdt_status rdt_bench_checkpoints(const rdt_bench_checkpoints_job *job, bool *wrong, rdt_reason *why);

#endif
