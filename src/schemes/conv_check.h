/* What the checks of convolutions share: geometry, weights of the sums, rows of the operands, the filter checksum.
 *
 * Y[n,k,oh,ow] = sum_{c,r,s} W[k,c,r,s] X[n,c,oh*stride+r*dilation-pad, ...] is a product with one row a pixel, one
 * column an output channel and reduction length K = C R S (C channels of a group). Source: arXiv 2006.04984 section 3.
 *
 * Images of any number of spatial dimensions are taken line by line: a line runs along the last dimension, all others
 * together number the lines, and likewise the lines of taps of a filter. Which output line an input line serves at a
 * line of taps is all that the checks need to know about them. */
#ifndef RDT_SCHEMES_CONV_CHECK_H
#define RDT_SCHEMES_CONV_CHECK_H

#include "cpu/conv_sums.h"
#include "schemes/scheme.h"

typedef struct rdt_conv_axis {
  int64_t in, out, taps, stride, dilation, pad;
} rdt_conv_axis;

typedef struct rdt_conv_check {
  int64_t n, ic, ih, iw, oc, oh, ow, kh, kw, groups, icg, ocg; /* h: lines; icg, ocg: channels of one group */
  int64_t k;                                                   /* icg kh kw */
  rdt_conv_axis depth, height, width;                          /* of length 1 where an image has no such dimension */
  rdt_dtype acc;
  bool exact;                       /* integers modulo 2^32 */
  int32_t zero[2];                  /* of the input and the filters */
  bool fixed;                       /* checksums were made from the weights at create */
  int threads, parts;               /* an image is cut into parts, so that images x parts divides among the threads */
  size_t elem, sum;                 /* bytes of an element of a fetched row and of a sum (cpu/conv_sums.h) */
  const rdt_conv_sums *fn, *fn_sum; /* fn_sum: over rows of doubles */
  rdt_tolerance tol;
  int8_t *sign_oh, *sign_ow, *sign_oc; /* balanced random signs; pixel (oh, ow) has weight sign_oh sign_ow */
} rdt_conv_check;

rdt_status rdt_conv_accept(const rdt_problem *p, rdt_reason *why);
rdt_status rdt_conv_check_init(rdt_conv_check *c, const rdt_problem *p, bool fixed, double lambda, int threads);
void rdt_conv_check_clear(rdt_conv_check *c);
rdt_status rdt_conv_check_fixed(const rdt_conv_check *c, rdt_vault *tables); /* the signs */

/* count pixels along w from (n, h, w), all channels, as a row of conv_sums: in place where it lies so, else converted
 * to scratch. *ps: its pixel stride. */
const void *rdt_conv_row(const rdt_conv_check *c, const rdt_tensor *t, int64_t n, int64_t h, int64_t w, int64_t count,
                         void *scratch, int64_t *ps);
/* Filters k .. k + count of one group as rows [c][r][s]; *ps: distance of two filters. scratch: count * K elements. */
const void *rdt_conv_filters(const rdt_conv_check *c, const rdt_tensor *w, int64_t k, int64_t count, void *scratch,
                             int64_t *ps);
/* After row h of the rows from .. to - 1 of image n, taken in order: the epilogue of a block of them from raw to fin
 * (may be NULL), once the block is complete. */
void rdt_conv_epilogue(const rdt_conv_check *c, const rdt_operands *o, const rdt_tensor *fin, int64_t n, int64_t from,
                       int64_t to, int64_t h);

/* Filter checksum: one buffer [r][s][c] of sums over the filters with sign_oc, then (not for integers) three rows of
 * length ic of the element type: g = sum |W|, rho^2 = sum W^2, beta^2, each reduced over the taps (r, s): largest
 * (over_taps false) or summed (true; beta^2 then is the largest). */
typedef struct rdt_conv_filter {
  void *data;
  size_t bytes;
  void *beta;
  void *g, *rho2, *beta2;
  rdt_dtype elem; /* of these three */
} rdt_conv_filter;
rdt_status rdt_conv_filter_alloc(const rdt_conv_check *c, rdt_conv_filter *f);
rdt_status rdt_conv_filter_make(const rdt_conv_check *c, const rdt_tensor *w, bool over_taps, rdt_conv_filter *f);

/* The output index that input index i serves at tap t along an axis, or -1. */
static inline int64_t rdt_conv_out(const rdt_conv_axis *a, int64_t i, int64_t t) {
  const int64_t at = i + a->pad - t * a->dilation;
  return at >= 0 && at % a->stride == 0 && at / a->stride < a->out ? at / a->stride : -1;
}

/* The same of lines. */
static inline int64_t rdt_conv_out_line(const rdt_conv_check *c, int64_t h, int64_t r) {
  const int64_t z = rdt_conv_out(&c->depth, h / c->height.in, r / c->height.taps);
  const int64_t y = rdt_conv_out(&c->height, h % c->height.in, r % c->height.taps);
  return z < 0 || y < 0 ? -1 : z * c->height.out + y;
}

/* The input lines that serve some of the output lines oh .. oh + rows - 1 lie within from .. to of depth and height. */
void rdt_conv_reach(const rdt_conv_check *c, int64_t oh, int64_t rows, int64_t from[2], int64_t to[2]);

#endif
