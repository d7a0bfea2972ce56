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

#endif
