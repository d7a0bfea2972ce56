/* What protection is for: silent corruptions of the same campaigns without protection and with it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/stats.h"
#include "inject/fault.h"
#include "report/figures.h"
#include "report/json.h"

enum { TARGETS = 24, SERIES = 2 };

static bool is_bare(const cJSON *row) {
  return strcmp(rdt_json_string(row, "scheme"), "none") == 0;
}

/* The name of a target without its sizes, and without the folder and the end of a file. */
static void short_name(const char *target, char *name, size_t size) {
  const char *slash = strrchr(target, '/');
  const bool op = strncmp(target, "gemm:", 5) == 0 || strncmp(target, "conv:", 5) == 0;
  snprintf(name, size, "%s", slash ? slash + 1 : target);
  char *end = op ? NULL : strpbrk(name, ":.");
  if (end) *end = '\0';
}

/* Faults in what checks are left out: they cannot be missed. */
typedef struct tally {
  int64_t planted, silent;
} tally;

static int64_t count_of(const cJSON *o, const char *name) {
  const double x = rdt_json_real(o, name);
  return x >= 0.0 && x <= 0x1p53 ? (int64_t)x : 0;
}

static tally in_data(const cJSON *row) {
  const cJSON *site;
  tally t = {0, 0};
  cJSON_ArrayForEach(site, rdt_json_list(row, "sites")) {
    const rdt_site s = rdt_site_find(rdt_json_string(site, "site"));
    if (s == RDT_SITE_COUNT || rdt_site_checks(s)) continue;
    t.planted += count_of(site, "planted");
    t.silent += count_of(site, "sdc") + count_of(site, "sdc_critical");
  }
  return t;
}

/* Campaigns of the same faults, with protection or without. */
static bool is_alike(const cJSON *a, const cJSON *b) {
  static const char *const members[] = {"target",   "model", "input", "family", "fault",
                                        "on_fault", "isa",   "batch", "inputs"};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(a, members[i]);
    const cJSON *y = cJSON_GetObjectItemCaseSensitive(b, members[i]);
    if ((x || y) && !cJSON_Compare(x, y, true)) return false;
  }
  return true;
}

rdt_status rdt_figure_silent_write(const cJSON *found, const char *path, rdt_reason *why) {
  static const char *const series[SERIES] = {"without protection", "protected"};
  char text[TARGETS][64], words[200];
  const char *names[TARGETS];
  const cJSON *firsts[TARGETS];
  double values[3][SERIES * TARGETS], planted[SERIES] = {0.0, 0.0}, silent = 0.0;
  int n = 0, pairs = 0;
  const cJSON *row;
  for (int m = 0; m < 3; m++)
    for (int i = 0; i < SERIES * TARGETS; i++) values[m][i] = NAN;
  cJSON_ArrayForEach(row, rdt_json_list(found, "rows")) {
    const tally t = in_data(row);
    int g = 0;
    if (!(t.planted > 0)) continue; /* runs without a fault */
    while (g < n && !is_alike(firsts[g], row)) g++;
    if (g == TARGETS) continue;
    if (g == n) {
      firsts[n] = row;
      short_name(rdt_json_string(row, "target"), text[n], sizeof *text);
      names[n] = text[n];
      n++;
    }
    const int at = SERIES * g + !is_bare(row);
    pairs += isnan(values[0][at]) && !isnan(values[0][SERIES * g + is_bare(row)]);
    const rdt_interval in = rdt_stats_wilson(t.silent, t.planted, 0.95);
    values[0][at] = 100.0 * (double)t.silent / (double)t.planted;
    values[1][at] = 100.0 * in.low;
    values[2][at] = 100.0 * in.high;
    planted[!is_bare(row)] += (double)t.planted;
    silent += is_bare(row) ? 0.0 : (double)t.silent;
  }
  if (pairs == 0)
    return rdt_fail(why, RDT_ERR_FORMAT, "the record has no target both without protection (none) and with it");
  snprintf(words, sizeof words,
           "of %.0f faults in data without protection and %.0f with it, drawn alike; with it: %.0f; whiskers: 95 %%",
           planted[0], planted[1], silent);
  const rdt_svg_bars b = {.title = "Wrong results that nobody noticed",
                          .text = words,
                          .unit = "%",
                          .axis = "of the faults in data",
                          .groups = n,
                          .series = SERIES,
                          .group_names = names,
                          .series_names = series,
                          .values = values[0],
                          .least = values[1],
                          .most = values[2]};
  return rdt_svg_bars_write(&b, path, why);
}
