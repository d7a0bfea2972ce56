#include "net/expand.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/load.h"

/* Nodes that one node and each of its inputs may become. The richest expansion there is needs half of it. */
enum { GROWTH = 24 };

static int fail(rdt_builder *b, rdt_status s, const char *text) {
  if (b->status == RDT_OK) b->status = rdt_node_fail(b->g, &b->from, b->why, s, "%s", text);
  return -1;
}

rdt_status rdt_build_fail(rdt_builder *b, rdt_status s, const char *text) {
  fail(b, s, text);
  return b->status;
}

static int no_memory(rdt_builder *b) {
  return fail(b, RDT_ERR_NOMEM, "no memory for what it is rewritten into");
}

int rdt_build_in(const rdt_builder *b, int i) {
  return i < b->from.n_in ? b->from.in[i] : -1;
}

/* "<from>/<what>", with a number behind it where the model has that name already; NULL without memory. */
static char *name_of(const rdt_builder *b, const char *what) {
  const size_t room = strlen(b->from.name) + strlen(what) + 24;
  char *name = rdt_alloc(room, 1);
  if (!name) return NULL;
  snprintf(name, room, "%s/%s", b->from.name, what);
  for (unsigned i = 2; rdt_names_find(&b->names, name) >= 0; i++)
    snprintf(name, room, "%s/%s_%u", b->from.name, what, i);
  return name;
}

static bool make_room(rdt_builder *b) {
  rdt_graph *g = b->g;
  if (g->n_nodes < b->room) return true;
  const int more = b->room ? 2 * b->room : 8;
  rdt_node *grown = rdt_grow(g->nodes, (size_t)g->n_nodes, (size_t)more, sizeof *grown);
  if (!grown) return false;
  g->nodes = grown;
  b->room = more;
  return true;
}

int rdt_build_node(rdt_builder *b, const char *op, const char *what, const int *in, int n_in) {
  rdt_graph *g = b->g;
  const rdt_op_row *row = rdt_op_find(op);
  char text[160];
  if (b->status != RDT_OK) return -1;
  while (n_in > 0 && in[n_in - 1] < 0) n_in--;
  if (!row || n_in < row->min_in || (row->max_in >= 0 && n_in > row->max_in)) {
    snprintf(text, sizeof text, "is rewritten into %.60s of %d inputs, which is not available", op, n_in);
    return fail(b, row ? RDT_ERR_INTERNAL : RDT_ERR_UNSUPPORTED, text);
  }
  if (g->n_nodes >= b->most) return fail(b, RDT_ERR_INTERNAL, "is rewritten into ever more nodes");
  if (!make_room(b)) return no_memory(b);
  rdt_node *n = &g->nodes[g->n_nodes];
  *n = (rdt_node){.op = row, .n_in = n_in, .n_out = 1, .residual = -1};
  b->last = g->n_nodes++;
  const size_t room = strlen(b->from.label) + strlen(op) + 2;
  n->name = name_of(b, what);
  n->label = rdt_alloc(room, 1);
  n->in = rdt_alloc((size_t)n_in, sizeof *n->in);
  n->out = rdt_alloc(1, sizeof *n->out);
  if (!n->name || !n->label || !n->in || !n->out || !rdt_names_add(&b->names, n->name, 0)) return no_memory(b);
  snprintf(n->label, room, "%s:%s", b->from.label, op);
  memcpy(n->in, in, (size_t)n_in * sizeof *in);
  n->out[0] = rdt_graph_add_value(g, n->name);
  if (n->out[0] < 0) return no_memory(b);
  g->values[n->out[0]].producer = b->last;
  return n->out[0];
}

/* ---- attributes ---- */

static bool copy_attr(const rdt_attr *from, rdt_attr *to) {
  *to = (rdt_attr){.type = from->type, .i = from->i, .f = from->f, .n = from->n, .name = rdt_strdup(from->name)};
  const size_t n = (size_t)from->n;
  if (from->s) to->s = rdt_strdup(from->s);
  if (from->ints) to->ints = rdt_alloc(n, sizeof *to->ints);
  if (from->floats) to->floats = rdt_alloc(n, sizeof *to->floats);
  if (to->ints) memcpy(to->ints, from->ints, n * sizeof *to->ints);
  if (to->floats) memcpy(to->floats, from->floats, n * sizeof *to->floats);
  return to->name && !to->s == !from->s && !to->ints == !from->ints && !to->floats == !from->floats;
}

static void add_attr(rdt_builder *b, const rdt_attr *from) {
  if (b->status != RDT_OK) return;
  rdt_node *n = &b->g->nodes[b->last];
  rdt_attr *attrs = rdt_grow(n->attrs, (size_t)n->n_attrs, (size_t)n->n_attrs + 1, sizeof *attrs);
  if (!attrs) {
    no_memory(b);
    return;
  }
  n->attrs = attrs;
  if (!copy_attr(from, &attrs[n->n_attrs++])) no_memory(b); /* also a half-copied one counts, so that it is freed */
}

void rdt_build_int(rdt_builder *b, const char *name, int64_t value) {
  add_attr(b, &(rdt_attr){.name = (char *)name, .type = RDT_ATTR_INT, .i = value});
}

void rdt_build_ints(rdt_builder *b, const char *name, int n, const int64_t *values) {
  add_attr(b, &(rdt_attr){.name = (char *)name, .type = RDT_ATTR_INTS, .n = n, .ints = (int64_t *)values});
}

void rdt_build_same_attrs(rdt_builder *b) {
  for (int i = 0; i < b->from.n_attrs; i++) add_attr(b, &b->from.attrs[i]);
}

/* ---- constants ---- */

int rdt_build_constant(rdt_builder *b, const char *what, rdt_dtype dtype, int rank, const int64_t *shape,
                       const void *data) {
  if (b->status != RDT_OK) return -1;
  rdt_tensor t = rdt_tensor_dense(NULL, dtype, rank, shape);
  const size_t count = (size_t)rdt_tensor_count(&t), size = rdt_dtype_size(dtype);
  char *name = name_of(b, what);
  t.data = rdt_alloc(count, size);
  const int v = name && t.data ? rdt_graph_add_value(b->g, name) : -1;
  rdt_free(name);
  if (v < 0) {
    rdt_free(t.data);
    return no_memory(b);
  }
  memcpy(t.data, data, count * size);
  rdt_value_hold(&b->g->values[v], &t);
  return v;
}

int rdt_build_scalar(rdt_builder *b, const char *what, rdt_dtype dtype, double value) {
  double data;
  rdt_store(&data, dtype, 0, value);
  return rdt_build_constant(b, what, dtype, 0, NULL, &data);
}

int rdt_build_like(rdt_builder *b, const char *what, double value, int v) {
  if (v >= 0 && b->g->values[v].typed) return rdt_build_scalar(b, what, b->g->values[v].dtype, value);
  return rdt_build(b, "CastLike", what, rdt_build_scalar(b, what, RDT_F64, value), v);
}

/* ---- the pass ---- */

static rdt_status expand(rdt_builder *b, int node) {
  rdt_graph *g = b->g;
  b->from = g->nodes[node];
  b->result = -1;
  RDT_TRY(b->from.op->expand(b));
  if (b->status != RDT_OK) return b->status;
  if (b->result < 0)
    return b->from.op->lower ? RDT_OK : rdt_build_fail(b, RDT_ERR_INTERNAL, "is rewritten into nothing");
  const int producer = g->values[b->result].producer, out = b->from.out[0];
  if (producer < 0) return rdt_build_fail(b, RDT_ERR_INTERNAL, "is rewritten into what no node computes");
  g->nodes[producer].out[0] = out; /* the value of its own is left to nobody, and goes when the graph is compacted */
  g->values[b->result].producer = -1;
  g->values[out].producer = producer;
  g->nodes[node].op = NULL;
  return RDT_OK;
}

rdt_status rdt_graph_expand(rdt_graph *g, rdt_reason *why) {
  rdt_builder b = {.g = g, .room = g->n_nodes, .why = why};
  int64_t most = 0;
  rdt_status status = RDT_OK;
  for (int i = 0; i < g->n_nodes && status == RDT_OK; i++) {
    most += GROWTH * (1 + (int64_t)g->nodes[i].n_in);
    if (!rdt_names_add(&b.names, g->nodes[i].name, 0))
      status = rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", g->path);
  }
  b.most = most < INT32_MAX / 4 ? (int)most : INT32_MAX / 4;
  for (int i = 0; i < g->n_nodes && status == RDT_OK; i++) /* nodes are added at the end, and get their turn */
    if (g->nodes[i].op->expand) status = expand(&b, i);
  rdt_names_clear(&b.names);
  for (int i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i].op) rdt_node_clear(&g->nodes[i]);
  return status;
}
