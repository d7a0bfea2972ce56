/* Launches of the products of many rows by few columns (tall.def). */
#ifndef RDT_CUDA_TALL_H
#define RDT_CUDA_TALL_H

#include "cuda/kernel.h"
#include "cuda/sm90/gemm_tall.h"
#include "cuda/wide.h"

typedef struct rdt_tall { /* made when a product is made ready */
  bool columns;           /* B's columns lie side by side, not its rows; folded: no */
  int sms;
  float alike;          /* rdt_wgmma_args */
  int fold;             /* rdt_tall_args; of B: */
  int64_t row, column;  /* from one to the next */
  void *spread, *image; /* folded B; B and the sums of its columns, as shared memory has them */
} rdt_tall;

typedef struct rdt_tall_start { /* a launch */
  rdt_tall_args args;
  int blocks, threads, shared;
} rdt_tall_start;

/* RDT_OK, or the reason why so many columns and terms do not fit. */
rdt_status rdt_tall_accept(const rdt_cuda_kernel *k, const rdt_wide_sides *s, rdt_reason *why);
/* How the product that a has is folded; a is that product then. ldr: of a residual, 0: there is none. */
rdt_tall rdt_tall_fold(const rdt_cuda_kernel *k, bool columns, int sms, rdt_mma_args *a);
size_t rdt_tall_spread_bytes(const rdt_tall *t, const rdt_mma_args *a);
size_t rdt_tall_image(const rdt_cuda_kernel *k, int depth); /* bytes; 0: not this kernel */
/* Asynchronous: what the sums of columns and the image are made of, b or folded b. */
rdt_status rdt_tall_unfold(const rdt_tall *t, const rdt_mma_args *p, const void **b, void *stream, rdt_reason *why);
/* Asynchronous: the image, of that and the sums of its columns (p->parts). */
rdt_status rdt_tall_bring(const rdt_cuda_kernel *k, const rdt_tall *t, const rdt_mma_args *p, const void *b,
                          void *stream, rdt_reason *why);
/* Where the image has a weight. */
void *rdt_tall_copy(const rdt_cuda_kernel *k, const rdt_tall *t, int64_t row, int64_t column);
rdt_status rdt_tall_ready(const rdt_cuda_kernel *k, const rdt_tall *t, const rdt_mma_args *p, rdt_tall_start *s,
                          rdt_reason *why);
/* code: the kernel's, or that of its injecting one. early: it may begin while a kernel ahead of it ends: the image is
 * not what that one makes. */
rdt_status rdt_tall_launch(const rdt_cuda_kernel *k, const rdt_tall *t, const rdt_mma_args *p, const void *code,
                           rdt_mma_hit *hit, bool early, void *stream, rdt_reason *why);

#endif
