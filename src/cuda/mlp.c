#include "cuda/mlp.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/gemm_bounds.h"
#include "cuda/mlp_wgmma.h"
#include "cuda/sm90/mlp.h"
#include "cuda/trial.h"

struct rdt_cuda_mlp {
  rdt_mlpw *wgmma; /* of more rows; or, where that is NULL, of a cluster: */
  rdt_mlp_args args;
  rdt_mlp_pack_args pack[RDT_MLP_LAYERS];
  rdt_accumulator acc;
  double lambda;
  rdt_cuda_verdict *verdict;
  rdt_dtype type;
  int check;               /* RDT_MLP_NONE, .. */
  int shared, least, most; /* bytes of a block, at least and at most */
};

static int64_t up(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}

static rdt_status refuse(rdt_reason *why, int layer, const char *text) {
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "layer %d of a chain: %s", layer, text);
}

/* ---- what it takes ---- */

/* Rows with numbers side by side, whatever dimensions they are numbered by. */
static bool rows_of(const rdt_tensor *t, int64_t *m, int64_t *n, int64_t *pitch) {
  const int r = t->rank;
  if (r < 2 || (t->stride[r - 1] != 1 && t->shape[r - 1] > 1)) return false;
  *n = t->shape[r - 1], *m = 1, *pitch = t->shape[r - 2] > 1 ? t->stride[r - 2] : *n;
  for (int d = r - 2; d >= 0; d--) {
    if (t->shape[d] > 1 && t->stride[d] != *pitch * *m) return false;
    *m *= t->shape[d];
  }
  return *pitch >= *n;
}

static rdt_status check_layer(const rdt_problem *p, int i, const rdt_problem *before, rdt_reason *why) {
  const rdt_epilogue *e = &p->epilogue;
  const rdt_tensor *w = &p->in[1];
  int64_t m, k, n, pitch, pitch_out, rows;
  if (p->op != RDT_KOP_GEMM) return refuse(why, i, "no product");
  if (!rdt_dtype_is_half(p->in[0].dtype) || w->dtype != p->in[0].dtype || p->out.dtype != p->in[0].dtype)
    return refuse(why, i, "numbers of 16 bits throughout");
  if (!w->data || w->rank != 2) return refuse(why, i, "weights are fixed, and a matrix");
  if (!rows_of(&p->in[0], &m, &k, &pitch) || !rows_of(&p->out, &rows, &n, &pitch_out) || pitch_out != n)
    return refuse(why, i, "rows do not lie side by side");
  if (m < 1 || k < 1 || n < 1 || m > INT32_MAX / 2 || k != w->shape[0] || n != w->shape[1] || rows != m)
    return refuse(why, i, "empty, or too large");
  if (e->alpha != 1.0 || e->residual.rank >= 0) return refuse(why, i, "a factor, or something that is added to it");
  if (e->bias.rank >= 0 && (e->bias.rank != 1 || e->bias.shape[0] != n))
    return refuse(why, i, "a bias of another form");
  if (before && (before->out.data != p->in[0].data || pitch != k ||
                 rdt_tensor_count(&before->out) != rdt_tensor_count(&p->in[0]) ||
                 before->out.shape[before->out.rank - 1] != k || before->in[0].dtype != p->in[0].dtype))
    return refuse(why, i, "it does not read what the one before it writes");
  return rdt_box_finish_accept(p, why);
}

typedef struct products { /* what problems are, convolutions of single pixels among them */
  rdt_problem p[RDT_CUDA_MLP_LAYERS];
  rdt_tensor in[RDT_CUDA_MLP_LAYERS][2];
  const rdt_problem *list[RDT_CUDA_MLP_LAYERS];
} products;

static void products_of(const rdt_problem *const *p, int n, products *to) {
  for (int i = 0; i < n; i++) to->list[i] = rdt_cuda_linear_pointwise(p[i], &to->p[i], to->in[i]) ? &to->p[i] : p[i];
}

rdt_status rdt_cuda_mlp_accept(const rdt_cuda_device *d, const rdt_problem *const *p, int n, rdt_reason *why) {
  if (d->major != 9) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "chains of layers are for compute capability 9");
  if (n < 1 || n > RDT_CUDA_MLP_LAYERS) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "a chain of 1 to 16 layers");
  products of;
  products_of(p, n, &of);
  for (int i = 0; i < n; i++) RDT_TRY(check_layer(of.list[i], i, i ? of.list[i - 1] : NULL, why));
  return RDT_OK;
}

/* ---- making ready ---- */

static const void *code_of(const rdt_cuda_mlp *c) {
  return rdt_mlp_code[c->check][c->type == RDT_BF16];
}

static int copies_of(const rdt_cuda_mlp *c) {
  return c->check == RDT_MLP_TWICE ? 2 : 1;
}

/* Which block of those that share a layer has what, and where. */
static rdt_status place(rdt_cuda_mlp *c, int blocks, rdt_reason *why) {
  rdt_mlp_args *a = &c->args;
  const int rows = a->m < RDT_MLP_ROWS ? a->m : RDT_MLP_ROWS, more = c->check == RDT_MLP_SIGNED ? 1 : 0;
  int64_t partial = 0, at = RDT_MLP_HEAD; /* partial: of the sums of all warps */
  a->blocks = blocks;
  for (int i = 0; i < a->layers; i++) {
    rdt_mlp_layer *l = &a->layer[i];
    int tiles = 1;
    for (l->log_tiles = 0; tiles * blocks < up(l->n, 8); l->log_tiles++) tiles *= 2;
    l->blocks = (int)up(up(l->n, 8), tiles);
    if (tiles > RDT_MLP_TILES) return refuse(why, i, "too many neurons for so few blocks");
    /* what the one before it sends, zeros that fill its tiles included */
    const int in = i ? a->layer[i - 1].blocks << (3 + a->layer[i - 1].log_tiles) : l->k;
    l->pairs = (int)up(in, RDT_MLP_PAIR);
    l->pitch = 64 * (l->pairs | 1); /* two rows lie in different banks */
    const int64_t sums = (int64_t)RDT_MLP_WARPS * rows * 32 * (tiles + more);
    partial = sums > partial ? sums : partial;
    c->pack[i].pairs = l->pairs, c->pack[i].tiles = tiles, c->pack[i].check = more, c->pack[i].blocks = l->blocks;
    a->rest[i].bound = rdt_mlp_bound(c->type, l->k, (int)up(l->pairs, RDT_MLP_WARPS) * RDT_MLP_PAIR, RDT_MLP_WARPS,
                                     tiles, &c->acc, c->lambda);
  }
  at += 2 * partial;
  a->partial = (int)partial;
  for (int i = 0; i < a->layers; i++) {
    rdt_mlp_layer *l = &a->layer[i];
    l->in_at = (int)at;
    if (i > 0) at += (int64_t)rows * l->pitch;
    l->raw_at = (int)at;
    if (more) at += (int64_t)rows * 32 * ((1 << l->log_tiles) + 1);
    l->weights_at = (int)at;
    at += (int64_t)l->pairs * ((1 << l->log_tiles) + more) * 512;
    if (at > c->most) return refuse(why, i, "more weights than the shared memory of a cluster holds");
  }
  c->shared = at < c->least ? c->least : (int)at;
  return RDT_OK;
}

static void forget(rdt_cuda_mlp *c) {
  for (int i = 0; i < c->args.layers; i++) {
    rdt_cuda_free(c->pack[i].out), rdt_cuda_free(c->pack[i].rho2);
    c->pack[i].out = NULL, c->pack[i].rho2 = NULL;
  }
}

rdt_status rdt_cuda_mlp_renew(const rdt_cuda_mlp *c, const void *const *weights, void *stream, rdt_reason *why) {
  if (c->wgmma) return rdt_mlpw_renew(c->wgmma, weights, stream, why);
  for (int i = 0; i < c->args.layers; i++) {
    rdt_mlp_pack_args p = c->pack[i];
    void *arguments[] = {&p};
    const int blocks = copies_of(c) * p.blocks;
    const dim3 grid = {(unsigned)blocks, (unsigned)p.pairs, 1}, block = {RDT_MLP_PAIR, 1, 1};
    p.w = weights[i];
    if (p.check) RDT_TRY(rdt_cuda_clear(p.rho2, (size_t)blocks * sizeof *p.rho2, stream, why));
    RDT_TRY(rdt_cuda_status(cudaLaunchKernel(rdt_mlp_pack[c->type == RDT_BF16], grid, block, arguments, 0, stream),
                            "weights of a chain", why));
  }
  return RDT_OK;
}

rdt_status rdt_cuda_mlp_use(rdt_cuda_mlp *c, int blocks, const void *const *weights, void *stream, rdt_reason *why) {
  const int copies = copies_of(c);
  void *memory;
  if (c->wgmma) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "clusters of one block, or two");
  forget(c);
  if (blocks < 2 || blocks % copies) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "clusters of two blocks, at least");
  RDT_TRY(place(c, blocks / copies, why));
  for (int i = 0; i < c->args.layers; i++) {
    rdt_mlp_layer *l = &c->args.layer[i];
    rdt_mlp_pack_args *p = &c->pack[i];
    const size_t blocks_of_all = (size_t)copies * (size_t)l->blocks;
    RDT_TRY(rdt_cuda_alloc(blocks_of_all * (size_t)l->pairs * (size_t)(p->tiles + p->check) * 512, &memory, why));
    l->weights = p->out = memory;
    RDT_TRY(rdt_cuda_alloc((size_t)l->blocks * sizeof(float), &memory, why));
    c->args.rest[i].rho2 = p->rho2 = memory;
  }
  RDT_TRY(rdt_cuda_mlp_renew(c, weights, stream, why));
  return rdt_cuda_wait(stream, why);
}

static rdt_status bounded(const rdt_cuda_mlp *c, rdt_reason *why) { /* weights whose sums are finite */
  float rho2[RDT_MLP_BLOCKS];
  for (int i = 0; i < c->args.layers; i++) {
    const rdt_mlp_layer *l = &c->args.layer[i];
    RDT_TRY(rdt_cuda_get(rho2, c->args.rest[i].rho2, (size_t)l->blocks * sizeof *rho2, NULL, why));
    for (int b = 0; b < l->blocks; b++)
      if (!isfinite(rho2[b])) return refuse(why, i, "weights whose sums are not finite");
  }
  return RDT_OK;
}

typedef struct attempt {
  const rdt_cuda_mlp *c;
  const void *x;
  void *out;
} attempt;

static rdt_status try_one(void *user, void *stream, rdt_reason *why) {
  const attempt *t = user;
  return rdt_cuda_mlp_launch(t->c, t->x, t->out, (rdt_box_sum_to){NULL, NULL}, stream, why);
}

/* Clusters of 16 blocks, which not every device can hold, and of 8. */
static rdt_status choose(rdt_cuda_mlp *c, const rdt_problem *const *p, const void *const *weights, void *stream,
                         double *seconds, rdt_reason *why) {
  rdt_box_trial in, out;
  rdt_status status = RDT_OK, last = RDT_OK;
  int best = 0;
  double least = INFINITY;
  RDT_TRY(rdt_box_trial_make(p[0], &in, why)); /* operands of its own: the network's are in use */
  status = rdt_box_trial_make(p[c->args.layers - 1], &out, why);
  for (int blocks = RDT_MLP_BLOCKS; blocks >= RDT_MLP_BLOCKS / 2 && status == RDT_OK; blocks /= 2) {
    double took = 0.0;
    attempt t = {c, in.in[0].data, out.o.out.data};
    rdt_status s = rdt_cuda_mlp_use(c, blocks, weights, stream, why);
    if (s == RDT_OK) s = rdt_cuda_trial(try_one, &t, stream, &took, why);
    if (s != RDT_OK) (void)cudaGetLastError(), last = s;
    if (s == RDT_OK && took < least) best = blocks, least = took;
  }
  rdt_box_trial_free(&in);
  if (status == RDT_OK) rdt_box_trial_free(&out);
  RDT_TRY(status);
  if (!best) return last == RDT_ERR_UNSUPPORTED ? last : rdt_fail(why, RDT_ERR_UNSUPPORTED, "no clusters of 8 blocks");
  if (seconds) *seconds = least;
  return best == rdt_cuda_mlp_cluster(c) ? RDT_OK : rdt_cuda_mlp_use(c, best, weights, stream, why);
}

static rdt_status create_rows(const rdt_cuda_device *d, const rdt_problem *const *p, int n,
                              const rdt_cuda_mlp_form *form, void *stream, rdt_cuda_mlp *c, double *seconds,
                              rdt_reason *why) {
  rdt_mlp_args *a = &c->args;
  const void *weights[RDT_MLP_LAYERS];
  void *memory;
  int64_t m, k, columns, pitch;
  if (n > RDT_MLP_LAYERS) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "a chain of more than 8 layers");
  for (int i = 0; i < n; i++)
    if (p[i]->in[1].shape[1] > RDT_MLP_BLOCKS * RDT_MLP_COLUMNS) return refuse(why, i, "more than 1024 neurons");
  c->type = p[0]->in[0].dtype;
  if (form->rows && !(form->rows & RDT_MLP_ROWS)) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "clusters have 16 rows");
  c->most = (int)d->shared - 1024;
  if (c->check == RDT_MLP_TWICE) c->least = (int)d->shared / 2 + 1024; /* no two blocks on one multiprocessor */
  a->layers = n;
  rows_of(&p[0]->in[0], &m, &k, &pitch);
  a->m = (int)m, a->ldx = pitch;
  rows_of(&p[n - 1]->out, &m, &columns, &a->ldo);
  for (int i = 0; i < n; i++) {
    const rdt_tensor *w = &p[i]->in[1], *bias = &p[i]->epilogue.bias;
    const rdt_act *act = &p[i]->epilogue.act;
    weights[i] = w->data;
    a->layer[i] = (rdt_mlp_layer){.k = (int)w->shape[0],
                                  .n = (int)w->shape[1],
                                  .act = (int)act->fn,
                                  .p = (float)act->param[0],
                                  .q = (float)act->param[1]};
    a->rest[i] = (rdt_mlp_rest){.bias = bias->rank >= 0 ? bias->data : NULL, .bias_type = (int)bias->dtype};
    c->pack[i] =
        (rdt_mlp_pack_args){.row = w->stride[0], .column = w->stride[1], .k = (int)w->shape[0], .n = (int)w->shape[1]};
  }
  c->lambda = form->lambda;
  RDT_TRY(rdt_box_accumulator(d, c->type, true, &c->acc, why));
  RDT_TRY(rdt_cuda_alloc(sizeof *a->verdict, &memory, why));
  a->verdict = c->verdict = memory;
  for (int i = 0; i < 2; i++) {
    const void *code = i ? rdt_mlp_inject[c->check] : code_of(c);
    if (!code) continue;
    RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(code, cudaFuncAttributeMaxDynamicSharedMemorySize, c->most),
                            "a chain of layers", why));
    RDT_TRY(rdt_cuda_status(cudaFuncSetAttribute(code, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                            "a chain of layers", why));
  }
  RDT_TRY(choose(c, p, weights, stream, seconds, why));
  if (c->check == RDT_MLP_SIGNED) RDT_TRY(bounded(c, why));
  RDT_TRY(rdt_cuda_clear(a->verdict, sizeof *a->verdict, stream, why)); /* what was measured is forgotten */
  return rdt_cuda_wait(stream, why);
}

static rdt_status create_blocks(const rdt_cuda_device *d, const rdt_problem *const *p, int n,
                                const rdt_cuda_mlp_form *form, void *stream, rdt_cuda_mlp *c, double *seconds,
                                rdt_reason *why) {
  int64_t m = 0, k, columns, ldx = 0, ldo = 0;
  rows_of(&p[0]->in[0], &m, &k, &ldx), rows_of(&p[n - 1]->out, &m, &columns, &ldo);
  const rdt_mlpw_chain of = {p, n, (int)m, ldx, ldo, form->protect, form->rows};
  if (form->rows ? form->rows == RDT_MLP_ROWS : !form->scheme && m <= RDT_MLP_ROWS)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "a cluster shares a chain of 16 rows at most");
  return rdt_mlpw_create(d, &of, stream, &c->wgmma, seconds, why);
}

static const struct {
  const char *scheme;
  int check;
  bool bare; /* makes chains that are not checked, too */
  rdt_status (*create)(const rdt_cuda_device *d, const rdt_problem *const *p, int n, const rdt_cuda_mlp_form *form,
                       void *stream, rdt_cuda_mlp *c, double *seconds, rdt_reason *why);
} forms[] = {{"row", RDT_MLP_SIGNED, true, create_rows},
             {"replicate", RDT_MLP_TWICE, false, create_rows},
             {"replicate", RDT_MLP_TWICE, true, create_blocks}};

rdt_status rdt_cuda_mlp_create(const rdt_cuda_device *d, const rdt_problem *const *p, int n,
                               const rdt_cuda_mlp_form *form, void *stream, rdt_cuda_mlp **out, double *seconds,
                               rdt_reason *why) {
  rdt_status status = rdt_fail(why, RDT_ERR_UNSUPPORTED, "chains of layers have no such check");
  double least = INFINITY;
  products of;
  *out = NULL;
  RDT_TRY(rdt_cuda_mlp_accept(d, p, n, why));
  products_of(p, n, &of);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    double took = 0.0;
    if ((form->scheme && strcmp(form->scheme, forms[i].scheme) != 0) || (!form->protect && !forms[i].bare)) continue;
    rdt_cuda_mlp *c = rdt_calloc(1, sizeof *c);
    if (c) c->check = form->protect ? forms[i].check : RDT_MLP_NONE;
    const rdt_status s = c ? forms[i].create(d, of.list, n, form, stream, c, &took, why)
                           : rdt_fail(why, RDT_ERR_NOMEM, "a chain of layers: out of memory");
    if (s == RDT_OK && took < least) {
      rdt_cuda_mlp *slower = *out;
      *out = c, c = slower, least = took;
    }
    rdt_cuda_mlp_destroy(c);
    status = s == RDT_ERR_UNSUPPORTED && *out ? RDT_OK : s;
    if (status != RDT_OK && status != RDT_ERR_UNSUPPORTED) break;
  }
  if (status != RDT_OK) rdt_cuda_mlp_destroy(*out), *out = NULL;
  if (seconds) *seconds = least;
  return status;
}

/* ---- is it worth it? ---- */

typedef struct steps {
  const rdt_problem *const *p;
  rdt_cuda_linear *const *list;
  int n;
  bool protect;
} steps;

static rdt_status try_steps(void *user, void *stream, rdt_reason *why) {
  const steps *s = user;
  rdt_cuda_linear_task tasks[RDT_CUDA_MLP_LAYERS];
  for (int i = 0; i < s->n; i++) {
    const rdt_problem *p = s->p[i];
    tasks[i] = (rdt_cuda_linear_task){s->list[i],
                                      {.in = p->in, .n_in = p->n_in, .out = p->out, .epilogue = &p->epilogue},
                                      {NULL, NULL},
                                      {NULL, NULL}};
    RDT_TRY(rdt_cuda_linear_launch(s->list[i], &tasks[i].o, tasks[i].to, stream, why));
  }
  return s->protect ? rdt_cuda_linear_check(tasks, s->n, stream, why) : RDT_OK;
}

/* What was measured is forgotten. */
static rdt_status forget_trial(const steps *s, void *stream, rdt_reason *why) {
  for (int i = 0; i < s->n; i++) {
    rdt_cuda_verdict *v = rdt_cuda_linear_verdict(s->list[i]);
    if (v) RDT_TRY(rdt_cuda_clear(v, sizeof *v, stream, why));
  }
  return rdt_cuda_wait(stream, why);
}

rdt_status rdt_cuda_mlp_create_faster(const rdt_cuda_device *d, const rdt_problem *const *p,
                                      rdt_cuda_linear *const *list, int n, const rdt_cuda_mlp_form *form, void *stream,
                                      rdt_cuda_mlp **out, rdt_reason *why) {
  steps s = {p, list, n, form->protect};
  double one = 0.0, apart = 0.0;
  rdt_cuda_mlp *c;
  *out = NULL;
  RDT_TRY(rdt_cuda_mlp_create(d, p, n, form, stream, &c, &one, why));
  rdt_status status = rdt_cuda_trial(try_steps, &s, stream, &apart, why);
  if (status == RDT_OK) status = forget_trial(&s, stream, why);
  if (status == RDT_OK && one >= apart)
    status = rdt_fail(why, RDT_ERR_UNSUPPORTED, "a chain of layers takes %.2f us, its layers one by one %.2f",
                      1e6 * one, 1e6 * apart);
  if (status == RDT_OK)
    *out = c;
  else
    rdt_cuda_mlp_destroy(c);
  return status;
}

/* ---- running ---- */

static rdt_status start(const rdt_cuda_mlp *c, const void *code, const void *x, void *out, rdt_box_sum_to to,
                        rdt_mlp_hit *hit, void *stream, rdt_reason *why) {
  rdt_mlp_args a = c->args;
  const int cluster = rdt_cuda_mlp_cluster(c);
  void *arguments[] = {&a, &hit};
  const unsigned more = c->check == RDT_MLP_SIGNED ? RDT_MLP_MORE : 0;
  a.x = x, a.out = out, a.sum = to.sum, a.visits = to.visits;
  a.vectors = a.layer[0].k % 8 == 0 && a.ldx % 8 == 0 && rdt_box_aligned(x);
  cudaLaunchAttribute attributes[] = {
      {.id = cudaLaunchAttributeClusterDimension, .val = {.clusterDim = {(unsigned)cluster, 1, 1}}},
      {.id = cudaLaunchAttributeProgrammaticStreamSerialization, .val = {.programmaticStreamSerializationAllowed = 1}}};
  const cudaLaunchConfig_t config = {.gridDim = {(unsigned)(cluster * up(a.m, RDT_MLP_ROWS)), 1, 1},
                                     .blockDim = {RDT_MLP_THREADS + more, 1, 1},
                                     .dynamicSmemBytes = (size_t)c->shared,
                                     .stream = stream,
                                     .attrs = attributes,
                                     .numAttrs = 2};
  return rdt_cuda_status(cudaLaunchKernelExC(&config, code, arguments), "a chain of layers", why);
}

rdt_status rdt_cuda_mlp_launch(const rdt_cuda_mlp *c, const void *x, void *out, rdt_box_sum_to to, void *stream,
                               rdt_reason *why) {
  if (c->wgmma) return rdt_mlpw_launch(c->wgmma, x, out, to, NULL, stream, why);
  return start(c, code_of(c), x, out, to, NULL, stream, why);
}

rdt_status rdt_cuda_mlp_strike(const rdt_cuda_mlp *c, const void *x, void *out, rdt_box_sum_to to,
                               struct rdt_mlp_hit *hit, void *stream, rdt_reason *why) {
  if (c->wgmma) return rdt_mlpw_launch(c->wgmma, x, out, to, hit, stream, why);
  if (c->check == RDT_MLP_NONE || c->type != RDT_F16)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "chains with faults are of f16, and checked");
  return start(c, rdt_mlp_inject[c->check], x, out, to, hit, stream, why);
}

int64_t rdt_cuda_mlp_blocks(const rdt_cuda_mlp *c) {
  const rdt_mlp_args *a = &c->args;
  if (c->check == RDT_MLP_NONE) return 0;
  if (c->wgmma) return rdt_mlpw_clusters(c->wgmma);
  return c->check == RDT_MLP_SIGNED ? a->blocks * up(a->m, RDT_MLP_ROWS)
                                    : (int64_t)a->layer[a->layers - 1].blocks * a->m;
}

int rdt_cuda_mlp_cluster(const rdt_cuda_mlp *c) {
  return copies_of(c) * (c->wgmma ? 1 : c->args.blocks);
}

int rdt_cuda_mlp_rows(const rdt_cuda_mlp *c) {
  return c->wgmma ? rdt_mlpw_rows(c->wgmma) : RDT_MLP_ROWS;
}

const char *rdt_cuda_mlp_scheme(const rdt_cuda_mlp *c) {
  static const char *const names[RDT_MLP_CHECKS] = {"none", "row", "replicate"};
  return names[c->check];
}

void *rdt_cuda_mlp_copy(const rdt_cuda_mlp *c, int block, int layer, int64_t k, int64_t column) {
  const rdt_mlp_pack_args *p = &c->pack[layer];
  if (c->wgmma) return rdt_mlpw_copy(c->wgmma, block, layer, k, column);
  if (c->check != RDT_MLP_TWICE) return NULL;
  const int64_t pair = k / RDT_MLP_PAIR, part = k % RDT_MLP_PAIR / 8, tile = column / 8 % p->tiles,
                at = (block * p->blocks + column / (8 * p->tiles)) * p->pairs + pair;
  return (uint16_t *)p->out + ((at * p->tiles + tile) * 32 + column % 8 * 4 + part) * 8 + k % 8;
}

rdt_cuda_verdict *rdt_cuda_mlp_verdict(const rdt_cuda_mlp *c) {
  return c->wgmma ? rdt_mlpw_verdict(c->wgmma) : c->verdict;
}

void rdt_cuda_mlp_tell(rdt_cuda_mlp *c, rdt_cuda_verdict *to) {
  if (c->wgmma)
    rdt_mlpw_tell(c->wgmma, to);
  else
    c->args.verdict = to ? to : c->verdict;
}

const char *rdt_cuda_mlp_kernel(const rdt_cuda_mlp *c) {
  if (c->wgmma) return rdt_mlpw_kernel(c->wgmma);
  return c->type == RDT_BF16 ? "mlp_bf16" : "mlp_f16";
}

void rdt_cuda_mlp_destroy(rdt_cuda_mlp *c) {
  if (!c) return;
  rdt_mlpw_destroy(c->wgmma);
  forget(c);
  rdt_cuda_free(c->verdict);
  rdt_free(c);
}
