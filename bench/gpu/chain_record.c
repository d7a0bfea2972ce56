#include <math.h>
#include <string.h>

#include "chain_network.h"

const chain_way *chain_way_of(const network *n, chain_side which, int i) {
  return &n->what[i]->way[which][n->pick[which][i]];
}

double chain_sum_of(const network *n, chain_side which) { /* of launches by themselves */
  double us = 0.0;
  for (int i = 0; i < n->count; i++) us += n->times[i] * chain_way_of(n, which, i)->us;
  for (int i = 0; i < n->n_runs[which]; i++) us += n->runs[which][i].us - n->runs[which][i].apart;
  return us;
}

static const char *const sides_names[CHAIN_SIDES] = {"cublas", "plain", "protected"};

void chain_print(const network *n, bool faults) {
  const turns *g = n->graphs;
  printf(
      "%-24s %3d layers x %2d: cuBLAS %8.2f us, own %8.2f, protected %8.2f: / cuBLAS %.3f, / own %.3f; alone %.1f %.1f "
      "%.1f; %.0f MHz\n",
      n->name, n->layers, n->repeat, 1e6 * turns_at(&g[0], 0.5), 1e6 * turns_at(&g[1], 0.5), 1e6 * turns_at(&g[2], 0.5),
      turns_ratio(&g[2], &g[0]), turns_ratio(&g[2], &g[1]), chain_sum_of(n, 0), chain_sum_of(n, 1), chain_sum_of(n, 2),
      n->mhz);
  const chain_tally *t = &n->tally;
  if (faults)
    printf(
        "  %lld faults, %lld found, %lld above the floor, %lld of them missed; %lld repaired, %lld changed nothing; "
        "%lld "
        "not planted; %lld wrong\n",
        (long long)t->planted, (long long)t->found, (long long)t->above, (long long)t->missed, (long long)t->repaired,
        (long long)t->unchanged, (long long)t->elsewhere, (long long)t->wrong);
  for (chain_side j = CHAIN_PLAIN; j < CHAIN_SIDES; j++)
    for (int i = 0; i < n->n_runs[j]; i++) {
      const chain_run *r = &n->runs[j][i];
      printf("  %s: layers %d to %d as one launch, %.2f us, by themselves %.2f\n", sides_names[j], r->first,
             r->first + r->length - 1, r->us, r->apart);
    }
  for (int i = 0; i < n->count; i++) {
    const choice *c = n->what[i];
    const chain_way *w[CHAIN_SIDES];
    for (chain_side j = CHAIN_LIBRARY; j < CHAIN_SIDES; j++) w[j] = chain_way_of(n, j, i);
    if (w[CHAIN_PROTECTED]->us > w[CHAIN_LIBRARY]->us)
      printf("  %3d x %6d x %5d x %5d: %s %.2f, %s %.2f, %s %.2f: %.2f\n", n->times[i], c->shape.m, c->shape.n,
             c->shape.k, w[0]->name, w[0]->us, w[1]->name, w[1]->us, w[2]->name, w[2]->us, w[2]->us / w[0]->us);
  }
  fflush(stdout);
}

void chain_put(FILE *record, const network *n, bool faults) {
  static int before;
  if (!record) return;
  fprintf(record, "%s\n  {\"name\": \"%s\", \"layers\": %d, \"repeat\": %d, \"mhz\": %.0f", before++ ? "," : "",
          n->name, n->layers, n->repeat, isnan(n->mhz) ? 0.0 : n->mhz);
  for (int i = 0; i < CHAIN_SIDES; i++) {
    fprintf(record, ", \"%s\": {", sides_names[i]);
    turns_put(record, &n->graphs[i]);
    fprintf(record, "}");
  }
  const chain_tally *t = &n->tally;
  if (faults)
    fprintf(record,
            ",\n   \"faults\": {\"planted\": %lld, \"found\": %lld, \"above_floor\": %lld, \"missed\": %lld, "
            "\"repaired\": %lld, \"unchanged\": %lld, \"elsewhere\": %lld}",
            (long long)t->planted, (long long)t->found, (long long)t->above, (long long)t->missed,
            (long long)t->repaired, (long long)t->unchanged, (long long)t->elsewhere);
  fprintf(record, ", \"ratio\": %.4f, \"overhead\": %.4f,\n   \"shapes\": [",
          turns_ratio(&n->graphs[CHAIN_PROTECTED], &n->graphs[CHAIN_LIBRARY]),
          turns_ratio(&n->graphs[CHAIN_PROTECTED], &n->graphs[CHAIN_PLAIN]));
  for (int i = 0; i < n->count; i++) {
    const choice *c = n->what[i];
    fprintf(record, "%s\n    {\"m\": %d, \"n\": %d, \"k\": %d, \"times\": %d", i ? "," : "", c->shape.m, c->shape.n,
            c->shape.k, n->times[i]);
    for (chain_side j = CHAIN_LIBRARY; j < CHAIN_SIDES; j++)
      fprintf(record, ", \"%s\": {\"way\": \"%s\", \"scheme\": \"%s\", \"us\": %.3f}", sides_names[j],
              chain_way_of(n, j, i)->name, chain_scheme(chain_way_of(n, j, i)), chain_way_of(n, j, i)->us);
    fprintf(record, "}");
  }
  fprintf(record, "],\n   \"runs\": {");
  for (chain_side j = CHAIN_PLAIN; j < CHAIN_SIDES; j++) {
    fprintf(record, "%s\"%s\": [", j > CHAIN_PLAIN ? ", " : "", sides_names[j]);
    for (int i = 0; i < n->n_runs[j]; i++) {
      const chain_run *r = &n->runs[j][i];
      fprintf(record, "%s{\"first\": %d, \"layers\": %d, \"scheme\": \"%s\", \"us\": %.3f, \"apart_us\": %.3f}",
              i ? ", " : "", r->first, r->length, j == CHAIN_PROTECTED ? "replicate" : "none", r->us, r->apart);
    }
    fprintf(record, "]");
  }
  fprintf(record, "}}");
}
