/* Normalisations and softmax: written out as arithmetic they are found again and mean the same; NaN is never lost; a
 * planted fault is found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the headers that it needs */
#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "check/tolerance.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "net/model.h"
#include "util_graph.h"

enum { ROWS = 6, N = 19 };

/* How a normalisation is written. */
typedef struct form {
  bool centred, product, reciprocal, division, epsilon_first, shift;
  int64_t opset;
} form;

static void scalar(util_onnx *m, const char *name, float value) {
  util_onnx_initializer(m, name, RDT_F32, 0, NULL, &value);
}

static void mean_of(util_onnx *m, int64_t opset, const char *in, const char *out) {
  static const int64_t one[1] = {1}, last[1] = {-1};
  char inputs[40];
  if (opset >= 18) {
    char axes[16];
    snprintf(axes, sizeof axes, "%s_axes", out);
    util_onnx_initializer(m, axes, RDT_S64, 1, one, last);
    snprintf(inputs, sizeof inputs, "%s %s", in, axes);
    util_onnx_node(m, "ReduceMean", out, inputs, out, NULL);
  } else {
    util_onnx_node(m, "ReduceMean", out, in, out, UTIL_ATTRS(UTIL_INTS("axes", 1, -1)));
  }
}

static void write_norm(util_onnx *m, const form *f, const float *gain, const float *shift, float power) {
  static const int64_t x[2] = {ROWS, N}, vector[1] = {N};
  const char *d = f->centred ? "d" : "x";
  char text[40];
  util_onnx_init(m, f->opset);
  util_onnx_input(m, "x", RDT_F32, 2, x);
  util_onnx_initializer(m, "g", RDT_F32, 1, vector, gain);
  util_onnx_initializer(m, "b", RDT_F32, 1, vector, shift);
  scalar(m, "two", power);
  scalar(m, "eps", 1e-3f);
  scalar(m, "one", 1.0f);
  if (f->centred) {
    mean_of(m, f->opset, "x", "mu");
    util_onnx_node(m, "Sub", "sub", "x mu", "d", NULL);
  }
  snprintf(text, sizeof text, f->product ? "%s %s" : "%s two", d, d);
  util_onnx_node(m, f->product ? "Mul" : "Pow", "square", text, "q", NULL);
  mean_of(m, f->opset, "q", "v");
  util_onnx_node(m, "Add", "plus", f->epsilon_first ? "eps v" : "v eps", "w", NULL);
  util_onnx_node(m, "Sqrt", "root", "w", "s", NULL);
  if (f->reciprocal || f->division) {
    util_onnx_node(m, f->division ? "Div" : "Reciprocal", "inverse", f->division ? "one s" : "s", "r", NULL);
    snprintf(text, sizeof text, "%s r", d);
  } else {
    snprintf(text, sizeof text, "%s s", d);
  }
  util_onnx_node(m, f->reciprocal || f->division ? "Mul" : "Div", "norm", text, "n", NULL);
  util_onnx_node(m, "Mul", "gain", f->epsilon_first ? "g n" : "n g", f->shift ? "z" : "y", NULL);
  if (f->shift) util_onnx_node(m, "Add", "shift", "z b", "y", NULL);
  util_onnx_output(m, "y", RDT_F32, 2, x);
}

static void fill_all(float *x, float *gain, float *shift) {
  util_fill(x, ROWS * N, 1);
  util_fill(gain, N, 2);
  util_fill(shift, N, 3);
}

static void compare(const rdt_tensor *y, const form *f, const float *x, const float *gain, const float *shift) {
  for (int r = 0; r < ROWS; r++) {
    long double mean = 0, squares = 0;
    for (int i = 0; i < N && f->centred; i++) mean += (long double)x[r * N + i] / N;
    for (int i = 0; i < N; i++) squares += (x[r * N + i] - mean) * (x[r * N + i] - mean) / N;
    for (int i = 0; i < N; i++) {
      const long double e =
          (x[r * N + i] - mean) / sqrtl(squares + 1e-3f) * gain[i] + (f->shift ? (long double)shift[i] : 0);
      assert_true(fabsl(((const float *)y->data)[r * N + i] - e) <= rdt_tolerance_operator(RDT_F32) * (1 + fabsl(e)));
    }
  }
}

static void written_out_norms_are_found(void **state) {
  static const form forms[] = {{.centred = true, .shift = true, .opset = 14},
                               {.centred = true, .product = true, .shift = true, .opset = 18},
                               {.centred = true, .reciprocal = true, .epsilon_first = true, .opset = 13},
                               {.division = true, .opset = 14},
                               {.reciprocal = true, .product = true, .epsilon_first = true, .opset = 18},
                               {.centred = true, .division = true, .shift = true, .opset = 9},
                               {.opset = 17}};
  float x[ROWS * N], gain[N], shift[N];
  (void)state;
  fill_all(x, gain, shift);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    static const int64_t shape[2] = {ROWS, N};
    util_onnx m;
    write_norm(&m, &forms[i], gain, shift, 2);
    rdt_graph *g = util_graph_load(&m);
    const rdt_tensor t = rdt_tensor_dense(x, RDT_F32, 2, shape);
    assert_int_equal(g->n_nodes, 1);
    assert_string_equal(g->nodes[0].op->name, forms[i].centred ? "LayerNormalization" : "RMSNormalization");
    assert_non_null(strstr(g->nodes[0].label, "ReduceMean+Add+Sqrt+"));
    rdt_tensor y = util_graph_run(g, &t, 1, 0);
    compare(&y, &forms[i], x, gain, shift);
    rdt_free(y.data);
    rdt_graph_free(g);
    util_onnx_clear(&m);
  }
}

/* Another power, a gain that widens the result, a mean that loses its dimension: not what it looks like. */
static void what_only_looks_like_it_stays(void **state) {
  const form f = {.centred = true, .shift = true, .opset = 14};
  float x[ROWS * N], gain[N], shift[N];
  util_onnx m;
  (void)state;
  fill_all(x, gain, shift);
  write_norm(&m, &f, gain, shift, 4);
  rdt_graph *g = util_graph_load(&m);
  assert_true(g->n_nodes > 5);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  write_norm(&m, &f, gain, shift, 2);
  for (size_t i = 0; i < m.graph.n_initializer; i++) /* g of 1 x 1 x N: the result has three dimensions */
    if (strcmp(m.graph.initializer[i]->name, "g") == 0) {
      Onnx__TensorProto *t = m.graph.initializer[i];
      t->dims = realloc(t->dims, 3 * sizeof *t->dims);
      t->n_dims = 3;
      t->dims[0] = t->dims[1] = 1;
      t->dims[2] = N;
    }
  Onnx__TypeProto *const type = m.graph.output[0]->type;
  m.graph.output[0]->type = NULL;
  g = util_graph_load(&m);
  assert_true(g->n_nodes > 5);
  rdt_graph_free(g);
  m.graph.output[0]->type = type;
  util_onnx_clear(&m);
}

/* ---- softmax ---- */

static void softmax_is_honest(void **state) {
  enum { LONG = 45 };
  static const rdt_fn fns[] = {RDT_FN_NONE, RDT_FN_LOGSOFTMAX};
  int n;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  (void)state;
  for (int i = 0; i < 2 * n; i++) {
    const rdt_kernel *k = rows[i / 2];
    const int64_t shape[2] = {3, LONG};
    float x[3][LONG], y[3][LONG];
    rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 2, shape);
    rdt_problem p = {.op = RDT_KOP_SOFTMAX,
                     .fn = fns[i % 2],
                     .n_in = 1,
                     .in = &in,
                     .out = rdt_tensor_dense(y, RDT_F32, 2, shape),
                     .axis = 1,
                     .acc = RDT_F32,
                     .epilogue = RDT_EPILOGUE_NONE};
    rdt_reason why;
    if (k->op != RDT_KOP_SOFTMAX || k->isa > rdt_isa_detect() || k->accept(&p, &why) != RDT_OK) continue;
    for (int at = 0; at < LONG; at++) {
      void *made;
      for (int e = 0; e < LONG; e++) {
        x[0][e] = (float)e;
        x[1][e] = e == at ? 1.0f : -INFINITY;
        x[2][e] = -3.0e38f;
      }
      x[0][at] = NAN;
      const rdt_operands o = {.in = &in, .n_in = 1, .out = p.out};
      assert_int_equal(k->create(&p, 1, &made, &why), RDT_OK);
      assert_int_equal(k->run(made, &o, &why), RDT_OK);
      k->destroy(made);
      for (int e = 0; e < LONG; e++) {
        if (!isnan(y[0][e])) fail_msg("%s: NaN at %d of %d is lost at %d", k->name, at, LONG, e);
        const float masked = p.fn == RDT_FN_NONE ? (e == at) : e == at ? 0 : -INFINITY;
        assert_true(y[1][e] == masked);
        const double even = p.fn == RDT_FN_NONE ? 1.0 / LONG : -log(LONG);
        assert_true(fabs(y[2][e] - even) <= rdt_tolerance_operator(RDT_F32) * fabs(even));
      }
    }
  }
}

/* ---- faults ---- */

static void planted_faults_are_found(void **state) {
  static const char *const ops[] = {"LayerNormalization", "Softmax", "LogSoftmax", "ReduceMean", "ArgMax"};
  (void)state;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    static const int64_t shape[2] = {ROWS, N}, vector[1] = {N};
    char path[] = "/tmp/redoubt-norms-XXXXXX";
    float x[ROWS * N], gain[N], shift[N];
    rdt_context *ctx;
    rdt_model *model;
    rdt_run_result r;
    util_onnx m;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    fill_all(x, gain, shift);
    util_onnx_init(&m, 17);
    util_onnx_input(&m, "x", RDT_F32, 2, shape);
    if (i == 0) util_onnx_initializer(&m, "g", RDT_F32, 1, vector, gain);
    util_onnx_node(&m, ops[i], "n", i == 0 ? "x g" : "x", "y", NULL);
    util_onnx_output(&m, "y", i == 4 ? RDT_S64 : RDT_F32, -1, NULL);
    util_onnx_save(&m, path);
    util_onnx_clear(&m);
    const rdt_tensor t = rdt_tensor_dense(x, RDT_F32, 2, shape);
    assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
    if (rdt_model_load(ctx, path, &model) != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
    assert_int_equal(rdt_model_run(model, &t, 1, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    for (int seed = 0; seed < 20; seed++) {
      char spec[64];
      snprintf(spec, sizeof spec, "bit:%d@nonlinear,seed=%d", seed, seed);
      assert_int_equal(rdt_model_inject(model, spec), RDT_OK);
      assert_int_equal(rdt_model_run(model, &t, 1, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_RECOMPUTED);
    }
    rdt_model_free(model);
    rdt_context_destroy(ctx);
    unlink(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_out_norms_are_found),
      cmocka_unit_test(what_only_looks_like_it_stays),
      cmocka_unit_test(softmax_is_honest),
      cmocka_unit_test(planted_faults_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
