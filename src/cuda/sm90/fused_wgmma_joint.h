/* Of fused_wgmma_body.h: tiles that blocks share. Those of a cluster have each a share of k. When all have multiplied,
 * each finishes some of the rows, whose sums come from the shared memory of all, in order: nothing goes through memory,
 * and what follows the product takes the less time the more blocks there are. */
#ifndef RDT_CUDA_FUSED_WGMMA_JOINT_H
#define RDT_CUDA_FUSED_WGMMA_JOINT_H

/* How so many threads go through a block's rows: each has four neighbours of a row, then of the row so many on. */
template <class Tile, int threads>
struct rdt_wide_walk {
  static constexpr int lanes = Tile::BN / 4, step = threads / lanes;
  int first, count; /* rows of the block */
  int r, c;         /* row of those, column of the tile */

  __device__ __forceinline__ rdt_wide_walk(const rdt_fused_wide_args &g, int me)
      : first((int)blockIdx.z * g.each), count(min(g.each, Tile::BM - first)), r(me / lanes), c(4 * (me % lanes)) {}
  __device__ __forceinline__ uint32_t beside(uint32_t sums, int row) const { /* what checks the part of the columns */
    return sums + 4u * (uint32_t)((first + row) * Tile::joint + c / Tile::part * Tile::wide + Tile::part);
  }
  __device__ __forceinline__ uint32_t place(uint32_t sums, int row) const {
    return beside(sums, row) - 4u * (uint32_t)(Tile::part - c % Tile::part);
  }
  /* As TMA left it; -0 where there is none. */
  __device__ __forceinline__ uint2 added(const rdt_fused_args &p, uint32_t residual, int each, int row) const {
    uint2 x = {rdt_wide_nothing, rdt_wide_nothing};
    if (!p.residual) return x;
    const uint32_t at =
        residual + (uint32_t)((c / 64 * each + row) * 128 + 16 * (c % 64 / 8 ^ row % 8) + 8 * (c / 4 % 2));
    asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(x.x), "=r"(x.y) : "r"(at) : "memory");
    return x;
  }
};

/* Four results of a row. rest: nothing is added where it is -0. */
template <class T, int ends, class Hit>
RDT_DEVICE void rdt_wide_put_four(const rdt_fused_args &p, int row, int column, float (&v)[4], const float (&bias)[4],
                                  uint2 rest, Hit hit) {
  if (row >= p.m || column >= p.n) return;
  if constexpr (Hit::on) hit.taken((uint32_t)row, column, v);
  uint2 y = rdt_wide_finish<T, ends, true>(p, rdt_wide_bound<T>(p), v, bias, rest);
  if constexpr (Hit::on) hit.stored((uint32_t)row, column, y);
  *(uint2 *)((uint16_t *)p.out + (int64_t)row * p.ldo + column) = y;
}

/* Stores what stands in this block's rows; the thread's share of the residual's bit-sum is returned. */
template <class T, class Tile, int ends, int threads, class Hit>
RDT_DEVICE uint64_t rdt_wide_put_joint(const rdt_fused_wide_args &g, int me, uint32_t sums, uint32_t residual,
                                       Hit hit) {
  constexpr int together = ends == RDT_FUSED_WIDE_ANY ? 1 : 2;
  const rdt_fused_args &p = g.f;
  const rdt_wide_walk<Tile, threads> w(g, me);
  const int top = (int)blockIdx.y * Tile::BM + w.first, column = (int)blockIdx.x * Tile::BN + w.c;
  uint64_t plain = 0, placed = 0;
  float bias[4];
  rdt_load_shared(bias, sums + (uint32_t)Tile::rows_bytes + 4u * (uint32_t)w.c);
#pragma unroll 1
  for (int r = w.r; r < w.count; r += together * w.step) {
    float v[together][4];
    uint2 rest[together];
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int row = r + i * w.step < w.count ? r + i * w.step : r; /* another warp's may be written meanwhile */
      rdt_load_shared(v[i], w.place(sums, row));
      rest[i] = w.added(p, residual, g.each, row);
    }
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int row = r + i * w.step;
      if (row >= w.count) break;
      const uint32_t number = (uint32_t)(((top + row) * p.ldr + column) / 2);
      const uint64_t two = (uint64_t)rest[i].x + rest[i].y; /* zero beyond the last row and column */
      plain += two, placed += two * number + rest[i].y;
      rdt_wide_put_four<T, ends>(p, top + row, column, v[i], bias, rest[i], hit);
    }
  }
  return plain + placed * 0x3c6ef37200000002u;
}

/* So many rows of a thread from the r-th on, from so many blocks at once: their sums, each from all blocks, in order,
 * and of checked tiles what stands beside them, a block's by each of as many threads. */
template <class Tile, int rows, int together>
RDT_DEVICE void rdt_wide_gather(const rdt_wide_walk<Tile, Tile::threads> &w, int r, int splits, uint32_t sums,
                                float (&v)[rows][4], float (&check)[rows][4]) {
  constexpr int step = rdt_wide_walk<Tile, Tile::threads>::step;
  const int lane = w.c % Tile::part / 4;
#pragma unroll
  for (int i = 0; i < rows; i++) {
    v[i][0] = v[i][1] = v[i][2] = v[i][3] = 0.0f;
    if constexpr (!Tile::check) continue;
    check[i][0] = check[i][1] = check[i][2] = check[i][3] = 0.0f;
    if (lane < splits && r + i * step < w.count)
      rdt_load_cluster(check[i], rdt_cluster_place(w.beside(sums, r + i * step), (uint32_t)lane));
  }
#pragma unroll 1
  for (int s = 0; s < splits; s += together) {
    float more[together][rows][4];
#pragma unroll
    for (int j = 0; j < together; j++) {
      const uint32_t from = rdt_cluster_place(w.place(sums, r), (uint32_t)min(s + j, splits - 1));
#pragma unroll
      for (int i = 0; i < rows; i++) {
        if (s + j < splits && r + i * step < w.count)
          rdt_load_cluster(more[j][i], from + 4u * (uint32_t)(i * step * Tile::joint));
        else
          more[j][i][0] = more[j][i][1] = more[j][i][2] = more[j][i][3] = 0.0f;
      }
    }
#pragma unroll
    for (int j = 0; j < together; j++)
#pragma unroll
      for (int i = 0; i < 4 * rows; i++) v[i / 4][i % 4] = rdt_add(v[i / 4][i % 4], more[j][i / 4][i % 4]);
  }
}

/* All of a thread's rows. They are left in the block's own shared memory, whose rows nobody else reads. */
template <class T, class Tile, int rows, int together>
RDT_DEVICE void rdt_wide_join(const rdt_fused_wide_args &g, uint32_t sums) {
  typedef rdt_wide_walk<Tile, Tile::threads> walk;
  const walk w(g, (int)threadIdx.x);
  const int lane = w.c % Tile::part / 4;
#pragma unroll 1
  for (int r = w.r; r < w.count; r += rows * walk::step) {
    float v[rows][4], check[rows][4];
    rdt_wide_gather<Tile, rows, together>(w, r, g.f.splits, sums, v, check);
#pragma unroll
    for (int i = 0; i < rows; i++) {
      float e = 0.0f;
      if constexpr (Tile::check) {
        e = T::expected(check[i]);
#pragma unroll
        for (int d = 1; d < RDT_FUSED_WIDE_SPLITS && d < Tile::part / 4; d *= 2)
          e += __shfl_xor_sync(0xffffffffu, e, d);
      }
      const int row = r + i * walk::step;
      if (row >= w.count) break;
      const uint32_t at = w.place(sums, row);
      rdt_store8_shared(at, v[i][0], v[i][1]), rdt_store8_shared(at + 8, v[i][2], v[i][3]);
      if (Tile::check && lane == (int)blockIdx.z) /* who has read what was there */
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(w.beside(sums, row)), "f"(e) : "memory");
    }
  }
}

/* The block's rows against what stands beside them, and all that follows once more. What is summed is what is
 * evaluated: a sum that changes before is seen by the one, after by the other. */
template <class T, class Tile, int ends, class Hit>
RDT_DEVICE void rdt_wide_verify_joint(const rdt_fused_wide_args &g, const rdt_wide_loaded<Tile> &loaded,
                                      int top_of_thread, uint32_t sums, uint32_t residual, uint64_t read, Hit hit) {
  typedef rdt_wide_walk<Tile, Tile::threads> walk;
  constexpr int together = ends == RDT_FUSED_WIDE_ANY ? 1 : 2, of_part = Tile::part / 4;
  const rdt_fused_args &p = g.f;
  const walk w(g, (int)threadIdx.x);
  const int top = (int)blockIdx.y * Tile::BM + w.first, column = (int)blockIdx.x * Tile::BN + w.c;
  const int tile = (int)blockIdx.x * Tile::parts + w.c / Tile::part, lane = w.c % Tile::part / 4;
  uint64_t plain = 0, placed = 0;
  unsigned minus = 0;
  float bias[4];
#pragma unroll
  for (int i = 0; i < 4; i++) minus |= (rdt_wide_minus(tile, w.c % Tile::part + i) ? 1u : 0u) << i;
  rdt_load_shared(bias, sums + (uint32_t)Tile::rows_bytes + 4u * (uint32_t)(Tile::BN + w.c));
#pragma unroll 1
  for (int r = w.r; r < w.count; r += together * walk::step) {
    float v[together][4], s[together], c2[together], e[together];
    uint2 rest[together];
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int row = r + i * walk::step;
      v[i][0] = v[i][1] = v[i][2] = v[i][3] = e[i] = 0.0f, rest[i] = make_uint2(0, 0);
      if (row >= w.count) continue; /* another warp's may be written meanwhile */
      rdt_load_shared(v[i], w.place(sums, row));
      rest[i] = w.added(p, residual, g.each, row);
      e[i] = __uint_as_float(rdt_load4_shared(w.beside(sums, row)));
    }
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int row = r + i * walk::step;
      s[i] = c2[i] = 0.0f;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        if (column >= p.n) v[i][k] = 0.0f; /* no number's sum where A has NaN */
        s[i] += __uint_as_float(__float_as_uint(v[i][k]) ^ (minus >> k & 1u) << 31);
        c2[i] = fmaf(v[i][k], v[i][k], c2[i]);
      }
      if (!p.bits || row >= w.count || top + row >= p.m || column >= p.n) continue;
      const uint2 y = rdt_wide_finish<T, ends, true>(p, rdt_wide_bound<T>(p), v[i], bias, rest[i]);
      const uint64_t two = (uint64_t)y.x + y.y;
      plain += two, placed += two * (uint32_t)(((top + row) * p.ldo + column) / 2) + y.y;
    }
    rdt_wide_rows_join<of_part>(s, c2);
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int row = r + i * walk::step;
      const bool within = row < w.count;
      if constexpr (Hit::on)
        if (within) c2[i] = hit.squares(0, top + row, tile, c2[i]);
      const float d = s[i] - e[i];
      bool bad = within && !(d * d <= g.clearly * c2[i] && c2[i] < __int_as_float(0x7f800000));
      if constexpr (Hit::on) bad |= within && hit.watches(top + row, tile);
      if (__builtin_expect(__any_sync(0xffffffffu, bad), 0)) {
        if (bad && lane < 4) rdt_fused_doubt<T>(g, top + row, tile, Tile::part, s[i], c2[i], e[i], hit);
        __syncwarp();
      }
    }
  }
  const unsigned index = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  uint64_t x[3] = {plain + placed * 0x3c6ef37200000002u, g.loaded ? loaded.bits(g, top_of_thread) : 0, read};
  uint64_t *const to[3] = {p.bits + index, g.loaded ? g.loaded + index : NULL,
                           p.residual && !Tile::storers && p.read ? p.read + index : NULL};
  if (p.bits) rdt_wide_leave<1, 0, Tile::threads>(x, to);
}

/* By the threads that multiplied, when the sums of all blocks stand. */
template <class T, class Tile, int ends, class Hit>
RDT_DEVICE void rdt_wide_end_joint(const rdt_fused_wide_args &g, const rdt_wide_loaded<Tile> &loaded, int top_of_thread,
                                   uint32_t sums, uint32_t residual, uint32_t stand, Hit hit) {
  /* The same threads store rows of another warp; unchecked ones, which nobody stores again, what they have left. */
  constexpr int other = Tile::check ? Tile::threads / 2 : 0;
  uint64_t read = 0;
  if (g.f.splits == 2)
    rdt_wide_join<T, Tile, 4, 2>(g, sums);
  else
    rdt_wide_join<T, Tile, 2, 4>(g, sums);
  rdt_cluster_leave(); /* what was loaded has been used */
  if constexpr (Tile::storers > 0) {
    rdt_mbarrier_arrive_here(stand);
    __syncwarp();
  } else {
    if (Tile::check) rdt_bar_sync(1, Tile::threads);
    read = rdt_wide_put_joint<T, Tile, ends, Tile::threads>(g, (int)((threadIdx.x + other) % Tile::threads), sums,
                                                            residual, hit);
  }
  if constexpr (Tile::check) rdt_wide_verify_joint<T, Tile, ends>(g, loaded, top_of_thread, sums, residual, read, hit);
}

/* By the threads beside those that multiply. */
template <class T, class Tile, int ends, class Hit>
RDT_DEVICE void rdt_wide_store_joint(const rdt_fused_wide_args &g, uint32_t sums, uint32_t residual, uint32_t added,
                                     uint32_t stand, Hit hit) {
  const rdt_fused_args &p = g.f;
  rdt_cluster_arrive();
  rdt_cluster_wait();
  rdt_cluster_leave();
  if (p.residual) rdt_mbarrier_wait(added, 0);
  rdt_mbarrier_wait(stand, 0);
  uint64_t x[1] = {
      rdt_wide_put_joint<T, Tile, ends, Tile::storers>(g, (int)threadIdx.x - Tile::threads, sums, residual, hit)};
  uint64_t *const to[1] = {p.read + (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x};
  if (p.residual && p.read) rdt_wide_leave<2, Tile::threads, Tile::storers>(x, to);
  rdt_cluster_wait();
}

#endif
