/* What computes a product on a GPU, measured: the rivals of a track in turn, as an entry of a book; and what of them
 * may be chosen, as the offers that plans of processors have too. */
#ifndef RDT_PLAN_RACE_H
#define RDT_PLAN_RACE_H

#include "cuda/rivals.h"
#include "plan/book.h"

typedef enum rdt_protocol {
  RDT_PROTOCOL_QUICK, /* medians of eleven samples of a fraction of a millisecond */
  RDT_PROTOCOL_PAPER, /* means of 10 samples of 1000 runs behind 100 that do not count, of the best of each check */
  RDT_PROTOCOLS
} rdt_protocol;
const char *rdt_protocol_name(rdt_protocol p);

typedef struct rdt_race_how {
  rdt_protocol protocol;
  rdt_timing_progress_fn progress; /* asked before each sample; NULL: nobody */
  int turn, turns;                 /* this product is one of so many */
  const char *what;
} rdt_race_how;

/* Measures all rivals of product p once or more by themselves, and those that lead, of each check and kind, in turn.
 * The entry has the latter with their trials, and of the others one number, the least of theirs: they are of interest
 * to models alone. complaints: of checks, of clean data, added up; who complains is left out. e is empty before.
 * RDT_ERR_CANCELLED: progress said so. */
rdt_status rdt_race_run(const rdt_track *t, const rdt_problem *p, const rdt_race_how *how, rdt_entry *e,
                        unsigned *complaints, rdt_reason *why);
/* Who there is, without any time. */
rdt_status rdt_race_list(const rdt_track *t, const rdt_problem *p, rdt_entry *e, rdt_reason *why);
/* Had it turns, or was it behind before? */
bool rdt_race_counts(const rdt_timed *t);

/* Of an entry: who is of this kind and check (NULL: any), and had turns; the least median. NULL: there is none. */
const rdt_timed *rdt_race_best(const rdt_entry *e, rdt_rival_kind kind, const char *scheme);
double rdt_race_median(const rdt_timed *t); /* NULL: NaN */

/* The product on this device, as the key of a book. */
rdt_status rdt_race_key(const rdt_problem *p, char key[RDT_KEY_TEXT], rdt_reason *why);

/* Offers of an entry: all that protects or is our own unprotected, chosen for as rdt_offers_decide does by their times,
 * or, model, by estimates. The entry and this stay where they are. */
typedef struct rdt_raced {
  rdt_offers o;
  rdt_kernel kernels[RDT_MOST_OFFERS];     /* their names alone */
  const rdt_timed *timed[RDT_MOST_OFFERS]; /* each offer's */
} rdt_raced;
void rdt_race_choose(const rdt_entry *e, const rdt_problem *p, const rdt_demand *d, const rdt_track *t, bool model,
                     rdt_raced *x);

#endif
