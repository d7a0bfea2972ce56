#include "campaign/summary.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/json.h"

const rdt_standard rdt_standards[RDT_STANDARDS] = {{"ASIL B", 0.90}, {"ASIL C", 0.97}, {"ASIL D", 0.99}};

const char rdt_campaign_caveat[] =
    "This is coverage of faults that were injected by these models at these sites, each as often as the mix says. It "
    "is "
    "no measurement in a beam or in the field: which faults a device has, and how often, it does not know.";

static rdt_counted counted(int64_t hits, int64_t n) {
  return (rdt_counted){n > 0 ? (double)hits / (double)n : NAN, rdt_stats_wilson(hits, n, RDT_CONFIDENCE)};
}

rdt_counted rdt_count_coverage(const rdt_count *c) {
  return counted(rdt_count_noticed(c), rdt_count_dangerous(c));
}

rdt_counted rdt_count_sdc(const rdt_count *c) {
  return counted(rdt_count_silent(c), rdt_count_planted(c));
}

bool rdt_summary_enough(const rdt_tally *t, double until) {
  enum { LEAST = 100 };
  const int64_t n = rdt_count_planted(&t->data);
  return until > 0.0 && n >= LEAST &&
         rdt_stats_half_width(rdt_stats_wilson(rdt_count_silent(&t->data), n, RDT_CONFIDENCE)) <= until;
}

bool rdt_summary_whole(const cJSON *head, const rdt_tally *t) {
  return (double)t->trials >= rdt_json_real(head, "trials") || rdt_summary_enough(t, rdt_json_real(head, "until_ci"));
}

static const char *const judgements[] = {"PASS", "FAIL", "NO CLAIM", "NO VERDICT"};

const char *rdt_judgement_name(rdt_judgement j) {
  return judgements[j];
}

rdt_judgement rdt_summary_judge(const rdt_tally *t) {
  if (t->failed > 0) return RDT_JUDGED_FAIL;
  if (rdt_tally_mute(t)) return RDT_JUDGED_MUTE;
  return t->clean == 0 && t->data.claimed + t->checker.claimed == 0 ? RDT_JUDGED_UNCLAIMED : RDT_JUDGED_PASS;
}

/* "SDC-critical" as a member: "sdc_critical" */
static void key_of(rdt_fate f, char *key, size_t size) {
  snprintf(key, size, "%s", rdt_fate_name(f));
  for (; *key; key++) *key = isalnum((unsigned char)*key) ? (char)tolower((unsigned char)*key) : '_';
}

static void add_counted(cJSON *o, const char *name, rdt_counted c) {
  char key[48];
  rdt_json_number(o, name, c.at);
  snprintf(key, sizeof key, "%s_low", name);
  cJSON_AddNumberToObject(o, key, c.in.low);
  snprintf(key, sizeof key, "%s_high", name);
  cJSON_AddNumberToObject(o, key, c.in.high);
}

/* Shares are of faults in data: in what checks them nothing can be missed. */
static cJSON *counts_of(const char *key, const char *name, const rdt_count *c) {
  char fate[32];
  cJSON *o = cJSON_CreateObject();
  rdt_json_text(o, key, name);
  cJSON_AddNumberToObject(o, "planted", (double)rdt_count_planted(c));
  for (int f = 0; f < RDT_FATE_COUNT; f++) {
    key_of((rdt_fate)f, fate, sizeof fate);
    cJSON_AddNumberToObject(o, fate, (double)c->fate[f]);
  }
  cJSON_AddNumberToObject(o, "above_floor", (double)rdt_count_above(c));
  cJSON_AddNumberToObject(o, "below_floor", (double)c->effect[RDT_EFFECT_BELOW]);
  cJSON_AddNumberToObject(o, "cancelled", (double)c->effect[RDT_EFFECT_CANCELLED]);
  cJSON_AddNumberToObject(o, "cancelled_claimed", (double)c->cancelled);
  cJSON_AddNumberToObject(o, "claimed", (double)c->claimed);
  cJSON_AddNumberToObject(o, "missed", (double)c->missed);
  cJSON_AddNumberToObject(o, "uncovered", (double)c->uncovered);
  return o;
}

static cJSON *row_of(const char *key, const char *name, const rdt_count *c) {
  cJSON *o = counts_of(key, name, c);
  add_counted(o, "coverage", rdt_count_coverage(c));
  add_counted(o, "sdc_share", rdt_count_sdc(c));
  return o;
}

static void add_rows(cJSON *doc, const rdt_tally *t) {
  char text[48];
  cJSON *list = cJSON_AddArrayToObject(doc, "sites");
  for (int i = 0; i < RDT_SITE_COUNT; i++) {
    const bool checks = rdt_site_checks((rdt_site)i);
    if (!rdt_count_planted(&t->site[i])) continue;
    cJSON *row = (checks ? counts_of : row_of)("site", rdt_site_name((rdt_site)i), &t->site[i]);
    cJSON_AddStringToObject(row, "hits", checks ? "checks" : "data");
    cJSON_AddItemToArray(list, row);
  }
  list = cJSON_AddArrayToObject(doc, "layers");
  for (int i = 0; i < t->n_layers; i++) {
    if (!rdt_count_planted(&t->layers[i].count)) continue;
    cJSON *row = row_of("layer", t->layers[i].name, &t->layers[i].count);
    cJSON_AddStringToObject(row, "scheme", t->layers[i].scheme);
    cJSON_AddItemToArray(list, row);
  }
  list = cJSON_AddArrayToObject(doc, "kinds");
  for (int i = 0; i < RDT_FAULT_KIND_COUNT; i++)
    if (rdt_count_planted(&t->kind[i]))
      cJSON_AddItemToArray(list, row_of("kind", rdt_fault_kind_name((rdt_fault_kind)i), &t->kind[i]));
  list = cJSON_AddArrayToObject(doc, "bits");
  for (int i = 0; i < RDT_BITS; i++) {
    snprintf(text, sizeof text, i < RDT_BITS - 1 ? "%d" : "none", i);
    if (rdt_count_planted(&t->bit[i])) cJSON_AddItemToArray(list, row_of("highest_bit", text, &t->bit[i]));
  }
  list = cJSON_AddArrayToObject(doc, "sizes");
  for (int i = 0; i < RDT_SIZES; i++) {
    rdt_size_text(i, text, sizeof text);
    if (rdt_count_planted(&t->size[i])) cJSON_AddItemToArray(list, row_of("size", text, &t->size[i]));
  }
}

static void add_ratios(cJSON *doc, const char *name, const int64_t *bins) {
  cJSON *list = cJSON_AddArrayToObject(doc, name);
  for (int i = 0; i < RDT_RATIO_BINS; i++) {
    if (!bins[i]) continue;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "log10_from", RDT_RATIO_LOW + (double)i / RDT_RATIO_DECADE);
    cJSON_AddNumberToObject(o, "count", (double)bins[i]);
    cJSON_AddItemToArray(list, o);
  }
}

static cJSON *failure_of(const rdt_trial *f, bool repairs) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "id", (double)f->id);
  cJSON_AddStringToObject(o, "why", rdt_trial_reproach(f, repairs));
  cJSON_AddStringToObject(o, "fate", rdt_fate_name(f->fate));
  rdt_json_text(o, "fault", f->spec);
  rdt_json_text(o, "layer", f->layer);
  rdt_json_text(o, "did", f->did);
  rdt_json_number(o, "error", f->error);
  rdt_json_number(o, "weighted", f->weighted);
  rdt_json_number(o, "floor", f->floor);
  return o;
}

static void add_standards(cJSON *doc, const rdt_tally *t, double fit) {
  const rdt_counted coverage = rdt_count_coverage(&t->data), sdc = rdt_count_sdc(&t->data);
  cJSON *list = cJSON_AddArrayToObject(doc, "standards");
  for (int i = 0; i < RDT_STANDARDS; i++) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", rdt_standards[i].name);
    cJSON_AddNumberToObject(o, "share", rdt_standards[i].share);
    cJSON_AddBoolToObject(o, "met", coverage.in.low >= rdt_standards[i].share);
    cJSON_AddItemToArray(list, o);
  }
  if (!(fit > 0.0)) return;
  cJSON *o = cJSON_AddObjectToObject(doc, "fit");
  cJSON_AddNumberToObject(o, "raw", fit);
  rdt_json_number(o, "silent", fit * sdc.at);
  cJSON_AddNumberToObject(o, "silent_high", fit * sdc.in.high);
}

/* How often each layer was suspect without a fault, next to what lambda states. */
static void add_suspects(cJSON *clean, const rdt_tally *t) {
  cJSON *list = cJSON_AddArrayToObject(clean, "layers");
  rdt_json_number(clean, "stated_share", rdt_stats_beyond(t->lambda));
  for (int i = 0; i < t->n_layers; i++) {
    const rdt_layer_count *l = &t->layers[i];
    if (l->runs == 0) continue;
    cJSON *o = cJSON_CreateObject();
    rdt_json_text(o, "layer", l->name);
    cJSON_AddStringToObject(o, "scheme", l->scheme);
    cJSON_AddNumberToObject(o, "runs", (double)l->runs);
    cJSON_AddNumberToObject(o, "checks", (double)l->checks);
    cJSON_AddNumberToObject(o, "suspects", (double)l->suspects);
    cJSON_AddNumberToObject(o, "reports", (double)l->reports);
    cJSON_AddBoolToObject(o, "rate_stated", !l->no_rate);
    cJSON_AddItemToArray(list, o);
  }
}

cJSON *rdt_summary_json(const cJSON *head, const rdt_tally *t, double fit, bool repairs) {
  const cJSON *item;
  cJSON *doc = rdt_document("coverage/2");
  cJSON_ArrayForEach(item, head) {
    if (strcmp(item->string, "schema") == 0 || strcmp(item->string, "redoubt") == 0 ||
        strcmp(item->string, "build") == 0 || strcmp(item->string, "layers") == 0 || strcmp(item->string, "mix") == 0)
      continue;
    cJSON_AddItemToObject(doc, item->string, cJSON_Duplicate(item, true));
  }
  cJSON_AddNumberToObject(doc, "done", (double)t->trials);
  cJSON_AddNumberToObject(doc, "checks", (double)t->checks);
  cJSON_AddNumberToObject(doc, "suspects", (double)t->suspects);
  cJSON_AddNumberToObject(doc, "unchecked", (double)t->unchecked);
  cJSON_AddNumberToObject(doc, "failed", (double)t->failed);
  cJSON_AddBoolToObject(doc, "whole", rdt_summary_whole(head, t));
  cJSON_AddStringToObject(doc, "verdict", rdt_judgement_name(rdt_summary_judge(t)));
  cJSON_AddNumberToObject(doc, "exit", rdt_summary_judge(t) == RDT_JUDGED_MUTE ? 4 : t->failed > 0);
  if (t->clean > 0) {
    cJSON *o = cJSON_AddObjectToObject(doc, "clean");
    cJSON_AddNumberToObject(o, "runs", (double)t->clean);
    cJSON_AddNumberToObject(o, "reports", (double)t->reports);
    cJSON_AddNumberToObject(o, "differing", (double)t->differing);
    cJSON_AddNumberToObject(o, "report_share_high", rdt_stats_upper(t->reports, t->clean, RDT_CONFIDENCE));
    cJSON_AddNumberToObject(o, "check_share_high", rdt_stats_upper(t->reports, t->checks, RDT_CONFIDENCE));
    add_suspects(o, t);
  }
  if (t->clean < t->trials) {
    const rdt_count all = rdt_tally_all(t);
    cJSON_AddItemToObject(doc, "total", counts_of("of", "all", &all));
    cJSON_AddItemToObject(doc, "data", row_of("of", "data", &t->data));
    cJSON_AddItemToObject(doc, "checker", counts_of("of", "checks", &t->checker));
    add_rows(doc, t);
    add_standards(doc, t, fit);
  }
  if (t->rebuilt_bound > 0.0) {
    cJSON *o = cJSON_AddObjectToObject(doc, "rebuilt");
    rdt_json_number(o, "worst_of_bound", t->rebuilt_worst);
    rdt_json_number(o, "largest_bound", t->rebuilt_bound);
  }
  add_ratios(doc, "ratios_clean", t->ratio_clean);
  add_ratios(doc, "ratios_faulty", t->ratio_faulty);
  cJSON_AddNumberToObject(doc, "floor_least", t->floor_least);
  cJSON_AddNumberToObject(doc, "floor_most", t->floor_most);
  cJSON *list = cJSON_AddArrayToObject(doc, "failures");
  for (int i = 0; i < RDT_TALLY_FAILURES && i < t->failed; i++)
    cJSON_AddItemToArray(list, failure_of(&t->failures[i], repairs));
  if (t->has_miss) cJSON_AddItemToObject(doc, "worst_miss", failure_of(&t->miss, repairs));
  cJSON_AddStringToObject(doc, "caveat", rdt_campaign_caveat);
  return doc;
}
