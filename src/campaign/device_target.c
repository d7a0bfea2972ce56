#include "campaign/device_target.h"

size_t rdt_device_target_bytes(const rdt_device_target *t, int i) {
  return rdt_tensor_bytes(i < 2 ? &t->op.prob.in[i] : &t->op.out);
}

rdt_status rdt_device_target_fetch(rdt_device_target *t, const void *there, rdt_reason *why) {
  rdt_machine *m = t->machine;
  RDT_TRY(m->get(m, RDT_LANE_MAIN, t->op.out.data, there, rdt_device_target_bytes(t, 2), why));
  return m->wait(m, why);
}
