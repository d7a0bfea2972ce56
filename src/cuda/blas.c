#include "cuda/blas.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "core/memory.h"
#include "cuda/device.h"
#include "cuda/library.h"
#include "cuda/trial.h"

/* ---- what is used of cublasLt.h, so that the build is the same where there is none ---- */

typedef struct lt_handle lt_handle;
typedef struct lt_desc lt_desc;
typedef struct lt_layout lt_layout;
typedef struct lt_preference lt_preference;
typedef struct lt_algorithm {
  uint64_t data[8];
} lt_algorithm;
typedef struct lt_found {
  lt_algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} lt_found;

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14, R_8F_E4M3 = 28, R_8F_E5M2 = 29 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72 };
enum { DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_EPILOGUE = 7, DESC_BIAS = 8 };
enum { LAYOUT_BATCHES = 5, LAYOUT_NEXT = 6 };
enum { PREFER_WORKSPACE = 1, PREFER_REDUCTION = 3, PREFER_ALIGNMENT = 5 };
enum { REDUCE_COMPUTE_TYPE = 2 }; /* and none: parts are added in the accumulator's type, one after the other */
enum { ALGORITHM_NUMERICS = 15 };
enum { NUMERICS_TENSOR_CORES = 0xfe, NUMERICS_UNITS = 0xff };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };

/* clang-format off */
#define FUNCTIONS(X)                                                                                                 \
  X(cublasLtMatmulDescCreate, (lt_desc **, int compute, int scale))                                                  \
  X(cublasLtMatmulDescSetAttribute, (lt_desc *, int what, const void *, size_t))                                     \
  X(cublasLtMatmulDescDestroy, (lt_desc *))                                                                          \
  X(cublasLtMatrixLayoutCreate, (lt_layout **, int type, uint64_t rows, uint64_t columns, int64_t pitch))            \
  X(cublasLtMatrixLayoutSetAttribute, (lt_layout *, int what, const void *, size_t))                                 \
  X(cublasLtMatrixLayoutDestroy, (lt_layout *))                                                                      \
  X(cublasLtMatmulPreferenceCreate, (lt_preference **))                                                              \
  X(cublasLtMatmulPreferenceSetAttribute, (lt_preference *, int what, const void *, size_t))                         \
  X(cublasLtMatmulPreferenceDestroy, (lt_preference *))                                                              \
  X(cublasLtMatmulAlgoGetHeuristic, (lt_handle *, lt_desc *, lt_layout *, lt_layout *, lt_layout *, lt_layout *,     \
                                     lt_preference *, int most, lt_found *, int *count))                             \
  X(cublasLtMatmulAlgoCapGetAttribute, (const lt_algorithm *, int what, void *, size_t, size_t *written))            \
  X(cublasLtMatmul, (lt_handle *, lt_desc *, const void *alpha, const void *, lt_layout *, const void *, lt_layout *, \
                     const void *beta, const void *, lt_layout *, void *, lt_layout *, const lt_algorithm *,         \
                     void *workspace, size_t, cudaStream_t))
/* clang-format on */

#define X(name, arguments) typedef int name##_fn arguments;
FUNCTIONS(X)
#undef X

static struct {
#define X(name, arguments) name##_fn *name;
  FUNCTIONS(X)
#undef X
} lt;

enum { ALGORITHMS = 6, ALIGNED = 16 };
static const size_t WORKSPACE = (size_t)32 << 20;

struct rdt_blas {
  rdt_blas_product p;
  lt_handle *handle;
  lt_desc *desc;
  lt_layout *a, *b, *c;
  lt_algorithm algorithm;
  void *workspace;
  size_t bytes;
  bool accumulates_double, integer, lent; /* lent: the workspace is the caller's */
};

static rdt_status status_of(int code, const char *what, rdt_reason *why) {
  switch (code) {
    case 0:
      return RDT_OK;
    case 3:
      return rdt_fail(why, RDT_ERR_NOMEM, "%s: cuBLASLt is out of memory", what);
    case 7:
    case 15:
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: cuBLASLt has nothing for it (status %d)", what, code);
    default:
      return rdt_fail(why, RDT_ERR_DEVICE, "%s: cuBLASLt says %d", what, code);
  }
}

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
static const rdt_library_symbol symbols[] = {
#define X(name, arguments) {#name, (void **)&lt.name},
    FUNCTIONS(X)
#undef X
};
static rdt_library library = {.called = "cuBLASLt",
                              .names = names,
                              .create = "cublasLtCreate",
                              .version = "cublasLtGetVersion",
                              .symbols = symbols,
                              .count = (int)(sizeof symbols / sizeof *symbols),
                              .status = status_of,
                              .lock = PTHREAD_MUTEX_INITIALIZER};

rdt_status rdt_blas_version(int *version, rdt_reason *why) {
  return rdt_library_open(&library, version, why);
}

static int type_of(rdt_dtype t) {
  static const int types[RDT_DTYPE_COUNT] = {
      [RDT_F64] = R_64F, [RDT_F32] = R_32F, [RDT_F16] = R_16F,        [RDT_BF16] = R_16BF,
      [RDT_S8] = R_8I,   [RDT_S32] = R_32I, [RDT_F8E4M3] = R_8F_E4M3, [RDT_F8E5M2] = R_8F_E5M2};
  return types[t];
}

/* The library thinks in columns: C^T = B^T A^T. A matrix whose rows lie side by side is the transpose of one whose
 * columns do. */
static int layout(lt_layout **l, rdt_dtype type, int64_t rows, int64_t columns, const int64_t *strides, int64_t next,
                  int64_t batches, bool *transposed) {
  const int count = (int)batches;
  *transposed = !(strides[1] == 1 || columns == 1) || (rows == 1 && columns > 1 && strides[1] != 1);
  int64_t lie[2] = {*transposed ? rows : columns, *transposed ? columns : rows};
  int64_t pitch = *transposed ? strides[1] : strides[0];
  if (pitch < lie[0]) pitch = lie[0]; /* of one row or column, whatever its stride says */
  const int code = lt.cublasLtMatrixLayoutCreate(l, type_of(type), (uint64_t)lie[0], (uint64_t)lie[1], pitch);
  if (code || batches == 1) return code;
  lt.cublasLtMatrixLayoutSetAttribute(*l, LAYOUT_BATCHES, &count, sizeof count);
  return lt.cublasLtMatrixLayoutSetAttribute(*l, LAYOUT_NEXT, &next, sizeof next);
}

static int describe(rdt_blas *b) {
  const rdt_blas_product *p = &b->p;
  const int32_t epilogue = (p->act == RDT_BLAS_RELU        ? EPILOGUE_RELU
                            : p->act == RDT_BLAS_GELU_TANH ? EPILOGUE_GELU
                                                           : 0) |
                           (p->bias ? EPILOGUE_BIAS : 0);
  const int32_t some = epilogue ? epilogue : EPILOGUE_DEFAULT;
  const int64_t c[2] = {p->c, 1};
  bool at, bt, ct;
  int code = lt.cublasLtMatmulDescCreate(&b->desc,
                                         b->integer              ? COMPUTE_32I
                                         : b->accumulates_double ? COMPUTE_64F
                                                                 : COMPUTE_32F,
                                         b->integer              ? R_32I
                                         : b->accumulates_double ? R_64F
                                                                 : R_32F);
  if (!code) code = layout(&b->a, p->in[0], p->m, p->k, p->a, p->a_next, p->batches, &at);
  if (!code) code = layout(&b->b, p->in[1], p->k, p->n, p->b, p->b_next, p->batches, &bt);
  if (!code) code = layout(&b->c, p->out, p->m, p->n, c, p->c_next, p->batches, &ct);
  if (code) return code;
  const int32_t first = bt, second = at; /* B^T is the first factor */
  code = lt.cublasLtMatmulDescSetAttribute(b->desc, DESC_TRANSA, &first, sizeof first);
  if (!code) code = lt.cublasLtMatmulDescSetAttribute(b->desc, DESC_TRANSB, &second, sizeof second);
  if (!code) code = lt.cublasLtMatmulDescSetAttribute(b->desc, DESC_EPILOGUE, &some, sizeof some);
  return code;
}

static int multiply(rdt_blas *b, const rdt_blas_operands *o, const lt_algorithm *algorithm, void *workspace,
                    size_t bytes, cudaStream_t stream) {
  const float alpha = (float)b->p.alpha, beta = (float)b->p.beta;
  const int32_t ialpha = (int32_t)b->p.alpha, ibeta = (int32_t)b->p.beta;
  const void *one = b->integer ? (const void *)&ialpha : b->accumulates_double ? (const void *)&b->p.alpha : &alpha;
  const void *more = b->integer ? (const void *)&ibeta : b->accumulates_double ? (const void *)&b->p.beta : &beta;
  if (b->p.bias) {
    const int code = lt.cublasLtMatmulDescSetAttribute(b->desc, DESC_BIAS, &o->bias, sizeof o->bias);
    if (code) return code;
  }
  return lt.cublasLtMatmul(b->handle, b->desc, one, o->b, b->b, o->a, b->a, more, b->p.beta != 0.0 ? o->residual : o->c,
                           b->c, o->c, b->c, algorithm, workspace, bytes, stream);
}

static int propose(rdt_blas *b, size_t workspace, lt_found *found, int *count) {
  const uint32_t aligned = ALIGNED, reduction = b->p.undivided ? 0 : REDUCE_COMPUTE_TYPE;
  lt_preference *p;
  int code = lt.cublasLtMatmulPreferenceCreate(&p);
  if (code) return code;
  lt.cublasLtMatmulPreferenceSetAttribute(p, PREFER_WORKSPACE, &workspace, sizeof workspace);
  lt.cublasLtMatmulPreferenceSetAttribute(p, PREFER_REDUCTION, &reduction, sizeof reduction);
  for (int i = 0; i < 4; i++)
    lt.cublasLtMatmulPreferenceSetAttribute(p, PREFER_ALIGNMENT + i, &aligned, sizeof aligned);
  code = lt.cublasLtMatmulAlgoGetHeuristic(b->handle, b->desc, b->b, b->a, b->c, b->c, p, ALGORITHMS, found, count);
  lt.cublasLtMatmulPreferenceDestroy(p);
  return code;
}

typedef struct attempt {
  rdt_blas *b;
  const rdt_blas_operands *o;
  const lt_found *found;
  void *workspace;
} attempt;

static rdt_status try_one(void *user, void *stream, rdt_reason *why) {
  const attempt *t = user;
  return status_of(multiply(t->b, t->o, &t->found->algorithm, t->workspace, WORKSPACE, stream), "a product", why);
}

/* Among those that are as fast the library's own order decides, so that the same product gets the same algorithm. */
static rdt_status choose(rdt_blas *b, const rdt_blas_operands *trial, void *stream, rdt_reason *why) {
  static const double ALIKE = 1.005;
  lt_found found[ALGORITHMS];
  attempt attempts[ALGORITHMS];
  void *users[ALGORITHMS], *workspace = NULL;
  double seconds[ALGORITHMS], least = INFINITY;
  int count = 0, able = 0, best = 0;
  RDT_TRY(status_of(propose(b, WORKSPACE, found, &count), "a product", why));
  RDT_TRY(rdt_cuda_alloc(WORKSPACE, &workspace, why));
  for (int i = 0; i < count; i++) {
    if (found[i].state) continue;
    attempts[able] = (attempt){b, trial, &found[i], workspace};
    users[able] = &attempts[able];
    able++;
  }
  const rdt_status s = able    ? rdt_cuda_trials(try_one, users, able, stream, seconds, why)
                       : count ? RDT_ERR_UNSUPPORTED
                               : status_of(15, "a product", why);
  rdt_cuda_free(workspace);
  if (s != RDT_OK) return count ? RDT_ERR_UNSUPPORTED : s;
  for (int i = 0; i < able; i++) least = fmin(least, seconds[i]);
  while (seconds[best] > ALIKE * least) best++;
  b->algorithm = attempts[best].found->algorithm;
  b->bytes = attempts[best].found->workspace;
  return rdt_cuda_alloc(b->bytes, &b->workspace, why);
}

static rdt_status begin(const rdt_blas_product *p, rdt_blas **out, rdt_reason *why) {
  void *handle = NULL;
  *out = NULL;
  RDT_TRY(rdt_library_handle(&library, &handle, why));
  rdt_blas *b = rdt_calloc(1, sizeof *b);
  if (!b) return rdt_fail(why, RDT_ERR_NOMEM, "a product: out of memory");
  *b = (rdt_blas){.p = *p, .handle = handle, .accumulates_double = p->in[0] == RDT_F64, .integer = p->in[0] == RDT_S8};
  *out = b;
  return status_of(describe(b), "a product", why);
}

static rdt_status end(rdt_status status, rdt_blas **b) {
  if (status == RDT_OK) return status;
  rdt_blas_destroy(*b);
  *b = NULL;
  return status;
}

rdt_status rdt_blas_create(const rdt_blas_product *p, const rdt_blas_operands *trial, void *stream, rdt_blas **out,
                           rdt_reason *why) {
  rdt_status status = begin(p, out, why);
  if (status == RDT_OK) status = choose(*out, trial, stream, why);
  return end(status, out);
}

static rdt_status take_first(rdt_blas *b, size_t most, rdt_reason *why) {
  lt_found found[ALGORITHMS];
  int count = 0, i = 0;
  RDT_TRY(status_of(propose(b, most, found, &count), "a product", why));
  while (i < count && found[i].state) i++;
  if (i == count) return status_of(15, "a product", why);
  b->algorithm = found[i].algorithm;
  b->bytes = found[i].workspace;
  return RDT_OK;
}

rdt_status rdt_blas_create_lent(const rdt_blas_product *p, void *workspace, size_t bytes, rdt_blas **out,
                                rdt_reason *why) {
  rdt_status status = begin(p, out, why);
  if (status == RDT_OK) {
    (*out)->lent = true;
    (*out)->workspace = workspace;
    status = take_first(*out, bytes, why);
  }
  return end(status, out);
}

rdt_status rdt_blas_twin(const rdt_blas *b, rdt_blas **twin, rdt_reason *why) {
  *twin = NULL;
  rdt_blas *t = rdt_calloc(1, sizeof *t);
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "a product: out of memory");
  *t = *b;
  t->desc = NULL, t->a = t->b = t->c = NULL, t->workspace = NULL, t->lent = false;
  rdt_status status = status_of(describe(t), "a product", why);
  if (status == RDT_OK) status = rdt_cuda_alloc(t->bytes, &t->workspace, why);
  if (status == RDT_OK)
    *twin = t;
  else
    rdt_blas_destroy(t);
  return status;
}

rdt_status rdt_blas_launch(rdt_blas *b, const rdt_blas_operands *o, void *stream, rdt_reason *why) {
  return status_of(multiply(b, o, &b->algorithm, b->workspace, b->bytes, stream), "a product", why);
}

bool rdt_blas_on_tensor_cores(const rdt_blas *b) {
  uint64_t numerics = 0;
  size_t written = 0;
  const int code =
      lt.cublasLtMatmulAlgoCapGetAttribute(&b->algorithm, ALGORITHM_NUMERICS, &numerics, sizeof numerics, &written);
  numerics &= NUMERICS_UNITS;
  return code == 0 && written == sizeof numerics && numerics && !(numerics & ~(uint64_t)NUMERICS_TENSOR_CORES);
}

void rdt_blas_destroy(rdt_blas *b) {
  if (!b) return;
  if (b->desc) lt.cublasLtMatmulDescDestroy(b->desc);
  lt_layout *const layouts[] = {b->a, b->b, b->c};
  for (int i = 0; i < 3; i++)
    if (layouts[i]) lt.cublasLtMatrixLayoutDestroy(layouts[i]);
  if (!b->lent) rdt_cuda_free(b->workspace);
  rdt_free(b);
}
