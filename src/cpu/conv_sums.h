/* Sums over rows of pixels, the arithmetic of the convolution checks. A row lies channels-last: pixel i, channel c at
 * x[i * ps + c]. Element types follow the accumulator of the problem: float (also for bf16 and f16, converted by
 * fetch), double, int32_t. Sums are double, or uint32_t modulo 2^32 for int32_t (rdt_conv_sum below). One body,
 * compiled for each ISA; every function adds in a fixed order. */
#ifndef RDT_CPU_CONV_SUMS_H
#define RDT_CPU_CONV_SUMS_H

#include "core/cpu_info.h"
#include "core/tensor.h"

/* Sums over pixels of floats are kept in float for so many pixels, then added in double: longer chunks are faster, each
 * pixel adds a rounding of 2^-24. */
enum { RDT_CONV_CHUNK = 32 };
/* Magnitudes along the channels are kept in the element's type for so many channels: of floats at most 2^-14 of them is
 * lost. */
enum { RDT_CONV_MAGS = 4096 };

typedef struct rdt_conv_sums {
  rdt_dtype elem, sum; /* f32 f64 | f64 f64 | s32 s32 */
  /* dst[i * channels + c] = src[i * pixel + c * channel] of dtype t, which must be one that converts to elem exactly.
   */
  void (*fetch)(const void *src, rdt_dtype t, int64_t pixel, int64_t channel, int64_t pixels, int64_t channels,
                void *dst);
  /* Down the row: out[s * channels + c] = sum_i coef[i * taps + s] x[i * ps + c] for all taps s, coef (0, 1, -1) of the
   * element type. Also abs[c] += sum_i |x|, squares[c] += sum_i x^2 where not NULL; abs only together with squares,
   * squares alone only with one tap. */
  void (*columns)(const void *x, int64_t ps, int64_t channels, int64_t pixels, const void *coef, int taps, void *out,
                  double *abs, double *squares);
  /* Along the channels: out[i * vectors + v] = sum_c x[i * ps + c] w[v][c]. */
  void (*dots)(const void *x, int64_t ps, int64_t channels, int64_t pixels, const void *const *w, int vectors,
               void *out);
  /* dst[i] += sign * src[i]; sums of any kind. */
  void (*add)(void *dst, const void *src, int sign, int64_t count);
  /* Along the channels: mag[3 i ..] = sum_c |x| g[c], sum_c x^2 q[c], sum_c x^2 b[c], all of the element type; g NULL:
   * sum_c |x|, sum_c x^2, 0. Squares and products below the normal range vanish. NULL for int32_t. */
  void (*mags)(const void *x, int64_t ps, int64_t channels, int64_t pixels, const void *g, const void *q, const void *b,
               double *mag);
} rdt_conv_sums;

/* The best set for isa and accumulator dtype (f32, f64, s32); NULL for another dtype. */
const rdt_conv_sums *rdt_conv_sums_of(rdt_isa isa, rdt_dtype acc);

#endif
