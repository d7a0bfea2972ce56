/* The vote of three copies, as it is shipped. */
#include "cuda/vote_body.h"

static __global__ void __launch_bounds__(RDT_VOTE_THREADS) rdt_vote(const __grid_constant__ rdt_vote_args p) {
  rdt_vote_all<RDT_VOTE_AT_ONCE>(p, rdt_vote_unhit(), rdt_vote_sure());
}

extern "C" const void *const rdt_vote_code = (const void *)rdt_vote;
