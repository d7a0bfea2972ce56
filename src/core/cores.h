/* Cores: which of them executed what, and which of them may be used. */
#ifndef RDT_CORE_CORES_H
#define RDT_CORE_CORES_H

#include <redoubt/context.h>
#include <sched.h>
#include <stdbool.h>

#include "core/error.h"

/* ---- who executed what ---- */

/* A part of a result that one thread computed. */
typedef struct rdt_share {
  int64_t from[2], to[2]; /* rows and columns, as checks name them; to is beyond the last */
  int core;               /* where it began; -1 not known */
  bool moved;             /* it ended on another one */
  bool differ;            /* a comparison that its thread made on the way failed */
} rdt_share;

/* Kernels that know how they share a result write it down here; others leave it empty. */
typedef struct rdt_shares {
  rdt_share *list;
  int n, room;
} rdt_shares;

/* The thread that computes share i of s (NULL: nobody asks) calls both. */
void rdt_share_begin(rdt_shares *s, int i, const int64_t from[2], const int64_t to[2]);
void rdt_share_end(rdt_shares *s, int i, bool differ);
/* How many there will be; called before the threads share the work. */
void rdt_shares_expect(rdt_shares *s, int n);
/* The core on which the element at (row, column) was begun, -1 for a row or a column: any. -1 where shares on several
 * cores meet that; *sure: it stayed there. */
int rdt_shares_core(const rdt_shares *s, int64_t row, int64_t column, bool *sure);

/* ---- counters ---- */

/* Where each thread of a team was allowed to run. */
typedef struct rdt_places {
  int n; /* 0: nothing was changed */
  cpu_set_t *was;
} rdt_places;

/* What a context knows of cores. */
typedef struct rdt_cores {
  rdt_core_info *list; /* by number; NULL: nothing yet */
  int n;
  int *seen; /* of each thread, the core on which it was last seen; -1 nowhere yet */
  int n_seen;
  int64_t unseen; /* executions since somebody looked */
  bool avoids;
  cpu_set_t avoided;
  rdt_places places; /* while a call keeps away from them */
  int entered;
} rdt_cores;

void rdt_cores_clear(rdt_cores *c);
/* The counters of a core; NULL for -1 and where memory is short: then nobody counts. */
rdt_core_info *rdt_cores_at(rdt_cores *c, int core);

/* An event that is about to be told. */
void rdt_cores_book(rdt_cores *c, const rdt_event *e);
/* Multiprocessors: complaints of n of them, as a device has counted them since; a fault that an event names one of. */
void rdt_cores_count_complaints(rdt_cores *c, const uint32_t *complaints, int n);
void rdt_cores_book_complaint(rdt_cores *c, const rdt_event *e);

/* ---- which may be used ---- */

/* "3", "0,8-11": the set of it. NULL and "": empty. Errors: RDT_ERR_ARG for what is no list, or no core of this
 * machine. */
rdt_status rdt_cores_parse(const char *text, cpu_set_t *set, rdt_reason *why);
/* Those on which the calling thread may run, at most room; how many. */
int rdt_cores_allowed(int *list, int room);

#endif
