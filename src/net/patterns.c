/* Functions that exporters write as several operators, found again: each becomes one elementwise node, where nobody
 * else reads the values between. The node takes the place of the last one, so the order stays topological. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/tolerance.h"
#include "core/memory.h"
#include "net/load.h"
#include "net/ops/ops.h"

enum { MOST = 12 };

typedef struct finder {
  rdt_graph *g;
  const int *readers;
  int *reader;             /* by value: the last node that reads it */
  const rdt_tensor *views; /* NULL where the model does not say enough */
  int used[MOST], n_used;  /* nodes of the pattern that is being tried */
} finder;

static bool is_map(const rdt_node *n, rdt_fn fn) {
  return n->op && n->op->lower == rdt_op_map && n->act.fn == RDT_FN_NONE && n->op->fn == fn;
}

/* Node i takes part in the pattern, as fn; false where it is something else. */
static bool take(finder *f, int i, rdt_fn fn) {
  if (i < 0 || !is_map(&f->g->nodes[i], fn) || f->n_used == MOST) return false;
  f->used[f->n_used++] = i;
  return true;
}

/* The only node that reads v, and the node that makes v for one reader only; -1 for none. */
static int only_reader(const finder *f, int v) {
  return f->readers[v] == 1 ? f->reader[v] : -1;
}
static int own_maker(const finder *f, int v) {
  return v >= 0 && f->readers[v] == 1 ? f->g->values[v].producer : -1;
}

/* The operand beside v; -1 where v is none, or both. */
static int beside(const finder *f, int node, int v) {
  const rdt_node *n = &f->g->nodes[node];
  if (n->n_in != 2 || n->in[0] == n->in[1]) return -1;
  return n->in[0] == v ? n->in[1] : n->in[1] == v ? n->in[0] : -1;
}

/* Is v a constant scalar that leaves the shape of x alone? */
static bool number_of(const finder *f, int v, int x, double *number) {
  const rdt_value *c = v >= 0 ? &f->g->values[v] : NULL;
  if (!c || !c->data || !rdt_dtype_is_float(c->dtype) || c->bytes != rdt_dtype_size(c->dtype)) return false;
  if (c->rank > (f->views && x >= 0 ? f->views[x].rank : 0)) return false;
  *number = rdt_load(c->data, c->dtype, 0);
  return true;
}

/* The number itself, or what a rounding or two have made of it. */
static bool is_number(const finder *f, int v, int x, double wanted) {
  double number;
  return number_of(f, v, x, &number) &&
         fabs(number - wanted) <= rdt_tolerance_constant(f->g->values[v].dtype) * fabs(wanted);
}

/* Node i multiplies a value by `factor`; which value? -1 where it does not. */
static int scaled(finder *f, int i, double factor) {
  if (i < 0) return -1;
  const rdt_node *n = &f->g->nodes[i];
  if (n->n_in != 2) return -1;
  const int a = n->in[0], b = n->in[1];
  if (is_map(n, RDT_FN_MUL) && is_number(f, b, a, factor)) return take(f, i, RDT_FN_MUL) ? a : -1;
  if (is_map(n, RDT_FN_MUL) && is_number(f, a, b, factor)) return take(f, i, RDT_FN_MUL) ? b : -1;
  if (is_map(n, RDT_FN_DIV) && is_number(f, b, a, 1.0 / factor)) return take(f, i, RDT_FN_DIV) ? a : -1;
  return -1;
}

/* x (1 + t) / 2 in any order, from the node that makes t; the last node, -1 for none. */
static int half_of_one_plus(finder *f, int t, int x) {
  const int add = only_reader(f, f->g->nodes[t].out[0]);
  if (!take(f, add, RDT_FN_ADD) || !is_number(f, beside(f, add, f->g->nodes[t].out[0]), x, 1.0)) return -1;
  const int sum = f->g->nodes[add].out[0], next = only_reader(f, sum);
  if (next < 0) return -1;
  if (scaled(f, next, 0.5) == sum) { /* x ((1 + t) / 2) */
    const int half = f->g->nodes[next].out[0], last = only_reader(f, half);
    return take(f, last, RDT_FN_MUL) && beside(f, last, half) == x ? last : -1;
  }
  if (!take(f, next, RDT_FN_MUL)) return -1;
  const int other = beside(f, next, sum), product = f->g->nodes[next].out[0];
  if (other != x) return scaled(f, own_maker(f, other), 0.5) == x ? next : -1; /* (x / 2) (1 + t) */
  const int last = only_reader(f, product);
  return scaled(f, last, 0.5) == product ? last : -1;
}

/* v = x^3, as a power or two products */
static bool is_cube(finder *f, int v, int x) {
  const int i = own_maker(f, v);
  if (i < 0) return false;
  const rdt_node *n = &f->g->nodes[i];
  if (is_map(n, RDT_FN_POW)) return n->in[0] == x && is_number(f, n->in[1], x, 3.0) && take(f, i, RDT_FN_POW);
  const int square = beside(f, i, x), k = own_maker(f, square);
  if (k < 0 || f->g->nodes[k].n_in != 2) return false;
  return f->g->nodes[k].in[0] == x && f->g->nodes[k].in[1] == x && take(f, k, RDT_FN_MUL) && take(f, i, RDT_FN_MUL);
}

/* ---- the patterns: from node i the last one, with *x the argument and *act; -1 for none ---- */

static int find_gelu(finder *f, int i, int *x, rdt_act *act) {
  if (!take(f, i, RDT_FN_ERF)) return -1;
  *x = scaled(f, own_maker(f, f->g->nodes[i].in[0]), sqrt(0.5));
  act->fn = RDT_FN_GELU;
  return *x < 0 ? -1 : half_of_one_plus(f, i, *x);
}

static int find_gelu_tanh(finder *f, int i, int *x, rdt_act *act) {
  if (!take(f, i, RDT_FN_TANH)) return -1;
  const int sum = scaled(f, own_maker(f, f->g->nodes[i].in[0]), sqrt(2.0 / 3.14159265358979323846));
  const int add = own_maker(f, sum);
  if (!take(f, add, RDT_FN_ADD)) return -1;
  act->fn = RDT_FN_GELU_TANH;
  const int so_far = f->n_used;
  for (int k = 0; k < 2; k++) { /* x + 0.044715 x^3, either way round */
    f->n_used = so_far;
    *x = f->g->nodes[add].in[k];
    const int cube = scaled(f, own_maker(f, f->g->nodes[add].in[1 - k]), 0.044715);
    if (is_cube(f, cube, *x)) return half_of_one_plus(f, i, *x);
  }
  return -1;
}

/* x f(x) */
static int times_itself(finder *f, int i, int *x) {
  const int y = f->g->nodes[i].out[0], last = only_reader(f, y);
  return take(f, last, RDT_FN_MUL) && beside(f, last, y) == *x ? last : -1;
}

static int find_silu(finder *f, int i, int *x, rdt_act *act) {
  if (!take(f, i, RDT_FN_SIGMOID)) return -1;
  *x = f->g->nodes[i].in[0];
  act->fn = RDT_FN_SILU;
  return times_itself(f, i, x);
}

static int find_hardswish(finder *f, int i, int *x, rdt_act *act) {
  const rdt_op_args a = {f->g, &f->g->nodes[i], NULL};
  rdt_reason why;
  if (!take(f, i, RDT_FN_HARDSIGMOID)) return -1;
  if (rdt_op_float(&a, "alpha", 0.2, &act->param[0], &why) != RDT_OK ||
      rdt_op_float(&a, "beta", 0.5, &act->param[1], &why) != RDT_OK)
    return -1;
  *x = f->g->nodes[i].in[0];
  act->fn = RDT_FN_HARDSWISH;
  return times_itself(f, i, x);
}

static int find_mish(finder *f, int i, int *x, rdt_act *act) {
  if (!take(f, i, RDT_FN_TANH)) return -1;
  const int inner = own_maker(f, f->g->nodes[i].in[0]);
  if (!take(f, inner, RDT_FN_SOFTPLUS)) return -1;
  *x = f->g->nodes[inner].in[0];
  act->fn = RDT_FN_MISH;
  return times_itself(f, i, x);
}

static const struct {
  const char *name;
  int (*find)(finder *f, int i, int *x, rdt_act *act);
} patterns[] = {{"Gelu", find_gelu},
                {"Gelu", find_gelu_tanh},
                {"Silu", find_silu},
                {"HardSwish", find_hardswish},
                {"Mish", find_mish}};

/* "Gelu(Div+Erf+Add+Mul+Mul)" */
static char *label_of(const finder *f, const char *name) {
  size_t room = strlen(name) + 3;
  bool member[MOST] = {false};
  for (int k = 0; k < f->n_used; k++) room += strlen(f->g->nodes[f->used[k]].op->name) + 1;
  char *label = rdt_alloc(room, 1);
  if (!label) return NULL;
  size_t at = (size_t)snprintf(label, room, "%s(", name);
  for (int k = 0; k < f->n_used; k++) { /* in the order of the graph */
    int first = -1;
    for (int j = 0; j < f->n_used; j++)
      if (!member[j] && (first < 0 || f->used[j] < f->used[first])) first = j;
    member[first] = true;
    at += (size_t)snprintf(label + at, room - at, k ? "+%s" : "%s", f->g->nodes[f->used[first]].op->name);
  }
  snprintf(label + at, room - at, ")");
  return label;
}

static rdt_status replace(finder *f, const char *name, int last, int x, const rdt_act *act, rdt_reason *why) {
  rdt_node *n = &f->g->nodes[last];
  char *label = label_of(f, name);
  if (!label) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", f->g->path);
  rdt_free(n->label);
  n->label = label;
  n->act = *act;
  n->in[0] = x;
  n->n_in = 1;
  for (int k = 0; k < f->n_used; k++)
    if (f->used[k] != last) rdt_node_clear(&f->g->nodes[f->used[k]]);
  return RDT_OK;
}

rdt_status rdt_graph_find_patterns(rdt_graph *g, const int *readers, const rdt_tensor *views, rdt_reason *why) {
  finder f = {.g = g, .readers = readers, .views = views};
  if (g->opset < 7) return RDT_OK; /* other rules of broadcasting */
  f.reader = rdt_alloc((size_t)g->n_values, sizeof *f.reader);
  if (!f.reader) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", g->path);
  for (int v = 0; v < g->n_values; v++) f.reader[v] = -1;
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->nodes[i].n_in; k++)
      if (g->nodes[i].in[k] >= 0) f.reader[g->nodes[i].in[k]] = i;
  rdt_status status = RDT_OK;
  for (int i = 0; i < g->n_nodes && status == RDT_OK; i++)
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns && status == RDT_OK; p++) {
      rdt_act act = {.fn = RDT_FN_NONE};
      int x = -1;
      f.n_used = 0;
      if (!g->nodes[i].op) break;
      const int last = patterns[p].find(&f, i, &x, &act);
      if (last >= 0 && x >= 0) status = replace(&f, patterns[p].name, last, x, &act, why);
    }
  rdt_free(f.reader);
  return status;
}
