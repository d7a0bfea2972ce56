/* Families of data on which bounds are tried: what networks hold, and what breaks assumptions. */
#ifndef RDT_CAMPAIGN_FAMILIES_H
#define RDT_CAMPAIGN_FAMILIES_H

#include <stdint.h>

/* X(id, name, claimed, text). claimed: the statistical bound states its rate for this family; on the others it may be
 * missed (suspects cost a recompute, nothing more). */
#define RDT_FAMILY_TABLE(X)                                                                                         \
  X(NORMAL, "normal", 1, "A and B normal")                                                                          \
  X(RELU, "relu", 1, "A normal, negative values set to 0; B normal")                                                \
  X(HEAVY, "heavy", 1, "A and B Student t with 3 degrees of freedom: rare values far out")                          \
  X(MIXED, "mixed", 1, "normal, every element of A and every row of B scaled by a power of ten from -2 to 2")       \
  X(POSITIVE, "positive", 1, "A and B uniform in (0, 1)")                                                           \
  X(CANCELLING, "cancelling", 0, "the second half of the reduction undoes the first, term by term: C is all error") \
  X(DUPLICATED, "duplicated", 0, "normal, every column of B four times: errors of a row repeat")                    \
  X(BLOCKS, "blocks", 0, "A positive; B positive in the first half of the reduction, negative in the second")

typedef enum rdt_family {
#define X(id, name, claimed, text) RDT_FAMILY_##id,
  RDT_FAMILY_TABLE(X)
#undef X
      RDT_FAMILY_COUNT
} rdt_family;

const char *rdt_family_name(rdt_family f);
const char *rdt_family_text(rdt_family f);
int rdt_family_claimed(rdt_family f);
rdt_family rdt_family_find(const char *name); /* RDT_FAMILY_COUNT if unknown */

typedef struct rdt_rng {
  uint64_t state;
  double spare; /* second value of the polar method */
  int has_spare;
} rdt_rng;

uint64_t rdt_rng_next(rdt_rng *r);
double rdt_rng_uniform(rdt_rng *r); /* [0, 1) */
double rdt_rng_normal(rdt_rng *r);

/* a: rows x k, b: k x columns, row-major. */
void rdt_family_fill_a(rdt_family f, rdt_rng *r, int64_t rows, int64_t k, double *a);
void rdt_family_fill_b(rdt_family f, rdt_rng *r, int64_t k, int64_t columns, double *b);

#endif
