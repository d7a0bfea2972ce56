/* The pictures of `redoubt bench published`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "report/figures.h"
#include "report/json.h"

enum { NAMES = 16, GROUPS = 64 };

/* The different words of a member, as they come. */
static int words_of(const cJSON *rows, const char *member, const char *names[NAMES]) {
  const cJSON *row;
  int n = 0;
  cJSON_ArrayForEach(row, rows) {
    const char *word = rdt_json_string(row, member);
    int i = 0;
    while (i < n && strcmp(names[i], word) != 0) i++;
    if (i == n && n < NAMES) names[n++] = word;
  }
  return n;
}

static int place_of(const char *word, const char *const *names, int n) {
  int i = 0;
  while (i < n && strcmp(names[i], word) != 0) i++;
  return i;
}

/* What the paper states: bit error rate, shares of errors that are covered; in the order of the schemes. */
static const struct { double rate, share; } stated[] = {{1e-7, 48.0}, {1e-7, 92.5}};

static rdt_status draw_strided(const cJSON *rows, const char *path, rdt_reason *why) {
  const char *names[NAMES] = {""};
  const int n = words_of(rows, "scheme", names);
  const cJSON *row;
  rdt_svg_axis across = {.low = INFINITY, .high = 0.0, .log = true, .title = "probability that a computed bit flips"};
  const rdt_svg_axis up = {.low = 0.0, .high = 100.0, .title = "rows with all errors located", .unit = "%"};
  cJSON_ArrayForEach(row, rows) {
    across.low = fmin(across.low, rdt_json_real(row, "rate"));
    across.high = fmax(across.high, rdt_json_real(row, "rate"));
  }
  if (!(across.low > 0.0) || !(across.high > across.low))
    return rdt_fail(why, RDT_ERR_FORMAT, "the table \"strided\" has no bit error rates");
  across.low *= 0.6; /* away from the scale of the other axis */
  across.high *= 1.7;
  const rdt_svg_plot p = rdt_svg_frame("One checksum of a row, eight strided ones, a row check",
                                       "of the rows with an error above 0.48; rings: as the paper states it, for a "
                                       "product whose size it does not state",
                                       names, n, across, up, RDT_SVG_SCALE);
  cJSON_ArrayForEach(row, rows) {
    const int k = place_of(rdt_json_string(row, "scheme"), names, n);
    if (k == n) continue; /* more than a picture holds */
    char tip[128];
    snprintf(tip, sizeof tip, "%.40s at %.3g: %.4g %%", names[k], rdt_json_real(row, "rate"),
             rdt_json_real(row, "located"));
    rdt_svg_whisker(&p, rdt_svg_x(&p, rdt_json_real(row, "rate")) + 4.0 * (k - 0.5 * (n - 1)),
                    rdt_json_real(row, "located"), rdt_json_real(row, "located_low"),
                    rdt_json_real(row, "located_high"), RDT_SVG_SERIES + k, tip);
  }
  for (int k = 0; k < (int)(sizeof stated / sizeof *stated) && k < n; k++)
    rdt_svg_dot(p.svg, rdt_svg_x(&p, stated[k].rate) - 14.0, rdt_svg_y(&p, stated[k].share), 5.5, false,
                RDT_SVG_SERIES + k, "as stated");
  return rdt_svg_close(p.svg, path, why);
}

static rdt_status draw_convolution(const cJSON *rows, const char *path, rdt_reason *why) {
  static const char *const series[] = {"filters (FC)", "filters and inputs (FIC)"};
  static const char *const members[] = {"fc", "fc_low", "fc_high", "fic", "fic_low", "fic_high"};
  char text[GROUPS][64];
  const char *names[GROUPS];
  double values[3][2 * GROUPS];
  int n = 0;
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) {
    if (n == GROUPS) break;
    snprintf(text[n], sizeof *text, "%.20s %.10s, %.20s", rdt_json_string(row, "data"), rdt_json_string(row, "dtype"),
             rdt_json_string(row, "place"));
    names[n] = text[n];
    for (int k = 0; k < 6; k++) values[k % 3][2 * n + k / 3] = rdt_json_real(row, members[k]);
    n++;
  }
  const rdt_svg_bars b = {.title = "Bit flips that checksums of a convolution find",
                          .text = "all bits alike, also those that change less than rounding; 95 % intervals",
                          .unit = "%",
                          .axis = "found",
                          .groups = n,
                          .series = 2,
                          .group_names = names,
                          .series_names = series,
                          .values = values[0],
                          .least = values[1],
                          .most = values[2]};
  return n ? rdt_svg_bars_write(&b, path, why) : rdt_fail(why, RDT_ERR_FORMAT, "the table \"convolution\" is empty");
}

static rdt_status draw_constants(const cJSON *rows, const char *path, rdt_reason *why) {
  const char *names[NAMES] = {""};
  const int n = words_of(rows, "decider", names);
  const cJSON *row;
  const rdt_svg_axis across = {.low = 0.0, .high = 100.0, .title = "checks without a fault that cry", .unit = "%"};
  const rdt_svg_axis up = {
      .low = 0.0, .high = 100.0, .title = "flips above a hundredth of rms(C) that are found", .unit = "%"};
  const rdt_svg_plot p = rdt_svg_frame("Constant thresholds and bounds from the data",
                                       "a point for each family of data, scale and arithmetic; top left is where all "
                                       "should be",
                                       names, n, across, up, RDT_SVG_SCALE);
  for (int k = n - 1; k >= 0; k--) /* the first names, the bounds, on top */
    cJSON_ArrayForEach(row, rows) {
      if (strcmp(rdt_json_string(row, "decider"), names[k]) != 0) continue;
      char tip[160];
      snprintf(tip, sizeof tip, "%.30s: %.20s, %.20s, A times %.3g", names[k], rdt_json_string(row, "case"),
               rdt_json_string(row, "family"), rdt_json_real(row, "scale"));
      rdt_svg_dot(p.svg, rdt_svg_x(&p, rdt_json_real(row, "cries")) + 3.0 * k,
                  rdt_svg_y(&p, rdt_json_real(row, "found_large")), 4.0, true, RDT_SVG_SERIES + k, tip);
    }
  return rdt_svg_close(p.svg, path, why);
}

rdt_status rdt_figure_published_write(const cJSON *found, const char *folder, rdt_reason *why) {
  static const struct {
    const char *table, *file;
    rdt_status (*draw)(const cJSON *rows, const char *path, rdt_reason *why);
  } all[] = {{"strided", "published-strided", draw_strided},
             {"convolution", "published-convolution", draw_convolution},
             {"constants", "published-constants", draw_constants}};
  char path[RDT_FIGURE_PATH];
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const cJSON *rows = rdt_figure_table(found, all[i].table);
    if (!rows) continue;
    RDT_TRY(rdt_figure_path(folder, all[i].file, path, why));
    RDT_TRY(all[i].draw(rows, path, why));
  }
  return RDT_OK;
}
