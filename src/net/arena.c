/* One block of memory for all activations: values that are never needed at the same time share a place. */
#include "net/arena.h"

#include <string.h>

#include "core/memory.h"

enum { ALIGN = 64 }; /* a cache line and the widest vector */
enum { MOST_BY_SIZE = 4096 };

typedef struct hole { /* free memory, sorted by place; the last one has no end */
  size_t at, bytes;
} hole;

typedef struct holes {
  hole *list;
  int n, room;
} holes;

static bool insert(holes *h, int i, hole one) {
  if (h->n == h->room) {
    const int room = h->room ? 2 * h->room : 16;
    hole *grown = rdt_grow(h->list, (size_t)h->n, (size_t)room, sizeof *grown);
    if (!grown) return false;
    h->list = grown;
    h->room = room;
  }
  memmove(&h->list[i + 1], &h->list[i], (size_t)(h->n++ - i) * sizeof one);
  h->list[i] = one;
  return true;
}

static void erase(holes *h, int i) {
  memmove(&h->list[i], &h->list[i + 1], (size_t)(--h->n - i) * sizeof *h->list);
}

/* The smallest hole that is large enough; the endless one where there is no other. */
static size_t take(holes *h, size_t bytes) {
  int best = h->n - 1;
  for (int i = 0; i < h->n; i++)
    if (h->list[i].bytes >= bytes && h->list[i].bytes < h->list[best].bytes) best = i;
  const size_t at = h->list[best].at;
  h->list[best].at += bytes;
  if (best == h->n - 1) return at;
  h->list[best].bytes -= bytes;
  if (h->list[best].bytes == 0) erase(h, best);
  return at;
}

static bool give(holes *h, size_t at, size_t bytes) {
  int i = 0;
  while (h->list[i].at < at) i++;
  if (!insert(h, i, (hole){at, bytes})) return false;
  for (int k = i > 0 ? i - 1 : 0; k < i + 1 && k + 1 < h->n;) { /* neighbours become one */
    hole *a = &h->list[k], *b = &h->list[k + 1];
    if (a->at + a->bytes != b->at) {
      k++;
      continue;
    }
    b->bytes = k + 1 == h->n - 1 ? b->bytes : a->bytes + b->bytes;
    b->at = a->at;
    erase(h, k);
    i--;
  }
  return true;
}

static rdt_status place(const rdt_lifetime *l, int n, int steps, const int *head, const int *next, holes *h,
                        rdt_arena *out, rdt_reason *why) {
  size_t live = 0;
  (void)n;
  for (int step = 0; step < steps; step++) {
    for (int v = head[step]; v >= 0; v = next[v]) {
      out->offset[v] = take(h, l[v].bytes);
      const size_t end = out->offset[v] + l[v].bytes;
      live += l[v].bytes;
      if (end > out->bytes) out->bytes = end;
      if (live > out->live) out->live = live;
    }
    for (int v = head[steps + step]; v >= 0; v = next[n + v]) {
      live -= l[v].bytes;
      if (l[v].bytes > 0 && !give(h, out->offset[v], l[v].bytes))
        return rdt_fail(why, RDT_ERR_NOMEM, "no memory to plan the activations' memory");
    }
  }
  return RDT_OK;
}

/* The lowest place where nothing lies that is needed at any step from first to last. place: of the values; those not
 * listed in l, or without a place (SIZE_MAX), lie nowhere. */
static size_t lowest(const rdt_lifetime *l, const size_t *place, int n, int first, int last, size_t bytes) {
  size_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int v = 0; v < n; v++) {
      if (l[v].first < 0 || place[v] == SIZE_MAX || last < l[v].first || first > l[v].last) continue;
      if (place[v] >= at + bytes || place[v] + l[v].bytes <= at) continue;
      at = place[v] + l[v].bytes; /* no place before that is free either */
      moved = true;
    }
  }
  return at;
}

/* Largest values first: often tighter than the order of the steps, and quadratic. */
static void place_by_size(const rdt_lifetime *l, int n, rdt_arena *out, size_t *place) {
  size_t end = 0;
  for (int v = 0; v < n; v++) place[v] = SIZE_MAX;
  for (;;) {
    int next = -1;
    for (int v = 0; v < n; v++)
      if (l[v].first >= 0 && place[v] == SIZE_MAX && (next < 0 || l[v].bytes > l[next].bytes)) next = v;
    if (next < 0) break;
    place[next] = lowest(l, place, n, l[next].first, l[next].last, l[next].bytes);
    if (place[next] + l[next].bytes > end) end = place[next] + l[next].bytes;
    if (end >= out->bytes) return;
  }
  out->bytes = end;
  memcpy(out->offset, place, (size_t)n * sizeof *place);
}

rdt_status rdt_arena_plan(rdt_lifetime *l, int n, int steps, rdt_arena *out, rdt_reason *why) {
  rdt_status status = RDT_ERR_NOMEM;
  holes h = {0};
  *out = (rdt_arena){.offset = rdt_calloc((size_t)n, sizeof *out->offset)};
  /* lists of the values that begin (head[step]) and end (head[steps + step]) with a step */
  int *head = rdt_alloc(2 * (size_t)steps, sizeof *head), *next = rdt_alloc(2 * (size_t)n, sizeof *next);
  if (!out->offset || !head || !next || !insert(&h, 0, (hole){0, SIZE_MAX})) {
    rdt_fail(why, status, "no memory to plan the activations' memory");
    goto out;
  }
  for (int i = 0; i < 2 * steps; i++) head[i] = -1;
  for (int v = n - 1; v >= 0; v--) {
    if (l[v].first < 0) continue;
    l[v].bytes = (l[v].bytes + ALIGN - 1) / ALIGN * ALIGN;
    next[v] = head[l[v].first];
    head[l[v].first] = v;
    next[n + v] = head[steps + l[v].last];
    head[steps + l[v].last] = v;
  }
  status = place(l, n, steps, head, next, &h, out, why);
  if (status == RDT_OK && out->bytes > out->live && n <= MOST_BY_SIZE) {
    size_t *offset = rdt_alloc((size_t)n, sizeof *offset);
    if (offset) place_by_size(l, n, out, offset);
    rdt_free(offset);
  }
out:
  rdt_free(h.list);
  rdt_free(head);
  rdt_free(next);
  if (status != RDT_OK) rdt_arena_clear(out);
  return status;
}

bool rdt_arena_gap(const rdt_arena *a, const rdt_lifetime *l, int n, int step, size_t bytes, size_t *offset) {
  if (bytes > a->bytes) return false;
  *offset = lowest(l, a->offset, n, step, step, bytes);
  return *offset <= a->bytes - bytes;
}

void rdt_arena_clear(rdt_arena *a) {
  rdt_free(a->offset);
  rdt_free(a->data);
  *a = (rdt_arena){0};
}
