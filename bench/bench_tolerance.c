#include "bench_tolerance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_table.h"
#include "output.h"
#include "plan/timing.h"
#include "tolerance_sim.h"

enum { MAX_LENGTHS = 32, MAX_CASES = 64, ROWS = 16 };

typedef struct options {
  bool chosen[MAX_CASES]; /* by index of the table of cases */
  bool all_cases;
  rdt_family family; /* RDT_FAMILY_COUNT: default */
  int64_t k[MAX_LENGTHS], outputs, trials;
  int lengths;
  double lambda;
  uint64_t seed;
} options;

typedef struct job {
  options o;
  const rdt_bench_tolerance_job *asked;
  rdt_bench_out out;
  int64_t false_reports;
  int table; /* where it is: case `at` of so many of this table */
  int at, of;
  const char *name;
  bool stopped;
} job;

/* --- options --- */

static bool integer(const char *text, int64_t least, int64_t most, int64_t *x) {
  char *end;
  const long long v = strtoll(text, &end, 10);
  *x = v;
  return end != text && *end == '\0' && v >= least && v <= most;
}

/* Calls take for each word of a comma-separated list. */
static bool each(const char *list, options *o, bool (*take)(options *o, const char *word)) {
  char word[64];
  while (*list) {
    const size_t n = strcspn(list, ",");
    if (n == 0 || n >= sizeof word) return false;
    memcpy(word, list, n);
    word[n] = '\0';
    if (!take(o, word)) return false;
    list += n + (list[n] == ',');
  }
  return true;
}

static bool take_case(options *o, const char *word) {
  const rdt_sim_case *c = rdt_sim_find(word);
  int n;
  if (c) o->chosen[c - rdt_sim_table(&n)] = true;
  o->all_cases = false;
  return c != NULL;
}

static bool take_dtype(options *o, const char *word) {
  int n, found = 0;
  const rdt_sim_case *c = rdt_sim_table(&n);
  for (int i = 0; i < n; i++) {
    if (strcmp(rdt_dtype_name(c[i].in), word) != 0) continue;
    o->chosen[i] = true;
    found++;
  }
  o->all_cases = false;
  return found > 0;
}

static bool take_length(options *o, const char *word) {
  return o->lengths < MAX_LENGTHS && integer(word, 1, 1 << 20, &o->k[o->lengths]) && ++o->lengths;
}

static rdt_status take(options *o, const rdt_bench_tolerance_job *asked, rdt_reason *why) {
  *o = (options){.all_cases = true,
                 .family = asked->family ? rdt_family_find(asked->family) : RDT_FAMILY_COUNT,
                 .outputs = asked->outputs,
                 .trials = asked->trials,
                 .lambda = asked->lambda,
                 .seed = asked->seed};
  if (asked->family && o->family == RDT_FAMILY_COUNT)
    return rdt_fail(why, RDT_ERR_ARG, "there is no family '%s' of data", asked->family);
  if (asked->cases && !each(asked->cases, o, take_case))
    return rdt_fail(why, RDT_ERR_ARG, "--case takes names of the first column of the floors, not '%s'", asked->cases);
  if (asked->dtypes && !each(asked->dtypes, o, take_dtype))
    return rdt_fail(why, RDT_ERR_ARG, "--dtype takes f64, f32, bf16, f16 and lists of them, not '%s'", asked->dtypes);
  if (!each(asked->lengths ? asked->lengths : "64,1024,4096", o, take_length) || o->lengths == 0)
    return rdt_fail(why, RDT_ERR_ARG, "--k takes up to %d lengths from 1 to %d as in 64,1024, not '%s'", MAX_LENGTHS,
                    1 << 20, asked->lengths);
  return RDT_OK;
}

enum { FLOORS, GRANULARITY, FLIPS, RATES, TABLES }; /* RDT_BENCH_TOLERANCE_TABLES */

static bool wanted(const job *j, int table) {
  return !j->asked->tables || (j->asked->tables >> table & 1);
}

/* part: of this case. false: it is to stop. */
static bool go_on(job *j, double part) {
  int before = 0, all = 0;
  for (int i = 0; i < TABLES; i++) {
    all += wanted(j, i);
    before += i < j->table && wanted(j, i);
  }
  const double done = (before + (j->at + part) / j->of) / all;
  j->stopped = j->stopped || (j->asked->progress && !j->asked->progress(done, j->name));
  return !j->stopped;
}

/* --- tables; every function returns false where memory is short, or it is to stop --- */

typedef struct setup {
  rdt_sim s;
  rdt_sim_side rows, columns;
  rdt_rng r;
  double rms;
} setup;

static void setup_clear(setup *x) {
  rdt_sim_side_clear(&x->rows);
  rdt_sim_side_clear(&x->columns);
  rdt_sim_clear(&x->s);
}

static bool setup_make(setup *x, const options *o, const rdt_sim_case *c, int64_t m, int64_t n, int64_t k,
                       bool points) {
  *x = (setup){.r = {.state = o->seed}};
  const rdt_family f = o->family == RDT_FAMILY_COUNT ? RDT_FAMILY_NORMAL : o->family;
  bool good = rdt_sim_init(&x->s, c, m, n, k, points);
  good = good && rdt_sim_side_init(&x->rows, k) && rdt_sim_side_init(&x->columns, k);
  if (good) {
    rdt_sim_fill_a(&x->s, f, &x->r);
    rdt_sim_fill_b(&x->s, f, &x->r);
    good = rdt_sim_multiply(&x->s);
  }
  for (int64_t i = 0; good && i < m * n; i++) x->rms += x->s.out[i] * x->s.out[i] / (double)(m * n);
  x->rms = sqrt(x->rms);
  if (!good) setup_clear(x);
  return good;
}

static double finite_or_nan(double x) {
  return isfinite(x) ? x : NAN;
}

static bool floors_row(job *j, const rdt_sim_case *c, int64_t k) {
  setup x;
  const int64_t n = j->o.outputs > 0 ? j->o.outputs : 128;
  if (!setup_make(&x, &j->o, c, ROWS, n, k, true)) return false;
  const rdt_tolerance t = rdt_sim_tolerance(c, k, j->o.lambda);
  double sum[4] = {0.0};
  rdt_sim_side_b(&x.s, &x.columns, 0, n);
  for (int64_t i = 0; i < ROWS; i++) {
    rdt_sim_side_a(&x.s, &x.rows, i, i + 1);
    const rdt_sim_check check = rdt_sim_check_of(&x.s, &x.rows, &x.columns);
    rdt_terms no_points = check.terms;
    no_points.m2 = NAN;
    const rdt_bound two = rdt_bound_of(&t, &no_points);
    sum[0] += 2.0 * two.tau0;
    sum[1] += x.s.s ? 2.0 * rdt_bound_r2(&t, &check.terms, k / RDT_SIM_CHECKPOINTS + 1 + c->kb, check.sum_abs_s) : NAN;
    sum[2] += rdt_floor_of(two);
    sum[3] += x.s.s ? rdt_floor_of(rdt_bound_of(&t, &check.terms)) : NAN;
  }
  rdt_bench_text(&j->out, c->name);
  rdt_bench_text(&j->out, c->text);
  rdt_bench_integer(&j->out, (long long)k);
  for (int i = 0; i < 4; i++) rdt_bench_number(&j->out, finite_or_nan(sum[i] / ROWS / x.rms), 2);
  setup_clear(&x);
  return true;
}

static bool granularity_rows(job *j, const rdt_sim_case *c) {
  enum { SIZE = 512, TILE = 128, K = 1024 };
  static const struct {
    const char *name;
    int64_t rows, columns;
  } AREAS[] = {{"row", 1, SIZE}, {"column", SIZE, 1}, {"128 x 128 tile", TILE, TILE}, {"whole product", SIZE, SIZE}};
  setup x;
  if (!setup_make(&x, &j->o, c, SIZE, SIZE, K, false)) return false;
  const rdt_tolerance t = rdt_sim_tolerance(c, K, j->o.lambda);
  for (int a = 0; a < 4; a++) {
    rdt_sim_side_a(&x.s, &x.rows, 0, AREAS[a].rows);
    rdt_sim_side_b(&x.s, &x.columns, 0, AREAS[a].columns);
    const rdt_sim_check check = rdt_sim_check_of(&x.s, &x.rows, &x.columns);
    const rdt_bound bound = rdt_bound_of(&t, &check.terms);
    rdt_bench_text(&j->out, c->name);
    rdt_bench_text(&j->out, AREAS[a].name);
    rdt_bench_number(&j->out, finite_or_nan(2.0 * bound.tau0 / x.rms), 2);
    rdt_bench_number(&j->out, finite_or_nan(rdt_floor_of(bound) / x.rms), 2);
  }
  setup_clear(&x);
  return true;
}

/* What a bound says of one check: T2, R0, and the constant that a published system uses. */
enum { DECIDERS = 3, SIZES = 4 };
static const char *const DECIDER[DECIDERS] = {"T2", "R0", "constant 0.48"};
static const double EFFECT[SIZES] = {-1.0, 0.01, 0.1, 1.0};

static void decide(const rdt_tolerance *t, const rdt_sim_check *x, bool cries[DECIDERS]) {
  const rdt_bound b = rdt_bound_of(t, &x->terms);
  const rdt_outcome o = rdt_compare(x->observed, x->expected, b);
  cries[0] = o != RDT_PASS;
  cries[1] = o == RDT_CERTAIN || o == RDT_CANNOT;
  cries[2] = !(fabs(x->observed - x->expected) <= 0.48);
}

static bool flips_rows(job *j, const rdt_sim_case *c, int which) {
  enum { AGAIN = 64 }; /* trials between two looks */
  const int64_t k = j->o.k[which];
  setup x;
  const int64_t n = j->o.outputs > 0 ? j->o.outputs : 128;
  if (!setup_make(&x, &j->o, c, ROWS, n, k, false)) return false;
  const rdt_tolerance t = rdt_sim_tolerance(c, k, j->o.lambda);
  const uint64_t bits = 8 * (uint64_t)rdt_dtype_size(c->out);
  int64_t found[DECIDERS][SIZES] = {{0}}, tried[SIZES] = {0}, clean[DECIDERS] = {0};
  bool cries[DECIDERS];
  rdt_sim_side_b(&x.s, &x.columns, 0, n);
  for (int64_t trial = 0; trial < j->o.trials && !j->stopped; trial++) {
    if (trial % AGAIN == 0) go_on(j, (which + (double)trial / (double)j->o.trials) / j->o.lengths);
    const int64_t row = trial % ROWS;
    rdt_sim_side_a(&x.s, &x.rows, row, row + 1);
    const rdt_sim_check good = rdt_sim_check_of(&x.s, &x.rows, &x.columns);
    decide(&t, &good, cries);
    for (int d = 0; d < DECIDERS; d++) clean[d] += cries[d];
    double *hit = &x.s.out[row * n + (int64_t)(rdt_rng_next(&x.r) % (uint64_t)n)];
    const double was = *hit;
    *hit = rdt_sim_flip(c->out, was, (int)(rdt_rng_next(&x.r) % bits));
    const rdt_sim_check bad = rdt_sim_check_of(&x.s, &x.rows, &x.columns);
    decide(&t, &bad, cries);
    const double effect = fabs(*hit - was) / x.rms;
    *hit = was;
    for (int e = 0; e < SIZES; e++) {
      if (effect <= EFFECT[e]) continue; /* NaN counts as large */
      tried[e]++;
      for (int d = 0; d < DECIDERS; d++) found[d][e] += cries[d];
    }
  }
  for (int d = 0; d < DECIDERS && !j->stopped; d++) {
    rdt_bench_text(&j->out, c->name);
    rdt_bench_integer(&j->out, (long long)k);
    rdt_bench_text(&j->out, DECIDER[d]);
    for (int e = 0; e < SIZES; e++) {
      rdt_bench_number(&j->out, tried[e] > 0 ? 100.0 * (double)found[d][e] / (double)tried[e] : NAN, 4);
    }
    rdt_bench_number(&j->out, 100.0 * (double)clean[d] / (double)j->o.trials, 3);
  }
  setup_clear(&x);
  return !j->stopped;
}

/* 95 % upper bound of a Poisson mean where n were seen (Wilson and Hilferty). */
static double poisson_upper(int64_t n) {
  const double x = (double)n + 1.0;
  return x * pow(1.0 - 1.0 / (9.0 * x) + 1.645 / (3.0 * sqrt(x)), 3.0);
}

/* Where a row of rates is: the units are lengths. */
typedef struct place {
  job *j;
  int done, all;
} place;

static bool rates_go_on(void *user, double part) {
  const place *at = user;
  return go_on(at->j, (at->done + part) / at->all);
}

static bool rates_row(job *j, const rdt_sim_case *c, rdt_family f) {
  const bool one = j->o.family != RDT_FAMILY_COUNT;
  const double lambda[RDT_SIM_LAMBDAS] = {3.0, 4.0, j->o.lambda};
  const int64_t n = j->o.outputs > 0 ? j->o.outputs : 16;
  rdt_sim_rate r = {.checks = 0};
  for (int i = 0; i < j->o.lengths; i++) {
    place at = {j, (one ? 0 : (int)f) * j->o.lengths + i, (one ? 1 : RDT_FAMILY_COUNT) * j->o.lengths};
    const rdt_sim_asking asking = {rates_go_on, &at};
    if (!rdt_sim_rates(c, f, j->o.k[i], n, j->o.trials, lambda, j->o.seed + (uint64_t)i, asking, &r)) return false;
  }
  const double checks = r.checks > 0 ? (double)r.checks : NAN;
  rdt_bench_text(&j->out, c->name);
  rdt_bench_text(&j->out, rdt_family_name(f));
  rdt_bench_integer(&j->out, (long long)r.checks);
  rdt_bench_number(&j->out, (double)r.t2[0] / checks / rdt_sim_stated(3.0), 2);
  rdt_bench_number(&j->out, (double)r.t2[1] / checks / rdt_sim_stated(4.0), 2);
  rdt_bench_integer(&j->out, (long long)r.t2[2]);
  rdt_bench_number(&j->out, poisson_upper(r.t2[2]) / checks, 2);
  rdt_bench_number(&j->out, (double)r.t3[0] / checks / rdt_sim_stated(3.0), 2);
  rdt_bench_integer(&j->out, (long long)r.t3[2]);
  rdt_bench_number(&j->out, r.worst, 2);
  rdt_bench_integer(&j->out, (long long)(r.r0 + r.r2));
  j->false_reports += r.r0 + r.r2;
  return true;
}

static bool cases_do(job *j, int table, bool some_by_default, bool (*row)(job *j, const rdt_sim_case *c)) {
  int n, list[MAX_CASES];
  const rdt_sim_case *c = rdt_sim_table(&n);
  j->table = table;
  j->of = 0;
  for (int i = 0; i < n; i++) {
    const bool usual = !some_by_default || strcmp(c[i].name, "f32") == 0 || strcmp(c[i].name, "f16-hopper") == 0;
    if (j->o.all_cases ? usual : j->o.chosen[i]) list[j->of++] = i;
  }
  for (j->at = 0; j->at < j->of; j->at++) {
    j->name = c[list[j->at]].name;
    if (!go_on(j, 0.0) || !row(j, &c[list[j->at]])) return false;
  }
  return true;
}

static bool floors_case(job *j, const rdt_sim_case *c) {
  bool good = true;
  for (int i = 0; good && i < j->o.lengths; i++)
    good = go_on(j, (double)i / j->o.lengths) && floors_row(j, c, j->o.k[i]);
  return good;
}

static bool flips_case(job *j, const rdt_sim_case *c) {
  bool good = true;
  for (int i = 0; good && i < j->o.lengths; i++) good = flips_rows(j, c, i);
  return good;
}

static bool rates_case(job *j, const rdt_sim_case *c) {
  bool good = true;
  for (int f = 0; good && f < RDT_FAMILY_COUNT; f++) {
    if (j->o.family == RDT_FAMILY_COUNT || (int)j->o.family == f) good = rates_row(j, c, (rdt_family)f);
  }
  return good;
}

#define COLUMNS(x) x, (int)(sizeof(x) / sizeof(x)[0])

static bool tables(job *j) {
  static const char *const floors[] = {"case|case", "text|arithmetic", "k|K", "r0|R0", "r2|R2", "t2|T2", "t3|T3"};
  static const char *const granularity[] = {"case|case", "check|check", "r0|R0", "t2|T2"};
  static const char *const flips[] = {"case|case",          "k|K",
                                      "bound|bound",        "found_all|of all, %",
                                      "found_001|> .01, %", "found_01|> .1, %",
                                      "found_1|> 1, %",     "clean_cries|clean checks that cry, %"};
  static const char *const rates[] = {"case|case",
                                      "family|family",
                                      "checks|checks",
                                      "t2_3|T2 at 3, of stated",
                                      "t2_4|T2 at 4, of stated",
                                      "t2_suspects|T2 at L, suspects",
                                      "t2_upper|T2 at L, rate below (95 %)",
                                      "t3_3|T3 at 3, of stated",
                                      "t3_suspects|T3 at L, suspects",
                                      "worst|largest residual / R0",
                                      "reports|false reports"};
  rdt_bench_out *o = &j->out;
  if (wanted(j, FLOORS)) {
    rdt_bench_table(o, "floors", "Detection floor of a row check in units of rms(C)", COLUMNS(floors));
    if (!cases_do(j, FLOORS, false, floors_case)) return false;
  }
  if (wanted(j, GRANULARITY)) {
    rdt_bench_table(o, "granularity", "Detection floor by what one check covers, 512 x 512, K = 1024",
                    COLUMNS(granularity));
    if (!cases_do(j, GRANULARITY, true, granularity_rows)) return false;
  }
  if (wanted(j, FLIPS)) {
    rdt_bench_table(o, "flips",
                    "Random single bit flips in the output: share found, of all and of those with a larger effect in "
                    "units of rms(C)",
                    COLUMNS(flips));
    if (!cases_do(j, FLIPS, false, flips_case)) return false;
  }
  if (wanted(j, RATES)) {
    rdt_bench_table(o, "rates", "Checks without a fault that cry; L = --lambda", COLUMNS(rates));
    if (!cases_do(j, RATES, false, rates_case)) return false;
  }
  return true;
}

rdt_status rdt_bench_tolerance(const rdt_bench_tolerance_job *asked, int64_t *reports, rdt_reason *why) {
  job j = {.asked = asked};
  RDT_TRY(take(&j.o, asked, why));
  rdt_bench_file file;
  RDT_TRY(rdt_bench_file_open(&file, NULL, why));
  rdt_bench_begin(&j.out, file.f, asked->format, "tolerance", 1, asked->head);
  const bool good = tables(&j), whole = rdt_bench_end(&j.out);
  if (asked->progress && !asked->progress(1.0, "")) j.stopped = true; /* what follows is finished */
  const int code = rdt_bench_file_close(&file, "bench tolerance",
                                        j.stopped       ? RDT_TIMING_STOPPED
                                        : good && whole ? 0
                                                        : 2);
  if (code == RDT_TIMING_STOPPED) return RDT_ERR_CANCELLED;
  if (code != 0) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory: smaller --k, --outputs");
  *reports = j.false_reports;
  return RDT_OK;
}
