/* Convolutions by cuDNN, which is opened when it is first needed: the result as it comes, or with bias, residual and
 * Relu. Which of its algorithms is the fastest is measured; only such that multiply and add as the definition does
 * (neither transforms nor Winograd), deterministic ones. f32 is computed in f32. */
#ifndef RDT_CUDA_DNN_H
#define RDT_CUDA_DNN_H

#include "core/problem.h"

typedef struct rdt_dnn_operands {
  const void *x, *w, *bias, *residual;
  void *y;
} rdt_dnn_operands;

typedef struct rdt_dnn rdt_dnn;
/* RDT_OK or RDT_ERR_UNSUPPORTED with the reason: what it never computes. */
rdt_status rdt_dnn_accept(const rdt_problem *p, rdt_reason *why);
/* fused: with p's epilogue, which is then alpha 1, bias, residual and none or Relu. trial: operands that may be
 * overwritten, to measure with. RDT_ERR_UNSUPPORTED where there is no such library, or it refuses. */
rdt_status rdt_dnn_create(const rdt_problem *p, bool fused, const rdt_dnn_operands *trial, void *stream, rdt_dnn **d,
                          rdt_reason *why);
rdt_status rdt_dnn_launch(rdt_dnn *d, const rdt_dnn_operands *o, void *stream, rdt_reason *why); /* asynchronous */
void rdt_dnn_destroy(rdt_dnn *d);
rdt_status rdt_dnn_version(int *version, rdt_reason *why); /* 91900: 9.19.0; opens the library */

#endif
