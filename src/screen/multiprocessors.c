/* The multiprocessors of a GPU, all of them at the same time: a launch has each compute the same product some times. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/context.h"
#include "core/memory.h"
#include "screen/screen.h"

static const double slice = 0.05; /* seconds of a product, then comes the next */
enum { MOST_ROUNDS = 1 << 20 };

typedef struct burn {
  const rdt_screen_job *job;
  rdt_screen *s;
  rdt_sms_strike strike;
  bool struck;
  rdt_sms_found *found, *again; /* by unit */
  bool *fresh;                  /* by unit: a product is wrong there the first time */
  bool *seen;                   /* by unit, path, known product: it was */
  int path, known;
} burn;

static rdt_status form(void *self, rdt_dtype t, rdt_known_pattern pattern, rdt_known_size size, rdt_known *k,
                       rdt_reason *why) {
  (void)self;
  return rdt_known_create(t, pattern, size, k, why);
}

static rdt_status list(const rdt_sms *m, int level, rdt_screen *s, rdt_reason *why) {
  rdt_dtype dtypes[RDT_DTYPE_COUNT];
  bool seen[RDT_DTYPE_COUNT] = {false};
  int n = 0;
  s->paths = rdt_calloc((size_t)m->n_paths, sizeof *s->paths);
  s->units = rdt_calloc((size_t)m->n_units, sizeof *s->units);
  if (!s->paths || !s->units) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  s->n_paths = m->n_paths, s->n_units = m->n_units;
  for (int i = 0; i < m->n_units; i++) s->units[i] = (rdt_screen_unit){.core = m->units[i], .clock = NAN};
  for (int i = 0; i < m->n_paths; i++) {
    const rdt_dtype t = m->paths[i].dtype;
    s->paths[i].dtype = t;
    snprintf(s->paths[i].name, sizeof s->paths[i].name, "%s", m->paths[i].name);
    if (!seen[t]) dtypes[n++] = t;
    seen[t] = true;
  }
  return rdt_screen_list_known(s, level, dtypes, n, form, NULL, why);
}

/* ---- a fault ---- */

static rdt_status arm(burn *b, rdt_reason *why) {
  const rdt_fault *f = b->job->fault;
  if (!f) return RDT_OK;
  b->strike = (rdt_sms_strike){.sm = f->core, .lane = f->lane, .seed = f->seed, .rate = f->rate};
  for (int i = 0; i < b->s->n_units; i++) b->struck = b->struck || b->s->units[i].core == f->core;
  if (b->struck) return RDT_OK;
  return rdt_fail(why, RDT_ERR_ARG,
                  "a fault that a screen is to find is of a multiprocessor that there is: stuck1:22@accum,core=%d (of "
                  "several devices, layer=%s makes it that one's alone)",
                  b->s->n_units ? b->s->units[0].core : 0, b->job->sms->name);
}

/* What a bit becomes, by its value: every fault of a multiprocessor treats each bit by itself. */
static const rdt_sms_strike *strike_of(burn *b) {
  const rdt_dtype t = b->s->known[b->known].c.dtype;
  if (!b->struck) return NULL;
  b->strike.to[0] = rdt_fault_mask(b->job->fault, 0, t);
  b->strike.to[1] = ~rdt_fault_mask(b->job->fault, ~UINT64_C(0), t);
  return &b->strike;
}

/* ---- a product ---- */

static rdt_status run(burn *b, int rounds, rdt_sms_found *found, rdt_reason *why) {
  RDT_TRY(b->job->sms->run(b->job->sms, rounds, strike_of(b), found, why));
  for (int u = 0; u < b->s->n_units; u++) {
    rdt_screen_unit *x = &b->s->units[u];
    x->products += found[u].products, x->failures += found[u].failures;
    if (found[u].products == 0)
      return rdt_fail(
          why, RDT_ERR_UNSUPPORTED,
          "multiprocessor %d of %s does something else all the time: screen a device that does nothing else", x->core,
          b->job->sms->name);
  }
  return RDT_OK;
}

static rdt_screen_failed *find(const burn *b, rdt_screen_unit *u) {
  for (int i = 0; i < rdt_screen_listed(u); i++)
    if (u->failed[i].path == b->path && u->failed[i].known == b->known) return &u->failed[i];
  return NULL;
}

static rdt_screen_failed failed_of(const burn *b, const rdt_sms_found *f) {
  const rdt_tensor *c = &b->s->known[b->known].c;
  const size_t size = rdt_dtype_size(c->dtype);
  const int64_t e = f->row * c->shape[1] + f->column;
  uint64_t expected = 0;
  memcpy(&expected, (const char *)c->data + (size_t)e * size, size);
  return (rdt_screen_failed){.path = b->path,
                             .known = b->known,
                             .failures = f->failures,
                             .wrong = f->wrong,
                             .row = f->row,
                             .column = f->column,
                             .expected = rdt_load(c->data, c->dtype, e),
                             .actual = rdt_load(&f->actual, c->dtype, 0),
                             .bits = expected ^ f->actual,
                             .retested = b->job->retests};
}

/* Those for which this product is wrong the first time: is it so every time? Asked of all at once. */
static rdt_status look_closer(burn *b, rdt_reason *why) {
  const rdt_screen *s = b->s;
  for (int i = 0; i < b->job->retests; i++) {
    RDT_TRY(run(b, 1, b->again, why));
    for (int u = 0; u < s->n_units; u++) {
      if (!b->fresh[u]) continue;
      rdt_screen_failed *f = find(b, &s->units[u]);
      s->units[u].retested++;
      s->units[u].retests_failed += b->again[u].failures > 0;
      if (f) f->retests_failed += b->again[u].failures > 0, f->failures += b->again[u].failures;
    }
  }
  return RDT_OK;
}

static rdt_status take(burn *b, rdt_reason *why) {
  const rdt_screen *s = b->s;
  bool any = false;
  for (int u = 0; u < s->n_units; u++) {
    rdt_screen_unit *x = &s->units[u];
    bool *seen = &b->seen[(u * s->n_paths + b->path) * s->n_known + b->known];
    b->fresh[u] = b->found[u].failures > 0 && !*seen;
    if (b->found[u].failures == 0) continue;
    rdt_screen_failed *f = *seen ? find(b, x) : NULL;
    if (f) f->failures += b->found[u].failures;
    if (*seen) continue;
    any = *seen = true;
    if (rdt_screen_listed(x) < RDT_SCREEN_MOST_FAILED) x->failed[x->n_failed] = failed_of(b, &b->found[u]);
    x->n_failed++;
  }
  return any ? look_closer(b, why) : RDT_OK;
}

/* Once to see how long it takes, then for its share of the time. */
static rdt_status try_on(burn *b, double seconds, rdt_reason *why) {
  const rdt_known *k = &b->s->known[b->known];
  double begun = rdt_clock();
  RDT_TRY(b->job->sms->load(b->job->sms, b->path, &k->a, &k->b, &k->c, why));
  const double until = begun + seconds;
  for (int rounds = 1;;) {
    begun = rdt_clock();
    RDT_TRY(run(b, rounds, b->found, why));
    const double now = rdt_clock(), one = fmax((now - begun) / rounds, 1e-7);
    RDT_TRY(take(b, why));
    if (now >= until) return RDT_OK;
    rounds = (int)fmin(fmax((until - now) / one, 1.0), fmin(8.0 * rounds, MOST_ROUNDS));
  }
}

/* Each product once, or for its share of the time, and so on until the time is over. */
static rdt_status burn_all(burn *b, double seconds, rdt_reason *why) {
  const rdt_screen *s = b->s;
  const double begun = rdt_clock(), each = fmin(seconds / (double)s->cases, slice);
  for (int64_t done = 0; done < s->cases || rdt_clock() - begun < seconds;)
    for (b->path = 0; b->path < s->n_paths; b->path++)
      for (b->known = 0; b->known < s->n_known; b->known++) {
        if (s->known[b->known].dtype != s->paths[b->path].dtype) continue;
        const double passed = (rdt_clock() - begun) / seconds, first = (double)done / (double)s->cases;
        if (done >= s->cases && passed >= 1.0) return RDT_OK;
        if (b->job->progress && !b->job->progress(b->job->user, passed < first || done >= s->cases ? passed : first,
                                                  s->paths[b->path].name))
          return rdt_fail(why, RDT_ERR_CANCELLED, "stopped");
        RDT_TRY(try_on(b, each, why));
        done++;
      }
  return RDT_OK;
}

rdt_status rdt_screen_sms(const rdt_screen_job *job, rdt_screen *s, double seconds, rdt_reason *why) {
  rdt_sms *m = job->sms;
  double clock;
  burn b = {.job = job, .s = s};
  const double begun = rdt_clock();
  m->sense(m, &clock, &s->temperature[0]);
  RDT_TRY(list(m, job->level, s, why));
  RDT_TRY(arm(&b, why));
  const size_t units = (size_t)s->n_units;
  b.found = rdt_calloc(units, sizeof *b.found), b.again = rdt_calloc(units, sizeof *b.again);
  b.fresh = rdt_calloc(units, sizeof *b.fresh);
  b.seen = rdt_calloc(units * (size_t)s->n_paths * (size_t)s->n_known, sizeof *b.seen);
  const bool room = b.found && b.again && b.fresh && b.seen;
  const rdt_status status = room ? burn_all(&b, seconds, why) : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  rdt_free(b.found), rdt_free(b.again), rdt_free(b.fresh), rdt_free(b.seen);
  m->sense(m, &clock, &s->temperature[1]);
  for (int i = 0; i < s->n_units; i++) s->units[i].clock = clock;
  rdt_screen_judge(s);
  s->seconds = rdt_clock() - begun;
  return status;
}

rdt_status rdt_screen_suspect(rdt_sms *m, const rdt_fault *fault, int *sm, rdt_reason *why) {
  rdt_screen s;
  *sm = -1;
  const rdt_status status =
      rdt_screen_run(&(rdt_screen_job){.level = 1, .seconds = 1e-6, .fault = fault, .sms = m}, &s, why);
  for (int u = 0; u < s.n_units && *sm < 0; u++)
    if (s.units[u].failures > 0) *sm = s.units[u].core;
  rdt_screen_clear(&s);
  return status;
}
