/* Chains of layers that a device computes as one launch: where they are found, what is told, faults in and between
 * them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "util_walk.h"

enum { ROWS = 3, BIAS = 16 };
static bool given_bias; /* the second layer's is an input */

/* Three layers with something behind them, which is none. pixels: convolutions, rows are pixels of an image. */
static walk layers_of(bool pixels, bool device, const char *scheme) {
  static const char *const path = TEST_BUILD "/remote-layers.onnx";
  static const int64_t width[] = {13, 24, BIAS, 5}, rows = ROWS;
  char w[8], b[8], in[32], out[8];
  util_onnx m;
  util_onnx_init(&m, 17);
  const int rank = pixels ? 4 : 2;
  const int64_t *x = pixels ? (int64_t[]){1, width[0], 1, rows} : (int64_t[]){rows, width[0]};
  util_onnx_input(&m, "x", RDT_F16, rank, x);
  for (int i = 0; i < 3; i++) {
    snprintf(w, sizeof w, "w%d", i), snprintf(b, sizeof b, "b%d", i), snprintf(out, sizeof out, "g%d", i);
    halves(&m, w, rank, pixels ? (int64_t[]){width[i + 1], width[i], 1, 1} : (int64_t[]){width[i], width[i + 1]},
           (uint64_t)i + 1);
    if (given_bias && i == 1)
      util_onnx_input(&m, b, RDT_F16, 1, &width[i + 1]);
    else
      halves(&m, b, 1, &width[i + 1], (uint64_t)i + 5);
    if (i)
      snprintf(in, sizeof in, "r%d %s %s", i - 1, w, b);
    else
      snprintf(in, sizeof in, "x %s %s", w, b);
    util_onnx_node(&m, pixels ? "Conv" : "Gemm", out, in, out, NULL);
    snprintf(in, sizeof in, "r%d", i);
    util_onnx_node(&m, "Relu", in, out, in, NULL);
  }
  util_onnx_node(&m, "Softmax", "end", "r2", "out", NULL);
  util_onnx_output(&m, "out", RDT_F16, rank, pixels ? (int64_t[]){1, width[3], 1, rows} : (int64_t[]){rows, width[3]});
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  util_machine_chains = true;
  walk n = walk_start(path, scheme, true, device, RDT_ON_FAULT_RECOMPUTE, 16);
  n.in[0] = rdt_tensor_dense(rdt_alloc((size_t)(rows * width[0]), 2), RDT_F16, rank, x);
  for (int i = 0; i < rows * width[0]; i++) rdt_store(n.in[0].data, RDT_F16, i, (i * 37 % 101) / 50.0 - 1.0);
  n.n_in = 1;
  if (given_bias) {
    const int64_t count = BIAS;
    n.in[n.n_in++] = rdt_tensor_dense(rdt_calloc(BIAS, 2), RDT_F16, 1, &count);
  }
  walk_first_run(&n);
  util_machine_chains = false;
  return n;
}

static walk layers(bool device, const char *scheme) {
  return layers_of(false, device, scheme);
}

static void expect_near(walk *w, walk *of) {
  rdt_tensor x, y;
  walk_must(rdt_model_output(w->model, 0, &x), w), walk_must(rdt_model_output(of->model, 0, &y), of);
  for (int64_t i = 0; i < rdt_tensor_count(&x); i++)
    assert_true(fabs(rdt_load(x.data, RDT_F16, i) - rdt_load(y.data, RDT_F16, i)) <= 4e-3);
}

static void one_launch(bool pixels) {
  walk w = layers_of(pixels, true, "auto"), cpu = layers_of(pixels, false, "auto"),
       bare = layers_of(pixels, true, "none");
  rdt_run_result r;
  int chained = 0;
  for (int i = 0; i < 3; i++) {
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_true(as_clean(&w));
  }
  assert_int_equal(w.faults->chained, 4);
  expect_near(&w, &cpu);
  walk_must(walk_run(&bare, &r), &bare);
  assert_int_equal(r.verdict, RDT_UNCHECKED);
  assert_int_equal(bare.faults->chained, 2);
  for (size_t i = 0; i < rdt_model_node_count(w.model); i++) {
    rdt_node_info info;
    walk_must(rdt_model_node_info(w.model, i, &info), &w);
    if (info.name[0] != 'g') continue;
    assert_string_equal(info.kernel, "mlp");
    assert_string_equal(info.scheme, "row");
    chained++;
  }
  assert_int_equal(chained, 3);
  walk_end(&w), walk_end(&cpu), walk_end(&bare);
}

static void layers_are_one_launch(void **state) {
  (void)state;
  one_launch(false);
}

static void pixels_are_one_launch(void **state) {
  (void)state;
  one_launch(true);
}

/* Of which chains have no copy. */
static void biases_that_change_are_read(void **state) {
  (void)state;
  given_bias = true;
  for (int pixels = 0; pixels < 2; pixels++) {
    walk w = layers_of(pixels, true, "auto"), cpu = layers_of(pixels, false, "auto");
    rdt_run_result r;
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < BIAS; j++)
        rdt_store(w.in[1].data, RDT_F16, j, i + j % 3), rdt_store(cpu.in[1].data, RDT_F16, j, i + j % 3);
      walk_must(walk_run(&w, &r), &w);
      assert_int_equal(r.verdict, RDT_CLEAN);
      walk_must(walk_run(&cpu, &r), &cpu);
      expect_near(&w, &cpu);
    }
    walk_end(&w), walk_end(&cpu);
  }
  given_bias = false;
}

/* Copies of what had changed meanwhile are made anew. */
static void copies_are_of_what_is_in_order(void **state) {
  (void)state;
  util_machine_chain_rots = true;
  walk w = layers(true, "auto"), cpu = layers(false, "auto");
  util_machine_chain_rots = false;
  rdt_run_result r;
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_int_equal(w.faults->chained, 2);
  expect_near(&w, &cpu);
  walk_end(&w), walk_end(&cpu);
}

static void layers_are_repaired(void **state) {
  (void)state;
  walk w = layers(true, "auto");
  rdt_run_result r;
  for (int complains = 0; complains < 2; complains++) { /* what is stored is wrong; a check says so, of its layer */
    w.faults->chain = 1, w.faults->chain_complains = complains;
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_string_equal(walk_found.node, complains ? "g1" : "g2");
    assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_MEMORY);
    assert_true(as_clean(&w));
  }
  w.faults->chain = 2; /* wrong twice: by their plans, within rounding of the device */
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_PERSISTENT);
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_true(as_clean(&w));
  expect_repair(&w, "bit:13@output,layer=g2", "activation", RDT_DIAG_MEMORY);
  expect_repair(&w, "bit:13@input,layer=g2", "activation", RDT_DIAG_MEMORY);
  const int before = w.faults->chained; /* between the layers: these go one by one */
  rdt_tensor out;
  static const char *const specs[] = {"bit:13@output,layer=g0", "bit:13@accum,layer=g2", "bit:13@input,layer=g1"};
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    walk_must(rdt_model_inject(w.model, specs[i]), &w);
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    walk_must(rdt_model_output(w.model, 0, &out), &w);
    for (int64_t k = 0; k < rdt_tensor_count(&out); k++)
      assert_true(fabs(rdt_load(out.data, RDT_F16, k) - rdt_load(w.clean, RDT_F16, k)) <= 4e-3);
  }
  assert_int_equal(w.faults->chained, before);
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_true(as_clean(&w));
  walk_end(&w);
}

/* The layers that go one by one then have other checks: of theirs, none sees weights. */
static void weights_that_chains_cover(void **state) {
  (void)state;
  walk w = layers(true, "auto");
  w.faults->deaf = true;
  expect_repair(&w, "bit:13@weight,layer=g1", "weight", RDT_DIAG_MEMORY);
  walk_end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_are_one_launch),       cmocka_unit_test(pixels_are_one_launch),
      cmocka_unit_test(biases_that_change_are_read), cmocka_unit_test(copies_are_of_what_is_in_order),
      cmocka_unit_test(layers_are_repaired),         cmocka_unit_test(weights_that_chains_cover)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
