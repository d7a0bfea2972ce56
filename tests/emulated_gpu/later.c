// The lists of what is under way: of a grid all of it, of a block what touches its shared memory.
#include "later.h"

#include <stdlib.h>
#include <string.h>

typedef struct pool {  // grid->bulk
  int n, room;
  em_later *item[];
} pool;
typedef struct of_block {  // block->bulk
  em_later *first;
} of_block;

static void *must(void *p) {
  if (!p) abort();  // a test without memory
  return p;
}

void em_later_add(em_later *later, em_grid *grid, em_block *block) {
  pool *p = grid->bulk;
  if (!p || p->n == p->room) {
    const int room = p ? 2 * p->room : 64;
    const int n = p ? p->n : 0;
    grid->bulk = p = must(realloc(p, sizeof *p + (size_t)room * sizeof *p->item));
    p->room = room, p->n = n;
  }
  later->grid = grid, later->block = block;
  later->at = p->n;
  p->item[p->n++] = later;
  if (!block->bulk) block->bulk = must(calloc(1, sizeof(of_block)));
  of_block *of = block->bulk;
  later->next = of->first, later->link = &of->first;
  if (later->next) later->next->link = &later->next;
  of->first = later;
}

void em_later_leave(em_later *later) {
  if (!later->block) return;
  *later->link = later->next;
  if (later->next) later->next->link = later->link;
  later->block = NULL;
}

void em_later_done(em_later *later) {
  pool *p = later->grid->bulk;
  em_later_leave(later);
  p->item[later->at] = p->item[--p->n];
  p->item[later->at]->at = later->at;
}

em_later **em_later_list(em_grid *grid, int *count) {
  pool *p = grid->bulk;
  *count = p ? p->n : 0;
  return p ? p->item : NULL;
}

bool em_later_until(em_block *block, uint32_t barrier) {
  of_block *of = block->bulk;
  em_later *next;
  for (em_later *l = of ? of->first : NULL; l; l = next) {
    next = l->next;
    if (l->until && !l->until(l, barrier)) return false;
  }
  return true;
}

bool em_later_one(em_grid *grid) {
  pool *p = grid->bulk;
  if (!p || !p->n) return false;
  em_later *l = p->item[em_random(grid) % (uint32_t)p->n];
  return l->one(l);
}

bool em_later_block(em_block *block) {
  of_block *of = block->bulk;
  while (of && of->first) {
    em_later *l = of->first;
    if (!(l->end ? l->end(l) : l->one(l))) return false;
  }
  return true;
}

void em_later_drop(em_grid *grid) {
  pool *p = grid->bulk;
  while (p && p->n) {
    em_later *l = p->item[p->n - 1];
    em_later_done(l);
    if (l->drop) l->drop(l);
  }
}

bool em_later_end(em_grid *grid) {
  pool *p = grid->bulk;
  while (p && p->n) {
    if (p->item[0]->one(p->item[0])) continue;
    em_later_drop(grid);
    return false;
  }
  return true;
}
