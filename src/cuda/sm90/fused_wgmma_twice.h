/* The end of fused_wgmma.h's kernels that keep bit-sums, of tiles with threads beside those that multiply. These have
 * the sums in registers: they leave a copy in shared memory, and then do what is short (fused_wgmma_alone.h): a warp
 * rounds its rows, puts them side by side, stores them, and compares their sums while they are on their way. The
 * threads beside them evaluate all of it once more, from the copy, with a bias of their own, and form the bit-sum of
 * what should be stored and that of the residual; all that they are told they have met before. A warp leaves what it
 * has summed: nobody waits for the other warps of a block. */
#ifndef RDT_CUDA_FUSED_WGMMA_TWICE_H
#define RDT_CUDA_FUSED_WGMMA_TWICE_H

/* What so many warps of a block leave, each by itself. */
RDT_DEVICE void rdt_wide_leave_warp(uint64_t *list, uint32_t warps, uint32_t warp, uint64_t x) {
  const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  x = rdt_warp_total(x);
  if (threadIdx.x % 32 == 0) list[block * warps + warp] = x;
}

/* ---- by the threads that multiplied ---- */

/* The thread's two rows, as they are stored, into the warp's own 2 KB. */
template <class T, class Tile, int ends, bool more, class Hit>
RDT_DEVICE void rdt_wide_round(const rdt_fused_args &p, const float (&c)[Tile::wide / 2],
                               const rdt_wide_later<Tile> &later, uint32_t sums, uint32_t residual, Hit hit) {
  typedef typename rdt_fused_format<T>::type format;
  constexpr int count = Tile::part / 8;
  constexpr bool rolled = ends != RDT_FUSED_WIDE_BOUND; /* long code that runs once comes from far */
  const uint32_t lane = threadIdx.x % 32, t = lane % 4, r = threadIdx.x / 32 * 16 + lane / 4;
  const uint32_t added = residual + r * 128, eighth = 16 * (r % 8) + 4 * t,
                 from = sums + 4u * (r * Tile::pitch + 2 * t);
#pragma unroll(rolled ? 1 : count / 2)
  for (uint32_t j = 0; j < count; j += 2) {
    uint2 y[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
      float v[4];
      if (rolled) { /* no registers that are found by a number */
        const float2 low = rdt_load_two_shared(from + 32 * (j + i)),
                     high = rdt_load_two_shared(from + 32 * (j + i) + 32u * Tile::pitch);
        v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
      } else {
#pragma unroll
        for (int k = 0; k < 4; k++) v[k] = c[4 * (j + i) + k];
      }
      uint2 rest = {rdt_wide_nothing, rdt_wide_nothing};
      if (more && rdt_wide_added<ends>(p)) {
        const uint32_t at = added + (eighth ^ 16 * (j + i));
        rest.x = rdt_load4_shared(at), rest.y = rdt_load4_shared(at + 1024);
      }
      if constexpr (Hit::on) hit.taken_pairs(blockIdx.y * Tile::BM + r, blockIdx.x * Tile::BN + 8 * (j + i) + 2 * t, v);
      const float2 two =
          format::wide(rolled ? later.two(p, (int)(blockIdx.x * Tile::BN + 8 * (j + i) + 2 * t)) : later.bias[j + i]);
      const float bias[4] = {two.x, two.y, two.x, two.y};
      y[i] = rdt_wide_finish<T, ends, more>(p, later.bound, v, bias, rest);
    }
    rdt_stmatrix4(later.put ^ 16u * j, y[0].x, y[0].y, y[1].x, y[1].y);
  }
}

/* A row's sixteen bytes a thread, four rows of the warp at a time. */
template <class Tile, class Hit>
RDT_DEVICE void rdt_wide_store_rows(const rdt_wide_later<Tile> &p, Hit hit) {
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, first = (int)blockIdx.y * Tile::BM + 16 * warp,
            column = (int)blockIdx.x * Tile::BN + 8 * (lane % 8), left = p.m - first - lane / 8;
#pragma unroll
  for (int row = 0; row < 16; row += 4) {
    uint32_t v[4];
    rdt_load_shared(v, (p.take ^ 16u * (uint32_t)(row % 8)) + 128u * (uint32_t)row);
    if constexpr (Hit::on) {
      uint4 y = {v[0], v[1], v[2], v[3]};
      hit.stored((uint32_t)(first + lane / 8 + row), column, y);
      v[0] = y.x, v[1] = y.y, v[2] = y.z, v[3] = y.w;
    }
    if (row < left && column < p.n) rdt_wide_store16(p.to + row * (int)p.pitch, v);
  }
}

template <class T, class Tile, int ends, class Hit>
RDT_DEVICE void rdt_wide_twice(const rdt_fused_wide_args &g, float (&c)[Tile::wide / 2],
                               const rdt_wide_loaded<Tile> &loaded, const rdt_wide_later<Tile> &later, uint32_t sums,
                               uint32_t residual, uint32_t added, uint32_t stand, Hit hit) {
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = warp * 16 + lane / 4;
#pragma unroll
  for (uint32_t j = 0; j < Tile::part / 8; j++)
#pragma unroll
    for (uint32_t h = 0; h < 2; h++)
      rdt_store8_shared(sums + 4u * ((r + 8 * h) * Tile::pitch + 8 * j + 2 * (lane % 4)), c[4 * j + 2 * h],
                        c[4 * j + 2 * h + 1]);
  loaded.leave(sums + (uint32_t)Tile::loaded_at);
  rdt_mbarrier_arrive_here(stand);
  if (g.f.residual) rdt_mbarrier_wait(added, 0);
  if (rdt_wide_adds<ends> || g.f.residual)
    rdt_wide_round<T, Tile, ends, true>(g.f, c, later, sums, residual, hit);
  else if constexpr (!rdt_wide_adds<ends>)
    rdt_wide_round<T, Tile, ends, false>(g.f, c, later, sums, residual, hit);
  __syncwarp();
  rdt_wide_store_rows<Tile>(later, hit);
  rdt_wide_alone_rows<T, Tile>(g, c, later, hit);
}

/* ---- by the threads beside them ---- */

/* The bit-sum of what was loaded, of the bytes' sums that the others have left. */
template <class Tile>
RDT_DEVICE void rdt_wide_again_loaded(const rdt_fused_wide_args &g, uint32_t sums) {
  const uint32_t me = threadIdx.x - Tile::threads;
  uint64_t x = 0;
#pragma unroll
  for (uint32_t i = me; i < Tile::threads; i += Tile::storers) {
    int d[4];
    rdt_load_shared(d, sums + (uint32_t)Tile::loaded_at + 16 * i);
    x += rdt_wide_loaded<Tile>::bits(g, d, (int)(blockIdx.y * Tile::BM + i / 32 * 16 + i % 32 / 4));
  }
  rdt_wide_leave_warp(g.loaded, Tile::storers / 32, me / 32, x);
}

/* Met before it is needed. */
RDT_DEVICE void rdt_wide_pin(uint32_t &x) {
  asm volatile("" : "+r"(x));
}
RDT_DEVICE void rdt_wide_pin(uint64_t *&x) {
  asm volatile("" : "+l"(x));
}

/* Words of rows that lie so many words apart, by a thread that has the same ones of each, four at most. */
struct rdt_wide_words {
  uint64_t plain, placed, before; /* before: of all rows up to each */
  template <int count>
  __device__ __forceinline__ void add(const uint32_t (&w)[count]) {
#pragma unroll
    for (uint32_t i = 0; i < count; i++) plain += w[i], placed += (uint64_t)w[i] * i;
    before += plain;
  }
  __device__ __forceinline__ uint64_t sum(uint32_t number, uint32_t each, uint32_t rows) const {
    return plain + (plain * number + placed + (plain * rows - before) * each) * 0x3c6ef37200000002u;
  }
};

template <class T, class Tile>
struct rdt_wide_beside {
  static constexpr uint32_t warps = Tile::storers / 32;
  uint32_t row, column, left; /* left: rows of the result from there on */
  uint32_t bound, out, read;  /* out, read: words of a row */
  uint32_t bias[4];           /* of eight neighbours, or of four */

  template <int words>
  __device__ __forceinline__ void ask(const rdt_fused_args &p) {
#pragma unroll
    for (int i = 0; i < words; i++) bias[i] = 0;
    left = (int)column < p.n && (int)row < p.m ? (uint32_t)p.m - row : 0u;
    if (p.bias && left) {
      const uint16_t *from = (const uint16_t *)p.bias + column;
      if constexpr (words == 4)
        asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(bias[0]), "=r"(bias[1]), "=r"(bias[2]), "=r"(bias[3])
                     : "l"(from)
                     : "memory");
      else
        asm volatile("ld.global.v2.b32 {%0,%1}, [%2];" : "=r"(bias[0]), "=r"(bias[1]) : "l"(from) : "memory");
    }
    bound = rdt_wide_bound<T>(p), out = (uint32_t)p.ldo / 2, read = (uint32_t)p.ldr / 2;
    rdt_wide_pin(left), rdt_wide_pin(bound), rdt_wide_pin(out), rdt_wide_pin(read);
  }
};

enum { RDT_WIDE_TOGETHER = 2 }; /* rows of a thread at once */

template <class T, class Tile, int ends, bool more>
RDT_DEVICE void rdt_wide_evaluate(const rdt_fused_args &p, const rdt_wide_beside<T, Tile> &b, uint32_t r0,
                                  uint32_t sums, uint32_t residual, uint64_t *bits, uint64_t *read) {
  typedef typename rdt_fused_format<T>::type format;
  constexpr uint32_t turns = Tile::BM / rdt_wide_beside<T, Tile>::warps / 4,
                     together = ends == RDT_FUSED_WIDE_BOUND ? RDT_WIDE_TOGETHER : 1;
  const uint32_t me = threadIdx.x - Tile::threads, eight = me % 8, warp = me / 32;
  const bool swapped = eight >= 4; /* banks differ for all that load at once */
  const uint32_t first = swapped ? 16u : 0u, at = sums + 4u * (r0 * Tile::pitch + 8 * eight),
                 added = residual + r0 * 128;
  rdt_wide_words wrote = {0, 0, 0}, found = {0, 0, 0};
  float bias[2][4];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const uint32_t one = swapped != (h == 1) ? b.bias[2] : b.bias[0],
                   other = swapped != (h == 1) ? b.bias[3] : b.bias[1];
    const float2 low = format::wide(one), high = format::wide(other);
    bias[h][0] = low.x, bias[h][1] = low.y, bias[h][2] = high.x, bias[h][3] = high.y;
  }
#pragma unroll 1
  for (uint32_t turn = 0; turn < turns; turn += together) {
#pragma unroll
    for (uint32_t i = 0; i < together; i++) {
      const uint32_t row = 4 * (turn + i);
      float v[2][4];
      uint32_t r[4] = {rdt_wide_nothing, rdt_wide_nothing, rdt_wide_nothing, rdt_wide_nothing};
      rdt_load_shared(v[0], at + 4u * row * Tile::pitch + first);
      rdt_load_shared(v[1], at + 4u * row * Tile::pitch + (first ^ 16u));
      if (more && rdt_wide_added<ends>(p)) {
        rdt_load_shared(r, added + row * 128 + 16 * ((eight ^ (r0 + row)) % 8));
        found.add(r);
      }
      const uint2 low = make_uint2(r[0], r[1]), high = make_uint2(r[2], r[3]);
      const uint2 y0 = rdt_wide_finish<T, ends, more>(p, b.bound, v[0], bias[0], swapped ? high : low);
      const uint2 y1 = rdt_wide_finish<T, ends, more>(p, b.bound, v[1], bias[1], swapped ? low : high);
      uint32_t w[4] = {swapped ? y1.x : y0.x, swapped ? y1.y : y0.y, swapped ? y0.x : y1.x, swapped ? y0.y : y1.y};
#pragma unroll
      for (int k = 0; k < 4; k++) w[k] = row < b.left ? w[k] : 0u;
      wrote.add(w);
    }
  }
  rdt_wide_leave_warp(bits, b.warps, warp, wrote.sum(b.row * b.out + b.column / 2, 4 * b.out, turns));
  if (more && read)
    rdt_wide_leave_warp(read, b.warps, warp, found.sum(b.row * b.read + b.column / 2, 4 * b.read, turns));
}

/* A warp has rows of another quarter of the multiprocessor. */
template <class T, class Tile, int ends>
RDT_DEVICE void rdt_wide_again(const rdt_fused_wide_args &g, uint32_t sums, uint32_t residual, uint32_t added,
                               uint32_t stand) {
  constexpr uint32_t warps = rdt_wide_beside<T, Tile>::warps;
  const uint32_t me = threadIdx.x - Tile::threads, r0 = (me / 32 + 1) % warps * (Tile::BM / warps) + me % 32 / 8;
  const rdt_fused_args &p = g.f;
  uint64_t *bits = p.bits, *read = p.read;
  const bool more = p.residual != NULL, summed = g.loaded != NULL;
  rdt_wide_beside<T, Tile> b;
  if (!bits) return;
  b.row = blockIdx.y * Tile::BM + r0, b.column = blockIdx.x * Tile::BN + 8 * (me % 8);
  rdt_chain_wait(); /* before a bias is read */
  b.template ask<4>(p);
  rdt_wide_pin(bits), rdt_wide_pin(read);
  if (more) rdt_mbarrier_wait(added, 0);
  rdt_mbarrier_wait(stand, 0);
  if (rdt_wide_adds<ends> || more)
    rdt_wide_evaluate<T, Tile, ends, true>(p, b, r0, sums, residual, bits, read);
  else if constexpr (!rdt_wide_adds<ends>)
    rdt_wide_evaluate<T, Tile, ends, false>(p, b, r0, sums, residual, bits, read);
  if (summed) rdt_wide_again_loaded<Tile>(g, sums);
}

/* ---- tiles that blocks share ---- */

/* Four neighbours in each of so many rows of a thread, summed over all blocks. */
template <class T, class Tile, int rows>
struct rdt_wide_joined {
  typedef rdt_wide_walk<Tile, Tile::threads> walk;
  walk w;
  int top, column;
  float v[rows][4], check[rows][4];

  __device__ __forceinline__ rdt_wide_joined(const rdt_fused_wide_args &g)
      : w(g, (int)threadIdx.x), top((int)blockIdx.y * Tile::BM + w.first), column((int)blockIdx.x * Tile::BN + w.c) {}
  __device__ __forceinline__ int row(int i) const {
    return w.r + i * walk::step;
  }
  __device__ __forceinline__ void leave(uint32_t sums) const { /* for the threads beside */
#pragma unroll
    for (int i = 0; i < rows; i++) {
      if (row(i) >= w.count) continue;
      const uint32_t at = w.place(sums, row(i));
      rdt_store8_shared(at, v[i][0], v[i][1]), rdt_store8_shared(at + 8, v[i][2], v[i][3]);
    }
  }

  template <int ends, class Hit>
  __device__ __forceinline__ void put(const rdt_fused_wide_args &g, const rdt_wide_later<Tile> &later, uint32_t sums,
                                      uint32_t residual, Hit hit) const {
    typedef typename rdt_fused_format<T>::type format;
    constexpr bool rolled = ends != RDT_FUSED_WIDE_BOUND;
    const float2 one = format::wide(later.bias[0]), two = format::wide(later.bias[1]);
    const float bias[4] = {one.x, one.y, two.x, two.y};
#pragma unroll(rolled ? 1 : rows)
    for (int i = 0; i < rows; i++) {
      if (row(i) >= w.count || top + row(i) >= later.m || column >= later.n) continue;
      const uint2 rest = w.added(g.f, residual, g.each, row(i));
      float x[4];
      if (rolled) { /* no registers that are found by a number */
        rdt_load_shared(x, w.place(sums, row(i)));
      } else {
#pragma unroll
        for (int k = 0; k < 4; k++) x[k] = v[i][k];
      }
      if constexpr (Hit::on) hit.taken((uint32_t)(top + row(i)), column, x);
      uint2 y = rdt_wide_finish<T, ends, true>(g.f, later.bound, x, bias, rest);
      if constexpr (Hit::on) hit.stored((uint32_t)(top + row(i)), column, y);
      rdt_wide_store8(later.to + (int64_t)(top + row(i)) * later.pitch + 2 * w.c, y.x, y.y);
    }
  }

  template <class Hit>
  __device__ __forceinline__ void compare(const rdt_fused_wide_args &g, const rdt_wide_later<Tile> &later, Hit hit) {
    constexpr int fours = Tile::part / 4;
    const int tile = (int)blockIdx.x, lane = w.c / 4;
    float s[rows], c2[rows], e[rows];
    bool any = false, bad[rows];
#pragma unroll
    for (int i = 0; i < rows; i++) {
      s[i] = c2[i] = 0.0f, e[i] = T::expected(check[i]);
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const float x = column < later.n ? v[i][k] : 0.0f; /* no number's sum where A has NaN */
        s[i] = rdt_wide_minus(tile, w.c + k) ? s[i] - x : s[i] + x;
        c2[i] = fmaf(x, x, c2[i]);
      }
    }
#pragma unroll
    for (int d = 1; d < fours; d *= 2)
#pragma unroll
      for (int i = 0; i < rows; i++) {
        s[i] += __shfl_xor_sync(0xffffffffu, s[i], d);
        c2[i] += __shfl_xor_sync(0xffffffffu, c2[i], d);
        e[i] += __shfl_xor_sync(0xffffffffu, e[i], d);
      }
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const bool mine = lane < 4 && row(i) < w.count;
      if constexpr (Hit::on)
        if (row(i) < w.count) c2[i] = hit.squares(0, top + row(i), tile, c2[i]);
      const float d = s[i] - e[i];
      bad[i] = mine && !(d * d <= later.clearly * c2[i] && c2[i] < __int_as_float(0x7f800000));
      if constexpr (Hit::on) bad[i] |= mine && hit.watches(top + row(i), tile);
      any |= bad[i];
    }
    if (!__builtin_expect(__any_sync(0xffffffffu, any), 0)) return;
#pragma unroll
    for (int i = 0; i < rows; i++) {
      if (bad[i]) rdt_fused_doubt<T>(g, top + row(i), tile, Tile::part, s[i], c2[i], e[i], hit);
      __syncwarp();
    }
  }
};

template <class T, class Tile, int ends, int rows, class Hit>
RDT_DEVICE void rdt_wide_twice_of(const rdt_fused_wide_args &g, const rdt_wide_later<Tile> &later, uint32_t sums,
                                  uint32_t residual, uint32_t added, uint32_t stand, Hit hit) {
  rdt_wide_joined<T, Tile, rows> x(g);
  rdt_wide_gather<Tile, rows, (rows > 2 ? 2 : 4)>(x.w, x.w.r, g.f.splits, sums, x.v, x.check);
  x.leave(sums);
  rdt_cluster_leave(); /* what was loaded has been used */
  rdt_mbarrier_arrive_here(stand);
  if (g.f.residual) rdt_mbarrier_wait(added, 0);
  x.template put<ends>(g, later, sums, residual, hit);
  x.compare(g, later, hit);
}

template <class T, class Tile, int ends, class Hit>
RDT_DEVICE void rdt_wide_twice_joint(const rdt_fused_wide_args &g, const float (&c)[Tile::wide / 2],
                                     const rdt_wide_loaded<Tile> &loaded, const rdt_wide_later<Tile> &later,
                                     uint32_t sums, uint32_t residual, uint32_t added, uint32_t stand, Hit hit) {
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = warp * 16 + lane / 4;
#pragma unroll
  for (uint32_t i = 0; i < Tile::wide / 4; i++) /* with what checks them */
    rdt_store8_shared(sums + 4u * ((r + i % 2 * 8) * Tile::joint + i / 2 * 8 + 2 * (lane % 4)), c[2 * i], c[2 * i + 1]);
  rdt_cluster_arrive();
  rdt_bar_sync(1, Tile::threads); /* the same for what is the block's own, as racecheck follows it */
  rdt_cluster_wait();
  loaded.leave(sums + (uint32_t)Tile::loaded_at);
  if (g.f.splits < 4)
    rdt_wide_twice_of<T, Tile, ends, 4>(g, later, sums, residual, added, stand, hit);
  else
    rdt_wide_twice_of<T, Tile, ends, 2>(g, later, sums, residual, added, stand, hit);
  rdt_cluster_wait(); /* others have what they need of this block's */
}

/* By the threads beside those that multiply. */
template <class T, class Tile, int ends>
RDT_DEVICE void rdt_wide_again_joint(const rdt_fused_wide_args &g, uint32_t sums, uint32_t residual, uint32_t added,
                                     uint32_t stand) {
  typedef rdt_wide_walk<Tile, Tile::storers> walk;
  typedef typename rdt_fused_format<T>::type format;
  const rdt_fused_args &p = g.f;
  const uint32_t me = (threadIdx.x - Tile::threads + 32) % Tile::storers;
  const walk w(g, (int)me);
  uint64_t *bits = p.bits, *read = p.read;
  const bool more = p.residual != NULL;
  rdt_wide_beside<T, Tile> b;
  b.row = (uint32_t)((int)blockIdx.y * Tile::BM + w.first + w.r),
  b.column = (uint32_t)((int)blockIdx.x * Tile::BN + w.c);
  rdt_chain_wait();
  b.template ask<2>(p);
  rdt_wide_pin(bits), rdt_wide_pin(read);
  rdt_cluster_arrive();
  rdt_cluster_wait();
  rdt_cluster_leave();
  if (more) rdt_mbarrier_wait(added, 0);
  rdt_mbarrier_wait(stand, 0);
  if (bits) {
    const float2 one = format::wide(b.bias[0]), two = format::wide(b.bias[1]);
    const float bias[4] = {one.x, one.y, two.x, two.y};
    rdt_wide_words wrote = {0, 0, 0}, found = {0, 0, 0};
    uint32_t turns = 0;
#pragma unroll(ends == RDT_FUSED_WIDE_ANY ? 1 : 2)
    for (int r = w.r; r < w.count; r += walk::step, turns++) {
      float v[4];
      rdt_load_shared(v, w.place(sums, r));
      const uint2 rest = w.added(p, residual, g.each, r);
      const uint2 y = rdt_wide_finish<T, ends, true>(p, b.bound, v, bias, rest);
      const bool within = (uint32_t)(r - w.r) < b.left;
      const uint32_t words[2] = {within ? y.x : 0u, within ? y.y : 0u}, added_words[2] = {rest.x, rest.y};
      wrote.add(words), found.add(added_words);
    }
    rdt_wide_leave_warp(bits, b.warps, (threadIdx.x - Tile::threads) / 32,
                        wrote.sum(b.row * b.out + b.column / 2, walk::step * b.out, turns));
    if (more && read)
      rdt_wide_leave_warp(read, b.warps, (threadIdx.x - Tile::threads) / 32,
                          found.sum(b.row * b.read + b.column / 2, walk::step * b.read, turns));
    if (g.loaded) rdt_wide_again_loaded<Tile>(g, sums);
  }
  rdt_cluster_wait();
}

#endif
