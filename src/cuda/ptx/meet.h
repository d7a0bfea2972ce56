/* What a kernel is told is far away until somebody asks for it: a third of a microsecond for each piece that is met for
 * the first time, one after the other where an end needs them. So a warp asks for all pieces together, while the launch
 * before may still run. */
#ifndef RDT_CUDA_PTX_MEET_H
#define RDT_CUDA_PTX_MEET_H

#include "cuda/ptx/mma.h"

/* lane: of that warp; others have none of these numbers. */
template <class Args>
RDT_DEVICE void rdt_meet(const Args &a, uint32_t lane) {
  constexpr uint32_t piece = 64 / sizeof(uint32_t), pieces = (sizeof(Args) + 63) / 64;
  static_assert(pieces <= 32, "a piece a lane");
  __shared__ uint32_t met[pieces]; /* nobody reads it: but a load has to be for something */
  if (lane < pieces)
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(rdt_shared(&met[lane])), "r"(((const uint32_t *)&a)[piece * lane])
                 : "memory");
}

#endif
