/* What `redoubt bench gemm`, `conv` and `workloads` share: a list of problems, each at some numbers of threads, all
 * contenders interleaved; the tables of what came out, with sums over the list. */
#ifndef RDT_BENCH_OPS_H
#define RDT_BENCH_OPS_H

#include "bench_common.h"
#include "bench_table.h"
#include "field.h"
#include "plan/timing.h"

/* What a command line says about both. */
typedef struct rdt_bench_ask {
  rdt_dtype dtype;
  long long threads[RDT_BENCH_LIST];
  int n_threads, trials;
  const char *const *schemes; /* names, "auto", "all" */
  int n_schemes;
  const char *epilogue;     /* "none", "bias", "bias+relu" */
  bool cold;                /* rotate through more weights than any cache holds */
  double seconds;           /* that it may take, some: trials become fewer, 3 at least; 0: as long as it takes */
  rdt_baselines *baselines; /* taken, not yet opened */
  const char *output;       /* NULL: stdout */
  rdt_bench_format format;
  const char *head; /* the words of the command line */
  rdt_timing_progress_fn progress;
} rdt_bench_ask;

enum { RDT_BENCH_CASES = 512 };
typedef struct rdt_bench_case {
  char name[96]; /* "3136 x 64 x 576" */
  rdt_kop op;
  int64_t times; /* how often it counts in a sum, */
  int64_t group; /* with the other cases of this number */
  double flops;
  double data;    /* bytes of the operands but for the weights */
  double weights; /* bytes of one copy of them */
  int copies;     /* of the weights to rotate through; 0: as ask->cold says */
} rdt_bench_case;

typedef struct rdt_bench_ops {
  const rdt_bench_ask *ask;
  const char *name; /* of the benchmark: "gemm" */
  int version;      /* of its document */
  const rdt_bench_case *cases;
  int count;
  const char *const *columns; /* own ones, then RDT_BENCH_COLUMNS */
  int n_columns;
  const char *group; /* what the number of a group is: "n"; NULL: there is one group */
  const char *(*group_text)(const void *user,
                            int64_t group); /* in place of its number; then groups of one are summed */
  void *user;
  /* The operands of case i, but for in[1] of the copies from 1 on. */
  rdt_status (*fill)(void *user, int i, rdt_problem *p, uint64_t *seed, rdt_reason *why);
  void (*gather)(void *user, rdt_field *f);                 /* adds the libraries */
  void (*cells)(const void *user, int i, rdt_bench_out *t); /* own ones */
} rdt_bench_ops;

#define RDT_BENCH_COLUMNS                                                                                           \
  "threads", "what", "kernel", "scheme", "ms", "p10", "p90", "GFLOP/s", "of peak", "of bandwidth", "/ best", "low", \
      "high", "best", "/ none", "low none", "high none", "worst residual / bound", "suspects", "verdict"

const char *rdt_bench_commit(void); /* that was built; "+" behind it: with changes; "": not known */

/* The exit code: 0; 1 a fault was reported; 2 it could not run; or RDT_TIMING_STOPPED. */
int rdt_bench_ops_run(const rdt_bench_ops *o);

/* Adds oneDNN in the way that rdt_dnnl_op_create has it, if it was asked for. */
void rdt_bench_add_dnnl(rdt_field *f, rdt_baselines *b, const char *name, bool plain);

#endif
