/* When blocks of a product were loaded, multiplied and stored (outofcore/timeline.h): as a picture, and for
 * chrome://tracing. */
#ifndef RDT_REPORT_SPANS_H
#define RDT_REPORT_SPANS_H

#include <cjson/cJSON.h>

#include "outofcore/timeline.h"
#include "report/svg.h"

typedef struct rdt_spans {
  const char *name; /* "deferred, measured" */
  const rdt_timeline *line;
} rdt_spans;

/* One below the other on one scale of time: loads, each product at a time, stores. RDT_ERR_FORMAT where nothing was
 * done, RDT_ERR_IO, RDT_ERR_NOMEM. Steps that a timeline has lost are told beside its name, here and in traces. */
rdt_status rdt_spans_write(const rdt_spans *list, int n, const char *title, const char *text, const char *path,
                           rdt_reason *why);
/* Tracks of a process of a trace (report/trace.h). */
void rdt_spans_trace(cJSON *trace, int process, const rdt_spans *s);

#endif
