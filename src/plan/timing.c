#include "plan/timing.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/memory.h"

enum { RESAMPLES = 500 };

double rdt_timing_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void rdt_timing_init(rdt_timing *t, int trials) {
  *t = (rdt_timing){.trials = trials < 1 ? 1 : trials, .warm_up = 3, .min_seconds = 2e-3};
}

int rdt_timing_add(rdt_timing *t, const char *name, rdt_timing_fn fn, void *user) {
  if (t->count == RDT_TIMING_CASES) return -1;
  t->cases[t->count] = (rdt_timing_case){.name = name, .fn = fn, .user = user, .repeats = 1};
  return t->count++;
}

static int sample(rdt_timing_case *c, double *seconds) {
  if (c->rest > 0.0) nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * c->rest)}, NULL);
  double all = 0.0, told = 0.0;
  for (int i = 0; i < c->repeats;) {
    if (c->before) c->before(c->user);
    const int until = c->before ? i + 1 : c->repeats;
    const double begin = rdt_timing_now();
    for (; i < until; ++i) {
      const int code = c->fn(c->user);
      if (code) return code;
      if (c->took) told += *c->took;
    }
    all += rdt_timing_now() - begin;
  }
  *seconds = (c->took ? told : all) / c->repeats;
  return 0;
}

static int warm_up(rdt_timing_case *c, const rdt_timing *t) {
  double once = 0;
  for (int i = 0; i < t->warm_up; ++i) {
    const int code = sample(c, &once);
    if (code) return code;
  }
  c->repeats = t->warm_up > 0 && once < t->min_seconds ? (int)ceil(t->min_seconds / fmax(once, 1e-8)) : 1;
  return 0;
}

/* here: of this timing. false: it is to stop. */
static bool go_on(const rdt_timing *t, double here) {
  return !t->progress || t->progress(t->turns ? (t->turn + here) / t->turns : here, t->what);
}

static int run_trial(rdt_timing *t, int trial) {
  for (int i = 0; i < t->count; ++i) {
    rdt_timing_case *c = &t->cases[(i + trial) % t->count];
    if (c->out) continue;
    if (!go_on(t, (trial * (double)t->count + i) / ((double)t->trials * t->count))) return RDT_TIMING_STOPPED;
    const int code = sample(c, &c->seconds[trial]);
    if (code) return code;
    c->trials = trial + 1;
  }
  return 0;
}

static int run_all(rdt_timing *t) {
  t->warming = true;
  for (int i = 0; i < t->count; ++i) {
    rdt_timing_case *c = &t->cases[i];
    if (!go_on(t, 0.0)) return RDT_TIMING_STOPPED;
    rdt_free(c->seconds);
    c->trials = 0;
    c->seconds = rdt_calloc((size_t)t->trials, sizeof *c->seconds);
    if (!c->seconds) return -1;
    const int code = c->out ? 0 : warm_up(c, t);
    if (code) return code;
  }
  t->warming = false;
  for (int trial = 0; trial < t->trials; ++trial) {
    const int code = run_trial(t, trial);
    if (code) return code;
    if (t->after && !t->after(t, t->after_user)) break;
  }
  return go_on(t, 1.0) ? 0 : RDT_TIMING_STOPPED;
}

int rdt_timing_run(rdt_timing *t) {
  const int code = run_all(t);
  if (code && t->progress) t->progress(1.0, t->what);
  return code;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double q) {
  const double at = q * (n - 1);
  const int i = (int)at;
  return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

/* The median without sorting all of them, for bootstraps ask over and over: Hoare's selection. Reorders them. */
static double median_of(double *values, int n) {
  const int k = n / 2;
  for (int low = 0, high = n - 1; low < high;) {
    const double x = values[k];
    int i = low, j = high;
    while (i <= j) {
      while (values[i] < x) i++;
      while (x < values[j]) j--;
      if (i > j) break;
      const double y = values[i];
      values[i++] = values[j];
      values[j--] = y;
    }
    if (j < k) low = i;
    if (k < i) high = j;
  }
  if (n % 2) return values[k];
  double below = values[0];
  for (int i = 1; i < k; i++) below = values[i] > below ? values[i] : below;
  return below + 0.5 * (values[k] - below);
}

double rdt_timing_median(double *values, int n) {
  return n < 1 ? NAN : median_of(values, n);
}

rdt_timing_samples rdt_timing_samples_of(const rdt_timing *t, int i) {
  return (rdt_timing_samples){t->cases[i].seconds, t->cases[i].trials};
}

rdt_timing_stat rdt_timing_samples_stat(rdt_timing_samples samples) {
  rdt_timing_stat s = {NAN, NAN, NAN};
  double *sorted = samples.n < 1 ? NULL : rdt_alloc((size_t)samples.n, sizeof *sorted);
  if (!sorted) return s;
  memcpy(sorted, samples.seconds, (size_t)samples.n * sizeof *sorted);
  qsort(sorted, (size_t)samples.n, sizeof *sorted, by_value);
  s = (rdt_timing_stat){quantile(sorted, samples.n, 0.5), quantile(sorted, samples.n, 0.1),
                        quantile(sorted, samples.n, 0.9)};
  rdt_free(sorted);
  return s;
}

/* Half of the workloads' layers lie, 10 to 90 in 100, within 4 % on one core and 8 % on two where nothing else runs. */
static const double quiet = 0.25;

bool rdt_timing_is_noisy(rdt_timing_samples s) {
  const rdt_timing_stat stat = rdt_timing_samples_stat(s);
  return s.n > 0 && !(stat.p90 - stat.p10 <= quiet * stat.median);
}

rdt_timing_stat rdt_timing_stat_of(const rdt_timing *t, int i) {
  return rdt_timing_samples_stat(rdt_timing_samples_of(t, i));
}

/* A sample that bootstraps draw from over and over: in order, and where each trial stands in that order. Then the
 * median of a drawing is found by counting, without sorting any. */
typedef struct ranked {
  double *sorted;
  uint32_t *rank, *drawn; /* drawn: how often each was */
  int n;
} ranked;

static void rank(ranked *r, rdt_timing_samples s) {
  memcpy(r->sorted, s.seconds, (size_t)s.n * sizeof *r->sorted);
  qsort(r->sorted, (size_t)s.n, sizeof *r->sorted, by_value);
  for (int i = 0; i < s.n; i++) {
    int from = 0, to = s.n - 1;
    while (from < to) {
      const int middle = (from + to) / 2;
      if (r->sorted[middle] < s.seconds[i])
        from = middle + 1;
      else
        to = middle;
    }
    r->rank[i] = (uint32_t)from;
  }
}

/* And makes ready for the next drawing. */
static double median_drawn(const ranked *r) {
  const uint32_t middle = (uint32_t)r->n / 2;
  uint32_t seen = 0; /* before i */
  int i = 0;
  for (; seen + r->drawn[i] <= middle; i++) seen += r->drawn[i];
  int before = i; /* where the one before the middle is */
  if (r->n % 2 == 0 && seen == middle) do
      before--;
    while (r->drawn[before] == 0);
  const double high = r->sorted[i], low = r->n % 2 ? high : r->sorted[before];
  memset(r->drawn, 0, (size_t)r->n * sizeof *r->drawn);
  return low + 0.5 * (high - low);
}

static int pick(uint64_t *seed, int n) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((*seed >> 33) * (uint64_t)n >> 31);
}

/* Trials are drawn in pairs, so that a slow moment of the machine stays in both medians: where one has as many as the
 * other, and all were taken in turn. */
static double resample(const ranked *list, const rdt_timing_pair *pairs, int n, uint64_t *seed) {
  double above = 0.0, below = 0.0;
  for (int i = 0; i < n; i++) {
    const ranked *of = &list[2 * i], *base = &list[2 * i + 1];
    const bool paired = of->n == base->n;
    for (int k = 0; k < of->n; ++k) {
      const int at = pick(seed, of->n);
      of->drawn[of->rank[at]]++;
      if (paired) base->drawn[base->rank[at]]++;
    }
    for (int k = 0; k < base->n && !paired; ++k) base->drawn[base->rank[pick(seed, base->n)]]++;
    above += pairs[i].times * median_drawn(of);
    below += pairs[i].times * median_drawn(base);
  }
  return above / below;
}

/* All pairs, the first of each before its base, in one piece of memory; NULL without. */
static ranked *rank_all(const rdt_timing_pair *pairs, int n) {
  size_t all = 0;
  for (int i = 0; i < n; i++) all += (size_t)pairs[i].of.n + (size_t)pairs[i].base.n;
  ranked *list = rdt_calloc(1, 2 * (size_t)n * sizeof *list + all * (sizeof(double) + 2 * sizeof(uint32_t)));
  if (!list) return NULL;
  double *sorted = (double *)(list + 2 * n);
  uint32_t *counts = (uint32_t *)(sorted + all);
  for (int i = 0; i < 2 * n; i++) {
    const rdt_timing_samples s = i % 2 ? pairs[i / 2].base : pairs[i / 2].of;
    list[i] = (ranked){.sorted = sorted, .rank = counts, .drawn = counts + s.n, .n = s.n};
    sorted += s.n;
    counts += 2 * s.n;
    rank(&list[i], s);
  }
  return list;
}

rdt_timing_ratio rdt_timing_sum_ratio(const rdt_timing_pair *pairs, int n) {
  rdt_timing_ratio r = {NAN, NAN, NAN};
  double above = 0.0, below = 0.0, ratios[RESAMPLES];
  for (int i = 0; i < n; i++)
    if (pairs[i].of.n < 1 || pairs[i].base.n < 1) return r;
  ranked *list = rank_all(pairs, n);
  if (!list) return r;
  for (int i = 0; i < n; i++) {
    above += pairs[i].times * quantile(list[2 * i].sorted, list[2 * i].n, 0.5);
    below += pairs[i].times * quantile(list[2 * i + 1].sorted, list[2 * i + 1].n, 0.5);
  }
  r.ratio = above / below;
  uint64_t seed = 1;
  for (int k = 0; k < RESAMPLES; ++k) ratios[k] = resample(list, pairs, n, &seed);
  qsort(ratios, RESAMPLES, sizeof *ratios, by_value);
  r.low = quantile(ratios, RESAMPLES, 0.025);
  r.high = quantile(ratios, RESAMPLES, 0.975);
  rdt_free(list);
  return r;
}

rdt_timing_ratio rdt_timing_ratio_of(const rdt_timing *t, int i, int base) {
  return rdt_timing_sum_ratio(&(rdt_timing_pair){rdt_timing_samples_of(t, i), rdt_timing_samples_of(t, base), 1.0}, 1);
}

void rdt_timing_free(rdt_timing *t) {
  for (int i = 0; i < t->count; ++i) rdt_free(t->cases[i].seconds);
  t->count = 0;
}
