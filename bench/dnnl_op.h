/* oneDNN as a yardstick: its product and its direct convolution with weights packed beforehand, epilogue as post-ops,
 * whatever the kernels of this library do with it. Formula, shapes: problems of core/problem.h, a product of rank 2 or
 * a convolution of images with groups 1 or more, bias and ReLU. */
#ifndef RDT_BENCH_DNNL_OP_H
#define RDT_BENCH_DNNL_OP_H

#include "core/problem.h"

typedef struct rdt_dnnl_op rdt_dnnl_op;

/* problems: one op on several copies of its weights. plain: reads and writes the caller's operands as they lie; else in
 * formats that oneDNN likes best, in memory of its own, without converting from or to anybody else's. NULL: oneDNN
 * refuses, or there is no memory. */
rdt_dnnl_op *rdt_dnnl_op_create(const rdt_problem *problems, int copies, bool plain);
int rdt_dnnl_op_run(void *op, const rdt_problem *p);   /* p: one of the problems; 0: fine */
int rdt_dnnl_op_fetch(void *op, const rdt_problem *p); /* its result, to p's output */
void rdt_dnnl_op_destroy(void *op);

/* Its version, and the instruction set that it takes here. */
void rdt_dnnl_about(char *version, size_t version_size, char *isa, size_t isa_size);

#endif
