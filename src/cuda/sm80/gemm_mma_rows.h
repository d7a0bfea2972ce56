/* From rows of kernels.def to instantiations. */
#ifndef RDT_CUDA_GEMM_MMA_ROWS_H
#define RDT_CUDA_GEMM_MMA_ROWS_H

#include "cuda/kernels.def"
#include "cuda/sm80/gemm_mma_body.h"

#define X(name, ...) typedef rdt_tile<__VA_ARGS__> rdt_tile_##name;
#include "cuda/tiles.def"
#undef X

typedef rdt_f16 rdt_type_f16;
typedef rdt_bf16 rdt_type_bf16;
enum {
  rdt_check_none = RDT_MMA_NONE,
  rdt_check_thread1 = RDT_MMA_THREAD1,
  rdt_check_thread2 = RDT_MMA_THREAD2,
  rdt_check_replicate = RDT_MMA_REPLICATE,
  rdt_check_row = RDT_MMA_SUMS,
  rdt_check_global = RDT_MMA_SUMS
};

/* Two sets of accumulators take the registers of two blocks. */
template <class Tile, int check>
struct rdt_launch {
  static constexpr int blocks = check == RDT_MMA_REPLICATE ? 1 : Tile::blocks;
};

#endif
