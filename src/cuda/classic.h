/* global-classic, as published: the weights' row sums are made offline; a product leaves its sum and the column sums of
 * what it stores, which are the next one's checksum of A; a kernel of its own compares. The first product of a chain
 * has a pass over A instead. */
#ifndef RDT_CUDA_CLASSIC_H
#define RDT_CUDA_CLASSIC_H

#include <stdint.h>

#include "check/tolerance.h"
#include "cuda/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_CLASSIC_ROWS = 64, RDT_CLASSIC_THREADS = 256 }; /* rows of A that a block of the pass sums */

typedef struct rdt_classic_args {
  const void *matrix; /* what is summed: 16 bits, rows of unit stride */
  int64_t pitch;
  int rows, columns, half; /* half: fp16 */
  double *weights;         /* [k] of sum and sum of squares of B's rows */
  float *strips;           /* [strip][k] of sum and sum of squares of A's columns */
  int count;               /* of strips */
  const float *sums;       /* [tiles] of sum and sum of squares of C */
  int tiles, m, n, k;
  rdt_box_bound bound;
  double *told; /* where tau2 goes; NULL: nowhere */
  rdt_cuda_verdict *verdict;
} rdt_classic_args;

extern const void *const rdt_classic_weights; /* kernel (args): a block a row of matrix, which is B */
extern const void *const rdt_classic_columns; /* kernel (args): blocks of columns x strips of matrix, which is A */
extern const void *const rdt_classic_compare; /* kernel (args): one block */

#ifdef __cplusplus
}
#endif
#endif
