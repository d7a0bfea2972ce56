/* What has been measured: for each problem the times of its candidates, and of plan files what was chosen. */
#ifndef RDT_PLAN_BOOK_H
#define RDT_PLAN_BOOK_H

#include "plan/offers.h"

typedef struct rdt_timed { /* one candidate */
  char kernel[64], scheme[RDT_SCHEME_TEXT];
  bool fused;
  bool late; /* there was less time than usual, and none for it, or checks complained: a cache does not keep that */
  int n;
  double *seconds; /* of one run, one value a trial; trials of one entry were taken in turn */
} rdt_timed;

typedef struct rdt_entry {
  char *key;
  int n;
  rdt_timed *list;
  int choice; /* of the list; -1: it is left to rdt_offers_decide */
} rdt_entry;

typedef struct rdt_book {
  int n;
  rdt_entry *list;
  int checkpoints; /* of the networks that its choices are of: votes along k (rdt_policy); 0: it is of none */
} rdt_book;

enum { RDT_MOST_CHECKPOINTS = 64 };
/* How often products of networks that the context loads for a CPU vote along k: as its policy has it, or the plan files
 * that it read; 1: at the end. */
int rdt_context_checkpoints(const rdt_context *ctx);
/* May choices for networks of so many be used, or noted, in this context? RDT_ERR_UNSUPPORTED, with both numbers; what
 * is whose they are. */
rdt_status rdt_context_checkpoints_fit(rdt_context *ctx, int checkpoints, const char *what);

/* What of a problem its candidates and their times depend on, and no more: op, datatypes, shapes, strides, window,
 * epilogue, whether weights are fixed, and whether they are cold; of the demand what adds candidates. false: the text
 * does not fit. */
enum { RDT_KEY_TEXT = 1024 };
bool rdt_problem_key(const rdt_problem *p, bool cold, const rdt_demand *d, char key[RDT_KEY_TEXT]);

void rdt_book_free(rdt_book *b); /* NULL is fine */
void rdt_entry_clear(rdt_entry *e);
rdt_entry *rdt_book_find(const rdt_book *b, const char *key); /* b may be NULL */
/* Takes the entry, which is empty afterwards; one of the same key is replaced. RDT_ERR_NOMEM */
rdt_status rdt_book_put(rdt_book *b, rdt_entry *e);
/* Room for one more candidate of the entry; NULL: no memory. Its times are the caller's to fill. */
rdt_timed *rdt_entry_add(rdt_entry *e, const rdt_way *w, int trials);
/* Gives the offers the entry's times: all of them, or none where the entry knows not all of them (complete). The number
 * of the one that was chosen, -1: none, or not among them. */
int rdt_entry_consult(const rdt_entry *e, rdt_offers *o, bool *complete);

/* Writes the choice down. RDT_ERR_NOMEM */
rdt_status rdt_entry_choose(rdt_entry *e, const rdt_way *w);

#endif
