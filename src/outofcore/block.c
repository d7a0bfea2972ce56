#include "outofcore/block.h"

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

void rdt_block_lend(rdt_block *b, double *memory, int64_t rows, int64_t cols) {
  const int64_t n[2] = {rows, cols};
  for (int axis = 0; axis < 2; axis++) {
    rdt_block_side *s = &b->side[axis];
    s->expected = take_pair(&memory, n[axis]);
    s->observed = take_pair(&memory, n[axis]);
    s->step = take_pair(&memory, n[axis]);
    s->between = take(&memory, n[axis]);
  }
}

void rdt_block_begin(rdt_block *b, const double *u, const double *w) {
  b->k = b->steps = 0;
  b->moved = 0.0;
  for (int axis = 0; axis < 2; axis++) {
    rdt_block_side *s = &b->side[axis];
    const size_t bytes = (size_t)b->c.shape[axis] * sizeof(double);
    s->weight = axis == 0 ? w : u;
    memset(s->expected.dot, 0, bytes);
    memset(s->expected.sq, 0, bytes);
    memset(s->between, 0, bytes);
  }
}

static bool squares_beta(const rdt_dtype in) { /* where checks round like the product, both squares matter as much */
  return in == RDT_F64;
}

rdt_status rdt_operand_sums(const rdt_backend *on, const rdt_tensor *x, int axis, const double *signs, rdt_pair sums,
                            int threads) {
  const int64_t n = x->shape[axis];
  const rdt_side side = {.weight = {(double *)signs, NULL}, .sum = sums, .block = n};
  rdt_sums pass = {.x = *x};
  *(axis == 0 ? &pass.left : &pass.right) = side;
  return on->sums(&pass, 1, threads);
}

void rdt_operand_sums_end(rdt_dtype in, rdt_pair sums, int64_t count) {
  for (int64_t t = 0; squares_beta(in) && t < count; t++) {
    const double d = sums.dot[t] * sums.dot[t];
    if (!(d <= sums.sq[t])) sums.sq[t] = d;
  }
}

static void add(rdt_block_side *s, int64_t n, bool first) {
  for (int64_t i = 0; i < n; i++) {
    s->expected.dot[i] += s->step.dot[i];
    s->expected.sq[i] += s->step.sq[i];
    if (!first) s->between[i] += s->observed.sq[i]; /* as the last check has seen it */
  }
}

rdt_status rdt_block_expect(rdt_block *b, const rdt_tensor *a, const rdt_pair *a_sums, const rdt_tensor *m,
                            const rdt_pair *beta) {
  const int64_t k = a->shape[1];
  const rdt_sums passes[2] = {{.x = *a, .right = {.weight = *beta, .sum = b->side[0].step, .block = k}},
                              {.x = *m, .left = {.weight = *a_sums, .sum = b->side[1].step, .block = k}}};
  RDT_TRY(b->on->sums(passes, 2, b->threads));
  for (int axis = 0; axis < 2; axis++) add(&b->side[axis], b->c.shape[axis], b->steps == 0);
  b->steps++;
  b->k += k;
  return RDT_OK;
}

static rdt_status observe(rdt_block *b) {
  const rdt_block_side *rows = &b->side[0], *cols = &b->side[1];
  const rdt_sums pass = {
      .x = b->c,
      .right = {.weight = {(double *)rows->weight, NULL}, .sum = rows->observed, .block = b->c.shape[1]},
      .left = {.weight = {(double *)cols->weight, NULL}, .sum = cols->observed, .block = b->c.shape[0]}};
  return b->on->sums(&pass, 1, b->threads);
}

static rdt_tolerance tolerance_of(const rdt_block *b, int axis) {
  const double u = rdt_dtype_info(RDT_F64)->u;
  return (rdt_tolerance){.acc = rdt_accumulator_of(b->in, b->c.dtype),
                         .k = b->k,
                         .u_check = u,
                         .u_beta = u,
                         .depth_beta = b->c.shape[1 - axis],
                         .splits = b->steps - 1,
                         .segments = b->steps > 1 ? b->steps : 0,
                         .lambda = b->lambda};
}

static rdt_checks checks_of(const rdt_block *b, int axis, const rdt_tolerance *t, const int64_t place[2]) {
  const rdt_block_side *s = &b->side[axis];
  return (rdt_checks){.t = t,
                      .square_beta = squares_beta(b->in),
                      .kind = axis == 0 ? RDT_CHECK_ROW : RDT_CHECK_COL,
                      .outputs = b->c.shape[1 - axis],
                      .place = {axis == 0 ? place[0] : -1, axis == 0 ? -1 : place[1]},
                      .along = axis,
                      .expected = s->expected,
                      .observed = s->observed,
                      .between = b->steps > 1 ? s->between : NULL};
}

rdt_status rdt_block_check(rdt_block *b, const int64_t place[2], rdt_findings *f) {
  rdt_findings_init(f);
  RDT_TRY(observe(b));
  for (int axis = 0; axis < 2; axis++) {
    const rdt_tolerance t = tolerance_of(b, axis);
    const rdt_checks c = checks_of(b, axis, &t, place);
    rdt_checks_run(&c, f, b->c.shape[axis]);
  }
  return RDT_OK;
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
  const rdt_tolerance t = tolerance_of(b, axis);
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

static int64_t offset(const rdt_block *b, const int64_t at[2]) {
  return at[0] * b->c.stride[0] + at[1] * b->c.stride[1];
}

typedef struct rebuilt {
  double value, found;
  rdt_bound bound;
} rebuilt;

/* The element at `at` from the checksum of its line of that axis: what the line must sum to less its other elements. */
static rebuilt rebuild(const rdt_block *b, int axis, const int64_t at[2]) {
  const rdt_block_side *s = &b->side[axis];
  const int64_t i = at[axis], n = b->c.shape[1 - axis];
  const rdt_tolerance t = tolerance_of(b, axis);
  double others = 0.0, squares = 0.0;
  int64_t place[2] = {at[0], at[1]};
  for (place[1 - axis] = 0; place[1 - axis] < n; place[1 - axis]++) {
    if (place[1 - axis] == at[1 - axis]) continue;
    const double c = rdt_load(b->c.data, b->c.dtype, offset(b, place));
    others += s->weight[place[1 - axis]] * c;
    squares += c * c;
  }
  rebuilt r = {.value = (s->expected.dot[i] - others) * s->weight[at[1 - axis]], /* a sign is its own inverse */
               .found = rdt_load(b->c.data, b->c.dtype, offset(b, at))};
  const rdt_terms m = {.n = n,
                       .abs_c = NAN,
                       .c2 = squares + r.value * r.value,
                       .s = s->expected.dot[i],
                       .ag = NAN,
                       .q = s->expected.sq[i],
                       .dot = s->expected.dot[i],
                       .a_beta = NAN,
                       .q_beta = squares_beta(b->in) ? s->expected.sq[i] : NAN,
                       .m2 = NAN,
                       .sbar = NAN};
  rdt_tolerance plain = t;
  plain.segments = 0;
  r.bound = rdt_bound_rebuilt(&plain, &m, b->c.dtype, r.value);
  return r;
}

/* Of the elements where line `line` of axis crosses the bad lines of the other one, each from that line's checksum. A
 * single one has two: the better. False: some value cannot be had, or none of those found is wrong for certain. */
static bool rebuild_line(rdt_block *b, int axis, int64_t line, bool single, bool store, rdt_settlement *out,
                         double *spread) {
  bool certain = false;
  out->count = 0;
  *spread = 0.0;
  for (int64_t j = 0; j < b->c.shape[1 - axis]; j++) {
    if (!is_bad(b, 1 - axis, j)) continue;
    int64_t at[2];
    at[axis] = line;
    at[1 - axis] = j;
    rebuilt r = rebuild(b, 1 - axis, at);
    const rebuilt other = single ? rebuild(b, axis, at) : r;
    if (other.bound.tau0 < r.bound.tau0) r = other;
    if (!isfinite(r.value) || !isfinite(r.bound.tau0)) return false;
    certain = certain || !(fabs(r.found - r.value) <= r.bound.tau0);
    if (out->count++ == 0) out->other = j, out->before = r.found, out->after = r.value;
    out->bound = fmax(out->bound, r.bound.tau0);
    *spread = hypot(*spread, r.bound.tau2);
    if (store) rdt_store(b->c.data, b->c.dtype, offset(b, at), r.value);
  }
  return certain;
}

/* Does the block hold, but for what the rounding of rebuilt values does to the line that they lie in? That line's
 * expected sum becomes what it is, so that later products are added to it. */
static rdt_status holds(rdt_block *b, const int64_t place[2], int axis, int64_t line, double spread, rdt_findings *f,
                        bool *yes) {
  rdt_block_side *s = &b->side[axis];
  RDT_TRY(rdt_block_check(b, place, f));
  const rdt_suspect x = look(b, axis, line);
  *yes = x.residual <= x.bound.tau2 + spread;
  for (int a = 0; a < 2 && *yes; a++)
    for (int64_t i = 0; i < b->c.shape[a] && *yes; i++) *yes = (a == axis && i == line) || !is_bad(b, a, i);
  if (!*yes) return RDT_OK;
  b->moved += fabs(s->observed.dot[line] - s->expected.dot[line]);
  s->expected.dot[line] = s->observed.dot[line];
  return rdt_block_check(b, place, f);
}

/* The sum of all with both signs, from the rows' checksums less that from the columns': 0 but for rounding, in double.
 */
static double corner(const rdt_block *b, rdt_bound *bound) {
  const rdt_block_side *rows = &b->side[0], *cols = &b->side[1];
  rdt_tolerance t = tolerance_of(b, 0);
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
static rdt_status mend_checksums(rdt_block *b, const int64_t place[2], int axis, rdt_findings *f, rdt_settlement *out) {
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
  return rdt_block_check(b, place, f);
}

rdt_status rdt_block_settle(rdt_block *b, const int64_t place[2], bool change, rdt_findings *f, rdt_settlement *out) {
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
    if (s[1 - axis].bad == 0) return mend_checksums(b, place, axis, f, out);
  if (!change || (s[0].bad != 1 && s[1].bad != 1)) return RDT_OK;
  const int axis = s[0].bad == 1 ? 0 : 1;
  const bool single = s[0].bad == 1 && s[1].bad == 1;
  rdt_settlement r = {.how = RDT_SETTLED_REBUILT, .axis = axis, .line = s[axis].first};
  double spread;
  bool yes = false;
  if (!rebuild_line(b, axis, r.line, single, false, &r, &spread)) return RDT_OK;
  rebuild_line(b, axis, r.line, single, true, &r, &spread);
  RDT_TRY(holds(b, place, axis, r.line, spread, f, &yes));
  r.bound += f->floor; /* a fault too small to be seen may lie in the same checksum */
  if (yes) *out = r;
  return RDT_OK;
}
