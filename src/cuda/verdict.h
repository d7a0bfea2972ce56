/* What a kernel found, in the device's memory: written only where a check complains. */
#ifndef RDT_CUDA_VERDICT_H
#define RDT_CUDA_VERDICT_H

#include <stdint.h>

#include "check/tolerance.h"

enum { RDT_CUDA_LISTED = 16, RDT_CUDA_SMS = 256 /* that are counted; of others, nothing is */ };

typedef enum rdt_cuda_complaint {
  RDT_CUDA_SUSPECT = 1, /* beyond the statistical bound */
  RDT_CUDA_CERTAIN = 2, /* beyond the rigorous one, or bits that differ */
  RDT_CUDA_CANNOT = 3   /* no bound: inputs that are not finite, or too large */
} rdt_cuda_complaint;

typedef struct rdt_cuda_finding {
  int32_t complaint;       /* rdt_cuda_complaint */
  int32_t sm;              /* that computed it, or that looked at it last; -1: one of two, or nobody knows */
  int32_t row, column;     /* of C: the first that the check sums over; -1: all */
  int32_t rows, columns;   /* how far they reach */
  int32_t k_first, k_last; /* of the reduction */
  float observed, expected, tau2, tau0;
} rdt_cuda_finding;

typedef struct rdt_cuda_verdict {
  uint32_t suspect, certain, cannot;
  uint32_t listed; /* more may have asked for a place */
  rdt_cuda_finding list[RDT_CUDA_LISTED];
  uint32_t sm[RDT_CUDA_SMS]; /* complaints by the multiprocessor that complained */
} rdt_cuda_verdict;

/* What became of complaints that were looked into on the device (rdt_cuda_gemm_mend), of one product or more. Counted
 * are places: tiles of C, rows of tiles (row), or a whole product (global, or more complaints than a list holds). */
typedef struct rdt_cuda_mended {
  uint32_t products;            /* that had complaints */
  uint32_t transient;           /* other bits, and no complaint */
  uint32_t persistent;          /* the same multiprocessor was wrong again, and others were not */
  uint32_t checker;             /* the same bits, and no complaint */
  uint32_t rounding;            /* the same bits within the rigorous bound */
  uint32_t unchecked;           /* the same bits, which have no bound */
  uint32_t left;                /* still wrong: these complaints stay in the product's verdict */
  uint32_t changed;             /* places whose bits are others now */
  uint32_t whole;               /* products that were computed again as a whole */
  uint32_t passes;              /* the most that a place took */
  uint32_t wrong[RDT_CUDA_SMS]; /* persistent ones, by multiprocessor, where one is known to have been it */
  rdt_cuda_verdict seen;        /* all complaints, those of what was computed again among sm */
} rdt_cuda_mended;

#endif
