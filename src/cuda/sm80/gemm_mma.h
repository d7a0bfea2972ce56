/* What host and device share of the products on mma.sync: C = act(alpha A B + bias + beta R), A of m x k, B of k x n,
 * rows of all with unit stride. */
#ifndef RDT_CUDA_GEMM_MMA_H
#define RDT_CUDA_GEMM_MMA_H

#include <stdint.h>

#include "cuda/verdict.h"

/* Columns of the matrix that holds the parts of B's signed row sums: of all checks of a row together, 16 bytes at
 * least, and of each. */
enum { RDT_MMA_PARTS = 8, RDT_MMA_PARTS_EACH = 4, RDT_MMA_SETS = 8 };

/* So many bytes of shared memory more say that not all is computed. A block knows that number before all else, from
 * where its stack is; an argument would keep it waiting for a third of a microsecond. */
enum { RDT_MMA_AGAIN = 16 };

/* Squares vanish where the numbers do not, and so does what bounds make of them: a sum of squares of f32, of f64,
 * counts as this at least, of a narrower type so much more. */
#define RDT_MMA_LEAST 0x1p-40f
#define RDT_MMA_LEAST64 0x1p-440
#define RDT_MMA_LOST 0x1p-126f

/* What is checked, and how: the code of a kernel is made for one of them. */
enum rdt_mma_check {
  RDT_MMA_NONE,
  RDT_MMA_THREAD1,    /* sum of B's fragments, times A's: each thread's columns of a row */
  RDT_MMA_THREAD1A,   /* its converse, sum of A's fragments, times B's: each thread's rows of a column */
  RDT_MMA_COL,        /* the same, of all rows of the warp: each column */
  RDT_MMA_THREAD2,    /* sums of both: all that a thread has */
  RDT_MMA_REPLICATE,  /* everything twice, bits compared */
  RDT_MMA_REPLICATE1, /* everything twice, the second time into one fragment: all that a thread has */
  RDT_MMA_SUMS,       /* sums of C's rows against A times B's row sums, made offline; row by row, or as one scalar */
  RDT_MMA_CLASSIC     /* the sum of C, and the column sums of what is stored; compared by a kernel of its own */
};

typedef struct rdt_mma_args {
  const void *a, *b, *bias, *residual;
  void *c;
  int64_t lda, ldb, ldc, ldr;
  int m, n, k;
  int k_split; /* of a block; a multiple of the stage's k */
  int splits, column_blocks;
  float alpha, beta, zero; /* zero: 0, which the compiler does not know */
  double alpha64, beta64;  /* the same for f64 */
  int c_type, bias_type;   /* rdt_mma_type; of 16-bit products, others have that of their accumulators */
  int a_aligned, b_aligned, c_aligned;
  void *partial;     /* splits > 1: [split][m][n] raw sums, of the accumulators' type as all below */
  unsigned *tickets; /* of tiles, then of row blocks, then one: 0 before and after each run */
  /* checks */
  const void *rho2;  /* thread: of each group of columns that a thread sums, or of each column; SUMS: one number */
  const void *parts; /* SUMS: k x part_columns */
  int part_columns;
  int sets; /* SUMS: checks of each row; */
  const float
      *turns;    /* those after the first have weights of columns, zero beyond n: [set - 1][column block][column] */
  void *more;    /* and sums of their own, without squares: [set - 1], then as sums */
  void *sums;    /* SUMS: [column block][m] of sum and sum of squares, then [split][m] of what is expected, |a|^2 */
  void *scalars; /* SUMS, one scalar: [row block] of sum, expected, squares, |a|^2 */
  int scalar;
  float *next; /* CLASSIC: [row block][n] of sum and sum of squares; sums: [row block][column block] of these of C */
  int relu;
  rdt_device_bound bound;
  rdt_cuda_verdict *verdict;
  struct rdt_mend *again; /* where the launch says so (RDT_MMA_AGAIN), what was called for is computed (mend.h) */
} rdt_mma_args;

enum rdt_mma_type { RDT_MMA_F32, RDT_MMA_F16, RDT_MMA_BF16 };

/* Where a fault goes: only injecting instantiations take one. */
enum rdt_mma_site { RDT_MMA_ACCUM, RDT_MMA_CHECKSUM, RDT_MMA_REDUCED, RDT_MMA_FRAGMENT, RDT_MMA_BOUND };
typedef struct rdt_mma_hit {
  int site;
  int block[3], thread, step; /* step: of the thread's k steps */
  int fragment;               /* (row fragment * column fragments + column fragment) * 4 + register */
  int columns;                /* fragments of a warp; of products on wgmma: k within the step */
  int element[2];             /* REDUCED: row and column of C */
  uint64_t mask;
  int several; /* REDUCED: added to so many elements of the row, in place of the mask */
  int places[RDT_MMA_SETS];
  double changes[RDT_MMA_SETS];
  int sm; /* ACCUM: in place of block and thread, the first thread of each warp of each block on this SM; -1: no */
  unsigned done;
  double before, after, bound; /* bound: of the check that looks at it */
} rdt_mma_hit;

/* A function of host and device. */
#ifdef __CUDACC__
#define RDT_BOTH_SIDES static __device__ __forceinline__
#else
#define RDT_BOTH_SIDES static inline
#endif

/* Signs that sums over whole rows and columns weigh with: a hash, so that no regular pattern cancels. */
RDT_BOTH_SIDES unsigned rdt_mma_sign(unsigned i) { /* 0 or the sign bit */
  i = (i + 1u) * 0x9e3779b9u;
  i ^= i >> 15;
  i *= 0x85ebca6bu;
  return (i ^ (i >> 13)) & 0x80000000u;
}

#endif
