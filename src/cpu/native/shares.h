/* What a thread takes of a batch of products, whatever their datatype. */
#ifndef RDT_CPU_NATIVE_SHARES_H
#define RDT_CPU_NATIVE_SHARES_H

#include "core/cpu_info.h"
#include "cpu/kernel.h"
#include "cpu/native/layout.h"

typedef struct rdt_span { /* of one product */
  int64_t begin, end;     /* rows */
  int64_t from, to;       /* panels */
} rdt_span;

/* Of m rows in tiles of mr, or of the panels. */
static inline rdt_span rdt_span_of(int64_t m, int64_t mr, int64_t panels, bool by_columns, int64_t part,
                                   int64_t parts) {
  if (parts == 1) return (rdt_span){0, m, 0, panels};
  const int64_t tiles = rdt_up(m, mr) / mr;
  if (by_columns) return (rdt_span){0, m, panels * part / parts, panels * (part + 1) / parts};
  return (rdt_span){rdt_least(tiles * part / parts * mr, m), rdt_least(tiles * (part + 1) / parts * mr, m), 0, panels};
}

/* Where product number batch begins, in elements. */
static inline int64_t rdt_batch_offset(int rank, const int64_t *shape, const int64_t *stride, int64_t batch) {
  int64_t offset = 0;
  for (int d = rank - 1; d >= 0; d--) {
    offset += batch % shape[d] * stride[d];
    batch /= shape[d];
  }
  return offset;
}

/* One matrix for all of a batch? */
static inline bool rdt_batch_is_one(const rdt_tensor *t) {
  for (int d = 0; d < t->rank - 2; d++)
    if (t->shape[d] > 1 && t->stride[d] != 0) return false;
  return true;
}

/* Do the rows of a whole batch follow one another evenly? *step: from row to row, in elements. */
static inline bool rdt_batch_is_even(const rdt_tensor *t, int64_t *step) {
  int64_t count = 1;
  *step = t->stride[t->rank - 2];
  for (int d = t->rank - 2; d >= 0; d--) {
    if (t->shape[d] == 1) continue;
    if (count == 1) *step = t->stride[d];
    if (t->stride[d] != *step * count) return false;
    count *= t->shape[d];
  }
  return true;
}

/* A fault of the core strikes in each share that begins there: in rows and columns from .. to - 1 of n columns. own: of
 * this share. What is planted in it; NULL: nothing */
static inline rdt_kernel_hit *rdt_share_plant(rdt_kernel_hit *hit, rdt_kernel_hit *own, const int64_t from[2],
                                              const int64_t to[2], int64_t n, int64_t plane) {
  if (!hit || !hit->everywhere) return hit;
  *own = *hit;
  if (own->core != rdt_cpu_current() || to[0] <= from[0] || to[1] <= from[1]) return NULL;
  const int64_t row = from[0] + (int64_t)(rdt_fault_random(own->fault, 1) % (uint64_t)(to[0] - from[0]));
  const int64_t column = from[1] + (int64_t)(rdt_fault_random(own->fault, 3) % (uint64_t)(to[1] - from[1]));
  own->element = row / plane * plane * n + column * plane + row % plane;
  return own;
}

#endif
