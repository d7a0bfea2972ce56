// Boxes of tensors, as tensor maps say where they lie in memory and in shared memory.
#include <string.h>

#include "later.h"

enum { CHUNK = 16, MOST_ROW = 256 * 8, SWIZZLE_128 = 3 };

// The rows of a box in their order: element 0 of each lies at where its coordinates say, and all of a row is outside
// where one of the others is.
typedef struct rows {
  const em_box *box;
  int64_t at[5];     // of this row; at[0] does not change
  uint32_t left;     // rows that are still to come, this one counted
  uint32_t turn[5];  // of a tile: how many steps each dimension has gone
} rows;

static uint32_t steps(const em_map *map, int d) {
  return (map->box[d] + map->step[d] - 1u) / map->step[d];
}

static uint32_t rows_of(const em_map *map) {
  uint32_t n = 1;
  if (map->im2col) return map->box[1];
  for (int d = 1; d < map->rank; d++) n *= steps(map, d);
  return n;
}

size_t em_box_bytes(const em_map *map) {
  return (size_t)rows_of(map) * map->box[0] * map->element_bytes;
}

static rows first_row(const em_box *box) {
  rows r = {.box = box, .left = rows_of(&box->map)};
  for (int d = 0; d < box->map.rank; d++) r.at[d] = box->at[d];
  return r;
}

static void next_row(rows *r) {
  const em_map *map = &r->box->map;
  r->left--;
  for (int d = 1; d < map->rank; d++) {
    if (map->im2col) {  // from one corner of the bounding box to the other, image after image
      r->at[d] += d == map->rank - 1 ? 1 : map->step[d];
      if (d == map->rank - 1 || r->at[d] < (int64_t)map->size[d] + map->high[d - 1]) return;
      r->at[d] = map->low[d - 1];
    } else {
      r->at[d] += map->step[d];
      if (++r->turn[d] < steps(map, d)) return;
      r->turn[d] = 0, r->at[d] = r->box->at[d];
    }
  }
}

// Where the row's part that is inside lies, its first element and how many; 0: none.
static uint32_t inside(const rows *r, uint64_t *address, uint32_t *first) {
  const em_map *map = &r->box->map;
  *address = map->base;
  for (int d = 1; d < map->rank; d++) {
    const int64_t x = r->at[d] + (map->im2col && d < map->rank - 1 ? r->box->offset[d - 1] : 0);
    if (x < 0 || x >= (int64_t)map->size[d]) return 0;
    *address += (uint64_t)x * map->pitch[d - 1];
  }
  const int64_t begin = r->at[0] < 0 ? 0 : r->at[0], most = r->at[0] + map->box[0],
                end = most < (int64_t)map->size[0] ? most : (int64_t)map->size[0];
  if (begin >= end) return 0;
  *address += (uint64_t)begin * map->element_bytes;
  *first = (uint32_t)(begin - r->at[0]);
  return (uint32_t)(end - begin);
}

const char *em_box_refused(const em_box *box, uint32_t shared) {
  const em_map *map = &box->map;
  if (map->magic != EM_MAP_MAGIC) return "no tensor map is there";
  if (map->interleave || map->fill) return "interleaved tensor maps and fills with NaN are not known here";
  if (shared % 128) return "a box in shared memory begins at a multiple of 128 bytes";
  // FLOAT32_FTZ, TFLOAT32, TFLOAT32_FTZ
  if (map->type >= 10) return "tensor maps that change numbers are not known here";
  if (map->swizzle && (size_t)map->box[0] * map->element_bytes != 16u << map->swizzle)
    return "a box that is narrower than its swizzle is not known here";
  return NULL;
}

// 16 bytes at this address of shared memory, as if it were not swizzled, lie there.
static uint32_t swizzled(uint32_t at, int swizzle) {
  return at ^ ((at >> 7 & ((1u << swizzle) - 1)) << 4);
}

_Static_assert((1 << SWIZZLE_128) * CHUNK == 128, "a swizzle's span");

static void put_row(const em_map *map, uint8_t *shared, uint32_t to, const uint8_t *row, uint32_t bytes) {
  if (!map->swizzle) {
    memcpy(shared + to, row, bytes);
  } else {
    for (uint32_t i = 0; i < bytes; i += CHUNK) memcpy(shared + swizzled(to + i, map->swizzle), row + i, CHUNK);
  }
}

static const char *const outside = "the tensor map's memory has not been allocated";

const char *em_box_load(const em_box *box, uint8_t *shared, uint32_t to) {
  const uint32_t size = box->map.element_bytes, bytes = box->map.box[0] * size;
  for (rows r = first_row(box); r.left; next_row(&r), to += bytes) {
    uint8_t row[MOST_ROW];
    uint64_t address;
    uint32_t first, n = inside(&r, &address, &first);
    const uint8_t *from = (const uint8_t *)(uintptr_t)address;
    if (n && !em_allocated(address, (size_t)n * size)) return outside;
    if (n < box->map.box[0]) {
      memset(row, 0, bytes);
      if (n) memcpy(row + (size_t)first * size, from, (size_t)n * size);
      from = row;
    }
    put_row(&box->map, shared, to, from, bytes);
  }
  return NULL;
}

void em_box_pick(const em_box *box, const uint8_t *shared, uint32_t from, uint8_t *bytes) {
  const uint32_t all = (uint32_t)em_box_bytes(&box->map);
  for (uint32_t i = 0; i < all; i += CHUNK)
    memcpy(bytes + i, shared + (box->map.swizzle ? swizzled(from + i, box->map.swizzle) : from + i), CHUNK);
}

const char *em_box_store(const em_box *box, const uint8_t *bytes) {
  const uint32_t size = box->map.element_bytes;
  for (rows r = first_row(box); r.left; next_row(&r), bytes += (size_t)box->map.box[0] * size) {
    uint64_t address;
    uint32_t first, n = inside(&r, &address, &first);
    if (!n) continue;
    if (!em_allocated(address, (size_t)n * size)) return outside;
    memcpy((void *)(uintptr_t)address, bytes + (size_t)first * size, (size_t)n * size);
  }
  return NULL;
}
