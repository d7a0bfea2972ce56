/* Blocks of matrices in a device's memory, for products larger than it: copies both ways beside the work, products that
 * add up, sums for checks. As functions, so that whoever uses it links where nothing of CUDA was built. */
#ifndef RDT_CUDA_BLOCK_BLOCKS_H
#define RDT_CUDA_BLOCK_BLOCKS_H

#include "core/tensor.h"
#include "cuda/block/sums.h"
#include "cuda/device.h"

/* Streams: two products at a time, sums of what was loaded, and what is summed beside each product. A product and the
 * sums beside it have a workspace in common: results, the library's part, the sums' part. */
enum {
  RDT_BLOCKS_LOADED = 2,
  RDT_BLOCKS_BESIDE, /* of lane 0; then of lane 1 */
  RDT_BLOCKS_LANES = RDT_BLOCKS_BESIDE + 2,
  RDT_BLOCKS_SEALS = 3,
  RDT_BLOCKS_ALIGN = 128,
  RDT_BLOCKS_HEAD = 256
};

/* Pinned memory that one thread fills while the device copies the other half. */
typedef struct rdt_hand {
  char *half[2];
  void *copied[2];
} rdt_hand;

typedef struct rdt_blocks_product {
  rdt_tensor a, b, c; /* rank 2 on the device; rows or columns side by side, of C the rows */
  bool add, plain;    /* plain: by multiply-adds in order, no library */
} rdt_blocks_product;

/* Sums of one side (cpu/sums.h: right, along each row; left, along each column), all on the device. dot NULL: not this
 * side. */
typedef struct rdt_blocks_side {
  const double *weight_dot, *weight_sq; /* sq NULL: ones */
  double *dot, *sq;
  double *total_dot, *total_sq, *between; /* added to: the sums, and what seen_sq holds; NULL: nothing is */
  const double *seen_sq;
  int64_t half; /* of Strassen's scheme: squares of i and half + i are added up, in totals factor times; 0: neither */
  double factor;
} rdt_blocks_side;

typedef struct rdt_blocks_results {
  rdt_block_found found;
  uint64_t seal[RDT_BLOCKS_SEALS];
} rdt_blocks_results;

typedef struct rdt_blocks rdt_blocks;
struct rdt_blocks {
  rdt_cuda_device device;
  int splits; /* partial results that the library adds at most */
  /* Of the lane's products so far: the widest, where the library does not say what computes them. */
  rdt_accumulator (*accumulator)(const rdt_blocks *b, int lane);
  /* Each thread before anything else. */
  rdt_status (*enter)(rdt_blocks *b, rdt_reason *why);
  rdt_status (*alloc)(rdt_blocks *b, size_t bytes, void **p, rdt_reason *why);
  void (*release)(rdt_blocks *b, void *p);
  size_t (*free_bytes)(rdt_blocks *b);
  rdt_status (*hand_open)(rdt_blocks *b, size_t half, rdt_hand *h, rdt_reason *why);
  void (*hand_close)(rdt_blocks *b, rdt_hand *h);
  /* Asynchronous: a half to the device or from it; count rows of so many bytes without gaps in the half. */
  rdt_status (*hand_copy)(rdt_blocks *b, rdt_hand *h, int which, void *device, size_t bytes, int64_t count,
                          size_t pitch, bool in, rdt_reason *why);
  rdt_status (*hand_wait)(rdt_blocks *b, rdt_hand *h, int which, rdt_reason *why);
  /* Can copies come from the other device past the host? They are let then. */
  bool (*near)(rdt_blocks *b, const rdt_blocks *other);
  /* Asynchronous, in the order of RDT_BLOCKS_LOADED. */
  rdt_status (*fetch)(rdt_blocks *b, void *to, const rdt_blocks *other, const void *from, size_t bytes,
                      rdt_reason *why);
  /* Asynchronous, in the lane's order. */
  /* RDT_BLOCKS_HEAD bytes at least, a multiple of that for the library; what is left is for sums. */
  void (*lend)(rdt_blocks *b, int lane, void *workspace, size_t library);
  rdt_status (*multiply)(rdt_blocks *b, int lane, const rdt_blocks_product *p, rdt_reason *why);
  rdt_status (*sums)(rdt_blocks *b, int lane, const rdt_tensor *x, const rdt_blocks_side *right,
                     const rdt_blocks_side *left, int seal, rdt_reason *why); /* seal: which; -1 none */
  rdt_status (*compare)(rdt_blocks *b, int lane, int64_t n, const double *observed_dot, const double *observed_sq,
                        const double *expected_dot, const double *expected_sq, const rdt_box_bound *bound, bool widest,
                        rdt_reason *why);
  /* to = x + sign y, y NULL: sign x; kept: added to what is there. f32, f64; neighbours lie the same way. */
  rdt_status (*add)(rdt_blocks *b, int lane, const rdt_tensor *to, bool kept, const rdt_tensor *x, const rdt_tensor *y,
                    double sign, rdt_reason *why);
  rdt_status (*clear)(rdt_blocks *b, int lane, void *p, size_t bytes, rdt_reason *why);
  rdt_status (*reset)(rdt_blocks *b, int lane, rdt_reason *why);             /* the results */
  rdt_status (*follow)(rdt_blocks *b, int lane, int other, rdt_reason *why); /* what that one was given until now */
  /* These wait. */
  rdt_status (*results)(rdt_blocks *b, int lane, rdt_blocks_results *r, rdt_reason *why);
  rdt_status (*wait)(rdt_blocks *b, int lane, rdt_reason *why);
  double (*product_seconds)(const rdt_blocks *b, int lane); /* of the device, in all that was waited for */
  rdt_status (*get)(rdt_blocks *b, int lane, void *to, const void *from, size_t bytes, int64_t count, size_t pitch,
                    rdt_reason *why); /* count pieces, so far apart on the device */
  rdt_status (*put)(rdt_blocks *b, int lane, void *to, const void *from, size_t bytes, rdt_reason *why);
  void (*close)(rdt_blocks *b);
};

/* For operands of this type. Errors: as rdt_cuda_open, and RDT_ERR_UNSUPPORTED where there is no cuBLASLt. */
rdt_status rdt_blocks_open(int index, rdt_dtype in, rdt_blocks **b, rdt_reason *why);

/* Bytes that sums of a block of such lines take of a workspace. */
static inline size_t rdt_blocks_parts(int64_t lines, int64_t length, size_t element) {
  const size_t along = ((size_t)length * element + RDT_PASS_BYTES - 1) / RDT_PASS_BYTES * (size_t)lines;
  const int64_t each = rdt_pass_lines(lines, length, (int64_t)element);
  const size_t across = (size_t)((lines + each - 1) / each) * (size_t)length;
  return 2 * (along + across) * sizeof(double);
}

#endif
