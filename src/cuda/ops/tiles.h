/* Copies that turn a matrix around, and windows over channels that lie side by side, on a GPU: a block has a tile, in
 * units of 16 bytes. Where an op is evaluated twice by one launch, the block's other warps, each of another quarter of
 * the multiprocessor, load everything again, which the first-level cache has, and compute it. What is computed is what
 * body.h says. V: numbers in 16 bytes. */
#ifndef RDT_CUDA_OPS_TILES_H
#define RDT_CUDA_OPS_TILES_H

#include "cuda/ops/packs.h"

/* The forms that a block has one after the other. Where blocks are few, others have the second one, as multiprocessors
 * would idle. */
RDT_DEVICE bool rdt_tile_apart(const rdt_gpu_op &a) {
  return gridDim.x > (uint32_t)a.tiles;
}
RDT_DEVICE int rdt_tile_passes(const rdt_gpu_op &a) {
  return a.check == RDT_OP_BOTH && !rdt_tile_apart(a) ? 2 : 1;
}
RDT_DEVICE uint32_t rdt_tile_block(const rdt_gpu_op &a) {
  return blockIdx.x < (uint32_t)a.tiles ? blockIdx.x : blockIdx.x - (uint32_t)a.tiles;
}
RDT_DEVICE uint32_t rdt_tile_begin(const rdt_gpu_op &a, rdt_op_found &f, int pass) {
  const bool again = pass == 1 || blockIdx.x >= (uint32_t)a.tiles;
  f.form = a.check != RDT_OP_BOTH ? (rdt_op_form)a.check : again ? RDT_OP_AGAIN : RDT_OP_STORES;
  return threadIdx.x ^ (f.form != RDT_OP_STORES ? RDT_OP_THREADS - 1 : 0);
}

/* 16 bytes of the result, so many elements from its first. */
template <int V>
RDT_DEVICE void rdt_tile_take(const rdt_gpu_op &a, rdt_op_found &f, int64_t at, const uint4 &w) {
  uint4 *const to = (uint4 *)((char *)a.view[0].data + at * (16 / V));
  if (f.form == RDT_OP_STORES) {
    *to = w;
    return;
  }
  const uint4 is = f.form == RDT_OP_AGAIN ? w : *to;
  f.sum += rdt_pack_share(is, (uint64_t)((const char *)to - (const char *)a.base) / 4);
  if ((is.x ^ w.x) | (is.y ^ w.y) | (is.z ^ w.z) | (is.w ^ w.w)) {
    if (f.differ == 0) f.first = (uint32_t)at;
    f.differ++;
  }
}

/* ---- turning ---- */

enum { RDT_OP_TURN_WORDS = RDT_OP_TURN_BYTES / 4 + RDT_OP_TURN_ROWS };

template <int V>
struct rdt_tile_element;
template <>
struct rdt_tile_element<16> {
  typedef uint8_t type;
};
template <>
struct rdt_tile_element<8> {
  typedef uint16_t type;
};
template <>
struct rdt_tile_element<4> {
  typedef uint32_t type;
};
template <>
struct rdt_tile_element<2> {
  typedef uint64_t type;
};

/* The walk's last two dimensions: columns, which lie side by side in the input, and rows, which do in the result. A
 * tile has tile[0] columns, a power of 2, and tile[1] rows: all of them, or a multiple of V. In shared memory a row
 * begins a bank further than the one before. */
template <int V>
RDT_DEVICE void rdt_tile_copy_of(const rdt_gpu_op &a, rdt_op_found &f, uint32_t (*tile)[RDT_OP_TURN_WORDS]) {
  typedef typename rdt_tile_element<V>::type E;
  const int d = a.rank - 2;
  const uint32_t columns = (uint32_t)a.tile[0], rows = (uint32_t)a.tile[1], pitch = columns + 4 / sizeof(E);
  const uint32_t wide = a.length[d], high = a.length[d + 1];
  const uint32_t across = (wide + columns - 1) / columns, down = (high + rows - 1) / rows;
  uint32_t left = rdt_tile_block(a);
  const uint32_t c0 = left % across * columns;
  left /= across;
  const uint32_t r0 = left % down * rows;
  int64_t at[2] = {0, 0};
  rdt_op_walk(&a, 0, d, left / down, at, 2);
  const uint32_t units = columns / V, all = units * rows, shift = 31 - __clz((int)units);
  const char *const from = (const char *)a.view[1].data + (at[1] + c0) * (int64_t)sizeof(E);
  const int64_t step = a.view[1].stride[d + 1];
  for (int pass = 0; pass < rdt_tile_passes(a); pass++) {
    for (uint32_t u = rdt_tile_begin(a, f, pass); u < all; u += RDT_OP_THREADS) {
      const uint32_t r = u >> shift, c = (u & (units - 1)) * V;
      if (c0 + c >= wide || r0 + r >= high) continue;
      const uint4 w = *(const uint4 *)(from + ((r0 + r) * step + c) * (int64_t)sizeof(E));
      E *const to = (E *)tile[pass] + r * pitch + c;
      if (sizeof(E) <= 4) {
        uint32_t *const words = (uint32_t *)(void *)to;
        words[0] = w.x, words[1] = w.y, words[2] = w.z, words[3] = w.w;
      } else {
        to[0] = (E)((uint64_t)w.y << 32 | w.x), to[1] = (E)((uint64_t)w.w << 32 | w.z);
      }
    }
  }
  __syncthreads();
  for (int pass = 0; pass < rdt_tile_passes(a); pass++) {
    for (uint32_t u = rdt_tile_begin(a, f, pass); u < all; u += RDT_OP_THREADS) {
      uint32_t c = u * V / rows, r = u * V - c * rows;
      if (c0 + c >= wide || r0 + r >= high) continue;
      const int64_t to = at[0] + (c0 + c) * a.view[0].stride[d] + r0 + r;
      union {
        E e[V];
        uint4 w;
      } x;
#pragma unroll
      for (int i = 0; i < V; i++) {
        x.e[i] = ((const E *)tile[pass])[r * pitch + c];
        if (++r == rows) r = 0, c++;
      }
      rdt_tile_take<V>(a, f, to, x.w);
    }
  }
}

RDT_DEVICE void rdt_tile_copy(const rdt_gpu_op &a, rdt_op_found &f) {
  __shared__ __align__(16) uint32_t tile[2][RDT_OP_TURN_WORDS]; /* one for each pass */
  switch (a.view[0].bytes) {
    case 1:
      return rdt_tile_copy_of<16>(a, f, tile);
    case 2:
      return rdt_tile_copy_of<8>(a, f, tile);
    case 4:
      return rdt_tile_copy_of<4>(a, f, tile);
    default:
      return rdt_tile_copy_of<2>(a, f, tile);
  }
}

/* ---- windows over images: the walk is image, line, column, channel; no dilation ---- */

/* The larger one, where it is neither zero nor no number: a single instruction. of: of equal ones the first, of those
 * that are no numbers the last, as everywhere else. */
struct rdt_most_f32 {
  static constexpr uint32_t LEAST = 0xff800000u, SIGNS = 0x80000000u, HIGHEST = 0x7f800000u;
  static __device__ __forceinline__ uint32_t quick(uint32_t most, uint32_t x) {
    uint32_t y;
    asm("max.NaN.f32 %0, %1, %2;" : "=r"(y) : "r"(most), "r"(x));
    return y;
  }
  static __device__ __forceinline__ bool clear(uint32_t most) {
    return (most & ~SIGNS) - 1 < HIGHEST;
  }
  static __device__ __forceinline__ uint32_t of(uint32_t most, uint32_t x) {
    const float m = __uint_as_float(most), v = __uint_as_float(x);
    return v > m || v != v ? x : most;
  }
};
template <uint32_t highest> /* two of 16 bits in a word */
struct rdt_most_two {
  static constexpr uint32_t LEAST = (0x8000u | highest) * 0x10001u, SIGNS = 0x80008000u;
  static __device__ __forceinline__ bool clear(uint32_t most) {
    return (most & 0x7fffu) - 1 < highest && (most >> 16 & 0x7fffu) - 1 < highest;
  }
};
struct rdt_most_f16 : rdt_most_two<0x7c00u> {
  static __device__ __forceinline__ uint32_t quick(uint32_t most, uint32_t x) {
    uint32_t y;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(most), "r"(x));
    return y;
  }
  static __device__ __forceinline__ uint32_t of(uint32_t most, uint32_t x) {
    uint32_t more, nan;
    asm("set.gt.u32.f16x2 %0, %2, %3; set.neu.u32.f16x2 %1, %2, %2;" : "=r"(more), "=r"(nan) : "r"(x), "r"(most));
    const uint32_t mask = more | nan;
    return (x & mask) | (most & ~mask);
  }
};
struct rdt_most_bf16 : rdt_most_two<0x7f80u> {
  static __device__ __forceinline__ uint32_t quick(uint32_t most, uint32_t x) {
    uint32_t y;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(most), "r"(x));
    return y;
  }
  static __device__ __forceinline__ uint32_t of(uint32_t most, uint32_t x) {
    const uint32_t low = rdt_most_f32::of(most << 16, x << 16),
                   high = rdt_most_f32::of(most & 0xffff0000u, x & 0xffff0000u);
    return __byte_perm(low, high, 0x7632);
  }
};

/* Where a thread's windows are: LINES of them, one below the other. */
struct rdt_tile_windows {
  const char *from; /* the channels of the image's first pixel */
  int64_t to;
  int line, column; /* of the first tap, perhaps outside the image */
  int lines;        /* of windows */
};

template <int V, int LINES>
RDT_DEVICE bool rdt_tile_windows_at(const rdt_gpu_op &a, uint32_t e, rdt_tile_windows &w) {
  const uint32_t packs = a.length[3] / V, wide = a.length[2], lines = a.length[1], groups = (lines + LINES - 1) / LINES;
  const uint32_t c = e % packs;
  e /= packs;
  const uint32_t x = e % wide;
  e /= wide;
  const uint32_t y = e % groups * LINES, image = e / groups;
  w.lines = (int)(lines - y) < LINES ? (int)(lines - y) : LINES;
  w.line = (int)y * a.window[0].stride - a.window[0].before;
  w.column = (int)x * a.window[1].stride - a.window[1].before;
  w.from = (const char *)a.view[1].data + (image * a.view[1].stride[0] + c * V) * (16 / V);
  w.to = image * a.view[0].stride[0] + y * a.view[0].stride[1] + x * a.view[0].stride[2] + c * V;
  return image < a.length[0];
}

/* Of LINES windows of K x K words, S lines apart: maxima of lines first, which two windows may have in common. */
template <class M, int K, int S, int LINES>
RDT_DEVICE void rdt_tile_most(const uint4 (&x)[(LINES - 1) * S + K][K], int word, uint32_t (&most)[LINES]) {
  constexpr int TALL = (LINES - 1) * S + K;
  uint32_t line[TALL], any = 0;
  bool clear = true;
  const auto at = [&](int i, int k) {
    return word == 0 ? x[i][k].x : word == 1 ? x[i][k].y : word == 2 ? x[i][k].z : x[i][k].w;
  };
#pragma unroll
  for (int i = 0; i < TALL; i++) {
    line[i] = at(i, 0);
    any |= line[i];
#pragma unroll
    for (int k = 1; k < K; k++) line[i] = M::quick(line[i], at(i, k)), any |= at(i, k);
  }
#pragma unroll
  for (int l = 0; l < LINES; l++) {
    most[l] = line[l * S];
#pragma unroll
    for (int i = 1; i < K; i++) most[l] = M::quick(most[l], line[l * S + i]);
    clear = clear && M::clear(most[l]);
  }
  if (clear || !(any & M::SIGNS)) return;
#pragma unroll
  for (int l = 0; l < LINES; l++) {
    most[l] = at(l * S, 0);
#pragma unroll
    for (int i = 1; i < K * K; i++) most[l] = M::of(most[l], at(l * S + i / K, i % K));
  }
}

template <int V, class M, int K, int S, int LINES>
RDT_DEVICE void rdt_tile_maxima(const rdt_gpu_op &a, rdt_op_found &f) {
  constexpr int TALL = (LINES - 1) * S + K;
  const int64_t down = a.window[0].step * (16 / V), across = a.window[1].step * (16 / V);
  for (int pass = 0; pass < rdt_tile_passes(a); pass++) {
    const uint32_t e = rdt_tile_block(a) * RDT_OP_THREADS + rdt_tile_begin(a, f, pass);
    rdt_tile_windows w;
    if (!rdt_tile_windows_at<V, LINES>(a, e, w)) continue;
    uint4 x[TALL][K];
    const char *from = w.from + w.line * down + w.column * across;
#pragma unroll
    for (int i = 0; i < TALL; i++, from += down) {
#pragma unroll
      for (int k = 0; k < K; k++) {
        x[i][k] = make_uint4(M::LEAST, M::LEAST, M::LEAST, M::LEAST);
        if ((unsigned)(w.line + i) < (unsigned)a.window[0].length &&
            (unsigned)(w.column + k) < (unsigned)a.window[1].length)
          x[i][k] = *(const uint4 *)(from + k * across);
      }
    }
    uint32_t most[4][LINES];
#pragma unroll
    for (int word = 0; word < 4; word++) rdt_tile_most<M, K, S, LINES>(x, word, most[word]);
#pragma unroll
    for (int l = 0; l < LINES; l++)
      if (l < w.lines)
        rdt_tile_take<V>(a, f, w.to + l * a.view[0].stride[1],
                         make_uint4(most[0][l], most[1][l], most[2][l], most[3][l]));
  }
}

template <class M, int V>
RDT_DEVICE void rdt_tile_maxima_of(const rdt_gpu_op &a, rdt_op_found &f) {
  if (a.window[0].kernel == 3)
    rdt_tile_maxima<V, M, 3, 2, RDT_OP_LINES>(a, f);
  else
    rdt_tile_maxima<V, M, 2, 2, RDT_OP_LINES>(a, f);
}
RDT_DEVICE void rdt_tile_maxpool(const rdt_gpu_op &a, rdt_op_found &f) {
  if (a.view[0].dtype == RDT_F16)
    rdt_tile_maxima_of<rdt_most_f16, 8>(a, f);
  else if (a.view[0].dtype == RDT_BF16)
    rdt_tile_maxima_of<rdt_most_bf16, 8>(a, f);
  else
    rdt_tile_maxima_of<rdt_most_f32, 4>(a, f);
}

/* A window along one dimension, place number i. */
struct rdt_tile_span {
  int first, taps, padded;
  __device__ __forceinline__ rdt_tile_span(const rdt_op_window &w, uint32_t i) {
    const int start = (int)i * w.stride - w.before, end = start + w.kernel;
    first = start > 0 ? start : 0;
    taps = (end < w.length ? end : w.length) - first;
    taps = taps > 0 ? taps : 0;
    padded = (end < w.length + w.after ? end : w.length + w.after) - start;
  }
};

enum { RDT_OP_SHARES = RDT_OP_THREADS / RDT_OP_UNITS };

/* The mean of wide windows: 16 units of channels, each summed by 16 threads, each of which has some taps in a row. */
template <int V>
RDT_DEVICE void rdt_tile_mean(const rdt_gpu_op &a, rdt_op_found &f,
                              float (*part)[RDT_OP_SHARES / 2][RDT_OP_UNITS * 8]) {
  enum { UNITS = RDT_OP_UNITS, SHARES = RDT_OP_SHARES, TOGETHER = 4 };
  const uint32_t packs = a.length[3] / V, across = (packs + UNITS - 1) / UNITS, block = rdt_tile_block(a);
  const uint32_t first = block % across * UNITS, place = block / across, line = place / a.length[2];
  const uint32_t column = place - line * a.length[2], image = line / a.length[1];
  const rdt_tile_span tall(a.window[0], line - image * a.length[1]), wide(a.window[1], column);
  const int taps = tall.taps * wide.taps, each = (taps + SHARES - 1) / SHARES;
  const float cells = (float)(a.count_pad ? tall.padded * wide.padded : taps);
  const int64_t down = a.window[0].step * (16 / V), right = a.window[1].step * (16 / V);
  for (int pass = 0; pass < rdt_tile_passes(a); pass++) {
    const uint32_t t = rdt_tile_begin(a, f, pass), unit = first + t % UNITS;
    const int begin = (int)(t / UNITS) * each, mine = begin + each < taps ? each : taps - begin;
    int y = wide.taps > 0 ? begin / wide.taps : 0, x = begin - y * wide.taps;
    const char *const from = (const char *)a.view[1].data +
                             (image * a.view[1].stride[0] + (unit < packs ? unit : first) * V) * (16 / V) +
                             tall.first * down + wide.first * right;
    rdt_pack_floats<V> sum;
#pragma unroll
    for (int v = 0; v < V; v++) sum.x[v] = 0.0f;
    for (int k = 0; k < mine; k += TOGETHER) {
      uint4 words[TOGETHER];
#pragma unroll
      for (int i = 0; i < TOGETHER; i++) {
        words[i] = make_uint4(0, 0, 0, 0);
        if (k + i < mine) words[i] = *(const uint4 *)(from + y * down + x * right);
        if (++x == wide.taps) x = 0, y++;
      }
#pragma unroll
      for (int i = 0; i < TOGETHER; i++) {
        const rdt_pack_floats<V> p = rdt_pack_widen<V>(a.view[1], words[i]);
#pragma unroll
        for (int v = 0; v < V; v++) sum.x[v] += p.x[v];
      }
    }
#pragma unroll
    for (int v = 0; v < V; v++) {
      sum.x[v] += __shfl_xor_sync(0xffffffffu, sum.x[v], UNITS);
      if (t / UNITS % 2 == 0) part[pass][t / (2 * UNITS)][v * UNITS + t % UNITS] = sum.x[v];
    }
    __syncthreads();
    if (t < UNITS && unit < packs) {
      rdt_pack_floats<V> mean;
#pragma unroll
      for (int v = 0; v < V; v++) {
        float s = 0.0f;
#pragma unroll
        for (int k = 0; k < SHARES / 2; k++) s += part[pass][k][v * UNITS + t];
        mean.x[v] = cells > 0.0f ? s / cells : 0.0f;
      }
      const int64_t to = image * a.view[0].stride[0] + (line - image * a.length[1]) * a.view[0].stride[1] +
                         column * a.view[0].stride[2] + unit * V;
      rdt_pack_take<V>(a, f, (uint32_t)to, to, mean);
    }
  }
}
RDT_DEVICE void rdt_tile_avgpool(const rdt_gpu_op &a, rdt_op_found &f) {
  __shared__ float part[2][RDT_OP_SHARES / 2][RDT_OP_UNITS * 8];
  if (a.view[0].bytes == 2)
    rdt_tile_mean<8>(a, f, part);
  else
    rdt_tile_mean<4>(a, f, part);
}

#endif
