/* What `redoubt conformance` says: a table by operator, JSON, JUnit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"
#include "core/file.h"
#include "core/memory.h"
#include "report/json.h"
#include "report/table.h"
#include "report/text.h"

const char *const rdt_case_outcome_names[] = {"passed", "failed", "unsupported"};

/* The cases of one operator: a run of the cases sorted by operator. */
typedef struct part {
  const rdt_case *const *cases;
  size_t n;
} part;

/* A reason and how many cases have it. */
typedef struct cause {
  const char *text;
  size_t count;
} cause;

static bool is_unchecked(const rdt_case *c) {
  return c->outcome == RDT_CASE_PASSED && c->verdict == RDT_UNCHECKED;
}

static size_t count(const rdt_case *const *cases, size_t n, rdt_case_outcome outcome) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) found += cases[i]->outcome == outcome;
  return found;
}

static size_t count_unchecked(const rdt_case *const *cases, size_t n) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) found += is_unchecked(cases[i]);
  return found;
}

size_t rdt_conformance_count(const rdt_conformance *c, rdt_case_outcome outcome) {
  size_t found = 0;
  for (size_t i = 0; i < c->n_cases; i++) found += c->cases[i].outcome == outcome;
  return found;
}

static int by_operator(const void *a, const void *b) {
  const rdt_case *x = *(const rdt_case *const *)a, *y = *(const rdt_case *const *)b;
  int order = strcmp(x->group, y->group);
  if (order == 0) order = strcmp(x->op, y->op);
  return order ? order : strcmp(x->name, y->name);
}

/* Sorted copies of pointers to the cases; NULL without memory. */
static const rdt_case **sorted(const rdt_conformance *c) {
  const rdt_case **list = rdt_alloc(c->n_cases, sizeof *list);
  for (size_t i = 0; list && i < c->n_cases; i++) list[i] = &c->cases[i];
  if (list) qsort(list, c->n_cases, sizeof *list, by_operator);
  return list;
}

/* The operator that begins at case i of the sorted ones. */
static part part_at(const rdt_case *const *list, size_t n, size_t i) {
  size_t end = i + 1;
  while (end < n && strcmp(list[end]->group, list[i]->group) == 0 && strcmp(list[end]->op, list[i]->op) == 0) end++;
  return (part){list + i, end - i};
}

static int by_count(const void *a, const void *b) {
  const cause *x = a, *y = b;
  return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : strcmp(x->text, y->text);
}

/* Why cases of a part did not pass, most frequent first, into list, which has room for all; how many. */
static size_t causes_of(const part *p, cause *list) {
  size_t n = 0;
  for (size_t i = 0; i < p->n; i++) {
    if (p->cases[i]->outcome == RDT_CASE_PASSED) continue;
    const char *text = rdt_case_cause(p->cases[i]);
    size_t at = 0;
    while (at < n && strcmp(list[at].text, text) != 0) at++;
    if (at == n) list[n++] = (cause){text, 0};
    list[at].count++;
  }
  qsort(list, n, sizeof *list, by_count);
  return n;
}

/* ---- text ---- */

/* As much of a reason as a table has room for: no remedy, whole characters. */
static int shown_length(const char *text) {
  enum { WIDE = 72 };
  const char *remedy = strstr(text, "; ");
  size_t n = remedy ? (size_t)(remedy - text) : strlen(text);
  if (n > WIDE) n = WIDE;
  while (n > 0 && (text[n] & 0xC0) == 0x80) n--;
  return (int)n;
}

static void put_causes(rdt_table *t, const part *p, cause *list) {
  enum { SHOWN = 2 };
  char text[512] = "";
  const size_t n = causes_of(p, list);
  size_t used = 0;
  for (size_t i = 0; i < n && i < SHOWN; i++) {
    const char *between = i ? "; " : "";
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", between, shown_length(list[i].text), list[i].text);
    if (p->n > 1) used += (size_t)snprintf(text + used, sizeof text - used, " (%zu)", list[i].count);
  }
  if (n > SHOWN) snprintf(text + used, sizeof text - used, "; %zu more", n - SHOWN);
  rdt_table_cell(t, "%s", text);
}

static void put_counts(rdt_table *t, const rdt_case *const *cases, size_t n) {
  for (int o = 0; o < RDT_CASE_OUTCOMES; o++) rdt_table_cell(t, "%zu", count(cases, n, (rdt_case_outcome)o));
  rdt_table_cell(t, "%zu", count_unchecked(cases, n));
}

static void put_failures(const rdt_conformance *c) {
  bool first = true;
  for (size_t i = 0; i < c->n_cases; i++) {
    if (c->cases[i].outcome != RDT_CASE_FAILED) continue;
    printf("%s- %s: %s\n", first ? "\n" : "", c->cases[i].name, c->cases[i].why.text);
    first = false;
  }
}

static void put_total(const rdt_conformance *c, const rdt_case *const *list) {
  int64_t checks = 0, suspects = 0;
  const size_t failed = rdt_conformance_count(c, RDT_CASE_FAILED);
  for (size_t i = 0; i < c->n_cases; i++) {
    checks += c->cases[i].checks;
    suspects += c->cases[i].suspects;
  }
  printf("\n%s: %zu cases: %zu passed (%zu of them UNCHECKED), %zu failed, %zu unsupported; %" PRId64
         " suspects explained in %" PRId64 " checks\n",
         failed ? "FAIL" : "PASS", c->n_cases, rdt_conformance_count(c, RDT_CASE_PASSED),
         count_unchecked(list, c->n_cases), failed, rdt_conformance_count(c, RDT_CASE_UNSUPPORTED), suspects, checks);
}

bool rdt_conformance_text(const rdt_conformance *c, bool markdown) {
  const rdt_case **list = sorted(c);
  cause *causes = rdt_alloc(c->n_cases, sizeof *causes);
  rdt_table *t = rdt_table_create("group|operator|>passed|>failed|>unsupported|>unchecked|why not passed");
  bool printed = list && causes && t;
  for (size_t i = 0; printed && i < c->n_cases;) {
    const part p = part_at(list, c->n_cases, i);
    rdt_table_cell(t, "%s", p.cases[0]->group);
    rdt_table_cell(t, "%s", p.cases[0]->op);
    put_counts(t, p.cases, p.n);
    put_causes(t, &p, causes);
    i += p.n;
  }
  if (printed) {
    rdt_table_rule(t);
    rdt_table_cell(t, "all");
    rdt_table_cell(t, " ");
    put_counts(t, list, c->n_cases);
    rdt_table_cell(t, " ");
    printed = rdt_table_print(t, stdout, markdown);
  }
  if (printed) put_failures(c);
  if (printed) put_total(c, list);
  rdt_table_destroy(t);
  rdt_free(causes);
  rdt_free(list);
  return printed;
}

/* ---- JSON ---- */

static void add_counts(cJSON *o, const rdt_case *const *cases, size_t n) {
  for (int i = 0; i < RDT_CASE_OUTCOMES; i++)
    cJSON_AddNumberToObject(o, rdt_case_outcome_names[i], (double)count(cases, n, (rdt_case_outcome)i));
  cJSON_AddNumberToObject(o, "unchecked", (double)count_unchecked(cases, n));
}

static cJSON *operator_json(const part *p, cause *causes) {
  cJSON *o = cJSON_CreateObject(), *list;
  cJSON_AddStringToObject(o, "group", p->cases[0]->group);
  cJSON_AddStringToObject(o, "operator", p->cases[0]->op);
  add_counts(o, p->cases, p->n);
  list = cJSON_AddArrayToObject(o, "reasons");
  const size_t n = causes_of(p, causes);
  for (size_t i = 0; i < n; i++) {
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "text", causes[i].text);
    cJSON_AddNumberToObject(one, "count", (double)causes[i].count);
    cJSON_AddItemToArray(list, one);
  }
  return o;
}

static cJSON *case_json(const rdt_case *c) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "name", c->name);
  cJSON_AddStringToObject(o, "group", c->group);
  cJSON_AddStringToObject(o, "operator", c->op);
  cJSON_AddStringToObject(o, "outcome", rdt_case_outcome_names[c->outcome]);
  if (c->outcome != RDT_CASE_PASSED) cJSON_AddStringToObject(o, "reason", c->why.text);
  cJSON_AddStringToObject(o, "verdict", rdt_verdict_name(c->verdict));
  cJSON_AddNumberToObject(o, "checks", (double)c->checks);
  cJSON_AddNumberToObject(o, "suspects", (double)c->suspects);
  rdt_json_number(o, "seconds", c->seconds);
  return o;
}

cJSON *rdt_conformance_json(const rdt_conformance *c) {
  const rdt_settings *s = c->settings;
  const rdt_case **list = sorted(c);
  cause *causes = rdt_alloc(c->n_cases, sizeof *causes);
  cJSON *doc = list && causes ? rdt_document("conformance") : NULL, *parts, *cases;
  if (doc) {
    cJSON_AddStringToObject(doc, "folder", s->operand);
    cJSON_AddStringToObject(doc, "isa", rdt_context_isa(c->ctx));
    cJSON_AddNumberToObject(doc, "threads", rdt_context_threads(c->ctx));
    cJSON_AddStringToObject(doc, "scheme", s->scheme ? s->scheme : "auto");
    cJSON_AddNumberToObject(doc, "exit", rdt_conformance_count(c, RDT_CASE_FAILED) ? RDT_EXIT_FAULT : RDT_EXIT_OK);
    cJSON_AddNumberToObject(doc, "cases", (double)c->n_cases);
    add_counts(doc, list, c->n_cases);
    parts = cJSON_AddArrayToObject(doc, "operators");
    cases = cJSON_AddArrayToObject(doc, "results");
    for (size_t i = 0; i < c->n_cases;) {
      const part p = part_at(list, c->n_cases, i);
      cJSON_AddItemToArray(parts, operator_json(&p, causes));
      i += p.n;
    }
    for (size_t i = 0; i < c->n_cases; i++) cJSON_AddItemToArray(cases, case_json(&c->cases[i]));
  }
  rdt_free(causes);
  rdt_free(list);
  return doc;
}

/* ---- JUnit ---- */

static void put_attribute(FILE *f, const char *name, const char *value) {
  fprintf(f, " %s=\"", name);
  rdt_text_xml(f, value);
  fputc('"', f);
}

static void put_case(FILE *f, const rdt_case *c) {
  char classname[sizeof c->group + sizeof c->op];
  snprintf(classname, sizeof classname, "%s.%s", c->group, c->op);
  fputs("    <testcase", f);
  put_attribute(f, "classname", classname);
  put_attribute(f, "name", c->name);
  fprintf(f, " time=\"%.6f\"", c->seconds);
  if (c->outcome == RDT_CASE_PASSED) {
    fputs("/>\n", f);
    return;
  }
  fputs(c->outcome == RDT_CASE_FAILED ? "><failure" : "><skipped", f);
  put_attribute(f, "message", c->why.text);
  fputs("/></testcase>\n", f);
}

static void put_suite(FILE *f, const rdt_case *const *cases, size_t n) {
  double seconds = 0.0;
  for (size_t i = 0; i < n; i++) seconds += cases[i]->seconds;
  fputs("  <testsuite", f);
  put_attribute(f, "name", cases[0]->group);
  fprintf(f, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\" time=\"%.6f\">\n", n,
          count(cases, n, RDT_CASE_FAILED), count(cases, n, RDT_CASE_UNSUPPORTED), seconds);
  for (size_t i = 0; i < n; i++) put_case(f, cases[i]);
  fputs("  </testsuite>\n", f);
}

rdt_status rdt_conformance_junit(const rdt_conformance *c, const char *path, rdt_reason *why) {
  char *text = NULL;
  size_t bytes = 0;
  const rdt_case **list = sorted(c);
  FILE *f = list ? open_memstream(&text, &bytes) : NULL;
  rdt_status status = f ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (f) fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"redoubt conformance\">\n", f);
  for (size_t i = 0; f && i < c->n_cases;) {
    size_t end = i + 1;
    while (end < c->n_cases && strcmp(list[end]->group, list[i]->group) == 0) end++;
    put_suite(f, list + i, end - i);
    i = end;
  }
  if (f) fputs("</testsuites>\n", f);
  if (f && fclose(f) != 0) status = rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) status = rdt_file_write(path, text, bytes, NULL, 0, why);
  free(text);
  rdt_free(list);
  return status;
}
