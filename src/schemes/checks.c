#include "schemes/checks.h"

#include <math.h>

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

uint32_t rdt_checks_modulo(double x) {
  return (uint32_t)(int64_t)x;
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
                     .m2 = NAN,
                     .sbar = NAN};
}

static rdt_suspect suspect_of(const rdt_checks *c, int64_t i) {
  const rdt_terms m = terms_of(c, i);
  rdt_suspect x = {.kind = c->kind, .place = {c->place[0], c->place[1]}};
  if (c->along >= 0) x.place[c->along] += i;
  x.residual = fabs(c->observed.dot[i] - c->expected.dot[i]);
  x.bound = rdt_bound_of(c->t, &m);
  return x;
}

static void check_one(const rdt_checks *c, rdt_findings *f, int64_t i) {
  if (c->exact) {
    int64_t place[2] = {c->place[0], c->place[1]};
    if (c->along >= 0) place[c->along] += i;
    rdt_findings_check_exact(f, c->kind, place[0], place[1], rdt_checks_modulo(c->observed.dot[i]),
                             rdt_checks_modulo(c->expected.dot[i]));
    return;
  }
  const rdt_suspect x = suspect_of(c, i);
  rdt_findings_check(f, c->kind, x.place[0], x.place[1], c->observed.dot[i], c->expected.dot[i], x.bound);
}

/* Without the care of fmin and fmax for NaN, which makes them calls. */
static inline double lesser(double a, double b) {
  return a < b ? a : b;
}

static inline double greater(double a, double b) {
  return a > b ? a : b;
}

/* A bound takes longer than a comparison, and it grows with every term. So a run of checks passes at once where the
 * largest residual is within the bound of the smallest terms; only else each check gets its own. */
static bool pass_together(const rdt_checks *c, rdt_findings *f, int64_t begin, int64_t end) {
  rdt_terms low = terms_of(c, begin), high = low;
  double largest = -1.0;
  int64_t worst = begin;
  bool finite = true; /* NaN and Inf are judged one by one */
  for (int64_t i = begin; i < end; ++i) {
    const double residual = fabs(c->observed.dot[i] - c->expected.dot[i]);
    const double c2 = c->observed.sq[i], q = c->expected.sq[i];
    finite &= isfinite(residual) && isfinite(c2) && isfinite(q);
    if (residual > largest) {
      largest = residual;
      worst = i;
    }
    low.c2 = lesser(low.c2, c2), high.c2 = greater(high.c2, c2);
    low.q = lesser(low.q, q), high.q = greater(high.q, q);
    high.s = greater(fabs(high.s), fabs(c->observed.dot[i]));
    high.dot = greater(fabs(high.dot), fabs(c->expected.dot[i]));
  }
  low.s = low.dot = 0.0;
  if (c->square_beta) low.q_beta = low.q, high.q_beta = high.q;
  if (!finite || !(largest <= rdt_bound_of(c->t, &low).tau2)) return false;
  const rdt_suspect x = suspect_of(c, worst);
  rdt_findings_pass(f, end - begin, &x, rdt_floor_of(rdt_bound_of(c->t, &high)));
  return true;
}

void rdt_checks_run(const rdt_checks *c, rdt_findings *f, int64_t count) {
  const int64_t together = 64;
  for (int64_t i = 0; i < count; i += together) {
    const int64_t end = i + together < count ? i + together : count;
    if (!c->exact && end - i > 3 && pass_together(c, f, i, end)) continue;
    for (int64_t j = i; j < end; ++j) check_one(c, f, j);
  }
}
