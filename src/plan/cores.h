/* Which cores one execution of a plan takes place on, and where its recovery computes. */
#ifndef RDT_PLAN_CORES_H
#define RDT_PLAN_CORES_H

#include "cpu/threads.h"
#include "plan/plan.h"

typedef struct rdt_where {
  rdt_plan *p;
  rdt_shares first;                /* of the computation whose result counts */
  rdt_shares fused;                /* of the same op before, by a kernel that sums as it goes */
  rdt_shares again;                /* of what the recovery computes */
  rdt_share copy[2];               /* of an op that is computed twice */
  rdt_shares more[RDT_COPIES - 1]; /* of the other copies of one that is computed three times */
  int suspect;                     /* core that has computed what the checks doubt; -1 not known, or several */
  int *cores;                      /* that may be used; of each thread, where it computes again */
  int n_cores, *again_on;
  int simulated, turn, only; /* so many cores that a fault simulates (0: real ones); the copy that they compute, or the
                                one that computes all (-1: they share) */
  bool unpinned;             /* the system has refused to keep threads on cores */
} rdt_where;

/* Memory is the context's; where it is short, nothing is known. */
void rdt_where_begin(rdt_where *w, rdt_plan *p);
/* One computation by a kernel, its shares written down, counted if they are the first ones. hit: NULL, or what the
 * injecting instantiation plants. threads: of the state. */
rdt_status rdt_where_run(rdt_where *w, rdt_shares *s, const rdt_kernel *k, void *state, int threads,
                         const rdt_operands *o, rdt_kernel_hit *hit, rdt_reason *why);
/* The same for a kernel that sums as it goes. */
rdt_status rdt_where_run_fused(rdt_where *w, rdt_shares *s, void *state, const rdt_operands *o, rdt_fused *f,
                               rdt_reason *why);
/* The thread that computes copy i of an op that is computed twice calls both. */
void rdt_where_copy_begins(rdt_where *w, int i);
void rdt_where_copy_ends(rdt_where *w, int i);
void rdt_where_strike(rdt_where *w, int i, const rdt_tensor *raw); /* afterwards: had a broken core a hand in it? */
void rdt_where_count(rdt_where *w, const rdt_shares *s);

/* While a core is broken, one of the threads computes there and each of the others elsewhere. */
void rdt_where_break(rdt_where *w, rdt_places *places);

/* While this is set, one simulated core computes all; -1: they share. */
void rdt_where_only(rdt_where *w, int core);
/* For copy i of an op that is computed three times: thread t on core t + i of those that may be used. */
void rdt_where_turn(rdt_where *w, int i, rdt_places *places);
/* On so many different cores an element is computed then; 1: nobody knows. */
int rdt_where_spread(const rdt_where *w);
/* A check has complained: who has computed what it doubts, and on which cores would the threads meet it again? */
void rdt_where_doubt(rdt_where *w, const rdt_shares *s, const rdt_findings *f);
/* The recovery's threads, on the cores of the doubted computation or (n > 0) on these. */
void rdt_where_pin(const rdt_where *w, const int *cores, int n, rdt_places *places);
/* The core that has computed the element at this place of the result; -1 not known. */
int rdt_where_core(const rdt_shares *s, const int64_t place[2]);

#endif
