/* What host and device share of chains of products of tens of rows and more: a block has so many rows and goes through
 * all layers; what lies between them stays in its shared memory, weights come by pieces of 64 neurons x 64 of k.
 * Checked: a second block of its cluster does the same, from a copy of the weights of its own, and their bits are
 * compared. */
#ifndef RDT_CUDA_SM90_MLP_WGMMA_H
#define RDT_CUDA_SM90_MLP_WGMMA_H

#include <stdint.h>

#include "cuda/sm90/mlp.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  RDT_MLPW_LAYERS = 16,
  RDT_MLPW_TILE = 64,                                 /* neurons of a warpgroup's product; k of a piece */
  RDT_MLPW_PIECE = 2 * RDT_MLPW_TILE * RDT_MLPW_TILE, /* bytes */
  RDT_MLPW_GROUPS = 4,                                /* warpgroups that multiply */
  RDT_MLPW_THREADS = 128 * RDT_MLPW_GROUPS,
  RDT_MLPW_MORE = 32,                    /* a warp that has weights copied */
  RDT_MLPW_TILES = RDT_MLPW_THREADS / 4, /* of all layers, at most: a thread compares what a warp says of a tile */
  RDT_MLPW_CHUNKS = 32,                  /* pieces of a layer's k, at most: a lane frees each */
  RDT_MLPW_SIZES = 2                     /* rows of a block: 32, 64 */
};

typedef struct rdt_mlpw_layer { /* 16 bytes, which a thread copies to shared memory */
  uint16_t chunks, tiles;       /* of 64 of k, and of 64 neurons */
  int act;                      /* rdt_fn; RDT_FN_NONE: no less than p, no more than q */
  float p, q;
} rdt_mlpw_layer;

typedef struct rdt_mlpw_args {
  const char *copy[2]; /* of each block of a cluster: biases of all tiles as f32, then pieces in their order */
  const void *x;
  void *out;
  int64_t ldx, ldo;
  int m, k, n, layers;  /* k: of the first one; n: of the last one */
  int tiles, pieces;    /* of all layers */
  int slots;            /* for pieces, in shared memory, at 0; those of a layer, at least */
  int inputs[2];        /* bytes, in shared memory: what layers of even and odd numbers read */
  int bias, said, rest; /* biases; [block][tile][warp] of bit-sums; layers and barriers */
  int vectors[2];       /* rows of x, of out are multiples of 16 bytes, at such addresses */
  rdt_cuda_verdict *verdict;
  uint64_t *sum, *visits; /* of the result as it should be stored, and one for each cluster; NULL: nobody asks */
  rdt_mlpw_layer layer[RDT_MLPW_LAYERS];
} rdt_mlpw_args;

/* Of the rest, in bytes: layers; barriers of what the other block says, and of biases; the first layer whose bits
 * differ; then full and empty slots. */
enum {
  RDT_MLPW_TOLD = 16 * RDT_MLPW_LAYERS,
  RDT_MLPW_BIASED = RDT_MLPW_TOLD + 8,
  RDT_MLPW_FIRST = RDT_MLPW_BIASED + 8,
  RDT_MLPW_FULL = RDT_MLPW_FIRST + 8
};

/* Faults (rdt_mlp_hit): RDT_MLP_ACCUM, TAKEN (a word of results, behind what follows), STORED (the same as it goes to
 * shared memory alone): column: the tile; thread: of the warpgroup; place: register. CHECKSUM: what a warp says of a
 * tile, of all layers'. WEIGHT: column: the tile; row: the piece of k; place: word of the piece. INPUT: row; place:
 * word of it. */
extern const void *const rdt_mlpw_code[RDT_MLPW_SIZES][2][2]; /* (args): 32, 64 rows; unchecked, checked; f16, bf16 */
extern const void *const rdt_mlpw_inject[RDT_MLPW_SIZES];     /* (args, rdt_mlp_hit *): checked, f16 */

typedef struct rdt_mlpw_pack_args { /* of one layer */
  const void *w, *bias;             /* bias NULL: there is none */
  int64_t row, column;              /* strides of k x n */
  int k, n, chunks;
  int bias_type;
  char *pieces;
  float *biases;
  int64_t apart; /* bytes between copies */
} rdt_mlpw_pack_args;
extern const void *const rdt_mlpw_pack; /* (args): x pieces, y copies */

#ifdef __cplusplus
}
#endif
#endif
