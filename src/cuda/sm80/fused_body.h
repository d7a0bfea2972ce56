/* See fused.h. The loop over k is that of gemm_mma_body.h; operands are gathered on the way into shared memory: a chunk
 * of 16 bytes has eight channels of one tap, what lies outside the image is zero. */
#ifndef RDT_CUDA_FUSED_BODY_H
#define RDT_CUDA_FUSED_BODY_H

#include "cuda/sm80/fused_finish.h"

/* Pixels as rows of A. */
template <class T, class Tile>
struct rdt_fused_pixels {
  static constexpr int chunks = Tile::BK / 8, step = Tile::threads / chunks, count = Tile::BM / step;
  static_assert(step % 8 == 0 && Tile::BM % step == 0, "rows of a thread are swizzled alike");
  const rdt_fused_args &p;
  int at[count], y0[count], x0[count]; /* of the window's first tap */
  int c, ty, tx;                       /* of the next stage */
  uint32_t to;

  __device__ __forceinline__ rdt_fused_pixels(const rdt_fused_args &args, int row0, int k0) : p(args) {
    const int r = (int)threadIdx.x / chunks, chunk = (int)threadIdx.x % chunks;
    to = 16u * (uint32_t)rdt_place<T, 0, chunks>(r, chunk);
    c = k0 + 8 * chunk, ty = tx = 0;
    if (c >= p.channels) {
      const int tap = c / p.channels;
      c -= tap * p.channels, ty = tap / p.axis[1].taps, tx = tap - ty * p.axis[1].taps;
    }
#pragma unroll
    for (int i = 0; i < count; i++) {
      const int row = row0 + r + i * step;
      at[i] = row * (int)p.pixel, y0[i] = x0[i] = 0;
      if (!p.plain) {
        const int line = row / p.axis[1].out, image = line / p.axis[0].out;
        y0[i] = (line - image * p.axis[0].out) * p.axis[0].stride - p.axis[0].pad;
        x0[i] = (row - line * p.axis[1].out) * p.axis[1].stride - p.axis[1].pad;
        at[i] = image * (int)p.image + y0[i] * (int)p.line + x0[i] * (int)p.pixel;
      }
      if (row >= p.m) y0[i] = INT32_MIN / 2;
    }
  }

  __device__ __forceinline__ void copy(uint32_t stage) {
    const int dy = ty * p.axis[0].dilation, dx = tx * p.axis[1].dilation;
    const int shift = dy * (int)p.line + dx * (int)p.pixel + c;
#pragma unroll
    for (int i = 0; i < count; i++) {
      const bool there = (unsigned)(y0[i] + dy) < (unsigned)p.axis[0].in && ty < p.axis[0].taps &&
                         (unsigned)(x0[i] + dx) < (unsigned)p.axis[1].in;
      rdt_copy16(stage + to + i * (step * chunks * 16), (const uint16_t *)p.x + (there ? at[i] + shift : 0),
                 there ? 16 : 0);
    }
    c += Tile::BK;
    while (c >= p.channels) {
      c -= p.channels;
      if (++tx == p.axis[1].taps) tx = 0, ty++;
    }
  }
};

template <class T, class Tile>
struct rdt_fused_filters {
  static constexpr int chunks = Tile::BN / 8, step = Tile::threads / chunks, count = Tile::BK / step;
  static_assert(step % 8 == 0 && Tile::BK % step == 0, "rows of a thread are swizzled alike");
  const char *next;
  int64_t below, ahead;
  int left; /* of k, from the thread's first row on */
  uint32_t to;

  __device__ __forceinline__ rdt_fused_filters(const rdt_fused_args &p, int k0, int k1, int column0) {
    const int r = (int)threadIdx.x / chunks, chunk = (int)threadIdx.x % chunks, column = column0 + 8 * chunk;
    next = (const char *)p.w + 2 * ((int64_t)(k0 + r) * p.n + column);
    below = 2 * (int64_t)step * p.n, ahead = 2 * (int64_t)Tile::BK * p.n;
    left = column < p.n ? k1 - k0 - r : 0;
    to = 16u * (uint32_t)rdt_place<T, 1, chunks>(r, chunk);
  }
  __device__ __forceinline__ void copy(uint32_t stage) {
#pragma unroll
    for (int i = 0; i < count; i++) {
      const bool there = left > i * step;
      rdt_copy16(stage + to + i * (step * chunks * 16), next + (there ? i * below : 0), there ? 16 : 0);
    }
    next += ahead, left -= Tile::BK;
    if (left <= 0) next -= ahead; /* an address that is there, of which nothing is read */
  }
};

/* ---- a block ---- */

template <class T, class Tile, bool curves>
RDT_DEVICE void rdt_fused(const rdt_fused_args &p) {
  extern __shared__ __align__(128) unsigned char memory[];
  const uint32_t shared = rdt_shared(memory);
  const int warp = threadIdx.x / 32, row = warp % Tile::rows, column = warp / Tile::rows % Tile::columns;
  const int part = warp / (Tile::rows * Tile::columns), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int k0 = (int)blockIdx.z * p.k_split, k1 = min(p.k, k0 + p.k_split);
  const int rounds = (k1 - k0 + Tile::BK - 1) / Tile::BK;
  rdt_fused_filters<T, Tile> filters(p, k0, k1, (int)blockIdx.x * Tile::BN);
#pragma unroll 1
  for (int s = 0; s < min(Tile::stages - 1, rounds); s++)
    filters.copy(shared + (uint32_t)(s * Tile::stage_bytes + Tile::a_bytes)); /* weights depend on nobody */
  rdt_fused_pixels<T, Tile> pixels(p, (int)blockIdx.y * Tile::BM, k0);
  rdt_chain_wait();
#pragma unroll 1
  for (int s = 0; s < Tile::stages - 1; s++) {
    if (s < rounds) pixels.copy(shared + (uint32_t)(s * Tile::stage_bytes));
    rdt_copy_commit();
  }
  float c[Tile::MT][Tile::NT][4] = {};
  const rdt_places<T, Tile, rdt_shuffles<Tile, RDT_MMA_NONE>()> places(row, column, part);
  for (int round = 0; round < rounds; round++) {
    rdt_copy_wait<Tile::stages - 2>();
    __syncthreads();
    const int ahead = round + Tile::stages - 1;
    if (ahead < rounds) {
      const uint32_t to = shared + (uint32_t)(ahead % Tile::stages) * Tile::stage_bytes;
      pixels.copy(to);
      filters.copy(to + Tile::a_bytes);
    }
    rdt_copy_commit();
    const uint32_t stage = shared + (uint32_t)(round % Tile::stages) * Tile::stage_bytes;
#pragma unroll
    for (int s = 0; s < Tile::steps; s++) {
      rdt_fragments<T, Tile> f;
      places.load(f, stage, s);
#pragma unroll
      for (int i = 0; i < Tile::MT; i++)
#pragma unroll
        for (int j = 0; j < Tile::NT; j++) T::mma(c[i][j], f.a[i], f.b[j]);
    }
  }
  rdt_copy_wait<0>();
  __syncthreads();
  rdt_chain_next();
  float *sums = (float *)memory;
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      T::put(sums + (part * Tile::BM + row * Tile::WM + 16 * i + 8 * half + g) * Tile::pitch + column * Tile::WN, c[i],
             half, t);
  __syncthreads();
  rdt_fused_store<T, Tile, curves>(p, shared);
}

#endif
