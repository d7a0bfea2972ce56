/* Products of many rows by few columns on wgmma, as fast as memory gives A and takes C. Blocks stay, each takes every
 * so many tiles of all columns; B has been brought into the order of shared memory when it was loaded, and stays there.
 * One thread has TMA fill a ring of stages with A; groups of four warps have tiles in turns, and each warp stores its
 * rows by itself, so that no two warps wait for each other. Order of addition: along k.
 *
 * The check: B has eight columns more, signed sums of the others (gemm_wgmma_body.h), so that what is expected of a row
 * lies beside the row in the registers of the threads that have it; they compare when it is on its way to memory. */
#ifndef RDT_CUDA_GEMM_TALL_BODY_H
#define RDT_CUDA_GEMM_TALL_BODY_H

#include "cuda/ptx/bulk.h"
#include "cuda/sm90/gemm_tall.h"
#include "cuda/sm90/gemm_wgmma_body.h"

template <int MT_, int BN_>
struct rdt_tall_tile { /* MT: 64 rows of a tile */
  static constexpr int MT = MT_, BN = BN_, BM = 64 * MT, held = BN / 2 + 4, slot = BM * 2 * RDT_TALL_K;
};

/* Where things lie in shared memory. */
template <class Tile, bool checked>
struct rdt_tall_layout {
  static constexpr int rows = Tile::BN + (checked ? RDT_WGMMA_SUMS : 0); /* of B's image */
  static constexpr uint32_t stage = rows * 2 * RDT_TALL_K;
  uint32_t b, ring, out, full, empty, ready, biases; /* biases: as floats */
  __device__ __forceinline__ rdt_tall_layout(uint32_t shared, int rounds, int slots, int pieces)
      : b(shared),
        ring(shared + (uint32_t)rounds * stage),
        out(ring + (uint32_t)slots * Tile::slot),
        full(out + (uint32_t)pieces * RDT_TALL_PIECE),
        empty(full + 8 * RDT_TALL_SLOTS),
        ready(full + 16 * RDT_TALL_SLOTS),
        biases(ready + 16) {}
};

/* Tiles of a block: of all where it is called for some again. */
struct rdt_tall_turns {
  int first, end, step;
};

template <class Tile, bool checked>
RDT_DEVICE void rdt_tall_load(const rdt_tall_args &g, const rdt_tall_layout<Tile, checked> &at, rdt_tall_turns turns) {
  constexpr uint32_t stage = rdt_tall_layout<Tile, checked>::stage;
  const int rounds = (g.w.p.k + RDT_TALL_K - 1) / RDT_TALL_K;
  int slot = 0;
  uint32_t parity = 1;
  rdt_mbarrier_expect(at.ready, rounds * (int)stage);
  for (int i = 0; i < rounds; i++)
    rdt_bulk_load(at.b + (uint32_t)i * stage, (const char *)g.image + (size_t)i * stage, stage, at.ready);
  rdt_grid_await();
  for (int tile = turns.first; tile < turns.end; tile += turns.step)
    for (int round = 0; round < rounds; round++) {
      const uint32_t full = at.full + 8 * (uint32_t)slot;
      rdt_mbarrier_wait(at.empty + 8 * (uint32_t)slot, parity);
      rdt_mbarrier_expect(full, Tile::slot);
      rdt_tma_load(at.ring + (uint32_t)slot * Tile::slot, &g.w.a, round * RDT_TALL_K, tile * Tile::BM, full);
      if (++slot == g.slots) slot = 0, parity ^= 1;
    }
}

/* A warp's 16 rows of a piece, as TMA takes them; c: the first of the thread's numbers. */
template <class T, bool wide, int columns>
RDT_DEVICE void rdt_tall_fill(const float *c, uint32_t at) {
  const int lane = (int)threadIdx.x % 32;
  if constexpr (wide) {
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int row = 8 * h + lane / 4, chunk = 2 * j + lane % 4 / 2;
        rdt_store8_shared(at + 128 * row + 16 * (chunk ^ row % 8) + 8 * (lane % 2), c[4 * j + 2 * h],
                          c[4 * j + 2 * h + 1]);
      }
  } else {
#pragma unroll
    for (int j = 0; j < columns / 8; j += 2) {
      const int row = lane % 16, chunk = j + lane / 16;
      const float *x = &c[4 * j];
      rdt_stmatrix4(at + 128 * row + 16 * (chunk ^ row % 8), T::narrow(x[0], x[1]), T::narrow(x[2], x[3]),
                    T::narrow(x[4], x[5]), T::narrow(x[6], x[7]));
    }
  }
}

/* By a warp, of its rows of a tile, from row0 on: as many pieces at once as it has. */
template <class T, class Tile, bool wide, int pieces>
RDT_DEVICE void rdt_tall_store_by(const rdt_tall_args &g, const float (&c)[Tile::MT][Tile::held], uint32_t out,
                                  int row0) {
  constexpr int most = wide ? 32 : 64, columns = Tile::BN < most ? Tile::BN : most, passes = Tile::BN / columns;
  const bool first = threadIdx.x % 32 == 0;
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int pass = 0; pass < passes; pass += pieces) {
      const int row = row0 + 64 * i;
      if (first) rdt_tma_wait_read<0>();
      __syncwarp();
#pragma unroll
      for (int x = 0; x < pieces; x++)
        rdt_tall_fill<T, wide, columns>(&c[i][(pass + x) * columns / 2], out + x * RDT_TALL_PIECE);
      rdt_tma_fence();
      __syncwarp();
      if (first) {
#pragma unroll
        for (int x = 0; x < pieces; x++)
          if (row < g.w.p.m && (pass + x) * columns < g.w.stored)
            rdt_tma_store(&g.w.c, (pass + x) * columns, row, out + x * RDT_TALL_PIECE);
        rdt_tma_commit();
      }
    }
}

template <class T, class Tile, bool wide>
RDT_DEVICE void rdt_tall_store(const rdt_tall_args &g, const float (&c)[Tile::MT][Tile::held], uint32_t out, int row0) {
  if constexpr (Tile::BN > 64 && !wide) {
    if (g.outs > 1) return rdt_tall_store_by<T, Tile, wide, 2>(g, c, out, row0);
  }
  rdt_tall_store_by<T, Tile, wide, 1>(g, c, out, row0);
}

template <class T, class Tile, bool checked>
RDT_DEVICE void rdt_tall_round(float (&c)[Tile::MT][Tile::held], uint32_t a, uint32_t b, int add) {
  constexpr int columns = rdt_tall_layout<Tile, checked>::rows;
#pragma unroll
  for (int k = 0; k < RDT_TALL_K / 16; k++)
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
      rdt_wgmma<T, columns, 0, 0>::step(rdt_part<columns>(c[i], 0), rdt_wgmma_place(a + i * 8192 + 32 * k, 16),
                                        rdt_wgmma_place(b + 32 * k, 16), k ? 1 : add);
}

/* Two neighbours of a bias, as floats, from shared memory. */
RDT_DEVICE float2 rdt_tall_bias(uint32_t biases, int column) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];"
               : "=f"(x.x), "=f"(x.y)
               : "r"(biases + 4u * (uint32_t)column)
               : "memory");
  return x;
}

/* Bias, residual, relu, alpha: in place. */
template <class Tile>
RDT_DEVICE void rdt_tall_extra(const rdt_tall_args &g, float (&c)[Tile::MT][Tile::held], int row0, uint32_t biases) {
  const rdt_mma_args &p = g.w.p;
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < Tile::BN / 8; j++) {
    const float2 bias = rdt_tall_bias(biases, 8 * j + 2 * (lane % 4));
#pragma unroll
    for (int e = 0; e < 2; e++)
#pragma unroll
      for (int i = 0; i < Tile::MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int row = row0 + 64 * i + 8 * h + lane / 4, column = 8 * j + 2 * (lane % 4) + e;
          float x = rdt_mul(p.alpha, c[i][4 * j + 2 * h + e]);
          if (p.bias) x = rdt_add(x, e ? bias.y : bias.x);
          if (p.residual && row < p.m && column < p.n)
            x = rdt_add(x, rdt_mul(p.beta, rdt_wide_load_as(p.residual, row * p.ldr + column, p.c_type)));
          if (p.relu && x < 0.0f) x = 0.0f; /* NaN stays */
          c[i][4 * j + 2 * h + e] = x;
        }
  }
}

/* Columns that do not fill 16 bytes: TMA would write all of these. */
template <class T, class Tile>
RDT_DEVICE void rdt_tall_store_rest(const rdt_tall_args &g, const float (&c)[Tile::MT][Tile::held], int row0) {
  const rdt_mma_args &p = g.w.p;
  const int lane = (int)threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int j = 0; j < Tile::BN / 2; j++) {
      const int column = j / 4 * 8 + 2 * (lane % 4) + j % 2, row = row0 + 64 * i + j % 4 / 2 * 8 + lane / 4;
      const int64_t at = row * p.ldc + column;
      if (column < g.w.stored || column >= p.n || row >= p.m) continue;
      if (p.c_type == RDT_MMA_F32)
        ((float *)p.c)[at] = c[i][j];
      else
        ((uint16_t *)p.c)[at] = (uint16_t)T::narrow(c[i][j], 0.0f);
    }
}

/* What a thread has of the rows of a tile that it shares with three others: signed sums, squares, what is
 * expected, and of |a|^2 what it is on average. */
template <int rows>
struct rdt_tall_terms {
  float s[rows], c2[rows], e[rows], a2[rows];
};

template <class T, class Tile>
RDT_DEVICE rdt_tall_terms<2 * Tile::MT> rdt_tall_sum(const float (&c)[Tile::MT][Tile::held]) {
  constexpr int rows = 2 * Tile::MT;
  const unsigned other = rdt_wide_sign_of(0, (int)threadIdx.x % 4);
  rdt_tall_terms<rows> x;
#pragma unroll
  for (int i = 0; i < rows; i++) {
    x.s[i] = x.c2[i] = 0.0f;
    const float2 expected = rdt_wide_expected((const T *)nullptr, c[i / 2] + Tile::BN / 2 + 2 * (i % 2));
    x.e[i] = expected.x, x.a2[i] = expected.y;
  }
#pragma unroll
  for (int j = 0; j < Tile::BN / 8; j++) {
#pragma unroll
    for (int e = 0; e < 2; e++)
#pragma unroll
      for (int i = 0; i < rows; i++) {
        const float y = c[i / 2][4 * j + 2 * (i % 2) + e];
        x.s[i] = rdt_mma_sign((unsigned)(2 * j + e)) ? x.s[i] - y : x.s[i] + y;
        x.c2[i] = fmaf(y, y, x.c2[i]);
      }
#pragma unroll
    for (int i = 0; i < rows; i++) /* in this order: what is joined else needs too many registers */
      asm volatile("" : "+f"(x.s[i]), "+f"(x.c2[i]));
  }
#pragma unroll
  for (int i = 0; i < rows; i++) x.s[i] = __uint_as_float(__float_as_uint(x.s[i]) ^ other);
  return x;
}

/* Rows of a tile, one of each thread, from row0 on. Within what the squares of C and a quarter of what |a|^2 on average
 * allow nobody looks closer; else A is read for what it is, by all threads of the warp. That must be rare: a thread
 * that reads holds up its group, and the slowest block all that follows. */
template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_tall_compare(const rdt_tall_args &g, const rdt_tall_terms<2 * Tile::MT> &x, int row0, float rho2,
                                 Hit &hit) {
  constexpr int rows = 2 * Tile::MT;
  const rdt_mma_args &p = g.w.p;
  const int lane = (int)threadIdx.x % 32, row = row0 + rdt_wide_joined<rows>(lane);
  float d[rows], within[rows];
  const float of_c = 0.75f * g.w.alike, of_a = 0.25f * p.bound.surely * rho2;
#pragma unroll
  for (int i = 0; i < rows; i++) d[i] = x.s[i] - x.e[i], within[i] = fmaf(of_c, x.c2[i], of_a * x.a2[i]);
  const float apart = rdt_wide_join(d), most = rdt_wide_join(within);
  const bool near = !Hit::on && apart * apart <= most && most < rdt_infinite(most);
  unsigned ask = __ballot_sync(0xffffffffu, !near && (Tile::MT == 2 || lane % 4 < 2) && row < p.m);
  if (__builtin_expect(ask == 0, 1)) return;
  const float s = rdt_wide_join(x.s), e = rdt_wide_join(x.e), c2 = rdt_wide_join(x.c2);
#pragma unroll 1
  while (ask) {
    const int at = __ffs((int)ask) - 1;
    ask &= ask - 1;
    const int of = __shfl_sync(0xffffffffu, row, at);
    const float a2 = rdt_wide_norm<T>(p, (const uint16_t *)p.a + of * p.lda);
    if (lane == at)
      rdt_wide_judge(p, rdt_place_of{row * g.fold, 0, g.fold, g.bias, 0, p.k / g.fold}, rho2,
                     rdt_wide_row{s, c2, e, a2}, hit);
  }
}

template <int MT, int count>
RDT_DEVICE void rdt_tall_clear(float (&c)[MT][count]) {
#pragma unroll
  for (int i = 0; i < MT; i++)
#pragma unroll
    for (int j = 0; j < count; j++) c[i][j] = 0.0f;
}

/* A bias as floats for columns that there are, 0 elsewhere; twice, so that who evaluates again may have its own. By all
 * who multiply. */
template <class Tile>
RDT_DEVICE void rdt_tall_biases(const rdt_tall_args &g, uint32_t to, int threads) {
  const rdt_mma_args &p = g.w.p;
  for (int i = (int)threadIdx.x; i < 2 * Tile::BN; i += threads) {
    const int column = i % Tile::BN, of_bias = g.fold > 1 ? column % g.bias : column;
    const float bias = p.bias && column < p.n ? rdt_wide_load_as(p.bias, of_bias, p.bias_type) : 0.0f;
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + 4u * (uint32_t)i), "f"(bias) : "memory");
  }
  rdt_bar_sync(15, threads);
}

template <class T, class Tile, bool checked, class Hit>
RDT_DEVICE void rdt_tall_multiply(const rdt_tall_args &g, const rdt_tall_layout<Tile, checked> &at,
                                  rdt_tall_turns turns, int group, int groups, Hit &hit) {
  const rdt_mma_args &p = g.w.p;
  const int rounds = (p.k + RDT_TALL_K - 1) / RDT_TALL_K;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
  const uint32_t out = at.out + (uint32_t)((4 * group + warp) * g.outs) * RDT_TALL_PIECE;
  int done = group * rounds; /* rounds that this block has loaded before */
  const int next = group + 1 < groups ? group + 1 : 0;
  if (group == groups - 1) rdt_bar_arrive(1, 256); /* the first group begins */
  rdt_grid_await();
  if (__builtin_expect(g.w.extra, 0)) rdt_tall_biases<Tile>(g, at.biases, 128 * groups);
  const float rho2 = checked ? __ldg((const float *)p.rho2) : 0.0f;
  rdt_mbarrier_wait(at.ready, 0);
  float c[Tile::MT][Tile::held]; /* the first product of a tile adds to nothing */
  rdt_tall_clear(c);
  for (int tile = turns.first + group * turns.step; tile < turns.end; tile += groups * turns.step) {
    int slot = done % g.slots, before = slot;
    uint32_t parity = (uint32_t)(done / g.slots) & 1;
    done += groups * rounds;
    rdt_bar_sync(1 + group, 256); /* what lies ahead has come: a barrier knows its last two rounds apart, no more */
#pragma unroll 1
    for (int round = 0; round < rounds; round++) {
      const uint32_t stage = at.ring + (uint32_t)slot * Tile::slot;
      rdt_mbarrier_wait(at.full + 8 * (uint32_t)slot, parity);
      if constexpr (Hit::on) {
        hit.template operand<0>(tile, 0, round, stage);
        rdt_tma_fence();
        rdt_bar_sync(1 + groups + group, 128);
      }
      rdt_wgmma_begin();
      rdt_tall_round<T, Tile, checked>(c, stage, at.b + (uint32_t)round * rdt_tall_layout<Tile, checked>::stage,
                                       round > 0);
      rdt_wgmma_commit();
      if constexpr (Hit::on) {
        rdt_wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < Tile::MT; i++) rdt_wgmma_keep(c[i]);
        hit.accumulators(tile, 0, round, c);
      }
      if (round > 0) {
        rdt_wgmma_wait<1>();
        if (lane == 0) rdt_mbarrier_arrive_here(at.empty + 8 * (uint32_t)before);
      }
      before = slot;
      if (++slot == g.slots) slot = 0, parity ^= 1;
    }
    rdt_bar_arrive(1 + next, 256);
    rdt_wgmma_wait<0>();
    if (lane == 0) rdt_mbarrier_arrive_here(at.empty + 8 * (uint32_t)before);
#pragma unroll
    for (int i = 0; i < Tile::MT; i++) rdt_wgmma_keep(c[i]);
    if constexpr (Hit::on) hit.accumulators(tile, 0, -1, c);
    const int row0 = tile * Tile::BM + 16 * warp;
    if constexpr (checked && !Hit::on) { /* sums are stored as they are: that first */
      if (__builtin_expect(!g.w.extra && p.c_type != RDT_MMA_F32 && g.w.stored == p.n, 1)) {
        rdt_tall_store<T, Tile, false>(g, c, out, row0);
        rdt_tall_compare<T, Tile>(g, rdt_tall_sum<T, Tile>(c), row0, rho2, hit);
        continue;
      }
    }
    rdt_tall_terms<2 * Tile::MT> terms;
    if constexpr (checked) terms = rdt_tall_sum<T, Tile>(c);
    if (__builtin_expect(g.w.extra, 0)) rdt_tall_extra<Tile>(g, c, row0, at.biases);
    if (__builtin_expect(g.w.stored < p.n, 0)) rdt_tall_store_rest<T, Tile>(g, c, row0);
    if (__builtin_expect(p.c_type == RDT_MMA_F32, 0))
      rdt_tall_store<T, Tile, true>(g, c, out, row0);
    else
      rdt_tall_store<T, Tile, false>(g, c, out, row0);
    if constexpr (checked) rdt_tall_compare<T, Tile>(g, terms, row0, rho2, hit);
  }
  if (lane == 0) rdt_tma_wait();
}

template <class T, class Tile, bool checked, class Hit>
RDT_DEVICE void rdt_gemm_tall(const rdt_tall_args &g, Hit hit) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char memory[];
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), groups = (int)blockDim.x / 128;
  const rdt_tall_layout<Tile, checked> at(rdt_shared(memory), (g.w.p.k + RDT_TALL_K - 1) / RDT_TALL_K, g.slots,
                                          4 * groups * g.outs);
  rdt_tall_turns turns = {(int)blockIdx.x, g.w.tiles, (int)gridDim.x};
  if (checked && __builtin_expect(g.w.p.again != nullptr, 0)) { /* a block for each tile, or none */
    if (!rdt_called(g.w.p)) return;
    turns = {(int)blockIdx.y, (int)blockIdx.y + 1, 1};
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < g.slots; i++) rdt_mbarrier_init(at.full + 8 * i, 1), rdt_mbarrier_init(at.empty + 8 * i, 4);
    rdt_mbarrier_init(at.ready, 1);
    rdt_mbarrier_init_done();
    rdt_tma_prefetch(&g.w.a), rdt_tma_prefetch(&g.w.c);
  }
  __syncthreads();
  rdt_grid_admit();
  if (warp == 4 * groups) {
    if (threadIdx.x % 32 == 0) rdt_tall_load<Tile, checked>(g, at, turns);
  } else {
    rdt_tall_multiply<T, Tile, checked>(g, at, turns, warp / 4, groups, hit);
  }
#endif
}

#endif
