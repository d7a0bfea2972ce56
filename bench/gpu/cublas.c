#include "cublas.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#define EX_TABLE(X) \
  X(cublasCreate_v2) \
  X(cublasSetStream_v2) \
  X(cublasSetWorkspace_v2) \
  X(cublasGemmEx) \
  X(cublasGetVersion_v2)
#define LT_TABLE(X) \
  X(cublasLtCreate) \
  X(cublasLtMatmul) \
  X(cublasLtMatmulDescCreate) \
  X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatrixLayoutCreate) \
  X(cublasLtMatrixLayoutDestroy) \
  X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)
/* clang-format on */

enum { WORKSPACE = 32 << 20 };

struct cublas {
#define X(name) __typeof__(&name) name;
  EX_TABLE(X)
  LT_TABLE(X)
#undef X
  cublasHandle_t ex;
  cublasLtHandle_t lt;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulDesc_t what;
  cublasLtMatrixLayout_t a, b, out;
  cublasLtMatmulHeuristicResult_t found[CUBLAS_ALGORITHMS];
  void *workspace;
  char version[32];
};

static void *library(const char *const *names) {
  for (; *names; names++) {
    void *l = dlopen(*names, RTLD_NOW | RTLD_GLOBAL);
    if (l) return l;
  }
  return NULL;
}

cublas *cublas_open(char *why, int size) {
  static const char *const lt_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
  static const char *const ex_names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so", NULL};
  void *lt = library(lt_names), *ex = library(ex_names);
  cublas *c = calloc(1, sizeof *c);
  if (!lt || !ex || !c) return snprintf(why, (size_t)size, "%s", lt && ex ? "out of memory" : dlerror()), free(c), NULL;
  bool all = true;
#define X(name) all = (*(void **)&c->name = dlsym(ex, #name)) && all;
  EX_TABLE(X)
#undef X
#define X(name) all = (*(void **)&c->name = dlsym(lt, #name)) && all;
  LT_TABLE(X)
#undef X
  const size_t bytes = WORKSPACE;
  int version = 0;
  all = all && cudaMalloc(&c->workspace, WORKSPACE) == cudaSuccess &&
        c->cublasCreate_v2(&c->ex) == CUBLAS_STATUS_SUCCESS &&
        c->cublasGetVersion_v2(c->ex, &version) == CUBLAS_STATUS_SUCCESS &&
        c->cublasLtCreate(&c->lt) == CUBLAS_STATUS_SUCCESS &&
        c->cublasLtMatmulPreferenceCreate(&c->preference) == CUBLAS_STATUS_SUCCESS &&
        c->cublasLtMatmulPreferenceSetAttribute(c->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                sizeof bytes) == CUBLAS_STATUS_SUCCESS;
  if (!all) return snprintf(why, (size_t)size, "a function is missing, or fails"), free(c), NULL;
  snprintf(c->version, sizeof c->version, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
  return c;
}

const char *cublas_version(const cublas *c) {
  return c->version;
}

/* Row-major C is column-major C^T = B^T A^T. */
bool cublas_ex(cublas *c, const cublas_gemm *g, const void *a, const void *b, void *out, void *stream) {
  const float one = 1.0f, zero = 0.0f;
  return c->cublasSetStream_v2(c->ex, stream) == CUBLAS_STATUS_SUCCESS &&
         c->cublasSetWorkspace_v2(c->ex, c->workspace, WORKSPACE) == CUBLAS_STATUS_SUCCESS &&
         c->cublasGemmEx(c->ex, g->transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, g->n, g->m, g->k, &one, b,
                         CUDA_R_16F, g->transposed ? g->k : g->n, a, CUDA_R_16F, g->k, &zero, out, CUDA_R_16F, g->n,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

int cublas_lt_prepare(cublas *c, const cublas_gemm *g) {
  const cublasOperation_t op = g->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  int count = 0;
  if (c->what) {
    c->cublasLtMatmulDescDestroy(c->what), c->cublasLtMatrixLayoutDestroy(c->a);
    c->cublasLtMatrixLayoutDestroy(c->b), c->cublasLtMatrixLayoutDestroy(c->out);
  }
  c->cublasLtMatmulDescCreate(&c->what, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  c->cublasLtMatmulDescSetAttribute(c->what, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op);
  const uint64_t n = (uint64_t)g->n, m = (uint64_t)g->m, k = (uint64_t)g->k;
  if (g->transposed)
    c->cublasLtMatrixLayoutCreate(&c->b, CUDA_R_16F, k, n, g->k);
  else
    c->cublasLtMatrixLayoutCreate(&c->b, CUDA_R_16F, n, k, g->n);
  c->cublasLtMatrixLayoutCreate(&c->a, CUDA_R_16F, k, m, g->k);
  c->cublasLtMatrixLayoutCreate(&c->out, CUDA_R_16F, n, m, g->n);
  const cublasStatus_t s = c->cublasLtMatmulAlgoGetHeuristic(c->lt, c->what, c->b, c->a, c->out, c->out, c->preference,
                                                             CUBLAS_ALGORITHMS, c->found, &count);
  return s == CUBLAS_STATUS_SUCCESS ? count : 0;
}

bool cublas_lt(cublas *c, int algorithm, const void *a, const void *b, void *out, void *stream) {
  const float one = 1.0f, zero = 0.0f;
  return c->cublasLtMatmul(c->lt, c->what, &one, b, c->b, a, c->a, &zero, out, c->out, out, c->out,
                           &c->found[algorithm].algo, c->workspace, WORKSPACE, stream) == CUBLAS_STATUS_SUCCESS;
}
