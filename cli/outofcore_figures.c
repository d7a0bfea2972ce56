#include "outofcore_figures.h"

#include <math.h>

#include "core/file.h"
#include "report/figures.h"
#include "report/spans.h"

void rdt_outofcore_figures_add(rdt_outofcore_figures *f, rdt_product_run *r) {
  if (f->n == RDT_STRATEGY_COUNT) return;
  const int i = f->n++;
  f->run[i].name = rdt_strategy_info(r->result.splits.strategy)->name;
  f->run[i].result = r->result;
  f->run[i].measured = r->measured, f->run[i].predicted = r->predicted, f->run[i].best = r->best;
  r->measured = r->predicted = r->best = (rdt_timeline){0};
}

void rdt_outofcore_figures_clear(rdt_outofcore_figures *f) {
  for (int i = 0; i < f->n; i++) {
    rdt_timeline_clear(&f->run[i].measured);
    rdt_timeline_clear(&f->run[i].predicted);
    rdt_timeline_clear(&f->run[i].best);
  }
  f->n = 0;
}

/* ---- in what each is the best ---- */

typedef double measure_fn(const rdt_matmul_result *r); /* more is better */

static double by_time(const rdt_matmul_result *r) {
  return 1.0 / r->seconds;
}

static double by_rate(const rdt_matmul_result *r) {
  return 1e-9 * r->flops / r->seconds;
}

static double by_intensity(const rdt_matmul_result *r) {
  return r->flops / (r->load_bytes + r->store_bytes);
}

enum { MEASURES = 3 };
static const struct {
  const char *name;
  measure_fn *of;
} measures[MEASURES] = {{"time", by_time}, {"GFLOP/s", by_rate}, {"FLOP/B", by_intensity}};

static double best_of(const rdt_outofcore_figures *f, measure_fn *of) {
  double best = 0.0;
  for (int i = 0; i < f->n; i++) best = fmax(best, of(&f->run[i].result));
  return best;
}

void rdt_outofcore_figures_rank(const rdt_outofcore_figures *f, FILE *to) {
  if (f->n < 2) return;
  for (int m = 0; m < MEASURES; m++) {
    fprintf(to, "%sby %s:", m ? "; " : "\n", measures[m].name);
    double below = INFINITY;
    for (int place = 0; place < f->n; place++) {
      int next = -1;
      for (int i = 0; i < f->n; i++) {
        const double x = measures[m].of(&f->run[i].result);
        if (x < below && (next < 0 || x > measures[m].of(&f->run[next].result))) next = i;
      }
      if (next < 0) break; /* the rest are equal to those before */
      below = measures[m].of(&f->run[next].result);
      fprintf(to, "%s %s", place ? "," : "", f->run[next].name);
    }
  }
  fprintf(to, "\n");
}

/* ---- pictures ---- */

static rdt_status write_timeline(const rdt_outofcore_figures *f, const char *path, rdt_reason *why) {
  rdt_spans list[3 * RDT_STRATEGY_COUNT];
  char name[3 * RDT_STRATEGY_COUNT][80];
  int n = 0;
  for (int i = 0; i < f->n; i++) {
    const rdt_matmul_result *r = &f->run[i].result;
    snprintf(name[n], sizeof name[n], "%s, measured: %.3f s", f->run[i].name, r->seconds);
    list[n] = (rdt_spans){name[n], &f->run[i].measured}, n++;
    snprintf(name[n], sizeof name[n], "%s, predicted%s: %.3f s", f->run[i].name,
             f->run[i].best.n > 0 ? ", its worst case" : "", r->forecast.seconds);
    list[n] = (rdt_spans){name[n], &f->run[i].predicted}, n++;
    if (f->run[i].best.n == 0) continue;
    snprintf(name[n], sizeof name[n], "%s, predicted, its best case: %.3f s", f->run[i].name, r->forecast.best);
    list[n] = (rdt_spans){name[n], &f->run[i].best}, n++;
  }
  return rdt_spans_write(list, n, "Strategies", "What is loaded, multiplied and stored when, each protected", path,
                         why);
}

static rdt_status write_bars(const rdt_outofcore_figures *f, const char *path, rdt_reason *why) {
  const char *groups[RDT_STRATEGY_COUNT], *series[MEASURES];
  double values[RDT_STRATEGY_COUNT * MEASURES];
  for (int m = 0; m < MEASURES; m++) {
    const double best = best_of(f, measures[m].of);
    series[m] = measures[m].name;
    for (int i = 0; i < f->n; i++) values[i * MEASURES + m] = 100.0 * measures[m].of(&f->run[i].result) / best;
  }
  for (int i = 0; i < f->n; i++) groups[i] = f->run[i].name;
  const rdt_svg_bars bars = {.title = "Strategies compared",
                             .text = "In per cent of the best one; of time, its inverse",
                             .unit = "%",
                             .axis = "of the best",
                             .groups = f->n,
                             .series = MEASURES,
                             .group_names = groups,
                             .series_names = series,
                             .values = values};
  return rdt_svg_bars_write(&bars, path, why);
}

/* Below the roof of computing and of loading: where each would be by it, and where it is. */
static rdt_status write_roofline(const rdt_outofcore_figures *f, const char *path, rdt_reason *why) {
  rdt_figure_layer points[RDT_STRATEGY_COUNT];
  const char *series[RDT_STRATEGY_COUNT];
  rdt_roof roof = {0.0, 0.0};
  for (int i = 0; i < f->n; i++) { /* the fastest that was seen */
    const rdt_matmul_result *r = &f->run[i].result;
    roof.flops = fmax(roof.flops, fmax(r->rates.multiply, r->flops / r->seconds));
    roof.bandwidth = fmax(roof.bandwidth, r->rates.load);
  }
  for (int i = 0; i < f->n; i++) {
    const rdt_matmul_result *r = &f->run[i].result;
    const rdt_work work = {r->flops, r->load_bytes + r->store_bytes};
    series[i] = f->run[i].name;
    points[i] = (rdt_figure_layer){.name = f->run[i].name,
                                   .scheme = "rowcol",
                                   .series = i,
                                   .times = 1.0,
                                   .work = work,
                                   .before = rdt_roof_seconds(roof, work),
                                   .after = r->seconds};
  }
  const rdt_figure_roofline picture = {.title = "Strategies below the roof",
                                       .text = "Open: by the roofline; filled: measured. Bytes loaded and stored",
                                       .roof = roof,
                                       .layers = points,
                                       .n = f->n,
                                       .series = series,
                                       .n_series = f->n};
  return rdt_figure_roofline_write(&picture, path, why);
}

static const struct picture {
  const char *name;
  rdt_status (*write)(const rdt_outofcore_figures *f, const char *path, rdt_reason *why);
} pictures[] = {{"outofcore-timeline", write_timeline},
                {"outofcore-strategies", write_bars},
                {"outofcore-roofline", write_roofline}};

/* f NULL: whether it can be written. */
static rdt_status each(const rdt_outofcore_figures *f, const char *folder, rdt_reason *why) {
  for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
    char path[RDT_FIGURE_PATH];
    RDT_TRY(rdt_figure_path(folder, pictures[i].name, path, why));
    RDT_TRY(f ? pictures[i].write(f, path, why) : rdt_file_try(path, why));
  }
  return RDT_OK;
}

rdt_status rdt_outofcore_figures_try(const char *folder, rdt_reason *why) {
  return each(NULL, folder, why);
}

rdt_status rdt_outofcore_figures_write(const rdt_outofcore_figures *f, const char *folder, rdt_reason *why) {
  return each(f, folder, why);
}
