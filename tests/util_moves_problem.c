/* Random problems of the ops that only move data, and their oracle: one logical element at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util_problem.h"

static double at(const rdt_tensor *t, const int64_t *index) {
  int64_t o = 0;
  for (int d = 0; d < t->rank; d++) o += index[d] * t->stride[d];
  return rdt_load(t->data, t->dtype, o);
}

static int64_t upto(util_random *r, int64_t n) {
  return (int64_t)(util_next(r) % (uint64_t)(n + 1));
}

/* ---- gather ---- */

/* Integers within [-n, n), whatever the view's strides are. */
static void fill_indices(util_random *r, const rdt_tensor *t, int64_t n) {
  rdt_iter it = rdt_iter_begin(t);
  while (rdt_iter_next(&it)) rdt_store_int(t->data, t->dtype, it.offset, n > 0 ? upto(r, 2 * n - 1) - n : 0);
}

/* ints for `indices` indexed dimensions of target; the others run along dimensions of listed, which gets shape. */
static void make_lists(util_case *c, util_random *r, int rank, int indices, const int64_t *target, int listed,
                       int64_t *shape) {
  int order[RDT_MAX_RANK];
  for (int d = 0; d < rank; d++) order[d] = d;
  for (int d = rank - 1; d > 0; d--) {
    const int with = (int)upto(r, d), kept = order[d];
    order[d] = order[with];
    order[with] = kept;
  }
  for (int d = 0; d < RDT_MAX_RANK; d++) c->p.ints[d] = c->p.ints[RDT_MAX_RANK + d] = -1;
  for (int k = 0; k < indices; k++) c->p.ints[k] = order[k];
  for (int d = 0; d < listed; d++) {
    shape[d] = 1 + upto(r, 6);
    if (d >= rank - indices) continue;
    const int axis = order[indices + d];
    c->p.ints[RDT_MAX_RANK + d] = axis;
    shape[d] = target[axis] > 1 && upto(r, 3) == 0 ? target[axis] - 1 : target[axis];
  }
}

static void make_gather(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  const int rank = 1 + (int)upto(r, 3), indices = 1 + (int)upto(r, rank - 1 < 2 ? rank - 1 : 2);
  int64_t x[4], y[6];
  for (int d = 0; d < rank; d++) x[d] = 1 + upto(r, 8);
  const int listed = rank - indices + (int)upto(r, 2);
  make_lists(c, r, rank, indices, x, listed, y);
  c->p.n_in = 1 + indices;
  c->in[0] = util_view(c, r, a, rank, x, util_layout_of(r, plain, true));
  for (int k = 0; k < indices; k++) {
    c->in[1 + k] = util_view(c, r, upto(r, 1) ? RDT_S64 : RDT_S32, listed, y, util_layout_of(r, plain, true));
    fill_indices(r, &c->in[1 + k], x[c->p.ints[k]]);
  }
  c->p.out = util_view(c, r, a, listed, y, util_layout_of(r, plain, false));
}

/* Where in target the element of listed at index lies. */
static void locate(const rdt_problem *p, const rdt_tensor *target, const rdt_tensor *indices, int rank,
                   const int64_t *index, int64_t *place) {
  for (int k = 0; k < RDT_MAX_RANK && p->ints[k] >= 0; k++) {
    const int64_t given = (int64_t)at(&indices[k], index);
    place[p->ints[k]] = given < 0 ? given + target->shape[p->ints[k]] : given;
  }
  for (int d = 0; d < rank; d++)
    if (p->ints[RDT_MAX_RANK + d] >= 0) place[p->ints[RDT_MAX_RANK + d]] = index[d];
}

static double gather(const rdt_problem *p, const int64_t *i) {
  int64_t place[RDT_MAX_RANK];
  locate(p, &p->in[0], p->in + 1, p->out.rank, i, place);
  return at(&p->in[0], place);
}

/* ---- scatter ---- */

static void make_scatter(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  static const rdt_fn fns[] = {RDT_FN_NONE, RDT_FN_ADD, RDT_FN_MIN, RDT_FN_MAX, RDT_FN_MUL};
  const int rank = 1 + (int)upto(r, 3), indices = 1 + (int)upto(r, rank - 1 < 2 ? rank - 1 : 2);
  int64_t y[4], u[6];
  for (int d = 0; d < rank; d++) y[d] = 1 + upto(r, 8);
  const int listed = rank - indices + (int)upto(r, 2);
  make_lists(c, r, rank, indices, y, listed, u);
  c->p.fn = a == RDT_BOOL ? RDT_FN_NONE : fns[upto(r, rdt_dtype_is_float(a) ? 4 : 3)];
  c->p.n_in = 2 + indices;
  c->in[0] = util_view(c, r, a, rank, y, util_layout_of(r, plain, true));
  c->in[1] = util_view(c, r, a, listed, u, util_layout_of(r, plain, true));
  for (int k = 0; k < indices; k++) {
    c->in[2 + k] = util_view(c, r, upto(r, 1) ? RDT_S64 : RDT_S32, listed, u, util_layout_of(r, plain, true));
    fill_indices(r, &c->in[2 + k], y[c->p.ints[k]]);
  }
  c->p.out = util_view(c, r, a, rank, y, util_layout_of(r, plain, false));
}

static double combined(rdt_fn fn, rdt_dtype t, double x, double y) {
  uint64_t bits = 0;
  if (fn == RDT_FN_NONE) return y;
  const double v = fn == RDT_FN_ADD ? x + y : fn == RDT_FN_MUL ? x * y : fn == RDT_FN_MIN ? fmin(x, y) : fmax(x, y);
  if (rdt_dtype_is_float(t))
    rdt_store(&bits, t, 0, v);
  else
    rdt_store_int(&bits, t, 0, (int64_t)v);
  return rdt_load(&bits, t, 0);
}

static void scatter(const rdt_problem *p, double *expected) {
  int64_t n = 0;
  rdt_iter it = rdt_iter_begin(&p->out);
  while (rdt_iter_next(&it)) expected[n++] = at(&p->in[0], it.index);
  it = rdt_iter_begin(&p->in[1]);
  while (rdt_iter_next(&it)) {
    int64_t place[RDT_MAX_RANK], o = 0;
    locate(p, &p->out, p->in + 2, p->in[1].rank, it.index, place);
    for (int d = 0; d < p->out.rank; d++) o = o * p->out.shape[d] + place[d];
    expected[o] = combined(p->fn, p->out.dtype, expected[o], at(&p->in[1], it.index));
  }
}

/* ---- pad, triangle ---- */

static void make_pad(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  const int rank = (int)upto(r, 4);
  int64_t x[4], y[4];
  c->p.mode = (int)upto(r, 3);
  c->p.n_in = 1 + (int)upto(r, 1);
  for (int d = 0; d < rank; d++) {
    x[d] = (c->p.mode ? 1 : 0) + upto(r, 9);
    do {
      c->p.ints[d] = upto(r, 14) - 4;
      c->p.ints[RDT_MAX_RANK + d] = upto(r, 14) - 4;
      y[d] = x[d] + c->p.ints[d] + c->p.ints[RDT_MAX_RANK + d];
    } while (y[d] < 0);
  }
  c->in[0] = util_view(c, r, a, rank, x, util_layout_of(r, plain, true));
  if (c->p.n_in == 2) c->in[1] = util_view(c, r, a, 0, NULL, UTIL_DENSE);
  c->p.out = util_view(c, r, a, rank, y, util_layout_of(r, plain, false));
}

static double pad(const rdt_problem *p, const int64_t *index) {
  int64_t from[RDT_MAX_RANK];
  for (int d = 0; d < p->out.rank; d++) {
    const int64_t n = p->in[0].shape[d];
    from[d] = index[d] - p->ints[d];
    while (from[d] < 0 || from[d] >= n) {
      if (p->mode == RDT_PAD_CONSTANT) return p->n_in > 1 ? rdt_load(p->in[1].data, p->in[1].dtype, 0) : 0.0;
      if (p->mode == RDT_PAD_EDGE || n == 1) from[d] = from[d] < 0 ? 0 : n - 1;
      if (p->mode == RDT_PAD_WRAP && n > 1) from[d] += from[d] < 0 ? n : -n;
      if (p->mode == RDT_PAD_REFLECT && n > 1) from[d] = from[d] < 0 ? -from[d] : 2 * (n - 1) - from[d];
    }
  }
  return at(&p->in[0], from);
}

static void make_triangle(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  const int64_t shape[3] = {1 + upto(r, 2), upto(r, 9), upto(r, 9)};
  const int rank = 2 + (int)upto(r, 1);
  c->p.mode = (int)upto(r, 1);
  c->p.ints[0] = upto(r, 9) == 0 ? (upto(r, 1) ? INT64_MAX : INT64_MIN) : upto(r, 24) - 12;
  c->in[0] = util_view(c, r, a, rank, shape + 3 - rank, util_layout_of(r, plain, true));
  c->p.out = util_view(c, r, a, rank, shape + 3 - rank, util_layout_of(r, plain, false));
}

static double triangle(const rdt_problem *p, const int64_t *index) {
  const int64_t away = index[p->out.rank - 1] - index[p->out.rank - 2];
  return (p->mode ? away >= p->ints[0] : away <= p->ints[0]) ? at(&p->in[0], index) : 0.0;
}

void util_case_make_move(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  switch (c->p.op) {
    case RDT_KOP_GATHER:
      make_gather(c, r, a, plain);
      break;
    case RDT_KOP_SCATTER:
      make_scatter(c, r, a, plain);
      break;
    case RDT_KOP_PAD:
      make_pad(c, r, a, plain);
      break;
    default:
      make_triangle(c, r, a, plain);
  }
}

void util_oracle_move(const rdt_problem *p, double *expected) {
  rdt_iter it = rdt_iter_begin(&p->out);
  if (p->op == RDT_KOP_SCATTER) {
    scatter(p, expected);
    return;
  }
  for (int64_t n = 0; rdt_iter_next(&it); n++)
    expected[n] = p->op == RDT_KOP_GATHER ? gather(p, it.index)
                  : p->op == RDT_KOP_PAD  ? pad(p, it.index)
                                          : triangle(p, it.index);
}
