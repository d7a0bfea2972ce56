/* Kernels of a chain begin before the one before them has ended: what does not depend on it is done meanwhile. From
 * compute capability 9.0 on, where the launch allows it. */
#ifndef RDT_CUDA_PTX_CHAIN_H
#define RDT_CUDA_PTX_CHAIN_H

#include "cuda/ptx/memory.h"

RDT_DEVICE void rdt_chain_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
RDT_DEVICE void rdt_chain_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
