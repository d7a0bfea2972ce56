/* Normalisation of rows: the dimensions from an axis on together, with gain and shift of any strides. */
#include <math.h>

#include "core/memory.h"
#include "cpu/generic/convert.h"
#include "cpu/generic/state.h"
#include "cpu/generic/walk.h"
#include "cpu/rows.h"
#include "cpu/threads.h"

enum { OUT, X, GAIN, SHIFT, VIEWS };

typedef struct job {
  const rdt_rows_table *rows;
  const rdt_problem *p;
  rdt_tensor t[VIEWS]; /* data NULL: none */
  bool wide;           /* computes in double */
  rdt_walk row;        /* the views of one row */
  int64_t length;      /* of a row */
  char *work;          /* rows of the threads; NULL: they are read where they lie */
  size_t row_bytes;
} job;

static job job_of(const rdt_problem *p, const rdt_operands *o, const rdt_rows_table *rows) {
  job j = {.rows = rows, .p = p, .wide = o->out.dtype == RDT_F64, .length = 1};
  rdt_tensor inner[VIEWS];
  const rdt_tensor *list[VIEWS];
  for (int v = 0; v < VIEWS; v++) {
    const bool given = v <= o->n_in;
    j.t[v] = v == OUT ? o->out : given ? o->in[v - 1] : o->out;
    if (!given) j.t[v].data = NULL;
    inner[v] = (rdt_tensor){.rank = o->out.rank - p->axis};
    for (int d = p->axis; d < o->out.rank; d++) {
      inner[v].shape[d - p->axis] = o->out.shape[d];
      inner[v].stride[d - p->axis] = given ? j.t[v].stride[d] : o->out.stride[d];
    }
    list[v] = &inner[v];
  }
  j.row = rdt_walk_of(list, VIEWS);
  for (int d = p->axis; d < o->out.rank; d++) j.length *= o->out.shape[d];
  return j;
}

/* ---- statistics of a row ---- */

static double folded(const job *j, rdt_fold f, const void *x) {
  return j->wide ? j->rows->run_f64(f, 0, x, j->length) : j->rows->run_f32(f, 0, x, j->length);
}

static void statistics(const job *j, const void *x, double *centre, double *factor) {
  const double n = (double)j->length, epsilon = j->p->epsilon;
  double norm;
  *centre = 0;
  switch (j->p->fn) {
    case RDT_FN_NORM_LAYER:
    case RDT_FN_NORM_MVN:
      *centre = folded(j, RDT_FOLD_ADD, x) / n;
      if (!j->wide) *centre = (float)*centre;
      norm =
          (j->wide ? j->rows->spread_f64(x, j->length, *centre) : j->rows->spread_f32(x, j->length, (float)*centre)) /
          n;
      *factor = 1 / (j->p->fn == RDT_FN_NORM_LAYER ? sqrt(norm + epsilon) : sqrt(norm) + epsilon);
      break;
    case RDT_FN_NORM_RMS:
      *factor = 1 / sqrt(folded(j, RDT_FOLD_SQUARE, x) / n + epsilon);
      break;
    default:
      norm = j->p->fn == RDT_FN_NORM_L1 ? folded(j, RDT_FOLD_ABS, x) : sqrt(folded(j, RDT_FOLD_SQUARE, x));
      *factor = norm == 0 ? 0 : 1 / norm;
  }
}

/* ---- a row ---- */

/* Gain or shift over a piece, dense; NULL where there is none. */
static const void *spread_over(const job *j, int v, int64_t offset, int64_t n, void *buf) {
  const rdt_tensor *t = &j->t[v];
  const int64_t step = j->row.step[v];
  if (!t->data) return NULL;
  if (step == 1 && (t->dtype == RDT_F32 || t->dtype == RDT_F64)) return rdt_at(t, offset);
  rdt_loader(t->dtype)(buf, rdt_at(t, offset), step, n);
  return buf;
}

/* Is a row read where it lies? */
static bool is_direct(const job *j) {
  return (j->t[OUT].dtype == RDT_F32 || j->wide) && j->row.rank == 0 && j->row.step[X] == 1;
}

static void normalise(const job *j, const int64_t *base, void *whole) {
  double gain[RDT_WALK_PIECE], shift[RDT_WALK_PIECE], result[RDT_WALK_PIECE];
  const size_t size = j->wide ? sizeof(double) : sizeof(float);
  const bool plain = j->t[OUT].dtype == RDT_F32 || j->wide;
  const bool direct = is_direct(j);
  int64_t at[VIEWS], done = 0;
  double centre, factor;
  for (int64_t piece = 0; !direct && piece < j->row.pieces; piece++) {
    const int64_t n = rdt_walk_piece(&j->row, piece, at);
    rdt_loader(j->t[X].dtype)((char *)whole + (size_t)done * size, rdt_at(&j->t[X], base[X] + at[X]), j->row.step[X],
                              n);
    done += n;
  }
  const char *x = direct ? rdt_at(&j->t[X], base[X]) : whole;
  statistics(j, x, &centre, &factor);
  for (int64_t piece = 0; piece < j->row.pieces; piece++) {
    const int64_t n = rdt_walk_piece(&j->row, piece, at);
    void *const to = rdt_at(&j->t[OUT], base[OUT] + at[OUT]);
    const bool there = plain && j->row.step[OUT] == 1;
    const void *const g = spread_over(j, GAIN, base[GAIN] + at[GAIN], n, gain);
    const void *const s = spread_over(j, SHIFT, base[SHIFT] + at[SHIFT], n, shift);
    void *const y = there ? to : result;
    if (j->wide)
      j->rows->scale_f64(y, (const double *)x, n, centre, factor, g, s);
    else
      j->rows->scale_f32(y, (const float *)x, n, (float)centre, (float)factor, g, s);
    if (!there) rdt_storer(j->t[OUT].dtype)(to, j->row.step[OUT], y, n);
    x += (size_t)n * size;
  }
}

static void run_share(const void *job_of_all, int64_t begin, int64_t end, int thread) {
  const job *j = job_of_all;
  const int64_t *shape = j->t[OUT].shape;
  for (int64_t r = begin; r < end; r++) {
    int64_t base[VIEWS] = {0}, left = r;
    for (int d = j->p->axis - 1; d >= 0; d--) {
      if (shape[d] == 1) continue;
      for (int v = 0; v < VIEWS; v++) base[v] += left % shape[d] * j->t[v].stride[d];
      left /= shape[d];
    }
    normalise(j, base, j->work ? j->work + (size_t)thread * j->row_bytes : NULL);
  }
}

static rdt_status run_rows(const rdt_generic *s, const rdt_operands *o, const rdt_rows_table *table, rdt_reason *why) {
  job j = job_of(&s->p, o, table);
  int64_t rows = 1;
  for (int d = 0; d < s->p.axis; d++) rows *= o->out.shape[d];
  if (rows == 0 || j.length == 0) return RDT_OK;
  const int team = rows < 2 || rows * j.length < 4096 ? 1 : s->threads;
  j.row_bytes = ((size_t)j.length * sizeof(double) + 63) / 64 * 64;
  j.work = is_direct(&j) ? NULL : rdt_alloc((size_t)team, j.row_bytes);
  if (!j.work && !is_direct(&j))
    return rdt_fail(why, RDT_ERR_NOMEM, "no memory for %d rows of %lld", team, (long long)j.length);
  rdt_threads_share(team, rows, run_share, &j);
  rdt_free(j.work);
  return RDT_OK;
}

static rdt_status run(void *state, const rdt_operands *o, rdt_reason *why) {
  return run_rows(state, o, &rdt_rows_generic, why);
}

static rdt_status run_simd(void *state, const rdt_operands *o, rdt_reason *why) {
  return run_rows(state, o, rdt_rows(), why);
}

static rdt_status accept(const rdt_problem *p, rdt_reason *why) {
  return rdt_generic_accept_alike(p, false, why);
}

RDT_SLICED_KERNEL(norm_simd, NORM, AVX2, BEFORE_AXIS, accept, run_simd);
RDT_SLICED_KERNEL(norm_generic, NORM, GENERIC, BEFORE_AXIS, accept, run);
