#include "net/names.h"

#include <stdint.h>
#include <string.h>

#include "core/memory.h"

static size_t slot_of(const rdt_names *t, const char *name) {
  uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
  for (const unsigned char *p = (const unsigned char *)name; *p; p++) h = (h ^ *p) * 0x100000001b3u;
  size_t i = (size_t)(h ^ (h >> 32)) & (t->n_slots - 1);
  while (t->slots[i].name && strcmp(t->slots[i].name, name) != 0) i = (i + 1) & (t->n_slots - 1);
  return i;
}

int rdt_names_find(const rdt_names *t, const char *name) {
  if (t->n_slots == 0) return -1;
  const struct rdt_names_slot *s = &t->slots[slot_of(t, name)];
  return s->name ? s->number : -1;
}

bool rdt_names_add(rdt_names *t, const char *name, int number) {
  if (2 * (t->n + 1) > t->n_slots) {
    rdt_names grown = {.n_slots = t->n_slots ? 2 * t->n_slots : 64, .n = t->n};
    grown.slots = rdt_calloc(grown.n_slots, sizeof *grown.slots);
    if (!grown.slots) return false;
    for (size_t i = 0; i < t->n_slots; i++)
      if (t->slots[i].name) grown.slots[slot_of(&grown, t->slots[i].name)] = t->slots[i];
    rdt_free(t->slots);
    *t = grown;
  }
  t->slots[slot_of(t, name)] = (struct rdt_names_slot){name, number};
  t->n++;
  return true;
}

void rdt_names_clear(rdt_names *t) {
  rdt_free(t->slots);
  *t = (rdt_names){0};
}
