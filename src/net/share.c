/* Nodes that compute the same from the same become one: exporters repeat themselves, and so do operators that are
 * rewritten output by output. */
#include <string.h>

#include "core/memory.h"
#include "net/load.h"

/* Constants up to this size are compared. */
enum { SMALL = 64, EMPTY = -1 };

typedef struct table {
  int *slots; /* numbers of values or nodes */
  size_t mask;
} table;

static uint64_t mix(uint64_t h, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 0x100000001b3u; /* FNV-1a */
  return h;
}

static uint64_t hash_value(const rdt_value *v) {
  return mix(0xcbf29ce484222325u, v->data, v->bytes);
}

static uint64_t hash_node(const rdt_node *n) {
  uint64_t h = mix(0xcbf29ce484222325u, n->op->name, strlen(n->op->name));
  h = mix(h, &n->output, sizeof n->output);
  return mix(h, n->in, (size_t)n->n_in * sizeof *n->in);
}

static bool same_value(const rdt_value *a, const rdt_value *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes;
  for (int d = 0; same && d < a->rank; d++) same = a->shape[d] == b->shape[d];
  return same && memcmp(a->data, b->data, a->bytes) == 0;
}

static bool same_attr(const rdt_attr *a, const rdt_attr *b) {
  const size_t n = (size_t)a->n;
  if (!b || a->type != b->type || a->n != b->n || a->i != b->i) return false;
  if (a->type == RDT_ATTR_TENSOR || memcmp(&a->f, &b->f, sizeof a->f) != 0) return false; /* tensors are not compared */
  if (a->s && strcmp(a->s, b->s) != 0) return false;
  if (a->ints && memcmp(a->ints, b->ints, n * sizeof *a->ints) != 0) return false;
  return !a->floats || memcmp(a->floats, b->floats, n * sizeof *a->floats) == 0;
}

static bool same_node(const rdt_node *a, const rdt_node *b) {
  bool same = a->op == b->op && a->output == b->output && a->outputs == b->outputs && a->n_in == b->n_in &&
              a->n_attrs == b->n_attrs;
  same = same && memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0;
  for (int i = 0; same && i < a->n_attrs; i++) same = same_attr(&a->attrs[i], rdt_node_attr(b, a->attrs[i].name));
  return same;
}

static bool make_table(table *t, int n) {
  t->mask = 1;
  while (t->mask < 2 * (size_t)n + 1) t->mask *= 2;
  t->slots = rdt_alloc(t->mask, sizeof *t->slots);
  for (size_t i = 0; t->slots && i < t->mask; i++) t->slots[i] = EMPTY;
  return t->slots && t->mask--;
}

/* The first constant like v, which may be v itself. */
static int first_value(const rdt_graph *g, table *t, int v) {
  size_t i = hash_value(&g->values[v]) & t->mask;
  while (t->slots[i] != EMPTY && !same_value(&g->values[t->slots[i]], &g->values[v])) i = (i + 1) & t->mask;
  return t->slots[i] == EMPTY ? t->slots[i] = v : t->slots[i];
}

static int first_node(const rdt_graph *g, table *t, int n) {
  const uint64_t h = hash_node(&g->nodes[n]);
  size_t i = (h ^ h >> 32) & t->mask;
  while (t->slots[i] != EMPTY && !same_node(&g->nodes[t->slots[i]], &g->nodes[n])) i = (i + 1) & t->mask;
  return t->slots[i] == EMPTY ? t->slots[i] = n : t->slots[i];
}

static void share(rdt_graph *g, table *values, table *nodes, int *same, const bool *output) {
  for (int v = 0; v < g->n_values; v++) {
    const rdt_value *c = &g->values[v];
    same[v] = c->data && c->bytes <= SMALL && c->bytes > 0 ? first_value(g, values, v) : v;
  }
  for (int i = 0; i < g->n_nodes; i++) {
    rdt_node *n = &g->nodes[i];
    if (!n->op) continue;
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0) n->in[k] = same[n->in[k]];
    const int first = first_node(g, nodes, i);
    if (first == i || output[n->out[0]]) continue;
    same[n->out[0]] = g->nodes[first].out[0];
    rdt_node_clear(n);
  }
}

rdt_status rdt_graph_share(rdt_graph *g, rdt_reason *why) {
  table values = {0}, nodes = {0};
  int *same = rdt_alloc((size_t)g->n_values, sizeof *same);
  bool *output = rdt_calloc((size_t)g->n_values, sizeof *output);
  const bool room = same && output && make_table(&values, g->n_values) && make_table(&nodes, g->n_nodes);
  for (int i = 0; room && i < g->n_outputs; i++) output[g->outputs[i]] = true;
  if (room) share(g, &values, &nodes, same, output);
  rdt_free(values.slots);
  rdt_free(nodes.slots);
  rdt_free(same);
  rdt_free(output);
  return room ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", g->path);
}
