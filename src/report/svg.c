#include "report/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/memory.h"

struct rdt_svg {
  FILE *to;
  char *text;
  size_t bytes;
};

static const char style[] =
    "text{font:12px system-ui,'Segoe UI',Roboto,Helvetica,Arial,'DejaVu Sans',sans-serif}\n"
    "text{font-variant-numeric:tabular-nums}\n"
    ".t{font-size:16px;font-weight:600}\n"
    ".bg{fill:#fff}\n"
    "text.ink{fill:#1c2733}text.soft{fill:#576472}\n"
    "line{stroke-width:1}\n"
    "line.ink{stroke:#1c2733}line.soft{stroke:#394653}line.grid{stroke:#e3e6e5}\n"
    "line.dash{stroke:#1c2733;stroke-dasharray:5 4}\n"
    ".c0{fill:#2f6fa8;stroke:#2f6fa8}.c1{fill:#d98324;stroke:#d98324}\n"
    ".c2{fill:#3a8f6b;stroke:#3a8f6b}.c3{fill:#8261b3;stroke:#8261b3}\n"
    ".c4{fill:#c2503f;stroke:#c2503f}.c5{fill:#4aa0a8;stroke:#4aa0a8}\n"
    ".c6{fill:#8a6d46;stroke:#8a6d46}.c7{fill:#8b96a1;stroke:#8b96a1}\n"
    ".c8{fill:#b5527d;stroke:#b5527d}.c9{fill:#5563b8;stroke:#5563b8}\n"
    ".c10{fill:#97a63a;stroke:#97a63a}.c11{fill:#40566a;stroke:#40566a}\n"
    ".c12{fill:#d9a08f;stroke:#d9a08f}.c13{fill:#9ccbe0;stroke:#9ccbe0}\n"
    "rect{stroke-width:0}circle{stroke-width:1.5}circle.o{fill:none}circle.f{fill-opacity:.85}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".bg{fill:#1a2128}\n"
    "text.ink{fill:#e4e8eb}text.soft{fill:#9aa7b2}\n"
    "line.ink{stroke:#e4e8eb}line.soft{stroke:#c2ccd4}line.grid{stroke:#2d373f}line.dash{stroke:#e4e8eb}\n"
    ".c0{fill:#6aa5dc;stroke:#6aa5dc}.c1{fill:#e5a357;stroke:#e5a357}\n"
    ".c2{fill:#64bf97;stroke:#64bf97}.c3{fill:#ab8fdc;stroke:#ab8fdc}\n"
    ".c4{fill:#e58373;stroke:#e58373}.c5{fill:#76c4cb;stroke:#76c4cb}\n"
    ".c6{fill:#bfa27a;stroke:#bfa27a}.c7{fill:#7d8a96;stroke:#7d8a96}\n"
    ".c8{fill:#d9809f;stroke:#d9809f}.c9{fill:#8b97e3;stroke:#8b97e3}\n"
    ".c10{fill:#c0cd6b;stroke:#c0cd6b}.c11{fill:#56718a;stroke:#56718a}\n"
    ".c12{fill:#a8766a;stroke:#a8766a}.c13{fill:#4d7c92;stroke:#4d7c92}\n"
    "circle.o{fill:none}\n"
    "}\n";

static void escaped(rdt_svg *s, const char *text) {
  for (; *text; text++) {
    const unsigned char c = (unsigned char)*text;
    const char *as = c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : NULL;
    if (as)
      fputs(as, s->to);
    else
      fputc(c < 0x20 ? ' ' : c, s->to);
  }
}

rdt_svg *rdt_svg_open(double width, double height, const char *title, const char *text) {
  rdt_svg *s = rdt_calloc(1, sizeof *s);
  if (s) s->to = open_memstream(&s->text, &s->bytes);
  if (!s || !s->to) {
    rdt_free(s);
    return NULL;
  }
  fprintf(s->to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" height=\"%g\" role=\"img\">\n"
          "<title>",
          width, height, width, height);
  escaped(s, title);
  fprintf(s->to, "</title>\n<style>\n%s</style>\n<rect class=\"bg\" width=\"%g\" height=\"%g\"/>\n", style, width,
          height);
  fputs("<text class=\"t ink\" x=\"20\" y=\"30\">", s->to);
  escaped(s, title);
  fputs("</text>\n", s->to);
  rdt_svg_text(s, 20, 50, RDT_SVG_LEFT, RDT_SVG_SOFT, text);
  return s;
}

rdt_status rdt_svg_take(rdt_svg *s, char **text, rdt_reason *why) {
  *text = NULL;
  if (!s) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory while a picture was drawn");
  fputs("</svg>\n", s->to);
  const bool whole = fclose(s->to) == 0;
  if (whole)
    *text = s->text;
  else
    free(s->text);
  rdt_free(s);
  return whole ? RDT_OK : rdt_fail(why, RDT_ERR_NOMEM, "out of memory while a picture was drawn");
}

rdt_status rdt_svg_close(rdt_svg *s, const char *path, rdt_reason *why) {
  char *text;
  RDT_TRY(rdt_svg_take(s, &text, why));
  const rdt_status status = rdt_file_write(path, text, strlen(text), "", 0, why);
  free(text);
  return status;
}

/* ---- strokes ---- */

static const char *class_of(int look, char name[8]) {
  static const char *const names[] = {"ink", "soft", "grid", "dash"};
  if (look < RDT_SVG_SERIES)
    snprintf(name, 8, "%s", names[look]);
  else
    snprintf(name, 8, "c%d", (look - RDT_SVG_SERIES) % RDT_SVG_COLOURS);
  return name;
}

static void ended(rdt_svg *s, const char *element, const char *tip) {
  if (!tip) {
    fputs("/>\n", s->to);
    return;
  }
  fputs("><title>", s->to);
  escaped(s, tip);
  fprintf(s->to, "</title></%s>\n", element);
}

void rdt_svg_line(rdt_svg *s, double x1, double y1, double x2, double y2, int look) {
  char name[8];
  if (!s) return;
  fprintf(s->to, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class_of(look, name), x1, y1,
          x2, y2);
}

void rdt_svg_bar(rdt_svg *s, double x, double y, double width, double height, int look, const char *tip) {
  char name[8];
  if (!s) return;
  fprintf(s->to, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", class_of(look, name), x, y,
          width, height);
  ended(s, "rect", tip);
}

void rdt_svg_dot(rdt_svg *s, double x, double y, double radius, bool filled, int look, const char *tip) {
  char name[8];
  if (!s) return;
  fprintf(s->to, "<circle class=\"%s %c\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", class_of(look, name), filled ? 'f' : 'o',
          x, y, radius);
  ended(s, "circle", tip);
}

void rdt_svg_turned(rdt_svg *s, double x, double y, double degrees, rdt_svg_anchor anchor, int look, const char *text) {
  static const char *const anchors[] = {"start", "middle", "end"};
  char name[8];
  if (!s) return;
  fprintf(s->to, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\"", class_of(look, name), anchors[anchor],
          x, y);
  if (degrees != 0.0) fprintf(s->to, " transform=\"rotate(%.0f %.1f %.1f)\"", degrees, x, y);
  fputc('>', s->to);
  escaped(s, text);
  fputs("</text>\n", s->to);
}

void rdt_svg_text(rdt_svg *s, double x, double y, rdt_svg_anchor anchor, int look, const char *text) {
  rdt_svg_turned(s, x, y, 0.0, anchor, look, text);
}

double rdt_svg_width(const char *text) {
  return 6.7 * (double)strlen(text);
}

double rdt_svg_legend_width(const char *const *names, int n) {
  double width = 0.0;
  for (int i = 0; i < n; i++) width += 34.0 + rdt_svg_width(names[i]);
  return width;
}

void rdt_svg_legend(rdt_svg *s, double x, double y, const char *const *names, int n) {
  for (int i = 0; i < n; i++) {
    rdt_svg_bar(s, x, y - 10.0, 11.0, 11.0, RDT_SVG_SERIES + i, NULL);
    rdt_svg_text(s, x + 16.0, y, RDT_SVG_LEFT, RDT_SVG_INK, names[i]);
    x += 16.0 + rdt_svg_width(names[i]) + 18.0;
  }
}

/* ---- axes ---- */

/* The round number (1, 2 or 5 times a power of ten) that is at least x > 0. */
static double round_up(double x) {
  const double power = pow(10.0, floor(log10(x)));
  const double steps[] = {1.0, 2.0, 5.0, 10.0};
  for (int i = 0; i < 4; i++)
    if (steps[i] * power >= x * (1.0 - 1e-9)) return steps[i] * power;
  return 10.0 * power;
}

static double step_of(const rdt_svg_axis *a) {
  return round_up((a->high - a->low) / 6.0);
}

rdt_svg_axis rdt_svg_axis_round(rdt_svg_axis a) {
  if (!(a.high > a.low)) a.high = a.low + 1.0;
  if (a.log) {
    a.low = 1.0 / round_up(1.0 / a.low);
    a.high = round_up(a.high);
    return a;
  }
  const double step = step_of(&a);
  a.low = floor(a.low / step + 1e-9) * step;
  a.high = ceil(a.high / step - 1e-9) * step;
  return a;
}

static double place(const rdt_svg_axis *a, double value) {
  const double at = a->log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
  return !(at > 0.0) ? 0.0 : at > 1.0 ? 1.0 : at;
}

double rdt_svg_x(const rdt_svg_plot *p, double value) {
  return p->x + p->width * place(&p->across, value);
}

double rdt_svg_y(const rdt_svg_plot *p, double value) {
  return p->y + p->height * (1.0 - place(&p->up, value));
}

static void tick(const rdt_svg_plot *p, bool across, double value, bool labelled) {
  const rdt_svg_axis *a = across ? &p->across : &p->up;
  char text[32];
  snprintf(text, sizeof text, "%g%s", fabs(value) < 1e-12 ? 0.0 : value, a->unit ? a->unit : "");
  if (across) {
    const double x = rdt_svg_x(p, value);
    rdt_svg_line(p->svg, x, p->y, x, p->y + p->height, RDT_SVG_GRID);
    if (labelled) rdt_svg_text(p->svg, x, p->y + p->height + 18.0, RDT_SVG_MIDDLE, RDT_SVG_SOFT, text);
  } else {
    const double y = rdt_svg_y(p, value);
    rdt_svg_line(p->svg, p->x, y, p->x + p->width, y, RDT_SVG_GRID);
    if (labelled) rdt_svg_text(p->svg, p->x - 8.0, y + 4.0, RDT_SVG_RIGHT, RDT_SVG_SOFT, text);
  }
}

static void ticks(const rdt_svg_plot *p, bool across) {
  const rdt_svg_axis *a = across ? &p->across : &p->up;
  if (!a->log) {
    const double step = step_of(a);
    for (int i = 0; i <= (int)round((a->high - a->low) / step); i++) tick(p, across, a->low + i * step, true);
    return;
  }
  static const int digits[] = {1, 2, 5};
  const bool few = a->high / a->low < 2e3;
  for (double power = pow(10.0, floor(log10(a->low) + 1e-9)); power <= a->high * 1.001; power *= 10.0)
    for (int i = 0; i < 3; i++) {
      const double value = digits[i] * power;
      if (value < a->low * 0.999 || value > a->high * 1.001) continue;
      tick(p, across, value, few || i == 0);
    }
}

void rdt_svg_axes(const rdt_svg_plot *p) {
  ticks(p, false);
  rdt_svg_turned(p->svg, p->x - 50.0, p->y + 0.5 * p->height, -90.0, RDT_SVG_MIDDLE, RDT_SVG_SOFT, p->up.title);
  if (!p->across.title) return;
  ticks(p, true);
  rdt_svg_text(p->svg, p->x + 0.5 * p->width, p->y + p->height + 40.0, RDT_SVG_MIDDLE, RDT_SVG_SOFT, p->across.title);
}

rdt_svg_plot rdt_svg_frame(const char *title, const char *text, const char *const *names, int n, rdt_svg_axis across,
                           rdt_svg_axis up, double below) {
  enum { LEFT = 84, LINE = 20, FIRST = 76, RIGHT = 26, HIGH = 300 };
  int lines = 1, line = 0;
  double x = 0.0;
  for (int i = 0; i < n; i++) {
    const double one = rdt_svg_legend_width(&names[i], 1);
    lines += x > 0.0 && x + one > RDT_SVG_FRAME;
    x = x > 0.0 && x + one > RDT_SVG_FRAME ? one : x + one;
  }
  rdt_svg_plot p = {.x = LEFT, .y = FIRST + LINE * lines, .width = RDT_SVG_FRAME, .height = HIGH};
  p.across = across;
  p.up = up;
  p.svg = rdt_svg_open(p.x + p.width + RIGHT, p.y + p.height + below, title, text);
  x = 0.0;
  for (int i = 0; i < n; i++) {
    const double one = rdt_svg_legend_width(&names[i], 1);
    if (x > 0.0 && x + one > RDT_SVG_FRAME) {
      line++;
      x = 0.0;
    }
    rdt_svg_bar(p.svg, p.x + x, FIRST + LINE * line - 10.0, 11.0, 11.0, RDT_SVG_SERIES + i, NULL);
    rdt_svg_text(p.svg, p.x + x + 16.0, FIRST + LINE * line, RDT_SVG_LEFT, RDT_SVG_INK, names[i]);
    x += one;
  }
  rdt_svg_axes(&p);
  return p;
}

void rdt_svg_whisker(const rdt_svg_plot *p, double x, double at, double low, double high, int look, const char *tip) {
  if (isnan(at)) return;
  rdt_svg_line(p->svg, x, rdt_svg_y(p, low), x, rdt_svg_y(p, high), RDT_SVG_SOFT);
  rdt_svg_dot(p->svg, x, rdt_svg_y(p, at), 4.5, true, look, tip);
}

/* ---- bars ---- */

static void extend(const rdt_svg_bars *b, const double *values, rdt_svg_axis *a) {
  for (int i = 0; values && i < b->groups * b->series; i++) {
    if (!isfinite(values[i])) continue;
    a->low = fmin(a->low, values[i]);
    a->high = fmax(a->high, values[i]);
  }
}

static void one_bar(const rdt_svg_bars *b, const rdt_svg_plot *p, int g, int k, double x, double width) {
  const int i = g * b->series + k;
  const double value = b->values[i], zero = rdt_svg_y(p, 0.0), top = rdt_svg_y(p, value);
  char text[160], range[64] = "";
  if (!isfinite(value)) return;
  const bool known = b->least && b->most && isfinite(b->least[i]) && isfinite(b->most[i]);
  const char *unit = b->unit ? b->unit : "";
  if (known) snprintf(range, sizeof range, " (%.1f%s to %.1f%s)", b->least[i], unit, b->most[i], unit);
  snprintf(text, sizeof text, "%s, %s: %.1f%s%s", b->group_names[g], b->series_names[k], value, unit, range);
  rdt_svg_bar(p->svg, x, fmin(top, zero), width, fmax(fabs(zero - top), 0.5), RDT_SVG_SERIES + k, text);
  double above = fmin(top, zero);
  if (known && width >= 4.0) {
    const double middle = x + 0.5 * width, low = rdt_svg_y(p, b->least[i]), high = rdt_svg_y(p, b->most[i]);
    const double arm = fmin(3.0, 0.3 * width);
    rdt_svg_line(p->svg, middle, low, middle, high, RDT_SVG_SOFT);
    rdt_svg_line(p->svg, middle - arm, low, middle + arm, low, RDT_SVG_SOFT);
    rdt_svg_line(p->svg, middle - arm, high, middle + arm, high, RDT_SVG_SOFT);
    above = fmin(above, high);
  }
  const bool cut = b->cut > 0.0 && value > b->cut;
  if (!cut && width < 20.0) return; /* no room for a number */
  snprintf(text, sizeof text, value < (width < 25.0 ? 9.95 : 99.95) && !cut ? "%.1f" : "%.0f", value);
  if (cut && width < 26.0)
    rdt_svg_turned(p->svg, x + 0.5 * width + 4.0, p->y - 4.0, -90.0, RDT_SVG_LEFT, RDT_SVG_SOFT, text);
  else
    rdt_svg_text(p->svg, x + 0.5 * width, above - 5.0, RDT_SVG_MIDDLE, RDT_SVG_SOFT, text);
}

static double longest(const char *const *names, int n) {
  double most = 0.0;
  for (int i = 0; i < n; i++) most = fmax(most, rdt_svg_width(names[i]));
  return most;
}

rdt_status rdt_svg_bars_write(const rdt_svg_bars *b, const char *path, rdt_reason *why) {
  const double bar = b->series == 1 ? 26.0 : fmax(9.0, fmin(24.0, 110.0 / b->series));
  const double widest = longest(b->group_names, b->groups), one = fmax(bar * b->series + 14.0, 30.0);
  const bool turned = widest > one - 4.0;
  const double below = turned ? fmin(190.0, 0.71 * widest + 24.0) : 34.0;
  rdt_svg_axis up = {.title = b->axis, .unit = b->unit};
  extend(b, b->values, &up);
  const double low = 1.5 * up.low - 0.25 * up.high,
               high = 1.6 * up.high; /* whiskers may leave the picture, not rule it */
  extend(b, b->least, &up);
  extend(b, b->most, &up);
  up.low = fmax(up.low, low);
  up.high = fmin(up.high, b->cut > 0.0 ? b->cut : high);
  const double legend = b->series > 1 ? 24.0 : 0.0;
  rdt_svg_plot p = {.x = 84.0, .y = 84.0 + legend, .width = fmax(one * b->groups, 360.0), .height = 300.0};
  p.up = rdt_svg_axis_round(up);
  const double legends = b->series > 1 ? p.x + rdt_svg_legend_width(b->series_names, b->series) : 0.0;
  const double words = fmax(40.0 + rdt_svg_width(b->text), legends);
  p.width = fmax(p.width, words - p.x - 24.0);
  p.svg = rdt_svg_open(p.x + p.width + 24.0, p.y + p.height + below + 16.0, b->title, b->text);
  if (b->series > 1) rdt_svg_legend(p.svg, p.x, 78.0, b->series_names, b->series);
  rdt_svg_axes(&p);
  const double pitch = p.width / b->groups, thick = fmin(bar, (pitch - 10.0) / b->series);
  for (int g = 0; g < b->groups; g++) {
    const double middle = p.x + (g + 0.5) * pitch;
    for (int k = 0; k < b->series; k++) one_bar(b, &p, g, k, middle + (k - 0.5 * b->series) * thick + 0.5, thick - 1.0);
    if (turned)
      rdt_svg_turned(p.svg, middle + 4.0, p.y + p.height + 16.0, -45.0, RDT_SVG_RIGHT, RDT_SVG_INK, b->group_names[g]);
    else
      rdt_svg_text(p.svg, middle, p.y + p.height + 20.0, RDT_SVG_MIDDLE, RDT_SVG_INK, b->group_names[g]);
  }
  rdt_svg_line(p.svg, p.x, rdt_svg_y(&p, 0.0), p.x + p.width, rdt_svg_y(&p, 0.0), RDT_SVG_INK);
  if (b->divide > 0) {
    const double x = p.x + b->divide * pitch;
    rdt_svg_line(p.svg, x, p.y, x, p.y + p.height, RDT_SVG_DASHED);
    rdt_svg_text(p.svg, x + 6.0, p.y + 12.0, RDT_SVG_LEFT, RDT_SVG_INK, b->divide_text);
  }
  return rdt_svg_close(p.svg, path, why);
}
