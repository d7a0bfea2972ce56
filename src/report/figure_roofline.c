/* The roofline with every layer, before and after protection. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figures.h"

static double rate(const rdt_figure_layer *l, double seconds) {
  return l->work.flops / seconds * 1e-9;
}

static void extend(rdt_svg_axis *a, double value) {
  if (!isfinite(value) || !(value > 0.0)) return;
  a->low = fmin(a->low, value);
  a->high = fmax(a->high, value);
}

static void draw_roof(const rdt_svg_plot *p, rdt_roof roof) {
  const double ratio = rdt_roof_ratio(roof), peak = roof.flops * 1e-9, slope = roof.bandwidth * 1e-9;
  const double from = fmax(p->across.low, p->up.low / slope), corner = rdt_svg_x(p, ratio), top = rdt_svg_y(p, peak);
  char text[96];
  rdt_svg_line(p->svg, rdt_svg_x(p, from), rdt_svg_y(p, slope * from), corner, top, RDT_SVG_INK);
  rdt_svg_line(p->svg, corner, top, p->x + p->width, top, RDT_SVG_INK);
  rdt_svg_line(p->svg, corner, top, corner, p->y + p->height, RDT_SVG_DASHED);
  snprintf(text, sizeof text, "%.0f GFLOP/s", peak);
  rdt_svg_text(p->svg, p->x + p->width - 4.0, top - 6.0, RDT_SVG_RIGHT, RDT_SVG_INK, text);
  snprintf(text, sizeof text, "%.1f GB/s left of %.1f FLOP/byte", slope, ratio);
  rdt_svg_text(p->svg, corner + 6.0, p->y + p->height - 8.0, RDT_SVG_LEFT, RDT_SVG_INK, text);
}

static void draw_layer(const rdt_svg_plot *p, const rdt_figure_layer *l) {
  const double x = rdt_svg_x(p, rdt_work_intensity(l->work)), before = rdt_svg_y(p, rate(l, l->before)),
               after = rdt_svg_y(p, rate(l, l->after));
  const int look = RDT_SVG_SERIES + l->series;
  char tip[256];
  snprintf(tip, sizeof tip, "%s, %s: %.3g FLOP/byte, %.1f and %.1f GFLOP/s, %+.1f %%", l->name, l->scheme,
           rdt_work_intensity(l->work), rate(l, l->before), rate(l, l->after), 100.0 * (l->after / l->before - 1.0));
  if (isfinite(l->before) && isfinite(l->after)) rdt_svg_line(p->svg, x, before, x, after, RDT_SVG_SOFT);
  if (isfinite(l->before)) rdt_svg_dot(p->svg, x, before, 4.0, false, look, tip);
  if (isfinite(l->after)) rdt_svg_dot(p->svg, x, after, 3.5, true, look, tip);
}

enum { NAME = 28 };
/* Of long names the end, which tells more. */
static const char *short_name(const char *name, char text[NAME + 4]) {
  const size_t length = strlen(name);
  snprintf(text, NAME + 4, "%s%s", length > NAME ? "..." : "", length > NAME ? name + length - NAME : name);
  return text;
}

/* Overheads as bars on a plot of their own: layer by layer, the scheme above. */
static void draw_bars(const rdt_svg_plot *p, const rdt_figure_roofline *f) {
  const double pitch = p->width / f->n, zero = rdt_svg_y(p, 0.0);
  rdt_svg_axes(p);
  for (int i = 0; i < f->n; i++) {
    const rdt_figure_layer *l = &f->layers[i];
    const double over = 100.0 * (l->after / l->before - 1.0), y = rdt_svg_y(p, over), x = p->x + (i + 0.5) * pitch;
    char tip[256], name[NAME + 4];
    snprintf(tip, sizeof tip, "%s, %s: %+.1f %%", l->name, l->scheme, over);
    rdt_svg_turned(p->svg, x + 4.0, p->y + p->height + 14.0, -60.0, RDT_SVG_RIGHT, RDT_SVG_INK,
                   short_name(l->name, name));
    if (!isfinite(over)) continue;
    rdt_svg_bar(p->svg, x - 0.35 * pitch, fmin(y, zero), 0.7 * pitch, fmax(fabs(zero - y), 0.5),
                RDT_SVG_SERIES + l->series, tip);
    if (pitch < 13.0) continue; /* no room for words */
    rdt_svg_turned(p->svg, x + 4.0, fmin(y, zero) - 5.0, -90.0, RDT_SVG_LEFT, RDT_SVG_SOFT, l->scheme);
  }
  rdt_svg_line(p->svg, p->x, zero, p->x + p->width, zero, RDT_SVG_INK);
}

rdt_status rdt_figure_roofline_write(const rdt_figure_roofline *f, const char *path, rdt_reason *why) {
  const double ratio = rdt_roof_ratio(f->roof), peak = f->roof.flops * 1e-9;
  rdt_svg_axis across = {
      .low = 0.5 * ratio, .high = 2.0 * ratio, .log = true, .title = "arithmetic intensity, FLOP/byte"};
  rdt_svg_axis up = {.low = 0.2 * peak, .high = 1.3 * peak, .log = true, .title = "GFLOP/s"};
  rdt_svg_axis over = {.title = "overhead", .unit = "%"};
  for (int i = 0; i < f->n; i++) {
    const rdt_figure_layer *l = &f->layers[i];
    const double overhead = 100.0 * (l->after / l->before - 1.0);
    extend(&across, rdt_work_intensity(l->work));
    extend(&up, rate(l, l->before));
    extend(&up, rate(l, l->after));
    if (!isfinite(overhead)) continue;
    over.low = fmin(over.low, overhead);
    over.high = fmax(over.high, overhead);
  }
  over.high += 0.35 * (over.high - over.low); /* for the words above the bars */
  const bool legend = f->n_series > 1;
  const double width = f->bars ? fmax(720.0, 16.0 * f->n) : 720.0;
  rdt_svg_plot p = {.x = 84.0, .y = legend ? 104.0 : 84.0, .width = width, .height = 380.0};
  p.across = rdt_svg_axis_round(across);
  p.up = rdt_svg_axis_round(up);
  rdt_svg_plot below = {.x = p.x, .y = p.y + p.height + 84.0, .width = width, .height = 200.0};
  below.up = rdt_svg_axis_round(over);
  double longest = 0.0;
  char name[NAME + 4];
  for (int i = 0; i < f->n; i++) longest = fmax(longest, rdt_svg_width(short_name(f->layers[i].name, name)));
  const double bottom = f->bars ? below.y + below.height + 0.87 * longest + 30.0 : p.y + p.height + 56.0;
  p.svg = below.svg = rdt_svg_open(p.x + p.width + 30.0, bottom, f->title, f->text);
  if (legend) rdt_svg_legend(p.svg, p.x, 78.0, f->series, f->n_series);
  rdt_svg_axes(&p);
  draw_roof(&p, f->roof);
  for (int i = 0; i < f->n; i++) draw_layer(&p, &f->layers[i]);
  if (f->bars) draw_bars(&below, f);
  return rdt_svg_close(p.svg, path, why);
}
