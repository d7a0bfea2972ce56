/* One product or one convolution as a target: planned once, its golden result computed once in double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign/target.h"
#include "check/tolerance.h"
#include "core/memory.h"

typedef struct op_target {
  rdt_target base;
  rdt_context *ctx;
  rdt_problem prob; /* with data */
  rdt_plan *plan;
  rdt_tensor out;
  unsigned char *clean;  /* its bits without a fault */
  bool checkpoints;      /* what the plan has found out from its clean run */
  double *golden, *room; /* of each element: its value, and how far off rounding can be */
} op_target;

bool rdt_target_is_op(const char *text) {
  return strncmp(text, "gemm:", 5) == 0 || strncmp(text, "conv:", 5) == 0;
}

/* ---- the text ---- */

static const char forms[] = "gemm:MxNxK[:DTYPE], or conv:NxCxHxW:OxRxS[:sSTRIDE][:pPAD][:dDILATION][:gGROUPS][:DTYPE]";

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

static bool take_dtype(const char *word, rdt_dtype *t) {
  static const rdt_dtype taken[] = {RDT_F32, RDT_F64, RDT_BF16, RDT_F16, RDT_S8, RDT_U8};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (strcmp(word, rdt_dtype_info(taken[i])->name) == 0) {
      *t = taken[i];
      return true;
    }
  return false;
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

static rdt_status read_gemm(const char *text, rdt_problem *p, rdt_reason *why) {
  int64_t l[3];
  rdt_dtype t = RDT_F32;
  text = take_lengths(text, 3, l);
  if (!text || !take_rest(text, NULL, &t)) return rdt_fail(why, RDT_ERR_ARG, "a target that is one op is %s", forms);
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
  text = take_lengths(text, 4, x);
  if (text) text = take_lengths(text, 3, w);
  RDT_TRY(rdt_problem_init(p, RDT_KOP_CONV, 2));
  rdt_window *win = &p->window;
  *win = (rdt_window){.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
  bool good = text && take_rest(text, win, &t) && x[1] % win->groups == 0 && w[0] % win->groups == 0;
  for (int i = 0; i < 2 && good; i++) {
    win->kernel[i] = w[1 + i];
    const int64_t reach = (w[1 + i] - 1) * win->dilation[i] + 1, room = x[2 + i] + 2 * win->before[i] - reach;
    good = room >= 0;
    o[2 + i] = room / win->stride[i] + 1;
  }
  if (!good) return rdt_fail(why, RDT_ERR_ARG, "a target that is one op is %s, and has a result", forms);
  o[0] = x[0];
  o[1] = w[0];
  p->acc = rdt_dtype_accumulator(t);
  p->in[0] = packed(t, 4, x);
  p->in[1] = packed(t == RDT_U8 ? RDT_S8 : t, 4, (const int64_t[]){w[0], x[1] / win->groups, w[1], w[2]});
  p->out = packed(p->acc, 4, o);
  return RDT_OK;
}

/* ---- data ---- */

/* Sums of twelve uniform numbers are normal enough, and the same everywhere. Integers over their whole range, but
 * weights to 7 bits: without VNNI sums of two products saturate beyond. */
static rdt_status fill(rdt_tensor *t, uint64_t seed, uint64_t which, rdt_reason *why) {
  const rdt_fault f = {.seed = seed * 2 + which};
  const int64_t n = rdt_tensor_count(t);
  t->data = rdt_alloc((size_t)n, rdt_dtype_size(t->dtype));
  if (!t->data) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the data of the target");
  const bool real = rdt_dtype_is_float(t->dtype);
  for (int64_t i = 0; i < n; i++) {
    double sum = -6.0;
    const uint64_t r = rdt_fault_random(&f, 3 * (uint64_t)i);
    if (!real) {
      const int64_t x = (int64_t)(r % (t->dtype == RDT_U8 ? 256 : which ? 127 : 255));
      rdt_store_int(t->data, t->dtype, i, t->dtype == RDT_U8 ? x : which ? x - 63 : x - 127);
      continue;
    }
    for (uint64_t k = 0; k < 3; k++) {
      const uint64_t bits = k ? rdt_fault_random(&f, 3 * (uint64_t)i + k) : r;
      for (int q = 0; q < 4; q++) sum += (double)(bits >> 16 * q & 0xffff) * 0x1p-16;
    }
    rdt_store(t->data, t->dtype, i, sum);
  }
  return RDT_OK;
}

/* The op by the plain-C reference on operands of another datatype: of doubles, or as they are. absolute: of their
 * magnitudes. */
static rdt_status refer(const op_target *t, rdt_dtype as, bool absolute, void *result, rdt_reason *why) {
  rdt_problem p;
  void *state = NULL, *data[2] = {NULL, NULL};
  RDT_TRY(rdt_problem_copy(&p, &t->prob));
  rdt_status status = RDT_OK;
  for (int i = 0; i < 2; i++) {
    const rdt_tensor *in = &t->prob.in[i];
    const rdt_dtype type = as == RDT_F64 ? RDT_F64 : in->dtype;
    const int64_t n = rdt_tensor_count(in);
    data[i] = rdt_alloc((size_t)n, rdt_dtype_size(type));
    if (!data[i]) status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the golden result");
    for (int64_t e = 0; data[i] && e < n; e++) {
      const double x = rdt_load(in->data, in->dtype, e);
      rdt_store(data[i], type, e, absolute ? fabs(x) : x);
    }
    p.in[i] = rdt_tensor_dense(data[i], type, in->rank, in->shape);
  }
  p.acc = as;
  p.out = rdt_tensor_dense(result, as, t->out.rank, t->out.shape);
  const rdt_kernel *k = rdt_cpu_reference(&p);
  if (status == RDT_OK) status = k->create(&p, t->ctx->threads, &state, why);
  if (status == RDT_OK) {
    const rdt_operands o = {.in = p.in, .n_in = 2, .out = p.out};
    status = k->run(state, &o, why);
  }
  if (state) k->destroy(state);
  rdt_free(data[0]);
  rdt_free(data[1]);
  rdt_problem_clear(&p);
  return status;
}

/* Golden values, and the rigorous bound of two correct evaluations. Integers are exact. */
static rdt_status make_golden(op_target *t, rdt_reason *why) {
  const rdt_problem *p = &t->prob;
  const int64_t n = rdt_tensor_count(&t->out);
  int64_t m, columns;
  t->golden = rdt_alloc((size_t)n, sizeof *t->golden);
  t->room = rdt_calloc((size_t)n, sizeof *t->room);
  if (!t->golden || !t->room) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the golden result");
  if (p->acc == RDT_S32) {
    RDT_TRY(refer(t, RDT_S32, false, t->golden, why)); /* half of the memory: unfolded from the end */
    for (int64_t i = n - 1; i >= 0; i--) t->golden[i] = rdt_load(t->golden, RDT_S32, i);
    return RDT_OK;
  }
  RDT_TRY(refer(t, RDT_F64, false, t->golden, why));
  RDT_TRY(refer(t, RDT_F64, true, t->room, why));
  rdt_tolerance tolerance = {.acc = rdt_accumulator_of(p->in[0].dtype, p->acc), .u_check = rdt_dtype_info(RDT_F64)->u};
  rdt_problem_mnk(p, &m, &columns, &tolerance.k);
  for (int64_t i = 0; i < n; i++) t->room[i] = rdt_bound_element(&tolerance, t->room[i]);
  return RDT_OK;
}

/* ---- runs ---- */

static rdt_status execute(op_target *t, rdt_shot *s, rdt_reason *why) {
  rdt_result r = {0};
  s->status = rdt_plan_execute(t->plan, &t->prob.in[0], &t->out, &r);
  if (s->status != RDT_OK && s->status != RDT_ERR_FAULT)
    return rdt_fail(why, s->status, "%s", rdt_context_error(t->ctx));
  s->verdict = r.verdict;
  s->diagnosis = r.diagnosis;
  s->checks = r.checks;
  s->suspects = r.suspects;
  s->faults = r.faults;
  s->unchecked = r.unchecked;
  s->ratio = r.ratio;
  s->residual = r.residual;
  s->bound = r.bound;
  s->floor = r.floor;
  return RDT_OK;
}

/* Where the channels of an element lie: its row in the sense of an answer. */
static int64_t largest(const op_target *t, const void *data, int64_t first, int64_t n, int64_t step) {
  int64_t at = 0;
  double most = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    const double x = rdt_load(data, t->out.dtype, first + i * step);
    if (!(x <= most)) { /* NaN is an answer too */
      most = x;
      at = i;
      if (isnan(x)) break;
    }
  }
  return at;
}

static void compare_element(const op_target *t, int64_t e, rdt_shot *s) {
  const double x = rdt_load(t->out.data, t->out.dtype, e);
  if (fabs(x - t->golden[e]) <= t->room[e]) return;
  s->wrong++;
  if (s->critical) return;
  const int channel = rdt_problem_channel(&t->prob);
  const int64_t n = t->out.shape[channel], step = t->out.stride[channel], first = e - e / step % n * step;
  s->critical = largest(t, t->out.data, first, n, step) != largest(t, t->clean, first, n, step);
}

/* Only what differs from a clean result has to be looked at. */
static void compare(const op_target *t, rdt_shot *s) {
  const size_t size = rdt_dtype_size(t->out.dtype), bytes = (size_t)rdt_tensor_count(&t->out) * size;
  const unsigned char *now = t->out.data;
  s->same = true;
  for (size_t i = 0; (i += rdt_memory_alike(now + i, t->clean + i, bytes - i)) < bytes; i = (i / size + 1) * size) {
    s->same = false;
    compare_element(t, (int64_t)(i / size), s);
  }
}

static rdt_status make_plan(op_target *t, rdt_reason *why) {
  const rdt_window *w = &t->prob.window;
  const rdt_conv_params params = {{w->stride[0], w->stride[1]},
                                  {w->before[0], w->before[1], w->after[0], w->after[1]},
                                  {w->dilation[0], w->dilation[1]},
                                  w->groups};
  rdt_plan_destroy(t->plan);
  const rdt_status status = t->prob.op == RDT_KOP_GEMM
                                ? rdt_plan_gemm(t->ctx, &t->prob.in[0], &t->prob.in[1], &t->out, &t->plan)
                                : rdt_plan_conv(t->ctx, &t->prob.in[0], &t->prob.in[1], &t->out, &params, &t->plan);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "%s", rdt_context_error(t->ctx));
}

static rdt_status shoot(rdt_target *base, int64_t id, const char *spec, rdt_shot *s, rdt_reason *why) {
  op_target *t = (op_target *)base;
  *s = (rdt_shot){.layer = -1};
  rdt_plan_rewind(t->plan, id, t->checkpoints);
  t->plan->known = t->clean; /* of a dense result in the accumulator's datatype, the raw one has the same bits */
  const rdt_status armed = spec ? rdt_plan_inject(t->plan, spec) : RDT_OK;
  if (armed != RDT_OK) return rdt_fail(why, armed, "%s", rdt_context_error(t->ctx));
  t->plan->own_injection = (rdt_injection){.done = false};
  RDT_TRY(execute(t, s, why));
  s->hit = t->plan->own_injection;
  t->plan->fault = NULL; /* what hit nothing does not wait for the next run */
  if (s->hit.done) s->layer = 0;
  compare(t, s);
  return RDT_OK; /* what was hit in memory the plan has put in order when the run ended, noticed or not */
}

typedef struct pair {
  op_target *t;
  rdt_plan *bare;
} pair;

static rdt_status run_either(void *user, bool protected, rdt_reason *why) {
  pair *p = user;
  op_target *t = p->t;
  const rdt_status s = rdt_plan_execute(protected ? t->plan : p->bare, &t->prob.in[0], &t->out, NULL);
  return s == RDT_OK ? RDT_OK : rdt_fail(why, s, "%s", rdt_context_error(t->ctx));
}

static rdt_status take_time(rdt_target *base, double seconds[2], rdt_reason *why) {
  op_target *t = (op_target *)base;
  rdt_problem prob;
  pair p = {.t = t};
  RDT_TRY(rdt_problem_copy(&prob, &t->prob));
  prob.in[0].data = NULL;
  rdt_status status = rdt_plan_create_as(t->ctx, "none", &prob, "bare", "bare", NULL, &p.bare);
  rdt_problem_clear(&prob);
  if (status != RDT_OK) return rdt_fail(why, status, "%s", rdt_context_error(t->ctx));
  status = rdt_target_clock(run_either, &p, seconds, why);
  rdt_plan_destroy(p.bare);
  return status;
}

/* A clean run must be right, and is what the others are compared with. */
static rdt_status run_clean(op_target *t, rdt_reason *why) {
  const int64_t n = rdt_tensor_count(&t->out);
  const size_t bytes = (size_t)n * rdt_dtype_size(t->out.dtype);
  rdt_shot s = {0};
  RDT_TRY(execute(t, &s, why));
  if (s.status != RDT_OK || s.faults > 0)
    return rdt_fail(why, RDT_ERR_FAULT, "a run without a planted fault reports one: %s", rdt_context_error(t->ctx));
  t->clean = rdt_alloc(bytes, 1);
  if (!t->clean) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for a clean result");
  memcpy(t->clean, t->out.data, bytes);
  t->checkpoints = t->plan->checkpoints;
  for (int64_t i = 0; i < n; i++) {
    const double off = fabs(rdt_load(t->out.data, t->out.dtype, i) - t->golden[i]);
    if (!(off <= t->room[i]))
      return rdt_fail(why, RDT_ERR_FAULT,
                      "without a fault, element %lld is %.9g off the reference, and rounding explains %.9g: this "
                      "machine, or this kernel, cannot be used for a campaign",
                      (long long)i, off, t->room[i]);
    if (t->room[i] > 0.0 && off / t->room[i] > t->base.deviation) t->base.deviation = off / t->room[i];
  }
  return RDT_OK;
}

static void destroy(rdt_target *base) {
  op_target *t = (op_target *)base;
  rdt_plan_destroy(t->plan);
  for (int i = 0; t->prob.in && i < t->prob.n_in; i++) rdt_free(t->prob.in[i].data);
  rdt_problem_clear(&t->prob);
  rdt_free(t->out.data);
  rdt_free(t->clean);
  rdt_free(t->golden);
  rdt_free(t->room);
  rdt_free(t);
}

static rdt_status make(op_target *t, const char *text, uint64_t seed, rdt_reason *why) {
  const bool gemm = strncmp(text, "gemm:", 5) == 0;
  RDT_TRY(gemm ? read_gemm(text + 5, &t->prob, why) : read_conv(text + 5, &t->prob, why));
  for (int i = 0; i < 2; i++) RDT_TRY(fill(&t->prob.in[i], seed, (uint64_t)i, why));
  t->out = t->prob.out;
  t->out.data = rdt_calloc((size_t)rdt_tensor_count(&t->out), rdt_dtype_size(t->out.dtype));
  if (!t->out.data) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the result of the target");
  t->ctx->policy.keep_weights = 1;   /* a weight that was hit is restored */
  t->ctx->policy.suspect_rate = 0.0; /* the scheme under test stays the same */
  RDT_TRY(make_golden(t, why));
  RDT_TRY(make_plan(t, why));
  RDT_TRY(run_clean(t, why));
  RDT_TRY(rdt_target_layers(&t->base, 1, why));
  return rdt_target_layer_set(&t->base, 0, t->plan->name, t->plan->label, rdt_plan_kernel(t->plan),
                              rdt_plan_scheme(t->plan), t->plan, why);
}

rdt_status rdt_target_op(rdt_context *ctx, const char *text, uint64_t seed, rdt_target **out, rdt_reason *why) {
  op_target *t = rdt_calloc(1, sizeof *t);
  *out = NULL;
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  t->ctx = ctx;
  t->base.inputs = 1;
  t->base.run = shoot;
  t->base.time = take_time;
  t->base.destroy = destroy;
  const rdt_status status = make(t, text, seed, why);
  if (status == RDT_OK)
    *out = &t->base;
  else
    rdt_target_destroy(&t->base);
  return status;
}
