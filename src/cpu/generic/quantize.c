/* quantize: real numbers to integers of 8 bits and back, in one pass. */

#include <string.h>

#include "core/cpu_info.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/generic/walk.h"
#include "cpu/quantize.h"

/* The runs of one piece. */
typedef struct runs {
  union {
    float f32[RDT_WALK_PIECE];
    double f64[RDT_WALK_PIECE];
  } real, scale;
  int32_t integer[RDT_WALK_PIECE], zero[RDT_WALK_PIECE];
} runs;

/* Adding and subtracting 1.5 * 2^(bits of the fraction) rounds half to even what is small against it, as everything is
 * that lies within the bounds; and compilers have vectors for it. */
#define T float
#define REAL f32
#define NAME(x) x##_f32
#define ROUNDER 0x1.8p23f
#include "cpu/generic/quantize_body.h"

#define T double
#define REAL f64
#define NAME(x) x##_f64
#define ROUNDER 0x1.8p52
#include "cpu/generic/quantize_body.h"

static const rdt_quantize_table *table(void) {
#if defined(__x86_64__)
  switch (rdt_isa_detect()) {
    case RDT_ISA_AVX512:
      return &rdt_quantize_avx512;
    case RDT_ISA_AVX2:
      return &rdt_quantize_avx2;
    default:
      break;
  }
#endif
  return &rdt_quantize_generic;
}

/* Bytes and f32 side by side: they are read and written where they lie. */
static bool is_direct(const rdt_walk *w, const rdt_tensor *integers, const rdt_tensor *reals) {
  return w->step[0] == 1 && w->step[1] == 1 && reals->dtype == RDT_F32 &&
         (integers->dtype == RDT_S8 || integers->dtype == RDT_U8);
}

/* One value for all elements. */
static bool uniform(const rdt_walk *w, int view) {
  bool same = view >= w->views || w->step[view] == 0 || w->length == 1;
  for (int d = 0; d < w->rank && view < w->views; d++) same = same && w->stride[view][d] == 0;
  return same;
}

/* views: out, x, scale[, zero point] */
static void pieces(const rdt_walk *w, const rdt_problem *p, const rdt_tensor *const *views, int threads) {
  const bool back = p->fn == RDT_FN_DEQUANTIZE, same = uniform(w, 2) && uniform(w, 3);
  const rdt_dtype integer = views[back ? 1 : 0]->dtype;
  const bool wide = rdt_compute_type(views[2]->dtype) == RDT_F64;
  rdt_load_fn *const load_x = rdt_loader(views[1]->dtype), *const load_scale = rdt_loader(views[2]->dtype);
  rdt_load_fn *const load_zero = rdt_loader(integer);
  rdt_store_fn *const store = rdt_storer(views[0]->dtype);
  const int team = w->pieces < 16 ? 1 : threads;
  const bool direct = is_direct(w, views[back ? 1 : 0], views[back ? 0 : 1]) && views[2]->dtype == RDT_F32;
  const rdt_quantize_table *const t = table();
#pragma omp parallel num_threads(team)
  {
    runs r;
    int64_t known = 0; /* elements of scale and zero that are there and good for every piece */
    memset(r.zero, 0, sizeof r.zero);
#pragma omp for schedule(static)
    for (int64_t piece = 0; piece < w->pieces; piece++) {
      int64_t offset[RDT_WALK_VIEWS];
      const int64_t n = rdt_walk_piece(w, piece, offset);
      if (known < n) {
        load_scale(&r.scale, rdt_at(views[2], offset[2]), w->step[2], n);
        if (w->views > 3) load_zero(r.zero, rdt_at(views[3], offset[3]), w->step[3], n);
        if (same) known = n;
      }
      if (direct) {
        void *const y = rdt_at(views[0], offset[0]);
        const void *const x = rdt_at(views[1], offset[1]);
        if (back)
          t->dequantize(x, r.scale.f32, r.zero, y, n, integer);
        else
          t->quantize(x, r.scale.f32, r.zero, y, n, integer, p->fn == RDT_FN_REQUANTIZE);
        continue;
      }
      load_x(back ? (void *)r.integer : (void *)&r.real, rdt_at(views[1], offset[1]), w->step[1], n);
      if (back && wide)
        dequantize_f64(&r, n, integer == RDT_S32);
      else if (back)
        dequantize_f32(&r, n, integer == RDT_S32);
      else if (wide)
        quantize_f64(&r, n, integer, p->fn == RDT_FN_REQUANTIZE);
      else
        quantize_f32(&r, n, integer, p->fn == RDT_FN_REQUANTIZE);
      store(rdt_at(views[0], offset[0]), w->step[0], back ? (void *)&r.real : (void *)r.integer, n);
    }
  }
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  const rdt_tensor *views[RDT_WALK_VIEWS] = {&o->out};
  (void)why;
  for (int i = 0; i < o->n_in; i++) views[i + 1] = &o->in[i];
  const rdt_walk w = rdt_walk_of(views, o->n_in + 1);
  pieces(&w, &s->p, views, s->threads);
  return RDT_OK;
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  (void)p;
  (void)why;
  return RDT_OK; /* datatypes are as rdt_problem_check says */
}

RDT_GENERIC_KERNEL(quantize_generic, QUANTIZE, GENERIC, accept, run);
