/* What a block of a product asks before it runs, where tiles are computed again: is it called for? */
#ifndef RDT_CUDA_MEND_DEVICE_H
#define RDT_CUDA_MEND_DEVICE_H

#include "cuda/device_common.h"
#include "cuda/mend.h"

RDT_DEVICE rdt_mend_place *rdt_mend_find(rdt_mend *m, int x, int y) {
  for (int i = 0; i < m->n; i++) {
    rdt_mend_place *at = &m->place[i];
    if (at->open && x >= at->from[0] && x < at->to[0] && y >= at->from[1] && y < at->to[1]) return at;
  }
  return nullptr;
}

RDT_DEVICE unsigned rdt_mend_now(const unsigned *x) {
  return *(const volatile unsigned *)x;
}

RDT_DEVICE bool rdt_mend_avoids(const rdt_mend *m, unsigned sm) {
  return sm < RDT_CUDA_SMS && (m->avoided[sm / 32] >> (sm % 32) & 1);
}

/* Until all blocks that may run have begun, or a while has passed: where nobody computes, whoever ends at once would
 * draw all other blocks. */
RDT_DEVICE void rdt_mend_wait(const rdt_mend *m) {
  const long long most = 4000000, begun = clock64();
  while (rdt_mend_now(&m->left) > rdt_mend_now(&m->held) && clock64() - begun < most) __nanosleep(400);
}

/* What it should have computed is left to the next launch. */
RDT_DEVICE void rdt_mend_hold(rdt_mend *m) {
  atomicAdd(&m->held, 1u);
  rdt_mend_wait(m);
}

static __device__ __noinline__ bool rdt_mend_take(rdt_mend *m) {
  if (m->open == 0) return false;
  const int x = (int)blockIdx.x, y = (int)blockIdx.y, block = ((int)blockIdx.z * m->down + y) * m->across + x;
  const rdt_mend_place *at = rdt_mend_find(m, x, y);
  const uint32_t bit = 1u << (block % 32), sm = rdt_sm();
  if (!at || (m->taken[block / 32] & bit)) return false;
  if (rdt_mend_avoids(m, sm)) {
    rdt_mend_hold(m);
    return false;
  }
  atomicOr(&m->taken[block / 32], bit);
  m->ran[(int64_t)(at->pass & 1) * m->across * m->down * m->splits + block] = (uint16_t)sm;
  atomicSub(&m->left, 1u);
  return true;
}

/* By all threads of a block. The barrier is not within the call: kernels would take 20 registers more. */
RDT_DEVICE bool rdt_called(const rdt_mma_args &p) {
  return __syncthreads_or(threadIdx.x == 0 && rdt_mend_take(p.again)) != 0;
}

#endif
