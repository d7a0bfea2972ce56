/* Copies of operands whose rows do not begin at multiples of 16 bytes, where TMA takes them: rows of the copy do. What
 * a check forms of a copy on both of its sides it cannot see, so copies are compared with what they were made of. */
#ifndef RDT_CUDA_PAD_H
#define RDT_CUDA_PAD_H

#include <stdint.h>

#include "cuda/verdict.h"

typedef struct rdt_pad {
  const void *from;
  void *to;
  int64_t from_pitch, to_pitch, from_next, to_next; /* elements, from one row and one batch to the next */
  int columns, rows, batches, size;                 /* size: bytes of an element: 1, 2, 4 */
  int of_c;                                         /* rows are those of C; else complaints are of all of it */
  rdt_cuda_verdict *verdict;
} rdt_pad;

#ifdef __cplusplus
extern "C" {
#endif
/* Kernels (rdt_pad), blocks of 256 threads, a warp for each row in turn. Compares: what differs is a complaint. */
extern const void *const rdt_pad_copy, *const rdt_pad_compare;
#ifdef __cplusplus
}
#endif

#ifndef __CUDACC__
#include <redoubt/status.h>
#include <stdbool.h>

typedef struct rdt_pads { /* of A, B, C; own NULL: there is none. Addresses of the caller are those of each run */
  rdt_pad of[3];
  void *own[3], *memory;
} rdt_pads;

void rdt_pads_drop(rdt_pads *p);
/* Asynchronous, of those of which (bits: 1 A, 2 B, 4 C) that have one: copies, or compares what was copied. theirs: A,
 * B, C. */
rdt_status rdt_pads_run(const rdt_pads *p, int which, bool compare, void *const theirs[3], rdt_cuda_verdict *v,
                        void *stream, rdt_reason *why);
#endif

#endif
