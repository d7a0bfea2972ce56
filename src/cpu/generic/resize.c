/* resize: every output element a weighted sum of few input elements, whose places and weights are tables, one for each
 * dimension that is resampled. Runs go along a dimension that is not. */
#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/move.h"
#include "cpu/generic/state.h"

#define RESIZE_CODE static
#define RESIZE_FLOOR floor
#define RESIZE_CEIL ceil
#define RESIZE_ABS fabs
#include "core/resize.h"

enum { MOST_TAPS = 4, MOST_TERMS = 256, RUN = 512 };

typedef struct table { /* of one dimension: the taps of output position o are those from o * taps on */
  int taps;            /* 0: not resampled */
  int64_t *at;
  double *weight;
} table;

typedef struct job {
  const rdt_problem *p;
  const rdt_tensor *x, *y;
  table of[RDT_MAX_RANK];
  int run; /* dimension; -1: none */
  int64_t length;
} job;

static void fill(const rdt_problem *p, int d, table *t) {
  const double last = (double)(p->in[0].shape[d] - 1);
  for (int64_t o = 0; o < p->out.shape[d]; o++) {
    double *const w = t->weight + o * t->taps;
    double sum = 0;
    const double x =
        rdt_resize_place((double)p->in[0].shape[d], (double)p->out.shape[d], p->scale[d], (double)o, (int)p->ints[0]);
    double first = floor(x);
    if (p->mode == RDT_RESIZE_NEAREST) {
      first = rdt_resize_nearest(x, (int)p->ints[1]);
      w[0] = 1;
    } else if (p->mode == RDT_RESIZE_LINEAR) {
      w[0] = 1 - (x - first);
      w[1] = x - first;
    } else {
      for (int k = 0; k < 4; k++) w[k] = rdt_resize_cubic(x - first, p->param[0], k);
      first -= 1;
    }
    for (int k = 0; k < t->taps; k++) {
      const double at = first + k;
      if (p->mode == RDT_RESIZE_CUBIC && p->ints[2] && (at < 0 || at > last)) w[k] = 0;
      sum += w[k];
      t->at[o * t->taps + k] = (int64_t)(at < 0 ? 0 : at > last ? last : at) * p->in[0].stride[d];
    }
    if (p->mode == RDT_RESIZE_CUBIC && p->ints[2])
      for (int k = 0; k < t->taps; k++) w[k] /= sum;
  }
}

/* Terms of the sum for one place in all dimensions but the run's. Weights of 0 count nothing, NaN neither. */
static int terms_of(const job *j, const int64_t *index, int64_t *from, double *weight) {
  int n = 1;
  from[0] = 0;
  weight[0] = 1;
  for (int d = 0; d < j->y->rank; d++) {
    const table *t = &j->of[d];
    if (d == j->run) continue;
    if (t->taps == 0) {
      for (int i = 0; i < n; i++) from[i] += index[d] * j->x->stride[d];
      continue;
    }
    int64_t more[MOST_TERMS];
    double by[MOST_TERMS];
    int m = 0;
    for (int i = 0; i < n; i++)
      for (int k = 0; k < t->taps; k++) {
        const double w = t->weight[index[d] * t->taps + k];
        if (w == 0) continue;
        more[m] = from[i] + t->at[index[d] * t->taps + k];
        by[m++] = weight[i] * w;
      }
    n = m;
    memcpy(from, more, (size_t)n * sizeof *from);
    memcpy(weight, by, (size_t)n * sizeof *weight);
  }
  return n;
}

static void sum_run(const job *j, int64_t to, const int64_t *from, const double *weight, int n) {
  const rdt_tensor *x = j->x, *y = j->y;
  const int64_t xs = j->run < 0 ? 1 : x->stride[j->run], ys = j->run < 0 ? 1 : y->stride[j->run];
  rdt_load_fn *const load = rdt_loader_to(x->dtype, RDT_F64);
  rdt_store_fn *const store = rdt_storer_from(y->dtype, RDT_F64);
  if (j->p->mode == RDT_RESIZE_NEAREST) {
    rdt_move_run(rdt_at(y, to), ys, rdt_at(x, from[0]), xs, j->length, rdt_dtype_size(y->dtype));
    return;
  }
  for (int64_t i = 0; i < j->length; i += RUN) {
    const int64_t m = j->length - i < RUN ? j->length - i : RUN;
    double sum[RUN] = {0}, in[RUN];
    for (int k = 0; k < n; k++) {
      load(in, rdt_at(x, from[k] + i * xs), xs, m);
      for (int64_t e = 0; e < m; e++) sum[e] += weight[k] * in[e];
    }
    store(rdt_at(y, to + i * ys), ys, sum, m);
  }
}

static rdt_status make_tables(job *j, void **memory, rdt_reason *why) {
  const rdt_problem *p = j->p;
  const int taps = p->mode == RDT_RESIZE_NEAREST ? 1 : p->mode == RDT_RESIZE_LINEAR ? 2 : MOST_TAPS;
  int64_t entries = 0;
  for (int d = 0; d < p->out.rank; d++)
    if (p->out.shape[d] != p->in[0].shape[d] || p->scale[d] != 1) entries += taps * p->out.shape[d];
  char *at = *memory = rdt_alloc((size_t)entries, sizeof(int64_t) + sizeof(double));
  if (!at) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for tables of %lld weights", (long long)entries);
  for (int d = 0; d < p->out.rank; d++) {
    const size_t n = (size_t)taps * (size_t)p->out.shape[d];
    if (p->out.shape[d] != p->in[0].shape[d] || p->scale[d] != 1) {
      j->of[d] = (table){taps, (int64_t *)at, (double *)(at + n * sizeof(int64_t))};
      fill(p, d, &j->of[d]);
      at += n * (sizeof(int64_t) + sizeof(double));
    } else if (p->out.shape[d] > 1 && (j->run < 0 || llabs(p->out.stride[d]) < llabs(p->out.stride[j->run]))) {
      j->run = d;
    }
  }
  return RDT_OK;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  const rdt_generic *s = state;
  job j = {.p = &s->p, .x = &o->in[0], .y = &o->out, .run = -1};
  const rdt_tensor *y = j.y;
  const int64_t total = rdt_tensor_count(y);
  void *memory = NULL;
  if (total == 0) return RDT_OK;
  RDT_TRY(make_tables(&j, &memory, why));
  j.length = j.run < 0 ? 1 : y->shape[j.run];
#pragma omp parallel for num_threads(total < 4096 ? 1 : s->threads) schedule(static)
  for (int64_t i = 0; i < total / j.length; i++) {
    int64_t index[RDT_MAX_RANK] = {0}, from[MOST_TERMS], to = 0, left = i;
    double weight[MOST_TERMS];
    for (int d = y->rank - 1; d >= 0; d--) {
      if (d == j.run) continue;
      index[d] = left % y->shape[d];
      left /= y->shape[d];
      to += index[d] * y->stride[d];
    }
    const int n = terms_of(&j, index, from, weight);
    sum_run(&j, to, from, weight, n);
  }
  rdt_free(memory);
  return RDT_OK;
}

RDT_GENERIC_KERNEL(resize_generic, RESIZE, GENERIC, rdt_generic_accept_any, run);
