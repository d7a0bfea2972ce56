#include "schemes/conv_check.h"

#include <math.h>
#include <string.h>

#include "core/divisor.h"
#include "core/memory.h"
#include "cpu/epilogue.h"

rdt_status rdt_conv_accept(const rdt_problem *p, rdt_reason *why) {
  if (p->op != RDT_KOP_CONV) return rdt_fail(why, RDT_ERR_UNSUPPORTED, "only convolutions");
  const int along = p->out.rank - 1;
  if (p->in[0].shape[along] > INT32_MAX || p->out.shape[along] > INT32_MAX)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED, "rows of more than 2^31 pixels");
  return RDT_OK;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Half +1, half -1 (one more +1 of an odd number), shuffled: a sum over constant data stays small, and errors that are
 * equal, opposite or swapped do not cancel by design. */
static int8_t *balanced_signs(int64_t n, uint64_t seed) {
  int8_t *s = rdt_alloc((size_t)n, 1);
  if (!s) return NULL;
  for (int64_t i = 0; i < n; i++) s[i] = i % 2 == 0 ? 1 : -1;
  for (int64_t i = n - 1; i > 0; i--) {
    const int64_t j = (int64_t)(next_random(&seed) % (uint64_t)(i + 1));
    const int8_t t = s[i];
    s[i] = s[j];
    s[j] = t;
  }
  return s;
}

static void set_geometry(rdt_conv_check *c, const rdt_problem *p) {
  const int64_t *x = p->in[0].shape, *w = p->in[1].shape, *y = p->out.shape;
  rdt_conv_axis *const axes[RDT_MAX_SPATIAL] = {&c->depth, &c->height, &c->width};
  for (int a = 0; a < RDT_MAX_SPATIAL; a++) {
    const int i = a - (RDT_MAX_SPATIAL + 2 - p->out.rank);
    const rdt_window *win = &p->window;
    *axes[a] = i < 0 ? (rdt_conv_axis){1, 1, 1, 1, 1, 0}
                     : (rdt_conv_axis){.in = x[2 + i],
                                       .out = y[2 + i],
                                       .taps = w[2 + i],
                                       .stride = win->stride[i],
                                       .dilation = win->dilation[i],
                                       .pad = win->before[i]};
  }
  c->n = x[0];
  c->ic = x[1];
  c->oc = y[1];
  c->ih = c->depth.in * c->height.in;
  c->oh = c->depth.out * c->height.out;
  c->kh = c->depth.taps * c->height.taps;
  c->iw = c->width.in;
  c->ow = c->width.out;
  c->kw = c->width.taps;
}

static void reach(const rdt_conv_axis *a, int64_t first, int64_t last, int64_t *from, int64_t *to) {
  *from = first * a->stride - a->pad;
  *to = last * a->stride + (a->taps - 1) * a->dilation - a->pad;
  if (*from < 0) *from = 0;
  if (*to >= a->in) *to = a->in - 1;
}

void rdt_conv_reach(const rdt_conv_check *c, int64_t oh, int64_t rows, int64_t from[2], int64_t to[2]) {
  const int64_t h = c->height.out, first = oh / h, last = (oh + rows - 1) / h;
  reach(&c->depth, first, last, &from[0], &to[0]);
  reach(&c->height, first == last ? oh % h : 0, first == last ? (oh + rows - 1) % h : h - 1, &from[1], &to[1]);
}

rdt_status rdt_conv_check_init(rdt_conv_check *c, const rdt_problem *p, bool fixed, double lambda, int threads) {
  *c = (rdt_conv_check){.groups = p->window.groups};
  set_geometry(c, p);
  c->icg = c->ic / c->groups;
  c->ocg = c->oc / c->groups;
  c->k = c->icg * c->kh * c->kw;
  c->acc = p->acc;
  c->exact = p->acc == RDT_S32;
  for (int i = 0; i < 2; i++) c->zero[i] = p->zero[i];
  c->fixed = fixed;
  c->threads = threads < 1 ? 1 : threads;
  c->parts = c->n > 0 ? (int)(c->threads / rdt_common_divisor(c->threads, c->n)) : 1;
  c->fn = rdt_conv_sums_of(rdt_isa_detect(), p->acc);
  c->fn_sum = rdt_conv_sums_of(rdt_isa_detect(), RDT_F64);
  c->elem = rdt_dtype_size(c->fn->elem);
  c->sum = rdt_dtype_size(c->fn->sum);
  const double u = rdt_dtype_info(RDT_F64)->u;
  c->tol = (rdt_tolerance){
      .acc = rdt_accumulator_of(p->in[0].dtype, p->acc), .k = c->k, .u_check = u, .u_beta = u, .lambda = lambda};
  c->sign_oh = balanced_signs(c->oh, 1);
  c->sign_ow = balanced_signs(c->ow, 2);
  c->sign_oc = balanced_signs(c->oc, 3);
  if (c->sign_oh && c->sign_ow && c->sign_oc) return RDT_OK;
  rdt_conv_check_clear(c);
  return RDT_ERR_NOMEM;
}

rdt_status rdt_conv_check_fixed(const rdt_conv_check *c, rdt_vault *tables) {
  RDT_TRY(rdt_vault_add(tables, c->sign_oh, (size_t)c->oh));
  RDT_TRY(rdt_vault_add(tables, c->sign_ow, (size_t)c->ow));
  return rdt_vault_add(tables, c->sign_oc, (size_t)c->oc);
}

void rdt_conv_check_clear(rdt_conv_check *c) {
  rdt_free(c->sign_oh);
  rdt_free(c->sign_ow);
  rdt_free(c->sign_oc);
  c->sign_oh = c->sign_ow = c->sign_oc = NULL;
}

static const char *element(const rdt_tensor *t, int64_t offset) {
  return (const char *)t->data + offset * (int64_t)rdt_dtype_size(t->dtype);
}

/* Offset of line h of an image, or of a line of taps. */
static int64_t line_at(const rdt_tensor *t, int64_t h) {
  int64_t offset = 0;
  for (int d = t->rank - 2; d >= 2; d--) {
    offset += h % t->shape[d] * t->stride[d];
    h /= t->shape[d];
  }
  return offset;
}

/* Integers less their zero point. */
static void centre(void *scratch, int64_t n, int32_t zero) {
  uint32_t *const x = scratch;
  for (int64_t i = 0; zero && i < n; i++) x[i] -= (uint32_t)zero;
}

const void *rdt_conv_row(const rdt_conv_check *c, const rdt_tensor *t, int64_t n, int64_t h, int64_t w, int64_t count,
                         void *scratch, int64_t *ps) {
  const int64_t *st = t->stride;
  const int64_t along = st[t->rank - 1];
  const char *from = element(t, n * st[0] + line_at(t, h) + w * along);
  if (t->dtype == c->fn->elem && (st[1] == 1 || t->shape[1] == 1)) {
    *ps = along;
    return from;
  }
  c->fn->fetch(from, t->dtype, along, st[1], count, t->shape[1], scratch);
  if (t->dtype != RDT_S32) centre(scratch, count * t->shape[1], c->zero[0]);
  *ps = t->shape[1];
  return scratch;
}

const void *rdt_conv_filters(const rdt_conv_check *c, const rdt_tensor *w, int64_t k, int64_t count, void *scratch,
                             int64_t *ps) {
  const int64_t *st = w->stride;
  int64_t taps = 1;
  bool dense = w->dtype == c->fn->elem;
  for (int d = w->rank - 1; d >= 1; d--) {
    dense = dense && (st[d] == taps || w->shape[d] == 1);
    taps *= w->shape[d];
  }
  if (dense) {
    *ps = st[0];
    return element(w, k * st[0]);
  }
  char *to = scratch;
  for (int64_t i = k; i < k + count; i++)
    for (int64_t ch = 0; ch < c->icg; ch++)
      for (int64_t r = 0; r < c->kh; r++, to += c->kw * (int64_t)c->elem)
        c->fn->fetch(element(w, i * st[0] + ch * st[1] + line_at(w, r)), w->dtype, st[w->rank - 1], 1, c->kw, 1, to);
  *ps = c->k;
  centre(scratch, count * c->k, c->zero[1]);
  return scratch;
}

/* Lines of an image, which differ in the height alone. */
static rdt_tensor lines_view(const rdt_tensor *t, int64_t n, int64_t h, int64_t count) {
  rdt_tensor v = *t;
  v.data = (char *)t->data + (n * t->stride[0] + line_at(t, h)) * (int64_t)rdt_dtype_size(t->dtype);
  v.shape[0] = 1;
  for (int d = 2; d < t->rank - 1; d++) v.shape[d] = d == t->rank - 2 ? count : 1;
  return v;
}

/* What a block of rows reads and writes stays in the second-level cache. */
enum { EPILOGUE_BYTES = 1 << 17 };

void rdt_conv_epilogue(const rdt_conv_check *c, const rdt_operands *o, const rdt_tensor *fin, int64_t n, int64_t from,
                       int64_t to, int64_t h) {
  const int64_t row = c->ow * c->oc * (int64_t)rdt_dtype_size(c->acc), most = EPILOGUE_BYTES / (row > 0 ? row : 1);
  const int64_t block = most > 1 ? most : 1, done = h + 1 - from, count = done % block == 0 ? block : done % block;
  if (!fin || (done % block != 0 && h + 1 < to)) return;
  for (int64_t at = h + 1 - count, lines; at <= h; at += lines) {
    const int64_t left = c->height.out - at % c->height.out;
    lines = h + 1 - at < left ? h + 1 - at : left;
    rdt_epilogue e = o->epilogue ? *o->epilogue : RDT_EPILOGUE_NONE;
    if (e.residual.rank >= 0) e.residual = lines_view(&e.residual, n, at, lines);
    const rdt_tensor raw = lines_view(&o->out, n, at, lines), out = lines_view(fin, n, at, lines);
    rdt_epilogue_apply(&e, &raw, &out, 1, 1);
  }
}

rdt_status rdt_conv_filter_alloc(const rdt_conv_check *c, rdt_conv_filter *f) {
  const size_t sums = (size_t)(c->kh * c->kw * c->ic) * c->sum, rows = c->exact ? 0 : (size_t)c->ic;
  const size_t row = (rows * c->elem + sizeof(double) - 1) / sizeof(double) * sizeof(double);
  f->bytes = sums + 3 * row;
  f->data = rdt_calloc(f->bytes, 1);
  if (!f->data) return RDT_ERR_NOMEM;
  f->elem = c->fn->elem;
  f->beta = f->data;
  f->g = rows ? (char *)f->data + sums : NULL;
  f->rho2 = rows ? (char *)f->g + row : NULL;
  f->beta2 = rows ? (char *)f->rho2 + row : NULL;
  return RDT_OK;
}

/* Sums over the filters of one group at one input channel: g and rho2 are [taps], beta [taps] with stride ic. */
static void add_filter(const double *row, int64_t taps, double sign, int64_t ic, double *beta, double *g,
                       double *rho2) {
  for (int64_t t = 0; t < taps; t++) {
    beta[t * ic] += sign * row[t];
    g[t] += fabs(row[t]);
    rho2[t] += row[t] * row[t];
  }
}

static void add_filter_exact(const uint32_t *row, int64_t taps, uint32_t sign, int64_t ic, uint32_t *beta) {
  for (int64_t t = 0; t < taps; t++) beta[t * ic] += sign * row[t];
}

/* NaN must survive the reduction: it says that the channel cannot be checked. */
static void reduce_taps(const rdt_conv_check *c, bool over_taps, const double *g, const double *rho2,
                        rdt_conv_filter *f) {
  const int64_t taps = c->kh * c->kw;
  const double *beta = f->beta;
  for (int64_t ch = 0; ch < c->ic; ch++) {
    double a = 0.0, q = 0.0, b = 0.0;
    for (int64_t t = 0; t < taps; t++) {
      const double gt = g[ch * taps + t], qt = rho2[ch * taps + t], bt = beta[t * c->ic + ch] * beta[t * c->ic + ch];
      a = over_taps ? a + gt : a >= gt ? a : gt;
      q = over_taps ? q + qt : q >= qt ? q : qt;
      b = b >= bt ? b : bt;
      if (isnan(gt)) break;
    }
    rdt_store(f->g, c->fn->elem, ch, a);
    rdt_store(f->rho2, c->fn->elem, ch, q);
    rdt_store(f->beta2, c->fn->elem, ch, b);
  }
}

static void widen(const rdt_conv_check *c, const void *row, double *out) {
  for (int64_t i = 0; i < c->k; i++)
    out[i] = c->fn->elem == RDT_F32 ? (double)((const float *)row)[i] : ((const double *)row)[i];
}

rdt_status rdt_conv_filter_make(const rdt_conv_check *c, const rdt_tensor *w, bool over_taps, rdt_conv_filter *f) {
  const int64_t taps = c->kh * c->kw, cells = taps * c->ic;
  void *scratch = rdt_alloc((size_t)c->k, c->elem);
  double *row = rdt_alloc((size_t)c->k, sizeof *row), *mag = rdt_calloc((size_t)(2 * cells), sizeof *mag);
  rdt_status status = scratch && row && mag ? RDT_OK : RDT_ERR_NOMEM;
  if (status == RDT_OK) memset(f->data, 0, f->bytes);
  for (int64_t k = 0; status == RDT_OK && k < c->oc; k++) {
    int64_t ps;
    const void *filter = rdt_conv_filters(c, w, k, 1, scratch, &ps);
    if (!c->exact) widen(c, filter, row);
    for (int64_t i = 0; i < c->icg; i++) {
      const int64_t ch = k / c->ocg * c->icg + i;
      if (c->exact)
        add_filter_exact((const uint32_t *)filter + i * taps, taps, (uint32_t)c->sign_oc[k], c->ic,
                         (uint32_t *)f->beta + ch);
      else
        add_filter(row + i * taps, taps, c->sign_oc[k], c->ic, (double *)f->beta + ch, mag + ch * taps,
                   mag + cells + ch * taps);
    }
  }
  if (status == RDT_OK && !c->exact) reduce_taps(c, over_taps, mag, mag + cells, f);
  rdt_free(scratch);
  rdt_free(row);
  rdt_free(mag);
  return status;
}
