/* Softmax and norms of rows of 16-bit numbers that lie side by side, on a GPU: a warp has a row in its registers.
 * Results of 16 bits agree with the CPU's within their rounding, not bit for bit: the hardware's powers of 2 and
 * reciprocals are accurate enough, and sums are kept in single precision. What is evaluated again is evaluated by the
 * same functions, so that both have the same bits; nothing here is left to the compiler to contract. T: rdt_f16,
 * rdt_bf16. P: packs of 16 bytes that a lane has of a row, at most. N: rows of a warp, 1 where other blocks evaluate
 * again, each half of the grid its form. 2: the one that it stores, and one that another warp stores, which it loads
 * from memory and evaluates again; both at once, since most of the time is spent waiting for the number before. */
#ifndef RDT_CUDA_OPS_HALVES_H
#define RDT_CUDA_OPS_HALVES_H

#include "cuda/fast.h"
#include "cuda/ops/args.h"

#define EACH_ROW(j) _Pragma("unroll") for (int j = 0; j < N; j++)
#define EACH_PACK(j, i) _Pragma("unroll") for (int k = 0, i = me[j]; k < P; k++, i += 256) if (i < n[j])
#define EACH_OF_PACK(v) _Pragma("unroll") for (int v = 0; v < 8; v++)

template <class T, int P, int N>
struct rdt_half_rows {
  const rdt_gpu_op &a;
  uint32_t r[N];        /* the rows' numbers */
  int n[N], me[N];      /* their lengths, 0 where there is none; the lane's first element */
  int64_t in[N], to[N]; /* where it lies */
  bool again[N];
  float x[N][P][8];
  uint64_t sum, read; /* bit-sums: of what should be stored, or is, where that is compared; of view 1 */
  uint32_t differ, first;

  __device__ __forceinline__ rdt_half_rows(const rdt_gpu_op &args) : a(args), sum(0), read(0), differ(0), first(0) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const bool compares = a.check == RDT_OP_COMPARES;
    const uint32_t half = gridDim.x / 2, shift = N == 1 && a.check == RDT_OP_BOTH ? half : 0;
    const bool other = compares || (shift > 0 && blockIdx.x >= half);
    const uint32_t block = compares ? (blockIdx.x + half) % gridDim.x : other ? blockIdx.x - shift : blockIdx.x;
    uint4 words[N][P];
    EACH_ROW(j) {
      again[j] = other || j > 0;
      r[j] = block * RDT_OP_ROW_WARPS + (uint32_t)(again[j] ? RDT_OP_ROW_WARPS - 1 - warp : warp);
      me[j] = 8 * (again[j] ? 31 - lane : lane);
      n[j] = r[j] < a.count ? (int)a.inner : 0;
      to[j] = place(0, j), in[j] = place(1, j);
      EACH_PACK(j, i) words[j][k] = *(const uint4 *)((const uint16_t *)a.view[1].data + in[j] + 256 * k);
    }
    EACH_ROW(j) EACH_PACK(j, i) {
      rdt_half_wide<T>(words[j][k], x[j][k]);
      if (again[j] && a.read) read += rdt_half_share(words[j][k], (uint64_t)(in[j] + 256 * k) / 2);
    }
  }

  __device__ __forceinline__ bool sums() const {
    return again[N - 1];
  }

  __device__ __forceinline__ int64_t place(int view, int j) const {
    return r[j] * a.view[view].stride[0] * (a.outer == 1) + me[j];
  }

  __device__ __forceinline__ void together(float (&total)[N]) const {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) EACH_ROW(j) total[j] += __shfl_xor_sync(0xffffffffu, total[j], d);
  }

  /* The results of pack k of row j, as they are stored. */
  __device__ __forceinline__ void take(int j, int k) {
    const uint4 w = rdt_half_narrow<T>(x[j][k]);
    uint4 *const at = (uint4 *)((uint16_t *)a.view[0].data + to[j] + 256 * k);
    const uint64_t number = (uint64_t)((const char *)at - (const char *)a.base) / 4;
    if (!again[j]) {
      *at = w;
      return;
    }
    const uint4 is = a.check == RDT_OP_COMPARES ? *at : w;
    sum += rdt_half_share(is, number);
    if (!((is.x ^ w.x) | (is.y ^ w.y) | (is.z ^ w.z) | (is.w ^ w.w))) return;
    if (differ == 0) first = r[j] * (uint32_t)n[j] + (uint32_t)(me[j] + 256 * k);
    differ++;
  }

  __device__ __forceinline__ void softmax() {
    float most[N], total[N];
    EACH_ROW(j) {
      most[j] = -INFINITY, total[j] = 0.0f;
      EACH_PACK(j, i) EACH_OF_PACK(v) most[j] = rdt_fast_most(most[j], x[j][k][v]);
    }
#pragma unroll
    for (int d = 16; d > 0; d /= 2)
      EACH_ROW(j) most[j] = rdt_fast_most(most[j], __shfl_xor_sync(0xffffffffu, most[j], d));
    const bool logarithm = a.fn == RDT_FN_LOGSOFTMAX;
    EACH_ROW(j) EACH_PACK(j, i) {
      float e[8];
      EACH_OF_PACK(v) {
        e[v] = rdt_fast_power(T(), x[j][k][v], most[j]);
        x[j][k][v] = logarithm ? x[j][k][v] - most[j] : e[v];
      }
      total[j] += rdt_half_total(e);
    }
    together(total);
    EACH_ROW(j) {
      const float part = rdt_fast_reciprocal(total[j]), back = logarithm ? rdt_fast_log(total[j]) : 0.0f;
      EACH_PACK(j, i) {
        EACH_OF_PACK(v) x[j][k][v] = logarithm ? x[j][k][v] - back : x[j][k][v] * part;
        take(j, k);
      }
    }
  }

  /* What a row is multiplied with; of magnitudes or squares. */
  __device__ __forceinline__ float factor(float total) const {
    const float epsilon = (float)a.epsilon, mean = total * rdt_fast_reciprocal((float)a.inner);
    switch (a.fn) {
      case RDT_FN_NORM_LAYER:
      case RDT_FN_NORM_RMS:
        return rdt_fast_reciprocal(rdt_fast_root(mean + epsilon));
      case RDT_FN_NORM_MVN:
        return rdt_fast_reciprocal(rdt_fast_root(mean) + epsilon);
      default:
        if (a.fn == RDT_FN_NORM_L2) total = rdt_fast_root(total);
        return total == 0.0f ? 0.0f : rdt_fast_reciprocal(total);
    }
  }

  __device__ __forceinline__ uint4 beside(int view, int j, int k) const { /* gains, shifts */
    return *(const uint4 *)((const uint16_t *)a.view[view].data + place(view, j) + 256 * k);
  }

  __device__ __forceinline__ void norm() {
    uint4 gains[N][P], shifts[N][P]; /* on their way while sums are formed */
    float centre[N], total[N];
    EACH_ROW(j) {
      centre[j] = total[j] = 0.0f;
      EACH_PACK(j, i) {
        if (a.views > 2) gains[j][k] = beside(2, j, k);
        if (a.views > 3) shifts[j][k] = beside(3, j, k);
      }
    }
    if (a.fn == RDT_FN_NORM_LAYER || a.fn == RDT_FN_NORM_MVN) {
      EACH_ROW(j) EACH_PACK(j, i) total[j] += rdt_half_total(x[j][k]);
      together(total);
      EACH_ROW(j) centre[j] = total[j] * rdt_fast_reciprocal((float)a.inner), total[j] = 0.0f;
    }
    const bool sizes = a.fn == RDT_FN_NORM_L1;
    EACH_ROW(j) EACH_PACK(j, i) {
      float part = 0.0f;
      EACH_OF_PACK(v) {
        float &y = x[j][k][v];
        y -= centre[j];
        part = sizes ? part + fabsf(y) : fmaf(y, y, part);
      }
      total[j] += part;
    }
    together(total);
    EACH_ROW(j) {
      const float by = factor(total[j]);
      EACH_PACK(j, i) {
        float gain[8], shift[8];
        if (a.views > 2) rdt_half_wide<T>(gains[j][k], gain);
        if (a.views > 3) rdt_half_wide<T>(shifts[j][k], shift);
        EACH_OF_PACK(v) {
          float y = x[j][k][v] * by;
          if (a.views > 3)
            y = fmaf(y, gain[v], shift[v]);
          else if (a.views > 2)
            y *= gain[v];
          x[j][k][v] = y;
        }
        take(j, k);
      }
    }
  }
};
#undef EACH_ROW
#undef EACH_PACK
#undef EACH_OF_PACK

#endif
