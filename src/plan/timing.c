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
  double all = 0.0;
  for (int i = 0; i < c->repeats;) {
    if (c->before) c->before(c->user);
    const int until = c->before ? i + 1 : c->repeats;
    const double begin = rdt_timing_now();
    for (; i < until; ++i) {
      const int code = c->fn(c->user);
      if (code) return code;
    }
    all += rdt_timing_now() - begin;
  }
  *seconds = all / c->repeats;
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
    const int code = warm_up(c, t);
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

static int pick(uint64_t *seed, int n) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((*seed >> 33) % (uint64_t)n);
}

/* Trials are drawn in pairs, so that a slow moment of the machine stays in both medians: where one has as many as the
 * other, and all were taken in turn. */
static double resample(const rdt_timing_pair *pairs, int n, uint64_t *seed, double *x, double *y) {
  double above = 0.0, below = 0.0;
  for (int i = 0; i < n; i++) {
    const rdt_timing_samples of = pairs[i].of, base = pairs[i].base;
    for (int k = 0; k < of.n; ++k) {
      const int at = pick(seed, of.n);
      x[k] = of.seconds[at];
      if (of.n == base.n) y[k] = base.seconds[at];
    }
    for (int k = 0; k < base.n && of.n != base.n; ++k) y[k] = base.seconds[pick(seed, base.n)];
    above += pairs[i].times * median_of(x, of.n);
    below += pairs[i].times * median_of(y, base.n);
  }
  return above / below;
}

rdt_timing_ratio rdt_timing_sum_ratio(const rdt_timing_pair *pairs, int n) {
  rdt_timing_ratio r = {NAN, NAN, NAN};
  double above = 0.0, below = 0.0;
  int trials = 0;
  for (int i = 0; i < n; i++) {
    const rdt_timing_pair *p = &pairs[i];
    if (p->of.n < 1 || p->base.n < 1) return r;
    above += p->times * rdt_timing_samples_stat(p->of).median;
    below += p->times * rdt_timing_samples_stat(p->base).median;
    if (p->of.n > trials) trials = p->of.n;
    if (p->base.n > trials) trials = p->base.n;
  }
  r.ratio = above / below;
  double *memory = rdt_alloc(2 * (size_t)trials + RESAMPLES, sizeof *memory);
  if (!memory) return r;
  double *ratios = memory + 2 * trials;
  uint64_t seed = 1;
  for (int k = 0; k < RESAMPLES; ++k) ratios[k] = resample(pairs, n, &seed, memory, memory + trials);
  qsort(ratios, RESAMPLES, sizeof *ratios, by_value);
  r.low = quantile(ratios, RESAMPLES, 0.025);
  r.high = quantile(ratios, RESAMPLES, 0.975);
  rdt_free(memory);
  return r;
}

rdt_timing_ratio rdt_timing_ratio_of(const rdt_timing *t, int i, int base) {
  return rdt_timing_sum_ratio(&(rdt_timing_pair){rdt_timing_samples_of(t, i), rdt_timing_samples_of(t, base), 1.0}, 1);
}

void rdt_timing_free(rdt_timing *t) {
  for (int i = 0; i < t->count; ++i) rdt_free(t->cases[i].seconds);
  t->count = 0;
}
