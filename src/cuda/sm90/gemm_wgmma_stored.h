/* What a warp stores of a tile, as a bit-sum from registers (gemm_wgmma_bits.h). */
#ifndef RDT_CUDA_GEMM_WGMMA_STORED_H
#define RDT_CUDA_GEMM_WGMMA_STORED_H

#include "cuda/sm90/gemm_wgmma_bits.h"

/* Numbers of 64 columns by 16 rows, of which so many are within C: the others are 0 from now on. */
RDT_DEVICE void rdt_stored_within(float *c, int rows, int columns) {
  const int lane = (int)threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 32; j++)
    if (row + j % 4 / 2 * 8 >= rows || column + j / 4 * 8 + j % 2 >= columns) c[j] = 0.0f;
}

/* Of the same numbers: rounded once more, so that what was rounded wrongly is another sum. */
template <class T, bool wide>
RDT_DEVICE uint32_t rdt_stored_part(const float *c) {
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < (wide ? 32 : 16); i++)
    sum += rdt_bits_word(i) * (wide ? __float_as_uint(c[i]) : T::narrow(c[2 * i % 32], c[(2 * i + 1) % 32]));
  return sum;
}

/* Where a warp of a tile (m: of all batches) tells it; NULL: nobody asks. */
template <class Ring>
RDT_DEVICE uint64_t *rdt_stored_at(const rdt_wgmma_args &g, int m, int n, int warp) {
  return g.p.more ? (uint64_t *)g.p.more + (m * g.p.column_blocks + n) * 4 * Ring::groups + warp : nullptr;
}

/* By a warp, of all its lanes. */
RDT_DEVICE void rdt_stored_tell(uint64_t *to, uint64_t sum) {
  const int lane = (int)threadIdx.x % 32;
  const uint64_t all = rdt_bits_total(sum, rdt_bits_lane(lane));
  if (lane == 0) *to = all;
}

#endif
