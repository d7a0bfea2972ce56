#include "cuda/linear.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/kernel.h"
#include "cuda/thrice.h"
#include "cuda/trial.h"

typedef enum way { WAY_PRODUCT, WAY_CONV, WAY_OWN, WAY_FUSED, WAY_WIDE, WAY_FOLDED, WAY_THRICE } way;

struct rdt_cuda_linear {
  way way;
  bool pointwise; /* a convolution that is a product */
  rdt_box_product *product;
  rdt_box_conv *conv;
  rdt_cuda_gemm *own;
  rdt_box_fused *fused;
  rdt_thrice *thrice;
  rdt_cuda_linear *copies[RDT_VOTERS]; /* of thrice: unprotected; all one and the same, or each its own */
  rdt_box_wide *wide;
  rdt_box_folded *folded;
  char kernel[64], scheme[16];
};

/* ---- what a problem is ---- */

/* A convolution of single pixels with channels side by side is a product of pixels and filters. */
static bool pixels_of(const rdt_tensor *t, void *data, rdt_tensor *rows) {
  int64_t count = 1, step = 0;
  if (t->rank < 3 || (t->stride[1] != 1 && t->shape[1] > 1)) return false;
  for (int d = t->rank - 1; d >= 0; d = d == 2 ? 0 : d - 1) {
    if (t->shape[d] > 1) {
      if (!step) step = t->stride[d];
      if (t->stride[d] != step * count) return false;
    }
    count *= t->shape[d];
  }
  *rows = (rdt_tensor){.data = data, .dtype = t->dtype, .rank = 2};
  rows->shape[0] = count, rows->shape[1] = t->shape[1];
  rows->stride[0] = step ? step : t->shape[1], rows->stride[1] = 1;
  return rows->stride[0] >= rows->shape[1];
}

static rdt_tensor filters_of(const rdt_tensor *w) { /* channels x filters */
  rdt_tensor b = {.data = w->data, .dtype = w->dtype, .rank = 2};
  b.shape[0] = w->shape[1], b.shape[1] = w->shape[0];
  b.stride[0] = w->stride[1], b.stride[1] = w->stride[0];
  return b;
}

static bool pointwise(const rdt_problem *p, rdt_problem *product, rdt_tensor in[2]) {
  if (p->op != RDT_KOP_CONV || p->window.groups != 1) return false;
  for (int d = 0; d + 2 < p->out.rank; d++)
    if (p->in[1].shape[2 + d] != 1 || p->window.stride[d] != 1 || p->window.before[d] || p->window.after[d])
      return false;
  *product = *p;
  product->op = RDT_KOP_GEMM;
  product->in = in;
  in[1] = filters_of(&p->in[1]);
  const rdt_tensor *r = &p->epilogue.residual;
  return pixels_of(&p->in[0], p->in[0].data, &in[0]) && pixels_of(&p->out, p->out.data, &product->out) &&
         (r->rank < 0 || pixels_of(r, r->data, &product->epilogue.residual));
}

static bool is(const char *scheme, const char *name) {
  return strcmp(scheme, name) == 0;
}

static bool is_tmr(const char *scheme) {
  return scheme && (is(scheme, "tmr-kernel") || is(scheme, "tmr-sm"));
}

/* Checks of each row that "row" or "row:f" asks for; 0: it is another scheme. */
static int row_sets(const char *scheme) {
  if (is(scheme, "row")) return 1;
  if (strncmp(scheme, "row:", 4) != 0 || strlen(scheme) != 5) return 0;
  const int sets = scheme[4] - '0';
  return sets >= 1 && sets <= RDT_BOX_SETS ? sets : 0;
}

static bool own_has(const char *scheme) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++)
    if (table[i].family == RDT_CUDA_MMA && is(scheme, table[i].scheme)) return true;
  return false;
}

/* Where own kernels may be the faster ones: few rows, or all small. */
static bool small(const rdt_problem *p) {
  int64_t m, n, k;
  rdt_problem_mnk(p, &m, &n, &k);
  return m <= 64 || (m <= 512 && n <= 512);
}

/* Has the kernel this check? Of "row:f" those that have as many of a row. */
static bool own_is(const rdt_cuda_kernel *k, const char *scheme) {
  const int sets = row_sets(scheme);
  return sets ? is(k->scheme, "row") && sets <= rdt_cuda_kernel_sets(k) : is(scheme, k->scheme);
}

static bool own_accepts(const rdt_cuda_kernel *k, const rdt_problem *p, const char *scheme) {
  return k->family == RDT_CUDA_MMA && (scheme ? own_is(k, scheme) : is(k->scheme, "row") || is(k->scheme, "thread1")) &&
         rdt_cuda_gemm_accept(k, p, NULL) == RDT_OK && k->tile->rows < 4 * p->out.shape[0] + 64;
}

/* What kernels on wgmma check: rows, which are the pixels of a convolution. */
static const char *wide_scheme(const rdt_problem *p) {
  return p->op == RDT_KOP_CONV ? "fc" : "row";
}

static bool wide(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme) {
  const bool any = !scheme || is(scheme, "none");
  return d->major == 9 && (any || is(scheme, wide_scheme(p))) && rdt_box_fused_accept(p, NULL) == RDT_OK;
}

/* Few channels: the same kernels, from a folded copy of the images. */
static bool folds(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme) {
  const bool any = !scheme || is(scheme, "none");
  return d->major == 9 && (any || is(scheme, "fc")) && rdt_dtype_is_half(p->in[0].dtype) && p->in[1].data &&
         rdt_box_folded_accept(p, NULL) == RDT_OK;
}

/* Copies that are computed at the same time: by what has memory of its own for each. */
static rdt_status apart_accept(const rdt_problem *p, rdt_reason *why) {
  rdt_problem product;
  rdt_tensor in[2];
  if (p->op != RDT_KOP_CONV) return rdt_box_product_accept(p, why);
  if (pointwise(p, &product, in)) return rdt_box_product_accept(&product, why);
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "tmr-sm on a GPU takes products, and convolutions of single pixels");
}

rdt_status rdt_cuda_linear_accept(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, rdt_reason *why) {
  const rdt_status no = RDT_ERR_UNSUPPORTED;
  if (is_tmr(scheme)) {
    RDT_TRY(rdt_thrice_accept(&p->out, why));
    if (is(scheme, "tmr-sm")) return apart_accept(p, why);
    return rdt_cuda_linear_accept(d, p, "none", why);
  }
  const bool any = !scheme || is(scheme, "none");
  if (!any && (wide(d, p, scheme) || folds(d, p, scheme))) return RDT_OK;
  if (p->op == RDT_KOP_CONV) {
    rdt_problem product;
    rdt_tensor in[2];
    if (any || row_sets(scheme))
      if (pointwise(p, &product, in) && rdt_box_product_accept(&product, NULL) == RDT_OK) return RDT_OK;
    if (!any && !is(scheme, "fic"))
      return rdt_fail(why, no,
                      "convolutions on the GPU have the checks fic, of single pixels row, and fc on Hopper where "
                      "channels lie side by side in multiples of 64, or are few; not %s here",
                      scheme);
    return rdt_box_conv_accept(p, why);
  }
  if (p->op != RDT_KOP_GEMM) return rdt_fail(why, no, "%s is no linear op", rdt_problem_name(p));
  if (!any && row_sets(scheme) > 1 && !rdt_rows_more(p->in[0].dtype, p->out.dtype))
    return rdt_fail(why, no, "products of %s on the GPU have one check of a row, not %s",
                    rdt_dtype_name(p->in[0].dtype), scheme);
  if (any || row_sets(scheme)) return rdt_box_product_accept(p, why);
  if (!own_has(scheme)) return rdt_fail(why, no, "products on the GPU have no check %s", scheme);
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n), *last = NULL;
  for (int i = 0; i < n; i++) {
    if (!is(scheme, table[i].scheme) || table[i].family != RDT_CUDA_MMA) continue;
    if (rdt_cuda_gemm_accept(&table[i], p, NULL) == RDT_OK) return RDT_OK;
    if (!last || table[i].dtype == p->in[0].dtype) last = &table[i];
  }
  return rdt_cuda_gemm_accept(last, p, why);
}

/* ---- making ready ---- */

typedef struct contest { /* the fastest so far */
  const rdt_cuda_device *d;
  const rdt_problem *p;
  double lambda;
  void *stream;
  rdt_box_trial *trial;
  rdt_cuda_linear *best;
  double least;
  bool timed;
  rdt_status status; /* of who failed first */
  rdt_reason *why;
} contest;

static rdt_status launch(void *user, void *stream, rdt_reason *why) {
  const contest *c = ((void **)user)[0];
  return rdt_cuda_linear_launch(((void **)user)[1], &c->trial->o, (rdt_box_sum_to){NULL, NULL}, stream, why);
}

enum { TOGETHER = 6 }; /* checks of one launch, as networks have them */

static rdt_status check(void *user, void *stream, rdt_reason *why) {
  const contest *c = ((void **)user)[0];
  const rdt_cuda_linear_task t = {((void **)user)[1], c->trial->o, {NULL, NULL}, {NULL, NULL}};
  const rdt_cuda_linear_task list[TOGETHER] = {t, t, t, t, t, t};
  return rdt_cuda_linear_check(list, TOGETHER, stream, why);
}

static void enter(contest *c, rdt_cuda_linear *l, rdt_status s, rdt_reason *why) {
  double seconds = 0.0, more = 0.0;
  void *user[2] = {c, l};
  if (s == RDT_OK && c->timed) s = rdt_cuda_trial(launch, user, c->stream, &seconds, why);
  if (s == RDT_OK && c->timed && l->way != WAY_OWN && strcmp(l->scheme, "none") != 0)
    s = rdt_cuda_trial(check, user, c->stream, &more, why);
  seconds += more / TOGETHER; /* beside what follows nobody waits, but it takes room: nearly all of it is seen */
  if (s != RDT_OK && c->status == RDT_OK) {
    c->status = s;
    if (c->why) *c->why = *why;
  }
  if (s != RDT_OK || (c->best && seconds >= c->least)) {
    rdt_cuda_linear_destroy(l);
    return;
  }
  rdt_cuda_linear_destroy(c->best);
  c->best = l, c->least = seconds;
}

static rdt_cuda_linear *entrant(contest *c, way w, const char *name, const char *scheme) {
  rdt_cuda_linear *l = rdt_calloc(1, sizeof *l);
  if (!l) {
    c->status = rdt_fail(c->why, RDT_ERR_NOMEM, "%s: out of memory", name);
    return NULL;
  }
  l->way = w;
  snprintf(l->scheme, sizeof l->scheme, "%s", scheme);
  snprintf(l->kernel, sizeof l->kernel, "%s", name);
  return l;
}

static void enter_product(contest *c, const rdt_problem *p, bool is_conv, const char *scheme) {
  char name[64];
  rdt_reason why = {""};
  snprintf(name, sizeof name, "%s_%s_cublaslt", is_conv ? "conv" : "gemm", rdt_dtype_name(p->in[0].dtype));
  rdt_cuda_linear *l = entrant(c, WAY_PRODUCT, name, scheme ? scheme : "row");
  if (!l) return;
  l->pointwise = is_conv;
  const int sets = row_sets(l->scheme); /* none: 0 */
  enter(c, l, rdt_box_product_create(c->d, p, sets, c->lambda, c->stream, &l->product, &why), &why);
}

static void enter_conv(contest *c, bool protect) {
  char name[64];
  rdt_reason why = {""};
  snprintf(name, sizeof name, "conv_%s_cudnn", rdt_dtype_name(c->p->in[0].dtype));
  rdt_cuda_linear *l = entrant(c, WAY_CONV, name, protect ? "fic" : "none");
  if (!l) return;
  enter(c, l, rdt_box_conv_create(c->d, c->p, protect, c->lambda, c->stream, &l->conv, &why), &why);
}

static void enter_own(contest *c, const rdt_problem *p, bool is_conv, const char *scheme) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++) {
    rdt_reason why = {""};
    if (!own_accepts(&table[i], p, scheme)) continue;
    rdt_cuda_linear *l = entrant(c, WAY_OWN, table[i].name, scheme ? scheme : table[i].scheme);
    if (!l) return;
    const int sets = row_sets(l->scheme) > 1 ? row_sets(l->scheme) : 1;
    l->pointwise = is_conv;
    enter(c, l, rdt_cuda_gemm_create_sets(&table[i], c->d, p, sets, c->lambda, 0, c->stream, &l->own, &why), &why);
  }
}

static void enter_fused(contest *c, bool protect) {
  rdt_reason why = {""};
  rdt_cuda_linear *l = entrant(c, WAY_FUSED, "", "none");
  if (!l) return;
  const rdt_status s = rdt_box_fused_create(c->d, c->p, protect, c->lambda, &c->trial->o, c->stream, &l->fused, &why);
  if (s == RDT_OK) {
    snprintf(l->kernel, sizeof l->kernel, "%s_%s_%s", c->p->op == RDT_KOP_CONV ? "conv" : "gemm",
             rdt_dtype_name(c->p->in[0].dtype), rdt_box_fused_kernel(l->fused));
    snprintf(l->scheme, sizeof l->scheme, "%s", rdt_box_fused_scheme(l->fused));
  }
  enter(c, l, s, &why);
}

static void enter_wide(contest *c, bool protect) {
  rdt_reason why = {""};
  rdt_cuda_linear *l = entrant(c, WAY_WIDE, "", protect ? wide_scheme(c->p) : "none");
  if (!l) return;
  const rdt_status s = rdt_box_wide_create(c->d, c->p, protect, c->lambda, &c->trial->o, c->stream, &l->wide, &why);
  if (s == RDT_OK)
    snprintf(l->kernel, sizeof l->kernel, "%s_%s_%s", c->p->op == RDT_KOP_CONV ? "conv" : "gemm",
             rdt_dtype_name(c->p->in[0].dtype), rdt_box_wide_kernel(l->wide));
  enter(c, l, s, &why);
}

static void enter_folded(contest *c, bool protect) {
  rdt_reason why = {""};
  rdt_cuda_linear *l = entrant(c, WAY_FOLDED, "", protect ? "fc" : "none");
  if (!l) return;
  const rdt_status s = rdt_box_folded_create(c->d, c->p, protect, c->lambda, &c->trial->o, c->stream, &l->folded, &why);
  if (s == RDT_OK)
    snprintf(l->kernel, sizeof l->kernel, "conv_%s_folded_%s", rdt_dtype_name(c->p->in[0].dtype),
             rdt_box_folded_kernel(l->folded));
  enter(c, l, s, &why);
}

/* ---- three copies ---- */

static rdt_status create_fastest(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                 void *stream, bool twins, rdt_cuda_linear **out, rdt_reason *why);

static rdt_status copy(void *maker, const rdt_operands *o, void *stream, rdt_reason *why) {
  return rdt_cuda_linear_launch(maker, o, (rdt_box_sum_to){NULL, NULL}, stream, why);
}

/* The same, to run at the same time: the same bits. RDT_ERR_UNSUPPORTED: it has memory that only one run may use. */
static rdt_status twin_of(const rdt_cuda_linear *l, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                          void *stream, rdt_cuda_linear **twin, rdt_reason *why) {
  rdt_problem product;
  rdt_tensor in[2];
  *twin = NULL;
  if (l->way != WAY_PRODUCT && l->way != WAY_OWN)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s runs once at a time", l->kernel);
  rdt_cuda_linear *t = rdt_calloc(1, sizeof *t);
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of memory", l->kernel);
  *t = *l;
  t->product = NULL, t->own = NULL;
  const rdt_problem *as = l->pointwise && pointwise(p, &product, in) ? &product : p;
  const rdt_status s = l->way == WAY_PRODUCT ? rdt_box_product_twin(l->product, &t->product, why)
                                             : rdt_cuda_gemm_create(rdt_cuda_kernel_find(l->kernel), d, as, lambda,
                                                                    rdt_cuda_gemm_splits(l->own), stream, &t->own, why);
  if (s == RDT_OK)
    *twin = t;
  else
    rdt_cuda_linear_destroy(t);
  return s;
}

static rdt_status fill_copies(rdt_cuda_linear *l, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                              void *stream, rdt_reason *why) {
  rdt_thrice_makers makers = {.launch = copy};
  rdt_box_trial trial;
  const rdt_sm_groups *groups = NULL;
  const bool apart = is(l->scheme, "tmr-sm");
  if (apart) RDT_TRY(rdt_sm_groups_of_device(d->kept_off - 1, &groups, why));
  void *on = apart ? rdt_sm_groups_at(groups, 0)->stream : stream; /* where it is to be fast, and able to run */
  RDT_TRY(create_fastest(d, p, "none", lambda, on, apart, &l->copies[0], why));
  snprintf(l->kernel, sizeof l->kernel, "%s", l->copies[0]->kernel);
  for (int i = 1; i < RDT_VOTERS; i++) {
    const rdt_status s = twin_of(l->copies[0], d, p, lambda, stream, &l->copies[i], why);
    if (s != RDT_OK && (apart || s != RDT_ERR_UNSUPPORTED)) return s;
    if (s != RDT_OK) l->copies[i] = l->copies[0];
  }
  for (int i = 0; i < RDT_VOTERS; i++) makers.of[i] = l->copies[i];
  RDT_TRY(rdt_box_trial_make(p, &trial, why));
  const rdt_status s = rdt_thrice_create(&p->out, &makers, groups, &trial.o, stream, &l->thrice, why);
  rdt_box_trial_free(&trial);
  return s;
}

static rdt_status create_thrice(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                void *stream, rdt_cuda_linear **out, rdt_reason *why) {
  rdt_cuda_linear *l = rdt_calloc(1, sizeof *l);
  if (!l) return rdt_fail(why, RDT_ERR_NOMEM, "three copies: out of memory");
  l->way = WAY_THRICE;
  snprintf(l->scheme, sizeof l->scheme, "%s", scheme);
  const rdt_status s = fill_copies(l, d, p, lambda, stream, why);
  if (s == RDT_OK)
    *out = l;
  else
    rdt_cuda_linear_destroy(l);
  return s;
}

static bool fuses(const rdt_problem *p, const char *scheme) {
  const bool any = !scheme || is(scheme, "none");
  return (any || is(scheme, p->op == RDT_KOP_CONV ? "fic" : "row")) && rdt_box_fused_accept(p, NULL) == RDT_OK;
}

/* twins: only what has them. */
static rdt_status create_fastest(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                 void *stream, bool twins, rdt_cuda_linear **out, rdt_reason *why) {
  rdt_box_trial trial;
  rdt_problem product;
  rdt_tensor in[2];
  const bool is_conv = p->op == RDT_KOP_CONV, single = is_conv && pointwise(p, &product, in);
  const bool any = !scheme || is(scheme, "none"), protect = !scheme || !is(scheme, "none");
  const rdt_problem *as = single ? &product : p; /* as a product, if it is one */
  const bool multiplies = !is_conv || (single && (any || row_sets(scheme)));
  *out = NULL;
  RDT_TRY(rdt_box_trial_make(p, &trial, why));
  contest c = {.d = d, .p = p, .lambda = lambda, .stream = stream, .trial = &trial, .timed = true, .why = why};
  const bool library = multiplies && (any || row_sets(scheme)) && rdt_box_product_accept(as, NULL) == RDT_OK;
  const bool convolves = !twins && is_conv && (any || is(scheme, "fic")) && rdt_box_conv_accept(p, NULL) == RDT_OK;
  const bool own = multiplies && (small(as) || !library);
  const bool fused = !twins && fuses(p, scheme);
  const bool wgmma = !twins && wide(d, p, scheme), folded = !twins && folds(d, p, scheme);
  c.timed = library + convolves + fused + wgmma + folded + own > 1 || own;
  if (library) enter_product(&c, as, is_conv, scheme);
  if (convolves) enter_conv(&c, protect);
  if (own) enter_own(&c, as, is_conv, scheme);
  if (fused) enter_fused(&c, protect);
  if (wgmma) enter_wide(&c, protect);
  if (folded) enter_folded(&c, protect);
  rdt_box_trial_free(&trial);
  if (!c.best)
    return c.status != RDT_OK
               ? c.status
               : rdt_fail(why, RDT_ERR_UNSUPPORTED, "nothing on the GPU computes this %s", rdt_problem_name(p));
  rdt_cuda_verdict *v = rdt_cuda_linear_verdict(c.best); /* what was measured is forgotten */
  rdt_status s = rdt_cuda_clear(v, sizeof *v, stream, why);
  if (s == RDT_OK) s = rdt_cuda_wait(stream, why);
  if (s == RDT_OK)
    *out = c.best;
  else
    rdt_cuda_linear_destroy(c.best);
  return s;
}

rdt_status rdt_cuda_linear_create(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                  void *stream, rdt_cuda_linear **out, rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_cuda_linear_accept(d, p, scheme, why));
  return is_tmr(scheme) ? create_thrice(d, p, scheme, lambda, stream, out, why)
                        : create_fastest(d, p, scheme, lambda, stream, false, out, why);
}

/* ---- running ---- */

/* Operands as those of the product that it is. */
typedef struct view {
  rdt_tensor in[2];
  rdt_epilogue e;
  rdt_operands o;
} view;

static const rdt_operands *view_of(const rdt_cuda_linear *l, const rdt_operands *o, view *v) {
  if (!l->pointwise) return o;
  v->o = *o;
  pixels_of(&o->in[0], o->in[0].data, &v->in[0]), pixels_of(&o->out, o->out.data, &v->o.out);
  v->in[1] = filters_of(&o->in[1]);
  v->o.in = v->in;
  if (o->epilogue) {
    v->e = *o->epilogue;
    if (v->e.residual.rank >= 0) pixels_of(&o->epilogue->residual, o->epilogue->residual.data, &v->e.residual);
    v->o.epilogue = &v->e;
  }
  return &v->o;
}

rdt_status rdt_cuda_linear_launch(rdt_cuda_linear *l, const rdt_operands *o, rdt_box_sum_to to, void *stream,
                                  rdt_reason *why) {
  view v;
  if (l->way == WAY_THRICE) return rdt_thrice_launch(l->thrice, o, stream, why);
  if (l->way == WAY_CONV) return rdt_box_conv_launch(l->conv, o, to, stream, why);
  if (l->way == WAY_FUSED) return rdt_box_fused_launch(l->fused, o, stream, why);
  if (l->way == WAY_WIDE) return rdt_box_wide_launch(l->wide, o, stream, why);
  if (l->way == WAY_FOLDED) return rdt_box_folded_launch(l->folded, o, stream, why);
  const rdt_operands *as = view_of(l, o, &v);
  return l->way == WAY_OWN ? rdt_cuda_gemm_run(l->own, as, stream, why)
                           : rdt_box_product_launch(l->product, as, to, stream, why);
}

rdt_status rdt_cuda_linear_check(const rdt_cuda_linear_task *list, int n, void *stream, rdt_reason *why) {
  rdt_box_batch batch = {NULL, 0, 0};
  rdt_status s = RDT_OK;
  for (int i = 0; i < n && s == RDT_OK; i++) {
    const rdt_cuda_linear_task *t = &list[i];
    view v;
    if (t->l->way == WAY_CONV)
      s = rdt_box_conv_check(t->l->conv, &t->o, t->to, &batch, why);
    else if (t->l->way == WAY_FUSED)
      s = rdt_box_fused_check(t->l->fused, &t->o, t->to, t->read, &batch, why);
    else if (t->l->way == WAY_WIDE)
      s = rdt_box_wide_check(t->l->wide, t->to, t->read, &batch, why);
    else if (t->l->way == WAY_FOLDED)
      s = rdt_box_folded_check(t->l->folded, &t->o, t->to, t->read, &batch, why);
    else if (t->l->way == WAY_PRODUCT)
      s = rdt_box_product_check(t->l->product, view_of(t->l, &t->o, &v), t->to, t->read[0], &batch, why);
  }
  if (s == RDT_OK) s = rdt_box_batch_launch(&batch, stream, why);
  rdt_box_batch_free(&batch);
  return s;
}

static rdt_status renew_copies(const rdt_cuda_linear *l, const void *weights, void *stream, rdt_reason *why) {
  for (int i = 0; i < RDT_VOTERS; i++)
    if (i == 0 || l->copies[i] != l->copies[0]) RDT_TRY(rdt_cuda_linear_renew(l->copies[i], weights, stream, why));
  return RDT_OK;
}

rdt_status rdt_cuda_linear_renew(rdt_cuda_linear *l, const void *weights, void *stream, rdt_reason *why) {
  if (l->way == WAY_THRICE) return renew_copies(l, weights, stream, why);
  return l->way == WAY_CONV      ? rdt_box_conv_renew(l->conv, weights, stream, why)
         : l->way == WAY_PRODUCT ? rdt_box_product_renew(l->product, weights, stream, why)
         : l->way == WAY_FUSED   ? rdt_box_fused_renew(l->fused, weights, stream, why)
         : l->way == WAY_WIDE    ? rdt_box_wide_renew(l->wide, weights, stream, why)
         : l->way == WAY_FOLDED  ? rdt_box_folded_renew(l->folded, weights, stream, why)
                                 : rdt_cuda_gemm_renew(l->own, weights, stream, why);
}

int64_t rdt_cuda_linear_blocks(const rdt_cuda_linear *l) {
  return l->way == WAY_OWN || l->way == WAY_THRICE ? 0
         : l->way == WAY_FUSED                     ? rdt_box_fused_blocks(l->fused)
         : l->way == WAY_WIDE                      ? rdt_box_wide_blocks(l->wide)
         : l->way == WAY_FOLDED                    ? rdt_box_folded_blocks(l->folded)
         : l->way == WAY_CONV                      ? rdt_box_conv_blocks(l->conv)
                                                   : rdt_box_product_blocks(l->product);
}

unsigned rdt_cuda_linear_reads(const rdt_cuda_linear *l) {
  return l->way == WAY_FUSED     ? rdt_box_fused_reads(l->fused)
         : l->way == WAY_WIDE    ? rdt_box_wide_reads(l->wide)
         : l->way == WAY_FOLDED  ? rdt_box_folded_reads(l->folded)
         : l->way == WAY_PRODUCT ? rdt_box_product_reads(l->product)
                                 : 0;
}

void *rdt_cuda_linear_copy(const rdt_cuda_linear *l, int64_t k, int64_t column) {
  return l->way == WAY_FUSED    ? rdt_box_fused_copy(l->fused, k, column)
         : l->way == WAY_WIDE   ? rdt_box_wide_copy(l->wide, k, column)
         : l->way == WAY_FOLDED ? rdt_box_folded_copy(l->folded, k, column)
                                : NULL;
}

rdt_cuda_verdict *rdt_cuda_linear_verdict(const rdt_cuda_linear *l) {
  return l->way == WAY_OWN      ? rdt_cuda_gemm_found(l->own)
         : l->way == WAY_THRICE ? rdt_thrice_verdict(l->thrice)
         : l->way == WAY_FUSED  ? rdt_box_fused_verdict(l->fused)
         : l->way == WAY_WIDE   ? rdt_box_wide_verdict(l->wide)
         : l->way == WAY_FOLDED ? rdt_box_folded_verdict(l->folded)
         : l->way == WAY_CONV   ? rdt_box_conv_verdict(l->conv)
                                : rdt_box_product_verdict(l->product);
}

const char *rdt_cuda_linear_kernel(const rdt_cuda_linear *l) {
  return l->kernel;
}

const char *rdt_cuda_linear_scheme(const rdt_cuda_linear *l) {
  return l->scheme;
}

void rdt_cuda_linear_destroy(rdt_cuda_linear *l) {
  if (!l) return;
  rdt_thrice_destroy(l->thrice);
  for (int i = RDT_VOTERS - 1; i >= 0; i--)
    if (i == 0 || l->copies[i] != l->copies[0]) rdt_cuda_linear_destroy(l->copies[i]);
  rdt_box_product_destroy(l->product);
  rdt_box_conv_destroy(l->conv);
  rdt_cuda_gemm_destroy(l->own);
  rdt_box_fused_destroy(l->fused);
  rdt_box_wide_destroy(l->wide);
  rdt_box_folded_destroy(l->folded);
  rdt_free(l);
}
