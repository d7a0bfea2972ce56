/* Products of fp16 and bf16 whose three copies are voted on at several places along k (src/cuda/sm90/voted_wgmma.h):
 * within one launch, or between launches that have a share of k each. Compute capability 9.0 alone. */
#ifndef RDT_CUDA_VOTED_H
#define RDT_CUDA_VOTED_H

#include "cuda/kernel.h"
#include "cuda/sm90/voted_wgmma.h"
#include "cuda/thrice.h"

enum {
  RDT_VOTED_USUAL = 4, /* votes, where nobody says how many */
  RDT_VOTED_KEEPS = 1  /* whether accumulators are kept at votes, where nobody says */
};
typedef struct rdt_voted rdt_voted;
/* RDT_OK, or RDT_ERR_UNSUPPORTED with the reason: a product of rows that begin at multiples of 16 bytes, relu at most.
 */
rdt_status rdt_voted_accept(const rdt_cuda_device *d, const rdt_problem *p, rdt_reason *why);
/* team: where copies are computed (rdt_voted_team). votes: of each element along k, the last one at the end; there are
 * no more than each has two stages of k. */
rdt_status rdt_voted_create(const rdt_cuda_device *d, const rdt_problem *p, int team, int votes, rdt_voted **v,
                            rdt_reason *why);
/* Asynchronous; may be captured. The last vote is on sums with bias, residual and relu. One run at a time. */
rdt_status rdt_voted_run(rdt_voted *v, const rdt_operands *o, void *stream, rdt_reason *why);
/* The same by the instantiation that takes a fault, of fp16 by B with rows side by side; waits. */
rdt_status rdt_voted_strike(rdt_voted *v, const rdt_operands *o, rdt_voted_hit *hit, void *stream, rdt_reason *why);
/* Waits; what votes found since the last call, forgotten on the device. found: all of it; NULL: not asked. */
rdt_status rdt_voted_read(rdt_voted *v, void *stream, rdt_thrice_ballot *b, rdt_vote_found *found, rdt_reason *why);
/* What nobody knows is computed again from the last vote that all copies agreed on, of which they have kept their
 * accumulators in memory; if they keep none, from the start. For runs after this call. */
void rdt_voted_keep(rdt_voted *v, bool keeps);
rdt_cuda_verdict *rdt_voted_verdict(const rdt_voted *v); /* on the device */
int rdt_voted_votes(const rdt_voted *v);
int rdt_voted_tiles(const rdt_voted *v);
int rdt_voted_blocks(const rdt_voted *v); /* of a launch */
/* Waits; of each tile and copy the multiprocessor that computed it in the last run: [tile][copy]. */
rdt_status rdt_voted_where(const rdt_voted *v, void *stream, uint32_t *sms, rdt_reason *why);
void rdt_voted_destroy(rdt_voted *v);

#endif
