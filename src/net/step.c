/* One step of a network: its plan on its operands, and the sum of what it wrote. */
#include "check/bitsum.h"
#include "net/model.h"

uint64_t rdt_activation_sum(const rdt_tensor *t, int threads) {
  return rdt_bitsum_shared(t->data, rdt_tensor_bytes(t), threads);
}

rdt_status rdt_step_run(rdt_step *s) {
  rdt_model *m = s->model;
  const rdt_operands o = {.in = s->prob.in, .n_in = s->prob.n_in, .out = s->prob.out, .epilogue = &s->prob.epilogue};
  const rdt_status status = rdt_plan_run(s->plan, &o, &s->result);
  if (status != RDT_OK && status != RDT_ERR_FAULT) return status;
  if (s->writes >= 0 && s->plan->scheme->id != RDT_SCHEME_NONE) {
    const double t = rdt_clock();
    m->sums[s->writes] = rdt_activation_sum(&m->views[s->writes], m->ctx->threads);
    s->result.seconds += rdt_clock() - t;
    s->result.seconds_check += rdt_clock() - t;
  }
  return status;
}
