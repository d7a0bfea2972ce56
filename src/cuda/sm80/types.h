/* What a product needs of the type of its operands. A step of k takes fragments of m16n8 whatever multiplies them:
 * tensor cores, or of f32 the CUDA cores with the same places. Each type says sum, reg, a_regs, b_regs   what
 * accumulators and fragments are made of bytes, k                   of an element, and of a step load_a, load_b a
 * fragment of A, two of B, from shared memory; place_a, place_b: where chunks lie there column                     of
 * the warp's tile: that of accumulator 2 half + e of fragment j together                   fragments whose columns are
 * interleaved, so that a thread's columns are neighbours total, parts, product      the signed sum of some fragments as
 * one fragment, in so many parts; products of them level, levels, join        accumulators of products of parts, and
 * what these say together norm                       sums of squares of A's rows; none where sums are exact */
#ifndef RDT_CUDA_SM80_TYPES_H
#define RDT_CUDA_SM80_TYPES_H

#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/sm80/gemm_mma.h"

RDT_DEVICE constexpr bool rdt_minus(int i) { /* signs within a thread, known when compiled: + - - + - + + - */
  return ((i ^ (i >> 1) ^ (i >> 2)) & 1) != 0;
}

/* Where chunk (16 bytes) of a row lies: eight rows' chunks of one number lie in different banks. */
template <int chunks>
RDT_DEVICE int rdt_swizzle(int row, int chunk) {
  constexpr int together = chunks < 8 ? 8 / chunks : 1; /* rows that have other banks by themselves */
  return row * chunks + (chunk ^ (row / together & (chunks < 8 ? chunks - 1 : 7)));
}

/* Both operands lie so. */
struct rdt_swizzled {
  template <int chunks>
  static __device__ __forceinline__ int place_a(int row, int chunk) {
    return rdt_swizzle<chunks>(row, chunk);
  }
  template <int chunks>
  static __device__ __forceinline__ int place_b(int row, int chunk) {
    return rdt_swizzle<chunks>(row, chunk);
  }
};

enum { RDT_WHOLE = -1 }; /* no part of a sum, but an operand */

/* ---- 16 bits ---- */

template <class T, class Format, int parts_>
struct rdt_half : rdt_swizzled {
  typedef uint16_t element;
  typedef float sum;
  typedef uint32_t reg;
  static constexpr int bytes = 2, k = 16, a_regs = 4, b_regs = 2, together = 1, period_a = 8, period_b = 8, levels = 2,
                       parts = parts_;
  static constexpr bool exact = false;

  static __device__ __forceinline__ float2 wide(uint32_t x) {
    return Format::wide(x);
  }
  static __device__ __forceinline__ uint32_t narrow(float lo, float hi) {
    return Format::narrow(lo, hi);
  }
  static __device__ __forceinline__ void load_a(reg (&a)[4], uint32_t at) {
    rdt_ldmatrix4(a, at);
  }
  static __device__ __forceinline__ void load_b(reg (&b)[2], reg (&next)[2], uint32_t at) {
    reg r[4];
    rdt_ldmatrix4_transposed(r, at);
    b[0] = r[0], b[1] = r[1], next[0] = r[2], next[1] = r[3];
  }
  static __device__ __forceinline__ constexpr int column(int j, int t, int e) {
    return 8 * j + 2 * t + e;
  }
  template <int NT>
  static __device__ __forceinline__ void put(float *row, const float (&c)[NT][4], int half, int t) {
#pragma unroll
    for (int j = 0; j < NT; j++) *(float2 *)(row + column(j, t, 0)) = make_float2(c[j][2 * half], c[j][2 * half + 1]);
  }

  /* Formed in f32, split into numbers of the type, the largest first: half-precision sums would lose too much. */
  template <int count, int regs>
  static __device__ __forceinline__ void total(reg (&part)[parts][regs], const reg (&x)[count][regs]) {
#pragma unroll
    for (int r = 0; r < regs; r++) {
      const float2 first = T::wide(x[0][r]);
      float lo = first.x, hi = first.y;
#pragma unroll
      for (int j = 1; j < count; j++) {
        const float2 f = T::wide(x[j][r]);
        lo = rdt_minus(j) ? lo - f.x : lo + f.x;
        hi = rdt_minus(j) ? hi - f.y : hi + f.y;
      }
#pragma unroll
      for (int p = 0; p < parts; p++) {
        part[p][r] = T::narrow(lo, hi);
        const float2 f = T::wide(part[p][r]);
        lo -= f.x, hi -= f.y;
      }
    }
  }
  static __device__ __forceinline__ void product(int, int, float (&c)[4], const reg (&a)[4], const reg (&b)[2]) {
    T::mma(c, a, b);
  }
  static __device__ __forceinline__ constexpr int level(int p, int q) { /* the largest parts apart; -1: not needed */
    return p + q >= parts ? -1 : p + q > 0;
  }
  static __device__ __forceinline__ float join(float high, float low, float) {
    return high + low;
  }

  struct norm { /* the diagonal of A A^T, whose B fragments are those of A */
    float v[2][4];
    __device__ __forceinline__ void add(const reg (&a)[4]) {
      const reg upper[2] = {a[0], a[2]}, lower[2] = {a[1], a[3]};
      T::mma(v[0], a, upper);
      T::mma(v[1], a, lower);
    }
    __device__ __forceinline__ void put(float *to, int g, int t, bool there) const { /* rows g and g + 8 */
      if (t != g / 2) return;
      to[g] = !there ? 0.0f : g % 2 ? v[0][1] : v[0][0];
      to[g + 8] = !there ? 0.0f : g % 2 ? v[1][3] : v[1][2];
    }
  };
};

struct rdt_type_f16 : rdt_half<rdt_type_f16, rdt_f16, 2> {  /* 22 bits */
  static constexpr float most = 65504.0f, least = 0x1p-14f; /* least: of the normal range */
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    rdt_mma_f16(c, a, b);
  }
  static __device__ __forceinline__ float expected(
      const float (&v)[4]) { /* the second part is stored 2^11 times as large */
    return v[0] + v[1] * 0x1p-11f;
  }
};

struct rdt_type_bf16 : rdt_half<rdt_type_bf16, rdt_bf16, 3> { /* 24 bits */
  static constexpr float most = 3.0e38f, least = 0x1p-126f;
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    rdt_mma_bf16(c, a, b);
  }
  static __device__ __forceinline__ float expected(const float (&v)[4]) {
    return v[0] + (v[1] + v[2]);
  }
};

/* ---- 8 bits, exact modulo 2^32 ---- */

struct rdt_type_s8 {
  typedef uint8_t element;
  typedef int sum;
  typedef uint32_t reg;
  static constexpr int bytes = 1, k = 32, a_regs = 4, b_regs = 2, together = 2, period_a = 8, period_b = 16, levels = 3,
                       parts = 2;
  static constexpr bool exact = true;

  template <int chunks>
  static __device__ __forceinline__ int place_a(int row, int chunk) {
    return rdt_swizzle<chunks>(row, chunk);
  }
  template <int chunks> /* rows 0, 1, 4, 5, 8, 9, 12, 13 are read together */
  static __device__ __forceinline__ int place_b(int row, int chunk) {
    const int key = chunks >= 8 ? (row & 1) | ((row >> 1) & 6) : (row >> 2) & (chunks - 1);
    return row * chunks + (chunk ^ key);
  }
  template <int chunks>
  static __device__ __forceinline__ void load_a(reg (&a)[4], uint32_t stage, int row, int at) {
    const int lane = threadIdx.x % 32;
    rdt_ldmatrix4(a, stage + 16u * (uint32_t)place_a<chunks>(row + lane % 16, at / 16 + lane / 16));
  }
  /* Transposed in units of two columns; a fragment takes every other column. */
  template <int chunks>
  static __device__ __forceinline__ void load_b(reg (&b)[2], reg (&next)[2], uint32_t stage, int at, int column) {
    const int lane = threadIdx.x % 32, row = at + lane % 8 / 2 * 4 + lane % 2 + lane / 8 % 2 * 2 + lane / 16 * 16;
    reg r[4];
    rdt_ldmatrix4_transposed(r, stage + 16u * (uint32_t)place_b<chunks>(row, column / 16));
    b[0] = rdt_bytes<0x6420>(r[0], r[1]), b[1] = rdt_bytes<0x6420>(r[2], r[3]);
    next[0] = rdt_bytes<0x7531>(r[0], r[1]), next[1] = rdt_bytes<0x7531>(r[2], r[3]);
  }
  static __device__ __forceinline__ constexpr int column(int j, int t, int e) {
    return 16 * (j / 2) + 4 * t + j % 2 + 2 * e;
  }
  template <int NT>
  static __device__ __forceinline__ void put(int *row, const int (&c)[NT][4], int half, int t) {
#pragma unroll
    for (int j = 0; j < NT; j += 2)
      rdt_store_four(row + column(j, t, 0), c[j][2 * half], c[j + 1][2 * half], c[j][2 * half + 1],
                     c[j + 1][2 * half + 1]);
  }
  static __device__ __forceinline__ void mma(int (&c)[4], const reg (&a)[4], const reg (&b)[2]) {
    rdt_mma_s8s8(c, a, b);
  }

  /* As many signs of either kind, so that the 128 which makes bytes positive goes away; 16 bits for each sum, from 2^15
   * on, so that none borrows of its neighbour. The low byte is a part without sign, the high one has it. */
  template <int count, int regs>
  static __device__ __forceinline__ void total(reg (&part)[2][regs], const reg (&x)[count][regs]) {
    static_assert(count % 2 == 0 && count <= 8, "as many minuses");
#pragma unroll
    for (int r = 0; r < regs; r++) {
      uint32_t even = 0x80008000u, odd = 0x80008000u;
#pragma unroll
      for (int j = 0; j < count; j++) {
        const uint32_t u = x[j][r] ^ 0x80808080u, e = u & 0x00ff00ffu, o = (u >> 8) & 0x00ff00ffu;
        even = rdt_minus(j) ? even - e : even + e;
        odd = rdt_minus(j) ? odd - o : odd + o;
      }
      part[0][r] = rdt_bytes<0x6240>(even, odd);
      part[1][r] = rdt_bytes<0x7351>(even, odd) ^ 0x80808080u;
    }
  }
  static __device__ __forceinline__ void product(int p, int q, int (&c)[4], const reg (&a)[4], const reg (&b)[2]) {
    if (p == 0 && q == 0)
      rdt_mma_u8u8(c, a, b);
    else if (p == 0)
      rdt_mma_u8s8(c, a, b);
    else if (q == 0)
      rdt_mma_s8u8(c, a, b);
    else
      rdt_mma_s8s8(c, a, b);
  }
  static __device__ __forceinline__ constexpr int level(int p, int q) { /* of 256 */
    return p + q;
  }
  static __device__ __forceinline__ int join(int one, int two, int three) {
    return (int)((unsigned)one + ((unsigned)two << 8) + ((unsigned)three << 16));
  }
  static __device__ __forceinline__ int expected(const int (&v)[4]) { /* digits of 256, each with its sign */
    return (int)((unsigned)v[0] + ((unsigned)v[1] << 8) + ((unsigned)v[2] << 16) + ((unsigned)v[3] << 24));
  }
  struct norm {
    __device__ __forceinline__ void add(const reg (&)[4]) {}
    __device__ __forceinline__ void put(int *, int, int, bool) const {}
  };
};

/* ---- f64 and f32: sums are of the type itself ---- */

template <class R>
struct rdt_plain {
  typedef R element, sum, reg;
  static constexpr int parts = 1, levels = 1;
  static constexpr bool exact = false;
  static constexpr R most = (R)3.0e38; /* no sum is rounded to a narrower range */
  template <int count, int regs>
  static __device__ __forceinline__ void total(R (&part)[1][regs], const R (&x)[count][regs]) {
#pragma unroll
    for (int r = 0; r < regs; r++) {
      part[0][r] = x[0][r];
#pragma unroll
      for (int j = 1; j < count; j++) part[0][r] = rdt_minus(j) ? part[0][r] - x[j][r] : part[0][r] + x[j][r];
    }
  }
  static __device__ __forceinline__ constexpr int level(int, int) {
    return 0;
  }
  static __device__ __forceinline__ R join(R one, R, R) {
    return one;
  }
  static __device__ __forceinline__ R expected(const R (&v)[4]) {
    return v[0] + v[1];
  }
};

struct rdt_type_f64 : rdt_plain<double> {
  static constexpr int bytes = 8, k = 8, a_regs = 4, b_regs = 2, together = 1, period_a = 4, period_b = 4;
  template <int chunks> /* four rows' pairs of chunks lie in different banks */
  static __device__ __forceinline__ int place_a(int row, int chunk) {
    return row * chunks + (chunk ^ (chunks >= 8 ? 2 * (row & 3) : row & 2));
  }
  template <int chunks>
  static __device__ __forceinline__ int place_b(int row, int chunk) {
    return place_a<chunks>(row, chunk);
  }
  template <int chunks>
  static __device__ __forceinline__ void load_a(double (&a)[4], uint32_t stage, int row, int at) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int r = 0; r < 4; r++)
      a[r] =
          rdt_load8_shared(stage + 16u * (uint32_t)place_a<chunks>(row + g + 8 * (r % 2), at / 2 + t / 2 + r / 2 * 2) +
                           8u * (uint32_t)(t % 2));
  }
  template <int chunks>
  static __device__ __forceinline__ void load_b(double (&b)[2], double (&next)[2], uint32_t stage, int at, int column) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
      b[r] = rdt_load8_shared(stage + 16u * (uint32_t)place_b<chunks>(at + t + 4 * r, (column + g) / 2) +
                              8u * (uint32_t)(g % 2));
      next[r] = rdt_load8_shared(stage + 16u * (uint32_t)place_b<chunks>(at + t + 4 * r, (column + g) / 2 + 4) +
                                 8u * (uint32_t)(g % 2));
    }
  }
  static __device__ __forceinline__ constexpr int column(int j, int t, int e) {
    return 8 * j + 2 * t + e;
  }
  template <int NT>
  static __device__ __forceinline__ void put(double *row, const double (&c)[NT][4], int half, int t) {
#pragma unroll
    for (int j = 0; j < NT; j++) *(double2 *)(row + column(j, t, 0)) = make_double2(c[j][2 * half], c[j][2 * half + 1]);
  }
  static __device__ __forceinline__ void mma(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
    rdt_mma_f64(c, a, b);
  }
  static __device__ __forceinline__ void product(int, int, double (&c)[4], const double (&a)[4], const double (&b)[2]) {
    rdt_mma_f64(c, a, b);
  }
  struct norm {
    double v[2];
    __device__ __forceinline__ void add(const double (&a)[4]) {
#pragma unroll
      for (int r = 0; r < 4; r++) v[r % 2] = fma(a[r], a[r], v[r % 2]);
    }
    __device__ __forceinline__ void put(double *to, int g, int t, bool there) const {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        double x = v[half];
        x += __shfl_xor_sync(0xffffffffu, x, 1);
        x += __shfl_xor_sync(0xffffffffu, x, 2);
        if (t == 0) to[g + 8 * half] = there ? x : 0.0;
      }
    }
  };
};

/* a[4 half + kk], b[2 kk + e]: what a thread multiplies lies in its own registers; it has all k of its rows. */
struct rdt_type_f32 : rdt_plain<float>, rdt_swizzled {
  static constexpr int bytes = 4, k = 4, a_regs = 8, b_regs = 8, together = 2, period_a = 8, period_b = 8;
  template <int chunks>
  static __device__ __forceinline__ void load_a(float (&a)[8], uint32_t stage, int row, int at) {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float v[4];
      rdt_load_shared(v, stage + 16u * (uint32_t)place_a<chunks>(row + g + 8 * half, at / 4));
#pragma unroll
      for (int kk = 0; kk < 4; kk++) a[4 * half + kk] = v[kk];
    }
  }
  template <int chunks>
  static __device__ __forceinline__ void load_b(float (&b)[8], float (&next)[8], uint32_t stage, int at, int column) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int kk = 0; kk < 4; kk++) {
      float v[4];
      rdt_load_shared(v, stage + 16u * (uint32_t)place_b<chunks>(at + kk, column / 4 + t));
      b[2 * kk] = v[0], b[2 * kk + 1] = v[1], next[2 * kk] = v[2], next[2 * kk + 1] = v[3];
    }
  }
  static __device__ __forceinline__ constexpr int column(int j, int t, int e) {
    return 16 * (j / 2) + 4 * t + 2 * (j % 2) + e;
  }
  template <int NT>
  static __device__ __forceinline__ void put(float *row, const float (&c)[NT][4], int half, int t) {
#pragma unroll
    for (int j = 0; j < NT; j += 2)
      rdt_store_four(row + column(j, t, 0), c[j][2 * half], c[j][2 * half + 1], c[j + 1][2 * half],
                     c[j + 1][2 * half + 1]);
  }
  static __device__ __forceinline__ void mma(float (&c)[4], const float (&a)[8], const float (&b)[8]) {
#pragma unroll
    for (int kk = 0; kk < 4; kk++)
#pragma unroll
      for (int r = 0; r < 4; r++) c[r] = fmaf(a[4 * (r / 2) + kk], b[2 * kk + r % 2], c[r]);
  }
  static __device__ __forceinline__ void product(int, int, float (&c)[4], const float (&a)[8], const float (&b)[8]) {
    mma(c, a, b);
  }
  struct norm {
    float v[2];
    __device__ __forceinline__ void add(const float (&a)[8]) {
#pragma unroll
      for (int r = 0; r < 8; r++) v[r / 4] = fmaf(a[r], a[r], v[r / 4]);
    }
    __device__ __forceinline__ void put(float *to, int g, int t, bool there) const {
      if (t != 0) return;
      to[g] = there ? v[0] : 0.0f, to[g + 8] = there ? v[1] : 0.0f;
    }
  };
};

#endif
