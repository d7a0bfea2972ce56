/* Values that decide shapes, views instead of copies, memory that is used again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "check/tolerance.h"
#include "core/memory.h"
#include "net/model.h"
#include "util_onnx.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

typedef struct net {
  rdt_context *ctx;
  rdt_model *model;
  int events;
} net;

static void on_event(const rdt_event *e, void *user) {
  net *t = user;
  t->events += e->kind == RDT_EVENT_FAULT;
}

static void start(net *t, util_onnx *m, const char *scheme) {
  char path[] = "/tmp/redoubt-planned-XXXXXX";
  rdt_policy policy = RDT_POLICY_DEFAULT;
  const int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  util_onnx_save(m, path);
  util_onnx_clear(m);
  memset(t, 0, sizeof *t);
  policy.scheme = scheme;
  assert_int_equal(rdt_context_create(&t->ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(t->ctx, &policy), RDT_OK);
  rdt_context_on_event(t->ctx, on_event, t);
  if (rdt_model_load(t->ctx, path, &t->model) != RDT_OK) fail_msg("%s", rdt_context_error(t->ctx));
  unlink(path);
}

static void end(net *t) {
  rdt_model_free(t->model);
  rdt_context_destroy(t->ctx);
}

static rdt_tensor run(net *t, const rdt_tensor *inputs, size_t n, rdt_verdict verdict) {
  rdt_run_result r;
  rdt_tensor y;
  t->events = 0;
  if (rdt_model_run(t->model, inputs, n, &r) != RDT_OK) fail_msg("%s", rdt_context_error(t->ctx));
  assert_int_equal(r.verdict, verdict);
  assert_int_equal(rdt_model_output(t->model, 0, &y), RDT_OK);
  return y;
}

static const char *kernel_of(const net *t, const char *node) {
  for (size_t i = 0; i < rdt_model_node_count(t->model); i++) {
    rdt_node_info info;
    assert_int_equal(rdt_model_node_info(t->model, i, &info), RDT_OK);
    if (strcmp(info.name, node) == 0) return info.kernel;
  }
  fail_msg("no node %s", node);
  return "";
}

/* The shape comes as an input: each value plans anew, and only another value does. */
static void an_input_decides_a_shape(void **state) {
  util_onnx m;
  net t;
  float x[12];
  (void)state;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(3, 4));
  util_onnx_input(&m, "shape", RDT_S64, 1, SHAPE(-1));
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  util_onnx_node(&m, "Reshape", "r", "x shape", "z", NULL);
  util_onnx_node(&m, "Relu", "relu", "z", "y", NULL);
  start(&t, &m, "auto");
  util_fill(x, 12, 1);
  assert_int_not_equal(rdt_model_plan(t.model, NULL, 0), RDT_OK); /* not without a value */
  assert_non_null(strstr(rdt_context_error(t.ctx), "decides shapes"));
  static const int64_t shapes[3][2] = {{2, 6}, {12, 1}, {-1, 3}};
  for (int i = 0; i < 3; i++) {
    int64_t shape[2] = {shapes[i][0], shapes[i][1]};
    const rdt_tensor in[2] = {rdt_tensor_dense(x, RDT_F32, 2, SHAPE(3, 4)),
                              rdt_tensor_dense(shape, RDT_S64, 1, SHAPE(2))};
    const rdt_tensor y = run(&t, in, 2, RDT_CLEAN);
    const void *plan = t.model->steps;
    assert_int_equal(y.shape[0], i == 2 ? 4 : shapes[i][0]);
    assert_int_equal(y.shape[1], shapes[i][1]);
    for (int e = 0; e < 12; e++) assert_true(((float *)y.data)[e] == (x[e] < 0 ? 0 : x[e]));
    run(&t, in, 2, RDT_CLEAN);
    assert_ptr_equal(plan, t.model->steps);
  }
  end(&t);
}

/* y = x reshaped as Shape(s) says: the value exists before the run, and rots in between. */
static void folded(util_onnx *m) {
  util_onnx_init(m, 13);
  util_onnx_input(m, "x", RDT_F32, 2, SHAPE(-1, 4));
  util_onnx_input(m, "s", RDT_F32, 2, SHAPE(-1, -1));
  util_onnx_output(m, "y", RDT_F32, -1, NULL);
  util_onnx_output(m, "again", RDT_S64, -1, NULL);
  util_onnx_node(m, "Shape", "shape", "s", "two", NULL);
  util_onnx_node(m, "Reshape", "r", "x two", "z", NULL);
  util_onnx_node(m, "Relu", "relu", "z", "y", NULL);
  util_onnx_node(m, "Identity", "same", "two", "again", NULL);
}

static void a_folded_value_that_rots_is_made_again(void **state) {
  util_onnx m;
  net t;
  float x[12], s[12];
  (void)state;
  util_fill(x, 12, 1);
  util_fill(s, 12, 2);
  folded(&m);
  start(&t, &m, "auto");
  const rdt_tensor in[2] = {rdt_tensor_dense(x, RDT_F32, 2, SHAPE(3, 4)), rdt_tensor_dense(s, RDT_F32, 2, SHAPE(6, 2))};
  const rdt_tensor y = run(&t, in, 2, RDT_CLEAN);
  assert_int_equal(y.shape[0], 6);
  assert_string_equal(kernel_of(&t, "shape"), "folded");
  assert_string_equal(kernel_of(&t, "r"), "view");
  int64_t *two = t.model->layout.folded[rdt_graph_find(t.model->graph, "two")];
  assert_non_null(two);
  two[1] ^= 64;
  rdt_run_result r;
  rdt_tensor again;
  t.events = 0;
  if (rdt_model_run(t.model, in, 2, &r) != RDT_OK) fail_msg("%s", rdt_context_error(t.ctx));
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_int_equal(t.events, 1);
  assert_int_equal(rdt_model_output(t.model, 1, &again), RDT_OK);
  assert_int_equal(((int64_t *)again.data)[0], 6);
  assert_int_equal(((int64_t *)again.data)[1], 2);
  end(&t);
}

/* Transposes before products are read where their source lies; a pool wants its image packed. */
static void views_are_read_in_place(void **state) {
  util_onnx m;
  net t;
  float x[30], w[30];
  (void)state;
  util_fill(x, 30, 1);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 3, SHAPE(-1, 5, 3));
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  util_onnx_output(&m, "t", RDT_F32, -1, NULL);
  util_onnx_node(&m, "Transpose", "turn", "x", "t", UTIL_ATTRS(UTIL_INTS("perm", 3, 0, 2, 1)));
  util_onnx_node(&m, "MatMul", "product", "t x", "y", NULL);
  start(&t, &m, "auto");
  const rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 3, SHAPE(2, 5, 3));
  rdt_tensor y = run(&t, &in, 1, RDT_CLEAN), turned;
  assert_string_equal(kernel_of(&t, "turn"), "view");
  for (int b = 0; b < 2; b++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) {
        double sum = 0;
        for (int k = 0; k < 5; k++) sum += (double)x[b * 15 + k * 3 + i] * x[b * 15 + k * 3 + j];
        assert_true(fabs(((float *)y.data)[b * 9 + i * 3 + j] - sum) <=
                    rdt_tolerance_operator(RDT_F32) * (1 + fabs(sum)));
      }
  assert_int_equal(rdt_model_output(t.model, 1, &turned), RDT_OK); /* published dense */
  for (int e = 0; e < 30; e++) w[e] = x[e / 15 * 15 + e % 5 * 3 + e % 15 / 5];
  assert_memory_equal(turned.data, w, sizeof w);
  /* the memory behind the view is what is verified */
  assert_int_equal(rdt_model_inject(t.model, "bit:20@input,layer=product,seed=3"), RDT_OK);
  y = run(&t, &in, 1, RDT_RECOMPUTED);
  assert_int_equal(t.events, 1);
  end(&t);
}

/* A long chain: places are used again, and what rots is restored all the same. */
static void a_chain_is_restored_from_its_start(void **state) {
  util_onnx m;
  net t;
  float x[64 * 64], w[64 * 64];
  char from[8], to[8], inputs[24];
  (void)state;
  util_fill(x, 64 * 64, 1);
  util_fill(w, 64 * 64, 2);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(64, 64));
  util_onnx_initializer(&m, "w", RDT_F32, 2, SHAPE(64, 64), w);
  util_onnx_output(&m, "y9", RDT_F32, -1, NULL);
  for (int i = 0; i < 10; i++) {
    snprintf(from, sizeof from, i ? "y%d" : "x", i - 1);
    snprintf(to, sizeof to, "y%d", i);
    snprintf(inputs, sizeof inputs, "%s w", from);
    util_onnx_node(&m, "MatMul", to, inputs, to, NULL);
  }
  start(&t, &m, "auto");
  const rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 2, SHAPE(64, 64));
  rdt_tensor y = run(&t, &in, 1, RDT_CLEAN);
  float *clean = malloc(sizeof x);
  memcpy(clean, y.data, sizeof x);
  rdt_model_memory memory;
  assert_int_equal(rdt_model_memory_info(t.model, &memory), RDT_OK);
  assert_int_equal(memory.live, 2 * sizeof x);
  assert_int_equal(memory.activations, 2 * sizeof x);
  assert_int_equal(memory.outputs, sizeof x);
  assert_true(memory.constants >= sizeof w);
  for (int i = 1; i < 10; i++) {
    char spec[64];
    snprintf(spec, sizeof spec, "bit:29@input,layer=y%d,seed=%d", i, i);
    assert_int_equal(rdt_model_inject(t.model, spec), RDT_OK);
    y = run(&t, &in, 1, RDT_RECOMPUTED);
    assert_memory_equal(y.data, clean, sizeof x);
    y = run(&t, &in, 1, RDT_CLEAN);
  }
  free(clean);
  end(&t);
}

/* Two Splits of one value into other numbers of parts are not the same. */
static void splits_differ_in_their_parts(void **state) {
  util_onnx m;
  net t;
  float x[6] = {0, 1, 2, 3, 4, 5};
  rdt_tensor part;
  (void)state;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 1, SHAPE(6));
  util_onnx_output(&m, "a", RDT_F32, -1, NULL);
  util_onnx_output(&m, "c", RDT_F32, -1, NULL);
  util_onnx_node(&m, "Split", "two", "x", "a b", NULL);
  util_onnx_node(&m, "Split", "three", "x", "c d e", NULL);
  start(&t, &m, "auto");
  const rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 1, SHAPE(6));
  part = run(&t, &in, 1, RDT_CLEAN);
  assert_int_equal(part.shape[0], 3);
  assert_int_equal(rdt_model_output(t.model, 1, &part), RDT_OK);
  assert_int_equal(part.shape[0], 2);
  end(&t);
}

/* Dimensions without a name are not taken for equal: one of them may be 1. */
static void open_dimensions_may_broadcast(void **state) {
  util_onnx m;
  net t;
  float x[16], w[16 * 8], z[5 * 8];
  (void)state;
  util_fill(x, 16, 1);
  util_fill(w, 16 * 8, 2);
  util_fill(z, 5 * 8, 3);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(UTIL_UNNAMED, 16));
  util_onnx_input(&m, "z", RDT_F32, 2, SHAPE(UTIL_UNNAMED, 8));
  util_onnx_initializer(&m, "w", RDT_F32, 2, SHAPE(16, 8), w);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  util_onnx_node(&m, "MatMul", "product", "x w", "h", NULL);
  util_onnx_node(&m, "Add", "sum", "h z", "y", NULL);
  start(&t, &m, "auto");
  const rdt_tensor in[2] = {rdt_tensor_dense(x, RDT_F32, 2, SHAPE(1, 16)),
                            rdt_tensor_dense(z, RDT_F32, 2, SHAPE(5, 8))};
  const rdt_tensor y = run(&t, in, 2, RDT_CLEAN);
  assert_int_equal(y.shape[0], 5);
  end(&t);
}

/* Without protection nothing is known of the activations: a planted fault stays what it is. */
static void a_fault_without_protection_changes_what_it_hit(void **state) {
  util_onnx m;
  net t;
  float x[64 * 64], w[64 * 64], clean[64 * 64];
  char from[8], to[8], inputs[24];
  double largest = 0;
  (void)state;
  util_fill(x, 64 * 64, 1);
  util_fill(w, 64 * 64, 2);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(64, 64));
  util_onnx_initializer(&m, "w", RDT_F32, 2, SHAPE(64, 64), w);
  util_onnx_output(&m, "y4", RDT_F32, -1, NULL);
  for (int i = 0; i < 5; i++) {
    snprintf(from, sizeof from, i ? "y%d" : "x", i - 1);
    snprintf(to, sizeof to, "y%d", i);
    snprintf(inputs, sizeof inputs, "%s w", from);
    util_onnx_node(&m, "MatMul", to, inputs, to, NULL);
  }
  start(&t, &m, "none");
  const rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 2, SHAPE(64, 64));
  rdt_tensor y = run(&t, &in, 1, RDT_UNCHECKED);
  memcpy(clean, y.data, sizeof clean);
  assert_int_equal(rdt_model_inject(t.model, "bit:0@accum,layer=y4,at=3/5,seed=1"), RDT_OK);
  y = run(&t, &in, 1, RDT_UNCHECKED);
  int different = 0;
  for (int e = 0; e < 64 * 64; e++) {
    const double d = ((float *)y.data)[e] - clean[e];
    different += d != 0;
    largest = d > largest ? d : -d > largest ? -d : largest;
  }
  assert_int_equal(different, 1);
  assert_true(largest <= rdt_tolerance_operator(RDT_F32) * fabs(clean[3 * 64 + 5]));
  end(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_input_decides_a_shape),
      cmocka_unit_test(a_folded_value_that_rots_is_made_again),
      cmocka_unit_test(views_are_read_in_place),
      cmocka_unit_test(a_chain_is_restored_from_its_start),
      cmocka_unit_test(splits_differ_in_their_parts),
      cmocka_unit_test(open_dimensions_may_broadcast),
      cmocka_unit_test(a_fault_without_protection_changes_what_it_hit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
