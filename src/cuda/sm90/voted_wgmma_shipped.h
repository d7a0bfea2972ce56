/* Products of one type that vote on the way, by their team and, the second of each, for B's columns side by side; and
 * the last vote of tmr-split. */
#include "cuda/sm90/gemm_wgmma_rows.h"
#include "cuda/sm90/voted_wgmma_body.h"
#include "cuda/sm90/voted_wgmma_last.h"

template <class T, int team, int b_mn>
__global__ void __launch_bounds__(RDT_VOTED_THREADS, 1) voted(const __grid_constant__ rdt_voted_args v) {
  rdt_voted<T, rdt_voted_shape<team>, b_mn>(v, rdt_voted_no_hit());
}

template <class T, int b_mn>
__global__ void __launch_bounds__(RDT_VOTE_THREADS, 1)
    last(const __grid_constant__ rdt_vote_args p, const __grid_constant__ rdt_voted_args v) {
  rdt_voted_last<T, b_mn>(p, v, rdt_voted_no_hit());
}

#define TEAM(T, team) \
  { (const void *)voted<T, team, 1>, (const void *)voted<T, team, 0> }
#define TEAMS(T)                                                                                             \
  {                                                                                                          \
    TEAM(T, RDT_VOTED_BLOCK), TEAM(T, RDT_VOTED_GRID), TEAM(T, RDT_VOTED_CLUSTER), TEAM(T, RDT_VOTED_SPLIT), \
        TEAM(T, RDT_VOTED_SKINNY)                                                                            \
  }
#define LAST(T) \
  { (const void *)last<T, 1>, (const void *)last<T, 0> }
