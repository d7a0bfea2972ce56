/* Repair in the stream of a product: where checks complained, its tiles are computed again by the kernel that computed
 * them, in the same order of addition, so that bits can be compared; behind the product and without asking the host.
 * What is between is kept on the device.
 *
 * Kernels on mma.sync, and those of few columns, are launched for the whole grid, and blocks ask whether they are
 * called for. Those on wgmma of many columns stay for all of a product: of these one row of tiles at a time is a
 * product of its own (by_rows), twice as high: its rows are there twice, and both blocks of a cluster, on two
 * multiprocessors, have them. What both have alike is put back. Of batches it is a product of as many, of which all but
 * one multiply zeros: each has its B, and what checks it, where it is. */
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
  unsigned first, now; /* 1 << rdt_cuda_complaint: of the product, of this pass; 1: by_rows, bits that are apart */
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
  int by_rows, rows;        /* rows: of C, where a launch is of one row of tiles; of a batch */
  int each;                 /* of `down`, those of a batch */
  int sms;
  unsigned *tickets;
  int n_tickets;
  uint32_t *taken; /* bits: blocks that have run in this pass */
  uint32_t *moved; /* bits: blocks that have run on more than one multiprocessor, and their tiles had the same bits */
  uint16_t *ran;   /* [2][block]: on which multiprocessor, in a pass and in the one before */
  uint64_t *sums;  /* [3][tile]: what its bits sum to, at first, in a pass and in the one before */
  /* a repair */
  int open;  /* places; 0: there is nothing to do */
  int spent; /* by_rows: that no pass has settled */
  int n;
  rdt_mend_place place[RDT_CUDA_LISTED];
  unsigned left, held;     /* blocks that nobody has taken; those of them that wait where they must not run */
  unsigned avoiding, shut; /* multiprocessors; those of them that nobody else can come to */
  int launch;
  int at;                              /* by_rows: the row of tiles that is called for */
  unsigned apart;                      /* by_rows: its rows came to other bits the second time */
  uint64_t graph;                      /* by_rows: of the loop; 0: the host asks */
  uint32_t avoided[RDT_CUDA_SMS / 32]; /* bits */
  uint32_t lost[RDT_CUDA_SMS];         /* passes in which it complained */
  uint32_t votes[RDT_CUDA_SMS];        /* by_sums: tiles that changed from pass to pass, and it had computed */
  rdt_cuda_verdict now;
  rdt_mend_outcome outcome;
} rdt_mend;

/* C, to sum its bits; by rows behind what came the second time, which they have to be. */
typedef struct rdt_mend_matrix {
  const void *data, *second;                      /* second: a row of tiles; NULL: there is none */
  int64_t pitch, second_pitch, next, second_next; /* next: from one batch to the next */
  int rows, columns, bytes;
} rdt_mend_matrix;

typedef struct rdt_mend_rows { /* of an operand: where all are, and those of a row of tiles, twice */
  void *all, *part;
  int64_t pitch, part_pitch, next, part_next;
  int batches;
  int width, size; /* elements of a row, bytes of one */
  int turned;      /* rows lie side by side */
} rdt_mend_rows;

/* kernels: (rdt_mend *, verdict *, graph's handle or 0), one block; (rdt_mend *, matrix, first), a block a tile;
 * (rdt_mend *, verdict *, last), one block. by_rows: (rdt_mend *, rows), any number of blocks, before and behind the
 * launch; (rdt_mend *), behind it: nobody need be kept away any longer. Beside a launch: (rdt_mend *), a block a
 * multiprocessor, each with all of its shared memory, shuts those that are to be avoided, so that the launch's blocks
 * come to others; (rdt_mend *), before the launch, waits for that. */
extern const void *const rdt_mend_look,
    *const rdt_mend_sum, *const rdt_mend_judge, *const rdt_mend_shut, *const rdt_mend_gate, *const rdt_mend_bring,
                                                                                                *const rdt_mend_put,
                                                                                                    *const rdt_mend_ran;

#ifdef __cplusplus
}
#endif

#endif
