/* A product in shares of k with a vote behind each: checkpoints. Each share is a plan of its own; what it gives is
 * added to what was voted before, evaluated twice, and every copy of the next share goes on from there. Where a share
 * cannot be decided, it is computed again, from the last checkpoint: nothing before it is. */
#ifndef RDT_PLAN_CHUNKS_H
#define RDT_PLAN_CHUNKS_H

#include "plan/plan.h"

typedef struct rdt_chunks rdt_chunks;

/* checkpoints: votes on the way; the one at the end is always there. prob: a product with weights, no epilogue and a
 * result without gaps, of which a copy is taken; scheme: of each share. RDT_ERR_ARG: k has fewer steps than shares. */
rdt_status rdt_chunks_create(rdt_context *ctx, const rdt_problem *prob, const char *scheme, int checkpoints,
                             rdt_chunks **out, rdt_reason *why);
/* RDT_ERR_FAULT: a share is DETECTED, and the result worth nothing. result, of all shares; may be NULL. */
rdt_status rdt_chunks_run(rdt_chunks *c, const rdt_tensor *a, const rdt_tensor *out, rdt_result *result,
                          rdt_reason *why);
/* A fault in the next run of every share, each with a seed of its own; NULL: none. */
rdt_status rdt_chunks_inject(rdt_chunks *c, const char *spec, uint64_t seed, rdt_reason *why);
int rdt_chunks_count(const rdt_chunks *c);
const rdt_plan *rdt_chunks_plan(const rdt_chunks *c, int share);
void rdt_chunks_destroy(rdt_chunks *c); /* NULL is fine */

#endif
