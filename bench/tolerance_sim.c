#include "tolerance_sim.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"

static const rdt_sim_case CASES[] = {
    {"f64", "double, one after the other", RDT_F64, RDT_F64, RDT_SIM_SEQUENTIAL, 0, 0, 0, false},
    {"f32", "one after the other", RDT_F32, RDT_F32, RDT_SIM_SEQUENTIAL, 0, 0, 0, false},
    {"f32-fma", "one after the other, fused", RDT_F32, RDT_F32, RDT_SIM_FMA, 0, 0, 0, false},
    {"f32-blocked", "blocks of 64", RDT_F32, RDT_F32, RDT_SIM_BLOCKED, 0, 0, 0, false},
    {"f32-pairwise", "pairwise", RDT_F32, RDT_F32, RDT_SIM_PAIRWISE, 0, 0, 0, false},
    {"f32-check32", "as f32, the check itself in f32", RDT_F32, RDT_F32, RDT_SIM_SEQUENTIAL, 0, 0, 0, true},
    {"bf16", "f32 accumulators and output", RDT_BF16, RDT_F32, RDT_SIM_SEQUENTIAL, 0, 0, 0, false},
    {"bf16-bf16", "f32 accumulators, bf16 output", RDT_BF16, RDT_BF16, RDT_SIM_SEQUENTIAL, 0, 0, 0, false},
    {"f16", "f32 accumulators and output", RDT_F16, RDT_F32, RDT_SIM_SEQUENTIAL, 0, 0, 0, false},
    {"f16-hopper", "tensor core, kb 16, F 25", RDT_F16, RDT_F32, RDT_SIM_TENSOR, 16, 25, 23, false},
    {"f16-ampere", "tensor core, kb 8, F 24", RDT_F16, RDT_F32, RDT_SIM_TENSOR, 8, 24, 23, false},
    {"f16-volta", "tensor core, kb 4, F 23", RDT_F16, RDT_F32, RDT_SIM_TENSOR, 4, 23, 23, false},
    {"f16-hopper-f16", "tensor core, f16 output", RDT_F16, RDT_F16, RDT_SIM_TENSOR, 16, 25, 23, false},
    {"bf16-hopper", "tensor core, f32 output", RDT_BF16, RDT_F32, RDT_SIM_TENSOR, 16, 25, 23, false},
    {"bf16-hopper-bf16", "tensor core, bf16 output", RDT_BF16, RDT_BF16, RDT_SIM_TENSOR, 16, 25, 23, false},
};

const rdt_sim_case *rdt_sim_table(int *n) {
  *n = (int)(sizeof CASES / sizeof CASES[0]);
  return CASES;
}

const rdt_sim_case *rdt_sim_find(const char *name) {
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    if (strcmp(CASES[i].name, name) == 0) return &CASES[i];
  }
  return NULL;
}

static int64_t levels(int64_t k) { /* of a tree over k leaves */
  int64_t h = 0;
  while ((INT64_C(1) << h) < k) h++;
  return h;
}

rdt_tolerance rdt_sim_tolerance(const rdt_sim_case *c, int64_t k, double lambda) {
  rdt_tolerance t = {.acc = rdt_accumulator_of(c->in, c->in == RDT_F64 ? RDT_F64 : RDT_F32),
                     .k = k,
                     .u_check = c->check32 ? 0x1p-24 : 0x1p-53,
                     .u_beta = c->check32 ? 0x1p-24 : 0x1p-53,
                     .lambda = lambda};
  const rdt_dtype_row *in = rdt_dtype_info(c->in), *out = rdt_dtype_info(c->out);
  if (c->order == RDT_SIM_BLOCKED) t.acc.depth = RDT_SIM_BLOCK + (k + RDT_SIM_BLOCK - 1) / RDT_SIM_BLOCK;
  if (c->order == RDT_SIM_PAIRWISE) t.acc.depth = 1 + levels(k);
  if (c->order == RDT_SIM_TENSOR) {
    t.acc =
        (rdt_accumulator){.rounding = RDT_ROUND_TRUNCATE, .kb = c->kb, .f = c->f, .fo = c->fo, .flush = in->min_normal};
  }
  if (out->u > t.acc.u && out->u > 0x1p-24) {
    t.u_out = out->u;
    t.eta_out = 2.0 * out->u * out->min_normal;
  }
  return t;
}

double rdt_sim_round(rdt_dtype t, double x) {
  switch (t) {
    case RDT_F64:
      return x;
    case RDT_BF16:
      return (double)rdt_bf16_to_f32(rdt_f32_to_bf16((float)x));
    case RDT_F16:
      return (double)rdt_f16_to_f32(rdt_f32_to_f16((float)x));
    default:
      return (double)(float)x;
  }
}

double rdt_sim_flip(rdt_dtype t, double x, int bit) {
  uint64_t raw[1] = {0};
  rdt_store(raw, t, 0, x);
  raw[0] ^= UINT64_C(1) << bit;
  return rdt_load(raw, t, 0);
}

bool rdt_sim_init(rdt_sim *s, const rdt_sim_case *c, int64_t m, int64_t n, int64_t k, bool checkpoints) {
  *s = (rdt_sim){.c = c, .m = m, .n = n, .k = k};
  const bool in_order = c->order != RDT_SIM_BLOCKED && c->order != RDT_SIM_PAIRWISE;
  const size_t rows = (size_t)m, columns = (size_t)n, depth = (size_t)k;
  s->a = rdt_alloc(rows * depth, sizeof *s->a);
  s->b = rdt_alloc(depth * columns, sizeof *s->b);
  s->out = rdt_alloc(rows * columns, sizeof *s->out);
  s->v = rdt_alloc(rows, sizeof *s->v);
  s->w = rdt_alloc(columns, sizeof *s->w);
  const bool with = checkpoints && in_order && k >= RDT_SIM_CHECKPOINTS;
  if (with) s->s = rdt_calloc((RDT_SIM_CHECKPOINTS + 1) * rows * columns, sizeof *s->s);
  if (s->a && s->b && s->out && s->v && s->w && (s->s || !with)) return true;
  rdt_sim_clear(s);
  return false;
}

void rdt_sim_clear(rdt_sim *s) {
  double *const all[] = {s->a, s->b, s->out, s->s, s->v, s->w};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) rdt_free(all[i]);
  *s = (rdt_sim){.c = NULL};
}

static void signs(rdt_rng *r, int64_t n, double *w) {
  for (int64_t j = 0; j < n; j++) w[j] = j % 2 == 0 ? 1.0 : -1.0;
  for (int64_t j = n - 1; j > 0; j--) {
    const int64_t i = (int64_t)(rdt_rng_next(r) % (uint64_t)(j + 1));
    const double x = w[i];
    w[i] = w[j];
    w[j] = x;
  }
}

void rdt_sim_fill_a(rdt_sim *s, rdt_family f, rdt_rng *r) {
  rdt_family_fill_a(f, r, s->m, s->k, s->a);
  for (int64_t i = 0; i < s->m * s->k; i++) s->a[i] = rdt_sim_round(s->c->in, s->a[i]);
  signs(r, s->m, s->v);
}

void rdt_sim_fill_b(rdt_sim *s, rdt_family f, rdt_rng *r) {
  rdt_family_fill_b(f, r, s->k, s->n, s->b);
  for (int64_t i = 0; i < s->k * s->n; i++) s->b[i] = rdt_sim_round(s->c->in, s->b[i]);
  signs(r, s->n, s->w);
}

/* --- the arithmetic: one row of C; acc has room for 2 n log2(k) --- */

typedef struct row_task {
  const rdt_sim *s;
  const double *a;
  const float *b; /* b in f32 where the accumulator is f32 */
  int64_t row;
} row_task;

/* The accumulators after the step or product range (from, to]. */
static void keep(const row_task *t, int64_t from, int64_t to, const float *acc) {
  const rdt_sim *s = t->s;
  for (int64_t q = 1; s->s && q <= RDT_SIM_CHECKPOINTS; q++) {
    const int64_t at = s->k * q / RDT_SIM_CHECKPOINTS;
    if (at <= from || at > to) continue;
    for (int64_t j = 0; j < s->n; j++) s->s[(q * s->m + t->row) * s->n + j] = (double)acc[j];
  }
}

static void add_products(const row_task *t, int64_t from, int64_t to, float *restrict acc) {
  const int64_t n = t->s->n;
  for (int64_t i = from; i < to; i++) {
    const float x = (float)t->a[i];
    const float *restrict b = t->b + i * n;
    for (int64_t j = 0; j < n; j++) acc[j] += x * b[j];
  }
}

static void add_fused(const row_task *t, int64_t from, int64_t to, float *acc) {
  const int64_t n = t->s->n;
  for (int64_t i = from; i < to; i++) {
    for (int64_t j = 0; j < n; j++) acc[j] = fmaf((float)t->a[i], t->b[i * n + j], acc[j]);
  }
}

static void add_pairwise(const row_task *t, int64_t from, int64_t to, float *restrict acc) {
  const int64_t n = t->s->n;
  if (to - from == 1) {
    for (int64_t j = 0; j < n; j++) acc[j] = (float)t->a[from] * t->b[from * n + j];
    return;
  }
  const int64_t half = INT64_C(1) << (levels(to - from) - 1);
  add_pairwise(t, from, from + half, acc);
  add_pairwise(t, from + half, to, acc + n);
  for (int64_t j = 0; j < n; j++) acc[j] += acc[n + j];
}

static double power(int e) { /* 2^e, normal */
  const uint64_t bits = (uint64_t)(e + 1023) << 52;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Exponent of a value of a format whose smallest normal number has exponent emin; far below everything for 0. */
static int exponent(double x, int emin) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int e = (int)(bits >> 52 & 0x7ff) - 1023;
  return x == 0.0 ? -500 : e < emin ? emin : e;
}

static double truncated(double x, int fraction) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits &= ~((UINT64_C(1) << (52 - fraction)) - 1);
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The accumulator of column j after `count` more products from `from` on. emin: of the inputs. */
static float tensor_step(const rdt_sim *s, const double *a, int64_t from, int count, int64_t j, int emin, float acc) {
  double p[32];
  int top = exponent((double)acc, -126);
  for (int i = 0; i < count; i++) {
    const double x = a[from + i], y = s->b[(from + i) * s->n + j];
    const int e = exponent(x, emin) + exponent(y, emin);
    p[i] = x * y;
    top = e > top ? e : top;
  }
  if (top < -400) return acc;
  const double scale = power(s->c->f - top);
  int64_t sum = (int64_t)((double)acc * scale);
  for (int i = 0; i < count; i++) sum += (int64_t)(p[i] * scale);
  return (float)truncated((double)sum / scale, s->c->fo);
}

static int input_exponent(const rdt_sim *s) {
  return ilogb(rdt_dtype_info(s->c->in)->min_normal);
}

static void add_tensor(const row_task *t, float *acc) {
  const rdt_sim *s = t->s;
  const int emin = input_exponent(s), kb = s->c->kb;
  for (int64_t from = 0; from < s->k; from += kb) {
    const int count = (int)(s->k - from < kb ? s->k - from : kb);
    for (int64_t j = 0; j < s->n; j++) acc[j] = tensor_step(s, t->a, from, count, j, emin, acc[j]);
    keep(t, from, from + count, acc);
  }
}

static void row_f64(const rdt_sim *s, int64_t row, double *acc) {
  memset(acc, 0, (size_t)s->n * sizeof *acc);
  for (int64_t q = 1, i = 0; q <= RDT_SIM_CHECKPOINTS; q++) {
    for (; i < s->k * q / RDT_SIM_CHECKPOINTS; i++) {
      const double x = s->a[row * s->k + i];
      for (int64_t j = 0; j < s->n; j++) acc[j] += x * s->b[i * s->n + j];
    }
    if (s->s) memcpy(&s->s[(q * s->m + row) * s->n], acc, (size_t)s->n * sizeof *acc);
  }
}

static void row_f32(const row_task *t, float *acc) {
  const rdt_sim *s = t->s;
  const int64_t n = s->n, k = s->k;
  memset(acc, 0, (size_t)n * sizeof *acc);
  if (s->c->order == RDT_SIM_PAIRWISE) {
    add_pairwise(t, 0, k, acc);
  } else if (s->c->order == RDT_SIM_TENSOR) {
    add_tensor(t, acc);
  } else if (s->c->order == RDT_SIM_BLOCKED) {
    for (int64_t from = 0; from < k; from += RDT_SIM_BLOCK) {
      memset(acc + n, 0, (size_t)n * sizeof *acc);
      add_products(t, from, from + RDT_SIM_BLOCK < k ? from + RDT_SIM_BLOCK : k, acc + n);
      for (int64_t j = 0; j < n; j++) acc[j] += acc[n + j];
    }
  } else {
    for (int64_t q = 0; q < RDT_SIM_CHECKPOINTS; q++) {
      const int64_t from = k * q / RDT_SIM_CHECKPOINTS, to = k * (q + 1) / RDT_SIM_CHECKPOINTS;
      (s->c->order == RDT_SIM_FMA ? add_fused : add_products)(t, from, to, acc);
      keep(t, from, to, acc);
    }
  }
}

bool rdt_sim_multiply(rdt_sim *s) {
  const size_t n = (size_t)s->n, count = (size_t)s->k * n;
  float *b = rdt_alloc(count, sizeof *b), *acc = rdt_alloc((size_t)(levels(s->k) + 2) * n, sizeof *acc);
  double *wide = rdt_alloc(n, sizeof *wide);
  const bool ready = b && acc && wide;
  if (ready) {
    for (size_t i = 0; i < count; i++) b[i] = (float)s->b[i];
    for (int64_t row = 0; row < s->m; row++) {
      if (s->c->in == RDT_F64) {
        row_f64(s, row, wide);
      } else {
        const row_task t = {s, s->a + row * s->k, b, row};
        row_f32(&t, acc);
        for (size_t j = 0; j < n; j++) wide[j] = rdt_sim_round(s->c->out, (double)acc[j]);
      }
      memcpy(s->out + row * s->n, wide, n * sizeof *wide);
    }
  }
  rdt_free(b);
  rdt_free(acc);
  rdt_free(wide);
  return ready;
}

int64_t rdt_sim_steps(const rdt_sim *s) {
  return s->c->order == RDT_SIM_TENSOR ? (s->k + s->c->kb - 1) / s->c->kb : s->k;
}

/* One step of one element; an accumulator that is no number any more stays so. */
static double step_of(const rdt_sim *s, const double *a, int64_t step, int64_t column, int emin, double acc) {
  const double x = a[step], y = s->b[step * s->n + column];
  if (s->c->in == RDT_F64) return acc + x * y;
  if (s->c->order == RDT_SIM_FMA) return (double)fmaf((float)x, (float)y, (float)acc);
  if (s->c->order != RDT_SIM_TENSOR) return (double)((float)acc + (float)x * (float)y);
  const int64_t from = step * s->c->kb, left = s->k - from;
  if (!isfinite(acc)) return acc;
  return (double)tensor_step(s, a, from, (int)(left < s->c->kb ? left : s->c->kb), column, emin, (float)acc);
}

double rdt_sim_again(const rdt_sim *s, int64_t row, int64_t column, const rdt_sim_hit *hits, int n) {
  const double *a = s->a + row * s->k;
  const rdt_dtype type = s->c->in == RDT_F64 ? RDT_F64 : RDT_F32;
  const int64_t steps = rdt_sim_steps(s);
  const int emin = input_exponent(s);
  double acc = 0.0;
  for (int64_t step = 0; step < steps; step++) {
    acc = step_of(s, a, step, column, emin, acc);
    for (int i = 0; i < n; i++)
      if (hits[i].step == step) acc = rdt_sim_flip(type, acc, hits[i].bit);
  }
  return rdt_sim_round(s->c->out, acc);
}

/* --- checks --- */

bool rdt_sim_side_init(rdt_sim_side *x, int64_t k) {
  *x = (rdt_sim_side){.sum = rdt_alloc(3 * (size_t)k, sizeof(double))};
  x->abs = x->sum ? x->sum + k : NULL;
  x->sq = x->sum ? x->sum + 2 * k : NULL;
  return x->sum != NULL;
}

void rdt_sim_side_clear(rdt_sim_side *x) {
  rdt_free(x->sum);
  *x = (rdt_sim_side){.sum = NULL};
}

static void side_add(rdt_sim_side *x, const rdt_accumulator *acc, int64_t t, double value, double sign) {
  const double size = rdt_tilde(acc, value);
  x->sum[t] += sign * value;
  x->abs[t] += size;
  x->sq[t] += size * size;
}

static double side_sign(const rdt_sim_side *x, const double *signs_of, int64_t i) {
  return x->to - x->from == 1 ? 1.0 : signs_of[i];
}

void rdt_sim_side_a(const rdt_sim *s, rdt_sim_side *x, int64_t from, int64_t to) {
  const rdt_accumulator acc = rdt_sim_tolerance(s->c, s->k, 6.0).acc;
  x->from = from;
  x->to = to;
  memset(x->sum, 0, 3 * (size_t)s->k * sizeof *x->sum);
  for (int64_t i = from; i < to; i++) {
    const double sign = side_sign(x, s->v, i);
    for (int64_t t = 0; t < s->k; t++) side_add(x, &acc, t, s->a[i * s->k + t], sign);
  }
}

void rdt_sim_side_b(const rdt_sim *s, rdt_sim_side *x, int64_t from, int64_t to) {
  const rdt_accumulator acc = rdt_sim_tolerance(s->c, s->k, 6.0).acc;
  x->from = from;
  x->to = to;
  memset(x->sum, 0, 3 * (size_t)s->k * sizeof *x->sum);
  for (int64_t t = 0; t < s->k; t++) {
    for (int64_t j = from; j < to; j++) side_add(x, &acc, t, s->b[t * s->n + j], side_sign(x, s->w, j));
  }
  for (int64_t t = 0; t < s->k && s->c->check32; t++) x->sum[t] = (double)(float)x->sum[t];
}

static void check_points(const rdt_sim *s, const rdt_sim_side *r, const rdt_sim_side *c, rdt_sim_check *x) {
  double norm2[RDT_SIM_CHECKPOINTS + 1] = {0.0}, cross[RDT_SIM_CHECKPOINTS] = {0.0}, bar = 0.0;
  for (int q = 0; q <= RDT_SIM_CHECKPOINTS; q++) {
    for (int64_t i = r->from; i < r->to; i++) {
      for (int64_t j = c->from; j < c->to; j++) {
        const double now = s->s[(q * s->m + i) * s->n + j];
        norm2[q] += now * now;
        if (q < RDT_SIM_CHECKPOINTS) {
          const double next = s->s[((q + 1) * s->m + i) * s->n + j];
          cross[q] += now * next;
          x->sum_abs_s += fabs(now);
          bar += side_sign(r, s->v, i) * side_sign(c, s->w, j) * (now + next) / 2.0;
        }
      }
    }
  }
  x->terms.m2 = rdt_checkpoint_m2(norm2, cross, RDT_SIM_CHECKPOINTS);
  x->terms.sbar = bar / RDT_SIM_CHECKPOINTS;
}

rdt_sim_check rdt_sim_check_of(const rdt_sim *s, const rdt_sim_side *rows, const rdt_sim_side *columns) {
  rdt_sim_check x = {.terms = {.n = (rows->to - rows->from) * (columns->to - columns->from), .m2 = NAN, .sbar = NAN}};
  rdt_terms *m = &x.terms;
  float narrow = 0.0F;
  for (int64_t i = rows->from; i < rows->to; i++) {
    for (int64_t j = columns->from; j < columns->to; j++) {
      const double c = s->out[i * s->n + j], signed_c = side_sign(rows, s->v, i) * side_sign(columns, s->w, j) * c;
      x.observed += signed_c;
      narrow += (float)signed_c;
      m->abs_c += fabs(c);
      m->c2 += c * c;
    }
  }
  if (s->c->check32) x.observed = (double)narrow;
  m->s = x.observed;
  narrow = 0.0F;
  for (int64_t t = 0; t < s->k; t++) {
    const double p = rows->sum[t] * columns->sum[t];
    m->dot += p;
    narrow += (float)rows->sum[t] * (float)columns->sum[t];
    m->ag += rows->abs[t] * columns->abs[t];
    m->q += rows->sq[t] * columns->sq[t];
    m->a_beta += fabs(p);
    m->q_beta += p * p;
  }
  if (s->c->check32) m->dot = (double)narrow;
  x.expected = m->dot;
  if (s->s) check_points(s, rows, columns, &x);
  return x;
}

/* --- rates --- */

double rdt_sim_stated(double lambda) {
  return erfc(lambda / sqrt(2.0));
}

static void spread_add(double *spread, int64_t count, double residual, double sigma) {
  const double z = sigma > 0.0 ? residual / sigma : 0.0;
  *spread = sqrt((*spread * *spread * (double)count + z * z) / (double)(count + 1));
}

static void rate_add(rdt_sim_rate *rate, const rdt_sim *s, const rdt_sim_check *x, const double *lambda) {
  const double residual = fabs(x->observed - x->expected);
  rdt_terms no_points = x->terms;
  no_points.m2 = NAN;
  for (int l = 0; l < RDT_SIM_LAMBDAS; l++) {
    const rdt_tolerance t = rdt_sim_tolerance(s->c, s->k, lambda[l]);
    const rdt_bound two = rdt_bound_of(&t, &no_points), three = rdt_bound_of(&t, &x->terms);
    const rdt_outcome outcome = rdt_compare(x->observed, x->expected, two);
    if (outcome == RDT_CANNOT) {
      rate->cannot++;
      return;
    }
    rate->t2[l] += outcome != RDT_PASS;
    rate->t3[l] += rdt_compare(x->observed, x->expected, three) != RDT_PASS;
    if (l > 0) continue;
    const int64_t segment = s->k / RDT_SIM_CHECKPOINTS + 1 + s->c->kb;
    rate->r0 += outcome == RDT_CERTAIN;
    rate->r2 += s->s && !(residual <= rdt_bound_r2(&t, &x->terms, segment, x->sum_abs_s));
    if (two.tau0 > 0.0) rate->worst = fmax(rate->worst, residual / two.tau0);
    spread_add(&rate->spread2, rate->checks, residual, two.tau2 / lambda[l]);
    spread_add(&rate->spread3, rate->checks, residual, three.tau2 / lambda[l]);
  }
  rate->checks++;
}

bool rdt_sim_rates(const rdt_sim_case *c, rdt_family f, int64_t k, int64_t n, int64_t checks,
                   const double lambda[RDT_SIM_LAMBDAS], uint64_t seed, rdt_sim_asking asking, rdt_sim_rate *rate) {
  enum { ROWS = 64, REUSE = 8 };
  const int64_t rows = checks < ROWS ? checks : ROWS;
  rdt_rng r = {.state = seed};
  rdt_sim s;
  rdt_sim_side row, columns;
  if (!rdt_sim_init(&s, c, rows, n, k, true)) return false;
  bool good = rdt_sim_side_init(&row, k);
  good = rdt_sim_side_init(&columns, k) && good;
  for (int64_t done = 0, batch = 0; good && done < checks; batch++) {
    if (batch % REUSE == 0) rdt_sim_fill_a(&s, f, &r);
    rdt_sim_fill_b(&s, f, &r);
    good = rdt_sim_multiply(&s) && (!asking.fn || asking.fn(asking.user, (double)done / (double)checks));
    rdt_sim_side_b(&s, &columns, 0, n);
    for (int64_t i = 0; good && i < rows && done < checks; i++, done++) {
      rdt_sim_side_a(&s, &row, i, i + 1);
      const rdt_sim_check x = rdt_sim_check_of(&s, &row, &columns);
      rate_add(rate, &s, &x, lambda);
    }
  }
  rdt_sim_side_clear(&row);
  rdt_sim_side_clear(&columns);
  rdt_sim_clear(&s);
  return good;
}
