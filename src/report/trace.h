/* Timelines for chrome://tracing and Perfetto: the Trace Event Format, complete events on named tracks. */
#ifndef RDT_REPORT_TRACE_H
#define RDT_REPORT_TRACE_H

#include <cjson/cJSON.h>

cJSON *rdt_trace_create(void); /* print with rdt_json_write; NULL without memory */
/* Names a process (a group of tracks) and one of its tracks. */
void rdt_trace_track(cJSON *trace, int process, const char *process_name, int track, const char *name);
/* A box from begin on, both in seconds; returns its arguments, to be filled: they are shown when it is selected. */
cJSON *rdt_trace_event(cJSON *trace, int process, int track, const char *name, const char *kind, double begin,
                       double seconds);

#endif
