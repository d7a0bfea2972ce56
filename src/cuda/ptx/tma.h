/* Copies of boxes of a matrix between memory and shared memory (TMA), from sm_90 on. What lies outside of the matrix
 * arrives as zero and is not written. */
#ifndef RDT_CUDA_PTX_TMA_H
#define RDT_CUDA_PTX_TMA_H

#include "cuda/ptx/mma.h"

RDT_DEVICE void rdt_tma_prefetch(const void *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/* x: of the elements that lie side by side. The barrier counts the bytes. */
RDT_DEVICE void rdt_tma_load(uint32_t to, const void *map, int x, int y, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
/* The same of a map of matrices, z of them before. */
RDT_DEVICE void rdt_tma_load_of(uint32_t to, const void *map, int x, int y, int z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
          "r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
/* Of a map of windows: so many channels from c on of the pixels of an image from (x, y) on, row after row, each shifted
 * by a tap. What lies outside of the image arrives as zero. */
RDT_DEVICE void rdt_tma_load_window(uint32_t to, const void *map, int c, int x, int y, int image, int tap_x, int tap_y,
                                    uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], "
      "[%6], {%7, %8};" ::"r"(to),
      "l"(map), "r"(c), "r"(x), "r"(y), "r"(image), "r"(barrier), "h"((uint16_t)tap_x), "h"((uint16_t)tap_y)
      : "memory");
}
/* To the same place of all blocks of the cluster that the mask has, whose own barriers count. */
RDT_DEVICE void rdt_tma_load_all(uint32_t to, const void *map, int x, int y, uint32_t barrier, int mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"((uint16_t)mask)
      : "memory");
}
RDT_DEVICE void rdt_tma_load_all_of(uint32_t to, const void *map, int x, int y, int z, uint32_t barrier, int mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
      "%3, %4}], [%5], %6;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"((uint16_t)mask)
      : "memory");
}
/* What this thread's group wrote to shared memory is seen by the copies that follow their barrier. */
RDT_DEVICE void rdt_tma_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
RDT_DEVICE void rdt_tma_store(const void *map, int x, int y, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y),
               "r"(from)
               : "memory");
}
RDT_DEVICE void rdt_tma_store_of(const void *map, int x, int y, int z, uint32_t from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x),
               "r"(y), "r"(z), "r"(from)
               : "memory");
}
RDT_DEVICE void rdt_tma_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* What all but the latest n groups read of shared memory may be written again. */
template <int n>
RDT_DEVICE void rdt_tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory");
}
RDT_DEVICE void rdt_tma_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

RDT_DEVICE void rdt_stmatrix4(uint32_t at, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(x), "r"(y), "r"(z), "r"(w)
               : "memory");
}
RDT_DEVICE void rdt_store2_shared(uint32_t at, uint32_t x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"((uint16_t)x) : "memory");
}
RDT_DEVICE void rdt_store8_shared(uint32_t at, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(at), "f"(x), "f"(y) : "memory");
}

#endif
