/* Sums of 64 bits over a warp, by the instruction that adds words of all its lanes. */
#ifndef RDT_CUDA_PTX_TOTAL_H
#define RDT_CUDA_PTX_TOTAL_H

#include "cuda/ptx/memory.h"

/* Modulo 2^64; all lanes have it. */
RDT_DEVICE uint64_t rdt_warp_total(uint64_t x) {
  const uint32_t low = (uint32_t)x, high = (uint32_t)(x >> 32);
  const uint32_t a = __reduce_add_sync(0xffffffffu, low & 0xffffu), b = __reduce_add_sync(0xffffffffu, low >> 16),
                 c = __reduce_add_sync(0xffffffffu, high);
  return (uint64_t)a + ((uint64_t)b << 16) + ((uint64_t)c << 32);
}

#endif
