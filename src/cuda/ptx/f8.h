/* 8-bit floats, from sm_89 on: as f32, and back to nearest, the largest number in place of what is larger. */
#ifndef RDT_CUDA_PTX_F8_H
#define RDT_CUDA_PTX_F8_H

#include "cuda/ptx/mma.h"

#define RDT_F8(name, format)                                                                 \
  struct name {                                                                              \
    static __device__ __forceinline__ float wide(uint8_t x) {                                \
      uint32_t halves;                                                                       \
      asm("cvt.rn.f16x2." format "x2 %0, %1;" : "=r"(halves) : "h"((uint16_t)x));            \
      return rdt_f16::wide(halves).x;                                                        \
    }                                                                                        \
    static __device__ __forceinline__ uint8_t narrow(float x) {                              \
      uint16_t both;                                                                         \
      asm("cvt.rn.satfinite." format "x2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x)); \
      return (uint8_t)both;                                                                  \
    }                                                                                        \
  };
RDT_F8(rdt_e4m3, "e4m3")
RDT_F8(rdt_e5m2, "e5m2")
#undef RDT_F8

#endif
