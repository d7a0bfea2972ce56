/* One checksum of a row of S = Q K^T against eight strided ones (end-to-end fault tolerant attention), at a bit error
 * rate: fp16 inputs, f32 accumulators, checksum vectors rounded to fp16 because they are columns of the same product,
 * sums in f32, a constant threshold. A second vector with weights 1, 2, ... tells which element to add the difference
 * to. Beside them a row check with signs and T2; who complains there is computed again. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "published.h"

enum { LENGTH = 64, COLUMNS = 64, ROWS = 64, STRIDE = 8, SCHEMES = 3, HITS = 4096, BITS = 32 };
static const double THRESHOLD = 0.48; /* what the paper found best */
static const double RATES[] = {1e-8, 1e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4};
enum { RATES_COUNT = sizeof RATES / sizeof *RATES };
static const struct {
  const char *name;
  int stride; /* checks of a row; 0: ours */
} SCHEME[SCHEMES] = {{"one checksum", 1}, {"eight strided", STRIDE}, {"row, T2", 0}};

typedef struct hit {
  int64_t column;
  rdt_sim_hit at;
} hit;

typedef struct attention {
  rdt_sim s;
  rdt_sim_side row, columns;
  double *check[2][STRIDE + 1]; /* [weights][stride]: LENGTH x stride, values of fp16 */
  hit hits[HITS];
  int n_hits;
  double clean[COLUMNS], wrong[COLUMNS]; /* a row, and the same with its faults */
  rdt_rng r;
} attention;

typedef struct count {
  int64_t rows, errors;                         /* rows with an error beyond the threshold; such errors */
  int64_t found, located, repaired, made_worse; /* rows */
  double left;                                  /* the largest error in a row about which nobody complained */
} count;

static void clear(attention *x) {
  for (int w = 0; w < 2; w++)
    for (int stride = 1; stride <= STRIDE; stride += STRIDE - 1) rdt_free(x->check[w][stride]);
  rdt_sim_side_clear(&x->row);
  rdt_sim_side_clear(&x->columns);
  rdt_sim_clear(&x->s);
  rdt_free(x);
}

static attention *make(uint64_t seed) {
  attention *x = rdt_calloc(1, sizeof *x);
  if (!x) return NULL;
  x->r.state = seed;
  bool good = rdt_sim_init(&x->s, rdt_sim_find("f16"), ROWS, COLUMNS, LENGTH, false);
  good = rdt_sim_side_init(&x->row, LENGTH) && good;
  good = rdt_sim_side_init(&x->columns, LENGTH) && good;
  for (int w = 0; w < 2; w++)
    for (int stride = 1; stride <= STRIDE; stride += STRIDE - 1) {
      x->check[w][stride] = rdt_alloc(LENGTH * (size_t)stride, sizeof(double));
      good = good && x->check[w][stride];
    }
  if (good) return x;
  clear(x);
  return NULL;
}

/* Another Q and K, with the checksums of K. */
static bool fill(attention *x) {
  rdt_sim_fill_a(&x->s, RDT_FAMILY_NORMAL, &x->r);
  rdt_sim_fill_b(&x->s, RDT_FAMILY_NORMAL, &x->r);
  rdt_sim_side_b(&x->s, &x->columns, 0, COLUMNS);
  for (int w = 0; w < 2; w++)
    for (int stride = 1; stride <= STRIDE; stride += STRIDE - 1)
      for (int64_t t = 0; t < LENGTH; t++)
        for (int j = 0; j < stride; j++) {
          double sum = 0.0;
          for (int l = 0; j + l * stride < COLUMNS; l++) sum += (w ? l + 1 : 1) * x->s.b[t * COLUMNS + j + l * stride];
          x->check[w][stride][t * stride + j] = rdt_sim_round(RDT_F16, sum);
        }
  return rdt_sim_multiply(&x->s);
}

/* At least one flip, as many as a Poisson variable with this mean has where it is not 0. */
static int flips(rdt_rng *r, double mean) {
  double x = rdt_rng_uniform(r) * -expm1(-mean), p = exp(-mean);
  int n = 0;
  do {
    n++;
    p *= mean / n;
    x -= p;
  } while (x >= 0.0 && n < HITS);
  return n;
}

/* A row with its faults; how many of its elements are off by more than the threshold. */
static int strike(attention *x, int64_t row, double mean) {
  int wrong = 0;
  x->n_hits = flips(&x->r, mean);
  for (int i = 0; i < x->n_hits; i++)
    x->hits[i] = (hit){(int64_t)(rdt_rng_next(&x->r) % COLUMNS),
                       {(int64_t)(rdt_rng_next(&x->r) % LENGTH), (int)(rdt_rng_next(&x->r) % BITS)}};
  memcpy(x->clean, x->s.out + row * COLUMNS, sizeof x->clean);
  memcpy(x->wrong, x->clean, sizeof x->wrong);
  for (int64_t j = 0; j < COLUMNS; j++) {
    static rdt_sim_hit own[HITS];
    int n = 0;
    for (int i = 0; i < x->n_hits; i++)
      if (x->hits[i].column == j) own[n++] = x->hits[i].at;
    if (n > 0) x->wrong[j] = rdt_sim_again(&x->s, row, j, own, n);
    wrong += !(fabs(x->wrong[j] - x->clean[j]) <= THRESHOLD);
  }
  return wrong;
}

/* The published way, on a copy of the row: complained, and which elements were added to. */
static bool published(const attention *x, int64_t row, int stride, double fixed[COLUMNS], bool named[COLUMNS]) {
  const double *a = x->s.a + row * LENGTH;
  bool complained = false;
  memcpy(fixed, x->wrong, sizeof x->wrong);
  memset(named, 0, COLUMNS * sizeof *named);
  for (int j = 0; j < stride; j++) {
    float expected[2] = {0.0F, 0.0F}, observed[2] = {0.0F, 0.0F};
    for (int w = 0; w < 2; w++) {
      for (int t = 0; t < LENGTH; t++) expected[w] += (float)a[t] * (float)x->check[w][stride][t * stride + j];
      for (int l = 0; j + l * stride < COLUMNS; l++)
        observed[w] += (float)(w ? l + 1 : 1) * (float)x->wrong[j + l * stride];
    }
    const double off = (double)(expected[0] - observed[0]);
    if (fabs(off) <= THRESHOLD) continue;
    complained = true;
    const double place = round((double)(expected[1] - observed[1]) / off) - 1.0;
    if (!(place >= 0.0 && place < COLUMNS / stride)) continue;
    const int at = j + (int)place * stride;
    named[at] = true;
    fixed[at] = (double)((float)fixed[at] + (float)off);
  }
  return complained;
}

static void judge(const attention *x, count *c, bool found, const double fixed[COLUMNS], const bool named[COLUMNS]) {
  bool located = true, repaired = true, worse = false;
  for (int j = 0; j < COLUMNS; j++) {
    const bool was = !(fabs(x->wrong[j] - x->clean[j]) <= THRESHOLD);
    const bool is = !(fabs(fixed[j] - x->clean[j]) <= THRESHOLD);
    located = located && was == named[j];
    repaired = repaired && !is;
    worse = worse || (is && !was);
  }
  c->found += found;
  c->located += located;
  c->repaired += repaired;
  c->made_worse += worse;
}

static void one_row(rdt_published *p, attention *x, int64_t row, double mean, count counts[SCHEMES]) {
  const int errors = strike(x, row, mean);
  double fixed[COLUMNS];
  bool named[COLUMNS];
  for (int s = 0; s < SCHEMES; s++) {
    bool found;
    if (SCHEME[s].stride) {
      found = published(x, row, SCHEME[s].stride, fixed, named);
    } else {
      memcpy(x->s.out + row * COLUMNS, x->wrong, sizeof x->wrong);
      rdt_sim_side_a(&x->s, &x->row, row, row + 1);
      const rdt_sim_check check = rdt_sim_check_of(&x->s, &x->row, &x->columns);
      memcpy(x->s.out + row * COLUMNS, x->clean, sizeof x->clean);
      const rdt_tolerance t = rdt_sim_tolerance(x->s.c, LENGTH, p->asked->lambda);
      const rdt_bound bound = rdt_bound_of(&t, &check.terms);
      double effect = 0.0;
      for (int j = 0; j < COLUMNS; j++) effect += x->s.w[j] * (x->wrong[j] - x->clean[j]);
      found = rdt_compare(check.observed, check.expected, bound) != RDT_PASS;
      p->missed += !found && fabs(effect) > rdt_floor_of(bound);
      memcpy(fixed, found ? x->clean : x->wrong, sizeof fixed); /* computed again, all of it */
      for (int j = 0; j < COLUMNS; j++) named[j] = found && !(fabs(x->wrong[j] - x->clean[j]) <= THRESHOLD);
    }
    for (int j = 0; j < COLUMNS && !found; j++) counts[s].left = fmax(counts[s].left, fabs(x->wrong[j] - x->clean[j]));
    if (errors == 0) continue;
    counts[s].rows++;
    counts[s].errors += errors;
    judge(x, &counts[s], found, fixed, named);
  }
}

static void put(rdt_published *p, double rate, const char *scheme, int64_t rows, const count *c) {
  rdt_bench_number(&p->out, rate, 3);
  rdt_bench_text(&p->out, scheme);
  rdt_bench_number(&p->out, rate * BITS * LENGTH * COLUMNS, 3);
  rdt_bench_integer(&p->out, (long long)rows);
  rdt_bench_integer(&p->out, (long long)c->rows);
  rdt_bench_number(&p->out, (double)c->errors / (double)c->rows, 3);
  rdt_published_share(p, c->found, c->rows);
  rdt_published_share(p, c->located, c->rows);
  rdt_published_share(p, c->repaired, c->rows);
  rdt_bench_number(&p->out, 100.0 * (double)c->made_worse / (double)c->rows, 3);
  rdt_bench_number(&p->out, c->left, 3);
}

bool rdt_published_strided(rdt_published *p) {
  enum { AGAIN = 256 }; /* rows of one Q and K */
  static const char *const columns[] = {"rate|bit error rate",
                                        "scheme|scheme",
                                        "flips|flips a row, on average",
                                        "hit|rows hit",
                                        "rows|of these with an error > 0.48",
                                        "errors|such errors, of these a row",
                                        "found|found, %",
                                        "found_low|from",
                                        "found_high|to",
                                        "located|all located, %",
                                        "located_low|from",
                                        "located_high|to",
                                        "repaired|repaired, %",
                                        "repaired_low|from",
                                        "repaired_high|to",
                                        "worse|made worse, %",
                                        "left|largest error that nobody found"};
  attention *x = make(p->asked->seed);
  if (!x) return false;
  rdt_bench_table(&p->out, "strided",
                  "One checksum, eight strided ones and a row check with T2: 64 outputs a row, 64 products each, fp16 "
                  "inputs, f32 accumulators, every bit of which flips at a rate",
                  columns, (int)(sizeof columns / sizeof *columns));
  bool good = true;
  for (int i = 0; good && i < RATES_COUNT; i++, p->done++) {
    count counts[SCHEMES] = {{0}};
    for (int64_t trial = 0; good && trial < p->asked->trials; trial++) {
      if (trial % AGAIN == 0)
        good = fill(x) && rdt_published_go_on(p, RATES_COUNT, (double)trial / (double)p->asked->trials);
      if (good) one_row(p, x, trial % ROWS, RATES[i] * BITS * LENGTH * COLUMNS, counts);
    }
    for (int s = 0; good && s < SCHEMES; s++) put(p, RATES[i], SCHEME[s].name, p->asked->trials, &counts[s]);
  }
  clear(x);
  return good;
}
