/* `redoubt bench gemm`: protected products against the best unprotected ones, interleaved in one process. */
#ifndef RDT_BENCH_GEMM_H
#define RDT_BENCH_GEMM_H

#include "ops.h"
#include "shapes.h"

/* Libraries for a product: an rdt_bench_ops' gather */
void rdt_bench_gather_gemm(rdt_baselines *b, rdt_field *f);

/* The exit code: 0; 1 a fault was reported; 2 it could not run; or RDT_TIMING_STOPPED. */
int rdt_bench_gemm(const rdt_bench_ask *ask, const rdt_bench_shapes *shapes);

#endif
