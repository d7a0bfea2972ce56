/* What happens after a check has failed: one ladder for all schemes.
 *
 * Rungs, in order: put data at rest in order (inputs, weights, packed weights, checksums against their sums) -> compute
 * again on the same code path and core, compare bits, check again -> make the checksums again -> compute on other cores
 * -> compute on another code path, and where that passes on the first one once more -> give up: DETECTED. Which rung
 * settles it is the diagnosis. Where it is asked for (--on-fault correct) and data at rest was in order, rebuilding
 * from checksums comes before computing again. */
#ifndef RDT_CHECK_RECOVER_H
#define RDT_CHECK_RECOVER_H

#include <redoubt/context.h>

#include "check/correct.h"

typedef enum rdt_buffer { RDT_BUF_RESULT, RDT_BUF_SPARE, RDT_BUF_THIRD } rdt_buffer;

/* What was out of order among the data at rest, and is in order again unless lost. */
typedef struct rdt_rest {
  bool activation, weight, checksum; /* found changed */
  bool plan;                         /* what the op is made of: pointers, shapes, strides */
  bool lost;                         /* and could not be restored */
  rdt_rot rot;
} rdt_rest;

/* How an op does what the ladder asks for. What may be NULL leaves its rung out. */
typedef struct rdt_recovery {
  void *self;
  rdt_status (*secure)(void *self, rdt_rest *rest, rdt_reason *why);
  rdt_status (*compute)(void *self, rdt_buffer into, bool other_path, rdt_reason *why);
  rdt_status (*check)(void *self, rdt_buffer which, rdt_findings *f, rdt_reason *why);
  /* Elements whose bits differ; first gets the first one's index. */
  int64_t (*differ)(void *self, rdt_buffer a, rdt_buffer b, int64_t *first);
  /* Do a and b differ, anywhere in the rows and columns that the suspects name, by more than the suspects' own bound?
   */
  bool (*apart)(void *self, rdt_buffer a, rdt_buffer b, const rdt_findings *suspects);
  void (*accept)(void *self, rdt_buffer from);                    /* becomes the result */
  double (*value)(void *self, rdt_buffer which, int64_t element); /* by its index; NULL: nobody asks */
  /* A copy of the result, rebuilt from checksums and checked again (check/correct.h). NULL: not asked for */
  rdt_status (*rebuild)(void *self, rdt_buffer into, rdt_rebuilt *b, rdt_reason *why);
  /* Makes the checksums that check uses once more from the weights. made false: it has none. */
  rdt_status (*resum)(void *self, bool *made, bool *changed, rdt_reason *why);
  /* The cores that may be used, at most room; *suspect: the one that computed what is in doubt, -1 not known. */
  int (*cores)(void *self, int *list, int room, int *suspect);
  /* The same code path with its threads on these cores. */
  rdt_status (*compute_on)(void *self, rdt_buffer into, const int *cores, int n, rdt_reason *why);
} rdt_recovery;

typedef struct rdt_recovered {
  rdt_verdict verdict;
  rdt_diagnosis diagnosis;
  const char *what;        /* "result", "weight", "activation", "checksum" */
  bool fault;              /* confirmed; false: rounding explains it, or it could not be checked */
  int64_t changed;         /* elements that the repair changed */
  int64_t first;           /* the first of them; -1 none */
  bool valued;             /* the next two are known: */
  double expected, actual; /* the first one's value as it is now, and as it was found */
  double corrected_bound;  /* CORRECTED: no rebuilt value is further from the one without the fault */
  rdt_rot rot;             /* of what was put in order */
  int core;                /* that is wrong every time; -1 not known */
  int n_rungs;
  rdt_rung rungs[RDT_MAX_RUNGS];
} rdt_recovered;

/* Books a rung that began at *since (rdt_clock), and the next one begins now; what is beyond RDT_MAX_RUNGS is left out.
 */
void rdt_recovered_rung(rdt_recovered *v, const char *name, const char *outcome, double *since);
bool rdt_rest_memory(const rdt_rest *rest);         /* data or plan: the result may be wrong */
const char *rdt_rest_what(const rdt_rest *rest);    /* "weight", "activation", "plan", "checksum" */
const char *rdt_rest_outcome(const rdt_rest *rest); /* of the rung that puts data at rest in order */

/* Called when a check of the result was suspect or could not be made. repair false (report, abort): the result stays as
 * it is; data at rest is put in order all the same. */
rdt_status rdt_recover_checked(const rdt_recovery *r, bool repair, rdt_recovered *out, rdt_reason *why);
/* elsewhere.c: is it a core? Computes on others; while none is suspected, on ever smaller halves of them. *good: the
 * buffer that holds a result that passes; *found: one does, with the core that is wrong, where that is certain. */
typedef struct rdt_elsewhere {
  bool tried, found;
  rdt_buffer good;
  int core;
} rdt_elsewhere;
rdt_status rdt_recover_elsewhere(const rdt_recovery *r, rdt_elsewhere *out, rdt_reason *why);
/* For an op run twice, whose copies (result and spare) differ: data at rest, then a third computation votes. compute
 * into spare goes the way of the second copy: the result is good only where that way gives it too. */
rdt_status rdt_recover_voted(const rdt_recovery *r, bool repair, rdt_recovered *out, rdt_reason *why);

/* An op that is computed three times, copy i into buffer i, each element on another core each time as far as there are
 * some. */
enum { RDT_COPIES = 3 };
typedef struct rdt_ballot {
  int64_t lost[RDT_COPIES], first[RDT_COPIES]; /* elements in which the other two outvote a copy; the first of them */
  int64_t undecided;                           /* all three differ */
} rdt_ballot;
typedef struct rdt_copies {
  int cores; /* so many different ones compute an element; 1: or nobody knows */
  /* Copy i again, by the cores that computed it before. */
  rdt_status (*copy)(void *self, int i, rdt_buffer into, rdt_reason *why);
  /* Counts votes, bit by bit; elect: writes into the result where it lost. */
  void (*vote)(void *self, bool elect, rdt_ballot *b);
  int (*core)(void *self, int i, int64_t element); /* that computed it in copy i; -1 not known */
  /* Two cores: products whose results are known, on both. good and bad: -1 where both pass, or both fail (*failed 2) */
  rdt_status (*test)(void *self, int *good, int *bad, int *failed, rdt_reason *why);
  rdt_status (*compute_on)(void *self, rdt_buffer into, int core, rdt_reason *why);
} rdt_copies;
/* The copies (in all three buffers) do not agree: data at rest; then on three cores the majority of each element, on
 * two the core that is proven right, never the majority: a bad core may hold two votes of three. What nothing decides
 * is computed three times more, and counts only where all agree. */
rdt_status rdt_recover_thrice(const rdt_recovery *r, const rdt_copies *c, bool repair, rdt_recovered *out,
                              rdt_reason *why);

#endif
