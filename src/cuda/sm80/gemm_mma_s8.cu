/* Products of 8-bit integers, exact on mma.sync. */
#include "cuda/sm80/gemm_mma_shipped.h"

RDT_CUDA_ROWS_s8(ROW)
