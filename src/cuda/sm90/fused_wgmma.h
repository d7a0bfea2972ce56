/* What host and device share of fused convolutions and products (sm80/fused.h) on wgmma, whose check is inside: each
 * part of a column tile of the weights has eight more columns, the signed sums of its own, split into numbers of its
 * type. */
#ifndef RDT_CUDA_FUSED_WGMMA_H
#define RDT_CUDA_FUSED_WGMMA_H

#include "cuda/sm80/fused.h"
#include "cuda/sm90/gemm_wgmma.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  RDT_FUSED_WIDE_MORE = 8,    /* columns of a tile that check the others */
  RDT_FUSED_WIDE_HEAD = 1024, /* bytes of shared memory before stages, and for their address to be a multiple of that */
  RDT_FUSED_WIDE_TABLE = 1024,                     /* and after those: what bytes of a chunk of A are multiplied with */
  RDT_FUSED_WIDE_TABLES = 8,                       /* at most: numbers of words are bytes */
  RDT_FUSED_WIDE_LATER = RDT_FUSED_WIDE_HEAD / 4,  /* of a head, where 32 bytes lie for the end */
  RDT_FUSED_WIDE_SHORT = 64,                       /* columns of a part of tiles that have the short end */
  RDT_FUSED_WIDE_SPLITS = 16,                      /* blocks that share k, at most */
  RDT_FUSED_WIDE_ANYWHERE = 8,                     /* of a cluster that every GPU has room for */
  RDT_FUSED_WIDE_STAGES = RDT_FUSED_WIDE_HEAD / 16 /* fewer than that, of which the last has another use */
};
/* What follows bias and residual: Relu or nothing, alpha and beta 1; the same with GELU; whatever there is; Relu or
 * nothing where there is no residual and nobody keeps bit-sums, of tiles whose parts are 64 columns. */
enum { RDT_FUSED_WIDE_BOUND, RDT_FUSED_WIDE_GELU, RDT_FUSED_WIDE_ANY, RDT_FUSED_WIDE_ALONE, RDT_FUSED_WIDE_ENDS };

typedef struct rdt_fused_wide_args {
  rdt_tensor_map a, w, r; /* pixels, as a matrix or by windows; weights as they were packed; the residual */
  rdt_fused_args f;       /* w, sums, partial, tickets: not used */
  int stages;             /* two at least, where k is more than one of them */
  int packed;             /* columns of a tile of the weights, with those that check it */
  int residual_at;        /* bytes behind the first stage; ALONE: of what is to be stored, 0: in place of a stage */
  int each;               /* rows that a block finishes: a tile's, or of each of those that share it, by eights */
  int whole;              /* the tap that meets every pixel once */
  int share;              /* chunks of it that a block sums, RDT_FUSED_WIDE_TABLES at most; 0: none */
  uint64_t *loaded;       /* [split][tile]: bit-sum of what it met; NULL: there is none */
  rdt_device_bound bound;
  float clearly;     /* (s - e)^2 <= clearly c2: no more than tau2, whatever the inputs are */
  const float *rho2; /* [part]: most squares of a row of its weights */
  rdt_cuda_verdict *verdict;
} rdt_fused_wide_args;

typedef struct rdt_fused_wide_kernel {
  const char *name;
  int rows, columns, k;
  int threads[2], alone[2]; /* unchecked and checked; alone: of the short end */
  int stage[2], sums;       /* bytes: unchecked and checked; of what takes their place */
  int blocks[2];            /* of a multiprocessor, as far as registers go */
  int part;                 /* columns that have others beside them */
  int left;                 /* bit-sums that a block of a checked kernel leaves of what it stores, adds, loads */
  const void *code[2][2][RDT_FUSED_WIDE_ENDS]; /* (args) of f16, of bf16; unchecked, checked */
} rdt_fused_wide_kernel;
extern const rdt_fused_wide_kernel rdt_fused_wide_kernels[];
extern const int rdt_fused_wide_count;
/* Where rdt_mma_hit's columns say which: bytes of A or of the weights, as the tensor cores find them in shared memory
 * (FRAGMENT); what a result is made of, as the stores take it, or the result (REDUCED); squares of the sums, or of the
 * inputs (BOUND). */
enum { RDT_FUSED_HIT_A, RDT_FUSED_HIT_WEIGHTS, RDT_FUSED_HIT_TAKEN = 0, RDT_FUSED_HIT_STORED };
/* (args, rdt_mma_hit *): the same of f16, checked, with relu at most (second: ALONE), and with a fault: of a sum of a
 * thread of a block after a stage of k (ACCUM; those that check others too), of every warp of a multiprocessor; of an
 * operand; between a sum and its store; of a bound. fragment: a thread's sum, or of a byte of an operand 128 times its
 * row in the stage, and its place there. before, after: words of operands as integers. bound: of the row of the
 * element, in its part. */
extern const void *const rdt_fused_wide_inject[][2];

/* Weights, packed: [part of a column tile][its columns, and those that check them][k], zeros beyond the last filter.
 * What the tensor cores find behind those goes into sums that nobody looks at. */
typedef struct rdt_fused_pack_args {
  const void *w;
  int64_t row, column, tap; /* strides of w: of channels, of filters, of taps */
  int channels, n, k;
  int columns, pitch; /* of a tile, without and with those that check it */
  void *out;
  float *rho2; /* [tile], 0 before; NULL: nothing is checked */
} rdt_fused_pack_args;
extern const void *const rdt_fused_pack[2]; /* kernels (args), of f16, of bf16: x tiles, y 128 of k; 128 threads */

#ifdef __cplusplus
}
#endif
#endif
