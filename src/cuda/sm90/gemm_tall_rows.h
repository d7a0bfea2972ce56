/* From rows of kernels.def to instantiations. */
#ifndef RDT_CUDA_GEMM_TALL_ROWS_H
#define RDT_CUDA_GEMM_TALL_ROWS_H

#include "cuda/kernels.def"
#include "cuda/sm90/gemm_tall_body.h"

template <int MT, int BN, int two_, int alone_>
struct rdt_tall_shipped : rdt_tall_tile<MT, BN> {
  static constexpr int threads = 128 * alone_ + 32, least = two_ == alone_ ? 2 : 1; /* blocks of a multiprocessor */
};
#define X(name, ...) typedef rdt_tall_shipped<__VA_ARGS__> rdt_tile_##name;
#include "cuda/tall.def"
#undef X

enum { rdt_checked_none = 0, rdt_checked_row = 1 };

#endif
