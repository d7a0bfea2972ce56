/* Products of f16 on wgmma. */
#include "cuda/sm90/gemm_wgmma_shipped.h"

RDT_CUDA_WIDE_BOTH(ROW_BOTH, f16)
RDT_CUDA_WIDE_ONE(ROW, f16)
