/* The form of chains of small products (mlp.h) for tens of rows and more: a block goes through all layers by wgmma, and
 * a second one, from a copy of the weights of its own, does the same: bits are compared (sm90/mlp_wgmma_body.h). */
#ifndef RDT_CUDA_MLP_WGMMA_H
#define RDT_CUDA_MLP_WGMMA_H

#include "core/problem.h"
#include "cuda/box/box.h"
#include "cuda/device.h"
#include "cuda/sm90/mlp_wgmma.h"

typedef struct rdt_mlpw rdt_mlpw;
typedef struct rdt_mlpw_chain { /* that rdt_cuda_mlp_accept has taken */
  const rdt_problem *const *p;
  int n, m;
  int64_t ldx, ldo;
  bool protect;
  int rows; /* of a block: 32, 64, or both; 0: what is the fastest */
} rdt_mlpw_chain;
/* Waits. RDT_ERR_UNSUPPORTED: too large. Weights and biases are copied, twice where it is checked. */
rdt_status rdt_mlpw_create(const rdt_cuda_device *d, const rdt_mlpw_chain *of, void *stream, rdt_mlpw **c,
                           double *seconds, rdt_reason *why);
/* hit: NULL, or a fault, on the device; checked chains of f16. */
rdt_status rdt_mlpw_launch(const rdt_mlpw *c, const void *x, void *out, rdt_box_sum_to to, rdt_mlp_hit *hit,
                           void *stream, rdt_reason *why);
rdt_status rdt_mlpw_renew(const rdt_mlpw *c, const void *const *weights, void *stream, rdt_reason *why);
void *rdt_mlpw_copy(const rdt_mlpw *c, int block, int layer, int64_t k, int64_t column); /* of a weight */
int64_t rdt_mlpw_clusters(const rdt_mlpw *c);
int rdt_mlpw_rows(const rdt_mlpw *c); /* of a block */
rdt_cuda_verdict *rdt_mlpw_verdict(const rdt_mlpw *c);
void rdt_mlpw_tell(rdt_mlpw *c, rdt_cuda_verdict *to); /* NULL: there */
const char *rdt_mlpw_kernel(const rdt_mlpw *c);
void rdt_mlpw_destroy(rdt_mlpw *c);

#endif
