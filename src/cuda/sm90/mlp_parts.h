/* What both forms of chains of small products have: types, what follows a sum, what goes to other blocks. */
#ifndef RDT_CUDA_SM90_MLP_PARTS_H
#define RDT_CUDA_SM90_MLP_PARTS_H

#include "cuda/box/finish.h"
#include "cuda/sm80/gemm_mma_checks.h"

template <class T>
struct rdt_mlp_format;
template <>
struct rdt_mlp_format<rdt_type_f16> {
  typedef rdt_f16 type;
};
template <>
struct rdt_mlp_format<rdt_type_bf16> {
  typedef rdt_bf16 type;
};

RDT_DEVICE uint32_t rdt_mlp_there(uint32_t at, uint32_t rank) { /* the same place of another block */
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}
/* To another block, whose barrier counts the bytes. */
RDT_DEVICE void rdt_mlp_send(uint32_t to, uint4 x, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(to),
               "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier)
               : "memory");
}
RDT_DEVICE void rdt_mlp_send(uint32_t to, uint2 x, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1,%2}, [%3];" ::"r"(to), "r"(x.x),
               "r"(x.y), "r"(barrier)
               : "memory");
}
RDT_DEVICE void rdt_mlp_send(uint32_t to, uint32_t x, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(x),
               "r"(barrier)
               : "memory");
}

RDT_DEVICE float2 rdt_mlp_load2(uint32_t at) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at) : "memory");
  return x;
}
RDT_DEVICE uint2 rdt_mlp_load_words(uint32_t at) {
  const float2 x = rdt_mlp_load2(at);
  return make_uint2(__float_as_uint(x.x), __float_as_uint(x.y));
}
RDT_DEVICE void rdt_mlp_store2(uint32_t at, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(at), "f"(x), "f"(y) : "memory");
}
/* Up to eight numbers that lie anyhow; zeros behind them. */
static __device__ __noinline__ uint4 rdt_mlp_few(const volatile uint16_t *x, int count) {
  uint32_t w[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint32_t low = 2 * i < count ? x[2 * i] : 0u, high = 2 * i + 1 < count ? x[2 * i + 1] : 0u;
    w[i] = low | high << 16;
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

RDT_DEVICE float rdt_mlp_number(const void *from, int at, int type) { /* f32, f16, bf16 */
  if (type == RDT_F32) return ((const volatile float *)from)[at];
  const uint32_t bits = ((const volatile uint16_t *)from)[at];
  return type == RDT_F16 ? rdt_f16::wide(bits).x : __uint_as_float(bits << 16);
}

/* A value that the compiler keeps in a register: it would read arguments and its place in the cluster again and again,
 * each a wait of its own. */
template <class X>
RDT_DEVICE X rdt_mlp_keep(X x) {
  asm volatile("" : "+r"(x));
  return x;
}

/* At the end of a kernel that copies weights: launches read them before they wait for it, once all of its blocks have
 * ended, which says nothing of what these have written. */
RDT_DEVICE void rdt_mlp_leave() {
  asm volatile("fence.acq_rel.gpu; fence.proxy.async;" ::: "memory");
}

/* ---- what follows a sum ---- */

static __device__ __noinline__ float2 rdt_mlp_curve(float2 x, int act, float p, float q) {
  const rdt_box_finish f = {.on = 1, .act = act, .p = (double)p, .q = (double)q};
  float v[2] = {x.x, x.y};
  rdt_box_curve<true, 2>(f, v);
  return make_float2(v[0], v[1]);
}

/* Two neighbours, as they are stored. */
template <class T>
RDT_DEVICE uint32_t rdt_mlp_follow(int act, float p, float q, float2 x, float2 bias) {
  float2 y = make_float2(rdt_add(x.x, bias.x), rdt_add(x.y, bias.y)); /* 0 where there is none */
  if (act == rdt_box_RELU) {
    y.x = y.x < 0.0f ? 0.0f : y.x, y.y = y.y < 0.0f ? 0.0f : y.y;
  } else if (act == rdt_box_CLIP) {
    y.x = rdt_clamp<float>(y.x, p, q), y.y = rdt_clamp<float>(y.y, p, q);
  } else if (act != rdt_box_NONE) {
    y = rdt_mlp_curve(y, act, p, q);
  }
  return rdt_mlp_format<T>::type::narrow(y.x, y.y);
}

/* Two blocks came to other bits: either may have been wrong, so no multiprocessor is named. */
static __device__ __noinline__ void rdt_mlp_differ(rdt_cuda_verdict *v, rdt_place_of at, float theirs, float ours) {
  rdt_complain_of_sm(v, RDT_CUDA_CERTAIN, at, theirs, ours, 0.0f, 0.0f, ~0u);
}

#endif
