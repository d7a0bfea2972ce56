/* Ops that are no products, on a GPU: random ones and those of networks against the CPU's reference, in each form of a
 * launch; the sum of the result; an element that is wrong.
 *     gpu_ops [--quick [PART]]      PART: bytes, attention, shaped, quantised, tables or random alone
 *     gpu_ops time                  how long those of networks take */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../util_problem.h"
#include "attention.h"
#include "check/bitsum.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "cuda/ops/ops.h"
#include "gpu.h"
#include "plan/plan.h"
#include "plan/timing.h"

static void cuda(cudaError_t e, const char *what) {
  if (e != cudaSuccess) gpu_die(what, cudaGetErrorString(e));
}

/* ---- a problem on the device ---- */

typedef struct placed {
  rdt_problem p; /* with the device's addresses */
  rdt_tensor in[UTIL_MAX_IN];
  void *memory;
  struct found { /* on the device */
    uint64_t sum, visits;
    rdt_cuda_verdict verdict;
  } * found;
} placed;

/* What a view reaches, from its lowest element on. */
static char *reach(const rdt_tensor *t, size_t *bytes) {
  int64_t low = 0, high = 0;
  for (int d = 0; d < t->rank; d++) *(t->stride[d] < 0 ? &low : &high) += (t->shape[d] - 1) * t->stride[d];
  const int64_t size = (int64_t)rdt_dtype_size(t->dtype);
  *bytes = rdt_tensor_count(t) > 0 ? (size_t)((high - low + 1) * size) : 0;
  return (char *)t->data + low * size;
}

static void place(placed *d, const rdt_problem *p) {
  rdt_tensor *const views[] = {&d->p.out,
                               &d->p.epilogue.bias,
                               &d->p.epilogue.factor,
                               &d->in[0],
                               &d->in[1],
                               &d->in[2],
                               &d->in[3],
                               &d->in[4],
                               &d->in[5],
                               &d->in[6],
                               &d->in[7]};
  const int n = 3 + p->n_in;
  size_t total = sizeof *d->found + 256, bytes;
  d->p = *p;
  memcpy(d->in, p->in, (size_t)p->n_in * sizeof *d->in);
  d->p.in = d->in;
  for (int i = 0; i < n; i++)
    if (views[i]->rank >= 0) reach(views[i], &bytes), total += bytes + 512;
  cuda(cudaMalloc(&d->memory, total), "memory of an op");
  d->found = d->memory;
  char *at = (char *)d->memory + (sizeof *d->found + 255) / 256 * 256;
  for (int i = 0; i < n; i++) {
    rdt_tensor *t = views[i];
    if (t->rank < 0) continue;
    char *from = reach(t, &bytes), *to = at + (uintptr_t)from % 16;
    cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "operand");
    t->data = to + ((char *)t->data - from);
    at += (bytes + 511) / 256 * 256;
  }
}

static void launch(const rdt_gpu_op *list, int n, rdt_op_form form, const placed *d, cudaStream_t stream) {
  for (int i = 0; i < n; i++) {
    rdt_gpu_op a = list[i];
    void *arguments[] = {&a};
    dim3 block = {1, 1, 1};
    a.check = form, a.sum = &d->found->sum, a.visits = &d->found->visits, a.verdict = &d->found->verdict;
    const dim3 grid = {(unsigned)rdt_ops_grid(&a), 1, 1};
    unsigned shared;
    const void *kernel = rdt_ops_kernel(a.kind, &a, &block.x, &shared);
    cuda(cudaLaunchKernel(kernel, grid, block, arguments, shared, stream), rdt_ops_name(a.kind));
  }
}

/* ---- against the CPU ---- */

static void reference(const rdt_problem *p) {
  const rdt_kernel *k = rdt_cpu_reference(p);
  const rdt_operands o = {.in = p->in, .n_in = p->n_in, .out = p->out, .epilogue = &p->epilogue};
  rdt_reason why;
  void *state;
  gpu_must(k->create(p, 1, &state, &why), "reference", &why);
  gpu_must(k->run(state, &o, &why), "reference", &why);
  k->destroy(state);
}

static bool exact(rdt_kop op) {
  return op == RDT_KOP_MAP || op == RDT_KOP_COPY || op == RDT_KOP_CONCAT || op == RDT_KOP_MAXPOOL ||
         rdt_kop_moves(op) || op == RDT_KOP_QUANTIZE || op == RDT_KOP_RESIZE || op == RDT_KOP_CUMSUM ||
         op == RDT_KOP_TOPK || rdt_kop_is_linear(op);
}

static int64_t wrong(const rdt_problem *p, const void *is, const void *expected, double *worst) {
  const rdt_dtype t = p->out.dtype;
  const double u = rdt_dtype_info(t)->u;
  int64_t count = 0;
  for (int64_t i = 0; i < rdt_tensor_count(&p->out); i++) {
    const size_t size = rdt_dtype_size(t);
    if (memcmp((const char *)is + (size_t)i * size, (const char *)expected + (size_t)i * size, size) == 0) continue;
    const double x = rdt_load(is, t, i), y = rdt_load(expected, t, i);
    if (isnan(x) && isnan(y)) continue;
    if (!exact(p->op) && fabs(x - y) <= 64.0 * 0x1p-24 * fmax(1.0, fabs(y)) + 2.0 * u * fabs(y)) continue;
    *worst = fmax(*worst, fabs(x - y));
    count++;
  }
  return count;
}

typedef struct tally {
  int64_t cases, refused, bad;
  int64_t kinds[RDT_OP_CODES];
} tally;

static void complain(tally *t, const rdt_problem *p, int kind, const char *what, double x) {
  t->bad++;
  printf("WRONG %s %s (%s): %s %g\n", rdt_problem_name(p), rdt_dtype_name(p->out.dtype), rdt_ops_name(kind), what, x);
}

static void try_case(const rdt_problem *p, uint64_t seed, tally *t) {
  static const rdt_op_form forms[] = {RDT_OP_STORES, RDT_OP_BOTH, RDT_OP_COMPARES};
  const size_t bytes = rdt_tensor_bytes(&p->out);
  placed d;
  rdt_gpu_op *list = NULL;
  rdt_reason why;
  int n, kind = 0;
  place(&d, p);
  const rdt_status status = rdt_ops_prepare(&d.p, &list, &n, &why);
  if (status != RDT_OK) {
    t->refused++;
    cudaFree(d.memory);
    return;
  }
  char *expected = malloc(bytes + 1), *is = malloc(bytes + 1);
  int64_t visits = 0;
  for (int i = 0; i < n; i++) visits += rdt_ops_blocks(&list[i]), kind = list[i].kind, t->kinds[list[i].kind]++;
  reference(p);
  memcpy(expected, p->out.data, bytes);
  for (int f = 0; f < 4 && bytes > 0; f++) {
    struct found found;
    double worst = 0.0;
    const bool planted = f == 3;
    cuda(cudaMemset(d.found, 0, sizeof found), "clear");
    if (f < 2) cuda(cudaMemset(d.p.out.data, 0xff, bytes), "poison");
    if (planted) {
      is[seed % bytes] ^= 0x10;
      cuda(cudaMemcpy((char *)d.p.out.data + seed % bytes, is + seed % bytes, 1, cudaMemcpyHostToDevice), "fault");
    }
    launch(list, n, forms[planted ? 2 : f], &d, NULL);
    cuda(cudaMemcpy(&found, d.found, sizeof found, cudaMemcpyDeviceToHost), "what was found");
    cuda(cudaMemcpy(is, d.p.out.data, bytes, cudaMemcpyDeviceToHost), "result");
    const int64_t others = planted ? 0 : wrong(p, is, expected, &worst);
    if (others) complain(t, p, kind, "elements are other ones, by up to", worst);
    if (f > 0 && found.sum != rdt_bitsum(is, bytes)) complain(t, p, kind, "the sum is another one in form", f);
    if (f > 0 && (int64_t)found.visits != visits) complain(t, p, kind, "visits", (double)found.visits);
    if (found.verdict.certain + found.verdict.cannot != planted) complain(t, p, kind, "complaints in form", f);
  }
  t->cases++;
  free(expected);
  free(is);
  rdt_free(list);
  cudaFree(d.memory);
}

static void bytes_cases(tally *t, uint64_t seeds) {
  for (uint64_t seed = 0; seed < 4 * seeds; seed++) {
    util_case c;
    util_random r = {seed};
    util_case_make_bytes(&c, &r);
    try_case(&c.p, seed, t);
    util_case_free(&c);
  }
}

static void random_cases(tally *t, uint64_t seeds) {
  static const rdt_kop ops[] = {RDT_KOP_MAP,     RDT_KOP_COPY,    RDT_KOP_CONCAT,    RDT_KOP_MAXPOOL,
                                RDT_KOP_AVGPOOL, RDT_KOP_SOFTMAX, RDT_KOP_BATCHNORM, RDT_KOP_NORM,
                                RDT_KOP_REDUCE,  RDT_KOP_GATHER,  RDT_KOP_PAD,       RDT_KOP_TRIANGLE,
                                RDT_KOP_SCATTER, RDT_KOP_RESIZE,  RDT_KOP_CUMSUM,    RDT_KOP_TOPK};
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F16, RDT_BF16, RDT_F64, RDT_S64, RDT_S32, RDT_U8, RDT_BOOL};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
      for (uint64_t seed = 0; seed < seeds; seed++) {
        util_case c = {0};
        util_random r = {seed * 1000 + k};
        rdt_reason why;
        util_case_make(&c, &r, ops[i], dtypes[k], dtypes[k], dtypes[k], seed % 2);
        if (rdt_problem_check(&c.p, &why) == RDT_OK && rdt_cpu_reference(&c.p)->accept(&c.p, &why) == RDT_OK)
          try_case(&c.p, seed, t);
        util_case_free(&c);
      }
}

static void quantising(tally *t) {
  for (int i = 0; i < UTIL_QUANTISING; i++) {
    util_case c;
    rdt_reason why;
    util_case_make_quantising(&c, i, 1025, 0.0546875);
    gpu_must(rdt_problem_check(&c.p, &why), "quantising", &why);
    try_case(&c.p, (uint64_t)i, t);
    util_case_free(&c);
  }
}

/* Rows of a table, and a row that has changed since its sum was formed: who reads it says so, in both forms at once. */
static void table_cases(tally *t) {
  enum { ROWS = 37, WIDTH = 48, READ = 35 };
  static const rdt_dtype dtypes[] = {RDT_F16, RDT_F32, RDT_S64};
  static const int64_t shape[] = {ROWS, WIDTH}, read[] = {5, 7, WIDTH};
  int64_t index[READ];
  int times = 0;
  for (int i = 0; i < READ; i++)
    index[i] = i * 11 % 20 - (i % 3 == 0 ? ROWS : 0), times += (index[i] + ROWS) % ROWS == 11;
  for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
    const size_t bytes = WIDTH * rdt_dtype_size(dtypes[k]);
    uint64_t sums[ROWS], *rows;
    rdt_problem p;
    rdt_reason why;
    rdt_gpu_op *list;
    struct found found;
    placed d;
    int n;
    gpu_must(rdt_problem_init(&p, RDT_KOP_GATHER, 2), "problem", &(rdt_reason){"no memory"});
    for (int i = 0; i < 2 * RDT_MAX_RANK; i++) p.ints[i] = -1;
    p.ints[0] = 0, p.ints[RDT_MAX_RANK + 2] = 1;
    p.in[0] = rdt_tensor_dense(aligned_alloc(256, ROWS * WIDTH * 8), dtypes[k], 2, shape);
    p.in[1] = rdt_tensor_dense(index, RDT_S64, 3, read);
    p.in[1].stride[0] = 7, p.in[1].stride[1] = 1, p.in[1].stride[2] = 0;
    p.out = rdt_tensor_dense(aligned_alloc(256, READ * WIDTH * 8), dtypes[k], 3, read);
    for (int i = 0; i < ROWS * WIDTH; i++) rdt_store(p.in[0].data, dtypes[k], i, (double)(i * 7 % 2003 - 1000));
    gpu_must(rdt_problem_check(&p, &why), "a table", &why);
    try_case(&p, k, t);
    place(&d, &p);
    gpu_must(rdt_ops_prepare(&d.p, &list, &n, &why), "a table", &why);
    for (size_t i = 0; i < ROWS; i++) sums[i] = rdt_bitsum_part(p.in[0].data, i * bytes, bytes);
    cuda(cudaMalloc((void **)&rows, sizeof sums), "sums of rows");
    cuda(cudaMemcpy(rows, sums, sizeof sums, cudaMemcpyHostToDevice), "sums of rows");
    list->rows = rows;
    for (int changed = 0; changed < 2; changed++) {
      if (changed) cuda(cudaMemset((char *)d.p.in[0].data + 11 * bytes + 9, 0x5b, 1), "a fault");
      cuda(cudaMemset(d.found, 0, sizeof found), "clear");
      launch(list, n, RDT_OP_BOTH, &d, NULL);
      cuda(cudaMemcpy(&found, d.found, sizeof found, cudaMemcpyDeviceToHost), "what was found");
      if (found.verdict.certain != (uint32_t)(changed ? times : 0) || times == 0)
        complain(t, &p, list->kind, changed ? "a changed row is read so often" : "rows complain",
                 found.verdict.certain);
    }
    cudaFree(rows), cudaFree(d.memory);
    rdt_free(list);
    free(p.in[0].data), free(p.out.data);
    p.in[1].data = NULL;
    rdt_problem_clear(&p);
  }
}

/* ---- those of networks ---- */

typedef struct shaped {
  const char *name;
  rdt_kop op;
  rdt_fn fn;
  int rank;
  int64_t shape[4]; /* of the input */
  int kernel, stride, before;
  char from[5], to[5]; /* the order in memory: "nhwc" */
} shaped;

static const shaped list_of[] = {
    {"image b8", RDT_KOP_COPY, 0, 4, {8, 3, 224, 224}, 0, 0, 0, "nchw", "nhwc"},
    {"image b1", RDT_KOP_COPY, 0, 4, {1, 3, 224, 224}, 0, 0, 0, "nchw", "nhwc"},
    {"to channels last", RDT_KOP_COPY, 0, 4, {8, 256, 56, 56}, 0, 0, 0, "nchw", "nhwc"},
    {"to channels first", RDT_KOP_COPY, 0, 4, {8, 256, 56, 56}, 0, 0, 0, "nhwc", "nchw"},
    {"keys turned", RDT_KOP_COPY, 0, 4, {1, 12, 64, 512}, 0, 0, 0, "nwch", "nchw"},
    {"odd channels", RDT_KOP_COPY, 0, 4, {3, 13, 20, 24}, 0, 0, 0, "nchw", "nhwc"},
    {"odd pixels", RDT_KOP_COPY, 0, 4, {2, 96, 7, 7}, 0, 0, 0, "nchw", "nhwc"},
    {"heads", RDT_KOP_COPY, 0, 4, {1, 12, 512, 64}, 0, 0, 0, "nhcw", "nchw"},
    {"maxpool b8", RDT_KOP_MAXPOOL, 0, 4, {8, 64, 112, 112}, 3, 2, 1, "nhwc", "nhwc"},
    {"maxpool b1", RDT_KOP_MAXPOOL, 0, 4, {1, 64, 112, 112}, 3, 2, 1, "nhwc", "nhwc"},
    {"maxpool 2x2", RDT_KOP_MAXPOOL, 0, 4, {8, 128, 112, 112}, 2, 2, 0, "nhwc", "nhwc"},
    {"maxpool odd", RDT_KOP_MAXPOOL, 0, 4, {3, 24, 33, 29}, 3, 2, 0, "nhwc", "nhwc"},
    {"mean b8", RDT_KOP_AVGPOOL, 0, 4, {8, 2048, 7, 7}, 7, 1, 0, "nhwc", "nhwc"},
    {"mean b1", RDT_KOP_AVGPOOL, 0, 4, {1, 2048, 7, 7}, 7, 1, 0, "nhwc", "nhwc"},
    {"mean odd", RDT_KOP_AVGPOOL, 0, 4, {2, 72, 13, 11}, 5, 2, 1, "nhwc", "nhwc"},
    {"scores", RDT_KOP_SOFTMAX, RDT_FN_NONE, 4, {2, 12, 96, 128}, 0, 0, 0, "nchw", "nchw"},
    {"scores logarithm", RDT_KOP_SOFTMAX, RDT_FN_LOGSOFTMAX, 4, {1, 3, 17, 512}, 0, 0, 0, "nchw", "nchw"},
};
enum { SHAPED = sizeof list_of / sizeof *list_of };

static rdt_tensor ordered(void *data, rdt_dtype t, const int64_t *shape, const char *order) {
  rdt_tensor v = rdt_tensor_dense(data, t, 4, shape);
  int64_t step = 1;
  for (int i = 3; i >= 0; i--) {
    const int d = (int)(strchr("nchw", order[i]) - "nchw");
    v.stride[d] = step, step *= shape[d];
  }
  return v;
}

/* odd: signs of zero, and what is no number; else as behind a Relu. */
static void make_shaped(const shaped *s, rdt_dtype t, bool odd, rdt_problem *p, uint64_t *seed) {
  int64_t shape[4];
  memcpy(shape, s->shape, sizeof shape);
  gpu_must(rdt_problem_init(p, s->op, 1), "problem", &(rdt_reason){"no memory"});
  p->fn = s->fn;
  if (s->op == RDT_KOP_SOFTMAX) p->axis = 3;
  const int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
  p->in[0] = ordered(aligned_alloc(256, (size_t)n * 8), t, shape, s->from);
  for (int64_t i = 0; i < n; i++) {
    const double x = rint(16.0 * gpu_normal(seed)) / 16.0, special = i % 5 ? -0.0 : i % 2 ? NAN : -INFINITY;
    rdt_store(p->in[0].data, t, i, !odd ? fmax(x, 0.0) : i % 97 == 0 && s->op == RDT_KOP_MAXPOOL ? special : x);
  }
  if (s->kernel) {
    rdt_window *w = &p->window;
    for (int i = 0; i < 2; i++) {
      w->kernel[i] = s->kernel, w->stride[i] = s->stride, w->dilation[i] = 1, w->before[i] = w->after[i] = s->before;
      shape[2 + i] = (shape[2 + i] + 2 * s->before - s->kernel) / s->stride + 1;
    }
  }
  p->out = ordered(aligned_alloc(256, (size_t)n * 8), t, shape, s->to);
  rdt_reason why;
  gpu_must(rdt_problem_check(p, &why), s->name, &why);
}

static void free_shaped(rdt_problem *p) {
  free(p->in[0].data);
  free(p->out.data);
  rdt_problem_clear(p);
}

static void shaped_cases(tally *t) {
  static const rdt_dtype dtypes[] = {RDT_F32, RDT_F16, RDT_BF16, RDT_F64, RDT_S8};
  uint64_t seed = 7;
  for (int i = 0; i < SHAPED; i++)
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
      rdt_problem p;
      rdt_reason why;
      if (dtypes[k] == RDT_S8 && list_of[i].op == RDT_KOP_AVGPOOL) continue;
      make_shaped(&list_of[i], dtypes[k], k % 2 == 0, &p, &seed);
      if (rdt_cpu_reference(&p)->accept(&p, &why) == RDT_OK) try_case(&p, gpu_random(&seed), t);
      free_shaped(&p);
    }
}

/* ---- times ---- */

enum { LAUNCHES = 24, TRIALS = 15 };

/* Microseconds of a launch, of a graph of many; empty: of a launch that does nothing. */
static double seconds_of(const rdt_gpu_op *ops, int n, rdt_op_form form, const placed *d, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaEvent_t from, to;
  double took[TRIALS];
  cuda(cudaEventCreate(&from), "event");
  cuda(cudaEventCreate(&to), "event");
  cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < LAUNCHES; i++) launch(ops, n, form, d, stream);
  cuda(cudaStreamEndCapture(stream, &graph), "capture");
  cuda(cudaGraphInstantiate(&exec, graph, 0), "graph");
  for (int i = -3; i < TRIALS; i++) {
    float ms;
    cuda(cudaEventRecord(from, stream), "event");
    cuda(cudaGraphLaunch(exec, stream), "graph");
    cuda(cudaEventRecord(to, stream), "event");
    cuda(cudaEventSynchronize(to), "event");
    cuda(cudaEventElapsedTime(&ms, from, to), "event");
    if (i >= 0) took[i] = 1e3 * (double)ms / LAUNCHES;
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  return rdt_timing_median(took, TRIALS);
}

/* Layers of a quantised ResNet-50: pixels, channels of the sum, filters, side of the window, u8 by s8, requantised. */
static void times_of_bytes(cudaStream_t stream) {
  static const int64_t layers[][5] = {
      /* images, side, channels, filters, kernel */
      {8, 224, 3, 64, 7},    {8, 56, 64, 64, 3},  {8, 56, 64, 256, 1},  {8, 28, 512, 128, 1}, {8, 14, 256, 256, 3},
      {8, 14, 1024, 256, 1}, {8, 7, 512, 512, 3}, {8, 7, 512, 2048, 1}, {1, 14, 256, 256, 3}, {1, 7, 2048, 512, 1}};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    const int64_t *l = layers[i], pad = l[4] / 2, step = l[4] == 7 ? 2 : 1, side = (l[1] + 2 * pad - l[4]) / step + 1;
    util_case c = {0};
    util_random r = {i};
    placed d;
    rdt_gpu_op *ops;
    rdt_reason why;
    int n;
    c.p = (rdt_problem){.op = RDT_KOP_CONV, .n_in = 2, .in = c.in, .acc = RDT_S32, .epilogue = RDT_EPILOGUE_NONE};
    rdt_window *w = &c.p.window;
    w->groups = 1;
    for (int s = 0; s < 2; s++)
      w->kernel[s] = l[4], w->stride[s] = step, w->dilation[s] = 1, w->before[s] = w->after[s] = pad;
    const int64_t one = 1;
    c.in[0] = util_view(&c, &r, RDT_U8, 4, (const int64_t[]){l[0], l[2], l[1], l[1]}, UTIL_CHANNELS_LAST);
    c.in[1] = util_view(&c, &r, RDT_S8, 4, (const int64_t[]){l[3], l[2], l[4], l[4]}, UTIL_DENSE);
    c.p.out = util_view(&c, &r, RDT_U8, 4, (const int64_t[]){l[0], l[3], side, side}, UTIL_CHANNELS_LAST);
    c.p.epilogue.factor = util_view(&c, &r, RDT_F32, 1, &one, UTIL_DENSE);
    c.p.epilogue.factor.shape[0] = l[3], c.p.epilogue.factor.stride[0] = 0;
    place(&d, &c.p);
    gpu_must(rdt_ops_prepare(&d.p, &ops, &n, &why), "bytes", &why);
    printf("%dx%dx%dx%d to %d, %d x %d: ", (int)l[0], (int)l[2], (int)l[1], (int)l[1], (int)l[3], (int)l[4], (int)l[4]);
    for (int f = 0; f < 2; f++) {
      cuda(cudaMemset(d.found, 0, sizeof *d.found), "clear");
      const double us = seconds_of(ops, n, f ? RDT_OP_BOTH : RDT_OP_STORES, &d, stream);
      printf(" %9.2f us %6.1f TOPS", us, 2e-6 * (double)(l[0] * side * side * l[3] * l[2] * l[4] * l[4]) / us);
    }
    printf("\n");
    rdt_free(ops);
    cudaFree(d.memory);
    util_case_free(&c);
  }
}

static void times(void) {
  cudaStream_t stream;
  uint64_t seed = 3;
  cuda(cudaStreamCreate(&stream), "stream");
  printf("%-20s %-5s %-22s %9s %9s %9s  (us)\n", "op", "type", "kernel", "stores", "both", "compares");
  for (int i = 0; i < SHAPED; i++) {
    rdt_problem p;
    placed d;
    rdt_gpu_op *ops;
    rdt_reason why;
    int n;
    make_shaped(&list_of[i], RDT_F16, false, &p, &seed);
    place(&d, &p);
    gpu_must(rdt_ops_prepare(&d.p, &ops, &n, &why), list_of[i].name, &why);
    printf("%-20s %-5s %-22s", list_of[i].name, "f16", rdt_ops_name(ops->kind));
    for (int f = 0; f < 3; f++) {
      static const rdt_op_form forms[] = {RDT_OP_STORES, RDT_OP_BOTH, RDT_OP_COMPARES};
      cuda(cudaMemset(d.found, 0, sizeof *d.found), "clear");
      printf(" %9.2f", seconds_of(ops, n, forms[f], &d, stream));
    }
    printf("\n");
    rdt_free(ops);
    cudaFree(d.memory);
    free_shaped(&p);
  }
  times_of_bytes(stream);
}

static bool is_wanted(const char *only, const char *part) {
  return !only || strcmp(only, part) == 0;
}

int main(int argc, char **argv) {
  rdt_reason why = {""};
  if (rdt_cuda_count(&why) == 0) {
    printf("skip gpu_ops: %s\n", why.text);
    return 77;
  }
  if (argc > 1 && strcmp(argv[1], "time") == 0) {
    times();
    return 0;
  }
  enum { FEW = 2, MANY = 40 };
  static tally t;
  const uint64_t seeds = argc > 1 && strcmp(argv[1], "--quick") == 0 ? FEW : MANY;
  const char *only = argc > 2 ? argv[2] : NULL;
  if (is_wanted(only, "bytes")) bytes_cases(&t, seeds);
  printf("products and convolutions of bytes: %lld, %lld wrong\n", (long long)t.cases, (long long)t.bad);
  fflush(stdout);
  if (is_wanted(only, "attention")) t.cases += attention_cases(gpu_daily(seeds == FEW), &t.bad);
  if (is_wanted(only, "shaped")) shaped_cases(&t);
  if (is_wanted(only, "quantised")) quantising(&t);
  if (is_wanted(only, "tables")) table_cases(&t);
  if (is_wanted(only, "random")) random_cases(&t, seeds);
  for (int k = 0; k < RDT_OP_KINDS; k++)
    if (t.kinds[k] == 0 && seeds == MANY) t.bad++, printf("WRONG: no case of kind %d %s\n", k, rdt_ops_name(k));
  printf("gpu_ops: %lld ops, %lld refused, %lld wrong\n", (long long)t.cases, (long long)t.refused, (long long)t.bad);
  return t.bad > 0;
}
