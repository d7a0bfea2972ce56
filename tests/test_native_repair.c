/* What a check names is computed again, and nothing else: the tile is where the hit was, as small as the scheme says,
 * and its bits are those of a run without a fault. Weights that are fixed, and those that are another matrix each time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the headers that it needs */
#include <cmocka.h>

#include "core/memory.h"
#include "plan/cores.h"
#include "schemes/fused_check.h"
#include "util_problem.h"
#include "util_sample.h"

enum { M = 301, N = 290, K = 450, GAP = 3 };

static const struct {
  const char *scheme;
  int64_t size[2]; /* of what it names; 0: all, -1: a register tile */
  bool dynamic;    /* without fixed weights, too */
} ways[] = {{"row", {1, 0}, true},          {"col", {0, 1}, false},         {"rowcol", {1, 1}, false},
            {"tile", {128, 128}, false},    {"thread1", {-1, -1}, false},   {"thread2", {-1, -1}, false},
            {"replicate", {-1, -1}, false}, {"replicate1", {-1, -1}, false}};
enum { WAYS = sizeof ways / sizeof ways[0] };

typedef struct product {
  rdt_context *ctx;
  rdt_plan *plan;
  rdt_tensor in[2], out, residual;
  rdt_epilogue e;
  rdt_operands o;
  void *clean;
  size_t bytes;
} product;

static rdt_tensor matrix(rdt_dtype real, int64_t rows, int64_t cols, bool transposed, uint64_t seed) {
  util_random random = {seed};
  const int64_t count = rows * (cols + GAP) + cols * (rows + GAP);
  rdt_tensor t = rdt_tensor_matrix(rdt_alloc((size_t)count, rdt_dtype_size(real)), real, rows, cols, cols + GAP, 0);
  if (transposed) t.stride[0] = 1, t.stride[1] = rows + GAP;
  for (int64_t i = 0; i < count; i++)
    rdt_store(t.data, real, i, util_uniform(&random) * (rdt_dtype_is_float(real) ? 1.0 : 127.0));
  return t;
}

static void make(product *x, rdt_dtype real, const char *scheme, bool dynamic, int layout, int threads) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_problem p;
  rdt_result r;
  memset(x, 0, sizeof *x);
  policy.scheme = scheme;
  x->in[0] = matrix(real, M, K, layout & 1, 1);
  x->in[1] = matrix(real, K, N, layout & 2, 2);
  const rdt_dtype sums = rdt_dtype_accumulator(real);
  x->out = matrix(sums, M, N, layout & 4, 3);
  x->residual = matrix(sums, M, N, layout & 1, 4);
  x->bytes = (size_t)(M * (N + GAP) + N * (M + GAP)) * rdt_dtype_size(sums);
  x->e = RDT_EPILOGUE_NONE;
  if (rdt_dtype_is_float(real)) {
    x->e.alpha = -0.5;
    x->e.beta = 0.25;
    x->e.residual = x->residual;
  }
  x->o = (rdt_operands){.in = x->in, .n_in = 2, .out = x->out, .epilogue = &x->e};
  assert_int_equal(rdt_context_create(&x->ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(x->ctx, &policy), RDT_OK);
  assert_int_equal(rdt_problem_init(&p, RDT_KOP_GEMM, 2), RDT_OK);
  p.acc = sums;
  for (int i = 0; i < 2; i++) p.in[i] = x->in[i];
  p.in[0].data = NULL;
  if (dynamic) p.in[1].data = NULL;
  p.out = x->out;
  p.out.data = NULL;
  p.epilogue = x->e;
  if (rdt_plan_create(x->ctx, &p, "product", "Gemm", NULL, &x->plan) != RDT_OK)
    fail_msg("%s", rdt_context_error(x->ctx));
  rdt_problem_clear(&p);
  assert_string_equal(rdt_plan_scheme(x->plan), scheme);
  assert_true(x->plan->kernel_fuses && x->plan->fused);
  assert_int_equal(rdt_plan_run(x->plan, &x->o, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_CLEAN);
  x->clean = memcpy(malloc(x->bytes), x->out.data, x->bytes);
}

static void drop(product *x) {
  rdt_plan_destroy(x->plan);
  rdt_context_destroy(x->ctx);
  for (int i = 0; i < 2; i++) rdt_free(x->in[i].data);
  rdt_free(x->out.data);
  rdt_free(x->residual.data);
  free(x->clean);
}

/* A run with one hit accumulator. */
static rdt_findings hit_at(product *x, int64_t row, int64_t col) {
  const bool twice = x->out.dtype == RDT_F64;
  rdt_kernel_hit hit = {.element = row * N + col, .position = 0.6, .mask = UINT64_C(1) << (twice ? 62 : 30)};
  rdt_fused f = rdt_fused_ask(x->plan->fused);
  rdt_findings found;
  rdt_reason why = {""};
  f.hit = &hit;
  assert_int_equal(x->plan->kernel->run_fused(x->plan->state, &x->o, &f, &why), RDT_OK);
  assert_true(hit.done && !f.differ);
  assert_true(memcmp(x->clean, x->out.data, x->bytes) != 0);
  rdt_findings_init(&found);
  rdt_fused_judge(x->plan->fused, &f, &found);
  assert_true(found.suspects > 0);
  return found;
}

static void expect_tile(const product *x, int way, const rdt_findings *found, const rdt_tile *tile, int64_t row,
                        int64_t col) {
  const int64_t at[2] = {row, col}, all[2] = {M, N};
  int64_t unit[2];
  if (x->plan->kernel->unit) x->plan->kernel->unit(unit);
  for (int axis = 0; axis < 2; axis++) {
    const int64_t named = ways[way].size[axis], size = named == 0 ? all[axis] : named < 0 ? unit[axis] : named;
    const int64_t first = at[axis] / size * size, left = all[axis] - first;
    if (tile->from[axis] != first || tile->length[axis] != (left < size ? left : size))
      fail_msg("%s: axis %d: %d + %d does not name %d", ways[way].scheme, axis, (int)tile->from[axis],
               (int)tile->length[axis], (int)at[axis]);
  }
  assert_true(found->suspects <= 2);
}

static void repair(product *x, const rdt_tile *tile) {
  rdt_where where;
  rdt_findings found;
  rdt_reason why = {""};
  bool differ, rounding = true;
  memset(&where, 0, sizeof where);
  rdt_where_begin(&where, x->plan);
  rdt_findings_init(&found);
  if (rdt_plan_fuse_tile(x->plan, &where, &x->o, tile, &found, &differ, &rounding, &why) != RDT_OK)
    fail_msg("%s", why.text);
  assert_false(differ || rounding || rdt_findings_complain(&found));
  assert_true(found.checks > 0);
}

static void what_a_check_names_is_computed_again(product *x, int way) {
  static const int64_t places[][2] = {{0, 0}, {M - 1, N - 1}, {130, 129}, {127, 16}, {7, N - 2}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    rdt_tile tile;
    const rdt_findings found = hit_at(x, places[i][0], places[i][1]);
    assert_true(rdt_plan_tile(x->plan, &found, &tile));
    expect_tile(x, way, &found, &tile, places[i][0], places[i][1]);
    repair(x, &tile);
    assert_memory_equal(x->clean, x->out.data, x->bytes);
  }
}

/* All but the tile keeps what it is, whatever that is. */
static void nothing_else_is_touched(product *x) {
  const rdt_tile tile = {{125, 30}, {19, 45}};
  const size_t size = rdt_dtype_size(x->out.dtype);
  unsigned char *want = malloc(x->bytes);
  memset(x->out.data, 0xa5, x->bytes);
  memset(want, 0xa5, x->bytes);
  for (int64_t i = 0; i < tile.length[0]; i++)
    for (int64_t j = 0; j < tile.length[1]; j++) {
      const int64_t at = (tile.from[0] + i) * x->out.stride[0] + (tile.from[1] + j) * x->out.stride[1];
      memcpy(want + (size_t)at * size, (char *)x->clean + (size_t)at * size, size);
    }
  repair(x, &tile);
  assert_memory_equal(want, x->out.data, x->bytes);
  free(want);
}

static const rdt_dtype dtypes[] = {RDT_F32, RDT_F64, RDT_S8};

static void fixed_weights(void **unused) {
  (void)unused;
  for (int way = 0; way < WAYS; way++)
    for (int i = 0; i < 6; i++) {
      product x;
      if (dtypes[i % 3] == RDT_S8 && ways[way].size[0] < 0) continue; /* refused */
      if (!util_takes(way + i + i / 3, util_one_in(1, 3))) continue;
      make(&x, dtypes[i % 3], ways[way].scheme, false, (3 * way + 5 * i) % 8, 1 + i / 3);
      what_a_check_names_is_computed_again(&x, way);
      nothing_else_is_touched(&x);
      drop(&x);
    }
}

static void weights_of_each_run(void **unused) {
  (void)unused;
  for (int way = 0; way < WAYS; way++)
    for (int i = 0; ways[way].dynamic && i < 24; i++) {
      product x;
      const int l = i / 3; /* its bits are how A, B and C lie */
      if (!util_takes(i % 3 + l + l / 2 + l / 4, util_one_in(2, 4))) continue;
      make(&x, dtypes[i % 3], ways[way].scheme, true, i / 3, 1 + i / 3 % 3);
      what_a_check_names_is_computed_again(&x, way);
      nothing_else_is_touched(&x);
      for (int64_t t = 0; t < K; t++) rdt_store(x.in[1].data, x.in[1].dtype, t * x.in[1].stride[0], 0.5);
      rdt_result r; /* another B: the same plan */
      assert_int_equal(rdt_plan_run(x.plan, &x.o, &r), RDT_OK);
      assert_int_equal(r.verdict, RDT_CLEAN);
      memcpy(x.clean, x.out.data, x.bytes);
      what_a_check_names_is_computed_again(&x, way);
      drop(&x);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fixed_weights),
      cmocka_unit_test(weights_of_each_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
