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

RDT_DEVICE float4 rdt_load16_shared(uint32_t at) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(at)
               : "memory");
  return x;
}

/* From L2, past the L1 that may hold an older copy. */
RDT_DEVICE float4 rdt_load16_l2(const float *at) {
  float4 x;
  asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(at)
               : "memory");
  return x;
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

RDT_DEVICE uint32_t rdt_sm() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

#endif
