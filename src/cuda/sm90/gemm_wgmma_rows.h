/* From rows of kernels.def to instantiations. */
#ifndef RDT_CUDA_GEMM_WGMMA_ROWS_H
#define RDT_CUDA_GEMM_WGMMA_ROWS_H

#include "cuda/kernels.def"
#include "cuda/sm90/gemm_wgmma_body.h"

#define X(name, ...) typedef rdt_wide_tile<__VA_ARGS__> rdt_wide_##name;
#include "cuda/wide.def"
#undef X

enum {
  rdt_check_none = RDT_MMA_NONE,
  rdt_check_row = RDT_MMA_SUMS,
  rdt_check_global = RDT_MMA_SUMS,
  rdt_check_tile = RDT_WGMMA_TILE,
  rdt_check_rowcol = RDT_WGMMA_ROWCOL,
  rdt_check_col = RDT_WGMMA_ROWCOL
};

#endif
