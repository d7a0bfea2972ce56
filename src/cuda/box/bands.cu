/* Convolutions that a library computed. The signed sum of a band of an image's outputs is linear in the inputs that the
 * band sees: what each of them weighs is known when the weights are (coefficients). So a check is two sums, of the
 * inputs with their coefficients and of the outputs with their signs, whatever the groups, strides and dilations are;
 * a block has all of both and compares them by itself. What follows the convolution is evaluated once more. */
#include "cuda/box/finish.h"

/* A band of a side: elements in the order that they are walked, and where they lie. flat: one after the other, channels
 * of a pixel side by side. */
template <bool flat>
struct rdt_band_walk {
  int channels, pixels;
  bool last;
  int64_t base, pixel, channel;

  __device__ __forceinline__ rdt_band_walk(const rdt_band_side &s, int image, int line, int lines)
      : channels(s.channels),
        pixels(lines * s.unit),
        last(s.last != 0),
        base(image * s.image + (int64_t)line * s.unit * s.pixel),
        pixel(s.pixel),
        channel(s.channel) {}
  __device__ __forceinline__ int count() const {
    return channels * pixels;
  }
  __device__ __forceinline__ int element(int c, int p) const {
    return flat || last ? p * channels + c : c * pixels + p;
  }
  __device__ __forceinline__ int channel_of(int e) const {
    return flat || last ? e % channels : e / pixels;
  }
  __device__ __forceinline__ int64_t at(int e) const {
    if (flat) return base + e;
    if (last) return base + (pixel == channels ? (int64_t)e : e / channels * pixel + e % channels);
    return base + e / pixels * channel + e % pixels;
  }
};

struct rdt_band {
  int first, lines, in_first, in_lines; /* lines of the result and of the input */
  int own;                              /* lines of the input that no other band has */
  __device__ __forceinline__ rdt_band(const rdt_bands_args &p, int band) {
    const rdt_band_axis &a = p.axis[0];
    first = band * p.lines, lines = min(p.lines, a.out - first);
    in_first = max(first * a.stride - a.pad, 0);
    int end = min((first + lines - 1) * a.stride - a.pad + (a.taps - 1) * a.dilation + 1, a.in);
    const int next = band + 1 < p.bands ? min(max((first + lines) * a.stride - a.pad, 0), a.in) : a.in;
    own = next - in_first;
    if (p.given) end = max(end, next);
    in_lines = max(end - in_first, 0);
  }
};

RDT_DEVICE bool rdt_minus(unsigned signs, int e) {
  return (signs >> (e & 31) & 1u) != 0;
}

enum { WARPS = RDT_BANDS_THREADS / 32 };

/* Sums of a block, in a fixed order; the first thread has them. */
template <int Q, class S>
RDT_DEVICE void rdt_sum_block(const S (&x)[Q], double (&total)[Q]) {
  __shared__ S warps[Q][WARPS];
#pragma unroll
  for (int q = 0; q < Q; q++) {
    S y = x[q];
#pragma unroll
    for (int d = 16; d > 0; d /= 2) y += __shfl_down_sync(0xffffffffu, y, d);
    if (threadIdx.x % 32 == 0) warps[q][threadIdx.x / 32] = y;
    total[q] = 0.0;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
#pragma unroll
  for (int q = 0; q < Q; q++) {
    if (threadIdx.x < blockDim.x / 32) total[q] = (double)warps[q][threadIdx.x];
#pragma unroll
    for (int d = 16; d > 0; d /= 2) total[q] += __shfl_down_sync(0xffffffffu, total[q], d);
  }
}

/* V neighbours, or one. bits: of the first so many elements, where the sums of the result are given. */
template <class T, int V, bool flat, bool given, class S>
RDT_DEVICE void rdt_band_expect(const rdt_bands_args &p, const rdt_band_walk<flat> &walk, const float *coefficients,
                                S &sum, S &squares, int own, uint64_t &bits) {
  const int count = walk.count(), step = V * (int)blockDim.x;
  const S least2 = (S)p.least2;
#pragma unroll 2
  for (int e = V * (int)threadIdx.x; e < count; e += step) {
    T x[V];
    float g[V];
    rdt_load_pack<T, V>((const T *)p.x + walk.at(e), x);
    if constexpr (given)
      if (e < own) bits += rdt_box_share_of(x, (uint64_t)walk.at(e));
    rdt_load_pack<float, V>(coefficients + e, g);
#pragma unroll
    for (int v = 0; v < V; v++) {
      const S y = (S)rdt_widen(x[v]);
      sum += y * (S)g[v];
      squares += rdt_box_square(y, least2);
    }
  }
}

/* What the outputs sum to; what follows, a second time. An element that differs there, -1: none. Where it is flat, the
 * sum is formed of what should be stored: what is there is summed later. */
template <class T, int V, bool flat, class S>
RDT_DEVICE int rdt_band_observe(const rdt_bands_args &p, const rdt_band_walk<flat> &walk, S &sum, S &squares,
                                uint64_t &bits) {
  constexpr rdt_dtype type = rdt_box_dtype((T *)NULL);
  const int count = walk.count(), step = V * (int)blockDim.x;
  const int channels = flat ? step % walk.channels : 0; /* of a step: divisions are long code */
  const float beta = (float)p.finish.beta;
  const bool adds = p.finish.bias || p.residual, acts = flat && p.finish.on && p.to.sum;
  int wrong = -1, channel = flat ? V * (int)threadIdx.x % walk.channels : 0;
#pragma unroll 2
  for (int e = V * (int)threadIdx.x; e < count; e += step) {
    const int64_t at = walk.at(e);
    const unsigned signs = rdt_box_signs((unsigned)e >> 5);
    const rdt_pack<T, V> t = *(const rdt_pack<T, V> *)((const T *)p.raw + at);
    float bias[V], more[V], y[V];
#pragma unroll
    for (int v = 0; v < V; v++) bias[v] = more[v] = 0.0f;
    if (adds) {
      if (!flat) channel = walk.channel_of(e);
      if (p.finish.bias) {
        if constexpr (flat)
          rdt_load_as<float, T, V>((const T *)p.finish.bias + channel, 1, V, true, bias);
        else
          rdt_box_load<float, V>(p.finish.bias, channel, walk.last ? 1 : 0, V, walk.last, p.finish.bias_type, bias);
      }
      if (p.residual) rdt_load_as<float, T, V>((const T *)p.residual + at, 1, V, true, more);
    }
#pragma unroll
    for (int v = 0; v < V; v++) {
      const float raw = rdt_widen(t.x[v]), other = rdt_mul(beta, more[v]);
      S x = (S)raw, size = (S)fabsf(raw);
      y[v] = raw;
      if (flat || p.finish.inside) {
        x -= (S)bias[v] + (S)other;
        size += (S)fabsf(bias[v]) + (S)fabsf(other);
      } else if (!flat) {
        y[v] = rdt_box_sum<float>(p.finish, raw, bias[v], more[v], p.residual != NULL);
      }
      sum += rdt_minus(signs, e + v) ? -x : x;
      squares += size * size;
    }
    if constexpr (flat) {
      if (acts) rdt_box_act<false, V, float>(p.finish, y);
      const rdt_box_words low = rdt_box_narrow(y, type), high = rdt_box_narrow(y + V - 4, type);
      const uint4 w = acts ? V == 8 ? make_uint4(low.w[0], low.w[1], high.w[0], high.w[1])
                                    : make_uint4(low.w[0], low.w[1], low.w[2], low.w[3])
                           : *(const uint4 *)(const void *)&t;
      const uint32_t words[4] = {w.x, w.y, w.z, w.w};
      bits += rdt_box_share<4>(words, (uint64_t)at * sizeof(T) / 4);
    } else {
      float four[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int v = 0; v < V; v++) four[v] = y[v];
      rdt_box_act<true, 4, float>(p.finish, four);
      const rdt_box_words words = rdt_box_narrow(four, type);
      if (!(V == 4 ? rdt_box_same(rdt_box_load_pack(p.out, at, type), words)
                   : rdt_box_same_one(p.out, at, type, words, 0)))
        wrong = e;
    }
    channel += channels;
    if (channel >= walk.channels) channel -= walk.channels;
  }
  return wrong;
}

template <class T, bool flat>
static __global__ void __launch_bounds__(RDT_BANDS_THREADS, 1)
    bands_check(const __grid_constant__ rdt_bands_tasks all) {
  typedef typename rdt_box_type<T>::sum S;
  constexpr int V = flat ? 16 / sizeof(T) : 4;
  unsigned block;
  const rdt_bands_args &p = all.task[rdt_box_task(all, block)];
  const int image = (int)block / p.bands, band = (int)block % p.bands;
  const rdt_band b(p, band);
  const rdt_band_walk<flat> in(p.in, image, b.in_first, b.in_lines), result(p.result, image, b.first, b.lines);
  const float *coefficients = p.coefficients + band * p.pitch;
  S x[4] = {0, 0, 0, 0}; /* expected, squares of inputs; observed, its squares */
  uint64_t bits = 0;
  int wrong;
  if (flat || p.in.vectors)
    rdt_band_expect<T, V, flat, false, S>(p, in, coefficients, x[0], x[1], 0, bits);
  else
    rdt_band_expect<T, 1, flat, false, S>(p, in, coefficients, x[0], x[1], 0, bits);
  if constexpr (flat)
    wrong = rdt_band_observe<T, V, flat, S>(p, result, x[2], x[3], bits);
  else
    wrong = p.result.vectors ? rdt_band_observe<T, 4, flat, S>(p, result, x[2], x[3], bits)
                             : rdt_band_observe<T, 1, flat, S>(p, result, x[2], x[3], bits);
  double sum[4];
  rdt_sum_block<4, S>(x, sum);
  if (flat) rdt_box_add<RDT_BANDS_THREADS>(p.to, bits);
  const int first = (image * p.axis[0].out + b.first) * p.result.unit;
  if (threadIdx.x == 0) {
    const rdt_place_of at = {first, -1, b.lines * p.result.unit, p.result.channels, 0, 0};
    const double q = (sum[1] + rdt_box_lost(x[1], in.count())) * (double)*p.most;
    const double seen = sum[3] + rdt_box_lost(x[3], result.count());
    if (__builtin_expect(!rdt_box_passes(p.bound, sum[2], seen, sum[0], q), 0))
      rdt_box_compare(p.bound, p.verdict, at, sum[2], seen, sum[0], q);
  }
  if (__builtin_expect(wrong < 0, 1)) return;
  const int pixel = result.last ? wrong / result.channels : wrong % result.pixels;
  const rdt_place_of at = {first + pixel, result.channel_of(wrong), 1, 1, 0, 0};
  rdt_complain(p.verdict, RDT_CUDA_CERTAIN, at, 0.0f, 0.0f, 0.0f, 0.0f);
}

/* Sums of pixels are given: their channels have the signs of their numbers, and the pixels of a band theirs. */
RDT_DEVICE bool rdt_minus_pixel(int pixel) {
  return rdt_minus(rdt_box_signs((unsigned)pixel >> 5 ^ 0x80000000u), pixel);
}

template <class T>
static __global__ void __launch_bounds__(RDT_BANDS_THREADS, 2)
    bands_given(const __grid_constant__ rdt_bands_tasks all) {
  unsigned block;
  const rdt_bands_args &p = all.task[rdt_box_task(all, block)];
  const int image = (int)block / p.bands, band = (int)block % p.bands;
  const rdt_band b(p, band);
  const rdt_band_walk<true> in(p.in, image, b.in_first, b.in_lines);
  float x[4] = {0, 0, 0, 0}; /* as above */
  uint64_t bits = 0;
  const int first = (image * p.axis[0].out + b.first) * p.result.unit, pixels = b.lines * p.result.unit;
  const int64_t all_pixels = (int64_t)p.images * p.axis[0].out * p.result.unit;
  for (int i = (int)threadIdx.x; i < pixels * p.given_blocks; i += (int)blockDim.x) {
    const int c = i / pixels, pixel = i - c * pixels;
    const float2 part = ((const float2 *)p.given)[c * all_pixels + first + pixel];
    x[2] += rdt_minus_pixel(pixel) ? -part.x : part.x, x[3] += part.y;
  }
  rdt_band_expect<T, 8, true, true, float>(p, in, p.coefficients + band * p.pitch, x[0], x[1],
                                           b.own * p.in.unit * p.in.channels, bits);
  double sum[4];
  rdt_sum_block<4, float>(x, sum);
  rdt_box_add<RDT_BANDS_THREADS>({NULL, NULL}, 0, p.read, bits);
  rdt_box_collect(p.tiles, block);
  if (threadIdx.x != 0) return;
  const rdt_place_of at = {first, -1, pixels, p.result.channels, 0, 0};
  const double q = (sum[1] + rdt_box_lost(x[1], in.count())) * (double)*p.most;
  const double seen = sum[3] + rdt_box_lost(x[3], pixels * p.result.channels);
  if (__builtin_expect(!rdt_box_passes(p.bound, sum[2], seen, sum[0], q), 0))
    rdt_box_compare(p.bound, p.verdict, at, sum[2], seen, sum[0], q);
}

/* ---- what the weights say ---- */

RDT_DEVICE int rdt_axis_out(const rdt_band_axis &a, int i, int tap) { /* -1: none */
  const int at = i + a.pad - tap * a.dilation;
  return at >= 0 && at % a.stride == 0 && at / a.stride < a.out ? at / a.stride : -1;
}

template <class T>
static __global__ void __launch_bounds__(RDT_BOX_THREADS) bands_coefficients(const __grid_constant__ rdt_bands_args p) {
  const int band = (int)blockIdx.y, e = (int)(blockIdx.x * RDT_BOX_THREADS + threadIdx.x);
  const rdt_band b(p, band);
  const rdt_band_walk<false> in(p.in, 0, b.in_first, b.in_lines), result(p.result, 0, b.first, b.lines);
  if (e >= p.pitch) return;
  double sum = 0.0;
  if (e < in.count()) {
    const int c = in.channel_of(e), pixel = in.last ? e / in.channels : e % in.pixels;
    const int filters = result.channels / p.groups, share = in.channels / p.groups, group = c / share;
    const int i0 = b.in_first + pixel / p.in.unit, rest = pixel % p.in.unit;
    const int i1 = rest / p.axis[2].in, i2 = rest % p.axis[2].in;
    for (int t0 = 0; t0 < p.axis[0].taps; t0++) {
      const int o0 = rdt_axis_out(p.axis[0], i0, t0);
      if (o0 < b.first || o0 >= b.first + b.lines) continue;
      for (int t1 = 0; t1 < p.axis[1].taps; t1++) {
        const int o1 = rdt_axis_out(p.axis[1], i1, t1);
        if (o1 < 0) continue;
        for (int t2 = 0; t2 < p.axis[2].taps; t2++) {
          const int o2 = rdt_axis_out(p.axis[2], i2, t2);
          if (o2 < 0) continue;
          const T *w = (const T *)p.w + (c % share) * p.w_channel + t0 * p.w_tap[0] + t1 * p.w_tap[1] + t2 * p.w_tap[2];
          const int at = ((o0 - b.first) * p.axis[1].out + o1) * p.axis[2].out + o2;
          for (int k = group * filters; k < (group + 1) * filters; k++) {
            const int to = p.given ? k : result.element(k, at);
            const double x = (double)rdt_widen(w[k * p.w_filter]);
            const bool other = p.given && rdt_minus_pixel(at);
            sum += rdt_minus(rdt_box_signs((unsigned)to >> 5), to) != other ? -x : x;
          }
        }
      }
    }
  }
  p.coefficients[band * p.pitch + e] = (float)sum;
}

template <class T>
static __global__ void __launch_bounds__(RDT_BOX_THREADS) bands_most(const __grid_constant__ rdt_bands_args p) {
  const int c = (int)blockIdx.x, filters = p.result.channels / p.groups, share = p.in.channels / p.groups;
  const int taps = p.axis[0].taps * p.axis[1].taps * p.axis[2].taps, first = c / share * filters;
  double sum = 0.0;
  for (int i = (int)threadIdx.x; i < filters * taps; i += RDT_BOX_THREADS) {
    const int t = i % taps, t2 = t % p.axis[2].taps, t1 = t / p.axis[2].taps % p.axis[1].taps,
              t0 = t / p.axis[2].taps / p.axis[1].taps;
    const double x = (double)rdt_widen(((const T *)p.w)[(first + i / taps) * p.w_filter + (c % share) * p.w_channel +
                                                        t0 * p.w_tap[0] + t1 * p.w_tap[1] + t2 * p.w_tap[2]]);
    sum += rdt_box_square(x, p.least2);
  }
  double total[1];
  rdt_sum_block<1, double>({sum}, total);
  if (threadIdx.x == 0) /* rounded up; NaN is above all numbers */
    atomicMax((unsigned *)p.most, __float_as_uint(fabsf(__double2float_ru(total[0]))));
}

#define BY_TYPE(kernel)                          \
  switch (type) {                                \
    case RDT_F32:                                \
      return (const void *)kernel<float>;        \
    case RDT_F16:                                \
      return (const void *)kernel<rdt_box_f16>;  \
    case RDT_BF16:                               \
      return (const void *)kernel<rdt_box_bf16>; \
    default:                                     \
      return NULL;                               \
  }
extern "C" const void *rdt_bands_check(rdt_dtype type, int flat) {
  switch (type) {
    case RDT_F32:
      return flat ? (const void *)bands_check<float, true> : (const void *)bands_check<float, false>;
    case RDT_F16:
      return flat ? (const void *)bands_check<rdt_box_f16, true> : (const void *)bands_check<rdt_box_f16, false>;
    case RDT_BF16:
      return flat ? (const void *)bands_check<rdt_box_bf16, true> : (const void *)bands_check<rdt_box_bf16, false>;
    default:
      return NULL;
  }
}
extern "C" const void *rdt_bands_given(rdt_dtype type) {
  return type == RDT_F16    ? (const void *)bands_given<rdt_box_f16>
         : type == RDT_BF16 ? (const void *)bands_given<rdt_box_bf16>
                            : NULL;
}
extern "C" const void *rdt_bands_coefficients(rdt_dtype type) {
  BY_TYPE(bands_coefficients)
}
extern "C" const void *rdt_bands_most(rdt_dtype type) {
  BY_TYPE(bands_most)
}
