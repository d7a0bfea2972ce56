/* What host and device share of the products on wgmma. */
#ifndef RDT_CUDA_GEMM_WGMMA_H
#define RDT_CUDA_GEMM_WGMMA_H

#include "cuda/sm80/gemm_mma.h"

enum {
  RDT_WGMMA_CLUSTER = 2, /* blocks of one column block that load its part of B together */
  RDT_WGMMA_THREADS = 384
};

typedef struct rdt_tensor_map { /* CUtensorMap */
  uint64_t words[16];
} __attribute__((aligned(64))) rdt_tensor_map;

typedef struct rdt_wgmma_args {
  rdt_tensor_map a, b, c;
  rdt_mma_args p; /* parts: float[k], signed sums of B's rows, zeros up to whole stages; sums: two of [column block][m],
                     then [m] of what is expected; tickets: one, then for each block its runs, then whether the
                     last one is still to be compared; scalars: of each block */
  int row_blocks; /* of tiles */
  int tiles;      /* of a cluster: one below the other */
  int stored;     /* columns that TMA stores: whole 16 bytes */
  int extra;      /* bias, residual or relu */
  const uint32_t
      *signs; /* [column block][4][columns / 128]: bit 2 j + e: of column 8 j + 2 t + e of thread t of four */
} rdt_wgmma_args;

#ifdef __cplusplus
extern "C" {
#endif
extern const void *const rdt_wgmma_settle, *const rdt_wgmma_settle_inject; /* kernels (rdt_mma_args), (.., hit *) */
#ifdef __cplusplus
}
#endif

#endif
