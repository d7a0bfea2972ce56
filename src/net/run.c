/* Running a planned network, and what the caller may ask afterwards. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "net/remote.h"

/* ---- an armed fault ---- */

/* A broken core is broken for every layer. */
static rdt_status break_core(rdt_model *m) {
  int hit = 0;
  for (int i = 0; i < m->n_steps; i++) {
    rdt_step *s = &m->steps[i];
    if (s->kind != RDT_STEP_NODE || !s->plan || !rdt_fault_matches(&m->fault, s->plan->name)) continue;
    if (!rdt_plan_takes(s->plan, &m->fault)) continue;
    s->plan->broken = &m->fault;
    s->plan->injection = &m->injection;
    hit++;
  }
  return hit ? RDT_OK
             : rdt_fail(&m->ctx->error, RDT_ERR_NAME, "no node that matches layer=%s is a product or convolution",
                        m->fault.layer);
}

static rdt_status arm_step(rdt_model *m) {
  int eligible = 0;
  if (!m->armed) return RDT_OK;
  if (m->fault.core >= 0) return break_core(m);
  for (int pass = 0; pass < 2; pass++) {
    const int target = eligible ? (int)(rdt_fault_random(&m->fault, 11) % (uint64_t)eligible) : 0;
    int seen = 0;
    for (int i = 0; i < m->n_steps; i++) {
      rdt_step *s = &m->steps[i];
      if (s->kind != RDT_STEP_NODE || !s->plan || !rdt_fault_matches(&m->fault, s->plan->name)) continue;
      if (!rdt_plan_takes(s->plan, &m->fault)) continue;
      if (pass == 1 && seen == target) {
        RDT_TRY(rdt_step_hold(s, &m->ctx->error)); /* at rest, where it may strike */
        s->plan->fault = &m->fault;
        s->plan->injection = &m->injection;
      }
      seen++;
    }
    if (seen == 0)
      return rdt_fail(
          &m->ctx->error, RDT_ERR_NAME,
          "no node matches layer=%s and has the site '%s'%s: see `redoubt plan` for names, `redoubt list sites`",
          m->fault.layer, rdt_site_name(m->fault.site),
          m->fault.copies || m->fault.cores ? " and is computed three times (copies=, cores=: tmr-sm)" : "");
    eligible = seen;
  }
  return RDT_OK;
}

static void plant_in_value(rdt_step *s, rdt_site site, int v) {
  rdt_plan_plant(s->plan, site, &s->model->layout.views[v]);
}

static void plant_input(rdt_step *s) {
  if (!s->plan || !rdt_plan_armed(s->plan, RDT_SITE_INPUT)) return;
  for (int i = 0; i < s->n_reads; i++)
    if (!s->model->graph->values[s->reads[i]].data) plant_in_value(s, RDT_SITE_INPUT, s->reads[i]);
}

static void disarm(rdt_model *m) {
  for (int i = 0; i < m->n_steps; i++)
    if (m->steps[i].plan) m->steps[i].plan->fault = m->steps[i].plan->broken = NULL;
  m->armed = false;
}

/* ---- the run ---- */

/* Of an input whose value decides shapes. */
static bool value_changed(const rdt_model *m, int i, const rdt_tensor *input) {
  const int v = m->graph->inputs[i];
  const rdt_tensor *known = &m->layout.views[v];
  if (!m->graph->values[v].planned) return false;
  if (!m->layout.folded[v]) return true; /* planned without data */
  rdt_iter a = rdt_iter_begin(known), b = rdt_iter_begin(input);
  const size_t size = rdt_dtype_size(known->dtype);
  while (rdt_iter_next(&a) && rdt_iter_next(&b))
    if (memcmp((const char *)known->data + a.offset * (int64_t)size,
               (const char *)input->data + b.offset * (int64_t)size, size) != 0)
      return true;
  return false;
}

static bool shapes_changed(const rdt_model *m, const rdt_tensor *inputs) {
  if (!m->ready) return true;
  for (int i = 0; i < m->graph->n_inputs; i++)
    if (m->planned[i].dtype != inputs[i].dtype || !rdt_tensor_same_shape(&m->planned[i], &inputs[i]) ||
        !rdt_tensor_same_strides(&m->planned[i], &inputs[i]) || value_changed(m, i, &inputs[i]))
      return true;
  return false;
}

/* The verdict of the whole comes from the results, and of a whole run once more from what was raised on the way. */
static void sum_up(rdt_model *m, bool whole) {
  rdt_run_result *r = &m->last;
  bool hit;
  for (int i = 0; i < m->n_steps; i++) {
    const rdt_step *s = &m->steps[i];
    if (s->kind == RDT_STEP_NODE && (unsigned)s->result.verdict <= RDT_DETECTED) r->nodes[s->result.verdict]++;
    if (s->result.verdict > r->verdict) r->verdict = s->result.verdict;
    r->checks += s->result.checks;
    r->suspects += s->result.suspects;
    r->faults += s->result.faults;
    r->unchecked += s->result.unchecked;
    if (!m->remote) r->seconds_check += s->result.seconds_check; /* on a device checks run beside the network */
  }
  const rdt_verdict raised = rdt_ruling_read(&m->ruling, &hit);
  if (!whole || (!hit && raised == r->verdict)) return;
  rdt_model_tell(m, m->graph->path, "verdict", RDT_DIAG_CHECKER, "the verdict of a node changed in memory");
  r->verdict = raised > RDT_RECOMPUTED ? raised : RDT_RECOMPUTED;
  r->faults++;
}

/* One run over the steps. */
typedef struct walk {
  rdt_model *m;
  const rdt_tensor *inputs;
  rdt_status worst;
  rdt_reason first;
} walk;

/* false: stop here */
static bool take_step(walk *w, int i) {
  rdt_model *m = w->m;
  rdt_step *s = &m->steps[i];
  const bool report = m->ctx->policy.on_fault == RDT_ON_FAULT_REPORT;
  if (s->kind == RDT_STEP_IMPORT) s->prob.in[0].data = w->inputs[s->subject].data;
  plant_input(s);
  if (m->on_progress && s->kind == RDT_STEP_NODE)
    m->on_progress((size_t)s->subject, (size_t)m->graph->n_nodes, m->graph->nodes[s->subject].name,
                   m->on_progress_user);
  const rdt_status status = s->kind == RDT_STEP_PUBLISH ? rdt_output_publish(m, s->subject) : rdt_step_run(s);
  rdt_ruling_raise(&m->ruling, s->result.verdict);
  if (status != RDT_OK && w->worst == RDT_OK) {
    w->worst = status;
    w->first = m->ctx->error;
  }
  const bool abort = m->ctx->policy.on_fault == RDT_ON_FAULT_ABORT && s->result.faults > 0;
  if (abort && w->worst == RDT_OK)
    w->worst = rdt_fail(&w->first, RDT_ERR_FAULT, "stopped at the first fault, in node %s, as --on-fault abort asks",
                        s->plan->name);
  if (abort || (status != RDT_OK && !(status == RDT_ERR_FAULT && report))) return false;
  if (s->writes >= 0 && s->plan) plant_in_value(s, RDT_SITE_OUTPUT, s->writes);
  return true;
}

/* Outputs that step i has completed. */
static bool stream(walk *w, int i) {
  rdt_model *m = w->m;
  const rdt_graph *g = m->graph;
  for (int o = 0; o < g->n_outputs; o++) {
    if (m->steps[i].writes != g->outputs[o]) continue;
    if (!take_step(w, g->n_inputs + g->n_nodes + o)) return false;
    rdt_output_hand_out(m, o);
  }
  return true;
}

/* A published copy has waited for the last check. */
static bool verify(walk *w, int i) {
  rdt_step *s = &w->m->steps[i];
  const rdt_status status = rdt_output_verify(w->m, s->subject);
  rdt_ruling_raise(&w->m->ruling, s->result.verdict);
  if (status != RDT_OK && w->worst == RDT_OK) {
    w->worst = status;
    w->first = w->m->ctx->error;
  }
  return status == RDT_OK;
}

static rdt_status run_steps(rdt_model *m, const rdt_tensor *inputs) {
  walk w = {.m = m, .inputs = inputs, .worst = RDT_OK};
  const int before = m->graph->n_inputs + m->graph->n_nodes;
  bool on = true;
  m->ruling = rdt_ruling_clean();
  for (int i = 0; i < m->n_steps; i++) {
    m->steps[i].result = (rdt_result){.verdict = RDT_UNCHECKED, .place = {-1, -1}};
    m->steps[i].handed_out = false;
  }
  for (m->at = 0; on && m->at < before;) {
    on = take_step(&w, m->at++);
    if (on && m->on_output && m->release == RDT_RELEASE_STREAM) on = stream(&w, m->at - 1);
  }
  for (int i = before; on && i < m->n_steps; i++)
    if (!m->steps[i].handed_out) on = take_step(&w, i);
  for (int i = before; on && i < m->n_steps; i++)
    if (!m->steps[i].handed_out) on = verify(&w, i);
  if (w.worst != RDT_OK) m->ctx->error = w.first;
  return w.worst;
}

static rdt_status run_model(rdt_model *m, const rdt_tensor *inputs, size_t n, rdt_run_result *result) {
  const double started = rdt_clock();
  m->published = false;
  m->last = (rdt_run_result){.verdict = RDT_CLEAN};
  m->measuring = 0.0;
  m->injection = (rdt_injection){.done = false};
  m->ctx->error.text[0] = '\0';
  if (n != (size_t)m->graph->n_inputs)
    return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "%s takes %d inputs, got %zu", m->graph->path, m->graph->n_inputs, n);
  for (size_t i = 0; i < n; i++) {
    const char *name = m->graph->values[m->graph->inputs[i]].name;
    RDT_TRY(rdt_tensor_check(&inputs[i], name, &m->ctx->error));
    if (!inputs[i].data && rdt_tensor_count(&inputs[i]) > 0)
      return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "input %s has no data", name);
  }
  if (shapes_changed(m, inputs)) RDT_TRY(rdt_model_plan(m, inputs, n));
  rdt_status status = m->remote ? rdt_remote_arm(m->remote, &m->ctx->error) : arm_step(m);
  if (status == RDT_OK) status = m->remote ? rdt_remote_run(m->remote, inputs, &m->ctx->error) : run_steps(m, inputs);
  disarm(m);
  m->published = status == RDT_OK || (status == RDT_ERR_FAULT && m->ctx->policy.on_fault == RDT_ON_FAULT_REPORT);
  sum_up(m, m->published);
  m->last.seconds = rdt_clock() - started - m->measuring;
  if (result) *result = m->last;
  for (int i = 0; m->published && m->on_output && i < m->graph->n_outputs; i++) rdt_output_hand_out(m, i);
  return status;
}

rdt_status rdt_model_run(rdt_model *m, const rdt_tensor *inputs, size_t n, rdt_run_result *result) {
  RDT_TRY(rdt_cores_enter(m->ctx));
  const rdt_status status = run_model(m, inputs, n, result);
  rdt_cores_leave(m->ctx);
  return status;
}

rdt_status rdt_model_output(rdt_model *m, size_t i, rdt_tensor *out) {
  if (i >= (size_t)m->graph->n_outputs)
    return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "there are %d outputs, number %zu was asked for", m->graph->n_outputs,
                    i);
  if (!m->published) return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "there is no finished run to take outputs from");
  *out = m->outputs[i];
  return RDT_OK;
}

/* ---- answers ---- */

const rdt_step *rdt_model_step(const rdt_model *m, size_t i) {
  return m->ready && i < (size_t)m->graph->n_nodes ? &m->steps[m->graph->n_inputs + (int)i] : NULL;
}

size_t rdt_model_node_count(const rdt_model *m) {
  return (size_t)m->graph->n_nodes;
}

rdt_status rdt_model_node_info(const rdt_model *m, size_t i, rdt_node_info *info) {
  const rdt_step *s = rdt_model_step(m, i);
  if (!s) return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "no node %zu, or the network is not planned yet", i);
  const rdt_node *n = &m->graph->nodes[i];
  const rdt_tensor *out = &m->layout.views[n->out[0]];
  *info = (rdt_node_info){.name = n->name,
                          .op = n->label,
                          .scheme = rdt_step_scheme(s),
                          .kernel = rdt_step_kernel(s),
                          .dtype = rdt_dtype_name(out->dtype),
                          .out = *out};
  info->out.data = NULL;
  return RDT_OK;
}

rdt_status rdt_model_node_result(const rdt_model *m, size_t i, rdt_result *result) {
  const rdt_step *s = rdt_model_step(m, i);
  if (!s) return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "no node %zu, or the network is not planned yet", i);
  *result = s->result;
  return RDT_OK;
}

rdt_status rdt_model_memory_info(const rdt_model *m, rdt_model_memory *info) {
  const rdt_graph *g = m->graph;
  *info = (rdt_model_memory){.activations = m->arena.bytes, .live = m->arena.live};
  if (!m->ready) return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "the network is not planned yet");
  for (int v = 0; v < g->n_values; v++) info->constants += g->values[v].data ? g->values[v].bytes : 0;
  for (int i = 0; i < m->n_steps; i++) info->packed += rdt_plan_packed_bytes(m->steps[i].plan);
  for (int i = 0; i < g->n_outputs; i++) info->outputs += rdt_tensor_bytes(&m->outputs[i]);
  return RDT_OK;
}

rdt_status rdt_model_explain(const rdt_model *m, size_t i, rdt_choice_fn fn, void *user) {
  const rdt_step *s = rdt_model_step(m, i);
  if (!s) return rdt_fail(&m->ctx->error, RDT_ERR_ARG, "no node %zu, or the network is not planned yet", i);
  if (s->plan && !m->remote) return rdt_plan_explain(s->plan, fn, user);
  const bool remote = m->remote && (s->plan || m->remote->steps[s - m->steps].here);
  const rdt_choice choice = {.kernel = rdt_step_kernel(s),
                             .scheme = remote ? rdt_step_scheme(s) : "",
                             .taken = 1,
                             .cost = NAN,
                             .seconds = NAN,
                             .spread = {NAN, NAN},
                             .overhead = NAN,
                             .interval = {NAN, NAN},
                             .reason = rdt_step_refusal(s) ? rdt_step_refusal(s)
                                       : remote
                                           ? "what there is for it on the device"
                                           : "nothing is left to compute; what reads it verifies the memory behind it"};
  fn(&choice, user);
  return RDT_OK;
}

void rdt_model_on_progress(rdt_model *m, rdt_progress_fn fn, void *user) {
  m->on_progress = fn;
  m->on_progress_user = user;
}

rdt_status rdt_model_inject(rdt_model *m, const char *spec) {
  m->armed = false;
  if (!spec) return RDT_OK;
  RDT_TRY(rdt_fault_parse(spec, &m->fault, &m->ctx->error));
  m->armed = true;
  return RDT_OK;
}

const char *rdt_model_injected(const rdt_model *m) {
  return m->injection.text;
}

const rdt_injection *rdt_model_injection(const rdt_model *m) {
  return &m->injection;
}
