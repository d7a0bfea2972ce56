/* What follows a library's result where the library does not do it: all elements, or a flat activation. */
#include "cuda/box/finish.h"

template <class C>
static __global__ void __launch_bounds__(RDT_BOX_THREADS) ends_any(const __grid_constant__ rdt_ends_args p) {
  typedef typename rdt_box_type<C>::wide W;
  const int64_t e = (int64_t)blockIdx.x * RDT_BOX_THREADS + threadIdx.x, rows = (int64_t)p.m * p.n;
  if (e >= rows * p.batches) return;
  const int batch = (int)(e / rows), place = (int)(e % rows);
  const int row = p.by_rows ? place % p.m : place / p.n, column = p.by_rows ? place / p.m : place % p.n;
  const int outer = batch / p.inner, inner = batch % p.inner;
  const int64_t raw = outer * p.raw.outer + inner * p.raw.inner + row * p.raw.row + column * p.raw.column;
  const int64_t more =
      outer * p.residual.outer + inner * p.residual.inner + row * p.residual.row + column * p.residual.column;
  const int64_t to = outer * p.out.outer + inner * p.out.inner + row * p.out.row + column * p.out.column;
  W bias[1] = {0}, residual[1] = {0}, four[4] = {0, 0, 0, 0};
  if (p.finish.bias && !p.finish.inside)
    rdt_box_load<W, 1>(p.finish.bias, column, 1, 1, false, p.finish.bias_type, bias);
  if (p.residual.data && !p.finish.inside)
    rdt_box_load<W, 1>(p.residual.data, more, 1, 1, false, p.finish.residual_type, residual);
  const W x = (W)rdt_widen(((const C *)p.raw.data)[raw]);
  four[0] = p.finish.inside ? x : rdt_box_sum<W>(p.finish, x, bias[0], residual[0], p.residual.data != NULL);
  rdt_box_act<true, 4, W>(p.finish, four);
  rdt_box_store_one((void *)p.out.data, to, p.finish.out, rdt_box_narrow(four, p.finish.out), 0);
}

/* 16 bytes of results, as they are stored; what is beyond the last is zero. */
template <class T, int ends>
RDT_DEVICE uint4 rdt_act_pack(const rdt_act_args &p, const uint4 &raw, int count) {
  constexpr int V = 16 / sizeof(T);
  constexpr rdt_dtype type = rdt_box_dtype((T *)NULL);
  const T *const t = (const T *)&raw;
  float x[V];
#pragma unroll
  for (int v = 0; v < V; v++) x[v] = rdt_widen(t[v]);
  rdt_box_act<ends == 2, V, float, sizeof(T) == 2>(p.finish, x);
#pragma unroll
  for (int v = 0; v < V; v++)
    if (v >= count) x[v] = 0.0f;
  const rdt_box_words low = rdt_box_narrow(x, type), high = rdt_box_narrow(x + V - 4, type);
  return V == 8 ? make_uint4(low.w[0], low.w[1], high.w[0], high.w[1])
                : make_uint4(low.w[0], low.w[1], low.w[2], low.w[3]);
}

/* Where a sum is asked for, each thread then takes what a thread of another warp has stored, from memory, and evaluates
 * it again. */
template <class T, int ends>
static __global__ void __launch_bounds__(RDT_BOX_THREADS, 4) ends_act(const __grid_constant__ rdt_act_args p) {
  constexpr int V = 16 / sizeof(T);
  const int64_t step = (int64_t)V * gridDim.x * RDT_BOX_THREADS;
  uint64_t bits = 0;
#pragma unroll 1
  for (int again = 0; again < (p.to.sum ? 2 : 1); again++) {
    const unsigned thread = again ? threadIdx.x ^ (RDT_BOX_THREADS - 1) : threadIdx.x;
#pragma unroll 1
    for (int64_t e = V * ((int64_t)blockIdx.x * RDT_BOX_THREADS + thread); e < p.count; e += step) {
      const int count = p.count - e < V ? (int)(p.count - e) : V;
      uint4 raw = make_uint4(0, 0, 0, 0);
      if (count == V) {
        raw = *(const uint4 *)((const T *)p.raw + e);
      } else {
#pragma unroll
        for (int v = 0; v < V; v++)
          if (v < count) ((T *)&raw)[v] = ((const T *)p.raw)[e + v];
      }
      const uint4 y = rdt_act_pack<T, ends>(p, raw, count);
      if (again) {
        const uint32_t words[4] = {y.x, y.y, y.z, y.w};
        bits += rdt_box_share<4>(words, (uint64_t)e * sizeof(T) / 4);
      } else if (count == V) {
        *(uint4 *)((T *)p.out + e) = y;
      } else {
#pragma unroll
        for (int v = 0; v < V; v++)
          if (v < count) ((T *)p.out)[e + v] = ((const T *)&y)[v];
      }
    }
  }
  if (p.to.sum) rdt_box_add<RDT_BOX_THREADS>(p.to, bits);
}

extern "C" const void *rdt_ends_any(rdt_dtype raw) {
  switch (raw) {
    case RDT_F64:
      return (const void *)ends_any<double>;
    case RDT_F32:
      return (const void *)ends_any<float>;
    case RDT_F16:
      return (const void *)ends_any<rdt_box_f16>;
    case RDT_BF16:
      return (const void *)ends_any<rdt_box_bf16>;
    case RDT_S32:
      return (const void *)ends_any<int32_t>;
    default:
      return NULL;
  }
}

extern "C" const void *rdt_ends_act(rdt_dtype type, int ends) {
  switch (type) {
    case RDT_F32:
      return ends == 2 ? (const void *)ends_act<float, 2> : (const void *)ends_act<float, 1>;
    case RDT_F16:
      return ends == 2 ? (const void *)ends_act<rdt_box_f16, 2> : (const void *)ends_act<rdt_box_f16, 1>;
    case RDT_BF16:
      return ends == 2 ? (const void *)ends_act<rdt_box_bf16, 2> : (const void *)ends_act<rdt_box_bf16, 1>;
    default:
      return NULL;
  }
}
