/* One pass over a matrix that takes every weighted sum a check needs, in double: along the rows, along the columns, or
 * both, so that each element is read once. All checks of products are made of such passes over A, B and C. Of integers
 * the same modulo 2^32, and no squares: a double then holds one of the numbers that a sum may be. */
#ifndef RDT_CPU_SUMS_H
#define RDT_CPU_SUMS_H

#include "core/tensor.h"

/* Of elements x_i with weights w: dot = sum x_i w_dot_i, sq = sum x_i^2 w_sq_i. As weights, sq = NULL means ones. */
typedef struct rdt_pair {
  double *dot, *sq;
} rdt_pair;

typedef struct rdt_side {
  rdt_pair weight; /* for each element summed; dot = NULL: this side is not wanted */
  rdt_pair sum;    /* overwritten: sum.x[block number * count + i] */
  int64_t block;   /* elements of one sum; > 0 */
} rdt_side;

typedef struct rdt_sums {
  rdt_tensor x;   /* rank 2, any strides, any dtype */
  bool modulo;    /* x is of s8, u8 or s32, weights are integers below 2^51: sums modulo 2^32 */
  rdt_side right; /* along each row, in blocks of columns: sum[J * rows + i] */
  rdt_side left;  /* along each column, in blocks of rows: sum[I * cols + j] */
  /* Called for each part of x right after it was read, while it lies in the cache; may write it. NULL: none. */
  void (*visit)(void *user, int64_t row, int64_t rows, int64_t col, int64_t cols);
  void *user;
} rdt_sums;

enum { RDT_SUMS_TOGETHER = 2 };
/* Up to RDT_SUMS_TOGETHER passes that do not depend on each other, in one parallel region: where the machine is busy,
 * every meeting of the threads may cost a time slice. Same bits for the same number of threads. RDT_ERR_NOMEM only. */
rdt_status rdt_sums_run(const rdt_sums *s, int count, int threads);

/* The inner loop, compiled for each ISA, over rows x n elements with leading dimension ld. dot = NULL: side not wanted.
 * dot and sq are added to: rows of them on the right, n on the left. */
typedef struct rdt_line {
  const double *w_dot, *w_sq;
  double *dot, *sq;
} rdt_line;

enum { RDT_SUMS_ROWS = 8, RDT_SUMS_COLS = 1024 }; /* at most, where sums are modulo 2^32 */

typedef struct rdt_sums_table {
  void (*f32)(const float *x, int64_t ld, int rows, int64_t n, const rdt_line *right, const rdt_line *left);
  void (*f64)(const double *x, int64_t ld, int rows, int64_t n, const rdt_line *right, const rdt_line *left);
  void (*to_f32)(const void *x, rdt_dtype t, int64_t n, float *dst); /* bf16, f16, s8, u8: exact */
  void (*words)(const void *x, rdt_dtype t, int64_t ld, int rows, int64_t n, const rdt_line *right,
                const rdt_line *left); /* of s8, u8, s32, modulo 2^32 */
} rdt_sums_table;
extern const rdt_sums_table rdt_sums_generic, rdt_sums_avx2, rdt_sums_avx512;

#endif
