#include "cuda/block/sums.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

template <class T>
struct type_of {
  using square = double;
  static constexpr int count = 16 / (int)sizeof(T);
};
template <>
struct type_of<__half> {
  using square = float; /* exact, and far from both ends of the range */
  static constexpr int count = 8;
};

__device__ __forceinline__ float wide(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float wide(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ __forceinline__ float wide(float x) {
  return x;
}
__device__ __forceinline__ double wide(double x) {
  return x;
}

template <class T>
union vector_of {
  uint4 all;
  uint32_t word[4];
  T x[16 / sizeof(T)];
};

/* A float has the bits of a double, but for where they lie and for the exponent's bias: that takes a fraction of the
 * time of a conversion. scale: of the biases. exponents: of a word; all of one set: not finite. Weights and sums take
 * back `weight` and `sum` of scale; what is left is each number's. */
template <class T>
struct bits_in {
  static constexpr double weight = 1.0, sum = 1.0;
};
template <>
struct bits_in<__half> { /* Inf and NaN pass as numbers: squares, which are formed otherwise, tell of them */
  static constexpr uint32_t kept = 0x81fffc00u;
  static constexpr int shift = 6;
  static constexpr double weight = 0x1p908, sum = 0x1p100;
};
template <>
struct bits_in<__nv_bfloat16> {
  static constexpr double weight = 1.0, sum = 1.0;
  static constexpr uint32_t exponents = 0x7f807f80u, one = 0x00800080u, signs = 0x80008000u;
  static constexpr int shift = 13;
  static constexpr double scale = 0x1p896;
};
template <>
struct bits_in<float> {
  static constexpr double weight = 1.0, sum = 1.0;
  static constexpr uint32_t exponents = 0x7f800000u, one = 0x00800000u, signs = 0x80000000u;
  static constexpr double scale = 0x1p896;
};

template <class T>
constexpr bool is_half = false;
template <>
constexpr bool is_half<__half> = true;

template <class T>
__device__ __forceinline__ void widen(const vector_of<T> &v, double (&d)[16 / sizeof(T)]) {
  constexpr int V = 16 / sizeof(T);
  if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int e = 0; e < V; e++) d[e] = v.x[e];
  } else if constexpr (is_half<T>) { /* times 2^-1008 */
    using B = bits_in<T>;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int w = (int)v.word[i];
      d[2 * i] = __hiloint2double((int)((uint32_t)((int)((uint32_t)w << 16) >> B::shift) & B::kept), 0);
      d[2 * i + 1] = __hiloint2double((int)((uint32_t)(w >> B::shift) & B::kept), 0);
    }
  } else {
    using B = bits_in<T>;
    uint32_t carry = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) carry |= (v.word[i] & B::exponents) + B::one;
    if (carry & B::signs) { /* Inf, NaN */
#pragma unroll
      for (int e = 0; e < V; e++) d[e] = (double)wide(v.x[e]);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t w = v.word[i], sign = w & 0x80000000u;
      if constexpr (sizeof(T) == 4) {
        d[i] = __hiloint2double((int)(sign | (w & 0x7fffffffu) >> 3), (int)(w << 29)) * B::scale;
      } else {
        const uint32_t low = (w << 16 & 0x80000000u) | (w & 0x7fffu) << B::shift;
        const uint32_t high = sign | (w & 0x7fff0000u) >> (16 - B::shift);
        d[2 * i] = __hiloint2double((int)low, 0) * B::scale;
        d[2 * i + 1] = __hiloint2double((int)high, 0) * B::scale;
      }
    }
  }
}

enum { WARPS = RDT_PASS_THREADS / 32, TOGETHER = 4, FLUSH = RDT_PASS_FLUSH };

/* Of four lines, over the warp: every eighth thread then has one of them, line 2 * (lane / 16) + lane / 8 % 2. */
template <class R>
__device__ __forceinline__ R fold(const R (&v)[TOGETHER], int lane) {
  const bool high = lane & 16, second = lane & 8;
  R a = high ? v[2] : v[0], b = high ? v[3] : v[1];
  a += __shfl_xor_sync(0xffffffffu, high ? v[0] : v[2], 16);
  b += __shfl_xor_sync(0xffffffffu, high ? v[1] : v[3], 16);
  R r = second ? b : a;
  r += __shfl_xor_sync(0xffffffffu, second ? a : b, 8);
  for (int d = 4; d > 0; d /= 2) r += __shfl_xor_sync(0xffffffffu, r, d);
  return r;
}

__device__ __forceinline__ void copy16(uint32_t to, const void *from, int bytes) { /* what is left of 16 is zeroed */
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/* rdt_bitsum's: word i counts 1 + i step times. */
constexpr unsigned long long STEP = 0x3c6ef37200000002ull;

/* The words of 16 bytes that begin with element `at` of the block without gaps. */
template <class T>
__device__ __forceinline__ unsigned long long bits_of(const vector_of<T> &v, int64_t at) {
  unsigned long long sum = 0;
  const unsigned long long first = (unsigned long long)(at * (int64_t)sizeof(T) / 4);
  if constexpr (sizeof(T) == 2)
    if (at % 2) { /* halves of words */
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const unsigned long long m = 1 + (first + i) * STEP;
        sum += (unsigned long long)(v.word[i] << 16) * m + (unsigned long long)(v.word[i] >> 16) * (m + STEP);
      }
      return sum;
    }
  unsigned long long places = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) sum += v.word[i], places += (unsigned long long)v.word[i] * (unsigned)i;
  return sum * (1 + first * STEP) + places * STEP;
}

/* Each thread's own 16 bytes of so many lines are on their way through shared memory: nobody waits for anybody. */
template <class T, bool along, bool across>
__global__ void __launch_bounds__(RDT_PASS_THREADS, 2) pass(const __grid_constant__ rdt_pass_args p) {
  using Q = typename type_of<T>::square;
  constexpr int V = type_of<T>::count;
  extern __shared__ uint4 ring[]; /* [RDT_PASS_STAGES][TOGETHER][threads] */
  __shared__ double line_dot[along ? FLUSH : 1][WARPS];
  __shared__ Q line_sq[along ? FLUSH : 1][WARPS];
  __shared__ double line_weight[across ? FLUSH : 1];
  __shared__ Q line_weight_sq[across ? FLUSH : 1];
  __shared__ unsigned long long seals[WARPS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = ((int64_t)blockIdx.x * WARPS + warp) * 32 * V + lane * V;
  const int there = column >= p.length ? 0 : p.length - column < V ? (int)(p.length - column) : V;
  const int64_t from = (int64_t)blockIdx.y * p.each;
  const int64_t end = from + p.each < p.lines ? from + p.each : p.lines;
  double weight[V], cross_dot[V];
  Q weight_sq[V], cross_sq[V];
  unsigned long long seal = 0, places = 0;
  /* Of the first word of the line; lines of half words take the long way. */
  unsigned long long times = 1 + (unsigned long long)((from * p.length + column) * (int64_t)sizeof(T) / 4) * STEP;
  const unsigned long long line_step = (unsigned long long)(p.length * (int64_t)sizeof(T) / 4) * STEP;
  const bool words = is_half<T> && p.seal && p.length % 2 == 0;
  const char *next = (const char *)((const T *)p.x + (there > 0 ? from * p.pitch + column : 0));
  const int64_t apart = p.pitch * (int64_t)sizeof(T);
  int left = there > 0 ? (int)(end - from) : 0; /* lines to fetch */
  const int bytes = there * (int)sizeof(T);
  const uint32_t own = (uint32_t)__cvta_generic_to_shared(ring) + threadIdx.x * 16;
  auto fetch = [&](int stage) {
#pragma unroll
    for (int r = 0; r < TOGETHER; r++) {
      copy16(own + (stage * TOGETHER + r) * RDT_PASS_BYTES, left > r ? next : (const char *)p.x, left > r ? bytes : 0);
      next += apart;
    }
    left -= TOGETHER;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#pragma unroll
  for (int s = 0; s + 1 < RDT_PASS_STAGES; s++) fetch(s);
#pragma unroll
  for (int e = 0; e < V; e++) {
    cross_dot[e] = 0.0, cross_sq[e] = 0;
    weight[e] = along && e < there ? p.along_dot[column + e] * bits_in<T>::weight : 0.0;
    weight_sq[e] = along && e < there ? p.along_sq ? (Q)p.along_sq[column + e] : (Q)1 : (Q)0;
  }
  int stage = 0;
  for (int64_t flush = from; flush < end; flush += FLUSH) {
    const int64_t stop = flush + FLUSH < end ? flush + FLUSH : end;
    if (across) {
      const int64_t line = flush + threadIdx.x;
      __syncthreads();
      if (threadIdx.x < FLUSH) {
        line_weight[threadIdx.x] = line < stop ? p.across_dot[line] * bits_in<T>::weight : 0.0;
        line_weight_sq[threadIdx.x] = line < stop ? p.across_sq ? (Q)p.across_sq[line] : (Q)1 : (Q)0;
      }
      __syncthreads();
    }
#pragma unroll 1
    for (int64_t i = flush; i < stop; i += TOGETHER) {
      vector_of<T> v[TOGETHER];
      double dot[TOGETHER];
      Q sq[TOGETHER];
      asm volatile("cp.async.wait_group %0;" ::"n"(RDT_PASS_STAGES - 2) : "memory");
#pragma unroll
      for (int r = 0; r < TOGETHER; r++) v[r].all = ring[(stage * TOGETHER + r) * RDT_PASS_THREADS + threadIdx.x];
      fetch(stage > 0 ? stage - 1 : RDT_PASS_STAGES - 1);
      stage = stage + 1 < RDT_PASS_STAGES ? stage + 1 : 0;
#pragma unroll
      for (int r = 0; r < TOGETHER; r++) {
        const bool line = i + r < stop;
        const double w = across ? line_weight[i - flush + r] : 0.0;
        const Q w_sq = across ? line_weight_sq[i - flush + r] : (Q)0;
        dot[r] = 0.0, sq[r] = 0;
        if (words) {
          unsigned long long sum = 0;
#pragma unroll
          for (int q = 0; q < 4; q++) sum += v[r].word[q], places += (unsigned long long)v[r].word[q] * (unsigned)q;
          seal += sum * times;
          times += line_step;
        } else if (p.seal && line) {
          seal += bits_of<T>(v[r], (i + r) * p.length + column);
        }
        double d[V];
        widen<T>(v[r], d);
#pragma unroll
        for (int e = 0; e < V; e++) {
          const Q y = sizeof(Q) == 8 ? (Q)d[e] : (Q)wide(v[r].x[e]), s = y * y;
          if (along) dot[r] = fma(d[e], weight[e], dot[r]), sq[r] = fma(s, weight_sq[e], sq[r]);
          if (across) cross_dot[e] = fma(d[e], w, cross_dot[e]), cross_sq[e] = fma(s, w_sq, cross_sq[e]);
        }
      }
      if (!along) continue;
      const double d = fold(dot, lane);
      const Q s = fold(sq, lane);
      const int line = (int)(i - flush) + 2 * (lane / 16) + lane / 8 % 2;
      if (lane % 8 == 0) line_dot[line][warp] = d, line_sq[line][warp] = s;
    }
    if (!along) continue;
    __syncthreads();
    const int64_t line = flush + threadIdx.x;
    if (threadIdx.x < FLUSH && line < stop) {
      double d = 0.0, s = 0.0;
      for (int w = 0; w < WARPS; w++) d += line_dot[threadIdx.x][w], s += (double)line_sq[threadIdx.x][w];
      *(double2 *)(p.line_parts + 2 * ((int64_t)blockIdx.x * p.lines + line)) = make_double2(d * bits_in<T>::sum, s);
    }
    __syncthreads();
  }
  if (across)
#pragma unroll
    for (int e = 0; e < V; e++)
      if (e < there)
        *(double2 *)(p.cross_parts + 2 * ((int64_t)blockIdx.y * p.length + column + e)) =
            make_double2(cross_dot[e] * bits_in<T>::sum, (double)cross_sq[e]);
  if (!p.seal) return;
  seal += places * STEP;
  for (int d = 16; d > 0; d /= 2) seal += __shfl_xor_sync(0xffffffffu, seal, d);
  if (lane == 0) seals[warp] = seal;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < WARPS; w++) seal += seals[w];
  atomicAdd(p.seal, seal);
}

__global__ void __launch_bounds__(RDT_PASS_THREADS) gather(const __grid_constant__ rdt_gather_args p) {
  const int64_t i = (int64_t)blockIdx.x * RDT_PASS_THREADS + threadIdx.x;
  if (i >= p.n) return;
  double dot = 0.0, sq = 0.0;
  for (int q = 0; q < p.count; q++) {
    const double2 x = *(const double2 *)(p.parts + 2 * (q * p.n + i));
    dot += x.x, sq += x.y;
  }
  double factor = 1.0;
  if (p.half && i < 2 * p.half) {
    const int64_t other = i < p.half ? i + p.half : i - p.half;
    for (int q = 0; q < p.count; q++) sq += p.parts[2 * (q * p.n + other) + 1];
    factor = p.factor;
  }
  p.dot[i] = dot, p.sq[i] = sq;
  if (!p.total_dot) return;
  p.total_dot[i] += dot, p.total_sq[i] += factor * sq;
  if (p.seen_sq) p.between[i] += p.seen_sq[i];
}

/* Twice, the second time by squares: rdt_box_bound says how. What is not a number passes neither. */
__global__ void __launch_bounds__(RDT_PASS_THREADS) compare(const __grid_constant__ rdt_compare_args p) {
  const int64_t i = (int64_t)blockIdx.x * RDT_PASS_THREADS + threadIdx.x;
  const bool there = i < p.n;
  bool passes = false, seconded = false, cannot = false;
  double ratio = 0.0, floor = 0.0;
  if (there) {
    const rdt_box_bound &b = p.bound;
    const double s = p.observed_dot[i], e = p.expected_dot[i], c2 = p.observed_sq[i] * 1.000001,
                 q = p.expected_sq[i] * 1.000001 + 0x1p-900;
    const double most = c2 < b.cap * q && !p.widest ? c2 : b.cap * q, theta = b.theta * most / q;
    const double variance = b.c2 * most + (theta < 1.0 ? theta : 1.0) * b.drift * most + b.q * q + b.s2 * s * s +
                            b.e2 * e * e + b.rest;
    const double tau0 = b.q0 * sqrt(q) + b.least, usual = b.line * fabs(s) + b.lambda * sqrt(variance) + b.least;
    const double tau2 = usual < tau0 ? usual : tau0, residual = fabs(s - e);
    cannot = !(tau0 < 1e308) || !(tau2 < 1e308);
    passes = !cannot && residual <= tau2;
    const double d = e - s;
    seconded = d * d <= tau2 * tau2 * (1.0 + 0x1p-40) && tau0 < 1e308;
    ratio = residual / (tau2 > 0.0 ? tau2 : 0x1p-900), floor = 2.0 * tau2;
    if (!passes) ratio = floor = 0.0; /* the host says what is wrong */
  }
  const unsigned warp = 0xffffffffu;
  const int ok = __popc(__ballot_sync(warp, passes)), second = __popc(__ballot_sync(warp, seconded)),
            none = __popc(__ballot_sync(warp, cannot)), all = __popc(__ballot_sync(warp, there));
  for (int d = 16; d > 0; d /= 2) {
    ratio = fmax(ratio, __shfl_xor_sync(warp, ratio, d));
    floor = fmax(floor, __shfl_xor_sync(warp, floor, d));
  }
  if (threadIdx.x % 32 > 0 || all == 0) return;
  atomicAdd(&p.found->passed, (unsigned)ok);
  atomicAdd(&p.found->seconded, (unsigned)second);
  if (none) atomicAdd(&p.found->cannot, (unsigned)none);
  if (all - ok - none) atomicAdd(&p.found->suspect, (unsigned)(all - ok - none));
  atomicMax(&p.found->ratio, (unsigned long long)__double_as_longlong(ratio));
  atomicMax(&p.found->floor, (unsigned long long)__double_as_longlong(floor));
}

template <class T>
__global__ void __launch_bounds__(RDT_PASS_THREADS) halves(const __grid_constant__ rdt_halves_args p) {
  const int64_t j = (int64_t)blockIdx.x * RDT_PASS_THREADS + threadIdx.x;
  if (j >= p.length) return;
  const T sign = (T)p.sign;
  for (int64_t i = blockIdx.y; i < p.lines; i += gridDim.y) {
    const T x = ((const T *)p.x)[i * p.x_pitch + j];
    const T z = p.y ? x + sign * ((const T *)p.y)[i * p.y_pitch + j] : sign * x;
    T *to = (T *)p.to + i * p.to_pitch + j;
    *to = p.kept ? *to + z : z;
  }
}

template <class T>
struct sum_of {
  using type = float;
};
template <>
struct sum_of<double> {
  using type = double;
};

template <class T>
__global__ void __launch_bounds__(RDT_PLAIN_THREADS) plain(const __grid_constant__ rdt_plain_args p) {
  using R = typename sum_of<T>::type;
  enum { SIDE = RDT_PLAIN_SIDE, DEEP = 16, OWN = 4 };
  __shared__ R a[DEEP][SIDE + 1], b[DEEP][SIDE + 1];
  const int64_t row = (int64_t)blockIdx.y * SIDE, column = (int64_t)blockIdx.x * SIDE;
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  R sum[OWN][OWN] = {};
  for (int64_t k = 0; k < p.k; k += DEEP) {
    for (int i = threadIdx.x; i < SIDE * DEEP; i += RDT_PLAIN_THREADS) {
      /* neighbours in memory are taken by neighbours */
      const int ar = p.a_column == 1 ? i / DEEP : i % SIDE, ak = p.a_column == 1 ? i % DEEP : i / SIDE;
      const int bc = p.b_column == 1 ? i % SIDE : i / DEEP, bk = p.b_column == 1 ? i / SIDE : i % DEEP;
      a[ak][ar] = row + ar < p.m && k + ak < p.k
                      ? (R)wide(((const T *)p.a)[(row + ar) * p.a_row + (k + ak) * p.a_column])
                      : (R)0;
      b[bk][bc] = column + bc < p.n && k + bk < p.k
                      ? (R)wide(((const T *)p.b)[(k + bk) * p.b_row + (column + bc) * p.b_column])
                      : (R)0;
    }
    __syncthreads();
    for (int q = 0; q < DEEP && k + q < p.k; q++)
#pragma unroll
      for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int j = 0; j < OWN; j++) sum[i][j] = fma(a[q][ty + 16 * i], b[q][tx + 16 * j], sum[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      const int64_t r = row + ty + 16 * i, c = column + tx + 16 * j;
      if (r >= p.m || c >= p.n) continue;
      R *to = (R *)p.c + r * p.c_row + c;
      *to = p.add ? *to + sum[i][j] : sum[i][j];
    }
}

} // namespace

#define CASES(T)                                                                           \
  {(const void *)pass<T, false, false>, (const void *)pass<T, true, false>,                \
   (const void *)pass<T, false, true>, (const void *)pass<T, true, true>}
extern "C" const void *const rdt_pass_code[RDT_BLOCK_TYPES][RDT_PASS_CASES] = {CASES(__half), CASES(__nv_bfloat16),
                                                                               CASES(float), CASES(double)};
extern "C" const void *const rdt_gather_code = (const void *)gather;
extern "C" const void *const rdt_compare_code = (const void *)compare;
extern "C" const void *const rdt_halves_code[2] = {(const void *)halves<float>, (const void *)halves<double>};
extern "C" const void *const rdt_plain_code[RDT_BLOCK_TYPES] = {(const void *)plain<__half>,
                                                                (const void *)plain<__nv_bfloat16>,
                                                                (const void *)plain<float>, (const void *)plain<double>};
