/* Types, vectors, epilogue and comparison of the passes around a library's results. */
#ifndef RDT_CUDA_BOX_FINISH_H
#define RDT_CUDA_BOX_FINISH_H

#include "cuda/box/box.h"
#include "cuda/device_common.h"
#include "cuda/fast.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/sm80/gemm_mma.h"

enum rdt_box_fn { /* the numbers of core/problem.h */
#define X(id, name, operands, kind) rdt_box_##id,
#include "core/functions.def"
#undef X
};

struct rdt_box_f16 {
  uint16_t bits;
};
struct rdt_box_bf16 {
  uint16_t bits;
};
struct rdt_box_e4m3 {
  uint8_t bits;
};
struct rdt_box_e5m2 {
  uint8_t bits;
};
struct rdt_box_any {}; /* floats of 32, 16 or 8 bits: their matrix says which */

/* A type of operands or raw results: as what it is computed with, and what sums are kept in where operands have it.
 * Products of 16-bit and 8-bit floats err by more than sums in single precision do; integers are summed modulo 2^32. */
template <class T>
struct rdt_box_type;
#define RDT_BOX_TYPE(T, WIDE, SUM)                          \
  template <>                                               \
  struct rdt_box_type<T> {                                  \
    typedef WIDE wide;                                      \
    typedef SUM sum;                                        \
    static constexpr bool integer = (WIDE)0.5 == (WIDE)0.0; \
  };
RDT_BOX_TYPE(double, double, double)
RDT_BOX_TYPE(float, float, double)
RDT_BOX_TYPE(rdt_box_f16, float, float)
RDT_BOX_TYPE(rdt_box_bf16, float, float)
RDT_BOX_TYPE(rdt_box_e4m3, float, float)
RDT_BOX_TYPE(rdt_box_e5m2, float, float)
RDT_BOX_TYPE(rdt_box_any, float, float)
RDT_BOX_TYPE(int8_t, int32_t, uint32_t)
RDT_BOX_TYPE(int32_t, int32_t, uint32_t)
#undef RDT_BOX_TYPE

RDT_DEVICE double rdt_widen(double x) {
  return x;
}
RDT_DEVICE float rdt_widen(float x) {
  return x;
}
RDT_DEVICE float rdt_widen(rdt_box_f16 x) {
  return rdt_f16::wide(x.bits).x;
}
RDT_DEVICE float rdt_widen(rdt_box_bf16 x) {
  return __uint_as_float((uint32_t)x.bits << 16);
}
RDT_DEVICE float rdt_widen(rdt_box_e4m3 x) { /* as fp16, whose exponents are 8 less */
  const uint16_t bits = (uint16_t)((x.bits & 0x80) << 8 | (x.bits & 0x7f) << 7);
  return (x.bits & 0x7f) == 0x7f ? __int_as_float(0x7fc00000) : rdt_f16::wide(bits).x * 256.0f;
}
RDT_DEVICE float rdt_widen(rdt_box_e5m2 x) {
  return rdt_f16::wide((uint16_t)(x.bits << 8)).x;
}
RDT_DEVICE int32_t rdt_widen(int8_t x) {
  return x;
}
RDT_DEVICE int32_t rdt_widen(int32_t x) {
  return x;
}

RDT_DEVICE constexpr rdt_dtype rdt_box_dtype(const double *) {
  return RDT_F64;
}
RDT_DEVICE constexpr rdt_dtype rdt_box_dtype(const float *) {
  return RDT_F32;
}
RDT_DEVICE constexpr rdt_dtype rdt_box_dtype(const rdt_box_f16 *) {
  return RDT_F16;
}
RDT_DEVICE constexpr rdt_dtype rdt_box_dtype(const rdt_box_bf16 *) {
  return RDT_BF16;
}
RDT_DEVICE constexpr rdt_dtype rdt_box_dtype(const int32_t *) {
  return RDT_S32;
}

template <class T, int V>
struct __align__(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) rdt_pack {
  T x[V];
};

template <class T, int V>
RDT_DEVICE void rdt_load_pack(const T *from, T (&x)[V]) {
  const rdt_pack<T, V> p = *(const rdt_pack<T, V> *)from;
#pragma unroll
  for (int i = 0; i < V; i++) x[i] = p.x[i];
}

template <class W, class T, int V>
RDT_DEVICE void rdt_load_as(const T *from, int64_t step, int count, bool pack, W (&x)[V]) {
  T t[V];
#pragma unroll
  for (int v = 0; v < V; v++) t[v] = T{};
  if (pack && count >= V) {
    rdt_load_pack<T, V>(from, t);
  } else {
#pragma unroll
    for (int v = 0; v < V; v++)
      if (v < count) t[v] = from[v * step];
  }
#pragma unroll
  for (int v = 0; v < V; v++) x[v] = (W)rdt_widen(t[v]);
}

/* V numbers of any type that lie step apart, of which so many are there; pack: side by side, at a common address. */
template <class W, int V>
RDT_DEVICE void rdt_box_load(const void *from, int64_t at, int64_t step, int count, bool pack, rdt_dtype type,
                             W (&x)[V]) {
  switch (type) {
    case RDT_F64:
      return rdt_load_as<W>((const double *)from + at, step, count, pack, x);
    case RDT_F32:
      return rdt_load_as<W>((const float *)from + at, step, count, pack, x);
    case RDT_F16:
      return rdt_load_as<W>((const rdt_box_f16 *)from + at, step, count, pack, x);
    case RDT_BF16:
      return rdt_load_as<W>((const rdt_box_bf16 *)from + at, step, count, pack, x);
    default:
      return rdt_load_as<W>((const int32_t *)from + at, step, count, pack, x);
  }
}

/* ---- the epilogue ---- */

template <class W>
RDT_DEVICE W rdt_clamp(W x, W low, W high) {
  const W y = x < low ? low : x;
  return y > high ? high : y;
}

/* Those that networks put behind products; common.c says which. What may be contracted is written so: passes that are
 * compiled apart have to find the same bits. */
template <int fn>
RDT_DEVICE float rdt_curve(float x, float p, float q) {
  switch (fn) {
    case rdt_box_LEAKYRELU:
      return x < 0.0f ? p * x : x;
    case rdt_box_HARDSIGMOID:
      return rdt_clamp(fmaf(p, x, q), 0.0f, 1.0f);
    case rdt_box_HARDSWISH:
      return x * rdt_clamp(fmaf(p, x, q), 0.0f, 1.0f);
    case rdt_box_ELU:
      return x < 0.0f ? p * expm1f(x) : x;
    case rdt_box_SIGMOID:
      return 1.0f / (1.0f + expf(-x));
    case rdt_box_SILU:
      return x / (1.0f + expf(-x));
    case rdt_box_TANH:
      return tanhf(x);
    case rdt_box_ERF:
      return erff(x);
    case rdt_box_GELU:
      return 0.5f * x * erfcf(-x * 0.70710678f);
    case rdt_box_GELU_TANH:
      return x / (1.0f + expf(-x * fmaf(0.071354816f, x * x, 1.5957691f)));
    default:
      return x;
  }
}

/* Those of them that results of 16 bits have from the hardware's approximations; only passes over 16 bits have them. */
template <int fn>
RDT_DEVICE float rdt_curve_half(float x, float p, float q) {
  switch (fn) {
    case rdt_box_SIGMOID:
      return rdt_fast_gate(1.0f, x);
    case rdt_box_SILU:
      return rdt_fast_gate(x, x);
    case rdt_box_GELU:
      return rdt_fast_gelu(x);
    case rdt_box_GELU_TANH:
      return rdt_fast_gate(x, __fmul_rn(x, fmaf(0.071354816f, __fmul_rn(x, x), 1.5957691f)));
    default:
      return rdt_curve<fn>(x, p, q);
  }
}

template <int fn, bool half, int N>
RDT_DEVICE void rdt_curves(const rdt_box_finish &f, float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++)
    x[i] = half ? rdt_curve_half<fn>(x[i], (float)f.p, (float)f.q) : rdt_curve<fn>(x[i], (float)f.p, (float)f.q);
}

template <bool half, int N, class W>
RDT_DEVICE void rdt_box_curve(const rdt_box_finish &, W (&)[N]) { /* there is none for doubles and integers */
}
template <bool half, int N>
RDT_DEVICE void rdt_box_curve(const rdt_box_finish &f, float (&x)[N]) {
#define CASE(fn)                   \
  case fn:                         \
    rdt_curves<fn, half, N>(f, x); \
    break;
  switch (f.act) {
    CASE(rdt_box_LEAKYRELU)
    CASE(rdt_box_HARDSIGMOID)
    CASE(rdt_box_HARDSWISH)
    CASE(rdt_box_ELU)
    CASE(rdt_box_SIGMOID)
    CASE(rdt_box_SILU)
    CASE(rdt_box_TANH)
    CASE(rdt_box_ERF)
    CASE(rdt_box_GELU)
    CASE(rdt_box_GELU_TANH)
  }
#undef CASE
}

/* curves: also those that are more than a bound; half: as results of 16 bits have them */
template <bool curves, int N, class W, bool half = false>
RDT_DEVICE void rdt_box_act(const rdt_box_finish &f, W (&x)[N]) {
  if (f.act == rdt_box_NONE) return;
  if (f.act == rdt_box_RELU) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = x[i] < 0 ? 0 : x[i];
  } else if (f.act == rdt_box_CLIP) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = rdt_clamp<W>(x[i], (W)f.p, (W)f.q);
  } else if (curves) {
    rdt_box_curve<half, N>(f, x);
  }
}

/* One element, up to its activation; bias: of its channel, residual: its own. */
template <class W>
RDT_DEVICE W rdt_box_sum(const rdt_box_finish &f, W raw, W bias, W residual, bool has_residual) {
  W v = rdt_mul((W)f.alpha, raw);
  if (f.bias) v = rdt_add(v, bias);
  if (has_residual) v = rdt_add(v, rdt_mul((W)f.beta, residual));
  return v;
}

/* Neighbours as they are stored, 16 bytes of accumulators: four of f32 or s32, two of f64; eight bytes of 16-bit ones.
 */
struct rdt_box_words {
  uint32_t w[4];
};

RDT_DEVICE bool rdt_box_is_half(rdt_dtype type) {
  return type == RDT_F16 || type == RDT_BF16;
}

RDT_DEVICE rdt_box_words rdt_box_narrow(const double *x, rdt_dtype) {
  const uint64_t a = (uint64_t)__double_as_longlong(x[0]), b = (uint64_t)__double_as_longlong(x[1]);
  return {{(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)}};
}
RDT_DEVICE rdt_box_words rdt_box_narrow(const int32_t *x, rdt_dtype) {
  return {{(uint32_t)x[0], (uint32_t)x[1], (uint32_t)x[2], (uint32_t)x[3]}};
}
RDT_DEVICE rdt_box_words rdt_box_narrow(const float *x, rdt_dtype type) {
  if (type == RDT_F16) return {{rdt_f16::narrow(x[0], x[1]), rdt_f16::narrow(x[2], x[3]), 0, 0}};
  if (type == RDT_BF16) return {{rdt_bf16::narrow(x[0], x[1]), rdt_bf16::narrow(x[2], x[3]), 0, 0}};
  return {{__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])}};
}

/* The v-th of them, by itself; v is known when compiled. */
RDT_DEVICE void rdt_box_store_one(void *to, int64_t at, rdt_dtype type, const rdt_box_words &x, int v) {
  if (rdt_box_is_half(type))
    ((uint16_t *)to)[at] = (uint16_t)(x.w[v / 2] >> (16 * (v & 1)));
  else if (type == RDT_F64)
    ((uint2 *)to)[at] = make_uint2(x.w[2 * (v & 1)], x.w[2 * (v & 1) + 1]);
  else
    ((uint32_t *)to)[at] = x.w[v];
}

RDT_DEVICE bool rdt_box_same_one(const void *from, int64_t at, rdt_dtype type, const rdt_box_words &x, int v) {
  if (rdt_box_is_half(type)) return ((const uint16_t *)from)[at] == (uint16_t)(x.w[v / 2] >> (16 * (v & 1)));
  if (type != RDT_F64) return ((const uint32_t *)from)[at] == x.w[v];
  const uint2 is = ((const uint2 *)from)[at];
  return is.x == x.w[2 * (v & 1)] && is.y == x.w[2 * (v & 1) + 1];
}

/* ---- bit-sums of what is stored (check/bitsum.h) ---- */

/* Words that lie one after the other, the first of this number. */
template <int N>
RDT_DEVICE uint64_t rdt_box_share(const uint32_t *w, uint64_t number) {
  uint64_t plain = 0, placed = 0;
#pragma unroll
  for (int i = 0; i < N; i++) plain += w[i], placed += (uint64_t)w[i] * (uint32_t)i;
  return plain * (number * 0x3c6ef37200000002u + 1u) + placed * 0x3c6ef37200000002u;
}

/* Eight neighbours of 16 bits from element `at` on. */
template <class T>
RDT_DEVICE uint64_t rdt_box_share_of(const T (&x)[8], uint64_t at) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; i++) words[i] = (uint32_t)x[2 * i].bits | (uint32_t)x[2 * i + 1].bits << 16;
  return rdt_box_share<4>(words, at / 2);
}

/* A pack of results at element `at`, as it is stored. */
RDT_DEVICE rdt_box_words rdt_box_load_pack(const void *from, int64_t at, rdt_dtype type) {
  if (rdt_box_is_half(type)) {
    const uint2 x = *(const uint2 *)((const uint16_t *)from + at);
    return {{x.x, x.y, 0, 0}};
  }
  const uint4 x =
      type == RDT_F64 ? *(const uint4 *)((const uint64_t *)from + at) : *(const uint4 *)((const uint32_t *)from + at);
  return {{x.x, x.y, x.z, x.w}};
}

RDT_DEVICE bool rdt_box_same(const rdt_box_words &x, const rdt_box_words &y) {
  return ((x.w[0] ^ y.w[0]) | (x.w[1] ^ y.w[1]) | (x.w[2] ^ y.w[2]) | (x.w[3] ^ y.w[3])) == 0;
}

/* Which of several tasks the block works for, and as which of its blocks. */
template <class Tasks>
RDT_DEVICE int rdt_box_task(const Tasks &all, unsigned &block) {
  int i = 0;
  while (i + 1 < all.n && blockIdx.x >= all.first[i + 1]) i++;
  block = blockIdx.x - all.first[i];
  return i;
}

/* What a block has summed, and that it was there; and what it has read. */
template <int THREADS>
RDT_DEVICE void rdt_box_add(const rdt_box_sum_to &to, uint64_t x, uint64_t *read_to = nullptr, uint64_t y = 0) {
  __shared__ uint64_t warps[2][THREADS / 32];
  if (!to.sum && !read_to) return;
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    x += __shfl_down_sync(0xffffffffu, x, d);
    if (read_to) y += __shfl_down_sync(0xffffffffu, y, d);
  }
  if (threadIdx.x % 32 == 0) warps[0][threadIdx.x / 32] = x, warps[1][threadIdx.x / 32] = y;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned w = 1; w < blockDim.x / 32; w++) x += warps[0][w], y += warps[1][w];
  if (read_to) atomicAdd((unsigned long long *)read_to, (unsigned long long)y);
  if (!to.sum) return;
  atomicAdd((unsigned long long *)to.sum, (unsigned long long)x);
  atomicAdd((unsigned long long *)to.visits, 1ull);
}

/* What the tiles have left, shared out among the blocks that check them; a tile that leaves nothing next time is
 * missed. */
RDT_DEVICE void rdt_box_collect(const rdt_box_tiles &tiles, unsigned block) {
  if (!tiles.to.sum || threadIdx.x >= 32) return;
  uint64_t x = 0, y = 0, z = 0;
  const unsigned first = block + tiles.blocks * threadIdx.x, step = 32 * tiles.blocks;
  for (unsigned i = first; i < tiles.count; i += step) {
    x += tiles.list[i], tiles.list[i] = 0;
    if (tiles.read_to) y += tiles.read[i], tiles.read[i] = 0;
  }
  if (tiles.loaded_to)
    for (unsigned i = first; i < tiles.count * tiles.splits; i += step) z += tiles.loaded[i], tiles.loaded[i] = 0;
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    x += __shfl_down_sync(0xffffffffu, x, d);
    y += __shfl_down_sync(0xffffffffu, y, d);
    z += __shfl_down_sync(0xffffffffu, z, d);
  }
  if (threadIdx.x != 0) return;
  atomicAdd((unsigned long long *)tiles.to.sum, (unsigned long long)x);
  if (tiles.read_to) atomicAdd((unsigned long long *)tiles.read_to, (unsigned long long)y);
  if (tiles.loaded_to) atomicAdd((unsigned long long *)tiles.loaded_to, (unsigned long long)z);
  atomicAdd((unsigned long long *)tiles.to.visits, 1ull);
}

/* ---- sums and comparison ---- */

/* A square, and the square of the least number that tensor cores align as it is: an over-estimate of what subnormal
 * numbers count. */
template <class S>
RDT_DEVICE S rdt_box_square(S x, S least2) {
  return x * x + least2;
}
RDT_DEVICE float rdt_box_square(float x, float least2) {
  return fmaf(x, x, least2);
}

/* What sums are compared in. */
template <class S>
struct rdt_box_exact {
  typedef double type;
};
template <>
struct rdt_box_exact<uint32_t> {
  typedef uint32_t type;
};

/* What the library multiplied the product with. */
RDT_DEVICE void rdt_box_scale(double alpha, double &sum, double &squares) {
  sum *= alpha, squares *= alpha * alpha;
}
RDT_DEVICE void rdt_box_scale(double, uint32_t &, uint32_t &) { /* integers: alpha is 1 */
}

/* What squares may have lost below the normal range, of so many. */
RDT_DEVICE double rdt_box_lost(float, int count) {
  return count * 0x1p-126;
}
RDT_DEVICE double rdt_box_lost(double, int) {
  return 0.0;
}
RDT_DEVICE uint32_t rdt_box_lost(uint32_t, int) {
  return 0;
}

RDT_DEVICE unsigned rdt_box_signs(unsigned i) { /* 32 of them, by a hash that mixes all bits */
  i = (i + 1u) * 0x9e3779b9u;
  i = (i ^ (i >> 16)) * 0x85ebca6bu;
  i = (i ^ (i >> 13)) * 0xc2b2ae35u;
  return i ^ (i >> 16);
}

/* Within the parts of the bound that come from one magnitude alone, as nearly all are: no need to ask for more. */
RDT_DEVICE bool rdt_box_passes(const rdt_box_bound &b, double s, double c2, double e, double q) {
  const double infinity = __longlong_as_double(0x7ff0000000000000), d = s - e;
  const double most = b.added > 0.0 ? c2 : fmin(c2, b.cap * q);
  return d * d <= fmax(b.surely * q, b.clearly * most) && q < infinity && most < infinity;
}
RDT_DEVICE bool rdt_box_passes(const rdt_box_bound &, uint32_t s, uint32_t, uint32_t e, uint32_t) {
  return s == e;
}

/* See rdt_box_bound. */
static __device__ __noinline__ void rdt_box_compare(const rdt_box_bound &b, rdt_cuda_verdict *verdict, rdt_place_of at,
                                                    double s, double c2, double e, double q) {
  const double infinity = __longlong_as_double(0x7ff0000000000000), size = b.cap * q;
  const bool added = b.added > 0.0;
  const double most = added ? c2 : fmin(c2, size);
  const double over = q > 0.0 ? fmin(1.0, b.theta * most / q) : 0.0;
  const double v = b.c2 * most + over * b.drift * most + b.q * q + b.s2 * s * s + b.e2 * e * e + b.rest;
  const double tau0 = b.q0 * sqrt(q) + b.added * sqrt(c2) + b.least;
  const double tau2 = fmin(tau0, b.line * fabs(s) + b.lambda * sqrt(v) + b.least), residual = fabs(s - e);
  if (!(tau0 < infinity) || (!(fabs(s) < infinity) && (added || !(size < b.limit))))
    rdt_complain(verdict, RDT_CUDA_CANNOT, at, (float)s, (float)e, (float)tau2, (float)tau0);
  else if (!(residual <= tau0))
    rdt_complain(verdict, RDT_CUDA_CERTAIN, at, (float)s, (float)e, (float)tau2, (float)tau0);
  else if (!(residual <= tau2))
    rdt_complain(verdict, RDT_CUDA_SUSPECT, at, (float)s, (float)e, (float)tau2, (float)tau0);
}

static __device__ __forceinline__ void rdt_box_compare(const rdt_box_bound &, rdt_cuda_verdict *verdict,
                                                       rdt_place_of at, uint32_t s, uint32_t, uint32_t e, uint32_t) {
  if (s != e) rdt_complain(verdict, RDT_CUDA_CERTAIN, at, (float)s, (float)e, 0.0f, 0.0f);
}

#endif
