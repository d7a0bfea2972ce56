#include "cpu/generic/index.h"

rdt_index rdt_index_of(const rdt_problem *p, const rdt_tensor *target) {
  rdt_index ix = {.count = 0};
  while (ix.count < RDT_MAX_RANK && p->ints[ix.count] >= 0) {
    const int axis = (int)p->ints[ix.count];
    ix.axis[ix.count] = axis;
    ix.length[ix.count] = target->shape[axis];
    ix.stride[ix.count++] = target->stride[axis];
  }
  return ix;
}

rdt_tensor rdt_index_base(const rdt_problem *p, const rdt_tensor *target, const rdt_tensor *listed) {
  rdt_tensor v = *listed;
  v.data = target->data;
  v.dtype = target->dtype;
  for (int d = 0; d < v.rank; d++) {
    const int64_t from = p->ints[RDT_MAX_RANK + d];
    v.stride[d] = from < 0 ? 0 : target->stride[from];
  }
  return v;
}

rdt_status rdt_index_fail(const rdt_index *ix, int64_t wrong, int which, rdt_reason *why) {
  return rdt_fail(why, RDT_ERR_ARG, "index %lld along axis %d is not within -%lld..%lld", (long long)wrong,
                  ix->axis[which], (long long)ix->length[which], (long long)ix->length[which] - 1);
}
