/* `redoubt bench conv`: protected convolutions against the best unprotected ones, interleaved in one process. */
#ifndef RDT_BENCH_CONV_H
#define RDT_BENCH_CONV_H

#include "bench_common.h"
#include "bench_table.h"
#include "timing.h"

typedef struct rdt_bench_conv_job {
  long long ic, oc, ih, iw, kh, kw, stride, pad, dilation, groups;
  long long n[RDT_BENCH_LIST], threads[RDT_BENCH_LIST];
  int n_count, thread_count, trials;
  rdt_dtype dtype;
  const char *scheme, *epilogue; /* "auto", "all" or a name; "none", "bias", "bias+relu" */
  const char *output;            /* NULL: stdout */
  rdt_bench_format format;
  rdt_timing_progress_fn progress; /* may be NULL */
} rdt_bench_conv_job;

/* The exit code: 0; 1 a fault was reported; 2 it could not run; or RDT_BENCH_STOPPED. */
int rdt_bench_conv(const rdt_bench_conv_job *job);

#endif
