/* What loading folds and fuses computes the same as what it replaces, and is left alone where it must be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "check/tolerance.h"
#include "core/memory.h"
#include "net/constant.h"
#include "util_graph.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static void constant(util_onnx *m, const char *name, int rank, const int64_t *shape, uint64_t seed) {
  float data[1024];
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= shape[d];
  util_fill(data, n, seed);
  util_onnx_initializer(m, name, RDT_F32, rank, shape, data);
}

/* var is positive */
static void batchnorm_constants(util_onnx *m, int64_t channels, bool good) {
  float var[16];
  constant(m, "scale", 1, &channels, 11);
  constant(m, "shift", 1, &channels, 12);
  constant(m, "mean", 1, &channels, 13);
  for (int64_t c = 0; c < channels; c++) var[c] = good ? 0.25f + (float)c : -1.0f;
  util_onnx_initializer(m, "var", RDT_F32, 1, &channels, var);
}

/* Loads m, expects these labels (separated by blanks), runs it on x; then once more with every intermediate value
 * (names separated by blanks) as an output too, which keeps fusion away, and compares. Clears m. */
static void same_as_unfused(util_onnx *m, const char *labels, const char *intermediates, const rdt_tensor *x, int n_x) {
  char got[256] = "";
  rdt_graph *g = util_graph_load(m);
  for (int i = 0; i < g->n_nodes; i++) strcat(strcat(got, i ? " " : ""), g->nodes[i].label);
  assert_string_equal(got, labels);
  rdt_tensor y = util_graph_run(g, x, n_x, 0);
  const int fused = g->n_nodes;
  rdt_graph_free(g);
  char *copy = strdup(intermediates), *rest = copy, *name;
  while ((name = strtok_r(rest, " ", &rest))) util_onnx_output(m, name, RDT_F32, -1, NULL);
  free(copy);
  g = util_graph_load(m);
  assert_true(g->n_nodes != fused); /* products that were joined leave views behind */
  rdt_tensor z = util_graph_run(g, x, n_x, 0);
  assert_true(rdt_tensor_same_shape(&y, &z));
  double most = 0.0;
  for (int64_t e = 0; e < rdt_tensor_count(&z); e++) most = fmax(most, fabs(rdt_load(z.data, z.dtype, e)));
  assert_true(most > 0.0);
  for (int64_t e = 0; e < rdt_tensor_count(&z); e++) {
    const double d = fabs(rdt_load(y.data, y.dtype, e) - rdt_load(z.data, z.dtype, e));
    assert_true(d <= most * rdt_tolerance_network(RDT_F32));
  }
  rdt_free(y.data);
  rdt_free(z.data);
  rdt_graph_free(g);
  util_onnx_clear(m);
}

static void expect_labels(util_onnx *m, const char *labels) {
  char got[256] = "";
  rdt_graph *g = util_graph_load(m);
  for (int i = 0; i < g->n_nodes; i++) strcat(strcat(got, i ? " " : ""), g->nodes[i].label);
  assert_string_equal(got, labels);
  rdt_graph_free(g);
  util_onnx_clear(m);
}

static rdt_tensor image(void) {
  static float data[2 * 3 * 36];
  util_fill(data, 2 * 3 * 36, 5);
  return rdt_tensor_dense(data, RDT_F32, 4, SHAPE(2, 3, 6, 6));
}

static void begin(util_onnx *m, int64_t opset) {
  util_onnx_init(m, opset);
  util_onnx_input(m, "x", RDT_F32, 4, SHAPE(-1, 3, 6, 6));
  constant(m, "w", 4, SHAPE(4, 3, 3, 3), 1);
  constant(m, "b", 1, SHAPE(4), 2);
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
}

static void test_batchnorm_into_conv(void **state) {
  (void)state;
  for (int with_bias = 0; with_bias < 2; with_bias++) {
    util_onnx m;
    const rdt_tensor x = image();
    begin(&m, 13);
    batchnorm_constants(&m, 4, true);
    util_onnx_node(&m, "Conv", NULL, with_bias ? "x w b" : "x w", "c", NULL);
    util_onnx_node(&m, "BatchNormalization", NULL, "c scale shift mean var", "n",
                   UTIL_ATTRS(UTIL_FLOAT("epsilon", 0.01f)));
    util_onnx_node(&m, "Relu", NULL, "n", "y", NULL);
    same_as_unfused(&m, "Conv+BatchNormalization+Relu", "c n", &x, 1);
  }
}

static void test_batchnorm_into_gemm(void **state) {
  (void)state;
  float data[20];
  util_fill(data, 20, 3);
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 2, SHAPE(4, 5));
  for (int variant = 0; variant < 8; variant++) {
    const int trans = variant & 1, with_c = variant >> 1 & 1, scaled = variant >> 2;
    util_onnx m;
    util_onnx_init(&m, 13);
    util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(-1, 5));
    constant(&m, "w", 2, trans ? SHAPE(6, 5) : SHAPE(5, 6), 1);
    constant(&m, "c", 2, SHAPE(1, 6), 2);
    batchnorm_constants(&m, 6, true);
    util_onnx_node(&m, "Gemm", NULL, with_c ? "x w c" : "x w", "g",
                   UTIL_ATTRS(UTIL_INT("transB", trans), UTIL_FLOAT("alpha", scaled ? 0.5f : 1.0f),
                              UTIL_FLOAT("beta", scaled ? 3.0f : 1.0f)));
    util_onnx_node(&m, "BatchNormalization", NULL, "g scale shift mean var", "y", NULL);
    util_onnx_output(&m, "y", RDT_F32, -1, NULL);
    same_as_unfused(&m, "Gemm+BatchNormalization", "g", &x, 1);
  }
}

static void test_batchnorm_stays(void **state) {
  (void)state;
  util_onnx m;
  begin(&m, 13); /* not finite */
  batchnorm_constants(&m, 4, false);
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "BatchNormalization", NULL, "c scale shift mean var", "y", NULL);
  expect_labels(&m, "Conv BatchNormalization");
  begin(&m, 13); /* read twice */
  batchnorm_constants(&m, 4, true);
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "BatchNormalization", NULL, "c scale shift mean var", "n", NULL);
  util_onnx_node(&m, "Mul", NULL, "n c", "y", NULL);
  expect_labels(&m, "Conv BatchNormalization Mul");
  begin(&m, 13); /* parameters computed at run time */
  batchnorm_constants(&m, 4, true);
  util_onnx_input(&m, "s", RDT_F32, 1, SHAPE(4));
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "BatchNormalization", NULL, "c s shift mean var", "y", NULL);
  expect_labels(&m, "Conv BatchNormalization");
}

static void test_residual(void **state) {
  (void)state;
  const rdt_tensor x = image();
  const util_attr *same = UTIL_ATTRS(UTIL_INTS("pads", 4, 1, 1, 1, 1));
  for (int swapped = 0; swapped < 2; swapped++) { /* two convolutions: the addition goes into the later one */
    util_onnx m;
    begin(&m, 13);
    util_onnx_node(&m, "Conv", "first", "x w b", "c", same);
    util_onnx_node(&m, "Conv", "second", "x w", "d", same);
    util_onnx_node(&m, "Add", NULL, swapped ? "d c" : "c d", "a", NULL);
    util_onnx_node(&m, "Relu", NULL, "a", "y", NULL);
    same_as_unfused(&m, "Conv Conv+Add+Relu", "c d a", &x, 1);
  }
  util_onnx m; /* the other operand is computed later: the node moves behind it */
  begin(&m, 13);
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", same);
  util_onnx_node(&m, "Conv", NULL, "x w", "d", same);
  util_onnx_node(&m, "MaxPool", NULL, "d", "p", UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 1, 1)));
  util_onnx_node(&m, "Add", NULL, "c p", "y", NULL);
  same_as_unfused(&m, "Conv MaxPool Conv+Add", "c", &x, 1);
  begin(&m, 13); /* a residual that broadcasts */
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", same);
  util_onnx_node(&m, "GlobalAveragePool", NULL, "x", "g", NULL);
  util_onnx_node(&m, "Conv", NULL, "g w1", "h", NULL);
  constant(&m, "w1", 4, SHAPE(4, 3, 1, 1), 8);
  util_onnx_node(&m, "Relu", NULL, "h", "r", NULL);
  util_onnx_node(&m, "Add", NULL, "c r", "y", NULL);
  same_as_unfused(&m, "GlobalAveragePool Conv+Relu Conv+Add", "c", &x, 1);
}

static void test_residual_stays(void **state) {
  (void)state;
  util_onnx m;
  begin(&m, 13); /* the sum is larger than the product */
  util_onnx_node(&m, "GlobalAveragePool", NULL, "x", "g", NULL);
  constant(&m, "w1", 4, SHAPE(3, 3, 1, 1), 8);
  util_onnx_node(&m, "Conv", NULL, "g w1", "h", NULL);
  util_onnx_node(&m, "Add", NULL, "h x", "y", NULL);
  expect_labels(&m, "GlobalAveragePool Conv Add");
  begin(&m, 13); /* the product is added to itself */
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "Add", NULL, "c c", "y", NULL);
  expect_labels(&m, "Conv Add");
  begin(&m, 13); /* behind an activation nothing fits any more */
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "Relu", NULL, "c", "r", NULL);
  util_onnx_node(&m, "Relu", NULL, "r", "s", NULL);
  util_onnx_node(&m, "Add", NULL, "s c2", "y", NULL);
  constant(&m, "c2", 3, SHAPE(4, 1, 1), 8);
  expect_labels(&m, "Conv+Relu Relu Add");
  begin(&m, 6); /* other rules of broadcasting */
  util_onnx_node(&m, "Conv", NULL, "x w", "c", NULL);
  util_onnx_node(&m, "Add", NULL, "c b", "y", UTIL_ATTRS(UTIL_INT("broadcast", 1), UTIL_INT("axis", 1)));
  expect_labels(&m, "Conv Add");
  util_onnx_init(&m, 13); /* no shape known: the other operand could be larger */
  util_onnx_input(&m, "x", RDT_F32, -1, NULL);
  constant(&m, "w", 2, SHAPE(5, 6), 1);
  util_onnx_node(&m, "MatMul", NULL, "x w", "p", NULL);
  util_onnx_node(&m, "Add", NULL, "p x", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  expect_labels(&m, "MatMul Add");
}

static void test_bias(void **state) {
  (void)state;
  util_onnx m;
  const rdt_tensor x = image();
  for (int rank = 3; rank <= 4; rank++)
    for (int with_bias = 0; with_bias < 2; with_bias++) {
      begin(&m, 13);
      constant(&m, "v", rank, rank == 3 ? SHAPE(4, 1, 1) : SHAPE(1, 4, 1, 1), 9);
      util_onnx_node(&m, "Conv", NULL, with_bias ? "x w b" : "x w", "c", NULL);
      util_onnx_node(&m, "Add", NULL, "v c", "y", NULL);
      rdt_graph *g = util_graph_load(&m);
      assert_int_equal(g->nodes[0].residual, -1);
      rdt_graph_free(g);
      same_as_unfused(&m, "Conv+Add", "c", &x, 1);
    }
  float data[60];
  util_fill(data, 60, 3);
  const rdt_tensor rows = rdt_tensor_dense(data, RDT_F32, 3, SHAPE(3, 4, 5));
  for (int rank = 1; rank <= 2; rank++) {
    util_onnx_init(&m, 13);
    if (rank == 1)
      util_onnx_input(&m, "x", RDT_F32, -1, NULL); /* a vector is safe whatever the shape */
    else
      util_onnx_input(&m, "x", RDT_F32, 3, SHAPE(-1, -1, 5));
    constant(&m, "w", 2, SHAPE(5, 6), 1);
    constant(&m, "v", rank, rank == 1 ? SHAPE(6) : SHAPE(1, 6), 2);
    util_onnx_node(&m, "MatMul", NULL, "x w", "p", NULL);
    util_onnx_node(&m, "Add", NULL, "p v", "a", NULL);
    util_onnx_node(&m, "Relu", NULL, "a", "y", NULL);
    util_onnx_output(&m, "y", RDT_F32, -1, NULL);
    same_as_unfused(&m, "MatMul+Add+Relu", "p a", &rows, 1);
  }
}

static void test_copies_of_constants(void **state) {
  (void)state;
  util_onnx m;
  float data[10];
  util_fill(data, 10, 3);
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 2, SHAPE(2, 5));
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(-1, 5));
  constant(&m, "w", 3, SHAPE(5, 2, 3), 1);
  util_onnx_initializer(&m, "s", RDT_S64, 1, SHAPE(2), SHAPE(5, 6));
  util_onnx_node(&m, "Reshape", NULL, "w s", "flat", NULL);
  util_onnx_node(&m, "Identity", NULL, "flat", "w2", NULL);
  util_onnx_node(&m, "Dropout", NULL, "x", "d", NULL);
  util_onnx_node(&m, "Identity", NULL, "d", "i", NULL);
  util_onnx_node(&m, "MatMul", NULL, "i w2", "p", NULL);
  util_onnx_node(&m, "Relu", NULL, "p", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  assert_int_equal(g->n_nodes, 1);
  assert_int_equal(g->n_values, 3); /* x, y and the weight: nothing that is not needed is kept */
  assert_int_equal(g->nodes[0].in[0], g->inputs[0]);
  assert_true(g->values[g->nodes[0].in[1]].data != NULL);
  rdt_graph_free(g);
  same_as_unfused(&m, "MatMul+Relu", "p d", &x, 1);

  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(-1, 5));
  util_onnx_initializer(&m, "s", RDT_S64, 1, SHAPE(1), SHAPE(7));
  constant(&m, "w", 1, SHAPE(6), 1);
  util_onnx_node(&m, "Reshape", "wrong", "w s", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  size_t bytes;
  rdt_reason why;
  void *file = util_onnx_pack(&m, &bytes);
  assert_int_equal(rdt_graph_load_memory(file, bytes, "test.onnx", &g, &why), RDT_ERR_SHAPE);
  assert_non_null(strstr(why.text, "wrong"));
  free(file);
  util_onnx_clear(&m);
}

static void number(util_onnx *m, const char *name, float value) {
  util_onnx_initializer(m, name, RDT_F32, 0, NULL, &value);
}

/* x [2 3 6 6] and the numbers that GELU is written with */
static void begin_map(util_onnx *m) {
  util_onnx_init(m, 13);
  util_onnx_input(m, "x", RDT_F32, 4, SHAPE(-1, 3, 6, 6));
  number(m, "sqrt2", 1.4142135f);
  number(m, "rsqrt2", 0.70710678f);
  number(m, "half", 0.5f);
  number(m, "one", 1.0f);
  number(m, "two", 2.0f);
  number(m, "three", 3.0f);
  number(m, "small", 0.044715f);
  number(m, "root", 0.7978846f);
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
}

static void test_gelu(void **state) {
  (void)state;
  const rdt_tensor x = image();
  util_onnx m;
  begin_map(&m); /* torch, opset 13 */
  util_onnx_node(&m, "Div", NULL, "x sqrt2", "a", NULL);
  util_onnx_node(&m, "Erf", NULL, "a", "b", NULL);
  util_onnx_node(&m, "Add", NULL, "b one", "c", NULL);
  util_onnx_node(&m, "Mul", NULL, "x c", "d", NULL);
  util_onnx_node(&m, "Mul", NULL, "d half", "y", NULL);
  same_as_unfused(&m, "Gelu(Div+Erf+Add+Mul+Mul)", "a b c d", &x, 1);
  begin_map(&m);
  util_onnx_node(&m, "Mul", NULL, "half x", "h", NULL);
  util_onnx_node(&m, "Mul", NULL, "x rsqrt2", "a", NULL);
  util_onnx_node(&m, "Erf", NULL, "a", "b", NULL);
  util_onnx_node(&m, "Add", NULL, "one b", "c", NULL);
  util_onnx_node(&m, "Mul", NULL, "h c", "y", NULL);
  same_as_unfused(&m, "Gelu(Mul+Mul+Erf+Add+Mul)", "h a b c", &x, 1);
  begin_map(&m);
  util_onnx_node(&m, "Div", NULL, "x sqrt2", "a", NULL);
  util_onnx_node(&m, "Erf", NULL, "a", "b", NULL);
  util_onnx_node(&m, "Add", NULL, "b one", "c", NULL);
  util_onnx_node(&m, "Div", NULL, "c two", "d", NULL);
  util_onnx_node(&m, "Mul", NULL, "d x", "y", NULL);
  same_as_unfused(&m, "Gelu(Div+Erf+Add+Div+Mul)", "a b c d", &x, 1);
}

static void gelu_tanh(util_onnx *m, bool power) {
  begin_map(m);
  util_onnx_node(m, "Mul", NULL, "x half", "h", NULL);
  if (power) {
    util_onnx_node(m, "Pow", NULL, "x three", "q", NULL);
  } else {
    util_onnx_node(m, "Mul", NULL, "x x", "s", NULL);
    util_onnx_node(m, "Mul", NULL, "s x", "q", NULL);
  }
  util_onnx_node(m, "Mul", NULL, "q small", "a", NULL);
  util_onnx_node(m, "Add", NULL, "x a", "b", NULL);
  util_onnx_node(m, "Mul", NULL, "b root", "c", NULL);
  util_onnx_node(m, "Tanh", NULL, "c", "d", NULL);
  util_onnx_node(m, "Add", NULL, "d one", "e", NULL);
  util_onnx_node(m, "Mul", NULL, "h e", "y", NULL);
}

static void test_gelu_tanh(void **state) {
  (void)state;
  const rdt_tensor x = image();
  util_onnx m;
  gelu_tanh(&m, true);
  same_as_unfused(&m, "Gelu(Mul+Pow+Mul+Add+Mul+Tanh+Add+Mul)", "h q a b c d e", &x, 1);
  gelu_tanh(&m, false);
  same_as_unfused(&m, "Gelu(Mul+Mul+Mul+Mul+Add+Mul+Tanh+Add+Mul)", "h s q a b c d e", &x, 1);
}

static void test_times_itself(void **state) {
  (void)state;
  const rdt_tensor x = image();
  util_onnx m;
  begin_map(&m);
  util_onnx_node(&m, "Sigmoid", NULL, "x", "a", NULL);
  util_onnx_node(&m, "Mul", NULL, "x a", "y", NULL);
  same_as_unfused(&m, "Silu(Sigmoid+Mul)", "a", &x, 1);
  begin_map(&m);
  util_onnx_node(&m, "HardSigmoid", NULL, "x", "a", UTIL_ATTRS(UTIL_FLOAT("alpha", 0.3f)));
  util_onnx_node(&m, "Mul", NULL, "a x", "y", NULL);
  same_as_unfused(&m, "HardSwish(HardSigmoid+Mul)", "a", &x, 1);
  begin_map(&m);
  util_onnx_node(&m, "Softplus", NULL, "x", "a", NULL);
  util_onnx_node(&m, "Tanh", NULL, "a", "b", NULL);
  util_onnx_node(&m, "Mul", NULL, "x b", "y", NULL);
  same_as_unfused(&m, "Mish(Softplus+Tanh+Mul)", "a b", &x, 1);
}

/* Another number, another reader, another operand: nothing is recognised. */
static void test_no_pattern(void **state) {
  (void)state;
  for (int variant = 0; variant < 4; variant++) {
    util_onnx m;
    begin_map(&m);
    util_onnx_node(&m, "Div", NULL, variant == 0 ? "x two" : "x sqrt2", "a", NULL);
    util_onnx_node(&m, "Erf", NULL, "a", "b", NULL);
    util_onnx_node(&m, "Add", NULL, variant == 1 ? "b half" : "b one", "c", NULL);
    util_onnx_node(&m, "Mul", NULL, variant == 2 ? "a c" : "x c", "d", NULL);
    util_onnx_node(&m, "Mul", NULL, "d half", "y", NULL);
    if (variant == 3) util_onnx_output(&m, "c", RDT_F32, -1, NULL);
    expect_labels(&m, "Div Erf Add Mul Mul");
  }
}

static void test_activations(void **state) {
  static const char *const acts[] = {"LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "Elu", "Softplus"};
  (void)state;
  const rdt_tensor x = image();
  util_onnx m;
  for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
    char label[64] = "Conv+";
    begin(&m, 14);
    util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
    util_onnx_node(&m, acts[i], NULL, "c", "y", NULL);
    same_as_unfused(&m, strcat(label, acts[i]), "c", &x, 1);
  }
  begin(&m, 13); /* bounds are inputs */
  number(&m, "low", -0.25f);
  number(&m, "high", 0.5f);
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "Clip", NULL, "c low high", "y", NULL);
  same_as_unfused(&m, "Conv+Clip", "c", &x, 1);
  begin(&m, 13); /* a pattern behind a convolution */
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "Sigmoid", NULL, "c", "s", NULL);
  util_onnx_node(&m, "Mul", NULL, "c s", "y", NULL);
  same_as_unfused(&m, "Conv+Silu(Sigmoid+Mul)", "s", &x, 1);
  begin(&m, 13); /* through a Reshape */
  util_onnx_initializer(&m, "flat", RDT_S64, 1, SHAPE(2), SHAPE(0, -1));
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "Reshape", NULL, "c flat", "r", NULL);
  util_onnx_node(&m, "Tanh", NULL, "r", "y", NULL);
  same_as_unfused(&m, "Conv+Tanh Reshape", "c r", &x, 1);
}

/* Scores of attention: q k' / sqrt(d) + mask */
static void test_scaled_product(void **state) {
  (void)state;
  static float data[2][2 * 3 * 8 * 5], mask[2 * 5];
  util_fill(data[0], 2 * 3 * 4 * 8, 1);
  util_fill(data[1], 2 * 3 * 8 * 5, 2);
  util_fill(mask, 2 * 5, 3);
  const rdt_tensor x[3] = {rdt_tensor_dense(data[0], RDT_F32, 4, SHAPE(2, 3, 4, 8)),
                           rdt_tensor_dense(data[1], RDT_F32, 4, SHAPE(2, 3, 8, 5)),
                           rdt_tensor_dense(mask, RDT_F32, 4, SHAPE(2, 1, 1, 5))};
  for (int div = 0; div < 2; div++) {
    util_onnx m;
    util_onnx_init(&m, 13);
    util_onnx_input(&m, "q", RDT_F32, 4, SHAPE(-1, 3, 4, 8));
    util_onnx_input(&m, "k", RDT_F32, 4, SHAPE(-1, 3, 8, 5));
    util_onnx_input(&m, "mask", RDT_F32, 4, SHAPE(-1, 1, 1, 5));
    number(&m, "d", 2.8284271f);
    util_onnx_node(&m, "MatMul", NULL, "q k", "s", NULL);
    util_onnx_node(&m, div ? "Div" : "Mul", NULL, div ? "s d" : "d s", "t", NULL);
    util_onnx_node(&m, "Add", NULL, "t mask", "y", NULL);
    util_onnx_output(&m, "y", RDT_F32, -1, NULL);
    same_as_unfused(&m, div ? "MatMul+Div+Add" : "MatMul+Mul+Add", "s t", x, 3);
  }
  util_onnx m;
  begin(&m, 13); /* the bias would be scaled too */
  number(&m, "two", 2.0f);
  util_onnx_node(&m, "Conv", NULL, "x w b", "c", NULL);
  util_onnx_node(&m, "Mul", NULL, "c two", "y", NULL);
  expect_labels(&m, "Conv Mul");
  begin(&m, 13); /* divided by the product */
  number(&m, "two", 2.0f);
  util_onnx_node(&m, "Conv", NULL, "x w", "c", NULL);
  util_onnx_node(&m, "Div", NULL, "two c", "y", NULL);
  expect_labels(&m, "Conv Div");
}

/* Queries, keys and values of x (2 x 5 x 16), so many columns of each, by heads of 8; what the second argument says
 * stands behind the keys' product. */
static void attention(util_onnx *m, const int64_t (*shapes)[2], const char *keys) {
  static const int64_t split[4] = {0, 0, -1, 8}, x[3] = {-1, 5, 16};
  char in[64], out[16];
  util_onnx_init(m, 17);
  util_onnx_input(m, "x", RDT_F32, 3, x);
  util_onnx_initializer(m, "split", RDT_S64, 1, SHAPE(4), split);
  for (int i = 0; i < 3; i++) {
    const char c = "qkv"[i];
    snprintf(out, sizeof out, "w%c", c);
    constant(m, out, 2, shapes[i], 21 + (uint64_t)i);
    snprintf(out, sizeof out, "b%c", c);
    constant(m, out, 1, &shapes[i][1], 31 + (uint64_t)i);
    snprintf(in, sizeof in, "x w%c", c), snprintf(out, sizeof out, "p%c", c);
    util_onnx_node(m, "MatMul", (const char *[]){"layer/query/MatMul", "layer/key/MatMul", "layer/value/MatMul"}[i], in,
                   out, NULL);
    snprintf(in, sizeof in, "p%c b%c", c, c), snprintf(out, sizeof out, i == 1 && keys ? "n%c" : "s%c", c);
    util_onnx_node(m, "Add", NULL, in, out, NULL);
    if (i == 1 && keys) util_onnx_node(m, keys, NULL, "nk", "sk", NULL);
    snprintf(in, sizeof in, "s%c split", c), snprintf(out, sizeof out, "r%c", c);
    util_onnx_node(m, "Reshape", NULL, in, out, NULL);
    snprintf(in, sizeof in, "r%c", c), snprintf(out, sizeof out, "%c", c);
    util_onnx_node(
        m, "Transpose", NULL, in, out,
        i == 1 ? UTIL_ATTRS(UTIL_INTS("perm", 4, 0, 2, 3, 1)) : UTIL_ATTRS(UTIL_INTS("perm", 4, 0, 2, 1, 3)));
  }
  util_onnx_node(m, "MatMul", "scores", "q k", "s", NULL);
  util_onnx_node(m, "Softmax", "weights", "s", "w", NULL);
  util_onnx_node(m, "MatMul", "mix", "w v", "y", NULL);
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
}

static const char *apart =
    "MatMul+Add Reshape Transpose MatMul+Add Reshape Transpose MatMul+Add Reshape Transpose "
    "MatMul Softmax MatMul";

/* Products of one input become one, whose columns are read where they lie; nothing is copied. */
static void test_joined(void **state) {
  (void)state;
  static float data[2 * 5 * 16];
  static const int64_t alike[3][2] = {{16, 16}, {16, 16}, {16, 16}}, shape[3] = {2, 5, 16};
  util_fill(data, 2 * 5 * 16, 5);
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 3, shape);
  util_onnx m;
  attention(&m, alike, NULL);
  rdt_graph *g = util_graph_load(&m);
  assert_string_equal(g->nodes[0].name, "layer/{query,key,value}/MatMul");
  assert_string_equal(g->nodes[1].name, "layer/query/MatMul");
  rdt_layout l = {0};
  rdt_reason why;
  assert_int_equal(rdt_layout_init(&l, g, &why), RDT_OK);
  if (rdt_graph_infer(g, &x, 1, &l, &why) != RDT_OK) fail_msg("%s", why.text);
  for (int i = 0; i < g->n_nodes; i++)
    if (strcmp(g->nodes[i].label, "Split") == 0 || strcmp(g->nodes[i].label, "Reshape") == 0)
      assert_int_equal(l.alias[g->nodes[i].out[0]], g->nodes[0].out[0]);
  rdt_layout_clear(&l);
  rdt_graph_free(g);
  same_as_unfused(&m,
                  "3x MatMul+Add Split Reshape Transpose Split Reshape Transpose Split Reshape Transpose "
                  "MatMul Softmax MatMul",
                  "sq sk sv", &x, 1);
}

/* None whose columns somebody wants side by side, or whose weights others read. */
static void test_joined_or_not(void **state) {
  (void)state;
  static const int64_t alike[3][2] = {{16, 16}, {16, 16}, {16, 16}};
  util_onnx m;
  attention(&m, alike, "Softmax"); /* which takes rows that lie side by side */
  expect_labels(&m,
                "2x MatMul+Add Split Reshape Transpose MatMul+Add Softmax Reshape Transpose Split Reshape Transpose "
                "MatMul Softmax MatMul");
  attention(&m, alike, NULL);
  util_onnx_output(&m, "sk", RDT_F32, -1, NULL);
  util_onnx_output(&m, "sq", RDT_F32, -1, NULL);
  expect_labels(&m, apart);
  attention(&m, alike, NULL);
  util_onnx_output(&m, "wk", RDT_F32, -1, NULL);
  util_onnx_output(&m, "wq", RDT_F32, -1, NULL);
  expect_labels(&m, apart);
}

/* Votes on the way: shares of k one after the other, the last of which ends the product; as many as divide k. Twice
 * loaded, twice the same: restoring a weight relies on it. */
static void test_divided(void **state) {
  (void)state;
  float data[5 * 12];
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 2, SHAPE(5, 12));
  util_onnx m;
  rdt_graph *g, *again;
  rdt_reason why;
  char path[] = "divided.XXXXXX";
  assert_true(mkstemp(path) >= 0);
  util_fill(data, 5 * 12, 9);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(5, 12));
  constant(&m, "w", 2, SHAPE(12, 8), 1), constant(&m, "b", 1, SHAPE(8), 2);
  constant(&m, "v", 2, SHAPE(6, 8), 3), constant(&m, "c", 1, SHAPE(6), 4);
  constant(&m, "p", 2, SHAPE(6, 5), 6);
  util_onnx_node(&m, "MatMul", "one", "x w", "q", NULL);
  util_onnx_node(&m, "Add", "bias", "q b", "r", NULL);
  util_onnx_node(&m, "Relu", "relu", "r", "s", NULL);
  util_onnx_node(&m, "Gemm", "two", "s v c", "t", UTIL_ATTRS(UTIL_FLOAT("alpha", 0.5f), UTIL_INT("transB", 1)));
  util_onnx_node(&m, "MatMul", "three", "t p", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(5, 5));
  util_onnx_save(&m, path);
  const rdt_replaced votes = {.votes = 4};
  if (rdt_graph_load_replaced(path, 1, &votes, &g, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(rdt_graph_load_replaced(path, 1, &votes, &again, &why), RDT_OK);
  assert_int_equal(remove(path), 0);
  assert_int_equal(g->n_nodes, 8 + 8 + 6); /* of 6 steps of k three shares */
  assert_string_equal(g->nodes[3].name, "one/share 2 of 4");
  assert_string_equal(g->nodes[7].label, "MatMul+Add+Relu");
  assert_string_equal(g->nodes[15].name, "two");
  assert_int_equal(g->n_values, again->n_values);
  for (int v = 0; v < g->n_values; v++) {
    const rdt_value *a = &g->values[v], *b = &again->values[v];
    assert_string_equal(a->name, b->name);
    assert_true(a->bytes == b->bytes && (!a->data || memcmp(a->data, b->data, a->bytes) == 0));
  }
  rdt_graph_free(again);
  rdt_tensor y = util_graph_run(g, &x, 1, 0);
  rdt_graph_free(g);
  g = util_graph_load(&m);
  assert_int_equal(g->n_nodes, 3);
  rdt_tensor z = util_graph_run(g, &x, 1, 0);
  for (int64_t e = 0; e < rdt_tensor_count(&z); e++)
    assert_true(fabs(rdt_load(y.data, RDT_F32, e) - rdt_load(z.data, RDT_F32, e)) < 1e-5);
  rdt_free(y.data), rdt_free(z.data);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void large(util_onnx *m, const char *name, int64_t rows, int64_t columns, uint64_t seed) {
  float *data = malloc((size_t)(rows * columns) * sizeof *data);
  util_fill(data, rows * columns, seed);
  util_onnx_initializer(m, name, RDT_F32, 2, SHAPE(rows, columns), data);
  free(data);
}

static rdt_graph *load_divided(util_onnx *m, int votes) {
  const rdt_replaced replaced = {.votes = votes};
  rdt_graph *g;
  rdt_reason why;
  char path[] = "divided.XXXXXX";
  assert_true(mkstemp(path) >= 0);
  util_onnx_save(m, path);
  if (rdt_graph_load_replaced(path, 1, &replaced, &g, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_int_equal(remove(path), 0);
  return g;
}

/* What divides and what does not; and whatever does, computes the same. */
static void test_divided_or_not(void **state) {
  enum { K = 512, N = 256 };
  (void)state;
  float *data = malloc(3 * K * sizeof *data);
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 2, SHAPE(3, K));
  util_onnx m;
  util_fill(data, 3 * K, 5);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(3, K));
  large(&m, "w", N, K, 1), large(&m, "v", N, 7, 2);
  constant(&m, "u", 2, SHAPE(7, 6), 3), constant(&m, "one", 1, SHAPE(1), 4), constant(&m, "row", 2, SHAPE(1, 6), 5);
  constant(&m, "t", 2, SHAPE(6, 6), 6);
  util_onnx_node(&m, "Gemm", "turned", "x w", "a", UTIL_ATTRS(UTIL_INT("transB", 1)));
  util_onnx_node(&m, "Gemm", "again", "x w", "b", UTIL_ATTRS(UTIL_INT("transB", 1), UTIL_FLOAT("alpha", 0.25f)));
  util_onnx_node(&m, "Add", "both", "a b", "c", NULL);
  util_onnx_node(&m, "MatMul", "rows", "c v", "d", NULL);
  util_onnx_node(&m, "Gemm", "prime", "d u", "e", NULL);
  util_onnx_node(&m, "Gemm", "scalar", "e t one", "f", NULL);
  util_onnx_node(&m, "Gemm", "bias", "f t row", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(3, 6));
  rdt_graph *g = load_divided(&m, 4);
  assert_int_equal(g->divided, 4); /* 7 steps of k are one share, and one element is no bias */
  assert_int_equal(g->whole, 2);
  int weights = 0;
  for (int v = 0; v < g->n_values; v++) {
    const rdt_value *c = &g->values[v];
    if (!c->data || c->rank != 2 || c->shape[0] != N || c->shape[1] != K / 4) continue;
    weights++;
    assert_true(c->lazy && c->origin.parts); /* columns of what lies in the file */
  }
  assert_int_equal(weights, 4); /* both products read the same */
  rdt_reason why;
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].data) assert_int_equal(rdt_constant_hold(g, v, &why), RDT_OK);
  rdt_tensor y = util_graph_run(g, &x, 1, 0);
  for (int v = 0; v < g->n_values; v++)
    if (g->values[v].data) rdt_constant_release(g, v);
  rdt_graph_free(g);
  g = util_graph_load(&m);
  rdt_tensor z = util_graph_run(g, &x, 1, 0);
  for (int64_t e = 0; e < rdt_tensor_count(&z); e++) {
    const double was = rdt_load(z.data, RDT_F32, e);
    assert_true(fabs(rdt_load(y.data, RDT_F32, e) - was) < 1e-4 * (1.0 + fabs(was)));
  }
  rdt_free(y.data), rdt_free(z.data);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  free(data);
}

/* Lengths that do not fit are the product's to tell, not a share's; weights that a normalisation was folded into divide
 * like others. */
static void test_divided_folded(void **state) {
  (void)state;
  util_onnx m;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(2, 12));
  constant(&m, "w", 2, SHAPE(16, 8), 1);
  util_onnx_node(&m, "MatMul", "wrong", "x w", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(2, 8));
  rdt_graph *g = load_divided(&m, 4);
  rdt_layout l = {0};
  rdt_reason why;
  const rdt_tensor x = rdt_tensor_dense(NULL, RDT_F32, 2, SHAPE(2, 12));
  assert_int_equal(rdt_layout_init(&l, g, &why), RDT_OK);
  assert_int_equal(rdt_graph_infer(g, &x, 1, &l, &why), RDT_ERR_SHAPE);
  assert_non_null(strstr(why.text, "node 'wrong'"));
  rdt_layout_clear(&l);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(2, 256));
  large(&m, "w", 128, 256, 1);
  static const char *const four[] = {"scale", "shift", "mean", "var"};
  float ones[128];
  for (int i = 0; i < 128; i++) ones[i] = 1.5f;
  for (int i = 0; i < 4; i++) util_onnx_initializer(&m, four[i], RDT_F32, 1, SHAPE(128), ones);
  util_onnx_node(&m, "Gemm", "folded", "x w", "q", UTIL_ATTRS(UTIL_INT("transB", 1)));
  util_onnx_node(&m, "BatchNormalization", "bn", "q scale shift mean var", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(2, 128));
  g = load_divided(&m, 4);
  assert_int_equal(g->divided, 1);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* Whole and divided compute the same of an input of this shape. */
static void same_divided(util_onnx *m, int rank, const int64_t *shape, int divided) {
  float data[2 * 3 * 8 * 12];
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, rank, shape);
  util_fill(data, rdt_tensor_count(&x), 17);
  rdt_graph *g = load_divided(m, 4);
  assert_int_equal(g->divided, divided);
  for (int i = 0; i < g->n_nodes; i++) /* a name is one node's */
    for (int k = 0; k < i; k++) assert_string_not_equal(g->nodes[i].name, g->nodes[k].name);
  rdt_tensor y = util_graph_run(g, &x, 1, 0);
  rdt_graph_free(g);
  g = util_graph_load(m);
  rdt_tensor z = util_graph_run(g, &x, 1, 0);
  assert_int_equal(rdt_tensor_count(&y), rdt_tensor_count(&z));
  for (int64_t e = 0; e < rdt_tensor_count(&z); e++)
    assert_true(fabs(rdt_load(y.data, RDT_F32, e) - rdt_load(z.data, RDT_F32, e)) < 1e-4);
  rdt_free(y.data), rdt_free(z.data);
  rdt_graph_free(g);
  util_onnx_clear(m);
}

static void test_divided_shapes(void **state) {
  (void)state;
  util_onnx m;
  util_onnx_init(&m, 13); /* turned input, batch, residual behind a bias, activation at the end */
  util_onnx_input(&m, "x", RDT_F32, 3, SHAPE(2, 12, 8));
  constant(&m, "w", 2, SHAPE(12, 8), 1), constant(&m, "b", 1, SHAPE(8), 2), constant(&m, "v", 2, SHAPE(8, 8), 3);
  util_onnx_node(&m, "Transpose", "turn", "x", "t", UTIL_ATTRS(UTIL_INTS("perm", 3, 0, 2, 1)));
  util_onnx_node(&m, "MatMul", "one", "t w", "p", NULL);
  util_onnx_node(&m, "Add", "bias", "p b", "q", NULL);
  util_onnx_node(&m, "MatMul", "two", "q v", "r", NULL);
  util_onnx_node(&m, "Add", "two/share 1 of 4", "r q", "s", NULL);
  util_onnx_node(&m, "Relu", "two/share 2 of 4", "s", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 3, SHAPE(2, 8, 8));
  same_divided(&m, 3, SHAPE(2, 12, 8), 2);
  util_onnx_init(&m, 13); /* a vector; a name that is there already; an output in the middle */
  util_onnx_input(&m, "x", RDT_F32, 1, SHAPE(12));
  constant(&m, "w", 2, SHAPE(12, 12), 1);
  util_onnx_node(&m, "MatMul", "m", "x w", "p", NULL);
  util_onnx_node(&m, "Tanh", "m/share 1 of 4", "p", "q", NULL);
  util_onnx_node(&m, "MatMul", "n", "q w", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 1, SHAPE(12));
  util_onnx_output(&m, "p", RDT_F32, 1, SHAPE(12));
  same_divided(&m, 1, SHAPE(12), 2);
  util_onnx_init(&m, 13); /* k = 1, k = 0, no rows */
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(3, 1));
  constant(&m, "w", 2, SHAPE(1, 8), 1);
  util_onnx_node(&m, "MatMul", "m", "x w", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(3, 8));
  same_divided(&m, 2, SHAPE(3, 1), 0);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(0, 8));
  constant(&m, "w", 2, SHAPE(8, 8), 1);
  util_onnx_node(&m, "MatMul", "m", "x w", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(0, 8));
  same_divided(&m, 2, SHAPE(0, 8), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batchnorm_into_conv), cmocka_unit_test(test_batchnorm_into_gemm),
      cmocka_unit_test(test_batchnorm_stays),     cmocka_unit_test(test_residual),
      cmocka_unit_test(test_residual_stays),      cmocka_unit_test(test_bias),
      cmocka_unit_test(test_copies_of_constants), cmocka_unit_test(test_gelu),
      cmocka_unit_test(test_gelu_tanh),           cmocka_unit_test(test_times_itself),
      cmocka_unit_test(test_no_pattern),          cmocka_unit_test(test_activations),
      cmocka_unit_test(test_scaled_product),      cmocka_unit_test(test_joined),
      cmocka_unit_test(test_joined_or_not),       cmocka_unit_test(test_divided),
      cmocka_unit_test(test_divided_or_not),      cmocka_unit_test(test_divided_folded),
      cmocka_unit_test(test_divided_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
