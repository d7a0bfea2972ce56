/* Convolutions in which each filter reads one channel, in single precision, channels side by side. Each element of the
 * result is one chain of fused multiply-adds over the taps that lie in the image, whatever the tile or the number of
 * threads. conv_depthwise.c walks over the rows; the bodies compute some. */
#ifndef RDT_CPU_DEPTHWISE_H
#define RDT_CPU_DEPTHWISE_H

#include "cpu/native/native.h"

enum { RDT_DEPTHWISE_PIXELS = 7 }; /* of a tile: images of 7 2^n are usual */

/* Of a kernel's column, the columns of the input that it meets, a stride apart: those of a core that all kernel columns
 * of one remainder modulo the stride share, and what lies before and behind it. Signs are those of the first pixels. */
typedef struct rdt_depthwise_part {
  int64_t from, count;
  float sign;
} rdt_depthwise_part;
typedef struct rdt_depthwise_column {
  int core; /* number; its sign here: */
  float sign;
  rdt_depthwise_part edge[2];
} rdt_depthwise_column;

/* The problem, as the bodies read it. */
typedef struct rdt_depthwise {
  int64_t channels, padded; /* padded to whole vectors and groups of them */
  int64_t taps, kw;
  const float *weights;  /* [group of channels][tap][channel in it]; the vectors that fill no group one by one */
  const int64_t *offset; /* of each tap's element from that of the first, in floats */
  int64_t step, pixel;   /* floats from a pixel's window to the next one's; from one pixel of the input to the next */
  int64_t stride;        /* step / pixel */
  int64_t ow, tiles;     /* of a row */
  const uint8_t *masks;  /* [tile][tap]: the pixels whose tap lies in a column of the image */
  int cores;
  const rdt_depthwise_part *core;
  const rdt_depthwise_column *columns; /* kw */
} rdt_depthwise;

typedef struct rdt_depthwise_row { /* of the result */
  int64_t at;                      /* in the input, of the first pixel's first tap: it may lie outside */
  int64_t from, to;                /* the taps whose rows lie in the image */
  int64_t pixel;                   /* number of the first one */
  float sign;                      /* of this row in the check */
  double *dot, *sq;                /* each channel's sums since the last such row are added there; NULL: not yet */
  rdt_kernel_hit *hit;             /* injecting instantiation: in this row */
  int64_t hit_x, hit_channel, hit_tap;
} rdt_depthwise_row;

typedef struct rdt_depthwise_area { /* some rows */
  const rdt_depthwise *d;
  const rdt_depthwise_row *rows;
  int64_t count;
  const float *x;
  float *out;
  int64_t ld; /* of a pixel */
  rdt_native_finish finish;
  bool check, differ; /* differ: set, never cleared */
  bool hit_stored;
} rdt_depthwise_area;

typedef struct rdt_depthwise_table {
  int lanes, cols;                     /* of a vector, of a group of vectors */
  void (*area)(rdt_depthwise_area *a); /* one group of channels after the other: their rows stay in the cache */
  /* Of one row of the input, for each channel: alternating sums as each kernel column meets it, [kw][padded], and what
   * bounds the squares of it and of them, [padded] behind. */
  void (*sums)(const rdt_depthwise *d, const float *x, float *to);
  /* The expected side of a block: sums[y * kernel rows + r]: of the input's row (NULL: not in the image) that kernel
   * row r meets there. weights, squares: as rdt_fused has them. Overwrites dot and sq. */
  void (*expect)(const rdt_depthwise *d, const float *const *sums, int64_t rows, const float *weights,
                 const float *squares, double *dot, double *sq);
} rdt_depthwise_table;
extern const rdt_depthwise_table rdt_depthwise_generic, rdt_depthwise_avx2, rdt_depthwise_avx512;
extern const rdt_depthwise_table rdt_depthwise_generic_inject, rdt_depthwise_avx2_inject, rdt_depthwise_avx512_inject;

#endif
