/* See mlp.h. All weights are on their way to shared memory before anything is multiplied: each thread copies what it
 * will multiply, so that it waits for its own copies alone. The warps of a block share k; their sums are added in
 * order.
 *
 * A row's neurons of a block are checked by columns beside them, their signed sums, which another warp multiplies by
 * inputs that it has loaded itself. What follows is evaluated once more, by others, while results are on their way to
 * the next layer: the sum of that goes to every block that gets them, which forms the sum of what it has got.
 *
 * TWICE: each half of a cluster does all that an unchecked one does, and nothing goes from half to half but the result:
 * the first half stores it and sends it to the second one, which compares it with its own and forms the bit-sum of what
 * should be stored. */
#ifndef RDT_CUDA_SM90_MLP_BODY_H
#define RDT_CUDA_SM90_MLP_BODY_H

#include "cuda/ptx/chain.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/sm90/mlp.h"
#include "cuda/sm90/mlp_parts.h"

RDT_DEVICE uint4 rdt_mlp_load(uint32_t at) {
  uint32_t v[4];
  rdt_load_shared(v, at);
  return make_uint4(v[0], v[1], v[2], v[3]);
}
RDT_DEVICE void rdt_mlp_store1(uint32_t at, uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}

/* Copies of so many layers after this one may be under way. (A table of jumps would have to be loaded.) */
RDT_DEVICE void rdt_mlp_arrived(int later) {
  if (later > 1)
    rdt_copy_wait<2>();
  else if (later > 0)
    rdt_copy_wait<1>();
  else
    rdt_copy_wait<0>();
}

/* ---- sums of what goes from block to block ---- */

struct rdt_mlp_sum { /* of words, and of words times odd numbers of their places: one wrong word changes both */
  uint32_t plain, placed;
  __device__ __forceinline__ void add(uint32_t x, uint32_t row, uint32_t word) {
    plain += x, placed += x * (2 * (row * 4096u + word) + 1u);
  }
  __device__ __forceinline__ uint2 together() const { /* over a warp */
    return make_uint2(__reduce_add_sync(0xffffffffu, plain), __reduce_add_sync(0xffffffffu, placed));
  }
};

/* ---- a block ---- */

template <class T, int check, class Hit>
struct rdt_mlp_block {
  typedef typename rdt_mlp_format<T>::type format;
  static constexpr bool sums = check == RDT_MLP_SIGNED, twice = check == RDT_MLP_TWICE;
  static constexpr int warps = RDT_MLP_WARPS, more = sums ? 1 : 0; /* more: tiles, of what checks the others */
  const rdt_mlp_args &p;
  Hit &hit; /* as it is shipped, nothing */
  uint32_t base;
  int warp, lane;
  int lead, rank; /* the first block of its half, by its place in the cluster; its place behind that */
  int row0, rows;

  struct layer { /* what is known of one, in registers; addresses of shared memory */
    int number, k, n, pairs, tiles, log_tiles, blocks, act;
    uint32_t in, pitch, weights, raw, line; /* line: bytes of a row of sums */
    bool mine, last;
  };
  __device__ __forceinline__ layer known(int i) const {
    const rdt_mlp_layer &a = p.layer[i];
    layer l;
    l.number = i;
    l.k = rdt_mlp_keep(a.k), l.n = rdt_mlp_keep(a.n), l.pairs = rdt_mlp_keep(a.pairs);
    l.log_tiles = rdt_mlp_keep(a.log_tiles), l.blocks = rdt_mlp_keep(a.blocks), l.act = rdt_mlp_keep(a.act);
    l.in = rdt_mlp_keep(base + (uint32_t)a.in_at), l.pitch = rdt_mlp_keep((uint32_t)a.pitch);
    l.weights = rdt_mlp_keep(base + (uint32_t)a.weights_at), l.raw = rdt_mlp_keep(base + (uint32_t)a.raw_at);
    l.tiles = rdt_mlp_keep(1 << l.log_tiles);
    l.line = rdt_mlp_keep(32u * (uint32_t)(l.tiles + more));
    l.mine = rank < l.blocks, l.last = i + 1 == p.layers;
    return l;
  }

  __device__ __forceinline__ uint32_t barrier(int kind, int layer) const {
    return base + (uint32_t)(kind + 8 * layer);
  }
  __device__ __forceinline__ bool has(int layer) const {
    return rank < p.layer[layer].blocks;
  }
  __device__ __forceinline__ int width(int layer) const { /* of all blocks, with what fills their tiles */
    return p.layer[layer].blocks << (3 + p.layer[layer].log_tiles);
  }
  __device__ __forceinline__ int halves() const { /* of a cluster's rows */
    return rows > 8 ? 2 : 1;
  }

  /* By one thread: how much arrives. */
  __device__ __forceinline__ void expect() const {
#pragma unroll 1
    for (int i = 0; i < p.layers; i++) {
      rdt_mbarrier_init(barrier(RDT_MLP_ARRIVED, i), 1);
      if (sums) rdt_mbarrier_init(barrier(RDT_MLP_TOLD, i), 1);
      if (sums) rdt_mbarrier_init(barrier(RDT_MLP_STAND, i), warps);
    }
    if (twice && lead) rdt_mbarrier_init(barrier(RDT_MLP_TOLD, 0), 1);
    rdt_mbarrier_init_done();
#pragma unroll 1
    for (int i = 1; i < p.layers; i++) {
      rdt_mbarrier_expect(barrier(RDT_MLP_ARRIVED, i), has(i) ? 2 * rows * width(i - 1) : 0);
      if (sums) rdt_mbarrier_expect(barrier(RDT_MLP_TOLD, i), has(i) ? 8 * halves() * p.layer[i - 1].blocks : 0);
    }
    const int last = p.layers - 1;
    if (twice && lead)
      rdt_mbarrier_expect(barrier(RDT_MLP_TOLD, 0), has(last) ? 16 * rows << p.layer[last].log_tiles : 0);
  }

  __device__ __forceinline__ void copy_weights() const {
#pragma unroll 1
    for (int i = 0; i < p.layers; i++) {
      const layer l = known(i);
      if (l.mine) {
        const int copy = twice && lead ? rank + l.blocks : rank;
        const char *from =
            (const char *)p.layer[i].weights + (int64_t)copy * l.pairs * (l.tiles + more) * 512 + lane * 16;
        const uint32_t to = l.weights + 16u * (uint32_t)lane;
#pragma unroll 1
        for (int pair = warp; pair < l.pairs; pair += warps)
#pragma unroll 2
          for (int j = pair << l.log_tiles; j < (pair + 1) << l.log_tiles; j++)
            rdt_copy16(to + 512u * (uint32_t)j, from + 512 * j, 16);
        if constexpr (sums)
#pragma unroll 1
          for (int pair = l.pairs * l.tiles + (warp + 1) % warps; pair < l.pairs * (l.tiles + 1); pair += warps)
            rdt_copy16(to + 512u * (uint32_t)pair, from + 512 * pair, 16);
      }
      rdt_copy_commit();
    }
  }

  /* A column of a layer's; each evaluation has its own. */
  __device__ __forceinline__ void load_bias(int evaluation, int i, int j) const {
    const rdt_mlp_rest &r = p.rest[i];
    const int mine = 8 << p.layer[i].log_tiles, column = rank * mine + j;
    float x = 0.0f;
    if (r.bias && j < mine && column < p.layer[i].n) x = rdt_mlp_number(r.bias, column, r.bias_type);
    rdt_mlp_store1(base + RDT_MLP_BIAS + 4u * (uint32_t)((evaluation * RDT_MLP_LAYERS + i) * RDT_MLP_COLUMNS + j),
                   __float_as_uint(x));
  }
  __device__ __forceinline__ float2 bias(int evaluation, int i, int pair) const {
    return rdt_mlp_load2(base + RDT_MLP_BIAS +
                         4u * (uint32_t)((evaluation * RDT_MLP_LAYERS + i) * RDT_MLP_COLUMNS + 2 * pair));
  }

  /* Zeros where a row ends before its last pair does. */
  __device__ __forceinline__ void clear_ends() const {
#pragma unroll 1
    for (int i = 1; i < p.layers; i++) {
      const rdt_mlp_layer &l = p.layer[i];
      const int at = width(i - 1) / 8 + lane;
      if (at >= 4 * l.pairs) continue;
      for (int row = warp; row < rows; row += warps)
        rdt_store16_shared(base + (uint32_t)(l.in_at + row * l.pitch + 16 * at), make_uint4(0, 0, 0, 0));
    }
  }

  /* Eight inputs of a row, from memory. again: past the first-level cache. */
  __device__ __forceinline__ uint4 given(const layer &l, int row, int k, bool again) const {
    const uint16_t *x = (const uint16_t *)p.x + (row0 + row) * p.ldx + k;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (k >= l.k) return v;
    if (!p.vectors) return rdt_mlp_few(x, l.k - k);
    if (again)
      asm volatile("ld.global.cg.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(x));
    else
      asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(x));
    return v;
  }

  /* Fragments of inputs, of a pair: a thread's eight numbers of two rows. */
  __device__ __forceinline__ void fragment(const layer &l, int pair, bool again, uint4 &top, uint4 &low) const {
    const int above = min(lane / 4, rows - 1), below = min(lane / 4 + 8, rows - 1),
              k = RDT_MLP_PAIR * pair + 8 * (lane % 4);
    low = make_uint4(0, 0, 0, 0);
    if (l.number == 0) {
      top = given(l, above, k, again);
      if (rows > 8) low = given(l, below, k, again);
      return;
    }
    top = rdt_mlp_load(l.in + 2u * (uint32_t)k + (uint32_t)above * l.pitch);
    if (rows > 8) low = rdt_mlp_load(l.in + 2u * (uint32_t)k + (uint32_t)below * l.pitch);
  }
  static __device__ __forceinline__ void multiply(float (&c)[4], const uint4 &top, const uint4 &low, const uint4 &b) {
    const uint32_t first[4] = {top.x, low.x, top.y, low.y}, second[4] = {top.z, low.z, top.w, low.w};
    const uint32_t b1[2] = {b.x, b.y}, b2[2] = {b.z, b.w};
    T::mma(c, first, b1);
    T::mma(c, second, b2);
  }
  static __device__ __forceinline__ float squares(const uint4 &x, float sum) {
    const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float2 two = format::wide(w[i]);
      sum = fmaf(two.x, two.x, sum), sum = fmaf(two.y, two.y, sum);
    }
    return sum;
  }

  /* [warp][row][column]; two sets, in turns: who is late still reads the one before. */
  __device__ __forceinline__ uint32_t partial(const layer &l) const {
    return base + RDT_MLP_HEAD + (uint32_t)((l.number & 1) * p.partial);
  }

  /* The warp's share of k, of so many tiles, to shared memory. */
  template <int N>
  __device__ __forceinline__ void neurons(const layer &l) const {
    float c[N][4] = {};
    uint4 top, low;
#pragma unroll 1
    for (int pair = warp; pair < l.pairs; pair += warps) {
      const uint32_t at = l.weights + 16u * (uint32_t)lane + 512u * N * (uint32_t)pair;
      uint4 b[N];
      fragment(l, pair, false, top, low);
      if constexpr (Hit::on) hit.loaded(l.number, pair == warp, top);
#pragma unroll
      for (int j = 0; j < N; j++) b[j] = rdt_mlp_load(at + 512u * (uint32_t)j);
#pragma unroll
      for (int j = 0; j < N; j++) multiply(c[j], top, low, b[j]);
    }
    if constexpr (Hit::on) hit.accumulators(RDT_MLP_ACCUM, l.number, c);
    uint32_t to = partial(l) + (uint32_t)(warp * rows + lane / 4) * l.line + 8u * (uint32_t)(lane % 4);
#pragma unroll
    for (int h = 0; h < 2; h++, to += 8 * l.line)
      if (lane / 4 + 8 * h < rows)
#pragma unroll
        for (int j = 0; j < N; j++) rdt_mlp_store2(to + 32u * (uint32_t)j, c[j][2 * h], c[j][2 * h + 1]);
  }
  /* The same of what checks them, of another share. */
  __device__ __forceinline__ void beside(const layer &l) const {
    const int t = lane % 4;
    float e[1][4] = {}, a2[2] = {};
    uint4 top, low;
#pragma unroll 1
    for (int pair = (warp + 1) % warps; pair < l.pairs; pair += warps) {
      fragment(l, pair, true, top, low);
      multiply(e[0], top, low,
               rdt_mlp_load(l.weights + 512u * (uint32_t)((l.pairs << l.log_tiles) + pair) + 16u * (uint32_t)lane));
      a2[0] = squares(top, a2[0]);
      if (rows > 8) a2[1] = squares(low, a2[1]);
    }
    if constexpr (Hit::on) hit.accumulators(RDT_MLP_CHECKSUM, l.number, e);
    uint32_t to = partial(l) + (uint32_t)(warp * rows + lane / 4) * l.line + 32u * (uint32_t)l.tiles + 8u * (uint32_t)t;
#pragma unroll
    for (int h = 0; h < 2; h++, to += 8 * l.line) {
      a2[h] += __shfl_xor_sync(0xffffffffu, a2[h], 1);
      a2[h] += __shfl_xor_sync(0xffffffffu, a2[h], 2);
      if (lane / 4 + 8 * h < rows) /* the last two of these columns have no sums */
        rdt_mlp_store2(to, t == 3 ? a2[h] : e[0][2 * h], t == 3 ? 0.0f : e[0][2 * h + 1]);
    }
  }

  /* All warps' sums of two neighbours. */
  __device__ __forceinline__ float2 total(uint32_t from, uint32_t step) const {
    float2 x = rdt_mlp_load2(from), y[warps - 1];
#pragma unroll
    for (int w = 1; w < warps; w++) y[w - 1] = rdt_mlp_load2(from + (uint32_t)w * step);
#pragma unroll
    for (int w = 1; w < warps; w++) x.x = rdt_add(x.x, y[w - 1].x), x.y = rdt_add(x.y, y[w - 1].y);
    return x;
  }

  /* ---- the result: two neighbours of a row ---- */

  __device__ __forceinline__ void store(const layer &l, int row, int column, uint32_t y) const {
    uint16_t *to = (uint16_t *)p.out + (row0 + row) * p.ldo + column;
    if (column < l.n) to[0] = (uint16_t)y;
    if (column + 1 < l.n) to[1] = (uint16_t)(y >> 16);
  }
  /* Their part of the bit-sum of what should be stored. */
  __device__ __forceinline__ uint64_t share(const layer &l, int row, int column, uint32_t y) const {
    const uint64_t at = (uint64_t)((row0 + row) * p.ldo + column); /* halves of words of the whole */
    const uint32_t low = column < l.n ? y & 0xffffu : 0u, high = column + 1 < l.n ? y >> 16 : 0u;
    return (uint64_t)(low << (16 * (at & 1))) * (at / 2 * 0x3c6ef37200000002u + 1u) +
           (uint64_t)(high << (16 * ((at + 1) & 1))) * ((at + 1) / 2 * 0x3c6ef37200000002u + 1u);
  }
  __device__ __forceinline__ void add_shares(uint64_t sum) const { /* of a warp */
    if (!p.sum) return;
    const uint32_t words = (uint32_t)(sum >> 32); /* modulo 2^64: by pieces that do not overflow */
    const uint64_t a = __reduce_add_sync(0xffffffffu, (uint32_t)sum & 0xffffu),
                   b = __reduce_add_sync(0xffffffffu, (uint32_t)sum >> 16), c = __reduce_add_sync(0xffffffffu, words);
    if (lane == 0) atomicAdd((unsigned long long *)p.sum, (unsigned long long)(a + (b << 16) + (c << 32)));
  }

  /* A row of both halves, by a warp of each: stored, sent and compared. mine: the lane has some of it; y is 0
   * otherwise. The second half's block does not end before all has come that its partner sends. */
  __device__ __forceinline__ void settle(const layer &l, int row, int column, bool mine, uint32_t y) const {
    const uint32_t to = base + RDT_MLP_SAID + (uint32_t)(2 * RDT_MLP_COLUMNS * row + 4 * lane),
                   told = barrier(RDT_MLP_TOLD, 0);
    static_assert(2 * RDT_MLP_COLUMNS * RDT_MLP_ROWS <= RDT_MLP_BIAS - RDT_MLP_SAID, "a result goes there");
    uint32_t stored = y, theirs = y;
    if constexpr (Hit::on)
      if (mine) hit.stored(l.number, row, lane, stored);
    if (!lead) {
      const uint32_t partner = (uint32_t)(p.blocks + rank);
      if (!mine) return;
      rdt_mlp_send(rdt_mlp_there(to, partner), y, rdt_mlp_there(told, partner));
      store(l, row, column, stored);
      return;
    }
    add_shares(share(l, row, column, stored));
    rdt_mbarrier_wait(told, 0);
    if (mine) theirs = rdt_load4_shared(to);
    const bool differ = column < l.n && (column + 1 < l.n ? theirs ^ y : (theirs ^ y) & 0xffffu) != 0;
    const unsigned all = __ballot_sync(0xffffffffu, differ);
    if (lane == 0 && p.visits) atomicAdd((unsigned long long *)p.visits, 1ull);
    if (differ && lane == __ffs((int)all) - 1)
      rdt_mlp_differ(p.verdict, rdt_place_of{row0 + row, column, 1, min(2, l.n - column), l.number, l.number},
                     (float)theirs, (float)y);
  }

  /* A row, by a warp: sums, what follows them, and where that goes: to memory, or to the blocks of the next layer. */
  __device__ __forceinline__ void finish(const layer &l, int row, int blocks, uint32_t next) const {
    const uint32_t at = (uint32_t)row * l.line + 8u * (uint32_t)lane;
    const bool mine = lane < 4 * l.tiles;
    uint32_t y = 0;
    if (mine) {
      const float2 b = bias(0, l.number, lane);
      float2 x = total(partial(l) + at, (uint32_t)rows * l.line);
      if constexpr (sums) rdt_mlp_store2(l.raw + at, x.x, x.y);
      if constexpr (Hit::on) hit.taken(l.number, row, lane, x);
      y = rdt_mlp_follow<T>(l.act, p.layer[l.number].p, p.layer[l.number].q, x, b);
      if constexpr (Hit::on)
        if (!twice || !l.last) hit.stored(l.number, row, lane, y);
    }
    if (l.last) {
      const int column = rank * 8 * l.tiles + 2 * lane;
      if (twice)
        settle(l, row, column, mine, y);
      else if (mine)
        store(l, row, column, y);
      return;
    }
    const int tile = lane % 8;
    uint4 x;
    x.x = __shfl_sync(0xffffffffu, y, 4 * tile), x.y = __shfl_sync(0xffffffffu, y, 4 * tile + 1);
    x.z = __shfl_sync(0xffffffffu, y, 4 * tile + 2), x.w = __shfl_sync(0xffffffffu, y, 4 * tile + 3);
    if (tile >= l.tiles) return;
    const uint32_t to = next + 16u * (uint32_t)(rank * l.tiles + tile),
                   arrived = barrier(RDT_MLP_ARRIVED, l.number + 1);
#pragma unroll
    for (int i = 0; i < RDT_MLP_BLOCKS / 4; i++) {
      const uint32_t block = (uint32_t)(lane / 8 + 4 * i);
      if ((int)block < blocks)
        rdt_mlp_send(rdt_mlp_there(to, block + (uint32_t)lead), x, rdt_mlp_there(arrived, block + (uint32_t)lead));
    }
  }
  /* What checks the rows: eight of them, by a warp. */
  __device__ __forceinline__ void finish_beside(const layer &l, int first) const {
    const int row = first + lane / 4;
    const uint32_t at = (uint32_t)row * l.line + 32u * (uint32_t)l.tiles + 8u * (uint32_t)(lane % 4);
    if (row >= rows) return;
    const float2 x = total(partial(l) + at, (uint32_t)rows * l.line);
    rdt_mlp_store2(l.raw + at, x.x, x.y);
  }

  __device__ __forceinline__ void multiply_all() {
    copy_weights();
    for (int i = (int)threadIdx.x / RDT_MLP_COLUMNS; i < p.layers; i += RDT_MLP_THREADS / RDT_MLP_COLUMNS)
      load_bias(0, i, (int)threadIdx.x % RDT_MLP_COLUMNS);
    clear_ends();
    layer l = known(0);
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); /* all barriers are there */
    rdt_chain_wait();
#pragma unroll 1
    for (int i = 0;;) {
      int blocks = 0;
      uint32_t next = 0, pitch = 0; /* of the next one's inputs */
      if (!l.last) {
        const rdt_mlp_layer &n = p.layer[i + 1];
        blocks = rdt_mlp_keep(n.blocks), next = rdt_mlp_keep(base + (uint32_t)n.in_at),
        pitch = rdt_mlp_keep((uint32_t)n.pitch);
      }
      if (l.mine) {
        rdt_mlp_arrived(p.layers - 1 - i);
        if (i > 0) rdt_mbarrier_wait(barrier(RDT_MLP_ARRIVED, i), 0);
        if constexpr (Hit::on) hit.weights(i, l.weights, l.pairs, l.tiles);
        if constexpr (Hit::on)
          if (i > 0) {
            if (twice && warp == 0) hit.arrived(i, l.in, l.pitch, rows);
            rdt_bar_sync(3, RDT_MLP_THREADS + (sums ? 32 : 0));
          }
        if (l.log_tiles < 2) {
          if (l.log_tiles < 1)
            neurons<1>(l);
          else
            neurons<2>(l);
        } else if (l.log_tiles < 3) {
          neurons<4>(l);
        } else {
          neurons<8>(l);
        }
        if constexpr (sums) beside(l);
      }
      rdt_bar_sync(1, RDT_MLP_THREADS);
      if (l.mine) {
#pragma unroll 1
        for (int row = warp; row < rows; row += warps) finish(l, row, blocks, next + (uint32_t)row * pitch);
        if constexpr (sums) {
          const int first = 8 * (warps - 1 - warp); /* by warps with fewer rows */
          if (first < rows) finish_beside(l, first);
          __syncwarp();
          if (lane == 0) rdt_mbarrier_arrive_here(barrier(RDT_MLP_STAND, i));
        }
      }
      if (++i == p.layers) break;
      l = known(i);
    }
  }

  /* ---- the warps that check ---- */

  __device__ __forceinline__ void verify(const layer &l, int first) const { /* four threads a row */
    const rdt_mlp_rest &r = p.rest[l.number];
    const int row = first + lane / 4, t = lane % 4, neuron = rank * 8 * l.tiles;
    const float surely = r.bound.surely, floor = r.bound.a2_floor,
                rho2 = __uint_as_float(rdt_load4_shared(base + RDT_MLP_RHO2 + 4u * (uint32_t)l.number));
    unsigned minus = 0; /* of each column, a bit */
#pragma unroll
    for (int i = 0; i < 8; i++) minus |= rdt_mma_sign((unsigned)(neuron + 8 * t + i)) >> i;
    const uint32_t at = l.raw + (uint32_t)min(row, rows - 1) * l.line, beside = at + 32u * (uint32_t)l.tiles;
    float s = 0.0f, c2 = 0.0f;
    rdt_mbarrier_wait(barrier(RDT_MLP_STAND, l.number), 0);
    const float2 x = rdt_mlp_load2(beside), y = rdt_mlp_load2(beside + 8), z = rdt_mlp_load2(beside + 24);
#pragma unroll 1
    for (int j = t; j < l.tiles; j += 4) {
      float low[4], high[4];
      rdt_load_shared(low, at + 32u * (uint32_t)j), rdt_load_shared(high, at + 32u * (uint32_t)j + 16);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const float v = i < 4 ? low[i] : high[i - 4];
        s += __uint_as_float(__float_as_uint(v) ^ ((minus << i) & 0x80000000u)), c2 = fmaf(v, v, c2);
      }
      if (l.tiles <= 4) break;
      minus = 0;
#pragma unroll
      for (int i = 0; i < 8; i++) minus |= rdt_mma_sign((unsigned)(neuron + 8 * (t + 4) + i)) >> i;
    }
#pragma unroll
    for (int d = 1; d < 4; d *= 2) s += __shfl_xor_sync(0xffffffffu, s, d), c2 += __shfl_xor_sync(0xffffffffu, c2, d);
    if (t != 0 || row >= rows) return;
    const float parts[4] = {x.x, x.y, y.x, y.y}, e = T::expected(parts), a2 = z.x + floor, q = a2 * rho2, d = s - e;
    if (!Hit::on && d * d <= surely * q && surely * q < rdt_infinite(q)) return; /* nearly all */
    float tau2, tau0;
    const int complaint = rdt_judge_sums(r.bound, s, c2, e, a2, q, &tau2, &tau0);
    if constexpr (Hit::on) hit.bound_of(l.number, row, tau2);
    if (complaint)
      rdt_complain(p.verdict, complaint,
                   rdt_place_of{row0 + row, neuron, 1, min(8 * l.tiles, l.n - neuron), l.number, l.number}, s, e, tau2,
                   tau0);
  }

  /* What follows, once more, of eight rows; a thread has two neighbours. */
  __device__ __forceinline__ void again(const layer &l, int first) const {
    rdt_mlp_sum sum = {0, 0};
    uint64_t stored = 0;
    const bool mine = lane < 4 * l.tiles;
    const float2 b = mine ? bias(1, l.number, lane) : make_float2(0.0f, 0.0f);
    const int column = rank * 8 * l.tiles + 2 * lane, end = min(first + 8, rows);
    int blocks = 0;
    if (!l.last) blocks = rdt_mlp_keep(p.layer[l.number + 1].blocks);
    rdt_mbarrier_wait(barrier(RDT_MLP_STAND, l.number), 0);
#pragma unroll 1
    for (int row = first; mine && row < end; row++) {
      const float2 x = rdt_mlp_load2(l.raw + (uint32_t)row * l.line + 8u * (uint32_t)lane);
      const uint32_t y = rdt_mlp_follow<T>(l.act, p.layer[l.number].p, p.layer[l.number].q, x, b);
      if (!l.last) {
        sum.add(y, (uint32_t)row, (uint32_t)column / 2);
        continue;
      }
      stored += share(l, row, column, y);
    }
    if (l.last) return add_shares(stored);
    const uint2 all = sum.together();
    const uint32_t to = base + RDT_MLP_SAID + 8u * (uint32_t)(((l.number + 1) * RDT_MLP_BLOCKS + rank) * 2 + first / 8);
    if (lane < blocks)
      rdt_mlp_send(rdt_mlp_there(to, (uint32_t)lane), all,
                   rdt_mlp_there(barrier(RDT_MLP_TOLD, l.number + 1), (uint32_t)lane));
  }

  /* Is what has arrived what was sent? */
  __device__ __forceinline__ void compare(const layer &l) const {
    const int blocks = rdt_mlp_keep(p.layer[l.number - 1].blocks), chunks = rdt_mlp_keep(width(l.number - 1) / 8);
    rdt_mlp_sum sum = {0, 0}, other = {0, 0};
    rdt_mbarrier_wait(barrier(RDT_MLP_ARRIVED, l.number), 0);
    if constexpr (Hit::on) {
      hit.arrived(l.number, l.in, l.pitch, rows);
      rdt_bar_sync(3, RDT_MLP_THREADS + 32);
    }
#pragma unroll 1
    for (int row = 0; row < rows; row++)
#pragma unroll 2
      for (int chunk = lane; chunk < chunks; chunk += 32) {
        const uint4 x = rdt_mlp_load(l.in + (uint32_t)row * l.pitch + 16u * (uint32_t)chunk);
        const uint32_t w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) sum.add(w[i], (uint32_t)row, 4u * (uint32_t)chunk + i);
      }
    const uint2 seen = sum.together();
    rdt_mbarrier_wait(barrier(RDT_MLP_TOLD, l.number), 0);
    for (int i = 0; i < halves() && lane < blocks; i++) {
      const float2 x = rdt_mlp_load2(base + RDT_MLP_SAID + 8u * (uint32_t)((l.number * RDT_MLP_BLOCKS + lane) * 2 + i));
      other.plain += __float_as_uint(x.x), other.placed += __float_as_uint(x.y);
    }
    const uint2 said = other.together();
    if ((seen.x != said.x || seen.y != said.y) && lane == 0)
      rdt_complain(p.verdict, RDT_CUDA_CERTAIN, rdt_place_of{row0, -1, rows, l.k, l.number, l.number}, (float)seen.x,
                   (float)said.x, 0.0f, 0.0f);
  }

  /* By warps: two check rows, two evaluate again, one compares what has arrived. */
  __device__ __forceinline__ void check_all() {
    const int me = warp - warps;
#pragma unroll 1
    for (int i = me; i < p.layers; i += RDT_MLP_CHECKERS) {
      load_bias(1, i, lane), load_bias(1, i, lane + 32);
      if (lane == 0 && has(i))
        rdt_mlp_store1(base + RDT_MLP_RHO2 + 4u * (uint32_t)i,
                       __float_as_uint(*(const volatile float *)(p.rest[i].rho2 + rank)));
    }
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    rdt_bar_sync(2, RDT_MLP_MORE);
    rdt_chain_wait();
    const int first = me % 2 * 8;
#pragma unroll 1
    for (int i = 0; i < p.layers; i++) {
      const layer l = known(i);
      if (!l.mine) continue;
      if (me < 2 && first < rows) verify(l, first);
      if ((me == 2 || me == 3) && first < rows) again(l, first);
      if (me == 4 && i > 0) compare(l);
    }
    if (!p.visits) return;
    rdt_bar_sync(2, RDT_MLP_MORE);
    if (threadIdx.x == RDT_MLP_THREADS) atomicAdd((unsigned long long *)p.visits, 1ull);
  }

  __device__ __forceinline__ void run() {
    if (threadIdx.x == (sums ? RDT_MLP_THREADS + 128 : RDT_MLP_THREADS - 32)) expect();
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    rdt_chain_next();
    if (sums && warp >= warps)
      check_all();
    else
      multiply_all();
  }
};

template <class T, int check, class Hit>
RDT_DEVICE void rdt_mlp(const rdt_mlp_args &p, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char memory[];
  const int place = rdt_mlp_keep((int)rdt_cluster_rank()),
            lead = check == RDT_MLP_TWICE && place >= p.blocks ? rdt_mlp_keep(p.blocks) : 0,
            row0 = ((int)blockIdx.x - place) / (check == RDT_MLP_TWICE ? 2 * p.blocks : p.blocks) * RDT_MLP_ROWS;
  rdt_mlp_block<T, check, Hit> block = {p,
                                        hit,
                                        rdt_mlp_keep(rdt_shared(memory)),
                                        __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0),
                                        (int)threadIdx.x % 32,
                                        lead,
                                        place - lead,
                                        row0,
                                        min(RDT_MLP_ROWS, p.m - row0)};
  block.run();
#endif
}

#endif
