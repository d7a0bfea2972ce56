/* make gpu-bench: products on the GPU, unprotected and protected, against cuBLAS and cuBLASLt.
 *     gpu_bench [RECORD.json|- [GROUP]]      GROUP: skinny, squares or types alone
 * Every contender is a graph of launches that walk through copies of the weights, 256 MB and more, so that none lies in
 * the L2; graphs of one product are replayed in turn, medians are told. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublas.h"
#include "cuda/kernel.h"
#include "turns.h"

enum { TRIALS = 11, CONTENDERS = 300, WARM = 2 };
static const size_t COLD = (size_t)256 << 20;

typedef struct contender {
  char name[80];
  const char *scheme; /* NULL: a library */
  turns turns;
  rdt_cuda_gemm *gemm;
  void *from; /* chained: A, what global-classic has stored */
  int splits;
  rdt_cuda_family family;
  double median; /* of one launch */
} contender;

typedef struct bench {
  int m, n, k, copies, launches;
  char *weights;
  void *a, *c;
  rdt_dtype type, out;
  size_t size; /* bytes of an element */
  contender list[CONTENDERS];
  int count;
} bench;

static rdt_cuda_device device;
static cudaStream_t stream;
static cublas *library;

typedef bool (*launch_fn)(bench *b, void *user, const void *weights);

typedef struct call {
  bench *b;
  launch_fn fn;
  void *user;
} call;
static bool launch_one(void *user, int i, cudaStream_t on) {
  const call *c = user;
  const bench *b = c->b;
  (void)on; /* it is the one of all */
  return c->fn(c->b, c->user, b->weights + (size_t)(i % b->copies) * (size_t)b->k * (size_t)b->n * b->size);
}

/* false: it refuses, and is not in the list. */
static bool add(bench *b, const char *name, const char *scheme, launch_fn fn, void *user) {
  contender *c = &b->list[b->count];
  call one = {b, fn, user};
  if (b->count >= CONTENDERS || !turns_capture(&c->turns, b->launches, launch_one, &one, stream)) return false;
  snprintf(c->name, sizeof c->name, "%s", name);
  c->scheme = scheme;
  c->gemm = NULL, c->from = NULL, c->family = RDT_CUDA_MMA;
  b->count++;
  return true;
}

static rdt_operands operands(const bench *b, rdt_tensor in[2], const void *weights) {
  in[0] = rdt_tensor_dense(b->a, b->type, 2, (int64_t[]){b->m, b->k});
  in[1] = rdt_tensor_dense((void *)weights, b->type, 2, (int64_t[]){b->k, b->n});
  return (rdt_operands){.in = in, .n_in = 2, .out = rdt_tensor_dense(b->c, b->out, 2, (int64_t[]){b->m, b->n})};
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

/* global-classic as in a network: A is what a product before has stored, whose sums of it are there. */
static bool launch_chained(bench *b, void *user, const void *weights) {
  const contender *c = user;
  rdt_tensor in[2];
  const rdt_operands o = operands(b, in, weights);
  in[0].data = c->from;
  return rdt_cuda_gemm_run(c->gemm, &o, stream, NULL) == RDT_OK;
}

static void add_chained(bench *b, const rdt_cuda_kernel *k, const rdt_problem *p, rdt_cuda_gemm *before, int splits) {
  rdt_reason why;
  rdt_cuda_gemm *g;
  char name[80];
  rdt_tensor in[2];
  rdt_operands first = operands(b, in, b->weights);
  void *between;
  if (rdt_cuda_alloc((size_t)b->m * (size_t)b->n * b->size, &between, &why) != RDT_OK ||
      rdt_cuda_gemm_create(k, &device, p, 6.0, splits, stream, &g, &why) != RDT_OK)
    fprintf(stderr, "gpu-bench: %s\n", why.text), exit(3);
  first.out.data = between;
  contender chained = {.gemm = g, .from = between};
  snprintf(name, sizeof name, "%s/%d", k->tile->name, rdt_cuda_gemm_splits(g));
  if (rdt_cuda_gemm_follow(g, before, &why) == RDT_OK && rdt_cuda_gemm_run(before, &first, stream, &why) == RDT_OK &&
      add(b, name, "chained", launch_chained, &chained)) {
    b->list[b->count - 1].gemm = g, b->list[b->count - 1].from = between,
                       b->list[b->count - 1].splits = rdt_cuda_gemm_splits(g), b->list[b->count - 1].family = k->family;
    return;
  }
  rdt_cuda_gemm_destroy(g), rdt_cuda_free(between);
}

static void add_own(bench *b, const rdt_cuda_kernel *k, int splits) {
  rdt_problem p;
  rdt_reason why;
  rdt_cuda_gemm *g;
  char name[80];
  rdt_tensor in[2];
  if (rdt_problem_init(&p, RDT_KOP_GEMM, 2) != RDT_OK) exit(2);
  const rdt_operands o = operands(b, in, b->weights);
  p.in[0] = in[0], p.in[1] = in[1], p.out = o.out,
  p.acc = b->type == RDT_S8    ? RDT_S32
          : b->type == RDT_F64 ? RDT_F64
                               : RDT_F32;
  if (rdt_cuda_gemm_create(k, &device, &p, 6.0, splits, stream, &g, &why) == RDT_OK) {
    snprintf(name, sizeof name, "%s/%d", k->tile->name, rdt_cuda_gemm_splits(g));
    for (int i = 0; i < b->count; i++) /* splits that come out the same */
      if (b->list[i].scheme == k->scheme && strcmp(b->list[i].name, name) == 0) goto done;
    if (add(b, name, k->scheme, launch_own, g)) {
      b->list[b->count - 1].gemm = g, b->list[b->count - 1].splits = rdt_cuda_gemm_splits(g);
      b->list[b->count - 1].family = k->family;
      if (strcmp(k->scheme, "global-classic") == 0 && b->n == b->k) add_chained(b, k, &p, g, splits);
      rdt_problem_clear(&p);
      return;
    }
  done:
    rdt_cuda_gemm_destroy(g);
  }
  rdt_problem_clear(&p);
}

static void add_libraries(bench *b) {
  for (int transposed = 0; library && b->type == RDT_F16 && transposed < 2; transposed++) {
    char name[80];
    lt_call lt = {.gemm = {b->m, b->n, b->k, transposed != 0, b->type, b->out, false}};
    snprintf(name, sizeof name, "cublasGemmEx %s", transposed ? "B^T" : "B");
    add(b, name, NULL, launch_ex, &lt);
    const int count = cublas_lt_prepare(library, &lt.gemm);
    for (; lt.algorithm < count; lt.algorithm++) {
      snprintf(name, sizeof name, "cublasLt %s #%d", transposed ? "B^T" : "B", lt.algorithm);
      add(b, name, NULL, launch_lt, &lt);
    }
  }
}

static void measure(bench *b) {
  static turns *list[CONTENDERS];
  for (int i = 0; i < b->count; i++) list[i] = &b->list[i].turns;
  turns_take(list, b->count, WARM, TRIALS, stream);
  for (int i = 0; i < b->count; i++) b->list[i].median = turns_at(&b->list[i].turns, 0.5);
}

/* scheme NULL: of the libraries; most: of families up to this one. */
static const contender *best_of(const bench *b, const char *scheme, rdt_cuda_family least, rdt_cuda_family most) {
  const contender *x = NULL;
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    const bool same = scheme ? c->scheme && strcmp(c->scheme, scheme) == 0 : !c->scheme;
    if (same && c->family >= least && c->family <= most && (!x || c->median < x->median)) x = c;
  }
  return x;
}

static const contender *best(const bench *b, const char *scheme) {
  return best_of(b, scheme, RDT_CUDA_MMA, RDT_CUDA_WGMMA);
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

static const char *const schemes[] = {"none",    "thread1",        "thread1a",   "col",
                                      "thread2", "replicate",      "replicate1", "row",
                                      "global",  "global-classic", "chained",    "tile"};
enum { SCHEMES = sizeof schemes / sizeof *schemes, THREAD_FIRST = 1, THREAD_LAST = 6 };

static void record(FILE *f, const bench *b) {
  static int before;
  fprintf(f, "%s\n  {\"type\": \"%s\", \"m\": %d, \"n\": %d, \"k\": %d, \"contenders\": [", before++ ? "," : "",
          rdt_dtype_name(b->type), b->m, b->n, b->k);
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    fprintf(f, "%s\n   {\"name\": \"%s\", \"scheme\": %s%s%s, ", i ? "," : "", c->name, c->scheme ? "\"" : "",
            c->scheme ? c->scheme : "null", c->scheme ? "\"" : "");
    turns_put(f, &c->turns);
    fprintf(f, "}");
  }
  fprintf(f, "]}");
}

enum { SQUARES = 7 };
/* Of each family's kernels over its own unprotected one. */
static double overheads[RDT_CUDA_WGMMA + 1][SQUARES][SCHEMES];

static void take_overheads(const bench *b, int square) {
  for (rdt_cuda_family f = RDT_CUDA_MMA; f <= RDT_CUDA_WGMMA; f++)
    for (int i = 0; i < SCHEMES; i++) {
      const contender *c = best_of(b, schemes[i], f, f), *none = best_of(b, "none", f, f);
      overheads[f][square][i] = c && none ? c->median / none->median : NAN;
    }
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

/* Figure 12 of the paper on thread-level checks: overhead of each scheme, by the intensity of the product. */
static void print_overheads(const int *sizes, rdt_cuda_family family) {
  bool any[SCHEMES];
  printf("\nSquares, fp16, kernels on %s: overhead over own unprotected, %%\n size FLOP/B",
         family == RDT_CUDA_WGMMA ? "wgmma" : "mma.sync");
  for (int i = 1; i < SCHEMES; i++) {
    any[i] = !isnan(overheads[family][SQUARES - 1][i]);
    if (any[i]) printf(" | %14s", schemes[i]);
  }
  for (int s = 0; s < SQUARES; s++) {
    printf("\n%5d %6.0f", sizes[s], sizes[s] / 3.0);
    for (int i = 1; i < SCHEMES; i++)
      if (any[i]) printf(" | %14.1f", 100.0 * (overheads[family][s][i] - 1.0));
  }
  printf("\n");
}

/* One product, all contenders. square: its number among these, -1: none. */
static int bench_one(rdt_dtype type, int m, int n, int k, const int *splits, FILE *f, double ratios[3], int square) {
  static bench b;
  int kernels;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&kernels);
  rdt_reason why;
  b = (bench){.m = m, .n = n, .k = k, .type = type, .out = type == RDT_S8 ? RDT_S32 : type};
  b.size = rdt_dtype_info(type)->bytes;
  const size_t bytes = (size_t)n * (size_t)k * b.size;
  b.copies = (int)((COLD + bytes - 1) / bytes);
  if (b.copies > 1024) b.copies = 1024;
  b.launches = b.copies < 24 ? 24 / b.copies * b.copies : b.copies > 64 ? 64 : b.copies;
  void *weights;
  if (rdt_cuda_alloc(bytes * (size_t)b.copies, &weights, &why) != RDT_OK ||
      rdt_cuda_alloc((size_t)m * (size_t)k * b.size, &b.a, &why) != RDT_OK ||
      rdt_cuda_alloc((size_t)m * (size_t)n * 8, &b.c, &why) != RDT_OK)
    return fprintf(stderr, "gpu-bench: %s\n", why.text), 2;
  b.weights = weights;
  turns_fill(b.weights, type, bytes / b.size, 1, false, stream);
  turns_fill(b.a, type, (size_t)m * (size_t)k, 2, false, stream);
  for (int i = 1; i < b.copies; i++)
    turns_must(cudaMemcpyAsync(b.weights + (size_t)i * bytes, b.weights, bytes, cudaMemcpyDeviceToDevice, stream),
               "copy");
  for (int i = 0; i < kernels; i++) {
    const rdt_cuda_tile *t = table[i].tile;
    if (table[i].dtype != type || t->rows >= 4 * m + 64 || m > 32 * t->rows) continue; /* out of proportion */
    if (table[i].family == RDT_CUDA_TALL) continue;                                    /* tall.c */
    for (const int *s = splits; *s >= 0; s++) add_own(&b, &table[i], *s);
  }
  add_libraries(&b);
  measure(&b);
  print_row(&b, ratios);
  if (square >= 0) take_overheads(&b, square);
  const int bad = complaints(&b);
  if (bad) printf("      %d contenders complained although nothing was wrong\n", bad);
  if (f) record(f, &b);
  for (int i = 0; i < b.count; i++)
    turns_free(&b.list[i].turns), rdt_cuda_gemm_destroy(b.list[i].gemm), rdt_cuda_free(b.list[i].from);
  rdt_cuda_free(weights), rdt_cuda_free(b.a), rdt_cuda_free(b.c);
  return bad ? 1 : 0;
}

static void heading(const char *what) {
  printf("\n%s, us a launch, best tile/splits\n    m     n     k", what);
  for (int i = 0; i < SCHEMES; i++) printf(" | %-18s", schemes[i]);
  printf(" | best library\n");
}

static int bench_skinny(FILE *f) {
  static const int rows[] = {1, 8, 16, 32}, sizes[] = {4096, 1024}, split[] = {0, 1, 2, 3, 4, 6, 8, 16, -1};
  double ratios[3], logs[3] = {0.0, 0.0, 0.0};
  int code = 0;
  heading("Few rows, cold weights, fp16");
  for (int s = 0; s < 2; s++)
    for (int r = 0; r < 4; r++) {
      code |= bench_one(RDT_F16, rows[r], sizes[s], sizes[s], split, f, ratios, -1);
      for (int i = 0; i < 3; i++) logs[i] += log(ratios[i]) / 8.0;
    }
  printf(
      "geometric means: thread-level / own unprotected %.3f; thread-level / best library %.3f; own unprotected / best "
      "library %.3f\n",
      exp(logs[0]), exp(logs[1]), exp(logs[2]));
  return code;
}

static const int automatic[] = {0, 1, -1};

static int bench_squares(FILE *f) {
  static const int squares[SQUARES] = {32, 64, 128, 256, 512, 1024, 2048};
  double ratios[3];
  int code = 0;
  heading("Squares, fp16");
  for (int i = 0; i < SQUARES; i++)
    code |= bench_one(RDT_F16, squares[i], squares[i], squares[i], automatic, f, ratios, i);
  print_overheads(squares, RDT_CUDA_MMA);
  print_overheads(squares, RDT_CUDA_WGMMA);
  return code;
}

static int bench_types(FILE *f) {
  static const rdt_dtype types[] = {RDT_S8, RDT_F64, RDT_F32};
  double ratios[3];
  int code = 0;
  for (int t = 0; t < 3; t++) {
    char title[64];
    snprintf(title, sizeof title, "Own products of %s", rdt_dtype_name(types[t]));
    heading(title);
    code |= bench_one(types[t], 16, 4096, 4096, automatic, f, ratios, -1);
    code |= bench_one(types[t], 2048, 2048, 2048, automatic, f, ratios, -1);
  }
  return code;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*bench)(FILE *);
  } groups[] = {{"skinny", bench_skinny}, {"squares", bench_squares}, {"types", bench_types}};
  rdt_reason why;
  char no_library[256];
  int code = 0;
  if (rdt_cuda_count(&why) == 0) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  if (rdt_cuda_open(0, &device, &why) != RDT_OK) return fprintf(stderr, "gpu-bench: %s\n", why.text), 3;
  turns_must(cudaStreamCreate(&stream), "stream");
  library = cublas_open(no_library, sizeof no_library);
  printf("%s, compute capability %d.%d, driver %d; cuBLAS %s\n", device.name, device.major, device.minor, device.driver,
         library ? cublas_version(library) : no_library);
  FILE *f = turns_record(argc > 1 ? argv[1] : NULL, "bench-gpu", device.name);
  if (f) fprintf(f, ", \"cublas\": \"%s\", \"products\": [", library ? cublas_version(library) : "none");
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (argc < 3 || strcmp(argv[2], groups[i].name) == 0) code |= groups[i].bench(f);
  if (f) fprintf(f, "]}\n"), fclose(f);
  return code;
}
