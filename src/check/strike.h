/* A planted fault in what checks: in a sum, a bound, or the outcome of a comparison (inject/sites.def). Findings that
 * are to be struck carry one; all others carry NULL. */
#ifndef RDT_CHECK_STRIKE_H
#define RDT_CHECK_STRIKE_H

#include "inject/fault.h"

typedef enum rdt_strike_way {                   /* which comparison is hit */
                              RDT_STRIKE_BLOCK, /* of many checks at once; of a single one where there is no such */
                              RDT_STRIKE_SINGLE,
                              RDT_STRIKE_SECOND,
                              RDT_STRIKE_WAYS
} rdt_strike_way;

typedef struct rdt_strike {
  const rdt_fault *fault;
  rdt_strike_way way;
  int64_t at; /* number of the check, as findings count; -1 until some are announced */
  bool done;
  double before, after;
} rdt_strike;

rdt_strike rdt_strike_of(const rdt_fault *fault);
/* count checks follow, the first of them is number from: one of the first so many is chosen. */
void rdt_strike_announce(rdt_strike *s, int64_t from, int64_t count);
/* Is the chosen check, and this way of comparing it, among these? s may be NULL. */
bool rdt_strike_due(const rdt_strike *s, rdt_site site, rdt_strike_way way, int64_t from, int64_t count);
void rdt_strike_double(rdt_strike *s, double *x);
void rdt_strike_word(rdt_strike *s, uint32_t *x);

#endif
