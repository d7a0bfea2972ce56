/* The same with a fault in the vote. */
#include "cuda/vote_body.h"
#include "cuda/vote_hit.h"

struct rdt_vote_planted {
  rdt_vote_hit *h;

  __device__ bool aimed(int64_t e, int what) const {
    if (h->what != what || h->element != e) return false;
    h->done = 1;
    return true;
  }
  __device__ int loser(int64_t e, int loser) const {
    return aimed(e, RDT_VOTE_LOSER) ? (loser + 1 + (int)(h->mask % 2)) % RDT_VOTERS : loser;
  }
  __device__ uint64_t elected(int64_t e, uint64_t x) const {
    return aimed(e, RDT_VOTE_ELECTED) ? x ^ h->mask : x;
  }
  __device__ uint64_t counted(int64_t e, uint64_t n) const {
    return aimed(e, RDT_VOTE_COUNTED) ? n ^ h->mask : n;
  }
};

static __global__ void __launch_bounds__(RDT_VOTE_THREADS)
    rdt_vote(const __grid_constant__ rdt_vote_args p, rdt_vote_hit *hit) {
  rdt_vote_all<RDT_VOTE_AT_ONCE>(p, rdt_vote_planted{hit}, rdt_vote_sure());
}

extern "C" const void *const rdt_vote_inject = (const void *)rdt_vote;
