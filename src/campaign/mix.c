#include "campaign/mix.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "report/json.h"

/* X(fault, share). Single bits (flipped, or stuck) 38 %, NaN and Inf 1 %. */
#define DEFAULT_MIX(X) \
  X("bit", 30.0)       \
  X("stuck0", 4.0)     \
  X("stuck1", 4.0)     \
  X("adjacent", 16.0)  \
  X("bits:2", 10.0)    \
  X("burst:4", 10.0)   \
  X("burst:8", 8.0)    \
  X("random", 12.0)    \
  X("zero", 5.0)       \
  X("nan", 0.5)        \
  X("inf", 0.5)

void rdt_mix_default(rdt_mix *m) {
  static const struct {
    const char *text;
    double share;
  } rows[] = {
#define X(text, share) {text, share},
      DEFAULT_MIX(X)
#undef X
  };
  *m = (rdt_mix){.n_faults = (int)(sizeof rows / sizeof *rows)};
  for (int i = 0; i < m->n_faults; i++) {
    snprintf(m->faults[i].text, RDT_MIX_TEXT, "%s", rows[i].text);
    m->faults[i].share = rows[i].share;
  }
  for (int i = 0; i < RDT_SITE_COUNT; i++) m->sites[i] = 1.0;
}

enum { LONGEST_KIND = 32 };

/* Is it a fault, with the site that it names, or with one where only a kind that goes anywhere goes? */
static rdt_status check_row(rdt_mix_row *row, rdt_reason *why) {
  char spec[RDT_MIX_TEXT + 16];
  rdt_fault f;
  for (const char *s = row->text; *s; s += rdt_text_character(s))
    if (!rdt_text_character(s))
      return rdt_fail(why, RDT_ERR_ARG, "a fault is UTF-8 without control characters; ? in layer= stands for any");
  row->sited = strchr(row->text, '@') != NULL;
  if (!row->sited && strlen(row->text) > LONGEST_KIND) /* site, layer and seed have to fit behind it */
    return rdt_fail(why, RDT_ERR_ARG, "'%.*s...' is no kind of fault; `redoubt list faults` has them", LONGEST_KIND,
                    row->text);
  if (!row->sited && strchr(row->text, ','))
    return rdt_fail(why, RDT_ERR_ARG, "'%s' names no site: KIND alone, or KIND@SITE[,...]", row->text);
  snprintf(spec, sizeof spec, "%s%s", row->text, row->sited ? "" : "@weight");
  return rdt_fault_parse(spec, &f, why);
}

rdt_status rdt_mix_one(const char *spec, rdt_mix *m, rdt_reason *why) {
  *m = (rdt_mix){.n_faults = 1};
  rdt_fault f;
  RDT_TRY(rdt_fault_parse(spec, &f, why)); /* it says what is missing */
  if (snprintf(m->faults[0].text, RDT_MIX_TEXT, "%s", spec) >= RDT_MIX_TEXT)
    return rdt_fail(why, RDT_ERR_ARG, "the fault is longer than %d characters", RDT_MIX_TEXT - 1);
  m->faults[0].share = 1.0;
  return check_row(&m->faults[0], why);
}

/* ---- as JSON ---- */

static rdt_status take_share(const cJSON *row, const char *path, double *share, rdt_reason *why) {
  *share = rdt_json_real(row, "share");
  if (*share >= 0.0 && isfinite(*share)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_FORMAT, "%s: every row has a \"share\", a number from 0 on", path);
}

static rdt_status take_faults(const cJSON *list, const char *path, rdt_mix *m, rdt_reason *why) {
  const cJSON *one;
  double sum = 0.0;
  cJSON_ArrayForEach(one, list) {
    rdt_reason inner = {""};
    if (m->n_faults == RDT_MIX_ROWS)
      return rdt_fail(why, RDT_ERR_FORMAT, "%s: more than %d faults", path, RDT_MIX_ROWS);
    rdt_mix_row *row = &m->faults[m->n_faults++];
    const char *text = rdt_json_string(one, "fault");
    if (snprintf(row->text, RDT_MIX_TEXT, "%s", text) >= RDT_MIX_TEXT || !*text)
      return rdt_fail(why, RDT_ERR_FORMAT, "%s: every row of \"faults\" has a \"fault\" of up to %d characters", path,
                      RDT_MIX_TEXT - 1);
    if (check_row(row, &inner) != RDT_OK) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: %.250s", path, inner.text);
    RDT_TRY(take_share(one, path, &row->share, why));
    sum += row->share;
  }
  return sum > 0.0 && isfinite(sum) ? RDT_OK : rdt_fail(why, RDT_ERR_FORMAT, "%s: no fault has a share above 0", path);
}

static rdt_status take_sites(const cJSON *list, const char *path, rdt_mix *m, rdt_reason *why) {
  const cJSON *one;
  for (int s = 0; s < RDT_SITE_COUNT; s++) m->sites[s] = list ? 0.0 : 1.0;
  cJSON_ArrayForEach(one, list) {
    const char *name = rdt_json_string(one, "site");
    int s = 0;
    while (s < RDT_SITE_COUNT && strcmp(name, rdt_site_name((rdt_site)s)) != 0) s++;
    if (s == RDT_SITE_COUNT)
      return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: no site '%.60s'; `redoubt list sites` has them", path, name);
    RDT_TRY(take_share(one, path, &m->sites[s], why));
  }
  return RDT_OK;
}

rdt_status rdt_mix_parse(const char *text, size_t bytes, const char *path, rdt_mix *m, rdt_reason *why) {
  cJSON *doc = rdt_json_parse(text, bytes);
  rdt_status status = RDT_OK;
  *m = (rdt_mix){.n_faults = 0};
  if (strcmp(rdt_json_string(doc, "schema"), "redoubt.mix/1") != 0)
    status = rdt_fail(why, RDT_ERR_FORMAT, "%s is no JSON document with \"schema\": \"redoubt.mix/1\"", path);
  if (status == RDT_OK) status = take_faults(rdt_json_list(doc, "faults"), path, m, why);
  if (status == RDT_OK) status = take_sites(rdt_json_list(doc, "sites"), path, m, why);
  cJSON_Delete(doc);
  return status;
}

cJSON *rdt_mix_json(const rdt_mix *m) {
  cJSON *doc = cJSON_CreateObject();
  cJSON_AddStringToObject(doc, "schema", "redoubt.mix/1");
  cJSON *list = cJSON_AddArrayToObject(doc, "faults");
  for (int i = 0; i < m->n_faults; i++) {
    cJSON *row = cJSON_CreateObject();
    rdt_json_text(row, "fault", m->faults[i].text);
    cJSON_AddNumberToObject(row, "share", m->faults[i].share);
    cJSON_AddItemToArray(list, row);
  }
  list = cJSON_AddArrayToObject(doc, "sites");
  for (int s = 0; s < RDT_SITE_COUNT; s++) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "site", rdt_site_name((rdt_site)s));
    cJSON_AddNumberToObject(row, "share", m->sites[s]);
    cJSON_AddItemToArray(list, row);
  }
  return doc;
}

/* ---- drawing ---- */

typedef struct dice {
  rdt_fault f;
  uint64_t stream;
} dice;

static uint64_t roll(dice *d) {
  return rdt_fault_random(&d->f, d->stream++);
}

static double roll_share(dice *d) {
  return (double)(roll(d) >> 11) * 0x1p-53;
}

/* The first row at which the running sum of shares passes x of all; shares are not all 0. */
static int choose(double x, int n, double (*share)(const void *user, int i), const void *user) {
  double all = 0.0, sum = 0.0;
  int last = -1;
  for (int i = 0; i < n; i++) all += share(user, i);
  for (int i = 0; i < n; i++) {
    const double s = share(user, i);
    if (!(s > 0.0)) continue;
    last = i;
    sum += s;
    if (x * all < sum) break;
  }
  return last;
}

static double fault_share(const void *user, int i) {
  return ((const rdt_mix *)user)->faults[i].share;
}

typedef struct sites {
  const rdt_mix *m;
  int spots[RDT_SITE_COUNT];
} sites;

static double site_share(const void *user, int i) {
  const sites *s = user;
  return s->spots[i] ? s->m->sites[i] : 0.0;
}

/* A glob that names the layer; characters with a meaning in specs become '?', the end of a name that is too long '*'.
 */
static void layer_glob(const char *name, char *glob, size_t size) {
  const bool cut = snprintf(glob, size, "%s", name) >= (int)size;
  for (char *c = glob; *c; c++)
    if (strchr(",*?[]\\", *c)) *c = '?';
  if (cut) glob[size - 2] = '*';
}

rdt_status rdt_mix_draw(const rdt_mix *m, uint64_t seed, int64_t id, const rdt_spot *spots, int n,
                        const char *const *names, char *spec, size_t size, rdt_reason *why) {
  dice d = {.f = {.seed = seed}, .stream = 4 * (uint64_t)id};
  sites s = {.m = m};
  char glob[128];
  const int at = choose(roll_share(&d), m->n_faults, fault_share, m);
  const rdt_mix_row *row = &m->faults[at < 0 ? 0 : at];
  const uint64_t own = roll(&d) >> 16;
  if (row->sited) {
    if (strstr(row->text, ",seed="))
      snprintf(spec, size, "%s", row->text);
    else
      snprintf(spec, size, "%s,seed=%" PRIu64, row->text, own);
    return RDT_OK;
  }
  for (int i = 0; i < n; i++) s.spots[spots[i].site]++;
  const int site = choose(roll_share(&d), RDT_SITE_COUNT, site_share, &s);
  if (site < 0) return rdt_fail(why, RDT_ERR_ARG, "nothing here can be hit at the sites that the mix names");
  int left = (int)(roll(&d) % (uint64_t)s.spots[site]), i = 0;
  while ((int)spots[i].site != site || left-- > 0) i++;
  layer_glob(names[spots[i].layer], glob, sizeof glob);
  snprintf(spec, size, "%s@%s,layer=%s,seed=%" PRIu64, row->text, rdt_site_name((rdt_site)site), glob, own);
  return RDT_OK;
}
