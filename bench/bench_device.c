#include "bench_device.h"

#include "bench_common.h"
#include "core/memory.h"
#include "plan/plan.h"

rdt_status rdt_bench_device_random(rdt_machine *m, rdt_tensor *t, int64_t rows, int64_t cols, uint64_t *seed,
                                   rdt_reason *why) {
  rdt_tensor from = rdt_tensor_matrix(NULL, RDT_F16, rows, cols, cols, 0);
  if (!rdt_bench_random(&from, seed)) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  *t = from;
  t->data = NULL;
  rdt_status s = m->alloc(m, rdt_tensor_bytes(&from), &t->data, why);
  if (s == RDT_OK) s = m->put(m, RDT_LANE_MAIN, t->data, from.data, rdt_tensor_bytes(&from), why);
  if (s == RDT_OK) s = m->wait(m, why);
  rdt_free(from.data);
  return s;
}

rdt_status rdt_bench_device_record(rdt_machine *m, rdt_bench_launch_fn *launch, const void *user, void **tape,
                                   rdt_reason *why) {
  RDT_TRY(launch(m, user, why));
  RDT_TRY(m->wait(m, why));
  RDT_TRY(m->record(m, why));
  for (int k = 0; k < RDT_BENCH_LAUNCHES; k++) RDT_TRY(launch(m, user, why));
  return m->recorded(m, tape, why);
}

rdt_status rdt_bench_device_time(rdt_machine *m, void *tape, double *seconds, rdt_reason *why) {
  RDT_TRY(m->mark(m, RDT_LANE_MAIN, 0, why));
  RDT_TRY(m->replay(m, tape, why));
  RDT_TRY(m->mark(m, RDT_LANE_MAIN, 1, why));
  RDT_TRY(m->wait(m, why));
  RDT_TRY(m->between(m, 0, 1, seconds, why));
  *seconds /= RDT_BENCH_LAUNCHES;
  return RDT_OK;
}
