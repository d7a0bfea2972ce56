/* Faults in chains of small products: for the injecting instantiations of both forms. */
#ifndef RDT_CUDA_SM90_MLP_HIT_H
#define RDT_CUDA_SM90_MLP_HIT_H

#include "cuda/ptx/memory.h"
#include "cuda/sm90/mlp.h"

struct rdt_mlp_strikes {
  static constexpr bool on = true;
  rdt_mlp_hit *h;

  __device__ bool here(int site, int layer) const {
    return h->site == site && h->layer == layer && (int)blockIdx.x == h->block;
  }
  __device__ void note(double before, double after) const {
    h->before = before, h->after = after;
    atomicAdd(&h->done, 1u);
  }
  __device__ float strike(float x) const {
    const float y = __uint_as_float(__float_as_uint(x) ^ h->mask);
    note((double)x, (double)y);
    return y;
  }
  /* Of a word of two numbers before and after are its bits. */
  __device__ uint32_t strike(uint32_t x) const {
    note((double)x, (double)(x ^ h->mask));
    return x ^ h->mask;
  }
  __device__ void word(uint32_t at) const {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(strike(rdt_load4_shared(at))) : "memory");
  }
};

#endif
