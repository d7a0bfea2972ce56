#include "campaign/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/json.h"

static const struct {
  const char *name;
  bool noticed;
  const char *text;
} fates[] = {
#define X(id, name, noticed, text) {name, noticed, text},
#include "campaign/fates.def"
#undef X
};
static const char *const effects[] = {"none", "below", "cancelled", "above"};

const char *rdt_fate_name(rdt_fate f) {
  return (unsigned)f < RDT_FATE_COUNT ? fates[f].name : "unknown";
}

const char *rdt_fate_text(rdt_fate f) {
  return (unsigned)f < RDT_FATE_COUNT ? fates[f].text : "unknown";
}

bool rdt_fate_noticed(rdt_fate f) {
  return (unsigned)f < RDT_FATE_COUNT && fates[f].noticed;
}

const char *rdt_effect_name(rdt_effect e) {
  return (unsigned)e < RDT_EFFECT_COUNT ? effects[e] : "unknown";
}

bool rdt_trial_missed(const rdt_trial *t) {
  return t->fate != RDT_FATE_ABSENT && !t->noticed && t->effect == RDT_EFFECT_ABOVE;
}

const char *rdt_trial_reproach(const rdt_trial *t, bool repairs) {
  if (t->fate == RDT_FATE_DUE) return t->claimed ? "crash, hang or error" : ""; /* crashes are claimed always */
  if (t->fate == RDT_FATE_MISCORRECTED) return "made worse";
  if (t->fate == RDT_FATE_OUTVOTED && t->claimed) return "outvoted inside a claim";
  if (t->fate == RDT_FATE_DETECTED && repairs) return "not repaired";
  if (strcmp(t->spec, "none") == 0)
    return t->faults > 0                                             ? "false report"
           : t->fate == RDT_FATE_SDC || t->fate == RDT_FATE_CRITICAL ? "another result without a fault"
                                                                     : "";
  return rdt_trial_missed(t) && t->claimed ? "missed inside a claim" : "";
}

bool rdt_trial_fails(const rdt_trial *t, bool repairs) {
  return *rdt_trial_reproach(t, repairs) != '\0';
}

/* ---- as a line ---- */

/* The members that are numbers, once for both ways. */
#define INTEGERS(X) X(changed, -1) X(wrong, 0) X(checks, 0) X(suspects, 0) X(faults, 0) X(unchecked, 0) /* least */
#define REALS(X) X(error) X(weighted) X(floor) X(ratio) X(residual) X(bound) X(left) X(stated)

char *rdt_trial_print(const rdt_trial *t) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "id", (double)t->id);
  cJSON_AddStringToObject(o, "fault", t->spec);
  cJSON_AddStringToObject(o, "fate", rdt_fate_name(t->fate));
  cJSON_AddStringToObject(o, "effect", rdt_effect_name(t->effect));
  cJSON_AddBoolToObject(o, "noticed", t->noticed);
  cJSON_AddBoolToObject(o, "claimed", t->claimed);
  cJSON_AddStringToObject(o, "site", rdt_site_name(t->site));
  cJSON_AddStringToObject(o, "kind", rdt_fault_kind_name(t->kind));
  cJSON_AddNumberToObject(o, "bit", t->bit);
  rdt_json_text(o, "layer", t->layer);
  cJSON_AddStringToObject(o, "scheme", t->scheme);
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(t->verdict));
  cJSON_AddStringToObject(o, "diagnosis", rdt_diagnosis_name(t->diagnosis));
#define X(name) rdt_json_number(o, #name, t->name);
  REALS(X)
#undef X
#define X(name, least) cJSON_AddNumberToObject(o, #name, (double)t->name);
  INTEGERS(X)
#undef X
  rdt_json_text(o, "did", t->did);
  char *text = cJSON_PrintUnformatted(o);
  cJSON_Delete(o);
  return text;
}

static bool take_text(const cJSON *o, const char *name, char *to, size_t size) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, name));
  return text && snprintf(to, size, "%s", text) < (int)size;
}

/* The place of a member's text in a list. */
static bool take_word(const cJSON *o, const char *name, const char *(*words)(int i), int n, int *to) {
  const char *text = rdt_json_string(o, name);
  for (*to = 0; *to < n; ++*to)
    if (strcmp(text, words(*to)) == 0) return true;
  return false;
}

static const char *fate_word(int i) {
  return rdt_fate_name((rdt_fate)i);
}
static const char *effect_word(int i) {
  return rdt_effect_name((rdt_effect)i);
}
static const char *site_word(int i) {
  return rdt_site_name((rdt_site)i);
}
static const char *kind_word(int i) {
  return rdt_fault_kind_name((rdt_fault_kind)i);
}
static const char *verdict_word(int i) {
  return rdt_verdict_name((rdt_verdict)i);
}
static const char *diagnosis_word(int i) {
  return rdt_diagnosis_name((rdt_diagnosis)i);
}

/* A whole number that a double keeps. */
static bool take_integer(const cJSON *o, const char *name, int64_t least, int64_t *to) {
  const double x = rdt_json_real(o, name);
  if (!(x >= (double)least && x <= 0x1p53) || x != floor(x)) return false;
  *to = (int64_t)x;
  return true;
}

/* null stands for what is not finite. */
static bool take_real(const cJSON *o, const char *name, double *to) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
  *to = cJSON_IsNull(item) ? INFINITY : rdt_json_real(o, name);
  return !isnan(*to);
}

static bool take_bool(const cJSON *o, const char *name, bool *to) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);
  *to = cJSON_IsTrue(item);
  return cJSON_IsBool(item);
}

/* The first member that is not there, or not what it should be; NULL: all is well. */
static const char *take(const cJSON *o, rdt_trial *t) {
  int word;
  int64_t bit;
#define TAKE(name, condition) \
  if (!(condition)) return name
#define WORD(name, field, type, words, count)                 \
  TAKE(name, take_word(o, name, words, (int)(count), &word)); \
  t->field = (type)word
  TAKE("id", take_integer(o, "id", 0, &t->id));
  TAKE("fault", take_text(o, "fault", t->spec, sizeof t->spec));
  WORD("fate", fate, rdt_fate, fate_word, RDT_FATE_COUNT);
  WORD("effect", effect, rdt_effect, effect_word, RDT_EFFECT_COUNT);
  TAKE("noticed", take_bool(o, "noticed", &t->noticed));
  TAKE("claimed", take_bool(o, "claimed", &t->claimed));
  WORD("site", site, rdt_site, site_word, RDT_SITE_COUNT);
  WORD("kind", kind, rdt_fault_kind, kind_word, RDT_FAULT_KIND_COUNT);
  TAKE("bit", take_integer(o, "bit", -1, &bit) && bit < 64);
  t->bit = (int)bit;
  TAKE("layer", take_text(o, "layer", t->layer, sizeof t->layer));
  TAKE("scheme", take_text(o, "scheme", t->scheme, sizeof t->scheme));
  WORD("verdict", verdict, rdt_verdict, verdict_word, RDT_DETECTED + 1);
  WORD("diagnosis", diagnosis, rdt_diagnosis, diagnosis_word, RDT_DIAG_COUNT);
#define X(name) TAKE(#name, take_real(o, #name, &t->name));
  REALS(X)
#undef X
#define X(name, least) TAKE(#name, take_integer(o, #name, least, &t->name));
  INTEGERS(X)
#undef X
  TAKE("did", take_text(o, "did", t->did, sizeof t->did));
#undef WORD
#undef TAKE
  return NULL;
}

rdt_status rdt_trial_parse(const char *line, size_t bytes, rdt_trial *t, rdt_reason *why) {
  cJSON *o = rdt_json_parse(line, bytes);
  *t = (rdt_trial){.bit = -1};
  if (!cJSON_IsObject(o)) {
    cJSON_Delete(o);
    return rdt_fail(why, RDT_ERR_FORMAT, "no JSON object");
  }
  const char *wrong = take(o, t);
  cJSON_Delete(o);
  return wrong ? rdt_fail(why, RDT_ERR_FORMAT, "\"%s\" is missing, or not what a trial has there", wrong) : RDT_OK;
}
