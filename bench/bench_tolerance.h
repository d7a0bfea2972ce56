/* redoubt bench tolerance: the tables of docs/tolerance.md, from simulated products. */
#ifndef RDT_BENCH_TOLERANCE_H
#define RDT_BENCH_TOLERANCE_H

/* argv[0] is the first word after "bench tolerance". Exit code: 0; 1 where R0 or R2 reported a product without fault;
 * 2 usage or no memory. */
int rdt_bench_tolerance(int argc, char **argv);
extern const char rdt_bench_tolerance_usage[];

#endif
