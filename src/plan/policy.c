/* A context's policy: checked here, where the schemes are known. */
#include <string.h>

#include "cuda/machine.h"
#include "plan/plan.h"

/* Cores that this process may run on. */
static int left_without(const cpu_set_t *avoided) {
  cpu_set_t usable;
  int left = 0;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0)
    for (int i = 0; i < CPU_SETSIZE; i++) left += CPU_ISSET(i, &usable) && !CPU_ISSET(i, avoided);
  return left;
}

/* Some core must be left. */
static rdt_status avoid(rdt_context *ctx, const char *text) {
  cpu_set_t avoided;
  RDT_TRY(rdt_cores_parse(text, &avoided, &ctx->error));
  const bool any = CPU_COUNT(&avoided) > 0;
  const int left = left_without(&avoided);
  if (any && left == 0)
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "avoiding the cores %.100s leaves none to run on", text);
  ctx->cores.avoids = any;
  ctx->cores.avoided = avoided;
  if (ctx->all_cores && any && left < ctx->threads) ctx->threads = left;
  return RDT_OK;
}

/* One core alone is wrong alike in all copies: a demand that cannot be met is refused, not dropped in silence. */
static rdt_status several(rdt_context *ctx) {
  if (left_without(&ctx->cores.avoided) >= 2) return RDT_OK;
  return rdt_fail(&ctx->error, RDT_ERR_UNSUPPORTED,
                  "permanent: copies on different cores need two cores or more, and there is one to run on: allow more "
                  "(taskset), or do without");
}

/* Who votes at all may vote on the way. */
static rdt_status votes(rdt_context *ctx, const rdt_policy *policy, const char *scheme) {
  static const char *const voting[] = {"tmr-sm", "tmr-block", "tmr-split"};
  bool on_the_way = policy->permanent != 0 || policy->checkpoints <= 1;
  if (policy->checkpoints < 0 || policy->checkpoints > RDT_MOST_CHECKPOINTS)
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "checkpoints %d is not within 0..%d", policy->checkpoints,
                    RDT_MOST_CHECKPOINTS);
  for (size_t i = 0; i < sizeof voting / sizeof *voting; i++) on_the_way = on_the_way || strcmp(scheme, voting[i]) == 0;
  if (on_the_way) return RDT_OK;
  return rdt_fail(&ctx->error, RDT_ERR_ARG,
                  "checkpoints %d: only copies vote on the way, the scheme tmr-sm or permanent, not '%s'",
                  policy->checkpoints, scheme);
}

rdt_status rdt_context_set_policy(rdt_context *ctx, const rdt_policy *policy) {
  const char *scheme = policy->scheme ? policy->scheme : "auto";
  int sets;
  if (strcmp(scheme, "auto") != 0 && !rdt_scheme_parse(scheme, &sets))
    return rdt_fail(&ctx->error, RDT_ERR_NAME,
                    "unknown scheme '%.100s': take auto or one of `redoubt list schemes`; row, col and rowcol also as "
                    "NAME:f for f faults in a line, f = 1..%d",
                    scheme, RDT_MOST_SETS);
  if (!(policy->lambda >= 1.0 && policy->lambda <= 100.0))
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "lambda %g is not within 1..100", policy->lambda);
  if (policy->scrub_every < 0)
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "scrub_every %d is negative: 0 is never", policy->scrub_every);
  if ((unsigned)policy->on_fault > RDT_ON_FAULT_CORRECT)
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "unknown on_fault %d", (int)policy->on_fault);
  if (!(policy->suspect_rate >= 0.0 && policy->suspect_rate < 1.0))
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "suspect_rate %g is not within 0..1: a share of the runs, 0 is never",
                    policy->suspect_rate);
  if (!(policy->min_coverage >= 0.0 && policy->min_coverage <= 1.0))
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "min_coverage %g is not within 0..1: a share of single faults",
                    policy->min_coverage);
  RDT_TRY(votes(ctx, policy, scheme));
  RDT_TRY(avoid(ctx, policy->avoid_cores));
  if (policy->permanent) RDT_TRY(several(ctx));
  ctx->policy = *policy;
  ctx->policy.avoid_cores = NULL; /* the caller's text */
  memmove(ctx->scheme, scheme, strlen(scheme) + 1);
  ctx->policy.scheme = ctx->scheme;
  if (ctx->machine) ctx->machine->device.votes = policy->checkpoints; /* else the next one takes them as it comes */
  return RDT_OK;
}
