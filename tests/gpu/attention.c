/* Attention as one launch, against its formula in double: lengths around the tiles', all depths, masks of all kinds, in
 * each form of a launch; the sums of what it has read and stored; an element that is wrong. */
#include "cuda/ops/attention.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "check/bitsum.h"
#include "core/memory.h"
#include "cuda/ops/ops.h"
#include "gpu.h"

typedef enum mask_kind { NONE, KEYS, ALL, CAUSAL, MASKS } mask_kind; /* of keys; of all with a bias; -Inf behind */

typedef struct sizes {
  int64_t batches, heads, queries, keys, depth;
  mask_kind mask;
  rdt_dtype dtype;
  bool packed; /* q, k, v beside one another in one tensor */
} sizes;

typedef struct attention {
  sizes s;
  rdt_tensor q, k, v, mask, out; /* on the device: [b h row depth], as they lie there */
  void *memory[4];               /* q k v, the mask, the result, what is found */
  void *host, *host_mask;
  size_t qkv, mask_bytes, out_bytes;
  int wide; /* 0: not by wgmma */
  rdt_gpu_attention op;
} attention;

typedef struct found {
  uint64_t sum, visits, read[3];
  rdt_cuda_verdict verdict;
} found;

static void cuda(cudaError_t e, const char *what) {
  if (e != cudaSuccess) gpu_die(what, cudaGetErrorString(e));
}

static rdt_tensor view(void *data, rdt_dtype t, const int64_t *shape, const int64_t *stride) {
  rdt_tensor v = {.data = data, .dtype = t, .rank = 4};
  memcpy(v.shape, shape, 4 * sizeof *shape);
  memcpy(v.stride, stride, 4 * sizeof *stride);
  return v;
}

static double mask_value(const sizes *s, int64_t i, uint64_t *seed) {
  const double low = s->dtype == RDT_F16 ? -65504.0 : -3.38e38;
  if (s->mask == KEYS) return gpu_normal(seed) < -0.7 && i % s->keys > 0 ? low : 0.0;
  return s->mask == ALL ? gpu_normal(seed) : i % s->keys > i / s->keys ? -INFINITY : 0.0;
}

static void *place(const void *from, size_t bytes) {
  void *to;
  cuda(cudaMalloc(&to, bytes + 16), "memory");
  cuda(from ? cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice) : cudaMemset(to, 0x7f, bytes), "operand");
  return to;
}

/* Where operand i begins, in numbers, and its strides. */
static int64_t begin(const sizes *s, int i, int64_t stride[4]) {
  const int64_t width = s->heads * s->depth, rows = s->queries > s->keys ? s->queries : s->keys;
  const int64_t apart = s->packed ? 3 * width : width;
  stride[0] = rows * apart, stride[1] = s->depth, stride[2] = apart, stride[3] = 1;
  return s->packed ? i * width : i * s->batches * rows * width;
}

static void make(attention *x, uint64_t *seed) {
  const sizes *s = &x->s;
  const int64_t width = s->heads * s->depth, rows = s->queries > s->keys ? s->queries : s->keys;
  const int64_t n = 3 * s->batches * rows * width;
  const int64_t of_mask[4] = {s->mask == KEYS ? s->batches : 1, s->mask == ALL ? s->heads : 1,
                              s->mask == KEYS ? 1 : s->queries, s->keys};
  int64_t stride[4], masked = 1;
  for (int d = 0; d < 4; d++) masked *= of_mask[d];
  x->qkv = 2 * (size_t)n, x->mask_bytes = 2 * (size_t)masked;
  x->out_bytes = 2 * (size_t)(s->batches * s->queries * width);
  x->host = malloc(x->qkv), x->host_mask = malloc(x->mask_bytes);
  for (int64_t i = 0; i < n; i++) rdt_store(x->host, s->dtype, i, gpu_normal(seed));
  for (int64_t i = 0; i < masked; i++) rdt_store(x->host_mask, s->dtype, i, mask_value(s, i, seed));
  x->memory[0] = place(x->host, x->qkv), x->memory[1] = place(x->host_mask, x->mask_bytes);
  x->memory[2] = place(NULL, x->out_bytes), x->memory[3] = place(NULL, sizeof(found));
  rdt_tensor *const list[] = {&x->q, &x->k, &x->v};
  for (int i = 0; i < 3; i++) {
    const int64_t from = begin(s, i, stride);
    const int64_t dims[4] = {s->batches, s->heads, i ? s->keys : s->queries, s->depth};
    *list[i] = view((char *)x->memory[0] + 2 * from, s->dtype, dims, stride);
  }
  const int64_t all[4] = {s->batches, s->heads, s->queries, s->keys};
  for (int d = 3, step = 1; d >= 0; step *= (int)of_mask[d--]) stride[d] = of_mask[d] == 1 ? 0 : step;
  x->mask = view(x->memory[1], s->dtype, all, stride);
  const int64_t dims[4] = {s->batches, s->heads, s->queries, s->depth};
  const int64_t lies[4] = {s->queries * width, s->depth, width, 1};
  x->out = view(x->memory[2], s->dtype, dims, lies);
}

/* The steps of a network that this is. */
static void prepare(attention *x) {
  const sizes *s = &x->s;
  const int64_t between[4] = {s->batches, s->heads, s->queries, s->keys},
                mixed[4] = {s->batches, s->heads, s->queries, s->depth};
  static char somewhere[3]; /* nothing is there */
  rdt_problem p[4];
  rdt_reason why;
  static const rdt_kop ops[] = {RDT_KOP_GEMM, RDT_KOP_SOFTMAX, RDT_KOP_GEMM, RDT_KOP_COPY};
  for (int i = 0; i < 4; i++)
    if (rdt_problem_init(&p[i], ops[i], i % 2 ? 1 : 2) != RDT_OK) gpu_die("attention", "out of memory");
  p[0].in[0] = x->q;
  p[0].in[1] = x->k;
  p[0].in[1].shape[2] = s->depth, p[0].in[1].shape[3] = s->keys;
  p[0].in[1].stride[2] = 1, p[0].in[1].stride[3] = x->k.stride[2];
  p[0].out = p[1].in[0] = rdt_tensor_dense(&somewhere[0], s->dtype, 4, between);
  p[0].epilogue.alpha = 1.0 / sqrt((double)s->depth);
  if (s->mask != NONE) p[0].epilogue.residual = x->mask, p[0].epilogue.beta = 1.0;
  p[1].axis = 3;
  p[1].out = p[2].in[0] = rdt_tensor_dense(&somewhere[1], s->dtype, 4, between);
  p[2].in[1] = x->v;
  p[2].out = rdt_tensor_dense(&somewhere[2], s->dtype, 4, mixed);
  p[3].in[0] = p[2].out;
  p[3].out = x->out;
  for (int d = 1; d < 3; d++) { /* heads behind words */
    const int from = 3 - d;
    p[3].in[0].shape[d] = p[2].out.shape[from], p[3].in[0].stride[d] = p[2].out.stride[from];
    p[3].out.shape[d] = x->out.shape[from], p[3].out.stride[d] = x->out.stride[from];
  }
  const rdt_attention_steps steps = {&p[0], &p[1], &p[2], &p[3]};
  gpu_must(rdt_attention_prepare(&steps, x->wide, &x->op, &why), "attention", &why);
  for (int i = 0; i < 4; i++) rdt_problem_clear(&p[i]);
  found *f = x->memory[3];
  x->op.sum = &f->sum, x->op.visits = &f->visits, x->op.verdict = &f->verdict;
  for (int i = 0; i < 3; i++) {
    int64_t stride[4];
    const int64_t from = s->packed ? 0 : begin(s, i, stride);
    x->op.read_base[i] = (char *)x->memory[0] + 2 * from;
    x->op.read[i] = &f->read[s->packed ? 0 : i];
  }
}

static found launch(const attention *x, rdt_op_form form) {
  rdt_gpu_attention a = x->op;
  void *arguments[] = {&a};
  unsigned shared;
  found f;
  a.check = form;
  dim3 block = {1, 1, 1};
  const dim3 grid = {(unsigned)rdt_attention_grid(&a), 1, 1};
  const void *kernel = rdt_ops_kernel(RDT_OP_ATTENTION, &a, &block.x, &shared);
  cuda(cudaMemset(x->memory[3], 0, sizeof f), "what is found");
  cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared), "shared memory");
  cuda(cudaLaunchKernel(kernel, grid, block, arguments, shared, NULL), "attention");
  cuda(cudaMemcpy(&f, x->memory[3], sizeof f, cudaMemcpyDeviceToHost), "attention");
  return f;
}

/* The largest error, in units of the datatype and of what a result's terms add up to. */
static double largest_error(const attention *x, const void *is) {
  const sizes *s = &x->s;
  const double unit = s->dtype == RDT_F16 ? 0x1p-11 : 0x1p-8;
  double *p = malloc((size_t)s->keys * sizeof *p), worst = 0.0;
  int64_t stride[4], from[3];
  for (int i = 0; i < 3; i++) from[i] = begin(s, i, stride);
  for (int64_t row = 0; row < s->batches * s->heads * s->queries; row++) {
    const int64_t q = row % s->queries, h = row / s->queries % s->heads, b = row / s->queries / s->heads;
    const int64_t head = b * stride[0] + h * stride[1];
    double most = -INFINITY, total = 0.0;
    for (int64_t k = 0; k < s->keys; k++) {
      double sum = 0.0;
      for (int64_t d = 0; d < s->depth; d++)
        sum += rdt_load(x->host, s->dtype, from[0] + head + q * stride[2] + d) *
               rdt_load(x->host, s->dtype, from[1] + head + k * stride[2] + d);
      const int64_t at = b * x->mask.stride[0] + h * x->mask.stride[1] + q * x->mask.stride[2] + k;
      p[k] = (float)(sum * (double)x->op.alpha + (s->mask ? rdt_load(x->host_mask, s->dtype, at) : 0.0));
      most = fmax(most, p[k]);
    }
    for (int64_t k = 0; k < s->keys; k++) total += p[k] = exp(p[k] - most);
    for (int64_t d = 0; d < s->depth; d++) {
      double y = 0.0, terms = 0.0;
      for (int64_t k = 0; k < s->keys; k++) {
        const double v = rdt_load(x->host, s->dtype, from[2] + head + k * stride[2] + d);
        y += p[k] * v, terms += p[k] * fabs(v);
      }
      const double was = rdt_load(is, s->dtype, ((b * s->queries + q) * s->heads + h) * s->depth + d);
      const double error = fabs(was - y / total) / (unit * terms / total + 1e-30);
      worst = isfinite(error) ? fmax(worst, error) : INFINITY;
    }
  }
  free(p);
  return worst;
}

static bool complain(const sizes *s, const char *what, double x) {
  printf("WRONG attention %lld x %lld x %lld x %lld x %lld %s, mask %d%s: %s %g\n", (long long)s->batches,
         (long long)s->heads, (long long)s->queries, (long long)s->keys, (long long)s->depth, rdt_dtype_name(s->dtype),
         (int)s->mask, s->packed ? ", packed" : "", what, x);
  return false;
}

/* Twice in one launch, each by itself, and with a bit that is wrong. */
static bool try_kernel(const sizes *s, int wide, uint64_t *seed) {
  attention x = {.s = *s, .wide = wide};
  make(&x, seed);
  prepare(&x);
  char *stored = malloc(2 * x.out_bytes), *once = stored + x.out_bytes;
  const uint64_t blocks = (uint64_t)rdt_attention_blocks(&x.op);
  bool good = true;
  found f = launch(&x, RDT_OP_STORES);
  cuda(cudaMemcpy(once, x.memory[2], x.out_bytes, cudaMemcpyDeviceToHost), "result");
  cuda(cudaMemset(x.memory[2], 0x7f, x.out_bytes), "poison");
  if (f.visits || f.sum) good = complain(s, "storing counts", (double)f.visits);
  f = launch(&x, RDT_OP_BOTH);
  cuda(cudaMemcpy(stored, x.memory[2], x.out_bytes, cudaMemcpyDeviceToHost), "result");
  const uint64_t sum = rdt_bitsum(stored, x.out_bytes);
  if (memcmp(once, stored, x.out_bytes) != 0) good = complain(s, "other bits the second time", 0.0);
  if (f.sum != sum || f.visits != blocks) good = complain(s, "the sum of the second evaluation", (double)f.visits);
  for (int i = 0; i < (s->packed ? 1 : 3) && s->queries == s->keys; i++) {
    const size_t bytes = s->packed ? x.qkv : x.qkv / 3;
    if (f.read[i] != rdt_bitsum((char *)x.host + (size_t)i * bytes, bytes)) good = complain(s, "the sum of operand", i);
  }
  const double error = largest_error(&x, stored);
  if (!(error < 2.5)) good = complain(s, "error in units", error);
  f = launch(&x, RDT_OP_COMPARES);
  if (f.sum != sum || f.visits != blocks || f.verdict.certain) good = complain(s, "comparing", f.verdict.certain);
  const size_t hit = (size_t)(*seed % x.out_bytes);
  stored[hit] ^= 4;
  cuda(cudaMemcpy(x.memory[2], stored, x.out_bytes, cudaMemcpyHostToDevice), "a fault");
  f = launch(&x, RDT_OP_COMPARES);
  if (f.verdict.certain != 1 || f.verdict.listed != 1 || f.verdict.list[0].row != (int32_t)(hit / 16 * 8))
    good = complain(s, "a wrong bit was not found, in pieces", f.verdict.certain);
  for (int i = 0; i < 4; i++) cudaFree(x.memory[i]);
  free(x.host), free(x.host_mask), free(stored);
  return good;
}

/* By each kernel that this device has for it. */
static bool try_one(const sizes *s, uint64_t *seed) {
  int major;
  cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "compute capability");
  const bool good = try_kernel(s, 0, seed);
  return (major != 9 || s->depth > RDT_ATTENTION_WIDE_DEPTH || try_kernel(s, 1, seed)) && good;
}

int64_t attention_cases(bool daily, int64_t *wrong) {
  static const int64_t lengths[] = {1, 7, 8, 9, 31, 33, 63, 64, 65, 127, 128, 129, 200};
  uint64_t seed = 17;
  int64_t n = 0;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (int t = 0; t < 2; t++, n++) {
      const sizes s = {2,
                       3,
                       lengths[i],
                       lengths[i],
                       i % 3 == 0 ? 32 : 64,
                       (mask_kind)((i + (size_t)t) % MASKS),
                       t ? RDT_BF16 : RDT_F16,
                       i % 2 == 0};
      *wrong += !try_one(&s, &seed);
    }
  for (int64_t depth = 16; depth <= RDT_ATTENTION_DEPTH; depth += 16)
    for (int t = 0; t < 2; t++, n++) {
      const sizes s = {1, 2, 100, 100, depth, (mask_kind)((depth / 16 + t) % MASKS), t ? RDT_BF16 : RDT_F16, t};
      *wrong += !try_one(&s, &seed);
    }
  const sizes others[] = {{2, 3, 70, 150, 64, ALL, RDT_F16, false},
                          {2, 3, 150, 70, 32, CAUSAL, RDT_BF16, true},
                          {2, 2, 5, 301, 128, KEYS, RDT_F16, false},
                          {1, daily ? 3 : 12, 512, 512, 64, KEYS, RDT_F16, false}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++, n++) *wrong += !try_one(&others[i], &seed);
  return n;
}
