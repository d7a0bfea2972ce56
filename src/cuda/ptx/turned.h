/* Matrices of 16 bits from registers to shared memory, turned: rows become columns. From sm_90 on. */
#ifndef RDT_CUDA_PTX_TURNED_H
#define RDT_CUDA_PTX_TURNED_H

#include "cuda/ptx/mma.h"

/* Four of 8 x 8, of which lane 4 g + t has row g of columns 2t, 2t+1; at: of lane 8 i + c where column c of the i-th
 * goes, 16 bytes. */
RDT_DEVICE void rdt_stmatrix4_turned(uint32_t at, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x), "r"(y), "r"(z),
               "r"(w)
               : "memory");
}

#endif
