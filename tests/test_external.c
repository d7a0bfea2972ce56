/* Constants that stay where they are: in the model file or in a file beside it. What leads elsewhere is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the first three above first */
#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "core/memory.h"
#include "net/model.h"
#include "util_onnx.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

enum { N = 24 }; /* the weight is N x N */

static char folder[] = "/tmp/redoubt-external-XXXXXX";
static float weight[N * N];

static const char *in_folder(const char *name) {
  static char path[2][256];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static void write_file(const char *name, size_t gap, const void *data, size_t bytes) {
  FILE *f = fopen(in_folder(name), "wb");
  assert_non_null(f);
  for (size_t i = 0; i < gap; i++) fputc(0xee, f);
  assert_int_equal(fwrite(data, 1, bytes, f), bytes);
  assert_int_equal(fclose(f), 0);
}

/* y = relu(x W) W, where W is somewhere. */
static Onnx__TensorProto *start_model(util_onnx *m) {
  util_onnx_init(m, 13);
  util_onnx_input(m, "x", RDT_F32, 2, SHAPE(-1, N));
  Onnx__TensorProto *w = util_onnx_initializer(m, "W", RDT_F32, 2, SHAPE(N, N), weight);
  util_onnx_node(m, "MatMul", "a", "x W", "h", NULL);
  util_onnx_node(m, "Relu", "r", "h", "g", NULL);
  util_onnx_node(m, "MatMul", "b", "g W", "y", NULL);
  util_onnx_output(m, "y", RDT_F32, 2, SHAPE(-1, N));
  return w;
}

static void save(util_onnx *m) {
  util_onnx_save(m, in_folder("model.onnx"));
  util_onnx_clear(m);
}

static rdt_graph *load(void) {
  rdt_graph *g = NULL;
  rdt_reason why = {""};
  if (rdt_graph_load(in_folder("model.onnx"), 2, &g, &why) != RDT_OK) fail_msg("%s", why.text);
  return g;
}

static void save_external(const char *location, const char *offset, const char *length) {
  util_onnx m;
  util_onnx_external(start_model(&m), location, offset, length);
  save(&m);
}

/* Loading must fail with this status and all words (separated by |) in the message. */
static void refused(rdt_status expected, const char *words) {
  rdt_graph *g = NULL;
  rdt_reason why = {""};
  char copy[200], *rest = copy, *word;
  const rdt_status s = rdt_graph_load(in_folder("model.onnx"), 1, &g, &why);
  if (s != expected) fail_msg("%s instead of %s: %s", rdt_status_name(s), rdt_status_name(expected), why.text);
  assert_null(g);
  snprintf(copy, sizeof copy, "%s", words);
  while ((word = strtok_r(rest, "|", &rest)))
    if (!strstr(why.text, word)) fail_msg("no '%s' in: %s", word, why.text);
}

static const rdt_value *value_of(const rdt_graph *g, const char *name) {
  const int v = rdt_graph_find(g, name);
  assert_true(v >= 0);
  return &g->values[v];
}

/* ---- good ones ---- */

static void test_mapped_where_aligned(void **state) {
  static const struct {
    size_t gap;
    const char *offset, *length;
    bool mapped;
  } cases[] = {{0, NULL, NULL, true}, {64, "64", "2304", true}, {4096, "4096", NULL, true}, {3, "3", "2304", false}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    write_file("w.bin", cases[i].gap, weight, sizeof weight);
    save_external("w.bin", cases[i].offset, cases[i].length);
    rdt_graph *g = load();
    const rdt_value *w = value_of(g, "W");
    assert_int_equal(w->origin.mapped, cases[i].mapped);
    assert_int_equal(g->maps.n, 2);
    assert_memory_equal(w->data, weight, sizeof weight);
    assert_int_equal((uintptr_t)w->data % sizeof(float), 0);
    rdt_graph_free(g);
  }
}

/* Whatever a file is called, it is mapped once. */
static void test_one_map_a_file(void **state) {
  static const char *const names[] = {"w.bin", "./w.bin", "sub/..bin", ".//w.bin", "link.bin", "hard.bin"};
  util_onnx m;
  (void)state;
  write_file("w.bin", 0, weight, sizeof weight);
  mkdir(in_folder("sub"), 0777);
  assert_int_equal(symlink("../w.bin", in_folder("sub/..bin")), 0);
  assert_int_equal(symlink("w.bin", in_folder("link.bin")), 0);
  assert_int_equal(link(in_folder("w.bin"), in_folder("hard.bin")), 0);
  util_onnx_init(&m, 13);
  for (int i = 0; i < 6; i++) {
    char name[8];
    snprintf(name, sizeof name, "w%d", i);
    util_onnx_external(util_onnx_initializer(&m, name, RDT_F32, 2, SHAPE(N, N), weight), names[i], NULL, NULL);
  }
  util_onnx_node(&m, "Concat", "c", "w0 w1 w2 w3 w4 w5", "y", UTIL_ATTRS(UTIL_INT("axis", 0)));
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(6 * N, N));
  save(&m);
  rdt_graph *g = load();
  assert_int_equal(g->maps.n, 2);
  rdt_graph_free(g);
}

/* No element at all: nothing is mapped, and an empty file is fine. */
static void test_empty(void **state) {
  util_onnx m;
  (void)state;
  write_file("none.bin", 0, "", 0);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(2, 3));
  util_onnx_external(util_onnx_initializer(&m, "e", RDT_F32, 2, SHAPE(2, 0), weight), "none.bin", "0", "0");
  util_onnx_node(&m, "Concat", "c", "x e", "y", UTIL_ATTRS(UTIL_INT("axis", 1)));
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(2, 3));
  save(&m);
  rdt_graph_free(load());
}

/* Bytes in the model file itself. Of 16 bytes too, which is what stands for bytes that are left where they are: a file
 * cannot make up such a reference. */
static void test_inside_the_model(void **state) {
  const uint64_t forged[2] = {0, 16}, far[2] = {UINT64_MAX, UINT64_MAX};
  static const unsigned char small[15] = "not 16 bytes!!";
  (void)state;
  int mapped = 0;
  for (int pad = 0; pad < 4; pad++) { /* the weight's place moves along */
    util_onnx m;
    start_model(&m);
    m.model.producer_name = &"aaa"[3 - pad];
    util_onnx_initializer(&m, "forged", RDT_S64, 1, SHAPE(2), forged);
    util_onnx_initializer(&m, "far", RDT_S64, 1, SHAPE(2), far);
    util_onnx_initializer(&m, "small", RDT_U8, 1, SHAPE(15), small);
    static const char *const names[] = {"forged", "far", "small"};
    for (int i = 0; i < 3; i++) {
      char out[16];
      snprintf(out, sizeof out, "y%d", i);
      util_onnx_output(&m, names[i], RDT_S64, -1, NULL);
    }
    save(&m);
    rdt_graph *g = load();
    assert_memory_equal(value_of(g, "W")->data, weight, sizeof weight);
    assert_memory_equal(value_of(g, "forged")->data, forged, sizeof forged);
    assert_memory_equal(value_of(g, "far")->data, far, sizeof far);
    assert_memory_equal(value_of(g, "small")->data, small, sizeof small);
    assert_int_equal(value_of(g, "W")->origin.map, 0);
    mapped += value_of(g, "W")->origin.mapped;
    rdt_graph_free(g);
  }
  assert_int_equal(mapped, 1);
}

/* Alone in its file, 16 bytes are no reference either. */
static void test_sixteen_bytes(void **state) {
  const float four[4] = {1, 2, 3, 4};
  util_onnx m;
  (void)state;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 1, SHAPE(4));
  util_onnx_initializer(&m, "c", RDT_F32, 1, SHAPE(4), four);
  util_onnx_node(&m, "Add", "a", "x c", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 1, SHAPE(4));
  save(&m);
  rdt_graph *g = load();
  assert_memory_equal(value_of(g, "c")->data, four, sizeof four);
  rdt_graph_free(g);
}

/* ---- bad ones ---- */

static void test_out_of_the_folder(void **state) {
  (void)state;
  write_file("w.bin", 0, weight, sizeof weight);
  mkdir(in_folder("sub"), 0777);
  static const char *const out[] = {"/etc/passwd", "../w.bin",      "sub/../w.bin",  "..",
                                    "sub/..",      "sub/../../etc", "./../etc/motd", "//w.bin"};
  for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
    save_external(out[i], NULL, NULL);
    refused(RDT_ERR_FORMAT, "initializer 'W'|outside of the model's folder");
  }
  assert_int_equal(symlink("/etc/passwd", in_folder("passwd")), 0);
  save_external("passwd", NULL, NULL);
  refused(RDT_ERR_FORMAT, "initializer 'W'|'passwd'|outside of the model's folder");
  assert_int_equal(symlink("/etc", in_folder("etc")), 0);
  save_external("etc/passwd", NULL, NULL);
  refused(RDT_ERR_FORMAT, "initializer 'W'|outside of the model's folder");
}

static void test_no_such_file(void **state) {
  (void)state;
  save_external("missing.bin", NULL, NULL);
  refused(RDT_ERR_IO, "initializer 'W'|'missing.bin'|No such file");
  mkdir(in_folder("sub"), 0777);
  save_external("sub", NULL, NULL);
  refused(RDT_ERR_IO, "initializer 'W'|no regular file");
  save_external(".", NULL, NULL);
  refused(RDT_ERR_IO, "initializer 'W'|no regular file");
  assert_int_equal(mkfifo(in_folder("fifo"), 0666), 0);
  save_external("fifo", NULL, NULL);
  refused(RDT_ERR_IO, "initializer 'W'|no regular file");
  assert_int_equal(symlink("loop", in_folder("loop")), 0);
  save_external("loop", NULL, NULL);
  refused(RDT_ERR_IO, "initializer 'W'|'loop'");
  char deep[6000];
  memset(deep, 'a', sizeof deep);
  deep[sizeof deep - 1] = '\0';
  save_external(deep, NULL, NULL);
  refused(RDT_ERR_FORMAT, "initializer 'W'|too long");
}

static void test_wrong_range(void **state) {
  static const struct {
    const char *location, *offset, *length;
    rdt_status status;
    const char *words;
  } cases[] = {
      {"w.bin", "1", NULL, RDT_ERR_FORMAT, "only 2304"},
      {"w.bin", "2304", NULL, RDT_ERR_FORMAT, "only 2304"},
      {"w.bin", "9223372036854775807", NULL, RDT_ERR_FORMAT, "only 2304"},
      {"w.bin", "9223372036854775807", "9223372036854775807", RDT_ERR_FORMAT, "only 2304"},
      {"w.bin", "9223372036854775808", NULL, RDT_ERR_FORMAT, "no numbers of bytes"},
      {"w.bin", "18446744073709551616", NULL, RDT_ERR_FORMAT, "no numbers of bytes"},
      {"w.bin", "-4", NULL, RDT_ERR_FORMAT, "no numbers of bytes"},
      {"w.bin", "", NULL, RDT_ERR_FORMAT, "no numbers of bytes"},
      {"w.bin", " 0", NULL, RDT_ERR_FORMAT, "no numbers of bytes"},
      {"w.bin", "0x0", NULL, RDT_ERR_FORMAT, "no numbers of bytes"},
      {"w.bin", NULL, "-1", RDT_ERR_FORMAT, "no numbers of bytes"},
      {"w.bin", NULL, "2300", RDT_ERR_FORMAT, "takes 2304 bytes|has 2300"},
      {"w.bin", NULL, "2308", RDT_ERR_FORMAT, "only 2304"},
      {"w.bin", NULL, "0", RDT_ERR_FORMAT, "takes 2304 bytes"},
      {NULL, "0", "2304", RDT_ERR_FORMAT, "which is not said"},
      {"", NULL, NULL, RDT_ERR_FORMAT, "which is not said"},
  };
  (void)state;
  write_file("w.bin", 0, weight, sizeof weight);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    save_external(cases[i].location, cases[i].offset, cases[i].length);
    refused(cases[i].status, cases[i].words);
  }
}

static void test_contradictions(void **state) {
  util_onnx m;
  (void)state;
  write_file("w.bin", 0, weight, sizeof weight);
  Onnx__TensorProto *w = start_model(&m);
  util_onnx_external(w, "w.bin", NULL, NULL);
  w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
  save(&m);
  refused(RDT_ERR_FORMAT, "initializer 'W'|Both");
  w = start_model(&m);
  w->has_data_location = 1;
  w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  save(&m);
  refused(RDT_ERR_FORMAT, "initializer 'W'|Both");
  w = start_model(&m);
  util_onnx_external(w, "w.bin", NULL, NULL);
  w->float_data = calloc(1, sizeof(float));
  w->n_float_data = 1;
  save(&m);
  refused(RDT_ERR_FORMAT, "initializer 'W'|another datatype");
  w = start_model(&m);
  util_onnx_external(w, "w.bin", NULL, NULL);
  util_onnx_external(w, "w.bin", NULL, NULL);
  save(&m);
  refused(RDT_ERR_FORMAT, "initializer 'W'|twice");
}

/* Shapes whose size overflows, or is larger than any file. */
static void test_giant_shapes(void **state) {
  static const struct {
    int64_t dims[2];
    rdt_status status;
    const char *words;
  } cases[] = {{{INT64_MAX, INT64_MAX}, RDT_ERR_SHAPE, "overflow"},
               {{INT64_MAX, 1}, RDT_ERR_SHAPE, "overflow"},
               {{INT64_MIN, 1}, RDT_ERR_SHAPE, "negative"},
               {{(int64_t)1 << 40, 1 << 10}, RDT_ERR_FORMAT, "only 2304"}};
  (void)state;
  write_file("w.bin", 0, weight, sizeof weight);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    util_onnx m;
    Onnx__TensorProto *w = start_model(&m);
    util_onnx_external(w, "w.bin", NULL, NULL);
    w->dims[0] = cases[i].dims[0];
    w->dims[1] = cases[i].dims[1];
    save(&m);
    refused(cases[i].status, cases[i].words);
  }
}

/* A model from memory has no folder. */
static void test_from_memory(void **state) {
  util_onnx m;
  rdt_graph *g = NULL;
  rdt_reason why = {""};
  size_t bytes;
  (void)state;
  write_file("w.bin", 0, weight, sizeof weight);
  util_onnx_external(start_model(&m), "w.bin", NULL, NULL);
  void *data = util_onnx_pack(&m, &bytes);
  assert_int_equal(rdt_graph_load_memory(data, bytes, in_folder("model.onnx"), &g, &why), RDT_ERR_UNSUPPORTED);
  assert_non_null(strstr(why.text, "another file"));
  free(data);
  util_onnx_clear(&m);
}

static void test_hostile_graphs(void **state) {
  util_onnx m;
  (void)state;
  start_model(&m);
  util_onnx_initializer(&m, "W", RDT_F32, 2, SHAPE(N, N), weight);
  save(&m);
  refused(RDT_ERR_FORMAT, "'W'|defined twice");
  start_model(&m);
  util_onnx_node(&m, "Relu", "again", "x", "W", NULL);
  save(&m);
  refused(RDT_ERR_FORMAT, "'W'|defined twice");
  start_model(&m);
  util_onnx_node(&m, "Relu", "lost", "nowhere", "z", NULL);
  save(&m);
  refused(RDT_ERR_FORMAT, "'lost'|nobody produces|'nowhere'");
  start_model(&m);
  util_onnx_output(&m, "nowhere", RDT_F32, -1, NULL);
  save(&m);
  refused(RDT_ERR_FORMAT, "nobody produces|'nowhere'");
}

/* A Reshape to more than there is, by a constant and in a network that is planned. */
static void test_giant_reshape(void **state) {
  static const int64_t shapes[][2] = {{INT64_MAX, INT64_MAX},
                                      {(int64_t)1 << 32, (int64_t)1 << 32},
                                      {INT64_MIN, 1},
                                      {INT64_MAX, -1},
                                      {(int64_t)1 << 40, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    util_onnx m;
    rdt_context *ctx;
    rdt_model *model;
    util_onnx_init(&m, 13);
    util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(2, 3));
    util_onnx_initializer(&m, "shape", RDT_S64, 1, SHAPE(2), shapes[i]);
    util_onnx_node(&m, "Reshape", "big", "x shape", "y", NULL);
    util_onnx_output(&m, "y", RDT_F32, -1, NULL);
    save(&m);
    assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
    if (rdt_model_load(ctx, in_folder("model.onnx"), &model) == RDT_OK) {
      assert_int_equal(rdt_model_plan(model, NULL, 0), RDT_ERR_SHAPE);
      rdt_model_free(model);
    }
    assert_non_null(strstr(rdt_context_error(ctx), "'big'"));
    rdt_context_destroy(ctx);
  }
}

/* ---- faults ---- */

static rdt_status run(rdt_model *m, float *y, rdt_run_result *r) {
  float data[N];
  util_fill(data, N, 2);
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 2, SHAPE(1, N));
  rdt_tensor out;
  const rdt_status status = rdt_model_run(m, &x, 1, r);
  if (status == RDT_OK && rdt_model_output(m, 0, &out) == RDT_OK) memcpy(y, out.data, N * sizeof *y);
  return status;
}

/* What is mapped takes no memory, and what was taken is given back. */
static void test_memory(void **state) {
  enum { WIDE = 512 };
  const size_t bytes = sizeof(float) * WIDE * WIDE, before = rdt_memory_now();
  float *data = calloc(1, bytes), y[N];
  util_onnx m;
  rdt_context *ctx;
  rdt_model *model;
  rdt_run_result r;
  (void)state;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(1, N));
  for (int i = 0; i < 4; i++) {
    char name[8];
    snprintf(name, sizeof name, "w%d", i);
    util_onnx_external(util_onnx_initializer(&m, name, RDT_F32, 2, SHAPE(WIDE, WIDE), data), "w.bin", NULL, NULL);
    util_onnx_output(&m, name, RDT_F32, 2, SHAPE(WIDE, WIDE));
  }
  util_onnx_node(&m, "Relu", "r", "x", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(1, N));
  write_file("w.bin", 0, data, bytes);
  save(&m);
  free(data);
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  rdt_memory_reset();
  if (rdt_model_load(ctx, in_folder("model.onnx"), &model) != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
  assert_true(rdt_memory_peak() - before < bytes / 4);
  assert_int_equal(run(model, y, &r), RDT_OK);
  rdt_model_free(model);
  rdt_context_destroy(ctx);
  assert_int_equal(rdt_memory_now(), before);
}

/* A weight that rots is read from its file again; the file itself never changes with it. */
static void test_restored_from_the_file(void **state) {
  static const size_t gaps[] = {0, 3};
  (void)state;
  for (int i = 0; i < 2; i++) {
    char offset[8];
    float clean[N], y[N];
    rdt_context *ctx;
    rdt_model *model;
    rdt_run_result r;
    rdt_policy policy = RDT_POLICY_DEFAULT;
    policy.scrub_every = 1;
    snprintf(offset, sizeof offset, "%zu", gaps[i]);
    write_file("w.bin", gaps[i], weight, sizeof weight);
    save_external("w.bin", offset, NULL);
    assert_int_equal(rdt_context_create(&ctx, 2), RDT_OK);
    assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
    if (rdt_model_load(ctx, in_folder("model.onnx"), &model) != RDT_OK) fail_msg("%s", rdt_context_error(ctx));
    assert_int_equal(run(model, clean, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    unlink(in_folder("model.onnx")); /* not needed for that */
    float *w = value_of(model->graph, "W")->data;
    w[5] += 1.0f;
    assert_int_equal(run(model, y, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_memory_equal(y, clean, sizeof y);
    assert_memory_equal(w, weight, sizeof weight);
    w[N] = 17.0f;
    write_file("w.bin", gaps[i] + 4, weight, sizeof weight); /* another file now */
    const rdt_status gone = run(model, y, &r);
    assert_int_equal(gone, RDT_ERR_FAULT);
    assert_non_null(strstr(rdt_context_error(ctx), "weight changed in memory"));
    rdt_model_free(model);
    rdt_context_destroy(ctx);
  }
}

static void test_faults_stay_private(void **state) {
  (void)state;
  write_file("w.bin", 0, weight, sizeof weight);
  save_external("w.bin", NULL, NULL);
  rdt_graph *g = load(), *other = load();
  const rdt_value *w = value_of(g, "W");
  assert_true(w->origin.mapped);
  memset(w->data, 0x55, w->bytes);
  assert_memory_equal(value_of(other, "W")->data, weight, sizeof weight);
  for (int device = 0; device < 2; device++) {
    memset(w->data, 0x55, w->bytes);
    rdt_map_refresh(&g->maps.list[w->origin.map], 0, w->bytes, device);
    assert_memory_equal(w->data, weight, sizeof weight);
  }
  rdt_graph_free(g);
  rdt_graph_free(other);
}

/* ---- constants that are made when they are needed ---- */

enum { WIDE = 160 }; /* 100 KB a weight */

/* Conv + BatchNormalization, then a product with W2. gap: where the bytes lie, aligned or not. */
static void save_lazy(size_t gap) {
  static float data[2][WIDE * WIDE];
  char offset[2][24];
  float bn[4][WIDE];
  static const char *const names[] = {"scale", "shift", "mean", "var"};
  util_onnx m;
  util_fill(data[0], WIDE * WIDE, 5);
  util_fill(data[1], WIDE * WIDE, 6);
  write_file("w.bin", gap, data, sizeof data);
  for (int i = 0; i < 2; i++) snprintf(offset[i], sizeof offset[i], "%zu", gap + (size_t)i * sizeof data[0]);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 4, SHAPE(1, WIDE, 1, 1));
  util_onnx_external(util_onnx_initializer(&m, "W", RDT_F32, 4, SHAPE(WIDE, WIDE, 1, 1), data[0]), "w.bin", offset[0],
                     NULL);
  util_onnx_external(util_onnx_initializer(&m, "W2", RDT_F32, 2, SHAPE(WIDE, WIDE), data[1]), "w.bin", offset[1], NULL);
  for (int i = 0; i < 4; i++) {
    util_fill(bn[i], WIDE, 10 + (uint64_t)i);
    for (int c = 0; c < WIDE; c++) bn[i][c] = bn[i][c] * 0.25f + 1.0f;
    util_onnx_initializer(&m, names[i], RDT_F32, 1, SHAPE(WIDE), bn[i]);
  }
  util_onnx_node(&m, "Conv", "conv", "x W", "c", NULL);
  util_onnx_node(&m, "BatchNormalization", "bn", "c scale shift mean var", "n", NULL);
  util_onnx_node(&m, "Flatten", "flat", "n", "f", NULL);
  util_onnx_node(&m, "MatMul", "mul", "f W2", "y", NULL);
  util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(1, WIDE));
  save(&m);
}

static rdt_value *weight_of(rdt_model *m, const char *node) {
  for (int i = 0; i < m->graph->n_nodes; i++)
    if (strcmp(m->graph->nodes[i].name, node) == 0) return &m->graph->values[m->graph->nodes[i].in[1]];
  fail_msg("no node %s", node);
  return NULL;
}

static rdt_status run_lazy(rdt_model *m, float *y, rdt_run_result *r) {
  float data[WIDE];
  util_fill(data, WIDE, 2);
  const rdt_tensor x = rdt_tensor_dense(data, RDT_F32, 4, SHAPE(1, WIDE, 1, 1));
  rdt_tensor out;
  const rdt_status status = rdt_model_run(m, &x, 1, r);
  if (status == RDT_OK && rdt_model_output(m, 0, &out) == RDT_OK) memcpy(y, out.data, WIDE * sizeof *y);
  return status;
}

static rdt_model *open_lazy(rdt_context **ctx, const char *scheme) {
  rdt_model *model;
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  policy.scrub_every = 1;
  assert_int_equal(rdt_context_create(ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(*ctx, &policy), RDT_OK);
  if (rdt_model_load(*ctx, in_folder("model.onnx"), &model) != RDT_OK) fail_msg("%s", rdt_context_error(*ctx));
  return model;
}

/* Weights that were computed, and copies of misaligned ones, take memory while they are packed, or while checks need
 * them; and they are the same whenever they are made. */
static void test_lazy_weights(void **state) {
  float y[4][WIDE];
  (void)state;
  for (int i = 0; i < 4; i++) {
    rdt_context *ctx;
    rdt_run_result r;
    const bool aligned = i % 2 == 0, protected = i >= 2;
    save_lazy(aligned ? 0 : 3);
    rdt_model *m = open_lazy(&ctx, protected ? "auto" : "none");
    rdt_value *folded = weight_of(m, "conv"), *other = weight_of(m, "mul");
    assert_true(folded->lazy && folded->holders == 0);
    assert_int_equal(other->lazy, !aligned);
    assert_int_equal(other->origin.mapped, aligned);
    assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_OK);
    for (int k = 0; k < 2; k++) {
      const rdt_step *s = rdt_model_step(m, k == 0 ? 0 : (size_t)m->graph->n_nodes - 1);
      const bool kept = protected || !rdt_plan_has_site(s->plan, RDT_SITE_PACKED);
      assert_int_equal((k == 0 ? folded : other)->holders > 0, kept);
    }
    assert_int_equal(run_lazy(m, y[i], &r), RDT_OK);
    assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_OK); /* made once more */
    float again[WIDE];
    assert_int_equal(run_lazy(m, again, &r), RDT_OK);
    assert_memory_equal(again, y[i], sizeof again);
    rdt_model_free(m);
    rdt_context_destroy(ctx);
  }
  assert_memory_equal(y[0], y[1], sizeof y[0]);
  assert_memory_equal(y[2], y[3], sizeof y[0]);
}

/* A planted fault finds a weight to strike, and what is made again is what it was. */
static void test_lazy_weights_rot(void **state) {
  static const char *const schemes[] = {"none", "auto", "dup"};
  static const char *const faults[] = {"bit:30@weight,layer=conv,seed=3", "bit:30@weight,layer=mul,seed=3"};
  (void)state;
  for (int i = 0; i < 12; i++) {
    rdt_context *ctx;
    rdt_run_result r;
    float clean[WIDE], y[WIDE];
    save_lazy(i / 6 ? 3 : 0);
    rdt_model *m = open_lazy(&ctx, schemes[i % 3]);
    assert_int_equal(run_lazy(m, clean, &r), RDT_OK);
    assert_int_equal(rdt_model_inject(m, faults[i / 3 % 2]), RDT_OK);
    assert_int_equal(run_lazy(m, y, &r), RDT_OK);
    if (i % 3 == 0)
      assert_memory_not_equal(y, clean, sizeof y);
    else
      assert_memory_equal(y, clean, sizeof y);
    assert_int_equal(r.verdict, i % 3 == 0 ? RDT_UNCHECKED : RDT_RECOMPUTED);
    assert_int_equal(run_lazy(m, y, &r), RDT_OK);
    assert_memory_equal(y, clean, sizeof y);
    rdt_model_free(m);
    rdt_context_destroy(ctx);
  }
}

/* Made of other bytes than at loading: found out before anything is computed with them. */
static void test_lazy_weights_of_another_file(void **state) {
  rdt_context *ctx;
  (void)state;
  save_lazy(0);
  rdt_model *m = open_lazy(&ctx, "none");
  util_onnx_spoil(in_folder("w.bin"));
  assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_ERR_FAULT);
  assert_true(strlen(rdt_context_error(ctx)) > 20);
  rdt_model_free(m);
  rdt_context_destroy(ctx);
}

/* The factors of a folded weight rot: the model is loaded again. */
static void test_rotten_factors(void **state) {
  rdt_context *ctx;
  rdt_run_result r;
  float clean[WIDE], y[WIDE];
  (void)state;
  save_lazy(0);
  rdt_model *m = open_lazy(&ctx, "auto");
  assert_int_equal(run_lazy(m, clean, &r), RDT_OK);
  weight_of(m, "conv")->origin.factor[7] *= 2.0;
  assert_int_equal(rdt_model_plan(m, NULL, 0), RDT_OK);
  assert_int_equal(run_lazy(m, y, &r), RDT_OK);
  assert_memory_equal(y, clean, sizeof y);
  rdt_model_free(m);
  rdt_context_destroy(ctx);
}

/* ---- */

static int clean_folder(void **state) {
  char command[300];
  (void)state;
  snprintf(command, sizeof command, "rm -rf %s && mkdir %s", folder, folder);
  return system(command);
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  util_fill(weight, N * N, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_mapped_where_aligned, clean_folder),
      cmocka_unit_test_setup(test_one_map_a_file, clean_folder),
      cmocka_unit_test_setup(test_empty, clean_folder),
      cmocka_unit_test_setup(test_inside_the_model, clean_folder),
      cmocka_unit_test_setup(test_sixteen_bytes, clean_folder),
      cmocka_unit_test_setup(test_out_of_the_folder, clean_folder),
      cmocka_unit_test_setup(test_no_such_file, clean_folder),
      cmocka_unit_test_setup(test_wrong_range, clean_folder),
      cmocka_unit_test_setup(test_contradictions, clean_folder),
      cmocka_unit_test_setup(test_giant_shapes, clean_folder),
      cmocka_unit_test_setup(test_from_memory, clean_folder),
      cmocka_unit_test_setup(test_hostile_graphs, clean_folder),
      cmocka_unit_test_setup(test_giant_reshape, clean_folder),
      cmocka_unit_test_setup(test_memory, clean_folder),
      cmocka_unit_test_setup(test_restored_from_the_file, clean_folder),
      cmocka_unit_test_setup(test_faults_stay_private, clean_folder),
      cmocka_unit_test_setup(test_lazy_weights, clean_folder),
      cmocka_unit_test_setup(test_lazy_weights_rot, clean_folder),
      cmocka_unit_test_setup(test_lazy_weights_of_another_file, clean_folder),
      cmocka_unit_test_setup(test_rotten_factors, clean_folder),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  clean_folder(NULL);
  rmdir(folder);
  return failed;
}
