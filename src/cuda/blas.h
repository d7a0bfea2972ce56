/* Products by cuBLASLt, which is opened when it is first needed. C = A B as it comes, or with the epilogue that the
 * library has; which of its algorithms is the fastest is measured when a product is made ready. Only such that add in a
 * fixed order: a product that is computed again has the same bits. */
#ifndef RDT_CUDA_BLAS_H
#define RDT_CUDA_BLAS_H

#include <stdint.h>

#include "core/tensor.h"

enum { RDT_BLAS_NO_ACT, RDT_BLAS_RELU, RDT_BLAS_GELU_TANH };

typedef struct rdt_blas_product {
  rdt_dtype in[2], out; /* of A and B, which differ where both are of f8; of C, bias and residual */
  int64_t m, n, k, batches;
  int64_t a[2], b[2], c; /* strides of rows and columns, one of them 1; C's rows: their elements lie side by side */
  int64_t a_next, b_next, c_next; /* from batch to batch */
  double alpha, beta;             /* beta != 0: a residual with the strides of C */
  bool bias;
  int act;
  bool undivided; /* only algorithms that sum all of k in one place */
} rdt_blas_product;

typedef struct rdt_blas_operands {
  const void *a, *b, *bias, *residual;
  void *c;
} rdt_blas_operands;

typedef struct rdt_blas rdt_blas;
/* trial: operands that may be overwritten, to measure with. Addresses are multiples of 16, here and later.
 * RDT_ERR_UNSUPPORTED where there is no such library, or it has nothing for this product. */
rdt_status rdt_blas_create(const rdt_blas_product *p, const rdt_blas_operands *trial, void *stream, rdt_blas **b,
                           rdt_reason *why);
/* Nothing is measured: the library's first proposal, which takes the caller's memory, so many bytes at most. */
rdt_status rdt_blas_create_lent(const rdt_blas_product *p, void *workspace, size_t bytes, rdt_blas **b,
                                rdt_reason *why);
/* Another one, of the same algorithm, hence with the same bits, that may run at the same time. */
rdt_status rdt_blas_twin(const rdt_blas *b, rdt_blas **twin, rdt_reason *why);
rdt_status rdt_blas_launch(rdt_blas *b, const rdt_blas_operands *o, void *stream, rdt_reason *why); /* asynchronous */
bool rdt_blas_on_tensor_cores(const rdt_blas *b); /* for certain: the library says so of the algorithm chosen */
void rdt_blas_destroy(rdt_blas *b);
rdt_status rdt_blas_version(int *version, rdt_reason *why); /* 130200: 13.2.0; opens the library */

#endif
