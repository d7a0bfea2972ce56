/* A result is computed three times by three launches, and one pass votes bit by bit: wherever they run (tmr-kernel), or
 * each in a group of multiprocessors of its own (tmr-sm). Whoever computes must give the same bits every time. */
#ifndef RDT_CUDA_THRICE_H
#define RDT_CUDA_THRICE_H

#include "cpu/kernel.h"
#include "cuda/groups.h"
#include "cuda/vote_hit.h"

/* Computes, asynchronously, what o says. maker: of this copy. */
typedef rdt_status rdt_thrice_fn(void *maker, const rdt_operands *o, void *stream, rdt_reason *why);
typedef struct rdt_thrice_makers {
  rdt_thrice_fn *launch;
  void *of[RDT_VOTERS]; /* all one and the same: it makes one copy after the other; else copies are made side by side */
} rdt_thrice_makers;

typedef struct rdt_thrice rdt_thrice;
/* RDT_OK, or RDT_ERR_UNSUPPORTED with the reason: results without gaps, or of rows whose elements lie side by side. */
rdt_status rdt_thrice_accept(const rdt_tensor *out, rdt_reason *why);
/* out: its data do not count. Of different makers it is measured, with `trial`, whether side by side is faster. makers
 * NULL: whoever has it fills the copies himself, and votes. groups: where each copy is computed, one by each; NULL:
 * nobody asks. They stay as long as it does; each copy then has a maker of its own. */
rdt_status rdt_thrice_create(const rdt_tensor *out, const rdt_thrice_makers *makers, const rdt_sm_groups *groups,
                             const rdt_operands *trial, void *stream, rdt_thrice **t, rdt_reason *why);
/* Asynchronous; may be captured. */
rdt_status rdt_thrice_launch(rdt_thrice *t, const rdt_operands *o, void *stream, rdt_reason *why);
/* Asynchronous: of what lies in out and in the other two copies as they are. */
rdt_status rdt_thrice_vote(rdt_thrice *t, void *out, void *stream, rdt_reason *why);
/* The arguments of that launch, and its blocks of RDT_VOTE_THREADS: for who has a vote of his own. */
rdt_vote_args rdt_thrice_args(const rdt_thrice *t, void *out, unsigned *blocks);
/* The same by the instantiation that takes a fault; waits. */
rdt_status rdt_thrice_vote_struck(rdt_thrice *t, void *out, rdt_vote_hit *hit, void *stream, rdt_reason *why);
void *rdt_thrice_copy(const rdt_thrice *t, int copy, const void *out); /* on the device: 1, 2; where out decides how */
void *rdt_thrice_stream(const rdt_thrice *t, int copy);                /* of its group; NULL: there are no groups */
bool rdt_thrice_beside(const rdt_thrice *t);                           /* copies are made side by side */
rdt_cuda_verdict *rdt_thrice_verdict(const rdt_thrice *t);             /* on the device */
rdt_vote_found *rdt_thrice_found(const rdt_thrice *t);                 /* all of it */
void rdt_thrice_destroy(rdt_thrice *t);

/* What the votes found since the last call, in words of the host; forgotten on the device. How many elements lost is
 * counted by copy, and again for the verdict: where one of these has been hit nobody is believed, and an element more
 * is undecided. */
typedef struct rdt_thrice_ballot {
  int64_t lost[RDT_VOTERS], first[RDT_VOTERS]; /* elements of out in memory order, gaps left out; -1: none */
  int64_t undecided, first_undecided;
  int64_t again, first_again; /* all three differed on the way, and were computed again (voted.h) */
} rdt_thrice_ballot;
rdt_thrice_ballot rdt_thrice_ballot_of(const rdt_vote_found *f);
rdt_status rdt_thrice_read(rdt_thrice *t, void *stream, rdt_thrice_ballot *b, rdt_reason *why);

#endif
