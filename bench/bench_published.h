/* redoubt bench published: what published systems state of their detection, emulated, beside our bounds. */
#ifndef RDT_BENCH_PUBLISHED_H
#define RDT_BENCH_PUBLISHED_H

#include <stdint.h>

#include "bench_table.h"
#include "core/error.h"
#include "plan/timing.h"

#define RDT_BENCH_PUBLISHED_TABLES "strided|convolution|constants"

typedef struct rdt_bench_published_job {
  int64_t tables; /* 1 << number of the word above, of those that are wanted; 0: all */
  int64_t trials; /* rows that are hit, flips, and so on, of each line of a table */
  double lambda;
  uint64_t seed;
  rdt_bench_format format;
  const char *output;              /* a file; NULL: stdout */
  const char *head;                /* the words of the command line */
  rdt_timing_progress_fn progress; /* may be NULL */
} rdt_bench_published_job;

/* Prints them. *missed: faults above the floor of a check of ours that it did not see, and its complaints where nothing
 * was hit (the convolution: any; the constants: certain ones). RDT_ERR_NOMEM, RDT_ERR_IO; RDT_ERR_CANCELLED where
 * progress said stop. */
rdt_status rdt_bench_published(const rdt_bench_published_job *job, int64_t *missed, rdt_reason *why);

#endif
