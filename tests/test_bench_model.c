/* `redoubt bench model`: tables, documents, timeline; the data of inputs that nobody gave; shapes by the command line.
 */
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "bench_model.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "util_cli.h"
#include "util_onnx.h"

#define DIGITS TEST_DATA "/examples/digits"
#define BENCH "bench model " DIGITS "/digits.onnx --trials 2 "

static void test_text(void **state) {
  (void)state;
  util_cli_expect(util_cli(BENCH "--threads 1,2 --top 3 --input-shape 8x1x8x8"), 0, "image f32 8x1x8x8 (random)");
  util_cli_expect(0, 0, "2 threads, 3 of 11 layers:");
  util_cli_expect(0, 0, "other layers");
  util_cli_expect(0, 0, "UNCHECKED");
  util_cli_expect(0, 0, "CLEAN");
  util_cli_expect(util_cli(BENCH "--threads 1 -i " DIGITS "/some.npy --scheme dup --format md"), 0,
                  "image f32 8x1x8x8;");
}

static double number(const cJSON *o, const char *name) {
  const cJSON *n = cJSON_GetObjectItem(o, name);
  assert_true(cJSON_IsNumber(n));
  return n->valuedouble;
}

static void test_json(void **state) {
  (void)state;
  util_cli_expect(util_cli(BENCH "--threads 1 --report r.json --json"), 0, "redoubt.bench-model/1");
  cJSON *doc = cJSON_Parse(util_cli_text);
  assert_non_null(doc);
  const cJSON *run = cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "runs"), 0), *layer;
  const cJSON *none = cJSON_GetObjectItem(run, "unprotected"), *with = cJSON_GetObjectItem(run, "protected");
  assert_true(number(none, "checks") == 0.0 && number(with, "checks") > 0.0);
  assert_true(number(none, "memory_peak") > 1e4 && number(with, "memory_peak") >= number(none, "memory_peak"));
  assert_true(number(with, "runs") >= 2.0); /* warming up does not count, whatever it takes */
  double sum = 0.0;
  cJSON_ArrayForEach(layer, cJSON_GetObjectItem(run, "layers")) sum += number(layer, "seconds");
  assert_true(sum > 0.0 && sum < 2.0 * number(with, "seconds"));
  cJSON_Delete(doc);
  assert_int_equal(access("r.json", F_OK), 0);
}

static void test_profile(void **state) {
  (void)state;
  util_cli_expect(util_cli(BENCH "--threads 1 --profile p.json"), 0, NULL);
  util_cli_slurp("p.json");
  cJSON *doc = cJSON_Parse(util_cli_text), *e;
  assert_non_null(doc);
  int boxes[3] = {0, 0, 0};
  double end[3] = {0.0, 0.0, 0.0}, checks[3] = {0.0, 0.0, 0.0};
  cJSON_ArrayForEach(e, cJSON_GetObjectItem(doc, "traceEvents")) {
    const int track = (int)number(e, "tid");
    assert_true(track == 1 || track == 2);
    if (strcmp(cJSON_GetObjectItem(e, "ph")->valuestring, "X") != 0) continue;
    const double begin = number(e, "ts");
    assert_true(begin >= end[track] - 1e-3); /* one after the other */
    end[track] = begin + number(e, "dur");
    const cJSON *args = cJSON_GetObjectItem(e, "args");
    assert_non_null(cJSON_GetObjectItem(args, "kernel"));
    assert_string_equal(cJSON_GetObjectItem(args, "verdict")->valuestring, track == 1 ? "UNCHECKED" : "CLEAN");
    checks[track] += number(args, "checks");
    boxes[track]++;
  }
  assert_true(boxes[1] == 11 && boxes[2] == 11 && checks[1] == 0.0 && checks[2] > 0.0);
  cJSON_Delete(doc);
  util_cli_expect(util_cli(BENCH "--threads 1 --profile no/such/p.json"), 2, "p.json");
}

static void test_usage(void **state) {
  (void)state;
  util_cli_expect(util_cli("bench model --help"), 0, "--profile");
  util_cli_expect(util_cli("bench model"), 2, "MODEL.onnx is missing");
  util_cli_expect(util_cli(BENCH "--threads 0"), 2, "--threads takes up to");
  util_cli_expect(util_cli(BENCH "--threads 1,x"), 2, "--threads takes up to");
  util_cli_expect(util_cli(BENCH "--scheme magic"), 2, "magic");
  util_cli_expect(util_cli("bench model nothing.onnx"), 2, "nothing.onnx");
}

static void test_shapes(void **state) {
  (void)state;
  static const char *const wrong[] = {
      "", "x", "1x", "1xx2", "-1x1x8x8", "1x1x8x8 ", "1,1,8,8", "99999999999", "1x1x1x1x1x1x1x1x1"};
  const char *plan = "plan " DIGITS "/digits.onnx";
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    util_cli_expect(util_cli("%s --input-shape '%s'", plan, wrong[i]), 2, "--input-shape takes");
  util_cli_expect(util_cli("%s --input-shape image=5x1x8x8", plan), 0, "5x16x8x8");
  util_cli_expect(util_cli("%s --input-shape 5x1x8x8", plan), 0, "5x16x8x8");
  util_cli_expect(util_cli("%s --input-shape photo=5x1x8x8", plan), 2, "it has: image");
  util_cli_expect(util_cli("%s --input-shape 5x1x8x7", plan), 2, "5x1x8x7");
  util_cli_expect(util_cli("%s --input-shape scalar", plan), 2, "image");
  util_cli_expect(util_cli("%s --input-shape 1x1x8x8 --input-shape 1x1x8x8", plan), 2, "one input too many");
  util_cli_expect(util_cli("%s -i %s/some.npy --input-shape image=1x1x8x8", plan, DIGITS), 2, "given twice");

  util_onnx m; /* no rank in the file: somebody has to say it */
  const int64_t one[] = {1};
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, -1, NULL);
  util_onnx_output(&m, "y", RDT_F32, 1, (int64_t[]){-1});
  util_onnx_initializer(&m, "b", RDT_F32, 1, one, (float[]){1.0f});
  util_onnx_node(&m, "Add", NULL, "x b", "y", NULL);
  util_onnx_save(&m, "open.onnx");
  util_onnx_clear(&m);
  util_cli_expect(util_cli("plan open.onnx"), 2, "--input-shape x=");
  util_cli_expect(util_cli("plan open.onnx --input-shape 7"), 0, "Add");
}

/* Random indices do not fit every table: the input is named. */
static void test_indices(void **state) {
  (void)state;
  static const float table[8] = {1, 2, 3, 4};
  static const int64_t shape[] = {4, 2}, many[] = {100};
  util_onnx m;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "scale", RDT_F32, 1, (int64_t[]){1});
  util_onnx_input(&m, "which", RDT_S64, 1, many);
  util_onnx_initializer(&m, "table", RDT_F32, 2, shape, table);
  util_onnx_node(&m, "Gather", "pick", "table which", "rows", NULL);
  util_onnx_node(&m, "Mul", NULL, "rows scale", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, -1, NULL);
  util_onnx_save(&m, "gather.onnx");
  util_onnx_clear(&m);
  util_cli_expect(util_cli("bench model gather.onnx --trials 2 --threads 1"), 2,
                  "nobody gave are random: give -i which=FILE");
  util_cli_expect(0, 0, "is not within -4..3");
}

static void test_fill(void **state) {
  (void)state;
  static const struct {
    const char *name;
    rdt_dtype dtype;
    double least, most;
  } cases[] = {
      {"image", RDT_F32, -1.0, 1.0},         {"image", RDT_F16, -1.0, 1.0},
      {"input_ids", RDT_S64, 0.0, 99.0},     {"attention_mask", RDT_S64, 1.0, 1.0},
      {"attention_mask", RDT_F32, 1.0, 1.0}, {"token_type_ids", RDT_S64, 0.0, 0.0},
      {"flags", RDT_BOOL, 1.0, 1.0},         {"pixels", RDT_U8, 0.0, 255.0},
      {"q", RDT_S8, -127.0, 127.0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rdt_tensor t = rdt_tensor_dense(NULL, cases[i].dtype, 1, (int64_t[]){5000});
    uint64_t seed = 1;
    rdt_reason why;
    assert_int_equal(rdt_bench_model_fill(&t, cases[i].name, &seed, &why), RDT_OK);
    double least = 1e9, most = -1e9;
    for (int64_t k = 0; k < 5000; k++) {
      const double x = rdt_load(t.data, t.dtype, k);
      if (x < least) least = x;
      if (x > most) most = x;
    }
    const double range = cases[i].most - cases[i].least; /* all of it is used */
    assert_true(least >= cases[i].least && most <= cases[i].most && most - least >= 0.95 * range);
    rdt_free(t.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),    cmocka_unit_test(test_json),   cmocka_unit_test(test_profile),
      cmocka_unit_test(test_usage),   cmocka_unit_test(test_shapes), cmocka_unit_test(test_fill),
      cmocka_unit_test(test_indices),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
