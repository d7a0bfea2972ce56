/* Cases of the ONNX backend suite: a folder with model.onnx and test_data_set_N/{input,output}_K.pb each. */
#ifndef RDT_CLI_CONFORMANCE_H
#define RDT_CLI_CONFORMANCE_H

#include "cli.h"

typedef enum rdt_case_outcome {
  RDT_CASE_PASSED,
  RDT_CASE_FAILED,
  RDT_CASE_UNSUPPORTED,
  RDT_CASE_OUTCOMES
} rdt_case_outcome;
extern const char *const rdt_case_outcome_names[RDT_CASE_OUTCOMES];

typedef struct rdt_case {
  char *folder;
  char *name;     /* below the searched folder, fit to be printed: "node/test_add" */
  char group[64]; /* "node" */
  char op[128];   /* "Add"; what the case is booked under */
  rdt_case_outcome outcome;
  rdt_reason why;      /* of what did not pass */
  rdt_verdict verdict; /* the worst of its runs */
  int64_t checks, suspects;
  double seconds;
} rdt_case;

typedef struct rdt_conformance {
  const rdt_settings *settings;
  bool ended; /* all cases have run */
  rdt_context *ctx;
  rdt_case *cases; /* sorted by name */
  size_t n_cases, room;
  rdt_reason why;
} rdt_conformance;

/* Fills in what the case is booked under, runs it, compares. Other than RDT_OK only for what ends the whole run:
 * RDT_ERR_CANCELLED. */
rdt_status rdt_case_run(rdt_context *ctx, rdt_case *c);
/* The case's reason without the node in front: what cases of an operator have in common. */
const char *rdt_case_cause(const rdt_case *c);

size_t rdt_conformance_count(const rdt_conformance *c, rdt_case_outcome outcome);
bool rdt_conformance_text(const rdt_conformance *c, bool markdown); /* false: memory was short */
cJSON *rdt_conformance_json(const rdt_conformance *c);
rdt_status rdt_conformance_junit(const rdt_conformance *c, const char *path, rdt_reason *why);

#endif
