/* Operands and results of products of files. */
#ifndef TEST_UTIL_PRODUCT_H
#define TEST_UTIL_PRODUCT_H

#include "outofcore/matmul.h"

/* A matrix of random numbers in a .npy file; bf16 as ml_dtypes saves it. Its values row by row (rdt_free). */
double *util_npy(const char *path, rdt_dtype dtype, bool fortran, int64_t rows, int64_t cols, uint64_t seed);
/* The same with these values. */
void util_npy_of(const char *path, rdt_dtype dtype, bool fortran, int64_t rows, int64_t cols, const double *values);
/* Is path the product of a (m x k) and b (k x n), each element within what rounding of sums of `in` can do, and so much
 * more? */
void util_npy_expect(const char *path, rdt_dtype in, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                     double more);
/* Do two files have the same bytes? */
bool util_same_bytes(const char *a, const char *b);

#endif
