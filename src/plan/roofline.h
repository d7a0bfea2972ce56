/* The roofline: how long a layer takes at least, by how much it computes and how much it moves. Intensity guides. */
#ifndef RDT_PLAN_ROOFLINE_H
#define RDT_PLAN_ROOFLINE_H

#include "core/problem.h"

typedef struct rdt_work {
  double flops, bytes; /* two operations a multiply-add */
} rdt_work;

typedef struct rdt_roof {
  double flops, bandwidth; /* at most, each second: operations, bytes */
} rdt_roof;

enum { RDT_INTENSITY_PAD = 8 };

/* Operands and result once, as they lie in memory: an image is read once, not unfolded. */
rdt_work rdt_work_of(const rdt_problem *p);
/* A product, or a convolution as the product of its unfolded image: M K + K N + M N elements of one datatype, times
 * groups. Lengths are raised to multiples of pad (1: as they are). This is how layers are compared in the literature,
 * which pads by RDT_INTENSITY_PAD. */
rdt_work rdt_work_of_mnk(int64_t m, int64_t n, int64_t k, int64_t groups, rdt_dtype dtype, int64_t pad);
rdt_work rdt_work_sum(rdt_work a, rdt_work b, double times); /* a + times b */

/* Operations for each byte. Of a network: that of the sum of its layers' work. NaN where nothing is moved */
double rdt_work_intensity(rdt_work w);
/* Compute-to-memory ratio: the intensity above which computing is what takes time. */
double rdt_roof_ratio(rdt_roof r);
bool rdt_roof_computes(rdt_roof r, rdt_work w); /* bound by computing; else by memory */
double rdt_roof_seconds(rdt_roof r, rdt_work w);
/* Of the operations a second that the roof allows work of this intensity. */
double rdt_roof_flops(rdt_roof r, double intensity);

#endif
