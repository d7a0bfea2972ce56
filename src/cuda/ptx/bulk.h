/* Copies of bytes that lie side by side, to shared memory, by a barrier that counts them; from sm_90 on. */
#ifndef RDT_CUDA_PTX_BULK_H
#define RDT_CUDA_PTX_BULK_H

#include "cuda/ptx/mma.h"

/* A multiple of 16 bytes, as both addresses are. */
RDT_DEVICE void rdt_bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

#endif
