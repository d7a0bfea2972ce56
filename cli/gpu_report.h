/* What `redoubt plan --device cuda:N` found, as a document (docs/schema/plan-gpu-1.json), and the document for people.
 */
#ifndef RDT_CLI_GPU_REPORT_H
#define RDT_CLI_GPU_REPORT_H

#include "cli.h"
#include "plan/products.h"

typedef struct rdt_gpu_report {
  const rdt_products *products;
  const rdt_track *track;
  rdt_demand demand;
  rdt_protocol protocol;
  bool model;                /* chosen by estimates */
  double mhz[2], celsius[2]; /* before and after; NaN: nobody says */
  unsigned complaints;       /* of checks of clean data */
} rdt_gpu_report;

/* RDT_ERR_UNSUPPORTED: nothing may be chosen for a product. *doc: cJSON_Delete */
rdt_status rdt_gpu_report_make(const rdt_gpu_report *r, cJSON **doc, rdt_reason *why);
/* RDT_FORMAT_TEXT, _MD, _CSV; layers: those of each network as well. false: no memory */
bool rdt_gpu_report_print(const cJSON *doc, int64_t format, bool layers);
/* Networks that the plan slows down by more than this share, with commas; "" where there are none. */
void rdt_gpu_report_over(const cJSON *doc, double most, char *text, size_t size);

#endif
