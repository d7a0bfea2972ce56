/* What the kernels of sms.h share: results are compared where they are, in registers. */
#ifndef RDT_CUDA_SMS_BODY_H
#define RDT_CUDA_SMS_BODY_H

#include "cuda/ptx/memory.h"
#include "cuda/sms_args.h"

struct rdt_sms_none {
  __device__ __forceinline__ void begin(const rdt_sms_args &, unsigned) {}
  __device__ __forceinline__ uint64_t result(uint64_t bits, int) {
    return bits;
  }
};

RDT_DEVICE uint64_t rdt_sms_bits(float x) {
  return __float_as_uint(x);
}
RDT_DEVICE uint64_t rdt_sms_bits(int x) {
  return (uint32_t)x;
}
RDT_DEVICE uint64_t rdt_sms_bits(double x) {
  return (uint64_t)__double_as_longlong(x);
}

/* What a block has found wrong in this round: elements, and of the first of them the halves of its bits, each below its
 * number, so that the least is that of the first. */
struct rdt_sms_shared {
  unsigned wrong;
  unsigned long long half[2];
};

template <class C, class Hit>
struct rdt_sms_judge {
  const rdt_sms_args &p;
  rdt_sms_shared &s;
  Hit &hit;

  __device__ void begin(unsigned round) {
    __syncthreads();
    if (threadIdx.x == 0) s.wrong = 0, s.half[0] = s.half[1] = ~0ull;
    hit.begin(p, p.first + round);
    __syncthreads();
  }

  __device__ __forceinline__ void result(C x, int row, int column) {
    if (row >= p.rows || column >= p.columns) return;
    const int e = row * p.columns + column;
    const uint64_t bits = hit.result(rdt_sms_bits(x), e);
    if (bits == rdt_sms_bits(((const C *)p.c)[e])) return;
    atomicAdd(&s.wrong, 1u);
    atomicMin(&s.half[0], (unsigned long long)e << 32 | (bits & 0xffffffffu));
    atomicMin(&s.half[1], (unsigned long long)e << 32 | bits >> 32);
  }

  __device__ void end() {
    __syncthreads();
    if (threadIdx.x > 0) return;
    rdt_sms_record *r = &p.records[rdt_sm() % RDT_SMS_ROOM];
    atomicAdd(&r->products, 1u);
    if (s.wrong == 0 || atomicAdd(&r->failures, 1u) > 0) return;
    r->wrong = s.wrong, r->element = (unsigned)(s.half[0] >> 32);
    r->actual = (s.half[1] & 0xffffffffu) << 32 | (s.half[0] & 0xffffffffu);
  }
};

#endif
