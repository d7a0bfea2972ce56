/* Networks whose constants rot in memory at awkward times and in awkward roles: never CLEAN with another result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "core/memory.h"
#include "net/model.h"
#include "util_onnx.h"

enum { N = 24, ROWS = 40 };

typedef struct net {
  rdt_context *ctx;
  rdt_model *model;
  float x[ROWS * N], clean[ROWS * N];
  int events;
} net;

static void on_event(const rdt_event *e, void *user) {
  net *t = user;
  t->events += e->kind == RDT_EVENT_FAULT;
}

static rdt_status run(net *t, int64_t rows, rdt_run_result *r) {
  const int64_t shape[2] = {rows, N};
  const rdt_tensor x = rdt_tensor_dense(t->x, RDT_F32, 2, shape);
  t->events = 0;
  return rdt_model_run(t->model, &x, 1, r);
}

static const float *output(net *t) {
  rdt_tensor y;
  assert_int_equal(rdt_model_output(t->model, 0, &y), RDT_OK);
  return y.data;
}

/* y = the node's result, of x (open rows) and the constant W. */
static void start(net *t, const char *scheme, void (*nodes)(util_onnx *)) {
  char path[] = "/tmp/redoubt-rest-XXXXXX";
  const int64_t w_shape[2] = {N, N}, x_shape[2] = {-1, N};
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_run_result r;
  float w[N * N];
  util_onnx m;
  memset(t, 0, sizeof *t);
  util_fill(w, N * N, 1);
  util_fill(t->x, ROWS * N, 2);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, x_shape);
  util_onnx_initializer(&m, "W", RDT_F32, 2, w_shape, w);
  nodes(&m);
  util_onnx_output(&m, "y", RDT_F32, 2, x_shape);
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  policy.scheme = scheme;
  assert_int_equal(rdt_context_create(&t->ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(t->ctx, &policy), RDT_OK);
  rdt_context_on_event(t->ctx, on_event, t);
  if (rdt_model_load(t->ctx, path, &t->model) != RDT_OK) fail_msg("%s", rdt_context_error(t->ctx));
  if (run(t, N, &r) != RDT_OK) fail_msg("%s", rdt_context_error(t->ctx));
  assert_int_equal(r.verdict, RDT_CLEAN);
  memcpy(t->clean, output(t), sizeof(float) * N * N);
}

static void end(net *t) {
  unlink(t->model->graph->path);
  rdt_model_free(t->model);
  rdt_context_destroy(t->ctx);
}

static void rot(net *t) {
  rdt_graph *g = t->model->graph;
  for (int v = 0; v < g->n_values; v++)
    if (strcmp(g->values[v].name, "W") == 0) ((float *)g->values[v].data)[3 * N + 5] += 2.0f;
}

static void one_product(util_onnx *m) {
  util_onnx_node(m, "MatMul", "a", "x W", "y", NULL);
}

static void shared(util_onnx *m) {
  util_onnx_node(m, "MatMul", "a", "x W", "h", NULL);
  util_onnx_node(m, "Relu", "r", "h", "g", NULL);
  util_onnx_node(m, "MatMul", "b", "g W", "y", NULL);
}

static void left_side(util_onnx *m) {
  util_onnx_node(m, "MatMul", "a", "W x", "y", NULL);
}

static void as_residual(util_onnx *m) {
  util_onnx_node(m, "Gemm", "a", "x W W", "y", NULL);
}

/* A shape is a constant too, and read while planning. */
static void reshaped(util_onnx *m) {
  static const int64_t pair[1] = {2}, shape[2] = {-1, N};
  util_onnx_initializer(m, "shape", RDT_S64, 1, pair, shape);
  util_onnx_node(m, "MatMul", "a", "x W", "h", NULL);
  util_onnx_node(m, "Reshape", "r", "h shape", "y", NULL);
}

static void rot_shape(net *t) {
  rdt_graph *g = t->model->graph;
  for (int v = 0; v < g->n_values; v++)
    if (strcmp(g->values[v].name, "shape") == 0) ((int64_t *)g->values[v].data)[1] = N / 2;
}

static void a_rotten_shape_is_restored_first(void **state) {
  net t;
  rdt_run_result r;
  rdt_tensor y;
  (void)state;
  start(&t, "auto", reshaped);
  rot_shape(&t);
  assert_int_equal(run(&t, N + 1, &r), RDT_OK);
  assert_int_equal(t.events, 1);
  assert_int_equal(rdt_model_output(t.model, 0, &y), RDT_OK);
  assert_int_equal(y.shape[0], N + 1);
  end(&t);
}

/* Checksums made of a rotten weight agree with it. */
static void plans_are_made_of_good_weights(void **state) {
  void (*const nets[])(util_onnx *) = {one_product, shared};
  static const char *const schemes[] = {"auto", "row", "global", "dup"};
  (void)state;
  for (size_t i = 0; i < 8; i++) {
    net t;
    rdt_run_result r;
    start(&t, schemes[i / 2], nets[i % 2]);
    rot(&t);
    assert_int_equal(run(&t, N + 1, &r), RDT_OK); /* plans again */
    assert_int_equal(t.events, 1);
    assert_memory_equal(output(&t), t.clean, sizeof(float) * N * N);
    for (int again = 0; again < 3; again++) {
      assert_int_equal(run(&t, N, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_CLEAN);
      assert_memory_equal(output(&t), t.clean, sizeof(float) * N * N);
    }
    util_onnx_spoil(t.model->graph->path);
    rot(&t);
    assert_int_equal(run(&t, N + 1, &r), RDT_ERR_FAULT);
    assert_true(strlen(rdt_context_error(t.ctx)) > 20);
    end(&t);
  }
}

/* The row check covers the weight only as what A is multiplied with. */
static void other_roles_of_a_weight_are_checked(void **state) {
  void (*const nets[])(util_onnx *) = {left_side, as_residual};
  static const char *const schemes[] = {"auto", "row", "rowcol", "global", "tile"};
  (void)state;
  for (size_t i = 0; i < 10; i++) {
    net t;
    rdt_run_result r;
    start(&t, schemes[i / 2], nets[i % 2]);
    rot(&t);
    assert_int_equal(run(&t, N, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_memory_equal(output(&t), t.clean, sizeof(float) * N * N);
    end(&t);
  }
}

/* A table of which each run reads some rows: those are verified, all of it on schedule. */
static void rows_that_are_read_are_verified(void **state) {
  enum { TABLE = 2000, PICKED = 3 };
  char path[] = "/tmp/redoubt-rest-XXXXXX";
  const int64_t t_shape[2] = {TABLE, N}, i_shape[1] = {PICKED}, y_shape[2] = {PICKED, N};
  int64_t ids[PICKED] = {7, -1, 1234};
  float *table = malloc(sizeof(float) * TABLE * N);
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_run_result r;
  util_onnx m;
  net t = {0};
  (void)state;
  util_fill(table, TABLE * N, 1);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "ids", RDT_S64, 1, i_shape);
  util_onnx_initializer(&m, "W", RDT_F32, 2, t_shape, table);
  util_onnx_node(&m, "Gather", "rows", "W ids", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, y_shape);
  close(mkstemp(path));
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  policy.scrub_every = 1000;
  assert_int_equal(rdt_context_create(&t.ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(t.ctx, &policy), RDT_OK);
  rdt_context_on_event(t.ctx, on_event, &t);
  if (rdt_model_load(t.ctx, path, &t.model) != RDT_OK) fail_msg("%s", rdt_context_error(t.ctx));
  const rdt_tensor in = rdt_tensor_dense(ids, RDT_S64, 1, i_shape);
  assert_int_equal(rdt_model_run(t.model, &in, 1, &r), RDT_OK);
  float *const held = t.model->graph->values[rdt_graph_find(t.model->graph, "W")].data;
  for (int i = 0; i < PICKED; i++) {
    const int64_t row = ids[i] < 0 ? ids[i] + TABLE : ids[i];
    held[row * N + 5] += 1.0f;
    t.events = 0;
    assert_int_equal(rdt_model_run(t.model, &in, 1, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_int_equal(t.events, 1);
    assert_memory_equal(output(&t) + (size_t)i * N, table + row * N, sizeof(float) * N);
  }
  held[8 * N] += 1.0f; /* nobody reads it yet */
  assert_int_equal(rdt_model_run(t.model, &in, 1, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_CLEAN);
  ids[0] = 8;
  assert_int_equal(rdt_model_run(t.model, &in, 1, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_memory_equal(output(&t), table + 8 * N, sizeof(float) * N);
  free(table);
  end(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans_are_made_of_good_weights),
      cmocka_unit_test(a_rotten_shape_is_restored_first),
      cmocka_unit_test(other_roles_of_a_weight_are_checked),
      cmocka_unit_test(rows_that_are_read_are_verified),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
