/* What `redoubt run` says: the document of its report, and the table and sentences that are made of one. */
#ifndef RDT_CLI_RUN_REPORT_H
#define RDT_CLI_RUN_REPORT_H

#include "cli.h"

typedef struct rdt_run_report {
  const rdt_settings *settings;
  rdt_session *session; /* with its report */
  char injected[512];   /* what the planted fault did; "" without one */
  rdt_tensor labels;    /* data NULL: none given; owned */
  bool has_outputs;     /* rdt_model_output may be asked */
  char **files;         /* where each output was written; NULL: nowhere */
  int exit_code;
} rdt_run_report;

cJSON *rdt_run_report_json(const rdt_run_report *r);
/* Such a document (docs/schema/run-1.json) on stdout. */
rdt_status rdt_run_report_print(const cJSON *doc, int64_t format, rdt_reason *why);

#endif
