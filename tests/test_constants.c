/* Weights that rot in memory: found by the sums of their tiles, named by element, made again tile by tile, wherever
 * they come from. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants setjmp, stdarg and stddef first */
#include <cmocka.h>

#include "net/constant.h"
#include "util_onnx.h"

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

enum { ROWS = 512, COLS = 400, COUNT = ROWS * COLS, TILE = (1 << 18) / 4, TILES = (COUNT + TILE - 1) / TILE };

static char folder[] = "/tmp/redoubt-constants-XXXXXX";
static float weight[COUNT];

static const char *in_folder(const char *name) {
  static char path[2][256];
  static int turn;
  turn = !turn;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

typedef enum source { MAPPED, COPIED, SCALED, INSIDE, JOINED, SOURCES } source; /* where the numbers come from */

/* x W and x V, in a file of their own one behind the other, go to a product alone: their rows become one's. */
static void add_halves(util_onnx *m) {
  char place[32];
  snprintf(place, sizeof place, "%zu", sizeof weight / 2);
  Onnx__TensorProto *w = util_onnx_initializer(m, "W", RDT_F32, 2, SHAPE(ROWS, COLS / 2), weight);
  Onnx__TensorProto *v = util_onnx_initializer(m, "V", RDT_F32, 2, SHAPE(ROWS, COLS / 2), weight + COUNT / 2);
  util_onnx_external(w, "w.bin", "0", NULL);
  util_onnx_external(v, "w.bin", place, NULL);
  util_onnx_node(m, "MatMul", "first", "x W", "a", NULL);
  util_onnx_node(m, "MatMul", "second", "x V", "b", NULL);
  util_onnx_node(m, "Transpose", "turn", "b", "t", NULL);
  util_onnx_node(m, "MatMul", "both", "a t", "y", NULL);
  util_onnx_output(m, "y", RDT_F32, 2, SHAPE(3, 3));
}

/* y = x W: W in a file of its own, there at an odd place, there and scaled by a BatchNormalization, in the model;
 * joined of two halves. */
static rdt_graph *load(source from, int *v) {
  static const float ones[COLS] = {[0 ... COLS - 1] = 1}, halves[COLS] = {[0 ... COLS - 1] = 0.5f}, zeros[COLS] = {0};
  util_onnx m;
  rdt_graph *g = NULL;
  rdt_reason why;
  FILE *f = fopen(in_folder("w.bin"), "wb");
  const size_t gap = from == COPIED ? 3 : 0;
  assert_non_null(f);
  assert_int_equal(fwrite("gap", 1, gap, f), gap);
  assert_int_equal(fwrite(weight, 1, sizeof weight, f), sizeof weight);
  assert_int_equal(fclose(f), 0);
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, SHAPE(3, ROWS));
  if (from == JOINED) {
    add_halves(&m);
  } else {
    Onnx__TensorProto *w = util_onnx_initializer(&m, "W", RDT_F32, 2, SHAPE(ROWS, COLS), weight);
    if (from != INSIDE) util_onnx_external(w, "w.bin", from == COPIED ? "3" : "0", NULL);
    util_onnx_node(&m, "Gemm", "gemm", "x W", from == SCALED ? "h" : "y", NULL);
    util_onnx_output(&m, "y", RDT_F32, 2, SHAPE(3, COLS));
  }
  if (from == SCALED) {
    util_onnx_initializer(&m, "gain", RDT_F32, 1, SHAPE(COLS), halves);
    util_onnx_initializer(&m, "shift", RDT_F32, 1, SHAPE(COLS), zeros);
    util_onnx_initializer(&m, "mean", RDT_F32, 1, SHAPE(COLS), zeros);
    util_onnx_initializer(&m, "var", RDT_F32, 1, SHAPE(COLS), ones);
    util_onnx_node(&m, "BatchNormalization", "bn", "h gain shift mean var", "y", NULL);
  }
  util_onnx_save(&m, in_folder("m.onnx"));
  util_onnx_clear(&m);
  if (rdt_graph_load(in_folder("m.onnx"), 2, &g, &why) != RDT_OK) fail_msg("%s", why.text);
  for (*v = 0; *v < g->n_values; ++*v)
    if (g->values[*v].data && g->values[*v].bytes == sizeof weight && !g->values[*v].planned) {
      int readers = 0;
      for (int i = 0; i < g->n_nodes; i++) readers += g->nodes[i].n_in > 1 && g->nodes[i].in[1] == *v;
      if (readers) break;
    }
  assert_true(*v < g->n_values);
  if (rdt_constant_hold(g, *v, &why) != RDT_OK) fail_msg("%s", why.text);
  return g;
}

static float *data_of(const rdt_graph *g, int v) {
  return g->values[v].data;
}

static void rotten_tiles_are_named_and_made_again(void **state) {
  (void)state;
  for (source from = 0; from < SOURCES; from++) {
    int v;
    rdt_graph *g = load(from, &v);
    rdt_rot rot;
    rdt_reason why;
    float *w = data_of(g, v);
    float *before = malloc(sizeof weight);
    assert_non_null(before);
    memcpy(before, w, sizeof weight);
    assert_true(rdt_constant_is_good(g, v));
    if (from == JOINED) /* a row of the one, then a row of the other */
      for (int i = 0; i < COUNT; i++)
        assert_true(w[i] == weight[i / COLS * (COLS / 2) + i % (COLS / 2) + (i % COLS >= COLS / 2 ? COUNT / 2 : 0)]);
    w[TILE + 7] = 1e30f; /* two elements of the second tile, one of the last */
    w[TILE + 9] = -before[TILE + 9];
    w[COUNT - 1] += 1;
    assert_false(rdt_constant_is_good(g, v));
    if (rdt_constant_restore(g, v, &rot, &why) != RDT_OK) fail_msg("%d: %s", (int)from, why.text);
    assert_true(rdt_constant_is_good(g, v));
    assert_memory_equal(w, before, sizeof weight);
    assert_string_equal(rot.tensor, g->values[v].name);
    assert_int_equal(rot.tiles, 2);
    assert_int_equal(rot.changed, 2);
    assert_int_equal(rot.first, TILE + 7);
    assert_true(rot.expected == (double)before[TILE + 7] && rot.actual == (double)1e30f);
    free(before);
    rdt_constant_release(g, v);
    rdt_graph_free(g);
  }
}

/* A sum that rots leaves the data in peace. */
static void rotten_sums_are_made_again(void **state) {
  (void)state;
  for (source from = 0; from < SOURCES; from++) {
    int v;
    rdt_graph *g = load(from, &v);
    rdt_value *c = &g->values[v];
    rdt_rot rot;
    rdt_reason why;
    const uint64_t sum = c->bitsum, tile = c->tile_sums[1];
    c->bitsum ^= 1 << 20;
    assert_false(rdt_constant_is_good(g, v));
    assert_int_equal(rdt_constant_restore(g, v, &rot, &why), RDT_OK);
    assert_true(rot.tiles == 0 && c->bitsum == sum && rdt_constant_is_good(g, v));
    c->tile_sums[1] ^= 1; /* and an element: nobody knows which tile, so all are made */
    data_of(g, v)[3] += 1;
    assert_int_equal(rdt_constant_restore(g, v, &rot, &why), RDT_OK);
    assert_true(rot.tiles == TILES && rot.changed == 1 && rot.first == 3 && rdt_constant_is_good(g, v));
    assert_true(c->tile_sums[1] == tile);
    rdt_constant_release(g, v);
    rdt_graph_free(g);
  }
}

/* Nothing to make it from: it is said, and never good. */
static void a_changed_file_restores_nothing(void **state) {
  (void)state;
  for (source from = 0; from < SOURCES; from++) {
    int v;
    if (from == INSIDE) continue;
    rdt_graph *g = load(from, &v);
    rdt_rot rot;
    rdt_reason why;
    const int file = open(in_folder("w.bin"), O_WRONLY);
    assert_true(file >= 0);
    for (size_t at = TILE * 4 + 64; at < sizeof weight; at += sizeof weight / 2) /* of each half */
      assert_int_equal(pwrite(file, "changed!", 8, (off_t)at), 8);
    assert_int_equal(close(file), 0);
    data_of(g, v)[TILE + 7] = 1e30f;
    assert_int_equal(rdt_constant_restore(g, v, &rot, &why), RDT_ERR_FAULT);
    assert_non_null(strstr(why.text, "cannot be restored"));
    assert_false(rdt_constant_is_good(g, v));
    rdt_constant_release(g, v);
    rdt_graph_free(g);
  }
}

static int make_folder(void **state) {
  (void)state;
  for (int i = 0; i < COUNT; i++) weight[i] = (float)(i % 1013 - 506) / 64;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(in_folder("w.bin"));
  unlink(in_folder("m.onnx"));
  return rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rotten_tiles_are_named_and_made_again),
      cmocka_unit_test(rotten_sums_are_made_again),
      cmocka_unit_test(a_changed_file_restores_nothing),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
