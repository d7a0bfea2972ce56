/* make gpu-bench: large products on the GPU, own kernels of each scheme against cublasGemmEx and the best of cuBLASLt's
 * heuristics.
 *     gpu_bench_hopper [RECORD.json|- [TYPE,... [PART [NAME]]]]
 * TYPE: rows of these datatypes alone, PART: this part alone (half, turned, batches, others, grid, tall; uneven by name
 * only), NAME: own kernels whose names have it; "": all.
 * Data are N(0, 1), and 8-bit integers all over their range; buffers rotate through 256 MB and more; weights are fixed,
 * as are those of a network. Of each scheme the fastest kernel is chosen by a few replays. Those that do not take twice
 * as long as the fastest of all, and the libraries', then take 25 turns; ratios are medians of ratios turn by turn. The
 * comparison of the checks is part of the time. Whoever complains of clean data, or does not complain once a weight has
 * changed after its sums were formed, fails. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cublas.h"
#include "cuda/kernel.h"
#include "plan/workloads.h"
#include "turns.h"

enum { TRIALS = 25, WARM = 2, CONTENDERS = 400, SCHEMES = 12, TRIES = 3 };
static const size_t ROTATE = (size_t)256 << 20;
static const double SECONDS = 400e-6, /* that a graph takes at least, about */
    COPIED = 4.0e12;                  /* bytes a second that an H200 reads and writes as it copies */

typedef enum manner { PLAIN, COVERED, CHAINED } manner; /* COVERED: it tells bit-sums of what it stores */
static const char *const manner_name[] = {"", " covered", " chained"};

typedef struct contender {
  const rdt_cuda_kernel *kernel; /* NULL: a library */
  rdt_cuda_gemm *gemm;
  char name[64];
  manner how;
  struct { /* CHAINED: the products before and after; what the first has stored, so many times */
    rdt_cuda_gemm *before, *after;
    char *a;
  } chain;
  turns turns;
} contender;

typedef struct product {
  const char *type; /* "bf16", "tf32" */
  rdt_dtype in, out;
  int m, n, k;
  bool tf32, transposed; /* transposed: B lies as n x k */
  bool a_transposed;     /* A as k x m */
  int batches;           /* one after the other; 0: one product */
} product;

typedef struct bench {
  product p;
  int64_t lda, ldb, ldc;
  size_t a_bytes, b_bytes, c_bytes;
  char *a, *b, *c;
  int copies, launches;
  contender list[CONTENDERS];
  int count;
} bench;

static rdt_cuda_device device;
static cudaStream_t stream;
static cublas *library;
static FILE *record;
static int rows, code;
static const char *only, *part, *names; /* of types, parts, kernels */

static bool takes_type(const char *type) {
  const size_t length = strlen(type);
  for (const char *at = only; at;) {
    if (strncmp(at, type, length) == 0 && (!at[length] || at[length] == ',')) return true;
    at = strchr(at, ',');
    if (at) at++;
  }
  return !only;
}

static void must(rdt_status s, const rdt_reason *why) {
  if (s == RDT_OK) return;
  fprintf(stderr, "gpu-bench: %s\n", why->text);
  exit(3);
}

/* ---- operands ---- */

static int64_t up(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}

static int batches_of(const product *p) {
  return p->batches > 1 ? p->batches : 1;
}

static rdt_tensor matrix(const product *p, const void *data, rdt_dtype type, int64_t rows_, int64_t columns,
                         int64_t pitch, bool transposed) {
  const int d = batches_of(p) > 1;
  rdt_tensor t = rdt_tensor_dense((void *)data, type, 2 + d, (int64_t[]){d ? p->batches : rows_, rows_, columns});
  if (!d) t.shape[1] = columns;
  t.stride[d] = transposed ? 1 : pitch, t.stride[d + 1] = transposed ? pitch : 1;
  if (d) t.stride[0] = pitch * (transposed ? columns : rows_);
  return t;
}

/* a: in place of b->a, unless NULL. */
static rdt_operands operands(const bench *b, const char *a, int copy, rdt_tensor in[2]) {
  const product *p = &b->p;
  const size_t at = (size_t)(copy % b->copies);
  in[0] = matrix(p, (a ? a : b->a) + at * b->a_bytes, p->in, p->m, p->k, b->lda, p->a_transposed);
  in[1] = matrix(p, b->b + at * b->b_bytes, p->in, p->k, p->n, b->ldb, p->transposed);
  return (rdt_operands){
      .in = in, .n_in = 2, .out = matrix(p, b->c + at * b->c_bytes, p->out, p->m, p->n, b->ldc, false)};
}

static void *memory(size_t bytes) {
  rdt_reason why;
  void *p;
  must(rdt_cuda_alloc(bytes, &p, &why), &why);
  return p;
}

/* Pitches are multiples of 16 bytes. All copies of B have the same numbers: their sums are formed once. */
static void ready(bench *b, const product *p) {
  const int64_t in = (int64_t)rdt_dtype_size(p->in), out = (int64_t)rdt_dtype_size(p->out);
  b->p = *p;
  b->count = 0;
  const int64_t many = batches_of(p);
  b->lda = up(p->a_transposed ? p->m : p->k, 16 / in), b->ldb = up(p->transposed ? p->k : p->n, 16 / in),
  b->ldc = up(p->n, 16 / out);
  b->a_bytes = (size_t)up(many * (p->a_transposed ? p->k : p->m) * b->lda * in, 256);
  b->b_bytes = (size_t)up(many * (p->transposed ? p->n : p->k) * b->ldb * in, 256);
  b->c_bytes = (size_t)up(many * p->m * b->ldc * out, 256);
  b->copies = (int)(ROTATE / (b->a_bytes + b->b_bytes + b->c_bytes)) + 2;
  const double seconds =
      fmax(2.0 * (double)many * p->m * p->n * p->k / 600e12, (double)(b->a_bytes + b->b_bytes + b->c_bytes) / COPIED);
  b->launches = (int)(SECONDS / seconds) + 1;
  if (b->launches < b->copies) b->launches = b->copies;
  const size_t copies = (size_t)b->copies;
  b->a = memory(copies * b->a_bytes), b->b = memory(copies * b->b_bytes), b->c = memory(copies * b->c_bytes);
  turns_fill(b->a, p->in, copies * b->a_bytes / (size_t)in, 1, true, stream);
  turns_fill(b->b, p->in, b->b_bytes / (size_t)in, 2, true, stream);
  for (size_t i = 1; i < copies; i++)
    turns_must(cudaMemcpyAsync(b->b + i * b->b_bytes, b->b, b->b_bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  turns_must(cudaStreamSynchronize(stream), "copy");
}

static void drop(contender *c) {
  turns_free(&c->turns);
  rdt_cuda_gemm_destroy(c->chain.after), rdt_cuda_gemm_destroy(c->gemm), rdt_cuda_gemm_destroy(c->chain.before);
  rdt_cuda_free(c->chain.a);
  *c = (contender){NULL};
}

static void done(bench *b) {
  for (int i = 0; i < b->count; i++) drop(&b->list[i]);
  rdt_cuda_free(b->a), rdt_cuda_free(b->b), rdt_cuda_free(b->c);
}

/* ---- contenders ---- */

typedef struct call {
  const bench *b;
  rdt_cuda_gemm *gemm;
  const char *a; /* NULL: b->a */
  cublas_gemm blas;
  int algorithm; /* -1: cublasGemmEx */
} call;

static bool launch_own(void *user, int i, cudaStream_t on) {
  const call *c = user;
  rdt_tensor in[2];
  const rdt_operands o = operands(c->b, c->a, i, in);
  return rdt_cuda_gemm_run(c->gemm, &o, on, NULL) == RDT_OK;
}

static bool launch_library(void *user, int i, cudaStream_t on) {
  const call *c = user;
  rdt_tensor in[2];
  const rdt_operands o = operands(c->b, c->a, i, in);
  return c->algorithm < 0 ? cublas_ex(library, &c->blas, in[0].data, in[1].data, o.out.data, on)
                          : cublas_lt(library, c->algorithm, in[0].data, in[1].data, o.out.data, on);
}

static cublas_gemm gemm_of(const product *p) {
  return (cublas_gemm){p->m, p->n, p->k, p->transposed, p->in, p->out, p->tf32, p->a_transposed, p->batches};
}

static rdt_cuda_family family; /* kernels of families from this one on */

static bool fits(const product *p, const rdt_cuda_kernel *k) {
  const bool tf32 = strstr(k->name, "tf32") != NULL;
  if (k->family < family) return false;
  if (names && !strstr(k->name, names)) return false;
  return k->dtype == p->in && tf32 == p->tf32 && k->tile->rows < 4 * p->m + 64;
}

static rdt_cuda_gemm *neighbour(const rdt_cuda_kernel *k, const rdt_operands *o) {
  rdt_cuda_gemm *g;
  rdt_problem p;
  rdt_reason why;
  if (rdt_problem_init(&p, RDT_KOP_GEMM, 2) != RDT_OK) exit(2);
  p.in[0] = o->in[0], p.in[1] = o->in[1], p.out = o->out, p.epilogue = *o->epilogue, p.acc = RDT_F32;
  p.in[1].data = NULL; /* what it needs of weights it forms in each run */
  must(rdt_cuda_gemm_create(k, &device, &p, 6.0, 1, stream, &g, &why), &why);
  rdt_problem_clear(&p);
  return g;
}

/* The middle of a chain: sums of A, as a small product in front of it has stored that, are there, and those of what it
 * stores are left for one behind it, which never runs. False: no such kernel. */
static bool chain(const bench *b, contender *c) {
  enum { FEW = 64 }; /* terms of the first, columns of the last */
  const product *p = &b->p;
  rdt_reason why;
  rdt_epilogue eighth = RDT_EPILOGUE_NONE, none = RDT_EPILOGUE_NONE;
  eighth.alpha = 1.0 / 8.0; /* N(0, 1) again */
  if (p->k < FEW || p->n < FEW) return false;
  char *const a = c->chain.a = memory((size_t)b->copies * b->a_bytes);
  rdt_tensor before[] = {matrix(p, b->a, p->in, p->m, FEW, FEW, false),
                         matrix(p, b->b, p->in, FEW, p->k, up(p->k, 8), false)},
             after[] = {matrix(p, b->c, p->out, p->m, p->n, b->ldc, false),
                        matrix(p, b->b, p->in, p->n, FEW, FEW, false)};
  const rdt_operands
      first = {.in = before, .n_in = 2, .out = matrix(p, a, p->in, p->m, p->k, b->lda, false), .epilogue = &eighth},
      last = {.in = after, .n_in = 2, .out = matrix(p, b->c, p->out, p->m, FEW, FEW, false), .epilogue = &none};
  c->chain.before = neighbour(c->kernel, &first), c->chain.after = neighbour(c->kernel, &last);
  if (rdt_cuda_gemm_follow(c->gemm, c->chain.before, &why) != RDT_OK) return false;
  must(rdt_cuda_gemm_follow(c->chain.after, c->gemm, &why), &why);
  must(rdt_cuda_gemm_run(c->chain.before, &first, stream, &why), &why);
  for (int i = 1; i < b->copies; i++)
    turns_must(cudaMemcpyAsync(a + (size_t)i * b->a_bytes, a, b->a_bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  turns_must(cudaStreamSynchronize(stream), "copy");
  return true;
}

/* splits: rdt_cuda_gemm_create's. What it comes to is returned; 0: it is not taken. */
static int add_as(bench *b, const rdt_cuda_kernel *k, int splits, manner how) {
  rdt_problem p;
  rdt_reason why;
  rdt_tensor in[2];
  if (b->count == CONTENDERS || rdt_problem_init(&p, RDT_KOP_GEMM, 2) != RDT_OK) exit(2);
  contender *c = &b->list[b->count];
  *c = (contender){.kernel = k, .how = how};
  p.out = operands(b, NULL, 0, in).out;
  p.in[0] = in[0], p.in[1] = in[1];
  p.acc = b->p.in == RDT_S8 ? RDT_S32 : b->p.in == RDT_F64 ? RDT_F64 : RDT_F32;
  const rdt_status s = rdt_cuda_gemm_create(k, &device, &p, 6.0, splits, stream, &c->gemm, &why);
  rdt_problem_clear(&p);
  if (s == RDT_ERR_UNSUPPORTED) return 0;
  must(s, &why);
  if (rdt_cuda_gemm_cover(c->gemm, how == COVERED, NULL) != RDT_OK || (how == CHAINED && !chain(b, c))) {
    drop(c);
    return 0;
  }
  call one = {.b = b, .gemm = c->gemm, .a = c->chain.a};
  if (!turns_capture(&c->turns, b->launches, launch_own, &one, stream)) {
    fprintf(stderr, "gpu-bench: %s takes %dx%dx%d, and then does not run\n", k->name, b->p.m, b->p.n, b->p.k);
    exit(3);
  }
  splits = rdt_cuda_gemm_splits(c->gemm);
  snprintf(c->name, sizeof c->name, splits > 1 ? "%s%s/%d" : "%s%s", k->name, manner_name[how], splits);
  b->count++;
  return splits;
}

/* Where two blocks usually share tiles, without that, too. */
static void add_own(bench *b, const rdt_cuda_kernel *k) {
  if (add_as(b, k, 0, PLAIN) > 1 && k->family == RDT_CUDA_WGMMA) (void)add_as(b, k, 1, PLAIN);
}

static void add_library(bench *b, int algorithm) {
  const product *p = &b->p;
  call one = {.b = b, .blas = gemm_of(p), .algorithm = algorithm};
  contender *c = &b->list[b->count];
  *c = (contender){.kernel = NULL};
  if (!turns_capture(&c->turns, b->launches, launch_library, &one, stream)) return;
  snprintf(c->name, sizeof c->name, algorithm < 0 ? "cublasGemmEx" : "cublasLt #%d", algorithm);
  b->count++;
}

static bool is(const contender *c, const char *scheme) {
  return c->kernel && strcmp(c->kernel->scheme, scheme) == 0;
}

/* The fastest of those that `same` says belong together stays; a scheme's, and cuBLASLt's. */
static void choose(bench *b, int first, bool (*same)(const contender *, const contender *)) {
  static turns *list[CONTENDERS];
  for (int i = first; i < b->count; i++) list[i - first] = &b->list[i].turns;
  turns_take(list, b->count - first, 1, TRIES, stream);
  for (int i = first; i < b->count; i++)
    for (int j = first; j < b->count; j++)
      if (i != j && b->list[i].turns.graph && b->list[j].turns.graph && same(&b->list[i], &b->list[j]) &&
          turns_at(&b->list[i].turns, 0.0) <= turns_at(&b->list[j].turns, 0.0))
        drop(&b->list[j]);
  int kept = first;
  for (int i = first; i < b->count; i++)
    if (b->list[i].turns.graph) b->list[kept++] = b->list[i];
  b->count = kept;
}

/* Who takes more than twice as long is no contender; waiting for it would let a GPU at its power limit rest. */
static void leave_out(bench *b) {
  double least = INFINITY;
  int kept = 0;
  for (int i = 0; i < b->count; i++) least = fmin(least, turns_at(&b->list[i].turns, 0.0));
  for (int i = 0; i < b->count; i++) {
    if (turns_at(&b->list[i].turns, 0.0) > 2.0 * least)
      drop(&b->list[i]);
    else
      b->list[kept++] = b->list[i];
  }
  b->count = kept;
}

static bool same_scheme(const contender *x, const contender *y) {
  return strcmp(x->kernel->scheme, y->kernel->scheme) == 0;
}

static bool both_lt(const contender *x, const contender *y) {
  (void)x, (void)y;
  return true;
}

static const contender *find(const bench *b, const char *scheme) {
  for (int i = 0; i < b->count; i++)
    if (is(&b->list[i], scheme)) return &b->list[i];
  return NULL;
}

static const contender *chained(const bench *b) {
  for (int i = 0; i < b->count; i++)
    if (b->list[i].how == CHAINED) return &b->list[i];
  return NULL;
}

static const contender *named(const bench *b, const char *name) {
  for (int i = 0; i < b->count; i++)
    if (!b->list[i].kernel && strncmp(b->list[i].name, name, strlen(name)) == 0) return &b->list[i];
  return NULL;
}

/* The unprotected kernel with the tile of this one. */
static const contender *plain(const bench *b, const contender *c) {
  for (int i = 0; c && i < b->count; i++)
    if (is(&b->list[i], "none") && b->list[i].kernel->tile == c->kernel->tile) return &b->list[i];
  return NULL;
}

static void enter(bench *b) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++)
    if (fits(&b->p, &table[i])) add_own(b, &table[i]);
  choose(b, 0, same_scheme);
  leave_out(b);
  const contender *tile = find(b, "tile");
  for (int i = 0; tile && !plain(b, tile) && i < n; i++)
    if (fits(&b->p, &table[i]) && strcmp(table[i].scheme, "none") == 0 && table[i].tile == tile->kernel->tile)
      add_own(b, &table[i]), tile = find(b, "tile");
  static const char *const checked[] = {"row", "tile"};
  for (int i = 0; i < 2; i++) { /* the same with what they store covered */
    const contender *c = find(b, checked[i]);
    if (c) (void)add_as(b, c->kernel, rdt_cuda_gemm_splits(c->gemm), COVERED);
  }
  for (int i = 0; i < n; i++)
    if (fits(&b->p, &table[i]) && strcmp(table[i].scheme, "rowcol") == 0) (void)add_as(b, &table[i], 1, CHAINED);
  if (!library) return;
  add_library(b, -1);
  const int first = b->count;
  const cublas_gemm g = gemm_of(&b->p);
  const int count = cublas_lt_prepare(library, &g);
  for (int i = 0; i < count; i++) add_library(b, i);
  choose(b, first, both_lt);
}

static void measure(bench *b) {
  static turns *list[CONTENDERS];
  for (int i = 0; i < b->count; i++) list[i] = &b->list[i].turns;
  turns_take(list, b->count, WARM, TRIALS, stream);
}

/* ---- are the checks alive? ---- */

static bool sums_weights(const char *scheme) { /* made of B before it changed; others see what they multiply */
  static const char *const all[] = {"row", "rowcol", "global", "tile"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strcmp(scheme, all[i]) == 0) return true;
  return false;
}

static unsigned complaints(const contender *c, rdt_cuda_finding *first) {
  rdt_cuda_verdict v;
  rdt_reason why;
  must(rdt_cuda_gemm_verdict(c->gemm, stream, &v, &why), &why);
  if (first) *first = v.list[0];
  return v.suspect + v.certain + v.cannot;
}

static void is_clean(const contender *c) {
  rdt_cuda_finding f;
  const unsigned many = complaints(c, &f);
  if (!many) return;
  printf(
      "WRONG %s complains of clean data: %u, one of row %d, column %d: %.9g where %.9g is expected, bounds %.3g, "
      "%.3g\n",
      c->name, many, (int)f.row, (int)f.column, (double)f.observed, (double)f.expected, (double)f.tau2, (double)f.tau0);
  code = 1;
}

static void verify(bench *b) {
  char large[8], was[8];
  rdt_reason why;
  const size_t size = rdt_dtype_size(b->p.in);
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    if (c->how == COVERED) {
      rdt_tensor in[2];
      const rdt_operands o = operands(b, NULL, 0, in);
      must(rdt_cuda_gemm_run(c->gemm, &o, stream, &why), &why);
      must(rdt_cuda_gemm_stored(c->gemm, &o, stream, &why), &why);
    }
    if (c->kernel) is_clean(c);
  }
  must(rdt_cuda_get(was, b->b, size, stream, &why), &why);
  rdt_store(large, b->p.in, 0, rdt_dtype_is_float(b->p.in) ? 50.0 : rdt_load(was, b->p.in, 0) > 0 ? -100.0 : 100.0);
  must(rdt_cuda_put(b->b, large, size, stream, &why), &why);
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    if (!c->kernel || !sums_weights(c->kernel->scheme)) continue;
    call one = {.b = b, .gemm = c->gemm, .a = c->chain.a};
    void *copy = rdt_cuda_gemm_copy(c->gemm, 0, 0);
    if (copy) must(rdt_cuda_put(copy, large, size, stream, &why), &why);
    if (!launch_own(&one, 0, stream) || !complaints(c, NULL))
      printf("WRONG %s does not see a changed weight\n", c->name), code = 1;
    if (copy) must(rdt_cuda_put(copy, was, size, stream, &why), &why);
  }
  must(rdt_cuda_put(b->b, was, size, stream, &why), &why);
  must(rdt_cuda_wait(stream, &why), &why);
}

/* ---- what is told ---- */

static void put_record(const bench *b, const char *group) {
  if (!record) return;
  fprintf(record,
          "%s\n  {\"group\": \"%s\", \"type\": \"%s\", \"m\": %d, \"n\": %d, \"k\": %d, \"batches\": %d, "
          "\"a_transposed\": %s, \"transposed\": %s, \"contenders\": [",
          rows++ ? "," : "", group, b->p.type, b->p.m, b->p.n, b->p.k, batches_of(&b->p),
          b->p.a_transposed ? "true" : "false", b->p.transposed ? "true" : "false");
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    fprintf(record, "%s\n   {\"name\": \"%s\", \"scheme\": %s%s%s, ", i ? "," : "", c->name, c->kernel ? "\"" : "",
            c->kernel ? c->kernel->scheme : "null", c->kernel ? "\"" : "");
    turns_put(record, &c->turns);
    fprintf(record, "}");
  }
  fprintf(record, "]}");
}

static double ratio(const contender *x, const contender *y) {
  return x && y ? turns_ratio(&x->turns, &y->turns) : NAN;
}

/* Of ratios: geometric mean and the largest; of none NaN. */
typedef struct summary {
  double logs, most;
  int n;
} summary;
static void take(summary *s, double x) {
  if (isnan(x)) return;
  s->logs += log(x), s->most = s->n && s->most > x ? s->most : x, s->n++;
}
static double mean(const summary *s) {
  return s->n ? exp(s->logs / s->n) : NAN;
}

static const char *shared(const contender *c) { /* tiles that two blocks have */
  return c->kernel && rdt_cuda_gemm_splits(c->gemm) > 1 ? "/2" : "";
}

static void print_product(const bench *b) {
  const contender *none = find(b, "none");
  printf("%-5s %s%-4s ", b->p.type, b->p.a_transposed ? "A^T " : "", b->p.transposed ? "B^T" : "B");
  if (b->p.batches > 1) printf("%d of ", b->p.batches);
  printf("%6dx%5dx%5d:", b->p.m, b->p.n, b->p.k);
  const double flops = 2.0 * batches_of(&b->p) * b->p.m * b->p.n * b->p.k;
  for (int i = 0; i < b->count; i++) {
    const contender *c = &b->list[i];
    const double us = 1e6 * turns_at(&c->turns, 0.5);
    if (c == none || !c->kernel)
      printf("  %s%s %.1f us (%.0f T/s)", c->kernel ? c->kernel->tile->name : c->name, shared(c), us,
             flops / us * 1e-6);
    else
      printf("  %s %s%s%s %.1f: %.4f", c->kernel->scheme, c->kernel->tile->name, shared(c), manner_name[c->how], us,
             ratio(c, none));
  }
  printf("\n");
  fflush(stdout);
}

/* ---- bf16 and fp16 ---- */

static const int large[][4] = {{0, 2048, 2048, 2048}, {0, 4096, 4096, 4096},  {0, 8192, 8192, 8192},
                               {0, 4096, 4096, 1024}, {0, 16384, 1024, 1024}, {0, 129600, 256, 576}};
static const int several[][4] = {
    {4, 2048, 2048, 2048}, {16, 1024, 1024, 1024}, {64, 512, 512, 1024}, {96, 512, 512, 64}, {384, 128, 768, 768}};
/* Tiles that fill no whole round of 132 multiprocessors, and rounds that are full. */
static const int uneven[][4] = {{0, 1408, 1536, 2048}, {0, 1536, 1536, 2048}, {0, 1664, 1664, 2048},
                                {0, 1920, 1920, 2048}, {0, 2048, 2112, 2048}, {0, 1025, 4096, 4096},
                                {0, 4096, 4224, 4096}, {0, 8192, 8448, 8192}};

typedef struct half_part {
  const char *name, *text;
  const int (*shapes)[4]; /* batches, or 0; m, n, k */
  size_t count;
  bool a_transposed, named; /* named: where it is asked for */
} half_part;
#define SHAPES(x) x, sizeof x / sizeof *x
static const half_part halves[] = {{"half", "", SHAPES(large), false, false},
                                   {"turned", "A as k x m, ", SHAPES(large), true, false},
                                   {"batches", "batches, ", SHAPES(several), false, false},
                                   {"uneven", "uneven counts of tiles, ", SHAPES(uneven), false, true}};
#undef SHAPES

static void bench_half(const half_part *h, bool transposed) {
  static bench b;
  summary none_ex = {0}, none_lt = {0}, row = {0}, rowcol = {0}, in_chain = {0}, row_ex = {0}, row_lt = {0},
          tile[3] = {{0}};
  static const rdt_dtype types[] = {RDT_BF16, RDT_F16};
  printf("\nbf16 and fp16, %s%s; own schemes: time and ratio to own unprotected\n", h->text,
         transposed ? "B as n x k" : "B as k x n");
  for (int t = 0; t < 2; t++)
    for (size_t i = 0; i < h->count; i++) {
      const int *s = h->shapes[i];
      const product p = {.type = rdt_dtype_name(types[t]),
                         .in = types[t],
                         .out = types[t],
                         .m = s[1],
                         .n = s[2],
                         .k = s[3],
                         .transposed = transposed,
                         .a_transposed = h->a_transposed,
                         .batches = s[0]};
      if (!takes_type(p.type)) continue;
      ready(&b, &p);
      enter(&b);
      const contender *none = find(&b, "none"), *ex = named(&b, "cublasGemmEx"), *lt = named(&b, "cublasLt");
      if (none) {
        measure(&b);
        verify(&b);
        print_product(&b);
        put_record(&b, h->name);
        const contender *r = find(&b, "row"), *c = find(&b, "tile");
        take(&none_ex, ratio(none, ex)), take(&none_lt, ratio(none, lt));
        take(&row, ratio(r, none)), take(&rowcol, ratio(find(&b, "rowcol"), none));
        take(&in_chain, ratio(chained(&b), none));
        take(&row_ex, ratio(r, ex)), take(&row_lt, ratio(r, lt));
        take(&tile[p.k >= 4096 ? 0 : p.k >= 1024 ? 1 : 2], ratio(c, plain(&b, c)));
      }
      done(&b);
    }
  if (!none_ex.n && !row.n) {
    printf("no own kernel takes it\n");
    return;
  }
  printf("own unprotected / cublasGemmEx %.3f, / best of cuBLASLt %.3f (geometric means of %d; asked: 0.97, 1.01)\n",
         mean(&none_ex), mean(&none_lt), none_ex.n);
  printf("row / own unprotected %.4f, worst %.4f (1.006, 1.025); rowcol %.4f (1.025), in a chain %.4f\n", mean(&row),
         row.most, mean(&rowcol), mean(&in_chain));
  printf(
      "tile / own unprotected of its tile, worst: K >= 4096 %.4f (1.05), K >= 1024 %.4f (1.07), K = 576 %.4f (1.10)\n",
      tile[0].n ? tile[0].most : NAN, tile[1].n ? tile[1].most : NAN, tile[2].n ? tile[2].most : NAN);
  printf("row / unprotected cublasGemmEx %.3f (0.98), / best of cuBLASLt %.3f (1.02)\n", mean(&row_ex), mean(&row_lt));
}

/* ---- others ---- */

static void bench_others(void) {
  static bench b;
  static const struct {
    const char *type;
    rdt_dtype in, out;
    int length;
    bool tf32;
  } list[] = {{"f8e4m3", RDT_F8E4M3, RDT_BF16, 4096, false},
              {"f8e4m3", RDT_F8E4M3, RDT_BF16, 8192, false},
              {"s8", RDT_S8, RDT_S32, 4096, false},
              {"s8", RDT_S8, RDT_S32, 8192, false},
              {"tf32", RDT_F32, RDT_F32, 4096, true}};
  printf("\n8-bit and tf32: the fastest protected / best of cuBLASLt (asked: 1.05)\n");
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    const int length = list[i].length;
    const product p = {.type = list[i].type,
                       .in = list[i].in,
                       .out = list[i].out,
                       .m = length,
                       .n = length,
                       .k = length,
                       .tf32 = list[i].tf32,
                       .transposed = true};
    if (!takes_type(p.type)) continue;
    ready(&b, &p);
    enter(&b);
    measure(&b);
    verify(&b);
    const contender *lt = named(&b, "cublasLt"), *best = NULL;
    for (int j = 0; j < b.count; j++)
      if (b.list[j].kernel && !is(&b.list[j], "none") &&
          (!best || turns_at(&b.list[j].turns, 0.5) < turns_at(&best->turns, 0.5)))
        best = &b.list[j];
    print_product(&b);
    printf("  %s / %s: %.3f\n", best ? best->name : "no own kernel", lt ? lt->name : "cuBLASLt, which has none",
           ratio(best, lt));
    put_record(&b, "others");
    done(&b);
  }
}

/* ---- no cliff ---- */

/* Own kernels of one scheme alone, the fastest of them. */
static contender *fastest(bench *b, const product *p, const char *scheme) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  ready(b, p);
  for (int i = 0; i < n; i++)
    if (fits(p, &table[i]) && strcmp(table[i].scheme, scheme) == 0) add_own(b, &table[i]);
  if (b->count) choose(b, 0, same_scheme);
  return b->count ? &b->list[0] : NULL;
}

static void bench_grid(const char *scheme, bool transposed) {
  static bench exact, round;
  static const int ms[] = {1000, 1001, 1023, 1024, 1025}, ns[] = {4095, 4096, 4097}, ks[] = {4096, 4100};
  summary all = {0};
  char worst[112] = "";
  if (!takes_type("bf16")) return;
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 3; j++)
      for (int l = 0; l < 2; l++) {
        const product p = {.type = "bf16",
                           .in = RDT_BF16,
                           .out = RDT_BF16,
                           .m = ms[i],
                           .n = ns[j],
                           .k = ks[l],
                           .transposed = transposed};
        product up_to = p;
        up_to.m = (int)up(p.m, 128), up_to.n = (int)up(p.n, 128), up_to.k = (int)up(p.k, 64);
        contender *x = fastest(&exact, &p, scheme), *y = fastest(&round, &up_to, scheme);
        if (x && y) {
          turns_take((turns *const[]){&x->turns, &y->turns}, 2, WARM, TRIALS, stream);
          const double r = ratio(x, y);
          if (!all.n || r > all.most) snprintf(worst, sizeof worst, "%dx%dx%d by %s", p.m, p.n, p.k, x->name);
          take(&all, r);
          is_clean(x), is_clean(y);
          put_record(&exact, "grid"), put_record(&round, "grid");
        }
        done(&exact), done(&round);
      }
  if (all.n)
    printf(
        "no cliff, bf16, %s, %s: time / that of the shape rounded up: mean %.3f, worst %.3f (asked: 1.10), %s; %d "
        "shapes\n",
        scheme, transposed ? "B as n x k" : "B as k x n", mean(&all), all.most, worst, all.n);
  fflush(stdout);
}

/* ---- many rows of few columns ---- */

enum { ROWS = 20000, COLUMNS = 128, TALL = 256 };

/* Such products in the networks of the table, of their usual batch, each once; lengths in whole 16 bytes. */
static int tall_of(int (*list)[3]) {
  int workloads, count = 0;
  const rdt_workload *table = rdt_workload_table(&workloads);
  for (int w = 0; w < workloads; w++)
    for (int i = 0; i < table[w].count; i++) {
      int64_t m, n, k;
      rdt_layer_mnk(&table[w].layers[i], table[w].batch[0], &m, &n, &k);
      n = up(n, 8), k = up(k, 8);
      bool known = m < ROWS || m > INT_MAX / 2 || n > COLUMNS || table[w].layers[i].groups > 1 || count == TALL;
      for (int j = 0; j < count && !known; j++) known = list[j][0] == m && list[j][1] == n && list[j][2] == k;
      if (!known) list[count][0] = (int)m, list[count][1] = (int)n, list[count++][2] = (int)k;
    }
  return count;
}

/* The floor: A, B and C at the speed of a copy. */
static void bench_tall(rdt_dtype type) {
  static bench b;
  static int list[TALL][3];
  summary floor = {0}, own = {0}, ex = {0}, all = {0}, library_floor = {0};
  const int count = tall_of(list);
  if (!takes_type(rdt_dtype_name(type))) return;
  printf("\n%s, many rows by few columns: floor, own unprotected, row, cublasGemmEx, the best of cuBLASLt, us\n",
         rdt_dtype_name(type));
  for (int i = 0; i < count; i++) {
    const product p = {.type = rdt_dtype_name(type),
                       .in = type,
                       .out = type,
                       .m = list[i][0],
                       .n = list[i][1],
                       .k = list[i][2],
                       .transposed = true};
    family = RDT_CUDA_WGMMA;
    ready(&b, &p);
    enter(&b);
    family = RDT_CUDA_MMA;
    const contender *none = find(&b, "none"), *row = find(&b, "row"), *e = named(&b, "cublasGemmEx"),
                    *lt = named(&b, "cublasLt");
    if (none && row) {
      measure(&b);
      verify(&b);
      const double least = 1e6 * 2.0 * ((double)p.m * (p.n + p.k) + (double)p.n * p.k) / COPIED,
                   now = 1e6 * turns_at(&row->turns, 0.5);
      const contender *best = !e || (lt && turns_at(&lt->turns, 0.5) < turns_at(&e->turns, 0.5)) ? lt : e;
      printf("%7dx%3dx%4d: %7.2f | %7.2f %-9s | %7.2f %-9s %.3f %.3f | %7.2f %7.2f %.3f\n", p.m, p.n, p.k, least,
             1e6 * turns_at(&none->turns, 0.5), none->kernel->tile->name, now, row->kernel->tile->name, now / least,
             ratio(row, none), e ? 1e6 * turns_at(&e->turns, 0.5) : NAN, lt ? 1e6 * turns_at(&lt->turns, 0.5) : NAN,
             ratio(row, best));
      fflush(stdout);
      take(&floor, now / least), take(&own, ratio(row, none)), take(&all, ratio(row, best)), take(&ex, ratio(row, e));
      if (best) take(&library_floor, 1e6 * turns_at(&best->turns, 0.5) / least);
      put_record(&b, "tall");
    }
    done(&b);
  }
  printf(
      "row / floor %.3f, worst %.3f (asked: 1.15); / own unprotected %.4f, worst %.4f (1.015); / the best library "
      "%.3f, worst %.3f (0.75); / cublasGemmEx %.3f; the best library / floor %.3f: %d products\n",
      mean(&floor), floor.most, mean(&own), own.most, mean(&all), all.most, mean(&ex), mean(&library_floor), floor.n);
}

static bool takes(const char *of) {
  return !part || strcmp(part, of) == 0;
}

int main(int argc, char **argv) {
  rdt_reason why;
  char no_library[256];
  if (rdt_cuda_count(&why) == 0) return printf("gpu-bench: skipped: %s\n", why.text), 0;
  must(rdt_cuda_open(0, &device, &why), &why);
  turns_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  library = cublas_open(no_library, sizeof no_library);
  const char **const wanted[] = {&only, &part, &names};
  for (int i = 0; i < 3; i++) *wanted[i] = argc > 2 + i && argv[2 + i][0] ? argv[2 + i] : NULL;
  printf("%s; cuBLAS %s\n", device.name, library ? cublas_version(library) : no_library);
  record = turns_record(argc > 1 ? argv[1] : NULL, "bench-gpu-hopper", device.name);
  if (record) fprintf(record, ", \"cublas\": \"%s\", \"products\": [", library ? cublas_version(library) : "none");
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
    for (int transposed = 1; transposed >= 0 && takes(halves[i].name) && (part || !halves[i].named); transposed--)
      bench_half(&halves[i], transposed);
  if (takes("others")) bench_others();
  if (takes("tall")) bench_tall(RDT_F16), bench_tall(RDT_BF16);
  printf("\n");
  for (int transposed = 1; transposed >= 0 && takes("grid"); transposed--)
    for (int i = 0; i < 2; i++) bench_grid(i ? "row" : "none", transposed);
  if (record) fprintf(record, "]}\n"), fclose(record);
  return code;
}
