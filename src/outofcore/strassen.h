/* One level of Strassen's scheme (1969): a product of blocks by seven of halves, and sums of halves. */
#ifndef RDT_OUTOFCORE_STRASSEN_H
#define RDT_OUTOFCORE_STRASSEN_H

#include "outofcore/backend.h"

/* What does the work; each in the order in which it is asked for. */
typedef struct rdt_strassen_ops {
  void *user;
  /* to = x + sign * y, and `to` itself if kept; y NULL: to = sign * x. All lie the same way, side by side in a line. */
  rdt_status (*add)(void *user, const rdt_tensor *to, bool kept, const rdt_tensor *x, const rdt_tensor *y, double sign,
                    rdt_reason *why);
  rdt_status (*multiply)(void *user, const rdt_block_product *p, rdt_reason *why);
} rdt_strassen_ops;

/* Its halves are what kernels like, and long enough for the bounds. */
bool rdt_strassen_fits(const rdt_block_product *p);
/* Half of a length that may be halved; else 0. */
int64_t rdt_strassen_half(int64_t length);
/* The largest product of halves, its memory at room (NULL: only shapes); its bytes. */
rdt_block_product rdt_strassen_halves(const rdt_block_product *p, char *room, size_t *bytes);
rdt_status rdt_strassen_run(const rdt_block_product *p, char *room, const rdt_strassen_ops *ops, rdt_reason *why);

/* An element of the result has a part of up to 16 products of quarters, of two rows of A and all of B; of these each
 * appears at most four times. By Cauchy and Schwarz the error of a row's sum is within what it is for a plain product,
 * if its squares are FACTOR times those of both rows with both halves of the reduction: docs/out-of-core.md. */
#define RDT_STRASSEN_FACTOR 8.0
/* Squares of halves are added up: what each of them becomes is the sum of both. */
void rdt_strassen_fold(double *squares, int64_t n);

#endif
