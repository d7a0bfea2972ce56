/* Chains of small products as one launch: y = act(x W + bias) of each layer is the x of the next one, in 16 bits, with
 * sums of 32. What lies between layers stays in shared memory. Compute capability 9. Three forms:
 *     row: a cluster of blocks goes through all layers for each 16 rows. Each row of each block's neurons is compared
 *     with their signed sums, what follows by a second evaluation, and what goes from block to block by sums at both
 *     ends (sm90/mlp_body.h)
 *     replicate, few rows: both halves of such a cluster do, each from a copy of the weights of its own, and the bits
 *     of their results are compared
 *     replicate, more rows: a block goes through all layers for 32 or 64 rows, and a second one of its cluster does
 *     the same, from a copy of the weights of its own: their bits are compared (mlp_wgmma.h) */
#ifndef RDT_CUDA_MLP_H
#define RDT_CUDA_MLP_H

#include "core/problem.h"
#include "cuda/box/box.h"
#include "cuda/device.h"
#include "cuda/linear.h"
#include "cuda/verdict.h"

enum { RDT_CUDA_MLP_LAYERS = 16 /* where a cluster shares them: 8 */ };

typedef struct rdt_cuda_mlp rdt_cuda_mlp;
/* RDT_OK, or RDT_ERR_UNSUPPORTED with the reason: of products in their order, or convolutions of single pixels whose
 * channels lie side by side, with addresses of the device, each of which reads the result of the one before it. Weights
 * are fixed and given, as biases are. Whether shared memory suffices create says. */
rdt_status rdt_cuda_mlp_accept(const rdt_cuda_device *d, const rdt_problem *const *p, int n, rdt_reason *why);
typedef struct rdt_cuda_mlp_form {
  bool protect;
  double lambda;
  const char *scheme; /* "row", "replicate"; NULL: whichever is faster */
  int rows;           /* that may be together, as a set: 16 of a cluster, 32 and 64 of a block; 0: any */
} rdt_cuda_mlp_form;
/* Waits. Weights are copied; biases stay where the problems have them, and where a block has rows alone they are copied
 * too: launches read both before what is ahead of them in their stream has ended. seconds: of a launch, as measured;
 * NULL: nobody asks. */
rdt_status rdt_cuda_mlp_create(const rdt_cuda_device *d, const rdt_problem *const *p, int n,
                               const rdt_cuda_mlp_form *form, void *stream, rdt_cuda_mlp **c, double *seconds,
                               rdt_reason *why);
/* The same, where it is faster than these, made of the same problems, one after the other, each with its check;
 * RDT_ERR_UNSUPPORTED where it is not. They compute where the problems say. */
rdt_status rdt_cuda_mlp_create_faster(const rdt_cuda_device *d, const rdt_problem *const *p,
                                      rdt_cuda_linear *const *steps, int n, const rdt_cuda_mlp_form *form, void *stream,
                                      rdt_cuda_mlp **c, rdt_reason *why);
/* Asynchronous, and may be captured: x and out lie as in the first and the last problem, apart from each other. to:
 * where the bit-sum of the result is added as it should be stored, and a one for each of so many blocks, or rows of
 * them; NULL: nowhere. */
rdt_status rdt_cuda_mlp_launch(const rdt_cuda_mlp *c, const void *x, void *out, rdt_box_sum_to to, void *stream,
                               rdt_reason *why);
/* Asynchronous: the copies of the weights, and their sums, once more. */
rdt_status rdt_cuda_mlp_renew(const rdt_cuda_mlp *c, const void *const *weights, void *stream, rdt_reason *why);
/* For tests: clusters of so many blocks (at most 16), with the weights that it was created with; of 16 rows. */
rdt_status rdt_cuda_mlp_use(rdt_cuda_mlp *c, int blocks, const void *const *weights, void *stream, rdt_reason *why);
/* For tests: a launch with a fault (sm90/mlp.h), which lies on the device; checked chains of f16. */
struct rdt_mlp_hit;
rdt_status rdt_cuda_mlp_strike(const rdt_cuda_mlp *c, const void *x, void *out, rdt_box_sum_to to,
                               struct rdt_mlp_hit *hit, void *stream, rdt_reason *why);
int64_t rdt_cuda_mlp_blocks(const rdt_cuda_mlp *c); /* or rows, that are counted; 0: it is not checked */
int rdt_cuda_mlp_cluster(const rdt_cuda_mlp *c);
int rdt_cuda_mlp_rows(const rdt_cuda_mlp *c);           /* of a cluster */
const char *rdt_cuda_mlp_scheme(const rdt_cuda_mlp *c); /* "none", "row", "replicate" */
/* Where a weight lies in that block's copy, or that half's, on the device; of replicate, NULL otherwise. */
void *rdt_cuda_mlp_copy(const rdt_cuda_mlp *c, int block, int layer, int64_t k, int64_t column);
/* In the device's memory. k_first: the layer; row, column: of its result; column -1: what a block got from the layer
 * before is not what was sent. replicate: of which the bits differ, of few rows the last layer and a row's first pair,
 * of more the first layers, tiles of rows and columns. */
rdt_cuda_verdict *rdt_cuda_mlp_verdict(const rdt_cuda_mlp *c);
/* Where launches from now on complain, of the device's or the host's pinned memory; NULL: there. */
void rdt_cuda_mlp_tell(rdt_cuda_mlp *c, rdt_cuda_verdict *to);
const char *rdt_cuda_mlp_kernel(const rdt_cuda_mlp *c);
void rdt_cuda_mlp_destroy(rdt_cuda_mlp *c);

#endif
