#include "util_onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"

static void *must(void *p) {
  if (!p) abort();
  return p;
}

static char *copy_text(const char *s) {
  return must(strdup(s));
}

/* Appends to one of protobuf-c's pairs of count and array. */
static void append(void *list, size_t *n, void *item) {
  void ***array = list;
  *array = must(realloc(*array, (*n + 1) * sizeof **array));
  (*array)[(*n)++] = item;
}

void util_onnx_init(util_onnx *m, int64_t opset) {
  onnx__model_proto__init(&m->model);
  onnx__graph_proto__init(&m->graph);
  onnx__operator_set_id_proto__init(&m->opset);
  m->model.has_ir_version = 1;
  m->model.ir_version = 8;
  m->model.graph = &m->graph;
  m->graph.name = copy_text("test");
  m->opset.has_version = 1;
  m->opset.version = opset;
  m->opsets[0] = &m->opset;
  m->model.n_opset_import = 1;
  m->model.opset_import = m->opsets;
}

void util_onnx_clear(util_onnx *m) {
  Onnx__GraphProto *g = must(malloc(sizeof *g));
  *g = m->graph; /* all its parts came from malloc, which is protobuf-c's default allocator */
  onnx__graph_proto__free_unpacked(g, NULL);
}

static Onnx__ValueInfoProto *value_info(const char *name, rdt_dtype dtype, int rank, const int64_t *shape) {
  Onnx__ValueInfoProto *v = must(malloc(sizeof *v));
  Onnx__TypeProto *type = must(malloc(sizeof *type));
  Onnx__TypeProto__Tensor *tensor = must(malloc(sizeof *tensor));
  onnx__value_info_proto__init(v);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  v->name = copy_text(name);
  v->type = type;
  type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  type->tensor_type = tensor;
  tensor->has_elem_type = 1;
  tensor->elem_type = rdt_dtype_info(dtype)->onnx;
  if (rank < 0) return v;
  tensor->shape = must(malloc(sizeof *tensor->shape));
  onnx__tensor_shape_proto__init(tensor->shape);
  for (int d = 0; d < rank; d++) {
    Onnx__TensorShapeProto__Dimension *dim = must(malloc(sizeof *dim));
    onnx__tensor_shape_proto__dimension__init(dim);
    if (shape[d] == -1) {
      dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
      dim->dim_param = copy_text("N");
    } else if (shape[d] != UTIL_UNNAMED) {
      dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
      dim->dim_value = shape[d];
    }
    append(&tensor->shape->dim, &tensor->shape->n_dim, dim);
  }
  return v;
}

void util_onnx_input(util_onnx *m, const char *name, rdt_dtype dtype, int rank, const int64_t *shape) {
  append(&m->graph.input, &m->graph.n_input, value_info(name, dtype, rank, shape));
}

void util_onnx_output(util_onnx *m, const char *name, rdt_dtype dtype, int rank, const int64_t *shape) {
  append(&m->graph.output, &m->graph.n_output, value_info(name, dtype, rank, shape));
}

Onnx__TensorProto *util_tensor_proto(const char *name, rdt_dtype dtype, int rank, const int64_t *shape,
                                     const void *data) {
  Onnx__TensorProto *t = must(malloc(sizeof *t));
  size_t bytes = rdt_dtype_size(dtype);
  onnx__tensor_proto__init(t);
  if (name) t->name = copy_text(name);
  t->has_data_type = 1;
  t->data_type = rdt_dtype_info(dtype)->onnx;
  t->n_dims = (size_t)rank;
  t->dims = must(malloc((size_t)rank * sizeof *t->dims + 1));
  for (int d = 0; d < rank; d++) {
    t->dims[d] = shape[d];
    bytes *= (size_t)shape[d];
  }
  t->has_raw_data = 1;
  t->raw_data.len = bytes;
  t->raw_data.data = must(malloc(bytes + 1));
  if (bytes) memcpy(t->raw_data.data, data, bytes);
  return t;
}

Onnx__TensorProto *util_onnx_initializer(util_onnx *m, const char *name, rdt_dtype dtype, int rank,
                                         const int64_t *shape, const void *data) {
  Onnx__TensorProto *t = util_tensor_proto(name, dtype, rank, shape, data);
  append(&m->graph.initializer, &m->graph.n_initializer, t);
  return t;
}

void util_onnx_external(Onnx__TensorProto *t, const char *location, const char *offset, const char *length) {
  const char *const entries[] = {"location", location, "offset", offset, "length", length};
  t->has_raw_data = 0;
  free(t->raw_data.data);
  t->raw_data.data = NULL;
  t->raw_data.len = 0;
  t->has_data_location = 1;
  t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  for (int i = 0; i < 6; i += 2) {
    if (!entries[i + 1]) continue;
    Onnx__StringStringEntryProto *e = must(malloc(sizeof *e));
    onnx__string_string_entry_proto__init(e);
    e->key = copy_text(entries[i]);
    e->value = copy_text(entries[i + 1]);
    append(&t->external_data, &t->n_external_data, e);
  }
}

static void append_names(char ***list, size_t *n, const char *names) {
  char *text = copy_text(names), *rest = text, *name;
  while ((name = strtok_r(rest, " ", &rest))) append(list, n, copy_text(strcmp(name, "-") == 0 ? "" : name));
  free(text);
}

static Onnx__AttributeProto *attribute(const util_attr *from) {
  Onnx__AttributeProto *a = must(malloc(sizeof *a));
  onnx__attribute_proto__init(a);
  a->name = copy_text(from->name);
  a->has_type = 1;
  a->type = (Onnx__AttributeProto__AttributeType)from->type;
  a->has_i = from->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
  a->i = from->i;
  a->has_f = from->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
  a->f = from->f;
  a->t = from->t;
  if (from->s) {
    a->has_s = 1;
    a->s.len = strlen(from->s);
    a->s.data = (uint8_t *)copy_text(from->s);
  }
  if (from->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS) {
    a->n_ints = (size_t)from->n;
    a->ints = must(malloc(sizeof from->ints));
    memcpy(a->ints, from->ints, sizeof from->ints);
  }
  if (from->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS) {
    a->n_floats = (size_t)from->n;
    a->floats = must(malloc(sizeof from->floats));
    memcpy(a->floats, from->floats, sizeof from->floats);
  }
  return a;
}

Onnx__NodeProto *util_onnx_node(util_onnx *m, const char *op, const char *name, const char *inputs, const char *outputs,
                                const util_attr *attrs) {
  Onnx__NodeProto *n = must(malloc(sizeof *n));
  onnx__node_proto__init(n);
  n->op_type = copy_text(op);
  if (name) n->name = copy_text(name);
  append_names(&n->input, &n->n_input, inputs);
  append_names(&n->output, &n->n_output, outputs);
  for (; attrs && attrs->name; attrs++) append(&n->attribute, &n->n_attribute, attribute(attrs));
  append(&m->graph.node, &m->graph.n_node, n);
  return n;
}

void *util_onnx_pack(const util_onnx *m, size_t *bytes) {
  *bytes = onnx__model_proto__get_packed_size(&m->model);
  uint8_t *data = must(malloc(*bytes + 1));
  onnx__model_proto__pack(&m->model, data);
  return data;
}

void util_onnx_save(const util_onnx *m, const char *path) {
  size_t bytes;
  void *data = util_onnx_pack(m, &bytes);
  FILE *f = must(fopen(path, "wb"));
  if (fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) abort();
  free(data);
}

void util_onnx_spoil(const char *path) {
  FILE *f = must(fopen(path, "r+b"));
  if (fseek(f, 0, SEEK_END) != 0) abort();
  const long bytes = ftell(f);
  rewind(f);
  for (long i = 0; i < bytes; i++) fputc(0, f);
  if (fclose(f) != 0) abort();
}

void util_fill(float *data, int64_t n, uint64_t seed) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < n; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    data[i] = (float)((double)(x >> 11) * 0x1p-52 - 1.0);
  }
}
