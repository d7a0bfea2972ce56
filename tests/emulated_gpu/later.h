// What is under way: asked for by a warp, done when somebody waits for it, by chance before, or as the launch ends.
#ifndef RDT_EMULATED_LATER_H
#define RDT_EMULATED_LATER_H

#include "emulated.h"

typedef struct em_later {
  em_grid *grid;
  em_block *block;                      // whose shared memory it touches; NULL: none any more
  bool (*one)(struct em_later *later);  // does it, or the oldest part of it; false: a fault
  // Does what a barrier in the block's shared memory waits for, if there is any of it. NULL: nobody waits so.
  bool (*until)(struct em_later *later, uint32_t barrier);
  bool (*end)(struct em_later *later);   // as the block's cluster has ended: done, or a fault; NULL: done
  void (*drop)(struct em_later *later);  // frees it, or what it has; NULL: nothing
  int at;                                // in the grid's list
  struct em_later *next, **link;         // in the block's
} em_later;

void em_later_add(em_later *later, em_grid *grid, em_block *block);
void em_later_leave(em_later *later);                 // the block: its memory is not touched any more
void em_later_done(em_later *later);                  // it is in no list any more
em_later **em_later_list(em_grid *grid, int *count);  // all that the grid has under way
// Some of it happens at once.
static inline bool em_later_now(em_grid *grid) {
  return em_random(grid) % 4 == 0;
}
// All that this barrier waits for and that is under way; false: a fault.
bool em_later_until(em_block *block, uint32_t barrier);
// What em_later_warp() does for ops_matrix.c, and for what a warp's lanes have copied.
void em_matrix_warp(em_warp *warp);

// Tensor maps (tma.c): the box at a place, between memory and a block's shared memory. Offsets: of windows (im2col)
// alone. NULL, or what is wrong.
typedef struct em_box {
  em_map map;
  int32_t at[5];
  uint16_t offset[3];
} em_box;
const char *em_box_refused(const em_box *box, uint32_t shared);  // what no instruction may ask for
size_t em_box_bytes(const em_map *map);
const char *em_box_load(const em_box *box, uint8_t *shared, uint32_t to);
void em_box_pick(const em_box *box, const uint8_t *shared, uint32_t from, uint8_t *bytes);  // as it lies there
const char *em_box_store(const em_box *box, const uint8_t *bytes);                          // to memory

#endif
