/* `redoubt bench gemm`: protected products against the best unprotected ones, interleaved in one process. */
#ifndef RDT_BENCH_GEMM_H
#define RDT_BENCH_GEMM_H

/* argv[0] is the subcommand's name. Returns the exit code: 0; 1 a fault was reported; 2 usage, or it could not run. */
int rdt_bench_gemm(int argc, char **argv);
extern const char rdt_bench_gemm_usage[];

#endif
