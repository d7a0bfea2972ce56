/* What host and device share of adding up what blocks of fused kernels have left. */
#ifndef RDT_CUDA_COLLECT_H
#define RDT_CUDA_COLLECT_H

#include "cuda/box/box.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_COLLECT_TASKS = 16 };
typedef struct rdt_collect_args { /* task i has the blocks from first[i] on, RDT_BOX_THREADS numbers each */
  unsigned n, first[RDT_COLLECT_TASKS];
  rdt_box_tiles task[RDT_COLLECT_TASKS];
} rdt_collect_args;

/* (args): RDT_BOX_THREADS threads. */
extern const void *const rdt_collect_kernel;

#ifdef __cplusplus
}
#endif
#endif
