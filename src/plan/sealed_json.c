#include "plan/sealed_json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <redoubt/context.h>

#include "check/bitsum.h"
#include "core/cpu_info.h"
#include "core/file.h"
#include "core/memory.h"

enum { SEAL = 17 };

static const char *text_of(const cJSON *object, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text ? text : "";
}

static cJSON *machine(int threads) {
  char cpu[128], microcode[32];
  cJSON *m = cJSON_CreateObject();
  cJSON_AddStringToObject(m, "cpu", rdt_cpu_name(cpu, sizeof cpu));
  cJSON_AddStringToObject(m, "microcode", rdt_cpu_microcode(microcode, sizeof microcode));
  cJSON_AddStringToObject(m, "isa", rdt_isa_name(rdt_isa_detect()));
  cJSON_AddNumberToObject(m, "threads", threads);
  return m;
}

cJSON *rdt_sealed_document(const char *schema, int threads) {
  cJSON *doc = cJSON_CreateObject();
  cJSON_AddStringToObject(doc, "schema", schema);
  cJSON_AddStringToObject(doc, "redoubt", rdt_version());
  cJSON_AddItemToObject(doc, "machine", machine(threads));
  return doc;
}

/* Of the document as it is printed without spaces and without its seal. */
static bool seal_of(const cJSON *doc, char seal[SEAL]) {
  char *text = cJSON_PrintUnformatted(doc);
  if (text) snprintf(seal, SEAL, "%016" PRIx64, rdt_bitsum(text, strlen(text)));
  cJSON_free(text);
  return text != NULL;
}

rdt_status rdt_sealed_write(cJSON *doc, const char *path, rdt_reason *why) {
  char seal[SEAL], *text = NULL;
  cJSON_DeleteItemFromObjectCaseSensitive(doc, "seal");
  if (seal_of(doc, seal) && cJSON_AddStringToObject(doc, "seal", seal)) text = cJSON_Print(doc);
  if (!text) return rdt_fail(why, RDT_ERR_NOMEM, "%.200s: out of memory while it was written", path);
  const rdt_status status = rdt_file_write(path, text, strlen(text), "\n", 1, why);
  cJSON_free(text);
  return status;
}

rdt_status rdt_sealed_read(const char *path, const char *schema, cJSON **doc, rdt_reason *why) {
  void *data;
  size_t bytes;
  char seal[SEAL];
  RDT_TRY(rdt_file_read(path, &data, &bytes, why));
  const char *rest = NULL, *const end = (const char *)data + bytes;
  cJSON *read = cJSON_ParseWithLengthOpts(data, bytes, &rest, false);
  while (read && rest < end && (isspace((unsigned char)*rest) || !*rest)) rest++;
  if (read && rest < end) { /* the seal is of the document alone */
    cJSON_Delete(read);
    read = NULL;
  }
  rdt_free(data);
  cJSON *kept = cJSON_DetachItemFromObjectCaseSensitive(read, "seal");
  rdt_status status = RDT_OK;
  if (!cJSON_IsObject(read))
    status = rdt_fail(why, RDT_ERR_FORMAT, "%.200s: is no JSON document", path);
  else if (strcmp(text_of(read, "schema"), schema) != 0)
    status =
        rdt_fail(why, RDT_ERR_FORMAT, "%.200s: its schema is '%.60s', not '%s'", path, text_of(read, "schema"), schema);
  else if (!seal_of(read, seal))
    status = rdt_fail(why, RDT_ERR_NOMEM, "%.200s: out of memory while it was read", path);
  else if (!cJSON_IsString(kept) || strcmp(kept->valuestring, seal) != 0)
    status = rdt_fail(why, RDT_ERR_FORMAT,
                      "%.200s: has changed since it was written: its seal does not match; make it "
                      "anew",
                      path);
  cJSON_Delete(kept);
  if (status != RDT_OK) cJSON_Delete(read);
  *doc = status == RDT_OK ? read : NULL;
  return status;
}

rdt_status rdt_sealed_serves(const cJSON *doc, const char *path, int threads, rdt_reason *why) {
  const cJSON *made_by = cJSON_GetObjectItemCaseSensitive(doc, "machine"), *mine;
  cJSON *here = machine(threads);
  rdt_status status = RDT_OK;
  cJSON_ArrayForEach(mine, here) {
    const cJSON *its = cJSON_GetObjectItemCaseSensitive(made_by, mine->string);
    if (cJSON_Compare(mine, its, true)) continue;
    char *a = cJSON_PrintUnformatted(its), *b = cJSON_PrintUnformatted(mine);
    status =
        rdt_fail(why, RDT_ERR_UNSUPPORTED, "%.120s: was made for another machine: %s %.100s, here %.100s; make it anew",
                 path, mine->string, a ? a : "not said", b ? b : "?");
    cJSON_free(a);
    cJSON_free(b);
    break;
  }
  cJSON_Delete(here);
  if (status == RDT_OK && strcmp(text_of(doc, "redoubt"), rdt_version()) != 0)
    status = rdt_fail(why, RDT_ERR_UNSUPPORTED, "%.200s: was made by version %.40s, this is %s; make it anew", path,
                      text_of(doc, "redoubt"), rdt_version());
  return status;
}

rdt_status rdt_cache_path(const char *name, char *path, size_t size, rdt_reason *why) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const bool own = cache && *cache == '/'; /* the specification: relative ones are to be ignored */
  if (!own && !(home && *home))
    return rdt_fail(why, RDT_ERR_IO, "neither XDG_CACHE_HOME nor HOME says where a cache may lie; set one of them");
  const int n = snprintf(path, size, "%s%s/redoubt/%s", own ? cache : home, own ? "" : "/.cache", name);
  if (n < 0 || (size_t)n >= size) return rdt_fail(why, RDT_ERR_IO, "the path of the cache folder is too long");
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    const int code = mkdir(path, 0700) == 0 ? 0 : errno;
    if (code != 0 && code != EEXIST) {
      rdt_file_fail(why, path, "made", code, "; set XDG_CACHE_HOME to a folder that can be written");
      return RDT_ERR_IO;
    }
    *slash = '/';
  }
  return RDT_OK;
}
