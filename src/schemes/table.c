#include <stdio.h>
#include <string.h>

#include "schemes/scheme.h"

/* What stands between the kernel's raw result and the next node is guarded whatever the scheme; so is what checks. */
#define AROUND "input epilogue output comparison counter verdict plan recovery "
#define TWICE AROUND "weight packed accum nonlinear"
#define THRICE TWICE " vote"
#define SUMS AROUND "weight packed accum checksum sum bound"
static const rdt_scheme_info table[] = {
#define X(id, name, ops, detects, locates, granularity, coverage, weights, packed, sets, forms, claims, impl, text) \
  {RDT_SCHEME_##id, name,   ops,  detects, locates, granularity, coverage,                                          \
   weights,         packed, sets, forms,   claims,  impl,        text},
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

const rdt_scheme_info *rdt_scheme_parse(const char *text, int *sets) {
  const char *colon = strchr(text, ':');
  char name[RDT_SCHEME_TEXT];
  *sets = 1;
  if (!colon) return rdt_scheme_find(text);
  if ((size_t)(colon - text) >= sizeof name || colon[1] < '1' || colon[1] > '9' || colon[2]) return NULL;
  snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
  const rdt_scheme_info *s = rdt_scheme_find(name);
  *sets = colon[1] - '0';
  return s && s->sets > 1 && *sets <= s->sets ? s : NULL;
}

void rdt_scheme_name(const rdt_scheme_info *s, int sets, char text[RDT_SCHEME_TEXT]) {
  snprintf(text, RDT_SCHEME_TEXT, sets > 1 ? "%s:%d" : "%s", s->name, sets);
}

bool rdt_scheme_claims(const rdt_scheme_info *s, rdt_site site) {
  const char *name = rdt_site_name(site);
  const size_t n = strlen(name);
  for (const char *at = strstr(s->claims, name); at; at = strstr(at + 1, name))
    if ((at == s->claims || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
  return false;
}

bool rdt_scheme_serves(const rdt_scheme_info *s, rdt_kop op) {
  const char letter = op == RDT_KOP_GEMM ? 'G' : op == RDT_KOP_CONV ? 'C' : 'O';
  return strchr(s->ops, '*') || strchr(s->ops, letter);
}
