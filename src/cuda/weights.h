/* What the checks need to know of B, formed on the device. */
#ifndef RDT_CUDA_WEIGHTS_H
#define RDT_CUDA_WEIGHTS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdt_weights_args {
  const void *b; /* k x n, fp16 or bf16, rows of unit stride */
  int64_t ldb;
  int k, n, half; /* half: fp16 */
  int columns;    /* of a warp: whose eighth columns each thread sums */
  float *rho2;    /* largest sum of squares of a group in a row: [n / columns * 8], or of whole rows: [1], 0 before */
  void *parts;    /* k x RDT_MMA_PARTS: signed sums of the rows, split */
} rdt_weights_args;

extern const void *const rdt_weights_groups; /* kernel (args): a block of 256 threads for each `columns` columns */
extern const void *const rdt_weights_rows;   /* kernel (args): a block of 256 threads for each row */

#ifdef __cplusplus
}
#endif
#endif
