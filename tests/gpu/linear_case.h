/* Cases of gpu_linear: a linear op with its operands on the device and the host, and its result in double. */
#ifndef RDT_TESTS_GPU_LINEAR_CASE_H
#define RDT_TESTS_GPU_LINEAR_CASE_H

#include <cuda_runtime_api.h>

#include "plan/plan.h"

enum { IN, WEIGHTS, OUT, BIAS, RESIDUAL, OPERANDS };
typedef struct linear_case {
  cudaStream_t stream; /* that it goes to the device by */
  rdt_problem p;
  rdt_operands o;
  rdt_tensor t[OPERANDS]; /* on the device; rank -1: there is none */
  void *host[OPERANDS];   /* as the device has it */
  size_t bytes[OPERANDS];
  double *exact, *magnitude; /* of out, in row-major order */
} linear_case;

/* The host's operand to the device. */
void linear_put(linear_case *c, int which);
/* Operand t, random; OUT and gaps between rows are NaN. */
void linear_add(linear_case *c, int which, rdt_tensor t, double scale, uint64_t *seed);
/* The problem of these operands. */
void linear_ready(linear_case *c, rdt_kop op, double alpha, double beta, rdt_act a);
/* exact and magnitude, by all threads. */
void linear_compute(linear_case *c);
/* The host's element so far from the first one. */
double linear_at(const linear_case *c, int which, int64_t offset);
void linear_free(linear_case *c);

#endif
