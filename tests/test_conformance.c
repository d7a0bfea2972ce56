/* `redoubt conformance` on small cases: what passes, what must cry, what is unsupported, what is malformed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "check/tolerance.h"
#include "core/text.h"
#include "util_cli.h"
#include "util_onnx.h"

static const int64_t shape[] = {2, 3}, flat[] = {6};

/* cases/GROUP/NAME with the file's text */
static void write_file(const char *path, const void *data, size_t bytes) {
  char folder[300];
  snprintf(folder, sizeof folder, "%s", path);
  for (char *p = strchr(folder, '/'); p; p = strchr(p + 1, '/')) {
    *p = '\0';
    mkdir(folder, 0777);
    *p = '/';
  }
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  fclose(f);
}

static void write_tensor(const char *name, const char *file, rdt_dtype dtype, int rank, const int64_t *dims,
                         const void *data) {
  char path[300];
  Onnx__TensorProto *t = util_tensor_proto("t", dtype, rank, dims, data);
  const size_t bytes = onnx__tensor_proto__get_packed_size(t);
  uint8_t *packed = malloc(bytes + 1);
  assert_non_null(packed);
  onnx__tensor_proto__pack(t, packed);
  snprintf(path, sizeof path, "cases/%s/test_data_set_0/%s", name, file);
  write_file(path, packed, bytes);
  free(packed);
  onnx__tensor_proto__free_unpacked(t, NULL);
}

static void write_model(const char *name, const char *op) {
  char path[300];
  util_onnx m;
  size_t bytes;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, shape);
  util_onnx_output(&m, "y", RDT_F32, 2, shape);
  util_onnx_node(&m, op, "one", "x", "y", NULL);
  void *data = util_onnx_pack(&m, &bytes);
  util_onnx_clear(&m);
  snprintf(path, sizeof path, "cases/%s/model.onnx", name);
  write_file(path, data, bytes);
  free(data);
}

static const float input[] = {-1.0f, 2.0f, -3.0f, 4.0f, -5.0f, 6.0f};
static const float relu[] = {0.0f, 2.0f, 0.0f, 4.0f, 0.0f, 6.0f};

static void write_case(const char *name, const char *op, const float *in, const float *out) {
  write_model(name, op);
  write_tensor(name, "input_0.pb", RDT_F32, 2, shape, in);
  write_tensor(name, "output_0.pb", RDT_F32, 2, shape, out);
}

static void test_passing(void **state) {
  (void)state;
  const float near[] = {0.5e-7f, 2.0015f, 0.0f, 4.0f, 0.0f, 6.0f};
  const float odd[] = {-1.0f, NAN, INFINITY, 4.0f, -INFINITY, 6.0f};
  const float odd_relu[] = {0.0f, NAN, INFINITY, 4.0f, 0.0f, 6.0f};
  write_case("node/test_relu", "Relu", input, relu);
  write_case("node/test_relu_near", "Relu", input, near);
  write_case("node/test_relu_expanded", "Identity", relu, relu);
  write_case("pytorch/test_odd", "Relu", odd, odd_relu);
  util_cli_expect(util_cli("conformance cases"), 0, "PASS: 4 cases: 4 passed (0 of them UNCHECKED), 0 failed");
  util_cli_expect(0, 0, "Relu, expanded ");
  util_cli_expect(util_cli("conformance cases/node/test_relu"), 0, "PASS: 1 cases");
  util_cli_expect(util_cli("conformance cases/ --filter 'test_relu*' --scheme none"), 0,
                  "3 passed (3 of them UNCHECKED)");
  util_cli_expect(util_cli("conformance cases --filter 'pytorch/*' --format md"), 0, "| pytorch |");
  util_cli_expect(util_cli("conformance cases --quiet --report found.json"), 0, NULL);
  assert_int_equal(strlen(util_cli_text), 0);
  assert_int_equal(access("found.json", F_OK), 0);
}

static void test_wrong(void **state) {
  (void)state;
  float wrong[6];
  memcpy(wrong, relu, sizeof wrong);
  wrong[4] = 1e-3f;
  write_case("node/test_wrong", "Relu", input, wrong);
  util_cli_expect(util_cli("conformance cases --filter test_wrong"), 1,
                  "node/test_wrong: output 'y': 1 of 6 values differ, the first at [1, 1]: 0, expected 0.001");
  wrong[4] = NAN;
  write_case("node/test_wrong", "Relu", input, wrong);
  util_cli_expect(util_cli("conformance cases --filter test_wrong"), 1, "1 failed");
  write_tensor("node/test_wrong", "output_0.pb", RDT_F32, 1, flat, relu);
  util_cli_expect(util_cli("conformance cases --filter test_wrong"), 1, "output 'y' is 2x3 f32, expected 6 f32");
  write_tensor("node/test_wrong", "output_0.pb", RDT_S32, 2, shape, relu);
  util_cli_expect(util_cli("conformance cases --filter test_wrong"), 1, "output 'y' is 2x3 f32, expected 2x3 s32");
  write_tensor("node/test_wrong", "output_0.pb", RDT_F32, 2, shape, relu);
  util_cli_expect(util_cli("conformance cases --filter test_wrong"), 0, "PASS");
}

static void test_integers_are_exact(void **state) {
  (void)state;
  const int64_t in[] = {-1, 0, 1, INT64_MAX, INT64_MIN, 1000000};
  int64_t out[6];
  util_onnx m;
  size_t bytes;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_S64, 2, shape);
  util_onnx_output(&m, "y", RDT_S64, 1, flat);
  util_onnx_initializer(&m, "to", RDT_S64, 1, (int64_t[]){1}, flat);
  util_onnx_node(&m, "Reshape", NULL, "x to", "y", NULL);
  void *data = util_onnx_pack(&m, &bytes);
  util_onnx_clear(&m);
  write_file("cases/node/test_integers/model.onnx", data, bytes);
  free(data);
  memcpy(out, in, sizeof out);
  write_tensor("node/test_integers", "input_0.pb", RDT_S64, 2, shape, in);
  write_tensor("node/test_integers", "output_0.pb", RDT_S64, 1, flat, out);
  util_cli_expect(util_cli("conformance cases --filter test_integers"), 0, "PASS");
  out[3]--; /* no double tells the two apart */
  write_tensor("node/test_integers", "output_0.pb", RDT_S64, 1, flat, out);
  util_cli_expect(util_cli("conformance cases --filter test_integers"), 1, "1 of 6 values differ, the first at [3]");
  write_tensor("node/test_integers", "output_0.pb", RDT_S64, 1, flat, in);
}

static void test_unsupported(void **state) {
  (void)state;
  write_case("node/test_strange", "Frobnicate", input, relu);
  util_cli_expect(util_cli("conformance cases --filter test_strange"), 0, "operator Frobnicate");
  util_cli_expect(0, 0, "1 unsupported");
}

static void test_malformed(void **state) {
  (void)state;
  write_file("cases/bad/test_<&\"'\xff\n.>/model.onnx", "nonsense", 8);
  write_file("cases/bad/test_empty/model.onnx", "", 0);
  write_case("bad/test_input", "Relu", input, relu);
  write_file("cases/bad/test_input/test_data_set_0/input_0.pb", "", 0);
  write_case("bad/test_extra", "Relu", input, relu);
  write_file("cases/bad/test_extra/test_data_set_0/input_1.pb", "", 0);
  write_case("bad/test_missing", "Relu", input, relu);
  assert_int_equal(unlink("cases/bad/test_missing/test_data_set_0/output_0.pb"), 0);
  write_model("bad/test_no_data", "Relu");
  write_case("bad/test_shape", "Relu", input, relu);
  write_tensor("bad/test_shape", "input_0.pb", RDT_F32, 1, flat, input);
  write_case("bad/test_zgood", "Relu", input, relu); /* the last one: the run has to get there */
  util_cli_expect(util_cli("conformance cases --filter 'bad/*' --junit found.xml"), 1, "8 cases: 1 passed");
  util_cli_expect(0, 0, "7 failed");
  util_cli_expect(0, 0, "bad/test_<&\"'??.>");
  util_cli_expect(0, 0, "the file is empty");
  util_cli_expect(0, 0, "the model has 1 inputs, there are 2 files");
  util_cli_expect(0, 0, "the model has 1 outputs, there are 0 files");
  util_cli_expect(0, 0, "there is no test_data_set_N");
  util_cli_slurp("found.xml");
  util_cli_expect(0, 0, "<testsuite name=\"bad\" tests=\"8\" failures=\"7\" errors=\"0\" skipped=\"0\"");
  util_cli_expect(0, 0, "name=\"bad/test_&lt;&amp;&quot;&apos;??.&gt;\"");
  util_cli_expect(0, 0, "</testsuites>");
}

static void test_usage(void **state) {
  (void)state;
  util_cli_expect(util_cli("conformance"), 2, "DIR is missing");
  util_cli_expect(util_cli("conformance nowhere"), 2, "nowhere");
  util_cli_expect(util_cli("conformance cases --filter nothing"), 2, "whose name matches 'nothing'");
  util_cli_expect(util_cli("conformance cases --scheme magic"), 2, "magic");
  util_cli_expect(util_cli("conformance cases --filter test_relu --junit no/such/folder.xml"), 2, "folder.xml");
  util_cli_expect(util_cli("conformance --help"), 0, "--junit");
}

static void test_tolerances(void **state) {
  (void)state;
  assert_true(rdt_conforms(1.0005, 1.0) && rdt_conforms(0.9e-7, 0.0) && rdt_conforms(-INFINITY, -INFINITY));
  assert_true(rdt_conforms(NAN, NAN));
  assert_false(rdt_conforms(1.002, 1.0) || rdt_conforms(2e-7, 0.0) || rdt_conforms(INFINITY, -INFINITY));
  assert_false(rdt_conforms(NAN, 1.0) || rdt_conforms(1.0, NAN) || rdt_conforms(INFINITY, 1.0));
  assert_false(rdt_conforms(1.0, INFINITY) || rdt_conforms(NAN, INFINITY));
}

static void test_text(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"conv1", "conv1"},      {"a\nb\x1b", "a?b?"},         {"\xc3\xa9t\xe2\x82\xac\xf0\x9f\x98\x80", NULL},
      {"\xc3", "?"},           {"\xe2\x82", "??"},           {"\xc0\xaf", "??"}, /* overlong */
      {"\xed\xa0\x80", "???"}, {"\xf4\x90\x80\x80", "????"}, {"\x80x\xff", "?x?"},
      {"\xc2\x85", "??"},      {"\xef\xbf\xbf", "???"},      {"\x7f", "?"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char text[32];
    snprintf(text, sizeof text, "%s", texts[i][0]);
    rdt_text_tame(text, '?');
    assert_string_equal(text, texts[i][1] ? texts[i][1] : texts[i][0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_passing),     cmocka_unit_test(test_wrong),     cmocka_unit_test(test_integers_are_exact),
      cmocka_unit_test(test_unsupported), cmocka_unit_test(test_malformed), cmocka_unit_test(test_usage),
      cmocka_unit_test(test_tolerances),  cmocka_unit_test(test_text),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
