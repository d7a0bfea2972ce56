/* Products and convolutions as a target: one, or the layers of a network that is built in; each on data of one family,
 * or of each. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign/op.h"
#include "core/memory.h"
#include "plan/survey.h"
#include "plan/workloads.h"

enum { MOST_OPS = RDT_WORKLOAD_LAYERS * RDT_FAMILY_COUNT, EXPECT_EVERY = 64 };

typedef struct op_target {
  rdt_target base;
  rdt_op *ops; /* a layer each */
  int n;
  rdt_target_data data;
} op_target;

/* ---- the text ---- */

static const char forms[] = "gemm:MxNxK[:DTYPE], or conv:NxCxHxW:OxRxS[:sSTRIDE][:pPAD][:dDILATION][:gGROUPS][:DTYPE]";

bool rdt_target_is_op(const char *text) {
  const rdt_workload *w;
  int64_t batch;
  return strncmp(text, "gemm:", 5) == 0 || strncmp(text, "conv:", 5) == 0 ||
         rdt_workload_find(text, &w, &batch, NULL) != RDT_ERR_NAME;
}

/* "1x64x56x56": n lengths, up to ':' or the end; NULL: it is something else. */
static const char *take_lengths(const char *text, int n, int64_t *lengths) {
  enum { MOST = 1 << 20 };
  for (int i = 0; i < n; i++) {
    char *end;
    const long long x = strtoll(text, &end, 10);
    if (end == text || *text == '-' || *text == '+' || x < 1 || x > MOST) return NULL;
    if (*end != (i + 1 < n ? 'x' : ':') && !(i + 1 == n && *end == '\0')) return NULL;
    lengths[i] = x;
    text = end + (*end != '\0');
  }
  return text;
}

static const rdt_dtype taken[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};

static bool take_dtype(const char *word, rdt_dtype *t) {
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (strcmp(word, rdt_dtype_info(taken[i])->name) == 0) {
      *t = taken[i];
      return true;
    }
  return false;
}

bool rdt_target_says_dtype(const char *text) {
  rdt_dtype t;
  for (const char *word = strchr(text, ':'); word; word = strchr(word + 1, ':')) {
    char name[8];
    const size_t n = strcspn(word + 1, ":");
    if (n < sizeof name && snprintf(name, sizeof name, "%.*s", (int)n, word + 1) > 0 && take_dtype(name, &t))
      return true;
  }
  return false;
}

/* Is one of the words a datatype that none of these ops takes? */
static rdt_status refuse(const char *text, const char *and, rdt_reason *why) {
  char list[64] = "";
  for (size_t i = 0, used = 0; i < sizeof taken / sizeof *taken; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", rdt_dtype_info(taken[i])->name);
  for (const char *word = strchr(text, ':'); word; word = strchr(word + 1, ':'))
    for (int t = 0; t < RDT_DTYPE_COUNT; t++) {
      const char *name = rdt_dtype_info((rdt_dtype)t)->name;
      rdt_dtype known;
      if (strncmp(word + 1, name, strlen(name)) == 0 && strchr(":", word[1 + strlen(name)]) &&
          !take_dtype(name, &known))
        return rdt_fail(why, RDT_ERR_ARG, "%.100s: faults are planted in ops of %s, not of %s", text, list, name);
    }
  return rdt_fail(why, RDT_ERR_ARG, "a target that is one op is %s%s", forms, and);
}

/* What follows the lengths: a datatype, and of a convolution one letter with a number each. */
static bool take_rest(const char *text, rdt_window *w, rdt_dtype *t) {
  char words[64], *save = NULL;
  int64_t x = 0;
  if (snprintf(words, sizeof words, "%s", text) >= (int)sizeof words) return false;
  for (char *word = strtok_r(words, ":", &save); word; word = strtok_r(NULL, ":", &save)) {
    if (take_dtype(word, t)) continue;
    const bool none = strcmp(word, "p0") == 0;
    if (!w || !strchr("spdg", *word) || (!none && !take_lengths(word + 1, 1, &x))) return false;
    for (int i = 0; i < 2; i++) {
      if (*word == 's') w->stride[i] = x;
      if (*word == 'p') w->before[i] = w->after[i] = none ? 0 : x;
      if (*word == 'd') w->dilation[i] = x;
    }
    if (*word == 'g') w->groups = x;
  }
  return true;
}

static rdt_tensor packed(rdt_dtype t, int rank, const int64_t *shape) {
  return rdt_tensor_dense(NULL, t, rank, shape);
}

rdt_status rdt_target_gemm(const char *text, rdt_problem *p, rdt_reason *why) {
  int64_t l[3];
  rdt_dtype t = RDT_F32;
  const char *rest = strncmp(text, "gemm:", 5) == 0 ? take_lengths(text + 5, 3, l) : NULL;
  if (!rest || !take_rest(rest, NULL, &t)) return refuse(text, "", why);
  RDT_TRY(rdt_problem_init(p, RDT_KOP_GEMM, 2));
  p->acc = rdt_dtype_accumulator(t);
  p->in[0] = packed(t, 2, (const int64_t[]){l[0], l[2]});
  p->in[1] = packed(t == RDT_U8 ? RDT_S8 : t, 2, (const int64_t[]){l[2], l[1]});
  p->out = packed(p->acc, 2, (const int64_t[]){l[0], l[1]});
  return RDT_OK;
}

static rdt_status read_conv(const char *text, rdt_problem *p, rdt_reason *why) {
  int64_t x[4], w[3], o[4];
  rdt_dtype t = RDT_F32;
  const char *rest = take_lengths(text + 5, 4, x);
  if (rest) rest = take_lengths(rest, 3, w);
  RDT_TRY(rdt_problem_init(p, RDT_KOP_CONV, 2));
  rdt_window *win = &p->window;
  *win = (rdt_window){.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
  bool good = rest && take_rest(rest, win, &t) && x[1] % win->groups == 0 && w[0] % win->groups == 0;
  for (int i = 0; i < 2 && good; i++) {
    win->kernel[i] = w[1 + i];
    const int64_t reach = (w[1 + i] - 1) * win->dilation[i] + 1, room = x[2 + i] + 2 * win->before[i] - reach;
    good = room >= 0;
    o[2 + i] = room / win->stride[i] + 1;
  }
  if (!good) return refuse(text, ", and has a result", why);
  o[0] = x[0];
  o[1] = w[0];
  p->acc = rdt_dtype_accumulator(t);
  p->in[0] = packed(t, 4, x);
  p->in[1] = packed(t == RDT_U8 ? RDT_S8 : t, 4, (const int64_t[]){w[0], x[1] / win->groups, w[1], w[2]});
  p->out = packed(p->acc, 4, o);
  return RDT_OK;
}

/* ---- layers ---- */

/* Seeds of their own for each layer, and for each drawing of data. */
static uint64_t seed_of(const op_target *t, int i, int64_t drawing) {
  const rdt_fault f = {.seed = t->data.seed};
  return rdt_fault_random(&f, (uint64_t)drawing * MOST_OPS + (uint64_t)i);
}

static rdt_status add_as(op_target *t, rdt_context *ctx, const char *name, rdt_family family, const rdt_problem *p,
                         rdt_reason *why) {
  char text[128];
  rdt_problem copy;
  rdt_op *grown = rdt_grow(t->ops, (size_t)t->n, (size_t)t->n + 1, sizeof *grown);
  if (!grown) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  t->ops = grown;
  RDT_TRY(rdt_problem_copy(&copy, p));
  snprintf(text, sizeof text, "%s%s%s", name, t->data.family ? " " : "", t->data.family ? rdt_family_name(family) : "");
  t->n++;
  return rdt_op_init(&grown[t->n - 1], ctx, text, family, &copy, why);
}

/* On each family that is asked for. The problem stays the caller's. */
static rdt_status add(op_target *t, rdt_context *ctx, const char *name, const rdt_problem *p, rdt_reason *why) {
#define X(id, name, claimed, text) " " name
  static const char names[] = RDT_FAMILY_TABLE(X);
#undef X
  const char *asked = t->data.family;
  const bool all = asked && strcmp(asked, "all") == 0;
  if (asked && !rdt_dtype_is_float(p->in[0].dtype))
    return rdt_fail(why, RDT_ERR_ARG, "families of data are of real numbers: %s is not",
                    rdt_dtype_name(p->in[0].dtype));
  const rdt_family one = asked ? rdt_family_find(asked) : RDT_FAMILY_NORMAL;
  if (!all && one == RDT_FAMILY_COUNT)
    return rdt_fail(why, RDT_ERR_NAME, "no family of data is called '%s'; there are:%s, and all of them: all", asked,
                    names);
  for (int f = 0; f < RDT_FAMILY_COUNT; f++)
    if (all || f == (int)one) RDT_TRY(add_as(t, ctx, name, (rdt_family)f, p, why));
  return RDT_OK;
}

static rdt_status add_workload(op_target *t, rdt_context *ctx, const char *text, rdt_reason *why) {
  const rdt_workload *w;
  rdt_dtype dtype = RDT_F32;
  int64_t batch;
  char name[128];
  snprintf(name, sizeof name, "%s", text);
  char *last = strrchr(name, ':');
  if (last && take_dtype(last + 1, &dtype)) *last = '\0';
  RDT_TRY(rdt_workload_find(name, &w, &batch, why));
  for (int i = 0; i < w->count; i++) {
    rdt_problem p;
    RDT_TRY(rdt_layer_problem(&w->layers[i], batch, dtype, &p, why));
    const rdt_status status = add(t, ctx, w->layers[i].name, &p, why);
    rdt_problem_clear(&p);
    RDT_TRY(status);
  }
  return RDT_OK;
}

static rdt_status add_one(op_target *t, rdt_context *ctx, const char *text, rdt_reason *why) {
  rdt_problem p = {0};
  const bool gemm = strncmp(text, "gemm:", 5) == 0;
  rdt_status status = gemm ? rdt_target_gemm(text, &p, why) : read_conv(text, &p, why);
  if (status == RDT_OK) status = add(t, ctx, gemm ? "gemm" : "conv", &p, why);
  rdt_problem_clear(&p);
  return status;
}

/* ---- runs ---- */

/* What is expected of a layer is computed when it is first asked. */
static rdt_status expect(op_target *t, int i, rdt_reason *why) {
  return t->ops[i].clean ? RDT_OK : rdt_op_expect(&t->ops[i], &t->base.deviation, why);
}

/* Runs without a fault: other data each time, the layers in turns. They are compared with a golden result now and
 * then: that takes a hundred times as long as what it is compared with. */
static rdt_status draw_fresh(op_target *t, int64_t id, rdt_reason *why) {
  const int i = (int)(id % t->n);
  const int64_t drawing = id / t->n;
  RDT_TRY(rdt_op_draw(&t->ops[i], seed_of(t, i, drawing), why));
  if (drawing % EXPECT_EVERY == 0) RDT_TRY(expect(t, i, why));
  t->ops[i].checkpoints = false;
  return RDT_OK;
}

/* The layer that a fault is for: of those that it names and that have its site, the one that its seed chooses. */
static rdt_status choose(const op_target *t, const char *spec, int *at, rdt_reason *why) {
  const rdt_target *b = &t->base;
  rdt_fault f;
  uint64_t n = 0;
  RDT_TRY(rdt_fault_parse(spec, &f, why));
  for (int pass = 0; pass < 2; pass++) {
    uint64_t left = pass ? rdt_fault_random(&f, 19) % n : 0;
    for (int i = 0; i < b->n_spots; i++) {
      const int layer = b->spots[i].layer;
      if (b->spots[i].site != f.site || !rdt_fault_matches(&f, b->names[layer])) continue;
      *at = layer;
      if (pass && left-- == 0) return RDT_OK;
      n += pass == 0;
    }
    if (n == 0)
      return rdt_fail(why, RDT_ERR_ARG, "the target has no %s to plant a fault in, in a layer '%s'",
                      rdt_site_name(f.site), f.layer);
  }
  return RDT_OK;
}

static rdt_status prepare(rdt_target *base, int64_t id, const char *spec, rdt_reason *why) {
  op_target *t = (op_target *)base;
  int i = 0;
  if (!spec && t->data.fresh) return draw_fresh(t, id, why);
  if (spec) RDT_TRY(choose(t, spec, &i, why));
  return expect(t, i, why);
}

static rdt_status shoot(rdt_target *base, int64_t id, const char *spec, rdt_shot *s, rdt_reason *why) {
  op_target *t = (op_target *)base;
  const bool fresh = !spec && t->data.fresh;
  int i = fresh ? (int)(id % t->n) : 0;
  if (spec) RDT_TRY(choose(t, spec, &i, why));
  RDT_TRY(rdt_op_shoot(&t->ops[i], id, spec, s, why));
  if (s->hit.done || fresh) s->layer = i;
  return RDT_OK;
}

typedef struct both {
  op_target *t;
  rdt_plan **bare;
} both;

static rdt_status run_either(void *user, bool protected, rdt_reason *why) {
  both *p = user;
  for (int i = 0; i < p->t->n; i++) RDT_TRY(rdt_op_run(&p->t->ops[i], protected ? NULL : p->bare[i], why));
  return RDT_OK;
}

static rdt_status take_time(rdt_target *base, double seconds[2], rdt_reason *why) {
  op_target *t = (op_target *)base;
  both p = {t, rdt_calloc((size_t)t->n, sizeof *p.bare)};
  if (!p.bare) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  rdt_status status = RDT_OK;
  for (int i = 0; i < t->n && status == RDT_OK; i++) status = rdt_op_bare(&t->ops[i], &p.bare[i], why);
  if (status == RDT_OK) status = rdt_target_clock(run_either, &p, seconds, why);
  for (int i = 0; i < t->n; i++) rdt_plan_destroy(p.bare[i]);
  rdt_free(p.bare);
  return status;
}

static void destroy(rdt_target *base) {
  op_target *t = (op_target *)base;
  for (int i = 0; i < t->n; i++) rdt_op_clear(&t->ops[i]);
  rdt_free(t->ops);
  rdt_free(t);
}

/* Of a plan file, which has choices, something is used. */
static rdt_status fits(const op_target *t, const rdt_context *ctx, rdt_reason *why) {
  rdt_planned planned = {.all = 0};
  for (int i = 0; rdt_context_has_choices(ctx) && i < t->n; i++) rdt_planned_add(&planned, ctx, &t->ops[i].prob, 1);
  return rdt_planned_fits(&planned, "the plan file", why);
}

static rdt_status make(op_target *t, rdt_context *ctx, const char *text, rdt_reason *why) {
  const bool one = strncmp(text, "gemm:", 5) == 0 || strncmp(text, "conv:", 5) == 0;
  ctx->policy.keep_weights = 1;   /* a weight that was hit is restored */
  ctx->policy.suspect_rate = 0.0; /* the scheme under test stays the same */
  RDT_TRY(one ? add_one(t, ctx, text, why) : add_workload(t, ctx, text, why));
  RDT_TRY(rdt_target_layers(&t->base, t->n, why));
  for (int i = 0; i < t->n; i++) {
    rdt_op *op = &t->ops[i];
    RDT_TRY(rdt_op_draw(op, seed_of(t, i, 0), why));
    RDT_TRY(rdt_target_layer_set(&t->base, i, op->name, op->plan->label, rdt_plan_kernel(op->plan),
                                 rdt_plan_scheme(op->plan), op->plan, why));
  }
  RDT_TRY(fits(t, ctx, why));
  return expect(t, 0, why);
}

rdt_status rdt_target_op(rdt_context *ctx, const char *text, const rdt_target_data *data, rdt_target **out,
                         rdt_reason *why) {
  op_target *t = rdt_calloc(1, sizeof *t);
  *out = NULL;
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  t->data = *data;
  t->base.inputs = !data->fresh;
  t->base.prepare = prepare;
  t->base.run = shoot;
  t->base.time = take_time;
  t->base.destroy = destroy;
  const rdt_status status = make(t, ctx, text, why);
  if (status == RDT_OK)
    *out = &t->base;
  else
    rdt_target_destroy(&t->base);
  return status;
}
