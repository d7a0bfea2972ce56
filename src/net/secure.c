/* Data at rest: activations between producer and consumer, constants since they were read. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "net/constant.h"
#include "net/model.h"

/* A constant while planning: restored where it has changed, which is told. */
static rdt_status put_in_order(rdt_model *m, int v, const char *when, bool *changed, rdt_reason *why) {
  const rdt_value *value = &m->graph->values[v];
  char text[320];
  *changed = !rdt_constant_is_good(m->graph, v);
  if (!*changed) return RDT_OK;
  const double t = rdt_clock();
  rdt_rot rot = {.tiles = 1};
  const bool lost = rdt_constant_restore(m->graph, v, &rot, why) != RDT_OK;
  const bool sum = rot.tiles == 0;
  snprintf(text, sizeof text, "%.200s: %s changed in memory %s planning, %s", value->name, sum ? "checksum" : "weight",
           when, lost ? "found and not repaired" : "found and restored");
  rdt_event e = {.kind = RDT_EVENT_FAULT,
                 .node = value->name,
                 .op = "constant",
                 .scheme = "none",
                 .kernel = "none",
                 .what = sum ? "checksum" : "weight",
                 .place = {-1, -1},
                 .verdict = lost ? RDT_DETECTED : RDT_RECOMPUTED,
                 .diagnosis = sum ? RDT_DIAG_CHECKER : RDT_DIAG_MEMORY,
                 .changed = -1,
                 .text = text,
                 .dtype = rdt_dtype_name(value->dtype),
                 .rank = value->rank,
                 .element = -1,
                 .core = rdt_cpu_current(),
                 .rot = rot,
                 .n_rungs = 1,
                 .rungs = {{"secure", lost ? "lost" : "restored", rdt_clock() - t}}};
  memcpy(e.shape, value->shape, sizeof e.shape);
  rdt_context_emit(m->ctx, &e);
  return lost ? RDT_ERR_FAULT : RDT_OK;
}

rdt_status rdt_model_secure_constants(rdt_model *m, rdt_reason *why) {
  bool changed;
  for (int v = 0; v < m->graph->n_values; v++)
    if (rdt_constant_is_there(&m->graph->values[v])) RDT_TRY(put_in_order(m, v, "before", &changed, why));
  return RDT_OK;
}

/* The constant weights of a step's linear op; -1 for none. */
static int weights_of(const rdt_step *s) {
  if (s->kind != RDT_STEP_NODE || !rdt_kop_is_linear(s->prob.op)) return -1;
  const int v = s->model->graph->nodes[s->subject].in[1];
  return s->model->graph->values[v].data ? v : -1;
}

rdt_status rdt_step_hold(rdt_step *s, rdt_reason *why) {
  const int v = weights_of(s);
  if (v < 0 || s->holds) return RDT_OK;
  RDT_TRY(rdt_constant_hold(s->model->graph, v, why));
  s->holds = true;
  return RDT_OK;
}

void rdt_step_release(rdt_step *s) {
  if (s->holds) rdt_constant_release(s->model->graph, weights_of(s));
  s->holds = false;
}

/* What was packed and summed after the weights had changed would agree with itself ever after. */
rdt_status rdt_step_secure_weights(rdt_step *s, rdt_reason *why) {
  const int v = weights_of(s);
  bool changed = v >= 0 && s->plan->scheme->id != RDT_SCHEME_NONE;
  for (int tries = 0; changed && tries < 2; tries++) {
    RDT_TRY(put_in_order(s->model, v, "while", &changed, why));
    if (changed) RDT_TRY(rdt_plan_reload(s->plan, why));
  }
  return changed ? rdt_fail(why, RDT_ERR_FAULT, "weight %.100s keeps changing in memory while planning",
                            s->model->graph->values[v].name)
                 : RDT_OK;
}

/* Computed while planning: once more, from the same values. */
static rdt_status restore_folded(rdt_model *m, int v, bool *lost, rdt_reason *why) {
  const rdt_graph *g = m->graph;
  const int producer = g->values[v].producer;
  void *data = NULL;
  *lost = true;
  if (producer < 0) return rdt_fail(why, RDT_ERR_FAULT, "input %s has changed in memory", g->values[v].name), RDT_OK;
  RDT_TRY(rdt_node_evaluate(g, &g->nodes[producer], m->layout.views, &data, why));
  memcpy(m->layout.folded[v], data, rdt_tensor_bytes(&m->layout.views[v]));
  rdt_free(data);
  *lost = rdt_activation_sum(m, v) != m->sums[v];
  return RDT_OK;
}

/* Every step of this run before s once more, from the caller's inputs: memory of values that s needs no more has been
 * used again, so its producer alone may not find what it read. */
static rdt_status run_again(rdt_step *s) {
  rdt_model *m = s->model;
  const int self = (int)(s - m->steps), before = m->at < self ? m->at : self;
  rdt_result *kept = rdt_alloc((size_t)before, sizeof *kept);
  rdt_status status = RDT_OK;
  /* The steps before may use the place of what s has written. */
  const rdt_tensor *out = s->writes >= 0 ? &m->layout.views[s->writes] : NULL;
  void *written = out ? rdt_alloc(rdt_tensor_bytes(out), 1) : NULL;
  if (!kept || (out && !written)) {
    rdt_free(kept);
    rdt_free(written);
    return rdt_fail(&m->ctx->error, RDT_ERR_NOMEM, "%s: out of memory to run again", m->graph->path);
  }
  if (out) memcpy(written, out->data, rdt_tensor_bytes(out));
  const rdt_scratch_set scratch = rdt_context_scratch_push(m->ctx);
  m->again = true;
  for (int i = 0; i < before && status == RDT_OK; i++) {
    if (m->steps[i].kind == RDT_STEP_PUBLISH) break; /* handed out perhaps */
    kept[i] = m->steps[i].result;
    status = rdt_step_run(&m->steps[i]);
    m->steps[i].result = kept[i];
  }
  m->again = false;
  if (out) memcpy(out->data, written, rdt_tensor_bytes(out));
  rdt_free(written);
  rdt_context_scratch_pop(m->ctx, &scratch);
  rdt_free(kept);
  return status;
}

/* An activation that s reads, computed again. */
static rdt_status restore_activation(rdt_step *s, int v, bool *lost, rdt_reason *why) {
  rdt_model *m = s->model;
  const uint64_t expected = m->sums[v], found = rdt_activation_sum(m, v);
  *lost = true;
  if (m->layout.folded[v]) return restore_folded(m, v, lost, why);
  const rdt_status status = m->again ? RDT_ERR_FAULT : run_again(s);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  const uint64_t now = m->sums[v];
  *lost = status != RDT_OK || (now != expected && now != found); /* now == found: the sum was hit, not the data */
  if (*lost)
    rdt_fail(why, RDT_ERR_FAULT, "activation %s has changed in memory and cannot be computed again",
             m->graph->values[v].name);
  return RDT_OK;
}

/* Does the check of the step's linear op notice a change of v? Not where v is read in another role too. */
static bool covered(const rdt_step *s, int v) {
  if (!rdt_kop_is_linear(s->prob.op) || !s->plan->scheme->covers_weights) return false;
  const rdt_node *n = &s->model->graph->nodes[s->subject];
  const int *base = s->model->layout.alias;
  for (int i = 0; i < n->n_in; i++)
    if ((n->in[i] >= 0 && base[n->in[i]] == v) != (i == 1)) return false;
  return n->residual < 0 || base[n->residual] != v;
}

/* A constant that s reads: verified, and restored where it has changed. */
static rdt_status secure_constant(rdt_step *s, int v, rdt_rest *rest, rdt_reason *why) {
  rdt_graph *g = s->model->graph;
  rdt_status status = rdt_constant_hold(g, v, why);
  const bool held = status == RDT_OK;
  if (!held || !rdt_constant_is_good(g, v)) {
    rdt_rot rot = {.tiles = 1};
    rest->lost = rest->lost || !held || rdt_constant_restore(g, v, &rot, why) != RDT_OK;
    *(rot.tiles > 0 ? &rest->weight : &rest->checksum) = true; /* no tile: the sum was hit */
    if (!rest->rot.tensor) rest->rot = rot;
    status = rest->lost ? RDT_OK : rdt_plan_reload(s->plan, why);
  }
  if (held) rdt_constant_release(g, v);
  return status;
}

rdt_status rdt_step_secure(void *self, bool all, rdt_rest *rest, rdt_reason *why) {
  rdt_step *s = self;
  rdt_model *m = s->model;
  int table = -1;
  for (int i = 0; i < s->n_reads; i++) {
    const int v = s->reads[i];
    bool lost = false;
    if (m->graph->values[v].data) {
      if (!all && rdt_rows_guard(s, v))
        table = v; /* once its indices are in order */
      else if (all || !covered(s, v))
        RDT_TRY(secure_constant(s, v, rest, why));
    } else {
      /* without protection nobody has summed it */
      if (s->plan->scheme->id == RDT_SCHEME_NONE || rdt_activation_sum(m, v) == m->sums[v]) continue;
      rest->activation = true;
      RDT_TRY(restore_activation(s, v, &lost, why));
    }
    rest->lost = rest->lost || lost;
  }
  return table < 0 || rdt_rows_are_good(s) ? RDT_OK : secure_constant(s, table, rest, why);
}
