/* Known products by mma.sync and on the CUDA cores. A warp has 16 rows and 32 columns of the result at a time; which
 * warp has which changes from round to round, so that every quarter of a multiprocessor computes all of them. Operands
 * come from the caches. */
#ifndef RDT_CUDA_SM80_SMS_BODY_H
#define RDT_CUDA_SM80_SMS_BODY_H

#include "cuda/sms_body.h"

enum { SMS_TILE_ROWS = 16, SMS_TILE_COLUMNS = 32, SMS_COLUMNS = SMS_TILE_COLUMNS / 8 };

template <class Judge, class C>
RDT_DEVICE void rdt_sms_fragments(Judge &judge, const C (&c)[SMS_COLUMNS][4], int row, int column) {
  const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < SMS_COLUMNS; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) judge.result(c[j][i], row + g + i / 2 * 8, column + 8 * j + 2 * t + i % 2);
}

/* Fragments of 32 bytes of k: 16 of 16 bits, 32 bytes. */
template <class C, class M>
struct rdt_sms_mma {
  typedef C result;
  static constexpr int size = M::size;
  C c[SMS_COLUMNS][4];

  __device__ __forceinline__ void multiply(const rdt_sms_args &p, int row, int column) {
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int64_t pitch = (int64_t)p.k * size;
    const char *a = (const char *)p.a + (row + g) * pitch + 4 * t,
               *b = (const char *)p.b + (column + g) * pitch + 4 * t;
#pragma unroll
    for (int j = 0; j < SMS_COLUMNS; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) c[j][i] = 0;
    for (int64_t k = 0; k < pitch; k += 32) {
      const uint32_t x[4] = {word(a + k), word(a + 8 * pitch + k), word(a + k + 16), word(a + 8 * pitch + k + 16)};
#pragma unroll
      for (int j = 0; j < SMS_COLUMNS; j++) {
        const uint32_t y[2] = {word(b + 8 * j * pitch + k), word(b + 8 * j * pitch + k + 16)};
        M::step(c[j], x, y);
      }
    }
  }
  template <class Judge>
  __device__ __forceinline__ void judge(Judge &judge, int row, int column) {
    rdt_sms_fragments(judge, c, row, column);
  }
  static __device__ __forceinline__ uint32_t word(const char *at) {
    return __ldg((const uint32_t *)at);
  }
};

struct rdt_sms_f16 {
  static constexpr int size = 2;
  static __device__ __forceinline__ void step(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    rdt_mma_f16(c, a, b);
  }
};
struct rdt_sms_bf16 {
  static constexpr int size = 2;
  static __device__ __forceinline__ void step(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    rdt_mma_bf16(c, a, b);
  }
};
struct rdt_sms_s8 {
  static constexpr int size = 1;
  static __device__ __forceinline__ void step(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    rdt_mma_s8s8(c, a, b);
  }
};

struct rdt_sms_dmma {
  typedef double result;
  double c[SMS_COLUMNS][4];

  __device__ __forceinline__ void multiply(const rdt_sms_args &p, int row, int column) {
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const double *a = (const double *)p.a + (int64_t)(row + g) * p.k + t,
                 *b = (const double *)p.b + (int64_t)(column + g) * p.k + t;
#pragma unroll
    for (int j = 0; j < SMS_COLUMNS; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) c[j][i] = 0.0;
    for (int k = 0; k < p.k; k += 8) {
      const double x[4] = {__ldg(a + k), __ldg(a + 8 * p.k + k), __ldg(a + k + 4), __ldg(a + 8 * p.k + k + 4)};
#pragma unroll
      for (int j = 0; j < SMS_COLUMNS; j++) {
        const double y[2] = {__ldg(b + 8 * j * p.k + k), __ldg(b + 8 * j * p.k + k + 4)};
        rdt_mma_f64(c[j], x, y);
      }
    }
  }
  template <class Judge>
  __device__ __forceinline__ void judge(Judge &judge, int row, int column) {
    rdt_sms_fragments(judge, c, row, column);
  }
};

/* A lane has a column; 16 bytes of k at once. */
template <class T, class C, class M>
struct rdt_sms_lanes {
  typedef C result;
  C c[SMS_TILE_ROWS];

  __device__ __forceinline__ void multiply(const rdt_sms_args &p, int row, int column) {
    const int64_t pitch = (int64_t)p.k * (int)sizeof(T);
    const char *a = (const char *)p.a + row * pitch, *b = (const char *)p.b + (column + (int)threadIdx.x % 32) * pitch;
#pragma unroll
    for (int i = 0; i < SMS_TILE_ROWS; i++) c[i] = 0;
    for (int64_t k = 0; k < pitch; k += 16) {
      const uint4 y = __ldg((const uint4 *)(b + k));
#pragma unroll
      for (int i = 0; i < SMS_TILE_ROWS; i++) M::step(c[i], __ldg((const uint4 *)(a + i * pitch + k)), y);
    }
  }
  template <class Judge>
  __device__ __forceinline__ void judge(Judge &judge, int row, int column) {
#pragma unroll
    for (int i = 0; i < SMS_TILE_ROWS; i++) judge.result(c[i], row + i, column + (int)threadIdx.x % 32);
  }
};

struct rdt_sms_fma {
  static __device__ __forceinline__ void step(float &c, uint4 x, uint4 y) {
    c = __fmaf_rn(__uint_as_float(x.x), __uint_as_float(y.x), c),
    c = __fmaf_rn(__uint_as_float(x.y), __uint_as_float(y.y), c);
    c = __fmaf_rn(__uint_as_float(x.z), __uint_as_float(y.z), c),
    c = __fmaf_rn(__uint_as_float(x.w), __uint_as_float(y.w), c);
  }
};
struct rdt_sms_dfma {
  static __device__ __forceinline__ void step(double &c, uint4 x, uint4 y) {
    c = __fma_rn(__hiloint2double((int)x.y, (int)x.x), __hiloint2double((int)y.y, (int)y.x), c);
    c = __fma_rn(__hiloint2double((int)x.w, (int)x.z), __hiloint2double((int)y.w, (int)y.z), c);
  }
};
struct rdt_sms_dp4a {
  static __device__ __forceinline__ void step(int &c, uint4 x, uint4 y) {
    c = __dp4a((int)x.x, (int)y.x, c), c = __dp4a((int)x.y, (int)y.y, c);
    c = __dp4a((int)x.z, (int)y.z, c), c = __dp4a((int)x.w, (int)y.w, c);
  }
};

template <class Unit, class Hit>
RDT_DEVICE void rdt_sms_products(const rdt_sms_args &p, Hit hit) {
  __shared__ rdt_sms_shared shared;
  rdt_sms_judge<typename Unit::result, Hit> judge{p, shared, hit};
  const int warps = (int)blockDim.x / 32, columns = p.n / SMS_TILE_COLUMNS, tiles = p.m / SMS_TILE_ROWS * columns;
  for (int round = 0; round < p.rounds; round++) {
    const int warp = ((int)threadIdx.x / 32 + (int)((p.first + (unsigned)round) % (unsigned)warps)) % warps;
    judge.begin((unsigned)round);
    for (int tile = warp; tile < tiles; tile += warps) {
      const int row = tile / columns * SMS_TILE_ROWS, column = tile % columns * SMS_TILE_COLUMNS;
      Unit u;
      u.multiply(p, row, column);
      u.judge(judge, row, column);
    }
    judge.end();
  }
}

typedef rdt_sms_mma<float, rdt_sms_f16> rdt_sms_unit_0;
typedef rdt_sms_mma<float, rdt_sms_bf16> rdt_sms_unit_1;
typedef rdt_sms_mma<int, rdt_sms_s8> rdt_sms_unit_2;
typedef rdt_sms_dmma rdt_sms_unit_3;
typedef rdt_sms_lanes<float, float, rdt_sms_fma> rdt_sms_unit_4;
typedef rdt_sms_lanes<double, double, rdt_sms_dfma> rdt_sms_unit_5;
typedef rdt_sms_lanes<int8_t, int, rdt_sms_dp4a> rdt_sms_unit_6;
/* In the order of the table in sms.c. */
#define RDT_SMS_UNITS(X) \
  X(rdt_sms_unit_0)      \
  X(rdt_sms_unit_1) X(rdt_sms_unit_2) X(rdt_sms_unit_3) X(rdt_sms_unit_4) X(rdt_sms_unit_5) X(rdt_sms_unit_6)

#endif
