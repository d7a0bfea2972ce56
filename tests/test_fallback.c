/* Layers whose checks are suspect by rounding again and again are computed twice: single products, and networks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "net/model.h"
#include "net/tensor_file.h"
#include "util_bench.h"

enum { M = UTIL_BENCH_M, K = UTIL_BENCH_K, N = UTIL_BENCH_N, MOST_RUNS = 40, LONG = 2000 };

/* lambda 1: a third of all checks is suspect. */
static rdt_policy narrow(const char *scheme, double rate) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  policy.lambda = 1.0;
  policy.suspect_rate = rate;
  return policy;
}

static void expect_right(const util_bench *w) {
  const float *a = w->a.data, *b = w->b.data, *c = w->c.data;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = 0.0;
      for (int k = 0; k < K; k++) sum += (double)a[i * K + k] * (double)b[k * N + j];
      assert_true(fabs(sum - (double)c[i * N + j]) < 1e-4);
    }
}

static bool is_dup(const util_bench *w) {
  return strcmp(rdt_plan_scheme(w->plan), "dup") == 0;
}

/* What is planted afterwards, where, and whether nothing repairs it: the caller's weights are the only ones. */
static void expect_found(util_bench *w, const char *spec, rdt_diagnosis diagnosis) {
  const size_t bytes = sizeof(float) * M * N;
  float *clean = rdt_alloc(1, bytes);
  util_bench_execute(w);
  memcpy(clean, w->c.data, bytes);
  w->told.faults = 0;
  if (rdt_plan_inject(w->plan, spec) != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(w->ctx));
  util_bench_execute(w);
  if (w->r.verdict != RDT_RECOMPUTED || w->r.diagnosis != diagnosis)
    fail_msg("%s: %s, %s", spec, rdt_verdict_name(w->r.verdict), rdt_diagnosis_name(w->r.diagnosis));
  assert_int_equal(w->told.faults, 1);
  assert_memory_equal(clean, w->c.data, bytes);
  rdt_free(clean);
}

static void a_product_falls_back_once(void **state) {
  static const char *const schemes[] = {"row", "col", "rowcol", "tile"};
  (void)state;
  for (int i = 0; i < 8; i++) {
    rdt_policy policy = narrow(schemes[i % 4], 0.005); /* tile and col have few checks a run */
    util_bench w;
    int runs = 0;
    policy.keep_weights = 1;
    util_bench_open(&w, &policy, 1 + i / 4);
    while (!is_dup(&w) && runs < LONG) {
      assert_string_equal(rdt_plan_scheme(w.plan), schemes[i % 4]);
      assert_int_equal(w.told.fallbacks, 0);
      util_bench_renew(&w, 10 + (uint64_t)runs); /* of one A no check may ever be suspect */
      util_bench_execute(&w);
      assert_int_equal(w.r.verdict, RDT_CLEAN);
      runs++;
    }
    if (runs < 4 || runs >= LONG) fail_msg("%s, %d threads: %d runs", schemes[i % 4], 1 + i / 4, runs);
    assert_int_equal(w.told.fallbacks, 1);
    assert_string_equal(w.told.scheme, "dup");
    assert_non_null(strstr(w.told.text, "computed twice from now on"));
    assert_non_null(strstr(w.told.text, schemes[i % 4]));
    expect_right(&w);
    for (int k = 0; k < 8; k++) util_bench_execute(&w);
    expect_right(&w);
    assert_int_equal(w.r.verdict, RDT_CLEAN);
    assert_int_equal(w.told.fallbacks, 1);
    assert_int_equal(w.told.faults, 0);
    expect_found(&w, "bit:30@accum,seed=3", RDT_DIAG_TRANSIENT);
    expect_found(&w, "bit:30@weight,seed=4", RDT_DIAG_MEMORY);
    expect_found(&w, "bit:20@plan,seed=5", RDT_DIAG_MEMORY);
    util_bench_close(&w);
  }
}

/* Weights that have rotted before the fallback are not taken for the right ones. */
static void rot_is_not_sealed_by_it(void **state) {
  rdt_policy policy = narrow("rowcol", 0.25);
  util_bench w;
  (void)state;
  policy.scrub_every = 0;
  util_bench_open(&w, &policy, 1);
  for (int i = 0; i < 3; i++) util_bench_execute(&w);
  const uint64_t seal = w.plan->weight_seal;
  util_bench_execute(&w);
  assert_true(is_dup(&w));
  assert_true(w.plan->weight_seal == seal);
  ((float *)w.b.data)[7] += 1.0f;
  assert_int_equal(rdt_plan_execute(w.plan, &w.a, &w.c, &w.r), RDT_ERR_FAULT);
  assert_int_equal(w.r.diagnosis, RDT_DIAG_MEMORY);
  util_bench_close(&w);
}

static void expect_none(const rdt_policy *policy) {
  util_bench w;
  util_bench_open(&w, policy, 2);
  for (int i = 0; i < MOST_RUNS; i++) util_bench_execute(&w);
  assert_int_equal(w.told.fallbacks, 0);
  assert_string_equal(rdt_plan_scheme(w.plan), policy->scheme);
  util_bench_close(&w);
}

static void not_where_it_is_off_or_nothing_is_suspect(void **state) {
  const rdt_policy off = narrow("row", 0.0);
  rdt_policy normal = narrow("row", 0.25);
  (void)state;
  expect_none(&off);
  normal.lambda = 6.0;
  expect_none(&normal);
}

static void a_share_of_runs_decides(void **state) {
  const rdt_policy policy = narrow("row", 0.5);
  const rdt_result suspect = {.verdict = RDT_CLEAN, .suspects = 9}, clean = {.verdict = RDT_CLEAN},
                   fault = {.verdict = RDT_RECOMPUTED, .suspects = 1, .faults = 1};
  util_bench w;
  (void)state;
  util_bench_open(&w, &policy, 1);
  for (int i = 0; i < 4000; i++) rdt_plan_watch(w.plan, i % 2 ? &suspect : &clean); /* half of them, and not more */
  assert_false(is_dup(&w));
  for (int i = 0; i < 4000; i++) rdt_plan_watch(w.plan, &fault); /* faults are no rounding */
  assert_false(is_dup(&w));
  int more = 0;
  while (!is_dup(&w) && more < 1000) rdt_plan_watch(w.plan, &suspect), more++;
  assert_in_range(more, 1, 8);
  assert_int_equal(w.told.fallbacks, 1);
  util_bench_close(&w);
  util_bench_open(&w, &policy, 1);
  for (int i = 0; i < 100000; i++) rdt_plan_watch(w.plan, &clean);
  more = 0;
  while (!is_dup(&w) && more < 10000) rdt_plan_watch(w.plan, &suspect), more++;
  assert_in_range(more, 300, 2000); /* the past is forgotten */
  util_bench_close(&w);
}

static void rates_are_checked(void **state) {
  rdt_context *ctx;
  (void)state;
  assert_int_equal(rdt_context_create(&ctx, 1), RDT_OK);
  const double bad[] = {-0.1, 1.0, NAN, INFINITY};
  for (int i = 0; i < 4; i++) {
    const rdt_policy policy = narrow("auto", bad[i]);
    assert_int_equal(rdt_context_set_policy(ctx, &policy), RDT_ERR_ARG);
    assert_non_null(strstr(rdt_context_error(ctx), "suspect_rate"));
  }
  rdt_context_destroy(ctx);
}

/* ---- networks ---- */

typedef struct net {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor images, out;
  util_told told;
} net;

static void run(net *w, rdt_run_result *r) {
  if (rdt_model_run(w->model, &w->images, 1, r) != RDT_OK) fail_msg("%s", rdt_context_error(w->ctx));
  assert_int_equal(rdt_model_output(w->model, 0, &w->out), RDT_OK);
}

static void open_net(net *w, const rdt_policy *policy) {
  rdt_reason why;
  memset(w, 0, sizeof *w);
  assert_int_equal(rdt_context_create(&w->ctx, 2), RDT_OK);
  assert_int_equal(rdt_context_set_policy(w->ctx, policy), RDT_OK);
  rdt_context_on_event(w->ctx, util_told_note, &w->told);
  if (rdt_tensor_file_read(TEST_DATA "/examples/digits/some.npy", &w->images, &why) != RDT_OK) fail_msg("%s", why.text);
  w->images.shape[0] = 3;
  if (rdt_model_load(w->ctx, TEST_DATA "/examples/digits/digits.onnx", &w->model) != RDT_OK)
    fail_msg("%s", rdt_context_error(w->ctx));
}

static void close_net(net *w) {
  rdt_model_free(w->model);
  rdt_context_destroy(w->ctx);
  rdt_free(w->images.data);
}

static int duplicated(const net *w) {
  int n = 0;
  for (size_t i = 0; i < rdt_model_node_count(w->model); i++) {
    const rdt_step *s = rdt_model_step(w->model, i);
    n += s->plan && rdt_kop_is_linear(s->plan->prob.op) && s->plan->scheme->id == RDT_SCHEME_DUP;
    if (s->plan) assert_in_range(s->plan->n_owned, 3, 24);
  }
  return n;
}

static void layers_of_a_network_fall_back(void **state) {
  static const struct {
    const char *spec;
    rdt_diagnosis diagnosis;
  } planted[] = {{"bit:30@accum,seed=1", RDT_DIAG_TRANSIENT},
                 {"bit:30@accum,seed=2", RDT_DIAG_TRANSIENT},
                 {"bit:30@weight,seed=3", RDT_DIAG_MEMORY},
                 {"bit:30@output,seed=4", RDT_DIAG_MEMORY},
                 {"bit:20@plan,seed=5", RDT_DIAG_MEMORY}};
  const rdt_policy wide = RDT_POLICY_DEFAULT, policy = narrow("auto", 0.25);
  net w, good;
  rdt_run_result r;
  (void)state;
  open_net(&good, &wide);
  run(&good, &r);
  open_net(&w, &policy);
  for (int i = 0; i < MOST_RUNS; i++) {
    run(&w, &r);
    assert_int_equal(r.verdict, RDT_CLEAN);
  }
  assert_true(w.told.fallbacks > 0);
  assert_int_equal(duplicated(&w), w.told.fallbacks + duplicated(&good));
  const size_t bytes = rdt_tensor_bytes(&w.out);
  for (int64_t i = 0; i < rdt_tensor_count(&w.out); i++)
    assert_true(fabsf(((float *)w.out.data)[i] - ((float *)good.out.data)[i]) < 1e-4f);
  float *clean = rdt_alloc(1, bytes);
  memcpy(clean, w.out.data, bytes);
  const int before = w.told.fallbacks;
  for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
    w.told.faults = 0;
    assert_int_equal(rdt_model_inject(w.model, planted[i].spec), RDT_OK);
    run(&w, &r);
    if (r.verdict != RDT_RECOMPUTED || w.told.fault.diagnosis != planted[i].diagnosis)
      fail_msg("%s: %s, %s", planted[i].spec, rdt_verdict_name(r.verdict), rdt_diagnosis_name(w.told.fault.diagnosis));
    assert_memory_equal(clean, w.out.data, bytes);
  }
  assert_int_equal(w.told.fallbacks, before);
  rdt_free(clean);
  close_net(&w);
  close_net(&good);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_falls_back_once),
      cmocka_unit_test(rot_is_not_sealed_by_it),
      cmocka_unit_test(not_where_it_is_off_or_nothing_is_suspect),
      cmocka_unit_test(a_share_of_runs_decides),
      cmocka_unit_test(rates_are_checked),
      cmocka_unit_test(layers_of_a_network_fall_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
