/* Copies to shared memory in the background, and loads that the compiler may neither merge nor move. */
#ifndef RDT_CUDA_PTX_MEMORY_H
#define RDT_CUDA_PTX_MEMORY_H

#include "cuda/ptx/mma.h"

/* 16 bytes, of which the first so many are read and the rest is zero; from L2 only. */
RDT_DEVICE void rdt_copy16(uint32_t to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

RDT_DEVICE void rdt_copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All but the latest n groups have arrived. */
template <int n>
RDT_DEVICE void rdt_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

RDT_DEVICE void rdt_store16_shared(uint32_t to, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

RDT_DEVICE uint32_t rdt_load4_shared(uint32_t at) {
  uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
  return x;
}

/* Four neighbours, 16-byte aligned. */
template <class R>
struct rdt_four {
  R v[4];
};

RDT_DEVICE void rdt_load_shared(float (&v)[4], uint32_t at) {
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(at)
               : "memory");
}
RDT_DEVICE void rdt_load_shared(uint32_t (&v)[4], uint32_t at) {
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(at)
               : "memory");
}
RDT_DEVICE void rdt_load_shared(int (&v)[4], uint32_t at) {
  asm volatile("ld.shared.v4.s32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(at)
               : "memory");
}
RDT_DEVICE void rdt_load_shared(double (&v)[4], uint32_t at) {
  asm volatile("ld.shared.v2.f64 {%0,%1}, [%4]; ld.shared.v2.f64 {%2,%3}, [%4+16];"
               : "=d"(v[0]), "=d"(v[1]), "=d"(v[2]), "=d"(v[3])
               : "r"(at)
               : "memory");
}
RDT_DEVICE double rdt_load8_shared(uint32_t at) {
  double x;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(at) : "memory");
  return x;
}

/* From L2, past the L1 that may hold an older copy. */
RDT_DEVICE void rdt_load_l2(float (&v)[4], const float *at) {
  asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "l"(at)
               : "memory");
}
RDT_DEVICE void rdt_load_l2(int (&v)[4], const int *at) {
  asm volatile("ld.global.cg.v4.s32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "l"(at)
               : "memory");
}
RDT_DEVICE void rdt_load_l2(double (&v)[4], const double *at) {
  asm volatile("ld.global.cg.v2.f64 {%0,%1}, [%4]; ld.global.cg.v2.f64 {%2,%3}, [%4+16];"
               : "=d"(v[0]), "=d"(v[1]), "=d"(v[2]), "=d"(v[3])
               : "l"(at)
               : "memory");
}

/* To memory or shared memory, whose address the compiler knows to be that of either. */
RDT_DEVICE void rdt_store_four(float *to, float x, float y, float z, float w) {
  *(float4 *)to = make_float4(x, y, z, w);
}
RDT_DEVICE void rdt_store_four(int *to, int x, int y, int z, int w) {
  *(int4 *)to = make_int4(x, y, z, w);
}
RDT_DEVICE void rdt_store_four(double *to, double x, double y, double z, double w) {
  ((double2 *)to)[0] = make_double2(x, y), ((double2 *)to)[1] = make_double2(z, w);
}

/* Two neighbours; of float and int 8-byte aligned, of double 16. */
RDT_DEVICE void rdt_load_pair(float (&v)[2], const float *at) {
  const float2 x = __ldcg((const float2 *)at);
  v[0] = x.x, v[1] = x.y;
}
RDT_DEVICE void rdt_load_pair(int (&v)[2], const int *at) {
  const int2 x = __ldcg((const int2 *)at);
  v[0] = x.x, v[1] = x.y;
}
RDT_DEVICE void rdt_load_pair(double (&v)[2], const double *at) {
  const double2 x = __ldcg((const double2 *)at);
  v[0] = x.x, v[1] = x.y;
}
RDT_DEVICE void rdt_store_pair(float *to, float x, float y) {
  *(float2 *)to = make_float2(x, y);
}
RDT_DEVICE void rdt_store_pair(int *to, int x, int y) {
  *(int2 *)to = make_int2(x, y);
}
RDT_DEVICE void rdt_store_pair(double *to, double x, double y) {
  *(double2 *)to = make_double2(x, y);
}

/* 8 bytes, aligned: in memory, at once with what others add. From sm_90 on. */
RDT_DEVICE void rdt_add2(float2 *to, float2 x) {
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1,%2};" ::"l"(to), "f"(x.x), "f"(x.y) : "memory");
}

RDT_DEVICE void rdt_add4(float4 *to, float4 x) { /* 16 bytes */
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(x.x), "f"(x.y), "f"(x.z),
               "f"(x.w)
               : "memory");
}

/* Counts up to most, then begins at 0 again. What this block's threads wrote before their last barrier is seen by
 * whoever counts later. */
RDT_DEVICE unsigned rdt_count_in(unsigned *counter, unsigned most) {
  unsigned before;
  asm volatile("fence.acq_rel.gpu; atom.global.inc.u32 %0, [%1], %2; fence.acq_rel.gpu;"
               : "=r"(before)
               : "l"(counter), "r"(most)
               : "memory");
  return before;
}

RDT_DEVICE uint32_t rdt_dynamic_shared() { /* bytes of this launch */
  uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

RDT_DEVICE uint32_t rdt_sm() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

#endif
