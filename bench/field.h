/* The contenders for one product or convolution, interleaved: plans of ours, a bare kernel, foreign libraries. */
#ifndef RDT_BENCH_FIELD_H
#define RDT_BENCH_FIELD_H

#include "baselines.h"
#include "cpu/kernel.h"
#include "plan/plan.h"
#include "plan/timing.h"

typedef struct rdt_foreign {
  int (*run)(void *user, const rdt_problem *p);   /* 0: fine */
  int (*fetch)(void *user, const rdt_problem *p); /* the result to p's output; NULL: run has left it there */
  void (*destroy)(void *user);                    /* may be NULL */
} rdt_foreign;

typedef struct rdt_contender {
  const char *name, *kernel_name;
  const char *asked;     /* ours: the scheme, as it was asked for */
  rdt_baseline *library; /* whose it is; NULL: ours */
  const struct rdt_field *field;
  int next;                 /* which copy of the problem */
  rdt_context *ctx;         /* of the plans */
  rdt_plan **plans;         /* one of: ours, one for each copy; */
  int same;                 /* whose plans these are, the same kernel with the same scheme: run once, not twice; -1 */
  const rdt_kernel *kernel; /* a bare kernel, with one state for each copy; */
  void **states;
  const rdt_foreign *foreign; /* something foreign */
  void *user;
  rdt_result worst; /* of plans: worst ratio and verdict, counts added */
} rdt_contender;

typedef struct rdt_field {
  const char *command;         /* "bench gemm", for messages */
  const rdt_problem *problems; /* one op on each copy of its weights: run after run takes the next */
  int copies, threads;
  rdt_contender list[RDT_TIMING_CASES];
  int count, none; /* none: ours without protection; -1: not there */
  double measure;  /* seconds that "plan" may measure before it plans; 0: as long as it likes */
  bool timed;      /* all trials were run: there are rows to print */
} rdt_field;

void rdt_field_begin(rdt_field *f, const char *command, const rdt_problem *problems, int copies, int threads);
/* Contenders that are not there (library: NULL), or refuse the problem, are left out. The best row of a vendor for the
 * problem, or of our own, bare: weights packed, epilogue as post-ops. */
void rdt_field_add_kernel(rdt_field *f, rdt_baseline *library, const char *name, bool black_box);
/* kernel_name stands in its column. user NULL: it is not there. */
void rdt_field_add_foreign(rdt_field *f, rdt_baseline *library, const char *name, const char *kernel_name,
                           const rdt_foreign *calls, void *user);
bool rdt_field_add_none(rdt_field *f); /* false: it cannot be planned */
/* Names, "auto" by estimates, "plan" by what is measured first, "all". false: one of them cannot be planned. */
bool rdt_field_add_schemes(rdt_field *f, const char *const *schemes, int n);

/* Runs the libraries once and checks what they computed. Those that are wrong are left out from then on: told on stderr
 * and in their status. */
rdt_status rdt_field_verify(rdt_field *f, rdt_reason *why);
int rdt_field_runs(const rdt_field *f); /* contenders that are run: those of one kernel and scheme count once */
/* Runs the trials; what went wrong is told on stderr. 0; 1 a fault was reported; 2 it could not run; or
 * RDT_TIMING_STOPPED. */
int rdt_field_time(rdt_field *f, rdt_timing *timing);
void rdt_field_end(rdt_field *f);

#endif
