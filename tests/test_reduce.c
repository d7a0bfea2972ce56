/* Reductions at their edges: nothing to reduce, integers that wrap, NaN and infinities, long sums, axes as attributes
 * and inputs. Shapes, strides and datatypes at large are test_kernels' matter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/tolerance.h"
#include "core/memory.h"
#include "cpu/kernel.h"
#include "util_graph.h"

/* By every row that takes it, with one to three threads: all the same bits. */
static void reduce(rdt_fn fn, const rdt_tensor *x, const rdt_tensor *y) {
  rdt_tensor in = *x;
  const rdt_problem p = {
      .op = RDT_KOP_REDUCE, .fn = fn, .n_in = 1, .in = &in, .out = *y, .epilogue = RDT_EPILOGUE_NONE};
  const size_t bytes = (size_t)rdt_tensor_count(y) * rdt_dtype_size(y->dtype);
  void *first = calloc(1, bytes + 1);
  rdt_reason why = {""};
  int n, runs = 0;
  const rdt_kernel *const *rows = rdt_cpu_kernels(&n);
  if (rdt_problem_check(&p, &why) != RDT_OK) fail_msg("%s", why.text);
  for (int i = 0; i < n; i++) {
    if (rows[i]->op != RDT_KOP_REDUCE || rows[i]->isa > rdt_isa_detect() || rows[i]->accept(&p, &why) != RDT_OK)
      continue;
    for (int threads = 1; threads <= 3; threads++) {
      const rdt_operands o = {.in = &in, .n_in = 1, .out = *y};
      void *state;
      memset(y->data, 0xff, bytes);
      assert_int_equal(rows[i]->create(&p, threads, &state, &why), RDT_OK);
      assert_int_equal(rows[i]->run(state, &o, &why), RDT_OK);
      rows[i]->destroy(state);
      if (runs++ > 0) assert_memory_equal(first, y->data, bytes);
      memcpy(first, y->data, bytes);
    }
  }
  assert_true(runs >= 3);
  free(first);
}

static double reduce_f32(rdt_fn fn, float *x, int64_t n) {
  float y;
  const int64_t shape[1] = {n}, one[1] = {1};
  const rdt_tensor tx = rdt_tensor_dense(x, RDT_F32, 1, shape), ty = rdt_tensor_dense(&y, RDT_F32, 1, one);
  reduce(fn, &tx, &ty);
  return y;
}

static void integers_wrap(void **state) {
  const int64_t shape[2] = {2, 3}, out[2] = {2, 1};
  int32_t x[6] = {INT32_MAX, 1, 1, INT32_MIN, -1, 7}, y[2];
  int64_t big[6] = {INT64_MAX, 1, 1, INT64_MIN, -1, 7}, z[2];
  uint8_t small[6] = {200, 100, 3, 1, 2, 255}, s[2];
  const rdt_tensor tx = rdt_tensor_dense(x, RDT_S32, 2, shape), ty = rdt_tensor_dense(y, RDT_S32, 2, out);
  const rdt_tensor tb = rdt_tensor_dense(big, RDT_S64, 2, shape), tz = rdt_tensor_dense(z, RDT_S64, 2, out);
  const rdt_tensor tu = rdt_tensor_dense(small, RDT_U8, 2, shape), ts = rdt_tensor_dense(s, RDT_U8, 2, out);
  (void)state;
  reduce(RDT_FN_REDUCE_SUM, &tx, &ty);
  assert_int_equal(y[0], INT32_MIN + 1);
  assert_int_equal(y[1], INT32_MIN + 6);
  reduce(RDT_FN_REDUCE_PROD, &tx, &ty);
  assert_int_equal(y[0], INT32_MAX);
  assert_int_equal(y[1], INT32_MIN);
  reduce(RDT_FN_REDUCE_MEAN, &tx, &ty); /* no wrap on the way */
  assert_int_equal(y[0], 715827883);
  assert_int_equal(y[1], -715827880);
  reduce(RDT_FN_REDUCE_SUM, &tb, &tz);
  assert_true(z[0] == INT64_MIN + 1 && z[1] == INT64_MIN + 6);
  reduce(RDT_FN_REDUCE_L1, &tb, &tz);
  assert_true(z[1] == INT64_MIN + 8);
  reduce(RDT_FN_REDUCE_MAX, &tb, &tz);
  assert_true(z[0] == INT64_MAX && z[1] == 7);
  reduce(RDT_FN_REDUCE_SUM, &tu, &ts);
  assert_int_equal(s[0], 303 - 256);
  assert_int_equal(s[1], 2);
  reduce(RDT_FN_REDUCE_MIN, &tu, &ts);
  assert_int_equal(s[0], 3);
}

static void of_nothing(void **state) {
  const int64_t shape[2] = {2, 0}, out[2] = {2, 1};
  const struct {
    rdt_fn fn;
    double value;
  } cases[] = {{RDT_FN_REDUCE_SUM, 0},
               {RDT_FN_REDUCE_PROD, 1},
               {RDT_FN_REDUCE_MAX, -INFINITY},
               {RDT_FN_REDUCE_MIN, INFINITY},
               {RDT_FN_REDUCE_L1, 0},
               {RDT_FN_REDUCE_L2, 0},
               {RDT_FN_REDUCE_LOGSUM, -INFINITY},
               {RDT_FN_REDUCE_LOGSUMEXP, -INFINITY},
               {RDT_FN_REDUCE_MEAN, NAN}};
  float y[2], none[1];
  int8_t low[2], byte[1];
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const rdt_tensor tx = rdt_tensor_dense(none, RDT_F32, 2, shape), ty = rdt_tensor_dense(y, RDT_F32, 2, out);
    reduce(cases[i].fn, &tx, &ty);
    for (int k = 0; k < 2; k++) assert_true(y[k] == cases[i].value || (isnan(cases[i].value) && isnan(y[k])));
  }
  const rdt_tensor tx = rdt_tensor_dense(byte, RDT_S8, 2, shape), ty = rdt_tensor_dense(low, RDT_S8, 2, out);
  reduce(RDT_FN_REDUCE_MAX, &tx, &ty);
  assert_int_equal(low[1], INT8_MIN);
  const int64_t empty[2] = {0, 3}, left[2] = {0, 1};
  const rdt_tensor e = rdt_tensor_dense(none, RDT_F32, 2, empty), l = rdt_tensor_dense(y, RDT_F32, 2, left);
  reduce(RDT_FN_REDUCE_SUM, &e, &l);
}

static void numbers_that_are_none(void **state) {
  enum { N = 37 };
  float x[N];
  (void)state;
  for (int at = 0; at < N; at++) {
    for (int i = 0; i < N; i++) x[i] = (float)i - 5;
    x[at] = NAN;
    for (int f = RDT_FN_REDUCE_SUM; f <= RDT_FN_REDUCE_INVSTD; f++) assert_true(isnan(reduce_f32((rdt_fn)f, x, N)));
    x[at] = INFINITY;
    assert_true(reduce_f32(RDT_FN_REDUCE_LOGSUMEXP, x, N) == INFINITY);
    assert_true(reduce_f32(RDT_FN_REDUCE_MAX, x, N) == INFINITY);
    x[at] = -INFINITY;
    assert_true(isfinite(reduce_f32(RDT_FN_REDUCE_LOGSUMEXP, x, N)));
    assert_true(reduce_f32(RDT_FN_REDUCE_MIN, x, N) == -INFINITY);
  }
  for (int i = 0; i < N; i++) x[i] = 1000;
  const double sum = 1000 + log(N);
  assert_true(fabs(reduce_f32(RDT_FN_REDUCE_LOGSUMEXP, x, N) - sum) <= rdt_tolerance_operator(RDT_F32) * sum);
}

/* In float, this sum would stop at 2^24. */
static void long_sums_do_not_stall(void **state) {
  enum { N = 20000000 };
  float *x = malloc(sizeof *x * N);
  (void)state;
  for (int i = 0; i < N; i++) x[i] = 1;
  assert_true(reduce_f32(RDT_FN_REDUCE_SUM, x, N) == N);
  assert_true(reduce_f32(RDT_FN_REDUCE_MEAN, x, N) == 1);
  free(x);
}

static int64_t position(rdt_fn fn, float *x, bool last) {
  const int64_t shape[1] = {6}, one[1] = {1};
  int64_t y;
  rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 1, shape);
  const rdt_problem p = {.op = RDT_KOP_REDUCE,
                         .fn = fn,
                         .n_in = 1,
                         .in = &in,
                         .out = rdt_tensor_dense(&y, RDT_S64, 1, one),
                         .param = {last},
                         .epilogue = RDT_EPILOGUE_NONE};
  const rdt_operands o = {.in = &in, .n_in = 1, .out = p.out};
  void *made;
  assert_int_equal(rdt_cpu_reference(&p)->create(&p, 1, &made, NULL), RDT_OK);
  assert_int_equal(rdt_cpu_reference(&p)->run(made, &o, NULL), RDT_OK);
  rdt_cpu_reference(&p)->destroy(made);
  return y;
}

/* Of equals the first or the last, NaN beyond everything. */
static void positions(void **state) {
  float x[6] = {1, 7, 7, -3, -3, 0};
  (void)state;
  assert_int_equal(position(RDT_FN_ARGMAX, x, false), 1);
  assert_int_equal(position(RDT_FN_ARGMAX, x, true), 2);
  assert_int_equal(position(RDT_FN_ARGMIN, x, false), 3);
  assert_int_equal(position(RDT_FN_ARGMIN, x, true), 4);
  x[0] = x[5] = NAN;
  assert_int_equal(position(RDT_FN_ARGMAX, x, false), 0);
  assert_int_equal(position(RDT_FN_ARGMAX, x, true), 5);
  assert_int_equal(position(RDT_FN_ARGMIN, x, false), 0);
  x[0] = 1;
  assert_int_equal(position(RDT_FN_ARGMIN, x, false), 5);
}

/* ---- axes ---- */

static void check_axes(int64_t opset, const util_attr *attrs, const int64_t *list, int n_list, int rank,
                       const int64_t *shape, double first) {
  static const int64_t in[3] = {2, 3, 4};
  const int64_t length[1] = {n_list};
  float x[24];
  util_onnx m;
  for (int i = 0; i < 24; i++) x[i] = (float)i;
  util_onnx_init(&m, opset);
  util_onnx_input(&m, "x", RDT_F32, 3, in);
  if (list) util_onnx_initializer(&m, "axes", RDT_S64, 1, length, list);
  util_onnx_node(&m, "ReduceSum", "r", list ? "x axes" : "x", "y", attrs);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  const rdt_tensor t = rdt_tensor_dense(x, RDT_F32, 3, in);
  rdt_tensor y = util_graph_run(g, &t, 1, 0);
  assert_int_equal(y.rank, rank);
  for (int d = 0; d < rank; d++) assert_int_equal(y.shape[d], shape[d]);
  assert_true(((const float *)y.data)[0] == first);
  rdt_free(y.data);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void axes_and_their_absence(void **state) {
  static const int64_t all[3] = {1, 1, 1}, middle[2] = {2, 4}, ends[3] = {1, 3, 1}, same[3] = {2, 3, 4}, one[1] = {1};
  static const int64_t both[2] = {0, -1};
  (void)state;
  check_axes(11, NULL, NULL, 0, 3, all, 276);
  check_axes(11, UTIL_ATTRS(UTIL_INTS("axes", 1, 1), UTIL_INT("keepdims", 0)), NULL, 0, 2, middle, 12);
  check_axes(13, NULL, both, 2, 3, ends, 60);
  check_axes(13, UTIL_ATTRS(UTIL_INT("keepdims", 0)), one, 1, 2, middle, 12);
  check_axes(13, NULL, one, 0, 3, all, 276);
  check_axes(13, UTIL_ATTRS(UTIL_INT("noop_with_empty_axes", 1)), one, 0, 3, same, 0);
}

static void refuse(const char *op, const util_attr *attrs, rdt_status status, const char *words) {
  static const int64_t in[3] = {2, 3, 4};
  float x[24] = {0};
  rdt_reason why = {""};
  util_onnx m;
  util_onnx_init(&m, 11);
  util_onnx_input(&m, "x", RDT_F32, 3, in);
  util_onnx_node(&m, op, "r", "x", "y", attrs);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  rdt_graph *g = util_graph_load(&m);
  const rdt_tensor t = rdt_tensor_dense(x, RDT_F32, 3, in);
  assert_int_equal(util_graph_try(g, &t, 1, &why), status);
  if (!strstr(why.text, "'r'") || !strstr(why.text, words)) fail_msg("no '%s' in: %s", words, why.text);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

static void wrong_axes_are_refused(void **state) {
  (void)state;
  refuse("ReduceMax", UTIL_ATTRS(UTIL_INTS("axes", 1, 3)), RDT_ERR_SHAPE, "dimension 3 of a tensor of rank 3");
  refuse("ReduceMax", UTIL_ATTRS(UTIL_INTS("axes", 2, 1, -2)), RDT_ERR_SHAPE, "dimension 1 twice");
  refuse("ReduceMax", UTIL_ATTRS(UTIL_INT("axes", 1)), RDT_ERR_FORMAT, "list");
  refuse("ArgMax", UTIL_ATTRS(UTIL_INT("axis", -4)), RDT_ERR_SHAPE, "axis -4");
  refuse("LpNormalization", UTIL_ATTRS(UTIL_INT("p", 3)), RDT_ERR_UNSUPPORTED, "p = 3");
  refuse("MeanVarianceNormalization", NULL, RDT_ERR_SHAPE, "rank 3");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers_wrap),          cmocka_unit_test(of_nothing), cmocka_unit_test(numbers_that_are_none),
      cmocka_unit_test(long_sums_do_not_stall), cmocka_unit_test(positions),  cmocka_unit_test(axes_and_their_absence),
      cmocka_unit_test(wrong_axes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
