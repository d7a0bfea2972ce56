/* `redoubt bench model`: a network protected against the same network unprotected, interleaved in one process. */
#ifndef RDT_BENCH_MODEL_H
#define RDT_BENCH_MODEL_H

#include <redoubt/model.h>

#include "core/error.h"
#include "plan/timing.h"

typedef struct rdt_bench_job {
  const char *path;
  rdt_policy policy; /* of the protected contender */
  const char *plan;  /* file that both go by; NULL: none */
  const rdt_tensor *inputs;
  size_t n_inputs;
  const char *const *named; /* initializers that inputs replace */
  size_t n_named;
  int threads, trials;
  void (*watch)(rdt_context *ctx); /* told the context that a signal should cancel */
  rdt_timing_progress_fn progress; /* may be NULL */
  int turn, turns;                 /* which of how many such jobs */
} rdt_bench_job;

/* One contender; its model stays until the result is freed: names, shapes and kernels are asked there. */
typedef struct rdt_bench_side {
  rdt_context *ctx;
  rdt_model *model;
  double load_seconds; /* loading and planning */
  size_t memory_peak;  /* most that it held at once: loading, planning, one run */
  size_t n_nodes;
  double *seconds, *seconds_check; /* medians of each node */
  rdt_timing_stat time;            /* of the whole run */
  rdt_run_result total;            /* of all runs that counted: verdict the worst, counts added, no times */
  double *samples;                 /* of each run: seconds of every node, then seconds_check */
  size_t runs, room;
  const rdt_timing *timing;
  const rdt_bench_job *job;
} rdt_bench_side;

enum { RDT_BENCH_NONE, RDT_BENCH_PROTECTED, RDT_BENCH_SIDES };
typedef struct rdt_bench_model {
  rdt_bench_side side[RDT_BENCH_SIDES];
  rdt_timing_ratio ratio;
} rdt_bench_model;

/* Loads, warms up, measures. RDT_ERR_FAULT where a run ended with a fault that could not be repaired. Free in any case.
 */
rdt_status rdt_bench_model_run(const rdt_bench_job *job, rdt_bench_model *out, rdt_reason *why);
void rdt_bench_model_free(rdt_bench_model *m);
/* Node of the unprotected contender with the name of node i of the protected one; -1: it has none, it fuses otherwise.
 */
ptrdiff_t rdt_bench_model_twin(const rdt_bench_model *m, size_t i);

/* Data for an input without a file, by datatype and name: numbers in [-1, 1), indices below 100, masks of ones, kinds
 * of tokens zero. t->data is new (rdt_free). */
rdt_status rdt_bench_model_fill(rdt_tensor *t, const char *name, uint64_t *seed, rdt_reason *why);

#endif
