/* Reports: what the runs of a network found, layer by layer, for programs and for people. */
#ifndef REDOUBT_REPORT_H
#define REDOUBT_REPORT_H

#include <redoubt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Made by rdt_report_create. */
typedef struct rdt_report rdt_report;

typedef enum rdt_report_format {
  RDT_REPORT_JSON = 0, /* docs/schema/run-1.json */
  RDT_REPORT_HTML = 1  /* one page that needs nothing else: no network, no script */
} rdt_report_format;

/* A report on the runs of a model from here on; best made before it is planned. The model must outlive it. The next run
 * also measures how large the outputs of each layer are: floors are given in units of that. The caller owns *out
 * (rdt_report_destroy). Errors of all of these: RDT_ERR_NOMEM, RDT_ERR_IO with a reason in rdt_context_error. */
RDT_API RDT_MUST_USE rdt_status rdt_report_create(rdt_model *m, rdt_report **out);
RDT_API void rdt_report_destroy(rdt_report *r); /* NULL is fine */
/* Keeps an event of the run to come; of more than 1000 only the number. To be called by the context:
 * rdt_context_on_event(ctx, rdt_report_event, report), or by the caller's own callback. */
RDT_API void rdt_report_event(const rdt_event *event, void *report);
/* Adds a run: after each rdt_model_run, with its status and result. Counts are summed, the verdict is the worst. */
RDT_API void rdt_report_run(rdt_report *r, rdt_status status, const rdt_run_result *result);
/* The report as text that ends with '\0', to be freed with free(). */
RDT_API RDT_MUST_USE rdt_status rdt_report_text(const rdt_report *r, rdt_report_format format, char **text);
/* The report as a file, whole or not at all. */
RDT_API RDT_MUST_USE rdt_status rdt_report_write(const rdt_report *r, rdt_report_format format, const char *path);

#ifdef __cplusplus
}
#endif
#endif
