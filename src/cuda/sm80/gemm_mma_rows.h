/* From rows of kernels.def to instantiations. */
#ifndef RDT_CUDA_GEMM_MMA_ROWS_H
#define RDT_CUDA_GEMM_MMA_ROWS_H

#include "cuda/kernels.def"
#include "cuda/sm80/gemm_mma_body.h"

#define X(name, ...) \
  template <class T> \
  using rdt_tile_##name = rdt_tile<T, __VA_ARGS__>;
#include "cuda/tiles.def"
#undef X

enum {
  rdt_check_none = RDT_MMA_NONE,
  rdt_check_thread1 = RDT_MMA_THREAD1,
  rdt_check_thread1a = RDT_MMA_THREAD1A,
  rdt_check_col = RDT_MMA_COL,
  rdt_check_thread2 = RDT_MMA_THREAD2,
  rdt_check_replicate = RDT_MMA_REPLICATE,
  rdt_check_replicate1 = RDT_MMA_REPLICATE1,
  rdt_check_row = RDT_MMA_SUMS,
  rdt_check_global = RDT_MMA_SUMS,
  rdt_check_global_classic = RDT_MMA_CLASSIC
};

/* Two sets of accumulators take the registers of two blocks, and so do wide ones and sums for every column. */
template <class T, class Tile, int check>
struct rdt_launch {
  static constexpr int blocks =
      check == RDT_MMA_REPLICATE || check == RDT_MMA_THREAD1A || check == RDT_MMA_COL || T::bytes > 2 ? 1
                                                                                                      : Tile::blocks;
};

#endif
