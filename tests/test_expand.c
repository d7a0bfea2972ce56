/* Operators that are rewritten into others: what becomes of them, under which names, and that it computes the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "core/memory.h"
#include "util_graph.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

/* op over the inputs x0, x1, ..: of 2x3, or of 3 from the second one on where broadcast. */
static void variadic(util_onnx *m, const char *op, int n, bool broadcast, rdt_dtype dtype) {
  char *names = calloc((size_t)n, 16), name[16];
  util_onnx_init(m, 13);
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "x%d", i);
    util_onnx_input(m, name, dtype, broadcast && i ? 1 : 2, broadcast && i ? SHAPE(3) : SHAPE(2, 3));
    strcat(strcat(names, " "), name);
  }
  util_onnx_node(m, op, "node", names, "y", NULL);
  util_onnx_output(m, "y", dtype, -1, NULL);
  free(names);
}

static rdt_tensor *integers(int n, bool broadcast) {
  rdt_tensor *x = calloc((size_t)n, sizeof *x);
  for (int i = 0; i < n; i++) {
    const bool row = broadcast && i;
    float *data = rdt_alloc(6, sizeof *data);
    util_fill(data, 6, (uint64_t)i + 1);
    for (int e = 0; e < 6; e++) data[e] = (float)(int)(data[e] * 9.0f);
    x[i] = rdt_tensor_dense(data, RDT_F32, row ? 1 : 2, row ? SHAPE(3) : SHAPE(2, 3));
  }
  return x;
}

static void release(rdt_tensor *x, int n) {
  for (int i = 0; i < n; i++) rdt_free(x[i].data);
  free(x);
}

static float element(const rdt_tensor *t, int e) {
  return ((const float *)t->data)[t->rank == 1 ? e % 3 : e];
}

static float expected(const char *op, const rdt_tensor *x, int n, int e) {
  float y = element(&x[0], e);
  for (int i = 1; i < n; i++) {
    const float v = element(&x[i], e);
    y = strcmp(op, "Max") == 0 ? (v > y ? v : y) : strcmp(op, "Min") == 0 ? (v < y ? v : y) : y + v;
  }
  return strcmp(op, "Mean") == 0 ? y / (float)n : y;
}

static void test_variadic(void **state) {
  (void)state;
  static const char *const ops[] = {"Sum", "Mean", "Max", "Min"};
  static const int counts[] = {1, 2, 3, 5};
  for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
    for (size_t c = 0; c < 4; c++)
      for (int broadcast = 0; broadcast < 2; broadcast++) {
        const int n = counts[c];
        util_onnx m;
        variadic(&m, ops[o], n, broadcast, RDT_F32);
        rdt_tensor *x = integers(n, broadcast);
        rdt_graph *g = util_graph_load(&m);
        rdt_tensor y = util_graph_run(g, x, n, 0);
        assert_int_equal(rdt_tensor_count(&y), 6);
        for (int e = 0; e < 6; e++) assert_true(((float *)y.data)[e] == expected(ops[o], x, n, e));
        rdt_free(y.data);
        release(x, n);
        rdt_graph_free(g);
        util_onnx_clear(&m);
      }
}

static void test_names(void **state) {
  (void)state;
  util_onnx m;
  variadic(&m, "Sum", 4, false, RDT_F32);
  util_onnx_node(&m, "Relu", "node/Add", "y", "z", NULL);
  util_onnx_output(&m, "z", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  static const char *const names[] = {"node/Add_2", "node/Add_3", "node/Add_4", "node/Add"};
  assert_int_equal(g->n_nodes, 4);
  for (int i = 0; i < 4; i++) assert_string_equal(g->nodes[i].name, names[i]);
  assert_string_equal(g->nodes[0].label, "Sum:Add");
  assert_string_equal(g->nodes[3].label, "Relu");
  assert_string_equal(g->values[g->outputs[0]].name, "y");
  assert_int_equal(g->values[g->outputs[0]].producer, 2);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void test_one_operand_is_nothing(void **state) {
  (void)state;
  util_onnx m;
  variadic(&m, "Sum", 1, false, RDT_F32);
  util_onnx_node(&m, "Relu", NULL, "y", "z", NULL);
  m.graph.output[0]->name[0] = 'z';
  rdt_graph *g = util_graph_load(&m);
  assert_int_equal(g->n_nodes, 1);
  assert_string_equal(g->nodes[0].label, "Relu");
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* Each operand adds one node, however many there are. */
static void test_many_operands(void **state) {
  (void)state;
  enum { MANY = 3000 };
  util_onnx m;
  variadic(&m, "Sum", MANY, false, RDT_F32);
  rdt_tensor *x = integers(MANY, false);
  rdt_graph *g = util_graph_load(&m);
  assert_int_equal(g->n_nodes, MANY - 1);
  rdt_tensor y = util_graph_run(g, x, MANY, 0);
  for (int e = 0; e < 6; e++) assert_true(((float *)y.data)[e] == expected("Sum", x, MANY, e));
  rdt_free(y.data);
  release(x, MANY);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* Fused like nodes that were in the file. */
static void test_fused(void **state) {
  (void)state;
  util_onnx m;
  const float w[4] = {1, 2, 3, 4};
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(2, 2));
  util_onnx_input(&m, "r", RDT_F32, 2, SHAPE(2, 2));
  util_onnx_initializer(&m, "w", RDT_F32, 2, SHAPE(2, 2), w);
  util_onnx_node(&m, "MatMul", NULL, "x w", "p", NULL);
  util_onnx_node(&m, "Sum", NULL, "p r", "s", NULL);
  util_onnx_node(&m, "Relu", NULL, "s", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  assert_int_equal(g->n_nodes, 1);
  assert_string_equal(g->nodes[0].label, "MatMul+Add+Relu");
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* One of the nodes that compute the same is left; what is an output, or differs by anything, stays. */
static void test_shared(void **state) {
  (void)state;
  util_onnx m;
  const float two = 2.0f, also = 2.0f, three = 3.0f;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(2, 2));
  util_onnx_initializer(&m, "two", RDT_F32, 0, NULL, &two);
  util_onnx_initializer(&m, "also", RDT_F32, 0, NULL, &also);
  util_onnx_initializer(&m, "three", RDT_F32, 0, NULL, &three);
  util_onnx_initializer(&m, "vector", RDT_F32, 1, SHAPE(1), &two); /* the same bytes in another shape */
  util_onnx_node(&m, "Mul", "a", "x two", "a", NULL);
  util_onnx_node(&m, "Mul", "b", "x also", "b", NULL);
  util_onnx_node(&m, "Mul", "c", "x three", "c", NULL);
  util_onnx_node(&m, "Mul", "d", "x vector", "d", NULL);
  util_onnx_node(&m, "Mul", "e", "x two", "e", NULL); /* an output */
  util_onnx_node(&m, "Softmax", "f", "a", "f", UTIL_ATTRS(UTIL_INT("axis", 0)));
  util_onnx_node(&m, "Softmax", "g", "b", "g", UTIL_ATTRS(UTIL_INT("axis", 0)));
  util_onnx_node(&m, "Softmax", "h", "b", "h", UTIL_ATTRS(UTIL_INT("axis", 1)));
  util_onnx_node(&m, "Concat", "all", "a b c d f g h", "y", UTIL_ATTRS(UTIL_INT("axis", 0)));
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  util_onnx_output(&m, "e", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  char left[32] = "";
  for (int i = 0; i < g->n_nodes; i++) strcat(left, g->nodes[i].name);
  assert_string_equal(left, "acdefhall");
  const rdt_node *all = &g->nodes[g->n_nodes - 1];
  assert_int_equal(all->in[0], all->in[1]);
  assert_int_equal(all->in[4], all->in[5]);
  float data[4] = {1, 2, 3, 4};
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 2, SHAPE(2, 2));
  rdt_tensor y = util_graph_run(g, &x, 1, 0), e = util_graph_run(g, &x, 1, 1);
  const float *got = y.data;
  for (int i = 0; i < 4; i++) {
    assert_true(got[i] == 2 * data[i] && got[4 + i] == got[i] && got[8 + i] == 3 * data[i] && got[12 + i] == got[i]);
    assert_true(got[16 + i] == got[20 + i] && ((float *)e.data)[i] == got[i]);
  }
  rdt_free(y.data);
  rdt_free(e.data);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void refuse(util_onnx *m, rdt_status expected_status, const char *word) {
  size_t bytes;
  rdt_reason why = {""};
  rdt_graph *g = NULL;
  void *data = util_onnx_pack(m, &bytes);
  const rdt_status s = rdt_graph_load_memory(data, bytes, "test.onnx", &g, &why);
  if (s != expected_status || !strstr(why.text, word))
    fail_msg("%s: '%s', not %s: '%s'", rdt_status_name(s), why.text, rdt_status_name(expected_status), word);
  free(data);
  util_onnx_clear(m);
}

static void test_refused(void **state) {
  (void)state;
  util_onnx m;
  variadic(&m, "Sum", 0, false, RDT_F32);
  refuse(&m, RDT_ERR_FORMAT, "0 inputs");
  variadic(&m, "Requantize", 3, false, RDT_F32); /* what only rewriting makes */
  refuse(&m, RDT_ERR_UNSUPPORTED, "operator Requantize");
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 1, SHAPE(2));
  util_onnx_node(&m, "Sum", "node", "x - x", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  refuse(&m, RDT_ERR_FORMAT, "input 1 is missing");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variadic),      cmocka_unit_test(test_names), cmocka_unit_test(test_one_operand_is_nothing),
      cmocka_unit_test(test_many_operands), cmocka_unit_test(test_fused), cmocka_unit_test(test_shared),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
