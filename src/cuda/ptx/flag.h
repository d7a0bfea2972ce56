/* What one block leaves in memory for another one of the same launch. From sm_70 on. */
#ifndef RDT_CUDA_PTX_FLAG_H
#define RDT_CUDA_PTX_FLAG_H

#include "cuda/ptx/mma.h"

/* What this thread wrote before, and others before they met it, is seen by whoever has loaded the number. */
RDT_DEVICE void rdt_store_release(unsigned *to, unsigned x) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}
RDT_DEVICE unsigned rdt_load_acquire(const unsigned *at) {
  unsigned x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}

#endif
