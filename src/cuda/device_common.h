/* What every kernel has: arithmetic that is rounded once, integers that wrap, and how a check complains. */
#ifndef RDT_CUDA_DEVICE_COMMON_H
#define RDT_CUDA_DEVICE_COMMON_H

#include "cuda/ptx/memory.h"
#include "cuda/verdict.h"

RDT_DEVICE double rdt_mul(double x, double y) {
  return __dmul_rn(x, y);
}
RDT_DEVICE double rdt_add(double x, double y) {
  return __dadd_rn(x, y);
}
RDT_DEVICE float rdt_mul(float x, float y) {
  return __fmul_rn(x, y);
}
RDT_DEVICE float rdt_add(float x, float y) {
  return __fadd_rn(x, y);
}
RDT_DEVICE int32_t rdt_mul(int32_t x, int32_t y) {
  return (int32_t)((uint32_t)x * (uint32_t)y);
}
RDT_DEVICE int32_t rdt_add(int32_t x, int32_t y) {
  return (int32_t)((uint32_t)x + (uint32_t)y);
}

struct rdt_place_of { /* a finding */
  int row, column, rows, columns, k_first, k_last;
};

/* sm: ~0: one of several, nobody knows which. */
RDT_DEVICE void rdt_complain_of_sm(rdt_cuda_verdict *v, int complaint, rdt_place_of at, float observed, float expected,
                                   float tau2, float tau0, uint32_t sm) {
  atomicAdd(complaint == RDT_CUDA_SUSPECT ? &v->suspect : complaint == RDT_CUDA_CERTAIN ? &v->certain : &v->cannot, 1u);
  const uint32_t slot = atomicAdd(&v->listed, 1u);
  if (sm < RDT_CUDA_SMS) atomicAdd(&v->sm[sm], 1u);
  if (slot >= RDT_CUDA_LISTED) return;
  rdt_cuda_finding *f = &v->list[slot];
  f->complaint = complaint, f->sm = (int)sm;
  f->row = at.row, f->column = at.column, f->rows = at.rows, f->columns = at.columns;
  f->k_first = at.k_first, f->k_last = at.k_last;
  f->observed = observed, f->expected = expected, f->tau2 = tau2, f->tau0 = tau0;
}

RDT_DEVICE void rdt_complain_inline(rdt_cuda_verdict *v, int complaint, rdt_place_of at, float observed, float expected,
                                    float tau2, float tau0) {
  rdt_complain_of_sm(v, complaint, at, observed, expected, tau2, tau0, rdt_sm());
}

static __device__ __noinline__ void rdt_complain(rdt_cuda_verdict *v, int complaint, rdt_place_of at, float observed,
                                                 float expected, float tau2, float tau0) {
  rdt_complain_inline(v, complaint, at, observed, expected, tau2, tau0);
}

/* So many elements of an op that is no product, the first of which is at this place. complaint: RDT_CUDA_CERTAIN or
 * RDT_CUDA_CANNOT. */
RDT_DEVICE void rdt_complain_of(rdt_cuda_verdict *v, int complaint, uint32_t first, uint32_t count) {
  atomicAdd(complaint == RDT_CUDA_CERTAIN ? &v->certain : &v->cannot, count);
  const uint32_t i = atomicAdd(&v->listed, 1u);
  if (i >= RDT_CUDA_LISTED) return;
  rdt_cuda_finding *l = &v->list[i];
  l->complaint = complaint;
  l->sm = (int32_t)rdt_sm();
  l->row = (int32_t)first;
  l->column = -1;
  l->rows = l->columns = 1;
}

#endif
