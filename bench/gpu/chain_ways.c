#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "cuda/sm80/gemm_mma.h"
#include "cuda/sm90/fused_wgmma.h"
#include "turns.h"

cublas_gemm chain_gemm(const chain_shape *s, bool transposed) {
  return (cublas_gemm){.m = s->m, .n = s->n, .k = s->k, .transposed = transposed, .in = RDT_F16, .out = RDT_F16};
}

/* ---- which there are ---- */

static chain_way *next(chain_way *list, int *n) {
  static chain_way none;
  if (*n == CHAIN_WAYS) return &none;
  list[*n] = (chain_way){.protect = false};
  return &list[(*n)++];
}

static void of_library(const chain_bench *b, const chain_shape *s, chain_way *list, int *n) {
  for (int transposed = 0; b->library && transposed < 2; transposed++) {
    const cublas_gemm g = chain_gemm(s, transposed != 0);
    const char *of = transposed ? " B^T" : "";
    chain_way *w = next(list, n);
    w->kind = CHAIN_EX, w->transposed = g.transposed;
    snprintf(w->name, sizeof w->name, "cublasGemmEx%s", of);
    const int count = cublas_lt_prepare(b->library, &g);
    for (int i = 0; i < count; i++) {
      w = next(list, n);
      w->kind = CHAIN_LT, w->number = i, w->transposed = g.transposed;
      snprintf(w->name, sizeof w->name, "cublasLt #%d%s", i, of);
    }
  }
}

static bool among(const char *name, const char *const *list) {
  for (; *list; list++)
    if (strcmp(name, *list) == 0) return true;
  return false;
}

/* In proportion, and with a check that is complete without a kernel of its own and finds what a plan asks for. */
static bool plausible(const rdt_cuda_kernel *k, const chain_shape *s, bool protect) {
  static const char *const registers[] = {"thread1", "replicate", "row", NULL}, *const large[] = {"row", NULL};
  const rdt_cuda_tile *t = k->tile;
  if (k->dtype != RDT_F16 || (strcmp(k->scheme, "none") == 0 ? protect : !protect)) return false;
  if (k->family == RDT_CUDA_MMA)
    return (!protect || among(k->scheme, registers)) && t->rows < 2 * s->m + 32 && s->m <= 256 * t->rows;
  return s->m >= 64 && (!protect || among(k->scheme, large)) && t->columns < 2 * s->n + 128;
}

static void of_kernel(const chain_bench *b, const rdt_cuda_kernel *k, const chain_shape *s, bool protect,
                      chain_way *list, int *n) {
  const rdt_cuda_tile *t = k->tile;
  const int64_t tiles = ((int64_t)(s->m + t->rows - 1) / t->rows) * ((s->n + t->columns - 1) / t->columns);
  const bool wide = k->family != RDT_CUDA_MMA;
  for (int i = 0; i < 2; i++) { /* orders of B; or how k is shared */
    const int splits = 2 * b->device.sms / (int)(tiles < 1 ? 1 : tiles < 1000 ? tiles : 1000);
    if (!wide && i && (splits < 2 || splits > 32 || s->k / splits < k->k)) break;
    chain_way *w = next(list, n);
    w->kind = CHAIN_OWN, w->kernel = k, w->protect = protect;
    w->transposed = wide && i, w->number = !wide && i ? splits : 0;
    snprintf(w->name, sizeof w->name, "%s%s", k->name + strlen("gemm_f16_"), i ? wide ? " B^T" : " more" : "");
  }
}

int chain_ways(const chain_bench *b, chain_side side, const chain_shape *s, chain_way *list) {
  int n = 0, kernels;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&kernels);
  const bool protect = side == CHAIN_PROTECTED;
  if (side == CHAIN_LIBRARY) {
    of_library(b, s, list, &n);
    return n;
  }
  for (int i = 0; i < kernels; i++)
    if (plausible(&table[i], s, protect)) of_kernel(b, &table[i], s, protect, list, &n);
  for (int i = 0; b->device.major == 9 && i < rdt_fused_wide_count; i++) {
    chain_way *w = next(list, &n);
    w->kind = CHAIN_FUSED, w->protect = protect, w->number = i;
    snprintf(w->name, sizeof w->name, "%s", rdt_fused_wide_kernels[i].name);
  }
  return n;
}

const char *chain_scheme(const chain_way *w) {
  if (!w->protect) return "none";
  return w->kind == CHAIN_OWN ? w->kernel->scheme : w->kind == CHAIN_RUN ? "replicate" : "row";
}

/* ---- one of them ---- */

rdt_operands chain_operands(const chain_layer *l, void *a, void *c, rdt_tensor in[2]) {
  const chain_shape *s = &l->shape;
  in[0] = rdt_tensor_matrix(a, RDT_F16, s->m, s->k, s->k, 0);
  in[1] = l->way.transposed ? rdt_tensor_matrix(l->weights, RDT_F16, s->n, s->k, s->k, 1)
                            : rdt_tensor_matrix(l->weights, RDT_F16, s->k, s->n, s->n, 0);
  return (rdt_operands){.in = in, .n_in = 2, .out = rdt_tensor_matrix(c, RDT_F16, s->m, s->n, s->n, 0)};
}

bool chain_make(const chain_bench *b, const chain_way *way, const chain_shape *s, void *weights, void *const trial[2],
                const chain_layer *like, chain_layer *l) {
  rdt_problem p;
  rdt_reason why = {""};
  rdt_tensor in[2];
  rdt_status status = RDT_OK;
  *l = (chain_layer){.shape = *s, .way = *way, .weights = weights, .length = 1};
  if (way->kind == CHAIN_EX || way->kind == CHAIN_LT) return true;
  const rdt_operands o = chain_operands(l, trial[0], trial[1], in);
  if (rdt_problem_init(&p, RDT_KOP_GEMM, 2) != RDT_OK) exit(2);
  p.in[0] = in[0], p.in[1] = in[1], p.out = o.out, p.acc = RDT_F32;
  if (way->kind == CHAIN_OWN)
    status = rdt_cuda_gemm_create(way->kernel, &b->device, &p, 6.0, way->number, b->stream, &l->gemm, &why);
  else {
    const rdt_box_wide_form form = {.protect = way->protect, .tile = way->number, .like = like ? like->fused : NULL};
    status = rdt_box_wide_create_as(&b->device, &p, &form, 6.0, &o, b->stream, &l->fused, &why);
  }
  rdt_problem_clear(&p);
  if (status == RDT_OK && l->fused) snprintf(l->way.name, sizeof l->way.name, "%s", rdt_box_wide_kernel(l->fused));
  if (status != RDT_OK && status != RDT_ERR_UNSUPPORTED)
    fprintf(stderr, "gpu-bench: %s: %s\n", way->name, why.text), exit(3);
  return status == RDT_OK;
}

bool chain_make_run(const chain_bench *b, bool protect, const chain_shape *shapes, void *const *weights, int length,
                    void *const trial[2], chain_layer *l) {
  const rdt_cuda_mlp_form form = {.protect = protect, .lambda = 6.0, .scheme = "replicate", .rows = 32 | 64};
  rdt_problem p[RDT_CUDA_MLP_LAYERS];
  const rdt_problem *list[RDT_CUDA_MLP_LAYERS];
  rdt_reason why = {""};
  if (length < 1 || length > RDT_CUDA_MLP_LAYERS) return false;
  *l = (chain_layer){.shape = {shapes[0].m, shapes[length - 1].n, shapes[0].k},
                     .way = {.kind = CHAIN_RUN, .number = length, .protect = protect},
                     .length = length,
                     .shapes = shapes};
  for (int i = 0; i < length; i++) {
    const chain_shape *s = &shapes[i];
    if (rdt_problem_init(&p[i], RDT_KOP_GEMM, 2) != RDT_OK) exit(2);
    p[i].in[0] = rdt_tensor_matrix(trial[i % 2], RDT_F16, s->m, s->k, s->k, 0);
    p[i].in[1] = rdt_tensor_matrix(weights[i], RDT_F16, s->k, s->n, s->n, 0);
    p[i].out = rdt_tensor_matrix(trial[1 - i % 2], RDT_F16, s->m, s->n, s->n, 0);
    p[i].acc = RDT_F32;
    list[i] = &p[i];
  }
  const rdt_status status = rdt_cuda_mlp_create(&b->device, list, length, &form, b->stream, &l->run, NULL, &why);
  for (int i = 0; i < length; i++) rdt_problem_clear(&p[i]);
  if (status != RDT_OK && status != RDT_ERR_UNSUPPORTED) fprintf(stderr, "gpu-bench: a run: %s\n", why.text), exit(3);
  if (status == RDT_OK)
    snprintf(l->way.name, sizeof l->way.name, "%s %d rows", rdt_cuda_mlp_kernel(l->run), rdt_cuda_mlp_rows(l->run));
  return status == RDT_OK;
}

bool chain_launch(const chain_bench *b, const chain_layer *l, void *a, void *c, cudaStream_t stream) {
  const chain_shape *s = &l->shape;
  rdt_reason why = {""};
  rdt_tensor in[2];
  const rdt_operands o = chain_operands(l, a, c, in);
  const cublas_gemm g = chain_gemm(s, l->way.transposed);
  rdt_status status = RDT_OK;
  switch (l->way.kind) {
    case CHAIN_EX:
      return cublas_ex(b->library, &g, a, l->weights, c, stream);
    case CHAIN_LT: /* the same algorithms each time */
      return cublas_lt_prepare(b->library, &g) > l->way.number &&
             cublas_lt(b->library, l->way.number, a, l->weights, c, stream);
    case CHAIN_OWN:
      status = rdt_cuda_gemm_run(l->gemm, &o, stream, &why);
      break;
    case CHAIN_FUSED:
      status = rdt_box_wide_launch(l->fused, &o, stream, &why);
      break;
    case CHAIN_RUN:
      status = rdt_cuda_mlp_launch(l->run, a, c, (rdt_box_sum_to){NULL, NULL}, stream, &why);
      break;
  }
  if (status != RDT_OK) fprintf(stderr, "gpu-bench: %s: %s\n", l->way.name, why.text);
  return status == RDT_OK;
}

void chain_tell(const chain_layer *l, rdt_cuda_verdict *to) {
  if (l->gemm) rdt_cuda_gemm_tell(l->gemm, to);
  if (l->fused) rdt_box_wide_tell(l->fused, to);
  if (l->run) rdt_cuda_mlp_tell(l->run, to);
}

bool chain_leaves_sums(const chain_way *w) {
  return w->protect && w->kind == CHAIN_OWN && w->kernel->family == RDT_CUDA_WGMMA && w->kernel->check == RDT_MMA_SUMS;
}

void chain_drop(chain_layer *l) {
  rdt_cuda_gemm_destroy(l->gemm), rdt_box_wide_destroy(l->fused), rdt_cuda_mlp_destroy(l->run);
  l->gemm = NULL, l->fused = NULL, l->run = NULL;
}
