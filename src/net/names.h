/* A set of names, each with a number: open addressing, no removal. Names are kept by reference. */
#ifndef RDT_NET_NAMES_H
#define RDT_NET_NAMES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rdt_names {
  struct rdt_names_slot {
    const char *name;
    int number;
  } * slots;
  size_t n_slots, n;
} rdt_names;

int rdt_names_find(const rdt_names *t, const char *name);       /* -1 if there is none */
bool rdt_names_add(rdt_names *t, const char *name, int number); /* name must not be in it; false without memory */
void rdt_names_clear(rdt_names *t);

#endif
