#include "plan/race.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "plan/device.h"
#include "plan/work_gpu.h"

enum {
  TRIES = 3,
  QUICK_TRIALS = 11,
  QUICK_RUNS = 2,
  FEW_TRIALS = 5,
  PAPER_TRIALS = 10,
  PAPER_RUNS = 1000,
  PAPER_WARM = 100,
  OF_A_GROUP = 2
};
/* Who takes so many times as long as the best of his group by himself has no turns; who is that near, even as second.
 */
static const double hopeless = 4.0, behind = 1.25, near = 1.03;
/* And who takes so many times as long as the best of all has a few turns alone. */
static const double far = 2.0;

const char *rdt_protocol_name(rdt_protocol p) {
  return p == RDT_PROTOCOL_PAPER ? "paper" : "quick";
}

rdt_status rdt_race_key(const rdt_problem *p, char key[RDT_KEY_TEXT], rdt_reason *why) {
  const rdt_demand d = {.sets = 1};
  rdt_problem fixed = *p;
  rdt_tensor in[2] = {p->in[0], p->in[1]};
  fixed.in = in;
  in[1].data = key; /* weights are; where, does not matter */
  return rdt_problem_key(&fixed, false, &d, key)
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_UNSUPPORTED, "this product cannot be named in a line");
}

/* ---- measuring ---- */

typedef struct runner {
  const struct race *all;
  int rival;
  double least; /* alone; infinite: it refuses, or complained */
  bool turns;   /* it is among those that are compared */
  double took;  /* by the last run */
  int done;     /* runs, so far */
} runner;

typedef struct race {
  const rdt_track *t;
  const rdt_race_how *how;
  void *product;
  runner *list;
  int n;
  unsigned complaints; /* of those that are left out for it */
  rdt_status status;
  rdt_reason *why;
} race;

static const rdt_rival *rival(const race *r, int i) {
  return r->t->at(r->product, i);
}

static bool same_group(const race *r, int i, int k) {
  return rival(r, i)->kind == rival(r, k)->kind && strcmp(rival(r, i)->scheme, rival(r, k)->scheme) == 0;
}

static double least_of_group(const race *r, int i) {
  double least = INFINITY;
  for (int k = 0; k < r->n; k++)
    if (same_group(r, i, k)) least = fmin(least, r->list[k].least);
  return least;
}

static bool go_on(const race *r, double part) {
  const rdt_race_how *h = r->how;
  const int turns = h->turns > 0 ? h->turns : 1;
  return !h->progress || h->progress((h->turn + part) / turns, h->what ? h->what : "");
}

static bool refuses(rdt_status s) { /* this product; all else ends the race */
  return s == RDT_ERR_UNSUPPORTED || s == RDT_ERR_NOMEM;
}

/* Once to warm up (a graph is loaded then), and three times, or as often as it takes to know that it is behind; of who
 * is hopeless the first is enough. */
static rdt_status qualify(race *r, int i) {
  runner *x = &r->list[i];
  rdt_status s = r->t->ready(r->product, i, r->why);
  if (refuses(s)) return RDT_OK;
  RDT_TRY(s);
  const double best = least_of_group(r, i);
  for (int k = 0; k <= TRIES && !(isfinite(x->least) && x->least > behind * best); k++) {
    double seconds;
    RDT_TRY(r->t->run(r->product, i, 1, &seconds, r->why));
    if (k > 0 || seconds > hopeless * best) x->least = fmin(x->least, seconds);
  }
  unsigned bad;
  RDT_TRY(r->t->complaints(r->product, i, &bad, r->why));
  r->complaints += bad;
  const bool out = bad || x->least > behind * best;
  if (bad) x->least = INFINITY;
  if (out) r->t->drop(r->product, i);
  return RDT_OK;
}

/* The first of a group, and the second where it is near. */
static bool leads(const race *r, int i) {
  const double mine = r->list[i].least, best = least_of_group(r, i);
  int before = 0;
  for (int k = 0; k < r->n; k++)
    before += same_group(r, i, k) && (r->list[k].least < mine || (r->list[k].least == mine && k < i));
  return isfinite(mine) &&
         (before == 0 || (before < OF_A_GROUP && mine <= near * best && r->how->protocol == RDT_PROTOCOL_QUICK));
}

static int run_one(void *user) {
  runner *x = user;
  const race *r = x->all;
  const bool paper = r->how->protocol == RDT_PROTOCOL_PAPER;
  const int runs = !paper ? QUICK_RUNS : x->done++ > 0 ? PAPER_RUNS : PAPER_WARM;
  return (int)r->t->run(r->product, x->rival, runs, &x->took, r->why);
}

/* What is far behind is of interest as that alone. */
static bool leave_out(rdt_timing *t, void *user) {
  double least = INFINITY;
  (void)user;
  if (t->cases[0].trials != FEW_TRIALS) return true;
  for (int i = 0; i < t->count; i++) least = fmin(least, rdt_timing_stat_of(t, i).median);
  for (int i = 0; i < t->count; i++) t->cases[i].out = rdt_timing_stat_of(t, i).median > far * least;
  return true;
}

static rdt_status keep(rdt_entry *e, const rdt_rival *x, const double *seconds, int n, rdt_reason *why) {
  rdt_timed *t = rdt_entry_add(e, &(rdt_way){0}, n);
  if (!t) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  snprintf(t->kernel, sizeof t->kernel, "%s", x->kernel);
  snprintf(t->scheme, sizeof t->scheme, "%s", x->scheme);
  t->fused = x->fused;
  if (n > 0) memcpy(t->seconds, seconds, (size_t)n * sizeof *seconds);
  return RDT_OK;
}

static rdt_status keep_all(race *r, const rdt_timing *t, rdt_entry *e, unsigned *complaints) {
  for (int i = 0, at = 0; i < r->n; i++) {
    const runner *x = &r->list[i];
    const int mine = x->turns ? at++ : -1;
    unsigned bad = 0;
    if (!isfinite(x->least)) continue;
    if (x->turns) RDT_TRY(r->t->complaints(r->product, i, &bad, r->why));
    *complaints += bad;
    if (bad) continue;
    if (x->turns)
      RDT_TRY(keep(e, rival(r, i), t->cases[mine].seconds, t->cases[mine].trials, r->why));
    else
      RDT_TRY(keep(e, rival(r, i), &x->least, 1, r->why));
  }
  return RDT_OK;
}

/* Those that lead, in turn. */
static rdt_status compare(race *r, rdt_entry *e, unsigned *complaints) {
  rdt_timing t;
  rdt_timing_init(&t, r->how->protocol == RDT_PROTOCOL_PAPER ? PAPER_TRIALS : QUICK_TRIALS);
  t.warm_up = 1, t.min_seconds = 0.0;
  t.progress = r->how->progress;
  if (r->how->protocol == RDT_PROTOCOL_QUICK) t.after = leave_out;
  t.turn = 2 * r->how->turn + 1, t.turns = r->how->turns > 0 ? 2 * r->how->turns : 2; /* the first half is qualifying */
  snprintf(t.what, sizeof t.what, "%.60s", r->how->what ? r->how->what : "");
  rdt_status s = RDT_OK;
  for (int i = 0; i < r->n && s == RDT_OK; i++) {
    runner *x = &r->list[i];
    if (t.count < RDT_TIMING_CASES && leads(r, i)) {
      s = r->t->ready(r->product, i, r->why);
      x->turns = s == RDT_OK;
      if (refuses(s)) s = RDT_OK;
    }
    if (!x->turns) r->t->drop(r->product, i);
    if (x->turns) t.cases[rdt_timing_add(&t, rival(r, i)->kernel, run_one, x)].took = &x->took;
  }
  const int code = s != RDT_OK ? (int)s : t.count > 0 ? rdt_timing_run(&t) : (int)RDT_ERR_UNSUPPORTED;
  if (code == RDT_TIMING_STOPPED)
    s = RDT_ERR_CANCELLED;
  else if (code)
    s = code < 0 ? rdt_fail(r->why, RDT_ERR_NOMEM, "out of memory") : (rdt_status)code;
  if (s == RDT_OK) s = keep_all(r, &t, e, complaints);
  rdt_timing_free(&t);
  return s;
}

static rdt_status race_on(race *r, rdt_entry *e, unsigned *complaints) {
  for (int i = 0; i < r->n; i++) r->list[i] = (runner){.all = r, .rival = i, .least = INFINITY};
  for (int i = 0; i < r->n; i++) {
    if (!go_on(r, 0.5 * i / r->n)) return RDT_ERR_CANCELLED;
    RDT_TRY(qualify(r, i));
  }
  const rdt_status s = compare(r, e, complaints);
  *complaints += r->complaints;
  return s;
}

rdt_status rdt_race_run(const rdt_track *t, const rdt_problem *p, const rdt_race_how *how, rdt_entry *e,
                        unsigned *complaints, rdt_reason *why) {
  char key[RDT_KEY_TEXT];
  race r = {.t = t, .how = how, .why = why};
  *e = (rdt_entry){.choice = -1};
  RDT_TRY(rdt_race_key(p, key, why));
  if (!(e->key = rdt_strdup(key))) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  RDT_TRY(t->open(t->user, p, &r.product, why));
  r.n = t->count(r.product);
  r.list = rdt_calloc((size_t)r.n + 1, sizeof *r.list);
  const rdt_status s = r.list ? race_on(&r, e, complaints) : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  rdt_free(r.list);
  t->close(r.product);
  return s;
}

rdt_status rdt_race_list(const rdt_track *t, const rdt_problem *p, rdt_entry *e, rdt_reason *why) {
  char key[RDT_KEY_TEXT];
  void *product = NULL;
  *e = (rdt_entry){.choice = -1};
  RDT_TRY(rdt_race_key(p, key, why));
  if (!(e->key = rdt_strdup(key))) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  RDT_TRY(t->open(t->user, p, &product, why));
  rdt_status s = RDT_OK;
  for (int i = 0; i < t->count(product) && s == RDT_OK; i++) s = keep(e, t->at(product, i), NULL, 0, why);
  t->close(product);
  return s;
}

/* ---- reading ---- */

bool rdt_race_counts(const rdt_timed *t) {
  return t->n > 1;
}

double rdt_race_median(const rdt_timed *t) {
  return t ? rdt_timing_samples_stat((rdt_timing_samples){t->seconds, t->n}).median : NAN;
}

const rdt_timed *rdt_race_best(const rdt_entry *e, rdt_rival_kind kind, const char *scheme) {
  const rdt_timed *best = NULL;
  for (int i = 0; i < e->n; i++) {
    const rdt_timed *t = &e->list[i];
    if (!rdt_race_counts(t) || rdt_rival_kind_of(t->kernel, t->scheme) != kind) continue;
    if (scheme && strcmp(t->scheme, scheme) != 0) continue;
    if (!best || rdt_race_median(t) < rdt_race_median(best)) best = t;
  }
  return best;
}

/* ---- choosing ---- */

void rdt_race_choose(const rdt_entry *e, const rdt_problem *p, const rdt_demand *d, const rdt_track *t, bool model,
                     rdt_raced *x) {
  x->o.n = 0, x->o.taken = -1, x->o.measured = false;
  for (int i = 0; i < e->n && x->o.n < RDT_MOST_OFFERS; i++) {
    const rdt_timed *timed = &e->list[i];
    const rdt_rival_kind kind = rdt_rival_kind_of(timed->kernel, timed->scheme);
    const rdt_scheme_info *scheme = rdt_scheme_find(timed->scheme);
    if (!scheme || (kind != RDT_RIVAL_OWN && kind != RDT_RIVAL_BOX)) continue; /* another's, or no verdict */
    if (!model && !rdt_race_counts(timed)) continue;
    const int at = x->o.n++;
    rdt_offer *o = &x->o.list[at];
    x->kernels[at] = (rdt_kernel){.name = timed->kernel, .op = RDT_KOP_GEMM};
    x->timed[at] = timed;
    *o = (rdt_offer){.way = {.kernel = &x->kernels[at], .scheme = scheme, .sets = 1, .fused = timed->fused},
                     .cost = NAN,
                     .estimate = rdt_gpu_estimate(p, timed->kernel, timed->scheme, t)};
    if (!model) o->times = (rdt_timing_samples){timed->seconds, timed->n};
  }
  rdt_demand known = *d;
  known.device = &(const rdt_device){0}; /* not NULL: which kernel is the fastest is known of this device */
  rdt_offers_decide(p, &known, &x->o);
}
