/* What host and device share of chains of small products: a cluster of blocks has up to 16 rows and goes through all
 * layers. Each block has some neurons of each; what they say goes to the shared memory of all blocks of the next one.
 * Or both halves of a cluster do, from a copy of the weights each, and their bits are compared. */
#ifndef RDT_CUDA_SM90_MLP_H
#define RDT_CUDA_SM90_MLP_H

#include <stdint.h>

#include "cuda/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  RDT_MLP_LAYERS = 8,
  RDT_MLP_ROWS = 16,   /* of a cluster */
  RDT_MLP_BLOCKS = 16, /* of it, at most, both halves together */
  RDT_MLP_TILES = 8,   /* of eight neurons, of a block in a layer, at most */
  RDT_MLP_COLUMNS = 8 * RDT_MLP_TILES,
  RDT_MLP_PAIR = 32,    /* k of two instructions, whose operands a thread has side by side */
  RDT_MLP_WARPS = 8,    /* that multiply */
  RDT_MLP_CHECKERS = 5, /* warps that check, beside them */
  RDT_MLP_THREADS = 32 * RDT_MLP_WARPS,
  RDT_MLP_MORE = 32 * RDT_MLP_CHECKERS
};

/* How chains are checked: not at all; rows by signed sums; all by the other half of a cluster. */
enum { RDT_MLP_NONE, RDT_MLP_SIGNED, RDT_MLP_TWICE, RDT_MLP_CHECKS };

/* Places of shared memory that do not depend on the layers, in bytes; then come those that do. */
enum {
  RDT_MLP_ARRIVED = 0,                                 /* barriers: of each layer's inputs, */
  RDT_MLP_TOLD = RDT_MLP_ARRIVED + 8 * RDT_MLP_LAYERS, /* of the sums of these; TWICE: of the result */
  RDT_MLP_STAND = RDT_MLP_TOLD + 8 * RDT_MLP_LAYERS,   /* of the layer's own sums */
  RDT_MLP_RHO2 = RDT_MLP_STAND + 8 * RDT_MLP_LAYERS,   /* [layer] */
  RDT_MLP_SAID = 256, /* [layer][block][eight rows]: sums as they were sent; TWICE: [row][pair] of the result */
  RDT_MLP_BIAS = RDT_MLP_SAID + 16 * RDT_MLP_LAYERS * RDT_MLP_BLOCKS, /* [evaluation][layer][neuron] */
  RDT_MLP_HEAD = RDT_MLP_BIAS + 2 * 4 * RDT_MLP_LAYERS * RDT_MLP_COLUMNS
};

typedef struct rdt_mlp_layer { /* 64 bytes: what is asked for first costs where it comes from */
  const void *weights;         /* [half][block][pair of k][tile][lane] of 16 bytes, then [pair][lane] of the sums */
  int k, n, pairs;
  int log_tiles, blocks;        /* of each block, a power of two; that have some */
  int in_at, pitch, weights_at; /* bytes: in shared memory; between rows of inputs */
  int raw_at;                   /* of its sums: [row][neuron, then what checks them] */
  int act;                      /* rdt_fn */
  float p, q;
} rdt_mlp_layer;

typedef struct rdt_mlp_rest {
  const float *rho2; /* [block]: most squares of a row of its weights */
  const void *bias;  /* NULL: there is none */
  int bias_type;     /* rdt_dtype */
  rdt_device_bound bound;
} rdt_mlp_rest;

typedef struct rdt_mlp_args {
  rdt_mlp_layer layer[RDT_MLP_LAYERS];
  const void *x;
  void *out;
  uint64_t *sum, *visits; /* of the result as it should be stored, and a one for each block, or (TWICE) each row of
                             those of the second half that have any of it; NULL: nobody asks */
  int64_t ldx, ldo;
  int m, layers, blocks; /* blocks: that share a layer */
  int vectors;           /* rows of x are multiples of 16 bytes, at such addresses */
  int partial;           /* bytes of the sums of all warps, of which there are two sets */
  rdt_mlp_rest rest[RDT_MLP_LAYERS];
  rdt_cuda_verdict *verdict;
} rdt_mlp_args;

/* Where a fault goes, of injecting instantiations: an accumulator of a thread after its products (ACCUM), one of those
 * that check them (CHECKSUM), a word of the weights (WEIGHT) in the block's shared memory, a word of the inputs as they
 * arrived there, or of the first layer as a thread has loaded it (INPUT), a result before what follows it (TAKEN), or
 * as it is stored or sent (STORED; TWICE, of the last layer: as it is stored, or summed, alone). */
enum { RDT_MLP_ACCUM, RDT_MLP_CHECKSUM, RDT_MLP_WEIGHT, RDT_MLP_INPUT, RDT_MLP_TAKEN, RDT_MLP_STORED, RDT_MLP_SITES };
typedef struct rdt_mlp_hit {
  int site, layer, block, thread; /* block: of the grid */
  int place;                      /* register; word of the thread's share; INPUT: word of a row */
  int row, column;                /* INPUT, TAKEN, STORED; column: a pair of the block's neurons */
  uint32_t mask;
  unsigned done;
  double before, after, bound; /* bound: of the row's check in that block and layer */
} rdt_mlp_hit;

extern const void *const rdt_mlp_code[RDT_MLP_CHECKS][2]; /* (args): f16, bf16 */
extern const void *const rdt_mlp_inject[RDT_MLP_CHECKS];  /* (args, rdt_mlp_hit *): f16; NONE: NULL */

typedef struct rdt_mlp_pack_args { /* of one layer, in each block's order */
  const void *w;
  int64_t row, column;           /* strides of k x n */
  int k, n, pairs, tiles, check; /* check: a tile of signed sums behind them */
  int blocks;                    /* of a copy */
  void *out;
  float *rho2; /* [block], 0 before */
} rdt_mlp_pack_args;
extern const void *const rdt_mlp_pack[2]; /* (args): x blocks of all copies, y pairs; a thread each of a pair's k */

#ifdef __cplusplus
}
#endif
#endif
