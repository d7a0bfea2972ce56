/* What goes into a model and comes out of it: initializers that an input replaces, an output that is listed twice,
 * names that no terminal should see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* after the headers that it needs */
#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "core/memory.h"
#include "core/tensor.h"
#include "net/constant.h"
#include "net/tensor_file.h"
#include "util_cli.h"
#include "util_onnx.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static void save_npy(const char *path, float value) {
  float data[2] = {value, value};
  const rdt_tensor t = rdt_tensor_dense(data, RDT_F32, 2, SHAPE(1, 2));
  rdt_reason why;
  assert_int_equal(rdt_npy_write(path, &t, &why), RDT_OK);
}

static float first_of(const char *path) {
  rdt_tensor t;
  rdt_reason why;
  if (rdt_tensor_file_read(path, &t, &why) != RDT_OK) fail_msg("%s", why.text);
  const float value = ((float *)t.data)[0];
  rdt_free(t.data);
  return value;
}

/* y = x W + b + c, everything 1; W and b are listed as inputs, c is not. */
static void save_model(const char *path) {
  util_onnx m;
  const float ones[4] = {1, 1, 1, 1};
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "W", RDT_F32, 2, SHAPE(-1, -1));
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(1, 2));
  util_onnx_input(&m, "b", RDT_F32, 2, SHAPE(1, 2));
  util_onnx_initializer(&m, "b", RDT_F32, 2, SHAPE(1, 2), ones);
  util_onnx_initializer(&m, "W", RDT_F32, 2, SHAPE(2, 2), ones);
  util_onnx_node(&m, "Constant", NULL, "", "c", UTIL_ATTRS(UTIL_FLOATS("value_floats", 2, 1, 1)));
  util_onnx_node(&m, "MatMul", "product", "x W", "h", NULL);
  util_onnx_node(&m, "Add", NULL, "h b", "i", NULL);
  util_onnx_node(&m, "Add", NULL, "i c", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(1, -1));
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
}

static void an_input_replaces_an_initializer(void **state) {
  static const struct {
    const char *inputs;
    int code;
    const char *words;
    float y;
  } cases[] = {
      {"-i one.npy", 0, "x f32 1x2;", 2 + 1 + 1},
      {"-i one.npy -i b=five.npy", 0, "x f32 1x2, b f32 1x2;", 2 + 5 + 1},
      {"-i b=five.npy -i x=five.npy", 0, "CLEAN", 10 + 5 + 1},
      {"-i x=one.npy -i W=five.npy", 2, "product", 0}, /* 1x2: its shape does not fit */
      {"-i x=one.npy -i c=five.npy", 2, "no input 'c'; it has: x", 0},
      {"-i b=five.npy", 2, "input 'x' (f32 1x2) is missing", 0},
      {"-i x=one.npy -i b=five.npy -i b=one.npy", 2, "input 'b' is given twice", 0},
      {"-i x=one.npy -i W=square.npy -i b=five.npy", 0, "W f32 2x2, x f32 1x2, b f32 1x2;", 6 + 5 + 1},
  };
  (void)state;
  float threes[4] = {3, 3, 3, 3};
  const rdt_tensor square = rdt_tensor_dense(threes, RDT_F32, 2, SHAPE(2, 2));
  rdt_reason why;
  assert_int_equal(rdt_npy_write("square.npy", &square, &why), RDT_OK);
  save_model("m.onnx");
  save_npy("one.npy", 1);
  save_npy("five.npy", 5);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    util_cli_expect(util_cli("run m.onnx %s -o out", cases[i].inputs), cases[i].code, cases[i].words);
    if (cases[i].code == 0) assert_true(first_of("out/y.npy") == cases[i].y);
  }
  util_cli_expect(util_cli("bench model m.onnx --trials 2 --threads 1 -i b=five.npy"), 0, "x f32 1x2 (random), b f32");
  util_cli_expect(util_cli("plan m.onnx --input-shape W=3x2 --input-shape b=1x2 --input-shape x=1x2"), 2, "3x2");
}

/* A constant without a place in the file is read by loading it once more: the same values must be inputs again. */
static void constants_are_restored(void **state) {
  char *names[] = {(char *)(uintptr_t) "nothing", (char *)(uintptr_t) "b", (char *)(uintptr_t) "h"};
  rdt_graph *g = NULL;
  rdt_reason why;
  (void)state;
  save_model("m.onnx");
  assert_int_equal(rdt_graph_load_replaced("m.onnx", 1, &(rdt_replaced){.name = names, .n = 3}, &g, &why), RDT_OK);
  assert_int_equal(g->n_inputs, 2);
  int c = g->n_values - 1;
  while (c >= 0 && (!g->values[c].data || g->values[c].origin.map >= 0)) c--;
  assert_true(c >= 0);
  ((float *)g->values[c].data)[1] = 7;
  assert_false(rdt_constant_is_good(g, c));
  rdt_rot rot;
  if (rdt_constant_restore(g, c, &rot, &why) != RDT_OK) fail_msg("%s", why.text);
  assert_true(rot.tiles == 1 && rot.changed == 1 && rot.first == 1 && rot.expected == 1 && rot.actual == 7);
  assert_true(rdt_constant_is_good(g, c) && ((float *)g->values[c].data)[1] == 1);
  rdt_graph_free(g);
}

/* Twice in the list is twice among the outputs, and one file. */
static void an_output_is_listed_twice(void **state) {
  util_onnx m;
  (void)state;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(1, 2));
  util_onnx_node(&m, "Neg", NULL, "x", "y", NULL);
  util_onnx_node(&m, "Relu", NULL, "y", "z", NULL);
  for (int i = 0; i < 2; i++) util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(1, 2));
  util_onnx_output(&m, "z", RDT_F32, 2, SHAPE(1, 2));
  util_onnx_output(&m, "x", RDT_F32, 2, SHAPE(1, 2));
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(1, 2));
  util_onnx_save(&m, "twice.onnx");
  util_onnx_clear(&m);
  save_npy("one.npy", 1);
  util_cli_expect(util_cli("run twice.onnx -i one.npy -o two --json"), 0, "\"verdict\":\t\"CLEAN\"");
  assert_true(first_of("two/y.npy") == -1 && first_of("two/x.npy") == 1 && first_of("two/z.npy") == 0);
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor out;
  float x[2] = {3, 4};
  const rdt_tensor in = rdt_tensor_dense(x, RDT_F32, 2, SHAPE(1, 2));
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  assert_int_equal(rdt_model_load(ctx, "twice.onnx", &model), RDT_OK);
  assert_int_equal(rdt_model_output_count(model), 5);
  assert_int_equal(rdt_model_run(model, &in, 1, NULL), RDT_OK);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(rdt_model_output(model, i, &out), RDT_OK);
    assert_true(((float *)out.data)[1] == (i == 2 ? 0 : i == 3 ? 4 : -4));
  }
  rdt_model_free(model);
  rdt_context_destroy(ctx);
}

static void a_file_is_no_folder(void **state) {
  (void)state;
  save_model("m.onnx");
  save_npy("one.npy", 1);
  util_cli_expect(util_cli("run m.onnx -i one.npy -o one.npy"), 2, "-o takes a folder, and one.npy is a file");
  assert_true(first_of("one.npy") == 1);
}

/* Whatever a file calls its parts: nothing of it reaches the terminal as a command. */
static void names_are_tamed(void **state) {
  static const char wild[] = "\x1b[2J\x07\n\xff\xc2\x9b";
  util_onnx m;
  (void)state;
  save_npy("one.npy", 1);
  for (int location = 0; location < 2; location++) {
    util_onnx_init(&m, 13);
    util_onnx_input(&m, wild, RDT_F32, 2, SHAPE(1, 2));
    Onnx__TensorProto *w = util_onnx_initializer(&m, "w", RDT_F32, 2, SHAPE(1, 2), (const float[]){1, 2});
    if (location) util_onnx_external(w, wild, NULL, NULL);
    free(util_onnx_node(&m, "Add", "add", "x w", "y", NULL)->input[0]);
    m.graph.node[0]->input[0] = strdup(wild);
    util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(1, 2));
    util_onnx_save(&m, "wild.onnx");
    util_onnx_clear(&m);
    static const char *const calls[] = {"run wild.onnx -i one.npy",
                                        "run wild.onnx",
                                        "run wild.onnx -i x=one.npy",
                                        "run wild.onnx -i one.npy --json",
                                        "run wild.onnx -i one.npy --fault bit:30@input",
                                        "bench model wild.onnx --trials 2 --threads 1",
                                        "plan wild.onnx --explain"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
      util_cli("%s", calls[i]);
      assert_true(*util_cli_text);
      for (const char *c = util_cli_text; *c; c++)
        if ((unsigned char)*c < 0x20 ? !strchr("\n\t", *c) : (unsigned char)*c >= 0x7f)
          fail_msg("%s: byte %d in %s", calls[i], *c, util_cli_text);
      if (location || i < 4) assert_non_null(strstr(util_cli_text, "?[2J??"));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_input_replaces_an_initializer),
      cmocka_unit_test(constants_are_restored),
      cmocka_unit_test(an_output_is_listed_twice),
      cmocka_unit_test(a_file_is_no_folder),
      cmocka_unit_test(names_are_tamed),
  };
  return cmocka_run_group_tests(tests, util_cli_enter, util_cli_leave);
}
