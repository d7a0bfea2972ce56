/* The contenders for one product or convolution, interleaved: plans of ours, a bare kernel, foreign libraries; and the
 * cells that every one of them has in a table. */
#ifndef RDT_BENCH_FIELD_H
#define RDT_BENCH_FIELD_H

#include "bench_table.h"
#include "cpu/kernel.h"
#include "plan/plan.h"
#include "timing.h"

typedef struct rdt_contender {
  const char *name, *kernel_name;
  const struct rdt_field *field;
  int next;                 /* which copy of the problem */
  rdt_context *ctx;         /* of the plans */
  rdt_plan **plans;         /* one of: ours, one for each copy; */
  const rdt_kernel *kernel; /* a bare kernel, with one state for each copy; */
  void **states;
  int (*run)(void *user, const rdt_problem *p); /* something foreign */
  void (*destroy)(void *user);
  void *user;
  rdt_result worst; /* of plans: worst ratio and verdict, counts added */
} rdt_contender;

typedef struct rdt_field {
  const char *command;         /* "bench gemm", for messages */
  const rdt_problem *problems; /* one op on each copy of its weights: run after run takes the next */
  int copies, threads;
  rdt_contender list[RDT_TIMING_CASES];
  int count, none; /* none: ours without protection; -1: not there */
  bool timed;      /* all trials were run: there are rows to print */
} rdt_field;

void rdt_field_begin(rdt_field *f, const char *command, const rdt_problem *problems, int copies, int threads);
/* The best vendor row for the problem, bare: weights packed, epilogue as post-ops. Its number; -1: there is none. */
int rdt_field_add_vendor(rdt_field *f, const char *name);
/* kernel_name stands in its column; destroy may be NULL. user NULL: it is not there, -1. */
int rdt_field_add_foreign(rdt_field *f, const char *name, const char *kernel_name,
                          int (*run)(void *user, const rdt_problem *p), void (*destroy)(void *user), void *user);
bool rdt_field_add_none(rdt_field *f);                        /* false: it cannot be planned */
bool rdt_field_add_schemes(rdt_field *f, const char *scheme); /* a scheme's name, "auto", "all" */

/* Runs the trials; what went wrong is told on stderr. 0; 1 a fault was reported; 2 it could not run; or
 * RDT_BENCH_STOPPED. */
int rdt_field_time(rdt_field *f, rdt_timing *timing);
void rdt_field_end(rdt_field *f);

/* The cells of contender i; yardstick: the baseline that is not ours, -1 none. */
#define RDT_FIELD_COLUMNS                                                                                    \
  "threads", "what", "kernel", "scheme", "ms", "p10", "p90", "GFLOP/s", "/ oneDNN", "low", "high", "/ none", \
      "low none", "high none", "worst residual / bound", "suspects", "verdict"
void rdt_field_cells(const rdt_field *f, rdt_bench_out *o, const rdt_timing *timing, int i, int yardstick);

#endif
