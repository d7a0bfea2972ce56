/* map, batchnorm: out = f(operands) element by element; broadcast operands have stride 0. */
#include <math.h>

#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/generic/walk.h"

#define T double
#define NAME(x) x##_f64
#define SQRT sqrt
#include "cpu/generic/elementwise_body.h"

#define T float
#define NAME(x) x##_f32
#define SQRT sqrtf
#include "cpu/generic/elementwise_body.h"

#define T int32_t
#define NAME(x) x##_s32
#include "cpu/generic/elementwise_body.h"

/* A per-channel parameter as a view of the output's shape */
static rdt_tensor per_channel(const rdt_tensor *t, const rdt_tensor *out) {
  rdt_tensor view = *out;
  view.data = t->data;
  view.dtype = t->dtype;
  for (int d = 0; d < view.rank; d++) view.stride[d] = d == 1 ? t->stride[0] : 0;
  return view;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  rdt_tensor channel[RDT_WALK_VIEWS];
  const rdt_tensor *views[RDT_WALK_VIEWS] = {&o->out};
  (void)why;
  for (int i = 0; i < o->n_in; i++) {
    views[i + 1] = &o->in[i];
    if (s->p.op == RDT_KOP_BATCHNORM && i > 0) {
      channel[i] = per_channel(&o->in[i], &o->out);
      views[i + 1] = &channel[i];
    }
  }
  const rdt_walk w = rdt_walk_of(views, o->n_in + 1);
  switch (rdt_compute_type(o->out.dtype)) {
    case RDT_F64:
      run_f64(&w, &s->p, views, s->threads);
      break;
    case RDT_F32:
      run_f32(&w, &s->p, views, s->threads);
      break;
    default:
      run_s32(&w, &s->p, views, s->threads);
  }
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  return rdt_generic_accept_alike(p, p->op == RDT_KOP_MAP, why);
}

#define ROW(id, word)                                                           \
  const rdt_kernel rdt_kernel_##word##_generic = {.name = #word "_generic",     \
                                                  .op = RDT_KOP_##id,           \
                                                  .isa = RDT_ISA_GENERIC,       \
                                                  .deterministic = true,        \
                                                  .accept = accept,             \
                                                  .create = rdt_generic_create, \
                                                  .run = run,                   \
                                                  .destroy = rdt_generic_destroy};
ROW(MAP, map)
ROW(BATCHNORM, batchnorm)
