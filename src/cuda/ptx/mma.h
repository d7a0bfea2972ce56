/* Instructions of tensor cores and what feeds them, from sm_80 on. Fragments of m16n8k16, lane = 4 g + t:
 *   A  a[0] row g, a[1] row g + 8 of k 2t, 2t+1; a[2], a[3] the same of k 2t+8, 2t+9
 *   B  b[0] column g of k 2t, 2t+1; b[1] of k 2t+8, 2t+9
 *   C  c[0], c[1] row g of columns 2t, 2t+1; c[2], c[3] row g + 8 */
#ifndef RDT_CUDA_PTX_MMA_H
#define RDT_CUDA_PTX_MMA_H

#include <stdint.h>

#define RDT_DEVICE static __device__ __forceinline__

/* 16-bit types: their product, two numbers of a register as f32, and back to nearest. */
struct rdt_f16 {
  static constexpr int parts = 2; /* that a sum of f32 is split into: 22 bits of it */
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ float2 wide(uint32_t x) {
    float2 f;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(f.x), "=f"(f.y)
        : "r"(x));
    return f;
  }
  static __device__ __forceinline__ uint32_t narrow(float lo, float hi) {
    uint32_t x;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(hi), "f"(lo));
    return x;
  }
};

struct rdt_bf16 {
  static constexpr int parts = 3; /* 24 bits */
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ float2 wide(uint32_t x) {
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
  }
  static __device__ __forceinline__ uint32_t narrow(float lo, float hi) {
    uint32_t x;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(hi), "f"(lo));
    return x;
  }
};

RDT_DEVICE uint32_t rdt_shared(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

RDT_DEVICE void rdt_ldmatrix4(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

RDT_DEVICE void rdt_ldmatrix4_transposed(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

#endif
