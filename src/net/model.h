/* The executor's view of a network: steps over values, each step a plan. */
#ifndef RDT_NET_MODEL_H
#define RDT_NET_MODEL_H

#include <redoubt/model.h>

#include "check/verdict.h"
#include "net/arena.h"
#include "net/graph.h"
#include "plan/plan.h"
#include "plan/survey.h"

/* Steps: one import for each input (the caller's tensor into the network's layout), one for each node, one publication
 * for each output (dense row-major). All are plans, all are checked. */
typedef enum rdt_step_kind { RDT_STEP_IMPORT, RDT_STEP_NODE, RDT_STEP_PUBLISH } rdt_step_kind;

/* A node whose value is a view of another one's, or was computed while planning, has no plan: nothing is left to run.
 */

typedef struct rdt_step {
  rdt_model *model;
  rdt_step_kind kind;
  int subject; /* input, node or output number */
  int n_reads;
  int *reads; /* values whose sums are verified before it runs */
  int writes; /* value; -1 for publications */
  rdt_problem prob;
  rdt_plan *plan;     /* NULL: nothing to run */
  uint64_t *row_sums; /* rows.c: of the table that it reads rows of; NULL: it is none, or small */
  bool holds;         /* its constant weights (net/constant.h) */
  bool handed_out;    /* an output, in this run */
  double typical;     /* magnitude of an element that it wrote; 0: not measured, or all of them are 0 */
  rdt_result result;
} rdt_step;

struct rdt_model {
  rdt_context *ctx;
  rdt_graph *graph;
  rdt_layout layout;   /* views with data */
  rdt_arena arena;     /* memory of the activations: values that are not needed at the same time share it */
  rdt_lifetime *lives; /* of the values in it */
  uint64_t *sums;      /* bit-sums of activations, taken when they were written; of folded values: when planned */
  rdt_tensor *planned; /* input views that the plan was made for */
  rdt_tensor *outputs; /* published */
  rdt_step *steps;
  int n_steps;
  bool ready;     /* planned */
  bool published; /* outputs are those of a finished run */
  rdt_run_result last;
  bool armed;
  bool again;       /* steps are run again, to restore an activation */
  bool measure;     /* the steps' typical outputs: somebody writes a report */
  double measuring; /* seconds that the run spent on that: they are not the network's */
  rdt_fault fault;
  rdt_injection injection;
  rdt_ruling ruling; /* the verdict of the run, raised by each step; `last` has it from the steps' results */
  int at;            /* how many steps this run has behind it */
  rdt_release release;
  rdt_output_fn on_output;
  void *on_output_user;
  uint64_t *output_sums; /* of the published copies */
  rdt_progress_fn on_progress;
  void *on_progress_user;
  struct rdt_remote *remote; /* it runs on a device (net/remote.h); NULL: here */
};

/* Is it loaded with as many votes along k as policy and plans have now? RDT_ERR_UNSUPPORTED, with both numbers. */
rdt_status rdt_model_votes_fit(rdt_model *m);
/* Dense inputs of the declared shapes, open dimensions taken as 1. */
rdt_status rdt_model_default_inputs(const rdt_model *m, rdt_tensor *inputs);
/* survey.c: do the weights of the products and convolutions have to come from memory at each run? */
rdt_status rdt_layout_is_cold(const rdt_graph *g, const rdt_layout *l, bool *cold, rdt_reason *why);
/* On a device: what each layer takes, the median of a few runs of their own; it is in the results of the runs that
 * follow. RDT_ERR_UNSUPPORTED on the CPU; else as rdt_model_run. */
rdt_status rdt_model_time_layers(rdt_model *m, const rdt_tensor *inputs, size_t n);
/* The nodes as problems, without a plan: inputs as in rdt_model_plan. rdt_survey_free */
rdt_status rdt_model_survey(rdt_model *m, const rdt_tensor *inputs, size_t n, rdt_survey *s);
/* What the last armed fault did, in numbers. */
const rdt_injection *rdt_model_injection(const rdt_model *m);
/* The step of node i. */
const rdt_step *rdt_model_step(const rdt_model *m, size_t i);

/* publish.c: copies output i, checked, and sums the copy; is it still as it was then? Copied again where not. */
rdt_status rdt_output_publish(rdt_model *m, int i);
rdt_status rdt_output_verify(rdt_model *m, int i);
void rdt_output_hand_out(rdt_model *m, int i); /* once a run, to whom asked to be called */
/* A fault that no step reports. */
void rdt_model_tell(rdt_model *m, const char *node, const char *what, rdt_diagnosis diagnosis, const char *text);

/* rows.c: sums of the rows of a constant table, for a planned step that gathers some of them */
rdt_status rdt_rows_make(rdt_step *s, rdt_reason *why);
/* Is value v the table whose rows have sums? */
bool rdt_rows_guard(const rdt_step *s, int v);
/* Are the rows that the step's indices name as they were? The indices must be in order. */
bool rdt_rows_are_good(const rdt_step *s);

/* secure.c: a step's data at rest (rdt_host) */
rdt_status rdt_step_secure(void *step, bool all, rdt_rest *rest, rdt_reason *why);
/* The constant weights of a linear step are there from hold to release. */
rdt_status rdt_step_hold(rdt_step *s, rdt_reason *why);
void rdt_step_release(rdt_step *s);
/* step.c: executes a step on its operands and sums what it wrote */
rdt_status rdt_step_run(rdt_step *s);
/* Plans pack weights and make checksums of them: only from constants that are as they were read. RDT_ERR_FAULT where
 * one is not and cannot be restored. */
rdt_status rdt_model_secure_constants(rdt_model *m, rdt_reason *why);
/* And they still were when all of that had been made; otherwise it is made again, of what was restored. */
rdt_status rdt_step_secure_weights(rdt_step *s, rdt_reason *why);
/* typical.c: root mean square of a sample of the elements, the same ones each time; 0 where that is not finite */
double rdt_tensor_typical(const rdt_tensor *t);
/* The bit-sum of the memory behind value v, which is no constant. */
uint64_t rdt_activation_sum(const rdt_model *m, int v);
/* What a step reports that has no plan: a view, or a value folded while planning. */
const char *rdt_step_kernel(const rdt_step *s);
const char *rdt_step_scheme(const rdt_step *s);
const char *rdt_step_refusal(const rdt_step *s); /* why it is on the host, of a network on a device; NULL: it is not */
/* The plan of a node's step: of those that run here each has one, of those on a device the ones that need it. */
rdt_status rdt_step_plan(rdt_step *s);

#endif
