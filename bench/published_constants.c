/* What constant thresholds of public codes do on data of several families and scales, as points of a ROC: checks
 * without a fault that cry against bit flips that are found. Codes sum with weights of one and in f32; T2 and T3 take
 * signs and doubles, and their bounds from the data. */
#include <math.h>

#include "published.h"

enum { OUTPUTS = 128, LENGTH = 1024, ROWS = 16, DECIDERS = 7, OURS = 2, BITS = 32 };
static const struct {
  const char *name;
  double constant; /* of the first OURS: none */
} DECIDER[DECIDERS] = {{"T2", 0.0},
                       {"T3", 0.0},
                       {"constant 0.01", 0.01},
                       {"constant 0.48", 0.48},
                       {"constant 1", 1.0},
                       {"constant 1000", 1000.0},
                       {"constant 9500", 9500.0}};
static const rdt_family FAMILIES[] = {RDT_FAMILY_NORMAL, RDT_FAMILY_RELU, RDT_FAMILY_HEAVY, RDT_FAMILY_MIXED,
                                      RDT_FAMILY_POSITIVE};
static const double SCALES[] = {0.01, 1.0, 100.0};
static const char *const CASES[] = {"f32", "f16-hopper"};
enum {
  FAMILIES_COUNT = sizeof FAMILIES / sizeof *FAMILIES,
  SCALES_COUNT = sizeof SCALES / sizeof *SCALES,
  CASES_COUNT = sizeof CASES / sizeof *CASES,
  LINES = FAMILIES_COUNT * SCALES_COUNT * CASES_COUNT
};

typedef struct product {
  rdt_sim s;
  rdt_sim_side row, columns;
  rdt_tolerance t;
  rdt_rng r;
  float sums[LENGTH]; /* of B's rows: the checksum vector of weights of one */
  double rms;
} product;

static bool fill(product *x, rdt_family family, double scale) {
  rdt_sim *s = &x->s;
  rdt_sim_fill_a(s, family, &x->r);
  rdt_sim_fill_b(s, family, &x->r);
  for (int64_t i = 0; i < ROWS * LENGTH; i++) s->a[i] = rdt_sim_round(s->c->in, scale * s->a[i]);
  rdt_sim_side_b(s, &x->columns, 0, OUTPUTS);
  for (int64_t t = 0; t < LENGTH; t++) {
    x->sums[t] = 0.0F;
    for (int64_t j = 0; j < OUTPUTS; j++) x->sums[t] += (float)s->b[t * OUTPUTS + j];
  }
  if (!rdt_sim_multiply(s)) return false;
  double squares = 0.0;
  for (int64_t i = 0; i < ROWS * OUTPUTS; i++) squares += s->out[i] * s->out[i];
  x->rms = sqrt(squares / (ROWS * OUTPUTS));
  return true;
}

/* Who cries; above: by how much a fault of this weighted effect exceeds the floor of T2. */
static void decide(const product *x, int64_t row, bool cries[DECIDERS], double *floor, bool *certain) {
  rdt_sim_check check = rdt_sim_check_of(&x->s, &x->row, &x->columns);
  const rdt_bound three = rdt_bound_of(&x->t, &check.terms);
  check.terms.m2 = NAN;
  const rdt_bound two = rdt_bound_of(&x->t, &check.terms);
  const rdt_outcome outcome = rdt_compare(check.observed, check.expected, two);
  cries[0] = outcome != RDT_PASS;
  cries[1] = rdt_compare(check.observed, check.expected, three) != RDT_PASS;
  *floor = rdt_floor_of(two);
  *certain = outcome == RDT_CERTAIN;
  float observed = 0.0F, expected = 0.0F;
  for (int64_t j = 0; j < OUTPUTS; j++) observed += (float)x->s.out[row * OUTPUTS + j];
  for (int64_t t = 0; t < LENGTH; t++) expected += (float)x->s.a[row * LENGTH + t] * x->sums[t];
  for (int d = OURS; d < DECIDERS; d++) cries[d] = !(fabs((double)observed - (double)expected) <= DECIDER[d].constant);
}

typedef struct count {
  int64_t clean, flips, large; /* checks without a fault; flips, those that change more than a hundredth of rms(C) */
  int64_t cries[DECIDERS], found[DECIDERS], found_large[DECIDERS];
} count;

static void one_flip(rdt_published *p, product *x, int64_t row, bool first, count *c) {
  bool cries[DECIDERS], certain;
  double floor;
  rdt_sim_side_a(&x->s, &x->row, row, row + 1);
  if (first) { /* each row counts once without a fault */
    decide(x, row, cries, &floor, &certain);
    c->clean++;
    p->missed += certain;
    for (int d = 0; d < DECIDERS; d++) c->cries[d] += cries[d];
  }
  const int64_t at = (int64_t)(rdt_rng_next(&x->r) % OUTPUTS);
  double *hit = &x->s.out[row * OUTPUTS + at];
  const double was = *hit;
  *hit = rdt_sim_flip(RDT_F32, was, (int)(rdt_rng_next(&x->r) % BITS));
  decide(x, row, cries, &floor, &certain);
  const double effect = fabs(*hit - was);
  const bool large = !(effect <= 0.01 * x->rms);
  *hit = was;
  p->missed += !cries[0] && !(effect <= floor);
  c->flips++;
  c->large += large;
  for (int d = 0; d < DECIDERS; d++) {
    c->found[d] += cries[d];
    c->found_large[d] += cries[d] && large;
  }
}

static bool measure(rdt_published *p, product *x, rdt_family family, double scale, count *c) {
  enum { AGAIN = 4 * ROWS }; /* flips of one product */
  for (int64_t trial = 0; trial < p->asked->trials; trial++) {
    if (trial % AGAIN == 0 &&
        (!fill(x, family, scale) || !rdt_published_go_on(p, LINES, (double)trial / (double)p->asked->trials)))
      return false;
    one_flip(p, x, trial % ROWS, trial % AGAIN < ROWS, c);
  }
  return true;
}

static bool one_case(rdt_published *p, const char *name) {
  product x = {.r = {.state = p->asked->seed}};
  bool good = rdt_sim_init(&x.s, rdt_sim_find(name), ROWS, OUTPUTS, LENGTH, true);
  good = rdt_sim_side_init(&x.row, LENGTH) && good;
  good = rdt_sim_side_init(&x.columns, LENGTH) && good;
  if (good) x.t = rdt_sim_tolerance(x.s.c, LENGTH, p->asked->lambda);
  for (int f = 0; good && f < FAMILIES_COUNT; f++)
    for (int i = 0; good && i < SCALES_COUNT; i++, p->done++) {
      count c = {.clean = 0};
      good = measure(p, &x, FAMILIES[f], SCALES[i], &c);
      for (int d = 0; good && d < DECIDERS; d++) {
        rdt_bench_text(&p->out, name);
        rdt_bench_text(&p->out, rdt_family_name(FAMILIES[f]));
        rdt_bench_number(&p->out, SCALES[i], 3);
        rdt_bench_text(&p->out, DECIDER[d].name);
        rdt_bench_integer(&p->out, (long long)c.clean);
        rdt_published_share(p, c.cries[d], c.clean);
        rdt_bench_integer(&p->out, (long long)c.flips);
        rdt_published_share(p, c.found[d], c.flips);
        rdt_bench_integer(&p->out, (long long)c.large);
        rdt_published_share(p, c.found_large[d], c.large);
      }
    }
  rdt_sim_side_clear(&x.row);
  rdt_sim_side_clear(&x.columns);
  rdt_sim_clear(&x.s);
  return good;
}

bool rdt_published_constants(rdt_published *p) {
  static const char *const columns[] = {"case|case",
                                        "family|family",
                                        "scale|scale of A",
                                        "decider|decider",
                                        "clean|checks without a fault",
                                        "cries|that cry, %",
                                        "cries_low|from",
                                        "cries_high|to",
                                        "flips|flips",
                                        "found|found, %",
                                        "found_low|from",
                                        "found_high|to",
                                        "large|flips > 0.01 rms(C)",
                                        "found_large|found, %",
                                        "found_large_low|from",
                                        "found_large_high|to"};
  rdt_bench_table(&p->out, "constants",
                  "Constant thresholds and our bounds: row checks of 128 outputs, K = 1024, single bit flips of f32 "
                  "outputs",
                  columns, (int)(sizeof columns / sizeof *columns));
  bool good = true;
  for (int i = 0; good && i < CASES_COUNT; i++) good = one_case(p, CASES[i]);
  return good;
}
