/* Every bound in the project: docs/tolerance.md derives them, this file only evaluates them.
 *
 * What happens where a field of rdt_terms is NAN, whether it was not measured or a fault destroyed it: each quantity is
 * replaced by, and never allowed above, what follows from the others by the triangle and Cauchy-Schwarz inequalities.
 * With N outputs and reductions of length k:
 *   ag     <= sqrt(N k q)                     q       <= ag^2
 *   abs_c  <= (1 + gamma) ag, sqrt(N c2)      c2      <= (1 + gamma)^2 k q, (1 + gamma)^2 ag^2, abs_c^2
 *   |s|    <= abs_c                           |dot|   <= a_beta
 *   a_beta <= ag                              q_beta  <= a_beta^2, N q
 *   m2     <= (1 + gamma)^2 k q               |sbar|  <= sqrt(N m2)
 * ag and q come from the inputs alone. That is why a fault in the outputs cannot widen its own bound without limit, and
 * why inputs that are not finite leave no bound (RDT_CANNOT): then both are NaN or Inf. */
#include "check/tolerance.h"

#include <float.h>
#include <math.h>

/* Second-order terms, and the roundings made in measuring the magnitudes themselves in double. */
#define SLACK 0x1p-10
/* Mean square rounding error of round to nearest in units of (u x)^2. Log-uniform mantissas give 0.18; partial sums
 * that grow linearly (data of one sign) reach 0.202 where they end just above a power of two. */
#define NEAREST_MS 0.202
/* Standard deviations that rounding does not reach in practice: 2e-9 of all checks of Gaussian errors. */
#define LAMBDA 6.0
/* The checksum vectors are formed in double unless said otherwise. */
#define U_DOUBLE 0x1p-53
/* Partial results of split reductions are added in round to nearest f32 on every tensor core. */
#define U_F32 0x1p-24
/* Operands opposite to flushed ones that R0 allows for: flushing costs at most min_normal 2^26 a product. */
#define FLUSH_RANGE 0x1p26

static const double INF = INFINITY, THIRD = 0x1.5555555555556p-2; /* above 1/3 */

/* The number where the other is NaN. Inline: checks of small outputs are many. */
static inline double least(double a, double b) {
  return a < b || isnan(b) ? a : b;
}

static double square(double x) {
  return x * x;
}

/* n roundings in a chain, each by a factor within 1 +- u: x / (1 - x), for small x a bound of it without a division. */
static double chain(double u, double n) {
  const double x = n * u;
  return x < 0.25 ? x + 4.0 * THIRD * x * x : x < 1.0 ? x / (1.0 - x) : INF;
}

/* Nothing stays nothing, whatever it is multiplied by. */
static double times(double factor, double x) {
  return x > 0.0 ? factor * x : 0.0;
}

static double or_count(int64_t depth, int64_t count) {
  return (double)(depth > 0 && depth < count ? depth : count);
}

static double steps(const rdt_accumulator *a, int64_t k) {
  return ceil((double)k / a->kb);
}

static double u_form(const rdt_tolerance *t) {
  return t->u_form > 0.0 ? t->u_form : U_DOUBLE;
}

static bool is_exact(const rdt_accumulator *a) {
  return a->rounding == RDT_ROUND_NEAREST && a->u == 0.0;
}

rdt_accumulator rdt_accumulator_of(rdt_dtype in, rdt_dtype acc) {
  const rdt_dtype_row *row = rdt_dtype_info(acc);
  const bool integer = rdt_dtype_info(in) && !rdt_dtype_is_float(in);
  return (rdt_accumulator){.rounding = RDT_ROUND_NEAREST, .u = row && !integer ? row->u : 0.0};
}

double rdt_tilde(const rdt_accumulator *a, double x) {
  const double m = fabs(x);
  return m > 0.0 && m < a->flush ? a->flush : m;
}

double rdt_gamma(const rdt_accumulator *a, int64_t k) {
  if (k <= 0 || is_exact(a)) return 0.0;
  if (a->rounding == RDT_ROUND_NEAREST) return chain(a->u, or_count(a->depth, k));
  if (a->kb <= 0) return INF;
  const double aligned = a->kb * ldexp(1.0, -a->f);
  const double eps = aligned + ldexp(1.0, -a->fo) * (1.0 + aligned);
  return expm1(steps(a, k) * log1p(eps));
}

static double unit(const rdt_accumulator *a) {
  return a->rounding == RDT_ROUND_NEAREST ? a->u : U_F32;
}

/* gamma with the additions of split-K. In round to nearest without a known depth any tree over k terms is within k. */
static double gamma_total(const rdt_tolerance *t, int64_t k) {
  const double g = rdt_gamma(&t->acc, k);
  const bool free_order = t->acc.rounding == RDT_ROUND_NEAREST && t->acc.depth <= 0;
  if (t->splits <= 0 || free_order) return g;
  const double s = chain(unit(&t->acc), t->splits);
  return g + s + g * s;
}

static bool is_double(const rdt_accumulator *a) {
  return unit(a) < 0x1p-40;
}

/* Largest finite number of a binary format whose smallest normal number is min_normal: emin + emax = 1 in IEEE. */
static double largest(double u, double min_normal) {
  return 4.0 / min_normal * (1.0 - u);
}

/* Squares of doubles vanish below 1e-154: nothing follows from them then. */
static bool squares_vanished(const rdt_tolerance *t, double q) {
  return is_double(&t->acc) && q < 0x1p-960;
}

/* Terms after fall-backs and caps. */
typedef struct capped {
  double n, abs_c, c2, s, ag, q, dot, a_beta, q_beta, m2, sbar;
  double gamma; /* of the whole accumulation */
  double size;  /* no output can exceed it unless the arithmetic failed */
} capped;

static capped cap(const rdt_tolerance *t, const rdt_terms *m) {
  const double n = (double)m->n, k = (double)t->k;
  capped c = {.n = n, .gamma = gamma_total(t, t->k)};
  c.q = least(m->q, square(m->ag));
  c.ag = isnan(m->ag) ? sqrt(n * k * c.q) : m->ag;
  const double grow = (1.0 + c.gamma) * (1.0 + t->u_out) * (1.0 + SLACK), denormal = n * t->eta_out;
  c.size = grow * least(c.ag, sqrt(k * c.q));
  const double c2_inputs = least(square(grow) * k * c.q, square(grow * c.ag)) + square(t->eta_out) * n;
  c.abs_c = least(m->abs_c, grow * c.ag + denormal);
  if (isnan(m->abs_c) && !squares_vanished(t, c.q)) c.abs_c = least(c.abs_c, sqrt(n * least(m->c2, c2_inputs)));
  c.c2 = least(least(m->c2, c2_inputs), square(c.abs_c));
  c.s = isnan(m->s) ? c.abs_c : least(fabs(m->s), c.abs_c);
  c.a_beta = least(m->a_beta, (1.0 + SLACK) * c.ag);
  c.dot = isnan(m->dot) ? c.a_beta : least(fabs(m->dot), c.a_beta);
  c.q_beta = least(m->q_beta, least(square(c.a_beta), (1.0 + SLACK) * n * c.q));
  c.m2 = c.sbar = NAN;
  if (m->m2 > 0.0 || (t->segments > 0 && m->m2 == 0.0)) {
    c.m2 = least(m->m2, square(grow) * k * c.q);
    c.sbar = least(fabs(m->sbar), sqrt(n * c.m2));
  }
  return c;
}

/* Inf or NaN among the outputs proves a fault only where correct outputs cannot overflow. */
static bool may_overflow(const rdt_tolerance *t, const rdt_terms *m, const capped *c) {
  if (isfinite(m->abs_c) || isfinite(m->s)) return false;
  double limit = is_double(&t->acc) ? DBL_MAX : (double)FLT_MAX;
  if (t->u_out > 0.0 && t->eta_out > 0.0) limit = least(limit, largest(t->u_out, t->eta_out / (2.0 * t->u_out)));
  return !(c->size < limit);
}

/* Products and sums below the normal range: absolute errors that no relative bound covers. */
static double underflow(const rdt_tolerance *t, const capped *c) {
  return c->n * (double)t->k * (is_double(&t->acc) ? DBL_MIN : (double)FLT_MIN);
}

/* R0 and R2: accumulation is the error of the accumulators, the rest comes from output, check and checksum vector. */
static double rigorous(const rdt_tolerance *t, const rdt_terms *m, const capped *c, double accumulation) {
  const double sum = chain(t->u_check, or_count(t->depth_sum, m->n));
  const double dot = chain(t->u_check, or_count(t->depth_dot, t->k));
  const double form = chain(u_form(t), or_count(t->depth_beta, m->n));
  const double worst = sum > dot ? sum : dot; /* the magnitudes were measured in the precision of the check */
  const double blur = worst <= 0.5 ? 1.0 + 2.0 * worst : INF;
  const double rest = (t->u_out + sum) * c->abs_c + c->n * t->eta_out + (dot + t->u_beta) * c->a_beta + form * c->ag;
  const double tau = (1.0 + SLACK) * blur * (accumulation + rest) + FLUSH_RANGE * underflow(t, c);
  return isnan(tau) ? INF : tau;
}

/* Variance, in units of u^2, of the roundings in adding count terms whose total and sum of squares are known (t2: total
 * squared). In sequence the partial sums are a bridge from 0 to the total; the last two terms are the discrete end of
 * the sum and the roundings of the products. A bridge has a mean square of 1/6 of the squares; a few terms that
 * dominate every output carry it to 1/4, and a single one (outputs = 1) goes up to 1 in one case of four hundred. In a
 * tree of known depth each level adds at most total^2/3 + squares. */
static double walk(double count, int64_t depth, double t2, double squares, double outputs) {
  const double bridge = 0.25 + 0.75 / outputs;
  const double sequence = count * (t2 * THIRD + squares * bridge) + t2 / 2.0 + squares;
  if (depth <= 0 || (double)depth >= count) return NEAREST_MS * sequence;
  return NEAREST_MS * least(sequence, (double)depth * (t2 * THIRD + squares));
}

/* Mean square, in units of the squares, of what lies between checkpoints. */
static double tied(const rdt_tolerance *t, double outputs) {
  return t->segments > 0 ? (0.25 + 0.75 / outputs) / (double)t->segments : 1.0 / 48.0;
}

static double nearest_variance(const rdt_tolerance *t, const capped *c) {
  const double k = (double)t->k, u2 = square(t->acc.u);
  if (isnan(c->m2)) return u2 * walk(k, t->acc.depth, c->c2, c->q, c->n);
  return u2 * NEAREST_MS * (k * (c->m2 + c->q * tied(t, c->n)) + c->c2 / 2.0 + c->q);
}

/* Tensor cores truncate: the errors of one output all point towards zero, so they grow like the number of steps. */
static double truncate_variance(const rdt_tolerance *t, const capped *c, double *bias) {
  const rdt_accumulator *a = &t->acc;
  const double T = steps(a, t->k), u_o = ldexp(1.0, -a->fo - 1), spread = ldexp(1.0, a->fo - a->f);
  const double c1 = 0.72 * (1.0 + a->kb * square(spread)), alpha = 0.36 * a->kb * spread;
  const double theta = c->ag > 0.0 ? least(1.0, c->abs_c / c->ag) : 0.0;
  if (isnan(c->m2)) {
    *bias = 0.36 * u_o * T * c->s;
    return square(u_o) * (c1 * T * (c->c2 * THIRD + c->q / 6.0) +
                          square(T) * (0.043 * c->q + 0.02 * c->c2 + square(alpha * theta) * c->c2));
  }
  *bias = 0.72 * u_o * T * c->sbar;
  return square(u_o) * (c1 * T * (c->m2 + c->q / 48.0) + square(T) * (0.52 / 768.0 * c->q + 0.08 * c->m2) +
                        square(2.0 * alpha * theta * T) * c->m2);
}

/* What the roundings of output, check and checksum vector add. */
static double check_variance(const rdt_tolerance *t, const rdt_terms *m, const capped *c) {
  const double split = square(unit(&t->acc)) * NEAREST_MS * t->splits * (c->c2 + c->q);
  const double out = square(t->u_out) * c->c2 * THIRD + c->n * square(t->eta_out) / 12.0;
  const double sums = walk((double)t->k, t->depth_dot, square(c->dot), c->q_beta, 1.0) +
                      walk((double)m->n, t->depth_sum, square(c->s), c->c2, 1.0);
  const double form = square(u_form(t)) * NEAREST_MS * or_count(t->depth_beta, m->n) * (c->q_beta + c->q);
  return split + out + square(t->u_check) * sums + square(t->u_beta) * c->q_beta * THIRD + form;
}

rdt_bound rdt_bound_of(const rdt_tolerance *t, const rdt_terms *m) {
  if (is_exact(&t->acc) || m->n <= 0 || t->k <= 0) return (rdt_bound){0.0, 0.0};
  const capped c = cap(t, m);
  const bool baseless = isnan(m->ag) && squares_vanished(t, c.q) && m->dot != 0.0;
  if (baseless || may_overflow(t, m, &c)) return (rdt_bound){INF, INF};
  const double tau0 = rigorous(t, m, &c, c.gamma * c.ag);
  double bias = 0.0;
  double v = t->acc.rounding == RDT_ROUND_NEAREST ? nearest_variance(t, &c) : truncate_variance(t, &c, &bias);
  v += check_variance(t, m, &c);
  const double tau2 = bias + t->lambda * sqrt(v) + underflow(t, &c);
  return (rdt_bound){.tau0 = tau0, .tau2 = least(tau0, tau2)};
}

/* walk as factors of t2 and of the squares. It is the lesser of two: either is a bound of it. */
static void walk_factors(double count, int64_t depth, double outputs, double *t2, double *squares) {
  const double bridge = 0.25 + 0.75 / outputs;
  *t2 = NEAREST_MS * (count * THIRD + 0.5);
  *squares = NEAREST_MS * (count * bridge + 1.0);
  const double level = NEAREST_MS * (double)depth;
  if (depth <= 0 || (double)depth >= count || level * (1.0 + THIRD) > *t2 + *squares) return;
  *t2 = level * THIRD;
  *squares = level;
}

/* tau2 = lambda sqrt(v) + w is squared as (1 + SLACK) lambda^2 v + (1 + 1 / SLACK) w^2, which is never less. */
rdt_squared rdt_squared_of(const rdt_tolerance *t, int64_t n) {
  rdt_squared b = {0};
  if (is_exact(&t->acc) || n <= 0 || t->k <= 0) return b;
  if (t->acc.rounding != RDT_ROUND_NEAREST) return (rdt_squared){.rest = INF}; /* tensor cores: no such form */
  const double grow = (1.0 + SLACK) * square(t->lambda);
  const double N = (double)n, k = (double)t->k, u2 = square(t->acc.u), check2 = square(t->u_check);
  const double split = u2 * NEAREST_MS * t->splits;
  const double form = square(u_form(t)) * NEAREST_MS * or_count(t->depth_beta, n);
  double total, squares;
  walk_factors(k, t->acc.depth, N, &total, &squares);
  if (t->segments > 0) {
    total = NEAREST_MS * 0.5;
    squares = NEAREST_MS * (k * tied(t, N) + 1.0);
    b.m2 = grow * u2 * NEAREST_MS * k;
  }
  b.c2 = u2 * total + split + square(t->u_out) * THIRD;
  b.q = u2 * squares + split + form;
  walk_factors(k, t->depth_dot, 1.0, &total, &squares);
  b.dot2 = check2 * total;
  b.q_beta = check2 * squares + square(t->u_beta) * THIRD + form;
  walk_factors(N, t->depth_sum, 1.0, &total, &squares);
  b.s2 = check2 * total;
  b.c2 += check2 * squares;
  b.q *= grow, b.c2 *= grow, b.s2 *= grow, b.dot2 *= grow, b.q_beta *= grow;
  b.most = square((1.0 + SLACK) * (1.0 + gamma_total(t, t->k)) * (1.0 + t->u_out)) * k;
  const capped one = {.n = N};
  b.rest = grow * N * square(t->eta_out) / 12.0 + (1.0 + 1.0 / SLACK) * square(underflow(t, &one));
  return b;
}

/* Squares overflow where the sums that the first bound is made of do not. */
double rdt_squared_at(const rdt_squared *b, const rdt_terms *m) {
  const double q = isfinite(m->q) ? m->q : least(m->q, square(m->ag));
  if (!isfinite(q)) return q;
  const double q_beta = isfinite(m->q_beta) ? m->q_beta : (1.0 + SLACK) * (double)m->n * q;
  const double m2 = b->m2 > 0.0 ? b->m2 * least(m->m2, b->most * q) : 0.0;
  return m2 + b->q * q + b->c2 * least(m->c2, b->most * q) + b->s2 * square(m->s) + b->dot2 * square(m->dot) +
         b->q_beta * q_beta + b->rest;
}

rdt_accumulator rdt_accumulator_mma(int major, int minor, rdt_dtype in) {
  (void)minor;
  const bool hopper = major == 9, ampere = major == 8;
  if (rdt_dtype_is_f8(in)) /* 13 bits, as Ada and Hopper keep them; sums may be promoted, how often nobody says */
    return (rdt_accumulator){.rounding = RDT_ROUND_TRUNCATE,
                             .u = U_F32,
                             .kb = 32,
                             .f = 13,
                             .fo = 13,
                             .flush = rdt_dtype_info(in)->min_normal};
  return (rdt_accumulator){.rounding = RDT_ROUND_TRUNCATE,
                           .u = U_F32,
                           .kb = in == RDT_F32 ? (hopper ? 8 : 4)
                                 : hopper      ? 16
                                 : ampere      ? 8
                                               : 4,
                           .f = hopper   ? 25
                                : ampere ? 24
                                         : 23,
                           .fo = 23,
                           .flush = rdt_dtype_info(in)->min_normal};
}

/* theta compares sums of |C| with ag; the ag that a kernel can have is an over-estimate by up to some factor of two for
 * random data, more where magnitudes are mixed. */
#define THETA_SAFE 4.0
/* Sums of columns with signs: Q_beta is q for columns without anything in common, and this much for most others. */
#define COLUMNS_ALIKE 2.0

/* gamma of a chain of so many products, whatever the depth of the others is. */
static double gamma_chained(const rdt_tolerance *t, double count) {
  rdt_tolerance chained = *t;
  chained.acc.depth = (int64_t)count;
  return gamma_total(&chained, (int64_t)count);
}

/* A part has what the ones before it leave: u of the sum, then u of that; each is rounded, up by u at most. Parts of 8
 * bits and of f16 are stored 1 / u times as large as that. */
void rdt_tolerance_parts(rdt_tolerance *t, rdt_dtype in, double scale) {
  const bool f8 = rdt_dtype_is_f8(in), kept = f8 || in == RDT_F16;
  const int count = f8 ? 6 : in == RDT_F16 ? 2 : 3;
  const double u = in == RDT_F32 ? 0x1p-11 : rdt_dtype_info(in)->u, least = rdt_dtype_info(in)->min_normal;
  double part = 1.0, all = 1.0;
  for (int i = 1; i < count; i++) all += part *= u;
  t->parts = (1.0 + u) * all - 1.0;
  t->u_beta = part * u;
  t->lost = (count - 1) * U_F32; /* they are added */
  t->eta_out = least * u * (kept ? part : 1.0) / scale;
  t->raised = least * (kept ? all : (double)count) / scale;
}

rdt_device_bound rdt_device_bound_of(const rdt_tolerance *t, int64_t n) {
  const rdt_accumulator *a = &t->acc;
  const bool nearest = a->rounding == RDT_ROUND_NEAREST;
  const double N = (double)n, k = (double)t->k, chained = or_count(a->depth, t->k), u = unit(a), u2 = square(u);
  const double expected = t->depth_dot > 0 ? (double)t->depth_dot : chained; /* products in the chain of one output */
  const double gamma = gamma_chained(t, chained), gamma_e = gamma_chained(t, expected);
  const double sums = NEAREST_MS * (or_count(t->depth_sum, n) + (double)t->depth_more), split = NEAREST_MS * t->splits;
  const double grow = square((1.0 + gamma) * (1.0 + SLACK)), raised = t->eta_out + times(gamma_e, t->raised);
  if (is_exact(a)) return (rdt_device_bound){0};
  rdt_device_bound b = {.cap = (float)(grow * k),
                        .s_cap = (float)N,
                        .e_cap = (float)(N * k),
                        .a2 = (float)(square(t->eta_out) * THIRD),
                        .lambda = (float)t->lambda,
                        .a0 = (float)((1.0 + SLACK) * raised * sqrt(k)),
                        .a2_floor = (float)(k * fmax(square(a->flush), FLT_MIN))};
  /* Both sides are accumulated; one of them has a single output with the squares of all columns. */
  double q = u2 * split * 2.0 + square(t->u_beta) * COLUMNS_ALIKE * THIRD, c2 = u2 * split, e2 = u2 * split;
  if (nearest) {
    double total, squares;
    walk_factors(k, (int64_t)chained, N, &total, &squares);
    c2 += u2 * total, q += u2 * squares;
    walk_factors(expected > k ? expected : k, (int64_t)expected, 1.0, &total, &squares);
    e2 += u2 * total, q += u2 * squares * COLUMNS_ALIKE;
  } else {
    const double T = steps(a, (int64_t)chained), E = steps(a, (int64_t)expected), u_o = ldexp(1.0, -a->fo - 1);
    const double spread = ldexp(1.0, a->fo - a->f), c1 = 0.72 * (1.0 + a->kb * square(spread)), o2 = square(u_o);
    const double alpha = 0.36 * a->kb * spread;
    q += o2 * (c1 * T / 6.0 + 0.043 * T * T) + o2 * (c1 * E / 6.0 + 0.043 * E * E) * COLUMNS_ALIKE;
    c2 += o2 * (c1 * T * THIRD + 0.02 * T * T);
    e2 += o2 * (c1 * E * THIRD + 0.02 * E * E);
    b.theta = (float)(THETA_SAFE / k);
    b.drift = (float)(o2 * square(alpha * E));
    b.line = (float)(0.36 * u_o * E);
  }
  c2 += u2 * sums * (1.0 + THIRD);
  const double observed = gamma + chain(u, or_count(t->depth_sum, n)) * (1.0 + gamma);
  const double other = gamma_e * (1.0 + t->parts) + times(1.0 + gamma_e, chain(u, (double)t->depth_more));
  /* |a|^2 comes from such an accumulator as well, and may be too small by gamma */
  const double rigorous0 = (1.0 + SLACK) * (1.0 + gamma) * (observed + other + t->u_beta + t->lost) * sqrt(N * k);
  b.c2 = (float)c2, b.q = (float)q, b.e2 = (float)e2, b.q0 = (float)rigorous0;
  b.surely = (float)((1.0 - SLACK) * square(least(rigorous0, t->lambda * sqrt(q))));
  return b;
}

/* The same reasoning as rdt_bound_of, with ag <= sqrt(N k q), abs_c <= (1 + gamma) ag, q_beta <= q: the factors of s
 * and e are those of the check's own roundings, in double. */
rdt_box_bound rdt_box_bound_of(const rdt_tolerance *t, int64_t n, bool added) {
  const rdt_accumulator *a = &t->acc;
  const bool nearest = a->rounding == RDT_ROUND_NEAREST;
  const double N = (double)n, k = (double)t->k, gamma = gamma_total(t, t->k), u2 = square(unit(a));
  const double grow = (1.0 + gamma) * (1.0 + t->u_out) * (1.0 + SLACK), check2 = square(t->u_check);
  const double split = u2 * NEAREST_MS * t->splits;
  const double form = square(u_form(t)) * NEAREST_MS * or_count(t->depth_beta, n);
  const double dot = chain(t->u_check, or_count(t->depth_dot, t->k)),
               sum = chain(t->u_check, or_count(t->depth_sum, n));
  const capped one = {.n = N};
  const double tiny = underflow(t, &one);
  double total, squares;
  rdt_box_bound b = {.cap = square(grow) * k, .lambda = t->lambda};
  if (is_exact(a)) return (rdt_box_bound){0};
  if (nearest) {
    walk_factors(k, a->depth, N, &total, &squares);
    b.c2 = u2 * total;
    b.q = u2 * squares;
  } else {
    const double T = steps(a, t->k), o2 = square(ldexp(1.0, -a->fo - 1)), spread = ldexp(1.0, a->fo - a->f);
    const double c1 = 0.72 * (1.0 + a->kb * square(spread)), alpha = 0.36 * a->kb * spread;
    b.c2 = o2 * (c1 * T * THIRD + 0.02 * T * T);
    b.q = o2 * (c1 * T / 6.0 + 0.043 * T * T);
    b.theta = THETA_SAFE / k;
    b.drift = o2 * square(alpha * T);
    b.line = 0.36 * ldexp(1.0, -a->fo - 1) * T;
  }
  b.c2 += split + square(t->u_out) * THIRD;
  b.q += split + 2.0 * form + square(t->u_beta) * THIRD;
  walk_factors(k, t->depth_dot, 1.0, &total, &squares);
  b.e2 = check2 * total;
  b.q += check2 * squares;
  walk_factors(N, t->depth_sum, 1.0, &total, &squares);
  b.s2 = check2 * total;
  b.c2 += check2 * squares;
  b.rest = N * square(t->eta_out) / 12.0;
  const double form0 = chain(u_form(t), or_count(t->depth_beta, n)), worst = sum > dot ? sum : dot;
  const double blur = (1.0 + SLACK) * (1.0 + 2.0 * worst);
  b.q0 = blur * (gamma + (t->u_out + sum) * grow + (dot + t->u_beta + form0) * (1.0 + SLACK)) * sqrt(N * k);
  const double statistical = t->lambda * sqrt(b.q);
  b.surely = (1.0 - SLACK) * square(least(b.q0, statistical));
  if (added) b.added = blur * t->u_out * sqrt(N);
  b.clearly = (1.0 - SLACK) * least(square(t->lambda) * b.c2, added ? square(b.added) : square(b.q0) / b.cap);
  b.least = blur * N * t->eta_out + FLUSH_RANGE * tiny;
  const double most = is_double(a) ? DBL_MAX : (double)FLT_MAX;
  b.limit = square(t->u_out > 0.0 ? least(most, largest(t->u_out, t->eta_out / (2.0 * t->u_out))) : most);
  return b;
}

/* Inside a segment the partial sum is at most its start plus the segment's products, and each of them is rounded at
 * most kc + 1 times before the next checkpoint. */
double rdt_bound_r2(const rdt_tolerance *t, const rdt_terms *m, int64_t kc, double sum_abs_s) {
  const double tau0 = rdt_bound_of(t, m).tau0;
  if (is_exact(&t->acc) || m->n <= 0 || t->k <= 0 || kc <= 0 || !isfinite(tau0)) return tau0;
  const capped c = cap(t, m);
  const double segment = gamma_total(t, t->acc.rounding == RDT_ROUND_NEAREST ? kc + 1 : kc);
  return least(tau0, rigorous(t, m, &c, segment * (sum_abs_s + c.ag)));
}

double rdt_checkpoint_m2(const double *norm2, const double *cross, int count) {
  double sum = 0.0;
  for (int q = 0; q < count; q++) sum += norm2[q] + cross[q] + norm2[q + 1];
  return count > 0 ? fmax(sum, 0.0) / (3.0 * count) : 0.0;
}

rdt_outcome rdt_compare(double observed, double expected, rdt_bound b) {
  if (!isfinite(b.tau0) || !isfinite(b.tau2)) return RDT_CANNOT;
  const double residual = fabs(observed - expected);
  if (!(residual <= b.tau0)) return RDT_CERTAIN;
  return !(residual <= b.tau2) ? RDT_SUSPECT : RDT_PASS;
}

rdt_outcome rdt_compare_exact(uint32_t observed, uint32_t expected) {
  return observed == expected ? RDT_PASS : RDT_CERTAIN;
}

double rdt_floor_of(rdt_bound b) {
  return isfinite(b.tau2) ? 2.0 * b.tau2 : INF;
}

double rdt_bound_apart(rdt_bound b, double lambda) {
  return lambda < LAMBDA ? least(b.tau0, b.tau2 * (LAMBDA / lambda)) : b.tau2;
}

rdt_bound rdt_bound_rebuilt(const rdt_tolerance *t, const rdt_terms *m, rdt_dtype acc, double value) {
  const rdt_dtype_row *row = rdt_dtype_info(acc);
  if (is_exact(&t->acc)) return (rdt_bound){0.0, 0.0};
  const rdt_bound sum = rdt_bound_of(t, m);
  const double stored = row->u * (fabs(value) + row->min_normal);
  return (rdt_bound){.tau0 = (1.0 + SLACK) * (sum.tau0 + stored), .tau2 = (1.0 + SLACK) * (sum.tau2 + stored)};
}

double rdt_bound_element(const rdt_tolerance *t, double abs_dot) {
  if (is_exact(&t->acc) || t->k <= 0) return 0.0;
  const capped one = {.n = 1.0};
  const double gamma = gamma_total(t, t->k);
  const double each = (gamma + t->u_out * (1.0 + gamma)) * abs_dot + t->eta_out;
  return 2.0 * ((1.0 + SLACK) * each + FLUSH_RANGE * underflow(t, &one));
}

bool rdt_conforms(double observed, double expected) {
  if (isnan(expected)) return isnan(observed);
  if (isinf(expected)) return observed == expected;
  return fabs(observed - expected) <= 1e-7 + 1e-3 * fabs(expected);
}

double rdt_tolerance_operator(rdt_dtype t) {
  return 16.0 * rdt_dtype_info(t)->u;
}

double rdt_tolerance_constant(rdt_dtype t) {
  return 2.0 * rdt_dtype_info(t)->u;
}

double rdt_tolerance_reference(rdt_dtype t) {
  return rdt_dtype_is_float(t) ? fmin(1e3 * rdt_tolerance_network(t), 0.25) : 0.02; /* integers: requantised */
}

double rdt_tolerance_network(rdt_dtype t) {
  switch (t) {
    case RDT_F64:
      return 1e-13;
    case RDT_F32:
      return 1e-5;
    case RDT_F16:
      return 1e-2;
    case RDT_BF16:
      return 5e-2;
    case RDT_F8E4M3:
    case RDT_F8E5M2:
      return 0.25;
    default:
      return 0.0;
  }
}
