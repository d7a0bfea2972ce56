/* Making, changing and dropping plans; what they keep at rest. */
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"

static bool is_linear(const rdt_plan *p) {
  return rdt_kop_is_linear(p->prob.op);
}

void *rdt_plan_packed(const rdt_plan *p, void *kernel_state, size_t *bytes, rdt_dtype *dtype) {
  void *data = NULL;
  *bytes = 0;
  if (p->fixed_weights && kernel_state && p->kernel->packed) p->kernel->packed(kernel_state, &data, bytes, dtype);
  return data;
}

size_t rdt_plan_packed_bytes(const rdt_plan *p) {
  size_t one = 0, two = 0;
  rdt_dtype dtype;
  if (!p) return 0;
  rdt_plan_packed(p, p->state, &one, &dtype);
  rdt_plan_packed(p, p->twin, &two, &dtype);
  return one + two;
}

void *rdt_plan_checksums(const rdt_plan *p, size_t *bytes, rdt_dtype *dtype) {
  void *data = NULL;
  *bytes = 0;
  if (p->fused)
    rdt_fused_checksums(p->fused, &data, bytes, dtype);
  else if (p->sums && p->fixed_weights && p->scheme->impl->checksums)
    p->scheme->impl->checksums(p->sums, &data, bytes, dtype);
  return data;
}

static rdt_status make_checksums(rdt_plan *p, rdt_reason *why) {
  if (p->fused) {
    rdt_fused_recreate(p->fused, &p->prob.in[1]);
    if (p->sums) p->scheme->impl->destroy(p->sums); /* made again when it is needed */
    p->sums = NULL;
    return RDT_OK;
  }
  return p->sums && p->scheme->impl->recreate ? p->scheme->impl->recreate(p->sums, &p->prob.in[1], why) : RDT_OK;
}

static void seal(rdt_plan *p) {
  size_t bytes;
  rdt_dtype dtype;
  void *data = rdt_plan_packed(p, p->state, &bytes, &dtype);
  p->packed_seal = data ? rdt_bitsum(data, bytes) : 0;
  data = rdt_plan_checksums(p, &bytes, &dtype);
  p->sums_seal = data ? rdt_bitsum(data, bytes) : 0;
}

static rdt_status create(rdt_context *ctx, const char *scheme, const rdt_way *way, const rdt_problem *prob,
                         const char *name, const char *label, const rdt_host *host, rdt_plan **out) {
  rdt_status status = RDT_ERR_NOMEM;
  rdt_plan *p = rdt_calloc(1, sizeof *p);
  *out = NULL;
  if (!p) return rdt_fail(&ctx->error, status, "node %s: out of memory for a plan", name);
  p->ctx = p->ctx_again = ctx;
  snprintf(p->name, sizeof p->name, "%s", name);
  snprintf(p->label, sizeof p->label, "%s", label);
  if (host) p->host = *host;
  RDT_TRY_GOTO(rdt_problem_copy(&p->prob, prob), fail);
  RDT_TRY_GOTO(rdt_problem_check(&p->prob, &ctx->error), fail);
  p->raw = rdt_raw_view(&p->prob);
  p->raw_is_out = rdt_plan_raw_is_out(p);
  p->fixed_weights = is_linear(p) && p->prob.in[1].data;
  if (p->fixed_weights && !p->host.secure && ctx->policy.keep_weights) RDT_TRY_GOTO(rdt_plan_keep_weights(p), fail);
  if (p->fixed_weights && !p->host.secure)
    p->weight_seal = rdt_tensor_seal(&p->prob.in[1], 1); /* else the host has one */
  RDT_TRY_GOTO(rdt_plan_select(p, scheme, way, &ctx->error), fail);
  if (p->kernel_fuses)
    RDT_TRY_GOTO(rdt_fused_create(&p->prob, p->kernel, p->scheme->forms, ctx->policy.lambda, &p->fused, &ctx->error),
                 fail);
  else
    RDT_TRY_GOTO(rdt_plan_sums(p, &ctx->error), fail);
  seal(p);
  RDT_TRY_GOTO(rdt_plan_seal(p, NULL, 0), fail);
  *out = p;
  return RDT_OK;
fail:
  if (status == RDT_ERR_NOMEM) rdt_fail(&ctx->error, status, "node %s: out of memory", p->name);
  rdt_plan_destroy(p);
  return status;
}

rdt_status rdt_plan_create(rdt_context *ctx, const rdt_problem *prob, const char *name, const char *label,
                           const rdt_host *host, rdt_plan **out) {
  return rdt_plan_create_as(ctx, ctx->scheme, prob, name, label, host, out);
}

rdt_status rdt_plan_create_as(rdt_context *ctx, const char *scheme, const rdt_problem *prob, const char *name,
                              const char *label, const rdt_host *host, rdt_plan **out) {
  return create(ctx, scheme, NULL, prob, name, label, host, out);
}

rdt_status rdt_plan_create_way(rdt_context *ctx, const rdt_way *way, const rdt_problem *prob, const char *name,
                               const rdt_host *host, rdt_plan **out) {
  return create(ctx, NULL, way, prob, name, name, host, out);
}

static rdt_status seal_states(rdt_plan *p) {
  void *const states[2] = {p->state, p->twin};
  for (int i = 0; i < 2 && p->kernel->fixed; i++)
    if (states[i]) RDT_TRY(p->kernel->fixed(states[i], &p->frame));
  if (p->fused) return rdt_fused_fixed(p->fused, &p->frame, &p->tables);
  if (!p->sums) return RDT_OK;
  RDT_TRY(rdt_vault_add(&p->frame, &p->sums, sizeof p->sums));
  return p->scheme->impl->fixed(p->sums, &p->frame, &p->tables);
}

/* Who asked for no protection has none here either. */
rdt_status rdt_plan_seal(rdt_plan *p, const rdt_part *owned, int n) {
  rdt_vault_clear(&p->frame);
  rdt_vault_clear(&p->tables);
  if (p->scheme->id == RDT_SCHEME_NONE) return RDT_OK;
  p->n_owned = 0;
  for (int i = 0; i < n; i++) p->n_owned += owned[i].data && owned[i].bytes > 0;
  RDT_TRY(rdt_vault_add(&p->frame, p, offsetof(rdt_plan, sums)));
  RDT_TRY(rdt_vault_add(&p->frame, p->prob.in, (size_t)p->prob.n_in * sizeof *p->prob.in));
  RDT_TRY(seal_states(p));
  for (int i = 0; i < n; i++) RDT_TRY(rdt_vault_add(&p->frame, owned[i].data, owned[i].bytes));
  RDT_TRY(rdt_vault_close(&p->frame));
  return rdt_vault_close(&p->tables);
}

rdt_status rdt_plan_sums(rdt_plan *p, rdt_reason *why) {
  if (p->sums || !p->scheme->impl) return RDT_OK;
  return p->scheme->impl->create(&p->prob, p->fixed_weights, p->ctx->policy.lambda, p->sets, p->threads, &p->sums, why);
}

void rdt_plan_destroy(rdt_plan *p) {
  if (!p) return;
  if (p->state) p->kernel->destroy(p->state);
  if (p->twin) p->kernel->destroy(p->twin);
  if (p->other_state) p->other->destroy(p->other_state);
  if (p->sums) p->scheme->impl->destroy(p->sums);
  rdt_fused_destroy(p->fused);
  rdt_problem_clear(&p->prob);
  rdt_free(p->kept);
  rdt_vault_clear(&p->frame);
  rdt_vault_clear(&p->tables);
  rdt_free(p);
}

/* Twice alike: what makes them may be wrong too. */
rdt_status rdt_plan_resum(rdt_plan *p, bool *made, bool *changed, rdt_reason *why) {
  const rdt_scheme *impl = p->scheme->impl;
  const bool sealed = !p->fused;
  void *data = NULL, *kept;
  size_t bytes = 0;
  rdt_dtype dtype;
  *made = *changed = false;
  if (p->sums && p->fixed_weights && impl->checksums && impl->recreate) impl->checksums(p->sums, &data, &bytes, &dtype);
  if (!data || bytes == 0) return RDT_OK;
  kept = rdt_alloc(bytes, 2);
  if (!kept) return rdt_fail(why, RDT_ERR_NOMEM, "node %s: out of memory for checksums", p->name);
  char *const second = (char *)kept + bytes;
  memcpy(kept, data, bytes);
  rdt_status status = impl->recreate(p->sums, &p->prob.in[1], why);
  *made = status == RDT_OK;
  if (*made && memcmp(kept, data, bytes) != 0) {
    memcpy(second, data, bytes);
    status = impl->recreate(p->sums, &p->prob.in[1], why);
    *changed = status == RDT_OK && memcmp(second, data, bytes) == 0;
    if (!*changed) memcpy(data, kept, bytes);
    if (*changed && sealed) p->sums_seal = rdt_bitsum(data, bytes);
  }
  rdt_free(kept);
  return status;
}

rdt_status rdt_plan_reload(rdt_plan *p, rdt_reason *why) {
  if (!p->fixed_weights) return RDT_OK;
  if (p->kernel->pack) RDT_TRY(p->kernel->pack(p->state, &p->prob.in[1], why));
  if (p->kernel->pack && p->twin) RDT_TRY(p->kernel->pack(p->twin, &p->prob.in[1], why));
  RDT_TRY(make_checksums(p, why));
  seal(p);
  return RDT_OK;
}

static rdt_status secure_packed(rdt_plan *p, rdt_rest *rest, rdt_reason *why) {
  void *const states[2] = {p->state, p->twin};
  for (int i = 0; i < 2; i++) {
    size_t bytes;
    rdt_dtype dtype;
    void *data = rdt_plan_packed(p, states[i], &bytes, &dtype);
    if (!data || rdt_bitsum_shared(data, bytes, p->threads) == p->packed_seal) continue;
    rest->weight = true;
    RDT_TRY(p->kernel->pack(states[i], &p->prob.in[1], why));
    data = rdt_plan_packed(p, states[i], &bytes, &dtype);
    rest->lost = rest->lost || rdt_bitsum(data, bytes) != p->packed_seal;
  }
  return RDT_OK;
}

static rdt_status secure_checksums(rdt_plan *p, rdt_rest *rest, rdt_reason *why) {
  size_t bytes;
  rdt_dtype dtype;
  void *data = rdt_plan_checksums(p, &bytes, &dtype);
  if (!data || rdt_bitsum(data, bytes) == p->sums_seal) return RDT_OK;
  rest->checksum = true;
  RDT_TRY(make_checksums(p, why));
  data = rdt_plan_checksums(p, &bytes, &dtype);
  rest->lost = rest->lost || rdt_bitsum(data, bytes) != p->sums_seal;
  return RDT_OK;
}

static void secure_plan(rdt_plan *p, rdt_rest *rest) {
  const rdt_vault_state frame = rdt_vault_secure(&p->frame), tables = rdt_vault_secure(&p->tables);
  rest->plan = rest->plan || frame != RDT_VAULT_INTACT;
  rest->checksum = rest->checksum || tables != RDT_VAULT_INTACT;
  rest->lost = rest->lost || frame == RDT_VAULT_LOST || tables == RDT_VAULT_LOST;
}

void rdt_plan_rewind(rdt_plan *p, int64_t runs, bool checkpoints) {
  p->runs = runs;
  p->checkpoints = checkpoints;
  p->doubts = (rdt_doubts){0, 0};
}

bool rdt_plan_is_due(const rdt_plan *p) {
  const int every = p->ctx_again->policy.scrub_every;
  return every > 0 && (p->runs + 1) % every == 0;
}

rdt_status rdt_plan_lost(rdt_plan *p, rdt_result *result) {
  if (result)
    *result = (rdt_result){.verdict = RDT_DETECTED, .diagnosis = RDT_DIAG_MEMORY, .faults = 1, .place = {-1, -1}};
  return rdt_fail(&p->ctx_again->error, RDT_ERR_FAULT,
                  "node %s: the plan and its copy changed in memory: load the model again", p->name);
}

rdt_status rdt_plan_secure_own(rdt_plan *p, bool all, rdt_rest *rest, rdt_reason *why) {
  if (all) secure_plan(p, rest);
  if (all || !p->scheme->covers_packed) RDT_TRY(secure_packed(p, rest, why));
  return secure_checksums(p, rest, why);
}

bool rdt_plan_has_site(const rdt_plan *p, rdt_site site) {
  size_t bytes;
  rdt_dtype dtype;
  if (!p) return false;
  switch (site) {
    case RDT_SITE_INPUT:
    case RDT_SITE_OUTPUT:
      return p->host.self != NULL; /* between the nodes of a network */
    case RDT_SITE_WEIGHT:
      return p->fixed_weights && rdt_tensor_count(&p->prob.in[1]) > 0;
    case RDT_SITE_PACKED:
      return rdt_plan_packed(p, p->state, &bytes, &dtype) && bytes > 0;
    case RDT_SITE_ACCUM:
      return is_linear(p);
    case RDT_SITE_EPILOGUE:
      return is_linear(p) && !rdt_epilogue_is_none(&p->prob.epilogue);
    case RDT_SITE_NONLINEAR:
      return !is_linear(p);
    case RDT_SITE_CHECKSUM:
      return rdt_plan_checksums(p, &bytes, &dtype) && bytes > 0;
    case RDT_SITE_SUM:
      return p->scheme->impl != NULL;
    case RDT_SITE_BOUND:
      return p->scheme->impl && p->prob.acc != RDT_S32 && !(p->fused && p->scheme->forms == RDT_FORM_TWICE); /* exact */
    case RDT_SITE_COMPARISON:
    case RDT_SITE_COUNTER:
    case RDT_SITE_VERDICT:
      return p->scheme->id != RDT_SCHEME_NONE;
    case RDT_SITE_VOTE:
      return p->scheme->id == RDT_SCHEME_TMR_SM;
    case RDT_SITE_RECOVERY:
      return p->scheme->id != RDT_SCHEME_NONE && (!p->fused || p->kernel->run_inject);
    case RDT_SITE_PLAN:
      return rdt_vault_bytes(&p->frame) > 0;
    case RDT_SITE_COUNT:
      break;
  }
  return false;
}
