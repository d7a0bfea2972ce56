/* One step of a network: its plan on its operands, and the sum of what it wrote. */
#include <string.h>

#include "check/bitsum.h"
#include "net/model.h"
#include "net/remote.h"

uint64_t rdt_activation_sum(const rdt_model *m, int v) {
  const rdt_tensor *t = &m->layout.views[m->layout.alias[v]];
  return rdt_bitsum_shared(t->data, rdt_tensor_bytes(t), m->ctx->threads);
}

/* Of what the step wrote: the plan has it already where the check of the result read all of it. */
static uint64_t sum_of_result(const rdt_step *s) {
  const rdt_tensor *t = &s->model->layout.views[s->writes], *out = &s->prob.out;
  const bool same = out->data == t->data && rdt_tensor_bytes(out) == rdt_tensor_bytes(t);
  return s->plan->out_sealed && same ? s->plan->out_seal : rdt_activation_sum(s->model, s->writes);
}

const char *rdt_step_kernel(const rdt_step *s) {
  const rdt_remote *r = s->model->remote;
  const char *there = r ? rdt_remote_kernel(r, (int)(s - s->model->steps)) : NULL;
  return there ? there : s->plan ? s->plan->kernel->name : s->model->layout.folded[s->writes] ? "folded" : "view";
}

const char *rdt_step_scheme(const rdt_step *s) {
  const rdt_remote *r = s->model->remote;
  const int i = (int)(s - s->model->steps);
  return r && rdt_remote_kernel(r, i) ? rdt_remote_scheme(r, i) : s->plan ? s->plan->scheme_name : "sum";
}

const char *rdt_step_refusal(const rdt_step *s) {
  const rdt_remote *r = s->model->remote;
  const int i = (int)(s - s->model->steps);
  return r && r->steps[i].host ? r->steps[i].refusal : NULL;
}

rdt_status rdt_step_run(rdt_step *s) {
  rdt_model *m = s->model;
  if (!s->plan) {
    const bool off = strcmp(m->ctx->policy.scheme, "none") == 0;
    s->result = (rdt_result){.verdict = off ? RDT_UNCHECKED : RDT_CLEAN, .place = {-1, -1}};
    return RDT_OK;
  }
  const rdt_operands o = {.in = s->prob.in, .n_in = s->prob.n_in, .out = s->prob.out, .epilogue = &s->prob.epilogue};
  const rdt_status status = rdt_plan_run(s->plan, &o, &s->result);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  if (s->writes >= 0 && s->plan->scheme->id != RDT_SCHEME_NONE) {
    const double t = rdt_clock();
    m->sums[s->writes] = sum_of_result(s);
    s->result.seconds += rdt_clock() - t;
    s->result.seconds_check += rdt_clock() - t;
  }
  if (m->measure && s->writes >= 0 && s->typical == 0.0 && s->result.verdict != RDT_DETECTED) {
    const double t = rdt_clock();
    s->typical = rdt_tensor_typical(&m->layout.views[s->writes]);
    m->measuring += rdt_clock() - t;
  }
  return status;
}
