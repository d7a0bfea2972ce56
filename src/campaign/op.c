/* One product or one convolution with data of its own. */
#include "campaign/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/tolerance.h"
#include "core/memory.h"

/* ---- data ---- */

/* Integers over their whole range, but weights to 7 bits: without VNNI sums of two products saturate beyond. */
static void fill_integers(rdt_tensor *t, rdt_rng *r, bool weights) {
  const int64_t n = rdt_tensor_count(t);
  const bool whole = t->dtype == RDT_U8;
  const int64_t range = whole ? 256 : weights ? 127 : 255, least = whole ? 0 : -(range / 2);
  for (int64_t i = 0; i < n; i++) rdt_store_int(t->data, t->dtype, i, (int64_t)(rdt_rng_next(r) >> 32) % range + least);
}

/* Operands as the families know them: the input as rows of a product, the weights as its columns. What a convolution
 * reduces over is in both its channels first, so that a half of the reduction is a half of the channels. */
static void fill_reals(rdt_tensor *t, rdt_rng *r, const rdt_op *op, bool weights, double *values) {
  const bool conv = op->prob.op == RDT_KOP_CONV;
  const int64_t n = rdt_tensor_count(t), lines = weights && !conv ? t->shape[1] : t->shape[0], k = n / lines;
  if (weights)
    rdt_family_fill_b(op->family, r, k, lines, values);
  else
    rdt_family_fill_a(op->family, r, lines, k, values);
  for (int64_t e = 0; e < n; e++)
    rdt_store(t->data, t->dtype, rdt_tensor_offset(t, e), values[weights && conv ? e % k * lines + e / k : e]);
}

static rdt_status fill(rdt_op *op, int which, rdt_rng *r, rdt_reason *why) {
  rdt_tensor *t = &op->prob.in[which];
  if (!rdt_dtype_is_float(t->dtype)) {
    fill_integers(t, r, which > 0);
    return RDT_OK;
  }
  double *values = rdt_alloc((size_t)rdt_tensor_count(t), sizeof *values);
  if (!values) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the data of %s", op->name);
  fill_reals(t, r, op, which > 0, values);
  rdt_free(values);
  return RDT_OK;
}

/* Without protection where bare. */
static rdt_status plan(const rdt_op *op, bool bare, rdt_plan **out, rdt_reason *why) {
  rdt_problem p;
  *out = NULL;
  RDT_TRY(rdt_problem_copy(&p, &op->prob));
  p.in[0].data = NULL;
  const char *label = op->prob.op == RDT_KOP_CONV ? "conv" : "gemm";
  const rdt_status status =
      rdt_plan_create_as(op->ctx, bare ? "none" : op->ctx->scheme, &p, op->name, label, NULL, out);
  rdt_problem_clear(&p);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "%s", rdt_context_error(op->ctx));
}

rdt_status rdt_op_bare(const rdt_op *op, rdt_plan **bare, rdt_reason *why) {
  return plan(op, true, bare, why);
}

rdt_status rdt_op_init(rdt_op *op, rdt_context *ctx, const char *name, rdt_family family, rdt_problem *prob,
                       rdt_reason *why) {
  *op = (rdt_op){.ctx = ctx, .family = family, .prob = *prob, .out = prob->out};
  snprintf(op->name, sizeof op->name, "%s", name);
  bool good = true;
  for (int i = 0; i < 2; i++) op->prob.in[i].data = NULL;
  for (int i = 0; i < 3; i++) {
    rdt_tensor *t = i < 2 ? &op->prob.in[i] : &op->out;
    t->data = rdt_calloc((size_t)rdt_tensor_count(t), rdt_dtype_size(t->dtype));
    good = good && t->data;
  }
  return good ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory for the data of %s", op->name);
}

static void forget(rdt_op *op) {
  rdt_plan_destroy(op->plan);
  rdt_free(op->clean);
  rdt_free(op->golden);
  rdt_free(op->room);
  op->plan = NULL;
  op->clean = NULL;
  op->golden = op->room = NULL;
}

rdt_status rdt_op_fill(rdt_op *op, uint64_t seed, rdt_reason *why) {
  rdt_rng r = {.state = seed};
  forget(op);
  for (int i = 0; i < 2; i++) RDT_TRY(fill(op, i, &r, why));
  return RDT_OK;
}

rdt_status rdt_op_draw(rdt_op *op, uint64_t seed, rdt_reason *why) {
  RDT_TRY(rdt_op_fill(op, seed, why));
  return plan(op, false, &op->plan, why);
}

void rdt_op_clear(rdt_op *op) {
  forget(op);
  for (int i = 0; op->prob.in && i < op->prob.n_in; i++) rdt_free(op->prob.in[i].data);
  rdt_problem_clear(&op->prob);
  rdt_free(op->out.data);
}

/* ---- what is expected ---- */

/* The op by the plain-C reference on operands of another datatype: of doubles, or as they are. absolute: of their
 * magnitudes. */
static rdt_status refer(const rdt_op *t, rdt_dtype as, bool absolute, void *result, rdt_reason *why) {
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
    p.in[i].data = data[i];
    p.in[i].dtype = type;
  }
  p.acc = as;
  p.out.data = result;
  p.out.dtype = as;
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

/* Integers are exact. */
rdt_status rdt_op_refer(rdt_op *t, const rdt_accumulator *acc, rdt_reason *why) {
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
  rdt_tolerance tolerance = {.acc = *acc, .u_check = rdt_dtype_info(RDT_F64)->u};
  rdt_problem_mnk(p, &m, &columns, &tolerance.k);
  for (int64_t i = 0; i < n; i++) t->room[i] = rdt_bound_element(&tolerance, t->room[i]);
  return RDT_OK;
}

/* ---- runs ---- */

static rdt_status execute(rdt_op *t, rdt_shot *s, rdt_reason *why) {
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

rdt_status rdt_op_keep(rdt_op *t, double *deviation, rdt_reason *why) {
  const int64_t n = rdt_tensor_count(&t->out);
  const size_t bytes = (size_t)n * rdt_dtype_size(t->out.dtype);
  t->clean = rdt_alloc(bytes, 1);
  if (!t->clean) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for a clean result");
  memcpy(t->clean, t->out.data, bytes);
  for (int64_t i = 0; i < n; i++) {
    const double off = fabs(rdt_load(t->out.data, t->out.dtype, i) - t->golden[i]);
    if (!(off <= t->room[i]))
      return rdt_fail(why, RDT_ERR_FAULT,
                      "%s: without a fault, element %lld is %.9g off the reference, and rounding explains %.9g: this "
                      "machine, or this kernel, cannot be used for a campaign",
                      t->name, (long long)i, off, t->room[i]);
    if (t->room[i] > 0.0 && off / t->room[i] > *deviation) *deviation = off / t->room[i];
  }
  return RDT_OK;
}

/* Where the channels of an element lie: its row in the sense of an answer. */
static int64_t largest(const rdt_op *t, const void *data, int64_t first, int64_t n, int64_t step) {
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

static void compare_element(const rdt_op *t, int64_t e, rdt_shot *s) {
  const double x = rdt_load(t->out.data, t->out.dtype, e);
  if (fabs(x - t->golden[e]) <= t->room[e]) return;
  s->wrong++;
  if (s->critical) return;
  const int channel = rdt_problem_channel(&t->prob);
  const int64_t n = t->out.shape[channel], step = t->out.stride[channel], first = e - e / step % n * step;
  s->critical = largest(t, t->out.data, first, n, step) != largest(t, t->clean, first, n, step);
}

void rdt_op_compare(const rdt_op *t, rdt_shot *s) {
  const size_t size = rdt_dtype_size(t->out.dtype), bytes = (size_t)rdt_tensor_count(&t->out) * size;
  const unsigned char *now = t->out.data;
  s->same = true;
  for (size_t i = 0; (i += rdt_memory_alike(now + i, t->clean + i, bytes - i)) < bytes; i = (i / size + 1) * size) {
    s->same = false;
    compare_element(t, (int64_t)(i / size), s);
  }
}

rdt_status rdt_op_expect(rdt_op *op, double *deviation, rdt_reason *why) {
  const rdt_accumulator acc = rdt_accumulator_of(op->prob.in[0].dtype, op->prob.acc);
  rdt_shot s = {0};
  RDT_TRY(rdt_op_refer(op, &acc, why));
  RDT_TRY(execute(op, &s, why));
  if (s.status != RDT_OK || s.faults > 0)
    return rdt_fail(why, RDT_ERR_FAULT, "a run without a planted fault reports one: %s", rdt_context_error(op->ctx));
  op->checkpoints = op->plan->checkpoints;
  op->floor = s.floor;
  return rdt_op_keep(op, deviation, why);
}

rdt_status rdt_op_run(rdt_op *op, rdt_plan *bare, rdt_reason *why) {
  const rdt_status s = rdt_plan_execute(bare ? bare : op->plan, &op->prob.in[0], &op->out, NULL);
  return s == RDT_OK ? RDT_OK : rdt_fail(why, s, "%s", rdt_context_error(op->ctx));
}

rdt_status rdt_op_shoot(rdt_op *op, int64_t runs, const char *spec, rdt_shot *s, rdt_reason *why) {
  *s = (rdt_shot){.layer = -1, .same = true};
  rdt_plan_rewind(op->plan, runs, op->checkpoints);
  op->plan->known = op->clean; /* of a packed result in the accumulator's datatype, the raw one has the same bits */
  const rdt_status armed = spec ? rdt_plan_inject(op->plan, spec) : RDT_OK;
  if (armed != RDT_OK) return rdt_fail(why, armed, "%s", rdt_context_error(op->ctx));
  op->plan->own_injection = (rdt_injection){.done = false};
  const rdt_status status = execute(op, s, why);
  s->hit = op->plan->own_injection;
  s->floor_clean = op->clean ? op->floor : 0.0;
  op->plan->fault = NULL; /* what hit nothing does not wait for the next run */
  if (status != RDT_OK && !rdt_target_ended(s, status, why)) return status;
  if (status == RDT_OK && op->clean) rdt_op_compare(op, s);
  return RDT_OK; /* what was hit in memory the plan has put in order when the run ended, noticed or not */
}
