/* redoubt bench tolerance: the tables of docs/tolerance.md, from simulated products. */
#ifndef RDT_BENCH_TOLERANCE_H
#define RDT_BENCH_TOLERANCE_H

#include <stdint.h>

#include "bench_table.h"
#include "core/error.h"
#include "plan/timing.h"

#define RDT_BENCH_TOLERANCE_TABLES "floors|granularity|flips|rates"

typedef struct rdt_bench_tolerance_job {
  int64_t tables;                                /* 1 << number of the word above, of those that are wanted; 0: all */
  const char *cases, *dtypes, *family, *lengths; /* lists of words, a word, a list of numbers; NULL: default */
  int64_t outputs;                               /* 0: default */
  int64_t trials;
  double lambda;
  uint64_t seed;
  rdt_bench_format format;
  const char *head;                /* the words of the command line */
  rdt_timing_progress_fn progress; /* may be NULL */
} rdt_bench_tolerance_job;

/* Prints them. *reports: products without a fault that R0 or R2 reported. Errors: RDT_ERR_ARG, RDT_ERR_NOMEM,
 * RDT_ERR_IO; RDT_ERR_CANCELLED where progress said stop. */
rdt_status rdt_bench_tolerance(const rdt_bench_tolerance_job *job, int64_t *reports, rdt_reason *why);

#endif
