#include "report/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/text.h"
#include "net/file.h"

rdt_status rdt_json_write(const cJSON *doc, const char *path, rdt_reason *why) {
  char *text = cJSON_Print(doc);
  if (!text) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory while writing a report");
  rdt_status status = RDT_OK;
  if (path)
    status = rdt_file_write(path, text, strlen(text), "\n", 1, why);
  else
    puts(text);
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
