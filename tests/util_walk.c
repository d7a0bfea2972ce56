#include "util_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "net/remote.h"
#include "util_onnx.h"

static void on_event(const rdt_event *e, void *user) {
  seen *s = user;
  if (s->events++ > 0) return;
  s->first = *e;
  snprintf(s->what, sizeof s->what, "%s", e->what);
  snprintf(s->node, sizeof s->node, "%s", e->node);
  snprintf(s->text, sizeof s->text, "%s", e->text);
}

seen walk_found;

void walk_must(rdt_status status, const walk *w) {
  if (status != RDT_OK) fail_msg("%s: %s", rdt_status_name(status), rdt_context_error(w->ctx));
}

rdt_status walk_run(walk *w, rdt_run_result *r) {
  walk_found = (seen){0};
  return rdt_model_run(w->model, w->in, (size_t)w->n_in, r);
}

size_t bytes_of(const rdt_tensor *t) {
  return (size_t)rdt_tensor_count(t) * rdt_dtype_size(t->dtype);
}

bool as_clean(walk *w) {
  rdt_tensor out;
  walk_must(rdt_model_output(w->model, 0, &out), w);
  return memcmp(out.data, w->clean, bytes_of(&out)) == 0;
}

walk walk_start(const char *path, const char *scheme, bool linear, bool device, rdt_on_fault on_fault, int scrub) {
  walk w = {0};
  rdt_policy policy = RDT_POLICY_DEFAULT;
  policy.scheme = scheme;
  policy.on_fault = on_fault;
  policy.scrub_every = scrub;
  assert_int_equal(rdt_context_create(&w.ctx, 1), RDT_OK);
  walk_must(rdt_context_set_policy(w.ctx, &policy), &w);
  if (device) rdt_context_take_machine(w.ctx, util_machine_open(linear, &w.faults));
  walk_must(rdt_model_load(w.ctx, path, &w.model), &w);
  return w;
}

void walk_first_run(walk *w) {
  rdt_run_result r;
  rdt_tensor out;
  rdt_context_on_event(w->ctx, on_event, &walk_found);
  walk_must(walk_run(w, &r), w);
  assert_int_equal(walk_found.events, 0);
  walk_must(rdt_model_output(w->model, 0, &out), w);
  w->clean = malloc(bytes_of(&out));
  memcpy(w->clean, out.data, bytes_of(&out));
}

void walk_end(walk *w) {
  rdt_model_free(w->model);
  rdt_context_destroy(w->ctx);
  for (int i = 0; i < w->n_in; i++) rdt_free(w->in[i].data);
  free(w->clean);
}

void halves(util_onnx *m, const char *name, int rank, const int64_t *shape, uint64_t seed) {
  float x[1024];
  uint16_t bits[1024];
  int64_t n = 1;
  for (int d = 0; d < rank; d++) n *= shape[d];
  util_fill(x, (size_t)n, seed);
  for (int64_t i = 0; i < n; i++) rdt_store(bits, RDT_F16, i, (double)x[i] * (rank > 1 ? 0.5 : 0.1));
  util_onnx_initializer(m, name, RDT_F16, rank, shape, bits);
}

void expect_repair(walk *w, const char *fault, const char *what, rdt_diagnosis diagnosis) {
  rdt_run_result r;
  for (int seed = 1; seed <= 6; seed++) {
    char spec[128];
    snprintf(spec, sizeof spec, "%s,seed=%d", fault, seed);
    walk_must(rdt_model_inject(w->model, spec), w);
    walk_must(walk_run(w, &r), w);
    if (!*rdt_model_injected(w->model)) fail_msg("%s hit nothing", spec);
    if (r.verdict == RDT_CLEAN && strstr(fault, "weight") && as_clean(w)) continue; /* nothing was multiplied with it */
    if (r.verdict != RDT_RECOMPUTED)
      fail_msg("%s (%s): %s", spec, rdt_model_injected(w->model), rdt_verdict_name(r.verdict));
    assert_true(walk_found.events >= 1);
    if (strcmp(walk_found.what, what) != 0)
      fail_msg("%s (%s): %s", spec, rdt_model_injected(w->model), walk_found.text);
    assert_int_equal(walk_found.first.diagnosis, diagnosis);
    assert_true(as_clean(w));
    walk_must(walk_run(w, &r), w);
    assert_int_equal(r.verdict, RDT_CLEAN);
    assert_int_equal(walk_found.events, 0);
    assert_true(as_clean(w));
  }
}
