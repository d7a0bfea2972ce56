/* Which of the offers: the least time, and where noise hides it the better cover, then the simpler one. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plan/offers.h"

/* A tie must not cost more than this, whatever the noise: over many layers it would add up. Estimates have none. */
static const double most_tie = 1.01, near = 1.002;

static bool is_depthwise(const rdt_problem *p) {
  return p->op == RDT_KOP_CONV && p->window.groups > 1 && p->in[1].shape[1] == 1;
}

__attribute__((format(printf, 3, 4))) static void say(const rdt_offers *o, rdt_offer *x, const char *format, ...) {
  if (!o->words) return;
  va_list args;
  va_start(args, format);
  vsnprintf(x->text, sizeof x->text, format, args);
  va_end(args);
}

/* ---- who may be chosen ---- */

static bool may(const rdt_problem *p, const rdt_demand *d, bool automatic, const rdt_offers *o, rdt_offer *x) {
  const rdt_scheme_info *s = x->way.scheme;
  const bool linear = rdt_kop_is_linear(p->op);
  if (x->refused) return false;
  if (!automatic) {
    if (s != d->wanted) say(o, x, "another scheme was asked for");
    return s == d->wanted;
  }
  if (s->id == RDT_SCHEME_NONE)
    say(o, x, "no protection");
  else if (rdt_coverage_of(d->coverage, s, p->in[0].dtype) < d->min_coverage)
    say(o, x, "finds %.4g %% of single faults, %.4g %% are asked for",
        100.0 * rdt_coverage_of(d->coverage, s, p->in[0].dtype), 100.0 * d->min_coverage);
  else if (!s->locates)
    say(o, x, "finds a fault, but does not locate it");
  else if (linear && s->id == RDT_SCHEME_DUP && !is_depthwise(p))
    say(o, x, "both copies would read the same weights");
  else
    return true;
  return false;
}

/* A scheme that was asked for but is not for this op (row for a pool) leaves the op to the automatic choice. */
static bool mark(const rdt_problem *p, const rdt_demand *d, rdt_offers *o) {
  bool automatic = true;
  for (int i = 0; d->wanted && i < o->n; i++)
    if (!o->list[i].refused && o->list[i].way.scheme == d->wanted) automatic = false;
  for (int i = 0; i < o->n; i++) o->list[i].eligible = may(p, d, automatic, o, &o->list[i]);
  return automatic;
}

/* ---- by time ---- */

static double median(const rdt_offer *x) {
  return rdt_timing_samples_stat(x->times).median;
}

static int fastest_of(const rdt_offers *o) {
  int best = -1;
  double least = INFINITY;
  for (int i = 0; i < o->n; i++) {
    const double t = o->list[i].eligible && o->list[i].times.n > 0 ? median(&o->list[i]) : INFINITY;
    if (!(t < least)) continue;
    least = t;
    best = i;
  }
  return best;
}

static rdt_timing_ratio ratio_of(const rdt_offers *o, int i, int base) {
  return rdt_timing_sum_ratio(&(rdt_timing_pair){o->list[i].times, o->list[base].times, 1.0}, 1);
}

static bool within_noise(rdt_timing_ratio r) {
  return r.low <= 1.0 && r.ratio <= most_tie;
}

/* On the way says of everyone else how it compares with the fastest. */
static void by_time(rdt_offers *o, int fastest) {
  rdt_timing_ratio ratio[RDT_MOST_OFFERS];
  int taken = fastest;
  for (int i = 0; i < o->n; i++) {
    if (!o->list[i].eligible || o->list[i].times.n == 0 || i == fastest) continue;
    ratio[i] = ratio_of(o, i, fastest);
    if (!within_noise(ratio[i])) continue;
    const double more = o->list[i].way.scheme->coverage - o->list[taken].way.scheme->coverage;
    if (more > 0.0 || (more == 0.0 && i < taken)) taken = i;
  }
  o->taken = taken;
  o->measured = true;
  for (int i = 0; o->words && i < o->n; i++) {
    rdt_offer *x = &o->list[i];
    if (!x->eligible || i == taken) continue;
    if (x->times.n == 0)
      say(o, x, "not measured");
    else if (i == fastest)
      say(o, x, "fastest, but within noise of what was taken");
    else if (within_noise(ratio[i]))
      say(o, x, "within noise of the fastest (%.3f, %.3f to %.3f), but covers less or comes later in the tables",
          ratio[i].ratio, ratio[i].low, ratio[i].high);
    else
      say(o, x, "takes %.3f times as long as the fastest (%.3f to %.3f)", ratio[i].ratio, ratio[i].low, ratio[i].high);
  }
  rdt_offer *x = &o->list[taken];
  if (taken == fastest)
    say(o, x, "fastest");
  else
    say(o, x, "within noise of the fastest, %s with %s (%.3f, %.3f to %.3f): %s", o->list[fastest].way.kernel->name,
        o->list[fastest].way.scheme->name, ratio[taken].ratio, ratio[taken].low, ratio[taken].high,
        x->way.scheme->coverage > o->list[fastest].way.scheme->coverage ? "covers more" : "first in the tables");
}

/* ---- by estimate ---- */

/* Of what is no product or convolution nothing is known: the first row that takes it. */
static double estimate(const rdt_offer *x) {
  return isnan(x->estimate) ? INFINITY : x->estimate;
}

/* Of a scheme the first kernel that makes its check as it goes, or else the first one: as they are listed. */
static bool is_first(const rdt_offers *o, int i) {
  for (int k = 0; k < i; k++)
    if (!o->list[k].refused && o->list[k].way.scheme == o->list[i].way.scheme) return false;
  return true;
}

/* Which kernel of a scheme is the fastest, a device decides: of one that is not known the tables' order counts. */
static void by_estimate(const rdt_demand *d, rdt_offers *o) {
  int least = -1, taken;
  for (int i = 0; i < o->n; i++)
    if (o->list[i].eligible && (d->device || is_first(o, i)) &&
        (least < 0 || estimate(&o->list[i]) < estimate(&o->list[least])))
      least = i;
  o->taken = taken = least;
  if (least < 0) return;
  const double most = near * estimate(&o->list[least]);
  for (int i = 0; i < o->n; i++)
    if (o->list[i].eligible && (d->device || is_first(o, i)) && o->list[i].estimate <= most &&
        o->list[i].way.scheme->coverage > o->list[taken].way.scheme->coverage)
      o->taken = taken = i;
  for (int i = 0; o->words && i < o->n; i++) {
    rdt_offer *x = &o->list[i];
    if (!x->eligible) continue;
    if (isnan(x->estimate))
      say(o, x, i == taken ? "the first row that takes it" : "a row before it takes this problem");
    else if (i == taken)
      say(o, x, i == least ? "the least estimate" : "nearly the least estimate, and covers more");
    else if (!d->device && !is_first(o, i))
      say(o, x, "not measured: a row before it takes this problem");
    else
      say(o, x, "its estimate is %.3f times the least", x->estimate / o->list[least].estimate);
  }
}

void rdt_offers_decide(const rdt_problem *p, const rdt_demand *d, rdt_offers *o) {
  const bool automatic = mark(p, d, o);
  const int fastest = fastest_of(o);
  o->taken = -1;
  o->measured = false;
  if (fastest >= 0)
    by_time(o, fastest);
  else
    by_estimate(d, o);
  if (o->taken < 0 || automatic || !o->words) return;
  rdt_offer *x = &o->list[o->taken];
  char was[RDT_OFFER_TEXT];
  snprintf(was, sizeof was, "%s", o->measured ? x->text : "");
  if (x->way.sets > 1)
    say(o, x, "asked for: %d independent checks of each line%s%.100s", x->way.sets, *was ? "; " : "", was);
  else
    say(o, x, "asked for%s%.150s", *was ? "; " : "", was);
}
