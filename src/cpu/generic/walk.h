/* Views of one shape walked together in the memory order of the first (the output): as few and as long runs as their
 * strides allow, cut into pieces that threads can share. */
#ifndef RDT_CPU_GENERIC_WALK_H
#define RDT_CPU_GENERIC_WALK_H

#include "core/tensor.h"

enum { RDT_WALK_VIEWS = 2 + RDT_MAX_RANK, RDT_WALK_PIECE = 512 };

typedef struct rdt_walk {
  int views, rank; /* rank without the run's dimension */
  int64_t shape[RDT_MAX_RANK], stride[RDT_WALK_VIEWS][RDT_MAX_RANK];
  int64_t length, step[RDT_WALK_VIEWS]; /* of a run; strides along it */
  int64_t pieces;                       /* in all */
} rdt_walk;

rdt_walk rdt_walk_of(const rdt_tensor *const *views, int n);
/* The same in parts of at most `most` elements of a run each: offsets of a part in every view; its number of elements.
 */
int64_t rdt_walk_part(const rdt_walk *w, int64_t part, int64_t most, int64_t *offset);
/* Offsets of a piece in every view; returns its number of elements. */
int64_t rdt_walk_piece(const rdt_walk *w, int64_t piece, int64_t *offset);

#endif
