#include "check/findings.h"

#include <math.h>
#include <string.h>

const char *rdt_check_kind_name(rdt_check_kind k) {
  static const char *const names[] = {"row", "col", "tile", "scalar", "bits", "unit"};
  return (unsigned)k < sizeof names / sizeof names[0] ? names[k] : "unknown";
}

void rdt_findings_init(rdt_findings *f) {
  memset(f, 0, offsetof(rdt_findings, list)); /* of the list nothing is there */
  memset(&f->listed, 0, sizeof *f - offsetof(rdt_findings, listed));
  f->seconded = ~INT64_C(0);
  f->worst.place[0] = f->worst.place[1] = -1;
}

static void book(rdt_findings *f, const rdt_suspect *s, double ratio) {
  f->checks++;
  const bool suspect = s->outcome == RDT_SUSPECT || s->outcome == RDT_CERTAIN;
  f->suspects += suspect;
  f->certain += s->outcome == RDT_CERTAIN;
  f->cannot += s->outcome == RDT_CANNOT;
  if (s->outcome != RDT_CANNOT) {
    if (2.0 * s->bound.tau2 > f->floor) f->floor = 2.0 * s->bound.tau2;
    if (!(ratio <= f->ratio) || f->checks == 1) { /* a NaN residual is the worst there is */
      f->ratio = isnan(ratio) ? INFINITY : ratio;
      f->worst = *s;
    }
  }
  if (suspect && f->listed < RDT_MAX_SUSPECTS) f->list[f->listed++] = *s;
}

/* A planted fault, where it is this check's turn. */
static void strike_operands(const rdt_findings *f, double *observed, double *expected, rdt_bound *b) {
  rdt_strike *s = f->strike;
  if (rdt_strike_due(s, RDT_SITE_SUM, RDT_STRIKE_SINGLE, f->checks, 1))
    rdt_strike_double(s, s->way == RDT_STRIKE_SECOND ? expected : observed);
  if (rdt_strike_due(s, RDT_SITE_BOUND, RDT_STRIKE_SINGLE, f->checks, 1)) rdt_strike_double(s, &b->tau2);
}

static rdt_outcome strike_outcome(const rdt_findings *f, rdt_outcome outcome) {
  uint32_t word = outcome;
  if (rdt_strike_due(f->strike, RDT_SITE_COMPARISON, RDT_STRIKE_SINGLE, f->checks, 1))
    rdt_strike_word(f->strike, &word);
  return (rdt_outcome)word;
}

static bool strike_second(const rdt_findings *f, bool passed) {
  uint32_t word = passed;
  if (rdt_strike_due(f->strike, RDT_SITE_COMPARISON, RDT_STRIKE_SECOND, f->checks, 1))
    rdt_strike_word(f->strike, &word);
  return word != 0;
}

/* Compares in the first way only, and books. */
static rdt_outcome check_first(rdt_findings *f, rdt_check_kind kind, const int64_t place[2], double observed,
                               double expected, rdt_bound b) {
  rdt_suspect s = {.kind = kind, .place = {place[0], place[1]}, .residual = fabs(observed - expected), .bound = b};
  s.outcome = rdt_compare(observed, expected, b);
  if (f->strike) s.outcome = strike_outcome(f, s.outcome);
  book(f, &s, b.tau2 > 0.0 ? s.residual / b.tau2 : s.residual > 0.0 ? INFINITY : s.residual);
  return s.outcome;
}

rdt_outcome rdt_findings_check_first(rdt_findings *f, rdt_check_kind kind, const int64_t place[2], double observed,
                                     double expected, rdt_bound b) {
  if (f->strike) strike_operands(f, &observed, &expected, &b);
  return check_first(f, kind, place, observed, expected, b);
}

rdt_outcome rdt_findings_check_twice(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, double observed,
                                     double expected, rdt_bound b, double squared) {
  const int64_t place[2] = {row, col};
  if (f->strike) strike_operands(f, &observed, &expected, &b);
  if (rdt_strike_due(f->strike, RDT_SITE_BOUND, RDT_STRIKE_SECOND, f->checks, 1))
    rdt_strike_double(f->strike, &squared);
  bool passed = rdt_compare_squared(observed, expected, squared);
  if (f->strike) passed = strike_second(f, passed);
  rdt_findings_second(f, passed);
  return check_first(f, kind, place, observed, expected, b);
}

rdt_outcome rdt_findings_check(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, double observed,
                               double expected, rdt_bound b) {
  return rdt_findings_check_twice(f, kind, row, col, observed, expected, b, isfinite(b.tau2) ? b.tau2 * b.tau2 : NAN);
}

void rdt_findings_second(rdt_findings *f, int64_t count) {
  f->seconded -= count; /* ~(n + count) */
}

void rdt_findings_pass(rdt_findings *f, int64_t count, const rdt_suspect *worst, double floor) {
  book(f, worst, worst->bound.tau2 > 0.0 ? worst->residual / worst->bound.tau2 : 0.0);
  f->checks += count - 1;
  if (floor > f->floor) f->floor = floor;
}

rdt_outcome rdt_findings_check_exact(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, uint32_t observed,
                                     uint32_t expected) {
  rdt_suspect s = {.kind = kind, .place = {row, col}};
  if (rdt_strike_due(f->strike, RDT_SITE_SUM, RDT_STRIKE_SINGLE, f->checks, 1)) rdt_strike_word(f->strike, &observed);
  bool passed = (observed ^ expected) == 0;
  s.outcome = rdt_compare_exact(observed, expected);
  s.residual = fabs((double)(int32_t)(observed - expected));
  if (f->strike) {
    passed = strike_second(f, passed);
    s.outcome = strike_outcome(f, s.outcome);
  }
  rdt_findings_second(f, passed);
  book(f, &s, s.outcome == RDT_PASS ? 0.0 : INFINITY);
  return s.outcome;
}

void rdt_findings_bits(rdt_findings *f, int64_t count, int64_t differ, int64_t first) {
  f->checks += count;
  if ((differ == 0) != (first == -1)) return;
  f->suspects += differ != 0;
  rdt_findings_second(f, differ == 0 ? count : count - 1);
}

bool rdt_findings_agree(const rdt_findings *f) {
  const int64_t passed = ~f->seconded;
  if (f->suspects == 0 && f->cannot == 0) return passed == f->checks && f->certain == 0;
  if (f->suspects < 0 || f->suspects > f->checks || f->cannot < 0 || f->cannot > f->checks) return false;
  return passed <= f->checks && passed >= f->checks - f->suspects - f->cannot && f->certain >= 0 &&
         f->certain <= f->suspects;
}

bool rdt_findings_complain(const rdt_findings *f) {
  return f->suspects != 0 || f->cannot != 0 || !rdt_findings_agree(f);
}

void rdt_findings_merge(rdt_findings *into, const rdt_findings *from) {
  if (from->checks > from->cannot && (into->checks == into->cannot || !(from->ratio <= into->ratio))) {
    into->ratio = from->ratio;
    into->worst = from->worst;
  }
  into->checks += from->checks;
  into->suspects += from->suspects;
  into->certain += from->certain;
  into->cannot += from->cannot;
  rdt_findings_second(into, ~from->seconded);
  if (from->floor > into->floor) into->floor = from->floor;
  for (int axis = 0; axis < 2; axis++)
    if (from->unit[axis]) into->unit[axis] = from->unit[axis];
  for (int i = 0; i < from->listed && into->listed < RDT_MAX_SUSPECTS; i++) into->list[into->listed++] = from->list[i];
}

int64_t rdt_suspect_extent(const rdt_findings *f, const rdt_suspect *s, int axis) {
  return s->kind == RDT_CHECK_TILE ? RDT_TILE_SIDE : s->kind == RDT_CHECK_UNIT ? f->unit[axis] : 1;
}

bool rdt_suspect_covers(const rdt_findings *f, const rdt_suspect *s, int axis, int64_t at) {
  const int64_t extent = rdt_suspect_extent(f, s, axis);
  return s->place[axis] < 0 || (at >= s->place[axis] && at < s->place[axis] + extent);
}

void rdt_findings_locate(const rdt_findings *f, int64_t place[2]) {
  double worst[2] = {-1.0, -1.0}; /* largest excess seen for the row and for the column */
  place[0] = place[1] = -1;
  for (int i = 0; i < f->listed; i++) {
    const rdt_suspect *s = &f->list[i];
    const double excess = s->bound.tau2 > 0.0 && s->residual <= INFINITY ? s->residual / s->bound.tau2 : INFINITY;
    for (int axis = 0; axis < 2; axis++)
      if (s->place[axis] >= 0 && excess > worst[axis]) {
        worst[axis] = excess;
        place[axis] = s->place[axis];
      }
  }
}

double rdt_findings_allowed(const rdt_findings *f, const int64_t place[2], double lambda) {
  double covered = INFINITY, narrowest = INFINITY;
  for (int i = 0; i < f->listed; i++) {
    const rdt_suspect *q = &f->list[i];
    const double allowed = rdt_bound_apart(q->bound, lambda);
    if (allowed < narrowest) narrowest = allowed;
    if (rdt_suspect_covers(f, q, 0, place[0]) && rdt_suspect_covers(f, q, 1, place[1]) && allowed < covered)
      covered = allowed;
  }
  return covered < INFINITY || f->suspects == f->listed ? covered : narrowest;
}
