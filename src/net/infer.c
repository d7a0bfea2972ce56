/* Shapes, datatypes and memory layouts of all values for concrete inputs; nodes as problems. */
#include <stdio.h>
#include <string.h>

#include "net/load.h"
#include "net/ops/ops.h"

static rdt_status check_value(const rdt_graph *g, int v, const rdt_tensor *t, rdt_reason *why) {
  char what[160];
  snprintf(what, sizeof what, "%.80s: value '%.60s'", g->path[0] ? g->path : "model", g->values[v].name);
  return rdt_tensor_check(t, what, why);
}

/* Does the caller's tensor fit what the model declares for input i? */
static rdt_status check_input(const rdt_graph *g, int i, const rdt_tensor *t, rdt_reason *why) {
  const rdt_value *v = &g->values[g->inputs[i]];
  rdt_tensor declared = {.dtype = v->typed ? v->dtype : t->dtype, .rank = v->rank};
  char got[96], expected[96];
  RDT_TRY(check_value(g, g->inputs[i], t, why));
  rdt_tensor_text(t, got, sizeof got);
  if (v->rank >= 0) memcpy(declared.shape, v->shape, sizeof declared.shape);
  if (declared.dtype != t->dtype)
    return rdt_fail(why, RDT_ERR_DTYPE, "%.100s: input '%.60s' must be %s, got %s; convert the input", g->path, v->name,
                    rdt_dtype_name(declared.dtype), got);
  bool fits = v->rank < 0 || v->rank == t->rank;
  for (int d = 0; fits && d < v->rank; d++) fits = v->shape[d] < 0 || v->shape[d] == t->shape[d];
  if (!fits)
    return rdt_fail(why, RDT_ERR_SHAPE, "%.100s: input '%.60s' must be %s (? is any length), got %s; reshape the input",
                    g->path, v->name, rdt_tensor_text(&declared, expected, sizeof expected), got);
  return RDT_OK;
}

static rdt_status infer_shapes(const rdt_graph *g, rdt_tensor *views, rdt_reason *why) {
  for (int v = 0; v < g->n_values; v++) {
    const rdt_value *c = &g->values[v];
    if (c->data) views[v] = rdt_tensor_dense(NULL, c->dtype, c->rank, c->shape);
  }
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    const rdt_op_args a = {g, n, views};
    rdt_tensor out = {.rank = 0};
    RDT_TRY(n->op->lower(&a, &out, NULL, why));
    views[n->out[0]] = rdt_tensor_dense(NULL, out.dtype, out.rank, out.shape);
    RDT_TRY(check_value(g, n->out[0], &views[n->out[0]], why));
  }
  return RDT_OK;
}

/* Channels-last values have strides of their own; while layouts are found, a mark in data stands for them. */
static char channels_last_mark;

static bool is_marked(const rdt_tensor *t) {
  return t->data == &channels_last_mark;
}

static bool mark(const rdt_graph *g, rdt_tensor *views, int v) {
  if (v < 0 || g->values[v].data || views[v].rank != 4 || !rdt_dtype_is_float(views[v].dtype) || is_marked(&views[v]))
    return false;
  views[v].data = &channels_last_mark;
  return true;
}

/* Elementwise nodes give all their activations the layout that one of them has. */
static bool spread(const rdt_graph *g, const rdt_node *n, rdt_tensor *views) {
  rdt_op_lower_fn *const f = n->op->lower;
  const bool copies = f == rdt_op_copy && rdt_tensor_same_shape(&views[n->in[0]], &views[n->out[0]]);
  const bool linear = f == rdt_op_conv; /* with its residual */
  if (!copies && !linear && f != rdt_op_binary && f != rdt_op_unary && f != rdt_op_batchnorm && f != rdt_op_concat &&
      f != rdt_op_softmax)
    return false;
  bool any = is_marked(&views[n->out[0]]), changed = false;
  const int activations = linear ? 1 : n->n_in;
  for (int i = 0; i < activations; i++) any = any || (n->in[i] >= 0 && is_marked(&views[n->in[i]]));
  if (!any) return false;
  for (int i = 0; i < activations; i++) changed |= mark(g, views, n->in[i]);
  changed |= mark(g, views, n->residual);
  return mark(g, views, n->out[0]) || changed;
}

static void choose_layouts(const rdt_graph *g, rdt_tensor *views) {
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    if (n->op->lower != rdt_op_conv && n->op->lower != rdt_op_pool) continue;
    mark(g, views, n->in[0]);
    mark(g, views, n->out[0]);
  }
  bool changed = true; /* any number of rounds gives a correct layout; more than a few never occur in real networks */
  for (int round = 0; changed && round < 8; round++) {
    changed = false;
    for (int i = 0; i < g->n_nodes; i++) changed |= spread(g, &g->nodes[i], views);
    for (int i = g->n_nodes - 1; i >= 0; i--) changed |= spread(g, &g->nodes[i], views);
  }
  for (int v = 0; v < g->n_values; v++)
    if (is_marked(&views[v])) views[v] = rdt_tensor_channels_last(NULL, views[v].dtype, views[v].shape);
  for (int i = 0; i < g->n_nodes; i++) { /* what lowering relies on */
    const rdt_node *n = &g->nodes[i];
    const rdt_tensor *x = n->n_in > 0 && n->in[0] >= 0 ? &views[n->in[0]] : NULL;
    rdt_tensor *y = &views[n->out[0]];
    if (n->op->lower == rdt_op_copy && !rdt_tensor_same_shape(x, y) && !rdt_tensor_is_dense(x) &&
        !rdt_tensor_is_dense(y))
      *y = rdt_tensor_dense(NULL, y->dtype, y->rank, y->shape);
    if (n->op->lower == rdt_op_softmax && !rdt_tensor_same_strides(x, y)) *y = *x;
  }
}

rdt_status rdt_graph_infer_declared(const rdt_graph *g, int64_t open, rdt_tensor *views, rdt_reason *why) {
  for (int i = 0; i < g->n_inputs; i++) {
    const rdt_value *v = &g->values[g->inputs[i]];
    int64_t shape[RDT_MAX_RANK];
    if (v->rank < 0 || !v->typed)
      return rdt_fail(why, RDT_ERR_SHAPE, "%.100s: input '%.60s' has no declared shape; give the input itself", g->path,
                      v->name);
    for (int d = 0; d < v->rank; d++) shape[d] = v->shape[d] < 0 ? open : v->shape[d];
    views[g->inputs[i]] = rdt_tensor_dense(NULL, v->dtype, v->rank, shape);
    RDT_TRY(check_value(g, g->inputs[i], &views[g->inputs[i]], why));
  }
  RDT_TRY(infer_shapes(g, views, why));
  choose_layouts(g, views);
  return RDT_OK;
}

rdt_status rdt_graph_infer(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, rdt_tensor *views,
                           rdt_reason *why) {
  if (n_inputs != g->n_inputs)
    return rdt_fail(why, RDT_ERR_ARG, "%.100s: takes %d inputs, got %d", g->path, g->n_inputs, n_inputs);
  for (int i = 0; i < n_inputs; i++) {
    RDT_TRY(check_input(g, i, &inputs[i], why));
    views[g->inputs[i]] = rdt_tensor_dense(NULL, inputs[i].dtype, inputs[i].rank, inputs[i].shape);
  }
  RDT_TRY(infer_shapes(g, views, why));
  choose_layouts(g, views);
  return RDT_OK;
}

rdt_status rdt_node_lower(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, rdt_problem *p,
                          rdt_reason *why) {
  const rdt_op_args a = {g, n, views};
  rdt_tensor out = views[n->out[0]];
  rdt_reason inner = {""};
  *p = (rdt_problem){0};
  rdt_status s = n->op->lower(&a, &out, p, why);
  if (s == RDT_OK) {
    s = rdt_problem_check(p, &inner);
    if (s != RDT_OK) s = rdt_node_fail(g, n, why, s, "%s", inner.text);
  }
  if (s != RDT_OK) rdt_problem_clear(p);
  return s;
}
