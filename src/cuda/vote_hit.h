/* A fault in the vote of three copies. What host and device share. */
#ifndef RDT_CUDA_VOTE_HIT_H
#define RDT_CUDA_VOTE_HIT_H

#include "cuda/vote.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What of a vote on one element is hit, where copies differ there: who lost, another one is said to have; the value
 * that it elects, where it writes one; what is added to how often that copy has lost. */
enum { RDT_VOTE_LOSER, RDT_VOTE_ELECTED, RDT_VOTE_COUNTED, RDT_VOTE_HITS };
typedef struct rdt_vote_hit { /* only the injecting instantiation takes one */
  int what;
  int64_t element;
  uint64_t mask;
  uint32_t done;
} rdt_vote_hit;

/* kernel (args, hit), as rdt_vote_code */
extern const void *const rdt_vote_inject;

#ifdef __cplusplus
}
#endif
#endif
