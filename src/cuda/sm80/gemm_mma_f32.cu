/* Products of f32, on the CUDA cores. */
#include "cuda/sm80/gemm_mma_shipped.h"

RDT_CUDA_ROWS_f32(ROW)
