/* How long each candidate of a problem takes, checks included: interleaved, on random data, with warm or cold weights.
 */
#ifndef RDT_PLAN_PROFILE_H
#define RDT_PLAN_PROFILE_H

#include "plan/book.h"
#include "plan/plan.h"

/* In place of the data of fixed weights that are nowhere yet: a problem that has this can be measured, not run. */
extern char rdt_weights_to_come[];

typedef struct rdt_profile {
  bool cold;                       /* weights are not in the caches when a run begins */
  double seconds;                  /* about how long a problem may take; 0: as long as all candidates need, then 3 s */
  bool brief;                      /* that is less than usual: who was left out for it is marked (rdt_timed.late) */
  bool choice;                     /* only what may be chosen is of interest */
  rdt_timing_progress_fn progress; /* asked before each sample; NULL: nobody */
  int turn, turns;                 /* this problem is one of so many */
  const char *what;                /* which one, for whom progress is told */
} rdt_profile;

/* Times every candidate of the linear problem p that a context's plans would have, and no data of p is read. e is empty
 * before, has the key and all times afterwards (rdt_entry_clear in any case). Those that are clearly slower are left
 * early: their times are of few trials; where how->seconds are over, those that are expected to be slow are not
 * measured. RDT_ERR_CANCELLED: progress said so. */
rdt_status rdt_problem_profile(const rdt_context *ctx, const rdt_problem *p, const rdt_demand *d,
                               const rdt_profile *how, rdt_entry *e, rdt_reason *why);
/* Drops memory from the caches of all cores. */
void rdt_cache_flush(const void *data, size_t bytes);
/* Do so many bytes of weights, read once a run, stay in the last-level cache? */
bool rdt_weights_are_cold(double bytes);

#endif
