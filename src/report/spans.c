#include "report/spans.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "report/json.h"
#include "report/trace.h"

static const struct {
  const char *name, *kind;
} kinds[RDT_SPAN_KINDS] = {
    {"load of A", "load"}, {"load of B", "load"}, {"product", "product"}, {"store of C", "store"}};

enum { LANES = 2, TRACKS = LANES + 2 /* of each device */, TITLE = 256 };
static const char *const tracks[TRACKS] = {"loads", "products", "beside", "stores"};

static int track_of(const rdt_span *s) {
  return s->device * TRACKS + (s->kind == RDT_SPAN_PRODUCT ? 1 + (s->lane > 0)
                               : s->kind == RDT_SPAN_STORE ? TRACKS - 1
                                                           : 0);
}

static int tracks_of(const rdt_timeline *t) {
  int devices = 1;
  for (int64_t i = 0; i < t->n; i++)
    if (t->list[i].device >= devices) devices = t->list[i].device + 1;
  return devices * TRACKS;
}

static const char *track_name(const rdt_timeline *t, int track, char *text, size_t size) {
  if (tracks_of(t) == TRACKS) return tracks[track];
  snprintf(text, size, "%d: %s", track / TRACKS, tracks[track % TRACKS]);
  return text;
}

static bool is_used(const rdt_timeline *t, int track) {
  for (int64_t i = 0; i < t->n; i++)
    if (track_of(&t->list[i]) == track) return true;
  return track % TRACKS != 2; /* a second product at a time is rare */
}

static void name_of(const rdt_span *s, char *text, size_t size) {
  snprintf(text, size, "%s, block %" PRId64 ", %" PRId64, kinds[s->kind].name, s->row, s->col);
}

/* The name, and how much of it is not there. */
static const char *title_of(const rdt_spans *s, char *text, size_t size) {
  const rdt_timeline *t = s->line;
  if (t->lost == 0) return s->name;
  snprintf(text, size, "%s; the last %" PRId64 " of %" PRId64 " steps are not shown", s->name, t->lost, t->n + t->lost);
  return text;
}

void rdt_spans_trace(cJSON *trace, int process, const rdt_spans *s) {
  char title[TITLE], track[32];
  for (int t = 0; t < tracks_of(s->line); t++)
    if (is_used(s->line, t))
      rdt_trace_track(trace, process, title_of(s, title, sizeof title), t + 1,
                      track_name(s->line, t, track, sizeof track));
  for (int64_t i = 0; i < s->line->n; i++) {
    const rdt_span *x = &s->line->list[i];
    const double seconds = x->end - x->begin;
    char name[96];
    name_of(x, name, sizeof name);
    cJSON *args = rdt_trace_event(trace, process, track_of(x) + 1, name, kinds[x->kind].kind, x->begin, seconds);
    if (x->bytes > 0.0) rdt_json_number(args, "GB_per_second", 1e-9 * x->bytes / seconds);
    if (x->flops > 0.0) rdt_json_number(args, "GFLOP_per_second", 1e-9 * x->flops / seconds);
  }
}

#define HIGH 18.0
#define APART 34.0

static double last_end(const rdt_spans *list, int n) {
  double end = 0.0;
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < list[i].line->n; k++) end = fmax(end, list[i].line->list[k].end);
  return end;
}

/* The tracks of one of them from y on; where they end. */
static double draw(const rdt_svg_plot *p, const rdt_spans *s, double y) {
  char title[TITLE];
  rdt_svg_text(p->svg, p->x, y + 12.0, RDT_SVG_LEFT, RDT_SVG_INK, title_of(s, title, sizeof title));
  y += 20.0;
  char track[32];
  for (int t = 0; t < tracks_of(s->line); t++) {
    if (!is_used(s->line, t)) continue;
    rdt_svg_text(p->svg, p->x - 8.0, y + HIGH - 5.0, RDT_SVG_RIGHT, RDT_SVG_SOFT,
                 track_name(s->line, t, track, sizeof track));
    for (int64_t i = 0; i < s->line->n; i++) {
      const rdt_span *x = &s->line->list[i];
      char tip[160];
      if (track_of(x) != t) continue;
      const int n =
          snprintf(tip, sizeof tip, "%s, block %" PRId64 ", %" PRId64 ": ", kinds[x->kind].name, x->row, x->col);
      snprintf(tip + n, sizeof tip - (size_t)n, "%.4g s from %.4g s on", x->end - x->begin, x->begin);
      const double from = rdt_svg_x(p, x->begin), width = rdt_svg_x(p, x->end) - from;
      rdt_svg_bar(p->svg, from, y, fmax(width - 0.6, 0.4), HIGH - 3.0, RDT_SVG_SERIES + (int)x->kind, tip);
    }
    y += HIGH;
  }
  return y + APART - 20.0;
}

rdt_status rdt_spans_write(const rdt_spans *list, int n, const char *title, const char *text, const char *path,
                           rdt_reason *why) {
  static const char *const names[RDT_SPAN_KINDS] = {"load of A", "load of B", "product and check", "store of C"};
  const double end = last_end(list, n), top = 96.0;
  double height = 0.0;
  if (!(end > 0.0)) return rdt_fail(why, RDT_ERR_FORMAT, "%.200s: nothing was done that could be drawn", path);
  for (int i = 0; i < n; i++) {
    for (int t = 0; t < tracks_of(list[i].line); t++) height += is_used(list[i].line, t) ? HIGH : 0.0;
    height += APART;
  }
  rdt_svg_plot p = {.x = 90.0,
                    .y = top,
                    .width = RDT_SVG_FRAME + 150.0,
                    .height = height,
                    .across = rdt_svg_axis_round((rdt_svg_axis){.low = 0.0, .high = end, .title = "seconds"}),
                    .up = {.low = 0.0, .high = 1.0}};
  p.across.high = end;
  p.svg = rdt_svg_open(p.x + p.width + 30.0, top + height + RDT_SVG_SCALE, title, text);
  if (!p.svg) return rdt_fail(why, RDT_ERR_NOMEM, "out of memory for a picture");
  rdt_svg_legend(p.svg, 20.0, 70.0, names, RDT_SPAN_KINDS);
  const double step = pow(10.0, floor(log10(end))) * (end / pow(10.0, floor(log10(end))) > 4.0 ? 1.0 : 0.5);
  for (double at = 0.0; at <= end * (1.0 + 1e-9); at += step) {
    char number[32];
    const double x = rdt_svg_x(&p, at);
    rdt_svg_line(p.svg, x, p.y, x, p.y + p.height, RDT_SVG_GRID);
    snprintf(number, sizeof number, "%.4g", at);
    rdt_svg_text(p.svg, x, p.y + p.height + 16.0, RDT_SVG_MIDDLE, RDT_SVG_SOFT, number);
  }
  rdt_svg_text(p.svg, p.x + p.width / 2.0, p.y + p.height + 38.0, RDT_SVG_MIDDLE, RDT_SVG_INK, "seconds");
  double y = p.y;
  for (int i = 0; i < n; i++) y = draw(&p, &list[i], y);
  return rdt_svg_close(p.svg, path, why);
}
