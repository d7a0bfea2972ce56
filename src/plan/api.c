/* The public calls on single products and convolutions. */
#include <string.h>

#include "core/memory.h"
#include "plan/plan.h"

static rdt_status begin(rdt_context *ctx) {
  ctx->error.text[0] = '\0';
  if (atomic_load(&ctx->cancelled)) return rdt_fail(&ctx->error, RDT_ERR_CANCELLED, "the context was cancelled");
  return RDT_OK;
}

/* Its threads pack and sum. */
static rdt_status create(rdt_context *ctx, const rdt_problem *prob, const char *name, rdt_plan **out) {
  RDT_TRY(rdt_cores_enter(ctx));
  const rdt_status status = rdt_plan_create(ctx, prob, name, name, NULL, out);
  rdt_cores_leave(ctx);
  return status;
}

static bool is_missing(const rdt_tensor *t) {
  return !t->data && rdt_tensor_count(t) > 0;
}

static rdt_status gemm_problem(const rdt_tensor *a, const rdt_tensor *b, const rdt_tensor *c, rdt_problem *prob,
                               rdt_reason *why) {
  RDT_TRY(rdt_tensor_check(a, "A", why));
  RDT_TRY(rdt_tensor_check(b, "B", why));
  RDT_TRY(rdt_tensor_check(c, "C", why));
  if (a->rank != 2 || b->rank != 2 || c->rank != 2)
    return rdt_fail(why, RDT_ERR_SHAPE, "a product takes rank-2 views; ranks are %d, %d, %d", a->rank, b->rank,
                    c->rank);
  RDT_TRY(rdt_problem_init(prob, RDT_KOP_GEMM, 2));
  prob->in[0] = *a;
  prob->in[0].data = NULL;
  prob->in[1] = *b;
  prob->out = *c;
  prob->out.data = NULL;
  prob->acc = rdt_dtype_accumulator(a->dtype);
  return RDT_OK;
}

rdt_status rdt_plan_gemm(rdt_context *ctx, const rdt_tensor *a, const rdt_tensor *b, const rdt_tensor *c,
                         rdt_plan **out) {
  rdt_problem prob = {0};
  *out = NULL;
  RDT_TRY(begin(ctx));
  rdt_status status = gemm_problem(a, b, c, &prob, &ctx->error);
  if (status == RDT_OK) status = create(ctx, &prob, "gemm", out);
  rdt_problem_clear(&prob);
  return status;
}

rdt_status rdt_plan_conv(rdt_context *ctx, const rdt_tensor *x, const rdt_tensor *w, const rdt_tensor *y,
                         const rdt_conv_params *params, rdt_plan **out) {
  rdt_problem prob = {0};
  *out = NULL;
  RDT_TRY(begin(ctx));
  RDT_TRY(rdt_tensor_check(x, "X", &ctx->error));
  RDT_TRY(rdt_tensor_check(w, "W", &ctx->error));
  RDT_TRY(rdt_tensor_check(y, "Y", &ctx->error));
  if (x->rank != 4 || w->rank != 4 || y->rank != 4)
    return rdt_fail(&ctx->error, RDT_ERR_SHAPE, "a convolution takes rank-4 views (n c h w); ranks are %d, %d, %d",
                    x->rank, w->rank, y->rank);
  RDT_TRY(rdt_problem_init(&prob, RDT_KOP_CONV, 2));
  prob.in[0] = *x;
  prob.in[0].data = NULL;
  prob.in[1] = *w;
  prob.out = *y;
  prob.out.data = NULL;
  prob.acc = rdt_dtype_accumulator(x->dtype);
  prob.window.groups = params->groups;
  for (int i = 0; i < 2; i++) {
    prob.window.kernel[i] = w->shape[2 + i];
    prob.window.stride[i] = params->stride[i];
    prob.window.dilation[i] = params->dilation[i];
    prob.window.before[i] = params->pad[i];
    prob.window.after[i] = params->pad[i + 2];
  }
  rdt_status status = create(ctx, &prob, "conv", out);
  rdt_problem_clear(&prob);
  return status;
}

static rdt_status same_view(const rdt_tensor *planned, const rdt_tensor *given, const char *what, rdt_reason *why) {
  char a[96], b[96];
  RDT_TRY(rdt_tensor_check(given, what, why));
  if (planned->dtype != given->dtype || !rdt_tensor_same_shape(planned, given) ||
      !rdt_tensor_same_strides(planned, given))
    return rdt_fail(why, RDT_ERR_SHAPE, "%s is %s, planned was %s: make a plan for each shape, stride and datatype",
                    what, rdt_tensor_text(given, a, sizeof a), rdt_tensor_text(planned, b, sizeof b));
  if (!given->data && rdt_tensor_count(given) > 0) return rdt_fail(why, RDT_ERR_ARG, "%s has no data", what);
  return RDT_OK;
}

rdt_status rdt_plan_execute(rdt_plan *p, const rdt_tensor *in, rdt_tensor *out, rdt_result *result) {
  RDT_TRY(begin(p->ctx));
  RDT_TRY(same_view(&p->prob.in[0], in, "the input", &p->ctx->error));
  RDT_TRY(same_view(&p->prob.out, out, "the result", &p->ctx->error));
  if (!p->fixed_weights)
    return rdt_fail(&p->ctx->error, RDT_ERR_ARG,
                    "the plan was made without weights (data was NULL): nothing to multiply with");
  const rdt_tensor ins[2] = {*in, p->prob.in[1]};
  const rdt_operands o = {.in = ins, .n_in = 2, .out = *out, .epilogue = &p->prob.epilogue};
  RDT_TRY(rdt_cores_enter(p->ctx));
  const rdt_status status = rdt_plan_run(p, &o, result);
  rdt_cores_leave(p->ctx);
  p->broken = NULL;
  return status;
}

const char *rdt_plan_kernel(const rdt_plan *p) {
  return p->kernel->name;
}

const char *rdt_plan_scheme(const rdt_plan *p) {
  return p->scheme_name;
}

rdt_status rdt_plan_inject(rdt_plan *p, const char *spec) {
  RDT_TRY(rdt_fault_parse(spec, &p->own_fault, &p->ctx->error));
  if (!rdt_plan_has_site(p, p->own_fault.site))
    return rdt_fail(&p->ctx->error, RDT_ERR_ARG, "%s has no %s to plant a fault in", p->name,
                    rdt_site_name(p->own_fault.site));
  if (!rdt_plan_takes(p, &p->own_fault))
    return rdt_fail(&p->ctx->error, RDT_ERR_ARG,
                    "%s is not computed three times on different cores (tmr-sm): copies= and cores= are of what is",
                    p->name);
  p->own_injection = (rdt_injection){.done = false};
  p->broken = p->own_fault.core >= 0 ? &p->own_fault : NULL;
  p->fault = p->broken ? NULL : &p->own_fault;
  p->injection = &p->own_injection;
  return RDT_OK;
}

/* What C held, which the result is added to: summed when it was copied, verified before the product and after. */
typedef struct addend {
  const rdt_tensor *c;
  rdt_tensor copy;
  uint64_t seal;
  bool begun; /* C may be overwritten */
} addend;

static rdt_status secure_addend(void *self, bool all, rdt_rest *rest, rdt_reason *why) {
  addend *x = self;
  (void)all;
  if (rdt_tensor_seal(&x->copy, 1) != x->seal) {
    rest->activation = true;
    if (!x->begun) rdt_tensor_copy(x->c, &x->copy);
    rest->lost = rdt_tensor_seal(&x->copy, 1) != x->seal;
    if (rest->lost) rdt_fail(why, RDT_ERR_FAULT, "what C held before the product has changed in memory");
  }
  x->begun = true;
  return RDT_OK;
}

static rdt_status lose_addend(rdt_plan *plan, rdt_result *r) {
  static const char text[] = "gemm: what C held before the product changed in memory while it was used: C is lost";
  const rdt_event e = {.kind = RDT_EVENT_FAULT,
                       .node = plan->name,
                       .op = plan->label,
                       .scheme = plan->scheme_name,
                       .kernel = plan->kernel->name,
                       .what = "activation",
                       .place = {-1, -1},
                       .verdict = RDT_DETECTED,
                       .diagnosis = RDT_DIAG_MEMORY,
                       .changed = -1,
                       .text = text,
                       .dtype = rdt_dtype_name(plan->prob.out.dtype),
                       .rank = 2,
                       .shape = {plan->prob.out.shape[0], plan->prob.out.shape[1]},
                       .element = -1,
                       .core = -1};
  rdt_context_emit(plan->ctx, &e);
  r->verdict = RDT_DETECTED;
  r->diagnosis = RDT_DIAG_MEMORY;
  r->faults++;
  return rdt_fail(&plan->ctx->error, RDT_ERR_FAULT, "%s", text);
}

static rdt_status run_gemm(rdt_plan *plan, const rdt_operands *o, addend *x, rdt_result *result) {
  rdt_result local;
  rdt_result *r = result ? result : &local;
  if (x->copy.data) rdt_plan_plant(plan, RDT_SITE_INPUT, &x->copy);
  const rdt_status status = rdt_plan_run(plan, o, r);
  if (!x->copy.data || status != RDT_OK || plan->scheme->id == RDT_SCHEME_NONE) return status;
  rdt_plan_plant(plan, RDT_SITE_OUTPUT, &x->copy);
  return rdt_tensor_seal(&x->copy, 1) == x->seal ? RDT_OK : lose_addend(plan, r);
}

rdt_status rdt_gemm(rdt_context *ctx, double alpha, const rdt_tensor *a, const rdt_tensor *b, double beta,
                    rdt_tensor *c, rdt_result *result) {
  return rdt_gemm_struck(ctx, alpha, a, b, beta, c, result, NULL);
}

rdt_status rdt_gemm_struck(rdt_context *ctx, double alpha, const rdt_tensor *a, const rdt_tensor *b, double beta,
                           rdt_tensor *c, rdt_result *result, const char *fault) {
  rdt_problem prob = {0};
  rdt_plan *plan = NULL;
  addend x = {.c = c};
  const rdt_host host = {.self = &x, .secure = secure_addend};
  bool entered = false;
  RDT_TRY(begin(ctx));
  rdt_status status = gemm_problem(a, b, c, &prob, &ctx->error);
  if (status != RDT_OK) goto end;
  if (is_missing(a) || is_missing(b) || is_missing(c)) {
    status = rdt_fail(&ctx->error, RDT_ERR_ARG, "A, B or C has no data");
    goto end;
  }
  prob.in[1].data = NULL; /* used once: nothing is precomputed from B, which is read when it is needed */
  prob.epilogue.alpha = alpha;
  if (beta != 0.0) { /* C is read before it is written, and recovery may need it again: it becomes the residual */
    const int64_t n = rdt_tensor_count(c);
    void *copy = rdt_alloc((size_t)n, rdt_dtype_size(c->dtype));
    if (!copy) {
      status = rdt_fail(&ctx->error, RDT_ERR_NOMEM, "out of memory for a copy of C");
      goto end;
    }
    x.copy = prob.epilogue.residual = rdt_tensor_dense(copy, c->dtype, 2, c->shape);
    prob.epilogue.beta = beta;
    rdt_tensor_copy(c, &x.copy);
    x.seal = rdt_tensor_seal(&x.copy, 1);
  }
  RDT_TRY_GOTO(rdt_cores_enter(ctx), end);
  entered = true;
  RDT_TRY_GOTO(rdt_plan_create(ctx, &prob, "gemm", "gemm", x.copy.data ? &host : NULL, &plan), end);
  if (fault) RDT_TRY_GOTO(rdt_plan_inject(plan, fault), end);
  const rdt_tensor ins[2] = {*a, *b};
  const rdt_operands o = {.in = ins, .n_in = 2, .out = *c, .epilogue = &plan->prob.epilogue};
  status = run_gemm(plan, &o, &x, result);
end:
  if (entered) rdt_cores_leave(ctx);
  rdt_plan_destroy(plan);
  rdt_problem_clear(&prob);
  rdt_free(x.copy.data);
  return status;
}
