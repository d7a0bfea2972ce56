/* Linear ops on the GPU: a product or a convolution made ready for a device, whoever computes it. Either a library as a
 * black box (cuBLASLt, cuDNN), with the activation behind it, and a check apart, which nothing has to wait for: a pass
 * over what went in and what came out; or an own kernel, that checks as it goes, or leaves sums for a check of what
 * went in. Which one is measured when it is made. Operands are the CPU's (rdt_problem, rdt_operands) with addresses of
 * the device; a stream is a cudaStream_t. */
#ifndef RDT_CUDA_LINEAR_H
#define RDT_CUDA_LINEAR_H

#include "core/problem.h"
#include "cpu/kernel.h"
#include "cuda/box/box.h"
#include "cuda/device.h"
#include "cuda/verdict.h"

typedef struct rdt_cuda_linear rdt_cuda_linear;

/* A convolution of single pixels whose channels lie side by side, as the product that it is; false: it is none. in:
 * what the product's operands are, as long as it is there. */
bool rdt_cuda_linear_pointwise(const rdt_problem *p, rdt_problem *product, rdt_tensor in[2]);

/* RDT_OK, or RDT_ERR_UNSUPPORTED with the reason; of datatypes, shapes, strides, epilogue. Whether the libraries are
 * there is known only when one is made.
 * scheme: "none": unprotected, with the library's own fused epilogue where it has one; "tmr-kernel": three launches of
 * what is the fastest unprotected, and a vote (cuda/thrice.h); "tmr-sm": the same, each on other multiprocessors
 * (cuda/groups.h) but those that d says to keep off, or one launch whose blocks vote with each other on the way
 * (cuda/voted.h), whichever is faster; "tmr-block": one launch with the three copies in each block; "tmr-split":
 * launches for each copy and share of k, and votes between; of products "row",
 * "row:f" with f checks of each row (floats but those of 8 bits), or a scheme of own kernels (kernels.def); of
 * convolutions "fic", "fc" by kernels on wgmma; NULL: whatever protects and is the fastest. */
rdt_status rdt_cuda_linear_accept(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, rdt_reason *why);
/* Waits. in[1].data given: these weights are fixed, and what the check needs of them is formed now; in[1].data NULL: in
 * each run. Of in[0], out, bias and residual only shape, strides and datatype count. All memory is taken here. */
rdt_status rdt_cuda_linear_create(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme, double lambda,
                                  void *stream, rdt_cuda_linear **l, rdt_reason *why);
/* The same by one way of the table alone (ways.c): "product", "fused", "wide". RDT_ERR_UNSUPPORTED: it cannot. Results
 * are checked; where that is less, nothing is formed for bit-sums of memory at rest: linear_blocks may be 0. */
rdt_status rdt_cuda_linear_create_by(const rdt_cuda_device *d, const rdt_problem *p, const char *scheme,
                                     const char *way, double lambda, void *stream, rdt_cuda_linear **l,
                                     rdt_reason *why);
/* Asynchronous: the whole op, epilogue included. Allocates nothing and asks nothing, so that a stream may capture it.
 * One at a time; operands lie as in the problem that it was made for, at addresses that are multiples of 16 where those
 * of the problem did not say otherwise. */
rdt_status rdt_cuda_linear_launch(rdt_cuda_linear *l, const rdt_operands *o, rdt_box_sum_to to, void *stream,
                                  rdt_reason *why);
/* Asynchronous: checks of what was launched with these operands, all at once, in a stream that waits for it. Of own
 * kernels: nothing. to, the same as that of launch: where the bit-sum of the result is added, by one of the two, and a
 * count of so many blocks; where blocks is 0 neither forms one. read: where the
 * bit-sums of in[0] and of the residual go, as they were read, of what reads says; NULL: nowhere. */
typedef struct rdt_cuda_linear_task {
  rdt_cuda_linear *l;
  rdt_operands o;
  rdt_box_sum_to to;
  uint64_t *read[2];
} rdt_cuda_linear_task;
rdt_status rdt_cuda_linear_check(const rdt_cuda_linear_task *list, int n, void *stream, rdt_reason *why);
/* Asynchronous: what was made of fixed weights, once more: what a check and a library need may have been hit as well.
 */
rdt_status rdt_cuda_linear_renew(rdt_cuda_linear *l, const void *weights, void *stream, rdt_reason *why);
int64_t rdt_cuda_linear_blocks(const rdt_cuda_linear *l);
unsigned rdt_cuda_linear_reads(const rdt_cuda_linear *l); /* 1: of in[0], 2: of the residual it can form the sum */
/* Where a kernel of ours has its copy of a weight, of this number in taps x channels, and of this filter; NULL: it is
 * the operand's, or a library's. */
void *rdt_cuda_linear_copy(const rdt_cuda_linear *l, int64_t k, int64_t column);
/* What was found, in the device's memory: the first 16 bytes are zero as long as nothing complained, and nobody but its
 * reader makes them so again. row: of a convolution the first pixel (n oh ow in row-major order), column: the channel,
 * -1: all. */
rdt_cuda_verdict *rdt_cuda_linear_verdict(const rdt_cuda_linear *l);
bool rdt_cuda_linear_inside(const rdt_cuda_linear *l);        /* is its result checked by launch alone? */
const char *rdt_cuda_linear_kernel(const rdt_cuda_linear *l); /* for reports: "cublaslt_f16", "gemm_f16_mma_..." */
const char *rdt_cuda_linear_scheme(const rdt_cuda_linear *l); /* what checks it: "row", "fic", ... */
void rdt_cuda_linear_destroy(rdt_cuda_linear *l);

#endif
