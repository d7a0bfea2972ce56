/* What protection is for: silent corruptions of the same campaigns without protection and with it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

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

rdt_status rdt_figure_silent_write(const cJSON *found, const char *path, rdt_reason *why) {
  static const char *const series[SERIES] = {"without protection", "protected"};
  static const char *const members[3] = {"sdc_share", "sdc_share_low", "sdc_share_high"};
  char text[TARGETS][64], words[200];
  const char *names[TARGETS], *targets[TARGETS];
  double values[3][SERIES * TARGETS], planted[SERIES] = {0.0, 0.0}, silent = 0.0;
  int n = 0, pairs = 0;
  const cJSON *row;
  for (int m = 0; m < 3; m++)
    for (int i = 0; i < SERIES * TARGETS; i++) values[m][i] = NAN;
  cJSON_ArrayForEach(row, rdt_json_list(found, "rows")) {
    const cJSON *total = cJSON_GetObjectItemCaseSensitive(row, "total");
    const char *target = rdt_json_string(row, "target");
    int g = 0;
    if (!total) continue; /* runs without a fault */
    while (g < n && strcmp(targets[g], target) != 0) g++;
    if (g == TARGETS) continue;
    if (g == n) {
      targets[n] = target;
      short_name(target, text[n], sizeof *text);
      names[n] = text[n];
      n++;
    }
    const int at = SERIES * g + !is_bare(row);
    pairs += isnan(values[0][at]) && !isnan(values[0][SERIES * g + is_bare(row)]);
    for (int m = 0; m < 3; m++) values[m][at] = 100.0 * rdt_json_real(total, members[m]);
    planted[!is_bare(row)] += rdt_json_real(total, "planted");
    silent += is_bare(row) ? 0.0 : rdt_json_real(total, "sdc") + rdt_json_real(total, "sdc_critical");
  }
  if (pairs == 0)
    return rdt_fail(why, RDT_ERR_FORMAT, "the record has no target both without protection (none) and with it");
  snprintf(words, sizeof words,
           "of %.0f faults without protection and %.0f with it, drawn alike; with it: %.0f; whiskers: 95 %%",
           planted[0], planted[1], silent);
  const rdt_svg_bars b = {.title = "Wrong results that nobody noticed",
                          .text = words,
                          .unit = "%",
                          .axis = "of all faults",
                          .groups = n,
                          .series = SERIES,
                          .group_names = names,
                          .series_names = series,
                          .values = values[0],
                          .least = values[1],
                          .most = values[2]};
  return rdt_svg_bars_write(&b, path, why);
}
