/* Of gpu_bench_chains: a network as the chain of its products, and what is told of it. */
#ifndef RDT_BENCH_GPU_CHAIN_NETWORK_H
#define RDT_BENCH_GPU_CHAIN_NETWORK_H

#include "chain.h"
#include "turns.h"

enum { CHAIN_KEPT = 6, CHAIN_LAYERS = 256 };

typedef struct choice { /* of a shape, for each side: the fastest first */
  chain_shape shape;
  int count[CHAIN_SIDES];
  chain_way way[CHAIN_SIDES][CHAIN_KEPT];
  chain_layer like[CHAIN_SIDES][CHAIN_KEPT]; /* one that was made so */
} choice;

typedef struct network {
  char name[64];
  int count; /* of distinct shapes */
  int times[CHAIN_LAYERS];
  choice *what[CHAIN_LAYERS];
  int pick[CHAIN_SIDES][CHAIN_LAYERS];           /* of what is kept */
  int layers;                                    /* of the chain */
  chain_shape shapes[CHAIN_LAYERS];              /* of each */
  chain_run runs[CHAIN_SIDES][CHAIN_LAYERS / 2]; /* of layers that are one launch */
  int n_runs[CHAIN_SIDES];
  int repeat; /* in a graph */
  double mhz; /* afterwards */
  chain_tally tally;
  turns graphs[CHAIN_SIDES];
} network;

const chain_way *chain_way_of(const network *n, chain_side which, int i); /* of a distinct shape */
double chain_sum_of(const network *n, chain_side which);                  /* us of launches by themselves */
void chain_print(const network *n, bool faults);
void chain_put(FILE *record, const network *n, bool faults); /* NULL: nowhere */

#endif
