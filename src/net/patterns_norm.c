/* Normalisations that were exported as their arithmetic are made one node again: the product that ends
 *   d = x - mean(x), d / sqrt(mean(d^2) + epsilon) * gain      LayerNormalization
 *   x / sqrt(mean(x^2) + epsilon) * gain                       RMSNormalization
 * takes x and gain itself, and so does a constant that is added to it. What nobody reads any more goes with the next
 * rdt_graph_compact. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/load.h"

typedef struct found {
  int x, gain, trailing; /* dimensions that are taken together, from the last one on */
  double epsilon;
  bool centred;
  char label[120];
} found;

/* The node that makes v, if it is of this operator. */
static const rdt_node *made_by(const rdt_graph *g, int v, const char *op) {
  const int p = v >= 0 ? g->values[v].producer : -1;
  const rdt_node *n = p >= 0 ? &g->nodes[p] : NULL;
  return n && n->op && n->output == 0 && n->residual < 0 && n->act.fn == RDT_FN_NONE && strcmp(n->op->name, op) == 0
             ? n
             : NULL;
}

static bool is_scalar(const rdt_graph *g, int v, double *x) {
  const rdt_value *c = v >= 0 ? &g->values[v] : NULL;
  if (!c || !c->data || !rdt_dtype_is_float(c->dtype) || c->bytes != rdt_dtype_size(c->dtype)) return false;
  *x = rdt_load(c->data, c->dtype, 0);
  return true;
}

/* ReduceMean over the last dimensions, which stay as 1. Their number, 0 where it is something else. */
static int trailing_mean(const rdt_graph *g, const rdt_tensor *views, const rdt_node *n) {
  const rdt_attr *attr = rdt_node_attr(n, "axes");
  const rdt_value *list = n->n_in > 1 && n->in[1] >= 0 ? &g->values[n->in[1]] : NULL;
  const int rank = views[n->in[0]].rank;
  unsigned marks = 0;
  const int count = list ? (int)(list->bytes / sizeof(int64_t)) : attr ? attr->n : 0;
  if (!rdt_node_int(n, "keepdims", 1) ||
      (list ? !list->data || list->dtype != RDT_S64 : !attr || attr->type != RDT_ATTR_INTS))
    return 0;
  if (count < 1 || count > rank) return 0;
  for (int i = 0; i < count; i++) {
    const int64_t axis = list ? ((const int64_t *)list->data)[i] : attr->ints[i], back = axis < 0 ? -axis : rank - axis;
    if (back < 1 || back > rank) return 0;
    marks |= 1u << (back - 1);
  }
  return marks == (1u << count) - 1 ? count : 0;
}

/* d^2 as Pow(d, 2) or Mul(d, d); -1 where it is neither. */
static int squared(const rdt_graph *g, int v, found *f) {
  const rdt_node *pow = made_by(g, v, "Pow"), *mul = made_by(g, v, "Mul");
  double power;
  snprintf(f->label, sizeof f->label, "%s", pow ? "Pow" : "Mul");
  if (pow && is_scalar(g, pow->in[1], &power) && power == 2) return pow->in[0];
  return mul && mul->in[0] == mul->in[1] ? mul->in[0] : -1;
}

static bool same(const rdt_graph *g, int v, int w) { /* the same difference may have been written twice */
  const rdt_node *a = made_by(g, v, "Sub"), *b = made_by(g, w, "Sub");
  return v == w || (a && b && a->in[0] == b->in[0] && a->in[1] == b->in[1]);
}

/* v = sqrt(mean(d^2) + epsilon) */
static bool is_deviation(const rdt_graph *g, const rdt_tensor *views, int v, int d, found *f) {
  const rdt_node *root = made_by(g, v, "Sqrt"), *add = root ? made_by(g, root->in[0], "Add") : NULL;
  for (int k = 0; add && k < 2; k++) {
    const rdt_node *mean = made_by(g, add->in[k], "ReduceMean");
    if (!mean || !is_scalar(g, add->in[1 - k], &f->epsilon) || !(f->epsilon >= 0 && isfinite(f->epsilon))) continue;
    f->trailing = trailing_mean(g, views, mean);
    const int base = squared(g, mean->in[0], f);
    if (f->trailing == 0 || base < 0 || !same(g, base, d)) continue;
    const rdt_node *sub = made_by(g, d, "Sub"), *centre = sub ? made_by(g, sub->in[1], "ReduceMean") : NULL;
    f->centred = centre && centre->in[0] == sub->in[0] && trailing_mean(g, views, centre) == f->trailing;
    f->x = f->centred ? sub->in[0] : d;
    return true;
  }
  return false;
}

/* v = d / deviation, also as a product with the reciprocal */
static bool is_normalised(const rdt_graph *g, const rdt_tensor *views, int v, found *f) {
  const rdt_node *div = made_by(g, v, "Div"), *mul = made_by(g, v, "Mul");
  char square[16];
  const char *how = NULL;
  double one;
  if (div && is_deviation(g, views, div->in[1], div->in[0], f)) how = "Div";
  for (int k = 0; mul && !how && k < 2; k++) {
    const rdt_node *r = made_by(g, mul->in[k], "Reciprocal"), *q = made_by(g, mul->in[k], "Div");
    if (r && is_deviation(g, views, r->in[0], mul->in[1 - k], f)) how = "Reciprocal+Mul";
    if (q && is_scalar(g, q->in[0], &one) && one == 1 && is_deviation(g, views, q->in[1], mul->in[1 - k], f))
      how = "Div+Mul";
  }
  if (!how) return false;
  snprintf(square, sizeof square, "%.15s", f->label);
  snprintf(f->label, sizeof f->label, "%s%s+ReduceMean+Add+Sqrt+%s", f->centred ? "ReduceMean+Sub+" : "", square, how);
  return true;
}

/* The result is x's, in shape and datatype, and so nothing is broadcast to more than x. */
static bool keeps_shape(const rdt_tensor *views, int x, int y) {
  return rdt_dtype_is_float(views[x].dtype) && views[x].dtype == views[y].dtype &&
         rdt_tensor_same_shape(&views[x], &views[y]);
}

static bool set_label(rdt_node *n, const char *label, const char *more) {
  const size_t room = strlen(label) + strlen(more) + 2;
  char *text = rdt_alloc(room, 1);
  if (!text) return false;
  snprintf(text, room, "%s+%s", label, more);
  rdt_free(n->label);
  n->label = text;
  return true;
}

static bool set_inputs(rdt_node *n, int x, int gain, int shift) {
  int *in = rdt_alloc(3, sizeof *in);
  if (!in) return false;
  in[0] = x;
  in[1] = gain;
  in[2] = shift;
  rdt_free(n->in);
  n->in = in;
  n->n_in = shift >= 0 ? 3 : 2;
  return true;
}

static bool set_attrs(rdt_node *n, int64_t axis, double epsilon) {
  rdt_attr *attrs = rdt_calloc(2, sizeof *attrs);
  char *const axis_name = rdt_strdup("axis"), *const epsilon_name = rdt_strdup("epsilon");
  if (!attrs || !axis_name || !epsilon_name) {
    rdt_free(attrs);
    rdt_free(axis_name);
    rdt_free(epsilon_name);
    return false;
  }
  attrs[0] = (rdt_attr){.name = axis_name, .type = RDT_ATTR_INT, .i = axis};
  attrs[1] = (rdt_attr){.name = epsilon_name, .type = RDT_ATTR_FLOAT, .f = epsilon};
  rdt_free(n->attrs);
  n->attrs = attrs;
  n->n_attrs = 2;
  return true;
}

/* Mul(normalised, gain) */
static bool try_product(rdt_graph *g, const rdt_tensor *views, rdt_node *n, bool *memory) {
  if (n->n_attrs > 0) return false;
  for (int k = 0; k < 2; k++) {
    found f = {.gain = n->in[1 - k]};
    if (!is_normalised(g, views, n->in[k], &f) || !keeps_shape(views, f.x, n->out[0]) ||
        views[f.gain].dtype != views[f.x].dtype)
      continue;
    *memory = set_label(n, f.label, "Mul") && set_attrs(n, -f.trailing, f.epsilon) && set_inputs(n, f.x, f.gain, -1);
    n->op = rdt_op_find(f.centred ? "LayerNormalization" : "RMSNormalization");
    return true;
  }
  return false;
}

static int readers_of(const rdt_graph *g, int v) {
  int count = 0;
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->nodes[i].n_in; k++) count += g->nodes[i].in[k] == v;
  for (int i = 0; i < g->n_outputs; i++) count += g->outputs[i] == v;
  return count;
}

/* Add(LayerNormalization, constant) */
static void try_sum(rdt_graph *g, const rdt_tensor *views, rdt_node *n, bool *memory) {
  for (int k = 0; k < 2; k++) {
    const rdt_node *norm = made_by(g, n->in[k], "LayerNormalization");
    const int shift = n->in[1 - k];
    const rdt_attr *epsilon = norm ? rdt_node_attr(norm, "epsilon") : NULL;
    if (!norm || norm->n_in != 2 || !g->values[shift].data || readers_of(g, n->in[k]) != 1 || n->n_attrs > 0) continue;
    if (!keeps_shape(views, norm->in[0], n->out[0]) || views[shift].dtype != views[norm->in[0]].dtype) continue;
    *memory = set_label(n, norm->label, "Add") &&
              set_attrs(n, rdt_node_int(norm, "axis", -1), epsilon ? epsilon->f : 1e-5) &&
              set_inputs(n, norm->in[0], norm->in[1], shift);
    n->op = norm->op;
    return;
  }
}

rdt_status rdt_graph_match_norms(rdt_graph *g, const rdt_tensor *views, rdt_reason *why) {
  bool memory = true;
  if (g->opset < 7) return RDT_OK; /* other rules of broadcasting */
  for (int i = 0; i < g->n_nodes && memory; i++) {
    rdt_node *n = &g->nodes[i];
    if (!n->op || n->n_in != 2 || n->in[0] < 0 || n->in[1] < 0) continue;
    if (strcmp(n->op->name, "Mul") == 0) (void)try_product(g, views, n, &memory);
    if (strcmp(n->op->name, "Add") == 0) try_sum(g, views, n, &memory);
  }
  return memory ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", g->path);
}
