/* Products simulated in every order and precision that the bounds speak of, and the checks made on them. Tensor cores
 * are emulated as published: products of a step and the accumulator are aligned to the largest exponent, truncated at f
 * fraction bits, added exactly, and the sum is truncated to fo fraction bits. */
#ifndef RDT_BENCH_TOLERANCE_SIM_H
#define RDT_BENCH_TOLERANCE_SIM_H

#include "campaign/families.h"
#include "check/tolerance.h"

typedef enum rdt_sim_order {
  RDT_SIM_SEQUENTIAL,
  RDT_SIM_FMA,
  RDT_SIM_BLOCKED, /* blocks of RDT_SIM_BLOCK, then the blocks' sums */
  RDT_SIM_PAIRWISE,
  RDT_SIM_TENSOR
} rdt_sim_order;
#define RDT_SIM_BLOCK 64
#define RDT_SIM_CHECKPOINTS 8

typedef struct rdt_sim_case {
  const char *name, *text;
  rdt_dtype in, out; /* the accumulator is f64 for f64, f32 otherwise */
  rdt_sim_order order;
  int kb, f, fo;
  bool check32; /* the check itself is computed in f32 */
} rdt_sim_case;

const rdt_sim_case *rdt_sim_table(int *n);
const rdt_sim_case *rdt_sim_find(const char *name); /* NULL if unknown */

/* The tolerance of checks of this case: check in double unless check32. */
rdt_tolerance rdt_sim_tolerance(const rdt_sim_case *c, int64_t k, double lambda);

double rdt_sim_round(rdt_dtype t, double x);
double rdt_sim_flip(rdt_dtype t, double x, int bit); /* one bit of x as it lies in memory (little-endian) */

typedef struct rdt_sim {
  const rdt_sim_case *c;
  int64_t m, n, k;
  double *a, *b; /* inputs, exact values of c->in */
  double *out;   /* m x n, exact values of c->out */
  double *s; /* (RDT_SIM_CHECKPOINTS + 1) x m x n accumulators, the first 0; NULL where not asked for or impossible */
  double *v, *w; /* balanced signs of rows and columns */
} rdt_sim;

bool rdt_sim_init(rdt_sim *s, const rdt_sim_case *c, int64_t m, int64_t n, int64_t k, bool checkpoints);
void rdt_sim_clear(rdt_sim *s);
void rdt_sim_fill_a(rdt_sim *s, rdt_family f, rdt_rng *r); /* and v */
void rdt_sim_fill_b(rdt_sim *s, rdt_family f, rdt_rng *r); /* and w */
bool rdt_sim_multiply(rdt_sim *s);

/* A bit of an accumulator that flips when a step is done: a product, or kb of them on a tensor core. */
typedef struct rdt_sim_hit {
  int64_t step;
  int bit;
} rdt_sim_hit;
int64_t rdt_sim_steps(const rdt_sim *s);
/* One element of the product once more, with such hits: not for blocks and pairs. */
double rdt_sim_again(const rdt_sim *s, int64_t row, int64_t column, const rdt_sim_hit *hits, int n);

/* One operand of a check, reduced over some of its rows (A) or columns (B): per t the signed sum, the sum of magnitudes
 * and of squares. One row or column goes with sign 1. */
typedef struct rdt_sim_side {
  int64_t from, to;
  double *sum, *abs, *sq;
} rdt_sim_side;
bool rdt_sim_side_init(rdt_sim_side *x, int64_t k);
void rdt_sim_side_clear(rdt_sim_side *x);
void rdt_sim_side_a(const rdt_sim *s, rdt_sim_side *x, int64_t from, int64_t to);
void rdt_sim_side_b(const rdt_sim *s, rdt_sim_side *x, int64_t from, int64_t to);

typedef struct rdt_sim_check {
  rdt_terms terms; /* m2 and sbar where the simulation has checkpoints */
  double observed, expected;
  double sum_abs_s; /* R2 */
} rdt_sim_check;
/* Rows x columns of the two sides: a row, a column, a tile, or all. */
rdt_sim_check rdt_sim_check_of(const rdt_sim *s, const rdt_sim_side *rows, const rdt_sim_side *columns);

/* How often row checks of n outputs cry. */
#define RDT_SIM_LAMBDAS 3
typedef struct rdt_sim_rate {
  int64_t checks, cannot;                           /* cannot: outputs overflowed, no verdict; not among checks */
  int64_t t2[RDT_SIM_LAMBDAS], t3[RDT_SIM_LAMBDAS]; /* above the bound, by lambda */
  int64_t r0, r2;                                   /* reports that would be false */
  double worst;                                     /* largest |residual| / tau0 */
  double spread2, spread3;                          /* rms of residual / (tau / lambda); T2, T3 */
} rdt_sim_rate;
/* Asked now and then with the part that is done; false: it is to stop. */
typedef struct rdt_sim_asking {
  bool (*fn)(void *user, double part); /* NULL: nobody asks */
  void *user;
} rdt_sim_asking;
/* Adds to *rate. false: out of memory, or stopped. */
bool rdt_sim_rates(const rdt_sim_case *c, rdt_family f, int64_t k, int64_t n, int64_t checks,
                   const double lambda[RDT_SIM_LAMBDAS], uint64_t seed, rdt_sim_asking asking, rdt_sim_rate *rate);
double rdt_sim_stated(double lambda); /* two-sided Gaussian tail */

#endif
