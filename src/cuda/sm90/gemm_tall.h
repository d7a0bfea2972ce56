/* What host and device share of the products of many rows by few columns on wgmma: A is read once at the speed of
 * memory, and all of B stays in each block's shared memory. */
#ifndef RDT_CUDA_GEMM_TALL_H
#define RDT_CUDA_GEMM_TALL_H

#include "cuda/sm90/gemm_wgmma.h"

enum {
  RDT_TALL_K = 64,       /* of a stage */
  RDT_TALL_PIECE = 2048, /* bytes that a warp stores at once: 16 rows of 128 */
  RDT_TALL_SLOTS = 32,   /* stages, at most */
  RDT_TALL_LEAST = 4,    /* and at least */
  RDT_TALL_REST = 2048   /* barriers; a bias */
};

typedef struct rdt_tall_args {
  rdt_wgmma_args w; /* a, c, p, alike, tiles, stored, extra; p.rho2: of all columns */
  const void
      *image;      /* B as shared memory has it (rdt_tall_place), with the sums of its columns where they are checked */
  int slots, outs; /* stages of the ring; pieces that a warp has, one or two */
  int fold, bias;  /* rows of A and C that are one row of these matrices; columns of one of them */
} rdt_tall_args;

/* Rows that lie one behind the other without gaps are folded: `fold` of them are one row, of a product by a B that has
 * as many copies of B along its diagonal. */
typedef struct rdt_tall_spread_args {
  const uint16_t *b;
  uint16_t *to;        /* fold k x fold n, zero elsewhere */
  int64_t row, column; /* of B: from one to the next */
  int k, n, fold;
} rdt_tall_spread_args;

typedef struct rdt_tall_pack_args {
  const uint16_t *b, *sums; /* sums: [8][whole stages of k]; NULL: none */
  uint16_t *image;
  int64_t row, column; /* of B: from one to the next */
  int k, n, columns;   /* columns: of the tile */
} rdt_tall_pack_args;

/* Rows of the image: columns of B, then sums of them. */
RDT_BOTH_SIDES int rdt_tall_rows(int columns, int checked) {
  return columns + (checked ? RDT_WGMMA_SUMS : 0);
}
/* In elements: stages of k one behind the other, of each the rows of 128 bytes, 16-byte chunks swapped as TMA does. */
RDT_BOTH_SIDES int rdt_tall_place(int rows, int row, int k) {
  const int within = k % RDT_TALL_K;
  return (k / RDT_TALL_K * rows + row) * RDT_TALL_K + ((within / 8 ^ row % 8) * 8 + within % 8);
}

#ifdef __cplusplus
extern "C" {
#endif
extern const void *const rdt_tall_pack;   /* (rdt_tall_pack_args), a block of 256 threads for each stage of k */
extern const void *const rdt_tall_spread; /* (rdt_tall_spread_args), a block of 256 threads for each row */
#ifdef __cplusplus
}
#endif

#endif
