/* Shapes, datatypes and memory layouts of all values for concrete inputs; nodes as problems. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/kernel.h"
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

/* ---- values known while planning ---- */

void rdt_graph_mark_planned(rdt_graph *g) {
  for (int i = g->n_nodes - 1; i >= 0; i--) {
    const rdt_node *n = &g->nodes[i];
    const bool shape_only = n->op->protection == RDT_PROTECT_PLAN;
    for (int k = 0; k < n->n_in; k++) {
      const bool decides = k < 32 && (n->op->planned >> k & 1);
      if (n->in[k] >= 0 && (decides || (!shape_only && g->values[n->out[0]].planned)))
        g->values[n->in[k]].planned = true;
    }
    if (n->residual >= 0 && g->values[n->out[0]].planned) g->values[n->residual].planned = true;
  }
}

static rdt_status compute(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, rdt_tensor *out,
                          rdt_reason *why) {
  const rdt_op_args a = {g, n, views};
  rdt_problem p = {0};
  void *state = NULL;
  if (n->op->protection == RDT_PROTECT_PLAN) return n->op->lower(&a, out, NULL, why);
  rdt_tensor target = *out;
  rdt_reason inner = {""};
  rdt_status s = n->op->lower(&a, &target, &p, why);
  if (s == RDT_OK) {
    s = rdt_problem_check(&p, &inner);
    if (s != RDT_OK) s = rdt_node_fail(g, n, why, s, "%s", inner.text);
  }
  const rdt_kernel *k = rdt_cpu_reference(&p);
  if (s == RDT_OK) s = k->accept(&p, why);
  if (s == RDT_OK) s = k->create(&p, 1, &state, why);
  if (s == RDT_OK) {
    const rdt_operands o = {.in = p.in, .n_in = p.n_in, .out = p.out, .epilogue = &p.epilogue};
    s = k->run(state, &o, &inner);
    if (s != RDT_OK) s = rdt_node_fail(g, n, why, s, "%s", inner.text);
    k->destroy(state);
  }
  rdt_problem_clear(&p);
  return s;
}

rdt_status rdt_node_evaluate(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, void **data,
                             rdt_reason *why) {
  enum { COPIES = 3 };
  rdt_tensor out[COPIES];
  rdt_status status = RDT_OK;
  const rdt_tensor *v = &views[n->out[0]];
  const size_t bytes = (size_t)rdt_tensor_count(v) * rdt_dtype_size(v->dtype);
  int made = 0, good = -1;
  *data = NULL;
  while (status == RDT_OK && made < COPIES && good < 0) {
    out[made] = rdt_tensor_dense(rdt_alloc(bytes, 1), v->dtype, v->rank, v->shape);
    if (!out[made].data) {
      status = rdt_node_fail(g, n, why, RDT_ERR_NOMEM, "no memory for a value of %zu bytes", bytes);
      break;
    }
    status = compute(g, n, views, &out[made], why);
    for (int i = 0; i < made && good < 0 && status == RDT_OK; i++)
      if (memcmp(out[i].data, out[made].data, bytes) == 0) good = i;
    made++;
  }
  if (status == RDT_OK && good < 0)
    status = rdt_node_fail(g, n, why, RDT_ERR_FAULT, "three evaluations while planning gave three results");
  for (int i = 0; i < made; i++) {
    if (i == good && status == RDT_OK)
      *data = out[i].data;
    else
      rdt_free(out[i].data);
  }
  return status;
}

static bool known_inputs(const rdt_node *n, const rdt_tensor *views) {
  if (n->op->protection == RDT_PROTECT_PLAN && n->op->planned == 0) return true; /* shapes are enough */
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k] >= 0 && !views[n->in[k]].data && rdt_tensor_count(&views[n->in[k]]) > 0) return false;
  return true;
}

static rdt_status infer_shapes(const rdt_graph *g, rdt_layout *l, rdt_reason *why) {
  rdt_tensor *views = l->views;
  for (int v = 0; v < g->n_values; v++) {
    const rdt_value *c = &g->values[v];
    if (c->data) views[v] = rdt_tensor_dense(c->data, c->dtype, c->rank, c->shape);
  }
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    const rdt_op_args a = {g, n, views};
    const int y = n->out[0];
    rdt_tensor out = {.rank = 0};
    RDT_TRY(n->op->lower(&a, &out, NULL, why));
    views[y] = rdt_tensor_dense(NULL, out.dtype, out.rank, out.shape);
    RDT_TRY(check_value(g, y, &views[y], why));
    if ((g->values[y].planned || n->op->protection == RDT_PROTECT_PLAN) && known_inputs(n, views)) {
      RDT_TRY(rdt_node_evaluate(g, n, views, &l->folded[y], why));
      views[y].data = l->folded[y];
    }
  }
  return RDT_OK;
}

/* ---- layouts ---- */

/* Channels-last values have strides of their own; while layouts are found, a mark stands for them. */
static bool mark(const rdt_graph *g, const rdt_layout *l, bool *last, int v) {
  const rdt_tensor *t = v >= 0 ? &l->views[v] : NULL;
  if (!t || g->values[v].data || l->folded[v] || (t->rank != 4 && t->rank != 5) || last[v]) return false;
  if (!rdt_dtype_is_float(t->dtype) && t->dtype != RDT_S8 && t->dtype != RDT_U8) return false;
  return last[v] = true;
}

/* Elementwise nodes give all their activations the layout that one of them has. */
static bool spread(const rdt_graph *g, const rdt_node *n, const rdt_layout *l, bool *last) {
  const bool linear = n->op->lower == rdt_op_conv; /* with its residual */
  if (!linear && n->op->layout != RDT_LAYOUT_FOLLOW && n->op->layout != RDT_LAYOUT_SAME) return false;
  bool any = last[n->out[0]], changed = false;
  const int activations = linear ? 1 : n->n_in;
  for (int i = 0; i < activations; i++) any = any || (n->in[i] >= 0 && last[n->in[i]]);
  if (!any) return false;
  for (int i = 0; i < activations; i++) changed |= mark(g, l, last, n->in[i]);
  changed |= mark(g, l, last, n->residual);
  return mark(g, l, last, n->out[0]) || changed;
}

static void choose_layouts(const rdt_graph *g, rdt_layout *l, bool *last) {
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    if (n->op->layout != RDT_LAYOUT_IMAGE) continue;
    mark(g, l, last, n->in[0]);
    mark(g, l, last, n->out[0]);
  }
  bool changed = true; /* any number of rounds gives a correct layout; more than a few never occur in real networks */
  for (int round = 0; changed && round < 8; round++) {
    changed = false;
    for (int i = 0; i < g->n_nodes; i++) changed |= spread(g, &g->nodes[i], l, last);
    for (int i = g->n_nodes - 1; i >= 0; i--) changed |= spread(g, &g->nodes[i], l, last);
  }
  for (int v = 0; v < g->n_values; v++)
    if (last[v]) l->views[v] = rdt_tensor_channels_last(NULL, l->views[v].dtype, l->views[v].rank, l->views[v].shape);
}

/* ---- views ---- */

/* Does every node that reads v take it with any strides? Readers that are views themselves pass it on. */
static void find_strided(const rdt_graph *g, bool *strided) {
  for (int v = 0; v < g->n_values; v++) strided[v] = true;
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    const bool any = n->op->layout == RDT_LAYOUT_FOLLOW || n->op->layout == RDT_LAYOUT_FREE;
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0 && !any) strided[n->in[k]] = false;
    if (n->residual >= 0) strided[n->residual] = false; /* kernels want it as the output lies */
  }
}

/* A copy that could as well be read where its source lies: then it is not made. */
static rdt_status find_views(const rdt_graph *g, rdt_layout *l, const bool *strided, rdt_reason *why) {
  for (int i = 0; i < g->n_nodes; i++) {
    const rdt_node *n = &g->nodes[i];
    const int x = n->n_in > 0 ? n->in[0] : -1, y = n->out[0];
    if (n->op->protection != RDT_PROTECT_DUP || l->folded[y] || x < 0) continue;
    rdt_tensor *const view = &l->views[y];
    rdt_tensor seen; /* one side of a reshape with the shape of the other one */
    if (n->op->lower == rdt_op_copy && n->output == 0 &&
        !rdt_view_reshape(&l->views[x], view->rank, view->shape, &seen) &&
        !rdt_view_reshape(view, l->views[x].rank, l->views[x].shape, &seen))
      *view = rdt_tensor_dense(NULL, view->dtype, view->rank, view->shape);
    if (n->op->layout == RDT_LAYOUT_SAME && !rdt_tensor_same_strides(&l->views[x], view)) *view = l->views[x];
    view->data = NULL;
    const rdt_op_args a = {g, n, l->views};
    rdt_tensor out = *view;
    rdt_problem p = {0};
    const rdt_status s = n->op->lower(&a, &out, &p, why);
    const rdt_tensor source = s == RDT_OK ? p.in[0] : out;
    const bool moves = p.op == RDT_KOP_COPY && source.dtype == view->dtype && rdt_tensor_same_shape(&p.out, view) &&
                       rdt_tensor_same_strides(&p.out, view) && rdt_tensor_same_shape(&source, view);
    rdt_problem_clear(&p);
    RDT_TRY(s);
    if (!moves || !(strided[y] || rdt_tensor_same_strides(&source, view))) continue;
    *view = source;
    view->data = NULL;
    l->alias[y] = l->alias[x];
  }
  return RDT_OK;
}

/* What is accepted here can be lowered: datatypes too are fine. */
static rdt_status check_problems(const rdt_graph *g, const rdt_layout *l, rdt_reason *why) {
  for (int i = 0; i < g->n_nodes; i++) {
    rdt_problem p;
    const int y = g->nodes[i].out[0];
    if (l->folded[y] || l->alias[y] != y) continue;
    RDT_TRY(rdt_node_lower(g, &g->nodes[i], l->views, &p, why));
    rdt_problem_clear(&p);
  }
  return RDT_OK;
}

static rdt_status lay_out(const rdt_graph *g, rdt_layout *l, rdt_reason *why) {
  bool *flags = rdt_calloc((size_t)g->n_values, sizeof *flags);
  if (!flags) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for layouts", g->path);
  choose_layouts(g, l, flags);
  find_strided(g, flags);
  rdt_status status = find_views(g, l, flags, why);
  rdt_free(flags);
  if (status == RDT_OK) status = check_problems(g, l, why);
  return status;
}

rdt_status rdt_layout_init(rdt_layout *l, const rdt_graph *g, rdt_reason *why) {
  l->views = rdt_calloc((size_t)g->n_values, sizeof *l->views);
  l->folded = rdt_calloc((size_t)g->n_values, sizeof *l->folded);
  l->alias = rdt_alloc((size_t)g->n_values, sizeof *l->alias);
  if (!l->views || !l->folded || !l->alias) {
    rdt_layout_clear(l);
    return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for layouts", g->path);
  }
  l->n = g->n_values;
  for (int v = 0; v < g->n_values; v++) {
    l->views[v].rank = -1;
    l->alias[v] = v;
  }
  return RDT_OK;
}

void rdt_layout_clear(rdt_layout *l) {
  for (int v = 0; l->folded && v < l->n; v++) rdt_free(l->folded[v]);
  rdt_free(l->views);
  rdt_free(l->folded);
  rdt_free(l->alias);
  *l = (rdt_layout){0};
}

rdt_status rdt_graph_infer_declared(const rdt_graph *g, int64_t open, bool apart, rdt_layout *l, rdt_reason *why) {
  int64_t unnamed = 0;
  for (int i = 0; i < g->n_inputs; i++)
    for (int d = 0; d < g->values[g->inputs[i]].rank; d++)
      if (g->values[g->inputs[i]].symbol[d] > unnamed) unnamed = g->values[g->inputs[i]].symbol[d];
  for (int i = 0; i < g->n_inputs; i++) {
    const rdt_value *v = &g->values[g->inputs[i]];
    int64_t shape[RDT_MAX_RANK];
    if (v->rank < 0 || !v->typed)
      return rdt_fail(why, RDT_ERR_SHAPE, "%.100s: input '%.60s' has no declared shape; give the input itself", g->path,
                      v->name);
    for (int d = 0; d < v->rank; d++) {
      const bool own = apart && v->symbol[d] == 0; /* beyond those of names */
      shape[d] = v->shape[d] >= 0 ? v->shape[d] : open + (own && v->shape[d] < 0 ? ++unnamed : v->symbol[d]);
    }
    l->views[g->inputs[i]] = rdt_tensor_dense(NULL, v->dtype, v->rank, shape);
    RDT_TRY(check_value(g, g->inputs[i], &l->views[g->inputs[i]], why));
  }
  RDT_TRY(infer_shapes(g, l, why));
  return lay_out(g, l, why);
}

rdt_status rdt_graph_infer(const rdt_graph *g, const rdt_tensor *inputs, int n_inputs, rdt_layout *l, rdt_reason *why) {
  if (n_inputs != g->n_inputs)
    return rdt_fail(why, RDT_ERR_ARG, "%.100s: takes %d inputs, got %d", g->path, g->n_inputs, n_inputs);
  for (int i = 0; i < n_inputs; i++) {
    const int v = g->inputs[i];
    RDT_TRY(check_input(g, i, &inputs[i], why));
    l->views[v] = rdt_tensor_dense(NULL, inputs[i].dtype, inputs[i].rank, inputs[i].shape);
    if (!g->values[v].planned || !inputs[i].data) continue;
    l->folded[v] = rdt_alloc((size_t)rdt_tensor_count(&inputs[i]), rdt_dtype_size(inputs[i].dtype));
    if (!l->folded[v]) return rdt_fail(why, RDT_ERR_NOMEM, "%.100s: no memory for an input's value", g->path);
    l->views[v].data = l->folded[v];
    rdt_tensor_copy(&inputs[i], &l->views[v]);
  }
  RDT_TRY(infer_shapes(g, l, why));
  return lay_out(g, l, why);
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

rdt_status rdt_node_view(const rdt_graph *g, const rdt_node *n, const rdt_tensor *views, void **data, rdt_reason *why) {
  const rdt_op_args a = {g, n, views};
  rdt_tensor out = views[n->out[0]];
  rdt_problem p = {0};
  const rdt_status s = n->op->lower(&a, &out, &p, why);
  if (s == RDT_OK) *data = p.in[0].data;
  rdt_problem_clear(&p);
  return s;
}
