/* Products and convolutions of libraries with the passes around them. create waits and measures; launch is asynchronous
 * and may be captured. Fixed weights: in[1].data is given. */
#ifndef RDT_CUDA_BOXES_H
#define RDT_CUDA_BOXES_H

#include "core/problem.h"
#include "cpu/kernel.h"
#include "cuda/box/box.h"
#include "cuda/device.h"

/* protect: with the check; else with the library's own epilogue where it has that one. */
typedef struct rdt_box_product rdt_box_product;
rdt_status rdt_box_product_accept(const rdt_problem *p, rdt_reason *why);
rdt_status rdt_box_product_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                                  void *stream, rdt_box_product **b, rdt_reason *why);
rdt_status rdt_box_product_launch(rdt_box_product *b, const rdt_operands *o, void *stream, rdt_reason *why);
rdt_cuda_verdict *rdt_box_product_verdict(const rdt_box_product *b);
void rdt_box_product_destroy(rdt_box_product *b);

typedef struct rdt_box_conv rdt_box_conv;
rdt_status rdt_box_conv_accept(const rdt_problem *p, rdt_reason *why);
rdt_status rdt_box_conv_create(const rdt_cuda_device *d, const rdt_problem *p, bool protect, double lambda,
                               void *stream, rdt_box_conv **b, rdt_reason *why);
rdt_status rdt_box_conv_launch(rdt_box_conv *b, const rdt_operands *o, void *stream, rdt_reason *why);
rdt_cuda_verdict *rdt_box_conv_verdict(const rdt_box_conv *b);
void rdt_box_conv_destroy(rdt_box_conv *b);

/* What both share. */
rdt_status rdt_box_finish_accept(const rdt_problem *p, rdt_reason *why);
rdt_box_finish rdt_box_finish_of(const rdt_problem *p); /* on: unless nothing follows and raw is of out's type */
int rdt_box_ends(const rdt_box_finish *f); /* 0: nothing follows, 1: no more than a bound, 2: any activation */
const void *rdt_box_bias(const rdt_operands *o);
const void *rdt_box_residual(const rdt_operands *o);
bool rdt_box_aligned(const void *p);                          /* a multiple of 16 */
size_t rdt_box_bytes_of(const rdt_tensor *t, rdt_dtype type); /* from its first to its last element, as type */
/* Operands to measure with; what the problem gives is taken from there. */
typedef struct rdt_box_trial {
  void *memory[5]; /* in[0], in[1], out, bias, residual; NULL: given, or there is none */
  rdt_tensor in[2];
  rdt_epilogue epilogue;
  rdt_operands o;
} rdt_box_trial;
rdt_status rdt_box_trial_make(const rdt_problem *p, rdt_box_trial *t, rdt_reason *why);
void rdt_box_trial_free(rdt_box_trial *t);

#endif
