/* Products on wgmma whose three copies are computed and voted on within one launch. What host and device share. */
#ifndef RDT_CUDA_VOTED_WGMMA_H
#define RDT_CUDA_VOTED_WGMMA_H

#include "cuda/sm90/gemm_wgmma.h"
#include "cuda/vote.h"

/* Where the three copies of a tile are computed. */
enum rdt_voted_team {
  RDT_VOTED_BLOCK,   /* by three groups of one block, from what it has loaded once: a tile of 64 rows */
  RDT_VOTED_GRID,    /* by three blocks that are all there at once: a tile of 192 rows, 64 a group. Two blocks of a copy
                        with tiles side by side are a cluster, and load their rows of A together */
  RDT_VOTED_CLUSTER, /* by the three blocks of a cluster, which load together */
  RDT_VOTED_SPLIT,   /* by launches of their own, for each copy and share of k one, each on a third of the blocks, which
                          load as GRID; the next share's vote on what they have */
  RDT_VOTED_SKINNY,  /* CLUSTER where C has at most 64 rows: more stages; keeps nothing of its votes, which would be a
                        tenth of its time, of code as much as of stores: what nobody knows begins at the start */
  RDT_VOTED_TEAMS
};
enum {
  RDT_VOTED_GROUPS = 3,
  RDT_VOTED_PAIR = 2, /* tiles side by side that load together, GRID */
  RDT_VOTED_THREADS = 128 * (RDT_VOTED_GROUPS + 1),
  RDT_VOTED_COLUMNS = 128,
  RDT_VOTED_WARPS = 4 * RDT_VOTED_GROUPS,
  RDT_VOTED_HELD = RDT_VOTED_COLUMNS / 2, /* accumulators of a thread */
  RDT_VOTED_ROOMS = 3, /* SPLIT: of what shares leave: this one, the one that is voted on, and the one before */
};

typedef struct rdt_voted_args {
  rdt_wgmma_args w;
  int votes;             /* of a tile, evenly along k; the last one is on what is stored, but not rounded yet */
  rdt_vote_found *found; /* sm of a finding: of who lost */
  uint32_t *sms;         /* [tile][copy]: the multiprocessor that computed it; SPLIT: two of these, by shares in turn */
  uint64_t *posts;       /* GRID: [team][turn][warp][copy] of two words: half a digest, and its number; SPLIT: digests,
                            salted by run and vote: [room][copy][tile][warp] */
  unsigned *met;         /* GRID, CLUSTER: [team][warp][copy]: how often values were laid out */
  float *values;         /* [team][copy][warp][accumulator][lane]; SPLIT: [room][copy][tile][warp][accumulator / 4]
                            [lane][4], of copies 1 and 2 where they did not know copy 0's digest, or have another one */
  float *kept; /* of a tile behind its last votes, a third by each copy: [team][2][warp][accumulator / 4][lane][4];
                  NULL: nothing is kept, what nobody knows is computed again from its start. Not of SKINNY, nor of
                  SPLIT, which has its values */
  int room[RDT_VOTED_ROOMS]; /* SPLIT: of this share, the one before, and the one before that; -1: not there any more */
  uint32_t *runs;            /* SPLIT: counted up; what it was, for what was voted on before */
  int copy, vote;            /* SPLIT: which one this is */
  int from, to;              /* of which stages of k */
  int ahead;                 /* SPLIT: sums are asked for a tile ahead */
} rdt_voted_args;

enum rdt_voted_site { RDT_VOTED_ACCUM, RDT_VOTED_DIGEST, RDT_VOTED_KEPT /* what is kept of a vote; mask[0] */ };
enum { RDT_VOTED_FAULTS = 8 };
typedef struct rdt_voted_fault { /* of an accumulator, between two products */
  int element[2], copy;
  int behind; /* so many stages of k (64); what lies on a vote comes before it */
  int again;  /* of what is computed again, at its end, if these stages are among it; behind 0: whatever it is */
  unsigned mask;
} rdt_voted_fault;
typedef struct rdt_voted_hit { /* only injecting instantiations take one */
  int site;
  int element[2];            /* row and column of C */
  int vote;                  /* before this one */
  unsigned mask[RDT_VOTERS]; /* of each copy */
  int sm; /* in place of element, vote and copies: mask[0] in the first thread of each warp there; -1: no */
  unsigned done, done_again; /* strikes; those of what is computed again, each time */
  int n;                     /* beside it, so many of these */
  rdt_voted_fault more[RDT_VOTED_FAULTS];
} rdt_voted_hit;

#endif
