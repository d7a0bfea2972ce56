#include "campaign/campaign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign/summary.h"
#include "core/context.h"
#include "report/json.h"

int64_t rdt_campaign_count(const rdt_campaign *c) {
  const int64_t rest = c->trials - (c->shard - 1);
  return rest > 0 ? (rest + c->shards - 1) / c->shards : 0;
}

int64_t rdt_campaign_id(const rdt_campaign *c, int64_t index) {
  return c->only >= 0 ? c->only : index * c->shards + c->shard - 1;
}

/* ---- in a child ---- */

rdt_status rdt_campaign_shoot(const rdt_campaign *c, rdt_target *t, int64_t id, char spec[256], rdt_trial *trial,
                              rdt_reason *why) {
  rdt_shot shot;
  rdt_fault f;
  *trial = (rdt_trial){.id = id, .bit = -1};
  if (c->clean)
    snprintf(trial->spec, sizeof trial->spec, "none");
  else
    RDT_TRY(rdt_mix_draw(&c->mix, (uint64_t)c->seed, id, t->spots, t->n_spots, t->names, trial->spec,
                         sizeof trial->spec, why));
  memcpy(spec, trial->spec, sizeof trial->spec);
  if (!c->clean) {
    RDT_TRY(rdt_fault_parse(trial->spec, &f, why));
    trial->kind = f.kind;
    trial->site = f.site;
  }
  const char *planted = c->clean ? NULL : trial->spec;
  RDT_TRY(t->prepare(t, id, planted, why));
  if (c->watch) c->watch(c->user, true);
  const rdt_status status = t->run(t, id, planted, &shot, why);
  if (c->watch) c->watch(c->user, false);
  RDT_TRY(status);
  rdt_trial_judge(t, &shot, trial);
  return RDT_OK;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median of a few clean runs. */
static rdt_status clock_runs(rdt_target *t, double *seconds, rdt_reason *why) {
  enum { FEW = 5 };
  double list[FEW];
  rdt_shot shot;
  for (int i = 0; i < FEW; i++) {
    const double from = rdt_clock();
    RDT_TRY(t->prepare(t, 0, NULL, why));
    RDT_TRY(t->run(t, 0, NULL, &shot, why));
    list[i] = rdt_clock() - from;
  }
  qsort(list, FEW, sizeof *list, ascending);
  *seconds = list[FEW / 2];
  return RDT_OK;
}

cJSON *rdt_campaign_describe(const rdt_campaign *c, rdt_target *t, bool timed, rdt_reason *why) {
  double seconds = 0.0, both[2] = {NAN, NAN};
  (void)c;
  if (clock_runs(t, &seconds, why) != RDT_OK) return NULL;
  if (timed && t->time(t, both, why) != RDT_OK) return NULL;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "inputs", (double)t->inputs);
  cJSON_AddNumberToObject(o, "trial_seconds", seconds);
  rdt_json_number(o, "seconds", both[0]);
  rdt_json_number(o, "seconds_unprotected", both[1]);
  rdt_json_number(o, "deviation", t->deviation);
  if (*t->device) cJSON_AddStringToObject(o, "device_name", t->device);
  if (*t->model) cJSON_AddStringToObject(o, "model", t->model);
  if (*t->input) cJSON_AddStringToObject(o, "input", t->input);
  cJSON *list = cJSON_AddArrayToObject(o, "layers");
  for (int i = 0; i < t->n_layers; i++) {
    const rdt_target_layer *l = &t->layers[i];
    cJSON *row = cJSON_CreateObject();
    rdt_json_text(row, "name", l->name);
    rdt_json_text(row, "op", l->op);
    cJSON_AddStringToObject(row, "scheme", l->scheme);
    cJSON_AddStringToObject(row, "kernel", l->kernel);
    cJSON_AddItemToArray(list, row);
  }
  return o;
}

/* ---- in the parent ---- */

typedef struct engine {
  rdt_campaign *c;
  rdt_folder store;
  int64_t done;   /* trials of this shard that are in the tally */
  cJSON *was;     /* the folder's head; NULL: a new one */
  char *was_line; /* with only: that trial's line in the folder */
  bool described, enough;
} engine;

static bool same_member(const cJSON *a, const cJSON *b, const char *name) {
  const cJSON *x = cJSON_GetObjectItemCaseSensitive(a, name), *y = cJSON_GetObjectItemCaseSensitive(b, name);
  return (!x && !y) || cJSON_Compare(x, y, true);
}

/* Whether two heads are of one campaign: the same trials come of them. whole: b has been described. */
static const char *differs(const cJSON *a, const cJSON *b, bool shards, bool whole) {
  static const char *const members[] = {
      "redoubt", "device",  "device_name", "build",       "target", "model",    "input",       "family",
      "fault",   "mix",     "seed",        "scheme",      "plan",   "on_fault", "lambda",      "scrub_every",
      "isa",     "threads", "inputs",      "avoid_cores", "layers", "batch",    "checkpoints", "avoid_sm"};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    if ((whole || cJSON_GetObjectItemCaseSensitive(b, members[i])) && !same_member(a, b, members[i])) return members[i];
  if (shards && !same_member(a, b, "shard")) return "shard";
  return shards && !same_member(a, b, "shards") ? "shards" : NULL;
}

const char *rdt_campaign_differs(const cJSON *a, const cJSON *b) {
  return differs(a, b, false, true);
}

/* "3"; of what is long, that it is another one. */
static void member_text(const cJSON *head, const char *name, char *text, size_t size) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(head, name);
  char *whole = item ? cJSON_PrintUnformatted(item) : NULL;
  snprintf(text, size, "%s", !item ? "nothing" : whole && strlen(whole) < size ? whole : "another one");
  cJSON_free(whole);
}

static rdt_status fail_other(const rdt_campaign *c, const cJSON *was, const char *name, rdt_reason *why) {
  char then[64], now[64];
  member_text(was, name, then, sizeof then);
  member_text(c->head, name, now, sizeof now);
  return rdt_fail(why, RDT_ERR_ARG,
                  "%.300s is of another campaign: its \"%s\" is %s, and here %s; give another folder, or what it was "
                  "made with",
                  c->dir, name, then, now);
}

static rdt_status count(engine *e, const rdt_trial *t, rdt_reason *why) {
  if (t->id != rdt_campaign_id(e->c, e->done))
    return rdt_fail(why, RDT_ERR_FORMAT, "%.300s: trial %lld is where number %lld belongs: another shard, or not whole",
                    e->c->dir ? e->c->dir : e->c->target, (long long)t->id, (long long)rdt_campaign_id(e->c, e->done));
  RDT_TRY(rdt_tally_add(&e->c->tally, t, e->c->repairs, why));
  e->c->last = *t;
  e->done++;
  e->enough = e->enough || rdt_summary_enough(&e->c->tally, e->c->until);
  return RDT_OK;
}

/* Trials without a head may be those of any campaign. */
static rdt_status expect_head(const engine *e, rdt_reason *why) {
  return e->was ? RDT_OK
                : rdt_fail(why, RDT_ERR_FORMAT,
                           "%.300s has trials but no campaign.json, which says of what they are: put it back, or give "
                           "another folder",
                           e->c->dir);
}

static rdt_status resumed(void *user, const rdt_trial *t, const char *line, rdt_reason *why) {
  (void)line;
  RDT_TRY(expect_head(user, why));
  return count(user, t, why);
}

static rdt_status described(void *self, const char *json, size_t bytes, double *seconds, rdt_reason *why) {
  engine *e = self;
  cJSON *head = e->c->head, *o = cJSON_ParseWithLength(json, bytes);
  if (!o) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  *seconds = rdt_json_real(o, "trial_seconds");
  if (e->described) {
    const bool same = same_member(head, o, "layers");
    const bool read = same_member(head, o, "model") && same_member(head, o, "input");
    const bool timed = cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(o, "seconds")) && !e->was;
    for (int i = 0; i < 2 && timed; i++) { /* one of them has measured, and was not the first to say what it is */
      const char *name = i ? "seconds_unprotected" : "seconds";
      cJSON_ReplaceItemInObjectCaseSensitive(head, name, cJSON_DetachItemFromObjectCaseSensitive(o, name));
    }
    cJSON_Delete(o);
    if (timed && e->c->dir && e->c->only < 0) RDT_TRY(rdt_folder_write_head(e->c->dir, head, why));
    if (!read) return rdt_fail(why, RDT_ERR_ARG, "a file of %.300s has changed since the campaign began", e->c->target);
    return same ? RDT_OK
                : rdt_fail(why, RDT_ERR_ARG,
                           "two processes planned this target differently: their trials cannot be "
                           "counted together; fix the plan with --scheme");
  }
  e->described = true;
  for (cJSON *item; (item = cJSON_DetachItemFromArray(o, 0));) cJSON_AddItemToObject(head, item->string, item);
  cJSON_Delete(o);
  RDT_TRY(rdt_tally_expect(&e->c->tally, head, why));
  const char *other = e->was ? differs(e->was, head, e->c->only < 0, true) : NULL;
  if (other) return fail_other(e->c, e->was, other, why);
  if (e->was && e->c->only < 0) /* times are those of the first run */
    for (size_t i = 0; i < 2; i++) {
      const char *name = i ? "seconds_unprotected" : "seconds";
      cJSON_ReplaceItemInObjectCaseSensitive(head, name,
                                             cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(e->was, name), true));
    }
  return e->c->dir && e->c->only < 0 ? rdt_folder_write_head(e->c->dir, head, why) : RDT_OK;
}

static rdt_status done(void *self, int64_t index, const char *line, size_t bytes, bool *enough, rdt_reason *why) {
  engine *e = self;
  rdt_trial t;
  (void)index;
  RDT_TRY(rdt_trial_parse(line, bytes, &t, why));
  if (e->c->only >= 0) {
    e->c->last = t;
    e->c->kept = e->was_line != NULL;
    e->c->same = !e->was_line || strcmp(e->was_line, line) == 0;
    return rdt_tally_add(&e->c->tally, &t, e->c->repairs, why);
  }
  if (e->store.fd >= 0) {
    RDT_TRY(rdt_folder_append(&e->store, line, bytes, why));
    RDT_TRY(rdt_folder_append(&e->store, "\n", 1, why));
  }
  RDT_TRY(count(e, &t, why));
  *enough = e->enough;
  return RDT_OK;
}

/* Adds a process's counters to those of the others, core by core, and multiprocessor by multiprocessor. */
static void ended(void *self, const char *json, size_t bytes) {
  engine *e = self;
  cJSON *list = cJSON_ParseWithLength(json, bytes), *row, *sum;
  if (!e->c->cores) e->c->cores = cJSON_CreateArray();
  for (cJSON *one; (one = cJSON_DetachItemFromArray(list, 0));) {
    row = NULL;
    cJSON_ArrayForEach(sum, e->c->cores) if (same_member(sum, one, "core") && same_member(sum, one, "multiprocessor"))
        row = sum;
    if (!row) {
      cJSON_AddItemToArray(e->c->cores, one);
      continue;
    }
    cJSON *item;
    cJSON_ArrayForEach(item, one) {
      cJSON *to = cJSON_GetObjectItemCaseSensitive(row, item->string);
      const bool name = strcmp(item->string, "core") == 0 || strcmp(item->string, "multiprocessor") == 0;
      if (to && !name) cJSON_SetNumberValue(to, to->valuedouble + item->valuedouble);
    }
    cJSON_Delete(one);
  }
  cJSON_Delete(list);
}

/* The layer that the fault was meant for, where it can be one only: who died could not say. */
static void name_layer(const cJSON *head, const rdt_fault *f, rdt_trial *t) {
  const cJSON *layer, *only = NULL;
  int n = 0;
  cJSON_ArrayForEach(layer, rdt_json_list(head, "layers")) {
    if (!rdt_fault_matches(f, rdt_json_string(layer, "name"))) continue;
    only = layer;
    n++;
  }
  if (n != 1) return;
  snprintf(t->layer, sizeof t->layer, "%s", rdt_json_string(only, "name"));
  snprintf(t->scheme, sizeof t->scheme, "%s", rdt_json_string(only, "scheme"));
}

static char *died(void *self, int64_t index, const char *spec, const char *how) {
  const engine *e = self;
  rdt_fault f = {.bits = -1};
  rdt_trial t = {.id = rdt_campaign_id(e->c, index), .fate = RDT_FATE_DUE, .claimed = true, .bit = -1};
  t.effect = RDT_EFFECT_ABOVE;
  t.verdict = RDT_UNCHECKED;
  t.changed = -1;
  t.left = t.stated = -1.0;
  snprintf(t.spec, sizeof t.spec, "%s", spec);
  snprintf(t.did, sizeof t.did, "%s", how);
  if (rdt_fault_parse(spec, &f, NULL) == RDT_OK) {
    t.site = f.site;
    t.kind = f.kind;
    name_layer(e->c->head, &f, &t);
  }
  return rdt_trial_print(&t);
}

static void replaced(void *self) {
  const engine *e = self;
  e->c->replaced++;
}

static rdt_status find_line(void *user, const rdt_trial *t, const char *line, rdt_reason *why) {
  engine *e = user;
  RDT_TRY(expect_head(e, why));
  if (t->id != e->c->only) return RDT_OK;
  free(e->was_line);
  e->was_line = strdup(line);
  return e->was_line ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
}

static rdt_status open_folder(engine *e, rdt_reason *why) {
  rdt_campaign *c = e->c;
  int64_t whole;
  if (!c->dir) return RDT_OK;
  if (c->only >= 0 || c->resume) RDT_TRY(rdt_folder_read_head(c->dir, &e->was, why));
  const char *other = e->was ? differs(e->was, c->head, c->only < 0, false) : NULL; /* each shard's trials by number */
  if (other) return fail_other(c, e->was, other, why);
  const double trials = e->was ? rdt_json_real(e->was, "trials") : INFINITY;
  if (c->only >= 0 && (double)c->only >= trials)
    return rdt_fail(why, RDT_ERR_ARG, "%.300s is a campaign of %.0f trials, 0 to %.0f: it has no trial %lld", c->dir,
                    trials, trials - 1.0, (long long)c->only);
  RDT_TRY(rdt_tally_expect(&c->tally, e->was, why));
  if (c->only >= 0) return rdt_folder_read(c->dir, find_line, e, &whole, why);
  return rdt_folder_open(&e->store, c->dir, c->resume, resumed, e, why);
}

rdt_status rdt_campaign_run(rdt_campaign *c, rdt_reason *why) {
  static const rdt_workers_calls calls = {described, done, ended, died, replaced};
  engine e = {.c = c, .store = {.fd = -1}};
  c->same = true;
  rdt_status status = open_folder(&e, why);
  const int64_t end = c->only >= 0 ? 1 : e.enough ? e.done : rdt_campaign_count(c);
  if (status == RDT_OK && (e.was || e.done < end)) /* with nothing left to do: is it what it was? */
    status = rdt_workers_run(c, e.done, end, &calls, &e, why);
  if (status != RDT_OK && !e.described && !e.was) rdt_folder_drop(&e.store, c->dir);
  const rdt_status closed = rdt_folder_close(&e.store, status == RDT_OK ? why : NULL);
  cJSON_Delete(e.was);
  free(e.was_line);
  return status == RDT_OK ? closed : status;
}

void rdt_campaign_clear(rdt_campaign *c) {
  rdt_tally_clear(&c->tally);
  cJSON_Delete(c->head);
  cJSON_Delete(c->cores);
  c->head = c->cores = NULL;
}
