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
  X(cublasGemmStridedBatchedEx) \
  X(cublasGetVersion_v2)
#define LT_TABLE(X) \
  X(cublasLtCreate) \
  X(cublasLtMatmul) \
  X(cublasLtMatmulDescCreate) \
  X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatrixLayoutCreate) \
  X(cublasLtMatrixLayoutDestroy) \
  X(cublasLtMatrixLayoutSetAttribute) \
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
  cublas_gemm gemm; /* that the algorithms are for */
  cublasLtMatmulHeuristicResult_t found[CUBLAS_ALGORITHMS];
  void *workspace;
  char version[32];
};

static void *lt_library;

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
  lt_library = lt;
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

void *cublas_function(const char *name) {
  return dlsym(lt_library, name);
}

static cudaDataType_t type_of(rdt_dtype t) {
  return t == RDT_F16      ? CUDA_R_16F
         : t == RDT_BF16   ? CUDA_R_16BF
         : t == RDT_F8E4M3 ? CUDA_R_8F_E4M3
         : t == RDT_F8E5M2 ? CUDA_R_8F_E5M2
         : t == RDT_S8     ? CUDA_R_8I
         : t == RDT_S32    ? CUDA_R_32I
         : t == RDT_F64    ? CUDA_R_64F
                           : CUDA_R_32F;
}

static cublasComputeType_t compute_of(const cublas_gemm *g) {
  return g->in == RDT_S8    ? CUBLAS_COMPUTE_32I
         : g->in == RDT_F64 ? CUBLAS_COMPUTE_64F
         : g->tf32          ? CUBLAS_COMPUTE_32F_FAST_TF32
                            : CUBLAS_COMPUTE_32F;
}

static const void *number(const cublas_gemm *g, int x) { /* as it is wanted for alpha and beta */
  static const int32_t integers[] = {0, 1};
  static const float floats[] = {0.0f, 1.0f};
  static const double doubles[] = {0.0, 1.0};
  return g->in == RDT_S8 ? (const void *)&integers[x] : g->in == RDT_F64 ? (const void *)&doubles[x] : &floats[x];
}

/* Row-major C is column-major C^T = B^T A^T. */
bool cublas_ex(cublas *c, const cublas_gemm *g, const void *a, const void *b, void *out, void *stream) {
  const cublasOperation_t of_a = g->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                          of_b = g->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (c->cublasSetStream_v2(c->ex, stream) != CUBLAS_STATUS_SUCCESS ||
      c->cublasSetWorkspace_v2(c->ex, c->workspace, WORKSPACE) != CUBLAS_STATUS_SUCCESS)
    return false;
  if (g->batches > 1)
    return c->cublasGemmStridedBatchedEx(c->ex, of_b, of_a, g->n, g->m, g->k, number(g, 1), b, type_of(g->in),
                                         g->transposed ? g->k : g->n, (long long)g->n * g->k, a, type_of(g->in),
                                         g->a_transposed ? g->m : g->k, (long long)g->m * g->k, number(g, 0), out,
                                         type_of(g->out), g->n, (long long)g->m * g->n, g->batches, compute_of(g),
                                         CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
  return c->cublasGemmEx(c->ex, of_b, of_a, g->n, g->m, g->k, number(g, 1), b, type_of(g->in),
                         g->transposed ? g->k : g->n, a, type_of(g->in), g->a_transposed ? g->m : g->k, number(g, 0),
                         out, type_of(g->out), g->n, compute_of(g), CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
}

static void batched(cublas *c, cublasLtMatrixLayout_t layout, const cublas_gemm *g, int64_t apart) {
  const int32_t count = g->batches;
  if (count < 2) return;
  c->cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  c->cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart);
}

int cublas_lt_prepare(cublas *c, const cublas_gemm *g) {
  const cublasOperation_t op = g->transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                          of_a = g->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  int count = 0;
  if (c->what) {
    c->cublasLtMatmulDescDestroy(c->what), c->cublasLtMatrixLayoutDestroy(c->a);
    c->cublasLtMatrixLayoutDestroy(c->b), c->cublasLtMatrixLayoutDestroy(c->out);
  }
  c->gemm = *g;
  c->cublasLtMatmulDescCreate(&c->what, compute_of(g),
                              g->in == RDT_S8    ? CUDA_R_32I
                              : g->in == RDT_F64 ? CUDA_R_64F
                                                 : CUDA_R_32F);
  c->cublasLtMatmulDescSetAttribute(c->what, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op);
  c->cublasLtMatmulDescSetAttribute(c->what, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a);
  const uint64_t n = (uint64_t)g->n, m = (uint64_t)g->m, k = (uint64_t)g->k;
  if (g->transposed)
    c->cublasLtMatrixLayoutCreate(&c->b, type_of(g->in), k, n, g->k);
  else
    c->cublasLtMatrixLayoutCreate(&c->b, type_of(g->in), n, k, g->n);
  if (g->a_transposed)
    c->cublasLtMatrixLayoutCreate(&c->a, type_of(g->in), m, k, g->m);
  else
    c->cublasLtMatrixLayoutCreate(&c->a, type_of(g->in), k, m, g->k);
  c->cublasLtMatrixLayoutCreate(&c->out, type_of(g->out), n, m, g->n);
  batched(c, c->a, g, (int64_t)g->m * g->k), batched(c, c->b, g, (int64_t)g->n * g->k);
  batched(c, c->out, g, (int64_t)g->m * g->n);
  const cublasStatus_t s = c->cublasLtMatmulAlgoGetHeuristic(c->lt, c->what, c->b, c->a, c->out, c->out, c->preference,
                                                             CUBLAS_ALGORITHMS, c->found, &count);
  return s == CUBLAS_STATUS_SUCCESS ? count : 0;
}

bool cublas_lt(cublas *c, int algorithm, const void *a, const void *b, void *out, void *stream) {
  const void *one = number(&c->gemm, 1), *zero = number(&c->gemm, 0);
  return c->cublasLtMatmul(c->lt, c->what, one, b, c->b, a, c->a, zero, out, c->out, out, c->out,
                           &c->found[algorithm].algo, c->workspace, WORKSPACE, stream) == CUBLAS_STATUS_SUCCESS;
}
