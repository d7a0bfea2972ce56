#include "campaign/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "report/json.h"

typedef struct reading {
  rdt_found *f;
  int64_t shard, shards, next;
} reading;

static rdt_status take(void *user, const rdt_trial *t, const char *line, rdt_reason *why) {
  reading *r = user;
  (void)line;
  const int64_t expected = r->next * r->shards + r->shard - 1;
  if (t->id != expected)
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: trial %lld is where %lld belongs", r->f->dir, (long long)t->id,
                    (long long)expected);
  r->next++;
  return rdt_tally_add(&r->f->tally, t, r->f->repairs, why);
}

static bool has_shard(const rdt_found *f, int64_t shard) {
  return f->shards[(shard - 1) / 8] >> (shard - 1) % 8 & 1;
}

void rdt_found_shards(const rdt_found *f, char *buf, size_t size) {
  size_t used = 0;
  *buf = '\0';
  for (int64_t i = 1; i <= f->n_shards && used < size; i++) {
    if (!has_shard(f, i)) continue;
    const int64_t from = i;
    while (i < f->n_shards && has_shard(f, i + 1)) i++;
    used += (size_t)snprintf(buf + used, size - used, "%lld", (long long)from);
    if (used < size && i > from) used += (size_t)snprintf(buf + used, size - used, "-%lld", (long long)i);
    if (used < size) used += (size_t)snprintf(buf + used, size - used, " ");
  }
  if (used < size) snprintf(buf + used, size - used, "of %lld", (long long)f->n_shards);
}

/* Where the trials of this head belong. */
static rdt_status place(rdt_study *s, const cJSON *head, const char *dir, rdt_found **out, rdt_reason *why) {
  const int64_t shard = (int64_t)rdt_json_real(head, "shard"), shards = (int64_t)rdt_json_real(head, "shards");
  rdt_found *f = NULL;
  for (int i = 0; i < s->n && !f; i++)
    if (!rdt_campaign_differs(s->list[i].head, head)) f = &s->list[i];
  if (f && f->n_shards != shards)
    return rdt_fail(why, RDT_ERR_ARG,
                    "%.160s has the campaign of %.160s in %lld parts, and not in %lld parts: trials would count twice",
                    dir, f->dir, (long long)shards, (long long)f->n_shards);
  if (f && has_shard(f, shard))
    return rdt_fail(why, RDT_ERR_ARG, "%.200s has the trials that %.200s has: they would count twice", dir, f->dir);
  if (!f) {
    if (s->n == RDT_MOST_FOUND)
      return rdt_fail(why, RDT_ERR_ARG, "more than %d campaigns are not shown side by side", RDT_MOST_FOUND);
    const char *policy = rdt_json_string(head, "on_fault");
    f = &s->list[s->n++];
    f->head = cJSON_Duplicate(head, true);
    f->repairs = strcmp(policy, "recompute") == 0 || strcmp(policy, "correct") == 0;
    f->clean = strcmp(rdt_json_string(head, "fault"), "none") == 0;
    snprintf(f->dir, sizeof f->dir, "%s", dir);
    f->n_shards = shards;
    f->shards = rdt_calloc((size_t)(shards + 7) / 8, 1);
    if (!f->head || !f->shards) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
    RDT_TRY(rdt_tally_expect(&f->tally, head, why));
  }
  f->shards[(shard - 1) / 8] |= (unsigned char)(1 << (shard - 1) % 8);
  *out = f;
  return RDT_OK;
}

rdt_status rdt_study_add(rdt_study *s, const char *dir, rdt_reason *why) {
  cJSON *head;
  rdt_found *f = NULL;
  int64_t whole;
  RDT_TRY(rdt_folder_read_head(dir, &head, why));
  if (!head)
    return rdt_fail(why, RDT_ERR_IO, "%.300s has no campaign.json: `redoubt inject ... -o DIR` writes it", dir);
  const double shard = rdt_json_real(head, "shard"), shards = rdt_json_real(head, "shards");
  const bool whole_numbers = shard == floor(shard) && shards == floor(shards);
  rdt_status status = whole_numbers && shard >= 1.0 && shards >= shard && shards <= 0x1p20
                          ? place(s, head, dir, &f, why)
                          : rdt_fail(why, RDT_ERR_FORMAT, "%.300s: campaign.json does not say which shard", dir);
  if (status == RDT_OK) {
    reading r = {.f = f, .shard = (int64_t)shard, .shards = (int64_t)shards};
    status = rdt_folder_read(dir, take, &r, &whole, why);
  }
  cJSON_Delete(head);
  return status;
}

static bool alike(const rdt_study *s, const char *member) {
  for (int i = 1; i < s->n; i++)
    if (!cJSON_Compare(cJSON_GetObjectItemCaseSensitive(s->list[0].head, member),
                       cJSON_GetObjectItemCaseSensitive(s->list[i].head, member), true))
      return false;
  return true;
}

/* The scheme that was taken, where it is one for all. */
static const char *scheme_of(const rdt_found *f) {
  const cJSON *layers = rdt_json_list(f->head, "layers");
  return cJSON_GetArraySize(layers) == 1 ? rdt_json_string(cJSON_GetArrayItem(layers, 0), "scheme")
                                         : rdt_json_string(f->head, "scheme");
}

void rdt_study_name(rdt_study *s) {
  static const char *const more[] = {"target", "fault", "on_fault", "isa"};
  for (int i = 0; i < s->n; i++) {
    rdt_found *f = &s->list[i];
    size_t used = (size_t)snprintf(f->label, sizeof f->label, "%s", scheme_of(f));
    for (size_t k = 0; k < sizeof more / sizeof *more; k++)
      if (!alike(s, more[k]) && used < sizeof f->label)
        used += (size_t)snprintf(
            f->label + used, sizeof f->label - used, ", %s",
            f->clean && strcmp(more[k], "fault") == 0 ? "without a fault" : rdt_json_string(f->head, more[k]));
  }
}

void rdt_study_clear(rdt_study *s) {
  for (int i = 0; i < s->n; i++) {
    rdt_tally_clear(&s->list[i].tally);
    rdt_free(s->list[i].shards);
    cJSON_Delete(s->list[i].head);
  }
  *s = (rdt_study){.n = 0};
}

double rdt_found_overhead(const rdt_found *f) {
  if (strcmp(rdt_json_string(f->head, "scheme"), "none") == 0) return 0.0; /* it is what others are compared with */
  const double with = rdt_json_real(f->head, "seconds"), without = rdt_json_real(f->head, "seconds_unprotected");
  return without > 0.0 ? with / without - 1.0 : NAN;
}

static const rdt_found *look(const rdt_study *s, const rdt_found *f, bool clean, const char *scheme) {
  const char *target = rdt_json_string(f->head, "target");
  for (int i = 0; i < s->n; i++) {
    const rdt_found *o = &s->list[i];
    if (o->clean == clean && strcmp(rdt_json_string(o->head, "target"), target) == 0 &&
        strcmp(rdt_json_string(o->head, "scheme"), scheme) == 0)
      return o;
  }
  return NULL;
}

const rdt_found *rdt_study_unprotected(const rdt_study *s, const rdt_found *f) {
  return look(s, f, false, "none");
}

const rdt_found *rdt_study_clean(const rdt_study *s, const rdt_found *f) {
  return look(s, f, true, rdt_json_string(f->head, "scheme"));
}
