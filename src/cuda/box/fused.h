/* What the fused kernels of both kinds ask of a problem that rdt_box_fused_accept took. */
#ifndef RDT_CUDA_BOX_FUSED_H
#define RDT_CUDA_BOX_FUSED_H

#include "cuda/box/boxes.h"
#include "cuda/sm80/fused.h"

/* Shapes and what follows. packed: the result has no gaps. */
rdt_fused_args rdt_box_fused_args(const rdt_problem *p, bool *packed);

/* Where weights lie: steps from channel to channel, from filter to filter, from tap to tap; good: there are such. */
typedef struct rdt_fused_weights {
  int64_t row, column, tap;
  bool good;
} rdt_fused_weights;
rdt_fused_weights rdt_box_fused_weights(const rdt_problem *p);

/* Asynchronous: a's tiles of so many rows and columns, a block each, whose launch may begin while the one before it
 * ends; arguments: what this kernel takes. cluster: blocks that share a tile's k are one. */
typedef struct rdt_fused_start {
  int rows, columns, threads, shared;
  bool cluster;
} rdt_fused_start;
rdt_status rdt_box_fused_start(const rdt_fused_args *a, const void *code, void **arguments, const rdt_fused_start *how,
                               const char *name, void *stream, rdt_reason *why);
/* Has the device room for the blocks of a cluster? */
rdt_status rdt_box_fused_room(const rdt_fused_args *a, const void *code, const rdt_fused_start *how, bool *room,
                              rdt_reason *why);

#endif
