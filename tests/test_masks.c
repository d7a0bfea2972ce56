/* Attention behind a mask, in f32 and in 16 bits: -Inf, or the lowest number, that is added to a product is no input of
 * its check, and softmax makes zeros of it: all of it is CLEAN, and a fault is found as anywhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <redoubt/redoubt.h>

#include "core/memory.h"
#include "core/tensor.h"
#include "net/model.h"
#include "util_onnx.h"

enum { BATCH = 2, HEADS = 3, LENGTH = 19, WIDTH = 32, COUNT = BATCH * HEADS * LENGTH * WIDTH };

typedef enum mask_kind { MINUS_INF, LOWEST, ALL_HIDDEN, MASKS } mask_kind; /* ALL_HIDDEN: -Inf for a whole sequence */

typedef struct house {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor in[4];
  void *clean;
  rdt_run_result r;
} house;

static double lowest(rdt_dtype t) {
  return t == RDT_BF16 ? -0x1.fep127 : t == RDT_F16 ? -65504.0 : -0x1.fffffep127;
}

static rdt_tensor operand(rdt_dtype t, int64_t rows, int64_t cols, uint64_t seed) {
  const int64_t shape[4] = {BATCH, HEADS, rows, cols};
  static float values[COUNT];
  rdt_tensor x = rdt_tensor_dense(rdt_alloc(COUNT, rdt_dtype_size(t)), t, 4, shape);
  util_fill(values, COUNT, seed);
  for (int64_t i = 0; i < COUNT; i++) rdt_store(x.data, t, i, (double)values[i]);
  return x;
}

/* Hides the last third of the second sequence. */
static rdt_tensor mask_of(rdt_dtype t, mask_kind kind) {
  const int64_t shape[4] = {BATCH, 1, 1, LENGTH};
  rdt_tensor x = rdt_tensor_dense(rdt_alloc(BATCH * LENGTH, rdt_dtype_size(t)), t, 4, shape);
  for (int64_t i = 0; i < BATCH * LENGTH; i++) {
    const bool hidden = i >= LENGTH && (kind == ALL_HIDDEN || i % LENGTH >= LENGTH * 2 / 3);
    rdt_store(x.data, t, i, hidden ? kind == LOWEST ? lowest(t) : -INFINITY : 0.0);
  }
  return x;
}

static void build(util_onnx *m, const rdt_tensor *in) {
  static const char *const names[] = {"q", "k", "v", "mask"};
  const rdt_dtype t = in[0].dtype;
  const float root = sqrtf(WIDTH);
  uint16_t half[2];
  rdt_store(half, t == RDT_F32 ? RDT_BF16 : t, 0, (double)root);
  util_onnx_init(m, 17);
  for (int i = 0; i < 4; i++) util_onnx_input(m, names[i], t, 4, in[i].shape);
  util_onnx_initializer(m, "root", t, 0, NULL, t == RDT_F32 ? (const void *)&root : half);
  util_onnx_node(m, "MatMul", "scores", "q k", "s", NULL);
  util_onnx_node(m, "Div", NULL, "s root", "d", NULL);
  util_onnx_node(m, "Add", NULL, "d mask", "a", NULL);
  util_onnx_node(m, "Softmax", NULL, "a", "p", UTIL_ATTRS(UTIL_INT("axis", -1)));
  util_onnx_node(m, "MatMul", "values", "p v", "y", NULL);
  util_onnx_output(m, "y", t, 4, (const int64_t[]){BATCH, HEADS, LENGTH, WIDTH});
}

static rdt_tensor result(const house *h) {
  rdt_tensor out;
  assert_int_equal(rdt_model_output(h->model, 0, &out), RDT_OK);
  return out;
}

static void open_house(house *h, rdt_dtype t, mask_kind kind, int threads) {
  util_onnx m;
  *h = (house){.in = {operand(t, LENGTH, WIDTH, 1), operand(t, WIDTH, LENGTH, 2), operand(t, LENGTH, WIDTH, 3),
                      mask_of(t, kind)}};
  build(&m, h->in);
  const char *const path = TEST_BUILD "/masks.onnx";
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
  assert_int_equal(rdt_context_create(&h->ctx, threads), RDT_OK);
  if (rdt_model_load(h->ctx, path, &h->model) != RDT_OK) fail_msg("%s", rdt_context_error(h->ctx));
  if (rdt_model_run(h->model, h->in, 4, &h->r) != RDT_OK) fail_msg("%s", rdt_context_error(h->ctx));
  const rdt_tensor out = result(h);
  h->clean = memcpy(malloc(rdt_tensor_bytes(&out)), out.data, rdt_tensor_bytes(&out));
}

static void close_house(house *h) {
  rdt_model_free(h->model);
  rdt_context_destroy(h->ctx);
  for (int i = 0; i < 4; i++) rdt_free(h->in[i].data);
  free(h->clean);
}

static const rdt_dtype dtypes[] = {RDT_F32, RDT_BF16, RDT_F16};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static void masks_leave_nothing_unchecked(void **state) {
  (void)state;
  for (int d = 0; d < DTYPES; d++)
    for (mask_kind kind = MINUS_INF; kind <= LOWEST; kind++) {
      house h;
      open_house(&h, dtypes[d], kind, 1 + d % 2);
      for (size_t i = 0; i < rdt_model_node_count(h.model); i++) {
        rdt_result r;
        rdt_node_info info;
        assert_int_equal(rdt_model_node_result(h.model, i, &r), RDT_OK);
        assert_int_equal(rdt_model_node_info(h.model, i, &info), RDT_OK);
        if (r.verdict != RDT_CLEAN || r.suspects > 0)
          fail_msg("%s, mask %d: %s: verdict %d", rdt_dtype_name(dtypes[d]), (int)kind, info.name, (int)r.verdict);
      }
      assert_int_equal(h.r.verdict, RDT_CLEAN);
      const rdt_tensor out = result(&h);
      for (int64_t i = 0; i < COUNT; i++) assert_true(isfinite(rdt_load(out.data, out.dtype, i)));
      close_house(&h);
    }
}

/* In the scores that a mask hides, a fault changes nothing that leaves; the check of the product sees it all the same.
 */
static void faults_behind_masks_are_found(void **state) {
  static const char *const specs[] = {"bit:30@accum,layer=scores,at=700", "bit:30@accum,layer=values,at=5",
                                      "bit:30@accum,layer=scores,at=1500", "bit:29@accum,layer=values,at=3000"};
  (void)state;
  for (int d = 0; d < DTYPES; d++)
    for (mask_kind kind = MINUS_INF; kind <= LOWEST; kind++) {
      house h;
      open_house(&h, dtypes[d], kind, 2);
      for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        if (rdt_model_inject(h.model, specs[i]) != RDT_OK) fail_msg("%s: %s", specs[i], rdt_context_error(h.ctx));
        if (rdt_model_run(h.model, h.in, 4, &h.r) != RDT_OK) fail_msg("%s", rdt_context_error(h.ctx));
        if (h.r.verdict != RDT_RECOMPUTED)
          fail_msg("%s, mask %d, %s: verdict %d", rdt_dtype_name(dtypes[d]), (int)kind, specs[i], (int)h.r.verdict);
        const rdt_tensor out = result(&h);
        assert_memory_equal(out.data, h.clean, rdt_tensor_bytes(&out));
      }
      close_house(&h);
    }
}

/* Where everything is hidden softmax makes NaN, of which nothing can be said: not CLEAN, and no fault. */
static void what_is_no_number_is_unchecked(void **state) {
  (void)state;
  for (int d = 0; d < DTYPES; d++) {
    house h;
    open_house(&h, dtypes[d], ALL_HIDDEN, 2);
    assert_int_equal(h.r.verdict, RDT_UNCHECKED);
    assert_int_equal(h.r.faults, 0);
    close_house(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(masks_leave_nothing_unchecked),
                                     cmocka_unit_test(faults_behind_masks_are_found),
                                     cmocka_unit_test(what_is_no_number_is_unchecked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
