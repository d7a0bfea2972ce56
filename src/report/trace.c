#include "report/trace.h"

#include "report/json.h"

cJSON *rdt_trace_create(void) {
  cJSON *trace = cJSON_CreateObject();
  cJSON_AddStringToObject(trace, "displayTimeUnit", "ms");
  cJSON_AddArrayToObject(trace, "traceEvents");
  return trace;
}

static cJSON *add(cJSON *trace, const char *phase, int process, int track, const char *name) {
  cJSON *e = cJSON_CreateObject();
  cJSON_AddStringToObject(e, "ph", phase);
  cJSON_AddNumberToObject(e, "pid", process);
  cJSON_AddNumberToObject(e, "tid", track);
  cJSON_AddStringToObject(e, "name", name);
  cJSON_AddItemToArray(cJSON_GetObjectItem(trace, "traceEvents"), e);
  return e;
}

static void add_name(cJSON *trace, int process, int track, const char *what, const char *name) {
  cJSON *e = add(trace, "M", process, track, what);
  cJSON_AddStringToObject(cJSON_AddObjectToObject(e, "args"), "name", name);
}

void rdt_trace_track(cJSON *trace, int process, const char *process_name, int track, const char *name) {
  add_name(trace, process, track, "process_name", process_name);
  add_name(trace, process, track, "thread_name", name);
}

cJSON *rdt_trace_event(cJSON *trace, int process, int track, const char *name, const char *kind, double begin,
                       double seconds) {
  cJSON *e = add(trace, "X", process, track, name);
  cJSON_AddStringToObject(e, "cat", kind);
  rdt_json_number(e, "ts", 1e6 * begin);
  rdt_json_number(e, "dur", 1e6 * seconds);
  return cJSON_AddObjectToObject(e, "args");
}
