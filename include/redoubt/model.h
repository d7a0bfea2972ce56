/* Networks: load an ONNX file, plan it, run it, read a verdict for each node. */
#ifndef REDOUBT_MODEL_H
#define REDOUBT_MODEL_H

#include <redoubt/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded network, made by rdt_model_load; its context must outlive it. */
typedef struct rdt_model rdt_model;

/* An input or an output. */
typedef struct rdt_io_info {
  const char *name;
  rdt_dtype dtype;
  int rank;                    /* -1 where the model does not say */
  int64_t shape[RDT_MAX_RANK]; /* -1 for a dimension that the model leaves open */
} rdt_io_info;

/* What a node is and what was chosen for it. */
typedef struct rdt_node_info {
  const char *name;   /* never empty: op and number where the file has none */
  const char *op;     /* ONNX operator with what was folded into it: "Conv+Relu" */
  const char *scheme; /* valid after planning */
  const char *kernel;
  const char *dtype;
  rdt_tensor out; /* data = NULL; shape of the first output */
} rdt_node_info;

/* What was found out about a whole run. */
typedef struct rdt_run_result {
  rdt_verdict verdict; /* the worst of the nodes and of the published outputs */
  int64_t nodes[5];    /* how many nodes had each verdict, by rdt_verdict */
  int64_t checks, suspects, faults, unchecked;
  double seconds, seconds_check;
} rdt_run_result;

/* Reads and checks the whole file (bounded size and depth), folds BatchNormalization into convolutions, sums every
 * weight. Errors: RDT_ERR_IO, RDT_ERR_FORMAT, RDT_ERR_UNSUPPORTED (names node, op, opset), RDT_ERR_NOMEM. */
RDT_API RDT_MUST_USE rdt_status rdt_model_load(rdt_context *ctx, const char *path, rdt_model **out);
/* The same; of an initializer that is an input too, and has one of these names, the caller gives the value: it is an
 * input then. Without, it is a constant. Names of anything else do nothing. */
RDT_API RDT_MUST_USE rdt_status rdt_model_load_replaced(rdt_context *ctx, const char *path, const char *const *names,
                                                        size_t n, rdt_model **out);
RDT_API void rdt_model_free(rdt_model *m); /* NULL is fine */

/* Inputs and outputs, in the model's order; names live as long as the model. Errors: RDT_ERR_ARG there is no number i.
 */
RDT_API size_t rdt_model_input_count(const rdt_model *m);
RDT_API size_t rdt_model_output_count(const rdt_model *m);
RDT_API rdt_status rdt_model_input_info(const rdt_model *m, size_t i, rdt_io_info *info);
RDT_API rdt_status rdt_model_output_info(const rdt_model *m, size_t i, rdt_io_info *info);

/* Chooses kernel and scheme for every node, for inputs of these shapes (n = rdt_model_input_count; data may be NULL);
 * inputs = NULL: open dimensions are taken as 1. rdt_model_run plans by itself when shapes change. */
RDT_API RDT_MUST_USE rdt_status rdt_model_plan(rdt_model *m, const rdt_tensor *inputs, size_t n);
/* Measures every way to compute and check each product and convolution for inputs of these shapes, unless the context
 * knows it already, and chooses: the least time among those that find the policy's share of faults and locate them.
 * Seconds to minutes. Plans made afterwards go by it: plan the network once more. May be called for several shapes.
 * Errors: as rdt_model_plan, RDT_ERR_CANCELLED. */
RDT_API RDT_MUST_USE rdt_status rdt_model_measure(rdt_model *m, const rdt_tensor *inputs, size_t n);
/* Inputs in the model's order. Errors: RDT_ERR_SHAPE, RDT_ERR_DTYPE, RDT_ERR_FAULT, RDT_ERR_CANCELLED, ...
 * With RDT_ERR_FAULT the results can be asked, the outputs only under RDT_ON_FAULT_REPORT. */
RDT_API RDT_MUST_USE rdt_status rdt_model_run(rdt_model *m, const rdt_tensor *inputs, size_t n, rdt_run_result *result);
/* Told before each node of a run: how many of all are done, and which comes next. The name lives as long as the model.
 */
typedef void (*rdt_progress_fn)(size_t done, size_t all, const char *node, void *user);
RDT_API void rdt_model_on_progress(rdt_model *m, rdt_progress_fn fn, void *user); /* NULL: nobody is told */
/* When the outputs of a run are handed out. */
typedef enum rdt_release {
  RDT_RELEASE_BARRIER = 0, /* all together, after the last check of the whole network */
  RDT_RELEASE_STREAM = 1   /* each as soon as all that it was computed from has been checked, and itself; what is found
                              later in the run does not concern it */
} rdt_release;
typedef struct rdt_output {
  size_t number; /* in the model's order */
  const char *name;
  rdt_tensor tensor;   /* dense row-major; valid until the next run */
  rdt_verdict verdict; /* the worst of all that it was computed from */
} rdt_output;
/* Called once for each output of a run, from within rdt_model_run, when the output has its verdict: never before a
 * fault in what it was computed from is repaired. Where one could not be repaired it is called only under
 * RDT_ON_FAULT_REPORT, and the output says RDT_DETECTED. It may ask the model, but not run or plan it. Under
 * RDT_RELEASE_BARRIER no output is handed out by a run that fails; under RDT_RELEASE_STREAM those before the failure
 * have been, and they are right. */
typedef void (*rdt_output_fn)(const rdt_output *output, void *user);
RDT_API void rdt_model_on_output(rdt_model *m, rdt_release when, rdt_output_fn fn, void *user); /* NULL: nobody */
/* View of output i of the last run, dense row-major; valid until the next run. */
RDT_API RDT_MUST_USE rdt_status rdt_model_output(rdt_model *m, size_t i, rdt_tensor *out);

/* What a planned network holds in memory, in bytes. */
typedef struct rdt_model_memory {
  size_t constants;   /* weights as the model has them, mapped files included */
  size_t packed;      /* weights once more, as the kernels want them */
  size_t activations; /* one block, in which values share places that are never needed at the same time */
  size_t live;        /* the largest sum of activations that are needed at one time: activations can be no less */
  size_t outputs;     /* published copies */
} rdt_model_memory;
/* Errors: RDT_ERR_ARG where the network is not planned yet. */
RDT_API RDT_MUST_USE rdt_status rdt_model_memory_info(const rdt_model *m, rdt_model_memory *info);

/* Nodes, in the order in which they run: what they are, and what was found out about each in the last run.
 * Errors: RDT_ERR_ARG there is no node i, or the network is not planned yet. */
RDT_API size_t rdt_model_node_count(const rdt_model *m);
RDT_API rdt_status rdt_model_node_info(const rdt_model *m, size_t i, rdt_node_info *info);
RDT_API rdt_status rdt_model_node_result(const rdt_model *m, size_t i, rdt_result *result);
/* Calls fn for every candidate of node i: what was taken, what lost, what refused and why. Errors: the same. */
RDT_API rdt_status rdt_model_explain(const rdt_model *m, size_t i, rdt_choice_fn fn, void *user);

/* Arms one fault for the next run: KIND@SITE[,layer=GLOB][,at=I/J][,seed=S]. NULL disarms.
 * Errors: RDT_ERR_ARG with what is wrong in the spec. */
RDT_API RDT_MUST_USE rdt_status rdt_model_inject(rdt_model *m, const char *spec);
/* What the last armed fault did: "bit 30 of accum, node conv2, element 17: 0.5 -> 1.7e38"; "" if it hit nothing. */
RDT_API const char *rdt_model_injected(const rdt_model *m);

#ifdef __cplusplus
}
#endif
#endif
