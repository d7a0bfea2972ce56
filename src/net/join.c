/* Products of one input by several constants of one shape (the queries, keys and values of attention) become one
 * product by all of them side by side, of which each reader has its columns: the input is read, and checked, once. Only
 * where all readers are products, which take columns of a wider matrix as they lie, through views that move nothing. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/constant.h"
#include "net/load.h"
#include "net/ops/ops.h"

enum { MOST = 8 /* products that become one */, NEAR = 64, DEEP = 8 }; /* no file makes the search long */

typedef struct edge { /* node reads a value as its operand; -1: as its residual */
  int node, operand, next;
} edge;

typedef struct joiner {
  rdt_graph *g;
  const rdt_tensor *views; /* shapes of what nodes write */
  edge *edges;
  int *first;                     /* by value: its edges, in the order of nodes; -1 ends */
  int *readers;                   /* by value, with the graph's outputs */
  rdt_node *after;                /* by node: what comes behind it */
  int n_values, n_nodes, n_after; /* values and nodes that there were */
  rdt_reason *why;
} joiner;

static rdt_status no_memory(const joiner *j) {
  return rdt_fail(j->why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", j->g->path);
}

static int edges_of(const rdt_graph *g) {
  int n = 0;
  for (int i = 0; i < g->n_nodes; i++) n += g->nodes[i].n_in + 1;
  return n;
}

static void list_edges(joiner *j) {
  const rdt_graph *g = j->g;
  int at = 0;
  for (int v = 0; v < g->n_values; v++) j->first[v] = -1;
  for (int i = 0; i < g->n_outputs; i++) j->readers[g->outputs[i]]++;
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    const rdt_node *n = &g->nodes[i];
    for (int k = n->op ? n->n_in - 1 : -2; k >= -1; k--) {
      const int v = k < 0 ? n->residual : n->in[k];
      if (v < 0) continue;
      j->edges[at] = (edge){i, k, j->first[v]};
      j->first[v] = at++;
      j->readers[v]++;
    }
  }
}

/* ---- who may be joined ---- */

/* v, which lies as `seen` says (NULL: as something that was turned), goes to products alone, without being moved. */
static bool to_products(const joiner *j, int v, const rdt_tensor *seen, int depth) {
  int n = 0;
  if (depth > DEEP || j->readers[v] > NEAR) return false;
  for (int e = j->first[v]; e >= 0; e = j->edges[e].next, n++) {
    const rdt_node *r = &j->g->nodes[j->edges[e].node];
    const int k = j->edges[e].operand;
    rdt_tensor view;
    if (r->op->lower == rdt_op_matmul && (k == 0 || k == 1)) continue;
    if (r->op->protection == RDT_PROTECT_PLAN && r->op->planned == 0) continue; /* Shape: it asks for no element */
    if (k != 0 || r->output != 0 || j->g->values[r->out[0]].planned) return false;
    if (r->op->lower == rdt_op_transpose) {
      if (!to_products(j, r->out[0], NULL, depth + 1)) return false;
      continue;
    }
    const rdt_tensor *to = &j->views[r->out[0]];
    if (r->op->lower != rdt_op_copy || !seen || !rdt_view_reshape(seen, to->rank, to->shape, &view)) return false;
    if (!to_products(j, r->out[0], &view, depth + 1)) return false;
  }
  return n > 0 && n == j->readers[v]; /* else it is an output as well */
}

/* The columns of a product as they lie among so many. */
static rdt_tensor columns_of(const rdt_tensor *t, int among) {
  rdt_tensor view = *t;
  int64_t stride = among * t->shape[t->rank - 1];
  view.stride[t->rank - 1] = 1;
  for (int d = t->rank - 2; d >= 0; d--) {
    view.stride[d] = stride;
    stride *= t->shape[d];
  }
  return view;
}

static bool is_vector(const rdt_graph *g, int v, const rdt_value *w) {
  const rdt_value *b = &g->values[v];
  return b->data && b->rank == 1 && b->shape[0] == w->shape[1] && b->dtype == w->dtype;
}

static bool takes_part(const joiner *j, int i) {
  const rdt_graph *g = j->g;
  const rdt_node *n = &g->nodes[i];
  if (!n->op || n->op->lower != rdt_op_matmul || n->residual >= 0 || n->n_in < 2 || n->in[1] >= j->n_values)
    return false;
  const rdt_value *w = &g->values[n->in[1]], *y = &g->values[n->out[0]];
  if (!w->data || w->lazy || w->rank != 2 || w->bytes == 0 || j->readers[n->in[1]] != 1 || y->planned) return false;
  if (n->n_in > 2 && n->in[2] >= 0 && !is_vector(g, n->in[2], w)) return false;
  const rdt_tensor *t = &j->views[n->out[0]];
  const rdt_tensor seen = columns_of(t, 2);
  return t->rank >= 2 && rdt_tensor_count(t) > 0 && to_products(j, n->out[0], &seen, 0);
}

static bool alike(const joiner *j, int a, int b) {
  const rdt_node *x = &j->g->nodes[a], *y = &j->g->nodes[b];
  const rdt_value *v = &j->g->values[x->in[1]], *w = &j->g->values[y->in[1]];
  return v->dtype == w->dtype && v->shape[0] == w->shape[0] && v->shape[1] == w->shape[1] && x->scale == y->scale &&
         x->act.fn == y->act.fn && memcmp(x->act.param, y->act.param, sizeof x->act.param) == 0 &&
         strcmp(x->label, y->label) == 0;
}

/* ---- names ---- */

static bool is_part(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "layer/query/MatMul", "layer/key/MatMul": "layer/{query,key}/MatMul" */
static char *joint_name(const joiner *j, const int *list, int n) {
  const char *name[MOST];
  size_t least = SIZE_MAX, room = 16, before = 0, behind = 0, length[MOST];
  for (int i = 0; i < n; i++) {
    name[i] = j->g->nodes[list[i]].name;
    length[i] = strlen(name[i]);
    room += length[i] + 1;
    if (length[i] < least) least = length[i];
  }
  for (bool same = true; same && before < least; before += same)
    for (int i = 1; i < n; i++) same = same && name[i][before] == name[0][before];
  while (before > 0 && is_part(name[0][before - 1])) before--;
  for (bool same = true; same && before + behind < least; behind += same)
    for (int i = 1; i < n; i++) same = same && name[i][length[i] - behind - 1] == name[0][length[0] - behind - 1];
  while (behind > 0 && is_part(name[0][length[0] - behind])) behind--;
  char *out = rdt_alloc(room + 16, 1);
  if (!out) return NULL;
  size_t at = (size_t)sprintf(out, "%.*s{", (int)before, name[0]);
  for (int i = 0; i < n; i++)
    at += (size_t)sprintf(out + at, "%s%.*s", i ? "," : "", (int)(length[i] - before - behind), name[i] + before);
  at += (size_t)sprintf(out + at, "}%s", name[0] + length[0] - behind);
  for (int i = 0, tries = 0; i < j->g->n_nodes && tries < 8; i++) /* a file may have it already */
    if (j->g->nodes[i].name && strcmp(j->g->nodes[i].name, out) == 0) {
      at += (size_t)sprintf(out + at, "_");
      tries++;
      i = -1;
    }
  return out;
}

/* "MatMul+Add", three times: "3x MatMul+Add" */
static char *joint_label(const char *label, int n) {
  const size_t room = strlen(label) + 16;
  char *out = rdt_alloc(room, 1);
  if (out) snprintf(out, room, "%dx %s", n, label);
  return out;
}

/* ---- joining ---- */

static rdt_status add_value(joiner *j, const char *name, const char *what, int *v) {
  const size_t room = strlen(name) + strlen(what) + 24;
  char *text = rdt_alloc(room, 1);
  if (!text) return no_memory(j);
  snprintf(text, room, "%s/%s:%d", name, what, j->g->n_values);
  *v = rdt_graph_add_value(j->g, text);
  rdt_free(text);
  return *v < 0 ? no_memory(j) : RDT_OK;
}

/* Where a product has no bias, zeros. */
static rdt_status join_biases(joiner *j, const char *name, const int *list, int n, int *bias) {
  rdt_graph *g = j->g;
  const rdt_dtype dtype = g->values[g->nodes[list[0]].in[1]].dtype;
  const int64_t columns = g->values[g->nodes[list[0]].in[1]].shape[1], all = n * columns;
  const size_t row = (size_t)columns * rdt_dtype_size(dtype);
  bool any = false;
  for (int i = 0; i < n; i++) any = any || (g->nodes[list[i]].n_in > 2 && g->nodes[list[i]].in[2] >= 0);
  *bias = -1;
  if (!any) return RDT_OK;
  rdt_tensor t = rdt_tensor_dense(NULL, dtype, 1, &all);
  RDT_TRY(add_value(j, name, "bias", bias));
  unsigned char *data = rdt_calloc((size_t)n, row);
  if (!data) return no_memory(j);
  for (int i = 0; i < n; i++) {
    const rdt_node *one = &g->nodes[list[i]];
    if (one->n_in > 2 && one->in[2] >= 0) memcpy(data + (size_t)i * row, g->values[one->in[2]].data, row);
  }
  t.data = data;
  rdt_value_hold(&g->values[*bias], &t);
  return RDT_OK;
}

/* n becomes the view of columns number `which` of value v; it keeps its name and what it writes. */
static rdt_status make_view(joiner *j, rdt_node *n, int v, int which, int parts) {
  rdt_attr *axis = rdt_attr_int("axis", -1);
  char *label = rdt_strdup("Split");
  if (!axis || !label) {
    rdt_free(axis ? axis->name : NULL);
    rdt_free(axis);
    rdt_free(label);
    return no_memory(j);
  }
  const rdt_node old = *n;
  *n = (rdt_node){.name = old.name,
                  .label = label,
                  .op = rdt_op_find("Split"),
                  .n_in = 1,
                  .n_out = 1,
                  .in = old.in,
                  .out = old.out,
                  .output = which,
                  .outputs = parts,
                  .attrs = axis,
                  .n_attrs = 1,
                  .residual = -1};
  n->in[0] = v;
  rdt_node rest = old;
  rest.name = NULL, rest.in = rest.out = NULL;
  rdt_node_clear(&rest);
  return RDT_OK;
}

static bool copy_node(const rdt_node *from, rdt_node *to) { /* without attributes: a MatMul has none */
  *to = *from;
  to->attrs = NULL, to->n_attrs = 0;
  to->name = rdt_strdup(from->name), to->label = rdt_strdup(from->label);
  to->in = rdt_alloc((size_t)from->n_in, sizeof *to->in), to->out = rdt_alloc(1, sizeof *to->out);
  if (!to->name || !to->label || !to->in || !to->out) return false;
  memcpy(to->in, from->in, (size_t)from->n_in * sizeof *to->in);
  to->out[0] = from->out[0];
  return true;
}

/* The first of the list becomes the product, and its view comes behind it; the others become views where they are. */
static rdt_status join(joiner *j, const int *list, int n) {
  rdt_graph *g = j->g;
  int from[MOST], weights, bias, out;
  for (int i = 0; i < n; i++) from[i] = g->nodes[list[i]].in[1];
  char *name = joint_name(j, list, n), *label = joint_label(g->nodes[list[0]].label, n);
  int *in = rdt_alloc(3, sizeof *in);
  rdt_status status = name && label && in ? RDT_OK : no_memory(j);
  if (status == RDT_OK) status = add_value(j, name, "weight", &weights);
  if (status == RDT_OK) status = rdt_constant_join(g, weights, from, n, j->why);
  if (status == RDT_OK) status = join_biases(j, name, list, n, &bias);
  if (status == RDT_OK) status = add_value(j, name, "result", &out);
  rdt_node *const lead = &g->nodes[list[0]], *const behind = &j->after[list[0]];
  if (status == RDT_OK && !copy_node(lead, behind)) status = no_memory(j);
  if (status != RDT_OK) {
    rdt_free(name);
    rdt_free(label);
    rdt_free(in);
    return status;
  }
  j->n_after++;
  in[0] = lead->in[0], in[1] = weights, in[2] = bias;
  rdt_free(lead->name), rdt_free(lead->label), rdt_free(lead->in);
  lead->name = name, lead->label = label, lead->in = in;
  lead->n_in = bias >= 0 ? 3 : 2;
  lead->out[0] = out;
  g->values[out].producer = list[0];
  RDT_TRY(make_view(j, behind, out, 0, n));
  for (int i = 1; i < n; i++) RDT_TRY(make_view(j, &g->nodes[list[i]], out, i, n));
  return RDT_OK;
}

/* Those that read v, by each kind. */
static rdt_status join_readers(joiner *j, int v) {
  for (int e = j->first[v]; e >= 0; e = j->edges[e].next) {
    const int lead = j->edges[e].node;
    int list[MOST], n = 0;
    if (j->edges[e].operand != 0 || !takes_part(j, lead)) continue;
    for (int o = e, near = 0; o >= 0 && n < MOST && near < NEAR; o = j->edges[o].next, near++) {
      const int i = j->edges[o].node;
      if (j->edges[o].operand == 0 && takes_part(j, i) && alike(j, lead, i)) list[n++] = i;
    }
    if (n > 1) RDT_TRY(join(j, list, n));
  }
  return RDT_OK;
}

/* What comes behind a node takes its place there. */
static rdt_status insert(joiner *j) {
  rdt_graph *g = j->g;
  rdt_node *nodes = rdt_calloc((size_t)(j->n_nodes + j->n_after), sizeof *nodes);
  int n = 0;
  if (!nodes) return no_memory(j);
  for (int i = 0; i < j->n_nodes; i++) {
    nodes[n++] = g->nodes[i];
    if (!j->after[i].op) continue;
    nodes[n++] = j->after[i];
    j->after[i] = (rdt_node){.residual = -1};
  }
  rdt_free(g->nodes);
  g->nodes = nodes;
  g->n_nodes = n;
  for (int i = 0; i < n; i++)
    if (nodes[i].op) g->values[nodes[i].out[0]].producer = i;
  return RDT_OK;
}

rdt_status rdt_graph_join_products(rdt_graph *g, const rdt_tensor *views, rdt_reason *why) {
  joiner j = {.g = g, .views = views, .n_values = g->n_values, .n_nodes = g->n_nodes, .why = why};
  if (!views || g->n_nodes == 0) return RDT_OK;
  j.edges = rdt_alloc((size_t)edges_of(g), sizeof *j.edges);
  j.first = rdt_alloc((size_t)g->n_values, sizeof *j.first);
  j.readers = rdt_calloc((size_t)g->n_values, sizeof *j.readers);
  j.after = rdt_calloc((size_t)g->n_nodes, sizeof *j.after);
  rdt_status status = j.edges && j.first && j.readers && j.after ? RDT_OK : no_memory(&j);
  if (status == RDT_OK) list_edges(&j);
  for (int v = 0; v < j.n_values && status == RDT_OK; v++)
    if (j.readers[v] > 1) status = join_readers(&j, v);
  if (status == RDT_OK && j.n_after > 0) status = insert(&j);
  for (int i = 0; j.after && i < j.n_nodes; i++) rdt_node_clear(&j.after[i]);
  rdt_free(j.edges);
  rdt_free(j.first);
  rdt_free(j.readers);
  rdt_free(j.after);
  return status;
}
