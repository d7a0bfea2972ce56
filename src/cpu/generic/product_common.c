#include <string.h>

#include "cpu/generic/product.h"

void rdt_kernel_hit_apply(rdt_kernel_hit *hit, void *accumulator, rdt_dtype compute) {
  const size_t bytes = rdt_dtype_size(compute);
  uint64_t bits = 0;
  hit->before = rdt_load(accumulator, compute, 0);
  memcpy(&bits, accumulator, bytes); /* little-endian */
  bits ^= hit->fault ? rdt_fault_mask(hit->fault, bits, (int)bytes * 8) : hit->mask;
  memcpy(accumulator, &bits, bytes);
  hit->after = rdt_load(accumulator, compute, 0);
  hit->done = true;
}

rdt_status rdt_product_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_dtype a = p->in[0].dtype, b = p->in[1].dtype, c = p->out.dtype;
  const rdt_dtype acc = rdt_compute_type(a);
  const bool integers = acc == RDT_S32 && a != RDT_S32 && b != RDT_S32 && rdt_compute_type(b) == RDT_S32;
  if (!(integers && c == RDT_S32) && !(rdt_dtype_is_float(a) && a == b && (c == a || c == acc))) {
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%s of %s by %s into %s is not computed", rdt_kop_name(p->op),
                    rdt_dtype_name(a), rdt_dtype_name(b), rdt_dtype_name(c));
  }
  const rdt_tensor *const more[] = {&p->epilogue.bias, &p->epilogue.residual};
  for (int i = 0; i < 2; i++) {
    if (more[i]->rank >= 0 && rdt_compute_type(more[i]->dtype) != acc) {
      return rdt_fail(why, RDT_ERR_UNSUPPORTED, "the epilogue adds %s to %s", rdt_dtype_name(more[i]->dtype),
                      rdt_dtype_name(acc));
    }
  }
  return RDT_OK;
}
