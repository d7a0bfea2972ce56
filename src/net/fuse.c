/* What can be settled once, at loading: constants are folded, BatchNormalization goes into the weights before it; a
 * factor, additions and an activation into the linear op before them. A fused node takes the place of the last node
 * that went into it, where all its inputs are known; so the order stays topological. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/constant.h"
#include "net/load.h"
#include "net/ops/ops.h"

typedef struct fuser {
  rdt_graph *g;
  int *readers;      /* by value: node inputs and graph outputs that read it */
  int n_known;       /* values that readers and views cover; later ones are new constants */
  rdt_tensor *views; /* shapes with open dimensions from PROBE on; NULL where the model does not say enough */
  bool sure;         /* dimensions that differ in views do differ, or may: no two without a name were taken for equal */
  rdt_tensor *known; /* the views of the first n_known values, at least of constants */
  rdt_reason *why;
} fuser;

/* A length that no broadcast takes for 1. */
enum { PROBE = 96 };

static bool is_constant(const rdt_graph *g, int v) {
  return v >= 0 && g->values[v].data;
}

static rdt_status no_memory(const fuser *f) {
  return rdt_fail(f->why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", f->g->path);
}

static rdt_tensor constant_view(const rdt_graph *g, int v) {
  const rdt_value *c = &g->values[v];
  return rdt_tensor_dense(c->data, c->dtype, c->rank, c->shape);
}

/* A new value, "<node>/<what>". */
static rdt_status new_value(fuser *f, const rdt_node *n, const char *what, int *out) {
  const size_t room = strlen(n->name) + strlen(what) + 24;
  char *name = rdt_alloc(room, 1);
  if (!name) return no_memory(f);
  snprintf(name, room, "%s/%s:%d", n->name, what, f->g->n_values);
  *out = rdt_graph_add_value(f->g, name);
  rdt_free(name);
  return *out < 0 ? no_memory(f) : RDT_OK;
}

/* A new constant of the given shape with room for its data. */
static rdt_status new_constant(fuser *f, const rdt_node *n, const char *what, rdt_dtype dtype, int rank,
                               const int64_t *shape, int *out) {
  rdt_tensor t = rdt_tensor_dense(NULL, dtype, rank, shape);
  RDT_TRY(new_value(f, n, what, out));
  t.data = rdt_calloc((size_t)rdt_tensor_count(&t), rdt_dtype_size(dtype));
  if (!t.data) return no_memory(f);
  rdt_value_hold(&f->g->values[*out], &t);
  return RDT_OK;
}

/* ---- constants and identities ---- */

/* Larger results stay nodes, unless as much was read: a small file must not fill the memory. Weights of 8 bits become
 * f32.
 */
static const int64_t most_folded = 1 << 26, most_times = 4; /* bytes */

static int64_t bytes_read(const rdt_graph *g, const rdt_node *n) {
  int64_t sum = 0;
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k] >= 0) sum += (int64_t)g->values[n->in[k]].bytes;
  return sum;
}

/* A node whose inputs are all constants is one. */
static rdt_status fold_constant(fuser *f, rdt_node *n, rdt_tensor *views) {
  rdt_graph *g = f->g;
  const rdt_op_args a = {g, n, views};
  rdt_tensor *out = &views[n->out[0]], shape = {.rank = 0};
  RDT_TRY(n->op->lower(&a, &shape, NULL, f->why));
  RDT_TRY(rdt_tensor_check(&shape, n->name, f->why));
  const int64_t bytes = rdt_tensor_count(&shape) * (int64_t)rdt_dtype_size(shape.dtype);
  *out = rdt_tensor_dense(NULL, shape.dtype, shape.rank, shape.shape);
  if (bytes > most_folded && bytes > most_times * bytes_read(g, n)) return RDT_OK;
  RDT_TRY(rdt_node_evaluate(g, n, views, &out->data, f->why));
  rdt_value_hold(&g->values[n->out[0]], out);
  rdt_node_clear(n);
  return RDT_OK;
}

static bool reads_constants(const rdt_graph *g, const rdt_node *n) {
  for (int k = 0; k < n->n_in; k++)
    if (n->in[k] >= 0 && !is_constant(g, n->in[k])) return false;
  return true;
}

/* Constants are folded; nodes that change nothing go, and their readers read what they read. */
static rdt_status fold_nodes(fuser *f) {
  rdt_graph *g = f->g;
  rdt_status status = RDT_OK;
  int *same = rdt_alloc((size_t)g->n_values, sizeof *same);
  bool *output = rdt_calloc((size_t)g->n_values, sizeof *output);
  rdt_tensor *views = rdt_calloc((size_t)g->n_values, sizeof *views);
  if (!same || !output || !views) status = no_memory(f);
  for (int v = 0; v < g->n_values && status == RDT_OK; v++) {
    same[v] = v;
    if (is_constant(g, v)) views[v] = constant_view(g, v);
  }
  for (int i = 0; i < g->n_outputs && status == RDT_OK; i++) output[g->outputs[i]] = true;
  for (int i = 0; i < g->n_nodes && status == RDT_OK; i++) {
    rdt_node *n = &g->nodes[i];
    const rdt_op_args a = {g, n, views};
    rdt_tensor out = {.rank = 0};
    if (!n->op) continue;
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0) n->in[k] = same[n->in[k]];
    if (reads_constants(g, n)) {
      status = fold_constant(f, n, views);
    } else if (n->output == 0 && (strcmp(n->op->name, "Identity") == 0 || strcmp(n->op->name, "Dropout") == 0)) {
      if (n->n_in > 2 && n->in[2] >= 0 && !is_constant(g, n->in[2])) continue;
      status = n->op->lower(&a, &out, NULL, f->why); /* refuses training */
      if (status != RDT_OK || output[n->out[0]]) continue;
      same[n->out[0]] = n->in[0];
      rdt_node_clear(n);
    }
  }
  rdt_free(same);
  rdt_free(output);
  rdt_free(views);
  return status;
}

/* ---- into the linear op ---- */

/* Attribute beta of a Gemm; setting it is possible where it is there, and 1 is the default. */
static double *beta_of(const rdt_node *n) {
  for (int i = 0; i < n->n_attrs; i++)
    if (strcmp(n->attrs[i].name, "beta") == 0 && n->attrs[i].type == RDT_ATTR_FLOAT) return &n->attrs[i].f;
  return NULL;
}

/* Number of output channels, where the weight is a constant that shows it; -1 otherwise. */
static int64_t channels_of(const rdt_graph *g, const rdt_node *n) {
  if (!is_constant(g, n->in[1])) return -1;
  const rdt_value *w = &g->values[n->in[1]];
  if (n->op->lower == rdt_op_conv) return w->rank >= 3 ? w->shape[0] : -1;
  if (w->rank != 2) return -1;
  return n->op->lower == rdt_op_gemm && rdt_node_int(n, "transB", 0) ? w->shape[0] : w->shape[1];
}

/* Is v a constant vector along the channels of a result of rank r, with `after` dimensions behind the channel? */
static bool is_channel_vector(const rdt_graph *g, int v, int64_t channels, int r, int after) {
  if (!is_constant(g, v)) return false;
  const rdt_value *c = &g->values[v];
  const int at = c->rank - 1 - after;
  if (c->rank > r || at < 0 || c->shape[at] != channels) return false;
  for (int d = 0; d < c->rank; d++)
    if (d != at && c->shape[d] != 1) return false;
  return true;
}

/* Bias element c of a linear node as it counts now: beta times C for a Gemm, 0 where there is none. */
static double bias_at(const rdt_graph *g, const rdt_node *n, int64_t c) {
  const double *beta = beta_of(n);
  if (n->n_in < 3 || n->in[2] < 0) return 0.0;
  return rdt_load(g->values[n->in[2]].data, g->values[n->in[2]].dtype, c) * (beta ? *beta : 1.0);
}

/* No bias, or one that new constants can take in. */
static bool bias_is_foldable(const rdt_graph *g, const rdt_node *n, int64_t channels) {
  if (n->n_in < 3 || n->in[2] < 0) return true;
  return is_channel_vector(g, n->in[2], channels, 2, 0) && g->values[n->in[2]].dtype == g->values[n->in[1]].dtype;
}

static rdt_status set_bias(fuser *f, rdt_node *n, int bias) {
  if (n->n_in < 3) {
    int *in = rdt_grow(n->in, (size_t)n->n_in, 3, sizeof *in);
    if (!in) return no_memory(f);
    n->in = in;
    n->n_in = 3;
  }
  n->in[2] = bias;
  double *beta = n->op->lower == rdt_op_gemm ? beta_of(n) : NULL;
  if (beta) *beta = 1.0;
  return RDT_OK;
}

/* scale / sqrt(var + epsilon) into factor and B - mean * factor into shift; false where that is not finite. */
static bool batchnorm_terms(const rdt_graph *g, const rdt_node *bn, double epsilon, int64_t c, double *factor,
                            double *shift) {
  double x[4];
  for (int i = 0; i < 4; i++) x[i] = rdt_load(g->values[bn->in[1 + i]].data, g->values[bn->in[1 + i]].dtype, c);
  *factor = x[0] / sqrt(x[3] + epsilon);
  *shift = x[1] - x[2] * *factor;
  return isfinite(*factor) && isfinite(*shift);
}

static bool batchnorm_is_foldable(const rdt_graph *g, const rdt_node *n, const rdt_node *bn, int64_t channels) {
  const rdt_attr *epsilon = rdt_node_attr(bn, "epsilon");
  if (channels < 0 || n->residual >= 0 || n->op->lower == rdt_op_matmul || !bias_is_foldable(g, n, channels))
    return false;
  if (rdt_node_int(bn, "training_mode", 0) || !rdt_node_int(bn, "spatial", 1)) return false;
  if (epsilon && epsilon->type != RDT_ATTR_FLOAT) return false;
  const rdt_dtype dtype = g->values[n->in[1]].dtype;
  for (int i = 1; i < 5; i++)
    if (!is_channel_vector(g, bn->in[i], channels, 1, 0) || g->values[bn->in[i]].dtype != dtype) return false;
  return rdt_dtype_is_float(dtype);
}

/* Factors for the weights and the new bias, both in double; false where one is not finite. */
static bool batchnorm_bias(const rdt_graph *g, const rdt_node *n, const rdt_node *bn, double *factor, rdt_value *bias) {
  const rdt_attr *attr = rdt_node_attr(bn, "epsilon");
  const double epsilon = attr ? attr->f : 1e-5;
  bool finite = true;
  for (int64_t c = 0; c < bias->shape[0] && finite; c++) {
    double shift;
    finite = batchnorm_terms(g, bn, epsilon, c, &factor[c], &shift);
    rdt_store(bias->data, bias->dtype, c, bias_at(g, n, c) * factor[c] + shift);
    finite = finite && isfinite(rdt_load(bias->data, bias->dtype, c));
  }
  return finite;
}

/* *done stays false where the result would not be finite. */
static rdt_status fold_batchnorm(fuser *f, rdt_node *n, const rdt_node *bn, bool *done) {
  rdt_graph *g = f->g;
  const int64_t channels = channels_of(g, n);
  const bool by_row = n->op->lower == rdt_op_conv || rdt_node_int(n, "transB", 0); /* channels outermost */
  int w, b;
  bool finite;
  if (!batchnorm_is_foldable(g, n, bn, channels)) return RDT_OK;
  RDT_TRY(new_value(f, n, "weight", &w));
  RDT_TRY(new_constant(f, n, "bias", g->values[n->in[1]].dtype, 1, &channels, &b));
  double *factor = rdt_alloc((size_t)channels, sizeof *factor);
  if (!factor) return no_memory(f);
  if (!batchnorm_bias(g, n, bn, factor, &g->values[b])) {
    rdt_free(factor);
    return RDT_OK;
  }
  RDT_TRY(rdt_constant_scale(g, w, n->in[1], factor, channels, by_row, &finite, f->why));
  if (!finite) return RDT_OK;
  n->in[1] = w;
  *done = true;
  return set_bias(f, n, b);
}

/* A constant along the channels joins the bias. */
static rdt_status add_bias(fuser *f, rdt_node *n, int addend, bool *done) {
  rdt_graph *g = f->g;
  const int64_t channels = channels_of(g, n);
  const bool conv = n->op->lower == rdt_op_conv;
  if (channels < 0 || !is_constant(g, addend) || g->values[addend].dtype != g->values[n->in[1]].dtype) return RDT_OK;
  /* The rank of a product is that of its left side; without shapes only a plain vector is safe. */
  const int rank = conv                          ? g->values[n->in[1]].rank
                   : n->op->lower == rdt_op_gemm ? 2
                   : f->views                    ? f->views[n->out[0]].rank
                                                 : 1;
  if (!is_channel_vector(g, addend, channels, rank, conv ? rank - 2 : 0) || !bias_is_foldable(g, n, channels))
    return RDT_OK;
  int b;
  RDT_TRY(new_constant(f, n, "bias", g->values[addend].dtype, 1, &channels, &b));
  rdt_value *bias = &g->values[b];
  const rdt_value *vector = &g->values[addend];
  for (int64_t c = 0; c < channels; c++)
    rdt_store(bias->data, bias->dtype, c, bias_at(g, n, c) + rdt_load(vector->data, vector->dtype, c));
  *done = true;
  return set_bias(f, n, b);
}

/* Anything that broadcasts to the product's shape can ride in its epilogue. */
static bool takes_residual(const fuser *f, const rdt_node *n, const rdt_node *add, int addend) {
  const rdt_graph *g = f->g;
  if (!f->views || !f->sure || n->residual >= 0 || addend >= f->n_known) return false;
  const rdt_tensor *product = &f->views[n->out[0]], *sum = &f->views[add->out[0]];
  if (!rdt_tensor_same_shape(product, sum) || product->dtype != f->views[addend].dtype) return false;
  if (n->op->lower != rdt_op_gemm || n->n_in < 3 || n->in[2] < 0) return true;
  const double *beta = beta_of(n);
  return (!beta || *beta == 1.0) && is_channel_vector(g, n->in[2], product->shape[1], 2, 0);
}

/* What the elementwise node x multiplies the value `product` by, where that is a constant scalar; 0 otherwise. */
static double factor_of(const fuser *f, const rdt_node *x, int product) {
  const rdt_graph *g = f->g;
  const bool mul = x->op->lower == rdt_op_map && x->op->fn == RDT_FN_MUL, div = x->op->fn == RDT_FN_DIV;
  if ((!mul && !div) || x->op->lower != rdt_op_map || x->act.fn != RDT_FN_NONE || x->n_in != 2 || g->opset < 7)
    return 0;
  const int c = x->in[0] == product ? x->in[1] : x->in[0];
  if ((div && x->in[0] != product) || !is_constant(g, c)) return 0;
  const rdt_value *v = &g->values[c];
  if (v->bytes != rdt_dtype_size(v->dtype) || v->rank > (f->views ? f->views[product].rank : 0)) return 0;
  const double number = rdt_load(v->data, v->dtype, 0), factor = div ? 1.0 / number : number;
  const double size = fabs(factor), least = rdt_dtype_info(RDT_F32)->min_normal; /* epilogues may scale in f32 */
  return size >= least && size <= 1.0 / least ? factor : 0;
}

/* Nothing but the raw product can be scaled. */
static bool takes_factor(const rdt_node *n) {
  return n->residual < 0 && n->scale == 0.0 && (n->n_in < 3 || n->in[2] < 0);
}

/* An elementwise function of one operand. */
static bool act_of(const fuser *f, const rdt_node *x, rdt_act *act) {
  const rdt_op_args a = {f->g, x, f->known};
  for (int k = 0; k < x->n_in; k++)
    if (x->in[k] >= f->n_known) return false;
  return rdt_op_act(&a, act);
}

static bool is_add(const rdt_node *x) {
  return x->op->lower == rdt_op_map && x->op->fn == RDT_FN_ADD && x->act.fn == RDT_FN_NONE;
}

static rdt_status fuse_into(fuser *f, rdt_node *n, rdt_node *x, int operand, bool *done) {
  rdt_act act;
  const double factor = factor_of(f, x, n->out[0]);
  *done = true;
  if (act_of(f, x, &act)) {
    n->act = act;
    return RDT_OK;
  }
  if (factor != 0.0 && takes_factor(n)) {
    n->scale = factor;
    return RDT_OK;
  }
  *done = false;
  if (x->op->lower == rdt_op_batchnorm) return fold_batchnorm(f, n, x, done);
  if (!is_add(x)) return RDT_OK;
  const int addend = x->in[1 - operand];
  RDT_TRY(add_bias(f, n, addend, done));
  if (*done || !takes_residual(f, n, x, addend)) return RDT_OK;
  n->residual = addend;
  *done = true;
  return RDT_OK;
}

/* Value v comes from a linear node that can take more, for nobody else. */
static bool from_linear(const fuser *f, int v) {
  const int p = v >= 0 ? f->g->values[v].producer : -1;
  if (p < 0 || f->readers[v] != 1) return false;
  const rdt_op_row *op = f->g->nodes[p].op;
  const bool integers = op->lower == rdt_op_conv_integer || op->lower == rdt_op_matmul_integer ||
                        op->lower == rdt_op_integer_conv || op->lower == rdt_op_integer_matmul; /* no epilogue */
  return op->protection == RDT_PROTECT_LINEAR && !integers && f->g->nodes[p].act.fn == RDT_FN_NONE;
}

/* The linear node whose result only x reads, as its operand number *operand; of two, the later one. -1: none. */
static int linear_before(const fuser *f, const rdt_node *x, int *operand) {
  const rdt_graph *g = f->g;
  rdt_act act;
  int best = -1;
  if (is_add(x) && g->opset < 7) return -1; /* other rules of broadcasting */
  const bool one = x->op->lower == rdt_op_batchnorm || act_of(f, x, &act);
  for (int k = 0; k < (one ? 1 : x->n_in); k++) {
    if (x->in[k] < 0 || !from_linear(f, x->in[k]) || g->values[x->in[k]].producer <= best) continue;
    if (!one && !is_add(x) && factor_of(f, x, x->in[k]) == 0.0) continue;
    best = g->values[x->in[k]].producer;
    *operand = k;
  }
  return best;
}

/* "Conv" and "Relu": "Conv+Relu" */
static rdt_status join_labels(const fuser *f, rdt_node *n, const rdt_node *x) {
  const char *what = x->act.fn == RDT_FN_NONE ? x->op->name : x->label; /* of a pattern, all that it was */
  const size_t room = strlen(n->label) + strlen(what) + 2;
  char *label = rdt_alloc(room, 1);
  if (!label) return no_memory(f);
  snprintf(label, room, "%s+%s", n->label, what);
  rdt_free(n->label);
  n->label = label;
  return RDT_OK;
}

static rdt_status merge(fuser *f, int from, int into) {
  rdt_graph *g = f->g;
  rdt_node *x = &g->nodes[into], *n = &g->nodes[from];
  RDT_TRY(join_labels(f, n, x));
  n->out[0] = x->out[0];
  rdt_node_clear(x);
  *x = *n;
  *n = (rdt_node){.residual = -1};
  g->values[x->out[0]].producer = into;
  return RDT_OK;
}

/* A function of one operand behind a Reshape of a linear node's result goes before the Reshape. */
static rdt_status fuse_before_reshape(fuser *f, int i) {
  rdt_graph *g = f->g;
  rdt_node *x = &g->nodes[i];
  rdt_act act;
  if (!act_of(f, x, &act)) return RDT_OK;
  const int v = x->in[0], r = g->values[v].producer;
  if (r < 0 || f->readers[v] != 1 || strcmp(g->nodes[r].op->name, "Reshape") != 0) return RDT_OK;
  rdt_node *reshape = &g->nodes[r];
  if (!from_linear(f, reshape->in[0])) return RDT_OK;
  rdt_node *linear = &g->nodes[g->values[reshape->in[0]].producer];
  RDT_TRY(join_labels(f, linear, x));
  linear->act = act;
  reshape->out[0] = x->out[0];
  g->values[reshape->out[0]].producer = r;
  rdt_node_clear(x);
  return RDT_OK;
}

static void count_readers(fuser *f) {
  const rdt_graph *g = f->g;
  memset(f->readers, 0, (size_t)f->n_known * sizeof *f->readers);
  for (int i = 0; i < g->n_nodes; i++)
    for (int k = 0; k < g->nodes[i].n_in; k++)
      if (g->nodes[i].op && g->nodes[i].in[k] >= 0) f->readers[g->nodes[i].in[k]]++;
  for (int i = 0; i < g->n_outputs; i++) f->readers[g->outputs[i]]++;
}

static rdt_status fuse_linear(fuser *f) {
  rdt_graph *g = f->g;
  for (int i = 0; i < g->n_nodes; i++) {
    int operand = 0;
    bool done = false;
    if (!g->nodes[i].op) continue;
    const int p = linear_before(f, &g->nodes[i], &operand);
    if (p < 0) {
      RDT_TRY(fuse_before_reshape(f, i));
      continue;
    }
    RDT_TRY(fuse_into(f, &g->nodes[p], &g->nodes[i], operand, &done));
    if (done) RDT_TRY(merge(f, p, i));
  }
  return RDT_OK;
}

/* The first of so many lengths in a row that no constant has: what broadcasts by chance must not look as if it always
 * did. */
static int64_t unused_lengths(const rdt_graph *g, int64_t count) {
  int64_t first = PROBE;
  bool moved = true;
  for (int round = 0; moved && round < 32;
       round++) { /* a hostile model may have them all: then what fuses is refused later */
    moved = false;
    for (int v = 0; v < g->n_values; v++)
      for (int d = 0; is_constant(g, v) && d < g->values[v].rank; d++)
        if (g->values[v].shape[d] >= first && g->values[v].shape[d] < first + count) {
          first = g->values[v].shape[d] + 1;
          moved = true;
        }
  }
  return first;
}

/* Shapes with a length for each open dimension; those without a name differ from each other, if the model allows it. */
static rdt_status probe(fuser *f, rdt_layout *l) {
  const int64_t open = unused_lengths(f->g, 1 + (int64_t)f->g->n_inputs * RDT_MAX_RANK);
  f->views = NULL;
  rdt_graph_mark_planned(f->g);
  for (int apart = 1; apart >= 0 && !f->views; apart--) {
    rdt_layout_clear(l);
    RDT_TRY(rdt_layout_init(l, f->g, f->why));
    for (int v = 0; v < f->g->n_values; v++)
      if (is_constant(f->g, v)) l->views[v] = constant_view(f->g, v);
    f->known = l->views;
    f->sure = apart;
    if (rdt_graph_infer_declared(f->g, open, apart, l, NULL) == RDT_OK) f->views = l->views;
  }
  return RDT_OK;
}

/* Before anything is fused: larger patterns are found in what the file said. */
static rdt_status match_patterns(fuser *f) {
  rdt_layout layout = {0};
  rdt_status status = probe(f, &layout);
  if (status == RDT_OK && f->views) status = rdt_graph_match_norms(f->g, f->views, f->why);
  rdt_layout_clear(&layout);
  return status;
}

rdt_status rdt_graph_fuse(rdt_graph *g, rdt_reason *why) {
  fuser f = {.g = g, .why = why};
  RDT_TRY(fold_nodes(&f));
  if (rdt_graph_compact(g) != RDT_OK) return no_memory(&f);
  RDT_TRY(match_patterns(&f));
  if (rdt_graph_compact(g) != RDT_OK) return no_memory(&f);
  f.n_known = g->n_values;
  f.readers = rdt_calloc((size_t)g->n_values, sizeof *f.readers);
  rdt_layout layout = {0};
  rdt_status status = f.readers ? probe(&f, &layout) : no_memory(&f);
  if (status == RDT_OK) {
    count_readers(&f);
    status = rdt_graph_find_patterns(g, f.readers, f.views, why);
  }
  if (status == RDT_OK) {
    count_readers(&f);
    status = fuse_linear(&f);
  }
  const int votes = g->replaced.votes;
  if (status == RDT_OK)
    status = votes > 1 ? rdt_graph_divide_products(g, votes, why) : rdt_graph_join_products(g, f.views, why);
  rdt_layout_clear(&layout);
  rdt_free(f.readers);
  return status;
}
