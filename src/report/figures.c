#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "plan/workloads.h"
#include "report/json.h"

enum { NAME = 96, NETWORKS = 64, SCHEMES = 20, LAYERS = 2048 };

rdt_status rdt_figure_path(const char *folder, const char *name, char path[RDT_FIGURE_PATH], rdt_reason *why) {
  const int n = snprintf(path, RDT_FIGURE_PATH, "%s/%s.svg", folder, name);
  return n > 0 && n < RDT_FIGURE_PATH
             ? RDT_OK
             : rdt_fail(why, RDT_ERR_ARG, "%.200s: the name of the folder is too long", folder);
}

static rdt_status write_bars(const rdt_svg_bars *b, const char *folder, const char *name, rdt_reason *why) {
  char path[RDT_FIGURE_PATH];
  RDT_TRY(rdt_figure_path(folder, name, path, why));
  return rdt_svg_bars_write(b, path, why);
}

/* ---- intensities ---- */

static double intensity_of(const rdt_workload *w, int64_t batch, rdt_dtype t, int64_t pad) {
  return rdt_work_intensity(rdt_workload_work(w, batch, t, pad));
}

static double high_definition(const rdt_workload *w) { /* of the same network at 1080 x 1920 */
  char name[NAME];
  const rdt_workload *other;
  int64_t batch;
  snprintf(name, sizeof name, "%s-1080p", w->name);
  return rdt_workload_find(name, &other, &batch, NULL) == RDT_OK ? intensity_of(other, 1, RDT_F16, RDT_INTENSITY_PAD)
                                                                 : NAN;
}

static int by_high_definition(const void *a, const void *b) {
  const double x = high_definition(*(const rdt_workload *const *)a),
               y = high_definition(*(const rdt_workload *const *)b);
  return (x > y) - (x < y);
}

static rdt_status draw_networks(const char *folder, rdt_reason *why) {
  static const char *const series[] = {"1080 x 1920", "224 x 224"};
  const rdt_workload *list[NETWORKS];
  const char *names[NETWORKS];
  double values[2 * NETWORKS];
  int n, count = 0;
  const rdt_workload *table = rdt_workload_table(&n);
  for (int i = 0; i < n && count < NETWORKS; i++)
    if (strncmp(table[i].group, "cnn-224", 7) == 0) list[count++] = &table[i];
  qsort(list, (size_t)count, sizeof *list, by_high_definition);
  for (int i = 0; i < count; i++) {
    names[i] = list[i]->name;
    values[2 * i] = high_definition(list[i]);
    values[2 * i + 1] = intensity_of(list[i], 1, RDT_F16, RDT_INTENSITY_PAD);
  }
  const rdt_svg_bars b = {
      .title = "Aggregate arithmetic intensity of convolutional networks",
      .text = "one image, f16; M, N and K of each layer to multiples of 8; groups ignored unless the name says grouped",
      .axis = "FLOP/byte",
      .groups = count,
      .series = 2,
      .group_names = names,
      .series_names = series,
      .values = values};
  return write_bars(&b, folder, "intensity-networks", why);
}

static rdt_status draw_layers(const char *folder, rdt_reason *why) {
  static const char *const series[] = {"f16"};
  static char text[RDT_WORKLOAD_LAYERS][NAME];
  const char *names[RDT_WORKLOAD_LAYERS];
  double values[RDT_WORKLOAD_LAYERS];
  const rdt_workload *w;
  int64_t batch;
  RDT_TRY(rdt_workload_find("resnet50-1080p", &w, &batch, why));
  for (int i = 0; i < w->count; i++) {
    const rdt_layer *l = &w->layers[i];
    snprintf(text[i], NAME, l->times > 1 ? "%s (%lld times)" : "%s", l->name, (long long)l->times);
    names[i] = text[i];
    values[i] = rdt_work_intensity(rdt_layer_work(l, batch, RDT_F16, RDT_INTENSITY_PAD));
  }
  const rdt_svg_bars b = {.title = "Arithmetic intensity of ResNet-50's layers",
                          .text = "one image of 1080 x 1920, f16; M, N and K to multiples of 8",
                          .axis = "FLOP/byte",
                          .groups = w->count,
                          .series = 1,
                          .group_names = names,
                          .series_names = series,
                          .values = values};
  return write_bars(&b, folder, "intensity-layers", why);
}

rdt_status rdt_figures_intensity(const char *folder, rdt_reason *why) {
  RDT_TRY(draw_networks(folder, why));
  return draw_layers(folder, why);
}

/* ---- records ---- */

typedef struct network {
  char name[NAME];
  const rdt_workload *workload;
  double intensity;
} network;

typedef struct record {
  const cJSON *results, *sums;
  rdt_dtype dtype;
  int threads; /* the most of the record: others are left out */
  rdt_roof roof;
  char machine[NAME];
  network networks[NETWORKS];
  int n_networks;
  char schemes[SCHEMES][NAME]; /* as asked for */
  int n_schemes;
} record;

/* The benchmark's document: a record may have it as its result. */
static const cJSON *found_in(const cJSON *doc) {
  const cJSON *wrapped = cJSON_GetObjectItemCaseSensitive(doc, "result");
  return wrapped ? wrapped : doc;
}

static rdt_status expect_record(const cJSON *doc, const char *name, rdt_reason *why) {
  static const char *const schemas[] = {"redoubt.bench-workloads/1", "redoubt.plan-gpu/1"};
  for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
    if (strcmp(rdt_json_string(found_in(doc), "schema"), schemas[i]) == 0) return RDT_OK;
  return rdt_fail(
      why, RDT_ERR_FORMAT,
      "%.200s: is no record that there are pictures of: `redoubt bench workloads` and `bench published` with --json, "
      "`redoubt plan --device cuda:0` with -o, tools/campaign.py",
      name);
}

const cJSON *rdt_figure_table(const cJSON *doc, const char *name) {
  const cJSON *t;
  cJSON_ArrayForEach(t, rdt_json_list(doc, "tables")) if (strcmp(rdt_json_string(t, "name"), name) ==
                                                          0) return rdt_json_list(t, "rows");
  return NULL;
}

/* How much a row is one of ours that is protected: 0 not at all, 1 by a scheme, 2 as estimates choose, 3 as planned */
static int protected(const cJSON *row) {
  static const char *const words[] = {"redoubt", "redoubt auto", "redoubt plan"};
  for (int i = 0; i < 3; i++)
    if (strcmp(rdt_json_string(row, "what"), words[i]) == 0) return i + 1;
  return 0;
}

static int scheme_at(const record *r, const char *name) {
  for (int i = 0; i < r->n_schemes; i++)
    if (strcmp(r->schemes[i], name) == 0) return i;
  return -1;
}

static int network_at(const record *r, const char *name) {
  for (int i = 0; i < r->n_networks; i++)
    if (strcmp(r->networks[i].name, name) == 0) return i;
  return -1;
}

static int by_intensity(const void *a, const void *b) {
  const double x = ((const network *)a)->intensity, y = ((const network *)b)->intensity;
  return (x > y) - (x < y);
}

/* A GPU's rows name none. */
static int threads_of(const cJSON *row) {
  const double threads = rdt_json_real(row, "threads");
  return threads >= 0.0 ? (int)threads : 0;
}

static bool counts(const record *r, const cJSON *row) {
  return threads_of(row) == r->threads;
}

static rdt_status take_networks(record *r, rdt_reason *why) {
  const cJSON *row;
  cJSON_ArrayForEach(row, r->sums) {
    const char *name = rdt_json_string(row, "workload"), *scheme = rdt_json_string(row, "scheme");
    if (!counts(r, row)) continue;
    if (network_at(r, name) < 0 && r->n_networks < NETWORKS) {
      network *n = &r->networks[r->n_networks++];
      int64_t batch;
      snprintf(n->name, sizeof n->name, "%s", name);
      RDT_TRY(rdt_workload_find(name, &n->workload, &batch, why));
      n->intensity = intensity_of(n->workload, batch, r->dtype, 1);
    }
    if (protected(row) && scheme_at(r, scheme) < 0 && r->n_schemes < SCHEMES)
      snprintf(r->schemes[r->n_schemes++], NAME, "%s", scheme);
  }
  qsort(r->networks, (size_t)r->n_networks, sizeof *r->networks, by_intensity);
  return RDT_OK;
}

static rdt_status take(const cJSON *doc, const char *name, record *r, rdt_reason *why) {
  const cJSON *row;
  RDT_TRY(expect_record(doc, name, why));
  doc = found_in(doc);
  *r = (record){.results = rdt_figure_table(doc, "results"), .sums = rdt_figure_table(doc, "sums"), .dtype = RDT_F32};
  cJSON_ArrayForEach(row, rdt_figure_table(doc, "limits")) {
    const int threads = threads_of(row);
    if (threads < r->threads) continue;
    if (threads > r->threads) r->roof = (rdt_roof){0};
    r->threads = threads;
    r->roof.flops = fmax(r->roof.flops, 1e9 * rdt_json_real(row, "GFLOP/s"));
    r->roof.bandwidth = fmax(r->roof.bandwidth, 1e9 * rdt_json_real(row, "GB/s"));
  }
  const cJSON *first = cJSON_GetArrayItem(r->results, 0),
              *machine = cJSON_GetArrayItem(rdt_figure_table(doc, "machine"), 0);
  const rdt_dtype dtype = rdt_dtype_find(rdt_json_string(first, "dtype"));
  if (dtype != RDT_DTYPE_COUNT) r->dtype = dtype;
  char threads[32] = "";
  if (r->threads) snprintf(threads, sizeof threads, ", %d threads", r->threads);
  snprintf(r->machine, sizeof r->machine, "%.40s, %s%s, %s", rdt_json_string(machine, "cpu"),
           rdt_json_string(machine, "isa"), threads, rdt_dtype_name(r->dtype));
  if (!(r->roof.flops > 0.0) || !(r->roof.bandwidth > 0.0) || !first || !cJSON_GetArrayItem(r->sums, 0))
    return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: the record lacks limits, results or sums", name);
  return take_networks(r, why);
}

/* ---- overheads ---- */

/* Bars of some schemes (their numbers) for some networks. */
typedef struct chart {
  const record *r;
  int schemes[SCHEMES], n_schemes;
  const network *networks[NETWORKS];
  int n_networks;
} chart;

static double percent(const cJSON *row, const char *name) {
  return 100.0 * (rdt_json_real(row, name) - 1.0);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Where a few bars are so long that the others could not be told apart: where to end them. */
static double cut_of(const double *values, int n) {
  double *sorted = rdt_alloc((size_t)n, sizeof *sorted);
  int count = 0;
  for (int i = 0; sorted && i < n; i++)
    if (isfinite(values[i])) sorted[count++] = values[i];
  if (count > 0) qsort(sorted, (size_t)count, sizeof *sorted, by_value);
  const double usual = count > 0 ? sorted[3 * (count - 1) / 4] : 0.0, most = count > 0 ? sorted[count - 1] : 0.0;
  rdt_free(sorted);
  return most > 4.0 * fmax(usual, 2.0) ? 2.5 * fmax(usual, 2.0) : 0.0;
}

static const char *title_of(const char *scheme) {
  return strcmp(scheme, "plan") == 0 ? "planned" : strcmp(scheme, "auto") == 0 ? "by estimates" : scheme;
}

static rdt_status draw_chart(const chart *c, const char *title, const char *folder, const char *file, rdt_reason *why) {
  const record *r = c->r;
  const int n = c->n_networks * c->n_schemes;
  double *memory = rdt_alloc(3 * (size_t)n, sizeof *memory);
  static char labels[NETWORKS][NAME + 16];
  const char *names[NETWORKS], *series[SCHEMES];
  const cJSON *row;
  const double ratio = rdt_roof_ratio(r->roof);
  char text[256], divide[64];
  int below = 0;
  if (!memory) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int i = 0; i < 3 * n; i++) memory[i] = NAN;
  for (int g = 0; g < c->n_networks; g++) {
    snprintf(labels[g], sizeof *labels, "%s (%.3g)", c->networks[g]->name, c->networks[g]->intensity);
    names[g] = labels[g];
    below += c->networks[g]->intensity < ratio;
  }
  for (int k = 0; k < c->n_schemes; k++) series[k] = title_of(r->schemes[c->schemes[k]]);
  cJSON_ArrayForEach(row, r->sums) {
    if (!counts(r, row) || !protected(row)) continue;
    for (int g = 0; g < c->n_networks; g++)
      for (int k = 0; k < c->n_schemes; k++) {
        if (strcmp(rdt_json_string(row, "workload"), c->networks[g]->name) != 0) continue;
        if (strcmp(rdt_json_string(row, "scheme"), r->schemes[c->schemes[k]]) != 0) continue;
        const int i = g * c->n_schemes + k;
        memory[i] = percent(row, "/ none");
        memory[n + i] = percent(row, "least / none");
        memory[2 * n + i] = percent(row, "most / none");
      }
  }
  snprintf(text, sizeof text, "over the own unprotected path; whiskers: blocks of trials; in brackets FLOP/byte; %s",
           r->machine);
  snprintf(divide, sizeof divide, "above %.1f FLOP/byte", ratio);
  const double cut = cut_of(memory, n);
  for (int i = 0; cut > 0.0 && i < n; i++) memory[2 * n + i] = fmin(memory[2 * n + i], cut);
  const rdt_svg_bars b = {.title = title,
                          .text = text,
                          .unit = "%",
                          .axis = "overhead",
                          .groups = c->n_networks,
                          .series = c->n_schemes,
                          .group_names = names,
                          .series_names = series,
                          .values = memory,
                          .least = memory + n,
                          .most = memory + 2 * n,
                          .cut = cut,
                          .divide = below < c->n_networks ? below : 0,
                          .divide_text = divide};
  const rdt_status status = write_bars(&b, folder, file, why);
  rdt_free(memory);
  return status;
}

/* Networks of their own: neither squares nor convolutions that networks have. */
static bool is_network(const char *group) {
  return strcmp(group, "square") != 0 && strncmp(group, "conv", 4) != 0;
}

/* A GPU's record has every check that there is; what the literature compares, and what is usually chosen, is drawn. */
static bool is_drawn(const record *r, int scheme) {
  static const char *const drawn[] = {
      "plan",    "global-classic", "global-classic uncompared", "row", "tile", "col", "global", "thread1",
      "thread2", "replicate"};
  bool found = r->threads > 0;
  for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) found = found || strcmp(r->schemes[scheme], drawn[i]) == 0;
  return found;
}

/* One chart for each group of workloads, and one of all networks with the schemes of the literature and the plan. */
static rdt_status draw_overheads(const record *r, const char *folder, rdt_reason *why) {
  chart all = {.r = r};
  for (int i = 0; i < r->n_networks; i++) {
    const char *group = r->networks[i].workload->group;
    char title[128], file[128];
    chart c = {.r = r};
    bool first = true;
    for (int k = 0; k < i; k++) first = first && strcmp(r->networks[k].workload->group, group) != 0;
    if (is_network(group)) all.networks[all.n_networks++] = &r->networks[i];
    if (!first) continue;
    for (int k = 0; k < r->n_schemes; k++)
      if (is_drawn(r, k)) c.schemes[c.n_schemes++] = k;
    for (int k = i; k < r->n_networks; k++)
      if (strcmp(r->networks[k].workload->group, group) == 0) c.networks[c.n_networks++] = &r->networks[k];
    snprintf(title, sizeof title, "What protection costs: %s", group);
    snprintf(file, sizeof file, "overhead-%s", group);
    RDT_TRY(draw_chart(&c, title, folder, file, why));
  }
  const char *const wanted[] = {r->threads > 0 ? "global" : "global-classic", "thread1",
                                scheme_at(r, "plan") >= 0 ? "plan" : "auto"};
  for (int i = 0; i < 3; i++)
    if (scheme_at(r, wanted[i]) >= 0) all.schemes[all.n_schemes++] = scheme_at(r, wanted[i]);
  if (all.n_networks == 0 || all.n_schemes == 0) return RDT_OK;
  return draw_chart(&all, "What protection costs: all networks", folder, "overhead-networks", why);
}

/* ---- layers ---- */

typedef struct timed {
  rdt_figure_layer layer;
  char name[2 * NAME], scheme[NAME];
  double one, whole; /* seconds with thread1 and with global */
  int chosen;        /* how it is protected: see protected() */
} timed;

static rdt_work work_of(const record *r, const cJSON *row) {
  return rdt_work_of_mnk((int64_t)rdt_json_real(row, "m"), (int64_t)rdt_json_real(row, "n"),
                         (int64_t)rdt_json_real(row, "k"), (int64_t)rdt_json_real(row, "groups"), r->dtype, 1);
}

/* Layers are rows that follow each other. */
static int take_layers(const record *r, timed *list) {
  const cJSON *row;
  int n = 0;
  cJSON_ArrayForEach(row, r->results) {
    const char *what = rdt_json_string(row, "what"), *scheme = rdt_json_string(row, "scheme");
    const int at = network_at(r, rdt_json_string(row, "workload"));
    const double seconds = 1e-3 * rdt_json_real(row, "ms");
    char name[2 * NAME];
    if (!counts(r, row) || at < 0) continue;
    snprintf(name, sizeof name, "%s %s", r->networks[at].name, rdt_json_string(row, "layer"));
    if (n == 0 || strcmp(list[n - 1].name, name) != 0) {
      if (n == LAYERS) break;
      timed *x = &list[n++];
      *x = (timed){.one = NAN, .whole = NAN, .layer = {.series = at, .before = NAN, .after = NAN}};
      memcpy(x->name, name, sizeof name);
      x->layer.work = work_of(r, row);
      x->layer.times = rdt_json_real(row, "times");
    }
    timed *x = &list[n - 1];
    if (strcmp(what, "redoubt none") == 0) x->layer.before = seconds;
    if (protected(row) > x->chosen) {
      x->chosen = protected(row);
      x->layer.after = seconds;
      snprintf(x->scheme, sizeof x->scheme, "%s", scheme);
    }
    if (strcmp(what, "redoubt") == 0 && strcmp(scheme, "thread1") == 0) x->one = seconds;
    if (strcmp(what, "redoubt") == 0 && strcmp(scheme, "global") == 0) x->whole = seconds;
  }
  return n;
}

static rdt_status draw_roofline(const record *r, const timed *list, int n, const char *folder, rdt_reason *why) {
  rdt_figure_layer *layers = rdt_alloc((size_t)n, sizeof *layers);
  const char *series[NETWORKS];
  int groups = 0;
  char text[256], path[RDT_FIGURE_PATH];
  for (int i = 0; i < r->n_networks; i++) series[i] = r->networks[i].name;
  const bool many = r->n_networks > 8 || rdt_svg_legend_width(series, r->n_networks) > 720.0; /* groups */
  if (!layers) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  for (int i = 0; i < n; i++) {
    const network *w = &r->networks[list[i].layer.series];
    const char *name = many ? w->workload->group : w->name;
    int at = 0;
    while (at < groups && strcmp(series[at], name) != 0) at++;
    if (at == groups) series[groups++] = name;
    layers[i] = list[i].layer;
    layers[i].name = list[i].name;
    layers[i].scheme = list[i].scheme;
    layers[i].series = at;
  }
  snprintf(text, sizeof text, "rings: without protection, dots: with it; %s", r->machine);
  const rdt_figure_roofline f = {.title = "Layers below the roof",
                                 .text = text,
                                 .roof = r->roof,
                                 .layers = layers,
                                 .n = n,
                                 .series = series,
                                 .n_series = groups};
  rdt_status status = rdt_figure_path(folder, "roofline", path, why);
  if (status == RDT_OK) status = rdt_figure_roofline_write(&f, path, why);
  rdt_free(layers);
  return status;
}

/* ---- where thread1 and global cross ---- */

static int by_layer_intensity(const void *a, const void *b) {
  const double x = rdt_work_intensity(((const timed *)a)->layer.work),
               y = rdt_work_intensity(((const timed *)b)->layer.work);
  return (x > y) - (x < y);
}

/* The intensity up to which thread1 is to be taken, and global above it, so that all layers together lose least. List
 * in the order of intensity. 0: always global; INFINITY: always thread1. */
static double crossing_of(const timed *list, int n) {
  double lost = 0.0, best, at = 0.0;
  for (int i = 0; i < n; i++) lost += fmax(log(list[i].whole / list[i].one), 0.0); /* always global */
  best = lost;
  for (int i = 0; i < n; i++) {
    const double here = rdt_work_intensity(list[i].layer.work);
    lost += log(list[i].one / list[i].whole);
    if (lost >= best) continue;
    best = lost;
    at = i + 1 < n ? sqrt(here * rdt_work_intensity(list[i + 1].layer.work)) : INFINITY;
  }
  return at;
}

static rdt_status draw_crossing(const record *r, timed *list, int n, const char *folder, rdt_reason *why) {
  static const char *const names[] = {"thread1", "global"};
  int count = 0;
  char path[RDT_FIGURE_PATH], text[256], mark[64];
  for (int i = 0; i < n; i++)
    if (isfinite(list[i].one) && isfinite(list[i].whole) && isfinite(list[i].layer.before)) list[count++] = list[i];
  if (count < 2) return RDT_OK; /* these schemes were not asked for */
  RDT_TRY(rdt_figure_path(folder, "crossing", path, why));
  qsort(list, (size_t)count, sizeof *list, by_layer_intensity);
  const double crossing = crossing_of(list, count), ratio = rdt_roof_ratio(r->roof);
  double *overheads = rdt_alloc(2 * (size_t)count, sizeof *overheads);
  if (!overheads) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  rdt_svg_axis across = {
      .low = 0.5 * ratio, .high = 2.0 * ratio, .log = true, .title = "arithmetic intensity, FLOP/byte"};
  rdt_svg_axis up = {.title = "overhead", .unit = "%"};
  for (int i = 0; i < count; i++) {
    const double here = rdt_work_intensity(list[i].layer.work), base = list[i].layer.before;
    overheads[2 * i] = 100.0 * (list[i].one / base - 1.0);
    overheads[2 * i + 1] = 100.0 * (list[i].whole / base - 1.0);
    across.low = fmin(across.low, here);
    across.high = fmax(across.high, here);
    for (int k = 0; k < 2; k++) {
      up.low = fmin(up.low, overheads[2 * i + k]);
      up.high = fmax(up.high, overheads[2 * i + k]);
    }
  }
  const double cut = cut_of(overheads, 2 * count);
  if (cut > 0.0) up.high = cut;
  rdt_svg_plot p = {.x = 84.0, .y = 104.0, .width = 720.0, .height = 340.0};
  p.across = rdt_svg_axis_round(across);
  p.up = rdt_svg_axis_round(up);
  snprintf(text, sizeof text, "a pair of points for each layer%s; %s", cut > 0.0 ? ", the highest at the edge" : "",
           r->machine);
  p.svg = rdt_svg_open(p.x + p.width + 30.0, p.y + p.height + 56.0, "Where thread1 and global cross", text);
  rdt_svg_legend(p.svg, p.x, 78.0, names, 2);
  rdt_svg_axes(&p);
  rdt_svg_line(p.svg, p.x, rdt_svg_y(&p, 0.0), p.x + p.width, rdt_svg_y(&p, 0.0), RDT_SVG_INK);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < 2; k++)
      rdt_svg_dot(p.svg, rdt_svg_x(&p, rdt_work_intensity(list[i].layer.work)), rdt_svg_y(&p, overheads[2 * i + k]),
                  3.5, true, RDT_SVG_SERIES + k, list[i].name);
  const double limits[] = {ratio, crossing};
  for (int k = 0; k < 2; k++) {
    if (!(limits[k] > 0.0) || !isfinite(limits[k])) continue;
    const double x = rdt_svg_x(&p, limits[k]);
    snprintf(mark, sizeof mark,
             !k                 ? "the device's ratio %.1f"
             : limits[k] < 99.5 ? "cross at %.2g"
                                : "cross at %.0f",
             limits[k]);
    rdt_svg_line(p.svg, x, p.y, x, p.y + p.height, k ? RDT_SVG_INK : RDT_SVG_DASHED);
    rdt_svg_text(p.svg, x + 6.0, p.y + 14.0 + 18.0 * k, RDT_SVG_LEFT, RDT_SVG_INK, mark);
  }
  if (!(crossing > 0.0) || !isfinite(crossing))
    rdt_svg_text(p.svg, p.x + p.width - 6.0, p.y + 14.0, RDT_SVG_RIGHT, RDT_SVG_INK,
                 crossing > 0.0 ? "thread1 is cheaper everywhere" : "global is cheaper everywhere");
  rdt_free(overheads);
  return rdt_svg_close(p.svg, path, why);
}

rdt_status rdt_figures_join(cJSON *first, cJSON *other, const char *name, rdt_reason *why) {
  const cJSON *from;
  RDT_TRY(expect_record(first, "the first record", why));
  RDT_TRY(expect_record(other, name, why));
  cJSON_ArrayForEach(from, rdt_json_list(found_in(other), "tables")) {
    cJSON *rows = (cJSON *)rdt_json_list(from, "rows"), *row;
    cJSON *to = (cJSON *)rdt_figure_table(found_in(first), rdt_json_string(from, "name"));
    while (to && (row = cJSON_DetachItemFromArray(rows, 0)) != NULL) cJSON_AddItemToArray(to, row);
  }
  return RDT_OK;
}

static rdt_status draw_workloads(const cJSON *doc, const char *name, const char *folder, rdt_reason *why) {
  record *r = rdt_alloc(1, sizeof *r);
  timed *list = rdt_alloc(LAYERS, sizeof *list);
  rdt_status status = r && list ? take(doc, name, r, why) : rdt_fail(why, RDT_ERR_NOMEM, "out of memory");
  if (status == RDT_OK) status = draw_overheads(r, folder, why);
  const int n = status == RDT_OK ? take_layers(r, list) : 0;
  if (status == RDT_OK) status = draw_roofline(r, list, n, folder, why);
  if (status == RDT_OK) status = draw_crossing(r, list, n, folder, why);
  rdt_free(list);
  rdt_free(r);
  return status;
}

rdt_status rdt_figures_record(const cJSON *doc, const char *name, const char *folder, rdt_reason *why) {
  const cJSON *found = found_in(doc);
  const char *schema = rdt_json_string(found, "schema");
  if (strcmp(schema, "redoubt.bench-checkpoints/1") == 0 || strcmp(schema, "redoubt.bench-checkpoints-gpu/1") == 0)
    return rdt_figure_checkpoints_write(found, folder, why);
  if (strcmp(schema, "redoubt.bench-published/1") == 0) return rdt_figure_published_write(found, folder, why);
  if (strcmp(schema, "redoubt.campaigns/2") == 0 || strcmp(schema, "redoubt.campaigns/3") == 0) {
    char path[RDT_FIGURE_PATH];
    RDT_TRY(rdt_figure_path(folder, "silent", path, why));
    return rdt_figure_silent_write(found, path, why);
  }
  return draw_workloads(doc, name, folder, why);
}
