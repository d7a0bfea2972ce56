#include "net/constant.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "check/bitsum.h"
#include "core/memory.h"

enum { PART = 1 << 12 };                  /* elements that are made at a time */
enum { TILE = 1 << 18 };                  /* bytes that have a sum of their own; a multiple of PART elements */
static const size_t least_lazy = 1 << 16; /* bytes; making less again saves nothing */

static int64_t tiles_of(const rdt_value *c) {
  return (int64_t)((c->bytes + TILE - 1) / TILE);
}

static size_t tile_bytes(const rdt_value *c, int64_t tile) {
  const size_t left = c->bytes - (size_t)tile * TILE;
  return left < TILE ? left : TILE;
}

static uint64_t tile_sum(const rdt_value *c, int64_t tile) {
  return rdt_bitsum_part(c->data, (size_t)tile * TILE, tile_bytes(c, tile));
}

static const unsigned char *place_of(const rdt_graph *g, const rdt_origin *o) {
  return g->maps.list[o->map].data + o->offset;
}

/* Elements of a row that come from one part. */
static int64_t part_columns(const rdt_value *c) {
  return c->shape[c->rank - 1] / c->origin.n_parts;
}

/* ---- making ---- */

/* n elements of one channel, or of n channels one after the other. */
static void scale_f32(const float *from, float *to, int64_t n, const double *factor, bool one) {
  if (one)
    for (int64_t i = 0; i < n; i++) to[i] = (float)(from[i] * factor[0]);
  else
    for (int64_t i = 0; i < n; i++) to[i] = (float)(from[i] * factor[i]);
}

static void scale_any(rdt_dtype dtype, const void *from, void *to, int64_t at, int64_t n, const double *factor,
                      bool one) {
  for (int64_t i = 0; i < n; i++) rdt_store(to, dtype, at + i, rdt_load(from, dtype, at + i) * factor[one ? 0 : i]);
}

/* Elements first.. of c, whose rows are those of its parts side by side. */
static void join_part(const rdt_graph *g, const rdt_value *c, int64_t first, int64_t n, unsigned char *to) {
  const int64_t size = (int64_t)rdt_dtype_size(c->dtype), columns = part_columns(c), length = c->shape[c->rank - 1];
  for (int64_t i = 0, run; i < n; i += run) {
    const int64_t row = (first + i) / length, at = (first + i) % length, column = at % columns;
    const rdt_origin_part *part = &c->origin.parts[at / columns];
    run = columns - column < n - i ? columns - column : n - i;
    memcpy(to + i * size, g->maps.list[part->map].data + part->offset + (row * part->pitch + column) * size,
           (size_t)(run * size));
  }
}

/* Elements first.. of c from what lies at from, which need not be aligned, or from its parts. */
static void make_part(const rdt_graph *g, const rdt_value *c, const unsigned char *from, int64_t first, int64_t n,
                      void *to) {
  const rdt_origin *o = &c->origin;
  if (o->parts) {
    join_part(g, c, first, n, to);
    return;
  }
  const size_t size = rdt_dtype_size(c->dtype);
  double aligned[PART];
  from += (size_t)first * size;
  if (!o->factor) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  memcpy(aligned, from, (size_t)n * size);
  const int64_t inner = (int64_t)(c->bytes / size) / o->channels;
  for (int64_t i = 0, run; i < n; i += run) {
    const int64_t e = first + i, channel = o->by_row ? e / inner : e % o->channels;
    run = o->by_row ? inner - e % inner : o->channels - channel;
    if (run > n - i) run = n - i;
    if (c->dtype == RDT_F32)
      scale_f32((const float *)aligned + i, (float *)to + i, run, &o->factor[channel], o->by_row);
    else
      scale_any(c->dtype, aligned, to, i, run, &o->factor[channel], o->by_row);
  }
}

static bool all_finite(rdt_dtype dtype, const void *data, int64_t n) {
  int64_t bad = 0;
  if (dtype == RDT_F32)
    for (int64_t i = 0; i < n; i++) bad += !(fabsf(((const float *)data)[i]) <= FLT_MAX);
  else
    for (int64_t i = 0; i < n; i++) bad += !isfinite(rdt_load(data, dtype, i));
  return bad == 0;
}

typedef struct made {
  uint64_t sum;
  bool finite;
} made;

/* Makes a tile of c in data, or nowhere. */
static made make_tile(const rdt_graph *g, const rdt_value *c, const unsigned char *from, unsigned char *data,
                      int64_t tile, bool finite) {
  const size_t size = rdt_dtype_size(c->dtype);
  const int64_t begin = tile * (TILE / (int64_t)size), end = begin + (int64_t)(tile_bytes(c, tile) / size);
  double nowhere[PART];
  made m = {.finite = true};
  for (int64_t first = begin, n; first < end; first += n) {
    n = end - first < PART ? end - first : PART;
    void *to = data ? (void *)(data + (size_t)first * size) : (void *)nowhere;
    make_part(g, c, from, first, n, to);
    m.sum += rdt_bitsum_apart(to, (size_t)first * size, (size_t)n * size);
    if (finite) m.finite = m.finite && all_finite(c->dtype, to, n);
  }
  return m;
}

/* Makes c in data, or nowhere; its sum comes back. finite, and sums for its tiles, may be NULL. */
static uint64_t make(const rdt_graph *g, const rdt_value *c, const unsigned char *from, unsigned char *data,
                     bool *finite, uint64_t *sums) {
  const int64_t tiles = tiles_of(c);
  uint64_t sum = 0;
  int bad = 0;
#pragma omp parallel for num_threads(g->threads) reduction(+ : sum, bad) if (tiles > 1 && g->threads > 1)
  for (int64_t t = 0; t < tiles; t++) {
    const made m = make_tile(g, c, from, data, t, finite != NULL);
    sum += m.sum;
    bad += !m.finite;
    if (sums) sums[t] = m.sum;
  }
  if (finite) *finite = bad == 0;
  return sum;
}

/* ---- at loading ---- */

static rdt_status no_memory(const rdt_value *c, rdt_reason *why) {
  return rdt_fail(why, RDT_ERR_NOMEM, "no memory for %zu bytes of %.100s", c->bytes, c->name);
}

rdt_status rdt_constant_scale(rdt_graph *g, int v, int from, double *factor, int64_t channels, bool by_row,
                              bool *finite, rdt_reason *why) {
  rdt_value *c = &g->values[v];
  const rdt_value *w = &g->values[from];
  const bool placed = w->origin.map >= 0 && w->bytes >= least_lazy;
  c->dtype = w->dtype;
  c->typed = true;
  c->rank = w->rank;
  memcpy(c->shape, w->shape, sizeof c->shape);
  c->bytes = w->bytes;
  c->producer = -1;
  c->origin = (rdt_origin){.map = -1, .factor = factor, .channels = channels, .by_row = by_row};
  if (placed) {
    c->origin.map = w->origin.map;
    c->origin.offset = w->origin.offset;
    for (int64_t i = 0; w->origin.factor && i < channels; i++) factor[i] *= w->origin.factor[i];
    if (!(c->tile_sums = rdt_alloc((size_t)tiles_of(c), sizeof *c->tile_sums))) return no_memory(c, why);
    c->bitsum = make(g, c, place_of(g, &c->origin), NULL, finite, c->tile_sums);
    c->lazy = true;
    if (*finite && !(c->data = rdt_reserve(c->bytes))) return no_memory(c, why);
    return RDT_OK;
  }
  void *data = rdt_alloc(c->bytes, 1);
  if (!data) return no_memory(c, why);
  make(g, c, w->data, data, finite, NULL);
  c->origin.factor = NULL; /* what it is made of goes */
  rdt_free(factor);
  if (*finite)
    c->data = data;
  else
    rdt_free(data);
  return RDT_OK;
}

rdt_status rdt_constant_join(rdt_graph *g, int v, const int *from, int n, rdt_reason *why) {
  rdt_value *c = &g->values[v];
  const rdt_value *w = &g->values[from[0]];
  const int64_t columns = w->shape[w->rank - 1];
  bool placed = n * w->bytes >= least_lazy;
  for (int i = 0; i < n; i++) placed = placed && g->values[from[i]].origin.map >= 0;
  c->dtype = w->dtype;
  c->typed = true;
  c->rank = w->rank;
  memcpy(c->shape, w->shape, sizeof c->shape);
  c->shape[c->rank - 1] = n * columns;
  c->bytes = (size_t)n * w->bytes;
  c->producer = -1;
  if (placed) {
    rdt_origin_part *parts = rdt_alloc((size_t)n, sizeof *parts);
    c->tile_sums = rdt_alloc((size_t)tiles_of(c), sizeof *c->tile_sums);
    if (!parts || !c->tile_sums) {
      rdt_free(parts);
      return no_memory(c, why);
    }
    for (int i = 0; i < n; i++)
      parts[i] = (rdt_origin_part){g->values[from[i]].origin.map, g->values[from[i]].origin.offset, columns};
    c->origin = (rdt_origin){.map = parts[0].map, .parts = parts, .n_parts = n};
    c->bitsum = make(g, c, NULL, NULL, NULL, c->tile_sums);
    c->lazy = true;
    return (c->data = rdt_reserve(c->bytes)) ? RDT_OK : no_memory(c, why);
  }
  const size_t row = (size_t)columns * rdt_dtype_size(w->dtype);
  unsigned char *data = rdt_alloc(c->bytes, 1);
  if (!data) return no_memory(c, why);
  for (size_t r = 0; r < w->bytes / row; r++)
    for (int i = 0; i < n; i++)
      memcpy(data + (r * (size_t)n + (size_t)i) * row, (const unsigned char *)g->values[from[i]].data + r * row, row);
  c->data = data;
  return RDT_OK;
}

rdt_status rdt_constant_columns(rdt_graph *g, int v, int from, int64_t first, int64_t columns, rdt_reason *why) {
  rdt_value *c = &g->values[v];
  const rdt_value *w = &g->values[from];
  const size_t size = rdt_dtype_size(w->dtype);
  c->dtype = w->dtype;
  c->typed = true;
  c->rank = 2;
  c->shape[0] = w->shape[0], c->shape[1] = columns;
  c->bytes = (size_t)(w->shape[0] * columns) * size;
  c->producer = -1;
  rdt_origin_part *part = rdt_alloc(1, sizeof *part);
  if (!part) return no_memory(c, why);
  *part = (rdt_origin_part){w->origin.map, w->origin.offset + (size_t)first * size, w->shape[1]};
  c->origin = (rdt_origin){.map = part->map, .parts = part, .n_parts = 1};
  if (c->bytes < least_lazy) {
    if (!(c->data = rdt_alloc(c->bytes, 1))) return no_memory(c, why);
    make(g, c, NULL, c->data, NULL, NULL);
    return RDT_OK;
  }
  if (!(c->tile_sums = rdt_alloc((size_t)tiles_of(c), sizeof *c->tile_sums))) return no_memory(c, why);
  c->bitsum = make(g, c, NULL, NULL, NULL, c->tile_sums);
  c->lazy = true;
  return (c->data = rdt_reserve(c->bytes)) ? RDT_OK : no_memory(c, why);
}

/* Is v read as weights of linear nodes and in no other way? */
static void find_weights(const rdt_graph *g, bool *weights) {
  for (int v = 0; v < g->n_values; v++) weights[v] = !g->values[v].planned;
  for (int i = 0; i < g->n_outputs; i++) weights[g->outputs[i]] = false;
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0 && (k != 1 || n->op->protection != RDT_PROTECT_LINEAR)) weights[n->in[k]] = false;
    if (n->residual >= 0) weights[n->residual] = false;
  }
}

static rdt_status sum_tiles(const rdt_graph *g, rdt_value *c, rdt_reason *why) {
  const int64_t tiles = tiles_of(c);
  uint64_t sum = 0;
  if (!(c->tile_sums = rdt_alloc((size_t)tiles, sizeof *c->tile_sums))) return no_memory(c, why);
#pragma omp parallel for num_threads(g->threads) reduction(+ : sum) if (tiles > 1 && g->threads > 1)
  for (int64_t t = 0; t < tiles; t++) sum += c->tile_sums[t] = tile_sum(c, t);
  c->bitsum = sum;
  return RDT_OK;
}

rdt_status rdt_constants_seal(rdt_graph *g, rdt_reason *why) {
  bool *weights = rdt_calloc((size_t)g->n_values, sizeof *weights);
  if (!weights) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", g->path);
  find_weights(g, weights);
  rdt_status status = RDT_OK;
  for (int v = 0; v < g->n_values && status == RDT_OK; v++) {
    rdt_value *c = &g->values[v];
    if (!c->data) continue;
    if (c->lazy) { /* what is read while planning, or by others than a kernel that packs it, stays */
      if (!weights[v]) status = rdt_constant_hold(g, v, why);
      continue;
    }
    status = sum_tiles(g, c, why);
    if (status != RDT_OK || !weights[v] || c->origin.map < 0 || c->origin.mapped || c->bytes < least_lazy) continue;
    void *address = rdt_reserve(c->bytes);
    if (!address) status = no_memory(c, why);
    rdt_free(c->data);
    c->data = address;
    c->lazy = true;
  }
  rdt_free(weights);
  return status;
}

/* ---- in use ---- */

bool rdt_constant_is_there(const rdt_value *c) {
  return c->data && (!c->lazy || c->holders > 0);
}

bool rdt_constant_is_good(const rdt_graph *g, int v) {
  const rdt_value *c = &g->values[v];
  return rdt_bitsum_shared(c->data, c->bytes, g->threads) == c->bitsum;
}

/* Tiles that are not as they were loaded. */
typedef struct rotten {
  int64_t n, *tile;
  unsigned char *was; /* what the first of them held; NULL: there was no memory to keep it */
} rotten;

static rdt_status find_rotten(rdt_value *c, rotten *r, rdt_reason *why) {
  const int64_t tiles = tiles_of(c);
  uint64_t all = 0;
  int64_t differ = 0;
  *r = (rotten){.tile = rdt_alloc((size_t)tiles, sizeof *r->tile)};
  if (!r->tile) return no_memory(c, why);
  for (int64_t t = 0; t < tiles; t++) {
    all += c->tile_sums[t];
    if (tile_sum(c, t) != c->tile_sums[t]) r->tile[differ++] = t;
  }
  r->n = differ;
  if (all != c->bitsum) { /* one of the sums was hit: theirs, or that of all */
    for (int64_t t = 0; differ > 0 && t < tiles; t++) r->tile[t] = t;
    r->n = differ > 0 ? tiles : 0;
    if (differ == 0) c->bitsum = all;
  }
  if (r->n > 0) r->was = rdt_alloc(TILE, 1);
  if (r->was) memcpy(r->was, (const unsigned char *)c->data + (size_t)r->tile[0] * TILE, tile_bytes(c, r->tile[0]));
  return RDT_OK;
}

/* What has changed in the first of them that has, now that it is as it was. */
static rdt_rot rot_of(const rdt_value *c, const rotten *r) {
  const int64_t size = (int64_t)rdt_dtype_size(c->dtype);
  rdt_rot rot = {.tensor = c->name, .tiles = r->n, .first = -1};
  if (!r->was || r->n == 0) return rot;
  const unsigned char *now = (const unsigned char *)c->data + (size_t)r->tile[0] * TILE;
  for (int64_t i = 0; i < (int64_t)tile_bytes(c, r->tile[0]) / size; i++) {
    if (memcmp(now + i * size, r->was + i * size, (size_t)size) == 0 || rot.changed++ > 0) continue;
    rot.first = r->tile[0] * (TILE / size) + i;
    rot.expected = rdt_load(now, c->dtype, i);
    rot.actual = rdt_load(r->was, c->dtype, i);
  }
  return rot;
}

/* What tile t is made of is read as the file has it. */
static void refresh(rdt_graph *g, const rdt_value *c, int64_t t, int device) {
  const rdt_origin *o = &c->origin;
  if (!o->parts) {
    rdt_map_refresh(&g->maps.list[o->map], o->offset + (size_t)t * TILE, tile_bytes(c, t), device);
    return;
  }
  const size_t part = (size_t)part_columns(c) * rdt_dtype_size(c->dtype), row = part * (size_t)o->n_parts;
  const size_t first = (size_t)t * TILE / row, end = ((size_t)t * TILE + tile_bytes(c, t) + row - 1) / row;
  for (int i = 0; i < o->n_parts; i++) {
    const size_t pitch = (size_t)o->parts[i].pitch * rdt_dtype_size(c->dtype);
    rdt_map_refresh(&g->maps.list[o->parts[i].map], o->parts[i].offset + first * pitch,
                    (end - first - 1) * pitch + part, device);
  }
}

/* Its bytes are in a file: whoever reads the map now reads them as they are there. */
static bool make_from_file(rdt_graph *g, int v, const rotten *r) {
  const rdt_value *c = &g->values[v];
  for (int device = 0; device < 2; device++) {
    for (int64_t i = 0; i < r->n; i++) {
      const int64_t t = r->tile[i];
      refresh(g, c, t, device);
      if (!c->origin.mapped) make_tile(g, c, place_of(g, &c->origin), c->data, t, false);
    }
    if (rdt_constant_is_good(g, v)) return true;
  }
  return false;
}

/* The same file gives the same numbers and bits. */
static rdt_status load_again(rdt_graph *g, int v, rdt_reason *why) {
  rdt_graph *again = NULL;
  const rdt_value *c = &g->values[v];
  RDT_TRY(g->again(g->path, g->threads, &g->replaced, &again, why));
  const rdt_value *other = v < again->n_values ? &again->values[v] : NULL;
  const bool same = other && other->data && other->bytes == c->bytes && other->bitsum == c->bitsum;
  if (same) memcpy(c->tile_sums, other->tile_sums, (size_t)tiles_of(c) * sizeof *c->tile_sums);
  if (same && other->lazy)
    make(again, other, place_of(again, &other->origin), c->data, NULL, NULL);
  else if (same)
    memcpy(c->data, other->data, c->bytes);
  rdt_graph_free(again);
  return same ? RDT_OK : rdt_fail(why, RDT_ERR_IO, "the file has changed");
}

rdt_status rdt_constant_restore(rdt_graph *g, int v, rdt_rot *rot, rdt_reason *why) {
  rdt_value *c = &g->values[v];
  rdt_reason reason = {"memory does not keep it"};
  rotten r;
  RDT_TRY(find_rotten(c, &r, why));
  bool good = r.n == 0 || (c->origin.map >= 0 && make_from_file(g, v, &r));
  if (!good && !c->origin.mapped) load_again(g, v, &reason);
  good = good || rdt_constant_is_good(g, v);
  if (good) {
    *rot = rot_of(c, &r);
    for (int64_t i = 0; i < r.n; i++) c->tile_sums[r.tile[i]] = tile_sum(c, r.tile[i]);
  }
  rdt_free(r.was);
  rdt_free(r.tile);
  if (good) return RDT_OK;
  return rdt_fail(why, RDT_ERR_FAULT, "weight %.100s has changed in memory and cannot be restored from %.200s: %.150s",
                  c->name, g->path, c->origin.mapped ? "the file has changed" : reason.text);
}

rdt_status rdt_constant_hold(rdt_graph *g, int v, rdt_reason *why) {
  rdt_value *c = &g->values[v];
  if (c->holders++ > 0 || !c->lazy) return RDT_OK;
  rdt_memory_book(c->bytes, true);
  if (make(g, c, place_of(g, &c->origin), c->data, NULL, NULL) == c->bitsum) return RDT_OK;
  rdt_rot rot = {.tensor = NULL};
  const rdt_status status = rdt_constant_restore(g, v, &rot, why);
  if (status != RDT_OK) rdt_constant_release(g, v);
  return status;
}

void rdt_constant_release(rdt_graph *g, int v) {
  rdt_value *c = &g->values[v];
  if (--c->holders > 0 || !c->lazy) return;
  rdt_reserve_empty(c->data, c->bytes);
  rdt_memory_book(c->bytes, false);
}
