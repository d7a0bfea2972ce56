/* What fused kernels do behind the product, whose sums stand in shared memory: act(alpha x + bias + beta residual),
 * stored by one thread, evaluated again by a thread of another warp, which forms the bit-sum of what should be there.
 */
#ifndef RDT_CUDA_FUSED_FINISH_H
#define RDT_CUDA_FUSED_FINISH_H

#include "cuda/box/finish.h"
#include "cuda/ptx/chain.h"
#include "cuda/sm80/fused.h"
#include "cuda/sm80/gemm_mma_body.h"

template <class T>
struct rdt_fused_format;
/* above: the bound, twice in a word, where a number is below; relu: zero there; NaN stays. least: a bound below all. */
#define RDT_FUSED_FORMAT(T, FORMAT, NAME, LEAST)                                   \
  template <>                                                                      \
  struct rdt_fused_format<T> {                                                     \
    typedef FORMAT type;                                                           \
    static __device__ __forceinline__ uint32_t relu(uint32_t x) {                  \
      return above(x, 0u);                                                         \
    }                                                                              \
    static constexpr uint32_t least = LEAST;                                       \
    static __device__ __forceinline__ uint32_t above(uint32_t x, uint32_t bound) { \
      uint32_t y;                                                                  \
      asm("max.NaN." NAME " %0, %1, %2;" : "=r"(y) : "r"(x), "r"(bound));          \
      return y;                                                                    \
    }                                                                              \
  };
RDT_FUSED_FORMAT(rdt_type_f16, rdt_f16, "f16x2", 0xfc00fc00u)
RDT_FUSED_FORMAT(rdt_type_bf16, rdt_bf16, "bf16x2", 0xff80ff80u)
#undef RDT_FUSED_FORMAT

RDT_DEVICE uint4 rdt_load_eight(const void *from, int64_t at) { /* not merged with another one of the same */
  uint4 x;
  asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"((const uint16_t *)from + at)
               : "memory");
  return x;
}

/* Eight neighbours: what all warps and blocks have summed. */
/* Columns of a tile that blocks leave for each other: more than its own where a check is among them. */
template <class Tile>
struct rdt_fused_width {
  static constexpr int value = Tile::BN;
};

template <class Tile>
RDT_DEVICE void rdt_fused_total(const rdt_fused_args &p, uint32_t sums, const float *partial, int64_t tiles, int r,
                                int column, float (&v)[8]) {
  float four[4];
#pragma unroll
  for (int h = 0; h < 2; h++) {
#pragma unroll
    for (int w = 0; w < Tile::WK; w++) {
      rdt_load_shared(four, sums + 4u * (uint32_t)((w * Tile::BM + r) * Tile::pitch + column + 4 * h));
#pragma unroll
      for (int i = 0; i < 4; i++) v[4 * h + i] = w ? rdt_add(v[4 * h + i], four[i]) : four[i];
    }
  }
  if (!partial) return;
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = 0.0f;
  for (int s = 0; s < p.splits; s++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      rdt_load_l2(four, partial + s * tiles + r * rdt_fused_width<Tile>::value + column + 4 * h);
#pragma unroll
      for (int i = 0; i < 4; i++) v[4 * h + i] = s ? rdt_add(v[4 * h + i], four[i]) : four[i];
    }
}

template <class T, bool curves>
RDT_DEVICE uint4 rdt_fused_finish(const rdt_fused_args &p, const float (&v)[8], const float (&bias)[8],
                                  const uint4 &residual) {
  typedef typename rdt_fused_format<T>::type format;
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; i++) x[i] = v[i];
  if (p.alpha != 1.0f) {
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = rdt_mul(p.alpha, x[i]);
  }
#pragma unroll
  for (int i = 0; i < 8; i++) x[i] = rdt_add(x[i], bias[i]); /* 0 where there is none */
  if (p.residual) {
    const uint32_t r[4] = {residual.x, residual.y, residual.z, residual.w};
    float more[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float2 two = format::wide(r[i]);
      more[2 * i] = two.x, more[2 * i + 1] = two.y;
    }
    if (p.beta != 1.0f) {
#pragma unroll
      for (int i = 0; i < 8; i++) more[i] = rdt_mul(p.beta, more[i]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = rdt_add(x[i], more[i]);
  }
  const bool relu = p.finish.act == rdt_box_RELU;
  if (!relu && p.finish.act != rdt_box_NONE) rdt_box_act<curves, 8, float, true>(p.finish, x);
  uint32_t y[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    y[i] = format::narrow(x[2 * i], x[2 * i + 1]);
    if (relu) y[i] = rdt_fused_format<T>::relu(y[i]);
  }
  return make_uint4(y[0], y[1], y[2], y[3]);
}

/* A bit-sum as it grows (check/bitsum.h): of words, and of words times their numbers. */
struct rdt_fused_bits {
  uint64_t words, placed;
  __device__ __forceinline__ void add(const uint4 &x, uint32_t number) {
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) words += w[i], placed += (uint64_t)w[i] * (number + i);
  }
  __device__ __forceinline__ uint64_t sum() const {
    return words + placed * 0x3c6ef37200000002u;
  }
};

/* What the threads have summed, to one place. */
template <class Tile>
RDT_DEVICE void rdt_fused_leave(uint64_t x, uint64_t *to) {
  __shared__ uint64_t warps[Tile::threads / 32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < Tile::threads / 32; w++) x += warps[w];
  *to = x;
}

/* Leaves what this block has summed; is it the last of those that share the tile? */
template <class Tile>
static __device__ __noinline__ bool rdt_fused_share(const rdt_fused_args &p, uint32_t sums, float *mine,
                                                    unsigned tile) {
  constexpr int width = rdt_fused_width<Tile>::value;
#pragma unroll 1
  for (int at = threadIdx.x; at < Tile::BM * width / 8; at += Tile::threads) {
    const int r = 8 * at / width, c = 8 * at % width;
    float v[8];
    rdt_fused_total<Tile>(p, sums, NULL, 0, r, c, v);
    rdt_store_four(mine + 8 * at, v[0], v[1], v[2], v[3]);
    rdt_store_four(mine + 8 * at + 4, v[4], v[5], v[6], v[7]);
  }
  return rdt_last(p.tickets + tile, (unsigned)p.splits);
}

/* Each group of eight neighbours twice: what is stored, and by a thread of another warp what should be. */
template <class T, class Tile, bool curves>
RDT_DEVICE void rdt_fused_store(const rdt_fused_args &p, uint32_t sums) {
  constexpr int groups = Tile::BM * Tile::BN / 8, turns = groups / Tile::threads, lanes = Tile::BN / 8;
  constexpr int together = curves ? 1 : turns < 4 ? turns : 4, half = Tile::threads / 2; /* curves are long code */
  static_assert(groups % Tile::threads == 0 && turns % together == 0 && half % lanes == 0 && lanes <= 32,
                "whole turns");
  const int m0 = (int)blockIdx.y * Tile::BM;
  const int c = 8 * (int)threadIdx.x % Tile::BN, column = (int)blockIdx.x * Tile::BN + c; /* of both, in all turns */
  const unsigned tile = blockIdx.y * gridDim.x + blockIdx.x;
  constexpr int each = Tile::BM * rdt_fused_width<Tile>::value; /* of a tile */
  const int64_t tiles = (int64_t)gridDim.x * gridDim.y * each;
  const float *partial = NULL;
  const bool inside = column < p.n, twice = p.bits != NULL;
  const unsigned signs = rdt_box_signs((unsigned)column >> 5) >> (column & 31);
  float bias[2][8], sign[8];
  rdt_fused_bits bits = {0, 0}, read = {0, 0};
#pragma unroll
  for (int j = 0; j < 8; j++) bias[0][j] = bias[1][j] = 0.0f, sign[j] = signs >> j & 1u ? -1.0f : 1.0f;
  if (p.bias && inside) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const uint4 x = rdt_load_eight(p.bias, column);
      const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const float2 two = rdt_fused_format<T>::type::wide(w[j]);
        bias[e][2 * j] = two.x, bias[e][2 * j + 1] = two.y;
      }
    }
  }
  if (p.splits > 1) {
    float *base = p.partial + (int64_t)tile * each;
    if (!rdt_fused_share<Tile>(p, sums, base + blockIdx.z * tiles, tile)) return;
    partial = base;
  }
#pragma unroll 1
  for (int first = 0; first < turns; first += together) {
    uint4 residual[together][2];
#pragma unroll
    for (int i = 0; i < together; i++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int g = (first + i) * Tile::threads + ((int)threadIdx.x ^ (e ? half : 0)), row = m0 + g / lanes;
        residual[i][e] = make_uint4(0, 0, 0, 0);
        if (p.residual && inside && row < p.m && (!e || twice))
          residual[i][e] = rdt_load_eight(p.residual, row * p.ldr + column);
      }
#pragma unroll
    for (int i = 0; i < together; i++)
#pragma unroll(curves ? 1 : 2)
      for (int e = 0; e < 2; e++) {
        const int g = (first + i) * Tile::threads + ((int)threadIdx.x ^ (e ? half : 0)), r = g / lanes, row = m0 + r;
        const uint4 rest = e ? residual[i][1] : residual[i][0];
        float v[8], own[8]; /* own: bias */
        if (e && !twice) break;
#pragma unroll
        for (int j = 0; j < 8; j++) own[j] = e ? bias[1][j] : bias[0][j];
        rdt_fused_total<Tile>(p, sums, partial, tiles, r, c, v);
        if (!e && p.sums) {
          float s = 0.0f, s2 = 0.0f;
#pragma unroll
          for (int j = 0; j < 8; j++) s = fmaf(sign[j], v[j], s), s2 = fmaf(v[j], v[j], s2);
#pragma unroll
          for (int d = 1; d < lanes; d *= 2) {
            s += __shfl_xor_sync(0xffffffffu, s, d);
            s2 += __shfl_xor_sync(0xffffffffu, s2, d);
          }
          if (threadIdx.x % lanes == 0 && row < p.m)
            rdt_store_pair(p.sums + 2 * ((int64_t)blockIdx.x * p.m + row), s, s2);
        }
        if (!inside || row >= p.m) continue;
        const uint4 y = rdt_fused_finish<T, curves>(p, v, own, rest);
        const int64_t at = row * p.ldo + column;
        if (e) {
          bits.add(y, (uint32_t)(at / 2));
          if (p.read) read.add(rest, (uint32_t)((row * p.ldr + column) / 2));
        } else {
          *(uint4 *)((uint16_t *)p.out + at) = y;
        }
      }
  }
  if (!twice) return;
  rdt_fused_leave<Tile>(bits.sum(), p.bits + tile);
  if (p.read) rdt_fused_leave<Tile>(read.sum(), p.read + tile);
}

#endif
