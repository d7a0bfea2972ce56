/* Outputs: the caller's own copies, handed out when they have their verdict. */
#include <stdio.h>

#include "check/bitsum.h"
#include "core/memory.h"
#include "net/model.h"

static rdt_step *step_of(const rdt_model *m, int i) {
  return &m->steps[m->graph->n_inputs + m->graph->n_nodes + i];
}

static uint64_t sum_of(const rdt_model *m, int i) {
  return rdt_bitsum_shared(m->outputs[i].data, rdt_tensor_bytes(&m->outputs[i]), m->ctx->threads);
}

void rdt_model_tell(rdt_model *m, const char *node, const char *what, rdt_diagnosis diagnosis, const char *text) {
  char sentence[400];
  snprintf(sentence, sizeof sentence, "%.200s: %s, found and put in order", node, text);
  const rdt_event e = {.kind = RDT_EVENT_FAULT,
                       .node = node,
                       .op = "network",
                       .scheme = "sum",
                       .kernel = "none",
                       .what = what,
                       .place = {-1, -1},
                       .verdict = RDT_RECOMPUTED,
                       .diagnosis = diagnosis,
                       .changed = -1,
                       .text = sentence,
                       .dtype = "",
                       .element = -1,
                       .core = diagnosis == RDT_DIAG_MEMORY ? -1 : rdt_cpu_current()};
  rdt_context_emit(m->ctx, &e);
}

rdt_status rdt_output_publish(rdt_model *m, int i) {
  rdt_step *s = step_of(m, i);
  const rdt_status status = rdt_step_run(s);
  if (status == RDT_OK || status == RDT_ERR_FAULT)
    m->output_sums[i] = s->plan->out_sealed ? s->plan->out_seal : sum_of(m, i);
  return status;
}

rdt_status rdt_output_verify(rdt_model *m, int i) {
  rdt_step *s = step_of(m, i);
  const char *name = m->graph->values[m->graph->outputs[i]].name;
  if (s->plan->scheme->id == RDT_SCHEME_NONE || sum_of(m, i) == m->output_sums[i]) return RDT_OK;
  rdt_model_tell(m, name, "output", RDT_DIAG_MEMORY, "the published copy changed in memory");
  const rdt_result first = s->result;
  const rdt_status status = rdt_output_publish(m, i);
  s->result.faults += first.faults + 1;
  if (s->result.verdict < RDT_RECOMPUTED) s->result.verdict = RDT_RECOMPUTED;
  if (s->result.verdict < first.verdict) s->result.verdict = first.verdict;
  s->result.diagnosis = RDT_DIAG_MEMORY;
  if (status != RDT_OK || sum_of(m, i) == m->output_sums[i]) return status;
  return rdt_fail(&m->ctx->error, RDT_ERR_FAULT, "output %s keeps changing in memory", name);
}

/* The worst verdict of what value v was computed from; of all steps where there is no memory to find out which. */
static rdt_verdict verdict_of(const rdt_model *m, int v) {
  const rdt_graph *g = m->graph;
  rdt_verdict worst = RDT_CLEAN;
  bool *needed = rdt_calloc((size_t)g->n_values, sizeof *needed);
  if (needed) needed[v] = true;
  for (int i = m->at - 1; i >= 0; i--) {
    const rdt_step *s = &m->steps[i];
    if (needed && !needed[s->writes]) continue;
    if (s->result.verdict > worst) worst = s->result.verdict;
    if (s->kind != RDT_STEP_NODE || !needed) continue;
    const rdt_node *n = &g->nodes[s->subject];
    for (int k = 0; k < n->n_in; k++)
      if (n->in[k] >= 0) needed[n->in[k]] = true;
    if (n->residual >= 0) needed[n->residual] = true;
  }
  rdt_free(needed);
  return worst;
}

void rdt_output_hand_out(rdt_model *m, int i) {
  rdt_step *s = step_of(m, i);
  const int v = m->graph->outputs[i];
  if (s->handed_out) return;
  s->handed_out = true;
  rdt_output o = {
      .number = (size_t)i, .name = m->graph->values[v].name, .tensor = m->outputs[i], .verdict = verdict_of(m, v)};
  if (s->result.verdict > o.verdict) o.verdict = s->result.verdict;
  m->on_output(&o, m->on_output_user);
}

void rdt_model_on_output(rdt_model *m, rdt_release when, rdt_output_fn fn, void *user) {
  m->release = when;
  m->on_output = fn;
  m->on_output_user = user;
}
