/* Products and convolutions of 8-bit integers on tensor cores (bytes_body.h says what they are): a block has 64 pixels
 * by 64 channels, and takes 64 terms of the sums at a time through shared memory. Sums are exact modulo 2^32, so their
 * order is free: x w - zero x - zero w + ..., from sums of x and of w that are formed as they are loaded. Unsigned ones
 * are taken as signed ones that are 128 less, as is their zero: one piece of code for all. */
#ifndef RDT_CUDA_OPS_BYTES_H
#define RDT_CUDA_OPS_BYTES_H

#include "cuda/ops/tiles.h"

enum { RDT_BYTES_PITCH = RDT_OP_BYTES_TILE + 16, RDT_BYTES_STAGE = RDT_OP_BYTES_TILE + 1 };

struct rdt_bytes_room {
  union {
    struct {
      uint8_t x[RDT_OP_BYTES_TILE][RDT_BYTES_PITCH], w[RDT_OP_BYTES_TILE][RDT_BYTES_PITCH];
    } in;
    uint32_t out[RDT_OP_BYTES_TILE][RDT_BYTES_STAGE]; /* numbers, or bytes that lie side by side */
  };
  int32_t of_x[RDT_OP_BYTES_TILE], of_w[RDT_OP_BYTES_TILE]; /* sums */
};

/* Which terms a chunk has: with all channels side by side those of one tap, 16 at a time; else taps of channels. */
struct rdt_bytes_place {
  int k, channel, line, column; /* k: of all terms; the place of the first in the window */
};

template <bool PACKS>
struct rdt_bytes_loader {
  const rdt_gpu_op &a;
  const int64_t *xs, *ws;
  const uint8_t *x, *w; /* of this thread's pixel, and filter; NULL: beyond the last */
  int line, column;     /* of the pixel's first tap */
  int part, taps, terms, channels;
  uint32_t fill, turn_x, turn_w; /* turn: the upper bits of bytes that are unsigned */
  bool vectors;                  /* w's channels too come by 16 */

  __device__ __forceinline__ rdt_bytes_loader(const rdt_gpu_op &op, uint32_t t, uint32_t pixel, uint32_t filter)
      : a(op), xs(op.view[1].stride), ws(op.view[2].stride) {
    const uint32_t at = pixel / a.length[2], image = at / a.length[1];
    part = (int)(t % 4) * 16;
    channels = (int)a.bound[0];
    taps = a.window[0].kernel * a.window[1].kernel;
    terms = channels * taps;
    line = (int)(at - image * a.length[1]) * a.window[0].stride - a.window[0].before;
    column = (int)(pixel - at * a.length[2]) * a.window[1].stride - a.window[1].before;
    x = image < a.length[0] ? (const uint8_t *)a.view[1].data + image * xs[0] : NULL;
    w = filter < a.length[3] ? (const uint8_t *)a.view[2].data + filter * ws[0] : NULL;
    turn_x = a.view[1].dtype == RDT_U8 ? 0x80808080u : 0, turn_w = a.view[2].dtype == RDT_U8 ? 0x80808080u : 0;
    fill = (uint32_t)(a.zero[0] & 0xff) * 0x01010101u;
    vectors = PACKS && a.mode;
  }
  __device__ __forceinline__ rdt_bytes_place begin() const {
    rdt_bytes_place p = {0, 0, 0, 0};
    if (!PACKS) seek(p, part);
    return p;
  }
  __device__ __forceinline__ void seek(rdt_bytes_place &p, int k) const {
    p.k = k, p.channel = k / taps;
    const int tap = k - p.channel * taps;
    p.line = tap / a.window[1].kernel, p.column = tap - p.line * a.window[1].kernel;
  }
  __device__ __forceinline__ void next(rdt_bytes_place &p) const {
    if (!PACKS) {
      seek(p, p.k + RDT_OP_BYTES_TILE);
      return;
    }
    p.channel += RDT_OP_BYTES_TILE;
    if (p.channel < channels) return;
    p.channel = 0;
    if (++p.column == a.window[1].kernel) p.column = 0, p.line++;
  }
  __device__ __forceinline__ bool inside(int y, int z) const {
    return (unsigned)y < (unsigned)a.window[0].length && (unsigned)z < (unsigned)a.window[1].length;
  }
  static __device__ __forceinline__ void turn(uint4 &v, uint32_t by) {
    v.x ^= by, v.y ^= by, v.z ^= by, v.w ^= by;
  }
  /* What counts as none, of signed bytes. */
  __device__ __forceinline__ uint32_t zero(int side) const {
    return (uint32_t)a.zero[side] - ((side ? turn_w : turn_x) & 0x80u);
  }
  /* 16 terms from the place on, of both sides; 0 beyond the last */
  __device__ __forceinline__ void load(rdt_bytes_place p, uint4 &xv, uint4 &wv) const {
    xv = wv = make_uint4(0, 0, 0, 0);
    if (PACKS) {
      const int c = p.channel + part;
      if (c >= channels) return;
      const int y = line + p.line * a.window[0].dilation, z = column + p.column * a.window[1].dilation;
      if (x) xv = inside(y, z) ? *(const uint4 *)(x + y * xs[2] + z * xs[3] + c) : make_uint4(fill, fill, fill, fill);
      const uint8_t *const by = w + p.line * ws[2] + p.column * ws[3] + c * ws[1];
      if (w && vectors)
        wv = *(const uint4 *)by;
      else if (w)
        gather(by, ws[1], wv);
      turn(xv, turn_x), turn(wv, turn_w);
      return;
    }
    uint32_t xw[4] = {0, 0, 0, 0}, ww[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 16; i++) {
      if (p.k + i >= terms) break;
      const int y = line + p.line * a.window[0].dilation, z = column + p.column * a.window[1].dilation;
      uint32_t xb = 0, wb = 0;
      if (x) xb = inside(y, z) ? x[p.channel * xs[1] + y * xs[2] + z * xs[3]] : fill & 0xffu;
      if (w) wb = w[p.channel * ws[1] + p.line * ws[2] + p.column * ws[3]];
      xw[i / 4] |= (xb ^ (turn_x & 0x80u)) << i % 4 * 8, ww[i / 4] |= (wb ^ (turn_w & 0x80u)) << i % 4 * 8;
      if (++p.column < a.window[1].kernel) continue;
      p.column = 0;
      if (++p.line == a.window[0].kernel) p.line = 0, p.channel++;
    }
    xv = make_uint4(xw[0], xw[1], xw[2], xw[3]), wv = make_uint4(ww[0], ww[1], ww[2], ww[3]);
  }
  static __device__ __forceinline__ void gather(const uint8_t *from, int64_t step, uint4 &v) {
    uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 16; i++) words[i / 4] |= (uint32_t)from[i * step] << i % 4 * 8;
    v = make_uint4(words[0], words[1], words[2], words[3]);
  }
};

RDT_DEVICE int32_t rdt_bytes_sum(const uint4 &v, int32_t sum) {
  sum = __dp4a((int)v.x, 0x01010101, sum), sum = __dp4a((int)v.y, 0x01010101, sum);
  return __dp4a((int)v.w, 0x01010101, __dp4a((int)v.z, 0x01010101, sum));
}

RDT_DEVICE uint32_t rdt_bytes_word(const uint8_t *p) {
  return *(const uint32_t *)p;
}

/* A word of the result, its bytes from `at` on. */
RDT_DEVICE void rdt_bytes_take(const rdt_gpu_op &a, rdt_op_found &f, int64_t at, uint32_t w) {
  uint32_t *const to = (uint32_t *)((char *)a.view[0].data + at);
  if (f.form == RDT_OP_STORES) {
    *to = w;
    return;
  }
  const uint32_t is = f.form == RDT_OP_AGAIN ? w : *to;
  f.sum += rdt_op_share(is, (uint64_t)((const char *)to - (const char *)a.base) / 4);
  if (is == w) return;
  if (f.differ == 0) f.first = (uint32_t)(at / a.view[0].bytes);
  f.differ++;
}

template <bool PACKS>
RDT_DEVICE void rdt_bytes_of(const rdt_gpu_op &a, rdt_op_found &f, rdt_bytes_room &room) {
  const uint32_t channels = a.length[3], across = (channels + RDT_OP_BYTES_TILE - 1) / RDT_OP_BYTES_TILE;
  const uint32_t block = rdt_tile_block(a), first_o = block % across * RDT_OP_BYTES_TILE;
  const uint32_t first_p = block / across * RDT_OP_BYTES_TILE, pixels = a.length[0] * a.length[1] * a.length[2];
  const int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4;
  for (int pass = 0; pass < rdt_tile_passes(a); pass++) {
    const uint32_t t = rdt_tile_begin(a, f, pass), warp = t / 32, row = t / 4;
    const rdt_bytes_loader<PACKS> from(a, t, first_p + row, first_o + row);
    const int chunks = PACKS ? from.taps * ((from.channels + RDT_OP_BYTES_TILE - 1) / RDT_OP_BYTES_TILE)
                             : (from.terms + RDT_OP_BYTES_TILE - 1) / RDT_OP_BYTES_TILE;
    const int m = (int)(warp % 4) * 16, n = (int)(warp / 4) * 32;
    int acc[4][4] = {}, of_x = 0, of_w = 0;
    rdt_bytes_place place = from.begin();
    uint4 x, w;
    from.load(place, x, w);
    for (int chunk = 0; chunk < chunks; chunk++) {
      __syncthreads();
      *(uint4 *)&room.in.x[row][from.part] = x;
      *(uint4 *)&room.in.w[row][from.part] = w;
      of_x = rdt_bytes_sum(x, of_x), of_w = rdt_bytes_sum(w, of_w);
      __syncthreads();
      if (chunk + 1 < chunks) {
        from.next(place);
        from.load(place, x, w);
      }
#pragma unroll
      for (int k = 4 * q; k < RDT_OP_BYTES_TILE; k += 32) {
        const uint32_t left[4] = {rdt_bytes_word(&room.in.x[m + g][k]), rdt_bytes_word(&room.in.x[m + g + 8][k]),
                                  rdt_bytes_word(&room.in.x[m + g][k + 16]),
                                  rdt_bytes_word(&room.in.x[m + g + 8][k + 16])};
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const uint8_t *const by = &room.in.w[n + 8 * j + g][k];
          const uint32_t right[2] = {rdt_bytes_word(by), rdt_bytes_word(by + 16)};
          rdt_mma_s8s8(acc[j], left, right);
        }
      }
    }
    of_x += __shfl_xor_sync(0xffffffffu, of_x, 1), of_w += __shfl_xor_sync(0xffffffffu, of_w, 1);
    of_x += __shfl_xor_sync(0xffffffffu, of_x, 2), of_w += __shfl_xor_sync(0xffffffffu, of_w, 2);
    if (q == 0) room.of_x[row] = of_x, room.of_w[row] = of_w;
    __syncthreads();
    const uint32_t zx = from.zero(0), zw = from.zero(1), all = (uint32_t)from.terms * zx * zw;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int r = m + g + i / 2 * 8, c = n + 8 * j + 2 * q + i % 2;
        const uint32_t raw = (uint32_t)acc[j][i] - zx * (uint32_t)room.of_w[c] - zw * (uint32_t)room.of_x[r] + all;
        const uint32_t y =
            first_o + (uint32_t)c < channels ? rdt_op_bytes_end(&a, (int32_t)raw, first_o + (uint32_t)c) : 0;
        if (a.view[0].bytes == 1)
          ((uint8_t *)room.out[r])[c] = (uint8_t)y;
        else
          room.out[r][c] = y;
      }
    __syncthreads();
    const uint32_t words = RDT_OP_BYTES_TILE / 4 * (uint32_t)a.view[0].bytes, each = 4 / (uint32_t)a.view[0].bytes;
    for (uint32_t i = t; i < words * RDT_OP_BYTES_TILE; i += RDT_OP_THREADS) {
      const uint32_t r = i / words, c = (i - r * words) * each;
      if (first_p + r < pixels && first_o + c < channels)
        rdt_bytes_take(a, f, ((int64_t)(first_p + r) * channels + first_o + c) * a.view[0].bytes,
                       room.out[r][i - r * words]);
    }
    __syncthreads();
  }
}

RDT_DEVICE void rdt_tile_bytes(const rdt_gpu_op &a, rdt_op_found &f) {
  __shared__ __align__(16) rdt_bytes_room room;
  if (a.each > 1)
    rdt_bytes_of<true>(a, f, room);
  else
    rdt_bytes_of<false>(a, f, room);
}

#endif
