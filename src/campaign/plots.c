/* The pictures of a study. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "campaign/study.h"
#include "core/memory.h"
#include "report/json.h"
#include "report/svg.h"

static const double PERCENT = 100.0;

/* Campaigns with faults, in their order: a colour each. */
typedef struct chosen {
  const rdt_found *list[RDT_MOST_FOUND];
  const char *names[RDT_MOST_FOUND];
  int n;
} chosen;

static chosen with_faults(const rdt_study *s) {
  chosen c = {.n = 0};
  for (int i = 0; i < s->n; i++) {
    if (s->list[i].clean || !rdt_count_planted(&s->list[i].tally.data)) continue;
    c.names[c.n] = s->list[i].label;
    c.list[c.n++] = &s->list[i];
  }
  return c;
}

/* A value with its interval; bare: the interval is in its tip alone. */
static void whisker(const rdt_svg_plot *p, double x, rdt_counted v, bool bare, int look, const char *name) {
  char tip[512];
  snprintf(tip, sizeof tip, "%s: %.4g %% (95 %%: %.4g to %.4g %%)", name, PERCENT * v.at, PERCENT * v.in.low,
           PERCENT * v.in.high);
  const double low = bare ? v.at : v.in.low, high = bare ? v.at : v.in.high;
  rdt_svg_whisker(p, x, PERCENT * v.at, PERCENT * low, PERCENT * high, look, tip);
}

/* Those with protection whose time was measured: without it there is neither coverage nor overhead. */
static chosen protected_ones(const rdt_study *s) {
  const chosen all = with_faults(s);
  chosen c = {.n = 0};
  for (int i = 0; i < all.n; i++) {
    if (strcmp(rdt_json_string(all.list[i]->head, "scheme"), "none") == 0) continue;
    if (!isfinite(rdt_found_overhead(all.list[i]))) continue;
    c.names[c.n] = all.names[i];
    c.list[c.n++] = all.list[i];
  }
  return c;
}

static rdt_svg *plot_overhead(const rdt_study *s) {
  static const double LINES = 85.0; /* all that a standard asks for is above it */
  const chosen c = protected_ones(s);
  double most = 1.0, least = LINES;
  for (int i = 0; i < c.n; i++) {
    most = fmax(most, PERCENT * rdt_found_overhead(c.list[i]));
    least = fmin(least, PERCENT * rdt_count_coverage(&c.list[i]->tally.data).in.low);
  }
  if (c.n == 0) return NULL;
  const rdt_svg_axis across = {
      .low = 0.0, .high = most, .title = "overhead: time of a run over the unprotected one, less 1", .unit = "%"};
  const rdt_svg_axis up = {.low = 5.0 * floor(least / 5.0), .high = 100.0, .title = "coverage", .unit = "%"};
  const rdt_svg_plot p =
      rdt_svg_frame("Coverage against overhead", "noticed, of the faults in data that were not masked; 95 % intervals",
                    c.names, c.n, rdt_svg_axis_round(across), up, RDT_SVG_SCALE);
  for (int i = 0; i < RDT_STANDARDS; i++) {
    const double y = rdt_svg_y(&p, PERCENT * rdt_standards[i].share);
    rdt_svg_line(p.svg, p.x, y, p.x + p.width, y, RDT_SVG_DASHED);
  }
  for (int i = 0; i < c.n; i++) {
    const double o = PERCENT * rdt_found_overhead(c.list[i]);
    whisker(&p, rdt_svg_x(&p, o), rdt_count_coverage(&c.list[i]->tally.data), false, RDT_SVG_SERIES + i, c.names[i]);
  }
  return p.svg;
}

/* Rows of counts of each campaign as dots beside each other. */
typedef struct rows {
  const char *title, *text, *axis;
  int n;
  const rdt_count *(*count)(const rdt_found *f, const chosen *c, int i);
  void (*name)(const chosen *c, int i, char *buf, size_t size);
} rows;

/* The end of a long name: where names of layers differ. Not in the middle of a character. */
static const char *shortened(const char *text) {
  enum { MOST = 24 };
  const size_t n = strlen(text);
  const char *from = n > MOST ? text + n - MOST : text;
  while ((*from & 0xC0) == 0x80) from++;
  return from;
}

static rdt_svg *plot_rows(const chosen *c, const rows *r, rdt_counted (*value)(const rdt_count *), double top) {
  int used[512], n = 0;
  char text[160];
  for (int i = 0; i < r->n && n < (int)(sizeof used / sizeof *used); i++) {
    bool any = false;
    for (int k = 0; k < c->n && !any; k++) {
      const rdt_count *count = r->count(c->list[k], c, i);
      any = count && !isnan(value(count).at);
    }
    if (any) used[n++] = i;
  }
  if (n == 0) return NULL;
  const rdt_svg_axis up = {.low = 0.0, .high = top, .title = r->axis, .unit = "%"};
  enum { CROWD = 120 }; /* more intervals than that hide each other */
  const bool crowded = n * c->n > CROWD;
  char told[200];
  snprintf(told, sizeof told, "%s%s", r->text, crowded ? "" : "; 95 % intervals");
  const int step = 1 + n / 40;
  double widest = 0.0;
  for (int j = 0; j < n; j += step) {
    r->name(c, used[j], text, sizeof text);
    widest = fmax(widest, rdt_svg_width(shortened(text)));
  }
  const bool turned = widest > (RDT_SVG_FRAME - 10.0) * step / n; /* side by side they would run into each other */
  const rdt_svg_plot p = rdt_svg_frame(r->title, told, c->names, c->n, (rdt_svg_axis){.low = 0.0, .high = n},
                                       rdt_svg_axis_round(up), turned ? 0.87 * widest + 26.0 : 34.0);
  for (int j = 0; j < n; j++) {
    const double pitch = p.width / n, middle = p.x + (j + 0.5) * pitch;
    r->name(c, used[j], text, sizeof text);
    if (j % step == 0 && turned)
      rdt_svg_turned(p.svg, middle + 4.0, p.y + p.height + 12.0, -60.0, RDT_SVG_RIGHT, RDT_SVG_INK, shortened(text));
    else if (j % step == 0)
      rdt_svg_text(p.svg, middle, p.y + p.height + 18.0, RDT_SVG_MIDDLE, RDT_SVG_INK, shortened(text));
    for (int k = 0; k < c->n; k++) {
      const rdt_count *count = r->count(c->list[k], c, used[j]);
      char tip[400];
      snprintf(tip, sizeof tip, "%s, %s", text, c->names[k]);
      if (count)
        whisker(&p, middle + pitch * 0.8 * ((k + 0.5) / c->n - 0.5), value(count), crowded, RDT_SVG_SERIES + k, tip);
    }
  }
  return p.svg;
}

static const rdt_count *layer_count(const rdt_found *f, const chosen *c, int i) {
  const char *name = c->list[0]->tally.layers[i].name;
  for (int k = 0; k < f->tally.n_layers; k++)
    if (strcmp(f->tally.layers[k].name, name) == 0) return &f->tally.layers[k].count;
  return NULL;
}

static void layer_name(const chosen *c, int i, char *buf, size_t size) {
  snprintf(buf, size, "%s", c->list[0]->tally.layers[i].name);
}

static rdt_svg *by_layer(const rdt_study *s, const char *title, const char *text, const char *axis,
                         rdt_counted (*value)(const rdt_count *)) {
  const chosen c = with_faults(s);
  if (c.n == 0) return NULL;
  const rows r = {title, text, axis, c.list[0]->tally.n_layers, layer_count, layer_name};
  return plot_rows(&c, &r, value, 100.0);
}

static rdt_svg *plot_layers(const rdt_study *s) {
  return by_layer(s, "Silent corruptions by layer",
                  "of the faults in a layer's data (without protection: its vulnerability)", "silent corruptions",
                  rdt_count_sdc);
}

static rdt_svg *plot_layers_covered(const rdt_study *s) {
  return by_layer(s, "Coverage by layer", "noticed, of the faults in a layer's data that were not masked", "coverage",
                  rdt_count_coverage);
}

static const rdt_count *bit_count(const rdt_found *f, const chosen *c, int i) {
  (void)c;
  return &f->tally.bit[i];
}

static void bit_name(const chosen *c, int i, char *buf, size_t size) {
  (void)c;
  snprintf(buf, size, i < RDT_BITS - 1 ? "%d" : "none", i);
}

static rdt_svg *plot_bits(const rdt_study *s) {
  const chosen c = with_faults(s);
  const rows r = {"Silent corruptions by bit",
                  "by the highest bit that was flipped",
                  "silent corruptions",
                  RDT_BITS,
                  bit_count,
                  bit_name};
  return c.n ? plot_rows(&c, &r, rdt_count_sdc, 100.0) : NULL;
}

static rdt_svg *plot_bits_covered(const rdt_study *s) {
  const chosen c = with_faults(s);
  const rows r = {"Coverage by bit", "noticed, of the faults that were not masked, by the highest bit that was flipped",
                  "coverage",        RDT_BITS,
                  bit_count,         bit_name};
  return c.n ? plot_rows(&c, &r, rdt_count_coverage, 100.0) : NULL;
}

static const rdt_count *size_count(const rdt_found *f, const chosen *c, int i) {
  (void)c;
  return &f->tally.size[i];
}

static void size_name(const chosen *c, int i, char *buf, size_t size) {
  (void)c;
  rdt_size_text(i, buf, size);
  char *floors = strstr(buf, " floors");
  if (floors) *floors = '\0';
}

/* Noticed, of all that were planted. */
static rdt_counted noticed(const rdt_count *c) {
  const int64_t n = rdt_count_planted(c);
  return (rdt_counted){n > 0 ? (double)rdt_count_noticed(c) / (double)n : NAN,
                       rdt_stats_wilson(rdt_count_noticed(c), n, RDT_CONFIDENCE)};
}

static rdt_svg *plot_sizes(const rdt_study *s) {
  const chosen c = with_faults(s);
  const rows r = {"Noticed, by size of the effect",
                  "weighted error in units of the detection floor: above 1 all must be",
                  "noticed",
                  RDT_SIZE_NO_FLOOR,
                  size_count,
                  size_name};
  return c.n ? plot_rows(&c, &r, noticed, 100.0) : NULL;
}

/* Ratios of all campaigns of a lambda (0: of any), clean and faulty. */
static void sum_ratios(const rdt_study *s, double lambda, double clean[RDT_RATIO_BINS], double faulty[RDT_RATIO_BINS],
                       double all[2]) {
  for (int b = 0; b < RDT_RATIO_BINS; b++) {
    clean[b] = faulty[b] = 0.0;
    for (int i = 0; i < s->n; i++) {
      if (lambda > 0.0 && s->list[i].tally.lambda != lambda) continue;
      clean[b] += (double)s->list[i].tally.ratio_clean[b];
      faulty[b] += (double)s->list[i].tally.ratio_faulty[b];
    }
    all[0] += clean[b];
    all[1] += faulty[b];
  }
}

static double edge(int bin) {
  return pow(10.0, RDT_RATIO_LOW + (double)bin / RDT_RATIO_DECADE);
}

static rdt_svg *plot_ratios(const rdt_study *s) {
  static const char *const names[] = {"runs without a fault", "faults above the floor"};
  double bins[2][RDT_RATIO_BINS], all[2] = {0.0, 0.0}, most = 0.0;
  sum_ratios(s, 0.0, bins[0], bins[1], all);
  for (int k = 0; k < 2; k++)
    for (int b = 0; b < RDT_RATIO_BINS; b++)
      if (all[k] > 0.0 && bins[k][b] / all[k] > most) most = bins[k][b] / all[k];
  if (!(most > 0.0)) return NULL;
  const rdt_svg_axis across = {.low = edge(0),
                               .high = edge(RDT_RATIO_BINS),
                               .log = true,
                               .title = "largest residual / bound of a run; 1 is the limit"};
  const rdt_svg_axis up = {.low = 0.0, .high = PERCENT * most, .title = "share of the runs", .unit = "%"};
  const rdt_svg_plot p = rdt_svg_frame("Residuals against bounds", "a tenth of a decade each", names, 2, across,
                                       rdt_svg_axis_round(up), RDT_SVG_SCALE);
  for (int k = 0; k < 2; k++)
    for (int b = 0; b < RDT_RATIO_BINS; b++) {
      if (!(bins[k][b] > 0.0)) continue;
      const double x = rdt_svg_x(&p, edge(b)), y = rdt_svg_y(&p, PERCENT * bins[k][b] / all[k]);
      rdt_svg_bar(p.svg, x + k, y, 0.5 * (rdt_svg_x(&p, edge(b + 1)) - x), p.y + p.height - y, RDT_SVG_SERIES + k,
                  NULL);
    }
  rdt_svg_line(p.svg, rdt_svg_x(&p, 1.0), p.y, rdt_svg_x(&p, 1.0), p.y + p.height, RDT_SVG_DASHED);
  return p.svg;
}

/* The statistical bound is in proportion to lambda: at another one, other ratios are above 1. */
static rdt_svg *plot_roc(const rdt_study *s) {
  static const char *const names[] = {"suspects among runs without a fault", "noticed of the faults above the floor"};
  double bins[2][RDT_RATIO_BINS], all[2] = {0.0, 0.0};
  const double lambda = s->n ? s->list[0].tally.lambda : NAN;
  if (lambda > 0.0) sum_ratios(s, lambda, bins[0], bins[1], all);
  if (!(all[1] > 0.0) || !(lambda > 0.0)) return NULL;
  const rdt_svg_axis across = {
      .low = 0.5, .high = 50.0, .log = true, .title = "lambda, width of the statistical bound"};
  const rdt_svg_axis up = {.low = 0.0, .high = 100.0, .title = "share", .unit = "%"};
  const rdt_svg_plot p =
      rdt_svg_frame("False suspects and noticed faults over lambda", "a suspect costs a computation, and is no report",
                    names, 2, across, up, RDT_SVG_SCALE);
  for (int k = 0; k < 2; k++) {
    double above = 0.0;
    for (int b = RDT_RATIO_BINS - 1; b >= 0; b--) {
      above += bins[k][b];
      const double at = lambda * edge(b); /* where ratios from this bin on are above 1 */
      if (all[k] > 0.0 && at >= 0.5 && at <= 50.0)
        rdt_svg_dot(p.svg, rdt_svg_x(&p, at), rdt_svg_y(&p, PERCENT * above / all[k]), 3.0, true, RDT_SVG_SERIES + k,
                    NULL);
    }
  }
  rdt_svg_line(p.svg, rdt_svg_x(&p, lambda), p.y, rdt_svg_x(&p, lambda), p.y + p.height, RDT_SVG_DASHED);
  return p.svg;
}

static const struct {
  const char *name, *caption;
  rdt_svg *(*draw)(const rdt_study *s);
} plots[RDT_STUDY_PLOTS] = {
    {"coverage-overhead", "Dashed: 90, 97 and 99 %, what ISO 26262 asks of ASIL B, C and D.", plot_overhead},
    {"layers", "Each dot is a layer of a campaign; without protection it is the layer's vulnerability (PVF).",
     plot_layers},
    {"coverage-layers", "A silent corruption below the floor counts here, too.", plot_layers_covered},
    {"bits", "Low bits change less than rounding does; high bits of the exponent are what hurts.", plot_bits},
    {"coverage-bits", "Faults in low bits are mostly masked: few are left to be noticed.", plot_bits_covered},
    {"sizes", "Below the floor a check may let go; above it, inside a claim, never.", plot_sizes},
    {"ratios", "What rounding does keeps left of the dashed line, faults above the floor right of it.", plot_ratios},
    {"lambda", "Dashed: the lambda of these campaigns.", plot_roc},
};

const char *rdt_study_plot_name(int i) {
  return plots[i].name;
}

const char *rdt_study_plot_caption(int i) {
  return plots[i].caption;
}

rdt_status rdt_study_plot(const rdt_study *s, int i, char **text, rdt_reason *why) {
  *text = NULL;
  rdt_svg *svg = plots[i].draw(s);
  return svg ? rdt_svg_take(svg, text, why) : RDT_OK;
}
