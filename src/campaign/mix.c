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

/* Every member of an object once, and none that nobody reads: a word that is misspelt would be one left out. */
static rdt_status check_members(const cJSON *o, const char *path, const char *what, const char *const *names, int n,
                                rdt_reason *why) {
  const cJSON *item;
  int seen[4] = {0};
  if (!cJSON_IsObject(o)) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: %s is no object", path, what);
  cJSON_ArrayForEach(item, o) {
    int i = 0;
    while (i < n && strcmp(item->string, names[i]) != 0) i++;
    if (i == n)
      return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: %s has no \"%.60s\"; docs/schema/mix-1.json has what there is",
                      path, what, item->string);
    if (seen[i]++) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: %s has \"%s\" twice", path, what, names[i]);
  }
  return RDT_OK;
}

static rdt_status check_list(const cJSON *doc, const char *path, const char *name, rdt_reason *why) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(doc, name);
  return !item || cJSON_IsArray(item) ? RDT_OK : rdt_fail(why, RDT_ERR_FORMAT, "%.200s: \"%s\" is no list", path, name);
}

static rdt_status check_sum(double sum, const char *path, const char *what, rdt_reason *why) {
  if (!isfinite(sum))
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the shares of all %ss add up to no number", path, what);
  return sum > 0.0 ? RDT_OK : rdt_fail(why, RDT_ERR_FORMAT, "%.200s: no %s has a share above 0", path, what);
}

static rdt_status take_share(const cJSON *row, const char *path, double *share, rdt_reason *why) {
  *share = rdt_json_real(row, "share");
  if (*share >= 0.0 && isfinite(*share)) return RDT_OK;
  return rdt_fail(why, RDT_ERR_FORMAT, "%s: every row has a \"share\", a number from 0 on", path);
}

static rdt_status take_faults(const cJSON *list, const char *path, rdt_mix *m, rdt_reason *why) {
  static const char *const members[] = {"fault", "share"};
  const cJSON *one;
  double sum = 0.0;
  cJSON_ArrayForEach(one, list) {
    rdt_reason inner = {""};
    RDT_TRY(check_members(one, path, "a row of \"faults\"", members, 2, why));
    if (m->n_faults == RDT_MIX_ROWS)
      return rdt_fail(why, RDT_ERR_FORMAT, "%s: more than %d faults", path, RDT_MIX_ROWS);
    rdt_mix_row *row = &m->faults[m->n_faults++];
    const char *text = rdt_json_string(one, "fault");
    if (snprintf(row->text, RDT_MIX_TEXT, "%s", text) >= RDT_MIX_TEXT || !*text)
      return rdt_fail(why, RDT_ERR_FORMAT, "%s: every row of \"faults\" has a \"fault\" of up to %d characters", path,
                      RDT_MIX_TEXT - 1);
    if (check_row(row, &inner) != RDT_OK) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: %.250s", path, inner.text);
    for (int i = 0; i < m->n_faults - 1; i++)
      if (strcmp(m->faults[i].text, row->text) == 0)
        return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the fault '%s' has two rows", path, row->text);
    RDT_TRY(take_share(one, path, &row->share, why));
    sum += row->share;
  }
  return check_sum(sum, path, "fault", why);
}

/* Does a fault ask where it shall go? */
static bool asks_site(const rdt_mix *m) {
  for (int i = 0; i < m->n_faults; i++)
    if (!m->faults[i].sited && m->faults[i].share > 0.0) return true;
  return false;
}

static rdt_status take_sites(const cJSON *list, const char *path, rdt_mix *m, rdt_reason *why) {
  static const char *const members[] = {"site", "share"};
  const cJSON *one;
  bool seen[RDT_SITE_COUNT] = {false};
  double sum = 0.0;
  for (int s = 0; s < RDT_SITE_COUNT; s++) m->sites[s] = list ? 0.0 : 1.0;
  cJSON_ArrayForEach(one, list) {
    RDT_TRY(check_members(one, path, "a row of \"sites\"", members, 2, why));
    const char *name = rdt_json_string(one, "site");
    const int s = (int)rdt_site_find(name);
    if (s == RDT_SITE_COUNT)
      return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: no site '%.60s'; `redoubt list sites` has them", path, name);
    if (seen[s]) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the site '%s' has two rows", path, name);
    seen[s] = true;
    RDT_TRY(take_share(one, path, &m->sites[s], why));
    sum += m->sites[s];
  }
  return list && (asks_site(m) || !isfinite(sum)) ? check_sum(sum, path, "site", why) : RDT_OK;
}

rdt_status rdt_mix_parse(const char *text, size_t bytes, const char *path, rdt_mix *m, rdt_reason *why) {
  static const char *const members[] = {"schema", "faults", "sites"};
  cJSON *doc = rdt_json_parse(text, bytes);
  rdt_status status = RDT_OK;
  *m = (rdt_mix){.n_faults = 0};
  if (strcmp(rdt_json_string(doc, "schema"), "redoubt.mix/1") != 0)
    status = rdt_fail(why, RDT_ERR_FORMAT, "%s is no JSON document with \"schema\": \"redoubt.mix/1\"", path);
  if (status == RDT_OK) status = check_members(doc, path, "a mix", members, 3, why);
  for (int i = 1; i < 3 && status == RDT_OK; i++) status = check_list(doc, path, members[i], why);
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

bool rdt_mix_hits_data(const rdt_mix *m) {
  bool sites = false;
  for (int s = 0; s < RDT_SITE_COUNT; s++) sites = sites || (m->sites[s] > 0.0 && !rdt_site_checks((rdt_site)s));
  for (int i = 0; i < m->n_faults; i++) {
    rdt_fault f;
    if (!(m->faults[i].share > 0.0)) continue;
    if (!m->faults[i].sited && sites) return true;
    if (m->faults[i].sited && rdt_fault_parse(m->faults[i].text, &f, NULL) == RDT_OK && !rdt_site_checks(f.site))
      return true;
  }
  return false;
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
