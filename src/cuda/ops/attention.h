/* Attention as one launch: softmax(alpha q k^T + beta mask) v for each head of each batch, in 16 bits with sums of 32.
 *
 * A block has so many queries of a head, and goes through the keys with a running maximum; nothing but the result is
 * written. The forms are those of ops that are no products (args.h): in both, half of the blocks store, and
 * the others compute the same tiles once more and form the bit-sum of that, and of what they have read. */
#ifndef RDT_CUDA_OPS_ATTENTION_H
#define RDT_CUDA_OPS_ATTENTION_H

#include "cuda/ops/args.h"

/* Strides in elements; depth (key: of a mask) lies side by side where there is none. */
typedef struct rdt_attention_view {
  const void *data;
  int64_t batch, head, row;
} rdt_attention_view;

enum {
  RDT_ATTENTION_DEPTH = 128,    /* at most, in multiples of 16 */
  RDT_ATTENTION_QUERIES = 32,   /* of a block */
  RDT_ATTENTION_WIDE = 64,      /* of a block on wgmma */
  RDT_ATTENTION_WIDE_DEPTH = 64 /* at most, there */
};
typedef enum rdt_attention_operand { RDT_ATTENTION_Q, RDT_ATTENTION_K, RDT_ATTENTION_V } rdt_attention_operand;

typedef struct rdt_gpu_attention {
  int32_t dtype, check; /* RDT_F16, RDT_BF16; rdt_op_form */
  int32_t batches, heads, queries, keys, depth;
  int32_t rows;                        /* queries of a block: RDT_ATTENTION_QUERIES, or RDT_ATTENTION_WIDE: by wgmma */
  rdt_attention_view in[3], mask, out; /* by rdt_attention_operand; mask.data NULL: none */
  int64_t mask_key;
  float alpha, beta;
  /* what is found, as rdt_gpu_op has it */
  const void *base;
  uint64_t *sum, *visits;
  const void *read_base[3]; /* of what `in` are views of */
  uint64_t *read[3];        /* where whoever evaluates again adds its bit-sum; NULL: nowhere */
  rdt_cuda_verdict *verdict;
} rdt_gpu_attention;

#ifdef __cplusplus
extern "C" {
#endif
/* The kernel of these arguments, the threads of its blocks and their shared memory in bytes; where CUDA was built in.
 */
const void *rdt_ops_attention(const rdt_gpu_attention *a, unsigned *threads, unsigned *shared);
const void *rdt_attention_wide(const rdt_gpu_attention *a, unsigned *threads, unsigned *shared); /* where rows say so */
#ifdef __cplusplus
}
#endif

#ifndef __CUDACC__
#include "core/problem.h"

/* The problems that one launch is: scores = q k^T with scale and mask, their softmax, the mix of values, and where that
 * goes in another order (NULL: nowhere). Views have addresses of the device. */
typedef struct rdt_attention_steps {
  const rdt_problem *scores, *softmax, *mix, *copy;
} rdt_attention_steps;

/* Fills *a in all but what is found and read_base. wide: so many blocks of 64 queries, at least, go by wgmma; 0: none
 * do. RDT_ERR_UNSUPPORTED with the reason: the steps go one by one. */
rdt_status rdt_attention_prepare(const rdt_attention_steps *s, int wide, rdt_gpu_attention *a, rdt_reason *why);
int64_t rdt_attention_blocks(const rdt_gpu_attention *a); /* that count themselves */
int64_t rdt_attention_grid(const rdt_gpu_attention *a);   /* all, of the form a->check */
/* Marks the 16-byte pieces of memory at base that operand `which` is a view of: a byte each. false: it lies elsewhere
 * too, or some are marked already. */
bool rdt_attention_marks(const rdt_gpu_attention *a, int which, const void *base, size_t bytes, unsigned char *seen);
#endif

#endif
