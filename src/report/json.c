#include "report/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <redoubt/context.h>

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"

cJSON *rdt_document(const char *kind) {
  char schema[64];
  cJSON *doc = cJSON_CreateObject();
  snprintf(schema, sizeof schema, strchr(kind, '/') ? "redoubt.%s" : "redoubt.%s/1", kind);
  cJSON_AddStringToObject(doc, "schema", schema);
  cJSON_AddStringToObject(doc, "redoubt", rdt_version());
  return doc;
}

rdt_status rdt_json_write(const cJSON *doc, const char *path, rdt_reason *why) {
  char *text = cJSON_Print(doc);
  if (!text) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing a report");
  const rdt_status status = rdt_file_write(path, text, strlen(text), "\n", 1, why);
  cJSON_free(text);
  return status;
}

void rdt_json_number(cJSON *object, const char *name, double value) {
  if (isfinite(value))
    cJSON_AddNumberToObject(object, name, value);
  else
    cJSON_AddNullToObject(object, name);
}

void rdt_json_text(cJSON *object, const char *name, const char *value) {
  char *text = rdt_strdup(value);
  if (!text) return;
  rdt_text_tame(text, '?');
  cJSON_AddStringToObject(object, name, text);
  rdt_free(text);
}

void rdt_json_time(cJSON *object, const struct timespec *time) {
  struct tm utc;
  char text[48];
  gmtime_r(&time->tv_sec, &utc);
  const size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(text + n, sizeof text - n, ".%03dZ", (int)(time->tv_nsec / 1000000));
  cJSON_AddStringToObject(object, "time", text);
}

cJSON *rdt_json_shape(int rank, const int64_t *shape) {
  if (rank < 0) return cJSON_CreateNull();
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < rank; i++)
    cJSON_AddItemToArray(list, shape[i] < 0 ? cJSON_CreateNull() : cJSON_CreateNumber((double)shape[i]));
  return list;
}

cJSON *rdt_json_parse(const char *text, size_t bytes) {
  const char *end = NULL;
  if (bytes == 0 || memchr(text, '\0', bytes)) return NULL; /* cJSON takes a NUL for white space */
  cJSON *doc = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
  size_t left = doc ? (size_t)(text + bytes - end) : 0;
  for (; left > 0 && strchr(" \t\r\n", *end); left--) end++;
  if (left == 0) return doc;
  cJSON_Delete(doc);
  return NULL;
}

double rdt_json_real(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

const char *rdt_json_string(const cJSON *object, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text ? text : "";
}

bool rdt_json_true(const cJSON *object, const char *name) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

const cJSON *rdt_json_list(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsArray(item) ? item : NULL;
}

const char *rdt_json_shape_text(const cJSON *shape, const char *by, char *buf, size_t size) {
  const cJSON *one;
  size_t used = 0;
  snprintf(buf, size, "%s", cJSON_IsArray(shape) ? "scalar" : "?");
  cJSON_ArrayForEach(one, shape) {
    const char *between = used ? by : "";
    if (used >= size) break;
    used += (size_t)(cJSON_IsNumber(one) ? snprintf(buf + used, size - used, "%s%.0f", between, one->valuedouble)
                                         : snprintf(buf + used, size - used, "%s?", between));
  }
  return buf;
}
