/* Every operator: the shapes it infers, and that the problem it lowers to computes what ONNX says, on the reference
 * kernels against loops over logical indices. Data are small integers, so that all results are exact. */
#include <math.h>
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

static rdt_tensor integers(int rank, const int64_t *shape, uint64_t seed) {
  rdt_tensor t = rdt_tensor_dense(NULL, RDT_F32, rank, shape);
  const int64_t n = rdt_tensor_count(&t);
  float *x = t.data = rdt_alloc((size_t)n, sizeof *x);
  util_fill(x, n, seed);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(int)(x[i] * 8.0f);
  return t;
}

static float at(const rdt_tensor *t, const int64_t *index) {
  int64_t o = 0;
  for (int d = 0; d < t->rank; d++) o += index[d] * t->stride[d];
  return ((float *)t->data)[o];
}

static void expect_shape(const rdt_tensor *t, int rank, const int64_t *shape) {
  assert_int_equal(t->rank, rank);
  for (int d = 0; d < rank; d++) assert_int_equal(t->shape[d], shape[d]);
}

/* A model of one node whose operands are the inputs i0, i1, ... */
static void one_node(util_onnx *m, int64_t opset, const char *op, const rdt_tensor *in, int n_in,
                     const util_attr *attrs) {
  char names[64] = "", name[16];
  util_onnx_init(m, opset);
  for (int i = 0; i < n_in; i++) {
    snprintf(name, sizeof name, "i%d", i);
    util_onnx_input(m, name, in[i].dtype, in[i].rank, in[i].shape);
    strcat(strcat(names, " "), name);
  }
  util_onnx_node(m, op, "node", names, "y", attrs);
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
}

static rdt_tensor run_one(int64_t opset, const char *op, const rdt_tensor *in, int n_in, const util_attr *attrs) {
  util_onnx m;
  one_node(&m, opset, op, in, n_in, attrs);
  rdt_graph *g = util_graph_load(&m);
  rdt_tensor y = util_graph_run(g, in, n_in, 0);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  return y;
}

/* Inference must refuse with this status, and the message must name file, node, op and word. */
static void refuse_one(int64_t opset, const char *op, const rdt_tensor *in, int n_in, const util_attr *attrs,
                       rdt_status expected, const char *word) {
  util_onnx m;
  rdt_reason why = {""};
  one_node(&m, opset, op, in, n_in, attrs);
  rdt_graph *g = util_graph_load(&m);
  const rdt_status s = util_graph_try(g, in, n_in, &why);
  if (s != expected || !strstr(why.text, word) || !strstr(why.text, "test.onnx: node 'node'") || !strstr(why.text, op))
    fail_msg("%s: '%s', not %s: '%s'", rdt_status_name(s), why.text, rdt_status_name(expected), word);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

/* ---- products ---- */

static void test_matmul(void **state) {
  (void)state;
  static const struct {
    int ra, rb, ry;
    int64_t a[4], b[4], y[4];
    int problem_rank; /* 2 where the batch is one tall product */
  } cases[] = {
      {2, 2, 2, {3, 4}, {4, 5}, {3, 5}, 2},
      {3, 2, 3, {2, 3, 4}, {4, 5}, {2, 3, 5}, 2},
      {4, 2, 4, {2, 1, 3, 4}, {4, 5}, {2, 1, 3, 5}, 2},
      {3, 3, 3, {2, 3, 4}, {2, 4, 5}, {2, 3, 5}, 3},
      {3, 3, 3, {2, 3, 4}, {1, 4, 5}, {2, 3, 5}, 3},
      {2, 3, 3, {3, 4}, {2, 4, 5}, {2, 3, 5}, 3},
      {4, 3, 4, {2, 1, 3, 4}, {3, 4, 5}, {2, 3, 3, 5}, 4},
      {1, 1, 0, {4}, {4}, {0}, 2},
      {1, 2, 1, {4}, {4, 5}, {5}, 2},
      {2, 1, 1, {3, 4}, {4}, {3}, 2},
      {1, 3, 2, {4}, {2, 4, 5}, {2, 5}, 3},
      {3, 1, 2, {2, 3, 4}, {4}, {2, 3}, 2},
      {2, 2, 2, {3, 0}, {0, 5}, {3, 5}, 2},
      {3, 2, 3, {0, 3, 4}, {4, 5}, {0, 3, 5}, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    rdt_tensor in[2] = {integers(cases[i].ra, cases[i].a, 1), integers(cases[i].rb, cases[i].b, 2)};
    rdt_tensor y = run_one(13, "MatMul", in, 2, NULL);
    expect_shape(&y, cases[i].ry, cases[i].y);
    const int ra = cases[i].ra, rb = cases[i].rb, batch = y.rank - (ra > 1) - (rb > 1);
    const int64_t k = cases[i].a[ra - 1];
    for (rdt_iter it = rdt_iter_begin(&y); rdt_iter_next(&it);) {
      int64_t ia[4] = {0}, ib[4] = {0};
      for (int d = 0; d < batch; d++) { /* aligned at the matrix; length 1 repeats */
        const int da = d - (batch - (ra - 2)), db = d - (batch - (rb - 2));
        if (ra > 2 && da >= 0) ia[da] = in[0].shape[da] == 1 ? 0 : it.index[d];
        if (rb > 2 && db >= 0) ib[db] = in[1].shape[db] == 1 ? 0 : it.index[d];
      }
      if (ra > 1) ia[ra - 2] = it.index[batch];
      if (rb > 1) ib[rb - 1] = it.index[y.rank - 1];
      float sum = 0.0f;
      for (int64_t t = 0; t < k; t++) {
        ia[ra - 1] = t;
        ib[rb > 1 ? rb - 2 : 0] = t;
        sum += at(&in[0], ia) * at(&in[1], ib);
      }
      assert_true(((float *)y.data)[it.offset] == sum);
    }
    util_onnx m;
    one_node(&m, 13, "MatMul", in, 2, NULL);
    rdt_graph *g = util_graph_load(&m);
    rdt_layout layout;
    rdt_problem p;
    assert_int_equal(rdt_layout_init(&layout, g, NULL), RDT_OK);
    assert_int_equal(rdt_graph_infer(g, in, 2, &layout, NULL), RDT_OK);
    assert_int_equal(rdt_node_lower(g, &g->nodes[0], layout.views, &p, NULL), RDT_OK);
    assert_int_equal(p.out.rank, cases[i].problem_rank);
    rdt_problem_clear(&p);
    rdt_layout_clear(&layout);
    rdt_graph_free(g);
    util_onnx_clear(&m);
    for (int t = 0; t < 2; t++) rdt_free(in[t].data);
    rdt_free(y.data);
  }
}

static void test_gemm(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t shape[2];
    bool bias; /* rides as bias, not as residual, where beta is 1 */
  } cs[] = {{-1, {0}, 0}, {1, {5}, 1}, {2, {1, 5}, 1}, {2, {3, 1}, 0}, {2, {3, 5}, 0}, {1, {1}, 0}, {0, {0}, 0}};
  for (size_t c = 0; c < sizeof cs / sizeof cs[0]; c++)
    for (int trans = 0; trans < 4; trans++)
      for (int scaled = 0; scaled < 2; scaled++) {
        const int64_t ta = trans & 1, tb = trans >> 1;
        rdt_tensor in[3] = {integers(2, ta ? SHAPE(4, 3) : SHAPE(3, 4), 1),
                            integers(2, tb ? SHAPE(5, 4) : SHAPE(4, 5), 2)};
        const int n_in = cs[c].rank < 0 ? 2 : 3;
        if (n_in == 3) in[2] = integers(cs[c].rank, cs[c].shape, 3);
        const float alpha = scaled ? 0.5f : 1.0f, beta = scaled ? -2.0f : 1.0f;
        const util_attr *attrs = UTIL_ATTRS(UTIL_INT("transA", ta), UTIL_INT("transB", tb), UTIL_FLOAT("alpha", alpha),
                                            UTIL_FLOAT("beta", beta));
        rdt_tensor y = run_one(13, "Gemm", in, n_in, attrs), wide = {0};
        expect_shape(&y, 2, SHAPE(3, 5));
        if (n_in == 3) assert_int_equal(rdt_tensor_broadcast(&in[2], 2, y.shape, &wide, NULL), RDT_OK);
        for (int64_t i = 0; i < 3; i++)
          for (int64_t j = 0; j < 5; j++) {
            float sum = 0.0f;
            for (int64_t k = 0; k < 4; k++)
              sum += at(&in[0], ta ? SHAPE(k, i) : SHAPE(i, k)) * at(&in[1], tb ? SHAPE(j, k) : SHAPE(k, j));
            const float expected = alpha * sum + (n_in == 3 ? beta * at(&wide, SHAPE(i, j)) : 0.0f);
            assert_true(at(&y, SHAPE(i, j)) == expected);
          }
        util_onnx m;
        one_node(&m, 13, "Gemm", in, n_in, attrs);
        rdt_graph *g = util_graph_load(&m);
        rdt_layout layout;
        rdt_problem p;
        assert_int_equal(rdt_layout_init(&layout, g, NULL), RDT_OK);
        assert_int_equal(rdt_graph_infer(g, in, n_in, &layout, NULL), RDT_OK);
        assert_int_equal(rdt_node_lower(g, &g->nodes[0], layout.views, &p, NULL), RDT_OK);
        assert_int_equal(p.epilogue.bias.rank >= 0, cs[c].bias && !scaled);
        rdt_problem_clear(&p);
        rdt_layout_clear(&layout);
        rdt_graph_free(g);
        util_onnx_clear(&m);
        for (int k = 0; k < n_in; k++) rdt_free(in[k].data);
        rdt_free(y.data);
      }
}

static void test_product_errors(void **state) {
  (void)state;
  const rdt_tensor a = rdt_tensor_dense(NULL, RDT_F32, 2, SHAPE(3, 4)),
                   b = rdt_tensor_dense(NULL, RDT_F32, 2, SHAPE(5, 6)),
                   batch = rdt_tensor_dense(NULL, RDT_F32, 3, SHAPE(2, 3, 4)),
                   other = rdt_tensor_dense(NULL, RDT_F32, 3, SHAPE(3, 4, 5)),
                   scalar = rdt_tensor_dense(NULL, RDT_F32, 0, NULL),
                   wide = rdt_tensor_dense(NULL, RDT_F64, 2, SHAPE(4, 4)),
                   c = rdt_tensor_dense(NULL, RDT_F32, 1, SHAPE(7)),
                   fit = rdt_tensor_dense(NULL, RDT_F32, 2, SHAPE(4, 5));
  refuse_one(13, "MatMul", (rdt_tensor[]){a, b}, 2, NULL, RDT_ERR_SHAPE, "k is 4 in A and 5 in B");
  refuse_one(13, "MatMul", (rdt_tensor[]){batch, other}, 2, NULL, RDT_ERR_SHAPE, "batch");
  refuse_one(13, "MatMul", (rdt_tensor[]){a, scalar}, 2, NULL, RDT_ERR_SHAPE, "scalar");
  refuse_one(13, "MatMul", (rdt_tensor[]){a, wide}, 2, NULL, RDT_ERR_DTYPE, "f64");
  refuse_one(13, "Gemm", (rdt_tensor[]){a, b}, 2, NULL, RDT_ERR_SHAPE, "k is 4 in A and 5 in B");
  refuse_one(13, "Gemm", (rdt_tensor[]){batch, fit}, 2, NULL, RDT_ERR_SHAPE, "matrices");
  refuse_one(13, "Gemm", (rdt_tensor[]){a, fit, c}, 3, NULL, RDT_ERR_SHAPE, "C:");
  refuse_one(13, "Gemm", (rdt_tensor[]){a, fit}, 2, UTIL_ATTRS(UTIL_INT("alpha", 1)), RDT_ERR_FORMAT, "alpha");
}

/* ---- elementwise and moving ---- */

static void test_binary(void **state) {
  (void)state;
  static const struct {
    int ra, rb, ry;
    int64_t a[4], b[4], y[4];
  } cases[] = {
      {4, 4, 4, {2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
      {4, 1, 4, {2, 3, 4, 5}, {5}, {2, 3, 4, 5}},
      {1, 4, 4, {5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
      {4, 3, 4, {2, 3, 4, 5}, {3, 1, 1}, {2, 3, 4, 5}},
      {2, 2, 2, {3, 1}, {1, 4}, {3, 4}},
      {2, 0, 2, {3, 4}, {0}, {3, 4}},
      {2, 2, 2, {0, 4}, {1, 4}, {0, 4}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int mul = 0; mul < 2; mul++) {
      rdt_tensor in[2] = {integers(cases[i].ra, cases[i].a, 1), integers(cases[i].rb, cases[i].b, 2)}, wide[2];
      rdt_tensor y = run_one(7, mul ? "Mul" : "Add", in, 2, NULL);
      expect_shape(&y, cases[i].ry, cases[i].y);
      for (int k = 0; k < 2; k++)
        assert_int_equal(rdt_tensor_broadcast(&in[k], y.rank, y.shape, &wide[k], NULL), RDT_OK);
      for (rdt_iter it = rdt_iter_begin(&y); rdt_iter_next(&it);) {
        const float a = at(&wide[0], it.index), b = at(&wide[1], it.index);
        assert_true(((float *)y.data)[it.offset] == (mul ? a * b : a + b));
      }
      for (int k = 0; k < 2; k++) rdt_free(in[k].data);
      rdt_free(y.data);
    }
  const rdt_tensor a = rdt_tensor_dense(NULL, RDT_F32, 2, SHAPE(3, 4)),
                   b = rdt_tensor_dense(NULL, RDT_F32, 1, SHAPE(3));
  refuse_one(13, "Add", (rdt_tensor[]){a, b}, 2, NULL, RDT_ERR_SHAPE, "3x4 f32 and 3 f32");
}

/* Opset 6: B is aligned at an axis, and only if broadcast says so. */
static void test_binary_opset6(void **state) {
  (void)state;
  rdt_tensor in[2] = {integers(4, SHAPE(2, 3, 4, 5), 1), integers(1, SHAPE(3), 2)};
  rdt_tensor y = run_one(6, "Add", in, 2, UTIL_ATTRS(UTIL_INT("broadcast", 1), UTIL_INT("axis", 1)));
  for (rdt_iter it = rdt_iter_begin(&y); rdt_iter_next(&it);)
    assert_true(((float *)y.data)[it.offset] == at(&in[0], it.index) + at(&in[1], &it.index[1]));
  refuse_one(6, "Add", in, 2, NULL, RDT_ERR_SHAPE, "broadcast=1");
  refuse_one(6, "Mul", in, 2, UTIL_ATTRS(UTIL_INT("broadcast", 1), UTIL_INT("axis", 4)), RDT_ERR_SHAPE, "axis 4");
  refuse_one(6, "Mul", in, 2, UTIL_ATTRS(UTIL_INT("broadcast", 1), UTIL_INT("axis", -5)), RDT_ERR_SHAPE, "axis -5");
  refuse_one(6, "Mul", in, 2, UTIL_ATTRS(UTIL_INT("broadcast", 1)), RDT_ERR_SHAPE, "broadcast");
  rdt_free(y.data);
  for (int k = 0; k < 2; k++) rdt_free(in[k].data);
}

/* To 8-bit floats: what is too large saturates, and only so. */
static void test_cast_f8(void **state) {
  (void)state;
  static const float given[] = {1.0f, -1.0625f, 1.1f, 448.0f, 470.0f, -1e9f, 0x1p-9f, INFINITY};
  static const float e4m3[] = {1.0f, -1.0f, 1.125f, 448.0f, 448.0f, -448.0f, 0x1p-9f, 448.0f};
  static const float e5m2[] = {1.0f, -1.0f, 1.0f, 448.0f, 448.0f, -57344.0f, 0x1p-9f, 57344.0f};
  rdt_tensor x = integers(1, SHAPE(8), 1);
  memcpy(x.data, given, sizeof given);
  for (int t = 0; t < 2; t++) {
    rdt_tensor y = run_one(19, "Cast", &x, 1, UTIL_ATTRS(UTIL_INT("to", t ? 19 : 17)));
    assert_int_equal(y.dtype, t ? RDT_F8E5M2 : RDT_F8E4M3);
    for (int i = 0; i < 8; i++) assert_true(rdt_load(y.data, y.dtype, i) == (double)(t ? e5m2 : e4m3)[i]);
    rdt_tensor back = run_one(19, "Cast", &y, 1, UTIL_ATTRS(UTIL_INT("to", 1)));
    for (int i = 0; i < 8; i++) assert_true(((float *)back.data)[i] == (t ? e5m2 : e4m3)[i]);
    refuse_one(19, "Cast", &x, 1, UTIL_ATTRS(UTIL_INT("to", t ? 19 : 17), UTIL_INT("saturate", 0)), RDT_ERR_UNSUPPORTED,
               "saturate=0");
    rdt_free(y.data), rdt_free(back.data);
  }
  refuse_one(19, "Cast", &x, 1, UTIL_ATTRS(UTIL_INT("to", 18)), RDT_ERR_UNSUPPORTED, "is not available");
  rdt_free(x.data);
}

static void test_batchnorm(void **state) {
  (void)state;
  rdt_tensor in[5] = {integers(3, SHAPE(2, 3, 4), 1)};
  const float var[3] = {4.0f, 1.0f, 16.0f};
  for (int k = 1; k < 5; k++) in[k] = integers(1, SHAPE(3), (uint64_t)k + 1);
  memcpy(in[4].data, var, sizeof var);
  rdt_tensor y = run_one(13, "BatchNormalization", in, 5, UTIL_ATTRS(UTIL_FLOAT("epsilon", 0.0f)));
  for (rdt_iter it = rdt_iter_begin(&y); rdt_iter_next(&it);) {
    const int64_t *c = &it.index[1];
    const float expected = (at(&in[0], it.index) - at(&in[3], c)) / (*c == 0 ? 2.0f : *c == 1 ? 1.0f : 4.0f);
    assert_true(((float *)y.data)[it.offset] == expected * at(&in[1], c) + at(&in[2], c));
  }
  rdt_tensor flat = rdt_tensor_dense(NULL, RDT_F32, 1, SHAPE(3)),
             shorter = rdt_tensor_dense(NULL, RDT_F32, 1, SHAPE(2));
  refuse_one(14, "BatchNormalization", in, 5, UTIL_ATTRS(UTIL_INT("training_mode", 1)), RDT_ERR_UNSUPPORTED,
             "training");
  refuse_one(7, "BatchNormalization", in, 5, UTIL_ATTRS(UTIL_INT("spatial", 0)), RDT_ERR_UNSUPPORTED, "spatial");
  refuse_one(13, "BatchNormalization", (rdt_tensor[]){flat, in[1], in[2], in[3], in[4]}, 5, NULL, RDT_ERR_SHAPE,
             "channels");
  refuse_one(13, "BatchNormalization", (rdt_tensor[]){in[0], in[1], shorter, in[3], in[4]}, 5, NULL, RDT_ERR_SHAPE,
             "B is 2");
  for (int k = 0; k < 5; k++) rdt_free(in[k].data);
  rdt_free(y.data);
}

/* Sums of the softmax over the dimensions that belong together must be 1; equal inputs give equal shares. */
static void test_softmax(void **state) {
  (void)state;
  static const struct {
    int64_t opset, axis;
    int rank;
    float share; /* of one element of a constant tensor of 2 x 4 x 1 x 8 */
  } cases[] = {{13, -1, 4, 1.0f / 8}, {13, 1, 4, 1.0f / 4},  {12, 1, 4, 1.0f / 32}, {12, 3, 4, 1.0f / 8},
               {12, 0, 4, 1.0f / 64}, {12, -1, 4, 1.0f / 8}, {11, 1, 2, 1.0f / 4},  {6, 2, 4, 1.0f / 8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int pooled = 0; pooled < 2; pooled++) { /* a pool before it makes it channels-last */
      util_onnx m;
      rdt_tensor x = integers(cases[i].rank, SHAPE(2, 4, 1, 8), 1);
      if (pooled && x.rank != 4) {
        rdt_free(x.data);
        continue;
      }
      for (int64_t e = 0; e < rdt_tensor_count(&x); e++) ((float *)x.data)[e] = 3.0f;
      util_onnx_init(&m, cases[i].opset);
      util_onnx_input(&m, "x", RDT_F32, x.rank, x.shape);
      if (pooled) util_onnx_node(&m, "MaxPool", NULL, "x", "p", UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 1, 1)));
      util_onnx_node(&m, "Softmax", NULL, pooled ? "p" : "x", "y", UTIL_ATTRS(UTIL_INT("axis", cases[i].axis)));
      util_onnx_output(&m, "y", RDT_F32, -1, NULL);
      rdt_graph *g = util_graph_load(&m);
      rdt_tensor y = util_graph_run(g, &x, 1, 0);
      expect_shape(&y, x.rank, x.shape);
      for (int64_t e = 0; e < rdt_tensor_count(&y); e++) assert_true(((float *)y.data)[e] == cases[i].share);
      rdt_graph_free(g);
      util_onnx_clear(&m);
      rdt_free(x.data);
      rdt_free(y.data);
    }
  rdt_tensor x = rdt_tensor_dense(NULL, RDT_F32, 2, SHAPE(2, 3));
  refuse_one(13, "Softmax", &x, 1, UTIL_ATTRS(UTIL_INT("axis", 2)), RDT_ERR_SHAPE, "axis 2");
  refuse_one(13, "Softmax", &x, 1, UTIL_ATTRS(UTIL_INT("axis", -3)), RDT_ERR_SHAPE, "axis -3");
}

static void test_concat(void **state) {
  (void)state;
  rdt_tensor in[3] = {integers(3, SHAPE(2, 3, 4), 1), integers(3, SHAPE(2, 0, 4), 2), integers(3, SHAPE(2, 2, 4), 3)};
  for (int64_t axis = -2; axis <= 1; axis += 3) {
    rdt_tensor y = run_one(13, "Concat", in, 3, UTIL_ATTRS(UTIL_INT("axis", axis)));
    expect_shape(&y, 3, SHAPE(2, 5, 4));
    for (rdt_iter it = rdt_iter_begin(&y); rdt_iter_next(&it);) {
      const int64_t c = it.index[1];
      const float e = c < 3 ? at(&in[0], it.index) : at(&in[2], SHAPE(it.index[0], c - 3, it.index[2]));
      assert_true(((float *)y.data)[it.offset] == e);
    }
    rdt_free(y.data);
  }
  refuse_one(13, "Concat", in, 3, NULL, RDT_ERR_FORMAT, "axis");
  refuse_one(13, "Concat", in, 3, UTIL_ATTRS(UTIL_INT("axis", 0)), RDT_ERR_SHAPE, "2x0x4");
  rdt_tensor huge = rdt_tensor_dense(NULL, RDT_F32, 1, SHAPE(INT64_MAX / 8)), four[4] = {huge, huge, huge, huge};
  util_onnx m;
  rdt_reason why;
  one_node(&m, 13, "Concat", four, 4, UTIL_ATTRS(UTIL_INT("axis", 0)));
  rdt_graph *g = util_graph_load(&m);
  assert_int_equal(util_graph_try(g, four, 4, &why), RDT_ERR_SHAPE);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  for (int k = 0; k < 3; k++) rdt_free(in[k].data);
}

/* x -> [MaxPool 1x1, so that it lies channels-last] -> op -> y: the logical order must survive. */
static rdt_tensor moved(const rdt_tensor *x, const char *op, int n_shape, const int64_t *shape, const util_attr *attrs,
                        bool pool_behind, rdt_status expected) {
  util_onnx m;
  rdt_tensor y = {0};
  rdt_reason why = {""};
  util_onnx_init(&m, 14);
  util_onnx_input(&m, "x", RDT_F32, x->rank, x->shape);
  const util_attr *one = UTIL_ATTRS(UTIL_INTS("kernel_shape", 2, 1, 1));
  if (x->rank == 4) util_onnx_node(&m, "MaxPool", NULL, "x", "p", one);
  if (shape) util_onnx_initializer(&m, "s", RDT_S64, 1, SHAPE(n_shape), shape);
  char inputs[16] = "";
  strcat(strcat(inputs, x->rank == 4 ? "p" : "x"), shape ? " s" : "");
  util_onnx_node(&m, op, "node", inputs, pool_behind ? "q" : "y", attrs);
  if (pool_behind) util_onnx_node(&m, "MaxPool", NULL, "q", "y", one);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  if (expected == RDT_OK)
    y = util_graph_run(g, x, 1, 0);
  else
    assert_int_equal(util_graph_try(g, x, 1, &why), expected);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  return y;
}

static void test_flatten_and_reshape(void **state) {
  (void)state;
  rdt_tensor x = integers(4, SHAPE(2, 3, 4, 5), 1);
  static const struct {
    const char *op;
    int64_t axis, allow_zero;
    int n, ry;
    int64_t shape[5], y[5];
    rdt_status status;
  } cases[] = {
      {"Flatten", 1, 0, -1, 2, {0}, {2, 60}, RDT_OK},
      {"Flatten", 0, 0, -1, 2, {0}, {1, 120}, RDT_OK},
      {"Flatten", 4, 0, -1, 2, {0}, {120, 1}, RDT_OK},
      {"Flatten", -1, 0, -1, 2, {0}, {24, 5}, RDT_OK},
      {"Flatten", 5, 0, -1, 2, {0}, {0}, RDT_ERR_SHAPE},
      {"Reshape", 0, 0, 2, 2, {0, -1}, {2, 60}, RDT_OK},
      {"Reshape", 0, 0, 4, 4, {4, 0, 2, -1}, {4, 3, 2, 5}, RDT_OK},
      {"Reshape", 0, 0, 1, 1, {-1}, {120}, RDT_OK},
      {"Reshape", 0, 0, 5, 5, {2, 3, 2, 2, 5}, {2, 3, 2, 2, 5}, RDT_OK},
      {"Reshape", 0, 0, 2, 0, {7, -1}, {0}, RDT_ERR_SHAPE},
      {"Reshape", 0, 0, 2, 0, {-1, -1}, {0}, RDT_ERR_SHAPE},
      {"Reshape", 0, 0, 2, 0, {-2, 60}, {0}, RDT_ERR_SHAPE},
      {"Reshape", 0, 0, 2, 0, {2, 61}, {0}, RDT_ERR_SHAPE},
      {"Reshape", 0, 1, 2, 0, {0, -1}, {0}, RDT_ERR_SHAPE},
      {"Reshape", 0, 0, 5, 0, {2, 3, 4, 5, 0}, {0}, RDT_ERR_SHAPE},
      {"Reshape", 0, 0, 2, 0, {INT64_MAX, INT64_MAX}, {0}, RDT_ERR_SHAPE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int behind = 0; behind < (cases[i].ry == 4 ? 2 : 1); behind++) {
      const bool flat = cases[i].n < 0;
      rdt_tensor y = moved(
          &x, cases[i].op, cases[i].n, flat ? NULL : cases[i].shape,
          flat ? UTIL_ATTRS(UTIL_INT("axis", cases[i].axis)) : UTIL_ATTRS(UTIL_INT("allowzero", cases[i].allow_zero)),
          behind, cases[i].status);
      if (cases[i].status != RDT_OK) continue;
      expect_shape(&y, cases[i].ry, cases[i].y);
      assert_memory_equal(y.data, x.data, 120 * sizeof(float));
      rdt_free(y.data);
    }
  rdt_free(x.data);
  rdt_tensor matrix = integers(2, SHAPE(6, 20), 1); /* row-major to channels-last */
  rdt_tensor y = moved(&matrix, "Reshape", 4, SHAPE(2, 3, 4, 5), NULL, true, RDT_OK);
  assert_memory_equal(y.data, matrix.data, 120 * sizeof(float));
  rdt_free(y.data);
  rdt_free(matrix.data);
  rdt_tensor empty = integers(2, SHAPE(0, 20), 1);
  y = moved(&empty, "Reshape", 2, SHAPE(0, 7), UTIL_ATTRS(UTIL_INT("allowzero", 1)), false, RDT_OK);
  expect_shape(&y, 2, SHAPE(0, 7));
  rdt_free(y.data);
  rdt_free(empty.data);
}

static void test_relu_and_identity(void **state) {
  (void)state;
  rdt_tensor x = integers(2, SHAPE(3, 7), 1);
  rdt_tensor y = run_one(13, "Relu", &x, 1, NULL), same = run_one(13, "Identity", &x, 1, NULL);
  for (int i = 0; i < 21; i++) {
    const float v = ((float *)x.data)[i];
    assert_true(((float *)y.data)[i] == (v > 0.0f ? v : 0.0f));
    assert_true(((float *)same.data)[i] == v);
  }
  rdt_free(x.data);
  rdt_free(y.data);
  rdt_free(same.data);
}

/* ---- inputs ---- */

static void test_inputs_are_checked(void **state) {
  (void)state;
  util_onnx m;
  rdt_reason why;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "image", RDT_F32, 4, SHAPE(-1, 3, 8, 8));
  util_onnx_node(&m, "Relu", NULL, "image", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  const rdt_tensor good = rdt_tensor_dense(NULL, RDT_F32, 4, SHAPE(0, 3, 8, 8)),
                   wide = rdt_tensor_dense(NULL, RDT_F64, 4, SHAPE(1, 3, 8, 8)),
                   other = rdt_tensor_dense(NULL, RDT_F32, 4, SHAPE(1, 3, 8, 9)),
                   flat = rdt_tensor_dense(NULL, RDT_F32, 3, SHAPE(3, 8, 8)),
                   negative = rdt_tensor_dense(NULL, RDT_F32, 4, SHAPE(-1, 3, 8, 8)),
                   huge = rdt_tensor_dense(NULL, RDT_F32, 4, SHAPE(INT64_MAX / 16, 3, 8, 8));
  assert_int_equal(util_graph_try(g, &good, 1, &why), RDT_OK);
  assert_int_equal(util_graph_try(g, &good, 0, &why), RDT_ERR_ARG);
  assert_int_equal(util_graph_try(g, &wide, 1, &why), RDT_ERR_DTYPE);
  assert_non_null(strstr(why.text, "'image' must be f32, got 1x3x8x8 f64"));
  assert_int_equal(util_graph_try(g, &other, 1, &why), RDT_ERR_SHAPE);
  assert_non_null(strstr(why.text, "'image' must be ?x3x8x8 f32"));
  assert_int_equal(util_graph_try(g, &flat, 1, &why), RDT_ERR_SHAPE);
  assert_int_equal(util_graph_try(g, &negative, 1, &why), RDT_ERR_SHAPE);
  assert_int_equal(util_graph_try(g, &huge, 1, &why), RDT_ERR_SHAPE);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matmul),
      cmocka_unit_test(test_gemm),
      cmocka_unit_test(test_product_errors),
      cmocka_unit_test(test_binary),
      cmocka_unit_test(test_binary_opset6),
      cmocka_unit_test(test_cast_f8),
      cmocka_unit_test(test_batchnorm),
      cmocka_unit_test(test_softmax),
      cmocka_unit_test(test_concat),
      cmocka_unit_test(test_flatten_and_reshape),
      cmocka_unit_test(test_relu_and_identity),
      cmocka_unit_test(test_inputs_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
