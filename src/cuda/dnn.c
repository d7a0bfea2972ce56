#include "cuda/dnn.h"

#include <cuda_runtime_api.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/device.h"
#include "cuda/library.h"
#include "cuda/trial.h"

/* ---- what is used of cudnn.h, so that the build is the same where there is none ---- */

typedef struct nn_handle nn_handle;
typedef struct nn_tensor nn_tensor;
typedef struct nn_filter nn_filter;
typedef struct nn_conv nn_conv;
typedef struct nn_activation nn_activation;

enum { DATA_FLOAT = 0, DATA_HALF = 2, DATA_BFLOAT16 = 9 };
enum { NCHW = 0, NHWC = 1 };
enum { CROSS_CORRELATION = 1 };
enum { TENSOR_OP_MATH = 1, FMA_MATH = 3 };
enum { ACTIVATION_RELU = 1, ACTIVATION_IDENTITY = 5 };
enum { IMPLICIT_GEMM = 0, IMPLICIT_PRECOMP_GEMM = 1, EXPLICIT_GEMM = 2, DIRECT = 3 };

/* clang-format off */
#define FUNCTIONS(X)                                                                                                   \
  X(cudnnSetStream, (nn_handle *, cudaStream_t))                                                                       \
  X(cudnnCreateTensorDescriptor, (nn_tensor **))                                                                       \
  X(cudnnSetTensorNdDescriptor, (nn_tensor *, int type, int rank, const int *shape, const int *stride))                \
  X(cudnnDestroyTensorDescriptor, (nn_tensor *))                                                                       \
  X(cudnnCreateFilterDescriptor, (nn_filter **))                                                                       \
  X(cudnnSetFilterNdDescriptor, (nn_filter *, int type, int format, int rank, const int *shape))                       \
  X(cudnnDestroyFilterDescriptor, (nn_filter *))                                                                       \
  X(cudnnCreateConvolutionDescriptor, (nn_conv **))                                                                    \
  X(cudnnSetConvolutionNdDescriptor, (nn_conv *, int dims, const int *pad, const int *stride, const int *dilation,     \
                                      int mode, int type))                                                             \
  X(cudnnSetConvolutionGroupCount, (nn_conv *, int))                                                                   \
  X(cudnnSetConvolutionMathType, (nn_conv *, int))                                                                     \
  X(cudnnDestroyConvolutionDescriptor, (nn_conv *))                                                                    \
  X(cudnnCreateActivationDescriptor, (nn_activation **))                                                               \
  X(cudnnSetActivationDescriptor, (nn_activation *, int mode, int nan, double))                                        \
  X(cudnnDestroyActivationDescriptor, (nn_activation *))                                                               \
  X(cudnnGetConvolutionForwardWorkspaceSize, (nn_handle *, nn_tensor *, nn_filter *, nn_conv *, nn_tensor *, int,      \
                                              size_t *))                                                               \
  X(cudnnConvolutionForward, (nn_handle *, const void *alpha, nn_tensor *, const void *, nn_filter *, const void *,    \
                              nn_conv *, int, void *workspace, size_t, const void *beta, nn_tensor *, void *))         \
  X(cudnnConvolutionBiasActivationForward, (nn_handle *, const void *alpha, nn_tensor *, const void *, nn_filter *,    \
                                            const void *, nn_conv *, int, void *workspace, size_t, const void *beta,   \
                                            nn_tensor *, const void *, nn_tensor *, const void *, nn_activation *,     \
                                            nn_tensor *, void *))
/* clang-format on */

#define X(name, arguments) typedef int name##_fn arguments;
FUNCTIONS(X)
#undef X

static struct {
#define X(name, arguments) name##_fn *name;
  FUNCTIONS(X)
#undef X
} nn;

static const size_t WORKSPACE = (size_t)256 << 20;

struct rdt_dnn {
  nn_handle *handle;
  nn_tensor *x, *y, *bias;
  nn_filter *w;
  nn_conv *conv;
  nn_activation *activation;
  int algorithm;
  bool fused;
  float beta;
  void *zeros; /* a bias where there is none */
  void *workspace;
  size_t bytes;
};

static rdt_status status_of(int code, const char *what, rdt_reason *why) {
  if (code == 0) return RDT_OK;
  if (code == 4003 || code == 4004)
    return rdt_fail(why, RDT_ERR_NOMEM, "%s: cuDNN is out of memory (status %d)", what, code);
  if (code < 4000) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: cuDNN refuses it (status %d)", what, code);
  return rdt_fail(why, RDT_ERR_DEVICE, "%s: cuDNN says %d", what, code);
}

static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
static const rdt_library_symbol symbols[] = {
#define X(name, arguments) {#name, (void **)&nn.name},
    FUNCTIONS(X)
#undef X
};
/* Its lock is kept while a handle is used as well: a handle has one stream at a time. */
static rdt_library library = {.called = "cuDNN",
                              .names = names,
                              .create = "cudnnCreate",
                              .version = "cudnnGetVersion",
                              .symbols = symbols,
                              .count = (int)(sizeof symbols / sizeof *symbols),
                              .status = status_of,
                              .lock = PTHREAD_MUTEX_INITIALIZER};

rdt_status rdt_dnn_version(int *version, rdt_reason *why) {
  return rdt_library_open(&library, version, why);
}

/* ---- what a problem must be ---- */

static int64_t reach(const rdt_problem *p, int d) { /* of its output, with the padding before on both sides */
  const rdt_window *w = &p->window;
  const int64_t x = p->in[0].shape[2 + d], taps = p->in[1].shape[2 + d];
  return (x + 2 * w->before[d] - (taps - 1) * w->dilation[d] - 1) / w->stride[d] + 1;
}

static bool filters_packed(const rdt_tensor *w, bool *last) {
  int64_t dense = 1, channels = w->shape[1];
  bool rows = true, side = true;
  for (int d = w->rank - 1; d >= 0; d--) {
    rows = rows && (w->shape[d] == 1 || w->stride[d] == dense);
    dense *= w->shape[d];
  }
  side = w->shape[1] == 1 || w->stride[1] == 1;
  for (int d = w->rank - 1; d >= 2; d--) {
    side = side && (w->shape[d] == 1 || w->stride[d] == channels);
    channels *= w->shape[d];
  }
  side = side && (w->shape[0] == 1 || w->stride[0] == channels);
  *last = side && !rows;
  return rows || side;
}

rdt_status rdt_dnn_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_status no = RDT_ERR_UNSUPPORTED;
  const rdt_tensor *x = &p->in[0], *w = &p->in[1], *y = &p->out;
  bool last;
  if (p->op != RDT_KOP_CONV)
    return rdt_fail(why, no, "cuDNN is used for convolutions; this is %s", rdt_problem_name(p));
  if (x->dtype != RDT_F32 && x->dtype != RDT_F16 && x->dtype != RDT_BF16)
    return rdt_fail(why, no, "convolutions of cuDNN are of f32, f16 or bf16, not %s", rdt_dtype_name(x->dtype));
  if (w->dtype != x->dtype || y->dtype != x->dtype)
    return rdt_fail(why, no, "convolutions of cuDNN have one type: this is %s by %s to %s", rdt_dtype_name(x->dtype),
                    rdt_dtype_name(w->dtype), rdt_dtype_name(y->dtype));
  for (int t = 0; t < 3; t++) {
    const rdt_tensor *v = t == 0 ? x : t == 1 ? w : y;
    int64_t elements = 1;
    for (int d = 0; d < v->rank; d++) {
      if (v->shape[d] < 1) return rdt_fail(why, no, "convolutions of cuDNN take no zero-size dimension");
      if (v->shape[d] > INT32_MAX || v->stride[d] > INT32_MAX || (v->shape[d] > 1 && v->stride[d] < 1))
        return rdt_fail(why, no, "convolutions of cuDNN take lengths and strides from 1 to 2^31 - 1");
      elements += (v->shape[d] - 1) * v->stride[d];
    }
    if (elements > INT32_MAX) return rdt_fail(why, no, "convolutions of cuDNN take up to 2^31 elements");
  }
  for (int d = 0; d + 2 < y->rank; d++)
    if (reach(p, d) != y->shape[2 + d])
      return rdt_fail(why, no, "convolutions of cuDNN are padded alike on both sides; pad the image first");
  if (!filters_packed(w, &last))
    return rdt_fail(why, no, "convolutions of cuDNN take packed filters, rows or channels last");
  return RDT_OK;
}

/* ---- making ready ---- */

static int type_of(rdt_dtype t) {
  return t == RDT_F32 ? DATA_FLOAT : t == RDT_F16 ? DATA_HALF : DATA_BFLOAT16;
}

/* Two spatial dimensions at least. */
static int image(nn_tensor **to, const rdt_tensor *t) {
  int shape[5], stride[5], rank = 0;
  for (int d = 0; d < t->rank; d++) {
    if (d == 2 && t->rank == 3) shape[rank] = 1, stride[rank++] = (int)(t->shape[2] * t->stride[2]);
    shape[rank] = (int)t->shape[d], stride[rank++] = (int)t->stride[d];
  }
  const int code = nn.cudnnCreateTensorDescriptor(to);
  return code ? code : nn.cudnnSetTensorNdDescriptor(*to, type_of(t->dtype), rank, shape, stride);
}

static int describe(rdt_dnn *n, const rdt_problem *p) {
  const rdt_tensor *w = &p->in[1];
  const bool flat = w->rank == 3, half = w->dtype != RDT_F32;
  const int dims = flat ? 2 : w->rank - 2, type = type_of(w->dtype);
  int shape[5] = {(int)w->shape[0], (int)w->shape[1], 1, 1, 1}, pad[3] = {0}, stride[3] = {1, 1, 1},
      dilation[3] = {1, 1, 1};
  bool last;
  for (int d = 0; d + 2 < w->rank; d++) {
    const int to = d + flat;
    shape[2 + to] = (int)w->shape[2 + d], pad[to] = (int)p->window.before[d];
    stride[to] = (int)p->window.stride[d], dilation[to] = (int)p->window.dilation[d];
  }
  filters_packed(w, &last);
  if (!last && p->in[0].stride[1] == 1 && p->in[0].shape[1] > 1) { /* 1 x 1: both orders are the same */
    int64_t taps = 1;
    for (int d = 2; d < w->rank; d++) taps *= w->shape[d];
    last = taps == 1;
  }
  int code = image(&n->x, &p->in[0]);
  if (!code) code = image(&n->y, &p->out);
  if (!code) code = nn.cudnnCreateFilterDescriptor(&n->w);
  if (!code) code = nn.cudnnSetFilterNdDescriptor(n->w, type, last ? NHWC : NCHW, dims + 2, shape);
  if (!code) code = nn.cudnnCreateConvolutionDescriptor(&n->conv);
  if (!code)
    code = nn.cudnnSetConvolutionNdDescriptor(n->conv, dims, pad, stride, dilation, CROSS_CORRELATION, DATA_FLOAT);
  if (!code) code = nn.cudnnSetConvolutionGroupCount(n->conv, (int)p->window.groups);
  if (!code) code = nn.cudnnSetConvolutionMathType(n->conv, half ? TENSOR_OP_MATH : FMA_MATH);
  if (code || !n->fused) return code;
  const int channels = shape[0], bias[5] = {1, channels, 1, 1, 1}, next[5] = {channels, 1, 1, 1, 1};
  code = nn.cudnnCreateTensorDescriptor(&n->bias);
  if (!code) code = nn.cudnnSetTensorNdDescriptor(n->bias, type, dims + 2, bias, next);
  if (!code) code = nn.cudnnCreateActivationDescriptor(&n->activation);
  if (!code)
    code = nn.cudnnSetActivationDescriptor(
        n->activation, p->epilogue.act.fn == RDT_FN_RELU ? ACTIVATION_RELU : ACTIVATION_IDENTITY, 1, 0.0);
  return code;
}

/* Locked. */
static int convolve(rdt_dnn *n, const rdt_dnn_operands *o, int algorithm, void *workspace, size_t bytes,
                    cudaStream_t stream) {
  const float one = 1.0f, zero = 0.0f;
  const int code = nn.cudnnSetStream(n->handle, stream);
  if (code) return code;
  if (!n->fused)
    return nn.cudnnConvolutionForward(n->handle, &one, n->x, o->x, n->w, o->w, n->conv, algorithm, workspace, bytes,
                                      &zero, n->y, o->y);
  return nn.cudnnConvolutionBiasActivationForward(n->handle, &one, n->x, o->x, n->w, o->w, n->conv, algorithm,
                                                  workspace, bytes, &n->beta, n->y, o->residual ? o->residual : o->y,
                                                  n->bias, o->bias ? o->bias : n->zeros, n->activation, n->y, o->y);
}

typedef struct attempt {
  rdt_dnn *n;
  const rdt_dnn_operands *o;
  int algorithm;
  void *workspace;
  size_t bytes;
} attempt;

static rdt_status try_one(void *user, void *stream, rdt_reason *why) {
  const attempt *t = user;
  pthread_mutex_lock(&library.lock);
  const int code = convolve(t->n, t->o, t->algorithm, t->workspace, t->bytes, stream);
  pthread_mutex_unlock(&library.lock);
  return status_of(code, "a convolution", why);
}

static rdt_status choose(rdt_dnn *n, const rdt_dnn_operands *trial, void *stream, rdt_reason *why) {
  static const int algorithms[] = {IMPLICIT_PRECOMP_GEMM, IMPLICIT_GEMM, EXPLICIT_GEMM, DIRECT};
  rdt_status status = status_of(3000, "a convolution", why);
  double least = 0.0;
  bool any = false;
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
    double seconds;
    void *workspace = NULL;
    size_t bytes = 0;
    if (nn.cudnnGetConvolutionForwardWorkspaceSize(n->handle, n->x, n->w, n->conv, n->y, algorithms[i], &bytes) ||
        bytes > WORKSPACE)
      continue;
    RDT_TRY(rdt_cuda_alloc(bytes, &workspace, why));
    attempt t = {n, trial, algorithms[i], workspace, bytes};
    status = rdt_cuda_trial(try_one, &t, stream, &seconds, why);
    if (status != RDT_OK || (any && seconds >= least)) {
      rdt_cuda_free(workspace);
      continue;
    }
    rdt_cuda_free(n->workspace);
    n->workspace = workspace, n->bytes = bytes, n->algorithm = algorithms[i];
    least = seconds, any = true;
  }
  return any ? RDT_OK : status;
}

rdt_status rdt_dnn_create(const rdt_problem *p, bool fused, const rdt_dnn_operands *trial, void *stream, rdt_dnn **out,
                          rdt_reason *why) {
  void *handle = NULL;
  *out = NULL;
  RDT_TRY(rdt_dnn_accept(p, why));
  RDT_TRY(rdt_library_handle(&library, &handle, why));
  rdt_dnn *n = rdt_calloc(1, sizeof *n);
  if (!n) return rdt_fail(why, RDT_ERR_NOMEM, "a convolution: out of memory");
  n->handle = handle, n->fused = fused, n->algorithm = -1;
  n->beta = p->epilogue.residual.rank >= 0 ? (float)p->epilogue.beta : 0.0f;
  rdt_status status = status_of(describe(n, p), "a convolution", why);
  if (status == RDT_OK && fused)
    status = rdt_cuda_alloc((size_t)p->out.shape[1] * rdt_dtype_size(p->out.dtype), &n->zeros, why);
  if (status == RDT_OK) status = choose(n, trial, stream, why);
  if (status != RDT_OK) {
    rdt_dnn_destroy(n);
    return status;
  }
  *out = n;
  return RDT_OK;
}

rdt_status rdt_dnn_launch(rdt_dnn *n, const rdt_dnn_operands *o, void *stream, rdt_reason *why) {
  pthread_mutex_lock(&library.lock);
  const int code = convolve(n, o, n->algorithm, n->workspace, n->bytes, stream);
  pthread_mutex_unlock(&library.lock);
  return status_of(code, "a convolution", why);
}

void rdt_dnn_destroy(rdt_dnn *n) {
  if (!n) return;
  if (n->x) nn.cudnnDestroyTensorDescriptor(n->x);
  if (n->y) nn.cudnnDestroyTensorDescriptor(n->y);
  if (n->bias) nn.cudnnDestroyTensorDescriptor(n->bias);
  if (n->w) nn.cudnnDestroyFilterDescriptor(n->w);
  if (n->conv) nn.cudnnDestroyConvolutionDescriptor(n->conv);
  if (n->activation) nn.cudnnDestroyActivationDescriptor(n->activation);
  rdt_cuda_free(n->workspace), rdt_cuda_free(n->zeros);
  rdt_free(n);
}
