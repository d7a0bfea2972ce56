/* See mlp_wgmma.h. Neurons are the rows of instructions, rows of x their columns: a warpgroup has 64 neurons, and a
 * thread two of their biases for all rows. One warp has weights copied into a ring, before the launch ahead has ended;
 * what follows from sums goes, turned, where the next layer reads it, with one meeting a layer.
 *
 * Checked: each warp forms the bit-sum of its results of a tile, while the next tile is multiplied. The first block of
 * a cluster sends its sums to the second one, which compares them with its own at the end: a finding names the first
 * layer whose bits differ, its neurons and rows. The first block stores the result, the second one forms the bit-sum of
 * what should be stored. */
#ifndef RDT_CUDA_SM90_MLP_WGMMA_BODY_H
#define RDT_CUDA_SM90_MLP_WGMMA_BODY_H

#include "cuda/fast.h"
#include "cuda/ptx/bulk.h"
#include "cuda/ptx/chain.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/ptx/total.h"
#include "cuda/ptx/turned.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/sm90/mlp_parts.h"
#include "cuda/sm90/mlp_wgmma.h"

/* Two numbers, no less than low and no more than high; NaN stays. */
RDT_DEVICE uint32_t rdt_mlpw_limit(rdt_f16, uint32_t x, uint32_t low, uint32_t high) {
  asm("max.NaN.f16x2 %0, %0, %1; min.NaN.f16x2 %0, %0, %2;" : "+r"(x) : "r"(low), "r"(high));
  return x;
}
RDT_DEVICE uint32_t rdt_mlpw_limit(rdt_bf16, uint32_t x, uint32_t low, uint32_t high) {
  asm("max.NaN.bf16x2 %0, %0, %1; min.NaN.bf16x2 %0, %0, %2;" : "+r"(x) : "r"(low), "r"(high));
  return x;
}

template <class T, int R, bool check, class Hit>
struct rdt_mlpw_block {
  typedef typename rdt_mlp_format<T>::type format;
  static constexpr int warps = 4 * RDT_MLPW_GROUPS, chunk = 128 * R; /* bytes of 64 of k of all rows */
  const rdt_mlpw_args &p;
  Hit &hit; /* as it is shipped, nothing */
  uint32_t base;
  int warp, lane, rank, row0;

  struct layer {
    int number, chunks, tiles, act;
    float p, q;
    bool last;
  };
  struct place { /* of a piece in the ring */
    int slot;
    uint32_t turn; /* how often it has come around, modulo 2 */
  };
  struct results { /* of a tile, as they are stored: of which nothing has been said */
    uint32_t word[R / 4];
    int tile; /* of all layers; -1: none */
  };

  __device__ __forceinline__ uint32_t rest(int at) const {
    return base + (uint32_t)(p.rest + at);
  }
  __device__ __forceinline__ uint32_t full(int slot) const {
    return rest(RDT_MLPW_FULL + 8 * slot);
  }
  __device__ __forceinline__ uint32_t empty(int slot) const {
    return rest(RDT_MLPW_FULL + 8 * (p.slots + slot));
  }
  __device__ __forceinline__ uint32_t said(int block, int entry) const {
    return base + (uint32_t)(p.said + 8 * (4 * p.tiles * block + entry));
  }
  __device__ __forceinline__ place on(place x, int pieces) const { /* no more of them than slots */
    x.slot += pieces;
    if (x.slot >= p.slots) x.slot -= p.slots, x.turn ^= 1;
    return x;
  }
  __device__ __forceinline__ layer known(int i) const {
    uint32_t w[4];
    rdt_load_shared(w, rest(16 * i));
    return {i,
            (int)(w[0] & 0xffffu),
            (int)(w[0] >> 16),
            (int)w[1],
            __uint_as_float(w[2]),
            __uint_as_float(w[3]),
            i + 1 == p.layers};
  }

  /* ---- weights, by one thread ---- */

  __device__ __forceinline__ void begin() const {
    rdt_mbarrier_init(rest(RDT_MLPW_TOLD), 1), rdt_mbarrier_init(rest(RDT_MLPW_BIASED), 1);
#pragma unroll 1
    for (int i = 0; i < p.slots; i++) rdt_mbarrier_init(full(i), 1), rdt_mbarrier_init(empty(i), 4);
    rdt_mbarrier_init_done();
    if (check && rank == 1) rdt_mbarrier_expect(rest(RDT_MLPW_TOLD), 32 * p.tiles);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(rest(RDT_MLPW_FIRST)), "r"(RDT_MLPW_LAYERS) : "memory");
    rdt_tma_fence();
  }
  __device__ __forceinline__ void bring() const {
    const char *from = p.copy[rank];
    const int biases = 4 * RDT_MLPW_TILE * p.tiles;
    place at = {0, 1};
    rdt_mbarrier_expect(rest(RDT_MLPW_BIASED), biases);
    rdt_bulk_load(base + (uint32_t)p.bias, from, (uint32_t)biases, rest(RDT_MLPW_BIASED));
    from += biases;
#pragma unroll 1
    for (int i = 0; i < p.pieces; i++, from += RDT_MLPW_PIECE, at = on(at, 1)) {
      if (i >= p.slots) rdt_mbarrier_wait(empty(at.slot), at.turn);
      rdt_mbarrier_expect(full(at.slot), RDT_MLPW_PIECE);
      rdt_bulk_load(base + (uint32_t)(RDT_MLPW_PIECE * at.slot), from, RDT_MLPW_PIECE, full(at.slot));
    }
  }

  /* ---- rows in shared memory: by 64 of k, 128 bytes each, swapped as wgmma has them ---- */

  static __device__ __forceinline__ uint32_t swapped(int row, int eight) { /* eight: of k */
    return (uint32_t)(eight / 8 * chunk + 128 * row + 16 * (eight % 8 ^ row % 8));
  }

  __device__ __forceinline__ void load() const { /* zeros behind the last row, and behind k */
    const uint32_t to = base + (uint32_t)p.inputs[0];
    const int chunks = (p.k + RDT_MLPW_TILE - 1) / RDT_MLPW_TILE;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < 8 * R * chunks; i += RDT_MLPW_THREADS) {
      const int row = i / 8 % R, eight = i / (8 * R) * 8 + i % 8, left = row0 + row < p.m ? p.k - 8 * eight : 0;
      const uint16_t *from = (const uint16_t *)p.x + (left > 0 ? (row0 + row) * p.ldx + 8 * eight : 0);
      if (p.vectors[0])
        rdt_copy16(to + swapped(row, eight), from, left > 0 ? 16 : 0);
      else
        rdt_store16_shared(to + swapped(row, eight), rdt_mlp_few(from, left));
    }
    rdt_copy_commit();
    rdt_copy_wait<0>();
  }

  /* To memory, by the first block; its bit-sum, by the second. */
  __device__ __forceinline__ void finish() const {
    const uint32_t from = base + (uint32_t)p.inputs[p.layers % 2];
    const bool store = !check || rank == 0;
    uint64_t sum = 0;
    if (!store && !p.sum) return;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < 8 * R * ((p.n + 63) / 64); i += RDT_MLPW_THREADS) {
      const int row = i / 8 % R, column = 8 * (i / (8 * R) * 8 + i % 8), count = min(8, p.n - column);
      const int64_t at = (row0 + row) * p.ldo + column;
      if (row0 + row >= p.m || count <= 0) continue;
      uint32_t w[4];
      rdt_load_shared(w, from + swapped(row, column / 8));
      if (p.vectors[1]) {
        const uint4 x = make_uint4(w[0], w[1], w[2], w[3]);
        if (store)
          *(uint4 *)((uint16_t *)p.out + at) = x;
        else
          sum += rdt_half_share(x, (uint64_t)at / 2);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 8; e++) {
        const uint32_t x = w[e / 2] >> (16 * (e % 2)) & 0xffffu;
        const uint64_t place = (uint64_t)(at + e); /* halves of words of the whole */
        if (e >= count) break;
        if (store)
          ((uint16_t *)p.out)[place] = (uint16_t)x;
        else
          sum += (uint64_t)(x << (16 * (place % 2))) * (place / 2 * 0x3c6ef37200000002u + 1u);
      }
    }
    if (store) return;
    sum = rdt_warp_total(sum);
    if (lane == 0) atomicAdd((unsigned long long *)p.sum, (unsigned long long)sum);
  }

  /* ---- a tile of a layer, by a warpgroup ---- */

  /* So many times 16 of k on: within the lower half, which is all that is added to between two instructions. */
  static __device__ __forceinline__ uint64_t along(uint64_t place, int steps) {
    return place >> 32 << 32 | (uint32_t)((uint32_t)place + 2u * (uint32_t)steps);
  }
  /* 64 neurons of all rows, from pieces that begin there. */
  __device__ __forceinline__ void multiply(const layer &l, int tile, place first, float (&c)[R / 2]) const {
    const uint32_t in = base + (uint32_t)p.inputs[l.number % 2];
    place at = first;
#pragma unroll 1
    for (int j = 0; j < l.chunks; j++, at = on(at, 1)) {
      const uint32_t piece = base + (uint32_t)(RDT_MLPW_PIECE * at.slot);
      rdt_mbarrier_wait(full(at.slot), at.turn);
      const uint64_t a = rdt_wgmma_place(piece, 16), b = rdt_wgmma_place(in + (uint32_t)(chunk * j), 16);
      rdt_wgmma_begin();
#pragma unroll
      for (int s = 0; s < 4; s++) rdt_wgmma<format, R, 0, 0>::step(c, along(a, s), along(b, s), s > 0 ? 1 : j);
    }
    rdt_wgmma_commit();
  }

  /* What follows a sum, of two rows of a neuron. */
  __device__ __forceinline__ void follow(const layer &l, const float (&c)[R / 2], const float (&bias)[2],
                                         results &r) const {
    if (l.act == rdt_box_NONE) { /* limits of what is rounded are rounded limits */
      const uint32_t low = format::narrow(l.p, l.p), high = format::narrow(l.q, l.q);
#pragma unroll
      for (int i = 0; i < R / 4; i++)
        r.word[i] = rdt_mlpw_limit(
            format(), format::narrow(rdt_add(c[2 * i], bias[i % 2]), rdt_add(c[2 * i + 1], bias[i % 2])), low, high);
    } else {
#pragma unroll
      for (int i = 0; i < R / 4; i++) {
        const float2 x = make_float2(rdt_add(c[2 * i], bias[i % 2]), rdt_add(c[2 * i + 1], bias[i % 2])),
                     y = rdt_mlp_curve(x, l.act, l.p, l.q);
        r.word[i] = format::narrow(y.x, y.y);
      }
    }
  }

  /* To where the next layer reads it: neurons are its k. */
  __device__ __forceinline__ void put(const layer &l, int tile, const uint32_t (&word)[R / 4]) const {
    const uint32_t to = base + (uint32_t)p.inputs[(l.number + 1) % 2];
    const int row = lane % 8 + lane / 16 * 8, eight = 8 * tile + warp % 4 * 2 + lane / 8 % 2;
#pragma unroll
    for (int i = 0; i < R / 16; i++)
      rdt_stmatrix4_turned(to + swapped(row, eight) + (uint32_t)(2048 * i), word[4 * i], word[4 * i + 1],
                           word[4 * i + 2], word[4 * i + 3]);
  }

  /* The bit-sum of a warp's results (check/bitsum.h), whose words are numbered 32 by 32. */
  __device__ __forceinline__ void say(results &r) const {
    if constexpr (check) {
      uint64_t plain = 0, placed = 0;
      if (r.tile < 0) return;
#pragma unroll
      for (uint32_t i = 0; i < R / 4; i++) plain += r.word[i], placed += (uint64_t)r.word[i] * (32u * i);
      uint64_t sum = rdt_warp_total(plain * ((uint32_t)lane * 0x3c6ef37200000002u + 1u) + placed * 0x3c6ef37200000002u);
      if constexpr (Hit::on) hit.says(r.tile, sum);
      const int entry = 4 * r.tile + warp % 4;
      const uint2 x = make_uint2((uint32_t)sum, (uint32_t)(sum >> 32));
      r.tile = -1;
      if (lane != 0) return;
      if (rank == 0)
        rdt_mlp_send(rdt_mlp_there(said(0, entry), 1), x, rdt_mlp_there(rest(RDT_MLPW_TOLD), 1));
      else
        rdt_mlp_store2(said(1, entry), __uint_as_float(x.x), __uint_as_float(x.y));
    }
  }

  /* before: tiles of the layers before. */
  __device__ __forceinline__ void compute(const layer &l, int tile, int before, place first, results &r) const {
    float c[R / 2], bias[2];
    if constexpr (Hit::on)
#pragma unroll 1
      for (int j = 0; j < l.chunks; j++) {
        const int slot = on(first, j).slot;
        rdt_mbarrier_wait(full(slot), on(first, j).turn);
        hit.weight(l.number, tile, j, base + (uint32_t)(RDT_MLPW_PIECE * slot));
      }
    multiply(l, tile, first, c);
    say(r);
#pragma unroll
    for (uint32_t h = 0; h < 2; h++)
      bias[h] = __uint_as_float(rdt_load4_shared(
          base + (uint32_t)p.bias + 4u * (uint32_t)(64 * (before + tile) + warp % 4 * 16 + lane / 4) + 32u * h));
    rdt_wgmma_wait<0>();
    rdt_wgmma_keep(c);
    if (lane < l.chunks) rdt_mbarrier_arrive_here(empty(on(first, lane).slot));
    if constexpr (Hit::on) hit.sums(l.number, tile, c);
    follow(l, c, bias, r);
    r.tile = before + tile;
    if constexpr (Hit::on) hit.taken(l.number, tile, r.word);
    if constexpr (Hit::on) {
      uint32_t word[R / 4];
#pragma unroll
      for (int i = 0; i < R / 4; i++) word[i] = r.word[i];
      hit.stored(l.number, tile, word);
      put(l, tile, word);
    } else {
      put(l, tile, r.word);
    }
  }

  /* ---- all ---- */

  /* Are both blocks' bits the same? By a thread each warp of a tile; of those that differ, the first layer's complain.
   */
  __device__ __forceinline__ void compare() const {
    const int entry = (int)threadIdx.x;
    int i = 0, tile = entry / 4;
    bool differ = false;
    uint2 theirs, ours;
    if (entry < 4 * p.tiles) {
      rdt_mbarrier_wait(rest(RDT_MLPW_TOLD), 0);
      theirs = rdt_mlp_load_words(said(0, entry)), ours = rdt_mlp_load_words(said(1, entry));
      differ = theirs.x != ours.x || theirs.y != ours.y;
    }
    if (differ) {
      for (; tile >= p.layer[i].tiles; i++) tile -= p.layer[i].tiles;
      asm volatile("red.shared.min.u32 [%0], %1;" ::"r"(rest(RDT_MLPW_FIRST)), "r"(i) : "memory");
    }
    rdt_bar_sync(1, RDT_MLPW_THREADS);
    if (p.visits && threadIdx.x == 0) atomicAdd((unsigned long long *)p.visits, 1ull);
    if (differ && i == (int)rdt_load4_shared(rest(RDT_MLPW_FIRST)))
      rdt_mlp_differ(p.verdict, rdt_place_of{row0, RDT_MLPW_TILE * tile + entry % 4 * 16, min(R, p.m - row0), 16, i, i},
                     (float)theirs.x, (float)ours.x);
  }

  /* What all have written is there for all, wgmma among them. */
  __device__ __forceinline__ void meet() const {
    rdt_tma_fence();
    rdt_bar_sync(1, RDT_MLPW_THREADS);
  }

  __device__ __forceinline__ void multiply_all() const {
    place first = {0, 0};
    results r;
    int before = 0;
    r.tile = -1;
    if constexpr (check) rdt_cluster_wait();
    rdt_chain_wait();
    load();
    rdt_mbarrier_wait(rest(RDT_MLPW_BIASED), 0);
    meet();
    layer l = known(0);
#pragma unroll 1
    for (;;) {
      if constexpr (Hit::on) hit.inputs(l.number, base + (uint32_t)p.inputs[l.number % 2], chunk);
#pragma unroll 1
      for (int tile = warp / 4; tile < l.tiles; tile += RDT_MLPW_GROUPS)
        compute(l, tile, before, on(first, tile * l.chunks), r);
      if (l.last) break;
      first = on(first, l.tiles * l.chunks), before += l.tiles;
      l = known(l.number + 1);
      meet();
    }
    say(r);
    meet();
    finish();
    if (check && rank == 1) compare();
  }

  __device__ __forceinline__ void run() const {
    if (warp == warps) {
      if (lane == 0) begin();
    } else if ((int)threadIdx.x < p.layers) {
      const uint32_t *w = (const uint32_t *)&p.layer[threadIdx.x];
      rdt_store16_shared(rest(16 * (int)threadIdx.x), make_uint4(w[0], w[1], w[2], w[3]));
    }
    __syncwarp();
    if constexpr (check)
      rdt_cluster_leave(); /* barriers are there for all that wait; layers, behind the first meeting */
    else
      rdt_bar_sync(0, RDT_MLPW_THREADS + RDT_MLPW_MORE);
    rdt_chain_next();
    if (warp < warps)
      multiply_all();
    else if (lane == 0)
      bring();
  }
};

template <class T, int R, bool check, class Hit>
RDT_DEVICE void rdt_mlpw(const rdt_mlpw_args &p, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  const int rank = check ? rdt_mlp_keep((int)rdt_cluster_rank()) : 0;
  const rdt_mlpw_block<T, R, check, Hit> block = {p,
                                                  hit,
                                                  rdt_mlp_keep(rdt_shared(memory)),
                                                  __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0),
                                                  (int)threadIdx.x % 32,
                                                  rank,
                                                  (int)blockIdx.x / (check ? 2 : 1) * R};
  block.run();
#endif
}

#endif
