/* Reports by the library: what was collected stands in the document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <redoubt/redoubt.h>

#include "core/memory.h"
#include "net/model.h"
#include "net/tensor_file.h"
#include "report/json.h"

#define DIGITS TEST_DATA "/examples/digits/"

typedef struct world {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor input;
  rdt_report *report;
} world;

static void enter(world *w, rdt_on_fault on_fault) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.on_fault = on_fault;
  assert_int_equal(rdt_context_create(&w->ctx, 1), RDT_OK);
  assert_int_equal(rdt_context_set_policy(w->ctx, &policy), RDT_OK);
  assert_int_equal(rdt_model_load(w->ctx, DIGITS "digits.onnx", &w->model), RDT_OK);
  assert_int_equal(rdt_tensor_file_read(DIGITS "some.npy", &w->input, NULL), RDT_OK);
  assert_int_equal(rdt_report_create(w->model, &w->report), RDT_OK);
  rdt_context_on_event(w->ctx, rdt_report_event, w->report);
}

static void leave(world *w) {
  rdt_report_destroy(w->report);
  rdt_model_free(w->model);
  rdt_context_destroy(w->ctx);
  rdt_free(w->input.data);
}

static void run(world *w, const char *fault, rdt_status wanted) {
  rdt_run_result result = {0};
  assert_int_equal(rdt_model_inject(w->model, fault), RDT_OK);
  const rdt_status status = rdt_model_run(w->model, &w->input, 1, &result);
  assert_int_equal(status, wanted);
  rdt_report_run(w->report, status, &result);
}

static cJSON *document(const world *w) {
  char *text;
  assert_int_equal(rdt_report_text(w->report, RDT_REPORT_JSON, &text), RDT_OK);
  cJSON *doc = cJSON_Parse(text);
  assert_non_null(doc);
  free(text);
  return doc;
}

static const cJSON *named(const cJSON *list, const char *name) {
  const cJSON *one;
  cJSON_ArrayForEach(one, list) {
    if (strcmp(rdt_json_string(one, "name"), name) == 0) return one;
  }
  fail_msg("there is no %s", name);
  return NULL;
}

static void test_before_any_run(void **state) {
  world w = {0};
  (void)state;
  enter(&w, RDT_ON_FAULT_RECOMPUTE);
  cJSON *doc = document(&w);
  assert_string_equal(rdt_json_string(doc, "verdict"), "UNCHECKED"); /* nothing ran: nothing is clean */
  assert_int_equal(cJSON_GetArraySize(rdt_json_list(doc, "layers")), 0);
  cJSON_Delete(doc);
  leave(&w);
}

static void test_clean_runs(void **state) {
  world w = {0};
  (void)state;
  enter(&w, RDT_ON_FAULT_RECOMPUTE);
  run(&w, NULL, RDT_OK);
  run(&w, NULL, RDT_OK);
  cJSON *doc = document(&w);
  assert_string_equal(rdt_json_string(doc, "schema"), "redoubt.run/1");
  assert_string_equal(rdt_json_string(doc, "verdict"), "CLEAN");
  assert_true(rdt_json_real(doc, "runs") == 2);
  const cJSON *layers = rdt_json_list(doc, "layers"), *layer;
  assert_int_equal(cJSON_GetArraySize(layers), (int)rdt_model_node_count(w.model));
  double checks = 0.0;
  cJSON_ArrayForEach(layer, layers) {
    const bool computes = strcmp(rdt_json_string(layer, "scheme"), "sum") != 0;
    checks += rdt_json_real(layer, "checks");
    assert_true(!computes || rdt_json_real(layer, "typical") > 0.0);
    assert_true(rdt_json_real(layer, "floor") == 0.0 ||
                rdt_json_real(layer, "floor") < 0.01 * rdt_json_real(layer, "typical"));
    if (computes) assert_non_null(named(rdt_json_list(doc, "schemes"), rdt_json_string(layer, "scheme")));
  }
  assert_true(checks > 0.0 && checks <= rdt_json_real(doc, "checks"));
  assert_true(rdt_json_true(named(layers, "conv2"), "weights"));
  assert_false(rdt_json_true(named(layers, "pool1"), "weights"));
  assert_true(rdt_json_true(named(rdt_json_list(doc, "schemes"), "fc"), "covers_weights"));
  cJSON_Delete(doc);
  leave(&w);
}

static void test_events(void **state) {
  world w = {0};
  (void)state;
  enter(&w, RDT_ON_FAULT_RECOMPUTE);
  run(&w, NULL, RDT_OK);
  run(&w, "bit:30@weight,layer=conv3,seed=2", RDT_OK);
  cJSON *doc = document(&w);
  assert_string_equal(rdt_json_string(doc, "verdict"), "RECOMPUTED");
  const cJSON *event = rdt_json_list(doc, "events")->child;
  assert_non_null(event);
  assert_true(rdt_json_real(event, "run") == 2);
  assert_string_equal(rdt_json_string(event, "layer"), "conv3");
  assert_string_equal(rdt_json_string(event, "diagnosis"), "memory");
  assert_int_equal(strlen(rdt_json_string(event, "time")), strlen("2026-01-31T12:00:00.250Z"));
  assert_string_equal(rdt_json_string(named(rdt_json_list(doc, "layers"), "conv3"), "verdict"), "RECOMPUTED");
  cJSON_Delete(doc);
  leave(&w);
}

static void test_unrepaired(void **state) {
  world w = {0};
  (void)state;
  enter(&w, RDT_ON_FAULT_REPORT);
  run(&w, "bit:30@accum,layer=conv4,seed=2", RDT_ERR_FAULT);
  cJSON *doc = document(&w);
  assert_string_equal(rdt_json_string(doc, "verdict"), "DETECTED");
  assert_string_equal(rdt_json_string(doc, "status"), "RDT_ERR_FAULT");
  /* a wrong result is no measure of what is usual */
  assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(named(rdt_json_list(doc, "layers"), "conv4"), "typical")));
  cJSON_Delete(doc);
  leave(&w);
}

/* More events than are kept: the rest is counted. */
static void test_many_events(void **state) {
  world w = {0};
  const rdt_event event = {.kind = RDT_EVENT_SUSPECT, .node = "a\x01", .text = "text", .element = -1};
  (void)state;
  enter(&w, RDT_ON_FAULT_RECOMPUTE);
  for (int i = 0; i < 1234; i++) rdt_report_event(&event, w.report);
  run(&w, NULL, RDT_OK);
  cJSON *doc = document(&w);
  assert_int_equal(cJSON_GetArraySize(rdt_json_list(doc, "events")), 1000);
  assert_true(rdt_json_real(doc, "events_left_out") == 234);
  assert_string_equal(rdt_json_string(rdt_json_list(doc, "events")->child, "layer"), "a?");
  cJSON_Delete(doc);
  leave(&w);
}

static void test_files(void **state) {
  world w = {0};
  char path[] = "/tmp/redoubt-report-XXXXXX";
  (void)state;
  enter(&w, RDT_ON_FAULT_RECOMPUTE);
  run(&w, NULL, RDT_OK);
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(rdt_report_write(w.report, RDT_REPORT_JSON, path), RDT_OK);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_int_equal(fgetc(f), '{');
  fclose(f);
  assert_int_equal(rdt_report_write(w.report, RDT_REPORT_HTML, path), RDT_OK);
  f = fopen(path, "r");
  assert_non_null(f);
  assert_int_equal(fgetc(f), '<');
  fclose(f);
  unlink(path);
  assert_int_equal(rdt_report_write(w.report, RDT_REPORT_JSON, "/nowhere/r.json"), RDT_ERR_IO);
  assert_non_null(strstr(rdt_context_error(w.ctx), "/nowhere/r.json"));
  assert_int_equal(rdt_report_write(w.report, (rdt_report_format)99, path), RDT_ERR_ARG);
  leave(&w);
}

static void test_typical(void **state) {
  float x[5000], y[6] = {3, -3, 3, -3, 3, -3};
  (void)state;
  for (int i = 0; i < 5000; i++) x[i] = i % 50 ? 0.0f : 10.0f; /* every 50th: no stride of the sample may favour them */
  const rdt_tensor all = rdt_tensor_dense(x, RDT_F32, 2, (const int64_t[]){100, 50});
  assert_true(rdt_tensor_typical(&all) > 1.0 && rdt_tensor_typical(&all) < 2.0); /* sqrt(2) */
  rdt_tensor turned = rdt_tensor_matrix(y, RDT_F32, 2, 3, 3, 1);
  assert_true(rdt_tensor_typical(&turned) == 3.0);
  turned.shape[0] = 0;
  assert_true(rdt_tensor_typical(&turned) == 0.0);
  y[1] = 1.0f / 0.0f;
  const rdt_tensor spoilt = rdt_tensor_dense(y, RDT_F32, 1, (const int64_t[]){6});
  assert_true(rdt_tensor_typical(&spoilt) == 0.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_before_any_run), cmocka_unit_test(test_clean_runs),  cmocka_unit_test(test_events),
      cmocka_unit_test(test_unrepaired),     cmocka_unit_test(test_many_events), cmocka_unit_test(test_files),
      cmocka_unit_test(test_typical),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
