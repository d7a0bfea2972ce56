/* batchnorm: element by element, the parameters by channel. */
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
  const rdt_tensor *views[RDT_WALK_VIEWS] = {&o->out, &o->in[0]};
  (void)why;
  for (int i = 1; i < o->n_in; i++) {
    channel[i] = per_channel(&o->in[i], &o->out);
    views[i + 1] = &channel[i];
  }
  const rdt_walk w = rdt_walk_of(views, o->n_in + 1);
  if (rdt_compute_type(o->out.dtype) == RDT_F64)
    run_f64(&w, &s->p, views, s->threads);
  else
    run_f32(&w, &s->p, views, s->threads);
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  return rdt_generic_accept_alike(p, false, why);
}

RDT_GENERIC_KERNEL(batchnorm_generic, BATCHNORM, GENERIC, accept, run);
