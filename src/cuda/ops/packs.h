/* Ops whose rows or channels lie side by side at multiples of 16 bytes, on a GPU: a warp has a row of f32 in its
 * registers, or a thread the windows of 16 bytes of channels. What is computed is what body.h says. V: numbers in 16
 * bytes, 8 or 4.
 */
#ifndef RDT_CUDA_OPS_PACKS_H
#define RDT_CUDA_OPS_PACKS_H

#include "cuda/ops/body.h"

template <int V>
struct rdt_pack_floats {
  float x[V];
};

template <int V>
RDT_DEVICE uint4 rdt_pack_words(const rdt_op_view &v, int64_t at) {
  return *(const uint4 *)((const char *)v.data + at * (16 / V));
}

template <int V>
RDT_DEVICE rdt_pack_floats<V> rdt_pack_widen(const rdt_op_view &v, const uint4 &w) {
  rdt_pack_floats<V> p;
  const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
  for (int i = 0; i < V; i++) {
    if (V == 4)
      p.x[i] = __uint_as_float(words[i]);
    else
      p.x[i] = rdt_op_wide(words[i / 2] >> 16 * (i & 1) & 0xffffu, v.dtype == RDT_F16);
  }
  return p;
}

RDT_DEVICE double rdt_pack_sum(const rdt_pack_floats<4> &p) {
  return ((double)p.x[0] + p.x[1]) + ((double)p.x[2] + p.x[3]);
}
RDT_DEVICE double rdt_pack_sizes(rdt_pack_floats<4> p) {
#pragma unroll
  for (int v = 0; v < 4; v++) p.x[v] = fabs_f32(p.x[v]);
  return rdt_pack_sum(p);
}
RDT_DEVICE double rdt_pack_squares(const rdt_pack_floats<4> &p) {
  const double a = p.x[0], b = p.x[1], c = p.x[2], d = p.x[3];
  return (a * a + b * b) + (c * c + d * d);
}

/* The share of 16 bytes in a bit-sum, the first of whose words has this number. */
RDT_DEVICE uint64_t rdt_pack_share(const uint4 &x, uint64_t number) {
  const uint32_t w[4] = {x.x, x.y, x.z, x.w};
  uint64_t plain = 0, placed = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) plain += w[i], placed += (uint64_t)w[i] * i;
  return rdt_op_share(plain, number) + placed * 0x3c6ef37200000002u;
}

/* Elements e, e + 1, ... of the result, the first of which lies at `at`. */
template <int V>
RDT_DEVICE void rdt_pack_take(const rdt_gpu_op &a, rdt_op_found &f, uint32_t e, int64_t at,
                              const rdt_pack_floats<V> &y) {
  const rdt_op_view &v = a.view[0];
  uint32_t w[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int half = v.dtype == RDT_F16;
    w[i] = V == 4 ? __float_as_uint(y.x[i % V])
                  : rdt_op_narrow(y.x[2 * i % V], half) | rdt_op_narrow(y.x[(2 * i + 1) % V], half) << 16;
  }
  uint4 *const to = (uint4 *)((char *)v.data + at * (16 / V));
  if (f.form == RDT_OP_STORES) {
    *to = make_uint4(w[0], w[1], w[2], w[3]);
    return;
  }
  const uint4 is = f.form == RDT_OP_AGAIN ? make_uint4(w[0], w[1], w[2], w[3]) : *to;
  f.sum += rdt_pack_share(is, (uint64_t)((const char *)to - (const char *)a.base) / 4);
  if ((is.x ^ w[0]) | (is.y ^ w[1]) | (is.z ^ w[2]) | (is.w ^ w[3])) {
    if (f.differ == 0) f.first = e;
    f.differ++;
  }
}

/* Over a warp, in a fixed order; NaN where there is one. */
RDT_DEVICE float rdt_warp_most(float x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, d);
    x = x > other || x != x ? x : other;
  }
  return x;
}
RDT_DEVICE double rdt_warp_sum(double x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}

#define EACH_PACK(i) _Pragma("unroll") for (int k = 0, i = me * V; k < PACKS; k++, i += 32 * V)

struct rdt_warp_row { /* of f32 */
  static constexpr int V = 4, PACKS = RDT_OP_WARP_ROW / (32 * V);
  rdt_pack_floats<V> x[PACKS];
  int64_t at[RDT_OP_VIEWS_OF_ROWS];
  int n, me;

  __device__ __forceinline__ rdt_warp_row(const rdt_gpu_op &a, uint32_t r, int lane, rdt_op_found &f)
      : n((int)a.inner), me(lane) {
#pragma unroll
    for (int v = 0; v < RDT_OP_VIEWS_OF_ROWS; v++) at[v] = 0;
    rdt_op_walk(&a, 0, a.outer, r, at, RDT_OP_VIEWS_OF_ROWS);
    uint4 words[PACKS];
    EACH_PACK(i) if (i < n) words[k] = rdt_pack_words<V>(a.view[1], at[1] + i);
    EACH_PACK(i) if (i < n) {
      x[k] = rdt_pack_widen<V>(a.view[1], words[k]);
      if (a.read && f.form != RDT_OP_STORES) f.read += rdt_pack_share(words[k], (uint64_t)(at[1] + i) * (16 / V) / 4);
    }
  }

  __device__ __forceinline__ void softmax(const rdt_gpu_op &a, uint32_t r, rdt_op_found &f) {
    float most = -INFINITY;
    double sum = 0;
    EACH_PACK(i) if (i < n) {
#pragma unroll
      for (int v = 0; v < V; v++) most = x[k].x[v] > most || x[k].x[v] != x[k].x[v] ? x[k].x[v] : most;
    }
    most = rdt_warp_most(most);
    const int logarithm = a.fn == RDT_FN_LOGSOFTMAX;
    EACH_PACK(i) if (i < n) {
      rdt_pack_floats<V> e;
#pragma unroll
      for (int v = 0; v < V; v++) {
        const float d = x[k].x[v] - most;
        e.x[v] = exp_f32(d);
        x[k].x[v] = logarithm ? d : e.x[v];
      }
      sum += rdt_pack_sum(e);
    }
    const float whole = (float)rdt_warp_sum(sum), back = logarithm ? log_f32(whole) : 0.0f;
    EACH_PACK(i) if (i < n) {
#pragma unroll
      for (int v = 0; v < V; v++) x[k].x[v] = logarithm ? x[k].x[v] - back : x[k].x[v] / whole;
      rdt_pack_take<V>(a, f, r * (uint32_t)n + (uint32_t)i, at[0] + i, x[k]);
    }
  }

  __device__ __forceinline__ void norm(const rdt_gpu_op &a, uint32_t r, rdt_op_found &f) {
    double sum = 0;
    float centre = 0.0f;
    uint4 gains[PACKS], shifts[PACKS]; /* on their way while sums are formed */
    EACH_PACK(i) if (i < n) {
      if (a.views > 2) gains[k] = rdt_pack_words<V>(a.view[2], at[2] + i);
      if (a.views > 3) shifts[k] = rdt_pack_words<V>(a.view[3], at[3] + i);
    }
    if (a.fn == RDT_FN_NORM_LAYER || a.fn == RDT_FN_NORM_MVN) {
      EACH_PACK(i) if (i < n) sum += rdt_pack_sum(x[k]);
      centre = (float)(rdt_warp_sum(sum) / n);
    }
    sum = 0;
    EACH_PACK(i) if (i < n) {
      rdt_pack_floats<V> d;
#pragma unroll
      for (int v = 0; v < V; v++) d.x[v] = x[k].x[v] - centre;
      sum += a.fn == RDT_FN_NORM_L1 ? rdt_pack_sizes(d) : rdt_pack_squares(d);
    }
    const float factor = rdt_op_norm_factor(&a, rdt_warp_sum(sum));
    EACH_PACK(i) if (i < n) {
      rdt_pack_floats<V> gain, shift;
      if (a.views > 2) gain = rdt_pack_widen<V>(a.view[2], gains[k]);
      if (a.views > 3) shift = rdt_pack_widen<V>(a.view[3], shifts[k]);
#pragma unroll
      for (int v = 0; v < V; v++) {
        float y = (x[k].x[v] - centre) * factor;
        if (a.views > 2) y *= gain.x[v];
        if (a.views > 3) y += shift.x[v];
        x[k].x[v] = y;
      }
      rdt_pack_take<V>(a, f, r * (uint32_t)n + (uint32_t)i, at[0] + i, x[k]);
    }
  }
};
#undef EACH_PACK

template <int V>
RDT_DEVICE void rdt_pack_map_f32(const rdt_gpu_op &a, uint32_t e, rdt_op_found &f) {
  int64_t at[3] = {0, 0, 0};
  rdt_op_walk(&a, 0, a.rank, e, at, 3);
  rdt_pack_floats<V> x = rdt_pack_widen<V>(a.view[1], rdt_pack_words<V>(a.view[1], at[1]));
  const rdt_pack_floats<V> y = rdt_pack_widen<V>(a.view[2], rdt_pack_words<V>(a.view[2], at[2]));
#pragma unroll
  for (int v = 0; v < V; v++)
    x.x[v] = a.fn == RDT_FN_ADD ? x.x[v] + y.x[v] : a.fn == RDT_FN_SUB ? x.x[v] - y.x[v] : x.x[v] * y.x[v];
  rdt_pack_take<V>(a, f, e, at[0], x);
}

/* Windows of the channels from e on, which lie side by side: so many taps are loaded before the first is used. */
template <int V, class Take>
RDT_DEVICE void rdt_pack_taps(const rdt_gpu_op &a, const rdt_op_field &w, Take take) {
  constexpr int TOGETHER = 9;
  const int n = w.taps[0] * w.taps[1] * w.taps[2];
  int64_t plane = w.from, line = w.from, at = w.from;
  int x = 0, y = 0;
  for (int first = 0; first < n; first += TOGETHER) {
    uint4 words[TOGETHER];
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
      if (first + i >= n) break;
      words[i] = rdt_pack_words<V>(a.view[1], at);
      at += a.window[2].tap;
      if (++x < w.taps[2]) continue;
      x = 0, line += a.window[1].tap;
      if (++y == w.taps[1]) y = 0, plane += a.window[0].tap, line = plane;
      at = line;
    }
#pragma unroll
    for (int i = 0; i < TOGETHER; i++)
      if (first + i < n) take(rdt_pack_widen<V>(a.view[1], words[i]));
  }
}

template <int V>
RDT_DEVICE void rdt_pack_maxpool(const rdt_gpu_op &a, uint32_t e, rdt_op_found &f) {
  const rdt_op_field w = rdt_op_window_at(&a, e);
  rdt_pack_floats<V> most;
#pragma unroll
  for (int v = 0; v < V; v++) most.x[v] = -INFINITY;
  rdt_pack_taps<V>(a, w, [&](const rdt_pack_floats<V> &p) {
#pragma unroll
    for (int v = 0; v < V; v++) most.x[v] = p.x[v] > most.x[v] || p.x[v] != p.x[v] ? p.x[v] : most.x[v];
  });
  rdt_pack_take<V>(a, f, e, w.out, most);
}

template <int V>
RDT_DEVICE void rdt_pack_avgpool(const rdt_gpu_op &a, uint32_t e, rdt_op_found &f) {
  const rdt_op_field w = rdt_op_window_at(&a, e);
  const float cells = (float)(a.count_pad ? w.padded : w.taps[0] * w.taps[1] * w.taps[2]);
  rdt_pack_floats<V> sum;
#pragma unroll
  for (int v = 0; v < V; v++) sum.x[v] = 0.0f;
  rdt_pack_taps<V>(a, w, [&](const rdt_pack_floats<V> &p) {
#pragma unroll
    for (int v = 0; v < V; v++) sum.x[v] += p.x[v];
  });
#pragma unroll
  for (int v = 0; v < V; v++) sum.x[v] = cells > 0.0f ? sum.x[v] / cells : 0.0f;
  rdt_pack_take<V>(a, f, e, w.out, sum);
}

#endif
