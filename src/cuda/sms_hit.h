/* The simulated fault of a multiprocessor: for the injecting instantiations. */
#ifndef RDT_CUDA_SMS_HIT_H
#define RDT_CUDA_SMS_HIT_H

#include "cuda/sms_body.h"

struct rdt_sms_strikes {
  const rdt_sms_hit &h;
  int element; /* -1: none; -2: all of this lane */

  static __device__ uint64_t random(uint64_t z) { /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  __device__ void begin(const rdt_sms_args &p, unsigned product) {
    const uint64_t r = random(h.seed + 2 * product * 0x9e3779b97f4a7c15u),
                   at = random(h.seed + (2 * product + 1) * 0x9e3779b97f4a7c15u);
    element = -1;
    if ((int)rdt_sm() != h.sm || !(h.always || (unsigned)r < h.below)) return;
    element = h.lane < 0 ? (int)(at % (uint64_t)(p.rows * p.columns)) : (int)threadIdx.x % 32 == h.lane % 32 ? -2 : -1;
  }
  __device__ uint64_t result(uint64_t bits, int e) {
    return element == e || element == -2 ? (~bits & h.to[0]) | (bits & h.to[1]) : bits;
  }
};

#endif
