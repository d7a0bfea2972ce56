#include "outofcore/block.h"

#include <float.h>
#include <math.h>
#include <string.h>

int64_t rdt_block_doubles(int64_t rows, int64_t cols) {
  return 7 * (rows + cols); /* three pairs and the squares between */
}

static double *take(double **at, int64_t n) {
  double *p = *at;
  *at += n;
  return p;
}

static rdt_pair take_pair(double **at, int64_t n) {
  rdt_pair p = {.dot = take(at, n)};
  p.sq = take(at, n);
  return p;
}

static void lend(rdt_block_side side[2], double *memory, const int64_t n[2]) {
  for (int axis = 0; axis < 2; axis++) {
    rdt_block_side *s = &side[axis];
    s->expected = take_pair(&memory, n[axis]);
    s->observed = take_pair(&memory, n[axis]);
    s->step = take_pair(&memory, n[axis]);
    s->between = take(&memory, n[axis]);
  }
}

void rdt_block_lend(rdt_block *b, double *memory, double *far, int64_t rows, int64_t cols) {
  const int64_t n[2] = {rows, cols};
  b->doubles = rdt_block_doubles(rows, cols);
  b->memory = memory;
  b->far_memory = far;
  lend(b->side, memory, n);
  if (far) lend(b->far, far, n);
}

rdt_status rdt_block_begin(rdt_block *b, const rdt_block_signs *s, rdt_reason *why) {
  b->k = b->steps = 0;
  b->moved = 0.0;
  b->side[0].weight = s->cols, b->side[1].weight = s->rows;
  b->far[0].weight = s->far_cols, b->far[1].weight = s->far_rows;
  for (int axis = 0; axis < 2; axis++) {
    rdt_block_side *x = &b->side[axis];
    const size_t bytes = (size_t)b->c.shape[axis] * sizeof(double);
    memset(x->expected.dot, 0, bytes);
    memset(x->expected.sq, 0, bytes);
    memset(x->between, 0, bytes);
  }
  return b->on->begin(b, why);
}

rdt_status rdt_block_expect(rdt_block *b, const rdt_tensor *a, const rdt_tensor *m, double *const sums[2], int64_t most,
                            rdt_reason *why) {
  RDT_TRY(b->on->expect(b, a, m, sums, most, why));
  b->steps++;
  b->k += a->shape[1];
  return RDT_OK;
}

rdt_tolerance rdt_block_tolerance(const rdt_block *b, int axis) {
  const double u = rdt_dtype_info(RDT_F64)->u;
  int splits;
  const rdt_accumulator acc = b->on->accumulator(b->dev, b->lane, b->in, b->c.dtype, &splits);
  const bool nearest = acc.rounding == RDT_ROUND_NEAREST;
  return (rdt_tolerance){.acc = acc,
                         .k = b->k,
                         .u_check = u,
                         .u_beta = u,
                         .depth_beta = b->c.shape[1 - axis],
                         .splits = b->steps * (1 + splits + (b->strassen ? 3 : 0)) - 1,
                         .segments = b->steps > 1 && nearest && !b->strassen ? b->steps : 0,
                         .lambda = b->lambda};
}

static bool squares_beta(const rdt_block *b) { /* where checks round like the product, both squares matter as much */
  return b->in == RDT_F64 && !b->far_memory;
}

static rdt_checks checks_of(const rdt_block *b, int axis, const rdt_tolerance *t, const int64_t place[2]) {
  const rdt_block_side *s = &b->side[axis];
  return (rdt_checks){.t = t,
                      .square_beta = squares_beta(b),
                      .kind = axis == 0 ? RDT_CHECK_ROW : RDT_CHECK_COL,
                      .outputs = b->c.shape[1 - axis],
                      .place = {axis == 0 ? place[0] : -1, axis == 0 ? -1 : place[1]},
                      .along = axis,
                      .expected = s->expected,
                      .observed = s->observed,
                      .between = t->segments > 0 ? s->between : NULL};
}

/* Seven products may be far larger than what they add up to: C says nothing of what rounding did to it. */
static void forget_size(rdt_block *b) {
  for (int axis = 0; axis < 2; axis++)
    for (int64_t i = 0; i < b->c.shape[axis]; i++) b->side[axis].observed.sq[i] = DBL_MAX;
}

/* The vectors as the backend has them. */
static rdt_status fetch(rdt_block *b, rdt_reason *why) {
  const size_t bytes = (size_t)b->doubles * sizeof(double);
  if (b->far_memory) RDT_TRY(b->on->get(b->dev, b->lane, b->memory, b->far_memory, bytes, 1, bytes, why));
  if (b->strassen) forget_size(b);
  return RDT_OK;
}

rdt_status rdt_block_check(rdt_block *b, const int64_t place[2], rdt_findings *f, uint64_t *seal, rdt_reason *why) {
  bool judged;
  rdt_findings_init(f);
  RDT_TRY(b->on->observe(b, f, &judged, seal, why));
  if (!judged) RDT_TRY(fetch(b, why));
  for (int axis = 0; axis < 2 && !judged; axis++) {
    const rdt_tolerance t = rdt_block_tolerance(b, axis);
    const rdt_checks c = checks_of(b, axis, &t, place);
    rdt_checks_run(&c, f, b->c.shape[axis]);
  }
  return RDT_OK;
}

/* What the host has changed of them, to where they are added to. */
static rdt_status put_expected(const rdt_block *b, rdt_reason *why) {
  if (!b->far_memory) return RDT_OK;
  return b->on->put(b->dev, b->lane, b->far_memory, b->memory, (size_t)b->doubles * sizeof(double), why);
}

/* ---- after a complaint ---- */

typedef struct line_state { /* of one axis: sums that fail, and those that can say nothing because of the operands */
  int64_t bad, first, blind;
  bool certain, overflowing;
} line_state;

static bool is_blind(const rdt_block_side *s, int64_t i) {
  return !isfinite(s->expected.dot[i]) || !isfinite(s->expected.sq[i]);
}

static rdt_suspect look(const rdt_block *b, int axis, int64_t i) {
  const int64_t origin[2] = {0, 0};
  const rdt_tolerance t = rdt_block_tolerance(b, axis);
  const rdt_checks c = checks_of(b, axis, &t, origin);
  return rdt_checks_look(&c, i);
}

static bool is_bad(const rdt_block *b, int axis, int64_t i) {
  return !is_blind(&b->side[axis], i) && look(b, axis, i).outcome != RDT_PASS;
}

static line_state survey(const rdt_block *b, int axis) {
  line_state s = {.first = -1};
  for (int64_t i = 0; i < b->c.shape[axis]; i++) {
    if (is_blind(&b->side[axis], i)) {
      s.blind++;
      continue;
    }
    const rdt_outcome o = look(b, axis, i).outcome;
    if (o == RDT_PASS) continue;
    if (s.bad++ == 0) s.first = i;
    s.certain = s.certain || o == RDT_CERTAIN;
    s.overflowing = s.overflowing || o == RDT_CANNOT;
  }
  return s;
}

/* A row (axis 0) or column of C as numbers, in b->line. */
static rdt_status read_line(const rdt_block *b, int axis, int64_t i, rdt_reason *why) {
  const size_t size = rdt_dtype_size(b->c.dtype);
  const int64_t n = b->c.shape[1 - axis], apart = b->c.stride[1 - axis];
  const char *from = (const char *)b->c.data + (size_t)(i * b->c.stride[axis]) * size;
  char *raw = (char *)b->line + (size_t)n * (sizeof(double) - size); /* it is widened from its begin on */
  const size_t piece = apart == 1 ? (size_t)n * size : size;
  RDT_TRY(b->on->get(b->dev, b->lane, raw, from, piece, apart == 1 ? 1 : n, (size_t)apart * size, why));
  for (int64_t j = 0; j < n; j++) b->line[j] = rdt_load(raw, b->c.dtype, j);
  return RDT_OK;
}

static rdt_status write_element(const rdt_block *b, const int64_t at[2], double x, rdt_reason *why) {
  const size_t size = rdt_dtype_size(b->c.dtype);
  char raw[sizeof(double)];
  rdt_store(raw, b->c.dtype, 0, x);
  const int64_t place = at[0] * b->c.stride[0] + at[1] * b->c.stride[1];
  return b->on->put(b->dev, b->lane, (char *)b->c.data + (size_t)place * size, raw, size, why);
}

typedef struct rebuilt {
  double value, found;
  rdt_bound bound;
} rebuilt;

/* The element at `at` from the checksum of its line of that axis: what the line must sum to less its other elements. */
static rdt_status rebuild(const rdt_block *b, int axis, const int64_t at[2], rebuilt *out, rdt_reason *why) {
  const rdt_block_side *s = &b->side[axis];
  const int64_t i = at[axis], n = b->c.shape[1 - axis];
  const rdt_tolerance t = rdt_block_tolerance(b, axis);
  double others = 0.0, squares = 0.0;
  RDT_TRY(read_line(b, axis, i, why));
  for (int64_t j = 0; j < n; j++) {
    if (j == at[1 - axis]) continue;
    others += s->weight[j] * b->line[j];
    squares += b->line[j] * b->line[j];
  }
  rebuilt r = {.value = (s->expected.dot[i] - others) * s->weight[at[1 - axis]], /* a sign is its own inverse */
               .found = b->line[at[1 - axis]]};
  const rdt_terms m = {.n = n,
                       .abs_c = NAN,
                       .c2 = b->strassen ? DBL_MAX : squares + r.value * r.value,
                       .s = s->expected.dot[i],
                       .ag = NAN,
                       .q = s->expected.sq[i],
                       .dot = s->expected.dot[i],
                       .a_beta = NAN,
                       .q_beta = squares_beta(b) ? s->expected.sq[i] : NAN,
                       .m2 = NAN,
                       .sbar = NAN};
  rdt_tolerance plain = t;
  plain.segments = 0;
  r.bound = rdt_bound_rebuilt(&plain, &m, b->c.dtype, r.value);
  *out = r;
  return RDT_OK;
}

/* Of the elements where line `line` of axis crosses the bad lines of the other one, each from that line's checksum. A
 * single one has two: the better. False: some value cannot be had, or none of those found is wrong for certain. */
static rdt_status rebuild_line(rdt_block *b, int axis, int64_t line, bool single, bool store, rdt_settlement *out,
                               double *spread, bool *certain, rdt_reason *why) {
  *certain = false;
  out->count = 0;
  *spread = 0.0;
  for (int64_t j = 0; j < b->c.shape[1 - axis]; j++) {
    if (!is_bad(b, 1 - axis, j)) continue;
    int64_t at[2];
    at[axis] = line;
    at[1 - axis] = j;
    rebuilt r, other;
    RDT_TRY(rebuild(b, 1 - axis, at, &r, why));
    if (single) {
      RDT_TRY(rebuild(b, axis, at, &other, why));
      if (other.bound.tau0 < r.bound.tau0) r = other;
    }
    if (!isfinite(r.value) || !isfinite(r.bound.tau0)) {
      *certain = false;
      return RDT_OK;
    }
    *certain = *certain || !(fabs(r.found - r.value) <= r.bound.tau0);
    if (out->count++ == 0) out->other = j, out->before = r.found, out->after = r.value;
    out->bound = fmax(out->bound, r.bound.tau0);
    *spread = hypot(*spread, r.bound.tau2);
    if (store) RDT_TRY(write_element(b, at, r.value, why));
  }
  return RDT_OK;
}

/* Does the block hold, but for what the rounding of rebuilt values does to the line that they lie in? That line's
 * expected sum becomes what it is, so that later products are added to it. */
static rdt_status holds(rdt_block *b, const int64_t place[2], int axis, int64_t line, double spread, rdt_findings *f,
                        bool *yes, rdt_reason *why) {
  rdt_block_side *s = &b->side[axis];
  RDT_TRY(rdt_block_check(b, place, f, NULL, why));
  RDT_TRY(fetch(b, why));
  const rdt_suspect x = look(b, axis, line);
  *yes = x.residual <= x.bound.tau2 + spread;
  for (int a = 0; a < 2 && *yes; a++)
    for (int64_t i = 0; i < b->c.shape[a] && *yes; i++) *yes = (a == axis && i == line) || !is_bad(b, a, i);
  if (!*yes) return RDT_OK;
  b->moved += fabs(s->observed.dot[line] - s->expected.dot[line]);
  s->expected.dot[line] = s->observed.dot[line];
  RDT_TRY(put_expected(b, why));
  return rdt_block_check(b, place, f, NULL, why);
}

/* The sum of all with both signs, from the rows' checksums less that from the columns': 0 but for rounding, in double.
 */
static double corner(const rdt_block *b, rdt_bound *bound) {
  const rdt_block_side *rows = &b->side[0], *cols = &b->side[1];
  rdt_tolerance t = rdt_block_tolerance(b, 0);
  rdt_terms m = {.n = b->c.shape[0] * b->c.shape[1],
                 .abs_c = NAN,
                 .c2 = 0.0,
                 .ag = NAN,
                 .q = 0.0,
                 .a_beta = NAN,
                 .q_beta = NAN,
                 .m2 = NAN,
                 .sbar = NAN};
  double sum[2] = {0.0, 0.0};
  for (int64_t i = 0; i < b->c.shape[0]; i++) {
    sum[0] += cols->weight[i] * rows->expected.dot[i];
    m.q += rows->expected.sq[i];
    m.c2 += rows->observed.sq[i];
  }
  for (int64_t j = 0; j < b->c.shape[1]; j++) sum[1] += rows->weight[j] * cols->expected.dot[j];
  t.acc = rdt_accumulator_of(RDT_F64, RDT_F64);
  t.segments = 0;
  t.depth_beta = b->c.shape[0] + b->c.shape[1];
  m.s = sum[0];
  m.dot = sum[1];
  *bound = rdt_bound_of(&t, &m);
  bound->tau0 += b->moved;
  bound->tau2 += b->moved;
  return sum[0] - sum[1];
}

/* Sums of one axis alone fail, and the corner says that it is their checksums: they do not agree with the other axis',
 * which C does. */
static rdt_status mend_checksums(rdt_block *b, const int64_t place[2], int axis, rdt_findings *f, rdt_settlement *out,
                                 rdt_reason *why) {
  rdt_block_side *s = &b->side[axis];
  rdt_bound bound;
  double kept[2] = {corner(b, &bound), 0.0};
  if (!(fabs(kept[0]) > bound.tau0)) return RDT_OK;
  /* They become the sums of C, if that makes the corner hold. */
  double moved = 0.0;
  int64_t count = 0, first = -1;
  for (int64_t i = 0; i < b->c.shape[axis]; i++) {
    if (!is_bad(b, axis, i)) continue;
    if (count++ == 0) first = i, kept[1] = s->expected.dot[i];
    moved += b->side[1 - axis].weight[i] * (s->observed.dot[i] - s->expected.dot[i]);
  }
  const double after = kept[0] + (axis == 0 ? moved : -moved);
  const rdt_suspect x = look(b, axis, first);
  if (!(fabs(after) <= bound.tau0 + (double)count * x.bound.tau2)) return RDT_OK;
  for (int64_t i = 0; i < b->c.shape[axis]; i++)
    if (is_bad(b, axis, i)) s->expected.dot[i] = s->observed.dot[i];
  b->moved += (double)count * x.bound.tau2;
  *out = (rdt_settlement){.how = RDT_SETTLED_CHECKSUM,
                          .count = count,
                          .axis = axis,
                          .line = first,
                          .other = -1,
                          .before = kept[1],
                          .after = s->observed.dot[first]};
  RDT_TRY(put_expected(b, why));
  return rdt_block_check(b, place, f, NULL, why);
}

rdt_status rdt_block_settle(rdt_block *b, const int64_t place[2], bool change, rdt_findings *f, rdt_settlement *out,
                            rdt_reason *why) {
  const line_state s[2] = {survey(b, 0), survey(b, 1)};
  const int64_t blind = s[0].blind + s[1].blind;
  *out = (rdt_settlement){.how = RDT_SETTLED_AGAIN,
                          .line = -1,
                          .other = -1,
                          .certain = s[0].certain || s[1].certain,
                          .overflowing = s[0].overflowing || s[1].overflowing};
  if (s[0].bad + s[1].bad == 0) {
    if (blind > 0) out->how = RDT_SETTLED_UNCHECKED; /* else the two comparisons of a check do not say the same */
    return RDT_OK;
  }
  if (blind > 0 || out->overflowing) return RDT_OK;
  for (int axis = 0; axis < 2; axis++)
    if (s[1 - axis].bad == 0) return mend_checksums(b, place, axis, f, out, why);
  if (!change || (s[0].bad != 1 && s[1].bad != 1)) return RDT_OK;
  const int axis = s[0].bad == 1 ? 0 : 1;
  const bool single = s[0].bad == 1 && s[1].bad == 1;
  rdt_settlement r = {.how = RDT_SETTLED_REBUILT, .axis = axis, .line = s[axis].first};
  double spread;
  bool yes = false, certain;
  RDT_TRY(rebuild_line(b, axis, r.line, single, false, &r, &spread, &certain, why));
  if (!certain) return RDT_OK;
  RDT_TRY(rebuild_line(b, axis, r.line, single, true, &r, &spread, &certain, why));
  RDT_TRY(holds(b, place, axis, r.line, spread, f, &yes, why));
  r.bound += f->floor; /* a fault too small to be seen may lie in the same checksum */
  if (yes) *out = r;
  return RDT_OK;
}
