/* Random problems of the ops that only move data, and their oracle: one logical element at a time. */
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

void util_case_make_move(util_case *c, util_random *r, rdt_dtype a, bool plain) {
  make_gather(c, r, a, plain);
}

void util_oracle_move(const rdt_problem *p, double *expected) {
  rdt_iter it = rdt_iter_begin(&p->out);
  for (int64_t n = 0; rdt_iter_next(&it); n++) expected[n] = gather(p, it.index);
}
