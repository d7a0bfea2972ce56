/* Products whose result is known to the last bit, whatever the order of their sums and the instructions that form them:
 * they tell whether a core computes rightly. No partial sum is rounded, or there is one term only. */
#ifndef RDT_PLAN_KNOWN_H
#define RDT_PLAN_KNOWN_H

#include "cpu/kernel.h"

/* X(id, name, text): what the data are like */
#define RDT_KNOWN_PATTERNS(X)                                                                            \
  X(INTEGERS, "integers", "random whole numbers, rows of floating point scaled by powers of 2")          \
  X(PRODUCTS, "products", "one term in each sum, of numbers with all their bits: a multiplier's answer") \
  X(CHECKER, "checker", "alternating bits and extremes, of either sign in turn")                         \
  X(WALKING, "walking", "powers of 2 of either sign, one bit that walks")
typedef enum rdt_known_pattern {
#define X(id, ...) RDT_KNOWN_##id,
  RDT_KNOWN_PATTERNS(X)
#undef X
      RDT_KNOWN_PATTERN_COUNT
} rdt_known_pattern;
const char *rdt_known_pattern_name(rdt_known_pattern p);

/* small: some microseconds by vectors; large: does not fit a first-level cache */
typedef enum rdt_known_size { RDT_KNOWN_SMALL, RDT_KNOWN_LARGE, RDT_KNOWN_SIZE_COUNT } rdt_known_size;

typedef struct rdt_known {
  rdt_dtype dtype; /* of A; B is the same, or s8 where A is u8 */
  rdt_known_pattern pattern;
  rdt_known_size size;
  rdt_tensor a, b, c; /* c: what the product must be, in the accumulator's datatype */
} rdt_known;

/* Forms operands and result, and compares them with the sum that is known of them (known.def): RDT_ERR_FAULT where they
 * are others, so this core cannot be trusted with it. RDT_ERR_DTYPE: there are no such products. */
rdt_status rdt_known_create(rdt_dtype t, rdt_known_pattern pattern, rdt_known_size size, rdt_known *k, rdt_reason *why);
/* The same without comparing. */
rdt_status rdt_known_form(rdt_dtype t, rdt_known_pattern pattern, rdt_known_size size, rdt_known *k, rdt_reason *why);
void rdt_known_clear(rdt_known *k);
/* The sum over the bits of all three. */
uint64_t rdt_known_seal(const rdt_known *k);

/* A kernel with such a product, for one thread at a time. */
typedef struct rdt_trial_product {
  const rdt_known *known;
  const rdt_kernel *kernel;
  rdt_problem problem;
  void *state;
  rdt_tensor out;
} rdt_trial_product;
/* RDT_ERR_UNSUPPORTED: the kernel does not take it. Clear in any case. */
rdt_status rdt_trial_product_create(const rdt_kernel *kernel, const rdt_known *known, rdt_trial_product *t,
                                    rdt_reason *why);
rdt_status rdt_trial_product_run(rdt_trial_product *t, rdt_reason *why);
/* Elements of the result whose bits are not as they must be; the first of them, -1 none. */
int64_t rdt_trial_product_wrong(const rdt_trial_product *t, int64_t *first);
/* What a simulated core does to the result: wrong in one element, another one with each number, or in a lane of vectors
 * of that ISA. */
void rdt_trial_product_strike(rdt_trial_product *t, const rdt_fault *f, rdt_isa isa, int64_t number);
void rdt_trial_product_clear(rdt_trial_product *t);

/* Does a core give what is known, in that datatype (others as f32), by every kernel of products? broken: a core that is
 * wrong, simulated; NULL: none. turns counts what it was asked. */
rdt_status rdt_known_test_core(int core, rdt_dtype t, const rdt_fault *broken, int64_t *turns, bool *passes,
                               rdt_reason *why);

#endif
