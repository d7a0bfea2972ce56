/* Votes on the way along k: what they cost against how many runs survive, a curve for each number of faults. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figures.h"
#include "report/json.h"

enum { SERIES = 8, LEAST = 2, MOST = 3 };
static const char *const forms[] = {"block", "grid", "clusters", "split"};

typedef struct curves {
  int cores;        /* or, of a GPU, */
  const char *form; /* where copies are */
  int n;
  double faults[SERIES], elements[SERIES];
  char names[SERIES][48];
  const char *list[SERIES];
  double slowest;
} curves;

static bool is_of(const cJSON *row, const curves *c) {
  const bool of =
      c->form ? strcmp(rdt_json_string(row, "form"), c->form) == 0 : rdt_json_real(row, "cores") == c->cores;
  return of && rdt_json_real(row, "time_ratio") > 0.0;
}

static int series_of(const cJSON *row, curves *c) {
  const double faults = rdt_json_real(row, "faults"), elements = c->form ? rdt_json_real(row, "elements") : 0.0;
  int i = 0;
  while (i < c->n && (c->faults[i] != faults || c->elements[i] != elements)) i++;
  if (i < c->n || c->n == SERIES || !(faults >= 0.0)) return i < c->n ? i : -1;
  snprintf(c->names[i], sizeof c->names[i], "%g faults a run%s", faults,
           elements == 1.0  ? ", in one element"
           : elements > 1.0 ? ", apart"
                            : "");
  c->list[i] = c->names[i];
  c->elements[i] = elements;
  c->faults[c->n++] = faults;
  return i;
}

static void draw(const rdt_svg_plot *p, const cJSON *rows, curves *c) {
  const cJSON *row;
  double x[SERIES], y[SERIES];
  bool begun[SERIES] = {false};
  cJSON_ArrayForEach(row, rows) {
    const int i = is_of(row, c) ? series_of(row, c) : -1;
    if (i < 0) continue;
    char tip[96], label[8];
    const double checkpoints = rdt_json_real(row, "checkpoints"), over = rdt_json_real(row, "time_ratio"),
                 survived = rdt_json_real(row, "survived"), at = rdt_svg_x(p, over), up = rdt_svg_y(p, survived);
    const int look = RDT_SVG_SERIES + i;
    if (begun[i]) rdt_svg_line(p->svg, x[i], y[i], at, up, look);
    snprintf(tip, sizeof tip, "%g checkpoints, %s: %.2f x, %.1f %% survived", checkpoints, c->names[i], over, survived);
    snprintf(label, sizeof label, "%.0f", checkpoints);
    rdt_svg_dot(p->svg, at, up, 3.0, true, look, tip);
    if (checkpoints == 0.0 || checkpoints == 1.0 || checkpoints == 4.0 || checkpoints == 16.0)
      rdt_svg_text(p->svg, at + 5.0, up - 4.0, RDT_SVG_LEFT, RDT_SVG_SOFT, label);
    x[i] = at, y[i] = up, begun[i] = true;
  }
}

static rdt_status write_one(const cJSON *rows, curves *c, const char *name, const char *title, const char *folder,
                            bool *any, rdt_reason *why) {
  char path[RDT_FIGURE_PATH];
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) if (is_of(row, c) && series_of(row, c) >= 0) c->slowest =
      fmax(c->slowest, rdt_json_real(row, "time_ratio"));
  if (c->n == 0) return RDT_OK;
  *any = true;
  RDT_TRY(rdt_figure_path(folder, name, path, why));
  const rdt_svg_axis across = {.low = 0.0, .high = c->slowest, .title = "time over the unprotected product"},
                     up = {.low = 0.0, .high = 100.0, .title = "survived", .unit = "%"};
  const rdt_svg_plot p =
      rdt_svg_frame(title, "runs that are right and were not computed again from the start; numbers: checkpoints",
                    c->list, c->n, rdt_svg_axis_round(across), up, RDT_SVG_SCALE);
  if (p.svg) draw(&p, rows, c);
  return rdt_svg_close(p.svg, path, why);
}

rdt_status rdt_figure_checkpoints_write(const cJSON *found, const char *folder, rdt_reason *why) {
  const cJSON *rows = rdt_figure_table(found, "checkpoints");
  char name[32], title[96];
  bool any = false;
  for (int cores = LEAST; cores <= MOST; cores++) {
    snprintf(name, sizeof name, "checkpoints-%d", cores);
    snprintf(title, sizeof title, "Three copies on %d cores: votes on the way along k", cores);
    RDT_TRY(write_one(rows, &(curves){.cores = cores}, name, title, folder, &any, why));
  }
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    snprintf(name, sizeof name, "checkpoints-%s", forms[i]);
    snprintf(title, sizeof title, "Three copies on a GPU (%s): votes on the way along k", forms[i]);
    RDT_TRY(write_one(rows, &(curves){.form = forms[i]}, name, title, folder, &any, why));
  }
  return any ? RDT_OK : rdt_fail(why, RDT_ERR_FORMAT, "the record has no row of a study of checkpoints");
}
