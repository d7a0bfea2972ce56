/* cublasGemmEx: the product of a library as most programs call it, for comparison. Opened when it is first needed. */
#ifndef RDT_CUDA_GEMM_EX_H
#define RDT_CUDA_GEMM_EX_H

#include "cuda/blas.h"

/* Asynchronous. C = A B of 16 bits by the library's own choice of algorithm, sums in f32; workspace: the caller's, so
 * many bytes. RDT_ERR_UNSUPPORTED where there is no such library. */
rdt_status rdt_gemm_ex(const rdt_blas_product *p, const rdt_blas_operands *o, void *workspace, size_t bytes,
                       void *stream, rdt_reason *why);

#endif
