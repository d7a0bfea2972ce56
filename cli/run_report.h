/* What `redoubt run` says: table, sentences, predictions, JSON. */
#ifndef RDT_CLI_RUN_REPORT_H
#define RDT_CLI_RUN_REPORT_H

#include "cli.h"

typedef struct rdt_run_report {
  const rdt_settings *settings;
  rdt_session *session;
  rdt_status status;    /* of the last run */
  rdt_run_result total; /* summed over the runs; verdict: the worst */
  rdt_result *nodes;    /* the same for each node */
  size_t n_nodes;
  int64_t runs;       /* made */
  char injected[512]; /* what the planted fault did; "" without one */
  rdt_tensor labels;  /* data NULL: none given; owned */
  bool has_outputs;   /* rdt_model_output may be asked */
  char **files;       /* where each output was written; NULL: nowhere */
  int exit_code;
} rdt_run_report;

/* Adds one run's result to a sum. */
void rdt_result_add(rdt_result *sum, const rdt_result *one);
bool rdt_run_report_text(const rdt_run_report *r, bool markdown); /* false: memory was short */
cJSON *rdt_run_report_json(const rdt_run_report *r);

#endif
