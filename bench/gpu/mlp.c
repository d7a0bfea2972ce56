/* make gpu-bench: chains of small layers as one launch (cuda/mlp.h), against cuBLAS, each as a CUDA graph: DLRM's
 * perceptrons, and the pixels of single-pixel convolutions in a row.
 *     gpu_bench_mlp [RECORD.json|-]
 * cuBLAS is a chain of launches, each layer by the fastest that there is, weights as they lie best: of what cuBLASLt
 * proposes with bias and Relu in its epilogue (library); or, of the products alone, without what follows, of that and
 * of cublasGemmEx (products). Graphs of one chain and of several, one behind the other, are replayed in turn. */
#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_common.h"
#include "cublas.h"
#include "cuda/mlp.h"
#include "cuda/trial.h"
#include "turns.h"

enum { LAYERS = RDT_CUDA_MLP_LAYERS, TRIALS = 31, WARM = 3, REPEAT = 20, ALGORITHMS = 8, WORKSPACE = 32 << 20 };

typedef struct perceptron {
  const char *name;
  int layers, width[LAYERS + 1];
  int rows[8]; /* each a chain of its own; 0: no more */
} perceptron;
static const perceptron perceptrons[] = {
    {"dlrm-bottom", 3, {13, 512, 256, 64}, {1, 2, 8, 16, 32, 64, 128, 256}},
    {"dlrm-top", 3, {512, 512, 256, 1}, {1, 2, 8, 16, 32, 64, 128, 256}},
    {"pixels-58", 7, {58, 58, 58, 58, 58, 58, 58, 58}, {784}},
    {"pixels-116", 16, {116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116, 116}, {196}},
    {"pixels-120", 16, {120, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120, 120}, {200}},
    {"pixels-232", 8, {232, 232, 232, 232, 232, 232, 232, 232, 232}, {49}},
    {"pixels-16-64", 2, {64, 16, 64}, {729, 2916}},
    {"pixels-64-256", 3, {576, 64, 256, 64}, {784, 3136}},
};

#define LT_TABLE(X)                       \
  X(cublasLtCreate)                       \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)

static struct {
#define X(name) __typeof__(&name) name;
  LT_TABLE(X)
#undef X
} lt;
static cublasLtHandle_t handle;
static void *workspace;
static cublas *ex;
static rdt_cuda_device device;
static cudaStream_t stream;

typedef struct layer {
  int m, n, k;
  void *x, *w, *w_turned, *y, *bias;
  bool by_lt, turned;
  cublasLtMatmulDesc_t what;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algo;
} layer;

typedef struct contender {
  const char *name;
  layer *layers; /* NULL: one launch */
  int n;
  const rdt_cuda_mlp *c;
  void *x, *y;
  uint64_t *board;
  turns one, many;
} contender;

static void must(bool good, const char *what) {
  if (!good) fprintf(stderr, "gpu-bench: %s\n", what), exit(3);
}

static void *operand(size_t count) {
  static uint64_t seed = 1;
  rdt_reason why;
  void *p;
  must(rdt_cuda_alloc(count * 2 + 16, &p, &why) == RDT_OK, "memory");
  turns_fill(p, RDT_F16, count, seed++, true, stream);
  return p;
}

static bool run_layer(const layer *l, cudaStream_t s) {
  const float one = 1.0f, zero = 0.0f;
  if (l->by_lt)
    return lt.cublasLtMatmul(handle, l->what, &one, l->turned ? l->w_turned : l->w, l->b, l->x, l->a, &zero, l->y, l->c,
                             l->y, l->c, &l->algo, workspace, WORKSPACE, s) == CUBLAS_STATUS_SUCCESS;
  const cublas_gemm g = {.m = l->m, .n = l->n, .k = l->k, .transposed = l->turned, .in = RDT_F16, .out = RDT_F16};
  return cublas_ex(ex, &g, l->x, l->turned ? l->w_turned : l->w, l->y, s);
}

static rdt_status try_layer(void *user, void *s, rdt_reason *why) {
  return run_layer(user, s) ? RDT_OK : rdt_fail(why, RDT_ERR_UNSUPPORTED, "cuBLAS refuses");
}

static void consider(layer *best, layer *now, double *least) {
  double seconds;
  rdt_reason why;
  if (rdt_cuda_trial(try_layer, now, NULL, &seconds, &why) != RDT_OK) return (void)cudaGetLastError();
  if (seconds < *least) *least = seconds, *best = *now;
}

/* The fastest way of cuBLAS. */
static double choose(layer *l, bool whole) {
  const cublasLtEpilogue_t end = CUBLASLT_EPILOGUE_RELU_BIAS;
  const size_t bytes = WORKSPACE;
  const uint64_t m = (uint64_t)l->m, n = (uint64_t)l->n, k = (uint64_t)l->k;
  double least = 1.0;
  layer best = *l;
  for (int turned = 0; turned < 2; turned++) {
    const cublasOperation_t op = turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS];
    cublasLtMatmulPreference_t preference;
    int count = 0;
    layer now = *l;
    now.turned = turned, now.by_lt = false;
    if (!whole) consider(&best, &now, &least);
    lt.cublasLtMatmulDescCreate(&now.what, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    lt.cublasLtMatmulDescSetAttribute(now.what, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op);
    lt.cublasLtMatmulDescSetAttribute(now.what, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end);
    lt.cublasLtMatmulDescSetAttribute(now.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &now.bias, sizeof now.bias);
    lt.cublasLtMatrixLayoutCreate(&now.b, CUDA_R_16F, turned ? k : n, turned ? n : k, turned ? l->k : l->n);
    lt.cublasLtMatrixLayoutCreate(&now.a, CUDA_R_16F, k, m, l->k);
    lt.cublasLtMatrixLayoutCreate(&now.c, CUDA_R_16F, n, m, l->n);
    lt.cublasLtMatmulPreferenceCreate(&preference);
    lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    if (lt.cublasLtMatmulAlgoGetHeuristic(handle, now.what, now.b, now.a, now.c, now.c, preference, ALGORITHMS, found,
                                          &count) != CUBLAS_STATUS_SUCCESS)
      continue;
    now.by_lt = true;
    for (int i = 0; i < count; i++) {
      now.algo = found[i].algo;
      consider(&best, &now, &least);
    }
  }
  *l = best;
  return least;
}

static bool launch(void *user, int i, cudaStream_t s) {
  contender *c = user;
  rdt_reason why;
  bool good = true;
  (void)i;
  if (c->c)
    return rdt_cuda_mlp_launch(c->c, c->x, c->y, (rdt_box_sum_to){c->board, c->board ? c->board + 1 : NULL}, s, &why) ==
           RDT_OK;
  for (int l = 0; l < c->n; l++) good = good && run_layer(&c->layers[l], s);
  return good;
}

/* Weights behind whose Relu results are as large as what goes in, however many layers there are. */
static void *weights(int64_t k, int64_t n) {
  static uint64_t seed = 7;
  const size_t count = (size_t)(k * n);
  const double scale = sqrt(24.0 / (double)k);
  rdt_reason why;
  void *p;
  uint16_t *host = malloc(count * sizeof *host);
  must(host && rdt_cuda_alloc(count * sizeof *host, &p, &why) == RDT_OK, "memory");
  for (size_t i = 0; i < count; i++) rdt_store(host, RDT_F16, (int64_t)i, (rdt_bench_uniform(&seed) - 0.5) * scale);
  must(rdt_cuda_put(p, host, count * sizeof *host, stream, &why) == RDT_OK, "memory");
  turns_must(cudaStreamSynchronize(stream), "memory");
  free(host);
  return p;
}

static void measure(FILE *f, const perceptron *p, int m, bool first) {
  enum { SIDES = 4 };
  layer layers[2][LAYERS]; /* as a whole, products alone */
  rdt_problem problems[LAYERS];
  const rdt_problem *list[LAYERS];
  rdt_reason why = {""};
  contender side[SIDES] = {{.name = "library"}, {.name = "products"}, {.name = "plain"}, {.name = "protected"}};
  void *x = operand((size_t)m * (size_t)p->width[0]), *first_x = x;
  int lts = 0;
  for (int i = 0; i < p->layers; i++) {
    const int64_t k = p->width[i], n = p->width[i + 1];
    layer *l = &layers[0][i];
    rdt_problem *q = &problems[i];
    *l = (layer){.m = m, .n = (int)n, .k = (int)k, .x = x};
    l->w = weights(k, n), l->w_turned = weights(k, n), l->bias = operand((size_t)n);
    x = l->y = operand((size_t)m * (size_t)n);
    layers[1][i] = *l;
    choose(l, true), choose(&layers[1][i], false);
    lts += layers[1][i].by_lt;
    must(rdt_problem_init(q, RDT_KOP_GEMM, 2) == RDT_OK, "a problem");
    q->in[0] = rdt_tensor_dense(l->x, RDT_F16, 2, (int64_t[]){m, k});
    q->in[1] = rdt_tensor_dense(l->w, RDT_F16, 2, (int64_t[]){k, n});
    q->out = rdt_tensor_dense(l->y, RDT_F16, 2, (int64_t[]){m, n});
    q->acc = RDT_F32, q->epilogue = RDT_EPILOGUE_NONE;
    q->epilogue.bias = rdt_tensor_dense(l->bias, RDT_F16, 1, &n);
    q->epilogue.act.fn = RDT_FN_RELU;
    list[i] = q;
  }
  rdt_cuda_mlp *own[2];
  void *board;
  must(rdt_cuda_alloc(16, &board, &why) == RDT_OK, "memory");
  for (int i = 0; i < 2; i++) side[i].layers = layers[i], side[i].n = p->layers;
  for (int i = 0; i < 2; i++) {
    const rdt_cuda_mlp_form form = {
        .protect = i == 1,
        .lambda = 6.0,
    };
    if (rdt_cuda_mlp_create(&device, list, p->layers, &form, stream, &own[i], NULL, &why) != RDT_OK)
      must(false, why.text);
    side[2 + i].c = own[i], side[2 + i].x = first_x, side[2 + i].y = x, side[2 + i].board = i ? board : NULL;
  }
  turns *one[SIDES], *many[SIDES];
  for (int i = 0; i < SIDES; i++) {
    must(turns_capture(&side[i].one, 1, launch, &side[i], stream), side[i].name);
    must(turns_capture(&side[i].many, REPEAT, launch, &side[i], stream), side[i].name);
    one[i] = &side[i].one, many[i] = &side[i].many;
  }
  turns_take(one, SIDES, WARM, TRIALS, stream);
  turns_take(many, SIDES, WARM, TRIALS, stream);
  rdt_cuda_verdict v;
  must(rdt_cuda_get(&v, rdt_cuda_mlp_verdict(own[1]), sizeof v, stream, &why) == RDT_OK, "verdict");
  const bool good = !v.suspect && !v.certain && !v.cannot;
  printf("%-13s %4d rows, clusters of %2d %2d for %2d %2d of them, %s%s\n", p->name, m, rdt_cuda_mlp_cluster(own[0]),
         rdt_cuda_mlp_cluster(own[1]), rdt_cuda_mlp_rows(own[0]), rdt_cuda_mlp_rows(own[1]),
         rdt_cuda_mlp_scheme(own[1]), good ? "" : " NOT CLEAN");
  if (f)
    fprintf(f, "%s\n  {\"workload\": \"%s\", \"rows\": %d, \"cluster\": %d, \"scheme\": \"%s\", \"clean\": %s",
            first ? "" : ",", p->name, m, rdt_cuda_mlp_cluster(own[1]), rdt_cuda_mlp_scheme(own[1]),
            good ? "true" : "false");
  for (int k = 0; k < 2; k++) {
    turns *const *t = k ? many : one;
    printf(
        "   %2d a graph: library %5.2f, products %5.2f (%d of %d by Lt), plain %5.2f, protected %5.2f us; to the "
        "library"
        " %.3f %.3f, to products %.3f %.3f, protected/plain %.3f\n",
        k ? REPEAT : 1, 1e6 * turns_at(t[0], 0.5), 1e6 * turns_at(t[1], 0.5), lts, p->layers, 1e6 * turns_at(t[2], 0.5),
        1e6 * turns_at(t[3], 0.5), turns_ratio(t[2], t[0]), turns_ratio(t[3], t[0]), turns_ratio(t[2], t[1]),
        turns_ratio(t[3], t[1]), turns_ratio(t[3], t[2]));
    if (f)
      fprintf(f, ", \"%s\": {\"us\": [%.3f, %.3f, %.3f, %.3f], \"to_library\": %.4f, \"to_products\": %.4f}",
              k ? "several" : "one", 1e6 * turns_at(t[0], 0.5), 1e6 * turns_at(t[1], 0.5), 1e6 * turns_at(t[2], 0.5),
              1e6 * turns_at(t[3], 0.5), turns_ratio(t[3], t[0]), turns_ratio(t[3], t[1]));
  }
  if (f) fprintf(f, "}");
  for (int i = 0; i < SIDES; i++) turns_free(&side[i].one), turns_free(&side[i].many);
  for (int i = 0; i < 2; i++) rdt_cuda_mlp_destroy(own[i]);
  for (int i = 0; i < p->layers; i++) {
    void *const all[] = {layers[0][i].x, layers[0][i].w, layers[0][i].w_turned, layers[0][i].bias};
    for (int j = 0; j < 4; j++) rdt_cuda_free(all[j]);
    rdt_problem_clear(&problems[i]);
  }
  rdt_cuda_free(x), rdt_cuda_free(board);
}

int main(int argc, char **argv) {
  char text[160];
  rdt_reason why;
  if (rdt_cuda_count(&why) == 0) return printf("skip: %s\n", why.text), 77;
  must(rdt_cuda_open(0, &device, &why) == RDT_OK, "cuda:0");
  if (device.major != 9) return printf("skip: chains of layers are for compute capability 9\n"), 77;
  turns_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  if (!(ex = cublas_open(text, sizeof text))) return printf("skip: no cuBLAS: %s\n", text), 77;
  bool all = true;
#define X(name) all = (*(void **)&lt.name = cublas_function(#name)) && all;
  LT_TABLE(X)
#undef X
  must(all && lt.cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS, "cuBLASLt");
  turns_must(cudaMalloc(&workspace, WORKSPACE), "workspace");
  FILE *f = turns_record(argc > 1 ? argv[1] : NULL, "bench-gpu-mlp", device.name);
  if (f)
    fprintf(
        f,
        ", \"library\": \"cuBLAS %s\", \"sides\": [\"library\", \"products\", \"plain\", \"protected\"], \"chains\": [",
        cublas_version(ex));
  for (size_t i = 0; i < sizeof perceptrons / sizeof *perceptrons; i++)
    for (size_t m = 0; m < 8 && perceptrons[i].rows[m]; m++)
      measure(f, &perceptrons[i], perceptrons[i].rows[m], i == 0 && m == 0);
  if (f) fprintf(f, "\n]}\n"), fclose(f);
  return 0;
}
