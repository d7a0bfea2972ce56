/* What every reference kernel keeps: the problem and the number of threads. Nothing in it changes after create, so one
 * state may be run by several threads at once. */
#ifndef RDT_CPU_GENERIC_STATE_H
#define RDT_CPU_GENERIC_STATE_H

#include "cpu/kernel.h"

typedef struct rdt_generic {
  rdt_problem p;
  int threads;
} rdt_generic;

rdt_status rdt_generic_create(const rdt_problem *p, int threads, void **state, rdt_reason *why);
void rdt_generic_destroy(void *state);
rdt_status rdt_generic_fixed(void *state, rdt_vault *frame);

/* Accepts where all inputs and the output have one dtype and that is computable; floats only unless integers. */
rdt_status rdt_generic_accept_alike(const rdt_problem *p, bool integers, rdt_reason *why);

/* Accepts every well-formed problem. */
rdt_status rdt_generic_accept_any(const rdt_problem *p, rdt_reason *why);

/* A row of kernels.def with that state, whose bits nothing but the problem decides. */
#define RDT_GENERIC_KERNEL(row, kop, least, accepts, runs) RDT_SLICED_KERNEL(row, kop, least, NONE, accepts, runs)
#define RDT_SLICED_KERNEL(row, kop, least, which, accepts, runs)     \
  const rdt_kernel rdt_kernel_##row = {.name = #row,                 \
                                       .op = RDT_KOP_##kop,          \
                                       .isa = RDT_ISA_##least,       \
                                       .deterministic = true,        \
                                       .slices = RDT_SLICES_##which, \
                                       .accept = accepts,            \
                                       .create = rdt_generic_create, \
                                       .run = runs,                  \
                                       .fixed = rdt_generic_fixed,   \
                                       .destroy = rdt_generic_destroy}

static inline void *rdt_at(const rdt_tensor *t, int64_t offset) {
  return (char *)t->data + offset * (int64_t)rdt_dtype_size(t->dtype);
}

/* Pixels of an image and taps of a filter, counted in row-major order over dimensions 2..: their places, their offsets.
 */
static inline void rdt_pixel_place(const rdt_tensor *t, int64_t i, int64_t *place) {
  for (int d = t->rank - 1; d >= 2; d--) {
    place[d - 2] = i % t->shape[d];
    i /= t->shape[d];
  }
}

static inline int64_t rdt_pixel_offset(const rdt_tensor *t, int64_t i) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 2; d--) {
    offset += i % t->shape[d] * t->stride[d];
    i /= t->shape[d];
  }
  return offset;
}

#endif
