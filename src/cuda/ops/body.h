/* Ops that are no products, element by element or row by row: the GPU's kernels (ops.cu), and in plain C what tests
 * compute with in place of a GPU. In C a row has one thread, and what threads do together is what it did itself. */
#ifndef RDT_CUDA_OPS_BODY_H
#define RDT_CUDA_OPS_BODY_H

#include <float.h>

#include "core/fn.h"
#include "cuda/ops/args.h"

#ifdef __CUDACC__
#include "cuda/ptx/mma.h"
#define BODY static __device__ __forceinline__
#define MATH static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define UNROLL_FOUR _Pragma("unroll 4")
#else
#include "core/tensor.h"
#define BODY static inline __attribute__((unused))
#define UNROLL
#define UNROLL_FOUR
#endif
#include "cpu/maps_list.h"
#include "cpu/math_body.h"

/* ---- elements ---- */

BODY uint64_t rdt_op_bits(const void *p, int64_t at, int bytes) {
  switch (bytes) {
    case 1:
      return ((const uint8_t *)p)[at];
    case 2:
      return ((const uint16_t *)p)[at];
    case 4:
      return ((const uint32_t *)p)[at];
    default:
      return ((const uint64_t *)p)[at];
  }
}

BODY void rdt_op_put(void *p, int64_t at, int bytes, uint64_t bits) {
  switch (bytes) {
    case 1:
      ((uint8_t *)p)[at] = (uint8_t)bits;
      break;
    case 2:
      ((uint16_t *)p)[at] = (uint16_t)bits;
      break;
    case 4:
      ((uint32_t *)p)[at] = (uint32_t)bits;
      break;
    default:
      ((uint64_t *)p)[at] = bits;
  }
}

BODY float rdt_op_wide(uint32_t bits, int half) { /* half: of f16, else of bf16 */
#ifdef __CUDACC__
  return half ? rdt_f16::wide(bits).x : rdt_bf16::wide(bits).x;
#else
  return half ? rdt_f16_to_f32((uint16_t)bits) : rdt_bf16_to_f32((uint16_t)bits);
#endif
}

BODY uint32_t rdt_op_narrow(float x, int half) {
#ifdef __CUDACC__
  return (half ? rdt_f16::narrow(x, 0.0f) : rdt_bf16::narrow(x, 0.0f)) & 0xffffu;
#else
  return half ? rdt_f32_to_f16(x) : rdt_f32_to_bf16(x);
#endif
}

BODY int64_t rdt_op_integer(const rdt_op_view *v, int64_t at) {
  switch (v->dtype) {
    case RDT_S8:
      return ((const int8_t *)v->data)[at];
    case RDT_S32:
      return ((const int32_t *)v->data)[at];
    case RDT_S64:
      return ((const int64_t *)v->data)[at];
    default: /* u8, bool */
      return ((const uint8_t *)v->data)[at];
  }
}

BODY float rdt_op_real(const rdt_op_view *v, int64_t at) {
  switch (v->dtype) {
    case RDT_F32:
      return ((const float *)v->data)[at];
    case RDT_F16:
    case RDT_BF16:
      return rdt_op_wide(((const uint16_t *)v->data)[at], v->dtype == RDT_F16);
    default:
      return (float)rdt_op_integer(v, at);
  }
}

BODY double rdt_op_double(const rdt_op_view *v, int64_t at) {
  switch (v->dtype) {
    case RDT_F64:
      return ((const double *)v->data)[at];
    case RDT_F32:
    case RDT_F16:
    case RDT_BF16:
      return rdt_op_real(v, at);
    default:
      return (double)rdt_op_integer(v, at);
  }
}

BODY uint64_t rdt_op_bits_of(double x) {
  uint64_t b;
  memcpy(&b, &x, sizeof b);
  return b;
}

/* To 16 bits as if rounded once: to f32 by way of round to odd. */
BODY float rdt_op_odd(double x) {
  const float f = (float)x;
  const uint32_t b = bits_f32(f);
  if (x != x || f - f != 0.0f || (double)f == x || b & 1) return f;
  return float_f32(fabs_f64((double)f) < fabs_f64(x) ? b + 1 : b - 1);
}

BODY uint64_t rdt_op_of_double(double x, int dtype) {
  if (dtype == RDT_F64) return rdt_op_bits_of(x);
  if (dtype == RDT_F32) return bits_f32((float)x);
  return rdt_op_narrow(rdt_op_odd(x), dtype == RDT_F16);
}

/* Towards zero; what does not fit, and NaN, as x86 does. */
BODY uint64_t rdt_op_of_real(float x, int dtype) {
  switch (dtype) {
    case RDT_F32:
      return bits_f32(x);
    case RDT_F16:
    case RDT_BF16:
      return rdt_op_narrow(x, dtype == RDT_F16);
    case RDT_BOOL:
      return x != 0.0f;
    case RDT_S64:
      return x >= -0x1p63f && x < 0x1p63f ? (uint64_t)(int64_t)x : (uint64_t)1 << 63;
    default:
      return x >= -0x1p31f && x < 0x1p31f ? (uint32_t)(int32_t)x : (uint32_t)1 << 31;
  }
}

BODY int rdt_dtype_real(int dtype) {
  return dtype == RDT_F32 || dtype == RDT_F64 || dtype == RDT_F16 || dtype == RDT_BF16;
}

/* As rdt_op_of_real. */
BODY uint64_t rdt_op_whole(double x, int dtype) {
  if (dtype == RDT_BOOL) return x != 0.0;
  if (dtype == RDT_S64) return x >= -0x1p63 && x < 0x1p63 ? (uint64_t)(int64_t)x : (uint64_t)1 << 63;
  return x > -0x1p31 - 1.0 && x < 0x1p31 ? (uint32_t)(int32_t)x : (uint32_t)1 << 31;
}

BODY uint64_t rdt_op_of_integer(int64_t x, int dtype) {
  switch (dtype) {
    case RDT_F32:
      return bits_f32((float)x);
    case RDT_F16:
    case RDT_BF16:
      return rdt_op_narrow((float)x, dtype == RDT_F16);
    case RDT_F64:
      return rdt_op_bits_of((double)x);
    case RDT_BOOL:
      return x != 0;
    default:
      return (uint64_t)x;
  }
}

/* ---- what is found ---- */

typedef struct rdt_op_found {
  uint64_t sum, read;     /* of the result; of what was read, where somebody asks */
  uint32_t differ, wrong; /* elements; indices out of range */
  uint32_t first;         /* that differs, or that is wrong */
  rdt_op_form form;       /* the one that is computed: not both */
} rdt_op_found;

/* A word's share of the bit-sum: as check/bitsum.c has it. */
BODY uint64_t rdt_op_share(uint64_t word, uint64_t number) {
  return word * (number * 0x3c6ef37200000002u + 1u);
}

/* Element e of the result, which lies at `at`. */
BODY void rdt_op_take(const rdt_gpu_op *a, rdt_op_found *f, uint32_t e, int64_t at, uint64_t bits) {
  const rdt_op_view *y = &a->view[0];
  const int bytes = y->bytes;
  if (f->form == RDT_OP_STORES) {
    rdt_op_put(y->data, at, bytes, bits);
    return;
  }
  const uint64_t mask = bytes == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * bytes) - 1;
  const uint64_t stored = f->form == RDT_OP_AGAIN ? bits & mask : rdt_op_bits(y->data, at, bytes);
  const uint64_t place = (uint64_t)((const char *)y->data - (const char *)a->base) + (uint64_t)at * (uint64_t)bytes;
  if ((bits & mask) != stored) {
    if (f->differ == 0) f->first = e;
    f->differ++;
  }
  if (bytes == 8)
    f->sum += rdt_op_share(stored & 0xffffffffu, place / 4) + rdt_op_share(stored >> 32, place / 4 + 1);
  else
    f->sum += rdt_op_share(stored << place % 4 * 8, place / 4);
}

/* ---- walking ---- */

/* Adds to at[v] where the e-th of the places lies that the dimensions from first to before end make. */
BODY void rdt_op_walk(const rdt_gpu_op *a, int first, int end, uint32_t e, int64_t *at, int views) {
  UNROLL for (int k = RDT_MAX_RANK - 1; k >= 0; k--) {
    if (k < first || k >= end) continue;
    const uint32_t i = k == first ? e : e % a->length[k]; /* nothing is beyond the outermost */
    if (k != first) e /= a->length[k];
    UNROLL for (int v = 0; v < views; v++) at[v] += (int64_t)i * a->view[v].stride[k];
  }
}

/* ---- element by element: the bits of element e, and where it lies ---- */

BODY uint64_t rdt_op_map_f32(const rdt_gpu_op *args, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t at[4] = {0, 0, 0, 0};
  (void)f;
  rdt_op_walk(args, 0, args->rank, e, at, 4);
  *to = at[0];
  const float p = (float)args->param[0], q = (float)args->param[1];
  const float a = rdt_op_real(&args->view[1], at[1]);
  const float b = args->views > 2 ? rdt_op_real(&args->view[2], at[2]) : 0.0f;
  const float c = args->views > 3 ? rdt_op_real(&args->view[3], at[3]) : 0.0f;
  float y = a;
#define T float
#define SUFFIX f32
#define CASE(ID, ...)     \
  case RDT_FN_##ID:       \
    y = (T)(__VA_ARGS__); \
    break;
  switch (args->fn) {
    FLOATS_1(CASE)
    FLOATS_2(CASE)
    ALL_3(CASE)
    default:
      break;
  }
#undef SUFFIX
#undef T
  return rdt_op_of_real(y, args->view[0].dtype);
}

BODY uint64_t rdt_op_map_f64(const rdt_gpu_op *args, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t at[4] = {0, 0, 0, 0};
  (void)f;
  rdt_op_walk(args, 0, args->rank, e, at, 4);
  *to = at[0];
  const double p = args->param[0], q = args->param[1];
  const double a = rdt_op_double(&args->view[1], at[1]);
  const double b = args->views > 2 ? rdt_op_double(&args->view[2], at[2]) : 0.0;
  const double c = args->views > 3 ? rdt_op_double(&args->view[3], at[3]) : 0.0;
  double y = a;
#define T double
#define SUFFIX f64
  switch (args->fn) {
    FLOATS_1(CASE)
    FLOATS_2(CASE)
    ALL_3(CASE)
    default:
      break;
  }
#undef SUFFIX
#undef T
  return rdt_dtype_real(args->view[0].dtype) ? rdt_op_of_double(y, args->view[0].dtype)
                                             : rdt_op_whole(y, args->view[0].dtype);
}

BODY uint64_t rdt_op_map_s64(const rdt_gpu_op *args, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t at[4] = {0, 0, 0, 0};
  (void)f;
  rdt_op_walk(args, 0, args->rank, e, at, 4);
  *to = at[0];
  const double *const param = args->param;
  const int64_t p = (int64_t)param[0];
  const int64_t a = rdt_op_integer(&args->view[1], at[1]);
  const int64_t b = args->views > 2 ? rdt_op_integer(&args->view[2], at[2]) : 0;
  const int64_t c = args->views > 3 ? rdt_op_integer(&args->view[3], at[3]) : 0;
  int64_t y = a;
#define T int64_t
#define SUFFIX s64
  switch (args->fn) {
    INTEGERS_1(CASE)
    INTEGERS_2(CASE)
    ALL_3(CASE)
    default:
      break;
  }
#undef SUFFIX
#undef T
#undef CASE
  return rdt_op_of_integer(y, args->view[0].dtype);
}

BODY uint64_t rdt_op_copy(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t at[2] = {0, 0};
  (void)f;
  rdt_op_walk(a, 0, a->rank, e, at, 2);
  *to = at[0];
  return rdt_op_bits(a->view[1].data, at[1], a->view[1].bytes);
}

/* View 1: the table, along the dimensions that are not indexed; the views behind it: indices. */
BODY uint64_t rdt_op_gather(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t at[RDT_OP_VIEWS] = {0, 0, 0, 0, 0, 0};
  rdt_op_walk(a, 0, a->rank, e, at, RDT_OP_VIEWS);
  *to = at[0];
  UNROLL for (int k = 0; k < RDT_OP_VIEWS - 2; k++) {
    if (k + 2 >= a->views) break;
    const int64_t given = rdt_op_integer(&a->view[k + 2], at[k + 2]), i = given < 0 ? given + a->bound[k] : given;
    if (i < 0 || i >= a->bound[k]) {
      if (f->wrong == 0) f->first = e;
      f->wrong++;
      return 0;
    }
    at[1] += i * a->step[k];
  }
  return rdt_op_bits(a->view[1].data, at[1], a->view[1].bytes);
}

/* Over a row's threads. */
BODY uint64_t rdt_op_over_warp(uint64_t x) {
#ifdef __CUDACC__
  UNROLL for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
#endif
  return x;
}

/* Row r of the result is one of the table, of `inner` words of 8 bytes; as it was read again it has to have its sum: a
 * table that has changed where nobody looks is nobody's fault. */
BODY void rdt_op_rows_gather(const rdt_gpu_op *a, uint32_t r, int me, int all, rdt_op_found *f) {
  const int64_t given = rdt_op_integer(&a->view[2], r * a->view[2].stride[0]),
                row = given < 0 ? given + a->bound[0] : given;
  const uint32_t inner = (uint32_t)a->inner, first = r * inner;
  const int wrong = row < 0 || row >= a->bound[0];
  const uint64_t *const from = (const uint64_t *)a->view[1].data + (wrong ? 0 : row * a->step[0]);
  uint64_t sum = 0;
  for (uint32_t i = (uint32_t)me; i < inner; i += (uint32_t)all) {
    const uint64_t x = wrong ? 0 : from[i], number = 2 * (uint64_t)(row * a->step[0] + i);
    sum += rdt_op_share(x & 0xffffffffu, number) + rdt_op_share(x >> 32, number + 1);
    rdt_op_take(a, f, first + i, r * a->view[0].stride[0] + i, x);
  }
  const int differs = !wrong && a->rows && f->form != RDT_OP_STORES && rdt_op_over_warp(sum) != a->rows[row];
  if (me > 0 || !(wrong || differs)) return;
  if (f->wrong + f->differ == 0) f->first = first;
  f->wrong += (uint32_t)wrong, f->differ += (uint32_t)differs;
}

/* Where position i of a dimension of length n comes from; -1: from nowhere. */
BODY int32_t rdt_op_source(int32_t i, int32_t n, int mode) {
  if (i >= 0 && i < n) return i;
  if (n <= 0) return -1;
  if (mode == RDT_PAD_EDGE) return i < 0 ? 0 : n - 1;
  if (mode == RDT_PAD_WRAP) return (i % n + n) % n;
  if (mode != RDT_PAD_REFLECT) return -1;
  const int32_t period = n > 1 ? 2 * (n - 1) : 1, r = (i % period + period) % period;
  return r < n ? r : period - r;
}

/* bound: lengths of the input; step: where it begins in the result. View 2, where there is one: what fills. */
BODY uint64_t rdt_op_pad(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t from = 0, out = 0;
  int outside = 0;
  (void)f;
  UNROLL for (int k = RDT_MAX_RANK - 1; k >= 0; k--) {
    if (k >= a->rank) continue;
    const int64_t i = e % a->length[k],
                  source = rdt_op_source((int32_t)(i - a->step[k]), (int32_t)a->bound[k], a->mode);
    e /= a->length[k];
    outside |= source < 0;
    out += i * a->view[0].stride[k];
    from += source * a->view[1].stride[k];
  }
  *to = out;
  if (!outside) return rdt_op_bits(a->view[1].data, from, a->view[1].bytes);
  return a->views > 2 ? rdt_op_bits(a->view[2].data, 0, a->view[2].bytes) : a->fill;
}

/* axis: -2 rows, -1 columns */
BODY uint64_t rdt_op_triangle(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t from = 0, out = 0, above = 0; /* columns less rows */
  (void)f;
  UNROLL for (int k = RDT_MAX_RANK - 1; k >= 0; k--) {
    if (k >= a->rank) continue;
    const int64_t i = e % a->length[k];
    e /= a->length[k];
    above += a->axis[k] == -1 ? i : a->axis[k] == -2 ? -i : 0;
    out += i * a->view[0].stride[k];
    from += i * a->view[1].stride[k];
  }
  *to = out;
  const int kept = a->mode ? above >= a->diagonal : above <= a->diagonal;
  return kept ? rdt_op_bits(a->view[1].data, from, a->view[1].bytes) : 0;
}

/* Windows: view 1 runs along image and channel; along pixels the window says where it is. */
typedef struct rdt_op_field {
  int64_t out, from;            /* from: of the window's first tap inside */
  int32_t taps[RDT_OP_SPATIAL]; /* inside the image */
  int32_t padded;               /* taps inside the padded image */
} rdt_op_field;

BODY rdt_op_field rdt_op_window_at(const rdt_gpu_op *a, uint32_t e) {
  rdt_op_field w = {0, 0, {1, 1, 1}, 1};
  int32_t place[RDT_OP_SPATIAL] = {0, 0, 0};
  UNROLL for (int k = RDT_MAX_RANK - 1; k >= 0; k--) {
    if (k >= a->rank) continue;
    const int32_t i = (int32_t)(e % a->length[k]);
    e /= a->length[k];
    w.out += i * a->view[0].stride[k];
    w.from += i * a->view[1].stride[k];
    UNROLL for (int s = 0; s < RDT_OP_SPATIAL; s++) if (a->axis[k] == 2 + s) place[s] = i;
  }
  UNROLL for (int s = 0; s < RDT_OP_SPATIAL; s++) { /* where there is no such dimension, a window of one */
    const rdt_op_window *d = &a->window[s];
    const int32_t start = place[s] * d->stride - d->before, pad = d->dilation - 1;
    const int32_t first = start < 0 ? (pad - start) / d->dilation : 0;
    const int32_t inside = d->length > start ? (d->length - start + pad) / d->dilation : 0;
    const int32_t last = inside < d->kernel ? inside : d->kernel;
    const int32_t padded = (d->length + d->after - start + pad) / d->dilation;
    w.taps[s] = last > first ? last - first : 0;
    w.padded *= padded < d->kernel ? padded : d->kernel;
    w.from += (start + first * d->dilation) * d->step;
  }
  return w;
}

/* Walks the taps inside the image in row-major order; at: where they lie. */
#define RDT_OP_TAPS(a, w, at)                                                                               \
  for (int32_t z = 0; z < (w).taps[0]; z++)                                                                 \
    for (int32_t y = 0; y < (w).taps[1]; y++)                                                               \
      for (int64_t x = 0, at = (w).from + z * (a)->window[0].tap + y * (a)->window[1].tap; x < (w).taps[2]; \
           x++, at += (a)->window[2].tap)

BODY uint64_t rdt_op_maxpool(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  const rdt_op_field w = rdt_op_window_at(a, e);
  float most = -INFINITY;
  (void)f;
  *to = w.out;
  if (a->view[0].dtype == RDT_F64) {
    double wide = -INFINITY;
    RDT_OP_TAPS(a, w, at) {
      const double v = rdt_op_double(&a->view[1], at);
      wide = v > wide || v != v ? v : wide;
    }
    return rdt_op_bits_of(wide);
  }
  RDT_OP_TAPS(a, w, at) {
    const float v = rdt_op_real(&a->view[1], at);
    most = v > most || v != v ? v : most;
  }
  return rdt_op_of_real(most, a->view[0].dtype);
}

BODY uint64_t rdt_op_avgpool(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  const rdt_op_field w = rdt_op_window_at(a, e);
  const float cells = (float)(a->count_pad ? w.padded : w.taps[0] * w.taps[1] * w.taps[2]);
  float sum = 0.0f;
  (void)f;
  *to = w.out;
  if (a->view[0].dtype == RDT_F64) {
    double wide = 0.0;
    RDT_OP_TAPS(a, w, at) wide += rdt_op_double(&a->view[1], at);
    return rdt_op_bits_of(cells > 0.0f ? wide / cells : 0.0);
  }
  RDT_OP_TAPS(a, w, at) sum += rdt_op_real(&a->view[1], at);
  return rdt_op_of_real(cells > 0.0f ? sum / cells : 0.0f, a->view[0].dtype);
}

/* Views: x, scale, bias, mean, variance. */
BODY uint64_t rdt_op_batchnorm(const rdt_gpu_op *a, uint32_t e, int64_t *to, rdt_op_found *f) {
  int64_t at[RDT_OP_VIEWS] = {0, 0, 0, 0, 0, 0};
  float v[RDT_OP_VIEWS];
  (void)f;
  rdt_op_walk(a, 0, a->rank, e, at, RDT_OP_VIEWS);
  *to = at[0];
  if (a->view[0].dtype == RDT_F64) {
    double w[RDT_OP_VIEWS];
    UNROLL for (int i = 1; i < RDT_OP_VIEWS; i++) w[i] = rdt_op_double(&a->view[i], at[i]);
    return rdt_op_bits_of((w[1] - w[4]) * (w[2] / sqrt_f64(w[5] + a->epsilon)) + w[3]);
  }
  UNROLL for (int i = 1; i < RDT_OP_VIEWS; i++) v[i] = rdt_op_real(&a->view[i], at[i]);
  return rdt_op_of_real((v[1] - v[4]) * (v[2] / sqrt_f32(v[5] + (float)a->epsilon)) + v[3], a->view[0].dtype);
}

/* ---- row by row: thread `me` of `all`; together(x, how) is of all threads' x ---- */

enum { RDT_OP_SUM, RDT_OP_MOST, RDT_OP_PRODUCT };

#ifdef __CUDACC__
BODY double rdt_op_both(double x, double other, int how) {
  return how == RDT_OP_SUM ? x + other : how == RDT_OP_PRODUCT ? x * other : x > other || x != x ? x : other;
}

/* In a fixed order; whoever is asked for the most gives NaN where there is one. */
BODY double rdt_op_together(double x, int how) {
  __shared__ double part[RDT_OP_THREADS / 32];
  UNROLL for (int d = 16; d > 0; d /= 2) x = rdt_op_both(x, __shfl_xor_sync(0xffffffffu, x, d), how);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  __syncthreads();
  x = part[0];
  UNROLL for (int w = 1; w < RDT_OP_THREADS / 32; w++) x = rdt_op_both(x, part[w], how);
  return x;
}
#else
BODY double rdt_op_together(double x, int how) {
  (void)how;
  return x;
}
#endif

#define RDT_OP_VIEWS_OF_ROWS 4
BODY void rdt_op_row_at(const rdt_gpu_op *a, const int64_t *row, uint32_t i, int64_t *at) {
  if (a->rank == a->outer + 1) { /* as rows mostly are */
    UNROLL for (int v = 0; v < RDT_OP_VIEWS_OF_ROWS; v++) at[v] = row[v] + (int64_t)i * a->view[v].stride[a->outer];
    return;
  }
  UNROLL for (int v = 0; v < RDT_OP_VIEWS_OF_ROWS; v++) at[v] = row[v];
  rdt_op_walk(a, a->outer, a->rank, i, at, RDT_OP_VIEWS_OF_ROWS);
}
/* The thread's elements i of the row, x among them: those that it keeps, then those that it reads again. */
#define RDT_OP_EACH(a, i) for (uint32_t i = me; i < (a)->inner; i += all)
#define RDT_OP_ROW(a, i, x, ...)                                   \
  {                                                                \
    UNROLL for (uint32_t k = 0; k < KEPT; k++) {                   \
      const uint32_t i = me + k * all;                             \
      const T x = kept[k];                                         \
      if (i < (a)->inner) {                                        \
        __VA_ARGS__                                                \
      }                                                            \
    }                                                              \
    for (uint32_t i = me + KEPT * all; i < (a)->inner; i += all) { \
      const T x = NAME(in_row)(a, row, i);                         \
      __VA_ARGS__                                                  \
    }                                                              \
  }

#define T float
#define REAL(view, at) rdt_op_real(view, at)
#define OF(x, dtype) rdt_op_of_real(x, dtype)
#define NAME(x) rdt_op_##x
#define OWN(name) name##_f32
#define KEPT 4
#include "cuda/ops/rows_body.h"
#define T double
#define REAL(view, at) rdt_op_double(view, at)
#define OF(x, dtype) rdt_op_of_double(x, dtype)
#define NAME(x) rdt_op_##x##_f64
#define OWN(name) name##_f64
#define KEPT 1 /* rarely met, and each is a copy of all code */
#include "cuda/ops/rows_body.h"

BODY void rdt_op_reduce(const rdt_gpu_op *a, uint32_t r, uint32_t me, uint32_t all, rdt_op_found *f) {
  int64_t row[4] = {0, 0, 0, 0}, at[4];
  const int exps = a->fn == RDT_FN_REDUCE_LOGSUMEXP, product = a->fn == RDT_FN_REDUCE_PROD;
  const int most = a->fn == RDT_FN_REDUCE_MAX || a->fn == RDT_FN_REDUCE_MIN;
  const double sign = a->fn == RDT_FN_REDUCE_MIN ? -1.0 : 1.0;
  double acc = most ? -INFINITY : product ? 1.0 : 0.0, centre = exps ? -INFINITY : 0.0;
  const double n = a->inner;
  rdt_op_walk(a, 0, a->outer, r, row, 4);
  if (a->fn == RDT_FN_REDUCE_INVSTD || exps) {
    RDT_OP_EACH(a, i) {
      rdt_op_row_at(a, row, i, at);
      const double x = rdt_op_double(&a->view[1], at[1]);
      centre = !exps ? centre + x : x > centre || x != x ? x : centre;
    }
    centre = rdt_op_together(centre, exps ? RDT_OP_MOST : RDT_OP_SUM);
    if (!exps) centre /= n;
    if (exps && !(centre - centre == 0.0)) centre = 0.0; /* as the CPU: it is not finite */
  }
  const int squares = a->fn == RDT_FN_REDUCE_L2 || a->fn == RDT_FN_REDUCE_SQUARES || a->fn == RDT_FN_REDUCE_INVSTD;
  RDT_OP_EACH(a, i) {
    rdt_op_row_at(a, row, i, at);
    const double x = sign * (rdt_op_double(&a->view[1], at[1]) - centre);
    if (most)
      acc = x > acc || x != x ? x : acc;
    else if (product)
      acc *= x;
    else
      acc += exps ? exp_f64(x) : squares ? x * x : a->fn == RDT_FN_REDUCE_L1 ? fabs_f64(x) : x;
  }
  acc = rdt_op_together(acc, most ? RDT_OP_MOST : product ? RDT_OP_PRODUCT : RDT_OP_SUM);
  if (a->fn == RDT_FN_REDUCE_MEAN) acc /= n;
  if (a->fn == RDT_FN_REDUCE_L2) acc = sqrt_f64(acc);
  if (a->fn == RDT_FN_REDUCE_LOGSUM) acc = log_f64(acc);
  if (exps) acc = log_f64(acc) + centre;
  if (a->fn == RDT_FN_REDUCE_INVSTD) acc = 1.0 / sqrt_f64(acc / n + a->param[0]);
  if (me == 0) rdt_op_take(a, f, r, row[0], rdt_op_of_double(sign * acc, a->view[0].dtype));
}

#include "cuda/ops/bytes_body.h"
#include "cuda/ops/places.h"

/* ---- memory at rest, and the end ---- */

/* Thread `me` of `all`: its share of a part's sum. */
BODY uint64_t rdt_op_part(const rdt_sum_part *p, int me, int all) {
  const uint64_t words = p->bytes / 4, quads = words / 4;
  const uint32_t *w = (const uint32_t *)p->data;
  uint64_t plain = 0, placed = 0; /* sums of the words, and of words times their numbers in the part */
  UNROLL_FOUR for (uint64_t q = (uint64_t)me; q < quads; q += (uint64_t)all) {
#ifdef __CUDACC__
    const uint4 v = ((const uint4 *)w)[q];
    const uint32_t x[4] = {v.x, v.y, v.z, v.w};
#else
    const uint32_t *x = w + 4 * q;
#endif
    UNROLL for (uint32_t k = 0; k < 4; k++) {
      plain += x[k];
      placed += (uint64_t)x[k] * ((uint32_t)(4 * q) + k);
    }
  }
  for (uint64_t i = 4 * quads + (uint64_t)me; i < words; i += (uint64_t)all) {
    plain += w[i];
    placed += (uint64_t)w[i] * i;
  }
  uint64_t sum = plain * (p->first * 0x3c6ef37200000002u + 1u) + placed * 0x3c6ef37200000002u;
  if (me == 0 && p->bytes % 4) { /* the tail, padded with zeros */
    uint64_t tail = 0;
    for (uint64_t b = 0; b < p->bytes % 4; b++) tail |= (uint64_t)((const uint8_t *)(w + words))[b] << 8 * b;
    sum += rdt_op_share(tail, p->first + words);
  }
  return sum;
}

BODY rdt_summary rdt_op_count(const rdt_close_args *a, int me, int all) {
  rdt_summary s = {0, 0, 0, 0, 0};
  for (int i = me; i < a->n_slots; i += all)
    if (*a->slots[i].expected == *a->slots[i].found)
      s.agree++;
    else
      s.disagree++;
  for (int i = me; i < a->n_verdicts; i += all) {
    const rdt_cuda_verdict *v = a->verdicts[i];
    if (v->suspect == 0 && v->certain == 0 && v->cannot == 0)
      s.clean++;
    else
      s.complain++;
  }
  return s;
}
BODY void rdt_op_tell(const rdt_close_args *a, int me, int all) {
  for (int i = me; i < a->told; i += all) a->sums[i] = *a->slots[i].expected;
}

#endif
