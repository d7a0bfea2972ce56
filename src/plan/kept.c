/* Weights of a plan without a model file behind it: a copy of its own, restored from the caller's. */
#include "core/memory.h"
#include "plan/plan.h"

rdt_status rdt_plan_keep_weights(rdt_plan *p) {
  rdt_tensor *w = &p->prob.in[1];
  p->source = *w;
  rdt_tensor copy = rdt_tensor_dense(NULL, w->dtype, w->rank, w->shape);
  copy.data = rdt_alloc((size_t)rdt_tensor_count(w), rdt_dtype_size(w->dtype));
  if (!copy.data) return RDT_ERR_NOMEM;
  rdt_tensor_copy(w, &copy);
  p->kept = copy.data;
  *w = copy;
  return RDT_OK;
}

bool rdt_plan_restore_weights(rdt_plan *p) {
  if (!p->kept) return false;
  rdt_tensor_copy(&p->source, &p->prob.in[1]);
  return rdt_tensor_seal(&p->prob.in[1], p->threads) == p->weight_seal;
}
