/* ONNX ModelProto -> rdt_graph: everything is checked here, so that later steps may trust what they see. */
#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "net/constant.h"
#include "net/expand.h"
#include "net/load.h"
#include "net/names.h"
#include "net/ops/ops.h"
#include "net/scan.h"
#include "net/tensor_proto.h"

enum { LEAST_OPSET = 1, MOST_OPSET = 23 };

typedef struct loader {
  rdt_graph *g;
  rdt_source bytes; /* of tensors */
  const Onnx__ModelProto *model;
  const Onnx__GraphProto *proto;
  rdt_names values;  /* names of g->values, which own the keys */
  rdt_names nodes;   /* names of g->nodes */
  rdt_names symbols; /* names of open dimensions, numbered from 1 */
  size_t *source;    /* the proto's node behind each of g->nodes */
  rdt_reason *why;
} loader;

static const char *text_or(const char *s, const char *otherwise) {
  return s && *s ? s : otherwise;
}

static const char *path_of(const loader *l) {
  return text_or(l->g->path, "model");
}

static rdt_status no_memory(const loader *l) {
  return rdt_fail(l->why, RDT_ERR_NOMEM, "%.200s: no memory for the graph", path_of(l));
}

/* ---- model level ---- */

static bool default_domain(const char *domain) {
  return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

/* A node, where none is of the ONNX operator set; otherwise NULL. */
static const Onnx__NodeProto *foreign_node(const Onnx__ModelProto *m) {
  const Onnx__NodeProto *foreign = NULL;
  for (size_t i = 0; m->graph && i < m->graph->n_node; i++) {
    if (default_domain(m->graph->node[i]->domain)) return NULL;
    foreign = m->graph->node[i];
  }
  return foreign;
}

/* The version of a domain's operator set that the model imports; 0: none. */
static int64_t version_of(const Onnx__ModelProto *m, const char *domain) {
  for (size_t i = 0; i < m->n_opset_import; i++)
    if (strcmp(text_or(m->opset_import[i]->domain, ""), domain) == 0) return m->opset_import[i]->version;
  return 0;
}

static rdt_status read_opset(loader *l, const Onnx__ModelProto *m) {
  bool found = false;
  for (size_t i = 0; i < m->n_opset_import; i++) {
    if (!default_domain(m->opset_import[i]->domain)) continue;
    if (found)
      return rdt_fail(l->why, RDT_ERR_FORMAT, "%.200s: two versions of the ONNX operator set are imported", path_of(l));
    found = true;
    l->g->opset = m->opset_import[i]->version;
  }
  const Onnx__NodeProto *foreign = found ? NULL : foreign_node(m);
  if (foreign) /* nothing needs a version of it */
    return rdt_fail(l->why, RDT_ERR_UNSUPPORTED, "%.200s: operator %.60s of domain '%.60s' is not available",
                    path_of(l), text_or(foreign->op_type, "?"), foreign->domain);
  if (!found)
    return rdt_fail(l->why, RDT_ERR_FORMAT, "%.200s: no version of the ONNX operator set is imported", path_of(l));
  if (l->g->opset < LEAST_OPSET || l->g->opset > MOST_OPSET)
    return rdt_fail(l->why, RDT_ERR_UNSUPPORTED,
                    "%.200s: opset %lld is not available; export or convert the model with an opset from %d to %d",
                    path_of(l), (long long)l->g->opset, LEAST_OPSET, MOST_OPSET);
  return RDT_OK;
}

static rdt_status check_model(loader *l, const Onnx__ModelProto *m) {
  if (!m->graph)
    return rdt_fail(l->why, RDT_ERR_FORMAT, "%.200s: holds no graph: this is not an ONNX model", path_of(l));
  if (m->n_training_info)
    return rdt_fail(l->why, RDT_ERR_UNSUPPORTED, "%.200s: training information is not available; export for inference",
                    path_of(l));
  if (m->graph->n_sparse_initializer)
    return rdt_fail(l->why, RDT_ERR_UNSUPPORTED, "%.200s: sparse initializers are not available; store them dense",
                    path_of(l));
  return read_opset(l, m);
}

/* Why an operator is not available, and what to do. */
static const char *remedy(const loader *l, const Onnx__NodeProto *n) {
  static const struct {
    const char *ops, *text;
  } missing[] = {
#define X(ops, text) {ops, text},
#include "net/missing.def"
#undef X
  };
  const char *op = text_or(n->op_type, ""), *domain = text_or(n->domain, "");
  char word[80];
  for (size_t i = 0; i < l->model->n_functions; i++) {
    const Onnx__FunctionProto *f = l->model->functions[i];
    if (strcmp(text_or(f->name, ""), op) == 0 && strcmp(text_or(f->domain, ""), domain) == 0)
      return "it is a function of the model; inline the functions first (onnx.inliner)";
  }
  if (strcmp(domain, "com.microsoft") == 0)
    return "it is ONNX Runtime's own; save the model without its extended optimizations";
  if (!default_domain(domain)) return "only operators of ONNX itself are; export without others";
  snprintf(word, sizeof word, " %.70s ", op);
  for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
    if (strstr(missing[i].ops, word)) return missing[i].text;
  return "`redoubt list ops` shows those that are";
}

/* All operators are known, before anything else is looked at. */
static rdt_status check_operators(loader *l) {
  for (size_t i = 0; i < l->proto->n_node; i++) {
    const Onnx__NodeProto *n = l->proto->node[i];
    const char *op = text_or(n->op_type, "");
    const rdt_op_row *row = default_domain(n->domain) ? rdt_op_find(op) : NULL;
    char name[240];
    snprintf(name, sizeof name, "%.80s: node %zu '%.50s'", path_of(l), i, text_or(n->name, ""));
    if (!*op) return rdt_fail(l->why, RDT_ERR_FORMAT, "%s: has no operator", name);
    if (!row || row->since == 0) {
      const int64_t version = default_domain(n->domain) ? l->g->opset : version_of(l->model, n->domain);
      char opset[48] = "which is not imported";
      if (version > 0) snprintf(opset, sizeof opset, "opset %lld", (long long)version);
      return rdt_fail(l->why, RDT_ERR_UNSUPPORTED, "%s: operator %.60s of domain '%.60s', %s, is not available: %s",
                      name, op, text_or(n->domain, "ai.onnx"), opset, remedy(l, n));
    }
    if (l->g->opset < row->since)
      return rdt_fail(l->why, RDT_ERR_UNSUPPORTED,
                      "%s: operator %s as of opset %lld is not available; from %d on it is", name, op,
                      (long long)l->g->opset, row->since);
  }
  return RDT_OK;
}

/* ---- values ---- */

static rdt_status add_value(loader *l, const char *name, int *out) {
  if (!name || !*name) return rdt_fail(l->why, RDT_ERR_FORMAT, "%.200s: a value has no name", path_of(l));
  if (rdt_names_find(&l->values, name) >= 0)
    return rdt_fail(l->why, RDT_ERR_FORMAT, "%.200s: value '%.100s' is defined twice", path_of(l), name);
  *out = rdt_graph_add_value(l->g, name);
  return *out >= 0 && rdt_names_add(&l->values, l->g->values[*out].name, *out) ? RDT_OK : no_memory(l);
}

static rdt_status add_constant(loader *l, const char *name, const rdt_tensor *t, const rdt_origin *at) {
  int v = -1;
  const rdt_status s = add_value(l, name, &v);
  if (s != RDT_OK) {
    if (!at->mapped) rdt_free(t->data);
    return s;
  }
  rdt_value *c = &l->g->values[v];
  c->dtype = t->dtype;
  c->typed = true;
  c->rank = t->rank;
  memcpy(c->shape, t->shape, sizeof c->shape);
  c->data = t->data;
  c->bytes = (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
  c->origin = *at;
  return RDT_OK;
}

/* An initializer is the value of an input that nobody gives. */
static bool is_replaced(const loader *l, const char *name) {
  bool named = false, input = false;
  for (size_t i = 0; i < l->g->replaced.n; i++) named = named || strcmp(l->g->replaced.name[i], name) == 0;
  for (size_t i = 0; named && i < l->proto->n_input; i++)
    input = input || strcmp(text_or(l->proto->input[i]->name, ""), name) == 0;
  return input;
}

static rdt_status add_initializers(loader *l) {
  for (size_t i = 0; i < l->proto->n_initializer; i++) {
    const Onnx__TensorProto *proto = l->proto->initializer[i];
    if (is_replaced(l, text_or(proto->name, ""))) continue;
    rdt_tensor t;
    rdt_origin at;
    char what[200];
    snprintf(what, sizeof what, "%.100s: initializer '%.60s'", path_of(l), text_or(proto->name, ""));
    RDT_TRY(rdt_tensor_of_proto(proto, &l->bytes, what, &t, &at, l->why));
    RDT_TRY(add_constant(l, proto->name, &t, &at));
  }
  return RDT_OK;
}

/* Open dimensions of one name are of one length. */
static rdt_status add_symbol(loader *l, const Onnx__TensorShapeProto__Dimension *dim, int *number) {
  *number = 0;
  if (dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM || !*dim->dim_param) return RDT_OK;
  *number = rdt_names_find(&l->symbols, dim->dim_param);
  if (*number >= 0) return RDT_OK;
  *number = (int)l->symbols.n + 1;
  return rdt_names_add(&l->symbols, dim->dim_param, *number) ? RDT_OK : no_memory(l);
}

/* The declared type of a value that is no constant. strict: an input, whose type must be one that is available. */
static rdt_status declare(loader *l, int v, const Onnx__ValueInfoProto *info, bool strict) {
  rdt_value *value = &l->g->values[v];
  if (!info->type || value->data) return RDT_OK;
  if (info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
    if (!strict) return RDT_OK;
    return rdt_fail(l->why, RDT_ERR_UNSUPPORTED, "%.150s: '%.100s' is no tensor; only tensors are available",
                    path_of(l), value->name);
  }
  const Onnx__TypeProto__Tensor *type = info->type->tensor_type;
  const rdt_dtype dtype = rdt_dtype_of_onnx(type->has_elem_type ? type->elem_type : 0);
  if (dtype == RDT_DTYPE_COUNT && strict)
    return rdt_fail(l->why, RDT_ERR_UNSUPPORTED, "%.150s: '%.100s' has datatype %d (%s), which is not available",
                    path_of(l), value->name, (int)type->elem_type, rdt_onnx_type_name(type->elem_type));
  if (dtype != RDT_DTYPE_COUNT) {
    value->typed = true;
    value->dtype = dtype;
  }
  if (!type->shape) return RDT_OK;
  if (type->shape->n_dim > RDT_MAX_RANK)
    return rdt_fail(l->why, RDT_ERR_UNSUPPORTED, "%.150s: '%.100s' has rank %zu; at most %d is available", path_of(l),
                    value->name, type->shape->n_dim, RDT_MAX_RANK);
  rdt_tensor known = {.dtype = dtype == RDT_DTYPE_COUNT ? RDT_F64 : dtype};
  for (size_t d = 0; d < type->shape->n_dim; d++) {
    const Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[d];
    const bool fixed = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    value->shape[d] = fixed ? dim->dim_value : -1;
    if (!fixed) RDT_TRY(add_symbol(l, dim, &value->symbol[d]));
    known.shape[known.rank++] = fixed ? dim->dim_value : 1;
    if (fixed && dim->dim_value < 0)
      return rdt_fail(l->why, RDT_ERR_SHAPE,
                      "%.150s: '%.100s' has dimension %zu of %lld; a length that is left open must be a name or absent",
                      path_of(l), value->name, d, (long long)dim->dim_value);
  }
  value->rank = known.rank;
  char what[160];
  snprintf(what, sizeof what, "%.90s: '%.60s'", path_of(l), value->name);
  return rdt_tensor_check(&known, what, l->why);
}

static rdt_status add_inputs(loader *l) {
  rdt_graph *g = l->g;
  g->inputs = rdt_calloc(l->proto->n_input, sizeof *g->inputs);
  if (!g->inputs) return no_memory(l);
  const int constants = g->n_values;
  for (size_t i = 0; i < l->proto->n_input; i++) {
    const Onnx__ValueInfoProto *info = l->proto->input[i];
    const int known = rdt_names_find(&l->values, text_or(info->name, ""));
    int v;
    if (known >= 0 && known < constants) continue; /* an initializer that is listed as input too, not replaced */
    RDT_TRY(add_value(l, info->name, &v));
    RDT_TRY(declare(l, v, info, true));
    g->inputs[g->n_inputs++] = v;
  }
  return RDT_OK;
}

/* ---- attributes ---- */

static rdt_status attr_fail(const loader *l, const rdt_node *n, const Onnx__AttributeProto *a, rdt_status s,
                            const char *text) {
  return rdt_node_fail(l->g, n, l->why, s, "attribute '%.60s' %s", text_or(a->name, ""), text);
}

/* The type says which field counts. Before IR version 2 there was none: then it is the one that is there. */
static int type_of(const Onnx__AttributeProto *a) {
  if (a->has_type && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return (int)a->type;
  if (a->has_i) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  if (a->has_f) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  if (a->has_s) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
  if (a->t) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
  if (a->n_ints) return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
  return a->n_floats ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

/* Does any field but the one that the type names hold a value? An absent one is then no default but a confusion. */
static bool confused(const Onnx__AttributeProto *a, int type) {
  const bool has[] = {a->has_i, a->has_f, a->has_s, a->t != NULL, a->n_ints > 0, a->n_floats > 0};
  static const int types[] = {
      ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,    ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
      ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR,
      ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,   ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS};
  bool other = false;
  for (size_t i = 0; i < sizeof has / sizeof has[0]; i++) {
    if (types[i] == type && has[i]) return false;
    other = other || has[i];
  }
  return other || type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
}

static rdt_status read_attr(loader *l, const rdt_node *n, const Onnx__AttributeProto *a, rdt_attr *out) {
  const int type = type_of(a);
  if (!a->name || !*a->name) return attr_fail(l, n, a, RDT_ERR_FORMAT, "has no name");
  if (rdt_node_attr(n, a->name)) return attr_fail(l, n, a, RDT_ERR_FORMAT, "is given twice");
  if (a->ref_attr_name && *a->ref_attr_name)
    return attr_fail(l, n, a, RDT_ERR_UNSUPPORTED, "refers to a function's attribute; inline the functions");
  if (a->g || a->n_graphs) return attr_fail(l, n, a, RDT_ERR_UNSUPPORTED, "is a subgraph, which is not available");
  *out = (rdt_attr){.name = rdt_strdup(a->name)};
  if (!out->name) return no_memory(l);
  switch (type) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
      out->type = RDT_ATTR_INT;
      out->i = a->i;
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
      out->type = RDT_ATTR_FLOAT;
      out->f = a->f;
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
      out->type = RDT_ATTR_STRING;
      out->s = rdt_calloc(a->s.len + 1, 1);
      if (!out->s) return no_memory(l);
      if (a->s.len) memcpy(out->s, a->s.data, a->s.len);
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
      out->type = RDT_ATTR_TENSOR; /* of Constant, which becomes a value */
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
      out->type = RDT_ATTR_INTS;
      out->ints = rdt_alloc(a->n_ints, sizeof *out->ints);
      if (!out->ints || a->n_ints > INT32_MAX) return no_memory(l);
      for (size_t i = 0; i < a->n_ints; i++) out->ints[i] = a->ints[i];
      out->n = (int)a->n_ints;
      break;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
      out->type = RDT_ATTR_FLOATS;
      out->floats = rdt_alloc(a->n_floats, sizeof *out->floats);
      if (!out->floats || a->n_floats > INT32_MAX) return no_memory(l);
      for (size_t i = 0; i < a->n_floats; i++) out->floats[i] = a->floats[i];
      out->n = (int)a->n_floats;
      break;
    default:
      return attr_fail(l, n, a, RDT_ERR_UNSUPPORTED, "has a type that is not available");
  }
  return confused(a, type) ? attr_fail(l, n, a, RDT_ERR_FORMAT, "holds a value of another type than it says") : RDT_OK;
}

static rdt_status read_attrs(loader *l, rdt_node *n, const Onnx__NodeProto *proto) {
  n->attrs = rdt_calloc(proto->n_attribute, sizeof *n->attrs);
  if (!n->attrs) return no_memory(l);
  for (size_t i = 0; i < proto->n_attribute; i++) {
    rdt_attr attr = {0};
    const rdt_status s = read_attr(l, n, proto->attribute[i], &attr);
    n->attrs[n->n_attrs++] = attr; /* also a half-read one, so that it is freed */
    RDT_TRY(s);
  }
  return RDT_OK;
}

/* ---- nodes ---- */

/* A name never empty and never twice: op and number where the file has none. */
static rdt_status name_node(loader *l, rdt_node *n, const Onnx__NodeProto *proto, size_t index) {
  char number[32];
  snprintf(number, sizeof number, "_%zu", index);
  const char *base = text_or(proto->name, proto->op_type);
  const size_t room = strlen(base) + 32 * strlen(number);
  n->name = rdt_alloc(room, 1);
  n->label = rdt_strdup(proto->op_type);
  if (!n->name || !n->label) return no_memory(l);
  snprintf(n->name, room, "%s%s", base, proto->name && *proto->name ? "" : number);
  rdt_text_tame(n->name, '_'); /* names are printed and written to reports */
  while (rdt_names_find(&l->nodes, n->name) >= 0) {
    if (strlen(n->name) + strlen(number) >= room) return no_memory(l);
    strcat(n->name, number);
  }
  if (n->op->protection == RDT_PROTECT_FOLD) return RDT_OK; /* will be gone, and its name free */
  return rdt_names_add(&l->nodes, n->name, 0) ? RDT_OK : no_memory(l);
}

/* value, value_float(s), value_int(s) of a Constant node. */
static rdt_status constant_tensor(loader *l, const rdt_node *n, const Onnx__NodeProto *proto, rdt_tensor *t,
                                  rdt_origin *at) {
  *at = (rdt_origin){.map = -1};
  if (n->n_attrs != 1 || proto->n_input)
    return rdt_node_fail(l->g, n, l->why, RDT_ERR_FORMAT, "must have one attribute and no inputs");
  const rdt_attr *a = &n->attrs[0];
  if (strcmp(a->name, "value") == 0 && a->type == RDT_ATTR_TENSOR) {
    char what[200];
    snprintf(what, sizeof what, "%.90s: node '%.60s' (Constant)", path_of(l), n->name);
    return rdt_tensor_of_proto(proto->attribute[0]->t, &l->bytes, what, t, at, l->why);
  }
  const bool one = a->type == RDT_ATTR_INT || a->type == RDT_ATTR_FLOAT;
  const bool ints = (a->type == RDT_ATTR_INT && strcmp(a->name, "value_int") == 0) ||
                    (a->type == RDT_ATTR_INTS && strcmp(a->name, "value_ints") == 0);
  const bool floats = (a->type == RDT_ATTR_FLOAT && strcmp(a->name, "value_float") == 0) ||
                      (a->type == RDT_ATTR_FLOATS && strcmp(a->name, "value_floats") == 0);
  if (!ints && !floats)
    return rdt_node_fail(l->g, n, l->why, RDT_ERR_UNSUPPORTED,
                         "attribute '%.60s' is not available; take value, value_int(s) or value_float(s)", a->name);
  const int64_t shape[1] = {one ? 1 : a->n};
  *t = rdt_tensor_dense(NULL, ints ? RDT_S64 : RDT_F32, one ? 0 : 1, shape);
  t->data = rdt_alloc((size_t)shape[0], rdt_dtype_size(t->dtype));
  if (!t->data) return no_memory(l);
  for (int64_t i = 0; i < shape[0]; i++) {
    if (ints)
      ((int64_t *)t->data)[i] = one ? a->i : a->ints[i];
    else
      ((float *)t->data)[i] = (float)(one ? a->f : a->floats[i]);
  }
  return RDT_OK;
}

/* Each output becomes a value and a node of its own; Constant nodes become constants and disappear. */
static rdt_status add_node(loader *l, const Onnx__NodeProto *proto, size_t index, size_t output) {
  rdt_graph *g = l->g;
  rdt_node *n = &g->nodes[g->n_nodes++];
  *n = (rdt_node){.op = rdt_op_find(proto->op_type),
                  .residual = -1,
                  .output = (int)output,
                  .outputs = proto->n_output > INT32_MAX ? INT32_MAX : (int)proto->n_output};
  l->source[g->n_nodes - 1] = index;
  RDT_TRY(name_node(l, n, proto, index));
  RDT_TRY(read_attrs(l, n, proto));
  if (n->op->protection == RDT_PROTECT_FOLD) {
    rdt_tensor t;
    rdt_origin at;
    RDT_TRY(constant_tensor(l, n, proto, &t, &at));
    RDT_TRY(add_constant(l, proto->output[0], &t, &at));
    rdt_node_clear(n);
    g->n_nodes--;
    return RDT_OK;
  }
  n->out = rdt_alloc(1, sizeof *n->out);
  if (!n->out) return no_memory(l);
  n->n_out = 1;
  RDT_TRY(add_value(l, proto->output[output], &n->out[0]));
  g->values[n->out[0]].producer = g->n_nodes - 1;
  return RDT_OK;
}

/* An output that the operator does not have here is fine as long as nobody reads it. */
static rdt_status check_output(const loader *l, int v, const char *reader) {
  const int p = l->g->values[v].producer;
  const rdt_node *n = p < 0 ? NULL : &l->g->nodes[p];
  if (!n || n->op->max_out < 0 || n->output < n->op->max_out) return RDT_OK;
  if (rdt_node_int(n, "training_mode", 0)) /* what has the other outputs */
    return rdt_node_fail(l->g, n, l->why, RDT_ERR_UNSUPPORTED,
                         "training_mode=1 is not available; export the model for inference");
  return rdt_node_fail(l->g, n, l->why, RDT_ERR_UNSUPPORTED,
                       "its output %d '%.60s', which %.60s reads, is not available", n->output, l->g->values[v].name,
                       reader);
}

static rdt_status connect_inputs(loader *l, rdt_node *n, const Onnx__NodeProto *proto) {
  const int most = n->op->max_in;
  if (proto->n_input < (size_t)n->op->min_in || (most >= 0 && proto->n_input > (size_t)most) ||
      proto->n_input > INT32_MAX)
    return rdt_node_fail(l->g, n, l->why, RDT_ERR_FORMAT, "has %zu inputs, takes %d to %d", proto->n_input,
                         n->op->min_in, most);
  n->in = rdt_alloc(proto->n_input, sizeof *n->in);
  if (!n->in) return no_memory(l);
  for (size_t i = 0; i < proto->n_input; i++) {
    const bool absent = !*proto->input[i];
    const int v = absent ? -1 : rdt_names_find(&l->values, proto->input[i]);
    if (absent && (i < (size_t)n->op->min_in || most < 0))
      return rdt_node_fail(l->g, n, l->why, RDT_ERR_FORMAT, "its input %zu is missing", i);
    if (!absent && v < 0)
      return rdt_node_fail(l->g, n, l->why, RDT_ERR_FORMAT, "nobody produces its input '%.100s'", proto->input[i]);
    if (!absent) RDT_TRY(check_output(l, v, n->name));
    n->in[n->n_in++] = v;
  }
  return RDT_OK;
}

/* ConstantOfShape is an expansion of its attribute: that becomes a constant, and input 0. */
static rdt_status add_fill(loader *l, int node, const Onnx__NodeProto *proto) {
  rdt_node *n = &l->g->nodes[node];
  const rdt_attr *a = rdt_node_attr(n, "value");
  rdt_tensor t = {.dtype = RDT_F32};
  rdt_origin at = {.map = -1};
  char name[200];
  if (strcmp(n->op->name, "ConstantOfShape") != 0) return RDT_OK;
  snprintf(name, sizeof name, "%.90s: node '%.60s' (ConstantOfShape)", path_of(l), n->name);
  if (a && a->type != RDT_ATTR_TENSOR)
    return rdt_node_fail(l->g, n, l->why, RDT_ERR_FORMAT, "attribute value must be a tensor");
  if (a)
    RDT_TRY(rdt_tensor_of_proto(proto->attribute[a - n->attrs]->t, &l->bytes, name, &t, &at, l->why));
  else if (!(t.data = rdt_calloc(1, sizeof(float))))
    return no_memory(l);
  const int64_t count = rdt_tensor_count(&t);
  if (count != 1) {
    if (!at.mapped) rdt_free(t.data);
    return rdt_node_fail(l->g, n, l->why, RDT_ERR_SHAPE, "attribute value has %lld elements, must have one",
                         (long long)count);
  }
  t.rank = 0;
  snprintf(name, sizeof name, "%.180s.value", l->g->values[n->out[0]].name);
  while (rdt_names_find(&l->values, name) >= 0 && strlen(name) + 2 < sizeof name) strcat(name, "_");
  RDT_TRY(add_constant(l, name, &t, &at));
  int *in = rdt_alloc(2, sizeof *in);
  if (!in) return no_memory(l);
  in[0] = l->g->n_values - 1;
  in[1] = n->in[0];
  rdt_free(n->in);
  n->in = in;
  n->n_in = 2;
  return RDT_OK;
}

static rdt_status add_nodes(loader *l) {
  rdt_graph *g = l->g;
  size_t count = 0;
  for (size_t i = 0; i < l->proto->n_node; i++) count += l->proto->node[i]->n_output;
  g->nodes = rdt_calloc(count, sizeof *g->nodes);
  l->source = rdt_calloc(count, sizeof *l->source);
  if (!g->nodes || !l->source || count > INT32_MAX) return no_memory(l);
  for (size_t i = 0; i < l->proto->n_node; i++) {
    const Onnx__NodeProto *proto = l->proto->node[i];
    if (proto->n_output < 1 || !*proto->output[0])
      return rdt_fail(l->why, RDT_ERR_FORMAT, "%.150s: node %zu '%.100s' (%.60s) has no output", path_of(l), i,
                      text_or(proto->name, ""), proto->op_type);
    for (size_t k = 0; k < proto->n_output; k++)
      if (*proto->output[k]) RDT_TRY(add_node(l, proto, i, k));
  }
  for (int i = 0; i < g->n_nodes; i++) {
    RDT_TRY(connect_inputs(l, &g->nodes[i], l->proto->node[l->source[i]]));
    RDT_TRY(add_fill(l, i, l->proto->node[l->source[i]]));
  }
  return RDT_OK;
}

static rdt_status add_output(loader *l, const Onnx__ValueInfoProto *info) {
  rdt_graph *g = l->g;
  const char *name = text_or(info->name, "");
  const int v = rdt_names_find(&l->values, name);
  if (v < 0) return rdt_fail(l->why, RDT_ERR_FORMAT, "%.150s: nobody produces the output '%.100s'", path_of(l), name);
  RDT_TRY(check_output(l, v, "the caller"));
  RDT_TRY(declare(l, v, info, false));
  g->outputs[g->n_outputs++] = v;
  return RDT_OK;
}

static rdt_status add_outputs(loader *l) {
  const size_t count = l->proto->n_output;
  if (count == 0) return rdt_fail(l->why, RDT_ERR_FORMAT, "%.200s: the graph has no outputs", path_of(l));
  l->g->outputs = rdt_calloc(count, sizeof *l->g->outputs);
  if (!l->g->outputs || count > INT32_MAX) return no_memory(l);
  for (size_t i = 0; i < count; i++) RDT_TRY(add_output(l, l->proto->output[i]));
  return RDT_OK;
}

static rdt_status convert(loader *l, const Onnx__ModelProto *m) {
  RDT_TRY(check_model(l, m));
  l->model = m;
  l->proto = m->graph;
  RDT_TRY(check_operators(l));
  RDT_TRY(add_initializers(l));
  RDT_TRY(add_inputs(l));
  RDT_TRY(add_nodes(l));
  RDT_TRY(add_outputs(l));
  RDT_TRY(rdt_graph_expand(l->g, l->why));
  RDT_TRY(rdt_graph_sort(l->g, l->why));
  RDT_TRY(rdt_graph_share(l->g, l->why));
  RDT_TRY(rdt_graph_fuse(l->g, l->why));
  if (rdt_graph_compact(l->g) != RDT_OK) return no_memory(l);
  rdt_graph_mark_planned(l->g);
  return rdt_constants_seal(l->g, l->why);
}

/* data: of the graph's first map where it has one. */
static rdt_status load(loader *l, const void *data, size_t bytes, rdt_graph **out) {
  ProtobufCMessage *message = NULL;
  rdt_status status = rdt_wire_unpack(&onnx__model_proto__descriptor, data, bytes, path_of(l), &message, l->why);
  l->bytes = (rdt_source){.message = data, .maps = l->g->maps.n ? &l->g->maps : NULL};
  if (status == RDT_OK) status = convert(l, (const Onnx__ModelProto *)message);
  rdt_names_clear(&l->values);
  rdt_names_clear(&l->nodes);
  rdt_names_clear(&l->symbols);
  rdt_free(l->source);
  rdt_wire_free(message);
  if (status == RDT_OK)
    *out = l->g;
  else
    rdt_graph_free(l->g);
  return status;
}

static rdt_status begin(loader *l, const char *path, int threads, rdt_reason *why) {
  *l = (loader){.g = rdt_calloc(1, sizeof *l->g), .why = why};
  if (l->g) {
    l->g->threads = threads;
    l->g->again = rdt_graph_load_replaced;
  }
  if (l->g && (l->g->path = rdt_strdup(path ? path : ""))) return RDT_OK;
  rdt_graph_free(l->g);
  return rdt_fail(why, RDT_ERR_NOMEM, "no memory for a graph");
}

rdt_status rdt_graph_load_memory(const void *data, size_t bytes, const char *path, rdt_graph **out, rdt_reason *why) {
  loader l;
  RDT_TRY(begin(&l, path, 1, why));
  return load(&l, data, bytes, out);
}

static rdt_status copy_names(rdt_graph *g, const rdt_replaced *r, rdt_reason *why) {
  g->replaced.name = rdt_calloc(r->n, sizeof *g->replaced.name);
  g->replaced.votes = r->votes;
  for (bool whole = g->replaced.name != NULL; whole && g->replaced.n < r->n;) {
    char *name = rdt_strdup(r->name[g->replaced.n]);
    whole = name != NULL;
    if (whole) g->replaced.name[g->replaced.n++] = name;
  }
  return g->replaced.n == r->n ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "no memory for the names of inputs");
}

rdt_status rdt_graph_load(const char *path, int threads, rdt_graph **out, rdt_reason *why) {
  return rdt_graph_load_replaced(path, threads, &(rdt_replaced){.n = 0}, out, why);
}

rdt_status rdt_graph_load_replaced(const char *path, int threads, const rdt_replaced *r, rdt_graph **out,
                                   rdt_reason *why) {
  loader l;
  struct stat st;
  RDT_TRY(begin(&l, path, threads, why));
  const rdt_status named = copy_names(l.g, r, why);
  if (named != RDT_OK) {
    rdt_graph_free(l.g);
    return named;
  }
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a pipe can be read once, in order */
    void *data = NULL;
    size_t bytes = 0;
    rdt_status status = rdt_file_read(path, &data, &bytes, why);
    if (status == RDT_OK)
      status = load(&l, data, bytes, out);
    else
      rdt_graph_free(l.g);
    rdt_free(data);
    return status;
  }
  const rdt_status status = rdt_maps_init(&l.g->maps, path, why);
  if (status == RDT_OK) return load(&l, l.g->maps.list[0].data, l.g->maps.list[0].bytes, out);
  rdt_graph_free(l.g);
  return status;
}
