/* What a kernel found, in the device's memory: written only where a check complains. */
#ifndef RDT_CUDA_VERDICT_H
#define RDT_CUDA_VERDICT_H

#include <stdint.h>

#include "check/tolerance.h"

enum { RDT_CUDA_LISTED = 16 };

typedef enum rdt_cuda_complaint {
  RDT_CUDA_SUSPECT = 1, /* beyond the statistical bound */
  RDT_CUDA_CERTAIN = 2, /* beyond the rigorous one, or bits that differ */
  RDT_CUDA_CANNOT = 3   /* no bound: inputs that are not finite, or too large */
} rdt_cuda_complaint;

typedef struct rdt_cuda_finding {
  int32_t complaint;       /* rdt_cuda_complaint */
  int32_t sm;              /* that computed it, or that looked at it last */
  int32_t row, column;     /* of C: the first that the check sums over; -1: all */
  int32_t rows, columns;   /* how far they reach */
  int32_t k_first, k_last; /* of the reduction */
  float observed, expected, tau2, tau0;
} rdt_cuda_finding;

typedef struct rdt_cuda_verdict {
  uint32_t suspect, certain, cannot;
  uint32_t listed; /* more may have asked for a place */
  rdt_cuda_finding list[RDT_CUDA_LISTED];
} rdt_cuda_verdict;

#endif
