/* ic and fic: each image's pixels are summed with signs u before and after the convolution.
 *
 *   ic   for each image and output channel   sum_p u_p y[k,p] = sum_{c,r,s} X~[c,r,s] W[k,c,r,s]
 *   fic  for each image                      sum_k w_k sum_p u_p y[k,p] = sum_{c,r,s} X~[c,r,s] W~[c,r,s]
 *   X~[c,r,s] = sum_{oh,ow} s(oh) t(ow) x[c, oh*stride + r*dilation - pad, ow*stride + s*dilation - pad]
 *
 * u is separable, so a row of the input is read once: its sums over ow for each s, then added with s(oh) for each r
 * that the row serves. A fault would have to repeat itself in the four corners of a rectangle with matching signs to
 * cancel. Magnitudes are taken over whole channels, which over-estimates them at the border and where the stride skips.
 */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "schemes/conv_check.h"

#define FILTER_BLOCK 16          /* filters of one task of the second phase */
enum { NARROW = 4, LANES = 16 }; /* so few input channels fill no vector; elements of the widest one */

typedef struct ic_bound { /* evaluated twice */
  rdt_bound first;
  double squared;
} ic_bound;

typedef struct ic_state {
  rdt_conv_check c;
  bool scalar;               /* fic */
  double vanished;           /* what a square may have lost */
  int64_t first, step, used; /* the columns of the input that some tap uses */
  void *coef_in, *coef_out;  /* t(ow): [used][kw], [ow] */
  int64_t pw;                /* narrow input: pixels of a padded row, else 0 */
  double *bounds;            /* ic: sum over the taps of |W| and W^2: [oc][icg] each */
  size_t bounds_bytes;
  rdt_conv_filter filter; /* fic */
  int64_t wave;           /* images in flight */
  /* for each image of the wave and part: */
  char *xs, *ys;   /* sums: X~ as [r][s][ic], sum_p u_p y as [oc] */
  double *mx, *my; /* magnitudes: sum |x| and sum x^2 as [2][ic], sum y^2 as [oc] */
  /* for each image of the wave: */
  char *xw;        /* X~ as [group][c][r][s], the order of the filters */
  double *mw;      /* [3][ic]: sum |x|, sum x^2, the largest X~^2 over the taps */
  char *expected;  /* [oc] sums (ic) */
  ic_bound *bound; /* [oc] */
  /* for each thread: */
  char *scratch, *row;                        /* fetched elements; sums of one row */
  size_t scratch_bytes, row_bytes, padded_at; /* a padded row lies behind the fetched ones */
} ic_state;

static int64_t max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* What verify works with; the checksums of the weights stay. */
static void release_work(ic_state *s) {
  void *const owned[] = {s->coef_in, s->coef_out, s->xs,       s->ys,    s->mx,      s->my,
                         s->xw,      s->mw,       s->expected, s->bound, s->scratch, s->row};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) rdt_free(owned[i]);
}

static void state_destroy(void *state) {
  ic_state *s = state;
  if (!s) return;
  release_work(s);
  rdt_free(s->bounds);
  rdt_free(s->filter.data);
  rdt_conv_check_clear(&s->c);
  rdt_free(s);
}

/* Every step-th column of the input from first on; columns between them that no tap uses have coefficients 0. */
static void set_columns(ic_state *s) {
  const rdt_conv_check *c = &s->c;
  s->step = c->kw == 1 ? c->width.stride : 1;
  for (int64_t w = 0; w < c->iw; w++) {
    bool any = false;
    for (int64_t t = 0; t < c->kw; t++) any |= rdt_conv_out(&c->width, w, t) >= 0;
    if (!any) continue;
    if (s->used == 0) s->first = w;
    s->used = (w - s->first) / s->step + 1;
  }
  for (int64_t i = 0; i < s->used; i++)
    for (int64_t t = 0; t < c->kw; t++) {
      const int64_t ow = rdt_conv_out(&c->width, s->first + i * s->step, t);
      rdt_store(s->coef_in, c->fn->elem, i * c->kw + t, ow >= 0 ? c->sign_ow[ow] : 0);
    }
  for (int64_t w = 0; w < c->ow; w++) rdt_store(s->coef_out, c->fn->elem, w, c->sign_ow[w]);
}

/* A window's row of few channels is taken as one pixel of kw x ic channels: those fill vectors. */
static void set_narrow(ic_state *s) {
  const rdt_conv_check *c = &s->c;
  const int64_t pw = (c->ow - 1) * c->width.stride + c->kw;
  if (c->ic > 0 && c->ic <= NARROW && c->kw > 1 && c->width.dilation == 1 && c->ow > 0 && c->width.pad < pw &&
      pw < LANES * c->iw)
    s->pw = pw;
}

static rdt_status state_alloc(ic_state *s) {
  const rdt_conv_check *c = &s->c;
  const size_t taps = (size_t)(c->kh * c->kw), ic = (size_t)c->ic, oc = (size_t)c->oc;
  s->wave = c->n < max64(c->threads, 4) ? c->n : max64(c->threads, 4);
  const size_t images = (size_t)s->wave, tasks = images * (size_t)c->parts, threads = (size_t)c->threads;
  s->padded_at = (size_t)max64(max64(c->iw * c->ic, c->ow * c->oc), FILTER_BLOCK * c->k) * c->elem;
  s->scratch_bytes = s->padded_at + (size_t)(s->pw > 0 ? s->pw * c->ic + LANES : 0) * c->elem;
  s->row_bytes = (size_t)max64(c->kw * c->ic + LANES, max64(c->oc, 3 * FILTER_BLOCK)) * sizeof(double);
  s->coef_in = rdt_calloc((size_t)max64(c->iw * c->kw, LANES), c->elem);
  s->coef_out = rdt_alloc((size_t)c->ow, c->elem);
  s->xs = rdt_alloc(tasks * taps * ic, c->sum);
  s->ys = rdt_alloc(tasks * oc, c->sum);
  s->mx = rdt_alloc(tasks * 2 * ic, sizeof *s->mx);
  s->my = rdt_alloc(tasks * oc, sizeof *s->my);
  s->xw = rdt_alloc(images * taps * ic, c->sum);
  s->mw = rdt_alloc(images * 3 * ic, sizeof *s->mw);
  s->expected = rdt_alloc(images * oc, c->sum);
  s->bound = rdt_alloc(images * oc, sizeof *s->bound);
  s->scratch = rdt_alloc(threads, s->scratch_bytes);
  s->row = rdt_alloc(threads, s->row_bytes);
  const bool ok = s->coef_in && s->coef_out && s->xs && s->ys && s->mx && s->my && s->xw && s->mw && s->expected &&
                  s->bound && s->scratch && s->row;
  return ok ? RDT_OK : RDT_ERR_NOMEM;
}

static rdt_status make_bounds(ic_state *s, const rdt_tensor *w) {
  const rdt_conv_check *c = &s->c;
  const int64_t taps = c->kh * c->kw;
  void *scratch = rdt_alloc((size_t)c->k, c->elem);
  if (!scratch) return RDT_ERR_NOMEM;
  double *g = s->bounds, *q = s->bounds + c->oc * c->icg;
  for (int64_t k = 0; k < c->oc; k++) {
    int64_t ps;
    const void *f = rdt_conv_filters(c, w, k, 1, scratch, &ps);
    for (int64_t i = 0; i < c->icg; i++, g++, q++) {
      *g = *q = 0.0;
      for (int64_t t = i * taps; t < (i + 1) * taps; t++) {
        const double v = c->fn->elem == RDT_F32 ? (double)((const float *)f)[t] : ((const double *)f)[t];
        *g += fabs(v);
        *q += v * v;
      }
    }
  }
  rdt_free(scratch);
  return RDT_OK;
}

static rdt_status from_weights(void *state, const rdt_tensor *w, rdt_reason *why) {
  ic_state *s = state;
  rdt_status status = RDT_OK;
  if (s->scalar)
    status = rdt_conv_filter_make(&s->c, w, true, &s->filter);
  else if (!s->c.exact)
    status = make_bounds(s, w);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "no memory for the checksums of the weights");
}

/* Sums over pixels of floats: chunks in float, the rest in double, which counts as one more rounding. */
static void set_precision(ic_state *s) {
  const rdt_conv_check *c = &s->c;
  rdt_tolerance *t = &s->c.tol;
  t->u_check = rdt_dtype_info(c->fn->elem == RDT_F32 ? RDT_F32 : RDT_F64)->u;
  t->u_form = 0.0;
  if (c->fn->elem == RDT_F32) {
    t->u_form = t->u_check;
    t->depth_sum = t->depth_beta = RDT_CONV_CHUNK + 1;
    t->depth_dot = 1;
    return;
  }
  t->depth_sum = t->depth_beta = c->oh + c->ow + c->parts + (s->scalar ? c->oc : 0);
  t->depth_dot = s->scalar ? c->kh * c->kw * c->ic : 0;
}

static rdt_status prepare(ic_state *s) {
  set_narrow(s);
  RDT_TRY(state_alloc(s));
  set_columns(s);
  set_precision(s);
  return RDT_OK;
}

static rdt_status create(const rdt_problem *p, bool scalar, bool fixed, double lambda, int threads, void **state,
                         rdt_reason *why) {
  ic_state *s = rdt_calloc(1, sizeof *s);
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "no memory for the state of the checks");
  rdt_status status = RDT_OK;
  s->scalar = scalar;
  s->vanished = p->acc == RDT_S32 ? 0.0 : rdt_dtype_info(p->acc)->min_normal;
  RDT_TRY_GOTO(rdt_conv_check_init(&s->c, p, fixed, lambda, threads), fail);
  RDT_TRY_GOTO(prepare(s), fail);
  if (scalar) {
    RDT_TRY_GOTO(rdt_conv_filter_alloc(&s->c, &s->filter), fail);
  } else if (!s->c.exact) {
    s->bounds_bytes = (size_t)(2 * s->c.oc * s->c.icg) * sizeof *s->bounds;
    s->bounds = rdt_alloc(s->bounds_bytes, 1);
    if (!s->bounds) RDT_TRY_GOTO(RDT_ERR_NOMEM, fail);
  }
  if (fixed) RDT_TRY_GOTO(from_weights(s, &p->in[1], why), fail);
  *state = s;
  return RDT_OK;
fail:
  state_destroy(s);
  return rdt_fail(why, status, "no memory for the state of the checks");
}

static rdt_status create_ic(const rdt_problem *p, bool fixed, double lambda, int sets, int threads, void **state,
                            rdt_reason *why) {
  (void)sets;
  return create(p, false, fixed, lambda, threads, state, why);
}

static rdt_status create_fic(const rdt_problem *p, bool fixed, double lambda, int sets, int threads, void **state,
                             rdt_reason *why) {
  (void)sets;
  return create(p, true, fixed, lambda, threads, state, why);
}

/* Phase 1: the rows of one part of one image, input and output. */
typedef struct ic_call {
  ic_state *s;
  const rdt_operands *o;
  const rdt_tensor *fin;
  int64_t first; /* image of the wave */
} ic_call;

/* Sums of one row of the input over ow, for each tap of a row and channel: [kw][ic]; magnitudes are added to mx. */
static void sum_wide(const ic_state *s, const char *x, int64_t ps, void *sums, double *mx) {
  const rdt_conv_check *c = &s->c;
  c->fn->columns(x, ps * s->step, c->ic, s->used, s->coef_in, (int)c->kw, sums, mx, mx + c->ic);
}

/* The same over windows of a padded row; magnitudes over groups of pixels. What lies beyond the last window is zero. */
static void sum_narrow(const ic_state *s, const char *x, int64_t ps, char *padded, void *sums, double *mx) {
  const rdt_conv_check *c = &s->c;
  const int64_t from = c->width.pad, left = s->pw - from, count = left < c->iw ? left : c->iw, row = s->pw * c->ic;
  const size_t pixel = (size_t)c->ic * c->elem;
  memset(padded, 0, (size_t)from * pixel);
  for (int64_t i = 0; i < count && ps != c->ic; i++)
    memcpy(padded + (size_t)(from + i) * pixel, x + i * ps * (int64_t)c->elem, pixel);
  if (ps == c->ic) memcpy(padded + (size_t)from * pixel, x, (size_t)count * pixel);
  memset(padded + (size_t)(from + count) * pixel, 0, (size_t)(left - count) * pixel + LANES * c->elem);
  if (!c->exact) {
    double ignored[LANES * NARROW], abs[LANES * NARROW] = {0.0}, squares[LANES * NARROW] = {0.0};
    const int64_t group = LANES * c->ic, groups = row / group;
    c->fn->columns(padded, group, group, groups, s->coef_in, 1, ignored, abs, squares);
    for (int64_t i = 0; i < group; i++) {
      mx[i % c->ic] += abs[i];
      mx[c->ic + i % c->ic] += squares[i];
    }
    c->fn->columns(padded + (size_t)(groups * group) * c->elem, c->ic, c->ic, (row - groups * group) / c->ic,
                   s->coef_in, 1, ignored, mx, mx + c->ic);
  }
  c->fn->columns(padded, c->width.stride * c->ic, (c->kw * c->ic + LANES - 1) / LANES * LANES, c->ow, s->coef_out, 1,
                 sums, NULL, NULL);
}

static void sum_part(const ic_call *call, int64_t image, int64_t part, int thread) {
  const ic_state *s = call->s;
  const rdt_conv_check *c = &s->c;
  const int64_t task = image * c->parts + part, n = call->first + image, xs_count = c->kh * c->kw * c->ic;
  char *xs = s->xs + (size_t)(task * xs_count) * c->sum, *ys = s->ys + (size_t)(task * c->oc) * c->sum;
  double *mx = s->mx + task * 2 * c->ic, *my = s->my + task * c->oc;
  char *scratch = s->scratch + (size_t)thread * s->scratch_bytes, *sums = s->row + (size_t)thread * s->row_bytes;
  memset(xs, 0, (size_t)xs_count * c->sum);
  memset(ys, 0, (size_t)c->oc * c->sum);
  memset(mx, 0, (size_t)(2 * c->ic) * sizeof *mx);
  memset(my, 0, (size_t)c->oc * sizeof *my);
  int64_t ps;
  for (int64_t h = part * c->ih / c->parts; h < (part + 1) * c->ih / c->parts; h++) {
    bool any = false;
    for (int64_t r = 0; r < c->kh; r++) any |= rdt_conv_out_line(c, h, r) >= 0;
    if (!any || s->used == 0) continue;
    const int64_t first = s->pw > 0 ? 0 : s->first;
    const void *x = rdt_conv_row(c, &call->o->in[0], n, h, first, c->iw - first, scratch, &ps);
    if (s->pw > 0)
      sum_narrow(s, x, ps, scratch + s->padded_at, sums, mx);
    else
      sum_wide(s, x, ps, sums, mx);
    for (int64_t r = 0; r < c->kh; r++) {
      const int64_t oh = rdt_conv_out_line(c, h, r);
      if (oh >= 0) c->fn->add(xs + (size_t)(r * c->kw * c->ic) * c->sum, sums, c->sign_oh[oh], c->kw * c->ic);
    }
  }
  const int64_t from = part * c->oh / c->parts, to = (part + 1) * c->oh / c->parts;
  for (int64_t h = from; h < to; h++) {
    const void *y = rdt_conv_row(c, &call->o->out, n, h, 0, c->ow, scratch, &ps);
    c->fn->columns(y, ps, c->oc, c->ow, s->coef_out, 1, sums, NULL, my);
    c->fn->add(ys, sums, c->sign_oh[h], c->oc);
    rdt_conv_epilogue(c, call->o, call->fin, n, from, to, h);
  }
}

/* Adds the parts of an image and brings X~ into the order of the filters. */
static void gather_image(const ic_state *s, int64_t image) {
  const rdt_conv_check *c = &s->c;
  const int64_t taps = c->kh * c->kw, cells = taps * c->ic, first = image * c->parts;
  char *xs = s->xs + (size_t)(first * cells) * c->sum, *ys = s->ys + (size_t)(first * c->oc) * c->sum;
  double *mx = s->mx + first * 2 * c->ic, *my = s->my + first * c->oc;
  for (int64_t p = 1; p < c->parts; p++) {
    c->fn->add(xs, xs + (size_t)(p * cells) * c->sum, 1, cells);
    c->fn->add(ys, ys + (size_t)(p * c->oc) * c->sum, 1, c->oc);
    if (c->exact) continue;
    c->fn->add(mx, mx + p * 2 * c->ic, 1, 2 * c->ic);
    c->fn->add(my, my + p * c->oc, 1, c->oc);
  }
  for (int64_t ch = 0; ch < c->ic; ch++) mx[c->ic + ch] += (double)(c->ih * c->iw) * s->vanished;
  for (int64_t k = 0; k < c->oc; k++) my[k] += (double)(c->oh * c->ow) * s->vanished;
  if (s->scalar) return;
  if (c->exact) {
    uint32_t *to = (uint32_t *)s->xw + image * cells;
    for (int64_t ch = 0; ch < c->ic; ch++)
      for (int64_t t = 0; t < taps; t++) to[ch * taps + t] = ((const uint32_t *)xs)[t * c->ic + ch];
    return;
  }
  double *to = (double *)s->xw + image * cells, *mw = s->mw + image * 3 * c->ic;
  memcpy(mw, mx, (size_t)(2 * c->ic) * sizeof *mw);
  for (int64_t ch = 0; ch < c->ic; ch++) {
    double largest = 0.0;
    for (int64_t t = 0; t < taps; t++) {
      const double v = ((const double *)xs)[t * c->ic + ch];
      to[ch * taps + t] = v;
      largest = fmax(largest, v * v);
    }
    mw[2 * c->ic + ch] = largest;
  }
}

/* No bound follows from a magnitude whose sum overflowed. */
static double based(double magnitude, double sum) {
  return isfinite(sum) ? magnitude : NAN;
}

/* Phase 2 of ic: expected values and bounds of a block of filters of one group, for all images of the wave. */
static void expect_filters(const ic_call *call, int64_t k, int64_t count, int64_t images, int thread) {
  const ic_state *s = call->s;
  const rdt_conv_check *c = &s->c;
  const int64_t cells = c->kh * c->kw * c->ic, group = k / c->ocg;
  void *scratch = s->scratch + (size_t)thread * s->scratch_bytes;
  int64_t ps;
  const void *w = rdt_conv_filters(c, &call->o->in[1], k, count, scratch, &ps);
  void *dots = s->row + (size_t)thread * s->row_bytes;
  const double *g = s->bounds + k * c->icg, *q = g + c->oc * c->icg;
  const rdt_squared squared = rdt_squared_of(&c->tol, c->oh * c->ow);
  for (int64_t i = 0; i < images; i++) {
    const void *x = s->xw + (size_t)(i * cells + group * c->k) * c->sum;
    char *expected = s->expected + (size_t)(i * c->oc + k) * c->sum;
    c->fn->dots(w, ps, c->k, count, &x, 1, expected);
    if (c->exact) continue;
    const double *m = s->mw + i * 3 * c->ic + group * c->icg, *my = s->my + i * c->parts * c->oc + k;
    const void *const mg[1] = {m}, *const mq[2] = {m + c->ic, m + 2 * c->ic};
    double *ag = dots, *qs = ag + count;
    c->fn_sum->dots(g, c->icg, c->icg, count, mg, 1, ag);
    c->fn_sum->dots(q, c->icg, c->icg, count, mq, 2, qs);
    for (int64_t j = 0; j < count; j++) {
      /* a sum that overflowed is no proof where the sum of the magnitudes may; q bounds only the single outputs */
      const double sum = ((const double *)s->ys)[i * c->parts * c->oc + k + j], dot = ((const double *)expected)[j];
      const rdt_terms terms = {.n = c->oh * c->ow,
                               .abs_c = NAN,
                               .c2 = my[j],
                               .s = sum,
                               .ag = based(ag[j], dot),
                               .q = based(qs[2 * j], sum + dot),
                               .dot = dot,
                               .a_beta = ag[j],
                               .q_beta = qs[2 * j + 1],
                               .m2 = NAN};
      s->bound[i * c->oc + k + j] = (ic_bound){rdt_bound_of(&c->tol, &terms), rdt_squared_at(&squared, &terms)};
    }
  }
}

static void book_filters(const ic_state *s, int64_t images, rdt_findings *f) {
  const rdt_conv_check *c = &s->c;
  rdt_strike_announce(f->strike, f->checks, images * c->oc);
  for (int64_t i = 0; i < images; i++)
    for (int64_t k = 0; k < c->oc; k++) {
      const int64_t at = i * c->parts * c->oc + k, e = i * c->oc + k;
      if (c->exact)
        rdt_findings_check_exact(f, RDT_CHECK_COL, -1, k, ((const uint32_t *)s->ys)[at],
                                 ((const uint32_t *)s->expected)[e]);
      else
        rdt_findings_check_twice(f, RDT_CHECK_COL, -1, k, ((const double *)s->ys)[at], ((const double *)s->expected)[e],
                                 s->bound[e].first, s->bound[e].squared);
    }
}

/* fic: one scalar for an image. */
static void book_image(const ic_state *s, int64_t image, rdt_findings *f) {
  const rdt_conv_check *c = &s->c;
  const int64_t cells = c->kh * c->kw * c->ic, first = image * c->parts;
  const void *xs = s->xs + (size_t)(first * cells) * c->sum, *beta = s->filter.beta;
  rdt_strike_announce(f->strike, f->checks, 1);
  if (c->exact) {
    const uint32_t *ys = (const uint32_t *)s->ys + first * c->oc;
    uint32_t expected, observed = 0;
    c->fn->dots(xs, 0, cells, 1, &beta, 1, &expected);
    for (int64_t k = 0; k < c->oc; k++) observed += (uint32_t)c->sign_oc[k] * ys[k];
    rdt_findings_check_exact(f, RDT_CHECK_SCALAR, -1, -1, observed, expected);
    return;
  }
  const double *ys = (const double *)s->ys + first * c->oc, *mx = s->mx + first * 2 * c->ic,
               *my = s->my + first * c->oc;
  double expected;
  c->fn_sum->dots(xs, 0, cells, 1, &beta, 1, &expected);
  rdt_terms t = {.n = c->oh * c->ow * c->oc, .abs_c = NAN, .dot = expected, .m2 = NAN};
  for (int64_t k = 0; k < c->oc; k++) {
    t.s += c->sign_oc[k] * ys[k];
    t.c2 += my[k];
  }
  for (int64_t ch = 0; ch < c->ic; ch++) {
    t.ag += mx[ch] * rdt_load(s->filter.g, s->filter.elem, ch);
    t.q += mx[c->ic + ch] * rdt_load(s->filter.rho2, s->filter.elem, ch);
  }
  t.a_beta = t.ag;
  t.ag = based(t.ag, expected);
  t.q = based(t.q, t.s + expected);
  for (int64_t i = 0; i < cells; i++) {
    const double b = ((const double *)xs)[i] * ((const double *)beta)[i];
    t.q_beta += b * b;
  }
  const rdt_squared squared = rdt_squared_of(&c->tol, t.n);
  rdt_findings_check_twice(f, RDT_CHECK_SCALAR, -1, -1, t.s, expected, rdt_bound_of(&c->tol, &t),
                           rdt_squared_at(&squared, &t));
}

/* Sums of floats do not overflow where no sum of squares is beyond the largest. NaN and Inf cost time. */
static bool may_overflow(const ic_state *s, int64_t image) {
  const rdt_conv_check *c = &s->c;
  const double *x2 = s->mx + image * c->parts * 2 * c->ic + c->ic, *y2 = s->my + image * c->parts * c->oc;
  bool any = false;
  for (int64_t i = 0; i < c->ic; i++) any |= !(x2[i] <= FLT_MAX);
  for (int64_t i = 0; i < c->oc; i++) any |= !(y2[i] <= FLT_MAX);
  return any;
}

static void run_wave(const ic_call *call, int64_t images, rdt_findings *f) {
  const ic_state *s = call->s;
  const rdt_conv_check *c = &s->c;
  const int64_t blocks = (c->ocg + FILTER_BLOCK - 1) / FILTER_BLOCK, tasks = images * c->parts;
#pragma omp parallel num_threads(c->threads) if (c->threads > 1)
  {
    const int thread = omp_get_thread_num();
#pragma omp for schedule(static)
    for (int64_t t = 0; t < tasks; t++) sum_part(call, t / c->parts, t % c->parts, thread);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < images; i++) gather_image(s, i);
    if (!s->scalar) {
#pragma omp for schedule(static)
      for (int64_t b = 0; b < blocks * c->groups; b++) {
        const int64_t in_group = b % blocks * FILTER_BLOCK, left = c->ocg - in_group;
        expect_filters(call, b / blocks * c->ocg + in_group, left < FILTER_BLOCK ? left : FILTER_BLOCK, images, thread);
      }
    }
  }
  if (!s->scalar) {
    book_filters(s, images, f);
    return;
  }
  for (int64_t i = 0; i < images; i++) book_image(s, i, f);
}

static void run_all(ic_state *s, const rdt_operands *o, const rdt_tensor *fin, bool *overflowed, rdt_findings *f) {
  for (int64_t n = 0; n < s->c.n; n += s->wave) {
    const ic_call call = {s, o, fin, n};
    const int64_t images = s->c.n - n < s->wave ? s->c.n - n : s->wave;
    run_wave(&call, images, f);
    for (int64_t i = 0; i < images && !s->c.exact; i++) *overflowed = *overflowed || may_overflow(s, i);
  }
}

/* Once more with sums in double, where those in float may have overflowed. */
static rdt_status verify_wide(const ic_state *s, const rdt_operands *o, rdt_findings *f, rdt_reason *why) {
  bool ignored = false;
  ic_state wide = {.c = s->c, .scalar = s->scalar, .vanished = s->vanished, .bounds = s->bounds, .filter = s->filter};
  wide.c.fn = s->c.fn_sum;
  wide.c.elem = s->c.sum;
  const rdt_status status = prepare(&wide);
  if (status == RDT_OK) run_all(&wide, o, NULL, &ignored, f);
  release_work(&wide);
  return status == RDT_OK ? RDT_OK : rdt_fail(why, status, "no memory for checks in double");
}

static rdt_status verify(void *state, const rdt_operands *o, const rdt_tensor *fin, rdt_findings *f, rdt_reason *why) {
  ic_state *s = state;
  bool overflowed = false;
  rdt_findings found;
  if (rdt_tensor_count(&o->out) == 0) return RDT_OK;
  if (!s->c.fixed) RDT_TRY(from_weights(s, &o->in[1], why));
  rdt_findings_init(&found);
  found.strike = f->strike;
  run_all(s, o, fin, &overflowed, &found);
  if (overflowed && s->c.fn->elem == RDT_F32) {
    rdt_findings_init(&found);
    RDT_TRY(verify_wide(s, o, &found, why));
  }
  rdt_findings_merge(f, &found);
  return RDT_OK;
}

static void checksums(void *state, void **data, size_t *bytes, rdt_dtype *dtype) {
  const ic_state *s = state;
  *data = s->scalar ? s->filter.data : (void *)s->bounds;
  *bytes = s->scalar ? s->filter.bytes : s->bounds_bytes;
  *dtype = s->c.exact ? RDT_S32 : RDT_F64;
}

static rdt_status fixed(void *state, rdt_vault *frame, rdt_vault *tables) {
  ic_state *s = state;
  RDT_TRY(rdt_vault_add(frame, s, sizeof *s));
  RDT_TRY(rdt_vault_add(tables, s->coef_in, (size_t)(s->used * s->c.kw) * s->c.elem));
  RDT_TRY(rdt_vault_add(tables, s->coef_out, (size_t)s->c.ow * s->c.elem));
  return rdt_conv_check_fixed(&s->c, tables);
}

const rdt_scheme rdt_scheme_ic = {rdt_conv_accept, create_ic, verify, checksums, from_weights, state_destroy, fixed};
const rdt_scheme rdt_scheme_fic = {rdt_conv_accept, create_fic, verify, checksums, from_weights, state_destroy, fixed};
