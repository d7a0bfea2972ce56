/* Barriers in shared memory that count arrivals and bytes; named barriers; clusters. From sm_90 on. */
#ifndef RDT_CUDA_PTX_MBARRIER_H
#define RDT_CUDA_PTX_MBARRIER_H

#include "cuda/ptx/mma.h"

RDT_DEVICE void rdt_mbarrier_init(uint32_t at, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
/* What was initialised is seen by other blocks of the cluster, and by TMA, once they have met. */
RDT_DEVICE void rdt_mbarrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
RDT_DEVICE void rdt_mbarrier_expect(uint32_t at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
/* Of the same barrier in a block of the cluster. Without a scope: a release to the cluster becomes a full fence, which
 * costs a quarter of a main loop. */
RDT_DEVICE void rdt_mbarrier_arrive(uint32_t at, uint32_t rank) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::
          "r"(at),
      "r"(rank)
      : "memory");
}
RDT_DEVICE void rdt_mbarrier_arrive_here(uint32_t at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
/* Once what this thread has had copied (rdt_copy16) is there. Who waits reads it by TMA or wgmma behind a fence. */
RDT_DEVICE void rdt_mbarrier_arrive_copied(uint32_t at) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
}
RDT_DEVICE void rdt_mbarrier_wait(uint32_t at, uint32_t parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @done bra go; bra again; go: "
      "}" ::"r"(at),
      "r"(parity)
      : "memory");
}
/* By all lanes of a warp: that none goes on before the others the compiler sees here, and not in the loop above. */
RDT_DEVICE void rdt_mbarrier_wait_all(uint32_t at, uint32_t parity) {
  uint32_t done;
  do
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.b32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
  while (!__all_sync(0xffffffffu, done));
}

RDT_DEVICE void rdt_bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
RDT_DEVICE void rdt_bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

RDT_DEVICE uint32_t rdt_cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
RDT_DEVICE void rdt_cluster_meet() { /* orders nothing but what was initialised */
  asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

/* What a cluster's threads wrote to shared memory before they met is there for all behind it. Whoever has arrived may
 * go on, and waits later. */
RDT_DEVICE void rdt_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
RDT_DEVICE void rdt_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
RDT_DEVICE void rdt_cluster_leave() { /* nothing is handed over */
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/* The same place in the shared memory of a block of the cluster, and what is there. */
RDT_DEVICE uint32_t rdt_cluster_place(uint32_t at, uint32_t rank) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}
RDT_DEVICE void rdt_load_cluster(float (&v)[4], uint32_t at) {
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(at)
               : "memory");
}

/* Kernels that were launched to begin before the one ahead has ended: nothing is read or written before it has. */
RDT_DEVICE void rdt_grid_await() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
RDT_DEVICE void rdt_grid_admit() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

template <int count>
RDT_DEVICE void rdt_registers_fewer() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
RDT_DEVICE void rdt_registers_more() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

#endif
