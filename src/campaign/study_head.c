/* What a campaign.json from somewhere must say before its trials are counted. */
#include <math.h>

#include "campaign/study.h"
#include "report/json.h"

typedef enum kind { TEXT, REAL, WHOLE } kind;

static bool is_good(const cJSON *o, const char *name, kind k, double least, double most) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
  const double x = cJSON_IsNumber(item) ? item->valuedouble : NAN;
  if (k == TEXT) return cJSON_IsString(item);
  return x >= least && x <= most && (k == REAL || x == floor(x));
}

static bool is_whole_mix(const cJSON *head) {
  const cJSON *mix = cJSON_GetObjectItemCaseSensitive(head, "mix");
  return cJSON_IsNull(mix) || cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(mix, "faults"));
}

static bool are_layers(const cJSON *head) {
  const cJSON *layer, *list = cJSON_GetObjectItemCaseSensitive(head, "layers");
  cJSON_ArrayForEach(layer, list) {
    if (!is_good(layer, "name", TEXT, 0.0, 0.0) || !is_good(layer, "scheme", TEXT, 0.0, 0.0)) return false;
  }
  return cJSON_IsArray(list) && cJSON_GetArraySize(list) > 0;
}

rdt_status rdt_study_head(const cJSON *head, const char *dir, rdt_reason *why) {
  static const struct {
    const char *name;
    kind kind;
    double least, most;
  } members[] = {{"redoubt", TEXT, 0.0, 0.0},    {"target", TEXT, 0.0, 0.0},    {"fault", TEXT, 0.0, 0.0},
                 {"scheme", TEXT, 0.0, 0.0},     {"on_fault", TEXT, 0.0, 0.0},  {"isa", TEXT, 0.0, 0.0},
                 {"lambda", REAL, 0.0, 0x1p53},  {"until_ci", REAL, 0.0, 1.0},  {"seed", WHOLE, 0.0, 0x1p53},
                 {"inputs", WHOLE, 0.0, 0x1p53}, {"batch", WHOLE, 0.0, 0x1p53}, {"trials", WHOLE, 1.0, 0x1p53},
                 {"shards", WHOLE, 1.0, 0x1p20}};
  const char *bad = NULL;
  for (size_t i = 0; i < sizeof members / sizeof *members && !bad; i++)
    if (!is_good(head, members[i].name, members[i].kind, members[i].least, members[i].most)) bad = members[i].name;
  if (!bad && !is_good(head, "shard", WHOLE, 1.0, rdt_json_real(head, "shards"))) bad = "shard";
  if (!bad && !is_whole_mix(head)) bad = "mix";
  if (!bad && !are_layers(head)) bad = "layers";
  if (bad)
    return rdt_fail(why, RDT_ERR_FORMAT,
                    "%.300s: \"%s\" of campaign.json is missing, or not what `redoubt inject -o` writes there", dir,
                    bad);
  if (rdt_json_real(head, "until_ci") > 0.0 && rdt_json_real(head, "shards") > 1.0)
    return rdt_fail(why, RDT_ERR_FORMAT,
                    "%.300s is a shard that stopped by what it had seen itself (--until-ci): with others it makes no "
                    "campaign; run the shards again with --n",
                    dir);
  return RDT_OK;
}
