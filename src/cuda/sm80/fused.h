/* What host and device share of convolutions and products that do everything in one kernel: act(alpha x * w + bias +
 * beta residual) with channels side by side, as products of the pixels of the result and the filters. What their check
 * needs of the result leaves in passing: signed sums of each pixel before anything follows, and the bit-sum of what is
 * stored. */
#ifndef RDT_CUDA_FUSED_H
#define RDT_CUDA_FUSED_H

#include "cuda/box/box.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rdt_fused_axis {
  int in, out, taps, stride, dilation, pad;
} rdt_fused_axis;

typedef struct rdt_fused_args {
  const void *x, *w, *bias, *residual;
  void *out;
  int m, n, k;                /* pixels of the result, filters, taps times channels */
  int channels;               /* of x */
  int plain;                  /* rows of x are those of the result: no windows */
  int64_t image, line, pixel; /* of x, in elements */
  int64_t ldo, ldr;           /* from pixel to pixel of the result, of the residual */
  rdt_fused_axis axis[2];
  int k_split, splits; /* of a block, a multiple of the stage's; blocks that share a tile */
  float alpha, beta;
  rdt_box_finish finish; /* of it the activation */
  float *partial;        /* splits > 1: [split][tile][rows][columns] */
  unsigned *tickets;     /* of tiles, 0 before and after */
  float *sums; /* [column block][m]: signed sum of a pixel's channels before what follows, and of squares; NULL: none */
  uint64_t *bits; /* [tile]: bit-sum of what is stored, by other threads than those that store it; NULL: none */
  uint64_t *read; /* [tile]: the same of the residual, as those threads have read it */
} rdt_fused_args;

typedef struct rdt_fused_kernel {
  const char *name;
  int rows, columns, k, threads, shared;
  const void *code[2][2]; /* of f16, of bf16; with no activation but bounds, with any */
} rdt_fused_kernel;
extern const rdt_fused_kernel rdt_fused_kernels[];
extern const int rdt_fused_count;

#ifdef __cplusplus
}
#endif
#endif
