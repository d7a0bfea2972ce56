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
#include "net/graph.h"
#include "util_onnx.h"

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

static rdt_graph *load(const util_onnx *m) {
  size_t bytes;
  rdt_reason why = {""};
  rdt_graph *g = NULL;
  void *data = util_onnx_pack(m, &bytes);
  if (rdt_graph_load_memory(data, bytes, "test.onnx", &g, &why) != RDT_OK) fail_msg("%s", why.text);
  free(data);
  return g;
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
  rdt_graph *g = load(&m);
  static const char *const labels[] = {
      "Conv+BatchNormalization+Relu", "MaxPool", "Conv+Add+Relu", "GlobalAveragePool", "Flatten", "Gemm", "Softmax"};
  assert_int_equal(g->n_nodes, 7);
  for (int i = 0; i < g->n_nodes; i++) assert_string_equal(g->nodes[i].label, labels[i]);
  assert_string_equal(g->nodes[0].name, "conv1");
  assert_string_equal(g->nodes[6].name, "Softmax_10");
  assert_int_equal(g->nodes[0].act, RDT_ACT_RELU);
  assert_int_equal(g->nodes[2].residual, rdt_graph_find(g, "p1"));
  assert_int_equal(g->n_inputs, 1);
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].data) assert_true(g->values[v].bitsum == rdt_bitsum(g->values[v].data, g->values[v].bytes));

  rdt_tensor *views = calloc((size_t)g->n_values, sizeof *views);
  rdt_reason why = {""};
  const rdt_tensor x = rdt_tensor_dense(NULL, RDT_F32, 4, SHAPE(5, 1, 8, 8));
  if (rdt_graph_infer(g, &x, 1, views, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(views[g->outputs[0]].shape[0], 5);
  assert_int_equal(views[g->outputs[0]].shape[1], 10);
  assert_true(rdt_tensor_is_channels_last(&views[rdt_graph_find(g, "p1")]));
  assert_int_equal(views[rdt_graph_find(g, "p1")].stride[1], 1);
  for (int i = 0; i < g->n_nodes; i++) {
    rdt_problem p;
    if (rdt_node_lower(g, &g->nodes[i], views, &p, &why) != RDT_OK) fail_msg("%s", why.text);
    rdt_problem_clear(&p);
  }
  free(views);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void test_unknown_op(void **state) {
  (void)state;
  util_onnx m;
  small_cnn(&m, 13);
  util_onnx_node(&m, "Einsum", "strange", "y", "z", NULL);
  refuse(&m, RDT_ERR_UNSUPPORTED, "test.onnx|strange|Einsum|opset 13");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_cnn),
      cmocka_unit_test(test_unknown_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
