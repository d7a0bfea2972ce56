#include "campaign/tally.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "campaign/families.h"
#include "core/memory.h"
#include "report/json.h"

int64_t rdt_count_planted(const rdt_count *c) {
  int64_t n = 0;
  for (int f = 0; f < RDT_FATE_COUNT; f++)
    if (f != RDT_FATE_ABSENT) n += c->fate[f];
  return n;
}

int64_t rdt_count_noticed(const rdt_count *c) {
  return c->fate[RDT_FATE_CORRECTED] + c->fate[RDT_FATE_RECOMPUTED] + c->fate[RDT_FATE_DETECTED];
}

int64_t rdt_count_silent(const rdt_count *c) {
  return c->fate[RDT_FATE_SDC] + c->fate[RDT_FATE_CRITICAL];
}

int64_t rdt_count_dangerous(const rdt_count *c) {
  return rdt_count_planted(c) - c->fate[RDT_FATE_MASKED];
}

int64_t rdt_count_above(const rdt_count *c) {
  return c->effect[RDT_EFFECT_ABOVE];
}

enum { SIZE_LOW = -3 };

int rdt_size_of(const rdt_trial *t) {
  if (!(t->floor > 0.0)) return RDT_SIZE_NO_FLOOR;
  const double decades = floor(log10(t->weighted / t->floor));
  if (!(decades >= SIZE_LOW)) return 0;
  const int at = (int)fmin(decades, RDT_SIZES) - SIZE_LOW + 1;
  return at < RDT_SIZE_NO_FLOOR ? at : RDT_SIZE_NO_FLOOR - 1;
}

void rdt_size_text(int size, char *buf, size_t room) {
  if (size == RDT_SIZE_NO_FLOOR)
    snprintf(buf, room, "no floor");
  else if (size == 0)
    snprintf(buf, room, "< 1e%d floors", SIZE_LOW);
  else if (size == RDT_SIZE_NO_FLOOR - 1)
    snprintf(buf, room, ">= 1e%d floors", SIZE_LOW + size - 1);
  else
    snprintf(buf, room, "1e%d .. 1e%d floors", SIZE_LOW + size - 1, SIZE_LOW + size);
}

int rdt_ratio_bin(double ratio) {
  if (!(ratio > 0.0)) return isnan(ratio) ? RDT_RATIO_BINS - 1 : -1;
  const double at = floor((log10(ratio) - RDT_RATIO_LOW) * RDT_RATIO_DECADE);
  return at < 0.0 ? 0 : at >= RDT_RATIO_BINS ? RDT_RATIO_BINS - 1 : (int)at;
}

static void add(rdt_count *c, const rdt_trial *t) {
  c->fate[t->fate]++;
  if (t->fate == RDT_FATE_ABSENT) return;
  c->effect[t->effect]++;
  c->claimed += t->claimed;
  c->cancelled += t->claimed && t->effect == RDT_EFFECT_CANCELLED && !rdt_fate_noticed(t->fate);
  if (rdt_trial_missed(t)) (*(t->claimed ? &c->missed : &c->uncovered))++;
}

rdt_count rdt_tally_all(const rdt_tally *t) {
  rdt_count sum = t->data;
  for (int f = 0; f < RDT_FATE_COUNT; f++) sum.fate[f] += t->checker.fate[f];
  for (int e = 0; e < RDT_EFFECT_COUNT; e++) sum.effect[e] += t->checker.effect[e];
  sum.missed += t->checker.missed;
  sum.uncovered += t->checker.uncovered;
  sum.cancelled += t->checker.cancelled;
  sum.claimed += t->checker.claimed;
  return sum;
}

bool rdt_tally_mute(const rdt_tally *t) {
  const rdt_count all = rdt_tally_all(t);
  return t->clean > 0 ? t->checks == 0 : rdt_count_planted(&all) == 0;
}

/* They are looked for one by one: files must not make that endless. */
enum { MOST_LAYERS = 1 << 14 };

static rdt_status layer(rdt_tally *t, const char *name, const char *scheme, rdt_layer_count **out, rdt_reason *why) {
  for (int i = 0; i < t->n_layers; i++)
    if (strcmp(t->layers[i].name, name) == 0) {
      *out = &t->layers[i];
      return RDT_OK;
    }
  if (t->n_layers == MOST_LAYERS) return rdt_fail(why, RDT_ERR_FORMAT, "more than %d layers", MOST_LAYERS);
  rdt_layer_count *grown = rdt_grow(t->layers, (size_t)t->n_layers, (size_t)t->n_layers + 1, sizeof *grown);
  if (!grown) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory while counting");
  t->layers = grown;
  rdt_layer_count *l = *out = &grown[t->n_layers++];
  memset(l, 0, sizeof *l);
  snprintf(l->name, sizeof l->name, "%s", name);
  snprintf(l->scheme, sizeof l->scheme, "%s", scheme);
  return RDT_OK;
}

/* A family's layer is called by it: "gemm blocks". */
static bool has_no_rate(const cJSON *head, const char *name) {
  const char *last = strrchr(name, ' ');
  const rdt_family f = last && *rdt_json_string(head, "family") ? rdt_family_find(last + 1) : RDT_FAMILY_COUNT;
  return f < RDT_FAMILY_COUNT && !rdt_family_claimed(f);
}

rdt_status rdt_tally_expect(rdt_tally *t, const cJSON *head, rdt_reason *why) {
  const cJSON *one;
  rdt_layer_count *l;
  t->lambda = head ? rdt_json_real(head, "lambda") : 0.0;
  cJSON_ArrayForEach(one, rdt_json_list(head, "layers")) {
    RDT_TRY(layer(t, rdt_json_string(one, "name"), rdt_json_string(one, "scheme"), &l, why));
    l->no_rate = has_no_rate(head, rdt_json_string(one, "name"));
  }
  return RDT_OK;
}

/* How bad is a miss? A larger number is worse. */
static double badness(const rdt_trial *t) {
  const double size = t->floor > 0.0 ? t->weighted / t->floor : t->weighted;
  const double bounded = isfinite(size) ? size / (1.0 + size) : 1.0;
  return 4.0 * t->claimed + 2.0 * (t->fate == RDT_FATE_CRITICAL) + 1.5 * (t->fate == RDT_FATE_SDC) + bounded;
}

static void note(rdt_tally *t, const rdt_trial *trial) {
  const bool silent = trial->fate == RDT_FATE_SDC || trial->fate == RDT_FATE_CRITICAL;
  if ((rdt_trial_missed(trial) || silent) && (!t->has_miss || badness(trial) > badness(&t->miss))) {
    t->has_miss = true;
    t->miss = *trial;
  }
  if (trial->stated >= 0.0) {
    const double ratio = trial->stated > 0.0 ? trial->left / trial->stated : trial->left > 0.0 ? INFINITY : 0.0;
    if (!(ratio <= t->rebuilt_worst)) t->rebuilt_worst = ratio;
    if (!(trial->stated <= t->rebuilt_bound)) t->rebuilt_bound = trial->stated;
  }
  if (trial->floor > 0.0 && !rdt_site_checks(trial->site)) {
    if (t->floor_most == 0.0 || trial->floor < t->floor_least) t->floor_least = trial->floor;
    if (trial->floor > t->floor_most) t->floor_most = trial->floor;
  }
}

/* Each number of a line is one that a double keeps; of enough lines their sum is not. */
static rdt_status add_to(int64_t *sum, int64_t n, rdt_reason *why) {
  return __builtin_add_overflow(*sum, n, sum)
             ? rdt_fail(why, RDT_ERR_FORMAT, "its trials have more checks than can be counted")
             : RDT_OK;
}

static rdt_status add_clean(rdt_tally *t, const rdt_trial *trial, rdt_reason *why) {
  const int64_t reports = trial->faults > 0 ? trial->faults : trial->noticed;
  const int bin = rdt_ratio_bin(trial->ratio);
  t->clean++;
  RDT_TRY(add_to(&t->reports, reports, why));
  t->differing += trial->fate == RDT_FATE_SDC;
  if (bin >= 0) t->ratio_clean[bin]++;
  if (!*trial->layer) return RDT_OK;
  rdt_layer_count *l;
  RDT_TRY(layer(t, trial->layer, trial->scheme, &l, why));
  l->runs++;
  l->checks += trial->checks; /* no more than of all layers */
  l->suspects += trial->suspects;
  l->reports += reports;
  return RDT_OK;
}

rdt_status rdt_tally_add(rdt_tally *t, const rdt_trial *trial, bool repairs, rdt_reason *why) {
  const bool clean = strcmp(trial->spec, "none") == 0;
  const int bin = rdt_ratio_bin(trial->ratio);
  t->trials++;
  RDT_TRY(add_to(&t->checks, trial->checks, why));
  RDT_TRY(add_to(&t->suspects, trial->suspects, why));
  RDT_TRY(add_to(&t->unchecked, trial->unchecked, why));
  if (rdt_trial_fails(trial, repairs) && t->failed++ < RDT_TALLY_FAILURES) t->failures[t->failed - 1] = *trial;
  if (clean) return add_clean(t, trial, why);
  const bool checker = rdt_site_checks(trial->site);
  add(checker ? &t->checker : &t->data, trial);
  if (trial->fate == RDT_FATE_ABSENT) return RDT_OK;
  rdt_layer_count *l;
  RDT_TRY(layer(t, trial->layer, trial->scheme, &l, why));
  add(&t->site[trial->site], trial);
  note(t, trial);
  if (checker) return RDT_OK;
  add(&l->count, trial);
  add(&t->kind[trial->kind], trial);
  add(&t->bit[trial->bit >= 0 ? trial->bit : RDT_BITS - 1], trial);
  add(&t->size[rdt_size_of(trial)], trial);
  if (bin >= 0 && trial->effect == RDT_EFFECT_ABOVE && trial->floor > 0.0) t->ratio_faulty[bin]++;
  return RDT_OK;
}

void rdt_tally_clear(rdt_tally *t) {
  rdt_free(t->layers);
  *t = (rdt_tally){.trials = 0};
}
