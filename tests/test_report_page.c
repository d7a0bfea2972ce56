/* Reports that come back: what is read is checked, and what becomes a page is escaped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <redoubt/redoubt.h>

#include "core/memory.h"
#include "net/tensor_file.h"
#include "report/html.h"
#include "report/json.h"
#include "report/report.h"
#include "report/words.h"

#define DIGITS TEST_DATA "/examples/digits/"

static char *sound; /* a report of a run with a fault, as text */

static int make(void **state) {
  rdt_context *ctx;
  rdt_model *model;
  rdt_report *report;
  rdt_tensor input;
  rdt_run_result result;
  (void)state;
  if (rdt_context_create(&ctx, 1) != RDT_OK || rdt_model_load(ctx, DIGITS "digits.onnx", &model) != RDT_OK) return 1;
  if (rdt_tensor_file_read(DIGITS "some.npy", &input, NULL) != RDT_OK) return 1;
  if (rdt_report_create(model, &report) != RDT_OK) return 1;
  rdt_context_on_event(ctx, rdt_report_event, report);
  if (rdt_model_inject(model, "bit:30@accum,layer=conv4,seed=2") != RDT_OK) return 1;
  const rdt_status status = rdt_model_run(model, &input, 1, &result);
  rdt_report_run(report, status, &result);
  const rdt_status made = rdt_report_text(report, RDT_REPORT_JSON, &sound);
  rdt_report_destroy(report);
  rdt_model_free(model);
  rdt_context_destroy(ctx);
  rdt_free(input.data);
  return made == RDT_OK ? 0 : 1;
}

static int unmake(void **state) {
  (void)state;
  free(sound);
  return 0;
}

static rdt_status parse(const char *text, size_t bytes, rdt_reason *why) {
  cJSON *doc;
  const rdt_status status = rdt_report_parse(text, bytes, "f.json", &doc, why);
  assert_true((status == RDT_OK) == (doc != NULL));
  if (doc) { /* what is accepted can be shown */
    char *page;
    assert_int_equal(rdt_html_page(doc, &page, why), RDT_OK);
    free(page);
  }
  cJSON_Delete(doc);
  return status;
}

static void refused(const char *text, rdt_status wanted, const char *words) {
  rdt_reason why = {""};
  const rdt_status status = parse(text, strlen(text), &why);
  if (status != wanted || !strstr(why.text, words) || strncmp(why.text, "f.json: ", 8) != 0)
    fail_msg("%.60s: status %d, %s; \"%s\" was expected", text, (int)status, why.text, words);
}

static void test_sound(void **state) {
  rdt_reason why = {""};
  (void)state;
  assert_int_equal(parse(sound, strlen(sound), &why), RDT_OK);
}

static void test_foreign(void **state) {
  (void)state;
  refused("", RDT_ERR_FORMAT, "no JSON");
  refused("hello", RDT_ERR_FORMAT, "no JSON");
  refused("{\n\"schema\": \"redoubt.run/1\",\n\"x\": [1, }", RDT_ERR_FORMAT, "line 3");
  refused("[]", RDT_ERR_FORMAT, "no object");
  refused("{}", RDT_ERR_FORMAT, "no \"schema\"");
  refused("{\"schema\": 1}", RDT_ERR_FORMAT, "no \"schema\"");
  refused("{\"schema\": \"redoubt.run/1\"} {}", RDT_ERR_FORMAT, "behind the end");
  refused("{\"schema\": \"redoubt.run/1\"}", RDT_ERR_FORMAT, "lacks redoubt; write it anew");
  refused("{\"schema\": \"redoubt.run/2\"}", RDT_ERR_UNSUPPORTED, "version redoubt.run/2");
  refused("{\"schema\": \"redoubt.bench-model/1\"}", RDT_ERR_UNSUPPORTED, "another document");
}

/* Nested deeply, too many values: refused before they take memory. */
static void test_large(void **state) {
  enum { MANY = 5 << 20 };
  rdt_reason why;
  char *text = malloc(MANY);
  (void)state;
  assert_non_null(text);
  memset(text, ',', MANY);
  assert_int_equal(parse(text, MANY, &why), RDT_ERR_NOMEM);
  memset(text, '[', 100000);
  assert_int_equal(parse(text, 100000, &why), RDT_ERR_FORMAT);
  free(text);
}

/* Each member that is needed, taken away or replaced by something of another kind. */
static void spoil(cJSON *doc, cJSON *object, int depth) {
  static const char *const optional[] = {"microcode", "expected", "actual"};
  for (cJSON *m = object->child; m; m = m->next) {
    rdt_reason why = {""};
    char *text;
    bool spare = false;
    const int type = m->type;
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
      spare = spare || strcmp(m->string, optional[i]) == 0;
    m->type = cJSON_IsTrue(m) || cJSON_IsFalse(m) ? cJSON_NULL : cJSON_True;
    assert_non_null(text = cJSON_PrintUnformatted(doc));
    m->type = type;
    if (parse(text, strlen(text), &why) == RDT_OK && strcmp(m->string, "action") != 0 &&
        strcmp(m->string, "floor") != 0)
      fail_msg("%s may be of any kind", m->string);
    free(text);
    char *name = m->string;
    m->string = (char *)(uintptr_t) "other";
    assert_non_null(text = cJSON_PrintUnformatted(doc));
    m->string = name;
    if (parse(text, strlen(text), &why) == RDT_OK && !spare && strcmp(name, "action") != 0 &&
        strcmp(name, "place") != 0 && depth == 0)
      fail_msg("%s may be absent", name);
    free(text);
  }
}

static void test_damaged(void **state) {
  cJSON *doc = cJSON_Parse(sound);
  (void)state;
  assert_non_null(doc);
  cJSON *layer = cJSON_GetObjectItemCaseSensitive(doc, "layers")->child;
  cJSON_DeleteItemFromObjectCaseSensitive(layer, "place"); /* nobody reads it */
  cJSON *event = cJSON_GetObjectItemCaseSensitive(doc, "events")->child;
  assert_non_null(event);
  spoil(doc, doc, 0);
  spoil(doc, layer, 0);
  spoil(doc, event, 1);
  spoil(doc, cJSON_GetObjectItemCaseSensitive(event, "location"), 0);
  spoil(doc, cJSON_GetObjectItemCaseSensitive(event, "rungs")->child, 0);
  cJSON_Delete(doc);
}

static uint64_t draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

/* Cut anywhere, and with bytes changed: refused or shown, but never more. */
static void test_mutations(void **state) {
  static const char likely[] = "\"{}[],:0-e.\\ntu\x80\x01";
  const size_t length = strlen(sound);
  uint64_t seed = 7;
  rdt_reason why;
  (void)state;
  char *text = malloc(length);
  assert_non_null(text);
  for (size_t cut = 0; cut < length; cut += 1 + cut / 40) {
    char *part = malloc(cut + 1); /* so that a read behind the end shows */
    memcpy(part, sound, cut);
    assert_int_not_equal(parse(part, cut, &why), RDT_OK);
    free(part);
  }
  for (int i = 0; i < 1500; i++) {
    memcpy(text, sound, length);
    for (int k = 0; k < 1 + i % 4; k++) text[draw(&seed) % length] = likely[draw(&seed) % (sizeof likely - 1)];
    (void)parse(text, length, &why);
  }
  free(text);
}

/* ---- the page ---- */

static const char *const hostile[] = {
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "a & b 'c' \"d\"",
    "</title></style><b>",
    "]]>--><!--",
    "\x01\x02\x1b[31m\x7f",
    "\xff\xfe broken \xc3 utf \xed\xa0\x80",
    "javascript:alert(1)",
    "\xe2\x80\xae reversed",
    "",
};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

/* Every text of the document becomes that one. */
static void poison(cJSON *o, const char *text) {
  for (cJSON *m = o->child; m; m = m->next) {
    const char *name = m->string ? m->string : "";
    const bool kept = strcmp(name, "schema") == 0 || strcmp(name, "verdict") == 0;
    if (cJSON_IsString(m) && !kept) cJSON_SetValuestring(m, text);
    poison(m, text);
  }
}

static void count(const char *page, const char *what, int wanted) {
  int n = 0;
  for (const char *p = page; (p = strstr(p, what)) != NULL; p++) n++;
  if (n != wanted) fail_msg("%d times %s in the page, %d expected", n, what, wanted);
}

static char *poisoned(const char *text) {
  rdt_reason why;
  char *page;
  cJSON *doc = cJSON_Parse(sound);
  poison(doc, text);
  assert_int_equal(rdt_html_page(doc, &page, &why), RDT_OK);
  cJSON_Delete(doc);
  return page;
}

static int times(const char *page, char c) {
  int n = 0;
  for (; *page; page++) n += *page == c;
  return n;
}

/* The page has the tags and quotes that it has with a harmless text of the same length. */
static void test_hostile(void **state) {
  (void)state;
  for (int i = 0; i < 2 * HOSTILE; i++) {
    char text[4096] = "", harmless[4096];
    for (int k = 0; k < (i < HOSTILE ? 1 : 40); k++) strcat(text, hostile[i % HOSTILE]); /* cut inside of it, too */
    strcpy(harmless, text);
    for (char *p = harmless; *p; p++) *p = *p == '/' ? '/' : 'x'; /* of a path, the last part is shown first */
    char *page = poisoned(text), *plain = poisoned(harmless);
    for (const char *mark = "<>\""; *mark; mark++) assert_int_equal(times(page, *mark), times(plain, *mark));
    count(page, "<script", 0);
    count(page, "<img", 0);
    for (const unsigned char *p = (const unsigned char *)page; *p; p++) assert_true(*p >= 0x20 || *p == '\n');
    count(page, "\xff", 0);
    count(page, "\xed\xa0", 0);
    free(page);
    free(plain);
  }
}

static void test_page(void **state) {
  rdt_reason why;
  char *page;
  cJSON *doc;
  (void)state;
  assert_int_equal(rdt_report_parse(sound, strlen(sound), "f.json", &doc, &why), RDT_OK);
  assert_int_equal(rdt_html_page(doc, &page, &why), RDT_OK);
  static const char *const needed[] = {"RECOMPUTED</h1>",
                                       "digits.onnx",
                                       "conv4: a transient fault in the result",
                                       "computed again on the same code path: the new result passed its checks",
                                       "filter checksum",
                                       "every bit",
                                       "notices any one changed weight",
                                       "Element [2, 28, 0, 1]"};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!strstr(page, needed[i])) fail_msg("the page does not say: %s", needed[i]);
  count(page, "<tr class=CLEAN>", 10);
  count(page, "<tr class=RECOMPUTED>", 1);
  static const char *const foreign[] = {"http:", "https:", "url(", "@import", "src=", "<script", "<link", "<iframe"};
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) count(page, foreign[i], 0);
  free(page);
  cJSON_Delete(doc);
}

/* Five hundred layers stand in groups; those that are not clean are open, those that are unchecked are named. */
static void test_many_layers(void **state) {
  rdt_reason why;
  char *page, name[64];
  cJSON *doc = cJSON_Parse(sound);
  (void)state;
  cJSON *layers = cJSON_GetObjectItemCaseSensitive(doc, "layers"), *first = layers->child;
  for (int i = cJSON_GetArraySize(layers); i < 500; i++) {
    cJSON *copy = cJSON_Duplicate(first, true);
    snprintf(name, sizeof name, "block.%d/attention/dense/MatMul", i);
    cJSON_SetValuestring(cJSON_GetObjectItemCaseSensitive(copy, "name"), name);
    if (i == 333) cJSON_SetValuestring(cJSON_GetObjectItemCaseSensitive(copy, "verdict"), "DETECTED");
    if (i == 444) cJSON_SetValuestring(cJSON_GetObjectItemCaseSensitive(copy, "verdict"), "UNCHECKED");
    cJSON_AddItemToArray(layers, copy);
  }
  assert_int_equal(rdt_html_page(doc, &page, &why), RDT_OK);
  count(page, "<details class=group", 20);
  count(page, "<details class=group open>", 2);
  assert_non_null(strstr(page, "1 layer is UNCHECKED"));
  assert_true(strlen(page) < 1 << 20);
  free(page);
  cJSON_Delete(doc);
}

/* What the schema says that there is has a meaning on the page. */
static void test_words(void **state) {
  static const char *const rungs[] = {"secure",   "correct",    "recompute", "apart",
                                      "checksum", "other core", "other path"};
  static const char *const diagnoses[] = {"transient", "persistent", "checker", "memory", "unknown"};
  (void)state;
  for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++) assert_true(*rdt_rung_meaning(rungs[i]));
  for (size_t i = 0; i < sizeof diagnoses / sizeof *diagnoses; i++) assert_true(*rdt_diagnosis_meaning(diagnoses[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sound),   cmocka_unit_test(test_foreign),   cmocka_unit_test(test_large),
      cmocka_unit_test(test_damaged), cmocka_unit_test(test_mutations), cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_words),   cmocka_unit_test(test_page),      cmocka_unit_test(test_many_layers),
  };
  return cmocka_run_group_tests(tests, make, unmake);
}
