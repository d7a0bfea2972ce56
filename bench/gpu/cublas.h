/* cuBLAS and cuBLASLt, opened when they are found: what own kernels are compared with. */
#ifndef RDT_BENCH_GPU_CUBLAS_H
#define RDT_BENCH_GPU_CUBLAS_H

#include <redoubt/tensor.h>
#include <stdbool.h>

enum { CUBLAS_ALGORITHMS = 8 };

typedef struct cublas_gemm { /* C = A B, row-major; transposed: B lies as n x k. Sums in f32; of 8-bit integers in s32
                              */
  int m, n, k;
  bool transposed;
  rdt_dtype in, out;
  bool tf32;         /* of f32: on tensor cores */
  bool a_transposed; /* A lies as k x m */
  int batches;       /* one after the other; 0: one product */
} cublas_gemm;

typedef struct cublas cublas;
cublas *cublas_open(char *why, int size); /* NULL: why not */
const char *cublas_version(const cublas *c);
void *cublas_function(const char *name); /* of cuBLASLt, after it was opened; NULL: it has none */
/* cublasGemmEx's own choice; false: it refuses. Both launch on a stream. */
bool cublas_ex(cublas *c, const cublas_gemm *g, const void *a, const void *b, void *out, void *stream);
/* How many algorithms cuBLASLt proposes for g; they are the ones of the following calls. */
int cublas_lt_prepare(cublas *c, const cublas_gemm *g);
bool cublas_lt(cublas *c, int algorithm, const void *a, const void *b, void *out, void *stream);

#endif
