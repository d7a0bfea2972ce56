#include "schemes/checks.h"

#include <math.h>
#include <omp.h>
#include <stdatomic.h>

#include "check/weights.h"
#include "core/cpu_info.h"
#include "cpu/threads.h"

enum { TOGETHER = 1024 /* checks that may pass at once */, SHARED = 8 * TOGETHER /* that threads share */, TEAM = 16 };

static uint64_t splitmix64(uint64_t *x) {
  uint64_t z = *x += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void rdt_checks_signs(double *w, int64_t n, int64_t block, uint64_t seed) {
  for (int64_t b = 0; b < n; b += block) {
    const int64_t length = n - b < block ? n - b : block;
    for (int64_t i = 0; i < length; ++i) w[b + i] = i % 2 ? -1.0 : 1.0;
    for (int64_t i = length - 1; i > 0; --i) {
      const int64_t j = (int64_t)(splitmix64(&seed) % (uint64_t)(i + 1));
      const double t = w[b + i];
      w[b + i] = w[b + j];
      w[b + j] = t;
    }
  }
}

void rdt_checks_weights(double *w, int64_t n, int64_t block, uint64_t seed, int set) {
  rdt_checks_signs(w, n, block, seed);
  for (int64_t j = 0; set > 0 && j < n; ++j) w[j] *= rdt_check_weight(j, set);
}

/* No less than the mean over the segments that T3 takes: the product of neighbours is no more than the mean of their
 * squares, and what that adds is within what the bridges between them have. */
static double m2_of(const rdt_checks *c, int64_t i) {
  return c->between ? (c->between[i] + 0.5 * c->observed.sq[i]) / (double)c->t->segments : NAN;
}

static rdt_terms terms_of(const rdt_checks *c, int64_t i) {
  return (rdt_terms){.n = c->outputs,
                     .abs_c = NAN,
                     .c2 = c->observed.sq[i],
                     .s = c->observed.dot[i],
                     .ag = NAN, /* follows from q, a little looser in tau0 only, for a third less work in the passes */
                     .q = c->expected.sq[i],
                     .dot = c->expected.dot[i],
                     .a_beta = NAN,
                     .q_beta = c->square_beta ? c->expected.sq[i] : NAN,
                     .m2 = m2_of(c, i),
                     .sbar = NAN};
}

static int64_t along_of(const rdt_checks *c, int64_t i) {
  return c->period > 0 ? i % c->period : i;
}

static void place_of(const rdt_checks *c, int64_t i, int64_t place[2]) {
  for (int axis = 0; axis < 2; ++axis) place[axis] = c->place[axis];
  if (c->along >= 0) place[c->along] += along_of(c, i);
  if (c->wide == 0) return;
  place[0] += i / c->wide * c->unit[0];
  place[1] += i % c->wide * c->unit[1];
}

static rdt_suspect suspect_of(const rdt_checks *c, int64_t i) {
  const rdt_terms m = terms_of(c, i);
  rdt_suspect x = {.kind = c->kind};
  place_of(c, i, x.place);
  x.residual = fabs(c->observed.dot[i] - c->expected.dot[i]);
  x.bound = rdt_bound_of(c->t, &m);
  return x;
}

rdt_suspect rdt_checks_look(const rdt_checks *c, int64_t i) {
  rdt_suspect x = suspect_of(c, i);
  x.outcome = rdt_compare(c->observed.dot[i], c->expected.dot[i], x.bound);
  return x;
}

static void check_one(const rdt_checks *c, rdt_findings *f, int64_t i) {
  if (c->exact) {
    int64_t place[2];
    place_of(c, i, place);
    rdt_findings_check_exact(f, c->kind, place[0], place[1], rdt_checks_modulo(c->observed.dot[i]),
                             rdt_checks_modulo(c->expected.dot[i]));
    return;
  }
  const rdt_suspect x = suspect_of(c, i);
  rdt_findings_check_first(f, c->kind, x.place, c->observed.dot[i], c->expected.dot[i], x.bound);
}

/* Without the care of fmin and fmax for NaN, which makes them calls. */
static inline double lesser(double a, double b) {
  return a < b ? a : b;
}

static inline double greater(double a, double b) {
  return a > b ? a : b;
}

/* Of a run of checks: the least terms and the largest residual in units of the root of q, and the largest terms. */
typedef struct extremes {
  rdt_terms low, high;
  double largest, least_q; /* the residual's square */
  bool finite;             /* NaN and Inf are judged one by one */
} extremes;

typedef struct measured { /* part: c2 in units of q */
  double share, part_low, c_high, q_low, q_high, s, d;
  double odd; /* NaN as soon as anything is not finite */
} measured;

#define INLINE static inline __attribute__((always_inline))

INLINE measured measure(const rdt_checks *c, int64_t begin, int64_t end) {
  const double *const dot = c->expected.dot, *const sum = c->observed.dot, *const sq = c->expected.sq,
                      *const raw = c->observed.sq;
  double most = 0.0, c_low = INFINITY, c_high = 0.0, q_low = INFINITY, q_high = 0.0, s = 0.0, d = 0.0, odd = 0.0;
#pragma omp simd reduction(max : most, c_high, q_high, s, d) reduction(min : c_low, q_low) reduction(+ : odd)
  for (int64_t i = begin; i < end; ++i) {
    const double r = sum[i] - dot[i], unit = 1.0 / sq[i], share = r * r * unit, part = raw[i] * unit;
    most = greater(share, most);
    c_low = lesser(part, c_low), c_high = greater(raw[i], c_high);
    q_low = lesser(sq[i], q_low), q_high = greater(sq[i], q_high);
    s = greater(fabs(sum[i]), s), d = greater(fabs(dot[i]), d);
    odd += 0.0 * (share + part);
  }
  return (measured){most, c_low, c_high, q_low, q_high, s, d, odd};
}

/* Residuals mostly are within what q alone allows: that takes two products. */
INLINE int64_t second_by_q(const rdt_checks *c, double factor, int64_t begin, int64_t end) {
  const double *const dot = c->expected.dot, *const sum = c->observed.dot, *const sq = c->expected.sq;
  int64_t passed = 0;
  for (int64_t i = begin; i < end; ++i)
    passed += rdt_compare_squared(sum[i], dot[i], factor * sq[i]) & (sq[i] < INFINITY);
  return passed;
}

/* What passes over all checks, for the ISA: the same bits. */
typedef struct passes {
  measured (*measure)(const rdt_checks *c, int64_t begin, int64_t end);
  int64_t (*second)(const rdt_checks *c, double factor, int64_t begin, int64_t end);
} passes;

#define PASSES(name, ...)                                                                                    \
  __VA_ARGS__ static measured measure_##name(const rdt_checks *c, int64_t begin, int64_t end) {              \
    return measure(c, begin, end);                                                                           \
  }                                                                                                          \
  __VA_ARGS__ static int64_t second_##name(const rdt_checks *c, double factor, int64_t begin, int64_t end) { \
    return second_by_q(c, factor, begin, end);                                                               \
  }                                                                                                          \
  static const passes passes_##name = {measure_##name, second_##name};
PASSES(plain, )
#if defined(__x86_64__)
PASSES(avx2, __attribute__((target("avx2"))))

static const passes *passes_of(void) {
  static _Atomic(const passes *) best; /* any thread finds the same */
  const passes *p = atomic_load_explicit(&best, memory_order_relaxed);
  if (!p) {
    p = rdt_isa_detect() >= RDT_ISA_AVX2 ? &passes_avx2 : &passes_plain;
    atomic_store_explicit(&best, p, memory_order_relaxed);
  }
  return p;
}
#else
static const passes *passes_of(void) {
  return &passes_plain;
}
#endif

static extremes extremes_of(const rdt_checks *c, int64_t begin, int64_t end) {
  extremes x = {.low = terms_of(c, begin), .high = terms_of(c, begin)};
  measured m = passes_of()->measure(c, begin, end);
  x.low.c2 = m.part_low, x.high.c2 = m.c_high;
  x.low.q = 1.0, x.high.q = m.q_high;
  x.low.s = x.low.dot = 0.0;
  x.high.s = m.s, x.high.dot = m.d;
  if (c->square_beta) x.low.q_beta = x.low.q, x.high.q_beta = m.q_high;
  double m_low = INFINITY, m_high = 0.0;
  for (int64_t i = begin; c->between && i < end; ++i) {
    const double m2 = m2_of(c, i);
    m_low = lesser(m2 / c->expected.sq[i], m_low), m_high = greater(m2, m_high);
    m.odd += 0.0 * m2;
  }
  if (c->between) x.low.m2 = m_low, x.high.m2 = m_high;
  x.largest = m.share;
  x.least_q = m.q_low;
  x.finite = m.odd == 0.0;
  return x;
}

/* A bound takes longer than a comparison. It grows with every term, and in proportion to the root of the squares. So a
 * run of checks passes at once where the largest residual, in units of its own root of q, is within the bound of the
 * smallest terms; only else each check gets its own. */
/* A planted fault in the comparison of a run of checks, or a single one of them, which then is made by itself. */
static bool strike_block(const rdt_findings *f, int64_t count, double residual, double bound) {
  rdt_strike *s = f->strike;
  if (rdt_strike_due(s, RDT_SITE_BOUND, RDT_STRIKE_BLOCK, f->checks, count)) rdt_strike_double(s, &bound);
  uint32_t passed = residual <= bound;
  if (rdt_strike_due(s, RDT_SITE_COMPARISON, RDT_STRIKE_BLOCK, f->checks, count)) rdt_strike_word(s, &passed);
  const bool alone = rdt_strike_due(s, s->fault->site, RDT_STRIKE_SINGLE, f->checks, count);
  return passed != 0 && !alone;
}

static bool pass_together(const rdt_checks *c, rdt_findings *f, int64_t begin, int64_t end) {
  const double normal = 0x1p-900; /* squares of residuals that count do not vanish above it */
  const extremes x = extremes_of(c, begin, end);
  if (!x.finite || !(x.least_q > normal)) return false;
  const double bound = rdt_bound_of(c->t, &x.low).tau2;
  bool passed = sqrt(x.largest) <= bound;
  if (f->strike) passed = strike_block(f, end - begin, sqrt(x.largest), bound);
  if (!passed) return false;
  const double least = x.largest * (1.0 - 0x1p-48); /* but for its own roundings */
  int64_t worst = begin;
  for (int64_t i = begin; i < end; ++i) {
    const double r = c->observed.dot[i] - c->expected.dot[i];
    if (r * r < least * c->expected.sq[i]) continue;
    worst = i;
    break;
  }
  const rdt_suspect suspect = suspect_of(c, worst);
  rdt_findings_pass(f, end - begin, &suspect, rdt_floor_of(rdt_bound_of(c->t, &x.high)));
  return true;
}

static void run(const rdt_checks *c, rdt_findings *f, int64_t begin, int64_t end) {
  const int64_t parts = 16, length = end - begin, part = (length + parts - 1) / parts;
  if (length > 3 && pass_together(c, f, begin, end)) return;
  if (length <= 64) {
    for (int64_t i = begin; i < end; ++i) check_one(c, f, i);
    return;
  }
  for (int64_t i = begin; i < end; i += part) run(c, f, i, i + part < end ? i + part : end);
}

/* ---- the second comparison: its own bound, its own way through the checks ---- */

static int64_t second_by_all(const rdt_checks *c, const rdt_squared *b, int64_t begin, int64_t end) {
  int64_t passed = 0;
  for (int64_t i = begin; i < end; ++i) {
    const rdt_terms m = terms_of(c, i);
    passed += rdt_compare_squared(c->observed.dot[i], c->expected.dot[i], rdt_squared_at(b, &m));
  }
  return passed;
}

/* A planted fault in a sum. */
static void strike_sum(const rdt_checks *c, rdt_findings *f, int64_t count) {
  rdt_strike *s = f->strike;
  rdt_strike_announce(s, f->checks, count);
  if (!rdt_strike_due(s, RDT_SITE_SUM, RDT_STRIKE_BLOCK, f->checks, count)) return;
  double *x = (s->way == RDT_STRIKE_SECOND ? c->expected.dot : c->observed.dot) + (s->at - f->checks);
  if (!c->exact) {
    rdt_strike_double(s, x);
    return;
  }
  uint32_t word = rdt_checks_modulo(*x);
  rdt_strike_word(s, &word);
  *x = word;
}

static void add_vanished(const rdt_checks *c, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    c->expected.sq[i] += c->vanished[0];
    c->observed.sq[i] += c->vanished[1];
  }
}

/* Checks begin .. end - 1, in both ways while they lie in the cache. */
static void run_part(const rdt_checks *c, rdt_findings *f, int64_t begin, int64_t end) {
  rdt_strike *s = f->strike;
  const int64_t from = f->checks, count = end - begin;
  rdt_squared b = rdt_squared_of(c->t, c->outputs);
  int64_t passed = 0;
  if (rdt_strike_due(s, RDT_SITE_BOUND, RDT_STRIKE_SECOND, from, count)) rdt_strike_double(s, &b.q);
  const double factor = b.q + (c->square_beta ? b.q_beta : 0.0);
  for (int64_t i = begin; i < end; i += TOGETHER) {
    const int64_t stop = i + TOGETHER < end ? i + TOGETHER : end;
    if (!(c->vanished[0] == 0.0)) add_vanished(c, i, stop);
    run(c, f, i, stop);
    const int64_t quick = passes_of()->second(c, factor, i, stop);
    passed += quick == stop - i ? quick : second_by_all(c, &b, i, stop);
  }
  if (rdt_strike_due(s, RDT_SITE_COMPARISON, RDT_STRIKE_SECOND, from, count)) {
    uint32_t word = 1;
    rdt_strike_word(s, &word);
    passed -= word == 0;
  }
  rdt_findings_second(f, passed);
}

typedef struct shared {
  const rdt_checks *c;
  int64_t count;
  rdt_findings *found; /* of the threads, in their order */
} shared;

/* Whole runs of checks: what passes together does not depend on the number of threads. */
static void run_share(const void *job, int64_t from, int64_t to, int thread) {
  const shared *s = job;
  run_part(s->c, &s->found[thread], from * TOGETHER, to * TOGETHER < s->count ? to * TOGETHER : s->count);
}

void rdt_checks_run(const rdt_checks *c, rdt_findings *f, int64_t count) {
  if (f->strike) strike_sum(c, f, count);
  for (int64_t i = 0; c->exact && i < count; ++i) check_one(c, f, i);
  if (c->exact) return;
  const int most = omp_get_max_threads(), team = f->strike || count < SHARED ? 1 : most < TEAM ? most : TEAM;
  if (team == 1) {
    run_part(c, f, 0, count);
    return;
  }
  rdt_findings found[TEAM];
  for (int i = 0; i < team; ++i) rdt_findings_init(&found[i]);
  rdt_threads_share(team, (count + TOGETHER - 1) / TOGETHER, run_share, &(shared){c, count, found});
  for (int i = 0; i < team; ++i) rdt_findings_merge(f, &found[i]);
}
