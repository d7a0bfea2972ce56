/* make gpu-bench: products on the GPU, unprotected and protected, against cuBLAS and cuBLASLt.
 *     gpu_bench [RECORD.json]
 * Every contender is a graph of launches that walk through copies of the weights, 256 MB and more, so that none lies in
 * the L2; graphs of one product are replayed in turn, medians are told. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cublas.h"
#include "cuda/kernel.h"
#include "ops.h"

enum { TRIALS = 11, CONTENDERS = 300, WARM = 2 };
static const size_t COLD = (size_t)256 << 20;

typedef struct contender {
  char name[80];
  const char *scheme; /* NULL: a library */
  cudaGraphExec_t graph;
  rdt_cuda_gemm *gemm;
  int splits;
  double seconds[TRIALS], median; /* of one launch */
} contender;

typedef struct bench {
  int m, n, k, copies, launches;
  char *weights;
  void *a, *c;
  contender list[CONTENDERS];
  int count;
} bench;

static rdt_cuda_device device;
static cudaStream_t stream;
static cublas *library;

static void must(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "gpu-bench: %s: %s\n", what, cudaGetErrorString(e));
  exit(3);
}

static void fill(void *to, size_t elements, uint64_t seed) { /* fp16, uniform with variance 1 */
  uint16_t *x = malloc(elements * 2);
  rdt_reason why;
  if (!x) exit(2);
  for (size_t i = 0; i < elements; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x[i] = rdt_f32_to_f16(((float)(seed >> 40) * 0x1p-24f - 0.5f) * 3.4641f);
  }
  if (rdt_cuda_put(to, x, elements * 2, stream, &why) != RDT_OK) fprintf(stderr, "gpu-bench: %s\n", why.text), exit(3);
  must(cudaStreamSynchronize(stream), "fill");
  free(x);
}

typedef bool (*launch_fn)(bench *b, void *user, const void *weights);

/* Captures the launches of one contender; false: it refuses, and is not in the list. */
static bool add(bench *b, const char *name, const char *scheme, launch_fn fn, void *user) {
  contender *c = &b->list[b->count];
  cudaGraph_t graph;
  bool good = b->count < CONTENDERS && fn(b, user, b->weights);
  if (!good || cudaStreamSynchronize(stream) != cudaSuccess) return (void)cudaGetLastError(), false;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < b->launches; i++)
    good = fn(b, user, b->weights + (size_t)(i % b->copies) * (size_t)b->k * (size_t)b->n * 2) && good;
  must(cudaStreamEndCapture(stream, &graph), "capture");
  if (good) must(cudaGraphInstantiate(&c->graph, graph, 0), "graph");
  must(cudaGraphDestroy(graph), "graph");
  if (!good) return false;
  snprintf(c->name, sizeof c->name, "%s", name);
  c->scheme = scheme;
  c->gemm = NULL;
  b->count++;
  return true;
}

static rdt_operands operands(const bench *b, rdt_tensor in[2], const void *weights) {
  in[0] = rdt_tensor_dense(b->a, RDT_F16, 2, (int64_t[]){b->m, b->k});
  in[1] = rdt_tensor_dense((void *)weights, RDT_F16, 2, (int64_t[]){b->k, b->n});
  return (rdt_operands){.in = in, .n_in = 2, .out = rdt_tensor_dense(b->c, RDT_F16, 2, (int64_t[]){b->m, b->n})};
}

static bool launch_own(bench *b, void *user, const void *weights) {
  rdt_tensor in[2];
  const rdt_operands o = operands(b, in, weights);
  return rdt_cuda_gemm_run(user, &o, stream, NULL) == RDT_OK;
}

typedef struct lt_call {
  cublas_gemm gemm;
  int algorithm;
} lt_call;
static bool launch_ex(bench *b, void *user, const void *weights) {
  return cublas_ex(library, &((lt_call *)user)->gemm, b->a, weights, b->c, stream);
}
static bool launch_lt(bench *b, void *user, const void *weights) {
  return cublas_lt(library, ((lt_call *)user)->algorithm, b->a, weights, b->c, stream);
}

static void add_own(bench *b, const rdt_cuda_kernel *k, int splits) {
  rdt_problem p;
  rdt_reason why;
  rdt_cuda_gemm *g;
  char name[80];
  rdt_tensor in[2];
  if (rdt_problem_init(&p, RDT_KOP_GEMM, 2) != RDT_OK) exit(2);
  const rdt_operands o = operands(b, in, b->weights);
  p.in[0] = in[0], p.in[1] = in[1], p.out = o.out, p.acc = RDT_F32;
  if (rdt_cuda_gemm_create(k, &device, &p, 6.0, splits, stream, &g, &why) == RDT_OK) {
    snprintf(name, sizeof name, "%s/%d", k->tile->name, rdt_cuda_gemm_splits(g));
    for (int i = 0; i < b->count; i++) /* splits that come out the same */
      if (b->list[i].scheme == k->scheme && strcmp(b->list[i].name, name) == 0) goto done;
    if (add(b, name, k->scheme, launch_own, g)) {
      b->list[b->count - 1].gemm = g, b->list[b->count - 1].splits = rdt_cuda_gemm_splits(g);
      rdt_problem_clear(&p);
      return;
    }
  done:
    rdt_cuda_gemm_destroy(g);
  }
  rdt_problem_clear(&p);
}

static void add_libraries(bench *b) {
  for (int transposed = 0; library && transposed < 2; transposed++) {
    char name[80];
    lt_call call = {.gemm = {b->m, b->n, b->k, transposed != 0}};
    snprintf(name, sizeof name, "cublasGemmEx %s", transposed ? "B^T" : "B");
    add(b, name, NULL, launch_ex, &call);
    const int count = cublas_lt_prepare(library, &call.gemm);
    for (; call.algorithm < count; call.algorithm++) {
      snprintf(name, sizeof name, "cublasLt %s #%d", transposed ? "B^T" : "B", call.algorithm);
      add(b, name, NULL, launch_lt, &call);
    }
  }
}

static int order(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static void measure(bench *b) {
  cudaEvent_t start, stop;
  must(cudaEventCreate(&start), "event"), must(cudaEventCreate(&stop), "event");
  for (int t = -WARM; t < TRIALS; t++)
    for (int i = 0; i < b->count; i++) {
      contender *c = &b->list[(i + t + WARM) % b->count];
      float ms;
      must(cudaEventRecord(start, stream), "event");
      must(cudaGraphLaunch(c->graph, stream), "graph");
      must(cudaEventRecord(stop, stream), "event");
      must(cudaEventSynchronize(stop), c->name);
      must(cudaEventElapsedTime(&ms, start, stop), "event");
      if (t >= 0) c->seconds[t] = 1e-3 * (double)ms / b->launches;
    }
  for (int i = 0; i < b->count; i++) {
    qsort(b->list[i].seconds, TRIALS, sizeof(double), order);
    b->list[i].median = b->list[i].seconds[TRIALS / 2];
  }
  must(cudaEventDestroy(start), "event"), must(cudaEventDestroy(stop), "event");
}

static const contender *best(const bench *b, const char *scheme) {
  const contender *x = NULL;
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    const bool same = scheme ? c->scheme && strcmp(c->scheme, scheme) == 0 : !c->scheme;
    if (same && (!x || c->median < x->median)) x = c;
  }
  return x;
}

/* Whoever complained although nothing was wrong has no place in a table. */
static int complaints(bench *b) {
  int n = 0;
  for (int i = 0; i < b->count; i++) {
    rdt_cuda_verdict v;
    rdt_reason why;
    if (!b->list[i].gemm) continue;
    if (rdt_cuda_gemm_verdict(b->list[i].gemm, stream, &v, &why) != RDT_OK) fprintf(stderr, "%s\n", why.text), exit(3);
    n += v.suspect + v.certain + v.cannot > 0;
  }
  return n;
}

static const char *const schemes[] = {"none",      "thread1",    "thread1a", "col",   "thread2",
                                      "replicate", "replicate1", "row",      "global"};
enum { SCHEMES = sizeof schemes / sizeof *schemes, THREAD_FIRST = 1, THREAD_LAST = 6 };

static void record(FILE *f, const bench *b, bool first) {
  fprintf(f, "%s\n  {\"m\": %d, \"n\": %d, \"k\": %d, \"contenders\": [", first ? "" : ",", b->m, b->n, b->k);
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    fprintf(f, "%s\n   {\"name\": \"%s\", \"scheme\": %s%s%s, \"us\": %.3f, \"us_low\": %.3f, \"us_high\": %.3f}",
            i ? "," : "", c->name, c->scheme ? "\"" : "", c->scheme ? c->scheme : "null", c->scheme ? "\"" : "",
            1e6 * c->median, 1e6 * c->seconds[TRIALS / 10], 1e6 * c->seconds[TRIALS - 1 - TRIALS / 10]);
  }
  fprintf(f, "]}");
}

static void print_row(const bench *b, double ratios[3]) {
  const contender *none = best(b, "none"), *lib = best(b, NULL), *t = NULL;
  printf("%5d %5d %5d", b->m, b->n, b->k);
  for (int i = 0; i < SCHEMES; i++) {
    const contender *c = best(b, schemes[i]);
    if (c)
      printf(" | %8.2f %-9s", 1e6 * c->median, c->name);
    else
      printf(" | %8s %-9s", "-", "");
    if (c && i >= THREAD_FIRST && i <= THREAD_LAST && (!t || c->median < t->median)) t = c;
  }
  fflush(stdout);
  printf(" | %8.2f %s\n", lib ? 1e6 * lib->median : NAN, lib ? lib->name : "no library");
  ratios[0] = t && none ? t->median / none->median : NAN;
  ratios[1] = t && lib ? t->median / lib->median : NAN;
  ratios[2] = none && lib ? none->median / lib->median : NAN;
}

/* One product, all contenders. */
static int bench_one(int m, int n, int k, const int *splits, FILE *f, bool first, double ratios[3]) {
  static bench b;
  int kernels;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&kernels);
  rdt_reason why;
  b = (bench){.m = m, .n = n, .k = k};
  const size_t bytes = (size_t)n * (size_t)k * 2;
  b.copies = (int)((COLD + bytes - 1) / bytes);
  if (b.copies > 1024) b.copies = 1024;
  b.launches = b.copies < 24 ? 24 / b.copies * b.copies : b.copies > 64 ? 64 : b.copies;
  void *weights;
  if (rdt_cuda_alloc(bytes * (size_t)b.copies, &weights, &why) != RDT_OK ||
      rdt_cuda_alloc((size_t)m * (size_t)k * 2, &b.a, &why) != RDT_OK ||
      rdt_cuda_alloc((size_t)m * (size_t)n * 2, &b.c, &why) != RDT_OK)
    return fprintf(stderr, "gpu-bench: %s\n", why.text), 2;
  b.weights = weights;
  fill(b.weights, bytes / 2, 1), fill(b.a, (size_t)m * (size_t)k, 2);
  for (int i = 1; i < b.copies; i++)
    must(cudaMemcpyAsync(b.weights + (size_t)i * bytes, b.weights, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  for (int i = 0; i < kernels; i++) {
    const rdt_cuda_tile *t = table[i].tile;
    if (table[i].dtype != RDT_F16 || t->rows >= 4 * m + 64 || m > 32 * t->rows) continue; /* out of proportion */
    for (const int *s = splits; *s >= 0; s++) add_own(&b, &table[i], *s);
  }
  add_libraries(&b);
  measure(&b);
  print_row(&b, ratios);
  const int bad = complaints(&b);
  if (bad) printf("      %d contenders complained although nothing was wrong\n", bad);
  if (f) record(f, &b, first);
  for (int i = 0; i < b.count; i++)
    must(cudaGraphExecDestroy(b.list[i].graph), "graph"), rdt_cuda_gemm_destroy(b.list[i].gemm);
  rdt_cuda_free(weights), rdt_cuda_free(b.a), rdt_cuda_free(b.c);
  return bad ? 1 : 0;
}

static void heading(const char *what) {
  printf("\n%s, us a launch, best tile/splits\n    m     n     k", what);
  for (int i = 0; i < SCHEMES; i++) printf(" | %-18s", schemes[i]);
  printf(" | best library\n");
}

int main(int argc, char **argv) {
  static const int rows[] = {1, 8, 16, 32}, sizes[] = {4096, 1024}, split[] = {0, 1, 2, 3, 4, 6, 8, 16, -1},
                   automatic[] = {0, 1, -1};
  static const int squares[] = {32, 64, 128, 256, 512, 1024, 2048};
  rdt_reason why;
  char no_library[256];
  if (rdt_cuda_count(&why) == 0) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  if (rdt_cuda_open(0, &device, &why) != RDT_OK) return fprintf(stderr, "gpu-bench: %s\n", why.text), 3;
  must(cudaStreamCreate(&stream), "stream");
  library = cublas_open(no_library, sizeof no_library);
  printf("%s, compute capability %d.%d, driver %d; cuBLAS %s\n", device.name, device.major, device.minor, device.driver,
         library ? cublas_version(library) : no_library);
  FILE *f = argc > 1 ? fopen(argv[1], "w") : NULL;
  char date[16];
  const time_t now = time(NULL);
  struct tm utc;
  strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &utc));
  if (f)
    fprintf(f,
            "{\"schema\": \"redoubt.bench-gpu/1\", \"commit\": \"%s\", \"date\": \"%s\", \"device\": \"%s\", "
            "\"cublas\": \"%s\", \"products\": [",
            rdt_bench_commit(), date, device.name, library ? cublas_version(library) : "none");
  int code = 0;
  double ratios[3], logs[3] = {0.0, 0.0, 0.0};
  heading("Few rows, cold weights, fp16");
  for (int s = 0; s < 2; s++)
    for (int r = 0; r < 4; r++) {
      code |= bench_one(rows[r], sizes[s], sizes[s], split, f, s + r == 0, ratios);
      for (int i = 0; i < 3; i++) logs[i] += log(ratios[i]) / 8.0;
    }
  printf(
      "geometric means: thread-level / own unprotected %.3f; thread-level / best library %.3f; own unprotected / best "
      "library %.3f\n",
      exp(logs[0]), exp(logs[1]), exp(logs[2]));
  heading("Squares, fp16");
  for (int i = 0; i < 7; i++) code |= bench_one(squares[i], squares[i], squares[i], automatic, f, false, ratios);
  if (f) fprintf(f, "]}\n"), fclose(f);
  return code;
}
