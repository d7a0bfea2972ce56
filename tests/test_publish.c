/* Nothing leaves unverified: what a caller is handed during a run, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory.h"
#include "net/model.h"
#include "util_onnx.h"

enum { OUTPUTS = 3, SIDE = 24 };

typedef struct seen {
  int calls, events;
  size_t done[OUTPUTS], progress; /* nodes that had begun when it was handed out; have begun */
  size_t order[OUTPUTS];
  rdt_verdict verdict[OUTPUTS];
  rdt_diagnosis diagnosis;
  char what[32];
  int core;
  float *value[OUTPUTS]; /* what was handed out */
  rdt_model *spoil;      /* the first call spoils the verdict of its first node */
} seen;

typedef struct net {
  rdt_context *ctx;
  rdt_model *model;
  rdt_tensor x;
  float *clean[OUTPUTS];
  seen log;
} net;

static void on_event(const rdt_event *e, void *user) {
  seen *s = user;
  s->events++;
  s->diagnosis = e->diagnosis;
  s->core = e->core;
  snprintf(s->what, sizeof s->what, "%s", e->what);
}

static void on_progress(size_t done, size_t all, const char *node, void *user) {
  (void)all, (void)node;
  ((seen *)user)->progress = done + 1;
}

static void on_output(const rdt_output *o, void *user) {
  seen *s = user;
  assert_in_range(o->number, 0, OUTPUTS - 1);
  if (s->calls < OUTPUTS) s->order[s->calls] = o->number; /* of the first run; later ones are only counted */
  s->calls++;
  s->done[o->number] = s->progress;
  s->verdict[o->number] = o->verdict;
  memcpy(s->value[o->number], o->tensor.data, rdt_tensor_bytes(&o->tensor));
  if (s->spoil) s->spoil->steps[s->spoil->graph->n_inputs].result.verdict ^= 4;
  s->spoil = NULL;
}

/* x -> a (product) -> early (Relu); early -> b (product, Tanh) -> late; x -> side (Softmax). */
static void save(const char *path) {
  const int64_t shape[2] = {SIDE, SIDE};
  float w[SIDE * SIDE];
  util_onnx m;
  util_onnx_init(&m, 13);
  util_onnx_input(&m, "x", RDT_F32, 2, shape);
  util_fill(w, SIDE * SIDE, 1);
  util_onnx_initializer(&m, "w1", RDT_F32, 2, shape, w);
  util_fill(w, SIDE * SIDE, 2);
  util_onnx_initializer(&m, "w2", RDT_F32, 2, shape, w);
  util_onnx_node(&m, "MatMul", "n_a", "x w1", "a", NULL);
  util_onnx_node(&m, "Relu", "n_early", "a", "early", NULL);
  util_onnx_node(&m, "MatMul", "n_b", "early w2", "b", NULL);
  util_onnx_node(&m, "Tanh", "n_late", "b", "late", NULL);
  util_onnx_node(&m, "Softmax", "n_side", "x", "side", NULL);
  util_onnx_output(&m, "late", RDT_F32, 2, shape);
  util_onnx_output(&m, "early", RDT_F32, 2, shape);
  util_onnx_output(&m, "side", RDT_F32, 2, shape);
  util_onnx_save(&m, path);
  util_onnx_clear(&m);
}

static rdt_status run(net *n) {
  seen *s = &n->log;
  s->calls = s->events = 0;
  s->progress = 0;
  for (int i = 0; i < OUTPUTS; i++) memset(s->value[i], 0, SIDE * SIDE * sizeof(float));
  return rdt_model_run(n->model, &n->x, 1, NULL);
}

static void policy_of(net *n, rdt_on_fault on_fault, const char *scheme) {
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.on_fault = on_fault;
  policy.scheme = scheme;
  assert_int_equal(rdt_context_set_policy(n->ctx, &policy), RDT_OK);
  assert_int_equal(rdt_model_plan(n->model, &n->x, 1), RDT_OK);
}

static void start(net *n, rdt_release release) {
  char path[] = "/tmp/redoubt-publish-XXXXXX";
  *n = (net){0};
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  save(path);
  assert_int_equal(rdt_context_create(&n->ctx, 2), RDT_OK);
  assert_int_equal(rdt_model_load(n->ctx, path, &n->model), RDT_OK);
  unlink(path);
  n->x = rdt_tensor_dense(rdt_calloc(SIDE * SIDE, sizeof(float)), RDT_F32, 2, (int64_t[]){SIDE, SIDE});
  util_fill(n->x.data, SIDE * SIDE, 3);
  for (int i = 0; i < OUTPUTS; i++) {
    n->log.value[i] = rdt_calloc(SIDE * SIDE, sizeof(float));
    n->clean[i] = rdt_calloc(SIDE * SIDE, sizeof(float));
  }
  rdt_context_on_event(n->ctx, on_event, &n->log);
  rdt_model_on_progress(n->model, on_progress, &n->log);
  rdt_model_on_output(n->model, release, on_output, &n->log);
  assert_int_equal(run(n), RDT_OK);
  assert_int_equal(n->log.calls, OUTPUTS);
  for (int i = 0; i < OUTPUTS; i++) {
    rdt_tensor t;
    assert_int_equal(n->log.verdict[i], RDT_CLEAN);
    assert_int_equal(rdt_model_output(n->model, (size_t)i, &t), RDT_OK);
    assert_memory_equal(t.data, n->log.value[i], SIDE * SIDE * sizeof(float));
    memcpy(n->clean[i], t.data, SIDE * SIDE * sizeof(float));
  }
}

static void end(net *n) {
  for (int i = 0; i < OUTPUTS; i++) rdt_free(n->log.value[i]), rdt_free(n->clean[i]);
  rdt_free(n->x.data);
  rdt_model_free(n->model);
  rdt_context_destroy(n->ctx);
}

static void a_barrier_waits_for_the_last_node(void **state) {
  net n;
  (void)state;
  start(&n, RDT_RELEASE_BARRIER);
  for (int i = 0; i < OUTPUTS; i++) {
    assert_int_equal(n.log.done[i], rdt_model_node_count(n.model));
    assert_int_equal(n.log.order[i], i);
  }
  end(&n);
}

static void a_stream_does_not(void **state) {
  net n;
  (void)state;
  start(&n, RDT_RELEASE_STREAM);
  assert_true(n.log.done[1] < n.log.done[0]); /* early before late */
  assert_int_equal(n.log.order[0], 1);
  end(&n);
}

/* A fault in any node, anywhere: every value that is handed out is right. */
static void no_caller_sees_a_wrong_value(void **state) {
  static const char *const kinds[] = {"bit:30", "bit:62", "bit", "random"};
  (void)state;
  for (int release = RDT_RELEASE_BARRIER; release <= RDT_RELEASE_STREAM; release++) {
    net n;
    int repaired = 0;
    start(&n, (rdt_release)release);
    for (size_t node = 0; node < rdt_model_node_count(n.model); node++)
      for (int site = 0; site < RDT_SITE_COUNT; site++)
        for (int seed = 0; seed < 8; seed++) {
          char spec[128];
          if (!rdt_plan_has_site(rdt_model_step(n.model, node)->plan, (rdt_site)site)) continue;
          const bool again = site == RDT_SITE_RECOVERY; /* what is below the floor stays */
          snprintf(spec, sizeof spec, "%s@%s,layer=%s,seed=%d", kinds[again ? 0 : seed % 4],
                   rdt_site_name((rdt_site)site), n.model->graph->nodes[node].name, seed);
          assert_int_equal(rdt_model_inject(n.model, spec), RDT_OK);
          if (run(&n) != RDT_OK) fail_msg("%s: %s", spec, rdt_context_error(n.ctx));
          assert_int_equal(n.log.calls, OUTPUTS);
          const rdt_injection *j = rdt_model_injection(n.model);
          if (n.log.events == 0 && j->done && !rdt_site_checks((rdt_site)site)) continue; /* too small to be seen */
          repaired += n.log.events > 0;
          for (int i = 0; i < OUTPUTS; i++)
            if (memcmp(n.log.value[i], n.clean[i], SIDE * SIDE * sizeof(float)) != 0)
              fail_msg("%s: output %d was handed out wrong: %s", spec, i, j->text);
        }
    assert_true(repaired > 50);
    end(&n);
  }
}

static void what_is_wrong_is_handed_out_only_where_asked_for(void **state) {
  (void)state;
  for (int release = RDT_RELEASE_BARRIER; release <= RDT_RELEASE_STREAM; release++) {
    net n;
    start(&n, (rdt_release)release);
    policy_of(&n, RDT_ON_FAULT_REPORT, "auto");
    assert_int_equal(rdt_model_inject(n.model, "bit:30@accum,layer=n_b,seed=1"), RDT_OK);
    assert_int_equal(run(&n), RDT_ERR_FAULT);
    assert_int_equal(n.log.calls, OUTPUTS);
    assert_int_equal(n.log.verdict[0], RDT_DETECTED);
    assert_int_equal(n.log.verdict[1], RDT_CLEAN); /* not computed from it */
    assert_int_equal(n.log.verdict[2], RDT_CLEAN);
    assert_memory_not_equal(n.log.value[0], n.clean[0], SIDE * SIDE * sizeof(float));
    policy_of(&n, RDT_ON_FAULT_ABORT, "auto");
    assert_int_equal(rdt_model_inject(n.model, "bit:30@accum,layer=n_b,seed=1"), RDT_OK);
    assert_int_equal(run(&n), RDT_ERR_FAULT);
    for (int i = 0; i < n.log.calls; i++) {
      assert_int_not_equal(n.log.order[i], 0);
      assert_memory_equal(n.log.value[n.log.order[i]], n.clean[n.log.order[i]], SIDE * SIDE * sizeof(float));
    }
    if (release == RDT_RELEASE_BARRIER) assert_int_equal(n.log.calls, 0);
    if (release == RDT_RELEASE_STREAM) assert_true(n.log.calls >= 1);
    policy_of(&n, RDT_ON_FAULT_RECOMPUTE, "none");
    assert_int_equal(run(&n), RDT_OK);
    for (int i = 0; i < OUTPUTS; i++) assert_int_equal(n.log.verdict[i], RDT_UNCHECKED);
    end(&n);
  }
}

static void a_copy_that_changes_while_it_waits_is_made_again(void **state) {
  net n;
  (void)state;
  start(&n, RDT_RELEASE_BARRIER);
  for (int i = 0; i < OUTPUTS; i++) {
    n.log.events = 0;
    ((uint32_t *)n.model->outputs[i].data)[5] ^= 1u << 9;
    assert_int_equal(rdt_output_verify(n.model, i), RDT_OK);
    assert_int_equal(n.log.events, 1);
    assert_int_equal(n.log.diagnosis, RDT_DIAG_MEMORY);
    assert_int_equal(n.log.core, -1); /* nobody computed it wrongly */
    assert_memory_equal(n.model->outputs[i].data, n.clean[i], SIDE * SIDE * sizeof(float));
  }
  end(&n);
}

static void a_verdict_that_changes_while_it_waits_is_told(void **state) {
  net n;
  rdt_run_result r;
  (void)state;
  start(&n, RDT_RELEASE_STREAM);
  n.log.spoil = n.model;
  n.log.events = 0;
  assert_int_equal(rdt_model_run(n.model, &n.x, 1, &r), RDT_OK);
  assert_int_equal(r.verdict, RDT_RECOMPUTED);
  assert_int_equal(n.log.events, 1);
  assert_string_equal(n.log.what, "verdict");
  assert_int_equal(n.log.diagnosis, RDT_DIAG_CHECKER);
  end(&n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_barrier_waits_for_the_last_node),
                                     cmocka_unit_test(a_stream_does_not),
                                     cmocka_unit_test(no_caller_sees_a_wrong_value),
                                     cmocka_unit_test(what_is_wrong_is_handed_out_only_where_asked_for),
                                     cmocka_unit_test(a_copy_that_changes_while_it_waits_is_made_again),
                                     cmocka_unit_test(a_verdict_that_changes_while_it_waits_is_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
