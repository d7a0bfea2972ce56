/* The blocked product under the reference gemm and conv: out[batch][i][j] = sum_k A[batch][i][k] B[batch][k][j]. The
 * owner says how blocks of A and B come into dense buffers and where rows of the output lie; everything else (order of
 * the sum, epilogue, threads, injection) is written once. Sums run in the order of k, one rounding a product and one an
 * addition, whatever the blocking and the number of threads. */
#ifndef RDT_CPU_GENERIC_PRODUCT_H
#define RDT_CPU_GENERIC_PRODUCT_H

#include "cpu/generic/convert.h"
#include "cpu/kernel.h"

typedef struct rdt_product rdt_product;
struct rdt_product {
  const rdt_problem *p;
  const rdt_operands *o;
  int64_t batches, m, n, k;
  int column_dim;         /* the dimension of out along which j runs */
  int64_t channel_groups; /* j of a batch is channel batch % channel_groups * n + j of the bias */
  rdt_load_fn *load[2];   /* elements of A and B */
  /* rows x depth (A) or depth x cols (B) elements of the compute type, rows ld apart */
  void (*load_a)(const rdt_product *q, int64_t batch, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to,
                 int64_t ld);
  void (*load_b)(const rdt_product *q, int64_t batch, int64_t k, int64_t depth, int64_t j, int64_t cols, void *to,
                 int64_t ld);
  int64_t (*row)(const rdt_product *q, const rdt_tensor *t, int64_t batch, int64_t i); /* offset of [batch][i][0] */
};

rdt_status rdt_product_run(const rdt_product *q, int threads, rdt_reason *why);

typedef struct rdt_product_hit {
  int64_t batch, i, j;
  rdt_kernel_hit *hit;
} rdt_product_hit;
rdt_status rdt_product_run_inject(const rdt_product *q, int threads, const rdt_product_hit *h, rdt_reason *why);
/* XORs the mask onto the accumulator of that compute type and books before and after. Only the injecting instantiation
 * refers to it: a test looks at the symbols of the shipped object. */
void rdt_kernel_hit_apply(rdt_kernel_hit *hit, void *accumulator, rdt_dtype compute);

/* Elements of A (0) or B (1) less their zero point. */
void rdt_product_centre(const rdt_product *q, int side, void *run, int64_t n);

/* A line of integer sums, the first one of that channel, to where it goes in the output. */
void rdt_product_requantize(const rdt_product *q, int64_t channel, int64_t offset, int64_t stride, const void *sums,
                            int64_t n);

/* Floats alike (out: the accumulator's dtype or the inputs'), or any mix of s8 and u8 into s32. */
rdt_status rdt_product_accept(const rdt_problem *p, rdt_reason *why);

#endif
