/* Ops that are no products, on a GPU: a problem whose views have addresses of the device, as arguments of kernels. */
#ifndef RDT_CUDA_OPS_H
#define RDT_CUDA_OPS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rdt_gpu_op;
/* Does the same block evaluate again what it stores? Of rows of 16 bits and tiles, where there are many; else it is
 * other blocks, which wait for nothing. */
bool rdt_ops_beside(const struct rdt_gpu_op *a);
extern const void *const rdt_ops_code[]; /* the kernels' handles, by rdt_op_kind; where CUDA was built in */
const void *rdt_ops_half(const struct rdt_gpu_op *a); /* of rows of 16-bit numbers */

#ifdef __cplusplus
}
#endif

#ifndef __CUDACC__
#include "core/problem.h"
#include "cuda/ops/args.h"
#include "cuda/ops/attention.h"

/* How many launches: one, or of a concatenation one for each part that is not empty. RDT_ERR_UNSUPPORTED with the
 * reason. Fills *list (rdt_free) in all but what is found, which is its owner's; base is the result. */
rdt_status rdt_ops_prepare(const rdt_problem *p, rdt_gpu_op **list, int *n, rdt_reason *why);
/* Whether `read` is of use: all of in[0], which has no gaps, is read once. */
bool rdt_ops_sums(const rdt_gpu_op *list, int n, const rdt_problem *p);
/* Is in[0] a table of so many rows, of so many bytes each, whose rows' sums `rows` the op compares as it reads them? */
bool rdt_ops_by_table_rows(const rdt_gpu_op *list, int n, int64_t *rows, size_t *bytes);
int64_t rdt_ops_blocks(const rdt_gpu_op *a); /* that count themselves, of one evaluation or of both */
int64_t rdt_ops_grid(const rdt_gpu_op *a);   /* all, of the form a->check */
bool rdt_ops_halves(int kind);               /* is it rdt_ops_half's? */
/* The kernel that a launch of this code with these arguments takes, the threads of its blocks, and the shared memory
 * that they ask for. */
static inline const void *rdt_ops_kernel(int code, const void *args, unsigned *threads, unsigned *shared) {
  const bool half = rdt_ops_halves(code);
  *shared = 0;
  if (code == RDT_OP_ATTENTION) return rdt_ops_attention((const rdt_gpu_attention *)args, threads, shared);
  *threads = half ? RDT_OP_ROW_THREADS : RDT_OP_THREADS;
  return half ? rdt_ops_half((const rdt_gpu_op *)args) : rdt_ops_code[code];
}
const char *rdt_ops_name(int kind); /* "cuda_map_f32" */
#endif

#endif
