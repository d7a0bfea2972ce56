/* Repair in the stream of a product on mma.sync: where checks complained, its tiles are computed again by the kernel
 * that computed them, in the same order of addition, so that bits can be compared; behind the product and without
 * asking the host. What is between is kept on the device. */
#ifndef RDT_CUDA_MEND_H
#define RDT_CUDA_MEND_H

#include <stdint.h>

#include "cuda/sm80/gemm_mma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The product's kernel is launched so often, each time for what is left, with tiles on other multiprocessors. */
enum { RDT_MEND_LAUNCHES = 6, RDT_MEND_THREADS = 256 };

/* Some tiles that are judged together; of a row of them, the block too that forms what is expected. */
typedef struct rdt_mend_place {
  int from[2], to[2];  /* blocks across and down; to: beyond the last */
  int open;            /* not settled */
  int pass;            /* from 1 on: all of it is computed in each */
  unsigned first, now; /* 1 << rdt_cuda_complaint: of the product, of this pass */
} rdt_mend_place;

typedef struct rdt_mend_outcome {
  rdt_cuda_mended told;
  rdt_cuda_verdict stands; /* complaints that no repair has settled */
} rdt_mend_outcome;

typedef struct rdt_mend {
  /* the product */
  int across, down, splits; /* blocks; across: with those that form what is expected */
  int columns;              /* of tiles */
  int tile[2];              /* its rows and columns */
  int by_sums;              /* who complains has not computed all that it complains of */
  int sms;
  unsigned *tickets;
  int n_tickets;
  uint32_t *taken; /* bits: blocks that have run in this pass */
  uint32_t *moved; /* bits: blocks that have run on more than one multiprocessor, and their tiles had the same bits */
  uint16_t *ran;   /* [2][block]: on which multiprocessor, in a pass and in the one before */
  uint64_t *sums;  /* [3][tile]: what its bits sum to, at first, in a pass and in the one before */
  /* a repair */
  int open; /* places; 0: there is nothing to do */
  int n;
  rdt_mend_place place[RDT_CUDA_LISTED];
  unsigned left, held;     /* blocks that nobody has taken; those of them that wait where they must not run */
  unsigned avoiding, shut; /* multiprocessors; those of them that nobody else can come to */
  int launch;
  uint32_t avoided[RDT_CUDA_SMS / 32]; /* bits */
  uint32_t lost[RDT_CUDA_SMS];         /* passes in which it complained */
  uint32_t votes[RDT_CUDA_SMS];        /* by_sums: tiles that changed from pass to pass, and it had computed */
  rdt_cuda_verdict now;
  rdt_mend_outcome outcome;
} rdt_mend;

/* C, to sum its bits. */
typedef struct rdt_mend_matrix {
  const void *data;
  int64_t pitch;
  int rows, columns, bytes;
} rdt_mend_matrix;

/* kernels: (rdt_mend *, verdict *, graph's handle or 0), one block; (rdt_mend *, matrix, first), a block a tile;
 * (rdt_mend *, verdict *, last), one block. Beside a launch: (rdt_mend *), a block a multiprocessor, each with all of
 * its shared memory, shuts those that are to be avoided, so that the launch's blocks come to others; (rdt_mend *),
 * before the launch, waits for that. */
extern const void *const rdt_mend_look, *const rdt_mend_sum, *const rdt_mend_judge, *const rdt_mend_shut,
                                                                                        *const rdt_mend_gate;

#ifdef __cplusplus
}
#endif

#endif
