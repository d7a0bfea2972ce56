/* What host and device share of the passes around a library's product or convolution. What follows the library's
 * result, and is not in it already, is one pass behind it (ends). The check is another one, which nothing waits for: it
 * reads what went in and what came out, compares their sums, and evaluates what follows a second time. */
#ifndef RDT_CUDA_BOX_H
#define RDT_CUDA_BOX_H

#include <redoubt/tensor.h>

#include "cuda/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_BOX_THREADS = 256, RDT_BANDS_THREADS = 512 };

/* act(alpha raw + bias[channel] + beta residual), each step rounded by itself, in the accumulator's type.
 * inside: the library has done all of that but act; raw is of the result's type, and of alpha, bias and residual the
 * check takes account. */
typedef struct rdt_box_finish {
  int on; /* 0: raw is the result */
  int inside;
  rdt_dtype out, bias_type, residual_type;
  int act; /* rdt_fn */
  const void *bias;
  double alpha, beta, p, q;
} rdt_box_finish;

/* Where a bit-sum goes, and how many blocks have been there; NULL: nowhere. */
typedef struct rdt_box_sum_to {
  uint64_t *sum, *visits;
} rdt_box_sum_to;

/* Bit-sums that the tiles of a result have left, and of what they have read and, each split by itself, loaded to
 * multiply it; and where they are added up, by so many blocks. */
typedef struct rdt_box_tiles {
  uint64_t *list, *read, *loaded;
  unsigned count, splits, blocks;
  rdt_box_sum_to to;
  uint64_t *read_to, *loaded_to; /* NULL: nobody asks */
} rdt_box_tiles;

/* ---- products: a row of C against A times the signed sums of B's rows ---- */

typedef struct rdt_rows_matrix { /* strides in elements; of a batch: outer and inner index */
  const void *data;
  int64_t row, column, outer, inner;
  int along;      /* vectors of elements lie side by side: 1 along columns, 2 along rows, 0 nowhere */
  rdt_dtype type; /* of a and raw */
} rdt_rows_matrix;

typedef struct rdt_rows_args {
  int m, n, k, batches, inner; /* inner: batches of the inner index */
  int log_threads;             /* of a group, which takes some rows: 32 to RDT_BOX_THREADS are 5 to 8 */
  rdt_rows_matrix a, raw, residual, out;
  void *weights; /* [set][k] of two numbers: f32 for floats of 16 and 8 bits, else f64; s32 for integers */
  int64_t sets_outer, sets_inner;
  const float *turns; /* n weights of columns beside their signs (check/weights.h); NULL: there are none */
  double least2;      /* square of the number that subnormal ones count as: tensor cores align them so */
  rdt_box_finish finish;
  rdt_box_bound bound;
  rdt_cuda_verdict *verdict;
  rdt_box_sum_to to;  /* only where it is fast */
  uint64_t *read;     /* the same of A, as it was read, of 16 bits; NULL: nowhere */
  const float *given; /* [block][m]: signed sum and sum of squares of a row of raw, which then is not read */
  int given_blocks;
  rdt_box_tiles tiles;
} rdt_rows_args;

enum { RDT_ROWS_FEW = 2, RDT_ROWS_MANY = 4 }; /* rows of a block */

/* Several of one kernel in one launch: task i has the blocks from first[i] on. */
enum { RDT_ROWS_TASKS = 8, RDT_BANDS_TASKS = 6 };
typedef struct rdt_rows_tasks {
  int n;
  unsigned first[RDT_ROWS_TASKS];
  rdt_rows_args task[RDT_ROWS_TASKS];
} rdt_rows_tasks;

/* kernel (tasks): groups of args.threads for each so many rows of each batch, in blocks of RDT_BOX_THREADS; by the
 * types of A and of raw, which the matrices say too (of 16 and 8 bits one kernel asks them). fast: all matrices are
 * along 1, columns are multiples of 16 bytes, bias and residual of raw's type, which is A's or that of integers, or of
 * f8e4m3 one of 16 bits; the sum is formed of a bound's results where the sum of those is asked for. RDT_ROWS_MANY only
 * where it is fast. */
const void *rdt_rows_check(rdt_dtype a, rdt_dtype raw, int rows, int fast);
/* kernel (tasks): the same where sums are given, of f16 and bf16; A is along 1, k a multiple of eight, batches are 1.
 */
const void *rdt_rows_given(rdt_dtype a, int rows);
/* The same sums with turns, RDT_ROWS_FEW rows a group, of any layout; what follows is not evaluated, no sum formed.
 * NULL: integers have none. */
const void *rdt_rows_more(rdt_dtype a);
/* kernel (tasks): weights of B, which is raw here, m its rows, RDT_ROWS_FEW of them a group */
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
  int groups;
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
  rdt_box_sum_to to;  /* only where it is flat */
  uint64_t *read;     /* where sums are given: the same of x, as it was read; NULL: nowhere */
  const float *given; /* [block][pixels]: signed sum and sum of squares of a pixel of raw, which then is not read */
  int given_blocks;
  rdt_box_tiles tiles;
  /* only to make the coefficients */
  const void *w;
  int64_t w_filter, w_channel, w_tap[3];
} rdt_bands_args;

typedef struct rdt_bands_tasks {
  int n;
  unsigned first[RDT_BANDS_TASKS];
  rdt_bands_args task[RDT_BANDS_TASKS];
} rdt_bands_tasks;

/* kernel (tasks): a block of up to RDT_BANDS_THREADS for each band of each image; f32, f16, bf16. flat: on both sides
 * pixels and lines have no gaps, and channels lie side by side in multiples of 16 bytes; bias is of their type.
 * The sum as above. */
const void *rdt_bands_check(rdt_dtype type, int flat);
/* kernel (tasks): the same where sums are given, of f16 and bf16; flat. A band then has the lines up to the next one's,
 * whether it sees them or not. */
const void *rdt_bands_given(rdt_dtype type);
/* kernel (args): coefficients; blocks of RDT_BOX_THREADS: x enough for a band's inputs, y bands */
const void *rdt_bands_coefficients(rdt_dtype type);
/* kernel (args): most, which is 0 before; a block for each input channel */
const void *rdt_bands_most(rdt_dtype type);

/* ---- what follows a result: all elements of out, from raw ---- */

typedef struct rdt_ends_args { /* matrices as above; a convolution's rows are pixels, its columns channels */
  int m, n, batches, inner;
  int by_rows; /* rows lie side by side */
  rdt_rows_matrix raw, residual, out;
  rdt_box_finish finish;
} rdt_ends_args;
/* kernel (args): a thread an element; of raw's type */
const void *rdt_ends_any(rdt_dtype raw);

typedef struct rdt_act_args { /* `count` elements that lie side by side, at multiples of 16 bytes */
  const void *raw;
  void *out;
  int64_t count;
  rdt_box_finish finish;
  rdt_box_sum_to to;
} rdt_act_args;
/* kernel (args): the activation alone, a thread 16 bytes, and those of each grid after that; f32, f16, bf16, of raw and
 * result alike. ends: 1 Relu or Clip, 2 any activation. to: then other threads of a block evaluate all once more, and
 * form the sum: what memory holds is compared by its own, later. Curves of 16 bits are approximations (cuda/fast.h). */
const void *rdt_ends_act(rdt_dtype type, int ends);

#ifdef __cplusplus
}
#endif
#endif
