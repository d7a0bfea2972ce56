/* CUDA kernels: one table (kernels.def). Operands are the CPU's (rdt_problem, rdt_operands) with addresses of the
 * device; a stream is a cudaStream_t. What a kernel found stays on the device until somebody asks. */
#ifndef RDT_CUDA_KERNEL_H
#define RDT_CUDA_KERNEL_H

#include <string.h>

#include "core/problem.h"
#include "cpu/kernel.h"
#include "cuda/device.h"
#include "cuda/verdict.h"

typedef struct rdt_cuda_tile { /* tiles.def, wide.def, tall.def */
  const char *name;
  int rows, columns; /* of C */
  int warp_rows, warp_columns, warps_k;
  int threads; /* of a block */
  int two;     /* tall.def: the same of two of a multiprocessor; 32: never two */
} rdt_cuda_tile;

typedef enum rdt_cuda_family { RDT_CUDA_MMA, RDT_CUDA_WGMMA, RDT_CUDA_TALL } rdt_cuda_family;

typedef struct rdt_cuda_kernel {
  rdt_cuda_family family;
  const char *name;   /* gemm_f16_mma_16x64_thread1 */
  const char *scheme; /* "thread1" */
  rdt_dtype dtype;    /* of A, and of B but with u8 */
  bool tf32;          /* that are f32, of which tensor cores take the upper 19 bits */
  const rdt_cuda_tile *tile;
  int k, step;             /* of the reduction: of a stage, and of an instruction */
  int sum;                 /* bytes of an accumulator */
  int shared;              /* bytes of shared memory of a block */
  int least;               /* compute capability: its major number */
  int check;               /* rdt_mma_check */
  const void *const *code; /* the function's handle; WGMMA: of each form (wide.h); NULL: not of this kernel */
} rdt_cuda_kernel;

/* The converse of thread1 and the sums of a second set of products ship to be compared with those
 * (docs/architecture.md), and were never the fastest; `rowcol` is `row` and more, for who asks for it, as `col` is on
 * wgmma: no plan takes them. */
static inline bool rdt_cuda_kernel_competes(const rdt_cuda_kernel *k) {
  return strcmp(k->scheme, "thread1a") != 0 && strcmp(k->scheme, "replicate1") != 0 &&
         strcmp(k->scheme, "rowcol") != 0 && (k->family == RDT_CUDA_MMA || strcmp(k->scheme, "col") != 0);
}

const rdt_cuda_kernel *rdt_cuda_kernels(int *n);
const rdt_cuda_kernel *rdt_cuda_kernel_find(const char *name);       /* NULL: there is none */
const void *const *rdt_cuda_kernel_inject(const rdt_cuda_kernel *k); /* of its injecting one; NULL: there is none */
rdt_status rdt_cuda_kernel_admit(const rdt_cuda_kernel *k, rdt_reason *why); /* both to the shared memory they need */
rdt_dtype rdt_cuda_kernel_weights(const rdt_cuda_kernel *k);                 /* B's datatype */
int rdt_cuda_kernel_columns(const rdt_cuda_kernel *k); /* of C, at most: those of a tile, where a tile has whole rows */
bool rdt_cuda_kernel_batches(const rdt_cuda_kernel *k); /* on wgmma, of large tiles: several products at once */
int rdt_cuda_kernel_sets(const rdt_cuda_kernel *k); /* checks of a row, at most: on mma.sync and in floats several */

/* A product that was made ready for a device. One run at a time. */
typedef struct rdt_cuda_gemm rdt_cuda_gemm;
/* RDT_OK or RDT_ERR_UNSUPPORTED with the reason; of datatypes, shapes, strides, epilogue. */
rdt_status rdt_cuda_gemm_accept(const rdt_cuda_kernel *k, const rdt_problem *p, rdt_reason *why);
/* in[1].data given: these weights are fixed, what checks need of them is formed now; NULL: in each run. splits: blocks
 * that share a tile's k, 0: as many as fill the device; of products on wgmma two, where the last round of tiles would
 * not be full. */
rdt_status rdt_cuda_gemm_create(const rdt_cuda_kernel *k, const rdt_cuda_device *d, const rdt_problem *p, double lambda,
                                int splits, void *stream, rdt_cuda_gemm **state, rdt_reason *why);
/* The same with several checks of each row (docs/tolerance.md), no more than the kernel has. */
rdt_status rdt_cuda_gemm_create_sets(const rdt_cuda_kernel *k, const rdt_cuda_device *d, const rdt_problem *p, int sets,
                                     double lambda, int splits, void *stream, rdt_cuda_gemm **state, rdt_reason *why);
/* Asynchronous. out = alpha A B + bias + beta residual by the planned epilogue. */
rdt_status rdt_cuda_gemm_run(rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why);
/* Asynchronous: what checks need of fixed weights, formed once more. Behind rdt_cuda_gemm_settle, where there was a
 * run: columns are compared with weights as they are. */
rdt_status rdt_cuda_gemm_renew(const rdt_cuda_gemm *g, const void *weights, void *stream, rdt_reason *why);
/* A chain, of global-classic or of what compares columns on wgmma: A is what the last run of `before` stored, whose
 * sums of that, after rounding and activation, are its checksum; both then run in this order, and `before` is destroyed
 * last. On wgmma what A is meanwhile changed to is found, as is a run with another A; neither is repaired in its
 * stream. Behind rdt_cuda_gemm_settle, where g has run: from now on it has the bound of sums that were handed on.
 * RDT_ERR_UNSUPPORTED where they do not fit. */
rdt_status rdt_cuda_gemm_follow(rdt_cuda_gemm *g, rdt_cuda_gemm *before, rdt_reason *why);
/* On wgmma: where it leaves these sums, on the device: of three runs in turns, so many numbers each, the last four of
 * which begin with the sum of squares. NULL: nobody follows. */
const float *rdt_cuda_gemm_handed(const rdt_cuda_gemm *g, int *numbers);
/* global-classic by itself as it is within a chain, to be timed: from now on A is the same as in a run that was, whose
 * sums of it serve; compares: false, as the published code has it for all layers but the last, the sums are left and
 * nothing looks at them. RDT_ERR_UNSUPPORTED: not this kernel. */
rdt_status rdt_cuda_gemm_as_published(rdt_cuda_gemm *g, bool compares, rdt_reason *why);
/* Asynchronous, behind a run with these operands, also into a graph that is captured: where a check complained, its
 * tile (row of tiles; the whole product, for global, for columns, and where more complained than a verdict lists) is
 * computed again in the same order of addition, again on other multiprocessors where it is lost again, and judged by
 * checks and bits. Where nobody complained it is one look; of products on wgmma, whose next run would compare the sums
 * of this one, that comparison too. All complaints are taken for those of this run: each is repaired, or asked about,
 * before the next. What could not be settled is told by rdt_cuda_gemm_verdict, also where complaints go elsewhere
 * (rdt_cuda_gemm_tell). Bit-sums of what is stored are the run's: rdt_cuda_gemm_stored comes before.
 * Of batches on wgmma each row of tiles takes a launch of two rows of tiles of every batch: where a verdict cannot list
 * all that complained, twice as many times the product's own time, at least, as there are batches.
 * RDT_ERR_UNSUPPORTED: not this kernel (none, global-classic, columns in a chain), or the result has overwritten the
 * residual. */
rdt_status rdt_cuda_gemm_mend(rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why);
/* Whether that is so. Before the first repair that is captured: of products on wgmma it allocates what that needs, two
 * rows of tiles of each operand (of each batch), and waits. */
rdt_status rdt_cuda_gemm_can_mend(rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why);
/* Waits, copies what repairs came to since the last call, and forgets it on the device. */
rdt_status rdt_cuda_gemm_mended(rdt_cuda_gemm *g, void *stream, rdt_cuda_mended *m, rdt_reason *why);
enum { RDT_CUDA_SEVERAL = 8 };
/* Faults behind a check's sums, in what is stored: in a number once its bit-sum has it; in a word on its way; pieces of
 * 64 rows by 128 bytes that are lost, stored in the place of a neighbour, there as well, or another in their place. */
typedef enum rdt_cuda_storing {
  RDT_STORED_RIGHT,
  RDT_STORED_ROUNDED,
  RDT_STORED_WORD,
  RDT_STORED_LOST,
  RDT_STORED_MOVED,
  RDT_STORED_TWICE,
  RDT_STORED_STALE,
  RDT_STORED_COUNT
} rdt_cuda_storing;
/* A fault, by the injecting instantiation. bound: of the check that looks at it, NaN where none does. */
typedef struct rdt_cuda_strike {
  rdt_kernel_hit hit;      /* element, position, mask; before, after, done */
  bool checksum;           /* of the thread that has the element, in place of its accumulator */
  bool reduced;            /* the sum over all k, after it was checked */
  bool fragment;           /* of A, for the element's row: what multiplies and what checks in registers have it alike */
  bool second;             /* of a row that an instruction has twice: accumulator or fragment of the second time */
  bool limit;              /* the squares that the bound of the check is made of */
  rdt_cuda_storing stored; /* on wgmma, of 16 bits: what is stored; rdt_cuda_gemm_stored looks at it, too */
  int sm;                  /* everything that this SM computes is hit, at position; -1: no */
  int several; /* in place of all that: numbers added to so many elements of the element's row, over all k */
  int columns[RDT_CUDA_SEVERAL];
  double changes[RDT_CUDA_SEVERAL];
  double bound;
  rdt_cuda_mended *mended; /* NULL: the result stays as it is; else what its repair behind the product came to */
} rdt_cuda_strike;
/* A product for each of count faults; waits. Results lie so many bytes apart from out on; what was found in each goes
 * to found, and only there; of one that was repaired, what is left of that. Where a multiprocessor is hit, it is hit in
 * the repair as well. */
rdt_status rdt_cuda_gemm_strike(rdt_cuda_gemm *g, const rdt_operands *o, size_t apart, rdt_cuda_strike *s, int count,
                                rdt_cuda_verdict *found, void *stream, rdt_reason *why);
/* Asynchronous: products on wgmma compare the sums of a run in the next one; this compares those of the last run of so
 * many of them, each named once. */
rdt_status rdt_cuda_gemm_settle(rdt_cuda_gemm *const *list, int count, void *stream, rdt_reason *why);
/* Waits, copies what was found since the last call, and forgets it on the device. */
rdt_status rdt_cuda_gemm_verdict(rdt_cuda_gemm *g, void *stream, rdt_cuda_verdict *v, rdt_reason *why);
/* Of 16 bits on wgmma, with a check: runs from now on tell bit-sums of what they store, from registers, or do not, as
 * at first: it takes 0 to 3 % of their time. RDT_ERR_UNSUPPORTED: not this kernel. */
rdt_status rdt_cuda_gemm_cover(rdt_cuda_gemm *g, bool on, rdt_reason *why);
bool rdt_cuda_gemm_covered(const rdt_cuda_gemm *g); /* they do */
/* Asynchronous, behind a run with these operands, as often as anybody wants to know: C is read once and compared with
 * those bit-sums. What is found lies behind all of k. RDT_ERR_UNSUPPORTED: nobody told any. */
rdt_status rdt_cuda_gemm_stored(const rdt_cuda_gemm *g, const rdt_operands *o, void *stream, rdt_reason *why);
/* Where launches from now on complain, on the device or in pinned memory of the host: nobody has to ask for it, but for
 * what a repair has left. NULL: to the product's own verdict, which is what the other functions ask. */
void rdt_cuda_gemm_tell(rdt_cuda_gemm *g, rdt_cuda_verdict *to);
/* The same, where it lies on the device; complete when the last run is settled. */
rdt_cuda_verdict *rdt_cuda_gemm_found(const rdt_cuda_gemm *g);
/* On wgmma: which operands (RDT_WIDE_A.. of wide.h) have rows that do not begin at multiples of 16 bytes; of fixed
 * weights that many rows of A meet, of 128. They go through copies, which a product with a check compares with what
 * they were made of, or checks (B). Addresses that are not known when it is made ready are multiples of 16. */
int rdt_cuda_gemm_padded(const rdt_cuda_gemm *g);
int rdt_cuda_gemm_splits(const rdt_cuda_gemm *g);
/* Blocks that share a tile's k where nobody says how many. */
int rdt_cuda_gemm_usual_splits(const rdt_cuda_kernel *k, const rdt_cuda_device *d, const rdt_problem *p);
/* Where the product has its copy of a fixed weight; NULL: it is the operand's. */
void *rdt_cuda_gemm_copy(const rdt_cuda_gemm *g, int64_t k, int64_t column);
void rdt_cuda_gemm_destroy(rdt_cuda_gemm *g);

#endif
