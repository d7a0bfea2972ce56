/* redoubt bench tmr: three copies of a product by level, as published (docs/tmr.md), beside ours on the CPU and a GPU.
 */
#ifndef RDT_BENCH_TMR_H
#define RDT_BENCH_TMR_H

#include "bench_table.h"
#include "core/error.h"
#include "plan/timing.h"
#include "shapes.h"

typedef struct rdt_bench_tmr_job {
  const rdt_bench_shape *shape; /* NULL: of the CPU 1024 cubed, of a GPU 4096 cubed */
  int threads, trials;
  int votes;          /* along k, of copies that vote within one launch; 0: as many as usual */
  const char *device; /* "cuda:N"; "cpu": no GPU's columns; NULL: of the first one, where there is one */
  rdt_bench_format format;
  const char *output;              /* a file; NULL: stdout */
  const char *head;                /* the words of the command line */
  rdt_timing_progress_fn progress; /* may be NULL */
} rdt_bench_tmr_job;

/* Prints it. differed: copies did, although nothing was planted. RDT_ERR_CANCELLED where progress said stop. */
rdt_status rdt_bench_tmr(const rdt_bench_tmr_job *job, bool *differed, rdt_reason *why);

#endif
