/* cuBLAS and cuBLASLt, opened when they are found: what own kernels are compared with. */
#ifndef RDT_BENCH_GPU_CUBLAS_H
#define RDT_BENCH_GPU_CUBLAS_H

#include <stdbool.h>

enum { CUBLAS_ALGORITHMS = 8 };

typedef struct cublas_gemm { /* C = A B in fp16 with f32 sums, row-major; transposed: B lies as n x k */
  int m, n, k;
  bool transposed;
} cublas_gemm;

typedef struct cublas cublas;
cublas *cublas_open(char *why, int size); /* NULL: why not */
const char *cublas_version(const cublas *c);
/* Launches on a stream; false: it refuses. */
bool cublas_ex(cublas *c, const cublas_gemm *g, const void *a, const void *b, void *out, void *stream);
/* How many algorithms cuBLASLt proposes for g; they are the ones of the following calls. */
int cublas_lt_prepare(cublas *c, const cublas_gemm *g);
bool cublas_lt(cublas *c, int algorithm, const void *a, const void *b, void *out, void *stream);

#endif
