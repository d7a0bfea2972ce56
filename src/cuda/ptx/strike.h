/* Faults in one of many registers, whose number is known when the kernel runs: three instructions for each register, as
 * more take long to compile. Of injecting kernels. */
#ifndef RDT_CUDA_PTX_STRIKE_H
#define RDT_CUDA_PTX_STRIKE_H

#include <stdint.h>

#include "cuda/ptx/mma.h"

/* Where i is at: bits of x, which before says what it was. */
RDT_DEVICE void rdt_strike_if(float &x, float &before, int i, int at, uint64_t mask) {
  asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, %3; @p mov.b32 %1, %0; @p xor.b32 %0, %0, %4; }"
               : "+f"(x), "+f"(before)
               : "r"(i), "r"(at), "r"((uint32_t)mask));
}
RDT_DEVICE void rdt_strike_if(int &x, int &before, int i, int at, uint64_t mask) {
  asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, %3; @p mov.b32 %1, %0; @p xor.b32 %0, %0, %4; }"
               : "+r"(x), "+r"(before)
               : "r"(i), "r"(at), "r"((uint32_t)mask));
}
RDT_DEVICE void rdt_strike_if(double &x, double &before, int i, int at, uint64_t mask) {
  asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, %3; @p mov.b64 %1, %0; @p xor.b64 %0, %0, %4; }"
               : "+d"(x), "+d"(before)
               : "r"(i), "r"(at), "l"(mask));
}

#endif
