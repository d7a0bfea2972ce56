/* Products on mma.sync, m16n8k16, operands through shared memory in the background (cp.async), f32 accumulators.
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

#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/sm80/gemm_mma.h"

template <int bm, int bn, int bk, int wm, int wn, int wk, int stages_, int blocks_>
struct rdt_tile {
  static constexpr int BM = bm, BN = bn, BK = bk, WM = wm, WN = wn, WK = wk, stages = stages_, blocks = blocks_;
  static constexpr int MT = wm / 16, NT = wn / 8, rows = bm / wm, columns = bn / wn; /* of warps */
  static constexpr int threads = 32 * rows * columns * wk;
  static constexpr int steps = bk / wk / 16;                 /* of a warp, each stage */
  static constexpr int norms = (MT + columns - 1) / columns; /* row fragments whose squares a warp sums */
  static constexpr int a_bytes = bm * bk * 2, b_bytes = bk * bn * 2, stage_bytes = a_bytes + b_bytes;
  static constexpr int pitch = bn + 4; /* of a row of sums, in floats: rows start in other banks */
  static constexpr int sums_bytes = wk * bm * pitch * 4, norm_bytes = wk * bm * 4;
  static constexpr int loop_bytes = stages_ * stage_bytes;
  static constexpr int shared = loop_bytes > sums_bytes + norm_bytes ? loop_bytes : sums_bytes + norm_bytes;
  static_assert(bk % (16 * wk) == 0 && wn % 16 == 0 && wm % 16 == 0, "whole fragments");
};

/* Where chunk (16 bytes) of a row lies: eight rows' chunks of one number lie in different banks. */
template <int chunks>
RDT_DEVICE int rdt_swizzle(int row, int chunk) {
  return chunks >= 8 ? row * chunks + (chunk ^ (row & 7)) : row * chunks + (chunk ^ ((row >> 1) & (chunks - 1)));
}

RDT_DEVICE constexpr bool rdt_minus(int i) { /* signs within a thread, known when compiled: + - - + - + + - */
  return ((i ^ (i >> 1) ^ (i >> 2)) & 1) != 0;
}

/* 8 elements whose address is not aligned, of which so many are there. */
static __device__ __noinline__ void rdt_copy_slowly(uint32_t to, const uint16_t *from, int left) {
  uint32_t x[4] = {0, 0, 0, 0};
#pragma unroll
  for (int e = 0; e < 8; e++)
    if (e < left) x[e / 2] |= (uint32_t)from[e] << (16 * (e & 1));
  rdt_store16_shared(to, make_uint4(x[0], x[1], x[2], x[3]));
}

/* A stage's rows of one operand: rows x columns at (row0, column0) of a matrix of height x width. */
template <int rows, int columns, int threads>
static __device__ __noinline__ void rdt_stage(uint32_t to, const void *matrix, int64_t pitch, int row0, int column0,
                                              int height, int width, bool aligned) {
  constexpr int chunks = columns / 8, total = rows * chunks;
  static_assert(total % threads == 0, "every thread copies as much");
  const uint16_t *from = (const uint16_t *)matrix;
#pragma unroll 1
  for (int i = 0; i < total / threads; i++) {
    const int at = (int)threadIdx.x + i * threads, r = at / chunks, c = at % chunks;
    const int row = row0 + r, column = column0 + 8 * c;
    const int left = row < height ? min(max(width - column, 0), 8) : 0;
    const uint16_t *source = left > 0 ? from + row * pitch + column : from;
    const uint32_t target = to + 16u * (uint32_t)rdt_swizzle<chunks>(r, c);
    if (aligned)
      rdt_copy16(target, source, 2 * left);
    else
      rdt_copy_slowly(target, source, left);
  }
}

/* The same where addresses are aligned and all k of the stage are there: what a thread copies lies in one column. */
template <int rows, int columns, int threads>
struct rdt_feed {
  static constexpr int chunks = columns / 8, step = threads / chunks, count = rows / step;
  static_assert(step % 8 == 0 && rows % step == 0, "rows of a thread are swizzled alike");
  const char *next;
  int64_t below, ahead; /* bytes to the thread's next row, and to the next stage */
  uint32_t to, there;   /* there: bits of the rows that exist */
  int bytes;

  __device__ __forceinline__ rdt_feed(const void *matrix, int64_t pitch, int row0, int column0, int height, int width,
                                      int64_t ahead_) {
    const int r = (int)threadIdx.x / chunks, c = (int)threadIdx.x % chunks, column = column0 + 8 * c;
    next = (const char *)matrix + 2 * ((row0 + r) * pitch + column);
    below = 2 * step * pitch, ahead = 2 * ahead_;
    to = 16u * (uint32_t)rdt_swizzle<chunks>(r, c);
    bytes = 2 * min(max(width - column, 0), 8);
    there = 0;
#pragma unroll
    for (int i = 0; i < count; i++)
      if (row0 + r + i * step < height) there |= 1u << i;
  }

  __device__ __forceinline__ void copy(uint32_t stage) {
#pragma unroll
    for (int i = 0; i < count; i++)
      rdt_copy16(stage + to + i * (step * chunks * 16), next + i * below, there >> i & 1 ? bytes : 0);
    next += ahead;
  }
};

RDT_DEVICE float rdt_load_as(const void *p, int64_t at, int type) {
  if (type == RDT_MMA_F32) return ((const float *)p)[at];
  const uint32_t x = ((const uint16_t *)p)[at];
  return type == RDT_MMA_F16 ? rdt_f16::wide(x).x : rdt_bf16::wide(x).x;
}

struct rdt_no_hit {
  static constexpr bool on = false;
};

/* ---- comparing ---- */

struct rdt_place { /* of a finding */
  int row, column, rows, columns, k_first, k_last;
};

static __device__ __noinline__ void rdt_complain(rdt_cuda_verdict *v, int complaint, rdt_place at, float observed,
                                                 float expected, float tau2, float tau0) {
  atomicAdd(complaint == RDT_CUDA_SUSPECT ? &v->suspect : complaint == RDT_CUDA_CERTAIN ? &v->certain : &v->cannot, 1u);
  const uint32_t slot = atomicAdd(&v->listed, 1u);
  if (slot >= RDT_CUDA_LISTED) return;
  rdt_cuda_finding *f = &v->list[slot];
  f->complaint = complaint, f->sm = (int)rdt_sm();
  f->row = at.row, f->column = at.column, f->rows = at.rows, f->columns = at.columns;
  f->k_first = at.k_first, f->k_last = at.k_last;
  f->observed = observed, f->expected = expected, f->tau2 = tau2, f->tau0 = tau0;
}

/* Within the part of the bound that comes from the inputs alone, as nearly all are: no need to ask for more. Code that
 * runs once costs as much as it is long, for it has to be fetched. */
RDT_DEVICE bool rdt_passes(const rdt_device_bound &b, float s, float e, float q) {
  const float d = s - e, most = b.surely * q;
  return d * d <= most && most < __int_as_float(0x7f800000);
}

/* See rdt_device_bound. The bound is returned. */
static __device__ __noinline__ float rdt_compare_sums(const rdt_mma_args &p, rdt_place at, float s, float c2, float e,
                                                      float a2, float q) {
  const rdt_device_bound &b = p.bound;
  const float root = sqrtf(q), most = fminf(c2, b.cap * q), infinity = __int_as_float(0x7f800000);
  const float s_most = fminf(fabsf(s), sqrtf(b.s_cap * most)), e_most = fminf(fabsf(e), sqrtf(b.e_cap) * root);
  const float e2 = e_most * e_most, over = q > 0.0f ? b.theta / q : 0.0f;
  float variance = b.q * q + b.c2 * most + b.e2 * e2 + b.a2 * a2;
  variance += b.drift * (fminf(1.0f, over * most) * most + fminf(1.0f, over * e2) * e2);
  const float tau0 = b.q0 * root + b.a0 * sqrtf(a2);
  const float tau2 = fminf(tau0, b.line * (s_most + e_most) + b.lambda * sqrtf(variance)), residual = fabsf(s - e);
  if (!(tau0 < infinity))
    rdt_complain(p.verdict, RDT_CUDA_CANNOT, at, s, e, tau2, tau0);
  else if (!(residual <= tau2))
    rdt_complain(p.verdict, residual <= tau0 ? RDT_CUDA_SUSPECT : RDT_CUDA_CERTAIN, at, s, e, tau2, tau0);
  return tau2;
}

/* ---- what a warp keeps beside its accumulators ---- */

template <class T, class Tile, int check>
struct rdt_extra {
  static constexpr int MT = check == RDT_MMA_THREAD2 ? 1 : Tile::MT;
  static constexpr bool sums = check == RDT_MMA_THREAD1 || check == RDT_MMA_THREAD2;
  static constexpr bool norms = sums || check == RDT_MMA_SUMS;
  static constexpr int count = check == RDT_MMA_THREAD2 ? 1 : Tile::norms;
  float high[sums ? MT : 1][4], low[sums ? MT : 1][4]; /* low: of the smaller parts */
  float norm[norms ? count : 1][2][4];
  float twin[check == RDT_MMA_REPLICATE ? Tile::MT : 1][check == RDT_MMA_REPLICATE ? Tile::NT : 1][4];
};

/* x split into numbers of type T, the largest first. */
template <class T>
RDT_DEVICE void rdt_split(float x, float y, uint32_t (&part)[T::parts]) {
#pragma unroll
  for (int p = 0; p < T::parts; p++) {
    part[p] = T::narrow(x, y);
    const float2 f = T::wide(part[p]);
    x -= f.x, y -= f.y;
  }
}

/* |a|^2 of each row: the diagonal of A A^T, whose B fragments are those of A. Warps that share rows share the work. */
template <class T, class Tile, int check>
RDT_DEVICE void rdt_norms(rdt_extra<T, Tile, check> &x, const uint32_t (&a)[Tile::MT][4], int column) {
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
    if (Tile::columns == 1 || i % Tile::columns == column) {
      const int slot = check == RDT_MMA_THREAD2 ? 0 : i / Tile::columns;
      T::mma(x.norm[slot][0], a[i], a[i][0], a[i][2]);
      T::mma(x.norm[slot][1], a[i], a[i][1], a[i][3]);
    }
}

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_check_step(rdt_extra<T, Tile, check> &x, const uint32_t (&a)[Tile::MT][4],
                               const uint32_t (&b)[Tile::NT][2], int column, Hit &hit) {
  if constexpr (rdt_extra<T, Tile, check>::sums) {
    uint32_t part[2][T::parts], row[4][T::parts];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float lo = 0.0f, hi = 0.0f;
#pragma unroll
      for (int j = 0; j < Tile::NT; j++) {
        const float2 f = T::wide(b[j][r]);
        lo = rdt_minus(j) ? lo - f.x : lo + f.x;
        hi = rdt_minus(j) ? hi - f.y : hi + f.y;
      }
      rdt_split<T>(lo, hi, part[r]);
    }
    if constexpr (Hit::on) hit.checksum(part[0][0]);
    if constexpr (check == RDT_MMA_THREAD1 || Tile::MT == 1) {
#pragma unroll
      for (int i = 0; i < Tile::MT; i++)
#pragma unroll
        for (int p = 0; p < T::parts; p++) T::mma(p == 0 ? x.high[i] : x.low[i], a[i], part[0][p], part[1][p]);
    } else {
#pragma unroll
      for (int r = 0; r < 4; r++) {
        float lo = 0.0f, hi = 0.0f;
#pragma unroll
        for (int i = 0; i < Tile::MT; i++) {
          const float2 f = T::wide(a[i][r]);
          lo = rdt_minus(i) ? lo - f.x : lo + f.x;
          hi = rdt_minus(i) ? hi - f.y : hi + f.y;
        }
        rdt_split<T>(lo, hi, row[r]);
      }
#pragma unroll
      for (int p = 0; p < T::parts; p++) {
        const uint32_t sum[4] = {row[0][p], row[1][p], row[2][p], row[3][p]};
#pragma unroll
        for (int q = 0; q < T::parts - p; q++) T::mma(p + q == 0 ? x.high[0] : x.low[0], sum, part[0][q], part[1][q]);
      }
    }
  }
  if constexpr (rdt_extra<T, Tile, check>::sums) rdt_norms<T, Tile, check>(x, a, column);
}

/* ---- the loop over k ---- */

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_warp_step(float (&c)[Tile::MT][Tile::NT][4], rdt_extra<T, Tile, check> &x, uint32_t stage, int k,
                              int row, int column, bool expects, Hit &hit) {
  const int lane = threadIdx.x % 32;
  uint32_t a[Tile::MT][4], b[Tile::NT][2];
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
    rdt_ldmatrix4(a[i], stage + 16u * (uint32_t)rdt_swizzle<Tile::BK / 8>(row * Tile::WM + 16 * i + lane % 16,
                                                                          k / 8 + lane / 16));
#pragma unroll
  for (int j = 0; j < Tile::NT; j += 2) {
    uint32_t r[4];
    rdt_ldmatrix4_transposed(
        r, stage + Tile::a_bytes +
               16u * (uint32_t)rdt_swizzle<Tile::BN / 8>(k + lane % 16, (column * Tile::WN) / 8 + j + lane / 16));
    b[j][0] = r[0], b[j][1] = r[1], b[j + 1][0] = r[2], b[j + 1][1] = r[3];
  }
  if (check == RDT_MMA_SUMS && expects) { /* eight columns are all there are */
    if (column == 0) {
#pragma unroll
      for (int i = 0; i < Tile::MT; i++) T::mma(c[i][0], a[i], b[0][0], b[0][1]);
    }
    if constexpr (check == RDT_MMA_SUMS) rdt_norms<T, Tile, check>(x, a, column);
  } else {
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
#pragma unroll
      for (int j = 0; j < Tile::NT; j++) T::mma(c[i][j], a[i], b[j][0], b[j][1]);
    if constexpr (check == RDT_MMA_REPLICATE) {
#pragma unroll
      for (int i = 0; i < Tile::MT; i++)
#pragma unroll
        for (int j = 0; j < Tile::NT; j++) T::mma(x.twin[i][j], a[i], b[j][0], b[j][1]);
    }
    if constexpr (Hit::on) hit.accumulators(c);
    rdt_check_step<T, Tile, check, Hit>(x, a, b, column, hit);
  }
}

/* ---- the checks of threads, at the end of their run of k ---- */

/* Calls fn(row fragment, half of its rows, odd column, a2, s) for each of a thread's checks. */
template <class Tile, int check, class Fn>
RDT_DEVICE void rdt_each_check(const rdt_mma_args &p, const float (&c)[Tile::MT][Tile::NT][4], const float *norm,
                               Fn fn) {
  constexpr int rows = check == RDT_MMA_THREAD2 ? Tile::MT : 1;
#pragma unroll
  for (int i = 0; i < Tile::MT / rows; i++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float a2 = p.bound.a2_floor;
#pragma unroll
      for (int f = 0; f < rows; f++) a2 += norm[16 * (i + f) + 8 * half];
#pragma unroll
      for (int odd = 0; odd < 2; odd++) {
        float s = 0.0f;
#pragma unroll
        for (int f = 0; f < rows; f++)
#pragma unroll
          for (int j = 0; j < Tile::NT; j++)
            s = rdt_minus(f) != rdt_minus(j) ? s - c[i + f][j][2 * half + odd] : s + c[i + f][j][2 * half + odd];
        fn(i, half, odd, a2, s);
      }
    }
}

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_check_thread(const rdt_mma_args &p, const float (&c)[Tile::MT][Tile::NT][4],
                                 const rdt_extra<T, Tile, check> &x, const float *norm, float2 rho2, int row,
                                 int column, int k_first, int k_last, Hit &hit) {
  constexpr int rows = check == RDT_MMA_THREAD2 ? Tile::MT : 1;
  const int g = (int)(threadIdx.x % 32) / 4, t = threadIdx.x % 4, r0 = row * Tile::WM + g;
  bool good = !Hit::on;
  rdt_each_check<Tile, check>(p, c, norm + r0, [&](int i, int half, int odd, float a2, float s) {
    const float e = x.high[i][2 * half + odd] + x.low[i][2 * half + odd];
    good = rdt_passes(p.bound, s, e, a2 * (odd ? rho2.y : rho2.x)) && good;
  });
  if (__builtin_expect(good, 1)) return;
  rdt_each_check<Tile, check>(p, c, norm + r0, [&](int i, int half, int odd, float a2, float s) {
    float c2 = 0.0f;
#pragma unroll
    for (int f = 0; f < rows; f++)
#pragma unroll
      for (int j = 0; j < Tile::NT; j++) c2 = fmaf(c[i + f][j][2 * half + odd], c[i + f][j][2 * half + odd], c2);
    const rdt_place at = {(int)blockIdx.y * Tile::BM + r0 + 16 * i + 8 * half,
                          (int)blockIdx.x * Tile::BN + column * Tile::WN + 2 * t + odd,
                          rows > 1 ? Tile::WM : 1,
                          Tile::WN,
                          k_first,
                          k_last};
    const float e = x.high[i][2 * half + odd] + x.low[i][2 * half + odd];
    const float tau = rdt_compare_sums(p, at, s, c2, e, a2, a2 * (odd ? rho2.y : rho2.x));
    if constexpr (Hit::on) hit.template bound<(rows > 1)>(i, half, odd, tau);
  });
}

template <class T, class Tile, class Hit>
RDT_DEVICE void rdt_check_twin(const rdt_mma_args &p, const float (&c)[Tile::MT][Tile::NT][4],
                               const rdt_extra<T, Tile, RDT_MMA_REPLICATE> &x, int row, int column, int k_first,
                               int k_last) {
  const int g = (int)(threadIdx.x % 32) / 4, t = threadIdx.x % 4;
  uint32_t differ = 0;
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int j = 0; j < Tile::NT; j++)
#pragma unroll
      for (int r = 0; r < 4; r++) differ |= __float_as_uint(c[i][j][r]) ^ __float_as_uint(x.twin[i][j][r]);
  if (__builtin_expect(!differ, 1)) return;
  rdt_place at = {0, 0, 1, 1, k_first, k_last}; /* the last that differs */
  float seen = 0.0f, twin = 0.0f;
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int j = 0; j < Tile::NT; j++)
#pragma unroll
      for (int r = 0; r < 4; r++)
        if (__float_as_uint(c[i][j][r]) != __float_as_uint(x.twin[i][j][r])) {
          at.row = (int)blockIdx.y * Tile::BM + row * Tile::WM + 16 * i + 8 * (r / 2) + g;
          at.column = (int)blockIdx.x * Tile::BN + column * Tile::WN + 8 * j + 2 * t + r % 2;
          seen = c[i][j][r], twin = x.twin[i][j][r];
        }
  rdt_complain(p.verdict, RDT_CUDA_CERTAIN, at, seen, twin, 0.0f, 0.0f);
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

RDT_DEVICE float4 rdt_add4(float4 x, float4 y) {
  return make_float4(__fadd_rn(x.x, y.x), __fadd_rn(x.y, y.y), __fadd_rn(x.z, y.z), __fadd_rn(x.w, y.w));
}

RDT_DEVICE bool rdt_differ4(float4 x, float4 y) {
  return ((__float_as_uint(x.x) ^ __float_as_uint(y.x)) | (__float_as_uint(x.y) ^ __float_as_uint(y.y)) |
          (__float_as_uint(x.z) ^ __float_as_uint(y.z)) | (__float_as_uint(x.w) ^ __float_as_uint(y.w))) != 0;
}

/* Four neighbours of a row: what the warps have summed. */
template <class Tile>
RDT_DEVICE float4 rdt_warps_sum(uint32_t sums, int row, int column) {
  float4 v = rdt_load16_shared(sums + 4u * (uint32_t)(row * Tile::pitch + column));
#pragma unroll
  for (int w = 1; w < Tile::WK; w++)
    v = rdt_add4(v, rdt_load16_shared(sums + 4u * (uint32_t)((w * Tile::BM + row) * Tile::pitch + column)));
  return v;
}

template <class Tile>
RDT_DEVICE const float *rdt_partial(const rdt_mma_args &p, int split) {
  const int64_t tile = ((int64_t)split * gridDim.y + blockIdx.y) * p.column_blocks + blockIdx.x;
  return p.partial + tile * (Tile::BM * Tile::BN);
}

template <class Tile>
static __device__ __noinline__ float4 rdt_splits_sum(const rdt_mma_args &p, int at) {
  float4 v = rdt_load16_l2(rdt_partial<Tile>(p, 0) + at);
  for (int s = 1; s < p.splits; s++) v = rdt_add4(v, rdt_load16_l2(rdt_partial<Tile>(p, s) + at));
  return v;
}

static __device__ __noinline__ float4 rdt_add_bias(const rdt_mma_args &p, int row, int column, float4 x) {
  float v[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (column + i < p.n) {
      if (p.bias) v[i] = __fadd_rn(v[i], rdt_load_as(p.bias, column + i, p.bias_type));
      if (p.residual)
        v[i] = __fadd_rn(v[i], __fmul_rn(p.beta, rdt_load_as(p.residual, row * p.ldr + column + i, p.c_type)));
    }
  return make_float4(v[0], v[1], v[2], v[3]);
}

/* Where a row ends, or neighbours have no common address. */
static __device__ __noinline__ void rdt_store_slowly(const rdt_mma_args &p, int64_t at, int count, float4 x) {
  const float v[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (i < count) {
      if (p.c_type == RDT_MMA_F32)
        ((float *)p.c)[at + i] = v[i];
      else
        ((uint16_t *)p.c)[at + i] =
            (uint16_t)(p.c_type == RDT_MMA_F16 ? rdt_f16::narrow(v[i], 0.0f) : rdt_bf16::narrow(v[i], 0.0f));
    }
}

RDT_DEVICE void rdt_finish4(const rdt_mma_args &p, int row, int column, float4 v) {
  v = make_float4(__fmul_rn(p.alpha, v.x), __fmul_rn(p.alpha, v.y), __fmul_rn(p.alpha, v.z), __fmul_rn(p.alpha, v.w));
  if (__builtin_expect(p.bias || p.residual, 0)) v = rdt_add_bias(p, row, column, v);
  const int64_t at = row * p.ldc + column;
  if (__builtin_expect(p.n - column < 4 || !p.c_aligned, 0))
    rdt_store_slowly(p, at, min(p.n - column, 4), v);
  else if (p.c_type == RDT_MMA_F32)
    *(float4 *)((float *)p.c + at) = v;
  else
    *(uint2 *)((uint16_t *)p.c + at) = p.c_type == RDT_MMA_F16
                                           ? make_uint2(rdt_f16::narrow(v.x, v.y), rdt_f16::narrow(v.z, v.w))
                                           : make_uint2(rdt_bf16::narrow(v.x, v.y), rdt_bf16::narrow(v.z, v.w));
}

/* The signed sum of a row of the tile, and its squares, from the threads that hold it. */
template <class Tile>
RDT_DEVICE void rdt_sum_row(const rdt_mma_args &p, int row, int column, float4 raw) {
  const float v[4] = {raw.x, raw.y, raw.z, raw.w};
  float s = 0.0f, c2 = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; i++) { /* beyond n they are zero */
    s += __uint_as_float(__float_as_uint(v[i]) ^ rdt_mma_sign((unsigned)(column + i)));
    c2 = fmaf(v[i], v[i], c2);
  }
#pragma unroll
  for (int d = 1; d < Tile::BN / 4; d *= 2) {
    s += __shfl_xor_sync(0xffffffffu, s, d);
    c2 += __shfl_xor_sync(0xffffffffu, c2, d);
  }
  if (threadIdx.x % (Tile::BN / 4) == 0 && row < p.m)
    ((float2 *)p.sums)[(int64_t)blockIdx.x * p.m + row] = make_float2(s, c2);
}

/* Leaves this block's part of a tile for the last of those that share it. Is it that one? */
template <class Tile, bool again>
static __device__ __noinline__ bool rdt_share_tile(const rdt_mma_args &p, uint32_t sums) {
  float *mine = (float *)rdt_partial<Tile>(p, blockIdx.z);
#pragma unroll 1
  for (int at = threadIdx.x; at < Tile::BM * Tile::BN / 4; at += Tile::threads) {
    const int r = 4 * at / Tile::BN, c = 4 * at % Tile::BN;
    const float4 v = rdt_warps_sum<Tile>(sums, r, c);
    *(float4 *)(mine + 4 * at) = v;
    if (again && rdt_differ4(v, rdt_warps_sum<Tile>(sums, r, c))) {
      const rdt_place place = {(int)blockIdx.y * Tile::BM + r, (int)blockIdx.x * Tile::BN + c, 1, 4, 0, p.k};
      rdt_complain(p.verdict, RDT_CUDA_CERTAIN, place, v.x, 0.0f, 0.0f, 0.0f);
    }
  }
  return rdt_last(p.tickets + blockIdx.y * p.column_blocks + blockIdx.x, (unsigned)p.splits);
}

/* Whether this block wrote the tile: of those that share it, the last one. */
template <class Tile, int check, class Hit>
RDT_DEVICE bool rdt_store_tile(const rdt_mma_args &p, uint32_t sums, Hit &hit) {
  constexpr int groups = Tile::BM * Tile::BN / 4;
  static_assert(groups % 32 == 0, "whole warps");
  constexpr bool again = check == RDT_MMA_THREAD1 || check == RDT_MMA_THREAD2 || check == RDT_MMA_REPLICATE;
  if (p.splits > 1 && !rdt_share_tile<Tile, again>(p, sums)) return false;
#pragma unroll 1 /* short code, see rdt_passes */
  for (int at = threadIdx.x; at < groups; at += Tile::threads) {
    const int r = 4 * at / Tile::BN, c = 4 * at % Tile::BN;
    const int row = (int)blockIdx.y * Tile::BM + r, column = (int)blockIdx.x * Tile::BN + c;
    float4 v = p.splits > 1 ? rdt_splits_sum<Tile>(p, 4 * at) : rdt_warps_sum<Tile>(sums, r, c);
    if constexpr (Hit::on) hit.reduced(row, column, v);
    if (again) {
      const float4 w = p.splits > 1 ? rdt_splits_sum<Tile>(p, 4 * at) : rdt_warps_sum<Tile>(sums, r, c);
      if (__builtin_expect(rdt_differ4(v, w), 0)) {
        const rdt_place place = {row, column, 1, 4, 0, p.k};
        rdt_complain(p.verdict, RDT_CUDA_CERTAIN, place, v.x, w.x, 0.0f, 0.0f);
      }
    }
    if constexpr (check == RDT_MMA_SUMS) rdt_sum_row<Tile>(p, row, column, v);
    if (row < p.m && column < p.n) rdt_finish4(p, row, column, v);
  }
  return true;
}

/* ---- sums of rows ---- */

/* What the rows of this block of k should sum to, from the parts that lie beside each other. */
template <class T, class Tile>
RDT_DEVICE void rdt_store_expected(const rdt_mma_args &p, uint32_t sums, const float *norm) {
  for (int r = threadIdx.x; r < Tile::BM; r += Tile::threads) {
    const int row = (int)blockIdx.y * Tile::BM + r;
    if (row >= p.m) continue;
    const float4 v = rdt_warps_sum<Tile>(sums, r, 0);
    float a2 = 0.0f;
    for (int w = 0; w < Tile::WK; w++) a2 += norm[w * Tile::BM + r];
    const float e = T::parts == 2 ? v.x + v.y * 0x1p-11f : v.x + (v.y + v.z);
    ((float2 *)p.sums)[((int64_t)p.column_blocks + blockIdx.z) * p.m + row] = make_float2(e, a2);
  }
}

RDT_DEVICE float rdt_sum_block(float x) { /* in a fixed order; the first thread has it */
  __shared__ float warps[32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  float total = 0.0f;
  if (threadIdx.x == 0)
    for (unsigned w = 0; w < blockDim.x / 32; w++) total += warps[w];
  __syncthreads();
  return total;
}

/* By the last block of these rows; of one scalar, by the last of all. */
template <class Tile, class Hit>
RDT_DEVICE void rdt_check_rows(const rdt_mma_args &p, Hit &hit) {
  unsigned *tickets = p.tickets + gridDim.y * p.column_blocks;
  if (!rdt_last(tickets + blockIdx.y, (unsigned)(p.column_blocks + p.splits))) return;
  float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int r = threadIdx.x; r < Tile::BM; r += Tile::threads) {
    const int row = (int)blockIdx.y * Tile::BM + r;
    if (row >= p.m) continue;
    float s = 0.0f, c2 = 0.0f, e = 0.0f, a2 = 0.0f;
    for (int b = 0; b < p.column_blocks; b++) {
      const float2 v = __ldcg((const float2 *)p.sums + (int64_t)b * p.m + row);
      s += v.x, c2 += v.y;
    }
    for (int b = 0; b < p.splits; b++) {
      const float2 v = __ldcg((const float2 *)p.sums + ((int64_t)p.column_blocks + b) * p.m + row);
      e += v.x, a2 += v.y;
    }
    if (p.scalar) {
      const bool minus = rdt_mma_sign((unsigned)row) != 0;
      total[0] += minus ? -s : s, total[1] += minus ? -e : e, total[2] += c2, total[3] += a2;
      continue;
    }
    const rdt_place at = {row, -1, 1, p.n, 0, p.k};
    a2 += p.bound.a2_floor;
    if (!Hit::on && rdt_passes(p.bound, s, e, a2 * p.rho2[0])) continue;
    const float tau = rdt_compare_sums(p, at, s, c2, e, a2, a2 * p.rho2[0]);
    if constexpr (Hit::on) hit.bound_of_row(row, tau);
  }
  if (!p.scalar) return;
  for (int i = 0; i < 4; i++) {
    const float x = rdt_sum_block(total[i]);
    if (threadIdx.x == 0) p.scalars[4 * blockIdx.y + i] = x;
  }
  if (!rdt_last(tickets + gridDim.y, gridDim.y) || threadIdx.x != 0) return;
  float s = 0.0f, e = 0.0f, c2 = 0.0f, a2 = p.bound.a2_floor;
  for (unsigned b = 0; b < gridDim.y; b++) {
    const float4 v = __ldcg((const float4 *)p.scalars + b);
    s += v.x, e += v.y, c2 += v.z, a2 += v.w;
  }
  const rdt_place at = {-1, -1, p.m, p.n, 0, p.k};
  const float tau = rdt_compare_sums(p, at, s, c2, e, a2, a2 * p.rho2[0]);
  if constexpr (Hit::on) hit.bound_of_row(-1, tau);
}

/* ---- a block ---- */

template <class T, class Tile, int check, class Hit>
RDT_DEVICE void rdt_gemm_mma(const rdt_mma_args &p, Hit hit) {
  extern __shared__ __align__(128) unsigned char memory[];
  const uint32_t shared = rdt_shared(memory);
  const int warp = threadIdx.x / 32, row = warp % Tile::rows, column = warp / Tile::rows % Tile::columns;
  const int part = warp / (Tile::rows * Tile::columns), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const bool expects = check == RDT_MMA_SUMS && (int)blockIdx.x == p.column_blocks;
  const int m0 = (int)blockIdx.y * Tile::BM, n0 = expects ? 0 : (int)blockIdx.x * Tile::BN;
  const int k0 = (int)blockIdx.z * p.k_split, k1 = min(p.k, k0 + p.k_split),
            rounds = (k1 - k0 + Tile::BK - 1) / Tile::BK;
  const void *b = expects ? p.parts : p.b;
  const int64_t ldb = expects ? RDT_MMA_PARTS : p.ldb;
  const int width = expects ? RDT_MMA_PARTS : p.n;
  const bool b_aligned = expects || p.b_aligned;
  const int most = 0x7fffffff; /* k ends no whole stage */
  rdt_feed<Tile::BM, Tile::BK, Tile::threads> feed_a(p.a, p.lda, m0, k0, p.m, most, Tile::BK);
  rdt_feed<Tile::BK, Tile::BN, Tile::threads> feed_b(b, ldb, k0, n0, most, width, Tile::BK * ldb);
  const int whole = p.a_aligned && b_aligned ? (k1 - k0) / Tile::BK : 0;
  const auto load = [&](int round) {
    const uint32_t to = shared + (uint32_t)(round % Tile::stages) * Tile::stage_bytes;
    if (__builtin_expect(round < whole, 1)) {
      feed_a.copy(to);
      feed_b.copy(to + Tile::a_bytes);
    } else if (round < rounds) {
      const int k = k0 + round * Tile::BK;
      rdt_stage<Tile::BM, Tile::BK, Tile::threads>(to, p.a, p.lda, m0, k, p.m, k1, p.a_aligned);
      rdt_stage<Tile::BK, Tile::BN, Tile::threads>(to + Tile::a_bytes, b, ldb, k, n0, k1, width, b_aligned);
    }
    rdt_copy_commit();
  };

  float c[Tile::MT][Tile::NT][4] = {};
  rdt_extra<T, Tile, check> x = {};
  if constexpr (check == RDT_MMA_REPLICATE) { /* not known to be the same */
#pragma unroll
    for (int i = 0; i < Tile::MT; i++)
#pragma unroll
      for (int j = 0; j < Tile::NT; j++)
#pragma unroll
        for (int r = 0; r < 4; r++) x.twin[i][j][r] = p.zero;
  }
  if constexpr (Hit::on) hit.begin();
  float2 rho2 = make_float2(0.0f, 0.0f); /* long before it is used */
  if constexpr (check == RDT_MMA_THREAD1 || check == RDT_MMA_THREAD2)
    rho2 = *(const float2 *)(p.rho2 + (n0 + column * Tile::WN) / Tile::WN * 8 + 2 * t);
#pragma unroll 1
  for (int s = 0; s < Tile::stages - 1; s++) load(s);
  for (int round = 0; round < rounds; round++) {
    rdt_copy_wait<Tile::stages - 2>();
    __syncthreads();
    load(round + Tile::stages - 1);
    const uint32_t stage = shared + (uint32_t)(round % Tile::stages) * Tile::stage_bytes;
#pragma unroll
    for (int s = 0; s < Tile::steps; s++)
      rdt_warp_step<T, Tile, check, Hit>(c, x, stage, (part * Tile::steps + s) * 16, row, column, expects, hit);
  }
  rdt_copy_wait<0>();
  __syncthreads();

  float *sums = (float *)memory, *norm = (float *)(memory + Tile::sums_bytes);
#pragma unroll
  for (int i = 0; i < Tile::MT; i++)
#pragma unroll
    for (int j = 0; j < Tile::NT; j++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float *to = sums + (part * Tile::BM + row * Tile::WM + 16 * i + 8 * half + g) * Tile::pitch +
                    column * Tile::WN + 8 * j + 2 * t;
        *(float2 *)to = make_float2(c[i][j][2 * half], c[i][j][2 * half + 1]);
      }
  if constexpr (rdt_extra<T, Tile, check>::norms) {
    if (t == g / 2 && (check != RDT_MMA_SUMS || expects)) {
#pragma unroll
      for (int i = 0; i < Tile::MT; i++)
        if (Tile::columns == 1 || i % Tile::columns == column) {
          constexpr bool together = check == RDT_MMA_THREAD2; /* one slot: the others are zero */
          const int slot = together ? 0 : i / Tile::columns;
          const bool first = !together || i < Tile::columns;
          float *to = norm + part * Tile::BM + row * Tile::WM + 16 * i + g;
          to[0] = !first ? 0.0f : g % 2 ? x.norm[slot][0][1] : x.norm[slot][0][0];
          to[8] = !first ? 0.0f : g % 2 ? x.norm[slot][1][3] : x.norm[slot][1][2];
        }
    }
  }
  __syncthreads();
  if constexpr (check == RDT_MMA_THREAD1 || check == RDT_MMA_THREAD2)
    rdt_check_thread<T, Tile, check, Hit>(p, c, x, norm + part * Tile::BM, rho2, row, column, k0, k1, hit);
  if constexpr (check == RDT_MMA_REPLICATE) rdt_check_twin<T, Tile, Hit>(p, c, x, row, column, k0, k1);
  if constexpr (check == RDT_MMA_SUMS) {
    bool done = expects;
    if (expects)
      rdt_store_expected<T, Tile>(p, shared, norm);
    else
      done = rdt_store_tile<Tile, check, Hit>(p, shared, hit);
    if (done) rdt_check_rows<Tile, Hit>(p, hit);
  } else {
    rdt_store_tile<Tile, check, Hit>(p, shared, hit);
  }
}

#endif
