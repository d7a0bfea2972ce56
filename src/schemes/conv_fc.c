/* fc: for each output pixel   sum_k w_k y[k] = the convolution of x with W~ at that pixel,   W~ = sum_k w_k W[k].
 *
 * W~ and its magnitudes are made offline. A group's filters see only its own input channels, so W~ has all of them and
 * the sum over the groups is one sum over all channels. Online a row of the input, padded, is read once: for each
 * output row that it serves, the dot products of kw x ic neighbouring elements with W~[r]. Magnitudes of a window are
 * sums over its pixels of channel sums with the largest magnitude among the taps. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "schemes/conv_check.h"

#define ROW_BLOCK 8 /* output rows of one task at most: small buffers, few input rows read twice */

typedef struct fc_state {
  rdt_conv_check c;
  rdt_conv_filter filter;
  void *weights;         /* sign_oc as sums: [oc] */
  double vanished[2];    /* what squares may have lost: of the inputs of a window, of the outputs of a pixel */
  double baseless;       /* 0; NaN where weights are not finite */
  int64_t block, blocks; /* output rows a task, tasks an image */
  int64_t pw;            /* pixels of a padded row */
  bool joined;           /* the taps of a row lie side by side: kw x ic elements */
  char *work; /* for each thread: padded row, expected, magnitudes, dots of a row, magnitudes of a row, fetched y */
  size_t work_bytes;
  size_t at_expected, at_mag, at_dots, at_row_mag, at_scratch;
  rdt_findings *found; /* for each thread */
} fc_state;

static void destroy(void *state) {
  fc_state *s = state;
  if (!s) return;
  rdt_free(s->filter.data);
  rdt_free(s->weights);
  rdt_free(s->work);
  rdt_free(s->found);
  rdt_conv_check_clear(&s->c);
  rdt_free(s);
}

static size_t reserve(size_t *at, size_t count, size_t size) {
  const size_t here = *at;
  *at += (count * size + 63) & ~(size_t)63;
  return here;
}

static rdt_status alloc(fc_state *s) {
  const rdt_conv_check *c = &s->c;
  const int64_t rows = (c->oh + c->parts - 1) / c->parts, pixels = c->ow * (rows < ROW_BLOCK ? rows : ROW_BLOCK);
  s->block = rows < ROW_BLOCK ? rows : ROW_BLOCK;
  if (s->block < 1) s->block = 1;
  s->blocks = (c->oh + s->block - 1) / s->block;
  s->pw = (c->ow - 1) * c->width.stride + (c->kw - 1) * c->width.dilation + 1;
  if (s->pw < 0) s->pw = 0;
  s->joined = c->width.dilation == 1 || c->kw == 1;
  const size_t dots = (size_t)(c->ow * c->kh), px = (size_t)pixels, pw = (size_t)s->pw;
  size_t at = 0;
  reserve(&at, pw * (size_t)c->ic, c->elem);
  s->at_expected = reserve(&at, px, c->sum);
  s->at_mag = reserve(&at, 3 * px, sizeof(double));
  s->at_dots = reserve(&at, dots > (size_t)c->ow ? dots : (size_t)c->ow, c->sum);
  s->at_row_mag = reserve(&at, 3 * (pw > (size_t)c->ow ? pw : (size_t)c->ow), sizeof(double));
  s->at_scratch = reserve(&at, (size_t)(c->iw * c->ic > c->ow * c->oc ? c->iw * c->ic : c->ow * c->oc), c->elem);
  s->work_bytes = at;
  s->work = rdt_alloc((size_t)c->threads, at);
  s->found = rdt_alloc((size_t)c->threads, sizeof *s->found);
  s->weights = rdt_alloc((size_t)c->oc, c->sum);
  if (!s->work || !s->found || !s->weights) return RDT_ERR_NOMEM;
  for (int64_t k = 0; k < c->oc; k++) rdt_store(s->weights, c->fn->sum, k, c->sign_oc[k]);
  return RDT_OK;
}

/* Squares of floats below the normal range. Those of doubles are the business of the bounds. And whether padding meets
 * the weights is the kernel's choice: where one is NaN or Inf, that leaves no pixel a bound. */
static void set_vanished(fc_state *s) {
  const rdt_conv_check *c = &s->c;
  const double lost = c->fn->elem == RDT_F32 ? rdt_dtype_info(RDT_F32)->min_normal : 0.0;
  double most = 1.0;
  s->baseless = 0.0;
  for (int64_t i = 0; s->filter.g && i < c->ic; i++) s->baseless += 0.0 * rdt_load(s->filter.g, c->fn->elem, i);
  for (int64_t i = 0; s->filter.g && i < c->ic; i++)
    most = fmax(most, fmax(rdt_load(s->filter.rho2, c->fn->elem, i), rdt_load(s->filter.beta2, c->fn->elem, i)));
  s->vanished[0] = lost > 0.0 ? lost * (double)(c->kh * c->kw * c->ic) * most : 0.0;
  s->vanished[1] = lost * (double)c->oc;
}

static rdt_status from_weights(void *state, const rdt_tensor *w, rdt_reason *why) {
  fc_state *s = state;
  const rdt_status status = rdt_conv_filter_make(&s->c, w, false, &s->filter);
  if (status != RDT_OK) return rdt_fail(why, status, "no memory for the checksum filter");
  set_vanished(s);
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, bool fixed, double lambda, int sets, int threads, void **state,
                         rdt_reason *why) {
  (void)sets;
  fc_state *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for the state of the checks");
  rdt_status status = RDT_OK;
  RDT_TRY_GOTO(rdt_conv_check_init(&s->c, p, fixed, lambda, threads), fail);
  s->c.tol.depth_dot = s->c.kh * s->c.kw * s->c.ic;
  RDT_TRY_GOTO(alloc(s), fail);
  RDT_TRY_GOTO(rdt_conv_filter_alloc(&s->c, &s->filter), fail);
  if (fixed) RDT_TRY_GOTO(from_weights(s, &p->in[1], why), fail);
  *state = s;
  return RDT_OK;
fail:
  destroy(s);
  return rdt_fail(why, status, "no memory for the state of the checks");
}

typedef struct fc_task {
  const fc_state *s;
  const rdt_operands *o;
  const rdt_tensor *fin;
  int64_t n, oh, rows; /* image, first output row, rows */
  char *work;
} fc_task;

/* A row of the input as the windows see it: pw pixels from -pad on, zeros outside the image. */
static const char *padded_row(const fc_task *t, int64_t h, int64_t *ps) {
  const rdt_conv_check *c = &t->s->c;
  const int64_t from = c->width.pad < t->s->pw ? c->width.pad : t->s->pw;
  int64_t count = t->s->pw - from;
  if (count > c->iw) count = c->iw;
  char *scratch = t->work + t->s->at_scratch;
  const char *x = rdt_conv_row(c, &t->o->in[0], t->n, h, 0, count, scratch, ps);
  const bool whole = from == 0 && count == t->s->pw;
  if (whole && (*ps == c->ic || !t->s->joined)) return x;
  const size_t pixel = (size_t)c->ic * c->elem;
  memset(t->work, 0, (size_t)from * pixel);
  for (int64_t i = 0; i < count; i++)
    memcpy(t->work + (size_t)(from + i) * pixel, x + i * *ps * (int64_t)c->elem, pixel);
  memset(t->work + (size_t)(from + count) * pixel, 0, (size_t)(t->s->pw - from - count) * pixel);
  *ps = c->ic;
  return t->work;
}

static void add_magnitudes(const fc_task *t, const double *row, const int64_t *serves, int count) {
  const rdt_conv_check *c = &t->s->c;
  double *mag = (double *)(t->work + t->s->at_mag);
  for (int64_t w = 0; w < c->ow; w++) {
    double m[3] = {0.0, 0.0, 0.0};
    for (int64_t k = 0; k < c->kw; k++)
      for (int j = 0; j < 3; j++) m[j] += row[3 * (w * c->width.stride + k * c->width.dilation) + j];
    for (int i = 0; i < count; i++)
      for (int j = 0; j < 3; j++) mag[3 * (serves[i] * c->ow + w) + j] += m[j];
  }
}

/* The dot products of one padded row with up to four rows of taps, added to the output rows that they serve. */
static void add_row(const fc_task *t, const char *x, int64_t ps, const int64_t *taps, const int64_t *serves,
                    int count) {
  const fc_state *s = t->s;
  const rdt_conv_check *c = &s->c;
  char *dots = t->work + s->at_dots, *expected = t->work + s->at_expected;
  const int64_t chunks = s->joined ? 1 : c->kw, channels = s->joined ? c->kw * c->ic : c->ic;
  for (int64_t k = 0; k < chunks; k++) {
    const void *w[4];
    for (int i = 0; i < count; i++)
      w[i] = (const char *)s->filter.beta + (size_t)((taps[i] * c->kw + k) * c->ic) * c->sum;
    c->fn->dots(x + k * c->width.dilation * ps * (int64_t)c->elem, c->width.stride * ps, channels, c->ow, w, count,
                dots);
    for (int i = 0; i < count; i++)
      for (int64_t p = 0; p < c->ow; p++) {
        const int64_t to = serves[i] * c->ow + p, from = p * count + i;
        if (c->exact)
          ((uint32_t *)expected)[to] += ((const uint32_t *)dots)[from];
        else
          ((double *)expected)[to] += ((const double *)dots)[from];
      }
  }
}

/* One line of the input, for all output lines of the task that it serves. */
static void expect_line(const fc_task *t, int64_t h) {
  const fc_state *s = t->s;
  const rdt_conv_check *c = &s->c;
  double *row_mag = (double *)(t->work + s->at_row_mag);
  int64_t taps[4], serves[4], ps = 0;
  const char *x = NULL;
  int count = 0;
  for (int64_t r = 0; r < c->kh; r++) {
    const int64_t at = rdt_conv_out_line(c, h, r) - t->oh;
    if (at >= 0 && at < t->rows) {
      taps[count] = r;
      serves[count++] = at;
    }
    if (count == 0 || (count < 4 && r + 1 < c->kh)) continue;
    if (!x) {
      x = padded_row(t, h, &ps);
      if (!c->exact) c->fn->mags(x, ps, c->ic, s->pw, s->filter.g, s->filter.rho2, s->filter.beta2, row_mag);
    }
    add_row(t, x, ps, taps, serves, count);
    if (!c->exact) add_magnitudes(t, row_mag, serves, count);
    count = 0;
  }
}

static void expect_rows(const fc_task *t) {
  const rdt_conv_check *c = &t->s->c;
  int64_t from[2], to[2];
  memset(t->work + t->s->at_expected, 0, (size_t)(t->rows * c->ow) * c->sum);
  memset(t->work + t->s->at_mag, 0, (size_t)(3 * t->rows * c->ow) * sizeof(double));
  rdt_conv_reach(c, t->oh, t->rows, from, to);
  for (int64_t z = from[0]; z <= to[0]; z++)
    for (int64_t y = from[1]; y <= to[1]; y++) expect_line(t, z * c->height.in + y);
}

static void check_row(const fc_task *t, int64_t row, rdt_findings *f) {
  const fc_state *s = t->s;
  const rdt_conv_check *c = &s->c;
  const int64_t h = t->oh + row, place = (t->n * c->oh + h) * c->ow;
  char *observed = t->work + s->at_dots;
  const void *expected = t->work + s->at_expected + (size_t)(row * c->ow) * c->sum, *w = s->weights;
  int64_t ps;
  const void *y = rdt_conv_row(c, &t->o->out, t->n, h, 0, c->ow, t->work + s->at_scratch, &ps);
  c->fn->dots(y, ps, c->oc, c->ow, &w, 1, observed);
  rdt_strike_announce(f->strike, f->checks, c->ow);
  if (c->exact) {
    for (int64_t i = 0; i < c->ow; i++)
      rdt_findings_check_exact(f, RDT_CHECK_ROW, place + i, -1, ((const uint32_t *)observed)[i],
                               ((const uint32_t *)expected)[i]);
    return;
  }
  const rdt_squared squared = rdt_squared_of(&c->tol, c->oc);
  double *my = (double *)(t->work + s->at_row_mag);
  const double *mx = (const double *)(t->work + s->at_mag) + 3 * row * c->ow;
  c->fn->mags(y, ps, c->oc, c->ow, NULL, NULL, NULL, my);
  for (int64_t i = 0; i < c->ow; i++, mx += 3, my += 3) {
    const double sum = ((const double *)observed)[i], dot = ((const double *)expected)[i];
    const rdt_terms terms = {.n = c->oc,
                             .abs_c = my[0],
                             .c2 = my[1] + s->vanished[1],
                             .s = sum,
                             .ag = mx[0] + s->baseless,
                             .q = mx[1] + s->vanished[0] + s->baseless,
                             .dot = dot,
                             .a_beta = mx[0],
                             .q_beta = mx[2] + s->vanished[0],
                             .m2 = NAN};
    rdt_findings_check_twice(f, RDT_CHECK_ROW, place + i, -1, sum, dot, rdt_bound_of(&c->tol, &terms),
                             rdt_squared_at(&squared, &terms));
  }
}

static rdt_status verify(void *state, const rdt_operands *o, const rdt_tensor *fin, rdt_findings *f, rdt_reason *why) {
  fc_state *s = state;
  const rdt_conv_check *c = &s->c;
  if (rdt_tensor_count(&o->out) == 0) return RDT_OK;
  if (!c->fixed) RDT_TRY(from_weights(s, &o->in[1], why));
  for (int i = 0; i < c->threads; i++) rdt_findings_init(&s->found[i]);
  s->found[0].strike = f->strike;
#pragma omp parallel for schedule(static) num_threads(c->threads) if (c->threads > 1)
  for (int64_t i = 0; i < c->n * s->blocks; i++) {
    const int thread = omp_get_thread_num();
    fc_task t = {
        s, o, fin, i / s->blocks, i % s->blocks * s->block, s->block, s->work + (size_t)thread * s->work_bytes};
    if (t.rows > c->oh - t.oh) t.rows = c->oh - t.oh;
    expect_rows(&t);
    for (int64_t r = 0; r < t.rows; r++) {
      check_row(&t, r, &s->found[thread]);
      rdt_conv_epilogue(c, o, fin, t.n, t.oh, t.oh + t.rows, t.oh + r);
    }
  }
  for (int i = 0; i < c->threads; i++) rdt_findings_merge(f, &s->found[i]);
  return RDT_OK;
}

static void checksums(void *state, void **data, size_t *bytes, rdt_dtype *dtype) {
  const fc_state *s = state;
  *data = s->filter.data;
  *bytes = s->filter.bytes;
  *dtype = s->c.exact ? RDT_S32 : RDT_F64;
}

static rdt_status fixed(void *state, rdt_vault *frame, rdt_vault *tables) {
  fc_state *s = state;
  const size_t from = offsetof(fc_state, block); /* before it lies what weights that are not fixed change */
  RDT_TRY(rdt_vault_add(frame, s, offsetof(fc_state, vanished)));
  RDT_TRY(rdt_vault_add(frame, (char *)s + from, sizeof *s - from));
  RDT_TRY(rdt_vault_add(tables, s->weights, (size_t)s->c.oc * s->c.sum));
  return rdt_conv_check_fixed(&s->c, tables);
}

const rdt_scheme rdt_scheme_fc = {rdt_conv_accept, create, verify, checksums, from_weights, destroy, fixed};
