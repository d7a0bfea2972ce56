/* What gather and scatter share: a tensor addressed by indices along some dimensions, and by position along others. */
#ifndef RDT_CPU_GENERIC_INDEX_H
#define RDT_CPU_GENERIC_INDEX_H

#include "cpu/generic/state.h"

typedef struct rdt_index {
  int count; /* of indexed dimensions */
  int axis[RDT_MAX_RANK];
  int64_t length[RDT_MAX_RANK], stride[RDT_MAX_RANK]; /* of the tensor, along them */
} rdt_index;

/* target: the tensor that indices point into. */
rdt_index rdt_index_of(const rdt_problem *p, const rdt_tensor *target);
/* A view of target of listed's shape that moves along the dimensions which are not indexed. */
rdt_tensor rdt_index_base(const rdt_problem *p, const rdt_tensor *target, const rdt_tensor *listed);
rdt_status rdt_index_fail(const rdt_index *ix, int64_t wrong, int which, rdt_reason *why);

/* Adds to *offset what the indices at these offsets say; negative ones count from the end. */
static inline bool rdt_index_add(const rdt_index *ix, const rdt_tensor *in, const int64_t *at, int64_t *offset,
                                 int64_t *wrong, int *which) {
  for (int k = 0; k < ix->count; k++) {
    const int64_t given =
        in[k].dtype == RDT_S64 ? ((const int64_t *)in[k].data)[at[k]] : ((const int32_t *)in[k].data)[at[k]];
    const int64_t i = given < 0 ? given + ix->length[k] : given;
    if (i < 0 || i >= ix->length[k]) {
      *wrong = given;
      *which = k;
      return false;
    }
    *offset += i * ix->stride[k];
  }
  return true;
}

#endif
