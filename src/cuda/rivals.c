#include "cuda/rivals.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/gemm_ex.h"
#include "cuda/kernel.h"
#include "cuda/linear.h"
#include "cuda/sms.h"
#include "cuda/trial.h"
#include "cuda/ways.h"

/* Of the bound of suspicion, where only times are asked for. */
static const double usual_lambda = 6.0;
enum { MOST_RUNS = 40, NUMBERS = 1048573 /* more than a row is long, no power of two: rows differ */ };
static const size_t WORKSPACE = (size_t)32 << 20;
/* A replay takes that long, about: what comes before the first launch of a graph is a per cent of it or two. */
static const double REPLAY = 120e-6, LAUNCH = 1.8e-6, BYTES = 4e12, FLOPS = 700e12;

typedef enum kind { OWN, WAY, LT, EX } kind;

typedef struct entrant {
  rdt_rival name;
  kind kind;
  bool transposed;
  const rdt_cuda_kernel *kernel; /* OWN */
  int splits;
  const char *way; /* WAY */
  rdt_cuda_gemm *gemm;
  rdt_cuda_linear *linear;
  rdt_blas *blas;
  cudaGraphExec_t graph;
} entrant;

struct rdt_rivals {
  const rdt_cuda_device *d;
  double lambda;
  rdt_problem p[2]; /* with B as k x n, and as n x k */
  rdt_tensor in[2][2];
  rdt_operands o[2];
  void *a, *b, *c, *workspace;
  int runs; /* launches of a graph */
  entrant *list;
  int n;
  cudaStream_t stream;
  cudaEvent_t start, stop;
};

/* ---- operands ---- */

/* Uniform with variance 1, of one datatype a process; NULL: no memory. */
static const char *numbers_of(rdt_dtype t) {
  static char *numbers[RDT_DTYPE_COUNT];
  uint64_t seed = 1;
  if (numbers[t] || !(numbers[t] = rdt_alloc(2 * (size_t)NUMBERS, rdt_dtype_size(t)))) return numbers[t];
  for (int64_t i = 0; i < 2 * (int64_t)NUMBERS; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    rdt_store(numbers[t], t, i, ((double)(seed >> 40) * 0x1p-24 - 0.5) * 3.4641);
  }
  return numbers[t];
}

/* Some of them from a place on, again and again. */
static rdt_status fill(void *to, rdt_dtype t, size_t count, size_t from, cudaStream_t stream, rdt_reason *why) {
  const size_t some = count < NUMBERS ? count : NUMBERS, size = rdt_dtype_size(t);
  const char *numbers = numbers_of(t);
  if (!numbers) return rdt_fail(why, RDT_ERR_NOMEM, "numbers to measure with: out of memory");
  RDT_TRY(rdt_cuda_put(to, numbers + from * size, some * size, stream, why));
  for (size_t done = some; done < count; done *= 2) /* what is there, once more behind it */
    RDT_TRY(
        rdt_cuda_move((char *)to + done * size, to, (count - done < done ? count - done : done) * size, stream, why));
  return rdt_cuda_wait(stream, why);
}

static int runs_for(double m, double n, double k) {
  const double bytes = 2.0 * (m * k + k * n + m * n), least = fmax(bytes / BYTES, 2.0 * m * n * k / FLOPS) + LAUNCH;
  return (int)fmin(MOST_RUNS, ceil(REPLAY / least));
}

static rdt_status take_memory(rdt_rivals *r, const rdt_problem *p, rdt_reason *why) {
  const rdt_dtype t = p->in[0].dtype;
  const int64_t m = p->out.shape[0], n = p->out.shape[1], k = p->in[0].shape[1];
  const size_t size = rdt_dtype_size(t);
  RDT_TRY(rdt_cuda_alloc((size_t)(m * k) * size, &r->a, why));
  RDT_TRY(rdt_cuda_alloc((size_t)(k * n) * size, &r->b, why));
  RDT_TRY(rdt_cuda_alloc((size_t)(m * n) * size, &r->c, why));
  RDT_TRY(rdt_cuda_alloc(WORKSPACE, &r->workspace, why));
  RDT_TRY(fill(r->a, t, (size_t)(m * k), 0, r->stream, why));
  RDT_TRY(fill(r->b, t, (size_t)(k * n), NUMBERS, r->stream, why));
  r->runs = runs_for((double)m, (double)n, (double)k);
  for (int i = 0; i < 2; i++) {
    if (rdt_problem_init(&r->p[i], RDT_KOP_GEMM, 2) != RDT_OK) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
    r->in[i][0] = rdt_tensor_matrix(r->a, t, m, k, k, 0);
    r->in[i][1] = i ? rdt_tensor_matrix(r->b, t, n, k, k, 1) : rdt_tensor_matrix(r->b, t, k, n, n, 0);
    r->o[i] = (rdt_operands){.in = r->in[i], .n_in = 2, .out = rdt_tensor_matrix(r->c, t, m, n, n, 0)};
    for (int j = 0; j < 2; j++) r->p[i].in[j] = r->in[i][j];
    r->p[i].in[0].data = NULL;
    r->p[i].out = r->o[i].out;
    r->p[i].out.data = NULL;
    r->p[i].acc = RDT_F32;
  }
  return RDT_OK;
}

/* ---- who there is ---- */

static rdt_status add(rdt_rivals *r, const entrant *e) {
  entrant *grown = rdt_grow(r->list, (size_t)r->n, (size_t)r->n + 1, sizeof *grown);
  if (!grown) return RDT_ERR_NOMEM;
  r->list = grown;
  grown[r->n++] = *e;
  return RDT_OK;
}

/* Small tiles of large products are far behind. */
static bool is_plausible(const rdt_cuda_kernel *k, const rdt_problem *p) {
  const int64_t m = p->out.shape[0], n = p->out.shape[1], most = (int64_t)1 << 19;
  if (k->family == RDT_CUDA_TALL) return m >= 4096;
  if (k->family != RDT_CUDA_MMA) return true;
  if (!rdt_cuda_kernel_competes(k)) return false;
  return k->tile->rows < 4 * m + 64 && (k->tile->rows > 16 || m * n <= most) &&
         (k->tile->rows > 32 || m * n <= 4 * most);
}

static rdt_status add_kernel(rdt_rivals *r, const rdt_cuda_kernel *k, bool transposed, int splits, rdt_rival_kind as) {
  entrant e = {.kind = OWN,
               .kernel = k,
               .transposed = transposed,
               .splits = splits,
               .name = {.kind = as, .scheme = k->scheme, .fused = strcmp(k->scheme, "none") != 0}};
  char more[16] = "";
  if (splits > 1) snprintf(more, sizeof more, "_s%d", splits);
  snprintf(e.name.kernel, sizeof e.name.kernel, "%s%s%s%s", k->name, transposed ? "_t" : "", more,
           rdt_rival_suffix(as));
  return add(r, &e);
}

static rdt_status add_own(rdt_rivals *r, const rdt_cuda_kernel *k) {
  for (int i = 0; i < 2; i++) {
    const bool wide = k->family == RDT_CUDA_WGMMA;
    if ((i && !wide) || !is_plausible(k, &r->p[i]) || rdt_cuda_gemm_accept(k, &r->p[i], NULL) != RDT_OK) continue;
    const int usual = rdt_cuda_gemm_usual_splits(k, r->d, &r->p[i]);
    for (int splits = usual; splits == usual || (usual > 1 && splits == usual / 2); splits /= 2) {
      if (strcmp(k->scheme, "global-classic") == 0) { /* alone, it would have a pass over A as well */
        RDT_TRY(add_kernel(r, k, i, splits, RDT_RIVAL_CHAINED));
        RDT_TRY(add_kernel(r, k, i, splits, RDT_RIVAL_UNCOMPARED));
      } else {
        RDT_TRY(add_kernel(r, k, i, splits, RDT_RIVAL_OWN));
      }
      if (splits == 1) break;
    }
  }
  return RDT_OK;
}

static rdt_status add_way(rdt_rivals *r, const char *way, const char *scheme, rdt_rival_kind as) {
  const bool fused = as == RDT_RIVAL_OWN && strcmp(scheme, "none") != 0;
  entrant e = {.kind = WAY, .way = way, .name = {.kind = as, .scheme = scheme, .fused = fused}};
  snprintf(e.name.kernel, sizeof e.name.kernel, "%s", way); /* until it is made ready */
  return add(r, &e);
}

static rdt_status add_library(rdt_rivals *r, kind of, bool transposed, const char *kernel) {
  entrant e = {.kind = of, .transposed = transposed, .name = {.kind = RDT_RIVAL_LIBRARY, .scheme = "none"}};
  snprintf(e.name.kernel, sizeof e.name.kernel, "%s%s", kernel, transposed ? "_t" : "");
  return add(r, &e);
}

/* All ways but own products, which are in the list kernel by kernel; the library unprotected is too. Protected, those
 * whose launch checks, and as the one whose check is apart the library: it is the fastest of these. */
static rdt_status add_ways(rdt_rivals *r) {
  int n;
  const rdt_way *ways = rdt_ways(&n);
  for (int i = 0; i < n; i++) {
    const bool box = strcmp(ways[i].name, "product") == 0;
    if (ways[i].kernels || strcmp(ways[i].name, "conv") == 0 || strcmp(ways[i].name, "folded") == 0) continue;
    if (!box) RDT_TRY(add_way(r, ways[i].name, "none", RDT_RIVAL_OWN));
    if (box || ways[i].inside || !ways[i].check)
      RDT_TRY(add_way(r, ways[i].name, "row", box ? RDT_RIVAL_BOX : RDT_RIVAL_OWN));
  }
  return RDT_OK;
}

static rdt_status list_all(rdt_rivals *r) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int t = 0; t < 2; t++) {
    RDT_TRY(add_library(r, EX, t, "cublas_gemm_ex"));
    RDT_TRY(add_library(r, LT, t, "cublaslt"));
  }
  for (int i = 0; i < n; i++)
    if (table[i].dtype == r->p[0].in[0].dtype) RDT_TRY(add_own(r, &table[i]));
  return add_ways(r);
}

rdt_status rdt_rivals_open(const rdt_cuda_device *d, const rdt_problem *p, double lambda, rdt_rivals **out,
                           rdt_reason *why) {
  *out = NULL;
  if (p->op != RDT_KOP_GEMM || p->out.rank != 2 || !rdt_dtype_is_half(p->in[0].dtype))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "plans of a GPU are of products of f16 and bf16 (--dtype f16), not of this %s of %s",
                    rdt_problem_name(p), rdt_dtype_name(p->in[0].dtype));
  rdt_rivals *r = rdt_calloc(1, sizeof *r);
  if (!r) return rdt_fail(why, RDT_ERR_NOMEM, "rivals: out of memory");
  r->d = d, r->lambda = lambda;
  rdt_status s = rdt_cuda_status(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking), "a stream", why);
  if (s == RDT_OK) s = rdt_cuda_status(cudaEventCreate(&r->start), "an event", why);
  if (s == RDT_OK) s = rdt_cuda_status(cudaEventCreate(&r->stop), "an event", why);
  if (s == RDT_OK) s = take_memory(r, p, why);
  if (s == RDT_OK && list_all(r) != RDT_OK) s = rdt_fail(why, RDT_ERR_NOMEM, "rivals: out of memory");
  if (s == RDT_OK)
    *out = r;
  else
    rdt_rivals_close(r);
  return s;
}

int rdt_rivals_count(const rdt_rivals *r) {
  return r->n;
}

const rdt_rival *rdt_rivals_at(const rdt_rivals *r, int i) {
  return &r->list[i].name;
}

/* ---- launches ---- */

static rdt_blas_product product_of(const rdt_problem *p) {
  const rdt_tensor *a = &p->in[0], *b = &p->in[1];
  return (rdt_blas_product){.in = {a->dtype, b->dtype},
                            .out = p->out.dtype,
                            .m = p->out.shape[0],
                            .n = p->out.shape[1],
                            .k = a->shape[1],
                            .batches = 1,
                            .a = {a->stride[0], a->stride[1]},
                            .b = {b->stride[0], b->stride[1]},
                            .c = p->out.stride[0],
                            .alpha = 1.0};
}

static rdt_status launch(rdt_rivals *r, entrant *e, void *stream, rdt_reason *why) {
  const rdt_operands *o = &r->o[e->transposed];
  const rdt_blas_operands of = {.a = r->a, .b = r->b, .c = r->c};
  const rdt_blas_product p = product_of(&r->p[e->transposed]);
  switch (e->kind) {
    case OWN:
      return rdt_cuda_gemm_run(e->gemm, o, stream, why);
    case LT:
      return rdt_blas_launch(e->blas, &of, stream, why);
    case EX:
      return rdt_gemm_ex(&p, &of, r->workspace, WORKSPACE, stream, why);
    default: {
      const rdt_cuda_linear_task t = {e->linear, *o, {NULL, NULL}, {NULL, NULL}};
      RDT_TRY(rdt_cuda_linear_launch(e->linear, o, t.to, stream, why));
      const bool apart = strcmp(e->name.scheme, "none") != 0 && !rdt_cuda_linear_inside(e->linear);
      return apart ? rdt_cuda_linear_check(&t, 1, stream, why) : RDT_OK;
    }
  }
}

static rdt_status make(rdt_rivals *r, entrant *e, rdt_reason *why) {
  const rdt_problem *p = &r->p[e->transposed];
  const rdt_blas_product product = product_of(p);
  const rdt_blas_operands trial = {.a = r->a, .b = r->b, .c = r->c};
  switch (e->kind) {
    case OWN:
      RDT_TRY(rdt_cuda_gemm_create(e->kernel, r->d, p, r->lambda, e->splits, r->stream, &e->gemm, why));
      if (e->name.kind == RDT_RIVAL_OWN) return RDT_OK;
      RDT_TRY(launch(r, e, r->stream, why)); /* leaves the sums of A */
      return rdt_cuda_gemm_as_published(e->gemm, e->name.kind == RDT_RIVAL_CHAINED, why);
    case LT:
      return rdt_blas_create(&product, &trial, r->stream, &e->blas, why);
    case EX:
      return RDT_OK;
    default:
      RDT_TRY(rdt_cuda_linear_create_by(r->d, p, e->name.scheme, e->way, r->lambda, r->stream, &e->linear, why));
      snprintf(e->name.kernel, sizeof e->name.kernel, "%s", rdt_cuda_linear_kernel(e->linear));
      return RDT_OK;
  }
}

static rdt_status capture(rdt_rivals *r, entrant *e, rdt_reason *why) {
  cudaGraph_t graph = NULL;
  RDT_TRY(launch(r, e, r->stream, why)); /* loads what is loaded at first use */
  RDT_TRY(rdt_cuda_wait(r->stream, why));
  RDT_TRY(rdt_cuda_status(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), "capture", why));
  rdt_status s = RDT_OK;
  for (int i = 0; s == RDT_OK && i < r->runs; i++) s = launch(r, e, r->stream, why);
  const cudaError_t error = cudaStreamEndCapture(r->stream, &graph);
  if (s == RDT_OK) s = rdt_cuda_status(error, "capture", why);
  if (s == RDT_OK) s = rdt_cuda_status(cudaGraphInstantiate(&e->graph, graph, 0), "a graph", why);
  if (s != RDT_OK) e->graph = NULL;
  if (graph) (void)cudaGraphDestroy(graph);
  return s;
}

rdt_status rdt_rivals_ready(rdt_rivals *r, int i, rdt_reason *why) {
  entrant *e = &r->list[i];
  if (e->graph) return RDT_OK;
  rdt_status s = make(r, e, why);
  if (s == RDT_OK) s = capture(r, e, why);
  if (s != RDT_OK) rdt_rivals_drop(r, i);
  return s;
}

/* The device is still busy with the replay before when the clock is started behind it: else the way from the host to
 * the first launch, some 10 us, would be part of the time. */
rdt_status rdt_rivals_run(rdt_rivals *r, int i, int runs, double *seconds, rdt_reason *why) {
  const int replays = runs > r->runs ? (runs + r->runs - 1) / r->runs : 1;
  float ms = 0.0f;
  const bool behind = runs > 1 && r->runs > 1;
  cudaError_t e = behind ? cudaGraphLaunch(r->list[i].graph, r->stream) : cudaSuccess;
  if (e == cudaSuccess) e = cudaEventRecord(r->start, r->stream);
  for (int k = 0; e == cudaSuccess && k < replays; k++) e = cudaGraphLaunch(r->list[i].graph, r->stream);
  if (e == cudaSuccess) e = cudaEventRecord(r->stop, r->stream);
  if (e == cudaSuccess) e = cudaEventSynchronize(r->stop);
  if (e == cudaSuccess) e = cudaEventElapsedTime(&ms, r->start, r->stop);
  *seconds = 1e-3 * (double)ms / ((double)replays * r->runs);
  return rdt_cuda_status(e, r->list[i].name.kernel, why);
}

rdt_status rdt_rivals_complaints(rdt_rivals *r, int i, unsigned *complaints, rdt_reason *why) {
  rdt_cuda_verdict v = {0};
  const entrant *e = &r->list[i];
  *complaints = 0;
  if (e->gemm)
    RDT_TRY(rdt_cuda_gemm_verdict(e->gemm, r->stream, &v, why));
  else if (e->linear && strcmp(e->name.scheme, "none") != 0)
    RDT_TRY(rdt_cuda_get(&v, rdt_cuda_linear_verdict(e->linear), sizeof v, r->stream, why));
  *complaints = v.suspect + v.certain + v.cannot;
  return RDT_OK;
}

void rdt_rivals_drop(rdt_rivals *r, int i) {
  entrant *e = &r->list[i];
  if (e->graph) (void)cudaGraphExecDestroy(e->graph);
  rdt_cuda_gemm_destroy(e->gemm);
  rdt_cuda_linear_destroy(e->linear);
  rdt_blas_destroy(e->blas);
  e->graph = NULL, e->gemm = NULL, e->linear = NULL, e->blas = NULL;
}

void rdt_rivals_close(rdt_rivals *r) {
  if (!r) return;
  for (int i = 0; i < r->n; i++) rdt_rivals_drop(r, i);
  rdt_free(r->list);
  void *const all[] = {r->a, r->b, r->c, r->workspace};
  for (int i = 0; i < 4; i++) rdt_cuda_free(all[i]);
  for (int i = 0; i < 2; i++) rdt_problem_clear(&r->p[i]);
  if (r->start) (void)cudaEventDestroy(r->start);
  if (r->stop) (void)cudaEventDestroy(r->stop);
  if (r->stream) (void)cudaStreamDestroy(r->stream);
  rdt_free(r);
}

/* ---- what the device does at most ---- */

typedef struct copied {
  void *from, *to;
  size_t bytes;
} copied;

static rdt_status copy(void *user, void *stream, rdt_reason *why) {
  const copied *c = user;
  return rdt_cuda_move(c->to, c->from, c->bytes, stream, why);
}

static rdt_status measure_copy(double *bandwidth, rdt_reason *why) {
  copied c = {.bytes = (size_t)1 << 30};
  double seconds;
  RDT_TRY(rdt_cuda_alloc(c.bytes, &c.from, why));
  rdt_status s = rdt_cuda_alloc(c.bytes, &c.to, why);
  if (s == RDT_OK) s = rdt_cuda_trial(copy, &c, NULL, &seconds, why);
  rdt_cuda_free(c.from), rdt_cuda_free(c.to);
  if (s == RDT_OK) *bandwidth = 2.0 * (double)c.bytes / seconds;
  return s;
}

/* Of the best of cuBLASLt: seconds of a product. */
static rdt_status measure_product(const rdt_cuda_device *d, rdt_dtype t, int64_t m, int64_t n, int64_t k, double *least,
                                  rdt_reason *why) {
  enum { TRIALS = 5 };
  rdt_problem p;
  rdt_rivals *r;
  *least = INFINITY;
  if (rdt_problem_init(&p, RDT_KOP_GEMM, 2) != RDT_OK) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  p.in[0] = rdt_tensor_matrix(NULL, t, m, k, k, 0);
  p.in[1] = rdt_tensor_matrix(NULL, t, k, n, n, 0);
  p.out = rdt_tensor_matrix(NULL, t, m, n, n, 0);
  rdt_status s = rdt_rivals_open(d, &p, usual_lambda, &r, why);
  rdt_problem_clear(&p);
  if (s != RDT_OK) return s;
  for (int i = 0; i < r->n && s == RDT_OK; i++) {
    double seconds;
    if (r->list[i].kind != LT) continue;
    s = rdt_rivals_ready(r, i, why);
    for (int j = 0; s == RDT_OK && j < TRIALS; j++) {
      s = rdt_rivals_run(r, i, 1, &seconds, why);
      if (s == RDT_OK) *least = fmin(*least, seconds);
    }
  }
  rdt_rivals_close(r);
  return s;
}

/* Operations by a large square; bytes by a copy within memory or by a product that reads one large operand, whichever
 * has more: layers read more than they write. */
static rdt_status measure_roof(const rdt_cuda_device *d, rdt_dtype t, rdt_track *track, rdt_reason *why) {
  const double side = 4096.0, rows = 1 << 20, depth = 512.0;
  double seconds;
  RDT_TRY(measure_copy(&track->bandwidth, why));
  RDT_TRY(measure_product(d, t, (int64_t)rows, 8, (int64_t)depth, &seconds, why));
  track->bandwidth = fmax(track->bandwidth, 2.0 * (rows * depth + rows * 8.0) / seconds);
  RDT_TRY(measure_product(d, t, (int64_t)side, (int64_t)side, (int64_t)side, &seconds, why));
  track->flops = 2.0 * side * side * side / seconds;
  return RDT_OK;
}

/* ---- the track ---- */

typedef struct place {
  rdt_cuda_device d;
  double lambda;
  char bus[32];
} place;

static rdt_status track_open(void *user, const rdt_problem *p, void **race, rdt_reason *why) {
  const place *x = user;
  rdt_rivals *r = NULL;
  const rdt_status s = rdt_rivals_open(&x->d, p, x->lambda, &r, why);
  *race = r;
  return s;
}

static int track_count(const void *race) {
  return rdt_rivals_count(race);
}

static const rdt_rival *track_at(const void *race, int i) {
  return rdt_rivals_at(race, i);
}

static rdt_status track_ready(void *race, int i, rdt_reason *why) {
  return rdt_rivals_ready(race, i, why);
}

static rdt_status track_run(void *race, int i, int runs, double *seconds, rdt_reason *why) {
  return rdt_rivals_run(race, i, runs, seconds, why);
}

static rdt_status track_complaints(void *race, int i, unsigned *complaints, rdt_reason *why) {
  return rdt_rivals_complaints(race, i, complaints, why);
}

static void track_drop(void *race, int i) {
  rdt_rivals_drop(race, i);
}

static void track_close(void *race) {
  rdt_rivals_close(race);
}

static void track_clock(void *user, double *mhz, double *celsius) {
  rdt_cuda_sense(((const place *)user)->bus, mhz, celsius);
}

static void track_end(void *user) {
  rdt_free(user);
}

rdt_status rdt_track_open(int device, rdt_dtype t, double lambda, rdt_track *track, rdt_reason *why) {
  *track = (rdt_track){.open = track_open,
                       .count = track_count,
                       .at = track_at,
                       .ready = track_ready,
                       .run = track_run,
                       .complaints = track_complaints,
                       .drop = track_drop,
                       .close = track_close,
                       .clock = track_clock,
                       .end = track_end};
  place *x = rdt_calloc(1, sizeof *x);
  if (!x) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  track->user = x;
  x->lambda = lambda;
  rdt_status s = rdt_cuda_open(device, &x->d, why);
  if (s == RDT_OK) s = rdt_blas_version(&track->library, why);
  if (s == RDT_OK) s = measure_roof(&x->d, t, track, why);
  if (s == RDT_OK) s = rdt_cuda_status(cudaDeviceGetPCIBusId(x->bus, sizeof x->bus, device), "the device's bus", why);
  snprintf(track->name, sizeof track->name, "%s", x->d.name);
  track->major = x->d.major, track->minor = x->d.minor, track->sms = x->d.sms, track->driver = x->d.driver;
  if (s != RDT_OK) rdt_track_close(track);
  return s;
}
