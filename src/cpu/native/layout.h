/* Memory of a run, laid out piece by piece: once to count, once to point. */
#ifndef RDT_CPU_NATIVE_LAYOUT_H
#define RDT_CPU_NATIVE_LAYOUT_H

#include "core/memory.h"

typedef struct rdt_layout { /* base = NULL: only counts */
  char *base;
  size_t used;
} rdt_layout;

/* Cache lines of its own. */
static inline void *rdt_layout_take(rdt_layout *l, int64_t count, size_t size) {
  void *p = l->base ? l->base + l->used : NULL;
  l->used += ((size_t)count * size + 63) & ~(size_t)63;
  return p;
}

/* From now on a run uses memory. */
static inline void rdt_layout_lend(void **own, void **lent, void *memory) {
  rdt_free(*own);
  *own = NULL;
  *lent = memory;
}

/* What a run uses: what was lent, or its own from the first run on; NULL: there is no memory. */
static inline void *rdt_layout_memory(void **own, void *lent, size_t bytes) {
  if (lent) return lent;
  if (!*own) *own = rdt_alloc(bytes, 1);
  return *own;
}

static inline int64_t rdt_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t rdt_up(int64_t x, int64_t unit) {
  return (x + unit - 1) / unit * unit;
}

#endif
