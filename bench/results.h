/* What came out of a benchmark of ops, kept until all is measured, then printed as tables. */
#ifndef RDT_BENCH_RESULTS_H
#define RDT_BENCH_RESULTS_H

#include "ops.h"

typedef struct rdt_bench_entry { /* one contender */
  char name[64], scheme[RDT_SCHEME_TEXT];
  const char *kernel, *asked;
  bool ours, checked;
  rdt_result worst;
} rdt_bench_entry;

typedef struct rdt_bench_row { /* one problem at one number of threads */
  int which, threads;
  double flops, bytes;
  double peak, bandwidth; /* measured beside it; NaN: not known */
  rdt_timing timing;
  rdt_bench_entry list[RDT_TIMING_CASES];
  int count, best, none; /* best: the fastest library, none: ours without protection; -1: not there */
} rdt_bench_row;

typedef struct rdt_bench_results {
  const rdt_bench_ops *ops;
  rdt_bench_row *rows;
  int count;
} rdt_bench_results;

/* From a field that was timed; timing stays the row's. */
void rdt_bench_row_take(rdt_bench_row *row, const rdt_field *f, const rdt_timing *timing);
void rdt_bench_print(const rdt_bench_results *r, rdt_bench_out *t);

#endif
