/* What the checks need to know of B: the largest squares, for bounds, and the signed sums of rows. Subnormal numbers of
 * 16 bits count as the smallest normal one: tensor cores align them so. What squares may have lost is added (see
 * RDT_MMA_LEAST). A sum that its type might not hold leaves no bound. */
#include "cuda/weights.h"

#include "cuda/sm80/types.h"

/* An element, and what counts as its size at least. */
template <class T>
struct rdt_read {
  typedef typename T::sum R;
  static __device__ __forceinline__ R at(const rdt_weights_args &p, int row, int column) {
    return ((const typename T::element *)p.b)[row * p.ldb + column];
  }
  static __device__ __forceinline__ R size(R x) {
    return x;
  }
};
template <class T>
struct rdt_read_half {
  static __device__ __forceinline__ float at(const rdt_weights_args &p, int row, int column) {
    return T::wide(((const uint16_t *)p.b)[row * p.ldb + column]).x;
  }
  static __device__ __forceinline__ float size(float x) {
    return x != 0.0f ? fmaxf(fabsf(x), T::least) : 0.0f;
  }
};
template <>
struct rdt_read<rdt_type_f16> : rdt_read_half<rdt_type_f16> {};
template <>
struct rdt_read<rdt_type_bf16> : rdt_read_half<rdt_type_bf16> {};

template <class T>
RDT_DEVICE typename T::sum square(const rdt_weights_args &p, int row, int column) {
  const typename T::sum x = rdt_read<T>::at(p, row, column), m = rdt_read<T>::size(x);
  return x != x ? x : m * m;
}

template <class R>
RDT_DEVICE R most(R x, R y) { /* NaN wins */
  return x != x || x > y ? x : y;
}

/* A sum of so many squares. */
RDT_DEVICE float with_lost(const rdt_type_f32 *, float rho2, int) {
  return most(rho2, RDT_MMA_LEAST);
}
RDT_DEVICE double with_lost(const rdt_type_f64 *, double rho2, int) {
  return most(rho2, RDT_MMA_LEAST64);
}
template <class T>
RDT_DEVICE float with_lost(const T *, float rho2, int count) {
  return rho2 + (float)count * RDT_MMA_LOST;
}

template <class T>
RDT_DEVICE typename T::sum bounded(typename T::sum rho2, int fragments) {
  rho2 = with_lost((const T *)nullptr, rho2, fragments);
  if constexpr (T::bytes == 2) return rho2 * (float)fragments < T::most * T::most ? rho2 : __int_as_float(0x7f800000);
  return rho2;
}

template <class T>
static __global__ void __launch_bounds__(256) groups(const __grid_constant__ rdt_weights_args p) {
  typedef typename T::sum R;
  __shared__ R largest[256];
  const int id = (int)threadIdx.x % 8, first = (int)blockIdx.x * p.fragments * 8;
  R x = 0;
  for (int k = (int)threadIdx.x / 8; k < p.k; k += 32) {
    R sum = 0;
    for (int j = 0; j < p.fragments; j++) {
      const int column = first + (p.fragments == 1 ? id : T::column(j, id / 2, id % 2));
      if (column < p.n) sum += square<T>(p, k, column);
    }
    x = most(sum, x);
  }
  largest[threadIdx.x] = x;
  __syncthreads();
  if (threadIdx.x >= 8) return;
  for (int i = (int)threadIdx.x; i < 256; i += 8) x = most(largest[i], x);
  ((R *)p.rho2)[blockIdx.x * 8 + threadIdx.x] = bounded<T>(x * (R)1.0001, p.fragments); /* its own roundings */
}

/* x + y = *sum + what is returned, exactly. */
RDT_DEVICE double two_sum(double x, double y, double *sum) {
  *sum = __dadd_rn(x, y);
  const double z = __dsub_rn(*sum, x);
  return __dadd_rn(__dsub_rn(x, __dsub_rn(*sum, z)), __dsub_rn(y, z));
}

struct sums { /* of a row: high + low, with twice the digits of double; squares */
  double high, low, squares;
  __device__ __forceinline__ void add(double x, double y, double more) {
    low += two_sum(high, x, &high) + y;
    squares += more;
  }
};

RDT_DEVICE void store(const rdt_type_f16 *, uint16_t *part, const sums &s, double *squares) {
  double rest = s.high + s.low;
  for (int i = 0; i < 2; i++) {
    const uint32_t bits = rdt_f16::narrow((float)(i ? rest * 0x1p11 : rest), 0.0f);
    part[i] = (uint16_t)bits;
    rest -= (double)rdt_f16::wide(bits).x * (i ? 0x1p-11 : 1.0);
  }
  if (!(fabs(rest) < 1.0)) *squares = __longlong_as_double(0x7ff0000000000000); /* the first part overflowed */
}

RDT_DEVICE void store(const rdt_type_bf16 *, uint16_t *part, const sums &s, double *) {
  double rest = s.high + s.low;
  for (int i = 0; i < 3; i++) {
    const uint32_t bits = rdt_bf16::narrow((float)rest, 0.0f);
    part[i] = (uint16_t)bits;
    rest -= (double)rdt_bf16::wide(bits).x;
  }
}

RDT_DEVICE void store(const rdt_type_s8 *, uint8_t *part, const sums &s,
                      double *) { /* modulo 2^32: whole numbers fit */
  int rest = (int)(unsigned)(long long)s.high;
  for (int i = 0; i < 4; i++) {
    const int digit = (int)(int8_t)(uint8_t)(unsigned)rest;
    part[i] = (uint8_t)digit;
    rest = (int)((unsigned)rest - (unsigned)digit) >> 8;
  }
}

RDT_DEVICE void store(const rdt_type_f64 *, double *part, const sums &s, double *) {
  part[1] = two_sum(s.high, s.low, &part[0]);
}

RDT_DEVICE void store(const rdt_type_f32 *, float *part, const sums &s, double *) {
  const double sum = s.high + s.low;
  part[0] = (float)sum;
  part[1] = (float)(sum - (double)part[0]);
}

RDT_DEVICE void atomic_most(float *to, float x) { /* of numbers without sign, NaN above all */
  atomicMax((unsigned *)to, __float_as_uint(fabsf(x)));
}
RDT_DEVICE void atomic_most(double *to, double x) {
  atomicMax((unsigned long long *)to, (unsigned long long)__double_as_longlong(fabs(x)));
}

template <class T>
static __global__ void __launch_bounds__(256) rows(const __grid_constant__ rdt_weights_args p) {
  __shared__ sums warps[8];
  const int row = (int)blockIdx.x, set = (int)blockIdx.y;
  const float *turns = set ? p.turns + (set - 1) * p.turns_pitch : NULL;
  sums s = {0.0, 0.0, 0.0};
  for (int j = (int)threadIdx.x; j < p.n; j += 256) {
    const double x = T::exact ? (double)(int8_t)rdt_read<T>::at(p, row, j) : (double)rdt_read<T>::at(p, row, j);
    const double w = turns ? (double)turns[j] : 1.0, sign = rdt_mma_sign((unsigned)j) ? -w : w, y = x * sign;
    s.add(y, fma(x, sign, -y), T::exact || set ? 0.0 : (double)square<T>(p, row, j));
  }
  for (int d = 16; d > 0; d /= 2) {
    const double high = __shfl_down_sync(0xffffffffu, s.high, d), low = __shfl_down_sync(0xffffffffu, s.low, d);
    s.add(high, low, __shfl_down_sync(0xffffffffu, s.squares, d));
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < 8; w++) s.add(warps[w].high, warps[w].low, warps[w].squares);
  const int mine = set * RDT_MMA_PARTS_EACH, end = set + 1 < p.sets ? mine + RDT_MMA_PARTS_EACH : p.part_columns;
  typename T::element *part = (typename T::element *)p.parts + (int64_t)row * p.part_columns + mine;
  for (int i = 0; i < end - mine; i++) part[i] = 0;
  store((const T *)nullptr, part, s, &s.squares);
  if constexpr (!T::exact) {
    const typename T::sum rho2 = (typename T::sum)(s.squares * 1.001);
    atomic_most((typename T::sum *)p.rho2, with_lost((const T *)nullptr, rho2, p.n));
  }
}

extern "C" const void *const rdt_weights_groups[] = {
    (const void *)groups<rdt_type_f16>, (const void *)groups<rdt_type_bf16>, NULL, (const void *)groups<rdt_type_f64>,
    (const void *)groups<rdt_type_f32>};
extern "C" const void *const rdt_weights_rows[] = {(const void *)rows<rdt_type_f16>, (const void *)rows<rdt_type_bf16>,
                                                   (const void *)rows<rdt_type_s8>, (const void *)rows<rdt_type_f64>,
                                                   (const void *)rows<rdt_type_f32>};
