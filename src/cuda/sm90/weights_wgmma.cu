/* What checks on wgmma need to know of B: signed sums of columns, of all or of those of each tile, split into parts of
 * its type that tensor cores multiply; and the largest squares of a row of them, subnormals counted as the smallest
 * normal number, as tensor cores align them. A sum that its type might not hold leaves no bound. What columns are left
 * beside the parts have signs alone. */
#include "cuda/ptx/f8.h"
#include "cuda/sm80/types.h"
#include "cuda/sm90/gemm_wgmma.h"
#include "cuda/weights.h"

/* Parts of a sum: f16 has 22 bits in two, the second 2^11 times as large; bf16 24 in three. */
RDT_DEVICE bool split(const rdt_type_f16 *, double rest, uint16_t (&part)[RDT_WGMMA_SUMS]) {
  for (int i = 0; i < RDT_WGMMA_PARTS_F16; i++) {
    const uint32_t bits = rdt_f16::narrow((float)(i ? rest * 0x1p11 : rest), 0.0f);
    part[i] = (uint16_t)bits;
    rest -= (double)rdt_f16::wide(bits).x * (i ? 0x1p-11 : 1.0);
  }
  return fabs(rest) < 1.0;
}
RDT_DEVICE bool split(const rdt_type_bf16 *, double rest, uint16_t (&part)[RDT_WGMMA_SUMS]) {
  for (int i = 0; i < RDT_WGMMA_PARTS_BF16; i++) {
    const uint32_t bits = rdt_bf16::narrow((float)rest, 0.0f);
    part[i] = (uint16_t)bits;
    rest -= (double)rdt_bf16::wide(bits).x;
  }
  return true;
}

/* The signed sum of a row of B, and of squares, of columns first..end; one: the number in a column. By a block, for its
 * thread 0. */
template <class T, class One>
RDT_DEVICE double2 sums_of(int first, int end, int width, One one) {
  __shared__ double warps[2][8];
  double sum = 0.0, squares = 0.0;
  for (int j = first + (int)threadIdx.x; j < end; j += 256) {
    const float x = one(j);
    const float size = x != 0.0f ? fmaxf(fabsf(x), T::least) : 0.0f;
    sum += rdt_wide_sign(j, width) ? -(double)x : (double)x;
    squares += x != x ? (double)x : (double)size * (double)size;
  }
  for (int d = 16; d > 0; d /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, d);
    squares += __shfl_down_sync(0xffffffffu, squares, d);
  }
  if (threadIdx.x % 32 == 0) warps[0][threadIdx.x / 32] = sum, warps[1][threadIdx.x / 32] = squares;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < 8; w++) sum += warps[0][w], squares += warps[1][w];
  return make_double2(sum, squares);
}

/* A block for each row, and each set of columns: those of a tile (8 p.fragments), or all where there is one. side: B's
 * rows lie side by side. */
template <class T, bool side>
static __global__ void __launch_bounds__(256) wide_rows(const __grid_constant__ rdt_weights_args p) {
  const int row = (int)blockIdx.x, tile = (int)blockIdx.y, width = 8 * p.fragments, sets = (int)gridDim.y,
            end = sets > 1 ? min(p.n, (tile + 1) * width) : p.n, whole = (p.k + 63) / 64 * 64,
            set = (int)blockIdx.z * sets + tile;
  const uint16_t *b = (const uint16_t *)p.b + blockIdx.z * p.next;
  const double2 all = sums_of<T>(tile * width, end, width,
                                 [&](int j) { return T::wide(b[side ? row * p.ldb + j : j * p.ldb + row]).x; });
  const double sum = all.x;
  double squares = all.y;
  if (threadIdx.x != 0) return;
  uint16_t part[RDT_WGMMA_SUMS];
  for (int i = 0; i < RDT_WGMMA_SUMS; i++)
    part[i] = (uint16_t)T::narrow(rdt_mma_sign((unsigned)(RDT_WGMMA_SUMS * row + i)) ? -1.0f : 1.0f, 0.0f);
  if (!split((const T *)nullptr, sum, part)) squares = __longlong_as_double(0x7ff0000000000000);
  for (int i = 0; i < RDT_WGMMA_SUMS; i++)
    ((uint16_t *)p.parts)[p.abreast ? ((int64_t)set * whole + row) * RDT_WGMMA_SUMS + i
                                    : ((int64_t)set * RDT_WGMMA_SUMS + i) * whole + row] = part[i];
  atomicMax((unsigned *)p.rho2 + set,
            __float_as_uint(fabsf((float)(squares * 1.001) + RDT_MMA_LOST))); /* NaN above all */
}

/* ---- types whose operands have k side by side ---- */

struct deep_s8 {
  typedef int8_t element;
  static constexpr bool exact = true;
  static constexpr float least = 0.0f;
  static __device__ __forceinline__ float wide(int8_t x) {
    return (float)x;
  }
  static __device__ __forceinline__ void split(double sum, float, int8_t (&part)[RDT_WGMMA_SUMS]) {
    int rest = (int)(unsigned)(long long)sum; /* whole numbers below 2^53 */
    for (int i = 0; i < RDT_WGMMA_SUMS; i++) {
      part[i] = i < 4 ? (int8_t)(uint8_t)(unsigned)rest : (int8_t)0;
      rest = (int)((unsigned)rest - (unsigned)(int)part[i]) >> 8;
    }
  }
};

struct deep_tf32 { /* parts of 11 bits; of B what tensor cores take: the upper 19 */
  typedef float element;
  static constexpr bool exact = false;
  static constexpr float least = 0.0f;
  static __device__ __forceinline__ float wide(float x) {
    return __uint_as_float(__float_as_uint(x) & 0xffffe000u);
  }
  static __device__ __forceinline__ float sign(bool minus) {
    return minus ? -1.0f : 1.0f;
  }
  static __device__ __forceinline__ void split(double rest, float, float (&part)[RDT_WGMMA_SUMS]) {
    for (int i = 0; i < RDT_WGMMA_PARTS_BF16; i++) {
      uint32_t bits;
      asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"((float)rest));
      part[i] = __uint_as_float(bits);
      rest -= (double)part[i];
    }
  }
};

template <class Format, int digit>
struct deep_f8 {
  typedef uint8_t element;
  static constexpr bool exact = false;
  static constexpr float least = digit == 16 ? 0x1p-6f : 0x1p-14f;
  static __device__ __forceinline__ float wide(uint8_t x) {
    return Format::wide(x);
  }
  static __device__ __forceinline__ uint8_t sign(bool minus) {
    return Format::narrow(minus ? -1.0f : 1.0f);
  }
  static __device__ __forceinline__ void split(double sum, float scale, uint8_t (&part)[RDT_WGMMA_SUMS]) {
    double rest = sum * (double)scale;
    for (int i = 0; i < RDT_WGMMA_PARTS_F8; i++) {
      part[i] = Format::narrow((float)rest);
      rest = (rest - (double)Format::wide(part[i])) * digit;
    }
  }
};

/* A block for each row of B, whose columns lie side by side. */
template <class T>
static __global__ void __launch_bounds__(256) deep_rows(const __grid_constant__ rdt_weights_args p) {
  typedef typename T::element element;
  const int row = (int)blockIdx.x, set = (int)blockIdx.z, width = 8 * p.fragments, each = 128 / (int)sizeof(element),
            whole = (p.k + each - 1) / each * each;
  const element *b = (const element *)p.b + set * p.next;
  const double2 all = sums_of<T>(0, p.n, width, [&](int j) { return T::wide(b[j * p.ldb + row]); });
  const double sum = all.x, squares = all.y;
  if (threadIdx.x != 0) return;
  element part[RDT_WGMMA_SUMS];
  if constexpr (!T::exact)
    for (int i = 0; i < RDT_WGMMA_SUMS; i++) part[i] = T::sign(rdt_mma_sign((unsigned)(RDT_WGMMA_SUMS * row + i)) != 0);
  T::split(sum, p.scale, part);
  for (int i = 0; i < RDT_WGMMA_SUMS; i++)
    ((element *)p.parts)[((int64_t)set * RDT_WGMMA_SUMS + i) * whole + row] = part[i];
  if constexpr (!T::exact) {
    const float rho2 = fmaxf((float)(squares * 1.001), sizeof(element) == 4 ? RDT_MMA_LEAST : RDT_MMA_LOST);
    atomicMax((unsigned *)p.rho2 + set,
              __float_as_uint(squares != squares ? fabsf((float)squares) : rho2)); /* NaN above all */
  }
}

extern "C" const void *const rdt_weights_wgmma[RDT_WEIGHTS_TYPES][2] = {
    {(const void *)wide_rows<rdt_type_f16, true>, (const void *)wide_rows<rdt_type_f16, false>},
    {(const void *)wide_rows<rdt_type_bf16, true>, (const void *)wide_rows<rdt_type_bf16, false>},
    {nullptr, (const void *)deep_rows<deep_s8>},
    {nullptr, nullptr},
    {nullptr, (const void *)deep_rows<deep_tf32>},
    {nullptr, (const void *)deep_rows<deep_f8<rdt_e4m3, 16>>},
    {nullptr, (const void *)deep_rows<deep_f8<rdt_e5m2, 8>>}};
