#include "cuda/gemm_ex.h"

#include <cuda_runtime_api.h>

#include "cuda/library.h"

/* ---- what is used of cublas_v2.h, so that the build is the same where there is none ---- */

enum { R_16F = 2, R_16BF = 14, COMPUTE_32F = 68, OP_N = 0, OP_T = 1, GEMM_DEFAULT = -1 };

typedef int set_stream_fn(void *, cudaStream_t);
typedef int set_workspace_fn(void *, void *, size_t);
typedef int gemm_ex_fn(void *, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type,
                       int lda, const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                       int compute, int algorithm);

static struct {
  set_stream_fn *set_stream;
  set_workspace_fn *set_workspace;
  gemm_ex_fn *gemm_ex;
} ex;

static rdt_status status_of(int code, const char *what, rdt_reason *why) {
  if (code == 0) return RDT_OK;
  return rdt_fail(why, code == 7 || code == 15 ? RDT_ERR_UNSUPPORTED : RDT_ERR_DEVICE, "%s: cuBLAS says %d", what,
                  code);
}

static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL};
static const rdt_library_symbol symbols[] = {{"cublasSetStream_v2", (void **)&ex.set_stream},
                                             {"cublasSetWorkspace_v2", (void **)&ex.set_workspace},
                                             {"cublasGemmEx", (void **)&ex.gemm_ex}};
static rdt_library library = {.called = "cuBLAS",
                              .names = names,
                              .create = "cublasCreate_v2",
                              .version = "cublasGetCudartVersion",
                              .symbols = symbols,
                              .count = (int)(sizeof symbols / sizeof *symbols),
                              .status = status_of,
                              .lock = PTHREAD_MUTEX_INITIALIZER};

/* Row-major C is column-major C^T = B^T A^T. */
rdt_status rdt_gemm_ex(const rdt_blas_product *p, const rdt_blas_operands *o, void *workspace, size_t bytes,
                       void *stream, rdt_reason *why) {
  const float one = 1.0f, zero = 0.0f;
  const bool columns = p->b[1] != 1; /* of B, that lie side by side */
  const int type = p->in[0] == RDT_F16 ? R_16F : R_16BF;
  void *handle;
  RDT_TRY(rdt_library_handle(&library, &handle, why));
  RDT_TRY(status_of(ex.set_stream(handle, stream), "cublasSetStream", why));
  RDT_TRY(status_of(ex.set_workspace(handle, workspace, bytes), "cublasSetWorkspace", why));
  return status_of(ex.gemm_ex(handle, columns ? OP_T : OP_N, OP_N, (int)p->n, (int)p->m, (int)p->k, &one, o->b, type,
                              (int)(columns ? p->b[1] : p->b[0]), o->a, type, (int)p->a[0], &zero, o->c, type,
                              (int)p->c, COMPUTE_32F, GEMM_DEFAULT),
                   "cublasGemmEx", why);
}
