#include "cuda/linear.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cuda/box/boxes.h"
#include "cuda/kernel.h"
#include "cuda/thrice.h"
#include "cuda/trial.h"
#include "cuda/voted.h"
#include "cuda/ways.h"

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

bool rdt_cuda_linear_pointwise(const rdt_problem *p, rdt_problem *product, rdt_tensor in[2]) {
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
  return scheme &&
         (is(scheme, "tmr-kernel") || is(scheme, "tmr-sm") || is(scheme, "tmr-block") || is(scheme, "tmr-split"));
}

/* Checks of each row that "row" or "row:f" asks for; 0: it is another scheme. */
static int row_sets(const char *scheme) {
  if (is(scheme, "row")) return 1;
  if (strncmp(scheme, "row:", 4) != 0 || strlen(scheme) != 5) return 0;
  const int sets = scheme[4] - '0';
  return sets >= 1 && sets <= RDT_BOX_SETS ? sets : 0;
}

static void job_of(rdt_way_job *j, const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                   void *stream) {
  *j = (rdt_way_job){.d = d, .p = p, .scheme = scheme, .lambda = lambda, .stream = stream};
  j->conv = p->op == RDT_KOP_CONV;
  j->protect = !scheme || !is(scheme, "none");
  j->any = !scheme || !j->protect;
  j->sets = scheme ? row_sets(scheme) : 1;
  if (!j->conv)
    j->as = p;
  else if (rdt_cuda_linear_pointwise(p, &j->product, j->in) && (j->any || j->sets))
    j->as = &j->product;
}

static bool own_has(const char *scheme) {
  int n;
  const rdt_cuda_kernel *table = rdt_cuda_kernels(&n);
  for (int i = 0; i < n; i++)
    if (table[i].family == RDT_CUDA_MMA && is(scheme, table[i].scheme)) return true;
  return false;
}

/* Copies that are computed at the same time: by what has memory of its own for each. */
static rdt_status apart_accept(const rdt_problem *p, rdt_reason *why) {
  rdt_problem product;
  rdt_tensor in[2];
  if (p->op != RDT_KOP_CONV) return rdt_box_product_accept(p, why);
  if (rdt_cuda_linear_pointwise(p, &product, in)) return rdt_box_product_accept(&product, why);
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "tmr-sm on a GPU takes products, and convolutions of single pixels");
}

static rdt_status voted_accept(const rdt_cuda_device *d, const rdt_problem *p, rdt_reason *why) {
  rdt_problem product;
  rdt_tensor in[2];
  return rdt_voted_accept(d, rdt_cuda_linear_pointwise(p, &product, in) ? &product : p, why);
}

rdt_status rdt_cuda_linear_accept(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, rdt_reason *why) {
  const rdt_status no = RDT_ERR_UNSUPPORTED;
  if (is_tmr(scheme)) {
    if (is(scheme, "tmr-block")) return voted_accept(d, p, why);
    RDT_TRY(rdt_thrice_accept(&p->out, why));
    if (is(scheme, "tmr-split")) return voted_accept(d, p, why);
    if (is(scheme, "tmr-sm")) return apart_accept(p, why);
    return rdt_cuda_linear_accept(d, p, "none", why);
  }
  int ways, n;
  const rdt_way *way = rdt_ways(&ways);
  rdt_way_job j;
  job_of(&j, d, p, scheme, 0.0, NULL);
  const bool any = j.any;
  for (int i = 0; i < ways && !any; i++)
    if (way[i].named && way[i].can(&j)) return RDT_OK;
  if (p->op == RDT_KOP_CONV) {
    if (j.as && rdt_box_product_accept(j.as, NULL) == RDT_OK) return RDT_OK;
    if (!any && !is(scheme, "fic"))
      return rdt_fail(why, no,
                      "convolutions on the GPU have the checks fic, of single pixels row, and fc on Hopper where "
                      "channels lie side by side in multiples of 64, or are few; not %s here",
                      scheme);
    return rdt_box_conv_accept(p, why);
  }
  if (p->op != RDT_KOP_GEMM) return rdt_fail(why, no, "%s is no linear op", rdt_problem_name(p));
  if (!any && j.sets > 1 && !rdt_rows_more(p->in[0].dtype))
    return rdt_fail(why, no, "products of %s on the GPU have one check of a row, not %s",
                    rdt_dtype_name(p->in[0].dtype), scheme);
  if (any || j.sets) return rdt_box_product_accept(p, why);
  if (!own_has(scheme)) return rdt_fail(why, no, "products on the GPU have no check %s", scheme);
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
  const rdt_way_job *job;
  rdt_cuda_linear *best;
  double least;
  bool timed;
  rdt_status status; /* of who failed first */
  rdt_reason *why;
} contest;

typedef struct lap {
  const contest *c;
  rdt_cuda_linear *l;
} lap;

static rdt_status launch(void *user, void *stream, rdt_reason *why) {
  const lap *t = user;
  return rdt_cuda_linear_launch(t->l, t->c->job->trial, (rdt_box_sum_to){NULL, NULL}, stream, why);
}

enum { TOGETHER = 6 }; /* checks of one launch, as networks have them */

static rdt_status check(void *user, void *stream, rdt_reason *why) {
  const lap *each = user;
  const rdt_cuda_linear_task t = {each->l, *each->c->job->trial, {NULL, NULL}, {NULL, NULL}};
  const rdt_cuda_linear_task list[TOGETHER] = {t, t, t, t, t, t};
  return rdt_cuda_linear_check(list, TOGETHER, stream, why);
}

static void enter(contest *c, const rdt_way *w, int kernel) {
  rdt_reason why = {""};
  double seconds = 0.0, more = 0.0;
  rdt_cuda_linear *l = rdt_calloc(1, sizeof *l);
  if (!l) {
    c->status = rdt_fail(c->why, RDT_ERR_NOMEM, "a linear op: out of memory");
    return;
  }
  lap user = {c, l};
  l->way = w, l->pointwise = w->product && c->job->conv;
  rdt_status s = w->make(c->job, kernel, l, &why);
  if (s == RDT_OK && c->timed) s = rdt_cuda_trial(launch, &user, c->job->stream, &seconds, &why);
  if (s == RDT_OK && c->timed && w->check && c->job->protect)
    s = rdt_cuda_trial(check, &user, c->job->stream, &more, &why);
  seconds += more / TOGETHER; /* beside what follows nobody waits, but it takes room: nearly all of it is seen */
  if (s != RDT_OK && c->status == RDT_OK) {
    c->status = s;
    if (c->why) *c->why = why;
  }
  if (s != RDT_OK || (c->best && seconds >= c->least)) {
    rdt_cuda_linear_destroy(l);
    return;
  }
  rdt_cuda_linear_destroy(c->best);
  c->best = l, c->least = seconds;
}

/* Of all ways: only those that have twins; only the one of this name. */
typedef struct filter {
  bool twins;
  const char *only; /* NULL: any */
} filter;

static bool competes(const rdt_way *w, const rdt_way_job *j, filter f) {
  return (!f.twins || w->twin) && (!f.only || is(w->name, f.only)) && w->can(j);
}

static void enter_all(contest *c, filter f) {
  int n, entrants = 0;
  const rdt_way *list = rdt_ways(&n);
  for (int i = 0; i < n; i++)
    if (competes(&list[i], c->job, f)) entrants += list[i].kernels ? 2 : 1; /* several at once */
  c->timed = entrants > 1;
  for (int i = 0; i < n; i++) {
    const rdt_way *w = &list[i];
    if (!competes(w, c->job, f)) continue;
    for (int k = 0; k < (w->kernels ? w->kernels() : 1); k++)
      if (!w->takes || w->takes(c->job, k)) enter(c, w, k);
  }
}

static rdt_status create_fastest(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                 void *stream, filter f, rdt_cuda_linear **out, rdt_reason *why) {
  rdt_box_trial trial;
  rdt_way_job job;
  *out = NULL;
  RDT_TRY(rdt_box_trial_make(p, &trial, why));
  job_of(&job, d, p, scheme, lambda, stream);
  job.trial = &trial.o, job.alone = f.only != NULL;
  contest c = {.job = &job, .why = why};
  enter_all(&c, f);
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

/* ---- three copies ---- */

typedef struct copies {
  rdt_thrice *thrice;
  rdt_cuda_linear *of[RDT_VOTERS]; /* unprotected; all one and the same, or each its own */
} copies;

static bool is_own(const copies *c, int i) {
  return i == 0 || c->of[i] != c->of[0];
}

static rdt_status copy(void *maker, const rdt_operands *o, void *stream, rdt_reason *why) {
  return rdt_cuda_linear_launch(maker, o, (rdt_box_sum_to){NULL, NULL}, stream, why);
}

/* RDT_ERR_UNSUPPORTED: it has none. */
static rdt_status twin_of(const rdt_cuda_linear *l, const rdt_way_job *j, rdt_cuda_linear **twin, rdt_reason *why) {
  *twin = NULL;
  if (!l->way->twin) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s runs once at a time", l->kernel);
  rdt_cuda_linear *t = rdt_calloc(1, sizeof *t);
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "%s: out of memory", l->kernel);
  *t = *l;
  t->self = NULL;
  const rdt_status s = l->way->twin(l, j, &t->self, why);
  if (s == RDT_OK)
    *twin = t;
  else
    rdt_cuda_linear_destroy(t);
  return s;
}

static rdt_status fill_copies(rdt_cuda_linear *l, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                              void *stream, rdt_reason *why) {
  copies *c = l->self;
  rdt_thrice_makers makers = {.launch = copy};
  rdt_way_job job;
  rdt_box_trial trial;
  const rdt_sm_groups *groups = NULL;
  const bool apart = is(l->scheme, "tmr-sm");
  if (apart) RDT_TRY(rdt_sm_groups_of_device(d->kept_off - 1, &groups, why));
  void *on = apart ? rdt_sm_groups_at(groups, 0)->stream : stream; /* where it is to be fast, and able to run */
  RDT_TRY(create_fastest(d, p, "none", lambda, on, (filter){.twins = apart}, &c->of[0], why));
  snprintf(l->kernel, sizeof l->kernel, "%s", c->of[0]->kernel);
  job_of(&job, d, p, "none", lambda, stream);
  for (int i = 1; i < RDT_VOTERS; i++) {
    const rdt_status s = twin_of(c->of[0], &job, &c->of[i], why);
    if (s != RDT_OK && (apart || s != RDT_ERR_UNSUPPORTED)) return s;
    if (s != RDT_OK) c->of[i] = c->of[0];
  }
  for (int i = 0; i < RDT_VOTERS; i++) makers.of[i] = c->of[i];
  RDT_TRY(rdt_box_trial_make(p, &trial, why));
  const rdt_status s = rdt_thrice_create(&p->out, &makers, groups, &trial.o, stream, &c->thrice, why);
  rdt_box_trial_free(&trial);
  return s;
}

static rdt_status thrice_launch(void *self, const rdt_operands *o, rdt_box_sum_to to, void *stream, rdt_reason *why) {
  (void)to;
  return rdt_thrice_launch(((copies *)self)->thrice, o, stream, why);
}

static rdt_status thrice_renew(void *self, const void *weights, void *stream, rdt_reason *why) {
  const copies *c = self;
  for (int i = 0; i < RDT_VOTERS; i++)
    if (is_own(c, i)) RDT_TRY(rdt_cuda_linear_renew(c->of[i], weights, stream, why));
  return RDT_OK;
}

static rdt_cuda_verdict *thrice_verdict(const void *self) {
  return rdt_thrice_verdict(((const copies *)self)->thrice);
}

static void thrice_destroy(void *self) {
  copies *c = self;
  if (!c) return;
  rdt_thrice_destroy(c->thrice);
  for (int i = RDT_VOTERS - 1; i >= 0; i--)
    if (is_own(c, i)) rdt_cuda_linear_destroy(c->of[i]);
  rdt_free(c);
}

static const rdt_way thrice = {.name = "thrice", /* competes with none */
                               .launch = thrice_launch,
                               .renew = thrice_renew,
                               .verdict = thrice_verdict,
                               .destroy = thrice_destroy};

static rdt_status create_thrice(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                void *stream, rdt_cuda_linear **out, rdt_reason *why) {
  rdt_cuda_linear *l = rdt_calloc(1, sizeof *l);
  if (!l) return rdt_fail(why, RDT_ERR_NOMEM, "three copies: out of memory");
  l->way = &thrice;
  l->self = rdt_calloc(1, sizeof(copies));
  snprintf(l->scheme, sizeof l->scheme, "%s", scheme);
  const rdt_status s =
      l->self ? fill_copies(l, d, p, lambda, stream, why) : rdt_fail(why, RDT_ERR_NOMEM, "three copies: out of memory");
  if (s == RDT_OK)
    *out = l;
  else
    rdt_cuda_linear_destroy(l);
  return s;
}

static rdt_status voted_launch(void *self, const rdt_operands *o, rdt_box_sum_to to, void *stream, rdt_reason *why) {
  (void)to;
  return rdt_voted_run(self, o, stream, why);
}

static rdt_status voted_renew(void *self, const void *weights, void *stream, rdt_reason *why) {
  (void)self, (void)weights, (void)stream, (void)why; /* nothing is made of weights */
  return RDT_OK;
}

static rdt_cuda_verdict *voted_verdict(const void *self) {
  return rdt_voted_verdict(self);
}

static void voted_destroy(void *self) {
  rdt_voted_destroy(self);
}

static const rdt_way voted = {.name = "voted", /* competes with three launches alone */
                              .launch = voted_launch,
                              .renew = voted_renew,
                              .verdict = voted_verdict,
                              .destroy = voted_destroy};

/* With votes along k, by this team (rdt_voted_team). */
static rdt_status create_voted(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, int team,
                               rdt_cuda_linear **out, rdt_reason *why) {
  static const char *const names[] = {"block", "grid", "cluster", "split"};
  rdt_problem product;
  rdt_tensor in[2];
  rdt_voted *v = NULL;
  rdt_cuda_linear *l = rdt_calloc(1, sizeof *l);
  if (!l) return rdt_fail(why, RDT_ERR_NOMEM, "three copies: out of memory");
  l->way = &voted;
  l->pointwise = rdt_cuda_linear_pointwise(p, &product, in);
  snprintf(l->scheme, sizeof l->scheme, "%s", scheme);
  snprintf(l->kernel, sizeof l->kernel, "%s_%s_wgmma_voted_%s", p->op == RDT_KOP_CONV ? "conv" : "gemm",
           rdt_dtype_name(p->in[0].dtype), names[team]);
  const rdt_status s =
      rdt_voted_create(d, l->pointwise ? &product : p, team, d->votes ? d->votes : RDT_VOTED_USUAL, &v, why);
  l->self = v;
  if (s == RDT_OK)
    *out = l;
  else
    rdt_cuda_linear_destroy(l);
  return s;
}

typedef struct attempt {
  rdt_cuda_linear *l;
  const rdt_operands *o;
} attempt;

static rdt_status try_it(void *user, void *stream, rdt_reason *why) {
  const attempt *a = user;
  return rdt_cuda_linear_launch(a->l, a->o, (rdt_box_sum_to){NULL, NULL}, stream, why);
}

/* tmr-sm: three launches on groups of multiprocessors, or one whose blocks vote with each other, on the grid or in
 * clusters: the fastest. Only groups keep off a multiprocessor. */
static rdt_status create_apart(const rdt_cuda_device *d, const rdt_problem *p, double lambda, void *stream,
                               rdt_cuda_linear **out, rdt_reason *why) {
  enum { MOST = 3 };
  attempt list[MOST] = {{NULL, NULL}};
  rdt_box_trial trial;
  double seconds[MOST] = {0.0};
  void *users[MOST];
  int n = 0, best = 0;
  const rdt_status first = create_thrice(d, p, "tmr-sm", lambda, stream, &list[0].l, why);
  if (first == RDT_OK) n++;
  if (!d->kept_off && voted_accept(d, p, NULL) == RDT_OK)
    for (int team = RDT_VOTED_GRID; team <= RDT_VOTED_CLUSTER; team++)
      if (create_voted(d, p, "tmr-sm", team, &list[n].l, NULL) == RDT_OK) n++;
  if (n == 0) return first;
  rdt_status s = n > 1 ? rdt_box_trial_make(p, &trial, why) : RDT_OK;
  if (s == RDT_OK && n > 1) {
    for (int i = 0; i < n; i++) list[i].o = &trial.o, users[i] = &list[i];
    s = rdt_cuda_trials(try_it, users, n, stream, seconds, why);
    rdt_box_trial_free(&trial);
    for (int i = 1; i < n; i++)
      if (seconds[i] < seconds[best]) best = i;
  }
  for (int i = 0; i < n; i++)
    if (s != RDT_OK || i != best) rdt_cuda_linear_destroy(list[i].l);
  if (s == RDT_OK) *out = list[best].l;
  return s;
}

rdt_status rdt_cuda_linear_create(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                  void *stream, rdt_cuda_linear **out, rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_cuda_linear_accept(d, p, scheme, why));
  if (!is_tmr(scheme)) return create_fastest(d, p, scheme, lambda, stream, (filter){0}, out, why);
  if (is(scheme, "tmr-block")) return create_voted(d, p, scheme, RDT_VOTED_BLOCK, out, why);
  if (is(scheme, "tmr-split")) return create_voted(d, p, scheme, RDT_VOTED_SPLIT, out, why);
  if (is(scheme, "tmr-sm")) return create_apart(d, p, lambda, stream, out, why);
  return create_thrice(d, p, scheme, lambda, stream, out, why);
}

rdt_status rdt_cuda_linear_create_by(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme,
                                     const char *way, double lambda, void *stream, rdt_cuda_linear **out,
                                     rdt_reason *why) {
  *out = NULL;
  RDT_TRY(rdt_cuda_linear_accept(d, p, scheme, why));
  return create_fastest(d, p, scheme, lambda, stream, (filter){.only = way}, out, why);
}

/* ---- running ---- */

/* Operands as those of the product that it is. */
typedef struct view {
  rdt_tensor in[2];
  rdt_epilogue e;
  rdt_operands o;
} view;

static const rdt_operands *operands_of(const rdt_cuda_linear *l, const rdt_operands *o, view *v) {
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
  return l->way->launch(l->self, operands_of(l, o, &v), to, stream, why);
}

rdt_status rdt_cuda_linear_check(const rdt_cuda_linear_task *list, int n, void *stream, rdt_reason *why) {
  rdt_box_batch batch = {NULL, 0, 0};
  rdt_status s = RDT_OK;
  for (int i = 0; i < n && s == RDT_OK; i++) {
    const rdt_cuda_linear *l = list[i].l;
    view v;
    if (l->way->check) s = l->way->check(l->self, &list[i], operands_of(l, &list[i].o, &v), &batch, why);
  }
  if (s == RDT_OK) s = rdt_box_batch_launch(&batch, stream, why);
  rdt_box_batch_free(&batch);
  return s;
}

rdt_status rdt_cuda_linear_renew(rdt_cuda_linear *l, const void *weights, void *stream, rdt_reason *why) {
  return l->way->renew(l->self, weights, stream, why);
}

int64_t rdt_cuda_linear_blocks(const rdt_cuda_linear *l) {
  return l->way->blocks ? l->way->blocks(l->self) : 0;
}

unsigned rdt_cuda_linear_reads(const rdt_cuda_linear *l) {
  return l->way->reads ? l->way->reads(l->self) : 0;
}

void *rdt_cuda_linear_copy(const rdt_cuda_linear *l, int64_t k, int64_t column) {
  return l->way->copy ? l->way->copy(l->self, k, column) : NULL;
}

rdt_cuda_verdict *rdt_cuda_linear_verdict(const rdt_cuda_linear *l) {
  return l->way->verdict(l->self);
}

bool rdt_cuda_linear_inside(const rdt_cuda_linear *l) {
  return l->way->inside || !l->way->check;
}

const char *rdt_cuda_linear_kernel(const rdt_cuda_linear *l) {
  return l->kernel;
}

const char *rdt_cuda_linear_scheme(const rdt_cuda_linear *l) {
  return l->scheme;
}

void rdt_cuda_linear_destroy(rdt_cuda_linear *l) {
  if (!l) return;
  l->way->destroy(l->self);
  rdt_free(l);
}
