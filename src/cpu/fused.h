/* Checks that ride along. A kernel with run_fused forms the sums of a check while it multiplies, from its registers and
 * from the operands as the caller keeps them, and evaluates the epilogue twice; no pass over the data is left. Sums are
 * kept in single precision for at most RDT_FUSED_SUM, ... roundings in a chain, then in double. */
#ifndef RDT_CPU_FUSED_H
#define RDT_CPU_FUSED_H

#include <math.h>

#include "cpu/kernel.h"
#include "cpu/sums.h"

enum { RDT_FUSED_PADDING = 32 /* of w_real: columns of any panel */ };
enum {
  RDT_FUSED_SUM = 22,   /* along a row of the result */
  RDT_FUSED_DOT = 24,   /* along a row of A */
  RDT_FUSED_DOWN = 32,  /* down a column of the result: the rows of a tile, 16 tiles */
  RDT_FUSED_BLOCK = 48, /* over a tile of the result, 16 tiles, the lanes */
  RDT_FUSED_MEET = 34   /* down a column of B: 16 terms, 16 of those */
};
/* In double precision what follows those chains rounds as well: a partial sum of 32 terms or more each, and few of the
 * last ones by themselves. */
static inline int64_t rdt_fused_depth_of(int64_t chain, int64_t terms) {
  return chain + terms / 16 + 8;
}

/* Of row i of the product (an output pixel of a convolution), reduced over t (there: kernel row, kernel column,
 * channel; the channel runs fastest):  sum_j w_j raw_ij  against  sum_t a_it beta_t. */
struct rdt_fused {
  const double *w; /* n, each +1 or -1 */
  /* In the precision of the sums, where that is not of integers: w, with zeros for a panel's columns behind it, and
   * where the weights are fixed, beta of rows; NULL: see beta */
  const void *w_real, *beta_real, *rho_real;
  rdt_pair beta;  /* k, where the weights are fixed: the weights' sums, and the squares that their bound takes */
  double most;    /* the largest of the squares of weights that are not fixed, which the kernel sums */
  unsigned forms; /* of checks that are asked for (RDT_FORM_...) */
  rdt_pair expected, observed; /* m each, overwritten: sums, and sums of squares */
  /* Of column j:  sum_i u_i raw_ij  against  sum_t (sum_i u_i a_it) b_tj */
  const double *u;                             /* m, each +1 or -1 */
  rdt_pair columns_expected, columns_observed; /* n each, overwritten; not the expected squares: */
  double columns_norm;                         /* of the squares of A along its rows, of each t (rdt_fused_norm4) */
  /* Of a block: sum u_i w_j raw_ij against sum_t (sum_i u_i a_it) beta_t; beta holds k of each block of columns */
  int64_t block[2];                          /* rows and columns; the columns a multiple of 32, or all */
  rdt_pair blocks_expected, blocks_observed; /* down x across, overwritten */
  /* Of each register tile the lane whose two sides are furthest apart, and the largest squares of a lane */
  rdt_pair units_expected, units_observed; /* down x across, overwritten; not the expected squares */
  /* Squares of the accumulators of each check at the checkpoints between so many segments of the reduction */
  double *rows_between, *columns_between, *blocks_between; /* overwritten */
  int64_t segments;                                        /* the kernel says; 1: there are none */
  const float *weights, *squares;                          /* depthwise, in place of w and beta */
  bool differ;         /* the epilogue did not come out or was not stored twice alike */
  bool seal;           /* the bit-sum is asked for: */
  uint64_t bitsum;     /* of the result's memory, where rdt_epilogue_sums(out) */
  rdt_kernel_hit *hit; /* planted; NULL: nothing */
  bool hit_stored;     /* in the stored result, not in its accumulator */
};

/* The root of the sum of squares of what is itself a square. NaN and Inf stay one of both. */
static inline double rdt_fused_norm4(const double *sq, int64_t n) {
  double most = 0.0, sum = 0.0;
  for (int64_t i = 0; i < n; i++)
    if (!(sq[i] <= most)) most = sq[i];
  if (most == 0.0) return 0.0;
  for (int64_t i = 0; i < n; i++) sum += sq[i] / most * (sq[i] / most);
  return most * sqrt(sum);
}

/* A depthwise convolution sums over pixels instead: each channel over blocks of rows of the result, with signs that
 * alternate along and across them. What w and beta are to a product, the weights themselves are there, [tap][channel]
 * as the check keeps them, and the sums of their squares over a kernel row, [kernel row][channel]; the sums of the
 * input's rows are formed on the way. m is images x blocks x channels, the channel fastest. */
static inline int64_t rdt_fused_rows(int64_t oh, int64_t ow) { /* of a block: some 56 pixels, two blocks or more */
  const int64_t wanted = (56 + ow - 1) / ow, half = (oh + 1) / 2;
  return wanted < half ? wanted : half;
}
/* Roundings in a chain: over the pixels of a block; over a row of the input that width taps meet, stride apart. */
static inline int64_t rdt_fused_depth(int64_t ow) {
  return RDT_FUSED_SUM + ow / 7;
}
static inline int64_t rdt_fused_row_depth(int64_t ow, int64_t width, int64_t stride) {
  return 20 + ow / 64 + 2 * (width / stride + 1);
}

#endif
