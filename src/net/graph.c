#include "net/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/load.h"
#include "net/ops/ops.h"

static const rdt_op_row rows[] = {
#define AND ,
#define X(name, since, min_in, max_in, max_out, how, fn, protection, layout, planned) \
  {#name, since, min_in, max_in, max_out, RDT_FN_##fn, RDT_PROTECT_##protection, RDT_LAYOUT_##layout, planned, how},
#include "net/ops.def"
#undef X
#undef AND
};

rdt_status rdt_node_fail(const rdt_graph *g, const rdt_node *n, rdt_reason *why, rdt_status s, const char *format,
                         ...) {
  rdt_reason text; /* the arguments may lie in *why */
  va_list args;
  va_start(args, format);
  vsnprintf(text.text, sizeof text.text, format, args);
  va_end(args);
  return rdt_fail(why, s, "%.120s: node '%.80s' (%s): %.280s", g->path[0] ? g->path : "model", n->name,
                  n->op ? n->op->name : "?", text.text);
}

const rdt_op_row *rdt_op_table(int *n) {
  *n = (int)(sizeof rows / sizeof rows[0]);
  return rows;
}

const rdt_op_row *rdt_op_find(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

void rdt_node_clear(rdt_node *n) {
  rdt_free(n->name);
  rdt_free(n->label);
  rdt_free(n->in);
  rdt_free(n->out);
  for (int i = 0; i < n->n_attrs; i++) {
    rdt_free(n->attrs[i].name);
    rdt_free(n->attrs[i].s);
    rdt_free(n->attrs[i].ints);
    rdt_free(n->attrs[i].floats);
  }
  rdt_free(n->attrs);
  *n = (rdt_node){.residual = -1};
}

static void free_data(rdt_value *c) {
  if (c->lazy && c->data) {
    rdt_reserve_free(c->data, c->bytes);
    if (c->holders > 0) rdt_memory_book(c->bytes, false);
  } else if (!c->origin.mapped) {
    rdt_free(c->data);
  }
  rdt_free(c->origin.factor);
  rdt_free(c->origin.parts);
  rdt_free(c->tile_sums);
  c->tile_sums = NULL;
  c->data = NULL;
  c->origin.factor = NULL;
  c->origin.parts = NULL;
}

static void value_clear(rdt_value *v) {
  rdt_free(v->name);
  free_data(v);
  *v = (rdt_value){.rank = -1, .producer = -1, .origin = {.map = -1}};
}

void rdt_graph_free(rdt_graph *g) {
  if (!g) return;
  for (int i = 0; i < g->n_values; i++) value_clear(&g->values[i]);
  for (int i = 0; i < g->n_nodes; i++) rdt_node_clear(&g->nodes[i]);
  rdt_free(g->values);
  rdt_free(g->nodes);
  rdt_free(g->inputs);
  rdt_free(g->outputs);
  rdt_maps_clear(&g->maps);
  for (size_t i = 0; i < g->replaced.n; i++) rdt_free(g->replaced.name[i]);
  rdt_free(g->replaced.name);
  rdt_free(g->path);
  rdt_free(g);
}

int rdt_graph_find(const rdt_graph *g, const char *value_name) {
  for (int i = 0; i < g->n_values; i++)
    if (strcmp(g->values[i].name, value_name) == 0) return i;
  return -1;
}

int rdt_graph_add_value(rdt_graph *g, const char *name) {
  /* Capacity doubles: it is full exactly where the count is 0 or a power of two. */
  if ((g->n_values & (g->n_values - 1)) == 0) {
    if (g->n_values > INT32_MAX / 4) return -1;
    const size_t more = g->n_values ? 2 * (size_t)g->n_values : 1;
    rdt_value *grown = rdt_grow(g->values, (size_t)g->n_values, more, sizeof *grown);
    if (!grown) return -1;
    g->values = grown;
  }
  rdt_value *v = &g->values[g->n_values];
  *v = (rdt_value){.name = rdt_strdup(name), .rank = -1, .producer = -1, .origin = {.map = -1}};
  return v->name ? g->n_values++ : -1;
}

void rdt_value_hold(rdt_value *v, const rdt_tensor *t) {
  v->dtype = t->dtype;
  v->typed = true;
  v->rank = t->rank;
  memcpy(v->shape, t->shape, sizeof v->shape);
  v->data = t->data;
  v->bytes = (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
  v->producer = -1;
}

/* Depth-first from each node in file order: a file that is sorted keeps its order. */
typedef enum { WHITE = 0, GREY, BLACK } color;

rdt_status rdt_graph_sort(rdt_graph *g, rdt_reason *why) {
  const size_t n = (size_t)g->n_nodes;
  rdt_status status = RDT_ERR_NOMEM;
  rdt_node *sorted = rdt_calloc(n, sizeof *sorted);
  unsigned char *mark = rdt_calloc(n, 1);
  int *stack = rdt_alloc(n, sizeof *stack), *next = rdt_calloc(n, sizeof *next), *place = rdt_alloc(n, sizeof *place);
  int done = 0;
  if (!sorted || !mark || !stack || !next || !place) goto out;
  for (int root = 0; root < g->n_nodes; root++) {
    int depth = 0;
    if (mark[root] == BLACK) continue;
    stack[depth++] = root;
    mark[root] = GREY;
    while (depth > 0) {
      const int at = stack[depth - 1];
      const rdt_node *node = &g->nodes[at];
      int before = -1;
      while (next[at] < node->n_in && before < 0) {
        const int v = node->in[next[at]++];
        if (v >= 0 && g->values[v].producer >= 0 && mark[g->values[v].producer] != BLACK)
          before = g->values[v].producer;
      }
      if (before >= 0 && mark[before] == GREY) {
        status = rdt_node_fail(g, node, why, RDT_ERR_FORMAT, "the graph is cyclic: this node needs its own result");
        goto out;
      }
      if (before >= 0) {
        mark[before] = GREY;
        stack[depth++] = before;
      } else {
        mark[at] = BLACK;
        place[at] = done;
        sorted[done++] = *node;
        depth--;
      }
    }
  }
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].producer >= 0) g->values[v].producer = place[g->values[v].producer];
  memcpy(g->nodes, sorted, n * sizeof *sorted);
  status = RDT_OK;
out:
  rdt_free(sorted);
  rdt_free(mark);
  rdt_free(stack);
  rdt_free(next);
  rdt_free(place);
  return status;
}

static void renumber(int *list, int n, const int *to) {
  for (int i = 0; i < n; i++)
    if (list[i] >= 0) list[i] = to[list[i]];
}

/* Marks the values that outputs need, from the last node to the first; dead nodes lose their row. */
static void mark_live(rdt_graph *g, unsigned char *live) {
  for (int i = 0; i < g->n_inputs; i++) live[g->inputs[i]] = 1;
  for (int i = 0; i < g->n_outputs; i++) live[g->outputs[i]] = 1;
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    rdt_node *n = &g->nodes[i];
    if (!n->op || !live[n->out[0]]) {
      rdt_node_clear(n);
      continue;
    }
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0) live[n->in[k]] = 1;
    if (n->residual >= 0) live[n->residual] = 1;
  }
}

rdt_status rdt_graph_compact(rdt_graph *g) {
  unsigned char *live = rdt_calloc((size_t)g->n_values, 1);
  int *to = rdt_alloc((size_t)g->n_values, sizeof *to);
  if (!live || !to) {
    rdt_free(live);
    rdt_free(to);
    return RDT_ERR_NOMEM;
  }
  mark_live(g, live);
  int values = 0, nodes = 0;
  for (int v = 0; v < g->n_values; v++) {
    to[v] = live[v] ? values : -1;
    if (!live[v])
      value_clear(&g->values[v]);
    else
      g->values[values++] = g->values[v];
  }
  g->n_values = values;
  for (int i = 0; i < g->n_nodes; i++) {
    if (!g->nodes[i].op) continue;
    rdt_node *n = &g->nodes[nodes];
    *n = g->nodes[i];
    renumber(n->in, n->n_in, to);
    renumber(n->out, n->n_out, to);
    renumber(&n->residual, 1, to);
    g->values[n->out[0]].producer = nodes++;
  }
  g->n_nodes = nodes;
  renumber(g->inputs, g->n_inputs, to);
  renumber(g->outputs, g->n_outputs, to);
  rdt_free(live);
  rdt_free(to);
  return RDT_OK;
}

const rdt_attr *rdt_node_attr(const rdt_node *n, const char *name) {
  for (int i = 0; i < n->n_attrs; i++)
    if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
  return NULL;
}

int64_t rdt_node_int(const rdt_node *n, const char *name, int64_t usual) {
  const rdt_attr *a = rdt_node_attr(n, name);
  return a ? a->i : usual;
}

rdt_attr *rdt_attr_int(const char *name, int64_t value) {
  rdt_attr *a = rdt_calloc(1, sizeof *a);
  if (!a) return NULL;
  *a = (rdt_attr){.name = rdt_strdup(name), .type = RDT_ATTR_INT, .i = value};
  if (a->name) return a;
  rdt_free(a);
  return NULL;
}
