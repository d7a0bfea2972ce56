/* Reading ONNX files: what good ones become, and that bad ones are refused with a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "util_graph.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

/* x [N 1 8 8] -> Conv+BN+Relu -> MaxPool -> Conv(+skip)+Relu -> GlobalAveragePool -> Flatten -> Gemm -> Softmax */
static void small_cnn(util_onnx *m, int64_t opset) {
  float w[4096];
  util_fill(w, 4096, 7);
  util_onnx_init(m, opset);
  util_onnx_input(m, "x", RDT_F32, 4, SHAPE(-1, 1, 8, 8));
  util_onnx_initializer(m, "w1", RDT_F32, 4, SHAPE(4, 1, 3, 3), w);
  util_onnx_initializer(m, "w2", RDT_F32, 4, SHAPE(4, 4, 3, 3), w);
  util_onnx_initializer(m, "b2", RDT_F32, 1, SHAPE(4), w);
  util_onnx_initializer(m, "wf", RDT_F32, 2, SHAPE(10, 4), w);
  util_onnx_initializer(m, "bf", RDT_F32, 1, SHAPE(10), w);
  const float one[4] = {1, 2, 3, 4};
  for (const char *const *name = (const char *const[]){"scale", "shift", "mean", "var", NULL}; *name; name++)
    util_onnx_initializer(m, *name, RDT_F32, 1, SHAPE(4), one);
  util_onnx_node(m, "Conv", "conv1", "x w1", "c1", UTIL_ATTRS(UTIL_INTS("pads", 4, 1, 1, 1, 1)));
  util_onnx_node(m, "BatchNormalization", NULL, "c1 scale shift mean var", "n1", NULL);
  util_onnx_node(m, "Relu", NULL, "n1", "r1", NULL);
  util_onnx_node(m, "MaxPool", "pool", "r1", "p1",
                 UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 2, 2), UTIL_INTS("strides", 2, 2, 2)));
  util_onnx_node(m, "Conv", "conv2", "p1 w2 b2", "c2", UTIL_ATTRS(UTIL_INTS("pads", 4, 1, 1, 1, 1)));
  util_onnx_node(m, "Add", NULL, "p1 c2", "a2", NULL);
  util_onnx_node(m, "Relu", NULL, "a2", "r2", NULL);
  util_onnx_node(m, "GlobalAveragePool", NULL, "r2", "g", NULL);
  util_onnx_node(m, "Flatten", NULL, "g", "f", NULL);
  util_onnx_node(m, "Gemm", "fc", "f wf bf", "y", UTIL_ATTRS(UTIL_INT("transB", 1)));
  util_onnx_node(m, "Softmax", NULL, "y", "out", UTIL_ATTRS(UTIL_INT("axis", 1)));
  util_onnx_output(m, "out", RDT_F32, 2, SHAPE(-1, 10));
}

/* The model must be refused with this status and all these words (separated by |) in the message. Clears the model. */
static void refuse(util_onnx *m, rdt_status expected, const char *words) {
  size_t bytes;
  rdt_reason why = {""};
  rdt_graph *g = NULL;
  void *data = util_onnx_pack(m, &bytes);
  const rdt_status s = rdt_graph_load_memory(data, bytes, "test.onnx", &g, &why);
  if (s != expected) fail_msg("%s instead of %s: %s", rdt_status_name(s), rdt_status_name(expected), why.text);
  assert_null(g);
  char *copy = strdup(words), *rest = copy, *word;
  while ((word = strtok_r(rest, "|", &rest)))
    if (!strstr(why.text, word)) fail_msg("no '%s' in: %s", word, why.text);
  free(copy);
  free(data);
  util_onnx_clear(m);
}

static void test_small_cnn(void **state) {
  (void)state;
  util_onnx m;
  small_cnn(&m, 13);
  rdt_graph *g = util_graph_load(&m);
  static const char *const labels[] = {
      "Conv+BatchNormalization+Relu", "MaxPool", "Conv+Add+Relu", "GlobalAveragePool", "Flatten", "Gemm", "Softmax"};
  assert_int_equal(g->n_nodes, 7);
  for (int i = 0; i < g->n_nodes; i++) assert_string_equal(g->nodes[i].label, labels[i]);
  assert_string_equal(g->nodes[0].name, "conv1");
  assert_string_equal(g->nodes[6].name, "Softmax_10");
  assert_int_equal(g->nodes[0].act.fn, RDT_FN_RELU);
  assert_int_equal(g->nodes[2].residual, rdt_graph_find(g, "p1"));
  assert_int_equal(g->n_inputs, 1);
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].data) assert_true(g->values[v].bitsum == rdt_bitsum(g->values[v].data, g->values[v].bytes));

  rdt_reason why = {""};
  rdt_layout layout;
  assert_int_equal(rdt_layout_init(&layout, g, &why), RDT_OK);
  const rdt_tensor *views = layout.views;
  const rdt_tensor x = rdt_tensor_dense(NULL, RDT_F32, 4, SHAPE(5, 1, 8, 8));
  if (rdt_graph_infer(g, &x, 1, &layout, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(views[g->outputs[0]].shape[0], 5);
  assert_int_equal(views[g->outputs[0]].shape[1], 10);
  assert_true(rdt_tensor_is_channels_last(&views[rdt_graph_find(g, "p1")]));
  assert_int_equal(views[rdt_graph_find(g, "p1")].stride[1], 1);
  for (int i = 0; i < g->n_nodes; i++) {
    rdt_problem p;
    if (rdt_node_lower(g, &g->nodes[i], views, &p, &why) != RDT_OK) fail_msg("%s", why.text);
    rdt_problem_clear(&p);
  }
  rdt_layout_clear(&layout);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* A model of Relu nodes: "in>out" pairs separated by blanks, reading x, with the output y. */
static void relus(util_onnx *m, const char *edges) {
  util_onnx_init(m, 13);
  util_onnx_input(m, "x", RDT_F32, 2, SHAPE(2, 3));
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
  char *copy = strdup(edges), *rest = copy, *edge;
  while ((edge = strtok_r(rest, " ", &rest))) {
    char *out = strchr(edge, '>');
    *out++ = '\0';
    util_onnx_node(m, "Relu", NULL, edge, out, NULL);
  }
  free(copy);
}

static void test_order_and_names(void **state) {
  (void)state;
  util_onnx m;
  relus(&m, "b>y a>b x>a");
  for (size_t i = 0; i < 3; i++) m.graph.node[i]->name = strdup("same\nn\xc3\xa4m\xff\xc3");
  rdt_graph *g = util_graph_load(&m);
  assert_int_equal(g->n_nodes, 3);
  assert_int_equal(g->nodes[0].in[0], g->inputs[0]);
  for (int i = 1; i < 3; i++) assert_int_equal(g->nodes[i].in[0], g->nodes[i - 1].out[0]);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(g->values[g->nodes[i].out[0]].producer, i);
    assert_memory_equal(g->nodes[i].name, "same_n\xc3\xa4m__", 11);
    for (int k = 0; k < i; k++) assert_string_not_equal(g->nodes[i].name, g->nodes[k].name);
  }
  rdt_graph_free(g);
  util_onnx_clear(&m);

  relus(&m, "x>y x>unused"); /* what no output needs is not computed */
  g = util_graph_load(&m);
  assert_int_equal(g->n_nodes, 1);
  assert_string_equal(g->nodes[0].name, "Relu_0");
  assert_int_equal(rdt_graph_find(g, "unused"), -1);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void test_broken_graphs(void **state) {
  (void)state;
  static const struct {
    const char *edges, *words;
  } cases[] = {
      {"x>a y>b b>y", "Relu_|cyclic"},       {"y>y", "Relu_0|cyclic"},
      {"x>y x>y", "'y'|defined twice"},      {"x>x", "'x'|defined twice"},
      {"a>y", "Relu_0|nobody produces|'a'"}, {"x>b", "nobody produces the output 'y'"},
      {"->y", "Relu_0|input 0 is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    util_onnx m;
    relus(&m, cases[i].edges);
    refuse(&m, RDT_ERR_FORMAT, cases[i].words);
  }
  util_onnx m;
  relus(&m, "x>y");
  util_onnx_input(&m, "x", RDT_F32, -1, NULL);
  refuse(&m, RDT_ERR_FORMAT, "'x'|defined twice");
  relus(&m, "x>y");
  util_onnx_node(&m, "Relu", "two", "x x", "z", NULL);
  refuse(&m, RDT_ERR_FORMAT, "'two'|has 2 inputs");
  relus(&m, "x>y");
  util_onnx_node(&m, "Relu", "none", "x", "", NULL);
  refuse(&m, RDT_ERR_FORMAT, "'none'|no output");
  relus(&m, "x>y");
  util_onnx_node(&m, "Concat", "cat", "x - x", "z", NULL);
  refuse(&m, RDT_ERR_FORMAT, "'cat'|input 1 is missing");
  util_onnx_init(&m, 13);
  refuse(&m, RDT_ERR_FORMAT, "no outputs");
}

static void test_model_level(void **state) {
  (void)state;
  util_onnx m;
  relus(&m, "x>y");
  m.opset.version = 5;
  refuse(&m, RDT_ERR_UNSUPPORTED, "operator Relu as of opset 5|from 6 on");
  relus(&m, "x>y");
  m.opset.version = 0;
  refuse(&m, RDT_ERR_UNSUPPORTED, "opset 0|from 1 to 23");
  relus(&m, "x>y");
  m.opset.version = 24;
  refuse(&m, RDT_ERR_UNSUPPORTED, "opset 24");
  relus(&m, "x>y");
  m.opset.version = -1;
  refuse(&m, RDT_ERR_UNSUPPORTED, "opset -1");
  relus(&m, "x>y");
  m.model.n_opset_import = 0;
  refuse(&m, RDT_ERR_FORMAT, "operator set");
  relus(&m, "x>y");
  m.opset.domain = (char *)(uintptr_t) "ai.onnx.ml";
  refuse(&m, RDT_ERR_FORMAT, "operator set");
  relus(&m, "x>y");
  m.opset.domain = (char *)(uintptr_t) "ai.onnx.ml";
  m.graph.node[0]->domain = strdup("ai.onnx.ml");
  refuse(&m, RDT_ERR_UNSUPPORTED, "operator Relu of domain 'ai.onnx.ml'");
  relus(&m, "x>y");
  Onnx__OperatorSetIdProto *twice[2] = {&m.opset, &m.opset};
  m.model.opset_import = twice;
  m.model.n_opset_import = 2;
  refuse(&m, RDT_ERR_FORMAT, "two versions");
  relus(&m, "x>y");
  Onnx__TrainingInfoProto training = ONNX__TRAINING_INFO_PROTO__INIT, *trainings[1] = {&training};
  m.model.training_info = trainings;
  m.model.n_training_info = 1;
  refuse(&m, RDT_ERR_UNSUPPORTED, "training");
  relus(&m, "x>y");
  m.model.graph = NULL;
  refuse(&m, RDT_ERR_FORMAT, "not an ONNX model");
  rdt_graph *g = NULL;
  rdt_reason why;
  assert_int_equal(rdt_graph_load_memory("", 0, "empty.onnx", &g, &why), RDT_ERR_FORMAT);
  assert_int_equal(rdt_graph_load("/no/such/model.onnx", 1, &g, &why), RDT_ERR_IO);
  assert_non_null(strstr(why.text, "/no/such/model.onnx"));
}

static void test_unknown_ops(void **state) {
  (void)state;
  util_onnx m;
  small_cnn(&m, 13);
  util_onnx_node(&m, "Einsum", "strange", "y", "z", NULL);
  refuse(&m, RDT_ERR_UNSUPPORTED, "test.onnx|strange|Einsum|opset 13");
  relus(&m, "x>y");
  util_onnx_node(&m, "Relu", "foreign", "x", "z", NULL)->domain = strdup("com.example");
  refuse(&m, RDT_ERR_UNSUPPORTED, "foreign|Relu|com.example");
  relus(&m, "x>y");
  util_onnx_node(&m, "If", "branch", "x", "z", NULL);
  refuse(&m, RDT_ERR_UNSUPPORTED, "branch|If");
  relus(&m, "x>y");
  util_onnx_node(&m, "", "empty", "x", "z", NULL);
  refuse(&m, RDT_ERR_FORMAT, "empty|no operator");
  relus(&m, "x>y");
  util_onnx_node(&m, "BatchNormalization", "norm", "x x x x x", "z mean", NULL);
  util_onnx_node(&m, "Relu", "reader", "mean", "w", NULL);
  refuse(&m, RDT_ERR_UNSUPPORTED, "norm|BatchNormalization|'mean'|reader");
  relus(&m, "x>y");
  util_onnx_node(&m, "Relu", "two", "x", "z other", NULL); /* an output that nobody reads is fine */
  rdt_graph_free(util_graph_load(&m));
  util_onnx_output(&m, "other", RDT_F32, -1, NULL);
  refuse(&m, RDT_ERR_UNSUPPORTED, "two|'other'|the caller");
  for (int mode = 0; mode < 2; mode++) {
    relus(&m, "x>y");
    const char *const vectors[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) util_onnx_initializer(&m, vectors[i], RDT_F32, 1, SHAPE(3), (const float[]){1, 1, 1});
    util_onnx_node(&m, "BatchNormalization", "norm", "x a b c d", "z mean var",
                   UTIL_ATTRS(UTIL_INT("training_mode", mode)));
    util_onnx_output(&m, "mean", RDT_F32, -1, NULL);
    refuse(&m, RDT_ERR_UNSUPPORTED,
           mode ? "(BatchNormalization)|training_mode=1|for inference" : "its output 1 'mean'");
  }
  relus(&m, "x>y");
  const unsigned char yes = 1;
  util_onnx_initializer(&m, "yes", RDT_BOOL, 0, NULL, &yes);
  util_onnx_node(&m, "Dropout", "drop", "x - yes", "z", NULL);
  util_onnx_output(&m, "z", RDT_F32, -1, NULL);
  refuse(&m, RDT_ERR_UNSUPPORTED, "drop|training_mode");
}

/* What is left out says so, and what to do. */
static void test_left_out(void **state) {
  static const struct {
    const char *op, *domain, *words;
  } cases[] = {
      {"If", "", "'node'|If|control flow"},
      {"Loop", "", "Loop|unrolled"},
      {"Scan", "", "control flow"},
      {"SequenceAt", "", "sequences"},
      {"OptionalHasElement", "", "optional values"},
      {"StringNormalizer", "", "prepare text"},
      {"RandomUniformLike", "", "pass them as an input"},
      {"Bernoulli", "", "random numbers"},
      {"ConvTranspose", "", "Resize and Conv"},
      {"MaxUnpool", "ai.onnx", "upsample"},
      {"FusedMatMul", "com.microsoft", "'com.microsoft', opset 7|ONNX Runtime's own|extended optimizations"},
      {"TreeEnsembleClassifier", "ai.onnx.ml", "only operators of ONNX itself"},
      {"Conv", "com.example", "'com.example', which is not imported|only operators of ONNX itself"},
      {"If", "ai.onnx", "'ai.onnx', opset 13"},
      {"Frob\x1b[31m\nnicate\xff", "", "Frob?[31m?nicate?"}, /* nothing of a file reaches the terminal as a command */
      {"Twice", "local", "inline the functions"},
      {"Opt", "", "`redoubt list ops`"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    util_onnx m;
    Onnx__FunctionProto twice = ONNX__FUNCTION_PROTO__INIT, *functions[1] = {&twice};
    Onnx__OperatorSetIdProto microsoft = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets[2] = {&m.opset, &microsoft};
    microsoft.domain = (char *)"com.microsoft";
    microsoft.version = microsoft.has_version = 7;
    twice.name = (char *)"Twice";
    twice.domain = (char *)"local";
    relus(&m, "x>y");
    m.model.n_functions = 1;
    m.model.functions = functions;
    m.model.opset_import = sets;
    m.model.n_opset_import = 2;
    util_onnx_node(&m, cases[i].op, "node", "x", "z", NULL)->domain = strdup(cases[i].domain);
    refuse(&m, RDT_ERR_UNSUPPORTED, cases[i].words);
  }
}

static void test_declared_types(void **state) {
  (void)state;
  util_onnx m;
  relus(&m, "x>y");
  Onnx__TypeProto__Tensor *type = m.graph.input[0]->type->tensor_type;
  type->shape->dim[1]->dim_value = -3;
  refuse(&m, RDT_ERR_SHAPE, "'x'|-3");
  relus(&m, "x>y");
  type = m.graph.input[0]->type->tensor_type;
  type->shape->dim[0]->dim_value = INT64_MAX / 2;
  refuse(&m, RDT_ERR_SHAPE, "'x'|overflow");
  relus(&m, "x>y");
  m.graph.input[0]->type->tensor_type->elem_type = 8;
  refuse(&m, RDT_ERR_UNSUPPORTED, "'x'|STRING");
  relus(&m, "x>y");
  util_onnx_input(&m, "deep", RDT_F32, 9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1));
  refuse(&m, RDT_ERR_UNSUPPORTED, "'deep'|rank 9");
  relus(&m, "x>y");
  util_onnx_initializer(&m, "w", RDT_F32, 1, SHAPE(2), (const float[]){1, 2})->dims[0] = 3;
  refuse(&m, RDT_ERR_FORMAT, "initializer 'w'|takes 12 bytes");
  relus(&m, "x>y");
  util_onnx_initializer(&m, "w", RDT_F32, 1, SHAPE(2), (const float[]){1, 2})->dims[0] = -2;
  refuse(&m, RDT_ERR_SHAPE, "initializer 'w'|negative");
  relus(&m, "x>y");
  Onnx__TensorProto *w = util_onnx_initializer(&m, "w", RDT_F32, 1, SHAPE(2), (const float[]){1, 2});
  w->has_data_location = 1;
  w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  refuse(&m, RDT_ERR_UNSUPPORTED, "initializer 'w'|another file");
  relus(&m, "x>y");
  Onnx__SparseTensorProto sparse = ONNX__SPARSE_TENSOR_PROTO__INIT, *list[1] = {&sparse};
  m.graph.sparse_initializer = list;
  m.graph.n_sparse_initializer = 1;
  size_t bytes;
  rdt_graph *g = NULL;
  rdt_reason why;
  void *data = util_onnx_pack(&m, &bytes);
  assert_int_equal(rdt_graph_load_memory(data, bytes, "", &g, &why), RDT_ERR_UNSUPPORTED);
  free(data);
  m.graph.n_sparse_initializer = 0;
  m.graph.sparse_initializer = NULL;
  /* an initializer that is listed as input too is no input (test_external.c: unless it is replaced) */
  util_onnx_initializer(&m, "x", RDT_F32, 2, SHAPE(1, 1), (const float[]){1});
  g = util_graph_load(&m);
  assert_int_equal(g->n_inputs, 0);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void test_attributes(void **state) {
  (void)state;
  util_onnx m;
  Onnx__AttributeProto *a;
#define WITH_ATTR(...)                                                                        \
  relus(&m, "x>y");                                                                           \
  a = util_onnx_node(&m, "Flatten", "flat", "x", "z", UTIL_ATTRS(__VA_ARGS__))->attribute[0]; \
  util_onnx_output(&m, "z", RDT_F32, -1, NULL)
  WITH_ATTR(UTIL_INT("axis", 1), UTIL_INT("axis", 1));
  refuse(&m, RDT_ERR_FORMAT, "flat|'axis'|twice");
  WITH_ATTR(UTIL_INT("axis", 1));
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT; /* says float, holds an integer */
  refuse(&m, RDT_ERR_FORMAT, "flat|'axis'|another type");
  WITH_ATTR(UTIL_INT("axis", 1));
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
  refuse(&m, RDT_ERR_FORMAT, "flat|'axis'|another type");
  WITH_ATTR(UTIL_INT("axis", 1));
  a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS;
  refuse(&m, RDT_ERR_UNSUPPORTED, "flat|'axis'");
  WITH_ATTR(UTIL_INT("axis", 1));
  a->g = malloc(sizeof *a->g);
  onnx__graph_proto__init(a->g);
  refuse(&m, RDT_ERR_UNSUPPORTED, "flat|subgraph");
  WITH_ATTR(UTIL_INT("axis", 1));
  a->ref_attr_name = strdup("outer");
  refuse(&m, RDT_ERR_UNSUPPORTED, "flat|function");
  WITH_ATTR(UTIL_INT("axis", 1));
  a->name[0] = '\0';
  refuse(&m, RDT_ERR_FORMAT, "flat|no name");
  WITH_ATTR(UTIL_INT("axis", 0));
  a->has_type = 0; /* before IR version 2: the field that is there counts */
  rdt_graph_free(util_graph_load(&m));
  a->has_type = 1;
  a->has_i = 0; /* written by a tool that leaves out zeros */
  rdt_graph *g = util_graph_load(&m);
  const rdt_tensor x = rdt_tensor_dense(NULL, RDT_F32, 2, SHAPE(2, 3));
  rdt_layout layout;
  assert_int_equal(rdt_layout_init(&layout, g, NULL), RDT_OK);
  assert_int_equal(rdt_graph_infer(g, &x, 1, &layout, NULL), RDT_OK);
  assert_int_equal(layout.views[rdt_graph_find(g, "z")].shape[0], 1);
  rdt_layout_clear(&layout);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void test_constants(void **state) {
  (void)state;
  const util_attr attrs[] = {
      UTIL_INT("value_int", -5), UTIL_INTS("value_ints", 3, 1, 2, 3), UTIL_FLOAT("value_float", 0.5f),
      UTIL_FLOATS("value_floats", 2, 1.5f, 2.5f),
      UTIL_TENSOR("value", util_tensor_proto(NULL, RDT_F64, 1, SHAPE(1), (const double[]){3.0}))};
  static const rdt_dtype dtypes[] = {RDT_S64, RDT_S64, RDT_F32, RDT_F32, RDT_F64};
  static const int ranks[] = {0, 1, 0, 1, 1};
  static const double last[] = {-5, 3, 0.5, 2.5, 3};
  for (int i = 0; i < 5; i++) {
    util_onnx m;
    relus(&m, "x>y");
    util_onnx_node(&m, "Constant", NULL, "", "c", (const util_attr[]){attrs[i], {.name = NULL}});
    util_onnx_output(&m, "c", RDT_F32, -1, NULL);
    rdt_graph *g = util_graph_load(&m);
    const rdt_value *v = &g->values[g->outputs[1]];
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(v->dtype, dtypes[i]);
    assert_int_equal(v->rank, ranks[i]);
    assert_true(rdt_load(v->data, v->dtype, (int64_t)(v->bytes / rdt_dtype_size(v->dtype)) - 1) == last[i]);
    rdt_graph_free(g);
    util_onnx_clear(&m);
  }
  util_onnx m;
  relus(&m, "x>y");
  util_onnx_node(&m, "Constant", "text", "", "c", UTIL_ATTRS(UTIL_STRING("value_string", "hello")));
  refuse(&m, RDT_ERR_UNSUPPORTED, "text|value_string");
  relus(&m, "x>y");
  util_onnx_node(&m, "Constant", "none", "", "c", NULL);
  refuse(&m, RDT_ERR_FORMAT, "none|one attribute");
}

/* ---- damaged files ---- */

static void test_truncated_everywhere(void **state) {
  (void)state;
  util_onnx m;
  size_t bytes;
  small_cnn(&m, 13);
  unsigned char *data = util_onnx_pack(&m, &bytes);
  for (size_t cut = 0; cut < bytes; cut++) {
    rdt_graph *g = NULL;
    rdt_reason why = {""};
    unsigned char *exact = malloc(cut + 1); /* so that a sanitizer sees the end */
    memcpy(exact + 1, data, cut);
    assert_int_not_equal(rdt_graph_load_memory(exact + 1, cut, "cut.onnx", &g, &why), RDT_OK);
    assert_true(why.text[0] != '\0');
    free(exact);
  }
  free(data);
  util_onnx_clear(&m);
}

static void test_damaged_bytes(void **state) {
  (void)state;
  util_onnx m;
  size_t bytes;
  small_cnn(&m, 13);
  unsigned char *data = util_onnx_pack(&m, &bytes);
  for (size_t i = 0; i < bytes; i++)
    for (int bit = 0; bit < 8; bit += 3) {
      rdt_graph *g = NULL;
      rdt_reason why = {""};
      const rdt_tensor x = rdt_tensor_dense(NULL, RDT_F32, 4, SHAPE(1, 1, 8, 8));
      data[i] ^= (unsigned char)(1 << bit);
      if (rdt_graph_load_memory(data, bytes, "damaged.onnx", &g, &why) == RDT_OK && g->n_inputs == 1)
        (void)util_graph_try(g, &x, 1, &why); /* whatever it says, it must not crash */
      rdt_graph_free(g);
      data[i] ^= (unsigned char)(1 << bit);
    }
  free(data);
  util_onnx_clear(&m);
}

/* graph { node { attribute { g { node { ... */
static void test_deep_nesting(void **state) {
  (void)state;
  static const unsigned char tags[] = {7 << 3 | 2, 1 << 3 | 2, 5 << 3 | 2, 6 << 3 | 2};
  enum { LEVELS = 60000 };
  unsigned char *file = malloc(5 * LEVELS);
  size_t at = 5 * LEVELS;
  for (int level = LEVELS - 1; level >= 0; level--) {
    const size_t length = 5 * (size_t)LEVELS - at;
    unsigned char head[6];
    size_t n = 0;
    head[n++] = tags[level == 0 ? 0 : 1 + (level - 1) % 3];
    size_t rest = length;
    do {
      head[n++] = (unsigned char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
      rest >>= 7;
    } while (rest);
    at -= n;
    memcpy(file + at, head, n);
  }
  const size_t bytes = 5 * (size_t)LEVELS - at;
  assert_true(bytes < 240000);
  rdt_graph *g = NULL;
  rdt_reason why;
  assert_int_equal(rdt_graph_load_memory(file + at, bytes, "deep.onnx", &g, &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "nested"));
  free(file);
}

/* 2 bytes a node on the wire, some hundred in memory: bounded. */
static void test_many_empty_messages(void **state) {
  (void)state;
  enum { NODES = 4000000 };
  unsigned char *file = malloc(2 * NODES + 8);
  size_t n = 0;
  file[n++] = 7 << 3 | 2;
  for (size_t rest = 2 * NODES; rest; rest >>= 7) file[n++] = (unsigned char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  for (int i = 0; i < NODES; i++) {
    file[n++] = 1 << 3 | 2;
    file[n++] = 0;
  }
  rdt_graph *g = NULL;
  rdt_reason why;
  assert_int_equal(rdt_graph_load_memory(file, n, "many.onnx", &g, &why), RDT_ERR_NOMEM);
  free(file);
}

static void test_same_file_same_graph(void **state) {
  (void)state;
  util_onnx m;
  small_cnn(&m, 13);
  rdt_graph *a = util_graph_load(&m), *b = util_graph_load(&m);
  assert_int_equal(a->n_values, b->n_values);
  for (int v = 0; v < a->n_values; v++) {
    assert_string_equal(a->values[v].name, b->values[v].name);
    assert_int_equal(a->values[v].bytes, b->values[v].bytes);
    if (a->values[v].data) assert_memory_equal(a->values[v].data, b->values[v].data, a->values[v].bytes);
  }
  rdt_graph_free(a);
  rdt_graph_free(b);
  util_onnx_clear(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_cnn),           cmocka_unit_test(test_order_and_names),
      cmocka_unit_test(test_broken_graphs),       cmocka_unit_test(test_model_level),
      cmocka_unit_test(test_unknown_ops),         cmocka_unit_test(test_left_out),
      cmocka_unit_test(test_declared_types),      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_constants),           cmocka_unit_test(test_truncated_everywhere),
      cmocka_unit_test(test_damaged_bytes),       cmocka_unit_test(test_deep_nesting),
      cmocka_unit_test(test_many_empty_messages), cmocka_unit_test(test_same_file_same_graph),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
