/* What is counted of campaigns: folders of somebody else, shards, what stands beside what, shares of which faults. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "campaign/study.h"
#include "report/json.h"
#include "util_folder.h"

static const char *sub(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", util_folder, name);
  return path;
}

/* ---- folders of somebody else ---- */

static void put_file(const char *dir, const char *name, const char *text) {
  char path[256];
  mkdir(dir, 0777);
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

/* A head of a campaign: what is said of it besides, with a comma before it; the same member again takes its place. */
static void put_head_with(const char *dir, int shard, int shards, const char *target, const char *more) {
  char text[1024];
  snprintf(
      text, sizeof text,
      "{\"schema\": \"redoubt.campaign/1\", \"redoubt\": \"0\", \"target\": \"%s\", \"shard\": %d, \"shards\": "
      "%d, \"fault\": \"default mix\", \"on_fault\": \"recompute\", \"lambda\": 6, \"isa\": \"avx2\", \"seed\": 1, "
      "\"inputs\": 1, \"layers\": [{\"name\": \"l\", \"op\": \"gemm\", \"scheme\": \"row\", \"kernel\": \"k\"}]%s}",
      target, shard, shards, more);
  put_file(dir, "campaign.json", text);
}

#define SETTINGS(scheme, mix, trials, until) \
  ", \"scheme\": \"" scheme "\", \"mix\": " mix ", \"trials\": " trials ", \"until_ci\": " until ", \"batch\": 1"
#define BITS "{\"faults\": [{\"fault\": \"bit\", \"share\": 1}]}"

static void put_head(const char *dir, int shard, int shards) {
  put_head_with(dir, shard, shards, "gemm:8x8x8", SETTINGS("row", BITS, "2000", "0"));
}

/* A number is one that a double keeps, and none of a count is negative; their sums are not taken on trust. */
static void counts_are_bounded(void **state) {
  enum { LINES = 1030 };
  static const char *const counts[] = {"checks", "suspects", "faults", "unchecked", "wrong"};
  rdt_trial t = {.bit = -1}, u;
  rdt_reason why = {""};
  char dir[128];
  (void)state;
  snprintf(dir, sizeof dir, "%s", sub("sums"));
  snprintf(t.spec, sizeof t.spec, "bit@accum");
  char *line = rdt_trial_print(&t);
  cJSON *doc = cJSON_Parse(line);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    cJSON_SetNumberValue(cJSON_GetObjectItem(doc, counts[i]), -1.0);
    char *bad = cJSON_PrintUnformatted(doc);
    assert_int_equal(rdt_trial_parse(bad, strlen(bad), &u, &why), RDT_ERR_FORMAT);
    assert_non_null(strstr(why.text, counts[i]));
    cJSON_free(bad);
    cJSON_SetNumberValue(cJSON_GetObjectItem(doc, counts[i]), 0x1p53);
  }
  cJSON_free(line);
  put_head(dir, 1, 1);
  char *all = calloc(LINES, 1024);
  assert_non_null(all);
  size_t used = 0;
  for (int i = 0; i < LINES; i++) {
    cJSON_SetNumberValue(cJSON_GetObjectItem(doc, "id"), i);
    char *one = cJSON_PrintUnformatted(doc);
    used += (size_t)sprintf(all + used, "%s\n", one);
    cJSON_free(one);
  }
  cJSON_Delete(doc);
  put_file(dir, "trials.jsonl", all);
  free(all);
  static rdt_study s;
  assert_int_equal(rdt_study_add(&s, dir, &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "more checks than can be counted"));
  rdt_study_clear(&s);
}

static void an_endless_line_is_not_read(void **state) {
  enum { MUCH = 1 << 20 };
  char dir[128], *text = malloc(MUCH + 1);
  rdt_reason why = {""};
  static rdt_study s;
  (void)state;
  assert_non_null(text);
  memset(text, ' ', MUCH);
  text[MUCH] = '\0';
  snprintf(dir, sizeof dir, "%s", sub("endless"));
  put_head(dir, 1, 1);
  put_file(dir, "trials.jsonl", text);
  free(text);
  assert_int_equal(rdt_study_add(&s, dir, &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "line 1: too long"));
  rdt_study_clear(&s);
}

/* Whatever their number, a part that is there already is refused; so is one of another cut. */
static void no_shard_counts_twice(void **state) {
  enum { SHARDS = 40 };
  char dir[128], text[64];
  rdt_reason why = {""};
  static rdt_study s;
  (void)state;
  snprintf(dir, sizeof dir, "%s", sub("twice"));
  put_file(dir, "trials.jsonl", "");
  for (int i = 1; i <= SHARDS; i++) {
    put_head(dir, i, SHARDS);
    if (i != 7) assert_int_equal(rdt_study_add(&s, dir, &why), RDT_OK);
  }
  assert_int_equal(s.n, 1);
  rdt_found_shards(&s.list[0], text, sizeof text);
  assert_string_equal(text, "1-6 8-40 of 40");
  assert_int_equal(rdt_study_add(&s, dir, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "count twice"));
  put_head(dir, 7, SHARDS + 1);
  assert_int_equal(rdt_study_add(&s, dir, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "40 parts"));
  rdt_study_clear(&s);
}

/* Shards of unequal length, or that stopped each by what it had seen, are none of one run. */
static void unequal_shards_are_refused(void **state) {
  char a[128], b[128];
  rdt_reason why = {""};
  static rdt_study s;
  (void)state;
  snprintf(a, sizeof a, "%s", sub("short"));
  snprintf(b, sizeof b, "%s", sub("long"));
  put_head_with(a, 1, 2, "gemm:8x8x8", SETTINGS("row", BITS, "100", "0"));
  put_head_with(b, 2, 2, "gemm:8x8x8", SETTINGS("row", BITS, "200", "0"));
  assert_int_equal(rdt_study_add(&s, a, &why), RDT_OK);
  assert_int_equal(rdt_study_add(&s, b, &why), RDT_ERR_ARG);
  assert_non_null(strstr(why.text, "200 trials"));
  assert_non_null(strstr(why.text, "of 100"));
  rdt_study_clear(&s);
  put_head_with(a, 1, 2, "gemm:8x8x8", SETTINGS("row", BITS, "100", "0.005"));
  assert_int_equal(rdt_study_add(&s, a, &why), RDT_ERR_FORMAT);
  assert_non_null(strstr(why.text, "--until-ci"));
  rdt_study_clear(&s);
}

/* Whatever counting needs must be there, and be what it is. */
static void a_head_says_what_it_is_of(void **state) {
  static const char *const members[] = {"redoubt", "target",   "fault", "scheme", "on_fault", "isa",
                                        "lambda",  "until_ci", "seed",  "inputs", "batch",    "trials",
                                        "shard",   "shards",   "mix",   "layers"};
  char dir[128], path[192];
  rdt_reason why = {""};
  static rdt_study s;
  (void)state;
  snprintf(dir, sizeof dir, "%s", sub("lacking"));
  snprintf(path, sizeof path, "%s/campaign.json", dir);
  put_head(dir, 1, 1);
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    for (int gone = 0; gone < 2; gone++) {
      cJSON *head = NULL;
      put_head(dir, 1, 1);
      assert_int_equal(rdt_folder_read_head(dir, &head, &why), RDT_OK);
      assert_non_null(cJSON_GetObjectItemCaseSensitive(head, members[i]));
      if (gone)
        cJSON_DeleteItemFromObjectCaseSensitive(head, members[i]);
      else
        cJSON_ReplaceItemInObjectCaseSensitive(head, members[i], cJSON_CreateTrue());
      assert_int_equal(rdt_folder_write_head(dir, head, &why), RDT_OK);
      cJSON_Delete(head);
      assert_int_equal(rdt_study_add(&s, dir, &why), RDT_ERR_FORMAT);
      if (!strstr(why.text, members[i])) fail_msg("%s: %s", members[i], why.text);
      assert_int_equal(s.n, 0);
    }
  rdt_study_clear(&s);
}

/* The rate without protection is of the same faults in the same target, or there is none; and it is said why. */
static void the_unprotected_one_had_the_same_faults(void **state) {
  static const struct {
    const char *name, *target, *more, *differs; /* differs NULL: it stands beside; "": of another target */
  } cases[] = {{"same", "gemm:8x8x8", SETTINGS("none", BITS, "2000", "0") ", \"threads\": 3", NULL},
               {"mix", "gemm:8x8x8", SETTINGS("none", "{\"faults\": []}", "2000", "0"), "mix"},
               {"family", "gemm:8x8x8", SETTINGS("none", BITS, "2000", "0") ", \"family\": \"relu\"", "family"},
               {"model", "gemm:8x8x8", SETTINGS("none", BITS, "2000", "0") ", \"model\": \"5\"", "model"},
               {"dtype", "gemm:8x8x8:f64", SETTINGS("none", BITS, "2000", "0"), ""}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char protected[128], bare[128];
    const char *differs;
    rdt_reason why = {""};
    static rdt_study s;
    snprintf(protected, sizeof protected, "%s", sub("protected"));
    snprintf(bare, sizeof bare, "%s", sub("bare"));
    put_head(protected, 1, 1);
    put_head_with(bare, 1, 1, cases[i].target, cases[i].more);
    assert_int_equal(rdt_study_add(&s, protected, &why), RDT_OK);
    if (rdt_study_add(&s, bare, &why) != RDT_OK) fail_msg("%s", why.text);
    rdt_study_name(&s);
    const rdt_found *beside = rdt_study_unprotected(&s, &s.list[0], &differs);
    assert_true(beside == (cases[i].differs ? NULL : &s.list[1]));
    if (cases[i].differs && *cases[i].differs)
      assert_string_equal(differs, cases[i].differs);
    else
      assert_null(differs);
    rdt_study_clear(&s);
  }
}

/* Whoever shows a trial again needs all that made it; and two that differ in votes alone are told apart. */
static void a_trial_is_shown_again_as_it_was_made(void **state) {
  static const struct {
    const char *more, *says;
  } cases[] = {{"", " --threads 1 --seed 1 --replay 7 -o "},
               {", \"device\": \"cuda:0\"", " --device cuda:0 "},
               {", \"checkpoints\": 4", " --checkpoints 4 "},
               {", \"avoid_sm\": 0", " --avoid-sm 0 "},
               {", \"avoid_cores\": [\"1\", \"3-5\"]", " --avoid-core 1 --avoid-core 3-5 "},
               {", \"scrub_every\": 1", " --scrub every:1 "},
               {", \"scrub_every\": 0", " --scrub off "},
               {", \"plan\": \"5\"", " --plan PLAN.json "}};
  static rdt_study s;
  rdt_reason why = {""};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char name[32], dir[128], more[256], text[1024];
    snprintf(name, sizeof name, "again%zu", i);
    snprintf(dir, sizeof dir, "%s", sub(name));
    snprintf(more, sizeof more, SETTINGS("tmr-sm", BITS, "2000", "0") ", \"threads\": 1%s", cases[i].more);
    put_head_with(dir, 1, 1, "gemm:8x8x8", more);
    if (rdt_study_add(&s, dir, &why) != RDT_OK) fail_msg("%s", why.text);
    rdt_found_again(&s.list[i], 7, text, sizeof text);
    if (!strstr(text, cases[i].says)) fail_msg("%s: %s", cases[i].says, text);
    assert_true((strstr(text, "tmr-sm --threads") != NULL) == (i == 0)); /* no word too many */
  }
  rdt_study_name(&s);
  assert_non_null(strstr(s.list[2].label, ", --checkpoints 4"));
  assert_null(strstr(s.list[0].label, "--checkpoints"));
  rdt_study_clear(&s);
}

/* ---- what faults come to ---- */

static rdt_trial judged(const rdt_target *t, rdt_shot s) {
  rdt_trial trial = {.bit = -1};
  snprintf(trial.spec, sizeof trial.spec, "ber:1e-3@accum");
  s.hit.done = true;
  s.layer = 0;
  rdt_trial_judge(t, &s, &trial);
  return trial;
}

/* Errors that cancel in every sum are no miss, alone or beside others that were noticed; those that do not are one. */
static void what_cancels_is_told_apart(void **state) {
  rdt_target_layer layer = {.name = "l", .scheme = "row", .info = rdt_scheme_find("row")};
  const rdt_target t = {.layers = &layer, .n_layers = 1};
  rdt_reason why = {""};
  rdt_tally tally = {.trials = 0};
  (void)state;
  const rdt_injection alone = {.site = RDT_SITE_ACCUM, .changed = 2, .error = 9.0, .weighted = 0.5, .left = -1.0};
  const rdt_injection beside = {.site = RDT_SITE_ACCUM,
                                .changed = 3,
                                .error = 9.0,
                                .weighted = 9.0,
                                .left = 8.0,
                                .stated = 1.0,
                                .left_weighted = 0.5};
  rdt_injection seen = beside;
  seen.left_weighted = 8.0;
  const rdt_shot silent = {.floor = 1.0, .wrong = 2, .hit = alone},
                 noticed = {.floor = 1.0, .wrong = 2, .faults = 1, .hit = beside};
  const rdt_shot worse = {.floor = 1.0, .wrong = 2, .faults = 1, .hit = seen};
  rdt_trial trials[3] = {judged(&t, silent), judged(&t, noticed), judged(&t, worse)};
  for (int i = 0; i < 3; i++) {
    assert_true(trials[i].claimed);
    assert_int_equal(rdt_tally_add(&tally, &trials[i], true, &why), RDT_OK);
    assert_int_equal(trials[i].fate, i < 2 ? RDT_FATE_SDC : RDT_FATE_MISCORRECTED);
    assert_int_equal(rdt_trial_fails(&trials[i], true), i == 2);
  }
  assert_int_equal(tally.data.cancelled, 2);
  assert_int_equal(tally.data.missed, 0);
  assert_int_equal(rdt_count_silent(&tally.data), 2);
  rdt_tally_clear(&tally);
}

/* A fault in what checks is no part of any share: nothing of it can be missed. */
static void shares_are_of_faults_in_data(void **state) {
  rdt_tally t = {.trials = 0};
  rdt_reason why = {""};
  (void)state;
  for (int i = 0; i < 100; i++) {
    rdt_trial one = {.id = i, .bit = -1, .effect = RDT_EFFECT_ABOVE, .claimed = true};
    snprintf(one.spec, sizeof one.spec, "bit@x");
    snprintf(one.layer, sizeof one.layer, "l");
    one.site = i < 10 ? RDT_SITE_ACCUM : RDT_SITE_BOUND;
    one.noticed = i != 0;
    one.fate = i ? RDT_FATE_RECOMPUTED : RDT_FATE_SDC;
    assert_int_equal(rdt_tally_add(&t, &one, true, &why), RDT_OK);
  }
  assert_true(rdt_count_coverage(&t.data).at == 0.9);
  assert_true(rdt_count_sdc(&t.data).at == 0.1);
  assert_int_equal(rdt_count_planted(&t.checker), 90);
  assert_int_equal(rdt_count_planted(&t.kind[0]), 10);
  assert_int_equal(rdt_count_planted(&t.layers[0].count), 10);
  const rdt_count all = rdt_tally_all(&t);
  assert_int_equal(rdt_count_planted(&all), 100);
  cJSON *head = cJSON_Parse("{\"trials\": 100, \"until_ci\": 0}"), *doc = rdt_summary_json(head, &t, 1000.0, true);
  assert_true(rdt_json_real(cJSON_GetObjectItem(doc, "data"), "coverage") == 0.9);
  assert_true(rdt_json_real(cJSON_GetObjectItem(doc, "fit"), "silent") == 100.0);
  assert_int_equal(rdt_json_real(cJSON_GetObjectItem(doc, "checker"), "recomputed"), 90);
  assert_int_equal(rdt_json_real(cJSON_GetObjectItem(doc, "total"), "planted"), 100);
  const cJSON *met = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(doc, "standards"), 0), "met");
  assert_true(cJSON_IsFalse(met)); /* 90 of 100 would have met it */
  cJSON_Delete(doc);
  cJSON_Delete(head);
  rdt_tally_clear(&t);
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_are_bounded),
      cmocka_unit_test(an_endless_line_is_not_read),
      cmocka_unit_test(no_shard_counts_twice),
      cmocka_unit_test(unequal_shards_are_refused),
      cmocka_unit_test(a_head_says_what_it_is_of),
      cmocka_unit_test(the_unprotected_one_had_the_same_faults),
      cmocka_unit_test(a_trial_is_shown_again_as_it_was_made),
      cmocka_unit_test(what_cancels_is_told_apart),
      cmocka_unit_test(shares_are_of_faults_in_data),
  };
  return cmocka_run_group_tests(tests, util_folder_make, util_folder_remove);
}
