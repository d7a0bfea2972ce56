/* What `redoubt bench gemm` and `redoubt bench conv` share: values of options, random data. */
#ifndef RDT_BENCH_COMMON_H
#define RDT_BENCH_COMMON_H

#include "core/problem.h"
#include "shapes.h"

enum { RDT_BENCH_LIST = 8 };

/* false: not a value of that option. */
bool rdt_bench_parse_list(const char *text, long long list[RDT_BENCH_LIST], int *count); /* comma-separated */
bool rdt_bench_parse_scheme(const char *text, rdt_kop op);

double rdt_bench_draw(uint64_t *seed);    /* in [-1, 1) */
double rdt_bench_uniform(uint64_t *seed); /* in (0, 1), of 24 bits */
double rdt_bench_normal(uint64_t *seed);  /* of mean 0 and variance 1 */
/* New data (rdt_free) of the tensor's shape in row-major order: such numbers; integers over their whole range, but
 * weights to 7 bits: without VNNI oneDNN's sums of two products saturate beyond. false: no memory. */
bool rdt_bench_random(rdt_tensor *t, uint64_t *seed);
bool rdt_bench_random_weights(rdt_tensor *t, uint64_t *seed);
/* A product of f32 with such numbers in its operands (in) and its result, row by row. false: no memory. */
bool rdt_bench_product(rdt_problem *p, rdt_tensor in[2], const rdt_bench_shape *s);

#endif
