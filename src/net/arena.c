/* One block of memory for all activations: values that are never needed at the same time share a place. */
#include "net/arena.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory.h"

enum { ALIGN = 64 }; /* a cache line and the widest vector */
enum { MOST_BY_SIZE = 1 << 15 };

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

static int in_order(const void *a, const void *b) {
  const rdt_place *x = a, *y = b;
  return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->value > y->value) - (x->value < y->value);
}

/* The values that need a place, sorted: by where they are, or, where nobody knows yet, the largest first. */
static int sort(const rdt_lifetime *l, int n, const size_t *offset, rdt_place *list) {
  int count = 0;
  for (int v = 0; v < n; v++)
    if (l[v].first >= 0) list[count++] = (rdt_place){offset ? offset[v] : SIZE_MAX - l[v].bytes, v};
  qsort(list, (size_t)count, sizeof *list, in_order);
  return count;
}

/* The lowest place where nothing lies that is needed at any step from first to last. placed: sorted by place. */
static size_t lowest(const rdt_lifetime *l, const rdt_place *placed, int n, int first, int last, size_t bytes) {
  size_t at = 0;
  for (int i = 0; i < n; i++) {
    const rdt_lifetime *other = &l[placed[i].value];
    if (last < other->first || first > other->last) continue;
    if (placed[i].at >= at + bytes) break;
    if (placed[i].at + other->bytes > at) at = placed[i].at + other->bytes;
  }
  return at;
}

/* Largest values first: often tighter than the order of the steps, and quadratic. Both lists have room for all. */
static void place_by_size(const rdt_lifetime *l, int n, rdt_arena *out, rdt_place *order, rdt_place *placed) {
  const int count = sort(l, n, NULL, order);
  size_t end = 0;
  for (int i = 0; i < count; i++) {
    const rdt_lifetime *value = &l[order[i].value];
    const size_t at = lowest(l, placed, i, value->first, value->last, value->bytes);
    int k = i;
    while (k > 0 && placed[k - 1].at > at) k--;
    memmove(&placed[k + 1], &placed[k], (size_t)(i - k) * sizeof *placed);
    placed[k] = (rdt_place){at, order[i].value};
    if (at + value->bytes > end) end = at + value->bytes;
    if (end >= out->bytes) return;
  }
  out->bytes = end;
  for (int i = 0; i < count; i++) out->offset[placed[i].value] = placed[i].at;
}

rdt_status rdt_arena_plan(rdt_lifetime *l, int n, int steps, rdt_arena *out, rdt_reason *why) {
  rdt_status status = RDT_ERR_NOMEM;
  holes h = {0};
  *out = (rdt_arena){.offset = rdt_calloc((size_t)n, sizeof *out->offset),
                     .placed = rdt_alloc((size_t)n, sizeof *out->placed)};
  /* lists of the values that begin (head[step]) and end (head[steps + step]) with a step */
  int *head = rdt_alloc(2 * (size_t)steps, sizeof *head), *next = rdt_alloc(2 * (size_t)n, sizeof *next);
  if (!out->offset || !out->placed || !head || !next || !insert(&h, 0, (hole){0, SIZE_MAX})) {
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
    rdt_place *order = rdt_alloc((size_t)n, sizeof *order);
    if (order) place_by_size(l, n, out, order, out->placed);
    rdt_free(order);
  }
  if (status == RDT_OK) out->n_placed = sort(l, n, out->offset, out->placed);
out:
  rdt_free(h.list);
  rdt_free(head);
  rdt_free(next);
  if (status != RDT_OK) rdt_arena_clear(out);
  return status;
}

bool rdt_arena_gap(const rdt_arena *a, const rdt_lifetime *l, int step, size_t bytes, size_t *offset) {
  if (bytes > a->bytes) return false;
  *offset = lowest(l, a->placed, a->n_placed, step, step, bytes);
  return *offset <= a->bytes - bytes;
}

void rdt_arena_clear(rdt_arena *a) {
  rdt_free(a->offset);
  rdt_free(a->placed);
  rdt_free(a->data);
  *a = (rdt_arena){0};
}
