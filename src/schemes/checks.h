/* What checks of products have in common: signs that weigh a sum, and the comparison of many sums at once. */
#ifndef RDT_SCHEMES_CHECKS_H
#define RDT_SCHEMES_CHECKS_H

#include "check/findings.h"
#include "cpu/sums.h"

typedef struct rdt_checks { /* of one kind on one matrix: what the passes have summed */
  const rdt_tolerance *t;
  bool exact;       /* integers modulo 2^32, kept in doubles */
  bool square_beta; /* the squares of the expected side cover those with the checksum vector too */
  rdt_check_kind kind;
  int64_t outputs; /* summed in each */
  int64_t place[2];
  int along;             /* which place counts on from check to check; -1: none */
  int64_t period;        /* after so many it starts again; 0: never */
  int64_t wide, unit[2]; /* units: how many side by side, rows and columns of each; 0: no units */
  rdt_pair expected, observed;
  double vanished[2];    /* added to the squares, expected and observed: what of them is below the normal range */
  const double *between; /* T3: squares at the checkpoints between t->segments segments; NULL: T2 */
} rdt_checks;

void rdt_checks_run(const rdt_checks *c, rdt_findings *f, int64_t count);
/* One of them by itself, booked nowhere: its place, residual, bound and outcome. Not of integers. */
rdt_suspect rdt_checks_look(const rdt_checks *c, int64_t i);
static inline uint32_t rdt_checks_modulo(double x) { /* an exact integer */
  return (uint32_t)(int64_t)x;
}
/* As many +1 as -1 in each block, shuffled; the same on every run. */
void rdt_checks_signs(double *w, int64_t n, int64_t block, uint64_t seed);
/* Set number set of several: the signs, times a polynomial of that degree at points of which no two are the same. So
 * any f columns of f sets are linearly independent: f faults in a line that cancel in one set do not in all. */
void rdt_checks_weights(double *w, int64_t n, int64_t block, uint64_t seed, int set);

#endif
