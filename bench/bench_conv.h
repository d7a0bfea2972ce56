/* `redoubt bench conv`: protected convolutions against the best unprotected ones, interleaved in one process. */
#ifndef RDT_BENCH_CONV_H
#define RDT_BENCH_CONV_H

#include "ops.h"

typedef struct rdt_bench_image {
  char layer[32]; /* of a set; "" otherwise */
  int64_t n, ic, oc, ih, iw, kh, kw, stride, pad, dilation, groups, times;
} rdt_bench_image;

typedef struct rdt_bench_images {
  rdt_bench_image at[RDT_BENCH_CASES];
  int count;
} rdt_bench_images;

/* The convolutions of a workload, with n images at a time; 0: as many as it is measured with. */
rdt_status rdt_bench_take_images(const char *workload, int64_t n, rdt_bench_images *images, rdt_reason *why);

/* Libraries for a convolution: an rdt_bench_ops' gather */
void rdt_bench_gather_conv(rdt_baselines *b, rdt_field *f);

/* The exit code: 0; 1 a fault was reported; 2 it could not run; or RDT_TIMING_STOPPED. */
int rdt_bench_conv(const rdt_bench_ask *ask, const rdt_bench_images *images);

#endif
