#include "outofcore/timeline.h"

#include "core/memory.h"

void rdt_timeline_add(rdt_timeline *t, const rdt_span *s) {
  if (!t) return;
  if (!t->list && t->lost == 0) { /* all at once: lists that grow would be there twice */
    t->room = t->most > 0 ? t->most : RDT_TIMELINE_MOST;
    t->list = rdt_alloc((size_t)t->room, sizeof *t->list);
    if (!t->list) t->room = 0;
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
