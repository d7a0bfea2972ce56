/* What a fault that nobody noticed had done, for campaigns: how far off it brought the step's result, as its check sees
 * it, and from where on that check complains, which is tried. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "net/remote.h"

typedef struct trial {
  rdt_remote *r;
  const rdt_remote_step *s;
  char *at;   /* the element that is varied, on the device */
  bool input; /* it is what the op reads: computed anew each time */
  rdt_dtype dtype;
  double clean;
  rdt_reason *why;
} trial;

/* With the checksums of the weights as they were: nothing is made anew of those that are varied. */
static rdt_status compute(const trial *t) {
  rdt_machine *m = t->r->machine;
  const rdt_cuda_linear_task task = rdt_remote_task(t->r, t->s);
  return m->linear_launch(m, &task, t->why);
}

/* Another value there; the finding with the largest residual, in its bound's units, listed 0: none. */
static rdt_status attempt(const trial *t, double value, double *actual, rdt_cuda_finding *worst, bool *complains) {
  rdt_machine *m = t->r->machine;
  const rdt_cuda_linear_task task = rdt_remote_task(t->r, t->s);
  rdt_cuda_verdict v;
  uint64_t bits = 0;
  double most = -1.0;
  rdt_store(&bits, t->dtype, 0, value);
  *actual = rdt_load(&bits, t->dtype, 0);
  RDT_TRY(m->put(m, RDT_LANE_MAIN, t->at, &bits, rdt_dtype_size(t->dtype), t->why));
  if (t->input) RDT_TRY(compute(t));
  RDT_TRY(m->follow(m, RDT_LANE_SIDE, t->why));
  RDT_TRY(m->linear_check(m, &task, 1, t->why));
  RDT_TRY(m->wait(m, t->why));
  RDT_TRY(m->get(m, RDT_LANE_MAIN, &v, t->s->verdict, sizeof v, t->why));
  RDT_TRY(m->clear(m, RDT_LANE_MAIN, (void *)(uintptr_t)t->s->verdict, sizeof v, t->why));
  RDT_TRY(m->wait(m, t->why));
  *complains = false;
  for (uint32_t i = 0; i < v.listed && i < RDT_CUDA_LISTED; i++) {
    const rdt_cuda_finding *l = &v.list[i];
    const double ratio = fabs((double)l->observed - (double)l->expected) / (double)l->tau2;
    if (!(ratio > most) || !isfinite(ratio)) continue;
    most = ratio;
    *worst = *l;
    *complains = true;
  }
  return RDT_OK;
}

/* Ever larger changes until the check complains, then one that is hardly larger than its bound, which hardly counts in
 * it. *scale: what the check sees of a change by 1; *bound 0: it never complains. */
static rdt_status search(const trial *t, double change, double *bound, double *scale) {
  enum { TIMES = 300 };
  rdt_cuda_finding l;
  double actual, step = fmax(2.0 * fabs(change), 1e-30);
  bool complains = false;
  *bound = *scale = 0.0;
  for (int i = 0; i < TIMES && !complains; i++, step *= 2.0) {
    RDT_TRY(attempt(t, t->clean + step, &actual, &l, &complains));
    if (!isfinite(actual)) return RDT_OK;
  }
  if (!complains) return RDT_OK;
  for (int again = 0; again < 2; again++) {
    *bound = (double)l.tau2;
    *scale = fabs((double)l.observed - (double)l.expected) / fabs(actual - t->clean);
    rdt_cuda_finding next;
    RDT_TRY(attempt(t, t->clean + 1.5 * *bound / *scale, &actual, &next, &complains));
    if (!complains) return RDT_OK;
    l = next;
  }
  return RDT_OK;
}

static rdt_status measure(trial *t, rdt_injection *hit, double *floor) {
  rdt_machine *m = t->r->machine;
  const rdt_tensor *out = &t->s->prob.out;
  const size_t bytes = rdt_tensor_bytes(out), size = rdt_dtype_size(out->dtype);
  char *results = rdt_alloc(bytes, 2);
  double scale = 1.0, bound;
  rdt_status status = results ? RDT_OK : rdt_fail(t->why, RDT_ERR_NOMEM, "out of memory to measure what a fault did");
  for (int i = 0; i < 2 && status == RDT_OK; i++) { /* as it was, and without the fault */
    if (i == 1) status = compute(t);
    if (status == RDT_OK) status = m->get(m, RDT_LANE_MAIN, results + (size_t)i * bytes, out->data, bytes, t->why);
    if (status == RDT_OK) status = m->wait(m, t->why);
  }
  hit->changed = 0;
  for (size_t at = 0; at < bytes && status == RDT_OK; at += size)
    hit->changed += memcmp(results + at, results + bytes + at, size) != 0;
  rdt_free(results);
  if (status != RDT_OK || hit->changed == 0) return status;
  RDT_TRY(search(t, hit->error, &bound, &scale));
  if (t->input && bound > 0.0) hit->error *= scale;
  hit->weighted = hit->error;
  *floor = 2.0 * bound;
  return attempt(t, t->clean, &scale, &(rdt_cuda_finding){0}, &(bool){false}); /* as it was */
}

rdt_status rdt_remote_effect(rdt_remote *r, rdt_injection *hit, double *floor, rdt_reason *why) {
  trial t = {.r = r, .why = why};
  if (r->target < 0 || (hit->site != RDT_SITE_WEIGHT && hit->site != RDT_SITE_ACCUM)) return RDT_OK;
  t.s = &r->steps[r->target];
  t.input = hit->site == RDT_SITE_WEIGHT;
  const rdt_tensor *where = t.input ? &t.s->prob.in[1] : &t.s->prob.out;
  if (!t.s->linear || !t.s->verdict) return RDT_OK;
  t.dtype = where->dtype;
  t.clean = hit->before;
  t.at = (char *)where->data + hit->element * (int64_t)rdt_dtype_size(t.dtype);
  if (t.input) { /* elements of a weight are counted as they lie in memory */
    const rdt_mirror *w = rdt_remote_weights(r, r->target);
    t.at = w->there + hit->element * (int64_t)rdt_dtype_size(t.dtype);
  }
  return measure(&t, hit, floor);
}
