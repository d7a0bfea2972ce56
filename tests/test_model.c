/* The first walk: the digits network runs, a planted fault is noticed, located and repaired. */
#include <fcntl.h>
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
#include "net/model.h"
#include "net/tensor_file.h"
#include "util_onnx.h"

#define MODEL TEST_DATA "/examples/digits/digits.onnx"
#define IMAGES TEST_DATA "/examples/digits/some.npy"

typedef struct seen {
  int events;
  char what[32], node[64], text[400];
  rdt_diagnosis diagnosis;
} seen;

static void on_event(const rdt_event *e, void *user) {
  seen *s = user;
  if (s->events++ > 0) return;
  snprintf(s->what, sizeof s->what, "%s", e->what);
  snprintf(s->node, sizeof s->node, "%s", e->node);
  snprintf(s->text, sizeof s->text, "%s", e->text);
  s->diagnosis = e->diagnosis;
}

typedef struct walk {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor images;
  rdt_tensor clean; /* outputs of a run without a fault */
  seen log;
} walk;

static rdt_status run(walk *w, rdt_run_result *r) {
  w->log.events = 0;
  return rdt_model_run(w->model, &w->images, 1, r);
}

static walk start(int threads, const char *scheme, rdt_on_fault on_fault) {
  walk w = {0};
  rdt_policy policy = RDT_POLICY_DEFAULT;
  rdt_run_result r;
  rdt_reason why;
  rdt_tensor out;
  policy.scheme = scheme;
  policy.on_fault = on_fault;
  assert_int_equal(rdt_context_create(&w.ctx, threads), RDT_OK);
  assert_int_equal(rdt_context_set_policy(w.ctx, &policy), RDT_OK);
  if (rdt_tensor_file_read(IMAGES, &w.images, &why) != RDT_OK) fail_msg("%s", why.text);
  w.images.shape[0] = 3;
  if (rdt_model_load(w.ctx, MODEL, &w.model) != RDT_OK) fail_msg("%s", rdt_context_error(w.ctx));
  const rdt_status status = rdt_model_run(w.model, &w.images, 1, &r);
  if (status != RDT_OK) fail_msg("%s", rdt_context_error(w.ctx));
  assert_int_equal(r.verdict, strcmp(scheme, "none") == 0 ? RDT_UNCHECKED : RDT_CLEAN);
  assert_int_equal(rdt_model_output(w.model, 0, &out), RDT_OK);
  w.clean = out;
  w.clean.data = rdt_alloc(rdt_tensor_bytes(&out), 1);
  memcpy(w.clean.data, out.data, rdt_tensor_bytes(&out));
  return w;
}

static void end(walk *w) {
  rdt_model_free(w->model);
  rdt_context_destroy(w->ctx);
  rdt_free(w->images.data);
  rdt_free(w->clean.data);
}

static bool as_clean(walk *w) {
  rdt_tensor out;
  assert_int_equal(rdt_model_output(w->model, 0, &out), RDT_OK);
  return memcmp(out.data, w->clean.data, rdt_tensor_bytes(&out)) == 0;
}

/* Another scheme may bring another kernel: the same within rounding. */
static void bits_do_not_depend_on_threads(void **state) {
  walk one = start(1, "auto", RDT_ON_FAULT_RECOMPUTE), two = start(2, "auto", RDT_ON_FAULT_RECOMPUTE),
       dup = start(1, "dup", RDT_ON_FAULT_RECOMPUTE);
  (void)state;
  assert_memory_equal(one.clean.data, two.clean.data, rdt_tensor_bytes(&one.clean));
  for (int64_t i = 0; i < rdt_tensor_count(&one.clean); i++)
    assert_true(fabs(rdt_load(one.clean.data, RDT_F32, i) - rdt_load(dup.clean.data, RDT_F32, i)) <=
                rdt_tolerance_network(RDT_F32));
  end(&one), end(&two), end(&dup);
}

static void every_node_has_a_verdict(void **state) {
  walk w = start(2, "auto", RDT_ON_FAULT_RECOMPUTE);
  (void)state;
  assert_true(rdt_model_node_count(w.model) > 5);
  for (size_t i = 0; i < rdt_model_node_count(w.model); i++) {
    rdt_node_info info;
    rdt_result r;
    assert_int_equal(rdt_model_node_info(w.model, i, &info), RDT_OK);
    assert_int_equal(rdt_model_node_result(w.model, i, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_true(r.checks > 0 || strcmp(info.kernel, "view") == 0);
    assert_true(r.ratio <= 1.0);
    assert_string_not_equal(info.scheme, "none");
  }
  end(&w);
}

static void count_nodes(size_t done, size_t all, const char *node, void *user) {
  size_t *told = user;
  assert_int_equal(done, *told);
  assert_true(done < all && *node);
  ++*told;
}

static void progress_is_told_of_every_node(void **state) {
  walk w = start(2, "auto", RDT_ON_FAULT_RECOMPUTE);
  size_t told = 0;
  (void)state;
  rdt_model_on_progress(w.model, count_nodes, &told);
  assert_int_equal(run(&w, NULL), RDT_OK);
  assert_int_equal(told, rdt_model_node_count(w.model));
  rdt_model_on_progress(w.model, NULL, NULL);
  assert_int_equal(run(&w, NULL), RDT_OK);
  assert_int_equal(told, rdt_model_node_count(w.model));
  end(&w);
}

/* Every site, every node that has it: found where it is above the floor, and then repaired bit for bit. */
static void faults_everywhere(const char *scheme, int threads) {
  static const char *const kinds[] = {"bit:30", "bit:25", "bit", "burst:8", "random"};
  walk w = start(threads, scheme, RDT_ON_FAULT_RECOMPUTE);
  int planted = 0, found = 0;
  rdt_context_on_event(w.ctx, on_event, &w.log);
  for (int site = 0; site < RDT_SITE_COUNT; site++)
    for (int seed = 0; seed < 20; seed++) {
      char spec[96];
      rdt_run_result r;
      const bool again = site == RDT_SITE_RECOVERY; /* what is below the floor stays */
      snprintf(spec, sizeof spec, "%s@%s,seed=%d", kinds[again ? 0 : seed % 5], rdt_site_name((rdt_site)site), seed);
      assert_int_equal(rdt_model_inject(w.model, spec), RDT_OK);
      const rdt_status status = run(&w, &r);
      if (status == RDT_ERR_NAME) continue; /* no node has the site under this scheme */
      if (status != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(w.ctx));
      const rdt_injection *j = rdt_model_injection(w.model);
      assert_true(j->done);
      planted++;
      rdt_result node = {0};
      for (size_t i = 0; i < rdt_model_node_count(w.model); i++)
        if (strcmp(w.model->graph->nodes[i].name, j->node) == 0) rdt_model_node_result(w.model, i, &node);
      const bool memory =
          site == RDT_SITE_INPUT || site == RDT_SITE_OUTPUT || site == RDT_SITE_NONLINEAR || site == RDT_SITE_EPILOGUE;
      const bool above = memory ? j->before != j->after : j->changed > 0 && j->error > node.floor;
      if (above && r.verdict != RDT_RECOMPUTED)
        fail_msg("%s: missed %s, error %g, floor %g", spec, j->text, j->error, node.floor);
      if (r.verdict == RDT_RECOMPUTED) {
        found++;
        assert_true(w.log.events >= 1);
        if (rdt_site_checks((rdt_site)site) && site != RDT_SITE_PLAN && !again)
          assert_int_equal(w.log.diagnosis, RDT_DIAG_CHECKER);
        if (!as_clean(&w)) fail_msg("%s: %s, repaired, but not bit for bit", spec, j->text);
      }
      assert_int_equal(run(&w, &r), RDT_OK); /* nothing stays behind */
      assert_int_equal(r.verdict, RDT_CLEAN);
      assert_true(as_clean(&w));
    }
  assert_true(planted > 100);
  assert_true(found > planted / 2);
  end(&w);
}

static void faults_are_found_and_repaired(void **state) {
  (void)state;
  faults_everywhere("auto", 1);
  faults_everywhere("auto", 2);
  faults_everywhere("dup", 2);
}

static void a_rotten_weight_comes_back_from_the_file(void **state) {
  walk w = start(2, "auto", RDT_ON_FAULT_RECOMPUTE);
  rdt_run_result r;
  (void)state;
  rdt_context_on_event(w.ctx, on_event, &w.log);
  assert_int_equal(rdt_model_inject(w.model, "bit:30@weight,layer=conv2,seed=4"), RDT_OK);
  assert_int_equal(run(&w, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_string_equal(w.log.what, "weight");
  assert_int_equal(w.log.diagnosis, RDT_DIAG_MEMORY);
  assert_true(as_clean(&w));
  end(&w);
}

static void a_rotten_weight_whose_file_has_changed_is_not_ok(void **state) {
  char path[] = "/tmp/redoubt-model-XXXXXX", buffer[4096];
  walk w = start(1, "auto", RDT_ON_FAULT_RECOMPUTE);
  rdt_model *copy;
  rdt_run_result r;
  rdt_tensor out;
  ssize_t n;
  (void)state;
  const int to = mkstemp(path), from = open(MODEL, O_RDONLY);
  assert_true(to >= 0 && from >= 0);
  while ((n = read(from, buffer, sizeof buffer)) > 0) assert_int_equal(write(to, buffer, (size_t)n), n);
  close(to), close(from);
  assert_int_equal(rdt_model_load(w.ctx, path, &copy), RDT_OK);
  assert_int_equal(rdt_model_run(copy, &w.images, 1, &r), RDT_OK);
  util_onnx_spoil(path);
  assert_int_equal(rdt_model_inject(copy, "bit:30@weight,layer=conv2,seed=4"), RDT_OK);
  assert_int_equal(rdt_model_run(copy, &w.images, 1, &r), RDT_ERR_FAULT);
  assert_int_equal(r.verdict, RDT_DETECTED);
  assert_int_equal(rdt_model_output(copy, 0, &out), RDT_ERR_ARG); /* a wrong result is not handed out */
  rdt_model_free(copy);
  unlink(path);
  end(&w);
}

/* Packed and summed after they had changed, weights agree with their checksums: planning has to look back. */
static void weights_that_rot_while_planning_are_noticed(void **state) {
  walk w = start(2, "auto", RDT_ON_FAULT_RECOMPUTE);
  rdt_run_result r;
  rdt_reason why;
  int layers = 0;
  (void)state;
  rdt_context_on_event(w.ctx, on_event, &w.log);
  for (size_t i = 0; i < rdt_model_node_count(w.model); i++) {
    rdt_step *s = (rdt_step *)(uintptr_t)rdt_model_step(w.model, i);
    const rdt_node *n = &w.model->graph->nodes[i];
    if (n->op->protection != RDT_PROTECT_LINEAR) continue;
    const rdt_value *weights = &w.model->graph->values[n->in[1]];
    memset((char *)weights->data + weights->bytes / 2, 0x40, weights->bytes / 4);
    assert_int_equal(rdt_plan_reload(s->plan, &why), RDT_OK); /* as if it was planned now */
    assert_int_equal(run(&w, &r), RDT_OK);
    if (r.verdict == RDT_RECOMPUTED) continue; /* verified by every run */
    assert_true(r.verdict == RDT_CLEAN && !as_clean(&w));
    assert_int_equal(rdt_step_secure_weights(s, &why), RDT_OK);
    assert_int_equal(w.log.events, 1);
    assert_string_equal(w.log.node, weights->name);
    assert_non_null(strstr(w.log.text, "while planning, found and restored"));
    assert_int_equal(run(&w, &r), RDT_OK);
    assert_true(r.verdict == RDT_CLEAN && as_clean(&w));
    layers++;
  }
  assert_true(layers > 2);
  end(&w);
}

static void policies_hold(void **state) {
  rdt_run_result r;
  rdt_tensor out;
  (void)state;
  walk report = start(1, "auto", RDT_ON_FAULT_REPORT);
  assert_int_equal(rdt_model_inject(report.model, "bit:30@accum,layer=conv2,seed=1"), RDT_OK);
  assert_int_equal(run(&report, &r), RDT_ERR_FAULT);
  assert_int_equal(r.verdict, RDT_DETECTED);
  assert_int_equal(rdt_model_output(report.model, 0, &out), RDT_OK); /* on request */
  end(&report);
  walk abort = start(1, "auto", RDT_ON_FAULT_ABORT);
  assert_int_equal(rdt_model_inject(abort.model, "bit:30@accum,layer=conv2,seed=1"), RDT_OK);
  assert_int_equal(run(&abort, &r), RDT_ERR_FAULT);
  assert_int_equal(rdt_model_output(abort.model, 0, &out), RDT_ERR_ARG);
  assert_true(r.nodes[RDT_UNCHECKED] > 0); /* what was not reached is not clean */
  end(&abort);
  walk none = start(1, "none", RDT_ON_FAULT_RECOMPUTE);
  int through = 0;
  for (int seed = 0; seed < 20; seed++) {
    char spec[64];
    snprintf(spec, sizeof spec, "bit:30@accum,layer=conv2,seed=%d", seed);
    assert_int_equal(rdt_model_inject(none.model, spec), RDT_OK);
    assert_int_equal(run(&none, &r), RDT_OK);
    assert_int_equal(r.verdict, RDT_UNCHECKED);
    through += !as_clean(&none);
  }
  assert_true(through > 5); /* the faults are real: without protection they get through */
  end(&none);
}

static void nan_in_the_input_is_unchecked(void **state) {
  walk w = start(2, "auto", RDT_ON_FAULT_RECOMPUTE);
  rdt_run_result r;
  (void)state;
  ((float *)w.images.data)[5] = NAN;
  assert_int_equal(run(&w, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_UNCHECKED);
  assert_int_equal(r.faults, 0);
  assert_true(r.unchecked > 0);
  end(&w);
}

static void other_batch_sizes_are_planned_again(void **state) {
  walk w = start(2, "auto", RDT_ON_FAULT_RECOMPUTE);
  rdt_run_result r;
  rdt_tensor out;
  (void)state;
  rdt_tensor one = w.images;
  one.shape[0] = 1;
  assert_int_equal(rdt_model_run(w.model, &one, 1, &r), RDT_OK);
  assert_int_equal(rdt_model_output(w.model, 0, &out), RDT_OK);
  assert_int_equal(out.shape[0], 1);
  rdt_tensor empty = w.images;
  empty.shape[0] = 0;
  assert_int_equal(rdt_model_run(w.model, &empty, 1, &r), RDT_OK);
  assert_int_equal(rdt_model_output(w.model, 0, &out), RDT_OK);
  assert_int_equal(rdt_tensor_count(&out), 0);
  end(&w);
}

static void bad_calls_say_why(void **state) {
  walk w = start(1, "auto", RDT_ON_FAULT_RECOMPUTE);
  rdt_run_result r;
  rdt_model *none;
  (void)state;
  rdt_tensor bad = w.images;
  bad.shape[1] = 3;
  assert_int_equal(rdt_model_run(w.model, &bad, 1, &r), RDT_ERR_SHAPE);
  assert_non_null(strstr(rdt_context_error(w.ctx), "image"));
  bad = w.images;
  bad.dtype = RDT_F64;
  assert_int_equal(rdt_model_run(w.model, &bad, 1, &r), RDT_ERR_DTYPE);
  assert_int_equal(rdt_model_run(w.model, &w.images, 2, &r), RDT_ERR_ARG);
  assert_int_equal(rdt_model_load(w.ctx, "/no/such/file.onnx", &none), RDT_ERR_IO);
  assert_null(none);
  assert_int_equal(rdt_model_inject(w.model, "nonsense"), RDT_ERR_ARG);
  assert_int_equal(rdt_model_inject(w.model, "bit@accum,layer=nobody"), RDT_OK);
  assert_int_equal(rdt_model_run(w.model, &w.images, 1, &r), RDT_ERR_NAME);
  assert_int_equal(rdt_model_run(w.model, &w.images, 1, &r), RDT_OK); /* disarmed by the failed run */
  rdt_context_cancel(w.ctx);
  assert_int_equal(rdt_model_run(w.model, &w.images, 1, &r), RDT_ERR_CANCELLED);
  end(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_do_not_depend_on_threads),
      cmocka_unit_test(every_node_has_a_verdict),
      cmocka_unit_test(progress_is_told_of_every_node),
      cmocka_unit_test(faults_are_found_and_repaired),
      cmocka_unit_test(a_rotten_weight_comes_back_from_the_file),
      cmocka_unit_test(a_rotten_weight_whose_file_has_changed_is_not_ok),
      cmocka_unit_test(weights_that_rot_while_planning_are_noticed),
      cmocka_unit_test(policies_hold),
      cmocka_unit_test(nan_in_the_input_is_unchecked),
      cmocka_unit_test(other_batch_sizes_are_planned_again),
      cmocka_unit_test(bad_calls_say_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
