/* Networks on a device, without one: the executor over a machine that computes on the CPU (util_machine.h). Results,
 * tapes, what is on the host, and faults in every kind of memory and op: noticed, told, repaired. */
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

#include "core/memory.h"
#include "net/remote.h"
#include "net/tensor_file.h"
#include "util_onnx.h"
#include "util_walk.h"

#define MODEL TEST_DATA "/examples/digits/digits.onnx"
#define IMAGES TEST_DATA "/examples/digits/some.npy"

static walk digits(const char *scheme, bool linear, bool device, rdt_on_fault on_fault, int scrub) {
  rdt_reason why;
  walk w = walk_start(MODEL, scheme, linear, device, on_fault, scrub);
  if (rdt_tensor_file_read(IMAGES, &w.in[0], &why) != RDT_OK) fail_msg("%s", why.text);
  w.in[0].shape[0] = 3;
  w.n_in = 1;
  walk_first_run(&w);
  return w;
}

/* A little of a transformer: table, indices, mean and deviation, softmax, a product of two activations. */
static walk words(bool linear) {
  static const char *const path = TEST_BUILD "/remote-words.onnx";
  static const int64_t table[] = {11, 8}, indices[] = {2, 5}, vector[] = {8}, out[] = {2, 5, 8}, axes[] = {0, 2, 1};
  float data[88];
  util_onnx m;
  util_onnx_init(&m, 17);
  util_fill(data, 88, 1);
  util_onnx_initializer(&m, "table", RDT_F32, 2, table, data);
  util_fill(data, 8, 2);
  util_onnx_initializer(&m, "gain", RDT_F32, 1, vector, data);
  util_onnx_initializer(&m, "shift", RDT_F32, 1, vector, data);
  util_onnx_input(&m, "ids", RDT_S64, 2, indices);
  util_onnx_node(&m, "Gather", "lookup", "table ids", "x", NULL);
  util_onnx_node(&m, "LayerNormalization", "norm", "x gain shift", "y", NULL);
  util_onnx_node(&m, "Transpose", "turn", "y", "yt", UTIL_ATTRS(UTIL_INTS("perm", 3, axes[0], axes[1], axes[2])));
  util_onnx_node(&m, "MatMul", "scores", "y yt", "s", NULL);
  util_onnx_node(&m, "Softmax", "weights", "s", "w", NULL);
  util_onnx_node(&m, "MatMul", "mix", "w y", "z", NULL);
  util_onnx_node(&m, "Tanh", "end", "z", "out", NULL);
  util_onnx_output(&m, "out", RDT_F32, 3, out);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  walk w = walk_start(path, "auto", linear, true, RDT_ON_FAULT_RECOMPUTE, 16);
  w.in[0] = rdt_tensor_dense(rdt_alloc(10, sizeof(int64_t)), RDT_S64, 2, indices);
  for (int64_t i = 0; i < 10; i++) ((int64_t *)w.in[0].data)[i] = (i * 7) % 11 - (i == 3 ? 11 : 0);
  w.n_in = 1;
  walk_first_run(&w);
  return w;
}

/* Two convolutions of bytes. */
static walk bytes(bool device) {
  static const char *const path = TEST_BUILD "/remote-bytes.onnx";
  static const int64_t none[1] = {0}, image[] = {1, 3, 9, 7}, three[] = {8, 3, 3, 3}, one[] = {12, 8, 1, 1},
                       out[] = {1, 12, 9, 7};
  const float in = 0.05f, by = 0.02f, to = 0.11f;
  const uint8_t middle = 119;
  const int8_t zero = 0;
  int8_t w[216];
  util_onnx m;
  util_onnx_init(&m, 17);
  util_onnx_initializer(&m, "in", RDT_F32, 0, none, &in);
  util_onnx_initializer(&m, "by", RDT_F32, 0, none, &by);
  util_onnx_initializer(&m, "to", RDT_F32, 0, none, &to);
  util_onnx_initializer(&m, "middle", RDT_U8, 0, none, &middle);
  util_onnx_initializer(&m, "zero", RDT_S8, 0, none, &zero);
  for (int i = 0; i < 216; i++) w[i] = (int8_t)(i * 37 % 127 - 63);
  util_onnx_initializer(&m, "w", RDT_S8, 4, three, w);
  util_onnx_initializer(&m, "v", RDT_S8, 4, one, w);
  util_onnx_input(&m, "x", RDT_U8, 4, image);
  util_onnx_node(&m, "QLinearConv", "first", "x in middle w by zero to middle", "y",
                 UTIL_ATTRS(UTIL_INTS("pads", 4, 1, 1, 1, 1)));
  util_onnx_node(&m, "QLinearConv", "second", "y to middle v by zero to middle", "z", NULL);
  util_onnx_output(&m, "z", RDT_U8, 4, out);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  walk n = walk_start(path, "auto", false, device, RDT_ON_FAULT_RECOMPUTE, 16);
  n.in[0] = rdt_tensor_dense(rdt_alloc(189, 1), RDT_U8, 4, image);
  for (int i = 0; i < 189; i++) ((uint8_t *)n.in[0].data)[i] = (uint8_t)(i * 91 + 5);
  n.n_in = 1;
  walk_first_run(&n);
  return n;
}

enum { WORDS = 5, WIDTH = 32, HEADS = 2 };

/* Attention of two heads over five words with a mask, of 16 bits, as exporters write it. turned: its result goes on
 * with the heads side by side. */
static walk attention(bool device, const char *scheme, bool turned) {
  static const char *const path = TEST_BUILD "/remote-attention.onnx";
  static const int64_t square[] = {WIDTH, WIDTH}, vector[] = {WIDTH}, x[] = {2, WORDS, WIDTH},
                       mask[] = {2, 1, 1, WORDS}, split[] = {2, WORDS, HEADS, WIDTH / HEADS}, four[] = {4},
                       three[] = {3}, none[] = {1}, apart[] = {2, HEADS, WORDS, WIDTH / HEADS};
  uint16_t root;
  char a[64], b[64];
  util_onnx m;
  util_onnx_init(&m, 17);
  rdt_store(&root, RDT_F16, 0, 4.0);
  util_onnx_initializer(&m, "root", RDT_F16, 0, none, &root);
  util_onnx_initializer(&m, "split", RDT_S64, 1, four, split);
  util_onnx_initializer(&m, "whole", RDT_S64, 1, three, x);
  util_onnx_input(&m, "x", RDT_F16, 3, x);
  util_onnx_input(&m, "mask", RDT_F16, 4, mask);
  for (int i = 0; i < 3; i++) {
    const char name[] = {"qkv"[i], '\0'};
    snprintf(a, sizeof a, "w%s", name);
    halves(&m, a, 2, square, (uint64_t)i + 1);
    snprintf(a, sizeof a, "b%s", name);
    halves(&m, a, 1, vector, (uint64_t)i + 7);
    snprintf(a, sizeof a, "x w%s", name), snprintf(b, sizeof b, "p%s", name);
    util_onnx_node(&m, "MatMul", b, a, b, NULL);
    snprintf(a, sizeof a, "p%s b%s", name, name), snprintf(b, sizeof b, "s%s", name);
    util_onnx_node(&m, "Add", b, a, b, NULL);
    snprintf(a, sizeof a, "s%s split", name), snprintf(b, sizeof b, "r%s", name);
    util_onnx_node(&m, "Reshape", b, a, b, NULL);
    snprintf(a, sizeof a, "r%s", name);
    util_onnx_node(
        &m, "Transpose", name, a, name,
        i == 1 ? UTIL_ATTRS(UTIL_INTS("perm", 4, 0, 2, 3, 1)) : UTIL_ATTRS(UTIL_INTS("perm", 4, 0, 2, 1, 3)));
  }
  util_onnx_node(&m, "MatMul", "scores", "q k", "s", NULL);
  util_onnx_node(&m, "Div", "scaled", "s root", "t", NULL);
  util_onnx_node(&m, "Add", "masked", "t mask", "u", NULL);
  util_onnx_node(&m, "Softmax", "weights", "u", "w", NULL);
  util_onnx_node(&m, "MatMul", "mix", "w v", "y", NULL);
  if (turned) {
    util_onnx_node(&m, "Transpose", "back", "y", "z", UTIL_ATTRS(UTIL_INTS("perm", 4, 0, 2, 1, 3)));
    util_onnx_node(&m, "Reshape", "together", "z whole", "a", NULL);
  }
  util_onnx_node(&m, "Softmax", "end", turned ? "a" : "y", "out", NULL);
  util_onnx_output(&m, "out", RDT_F16, turned ? 3 : 4, turned ? x : apart);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  walk n = walk_start(path, scheme, true, device, RDT_ON_FAULT_RECOMPUTE, 16);
  n.in[0] = rdt_tensor_dense(rdt_alloc(2 * WORDS * WIDTH, 2), RDT_F16, 3, x);
  n.in[1] = rdt_tensor_dense(rdt_alloc(2 * WORDS, 2), RDT_F16, 4, mask);
  for (int i = 0; i < 2 * WORDS * WIDTH; i++) rdt_store(n.in[0].data, RDT_F16, i, (i * 37 % 101) / 50.0 - 1.0);
  for (int i = 0; i < 2 * WORDS; i++) rdt_store(n.in[1].data, RDT_F16, i, i % 4 == 3 ? -65504.0 : 0.0);
  n.n_in = 2;
  walk_first_run(&n);
  return n;
}

/* ---- results ---- */

/* On the device, twice, with the host's bits; a fault in a result is repaired. */
static void bytes_stay_on_the_device(void **state) {
  (void)state;
  walk w = bytes(true), cpu = bytes(false);
  rdt_run_result r;
  rdt_node_info info;
  assert_memory_equal(w.clean, cpu.clean, 12 * 9 * 7);
  for (size_t i = 0; i < rdt_model_node_count(w.model); i++) {
    walk_must(rdt_model_node_info(w.model, i, &info), &w);
    if (strstr(info.op, "Conv")) assert_string_equal(info.kernel, "cuda_bytes");
    if (strstr(info.op, "Conv")) assert_string_equal(info.scheme, "dup");
  }
  for (int seed = 1; seed <= 6; seed++) {
    char spec[64];
    snprintf(spec, sizeof spec, "bit@%s,seed=%d", seed % 2 ? "nonlinear" : "output", seed);
    walk_must(rdt_model_inject(w.model, spec), &w);
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_true(as_clean(&w));
  }
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  walk_end(&w), walk_end(&cpu);
}

static void same_as_the_cpu(void **state) {
  (void)state;
  walk cpu = digits("auto", false, false, RDT_ON_FAULT_RECOMPUTE, 16);
  for (int linear = 0; linear < 2; linear++) {
    walk w = digits("auto", linear, true, RDT_ON_FAULT_RECOMPUTE, 16);
    rdt_tensor out;
    rdt_run_result r;
    for (int i = 0; i < 20; i++) { /* a scrub among them */
      walk_must(walk_run(&w, &r), &w);
      assert_int_equal(r.verdict, RDT_CLEAN);
      assert_int_equal(walk_found.events, 0);
      assert_true(as_clean(&w));
    }
    assert_int_equal(w.faults->replays, linear ? 20 : 0);
    walk_must(rdt_model_output(w.model, 0, &out), &w);
    for (int64_t i = 0; i < rdt_tensor_count(&out); i++)
      assert_true(fabs(rdt_load(out.data, RDT_F32, i) - rdt_load(cpu.clean, RDT_F32, i)) <=
                  rdt_tolerance_network(RDT_F32));
    for (size_t i = 0; i < rdt_model_node_count(w.model); i++) {
      rdt_node_info info;
      rdt_result result;
      walk_must(rdt_model_node_info(w.model, i, &info), &w);
      walk_must(rdt_model_node_result(w.model, i, &result), &w);
      assert_int_equal(result.verdict, RDT_CLEAN);
      if (strcmp(info.op, "MaxPool") == 0) assert_string_equal(info.kernel, "cuda_maxpool");
    }
    walk_end(&w);
  }
  walk_end(&cpu);
}

static void new_inputs_reach_the_tape(void **state) {
  (void)state;
  walk w = digits("auto", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  rdt_tensor out;
  walk_must(walk_run(&w, &r), &w);
  float *x = w.in[0].data;
  for (int64_t i = 0; i < rdt_tensor_count(&w.in[0]); i++) x[i] = -x[i];
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_false(as_clean(&w));
  walk_must(rdt_model_output(w.model, 0, &out), &w);
  void *kept = malloc(bytes_of(&out));
  memcpy(kept, out.data, bytes_of(&out));
  walk other = digits("auto", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  memcpy(other.in[0].data, x, bytes_of(&w.in[0]));
  walk_must(walk_run(&other, &r), &other);
  walk_must(rdt_model_output(other.model, 0, &out), &other);
  assert_memory_equal(kept, out.data, bytes_of(&out));
  free(kept);
  walk_end(&w), walk_end(&other);
}

static void unprotected_says_so(void **state) {
  (void)state;
  walk w = digits("none", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_UNCHECKED);
  walk_end(&w);
}

/* ---- faults ---- */

static void every_memory_is_guarded(void **state) {
  (void)state;
  for (int linear = 0; linear < 2; linear++) {
    walk w = digits("auto", linear, true, RDT_ON_FAULT_RECOMPUTE, 1), t = words(linear);
    walk *both[] = {&w, &t};
    for (int i = 0; i < 2; i++) {
      expect_repair(both[i], "bit:30@output", "activation", RDT_DIAG_MEMORY);
      expect_repair(both[i], "bit:3@input", "activation", RDT_DIAG_MEMORY);
      expect_repair(both[i], "bit:22@nonlinear", "result", RDT_DIAG_TRANSIENT);
    }
    if (linear) {
      expect_repair(&w, "bit:27@weight", "weight", RDT_DIAG_MEMORY);
      expect_repair(&w, "bit:20@accum", "result", RDT_DIAG_TRANSIENT); /* before its check has seen it */
    }
    walk_end(&w), walk_end(&t);
  }
}

static void named_nodes_are_hit(void **state) {
  (void)state;
  static const char *const nodes[] = {"lookup", "norm", "weights"};
  walk w = words(true);
  rdt_run_result r;
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
    char spec[64];
    snprintf(spec, sizeof spec, "bit:20@nonlinear,layer=%s", nodes[i]);
    walk_must(rdt_model_inject(w.model, spec), &w);
    walk_must(walk_run(&w, &r), &w);
    assert_string_equal(walk_found.node, nodes[i]);
    assert_non_null(strstr(walk_found.text, "transient"));
    assert_true(as_clean(&w));
  }
  walk_must(rdt_model_inject(w.model, "bit:20@packed"), &w);
  assert_int_equal(walk_run(&w, &r), RDT_ERR_NAME);
  assert_non_null(strstr(rdt_context_error(w.ctx), "on the device"));
  walk_end(&w);
}

static void products_are_repaired(void **state) {
  (void)state;
  walk w = digits("auto", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  w.faults->linear = 2;
  walk_must(walk_run(&w, &r), &w); /* from the tape */
  assert_int_equal(w.faults->replays, 1);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_TRANSIENT);
  assert_non_null(strstr(walk_found.text, "multiprocessor 7"));
  assert_true(as_clean(&w));
  w.faults->linear = 1;
  w.faults->silent = true; /* the check was hit */
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_CHECKER);
  assert_true(as_clean(&w));
  /* Of three copies one loses: what is there is right; where it loses again it stays so, and the host computes nothing.
   */
  w.faults->outvoted = true;
  for (int again = 0; again < 2; again++) {
    w.faults->linear = 1, w.faults->linear_again = again;
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_int_equal(walk_found.first.diagnosis, again ? RDT_DIAG_PERSISTENT : RDT_DIAG_TRANSIENT);
    assert_non_null(strstr(walk_found.text, "copy 2 of three"));
    assert_non_null(strstr(walk_found.text, "outvoted"));
    assert_true(as_clean(&w));
  }
  /* All three differed on the way, and agreed when that had been computed again: nobody lost, so nobody loses twice. */
  w.faults->on_the_way = true;
  for (int again = 0; again < 2; again++) {
    w.faults->linear = 1, w.faults->linear_again = again;
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_TRANSIENT);
    assert_non_null(strstr(walk_found.text, "in all three copies"));
    assert_non_null(strstr(walk_found.text, "computed again from the last vote"));
    assert_true(as_clean(&w));
  }
  w.faults->on_the_way = w.faults->silent = w.faults->outvoted = false;
  w.faults->linear = 1;
  w.faults->linear_again = 1; /* wrong twice: the host computes it, within rounding of the device */
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_PERSISTENT);
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_true(as_clean(&w));
  walk_end(&w);
}

/* Copies on different multiprocessors: the same one loses again, so one of them is wrong every time, and is named. */
static void bad_multiprocessors_are_named(void **state) {
  (void)state;
  walk w = digits("tmr-sm", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  for (int again = 0; again < 2; again++) {
    w.faults->silent = w.faults->outvoted = true, w.faults->bad_sm = 77 + 1;
    w.faults->linear = 1, w.faults->linear_again = again;
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_int_equal(walk_found.first.diagnosis, again ? RDT_DIAG_PERSISTENT : RDT_DIAG_TRANSIENT);
    assert_int_equal(strstr(walk_found.text, "multiprocessor 77") != NULL, again);
    assert_true(as_clean(&w));
  }
  walk_end(&w);
}

/* Evaluated twice by one launch of the tape: the sum of the one that is not stored tells. */
static void ops_are_repaired(void **state) {
  (void)state;
  for (int i = 1; i <= 4; i++)
    for (int checker = 0; checker < 2; checker++) {
      walk w = words(true);
      rdt_run_result r;
      *(checker ? &w.faults->sum : &w.faults->op) = i;
      walk_must(walk_run(&w, &r), &w);
      assert_int_equal(w.faults->replays, 1);
      assert_int_equal(r.verdict, RDT_RECOMPUTED);
      assert_int_equal(walk_found.first.diagnosis, checker ? RDT_DIAG_CHECKER : RDT_DIAG_MEMORY);
      assert_true(as_clean(&w));
      walk_must(walk_run(&w, &r), &w);
      assert_int_equal(r.verdict, RDT_CLEAN);
      assert_true(as_clean(&w));
      walk_end(&w);
    }
}

/* What was wrong in a step's input changes its elements by bits whose sums cancel, those by places, too: its bit-sum is
 * what it was, and its readers have to compute again all the same. */
static void sums_that_cancel_hide_nothing(void **state) {
  static const char *const path = TEST_BUILD "/remote-cancel.onnx";
  static const int64_t one[] = {1, 1}, four[] = {1, 4}, vector[] = {4};
  const float turn[] = {1.0f, -2.0f, 1.0f, 0.0f}, shift[] = {2.0f, 4.5f, 2.0f, 1.0f};
  util_onnx m;
  (void)state;
  util_onnx_init(&m, 17);
  util_onnx_initializer(&m, "turn", RDT_F32, 2, four, turn);
  util_onnx_initializer(&m, "shift", RDT_F32, 1, vector, shift);
  util_onnx_input(&m, "x", RDT_F32, 2, one);
  util_onnx_node(&m, "Relu", "first", "x", "t", NULL);
  util_onnx_node(&m, "MatMul", "product", "t turn", "y", NULL);
  util_onnx_node(&m, "Add", "add", "y shift", "z", NULL);
  util_onnx_node(&m, "Softmax", "end", "z", "out", NULL);
  util_onnx_output(&m, "out", RDT_F32, 2, four);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  walk w = walk_start(path, "auto", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  w.in[0] = rdt_tensor_dense(rdt_alloc(1, sizeof(float)), RDT_F32, 2, one);
  *(float *)w.in[0].data = 0.75f;
  w.n_in = 1;
  walk_first_run(&w);
  w.faults->op = 1;
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_true(as_clean(&w));
  walk_end(&w);
}

/* The answer of the run before is none of this one. */
static void answers_are_missed(void **state) {
  (void)state;
  walk w = digits("auto", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  for (int tape = 0; tape < 3; tape++) {
    w.faults->mute = 1;
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_string_equal(walk_found.what, "verdict");
    assert_true(as_clean(&w));
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_CLEAN);
  }
  walk_end(&w);
}

/* A table is verified where it is read, row by row; what nobody has read waits for its turn. */
static void tables_are_verified(void **state) {
  (void)state;
  walk w = words(true);
  rdt_run_result r;
  const rdt_remote *remote = w.model->remote;
  int step = 0, table = 0;
  while (!remote->steps[step].rows) step++;
  while (remote->mirrors[table].there != remote->steps[step].prob.in[0].data) table++;
  assert_true(remote->mirrors[table].covered);
  const int64_t *ids = w.in[0].data;
  for (int row = 0; row < 11; row++) {
    bool read = false;
    for (int i = 0; i < 10; i++) read = read || ids[i] == row || ids[i] + 11 == row;
    remote->mirrors[table].there[32 * row + 13] ^= 4;
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, read ? RDT_RECOMPUTED : RDT_CLEAN);
    if (read) assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_MEMORY);
    assert_true(as_clean(&w));
    if (!read) remote->mirrors[table].there[32 * row + 13] ^= 4;
  }
  remote->steps[step].rows[ids[0]] ^= 1; /* the sum itself */
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_CHECKER);
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  walk_end(&w);
}

static void policies_hold(void **state) {
  (void)state;
  walk w = digits("auto", true, true, RDT_ON_FAULT_REPORT, 16), a = digits("auto", true, true, RDT_ON_FAULT_ABORT, 16);
  rdt_run_result r;
  rdt_tensor out;
  walk_must(rdt_model_inject(w.model, "bit:30@nonlinear,seed=3"), &w);
  assert_int_equal(walk_run(&w, &r), RDT_ERR_FAULT);
  assert_int_equal(r.verdict, RDT_DETECTED);
  walk_must(rdt_model_output(w.model, 0, &out), &w);
  w.faults->linear = 1, w.faults->silent = w.faults->outvoted = true; /* a vote has repaired it already */
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  walk_must(rdt_model_inject(a.model, "bit:30@nonlinear,seed=3"), &a);
  assert_int_equal(walk_run(&a, &r), RDT_ERR_FAULT);
  assert_int_equal(rdt_model_output(a.model, 0, &out), RDT_ERR_ARG);
  walk_must(walk_run(&a, &r), &a);
  assert_true(as_clean(&a));
  walk_end(&w), walk_end(&a);
}

/* Where a run ends at the first fault, nobody has looked at what others complain of: the next run does not hear of it.
 * A counter that was hit, without any complaint, is counted once. */
static void complaints_are_of_one_run(void **state) {
  (void)state;
  walk w = digits("auto", true, true, RDT_ON_FAULT_ABORT, 16),
       c = digits("auto", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  w.faults->products = 1000;
  assert_int_equal(walk_run(&w, &r), RDT_ERR_FAULT);
  w.faults->products = 0;
  for (int i = 0; i < 2; i++) {
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_CLEAN);
  }
  assert_true(as_clean(&w));
  rdt_cuda_verdict *hit = NULL;
  for (int i = 0; i < c.model->n_steps && !hit; i++)
    if (c.model->remote->steps[i].linear) hit = (rdt_cuda_verdict *)(uintptr_t)rdt_remote_verdict(c.model->remote, i);
  assert_non_null(hit);
  hit->sm[3] = 5;
  for (int i = 0; i < 3; i++) { /* each has its verdicts read */
    rdt_core_info list[8];
    c.faults->op = 1;
    walk_must(walk_run(&c, &r), &c);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    const size_t n = rdt_context_multiprocessors(c.ctx, list, 8);
    for (size_t k = 0; k < n; k++)
      if (list[k].core == 3) assert_int_equal(list[k].suspects, 5);
  }
  assert_int_equal(hit->sm[3], 0);
  walk_end(&w), walk_end(&c);
}

/* Nobody says which multiprocessor computes what: refused before anything runs. */
static void no_core_computes_wrongly(void **state) {
  (void)state;
  walk w = digits("auto", true, true, RDT_ON_FAULT_RECOMPUTE, 1);
  rdt_run_result r;
  const rdt_status armed = rdt_model_inject(w.model, "stuck1:22@accum,core=1");
  const rdt_status status = armed == RDT_OK ? walk_run(&w, &r) : armed;
  assert_int_equal(status, RDT_ERR_ARG);
  assert_non_null(strstr(rdt_context_error(w.ctx), "core=1: networks on a device"));
  walk_end(&w);
}

/* ---- attention ---- */

static void attention_is_one_launch(void **state) {
  static const char *const nodes[] = {"weights", "mix", "together"};
  (void)state;
  for (int turned = 0; turned < 2; turned++) {
    walk w = attention(true, "auto", turned), cpu = attention(false, "auto", turned),
         bare = attention(true, "none", turned);
    rdt_run_result r;
    rdt_tensor out;
    int fused = 0;
    assert_int_equal(w.faults->attended, 1);
    for (int i = 0; i < 3; i++) {
      walk_must(walk_run(&w, &r), &w);
      assert_int_equal(r.verdict, RDT_CLEAN);
      assert_true(as_clean(&w));
    }
    assert_int_equal(w.faults->replays, 3);
    assert_int_equal(w.faults->attended, 4);
    walk_must(walk_run(&bare, &r), &bare);
    assert_int_equal(r.verdict, RDT_UNCHECKED);
    walk_must(rdt_model_output(w.model, 0, &out), &w);
    assert_memory_equal(w.clean, bare.clean, bytes_of(&out));
    for (int64_t i = 0; i < rdt_tensor_count(&out); i++)
      assert_true(fabs(rdt_load(out.data, RDT_F16, i) - rdt_load(cpu.clean, RDT_F16, i)) <= 4e-3);
    for (size_t i = 0; i < rdt_model_node_count(w.model); i++) {
      rdt_node_info info;
      rdt_result one;
      walk_must(rdt_model_node_info(w.model, i, &info), &w);
      walk_must(rdt_model_node_result(w.model, i, &one), &w);
      assert_int_equal(one.verdict, RDT_CLEAN);
      for (int k = 0; k < 3; k++) {
        if (strcmp(info.name, nodes[k]) != 0 || (k == 2 && !turned)) continue;
        assert_string_equal(info.kernel, "cuda_attention");
        assert_string_equal(info.scheme, "dup");
        fused++;
      }
    }
    assert_int_equal(fused, turned ? 3 : 2);
    walk_must(rdt_model_time_layers(w.model, w.in, 2), &w);
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_true(as_clean(&w));
    walk_end(&w), walk_end(&cpu), walk_end(&bare);
  }
}

/* What the launch stores is wrong once, or each time; the sum that it forms; what it reads has changed at rest. */
static void attention_is_repaired(void **state) {
  (void)state;
  for (int turned = 0; turned < 2; turned++) {
    walk w = attention(true, "auto", turned);
    const char *const last = turned ? "together" : "mix";
    rdt_run_result r;
    w.faults->attention = 1;
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(w.faults->replays, 1);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_string_equal(walk_found.node, last);
    assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_MEMORY);
    assert_true(as_clean(&w));
    for (int i = 1; i <= 4; i++) { /* of ops, and of the launch */
      w.faults->sum = i;
      walk_must(walk_run(&w, &r), &w);
      assert_int_equal(r.verdict, RDT_RECOMPUTED);
      assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_CHECKER);
      assert_true(as_clean(&w));
    }
    w.faults->attention = 2; /* wrong twice: the steps' plans, within rounding of the device */
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_RECOMPUTED);
    assert_string_equal(walk_found.node, last);
    assert_int_equal(walk_found.first.diagnosis, RDT_DIAG_PERSISTENT);
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_int_equal(walk_found.events, 0);
    assert_true(as_clean(&w));
    const int before = w.faults->attended;
    char spec[64];
    snprintf(spec, sizeof spec, "bit:13@nonlinear,layer=%s", last);
    expect_repair(&w, spec, "result", RDT_DIAG_TRANSIENT);
    snprintf(spec, sizeof spec, "bit:13@input,layer=%s", last);
    expect_repair(&w, spec, "activation", RDT_DIAG_MEMORY);
    snprintf(spec, sizeof spec, "bit:13@output,layer=%s", last);
    expect_repair(&w, spec, "activation", RDT_DIAG_MEMORY);
    assert_true(w.faults->attended >= before + 36);
    walk_end(&w);
  }
}

/* A fault between the steps of a group finds them computed one by one. */
static void between_the_steps_of_attention(void **state) {
  static const char *const faults[][3] = {{"bit:13@nonlinear,layer=weights", "result", "weights"},
                                          {"bit:13@output,layer=weights", "activation", "weights"},
                                          {"bit:13@input,layer=weights", "activation", "scores"},
                                          {"bit:13@output,layer=scores", "activation", "scores"},
                                          {"bit:13@output,layer=mix", "activation", "mix"}};
  (void)state;
  walk w = attention(true, "auto", true);
  rdt_run_result r;
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    const int before = w.faults->attended;
    walk_must(rdt_model_inject(w.model, faults[i][0]), &w);
    walk_must(walk_run(&w, &r), &w);
    if (r.verdict != RDT_RECOMPUTED || strcmp(walk_found.what, faults[i][1]) != 0 ||
        strcmp(walk_found.node, faults[i][2]) != 0)
      fail_msg("%s: %s", faults[i][0], walk_found.text);
    assert_int_equal(w.faults->attended, before);
    walk_must(walk_run(&w, &r), &w);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_int_equal(w.faults->attended, before + 1);
    assert_true(as_clean(&w));
  }
  walk_end(&w);
}

/* ---- times ---- */

/* Each step by itself, with its check behind it; the runs that follow are played as ever. */
static void layers_have_times(void **state) {
  (void)state;
  walk w = words(true), cpu = digits("auto", true, false, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  rdt_result one;
  walk_must(walk_run(&w, &r), &w);
  walk_must(rdt_model_node_result(w.model, 0, &one), &w);
  assert_true(one.seconds == 0.0);
  const int played = w.faults->replays;
  walk_must(rdt_model_time_layers(w.model, w.in, 1), &w);
  assert_int_equal(w.faults->replays, played + 1); /* what warms up */
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(w.faults->replays, played + 2);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_true(as_clean(&w) && r.seconds_check == 0.0);
  int timed = 0;
  for (size_t i = 0; i < rdt_model_node_count(w.model); i++) {
    walk_must(rdt_model_node_result(w.model, i, &one), &w);
    timed += one.seconds > one.seconds_check && one.seconds_check > 0.0;
  }
  assert_true(timed >= 3); /* table, norm, softmax: a launch, and one that compares */
  assert_int_equal(rdt_model_time_layers(cpu.model, cpu.in, 1), RDT_ERR_UNSUPPORTED);
  walk_end(&w), walk_end(&cpu);
}

/* ---- what cannot be ---- */

static void wrong_indices_are_the_callers(void **state) {
  (void)state;
  walk w = words(true);
  rdt_run_result r;
  int64_t *ids = w.in[0].data, kept = ids[4];
  ids[4] = 11;
  assert_int_equal(walk_run(&w, &r), RDT_ERR_ARG);
  assert_non_null(strstr(rdt_context_error(w.ctx), "11"));
  ids[4] = kept;
  walk_must(walk_run(&w, &r), &w);
  assert_int_equal(r.verdict, RDT_CLEAN);
  assert_true(as_clean(&w));
  walk_end(&w);
}

static void a_lost_device_is_said(void **state) {
  (void)state;
  walk w = digits("auto", true, true, RDT_ON_FAULT_RECOMPUTE, 16);
  rdt_run_result r;
  w.faults->lose = 9;
  assert_int_equal(walk_run(&w, &r), RDT_ERR_DEVICE);
  assert_non_null(strstr(rdt_context_error(w.ctx), "lost"));
  walk_end(&w);
}

static void names_of_devices(void **state) {
  rdt_context *ctx;
  rdt_reason why;
  (void)state;
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  assert_int_equal(rdt_context_set_device(ctx, "cpu"), RDT_OK);
  assert_int_equal(rdt_context_set_device(ctx, "gpu"), RDT_ERR_NAME);
  assert_int_equal(rdt_context_set_device(ctx, "cuda:x"), RDT_ERR_NAME);
  assert_int_equal(rdt_context_set_device(ctx, "cuda:-1"), RDT_ERR_NAME);
  if (rdt_cuda_count(&why) == 0) {
    assert_int_equal(rdt_context_set_device(ctx, "cuda:0"), RDT_ERR_DEVICE);
    assert_non_null(strstr(rdt_context_error(ctx), "--device cpu"));
  }
  rdt_context_destroy(ctx);
}

/* A device's copies vote along k as often as the policy says, whichever of both was there first. */
static void votes_are_the_policys(void **state) {
  util_machine_faults *faults;
  rdt_context *ctx;
  rdt_policy policy = RDT_POLICY_DEFAULT;
  (void)state;
  policy.scheme = "tmr-sm", policy.checkpoints = 4;
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  rdt_context_take_machine(ctx, util_machine_open(true, &faults));
  assert_int_equal(ctx->machine->device.votes, 4);
  assert_string_equal(rdt_context_device(ctx), "cuda:0");
  policy.checkpoints = 2;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  assert_int_equal(ctx->machine->device.votes, 2);
  policy.scheme = "row", policy.checkpoints = 8;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG); /* and changes nothing */
  assert_int_equal(ctx->machine->device.votes, 2);
  policy.checkpoints = 0;
  assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_OK);
  assert_int_equal(ctx->machine->device.votes, 0); /* as many as usual */
  rdt_context_take_machine(ctx, NULL);
  assert_string_equal(rdt_context_device(ctx), "cpu");
  rdt_context_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_the_cpu),
                                     cmocka_unit_test(new_inputs_reach_the_tape),
                                     cmocka_unit_test(unprotected_says_so),
                                     cmocka_unit_test(every_memory_is_guarded),
                                     cmocka_unit_test(named_nodes_are_hit),
                                     cmocka_unit_test(products_are_repaired),
                                     cmocka_unit_test(ops_are_repaired),
                                     cmocka_unit_test(sums_that_cancel_hide_nothing),
                                     cmocka_unit_test(answers_are_missed),
                                     cmocka_unit_test(tables_are_verified),
                                     cmocka_unit_test(policies_hold),
                                     cmocka_unit_test(complaints_are_of_one_run),
                                     cmocka_unit_test(bad_multiprocessors_are_named),
                                     cmocka_unit_test(layers_have_times),
                                     cmocka_unit_test(wrong_indices_are_the_callers),
                                     cmocka_unit_test(a_lost_device_is_said),
                                     cmocka_unit_test(names_of_devices),
                                     cmocka_unit_test(votes_are_the_policys),
                                     cmocka_unit_test(no_core_computes_wrongly),
                                     cmocka_unit_test(bytes_stay_on_the_device),
                                     cmocka_unit_test(attention_is_one_launch),
                                     cmocka_unit_test(attention_is_repaired),
                                     cmocka_unit_test(between_the_steps_of_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
