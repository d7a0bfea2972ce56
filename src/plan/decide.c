/* Which of the offers: the least time, and where noise hides it the better cover, as campaigns have measured it where
 * they have, then the simpler one. */
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

/* ---- coverage ---- */

static rdt_coverage_range coverage_of(const rdt_problem *p, const rdt_demand *d, const rdt_offer *x) {
  return rdt_coverage_of(d->coverage, x->way.scheme, p->in[0].dtype);
}

typedef struct cover_text {
  char text[40];
} cover_text;

static cover_text words_of(rdt_coverage_range r) {
  cover_text t;
  if (r.measured)
    snprintf(t.text, sizeof t.text, "%.4g to %.4g %% measured", 100.0 * r.low, 100.0 * r.high);
  else
    snprintf(t.text, sizeof t.text, "%.4g %% declared", 100.0 * r.low);
  return t;
}

static bool exceeds(const rdt_problem *p, const rdt_demand *d, const rdt_offers *o, int a, int b) {
  return rdt_coverage_exceeds(coverage_of(p, d, &o->list[a]), coverage_of(p, d, &o->list[b]));
}

/* Of those that are as good as equally fast the first in the tables that no other of them covers more than. */
static int best_covered(const rdt_problem *p, const rdt_demand *d, const rdt_offers *o, const bool *tied) {
  for (int i = 0; i < o->n; i++) {
    bool best = tied[i];
    for (int k = 0; k < o->n && best; k++) best = !tied[k] || !exceeds(p, d, o, k, i);
    if (best) return i;
  }
  return -1;
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
  else if (linear && d->permanent != (s->id == RDT_SCHEME_TMR_SM))
    say(o, x,
        d->permanent ? "a core that is wrong every time may compute both sides of its check"
                     : "computes three times: for a core that is wrong every time (--require permanent)");
  else if (coverage_of(p, d, x).low < d->min_coverage)
    say(o, x, "finds %.4g %% of single faults, %.4g %% are asked for", 100.0 * coverage_of(p, d, x).low,
        100.0 * d->min_coverage);
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

/* Of one that is within noise: why another was taken. */
static void say_tied(const rdt_problem *p, const rdt_demand *d, const rdt_offers *o, rdt_offer *x, rdt_timing_ratio r) {
  const rdt_coverage_range its = coverage_of(p, d, x), best = coverage_of(p, d, &o->list[o->taken]);
  if (rdt_coverage_exceeds(best, its))
    say(o, x, "within noise of the fastest (%.3f, %.3f to %.3f), but covers less: %s, what was taken %s", r.ratio,
        r.low, r.high, words_of(its).text, words_of(best).text);
  else
    say(o, x, "within noise of the fastest (%.3f, %.3f to %.3f), but comes later in the tables", r.ratio, r.low,
        r.high);
}

static void say_taken(const rdt_problem *p, const rdt_demand *d, rdt_offers *o, int fastest, rdt_timing_ratio r) {
  rdt_offer *x = &o->list[o->taken];
  const rdt_way *first = &o->list[fastest].way;
  const rdt_coverage_range its = coverage_of(p, d, x), other = coverage_of(p, d, &o->list[fastest]);
  char reason[128] = "first in the tables, which cover as much";
  if (rdt_coverage_exceeds(its, other))
    snprintf(reason, sizeof reason, "covers more, %s against %s", words_of(its).text, words_of(other).text);
  say(o, x, "within noise of the fastest, %s with %s (%.3f, %.3f to %.3f): %s", first->kernel->name,
      first->scheme->name, r.ratio, r.low, r.high, reason);
}

/* On the way says of everyone else how it compares with the fastest. */
static void by_time(const rdt_problem *p, const rdt_demand *d, rdt_offers *o, int fastest) {
  rdt_timing_ratio ratio[RDT_MOST_OFFERS];
  bool tied[RDT_MOST_OFFERS] = {false};
  for (int i = 0; i < o->n; i++) {
    if (!o->list[i].eligible || o->list[i].times.n == 0) continue;
    ratio[i] = ratio_of(o, i, fastest);
    tied[i] = i == fastest || within_noise(ratio[i]);
  }
  o->taken = best_covered(p, d, o, tied);
  o->measured = true;
  for (int i = 0; o->words && i < o->n; i++) {
    rdt_offer *x = &o->list[i];
    if (!x->eligible || i == o->taken) continue;
    if (x->times.n == 0)
      say(o, x, "not measured");
    else if (i == fastest)
      say(o, x, "fastest, but within noise of what was taken");
    else if (tied[i])
      say_tied(p, d, o, x, ratio[i]);
    else
      say(o, x, "takes %.3f times as long as the fastest (%.3f to %.3f)", ratio[i].ratio, ratio[i].low, ratio[i].high);
  }
  if (o->taken == fastest)
    say(o, &o->list[fastest], "fastest");
  else
    say_taken(p, d, o, fastest, ratio[o->taken]);
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
static void by_estimate(const rdt_problem *p, const rdt_demand *d, rdt_offers *o) {
  int least = -1;
  bool able[RDT_MOST_OFFERS], tied[RDT_MOST_OFFERS] = {false};
  for (int i = 0; i < o->n; i++) {
    able[i] = o->list[i].eligible && (d->device || is_first(o, i));
    if (able[i] && (least < 0 || estimate(&o->list[i]) < estimate(&o->list[least]))) least = i;
  }
  o->taken = least;
  if (least < 0) return;
  tied[least] = true;
  for (int i = 0; i < o->n; i++)
    tied[i] = tied[i] || (able[i] && o->list[i].estimate <= near * estimate(&o->list[least]));
  const int covered = best_covered(p, d, o, tied), taken = exceeds(p, d, o, covered, least) ? covered : least;
  o->taken = taken;
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

/* Of what an op is not for, every such op would say it. */
static void say_asked(const rdt_problem *p, const rdt_demand *d, rdt_offers *o, bool automatic) {
  rdt_offer *x = &o->list[o->taken];
  const rdt_offer *wanted = NULL;
  char was[RDT_OFFER_TEXT];
  snprintf(was, sizeof was, "%s", o->measured || automatic ? x->text : "");
  for (int i = 0; i < o->n && !wanted; i++)
    if (o->list[i].way.scheme == d->wanted) wanted = &o->list[i];
  if (!automatic && x->way.sets > 1)
    say(o, x, "asked for: %d independent checks of each line%s%.100s", x->way.sets, *was ? "; " : "", was);
  else if (!automatic)
    say(o, x, "asked for%s%.150s", *was ? "; " : "", was);
  else if (rdt_kop_is_linear(p->op))
    say(o, x, "not %s, which was asked for (%.100s): %.60s", d->wanted->name,
        wanted ? wanted->text : "no kernel with it was measured", was);
}

void rdt_offers_decide(const rdt_problem *p, const rdt_demand *d, rdt_offers *o) {
  const bool automatic = mark(p, d, o);
  const int fastest = fastest_of(o);
  o->taken = -1;
  o->measured = false;
  if (fastest >= 0)
    by_time(p, d, o, fastest);
  else
    by_estimate(p, d, o);
  if (d->wanted && o->taken >= 0 && o->words) say_asked(p, d, o, automatic);
}
