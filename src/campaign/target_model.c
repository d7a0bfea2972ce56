/* A network as a target. Golden: the same network on the plain-C kernels, without protection. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "campaign/target.h"
#include "check/bitsum.h"
#include "check/tolerance.h"
#include "core/context.h"
#include "core/memory.h"
#include "net/graph.h"
#include "net/model.h"
#include "net/remote.h"
#include "plan/survey.h"

typedef struct answer { /* the outputs for one input, one after the other */
  unsigned char *clean; /* their bits; NULL: not computed yet */
  double *golden;
  double *floors; /* of each layer */
} answer;

typedef struct net_target {
  rdt_target base;
  rdt_context *ctx, *plain;
  rdt_target_net net;
  rdt_model *reference;
  rdt_tensor *slice; /* the inputs of one trial */
  answer *answers;   /* one for each slice */
  double *room;      /* of each output: how far off rounding can be, for the input at hand */
  size_t bytes;
  int64_t elements;
} net_target;

/* ---- inputs ---- */

/* No bound exists of what is not finite, and nothing can be struck where there is nothing: neither proves anything. */
static rdt_status check_data(const char *name, const rdt_tensor *x, rdt_reason *why) {
  const int64_t n = rdt_tensor_count(x);
  if (n < 1) return rdt_fail(why, RDT_ERR_ARG, "input %.100s has no element: there is nothing to strike", name);
  for (int64_t i = 0; rdt_dtype_is_float(x->dtype) && i < n; i++)
    if (!isfinite(rdt_load(x->data, x->dtype, rdt_tensor_offset(x, i))))
      return rdt_fail(
          why, RDT_ERR_ARG,
          "input %.100s: element %lld is not finite: no check has a bound for what comes of it, so a campaign "
          "proves nothing; give data without NaN and infinities",
          name, (long long)i);
  return RDT_OK;
}

static rdt_status choose_slices(net_target *t, rdt_reason *why) {
  const rdt_target_net *n = &t->net;
  int64_t images = -1;
  t->slice = rdt_calloc(n->n_inputs, sizeof *t->slice);
  if (!t->slice) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < n->n_inputs; i++) {
    rdt_io_info info;
    const rdt_tensor *x = &n->inputs[i];
    const bool known = rdt_model_input_info(*n->model, i, &info) == RDT_OK;
    const bool open = known && info.rank > 0 && info.shape[0] < 0;
    RDT_TRY(check_data(known ? info.name : "", x, why));
    if (!open || x->rank < 1 || (images >= 0 && x->shape[0] != images)) images = -2;
    if (images == -2) break;
    images = x->shape[0];
  }
  t->base.inputs = images > n->batch ? images / n->batch : 1;
  for (size_t i = 0; i < n->n_inputs; i++) {
    t->slice[i] = n->inputs[i];
    if (t->base.inputs > 1) t->slice[i].shape[0] = n->batch;
  }
  t->answers = rdt_calloc((size_t)t->base.inputs, sizeof *t->answers);
  return t->answers ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

static void take_slice(net_target *t, int64_t which) {
  for (size_t i = 0; i < t->net.n_inputs; i++) {
    rdt_tensor *x = &t->slice[i];
    const size_t bytes = (size_t)rdt_tensor_count(x) * rdt_dtype_size(x->dtype);
    x->data = (unsigned char *)t->net.inputs[i].data + (size_t)which * bytes;
  }
}

/* ---- outputs ---- */

static rdt_status each_output(rdt_model *m, rdt_context *ctx, rdt_reason *why,
                              void (*fn)(void *user, size_t i, const rdt_tensor *out), void *user) {
  for (size_t i = 0; i < rdt_model_output_count(m); i++) {
    rdt_tensor out;
    const rdt_status status = rdt_model_output(m, i, &out);
    if (status != RDT_OK) return rdt_fail(why, status, "%s", rdt_context_error(ctx));
    fn(user, i, &out);
  }
  return RDT_OK;
}

typedef struct walk {
  net_target *t;
  answer *a;
  size_t bytes;
  int64_t elements;
  double worst; /* deviation in units of what rounding can be */
  rdt_shot *s;
} walk;

static void measure(void *user, size_t i, const rdt_tensor *out) {
  net_target *t = user;
  (void)i;
  t->elements += rdt_tensor_count(out);
  t->bytes += (size_t)rdt_tensor_count(out) * rdt_dtype_size(out->dtype);
}

static void keep_golden(void *user, size_t i, const rdt_tensor *out) {
  walk *w = user;
  const int64_t n = rdt_tensor_count(out);
  (void)i;
  for (int64_t e = 0; e < n; e++) w->a->golden[w->elements + e] = rdt_load(out->data, out->dtype, e);
  w->elements += n;
}

/* What rounding can be: the tolerance of whole networks, of the output's largest magnitude, and what the two code paths
 * are apart without a fault. */
static double room_of(const double *golden, const rdt_tensor *out) {
  const int64_t n = rdt_tensor_count(out);
  double scale = 0.0, apart = 0.0;
  for (int64_t e = 0; e < n; e++) {
    const double g = golden[e], off = fabs(rdt_load(out->data, out->dtype, e) - g);
    if (isfinite(g) && fabs(g) > scale) scale = fabs(g);
    if (isfinite(off) && off > apart) apart = off;
  }
  return 2.0 * apart + rdt_tolerance_network(out->dtype) * scale;
}

static void keep_clean(void *user, size_t i, const rdt_tensor *out) {
  walk *w = user;
  const int64_t n = rdt_tensor_count(out);
  const size_t bytes = (size_t)n * rdt_dtype_size(out->dtype);
  double scale = 0.0;
  memcpy(w->a->clean + w->bytes, out->data, bytes);
  for (int64_t e = 0; e < n; e++) scale = fmax(scale, fabs(w->a->golden[w->elements + e]));
  for (int64_t e = 0; e < n; e++) {
    const double g = w->a->golden[w->elements + e], x = rdt_load(out->data, out->dtype, e);
    const bool alike = x == g || (isnan(x) && isnan(g));
    const double off = alike ? 0.0 : fabs(x - g) / (rdt_tolerance_reference(out->dtype) * scale);
    if (!(off <= w->worst)) w->worst = isnan(off) ? INFINITY : off;
  }
  (void)i;
  w->bytes += bytes;
  w->elements += n;
}

static rdt_status run_reference(net_target *t, answer *a, rdt_reason *why) {
  walk w = {.t = t, .a = a};
  rdt_run_result result;
  const rdt_status status = rdt_model_run(t->reference, t->slice, t->net.n_inputs, &result);
  if (status != RDT_OK) return rdt_fail(why, status, "the reference: %s", rdt_context_error(t->plain));
  if (t->bytes == 0) RDT_TRY(each_output(t->reference, t->plain, why, measure, t));
  a->golden = rdt_alloc((size_t)t->elements, sizeof *a->golden);
  a->clean = rdt_alloc(t->bytes, 1);
  if (!a->golden || !a->clean) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the golden outputs");
  return each_output(t->reference, t->plain, why, keep_golden, &w);
}

static rdt_status keep_floors(net_target *t, answer *a, rdt_reason *why) {
  const size_t n = rdt_model_node_count(*t->net.model);
  rdt_result r;
  a->floors = rdt_calloc(n, sizeof *a->floors);
  if (!a->floors) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < n; i++)
    if (rdt_model_node_result(*t->net.model, i, &r) == RDT_OK) a->floors[i] = r.floor;
  return RDT_OK;
}

/* Input `which`: its golden outputs, and those of a clean run, which must agree. */
static rdt_status expect(net_target *t, int64_t which, rdt_reason *why) {
  answer *a = &t->answers[which];
  walk w = {.t = t, .a = a};
  rdt_run_result result = {0};
  take_slice(t, which);
  if (a->clean) return RDT_OK;
  RDT_TRY(run_reference(t, a, why));
  const rdt_status status = rdt_model_run(*t->net.model, t->slice, t->net.n_inputs, &result);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return rdt_fail(why, status, "%s", rdt_context_error(t->ctx));
  if (status == RDT_ERR_FAULT || result.faults > 0)
    return rdt_fail(why, RDT_ERR_FAULT, "a run without a planted fault reports one: %s", rdt_context_error(t->ctx));
  RDT_TRY(each_output(*t->net.model, t->ctx, why, keep_clean, &w));
  RDT_TRY(keep_floors(t, a, why));
  if (w.worst > t->base.deviation) t->base.deviation = w.worst;
  return w.worst <= 1.0 ? RDT_OK
                        : rdt_fail(why, RDT_ERR_FAULT,
                                   "without a fault, the outputs are not those of the plain-C kernels: %.3g times as "
                                   "far off as rounding explains",
                                   w.worst);
}

static int64_t largest(const rdt_tensor *out, const void *data, int64_t first, int64_t n) {
  int64_t at = 0;
  double most = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    const double x = rdt_load(data, out->dtype, first + i);
    if (!(x <= most)) {
      most = x;
      at = i;
      if (isnan(x)) break;
    }
  }
  return at;
}

static void compare(void *user, size_t i, const rdt_tensor *out) {
  walk *w = user;
  const int64_t n = rdt_tensor_count(out), row = out->rank > 0 ? out->shape[out->rank - 1] : 1;
  const size_t bytes = (size_t)n * rdt_dtype_size(out->dtype);
  const unsigned char *clean = w->a->clean + w->bytes;
  const double *golden = w->a->golden + w->elements;
  (void)i;
  w->bytes += bytes;
  w->elements += n;
  if (memcmp(clean, out->data, bytes) == 0) return;
  w->s->same = false;
  const rdt_tensor was = rdt_tensor_dense((void *)clean, out->dtype, out->rank, out->shape);
  const double room = room_of(golden, &was);
  for (int64_t e = 0; e < n; e++) {
    const double x = rdt_load(out->data, out->dtype, e), g = golden[e];
    if (x == g || (isnan(x) && isnan(g)) || fabs(x - g) <= room) continue;
    w->s->wrong++;
    const int64_t first = e - e % row;
    w->s->critical = w->s->critical || largest(out, out->data, first, row) != largest(out, clean, first, row);
  }
}

/* ---- runs ---- */

static int layer_of(const net_target *t, const char *name) {
  for (int i = 0; i < t->base.n_layers; i++)
    if (strcmp(t->base.names[i], name) == 0) return i;
  return -1;
}

static void take_layer(net_target *t, rdt_shot *s) {
  rdt_result r;
  double worst = -1.0;
  s->layer = s->hit.done ? layer_of(t, s->hit.node) : -1;
  for (int i = 0; i < t->base.n_layers; i++) {
    if ((s->layer >= 0 && i != s->layer) || rdt_model_node_result(*t->net.model, (size_t)i, &r) != RDT_OK) continue;
    if (!(r.ratio > worst)) continue;
    worst = s->ratio = r.ratio;
    s->residual = r.residual;
    s->bound = r.bound;
    s->floor = r.floor;
    s->diagnosis = r.diagnosis;
  }
}

static rdt_status prepare(rdt_target *base, int64_t id, const char *spec, rdt_reason *why) {
  const net_target *t = (net_target *)base;
  rdt_fault f;
  if (spec && t->ctx->machine) {
    RDT_TRY(rdt_fault_parse(spec, &f, why));
    RDT_TRY(rdt_target_strikes_once(&f, spec, why));
    if (f.core >= 0)
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s: no core in networks on a GPU: a gemm: target has it", spec);
  }
  return expect((net_target *)base, id % base->inputs, why);
}

static rdt_status shoot(rdt_target *base, int64_t id, const char *spec, rdt_shot *s, rdt_reason *why) {
  net_target *t = (net_target *)base;
  const int64_t which = id % t->base.inputs;
  rdt_run_result result = {0};
  *s = (rdt_shot){.layer = -1, .same = true};
  rdt_remote *remote = (*t->net.model)->remote;
  if (remote) remote->runs = id;
  for (int i = 0; i < t->base.n_layers; i++) {
    rdt_plan *plan = rdt_model_step(*t->net.model, (size_t)i)->plan;
    if (plan) rdt_plan_rewind(plan, id, false);
  }
  const rdt_status armed = rdt_model_inject(*t->net.model, spec);
  if (armed != RDT_OK) return rdt_fail(why, armed, "%s", rdt_context_error(t->ctx));
  s->status = t->net.run(t->net.user, id, spec, t->slice, &result, why);
  if (spec) s->hit = *rdt_model_injection(*t->net.model);
  if (s->status != RDT_OK && s->status != RDT_ERR_FAULT && !rdt_target_ended(s, s->status, why)) return s->status;
  s->verdict = result.verdict;
  s->checks = result.checks;
  s->suspects = result.suspects;
  s->faults = result.faults;
  s->unchecked = result.unchecked;
  take_layer(t, s);
  if (remote && s->hit.done && s->faults == 0 && s->status == RDT_OK)
    RDT_TRY(rdt_remote_effect(remote, &s->hit, &s->floor, why));
  if (remote && s->hit.site == RDT_SITE_ACCUM && s->faults > 0) s->hit.changed = s->diagnosis != RDT_DIAG_CHECKER;
  if (s->layer >= 0) s->floor_clean = t->answers[which].floors[s->layer];
  walk w = {.t = t, .a = &t->answers[which], .s = s};
  if (s->status == RDT_OK) RDT_TRY(each_output(*t->net.model, t->ctx, why, compare, &w));
  return RDT_OK; /* what was hit in memory its plan has put in order when the run ended, noticed or not */
}

typedef struct pair {
  net_target *t;
  rdt_context *ctx;
  rdt_model *bare;
} pair;

static rdt_status run_either(void *user, bool protected, rdt_reason *why) {
  pair *p = user;
  const net_target *t = p->t;
  rdt_run_result r;
  const rdt_status s = rdt_model_run(protected ? *t->net.model : p->bare, t->slice, t->net.n_inputs, &r);
  return s == RDT_OK ? RDT_OK : rdt_fail(why, s, "%s", rdt_context_error(protected ? t->ctx : p->ctx));
}

static rdt_status take_time(rdt_target *base, double seconds[2], rdt_reason *why) {
  net_target *t = (net_target *)base;
  pair p = {.t = t};
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = "none";
  take_slice(t, 0);
  rdt_status status = rdt_context_create(&p.ctx, t->ctx->threads);
  if (status == RDT_OK) status = rdt_context_set_policy(p.ctx, &policy);
  if (status == RDT_OK && *t->ctx->device_name) status = rdt_context_set_device(p.ctx, t->ctx->device_name);
  if (status == RDT_OK) status = rdt_model_load_replaced(p.ctx, t->net.path, t->net.named, t->net.n_named, &p.bare);
  if (status != RDT_OK)
    rdt_fail(why, status, "%s", p.ctx ? rdt_context_error(p.ctx) : rdt_status_text(status));
  else
    status = rdt_target_clock(run_either, &p, seconds, why);
  rdt_model_free(p.bare);
  rdt_context_destroy(p.ctx);
  return status;
}

static void destroy(rdt_target *base) {
  net_target *t = (net_target *)base;
  for (int64_t i = 0; t->answers && i < t->base.inputs; i++) {
    rdt_free(t->answers[i].clean);
    rdt_free(t->answers[i].golden);
    rdt_free(t->answers[i].floors);
  }
  rdt_free(t->answers);
  rdt_free(t->slice);
  rdt_model_free(t->reference);
  rdt_context_destroy(t->plain);
  rdt_free(t);
}

static rdt_status make_reference(net_target *t, rdt_reason *why) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = "none";
  RDT_TRY(rdt_context_open(&t->plain, t->ctx->threads, why));
  t->plain->isa = RDT_ISA_GENERIC;
  rdt_status status = rdt_context_set_policy(t->plain, &policy);
  if (status == RDT_OK)
    status = rdt_model_load_replaced(t->plain, t->net.path, t->net.named, t->net.n_named, &t->reference);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "the reference: %s", rdt_context_error(t->plain));
}

static void put_sum(uint64_t sum, char text[20]) {
  snprintf(text, 20, "%016" PRIx64, sum);
}

/* Files change, and their names stay. */
static void sum_files(net_target *t) {
  const rdt_maps *files = &(*t->net.model)->graph->maps;
  uint64_t model = 0, input = 0;
  for (int i = 0; i < files->n; i++) model = 31 * model + rdt_bitsum(files->list[i].data, files->list[i].bytes);
  for (size_t i = 0; i < t->net.n_inputs; i++) {
    const rdt_tensor *x = &t->net.inputs[i];
    const int64_t kind[2] = {x->dtype, x->rank};
    input = 31 * input + rdt_bitsum(kind, sizeof kind);
    input = 31 * input + rdt_bitsum(x->shape, (size_t)x->rank * sizeof *x->shape);
    input = 31 * input + rdt_tensor_seal(x, 1);
  }
  put_sum(model, t->base.model);
  put_sum(input, t->base.input);
}

/* Of a layer on a device. What the host computes in its place is not struck. */
static rdt_status add_spots(net_target *t, int layer, rdt_reason *why) {
  rdt_target *b = &t->base;
  const rdt_model *m = *t->net.model;
  const rdt_scheme_info *scheme = rdt_scheme_find(b->layers[layer].scheme);
  rdt_spot *grown = rdt_grow(b->spots, (size_t)b->n_spots, (size_t)b->n_spots + RDT_SITE_COUNT, sizeof *grown);
  if (!grown) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  b->spots = grown;
  if (scheme) b->layers[layer].info = scheme;
  const int step = (int)(rdt_model_step(m, (size_t)layer) - m->steps);
  for (int s = 0; s < RDT_SITE_COUNT; s++)
    if (rdt_remote_has_site(m->remote, step, (rdt_site)s)) b->spots[b->n_spots++] = (rdt_spot){layer, (rdt_site)s};
  return RDT_OK;
}

/* Of a plan file, which has choices, something is used. */
static rdt_status fits(net_target *t, rdt_reason *why) {
  rdt_survey survey;
  if (!rdt_context_has_choices(t->ctx)) return RDT_OK;
  if (rdt_model_survey(*t->net.model, t->slice, t->net.n_inputs, &survey) != RDT_OK)
    return rdt_fail(why, RDT_ERR_ARG, "%s", rdt_context_error(t->ctx));
  const rdt_planned planned = rdt_survey_planned(t->ctx, &survey);
  rdt_survey_free(&survey);
  return rdt_planned_fits(&planned, "the plan file", why);
}

static rdt_status make(net_target *t, rdt_reason *why) {
  const rdt_model *m = *t->net.model;
  if (t->ctx->machine) snprintf(t->base.device, sizeof t->base.device, "%s", t->ctx->machine->device.name);
  sum_files(t);
  RDT_TRY(make_reference(t, why));
  RDT_TRY(choose_slices(t, why));
  RDT_TRY(fits(t, why));
  RDT_TRY(expect(t, 0, why));
  const int n = (int)rdt_model_node_count(m);
  RDT_TRY(rdt_target_layers(&t->base, n, why));
  for (int i = 0; i < n; i++) {
    rdt_node_info info;
    const rdt_plan *plan = rdt_model_step(m, (size_t)i)->plan;
    if (rdt_model_node_info(m, (size_t)i, &info) != RDT_OK)
      return rdt_fail(why, RDT_ERR_ARG, "%s", rdt_context_error(t->ctx));
    RDT_TRY(
        rdt_target_layer_set(&t->base, i, info.name, info.op, info.kernel, info.scheme, m->remote ? NULL : plan, why));
    if (m->remote) RDT_TRY(add_spots(t, i, why));
  }
  return RDT_OK;
}

rdt_status rdt_target_model(rdt_context *ctx, const rdt_target_net *net, rdt_target **out, rdt_reason *why) {
  net_target *t = rdt_calloc(1, sizeof *t);
  *out = NULL;
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  t->ctx = ctx;
  t->ctx->policy.suspect_rate = 0.0; /* the schemes under test stay the same */
  t->net = *net;
  t->base.prepare = prepare;
  t->base.run = shoot;
  t->base.time = take_time;
  t->base.destroy = destroy;
  const rdt_status status = make(t, why);
  if (status == RDT_OK)
    *out = &t->base;
  else
    rdt_target_destroy(&t->base);
  return status;
}
