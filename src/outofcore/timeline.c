#include "outofcore/timeline.h"

#include "core/memory.h"

void rdt_timeline_add(rdt_timeline *t, const rdt_span *s) {
  if (!t) return;
  if (t->n == t->room && t->room < RDT_TIMELINE_MOST) {
    const int64_t room = t->room ? 2 * t->room : 256;
    rdt_span *grown = rdt_grow(t->list, (size_t)t->room, (size_t)room, sizeof *grown);
    if (grown) t->list = grown, t->room = room;
  }
  if (t->n < t->room)
    t->list[t->n++] = *s;
  else
    t->lost++;
}

void rdt_timeline_clear(rdt_timeline *t) {
  rdt_free(t->list);
  *t = (rdt_timeline){0};
}
