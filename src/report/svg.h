/* Pictures as SVG that needs nothing else: axes, bars with the range of their trials, points; readable in light and
 * dark. Lengths are pixels, y goes down. */
#ifndef RDT_REPORT_SVG_H
#define RDT_REPORT_SVG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

typedef struct rdt_svg rdt_svg;

/* How things look: RDT_SVG_SERIES + i is colour i of RDT_SVG_COLOURS, fill and line. */
typedef enum rdt_svg_look {
  RDT_SVG_INK,    /* text, what is marked */
  RDT_SVG_SOFT,   /* text beside it, whiskers */
  RDT_SVG_GRID,   /* lines behind */
  RDT_SVG_DASHED, /* a limit */
  RDT_SVG_SERIES
} rdt_svg_look;
enum { RDT_SVG_COLOURS = 14 };

typedef enum rdt_svg_anchor { RDT_SVG_LEFT, RDT_SVG_MIDDLE, RDT_SVG_RIGHT } rdt_svg_anchor;

/* NULL: no memory. The title stands above, in bold; the text below it. */
rdt_svg *rdt_svg_open(double width, double height, const char *title, const char *text);
/* The file is whole or untouched. RDT_ERR_IO, RDT_ERR_NOMEM (also where svg is NULL). Frees it in any case. */
rdt_status rdt_svg_close(rdt_svg *svg, const char *path, rdt_reason *why);
/* The same as a text, to be freed with free(). */
rdt_status rdt_svg_take(rdt_svg *svg, char **text, rdt_reason *why);

void rdt_svg_line(rdt_svg *svg, double x1, double y1, double x2, double y2, int look);
/* tip: what a pointer over it shows; NULL: nothing */
void rdt_svg_bar(rdt_svg *svg, double x, double y, double width, double height, int look, const char *tip);
void rdt_svg_dot(rdt_svg *svg, double x, double y, double radius, bool filled, int look, const char *tip);
void rdt_svg_text(rdt_svg *svg, double x, double y, rdt_svg_anchor anchor, int look, const char *text);
void rdt_svg_turned(rdt_svg *svg, double x, double y, double degrees, rdt_svg_anchor anchor, int look,
                    const char *text);
/* A box with each name, in a row from x on. */
void rdt_svg_legend(rdt_svg *svg, double x, double y, const char *const *names, int n);
double rdt_svg_width(const char *text); /* about */
double rdt_svg_legend_width(const char *const *names, int n);

typedef struct rdt_svg_axis {
  double low, high; /* raised to round numbers by rdt_svg_axis_round */
  bool log;
  const char *title, *unit; /* unit: behind each number, "%"; NULL: none */
} rdt_svg_axis;

typedef struct rdt_svg_plot {
  rdt_svg *svg;
  double x, y, width, height;
  rdt_svg_axis across, up; /* across.title NULL: it has no scale */
} rdt_svg_plot;

rdt_svg_axis rdt_svg_axis_round(rdt_svg_axis a);
void rdt_svg_axes(const rdt_svg_plot *p);
/* A plot of the usual size with axes and, below its words, a legend: as many names a line as fit. below: room for what
 * stands under the axis; RDT_SVG_SCALE where that is a scale with its title. */
#define RDT_SVG_FRAME 650.0 /* its width */
#define RDT_SVG_SCALE 56.0
rdt_svg_plot rdt_svg_frame(const char *title, const char *text, const char *const *names, int n, rdt_svg_axis across,
                           rdt_svg_axis up, double below);
/* A dot at x pixels with its interval; nothing where the value is NaN. */
void rdt_svg_whisker(const rdt_svg_plot *p, double x, double at, double low, double high, int look, const char *tip);
double rdt_svg_x(const rdt_svg_plot *p, double value); /* what lies beyond the axis stays at its end */
double rdt_svg_y(const rdt_svg_plot *p, double value);

/* Groups of bars, one for each series. Values that are not finite are left out. */
typedef struct rdt_svg_bars {
  const char *title, *text, *unit, *axis;
  int groups, series;
  const char *const *group_names, *const *series_names;
  const double *values;       /* groups x series */
  const double *least, *most; /* of the trials; NULL: not known */
  double cut;                 /* bars end here, and say how far they would go; 0: none does */
  int divide;                 /* a dashed line before this group; 0: none */
  const char *divide_text;
} rdt_svg_bars;
rdt_status rdt_svg_bars_write(const rdt_svg_bars *b, const char *path, rdt_reason *why);

#endif
