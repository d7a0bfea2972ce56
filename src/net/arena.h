/* Where activations lie: one block, places used again when a value is needed no more. */
#ifndef RDT_NET_ARENA_H
#define RDT_NET_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

typedef struct rdt_lifetime {
  size_t bytes;    /* rounded up to whole cache lines by rdt_arena_plan */
  int first, last; /* step that writes it, last step that needs it; first -1: needs no place */
} rdt_lifetime;

typedef struct rdt_place {
  size_t at;
  int value;
} rdt_place;

typedef struct rdt_arena {
  size_t *offset;    /* of each value */
  rdt_place *placed; /* those that have a place, the lowest first */
  int n_placed;
  size_t bytes; /* of the block */
  size_t live;  /* most bytes in use at any step */
  void *data;   /* the block, by the owner */
} rdt_arena;

/* Best fit in the order of the steps. The sum of all bytes must not overflow. Errors: RDT_ERR_NOMEM. */
rdt_status rdt_arena_plan(rdt_lifetime *l, int n, int steps, rdt_arena *out, rdt_reason *why);
/* A place of the block that no value uses at this step; false where there is none. */
bool rdt_arena_gap(const rdt_arena *a, const rdt_lifetime *l, int step, size_t bytes, size_t *offset);
void rdt_arena_clear(rdt_arena *a);

#endif
