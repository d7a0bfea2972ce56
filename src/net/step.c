/* One step of a network: its plan on its operands, and the sum of what it wrote. */
#include "check/bitsum.h"
#include "net/model.h"

enum { PART = 1 << 18 }; /* bytes a thread sums at a time; a multiple of 64 */

uint64_t rdt_activation_sum(const rdt_tensor *t, int threads) {
  const size_t bytes = rdt_tensor_bytes(t);
  const int64_t parts = (int64_t)((bytes + PART - 1) / PART);
  uint64_t sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum) if (parts > 2)
  for (int64_t i = 0; i < parts; i++) {
    const size_t from = (size_t)i * PART;
    sum += rdt_bitsum_part(t->data, from, bytes - from < PART ? bytes - from : PART);
  }
  return sum;
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
