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

/* A part's share of the sum; of its rows and columns so many are within C. */
template <class T>
RDT_DEVICE uint64_t rdt_stored_next(float *c, int rows, int columns, bool wide, int part) {
  if (rows < 16 || columns < 64) rdt_stored_within(c, rows, columns);
  return (uint64_t)(wide ? rdt_stored_part<T, true>(c) : rdt_stored_part<T, false>(c)) * rdt_bits_part(part);
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

/* Of a tile whose first columns are done: the next 64 move up. */
template <class Ring, class R>
RDT_DEVICE void rdt_wide_up(R (&c)[Ring::MT][Ring::held]) {
#pragma unroll
  for (int next = 1; next < Ring::MT * Ring::BN / 64; next++)
#pragma unroll
    for (int j = 0; j < 32; j++)
      c[(next - 1) % Ring::MT][(next - 1) / Ring::MT * 32 + j] = c[next % Ring::MT][next / Ring::MT * 32 + j];
}

/* Of a whole tile, of whose rows and columns, from the warp's first on, so many are within C. Nothing is left of it. */
template <class T, class Ring>
RDT_DEVICE void rdt_stored_tile(float (&c)[Ring::MT][Ring::held], int rows, int columns, bool wide, uint64_t *to) {
  uint64_t sum = 0;
#pragma unroll 1
  for (int part = 0; part < Ring::MT * Ring::BN / 64; part++) {
    sum += rdt_stored_next<T>(c[0], rows - part % Ring::MT * 64, columns - part / Ring::MT * 64, wide, part);
    rdt_wide_up<Ring>(c);
  }
  rdt_stored_tell(to, sum);
}

#endif
