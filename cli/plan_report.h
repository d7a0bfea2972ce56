/* What `redoubt plan` found, as a document, and the document for people. */
#ifndef RDT_CLI_PLAN_REPORT_H
#define RDT_CLI_PLAN_REPORT_H

#include "cli.h"
#include "plan/device.h"
#include "plan/survey.h"

typedef struct rdt_plan_report {
  rdt_context *ctx;
  const rdt_device *device;
  bool measured, explain;
  double most_overhead;
  cJSON *sizes; /* of the document */
} rdt_plan_report;

/* Chooses for every layer, notes the choices in the context's book, and adds a size to the document. */
rdt_status rdt_plan_report_size(rdt_plan_report *r, const rdt_survey *s, cJSON *inputs, rdt_reason *why);
/* Names of layers with commas, "" where there are none: list is "over", above the most overhead, or "noisy". */
void rdt_plan_report_names(const cJSON *doc, const char *list, char *text, size_t size);
bool rdt_plan_report_print(const cJSON *doc, int64_t format); /* RDT_FORMAT_TEXT, _MD, _CSV. false: no memory */

#endif
