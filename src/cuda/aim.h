/* Where a strike goes: from an element of C and a share of k to a thread, a step and a register. */
#ifndef RDT_CUDA_AIM_H
#define RDT_CUDA_AIM_H

#include "cuda/wide.h"

/* a: what the product is launched with; w: of products on wgmma. fold: so many rows are one, of products of few
 * columns.
 */
rdt_mma_hit rdt_cuda_aim(const rdt_cuda_kernel *k, const rdt_mma_args *a, const rdt_wide *w, int fold,
                         const rdt_cuda_strike *s);

#endif
