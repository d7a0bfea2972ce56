/* Times of single layers on a device. A run that is played as a whole has none, and beside one another they would be
 * each other's: so they are taken in runs of their own, step by step, each with its checks behind it. */
#include <stdlib.h>

#include "core/memory.h"
#include "net/remote.h"

enum { RUNS = 7, MARKS = 3 }; /* marks of a step: before it, behind it, behind its checks */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

rdt_status rdt_remote_mark(const rdt_remote *r, int step, int which, rdt_reason *why) {
  return r->timing ? r->machine->mark(r->machine, RDT_LANE_MAIN, MARKS * step + which, why) : RDT_OK;
}

static rdt_status take_run(rdt_remote *r, const rdt_tensor *inputs, double *whole, double *checks, rdt_reason *why) {
  RDT_TRY(rdt_remote_run(r, inputs, why));
  for (int i = 0; i < r->model->n_steps; i++) {
    const int first = MARKS * i;
    RDT_TRY(r->machine->between(r->machine, first, first + 2, &whole[i * RUNS], why));
    RDT_TRY(r->machine->between(r->machine, first + 1, first + 2, &checks[i * RUNS], why));
  }
  return RDT_OK;
}

static rdt_status take_runs(rdt_remote *r, const rdt_tensor *inputs, rdt_reason *why) {
  const int steps = r->model->n_steps;
  double *const whole = rdt_calloc((size_t)steps * RUNS, 2 * sizeof *whole), *const checks = whole + steps * RUNS;
  rdt_status status = whole ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory for times of layers");
  for (int k = 0; k < RUNS && status == RDT_OK; k++) status = take_run(r, inputs, whole + k, checks + k, why);
  for (int i = 0; i < steps && status == RDT_OK; i++) {
    qsort(whole + i * RUNS, RUNS, sizeof *whole, ascending);
    qsort(checks + i * RUNS, RUNS, sizeof *checks, ascending);
    r->steps[i].seconds = whole[i * RUNS + RUNS / 2];
    r->steps[i].seconds_check = r->protected ? checks[i * RUNS + RUNS / 2] : 0.0;
  }
  rdt_free(whole);
  return status;
}

rdt_status rdt_model_time_layers(rdt_model *m, const rdt_tensor *inputs, size_t n) {
  rdt_run_result result;
  rdt_remote *r;
  if (!m->ctx->machine)
    return rdt_fail(&m->ctx->error, RDT_ERR_UNSUPPORTED,
                    "times of layers are asked of a GPU: on the CPU every run has them");
  RDT_TRY(rdt_model_run(m, inputs, n, &result)); /* warm, and checked for what it takes */
  r = m->remote;
  r->timing = true;
  const rdt_status status = take_runs(r, inputs, &m->ctx->error);
  r->timing = false;
  return status;
}
