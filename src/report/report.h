/* A report inside the house: what was collected, and the document that it becomes. */
#ifndef RDT_REPORT_REPORT_H
#define RDT_REPORT_REPORT_H

#include <cjson/cJSON.h>
#include <redoubt/report.h>
#include <stdbool.h>
#include <time.h>

#include "core/error.h"

/* A copy of an event that outlives the callback. */
typedef struct rdt_kept_event {
  rdt_event event; /* strings are owned */
  int64_t run;     /* which run it belongs to, from 1; 0: one that only warmed up */
  struct timespec time;
} rdt_kept_event;
enum { RDT_MAX_EVENTS = 1000 };

struct rdt_report {
  rdt_model *model;
  rdt_status status;    /* of the last run */
  rdt_run_result total; /* summed over the runs; verdict: the worst */
  rdt_result *nodes;    /* the same for each node */
  size_t n_nodes;
  bool booked;            /* any run */
  bool layer_times;       /* rdt_model_time_layers took those of layers */
  int64_t runs;           /* made and timed */
  int64_t run;            /* that events are booked to */
  rdt_kept_event *events; /* the first RDT_MAX_EVENTS */
  int n_events;
  int64_t seen; /* events, kept or not */
};

/* Adds one run's result to a sum. */
void rdt_result_add(rdt_result *sum, const rdt_result *one);
/* As rdt_report_run; a run that is not timed only adds to the counts. */
void rdt_report_book(rdt_report *r, rdt_status status, const rdt_run_result *result, bool timed);
cJSON *rdt_report_cores(const rdt_context *ctx);           /* counters of the cores, as a list */
cJSON *rdt_report_multiprocessors(const rdt_context *ctx); /* those of the device's multiprocessors; may be empty */
/* docs/schema/run-1.json, without what only a program knows. NULL where memory is short. */
cJSON *rdt_report_document(const rdt_report *r);
/* read.c: such a document from outside, checked; path for messages. The caller frees *out with cJSON_Delete. Errors:
 * RDT_ERR_IO, RDT_ERR_FORMAT, RDT_ERR_UNSUPPORTED another document or version, RDT_ERR_NOMEM too large. */
rdt_status rdt_report_parse(const char *text, size_t bytes, const char *path, cJSON **out, rdt_reason *why);
rdt_status rdt_report_read(const char *path, cJSON **out, rdt_reason *why);

#endif
