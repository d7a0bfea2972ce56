/* maxpool, avgpool: windows over n c h w; runs along the channels, which lie side by side in channels-last memory. */
#include <math.h>

#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"

enum { CHANNELS = 256 };

/* Which taps of a window fall where along one axis: [first, end) inside the image, [0, padded) inside the padded one
 * (in ceil mode the last window reaches beyond). */
typedef struct taps {
  int64_t start, first, end, padded;
} taps;

static taps taps_of(const rdt_window *w, int axis, int64_t in, int64_t out) {
  const int64_t d = w->dilation[axis], k = w->kernel[axis], start = out * w->stride[axis] - w->pad[axis];
  const int64_t inside = (in - start + d - 1) / d, padded = (in + w->pad[axis + 2] - start + d - 1) / d;
  taps t = {.start = start, .first = start < 0 ? (d - 1 - start) / d : 0};
  t.end = in <= start ? 0 : inside < k ? inside : k;
  if (t.end < t.first) t.end = t.first;
  t.padded = padded < k ? padded : k;
  return t;
}

#define T double
#define LOWEST(t) ((void)(t), -INFINITY)
#define IS_NAN(x) isnan(x)
#define NAME(x) x##_f64
#include "cpu/generic/pool_body.h"

#define T float
#define LOWEST(t) ((void)(t), -INFINITY)
#define IS_NAN(x) isnan(x)
#define NAME(x) x##_f32
#include "cpu/generic/pool_body.h"

#define T int32_t
#define LOWEST(t) ((t) == RDT_S8 ? INT8_MIN : (t) == RDT_U8 ? 0 : INT32_MIN)
#define IS_NAN(x) 0
#define NAME(x) x##_s32
#include "cpu/generic/pool_body.h"

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  (void)why;
  switch (rdt_compute_type(o->out.dtype)) {
    case RDT_F64:
      run_f64(&s->p, o, s->threads);
      break;
    case RDT_F32:
      run_f32(&s->p, o, s->threads);
      break;
    default:
      run_s32(&s->p, o, s->threads);
  }
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  return rdt_generic_accept_alike(p, p->op == RDT_KOP_MAXPOOL, why);
}

const rdt_kernel rdt_kernel_maxpool_generic = {.name = "maxpool_generic",
                                               .op = RDT_KOP_MAXPOOL,
                                               .isa = RDT_ISA_GENERIC,
                                               .deterministic = true,
                                               .accept = accept,
                                               .create = rdt_generic_create,
                                               .run = run,
                                               .destroy = rdt_generic_destroy};
const rdt_kernel rdt_kernel_avgpool_generic = {.name = "avgpool_generic",
                                               .op = RDT_KOP_AVGPOOL,
                                               .isa = RDT_ISA_GENERIC,
                                               .deterministic = true,
                                               .accept = accept,
                                               .create = rdt_generic_create,
                                               .run = run,
                                               .destroy = rdt_generic_destroy};
