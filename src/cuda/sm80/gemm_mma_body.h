/* Products on mma.sync (of f32, on the CUDA cores with the same fragments), operands through shared memory in the
 * background (cp.async); accumulators f32, f64 or s32.
 *
 * A block has a tile of C and a run of k; its warps share the tile, and where the tile is small each stage's k as well.
 * What warps and blocks have summed is added in a fixed order: the bits of a result depend on nothing but the problem
 * and the tile. Blocks that share a tile count themselves in, and the last one adds what all have left.
 *
 * The checks read the fragments that the products are made of, in registers; no kernel loads or stores more for
 * them than one number a column group, and with SUMS one number a row and block. Nothing is written where nothing is
 * wrong. Injecting instantiations have a Hit that is on. */
#ifndef RDT_CUDA_GEMM_MMA_BODY_H
#define RDT_CUDA_GEMM_MMA_BODY_H

#include "cuda/ptx/chain.h"
#include "cuda/sm80/gemm_mma_checks.h"

/* ---- the loop over k ---- */

/* Where the fragments of a warp lie in a stage. */
template <class T, class Tile, bool shuffled, bool kept = T::bytes == 2>
struct rdt_places {
  int row, column, part;
  __device__ __forceinline__ rdt_places(int row_, int column_, int part_) : row(row_), column(column_), part(part_) {}
  __device__ __forceinline__ void load(rdt_fragments<T, Tile> &f, uint32_t stage, int step) const {
    const int k = (part * Tile::steps + step) * T::k;
#pragma unroll
    for (int i = 0; i < Tile::MT; i++) T::template load_a<Tile::a_chunks>(f.a[i], stage, row * Tile::WM + 16 * i, k);
#pragma unroll
    for (int j = 0; j < Tile::NT; j += 2)
      T::template load_b<Tile::b_chunks>(f.b[j], f.b[j + 1], stage + Tile::a_bytes, k, column * Tile::WN + 8 * j);
  }
};

/* The same of 16 bits, worked out once: 16 rows on, chunks are swizzled alike. What comes from a shuffle is not worked
 * out anew in each round, where products wait for it; but it takes a while when a kernel begins. */
template <class Tile, int check>
RDT_DEVICE constexpr bool rdt_shuffles() {
  return Tile::rows * Tile::columns > 1 || rdt_of_thread(check) || (check == RDT_MMA_REPLICATE && Tile::MT > 1);
}

template <class T, class Tile, bool shuffled>
struct rdt_places<T, Tile, shuffled, true> {
  uint32_t a[Tile::steps], b[Tile::NT / 2];
  static __device__ __forceinline__ uint32_t kept(uint32_t x) {
    return shuffled ? __shfl_sync(0xffffffffu, x, threadIdx.x % 32) : x;
  }
  __device__ __forceinline__ rdt_places(int row, int column, int part) {
    const int lane = threadIdx.x % 32, k = part * Tile::steps * T::k, fragment_row = lane % (Tile::twofold ? 8 : 16);
#pragma unroll
    for (int s = 0; s < Tile::steps; s++) {
      const int at = T::template place_a<Tile::a_chunks>(row * Tile::WM + fragment_row, k / 8 + 2 * s + lane / 16);
      a[s] = kept(16u * (uint32_t)at);
    }
#pragma unroll
    for (int j = 0; j < Tile::NT / 2; j++) {
      const int at = T::template place_b<Tile::b_chunks>(k + lane % 16, column * Tile::NT + 2 * j + lane / 16);
      b[j] = kept(Tile::a_bytes + 16u * (uint32_t)at);
    }
  }
  __device__ __forceinline__ void load(rdt_fragments<T, Tile> &f, uint32_t stage, int step) const {
#pragma unroll
    for (int i = 0; i < Tile::MT; i++) T::load_a(f.a[i], stage + a[step] + (uint32_t)i * (16 * 16 * Tile::a_chunks));
#pragma unroll
    for (int j = 0; j < Tile::NT; j += 2)
      T::load_b(f.b[j], f.b[j + 1], stage + b[j / 2] + (uint32_t)step * (T::k * 16 * Tile::b_chunks));
  }
};

template <bool what>
struct rdt_constant {
  static constexpr bool value = what;
};

/* expecting: in the columns that hold parts of what rows should sum to, of so many checks. */
template <bool expecting, class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_warp_step(typename T::sum (&c)[Tile::MT][Tile::NT][4], rdt_extra<T, Tile, check> &x,
                              rdt_fragments<T, Tile> &f, int column, int expects, Hit &hit) {
  if constexpr (Hit::on) hit.fragments(f.a);
  if constexpr (expecting) { /* these columns are all there are */
    if (column == 0) {
#pragma unroll
      for (int j = 0; j < Tile::NT; j++)
        if (T::exact ? j < T::together : j % T::together == 0 && expects > j * 8 / RDT_MMA_PARTS_EACH) {
#pragma unroll
          for (int i = 0; i < Tile::MT; i++) T::mma(c[i][j], f.a[i], f.b[j]);
        }
    }
    rdt_norms<T, Tile, check>(x, f.a, column);
  } else {
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
#pragma unroll
      for (int j = 0; j < Tile::NT; j++) T::mma(c[i][j], f.a[i], f.b[j]);
    if constexpr (Hit::on) hit.accumulators(c);
    rdt_check_step<T, Tile, check, Hit>(x, f.a, f.b, hit);
  }
}

/* ---- what follows the loop ---- */

/* Is this the last of count blocks that come here? What they wrote before is seen by it. The ticket is 0 again then. */
RDT_DEVICE bool rdt_last(unsigned *ticket, unsigned count) {
  __shared__ unsigned before;
  __syncthreads();
  if (threadIdx.x == 0) before = rdt_count_in(ticket, count - 1);
  __syncthreads();
  const bool last = before == count - 1;
  __syncthreads();
  return last;
}

template <class R>
RDT_DEVICE rdt_four<R> rdt_add4(const rdt_four<R> &x, const rdt_four<R> &y) {
  rdt_four<R> z;
#pragma unroll
  for (int i = 0; i < 4; i++) z.v[i] = rdt_add(x.v[i], y.v[i]);
  return z;
}

template <class R>
RDT_DEVICE bool rdt_differ4(const rdt_four<R> &x, const rdt_four<R> &y) {
  return ((rdt_bits(x.v[0]) ^ rdt_bits(y.v[0])) | (rdt_bits(x.v[1]) ^ rdt_bits(y.v[1])) |
          (rdt_bits(x.v[2]) ^ rdt_bits(y.v[2])) | (rdt_bits(x.v[3]) ^ rdt_bits(y.v[3]))) != 0;
}

/* Four neighbours of a row: what the warps have summed; `again`: added twice, which the compiler does not know to be
 * the same. */
template <class R>
struct rdt_twice {
  rdt_four<R> v, w;
};

RDT_DEVICE float rdt_unknown(float x, uint32_t zero) {
  return __uint_as_float(__float_as_uint(x) ^ zero);
}
RDT_DEVICE double rdt_unknown(double x, uint32_t zero) {
  return __hiloint2double(__double2hiint(x) ^ (int)zero, __double2loint(x));
}
RDT_DEVICE int rdt_unknown(int x, uint32_t zero) {
  return x ^ (int)zero;
}

template <bool again, class R>
RDT_DEVICE rdt_twice<R> rdt_begin(const rdt_mma_args &p, const rdt_four<R> &v) {
  rdt_twice<R> x = {v, v};
  if constexpr (again) {
#pragma unroll
    for (int i = 0; i < 4; i++) x.w.v[i] = rdt_unknown(v.v[i], __float_as_uint(p.zero));
  }
  return x;
}

template <bool again, class R>
RDT_DEVICE void rdt_more(rdt_twice<R> &x, const rdt_four<R> &v) {
  x.v = rdt_add4(x.v, v);
  if constexpr (again) x.w = rdt_add4(x.w, v);
}

template <class T, class Tile, bool again>
RDT_DEVICE rdt_twice<typename T::sum> rdt_warps_sum(const rdt_mma_args &p, uint32_t sums, int row, int column) {
  rdt_four<typename T::sum> v;
  constexpr uint32_t size = sizeof(typename T::sum);
  rdt_load_shared(v.v, sums + size * (uint32_t)(row * Tile::pitch + column));
  rdt_twice<typename T::sum> x = rdt_begin<again>(p, v);
#pragma unroll
  for (int i = 1; i < Tile::WK; i++) {
    rdt_load_shared(v.v, sums + size * (uint32_t)((i * Tile::BM + row) * Tile::pitch + column));
    rdt_more<again>(x, v);
  }
  return x;
}

template <class T, class Tile>
RDT_DEVICE const typename T::sum *rdt_partial(const rdt_mma_args &p, int split) {
  const int64_t tile = ((int64_t)split * gridDim.y + blockIdx.y) * p.column_blocks + blockIdx.x;
  return (const typename T::sum *)p.partial + tile * (Tile::BM * Tile::BN);
}

template <class T, class Tile, bool again>
static __device__ __noinline__ rdt_twice<typename T::sum> rdt_splits_sum(const rdt_mma_args &p, int at) {
  rdt_four<typename T::sum> v;
  rdt_load_l2(v.v, rdt_partial<T, Tile>(p, 0) + at);
  rdt_twice<typename T::sum> x = rdt_begin<again>(p, v);
  for (int s = 1; s < p.splits; s++) {
    rdt_load_l2(v.v, rdt_partial<T, Tile>(p, s) + at);
    rdt_more<again>(x, v);
  }
  return x;
}

/* Sums that differ where they are the same. */
template <class R>
RDT_DEVICE void rdt_compare_twice(const rdt_mma_args &p, const rdt_twice<R> &x, int row, int column) {
  if (__builtin_expect(!rdt_differ4(x.v, x.w), 1)) return;
  const rdt_place_of place = {row, column, 1, 4, 0, p.k};
  rdt_complain(p.verdict, RDT_CUDA_CERTAIN, place, (float)x.v.v[0], (float)x.w.v[0], 0.0f, 0.0f);
}

/* ---- results ---- */

RDT_DEVICE float rdt_load_as(const void *p, int64_t at, int type) {
  if (type == RDT_MMA_F32) return ((const float *)p)[at];
  const uint32_t x = ((const uint16_t *)p)[at];
  return type == RDT_MMA_F16 ? rdt_f16::wide(x).x : rdt_bf16::wide(x).x;
}

/* Bias and residual of 16-bit products may be narrower than the accumulators; other types have them as those. */
template <class T>
RDT_DEVICE typename T::sum rdt_load_more(const void *p, int64_t at, int type) {
  if constexpr (T::bytes == 2)
    return rdt_load_as(p, at, type);
  else
    return ((const typename T::sum *)p)[at];
}

template <class T>
RDT_DEVICE typename T::sum rdt_scaled(const rdt_mma_args &p, bool residual, typename T::sum x) {
  if constexpr (T::exact)
    return x;
  else if constexpr (T::bytes == 8)
    return rdt_mul(residual ? p.beta64 : p.alpha64, x);
  else
    return rdt_mul(residual ? p.beta : p.alpha, x);
}

template <class T>
static __device__ __noinline__ rdt_four<typename T::sum> rdt_add_bias(const rdt_mma_args &p, int row, int column,
                                                                      rdt_four<typename T::sum> x) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (column + i < p.n) {
      if (p.bias) x.v[i] = rdt_add(x.v[i], rdt_load_more<T>(p.bias, column + i, p.bias_type));
      if (p.residual)
        x.v[i] =
            rdt_add(x.v[i], rdt_scaled<T>(p, true, rdt_load_more<T>(p.residual, row * p.ldr + column + i, p.c_type)));
      if (p.relu && x.v[i] < (typename T::sum)0) x.v[i] = 0; /* NaN stays */
    }
  return x;
}

/* Where a row ends, or neighbours have no common address. */
template <class T>
static __device__ __noinline__ void rdt_store_slowly(const rdt_mma_args &p, int64_t at, int count,
                                                     rdt_four<typename T::sum> x) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (i < count) {
      if constexpr (T::bytes == 2) {
        if (p.c_type != RDT_MMA_F32) {
          ((uint16_t *)p.c)[at + i] =
              (uint16_t)(p.c_type == RDT_MMA_F16 ? rdt_f16::narrow(x.v[i], 0.0f) : rdt_bf16::narrow(x.v[i], 0.0f));
          continue;
        }
      }
      ((typename T::sum *)p.c)[at + i] = x.v[i];
    }
}

template <class T>
RDT_DEVICE rdt_four<typename T::sum> rdt_epilogue4(const rdt_mma_args &p, int row, int column,
                                                   rdt_four<typename T::sum> x) {
#pragma unroll
  for (int i = 0; i < 4; i++) x.v[i] = rdt_scaled<T>(p, false, x.v[i]);
  if (__builtin_expect(p.bias || p.residual || p.relu, 0)) x = rdt_add_bias<T>(p, row, column, x);
  return x;
}

template <class T>
RDT_DEVICE void rdt_store4(const rdt_mma_args &p, int row, int column, const rdt_four<typename T::sum> &x) {
  const int64_t at = row * p.ldc + column;
  if (__builtin_expect(p.n - column < 4 || !p.c_aligned, 0)) {
    rdt_store_slowly<T>(p, at, min(p.n - column, 4), x);
    return;
  }
  if constexpr (T::bytes == 2) {
    if (p.c_type != RDT_MMA_F32) {
      *(uint2 *)((uint16_t *)p.c + at) =
          p.c_type == RDT_MMA_F16 ? make_uint2(rdt_f16::narrow(x.v[0], x.v[1]), rdt_f16::narrow(x.v[2], x.v[3]))
                                  : make_uint2(rdt_bf16::narrow(x.v[0], x.v[1]), rdt_bf16::narrow(x.v[2], x.v[3]));
      return;
    }
  }
  rdt_store_four((typename T::sum *)p.c + at, x.v[0], x.v[1], x.v[2], x.v[3]);
}

RDT_DEVICE float rdt_signed(float x, unsigned sign) {
  return __uint_as_float(__float_as_uint(x) ^ sign);
}
RDT_DEVICE double rdt_signed(double x, unsigned sign) {
  return __hiloint2double(__double2hiint(x) ^ (int)sign, __double2loint(x));
}
RDT_DEVICE int rdt_signed(int x, unsigned sign) {
  return sign ? rdt_less(0, x) : x;
}

/* Where sums of checks after the first lie: that of column block or, behind them, split `part`. */
RDT_DEVICE int64_t rdt_more_at(const rdt_mma_args &p, int set, int part, int row) {
  return ((int64_t)(set - 1) * (p.column_blocks + p.splits) + part) * p.m + row;
}

/* The sums of a row of the tile in those. */
template <class T, class Tile>
static __device__ __noinline__ void rdt_sum_more(const rdt_mma_args &p, int row, int column,
                                                 rdt_four<typename T::sum> raw) {
  typedef typename T::sum R;
  const float *turns = p.turns + column;
#pragma unroll 1
  for (int set = 1; set < p.sets; set++, turns += p.column_blocks * Tile::BN) {
    const float4 turn = __ldg((const float4 *)turns);
    const float w[4] = {turn.x, turn.y, turn.z, turn.w};
    R s = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) { /* beyond n they are zero */
      const R x = rdt_mul(raw.v[i], (R)w[i]);
      s = rdt_plus(s, rdt_signed(x, rdt_mma_sign((unsigned)(column + i))));
    }
#pragma unroll
    for (int d = 1; d < Tile::BN / 4; d *= 2) s = rdt_plus(s, __shfl_xor_sync(0xffffffffu, s, d));
    if (threadIdx.x % (Tile::BN / 4) == 0 && row < p.m) ((R *)p.more)[rdt_more_at(p, set, blockIdx.x, row)] = s;
  }
}

/* The signed sum of a row of the tile, and its squares, from the threads that hold it. */
template <class T, class Tile>
RDT_DEVICE void rdt_sum_row(const rdt_mma_args &p, int row, int column, const rdt_four<typename T::sum> &raw) {
  typedef typename T::sum R;
  R s = 0, c2 = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) { /* beyond n they are zero */
    s = rdt_plus(s, rdt_signed(raw.v[i], rdt_mma_sign((unsigned)(column + i))));
    if constexpr (!T::exact) c2 = fma(raw.v[i], raw.v[i], c2);
  }
#pragma unroll
  for (int d = 1; d < Tile::BN / 4; d *= 2) {
    s = rdt_plus(s, __shfl_xor_sync(0xffffffffu, s, d));
    if constexpr (!T::exact) c2 += __shfl_xor_sync(0xffffffffu, c2, d);
  }
  if (threadIdx.x % (Tile::BN / 4) == 0 && row < p.m) {
    rdt_store_pair((R *)p.sums + 2 * ((int64_t)blockIdx.x * p.m + row), s, c2);
  }
}

/* Leaves this block's part of a tile for the last of those that share it. Is it that one? */
template <class T, class Tile, bool again>
static __device__ __noinline__ bool rdt_share_tile(const rdt_mma_args &p, uint32_t sums) {
  typename T::sum *mine = (typename T::sum *)rdt_partial<T, Tile>(p, blockIdx.z);
#pragma unroll 1
  for (int at = threadIdx.x; at < Tile::BM * Tile::BN / 4; at += Tile::threads) {
    const int r = 4 * at / Tile::BN, c = 4 * at % Tile::BN;
    const rdt_twice<typename T::sum> x = rdt_warps_sum<T, Tile, again>(p, sums, r, c);
    rdt_store_four(mine + 4 * at, x.v.v[0], x.v.v[1], x.v.v[2], x.v.v[3]);
    if constexpr (again) rdt_compare_twice(p, x, (int)blockIdx.y * Tile::BM + r, (int)blockIdx.x * Tile::BN + c);
  }
  return rdt_last(p.tickets + blockIdx.y * p.column_blocks + blockIdx.x, (unsigned)p.splits);
}

template <class R>
RDT_DEVICE R rdt_sum_block(R x) { /* in a fixed order; the first thread has it */
  __shared__ R warps[32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x = rdt_plus(x, __shfl_down_sync(0xffffffffu, x, d));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  R total = 0;
  if (threadIdx.x == 0)
    for (unsigned w = 0; w < blockDim.x / 32; w++) total = rdt_plus(total, warps[w]);
  __syncthreads();
  return total;
}

struct rdt_no_totals {};

/* Of a tile: its sum, and the sums of its columns as they are stored, after the activation; with squares. A thread has
 * four columns in all of its rows. */
template <class T, class Tile>
struct rdt_totals {
  float sum, squares, column[4], column2[4];
  static_assert(4 * Tile::threads % Tile::BN == 0, "the same columns in each turn");

  __device__ __forceinline__ void add(const rdt_mma_args &p, int column0, const rdt_four<float> &raw,
                                      const rdt_four<float> &x) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      sum += raw.v[i], squares = fmaf(raw.v[i], raw.v[i], squares); /* beyond n they are zero */
      const float y = p.c_type == RDT_MMA_F16    ? rdt_f16::wide(rdt_f16::narrow(x.v[i], 0.0f)).x
                      : p.c_type == RDT_MMA_BF16 ? rdt_bf16::wide(rdt_bf16::narrow(x.v[i], 0.0f)).x
                                                 : x.v[i];
      if (column0 + i < p.n) column[i] += y, column2[i] = fmaf(y, y, column2[i]);
    }
  }
  __device__ __forceinline__ void put(const rdt_mma_args &p, uint32_t) {
    extern __shared__ __align__(128) unsigned char memory[];
    float *all = (float *)memory; /* the sums of the warps are done with */
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++)
      all[4 * threadIdx.x + i] = column[i], all[4 * (Tile::threads + threadIdx.x) + i] = column2[i];
    __syncthreads();
    const int at = (int)blockIdx.x * Tile::BN + (int)threadIdx.x;
    if (threadIdx.x < Tile::BN && at < p.n) {
      float s = 0.0f, s2 = 0.0f;
      for (int i = threadIdx.x; i < 4 * Tile::threads; i += Tile::BN) s += all[i], s2 += all[4 * Tile::threads + i];
      rdt_store_pair(p.next + 2 * ((int64_t)blockIdx.y * p.n + at), s, s2);
    }
    const float s = rdt_sum_block(sum), s2 = rdt_sum_block(squares);
    if (threadIdx.x == 0) rdt_store_pair((float *)p.sums + 2 * (blockIdx.y * p.column_blocks + blockIdx.x), s, s2);
  }
};

template <class T, class Tile, int check>
struct rdt_totals_of {
  typedef rdt_no_totals type;
};
template <class T, class Tile>
struct rdt_totals_of<T, Tile, RDT_MMA_CLASSIC> {
  typedef rdt_totals<T, Tile> type;
};

/* Whether this block wrote the tile: of those that share it, the last one. */
template <class T, class Tile, int check, class Hit>
RDT_DEVICE bool rdt_store_tile(const rdt_mma_args &p, uint32_t sums, Hit &hit) {
  constexpr int groups = Tile::BM * Tile::BN / 4;
  static_assert(groups % 32 == 0, "whole warps");
  constexpr bool again = rdt_of_thread(check) || check == RDT_MMA_REPLICATE;
  if (p.splits > 1 && !rdt_share_tile<T, Tile, again>(p, sums)) return false;
  typename rdt_totals_of<T, Tile, check>::type totals = {};
#pragma unroll 1 /* short code, see rdt_passes */
  for (int at = threadIdx.x; at < groups; at += Tile::threads) {
    const int r = 4 * at / Tile::BN, c = 4 * at % Tile::BN;
    const int row = (int)blockIdx.y * Tile::BM + r, column = (int)blockIdx.x * Tile::BN + c;
    rdt_twice<typename T::sum> both =
        p.splits > 1 ? rdt_splits_sum<T, Tile, again>(p, 4 * at) : rdt_warps_sum<T, Tile, again>(p, sums, r, c);
    if constexpr (Hit::on) hit.reduced(row, column, both.v.v);
    const rdt_four<typename T::sum> v = both.v;
    if constexpr (check == RDT_MMA_SUMS) {
      rdt_sum_row<T, Tile>(p, row, column, v);
      if constexpr (!T::exact)
        if (__builtin_expect(p.sets > 1, 0)) rdt_sum_more<T, Tile>(p, row, column, v);
    }
    if (row >= p.m || column >= p.n) continue;
    const rdt_four<typename T::sum> x = rdt_epilogue4<T>(p, row, column, v);
    rdt_store4<T>(p, row, column, x);
    if constexpr (check == RDT_MMA_CLASSIC) totals.add(p, column, v, x);
    if constexpr (again) rdt_compare_twice(p, both, row, column);
  }
  if constexpr (check == RDT_MMA_CLASSIC) totals.put(p, sums);
  return true;
}

/* ---- sums of rows ---- */

/* What the rows of this block of k should sum to, from the parts that lie beside each other. */
template <class T, class Tile>
RDT_DEVICE void rdt_store_expected(const rdt_mma_args &p, uint32_t sums, const typename T::sum *norm) {
  typedef typename T::sum R;
  for (int r = threadIdx.x; r < Tile::BM; r += Tile::threads) {
    const int row = (int)blockIdx.y * Tile::BM + r;
    if (row >= p.m) continue;
    R a2 = 0;
    if constexpr (!T::exact)
      for (int w = 0; w < Tile::WK; w++) a2 += norm[w * Tile::BM + r];
    rdt_store_pair((R *)p.sums + 2 * (((int64_t)p.column_blocks + blockIdx.z) * p.m + row),
                   T::expected(rdt_warps_sum<T, Tile, false>(p, sums, r, 0).v.v), a2);
    for (int set = 1; set < p.sets; set++)
      ((R *)p.more)[rdt_more_at(p, set, p.column_blocks + (int)blockIdx.z, row)] =
          T::expected(rdt_warps_sum<T, Tile, false>(p, sums, r, RDT_MMA_PARTS_EACH * set).v.v);
  }
}

/* Numbers that blocks have left of a row, one every so many: by `each` neighbouring threads, who all get the sum. */
template <int each, class R>
RDT_DEVICE R rdt_row_sum(const R *from, int64_t next, int count, bool there) {
  R s = 0;
  if (there) {
#pragma unroll 4
    for (int b = (int)threadIdx.x % each; b < count; b += each) s = rdt_plus(s, __ldcg(from + b * next));
  }
#pragma unroll
  for (int d = each / 2; d > 0; d /= 2) s = rdt_plus(s, __shfl_xor_sync(0xffffffffu, s, d));
  return s;
}
template <int each, class R>
RDT_DEVICE void rdt_row_pair(R (&s)[2], const R *from, int64_t next, int count, bool there) {
  s[0] = s[1] = 0;
  if (there) {
#pragma unroll 4
    for (int b = (int)threadIdx.x % each; b < count; b += each) {
      R v[2];
      rdt_load_pair(v, from + b * next);
      s[0] = rdt_plus(s[0], v[0]), s[1] = rdt_plus(s[1], v[1]);
    }
  }
#pragma unroll
  for (int d = each / 2; d > 0; d /= 2)
#pragma unroll
    for (int i = 0; i < 2; i++) s[i] = rdt_plus(s[i], __shfl_xor_sync(0xffffffffu, s[i], d));
}

/* The checks of a row after the first. Weights are 1 at most: the magnitudes are those of the first. */
template <class T, int each>
static __device__ __noinline__ void rdt_check_more(const rdt_mma_args &p, int row, bool there, typename T::sum c2,
                                                   typename T::sum a2, typename T::sum q) {
  typedef typename T::sum R;
#pragma unroll 1
  for (int set = 1; set < p.sets; set++) {
    const R *sums = (const R *)p.more + rdt_more_at(p, set, 0, row);
    const R s = rdt_row_sum<each>(sums, p.m, p.column_blocks, there);
    const R e = rdt_row_sum<each>(sums + (int64_t)p.column_blocks * p.m, p.m, p.splits, there);
    if (!there || threadIdx.x % each != 0 || rdt_passes(p.bound, s, e, q)) continue;
    const rdt_place_of at = {row, -1, 1, p.n, 0, p.k};
    rdt_compare_sums(p, at, s, c2, e, a2, q);
  }
}

/* By the last block of these rows; of one scalar, by the last of all. */
template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_check_rows(const rdt_mma_args &p, Hit &hit) {
  typedef typename T::sum R;
  constexpr int each = Tile::threads / Tile::BM; /* threads of a row */
  static_assert(each >= 1 && each <= 32 && Tile::threads % Tile::BM == 0, "neighbours of one warp");
  unsigned *tickets = p.tickets + gridDim.y * p.column_blocks;
  if (!rdt_last(tickets + blockIdx.y, (unsigned)(p.column_blocks + p.splits))) return;
  R total[4] = {0, 0, 0, 0};
  R rho2 = 0, seen[2], expected[2];
  if constexpr (!T::exact) rho2 = *(const R *)p.rho2;
  const int row = (int)blockIdx.y * Tile::BM + (int)threadIdx.x / each;
  const bool there = row < p.m, first = there && threadIdx.x % each == 0;
  const R *sums = (const R *)p.sums + 2 * (int64_t)row;
  rdt_row_pair<each>(seen, sums, 2 * (int64_t)p.m, p.column_blocks, there);
  rdt_row_pair<each>(expected, sums + 2 * (int64_t)p.column_blocks * p.m, 2 * (int64_t)p.m, p.splits, there);
  const R s = seen[0], c2 = seen[1], e = expected[0];
  R a2 = expected[1];
  if (p.scalar) {
    const unsigned sign = rdt_mma_sign((unsigned)row);
    if (first) total[0] = rdt_signed(s, sign), total[1] = rdt_signed(e, sign), total[2] = c2, total[3] = a2;
  } else {
    const rdt_place_of at = {row, -1, 1, p.n, 0, p.k};
    if constexpr (!T::exact) a2 += rdt_a2_floor(p.bound, (R)0);
    R q = (R)(a2 * rho2);
    if constexpr (!T::exact)
      if (__builtin_expect(p.sets > 1, 0)) rdt_check_more<T, each>(p, row, there, c2, a2, q);
    if (first && (Hit::on || !rdt_passes(p.bound, s, e, q))) {
      if constexpr (Hit::on) q = hit.squares_of_row(row, q);
      const R tau = rdt_compare_sums(p, at, s, c2, e, a2, q);
      if constexpr (Hit::on) hit.bound_of_row(row, (double)tau);
    }
  }
  if (!p.scalar) return;
  for (int i = 0; i < 4; i++) {
    const R x = rdt_sum_block(total[i]);
    if (threadIdx.x == 0) ((R *)p.scalars)[4 * blockIdx.y + i] = x;
  }
  if (!rdt_last(tickets + gridDim.y, gridDim.y) || threadIdx.x != 0) return;
  R sum[4] = {0, 0, 0, 0}; /* of sums, of what was expected, of squares, of |a|^2 */
  for (unsigned b = 0; b < gridDim.y; b++) {
    R v[4];
    rdt_load_l2(v, (const R *)p.scalars + 4 * b);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = rdt_plus(sum[i], v[i]);
  }
  if constexpr (!T::exact) sum[3] += rdt_a2_floor(p.bound, (R)0);
  const rdt_place_of at = {-1, -1, p.m, p.n, 0, p.k};
  R q = (R)(sum[3] * rho2);
  if constexpr (Hit::on) q = hit.squares_of_row(-1, q);
  const R tau = rdt_compare_sums(p, at, sum[0], sum[2], sum[1], sum[3], q);
  if constexpr (Hit::on) hit.bound_of_row(-1, (double)tau);
}

/* ---- a block ---- */

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_gemm_mma(const rdt_mma_args &p, Hit hit) {
  typedef typename T::sum R;
  typedef rdt_extra<T, Tile, check> extra;
  static_assert(!Tile::twofold || check == RDT_MMA_NONE || check == RDT_MMA_REPLICATE,
                "other checks would count a row's second half as a row");
  extern __shared__ __align__(128) unsigned char memory[];
  if (__builtin_expect(rdt_dynamic_shared() > Tile::shared, 0) && !rdt_called(p)) return;
  rdt_chain_next();
  const uint32_t shared = rdt_shared(memory);
  const int warp = threadIdx.x / 32, row = warp % Tile::rows, column = warp / Tile::rows % Tile::columns;
  const int part = warp / (Tile::rows * Tile::columns), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int expects = check == RDT_MMA_SUMS && (int)blockIdx.x == p.column_blocks ? p.sets : 0;
  static_assert(check != RDT_MMA_SUMS || RDT_MMA_SETS * RDT_MMA_PARTS_EACH <= Tile::WN,
                "the parts of all checks are one warp's");
  const int m0 = (int)blockIdx.y * Tile::BM, n0 = expects ? 0 : (int)blockIdx.x * Tile::BN;
  const int k0 = (int)blockIdx.z * p.k_split, k1 = min(p.k, k0 + p.k_split),
            rounds = (k1 - k0 + Tile::BK - 1) / Tile::BK;
  const void *b = expects ? p.parts : p.b;
  const int64_t ldb = expects ? p.part_columns : p.ldb;
  const int width = expects ? p.part_columns : p.n;
  const bool b_aligned = expects || p.b_aligned;
  const int most = 0x7fffffff; /* k ends no whole stage */
  rdt_feed<T, 0, Tile::BM, Tile::BK, Tile::threads> feed_a(p.a, p.lda, m0, k0, p.m, most, Tile::BK);
  rdt_feed<T, 1, Tile::BK, Tile::BN, Tile::threads> feed_b(b, ldb, k0, n0, most, width, Tile::BK * ldb);
  const int whole = p.a_aligned && b_aligned ? (k1 - k0) / Tile::BK : 0;
  const uint32_t end = shared + Tile::stages * Tile::stage_bytes;
  uint32_t stage = shared; /* of this round: counted on, as products wait for it; loads do not */
  const auto load = [&](int round) {
    const uint32_t to = shared + (uint32_t)(round % Tile::stages) * Tile::stage_bytes;
    if (__builtin_expect(round < whole, 1)) {
      feed_a.copy(to);
      feed_b.copy(to + Tile::a_bytes);
    } else if (round < rounds) {
      const int k = k0 + round * Tile::BK;
      rdt_stage<T, 0, Tile::BM, Tile::BK, Tile::threads>(to, p.a, p.lda, m0, k, p.m, k1, p.a_aligned);
      rdt_stage<T, 1, Tile::BK, Tile::BN, Tile::threads>(to + Tile::a_bytes, b, ldb, k, n0, k1, width, b_aligned);
    }
    rdt_copy_commit();
  };

  R c[Tile::MT][Tile::NT][4] = {};
  extra x = {};
  if constexpr (rdt_twins<Tile, check>()) { /* not known to be the same */
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
#pragma unroll
      for (int j = 0; j < Tile::NT; j++)
#pragma unroll
        for (int r = 0; r < 4; r++) x.twin[i][j][r] = (R)p.zero;
  }
  if constexpr (Hit::on) hit.begin();
  constexpr bool by_column = check == RDT_MMA_THREAD1A || check == RDT_MMA_COL;
  R rho2[by_column ? 2 * Tile::NT : 2] = {}; /* loaded long before it is used */
  if constexpr (rdt_of_thread(check) && !T::exact) {
    const R *from = (const R *)p.rho2 + n0 + column * Tile::WN;
    if constexpr (by_column) {
#pragma unroll
      for (int j = 0; j < Tile::NT; j++)
        rho2[2 * j] = from[T::column(j, t, 0)], rho2[2 * j + 1] = from[T::column(j, t, 1)];
    } else {
      from = (const R *)p.rho2 + (n0 + column * Tile::WN) / Tile::WN * 8 + 2 * t;
      rdt_load_pair(rho2, from);
    }
  }
  int ahead = Tile::stages - 1;                         /* stages that are asked for before one is multiplied */
  if (__builtin_expect(whole >= Tile::stages - 1, 1)) { /* B depends on nobody where a launch may begin early */
    if (whole == Tile::stages && rounds == whole) ahead = Tile::stages; /* none comes around again */
#pragma unroll 1
    for (int s = 0; s < ahead; s++) feed_b.copy(shared + (uint32_t)(s * Tile::stage_bytes + Tile::a_bytes));
    rdt_chain_wait();
#pragma unroll 1
    for (int s = 0; s < ahead; s++) { /* in stages - 1 groups: the last one is of two stages then */
      feed_a.copy(shared + (uint32_t)(s * Tile::stage_bytes));
      if (s != Tile::stages - 2 || ahead == Tile::stages - 1) rdt_copy_commit();
    }
  } else {
    rdt_chain_wait();
#pragma unroll 1
    for (int s = 0; s < Tile::stages - 1; s++) load(s);
  }
  const rdt_places<T, Tile, rdt_shuffles<Tile, check>()> places(row, column, part);
  const auto multiply = [&](auto expecting) {
    for (int round = 0; round < rounds; round++) {
      rdt_copy_wait<Tile::stages - 2>();
      __syncthreads();
      load(round + ahead);
      rdt_fragments<T, Tile> f[Tile::steps];
#pragma unroll
      for (int s = 0; s < Tile::steps; s++) {
        places.load(f[s], stage, s);
        rdt_warp_step<decltype(expecting)::value, T, Tile, check, Hit>(c, x, f[s], column, expects, hit);
      }
      if constexpr (rdt_of_thread(check)) { /* not between the steps: it would keep the next one's loads waiting */
#pragma unroll
        for (int s = 0; s < Tile::steps; s++) rdt_norms<T, Tile, check>(x, f[s].a, column);
      }
      stage = stage + Tile::stage_bytes == end ? shared : stage + Tile::stage_bytes;
    }
  };
  if (check == RDT_MMA_SUMS && expects) /* a loop of its own: the other one has nothing of it */
    multiply(rdt_constant<check == RDT_MMA_SUMS>());
  else
    multiply(rdt_constant<false>());
  rdt_copy_wait<0>();
  __syncthreads();

  R *sums = (R *)memory, *norm = (R *)(memory + Tile::sums_bytes);
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int half = 0; half < (Tile::twofold ? 1 : 2); half++)
      T::put(sums + (part * Tile::BM + row * Tile::WM + 16 * i + 8 * half + g) * Tile::pitch + column * Tile::WN, c[i],
             half, t);
  if constexpr (extra::norms) {
    if (check != RDT_MMA_SUMS || expects) {
#pragma unroll
      for (int i = 0; i < Tile::MT; i++)
        if (Tile::columns == 1 || i % Tile::columns == column) /* together: one slot, the others are zero */
          x.norm[extra::together ? 0 : i / Tile::columns].put(norm + part * Tile::BM + row * Tile::WM + 16 * i, g, t,
                                                              !extra::together || i < Tile::columns);
    }
  }
  __syncthreads();
  if constexpr (check == RDT_MMA_SUMS) {
    bool done = expects > 0;
    if (expects)
      rdt_store_expected<T, Tile>(p, shared, norm);
    else
      done = rdt_store_tile<T, Tile, check, Hit>(p, shared, hit);
    if (done) rdt_check_rows<T, Tile, Hit>(p, hit);
  } else {
    rdt_store_tile<T, Tile, check, Hit>(p, shared, hit);
  }
  /* What threads check does not keep the result waiting: stores are under way meanwhile. */
  if constexpr (rdt_of_thread(check))
    rdt_check_thread<T, Tile, check, Hit>(p, c, x, norm + part * Tile::BM, rho2, row, column, k0, k1, hit);
  if constexpr (check == RDT_MMA_REPLICATE) rdt_check_twin<T, Tile, Hit>(p, c, x, row, column, k0, k1);
}

#endif
