/* The engine of campaigns on a target that does what it is told: outcomes, order, crashes, hangs, resuming, shards. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "campaign/campaign.h"
#include "campaign/study.h"
#include "core/memory.h"
#include "report/json.h"
#include "util_folder.h"

/* What the target does in a trial: silence outside of the claim, unless... */
typedef struct script {
  int64_t crash, hang, stop; /* numbers of trials; -1: none */
  bool deaf;                 /* misses what its scheme claims */
  int64_t error, lost;       /* ends in an error; in one of the machinery */
  int64_t late;              /* ends when its line is told, and not forgotten yet */
} script;

/* What a child frees between the two is the line alone: the library's own, but for one that is to end there. */
static bool ends_late;
void cJSON_free(void *p) {
  if (ends_late) raise(SIGKILL);
  free(p);
}

static rdt_status act(rdt_target *t, int64_t id, const char *spec, rdt_shot *s, rdt_reason *why);
static rdt_status no_time(rdt_target *t, double seconds[2], rdt_reason *why) {
  (void)t;
  (void)why;
  seconds[0] = 2.0;
  seconds[1] = 1.0;
  return RDT_OK;
}

/* Between watch and watch a trial runs, and nothing else does. */
static bool watched;
static void watch(void *user, bool runs) {
  (void)user;
  watched = runs;
}

static rdt_status make_ready(rdt_target *t, int64_t id, const char *spec, rdt_reason *why) {
  (void)t, (void)id, (void)spec;
  return watched ? rdt_fail(why, RDT_ERR_INTERNAL, "preparing is no trial") : RDT_OK;
}

typedef struct puppet {
  rdt_target base;
  const script *script;
} puppet;

static void drop(rdt_target *t) {
  rdt_free(t);
}

static rdt_status open_puppet(void *user, rdt_target **out, rdt_reason *why) {
  puppet *p = rdt_calloc(1, sizeof *p);
  if (!p) return RDT_ERR_NOMEM;
  p->script = user;
  p->base.inputs = 1;
  p->base.prepare = make_ready;
  p->base.run = act;
  p->base.time = no_time;
  p->base.destroy = drop;
  *out = &p->base;
  RDT_TRY(rdt_target_layers(&p->base, 1, why));
  RDT_TRY(rdt_target_layer_set(&p->base, 0, "layer,one", "gemm", "k", "row", NULL, why));
  p->base.layers[0].info = rdt_scheme_find("row");
  p->base.spots = rdt_calloc(2, sizeof *p->base.spots);
  if (!p->base.spots) return RDT_ERR_NOMEM;
  p->base.spots[0] = (rdt_spot){0, RDT_SITE_ACCUM};
  p->base.spots[1] = (rdt_spot){0, RDT_SITE_SUM};
  p->base.n_spots = 2;
  return RDT_OK;
}

static rdt_status close_puppet(void *user, cJSON **cores, rdt_reason *why) {
  (void)user;
  (void)why;
  *cores = cJSON_Parse("[{\"core\": 3, \"products\": 2}]");
  return RDT_OK;
}

static rdt_status act(rdt_target *t, int64_t id, const char *spec, rdt_shot *s, rdt_reason *why) {
  const script *o = ((puppet *)t)->script;
  const rdt_fault dice = {.seed = (uint64_t)id};
  const uint64_t r = rdt_fault_random(&dice, 1);
  if (watched != (spec != NULL)) return rdt_fail(why, RDT_ERR_INTERNAL, "who watches sees another run");
  *s = (rdt_shot){.layer = spec ? 0 : -1, .same = true, .checks = 10, .ratio = 0.25, .floor = 2.0, .bound = 1.0};
  if (!spec) return RDT_OK;
  if (id == o->crash) raise(SIGSEGV);
  if (id == o->stop) _exit(3);
  while (id == o->hang) pause();
  ends_late = id == o->late;
  s->hit = (rdt_injection){.done = true, .site = RDT_SITE_ACCUM, .changed = 1, .bit = 30, .left = -1.0};
  s->hit.error = s->hit.weighted = r % 4 ? 8.0 : 1.0;
  if (id == o->error || id == o->lost) {
    const rdt_status status = rdt_fail(why, id == o->lost ? RDT_ERR_IO : RDT_ERR_ARG, "no index %d", 99);
    return rdt_target_ended(s, status, why) ? RDT_OK : status;
  }
  if (r % 4 == 0) { /* below the floor, and off all the same */
    s->wrong = r % 3;
    s->same = false;
  } else if (!o->deaf) {
    s->faults = 1;
    s->verdict = RDT_RECOMPUTED;
  } else {
    s->wrong = 1;
    s->same = false;
    s->critical = r % 5 == 0;
  }
  return RDT_OK;
}

static bool go_on(void *user, int64_t done, int64_t all) {
  (void)user;
  (void)done;
  (void)all;
  return true;
}

static rdt_campaign campaign(script *s, int64_t trials, int jobs) {
  rdt_campaign c = {.target = "puppet",
                    .trials = trials,
                    .seed = 5,
                    .only = -1,
                    .shard = 1,
                    .shards = 1,
                    .jobs = jobs,
                    .patience = 2.0,
                    .repairs = true,
                    .open = open_puppet,
                    .close = close_puppet,
                    .watch = watch,
                    .progress = go_on,
                    .user = s,
                    .head = rdt_document("campaign")};
  rdt_mix_default(&c.mix);
  return c;
}

static void run(rdt_campaign *c) {
  rdt_reason why = {""};
  if (rdt_campaign_run(c, &why) != RDT_OK) fail_msg("%s", why.text);
}

static char *slurp(const char *dir) {
  char path[256];
  struct stat st;
  snprintf(path, sizeof path, "%s/trials.jsonl", dir);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_int_equal(fstat(fileno(f), &st), 0);
  char *text = calloc(1, (size_t)st.st_size + 1);
  assert_int_equal(fread(text, 1, (size_t)st.st_size, f), st.st_size);
  fclose(f);
  return text;
}

static const char *sub(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", util_folder, name);
  return path;
}

/* ---- */

static void the_file_is_the_same_whatever_the_jobs(void **state) {
  script s = {-1, -1, -1, false, -1, -1, -1};
  char one[128], three[128];
  (void)state;
  snprintf(one, sizeof one, "%s", sub("one"));
  snprintf(three, sizeof three, "%s", sub("three"));
  for (int i = 0; i < 2; i++) {
    rdt_campaign c = campaign(&s, 400, i ? 3 : 1);
    c.dir = i ? three : one;
    c.timed = true;
    run(&c);
    assert_int_equal(c.tally.trials, 400);
    assert_int_equal(c.tally.failed, 0);
    assert_int_equal(c.tally.checks, 4000);
    assert_true(rdt_json_real(c.head, "seconds") == 2.0);
    assert_int_equal(rdt_json_real(cJSON_GetArrayItem(c.cores, 0), "products"), i ? 6 : 2);
    rdt_campaign_clear(&c);
  }
  char *a = slurp(one), *b = slurp(three);
  assert_string_equal(a, b);
  free(a);
  free(b);
}

static void a_checker_that_misses_what_it_claims_fails(void **state) {
  script s = {-1, -1, -1, true, -1, -1, -1};
  (void)state;
  rdt_campaign c = campaign(&s, 200, 1);
  run(&c);
  assert_true(c.tally.failed > 100);
  assert_int_equal(c.tally.failed, c.tally.data.missed);
  assert_true(c.tally.data.fate[RDT_FATE_SDC] > 0 && c.tally.data.fate[RDT_FATE_CRITICAL] > 0);
  assert_string_equal(rdt_trial_reproach(&c.tally.failures[0], true), "missed inside a claim");
  assert_true(c.tally.has_miss);
  assert_true(rdt_count_coverage(&c.tally.data).at == 0.0);
  rdt_campaign_clear(&c);
}

static void crashes_and_hangs_are_outcomes(void **state) {
  script s = {7, 11, 13, false, -1, -1, -1};
  (void)state;
  rdt_campaign c = campaign(&s, 60, 2);
  run(&c);
  assert_int_equal(c.tally.trials, 60);
  assert_int_equal(rdt_tally_all(&c.tally).fate[RDT_FATE_DUE], 3);
  assert_int_equal(c.tally.failed, 3);
  static const char *const how[] = {"crashed: signal 11", "hung: ended", "exit code 3"};
  for (int i = 0; i < 3; i++) {
    const rdt_trial *t = &c.tally.failures[i];
    assert_int_equal(t->id, 7 + i * 4 - (i == 2) * 2);
    assert_non_null(strstr(t->did, how[i]));
    assert_non_null(strchr(t->spec, '@'));
    assert_string_equal(t->layer, "layer,one"); /* nobody was left to say it */
    assert_string_equal(t->scheme, "row");
  }
  rdt_campaign_clear(&c);
}

/* One that waits for what never comes before its first trial ends the campaign, with a reason; one that computes for
 * longer than that does not. */
static rdt_status open_never(void *user, rdt_target **out, rdt_reason *why) {
  (void)user, (void)out, (void)why;
  while (pause() != 0) {
  }
  return RDT_OK;
}

static rdt_status open_late(void *user, rdt_target **out, rdt_reason *why) {
  struct timespec begun, now;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while (now.tv_sec - begun.tv_sec < 3);
  return open_puppet(user, out, why);
}

static void nobody_waits_for_ever(void **state) {
  script s = {-1, -1, -1, false, -1, -1, -1};
  rdt_reason why = {""};
  (void)state;
  rdt_campaign c = campaign(&s, 20, 2);
  c.patience = 0.25;
  c.open = open_never;
  assert_int_equal(rdt_campaign_run(&c, &why), RDT_ERR_IO);
  assert_string_equal(why.text, "a child process hung outside of any trial: it computed nothing for 1 s");
  rdt_campaign_clear(&c);
  c = campaign(&s, 20, 2);
  c.patience = 0.25;
  c.open = open_late;
  run(&c);
  assert_int_equal(c.tally.trials, 20);
  rdt_campaign_clear(&c);
}

/* Nothing is lost with a child that ends behind its line: another one goes on. */
static void told_is_told(void **state) {
  (void)state;
  for (int jobs = 1; jobs < 4; jobs++) {
    script s = {-1, -1, -1, false, -1, -1, 20};
    rdt_campaign c = campaign(&s, 60, jobs);
    run(&c);
    assert_int_equal(c.tally.trials, 60);
    assert_int_equal(c.tally.failed, 0);
    assert_int_equal(c.replaced, 1);
    rdt_campaign_clear(&c);
  }
}

/* No result is one, too; where the machinery fails there is nothing to count. */
static void errors_are_outcomes(void **state) {
  script s = {-1, -1, -1, false, 9, -1, -1};
  (void)state;
  rdt_campaign c = campaign(&s, 20, 1);
  run(&c);
  assert_int_equal(c.tally.trials, 20);
  assert_int_equal(rdt_tally_all(&c.tally).fate[RDT_FATE_DUE], 1);
  assert_int_equal(c.tally.failed, 1);
  assert_int_equal(c.tally.failures[0].id, 9);
  assert_int_equal(c.tally.failures[0].effect, RDT_EFFECT_ABOVE);
  assert_non_null(strstr(c.tally.failures[0].did, "no index 99"));
  rdt_trial unclaimed = c.tally.failures[0];
  unclaimed.claimed = false; /* without protection it is no failure */
  assert_false(rdt_trial_fails(&unclaimed, true));
  assert_true(rdt_trial_missed(&unclaimed));
  rdt_campaign_clear(&c);
  s = (script){-1, -1, -1, false, -1, 9, -1};
  c = campaign(&s, 20, 1);
  rdt_reason why = {""};
  assert_int_equal(rdt_campaign_run(&c, &why), RDT_ERR_IO);
  rdt_campaign_clear(&c);
}

/* Cut anywhere, the file is continued to what it would have been. */
static void what_was_cut_off_is_continued(void **state) {
  script s = {-1, -1, -1, false, -1, -1, -1};
  char dir[128], path[256];
  (void)state;
  snprintf(dir, sizeof dir, "%s", sub("cut"));
  snprintf(path, sizeof path, "%s/trials.jsonl", dir);
  rdt_campaign c = campaign(&s, 50, 1);
  c.dir = dir;
  run(&c);
  rdt_campaign_clear(&c);
  char *whole = slurp(dir);
  const size_t n = strlen(whole);
  static const double cuts[] = {0.0, 0.001, 0.3, 0.77, 0.9999, 1.0};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    assert_int_equal(truncate(path, (off_t)(cuts[i] * (double)n)), 0);
    c = campaign(&s, 50, 2);
    c.dir = dir;
    c.resume = true;
    run(&c);
    assert_int_equal(c.tally.trials, 50);
    rdt_campaign_clear(&c);
    char *now = slurp(dir);
    assert_string_equal(now, whole);
    free(now);
  }
  rdt_reason why = {""};
  c = campaign(&s, 50, 1); /* without --resume nothing is written over */
  c.dir = dir;
  assert_int_equal(rdt_campaign_run(&c, &why), RDT_ERR_ARG);
  rdt_campaign_clear(&c);
  c = campaign(&s, 80, 1); /* another seed is another campaign */
  cJSON_AddNumberToObject(c.head, "seed", 6);
  c.dir = dir;
  c.resume = true;
  assert_int_equal(rdt_campaign_run(&c, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "seed"));
  rdt_campaign_clear(&c);
  free(whole);
  snprintf(path, sizeof path, "%s/campaign.json", dir); /* nobody knows whose trials these are */
  assert_int_equal(unlink(path), 0);
  for (int only = 0; only < 2; only++) {
    c = campaign(&s, 50, 1);
    c.dir = dir;
    c.resume = !only;
    c.only = only ? 3 : -1;
    assert_int_equal(rdt_campaign_run(&c, &why), RDT_ERR_FORMAT);
    assert_non_null(strstr(why.text, "campaign.json"));
    rdt_campaign_clear(&c);
  }
}

/* What another one writes to is left alone, and is there for the next when it is done. */
static void a_folder_is_one_campaigns(void **state) {
  script s = {-1, -1, -1, false, -1, -1, -1};
  static rdt_folder other;
  rdt_reason why = {""};
  char dir[128];
  (void)state;
  snprintf(dir, sizeof dir, "%s", sub("locked"));
  assert_int_equal(rdt_folder_open(&other, dir, false, NULL, NULL, &why), RDT_OK);
  for (int resume = 0; resume < 2; resume++) {
    rdt_campaign c = campaign(&s, 20, 1);
    c.dir = dir;
    c.resume = resume;
    assert_int_equal(rdt_campaign_run(&c, &why), RDT_ERR_ARG);
    assert_non_null(strstr(why.text, "being written by another process"));
    rdt_campaign_clear(&c);
  }
  assert_int_equal(rdt_folder_close(&other, &why), RDT_OK);
  rdt_campaign c = campaign(&s, 20, 1);
  c.dir = dir;
  run(&c);
  assert_int_equal(c.tally.trials, 20);
  rdt_campaign_clear(&c);
}

/* What a campaign was made with is in its head: the first of it that is another one is named, with both. */
static void what_differs_is_named(void **state) {
  static const struct {
    const char *name, *now, *says;
  } cases[] = {{"scrub_every", "4", "its \"scrub_every\" is 16, and here 4"},
               {"plan", "\"00\"", "its \"plan\" is null, and here \"00\""},
               {"avoid_cores", "[\"1\"]", "its \"avoid_cores\" is [], and here [\"1\"]"},
               {"model", "\"11\"", "its \"model\" is \"10\", and here \"11\""},
               {"input", "\"12\"", "its \"input\" is \"10\", and here \"12\""},
               {"mix", "[]", "its \"mix\" is nothing, and here []"}};
  script s = {-1, -1, -1, false, -1, -1, -1};
  char dir[128];
  (void)state;
  snprintf(dir, sizeof dir, "%s", sub("made"));
  for (int i = -1; i < (int)(sizeof cases / sizeof *cases); i++) {
    rdt_reason why = {""};
    rdt_campaign c = campaign(&s, 20, 1);
    cJSON_AddNumberToObject(c.head, "scrub_every", 16);
    cJSON_AddItemToObject(c.head, "plan", cJSON_CreateNull());
    cJSON_AddItemToObject(c.head, "avoid_cores", cJSON_CreateArray());
    cJSON_AddStringToObject(c.head, "model", "10");
    cJSON_AddStringToObject(c.head, "input", "10");
    c.dir = dir;
    c.resume = i >= 0;
    if (i < 0) {
      run(&c);
    } else {
      cJSON_DeleteItemFromObjectCaseSensitive(c.head, cases[i].name);
      cJSON_AddItemToObject(c.head, cases[i].name, cJSON_Parse(cases[i].now));
      c.trials = 30;
      assert_int_equal(rdt_campaign_run(&c, &why), RDT_ERR_ARG);
      if (!strstr(why.text, cases[i].says)) fail_msg("%s", why.text);
    }
    rdt_campaign_clear(&c);
  }
}

static void shards_are_one_campaign(void **state) {
  script s = {-1, -1, -1, false, -1, -1, -1};
  (void)state;
  rdt_campaign all = campaign(&s, 101, 1);
  run(&all);
  const rdt_count whole = rdt_tally_all(&all.tally);
  rdt_count counts = {.missed = 0};
  int64_t trials = 0;
  for (int i = 1; i <= 3; i++) {
    rdt_campaign c = campaign(&s, 101, 1);
    c.shard = i;
    c.shards = 3;
    run(&c);
    assert_int_equal(c.tally.trials, i < 3 ? 34 : 33);
    const rdt_count part = rdt_tally_all(&c.tally);
    trials += c.tally.trials;
    for (int f = 0; f < RDT_FATE_COUNT; f++) counts.fate[f] += part.fate[f];
    rdt_campaign_clear(&c);
  }
  assert_int_equal(trials, 101);
  assert_memory_equal(counts.fate, whole.fate, sizeof counts.fate);
  rdt_campaign_clear(&all);
}

static void it_stops_when_enough_is_known(void **state) {
  script s = {-1, -1, -1, false, -1, -1, -1};
  int64_t n[2];
  (void)state;
  for (int i = 0; i < 2; i++) {
    rdt_campaign c = campaign(&s, 100000, 1 + i);
    c.until = 0.03;
    run(&c);
    n[i] = c.tally.trials;
    const rdt_counted sdc = rdt_count_sdc(&c.tally.data);
    assert_true(rdt_stats_half_width(sdc.in) <= 0.03);
    rdt_campaign_clear(&c);
  }
  assert_true(n[0] > 100 && n[0] < 5000);
  assert_int_equal(n[0], n[1]);
}

static void one_trial_is_run_again(void **state) {
  script s = {-1, -1, -1, false, -1, -1, -1};
  (void)state;
  rdt_campaign c = campaign(&s, 400, 1);
  c.only = 123;
  c.dir = sub("one"); /* of the first test */
  run(&c);
  assert_int_equal(c.last.id, 123);
  assert_true(c.same);
  rdt_campaign_clear(&c);
  c = campaign(&s, 400, 1); /* by its number, whichever part its folder is */
  cJSON_AddNumberToObject(c.head, "shards", 1);
  c.only = 123;
  c.dir = sub("one");
  run(&c);
  assert_true(c.same && c.kept);
  rdt_campaign_clear(&c);
  c = campaign(&s, 400, 1);
  c.only = 123;
  c.seed = 6;
  c.dir = sub("one");
  run(&c);
  assert_false(c.same);
  rdt_campaign_clear(&c);
}

/* ---- parts ---- */

static void trials_survive_their_line(void **state) {
  (void)state;
  rdt_trial t = {.id = 12, .fate = RDT_FATE_CRITICAL, .effect = RDT_EFFECT_ABOVE, .claimed = true, .bit = 30};
  rdt_trial u;
  rdt_reason why = {""};
  snprintf(t.spec, sizeof t.spec, "bit:30@accum,layer=x?y,seed=3");
  snprintf(t.layer, sizeof t.layer, "x\"y");
  t.error = INFINITY;
  t.weighted = 0.1;
  t.changed = -1;
  t.verdict = RDT_UNCHECKED;
  t.diagnosis = RDT_DIAG_PERSISTENT;
  char *line = rdt_trial_print(&t);
  if (rdt_trial_parse(line, strlen(line), &u, &why) != RDT_OK) fail_msg("%s", why.text);
  char *again = rdt_trial_print(&u);
  assert_string_equal(line, again);
  assert_true(isinf(u.error) && u.weighted == 0.1 && u.fate == RDT_FATE_CRITICAL);
  /* every member is missed, and none may be of another kind */
  cJSON *doc = cJSON_Parse(line);
  for (int i = 0; i < cJSON_GetArraySize(doc); i++)
    for (int gone = 0; gone < 2; gone++) {
      cJSON *spoilt = cJSON_Duplicate(doc, true);
      const char *name = cJSON_GetArrayItem(doc, i)->string;
      if (gone)
        cJSON_DeleteItemFromObjectCaseSensitive(spoilt, name);
      else
        cJSON_ReplaceItemInObjectCaseSensitive(spoilt, name, cJSON_CreateArray());
      char *text = cJSON_PrintUnformatted(spoilt);
      assert_int_equal(rdt_trial_parse(text, strlen(text), &u, &why), RDT_ERR_FORMAT);
      assert_non_null(strstr(why.text, name));
      cJSON_free(text);
      cJSON_Delete(spoilt);
    }
  cJSON_Delete(doc);
  cJSON_free(line);
  cJSON_free(again);
}

static void a_mix_is_drawn_as_it_says(void **state) {
  enum { N = 20000 };
  static const char *const names[] = {"a", "b"};
  static const rdt_spot spots[] = {{0, RDT_SITE_ACCUM}, {1, RDT_SITE_ACCUM}, {1, RDT_SITE_WEIGHT}};
  rdt_mix m;
  rdt_reason why = {""};
  char spec[256], again[256];
  int bits = 0, weights = 0, extremes = 0;
  (void)state;
  rdt_mix_default(&m);
  for (int i = 0; i < N; i++) {
    rdt_fault f;
    assert_int_equal(rdt_mix_draw(&m, 9, i, spots, 3, names, spec, sizeof spec, &why), RDT_OK);
    assert_int_equal(rdt_mix_draw(&m, 9, i, spots, 3, names, again, sizeof again, &why), RDT_OK);
    assert_string_equal(spec, again);
    assert_int_equal(rdt_fault_parse(spec, &f, &why), RDT_OK);
    bits += f.kind == RDT_FAULT_BIT || f.kind == RDT_FAULT_STUCK0 || f.kind == RDT_FAULT_STUCK1;
    extremes += f.kind == RDT_FAULT_NAN || f.kind == RDT_FAULT_INF;
    weights += f.site == RDT_SITE_WEIGHT;
    if (f.site == RDT_SITE_WEIGHT) assert_string_equal(f.layer, "b");
  }
  assert_true(bits > 0.36 * N && bits < 0.40 * N);
  assert_true(extremes > 0.007 * N && extremes < 0.013 * N);
  assert_true(weights > 0.48 * N && weights < 0.52 * N);
}

static void bad_mixes_are_refused(void **state) {
  static const struct {
    const char *text, *word;
  } cases[] = {
      {"", "schema"},
      {"{\"schema\": \"redoubt.mix/2\"}", "schema"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": []}", "share above 0"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit\"}]}", "share"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit\", \"share\": -1}]}", "share"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bat\", \"share\": 1}]}", "unknown fault kind"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit,seed=1\", \"share\": 1}]}", "names no site"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"ber:1e-7\", \"share\": 1}]}", "site accum"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit:0000000000000000000000000000000001\", "
       "\"share\": 1}]}",
       "no kind"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit@accum,seed=\f1\", \"share\": 1}]}", "UTF-8"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit\", \"share\": 1}]} and more", "schema"},
      {"{\"schema\": \"redoubt.mix/1\", \"faults\": [{\"fault\": \"bit\", \"share\": 1}], \"sites\": [{\"site\": "
       "\"nowhere\", \"share\": 1}]}",
       "nowhere"},
#define MIX(rest) "{\"schema\": \"redoubt.mix/1\", " rest "}"
#define BIT "\"faults\": [{\"fault\": \"bit\", \"share\": 1}]"
      {MIX("\"faults\": [{\"fault\": \"bit\", \"share\": 1e308}, {\"fault\": \"zero\", \"share\": 1e308}]"),
       "all faults add up to no number"},
      {MIX(BIT ", \"sites\": [{\"site\": \"accum\", \"share\": 1e308}, {\"site\": \"sum\", \"share\": 1e308}]"),
       "all sites add up to no number"},
      {MIX(BIT ", \"sites\": {\"accum\": 1}"), "\"sites\" is no list"},
      {MIX(BIT ", \"sites\": null"), "\"sites\" is no list"},
      {MIX("\"faults\": {\"bit\": 1}"), "\"faults\" is no list"},
      {MIX(BIT ", \"sites\": [\"accum\"]"), "is no object"},
      {MIX("\"faults\": [\"bit\"]"), "is no object"},
      {MIX(BIT ", \"site\": []"), "has no \"site\""},
      {MIX(BIT ", " BIT), "has \"faults\" twice"},
      {MIX("\"faults\": [{\"fault\": \"bit\", \"share\": 1, \"shares\": 2}]"), "has no \"shares\""},
      {MIX("\"faults\": [{\"fault\": \"bit\", \"share\": 1, \"share\": 2}]"), "has \"share\" twice"},
      {MIX("\"faults\": [{\"fault\": \"bit\", \"share\": 1}, {\"fault\": \"bit\", \"share\": 2}]"),
       "'bit' has two rows"},
      {MIX(BIT ", \"sites\": [{\"site\": \"sum\", \"share\": 1}, {\"site\": \"sum\", \"share\": 2}]"),
       "'sum' has two rows"},
      {MIX(BIT ", \"sites\": []"), "no site has a share above 0"},
      {MIX(BIT ", \"sites\": [{\"site\": \"accum\", \"share\": 0}]"), "no site has a share above 0"},
  };
  rdt_mix m;
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rdt_reason why = {""};
    assert_int_equal(rdt_mix_parse(cases[i].text, strlen(cases[i].text), "m.json", &m, &why), RDT_ERR_FORMAT);
    if (!strstr(why.text, cases[i].word)) fail_msg("'%s' does not say %s", why.text, cases[i].word);
  }
  rdt_reason why = {""};
  rdt_mix_default(&m);
  cJSON *doc = rdt_mix_json(&m);
  char *text = cJSON_Print(doc);
  rdt_mix again;
  assert_int_equal(rdt_mix_parse(text, strlen(text), "m.json", &again, &why), RDT_OK);
  assert_int_equal(again.n_faults, m.n_faults);
  cJSON_free(text);
  cJSON_Delete(doc);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_file_is_the_same_whatever_the_jobs),
      cmocka_unit_test(a_checker_that_misses_what_it_claims_fails),
      cmocka_unit_test(crashes_and_hangs_are_outcomes),
      cmocka_unit_test(nobody_waits_for_ever),
      cmocka_unit_test(told_is_told),
      cmocka_unit_test(errors_are_outcomes),
      cmocka_unit_test(what_was_cut_off_is_continued),
      cmocka_unit_test(a_folder_is_one_campaigns),
      cmocka_unit_test(what_differs_is_named),
      cmocka_unit_test(shards_are_one_campaign),
      cmocka_unit_test(it_stops_when_enough_is_known),
      cmocka_unit_test(one_trial_is_run_again),
      cmocka_unit_test(trials_survive_their_line),
      cmocka_unit_test(a_mix_is_drawn_as_it_says),
      cmocka_unit_test(bad_mixes_are_refused),
  };
  return cmocka_run_group_tests(tests, util_folder_make, util_folder_remove);
}
