/* The yardstick of `redoubt bench conv`: oneDNN's direct convolution of f32 in the formats that it likes best for
 * input, weights and output alike, without converting from or to anybody else's. Formula, shapes: a conv problem of
 * core/problem.h with groups 1 or more, bias and ReLU as post-ops. */
#ifndef RDT_BENCH_BLOCKED_CONV_H
#define RDT_BENCH_BLOCKED_CONV_H

#include "core/problem.h"

typedef struct rdt_blocked_conv rdt_blocked_conv;

/* Fills its own buffers with p's data. NULL: not f32, or oneDNN refuses. */
rdt_blocked_conv *rdt_blocked_conv_create(const rdt_problem *p);
int rdt_blocked_conv_run(rdt_blocked_conv *c); /* 0: fine */
void rdt_blocked_conv_destroy(rdt_blocked_conv *c);

#endif
