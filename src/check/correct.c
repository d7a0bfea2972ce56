#include "check/correct.h"

#include <math.h>
#include <string.h>

/* Every check was made, both its comparisons say the same, and all that failed are listed. */
static bool names_all(const rdt_findings *f) {
  return f->cannot == 0 && f->suspects == f->listed && rdt_findings_agree(f);
}

/* Distinct rows (axis 0) or columns (axis 1) that suspects name; -1: not all are known. */
static int lines_named(const rdt_findings *f, int axis, int64_t at[RDT_MAX_SUSPECTS]) {
  int n = 0;
  if (!names_all(f)) return -1;
  for (int i = 0; i < f->listed; i++) {
    const int64_t place = f->list[i].place[axis];
    int known = 0;
    if (place < 0) return -1;
    while (known < n && at[known] != place) known++;
    if (known == n) at[n++] = place;
  }
  return n;
}

/* A checksum over a block of lines along axis, as met by the lines of one span across it. */
typedef struct block {
  int axis;
  int64_t from, to, across;
  double *sum, *magnitude, *square, *line; /* k each */
} block;

static void make_block(const rdt_lines *l, int axis, const int64_t place[2], block *b) {
  int64_t first, end, across, unused, at[2] = {place[0], place[1]};
  l->span(l->self, axis, place[axis], &first, &end);
  l->span(l->self, 1 - axis, place[1 - axis], &across, &unused);
  const int64_t from = first + (place[axis] - first) / RDT_CORRECT_BLOCK * RDT_CORRECT_BLOCK;
  if (b->axis == axis && b->from == from && b->across == across) return;
  *b = (block){.axis = axis, .from = from, .to = from + RDT_CORRECT_BLOCK, .across = across};
  if (b->to > end) b->to = end;
  b->sum = l->scratch(l->self);
  b->magnitude = b->sum + l->k;
  b->square = b->magnitude + l->k;
  b->line = b->square + l->k;
  memset(b->sum, 0, (size_t)(3 * l->k) * sizeof *b->sum);
  for (at[axis] = b->from; at[axis] < b->to; at[axis]++) {
    l->operand(l->self, axis, at, b->line);
    for (int64_t t = 0; t < l->k; t++) {
      b->sum[t] += b->line[t];
      b->magnitude[t] += fabs(b->line[t]);
      b->square[t] += b->line[t] * b->line[t];
    }
  }
}

typedef struct fault {
  int64_t place[2];
  int axis; /* of its checksum's block */
  double value;
  rdt_bound bound;
  bool certain; /* rounding cannot explain what was found there */
} fault;

static double modulo(double x) { /* as 32-bit accumulators keep it; x is exact */
  return (double)(int32_t)(uint32_t)(int64_t)x;
}

/* The value at place from the checksum of a block along axis. */
static void rebuild(const rdt_lines *l, int axis, block *b, fault *f) {
  int64_t at[2] = {f->place[0], f->place[1]};
  double expected = 0.0, others = 0.0;
  rdt_terms m = {.m2 = NAN, .sbar = NAN};
  make_block(l, axis, f->place, b);
  l->operand(l->self, 1 - axis, f->place, b->line);
  for (int64_t t = 0; t < l->k; t++) {
    const double x = b->line[t], product = b->sum[t] * x;
    expected += product;
    m.ag += b->magnitude[t] * fabs(x);
    m.q += b->square[t] * x * x;
    m.a_beta += fabs(product);
    m.q_beta += product * product;
  }
  for (at[axis] = b->from; at[axis] < b->to; at[axis]++) {
    const double c = at[axis] == f->place[axis] ? 0.0 : l->load(l->self, at);
    others += c;
    m.abs_c += fabs(c);
    m.c2 += c * c;
  }
  const double found = l->load(l->self, f->place);
  f->value = expected - others;
  if (l->acc == RDT_S32) f->value = modulo(f->value);
  m.n = b->to - b->from;
  m.abs_c += fabs(f->value);
  m.c2 += f->value * f->value;
  m.s = m.dot = expected;
  f->axis = axis;
  f->bound = rdt_bound_rebuilt(&l->tol, &m, l->acc, f->value);
  f->certain = !(fabs(found - f->value) <= f->bound.tau0);
}

/* From the checksum along either axis, whichever bounds it better: a single fault has two. */
static void rebuild_single(const rdt_lines *l, fault *f) {
  block b = {.axis = -1};
  fault other = *f;
  rebuild(l, 0, &b, f);
  rebuild(l, 1, &b, &other);
  if (other.bound.tau0 < f->bound.tau0) *f = other;
}

void rdt_correct(const rdt_lines *l, const rdt_findings *rows, const rdt_findings *cols, rdt_rebuilt *out) {
  int64_t at[2][RDT_MAX_SUSPECTS];
  const int n[2] = {lines_named(rows, 0, at[0]), lines_named(cols, 1, at[1])};
  const int along = n[0] == 1 ? 1 : 0; /* the axis whose lines have one fault each */
  fault faults[RDT_MAX_SUSPECTS];
  block b = {.axis = -1};
  bool certain = false;
  *out = (rdt_rebuilt){.count = 0};
  if (n[0] < 1 || n[1] < 1 || n[1 - along] != 1) return;
  for (int i = 0; i < n[along]; i++) {
    fault *f = &faults[i];
    f->place[along] = at[along][i];
    f->place[1 - along] = at[1 - along][0];
    if (n[along] == 1)
      rebuild_single(l, f);
    else
      rebuild(l, 1 - along, &b, f);
    if (!isfinite(f->value) || !isfinite(f->bound.tau0)) return;
    certain = certain || f->certain;
    out->bound = fmax(out->bound, f->bound.tau0);
    out->spread = hypot(out->spread, f->bound.tau2);
  }
  if (!certain) return; /* the values that were found may be right: only computing again can tell */
  for (int i = 0; i < n[along]; i++) l->store(l->self, faults[i].place, faults[i].value);
  out->count = n[along];
  out->axis = faults[0].axis;
  out->line = faults[0].place[out->axis];
}

bool rdt_correct_holds(const rdt_rebuilt *b, const rdt_findings *rows, const rdt_findings *cols) {
  const rdt_findings *f[2] = {rows, cols};
  for (int axis = 0; axis < 2; axis++) {
    if (!names_all(f[axis])) return false;
    for (int i = 0; i < f[axis]->listed; i++) {
      const rdt_suspect *s = &f[axis]->list[i];
      const bool crosses = axis == b->axis && s->place[axis] == b->line;
      if (!crosses || !(s->residual <= s->bound.tau2 + b->spread)) return false;
    }
  }
  return true;
}
