/* Three copies of a result on the device, compared bit by bit: of each element the majority, written where the first
 * copy lost. What host and device share. */
#ifndef RDT_CUDA_VOTE_H
#define RDT_CUDA_VOTE_H

#include "cuda/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_VOTERS = 3, RDT_VOTE_THREADS = 256, RDT_VOTE_AT_ONCE = 2 };

/* One more kind of complaint, of one element: two copies have outvoted the third, whose number is in k_first. Where all
 * three differ it is RDT_CUDA_CERTAIN, and k_first is -1. */
enum {
  RDT_CUDA_OUTVOTED = 4,
  RDT_CUDA_AGAIN =
      5 /* all three differed, and were computed again from the last vote that all agreed on: k_first is -1 */
};

/* In the device's memory, zero before. Places are their complements, so that the first one is the largest. */
typedef struct rdt_vote_found {
  rdt_cuda_verdict verdict; /* suspect: elements that were decided, or computed again; certain: those that were not */
  uint64_t lost[RDT_VOTERS], first[RDT_VOTERS];
  uint64_t undecided, first_undecided;
  uint64_t alike; /* digests that differed though no value did */
  /* Of votes on the way (voted.h): elements of which all three copies differed, and what was done about it. */
  uint64_t again, first_again;
  uint64_t restarts, rounds; /* 16 rows of a tile that were computed again; stages of k (64) that this took */
  uint64_t from_start;       /* of these restarts: no vote had been agreed on, or what was kept of it was not it */
  uint64_t refused;          /* kept accumulators that had not the digest that was voted on */
} rdt_vote_found;

/* Elements lie side by side in rows; of a result without gaps there is one row. All copies lie alike, also modulo 16.
 */
typedef struct rdt_vote_args {
  void *copy[RDT_VOTERS];         /* the first one becomes the result */
  int64_t rows, row_bytes, pitch; /* pitch: bytes from row to row */
  int64_t columns;                /* of what findings call a row */
  int size;                       /* bytes of an element: 1, 2, 4, 8 */
  int vectors;                    /* rows begin at multiples of 16 bytes */
  rdt_vote_found *found;
} rdt_vote_args;

/* kernel (args): blocks of RDT_VOTE_THREADS, any number of them */
extern const void *const rdt_vote_code;

#ifdef __cplusplus
}
#endif
#endif
