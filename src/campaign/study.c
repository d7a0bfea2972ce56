#include "campaign/study.h"

#include <inttypes.h>
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

static rdt_status begin(rdt_study *s, const cJSON *head, const char *dir, rdt_found **out, rdt_reason *why) {
  if (s->n == RDT_MOST_FOUND)
    return rdt_fail(why, RDT_ERR_ARG, "more than %d campaigns are not shown side by side", RDT_MOST_FOUND);
  const char *policy = rdt_json_string(head, "on_fault");
  rdt_found *f = *out = &s->list[s->n++];
  f->head = cJSON_Duplicate(head, true);
  f->repairs = strcmp(policy, "recompute") == 0 || strcmp(policy, "correct") == 0;
  f->clean = strcmp(rdt_json_string(head, "fault"), "none") == 0;
  snprintf(f->dir, sizeof f->dir, "%s", dir);
  f->n_shards = (int64_t)rdt_json_real(head, "shards");
  f->shards = rdt_calloc((size_t)(f->n_shards + 7) / 8, 1);
  if (!f->head || !f->shards) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  return rdt_tally_expect(&f->tally, head, why);
}

/* Where the trials of this head belong. */
static rdt_status place(rdt_study *s, const cJSON *head, const char *dir, rdt_found **out, rdt_reason *why) {
  const int64_t shard = (int64_t)rdt_json_real(head, "shard"), shards = (int64_t)rdt_json_real(head, "shards");
  const double trials = rdt_json_real(head, "trials");
  rdt_found *f = NULL;
  for (int i = 0; i < s->n && !f; i++)
    if (!rdt_campaign_differs(s->list[i].head, head)) f = &s->list[i];
  if (f && f->n_shards != shards)
    return rdt_fail(why, RDT_ERR_ARG,
                    "%.160s has the campaign of %.160s in %lld parts, and not in %lld parts: trials would count twice",
                    dir, f->dir, (long long)shards, (long long)f->n_shards);
  if (f && has_shard(f, shard))
    return rdt_fail(why, RDT_ERR_ARG, "%.200s has the trials that %.200s has: they would count twice", dir, f->dir);
  if (f && rdt_json_real(f->head, "trials") != trials)
    return rdt_fail(
        why, RDT_ERR_ARG,
        "%.160s is a shard of %.0f trials and %.160s of %.0f: they make no campaign; continue the one of fewer "
        "with --resume and the other's --n",
        dir, trials, f->dir, rdt_json_real(f->head, "trials"));
  if (!f) RDT_TRY(begin(s, head, dir, &f, why));
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
  rdt_status status = rdt_study_head(head, dir, why);
  if (status == RDT_OK) status = place(s, head, dir, &f, why);
  if (status == RDT_OK) {
    reading r = {
        .f = f, .shard = (int64_t)rdt_json_real(head, "shard"), .shards = (int64_t)rdt_json_real(head, "shards")};
    status = rdt_folder_read(dir, take, &r, &whole, why);
  }
  cJSON_Delete(head);
  return status;
}

const char *rdt_found_part(const rdt_found *f, char *buf, size_t size) {
  char shards[64];
  *buf = '\0';
  if (f->whole) return buf;
  rdt_found_shards(f, shards, sizeof shards);
  snprintf(buf, size, "%s%s%s%" PRId64 " of %.0f trials", f->n_shards > 1 ? "shards " : "",
           f->n_shards > 1 ? shards : "", f->n_shards > 1 ? ", " : "", f->tally.trials,
           rdt_json_real(f->head, "trials"));
  return buf;
}

/* Of all of them; which fault, of those that plant one. */
static bool alike(const rdt_study *s, const char *member) {
  const cJSON *first = NULL;
  bool any = false;
  for (int i = 0; i < s->n; i++) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(s->list[i].head, member);
    if (s->list[i].clean && strcmp(member, "fault") == 0) continue;
    if (any && (first || item) && !cJSON_Compare(first, item, true)) return false;
    first = item;
    any = true;
  }
  return true;
}

/* The scheme that was taken, where it is one for all. */
static const char *scheme_of(const rdt_found *f) {
  const cJSON *layers = rdt_json_list(f->head, "layers");
  return cJSON_GetArraySize(layers) == 1 ? rdt_json_string(cJSON_GetArrayItem(layers, 0), "scheme")
                                         : rdt_json_string(f->head, "scheme");
}

void rdt_study_name(rdt_study *s) {
  static const char *const more[] = {"target", "fault", "on_fault", "device_name", "isa"};
  for (int i = 0; i < s->n; i++) {
    rdt_found *f = &s->list[i];
    f->whole = rdt_summary_whole(f->head, &f->tally);
    size_t used = (size_t)snprintf(f->label, sizeof f->label, "%s", scheme_of(f));
    for (size_t k = 0; k < sizeof more / sizeof *more; k++)
      if (!alike(s, more[k]) && !(f->clean && strcmp(more[k], "fault") == 0) && used < sizeof f->label)
        used += (size_t)snprintf(f->label + used, sizeof f->label - used, ", %s", rdt_json_string(f->head, more[k]));
    const double votes = rdt_json_real(f->head, "checkpoints");
    if (!alike(s, "checkpoints") && votes > 0.0 && used < sizeof f->label)
      used += (size_t)snprintf(f->label + used, sizeof f->label - used, ", --checkpoints %.0f", votes);
    if (f->clean && used < sizeof f->label)
      used += (size_t)snprintf(f->label + used, sizeof f->label - used, ", without a fault");
    if (!f->whole) { /* whoever shows it shows this, too */
      static const char part[] = " (a part)";
      const size_t room = sizeof f->label - sizeof part;
      snprintf(f->label + (used < room ? used : room), sizeof part, "%s", part);
    }
  }
}

/* A word of a command line, quoted where a shell would take it apart. */
static void put_word(FILE *to, const char *option, const char *word) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-";
  const bool quote = word[strspn(word, plain)] != '\0';
  fprintf(to, " %s%s", option, quote ? "'" : "");
  for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, to);
  if (quote) fputc('\'', to);
}

static void put_again(FILE *to, const rdt_found *f, int64_t id) {
  static const struct {
    const char *member, *option, *usual;
  } words[] = {{"scheme", "--scheme ", "auto"},
               {"family", "--family ", ""},
               {"on_fault", "--on-fault ", "recompute"},
               {"device", "--device ", ""}};
  const rdt_policy usual = RDT_POLICY_DEFAULT;
  const cJSON *cores, *scrub = cJSON_GetObjectItemCaseSensitive(f->head, "scrub_every"),
                      *sm = cJSON_GetObjectItemCaseSensitive(f->head, "avoid_sm");
  const char *fault = rdt_json_string(f->head, "fault"), *target = rdt_json_string(f->head, "target");
  const double lambda = rdt_json_real(f->head, "lambda"), batch = rdt_json_real(f->head, "batch");
  fputs("redoubt inject", to);
  put_word(to, "", target);
  if (!rdt_target_is_op(target)) fputs(" -i INPUT", to);
  if (!rdt_target_is_op(target) && batch != 1.0) fprintf(to, " --batch %.0f", batch);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const char *word = rdt_json_string(f->head, words[i].member);
    if (strcmp(word, words[i].usual) != 0) put_word(to, words[i].option, word);
  }
  if (rdt_json_real(f->head, "checkpoints") > 0.0)
    fprintf(to, " --checkpoints %.0f", rdt_json_real(f->head, "checkpoints"));
  if (*rdt_json_string(f->head, "plan")) fputs(" --plan PLAN.json", to);
  if (cJSON_IsNumber(scrub) && scrub->valuedouble != usual.scrub_every)
    fprintf(to, scrub->valuedouble > 0.0 ? " --scrub every:%.0f" : " --scrub off", scrub->valuedouble);
  cJSON_ArrayForEach(cores, rdt_json_list(f->head, "avoid_cores")) {
    if (cJSON_IsString(cores)) put_word(to, "--avoid-core ", cores->valuestring);
  }
  if (cJSON_IsNumber(sm)) fprintf(to, " --avoid-sm %.0f", sm->valuedouble);
  if (strcmp(fault, "mix") == 0)
    fputs(" --mix MIX.json", to);
  else if (strcmp(fault, "default mix") != 0)
    put_word(to, "--fault ", fault);
  if (lambda != usual.lambda) fprintf(to, " --lambda %.9g", lambda);
  fprintf(to, " --threads %.0f --seed %.0f --replay %" PRId64, rdt_json_real(f->head, "threads"),
          rdt_json_real(f->head, "seed"), id);
  put_word(to, "-o ", f->dir);
}

void rdt_found_again(const rdt_found *f, int64_t id, char *buf, size_t size) {
  FILE *to = fmemopen(buf, size, "w");
  *buf = '\0';
  if (!to) return;
  put_again(to, f, id);
  fclose(to);
  buf[size - 1] = '\0';
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

/* The first thing besides scheme and seed that makes other trials of a campaign; NULL: they can be put side by side. */
static const char *apart(const cJSON *a, const cJSON *b) {
  static const char *const members[] = {"model", "input",    "family", "inputs",      "batch",
                                        "mix",   "on_fault", "isa",    "avoid_cores", "device_name"};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(a, members[i]);
    const cJSON *y = cJSON_GetObjectItemCaseSensitive(b, members[i]);
    if ((x || y) && !cJSON_Compare(x, y, true)) return members[i];
  }
  return NULL;
}

const rdt_found *rdt_study_unprotected(const rdt_study *s, const rdt_found *f, const char **differs) {
  const char *target = rdt_json_string(f->head, "target"); /* its datatype is in its name */
  const char *first = NULL;
  const rdt_found *part = NULL;
  *differs = NULL;
  for (int i = 0; i < s->n; i++) {
    const rdt_found *o = &s->list[i];
    if (o->clean || f->clean || strcmp(rdt_json_string(o->head, "target"), target) != 0 ||
        strcmp(rdt_json_string(o->head, "scheme"), "none") != 0)
      continue;
    const char *other = apart(o->head, f->head);
    if (!other && o->whole) return o;
    if (!other) part = o;
    if (!first) first = other;
  }
  if (!part) *differs = first;
  return part;
}
