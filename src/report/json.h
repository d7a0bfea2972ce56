/* JSON documents. */
#ifndef RDT_REPORT_JSON_H
#define RDT_REPORT_JSON_H

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/error.h"

/* {"schema": "redoubt.<kind>/1", "redoubt": version} */
cJSON *rdt_document(const char *kind);
/* The document with a line break at its end, to path: whole or not at all. */
rdt_status rdt_json_write(const cJSON *doc, const char *path, rdt_reason *why);
/* A number; JSON has no Inf and no NaN: null stands for them. */
void rdt_json_number(cJSON *object, const char *name, double value);
/* A string out of a file, tamed (core/text.h). */
void rdt_json_text(cJSON *object, const char *name, const char *value);
/* "time": "2026-01-31T12:00:00.250Z" */
void rdt_json_time(cJSON *object, const struct timespec *time);
/* A list of dimensions, null for an open one; null for no shape (rank < 0). */
cJSON *rdt_json_shape(int rank, const int64_t *shape);

/* All of a text as one document: nothing but white space may follow. NULL: it is none (or no memory). */
cJSON *rdt_json_parse(const char *text, size_t bytes);
/* Reading: of members that are not there, or of another kind, NaN, "" and false. */
double rdt_json_real(const cJSON *object, const char *name);
const char *rdt_json_string(const cJSON *object, const char *name);
bool rdt_json_true(const cJSON *object, const char *name);
/* "8x1x8x8" with by = "x", of what rdt_json_shape makes */
const char *rdt_json_shape_text(const cJSON *shape, const char *by, char *buf, size_t size);
const cJSON *rdt_json_list(const cJSON *object, const char *name); /* to be walked with cJSON_ArrayForEach */

#endif
