/* Products of bf16 on mma.sync. */
#include "cuda/sm80/gemm_mma_shipped.h"

RDT_CUDA_ROWS_bf16(ROW)
