/* Reports that come from files: whole, of this kind, with what readers of the document rely on. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/memory.h"
#include "report/json.h"
#include "report/report.h"
#include "report/words.h"

#define REMEDY "; write it anew with `redoubt run MODEL.onnx ... --report FILE`"
enum { MAX_BYTES = 64 << 20, MAX_VALUES = 2 << 20 };
static const double most_count = 9007199254740992.0; /* 2^53: beyond it doubles skip integers */

typedef enum kind { TEXT, COUNT, INDEX, REAL, BOOL, VERDICT, SHAPE, LIST, OBJECT } kind;

typedef struct field {
  const char *name;
  kind kind;
  bool needed;
  const struct field *of; /* of an object, or of each object of a list; ends with a name NULL */
} field;

static const field tensor[] = {{"name", TEXT, true, NULL},
                               {"dtype", TEXT, false, NULL},
                               {"shape", SHAPE, false, NULL},
                               {"file", TEXT, false, NULL},
                               {NULL}};
static const field scheme[] = {{"name", TEXT, true, NULL},           {"detects", BOOL, true, NULL},
                               {"locates", BOOL, true, NULL},        {"granularity", TEXT, true, NULL},
                               {"covers_weights", BOOL, true, NULL}, {"covers_packed", BOOL, true, NULL},
                               {"text", TEXT, true, NULL},           {NULL}};
static const field layer[] = {{"name", TEXT, true, NULL},          {"op", TEXT, true, NULL},
                              {"kernel", TEXT, true, NULL},        {"scheme", TEXT, true, NULL},
                              {"dtype", TEXT, true, NULL},         {"shape", SHAPE, true, NULL},
                              {"weights", BOOL, true, NULL},       {"on_host", TEXT, false, NULL},
                              {"verdict", VERDICT, true, NULL},    {"diagnosis", TEXT, true, NULL},
                              {"ratio", REAL, true, NULL},         {"residual", REAL, true, NULL},
                              {"bound", REAL, true, NULL},         {"floor", REAL, true, NULL},
                              {"typical", REAL, true, NULL},       {"checks", COUNT, true, NULL},
                              {"suspects", COUNT, true, NULL},     {"faults", COUNT, true, NULL},
                              {"unchecked", COUNT, true, NULL},    {"seconds", REAL, true, NULL},
                              {"seconds_check", REAL, true, NULL}, {NULL}};
static const field location[] = {
    {"row", INDEX, true, NULL}, {"column", INDEX, true, NULL}, {"element", INDEX, true, NULL}, {NULL}};
static const field rung[] = {
    {"name", TEXT, true, NULL}, {"seconds", REAL, true, NULL}, {"outcome", TEXT, true, NULL}, {NULL}};
static const field event[] = {{"run", COUNT, true, NULL},
                              {"time", TEXT, true, NULL},
                              {"core", INDEX, true, NULL},
                              {"device", TEXT, false, NULL},
                              {"multiprocessor", COUNT, false, NULL},
                              {"kind", TEXT, true, NULL},
                              {"layer", TEXT, true, NULL},
                              {"op", TEXT, true, NULL},
                              {"shape", SHAPE, true, NULL},
                              {"dtype", TEXT, true, NULL},
                              {"scheme", TEXT, true, NULL},
                              {"kernel", TEXT, true, NULL},
                              {"what", TEXT, true, NULL},
                              {"residual", REAL, true, NULL},
                              {"bound", REAL, true, NULL},
                              {"bound_rigorous", REAL, true, NULL},
                              {"location", OBJECT, true, location},
                              {"expected", REAL, false, NULL},
                              {"actual", REAL, false, NULL},
                              {"changed", INDEX, true, NULL},
                              {"rungs", LIST, true, rung},
                              {"verdict", VERDICT, true, NULL},
                              {"diagnosis", TEXT, true, NULL},
                              {"text", TEXT, true, NULL},
                              {NULL}};
static const field fault[] = {{"spec", TEXT, true, NULL}, {"did", TEXT, true, NULL}, {NULL}};
static const field class_[] = {{"class", INDEX, true, NULL}, {"score", REAL, false, NULL}, {NULL}};
static const field prediction[] = {{"class", INDEX, true, NULL},
                                   {"score", REAL, false, NULL},
                                   {"label", INDEX, false, NULL},
                                   {"others", LIST, false, class_},
                                   {NULL}};
static const field core[] = {
    {"core", COUNT, true, NULL},      {"products", COUNT, true, NULL},   {"suspects", COUNT, true, NULL},
    {"transient", COUNT, true, NULL}, {"persistent", COUNT, true, NULL}, {"checker", COUNT, true, NULL},
    {"memory", COUNT, true, NULL},    {"unknown", COUNT, true, NULL},    {NULL}};
static const field multiprocessor[] = {{"multiprocessor", COUNT, true, NULL}, {"suspects", COUNT, true, NULL},
                                       {"transient", COUNT, true, NULL},      {"persistent", COUNT, true, NULL},
                                       {"checker", COUNT, true, NULL},        {"memory", COUNT, true, NULL},
                                       {"unknown", COUNT, true, NULL},        {NULL}};
static const field document[] = {{"redoubt", TEXT, true, NULL},
                                 {"time", TEXT, true, NULL},
                                 {"host", TEXT, true, NULL},
                                 {"cpu", TEXT, true, NULL},
                                 {"microcode", TEXT, false, NULL},
                                 {"model", TEXT, true, NULL},
                                 {"isa", TEXT, true, NULL},
                                 {"threads", COUNT, true, NULL},
                                 {"device", TEXT, false, NULL},
                                 {"layer_times", TEXT, false, NULL},
                                 {"scheme", TEXT, true, NULL},
                                 {"checkpoints", COUNT, false, NULL},
                                 {"on_fault", TEXT, true, NULL},
                                 {"scrub_every", COUNT, true, NULL},
                                 {"runs", COUNT, true, NULL},
                                 {"inputs", LIST, true, tensor},
                                 {"outputs", LIST, true, tensor},
                                 {"status", TEXT, true, NULL},
                                 {"verdict", VERDICT, true, NULL},
                                 {"checks", COUNT, true, NULL},
                                 {"suspects", COUNT, true, NULL},
                                 {"faults", COUNT, true, NULL},
                                 {"unchecked", COUNT, true, NULL},
                                 {"seconds", REAL, true, NULL},
                                 {"seconds_check", REAL, true, NULL},
                                 {"memory_peak", COUNT, true, NULL},
                                 {"cores", LIST, true, core},
                                 {"multiprocessors", LIST, false, multiprocessor},
                                 {"schemes", LIST, true, scheme},
                                 {"layers", LIST, true, layer},
                                 {"events", LIST, true, event},
                                 {"events_left_out", COUNT, true, NULL},
                                 {"exit", COUNT, false, NULL},
                                 {"fault", OBJECT, false, fault},
                                 {"predictions", LIST, false, prediction},
                                 {"right", COUNT, false, NULL},
                                 {NULL}};

static bool whole_number(const cJSON *item, double least) {
  return cJSON_IsNumber(item) && item->valuedouble >= least && item->valuedouble <= most_count &&
         item->valuedouble == floor(item->valuedouble);
}

static bool is_shape(const cJSON *item) {
  const cJSON *one;
  int rank = 0;
  if (cJSON_IsNull(item)) return true;
  if (!cJSON_IsArray(item)) return false;
  cJSON_ArrayForEach(one, item) {
    if (++rank > RDT_MAX_RANK || !(cJSON_IsNull(one) || whole_number(one, 0.0))) return false;
  }
  return true;
}

/* NULL: it is of that kind. Otherwise what it should be. */
static const char *complaint(const cJSON *item, kind k) {
  switch (k) {
    case TEXT:
      return cJSON_IsString(item) ? NULL : "a text";
    case COUNT:
      return whole_number(item, 0.0) ? NULL : "a count";
    case INDEX:
      return cJSON_IsNull(item) || whole_number(item, -most_count) ? NULL : "a whole number or null";
    case REAL:
      return cJSON_IsNull(item) || (cJSON_IsNumber(item) && isfinite(item->valuedouble)) ? NULL : "a number or null";
    case BOOL:
      return cJSON_IsBool(item) ? NULL : "true or false";
    case VERDICT:
      return cJSON_IsString(item) && rdt_verdict_find(item->valuestring) <= RDT_DETECTED ? NULL
                                                                                         : "the name of a verdict";
    case SHAPE:
      return is_shape(item) ? NULL : "a shape";
    case LIST:
      return cJSON_IsArray(item) ? NULL : "a list";
    case OBJECT:
      return cJSON_IsObject(item) ? NULL : "an object";
  }
  return "";
}

static rdt_status check_fields(const cJSON *o, const char *where, const field *f, const char *path, rdt_reason *why);

static rdt_status check_inside(const cJSON *item, const char *where, const field *f, const char *path,
                               rdt_reason *why) {
  char place[96];
  const cJSON *one;
  int i = 0;
  if (f->kind == OBJECT) {
    snprintf(place, sizeof place, "%s%s.", where, f->name);
    return check_fields(item, place, f->of, path, why);
  }
  cJSON_ArrayForEach(one, item) {
    snprintf(place, sizeof place, "%s%s[%d].", where, f->name, i++);
    if (!cJSON_IsObject(one))
      return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: this report is damaged: %.*s is no object" REMEDY, path,
                      (int)strlen(place) - 1, place);
    RDT_TRY(check_fields(one, place, f->of, path, why));
  }
  return RDT_OK;
}

static rdt_status check_fields(const cJSON *o, const char *where, const field *f, const char *path, rdt_reason *why) {
  for (; f->name; f++) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, f->name);
    if (!item && !f->needed) continue;
    if (!item) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: this report lacks %s%s" REMEDY, path, where, f->name);
    const char *wanted = complaint(item, f->kind);
    if (wanted)
      return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: this report is damaged: %s%s is not %s" REMEDY, path, where,
                      f->name, wanted);
    if (f->of) RDT_TRY(check_inside(item, where, f, path, why));
  }
  return RDT_OK;
}

static rdt_status check_kind(const cJSON *doc, const char *path, rdt_reason *why) {
  const char *schema = rdt_json_string(doc, "schema"), *const wanted = "redoubt.run/1";
  if (strcmp(schema, wanted) == 0) return RDT_OK;
  if (!*schema)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: this is no report of Redoubt: it has no \"schema\"" REMEDY, path);
  if (strncmp(schema, wanted, strlen("redoubt.run/")) == 0)
    return rdt_fail(why, RDT_ERR_UNSUPPORTED,
                    "%.200s: this report is of version %.32s, and only %s can be read here: use the "
                    "redoubt that wrote it",
                    path, schema, wanted);
  return rdt_fail(why, RDT_ERR_UNSUPPORTED, "%.200s: \"%.64s\" is another document than a report of a run (%s)" REMEDY,
                  path, schema, wanted);
}

/* Before anything is unpacked: every value takes memory, and commas and brackets are where values begin. */
static bool too_many_values(const char *text, size_t bytes) {
  size_t values = 0;
  for (size_t i = 0; i < bytes; i++) values += text[i] == ',' || text[i] == '[' || text[i] == '{';
  return values > MAX_VALUES;
}

static rdt_status too_large(const char *path, rdt_reason *why) {
  return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: too large for a report: at most %d MB and %d values are read", path,
                  MAX_BYTES >> 20, MAX_VALUES);
}

rdt_status rdt_report_parse(const char *text, size_t bytes, const char *path, cJSON **out, rdt_reason *why) {
  const char *end = NULL;
  *out = NULL;
  if (bytes > MAX_BYTES || too_many_values(text, bytes)) return too_large(path, why);
  cJSON *doc = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
  if (!doc) {
    size_t line = 1;
    for (const char *p = text; end && p < end && p < text + bytes; p++) line += *p == '\n';
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: this is no JSON: it breaks off or goes wrong in line %zu" REMEDY,
                    path, line);
  }
  rdt_status status = RDT_OK;
  while (end < text + bytes && strchr(" \t\r\n", *end) && *end) end++;
  if (end < text + bytes)
    status = rdt_fail(why, RDT_ERR_FORMAT, "%.200s: there is more behind the end of the report" REMEDY, path);
  else if (!cJSON_IsObject(doc))
    status = rdt_fail(why, RDT_ERR_FORMAT, "%.200s: this is no report of Redoubt: it is no object" REMEDY, path);
  if (status == RDT_OK) status = check_kind(doc, path, why);
  if (status == RDT_OK) status = check_fields(doc, "", document, path, why);
  if (status == RDT_OK)
    *out = doc;
  else
    cJSON_Delete(doc);
  return status;
}

rdt_status rdt_report_read(const char *path, cJSON **out, rdt_reason *why) {
  void *text;
  size_t bytes;
  struct stat st;
  *out = NULL;
  if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > MAX_BYTES) return too_large(path, why);
  RDT_TRY(rdt_file_read(path, &text, &bytes, why));
  const rdt_status status = rdt_report_parse(text, bytes, path, out, why);
  rdt_free(text);
  return status;
}
