/* Bit-sums of what products on wgmma store: one number of 64 bits for each warp's rows of a tile, formed from registers
 * behind the store; whoever reads C forms it again. A lane's words of 32 bits (two elements of 16 bits, one of 32) are
 * those of its accumulators, in parts of 16 rows by 64 columns, 16 of each or 32. Words times weights by their place,
 * modulo 2^32; sums of parts times weights of theirs, 64 bits; both halves of that times weights of lanes, modulo 2^32.
 *
 * All weights are odd: a word that is not what it should be is another number for certain. Of all else one in 2^32 is
 * not, or less; but of a lane's words in a part two may make up for each other, where what they differ by is of the
 * same upper bits (two signs). What lies outside C counts as 0. */
#ifndef RDT_CUDA_GEMM_WGMMA_BITS_H
#define RDT_CUDA_GEMM_WGMMA_BITS_H

#include "cuda/sm90/gemm_wgmma.h"

RDT_BOTH_SIDES uint32_t rdt_bits_word(int word) {
  return ((uint32_t)word + 1u) * 0x9e3779bau + 1u;
}
RDT_BOTH_SIDES uint32_t rdt_bits_part(int part) {
  return ((uint32_t)part + 1u) * 0x85ebca6au + 1u;
}
RDT_BOTH_SIDES uint32_t rdt_bits_lane(int lane) {
  return (uint32_t)lane * 0x3c6ef372u + 1u;
}

/* Faults in what is stored (rdt_mma_site): a number behind its bit-sum; a word of a piece in shared memory; a piece of
 * 64 rows by 128 bytes that is not stored, that is stored in the place of another one, there as well, and one in whose
 * place another is stored. */
enum {
  RDT_WGMMA_ROUNDED = RDT_MMA_BOUND + 1,
  RDT_WGMMA_PIECE,
  RDT_WGMMA_LOST,
  RDT_WGMMA_MOVED,
  RDT_WGMMA_TWICE,
  RDT_WGMMA_STALE
};

typedef struct rdt_bits_args { /* C, and how tiles lie in it: as rdt_wgmma_args has it */
  const void *c;
  int64_t pitch, next;                               /* elements, from one row and one batch to the next */
  int m, n, size;                                    /* size: bytes of an element: 2, 4 */
  int strips, rows;                                  /* of 64 rows: of a group; of a tile */
  int columns;                                       /* of a tile */
  int row_blocks, column_blocks, each_lines, across; /* rdt_wgmma_args */
  const uint64_t *bits;
  int k; /* where a finding says that it is: behind all terms */
  rdt_cuda_verdict *verdict;
} rdt_bits_args;

#ifdef __cplusplus
extern "C" {
#endif
/* Kernel (rdt_bits_args), a warp for each number, blocks of as many as a tile has. */
extern const void *const rdt_wgmma_bits;
#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
#include "cuda/ptx/mma.h"

/* Of a warp, of what each lane has; all lanes have it. */
RDT_DEVICE uint64_t rdt_bits_total(uint64_t sum, uint32_t of_lane) {
  const uint32_t low = __reduce_add_sync(0xffffffffu, (uint32_t)sum * of_lane),
                 high = __reduce_add_sync(0xffffffffu, (uint32_t)(sum >> 32) * of_lane);
  return (uint64_t)high << 32 | low;
}
#endif

#endif
