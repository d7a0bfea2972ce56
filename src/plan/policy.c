/* A context's policy: checked here, where the schemes are known. */
#include <string.h>

#include "plan/plan.h"

rdt_status rdt_context_set_policy(rdt_context *ctx, const rdt_policy *policy) {
  const char *scheme = policy->scheme ? policy->scheme : "auto";
  if (strcmp(scheme, "auto") != 0 && !rdt_scheme_find(scheme))
    return rdt_fail(&ctx->error, RDT_ERR_NAME, "unknown scheme '%s': take auto or one of `redoubt list schemes`",
                    scheme);
  if (!(policy->lambda >= 1.0 && policy->lambda <= 100.0))
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "lambda %g is not within 1..100", policy->lambda);
  if (policy->scrub_every < 0)
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "scrub_every %d is negative: 0 is never", policy->scrub_every);
  if ((unsigned)policy->on_fault > RDT_ON_FAULT_CORRECT)
    return rdt_fail(&ctx->error, RDT_ERR_ARG, "unknown on_fault %d", (int)policy->on_fault);
  ctx->policy = *policy;
  memmove(ctx->scheme, scheme, strlen(scheme) + 1);
  ctx->policy.scheme = ctx->scheme;
  return RDT_OK;
}
