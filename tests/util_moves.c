#include "util_moves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "core/memory.h"

static void *kept[4096];
static int n_kept;

static rdt_tensor keep(rdt_tensor t) {
  assert_true(n_kept < (int)(sizeof kept / sizeof kept[0]));
  kept[n_kept++] = t.data;
  return t;
}

void util_moves_free(void) {
  while (n_kept > 0) rdt_free(kept[--n_kept]);
}

rdt_tensor util_count(rdt_dtype dtype, int rank, const int64_t *shape) {
  rdt_tensor t = rdt_tensor_dense(NULL, dtype, rank, shape);
  const int64_t n = rdt_tensor_count(&t);
  t.data = rdt_alloc((size_t)n, rdt_dtype_size(dtype));
  for (int64_t i = 0; i < n; i++) rdt_store(t.data, dtype, i, (double)(dtype == RDT_BOOL ? i % 2 : i + 1));
  return keep(t);
}

rdt_tensor util_of(rdt_dtype dtype, int rank, const int64_t *shape, const double *values) {
  rdt_tensor t = util_count(dtype, rank, shape);
  for (int64_t i = 0; i < rdt_tensor_count(&t); i++) rdt_store(t.data, dtype, i, values[i]);
  return t;
}

rdt_tensor util_list(int n, const int64_t *values) {
  const int64_t shape[1] = {n};
  rdt_tensor t = util_count(RDT_S64, 1, shape);
  if (n) memcpy(t.data, values, (size_t)n * sizeof *values);
  return t;
}

double util_at(const rdt_tensor *t, const int64_t *index) {
  int64_t o = 0;
  for (int d = 0; d < t->rank; d++) {
    assert_true(index[d] >= 0 && index[d] < t->shape[d]);
    o += index[d] * t->stride[d];
  }
  return rdt_load(t->data, t->dtype, o);
}

void util_expect_shape(const rdt_tensor *t, rdt_dtype dtype, int rank, const int64_t *shape) {
  assert_int_equal(t->dtype, dtype);
  assert_int_equal(t->rank, rank);
  for (int d = 0; d < rank; d++) assert_int_equal(t->shape[d], shape[d]);
}

void util_expect_values(const rdt_tensor *t, const double *values) {
  for (int64_t i = 0; i < rdt_tensor_count(t); i++)
    if (rdt_load(t->data, t->dtype, i) != values[i])
      fail_msg("element %lld is %g, not %g", (long long)i, rdt_load(t->data, t->dtype, i), values[i]);
}

/* The node's operands are inputs of the graph; a tensor without data is absent. */
static int make(util_onnx *m, int64_t opset, const char *op, const rdt_tensor *in, int n_in, int outputs, int which,
                const util_attr *attrs, rdt_tensor *given) {
  char names[128] = "", results[256] = "", name[16];
  int n = 0;
  util_onnx_init(m, opset);
  for (int i = 0; i < n_in; i++) {
    snprintf(name, sizeof name, in[i].data ? " i%d" : " -", i);
    strcat(names, name);
    if (!in[i].data) continue;
    util_onnx_input(m, name + 1, in[i].dtype, in[i].rank, in[i].shape);
    given[n++] = in[i];
  }
  for (int i = 0; i < outputs; i++) {
    snprintf(name, sizeof name, " y%d", i);
    strcat(results, name);
  }
  util_onnx_node(m, op, "node", names, results, attrs);
  snprintf(name, sizeof name, "y%d", which);
  util_onnx_output(m, name, RDT_F32, -1, NULL);
  return n;
}

rdt_tensor util_run(int64_t opset, const char *op, const rdt_tensor *in, int n_in, int outputs, int which,
                    const util_attr *attrs) {
  util_onnx m;
  rdt_tensor given[8];
  const int n = make(&m, opset, op, in, n_in, outputs, which, attrs, given);
  rdt_graph *g = util_graph_load(&m);
  const rdt_tensor y = util_graph_run(g, given, n, 0);
  rdt_graph_free(g);
  util_onnx_clear(&m);
  return keep(y);
}

void util_refuse(int64_t opset, const char *op, const rdt_tensor *in, int n_in, int outputs, const util_attr *attrs,
                 rdt_status expected, const char *words) {
  util_onnx m;
  rdt_tensor given[8];
  rdt_reason why = {""};
  const int n = make(&m, opset, op, in, n_in, outputs, outputs - 1, attrs, given);
  rdt_graph *g = util_graph_load(&m);
  const rdt_status s = util_graph_try(g, given, n, &why);
  if (s != expected || !strstr(why.text, words) || !strstr(why.text, "test.onnx: node 'node"))
    fail_msg("%s: '%s', not %s: '%s'", rdt_status_name(s), why.text, rdt_status_name(expected), words);
  rdt_graph_free(g);
  util_onnx_clear(&m);
}

void util_refuse_run(int64_t opset, const char *op, const rdt_tensor *in, int n_in, const util_attr *attrs,
                     rdt_status expected, const char *words) {
  static const char *const schemes[] = {"auto", "none"};
  char path[] = "/tmp/redoubt-moves-XXXXXX";
  util_onnx m;
  rdt_tensor given[8], y;
  const int n = make(&m, opset, op, in, n_in, 1, 0, attrs, given);
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  for (int i = 0; i < 4; i++) {
    rdt_context *ctx;
    rdt_model *model;
    rdt_policy policy = RDT_POLICY_DEFAULT;
    policy.scheme = schemes[i / 2];
    assert_int_equal(rdt_context_create(&ctx, 1 + i % 2), RDT_OK);
    assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
    assert_int_equal(rdt_model_load(ctx, path, &model), RDT_OK);
    const rdt_status s = rdt_model_run(model, given, (size_t)n, NULL);
    if (s != expected || !strstr(rdt_context_error(ctx), words) ||
        (s == RDT_ERR_ARG && !strstr(rdt_context_error(ctx), "node")))
      fail_msg("%s: '%s', not %s: '%s'", rdt_status_name(s), rdt_context_error(ctx), rdt_status_name(expected), words);
    assert_int_not_equal(rdt_model_output(model, 0, &y), RDT_OK);
    rdt_model_free(model);
    rdt_context_destroy(ctx);
  }
  unlink(path);
}
