#include "cuda/mlp_wgmma.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/early.h"
#include "cuda/trial.h"

typedef struct plan { /* of a number of rows */
  rdt_mlpw_args args;
  int size, shared; /* row of rdt_mlpw_code; bytes of a block */
} plan;

struct rdt_mlpw {
  plan plan;
  rdt_mlpw_pack_args pack[RDT_MLPW_LAYERS];
  rdt_dtype type;
  bool protect;
  rdt_cuda_verdict *verdict;
  void *memory; /* all copies */
};

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}

static int rows_of(int size) {
  return 32 << size;
}

static const void *code_of(const rdt_mlpw *c, const plan *p) {
  return rdt_mlpw_code[p->size][c->protect][c->type == RDT_BF16];
}

/* ---- making ready ---- */

static rdt_mlpw_layer layer_of(const rdt_problem *p) {
  const rdt_act *act = &p->epilogue.act;
  const bool relu = act->fn == RDT_FN_RELU, clip = act->fn == RDT_FN_CLIP, none = act->fn == RDT_FN_NONE;
  return (rdt_mlpw_layer){
      .chunks = (uint16_t)up(p->in[1].shape[0], RDT_MLPW_TILE),
      .tiles = (uint16_t)up(p->in[1].shape[1], RDT_MLPW_TILE),
      .act = relu || clip ? RDT_FN_NONE : (int)act->fn,
      .p = relu   ? 0.0f
           : none ? -INFINITY
                  : (float)act->param[0],
      .q = relu || none ? INFINITY : (float)act->param[1],
  };
}

/* All that does not depend on the number of rows, but for addresses. */
static rdt_status describe(rdt_mlpw *c, const rdt_mlpw_chain *of, rdt_reason *why) {
  rdt_mlpw_args *a = &c->plan.args;
  *a = (rdt_mlpw_args){.m = of->m, .layers = of->n, .ldx = of->ldx, .ldo = of->ldo};
  if (of->n > RDT_MLPW_LAYERS) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "a chain of 1 to 16 layers");
  for (int i = 0; i < of->n; i++) {
    const rdt_tensor *w = &of->p[i]->in[1], *bias = &of->p[i]->epilogue.bias;
    if (w->shape[0] > RDT_MLPW_CHUNKS * RDT_MLPW_TILE || w->shape[1] > RDT_MLPW_TILES * RDT_MLPW_TILE)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "layer %d of a chain: too many inputs or neurons", i);
    rdt_mlpw_layer *l = &a->layer[i];
    *l = layer_of(of->p[i]);
    c->pack[i] = (rdt_mlpw_pack_args){.row = w->stride[0],
                                      .column = w->stride[1],
                                      .k = (int)w->shape[0],
                                      .n = (int)w->shape[1],
                                      .chunks = l->chunks,
                                      .bias = bias->rank >= 0 ? bias->data : NULL,
                                      .bias_type = (int)bias->dtype};
    a->tiles += l->tiles, a->pieces += l->tiles * l->chunks;
  }
  a->k = c->pack[0].k, a->n = c->pack[of->n - 1].n;
  if (a->tiles > RDT_MLPW_TILES)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "more than %d neurons of a chain", RDT_MLPW_TILES * RDT_MLPW_TILE);
  return RDT_OK;
}

/* What is where in the shared memory of blocks of so many rows. */
static rdt_status place(plan *p, const rdt_cuda_device *d, bool protect, rdt_reason *why) {
  rdt_mlpw_args *a = &p->args;
  const int chunk = 2 * RDT_MLPW_TILE * rows_of(p->size), apart = (int)d->shared / 2 + 1024;
  int most = 0, wide[2] = {0, 0}; /* pieces of a layer; widths that even and odd ones read */
  for (int i = 0; i <= a->layers; i++) {
    const int in = i < a->layers ? a->layer[i].chunks : a->layer[i - 1].tiles;
    const int pieces = i < a->layers ? a->layer[i].chunks * a->layer[i].tiles : 0;
    most = pieces > most ? pieces : most, wide[i % 2] = in > wide[i % 2] ? in : wide[i % 2];
  }
  const int fixed = (wide[0] + wide[1]) * chunk + 4 * RDT_MLPW_TILE * a->tiles + 64 * a->tiles + RDT_MLPW_FULL;
  const int room = ((int)d->shared - fixed) / (RDT_MLPW_PIECE + 16);
  a->slots = room < a->pieces ? room : a->pieces;
  if (a->slots < most)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "a layer has more weights than the shared memory of a block holds");
  a->inputs[0] = a->slots * RDT_MLPW_PIECE;
  a->inputs[1] = a->inputs[0] + wide[0] * chunk;
  a->bias = a->inputs[1] + wide[1] * chunk;
  a->said = a->bias + 4 * RDT_MLPW_TILE * a->tiles;
  a->rest = a->said + 64 * a->tiles;
  p->shared = a->rest + RDT_MLPW_FULL + 16 * a->slots;
  if (protect && p->shared < apart) p->shared = apart; /* both blocks of a cluster on one multiprocessor: they cannot */
  return RDT_OK;
}

rdt_status rdt_mlpw_renew(const rdt_mlpw *c, const void *const *weights, void *stream, rdt_reason *why) {
  for (int i = 0; i < c->plan.args.layers; i++) {
    rdt_mlpw_pack_args p = c->pack[i];
    void *arguments[] = {&p};
    const dim3 grid = {(unsigned)(p.chunks * c->plan.args.layer[i].tiles), c->protect ? 2 : 1, 1}, block = {256, 1, 1};
    p.w = weights[i];
    RDT_TRY(
        rdt_cuda_status(cudaLaunchKernel(rdt_mlpw_pack, grid, block, arguments, 0, stream), "weights of a chain", why));
  }
  return RDT_OK;
}

static rdt_status copy_weights(rdt_mlpw *c, const rdt_mlpw_chain *of, void *stream, rdt_reason *why) {
  rdt_mlpw_args *a = &c->plan.args;
  const int64_t biases = 4 * RDT_MLPW_TILE * (int64_t)a->tiles,
                bytes = up(biases + (int64_t)RDT_MLPW_PIECE * a->pieces, 256) * 256;
  const void *weights[RDT_MLPW_LAYERS];
  void *memory;
  int tiles = 0, pieces = 0;
  RDT_TRY(rdt_cuda_alloc((size_t)(c->protect ? 2 * bytes : bytes), &memory, why));
  c->memory = memory;
  for (int i = 0; i < 2; i++) a->copy[i] = (char *)memory + (c->protect ? i * bytes : 0);
  for (int i = 0; i < of->n; i++) {
    rdt_mlpw_pack_args *p = &c->pack[i];
    p->biases = (float *)memory + RDT_MLPW_TILE * tiles;
    p->pieces = (char *)memory + biases + (int64_t)RDT_MLPW_PIECE * pieces;
    p->apart = bytes;
    weights[i] = of->p[i]->in[1].data;
    tiles += a->layer[i].tiles, pieces += a->layer[i].tiles * a->layer[i].chunks;
  }
  return rdt_mlpw_renew(c, weights, stream, why);
}

/* ---- running ---- */

static rdt_status start(const rdt_mlpw *c, const plan *p, const void *x, void *out, rdt_box_sum_to to, rdt_mlp_hit *hit,
                        void *stream, rdt_reason *why) {
  const void *code = hit ? rdt_mlpw_inject[p->size] : code_of(c, p);
  rdt_mlpw_args a = p->args;
  void *arguments[] = {&a, &hit};
  a.x = x, a.out = out, a.sum = to.sum, a.visits = to.visits;
  a.vectors[0] = a.k % 8 == 0 && a.ldx % 8 == 0 && rdt_box_aligned(x);
  a.vectors[1] = a.n % 8 == 0 && a.ldo % 8 == 0 && rdt_box_aligned(out);
  cudaLaunchAttribute attributes[2];
  unsigned n = 0;
  if (c->protect)
    attributes[n++] =
        (cudaLaunchAttribute){.id = cudaLaunchAttributeClusterDimension, .val = {.clusterDim = {2, 1, 1}}};
  if (rdt_begins_early(stream))
    attributes[n++] = (cudaLaunchAttribute){.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                            .val = {.programmaticStreamSerializationAllowed = 1}};
  const cudaLaunchConfig_t config = {.gridDim = {(unsigned)((c->protect ? 2 : 1) * up(a.m, rows_of(p->size))), 1, 1},
                                     .blockDim = {RDT_MLPW_THREADS + RDT_MLPW_MORE, 1, 1},
                                     .dynamicSmemBytes = (size_t)p->shared,
                                     .stream = stream,
                                     .attrs = attributes,
                                     .numAttrs = n};
  return rdt_cuda_status(cudaLaunchKernelExC(&config, code, arguments), "a chain of layers", why);
}

rdt_status rdt_mlpw_launch(const rdt_mlpw *c, const void *x, void *out, rdt_box_sum_to to, rdt_mlp_hit *hit,
                           void *stream, rdt_reason *why) {
  if (hit && (!c->protect || c->type != RDT_F16))
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "chains with faults are of f16, and checked");
  return start(c, &c->plan, x, out, to, hit, stream, why);
}

/* ---- how many rows ---- */

typedef struct attempt {
  const rdt_mlpw *c;
  plan plan;
  const void *x;
  void *out;
} attempt;

static rdt_status try_one(void *user, void *stream, rdt_reason *why) {
  const attempt *t = user;
  return start(t->c, &t->plan, t->x, t->out, (rdt_box_sum_to){NULL, NULL}, NULL, stream, why);
}

static rdt_status admit(const void *code, const rdt_cuda_device *d, rdt_reason *why) {
  return rdt_cuda_status(cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)d->shared),
                         "a chain of layers", why);
}

static rdt_status choose(rdt_mlpw *c, const rdt_cuda_device *d, const rdt_mlpw_chain *of, void *stream, double *seconds,
                         rdt_reason *why) {
  attempt list[RDT_MLPW_SIZES];
  void *users[RDT_MLPW_SIZES];
  double took[RDT_MLPW_SIZES];
  rdt_box_trial in, out;
  rdt_status status = RDT_OK;
  int n = 0, best = 0;
  RDT_TRY(rdt_box_trial_make(of->p[0], &in, why)); /* operands of its own: the network's are in use */
  status = rdt_box_trial_make(of->p[of->n - 1], &out, why);
  if (status != RDT_OK) {
    rdt_box_trial_free(&in);
    return status;
  }
  for (int size = 0; size < RDT_MLPW_SIZES; size++) {
    attempt *t = &list[n];
    if (of->rows && !(of->rows & rows_of(size))) continue;
    *t = (attempt){c, c->plan, in.in[0].data, out.o.out.data};
    t->plan.size = size;
    status = place(&t->plan, d, c->protect, why);
    if (status == RDT_ERR_UNSUPPORTED) continue;
    if (status == RDT_OK) status = admit(code_of(c, &t->plan), d, why);
    if (status == RDT_OK) status = admit(rdt_mlpw_inject[size], d, why);
    if (status != RDT_OK) break;
    users[n] = t, n++;
  }
  if (n > 0)
    status = rdt_cuda_trials(try_one, users, n, stream, took, why);
  else if (status == RDT_OK)
    status = rdt_fail(why, RDT_ERR_UNSUPPORTED, "blocks of a chain have 32 or 64 rows");
  rdt_box_trial_free(&in), rdt_box_trial_free(&out);
  RDT_TRY(status);
  for (int i = 1; i < n; i++)
    if (took[i] < took[best]) best = i;
  c->plan = list[best].plan;
  if (seconds) *seconds = took[best];
  return RDT_OK;
}

static rdt_status prepare(rdt_mlpw *c, const rdt_cuda_device *d, const rdt_mlpw_chain *of, void *stream,
                          double *seconds, rdt_reason *why) {
  void *memory;
  c->type = of->p[0]->in[0].dtype, c->protect = of->protect;
  RDT_TRY(describe(c, of, why));
  RDT_TRY(rdt_cuda_alloc(sizeof *c->verdict, &memory, why));
  c->plan.args.verdict = c->verdict = memory;
  RDT_TRY(copy_weights(c, of, stream, why));
  RDT_TRY(choose(c, d, of, stream, seconds, why));
  RDT_TRY(rdt_cuda_clear(c->verdict, sizeof *c->verdict, stream, why)); /* of what was measured */
  return rdt_cuda_wait(stream, why);
}

rdt_status rdt_mlpw_create(const rdt_cuda_device *d, const rdt_mlpw_chain *of, void *stream, rdt_mlpw **out,
                           double *seconds, rdt_reason *why) {
  *out = NULL;
  rdt_mlpw *c = rdt_calloc(1, sizeof *c);
  if (!c) return rdt_fail(why, RDT_ERR_NOMEM, "a chain of layers: out of memory");
  const rdt_status s = prepare(c, d, of, stream, seconds, why);
  if (s != RDT_OK) {
    rdt_mlpw_destroy(c);
    return s;
  }
  *out = c;
  return RDT_OK;
}

/* ---- what it is ---- */

void *rdt_mlpw_copy(const rdt_mlpw *c, int block, int layer, int64_t k, int64_t column) {
  const rdt_mlpw_pack_args *p = &c->pack[layer];
  const int64_t piece = column / RDT_MLPW_TILE * p->chunks + k / RDT_MLPW_TILE, row = column % RDT_MLPW_TILE,
                at = k % RDT_MLPW_TILE;
  return p->pieces + block * p->apart + RDT_MLPW_PIECE * piece + 2 * (64 * row + 8 * (at / 8 ^ row % 8) + at % 8);
}

int64_t rdt_mlpw_clusters(const rdt_mlpw *c) {
  return up(c->plan.args.m, rows_of(c->plan.size));
}

int rdt_mlpw_rows(const rdt_mlpw *c) {
  return rows_of(c->plan.size);
}

rdt_cuda_verdict *rdt_mlpw_verdict(const rdt_mlpw *c) {
  return c->verdict;
}

void rdt_mlpw_tell(rdt_mlpw *c, rdt_cuda_verdict *to) {
  c->plan.args.verdict = to ? to : c->verdict;
}

const char *rdt_mlpw_kernel(const rdt_mlpw *c) {
  return c->type == RDT_BF16 ? "mlp_wgmma_bf16" : "mlp_wgmma_f16";
}

void rdt_mlpw_destroy(rdt_mlpw *c) {
  if (!c) return;
  rdt_cuda_free(c->memory), rdt_cuda_free(c->verdict);
  rdt_free(c);
}
