#include "check/findings.h"

#include <math.h>
#include <string.h>

const char *rdt_check_kind_name(rdt_check_kind k) {
  static const char *const names[] = {"row", "col", "tile", "scalar", "bits"};
  return (unsigned)k < sizeof names / sizeof names[0] ? names[k] : "unknown";
}

void rdt_findings_init(rdt_findings *f) {
  memset(f, 0, sizeof *f);
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

rdt_outcome rdt_findings_check(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, double observed,
                               double expected, rdt_bound b) {
  rdt_suspect s = {.kind = kind, .place = {row, col}, .residual = fabs(observed - expected), .bound = b};
  s.outcome = rdt_compare(observed, expected, b);
  book(f, &s, b.tau2 > 0.0 ? s.residual / b.tau2 : s.residual > 0.0 ? INFINITY : s.residual);
  return s.outcome;
}

void rdt_findings_pass(rdt_findings *f, int64_t count, const rdt_suspect *worst, double floor) {
  book(f, worst, worst->bound.tau2 > 0.0 ? worst->residual / worst->bound.tau2 : 0.0);
  f->checks += count - 1;
  if (floor > f->floor) f->floor = floor;
}

rdt_outcome rdt_findings_check_exact(rdt_findings *f, rdt_check_kind kind, int64_t row, int64_t col, uint32_t observed,
                                     uint32_t expected) {
  rdt_suspect s = {.kind = kind, .place = {row, col}};
  s.outcome = rdt_compare_exact(observed, expected);
  s.residual = fabs((double)(int32_t)(observed - expected));
  book(f, &s, s.outcome == RDT_PASS ? 0.0 : INFINITY);
  return s.outcome;
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
  if (from->floor > into->floor) into->floor = from->floor;
  for (int i = 0; i < from->listed && into->listed < RDT_MAX_SUSPECTS; i++) into->list[into->listed++] = from->list[i];
}

bool rdt_suspect_covers(const rdt_suspect *s, int axis, int64_t at) {
  const int64_t extent = s->kind == RDT_CHECK_TILE ? RDT_TILE_SIDE : 1;
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
