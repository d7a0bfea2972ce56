/* What the programs that need a GPU share: numbers, operands on the device, the exact result. */
#ifndef RDT_TESTS_GPU_H
#define RDT_TESTS_GPU_H

#include "cuda/kernel.h"

typedef enum gpu_data {
  GPU_NORMAL,
  GPU_POSITIVE,
  GPU_RELU,
  GPU_HEAVY,
  GPU_CANCELLING,
  GPU_SMALL,
  GPU_DATA_COUNT,            /* of all kernels */
  GPU_ALIKE = GPU_DATA_COUNT /* rows of A are columns of B: one element of such a row is far larger than the others */
} gpu_data;
extern const char *const gpu_data_name[GPU_DATA_COUNT];

typedef struct gpu_case { /* a product with its operands; host copies have the device's layout */
  rdt_problem p;
  rdt_operands o;
  rdt_tensor in[2], all; /* all: C of every batch, one below the other */
  int m, k, batches;     /* m: of each */
  rdt_epilogue epilogue;
  void *host[6], *device[6]; /* A, B, C, bias, residual, factors; C: the host's is what came back */
  size_t bytes[6], skip[6];  /* skip: bytes before the first element */
  double *exact, *magnitude; /* of all: result, and sum of |a||b| */
} gpu_case;

typedef struct gpu_shape {
  int m, n, k;
  int gap;           /* elements between rows beyond what alignment asks for */
  int offset;        /* elements that operands are shifted by: no longer aligned */
  rdt_dtype in, out; /* u8: B is of s8; out s8, u8: requantised, without alpha, relu and residual */
  bool bias, residual, relu;
  bool columns;         /* B's lie side by side in place of its rows */
  bool a_columns, gelu; /* the same of A; in place of relu */
  int batches;          /* 0: one product, of rank 2 */
  bool same_b;          /* of all batches */
  bool tf32;            /* of operands in f32 the upper 19 bits count */
  double alpha, beta;
  gpu_data data;
} gpu_shape;

void gpu_die(const char *what, const char *text) __attribute__((noreturn));
void gpu_must(rdt_status s, const char *what, const rdt_reason *why);
/* Of the few shapes of --quick, those that suffice every day; `scripts/test --full` takes all (RDT_WALK_ALL). */
bool gpu_daily(bool quick);
uint64_t gpu_random(uint64_t *state);
double gpu_normal(uint64_t *state);
void gpu_case_make(gpu_case *c, const gpu_shape *s, uint64_t *seed, bool exact);
void gpu_case_poison(gpu_case *c);          /* every byte of C, gaps too */
void gpu_case_fetch(gpu_case *c);           /* C */
bool gpu_case_gaps_kept(const gpu_case *c); /* what lies between rows of the fetched C is as it was poisoned */
double gpu_case_value(const gpu_case *c, int64_t i, int64_t j); /* of all */
void gpu_case_free(gpu_case *c);

#endif
