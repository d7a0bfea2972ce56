/* What host and device share of the passes around a library's product or convolution: one launch reads what went in and
 * what came out, compares their sums, applies the epilogue and evaluates it a second time on other threads. */
#ifndef RDT_CUDA_BOX_H
#define RDT_CUDA_BOX_H

#include <redoubt/tensor.h>

#include "cuda/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_BOX_THREADS = 256, RDT_BANDS_THREADS = 512 };

/* act(alpha raw + bias[channel] + beta residual), each step rounded by itself, in the accumulator's type. */
typedef struct rdt_box_finish {
  int on; /* 0: raw is the result */
  rdt_dtype out, bias_type, residual_type;
  int act; /* rdt_fn */
  const void *bias;
  double alpha, beta, p, q;
} rdt_box_finish;

/* ---- products: a row of C against A times the signed sums of B's rows ---- */

typedef struct rdt_rows_matrix { /* strides in elements; of a batch: outer and inner index */
  const void *data;
  int64_t row, column, outer, inner;
  int along; /* vectors of elements lie side by side: 1 along columns, 2 along rows, 0 nowhere */
} rdt_rows_matrix;

typedef struct rdt_rows_args {
  int m, n, k, batches, inner; /* inner: batches of the inner index */
  int check;
  int log_threads; /* of a group, which takes some rows: 32 to RDT_BOX_THREADS are 5 to 8 */
  rdt_rows_matrix a, raw, residual, out;
  void *weights; /* [set][k] of two numbers: f32 for 16-bit types, else f64; s32 for integers */
  int64_t sets_outer, sets_inner;
  double least2; /* square of the number that subnormal ones count as: tensor cores align them so */
  rdt_box_finish finish;
  rdt_box_bound bound;
  rdt_cuda_verdict *verdict;
} rdt_rows_args;

enum { RDT_ROWS_FEW = 2, RDT_ROWS_MANY = 4 }; /* rows of a block */

/* kernel (args): groups of args.threads for each so many rows of each batch, in blocks of RDT_BOX_THREADS; by the type
 * of A. fast: all matrices are along 1, columns are multiples of 4, and what follows is of A's type. ends: 0 no
 * epilogue, 1 with Relu or Clip at most, 2 with any activation. RDT_ROWS_MANY only where it is fast. */
const void *rdt_rows_check(rdt_dtype a, int rows, int fast, int ends);
/* kernel (args): weights of B, which is raw here, m its rows, RDT_ROWS_FEW of them a group */
const void *rdt_rows_weights(rdt_dtype b);

/* ---- convolutions: signed sums of bands of an image's outputs against the bands of inputs that they see ---- */

typedef struct rdt_band_axis {
  int in, out, taps, stride, dilation, pad;
} rdt_band_axis;

typedef struct rdt_band_side { /* an image: lines (along the first axis) of `unit` pixels each */
  int channels, unit;
  int last;    /* channels lie side by side; else pixels do */
  int vectors; /* four elements of the walk lie side by side, at an address that is a multiple of their size */
  int64_t image, pixel, channel; /* strides */
} rdt_band_side;

typedef struct rdt_bands_args {
  int images, bands, lines; /* lines of output in a band */
  rdt_band_axis axis[3];
  int groups, check;
  rdt_band_side in, result; /* of raw, residual and result alike */
  const void *x, *raw, *residual;
  void *out;
  float *coefficients; /* [band][pitch]: what each input of a band weighs in the signed sum of its outputs */
  int64_t pitch;
  float *most; /* the most that a square of an input weighs */
  double least2;
  rdt_box_finish finish;
  rdt_box_bound bound;
  rdt_cuda_verdict *verdict;
  /* only to make the coefficients */
  const void *w;
  int64_t w_filter, w_channel, w_tap[3];
} rdt_bands_args;

/* kernel (args): a block of up to RDT_BANDS_THREADS for each band of each image; f32, f16, bf16. flat: both sides have
 * vectors, pixels without gaps and channels side by side, and bias is of their type. ends: as above. */
const void *rdt_bands_check(rdt_dtype type, int flat, int ends);
/* kernel (args): coefficients; blocks of RDT_BOX_THREADS: x enough for a band's inputs, y bands */
const void *rdt_bands_coefficients(rdt_dtype type);
/* kernel (args): most, which is 0 before; a block for each input channel */
const void *rdt_bands_most(rdt_dtype type);

#ifdef __cplusplus
}
#endif
#endif
