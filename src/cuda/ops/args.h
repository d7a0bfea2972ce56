/* What the kernels of ops that are no products get: one structure for all, in plain C. An op is evaluated element by
 * element of its result, or row by row; each is a function of kinds.def, which the GPU's kernels and tests on the CPU
 * share (body.h).
 *
 * Each is launched in one of three forms of one code. The first stores what it computes. The second computes all of it
 * once more, on other threads and other multiprocessors, compares with what is stored, and forms the bit-sum
 * (check/bitsum.h) of that. The third is the first, and beside it all once more by other blocks, or (tiles) by other
 * warps of the same ones, of whose results the bit-sum is formed: what is stored has the same sum, or something was
 * wrong. */
#ifndef RDT_CUDA_OPS_ARGS_H
#define RDT_CUDA_OPS_ARGS_H

#include <redoubt/tensor.h>

#include "cuda/verdict.h"

enum { RDT_OP_VIEWS = 6, RDT_OP_SPATIAL = 3, RDT_OP_THREADS = 256, RDT_OP_WARP_ROW = 1024 }; /* the last: numbers */
/* Tiles (tiles.h): of copies, at most; lines of windows that a thread has; units of channels of a block of wide ones.
 */
enum {
  RDT_OP_TURN_BYTES = 1 << 13,
  RDT_OP_TURN_ROWS = 64,
  RDT_OP_LINES = 1,
  RDT_OP_UNITS = 16,
  RDT_OP_BYTES_TILE = 64
};
enum {
  RDT_OP_ROW_WARPS = 4,
  RDT_OP_ROW_THREADS = 32 * RDT_OP_ROW_WARPS
}; /* of a block that takes rows of 16-bit numbers */

typedef enum rdt_op_kind {
#define X(id, name, rows) RDT_OP_##id,
#include "cuda/ops/kinds.def"
#undef X
  RDT_OP_KINDS,
  RDT_OP_SUMS = RDT_OP_KINDS, /* rdt_sums_args */
  RDT_OP_CLOSE,               /* rdt_close_args */
  RDT_OP_CLEAR,               /* rdt_clear_args */
  RDT_OP_ATTENTION,           /* rdt_gpu_attention (attention.h) */
  RDT_OP_CODES
} rdt_op_kind;

typedef enum rdt_op_form { RDT_OP_STORES, RDT_OP_COMPARES, RDT_OP_BOTH, RDT_OP_AGAIN } rdt_op_form;

typedef struct rdt_op_view {
  void *data;
  int32_t dtype, bytes;         /* of an element */
  int64_t stride[RDT_MAX_RANK]; /* in elements, along the walk's dimensions */
} rdt_op_view;

typedef struct rdt_op_window { /* along each spatial dimension of the image; step, tap: between its pixels and taps */
  int32_t length, kernel, stride, dilation, before, after;
  int64_t step, tap;
} rdt_op_window;

typedef struct rdt_gpu_op {
  int32_t kind, fn, views;
  int32_t rank, outer; /* dimensions of the walk, outermost first; of them so many choose the row, the rest run in it */
  int32_t axis[RDT_MAX_RANK]; /* which dimension of the result each is */
  uint32_t length[RDT_MAX_RANK];
  rdt_op_view view[RDT_OP_VIEWS]; /* the result first */
  int64_t count, inner;           /* elements of the result, or rows; elements of a row */
  int32_t tile[2];                /* of a copy: columns, rows */
  int64_t tiles;                  /* blocks, where each has one */
  int32_t each;                   /* elements that a thread takes, or 1: a block takes a row */
  double param[4], epsilon;
  rdt_op_window window[RDT_OP_SPATIAL];
  int32_t count_pad;
  int64_t bound[RDT_MAX_RANK],
      step[RDT_MAX_RANK]; /* gather: of the indexed dimensions; pad: lengths and begins of the input */
  int32_t mode;
  /* Scatter: the dimensions of the updates, and which one of the result each goes along (-1: none). Resize: of the
   * dimensions, which are resampled (taps 0: not), and their scales. */
  int32_t listed, along[RDT_MAX_RANK], taps[RDT_MAX_RANK], places, rounding, exclude;
  double scale[RDT_MAX_RANK];
  int64_t updates[RDT_MAX_RANK];
  int64_t diagonal;
  int32_t zero[3]; /* products of bytes: of x, of w, of the result */
  uint64_t fill;
  /* what is found */
  int32_t check;          /* rdt_op_form */
  const void *base;       /* where the result's memory begins, for its sum */
  uint64_t *sum, *visits; /* visits: one is added by each block, so that what never ran is noticed */
  uint64_t *read;         /* where whoever does not store adds the bit-sum of view 1, as it was read; NULL: nowhere */
  const uint64_t *rows;   /* of a table: bit-sums of its rows, as parts of its own; NULL: nobody compares */
  rdt_cuda_verdict *verdict; /* elements that differ; cannot: an index is out of range */
} rdt_gpu_op;

/* Bit-sums of memory at rest: a block a part. */
typedef struct rdt_sum_part {
  const void *data;      /* 16-byte aligned */
  uint64_t bytes, first; /* first: the number of its first 32-bit word in the whole */
  uint64_t *sum;
} rdt_sum_part;
enum { RDT_SUM_BYTES = 1 << 16 }; /* of a part, at most */

typedef struct rdt_sums_args {
  const rdt_sum_part *parts;
  uint64_t *visits;
} rdt_sums_args;

/* The end of a run: all sums against those that they should be, all verdicts, counted twice over; and what the first
 * `told` slots expect. Summary and sums may be the host's, where it waits for them. One block. */
typedef struct rdt_slot {
  const uint64_t *expected, *found;
} rdt_slot;

typedef struct rdt_summary { /* read by the host, after every run */
  uint64_t visits;
  uint32_t agree, disagree; /* sums */
  uint32_t clean, complain; /* ops */
} rdt_summary;

/* Zeros, where a copy engine would be waited for. */
typedef struct rdt_clear_args {
  uint64_t *words;
  int64_t count;
} rdt_clear_args;

typedef struct rdt_close_args {
  const rdt_slot *slots;
  const rdt_cuda_verdict *const *verdicts;
  int32_t n_slots, n_verdicts, told;
  const uint64_t *visits;
  rdt_summary *summary;
  uint64_t *sums;
} rdt_close_args;

#endif
