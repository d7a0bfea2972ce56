/* Networks as what a planner and a benchmark need of them: the products and convolutions, with how often each occurs.
 * workloads.def has the table. */
#ifndef RDT_PLAN_WORKLOADS_H
#define RDT_PLAN_WORKLOADS_H

#include "core/error.h"
#include "plan/roofline.h"

typedef struct rdt_layer {
  const char *name;                                    /* "3.1 mid" */
  rdt_kop op;                                          /* GEMM, CONV */
  int64_t m, n, k;                                     /* gemm: rows of one of the batch, columns, depth */
  int64_t ic, ih, iw, oc, kernel, stride, pad, groups; /* conv, of one image; windows are square */
  int64_t times;
} rdt_layer;

enum { RDT_WORKLOAD_BATCHES = 4, RDT_WORKLOAD_LAYERS = 128 };

typedef struct rdt_workload {
  const char *name, *group; /* "resnet50-1080p", "cnn-1080p" */
  const char *text;
  const rdt_layer *layers;
  int count;
  int64_t batch[RDT_WORKLOAD_BATCHES]; /* that it is measured with, the usual one first */
  int batches;
} rdt_workload;

const rdt_workload *rdt_workload_table(int *n);
/* NAME or NAME:BATCH. RDT_ERR_NAME, RDT_ERR_ARG */
rdt_status rdt_workload_find(const char *text, const rdt_workload **w, int64_t *batch, rdt_reason *why);
/* NAME, with :BATCH where it is not the usual one */
void rdt_workload_name(const rdt_workload *w, int64_t batch, char *text, size_t size);

void rdt_layer_output(const rdt_layer *l, int64_t *oh, int64_t *ow); /* conv */
/* As a product, of one group */
void rdt_layer_mnk(const rdt_layer *l, int64_t batch, int64_t *m, int64_t *n, int64_t *k);
/* "56 x 56, 64 to 64, 3 x 3 s1 p1 g1", "1 x 1000 x 2048" */
void rdt_layer_text(const rdt_layer *l, int64_t batch, char *text, size_t size);
/* Its operands without data: images channels last, the result in the accumulator's datatype. rdt_problem_clear */
rdt_status rdt_layer_problem(const rdt_layer *l, int64_t batch, rdt_dtype dtype, rdt_problem *p, rdt_reason *why);

/* As rdt_work_of_mnk, once; of a workload all of its layers as often as they occur. */
rdt_work rdt_layer_work(const rdt_layer *l, int64_t batch, rdt_dtype dtype, int64_t pad);
rdt_work rdt_workload_work(const rdt_workload *w, int64_t batch, rdt_dtype dtype, int64_t pad);

#endif
