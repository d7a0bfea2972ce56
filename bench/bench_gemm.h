/* `redoubt bench gemm`: protected products against the best unprotected ones, interleaved in one process. */
#ifndef RDT_BENCH_GEMM_H
#define RDT_BENCH_GEMM_H

#include "bench_common.h"
#include "bench_table.h"
#include "timing.h"

typedef struct rdt_bench_gemm_job {
  long long m, n, k;
  rdt_dtype dtype;
  long long threads[RDT_BENCH_LIST];
  int n_threads, trials;
  const char *scheme, *epilogue; /* "auto", "all" or a name; "none", "bias", "bias+relu" */
  bool cold;                     /* rotate through more weights than any cache holds */
  const char *output;            /* NULL: stdout */
  rdt_bench_format format;
  rdt_timing_progress_fn progress; /* may be NULL */
} rdt_bench_gemm_job;

/* The exit code: 0; 1 a fault was reported; 2 it could not run; or RDT_BENCH_STOPPED. */
int rdt_bench_gemm(const rdt_bench_gemm_job *job);

#endif
