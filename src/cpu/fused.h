/* Checks that ride along. A kernel with run_fused forms the sums of a row check while it multiplies, from its registers
 * and from the operands as the caller keeps them, and evaluates the epilogue twice; no pass over the data is left.
 * Sums are kept in single precision for at most RDT_FUSED_SUM (RDT_FUSED_DOT) roundings in a chain, then in double. */
#ifndef RDT_CPU_FUSED_H
#define RDT_CPU_FUSED_H

#include "cpu/kernel.h"
#include "cpu/sums.h"

enum { RDT_FUSED_SUM = 22, RDT_FUSED_DOT = 24 };

/* Of row i of the product (an output pixel of a convolution), reduced over t (there: kernel row, kernel column,
 * channel; the channel runs fastest):  sum_j w_j raw_ij  against  sum_t a_it beta_t. */
struct rdt_fused {
  const double *w; /* n, each +1 or -1 */
  rdt_pair beta;   /* k, where the weights are fixed: the weights' sums, and the squares that their bound takes */
  double most;     /* the largest of the squares of weights that are not fixed, which the kernel sums */
  rdt_pair expected, observed; /* m each, overwritten: sums, and sums of squares */
  bool differ;                 /* the epilogue did not come out or was not stored twice alike */
  uint64_t bitsum;             /* of the result's memory, where rdt_epilogue_sums(out) */
  rdt_kernel_hit *hit;         /* planted; NULL: nothing */
  bool hit_stored;             /* in the stored result, not in its accumulator */
};

#endif
