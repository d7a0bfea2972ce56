/* Reductions over any dimensions, and positions of extrema along one. Where the elements that are taken together lie
 * closest, they are summed run by run; otherwise runs of results advance together. Each result is formed by one thread,
 * in an order that only shapes and strides decide. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/generic/walk.h"
#include "cpu/rows.h"

enum { PIECE = 128, LONG = RDT_WALK_PIECE };

/* What a function is made of: shared passes over the elements, and what follows. */
typedef struct recipe {
  rdt_fold fold;
  bool centred, real; /* a second pass over exp(x - max) or (x - mean)^2; integers go as doubles */
} recipe;

static recipe recipe_of(rdt_fn fn) {
  switch (fn) {
    case RDT_FN_REDUCE_MAX:
      return (recipe){.fold = RDT_FOLD_MAX};
    case RDT_FN_REDUCE_MIN:
      return (recipe){.fold = RDT_FOLD_MIN};
    case RDT_FN_REDUCE_PROD:
      return (recipe){.fold = RDT_FOLD_MUL};
    case RDT_FN_REDUCE_L1:
      return (recipe){.fold = RDT_FOLD_ABS};
    case RDT_FN_REDUCE_L2:
    case RDT_FN_REDUCE_SQUARES:
      return (recipe){.fold = RDT_FOLD_SQUARE};
    case RDT_FN_REDUCE_LOGSUMEXP:
      return (recipe){.fold = RDT_FOLD_MAX, .centred = true, .real = true};
    case RDT_FN_REDUCE_INVSTD:
      return (recipe){.fold = RDT_FOLD_ADD, .centred = true, .real = true};
    default:
      return (recipe){.fold = RDT_FOLD_ADD};
  }
}

typedef union number {
  double f;
  int64_t i;
} number;

typedef struct job {
  const rdt_rows_table *rows;
  const rdt_tensor *x, *y;
  rdt_fn fn;
  recipe how;
  double param;
  bool integer;        /* accumulates in s64 */
  rdt_walk kept, gone; /* views x, y over the results; view x over what each one takes together */
  int64_t count;       /* elements behind a result */
} job;

/* ---- elements ---- */

static void load_integers(int64_t *to, const rdt_tensor *t, int64_t offset, int64_t step, int64_t n) {
  const void *from = rdt_at(t, offset);
#define RUN(T)                                                         \
  for (int64_t i = 0; i < n; i++) to[i] = ((const T *)from)[i * step]; \
  break
  switch (t->dtype) {
    case RDT_S64:
      RUN(int64_t);
    case RDT_S32:
      RUN(int32_t);
    case RDT_S8:
      RUN(int8_t);
    default: /* u8, bool */
      RUN(uint8_t);
  }
#undef RUN
}

/* n elements from offset on, dense: doubles, floats or s64 by the job's kind; buf where they do not lie so. */
static const void *elements(const job *j, int64_t offset, int64_t step, int64_t n, number *buf) {
  const rdt_dtype t = j->x->dtype;
  if (!rdt_dtype_is_float(t)) {
    load_integers(&buf->i, j->x, offset, step, n);
    for (int64_t i = 0; !j->integer && i < n; i++) buf[i].f = (double)buf[i].i;
    return buf;
  }
  if (step == 1 && (t == RDT_F32 || t == RDT_F64)) return rdt_at(j->x, offset);
  rdt_loader(t)(buf, rdt_at(j->x, offset), step, n);
  return buf;
}

static bool in_floats(const job *j) {
  return rdt_dtype_is_float(j->x->dtype) && j->x->dtype != RDT_F64;
}

static number first_value(const job *j) {
  const rdt_fold f = j->how.fold;
  number v = {.i = 0};
  if (!j->integer) {
    v.f = f == RDT_FOLD_MUL ? 1 : f == RDT_FOLD_MAX ? -INFINITY : f == RDT_FOLD_MIN ? INFINITY : 0;
  } else if (f == RDT_FOLD_MUL) {
    v.i = 1;
  } else if (f == RDT_FOLD_MAX || f == RDT_FOLD_MIN) {
    const int bits = (int)(8 * rdt_dtype_size(j->x->dtype));
    const bool is_signed = j->x->dtype != RDT_U8 && j->x->dtype != RDT_BOOL;
    const int64_t most = j->x->dtype == RDT_BOOL ? 1 : (int64_t)(UINT64_MAX >> (64 - bits + is_signed));
    v.i = f == RDT_FOLD_MIN ? most : is_signed ? -most - 1 : 0;
  }
  return v;
}

/* ---- passes ---- */

/* The run of elements as what the second pass adds up, in double. */
static void centre(const job *j, double *to, const void *x, int64_t n, const number *c, bool one) {
  const bool exps = j->fn == RDT_FN_REDUCE_LOGSUMEXP, floats = in_floats(j);
  for (int64_t i = 0; i < n; i++) {
    const double v = floats ? ((const float *)x)[i] : ((const double *)x)[i], d = v - c[one ? 0 : i].f;
    to[i] = exps ? exp(d) : d * d;
  }
}

static void fold_each(const job *j, number *acc, const void *x, int64_t n, const number *c) {
  double centred[LONG];
  if (c) centre(j, centred, x, n, c, false);
  if (c)
    j->rows->each_f64(RDT_FOLD_ADD, &acc->f, centred, n);
  else if (j->integer)
    j->rows->each_s64(j->how.fold, &acc->i, x, n);
  else if (in_floats(j))
    j->rows->each_f32(j->how.fold, &acc->f, x, n);
  else
    j->rows->each_f64(j->how.fold, &acc->f, x, n);
}

static void fold_run(const job *j, number *acc, const void *x, int64_t n, const number *c) {
  double centred[LONG];
  if (c) centre(j, centred, x, n, c, true);
  if (c)
    acc->f = j->rows->run_f64(RDT_FOLD_ADD, acc->f, centred, n);
  else if (j->integer)
    acc->i = j->rows->run_s64(j->how.fold, acc->i, x, n);
  else if (in_floats(j))
    acc->f = j->rows->run_f32(j->how.fold, acc->f, x, n);
  else
    acc->f = j->rows->run_f64(j->how.fold, acc->f, x, n);
}

/* n results at once, whose elements lie `step` apart; c: centres of the second pass. */
static void pass_each(const job *j, number *acc, int64_t offset, int64_t step, int64_t n, const number *c) {
  number buf[PIECE];
  for (int64_t piece = 0; piece < j->gone.pieces; piece++) {
    int64_t at[1];
    const int64_t length = rdt_walk_piece(&j->gone, piece, at);
    for (int64_t i = 0; i < length; i++, at[0] += j->gone.step[0])
      fold_each(j, acc, elements(j, offset + at[0], step, n, buf), n, c);
  }
}

static void pass_run(const job *j, number *acc, int64_t offset, const number *c) {
  number buf[LONG];
  for (int64_t piece = 0; piece < j->gone.pieces; piece++) {
    int64_t at[1];
    const int64_t length = rdt_walk_piece(&j->gone, piece, at);
    fold_run(j, acc, elements(j, offset + at[0], j->gone.step[0], length, buf), length, c);
  }
}

/* ---- results ---- */

static double finish_real(const job *j, double v, double c) {
  switch (j->fn) {
    case RDT_FN_REDUCE_MEAN:
      return v / (double)j->count;
    case RDT_FN_REDUCE_L2:
      return sqrt(v);
    case RDT_FN_REDUCE_LOGSUM:
      return log(v);
    case RDT_FN_REDUCE_LOGSUMEXP:
      return log(v) + c;
    case RDT_FN_REDUCE_INVSTD:
      return 1.0 / sqrt(v / (double)j->count + j->param);
    default:
      return v;
  }
}

static void store_integer(const rdt_tensor *y, int64_t offset, int64_t v) {
  void *const to = rdt_at(y, offset);
  const size_t size = rdt_dtype_size(y->dtype);
  const int8_t one = (int8_t)(uint8_t)v;
  const int32_t four = (int32_t)(uint32_t)v;
  memcpy(to, size == 1 ? (const void *)&one : size == 4 ? (const void *)&four : (const void *)&v, size);
}

static void finish(const job *j, int64_t offset, number v, number c) {
  if (!j->integer) {
    rdt_store(j->y->data, j->y->dtype, offset, finish_real(j, v.f, c.f));
  } else if (j->fn == RDT_FN_REDUCE_MEAN) {
    store_integer(j->y, offset, j->count ? v.i / j->count : 0);
  } else if (j->fn == RDT_FN_REDUCE_L2 || j->fn == RDT_FN_REDUCE_LOGSUM) {
    rdt_store(j->y->data, j->y->dtype, offset, trunc(finish_real(j, (double)v.i, 0)));
  } else {
    store_integer(j->y, offset, v.i);
  }
}

/* What a second pass subtracts. */
static number centre_of(const job *j, number v) {
  if (j->fn == RDT_FN_REDUCE_INVSTD) return (number){.f = v.f / (double)j->count};
  return (number){.f = isfinite(v.f) ? v.f : 0.0};
}

/* n results from this place on; by runs: one after the other, each over its own elements. */
static void results(const job *j, bool by_runs, const int64_t *offset, int64_t n) {
  number acc[PIECE], centres[PIECE];
  for (int pass = 0; pass <= j->how.centred; pass++) {
    for (int64_t i = 0; i < n; i++) {
      if (pass == 1) centres[i] = centre_of(j, acc[i]);
      acc[i] = pass == 1 ? (number){.f = 0} : first_value(j);
      if (by_runs) pass_run(j, &acc[i], offset[0] + i * j->kept.step[0], pass == 1 ? &centres[i] : NULL);
    }
    if (!by_runs) pass_each(j, acc, offset[0], j->kept.step[0], n, pass == 1 ? centres : NULL);
  }
  for (int64_t i = 0; i < n; i++) {
    const number c = j->how.centred ? centres[i] : (number){.i = 0};
    finish(j, offset[1] + i * j->kept.step[1], acc[i], c);
  }
}

static job job_of(const rdt_problem *p, const rdt_operands *o, const rdt_rows_table *rows) {
  job j = {.rows = rows, .x = &o->in[0], .y = &o->out, .fn = p->fn, .how = recipe_of(p->fn), .param = p->param[0]};
  rdt_tensor kept[2] = {{.rank = 0}, {.rank = 0}}, gone = {.rank = 0};
  j.integer = !rdt_dtype_is_float(j.x->dtype) && !j.how.real;
  j.count = 1;
  for (int d = 0; d < j.x->rank; d++) {
    if (j.x->shape[d] == j.y->shape[d]) {
      for (int v = 0; v < 2; v++) {
        kept[v].shape[kept[v].rank] = j.y->shape[d];
        kept[v].stride[kept[v].rank++] = v == 0 ? j.x->stride[d] : j.y->stride[d];
      }
    } else {
      gone.shape[gone.rank] = j.x->shape[d];
      gone.stride[gone.rank++] = j.x->stride[d];
      j.count *= j.x->shape[d];
    }
  }
  j.kept = rdt_walk_of((const rdt_tensor *const[]){&kept[0], &kept[1]}, 2);
  j.gone = rdt_walk_of((const rdt_tensor *const[]){&gone}, 1);
  return j;
}

/* ---- positions ---- */

/* The place of the extremum among n elements `step` apart; NaN is beyond everything, of equals the first or the last.
 */
static int64_t position(const job *j, int64_t offset, int64_t step, int64_t n, bool least, bool last) {
  number buf[LONG];
  int64_t best = 0;
  double top = 0;
  int64_t itop = 0;
  for (int64_t from = 0; from < n; from += LONG) {
    const int64_t length = n - from < LONG ? n - from : LONG;
    const void *x = elements(j, offset + from * step, step, length, buf);
    for (int64_t i = 0; i < length; i++) {
      bool more, same;
      double v = 0;
      int64_t iv = 0;
      if (j->integer) {
        iv = ((const int64_t *)x)[i];
        more = least ? iv < itop : iv > itop;
        same = iv == itop;
      } else {
        v = in_floats(j) ? ((const float *)x)[i] : ((const double *)x)[i];
        more = least ? v < top || (isnan(v) && !isnan(top)) : v > top || (isnan(v) && !isnan(top));
        same = v == top || (isnan(v) && isnan(top));
      }
      if ((from == 0 && i == 0) || more || (last && same)) {
        best = from + i;
        top = v;
        itop = iv;
      }
    }
  }
  return best;
}

static void positions(const job *j, const rdt_problem *p, const int64_t *offset, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = position(j, offset[0] + i * j->kept.step[0], j->x->stride[p->axis], j->x->shape[p->axis],
                                p->fn == RDT_FN_ARGMIN, p->param[0] != 0);
    store_integer(j->y, offset[1] + i * j->kept.step[1], at);
  }
}

static rdt_status run_rows(const rdt_generic *s, const rdt_operands *o, const rdt_rows_table *rows) {
  const job j = job_of(&s->p, o, rows);
  const bool index = rdt_fn_info(s->p.fn)->class == RDT_CLASS_INDEX;
  if (rdt_tensor_count(&o->out) == 0) return RDT_OK;
  /* Together where results lie closer than what each one takes. */
  const int64_t apart = j.kept.length > 1 ? llabs(j.kept.step[0]) : INT64_MAX;
  const bool by_runs = j.gone.length <= 1 || llabs(j.gone.step[0]) <= apart;
  const int64_t work = j.count < 1 ? 1 : j.count;
  int64_t most = by_runs ? 16384 / work : PIECE;
  most = most < 1 ? 1 : most > PIECE ? PIECE : most;
  int64_t parts = (j.kept.length + most - 1) / most;
  for (int d = 0; d < j.kept.rank; d++) parts *= j.kept.shape[d];
  const int team = rdt_tensor_count(&o->in[0]) < 8192 ? 1 : s->threads;
#pragma omp parallel for num_threads(team) schedule(static)
  for (int64_t part = 0; part < parts; part++) {
    int64_t offset[2];
    const int64_t n = rdt_walk_part(&j.kept, part, most, offset);
    if (index)
      positions(&j, &s->p, offset, n);
    else
      results(&j, by_runs, offset, n);
  }
  return RDT_OK;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  (void)why;
  return run_rows(state, o, &rdt_rows_generic);
}

static rdt_status run_simd(void *state, const rdt_operands *o, rdt_reason *why) {
  (void)why;
  return run_rows(state, o, rdt_rows());
}

static rdt_status accept_simd(const rdt_problem *p, rdt_reason *why) {
  if (!rdt_dtype_is_float(p->in[0].dtype) || rdt_fn_info(p->fn)->class == RDT_CLASS_INDEX)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "takes reductions of floats");
  return RDT_OK;
}

RDT_GENERIC_KERNEL(reduce_simd, REDUCE, AVX2, accept_simd, run_simd);
RDT_GENERIC_KERNEL(reduce_generic, REDUCE, GENERIC, rdt_generic_accept_any, run);
