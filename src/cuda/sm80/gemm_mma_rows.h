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

/* Blocks of a multiprocessor, for which registers are kept. Two sets of accumulators take those of two blocks, and so
 * do wide ones and sums for every column; of f64 two fit without a check and with sums of rows, 2048 cubed 432 us in
 * place of 667. */
template <class T, class Tile, int check>
struct rdt_launch {
  static constexpr bool wide = rdt_twins<Tile, check>() || check == RDT_MMA_THREAD1A || check == RDT_MMA_COL,
                        lean = check == RDT_MMA_NONE || check == RDT_MMA_SUMS;
  static constexpr int blocks = T::bytes == 8 && Tile::BM == 64 && lean ? 2 : wide || T::bytes > 2 ? 1 : Tile::blocks;
};

#endif
