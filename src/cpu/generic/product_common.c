#include <string.h>

#include "cpu/epilogue.h"
#include "cpu/generic/product.h"
#include "cpu/generic/state.h"

void rdt_kernel_hit_apply(rdt_kernel_hit *hit, void *accumulator, rdt_dtype compute) {
  const size_t bytes = rdt_dtype_size(compute);
  uint64_t bits = 0;
  hit->before = rdt_load(accumulator, compute, 0);
  memcpy(&bits, accumulator, bytes); /* little-endian */
  bits ^= hit->fault ? rdt_fault_mask(hit->fault, bits, compute) : hit->mask;
  memcpy(accumulator, &bits, bytes);
  hit->after = rdt_load(accumulator, compute, 0);
  hit->done = true;
}

void rdt_product_centre(const rdt_product *q, int side, void *run, int64_t n) {
  const uint32_t zero = (uint32_t)q->p->zero[side];
  uint32_t *const x = run;
  for (int64_t i = 0; zero && i < n; i++) x[i] -= zero;
}

void rdt_product_requantize(const rdt_product *q, int64_t channel, int64_t offset, int64_t stride, const void *sums,
                            int64_t n) {
  const rdt_epilogue *e = q->o->epilogue;
  const rdt_tensor *out = &q->o->out;
  for (int64_t i = 0; i < n; i++) {
    const int32_t bias = e->bias.rank >= 0 ? ((const int32_t *)e->bias.data)[(channel + i) * e->bias.stride[0]] : 0;
    const float factor = ((const float *)e->factor.data)[(channel + i) * e->factor.stride[0]];
    float x = (float)((const int32_t *)sums)[i];
    if (e->bias.rank >= 0) x = x + (float)bias;
    rdt_requantize(&x, &factor, 1, e->zero, out->dtype, rdt_at(out, offset + i * stride));
  }
}

void rdt_requantize(const float *x, const float *factor, int64_t n, int32_t zero, rdt_dtype to, void *dst) {
  const float rounder = 0x1.8p23f, z = (float)zero; /* as cpu/generic/quantize.c rounds */
  const float low = (to == RDT_S8 ? -128.0f : 0.0f) - z, high = (to == RDT_S8 ? 127.0f : 255.0f) - z;
  uint8_t *const y = dst;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    const float v = x[i] * factor[i], above = v > low ? v : low, within = above < high ? above : high;
    y[i] = (uint8_t)((int32_t)((within + rounder) - rounder) + zero);
  }
}

rdt_status rdt_product_accept(const rdt_problem *p, rdt_reason *why) {
  const rdt_dtype a = p->in[0].dtype, b = p->in[1].dtype, c = p->out.dtype;
  const rdt_dtype acc = rdt_compute_type(a);
  const bool integers = acc == RDT_S32 && a != RDT_S32 && b != RDT_S32 && rdt_compute_type(b) == RDT_S32;
  const bool f8 = rdt_dtype_is_f8(a) && rdt_dtype_is_f8(b) && (c == acc || rdt_dtype_is_half(c));
  if (!f8 && !(integers && (c == RDT_S32 || p->epilogue.factor.rank >= 0)) &&
      !(rdt_dtype_is_float(a) && a == b && (c == a || c == acc))) {
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
