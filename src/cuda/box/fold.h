/* What host and device share of convolutions of few channels, which are folded: blocks of stride x stride pixels become
 * one pixel of 16 or 8 numbers, with zeros where there is no channel and no image. As many of them as are 64 numbers
 * lie side by side, so that a window is a column of such lines, and each number of the image is there once. */
#ifndef RDT_CUDA_FOLD_H
#define RDT_CUDA_FOLD_H

#include "cuda/box/box.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RDT_FOLD_LINE = 64 }; /* numbers that a window sees of a line of blocks */

typedef struct rdt_fold_args {
  const void *x; /* images, 16 bits */
  void *copy;    /* [image][line of blocks][block][its lines][their pixels][channels] */
  int images, channels, in[2];
  int64_t image, channel, line, pixel; /* strides of x, in elements */
  int tall, wide;                      /* blocks of an image */
  int before[2];                       /* lines and columns of zeros before the image */
  /* The check: is the copy what the image is? */
  uint64_t *read; /* where the bit-sum of the image goes, formed of the copy; NULL: both are compared */
  uint64_t *visits;
  rdt_cuda_verdict *verdict;
} rdt_fold_args;

/* Filters as the copy wants them: [filter][line of blocks][RDT_FOLD_LINE]. */
typedef struct rdt_fold_filters_args {
  const void *w;
  void *copy;
  int filters, channels, taps[2], lines; /* lines of blocks */
  int64_t filter, channel, line, pixel;  /* strides of w, in elements */
} rdt_fold_filters_args;

/* kernels (args), threads of RDT_BOX_THREADS; stride: 1 or 2. images, check: a thread eight numbers, and those of each
 * grid after that. filters: a thread a number. */
enum { RDT_FOLD_IMAGES, RDT_FOLD_CHECK, RDT_FOLD_FILTERS };
const void *rdt_fold_kernel(int which, int stride);

#ifdef __cplusplus
}
#endif
#endif
