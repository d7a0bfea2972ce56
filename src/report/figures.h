/* Pictures of what layers compute and of what protecting them costs. */
#ifndef RDT_REPORT_FIGURES_H
#define RDT_REPORT_FIGURES_H

#include <cjson/cJSON.h>

#include "plan/roofline.h"
#include "report/svg.h"

typedef struct rdt_figure_layer {
  const char *name, *scheme; /* scheme: how it is protected */
  int series;                /* of the picture's */
  double times;              /* how often it occurs */
  rdt_work work;
  double before, after; /* seconds without and with protection; NaN: not known */
} rdt_figure_layer;

typedef struct rdt_figure_roofline {
  const char *title, *text;
  rdt_roof roof;
  const rdt_figure_layer *layers;
  int n;
  const char *const *series; /* names; one: no legend */
  int n_series;
  bool bars; /* below: each layer's overhead, and its scheme */
} rdt_figure_roofline;

/* Every layer below the roof of the device, before and after protection. */
rdt_status rdt_figure_roofline_write(const rdt_figure_roofline *f, const char *path, rdt_reason *why);

/* The layers of a plan (docs/schema/plan-2.json, or what `redoubt plan --json` prints), of its first size, with their
 * overheads. RDT_ERR_FORMAT where nothing in it was measured. */
rdt_status rdt_figure_plan_write(const cJSON *plan, const char *name, rdt_roof roof, const char *path, rdt_reason *why);

/* What `redoubt bench published` found: published-strided.svg, -convolution.svg, -constants.svg, of the tables that
 * there are. RDT_ERR_FORMAT */
rdt_status rdt_figure_published_write(const cJSON *found, const char *folder, rdt_reason *why);
/* What `redoubt bench checkpoints` found: checkpoints-2.svg, -3.svg, of each number of cores; of a GPU
 * checkpoints-block.svg, -grid, -clusters, -split, of each form. RDT_ERR_FORMAT */
rdt_status rdt_figure_checkpoints_write(const cJSON *found, const char *folder, rdt_reason *why);
/* Campaigns (docs/schema/campaigns-3.json, or -2) of the same targets without protection and with it: silent
 * corruptions. RDT_ERR_FORMAT where no target has both. */
rdt_status rdt_figure_silent_write(const cJSON *found, const char *path, rdt_reason *why);

enum { RDT_FIGURE_PATH = 1024 };
/* FOLDER/NAME.svg */
rdt_status rdt_figure_path(const char *folder, const char *name, char path[RDT_FIGURE_PATH], rdt_reason *why);
/* The rows of a table by its name; NULL: it is not there. */
const cJSON *rdt_figure_table(const cJSON *found, const char *name);

/* Into folder, which is there. Arithmetic intensity of the built-in workloads: intensity-networks.svg,
 * intensity-layers.svg. */
rdt_status rdt_figures_intensity(const char *folder, rdt_reason *why);
/* What a record gives, or what it has as its result. Of `redoubt bench workloads` (docs/schema/bench-workloads-1.json):
 * overhead-GROUP.svg for each group of workloads, overhead-networks.svg, roofline.svg, crossing.svg. Of `redoubt bench
 * published` and of campaigns: as above, the latter as silent.svg. RDT_ERR_FORMAT */
rdt_status rdt_figures_record(const cJSON *record, const char *name, const char *folder, rdt_reason *why);
/* The rows of another record's tables, which is emptied of them, go behind those of the first. RDT_ERR_FORMAT */
rdt_status rdt_figures_join(cJSON *first, cJSON *other, const char *name, rdt_reason *why);

#endif
