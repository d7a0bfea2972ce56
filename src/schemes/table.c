#include <string.h>

#include "schemes/scheme.h"

static const rdt_scheme_info table[] = {
#define X(id, name, ops, detects, locates, granularity, weights, packed, impl, text) \
  {RDT_SCHEME_##id, name, ops, detects, locates, granularity, weights, packed, impl, text},
#include "schemes/schemes.def"
#undef X
};

const rdt_scheme_info *rdt_scheme_table(int *n) {
  *n = RDT_SCHEME_COUNT;
  return table;
}

const rdt_scheme_info *rdt_scheme_find(const char *name) {
  for (int i = 0; i < RDT_SCHEME_COUNT; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}

bool rdt_scheme_serves(const rdt_scheme_info *s, rdt_kop op) {
  const char letter = op == RDT_KOP_GEMM ? 'G' : op == RDT_KOP_CONV ? 'C' : 'O';
  return strchr(s->ops, '*') || strchr(s->ops, letter);
}
