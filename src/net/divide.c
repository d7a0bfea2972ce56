/* Votes on the way, on a CPU: a product by a constant becomes a chain of products of a share of k each. What one of
 * them gives is added by the next one; each is a node of its own, with three copies and a vote behind it. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/constant.h"
#include "net/load.h"
#include "net/ops/ops.h"

typedef struct cut { /* a share of a constant, which several products may read */
  int weight, parts, part, value;
  bool turned;
} cut;

typedef struct divider {
  rdt_graph *g;
  rdt_node *nodes; /* the new ones */
  int n, room;
  cut *cuts;
  int n_cuts;
  rdt_reason *why;
} divider;

static rdt_status no_memory(const divider *d) {
  return rdt_fail(d->why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", d->g->path);
}

/* ---- what is divided ---- */

/* Its C, where it has one, is a bias: a C of one element takes the place of what came before (ops/gemm.c). */
static bool is_plain_gemm(const rdt_graph *g, const rdt_node *n, int64_t columns) {
  const rdt_attr *beta = rdt_node_attr(n, "beta");
  const rdt_value *c = n->n_in > 2 && n->in[2] >= 0 ? &g->values[n->in[2]] : NULL;
  if (rdt_node_int(n, "transA", 0) != 0) return false;
  if (!c) return true;
  bool bias = (!beta || beta->f == 1.0) && c->rank >= 1 && c->shape[c->rank - 1] == columns;
  for (int d = 0; d < c->rank - 1; d++) bias = bias && c->shape[d] == 1;
  return bias;
}

/* The length along which it adds; 0: it is no such product. */
static int64_t length_of(const rdt_graph *g, const rdt_node *n) {
  const bool gemm = n->op && n->op->lower == rdt_op_gemm;
  if (!n->op || (!gemm && n->op->lower != rdt_op_matmul) || n->n_in < 2) return 0;
  const rdt_value *a = &g->values[n->in[0]], *w = &g->values[n->in[1]];
  const bool real = w->dtype == RDT_F32 || w->dtype == RDT_F64; /* a sum of 16 bits would be rounded on the way */
  if (a->data || !w->data || w->rank != 2 || !real || a->planned || g->values[n->out[0]].planned) return 0;
  const bool turned = gemm && rdt_node_int(n, "transB", 0);
  const int64_t columns = a->rank > 0 ? a->shape[a->rank - 1] : -1;
  if (gemm && !is_plain_gemm(g, n, w->shape[!turned])) return 0;
  if (columns >= 0 && columns != w->shape[turned]) return 0; /* the product itself says that they do not fit */
  return w->shape[turned];
}

/* As many equal shares as there are, up to `most`. */
static int parts_of(int64_t length, int most) {
  int parts = most;
  while (parts > 1 && length % parts != 0) parts--;
  return length > 0 ? parts : 1;
}

/* ---- building ---- */

static rdt_status add_value(divider *d, const char *name, const char *what, int part, int *v) {
  const size_t room = strlen(name) + strlen(what) + 48;
  char *text = rdt_alloc(room, 1);
  if (!text) return no_memory(d);
  snprintf(text, room, "%s/%s %d:%d", name, what, part + 1, d->g->n_values);
  *v = rdt_graph_add_value(d->g, text);
  rdt_free(text);
  return *v < 0 ? no_memory(d) : RDT_OK;
}

/* Rows of a constant from one on; turned: columns. Where they lie in a file they are not kept twice. */
static rdt_status make_cut(divider *d, const rdt_node *n, int part, int64_t rows, bool turned, int *v) {
  rdt_graph *g = d->g;
  const int from = n->in[1];
  RDT_TRY(add_value(d, n->name, "weight of share", part, v));
  const rdt_value *w = &g->values[from];
  rdt_value *to = &g->values[*v];
  rdt_tensor t = {.dtype = w->dtype, .rank = 2};
  t.shape[0] = turned ? w->shape[0] : rows, t.shape[1] = turned ? rows : w->shape[1];
  const size_t size = rdt_dtype_size(w->dtype), line = (size_t)t.shape[1] * size;
  const size_t offset = (size_t)part * (turned ? line : (size_t)rows * line);
  const bool placed = w->origin.map >= 0 && !w->origin.factor && !w->origin.parts;
  if (turned && placed && w->bytes) return rdt_constant_columns(g, *v, from, part * rows, rows, d->why);
  if (!turned && placed && w->origin.mapped) t.data = (char *)w->data + offset;
  void *copy = NULL;
  if (!t.data) {
    if (!(t.data = copy = rdt_alloc((size_t)t.shape[0], line))) return no_memory(d);
    const rdt_status held = rdt_constant_hold(g, from, d->why);
    if (held != RDT_OK) return rdt_free(copy), held;
    for (int64_t r = 0; r < t.shape[0]; r++)
      memcpy((char *)copy + (size_t)r * line, (const char *)w->data + offset + (size_t)r * (size_t)w->shape[1] * size,
             line);
    rdt_constant_release(g, from);
  }
  rdt_value_hold(to, &t);
  if (!turned && placed)
    to->origin = (rdt_origin){.map = w->origin.map, .offset = w->origin.offset + offset, .mapped = w->origin.mapped};
  return RDT_OK;
}

/* Weights that several products read are cut once. */
static rdt_status cut_weights(divider *d, const rdt_node *n, int part, int parts, int64_t rows, bool turned, int *v) {
  cut c = {n->in[1], parts, part, -1, turned};
  for (int i = 0; i < d->n_cuts; i++) {
    const cut *o = &d->cuts[i];
    if (o->weight != c.weight || o->parts != parts || o->part != part || o->turned != turned) continue;
    *v = o->value;
    return RDT_OK;
  }
  RDT_TRY(make_cut(d, n, part, rows, turned, v));
  c.value = *v;
  d->cuts[d->n_cuts++] = c;
  return RDT_OK;
}

static bool is_taken(const rdt_graph *g, const char *name) {
  for (int i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].name && strcmp(g->nodes[i].name, name) == 0) return true;
  return false;
}

static char *share_name(const divider *d, const char *name, const char *what, int part, int parts) {
  const size_t room = strlen(name) + strlen(what) + 56;
  char *text = rdt_alloc(room, 1);
  if (text) snprintf(text, room, "%s/%s %d of %d", name, what, part + 1, parts);
  for (int tries = 0; text && tries < 8 && is_taken(d->g, text); tries++) strcat(text, "_"); /* a file may have it */
  return text;
}

/* A node that reads `in` and writes out, at the end of the new ones; it takes attrs. */
static rdt_status add_node(divider *d, const char *op, char *name, const int *in, int n_in, int out, rdt_attr *attrs,
                           int n_attrs, rdt_node **made) {
  rdt_node *n = &d->nodes[d->n++];
  *n = (rdt_node){.name = name,
                  .label = rdt_strdup(op),
                  .op = rdt_op_find(op),
                  .n_in = n_in,
                  .n_out = 1,
                  .in = rdt_alloc((size_t)n_in, sizeof *n->in),
                  .out = rdt_alloc(1, sizeof *n->out),
                  .outputs = 1,
                  .attrs = attrs,
                  .n_attrs = n_attrs,
                  .residual = -1};
  *made = n;
  if (!name || !n->label || !n->in || !n->out) return no_memory(d);
  memcpy(n->in, in, (size_t)n_in * sizeof *in);
  n->out[0] = out;
  return RDT_OK;
}

/* The share of the input, a view of its last dimension. */
static rdt_status add_view(divider *d, const rdt_node *n, int part, int parts, int *v) {
  rdt_node *made;
  RDT_TRY(add_value(d, n->name, "input of share", part, v));
  rdt_attr *axis = rdt_attr_int("axis", -1);
  if (!axis) return no_memory(d);
  RDT_TRY(add_node(d, "Split", share_name(d, n->name, "input", part, parts), &n->in[0], 1, *v, axis, 1, &made));
  made->output = part, made->outputs = parts;
  return RDT_OK;
}

/* alpha and transB of a Gemm. */
static rdt_status product_attrs(const divider *d, const rdt_node *n, rdt_attr **attrs, int *count) {
  static const char *const names[] = {"alpha", "transB"};
  rdt_attr *list = rdt_calloc(2, sizeof *list);
  *attrs = list, *count = 0;
  if (!list) return no_memory(d);
  for (int i = 0; i < 2; i++) {
    const rdt_attr *a = rdt_node_attr(n, names[i]);
    if (!a) continue;
    list[*count] = (rdt_attr){.name = rdt_strdup(names[i]), .type = a->type, .i = a->i, .f = a->f};
    if (!list[(*count)++].name) return no_memory(d);
  }
  return RDT_OK;
}

/* The last share is the node itself: bias and activation are its. */
static rdt_status divide(divider *d, rdt_node *n, int64_t length, int parts) {
  const bool turned = n->op->lower == rdt_op_gemm && rdt_node_int(n, "transB", 0);
  int before = n->residual, v = -1;
  for (int i = 0; i < parts; i++) {
    int in[2];
    RDT_TRY(add_view(d, n, i, parts, &in[0]));
    RDT_TRY(cut_weights(d, n, i, parts, length / parts, turned, &in[1]));
    if (i == parts - 1) {
      n->in[0] = in[0], n->in[1] = in[1], n->residual = before;
      break;
    }
    rdt_node *made;
    rdt_attr *attrs;
    int n_attrs;
    RDT_TRY(add_value(d, n->name, "share", i, &v));
    const rdt_status status = product_attrs(d, n, &attrs, &n_attrs);
    RDT_TRY(add_node(d, n->op->name, share_name(d, n->name, "share", i, parts), in, 2, v, attrs, n_attrs, &made));
    RDT_TRY(status);
    made->residual = before, made->scale = n->scale;
    before = v;
  }
  return RDT_OK;
}

rdt_status rdt_graph_divide_products(rdt_graph *g, int votes, rdt_reason *why) {
  divider d = {.g = g, .why = why, .room = g->n_nodes};
  int cuts = 0;
  for (int i = 0; i < g->n_nodes; i++) {
    const int parts = parts_of(length_of(g, &g->nodes[i]), votes);
    d.room += 2 * (parts - 1) + 1;
    if (parts > 1) cuts += parts;
  }
  d.nodes = rdt_calloc((size_t)d.room + 1, sizeof *d.nodes);
  d.cuts = rdt_calloc((size_t)cuts + 1, sizeof *d.cuts);
  if (!d.nodes || !d.cuts) {
    rdt_free(d.nodes);
    rdt_free(d.cuts);
    return no_memory(&d);
  }
  rdt_status status = RDT_OK;
  for (int i = 0; i < g->n_nodes; i++) {
    rdt_node *n = &g->nodes[i];
    const int64_t length = status == RDT_OK ? length_of(g, n) : 0;
    const int parts = parts_of(length, votes);
    g->divided += parts > 1, g->whole += parts == 1 && n->op && n->op->protection == RDT_PROTECT_LINEAR;
    if (parts > 1) status = divide(&d, n, length, parts);
    d.nodes[d.n++] = *n;
  }
  rdt_free(d.cuts);
  rdt_free(g->nodes);
  g->nodes = d.nodes, g->n_nodes = d.n;
  for (int i = 0; i < g->n_nodes; i++)
    if (g->nodes[i].op && g->nodes[i].out) g->values[g->nodes[i].out[0]].producer = i;
  return status;
}
