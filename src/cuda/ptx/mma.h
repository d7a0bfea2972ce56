/* Instructions of tensor cores and what feeds them, from sm_80 on. Fragments of m16n8, lane = 4 g + t; C of all of
 * them: c[0], c[1] row g of columns 2t, 2t+1; c[2], c[3] row g + 8 16 bits, k16:  a[0] row g, a[1] row g + 8 of k 2t,
 * 2t+1; a[2], a[3] the same of k 2t+8, 2t+9 b[0] column g of k 2t, 2t+1; b[1] of k 2t+8, 2t+9 8 bits, k32:   four of k
 * in place of two, from k 4t on, and 16 later f64, k8:       a[0] row g, a[1] row g + 8 of k t; a[2], a[3] of k t+4;
 * b[0] column g of k t, b[1] of k t+4 */
#ifndef RDT_CUDA_PTX_MMA_H
#define RDT_CUDA_PTX_MMA_H

#include <stdint.h>

#define RDT_DEVICE static __device__ __forceinline__

#define RDT_MMA_16(name, type)                                                        \
  RDT_DEVICE void name(float(&c)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {  \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type               \
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"         \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
RDT_MMA_16(rdt_mma_f16, "f16")
RDT_MMA_16(rdt_mma_bf16, "bf16")
#undef RDT_MMA_16

#define RDT_MMA_8(name, left, right)                                                  \
  RDT_DEVICE void name(int(&c)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {    \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." left "." right              \
                 ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"         \
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  }
RDT_MMA_8(rdt_mma_s8s8, "s8", "s8")
RDT_MMA_8(rdt_mma_s8u8, "s8", "u8")
RDT_MMA_8(rdt_mma_u8s8, "u8", "s8")
RDT_MMA_8(rdt_mma_u8u8, "u8", "u8")
#undef RDT_MMA_8

RDT_DEVICE void rdt_mma_f64(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                   : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                   : "d"(a[2 * r + half]), "d"(b[r]));
#endif
}

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

/* Bytes of x (0 to 3) and y (4 to 7), the lowest digit first. */
template <uint32_t digits>
RDT_DEVICE uint32_t rdt_bytes(uint32_t x, uint32_t y) {
  uint32_t z;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(z) : "r"(x), "r"(y), "n"(digits));
  return z;
}

/* Two numbers of a register as f32, and back to nearest. */
struct rdt_f16 {
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
  static __device__ __forceinline__ float2 wide(uint32_t x) {
    return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
  }
  static __device__ __forceinline__ uint32_t narrow(float lo, float hi) {
    uint32_t x;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(hi), "f"(lo));
    return x;
  }
};

#endif
