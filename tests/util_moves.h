/* Models of one node that moves data: what tests of such operators share. */
#ifndef TEST_UTIL_MOVES_H
#define TEST_UTIL_MOVES_H

#include "util_graph.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})
#define LIST(...) util_list((int)(sizeof SHAPE(__VA_ARGS__) / sizeof(int64_t)), SHAPE(__VA_ARGS__))

/* Tensors of a test: freed together. */
rdt_tensor util_count(rdt_dtype t, int rank, const int64_t *shape); /* elements 1, 2, 3, ... */
rdt_tensor util_of(rdt_dtype t, int rank, const int64_t *shape, const double *values);
rdt_tensor util_list(int n, const int64_t *values); /* s64 */
void util_moves_free(void);

/* Element of a dense tensor. */
double util_at(const rdt_tensor *t, const int64_t *index);
void util_expect_shape(const rdt_tensor *t, rdt_dtype dtype, int rank, const int64_t *shape);
void util_expect_values(const rdt_tensor *t, const double *values);

/* Output `which` of `outputs` of one node whose operands are inputs of the graph; no data: absent. */
rdt_tensor util_run(int64_t opset, const char *op, const rdt_tensor *in, int n_in, int outputs, int which,
                    const util_attr *attrs);
/* It must be refused with this status and words, by inference. */
void util_refuse(int64_t opset, const char *op, const rdt_tensor *in, int n_in, int outputs, const util_attr *attrs,
                 rdt_status expected, const char *words);
/* A run of the whole engine must end with this status and words, and publish nothing. */
void util_refuse_run(int64_t opset, const char *op, const rdt_tensor *in, int n_in, const util_attr *attrs,
                     rdt_status expected, const char *words);

#endif
