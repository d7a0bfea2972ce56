/* JSON documents. */
#ifndef RDT_REPORT_JSON_H
#define RDT_REPORT_JSON_H

#include <cjson/cJSON.h>

#include "core/error.h"

/* The document with a line break at its end: to path, whole or not at all, or to standard output where path is NULL. */
rdt_status rdt_json_write(const cJSON *doc, const char *path, rdt_reason *why);
/* A number; JSON has no Inf and no NaN: null stands for them. */
void rdt_json_number(cJSON *object, const char *name, double value);
/* A string out of a file, tamed (core/text.h). */
void rdt_json_text(cJSON *object, const char *name, const char *value);

#endif
