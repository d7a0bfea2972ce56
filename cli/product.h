/* Products of files: what `redoubt matmul` and `redoubt bench outofcore` share. */
#ifndef RDT_CLI_PRODUCT_H
#define RDT_CLI_PRODUCT_H

#include "cli.h"
#include "outofcore/matmul.h"

typedef struct rdt_product_run {
  const rdt_settings *settings;
  rdt_context *ctx;
  rdt_matmul_job job;
  rdt_matmul_result result;
  rdt_status status;                      /* of the product */
  rdt_timeline measured, predicted, best; /* of the last one, where --trace, --timeline or --figures ask */
  cJSON *events;                          /* of the run at hand; NULL: nobody keeps them */
  bool aloud;                             /* they are printed as they come */
  rdt_reason why;
} rdt_product_run;

/* Context and job by the settings: limit, strategy, scheme, faults. */
rdt_status rdt_product_open(rdt_product_run *r, const rdt_settings *s);
void rdt_product_close(rdt_product_run *r);
/* With progress; the status is kept. RDT_OK and RDT_ERR_FAULT: there is a result. */
rdt_status rdt_product_go(rdt_product_run *r);
/* Says so where not all spans of the last one were kept. */
void rdt_product_tell_lost(const rdt_product_run *r);
/* What --trace and --timeline ask for. */
rdt_status rdt_product_draw(rdt_product_run *r);
void rdt_product_json(const rdt_product_run *r, cJSON *o); /* adds what the result says */
/* "512M", "10G": powers of 1000. 0: not a size. */
size_t rdt_bytes_of(const char *text);
const char *rdt_bytes_text(double bytes, char *buf, size_t size); /* "10.0 MB" */

#endif
